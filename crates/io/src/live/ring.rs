//! A receive ring shared with the kernel: slots that change hands, each with one packet.
//! This is why there is `unsafe` here: the kernel writes into the same memory.
//!
//! ```text
//!  kernel fills a slot ──status──▶ take(): &'m mut [u8] ──▶ frame
//!        ▲                                                   │
//!        └──status── before the next take() ◀──give()────────┘
//! ```
//!
//! **Invariant**: a slot is the kernel's again only when all of it was given back. A mutable slice cannot be
//! copied, so that nobody can hold a part of it then.

use super::system::Mapping;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring of slots in a mapping; the status stands first in each (`struct tpacket2_hdr`).
pub(super) struct Ring<'m> {
    mapping: &'m mut Mapping,
    slot_len: usize,
    /// Which slots are lent.
    lent: Vec<bool>,
    next: usize,
    /// Slots that are back, of which the kernel has not been told.
    back: Vec<usize>,
}

impl<'m> Ring<'m> {
    /// The slots of `slot_len` bytes in `mapping`, all the kernel's. `slot_len` is a power of two, and 2,048 at
    /// least, so that each status is aligned.
    pub(super) fn new(mapping: &'m mut Mapping, slot_len: usize) -> Self {
        debug_assert!(slot_len.is_power_of_two());
        let lent = vec![false; mapping.len() / slot_len.max(1)];
        let back = Vec::with_capacity(lent.len());
        Self { mapping, slot_len, lent, next: 0, back }
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: callers name slots that exist, so that the four bytes lie in the mapping, which
        // lives as long as `self`; they are aligned, and are touched by atomic operations only, here
        // and (for itself, over its own mapping) by the kernel.
        unsafe { AtomicU32::from_ptr(self.mapping.start().add(slot * self.slot_len).cast()) }
    }

    /// Hands slots that are back to the kernel. Apart from [`give`](Self::give), whose argument has the status in it.
    #[inline(always)]
    fn hand_back(&mut self) {
        while let Some(slot) = self.back.pop() {
            self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }

    /// Whether the kernel has filled the next slot.
    #[inline(always)]
    pub(super) fn is_filled(&self) -> bool {
        // A slot that is lent or only just back says that it is filled, too.
        self.lent.get(self.next) == Some(&false)
            && !self.back.contains(&self.next)
            && self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The next slot, when the kernel has filled it.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<&'m mut [u8]> {
        self.hand_back();
        let slot = self.next;
        if !self.is_filled() {
            return None;
        }
        if let Some(lent) = self.lent.get_mut(slot) {
            *lent = true;
        }
        self.next = if slot + 1 == self.lent.len() { 0 } else { slot + 1 };
        // SAFETY: the slot lies in the mapping, which is borrowed for 'm; it has just become ours, and
        // is lent once until all of it is back.
        Some(unsafe {
            let start = self.mapping.start().add(slot * self.slot_len);
            std::slice::from_raw_parts_mut(start, self.slot_len)
        })
    }

    /// Takes a slot back; `Err`: it is none. What is but a part of one is kept from the kernel.
    #[inline(always)]
    pub(super) fn give(&mut self, slot: &'m mut [u8]) -> Result<(), &'m mut [u8]> {
        let at = (slot.as_ptr() as usize).wrapping_sub(self.mapping.start() as usize);
        if at >= self.mapping.len() {
            return Err(slot);
        }
        if let (true, Some(lent)) =
            (slot.len() == self.slot_len, self.lent.get_mut(at >> self.slot_len.trailing_zeros()))
        {
            *lent = false;
            self.back.push(at >> self.slot_len.trailing_zeros());
        }
        Ok(())
    }

    /// Puts another mapping as long in the place of this one, if nothing is lent; else `Err`.
    pub(super) fn replace(&mut self, mapping: Mapping) -> Result<(), Mapping> {
        if self.lent.contains(&true) || mapping.len() != self.mapping.len() {
            return Err(mapping);
        }
        (self.next, *self.mapping) = (0, mapping);
        self.back.clear();
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SLOT: usize = 2_048;

    /// As the kernel does it.
    fn fill(ring: &Ring<'_>, slot: usize) {
        ring.status(slot).store(libc::TP_STATUS_USER, Ordering::Release);
    }

    fn is_the_kernels(ring: &Ring<'_>, slot: usize) -> bool {
        ring.status(slot).load(Ordering::Acquire) == libc::TP_STATUS_KERNEL
    }

    #[test]
    fn a_slot_goes_back_when_all_of_it_has() {
        let mut mapping = Mapping::anonymous(3 * SLOT).unwrap();
        let mut ring = Ring::new(&mut mapping, SLOT);
        assert!(ring.take().is_none());
        fill(&ring, 0);
        fill(&ring, 1);
        let (head, _held) = ring.take().unwrap().split_at_mut(100);
        let next = ring.take().unwrap();
        ring.give(head).unwrap();
        ring.give(next).unwrap();
        assert!(ring.take().is_none() && is_the_kernels(&ring, 1));
        assert!(!is_the_kernels(&ring, 0), "somebody holds a part of it");
        assert!(ring.replace(Mapping::anonymous(3 * SLOT).unwrap()).is_err(), "a part is lent");
    }

    #[test]
    fn slots_come_in_turn_and_only_when_they_are_filled() {
        let mut mapping = Mapping::anonymous(3 * SLOT).unwrap();
        let mut ring = Ring::new(&mut mapping, SLOT);
        for turn in 0..10 {
            fill(&ring, turn % 3);
            let slot = ring.take().unwrap();
            assert!(ring.take().is_none(), "the next one is not filled");
            assert_eq!(slot.len(), SLOT);
            ring.give(slot).unwrap();
            assert!(!ring.is_filled() && !is_the_kernels(&ring, turn % 3));
            assert!(ring.take().is_none() && is_the_kernels(&ring, turn % 3), "{turn}");
        }
        assert!(ring.replace(Mapping::anonymous(3 * SLOT).unwrap()).is_ok());
    }

    #[test]
    fn who_holds_one_slot_keeps_no_other_from_the_kernel() {
        let mut mapping = Mapping::anonymous(3 * SLOT).unwrap();
        let mut ring = Ring::new(&mut mapping, SLOT);
        (0..3).for_each(|slot| fill(&ring, slot));
        let held = ring.take().unwrap();
        for _ in 0..2 {
            let slot = ring.take().unwrap();
            ring.give(slot).unwrap();
        }
        // The next one is the one that is held, filled as it says.
        assert!(ring.take().is_none());
        assert!(is_the_kernels(&ring, 1) && is_the_kernels(&ring, 2));
        ring.give(held).unwrap();
        assert!(ring.take().is_none() && is_the_kernels(&ring, 0));
    }

    #[test]
    fn what_is_no_slot_is_not_taken() {
        let mut elsewhere = vec![0; 64];
        let mut mapping = Mapping::anonymous(SLOT * 2).unwrap();
        let mut ring = Ring::new(&mut mapping, SLOT);
        assert_eq!(ring.give(&mut elsewhere).map_err(|part| part.len()), Err(64));
    }
}
