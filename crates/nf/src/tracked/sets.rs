//! Packet sets.

use std::sync::{Arc, OnceLock};

use anabranch_txn::{Deadline, Domain, Map, SlotId, Transaction, Words};

use super::causes::{
    Cause, Change, Contended, NEARLY_FULL, Operation, Recipe, Structure, TWICE_THE_ROOM, When,
};
use super::wheel::SharedWheel;
use super::{EntryOf, from_words, noting, with_words};
use crate::context::{ends, to_ticks};
use crate::key::{Hash, Key, Value, spread};
use crate::packet_set::SetShape;
use crate::state::TableUse;
use crate::state::journal::{self, Journal, Moment, Sink, Steps};
use crate::state::wheel::{Tick, rebased};

/// The packet sets of one address family, of all workers.
pub struct SharedSets<K, S> {
    sets: Map<EntryOf<K, Stored<S>, true>>,
    seed: u64,
    lifetime: u32,
    wheel: SharedWheel,
    /// Its number in a profile.
    number: u16,
    /// Which sets were written and which closed, where a store keeps them.
    journal: OnceLock<Arc<Journal<K>>>,
}

/// A set, as a packet finds it.
#[derive(Clone, Copy, Debug)]
pub struct OpenSet<S> {
    /// Where it is: the number of its slot.
    pub(super) number: u32,
    pub(super) deadline: Deadline,
    pub(super) lifetime: u32,
    /// The NF's state, as it was found. What the NF changes is a copy of its own: whoever is lent that may
    /// have it lie in memory, but not the rest.
    pub state: S,
}

/// What there is under a key.
#[derive(Clone, Copy, Debug)]
pub enum Found<S> {
    /// A set that exists.
    Alive(OpenSet<S>),
    /// One whose end has come: nobody beside may be about to refresh it.
    Over(OpenSet<S>),
    /// None, or the transaction is doomed.
    None,
}

impl<S> Found<S> {
    /// What `set` is to a packet at `now`; the transaction runs again alone if that has to be seen alone.
    #[inline(always)]
    pub(super) fn at(transaction: &Transaction, set: OpenSet<S>, now: Tick) -> Self {
        if set.deadline.tick > now {
            return Self::Alive(set);
        }
        if transaction.is_alone() {
            return Self::Over(set);
        }
        transaction.require_alone();
        Self::None
    }
}

/// State and lifetime, as they are packed: the state where words begin.
type Stored<S> = (S, u32);

impl<K: Key, S: Value> SharedSets<K, S> {
    /// A table of this shape, hashed with `seed`.
    pub fn new(domain: &Domain, shape: SetShape, seed: u64) -> Self {
        let sets = Map::<EntryOf<K, Stored<S>, true>>::new(domain, shape.capacity);
        let wheel = SharedWheel::new(sets.memory(), sets.slots());
        let lifetime = to_ticks(shape.lifetime_ns).max(1);
        Self { sets, seed: spread(seed), lifetime, wheel, number: 0, journal: OnceLock::new() }
    }

    /// The hash of `key`.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> Hash {
        key.hash(self.seed)
    }

    /// Fetches the bucket of this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash) {
        self.sets.prefetch(hash.word());
    }

    /// It is known under this number in a profile.
    pub fn numbered(&mut self, number: u16) {
        self.number = number;
    }

    /// Its number in a profile.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// The set of `key`, which has this hash, at `now`.
    #[inline(always)]
    pub fn find(&self, transaction: &Transaction, (hash, key): (Hash, &K), now: Tick) -> Found<S> {
        let look = |value: Words<'_>, deadline| (from_words::<Stored<S>>(value), deadline);
        let found = of_words!(key as K, |key| self.sets.look(transaction, hash.word(), key, look));
        let Some((id, ((state, lifetime), deadline))) = found else { return Found::None };
        let set = OpenSet { number: self.sets.number(id), deadline, lifetime, state };
        Found::at(transaction, set, now)
    }

    /// A packet of the set is done with: stores its `state` if that has changed, and restarts its
    /// lifetime at `now`, with a new length when `lifetime` is not 0.
    #[inline(always)]
    pub fn keep(
        &self,
        transaction: &Transaction,
        (set, state): (&OpenSet<S>, &S),
        now: Tick,
        lifetime: u32,
    ) {
        let lifetime = if lifetime == 0 { set.lifetime } else { lifetime };
        let tick = now.saturating_add(lifetime);
        let id = self.sets.slot(set.number);
        if lifetime != set.lifetime || *state != set.state {
            self.store(transaction, id, &(*state, lifetime));
        }
        if lifetime != set.lifetime {
            self.sets.set_deadline(transaction, id, ends(now, lifetime));
        } else if tick > set.deadline.tick {
            self.sets.raise(transaction, id, Deadline { tick, ..set.deadline });
            if let Some(journal) = self.journal.get() {
                journal.touch(set.number, false);
            }
        }
    }

    #[inline(never)]
    fn store(&self, transaction: &Transaction, id: SlotId, stored: &Stored<S>) {
        with_words(stored, |stored| self.sets.change(transaction, id, stored));
        self.note(transaction, self.sets.number(id));
    }

    /// The set in this slot was written: noted here by who is alone.
    fn note(&self, transaction: &Transaction, number: u32) {
        if let Some(journal) = noting::alone(&self.journal, transaction) {
            journal.note(number);
        }
    }

    /// Opens a set; `None`: the table is full, or the store that keeps it takes nothing new, or the transaction
    /// is doomed.
    pub fn open(
        &self,
        transaction: &Transaction,
        (hash, key): (Hash, &K),
        state: S,
        now: Tick,
    ) -> Option<OpenSet<S>> {
        if self.journal.get().is_some_and(|journal| journal.refuses_new()) {
            return None;
        }
        let lifetime = self.lifetime;
        let tick = ends(now, lifetime);
        let stored = (state, lifetime);
        let insert = |key: &[u64], stored: &[u64]| {
            self.sets.insert(transaction, hash.word(), key, stored, tick)
        };
        let id = with_words(key, |key| with_words(&stored, |stored| insert(key, stored)))?;
        let number = self.sets.number(id);
        self.wheel.queue(transaction, number, tick);
        self.note(transaction, number);
        // It has its generation from the slot; whoever refreshes it in this transaction changes the
        // copy.
        let deadline = self.sets.entry(transaction, id, |_, _, deadline| deadline)?;
        Some(OpenSet { number, deadline, lifetime, state })
    }

    /// Removes a set. For who is alone.
    pub fn close(&self, transaction: &Transaction, hash: Hash, set: &OpenSet<S>) {
        self.wheel.turn(transaction).dequeue(set.number);
        let id = self.sets.slot(set.number);
        if let Some(journal) = self.journal.get() {
            let key = self.sets.entry(transaction, id, |key, _, _| from_words::<K>(key));
            key.into_iter().for_each(|key| journal.clear_alone(set.number, key));
        }
        self.sets.remove(transaction, hash.word(), id);
    }

    /// The state of the next set whose time has run out at `now`, removed. `budget` counts down the
    /// sets looked at. For who is alone.
    pub fn expire(&self, transaction: &Transaction, now: Tick, budget: &mut u32) -> Option<S> {
        let mut wheel = self.wheel.turn(transaction);
        while *budget > 0 {
            let id = self.sets.slot(wheel.pop(now)?);
            *budget -= 1;
            let look = |key: Words<'_>, value: Words<'_>, deadline: Deadline| {
                (from_words::<K>(key), from_words::<Stored<S>>(value), deadline)
            };
            let Some((key, (state, _), deadline)) = self.sets.entry(transaction, id, look) else {
                continue;
            };
            if deadline.tick > now {
                wheel.queue(self.sets.number(id), deadline.tick);
                continue;
            }
            self.sets.remove(transaction, self.hash(&key).word(), id);
            let number = self.sets.number(id);
            self.journal.get().iter().for_each(|journal| journal.clear_alone(number, key));
            return Some(state);
        }
        None
    }

    /// Ticks are counted from an origin `by` later. For who is alone.
    pub fn rebase(&self, transaction: &Transaction, by: Tick) {
        self.wheel.turn(transaction).rebase(by);
        let slots = (0..self.sets.slots()).map(|number| self.sets.slot(number));
        let end = |id| self.sets.entry(transaction, id, |_, _, deadline| deadline);
        let all = slots.filter_map(|id| end(id).map(|deadline| (id, deadline)));
        for (id, deadline) in all.take(self.sets.len() as usize) {
            self.sets.set_deadline(transaction, id, rebased(deadline.tick, by));
        }
    }

    /// From now on changes are remembered, for a store.
    pub fn remember(&self, steps: &Steps) {
        self.journal.get_or_init(|| {
            let journal = Arc::new(Journal::new(self.sets.slots(), steps));
            self.sets.memory().watch(noting::buckets::<K, EntryOf<K, Stored<S>, true>>(&journal));
            journal
        });
    }

    /// Tells what has changed since the last time, as [`Journaled`](journal::Journaled) does. For who is
    /// alone.
    pub fn drain(
        &self,
        transaction: &Transaction,
        name: &'static str,
        moment: &Moment,
        sink: &mut dyn Sink,
    ) {
        let Some(journal) = self.journal.get() else { return };
        let look = |key: Words<'_>, value: Words<'_>, deadline: Deadline| {
            let (state, lifetime) = from_words::<Stored<S>>(value);
            let set = (moment.absolute(deadline.tick), lifetime, state);
            (from_words::<K>(key), set)
        };
        let ends = |number| {
            let deadline = |_: Words<'_>, _: Words<'_>, deadline: Deadline| deadline.tick;
            self.sets.entry(transaction, self.sets.slot(number), deadline).unwrap_or(0)
        };
        for (number, step) in journal.take(name, moment, ends, sink) {
            sink.at(Some(step));
            let set = self.sets.entry(transaction, self.sets.slot(number), look);
            set.into_iter().for_each(|(key, set)| moment.put(sink, (name, None), &key, &set));
        }
    }

    /// Puts in a set as it was told; false when it does not fit or cannot be read. For who is alone,
    /// before there are any.
    pub fn restore(
        &self,
        transaction: &Transaction,
        (key, value): (&[u8], &[u8]),
        moment: &Moment,
    ) -> bool {
        let (Some(key), Some(set)) = (journal::loaded::<K>(key), journal::loaded(value)) else {
            return false;
        };
        let (absolute, lifetime, state): (u64, u32, S) = set;
        let (hash, tick) = (self.hash(&key), moment.deadline(absolute, lifetime));
        let stored: Stored<S> = (state, lifetime);
        let insert = |key: &[u64], stored: &[u64]| {
            self.sets.insert(transaction, hash.word(), key, stored, tick)
        };
        let id = with_words(&key, |key| with_words(&stored, |stored| insert(key, stored)));
        id.iter().for_each(|&id| self.wheel.queue(transaction, self.sets.number(id), tick));
        id.is_some()
    }

    /// How full the table is.
    pub fn table_use(&self, name: &str) -> TableUse {
        TableUse {
            name: name.to_owned(),
            used: self.sets.len().into(),
            capacity: self.sets.capacity().into(),
            bytes: (self.sets.bytes() + self.wheel.bytes()) as u64,
            faults: 0,
            whole: false,
            common: false,
        }
    }
}

impl<K: Key, S: Value> Contended for SharedSets<K, S> {
    const STRUCTURE: &'static Structure = &SETS;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        vec![(self.sets.memory().number(), "bucket")]
    }

    fn key(words: &[u64]) -> String {
        super::text::<K>(words)
    }
}

/// A bucket, of as many sets as fit a cache line or two, is one object to transactions.
static SETS: Structure = Structure {
    kind: "packet set",
    causes: &[
        Cause {
            name: "same packet set",
            when: When::Same("bucket"),
            why: "packets of one set were handled by several workers, and its state changed",
            recipes: &[
                Recipe {
                    change: Change::Strategy,
                    relaxes: "",
                    effect: "packets of a set meet on one worker: no two transactions touch its state",
                },
                Recipe {
                    change: Change::Line(
                        "leave out of the set's state what changes at each packet, or round it (a time to \
                         seconds), so that most packets leave it as it is",
                    ),
                    relaxes: "what is rounded is less exact",
                    effect: "to store what is there already is no write",
                },
            ],
        },
        Cause {
            name: "shared bucket",
            when: When::Different("bucket"),
            why: "different sets lie in one bucket, which is one object to transactions",
            recipes: &[
                Recipe {
                    change: Change::Capacity(4),
                    relaxes: "",
                    effect: "a quarter of the pairs of sets share a bucket; four times the memory",
                },
                Recipe {
                    change: Change::Strategy,
                    relaxes: "",
                    effect: "packets of a set meet on one worker: no two transactions touch its state",
                },
            ],
        },
        Cause {
            name: "nearly full",
            when: When::Alone(&[Operation::Open]),
            why: NEARLY_FULL,
            recipes: &[TWICE_THE_ROOM],
        },
        Cause {
            name: "end may have come",
            when: When::Alone(&[Operation::Find]),
            why: "the set's lifetime is over, and another worker may be just about to restart it",
            recipes: &[Recipe {
                change: Change::Line("give sets a longer `expires_s`"),
                relaxes: "sets live as much longer",
                effect: "fewer sets end before their next packet",
            }],
        },
    ],
};
