//! The bridge between three hosts.

use crate::lab::{Kind, Lab};
use crate::traffic::{fetch, ping};

fn three_hosts(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    let hosts = ["a", "b", "c"];
    hosts.iter().for_each(|host| lab.host(host));
    let large = lab.file("large", 5_000_000);
    let bridge = lab.start("bridge", "", &[("one", "a"), ("two", "b"), ("three", "c")]);
    for (number, host) in hosts.iter().enumerate() {
        lab.ip(host, &format!("addr add 10.0.0.{}/24 dev e", number + 1));
    }
    let _server = lab.web("c", 80);
    for from in hosts {
        for to in 1..=hosts.len() {
            ping(&lab, from, &format!("10.0.0.{to}"), 56);
            ping(&lab, from, &format!("10.0.0.{to}"), 5_000);
        }
    }
    fetch(&lab, "a", "http://10.0.0.3", &large);
    fetch(&lab, "b", "http://10.0.0.3", &large);
    let report = bridge.finish();
    let dropped: u64 = report.drops.values().sum();
    let copies = report.packets_out + dropped - report.packets_read;
    // ARP requests, and frames to hosts that have not spoken yet, leave by two ports.
    assert!(copies > 0 && copies < report.packets_read / 10, "{copies} {:?}", report.drops);
    assert!(report.ports.iter().all(|port| port.packets_read > 0 && port.packets_out > 0));
}

#[test]
fn three_hosts_share_an_ethernet_over_packet_sockets() {
    three_hosts(Kind::AfPacket);
}

#[test]
fn three_hosts_share_an_ethernet_over_taps() {
    three_hosts(Kind::Tap);
}

#[test]
fn three_hosts_share_an_ethernet_over_xdp() {
    three_hosts(Kind::Xdp);
}

const MOVER: &str = "02:00:00:00:00:aa";

/// A station that moves, and one that falls silent.
fn stations_move(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    let hosts = ["a", "b", "c"];
    hosts.iter().for_each(|host| lab.host(host));
    let ports = [("one", "a"), ("two", "b"), ("three", "c")];
    let bridge = lab.start("bridge", "--set ageing_s=2", &ports);
    lab.ip("c", "addr add 10.0.0.3/24 dev e");
    lab.ip("c", &format!("neigh replace 10.0.0.9 lladdr {MOVER} dev e"));
    let comes_to = |lab: &Lab, host: &str| {
        lab.ip(host, &format!("link set e address {MOVER}"));
        lab.ip(host, "addr add 10.0.0.9/24 dev e");
        // It speaks first, as a station that has moved does.
        ping(lab, host, "10.0.0.3", 56);
        ping(lab, "c", "10.0.0.9", 56);
    };
    comes_to(&lab, "a");
    let before = lab.received("b");
    ping(&lab, "c", "10.0.0.9", 56);
    assert!(lab.received("b") <= before + 1, "what is for one port went to another");
    lab.ip("a", "addr flush dev e");
    lab.ip("a", "link set e address 02:00:00:00:00:01");
    comes_to(&lab, "b");
    // It is silent: what is for it still goes to its port, and after the ageing time to every port.
    lab.ip("b", "addr flush dev e");
    lab.ip("b", "link set e address 02:00:00:00:00:02");
    let to_nobody = |lab: &Lab| {
        let before = lab.received("a");
        lab.run("c", "ping -c 10 -i 0.02 -W 1 10.0.0.9").fails();
        lab.received("a") - before
    };
    assert!(to_nobody(&lab) <= 2);
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(to_nobody(&lab) >= 10);
    let report = bridge.finish();
    assert!(report.packets_read > 0 && report.complete);
}

#[test]
fn stations_that_move_are_followed_over_packet_sockets() {
    stations_move(Kind::AfPacket);
}

#[test]
fn stations_that_move_are_followed_over_xdp() {
    stations_move(Kind::Xdp);
}

/// Two ports of the bridge on one network: every broadcast goes round for ever, until the loop is cut.
fn storm(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("a");
    lab.switch("left");
    lab.switch("right");
    lab.host("d");
    lab.plug("d", "e", "left");
    let bridge = lab.start("bridge", "", &[("one", "a"), ("two", "left"), ("three", "right")]);
    lab.ip("left", "link set e master sw");
    lab.ip("right", "link set e master sw");
    lab.ip("a", "addr add 10.0.0.1/24 dev e");
    lab.ip("d", "addr add 10.0.0.4/24 dev e");
    ping(&lab, "a", "10.0.0.4", 56);
    lab.plug("left", "loop", "right");
    lab.ip("left", "link set loop master sw");
    lab.run("a", "ping -c 200 -i 0.002 -W 1 -b 10.0.0.255").fails();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let first = bridge.report();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let second = bridge.report();
    let rate = second.packets_read - first.packets_read;
    assert!(rate > 20_000, "no storm: {rate} packets a second");
    lab.ip("left", "link del loop");
    std::thread::sleep(std::time::Duration::from_millis(500));
    // What went round has left every station behind the wrong port: it is learned anew by who speaks.
    for host in ["a", "d"] {
        lab.run(host, "ping -c 1 -W 1 -b 10.0.0.255").fails();
    }
    ping(&lab, "a", "10.0.0.4", 56);
    let report = bridge.finish();
    assert!(report.complete && report.packets_read > rate, "{:?}", report.drops);
}

#[test]
fn a_storm_passes_over_packet_sockets() {
    storm(Kind::AfPacket);
}

#[test]
fn a_storm_passes_over_xdp() {
    storm(Kind::Xdp);
}
