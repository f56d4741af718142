//! Packets of 64 bytes, and traces of them.

use crate::hand::{BATCH, Packet};
use anabranch_io::Trace;
use anabranch_io::capture::Record;
use anabranch_packet::craft::{self, Link, Segment, tcp_flags};
use anabranch_packet::{MacAddr, Port};
use std::net::{Ipv4Addr, SocketAddr};

/// An address and a port.
pub type End = (u32, u16);

/// A packet and the port on which it arrives.
pub type Arrival = (u8, Packet);

/// When the first packet of all arrives: a whole second.
pub const START_NS: u64 = 1_767_225_600_000_000_000;

/// Nanoseconds between bursts: 10 million packets a second.
pub const BURST_NS: u64 = BATCH as u64 * 100;

const LINK: Link = Link {
    src: MacAddr::new(2, 0, 0, 0, 0, 1),
    dst: MacAddr::new(2, 0, 0, 0, 0, 2),
    tags: [None; 2],
};

fn socket((address, port): End) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(address), port))
}

/// A UDP packet.
pub fn udp(src: End, dst: End) -> Packet {
    let mut packet = [0; 64];
    let written = craft::udp(&mut packet, &LINK, socket(src), socket(dst), &[0xab; 22]);
    debug_assert_eq!(written, Some(64));
    packet
}

/// The packet that asks for a TCP connection, padded.
pub fn syn(src: End, dst: End) -> Packet {
    let mut packet = [0; 64];
    let segment = Segment { flags: tcp_flags::SYN, ..Segment::default() };
    let written = craft::tcp(&mut packet, &LINK, socket(src), socket(dst), segment, &[]);
    debug_assert_eq!(written, Some(54));
    packet
}

/// A frame between stations `src` and `dst`, each with an address of its own, so that a NIC spreads
/// them over workers.
pub fn frame(src: MacAddr, dst: MacAddr) -> Packet {
    let address = |mac: MacAddr| {
        let [_, side, _, b, c, d] = mac.octets();
        u32::from_be_bytes([10 + side, b, c, d])
    };
    let mut packet = udp((address(src), 9), (address(dst), 9));
    packet[..6].copy_from_slice(&dst.octets());
    packet[6..12].copy_from_slice(&src.octets());
    packet
}

/// Chance for the choice of flows: the same traces in every run (xorshift64*, Vigna 2016).
pub struct Chance(u64);

impl Chance {
    /// Seeded.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    /// A word.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.word()) * bound as u128) >> 64) as usize
    }
}

/// A trace that begins at [`START_NS`], in bursts of [`BATCH`] packets that arrive together, as a
/// poll of a port returns them.
pub fn trace(arrivals: impl Iterator<Item = Arrival>) -> Trace {
    paced(BURST_NS, arrivals)
}

/// The same with `burst_ns` nanoseconds between bursts.
pub fn paced(burst_ns: u64, arrivals: impl Iterator<Item = Arrival>) -> Trace {
    let mut trace = Trace::new();
    for (number, (port, bytes)) in arrivals.enumerate() {
        let timestamp_ns = START_NS + (number / BATCH) as u64 * burst_ns;
        trace.push(Port::new(port), &Record { timestamp_ns, wire_len: 64, bytes: &bytes });
    }
    trace
}

/// After what time a trace can be repeated.
pub fn period_ns(trace: &Trace) -> u64 {
    let last = trace.records().last().map_or(START_NS, |record| record.arrival_ns);
    last - START_NS + BURST_NS
}

/// The packets of a trace with their ports.
pub fn arrivals(trace: &Trace) -> impl Iterator<Item = (u8, &Packet)> {
    let ports = trace.records().iter().map(|record| record.port.index());
    let packets = (0..trace.len()).filter_map(|index| trace.bytes(index).first_chunk());
    ports.zip(packets)
}
