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
/// Batches over which a candidate is timed at once.
const TRIAL: u32 = 16;
/// How often each is timed, in turn: what else the machine does meanwhile meets all of them.
const ROUNDS: usize = 4;
/// What is timed in all.
const TRIALS: usize = ROUNDS * CANDIDATES.len();
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
    /// Of all that are timed, in turn.
    number: usize,
    started: Instant,
    times: [[Duration; ROUNDS]; CANDIDATES.len()],
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
        let next = match self.trial.take() {
            None => Trial { number: 0, started: now, times: Default::default() },
            Some(Trial { number, started, mut times }) => {
                times[number % CANDIDATES.len()][number / CANDIDATES.len()] = now - started;
                if number + 1 == TRIALS {
                    return self.decide(times);
                }
                Trial { number: number + 1, started: now, times }
            }
        };
        (self.pass, self.left) = (CANDIDATES[next.number % CANDIDATES.len()], TRIAL);
        self.trial = Some(next);
    }

    /// The fastest, its slowest time apart: that may have met an interrupt.
    fn decide(&mut self, times: [[Duration; ROUNDS]; CANDIDATES.len()]) {
        let taken = times.map(|times| {
            let slowest = times.iter().max().copied().unwrap_or_default();
            times.iter().sum::<Duration>() - slowest
        });
        let fastest = taken.iter().zip(CANDIDATES).min_by_key(|(time, _)| **time);
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
        for _ in 0..INTERVAL / 64 + TRIALS as u32 * TRIAL {
            let pass = tuner.begin_batch();
            if pass != Pass::Two {
                std::thread::sleep(Duration::from_micros(5));
            }
            if seen.last() != Some(&pass) {
                seen.push(pass);
            }
        }
        assert_eq!(seen[..TRIALS], CANDIDATES.repeat(ROUNDS));
        assert_eq!(tuner.begin_batch(), Pass::Two);
    }

    #[test]
    fn a_fixed_pass_stays() {
        let mut tuner = Tuner::new(Some(Pass::Off));
        assert!((0..100_000).all(|_| tuner.begin_batch() == Pass::Off));
    }
}
