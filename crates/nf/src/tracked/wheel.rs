//! When to look whether shared entries have come to their end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_txn::{Domain, Transaction};

use crate::state::wheel::{Tick, Wheel};

/// A timer wheel that is turned by who is alone. What is made beside others is noted with its commit,
/// and put under the wheel in that order, as one worker would have.
pub(super) struct SharedWheel {
    wheel: Mutex<Wheel>,
    list: u16,
}

impl SharedWheel {
    /// Of entries `0 .. len`.
    pub(super) fn new(domain: &Domain, len: u32) -> Self {
        Self { wheel: Mutex::new(Wheel::new(len)), list: domain.list() }
    }

    /// Looks at `entry` soon after `deadline`.
    pub(super) fn queue(&self, transaction: &Transaction, entry: u32, deadline: Tick) {
        transaction.note(self.list, entry, deadline);
    }

    /// The wheel, with all that was noted under it. For who is alone.
    pub(super) fn turn(&self, transaction: &Transaction) -> MutexGuard<'_, Wheel> {
        let mut wheel = self.wheel();
        for (entry, deadline) in transaction.domain().take_notes(self.list) {
            wheel.queue(entry, deadline);
        }
        wheel
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.wheel().bytes()
    }

    /// Nobody who holds it panics half way.
    fn wheel(&self) -> MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
