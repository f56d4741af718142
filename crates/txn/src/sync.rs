//! What threads meet in: the system's, or what a model checker has in its place. Nothing in this
//! crate goes round it, but for what one thread has for itself, and what is made before transactions
//! begin or taken by who is alone: that lies under a plain mutex.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread::yield_now,
};
#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread::yield_now,
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use {
    anabranch_memory::Zeroed,
    parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard},
    std::hint::spin_loop,
    std::sync::atomic::{AtomicU64, Ordering, fence},
    std::thread::yield_now,
};

#[cfg(all(test, loom))]
pub(crate) use loom::thread;
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::thread;
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use std::thread;

/// Words of a model checker, which are more than their bits.
#[cfg(any(loom, shuttle))]
#[derive(Debug)]
pub(crate) struct Zeroed<T>(Box<[T]>);

#[cfg(any(loom, shuttle))]
impl<const N: usize> Zeroed<[AtomicU64; N]> {
    pub(crate) fn new(len: usize) -> Self {
        Self((0..len).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect())
    }
}

#[cfg(any(loom, shuttle))]
impl<T> std::ops::Deref for Zeroed<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

use std::sync::atomic::{AtomicU64 as Word, Ordering as Order};

/// A number of one thread, or of whoever is alone: atomic only so that its owner may be sent to one.
#[derive(Debug, Default)]
pub(crate) struct Own(Word);

impl Own {
    pub(crate) fn new(value: u64) -> Self {
        Self(Word::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Order::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Order::Relaxed);
    }

    /// `len` of them, zero.
    pub(crate) fn zeroes(len: usize) -> Box<[Self]> {
        (0..len).map(|_| Self::default()).collect()
    }
}

/// Numbers of one thread, on lines where nobody else writes, whatever lies beside them.
#[derive(Debug)]
pub(crate) struct Apart(Box<[Own]>);

impl Apart {
    /// Numbers in two lines, which processors fetch together.
    const LINES: usize = 16;

    /// `len` of them, zero.
    pub(crate) fn new(len: usize) -> Self {
        Self(Own::zeroes(len + 2 * Self::LINES))
    }
}

impl std::ops::Deref for Apart {
    type Target = [Own];
    #[inline(always)]
    fn deref(&self) -> &[Own] {
        &self.0[Self::LINES..self.0.len() - Self::LINES]
    }
}
