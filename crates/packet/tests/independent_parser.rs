//! Held against an independent parser, `etherparse`: whatever both accept, both read alike.

use anabranch_packet::{Frame, Layout, Meta, Packet, fuzzing, parse};
use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TcpOptionElement, TransportSlice};
use proptest::prelude::*;

mod capture;

/// Compares the two readings; whether there was anything to compare.
fn compare(bytes: &[u8]) -> bool {
    let wire_len = bytes.len() as u32;
    let layout = parse(bytes, wire_len);
    let Ok(theirs) = SlicedPacket::from_ethernet(bytes) else { return false };
    if layout.malformed().is_some() || !is_common_ground(&theirs) {
        return false;
    }
    let mut copy = bytes.to_vec();
    let meta = Meta { wire_len, ..Meta::default() };
    let mut frame = Frame::new(&mut copy, 0, bytes.len(), 0, meta);
    let packet = <Packet>::new(&mut frame, layout);
    compare_link(&packet, &theirs);
    compare_net(&packet, &theirs);
    compare_transport(&packet, layout, &theirs);
    true
}

/// What the two read differently on purpose: MACsec is opaque here, AH is stepped over here only
/// above IPv6, mobility, HIP and shim headers are stepped over only here, an IPv6 payload length of
/// zero is zero here, and tags end at four here.
fn is_common_ground(theirs: &SlicedPacket<'_>) -> bool {
    let tags_only = theirs.link_exts.iter().all(|ext| matches!(ext, LinkExtSlice::Vlan(_)));
    let net = match &theirs.net {
        Some(NetSlice::Ipv4(ip)) => ip.extensions().is_empty(),
        Some(NetSlice::Ipv6(ip)) => {
            let stopped_at = ip.payload().ip_number.0;
            ip.header().payload_length() != 0 && !matches!(stopped_at, 135 | 139 | 140)
        }
        _ => true,
    };
    tags_only && theirs.link_exts.len() < 3 && net
}

fn compare_link(packet: &Packet<'_>, theirs: &SlicedPacket<'_>) {
    let header = theirs.link.as_ref().and_then(|link| link.to_header()).and_then(|h| h.ethernet2());
    let header = header.expect("an Ethernet header");
    let ethernet = packet.ethernet();
    assert_eq!(ethernet.src().octets(), header.source);
    assert_eq!(ethernet.dst().octets(), header.destination);
    assert_eq!(usize::from(packet.layout().vlan_tags()), theirs.link_exts.len());
    let outermost = theirs.vlan_ids().first().map(|id| id.value());
    assert_eq!(packet.vlan().map(|vlan| vlan.id()), outermost);
    match theirs.link_exts.last() {
        Some(LinkExtSlice::Vlan(tag)) => assert_eq!(ethernet.ethertype(), tag.ether_type().0),
        _ => assert_eq!(ethernet.ethertype(), header.ether_type.0),
    }
}

fn compare_net(packet: &Packet<'_>, theirs: &SlicedPacket<'_>) {
    match &theirs.net {
        Some(NetSlice::Ipv4(net)) => {
            let (ip, header) = (packet.ipv4().expect("IPv4"), net.header());
            assert_eq!((ip.src(), ip.dst()), (header.source_addr(), header.destination_addr()));
            assert_eq!((ip.ttl(), ip.protocol()), (header.ttl(), header.protocol().0));
            assert_eq!((ip.dscp(), ip.ecn()), (header.dcp().value(), header.ecn().value()));
            assert_eq!(ip.identification(), header.identification());
            assert_eq!(ip.fragment_offset(), header.fragments_offset().value());
            assert_eq!(ip.more_fragments(), header.more_fragments());
            assert_eq!(ip.dont_fragment(), header.dont_fragment());
            assert_eq!(ip.options().as_bytes(), header.options());
            assert_eq!(packet.is_fragment(), net.is_payload_fragmented());
        }
        Some(NetSlice::Ipv6(net)) => {
            let (ip, header) = (packet.ipv6().expect("IPv6"), net.header());
            assert_eq!((ip.src(), ip.dst()), (header.source_addr(), header.destination_addr()));
            assert_eq!(ip.hop_limit(), header.hop_limit());
            assert_eq!(ip.traffic_class(), header.traffic_class());
            assert_eq!(ip.flow_label(), header.flow_label().value());
            assert_eq!(ip.payload_len(), header.payload_length());
            assert_eq!(packet.is_fragment(), net.is_payload_fragmented());
            if !packet.is_fragment() {
                assert_eq!(packet.protocol(), net.payload().ip_number.0);
            }
        }
        Some(NetSlice::Arp(net)) => {
            let ours = packet.arp();
            assert_eq!(ours.map(|arp| arp.operation()), ours.map(|_| net.operation().0));
            assert_eq!(
                ours.map(|arp| arp.sender_ip().octets().to_vec()),
                ours.map(|_| net.sender_protocol_addr().to_vec())
            );
        }
        None => assert!(packet.ipv4().is_none() && packet.ipv6().is_none()),
    }
}

/// Of fragments `etherparse` reads no transport header, not even the first one's.
fn compare_transport(packet: &Packet<'_>, layout: Layout, theirs: &SlicedPacket<'_>) {
    if packet.is_fragment() {
        return;
    }
    match &theirs.transport {
        Some(TransportSlice::Tcp(header)) => {
            let tcp = packet.tcp().expect("TCP");
            assert_eq!((tcp.src(), tcp.dst()), (header.source_port(), header.destination_port()));
            assert_eq!(
                (tcp.syn(), tcp.ack(), tcp.fin()),
                (header.syn(), header.ack(), header.fin())
            );
            assert_eq!(
                (tcp.rst(), tcp.psh(), tcp.urg()),
                (header.rst(), header.psh(), header.urg())
            );
            assert_eq!(
                (tcp.sequence(), tcp.window()),
                (header.sequence_number(), header.window_size())
            );
            assert_eq!(tcp.acknowledgement(), header.acknowledgment_number());
            assert_eq!(tcp.options().as_bytes(), header.options());
            // They refuse options of wrong lengths, and skip what they don't know.
            let mut theirs = header.options_iterator();
            let mss = theirs.by_ref().find_map(|option| match option {
                Ok(TcpOptionElement::MaximumSegmentSize(mss)) => Some(Ok(mss)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
            match mss {
                Some(Ok(mss)) => assert_eq!(tcp.mss(), mss),
                None => assert_eq!(tcp.mss(), 0),
                Some(Err(_)) => {}
            }
            assert_eq!(packet.payload(), header.payload());
        }
        Some(TransportSlice::Udp(header)) => {
            let udp = packet.udp().expect("UDP");
            assert_eq!((udp.src(), udp.dst()), (header.source_port(), header.destination_port()));
            assert_eq!((udp.length(), packet.payload()), (header.length(), header.payload()));
            assert_eq!(packet.src_port(), Some(header.source_port()));
        }
        Some(TransportSlice::Icmpv4(header)) => {
            let Some(icmp) = packet.icmpv4() else { return assert!(layout.has_ipv6()) };
            assert_eq!((icmp.kind(), icmp.code()), (header.type_u8(), header.code_u8()));
        }
        Some(TransportSlice::Icmpv6(header)) => {
            let Some(icmp) = packet.icmpv6() else { return assert!(layout.has_ipv4()) };
            assert_eq!((icmp.kind(), icmp.code()), (header.type_u8(), header.code_u8()));
            assert_eq!(packet.payload(), header.payload());
        }
        _ => assert!(!layout.has_transport()),
    }
}

#[test]
fn well_formed_packets_are_read_alike() {
    let samples = fuzzing::samples();
    let compared = samples.iter().filter(|sample| compare(sample)).count();
    assert_eq!(compared, samples.len());
}

#[test]
fn real_packets_are_read_alike() {
    let (mut compared, mut all) = (0, 0);
    for capture in capture::ethernet() {
        for packet in capture.iter().filter(|packet| packet.bytes.len() == packet.wire_len as usize)
        {
            compared += usize::from(compare(&packet.bytes));
            all += 1;
        }
    }
    assert!(compared >= all * 95 / 100, "{compared} of {all}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_packets_are_read_alike(
        sample in any::<prop::sample::Index>(),
        changes in prop::collection::vec((0_usize..90, any::<u8>()), 0..4),
        len in prop::option::weighted(0.2, 0_usize..120),
    ) {
        thread_local!(static SAMPLES: Vec<Vec<u8>> = fuzzing::samples());
        let mut bytes = SAMPLES.with(|samples| sample.get(samples).clone());
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(len.unwrap_or(usize::MAX));
        compare(&bytes);
    }
}
