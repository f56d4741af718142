//! Tunnels through a function, whose ends leave to the link what offloads would do inside of them.

use crate::lab::{Kind, Lab, assert_adds_up};
use crate::traffic::{fetch, ping};

/// What the hosts have counted that should not be: packets with a wrong checksum, and segments sent again.
fn faults(lab: &Lab) -> [u64; 2] {
    let count = |host: &str, what: &str| -> u64 {
        let counted = lab.run(host, &format!("nstat -asz {what}")).expect();
        counted.lines().last().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let wrong =
        ["a", "b"].map(|host| count(host, "UdpInCsumErrors") + count(host, "TcpInCsumErrors"));
    [wrong.iter().sum(), count("b", "TcpRetransSegs")]
}

/// Whether hosts reach each other through VXLAN with all offloads on, with and without a checksum of its own.
fn carries(kind: Kind) {
    let Some(lab) = Lab::of_two(kind) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    let _web = lab.web("b", 80);
    let large = lab.file("large", 20_000_000);
    for checksum in ["noudpcsum", "udpcsum"] {
        let ends = [("a", "10.0.0.1", "10.0.0.2"), ("b", "10.0.0.2", "10.0.0.1")];
        for (number, (host, local, remote)) in ends.into_iter().enumerate() {
            let between = format!("local {local} remote {remote} dstport 4789 dev e {checksum}");
            lab.ip(host, &format!("link add vx type vxlan id 5 {between}"));
            lab.ip(host, "link set vx up");
            lab.ip(host, &format!("addr add 10.5.0.{}/24 dev vx", number + 1));
        }
        let before = faults(&lab);
        ping(&lab, "a", "10.5.0.2", 56);
        fetch(&lab, "a", "http://10.5.0.2", &large);
        let [wrong, again] = faults(&lab);
        assert_eq!(wrong, before[0], "{checksum}: wrong checksums");
        // Of 14,000 or so. What is cut wrongly is all sent again.
        assert!(again - before[1] < 300, "{checksum}: {} sent again", again - before[1]);
        ["a", "b"].iter().for_each(|host| lab.ip(host, "link del vx"));
    }
    let report = nop.finish();
    assert_adds_up(&report);
    assert_eq!(report.drops.get("oversized"), None, "{:?}", report.drops);
}

#[test]
fn tunnels_go_through_packet_sockets() {
    carries(Kind::AfPacket);
}

#[test]
fn tunnels_go_through_xdp() {
    carries(Kind::Xdp);
}
