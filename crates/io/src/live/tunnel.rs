//! Where the TCP or UDP header is that an offload is about: the outermost, or that of the packet that a tunnel
//! carries.

use anabranch_packet::Layout;
use anabranch_packet::checksum::Sum;

const IPV4_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// Transparent Ethernet bridging: what follows is an Ethernet frame (RFC 7637, RFC 8926).
const ETHERTYPE_BRIDGED: u16 = 0x6558;

/// An IP packet: itself, and what is behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ip {
    /// Where its header begins.
    pub(super) l3: usize,
    pub(super) ipv6: bool,
    pub(super) protocol: u8,
    /// Where what follows its header begins.
    pub(super) l4: usize,
    /// Where it ends.
    pub(super) end: usize,
}

impl Ip {
    /// The outermost one, with the transport header that `layout` knows: `None` if that is none of TCP and UDP, or
    /// the packet is a fragment.
    pub(super) fn outermost(layout: Layout) -> Option<Self> {
        let has_flow = (layout.has_tcp() || layout.has_udp()) && !layout.is_fragment();
        has_flow.then(|| Self {
            l3: layout.l3_offset(),
            ipv6: layout.has_ipv6(),
            protocol: if layout.has_tcp() { TCP } else { UDP },
            l4: layout.l4_offset(),
            end: layout.end(),
        })
    }

    /// A tunnel's packet and that which it carries, by VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784, without
    /// checksum and sequence numbers) or IP in IP (RFC 2003, 2473, 4213), if that is TCP or UDP and fills the
    /// tunnel's packet, which says more than a port that anybody may choose.
    pub(super) fn tunnelled(packet: &[u8], layout: Layout) -> Option<[Self; 2]> {
        if !(layout.has_ipv4() || layout.has_ipv6()) {
            return None;
        }
        let outer = Self::at(packet, layout.l3_offset())?;
        let l3 = match outer.protocol {
            UDP => behind_udp(packet, outer.l4 + 8)?,
            GRE => behind_gre(packet, outer.l4)?,
            IPV4_IN_IP | IPV6_IN_IP => outer.l4,
            _ => return None,
        };
        let inner = Self::at(packet, l3)?;
        let is_flow = matches!(inner.protocol, TCP | UDP);
        let fills = inner.end == outer.end && outer.end <= packet.len();
        (is_flow && fills).then_some([outer, inner])
    }

    /// The one whose header is at `l3`, which is no fragment and without extension headers.
    fn at(packet: &[u8], l3: usize) -> Option<Self> {
        let rest = packet.get(l3..)?;
        let number = |at: usize| number(packet, l3 + at).map(usize::from);
        if rest.first()? >> 4 == 6 {
            let (protocol, l4) = (*rest.get(6)?, l3 + 40);
            return Some(Self { l3, ipv6: true, protocol, l4, end: l4 + number(4)? });
        }
        let l4 = l3 + usize::from(rest[0] & 15) * 4;
        let is_ipv4 = rest[0] >> 4 == 4 && l4 >= l3 + 20 && number(6)? & 0x3fff == 0;
        let protocol = *rest.get(9)?;
        is_ipv4.then_some(Self { l3, ipv6: false, protocol, l4, end: l3 + number(2)? })
    }

    pub(super) fn is_tcp(self) -> bool {
        self.protocol == TCP
    }

    pub(super) fn is_udp(self) -> bool {
        self.protocol == UDP
    }

    /// Where the checksum of its TCP or UDP header stands.
    pub(super) fn checksum_at(self) -> usize {
        self.l4 + if self.is_tcp() { 16 } else { 6 }
    }

    /// The sum of the pseudo header of what it carries, which is `len` bytes.
    pub(super) fn pseudo_header(self, packet: &[u8], len: usize) -> Option<Sum> {
        let (l3, len) = (self.l3, len as u32);
        if self.ipv6 {
            let address = |at: usize| packet.get(at..)?.first_chunk::<16>().copied();
            let (src, dst) = (address(l3 + 8)?, address(l3 + 24)?);
            return Some(Sum::new().ipv6(src.into(), dst.into(), self.protocol, len));
        }
        let address = |at: usize| packet.get(at..)?.first_chunk::<4>().copied();
        let (src, dst) = (address(l3 + 12)?, address(l3 + 16)?);
        Some(Sum::new().ipv4(src.into(), dst.into(), self.protocol, len))
    }
}

fn number(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Where the IP header is behind VXLAN or Geneve.
fn behind_udp(packet: &[u8], at: usize) -> Option<usize> {
    let first = *packet.get(at)?;
    // Geneve: version 0, the length of its options. The bytes of its protocol are zero in VXLAN, or a policy
    // beside a flag that is Geneve's version (draft-smith-vxlan-group-policy).
    let (version, options) = (first >> 6, usize::from(first & 0x3f) * 4);
    match number(packet, at + 2)? {
        kind if version == 0 && is_carried(kind) => behind(packet, kind, at + 8 + options),
        _ if first & 8 != 0 => behind(packet, ETHERTYPE_BRIDGED, at + 8),
        _ => None,
    }
}

/// Where the IP header is behind GRE, with or without a key (RFC 2890).
fn behind_gre(packet: &[u8], at: usize) -> Option<usize> {
    const KEY: u16 = 0x2000;
    let (flags, kind) = (number(packet, at)?, number(packet, at + 2)?);
    let key_len = if flags == KEY { 4 } else { 0 };
    let is_known = flags & !KEY == 0 && is_carried(kind);
    is_known.then(|| behind(packet, kind, at + 4 + key_len))?
}

fn is_carried(kind: u16) -> bool {
    matches!(kind, ETHERTYPE_BRIDGED | ETHERTYPE_IPV4 | ETHERTYPE_IPV6)
}

/// Where the IP header is of what is at `at`: an Ethernet frame, tagged or not, or IP itself.
fn behind(packet: &[u8], kind: u16, at: usize) -> Option<usize> {
    if kind != ETHERTYPE_BRIDGED {
        return Some(at);
    }
    let (mut kind, mut l3) = (number(packet, at + 12)?, at + 14);
    if kind == ETHERTYPE_VLAN {
        (kind, l3) = (number(packet, l3 + 2)?, l3 + 4);
    }
    matches!(kind, ETHERTYPE_IPV4 | ETHERTYPE_IPV6).then_some(l3)
}
