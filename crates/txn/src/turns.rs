//! Taking turns: a batch at a time with nobody beside it, where that is faster than transactions.
//!
//! ```text
//! for long: the way that was faster ─▶ trial: the other, this, the other, this ─▶ the faster, for long …
//! ```
//!
//! Who has a turn reads and writes objects where they are. That costs each packet less than a transaction,
//! but only one worker has it at a time; what that comes to depends on what packets write, and is measured.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::floor::Floor;
use crate::sync::{AtomicU64, Ordering};

/// How long one way is gone until the other is tried, at least, and in times of how long the last trial was: half
/// of that was by the other way, which costs 1 % then if nothing is done by it.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 2 } else { 50 });
const SELDOM: u64 = if cfg!(test) { 1 } else { 50 };
/// Batches after which a worker looks whether that is over; the first time it is.
const LOOK: u32 = if cfg!(test) { 3 } else { 256 };
/// Batches of all workers in a stretch of a trial, at least.
const SHORT: u64 = if cfg!(test) { 4 } else { 32 };
/// The same where the way alternates.
const ALTERNATING: u64 = 6;
/// How long a stretch is for each two workers, at least: some times what it takes all of them to begin it. Who
/// waited for a turn is asleep, and one is woken after the other.
const STRETCH: Duration = Duration::from_micros(100);
/// Stretches of a trial by each way. The faster one counts: the other may have been interrupted.
const ROUNDS: u32 = 2;
/// The other way is taken when its cost is below so many hundredths of this one's: no two trials measure the
/// same.
const BETTER: u64 = 90;

/// How batches are handled for a while, and which while that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way(u64);

const TURNS: u64 = 1;
const TRIAL: u64 = 2;
const WHILE: u64 = 4;

impl Way {
    /// One batch after the other, not beside each other.
    #[inline(always)]
    pub(crate) fn takes_turns(self) -> bool {
        self.0 & TURNS != 0
    }

    /// Batches are counted and timed.
    #[inline(always)]
    pub(crate) fn is_trial(self) -> bool {
        self.0 & TRIAL != 0
    }

    /// The next while.
    pub(crate) fn next(self, takes_turns: bool, is_trial: bool) -> Self {
        let flags = if takes_turns { TURNS } else { 0 } | if is_trial { TRIAL } else { 0 };
        Self(((self.0 & !(TURNS | TRIAL)) + WHILE) | flags)
    }
}

/// What decides on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Fixed,
    /// Both in turn, so that what is tested is tested in either, and where one gives way to the other.
    Alternating,
    Measured,
}

/// The way that all workers go.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Looked at by who waits while others count in the trial.
    way: CachePadded<AtomicU64>,
    /// Since when that way is gone, in nanoseconds since `start`, and that start.
    since_ns: AtomicU64,
    start: Instant,
    /// How long it is gone before the other is tried.
    pause_ns: AtomicU64,
    choice: Choice,
    trial: Mutex<Trial>,
    /// Of each worker.
    spent: Box<[CachePadded<Spent>]>,
    /// Held by who has the turn.
    pub(crate) floor: CachePadded<Floor>,
}

/// What one worker has done in this stretch of a trial. It alone writes it, while others may look: a lock would cost
/// those most who are at work at the same time.
#[derive(Debug, Default)]
struct Spent {
    /// The way that is counted.
    way: AtomicU64,
    batches: AtomicU64,
    items: AtomicU64,
    /// Time on batches that are done, waiting for the turn included.
    time_ns: AtomicU64,
    /// Since when it is at one; 0: it is not.
    began_ns: AtomicU64,
}

/// A trial under way.
#[derive(Debug)]
struct Trial {
    began_ns: u64,
    stretch: u32,
    /// The least that an item has cost beside others, and in turns, in picoseconds.
    costs: [u64; 2],
}

impl Turns {
    /// Workers, so many, take turns or do not, as said; `None`: as it is measured, or where `ordered` both
    /// alternately.
    pub(crate) fn new(workers: usize, fixed: Option<bool>, ordered: bool) -> Self {
        let (way, choice) = match fixed {
            Some(takes_turns) => (u64::from(takes_turns) * TURNS, Choice::Fixed),
            None if ordered => (TRIAL, Choice::Alternating),
            None => (0, Choice::Measured),
        };
        Self {
            way: CachePadded::new(AtomicU64::new(way)),
            since_ns: AtomicU64::new(0),
            start: Instant::now(),
            pause_ns: AtomicU64::new(PAUSE.as_nanos() as u64),
            choice,
            trial: Mutex::new(Trial { began_ns: 0, stretch: 0, costs: [u64::MAX; 2] }),
            spent: (0..workers).map(|_| CachePadded::default()).collect(),
            floor: CachePadded::default(),
        }
    }

    /// It changes only while nobody is at work: the gate publishes it.
    #[inline(always)]
    pub(crate) fn way(&self) -> Way {
        Way(self.way.load(Ordering::Relaxed))
    }

    /// After how many batches a worker is to look whether something has to be done, by this way.
    pub(crate) fn patience(&self, way: Way) -> u32 {
        match way {
            _ if self.choice == Choice::Fixed => u32::MAX,
            _ if way.is_trial() => 1,
            _ => LOOK,
        }
    }

    /// `worker` begins a batch in a trial, or just after.
    pub(crate) fn begin(&self, worker: usize, now: Instant) {
        self.spent[worker].began_ns.store(self.ns(now), Ordering::Relaxed);
    }

    /// It has handled that batch, all of it in the while `way` where that is known. True: that while is over.
    pub(crate) fn end(&self, worker: usize, way: Option<Way>, items: usize, now: Instant) -> bool {
        let current = Way(self.way.load(Ordering::Acquire));
        let (since_ns, now_ns) = (self.since_ns.load(Ordering::Relaxed), self.ns(now));
        let spent = &self.spent[worker];
        spent.stop(current, since_ns, now_ns);
        if way != Some(current) {
            return false;
        }
        add(&spent.batches, 1);
        add(&spent.items, items as u64);
        let stretch_ns = STRETCH.as_nanos() as u64 * self.spent.len().div_ceil(2) as u64;
        let is_long = now_ns.saturating_sub(since_ns) >= stretch_ns;
        match self.choice {
            Choice::Measured => is_long && self.counted(current, |spent| &spent.batches) >= SHORT,
            _ => self.counted(current, |spent| &spent.batches) >= ALTERNATING,
        }
    }

    /// Whether it is time to try the other way than `way`, which is gone at the moment.
    pub(crate) fn is_time(&self, way: Way, now: Instant) -> bool {
        let gone_ns = self.ns(now).saturating_sub(self.since_ns.load(Ordering::Relaxed));
        let is_time = way.0 < WHILE || gone_ns >= self.pause_ns.load(Ordering::Relaxed);
        self.choice != Choice::Fixed && self.way() == way && is_time
    }

    /// The while `way` is over: begins the next, and returns it, unless somebody else has. For who is alone.
    pub(crate) fn go_on(&self, way: Way, now: Instant) -> Option<Way> {
        let now_ns = self.ns(now);
        let next = match self.choice {
            _ if self.way() != way => return None,
            Choice::Fixed => return None,
            Choice::Alternating => way.next(!way.takes_turns(), true),
            Choice::Measured => self.after(way, now_ns),
        };
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.way.store(next.0, Ordering::Release);
        Some(next)
    }

    /// The way after `way`, as it is measured.
    fn after(&self, way: Way, now_ns: u64) -> Way {
        // Nobody who holds it panics.
        let mut trial = self.trial.lock().unwrap_or_else(PoisonError::into_inner);
        if !way.is_trial() {
            *trial = Trial { began_ns: now_ns, stretch: 1, costs: [u64::MAX; 2] };
            return way.next(!way.takes_turns(), true);
        }
        let next = trial.next(way, self.cost(way, now_ns));
        if !next.is_trial() {
            let pause_ns = SELDOM * now_ns.saturating_sub(trial.began_ns);
            self.pause_ns.store(pause_ns.max(PAUSE.as_nanos() as u64), Ordering::Relaxed);
        }
        next
    }

    /// What an item has cost since `way` is gone, in picoseconds. Who has just come to the end of a batch may not
    /// have been counted.
    fn cost(&self, way: Way, now_ns: u64) -> u64 {
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        let waits: u64 = self.spent.iter().map(|spent| spent.under_way(since_ns, now_ns)).sum();
        let time_ns = waits + self.counted(way, |spent| &spent.time_ns);
        time_ns.saturating_mul(1_000) / self.counted(way, |spent| &spent.items).max(1)
    }

    /// The sum of what workers have counted of this way.
    fn counted(&self, way: Way, count: impl Fn(&Spent) -> &AtomicU64) -> u64 {
        let of_way = self.spent.iter().filter(|spent| spent.way.load(Ordering::Acquire) == way.0);
        of_way.map(|spent| count(spent).load(Ordering::Relaxed)).sum()
    }

    /// Nanoseconds since the start; never 0.
    fn ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_nanos() as u64 + 1
    }
}

/// Adds to what this worker alone writes.
fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Spent {
    /// How long it is at a batch, as far as that was since `since_ns`.
    fn under_way(&self, since_ns: u64, now_ns: u64) -> u64 {
        match self.began_ns.load(Ordering::Relaxed) {
            0 => 0,
            began_ns => now_ns.saturating_sub(began_ns.max(since_ns)),
        }
    }

    /// The worker is no longer at a batch: what that took is counted for `way`, gone since `since_ns`.
    fn stop(&self, way: Way, since_ns: u64, now_ns: u64) {
        let took_ns = self.under_way(since_ns, now_ns);
        self.began_ns.store(0, Ordering::Relaxed);
        if self.way.load(Ordering::Relaxed) != way.0 {
            // Zero before it is said of what.
            let counts = [&self.batches, &self.items, &self.time_ns];
            counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
            self.way.store(way.0, Ordering::Release);
        }
        add(&self.time_ns, took_ns);
    }
}

impl Trial {
    /// The way after `way`, a stretch of a trial, by which an item has cost so much.
    fn next(&mut self, way: Way, cost: u64) -> Way {
        let (this, other) = (way.takes_turns(), !way.takes_turns());
        let least = &mut self.costs[usize::from(this)];
        *least = cost.min(*least);
        if self.stretch < 2 * ROUNDS {
            self.stretch += 1;
            return way.next(other, true);
        }
        // The last stretch was by the way that was taken before.
        let [now, then] = [this, other].map(|way| u128::from(self.costs[usize::from(way)]));
        let is_better = then * 100 < now * u128::from(BETTER);
        way.next(if is_better { other } else { this }, false)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goes through a trial in which an item costs so much beside others, and in turns, in microseconds; the
    /// second time that a way is tried it is interrupted.
    fn tried(turns: &Turns, now: &mut Instant, costs: [u64; 2]) -> bool {
        let before = turns.way();
        assert!(!before.is_trial());
        let mut way = turns.go_on(before, *now).unwrap();
        let mut stretches = Vec::new();
        while way.is_trial() {
            assert_eq!(turns.go_on(before, *now), None, "somebody else has gone on");
            let late = if stretches.len() < 2 { 1 } else { 50 };
            stretches.push(way.takes_turns());
            let time = Duration::from_micros(late * 64 * costs[usize::from(way.takes_turns())]);
            let mut batch = |of| {
                turns.begin(0, *now);
                *now += time;
                turns.end(0, of, 32, *now)
            };
            assert!(!batch(Some(before)) && !batch(None), "they began in another while");
            let over: Vec<bool> = (0..SHORT).map(|_| batch(Some(way))).collect();
            assert_eq!(over.iter().position(|&over| over), Some(SHORT as usize - 1));
            way = turns.go_on(way, *now).unwrap();
        }
        let this = before.takes_turns();
        assert_eq!(stretches, [!this, this, !this, this]);
        way.takes_turns()
    }

    #[test]
    fn the_faster_way_is_taken_and_kept_until_the_other_is_faster_by_a_margin() {
        let turns = Turns::new(1, None, false);
        let costs = [[5, 10], [10, 10], [10, 9], [10, 5], [9, 10], [10, 10], [10, 11], [5, 10]];
        let mut now = Instant::now();
        let taken = costs.map(|costs| tried(&turns, &mut now, costs));
        assert_eq!(taken, [false, false, false, true, true, true, true, false]);
    }

    #[test]
    fn the_other_way_is_tried_seldom_and_for_long_enough() {
        let turns = Turns::new(1, None, false);
        let start = Instant::now();
        let after = |micros| start + Duration::from_micros(micros);
        assert!(turns.is_time(turns.way(), start), "the first time");
        let mut way = turns.go_on(turns.way(), start).unwrap();
        let mut now = 0;
        while way.is_trial() {
            let began = now;
            loop {
                turns.begin(0, after(now));
                now += 10;
                if turns.end(0, Some(way), 1, after(now)) {
                    break;
                }
            }
            assert_eq!(now - began, STRETCH.as_micros() as u64);
            way = turns.go_on(way, after(now)).unwrap();
        }
        assert!(!turns.is_time(way, after(now)));
        let later = after(now) + PAUSE;
        assert!(turns.is_time(way, later) && !turns.is_time(Way(way.0 + WHILE), later));
        assert!(!Turns::new(1, Some(true), false).is_time(Way(TURNS), later));
    }

    /// A trial of few batches in a long time.
    #[test]
    fn a_long_trial_is_followed_by_a_long_pause() {
        let turns = Turns::new(1, None, false);
        let mut now = Instant::now();
        let mut way = turns.go_on(turns.way(), now).unwrap();
        let began = now;
        while way.is_trial() {
            for _ in 0..SHORT {
                turns.begin(0, now);
                now += Duration::from_millis(1);
                turns.end(0, Some(way), 1, now);
            }
            way = turns.go_on(way, now).unwrap();
        }
        let pause = (now - began) * SELDOM as u32;
        assert!(pause > PAUSE && turns.is_time(way, now + pause));
        assert!(!turns.is_time(way, now + pause - Duration::from_micros(1)));
    }

    #[test]
    fn what_is_fixed_stays() {
        for fixed in [false, true] {
            let turns = Turns::new(1, Some(fixed), true);
            let next = turns.go_on(turns.way(), Instant::now());
            assert_eq!((turns.way().takes_turns(), next), (fixed, None));
        }
    }

    /// One worker goes on at once and another waits: what that costs is no less for being a wait.
    #[test]
    fn waiting_is_time_spent() {
        let turns = Turns::new(2, None, false);
        let mut now = Instant::now();
        let mut way = turns.go_on(turns.way(), now).unwrap();
        while way.is_trial() {
            let waits = way.takes_turns();
            (0..usize::from(waits)).for_each(|_| turns.begin(1, now));
            for _ in 0..SHORT {
                turns.begin(0, now);
                now += Duration::from_micros(if waits { 75 } else { 100 });
                turns.end(0, Some(way), 1, now);
            }
            let next = turns.go_on(way, now).unwrap();
            (0..usize::from(waits)).for_each(|_| _ = turns.end(1, None, 1, now));
            way = next;
        }
        assert!(!way.takes_turns(), "a packet takes 150 in turns, and 100 in transactions");
    }
}
