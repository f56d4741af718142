//! Who is in a transaction, and who is alone.
//!
//! ```text
//! worker:  inside = 1 ─ fence ─ closed?  ─ no: transaction ─ inside = 0
//! alone:   closed = 1 ─ fence ─ inside?  ─ wait until all are 0 … closed = 0
//! ```
//!
//! Workers go in and out with every batch and write nothing but a word of their own: no line goes from core to
//! core until somebody wants to be alone. Of a worker that comes in and one that closes the gate at the same
//! time at least one sees the other (Dekker).

use crossbeam_utils::CachePadded;

use crate::sync::{
    AtomicU64, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard, fence, spin_loop, yield_now,
};

/// Looks at the other before the core is let go of: some fifty microseconds, in which whoever is alone does all
/// that is due for a batch. To sleep and be woken takes longer.
const LOOKS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 1_024 };
/// How often it is tried to go in or to close the gate where others are alone one after the other.
const TRIES: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// Many inside, or one alone.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Whether each worker is inside.
    inside: Box<[CachePadded<AtomicU64>]>,
    closed: CachePadded<AtomicU64>,
    /// Held by who is alone; those who find the gate closed sleep on it, and wake up together.
    alone: CachePadded<RwLock<()>>,
}

/// A worker is inside.
pub(crate) struct Inside<'a>(&'a AtomicU64);

/// Nobody is inside but who has this.
pub(crate) struct Alone<'a> {
    closed: &'a AtomicU64,
    /// Let go of when the gate is open again.
    _held: RwLockWriteGuard<'a, ()>,
}

impl Gate {
    /// For so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let outside = || CachePadded::new(AtomicU64::new(0));
        Self {
            inside: (0..workers).map(|_| outside()).collect(),
            closed: outside(),
            alone: CachePadded::new(RwLock::new(())),
        }
    }

    /// Goes in, when nobody is alone. What who was alone has done is seen.
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline(always)]
    pub(crate) fn enter(&self, worker: usize) -> Inside<'_> {
        let inside = &*self.inside[worker];
        inside.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) != 0 {
            self.enter_later(inside);
        }
        Inside(inside)
    }

    #[cold]
    #[inline(never)]
    fn enter_later(&self, inside: &AtomicU64) {
        inside.store(0, Ordering::Release);
        for _ in 0..TRIES {
            if !self.await_opening() {
                break;
            }
            inside.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.closed.load(Ordering::Acquire) == 0 {
                return;
            }
            inside.store(0, Ordering::Release);
        }
        let open = self.sleep_till_open();
        // Who is next to be alone has to wait for the lock, and sees this then.
        inside.store(1, Ordering::Relaxed);
        drop(open);
    }

    /// Nobody is alone, nor will be as long as this is held.
    fn sleep_till_open(&self) -> RwLockReadGuard<'_, ()> {
        #[cfg(not(any(loom, shuttle)))]
        return self.alone.read();
        #[cfg(any(loom, shuttle))]
        return self.alone.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    }

    /// Looks on until nobody is alone; false: it takes longer, though whoever is alone seldom is for longer than
    /// a batch takes.
    fn await_opening(&self) -> bool {
        (0..LOOKS).any(|_| {
            let is_open = self.closed.load(Ordering::Relaxed) == 0;
            if !is_open {
                spin_loop();
            }
            is_open
        })
    }

    /// Goes in alone, when all who are inside have gone; nobody else goes in meanwhile. What they have done is
    /// seen. For who is not inside. It waits for who is inside without sleeping.
    pub(crate) fn close(&self) -> Alone<'_> {
        self.close_held(self.hold())
    }

    /// The same if `is_wanted` still, when nobody else is alone: who was may have done it.
    pub(crate) fn close_if(&self, is_wanted: impl Fn() -> bool) -> Option<Alone<'_>> {
        for _ in 0..TRIES {
            if !is_wanted() {
                return None;
            }
            if let Some(held) = self.try_hold() {
                return is_wanted().then(|| self.close_held(held));
            }
            if !self.await_opening() {
                // Many want the same to be done: in line for the lock they would wake up one after the other, and
                // find it done.
                drop(self.sleep_till_open());
            }
        }
        let held = self.hold();
        is_wanted().then(|| self.close_held(held))
    }

    fn close_held<'a>(&'a self, held: RwLockWriteGuard<'a, ()>) -> Alone<'a> {
        self.closed.store(1, Ordering::Relaxed);
        let alone = Alone { closed: &self.closed, _held: held };
        fence(Ordering::SeqCst);
        for inside in &self.inside {
            let mut looks = 0;
            while inside.load(Ordering::Acquire) != 0 {
                looks = LOOKS.min(looks + 1);
                if looks < LOOKS { spin_loop() } else { yield_now() }
            }
        }
        alone
    }

    /// The lock, unless somebody has it.
    fn try_hold(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        #[cfg(not(any(loom, shuttle)))]
        return self.alone.try_write();
        #[cfg(any(loom, shuttle))]
        return self.alone.try_write().ok();
    }

    /// A worker that panicked is reported when it is joined.
    fn hold(&self) -> RwLockWriteGuard<'_, ()> {
        #[cfg(not(any(loom, shuttle)))]
        return self.alone.write();
        #[cfg(any(loom, shuttle))]
        return self.alone.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.closed.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::thread;
    use crate::tests::model;

    /// A number that is more than one access to whoever is not alone.
    #[derive(Default)]
    struct Halves([AtomicU64; 2]);

    impl Halves {
        fn both(&self) -> [u64; 2] {
            [0, 1].map(|half: usize| self.0[half].load(Ordering::Relaxed))
        }

        fn add(&self) {
            for half in &self.0 {
                half.store(half.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }
    }

    /// One goes in twice, and another is alone twice: each sees whole what the other has done.
    #[test]
    fn nobody_is_beside_who_is_alone() {
        model(|| {
            let shared = Arc::new((Gate::new(2), Halves::default(), Halves::default()));
            let other = Arc::clone(&shared);
            let worker = thread::spawn(move || {
                let (gate, alone, own) = &*other;
                for _ in 0..2 {
                    let inside = gate.enter(1);
                    let [one, two] = alone.both();
                    assert_eq!(one, two);
                    own.add();
                    drop(inside);
                }
            });
            let (gate, alone, own) = &*shared;
            for _ in 0..2 {
                let closed = gate.close();
                alone.add();
                let [one, two] = own.both();
                assert_eq!(one, two);
                drop(closed);
            }
            let inside = gate.enter(0);
            assert_eq!(alone.both(), [2, 2]);
            drop(inside);
            worker.join().unwrap();
            let _closed = gate.close();
            assert_eq!((alone.both(), own.both()), ([2, 2], [2, 2]));
        });
    }

    /// Both want to do what has to be done once.
    #[test]
    fn who_comes_second_finds_it_done() {
        model(|| {
            let shared = Arc::new((Gate::new(2), Halves::default()));
            let work = |(gate, done): &(Gate, Halves)| {
                let closed = gate.close_if(|| done.both() == [0, 0]);
                closed.iter().for_each(|_| done.add());
            };
            let other = Arc::clone(&shared);
            let worker = thread::spawn(move || work(&other));
            work(&shared);
            worker.join().unwrap();
            let _inside = shared.0.enter(0);
            assert_eq!(shared.1.both(), [1, 1]);
        });
    }

    #[test]
    fn of_two_who_want_to_be_alone_one_is_first() {
        model(|| {
            let shared = Arc::new((Gate::new(2), Halves::default()));
            let other = Arc::clone(&shared);
            let worker = thread::spawn(move || {
                let _closed = other.0.close();
                other.1.add();
            });
            let closed = shared.0.close();
            shared.1.add();
            drop(closed);
            worker.join().unwrap();
            let _inside = shared.0.enter(0);
            assert_eq!(shared.1.both(), [2, 2]);
        });
    }
}
