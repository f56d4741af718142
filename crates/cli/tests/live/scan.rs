//! Anti-DDoS: a scan is a flood of one-packet flows. A `mixed` run: flows are each worker's own, their count is
//! everybody's.

use std::time::{Duration, Instant};

use crate::lab::{Kind, Lab, assert_adds_up};
use crate::traffic::fetch;

fn holds_back(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("in");
    lab.host("out");
    let large = lab.file("large", 3_000_000);
    let options = "--set least_flows=200 --set one_packet_s=2 --set staleness_ms=5";
    let function = lab.start("anti-ddos", options, &[("lan", "in"), ("wan", "out")]);
    lab.ip("in", "addr add 10.0.0.1/24 dev e");
    lab.ip("out", "addr add 10.0.0.2/24 dev e");
    let _server = lab.web("in", 80);
    fetch(&lab, "out", "http://10.0.0.1", &large);
    let calm = function.report();
    assert_eq!(calm.strategy, "mixed", "{}", calm.strategy_why);
    assert!(!calm.drops.contains_key("under-attack"), "{:?}", calm.drops);
    let ports = "-p 1000-9000 --max-retries 0 --min-rate 1500";
    let mut scan = lab.serve("out", &format!("nmap -n -Pn --send-ip -sS {ports} 10.0.0.1"));
    // Whoever tells meanwhile is in nobody's way.
    let started = Instant::now();
    let mut told = 0;
    while started.elapsed() < Duration::from_secs(2) {
        told += u32::from(function.report().packets_read >= calm.packets_read);
    }
    assert!(told > 10, "{told}");
    // A host that means it sends again.
    fetch(&lab, "out", "http://10.0.0.1", &large);
    assert!(scan.wait().success());
    std::thread::sleep(Duration::from_secs(3));
    fetch(&lab, "out", "http://10.0.0.1", &large);
    let report = function.finish();
    let held_back = report.drops.get("under-attack").copied().unwrap_or(0);
    assert!(held_back > 1_000, "{:?}", report.drops);
    let transactions = report.transactions.unwrap_or_default();
    assert!(transactions.commits > 0 && report.workers.iter().all(|one| one.packets > 100));
    assert_adds_up(&report);
}

#[test]
fn a_scan_is_held_back_over_packet_sockets() {
    holds_back(Kind::AfPacket);
}

#[test]
fn a_scan_is_held_back_over_xdp() {
    holds_back(Kind::Xdp);
}
