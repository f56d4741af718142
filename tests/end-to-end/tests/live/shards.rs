//! Shards move between workers while hosts talk.

use std::fs;

use crate::lab::{Kind, Lab, assert_adds_up};

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
    let each = format!("http://10.0.0.2/large?[1-{CONNECTIONS}]");
    let line = format!(
        "curl -sS --max-time 40 --parallel --parallel-max {CONNECTIONS} -o 'many-#1' '{each}'"
    );
    // Connections are as fast as each other by chance only.
    let mut moved = 0;
    for _ in 0..5 {
        lab.run("in", &line).expect();
        for number in 1..=CONNECTIONS {
            let fetched = fs::read(lab.path(&format!("many-{number}"))).unwrap();
            assert!(fetched == large, "download {number} is another file");
        }
        moved = firewall.report().balance.map_or(0, |balance| balance.entries_moved);
        if moved > 0 {
            break;
        }
    }
    let report = firewall.finish();
    println!("{kind:?}: {:?}", report.balance);
    assert!(moved > 0, "{:?} {:?}", report.balance, report.shards);
    let out_of_place = ["unsolicited", "not-syn", "out-of-state"];
    assert!(!report.drops.keys().any(|why| out_of_place.contains(&why.as_str())), "{report:?}");
    assert_adds_up(&report);
}

#[test]
fn shards_move_under_connections_over_packet_sockets() {
    even_out(Kind::AfPacket);
}

#[test]
fn shards_move_under_connections_over_xdp() {
    even_out(Kind::Xdp);
}
