//! The clock of a live run.

use std::time::Instant;

use anabranch_io::live::realtime_ns;

/// Nanoseconds since the Unix epoch that never go back: the system's clock when the run began, and the
/// time that has passed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveClock {
    origin_ns: u64,
    started: Instant,
}

impl LiveClock {
    /// Starts the clock.
    pub(super) fn start() -> Self {
        Self { origin_ns: realtime_ns(), started: Instant::now() }
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
