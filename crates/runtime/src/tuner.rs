//! Which prefetch pass pays: measured, not guessed.

use std::time::{Duration, Instant};

/// The pass over a batch before its handlers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// None.
    Off,
    /// The Prefetch world: lines whose key stands in the packet.
    One,
    /// And the Peek world: lines whose index stands in the first ones.
    Two,
}

const CANDIDATES: [Pass; 3] = [Pass::One, Pass::Two, Pass::Off];
/// Batches over which a candidate is timed.
const TRIAL: u32 = 64;
/// Batches between trials: they then cost well under 1 %, whatever they find.
const INTERVAL: u32 = 16_384;

/// Tries each pass now and then, and keeps the fastest.
pub struct Tuner {
    pass: Pass,
    left: u32,
    trial: Option<Trial>,
    fixed: bool,
}

struct Trial {
    number: usize,
    started: Instant,
    times: [Duration; CANDIDATES.len()],
}

impl Tuner {
    /// Always `pass`, or the fastest.
    pub fn new(pass: Option<Pass>) -> Self {
        let fixed = pass.is_some();
        Self { pass: pass.unwrap_or(Pass::One), left: INTERVAL / 64, trial: None, fixed }
    }

    /// A batch begins: the pass it takes.
    #[inline(always)]
    pub fn begin_batch(&mut self) -> Pass {
        if !self.fixed {
            self.left -= 1;
            if self.left == 0 {
                self.turn();
            }
        }
        self.pass
    }

    /// A trial, or the time between two, is over.
    #[cold]
    fn turn(&mut self) {
        let now = Instant::now();
        let next = match &mut self.trial {
            None => Some(Trial { number: 0, started: now, times: Default::default() }),
            Some(trial) => {
                trial.times[trial.number] = now - trial.started;
                let number = trial.number + 1;
                let times = trial.times;
                (number < CANDIDATES.len()).then_some(Trial { number, started: now, times })
            }
        };
        match next {
            Some(trial) => {
                (self.pass, self.left) = (CANDIDATES[trial.number], TRIAL);
                self.trial = Some(trial);
            }
            None => self.decide(),
        }
    }

    fn decide(&mut self) {
        let times = self.trial.take().map(|trial| trial.times).unwrap_or_default();
        let fastest = times.iter().zip(CANDIDATES).min_by_key(|(time, _)| **time);
        self.pass = fastest.map_or(Pass::One, |(_, pass)| pass);
        self.left = INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_every_pass_and_keeps_the_fastest() {
        let mut tuner = Tuner::new(None);
        let mut seen = Vec::new();
        for _ in 0..INTERVAL / 64 + 3 * TRIAL {
            let pass = tuner.begin_batch();
            if pass != Pass::Two {
                std::thread::sleep(Duration::from_micros(5));
            }
            if seen.last() != Some(&pass) {
                seen.push(pass);
            }
        }
        assert_eq!(seen[..3], [Pass::One, Pass::Two, Pass::Off]);
        assert_eq!(tuner.begin_batch(), Pass::Two);
    }

    #[test]
    fn a_fixed_pass_stays() {
        let mut tuner = Tuner::new(Some(Pass::Off));
        assert!((0..100_000).all(|_| tuner.begin_batch() == Pass::Off));
    }
}
