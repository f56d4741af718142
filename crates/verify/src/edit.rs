//! Changes to single fields of a packet, with its checksums kept right.

use std::net::{IpAddr, SocketAddr};

use anabranch_packet::craft::{self, Link, Segment};
use anabranch_packet::fragment::cut;
use anabranch_packet::{Frame, MacAddr, Meta, Packet, checksum::Delta, parse};

/// A change to one field. It has no effect on a packet without that field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The source address.
    Src(IpAddr),
    /// The destination address.
    Dst(IpAddr),
    /// The TCP or UDP source port.
    SrcPort(u16),
    /// The TCP or UDP destination port.
    DstPort(u16),
    /// The identifier of an ICMP echo.
    Id(u16),
    /// The TCP flags, as in the header's thirteenth byte.
    Flags(u8),
    /// TTL or hop limit.
    Hops(u8),
    /// Flags and offset of an IPv4 fragment, as in the header's sixteen bits.
    Fragment(u16),
    /// The protocol that the IP header names.
    Protocol(u8),
    /// The Ethernet source address's last byte.
    SrcMac(u8),
    /// The Ethernet destination address's last byte.
    DstMac(u8),
    /// The Ethernet source address.
    Station(MacAddr),
    /// The Ethernet destination address.
    ToStation(MacAddr),
    /// The type of an ICMP message.
    Kind(u8),
    /// Cut off after so many bytes; the wire length stays.
    Cut(u16),
    /// The first or the second of the two fragments of an IPv4 packet.
    Part(bool),
    /// What TCP or UDP carries; without options, and untagged.
    Payload(&'static [u8]),
}

impl Edit {
    /// Makes the change.
    pub fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Cut(len) => bytes.truncate(usize::from(len)),
            Self::SrcMac(last) => put(bytes, 11, last),
            Self::DstMac(last) => put(bytes, 5, last),
            Self::Flags(flags) => set_flags(bytes, flags),
            Self::Station(mac) => put_all(bytes, 6, &mac.octets()),
            Self::ToStation(mac) => put_all(bytes, 0, &mac.octets()),
            Self::Kind(kind) => set_kind(bytes, kind),
            Self::Protocol(protocol) => set_protocol(bytes, protocol),
            Self::Fragment(word) => set_fragment(bytes, word),
            Self::Part(second) => keep_part(bytes, second),
            Self::Payload(payload) => set_payload(bytes, payload),
            other => with_packet(bytes, |packet| other.set(packet)),
        }
    }

    fn set(self, packet: &mut Packet<'_>) {
        match self {
            Self::Src(IpAddr::V4(address)) => {
                packet.ipv4_mut().into_iter().for_each(|mut ip| ip.set_src(address));
            }
            Self::Src(IpAddr::V6(address)) => {
                packet.ipv6_mut().into_iter().for_each(|mut ip| ip.set_src(address));
            }
            Self::Dst(IpAddr::V4(address)) => {
                packet.ipv4_mut().into_iter().for_each(|mut ip| ip.set_dst(address));
            }
            Self::Dst(IpAddr::V6(address)) => {
                packet.ipv6_mut().into_iter().for_each(|mut ip| ip.set_dst(address));
            }
            Self::SrcPort(port) => packet.set_src_port(port),
            Self::DstPort(port) => packet.set_dst_port(port),
            Self::Id(id) => {
                packet.icmpv4_mut().into_iter().for_each(|mut icmp| icmp.set_id(id));
                packet.icmpv6_mut().into_iter().for_each(|mut icmp| icmp.set_id(id));
            }
            Self::Hops(hops) => {
                packet.ipv4_mut().into_iter().for_each(|mut ip| ip.set_ttl(hops));
                packet.ipv6_mut().into_iter().for_each(|mut ip| ip.set_hop_limit(hops));
            }
            _ => {}
        }
    }
}

/// Bytes that any packet may have had on the wire: one that was cut is as good as another.
pub(crate) const LONGEST: u32 = 1 << 17;

/// Runs `act` on the packet in `bytes`.
pub(crate) fn with_packet<R>(bytes: &mut [u8], act: impl FnOnce(&mut Packet<'_>) -> R) -> R {
    let (layout, len) = (parse(bytes, LONGEST), bytes.len());
    let mut frame = Frame::new(bytes, 0, len, 0, Meta { wire_len: LONGEST, ..Meta::default() });
    act(&mut Packet::new(&mut frame, layout))
}

fn put(bytes: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value;
    }
}

fn put_all(bytes: &mut [u8], at: usize, values: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + values.len()) {
        place.copy_from_slice(values);
    }
}

fn set_kind(bytes: &mut [u8], kind: u8) {
    let layout = parse(bytes, LONGEST);
    if layout.has_icmpv4() || layout.has_icmpv6() {
        let at = layout.l4_offset();
        replace(bytes, at, at + 2, |[_, code]| [kind, code]);
    }
}

fn set_flags(bytes: &mut [u8], flags: u8) {
    let layout = parse(bytes, LONGEST);
    if layout.has_tcp() {
        replace(bytes, layout.l4_offset() + 12, layout.l4_offset() + 16, |[offset, _]| {
            [offset, flags]
        });
    }
}

fn set_fragment(bytes: &mut [u8], word: u16) {
    let layout = parse(bytes, LONGEST);
    if layout.has_ipv4() {
        let at = layout.l3_offset();
        replace(bytes, at + 6, at + 10, |_| word.to_be_bytes());
    }
}

/// Cuts the packet in two, if it can be, and keeps one part.
fn keep_part(bytes: &mut Vec<u8>, second: bool) {
    let layout = parse(bytes, LONGEST);
    let (ip, start) = (layout.l3_offset(), layout.l4_offset());
    let whole =
        layout.has_ipv4() && !layout.is_fragment() && start > ip && layout.end() == bytes.len();
    let payload = bytes.len().saturating_sub(start);
    if !whole || payload < 9 {
        return;
    }
    let longest = start - ip + payload.div_ceil(2).next_multiple_of(8);
    let (mut parts, mut scratch) = (Vec::new(), vec![0; bytes.len()]);
    // What cannot be cut stays whole.
    let _ = cut(bytes, layout, longest, &mut scratch, |part| parts.push(part.to_vec()));
    let part = parts.into_iter().nth(usize::from(second));
    part.into_iter().for_each(|part| *bytes = part);
}

fn set_payload(bytes: &mut Vec<u8>, payload: &[u8]) {
    let mut out = vec![0; 128 + payload.len()];
    let len = with_packet(bytes, |packet| {
        let [src, dst]: [IpAddr; 2] = match (packet.ipv4(), packet.ipv6()) {
            (Some(ip), _) => [ip.src().into(), ip.dst().into()],
            (_, Some(ip)) => [ip.src().into(), ip.dst().into()],
            _ => return None,
        };
        let src = SocketAddr::new(src, packet.src_port()?);
        let dst = SocketAddr::new(dst, packet.dst_port()?);
        let ethernet = packet.ethernet();
        let link = Link { src: ethernet.src(), dst: ethernet.dst(), tags: [None; 2] };
        match packet.tcp() {
            Some(tcp) => {
                let segment =
                    Segment { flags: tcp.flags(), window: tcp.window(), ..Segment::default() };
                craft::tcp(&mut out, &link, src, dst, segment, payload)
            }
            None => craft::udp(&mut out, &link, src, dst, payload),
        }
    });
    if let Some(len) = len {
        out.truncate(len);
        *bytes = out;
    }
}

fn set_protocol(bytes: &mut [u8], protocol: u8) {
    let layout = parse(bytes, LONGEST);
    let at = layout.l3_offset();
    if layout.has_ipv4() {
        replace(bytes, at + 8, at + 10, |[ttl, _]| [ttl, protocol]);
    } else if layout.has_ipv6() {
        put(bytes, at + 6, protocol);
    }
}

/// Replaces the two bytes at `at` and mends the checksum at `checksum`.
fn replace(bytes: &mut [u8], at: usize, checksum: usize, by: impl FnOnce([u8; 2]) -> [u8; 2]) {
    let Some(old) = word(bytes, at) else { return };
    let new = by(old);
    if let Some(word) = bytes.get_mut(at..at + 2) {
        word.copy_from_slice(&new);
    }
    if let Some(sum) = bytes.get_mut(checksum..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        Delta::of_word(old, new).apply(sum);
    }
}

fn word(bytes: &[u8], at: usize) -> Option<[u8; 2]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_packet::checksum::verify;
    use anabranch_packet::fuzzing::samples;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const EDITS: [Edit; 13] = [
        Edit::Src(IpAddr::V4(Ipv4Addr::new(9, 8, 7, 6))),
        Edit::Dst(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        Edit::SrcPort(7),
        Edit::DstPort(9),
        Edit::Id(78),
        Edit::Flags(2),
        Edit::Hops(3),
        Edit::SrcMac(9),
        Edit::DstMac(8),
        Edit::Fragment(0x2000),
        Edit::ToStation(MacAddr::new(2, 0, 0, 9, 9, 9)),
        Edit::Kind(3),
        Edit::Payload(b"GET / HTTP/1.1"),
    ];

    #[test]
    fn edits_keep_checksums_right() {
        for sample in samples() {
            let right = with_packet(&mut sample.clone(), |packet| verify(packet).is_ok());
            for edit in EDITS {
                let mut edited = sample.clone();
                edit.apply(&mut edited);
                let still = with_packet(&mut edited, |packet| verify(packet).is_ok());
                assert!(still || !right, "{edit:?} of {sample:02x?}");
            }
        }
    }

    #[test]
    fn edits_are_seen() {
        let mut changed = [0; EDITS.len()];
        for sample in samples() {
            for (edit, count) in EDITS.iter().zip(&mut changed) {
                let mut edited = sample.clone();
                edit.apply(&mut edited);
                *count += usize::from(edited != sample);
            }
        }
        assert!(changed.iter().all(|count| *count > 0), "{changed:?}");
    }
}
