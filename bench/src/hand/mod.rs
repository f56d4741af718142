//! The same jobs written by hand: what the functions are compared with.
//!
//! Each loop takes a batch of at most [`BATCH`] packets as its port lent them. A first pass hashes
//! each packet and prefetches its line, a second one does an established flow's work in full: both
//! directions, headers rewritten, both checksums mended, lifetimes refreshed, expiry running. They
//! check what the function checks on that path, no more and no less, and stop at anything else: they
//! know IPv4 and UDP only, open no flows (they are loaded beforehand), send no errors, count nothing
//! but what leaves by each of the two ports. Every function has all of that beside its established
//! path; what it costs more than its loop is the price of it.
//!
//! Tests prove that a loop and its function send the same bytes out of the same ports, and that no
//! loop is longer than 60 lines.

pub mod bridge;
pub mod bridge_static;
pub mod firewall;
pub mod floor;
pub mod lb;
pub mod limit;
pub mod nat;
pub mod policer;
#[cfg(feature = "security")]
pub mod synthetic;
pub mod table;

/// Packets of a batch.
pub const BATCH: usize = 32;

/// A packet of the bench: 64 bytes, Ethernet header included, frame check sequence not.
pub type Packet = [u8; 64];

/// A loop written by hand.
pub trait Hand: Send {
    /// Handles at most [`BATCH`] packets that arrived together, `now_ns` after the start, each on
    /// its port of `ports` (0 or 1), and adds to `out` how many left by each. Those that left are
    /// rewritten in place.
    fn batch(&mut self, packets: &mut [&mut Packet], ports: &[u8], now_ns: u64, out: &mut [u64; 2]);
}

/// The unit of deadlines: 2^20 ns, as in the functions' tables.
pub const TICK_BITS: u32 = 20;

/// A lifetime in ticks, rounded up.
pub const fn ticks(seconds: u64) -> u32 {
    (seconds * 1_000_000_000).div_ceil(1 << TICK_BITS) as u32
}

/// The 64-bit word of a packet at `at`, in memory order.
#[inline(always)]
pub fn word(packet: &Packet, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&packet[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

/// The 32-bit word at `at`, in memory order.
#[inline(always)]
pub fn address(packet: &Packet, at: usize) -> u32 {
    u32::from_ne_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

/// The 16-bit word at `at`, in memory order.
#[inline(always)]
pub fn port(packet: &Packet, at: usize) -> u16 {
    u16::from_ne_bytes([packet[at], packet[at + 1]])
}

/// The 16-bit number at `at`, in host order.
#[inline(always)]
pub fn number(packet: &Packet, at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// Ethertype, version and header length of plain IPv4, and the bytes that they are in.
const PLAIN: (u64, u64) = words([8, 0, 0x45, 0, 0, 0, 0, 0], [0xff, 0xff, 0xff, 0, 0, 0, 0, 0]);
/// Not a fragment: neither the offset nor the bit for more.
const WHOLE: (u64, u64) = words([0; 8], [0x3f, 0xff, 0, 0, 0, 0, 0, 0]);
/// The same, and the protocol of UDP.
const WHOLE_UDP: (u64, u64) = words([0, 0, 0, 17, 0, 0, 0, 0], [0x3f, 0xff, 0, 0xff, 0, 0, 0, 0]);

const fn words(value: [u8; 8], mask: [u8; 8]) -> (u64, u64) {
    (u64::from_ne_bytes(value), u64::from_ne_bytes(mask))
}

#[inline(always)]
fn holds(packet: &Packet, at: usize, (value, mask): (u64, u64)) -> bool {
    word(packet, at) & mask == value
}

/// Whether this is IPv4 without options, not a fragment, and no longer than its frame.
#[inline(always)]
pub fn is_plain_ipv4(packet: &Packet) -> bool {
    holds(packet, 12, PLAIN) && holds(packet, 20, WHOLE) && number(packet, 16) <= 50
}

/// Whether it carries UDP besides, of a length that fits.
#[inline(always)]
pub fn is_plain_udp(packet: &Packet) -> bool {
    let (ip_len, udp_len) = (number(packet, 16), number(packet, 38));
    holds(packet, 12, PLAIN)
        && holds(packet, 20, WHOLE_UDP)
        && ip_len <= 50
        && udp_len >= 8
        && 20 + u32::from(udp_len) <= ip_len.into()
}

/// Offsets of an address and of the port that belongs to it.
pub type End = (usize, usize);
/// Those of the source.
pub const SOURCE: End = (26, 34);
/// Those of the destination.
pub const DESTINATION: End = (30, 36);

/// An address and a port as they lie in a packet, in one word.
#[inline(always)]
pub fn end(address: u32, port: u16) -> u64 {
    u64::from(address) | u64::from(port) << 32
}

/// That of a packet.
#[inline(always)]
pub fn end_of(packet: &Packet, (address_at, port_at): End) -> u64 {
    end(address(packet, address_at), port(packet, port_at))
}

/// Puts another end in the place of one and mends both checksums (RFC 1624; a UDP checksum of zero
/// stays, one that becomes zero is sent as 0xffff, RFC 768).
#[inline(always)]
pub fn rewrite(packet: &mut Packet, at: End, new: u64) {
    let old = !end_of(packet, at) & 0xffff_ffff_ffff;
    packet[at.0..at.0 + 4].copy_from_slice(&(new as u32).to_ne_bytes());
    packet[at.1..at.1 + 2].copy_from_slice(&((new >> 32) as u16).to_ne_bytes());
    let header = mended(port(packet, 24), u64::from(old as u32) + u64::from(new as u32));
    packet[24..26].copy_from_slice(&header.to_ne_bytes());
    let transport = port(packet, 40);
    if transport != 0 {
        let mended = mended(transport, old + new);
        let sent = if mended == 0 { 0xffff } else { mended };
        packet[40..42].copy_from_slice(&sent.to_ne_bytes());
    }
}

/// The checksum after the words of `change`, the complement of the old ones plus the new ones.
/// Adding the halves to each other in both orders carries round the end.
#[inline(always)]
fn mended(checksum: u16, change: u64) -> u16 {
    let sum = change + u64::from(!checksum);
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    !((sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{Chance, udp};

    /// Lines of a loop at most.
    const LINES: usize = 60;

    #[test]
    fn rewriting_is_crafting_anew() {
        let mut chance = Chance::new(1);
        let mut any = || (chance.below(1 << 32) as u32, chance.below(1 << 16) as u16);
        for _ in 0..200_000 {
            let (src, dst, other) = (any(), any(), any());
            let new = end(other.0.to_be(), other.1.to_be());
            let mut packet = udp(src, dst);
            rewrite(&mut packet, SOURCE, new);
            assert_eq!(packet, udp(other, dst));
            rewrite(&mut packet, DESTINATION, new);
            assert_eq!(packet, udp(other, other));
        }
    }

    #[test]
    fn no_udp_checksum_stays_none() {
        let mut packet = udp((1, 2), (3, 4));
        packet[40..42].fill(0);
        rewrite(&mut packet, SOURCE, end(9, 9));
        assert_eq!(packet[40..42], [0, 0]);
    }

    #[test]
    fn what_the_loops_do_not_know_is_told_apart() {
        let good = udp((1, 2), (3, 4));
        assert!(is_plain_udp(&good) && is_plain_ipv4(&good));
        let changes = [(12, 0x86), (14, 0x46), (14, 0x65), (17, 51), (20, 0x20), (21, 1)];
        for (at, byte) in changes {
            let mut packet = good;
            packet[at] = byte;
            assert!(!is_plain_udp(&packet) && !is_plain_ipv4(&packet), "{at}");
        }
        for (at, byte) in [(23, 6), (39, 7), (39, 31), (38, 1)] {
            let mut packet = good;
            packet[at] = byte;
            assert!(!is_plain_udp(&packet) && is_plain_ipv4(&packet), "{at}");
        }
    }

    #[test]
    fn each_loop_is_read_in_a_minute() {
        for (name, text) in [
            ("bridge", include_str!("bridge.rs")),
            ("bridge_static", include_str!("bridge_static.rs")),
            ("firewall", include_str!("firewall.rs")),
            ("floor", include_str!("floor.rs")),
            ("lb", include_str!("lb.rs")),
            ("limit", include_str!("limit.rs")),
            ("nat", include_str!("nat.rs")),
            ("policer", include_str!("policer.rs")),
            ("synthetic", include_str!("synthetic.rs")),
        ] {
            let from_batch = text.lines().skip_while(|line| !line.starts_with("    fn batch("));
            let lines = from_batch.take_while(|line| *line != "    }").count() + 1;
            assert!((3..=LINES).contains(&lines), "{name}: {lines} lines, at most {LINES}");
        }
    }
}
