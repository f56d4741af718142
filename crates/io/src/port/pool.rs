//! Buffers on the heap.

use crate::arena::LINE;

/// Free bytes before a received packet, for headers to be pushed.
pub const HEADROOM: usize = 128;

/// Free bytes after the longest packet a buffer is made for.
pub const TAILROOM: usize = 128;

/// Memory for packets: buffers of one size, each starting at a cache line.
///
/// ```
/// use anabranch_io::port::Pool;
/// let mut pool = Pool::new(64, 1_514);
/// let mut free = pool.buffers();
/// assert_eq!(free.len(), 64);
/// let buffer = free.take().expect("a fresh pool has buffers");
/// free.give(buffer);
/// ```
#[derive(Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    buffer_len: usize,
    count: usize,
}

impl Pool {
    /// `count` buffers for packets of up to `max_packet_len` bytes, and never less than 2,048.
    ///
    /// Pages of memory that no packet touches are never allocated, so generous lengths cost
    /// address space only.
    pub fn new(count: usize, max_packet_len: usize) -> Self {
        let room = max_packet_len.max(2_048).next_multiple_of(LINE);
        // An odd number of lines, so that the starts of packets do not all fall into a few sets
        // of the first-level cache.
        let buffer_len = (((HEADROOM + room + TAILROOM) / LINE) | 1) * LINE;
        Self { bytes: vec![0; count * buffer_len + LINE], buffer_len, count }
    }

    /// All buffers. Whoever has them lends them on as frames, for as long as the pool lives.
    pub fn buffers(&mut self) -> FreeBuffers<'_> {
        let base = self.bytes.as_ptr().align_offset(LINE).min(LINE);
        let buffers = self.bytes[base..].chunks_exact_mut(self.buffer_len);
        FreeBuffers { free: buffers.take(self.count).collect() }
    }

    /// Bytes of each buffer, headroom and tailroom included.
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }
}

/// The buffers of a [`Pool`] that hold no packet. The one given back last is taken first: it is
/// the warmest.
#[derive(Debug)]
pub struct FreeBuffers<'m> {
    free: Vec<&'m mut [u8]>,
}

impl<'m> FreeBuffers<'m> {
    /// A free buffer, with whatever bytes it last held; `None` when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<&'m mut [u8]> {
        self.free.pop()
    }

    /// Gives a buffer back.
    #[inline]
    pub fn give(&mut self, buffer: &'m mut [u8]) {
        self.free.push(buffer);
    }

    /// Number of free buffers.
    #[inline]
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Whether all buffers are in use.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Bytes from the headroom to the end of a buffer.
    pub(super) fn room(&self) -> u32 {
        let len = self.free.first().map_or(0, |buffer| buffer.len());
        u32::try_from(len.saturating_sub(HEADROOM)).unwrap_or(u32::MAX)
    }

    /// Gives buffers back.
    #[inline]
    pub(super) fn give_many(&mut self, buffers: impl Iterator<Item = &'m mut [u8]>) {
        self.free.extend(buffers);
    }

    /// Takes up to `max` buffers, warmest first.
    #[inline]
    pub(super) fn take_many(&mut self, max: usize) -> impl Iterator<Item = &'m mut [u8]> {
        let kept = self.free.len().saturating_sub(max);
        self.free.drain(kept..).rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_disjoint_aligned_and_large_enough() {
        for max_packet_len in [0, 64, 1_514, 9_018, 65_549, 262_144] {
            let mut pool = Pool::new(7, max_packet_len);
            assert!(pool.buffer_len() >= HEADROOM + max_packet_len + TAILROOM);
            assert_eq!(pool.buffer_len() / LINE % 2, 1);
            let mut free = pool.buffers();
            let mut starts: Vec<usize> =
                std::iter::from_fn(|| free.take()).map(|buffer| buffer.as_ptr() as usize).collect();
            starts.sort_unstable();
            assert!(starts.iter().all(|start| start.is_multiple_of(LINE)));
            assert_eq!((starts.len(), free.is_empty()), (7, true));
        }
    }

    #[test]
    fn the_warmest_buffer_comes_first() {
        let mut pool = Pool::new(4, 64);
        let mut free = pool.buffers();
        let buffer = free.take().unwrap();
        let start = buffer.as_ptr();
        free.give(buffer);
        assert_eq!(free.take_many(2).next().unwrap().as_ptr(), start);
        assert_eq!(free.len(), 2);
    }
}
