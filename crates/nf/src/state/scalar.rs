//! Counters, cells, and values kept in parts.

use std::sync::Arc;

use crate::key::Value;
use crate::state::journal::{self, COUNTED_BY_OTHERS, Journaled, Moment, Sink, Steps};
use crate::state::shards::{Bundle, MOST_SHARDS, Movable, Shift, Ward};
use crate::state::shared::{Count, Here};

/// Counts; wraps after 2^64.
#[derive(Debug, Default)]
pub struct Counter {
    count: u64,
    /// What workers that share the counter have added, each in its own; else empty.
    parts: Box<[Part]>,
    /// What workers have counted that there are no more, where a store keeps it.
    others: u64,
    /// What a store has been told, where one keeps it.
    told: Option<u64>,
}

/// What one worker has counted, in two cache lines of its own: cores fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(Count);

impl Counter {
    /// Adds `n`.
    #[inline(always)]
    pub fn add(&mut self, n: u64) {
        self.count = self.count.wrapping_add(n);
    }

    /// The count.
    #[inline(always)]
    pub fn read(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.0.read());
        parts.fold(self.count.wrapping_add(self.others), u64::wrapping_add)
    }

    /// The count without what others have counted.
    fn own(&self) -> u64 {
        self.read().wrapping_sub(self.others)
    }

    /// Gives each of `workers` workers a part to count in.
    pub fn share(&mut self, workers: usize) {
        self.parts = (0..workers).map(|_| Part::default()).collect();
    }

    /// The part of worker `number`, if it has one; nobody else adds to it.
    #[inline(always)]
    pub fn part(&self, number: usize) -> Option<&Count> {
        self.parts.get(number).map(|part| &part.0)
    }
}

/// One value.
#[derive(Debug)]
pub struct Cell<T> {
    value: T,
    /// What each shard has of it, where shards may move to other workers.
    shards: Option<Box<Parts<T>>>,
    /// What a store has been told, where one keeps it.
    told: Option<T>,
}

#[derive(Debug)]
struct Parts<T> {
    here: Arc<Here>,
    parts: [T; MOST_SHARDS],
    /// The parts that a store has been told, where one keeps them.
    told: Option<Box<[T; MOST_SHARDS]>>,
}

impl<T: Value> Default for Cell<T> {
    fn default() -> Self {
        Self { value: T::zero(), shards: None, told: None }
    }
}

impl<T: Value> Cell<T> {
    /// From now on it is known what each shard has of it.
    pub fn divide(&mut self, ward: &Ward) {
        let here = Arc::clone(&ward.here);
        self.shards = Some(Box::new(Parts { here, parts: [T::zero(); MOST_SHARDS], told: None }));
    }

    /// A copy of the value.
    #[inline(always)]
    pub fn get(&self) -> T {
        self.value
    }

    /// Replaces the value.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        self.update(|old| *old = value);
    }

    /// Changes the value in place.
    #[inline(always)]
    pub fn update(&mut self, change: impl FnOnce(&mut T)) {
        match &mut self.shards {
            None => change(&mut self.value),
            Some(shards) => shards.change(&mut self.value, change),
        }
    }
}

impl<T: Value> Parts<T> {
    /// Changes the sum, and with it the part of the shard that is being worked for.
    fn change(&mut self, sum: &mut T, change: impl FnOnce(&mut T)) {
        let before = *sum;
        change(sum);
        let part = self.here.shard().and_then(|shard| self.parts.get_mut(usize::from(shard)));
        if let Some(part) = part {
            *part = part.plus(sum.minus(before));
        }
    }

    /// What the store has of `shard`'s part: its worker has told it.
    fn has_told(&mut self, shard: u16, part: T) {
        if let Some(told) = &mut self.told {
            told[usize::from(shard)] = part;
        }
    }

    fn tell(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(told) = &mut self.told else { return };
        for ((shard, part), told) in (0..).zip(&self.parts).zip(told.iter_mut()) {
            if *told != *part && moment.is_of(Some(shard)) {
                *told = *part;
                sink.at(None);
                moment.put(sink, (name, Some(shard)), &(), part);
            }
        }
    }
}

impl<T: Value> Movable for Cell<T> {
    fn take_shards(&mut self, bundle: &mut Bundle) {
        let Some(shards) = &mut self.shards else { return };
        let mut taken = Vec::new();
        for shard in bundle.shards().iter() {
            let part = std::mem::replace(&mut shards.parts[usize::from(shard)], T::zero());
            shards.has_told(shard, T::zero());
            self.value = self.value.minus(part);
            taken.push((shard, part));
        }
        bundle.pack(taken);
    }

    fn put_shards(&mut self, bundle: &mut Bundle, _: Shift) {
        let Some(shards) = &mut self.shards else { return };
        for (shard, part) in bundle.unpack::<(u16, T)>() {
            shards.parts[usize::from(shard)] = part;
            shards.has_told(shard, part);
            self.value = self.value.plus(part);
        }
    }

    fn immovable(&self) -> Option<&'static str> {
        let is_part = self.shards.is_some() && !T::NUMBER;
        is_part.then_some("each shard has its part of it, and it is no number")
    }
}

/// A value kept in one part per core and merged when read. In the Solo world there is one part.
pub struct Distributed<T> {
    part: T,
    merge: fn(T, T) -> T,
    /// What a store has been told, where one keeps it.
    told: Option<T>,
}

impl<T: Value> Distributed<T> {
    /// Starts at zero.
    pub fn new(merge: fn(T, T) -> T) -> Self {
        Self { part: T::zero(), merge, told: None }
    }

    /// Changes this core's part.
    #[inline(always)]
    pub fn update(&mut self, change: impl FnOnce(&mut T)) {
        change(&mut self.part);
    }

    /// The parts merged.
    #[inline(always)]
    pub fn read(&self) -> T {
        self.part
    }

    /// This part and another's, merged.
    pub fn merged(&self, other: T) -> T {
        (self.merge)(self.part, other)
    }
}

impl Journaled for Counter {
    fn layout(&self) -> journal::Layout {
        journal::layout_of_count()
    }

    fn keep(&mut self, _: &Steps) {
        self.told = Some(self.own());
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let count = self.own();
        if self.told.is_some_and(|told| told != count) && moment.is_of(None) {
            self.told = Some(count);
            sink.count(name, count);
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], _: &Moment) -> bool {
        let Some(count) = journal::loaded::<u64>(value) else { return false };
        match key {
            COUNTED_BY_OTHERS => self.others = self.others.wrapping_add(count),
            _ => self.count = count,
        }
        true
    }
}

/// Tells the value of the one entry of an object, if it is not the one that was told last.
fn tell<T: Value>(
    told: &mut Option<T>,
    value: T,
    (name, moment): (&'static str, &Moment),
    sink: &mut dyn Sink,
) {
    if told.is_some_and(|told| told != value) && moment.is_of(None) {
        *told = Some(value);
        sink.at(None);
        moment.put(sink, (name, None), &(), &value);
    }
}

impl<T: Value> Journaled for Cell<T> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<(), T>()
    }

    fn keep(&mut self, _: &Steps) {
        match &mut self.shards {
            None => self.told = Some(self.value),
            Some(shards) => shards.told = Some(Box::new(shards.parts)),
        }
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        match &mut self.shards {
            None => tell(&mut self.told, self.value, (name, moment), sink),
            Some(shards) => shards.tell(name, moment, sink),
        }
    }

    fn restore(&mut self, _: &[u8], value: &[u8], _: &Moment) -> bool {
        let Some(value) = journal::loaded::<T>(value) else { return false };
        // Of what is divided it is the part of the shard that is being worked for.
        let sum = if self.shards.is_some() { self.value.plus(value) } else { value };
        self.set(sum);
        true
    }
}

impl<T: Value> Journaled for Distributed<T> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<(), T>()
    }

    fn keep(&mut self, _: &Steps) {
        self.told = Some(self.part);
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        tell(&mut self.told, self.part, (name, moment), sink);
    }

    fn restore(&mut self, _: &[u8], value: &[u8], _: &Moment) -> bool {
        journal::loaded(value).map(|part| self.part = part).is_some()
    }
}
