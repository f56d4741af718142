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

/// Batches of a worker by one way until the other is tried: a trial then costs well under 1 %, whatever it
/// finds.
const LONG: u32 = if cfg!(test) { 24 } else { 8_192 };
/// The same before the first trial.
const FIRST: u32 = if cfg!(test) { 3 } else { 256 };
/// Batches of all workers in a stretch of a trial.
const SHORT: u32 = if cfg!(test) { 4 } else { 32 };
/// The same where the way alternates.
const ALTERNATING: u32 = 6;
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
    fn next(self, takes_turns: bool, is_trial: bool) -> Self {
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
    choice: Choice,
    trial: Mutex<Trial>,
    /// Held by who has the turn.
    pub(crate) floor: CachePadded<Floor>,
}

/// A trial under way.
#[derive(Debug)]
struct Trial {
    /// The way that all go: what is counted is counted for it.
    way: Way,
    stretch: u32,
    /// In this stretch.
    batches: u32,
    items: u64,
    /// What workers have spent on batches, those that wait included.
    time: Duration,
    /// Workers that are at it, as far as they know of the trial, and until when their time is counted.
    busy: u32,
    until: Instant,
    /// The least that an item has cost beside others, and in turns, in picoseconds.
    costs: [u64; 2],
}

impl Turns {
    /// Workers take turns or do not, as said; `None`: as it is measured, or where `ordered` both alternately.
    pub(crate) fn new(fixed: Option<bool>, ordered: bool) -> Self {
        let (way, choice) = match fixed {
            Some(takes_turns) => (u64::from(takes_turns) * TURNS, Choice::Fixed),
            None if ordered => (TRIAL, Choice::Alternating),
            None => (0, Choice::Measured),
        };
        let (floor, trial) = (CachePadded::new(Floor::default()), Mutex::new(Trial::new(Way(way))));
        Self { way: CachePadded::new(AtomicU64::new(way)), choice, trial, floor }
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
            Way(..WHILE) => FIRST,
            _ => LONG,
        }
    }

    /// A worker begins a batch in a trial, or just after.
    pub(crate) fn begin(&self, now: Instant) {
        let mut trial = self.trial();
        trial.spend(now);
        trial.busy += 1;
    }

    /// It has handled that batch, all of it in the while `way` where that is known. True: that while is over.
    pub(crate) fn end(&self, way: Option<Way>, items: usize, now: Instant) -> bool {
        let mut trial = self.trial();
        trial.spend(now);
        trial.busy = trial.busy.saturating_sub(1);
        if Some(trial.way) != way {
            return false;
        }
        trial.batches += 1;
        trial.items += items as u64;
        trial.batches >= if self.choice == Choice::Measured { SHORT } else { ALTERNATING }
    }

    /// The while `way` is over: begins the next, and returns it, unless somebody else has. For who is alone.
    pub(crate) fn go_on(&self, way: Way, now: Instant) -> Option<Way> {
        let next = self.after(way, now)?;
        self.way.store(next.0, Ordering::Relaxed);
        Some(next)
    }

    fn after(&self, way: Way, now: Instant) -> Option<Way> {
        let mut trial = self.trial();
        trial.spend(now);
        trial.way = match self.choice {
            _ if trial.way != way => return None,
            Choice::Fixed => return None,
            Choice::Alternating => way.next(!way.takes_turns(), true),
            Choice::Measured => trial.next(),
        };
        (trial.batches, trial.items, trial.time) = Default::default();
        Some(trial.way)
    }

    /// Nobody who holds it panics.
    fn trial(&self) -> std::sync::MutexGuard<'_, Trial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trial {
    fn new(way: Way) -> Self {
        let (time, until, costs) = (Duration::ZERO, Instant::now(), [u64::MAX; 2]);
        Self { way, stretch: 0, batches: 0, items: 0, time, busy: 0, until, costs }
    }

    /// Counts the time until `now`.
    fn spend(&mut self, now: Instant) {
        self.time += now.saturating_duration_since(self.until) * self.busy;
        self.until = now.max(self.until);
    }

    /// The way after this one.
    fn next(&mut self) -> Way {
        let way = self.way;
        let (this, other) = (way.takes_turns(), !way.takes_turns());
        if !way.is_trial() {
            (self.stretch, self.costs) = (1, [u64::MAX; 2]);
            return way.next(other, true);
        }
        let cost = (self.time.as_nanos() * 1_000 / u128::from(self.items.max(1))) as u64;
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
            let time = Duration::from_micros(late * 32 * costs[usize::from(way.takes_turns())]);
            let mut batch = |of| {
                turns.begin(*now);
                *now += time;
                turns.end(of, 32, *now)
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
        let turns = Turns::new(None, false);
        let costs = [[5, 10], [10, 10], [10, 9], [10, 5], [9, 10], [10, 10], [10, 11], [5, 10]];
        let mut now = Instant::now();
        let taken = costs.map(|costs| tried(&turns, &mut now, costs));
        assert_eq!(taken, [false, false, false, true, true, true, true, false]);
    }

    #[test]
    fn what_is_fixed_stays() {
        for fixed in [false, true] {
            let turns = Turns::new(Some(fixed), true);
            let next = turns.go_on(turns.way(), Instant::now());
            assert_eq!((turns.way().takes_turns(), next), (fixed, None));
        }
    }

    /// One worker goes on at once and another waits: what that costs is no less for being a wait.
    #[test]
    fn waiting_is_time_spent() {
        let turns = Turns::new(None, false);
        let mut now = Instant::now();
        let mut way = turns.go_on(turns.way(), now).unwrap();
        while way.is_trial() {
            let waits = way.takes_turns();
            (0..u32::from(waits)).for_each(|_| turns.begin(now));
            for _ in 0..SHORT {
                turns.begin(now);
                now += Duration::from_micros(if waits { 15 } else { 20 });
                turns.end(Some(way), 1, now);
            }
            (0..u32::from(waits)).for_each(|_| _ = turns.end(None, 1, now));
            way = turns.go_on(way, now).unwrap();
        }
        assert!(!way.takes_turns(), "a packet takes 30 in turns, and 20 in transactions");
    }
}
