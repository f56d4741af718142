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
    by: Watching,
}

/// Who notes them, and which object it is.
struct Watching {
    trail: Arc<Trail>,
    number: u16,
}

impl<O> Watched<O> {
    /// `object`, of this number in the profile, worked on by the worker of `trail`.
    pub fn new(object: O, trail: &Arc<Trail>, number: u16) -> Self {
        Self { object, by: Watching { trail: Arc::clone(trail), number } }
    }

    /// The object.
    #[inline(always)]
    pub fn unwatched(&self) -> &O {
        &self.object
    }
}

impl Watching {
    /// An operation is done, was about `key`, and was asked at the line from which this is called.
    #[track_caller]
    #[inline(always)]
    fn done(&self, operation: Operation, key: &impl Value) {
        if self.trail.is_told_of() {
            self.note(operation, Location::caller(), key);
        }
    }

    /// The same of one that turned out to be about the index that it gave out.
    #[track_caller]
    #[inline]
    fn gave(&self, operation: Operation, index: Option<u32>) {
        match index {
            Some(index) => self.done(operation, &index),
            None => self.done(operation, &()),
        }
    }

    #[cold]
    #[inline(never)]
    fn note(&self, operation: Operation, at: &Location<'_>, key: &impl Value) {
        let site = Site { operation, object: Some(self.number), line: at.line() }.into();
        with_words(key, |key| self.trail.note(site, key));
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
    #[inline(always)]
    fn get(&self, key: &K) -> Option<V> {
        let done = self.object.get(key);
        self.by.done(Operation::Get, key);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn contains(&self, key: &K) -> bool {
        let done = self.object.contains(key);
        self.by.done(Operation::Contains, key);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn insert(&mut self, key: K, value: V) -> bool {
        let done = self.object.insert(key, value);
        self.by.done(Operation::Insert, &key);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Option<V> {
        let done = self.object.remove(key);
        self.by.done(Operation::Remove, key);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let done = self.object.update(key, change);
        self.by.done(Operation::Update, key);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn len(&self) -> u32 {
        let done = self.object.len();
        self.by.done(Operation::Len, &());
        done
    }
}

impl<T: Value> VectorOperations<T> for Watched<Tracked<SharedVector<T>>> {
    #[track_caller]
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        let done = self.object.read(index);
        self.by.done(Operation::Read, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn write(&mut self, index: u32, value: T) {
        self.object.write(index, value);
        self.by.done(Operation::Write, &index);
    }
    #[track_caller]
    #[inline(always)]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        self.object.update(index, change);
        self.by.done(Operation::Update, &index);
    }
    fn len(&self) -> u32 {
        self.object.len()
    }
}

impl<T: Value> AllocatorOperations<T> for Watched<Tracked<SharedAllocator<T>>> {
    #[track_caller]
    #[inline(always)]
    fn allocate<W: World>(
        &mut self,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32> {
        let index = self.object.allocate(value, lifetime_ns, cx);
        self.by.gave(Operation::Allocate, index);
        index
    }
    #[track_caller]
    #[inline(always)]
    fn allocate_at<W: World>(
        &mut self,
        index: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> bool {
        let taken = self.object.allocate_at(index, value, lifetime_ns, cx);
        self.by.done(Operation::AllocateAt, &index);
        taken
    }
    #[track_caller]
    #[inline(always)]
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
        let index = self.object.allocate_within(first, count, step, start, value, lifetime_ns, cx);
        self.by.gave(Operation::AllocateWithin, index);
        index
    }
    #[track_caller]
    #[inline(always)]
    fn free(&mut self, index: u32) -> bool {
        let done = self.object.free(index);
        self.by.done(Operation::Free, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn refresh<W: World>(&mut self, index: u32, lifetime_ns: u64, cx: &Context<'_, W>) -> bool {
        let done = self.object.refresh(index, lifetime_ns, cx);
        self.by.done(Operation::Refresh, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn touch<W: World>(&mut self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        let done = self.object.touch(index, cx);
        self.by.done(Operation::Touch, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn is_allocated<W: World>(&self, index: u32, cx: &Context<'_, W>) -> bool {
        let done = self.object.is_allocated(index, cx);
        self.by.done(Operation::IsAllocated, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn get<W: World>(&self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        let done = self.object.get(index, cx);
        self.by.done(Operation::Get, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn set(&mut self, index: u32, value: T) -> bool {
        let done = self.object.set(index, value);
        self.by.done(Operation::Set, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool {
        let done = self.object.update(index, change);
        self.by.done(Operation::Update, &index);
        done
    }
    #[track_caller]
    #[inline(always)]
    fn len(&self) -> u32 {
        let done = self.object.len();
        self.by.done(Operation::Len, &());
        done
    }
}

impl<T: Value> DistributedOperations<T> for Watched<Tracked<SharedDistributed<T>>> {
    #[track_caller]
    #[inline(always)]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.object.update(change);
        self.by.done(Operation::Update, &());
    }
    #[track_caller]
    #[inline(always)]
    fn read(&self) -> T {
        let done = self.object.read();
        self.by.done(Operation::Read, &());
        done
    }
}

impl<T: Value> CellOperations<T> for Watched<Tracked<SharedCell<T>>> {
    #[track_caller]
    #[inline(always)]
    fn get(&self) -> T {
        let done = self.object.get();
        self.by.done(Operation::Get, &());
        done
    }
    #[track_caller]
    #[inline(always)]
    fn set(&mut self, value: T) {
        self.object.set(value);
        self.by.done(Operation::Set, &());
    }
    #[track_caller]
    #[inline(always)]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.object.update(change);
        self.by.done(Operation::Update, &());
    }
}

impl Watched<Tracked<SharedCounter>> {
    /// What has been counted and committed.
    pub fn read(&self) -> u64 {
        self.object.read()
    }
}

impl CounterOperations for Watched<Tracked<SharedCounter>> {
    #[track_caller]
    #[inline(always)]
    fn add(&mut self, n: u64) {
        self.object.add(n);
        self.by.done(Operation::Add, &());
    }
    #[track_caller]
    #[inline(always)]
    fn read(&self) -> u64 {
        let done = CounterOperations::read(&self.object);
        self.by.done(Operation::Read, &());
        done
    }
}

impl L3Operations for Watched<TrackedL3> {
    fn enabled(&self) -> bool {
        self.object.enabled()
    }
    fn admit<W: World, M: Mode>(
        &self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        self.object.admit(packet, cx)
    }
    fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        self.object.leads_nowhere(packet)
    }
    #[track_caller]
    #[inline(always)]
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        let done = self.object.receive(packet, cx);
        self.by.done(Operation::Receive, &());
        done
    }
    #[track_caller]
    #[inline(always)]
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let done = self.object.forward(packet, cx);
        self.by.done(Operation::Forward, &());
        done
    }
    fn follow_up<W: World>(&mut self, cx: &mut Context<'_, W>) {
        self.object.follow_up(cx);
    }
}
