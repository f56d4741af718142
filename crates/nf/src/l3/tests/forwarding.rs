use anabranch_packet::checksum;

use super::*;

#[test]
fn forwards_to_the_gateway_and_counts_the_hop() {
    for (src, dst) in [("10.0.0.7", "203.0.113.5"), ("2001:db8:1::7", "2001:db8:9::5")] {
        let mut router = Router::new(NETWORK);
        let frame = outbound(src, dst, 40);
        let outcome = router.send(LAN, &frame);
        assert_eq!((outcome.received, outcome.verdict), (None, Verdict::Forward(WAN)));
        assert!(outcome.emitted.is_empty());
        assert_eq!(macs(&outcome.bytes), (GATEWAY_MAC, WAN_MAC));
        assert_intact(&outcome.bytes);
        let mut expected = with_hops(&frame, 63);
        expected[..12].copy_from_slice(&outcome.bytes[..12]);
        assert_eq!(outcome.bytes, expected, "nothing else changes");
    }
}

#[test]
fn the_longest_prefix_wins() {
    let more = "[[routes]]\nto = \"203.0.113.0/24\"\nvia = \"10.0.0.9\"\n\
        [[neighbours]]\naddress = \"10.0.0.9\"\nmac = \"02:00:00:00:01:09\"\n";
    let mut router = Router::new(&[NETWORK, more].concat());
    let verdict = router.send(LAN, &outbound("10.0.0.7", "203.0.113.5", 10)).verdict;
    assert_eq!(verdict, Verdict::Forward(LAN));
    let verdict = router.send(LAN, &outbound("10.0.0.7", "203.0.114.5", 10)).verdict;
    assert_eq!(verdict, Verdict::Forward(WAN));
}

#[test]
fn what_is_not_forwardable_goes_nowhere_silently() {
    let mut router = Router::new(NETWORK);
    for (src, dst) in [
        ("10.0.0.7", "127.0.0.1"),
        ("10.0.0.7", "0.1.2.3"),
        ("10.0.0.7", "224.0.0.5"),
        ("10.0.0.7", "240.0.0.1"),
        ("10.0.0.7", "255.255.255.255"),
        ("10.0.0.7", "169.254.7.7"),
        ("10.0.0.7", "198.51.100.255"),
        ("10.0.0.7", "198.51.100.0"),
        ("127.0.0.1", "203.0.113.5"),
        ("0.0.0.0", "203.0.113.5"),
        ("224.0.0.1", "203.0.113.5"),
        ("169.254.0.9", "203.0.113.5"),
        ("10.0.0.255", "203.0.113.5"),
        ("10.0.0.0", "203.0.113.5"),
        ("198.51.100.255", "203.0.113.5"),
        ("10.0.0.255", "198.51.100.2"),
        ("2001:db8:1::7", "ff0e::1"),
        ("2001:db8:1::7", "fe80::77"),
        ("2001:db8:1::7", "::ffff:10.0.0.7"),
        ("fe80::7", "2001:db8:9::5"),
        ("::1", "2001:db8:9::5"),
    ] {
        let outcome = router.send(LAN, &outbound(src, dst, 10));
        assert_eq!(outcome.verdict, drop(Builtin::NotForwardable), "{src} to {dst}");
        assert_eq!(outcome.emitted, []);
    }
}

#[test]
fn other_stations_tags_and_bad_checksums_are_not_admitted() {
    let mut router = Router::new(NETWORK);
    let frame = outbound("10.0.0.7", "203.0.113.5", 10);
    let refused = drop(Builtin::NotForThisInterface);
    let foreign = udp(HOST_MAC, GATEWAY_MAC, "10.0.0.7", "203.0.113.5", 10);
    assert_eq!(router.send(LAN, &foreign).received, Some(refused));
    assert_eq!(router.send(Port::new(9), &frame).received, Some(refused));
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    assert_eq!(router.send(LAN, &tagged).received, Some(refused));
    let mut wrong = frame.clone();
    wrong[24] ^= 1;
    assert_eq!(router.send(LAN, &wrong).received, Some(drop(Builtin::Ipv4Checksum)));
    let mut other = frame.clone();
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(router.send(LAN, &other).received, Some(drop(Builtin::UnsupportedProtocol)));
    let group = udp(HOST_MAC, MacAddr::BROADCAST, "10.0.0.7", "10.0.0.255", 10);
    assert_eq!(router.send(LAN, &group).received, Some(drop(Builtin::NotForwardable)));
    assert_eq!(router.send(LAN, &[0; 9]).received, Some(refused));
    let recirculated = router.send(WAN, &frame);
    assert_eq!(recirculated.received, None, "addressed to another interface of ours");
}

/// IEEE 802.1Q-2022, 6.9: VLAN identifier 0 names no VLAN.
#[test]
fn a_tag_that_gives_a_priority_only_stays_and_changes_nothing() {
    let mut router = Router::new(NETWORK);
    let tagged = |frame: &[u8], tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    let priority = [0x81, 0, 0xe0, 0];
    let frame = outbound("10.0.0.7", "203.0.113.5", 10);
    let outcome = router.send(LAN, &tagged(&frame, &priority));
    assert_eq!((outcome.received, outcome.verdict), (None, Verdict::Forward(WAN)));
    assert_eq!(macs(&outcome.bytes), (GATEWAY_MAC, WAN_MAC));
    assert_eq!(outcome.bytes[12..16], priority);
    assert_intact(&outcome.bytes);
    let (host, own) = ("10.0.0.7".parse().unwrap(), "10.0.0.1".parse().unwrap());
    let asked = made(|out| craft::arp_request(out, HOST_MAC, host, own));
    for (tags, expected) in [
        (&priority[..], Builtin::Answered),
        (&[0x81, 0, 0, 7], Builtin::NotForThisInterface),
        (&[0x81, 0, 0, 7, 0x81, 0, 0, 0], Builtin::NotForThisInterface),
        (&[0x81, 0, 0, 0, 0x81, 0, 0, 7], Builtin::NotForThisInterface),
    ] {
        let outcome = router.send(LAN, &tagged(&asked, tags));
        assert_eq!(outcome.received, Some(drop(expected)), "{tags:02x?}");
    }
}

#[test]
fn a_promiscuous_interface_takes_what_a_capture_has() {
    let text = NETWORK.replacen("addresses", "promiscuous = true\naddresses", 1);
    let mut router = Router::new(&text);
    let mut foreign = udp(HOST_MAC, GATEWAY_MAC, "10.0.0.7", "203.0.113.5", 10);
    foreign[24] ^= 1;
    assert_eq!(router.send(LAN, &foreign).verdict, Verdict::Forward(WAN));
    foreign.splice(12..12, [0x81, 0, 0, 7]);
    let outcome = router.send(LAN, &foreign);
    assert_eq!(outcome.verdict, Verdict::Forward(WAN));
    assert_eq!(
        &outcome.bytes[..18],
        [&GATEWAY_MAC.octets()[..], &WAN_MAC.octets(), &[0x81, 0, 0, 7, 8, 0]].concat()
    );
}

/// A segment that opens a connection, or is part of one, with a maximum segment size.
fn opening(to_wan: bool, (src, dst): (&str, &str), flags: u8, mss: Option<u16>) -> Vec<u8> {
    let (from, to) = if to_wan { (HOST_MAC, LAN_MAC) } else { (GATEWAY_MAC, WAN_MAC) };
    let link = Link { src: from, dst: to, tags: [None; 2] };
    let segment = craft::Segment { flags, mss, ..craft::Segment::default() };
    made(|out| craft::tcp(out, &link, socket(src, 4_000), socket(dst, 80), segment, &[]))
}

#[test]
fn segment_sizes_are_clamped_to_the_link_that_is_looked_after() {
    use craft::tcp_flags::{ACK, SYN};
    let host = "[[neighbours]]\naddress = \"10.0.0.7\"\nmac = \"02:00:00:00:01:07\"\n\
        [[neighbours]]\naddress = \"2001:db8:1::7\"\nmac = \"02:00:00:00:01:07\"\n";
    let plain = [NETWORK, host].concat();
    let clamps = plain.replace("mtu = 1280", "mtu = 1280\nclamp_mss = true");
    let left = |text: &str, frame: &[u8], port| {
        let outcome = Router::new(text).send(port, frame);
        assert!(matches!(outcome.verdict, Verdict::Forward(_)), "{outcome:?}");
        assert_intact(&outcome.bytes);
        with_packet(&outcome.bytes, |packet| packet.tcp().unwrap().mss())
    };
    let ends = [("10.0.0.7", "203.0.113.5", 1_240), ("2001:db8:1::7", "2001:db8:9::5", 1_220)];
    for (inside, outside, most) in ends {
        for (port, to_wan, ends) in
            [(LAN, true, (inside, outside)), (WAN, false, (outside, inside))]
        {
            for (flags, mss, clamped) in [
                (SYN, Some(1_460), most),
                (SYN | ACK, Some(65_535), most),
                (SYN, Some(most), most),
                (SYN, Some(536), 536),
                (SYN, Some(0), 0),
                (SYN, None, 0),
                (ACK, Some(1_460), 1_460),
            ] {
                let frame = opening(to_wan, ends, flags, mss);
                assert_eq!(left(&clamps, &frame, port), clamped, "{mss:?} of {ends:?}");
                assert_eq!(
                    left(&plain, &frame, port),
                    mss.unwrap_or(0),
                    "only where it is asked for"
                );
            }
        }
    }
}

#[test]
fn disabled_it_lets_pass_and_does_not_forward() {
    let mut router = Router::new("");
    let outcome = router.send(LAN, &outbound("10.0.0.7", "203.0.113.5", 10));
    assert_eq!((outcome.received, outcome.verdict), (None, drop(Builtin::NoRoute)));
}

/// Puts the fragments' payloads together; each must be in place and within `mtu`.
fn reassemble(fragments: &[(Port, Vec<u8>)], mtu: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    for (at, (port, frame)) in fragments.iter().enumerate() {
        assert_eq!((*port, macs(frame)), (WAN, (GATEWAY_MAC, WAN_MAC)));
        assert!(frame.len() <= 14 + mtu);
        with_packet(frame, |packet| {
            let ipv4 = packet.ipv4().unwrap();
            assert_eq!(usize::from(ipv4.fragment_offset()) * 8, whole.len());
            assert_eq!(ipv4.more_fragments(), at + 1 < fragments.len());
            assert_eq!((ipv4.ttl(), ipv4.total_len()), (63, frame.len() as u16 - 14));
            whole.extend_from_slice(&frame[14 + usize::from(ipv4.header_len())..]);
        });
    }
    whole
}

/// Without "don't fragment".
fn fragmentable(len: usize) -> Vec<u8> {
    let mut frame = outbound("10.0.0.7", "203.0.113.5", len);
    frame[20] &= !0x40;
    frame[24..26].fill(0);
    let sum = checksum::Sum::new().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum);
    frame
}

#[test]
fn cuts_what_is_too_long_and_may_be_cut() {
    for len in [1_253, 1_260, 2_508, 2_520, 4_000, 65_000] {
        let mut router = Router::new(NETWORK);
        let frame = fragmentable(len);
        let outcome = router.send(LAN, &frame);
        assert_eq!(outcome.verdict, drop(Builtin::Fragmented), "{len}");
        assert_eq!(outcome.emitted.len(), (len + 8).div_ceil(1_256));
        assert_eq!(reassemble(&outcome.emitted, 1_280), frame[34..]);
    }
    let mut router = Router::new(NETWORK);
    let fits = router.send(LAN, &fragmentable(1_252));
    assert_eq!(fits.verdict, Verdict::Forward(WAN));
}

#[test]
fn options_not_to_be_copied_stand_in_the_first_fragment_only() {
    let mut router = Router::new(NETWORK);
    let mut frame = fragmentable(2_000);
    // Record route (not copied), then router alert (copied), then the end.
    frame.splice(34..34, [7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 0]);
    frame[14] = 0x48;
    let total_len = (frame.len() as u16 - 14).to_be_bytes();
    frame[16..18].copy_from_slice(&total_len);
    frame[24..26].fill(0);
    let sum = checksum::Sum::new().bytes(&frame[14..46]).checksum();
    frame[24..26].copy_from_slice(&sum);
    let outcome = router.send(LAN, &frame);
    assert_eq!(outcome.verdict, drop(Builtin::Fragmented));
    assert_eq!(reassemble(&outcome.emitted, 1_280), frame[46..]);
    assert_eq!(outcome.emitted[0].1[34..46], frame[34..46]);
    assert_eq!(outcome.emitted[1].1[34..46], [1, 1, 1, 1, 1, 1, 1, 148, 4, 0, 0, 0]);
}

#[test]
fn fragments_of_fragments_keep_their_place() {
    let mut router = Router::new(NETWORK);
    let mut frame = fragmentable(2_000);
    frame[20..22].copy_from_slice(&(0x2000_u16 | 100).to_be_bytes());
    frame[24..26].fill(0);
    let sum = checksum::Sum::new().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum);
    let outcome = router.send(LAN, &frame);
    let fields: Vec<_> =
        outcome.emitted.iter().map(|(_, f)| u16::from_be_bytes([f[20], f[21]])).collect();
    assert_eq!(fields, [0x2000 | 100, 0x2000 | (100 + 157)]);
}
