//! Allocators.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use anabranch_txn::{Deadline, Domain, Indices, Memory, Shape, Within, Words};

use super::causes::{
    ASK_IN_PERIODIC, Cause, Change, Contended, NEARLY_FULL, Operation, Recipe, Structure, When,
    index,
};
use super::wheel::SharedWheel;
use super::{Tracked, from_words, noting, with_words};
use crate::context::{Context, Environment, ends, to_ticks};
use crate::function::Occupancy;
use crate::key::Value;
use crate::pack::words;
use crate::state::TableUse;
use crate::state::journal::{self, Journal, Journaled, Moment, Sink, Steps};
use crate::state::wheel::{Tick, rebased};
use crate::world::{AllocatorOperations, FetchIndex, World};

/// An allocator that all workers share.
pub struct SharedAllocator<T> {
    /// Value and lifetime; deadline, 0 where there is no object.
    objects: Arc<Memory>,
    indices: Indices,
    wheel: SharedWheel,
    /// Which objects were written, where a store keeps them.
    journal: OnceLock<Arc<Journal<u32>>>,
    object: PhantomData<fn() -> T>,
}

/// Value and lifetime, as they are packed: the value where words begin.
type Stored<T> = (T, u32);

impl<T: Value> SharedAllocator<T> {
    /// All of `capacity` indices free.
    pub fn new(domain: &Domain, capacity: u32) -> Self {
        let objects = domain.memory(Shape { objects: capacity, ..Self::SHAPE });
        let wheel = SharedWheel::new(&objects, capacity);
        let (indices, journal) = (Indices::new(domain, capacity), OnceLock::new());
        Self { objects, indices, wheel, journal, object: PhantomData }
    }

    const DEADLINE: usize = words(<Stored<T>>::BITS);
    /// Of objects, however many there are.
    const SHAPE: Shape = Shape { objects: 0, tracked: Self::DEADLINE, deadlines: 1, apart: false };
}

/// An object that exists, or whose end has not been noticed.
struct Kept<T> {
    deadline: Deadline,
    lifetime: u32,
    value: T,
}

impl<T: Value> Tracked<SharedAllocator<T>> {
    /// The object under `index`, whether or not its end has come.
    #[inline(always)]
    fn kept(&self, index: u32) -> Option<Kept<T>> {
        if index >= self.object.indices.len() {
            return None;
        }
        let look = |words: Words<'_>| {
            let deadline = Deadline::from_word(words.get(SharedAllocator::<T>::DEADLINE));
            (deadline, from_words::<Stored<T>>(words))
        };
        let (deadline, (value, lifetime)) = self.transaction.read_of(
            &self.object.objects,
            (index, SharedAllocator::<T>::SHAPE),
            look,
        )?;
        (deadline.tick != 0).then_some(Kept { deadline, lifetime, value })
    }

    /// The object under `index`, if it exists at `now`.
    #[inline(always)]
    fn alive(&self, index: u32, now: Tick) -> Option<Kept<T>> {
        let kept = self.kept(index)?;
        if kept.deadline.tick > now {
            return Some(kept);
        }
        // Somebody whose packet came before may be just about to refresh it.
        if !self.transaction.is_alone() {
            self.transaction.require_alone();
        }
        None
    }

    /// Restarts the lifetime of an object that was found alive.
    #[inline(always)]
    fn prolong(&self, index: u32, kept: &Kept<T>, now: Tick) {
        let tick = now.saturating_add(kept.lifetime);
        if tick > kept.deadline.tick {
            let deadline = Deadline { tick, ..kept.deadline };
            let at = SharedAllocator::<T>::DEADLINE;
            self.transaction.raise(&self.object.objects, index, at, deadline);
            if let Some(journal) = self.object.journal.get() {
                journal.touch(index, false);
            }
        }
    }

    /// The object under `index` was written: noted here by who is alone.
    #[inline]
    fn note(&self, index: u32) {
        if let Some(journal) = noting::alone(&self.object.journal, &self.transaction) {
            journal.note(index);
        }
    }

    fn refuses_new(&self) -> bool {
        self.object.journal.get().is_some_and(|journal| journal.refuses_new())
    }

    /// Stores an object's lifetime, value and deadline.
    fn store(&self, index: u32, stored: Stored<T>, tick: Tick) {
        let at = SharedAllocator::<T>::DEADLINE;
        with_words(&stored, |stored| {
            self.transaction.write(&self.object.objects, index, |into| {
                into.copy_from(0, stored);
                into.set(at, Deadline::from_word(into.get(at)).renewed(tick).word());
            });
        });
        self.note(index);
    }

    fn start(&self, index: u32, value: T, lifetime_ns: u64, env: &Environment) {
        env.count_allocation();
        let lifetime = to_ticks(lifetime_ns);
        let deadline = ends(env.tick(), lifetime);
        self.store(index, (value, lifetime), deadline);
        self.object.wheel.queue(&self.transaction, index, deadline);
    }

    /// Stores the value of an object anew, if it differs.
    fn change(&self, index: u32, kept: Kept<T>, change: impl FnOnce(&mut T)) {
        let mut value = kept.value;
        change(&mut value);
        if value != kept.value {
            with_words(&(value, kept.lifetime), |stored| {
                self.transaction
                    .write(&self.object.objects, index, |into| into.copy_from(0, stored));
            });
            self.note(index);
        }
    }

    fn clear(&self, index: u32) {
        let at = SharedAllocator::<T>::DEADLINE;
        self.transaction.write(&self.object.objects, index, |into| {
            into.set(at, Deadline::from_word(into.get(at)).renewed(0).word());
        });
        self.object.indices.give(&self.transaction, index);
        if let Some(journal) = noting::alone(&self.object.journal, &self.transaction) {
            journal.clear_alone(index, index);
        }
    }

    /// The next object whose end has come, already free, with its value. `budget` counts down the
    /// objects looked at. For who is alone.
    pub fn expire(&mut self, env: &Environment, budget: &mut u32) -> Option<(u32, T)> {
        let now = env.tick();
        let mut wheel = self.object.wheel.turn(&self.transaction);
        while *budget > 0 {
            let index = wheel.pop(now)?;
            *budget -= 1;
            let Some(kept) = self.kept(index) else { continue };
            if kept.deadline.tick > now {
                wheel.queue(index, kept.deadline.tick);
                continue;
            }
            self.clear(index);
            env.leave();
            return Some((index, kept.value));
        }
        None
    }

    /// Ticks are counted from an origin `by` later. For who is alone.
    pub fn rebase(&mut self, by: Tick) {
        self.object.wheel.turn(&self.transaction).rebase(by);
        let (len, count) = (self.object.indices.len(), self.object.indices.used());
        let all = (0..len).filter_map(|index| self.kept(index).map(|kept| (index, kept)));
        for (index, Kept { deadline, lifetime, value }) in all.take(count as usize) {
            self.store(index, (value, lifetime), rebased(deadline.tick, by));
        }
    }
}

impl<T: Value> AllocatorOperations<T> for Tracked<SharedAllocator<T>> {
    fn allocate<W: World>(
        &mut self,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32> {
        if self.refuses_new() {
            return None;
        }
        let index = self.object.indices.take_any(&self.transaction)?;
        self.start(index, value, lifetime_ns, cx.environment());
        Some(index)
    }
    fn allocate_at<W: World>(
        &mut self,
        index: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> bool {
        let taken = !self.refuses_new() && self.object.indices.take(&self.transaction, index);
        if taken {
            self.start(index, value, lifetime_ns, cx.environment());
        }
        taken
    }
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
        if self.refuses_new() {
            return None;
        }
        let within = Within { first, count, step, start };
        let index = self.object.indices.take_within(&self.transaction, within)?;
        self.start(index, value, lifetime_ns, cx.environment());
        Some(index)
    }
    fn free(&mut self, index: u32) -> bool {
        let there = self.kept(index).is_some();
        if there {
            self.clear(index);
        }
        there
    }
    #[inline]
    fn refresh<W: World>(&mut self, index: u32, lifetime_ns: u64, cx: &Context<'_, W>) -> bool {
        let now = cx.environment().tick();
        let Some(kept) = self.alive(index, now) else { return false };
        let lifetime = to_ticks(lifetime_ns);
        if lifetime == kept.lifetime {
            self.prolong(index, &kept, now);
        } else {
            self.store(index, (kept.value, lifetime), ends(now, lifetime));
        }
        true
    }
    #[inline(always)]
    fn touch<W: World>(&mut self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        let now = cx.environment().tick();
        let kept = self.alive(index, now)?;
        self.prolong(index, &kept, now);
        Some(kept.value)
    }
    #[inline(always)]
    fn is_allocated<W: World>(&self, index: u32, cx: &Context<'_, W>) -> bool {
        self.alive(index, cx.environment().tick()).is_some()
    }
    #[inline(always)]
    fn get<W: World>(&self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        self.alive(index, cx.environment().tick()).map(|kept| kept.value)
    }
    fn set(&mut self, index: u32, value: T) -> bool {
        self.update(index, |old| *old = value)
    }
    #[inline]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool {
        let Some(kept) = self.kept(index) else { return false };
        self.change(index, kept, change);
        true
    }
    fn len(&self) -> u32 {
        self.object.indices.count(&self.transaction).unwrap_or(0)
    }
}

impl<T: Value> Journaled for Tracked<SharedAllocator<T>> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<u32, (u64, u32, T)>()
    }

    fn keep(&mut self, steps: &Steps) {
        let SharedAllocator { objects, indices, journal, .. } = &*self.object;
        journal.get_or_init(|| {
            let journal = Arc::new(Journal::new(indices.len(), steps));
            objects.watch(noting::mortal(&journal, SharedAllocator::<T>::DEADLINE));
            journal
        });
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(journal) = self.object.journal.get() else { return };
        let ends = |index| self.kept(index).map_or(0, |kept| kept.deadline.tick);
        for (index, step) in journal.take(name, moment, ends, sink) {
            sink.at(Some(step));
            let Some(Kept { deadline, lifetime, value }) = self.kept(index) else { continue };
            let object = (moment.absolute(deadline.tick), lifetime, value);
            moment.put(sink, (name, None), &index, &object);
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], moment: &Moment) -> bool {
        let object = &self.object;
        let index = journal::loaded::<u32>(key).filter(|&index| index < object.indices.len());
        let (Some(index), Some(entry)) = (index, journal::loaded::<(u64, u32, T)>(value)) else {
            return false;
        };
        let (absolute, lifetime, value) = entry;
        let tick = moment.deadline(absolute, lifetime);
        // One that `init` has given out is in use already.
        object.indices.take(&self.transaction, index);
        self.store(index, (value, lifetime), tick);
        object.wheel.queue(&self.transaction, index, tick);
        true
    }
}

impl<T: Value> FetchIndex for Tracked<SharedAllocator<T>> {
    #[inline(always)]
    fn fetch(&self, index: u32) {
        self.object.objects.prefetch(index);
    }
    #[inline(always)]
    fn elements(&self) -> u32 {
        0
    }
}

impl<T: Value> Occupancy for Tracked<SharedAllocator<T>> {
    fn table_use(&self, name: &str) -> TableUse {
        let object = &self.object;
        let bytes = object.objects.bytes() + object.indices.bytes() + object.wheel.bytes();
        TableUse {
            name: name.to_owned(),
            used: object.indices.used().into(),
            capacity: object.indices.len().into(),
            bytes: bytes as u64,
            faults: 0,
            whole: false,
            common: false,
        }
    }
}

impl<T: Value> Contended for Tracked<SharedAllocator<T>> {
    const STRUCTURE: &'static Structure = &ALLOCATOR;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        let words = self.object.indices.memories().map(|words| (words.number(), "64 indices"));
        words.chain([(self.object.objects.number(), "object")]).collect()
    }

    fn key(words: &[u64]) -> String {
        index(words)
    }
}

/// Which indices are free stands in words of 64 even or odd ones, each one object to transactions, and which of
/// these words are full in further ones. `allocate` begins at a part of its worker's own, and workers meet where
/// the parts of several have run full.
static ALLOCATOR: Structure = Structure {
    kind: "Allocator",
    causes: &[
        Cause {
            name: "shared word of indices",
            when: When::Met("64 indices"),
            why: "workers took or gave back indices among the same 64 even or odd ones, which are one \
                  object to transactions: their own parts of the pool have run full, or the line \
                  says which indices it wants",
            recipes: &[
                Recipe {
                    change: Change::Capacity(2),
                    relaxes: "more indices are handed out than before (of a NAT: more public ports)",
                    effect: "each worker finds free ones in its own part of the pool",
                },
                Recipe {
                    change: Change::Line(
                        "take any index (`allocate`), or a wider range from a `start` that differs from \
                         packet to packet (a hash of it)",
                    ),
                    relaxes: "which index is given out",
                    effect: "workers look in different words",
                },
            ],
        },
        Cause {
            name: "same object",
            when: When::Met("object"),
            why: "one worker changed, freed or gave a new lifetime to the object that another was \
                  working with",
            recipes: &[Recipe {
                change: Change::Line(
                    "restart lifetimes by `touch`, or by `refresh` with the lifetime that it has, which is \
                     no write, and store a value only when it differs",
                ),
                relaxes: "",
                effect: "established objects are read only",
            }],
        },
        Cause {
            name: "nearly full",
            when: When::Alone(&[
                Operation::Allocate,
                Operation::AllocateAt,
                Operation::AllocateWithin,
            ]),
            why: NEARLY_FULL,
            recipes: &[Recipe {
                change: Change::Capacity(2),
                relaxes: "more indices are handed out than before",
                effect: "no packet runs alone for it until the pool runs full again",
            }],
        },
        Cause {
            name: "end may have come",
            when: When::Alone(&[
                Operation::Get,
                Operation::Touch,
                Operation::Refresh,
                Operation::IsAllocated,
            ]),
            why: "the object's lifetime is over, and another worker may be just about to restart it",
            recipes: &[Recipe {
                change: Change::Guard(2),
                relaxes: "objects live as much longer",
                effect: "fewer objects end before their next packet",
            }],
        },
        Cause {
            name: "length asked",
            when: When::Alone(&[Operation::Len]),
            why: "the number of objects is known exactly only while nobody else is at work",
            recipes: &[ASK_IN_PERIODIC],
        },
    ],
};
