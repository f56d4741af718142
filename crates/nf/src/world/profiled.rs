//! The Parallel world, watched: each operation says where the author wrote it, so that a profile can
//! name the two that were in each other's way.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;

use anabranch_packet::{Mode, Packet};
use anabranch_txn::Trail;

use super::{
    AllocatorOperations, CellOperations, CounterOperations, DistributedOperations, L3Operations,
    MapOperations, Owned, VectorOperations, World,
};
use crate::context::Context;
use crate::function::Occupancy;
use crate::key::{Key, Value};
use crate::state::TableUse;
use crate::tracked::causes::{Operation, Site};
use crate::tracked::{
    SharedAllocator, SharedCell, SharedCounter, SharedDistributed, SharedMap, SharedVector,
    Tracked, TrackedL3, with_words,
};
use crate::verdict::Verdict;

/// As [`Parallel`](super::Parallel), and each operation leaves a trace of itself.
pub enum Profiled {}

impl World for Profiled {
    const HOLLOW: bool = false;
    const SPECULATIVE: bool = true;
    const PROFILED: bool = true;
    type Fixed<S: 'static> = Owned<S>;
    type Map<K: Key, V: Value> = Watched<Tracked<SharedMap<K, V>>>;
    type Vector<T: Value> = Watched<Tracked<SharedVector<T>>>;
    type Allocator<T: Value> = Watched<Tracked<SharedAllocator<T>>>;
    type Distributed<T: Value> = Watched<Tracked<SharedDistributed<T>>>;
    type Cell<T: Value> = Watched<Tracked<SharedCell<T>>>;
    type Counter = Watched<Tracked<SharedCounter>>;
    type L3 = Watched<TrackedL3>;
}

/// A state object whose operations are noted.
pub struct Watched<O> {
    object: O,
    trail: Arc<Trail>,
    number: u16,
}

impl<O> Watched<O> {
    /// `object`, of this number in the profile, worked on by the worker of `trail`.
    pub fn new(object: O, trail: &Arc<Trail>, number: u16) -> Self {
        Self { object, trail: Arc::clone(trail), number }
    }

    /// The object.
    #[inline(always)]
    pub fn unwatched(&self) -> &O {
        &self.object
    }

    /// An operation about `key` begins at the line from which it was called.
    #[track_caller]
    #[inline]
    fn begin(&self, operation: Operation, key: &impl Value) {
        let line = Location::caller().line();
        let site = Site { operation, object: Some(self.number), line };
        with_words(key, |key| self.trail.enter(site.into(), key));
    }

    #[inline]
    fn end<R>(&self, done: R) -> R {
        self.trail.leave();
        done
    }
}

impl<O> Deref for Watched<O> {
    type Target = O;
    fn deref(&self) -> &O {
        &self.object
    }
}

impl<O> DerefMut for Watched<O> {
    fn deref_mut(&mut self) -> &mut O {
        &mut self.object
    }
}

impl<O: Occupancy> Occupancy for Watched<O> {
    fn table_use(&self, name: &str) -> TableUse {
        self.object.table_use(name)
    }
}

impl<K: Key, V: Value> MapOperations<K, V> for Watched<Tracked<SharedMap<K, V>>> {
    #[track_caller]
    fn get(&self, key: &K) -> Option<V> {
        self.begin(Operation::Get, key);
        self.end(self.object.get(key))
    }
    #[track_caller]
    fn contains(&self, key: &K) -> bool {
        self.begin(Operation::Contains, key);
        self.end(self.object.contains(key))
    }
    #[track_caller]
    fn insert(&mut self, key: K, value: V) -> bool {
        self.begin(Operation::Insert, &key);
        let stored = self.object.insert(key, value);
        self.end(stored)
    }
    #[track_caller]
    fn remove(&mut self, key: &K) -> Option<V> {
        self.begin(Operation::Remove, key);
        let removed = self.object.remove(key);
        self.end(removed)
    }
    #[track_caller]
    fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        self.begin(Operation::Update, key);
        let there = self.object.update(key, change);
        self.end(there)
    }
    #[track_caller]
    fn len(&self) -> u32 {
        self.begin(Operation::Len, &());
        self.end(self.object.len())
    }
}

impl<T: Value> VectorOperations<T> for Watched<Tracked<SharedVector<T>>> {
    #[track_caller]
    fn read(&self, index: u32) -> T {
        self.begin(Operation::Read, &index);
        self.end(self.object.read(index))
    }
    #[track_caller]
    fn write(&mut self, index: u32, value: T) {
        self.begin(Operation::Write, &index);
        self.object.write(index, value);
        self.end(());
    }
    #[track_caller]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        self.begin(Operation::Update, &index);
        self.object.update(index, change);
        self.end(());
    }
    fn len(&self) -> u32 {
        self.object.len()
    }
}

impl<T: Value> AllocatorOperations<T> for Watched<Tracked<SharedAllocator<T>>> {
    #[track_caller]
    fn allocate<W: World>(
        &mut self,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32> {
        self.begin(Operation::Allocate, &());
        let index = self.object.allocate(value, lifetime_ns, cx);
        self.given(index)
    }
    #[track_caller]
    fn allocate_at<W: World>(
        &mut self,
        index: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> bool {
        self.begin(Operation::AllocateAt, &index);
        let taken = self.object.allocate_at(index, value, lifetime_ns, cx);
        self.end(taken)
    }
    #[track_caller]
    fn allocate_within<W: World>(
        &mut self,
        first: u32,
        count: u32,
        step: u32,
        start: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32> {
        self.begin(Operation::AllocateWithin, &());
        let index = self.object.allocate_within(first, count, step, start, value, lifetime_ns, cx);
        self.given(index)
    }
    #[track_caller]
    fn free(&mut self, index: u32) -> bool {
        self.begin(Operation::Free, &index);
        let freed = self.object.free(index);
        self.end(freed)
    }
    #[track_caller]
    fn refresh<W: World>(&mut self, index: u32, lifetime_ns: u64, cx: &Context<'_, W>) -> bool {
        self.begin(Operation::Refresh, &index);
        let there = self.object.refresh(index, lifetime_ns, cx);
        self.end(there)
    }
    #[track_caller]
    fn touch<W: World>(&mut self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        self.begin(Operation::Touch, &index);
        let found = self.object.touch(index, cx);
        self.end(found)
    }
    #[track_caller]
    fn is_allocated<W: World>(&self, index: u32, cx: &Context<'_, W>) -> bool {
        self.begin(Operation::IsAllocated, &index);
        self.end(self.object.is_allocated(index, cx))
    }
    #[track_caller]
    fn get<W: World>(&self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        self.begin(Operation::Get, &index);
        self.end(self.object.get(index, cx))
    }
    #[track_caller]
    fn set(&mut self, index: u32, value: T) -> bool {
        self.begin(Operation::Set, &index);
        let there = self.object.set(index, value);
        self.end(there)
    }
    #[track_caller]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool {
        self.begin(Operation::Update, &index);
        let there = self.object.update(index, change);
        self.end(there)
    }
    #[track_caller]
    fn len(&self) -> u32 {
        self.begin(Operation::Len, &());
        self.end(self.object.len())
    }
}

impl<T: Value> Watched<Tracked<SharedAllocator<T>>> {
    /// The operation under way was about the index that it gave out.
    fn given(&self, index: Option<u32>) -> Option<u32> {
        match index {
            Some(index) => self.trail.leave_with(&[index.into()]),
            None => self.trail.leave(),
        }
        index
    }
}

impl<T: Value> DistributedOperations<T> for Watched<Tracked<SharedDistributed<T>>> {
    #[track_caller]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.begin(Operation::Update, &());
        self.object.update(change);
        self.end(());
    }
    #[track_caller]
    fn read(&self) -> T {
        self.begin(Operation::Read, &());
        self.end(self.object.read())
    }
}

impl<T: Value> CellOperations<T> for Watched<Tracked<SharedCell<T>>> {
    #[track_caller]
    fn get(&self) -> T {
        self.begin(Operation::Get, &());
        self.end(self.object.get())
    }
    #[track_caller]
    fn set(&mut self, value: T) {
        self.begin(Operation::Set, &());
        self.object.set(value);
        self.end(());
    }
    #[track_caller]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.begin(Operation::Update, &());
        self.object.update(change);
        self.end(());
    }
}

impl Watched<Tracked<SharedCounter>> {
    /// What has been counted and committed.
    pub fn read(&self) -> u64 {
        self.object.read()
    }
}

impl CounterOperations for Watched<Tracked<SharedCounter>> {
    #[inline]
    fn add(&mut self, n: u64) {
        self.object.add(n);
    }
    #[track_caller]
    fn read(&self) -> u64 {
        self.begin(Operation::Read, &());
        self.end(CounterOperations::read(&self.object))
    }
}

impl L3Operations for Watched<TrackedL3> {
    fn enabled(&self) -> bool {
        self.object.enabled()
    }
    fn admit<W: World, M: Mode>(
        &self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        self.object.admit(packet, cx)
    }
    fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        self.object.leads_nowhere(packet)
    }
    #[track_caller]
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        self.begin(Operation::Receive, &());
        let verdict = self.object.receive(packet, cx);
        self.end(verdict)
    }
    #[track_caller]
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        self.begin(Operation::Forward, &());
        let verdict = self.object.forward(packet, cx);
        self.end(verdict)
    }
}
