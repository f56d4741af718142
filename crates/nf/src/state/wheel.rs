//! Lazy timer wheel: which entries to look at when time has passed.
//!
//! An entry's deadline lies in the entry itself, so that refreshing it is one store to a line that
//! the packet has touched anyway. The wheel only remembers *when to look again*: an entry found
//! refreshed goes back to its new deadline. Each entry is visited once per lifetime or horizon
//! (about 69 s), whichever is shorter, whatever its packet rate, and nothing ever walks the table.

use crate::memory::Zeroed;

/// Time in units of 2^20 ns (about 1.05 ms) since one unit before the first packet; 0 is "never".
pub type Tick = u32;

/// Heads of the wheel: the horizon in steps.
const HEADS: u32 = 1_024;
/// Ticks per step, as a power of two: 2^6 ticks, about 67 ms.
const STEP_BITS: u32 = 6;

const END: u32 = u32::MAX;
/// Of the list of entries that are due.
const DUE: u32 = HEADS;

/// The tick that does not come: what lives for ever ends then, from whatever origin ticks are counted.
pub(crate) const NEVER: Tick = Tick::MAX;

/// A deadline as a later origin has it, `by` ticks on; what has passed stays passed.
pub(crate) fn rebased(deadline: Tick, by: Tick) -> Tick {
    if matches!(deadline, 0 | NEVER) { deadline } else { deadline.saturating_sub(by).max(1) }
}

/// The tick at which wheels take their next step.
pub(crate) fn next_step(now: Tick) -> Tick {
    ((now >> STEP_BITS) + 1) << STEP_BITS
}

/// Of an entry's link: the entry after it, or [`END`].
const NEXT: usize = 0;
/// Of an entry's link: what stands before it.
const BEFORE: usize = 1;

/// What stands before an entry, in one word; 0 where it is in no list.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    Head(u32),
    Entry(u32),
}

impl Before {
    fn of(word: u32) -> Self {
        match word.checked_sub(1) {
            None => Self::Nothing,
            Some(head @ ..=DUE) => Self::Head(head),
            Some(entry) => Self::Entry(entry - DUE - 1),
        }
    }

    const fn head(head: u32) -> u32 {
        1 + head
    }

    /// There are fewer than 2^32 − 1,026 entries.
    const fn entry(entry: u32) -> u32 {
        2 + DUE + entry
    }
}

/// The wheel over entries `0 .. len`.
///
/// Where an entry stands follows from what was done with it alone, not from who had its place before:
/// tables that lay out the same entries in another way visit them in the same order.
pub struct Wheel {
    /// The first entry of each step's list, and of the entries of steps that have passed, still to be
    /// visited.
    heads: Box<[u32; HEADS as usize + 1]>,
    links: Zeroed<[u32; 2]>,
    /// The step up to which the wheel has turned.
    step: u32,
}

impl Wheel {
    /// Entries at most.
    pub const MOST: u32 = u32::MAX - DUE - 3;

    /// A wheel for entries `0 .. len`.
    pub fn new(len: u32) -> Self {
        Self::with(Zeroed::new(len as usize))
    }

    /// The same, where of entries from `dense` on few are queued, or those that are lie far apart.
    pub fn sparse(len: u32, dense: u32) -> Self {
        Self::with(Zeroed::sparse(len as usize, dense as usize))
    }

    fn with(links: Zeroed<[u32; 2]>) -> Self {
        Self { heads: Box::new([END; HEADS as usize + 1]), links, step: 0 }
    }

    /// One that has turned as far, for entries `0 .. len`, none of them queued.
    pub(crate) fn emptied(&self, len: u32) -> Self {
        Self { step: self.step, ..Self::new(len) }
    }

    /// Bytes of memory when every entry has been queued.
    pub fn bytes(&self) -> usize {
        self.links.len() * size_of::<[u32; 2]>() + size_of_val(&*self.heads)
    }

    /// Looks at `entry` soon after `deadline`, and not at another time.
    pub fn queue(&mut self, entry: u32, deadline: Tick) {
        self.dequeue(entry);
        let wanted = (deadline >> STEP_BITS) + 1;
        let step = wanted.clamp(self.step + 1, self.step + HEADS - 1);
        let head = step % HEADS;
        let next = std::mem::replace(&mut self.heads[head as usize], entry);
        if next != END {
            self.links[next as usize][BEFORE] = Before::entry(entry);
        }
        self.links[entry as usize] = [next, Before::head(head)];
    }

    /// Does not look at `entry` any more.
    pub fn dequeue(&mut self, entry: u32) {
        let [next, before] = std::mem::take(&mut self.links[entry as usize]);
        match Before::of(before) {
            Before::Nothing => return,
            Before::Head(head) => self.heads[head as usize] = next,
            Before::Entry(other) => self.links[other as usize][NEXT] = next,
        }
        if next != END {
            self.links[next as usize][BEFORE] = before;
        }
    }

    /// The next entry to be visited at `now`, if any. It is no longer queued.
    pub fn pop(&mut self, now: Tick) -> Option<u32> {
        loop {
            let entry = self.heads[DUE as usize];
            if entry != END {
                self.dequeue(entry);
                return Some(entry);
            }
            let target = now >> STEP_BITS;
            if self.step >= target {
                return None;
            }
            // After a gap longer than the horizon one turn reaches every head.
            self.step = (self.step + 1).max(target.saturating_sub(HEADS - 1));
            let first = std::mem::replace(&mut self.heads[(self.step % HEADS) as usize], END);
            self.heads[DUE as usize] = first;
            if first != END {
                self.links[first as usize][BEFORE] = Before::head(DUE);
            }
        }
    }

    /// Ticks are counted from a later origin: `by` of them, a multiple of the horizon, so that every
    /// entry stays under its head. What was due then is visited at once.
    pub fn rebase(&mut self, by: Tick) {
        self.step = self.step.saturating_sub(by >> STEP_BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn turn_to(wheel: &mut Wheel, now: Tick) -> Vec<u32> {
        let mut visited: Vec<u32> = std::iter::from_fn(|| wheel.pop(now)).collect();
        visited.sort_unstable();
        visited
    }

    /// Whatever ticks are counted from: later, in another worker, in a store.
    #[test]
    fn what_never_ends_stays_so() {
        use crate::context::{FOREVER, ends, to_ticks};
        use crate::state::journal::Moment;
        use crate::state::shards::{Bundle, ShardSet};
        const DAY_NS: u64 = 86_400_000_000_000;
        assert_eq!((to_ticks(u64::MAX), to_ticks(27 * DAY_NS)), (FOREVER, FOREVER));
        assert!(to_ticks(26 * DAY_NS) < FOREVER);
        assert_eq!(ends(5, FOREVER), NEVER);
        assert_eq!(ends(1 << 31, FOREVER - 1), NEVER - 1, "what ends does so before");
        assert_eq!(rebased(NEVER, 1 << 31), NEVER);
        let bundle = |origin_ns| Bundle::new(ShardSet::default(), origin_ns);
        assert_eq!(bundle(0).shift(DAY_NS).of(NEVER), NEVER);
        assert_eq!(bundle(1 << 60).shift(0).of(7), NEVER - 1, "what ends does so in the end");
        let told = Moment::new(9).absolute(NEVER);
        assert_eq!(Moment::new(1 << 40).deadline(told, 7), NEVER);
        assert_eq!(Moment::new(0).at(5).deadline(1 << 40, 7), 5 + 7, "the clock has gone back");
        assert_eq!(Moment::new(0).at(5).deadline(1 << 40, FOREVER - 1), 5 + FOREVER - 1);
        assert_eq!(Moment::new(9).at(5).deadline(11, 7), 2, "it goes on");
        assert_eq!(Moment::new(9).at(5).deadline(3, 7), 1, "it is over");
        assert_eq!(Moment::new(0).deadline(9, FOREVER), NEVER, "an older release had cut it");
    }

    #[test]
    fn visits_after_the_deadline_and_within_the_horizon() {
        let mut wheel = Wheel::new(4);
        wheel.queue(0, 100);
        wheel.queue(1, 10_000);
        wheel.queue(2, 10_000_000);
        assert_eq!(turn_to(&mut wheel, 99), []);
        assert_eq!(turn_to(&mut wheel, 200), [0]);
        assert_eq!(turn_to(&mut wheel, 10_100), [1]);
        assert_eq!(turn_to(&mut wheel, 70_000), [2], "beyond the horizon it is looked at again");
    }

    #[test]
    fn a_leap_of_weeks_visits_each_entry_once() {
        let mut wheel = Wheel::new(1_000);
        for entry in 0..1_000 {
            wheel.queue(entry, entry * 50);
        }
        assert_eq!(turn_to(&mut wheel, u32::MAX / 2), (0..1_000).collect::<Vec<_>>());
        wheel.queue(7, u32::MAX / 2 + 100);
        assert_eq!(turn_to(&mut wheel, u32::MAX / 2 + 1_000), [7]);
    }

    #[test]
    fn who_had_an_entrys_place_before_does_not_matter() {
        let mut wheel = Wheel::new(3);
        (0..3).for_each(|entry| wheel.queue(entry, 100));
        wheel.dequeue(1);
        wheel.dequeue(1);
        wheel.queue(0, 1_000);
        assert_eq!(turn_to(&mut wheel, 500), [2]);
        wheel.queue(2, 2_000);
        wheel.dequeue(0);
        assert_eq!(turn_to(&mut wheel, 5_000), [2]);
        assert_eq!(turn_to(&mut wheel, 500_000), []);
    }

    #[test]
    fn a_turn_that_is_broken_off_loses_nothing() {
        let mut wheel = Wheel::new(100);
        (0..100).for_each(|entry| wheel.queue(entry, 5));
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.extend((0..10).map(|_| wheel.pop(1_000).unwrap()));
        }
        assert_eq!(wheel.pop(1_000), None);
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

        #[test]
        fn every_entry_expires_once_between_its_deadline_and_one_step_later(
            deadlines in prop::collection::vec(0u32..60_000, 1..200),
            strides in prop::collection::vec(1u32..2_000, 100..200),
        ) {
            let mut wheel = Wheel::new(deadlines.len() as u32);
            for (entry, &deadline) in deadlines.iter().enumerate() {
                wheel.queue(entry as u32, deadline);
            }
            let (mut now, mut left) = (0, deadlines.len());
            for stride in strides {
                let before = now;
                now += stride;
                for entry in turn_to(&mut wheel, now) {
                    let deadline = deadlines[entry as usize];
                    prop_assert!(deadline <= now, "early: {deadline} at {now}");
                    prop_assert!(deadline + 2 * (1 << STEP_BITS) > before, "late: {deadline} at {now}");
                    left -= 1;
                }
            }
            left -= turn_to(&mut wheel, 1_000_000).len();
            prop_assert_eq!(left, 0);
        }
    }
}
