use anabranch_packet::craft::Echo;

use super::*;

/// The one error among what was emitted: (type, code, MTU, quoted bytes), after its addresses have
/// been checked: to the host on the LAN that sent the packet.
fn error(outcome: &Outcome, from: &str, to: &str) -> (u8, u8, u32, Vec<u8>) {
    let [(port, frame)] = &outcome.emitted[..] else { panic!("{outcome:?}") };
    assert_eq!((*port, macs(frame)), (LAN, (HOST_MAC, LAN_MAC)));
    with_packet(frame, |packet| {
        let quoted = packet.payload().to_vec();
        if let (Some(ipv4), Some(icmp)) = (packet.ipv4(), packet.icmpv4()) {
            assert_eq!((ipv4.src().to_string(), ipv4.dst().to_string()), (from.into(), to.into()));
            assert!(ipv4.total_len() <= 576 && icmp.is_error());
            return (icmp.kind(), icmp.code(), icmp.mtu(), quoted);
        }
        let (ipv6, icmp) = (packet.ipv6().unwrap(), packet.icmpv6().unwrap());
        assert_eq!((ipv6.src().to_string(), ipv6.dst().to_string()), (from.into(), to.into()));
        assert!(ipv6.payload_len() <= 1_240 && icmp.is_error());
        (icmp.kind(), icmp.code(), icmp.mtu(), quoted)
    })
}

const PAIRS: [(&str, &str, &str); 2] =
    [("10.0.0.7", "203.0.113.5", "10.0.0.1"), ("2001:db8:1::7", "2001:db8:9::5", "2001:db8:1::1")];

#[test]
fn time_exceeded() {
    for (kind, (src, dst, own)) in [11, 3].into_iter().zip(PAIRS) {
        for hops in [0, 1] {
            let mut router = Router::new(NETWORK);
            let frame = with_hops(&outbound(src, dst, 30), hops);
            let outcome = router.send(LAN, &frame);
            assert_eq!(outcome.verdict, drop(Builtin::TtlExpired));
            assert_eq!(error(&outcome, own, src), (kind, 0, 0, frame[14..].to_vec()));
        }
    }
}

#[test]
fn too_big() {
    for ((kind, code), (src, dst, own)) in [(3, 4), (2, 0)].into_iter().zip(PAIRS) {
        let mut router = Router::new(NETWORK);
        let frame = outbound(src, dst, 1_300);
        let outcome = router.send(LAN, &frame);
        assert_eq!(outcome.verdict, drop(Builtin::PacketTooBig));
        let limit = if kind == 3 { 548 } else { 1_232 };
        let quoted = frame[14..14 + limit].to_vec();
        assert_eq!(error(&outcome, own, src), (kind, code, 1_280, quoted));
    }
}

#[test]
fn no_route() {
    let lan = NETWORK.split("[[routes]]").next().unwrap();
    for ((kind, code), (src, dst, own)) in [(3, 0), (1, 0)].into_iter().zip(PAIRS) {
        let mut router = Router::new(lan);
        let frame = outbound(src, dst, 30);
        let outcome = router.send(LAN, &frame);
        assert_eq!(outcome.verdict, drop(Builtin::NoRoute));
        assert_eq!(error(&outcome, own, src), (kind, code, 0, frame[14..].to_vec()));
    }
}

#[test]
fn port_unreachable_comes_from_the_address_that_was_meant() {
    for ((kind, code), (src, own)) in [(3, 3), (1, 4)]
        .into_iter()
        .zip([("10.0.0.7", "198.51.100.2"), ("2001:db8:1::7", "2001:db8:2::2")])
    {
        let mut router = Router::new(NETWORK);
        let frame = outbound(src, own, 30);
        let outcome = router.send(LAN, &frame);
        assert_eq!((outcome.received, outcome.verdict), (None, drop(Builtin::Answered)));
        assert_eq!(error(&outcome, own, src), (kind, code, 0, frame[14..].to_vec()));
    }
}

#[test]
fn an_error_quotes_the_packet_as_it_arrived() {
    let mut router = Router::new(NETWORK);
    let frame = with_hops(&outbound("10.0.0.7", "203.0.113.5", 30), 1);
    let outcome = router.send_through(LAN, &frame, |packet| {
        packet.ipv4_mut().unwrap().set_src("198.51.100.2".parse().unwrap());
        packet.set_src_port(7);
    });
    assert_eq!(error(&outcome, "10.0.0.1", "10.0.0.7"), (11, 0, 0, frame[14..].to_vec()));
    // Over IPv6 the checksum lies further on.
    let frame = with_hops(&outbound("2001:db8:1::7", "2001:db8:2::5", 30), 1);
    let outcome = router.send_through(LAN, &frame, |packet| {
        packet.ipv6_mut().unwrap().set_src("2001:db8:2::9".parse().unwrap());
        packet.set_src_port(7);
        assert_ne!(packet.bytes()[60..62], frame[60..62]);
    });
    let (own, host) = ("2001:db8:1::1", "2001:db8:1::7");
    assert_eq!(error(&outcome, own, host), (3, 0, 0, frame[14..].to_vec()));
}

#[test]
fn nothing_is_said_to_ourselves() {
    let mut router = Router::new(NETWORK);
    let frame = with_hops(&outbound("198.51.100.2", "203.0.113.5", 30), 1);
    let outcome = router.send(LAN, &frame);
    assert_eq!((outcome.verdict, outcome.emitted), (drop(Builtin::TtlExpired), vec![]));
}

#[test]
fn nothing_is_said_to_all_hosts_of_a_link() {
    for src in ["10.0.0.255", "198.51.100.0"] {
        let mut router = Router::new(NETWORK);
        // A translator gives it a source that can be forwarded.
        let frame = with_hops(&outbound(src, "203.0.113.5", 30), 1);
        let outcome = router.send_through(LAN, &frame, |packet| {
            packet.ipv4_mut().unwrap().set_src("198.51.100.2".parse().unwrap());
        });
        assert_eq!((outcome.verdict, outcome.emitted), (drop(Builtin::TtlExpired), vec![]));
        let outcome = router.send(LAN, &echo_request(src, "10.0.0.1", b"x"));
        assert_eq!(outcome.received, Some(drop(Builtin::NotForwardable)));
        assert_eq!(outcome.emitted, []);
    }
}

#[test]
fn no_error_about_errors_and_later_fragments() {
    let mut router = Router::new(NETWORK);
    let frame = with_hops(&outbound("10.0.0.7", "203.0.113.5", 30), 1);
    let error = router.send(LAN, &frame).emitted.remove(0).1;
    // That error, sent on by the host with one hop left.
    let link = [LAN_MAC.octets(), HOST_MAC.octets()].concat();
    let about = changed(&with_hops(&error, 1), |packet| {
        packet.ipv4_mut().unwrap().set_dst("203.0.113.5".parse().unwrap());
        packet.ipv4_mut().unwrap().set_src("10.0.0.7".parse().unwrap());
        packet.bytes_mut()[..12].copy_from_slice(&link);
    });
    let outcome = router.send(LAN, &about);
    assert_eq!((outcome.verdict, outcome.emitted), (drop(Builtin::TtlExpired), vec![]));
    let later = changed(&frame, |packet| {
        let bytes = packet.bytes_mut();
        bytes[20..22].copy_from_slice(&9_u16.to_be_bytes());
        bytes[24..26].fill(0);
        let sum = checksum::Sum::new().bytes(&bytes[14..34]).checksum();
        bytes[24..26].copy_from_slice(&sum);
    });
    let outcome = router.send(LAN, &later);
    assert_eq!((outcome.verdict, outcome.emitted), (drop(Builtin::TtlExpired), vec![]));
}

#[test]
fn errors_are_limited_in_rate() {
    let mut router = Router::new(NETWORK);
    let frame = with_hops(&outbound("10.0.0.7", "203.0.113.5", 30), 1);
    let sent = |router: &mut Router, packets: usize| {
        (0..packets).map(|_| router.send(LAN, &frame).emitted.len()).sum::<usize>()
    };
    assert_eq!(sent(&mut router, 1_000), 50);
    router.now += 10 * SECOND / 1_000;
    assert_eq!(sent(&mut router, 1_000), 10);
}

/// An echo request from the host on the LAN.
fn echo_request(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let link = Link { src: HOST_MAC, dst: LAN_MAC, tags: [None; 2] };
    let echo = Echo { is_reply: false, id: 7, sequence: 9 };
    let mut out = vec![0; payload.len() + 128];
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    let len = craft::echo(&mut out, &link, src, dst, echo, payload).unwrap();
    out.truncate(len);
    out
}

#[test]
fn echo_to_any_of_our_addresses_is_answered() {
    let payload: Vec<u8> = (0..1_000).map(|at| at as u8).collect();
    for (src, own) in [
        ("10.0.0.7", "10.0.0.1"),
        ("10.0.0.7", "198.51.100.2"),
        ("2001:db8:1::7", "2001:db8:1::1"),
        ("fe80::7", "fe80::ff:fe00:1"),
    ] {
        let mut router = Router::new(NETWORK);
        let outcome = router.send(LAN, &echo_request(src, own, &payload));
        assert_eq!(outcome.received, Some(drop(Builtin::Answered)));
        let [(port, frame)] = &outcome.emitted[..] else { panic!("{outcome:?}") };
        assert_eq!((*port, macs(frame)), (LAN, (HOST_MAC, LAN_MAC)));
        with_packet(frame, |packet| {
            assert_eq!(packet.payload(), payload);
            let ends = match (packet.ipv4(), packet.ipv6()) {
                (Some(ip), _) => (ip.src().to_string(), ip.dst().to_string()),
                (_, Some(ip)) => (ip.src().to_string(), ip.dst().to_string()),
                _ => panic!("no IP"),
            };
            assert_eq!(ends, (own.to_owned(), src.to_owned()));
            let kind = packet.icmpv4().map(|icmp| (icmp.kind(), icmp.id(), icmp.sequence()));
            let kind = kind
                .or(packet.icmpv6().map(|icmp| (icmp.kind() - 129, icmp.id(), icmp.sequence())));
            assert_eq!(kind, Some((0, 7, 9)));
        });
    }
}

#[test]
fn damaged_echo_requests_are_not_answered() {
    for (src, own) in [("10.0.0.7", "10.0.0.1"), ("2001:db8:1::7", "2001:db8:1::1")] {
        let mut router = Router::new(NETWORK);
        let mut frame = echo_request(src, own, b"data");
        *frame.last_mut().unwrap() ^= 1;
        let outcome = router.send(LAN, &frame);
        assert_eq!(outcome.received, Some(drop(Builtin::NotForwardable)), "{src}");
        assert_eq!(outcome.emitted, []);
    }
}

/// The echo request with a loose source route of one hop (RFC 791), of which the next is number `pointer`.
fn with_route4(request: &[u8], pointer: u8) -> Vec<u8> {
    let route = [1, 131, 7, pointer, 10, 0, 0, 99];
    let mut frame = [&request[..34], &route, &request[34..]].concat();
    frame[14] = 0x47;
    let total_len = frame.len() as u16 - 14;
    frame[16..18].copy_from_slice(&total_len.to_be_bytes());
    frame[24..26].fill(0);
    let sum = checksum::Sum::new().bytes(&frame[14..42]).checksum();
    frame[24..26].copy_from_slice(&sum);
    frame
}

/// The same with a routing header (RFC 8200) that has `left` segments left.
fn with_route6(request: &[u8], left: u8) -> Vec<u8> {
    let route = [&[58, 2, 0, left, 0, 0, 0, 0][..], &[0xfd; 16]].concat();
    let mut frame = [&request[..54], &route, &request[54..]].concat();
    frame[20] = 43;
    let payload_len = frame.len() as u16 - 54;
    frame[18..20].copy_from_slice(&payload_len.to_be_bytes());
    frame
}

#[test]
fn nobody_is_answered_before_the_end_of_a_source_route() {
    let request4 = echo_request("10.0.0.7", "10.0.0.1", b"data");
    let request6 = echo_request("2001:db8:1::7", "2001:db8:1::1", b"data");
    for (frame, reason) in [
        (with_route4(&request4, 4), Builtin::NotForwardable),
        (with_route4(&request4, 8), Builtin::Answered),
        (with_route6(&request6, 1), Builtin::NotForwardable),
        (with_route6(&request6, 0), Builtin::Answered),
    ] {
        let mut router = Router::new(NETWORK);
        let outcome = router.send(LAN, &frame);
        assert_eq!(outcome.received, Some(drop(reason)), "{frame:02x?}");
        assert_eq!(outcome.emitted.is_empty(), reason == Builtin::NotForwardable);
    }
}

#[test]
fn a_link_local_address_is_ours_on_its_own_link() {
    let mut router = Router::new(NETWORK);
    for (own, answers) in [("fe80::ff:fe00:1", 1), ("fe80::ff:fe00:2", 0)] {
        let outcome = router.send(LAN, &echo_request("fe80::7", own, b"x"));
        assert_eq!(outcome.emitted.len(), answers, "{own}");
    }
}

#[test]
fn damaged_udp_to_ourselves_is_dropped_in_silence() {
    let mut router = Router::new(NETWORK);
    let mut frame = outbound("10.0.0.7", "10.0.0.1", 30);
    *frame.last_mut().unwrap() ^= 1;
    let outcome = router.send(LAN, &frame);
    assert_eq!((outcome.verdict, outcome.emitted), (drop(Builtin::NotForwardable), vec![]));
}

#[test]
fn what_a_translator_may_want_is_not_taken() {
    let mut router = Router::new(NETWORK);
    let through = router.send(LAN, &echo_request("10.0.0.7", "203.0.113.5", b"x"));
    assert_eq!((through.received, through.verdict), (None, Verdict::Forward(WAN)));
    let to_us = router.send(WAN, &inbound("203.0.113.5", "198.51.100.2", 9));
    assert_eq!(to_us.received, None);
    let reply = changed(&echo_request("10.0.0.7", "10.0.0.1", b""), |packet| {
        packet.bytes_mut()[34] = 0;
    });
    assert_eq!(router.send(LAN, &reply).received, None);
}
