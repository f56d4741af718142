//! Who works on objects while workers take turns: one at a time, and for a while.
//!
//! ```text
//! worker 0: batch batch batch … batch ┐ in line …              ┌ batch …
//! worker 1: looks on …                └ batch … batch ┐ in line …
//! worker 2: in line …                   looks on …    └ batch … batch
//! ```
//!
//! Whoever has it finds what it has just used in its own caches; where workers alternate batch by batch,
//! each finds everything in the other's. So those who come later stand in line; the first of them looks on as long
//! as whoever has it is seen at work most of the time, and for a turn, and then has its turn. This is courtesy: what
//! keeps them apart is the mutex.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Held by one worker at a time.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    held: Mutex<()>,
    /// Who has or had it, and how often in all somebody has taken it: see [`Last`].
    last: AtomicU64,
    /// Not 0: somebody has waited for long enough, and who has it steps back once.
    wanted: CachePadded<AtomicU64>,
    #[cfg(not(any(loom, shuttle)))]
    line: CachePadded<waiting::Line>,
}

/// The worker that took it last, counted from 1 (16 bits), and how often somebody has (48 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last(u64);

impl Last {
    const COUNT_BITS: u32 = 48;

    fn worker(self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    /// Whether this worker took it last.
    fn is_by(self, worker: usize) -> bool {
        self.worker() == worker as u64 + 1
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
        let last = Last(self.last.load(Ordering::Relaxed));
        self.last.store(last.next(worker).0, Ordering::Relaxed);
        // Who had it goes on: whoever wants it has not had it yet.
        if !last.is_by(worker) && self.wanted.load(Ordering::Relaxed) != 0 {
            self.wanted.store(0, Ordering::Relaxed);
        }
        held
    }

    /// Waits until it is this worker's turn, of so many, or workers take none any more.
    #[inline(always)]
    pub(crate) fn be_polite(&self, worker: usize, workers: usize, is_over: impl Fn() -> bool) {
        let last = Last(self.last.load(Ordering::Relaxed));
        let is_wanted = self.wanted.load(Ordering::Relaxed) != 0;
        if !last.is_by(worker) || is_wanted {
            #[cfg(not(any(loom, shuttle)))]
            waiting::look_on(self, worker, workers, is_over);
            #[cfg(any(loom, shuttle))]
            let _ = (workers, is_over);
        }
    }
}

#[cfg(not(any(loom, shuttle)))]
mod waiting {
    use std::hint::spin_loop;
    use std::time::{Duration, Instant};

    use super::{AtomicU64, Floor, Last, Ordering};

    /// How long the turns of all others take together: no longer than a receive queue of a thousand packets holds
    /// out at five million a second.
    const ROUND: Duration = Duration::from_micros(200);
    /// A turn is no shorter, however many workers there are: some dozen batches. All of them together are no faster
    /// than one alone, so that the more they are, the longer their queues hold out: a thousand packets each at twenty
    /// million a second in all.
    const SHORTEST: Duration = Duration::from_micros(50);
    /// Looks are so far apart: each takes the line from who is at work. A batch takes about a microsecond.
    const GLANCE: Duration = Duration::from_micros(3);
    /// After so many looks at which nobody had it, and twice as many as those at which somebody had, there is
    /// room beside who is at work.
    const FREE: u32 = 4;
    /// Who is in the same batch at so many looks has lost its core, or takes its time: the mutex lets others sleep.
    const STUCK: u32 = 8;

    /// Those who wait. Its numbers change when a turn does: to look at them is in nobody's way.
    #[derive(Debug, Default)]
    pub(super) struct Line {
        /// How many have joined it.
        joined: AtomicU64,
        /// The number of who is first: what all before have left.
        first: AtomicU64,
    }

    impl Line {
        /// Joins it, and returns the number.
        fn join(&self) -> u64 {
            self.joined.fetch_add(1, Ordering::Relaxed)
        }

        /// How many are before who has this number.
        fn before(&self, number: u64) -> u64 {
            number.saturating_sub(self.first.load(Ordering::Relaxed))
        }

        /// Who has this number leaves, and whoever is before it is passed over.
        fn leave(&self, number: u64) {
            self.first.fetch_max(number + 1, Ordering::Relaxed);
        }
    }

    /// Somebody who waits, and is first in line.
    struct Onlooker {
        /// Who had it at the last look.
        last: Last,
        /// Looks, those of them at which nobody had it, and the last ones in the same batch.
        looks: u32,
        free: u32,
        stuck: u32,
    }

    impl Onlooker {
        fn new(last: Last) -> Self {
            Self { last, looks: 0, free: 0, stuck: 0 }
        }

        /// Whether the wait is over, now that `seen` has it or had it last.
        fn sees(&mut self, seen: Last, is_held: bool) -> bool {
            let is_same = seen == self.last;
            self.last = seen;
            self.looks += 1;
            self.free += u32::from(!is_held);
            self.stuck = if is_same { self.stuck + 1 } else { 0 };
            let has_room = self.free >= FREE && self.free * 3 > self.looks * 2;
            is_same && !is_held || self.stuck == STUCK || has_room
        }
    }

    /// How long a turn is of so many workers.
    fn turn(workers: usize) -> Duration {
        (ROUND / (workers as u32 - 1).max(1)).max(SHORTEST)
    }

    /// How long who has so many before it waits after the last change: for a turn; and where those before do not
    /// take theirs, having left or lost their cores, for two looks of each.
    fn patience(workers: usize, before: u64) -> Duration {
        turn(workers) + 2 * GLANCE * before.min(workers as u64) as u32
    }

    /// Waits as long as others are at work or before it, and until its turn has come at most.
    #[cold]
    #[inline(never)]
    pub(super) fn look_on(
        floor: &Floor,
        worker: usize,
        workers: usize,
        is_over: impl Fn() -> bool,
    ) {
        let last = || Last(floor.last.load(Ordering::Relaxed));
        let number = floor.line.join();
        let mut now = Instant::now();
        let (mut since, mut next) = (now, now + GLANCE);
        let (mut before, mut onlooker) = (floor.line.before(number), Onlooker::new(last()));
        loop {
            if is_over() {
                return floor.line.leave(number);
            }
            let are_before = floor.line.before(number);
            if are_before != before {
                // Somebody's turn has begun.
                (before, since) = (are_before, now);
            }
            let is_late = now - since >= patience(workers, before);
            let mut is_free = false;
            if before == 0 && now >= next {
                is_free = onlooker.sees(last(), floor.held.is_locked());
                next = now + GLANCE;
            }
            if is_late || is_free {
                // Who stepped back for somebody who has not come goes on without stepping back each time.
                let has_gone_on = last().is_by(worker);
                floor.wanted.store(u64::from(!has_gone_on), Ordering::Relaxed);
                return floor.line.leave(number);
            }
            spin_loop();
            now = Instant::now();
        }
    }

    #[cfg(test)]
    mod tests {
        use std::sync::atomic::AtomicBool;
        use std::thread;

        use super::*;

        /// Looks on while at each look somebody is at work or not, and returns after how many looks it is over.
        fn looks(mut at_work: impl FnMut(u32) -> (Last, bool)) -> Option<u32> {
            let mut onlooker = Onlooker::new(at_work(0).0);
            let mut sees = |look| {
                let (seen, is_held) = at_work(look);
                onlooker.sees(seen, is_held)
            };
            (1..1_000).find(|&look| sees(look))
        }

        /// The floor after `worker` has taken it at look `look`, again and again.
        fn taken(worker: usize, look: u32) -> Last {
            Last(u64::from(look)).next(worker)
        }

        #[test]
        fn who_is_not_at_work_is_not_waited_for() {
            assert_eq!(looks(|_| (taken(1, 7), false)), Some(1));
            assert_eq!(looks(|look| (taken(1, look.min(5)), look < 5)), Some(6));
            assert_eq!(looks(|_| (taken(1, 7), true)), Some(STUCK), "it has lost its core");
            let room = looks(|look| (taken(1, look), look.is_multiple_of(5)));
            assert_eq!(room, Some(FREE), "there is room");
        }

        #[test]
        fn who_is_at_work_most_of_the_time_has_a_turn() {
            assert_eq!(looks(|look| (taken(1, look), !look.is_multiple_of(3))), None);
            assert_eq!([2, 3, 60].map(turn), [ROUND, ROUND / 2, SHORTEST]);
            assert_eq!(patience(60, 0), SHORTEST);
            assert!(patience(60, 1) > SHORTEST && patience(60, 59) < 60 * SHORTEST);
        }

        #[test]
        fn those_in_line_are_passed_over_when_one_behind_has_left() {
            let line = Line::default();
            let [one, two, three] = [(); 3].map(|()| line.join());
            assert_eq!([one, two, three].map(|number| line.before(number)), [0, 1, 2]);
            line.leave(two);
            assert_eq!([one, two, three].map(|number| line.before(number)), [0, 0, 0]);
            line.leave(one);
            assert_eq!(line.before(line.join()), 1);
        }

        /// All are busy: each has turns, of many batches.
        #[test]
        fn each_of_many_gets_its_turns() {
            const WORKERS: usize = 4;
            const ENOUGH: u64 = if cfg!(miri) { 20 } else { 2_000 };
            let floor = Floor::default();
            let (is_done, changes) = (AtomicBool::new(false), AtomicU64::new(0));
            let taken = [(); WORKERS].map(|()| AtomicU64::new(0));
            let work = |worker| {
                while !is_done.load(Ordering::Relaxed) {
                    floor.be_polite(worker, WORKERS, || is_done.load(Ordering::Relaxed));
                    let before = Last(floor.last.load(Ordering::Relaxed));
                    let held = floor.take(worker);
                    changes.fetch_add(u64::from(!before.is_by(worker)), Ordering::Relaxed);
                    taken[worker].fetch_add(1, Ordering::Relaxed);
                    let has_enough = |one: &AtomicU64| one.load(Ordering::Relaxed) >= ENOUGH;
                    is_done.fetch_or(taken.iter().all(has_enough), Ordering::Relaxed);
                    drop(held);
                }
            };
            let start = Instant::now();
            thread::scope(|threads| {
                (0..WORKERS).for_each(|worker| _ = threads.spawn(move || work(worker)));
            });
            let (taken, changes) =
                (taken.map(AtomicU64::into_inner).iter().sum::<u64>(), changes.into_inner());
            assert!(changes * 8 < taken || cfg!(miri), "{changes} changes of {taken}");
            assert!(start.elapsed() < Duration::from_secs(60));
        }

        #[test]
        fn who_wants_it_is_not_forgotten_when_it_is_taken_again() {
            let floor = Floor::default();
            drop(floor.take(0));
            floor.wanted.store(1, Ordering::Relaxed);
            drop(floor.take(0));
            assert_eq!(floor.wanted.load(Ordering::Relaxed), 1);
            drop(floor.take(1));
            assert_eq!(floor.wanted.load(Ordering::Relaxed), 0);
            floor.wanted.store(1, Ordering::Relaxed);
            floor.be_polite(1, 2, || false);
            assert_eq!(
                floor.wanted.load(Ordering::Relaxed),
                0,
                "it has stepped back, and nobody has come"
            );
        }

        /// However busy the other is, it gets its turns.
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
                let start = Instant::now();
                for _ in 0..100 {
                    floor.be_polite(1, 2, || false);
                    drop(floor.take(1));
                }
                is_done.store(true, Ordering::Relaxed);
                assert!(start.elapsed() < Duration::from_secs(20));
            });
        }

        #[test]
        fn workers_and_counts_do_not_run_into_each_other() {
            let last = Last(u64::MAX >> 16).next(3);
            assert_eq!((last.worker(), last.next(65_533).worker()), (4, 65_534));
            assert_ne!(last.next(3), last);
        }
    }
}
