//! The driver `cassandra` against real servers: right, and right again after the server was killed.
//! One test after the other, since a server takes a gigabyte and some seconds to start.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "cassandra-tls")]
#[path = "../authority/mod.rs"]
mod authority;
#[path = "../cable/mod.rs"]
mod cable;
mod cluster;
mod cql;
#[path = "../failing/mod.rs"]
mod failing;
mod faults;
mod layout;
#[cfg(feature = "cassandra-tls")]
mod login;
mod others;
mod server;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_store::cassandra::{Address, Cassandra};
use anabranch_store::conformance::{self, Settings};
use anabranch_store::{
    Call, Change, Content, Driver, Entry, Flusher, Key, Kind, Operation, Place, Reply, Scope, view,
};
use server::Server;

/// What is tested where both releases would do the same.
const RELEASE: &str = "5.0.3";

fn driver(address: &str) -> Cassandra {
    Cassandra::new(Address::parse(address).unwrap())
}

fn key(kind: Kind, shard: u16) -> Key {
    Scope::new("nat", "edge", Place::Shard(shard)).unwrap().key(kind, "x").unwrap()
}

fn adding() -> Call {
    Call::new(&key(Kind::Counter, 0), Operation::Add(1))
}

/// Held while a test has servers.
fn alone() -> MutexGuard<'static, ()> {
    static SERVERS: Mutex<()> = Mutex::new(());
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn one_of_5_0_is_right_and_right_again_after_it_was_killed() {
    is_right_and_right_again(RELEASE);
}

#[test]
fn one_of_4_1_is_right_and_right_again_after_it_was_killed() {
    is_right_and_right_again("4.1.8");
}

#[allow(clippy::print_stdout)] // how long parts took
fn is_right_and_right_again(release: &str) {
    let _alone = alone();
    let began = Instant::now();
    let Some(mut server) = Server::start(release) else { return };
    println!("Cassandra {release} started after {:?}", began.elapsed());
    // A server that compiles its own code while it answers is slow now and then.
    let address = server.address("consistency=one&timeout_ms=30000");
    // The first connection makes the table.
    assert_eq!(driver(&address).keys("").unwrap(), []);
    counts_are_not_doubled(&address);
    if release == RELEASE {
        counts_are_not_doubled_while_the_server_fails(&mut server);
    }
    println!("counted after {:?}", began.elapsed());
    keys_are_listed_without_what_they_hold(&address);
    println!("listed after {:?}", began.elapsed());
    state_is_kept_while_the_server_is_killed(&mut server, &address);
    println!("killed and restarted after {:?}", began.elapsed());
    layout::what_this_release_wrote_is_gone_on_with(&server);
    println!("gone on with after {:?}", began.elapsed());
    let calls = conforms(&address);
    println!("conforms after {:?}: {calls} calls", began.elapsed());
    // Of 5.0 there is a test of its own.
    if release != RELEASE {
        faults::stopped_for_some_seconds(&mut server);
        faults::started_again_with_nothing(&mut server);
    }
    println!("ended after {:?}", began.elapsed());
}

/// The suite for drivers; how many calls it made.
fn conforms(address: &str) -> u64 {
    // Values end late enough for some dozen transactions on a busy machine.
    let settings = Settings {
        sequences: 2,
        calls: 160,
        connections: 3,
        ends_ms: 10_000,
        ..Settings::default()
    };
    let report = conformance::check(|| Ok(Box::new(driver(address))), &settings).unwrap();
    assert!(report.calls() > 800, "{report:?}");
    report.calls()
}

/// For what speaks Cassandra's protocol and cannot be installed from a registry, as ScyllaDB:
/// `ANABRANCH_CASSANDRA=cassandra://HOST:PORT/KEYSPACE` names a server, whose key space the test may fill and empty.
#[test]
#[allow(clippy::print_stdout)]
fn a_server_that_is_named_is_right_too() {
    let Ok(named) = std::env::var("ANABRANCH_CASSANDRA") else {
        println!("skipped: ANABRANCH_CASSANDRA names no server");
        return;
    };
    let joint = if named.contains('?') { '&' } else { '?' };
    let address = format!("{named}{joint}timeout_ms=30000");
    counts_are_not_doubled(&address);
    keys_are_listed_without_what_they_hold(&address);
    println!("conforms: {} calls", conforms(&address));
}

/// An addition is a transaction: what was answered is done, once.
fn counts_are_not_doubled(address: &str) {
    let mut driver = driver(address);
    for sum in 1..=20 {
        assert_eq!(driver.run(&[adding()]).unwrap(), [Ok(Reply::Number(sum))]);
    }
    assert_eq!(driver.keys("nat@edge@s0@").unwrap(), [key(Kind::Counter, 0)]);
    assert_eq!(
        driver.run(&[Call::new(&key(Kind::Counter, 0), Operation::Delete)]).unwrap().len(),
        1
    );
    assert_eq!(driver.keys("nat@").unwrap(), []);
}

/// A restart begins with a list of keys, of a state of millions of rows too.
fn keys_are_listed_without_what_they_hold(address: &str) {
    let mut driver = driver(address);
    let (large, small) = (key(Kind::Map, 0), key(Kind::Value, 0));
    let entries = (0..50_000u32).map(|flow| (flow.to_be_bytes().to_vec(), vec![1]));
    let change = |key: &Key, operation| Call::new(key, operation);
    driver
        .run(&[
            change(&large, Operation::Put(Content::Map(entries.collect()))),
            change(&small, Operation::Put(Content::Value(vec![1]))),
        ])
        .unwrap();
    let soonest = (0..5).map(|_| {
        let began = Instant::now();
        assert_eq!(driver.keys("nat@edge@s0@").unwrap(), [large.clone(), small.clone()]);
        began.elapsed()
    });
    // Gone through row by row it takes some seconds.
    let soonest = soonest.min().unwrap();
    assert!(soonest < Duration::from_millis(500), "{soonest:?}");
    driver.run(&[change(&large, Operation::Delete), change(&small, Operation::Delete)]).unwrap();
    assert_eq!(driver.keys("nat@").unwrap(), []);
}

/// Nor where nobody is told what became of it.
fn counts_are_not_doubled_while_the_server_fails(server: &mut Server) {
    let driver = driver(&server.address("consistency=one&timeout_ms=1000"));
    failing::adds(driver, || {
        let wait = || std::thread::sleep(Duration::from_secs(2));
        wait();
        server.signal("STOP");
        wait();
        server.signal("CONT");
        wait();
        server.restart();
        wait();
    });
    let mut driver = self::driver(&server.address("consistency=one&timeout_ms=30000"));
    let sum = &driver.keys("count@").unwrap()[0];
    driver.run(&[Call::new(sum, Operation::Delete)]).unwrap();
}

/// A flusher loses nothing while the server is gone, and says so; a restart finds what it ended with.
fn state_is_kept_while_the_server_is_killed(server: &mut Server, address: &str) {
    let settings = anabranch_store::Settings::default();
    let (flusher, found) = Flusher::open(driver(address), "nat", "edge", settings).unwrap();
    assert_eq!(found, []);
    let mut feed = flusher.feed();
    let mut expected: BTreeMap<Key, Content> = BTreeMap::new();
    let mut change = |flows: std::ops::Range<u32>| {
        let began = Instant::now();
        for flow in flows {
            let (map, name) = (key(Kind::Map, (flow % 50) as u16), flow.to_be_bytes().to_vec());
            feed.change(Change::insert(&map, Entry::Pair(name.clone(), vec![1])));
            let content = expected.entry(map).or_insert_with(|| Content::Map(BTreeMap::new()));
            content.insert(Entry::Pair(name, vec![1]));
        }
        feed.hand_over();
        assert!(began.elapsed() < Duration::from_millis(500), "a worker waited");
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() {
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "in vain until {what}: {:?}",
                flusher.status()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    change(0..2_000);
    until("it is stored", &|| flusher.status().waiting == 0 && flusher.status().stored >= 2_000);
    server.kill();
    change(2_000..4_000);
    until("the failure is told", &|| flusher.status().trouble.is_some());
    server.restart();
    change(4_000..4_100);
    until("it is stored", &|| flusher.status().waiting == 0 && flusher.status().trouble.is_none());
    let status = flusher.close(Duration::from_secs(120));
    assert_eq!((status.waiting, &status.trouble), (0, &None), "{status:?}");
    assert!(view::state(&mut driver(address), "nat", Some("edge")).unwrap() == expected);
    let (again, found) = Flusher::open(driver(address), "nat", "edge", settings).unwrap();
    assert!(found.into_iter().collect::<BTreeMap<_, _>>() == expected, "what a restart finds");
    drop(again);
}
