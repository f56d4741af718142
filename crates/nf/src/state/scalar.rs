//! Counters, cells, and values kept in parts.

use crate::key::Value;
use crate::state::shared::Count;

/// Counts; wraps after 2^64.
#[derive(Debug, Default)]
pub struct Counter {
    count: u64,
    /// What workers that share the counter have added, each in its own; else empty.
    parts: Box<[Part]>,
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
        parts.fold(self.count, u64::wrapping_add)
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
pub struct Cell<T>(T);

impl<T: Value> Default for Cell<T> {
    fn default() -> Self {
        Self(T::zero())
    }
}

impl<T: Value> Cell<T> {
    /// A copy of the value.
    #[inline(always)]
    pub fn get(&self) -> T {
        self.0
    }

    /// Replaces the value.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        self.0 = value;
    }

    /// Changes the value in place.
    #[inline(always)]
    pub fn update(&mut self, change: impl FnOnce(&mut T)) {
        change(&mut self.0);
    }
}

/// A value kept in one part per core and merged when read. In the Solo world there is one part.
pub struct Distributed<T> {
    part: T,
    merge: fn(T, T) -> T,
    staleness_ns: u64,
}

impl<T: Value> Distributed<T> {
    /// Starts at zero. A merged value may be `staleness_ns` old.
    pub fn new(merge: fn(T, T) -> T, staleness_ns: u64) -> Self {
        Self { part: T::zero(), merge, staleness_ns }
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

    /// How old, in nanoseconds, a merged value may be.
    pub fn staleness_ns(&self) -> u64 {
        self.staleness_ns
    }
}
