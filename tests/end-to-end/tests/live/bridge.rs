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
