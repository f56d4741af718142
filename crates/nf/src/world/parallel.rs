//! The world of workers that share what cannot be divided among them.

use super::{Owned, World};
use crate::key::{Key, Value};
use crate::tracked::{
    SharedAllocator, SharedCell, SharedCounter, SharedDistributed, SharedMap, SharedVector,
    Tracked, TrackedL3,
};

/// All state shared, worked on in transactions; see [`tracked`](crate::tracked).
pub enum Parallel {}

impl World for Parallel {
    const HOLLOW: bool = false;
    const SPECULATIVE: bool = true;
    type Fixed<S: 'static> = Owned<S>;
    type Map<K: Key, V: Value> = Tracked<SharedMap<K, V>>;
    type Vector<T: Value> = Tracked<SharedVector<T>>;
    type Allocator<T: Value> = Tracked<SharedAllocator<T>>;
    type Distributed<T: Value> = Tracked<SharedDistributed<T>>;
    type Cell<T: Value> = Tracked<SharedCell<T>>;
    type Counter = Tracked<SharedCounter>;
    type L3 = TrackedL3;
}
