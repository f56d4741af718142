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

const UNQUEUED: u32 = 0;
const END: u32 = u32::MAX;

/// A deadline as a later origin has it, `by` ticks on; what has passed stays passed.
pub(crate) fn rebased(deadline: Tick, by: Tick) -> Tick {
    if deadline == 0 { 0 } else { deadline.saturating_sub(by).max(1) }
}

/// The tick at which wheels take their next step.
pub(crate) fn next_step(now: Tick) -> Tick {
    ((now >> STEP_BITS) + 1) << STEP_BITS
}

/// The wheel over entries `0 .. len`.
pub struct Wheel {
    heads: Box<[u32; HEADS as usize]>,
    /// Per entry: 0 when not queued, else the next entry plus one, or `END`.
    next: Zeroed<u32>,
    /// The step up to which the wheel has turned.
    step: u32,
    /// Entries of steps that have passed, still to be visited.
    due: u32,
}

impl Wheel {
    /// A wheel for entries `0 .. len`.
    pub fn new(len: u32) -> Self {
        Self {
            heads: Box::new([END; HEADS as usize]),
            next: Zeroed::new(len as usize),
            step: 0,
            due: END,
        }
    }

    /// Bytes of memory when every entry has been queued.
    pub fn bytes(&self) -> usize {
        self.next.len() * size_of::<u32>() + size_of::<[u32; HEADS as usize]>()
    }

    /// Looks at `entry` soon after `deadline`. An entry that is queued already stays where it is:
    /// it is visited within the horizon anyway.
    pub fn queue(&mut self, entry: u32, deadline: Tick) {
        if self.next[entry as usize] != UNQUEUED {
            return;
        }
        let wanted = (deadline >> STEP_BITS) + 1;
        let step = wanted.clamp(self.step + 1, self.step + HEADS - 1);
        let head = &mut self.heads[(step % HEADS) as usize];
        self.next[entry as usize] = *head;
        *head = entry + 1;
    }

    /// The next entry to be visited at `now`, if any. It is no longer queued.
    pub fn pop(&mut self, now: Tick) -> Option<u32> {
        loop {
            if self.due != END {
                let entry = self.due - 1;
                self.due = std::mem::replace(&mut self.next[entry as usize], UNQUEUED);
                return Some(entry);
            }
            let target = now >> STEP_BITS;
            if self.step >= target {
                return None;
            }
            // After a gap longer than the horizon one turn reaches every head.
            self.step = (self.step + 1).max(target.saturating_sub(HEADS - 1));
            self.due = std::mem::replace(&mut self.heads[(self.step % HEADS) as usize], END);
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
