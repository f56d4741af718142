//! What a worker of the bench has: state as in a run, or as only a bench has it.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::TableUse;
use anabranch_packet::Frame;
use anabranch_runtime::instance::{Instance, Release};
use anabranch_runtime::worker::State;
use anabranch_txn::Counts;

/// State, and how it is come by.
pub enum Held<N: NetworkFunction> {
    /// As in a run.
    State(State<N>),
    /// The same, each packet a batch of its own.
    Singly(State<N>),
    /// The whole function behind a mutex, taken once a batch.
    Mutex(Arc<Mutex<Guarded<N>>>),
}

/// What the mutex guards.
pub struct Guarded<N: NetworkFunction> {
    instance: Instance<N>,
    /// No packet is handled at an earlier time any more.
    now_ns: u64,
}

impl<N: NetworkFunction> Held<N> {
    /// `instance` behind a mutex, for `workers` workers.
    pub fn behind_mutex(instance: Instance<N>, workers: usize) -> Vec<Self> {
        let guarded = Arc::new(Mutex::new(Guarded { instance, now_ns: 0 }));
        (0..workers).map(|_| Self::Mutex(Arc::clone(&guarded))).collect()
    }

    /// Handles a batch.
    #[inline(always)]
    pub fn handle(&mut self, batch: &mut [Frame<'_>], release: &mut impl Release) {
        match self {
            Self::State(state) => state.handle(batch, release),
            Self::Singly(state) => {
                batch.chunks_mut(1).for_each(|one| state.handle(one, release));
            }
            Self::Mutex(guarded) => {
                guarded.lock().unwrap_or_else(PoisonError::into_inner).handle(batch, release);
            }
        }
    }

    /// How transactions ended, where there are any.
    pub fn transactions(&self) -> Option<Counts> {
        match self {
            Self::State(state) | Self::Singly(state) => state.transactions(),
            Self::Mutex(_) => None,
        }
    }

    /// How full each state object is; nothing of what is behind a mutex.
    pub fn tables(&self) -> Vec<TableUse> {
        match self {
            Self::State(state) | Self::Singly(state) => state.tables(),
            Self::Mutex(_) => Vec::new(),
        }
    }
}

impl<N: NetworkFunction> Guarded<N> {
    fn handle(&mut self, batch: &mut [Frame<'_>], release: &mut impl Release) {
        for frame in &mut *batch {
            self.now_ns = self.now_ns.max(frame.meta().arrival_ns);
            frame.meta_mut().arrival_ns = self.now_ns;
        }
        self.instance.handle(batch, release);
    }
}
