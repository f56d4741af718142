//! Two transactions in one thread, step by step; many threads, and the order that they say they took;
//! the structures against plain ones; which way is found to be the faster.

mod anomalies;
mod history;
mod interleavings;
mod structures;
mod turns;

use std::sync::Arc;

use crate::{Domain, Memory, Shape, Transaction};

/// `objects` objects of one word.
#[cfg(not(loom))]
fn numbers(domain: &Domain, objects: u32) -> Arc<Memory> {
    domain.memory(Shape { objects, tracked: 1, deadlines: 0, apart: true })
}

impl Transaction {
    fn get(&self, memory: &Memory, object: u32) -> Option<u64> {
        self.read(memory, object, |words| words.get(0))
    }

    fn set(&self, memory: &Memory, object: u32, word: u64) {
        self.write(memory, object, |words| words.set(0, word));
    }
}
