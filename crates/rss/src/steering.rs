//! Which header fields are hashed, and how a packet's fields become its steering hash.

use crate::key::Key;
use crate::toeplitz::ToeplitzTable;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::BitOr;

/// Bytes of the longest input: two IPv6 addresses and two ports.
const MAX_INPUT: usize = 36;

/// A set of the fields source address, destination address, source port, destination port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FieldSet(u8);

impl FieldSet {
    /// No field: every packet hashes to zero.
    pub const EMPTY: Self = Self(0);
    /// The source address, IPv4 or IPv6.
    pub const SRC_ADDR: Self = Self(1);
    /// The destination address, IPv4 or IPv6.
    pub const DST_ADDR: Self = Self(2);
    /// The source port, TCP or UDP.
    pub const SRC_PORT: Self = Self(4);
    /// The destination port, TCP or UDP.
    pub const DST_PORT: Self = Self(8);
    /// Both addresses.
    pub const TWO_TUPLE: Self = Self(3);
    /// Both addresses and both ports.
    pub const FOUR_TUPLE: Self = Self(15);

    const NAMES: [(Self, &'static str); 4] = [
        (Self::SRC_ADDR, "src-addr"),
        (Self::DST_ADDR, "dst-addr"),
        (Self::SRC_PORT, "src-port"),
        (Self::DST_PORT, "dst-port"),
    ];

    /// Whether every field of `other` is in this set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set with the fields of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The set a reply's fields are in: source and destination exchanged.
    #[must_use]
    pub const fn swapped(self) -> Self {
        Self((self.0 & 5) << 1 | (self.0 & 10) >> 1)
    }

    /// This set and the one of its replies.
    #[must_use]
    pub const fn closed_under_swap(self) -> Self {
        self.with(self.swapped())
    }
}

impl BitOr for FieldSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().filter(|(field, _)| self.contains(*field));
        let names: Vec<&str> = named.map(|(_, name)| *name).collect();
        f.write_str(if names.is_empty() { "no field" } else { "" })?;
        f.write_str(&names.join(" "))
    }
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldSet({self})")
    }
}

/// How packets are hashed: which fields, under which key.
///
/// The input of the hash is the selected fields, in network byte order, one after the other: source
/// address, destination address, source port, destination port. With all four, or with both
/// addresses, this is what every RSS-capable NIC computes. A packet without ports (a fragment,
/// ICMP, any other protocol) is hashed by its selected addresses alone, so all fragments of a
/// packet stay together.
#[derive(Clone, Debug)]
pub struct Steering {
    fields: FieldSet,
    key: Key,
    table: ToeplitzTable,
}

impl Steering {
    /// Hashes `fields` under [`Key::MICROSOFT`].
    pub fn new(fields: FieldSet) -> Self {
        Self::with_key(fields, Key::MICROSOFT)
    }

    /// Hashes a packet and its reply alike: `fields` and their counterparts of the other
    /// direction, under [`Key::SYMMETRIC`]. For bidirectional packet sets.
    pub fn symmetric(fields: FieldSet) -> Self {
        Self::with_key(fields.closed_under_swap(), Key::SYMMETRIC)
    }

    /// Hashes `fields` under `key`.
    pub fn with_key(fields: FieldSet, key: Key) -> Self {
        Self { fields, key, table: ToeplitzTable::full(&key) }
    }

    /// The fields that are hashed.
    pub fn fields(&self) -> FieldSet {
        self.fields
    }

    /// The key they are hashed under.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The steering hash of an IPv4 packet. `ports` is (source, destination), `None` when it has
    /// none.
    #[inline]
    pub fn hash_ipv4(&self, src: Ipv4Addr, dst: Ipv4Addr, ports: Option<(u16, u16)>) -> u32 {
        let (src, dst) = (src.octets(), dst.octets());
        match (self.fields, ports) {
            (FieldSet::FOUR_TUPLE, Some(ports)) => self.table.hash_12(&four_tuple(src, dst, ports)),
            (FieldSet::FOUR_TUPLE | FieldSet::TWO_TUPLE, _) => self.table.hash_8(&pair(src, dst)),
            (FieldSet::SRC_ADDR, _) => self.table.hash_4(&src),
            (FieldSet::DST_ADDR, _) => self.table.hash_4(&dst),
            _ => self.hash_selected(&src, &dst, ports),
        }
    }

    /// The steering hash of an IPv6 packet. `ports` is (source, destination), `None` when it has
    /// none.
    #[inline]
    pub fn hash_ipv6(&self, src: Ipv6Addr, dst: Ipv6Addr, ports: Option<(u16, u16)>) -> u32 {
        let (src, dst) = (src.octets(), dst.octets());
        match (self.fields, ports) {
            (FieldSet::FOUR_TUPLE, Some((src_port, dst_port))) => {
                let mut input = [0; 36];
                input[..16].copy_from_slice(&src);
                input[16..32].copy_from_slice(&dst);
                input[32..34].copy_from_slice(&src_port.to_be_bytes());
                input[34..].copy_from_slice(&dst_port.to_be_bytes());
                self.table.hash_36(&input)
            }
            _ => self.hash_selected(&src, &dst, ports),
        }
    }

    /// The hash of other bytes that decide where a packet goes (MAC addresses of a non-IP packet,
    /// an inner header), up to [`Key::max_input_len`]. No NIC computes this one.
    #[inline]
    pub fn hash_bytes(&self, input: &[u8]) -> u32 {
        self.table.hash(input)
    }

    fn hash_selected(&self, src: &[u8], dst: &[u8], ports: Option<(u16, u16)>) -> u32 {
        let mut input = Input { bytes: [0; MAX_INPUT], len: 0 };
        let mut take = |field, bytes: &[u8]| {
            if self.fields.contains(field) {
                input.push(bytes);
            }
        };
        take(FieldSet::SRC_ADDR, src);
        take(FieldSet::DST_ADDR, dst);
        if let Some((src_port, dst_port)) = ports {
            take(FieldSet::SRC_PORT, &src_port.to_be_bytes());
            take(FieldSet::DST_PORT, &dst_port.to_be_bytes());
        }
        self.table.hash(&input.bytes[..input.len])
    }
}

/// The selected fields, one after the other.
struct Input {
    bytes: [u8; MAX_INPUT],
    len: usize,
}

impl Input {
    #[inline]
    fn push(&mut self, field: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + field.len()) {
            place.copy_from_slice(field);
            self.len += field.len();
        }
    }
}

#[inline]
fn pair(src: [u8; 4], dst: [u8; 4]) -> [u8; 8] {
    (u64::from(u32::from_be_bytes(src)) << 32 | u64::from(u32::from_be_bytes(dst))).to_be_bytes()
}

#[inline]
fn four_tuple(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> [u8; 12] {
    let mut input = [0; 12];
    input[..8].copy_from_slice(&pair(src, dst));
    input[8..10].copy_from_slice(&ports.0.to_be_bytes());
    input[10..].copy_from_slice(&ports.1.to_be_bytes());
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toeplitz::toeplitz;

    const A: Ipv4Addr = Ipv4Addr::new(66, 9, 149, 187);
    const B: Ipv4Addr = Ipv4Addr::new(161, 142, 100, 80);
    const PORTS: Option<(u16, u16)> = Some((2794, 1766));

    #[test]
    fn each_field_set_hashes_its_fields_in_order() {
        for bits in 0..16 {
            let fields = FieldSet(bits);
            let mut input = Vec::new();
            let parts: [&[u8]; 4] =
                [&A.octets(), &B.octets(), &2794u16.to_be_bytes(), &1766u16.to_be_bytes()];
            for ((field, _), part) in FieldSet::NAMES.iter().zip(parts) {
                if fields.contains(*field) {
                    input.extend_from_slice(part);
                }
            }
            let hash = Steering::new(fields).hash_ipv4(A, B, PORTS);
            assert_eq!(hash, toeplitz(&Key::MICROSOFT, &input), "{fields}");
        }
    }

    #[test]
    fn a_packet_without_ports_is_hashed_by_its_addresses() {
        let four = Steering::new(FieldSet::FOUR_TUPLE);
        let two = Steering::new(FieldSet::TWO_TUPLE);
        assert_eq!(four.hash_ipv4(A, B, None), two.hash_ipv4(A, B, PORTS));
        let (a, b) = (A.to_ipv6_mapped(), B.to_ipv6_mapped());
        assert_eq!(four.hash_ipv6(a, b, None), two.hash_ipv6(a, b, PORTS));
    }

    #[test]
    fn symmetric_steering_hashes_replies_alike_and_still_spreads() {
        let (a, b) = (A.to_ipv6_mapped(), B.to_ipv6_mapped());
        for bits in 0..16 {
            let steering = Steering::symmetric(FieldSet(bits));
            let reply = Some((1766, 2794));
            assert_eq!(steering.hash_ipv4(A, B, PORTS), steering.hash_ipv4(B, A, reply));
            assert_eq!(steering.hash_ipv6(a, b, PORTS), steering.hash_ipv6(b, a, reply));
        }
        let steering = Steering::symmetric(FieldSet::FOUR_TUPLE);
        let hash = |port| steering.hash_ipv4(A, B, Some((port, 443))) % 128;
        let distinct: std::collections::HashSet<u32> = (0..4096).map(hash).collect();
        assert_eq!(distinct.len(), 128);
    }

    #[test]
    fn field_sets_name_their_fields() {
        assert_eq!((FieldSet::SRC_ADDR | FieldSet::DST_PORT).to_string(), "src-addr dst-port");
        assert_eq!(FieldSet::EMPTY.to_string(), "no field");
        assert_eq!(FieldSet::SRC_ADDR.closed_under_swap(), FieldSet::TWO_TUPLE);
        assert_eq!(FieldSet::DST_PORT.swapped(), FieldSet::SRC_PORT);
    }
}
