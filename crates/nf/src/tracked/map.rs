//! Maps.

use std::sync::{Arc, OnceLock};

use anabranch_txn::{Domain, Map, SlotId, Words};

use super::causes::{
    ASK_IN_PERIODIC, Cause, Change, Contended, NEARLY_FULL, Operation, Recipe, Structure,
    TWICE_THE_ROOM, When,
};
use super::{EntryOf, Tracked, from_words, noting, with_words};
use crate::function::Occupancy;
use crate::key::{Key, Value, spread};
use crate::state::TableUse;
use crate::state::journal::{self, Journal, Journaled, Moment, Sink, Steps};
use crate::world::{FetchKey, MapOperations, PeekKey};

/// A map that all workers share.
pub struct SharedMap<K, V> {
    entries: Map<EntryOf<K, V, false>>,
    seed: u64,
    /// Which entries were written and which removed, where a store keeps them.
    journal: OnceLock<Arc<Journal<K>>>,
}

impl<K: Key, V: Value> SharedMap<K, V> {
    /// With room for `capacity` entries; `seed` makes its hash function.
    pub fn new(domain: &Domain, capacity: u32, seed: u64) -> Self {
        let journal = OnceLock::new();
        Self { entries: Map::new(domain, capacity), seed: spread(seed), journal }
    }
}

impl<K: Key, V: Value> Tracked<SharedMap<K, V>> {
    #[inline(always)]
    fn find(&self, key: &K) -> Option<(SlotId, V)> {
        let hash = key.hash(self.object.seed).word();
        let value = |value: Words<'_>, _| from_words(value);
        of_words!(key as K, |key| self.object.entries.look(&self.transaction, hash, key, value))
    }

    #[inline]
    fn replace(&self, id: SlotId, old: V, new: V) {
        if new != old {
            with_words(&new, |new| self.object.entries.change(&self.transaction, id, new));
            self.note(id);
        }
    }

    /// The entry at `id` was written: noted here by who is alone.
    #[inline]
    fn note(&self, id: SlotId) {
        if let Some(journal) = noting::alone(&self.object.journal, &self.transaction) {
            journal.note(self.object.entries.number(id));
        }
    }

    #[inline(never)]
    fn add(&self, key: &K, value: &V) -> bool {
        if self.object.journal.get().is_some_and(|journal| journal.refuses_new()) {
            return false;
        }
        let hash = key.hash(self.object.seed).word();
        let added = with_words(key, |key| {
            let add =
                |value: &[u64]| self.object.entries.insert(&self.transaction, hash, key, value, 0);
            with_words(value, add)
        });
        added.iter().for_each(|&id| self.note(id));
        added.is_some()
    }
}

impl<K: Key, V: Value> MapOperations<K, V> for Tracked<SharedMap<K, V>> {
    #[inline(always)]
    fn get(&self, key: &K) -> Option<V> {
        self.find(key).map(|(_, value)| value)
    }
    #[inline(always)]
    fn contains(&self, key: &K) -> bool {
        self.find(key).is_some()
    }
    #[inline]
    fn insert(&mut self, key: K, value: V) -> bool {
        match self.find(&key) {
            Some((id, old)) => self.replace(id, old, value),
            None => return self.add(&key, &value),
        }
        true
    }
    #[inline]
    fn remove(&mut self, key: &K) -> Option<V> {
        let (id, old) = self.find(key)?;
        self.object.entries.remove(&self.transaction, key.hash(self.object.seed).word(), id);
        if let Some(journal) = noting::alone(&self.object.journal, &self.transaction) {
            journal.clear_alone(self.object.entries.number(id), *key);
        }
        Some(old)
    }
    #[inline]
    fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let Some((id, old)) = self.find(key) else { return false };
        let mut value = old;
        change(&mut value);
        self.replace(id, old, value);
        true
    }
    fn len(&self) -> u32 {
        self.object.entries.count(&self.transaction).unwrap_or(0)
    }
}

impl<K: Key, V: Value> Journaled for Tracked<SharedMap<K, V>> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<K, V>()
    }

    fn keep(&mut self, steps: &Steps) {
        let SharedMap { entries, journal, .. } = &*self.object;
        journal.get_or_init(|| {
            let journal = Arc::new(Journal::new(entries.slots(), steps));
            entries.memory().watch(noting::buckets::<K, EntryOf<K, V, false>>(&journal));
            journal
        });
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let SharedMap { entries, journal, .. } = &*self.object;
        let Some(journal) = journal.get() else { return };
        let look =
            |key: Words<'_>, value: Words<'_>, _| (from_words::<K>(key), from_words::<V>(value));
        for (number, step) in journal.take(name, moment, journal::at_once, sink) {
            sink.at(Some(step));
            let entry = entries.entry(&self.transaction, entries.slot(number), look);
            entry.into_iter().for_each(|(key, value)| moment.put(sink, (name, None), &key, &value));
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], _: &Moment) -> bool {
        match (journal::loaded(key), journal::loaded(value)) {
            (Some(key), Some(value)) => self.insert(key, value),
            _ => false,
        }
    }
}

impl<K: Key, V: Value> FetchKey<K> for Tracked<SharedMap<K, V>> {
    #[inline(always)]
    fn fetch(&self, key: &K) {
        self.object.entries.prefetch(key.hash(self.object.seed).word());
    }
}

impl<K: Key, V: Value> PeekKey<K, V> for Tracked<SharedMap<K, V>> {
    #[inline(always)]
    fn peek(&self, key: &K) -> Option<V> {
        let hash = key.hash(self.object.seed).word();
        of_words!(key as K, |key| self.object.entries.glimpse(hash, key, from_words))
    }
    #[inline(always)]
    fn entries(&self) -> u32 {
        self.object.entries.len()
    }
}

impl<K: Key, V: Value> Occupancy for Tracked<SharedMap<K, V>> {
    fn table_use(&self, name: &str) -> TableUse {
        let entries = &self.object.entries;
        TableUse {
            name: name.to_owned(),
            used: entries.len().into(),
            capacity: entries.capacity().into(),
            bytes: entries.bytes() as u64,
            faults: 0,
            whole: false,
            common: false,
        }
    }
}

impl<K: Key, V: Value> Contended for Tracked<SharedMap<K, V>> {
    const STRUCTURE: &'static Structure = &MAP;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        vec![(self.object.entries.memory().number(), "bucket")]
    }

    fn key(words: &[u64]) -> String {
        super::text::<K>(words)
    }
}

/// A bucket, of as many entries as fit a cache line or two, is one object to transactions.
static MAP: Structure = Structure {
    kind: "Map",
    causes: &[
        Cause {
            name: "same entry",
            when: When::Same("bucket"),
            why: "one worker wrote the entry that another was working with",
            recipes: &[
                Recipe {
                    change: Change::Guard(2),
                    relaxes: "what stands in the entry may be older by as much",
                    effect: "an entry is written once in that time, not at each packet",
                },
                Recipe {
                    change: Change::Line(
                        "keep what changes at each packet out of the entry: in the packet set's state, \
                         or in a `Distributed`, and write the entry only when it differs",
                    ),
                    relaxes: "",
                    effect: "to store what is there already is no write",
                },
            ],
        },
        Cause {
            name: "shared bucket",
            when: When::Different("bucket"),
            why: "entries of different keys lie in one bucket, which is one object to transactions",
            recipes: &[
                Recipe {
                    change: Change::Capacity(4),
                    relaxes: "",
                    effect: "a quarter of the pairs of keys share a bucket; four times the memory",
                },
                Recipe {
                    change: Change::Guard(2),
                    relaxes: "what stands in the entry may be older by as much",
                    effect: "an entry is written once in that time, not at each packet",
                },
            ],
        },
        Cause {
            name: "nearly full",
            when: When::Alone(&[Operation::Insert]),
            why: NEARLY_FULL,
            recipes: &[TWICE_THE_ROOM],
        },
        Cause {
            name: "length asked",
            when: When::Alone(&[Operation::Len]),
            why: "the number of entries is known exactly only while nobody else is at work",
            recipes: &[ASK_IN_PERIODIC],
        },
    ],
};
