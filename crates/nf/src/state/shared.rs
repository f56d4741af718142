//! The few numbers in state objects that several workers change at once under the lock strategy:
//! when an entry ends, and counts. Everything else has one owner, or does not change.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::state::wheel::Tick;

/// The tick at which an entry ends; 0: there is no entry.
///
/// Whoever owns the entry reads and writes it as a plain number. Workers that share it may *extend*
/// it while others read: of all extensions the latest counts, so that an entry has ended only when it
/// has for every worker. A tick is 1.05 ms long and an extension within the same tick changes
/// nothing, so that an entry's line is written at most once a tick however many packets refresh it:
/// rarely enough that a list of ages per worker, which every collection would have to go through,
/// would gain nothing.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Deadline(AtomicU32);

impl Deadline {
    /// Ends at `tick`.
    #[inline(always)]
    pub fn new(tick: Tick) -> Self {
        Self(AtomicU32::new(tick))
    }

    /// When it ends.
    #[inline(always)]
    pub fn tick(&self) -> Tick {
        // Nothing else is published with it: values change only where nobody reads.
        self.0.load(Ordering::Relaxed)
    }

    /// The number, to be written.
    #[inline(always)]
    pub fn tick_mut(&mut self) -> &mut Tick {
        self.0.get_mut()
    }

    /// Ends at `tick`, unless it ends later anyway.
    #[inline(always)]
    pub fn extend(&self, tick: Tick) {
        self.0.fetch_max(tick, Ordering::Relaxed);
    }
}

/// A count that one worker adds to and others may read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`; wraps after 2^64.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        // No two add at once, so that it takes no exclusive access.
        self.0.store(self.read().wrapping_add(n), Ordering::Relaxed);
    }

    /// The count.
    #[inline(always)]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_extensions_the_latest_counts() {
        let mut deadline = Deadline::new(10);
        std::thread::scope(|threads| {
            for ends in [12, 40, 11, 3] {
                let deadline = &deadline;
                threads.spawn(move || deadline.extend(ends));
            }
        });
        assert_eq!((deadline.tick(), *deadline.tick_mut()), (40, 40));
    }
}
