//! The worlds: what the state objects are when the same source runs for different purposes.
//!
//! | world | state objects | purpose |
//! |---|---|---|
//! | [`Solo`] | plain owned structures | running, on one core or as one shard's owner |
//! | [`Prefetch`] | hollow: an access computes its hash and fetches its line; reads return nothing | a pass over the batch before the handlers run |
//! | [`Peek`] | maps are read, everything behind an index is fetched | a second pass, for lines whose index stands in the first |
//! | [`Speculative`] | shared: reads are real, the first write makes everything hollow | running beside other workers, under a lock that only writers take alone |
//! | [`Parallel`] | shared: worked on in transactions | running beside other workers, on state that cannot be divided |
//! | [`Profiled`] | the same, each operation noted | telling why transactions are given up |
//! | [`Traced`] | owned: each tells what is asked of it | telling which call path a packet takes |
//!
//! Prefetch and Peek are hints. The real run computes its own keys; a wrong guess costs time, never
//! correctness. Whatever has no effect in a hollow world the compiler removes.

mod parallel;
mod profiled;
mod speculative;
mod traced;

pub use parallel::Parallel;
pub use profiled::{Profiled, Watched};
pub use speculative::{Shared, Speculation, Speculative};
pub use traced::{Told, Traced};

use std::marker::PhantomData;
use std::ops::Deref;

use anabranch_packet::{Mode, Packet};

use crate::context::Context;
use crate::key::{Key, Value};
use crate::l3::L3;
use crate::state::{Allocator, Cell, Counter, Distributed, Map, Vector, Within};
use crate::tracked::{
    SharedAllocator, SharedCell, SharedCounter, SharedDistributed, SharedMap, SharedVector,
    Tracked, TrackedL3,
};
use crate::verdict::{Builtin, Drop, Verdict};

/// A world: one choice of every state object. `#[network_function]` makes the NF generic over it.
pub trait World: Sized {
    /// Nothing has an effect here.
    const HOLLOW: bool;
    /// Other workers may be at work on the same state: what is to be written must be asked for.
    const SPECULATIVE: bool = false;
    /// What handlers do is noted in the [trace](crate::trace).
    const TRACED: bool = false;
    /// What needs to be alone says where the author wrote it.
    const PROFILED: bool = false;
    /// The settings.
    type Fixed<S: 'static>: Deref<Target = S>;
    /// `Map<K, V>`.
    type Map<K: Key, V: Value>: MapOperations<K, V>;
    /// `Vector<T>`.
    type Vector<T: Value>: VectorOperations<T>;
    /// `Allocator<T>`.
    type Allocator<T: Value>: AllocatorOperations<T>;
    /// `Distributed<T>`.
    type Distributed<T: Value>: DistributedOperations<T>;
    /// `Cell<T>`.
    type Cell<T: Value>: CellOperations<T>;
    /// `Counter`.
    type Counter: CounterOperations;
    /// `L3`.
    type L3: L3Operations;
}

/// From keys to values.
#[allow(clippy::len_without_is_empty)]
pub trait MapOperations<K: Key, V: Value> {
    /// The value under `key`.
    fn get(&self, key: &K) -> Option<V>;
    /// Whether there is one.
    fn contains(&self, key: &K) -> bool;
    /// Stores `value` under `key`, in place of what was there; false: the map is full.
    fn insert(&mut self, key: K, value: V) -> bool;
    /// Removes what is under `key`, and returns it.
    fn remove(&mut self, key: &K) -> Option<V>;
    /// Changes the value in place; false: there is none.
    fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool;
    /// Entries stored.
    fn len(&self) -> u32;
}

/// Values by index.
#[allow(clippy::len_without_is_empty)]
pub trait VectorOperations<T: Value> {
    /// Element `index`; zero past the end.
    fn read(&self, index: u32) -> T;
    /// Sets element `index`; nothing past the end.
    fn write(&mut self, index: u32, value: T);
    /// Changes element `index` in place; nothing past the end.
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T));
    /// Elements.
    fn len(&self) -> u32;
}

/// Objects with a lifetime, by index. Lifetimes are in nanoseconds, from now.
#[allow(clippy::len_without_is_empty)]
pub trait AllocatorOperations<T: Value> {
    /// Takes any free index; `None`: there is none.
    fn allocate<W: World>(
        &mut self,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32>;
    /// Takes `index`; false: it is in use.
    fn allocate_at<W: World>(
        &mut self,
        index: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> bool;
    /// Takes the first free index at or after `start`, in steps of `step` (1 or 2), wrapping round
    /// within `first .. first + count`.
    #[allow(clippy::too_many_arguments)]
    fn allocate_within<W: World>(
        &mut self,
        first: u32,
        count: u32,
        step: u32,
        start: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32>;
    /// Gives `index` back; false: it was free.
    fn free(&mut self, index: u32) -> bool;
    /// Restarts the object's lifetime; false: it does not exist.
    fn refresh<W: World>(&mut self, index: u32, lifetime_ns: u64, cx: &Context<'_, W>) -> bool;
    /// The object's value, its lifetime restarted as it was last given; `None`: it does not exist.
    fn touch<W: World>(&mut self, index: u32, cx: &Context<'_, W>) -> Option<T>;
    /// Whether the object exists.
    fn is_allocated<W: World>(&self, index: u32, cx: &Context<'_, W>) -> bool;
    /// The object's value.
    fn get<W: World>(&self, index: u32, cx: &Context<'_, W>) -> Option<T>;
    /// Replaces the value; false: the object is free.
    fn set(&mut self, index: u32, value: T) -> bool;
    /// Changes the value in place; false: the object is free.
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool;
    /// Objects handed out.
    fn len(&self) -> u32;
}

/// A value in parts, merged when read.
pub trait DistributedOperations<T: Value> {
    /// Changes this core's part.
    fn update(&mut self, change: impl FnOnce(&mut T));
    /// The parts merged, at most the declared staleness old.
    fn read(&self) -> T;
}

/// One value.
pub trait CellOperations<T: Value> {
    /// A copy of it.
    fn get(&self) -> T;
    /// Replaces it.
    fn set(&mut self, value: T);
    /// Changes it in place.
    fn update(&mut self, change: impl FnOnce(&mut T));
}

/// A count.
pub trait CounterOperations {
    /// Adds `n`.
    fn add(&mut self, n: u64);
    /// The count.
    fn read(&self) -> u64;
}

/// Routing; see [`L3`].
pub trait L3Operations {
    /// Whether the operator configured interfaces.
    fn enabled(&self) -> bool;
    /// Refuses what is not for this station; `None`: the packet may be handled.
    fn admit<W: World, M: Mode>(
        &self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict>;
    /// Whether the packet's destination is behind the port that it came by, or our own address there.
    fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool;
    /// Answers what is addressed to the function itself; `None`: the packet is to be forwarded.
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict>;
    /// Routes the packet.
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict;
    /// Does what is due without a packet, where nobody else is at work on the same state.
    fn follow_up<W: World>(&mut self, _: &mut Context<'_, W>) {}
}

/// Plain owned state: the world that runs.
pub enum Solo {}

impl World for Solo {
    const HOLLOW: bool = false;
    type Fixed<S: 'static> = Owned<S>;
    type Map<K: Key, V: Value> = Map<K, V>;
    type Vector<T: Value> = Vector<T>;
    type Allocator<T: Value> = Allocator<T>;
    type Distributed<T: Value> = Distributed<T>;
    type Cell<T: Value> = Cell<T>;
    type Counter = Counter;
    type L3 = L3;
}

/// Hollow state over the real one: the first pass.
pub struct Prefetch<'a>(PhantomData<&'a ()>);

impl<'a> World for Prefetch<'a> {
    const HOLLOW: bool = true;
    type Fixed<S: 'static> = &'a S;
    type Map<K: Key, V: Value> = Fetched<'a, Map<K, V>>;
    type Vector<T: Value> = Fetched<'a, Vector<T>>;
    type Allocator<T: Value> = Fetched<'a, Allocator<T>>;
    type Distributed<T: Value> = Fetched<'a, Distributed<T>>;
    type Cell<T: Value> = Fetched<'a, Cell<T>>;
    type Counter = Fetched<'a, Counter>;
    type L3 = Fetched<'a, L3>;
}

/// Maps that answer, everything else hollow: the second pass.
pub struct Peek<'a>(PhantomData<&'a ()>);

impl<'a> World for Peek<'a> {
    const HOLLOW: bool = true;
    type Fixed<S: 'static> = &'a S;
    type Map<K: Key, V: Value> = Peeked<'a, Map<K, V>>;
    type Vector<T: Value> = Fetched<'a, Vector<T>>;
    type Allocator<T: Value> = Fetched<'a, Allocator<T>>;
    type Distributed<T: Value> = Fetched<'a, Distributed<T>>;
    type Cell<T: Value> = Fetched<'a, Cell<T>>;
    type Counter = Fetched<'a, Counter>;
    type L3 = Fetched<'a, L3>;
}

/// Hollow state over that of all workers: the first pass in the [`Parallel`] world.
pub struct Ahead<'a>(PhantomData<&'a ()>);

impl<'a> World for Ahead<'a> {
    const HOLLOW: bool = true;
    type Fixed<S: 'static> = &'a S;
    type Map<K: Key, V: Value> = Fetched<'a, Tracked<SharedMap<K, V>>>;
    type Vector<T: Value> = Fetched<'a, Tracked<SharedVector<T>>>;
    type Allocator<T: Value> = Fetched<'a, Tracked<SharedAllocator<T>>>;
    type Distributed<T: Value> = Fetched<'a, Tracked<SharedDistributed<T>>>;
    type Cell<T: Value> = Fetched<'a, Tracked<SharedCell<T>>>;
    type Counter = Fetched<'a, Tracked<SharedCounter>>;
    type L3 = Fetched<'a, TrackedL3>;
}

/// Maps of all workers that answer, everything else hollow: the second pass in the [`Parallel`] world.
pub struct Beyond<'a>(PhantomData<&'a ()>);

impl<'a> World for Beyond<'a> {
    const HOLLOW: bool = true;
    type Fixed<S: 'static> = &'a S;
    type Map<K: Key, V: Value> = Peeked<'a, Tracked<SharedMap<K, V>>>;
    type Vector<T: Value> = Fetched<'a, Tracked<SharedVector<T>>>;
    type Allocator<T: Value> = Fetched<'a, Tracked<SharedAllocator<T>>>;
    type Distributed<T: Value> = Fetched<'a, Tracked<SharedDistributed<T>>>;
    type Cell<T: Value> = Fetched<'a, Tracked<SharedCell<T>>>;
    type Counter = Fetched<'a, Tracked<SharedCounter>>;
    type L3 = Fetched<'a, TrackedL3>;
}

/// What the hollow passes ask of a map.
pub trait FetchKey<K> {
    /// Fetches the line where `key` would lie.
    fn fetch(&self, key: &K);
}

/// What the second pass asks of a map.
pub trait PeekKey<K, V> {
    /// The value under `key`, as far as a look tells.
    fn peek(&self, key: &K) -> Option<V>;
    /// Entries, about.
    fn entries(&self) -> u32;
}

/// What the hollow passes ask of elements and objects.
pub trait FetchIndex {
    /// Fetches the line of `index`.
    fn fetch(&self, index: u32);
    /// Elements, where their number does not change.
    fn elements(&self) -> u32;
}

/// What the hollow passes ask of values.
pub trait Glance<T> {
    /// The value, or zero where it takes more than a look.
    fn glance(&self) -> T;
}

impl<K: Key, V: Value> FetchKey<K> for Map<K, V> {
    #[inline(always)]
    fn fetch(&self, key: &K) {
        self.prefetch(key);
    }
}

impl<K: Key, V: Value> PeekKey<K, V> for Map<K, V> {
    #[inline(always)]
    fn peek(&self, key: &K) -> Option<V> {
        self.get(key)
    }
    #[inline(always)]
    fn entries(&self) -> u32 {
        self.len()
    }
}

impl<T: Value> FetchIndex for Vector<T> {
    #[inline(always)]
    fn fetch(&self, index: u32) {
        self.prefetch(index);
    }
    #[inline(always)]
    fn elements(&self) -> u32 {
        self.len()
    }
}

impl<T: Value> FetchIndex for Allocator<T> {
    #[inline(always)]
    fn fetch(&self, index: u32) {
        self.prefetch(index);
    }
    #[inline(always)]
    fn elements(&self) -> u32 {
        self.len()
    }
}

impl<T: Value> Glance<T> for Distributed<T> {
    #[inline(always)]
    fn glance(&self) -> T {
        self.read()
    }
}

impl<T: Value> Glance<T> for Cell<T> {
    #[inline(always)]
    fn glance(&self) -> T {
        self.get()
    }
}

/// Whether it is enabled.
impl Glance<bool> for L3 {
    #[inline(always)]
    fn glance(&self) -> bool {
        self.enabled()
    }
}

impl Glance<u64> for Counter {
    #[inline(always)]
    fn glance(&self) -> u64 {
        self.read()
    }
}

/// Settings held by value.
#[derive(Clone, Debug)]
pub struct Owned<S>(pub S);

impl<S> Deref for Owned<S> {
    type Target = S;
    #[inline(always)]
    fn deref(&self) -> &S {
        &self.0
    }
}

/// A state object whose accesses only fetch lines.
pub struct Fetched<'a, T>(pub &'a T);

/// A map that is read but not written.
pub struct Peeked<'a, T>(pub &'a T);

impl<K: Key, V: Value> MapOperations<K, V> for Map<K, V> {
    #[inline(always)]
    fn get(&self, key: &K) -> Option<V> {
        self.get(key)
    }
    #[inline(always)]
    fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }
    #[inline(always)]
    fn insert(&mut self, key: K, value: V) -> bool {
        self.insert(key, value)
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Option<V> {
        self.remove(key)
    }
    #[inline(always)]
    fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        self.update(key, change)
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len()
    }
}

impl<K: Key, V: Value, M: FetchKey<K>> MapOperations<K, V> for Fetched<'_, M> {
    #[inline(always)]
    fn get(&self, key: &K) -> Option<V> {
        self.0.fetch(key);
        None
    }
    #[inline(always)]
    fn contains(&self, key: &K) -> bool {
        self.0.fetch(key);
        false
    }
    #[inline(always)]
    fn insert(&mut self, key: K, _: V) -> bool {
        self.0.fetch(&key);
        false
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Option<V> {
        self.0.fetch(key);
        None
    }
    #[inline(always)]
    fn update(&mut self, key: &K, _: impl FnOnce(&mut V)) -> bool {
        self.0.fetch(key);
        false
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        0
    }
}

impl<K: Key, V: Value, M: PeekKey<K, V>> MapOperations<K, V> for Peeked<'_, M> {
    #[inline(always)]
    fn get(&self, key: &K) -> Option<V> {
        self.0.peek(key)
    }
    #[inline(always)]
    fn contains(&self, key: &K) -> bool {
        self.0.peek(key).is_some()
    }
    #[inline(always)]
    fn insert(&mut self, _: K, _: V) -> bool {
        false
    }
    #[inline(always)]
    fn remove(&mut self, _: &K) -> Option<V> {
        None
    }
    #[inline(always)]
    fn update(&mut self, key: &K, _: impl FnOnce(&mut V)) -> bool {
        self.0.peek(key).is_some()
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.0.entries()
    }
}

impl<T: Value> VectorOperations<T> for Vector<T> {
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        self.read(index)
    }
    #[inline(always)]
    fn write(&mut self, index: u32, value: T) {
        self.write(index, value);
    }
    #[inline(always)]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        self.update(index, change);
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len()
    }
}

impl<T: Value, O: FetchIndex> VectorOperations<T> for Fetched<'_, O> {
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        self.0.fetch(index);
        T::zero()
    }
    #[inline(always)]
    fn write(&mut self, index: u32, _: T) {
        self.0.fetch(index);
    }
    #[inline(always)]
    fn update(&mut self, index: u32, _: impl FnOnce(&mut T)) {
        self.0.fetch(index);
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.0.elements()
    }
}

impl<T: Value> AllocatorOperations<T> for Allocator<T> {
    #[inline(always)]
    fn allocate<W: World>(
        &mut self,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32> {
        self.allocate(value, lifetime_ns, cx.environment())
    }
    #[inline(always)]
    fn allocate_at<W: World>(
        &mut self,
        index: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> bool {
        self.allocate_at(index, value, lifetime_ns, cx.environment())
    }
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
        let within = Within { first, count, step, start };
        self.allocate_within(within, value, lifetime_ns, cx.environment())
    }
    #[inline(always)]
    fn free(&mut self, index: u32) -> bool {
        self.free(index)
    }
    #[inline(always)]
    fn refresh<W: World>(&mut self, index: u32, lifetime_ns: u64, cx: &Context<'_, W>) -> bool {
        self.refresh(index, lifetime_ns, cx.environment())
    }
    #[inline(always)]
    fn touch<W: World>(&mut self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        self.touch(index, cx.environment())
    }
    #[inline(always)]
    fn is_allocated<W: World>(&self, index: u32, cx: &Context<'_, W>) -> bool {
        self.is_allocated(index, cx.environment())
    }
    #[inline(always)]
    fn get<W: World>(&self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        self.get(index, cx.environment())
    }
    #[inline(always)]
    fn set(&mut self, index: u32, value: T) -> bool {
        self.set(index, value)
    }
    #[inline(always)]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool {
        self.update(index, change)
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len()
    }
}

impl<T: Value, O: FetchIndex> AllocatorOperations<T> for Fetched<'_, O> {
    #[inline(always)]
    fn allocate<W: World>(&mut self, _: T, _: u64, _: &Context<'_, W>) -> Option<u32> {
        None
    }
    #[inline(always)]
    fn allocate_at<W: World>(&mut self, index: u32, _: T, _: u64, _: &Context<'_, W>) -> bool {
        self.0.fetch(index);
        false
    }
    #[inline(always)]
    fn allocate_within<W: World>(
        &mut self,
        _: u32,
        _: u32,
        _: u32,
        _: u32,
        _: T,
        _: u64,
        _: &Context<'_, W>,
    ) -> Option<u32> {
        None
    }
    #[inline(always)]
    fn free(&mut self, index: u32) -> bool {
        self.0.fetch(index);
        false
    }
    #[inline(always)]
    fn refresh<W: World>(&mut self, index: u32, _: u64, _: &Context<'_, W>) -> bool {
        self.0.fetch(index);
        false
    }
    #[inline(always)]
    fn touch<W: World>(&mut self, index: u32, _: &Context<'_, W>) -> Option<T> {
        self.0.fetch(index);
        None
    }
    #[inline(always)]
    fn is_allocated<W: World>(&self, index: u32, _: &Context<'_, W>) -> bool {
        self.0.fetch(index);
        false
    }
    #[inline(always)]
    fn get<W: World>(&self, index: u32, _: &Context<'_, W>) -> Option<T> {
        self.0.fetch(index);
        None
    }
    #[inline(always)]
    fn set(&mut self, index: u32, _: T) -> bool {
        self.0.fetch(index);
        false
    }
    #[inline(always)]
    fn update(&mut self, index: u32, _: impl FnOnce(&mut T)) -> bool {
        self.0.fetch(index);
        false
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.0.elements()
    }
}

impl<T: Value> DistributedOperations<T> for Distributed<T> {
    #[inline(always)]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.update(change);
    }
    #[inline(always)]
    fn read(&self) -> T {
        self.read()
    }
}

impl<T: Value, O: Glance<T>> DistributedOperations<T> for Fetched<'_, O> {
    #[inline(always)]
    fn update(&mut self, _: impl FnOnce(&mut T)) {}
    #[inline(always)]
    fn read(&self) -> T {
        self.0.glance()
    }
}

impl<T: Value> CellOperations<T> for Cell<T> {
    #[inline(always)]
    fn get(&self) -> T {
        self.get()
    }
    #[inline(always)]
    fn set(&mut self, value: T) {
        self.set(value);
    }
    #[inline(always)]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.update(change);
    }
}

impl<T: Value, O: Glance<T>> CellOperations<T> for Fetched<'_, O> {
    #[inline(always)]
    fn get(&self) -> T {
        self.0.glance()
    }
    #[inline(always)]
    fn set(&mut self, _: T) {}
    #[inline(always)]
    fn update(&mut self, _: impl FnOnce(&mut T)) {}
}

impl CounterOperations for Counter {
    #[inline(always)]
    fn add(&mut self, n: u64) {
        self.add(n);
    }
    #[inline(always)]
    fn read(&self) -> u64 {
        self.read()
    }
}

impl<O: Glance<u64>> CounterOperations for Fetched<'_, O> {
    #[inline(always)]
    fn add(&mut self, _: u64) {}
    #[inline(always)]
    fn read(&self) -> u64 {
        self.0.glance()
    }
}

impl L3Operations for L3 {
    #[inline(always)]
    fn enabled(&self) -> bool {
        self.enabled()
    }
    #[inline]
    fn admit<W: World, M: Mode>(
        &self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        self.admit(packet, cx)
    }
    #[inline]
    fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        self.leads_nowhere(packet)
    }
    #[inline]
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        self.receive(packet, cx)
    }
    #[inline]
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        self.forward(packet, cx)
    }
    fn follow_up<W: World>(&mut self, cx: &mut Context<'_, W>) {
        self.follow_up(cx);
    }
}

impl<O: Glance<bool>> L3Operations for Fetched<'_, O> {
    #[inline(always)]
    fn enabled(&self) -> bool {
        self.0.glance()
    }
    #[inline(always)]
    fn admit<W: World, M: Mode>(
        &self,
        _: &mut Packet<'_, M>,
        _: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        None
    }
    #[inline(always)]
    fn leads_nowhere<M: Mode>(&self, _: &Packet<'_, M>) -> bool {
        false
    }
    #[inline(always)]
    fn receive<W: World, M: Mode>(
        &mut self,
        _: &mut Packet<'_, M>,
        _: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        None
    }
    #[inline(always)]
    fn forward<W: World, M: Mode>(
        &mut self,
        _: &mut Packet<'_, M>,
        _: &mut Context<'_, W>,
    ) -> Verdict {
        Drop(Builtin::NoRoute)
    }
}
