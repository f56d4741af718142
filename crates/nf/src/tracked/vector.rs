//! Vectors, and single values.

use std::marker::PhantomData;
use std::sync::Arc;

use anabranch_txn::{Count, Domain, Memory, Shape};

use super::{Tracked, copied, packed, unpacked};
use crate::function::Occupancy;
use crate::key::Value;
use crate::pack::{MOST_WORDS, words};
use crate::state::TableUse;
use crate::world::{CellOperations, FetchIndex, Glance, VectorOperations};

/// Up to this many elements each has a cache line of its own.
const APART: u32 = 1 << 14;

/// A vector that all workers share.
pub struct SharedVector<T> {
    elements: Arc<Memory>,
    faults: Count,
    element: PhantomData<fn() -> T>,
}

impl<T: Value> SharedVector<T> {
    /// `len` zeroes.
    pub fn new(domain: &Domain, len: u32) -> Self {
        let shape =
            Shape { objects: len, tracked: words(T::BITS), deadlines: 0, apart: len <= APART };
        Self { elements: domain.memory(shape), faults: Count::new(domain), element: PhantomData }
    }
}

impl<T: Value> Tracked<SharedVector<T>> {
    #[inline(always)]
    fn bits(&self, index: u32) -> Option<[u64; MOST_WORDS]> {
        if index >= self.object.elements.shape().objects {
            self.object.faults.add(&self.transaction, 1);
            return None;
        }
        self.transaction.read(&self.object.elements, index, copied::<T>)
    }

    #[inline]
    fn store(&self, index: u32, old: &[u64; MOST_WORDS], value: &T) {
        let new = packed(value);
        let new = &new[..words(T::BITS)];
        if *new != old[..words(T::BITS)] {
            self.transaction.write(&self.object.elements, index, |words| words.copy_from(0, new));
        }
    }
}

impl<T: Value> VectorOperations<T> for Tracked<SharedVector<T>> {
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        self.bits(index).map_or_else(T::zero, |bits| unpacked(&bits))
    }
    #[inline]
    fn write(&mut self, index: u32, value: T) {
        if let Some(old) = self.bits(index) {
            self.store(index, &old, &value);
        }
    }
    #[inline]
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        if let Some(old) = self.bits(index) {
            let mut value = unpacked(&old);
            change(&mut value);
            self.store(index, &old, &value);
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

impl<T: Value> Tracked<SharedCell<T>> {
    #[inline(always)]
    fn bits(&self) -> Option<[u64; MOST_WORDS]> {
        self.transaction.read(&self.object.0.elements, 0, copied::<T>)
    }
}

impl<T: Value> CellOperations<T> for Tracked<SharedCell<T>> {
    #[inline(always)]
    fn get(&self) -> T {
        self.bits().map_or_else(T::zero, |bits| unpacked(&bits))
    }
    #[inline]
    fn set(&mut self, value: T) {
        self.update(|old| *old = value);
    }
    #[inline]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        let Some(old) = self.bits() else { return };
        let mut value = unpacked(&old);
        change(&mut value);
        let new = packed(&value);
        let new = &new[..words(T::BITS)];
        if *new != old[..words(T::BITS)] {
            self.transaction.write(&self.object.0.elements, 0, |words| words.copy_from(0, new));
        }
    }
}

impl<T: Value> Glance<T> for Tracked<SharedCell<T>> {
    #[inline(always)]
    fn glance(&self) -> T {
        T::zero()
    }
}
