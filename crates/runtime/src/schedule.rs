//! When a store is told what has changed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use anabranch_nf::state::journal::{Moment, Round, Steps};
use anabranch_nf::{to_ns, to_ticks};

/// Between which batches workers tell a store what has changed: once a period, and what was only
/// refreshed once in a longer one. Workers that share state share it too.
#[derive(Debug)]
pub(crate) struct Schedule {
    began: Instant,
    period_ns: u64,
    refresh_ns: u64,
    /// When changes are told next, in nanoseconds since it began.
    next_ns: AtomicU64,
    /// The same for refreshes.
    next_refresh_ns: AtomicU64,
    /// When the round of refreshes began that is under way, or [`NEVER`].
    round_ns: AtomicU64,
    /// Its number, or the next one's.
    round: AtomicU32,
    /// When the last one ended, or something was told first, by the clock of the function, and how long after the one
    /// before: in ticks.
    round_end: AtomicU64,
    round_every: AtomicU32,
    /// Something may have changed since changes were told.
    owes: AtomicBool,
    /// The same of refreshes.
    owes_refreshes: AtomicBool,
    /// How far the clock of the function has come in what is to be told.
    clock_ns: AtomicU64,
    /// One of several workers is about to tell.
    claimed: AtomicBool,
    /// What workers write between two calls of [`owe`](Self::owe) they write in one step; in transactions, what is
    /// committed together.
    steps: Steps,
}

/// It is time to tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    now_ns: u64,
    /// Refreshes too, of this round.
    pub(crate) refreshes: Option<Round>,
    /// Refreshes that are not told in this turn are asked for so many turns later: one, or more.
    pub(crate) later: u32,
    /// Nothing of it can be put off.
    pub(crate) must: bool,
}

/// What one turn leaves of the changes is told so many nanoseconds later.
const SOON_NS: u64 = 1_000_000;
/// And not sooner than this.
const AT_ONCE_NS: u64 = 10_000;

const NEVER: u64 = u64::MAX;

/// What is written every time goes from core to core.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

impl Schedule {
    /// Changes are told every `period_ns` nanoseconds, refreshes every `refresh_ns`, in these steps.
    pub(crate) fn new(period_ns: u64, refresh_ns: u64, steps: Steps) -> Self {
        Self {
            began: Instant::now(),
            period_ns,
            refresh_ns,
            next_ns: AtomicU64::new(0),
            next_refresh_ns: AtomicU64::new(refresh_ns),
            round_ns: AtomicU64::new(NEVER),
            round: AtomicU32::new(1),
            round_end: AtomicU64::new(0),
            round_every: AtomicU32::new(to_ticks(refresh_ns)),
            owes: AtomicBool::new(false),
            owes_refreshes: AtomicBool::new(false),
            clock_ns: AtomicU64::new(0),
            claimed: AtomicBool::new(false),
            steps,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The steps in which workers write.
    pub(crate) fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Something may have changed, by a batch of packets, or whatever else belongs together.
    pub(crate) fn owe(&self) {
        self.steps.next();
        self.owe_changes();
    }

    /// The same by transactions, which take their steps themselves.
    pub(crate) fn owe_changes(&self) {
        set(&self.owes);
        set(&self.owes_refreshes);
    }

    /// The same where nobody else writes just now.
    pub(crate) fn owe_alone(&self) {
        self.steps.next_alone();
        self.owe_changes();
    }

    /// Something may have been written at `now_ns` by the clock of the function, at which a worker says so that does
    /// not tell: to a tick, so that it is seldom written.
    pub(crate) fn note_clock(&self, now_ns: u64) {
        if now_ns > self.clock_ns.load(Ordering::Relaxed).saturating_add(to_ns(1)) {
            self.clock_ns.fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// How far the clock of the function has come in what is told at `now_ns`.
    pub(crate) fn clock_ns(&self, now_ns: u64) -> u64 {
        self.clock_ns.load(Ordering::Relaxed).max(now_ns)
    }

    /// Something may have been refreshed, and nothing else.
    pub(crate) fn owe_refreshes(&self) {
        set(&self.owes_refreshes);
    }

    /// When something is to be told.
    fn due_ns(&self) -> Option<u64> {
        let due = |owes: &AtomicBool, next_ns: &AtomicU64| {
            owes.load(Ordering::Relaxed).then(|| next_ns.load(Ordering::Relaxed))
        };
        let changes = due(&self.owes, &self.next_ns);
        changes.into_iter().chain(due(&self.owes_refreshes, &self.next_refresh_ns)).min()
    }

    /// Whether something is to be told now.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let due_ns = self.due_ns()?;
        let now_ns = self.now_ns();
        let is_time = now_ns >= self.next_refresh_ns.load(Ordering::Relaxed);
        let refreshes = is_time.then(|| self.next_round());
        (now_ns >= due_ns).then_some(Turn { now_ns, refreshes, later: 1, must: false })
    }

    /// The same for one of several workers: nobody else's until it is told or put off.
    pub(crate) fn claim(&self) -> Option<Turn> {
        let turn = self.turn()?;
        let is_free = !self.claimed.load(Ordering::Relaxed);
        (is_free && !self.claimed.swap(true, Ordering::Relaxed)).then_some(turn)
    }

    /// Everything is to be told now.
    pub(crate) fn whole(&self) -> Turn {
        let all = Round { turns: 1, ..Round::default() };
        Turn { now_ns: self.now_ns(), refreshes: Some(all), later: 1, must: true }
    }

    /// From one turn to the next of what takes several.
    pub(crate) fn soon_ns(&self) -> u64 {
        self.period_ns.clamp(AT_ONCE_NS, SOON_NS)
    }

    /// A round of refreshes takes three quarters of the time that it has: what they cost is spread over it, and
    /// the store is never told more of them at once than it has to be.
    fn next_round(&self) -> Round {
        let turns = self.refresh_ns / self.soon_ns() * 3 / 4;
        let turns = usize::try_from(turns).unwrap_or(usize::MAX).max(1);
        let [number, every] = [&self.round, &self.round_every].map(|n| n.load(Ordering::Relaxed));
        Round { number, turns, every }
    }

    /// Ticks since the last round ended.
    pub(crate) fn since_round(&self, moment: &Moment) -> u32 {
        let since = match self.round_end.load(Ordering::Relaxed) {
            0 => 0,
            end => moment.now().saturating_sub(end),
        };
        u32::try_from(since).unwrap_or(u32::MAX)
    }

    /// It has been, by who has the state to himself; `is_handed_over`: the store's flusher has it. What
    /// `moment` leaves of either is told soon. Where that was the end of a round of refreshes, how long it took.
    pub(crate) fn told(&self, turn: Turn, is_handed_over: bool, moment: &Moment) -> Option<u64> {
        let Turn { now_ns, refreshes, later, .. } = turn;
        if self.round_end.load(Ordering::Relaxed) == 0 {
            self.round_end.store(moment.now(), Ordering::Relaxed);
        }
        let soon_ns = now_ns.saturating_add(self.soon_ns());
        let is_left = moment.left() > 0;
        let next_ns = if is_left { soon_ns } else { now_ns.saturating_add(self.period_ns) };
        self.next_ns.store(next_ns, Ordering::Relaxed);
        self.owes.store(!is_handed_over || is_left, Ordering::Relaxed);
        let later_ns = now_ns.saturating_add(self.soon_ns() * u64::from(later));
        let round = match refreshes {
            Some(_) => self.told_refreshes(now_ns, later_ns, moment),
            None => {
                self.next_refresh_ns.fetch_max(later_ns, Ordering::Relaxed);
                None
            }
        };
        self.claimed.store(false, Ordering::Relaxed);
        round
    }

    fn told_refreshes(&self, now_ns: u64, later_ns: u64, moment: &Moment) -> Option<u64> {
        let has_more = moment.leaves_refreshes();
        let began_ns = self.round_ns.load(Ordering::Relaxed).min(now_ns);
        let next_ns = if has_more { later_ns } else { began_ns.saturating_add(self.refresh_ns) };
        self.next_refresh_ns.store(next_ns, Ordering::Relaxed);
        self.round_ns.store(if has_more { began_ns } else { NEVER }, Ordering::Relaxed);
        if !has_more {
            // After 2^32 - 1 comes 1; nobody else tells at once.
            let number = self.round.load(Ordering::Relaxed).wrapping_add(1).max(1);
            self.round.store(number, Ordering::Relaxed);
            // Not at once much shorter: what waits since a longer one had fewer of them to wait for.
            let least = self.round_every.load(Ordering::Relaxed) / 2;
            let every = self.since_round(moment).max(to_ticks(self.refresh_ns)).max(least);
            self.round_every.store(every, Ordering::Relaxed);
            self.round_end.store(moment.now(), Ordering::Relaxed);
        }
        // What was refreshed while it went on may have been behind: one that took one turn ends it, and leaves none
        // for later ones.
        let may_have_more = has_more || began_ns < now_ns || moment.has_refreshes_wait();
        self.owes_refreshes.store(may_have_more, Ordering::Relaxed);
        (!has_more).then(|| now_ns - began_ns)
    }

    /// How long it has been this turn, in nanoseconds.
    pub(crate) fn since_ns(&self, turn: Turn) -> u64 {
        self.now_ns().saturating_sub(turn.now_ns)
    }

    /// It has not been, and is to be a period later.
    pub(crate) fn put_off(&self, turn: Turn) {
        let later_ns = turn.now_ns.saturating_add(self.period_ns);
        self.next_ns.store(later_ns, Ordering::Relaxed);
        self.next_refresh_ns.fetch_max(later_ns, Ordering::Relaxed);
        self.claimed.store(false, Ordering::Relaxed);
    }

    /// How long, in nanoseconds, nothing is to be told without a packet.
    pub(crate) fn left_ns(&self) -> u64 {
        self.due_ns().map_or(u64::MAX, |due_ns| due_ns.saturating_sub(self.now_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFRESH_NS: u64 = 50_000_000;

    fn schedule() -> Schedule {
        Schedule::new(1_000, REFRESH_NS, Steps::default())
    }

    #[test]
    fn rounds_are_as_long_as_the_clock_of_the_function_says() {
        let (schedule, every) = (schedule(), to_ticks(REFRESH_NS));
        let told = |tick| {
            schedule.told(schedule.whole(), true, &Moment::new(7).at(tick));
            schedule.next_round().every
        };
        assert_eq!(told(100), every, "nothing is known of it yet");
        assert_eq!(told(100 + 40 * every), 40 * every, "a capture that is played fast");
        assert_eq!(schedule.since_round(&Moment::new(9).at(100 + 41 * every)), every + 2);
        for (more, halved) in (1..).zip([20 * every, 10 * every, 5 * every, 5 * every / 2]) {
            assert_eq!(told(101 + 40 * every + more), halved);
        }
    }

    /// What waits for a later round is told without a packet.
    #[test]
    fn a_round_that_leaves_others_is_followed_by_another() {
        let left = |waits: bool| {
            let (schedule, moment) = (schedule(), Moment::new(0));
            schedule.owe_refreshes();
            if waits {
                moment.leave_to_later_rounds();
            }
            let turn = schedule.whole();
            schedule.round_ns.store(turn.now_ns, Ordering::Relaxed);
            schedule.told(turn, true, &moment);
            schedule.left_ns()
        };
        assert!(left(true) <= REFRESH_NS);
        assert_eq!(left(false), u64::MAX);
    }
}
