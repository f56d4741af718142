//! The world of a packet that is presumed to write nothing, and runs beside others on the same state.
//!
//! ```text
//!             reads are real                    writes: none ──▶ commit: what was put off is put off,
//! handler ──▶ refreshes and counts are noted ──┤                          what was counted is added
//!                                               └ one ──▶ the rest of the handler is hollow, all is
//!                                                         dropped, the packet runs again alone
//! ```
//!
//! What several such packets do at once is what one after the other would do, in the order of their
//! times:
//!
//! - What can be read changes only while nobody runs speculatively, but for deadlines, and those
//!   only move on. An entry that is over but not yet collected is therefore *not* taken for gone: a
//!   packet of an earlier time may be just about to refresh it. Whoever meets one runs again alone,
//!   when every refresh has taken place.
//! - Only a refresh by the lifetime that the entry has anyway is noted. Another one is a write, since
//!   it would matter which of two comes last.
//! - Storing what is there already is no write.

use std::cell::Cell as Slot;
use std::marker::PhantomData;

use anabranch_packet::{Mode, Packet};

use super::{
    AllocatorOperations, CellOperations, CounterOperations, DistributedOperations, L3Operations,
    MapOperations, VectorOperations, World,
};
use crate::context::{Context, to_ticks};
use crate::key::{Key, Value};
use crate::l3::L3;
use crate::state::journal::Refreshing;
use crate::state::wheel::Tick;
use crate::state::{Allocator, Cell, Count, Counter, Deadline, Distributed, Kept, Map, Vector};
use crate::verdict::{Builtin, Drop, Verdict};

/// Refreshes and counts of one packet; with more it becomes a writer.
const NOTES: usize = 16;

/// What a speculative packet does when it has come to its end without a write.
#[derive(Clone, Copy)]
enum Note<'a> {
    Refresh(&'a Deadline, Tick, Option<Refreshing<'a>>),
    Count(&'a Count, u64),
}

/// One packet's speculation at a time, over state borrowed for `'a`.
pub struct Speculation<'a> {
    writes: Slot<bool>,
    notes: [Slot<Option<Note<'a>>>; NOTES],
    noted: Slot<usize>,
    worker: usize,
}

impl<'a> Speculation<'a> {
    /// Of worker `worker`.
    pub fn new(worker: usize) -> Self {
        let notes = std::array::from_fn(|_| Slot::new(None));
        Self { writes: Slot::new(false), notes, noted: Slot::new(0), worker }
    }

    /// Whether the packet would write.
    #[inline(always)]
    pub fn writes(&self) -> bool {
        self.writes.get()
    }

    /// The packet would write: it has to run again, alone.
    #[inline(always)]
    pub fn write(&self) {
        self.writes.set(true);
    }

    /// Notes that an entry whose lifetime is `lifetime` is refreshed at `now`; false: it is over.
    /// `noted`: where that is noted for a store.
    #[inline(always)]
    pub fn refresh(
        &self,
        deadline: &'a Deadline,
        lifetime: u32,
        now: Tick,
        noted: impl FnOnce() -> Option<Refreshing<'a>>,
    ) -> bool {
        let (ends, wanted) = (deadline.tick(), now.saturating_add(lifetime));
        if ends <= now {
            self.write();
            return false;
        }
        if wanted > ends {
            self.note(Note::Refresh(deadline, wanted, noted()));
        }
        true
    }

    #[inline]
    fn note(&self, note: Note<'a>) {
        match self.notes.get(self.noted.get()) {
            Some(place) => {
                place.set(Some(note));
                self.noted.set(self.noted.get() + 1);
            }
            None => self.write(),
        }
    }

    /// The packet has come to its end without a write: does what was noted.
    #[inline(always)]
    pub fn commit(&self) {
        let noted = self.noted.replace(0);
        for place in self.notes.iter().take(noted) {
            match place.get() {
                Some(Note::Refresh(deadline, tick, noted)) => {
                    deadline.extend(tick);
                    if let Some(noted) = noted {
                        noted.note();
                    }
                }
                Some(Note::Count(part, n)) => part.add(n),
                None => {}
            }
        }
    }
}

/// State shared for `'a`, worked on by one packet for `'s`.
pub struct Speculative<'a, 's>(PhantomData<(&'a (), &'s ())>);

impl<'a: 's, 's> World for Speculative<'a, 's> {
    const HOLLOW: bool = false;
    const SPECULATIVE: bool = true;
    type Fixed<S: 'static> = &'a S;
    type Map<K: Key, V: Value> = Shared<'a, 's, Map<K, V>>;
    type Vector<T: Value> = Shared<'a, 's, Vector<T>>;
    type Allocator<T: Value> = Shared<'a, 's, Allocator<T>>;
    type Distributed<T: Value> = Shared<'a, 's, Distributed<T>>;
    type Cell<T: Value> = Shared<'a, 's, Cell<T>>;
    type Counter = Shared<'a, 's, Counter>;
    type L3 = Shared<'a, 's, L3>;
}

/// A state object that others read at the same time.
pub struct Shared<'a: 's, 's, T> {
    object: &'a T,
    speculation: &'s Speculation<'a>,
}

impl<'a: 's, 's, T> Shared<'a, 's, T> {
    /// `object`, in this speculation.
    #[inline(always)]
    pub fn new(object: &'a T, speculation: &'s Speculation<'a>) -> Self {
        Self { object, speculation }
    }

    /// The object, unless the packet has turned out to write: then nothing is worth a look.
    #[inline(always)]
    fn read(&self) -> Option<&'a T> {
        (!self.speculation.writes()).then_some(self.object)
    }

    /// The packet would write: `nothing`, whatever the result would be.
    #[inline(always)]
    fn written<R>(&self, nothing: R) -> R {
        self.speculation.write();
        nothing
    }

    /// Has `new` stored in place of `old`.
    #[inline(always)]
    fn store<V: Value>(&self, old: V, new: V) {
        if old != new {
            self.speculation.write();
        }
    }

    /// Changes a copy of `old` and has it stored.
    #[inline(always)]
    fn change<V: Value>(&self, old: V, change: impl FnOnce(&mut V)) {
        let mut new = old;
        change(&mut new);
        self.store(old, new);
    }
}

impl<K: Key, V: Value> MapOperations<K, V> for Shared<'_, '_, Map<K, V>> {
    #[inline(always)]
    fn get(&self, key: &K) -> Option<V> {
        self.read()?.get(key)
    }
    #[inline(always)]
    fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }
    #[inline(always)]
    fn insert(&mut self, key: K, value: V) -> bool {
        match self.get(&key) {
            Some(old) => self.store(old, value),
            None => self.speculation.write(),
        }
        !self.speculation.writes()
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Option<V> {
        if self.contains(key) { self.written(None) } else { None }
    }
    #[inline(always)]
    fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let Some(old) = self.get(key) else { return false };
        self.change(old, change);
        true
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.read().map_or(0, Map::len)
    }
}

impl<T: Value> Shared<'_, '_, Vector<T>> {
    /// Whether element `index` can be looked at; where there is none, that is counted by a writer.
    #[inline(always)]
    fn has(&self, index: u32) -> bool {
        let there = index < self.object.len();
        if !there {
            self.speculation.write();
        }
        there && !self.speculation.writes()
    }
}

impl<T: Value> VectorOperations<T> for Shared<'_, '_, Vector<T>> {
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        if self.has(index) { self.object.read(index) } else { T::zero() }
    }
    #[inline(always)]
    fn write(&mut self, index: u32, value: T) {
        if self.has(index) {
            self.store(self.object.read(index), value);
        }
    }
    #[inline(always)]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        if self.has(index) {
            self.change(self.object.read(index), change);
        }
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.object.len()
    }
}

impl<'a, T: Value> Shared<'a, '_, Allocator<T>> {
    #[inline(always)]
    fn kept(&self, index: u32) -> Option<Kept<'a, T>> {
        self.read()?.kept(index)
    }

    /// The object, if it is alive at `now`.
    #[inline(always)]
    fn alive(&self, index: u32, now: Tick) -> Option<Kept<'a, T>> {
        let kept = self.kept(index)?;
        if kept.deadline.tick() > now { Some(kept) } else { self.written(None) }
    }

    /// Restarts the object's lifetime; false: it is over.
    #[inline(always)]
    fn prolong(&self, index: u32, kept: &Kept<'a, T>, now: Tick) -> bool {
        let noted = || self.object.refreshing(index);
        self.speculation.refresh(kept.deadline, kept.lifetime, now, noted)
    }
}

impl<T: Value> AllocatorOperations<T> for Shared<'_, '_, Allocator<T>> {
    #[inline(always)]
    fn allocate<W: World>(&mut self, _: T, _: u64, _: &Context<'_, W>) -> Option<u32> {
        self.written(None)
    }
    #[inline(always)]
    fn allocate_at<W: World>(&mut self, _: u32, _: T, _: u64, _: &Context<'_, W>) -> bool {
        self.written(false)
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
        self.written(None)
    }
    #[inline(always)]
    fn free(&mut self, index: u32) -> bool {
        if self.kept(index).is_some() { self.written(false) } else { false }
    }
    #[inline(always)]
    fn refresh<W: World>(&mut self, index: u32, lifetime_ns: u64, cx: &Context<'_, W>) -> bool {
        let Some(kept) = self.kept(index) else { return false };
        if kept.lifetime != to_ticks(lifetime_ns) {
            return self.written(false);
        }
        self.prolong(index, &kept, cx.environment().tick())
    }
    #[inline(always)]
    fn touch<W: World>(&mut self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        let kept = self.kept(index)?;
        let now = cx.environment().tick();
        self.prolong(index, &kept, now).then_some(kept.value)
    }
    #[inline(always)]
    fn is_allocated<W: World>(&self, index: u32, cx: &Context<'_, W>) -> bool {
        self.alive(index, cx.environment().tick()).is_some()
    }
    #[inline(always)]
    fn get<W: World>(&self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        self.alive(index, cx.environment().tick()).map(|kept| kept.value)
    }
    #[inline(always)]
    fn set(&mut self, index: u32, value: T) -> bool {
        let Some(kept) = self.kept(index) else { return false };
        self.store(kept.value, value);
        true
    }
    #[inline(always)]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool {
        let Some(kept) = self.kept(index) else { return false };
        self.change(kept.value, change);
        true
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.read().map_or(0, Allocator::len)
    }
}

impl<T: Value> DistributedOperations<T> for Shared<'_, '_, Distributed<T>> {
    #[inline(always)]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.change(self.object.read(), change);
    }
    #[inline(always)]
    fn read(&self) -> T {
        Shared::read(self).map_or_else(T::zero, Distributed::read)
    }
}

impl<T: Value> CellOperations<T> for Shared<'_, '_, Cell<T>> {
    #[inline(always)]
    fn get(&self) -> T {
        self.read().map_or_else(T::zero, Cell::get)
    }
    #[inline(always)]
    fn set(&mut self, value: T) {
        self.store(self.object.get(), value);
    }
    #[inline(always)]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.change(self.object.get(), change);
    }
}

impl CounterOperations for Shared<'_, '_, Counter> {
    #[inline(always)]
    fn add(&mut self, n: u64) {
        match self.object.part(self.speculation.worker) {
            Some(part) => self.speculation.note(Note::Count(part, n)),
            None => self.speculation.write(),
        }
    }
    #[inline(always)]
    fn read(&self) -> u64 {
        // Others are counting.
        self.written(0)
    }
}

impl L3Operations for Shared<'_, '_, L3> {
    #[inline(always)]
    fn enabled(&self) -> bool {
        self.object.enabled()
    }
    #[inline(always)]
    fn admit<W: World, M: Mode>(
        &self,
        packet: &mut Packet<'_, M>,
        _: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        self.object.admit_plain(packet)
    }
    #[inline(always)]
    fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        self.object.leads_nowhere(packet)
    }
    #[inline(always)]
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        _: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        match self.object.receive_plain(packet) {
            Some(received) => received,
            None => self.written(None),
        }
    }
    #[inline(always)]
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        match self.object.forward_plain(packet, cx.now()) {
            Some(verdict) => verdict,
            None => self.written(Drop(Builtin::NoRoute)),
        }
    }
}
