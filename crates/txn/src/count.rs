//! Counts that every worker adds to, each in its own place.

use std::sync::Arc;

use crate::domain::Domain;
use crate::log::EFFECTS;
use crate::memory::{Memory, Shape};
use crate::transaction::Transaction;

/// How much a worker may have added that is not committed: each addition is an effect.
const UNDER_WAY: i64 = EFFECTS as i64;

/// A sum of parts, one of each worker. To add to it is no change; it is read exactly only by who is
/// alone.
#[derive(Debug)]
pub struct Count {
    parts: Arc<Memory>,
}

impl Count {
    /// Zero.
    pub fn new(domain: &Domain) -> Self {
        let objects = domain.workers() as u32;
        Self { parts: domain.memory(Shape { objects, tracked: 0, deadlines: 1, apart: true }) }
    }

    /// Its parts, one for each worker.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.parts
    }

    /// Adds `n` when the transaction commits; wraps.
    #[inline(always)]
    pub fn add(&self, transaction: &Transaction, n: i64) {
        transaction.add(&self.parts, transaction.worker() as u32, 0, n as u64);
    }

    /// What has been committed.
    pub fn sum(&self) -> u64 {
        let parts = (0..self.parts.shape().objects).map(|part| self.parts.object(part).1.get(0));
        parts.fold(0, u64::wrapping_add)
    }

    /// What has been committed, exactly: nobody else may be adding. `None`: the transaction is
    /// doomed, and will be alone when it runs again.
    pub fn read(&self, transaction: &Transaction) -> Option<u64> {
        if !transaction.is_alone() {
            transaction.require_alone();
            return None;
        }
        Some(self.sum())
    }

    /// Whether there is room for one more below `most`; where it is not certain beside others, the
    /// transaction has to be alone.
    pub fn has_room(&self, transaction: &Transaction, most: u32) -> bool {
        // Below zero where an addition was missed and what took it back was not.
        let (sum, most) = (self.sum() as i64, i64::from(most));
        if transaction.is_alone() {
            return sum < most;
        }
        let certain = sum + UNDER_WAY * i64::from(self.parts.shape().objects) < most;
        if !certain {
            transaction.require_alone();
        }
        certain
    }
}
