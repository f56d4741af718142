//! The rate of ICMP errors.

/// Nanoseconds between two ICMP errors in the long run: 1,000 a second.
pub const INTERVAL_NS: u64 = 1_000_000;
/// ICMP errors that may follow each other at once.
pub const BURST: u64 = 50;

/// A token bucket (RFC 4443, 2.4 (f); RFC 1812, 4.3.2.8), as the time at which it will be full:
/// each error adds the interval to it, and it may lie at most the burst ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limiter {
    full_at: u64,
}

impl Limiter {
    /// Whether an error may be sent at `now`, in nanoseconds.
    pub fn allows(self, now: u64) -> bool {
        self.full_at <= now.saturating_add((BURST - 1) * INTERVAL_NS)
    }

    /// An error has been sent at `now`.
    pub fn spend(&mut self, now: u64) {
        self.full_at = self.full_at.max(now).saturating_add(INTERVAL_NS);
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
