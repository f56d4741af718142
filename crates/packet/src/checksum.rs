//! The Internet checksum: incremental update (RFC 1624), full computation (RFC 1071), checking.
//!
//! Sums are taken over words in memory order, not in network order: the ones' complement sum does
//! not care (RFC 1071, 2 (B)), and it saves every byte swap. A sum of words is zero only if all of
//! them are, so an update of a well-computed checksum gives bit for bit what computing it anew
//! would.

use crate::{Layout, Packet, packet::Mode};
use std::hint::cold_path;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The change of a checksum's words from old to new: the sum of `!old + new` (RFC 1624, equation
/// 3), less than 2^20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u32);

impl Delta {
    /// The change of one 16-bit word, given in memory order.
    #[inline(always)]
    pub fn of_word(old: [u8; 2], new: [u8; 2]) -> Self {
        Self(u32::from(!u16::from_ne_bytes(old)) + u32::from(u16::from_ne_bytes(new)))
    }

    /// The change of the words in `old` to those in `new`. `W` is even, at most 64; the bytes begin
    /// at an even distance from the start of what the checksum covers.
    #[inline(always)]
    pub fn of<const W: usize>(old: &[u8; W], new: &[u8; W]) -> Self {
        const { assert!(W.is_multiple_of(2) && W <= 64) };
        if W == 2 {
            return Self::of_word(word(old, 0), word(new, 0));
        }
        if W == 4 {
            let (sum, carry) = (!double_word(old, 0)).overflowing_add(double_word(new, 0));
            return Self(u32::from(fold32(sum + u32::from(carry))));
        }
        let mut sum = 0_u64;
        let mut at = 0;
        while at + 4 <= W {
            sum += u64::from(!double_word(old, at)) + u64::from(double_word(new, at));
            at += 4;
        }
        if at < W {
            return Self(u32::from(fold(sum)) + Self::of_word(word(old, at), word(new, at)).0);
        }
        Self(u32::from(fold(sum)))
    }

    /// Both changes. At most 8 may be taken together before they are applied.
    #[inline(always)]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Updates a checksum, given as it lies in the packet.
    #[inline(always)]
    pub fn apply(self, checksum: &mut [u8; 2]) {
        *checksum = self.applied(*checksum).to_ne_bytes();
    }

    /// Updates a UDP checksum where `udp`, else like [`apply`](Self::apply). In UDP zero means
    /// that there is no checksum, and stays; a zero that comes out is sent as 0xffff (RFC 768).
    /// Both are asked of the checksum first: zeros are rare, so a processor foresees the answer,
    /// while TCP and UDP change from packet to packet.
    #[inline(always)]
    pub fn apply_transport(self, checksum: &mut [u8; 2], udp: bool) {
        if *checksum == [0, 0] && udp {
            cold_path();
            return;
        }
        let mut sum = self.applied(*checksum);
        if sum == 0 && udp {
            cold_path();
            sum = 0xffff;
        }
        *checksum = sum.to_ne_bytes();
    }

    #[inline(always)]
    fn applied(self, checksum: [u8; 2]) -> u16 {
        !fold32(u32::from(!u16::from_ne_bytes(checksum)) + self.0)
    }
}

#[inline(always)]
fn word<const W: usize>(bytes: &[u8; W], at: usize) -> [u8; 2] {
    [bytes[at], bytes[at + 1]]
}

#[inline(always)]
fn double_word<const W: usize>(bytes: &[u8; W], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Folds with end-around carry: adding the two halves of a number to each other in both orders
/// carries from the lower into the upper, which is the result.
#[inline(always)]
fn fold32(sum: u32) -> u16 {
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

#[inline(always)]
fn fold(sum: u64) -> u16 {
    fold32((sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32)
}

/// A running ones' complement sum over parts of a packet, each of which begins at an even offset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Self(0)
    }

    /// The sum with `bytes` added; an odd last byte is padded with a zero.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_ne_bytes(*word));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.0 += u64::from(u32::from_ne_bytes(last));
        self
    }

    /// The sum with the pseudo header of IPv4 added (RFC 9293, 3.1); `len` bytes follow it.
    #[must_use]
    pub fn ipv4(self, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u32) -> Self {
        let addresses = self.bytes(&src.octets()).bytes(&dst.octets());
        addresses.bytes(&[0, protocol]).bytes(&len.to_be_bytes())
    }

    /// The sum with the pseudo header of IPv6 added (RFC 8200, 8.1); `len` bytes follow it.
    #[must_use]
    pub fn ipv6(self, src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Self {
        let addresses = self.bytes(&src.octets()).bytes(&dst.octets());
        addresses.bytes(&len.to_be_bytes()).bytes(&[0, 0, 0, protocol])
    }

    /// The checksum: what to write over a field that was zero while it was summed.
    pub fn checksum(self) -> [u8; 2] {
        (!fold(self.0)).to_ne_bytes()
    }

    /// The checksum for UDP, never zero (RFC 768).
    pub fn udp_checksum(self) -> [u8; 2] {
        match self.checksum() {
            [0, 0] => [0xff, 0xff],
            sum => sum,
        }
    }

    /// Whether what was summed, its checksum included, is intact.
    pub fn is_valid(self) -> bool {
        fold(self.0) == 0xffff
    }
}

/// What checking one checksum found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// There is none: no such header, or a UDP checksum of zero.
    Absent,
    /// It cannot be checked: a fragment, a capture that was cut, or an IPv6 routing header.
    Unverifiable,
    /// It is right.
    Valid,
    /// It is wrong.
    Invalid,
}

impl Check {
    fn of(sum: Sum) -> Self {
        if sum.is_valid() { Self::Valid } else { Self::Invalid }
    }
}

/// What checking all checksums of a packet found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumReport {
    /// Of the IPv4 header.
    pub ipv4_header: Check,
    /// Of TCP, UDP, ICMPv4 or ICMPv6.
    pub transport: Check,
}

impl ChecksumReport {
    /// Whether nothing is known to be wrong.
    pub fn is_ok(self) -> bool {
        self.ipv4_header != Check::Invalid && self.transport != Check::Invalid
    }
}

/// Computes every checksum of the packet in full and compares. Not for the packet path.
pub fn verify<M: Mode>(packet: &Packet<'_, M>) -> ChecksumReport {
    ChecksumReport { ipv4_header: verify_ipv4(packet), transport: verify_transport(packet) }
}

fn verify_ipv4<M: Mode>(packet: &Packet<'_, M>) -> Check {
    let Some(ipv4) = packet.ipv4() else {
        return Check::Absent;
    };
    let start = packet.layout().l3_offset();
    let header = packet.bytes().get(start..start + usize::from(ipv4.header_len()));
    header.map_or(Check::Unverifiable, |header| Check::of(Sum::new().bytes(header)))
}

fn verify_transport<M: Mode>(packet: &Packet<'_, M>) -> Check {
    let layout = packet.layout();
    if !layout.has_transport() {
        return Check::Absent;
    }
    let at = layout.l4_offset() + 6;
    if layout.has_udp() && packet.bytes().get(at..at + 2) == Some(&[0, 0]) {
        return Check::Absent;
    }
    transport_sum(packet).map_or(Check::Unverifiable, Check::of)
}

/// The sum over pseudo header, transport header and payload, if all of it is here.
pub(crate) fn transport_sum<M: Mode>(packet: &Packet<'_, M>) -> Option<Sum> {
    let layout = packet.layout();
    if layout.is_fragment() || layout.is_routed() {
        return None;
    }
    let segment = packet.bytes().get(layout.l4_offset()..layout.end())?;
    Some(pseudo_header(packet, layout, segment.len() as u32).bytes(segment))
}

fn pseudo_header<M: Mode>(packet: &Packet<'_, M>, layout: Layout, len: u32) -> Sum {
    if layout.has_icmpv4() {
        return Sum::new();
    }
    if let Some(ipv4) = packet.ipv4() {
        return Sum::new().ipv4(ipv4.src(), ipv4.dst(), layout.protocol(), len);
    }
    packet
        .ipv6()
        .map_or(Sum::new(), |ipv6| Sum::new().ipv6(ipv6.src(), ipv6.dst(), layout.protocol(), len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum as RFC 1071 writes it, word by word in network order.
    fn plain(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0_u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    #[test]
    fn rfc_1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).checksum(), (!0xddf2_u16).to_be_bytes());
    }

    #[test]
    fn rfc_1624_example() {
        let mut checksum = [0xdd, 0x2f];
        Delta::of_word([0x55, 0x55], [0x32, 0x85]).apply(&mut checksum);
        assert_eq!(checksum, [0x00, 0x00]);
    }

    #[test]
    fn udp_zero_rule() {
        let delta = Delta::of_word([0x55, 0x55], [0x32, 0x85]);
        let mut computed_zero = [0xdd, 0x2f];
        delta.apply_transport(&mut computed_zero, true);
        assert_eq!(computed_zero, [0xff, 0xff]);
        let mut none = [0, 0];
        delta.apply_transport(&mut none, true);
        assert_eq!(none, [0, 0]);
        delta.apply_transport(&mut none, false);
        assert_ne!(none, [0, 0], "zero is a checksum like any other in TCP");
    }

    fn updated<const W: usize>(bytes: &[u8], at: usize, new: [u8; W]) -> ([u8; 2], [u8; 2]) {
        let mut bytes = bytes.to_vec();
        let mut checksum = plain(&bytes);
        let mut old = [0; W];
        old.copy_from_slice(&bytes[at..at + W]);
        bytes[at..at + W].copy_from_slice(&new);
        Delta::of(&old, &new).apply(&mut checksum);
        (checksum, plain(&bytes))
    }

    /// Words near the ends of the range, where end-around carries happen.
    fn edgy() -> impl Strategy<Value = u8> {
        prop_oneof![Just(0), Just(0xff), Just(1), Just(0xfe), any::<u8>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn full_computation_agrees_with_the_plain_one(bytes in prop::collection::vec(edgy(), 0..200)) {
            prop_assert_eq!(Sum::new().bytes(&bytes).checksum(), plain(&bytes));
        }

        #[test]
        fn updates_agree_with_computing_anew(
            mut bytes in prop::collection::vec(edgy(), 40..60),
            word: [u8; 2], address in prop::array::uniform4(edgy()), wide in prop::array::uniform16(edgy()),
        ) {
            bytes[39] |= 1; // never all zeros, as no header is
            let (new, anew) = updated(&bytes, 6, word);
            prop_assert_eq!(new, anew);
            let (new, anew) = updated(&bytes, 12, address);
            prop_assert_eq!(new, anew);
            let (new, anew) = updated(&bytes, 8, wide);
            prop_assert_eq!(new, anew);
        }
    }
}
