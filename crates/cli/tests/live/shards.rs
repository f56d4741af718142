//! Shards move between workers while hosts talk.

use std::fs;

use anabranch_runtime::report::RunReport;

use crate::lab::{Function, Kind, Lab, assert_adds_up, wait_for};

/// Downloads at once, over connections of which each is one shard's.
const CONNECTIONS: usize = 8;

fn even_out(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("in");
    lab.host("out");
    let large = lab.file("large", 20_000_000);
    let firewall = lab.start("firewall", "", &[("inside", "in"), ("outside", "out")]);
    lab.ip("in", "addr add 10.0.0.1/24 dev e");
    lab.ip("out", "addr add 10.0.0.2/24 dev e");
    let _server = lab.web("out", 80);
    fetch_until_shards_move(&lab, &firewall, &large);
    assert_none_is_out_of_place(&firewall.finish());
}

/// Fetches a file over many connections at once, and again until entries have moved with their shards.
fn fetch_until_shards_move(lab: &Lab, firewall: &Function<'_>, large: &[u8]) {
    let each = format!("http://10.0.0.2/large?[1-{CONNECTIONS}]");
    let line = format!(
        "curl -sS --max-time 40 --parallel --parallel-max {CONNECTIONS} -o 'many-#1' '{each}'"
    );
    // Connections are as fast as each other by chance only.
    for _ in 0..5 {
        lab.run("in", &line).expect();
        for number in 1..=CONNECTIONS {
            let fetched = fs::read(lab.path(&format!("many-{number}"))).unwrap();
            assert!(fetched == large, "download {number} is another file");
        }
        if firewall.report().balance.is_some_and(|balance| balance.entries_moved > 0) {
            return;
        }
    }
    let report = firewall.report();
    panic!("{:?} {:?}", report.balance, report.shards);
}

fn assert_none_is_out_of_place(report: &RunReport) {
    println!("{:?}", report.balance);
    let out_of_place = ["unsolicited", "not-syn", "out-of-state"];
    assert!(!report.drops.keys().any(|why| out_of_place.contains(&why.as_str())), "{report:?}");
    assert_adds_up(report);
}

/// Connections go on though the firewall is killed after shards have moved, and started anew with other numbers of
/// workers.
#[test]
fn connections_outlive_the_process_whose_shards_have_moved() {
    let Some(mut lab) = Lab::open(Kind::AfPacket) else { return };
    lab.host("in");
    lab.host("out");
    let large = lab.file("large", 20_000_000);
    // Three minutes: what has arrived by the end of the test is looked at.
    let slow = lab.file("slow", 40_000_000);
    let ports = [("inside", "in"), ("outside", "out")];
    let options = "--store memory:state --instance edge";
    let mut firewall = lab.start("firewall", options, &ports);
    lab.ip("in", "addr add 10.0.0.1/24 dev e");
    lab.ip("out", "addr add 10.0.0.2/24 dev e");
    let _server = lab.web("out", 80);
    let each = "http://10.0.0.2/slowly/slow?[1-4]";
    let slowly = format!("curl -sS --parallel --parallel-immediate -o 'slow-#1' '{each}'");
    let _fetching = lab.serve("in", &slowly);
    let arrived = || [1, 2, 3, 4].map(|number| fs::read(lab.path(&format!("slow-{number}"))));
    let sizes = || arrived().map(|file| file.map_or(0, |file| file.len()));
    wait_for("some of each file", || sizes().iter().all(|&size| size > 100_000));
    fetch_until_shards_move(&lab, &firewall, &large);
    let live = firewall.report().store.unwrap();
    assert!(live.stored > 0 && live.trouble.is_none(), "{live:?}");
    for workers in [3, 2] {
        firewall.kill();
        let before = sizes();
        let options = format!("{options} --workers {workers}");
        firewall = lab.start_again("firewall", &options, &ports);
        wait_for("more of each file", || sizes().iter().zip(before).all(|(now, then)| *now > then));
    }
    let report = firewall.finish();
    assert_eq!(report.warnings, [""; 0]);
    assert_none_is_out_of_place(&report);
    assert!(arrived().into_iter().all(|file| slow.starts_with(&file.unwrap())));
}

#[test]
fn shards_move_under_connections_over_packet_sockets() {
    even_out(Kind::AfPacket);
}

#[test]
fn shards_move_under_connections_over_xdp() {
    even_out(Kind::Xdp);
}
