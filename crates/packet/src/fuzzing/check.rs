//! The invariants.

use super::mutate::with_packet;
use crate::{
    Frame, Hollow, Layout, Meta, Packet,
    checksum::{Check, Sum, verify},
    craft::{self, IcmpError},
    parse,
};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads `bytes` in every way, by their own layout and, of their second half, by the layout of the
/// first: nothing panics, and what was found lies within the bytes.
pub fn read(bytes: &[u8]) {
    let wire_len = bytes.len() as u32;
    let layout = parse(bytes, wire_len);
    assert!(layout.l3_offset() >= 14 || layout.malformed().is_some());
    if layout.has_transport() {
        assert!(
            layout.l3_offset() < layout.l4_offset() && layout.l4_offset() < layout.payload_offset()
        );
        assert!(layout.payload_offset() <= bytes.len().min(layout.end()));
    }
    assert!(
        layout.end() <= bytes.len()
            && (layout.has_ipv4() || layout.has_ipv6() || layout.end() == 0)
    );
    read_by(layout, bytes);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    read_by(parse(first, wire_len), second);
    read_by(parse(bytes, wire_len), second);
    // As a capture that cut the packet has it.
    read_by(parse(first, wire_len), first);
}

fn read_by(layout: Layout, bytes: &[u8]) {
    let mut copy = bytes.to_vec();
    let meta = Meta { wire_len: bytes.len() as u32, ..Meta::default() };
    let mut frame = Frame::new(&mut copy, 0, bytes.len(), 0, meta);
    let mut packet = Packet::<Hollow>::new(&mut frame, layout);
    read_all(&packet);
    write_all(&mut packet, u64::MAX);
    assert_eq!(packet.bytes(), bytes, "hollow setters do nothing");
    let mut packet = <Packet>::new(&mut frame, layout);
    write_all(&mut packet, 0x0123_4567_89ab_cdef);
    read_all(&packet);
}

fn read_all<M: crate::Mode>(packet: &Packet<'_, M>) {
    let ethernet = packet.ethernet();
    black_box((ethernet.src(), ethernet.dst(), ethernet.ethertype(), packet.src_port()));
    black_box(packet.vlan().map(|vlan| (vlan.id(), vlan.priority())));
    black_box(packet.arp().map(|arp| (arp.operation(), arp.sender_mac(), arp.target_ip())));
    black_box(packet.ipv4().map(|ip| (ip.src(), ip.dst(), ip.header_len(), ip.options().count())));
    black_box(packet.ipv6().map(|ip| (ip.src(), ip.dst(), ip.protocol(), ip.flow_label())));
    black_box(packet.tcp().map(|tcp| (tcp.src(), tcp.flags(), tcp.options().count(), tcp.mss())));
    black_box(packet.udp().map(|udp| (udp.src(), udp.dst(), udp.length())));
    black_box(packet.icmpv4().map(|icmp| (icmp.kind(), icmp.id(), icmp.mtu(), icmp.is_error())));
    black_box(packet.icmpv6().map(|icmp| (icmp.kind(), icmp.id(), icmp.mtu(), icmp.is_error())));
    black_box(
        packet.embedded().map(|inner| (inner.src(), inner.src6(), inner.src_port(), inner.id())),
    );
    black_box((
        packet.payload(),
        packet.dst_port(),
        verify(packet),
        craft::neighbour_message(packet),
        craft::listener_asked(packet),
    ));
}

/// Calls every setter with a value drawn from `value`.
fn write_all<M: crate::Mode>(packet: &mut Packet<'_, M>, value: u64) {
    let [a, b, c, d, e, f, ..] = value.to_le_bytes();
    let (word, v4) = (u16::from_le_bytes([a, c]), Ipv4Addr::new(a, b, c, d));
    let v6 = Ipv6Addr::from([a, b, c, d, e, f, a, a, b, b, c, c, d, d, e, f]);
    packet.ethernet_mut().set_src([a, b, c, d, e, f].into());
    packet.ethernet_mut().set_dst([f, e, d, c, b, a].into());
    if let Some(mut vlan) = packet.vlan_mut() {
        vlan.set_id(word);
        vlan.set_priority(b);
    }
    if let Some(mut ipv4) = packet.ipv4_mut() {
        ipv4.set_src(v4);
        ipv4.set_dst(Ipv4Addr::new(d, a, b, c));
        ipv4.set_ttl(e);
        ipv4.set_dscp(f);
        ipv4.set_ecn(a);
    }
    if let Some(mut ipv6) = packet.ipv6_mut() {
        ipv6.set_src(v6);
        ipv6.set_dst(v6);
        ipv6.set_hop_limit(a);
        ipv6.set_traffic_class(b);
    }
    write_transport(packet, word);
    if let Some(mut inner) = packet.embedded_mut() {
        inner.set_src(v4);
        inner.set_dst(v4);
        inner.set_src6(v6);
        inner.set_dst6(v6);
        inner.set_src_port(word);
        inner.set_dst_port(!word);
        inner.set_id(word);
    }
}

fn write_transport<M: crate::Mode>(packet: &mut Packet<'_, M>, word: u16) {
    packet.set_src_port(word);
    packet.set_dst_port(!word);
    if let Some(mut tcp) = packet.tcp_mut() {
        tcp.set_src(word.wrapping_add(1));
        tcp.set_dst(word.wrapping_add(2));
        tcp.set_mss(word.max(1));
        let mss = tcp.mss();
        assert!(M::HOLLOW || mss == 0 || mss == word.max(1));
    }
    if let Some(mut udp) = packet.udp_mut() {
        udp.set_src(word.wrapping_add(1));
        udp.set_dst(word.wrapping_add(2));
    }
    if let Some(mut icmp) = packet.icmpv4_mut() {
        icmp.set_id(word);
    }
    if let Some(mut icmp) = packet.icmpv6_mut() {
        icmp.set_id(word);
    }
}

/// Computes every checksum of the packet anew, then calls every setter: each checksum that could be
/// checked before is right after, and bit for bit what computing it anew gives.
pub fn checksums(bytes: &[u8], value: u64) {
    let mut bytes = bytes.to_vec();
    with_packet(&mut bytes, |mut packet| {
        let zero_before = udp_checksum_is_zero(&packet);
        if !recompute(&mut packet) {
            return;
        }
        write_all(&mut packet, value);
        let report = verify(&packet);
        assert!(report.is_ok(), "{report:?} {:02x?}", packet.bytes());
        assert_eq!(zero_before, udp_checksum_is_zero(&packet), "zero stays, and never comes out");
        let updated = packet.bytes().to_vec();
        recompute(&mut packet);
        assert_eq!(updated, packet.bytes(), "an update gives what computing anew gives");
    });
}

fn udp_checksum_is_zero(packet: &Packet<'_>) -> bool {
    let at = packet.layout().l4_offset() + 6;
    packet.udp().is_some() && packet.bytes().get(at..at + 2) == Some(&[0, 0])
}

/// Writes the checksums of the IPv4 header and of the transport protocol as [`verify`] computes
/// them; `false` where they cannot be.
fn recompute(packet: &mut Packet<'_>) -> bool {
    let layout = packet.layout();
    if let Some(len) = packet.ipv4().map(|ip| usize::from(ip.header_len())) {
        let header = layout.l3_offset()..layout.l3_offset() + len;
        if !rewrite(packet, layout.l3_offset() + 10, |p| {
            p.bytes().get(header).map(|h| Sum::new().bytes(h))
        }) {
            return false;
        }
    }
    let offset = match layout {
        _ if layout.has_tcp() => 16,
        _ if layout.has_udp() => 6,
        _ => 2,
    };
    match verify(packet).transport {
        Check::Valid | Check::Invalid => {
            rewrite(packet, layout.l4_offset() + offset, crate::checksum::transport_sum)
        }
        Check::Absent | Check::Unverifiable => true,
    }
}

fn rewrite(
    packet: &mut Packet<'_>,
    at: usize,
    sum: impl FnOnce(&Packet<'_>) -> Option<Sum>,
) -> bool {
    let udp = packet.layout().has_udp() && at > packet.layout().l4_offset();
    let Some(field) = packet.bytes_mut().get_mut(at..at + 2) else { return false };
    field.copy_from_slice(&[0, 0]);
    let Some(sum) = sum(packet) else { return false };
    let new = if udp { sum.udp_checksum() } else { sum.checksum() };
    if let Some(field) = packet.bytes_mut().get_mut(at..at + 2) {
        field.copy_from_slice(&new);
    }
    true
}

/// Quotes `bytes` in an error, translates what is quoted, and holds all three checksums to what
/// translating the packet and then quoting it gives.
pub fn embedded(bytes: &[u8], value: u64) {
    let mut quoted = bytes.to_vec();
    let [a, b, c, d, e, f, ..] = value.to_le_bytes();
    let (src, port) = (Ipv4Addr::new(a, b, c, d), u16::from_le_bytes([e, f]));
    let layout = parse(bytes, bytes.len() as u32);
    if layout.is_first_fragment() && !layout.has_transport() {
        // The ports of a header that goes on in the next fragment can be told in a quotation only.
        return;
    }
    let Some(mut error) = error_about(&mut quoted) else { return };
    with_packet(&mut error, |mut packet| {
        if let Some(mut inner) = packet.embedded_mut() {
            inner.set_src(src);
            inner.set_src6(src.to_ipv6_mapped());
            inner.set_src_port(port);
            inner.set_id(port);
        }
        assert!(verify(&packet).is_ok(), "the error's own checksum");
    });
    with_packet(&mut quoted, |mut packet| translate(&mut packet, src, port));
    // The quote goes to the packet's source, which the translation has changed.
    let at = parse(&error, error.len() as u32).payload_offset();
    let ip = parse(&quoted, quoted.len() as u32).l3_offset();
    let inner = error.get(at..).unwrap_or_default();
    let outer = quoted.get(ip..).unwrap_or_default();
    assert!(outer.starts_with(inner), "{inner:02x?}\n{outer:02x?}");
}

fn translate(packet: &mut Packet<'_>, src: Ipv4Addr, port: u16) {
    if let Some(mut ipv4) = packet.ipv4_mut() {
        ipv4.set_src(src);
    }
    if let Some(mut ipv6) = packet.ipv6_mut() {
        ipv6.set_src(src.to_ipv6_mapped());
    }
    packet.set_src_port(port);
    if let Some(mut icmp) = packet.icmpv4_mut() {
        icmp.set_id(port);
    }
    if let Some(mut icmp) = packet.icmpv6_mut() {
        icmp.set_id(port);
    }
}

/// A time-exceeded error about the packet; `None` for what no error is sent about, and for what is
/// malformed, in which a quote and a whole packet are read differently.
fn error_about(quoted: &mut [u8]) -> Option<Vec<u8>> {
    let mut out = vec![0; 1_400];
    let len = with_packet(quoted, |packet| {
        let router = match (packet.layout().malformed(), packet.ipv4()) {
            (Some(_), _) => return None,
            (_, Some(_)) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            _ => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        };
        craft::icmp_error(&mut out, &packet, router, IcmpError::TimeExceeded)
    })?;
    out.truncate(len);
    Some(out)
}

type Answer<'a> = dyn Fn(&mut [u8]) -> Option<usize> + 'a;

/// What is answered to `bytes` is well-formed, with right checksums.
pub fn crafted(bytes: &[u8]) {
    let mac = [2, 0, 0, 0, 0, 9].into();
    let mut copy = bytes.to_vec();
    let mut outs = [const { Vec::new() }; 5];
    with_packet(&mut copy, |packet| {
        let v4 = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let v6 = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        let answers: [&Answer<'_>; 5] = [
            &|out| craft::icmp_error(out, &packet, v4, IcmpError::HostUnreachable),
            &|out| craft::icmp_error(out, &packet, v6, IcmpError::TooBig { mtu: 1_280 }),
            &|out| craft::echo_reply(out, &packet),
            &|out| craft::arp_reply(out, &packet, mac),
            &|out| craft::neighbour_advertisement(out, &packet, mac, false),
        ];
        for (out, answer) in outs.iter_mut().zip(answers) {
            out.resize(bytes.len().max(1_500) + 100, 0);
            let len = answer(out).unwrap_or(0);
            out.truncate(len);
        }
    });
    for mut out in outs.into_iter().filter(|out| !out.is_empty()) {
        with_packet(&mut out, |packet| {
            assert_eq!(packet.layout().malformed(), None);
            assert!(verify(&packet).is_ok());
            assert!(packet.arp().is_some() || verify(&packet).transport == Check::Valid);
        });
    }
}
