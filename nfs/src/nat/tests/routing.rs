//! The NAT as a router: what is translated, what is routed as it is, what is reported.

use super::*;
use crate::frames::hops;

const LAN_MAC: u8 = 2;
const WAN_MAC: u8 = 3;
const NETWORK: &str = r#"
    public = ["198.51.100.2"]
    [interfaces.lan]
    mac = "02:00:00:00:00:02"
    addresses = ["10.0.0.1/24", "10.0.1.1/24"]
    [interfaces.wan]
    mac = "02:00:00:00:00:03"
    addresses = ["198.51.100.2/24"]
    [[routes]]
    to = "192.0.2.0/24"
    via = "10.0.0.254"
    port = "lan"
    [[routes]]
    to = "0.0.0.0/0"
    via = "198.51.100.1"
    [[neighbours]]
    address = "198.51.100.1"
    mac = "02:00:00:00:00:09"
    [[neighbours]]
    address = "10.0.0.254"
    mac = "02:00:00:00:00:08"
    [[neighbours]]
    address = "10.0.0.5"
    mac = "02:00:00:00:00:05"
    [[neighbours]]
    address = "10.0.1.6"
    mac = "02:00:00:00:00:06"
"#;
const FAR: &str = "203.0.113.7:53";

fn router() -> Nat {
    Nat::with_table(NETWORK.parse().expect("TOML")).expect("a right configuration")
}

/// The frame, addressed to the station whose address ends in `mac`.
fn to(mac: u8, mut frame: Vec<u8>) -> Vec<u8> {
    frame[5] = mac;
    frame
}

/// Opens the mapping of `HOST`, whose public endpoint is returned.
#[track_caller]
fn opened(nat: &mut Nat) -> String {
    let (port, flow) = left(&nat.send(LAN, &to(LAN_MAC, udp(HOST, FAR))));
    assert_eq!(port, WAN);
    flow.split(" > ").next().unwrap().to_owned()
}

/// The one frame that was sent back or on beside the packet, and by which port.
#[track_caller]
fn emitted(outcome: &Outcome) -> (u8, Vec<u8>) {
    match outcome.emitted() {
        [(port, frame)] => (*port, frame.clone()),
        other => panic!("{} frames; dropped: {:?}", other.len(), outcome.dropped()),
    }
}

#[test]
fn what_stays_inside_keeps_its_addresses() {
    let mut nat = router();
    for inside in ["192.0.2.5:53", "10.0.1.6:53"] {
        let (port, flow) = left(&nat.send(LAN, &to(LAN_MAC, udp(HOST, inside))));
        assert_eq!((port, flow), (LAN, format!("{HOST} > {inside}")));
    }
    let own = nat.send(LAN, &to(LAN_MAC, tcp(HOST, "10.0.0.1:22", SYN)));
    dropped(&own, "answered");
    assert_eq!(nat.table("mappings").used, 0, "no mapping is taken");
    assert_eq!(opened(&mut nat), "198.51.100.2:40000");
}

/// RFC 1812 §5.3.7: looked at before the source is a public one.
#[test]
fn what_no_router_forwards_takes_no_mapping() {
    let mut nat = router();
    for (src, dst) in [
        ("10.0.0.255:5", FAR),
        ("10.0.1.0:5", FAR),
        ("198.51.100.255:5", FAR),
        ("127.0.0.1:5", FAR),
        ("224.0.0.1:5", FAR),
        (HOST, "127.0.0.1:53"),
        (HOST, "198.51.100.255:53"),
    ] {
        dropped(&nat.send(LAN, &to(LAN_MAC, udp(src, dst))), "not-forwardable");
        assert_eq!(nat.table("mappings").used, 0, "{src} to {dst}");
    }
}

/// IEEE 802.1Q-2022, 6.9: a tag that names no VLAN gives a priority.
#[test]
fn frames_with_a_priority_are_translated_both_ways() {
    let mut nat = router();
    let tagged =
        |frame: Vec<u8>, id: u8| [&frame[..12], &[0x81, 0, 0xa0, id], &frame[12..]].concat();
    let there = nat.send(LAN, &to(LAN_MAC, tagged(udp(HOST, FAR), 0)));
    assert_eq!(left(&there), (WAN, format!("198.51.100.2:40000 > {FAR}")));
    let answer = udp(FAR, "198.51.100.2:40000");
    let back = nat.send(WAN, &to(WAN_MAC, tagged(answer.clone(), 0)));
    assert_eq!(left(&back), (LAN, format!("{FAR} > {HOST}")));
    dropped(&nat.send(WAN, &to(WAN_MAC, tagged(answer, 7))), "not-for-this-interface");
}

#[test]
fn frames_to_others_reach_no_mapping() {
    let mut nat = router();
    let public = opened(&mut nat);
    let answer = udp(FAR, &public);
    assert_eq!(left(&nat.send(WAN, &to(WAN_MAC, answer.clone()))).1, format!("{FAR} > {HOST}"));
    dropped(&nat.send(WAN, &to(0x77, answer.clone())), "not-for-this-interface");
    let mut to_all = answer.clone();
    to_all[..6].fill(0xff);
    dropped(&nat.send(WAN, &to_all), "not-forwardable");
    let mut damaged = to(WAN_MAC, answer);
    damaged[24] ^= 1;
    dropped(&nat.send(WAN, &damaged), "ipv4-checksum");
}

/// RFC 1812 §4.3.2.3, RFC 5508 REQ-4: who sent the packet knows the public endpoint only.
#[test]
fn errors_to_the_outside_quote_what_it_sent() {
    let mut nat = router();
    let public = opened(&mut nat);
    let outcome = nat.send(WAN, &to(WAN_MAC, hops(&udp(FAR, &public), 1)));
    dropped(&outcome, "ttl-expired");
    let (port, error) = emitted(&outcome);
    assert_eq!((port, quoted(&error)), (WAN, format!("{FAR} > {public}")));
}

/// RFC 1812 §4.2.2.9: the last hop of a trace is the router itself.
#[test]
fn an_echo_with_its_last_hop_is_answered() {
    let mut nat = router();
    let asked = hops(&echo("203.0.113.7", "198.51.100.2", false, 9), 1);
    let outcome = nat.send(WAN, &to(WAN_MAC, asked));
    dropped(&outcome, "answered");
    assert_eq!(emitted(&outcome).0, WAN);
}
