//! Two transactions in one thread, step by step; many threads, and the order that they say they took;
//! the structures against plain ones; which way is found to be the faster.

mod anomalies;
mod history;
mod interleavings;
mod structures;
mod turns;

use std::sync::Arc;

use crate::{Domain, Memory, Shape, Transaction};

/// Runs what threads do in every interleaving, in some that a model checker draws, or as it happens.
pub(crate) fn model(run: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(run);
    }
    #[cfg(shuttle)]
    shuttle::check_random(run, 1_000);
    #[cfg(not(any(loom, shuttle)))]
    (0..if cfg!(miri) { 10 } else { 200 }).for_each(|_| run());
}

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
