//! Vectors, and single values.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use anabranch_txn::{Count, Domain, Memory, Shape, Transaction};

use super::causes::{Cause, Change, Contended, Recipe, Structure, When, index};
use super::{Tracked, filled, from_words, noting, packed};
use crate::function::Occupancy;
use crate::key::Value;
use crate::pack::{MOST_WORDS, Unpack, words};
use crate::state::TableUse;
use crate::state::journal::{self, Journal, Journaled, Moment, Sink, Steps};
use crate::world::{CellOperations, FetchIndex, Glance, VectorOperations};

/// Up to this many elements each has a cache line of its own.
const APART: u32 = 1 << 14;

/// A vector that all workers share.
pub struct SharedVector<T> {
    elements: Arc<Memory>,
    faults: Count,
    /// Which elements were written, where a store keeps them.
    journal: OnceLock<Arc<Journal<u32>>>,
    element: PhantomData<fn() -> T>,
}

impl<T: Value> SharedVector<T> {
    /// `len` zeroes.
    pub fn new(domain: &Domain, len: u32) -> Self {
        let shape = Shape { objects: len, apart: len <= APART, ..Self::SHAPE };
        let (elements, faults) = (domain.memory(shape), Count::new(domain));
        Self { elements, faults, journal: OnceLock::new(), element: PhantomData }
    }

    /// Changes element `index`, which there is.
    #[inline(always)]
    fn update(&self, transaction: &Transaction, index: u32, change: impl FnOnce(&mut T)) {
        match words(T::BITS) {
            0..=2 => self.update_in::<2>(transaction, index, change),
            3..=8 => self.update_in::<8>(transaction, index, change),
            _ => self.update_in::<MOST_WORDS>(transaction, index, change),
        }
    }

    /// The same, of a value that packs into `N` words at most. Words are compared, not values: what is compared
    /// as a whole would have to lie in memory.
    #[inline(always)]
    fn update_in<const N: usize>(
        &self,
        transaction: &Transaction,
        index: u32,
        change: impl FnOnce(&mut T),
    ) {
        let place = (index, Self::SHAPE);
        let own = transaction.in_place(&self.elements, place);
        let old = match own {
            Some(words) => Some(packed::<T, N>(words)),
            None => transaction.read_of(&self.elements, place, packed::<T, N>),
        };
        let Some(old) = old else { return };
        let mut value = T::unpack(&mut Unpack::new(&old));
        change(&mut value);
        let new = filled::<T, N>(&value);
        if old.iter().zip(&new).fold(0, |differ, (old, new)| differ | (old ^ new)) == 0 {
            return;
        }
        match own {
            Some(into) => {
                self.elements.note_change();
                // Which words `change` leaves alone is mostly known when this is compiled.
                for at in (0..words(T::BITS).min(N)).filter(|&at| old[at] != new[at]) {
                    into.set(at, new[at]);
                }
                if let Some(journal) = self.journal.get() {
                    journal.note(index);
                }
            }
            None => self.store(transaction, index, new),
        }
    }

    /// Stores an element's words, beside others. By value: what is lent would lie in memory for who is alone,
    /// too.
    #[inline(never)]
    fn store<const N: usize>(&self, transaction: &Transaction, index: u32, new: [u64; N]) {
        let place = (index, Self::SHAPE);
        let new = &new[..words(T::BITS).min(N)];
        transaction.write_of(&self.elements, place, |into| into.copy_from(0, new));
    }

    fn keep(&self, steps: &Steps) {
        self.journal.get_or_init(|| {
            let journal = Arc::new(Journal::new(self.elements.shape().objects, steps));
            self.elements.watch(noting::numbered(&journal));
            journal
        });
    }

    /// Tells the elements that were written, under what `key` makes of an index.
    fn drain<K: Value>(
        &self,
        transaction: &Transaction,
        (name, moment): (&'static str, &Moment),
        key: impl Fn(u32) -> K,
        sink: &mut dyn Sink,
    ) {
        let Some(journal) = self.journal.get() else { return };
        for (index, step) in journal.take(name, moment, journal::at_once, sink) {
            sink.at(Some(step));
            if let Some(value) = transaction.read(&self.elements, index, from_words::<T>) {
                moment.put(sink, (name, None), &key(index), &value);
            }
        }
    }

    /// Of elements, however many there are and wherever they lie.
    const SHAPE: Shape = Shape { objects: 0, tracked: words(T::BITS), deadlines: 0, apart: false };

    /// Element `index`, which there is; `None`: the transaction is doomed.
    #[inline(always)]
    fn read(&self, transaction: &Transaction, index: u32) -> Option<T> {
        transaction.read_of(&self.elements, (index, Self::SHAPE), from_words)
    }
}

impl<T: Value> Tracked<SharedVector<T>> {
    #[inline(always)]
    fn element(&self, index: u32) -> Option<T> {
        self.is_there(index).then(|| self.object.read(&self.transaction, index))?
    }

    /// Whether there is such an element; it is a fault if there is not.
    #[inline(always)]
    fn is_there(&self, index: u32) -> bool {
        let is_there = index < self.object.elements.shape().objects;
        if !is_there {
            self.object.faults.add(&self.transaction, 1);
        }
        is_there
    }
}

impl<T: Value> VectorOperations<T> for Tracked<SharedVector<T>> {
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        self.element(index).unwrap_or_else(T::zero)
    }
    #[inline]
    fn write(&mut self, index: u32, value: T) {
        self.update(index, |old| *old = value);
    }
    #[inline]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        if self.is_there(index) {
            self.object.update(&self.transaction, index, change);
        }
    }
    #[inline(always)]
    fn len(&self) -> u32 {
        self.object.elements.shape().objects
    }
}

impl<T: Value> FetchIndex for Tracked<SharedVector<T>> {
    #[inline(always)]
    fn fetch(&self, index: u32) {
        self.object.elements.prefetch(index);
    }
    #[inline(always)]
    fn elements(&self) -> u32 {
        self.object.elements.shape().objects
    }
}

impl<T: Value> Occupancy for Tracked<SharedVector<T>> {
    fn table_use(&self, name: &str) -> TableUse {
        let objects = u64::from(self.object.elements.shape().objects);
        TableUse {
            name: name.to_owned(),
            used: objects,
            capacity: objects,
            bytes: self.object.elements.bytes() as u64,
            faults: self.object.faults.sum(),
            whole: true,
            common: false,
        }
    }
}

/// One value that all workers share.
pub struct SharedCell<T>(SharedVector<T>);

impl<T: Value> SharedCell<T> {
    /// Zero.
    pub fn new(domain: &Domain) -> Self {
        Self(SharedVector::new(domain, 1))
    }
}

impl<T: Value> CellOperations<T> for Tracked<SharedCell<T>> {
    #[inline(always)]
    fn get(&self) -> T {
        self.object.0.read(&self.transaction, 0).unwrap_or_else(T::zero)
    }
    #[inline]
    fn set(&mut self, value: T) {
        self.update(|old| *old = value);
    }
    #[inline]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        self.object.0.update(&self.transaction, 0, change);
    }
}

impl<T: Value> Journaled for Tracked<SharedVector<T>> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<u32, T>()
    }

    fn keep(&mut self, steps: &Steps) {
        self.object.keep(steps);
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        self.object.drain(&self.transaction, (name, moment), |index| index, sink);
    }

    fn restore(&mut self, key: &[u8], value: &[u8], _: &Moment) -> bool {
        match (journal::loaded::<u32>(key), journal::loaded(value)) {
            (Some(index), Some(value)) if index < VectorOperations::len(self) => {
                self.write(index, value);
                true
            }
            _ => false,
        }
    }
}

impl<T: Value> Journaled for Tracked<SharedCell<T>> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<(), T>()
    }

    fn keep(&mut self, steps: &Steps) {
        self.object.0.keep(steps);
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        self.object.0.drain(&self.transaction, (name, moment), |_| (), sink);
    }

    fn restore(&mut self, _: &[u8], value: &[u8], _: &Moment) -> bool {
        journal::loaded(value).map(|value| self.set(value)).is_some()
    }
}

impl<T: Value> Glance<T> for Tracked<SharedCell<T>> {
    #[inline(always)]
    fn glance(&self) -> T {
        T::zero()
    }
}

impl<T: Value> Contended for Tracked<SharedVector<T>> {
    const STRUCTURE: &'static Structure = &VECTOR;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        vec![(self.object.elements.number(), "element")]
    }

    fn key(words: &[u64]) -> String {
        index(words)
    }
}

impl<T: Value> Contended for Tracked<SharedCell<T>> {
    const STRUCTURE: &'static Structure = &CELL;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        vec![(self.object.0.elements.number(), "value")]
    }

    fn key(_: &[u64]) -> String {
        String::new()
    }
}

/// Each element is an object to transactions.
static VECTOR: Structure = Structure {
    kind: "Vector",
    causes: &[Cause {
        name: "same element",
        when: When::Met("element"),
        why: "one worker wrote the element that another was working with",
        recipes: &[
            Recipe {
                change: Change::Guard(2),
                relaxes: "what stands in the element may be older by as much",
                effect: "an element is written once in that time, not at each packet",
            },
            Recipe {
                change: Change::Line(
                    "keep a value that is only summed in a `Counter` or a `Distributed`, or one element \
                     for each of several hashes of the packet, added up where it is read",
                ),
                relaxes: "",
                effect: "workers write what only they write",
            },
        ],
    }],
};

static CELL: Structure = Structure {
    kind: "Cell",
    causes: &[Cause {
        name: "one value",
        when: When::Met("value"),
        why: "all workers read and write one value",
        recipes: &[
            Recipe {
                change: Change::Declaration("Cell<", "Distributed<"),
                relaxes: "the value is in parts, one of each worker, which `#[merge(function)]` puts together",
                effect: "updates of different workers do not meet; a reading meets each of them",
            },
            Recipe {
                change: Change::Line(
                    "count in a `Counter`, and bring the `Cell` up to date in `periodic`, where packets \
                     read it only",
                ),
                relaxes: "the value may be as old as the period is long",
                effect: "packets write what only their worker writes",
            },
        ],
    }],
};
