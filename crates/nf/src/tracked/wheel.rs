//! When to look whether shared entries have come to their end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_txn::{Domain, Transaction};

use crate::state::wheel::{Tick, Wheel};

/// A timer wheel that is turned by who is alone. Beside others, each worker notes what it has made,
/// for whoever is: that some of it was not committed after all does no harm, since an entry's deadline
/// stands in the entry.
pub(super) struct SharedWheel {
    wheel: Mutex<Wheel>,
    noted: Box<[Mutex<Noted>]>,
}

/// Entries, and when to look at them.
type Noted = Vec<(u32, Tick)>;

impl SharedWheel {
    /// Of entries `0 .. len`.
    pub(super) fn new(domain: &Domain, len: u32) -> Self {
        let noted = (0..domain.workers()).map(|_| Mutex::default()).collect();
        Self { wheel: Mutex::new(Wheel::new(len)), noted }
    }

    /// Looks at `entry` soon after `deadline`.
    pub(super) fn queue(&self, transaction: &Transaction, entry: u32, deadline: Tick) {
        if let Some(noted) = self.noted.get(transaction.worker()) {
            lock(noted).push((entry, deadline));
        }
    }

    /// The wheel, with all that was noted in it.
    pub(super) fn turn(&self) -> MutexGuard<'_, Wheel> {
        let mut wheel = lock(&self.wheel);
        for noted in &self.noted {
            lock(noted).drain(..).for_each(|(entry, deadline)| wheel.queue(entry, deadline));
        }
        wheel
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        lock(&self.wheel).bytes()
    }
}

/// Nobody who holds it panics half way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
