//! Where the headers of a packet are: found once, then carried by value.

use crate::Malformed;

/// VLAN tags that are read before giving up.
const MAX_TAGS: u8 = 4;
/// IPv6 extension headers that are read before giving up.
const MAX_EXTENSIONS: usize = 12;

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;
const ICMP_LEN: usize = 8;
const ARP_LEN: usize = 28;

/// Protocol numbers (IANA) that are looked into.
pub(crate) mod protocol {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMPV4: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const AUTHENTICATION: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DESTINATION: u8 = 60;
    pub const MOBILITY: u8 = 135;
    pub const HIP: u8 = 139;
    pub const SHIM6: u8 = 140;
}

/// Ethernet types that are looked into.
pub(crate) mod ethertype {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const VLAN: u16 = 0x8100;
    pub const IPV6: u16 = 0x86dd;
    pub const QINQ: u16 = 0x88a8;
    /// Double tags before 802.1ad gave them a type of their own.
    pub const QINQ_OLD: u16 = 0x9100;
}

const IPV4: u16 = 1;
const IPV6: u16 = 1 << 1;
const ARP: u16 = 1 << 2;
const TCP: u16 = 1 << 3;
const UDP: u16 = 1 << 4;
const ICMPV4: u16 = 1 << 5;
const ICMPV6: u16 = 1 << 6;
const FRAGMENT: u16 = 1 << 7;
const LATER_FRAGMENT: u16 = 1 << 8;
const ROUTED: u16 = 1 << 9;
/// As [`parse_common`] found it.
const COMMON: u16 = 1 << 10;
const FRAGMENT_HEADER: u16 = 1 << 11;
const TAGS_SHIFT: u16 = 12;

/// What a packet's headers are and where they lie: 16 bytes, passed by value.
///
/// Made by [`parse`]; the default is that of a packet of which nothing is understood. Offsets count
/// from the Ethernet header. What was understood before something malformed is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    end: u32,
    flags: u16,
    payload: u16,
    l3: u16,
    l4: u16,
    /// Where the transport checksum is that covers a pseudo header; 0: there is none.
    checksum: u16,
    protocol: u8,
    /// A plain number ([`Malformed::number`]), so that `Option`s of views are told by the pointer
    /// in them, which is known, and not by this.
    malformed: u8,
}

/// Finds the headers in the captured `bytes` of a packet that had `wire_len` bytes on the wire.
///
/// Lengths are held against `wire_len`, headers against what was captured: where only payload was
/// cut off, nothing is malformed. Bytes after the IP packet are Ethernet padding.
#[inline(always)]
pub fn parse(bytes: &[u8], wire_len: u32) -> Layout {
    parse_common(bytes, wire_len).unwrap_or_else(|| parse_any(bytes, wire_len))
}

/// As [`parse`], of nearly every packet: untagged Ethernet, IPv4 without options, not a fragment,
/// TCP or UDP. Anything else, well-formed or not, is `None`.
///
/// Who inlines it and goes on with the layout of `Some` has every offset as a constant.
#[inline(always)]
pub fn parse_common(bytes: &[u8], wire_len: u32) -> Option<Layout> {
    parse_common_word(bytes, wire_len).map(|(layout, _)| layout)
}

/// As [`parse_common`], with the layout in [a word](Layout::of_word) as well, which is less to write down.
#[inline(always)]
pub fn parse_common_word(bytes: &[u8], wire_len: u32) -> Option<(Layout, u64)> {
    const KIND: [u8; 4] = [0xff, 0xff, 0xff, 0];
    const WHOLE: [u8; 4] = [0x3f, 0xff, 0, 0xff];
    let h = bytes.first_chunk::<{ Layout::COMMON_LEN }>()?;
    // In memory order and several fields at a time: a test each, not one a field.
    let [kind, whole] = [masked(h, 12, KIND)?, masked(h, 20, WHOLE)?];
    let end = ETHERNET_LEN as u32 + u32::from(be16(h, 16)?);
    if kind != u32::from_ne_bytes([8, 0, 0x45, 0]) || end > wire_len {
        return None;
    }
    if whole == u32::from_ne_bytes([0, 0, 0, protocol::UDP]) {
        let len = u32::from(be16(h, 38)?);
        let fits = len >= UDP_LEN as u32 && 34 + len <= end;
        return fits.then(|| common(true, 34 + len, 42));
    }
    if whole != u32::from_ne_bytes([0, 0, 0, protocol::TCP]) {
        return None;
    }
    let header_len = u32::from(bytes.get(46)? >> 4) * 4;
    let payload = 34 + header_len;
    let fits = header_len >= TCP_LEN as u32 && payload <= end && payload as usize <= bytes.len();
    fits.then(|| common(false, end, payload as u16))
}

#[inline(always)]
fn common(udp: bool, end: u32, payload: u16) -> (Layout, u64) {
    let kind = if udp { WORD_OF_UDP } else { WORD_OF_TCP };
    (Layout::of_common(udp, end, payload), u64::from(end) | u64::from(payload) << 48 | kind)
}

/// In the word of a common layout, between its end (32 bits) and where its payload begins (16): which of the two
/// it is, and never 0.
const WORD_OF_TCP: u64 = 1 << 32;
const WORD_OF_UDP: u64 = 1 << 33;

/// The word at `at` in memory order, as far as `mask` has it.
#[inline(always)]
fn masked(bytes: &[u8], at: usize, mask: [u8; 4]) -> Option<u32> {
    chunk(bytes, at).map(|word| u32::from_ne_bytes(*word) & u32::from_ne_bytes(mask))
}

/// The layout of a frame that carries neither IP nor ARP and has no VLAN tag. For functions of the link layer, which
/// see such frames often; to be inlined, as [`parse_common`].
#[inline(always)]
pub fn parse_other(bytes: &[u8]) -> Option<Layout> {
    let known = [
        ethertype::IPV4,
        ethertype::IPV6,
        ethertype::ARP,
        ethertype::VLAN,
        ethertype::QINQ,
        ethertype::QINQ_OLD,
    ];
    let kind = be16(bytes, ETHERNET_LEN - 2)?;
    (!known.contains(&kind)).then(|| Layout { l3: ETHERNET_LEN as u16, ..Layout::default() })
}

/// As [`parse`], of what [`parse_common`] leaves.
#[cold]
#[inline(never)]
pub fn parse_any(bytes: &[u8], wire_len: u32) -> Layout {
    let mut layout = Layout::default();
    layout.malformed = Malformed::number(layout.read_link(bytes, wire_len as usize).err());
    layout
}

impl Layout {
    /// Bytes that a packet has at least whose layout is [`common`](Self::common).
    pub const COMMON_LEN: usize = ETHERNET_LEN + IPV4_LEN + UDP_LEN;

    #[inline(always)]
    fn of_common(udp: bool, end: u32, payload: u16) -> Self {
        let (flags, protocol) = if udp { (UDP, protocol::UDP) } else { (TCP, protocol::TCP) };
        let flags = COMMON | IPV4 | flags;
        let checksum = if udp { 40 } else { 50 };
        Self { end, flags, l3: 14, l4: 34, payload, checksum, protocol, malformed: 0 }
    }

    /// Whether it is one that [`parse_common`] finds.
    #[inline(always)]
    pub fn is_common(self) -> bool {
        self.flags & COMMON != 0
    }

    /// The same layout, where it [is common](Self::is_common), with every offset as a constant to
    /// whoever inlines this. (Others turn into a common one.)
    #[inline(always)]
    #[must_use]
    pub fn common(self) -> Self {
        Self::of_common(self.flags & UDP != 0, self.end, self.payload)
    }

    /// What [`common`](Self::common) goes by, and zeros: fewer values to keep for each packet.
    #[inline(always)]
    pub(crate) fn essence(self) -> Self {
        let Self { end, flags, payload, .. } = self;
        Self { end, flags, payload, ..Self::default() }
    }

    /// The layout that [`parse_common_word`] found with this word.
    #[inline(always)]
    #[must_use]
    pub fn of_word(word: u64) -> Self {
        Self::of_common(word & WORD_OF_UDP != 0, word as u32, (word >> 48) as u16)
    }
}

/// `N` bytes at `at`.
#[inline(always)]
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[inline(always)]
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(|word| u16::from_be_bytes(*word))
}

impl Layout {
    fn read_link(&mut self, bytes: &[u8], wire_len: usize) -> Result<(), Malformed> {
        let mut at = ETHERNET_LEN;
        let mut kind = be16(bytes, at - 2).ok_or(Malformed::EthernetHeaderTruncated)?;
        self.l3 = at as u16;
        while matches!(kind, ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD) {
            if self.vlan_tags() == MAX_TAGS {
                return Err(Malformed::VlanTagsTooMany);
            }
            kind = be16(bytes, at + 2).ok_or(Malformed::VlanTagTruncated)?;
            at += 4;
            self.l3 = at as u16;
            self.flags += 1 << TAGS_SHIFT;
        }
        match kind {
            ethertype::IPV4 => self.read_ipv4(bytes, at, wire_len),
            ethertype::IPV6 => self.read_ipv6(bytes, at, wire_len),
            ethertype::ARP => self.read_arp(bytes, at),
            _ => Ok(()),
        }
    }

    /// ARP for other hardware or protocols than Ethernet and IPv4 is well-formed, and no business
    /// of ours.
    fn read_arp(&mut self, bytes: &[u8], at: usize) -> Result<(), Malformed> {
        let kinds = chunk::<6>(bytes, at).ok_or(Malformed::ArpTruncated)?;
        if *kinds != [0, 1, 8, 0, 6, 4] {
            return Ok(());
        }
        chunk::<ARP_LEN>(bytes, at).ok_or(Malformed::ArpTruncated)?;
        self.flags |= ARP;
        Ok(())
    }

    fn read_ipv4(&mut self, bytes: &[u8], at: usize, wire_len: usize) -> Result<(), Malformed> {
        let h = chunk::<IPV4_LEN>(bytes, at).ok_or(Malformed::Ipv4HeaderTruncated)?;
        let header_len = usize::from(h[0] & 15) * 4;
        let total_len = usize::from(u16::from_be_bytes([h[2], h[3]]));
        if h[0] >> 4 != 4 {
            return Err(Malformed::Ipv4Version);
        }
        if header_len < IPV4_LEN {
            return Err(Malformed::Ipv4HeaderLength);
        }
        if total_len < header_len || at + total_len > wire_len {
            return Err(Malformed::Ipv4TotalLength);
        }
        if bytes.len() < at + header_len {
            return Err(Malformed::Ipv4HeaderTruncated);
        }
        self.flags |= IPV4 | ipv4_fragment_flags(h);
        self.protocol = h[9];
        self.end = (at + total_len) as u32;
        self.read_transport(bytes, at + header_len)
    }

    fn read_ipv6(&mut self, bytes: &[u8], at: usize, wire_len: usize) -> Result<(), Malformed> {
        let h = chunk::<IPV6_LEN>(bytes, at).ok_or(Malformed::Ipv6HeaderTruncated)?;
        if h[0] >> 4 != 6 {
            return Err(Malformed::Ipv6Version);
        }
        let end = at + IPV6_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
        if end > wire_len {
            return Err(Malformed::Ipv6PayloadLength);
        }
        self.flags |= IPV6;
        self.end = end as u32;
        let present = bytes.get(..end).unwrap_or(bytes);
        let extensions = Extensions::read(present, h[6], at + IPV6_LEN);
        self.protocol = extensions.protocol;
        self.flags |= extensions.flags;
        match extensions.malformed {
            Some(malformed) => Err(malformed),
            None => self.read_transport(bytes, extensions.end),
        }
    }

    fn read_transport(&mut self, bytes: &[u8], at: usize) -> Result<(), Malformed> {
        if self.flags & LATER_FRAGMENT != 0 {
            return Ok(());
        }
        // So that every offset below, TCP options included, fits 16 bits.
        let l4 = u16::try_from(at + 64).map_err(|_| Malformed::Ipv6ExtensionsTooMany)? - 64;
        let present = bytes.get(..self.end()).unwrap_or(bytes);
        match (self.protocol, self.flags & IPV6 != 0) {
            (protocol::TCP, _) => self.read_tcp(present, l4),
            (protocol::UDP, _) => self.read_udp(present, l4),
            (protocol::ICMPV4, false) => {
                chunk::<ICMP_LEN>(present, at).ok_or(Malformed::Icmpv4HeaderTruncated)?;
                self.set_transport(ICMPV4, l4, ICMP_LEN, 0);
                Ok(())
            }
            (protocol::ICMPV6, true) => {
                chunk::<ICMP_LEN>(present, at).ok_or(Malformed::Icmpv6HeaderTruncated)?;
                self.set_transport(ICMPV6, l4, ICMP_LEN, l4 + 2);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A first fragment need not hold the whole header over IPv4 (RFC 791, 3.2); over IPv6 it must (RFC 7112).
    fn read_tcp(&mut self, present: &[u8], l4: u16) -> Result<(), Malformed> {
        let at = usize::from(l4);
        let goes_on = self.is_first_fragment() && self.has_ipv4();
        if goes_on && at + TCP_LEN > self.end() {
            return Ok(());
        }
        let h = chunk::<TCP_LEN>(present, at).ok_or(Malformed::TcpHeaderTruncated)?;
        let header_len = usize::from(h[12] >> 4) * 4;
        if goes_on && at + header_len > self.end() {
            return Ok(());
        }
        if header_len < TCP_LEN || at + header_len > self.end() {
            return Err(Malformed::TcpHeaderLength);
        }
        if at + header_len > present.len() {
            return Err(Malformed::TcpHeaderTruncated);
        }
        self.set_transport(TCP, l4, header_len, l4 + 16);
        Ok(())
    }

    /// The UDP length ends the payload, except in a first fragment, which has but a part of it.
    fn read_udp(&mut self, present: &[u8], l4: u16) -> Result<(), Malformed> {
        let at = usize::from(l4);
        let h = chunk::<UDP_LEN>(present, at).ok_or(Malformed::UdpHeaderTruncated)?;
        let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
        if len < UDP_LEN || (!self.is_fragment() && at + len > self.end()) {
            return Err(Malformed::UdpLength);
        }
        self.end = self.end.min((at + len) as u32);
        self.set_transport(UDP, l4, UDP_LEN, l4 + 6);
        Ok(())
    }

    fn set_transport(&mut self, flag: u16, l4: u16, header_len: usize, checksum: u16) {
        self.flags |= flag;
        self.l4 = l4;
        self.payload = l4 + header_len as u16;
        self.checksum = checksum;
    }
}

/// Whether the header is that of a fragment but not of the first one.
pub(crate) fn ipv4_later_fragment(header: &[u8; IPV4_LEN]) -> bool {
    ipv4_fragment_flags(header) & LATER_FRAGMENT != 0
}

/// `FRAGMENT` where the packet is one, with `LATER_FRAGMENT` where it is not the first.
fn ipv4_fragment_flags(header: &[u8; IPV4_LEN]) -> u16 {
    let field = u16::from_be_bytes([header[6], header[7]]);
    fragment_flags(field & 0x1fff, field & 0x2000 != 0)
}

fn fragment_flags(offset: u16, more: bool) -> u16 {
    let fragment = if offset != 0 || more { FRAGMENT } else { 0 };
    let later = if offset != 0 { LATER_FRAGMENT } else { 0 };
    fragment | later
}

/// The chain of IPv6 extension headers, walked to its end.
pub(crate) struct Extensions {
    /// The protocol of what follows; of the fragmentable part in a later fragment.
    pub protocol: u8,
    /// Where it follows.
    pub end: usize,
    flags: u16,
    pub malformed: Option<Malformed>,
}

impl Extensions {
    /// Walks the chain from the header of type `next` at offset `at` of `bytes`.
    pub(crate) fn read(bytes: &[u8], next: u8, at: usize) -> Self {
        let mut chain = Self { protocol: next, end: at, flags: 0, malformed: None };
        for _ in 0..MAX_EXTENSIONS {
            match chain.step(bytes) {
                Ok(true) => {}
                Ok(false) => return chain,
                Err(malformed) => {
                    return Self { malformed: Some(malformed), ..chain };
                }
            }
        }
        let more = chain.step(bytes) != Ok(false);
        chain.malformed = more.then_some(Malformed::Ipv6ExtensionsTooMany);
        chain
    }

    /// Steps over one header; `false` where there is none to step over.
    fn step(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        if self.is_later_fragment() || !is_extension(self.protocol) {
            return Ok(false);
        }
        let h = chunk::<8>(bytes, self.end).ok_or(Malformed::Ipv6ExtensionTruncated)?;
        let units = usize::from(h[1]);
        let len = match self.protocol {
            protocol::FRAGMENT => 8,
            protocol::AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        if bytes.len() < self.end + len {
            return Err(Malformed::Ipv6ExtensionTruncated);
        }
        match self.protocol {
            protocol::FRAGMENT => {
                let field = u16::from_be_bytes([h[2], h[3]]);
                self.flags |= FRAGMENT_HEADER | fragment_flags(field >> 3, field & 1 != 0);
            }
            // Segments are left: the final destination, which the pseudo header has, is in here.
            protocol::ROUTING if h[3] != 0 => self.flags |= ROUTED,
            _ => {}
        }
        self.protocol = h[0];
        self.end += len;
        Ok(true)
    }

    pub(crate) fn is_later_fragment(&self) -> bool {
        self.flags & LATER_FRAGMENT != 0
    }

    pub(crate) fn is_routed(&self) -> bool {
        self.flags & ROUTED != 0
    }
}

fn is_extension(protocol: u8) -> bool {
    use protocol::*;
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6
    )
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $flags:expr;)*) => {
        impl Layout {
            $($(#[$doc])* #[inline(always)] pub const fn $name(self) -> bool { self.flags & ($flags) != 0 })*
        }
    };
}

flags! {
    /// Whether there is a well-formed IPv4 header.
    has_ipv4 = IPV4;
    /// Whether there is a well-formed IPv6 header.
    has_ipv6 = IPV6;
    /// Whether there is an ARP packet for Ethernet and IPv4.
    has_arp = ARP;
    /// Whether there is a well-formed TCP header.
    has_tcp = TCP;
    /// Whether there is a well-formed UDP header.
    has_udp = UDP;
    /// Whether there are TCP or UDP ports.
    has_ports = TCP | UDP;
    /// Whether there is an ICMPv4 header.
    has_icmpv4 = ICMPV4;
    /// Whether there is an ICMPv6 header.
    has_icmpv6 = ICMPV6;
    /// Whether there is a TCP, UDP, ICMPv4 or ICMPv6 header.
    has_transport = TCP | UDP | ICMPV4 | ICMPV6;
    /// Whether this is a fragment of a packet. An IPv6 packet that is its own only fragment
    /// (RFC 6946) is not.
    is_fragment = FRAGMENT;
    /// Whether there is an IPv6 fragment header. Where this is no fragment, it is its own only one, or was put
    /// together.
    has_fragment_header = FRAGMENT_HEADER;
    /// Whether an IPv6 routing header has segments left, so that the destination address is not
    /// the final one.
    is_routed = ROUTED;
}

impl Layout {
    /// Why something was not understood; what comes before it was.
    #[inline(always)]
    pub const fn malformed(self) -> Option<Malformed> {
        Malformed::numbered(self.malformed)
    }

    /// Whether this is a fragment and the first one.
    #[inline(always)]
    pub const fn is_first_fragment(self) -> bool {
        self.flags & (FRAGMENT | LATER_FRAGMENT) == FRAGMENT
    }

    /// How many VLAN tags there are, at most 4.
    #[inline(always)]
    pub const fn vlan_tags(self) -> u8 {
        (self.flags >> TAGS_SHIFT) as u8
    }

    /// Whether there is a whole VLAN tag.
    #[inline(always)]
    pub const fn has_vlan(self) -> bool {
        self.vlan_tags() != 0
    }

    /// Where the outermost VLAN tag is, if there is one: after its type.
    #[inline(always)]
    pub const fn vlan_offset(self) -> usize {
        ETHERNET_LEN
    }

    /// The protocol above IPv4, or above IPv6 and its extension headers; else 0.
    #[inline(always)]
    pub const fn protocol(self) -> u8 {
        self.protocol
    }

    /// Where the Ethernet header with its tags ends; its last two bytes are the Ethernet type.
    #[inline(always)]
    pub const fn l3_offset(self) -> usize {
        self.l3 as usize
    }

    /// Where the transport header is, if there is one ([`has_transport`](Self::has_transport)).
    #[inline(always)]
    pub const fn l4_offset(self) -> usize {
        self.l4 as usize
    }

    /// Where the transport header with its options ends, if there is one.
    #[inline(always)]
    pub const fn payload_offset(self) -> usize {
        self.payload as usize
    }

    /// Where the transport payload ends: by the UDP length, else by the IP packet's length. This
    /// may lie past what was captured.
    #[inline(always)]
    pub const fn end(self) -> usize {
        self.end as usize
    }

    /// Where the transport checksum that covers a pseudo header is; 0: there is none.
    #[inline(always)]
    pub(crate) const fn checksum_offset(self) -> usize {
        self.checksum as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{Seeds, samples};
    use std::collections::BTreeSet;

    #[test]
    fn a_layout_is_16_bytes() {
        assert_eq!(size_of::<Layout>(), 16);
    }

    #[test]
    fn the_common_path_and_the_general_one_agree() {
        let (mut seeds, mut common) = (Seeds::new(3), 0);
        for sample in samples().iter().cycle().take(100_000) {
            let (mut bytes, wire_len) = (sample.clone(), sample.len() as u32);
            seeds.mutate(&mut bytes);
            let general = parse_any(&bytes, wire_len);
            let Some(found) = parse_common(&bytes, wire_len) else {
                assert_eq!(parse(&bytes, wire_len), general);
                continue;
            };
            assert!(found.is_common() && !general.is_common());
            assert_eq!((parse(&bytes, wire_len), found.common()), (found, found));
            let (_, word) = parse_common_word(&bytes, wire_len).unwrap();
            assert_eq!((Layout::of_word(word), word == 0), (found, false));
            assert_eq!(Layout { flags: found.flags & !COMMON, ..found }, general, "{bytes:02x?}");
            common += 1;
        }
        assert!(common > 500, "{common} on the common path");
    }

    #[test]
    fn every_reason_is_found() {
        let (mut seeds, mut found) = (Seeds::new(4), BTreeSet::new());
        for sample in samples().iter().cycle().take(500_000) {
            let mut bytes = sample.clone();
            seeds.mutate(&mut bytes);
            found.extend(parse(&bytes, sample.len() as u32).malformed());
        }
        let tags = [0x81, 0].repeat(40);
        found.extend(parse(&[&[0; 12][..], &tags].concat(), 92).malformed());
        found.extend(parse(&many_extensions(), 14 + 40 + 13 * 8).malformed());
        assert_eq!(found, Malformed::ALL.iter().copied().collect());
    }

    /// Thirteen destination options, each announcing the next.
    fn many_extensions() -> Vec<u8> {
        let mut bytes = [[0; 12].as_slice(), &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 104, 60]].concat();
        bytes.resize(14 + 40, 0);
        bytes.extend([60, 0, 1, 4, 0, 0, 0, 0].repeat(13));
        bytes
    }

    #[test]
    fn payload_cut_by_the_capture_is_not_malformed_but_a_cut_header_is() {
        for sample in samples() {
            let wire_len = sample.len() as u32;
            let whole = parse(&sample, wire_len);
            if !whole.has_transport() {
                continue;
            }
            let headers = whole.payload_offset();
            assert_eq!(parse(&sample[..headers], wire_len), whole);
            let cut = parse(&sample[..headers - 1], wire_len);
            assert!(cut.malformed().is_some() && !cut.has_transport());
            assert_eq!((cut.has_ipv4(), cut.has_ipv6()), (whole.has_ipv4(), whole.has_ipv6()));
        }
    }

    /// As much of a TCP segment, of 28 bytes of header and 4 more, as its first fragment has.
    fn first_fragment(version: u8, len: u16) -> Vec<u8> {
        let mut bytes = match version {
            4 => {
                [&[0; 12][..], &[8, 0, 0x45, 0, 0, 20 + len as u8, 0, 9, 0x20, 0, 64, 6], &[0; 10]]
                    .concat()
            }
            _ => {
                let fragment = [6, 0, 0, 1, 0, 0, 0, 9];
                let header = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 8 + len as u8, 44, 64];
                [&[0; 12][..], &header, &[0; 32], &fragment].concat()
            }
        };
        let mut segment = [0; 32];
        segment[12] = 7 << 4;
        bytes.extend(&segment[..usize::from(len)]);
        bytes
    }

    #[test]
    fn a_tcp_header_may_go_on_in_the_next_fragment_of_ipv4() {
        let read = |bytes: &[u8], wire_len: usize| parse(bytes, wire_len as u32);
        for len in [8, 16, 24] {
            let bytes = first_fragment(4, len);
            let layout = read(&bytes, bytes.len());
            assert_eq!((layout.malformed(), layout.has_tcp()), (None, false), "{len}");
            assert!(layout.is_first_fragment() && layout.has_ipv4());
            let bytes = first_fragment(6, len);
            let malformed = read(&bytes, bytes.len()).malformed();
            assert!(malformed.is_some(), "{len}");
        }
        let whole = first_fragment(4, 32);
        assert!(read(&whole, whole.len()).has_tcp());
        // Of what the capture has cut off nobody knows.
        let cut = read(&whole[..60], whole.len());
        assert_eq!(cut.malformed(), Some(Malformed::TcpHeaderTruncated));
    }

    #[test]
    fn padding_is_no_part_of_the_packet() {
        for sample in samples() {
            let padded = [sample.as_slice(), &[0; 18]].concat();
            let wire_len = padded.len() as u32;
            assert_eq!(parse(&padded, wire_len), parse(&sample, sample.len() as u32));
        }
    }

    #[test]
    fn only_a_short_frame_is_malformed_at_layer_2() {
        assert_eq!(parse(&[0; 13], 13).malformed(), Some(Malformed::EthernetHeaderTruncated));
        assert_eq!(parse(&[0; 14], 14).malformed(), None);
        assert_eq!(parse(&[0; 14], 14).l3_offset(), 14);
    }
}
