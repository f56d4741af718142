//! Frames: received packets in memory that belongs to a port.
//!
//! ```text
//!  port's pool ──lends──▶ Frame<'m> ──▶ worker ──▶ transmitting port ──token──▶ port's pool
//! ```
//!
//! A frame never owns its memory: heap, memory-mapped ring, AF_XDP frame and DPDK mbuf all look the
//! same here. It cannot be copied, so a buffer is given back at most once.

use crate::Port;
use std::hint::cold_path;

/// What is known of a packet besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// When it arrived, in nanoseconds since the Unix epoch (or of the capture's clock).
    pub arrival_ns: u64,
    /// Its number among everything read in this run, from zero.
    pub number: u64,
    /// The hash by which it was steered (Toeplitz), or zero where no hash applies.
    pub steering_hash: u32,
    /// Bytes it had on the wire, without FCS; at least as many as were captured.
    pub wire_len: u32,
    /// Where it arrived.
    pub port: Port,
    /// Of a datagram that was put together, bytes of the longest of its fragments, IP header included;
    /// 0: it arrived whole.
    pub fragment_len: u16,
}

/// One received frame in a buffer lent by its port's pool for `'m`.
///
/// The packet lies at `start .. start + len` of the buffer; what is before is headroom, what is
/// after is tailroom.
#[derive(Debug)]
pub struct Frame<'m> {
    buffer: &'m mut [u8],
    start: u32,
    len: u32,
    token: u64,
    meta: Meta,
}

impl<'m> Frame<'m> {
    /// A frame of `len` bytes at `start` of `buffer`. What lies outside the buffer, or past its
    /// first 4 GiB, is cut off. `token` is the port's own: it tells which buffer comes back.
    #[inline]
    pub fn new(buffer: &'m mut [u8], start: usize, len: usize, token: u64, meta: Meta) -> Self {
        let room = buffer.len().min(u32::MAX as usize);
        let start = start.min(room);
        let len = len.min(room - start);
        Self { buffer, start: start as u32, len: len as u32, token, meta }
    }

    /// The captured bytes, from the Ethernet header on.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        let start = self.start as usize;
        match self.buffer.get(start..start + self.len as usize) {
            Some(bytes) => bytes,
            None => {
                cold_path();
                &[]
            }
        }
    }

    /// The captured bytes, to be written.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.split_mut().0
    }

    /// Bytes and what is known of the packet, borrowed apart.
    #[inline(always)]
    pub(crate) fn split_mut(&mut self) -> (&mut [u8], &Meta) {
        let start = self.start as usize;
        match self.buffer.get_mut(start..start + self.len as usize) {
            Some(bytes) => (bytes, &self.meta),
            None => {
                cold_path();
                (&mut [], &self.meta)
            }
        }
    }

    /// How many bytes were captured; the packet may have been longer ([`Meta::wire_len`]).
    #[inline(always)]
    pub fn captured_len(&self) -> usize {
        self.len as usize
    }

    /// Free bytes before the packet.
    #[inline(always)]
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// Free bytes after the packet.
    #[inline(always)]
    pub fn tailroom(&self) -> usize {
        self.buffer.len() - self.start as usize - self.len as usize
    }

    /// Takes `count` bytes of headroom into the packet, with whatever they hold. `false`, and no
    /// change, where there is less.
    pub fn push_front(&mut self, count: usize) -> bool {
        let fits = count <= self.headroom();
        if fits {
            self.start -= count as u32;
            self.len += count as u32;
            self.meta.wire_len = self.meta.wire_len.saturating_add(count as u32);
        }
        fits
    }

    /// Gives the packet's first `count` bytes back to the headroom. `false`, and no change, where
    /// it has fewer.
    pub fn pull_front(&mut self, count: usize) -> bool {
        let fits = count <= self.captured_len();
        if fits {
            self.start += count as u32;
            self.len -= count as u32;
            self.meta.wire_len = self.meta.wire_len.saturating_sub(count as u32);
        }
        fits
    }

    /// Makes the packet `len` bytes long, on the wire as well, by taking from or giving to the
    /// tailroom. `false`, and no change, where the buffer is too short.
    pub fn resize(&mut self, len: usize) -> bool {
        let fits = len <= self.captured_len() + self.tailroom() && len <= u32::MAX as usize;
        if fits {
            self.len = len as u32;
            self.meta.wire_len = len as u32;
        }
        fits
    }

    /// What the owning port gave to recognise the buffer: a descriptor address, an mbuf pointer, an
    /// index.
    #[inline(always)]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// What is known of the packet.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What is known of the packet, to be changed by ports and the runtime.
    #[inline(always)]
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    /// Takes the whole buffer out: for a port that sends from where the packet lies. The frame is empty then, and has
    /// no room.
    #[inline(always)]
    pub fn take_buffer(&mut self) -> &'m mut [u8] {
        (self.start, self.len) = (0, 0);
        std::mem::take(&mut self.buffer)
    }

    /// Gives the whole buffer and its token back to the port that lent it.
    #[inline]
    pub fn into_buffer(self) -> (&'m mut [u8], u64) {
        (self.buffer, self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(wire_len: u32) -> Meta {
        Meta { wire_len, ..Meta::default() }
    }

    #[test]
    fn a_frame_is_one_cache_line() {
        assert_eq!(size_of::<Frame<'_>>(), 64);
    }

    #[test]
    fn headroom_and_tailroom_move() {
        let mut buffer: Vec<u8> = (0..32).collect();
        let mut frame = Frame::new(&mut buffer, 8, 16, 7, meta(20));
        assert_eq!((frame.headroom(), frame.captured_len(), frame.tailroom()), (8, 16, 8));
        assert!(frame.push_front(4) && frame.bytes()[0] == 4 && frame.meta().wire_len == 24);
        assert!(!frame.push_front(5) && frame.captured_len() == 20);
        assert!(frame.pull_front(6) && frame.bytes()[0] == 10 && frame.meta().wire_len == 18);
        assert!(!frame.pull_front(15));
        assert!(frame.resize(22) && frame.tailroom() == 0 && frame.meta().wire_len == 22);
        assert!(!frame.resize(23) && frame.bytes().len() == 22);
        frame.bytes_mut()[0] = 99;
        let (buffer, token) = frame.into_buffer();
        assert_eq!((buffer[10], token), (99, 7));
    }

    #[test]
    fn a_frame_without_its_buffer_is_empty() {
        let mut buffer = [7; 32];
        let mut frame = Frame::new(&mut buffer, 8, 16, 7, meta(16));
        assert_eq!(frame.take_buffer().len(), 32);
        assert_eq!((frame.headroom(), frame.bytes().len(), frame.tailroom()), (0, 0, 0));
        assert!(!frame.push_front(1) && !frame.resize(1) && frame.token() == 7);
        assert_eq!(frame.into_buffer().0.len(), 0);
    }

    #[test]
    fn what_lies_outside_the_buffer_is_cut() {
        let mut buffer = [0; 10];
        assert_eq!(Frame::new(&mut buffer, 4, 20, 0, meta(20)).bytes().len(), 6);
        assert_eq!(Frame::new(&mut buffer, 40, 20, 0, meta(20)).bytes().len(), 0);
    }
}
