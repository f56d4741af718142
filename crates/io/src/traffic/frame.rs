//! Frames: a segment of a flow as bytes.

use super::flow::{Flow, Protocol};
use super::spec::MAX_SIZE;
use anabranch_packet::craft::{self, Link};

/// The shortest Ethernet frame, without frame check sequence.
const MIN_FRAME_LEN: usize = 60;

/// Receive window of all TCP segments.
const WINDOW: u16 = 0xffff;

/// What payloads are cut from: letters, which no protocol analyser takes for a protocol.
const PATTERN: [u8; MAX_SIZE as usize] = {
    let mut pattern = [0; MAX_SIZE as usize];
    let mut at = 0;
    while at < pattern.len() {
        pattern[at] = b'a' + (at % 26) as u8;
        at += 1;
    }
    pattern
};

/// One packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Number of the flow.
    pub(super) flow: u64,
    pub(super) from_inside: bool,
    /// Flags, sequence and acknowledgement numbers count for TCP only.
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    /// Bytes of payload, less than [`MAX_SIZE`].
    pub(super) payload_len: u32,
}

/// Where frames are written before they are stored.
#[derive(Clone)]
pub(super) struct FrameBuffer {
    bytes: Box<[u8; MAX_SIZE as usize]>,
}

impl FrameBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: Box::new([0; MAX_SIZE as usize]) }
    }

    /// The bytes of a segment, padded with zeros to the shortest Ethernet frame.
    pub(super) fn write(&mut self, flow: &Flow, segment: &Segment) -> &[u8] {
        let (src, dst) = flow.addresses(segment.from_inside);
        let (from, to) = flow.stations(segment.from_inside);
        let link = Link { src: from, dst: to, ..Link::default() };
        let payload = PATTERN.get(..segment.payload_len as usize).unwrap_or_default();
        self.bytes[..MIN_FRAME_LEN].fill(0);
        let out = &mut self.bytes[..];
        let written = match flow.protocol {
            Protocol::Tcp => craft::tcp(out, &link, src, dst, tcp_header(segment), payload),
            Protocol::Udp => craft::udp(out, &link, src, dst, payload),
        };
        &self.bytes[..written.unwrap_or(0).max(MIN_FRAME_LEN)]
    }
}

fn tcp_header(segment: &Segment) -> craft::Segment {
    let Segment { sequence, acknowledgement, flags, .. } = *segment;
    craft::Segment { sequence, acknowledgement, flags, window: WINDOW, mss: None }
}
