//! The highest rate without loss (RFC 2544, section 26.1; with under 0.1 % for none, as on shared machines none
//! is never).

/// Loss that counts as none.
const TOLERABLE: f64 = 0.001;
/// The highest rate that is tried, in packets a second.
const MOST: f64 = 2e6;
/// The lowest; a contestant that loses at this one has no rate.
const LEAST: f64 = 5e3;
/// How near the search comes to the highest rate.
const PRECISION: f64 = 0.04;
/// Part of the rate that is left after a longer trial has lost packets.
const STEP_BACK: f64 = 0.93;

/// What came of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trial {
    /// Packets sent.
    pub(super) sent: u64,
    /// Packets that came through.
    pub(super) received: u64,
}

impl Trial {
    fn loss(self) -> f64 {
        1.0 - self.received.min(self.sent) as f64 / self.sent.max(1) as f64
    }
}

/// A rate that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// Packets a second.
    pub(super) pps: f64,
    /// The part of them that was lost at that rate.
    pub(super) loss: f64,
    /// Trials that it took.
    pub(super) trials: u32,
}

/// Searches by halving, then confirms by `trial`s that are longer. A trial is given the rate, and whether it is a
/// longer one.
///
/// # Errors
/// That packets are lost even at the lowest rate.
pub(super) fn highest(mut trial: impl FnMut(f64, bool) -> Trial) -> Result<Found, String> {
    let (mut low, mut high, mut trials) = (0.0, MOST, 0);
    while low < LEAST || high / low > 1.0 + PRECISION {
        // By ratios: rates differ by orders of magnitude.
        let pps = if low < LEAST { (LEAST * high).sqrt().max(LEAST) } else { (low * high).sqrt() };
        trials += 1;
        if trial(pps, false).loss() < TOLERABLE {
            low = pps;
        } else {
            high = pps;
        }
        if high < LEAST * (1.0 + PRECISION) {
            return Err(format!("packets are lost even at {LEAST} a second"));
        }
    }
    loop {
        trials += 1;
        let loss = trial(low, true).loss();
        if loss < TOLERABLE {
            return Ok(Found { pps: low, loss, trials });
        }
        low *= STEP_BACK;
        if low < LEAST {
            return Err(format!("packets are lost even at {LEAST} a second"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contestant that takes so many packets a second, and one tenth less for long.
    fn limited(most: f64) -> impl FnMut(f64, bool) -> Trial {
        move |pps, long| {
            let most = if long { most * 0.9 } else { most };
            let sent = (pps * if long { 3.0 } else { 1.0 }) as u64;
            let received = (sent as f64 * (most / pps).min(1.0)) as u64;
            Trial { sent, received }
        }
    }

    #[test]
    fn the_limit_is_found_from_below() {
        for most in [7e3, 90e3, 333e3, 1.2e6] {
            let found = highest(limited(most)).unwrap();
            assert!(found.loss < TOLERABLE, "{found:?}");
            assert!(found.pps <= most * 0.901 && found.pps > most * 0.8, "{most}: {found:?}");
            assert!(found.trials < 25, "{found:?}");
        }
    }

    #[test]
    fn who_loses_always_has_no_rate() {
        assert!(highest(limited(1e3)).is_err_and(|why| why.contains("even at 5000")));
    }
}
