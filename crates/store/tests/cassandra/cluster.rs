//! Several nodes with copies: any one of them may fail, or be cut off from the others.

use std::time::{Duration, Instant};

use anabranch_store::{Call, Content, Driver, Error, Key, Kind, Operation, Place, Scope, view};

use crate::cable::Cable;
use crate::failing::{self, Outcome, run};
use crate::server::Server;
use crate::{RELEASE, alone, driver};

const QUORUM: &str = "replication=3&consistency=quorum&timeout_ms=5000";
const ALL: &str = "replication=3&consistency=all&timeout_ms=5000";
/// A read that takes longer has waited for a node that is gone.
const SLOW: Duration = Duration::from_secs(2);

fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) {
    let began = Instant::now();
    loop {
        let held = holds();
        if matches!(held, Ok(true)) {
            return;
        }
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(300), "in vain until {what}: {held:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until each node knows all others. Nodes that have not met yet refuse to make three copies. Each is asked to
/// make the table, which is one all the same; that it has not come to all yet is no reason to lose anything.
fn all_meet(nodes: &[Server]) {
    std::thread::scope(|threads| {
        for node in nodes {
            let address = node.address(ALL);
            threads
                .spawn(move || until("they have met", || driver(&address).keys("").map(|_| true)));
        }
    });
}

/// Waits until these nodes have noticed that another is gone: until then each tries to read from it now and then.
fn all_notice(nodes: [&Server; 2], key: &Key) {
    let mut quick = 0;
    until("the others have noticed", || {
        for node in nodes {
            let began = Instant::now();
            let is_answered = view::read(&mut driver(&node.address(QUORUM)), key).is_ok();
            quick = if is_answered && began.elapsed() < SLOW { quick + 1 } else { 0 };
        }
        Ok(quick >= 20)
    });
}

/// With one node gone, of three.
fn writes_of_a_quorum_go_on_and_those_of_all_do_not(nodes: &[Server]) {
    let scope = Scope::new("levels", "edge", Place::Core(0)).unwrap();
    let key = scope.key(Kind::Counter, "sum").unwrap();
    let put = |options: &str| {
        let call = Call::new(&key, Operation::Put(Content::Counter(1)));
        driver(&Server::address_of(nodes, options)).run(&[call])
    };
    until("a majority takes a write", || put(QUORUM).map(|answers| answers[0].is_ok()));
    let refused = put(ALL).expect_err("a node is gone");
    assert!(refused.is_unavailable(), "{refused}");
}

/// How long the third node is cut off: until the others take it for gone, and it them.
const CUT_OFF: Duration = Duration::from_secs(12);
/// Longest in which nothing is stored while it is cut off, whoever is asked first.
const AROUND: Duration = Duration::from_secs(8);

/// The third node hears nothing of the others, nor they of it; clients reach all three. What a majority answered is
/// read, and something new stored, whichever node a client has asked first, also where it knows of the third only.
#[allow(clippy::print_stdout)] // how long parts took
fn cut_off_from_the_others_it_is_gone_around(nodes: &[Server], packets: &Key) {
    let cables: Option<Vec<&Cable>> = nodes.iter().map(|node| node.cable.as_ref()).collect();
    let Some([first, second, third]) = cables.as_deref() else { return };
    let began = Instant::now();
    third.cut_from(&[first, second]);
    let mut readers = [nodes, &nodes[2..]].map(|hosts| driver(&Server::address_of(hosts, QUORUM)));
    let (mut last, mut changed, mut longest, mut changes) = (None, began, Duration::ZERO, 0);
    while began.elapsed() < CUT_OFF || changed < began + CUT_OFF / 2 {
        for reader in &mut readers {
            let found = view::read(reader, packets).unwrap();
            assert!(found.is_some(), "it was answered before");
            longest = longest.max(changed.elapsed());
            assert!(longest < AROUND, "nothing new for {longest:?}, {changes} changes before");
            if found != last {
                (last, changed, changes) = (found, Instant::now(), changes + 1);
            }
        }
    }
    println!("without the third {changes} changes were seen, {longest:?} apart at most");
    third.join();
    all_meet(nodes);
}

/// Three copies on three nodes: with any one of them gone, writes and reads go on, and find what was answered before,
/// by whichever two; with two gone nothing is answered that might be wrong.
#[test]
#[allow(clippy::print_stdout)] // how long parts took
fn nodes_of_a_cluster_may_fail_one_at_a_time() {
    let _alone = alone();
    let began = Instant::now();
    let Some(mut nodes) = Server::cluster(RELEASE, 3) else { return };
    println!("three nodes started after {:?}", began.elapsed());
    let address = Server::address_of(&nodes, QUORUM);
    all_meet(&nodes);
    println!("met after {:?}", began.elapsed());
    let scope = Scope::new("nat", "edge", Place::Core(0)).unwrap();
    let packets = scope.key(Kind::Counter, "packets").unwrap();
    let goes_on = |what: &str| {
        let mut before = None;
        until(what, || {
            let now = view::read(&mut driver(&address), &packets)?;
            let has_moved = before.is_some() && now.is_some() && before != now;
            before = before.take().or(now);
            Ok(has_moved)
        });
        println!("{what} after {:?}", began.elapsed());
    };
    let Outcome { status, slowest, .. } = run(
        || driver(&address),
        (failing::settings(), Duration::from_secs(120)),
        || {
            goes_on("stored by three nodes");
            cut_off_from_the_others_it_is_gone_around(&nodes, &packets);
            goes_on("stored with the third again");
            nodes[0].kill();
            goes_on("stored without the first");
            writes_of_a_quorum_go_on_and_those_of_all_do_not(&nodes);
            nodes[0].restart();
            all_meet(&nodes);
            goes_on("stored with the first again");
            nodes[1].kill();
            goes_on("stored without the second");
            all_notice([&nodes[0], &nodes[2]], &packets);
        },
    );
    println!("{:?}, slowest batch {slowest:?}: {status:?}", began.elapsed());
    assert_eq!(status.rebuilds, 0, "what was answered was there");
    let by_first_and_third = view::state(&mut driver(&address), "nat", None).unwrap();
    nodes[1].restart();
    all_meet(&nodes);
    nodes[2].kill();
    let mut by_first_and_second = None;
    until("the second answers", || {
        by_first_and_second = Some(view::state(&mut driver(&address), "nat", None)?);
        Ok(true)
    });
    assert!(by_first_and_second == Some(by_first_and_third), "the same by any two");
    let mut reader = driver(&Server::address_of(&nodes, "replication=3&timeout_ms=1000"));
    let read = Call::new(&packets, Operation::Read);
    until("a majority is read", || reader.run(std::slice::from_ref(&read)).map(|_| true));
    nodes[1].kill();
    let alone = reader.run(&[read]);
    assert!(alone.is_err_and(|why| why.is_unavailable()), "one of three is no majority");
    println!("alone after {:?}", began.elapsed());
}
