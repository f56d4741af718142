use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::l3::neighbours::LEARNED;

const HOST: &str = "10.0.0.7";
const HOST6: &str = "2001:db8:1::7";

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// The host asks who has `target`.
fn arp_request(target: &str) -> Vec<u8> {
    made(|out| craft::arp_request(out, HOST_MAC, v4(HOST), v4(target)))
}

/// What `mac`, which has the address, answers to `request`.
fn arp_reply(request: &[u8], mac: MacAddr) -> Vec<u8> {
    with_packet(request, |request| made(|out| craft::arp_reply(out, request, mac)))
}

fn advertisement(solicitation: &[u8], mac: MacAddr) -> Vec<u8> {
    with_packet(solicitation, |asked| {
        made(|out| craft::neighbour_advertisement(out, asked, mac, false))
    })
}

/// A packet from outside to the host on the LAN.
fn to_host(router: &mut Router) -> Outcome {
    router.send(WAN, &inbound("203.0.113.5", HOST, 30))
}

fn to_host6(router: &mut Router) -> Outcome {
    router.send(WAN, &inbound("2001:db8:9::5", HOST6, 30))
}

/// Asserts that the only thing emitted asks for the host with `dst` as MAC address; returns it.
fn question(outcome: &Outcome, dst: MacAddr) -> Vec<u8> {
    question_in(&outcome.emitted, dst)
}

fn question_in(emitted: &[(Port, Vec<u8>)], dst: MacAddr) -> Vec<u8> {
    let [(port, frame)] = emitted else { panic!("{emitted:?}") };
    assert_eq!((*port, macs(frame)), (LAN, (dst, LAN_MAC)));
    with_packet(frame, |packet| match packet.arp() {
        Some(arp) => {
            assert_eq!((arp.operation(), arp.target_ip()), (1, v4(HOST)));
            assert_eq!((arp.sender_mac(), arp.sender_ip()), (LAN_MAC, v4("10.0.0.1")));
        }
        None => {
            let message = craft::neighbour_message(packet).unwrap();
            assert_eq!((message.is_solicitation, message.target), (true, v6(HOST6)));
            let whom = packet.ipv6().unwrap().dst();
            assert!(
                whom.is_multicast() == dst.is_multicast()
                    && (whom.is_multicast() || whom == v6(HOST6))
            );
            assert_eq!(message.mac, Some(LAN_MAC));
            assert_eq!(packet.ipv6().unwrap().src(), v6("2001:db8:1::1"));
        }
    });
    frame.clone()
}

#[test]
fn arp_for_our_addresses_is_answered_and_learned_from() {
    let mut router = Router::new(NETWORK);
    let outcome = router.send(LAN, &arp_request("10.0.0.1"));
    assert_eq!(outcome.received, Some(drop(Builtin::Answered)));
    assert_eq!(outcome.emitted, [(LAN, arp_reply(&arp_request("10.0.0.1"), LAN_MAC))]);
    let outcome = to_host(&mut router);
    assert_eq!(
        (outcome.verdict, macs(&outcome.bytes)),
        (Verdict::Forward(LAN), (HOST_MAC, LAN_MAC))
    );
    assert_eq!(outcome.emitted, []);
    assert_intact(&outcome.bytes);
}

#[test]
fn arp_for_others_is_neither_answered_nor_learned_from() {
    let mut router = Router::new(NETWORK);
    for target in ["10.0.0.9", "198.51.100.2"] {
        let outcome = router.send(LAN, &arp_request(target));
        assert_eq!(outcome.received, Some(drop(Builtin::NotForThisInterface)));
        assert_eq!(outcome.emitted, []);
    }
    question(&to_host(&mut router), MacAddr::BROADCAST);
}

#[test]
fn arp_is_answered_for_the_prefixes_given() {
    let text = NETWORK.replacen("addresses", "answer_for = [\"10.0.0.64/26\"]\naddresses", 1);
    let mut router = Router::new(&text);
    let outcome = router.send(LAN, &arp_request("10.0.0.100"));
    assert_eq!(outcome.emitted, [(LAN, arp_reply(&arp_request("10.0.0.100"), LAN_MAC))]);
    assert_eq!(router.send(LAN, &arp_request("10.0.0.128")).emitted, []);
}

#[test]
fn arp_from_strangers_is_not_believed() {
    let mut router = Router::new(NETWORK);
    for (mac, sender) in [
        (HOST_MAC, "192.0.2.9"),
        (HOST_MAC, "10.0.0.1"),
        (HOST_MAC, "0.0.0.0"),
        (MacAddr::BROADCAST, HOST),
        (MacAddr::ZERO, HOST),
    ] {
        let request = made(|out| craft::arp_request(out, mac, v4(sender), v4("10.0.0.1")));
        assert_eq!(router.send(LAN, &request).received, Some(drop(Builtin::Answered)));
    }
    question(&to_host(&mut router), MacAddr::BROADCAST);
    let unasked = arp_reply(
        &made(|out| craft::arp_request(out, LAN_MAC, v4("10.0.0.1"), v4("10.0.0.8"))),
        HOST_MAC,
    );
    assert_eq!(router.send(LAN, &unasked).received, Some(drop(Builtin::NotForThisInterface)));
}

#[test]
fn a_neighbour_is_asked_for_and_the_latest_packet_held() {
    let mut router = Router::new(NETWORK);
    let asked = question(&to_host(&mut router), MacAddr::BROADCAST);
    let unresolved = drop(Builtin::NeighbourUnresolved);
    let second = router.send(WAN, &inbound("203.0.113.6", HOST, 31));
    assert_eq!((second.verdict, &second.emitted[..]), (unresolved, &[][..]), "not asked twice");
    let outcome = router.send(LAN, &arp_reply(&asked, HOST_MAC));
    assert_eq!(outcome.received, Some(drop(Builtin::Answered)));
    let mut expected = with_hops(&inbound("203.0.113.6", HOST, 31), 63);
    expected[..12].copy_from_slice(&[HOST_MAC.octets(), LAN_MAC.octets()].concat());
    assert_eq!(outcome.emitted, [(LAN, expected)]);
    assert_eq!(to_host(&mut router).verdict, Verdict::Forward(LAN));
}

/// RFC 4861, 7.2.2: whether other packets come or not.
#[test]
fn a_silent_neighbour_is_reported_after_three_questions() {
    let mut router = Router::new(NETWORK);
    question(&to_host(&mut router), MacAddr::BROADCAST);
    for _ in 0..2 {
        assert_eq!(router.wait(SECOND - 1), []);
        question_in(&router.wait(1), MacAddr::BROADCAST);
        assert_eq!(to_host(&mut router).emitted, [], "one question a second");
    }
    assert_eq!(router.wait(SECOND - 1), []);
    assert_unreachable(&router.wait(1));
    assert_eq!(router.wait(10 * SECOND), [], "three questions");
    let outcome = to_host(&mut router);
    assert_eq!(outcome.verdict, drop(Builtin::NeighbourUnresolved));
    let [(LAN, asked), error] = &outcome.emitted[..] else { panic!("{outcome:?}") };
    assert_unreachable(std::slice::from_ref(error));
    let answer = router.send(LAN, &arp_reply(asked, HOST_MAC));
    assert_eq!(answer.emitted, [], "what was held has been reported");
    assert_eq!(to_host(&mut router).verdict, Verdict::Forward(LAN));
}

/// Asserts that the sender of what `to_host` sends is told that the host does not answer, and no more.
fn assert_unreachable(emitted: &[(Port, Vec<u8>)]) {
    let [(WAN, error)] = emitted else { panic!("{emitted:?}") };
    assert_eq!(macs(error), (GATEWAY_MAC, WAN_MAC));
    with_packet(error, |packet| {
        let (ipv4, icmp) = (packet.ipv4().unwrap(), packet.icmpv4().unwrap());
        assert_eq!((icmp.kind(), icmp.code()), (3, 1));
        assert_eq!((ipv4.src(), ipv4.dst()), (v4("198.51.100.2"), v4("203.0.113.5")));
        assert_eq!(packet.payload(), &inbound("203.0.113.5", HOST, 30)[14..]);
    });
}

/// The packet is quoted as it arrived, though it was ready to leave.
#[test]
fn who_waits_for_a_silent_ipv6_neighbour_is_told() {
    let mut router = Router::new(NETWORK);
    let group = MacAddr::new(0x33, 0x33, 0xff, 0, 0, 7);
    let arrived = inbound("2001:db8:9::5", "2001:db8:2::2", 1_100);
    let outcome = router.send_through(WAN, &arrived, |packet| {
        packet.ipv6_mut().unwrap().set_dst(v6(HOST6));
    });
    question(&outcome, group);
    for _ in 0..2 {
        question_in(&router.wait(SECOND), group);
    }
    let emitted = router.wait(SECOND);
    let [(WAN, error)] = &emitted[..] else { panic!("{emitted:?}") };
    assert_intact(error);
    with_packet(error, |packet| {
        let icmp = packet.icmpv6().unwrap();
        assert_eq!((icmp.kind(), icmp.code()), (1, 3), "address unreachable");
        assert_eq!(packet.ipv6().unwrap().dst(), v6("2001:db8:9::5"));
        assert_eq!(packet.payload(), &arrived[14..]);
    });
}

#[test]
fn who_answers_is_asked_no_more() {
    let mut router = Router::new(NETWORK);
    let asked = question(&to_host(&mut router), MacAddr::BROADCAST);
    question_in(&router.wait(SECOND), MacAddr::BROADCAST);
    assert_eq!(router.send(LAN, &arp_reply(&asked, HOST_MAC)).emitted.len(), 1);
    assert_eq!(router.wait(10 * SECOND), []);
}

#[test]
fn a_neighbour_is_asked_again_at_its_address_and_forgotten_in_the_end() {
    let mut router = Router::new(NETWORK);
    router.send(LAN, &arp_request("10.0.0.1"));
    router.now += 30 * SECOND;
    for _ in 0..3 {
        let outcome = to_host(&mut router);
        assert_eq!(outcome.verdict, Verdict::Forward(LAN), "used while it is asked");
        question(&outcome, HOST_MAC);
        assert_eq!(to_host(&mut router).emitted, []);
        router.now += SECOND;
    }
    let outcome = to_host(&mut router);
    assert_eq!(outcome.verdict, drop(Builtin::NeighbourUnresolved));
    question(&outcome, MacAddr::BROADCAST);
}

#[test]
fn an_answer_keeps_a_neighbour_for_another_while() {
    let mut router = Router::new(NETWORK);
    router.send(LAN, &arp_request("10.0.0.1"));
    for _ in 0..5 {
        router.now += 30 * SECOND;
        let asked = question(&to_host(&mut router), HOST_MAC);
        router.send(LAN, &arp_reply(&asked, HOST_MAC));
        router.now += 30 * SECOND - 1;
        assert_eq!(to_host(&mut router).emitted, []);
        router.now += 1;
    }
}

#[test]
fn a_known_neighbour_that_moves_is_followed_but_a_static_one_stays() {
    let mut router = Router::new(NETWORK);
    router.send(LAN, &arp_request("10.0.0.1"));
    let moved = MacAddr::new(2, 0, 0, 0, 1, 8);
    let gratuitous = made(|out| craft::arp_request(out, moved, v4(HOST), v4(HOST)));
    assert_eq!(router.send(LAN, &gratuitous).received, Some(drop(Builtin::Answered)));
    assert_eq!(macs(&to_host(&mut router).bytes).0, moved);
    let forged = made(|out| craft::arp_request(out, moved, v4("198.51.100.1"), v4("198.51.100.2")));
    router.send(WAN, &forged);
    let outcome = router.send(LAN, &outbound(HOST, "203.0.113.5", 9));
    assert_eq!(macs(&outcome.bytes).0, GATEWAY_MAC);
}

fn solicitation(sender: &str, target: &str) -> Vec<u8> {
    made(|out| craft::neighbour_solicitation(out, HOST_MAC, v6(sender), v6(target), None))
}

#[test]
fn solicitations_of_our_addresses_are_answered() {
    for target in ["2001:db8:1::1", "fe80::ff:fe00:1"] {
        let mut router = Router::new(NETWORK);
        let outcome = router.send(LAN, &solicitation(HOST6, target));
        assert_eq!(outcome.received, Some(drop(Builtin::Answered)));
        let [(LAN, frame)] = &outcome.emitted[..] else { panic!("{outcome:?}") };
        assert_eq!(macs(frame), (HOST_MAC, LAN_MAC));
        with_packet(frame, |packet| {
            let message = craft::neighbour_message(packet).unwrap();
            assert_eq!((message.is_solicitation, message.target), (false, v6(target)));
            assert_eq!(message.mac, Some(LAN_MAC));
            assert_eq!(packet.icmpv6().unwrap().id() >> 13, 0b111, "router, solicited, override");
        });
        // Learned by hearsay: used, and asked whether it is there.
        let outcome = to_host6(&mut router);
        assert_eq!(outcome.verdict, Verdict::Forward(LAN));
        question(&outcome, HOST_MAC);
    }
}

/// RFC 4861, 7.3.3: who knows us already asks our station, not the group; also for what we answer for.
#[test]
fn solicitations_at_our_station_are_answered() {
    let text = NETWORK.replacen("addresses", "answer_for = [\"2001:db8:9::80/128\"]\naddresses", 1);
    for (target, reason) in [
        ("2001:db8:1::1", Builtin::Answered),
        ("2001:db8:9::80", Builtin::Answered),
        ("2001:db8:9::81", Builtin::NotForThisInterface),
    ] {
        let mut router = Router::new(&text);
        let asked = changed(&solicitation(HOST6, target), |packet| {
            packet.bytes_mut()[..6].copy_from_slice(&LAN_MAC.octets());
            packet.ipv6_mut().unwrap().set_dst(v6(target));
        });
        let outcome = router.send(LAN, &asked);
        assert_eq!(outcome.received, Some(drop(reason)), "{target}");
        let answers = usize::from(reason == Builtin::Answered);
        assert_eq!(outcome.emitted.len(), answers, "{target}");
    }
}

#[test]
fn solicitations_that_are_not_valid_or_not_for_us_are_not_answered() {
    let mut router = Router::new(NETWORK);
    let valid = solicitation(HOST6, "2001:db8:1::1");
    let mut broken = valid.clone();
    broken[60] ^= 1;
    let cases = [
        (with_hops(&valid, 254), Builtin::NotForwardable),
        (broken, Builtin::NotForwardable),
        (unnamed_but_with_a_mac(), Builtin::NotForwardable),
        (solicitation(HOST6, "2001:db8:1::2"), Builtin::NotForThisInterface),
        (solicitation(HOST6, "2001:db8:2::2"), Builtin::NotForThisInterface),
    ];
    for (frame, reason) in cases {
        let outcome = router.send(LAN, &frame);
        assert_eq!((outcome.received, outcome.emitted), (Some(drop(reason)), vec![]));
    }
}

/// RFC 6980, 5: what has a fragment header is neither answered nor learned from.
#[test]
fn discovery_in_fragments_is_not_believed() {
    let fragment = |whole: &[u8]| {
        let mut frame = whole.to_vec();
        let next = std::mem::replace(&mut frame[20], 44);
        frame[19] += 8;
        frame.splice(54..54, [next, 0, 0, 0, 0, 0, 0, 9]);
        frame
    };
    let mut router = Router::new(NETWORK);
    let ignored = |outcome: Outcome| {
        assert_eq!(outcome.received, Some(drop(Builtin::NotForwardable)));
        assert_eq!(outcome.emitted, []);
    };
    let asked = solicitation(HOST6, "2001:db8:1::1");
    ignored(router.send(LAN, &fragment(&asked)));
    let at_our_station = changed(&asked, |packet| {
        packet.bytes_mut()[..6].copy_from_slice(&LAN_MAC.octets());
    });
    ignored(router.send(LAN, &fragment(&at_our_station)));
    let group = MacAddr::new(0x33, 0x33, 0xff, 0, 0, 7);
    let question = question(&to_host6(&mut router), group);
    ignored(router.send(LAN, &fragment(&advertisement(&question, HOST_MAC))));
    assert_eq!(to_host6(&mut router).verdict, drop(Builtin::NeighbourUnresolved));
}

/// Who has no address yet must not name its station (RFC 4861, 7.1.1).
fn unnamed_but_with_a_mac() -> Vec<u8> {
    changed(&solicitation(HOST6, "2001:db8:1::1"), |packet| {
        packet.ipv6_mut().unwrap().set_src(Ipv6Addr::UNSPECIFIED);
        assert_eq!(checksum::verify(packet).transport, checksum::Check::Valid);
    })
}

#[test]
fn who_claims_our_address_is_told_before_all() {
    let mut router = Router::new(NETWORK);
    let outcome = router.send(LAN, &solicitation("::", "2001:db8:1::1"));
    assert_eq!(outcome.received, Some(drop(Builtin::Answered)));
    let [(LAN, frame)] = &outcome.emitted[..] else { panic!("{outcome:?}") };
    assert_eq!(macs(frame), (MacAddr::new(0x33, 0x33, 0, 0, 0, 1), LAN_MAC));
    with_packet(frame, |packet| {
        assert_eq!(packet.ipv6().unwrap().dst(), v6("ff02::1"));
        assert_eq!(packet.icmpv6().unwrap().id() >> 13, 0b101, "router, override");
    });
}

#[test]
fn an_ipv6_neighbour_is_solicited_and_its_advertisement_learned() {
    let mut router = Router::new(NETWORK);
    let group = MacAddr::new(0x33, 0x33, 0xff, 0, 0, 7);
    let outcome = to_host6(&mut router);
    assert_eq!(outcome.verdict, drop(Builtin::NeighbourUnresolved));
    let asked = question(&outcome, group);
    let answer = advertisement(&asked, HOST_MAC);
    let mut far = with_hops(&answer, 254);
    assert_eq!(router.send(LAN, &far).received, Some(drop(Builtin::NotForwardable)));
    far = answer.clone();
    far[70] ^= 1;
    assert_eq!(router.send(LAN, &far).received, Some(drop(Builtin::NotForwardable)));
    let outcome = router.send(LAN, &answer);
    assert_eq!(outcome.received, Some(drop(Builtin::Answered)));
    let mut expected = with_hops(&inbound("2001:db8:9::5", HOST6, 30), 63);
    expected[..12].copy_from_slice(&[HOST_MAC.octets(), LAN_MAC.octets()].concat());
    assert_eq!(outcome.emitted, [(LAN, expected)]);
    router.now += 30 * SECOND - 1;
    let outcome = to_host6(&mut router);
    assert_eq!((outcome.verdict, &outcome.emitted[..]), (Verdict::Forward(LAN), &[][..]));
    router.now += 1;
    question(&to_host6(&mut router), HOST_MAC);
}

#[test]
fn an_advertisement_without_override_only_casts_doubt() {
    let mut router = Router::new(NETWORK);
    let asked = question(&to_host6(&mut router), MacAddr::new(0x33, 0x33, 0xff, 0, 0, 7));
    router.send(LAN, &advertisement(&asked, HOST_MAC));
    let mut other = advertisement(&asked, MacAddr::new(2, 0, 0, 0, 1, 8));
    // Clear the override flag, and correct the checksum by as much.
    other[58] &= !0x20;
    let sum = u16::from_be_bytes([other[56], other[57]]);
    let (sum, carry) = sum.overflowing_add(0x2000);
    other[56..58].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    assert_eq!(router.send(LAN, &other).received, Some(drop(Builtin::Answered)));
    let outcome = to_host6(&mut router);
    assert_eq!(macs(&outcome.bytes).0, HOST_MAC);
    question(&outcome, HOST_MAC);
}

/// Both ways of finding a neighbour: by the route to each host, and by a look-up of its own.
#[test]
fn the_table_is_bounded_and_keeps_those_that_answer() {
    scan("10.0.0.1/16");
    scan("10.0.0.1/8");
}

fn scan(address: &str) {
    let text = NETWORK.replacen("10.0.0.1/24", address, 1);
    let mut router = Router::new(&text);
    router.send(LAN, &arp_request("10.0.0.1"));
    for host in 0..3 * LEARNED {
        let dst = Ipv4Addr::from(0x0a00_1000 + host).to_string();
        let verdict = router.send(WAN, &inbound("203.0.113.5", &dst, 9)).verdict;
        assert_eq!(verdict, drop(Builtin::NeighbourUnresolved));
    }
    assert_eq!(to_host(&mut router).verdict, Verdict::Forward(LAN));
}

/// Whoever takes over an entry must not get the packets of whom it belonged to.
#[test]
fn a_replaced_neighbour_is_asked_for_anew() {
    let mut router = Router::new(&NETWORK.replacen("10.0.0.1/24", "10.0.0.1/16", 1));
    let host = |number: u32| Ipv4Addr::from(0x0a00_1000 + number);
    let mac = |number: u32| {
        let [.., high, low] = number.to_be_bytes();
        MacAddr::new(2, 1, 0, 0, high, low)
    };
    for number in 0..2 * LEARNED {
        let request =
            made(|out| craft::arp_request(out, mac(number), host(number), v4("10.0.0.1")));
        router.send(LAN, &request);
    }
    let mut known = 0;
    for number in 0..2 * LEARNED {
        let frame = inbound("203.0.113.5", &host(number).to_string(), 9);
        let outcome = router.send(WAN, &frame);
        if outcome.verdict == Verdict::Forward(LAN) {
            assert_eq!(macs(&outcome.bytes), (mac(number), LAN_MAC));
            known += 1;
        } else {
            assert_eq!(outcome.verdict, drop(Builtin::NeighbourUnresolved));
        }
    }
    assert!(known > LEARNED / 2, "{known}");
}
