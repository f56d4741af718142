//! Cutting packets that an offload has made larger than the link carries (TSO, GSO, GRO) into the
//! segments that would have been on the wire.

use super::tunnel::Ip;
use anabranch_packet::Layout;
use anabranch_packet::checksum::Sum;
use std::ops::Range;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A packet being cut: what is to be known of it, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    /// The packet of the tunnel around it, and whether that has a checksum.
    outer: Option<(Ip, bool)>,
    ip: Ip,
    /// Where the payload begins: headers are copied to every segment.
    payload: usize,
    /// Payload of a segment.
    segment_len: usize,
    /// Where the next segment's payload begins.
    next: usize,
    index: u16,
}

impl Segments {
    /// Segments of `segment_len` bytes of payload of a TCP or UDP packet, or of one in a tunnel, with all that is
    /// around it. `None`: `packet` is no such packet, or has no payload.
    pub(super) fn new(packet: &[u8], layout: Layout, segment_len: u16) -> Option<Self> {
        let (outer, ip) = match Ip::tunnelled(packet, layout) {
            Some([outer, inner]) => (Some(outer), inner),
            None => (None, Ip::outermost(layout)?),
        };
        let header_len = match ip.is_tcp() {
            true => usize::from(packet.get(ip.l4 + 12)? >> 4) * 4,
            false => 8,
        };
        let payload = ip.l4 + header_len;
        let has_checksum = |outer: Ip| {
            let at = outer.checksum_at();
            outer.is_udp() && packet.get(at..at + 2).is_some_and(|checksum| checksum != [0, 0])
        };
        let ok = packet.len() > payload && (!ip.is_tcp() || header_len >= 20) && segment_len > 0;
        ok.then_some(Self {
            outer: outer.map(|outer| (outer, has_checksum(outer))),
            ip,
            payload,
            segment_len: segment_len.into(),
            next: payload,
            index: 0,
        })
    }

    /// The packet that is cut.
    pub(super) fn ip(&self) -> Ip {
        self.ip
    }

    /// Writes the next segment of `packet` to `to` and returns its length. `None`: there is none, or
    /// no room for it.
    pub(super) fn next(&mut self, packet: &[u8], to: &mut [u8]) -> Option<usize> {
        let headers = packet.get(..self.payload)?;
        let rest = packet.get(self.next..).filter(|rest| !rest.is_empty())?;
        let (chunk, after) = rest.split_at(rest.len().min(self.segment_len));
        let len = headers.len() + chunk.len();
        let segment = to.get_mut(..len)?;
        let (header_part, payload_part) = segment.split_at_mut(headers.len());
        header_part.copy_from_slice(headers);
        payload_part.copy_from_slice(chunk);
        self.write_network(self.ip, segment)?;
        match self.ip.is_tcp() {
            true => self.write_tcp(segment, after.is_empty())?,
            false => write_udp_len(self.ip, segment)?,
        }
        write_checksum(self.ip, segment)?;
        if let Some((outer, has_checksum)) = self.outer {
            self.write_network(outer, segment)?;
            if outer.is_udp() {
                write_udp_len(outer, segment)?;
            }
            if has_checksum {
                write_checksum(outer, segment)?;
            }
        }
        self.next += chunk.len();
        self.index = self.index.wrapping_add(1);
        Some(len)
    }

    /// Length, identification and header checksum of IPv4; length of IPv6.
    fn write_network(&self, ip: Ip, segment: &mut [u8]) -> Option<()> {
        let l3 = ip.l3;
        let len = segment.len() - l3;
        if ip.ipv6 {
            return put(segment, l3 + 4..l3 + 6, &((len - 40) as u16).to_be_bytes());
        }
        put(segment, l3 + 2..l3 + 4, &(len as u16).to_be_bytes())?;
        let id = u16::from_be_bytes([*segment.get(l3 + 4)?, *segment.get(l3 + 5)?]);
        put(segment, l3 + 4..l3 + 6, &id.wrapping_add(self.index).to_be_bytes())?;
        put(segment, l3 + 10..l3 + 12, &[0, 0])?;
        let checksum = Sum::new().bytes(segment.get(l3..ip.l4)?).checksum();
        put(segment, l3 + 10..l3 + 12, &checksum)
    }

    /// Sequence number and flags: what ends something stands in the last segment, what has been reduced
    /// in the first (RFC 3168, 6.1.2).
    fn write_tcp(&self, segment: &mut [u8], last: bool) -> Option<()> {
        let l4 = self.ip.l4;
        let sequence = segment.get(l4 + 4..l4 + 8)?.first_chunk().copied()?;
        let sequence = u32::from_be_bytes(sequence).wrapping_add((self.next - self.payload) as u32);
        put(segment, l4 + 4..l4 + 8, &sequence.to_be_bytes())?;
        let flags = segment.get_mut(l4 + 13)?;
        if !last {
            *flags &= !(FIN | PSH);
        }
        if self.index > 0 {
            *flags &= !CWR;
        }
        Some(())
    }
}

fn write_udp_len(ip: Ip, segment: &mut [u8]) -> Option<()> {
    let len = (segment.len() - ip.l4) as u16;
    put(segment, ip.l4 + 4..ip.l4 + 6, &len.to_be_bytes())
}

fn write_checksum(ip: Ip, segment: &mut [u8]) -> Option<()> {
    let field = ip.checksum_at()..ip.checksum_at() + 2;
    put(segment, field.clone(), &[0, 0])?;
    let pseudo = ip.pseudo_header(segment, segment.len() - ip.l4)?;
    let checksum = pseudo.bytes(segment.get(ip.l4..)?).udp_checksum();
    put(segment, field, &checksum)
}

fn put(segment: &mut [u8], at: Range<usize>, bytes: &[u8]) -> Option<()> {
    segment.get_mut(at)?.copy_from_slice(bytes);
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use anabranch_packet::checksum::verify;
    use anabranch_packet::{Frame, Meta, Packet, Real, parse};
    use proptest::prelude::*;

    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    /// A large packet as an offload makes it: lengths of the whole, no checksum.
    fn large(ipv6: bool, tcp: bool, vlan: bool, payload: &[u8]) -> Vec<u8> {
        let l4_len = if tcp { 32 } else { 8 } + payload.len();
        let mut packet = MACS.to_vec();
        if vlan {
            packet.extend([0x81, 0, 0, 7]);
        }
        let protocol = if tcp { 6 } else { 17 };
        if ipv6 {
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            packet.extend((l4_len as u16).to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend([0x20; 32]);
        } else {
            packet.extend([8, 0, 0x45, 0]);
            packet.extend((20 + l4_len as u16).to_be_bytes());
            packet.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        packet.extend([0x30, 0x39, 0, 80]);
        if tcp {
            packet.extend([0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x80, 0x99, 1, 0, 0, 0, 0, 0]);
            packet.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        } else {
            packet.extend((l4_len as u16).to_be_bytes());
            packet.extend([0, 0]);
        }
        packet.extend(payload);
        packet
    }

    const TUNNELS: usize = 6;

    /// The headers of a tunnel, lengths aside, in which `packet` lies from the byte on that is returned too.
    fn tunnel(kind: usize, ipv6: bool, has_checksum: bool, packet: &[u8]) -> (Vec<u8>, usize) {
        let ip_at = if packet[12] == 0x81 { 18 } else { 14 };
        let is_ipv6 = packet[ip_at] >> 4 == 6;
        let kind_of_ip = if is_ipv6 { [0x86, 0xdd] } else { [8, 0] };
        let checksum = if has_checksum { [0x12, 0x34] } else { [0, 0] };
        let udp = |port: u16| [&[0x80, 1][..], &port.to_be_bytes(), &[0, 0], &checksum].concat();
        let (protocol, headers, carried) = match kind {
            0 => (17, [udp(4_789), vec![8, 0, 0, 0, 0, 0, 7, 0]].concat(), 0),
            1 => (17, [udp(6_081), vec![0, 0, 0x65, 0x58, 0, 0, 7, 0]].concat(), 0),
            2 => {
                let geneve =
                    [vec![2, 0], kind_of_ip.to_vec(), vec![0, 0, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8]];
                (17, [udp(6_081), geneve.concat()].concat(), ip_at)
            }
            3 => (47, vec![0x20, 0, 0x65, 0x58, 0, 0, 0, 9], 0),
            4 => (47, [vec![0, 0], kind_of_ip.to_vec()].concat(), ip_at),
            _ => (if is_ipv6 { 41 } else { 4 }, vec![], ip_at),
        };
        let mut outer = [3; 12].to_vec();
        if ipv6 {
            outer.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
            outer.extend([0x30; 32]);
        } else {
            outer.extend([8, 0, 0x45, 0, 0, 0, 0xff, 0xff, 0, 0, 64, protocol, 0, 0]);
            outer.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        }
        outer.extend(headers);
        (outer, carried)
    }

    fn set_lengths(packet: &mut [u8], ipv6: bool) {
        let (at, ip_len, l4) = if ipv6 { (18, 40, 54) } else { (16, 0, 34) };
        let len = (packet.len() - 14 - ip_len) as u16;
        packet[at..at + 2].copy_from_slice(&len.to_be_bytes());
        if packet[if ipv6 { 20 } else { 23 }] == 17 {
            let len = (packet.len() - l4) as u16;
            packet[l4 + 4..l4 + 6].copy_from_slice(&len.to_be_bytes());
        }
    }

    fn cut(packet: &[u8], segment_len: u16) -> Vec<Vec<u8>> {
        let layout = parse(packet, packet.len() as u32);
        let mut segments = Segments::new(packet, layout, segment_len).unwrap();
        let mut buffer = vec![0xee; packet.len()];
        let next = || {
            let len = segments.next(packet, &mut buffer)?;
            Some(buffer[..len].to_vec())
        };
        std::iter::from_fn(next).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn segments_carry_the_payload_and_are_sound(
            ipv6: bool, tcp: bool, vlan: bool,
            payload in prop::collection::vec(any::<u8>(), 1..5_000), segment_len in 1_u16..3_000,
        ) {
            let packet = large(ipv6, tcp, vlan, &payload);
            let segments = cut(&packet, segment_len);
            prop_assert_eq!(segments.len(), payload.len().div_ceil(segment_len.into()));
            let header_len = packet.len() - payload.len();
            let l4 = parse(&packet, packet.len() as u32).l4_offset();
            let mut carried = Vec::new();
            for (index, segment) in segments.iter().enumerate() {
                let mut bytes = segment.clone();
                let layout = parse(&bytes, bytes.len() as u32);
                prop_assert_eq!((layout.malformed(), layout.end()), (None, segment.len()));
                let mut frame = Frame::new(&mut bytes, 0, usize::MAX, 0, Meta::default());
                prop_assert!(verify(&Packet::<Real>::new(&mut frame, layout)).is_ok());
                if tcp {
                    let sequence = segment[l4 + 4..l4 + 8].try_into().map(u32::from_be_bytes).unwrap();
                    prop_assert_eq!(sequence, 0xffff_fff0_u32.wrapping_add(carried.len() as u32));
                    let last = index + 1 == segments.len();
                    let flags = 0x10 | if last { FIN | PSH } else { 0 } | if index == 0 { CWR } else { 0 };
                    prop_assert_eq!(segment[l4 + 13], flags);
                }
                if !ipv6 {
                    let l3 = l4 - 20;
                    let id = u16::from_be_bytes([segment[l3 + 4], segment[l3 + 5]]);
                    prop_assert_eq!(id, 0xfffe_u16.wrapping_add(index as u16));
                }
                prop_assert_eq!(&segment[..12], &MACS);
                carried.extend_from_slice(&segment[header_len..]);
            }
            prop_assert_eq!(carried, payload);
        }

        /// What a tunnel carries is cut as it would be without, and each segment is a sound packet of the tunnel.
        #[test]
        fn what_a_tunnel_carries_is_cut_in_it(
            ipv6: bool, tcp: bool, vlan: bool, outer_ipv6: bool, has_checksum: bool, kind in 0..TUNNELS,
            payload in prop::collection::vec(any::<u8>(), 1..5_000), segment_len in 1_u16..3_000,
        ) {
            let packet = large(ipv6, tcp, vlan, &payload);
            let (mut tunnel, carried) = tunnel(kind, outer_ipv6, has_checksum, &packet);
            tunnel.extend_from_slice(&packet[carried..]);
            set_lengths(&mut tunnel, outer_ipv6);
            let around = tunnel.len() - (packet.len() - carried);
            let (segments, plain) = (cut(&tunnel, segment_len), cut(&packet, segment_len));
            prop_assert_eq!(segments.len(), plain.len());
            for (index, (segment, plain)) in segments.iter().zip(plain).enumerate() {
                prop_assert_eq!(&segment[around..], &plain[carried..]);
                let mut bytes = segment.clone();
                let layout = parse(&bytes, bytes.len() as u32);
                prop_assert_eq!((layout.malformed(), layout.end()), (None, segment.len()));
                if layout.has_udp() {
                    let at = layout.l4_offset() + 6;
                    prop_assert_eq!(segment[at..at + 2] != [0, 0], has_checksum);
                }
                let (l3, id) = (layout.l3_offset(), 0xffff_u16.wrapping_add(index as u16));
                prop_assert!(outer_ipv6 || segment[l3 + 4..l3 + 6] == id.to_be_bytes());
                let mut frame = Frame::new(&mut bytes, 0, usize::MAX, 0, Meta::default());
                prop_assert!(verify(&Packet::<Real>::new(&mut frame, layout)).is_ok());
            }
        }

        #[test]
        fn no_bytes_panic(mut packet in prop::collection::vec(any::<u8>(), 0..200), segment_len: u16, at in 0..100_usize) {
            let model = large(at % 2 == 0, at % 3 == 0, at % 5 == 0, b"abc");
            for (to, from) in packet.iter_mut().zip(&model).take(at) {
                *to = *from;
            }
            let layout = parse(&packet, packet.len() as u32);
            if let Some(mut segments) = Segments::new(&packet, layout, segment_len) {
                let mut buffer = [0; 128];
                while segments.next(&packet, &mut buffer).is_some() {}
            }
        }
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let packet = large(false, true, false, b"");
        assert_eq!(Segments::new(&packet, parse(&packet, packet.len() as u32), 1_000), None);
        let packet = large(false, true, false, b"abc");
        assert_eq!(Segments::new(&packet, parse(&packet, packet.len() as u32), 0), None);
    }
}
