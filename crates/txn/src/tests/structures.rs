//! Maps and indices against plain ones: one worker, then several in the order that they took.
#![cfg(not(any(loom, shuttle)))]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::{Entry, Indices, Map, SlotId, Watcher, Within, Words};

struct TwoWords;

impl Entry for TwoWords {
    const KEY: usize = 1;
    const VALUE: usize = 1;
    const DEADLINE: bool = true;
}

type Numbers = Map<TwoWords>;

/// Few homes, so that buckets overflow.
fn hash(key: u64) -> u64 {
    (key % 3) << 62 | key
}

fn get(map: &Numbers, who: &Transaction, key: u64) -> Option<(SlotId, u64)> {
    map.look(who, hash(key), [key], |value, _| value.get(0))
}

/// Puts `value` under `key`, or removes it; what was there.
fn put(map: &Numbers, who: &Transaction, key: u64, value: Option<u64>) -> Option<u64> {
    let old = get(map, who, key);
    match (old, value) {
        (None, None) => {}
        (Some((id, _)), None) => map.remove(who, hash(key), id),
        (Some((id, _)), Some(value)) => map.change(who, id, &[value]),
        (None, Some(value)) => {
            map.insert(who, hash(key), &[key], &[value], 9);
        }
    }
    old.map(|(_, value)| value)
}

/// A slot, the key of an entry that is gone, and whether there is another or a changed one.
type Difference = (u32, Option<u64>, bool);

#[derive(Clone, Default)]
struct Differences(Arc<Mutex<Vec<Difference>>>);

impl Watcher for Differences {
    fn changes(&self, bucket: u32, before: Words<'_>, after: Words<'_>, _: u32) {
        Numbers::compare(bucket, [before, after], |slot, gone, is_new| {
            self.0.lock().unwrap().push((slot, gone.map(|key| key.get(0)), is_new));
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

    #[test]
    fn a_map_is_a_map(
        steps in prop::collection::vec((0u64..60, prop::option::of(any::<u64>())), 1..300),
        batch in 1usize..20,
        alone in any::<bool>(),
    ) {
        let domain = Arc::new(Domain::new(1, false));
        let map = Numbers::new(&domain, 60 + 512 + 1);
        let who = Transaction::new(&domain, 0);
        let mut plain = BTreeMap::new();
        for steps in steps.chunks(batch) {
            if alone { who.begin_alone() } else { who.begin() }
            for &(key, value) in steps {
                let old = match value {
                    Some(value) => plain.insert(key, value),
                    None => plain.remove(&key),
                };
                prop_assert_eq!(put(&map, &who, key, value), old);
            }
            prop_assert!(who.commit().is_ok());
            prop_assert_eq!(map.len() as usize, plain.len());
        }
        who.begin();
        for key in 0..60 {
            prop_assert_eq!(get(&map, &who, key).map(|(_, value)| value), plain.get(&key).copied());
        }
    }

    /// What keys go and which slots are to be looked at is all that a copy of the map needs to know.
    #[test]
    fn a_copy_is_kept_by_the_differences(
        steps in prop::collection::vec((0u64..20, prop::option::of(0u64..3)), 1..300),
        batch in 1usize..20,
    ) {
        let domain = Arc::new(Domain::new(1, false));
        let map = Numbers::new(&domain, 60 + 512 + 1);
        let who = Transaction::new(&domain, 0);
        domain.count_steps(|| 0);
        let told = Differences::default();
        map.memory().watch(Box::new(told.clone()));
        let (mut plain, mut copy) = (BTreeMap::new(), BTreeMap::new());
        for steps in steps.chunks(batch) {
            // Of an attempt that is given up nothing is told.
            for gives_up in [true, false] {
                who.begin();
                for &(key, value) in steps {
                    put(&map, &who, key, value);
                }
                if !gives_up {
                    prop_assert!(who.commit().is_ok());
                }
            }
            for &(key, value) in steps {
                match value {
                    Some(value) => plain.insert(key, value),
                    None => plain.remove(&key),
                };
            }
            who.begin();
            let told = std::mem::take(&mut *told.0.lock().unwrap());
            for key in told.iter().filter_map(|one| one.1) {
                copy.remove(&key);
            }
            for &(slot, gone, is_new) in &told {
                prop_assert!(gone.is_some() || is_new);
                let look = |key: Words<'_>, value: Words<'_>, _| (key.get(0), value.get(0));
                let entry = map.entry(&who, map.slot(slot), look);
                prop_assert_eq!(entry.is_some(), is_new);
                copy.extend(entry);
            }
            prop_assert_eq!(&copy, &plain);
        }
    }

    #[test]
    fn indices_are_taken_in_order(
        steps in prop::collection::vec((0u8..4, 0u32..700, 0u32..300, 1u32..3, 0u32..700), 1..200),
    ) {
        let domain = Arc::new(Domain::new(1, false));
        let len = 650;
        let indices = Indices::new(&domain, len);
        let who = Transaction::new(&domain, 0);
        let mut used = BTreeSet::new();
        for (what, first, count, step, start) in steps {
            who.begin_alone();
            match what {
                0 if used.remove(&first) => indices.give(&who, first),
                0 => {}
                1 => prop_assert_eq!(indices.take(&who, first), first < len && used.insert(first)),
                2 => match indices.take_any(&who) {
                    Some(index) => prop_assert!(index < len && used.insert(index)),
                    None => prop_assert_eq!(used.len(), len as usize),
                },
                _ => {
                    let within = Within { first, count, step, start };
                    let end = first.saturating_add(count).min(len);
                    let from = if (first..end).contains(&start) { start } else { first.min(len) };
                    let fits = |index: &u32| {
                        !used.contains(index) && (step == 1 || (index ^ from) & 1 == 0)
                    };
                    let wanted = (from..end).find(fits).or_else(|| (first..from.min(end)).find(fits));
                    prop_assert_eq!(indices.take_within(&who, within), wanted);
                    used.extend(wanted);
                }
            }
            prop_assert_eq!(indices.used() as usize, used.len());
        }
    }
}

/// However many are in use, the first free index is found in a word or two of each level.
#[test]
fn a_full_pool_is_found_full_in_a_few_words() {
    let domain = Arc::new(Domain::new(2, false));
    let len = if cfg!(miri) { 10_000 } else { 1_000_000 };
    let indices = Indices::new(&domain, len);
    let who = Transaction::new(&domain, 0);
    who.begin_alone();
    assert_eq!((0..len).filter(|_| indices.take_any(&who).is_none()).count(), 0);
    let of = |step, start| Within { first: 0, count: len, step, start };
    for given in [len / 2, len / 2 + 1, 0, len - 1] {
        who.begin_alone();
        indices.give(&who, given);
        for (step, start) in [(1, given / 3), (2, given), (2, given + 1)] {
            who.begin();
            let taken = indices.take_within(&who, of(step, start));
            let fits = step == 1 || (start ^ given).is_multiple_of(2);
            assert_eq!(
                taken,
                (fits && start < len || step == 1).then_some(given),
                "{step} {start}"
            );
            assert!(who.reads().iter().count() < 16 && !who.is_doomed());
        }
        who.begin_alone();
        assert!(indices.take(&who, given) && !indices.take(&who, given));
    }
}

#[test]
fn a_full_map_is_full_only_for_who_is_alone() {
    let domain = Arc::new(Domain::new(2, false));
    let map = Numbers::new(&domain, 10);
    let who = Transaction::new(&domain, 0);
    who.begin();
    assert!(map.insert(&who, 1, &[1], &[1], 1).is_none() && who.is_doomed());
    who.begin_alone();
    let there: Vec<_> = (0..12).map(|key| map.insert(&who, hash(key), &[key], &[0], 1)).collect();
    assert!(there[..10].iter().all(Option::is_some) && there[10..].iter().all(Option::is_none));
    assert!(!who.is_doomed());
}

/// Threads that allocate and free never have the same index at once.
#[test]
fn no_index_is_taken_twice() {
    let (domain, rounds) = (Arc::new(Domain::new(3, false)), if cfg!(miri) { 20 } else { 5_000 });
    let indices = Indices::new(&domain, 1_000);
    let owners = numbers(&domain, 1_000);
    std::thread::scope(|threads| {
        for number in 0..3 {
            let (domain, indices, owners) = (&domain, &indices, &owners);
            threads.spawn(move || {
                let who = Transaction::new(domain, number);
                let mut mine = Vec::new();
                for round in 0..rounds {
                    who.begin();
                    let free = mine.len() > 200 || round % 3 == 2;
                    let index = if free { mine.last().copied() } else { indices.take_any(&who) };
                    let Some(index) = index else { continue };
                    let owner = if free { number as u64 + 1 } else { 0 };
                    let before = who.get(owners, index);
                    who.set(owners, index, number as u64 + 1 - owner);
                    if free {
                        indices.give(&who, index);
                    }
                    if who.commit().is_err() {
                        continue;
                    }
                    assert_eq!(before, Some(owner), "index {index}");
                    if free {
                        mine.pop();
                    } else {
                        mine.push(index);
                    }
                }
            });
        }
    });
}
