//! Multicast listener discovery: whoever asks hears which groups we listen to.

use std::net::Ipv6Addr;

use anabranch_packet::craft::ListenerQuery;

use super::*;

const QUERIER: &str = "fe80::9";

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn query(src: &str, group: Option<&str>, is_version_1: bool) -> Vec<u8> {
    let query = ListenerQuery { group: group.map(v6), is_version_1 };
    made(|out| craft::listener_query(out, HOST_MAC, v6(src), query))
}

/// The groups in reports, all of them from our link-local address on the LAN.
fn reported(outcome: &Outcome, kind: u8) -> Vec<Ipv6Addr> {
    let mut groups = Vec::new();
    for (port, frame) in &outcome.emitted {
        with_packet(frame, |packet| {
            let ipv6 = packet.ipv6().unwrap();
            assert_eq!((*port, ipv6.src(), ipv6.hop_limit()), (LAN, v6("fe80::ff:fe00:1"), 1));
            assert_eq!(packet.icmpv6().unwrap().kind(), kind);
            let bytes = packet.payload();
            let all = if kind == 131 { bytes.chunks(16) } else { bytes.chunks(20) };
            groups.extend(all.map(|record| Ipv6Addr::from(*record.last_chunk::<16>().unwrap())));
        });
    }
    groups
}

#[test]
fn queries_are_answered_with_the_groups_of_our_addresses() {
    let text =
        NETWORK.replacen("addresses", "answer_for = [\"2001:db8:9::1:80/127\"]\naddresses", 1);
    let mut router = Router::new(&text);
    // Of the address given, the link-local one, and the two that are answered for.
    let groups = ["ff02::1:ff00:1", "ff02::1:ff01:80", "ff02::1:ff01:81"].map(v6);
    for is_version_1 in [false, true] {
        let kind = if is_version_1 { 131 } else { 143 };
        let outcome = router.send(LAN, &query(QUERIER, None, is_version_1));
        assert_eq!(outcome.received, Some(drop(Builtin::Answered)));
        assert_eq!(reported(&outcome, kind), groups);
        assert_eq!(outcome.emitted.len(), if is_version_1 { 3 } else { 1 });
        let outcome = router.send(LAN, &query(QUERIER, Some("ff02::1:ff01:81"), is_version_1));
        assert_eq!(reported(&outcome, kind), groups[2..]);
        let outcome = router.send(LAN, &query(QUERIER, Some("ff02::1:ff00:9"), is_version_1));
        assert_eq!(outcome.received, Some(drop(Builtin::NotForThisInterface)));
        assert_eq!(outcome.emitted, []);
    }
}

#[test]
fn queries_from_elsewhere_are_not_answered() {
    let mut router = Router::new(NETWORK);
    let valid = query(QUERIER, None, false);
    let cases =
        [with_hops(&valid, 2), query("2001:db8:1::7", None, false), query("::", None, true)];
    for frame in cases {
        let outcome = router.send(LAN, &frame);
        assert_eq!(outcome.received, Some(drop(Builtin::NotForwardable)));
        assert_eq!(outcome.emitted, []);
    }
    assert_eq!(router.send(LAN, &valid).emitted.len(), 1);
}

#[test]
fn many_groups_take_several_reports() {
    let answered = "answer_for = [\"2001:db8:9::/120\", \"2001:db8:a::/64\"]\naddresses";
    let mut router = Router::new(&NETWORK.replacen("addresses", answered, 1));
    let outcome = router.send(LAN, &query(QUERIER, None, false));
    assert_eq!(reported(&outcome, 143).len(), 256, "our own is among them");
    assert_eq!(outcome.emitted.len(), 5);
}
