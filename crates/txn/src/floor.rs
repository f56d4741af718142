//! Who works on objects while workers take turns: one at a time, and for a while.
//!
//! ```text
//! worker 0: batch batch batch … batch ┐ looks on …    ┌ batch …
//! worker 1: looks on …                └ batch … batch ┘ looks on …
//! ```
//!
//! Whoever has it finds what it has just used in its own caches; where workers alternate batch by batch,
//! each finds everything in the other's. So who comes second waits as long as the first is seen at work most of
//! the time, and for a turn; then the first steps back. This is courtesy: what keeps them apart is the mutex.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Held by one worker at a time.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    held: Mutex<()>,
    /// Who has or had it, and how often in all somebody has taken it: see [`Last`].
    last: AtomicU64,
    /// Not 0: somebody has waited for long enough, and who has it steps back once.
    wanted: AtomicU64,
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
        if self.wanted.load(Ordering::Relaxed) != 0 {
            self.wanted.store(0, Ordering::Relaxed);
        }
        held
    }

    /// Waits until it is this worker's turn, of so many, or workers take none any more.
    #[inline(always)]
    pub(crate) fn be_polite(&self, worker: usize, workers: usize, is_over: impl Fn() -> bool) {
        let last = Last(self.last.load(Ordering::Relaxed));
        let is_wanted = self.wanted.load(Ordering::Relaxed) != 0;
        if last.worker() != worker as u64 + 1 || is_wanted {
            #[cfg(not(any(loom, shuttle)))]
            waiting::look_on(self, last, workers, is_over);
            #[cfg(any(loom, shuttle))]
            let _ = (workers, is_over);
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
    /// After so many looks at which nobody had it, and twice as many as those at which somebody had, there is
    /// room beside who is at work.
    const FREE: u32 = 4;
    /// Who is in the same batch at so many looks has lost its core, or takes its time: the mutex lets others sleep.
    const STUCK: u32 = 8;

    /// Somebody who waits.
    struct Onlooker {
        /// Who had it at the last look.
        last: Last,
        /// Since when that worker has had it, as far as was seen.
        since: Instant,
        arrival: Instant,
        workers: u32,
        /// Looks, those of them at which nobody had it, and the last ones in the same batch.
        looks: u32,
        free: u32,
        stuck: u32,
    }

    impl Onlooker {
        fn new(last: Last, arrival: Instant, workers: usize) -> Self {
            let workers = workers as u32;
            Self { last, since: arrival, arrival, workers, looks: 0, free: 0, stuck: 0 }
        }

        /// Whether the wait is over, now that `seen` has it or had it last.
        fn sees(&mut self, seen: Last, is_held: bool, now: Instant) -> bool {
            let is_same = seen == self.last;
            if seen.worker() != self.last.worker() {
                self.since = now;
            }
            self.last = seen;
            self.looks += 1;
            self.free += u32::from(!is_held);
            self.stuck = if is_same { self.stuck + 1 } else { 0 };
            let others = (self.workers - 1).max(1);
            let turn = (ROUND / others).max(SHORTEST);
            let has_room = self.free >= FREE && self.free * 3 > self.looks * 2;
            // Several may wait, and it is not said who is next: nobody lets others go first for longer than all
            // their turns.
            let is_late = now - self.since >= turn || now - self.arrival >= turn * others;
            is_same && !is_held || self.stuck == STUCK || has_room || is_late
        }
    }

    /// Waits as long as others are at work, and until its turn has come at most.
    #[cold]
    #[inline(never)]
    pub(super) fn look_on(floor: &Floor, last: Last, workers: usize, is_over: impl Fn() -> bool) {
        let mut now = Instant::now();
        let mut onlooker = Onlooker::new(last, now, workers);
        loop {
            let next = now + GLANCE;
            while now < next {
                if is_over() {
                    return;
                }
                spin_loop();
                now = Instant::now();
            }
            let seen = Last(floor.last.load(Ordering::Relaxed));
            if onlooker.sees(seen, floor.held.is_locked(), now) {
                floor.wanted.store(1, Ordering::Relaxed);
                return;
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::sync::atomic::AtomicBool;
        use std::thread;

        use super::*;

        /// Looks on while at each look one of `workers` is at work, and returns after how many looks it is over.
        fn looks(workers: usize, mut at_work: impl FnMut(u32) -> (Last, bool)) -> u32 {
            let start = Instant::now();
            let mut onlooker = Onlooker::new(at_work(0).0, start, workers);
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
            assert_eq!(looks(2, |look| (taken(1, look.min(5)), look < 5)), 6);
            assert_eq!(looks(2, |_| (taken(1, 7), true)), STUCK, "it has lost its core");
        }

        #[test]
        fn who_is_at_work_most_of_the_time_has_a_turn() {
            let busy = |look: u32| (taken(1, look), !look.is_multiple_of(3));
            assert_eq!(looks(2, busy), in_looks(ROUND));
            assert_eq!(looks(5, busy), in_looks(ROUND / 4));
            assert_eq!(looks(60, busy), in_looks(SHORTEST));
            assert_eq!(
                looks(2, |look| (taken(1, look), look.is_multiple_of(5))),
                FREE,
                "there is room"
            );
        }

        /// Of three, the other two have it by turns before this one has noticed.
        #[test]
        fn nobody_lets_others_go_first_for_longer_than_a_round() {
            let by_turns = |look: u32| (taken((look / 2 % 2) as usize, look), true);
            assert_eq!(looks(3, by_turns), in_looks(ROUND));
        }

        #[test]
        fn workers_and_counts_do_not_run_into_each_other() {
            let last = Last(u64::MAX >> 16).next(3);
            assert_eq!((last.worker(), last.next(65_533).worker()), (4, 65_534));
            assert_ne!(last.next(3), last);
        }

        /// However busy the other is, it gets its turns, and who has waited is no longer wanted once it has it.
        #[test]
        fn who_waits_beside_a_busy_worker_gets_its_turn() {
            let (floor, is_done) = (Floor::default(), AtomicBool::new(false));
            thread::scope(|threads| {
                threads.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        floor.be_polite(0, 2, || false);
                        drop(floor.take(0));
                    }
                });
                for _ in 0..100 {
                    floor.be_polite(1, 2, || false);
                    let held = floor.take(1);
                    assert_eq!(Last(floor.last.load(Ordering::Relaxed)).worker(), 2);
                    drop(held);
                }
                is_done.store(true, Ordering::Relaxed);
            });
            drop(floor.take(0));
            assert_eq!(floor.wanted.load(Ordering::Relaxed), 0);
            floor.wanted.store(1, Ordering::Relaxed);
            floor.be_polite(0, 2, || true);
        }
    }
}
