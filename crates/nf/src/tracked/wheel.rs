//! When to look whether shared entries have come to their end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_txn::{Memory, Transaction};

use crate::state::wheel::{Tick, Wheel};

/// A timer wheel that is turned by who is alone. What is made beside others is noted with its commit,
/// and put under the wheel in that order, as one worker would have.
pub(super) struct SharedWheel {
    wheel: Mutex<Wheel>,
    /// The memory that entries are noted for.
    memory: Arc<Memory>,
}

impl SharedWheel {
    /// Of entries `0 .. len` of a memory.
    pub(super) fn new(memory: &Arc<Memory>, len: u32) -> Self {
        Self { wheel: Mutex::new(Wheel::new(len)), memory: Arc::clone(memory) }
    }

    /// Looks at `entry` soon after `deadline`.
    pub(super) fn queue(&self, transaction: &Transaction, entry: u32, deadline: Tick) {
        transaction.note(&self.memory, entry, deadline);
    }

    /// The wheel, with all that was noted under it. For who is alone.
    pub(super) fn turn(&self, transaction: &Transaction) -> MutexGuard<'_, Wheel> {
        let mut wheel = self.wheel();
        let queue = |entry, deadline| wheel.queue(entry, deadline);
        transaction.domain().take_notes(&self.memory, queue);
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
