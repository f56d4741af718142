//! The rate of ICMP errors.

/// Nanoseconds between two ICMP errors in the long run: 1,000 a second.
pub const INTERVAL_NS: u64 = 1_000_000;
/// ICMP errors that may follow each other at once.
pub const BURST: u64 = 50;

/// Who is further behind than this is at another time of a capture, and has a bucket of its own.
const BEHIND_NS: u64 = 1_000_000_000;

/// A token bucket (RFC 4443, 2.4 (f); RFC 1812, 4.3.2.8), as the time at which it will be full:
/// each error adds the interval to it, and it may lie at most the burst ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limiter {
    full_at: u64,
    /// When the latest error was sent. Who is a little behind has that time.
    latest: u64,
}

impl Limiter {
    /// The one that holds at `now`, of that of all workers and the `own` of one that is far behind the others.
    pub fn or<'a>(&'a mut self, own: &'a mut Self, now: u64) -> &'a mut Self {
        if self.latest > now.saturating_add(BEHIND_NS) { own } else { self }
    }

    /// Whether an error may be sent at `now`, in nanoseconds.
    pub fn allows(self, now: u64) -> bool {
        self.full_at <= self.latest.max(now).saturating_add((BURST - 1) * INTERVAL_NS)
    }

    /// An error has been sent at `now`.
    pub fn spend(&mut self, now: u64) {
        self.latest = self.latest.max(now);
        self.full_at = self.full_at.max(self.latest).saturating_add(INTERVAL_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(limiter: &mut Limiter, now: u64, wanted: u64) -> u64 {
        let allowed = (0..wanted).filter(|_| {
            let allowed = limiter.allows(now);
            if allowed {
                limiter.spend(now);
            }
            allowed
        });
        allowed.count() as u64
    }

    #[test]
    fn who_is_behind_has_what_is_left_or_its_own() {
        let (mut all, mut own) = (Limiter::default(), Limiter::default());
        let start = 1_700_000_000_000_000_000;
        assert_eq!(sent(&mut all, start, 20), 20);
        // By less than a second: of the same burst.
        assert_eq!(sent(all.or(&mut own, start - BEHIND_NS), start - BEHIND_NS, 1_000), BURST - 20);
        assert_eq!(own.full_at, 0);
        // By hours: as if nobody was ahead.
        let behind = start - 3_600_000_000_000;
        assert_eq!(sent(all.or(&mut own, behind), behind, 1_000), BURST);
        assert_eq!(sent(all.or(&mut own, behind), behind + INTERVAL_NS, 1_000), 1);
        assert_eq!(sent(all.or(&mut own, start), start + 10 * INTERVAL_NS, 1_000), 10);
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut limiter = Limiter::default();
        let start = 1_700_000_000_000_000_000;
        assert_eq!(sent(&mut limiter, start, 1_000), BURST);
        assert_eq!(sent(&mut limiter, start + INTERVAL_NS, 1_000), 1);
        let rest = start + 2 * INTERVAL_NS;
        let second =
            (0..1_000).map(|ms| sent(&mut limiter, rest + ms * INTERVAL_NS, 10)).sum::<u64>();
        assert_eq!(second, 1_000);
        assert_eq!(sent(&mut limiter, rest + 60_000 * INTERVAL_NS, 1_000), BURST);
    }
}
