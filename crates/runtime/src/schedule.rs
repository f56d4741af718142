//! When a store is told what has changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anabranch_nf::state::journal::{Moment, Steps};

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
    /// Something may have changed since changes were told.
    owes: AtomicBool,
    /// The same of refreshes.
    owes_refreshes: AtomicBool,
    /// One of several workers is about to tell.
    claimed: AtomicBool,
    /// What workers write between two calls of [`owe`](Self::owe) they write in one step.
    steps: Steps,
}

/// It is time to tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    now_ns: u64,
    /// Refreshes too.
    refreshes: bool,
    /// Nothing of it can be put off.
    pub(crate) must: bool,
}

/// So many refreshed entries of an object are told in one turn, about: what they cost is spread over turns.
const REFRESHES: usize = 1_024;

/// What one turn leaves of the changes is told so many nanoseconds later.
const SOON_NS: u64 = 1_000_000;

impl Turn {
    /// How many entries of an object that were only refreshed are told.
    pub(crate) fn refreshes(self) -> usize {
        match (self.refreshes, self.must) {
            (false, _) => 0,
            (true, false) => REFRESHES,
            (true, true) => usize::MAX,
        }
    }
}

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
            owes: AtomicBool::new(false),
            owes_refreshes: AtomicBool::new(false),
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
        set(&self.owes);
        set(&self.owes_refreshes);
    }

    /// Something may have been refreshed, and nothing else.
    pub(crate) fn owe_refreshes(&self) {
        set(&self.owes_refreshes);
    }

    /// When something is to be told.
    fn due_ns(&self) -> Option<u64> {
        if self.owes.load(Ordering::Relaxed) {
            Some(self.next_ns.load(Ordering::Relaxed))
        } else if self.owes_refreshes.load(Ordering::Relaxed) {
            Some(self.next_refresh_ns.load(Ordering::Relaxed))
        } else {
            None
        }
    }

    /// Whether something is to be told now.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let due_ns = self.due_ns()?;
        let now_ns = self.now_ns();
        let refreshes = now_ns >= self.next_refresh_ns.load(Ordering::Relaxed);
        (now_ns >= due_ns).then_some(Turn { now_ns, refreshes, must: false })
    }

    /// The same for one of several workers: nobody else's until it is told or put off.
    pub(crate) fn claim(&self) -> Option<Turn> {
        let turn = self.turn()?;
        let is_free = !self.claimed.load(Ordering::Relaxed);
        (is_free && !self.claimed.swap(true, Ordering::Relaxed)).then_some(turn)
    }

    /// Everything is to be told now.
    pub(crate) fn whole(&self) -> Turn {
        Turn { now_ns: self.now_ns(), refreshes: true, must: true }
    }

    /// It has been, by who has the state to himself; `is_handed_over`: the store's flusher has it. What
    /// `moment` leaves of changes is told soon, what it leaves of refreshes a period later.
    pub(crate) fn told(&self, turn: Turn, is_handed_over: bool, moment: &Moment) {
        let Turn { now_ns, refreshes, .. } = turn;
        let soon_ns = if moment.left() > 0 { SOON_NS } else { u64::MAX };
        let next_ns = now_ns.saturating_add(self.period_ns.min(soon_ns));
        self.next_ns.store(next_ns, Ordering::Relaxed);
        self.owes.store(!is_handed_over || moment.left() > 0, Ordering::Relaxed);
        if refreshes {
            let has_more = moment.leaves_refreshes();
            let after_ns = if has_more { self.period_ns } else { self.refresh_ns };
            self.next_refresh_ns.store(now_ns.saturating_add(after_ns), Ordering::Relaxed);
            self.owes_refreshes.store(has_more, Ordering::Relaxed);
        }
        self.claimed.store(false, Ordering::Relaxed);
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
