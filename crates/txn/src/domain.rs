//! What all workers of a run share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crossbeam_utils::CachePadded;

use crate::memory::{Memory, Shape};
use crate::sync::{AtomicU64, Gate, Ordering};

/// Workers at most: as many as a version has room for.
pub const MOST_WORKERS: usize = 1 << 15;

/// The memories that transactions of one run work on, and how far each worker's commits have come.
///
/// There is no clock and no counter that all commits go through. A worker counts its own; whoever
/// begins looks at all counts, and has with them the state at that moment: an object that was
/// changed by a commit beyond them is not yet there for it.
#[derive(Debug)]
pub struct Domain {
    commits: Box<[CachePadded<AtomicU64>]>,
    made: Mutex<Vec<Arc<Memory>>>,
    memories: OnceLock<Box<[Arc<Memory>]>>,
    /// Held by all who are in a transaction; taken alone by who cannot commit beside others.
    pub(crate) gate: Gate<()>,
    /// The order of commits, where somebody wants to know it: it is a counter for all.
    order: Option<AtomicU64>,
}

impl Domain {
    /// For `workers` workers. `ordered`: each commit is told its place in the order of all.
    ///
    /// # Panics
    /// With no workers or more than [`MOST_WORKERS`].
    pub fn new(workers: usize, ordered: bool) -> Self {
        assert!((1..=MOST_WORKERS).contains(&workers), "{workers} workers");
        Self {
            commits: (0..workers).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            made: Mutex::default(),
            memories: OnceLock::new(),
            gate: Gate::new(()),
            order: ordered.then(|| AtomicU64::new(0)),
        }
    }

    /// Workers.
    pub fn workers(&self) -> usize {
        self.commits.len()
    }

    /// Makes objects.
    ///
    /// # Panics
    /// Once a transaction has begun, and with more memories than 65,536.
    pub fn memory(&self, shape: Shape) -> Arc<Memory> {
        assert!(self.memories.get().is_none(), "memory is made before transactions begin");
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u16::try_from(made.len()).expect("fewer than 65,536 objects of state");
        let memory = Arc::new(Memory::new(number, shape));
        made.push(Arc::clone(&memory));
        memory
    }

    #[inline(always)]
    pub(crate) fn memories(&self) -> &[Arc<Memory>] {
        self.memories.get_or_init(|| {
            self.made.lock().unwrap_or_else(PoisonError::into_inner).as_slice().into()
        })
    }

    /// How far each worker has come.
    #[inline(always)]
    pub(crate) fn commits(&self) -> impl Iterator<Item = u64> + '_ {
        // What a commit stored is seen by whoever sees its number.
        self.commits.iter().map(|count| count.load(Ordering::Acquire))
    }

    /// All that the worker's commit `number` changed has been stored.
    pub(crate) fn publish(&self, worker: usize, number: u64) {
        self.commits[worker].store(number, Ordering::Release);
    }

    /// The next place in the order of all commits.
    pub(crate) fn place(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.fetch_add(1, Ordering::SeqCst))
    }
}
