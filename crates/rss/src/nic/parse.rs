//! Frames as a NIC sees them: class, and where the fields are.

use super::{HashInput, Parsing};
use crate::class::Class;
use crate::field::Field;

/// Bytes of two MAC addresses and the type after them.
const ETHERNET_LEN: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const FRAGMENT: u8 = 44;
/// Hop-by-hop options, routing, destination options (RFC 8200, section 4).
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Extension headers that are followed before a packet counts as of no known transport.
const MAX_EXTENSIONS: usize = 8;

/// A frame with the class that a NIC puts it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    frame: &'a [u8],
    class: Class,
    network: usize,
    transport: usize,
}

impl<'a> Parsed<'a> {
    /// The class, as the NIC treats it.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The bytes of `field`; `None` when the NIC does not see such a field in this frame.
    pub fn bytes(&self, field: Field) -> Option<&'a [u8]> {
        let (start, len) = self.place(field)?;
        self.frame.get(start..start + len)
    }

    /// The bytes that the NIC hashes, one field after the other; empty when the frame lacks one of
    /// them.
    pub fn input(&self, input: &HashInput) -> Vec<u8> {
        let fields: Option<Vec<&[u8]>> =
            input.fields().iter().map(|&field| self.bytes(field)).collect();
        fields.unwrap_or_default().concat()
    }

    pub(super) fn treated_as(mut self, seen_as: impl Fn(Class) -> Class) -> Self {
        self.class = seen_as(self.class);
        self
    }

    /// Start and length in bytes.
    fn place(&self, field: Field) -> Option<(usize, usize)> {
        if !self.class.has(field) {
            return None;
        }
        Some(match field {
            Field::EthernetDst => (0, 6),
            Field::EthernetSrc => (6, 6),
            Field::Ipv4Src => (self.network + 12, 4),
            Field::Ipv4Dst => (self.network + 16, 4),
            Field::Ipv6Src => (self.network + 8, 16),
            Field::Ipv6Dst => (self.network + 24, 16),
            Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => (self.transport, 2),
            Field::TcpDst | Field::UdpDst | Field::SctpDst => (self.transport + 2, 2),
            Field::SctpTag => (self.transport + 4, 4),
            Field::Other(_) => return None,
        })
    }
}

pub(super) fn parse(frame: &[u8], parsing: Parsing) -> Parsed<'_> {
    let mut parsed = Parsed { frame, class: Class::NonIp, network: 0, transport: 0 };
    let mut network = ETHERNET_LEN;
    let mut kind = u16_at(frame, network - 2);
    for _ in 0..parsing.vlan_tags {
        if kind.is_some_and(|kind| VLAN.contains(&kind)) {
            network += 4;
            kind = u16_at(frame, network - 2);
        }
    }
    let seen = match kind {
        Some(IPV4) => ipv4(frame, network),
        Some(IPV6) => ipv6(frame, network, parsing),
        _ => None,
    };
    if let Some((class, transport)) = seen {
        parsed = Parsed { frame, class, network, transport };
    }
    parsed
}

/// Class and start of the transport header; `None` when this is not an IPv4 header.
fn ipv4(frame: &[u8], at: usize) -> Option<(Class, usize)> {
    let header = frame.get(at..at + 20)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_len < 20 {
        return None;
    }
    let transport = at + header_len;
    // More fragments, or an offset (RFC 791).
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Some((Class::Ipv4Fragment, transport));
    }
    let class = match (header[9], frame.len().saturating_sub(transport)) {
        (TCP, 20..) => Class::Ipv4Tcp,
        (UDP, 8..) => Class::Ipv4Udp,
        (SCTP, 12..) => Class::Ipv4Sctp,
        _ => Class::Ipv4,
    };
    Some((class, transport))
}

fn ipv6(frame: &[u8], at: usize, parsing: Parsing) -> Option<(Class, usize)> {
    let header = frame.get(at..at + 40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (mut next, mut transport) = (header[6], at + 40);
    for _ in 0..MAX_EXTENSIONS {
        if !parsing.ipv6_extensions || !EXTENSIONS.contains(&next) {
            break;
        }
        let Some(&[following, len]) = frame.get(transport..transport + 2) else {
            return Some((Class::Ipv6, transport));
        };
        (next, transport) = (following, transport + (usize::from(len) + 1) * 8);
    }
    let class = match (next, frame.len().saturating_sub(transport)) {
        (FRAGMENT, _) => Class::Ipv6Fragment,
        (TCP, 20..) => Class::Ipv6Tcp,
        (UDP, 8..) => Class::Ipv6Udp,
        (SCTP, 12..) => Class::Ipv6Sctp,
        _ => Class::Ipv6,
    };
    Some((class, transport))
}

fn u16_at(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}
