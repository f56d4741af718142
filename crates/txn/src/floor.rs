//! Who works on objects while workers take turns: one at a time, and for a while.
//!
//! ```text
//! worker 0: batch batch batch … batch ┐ looks on …    ┌ batch …
//! worker 1: looks on …                └ batch … batch ┘ looks on …
//! ```
//!
//! Whoever has it finds what it has just used in its own caches; where workers alternate batch by batch,
//! each finds everything in the other's. So who comes second waits as long as the first is seen at work, and for
//! a turn at most. This is courtesy: what keeps them apart is the mutex.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Held by one worker at a time.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    held: Mutex<()>,
    /// Who has or had it, and how often in all somebody has taken it: see [`Last`].
    last: AtomicU64,
}

/// The worker that took it last, counted from 1 (16 bits), and how often somebody has (48 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last(u64);

impl Last {
    const COUNT_BITS: u32 = 48;

    fn worker(self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    /// The next time that somebody has it.
    fn next(self, worker: usize) -> Self {
        let count = (self.0 + 1) & (u64::MAX >> (64 - Self::COUNT_BITS));
        Self((worker as u64 + 1) << Self::COUNT_BITS | count)
    }
}

impl Floor {
    /// Takes it, as soon as nobody has it. Nobody waits for ever: whoever lets go of it hands it on now and
    /// then, instead of taking it again before those who sleep are awake.
    pub(crate) fn take(&self, worker: usize) -> MutexGuard<'_, ()> {
        #[cfg(not(any(loom, shuttle)))]
        let held = self.held.lock();
        #[cfg(any(loom, shuttle))]
        let held = self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let next = Last(self.last.load(Ordering::Relaxed)).next(worker);
        self.last.store(next.0, Ordering::Relaxed);
        held
    }

    /// Waits until it is this worker's turn, of so many.
    #[inline(always)]
    pub(crate) fn be_polite(&self, worker: usize, workers: usize) {
        let last = Last(self.last.load(Ordering::Relaxed));
        if last.worker() != worker as u64 + 1 {
            #[cfg(not(any(loom, shuttle)))]
            waiting::look_on(self, last, workers);
            #[cfg(any(loom, shuttle))]
            let _ = workers;
        }
    }
}

#[cfg(not(any(loom, shuttle)))]
mod waiting {
    use std::hint::spin_loop;
    use std::time::{Duration, Instant};

    use super::{Floor, Last, Ordering};

    /// How long the turns of all others take together: no longer than a receive queue of a thousand packets holds
    /// out at five million a second.
    const ROUND: Duration = Duration::from_micros(200);
    /// A turn is no shorter, however many workers there are: some dozen batches.
    const SHORTEST: Duration = Duration::from_micros(20);
    /// Looks are so far apart: each takes the line from who is at work. A batch takes about a microsecond.
    const GLANCE: Duration = Duration::from_micros(3);

    /// Somebody who waits.
    struct Onlooker {
        /// Who had it at the last look.
        last: Last,
        /// Since when that worker has had it, as far as was seen.
        since: Instant,
        arrival: Instant,
        workers: u32,
    }

    impl Onlooker {
        /// Whether the wait is over, now that `seen` has it or had it last.
        fn sees(&mut self, seen: Last, is_held: bool, now: Instant) -> bool {
            let is_idle = seen == self.last && !is_held;
            if seen.worker() != self.last.worker() {
                self.since = now;
            }
            self.last = seen;
            let turn = (ROUND / (self.workers - 1).max(1)).max(SHORTEST);
            // Several wait, and it is not said who is next: nobody lets all others go first twice.
            is_idle || now - self.since >= turn || now - self.arrival >= 2 * turn * self.workers
        }
    }

    /// Waits as long as others are at work, and until its turn has come at most.
    #[cold]
    #[inline(never)]
    pub(super) fn look_on(floor: &Floor, last: Last, workers: usize) {
        let mut now = Instant::now();
        let mut onlooker = Onlooker { last, since: now, arrival: now, workers: workers as u32 };
        loop {
            let next = now + GLANCE;
            while now < next {
                spin_loop();
                now = Instant::now();
            }
            let seen = Last(floor.last.load(Ordering::Relaxed));
            if onlooker.sees(seen, floor.held.is_locked(), now) {
                return;
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Looks on while at each look one of `workers` is at work, and returns after how many looks it is over.
        fn looks(workers: u32, mut at_work: impl FnMut(u32) -> (Last, bool)) -> u32 {
            let start = Instant::now();
            let (last, _) = at_work(0);
            let mut onlooker = Onlooker { last, since: start, arrival: start, workers };
            let mut sees = |look| {
                let (seen, is_held) = at_work(look);
                onlooker.sees(seen, is_held, start + GLANCE * look)
            };
            (1..1_000).find(|&look| sees(look)).unwrap()
        }

        /// The floor after `worker` has taken it at look `look`, again and again.
        fn taken(worker: usize, look: u32) -> Last {
            Last(u64::from(look)).next(worker)
        }

        fn in_looks(time: Duration) -> u32 {
            time.as_nanos().div_ceil(GLANCE.as_nanos()) as u32
        }

        #[test]
        fn who_is_not_at_work_is_not_waited_for() {
            assert_eq!(looks(2, |_| (taken(1, 7), false)), 1);
            assert_eq!(looks(2, |look| (taken(1, look.min(5)), false)), 6);
        }

        #[test]
        fn who_is_at_work_has_a_turn() {
            assert_eq!(looks(2, |look| (taken(1, look), look % 2 == 0)), in_looks(ROUND));
            assert_eq!(looks(2, |_| (taken(1, 7), true)), in_looks(ROUND), "one long batch");
            assert_eq!(looks(5, |look| (taken(1, look), false)), in_looks(ROUND / 4));
            assert_eq!(looks(60, |look| (taken(1, look), false)), in_looks(SHORTEST));
        }

        /// Of three, the other two have it by turns before this one has noticed.
        #[test]
        fn nobody_lets_others_go_first_for_ever() {
            let by_turns = |look: u32| (taken((look / 2 % 2) as usize, look), false);
            assert_eq!(looks(3, by_turns), in_looks(3 * ROUND));
        }

        #[test]
        fn workers_and_counts_do_not_run_into_each_other() {
            let last = Last(u64::MAX >> 16).next(3);
            assert_eq!((last.worker(), last.next(65_533).worker()), (4, 65_534));
            assert_ne!(last.next(3), last);
        }
    }
}
