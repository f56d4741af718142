use super::*;
use crate::{
    Packet,
    checksum::{Check, verify},
    fuzzing::{samples, with_packet},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAC: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 9);
const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn answer(
    request: &[u8],
    craft: impl FnOnce(&mut [u8], &Packet<'_>) -> Option<usize>,
) -> Option<Vec<u8>> {
    let (mut request, mut out) = (request.to_vec(), vec![0; 2_000]);
    let len = with_packet(&mut request, |packet| craft(&mut out, &packet))?;
    out.truncate(len);
    Some(out)
}

fn udp_packet(src: &str, dst: &str, len: usize) -> Vec<u8> {
    let mut out = vec![0; len + 100];
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    let len = udp(&mut out, &Link::default(), src, dst, &vec![7; len]).unwrap();
    out.truncate(len);
    out
}

#[test]
fn crafted_packets_are_right() {
    for mut sample in samples() {
        with_packet(&mut sample, |packet| {
            assert!(verify(&packet).is_ok(), "{:02x?}", packet.bytes());
        });
    }
}

#[test]
fn errors_quote_no_more_than_the_standards_allow() {
    for (src, dst, longest) in
        [("10.0.0.1:1", "10.0.0.2:2", 576), ("[2001:db8::1]:1", "[2001:db8::2]:2", 1_280)]
    {
        let original = udp_packet(src, dst, 1_400);
        let sender = if longest == 576 { ROUTER } else { "2001:db8::9".parse().unwrap() };
        let mut error = answer(&original, |out, p| {
            icmp_error(out, p, sender, IcmpError::TooBig { mtu: 1_300 })
        })
        .unwrap();
        assert_eq!(error.len(), 14 + longest);
        with_packet(&mut error, |packet| {
            assert_eq!(verify(&packet).transport, Check::Valid);
            let mtu = packet.icmpv4().map(|i| i.mtu()).or(packet.icmpv6().map(|i| i.mtu()));
            assert_eq!(mtu, Some(1_300));
            assert_eq!(packet.embedded().unwrap().src_port(), 1);
        });
    }
}

#[test]
fn no_error_answers_what_must_not_be_answered() {
    let error =
        |bytes: &[u8]| answer(bytes, |out, p| icmp_error(out, p, ROUTER, IcmpError::TimeExceeded));
    let asked = error(&udp_packet("10.0.0.1:1", "10.0.0.2:2", 9)).unwrap();
    assert_eq!(error(&asked), None, "an error about an error");
    for (src, dst) in [
        ("10.0.0.1:1", "224.0.0.1:2"),
        ("10.0.0.1:1", "255.255.255.255:2"),
        ("0.0.0.0:1", "10.0.0.2:2"),
        ("224.0.0.1:1", "10.0.0.2:2"),
        ("127.0.0.1:1", "10.0.0.2:2"),
    ] {
        assert_eq!(error(&udp_packet(src, dst, 9)), None, "{src} to {dst}");
    }
    let mut fragment = udp_packet("10.0.0.1:1", "10.0.0.2:2", 9);
    fragment[21] = 1;
    assert_eq!(error(&fragment), None, "a later fragment");
    let mut broadcast = udp_packet("10.0.0.1:1", "10.0.0.2:2", 9);
    broadcast[..6].fill(0xff);
    assert_eq!(error(&broadcast), None, "a link-layer broadcast");
    assert_eq!(error(&udp_packet("[2001:db8::1]:1", "[2001:db8::2]:2", 9)), None, "other version");
}

#[test]
fn packet_too_big_answers_ipv6_multicast() {
    let original = udp_packet("[2001:db8::1]:1", "[ff0e::2]:2", 9);
    let sender = "2001:db8::9".parse().unwrap();
    let error = |kind| answer(&original, |out, p| icmp_error(out, p, sender, kind));
    assert!(error(IcmpError::TooBig { mtu: 1_280 }).is_some());
    assert!(error(IcmpError::TimeExceeded).is_none());
}

#[test]
fn an_echo_is_answered_in_kind() {
    let ends: [(IpAddr, IpAddr); 2] = [
        (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()),
        ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()),
    ];
    for (src, dst) in ends {
        let link = Link { src: [2; 6].into(), dst: [4; 6].into(), tags: [Some(5), None] };
        let (mut out, asked) = (vec![0; 200], Echo { is_reply: false, id: 3, sequence: 4 });
        let len = echo(&mut out, &link, src, dst, asked, b"payload").unwrap();
        let reply = answer(&out[..len], echo_reply).unwrap();
        let mut expected = vec![0; 200];
        let back = Link { src: link.dst, dst: link.src, ..link };
        let told = Echo { is_reply: true, ..asked };
        let len = echo(&mut expected, &back, dst, src, told, b"payload").unwrap();
        assert_eq!(reply, expected[..len]);
        assert_eq!(answer(&reply, echo_reply), None, "a reply to a reply");
    }
}

#[test]
fn arp_asks_and_answers() {
    let (asker, a, b) =
        (MacAddr::new(2, 0, 0, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut request = vec![0; 42];
    assert_eq!(arp_request(&mut request, asker, a, b), Some(42));
    assert_eq!(arp_request(&mut [0; 41], asker, a, b), None, "no room");
    let mut reply = answer(&request, |out, p| arp_reply(out, p, MAC)).unwrap();
    with_packet(&mut reply, |packet| {
        assert_eq!((packet.ethernet().dst(), packet.ethernet().src()), (asker, MAC));
        let arp = packet.arp().unwrap();
        assert_eq!((arp.operation(), arp.sender_mac(), arp.sender_ip()), (2, MAC, b));
        assert_eq!((arp.target_mac(), arp.target_ip()), (asker, a));
    });
}

#[test]
fn neighbours_ask_and_answer() {
    let asker = MacAddr::new(2, 0, 0, 0, 0, 1);
    let target: Ipv6Addr = "fe80::1:2ff:fe03:405".parse().unwrap();
    for src in ["fe80::9", "::"] {
        let src: Ipv6Addr = src.parse().unwrap();
        let mut asked = vec![0; 200];
        let len = neighbour_solicitation(&mut asked, asker, src, target, None).unwrap();
        asked.truncate(len);
        with_packet(&mut asked, |packet| {
            assert_eq!(packet.ethernet().dst().to_string(), "33:33:ff:03:04:05");
            assert_eq!(packet.ipv6().unwrap().dst().to_string(), "ff02::1:ff03:405");
            let message = neighbour_message(&packet).unwrap();
            let mac = (!src.is_unspecified()).then_some(asker);
            assert_eq!(message, NeighbourMessage { is_solicitation: true, target, mac });
        });
        let mut told = answer(&asked, |out, p| neighbour_advertisement(out, p, MAC, true)).unwrap();
        with_packet(&mut told, |packet| {
            let message = neighbour_message(&packet).unwrap();
            assert_eq!(
                message,
                NeighbourMessage { is_solicitation: false, target, mac: Some(MAC) }
            );
            let (to_all, dst) = (src.is_unspecified(), packet.ipv6().unwrap().dst());
            assert_eq!(dst, if to_all { "ff02::1".parse().unwrap() } else { src });
            assert_eq!(packet.ethernet().dst().is_multicast(), to_all);
            assert_eq!(packet.bytes()[58], if to_all { 0xa0 } else { 0xe0 });
        });
        asked[21] = 254;
        assert_eq!(
            answer(&asked, |out, p| neighbour_advertisement(out, p, MAC, true)),
            None,
            "from afar"
        );
    }
}

/// RFC 6980, 5: also where the fragment is the only one.
#[test]
fn neighbours_in_fragments_are_ignored() {
    let (mut asked, target) = (vec![0; 200], "fe80::1:2ff:fe03:405".parse().unwrap());
    let len =
        neighbour_solicitation(&mut asked, MAC, "fe80::9".parse().unwrap(), target, None).unwrap();
    asked.truncate(len);
    let next = std::mem::replace(&mut asked[20], 44);
    asked[19] += 8;
    asked.splice(54..54, [next, 0, 0, 0, 0, 0, 0, 9]);
    with_packet(&mut asked, |packet| {
        assert_eq!(verify(&packet).transport, Check::Valid);
        assert!(packet.icmpv6().is_some() && !packet.is_fragment());
        assert_eq!(neighbour_message(&packet), None);
    });
    assert_eq!(answer(&asked, |out, p| neighbour_advertisement(out, p, MAC, true)), None);
}

#[test]
fn listeners_are_asked_and_report() {
    let (mac, src) = (MacAddr::new(2, 0, 0, 0, 0, 1), "fe80::1".parse().unwrap());
    let groups: Vec<Ipv6Addr> = (0..MOST_GROUPS as u16)
        .map(|at| Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, at))
        .collect();
    for group in [None, groups.get(7).copied()] {
        for is_version_1 in [false, true] {
            let (mut asked, query) = (vec![0; 200], ListenerQuery { group, is_version_1 });
            let len = listener_query(&mut asked, mac, src, query).unwrap();
            asked.truncate(len);
            let read = |asked: &mut [u8]| with_packet(asked, |packet| listener_asked(&packet));
            assert_eq!(read(&mut asked), Some(query));
            for (at, why) in
                [(21, "from afar"), (22, "from elsewhere"), (56, "no alert"), (70, "damaged")]
            {
                let mut other = asked.clone();
                other[at] ^= 2;
                assert_eq!(read(&mut other), None, "{why}");
            }
        }
    }
    let mut report = vec![0; 1_400];
    let len = listener_report(&mut report, mac, src, &groups).unwrap();
    report.truncate(len);
    assert!(len <= 14 + 1_280 && len + 20 > 14 + 1_280);
    assert_eq!(listener_report(&mut [0; 1_400], mac, src, &[src; MOST_GROUPS + 1]), None);
    with_packet(&mut report, |packet| {
        assert!(verify(&packet).is_ok() && packet.layout().malformed().is_none());
        assert_eq!(packet.ethernet().dst().to_string(), "33:33:00:00:00:16");
        let ipv6 = packet.ipv6().unwrap();
        assert_eq!((ipv6.dst().to_string().as_str(), ipv6.hop_limit()), ("ff02::16", 1));
        assert_eq!(packet.bytes()[54..62], [58, 0, 5, 2, 0, 0, 1, 0], "router alert");
        assert_eq!(packet.icmpv6().unwrap().kind(), 143);
        let records = packet.payload().chunks_exact(20).zip(&groups);
        assert!(records.clone().all(|(record, group)| record[4..] == group.octets()));
        assert_eq!((records.len(), packet.payload()[0]), (MOST_GROUPS, 2));
    });
    let len = listener_report_version_1(&mut report, mac, src, groups[7]).unwrap();
    report.truncate(len);
    with_packet(&mut report, |packet| {
        assert_eq!(verify(&packet).transport, Check::Valid);
        assert_eq!(packet.ethernet().dst().to_string(), "33:33:ff:00:00:07");
        assert_eq!(
            (packet.ipv6().unwrap().dst(), packet.icmpv6().unwrap().kind()),
            (groups[7], 131)
        );
        assert_eq!(packet.payload(), groups[7].octets());
    });
}
