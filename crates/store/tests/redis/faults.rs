//! Write-behind to real servers that fail: no worker waits, and the store ends with the right values.

use std::thread;
use std::time::{Duration, Instant};

use anabranch_store::{
    Batch, Call, Change, Content, Driver, Entry, Flusher, Key, Kind, Operation, Place, Policy,
    Reply, Scope, Settings, Status, view,
};

use crate::cable::Cable;
use crate::failing::{Outcome, run, settings};
use crate::relay::Relay;
use crate::server::{Cluster, Server, Watched, available, until};
use crate::{ask, by_socket, driver};

/// Longest that a server may take for all that waits at the end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a store was seen that takes nothing for a second.
fn is_late(worst: &Status) -> bool {
    worst.lag_ns > 800_000_000 && worst.waiting > 1_000
}

#[test]
fn without_a_fault_nothing_is_late() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let address = by_socket(&server);
    let outcome = run(|| driver(&address), (settings(), PATIENCE), || {});
    let Outcome { status, worst, slowest } = outcome;
    assert_eq!((status.failures, status.rebuilds), (0, 0));
    assert!(status.stored > 5_000, "{status:?}");
    assert!(worst.accepts_new && worst.trouble.is_none(), "{worst:?}");
    println!("slowest batch {slowest:?}; {status:?}");
}

#[test]
fn a_server_that_is_killed_and_comes_back_empty_gets_everything_again() {
    if !available() {
        return;
    }
    let mut server = Server::start(&[]);
    let address = by_socket(&server);
    let refuse = Settings { policy: Policy::RefuseNew, slow_ns: 200_000_000, ..settings() };
    let outcome = run(
        || driver(&address),
        (refuse, PATIENCE),
        || {
            server.kill();
            thread::sleep(Duration::from_millis(600));
            server.restart();
        },
    );
    let Outcome { status, worst, .. } = outcome;
    assert!(status.failures > 0 && status.rebuilds >= 2, "{status:?}");
    assert!(worst.lag_ns > 400_000_000 && worst.waiting > 500, "{worst:?}");
    assert!(!worst.accepts_new, "{worst:?}");
    assert!(worst.trouble.is_some_and(|why| why.contains("does not answer")));
}

#[test]
fn a_server_that_is_stopped_delays_nobody() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let address = by_socket(&server);
    let outcome = run(
        || driver(&address),
        (settings(), PATIENCE),
        || {
            server.signal("STOP");
            thread::sleep(Duration::from_millis(1_200));
            server.signal("CONT");
        },
    );
    let Outcome { status, worst, .. } = outcome;
    assert!(status.failures > 0 && status.rebuilds == 0, "{status:?}");
    assert!(is_late(&worst) && worst.accepts_new, "{worst:?}");
}

/// Neither end is told that the network is cut: connections stay open, and nothing comes. With it the server is
/// started again empty, of which the instance learns afterwards.
#[test]
fn a_network_that_is_cut_delays_nobody() {
    if !available() {
        return;
    }
    for is_emptied in [false, true] {
        let Some(cable) = Cable::lay() else { return };
        let mut server = Server::start_behind(Some(cable), &[]);
        let address = format!("redis://{}?timeout_ms=300", server.node());
        let Outcome { status, worst, .. } = run(
            || driver(&address),
            (settings(), PATIENCE),
            || {
                server.cable.as_ref().unwrap().cut();
                thread::sleep(Duration::from_millis(1_500));
                if is_emptied {
                    server.restart();
                }
                server.cable.as_ref().unwrap().join();
            },
        );
        assert!(status.failures > 0, "{status:?}");
        assert_eq!(status.rebuilds, if is_emptied { 2 } else { 0 }, "{status:?}");
        assert!(is_late(&worst) && worst.trouble.is_some(), "{worst:?}");
    }
}

#[test]
fn a_line_that_dribbles_delays_nobody() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let relay = Relay::to(server.node());
    let address = format!("redis://{}/3?timeout_ms=200", relay.node());
    let Outcome { status, worst, .. } = run(
        || driver(&address),
        (settings(), PATIENCE),
        || {
            relay.dribble(true);
            thread::sleep(Duration::from_millis(1_500));
            relay.dribble(false);
        },
    );
    assert!(status.failures > 0 && status.rebuilds == 0, "{status:?}");
    let trouble = worst.trouble.unwrap_or_default();
    assert!(trouble.contains("no answer within 200 ms"), "{trouble}");
}

#[test]
fn a_slow_server_and_connections_that_break_lose_nothing() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let address = format!("redis://{}?timeout_ms=5000", server.node());
    let Outcome { status, worst, .. } = run(
        || driver(&address),
        (settings(), PATIENCE),
        || {
            for _ in 0..3 {
                server.ask::<()>(&["CLIENT", "PAUSE", "1200", "ALL"]);
                thread::sleep(Duration::from_millis(1_300));
                server.ask::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
        },
    );
    assert!(status.failures > 0 && status.rebuilds == 0, "{status:?}");
    assert!(is_late(&worst), "{worst:?}");
}

/// Until every scope that is there has been written.
fn await_writes(server: &Server) {
    let marks = || {
        let mut keys: Vec<String> = server.ask(&["KEYS", "*@value@.mark"]);
        keys.sort();
        keys.iter().map(|key| server.ask(&["GET", key])).collect::<Vec<String>>()
    };
    let before = marks();
    assert!(!before.is_empty(), "no scope is there");
    until("all scopes are written", || marks().iter().zip(&before).all(|(now, then)| now != then));
}

/// Kills the master after the replica has stopped to follow it: what was answered in between is lost with it.
fn fail_over(master: &mut Server, replica: &Server) {
    replica.signal("STOP");
    // What was sent to the replica until now it may read yet.
    master.ask::<()>(&["CLIENT", "KILL", "TYPE", "replica"]);
    await_writes(master);
    master.kill();
    replica.signal("CONT");
    until("the replica has taken over", || replica.says("replication", "role:master"));
}

#[test]
fn a_cluster_that_fails_over_without_its_last_writes_gets_them_again() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(true);
    let address = cluster.address();
    let (mut masters, replica) = (cluster.masters, cluster.replica.unwrap());
    // Else all of them refuse once they find that one is gone, and nobody has taken over yet: however soon that is.
    for server in masters.iter().chain([&replica]) {
        server.ask::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let Outcome { status, worst, .. } = run(
        || driver(&address),
        (settings(), PATIENCE),
        || {
            fail_over(&mut masters[0], &replica);
            until("the cluster works", || {
                replica.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
            });
        },
    );
    // Of the scopes of two workers the first lies there, and the other is stored all the while.
    assert_eq!((status.failures, status.rebuilds), (0, 1), "{status:?}");
    assert!(is_late(&worst) && worst.trouble.is_some(), "{worst:?}");
}

#[test]
fn a_replica_that_takes_over_without_the_last_writes_gets_them_again() {
    if !available() {
        return;
    }
    let mut servers = Watched::start();
    let address = servers.address();
    let Outcome { status, worst, .. } = run(
        || driver(&address),
        (settings(), PATIENCE),
        || fail_over(&mut servers.master, &servers.replica),
    );
    assert!(status.failures > 0 && status.rebuilds == 2, "{status:?}");
    assert!(is_late(&worst), "{worst:?}");
}

/// A map and a counter of a shard.
fn of_shard(shard: u16) -> (Key, Key) {
    let scope = Scope::new("nat", "edge", Place::Shard(shard)).unwrap();
    (scope.key(Kind::Map, "flows").unwrap(), scope.key(Kind::Counter, "n").unwrap())
}

/// Counts in shards for half a second, from `n` on: those that the store is up to date with then.
fn followed(flusher: &Flusher, address: &str, shards: u16, mut n: i64) -> Vec<u16> {
    let mut feed = flusher.feed();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        n += 1;
        for shard in 0..shards {
            feed.change(Change::put(&of_shard(shard).1, Content::Counter(n)));
        }
        feed.hand_over_surely();
        thread::sleep(Duration::from_millis(5));
    }
    flusher.settle(Duration::from_millis(500));
    let mut beside = driver(address);
    let is_followed = |shard: &u16| {
        let counter = ask(&mut beside, &of_shard(*shard).1, Operation::Read);
        counter == Ok(Reply::Content(Some(Content::Counter(n))))
    };
    (0..shards).filter(is_followed).collect()
}

/// Somebody deletes some of the objects under a run, and the mark stays.
#[test]
fn an_object_that_somebody_deletes_under_a_run_is_written_again() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let address = by_socket(&server);
    let (flusher, _) = Flusher::open(driver(&address), "nat", "edge", settings()).unwrap();
    let mut feed = flusher.feed();
    let mut beside = driver(&address);
    let flow = |n: u32| Entry::Pair(n.to_be_bytes().into(), vec![7]);
    for shard in 0..3 {
        let (flows, count) = of_shard(shard);
        (0..600).for_each(|n| feed.change(Change::insert(&flows, flow(n))));
        feed.change(Change::put(&count, Content::Counter(600)));
    }
    feed.hand_over_surely();
    let status = flusher.settle(PATIENCE);
    assert_eq!((status.waiting, status.rebuilds), (0, 0), "{status:?}");
    let written = view::state(&mut beside, "nat", None).unwrap();
    let gone = [of_shard(0).0, of_shard(1).1];
    gone.iter().for_each(|key| server.ask::<()>(&["DEL", key.as_str()]));
    assert_eq!(view::state(&mut beside, "nat", None).unwrap().len(), written.len() - 2);
    // A scope that changes all the time is looked at, too.
    let (flows, _) = of_shard(0);
    let began = Instant::now();
    while began.elapsed() < PATIENCE && view::state(&mut beside, "nat", None).unwrap() != written {
        feed.change(Change::insert(&flows, flow(5)));
        feed.hand_over_surely();
        thread::sleep(Duration::from_millis(5));
    }
    assert!(view::state(&mut beside, "nat", None).unwrap() == written, "in vain");
    let status = flusher.close(PATIENCE);
    assert_eq!((status.rebuilds, status.trouble), (2, None));
}

#[test]
fn a_node_of_a_cluster_that_takes_nothing_delays_only_the_scopes_that_it_has() {
    if !available() {
        return;
    }
    let mut cluster = Cluster::start(false);
    let address = cluster.address();
    let (flusher, _) = Flusher::open(driver(&address), "nat", "edge", settings()).unwrap();
    let all: Vec<u16> = (0..12).collect();
    assert_eq!(followed(&flusher, &address, 12, 1_000), all);
    let elsewhere: Vec<u16> = all
        .iter()
        .copied()
        .filter(|shard| {
            let name = format!("{{nat@edge@s{shard}}}@counter@n");
            cluster.masters[0].ask::<Vec<String>>(&["KEYS", &name]).is_empty()
        })
        .collect();
    assert!((1..12).contains(&elsewhere.len()), "{elsewhere:?}");
    let limit = |bytes| cluster.masters[0].ask::<()>(&["CONFIG", "SET", "maxmemory", bytes]);
    limit("1");
    assert_eq!(followed(&flusher, &address, 12, 2_000), elsewhere);
    assert!(flusher.trouble().is_some_and(|why| why.contains("OOM")), "{:?}", flusher.trouble());
    limit("0");
    assert_eq!(followed(&flusher, &address, 12, 3_000), all);
    for other in &cluster.masters[1..] {
        other.ask::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    cluster.masters[0].kill();
    assert_eq!(followed(&flusher, &address, 12, 4_000), elsewhere);
}

/// Sets the mark of each shard, whatever it was.
fn marked(driver: &mut impl Driver, shards: &[u16]) -> Vec<bool> {
    let mark = |shard: &u16| of_shard(*shard).1.scope().key(Kind::Value, "mark").unwrap();
    let batch = |shard| Batch {
        mark: mark(shard),
        expected: Some(vec![1]),
        next: vec![1],
        present: Vec::new(),
        calls: vec![Call::new(&of_shard(*shard).1, Operation::Put(Content::Counter(1)))],
    };
    let batches: Vec<Batch> = shards.iter().map(batch).collect();
    let outcomes = driver.commit(&batches).unwrap();
    outcomes.iter().map(|outcome| *outcome == anabranch_store::Outcome::Committed).collect()
}

/// Others are delayed by it once in a while, and not by each message.
#[test]
fn a_node_of_a_cluster_that_is_silent_is_left_alone_for_a_while() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(false);
    let mut driver = driver(&cluster.address());
    let all: Vec<u16> = (0..12).collect();
    for shard in &all {
        let mark = of_shard(*shard).1.scope().key(Kind::Value, "mark").unwrap();
        let put = Operation::Put(Content::Value(vec![1]));
        assert_eq!(ask(&mut driver, &mark, put), Ok(Reply::Done));
    }
    assert_eq!(marked(&mut driver, &all), [true; 12]);
    let is_elsewhere = |shard: &u16| {
        let name = format!("{{nat@edge@s{shard}}}@counter@n");
        cluster.masters[0].ask::<Vec<String>>(&["KEYS", &name]).is_empty()
    };
    let elsewhere: Vec<bool> = all.iter().map(is_elsewhere).collect();
    assert!(elsewhere.contains(&true) && elsewhere.contains(&false), "{elsewhere:?}");
    for other in &cluster.masters[1..] {
        other.ask::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    cluster.masters[0].signal("STOP");
    let (began, mut slow, mut quick) = (Instant::now(), 0, 0);
    while began.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        assert_eq!(marked(&mut driver, &all), elsewhere, "after {:?}", began.elapsed());
        // Half a second is waited for an answer, and it is left alone for as long again, twice.
        let is_slow = asked.elapsed() > Duration::from_millis(480);
        (slow, quick) = if is_slow { (slow + 1, quick) } else { (slow, quick + 1) };
        thread::sleep(Duration::from_millis(5));
    }
    assert!((1..=3).contains(&slow) && quick > 50, "{slow} messages are slow, {quick} are not");
    cluster.masters[0].signal("CONT");
    until("it is asked again", || marked(&mut driver, &all) == [true; 12]);
}

#[test]
fn what_others_wrote_into_a_scope_delays_no_other() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let address = by_socket(&server);
    let (flusher, _) = Flusher::open(driver(&address), "nat", "edge", settings()).unwrap();
    server.ask::<()>(&["SET", "nat@edge@s3@map@flows", "theirs"]);
    let mut feed = flusher.feed();
    feed.change(Change::insert(&of_shard(3).0, Entry::Pair(vec![1], vec![1])));
    feed.hand_over_surely();
    assert_eq!(followed(&flusher, &address, 4, 5_000)[..3], [0, 1, 2]);
    let trouble = flusher.trouble();
    let says = "`nat@edge@s3@map@flows` holds what Anabranch has not written (WRONGTYPE";
    assert!(trouble.as_ref().is_some_and(|why| why.contains(says)), "{trouble:?}");
    server.ask::<()>(&["DEL", "nat@edge@s3@map@flows"]);
    assert_eq!(followed(&flusher, &address, 4, 6_000), [0, 1, 2, 3]);
    assert_eq!(flusher.trouble(), None);
}

/// Nothing changes there any more: only who looks finds it.
#[test]
fn what_others_wrote_where_only_looks_find_it_is_told_until_it_is_gone() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let address = by_socket(&server);
    let check_ns = 100_000_000;
    let settings = Settings { check_ns, ..settings() };
    let (flusher, _) = Flusher::open(driver(&address), "nat", "edge", settings).unwrap();
    let mut feed = flusher.feed();
    feed.change(Change::insert(&of_shard(3).0, Entry::Pair(vec![1], vec![1])));
    feed.hand_over_surely();
    let written = flusher.settle(PATIENCE);
    assert_eq!((written.waiting, &written.trouble, &written.unseen), (0, &None, &None));
    server.ask::<()>(&["SET", "nat@edge@s3@map@flows", "theirs"]);
    let is_told = || flusher.trouble().is_some_and(|why| why.contains("WRONGTYPE"));
    until("it is found", is_told);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        assert!(is_told(), "forgotten after {:?}", began.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    server.ask::<()>(&["DEL", "nat@edge@s3@map@flows"]);
    until("it is written again", || flusher.status().rebuilds == 1 && flusher.trouble().is_none());
    let status = flusher.close(PATIENCE);
    assert_eq!((status.waiting, status.trouble, status.unseen), (0, None, None));
    let found = ask(&mut driver(&address), &of_shard(3).0, Operation::Find(vec![1]));
    assert_eq!(found, Ok(Reply::Found(Some(Entry::Pair(vec![1], vec![1])))));
}

/// With the mark, it cannot stay.
#[test]
fn what_others_wrote_goes_where_the_mark_is_gone_too() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let address = by_socket(&server);
    let (flusher, _) = Flusher::open(driver(&address), "nat", "edge", settings()).unwrap();
    let mut feed = flusher.feed();
    let (flows, count) = of_shard(3);
    feed.change(Change::insert(&flows, Entry::Pair(vec![1], vec![1])));
    feed.change(Change::put(&count, Content::Counter(1)));
    feed.hand_over_surely();
    assert_eq!(flusher.settle(PATIENCE).waiting, 0);
    let written = view::state(&mut driver(&address), "nat", None).unwrap();
    server.ask::<()>(&["SET", "nat@edge@s3@map@flows", "theirs"]);
    server.ask::<()>(&["DEL", "nat@edge@s3@counter@n"]);
    server.ask::<()>(&["RPUSH", "nat@edge@s3@counter@n", "theirs"]);
    server.ask::<()>(&["DEL", "nat@edge@s3@value@.mark"]);
    let status = flusher.close(PATIENCE);
    assert_eq!((status.waiting, status.rebuilds, status.trouble), (0, 1, None));
    assert_eq!(view::state(&mut driver(&address), "nat", None).unwrap(), written);
}

/// In the middle of a script, and in the middle of a run.
#[test]
fn who_may_not_write_is_told_so_and_not_that_others_have() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let user =
        |rights: &[&str]| server.ask::<()>(&[&["ACL", "SETUSER", "default"], rights].concat());
    let (flusher, _) =
        Flusher::open(driver(&by_socket(&server)), "nat", "edge", settings()).unwrap();
    let mut feed = flusher.feed();
    let mut trouble = |flow: u8| {
        feed.change(Change::insert(&of_shard(1).0, Entry::Pair(vec![flow], vec![0; 70_000])));
        feed.hand_over_surely();
        flusher.settle(Duration::from_millis(500)).trouble
    };
    let is_of_user = |why: &Option<String>| {
        why.as_ref().is_some_and(|why| why.contains("are user and password right"))
    };
    user(&["-hset"]);
    let told = trouble(1);
    assert!(is_of_user(&told), "{told:?}");
    user(&["+hset"]);
    assert_eq!(trouble(2), None);
    // Who says nothing of a password is let in as nobody, of whom what is long is refused in other words.
    let mut connection = server.connect();
    user(&["resetpass", ">another"]);
    redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).exec(&mut connection).unwrap();
    let told = trouble(3);
    assert!(is_of_user(&told), "{told:?}");
}

/// How late changes are stored when they are many or few, of one scope or of 512 shards, with looks once a second or
/// none: printed, not asserted, since it depends on the machine.
/// `cargo test -p anabranch-store --features redis --test redis -- --ignored --nocapture lag`
#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout)]
fn lag_of_one_scope_and_of_many() {
    if !available() {
        return;
    }
    for a_second in [1_000u64, 10_000, 100_000] {
        for (shards, round) in [1u64, 512].into_iter().flat_map(|n| (0..3).map(move |r| (n, r))) {
            for (looks, check_ns) in [("with", Settings::default().check_ns), ("no", u64::MAX)] {
                let server = Server::start(&[]);
                let status = lag(&by_socket(&server), a_second, shards, check_ns);
                let told: String = server.ask(&["INFO", "cpu"]);
                let of = told.lines().find(|line| line.starts_with("used_cpu_user:")).unwrap();
                println!(
                    "{a_second} changes a second in {shards} scopes, {looks} looks, {round}: {of} {status:?}"
                );
            }
        }
    }
}

/// Inserts so many entries a second for three seconds, in batches a millisecond apart.
fn lag(address: &str, a_second: u64, shards: u64, check_ns: u64) -> Status {
    let settings = Settings { check_ns, ..Settings::default() };
    let (flusher, _) = Flusher::open(driver(address), "nat", "edge", settings).unwrap();
    let maps: Vec<Key> = (0..shards).map(|shard| of_shard(shard as u16).0).collect();
    let (mut feed, began, mut sent) = (flusher.feed(), Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(3) {
        let due = (began.elapsed().as_nanos() as u64).saturating_mul(a_second) / 1_000_000_000;
        while sent < due {
            let name = (sent % 50_000).to_be_bytes().to_vec();
            let map = &maps[(sent % shards) as usize];
            feed.change(Change::insert(map, Entry::Pair(name, sent.to_be_bytes().to_vec())));
            sent += 1;
        }
        feed.hand_over();
        thread::sleep(Duration::from_millis(1));
    }
    drop(feed);
    flusher.close(Duration::from_secs(20))
}
