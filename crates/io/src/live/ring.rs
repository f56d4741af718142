//! A receive ring shared with the kernel: blocks that change hands.
//! This is why there is `unsafe` here: the kernel writes into the same memory.
//!
//! ```text
//!  kernel fills a block ──status──▶ take(): &'m mut [u8] ──split──▶ frames, headers, gaps
//!        ▲                                                             │
//!        └──status── all bytes of the block are back ◀──give()─────────┘
//! ```
//!
//! **Invariant**: a block is the kernel's again only when as many bytes as it has were given back. A
//! mutable slice cannot be copied, so that nobody can hold a part of it then.

use super::system::Mapping;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the status stands in a block (`struct tpacket_block_desc`).
const STATUS: usize = 8;

/// A ring of blocks in a mapping.
pub(super) struct Ring<'m> {
    mapping: &'m mut Mapping,
    block_len: usize,
    /// Bytes of each block that are back; all of them: it is the kernel's.
    returned: Vec<usize>,
    next: usize,
    /// Blocks that are all back, of which the kernel has not been told.
    complete: Vec<usize>,
}

impl<'m> Ring<'m> {
    /// The blocks of `block_len` bytes in `mapping`, all the kernel's. `block_len` is a multiple of the
    /// page size, so that each status is aligned.
    pub(super) fn new(mapping: &'m mut Mapping, block_len: usize) -> Self {
        let returned = vec![block_len; mapping.len() / block_len.max(1)];
        let complete = Vec::with_capacity(returned.len());
        Self { mapping, block_len, returned, next: 0, complete }
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        // SAFETY: callers name blocks that exist, so that the four bytes lie in the mapping, which
        // lives as long as `self`; they are aligned, and are touched by atomic operations only, here
        // and (for itself, over its own mapping) by the kernel.
        unsafe {
            AtomicU32::from_ptr(self.mapping.start().add(block * self.block_len + STATUS).cast())
        }
    }

    /// Hands complete blocks to the kernel. Apart from [`give`](Self::give), whose argument may be the
    /// part with the status.
    fn hand_back(&mut self) {
        while let Some(block) = self.complete.pop() {
            self.status(block).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.returned.len()
    }

    /// Whether the kernel has filled the next block.
    pub(super) fn is_filled(&self) -> bool {
        self.returned.get(self.next).is_some_and(|returned| *returned == self.block_len)
            && !self.complete.contains(&self.next)
            && self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The next block, when the kernel has filled it.
    pub(super) fn take(&mut self) -> Option<&'m mut [u8]> {
        self.hand_back();
        let block = self.next;
        if !self.is_filled() {
            return None;
        }
        if let Some(returned) = self.returned.get_mut(block) {
            *returned = 0;
        }
        self.next = (block + 1) % self.returned.len();
        // SAFETY: the block lies in the mapping, which is borrowed for 'm; it has just become ours, and
        // is lent once until all of it is back.
        Some(unsafe {
            let start = self.mapping.start().add(block * self.block_len);
            std::slice::from_raw_parts_mut(start, self.block_len)
        })
    }

    /// Takes a part of a block back; `Err`: it is of none.
    pub(super) fn give(&mut self, part: &'m mut [u8]) -> Result<(), &'m mut [u8]> {
        // An empty part may begin where the mapping ends.
        if part.is_empty() {
            return Ok(());
        }
        let start = self.mapping.start() as usize;
        let at = (part.as_ptr() as usize).wrapping_sub(start);
        if at >= self.mapping.len() {
            return Err(part);
        }
        let block = at / self.block_len;
        if let Some(returned) = self.returned.get_mut(block) {
            *returned += part.len();
            if *returned == self.block_len {
                self.complete.push(block);
            }
        }
        Ok(())
    }

    /// Puts another mapping of as many blocks in the place of this one, if nothing is lent; else `Err`.
    pub(super) fn replace(&mut self, mapping: Mapping) -> Result<(), Mapping> {
        let idle = self.returned.iter().all(|returned| *returned == self.block_len);
        if !idle || mapping.len() != self.mapping.len() {
            return Err(mapping);
        }
        (self.next, *self.mapping) = (0, mapping);
        self.complete.clear();
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BLOCK: usize = 4_096;

    /// As the kernel does it.
    fn fill(ring: &Ring<'_>, block: usize) {
        ring.status(block).store(libc::TP_STATUS_USER, Ordering::Release);
    }

    fn is_the_kernels(ring: &Ring<'_>, block: usize) -> bool {
        ring.status(block).load(Ordering::Acquire) == libc::TP_STATUS_KERNEL
    }

    #[test]
    fn a_block_goes_back_when_all_its_parts_have() {
        let mut mapping = Mapping::anonymous(3 * BLOCK).unwrap();
        let mut ring = Ring::new(&mut mapping, BLOCK);
        assert!(ring.take().is_none());
        fill(&ring, 0);
        fill(&ring, 1);
        let (head, rest) = ring.take().unwrap().split_at_mut(100);
        let (middle, tail) = rest.split_at_mut(1_000);
        let next = ring.take().unwrap();
        for part in [tail, head] {
            ring.give(part).unwrap();
            assert!(ring.take().is_none() && !is_the_kernels(&ring, 0));
        }
        ring.give(next).unwrap();
        assert!(ring.take().is_none() && is_the_kernels(&ring, 1));
        ring.give(&mut middle[..0]).unwrap();
        assert!(ring.replace(Mapping::anonymous(3 * BLOCK).unwrap()).is_err(), "a part is lent");
    }

    #[test]
    fn blocks_come_in_turn_and_only_when_they_are_filled() {
        let mut mapping = Mapping::anonymous(3 * BLOCK).unwrap();
        let mut ring = Ring::new(&mut mapping, BLOCK);
        for turn in 0..10 {
            fill(&ring, turn % 3);
            let block = ring.take().unwrap();
            assert!(ring.take().is_none(), "the next one is not filled");
            // An empty part, where the block ends and perhaps the mapping too.
            let (block, empty) = block.split_at_mut(BLOCK);
            ring.give(empty).unwrap();
            ring.give(block).unwrap();
            assert!(ring.take().is_none() && is_the_kernels(&ring, turn % 3), "{turn}");
        }
        assert!(ring.replace(Mapping::anonymous(3 * BLOCK).unwrap()).is_ok());
    }

    #[test]
    fn what_is_of_no_block_is_not_taken() {
        let mut elsewhere = vec![0; 64];
        let mut mapping = Mapping::anonymous(BLOCK).unwrap();
        let mut ring = Ring::new(&mut mapping, BLOCK);
        assert_eq!(ring.give(&mut elsewhere).map_err(|part| part.len()), Err(64));
    }
}
