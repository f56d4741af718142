//! One server that fails while two workers write: whatever happens to it, nobody waits and nothing is lost.

use std::time::{Duration, Instant};

use anabranch_store::cassandra::Cassandra;
use anabranch_store::{
    Batch, Call, Change, Content, Driver as _, Entry, Flusher, Key, Kind, Operation,
    Outcome as Done, Place, Scope, Status, view,
};

use crate::cable::Cable;
use crate::cql::Cql;
use crate::failing::{self, Outcome, run};
use crate::server::Server;
use crate::{RELEASE, alone, driver};

/// Longer than any question may take: reads, as looks are, have ten timeouts.
const STILL: Duration = Duration::from_secs(22);

/// Lets `fault` happen while transactions are under way, of which nobody is told what became of them; in a key space
/// of its own, where nothing is yet.
#[allow(clippy::print_stdout)] // how long parts took
fn failed(server: &mut Server, what: &str, fault: &dyn Fn(&mut Server)) -> Status {
    let address = server.address_in(what, "consistency=one&timeout_ms=2000");
    let began = Instant::now();
    let Outcome { status, worst, slowest } = run(
        || driver(&address),
        (failing::settings(), Duration::from_secs(120)),
        || {
            // Until it has stored something.
            std::thread::sleep(Duration::from_secs(2));
            fault(server);
        },
    );
    println!("{what}, {:?}, slowest batch {slowest:?}: {status:?}", began.elapsed());
    assert!(worst.lag_ns > 500_000_000 && worst.waiting > 0, "{what}: {worst:?}");
    assert!(status.failures > 0, "{what}: {status:?}");
    status
}

pub fn stopped_for_some_seconds(server: &mut Server) {
    let status = failed(server, "stopped", &|server| {
        server.signal("STOP");
        std::thread::sleep(STILL);
        server.signal("CONT");
    });
    assert_eq!(status.rebuilds, 0, "it had everything");
}

pub fn started_again_with_nothing(server: &mut Server) {
    let status = failed(server, "emptied", &|server| server.restart_empty());
    assert!(status.rebuilds >= 2, "{status:?}");
}

fn killed_and_started_again(server: &mut Server) {
    let status = failed(server, "killed", &|server| server.restart());
    assert_eq!(status.rebuilds, 0, "it has its log");
}

fn cut_off_for_some_seconds(server: &mut Server) {
    if server.cable.is_none() {
        return;
    }
    let status = failed(server, "cut", &|server| {
        server.cable.as_ref().unwrap().cut();
        std::thread::sleep(STILL);
        server.cable.as_ref().unwrap().join();
    });
    assert_eq!(status.rebuilds, 0, "it had everything");
}

/// Somebody removes state under a run, and marks stay: of an object; of all, while transactions are under way that have
/// read them before.
fn emptied_by_somebody(server: &Server) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let address = server.address_in("deleted", "consistency=one&timeout_ms=2000");
    let (flusher, _) = Flusher::open(driver(&address), "nat", "edge", failing::settings()).unwrap();
    let mut feed = flusher.feed();
    let flows = |shard| {
        let scope = Scope::new("nat", "edge", Place::Shard(shard)).unwrap();
        scope.key(Kind::Map, "flows").unwrap()
    };
    let flow = |flow: u32| Entry::Pair(flow.to_be_bytes().into(), vec![7]);
    let count = |shard: u16| flows(shard).scope().key(Kind::Counter, "n").unwrap();
    for shard in 0..3 {
        (0..200).for_each(|n| feed.change(Change::insert(&flows(shard), flow(n))));
        feed.change(Change::put(&count(shard), Content::Counter(200)));
    }
    feed.hand_over_surely();
    assert_eq!(flusher.settle(PATIENCE).waiting, 0);
    let mut beside = driver(&address);
    let mut stored = || view::state(&mut beside, "nat", None).unwrap();
    let written = stored();
    assert_eq!(written.values().map(Content::len).sum::<usize>(), 603);
    let cql = Cql::of(&server.node());
    let of = |key: &Key, what: &str| {
        let scope = key.scope();
        format!("DELETE FROM deleted.anabranch_state WHERE scope = '{scope}' AND {what}")
    };
    let written_again = |flusher: &Flusher| flusher.status().rebuilds;
    let deeds = [
        of(&flows(0), "kind = 'map'"),
        of(&count(1), "kind = 'counter'"),
        "TRUNCATE deleted.anabranch_state".to_string(),
        "TRUNCATE deleted.anabranch_state".to_string(),
    ];
    for deed in deeds {
        let before = written_again(&flusher);
        cql.ask(&deed);
        let began = Instant::now();
        // What has not changed since is found to lack.
        while written_again(&flusher) == before || stored() != written {
            assert!(began.elapsed() < PATIENCE, "in vain after {deed}");
            (0..3).for_each(|shard| feed.change(Change::insert(&flows(shard), flow(5))));
            feed.hand_over_surely();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(flusher.close(PATIENCE).trouble, None);
}

/// More rows are to go than a transaction takes statements.
fn a_large_object_is_replaced(server: &Server) {
    const MANY: u32 = 70_000;
    let mut driver = driver(&server.address_in("large", "consistency=one&timeout_ms=30000"));
    let scope = Scope::new("nat", "edge", Place::Shard(0)).unwrap();
    let (mark, map) =
        (scope.key(Kind::Value, "mark").unwrap(), scope.key(Kind::Map, "flows").unwrap());
    let insert = |flow: u32| {
        let pair = Entry::Pair(flow.to_be_bytes().into(), vec![7]);
        Call::new(&map, Operation::Insert(pair))
    };
    let mut expected = None;
    let mut commit = |driver: &mut Cassandra, calls: Vec<Call>| {
        let next = vec![expected.as_ref().map_or(0, |mark: &Vec<u8>| mark[0] + 1)];
        let (mark, expected) = (mark.clone(), expected.replace(next.clone()));
        let batch = Batch { mark, expected, next, present: Vec::new(), calls };
        assert_eq!(driver.commit(&[batch]).unwrap(), [Done::Committed]);
    };
    for first in (0..MANY).step_by(4_000) {
        commit(&mut driver, (first..MANY.min(first + 4_000)).map(insert).collect());
    }
    let delete = Call::new(&map, Operation::Delete);
    commit(&mut driver, [vec![delete], (5..8).map(insert).collect()].concat());
    assert_eq!(view::read(&mut driver, &map).unwrap().unwrap().len(), 3);
}

#[test]
fn whatever_happens_to_it_nobody_waits_and_nothing_is_lost() {
    let _alone = alone();
    let Some(mut server) = Server::start_behind(Cable::lay(), RELEASE) else { return };
    a_large_object_is_replaced(&server);
    emptied_by_somebody(&server);
    killed_and_started_again(&mut server);
    stopped_for_some_seconds(&mut server);
    cut_off_for_some_seconds(&mut server);
    started_again_with_nothing(&mut server);
}
