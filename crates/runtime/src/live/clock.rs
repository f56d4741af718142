//! The clock of a live run.

use std::time::Instant;

use anabranch_io::live::realtime_ns;

/// Nanoseconds since the Unix epoch that never go back: the system's clock when the run began, or that of the run
/// before if it was ahead, and the time that has passed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveClock {
    origin_ns: u64,
    ahead_ns: u64,
    started: Instant,
}

impl LiveClock {
    /// Starts the clock.
    pub(super) fn start() -> Self {
        Self { origin_ns: realtime_ns(), ahead_ns: 0, started: Instant::now() }
    }

    /// The same, ahead of it by so many nanoseconds more.
    pub(super) fn ahead_by(self, ahead_ns: u64) -> Self {
        let origin_ns = self.origin_ns.saturating_add(ahead_ns);
        Self { origin_ns, ahead_ns: self.ahead_ns.saturating_add(ahead_ns), ..self }
    }

    /// How far it is ahead of the system's.
    pub(super) fn ahead_ns(&self) -> u64 {
        self.ahead_ns
    }

    /// When it was started.
    pub(super) fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// What it shows at `now`.
    #[inline]
    pub(super) fn at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.started);
        self.origin_ns.saturating_add(passed.as_nanos() as u64)
    }
}
