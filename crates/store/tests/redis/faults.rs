//! Write-behind to real servers that fail: no worker waits, and the store ends with the right values.

use std::thread;
use std::time::{Duration, Instant};

use anabranch_store::{Change, Entry, Flusher, Key, Kind, Place, Policy, Scope, Settings, Status};

use crate::cable::Cable;
use crate::failing::{Outcome, run, settings};
use crate::server::{Cluster, Server, Watched, available, until};
use crate::{by_socket, driver};

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

/// Kills the master after the replica has stopped to follow it: what was answered in between is lost with it.
fn fail_over(master: &mut Server, replica: &Server) {
    replica.signal("STOP");
    // What was sent to the replica until now it may read yet.
    master.ask::<()>(&["CLIENT", "KILL", "TYPE", "replica"]);
    thread::sleep(Duration::from_millis(300));
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
    // Of the scopes of two workers the first lies there.
    assert!(status.failures > 0 && status.rebuilds == 1, "{status:?}");
    assert!(is_late(&worst), "{worst:?}");
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

/// How late changes are stored when they are many or few, of one scope or of 512 shards: printed, not
/// asserted, since it depends on the machine.
/// `cargo test -p anabranch-store --features redis --test redis -- --ignored --nocapture lag`
#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout)]
fn lag_of_one_scope_and_of_many() {
    if !available() {
        return;
    }
    for a_second in [1_000u64, 10_000, 100_000] {
        for shards in [1u64, 512] {
            let server = Server::start(&[]);
            let status = lag(&by_socket(&server), a_second, shards);
            println!("{a_second} changes a second in {shards} scopes: {status:?}");
        }
    }
}

/// Inserts so many entries a second for three seconds, in batches a millisecond apart.
fn lag(address: &str, a_second: u64, shards: u64) -> Status {
    let settings = Settings::default();
    let (flusher, _) = Flusher::open(driver(address), "nat", "edge", settings).unwrap();
    let map = |shard: u64| {
        let scope = Scope::new("nat", "edge", Place::Shard(shard as u16)).unwrap();
        scope.key(Kind::Map, "flows").unwrap()
    };
    let maps: Vec<Key> = (0..shards).map(map).collect();
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
