//! What the processor counts of a thread in user space, where it counts and lets us ask.

use std::time::Duration;

use perf_event::events::Hardware as Event;
use perf_event::{Builder, Counter, Group};
use serde::{Deserialize, Serialize};

/// Counters of this thread.
pub struct Hardware {
    group: Group,
    cycles: Counter,
    instructions: Counter,
    /// Not every machine that counts cycles counts these.
    cache_misses: Option<Counter>,
    branch_misses: Option<Counter>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareCounts {
    /// Core cycles.
    pub cycles: u64,
    /// Instructions.
    pub instructions: u64,
    /// Accesses that missed the last cache; absent where they are not counted.
    pub cache_misses: Option<u64>,
    /// Branches that went another way than predicted; absent where they are not counted.
    pub branch_misses: Option<u64>,
}

impl Hardware {
    /// The counters, at rest; `None` where there are none or they are not allowed.
    pub fn open() -> Option<Self> {
        if cfg!(any(miri, shuttle)) {
            return None;
        }
        let mut group = Group::new().ok()?;
        let mut add = |event| group.add(&Builder::new(event)).ok();
        let (cycles, instructions) = (add(Event::CPU_CYCLES)?, add(Event::INSTRUCTIONS)?);
        let cache_misses = add(Event::CACHE_MISSES);
        let branch_misses = add(Event::BRANCH_MISSES);
        let mut counters = Self { group, cycles, instructions, cache_misses, branch_misses };
        // Some machines open the counters and never count.
        counters.start();
        std::hint::black_box((0..1_000u64).map(std::hint::black_box).sum::<u64>());
        let counts = counters.stop()?;
        (counts.instructions > 0).then_some(counters)
    }

    /// Counts from here on.
    pub fn start(&mut self) {
        // What fails here is seen when nothing has been counted.
        let _ = self.group.reset().and_then(|()| self.group.enable());
    }

    /// What has been counted since; counts no more.
    pub fn stop(&mut self) -> Option<HardwareCounts> {
        let _ = self.group.disable();
        self.read()
    }

    /// What has been counted so far.
    pub(crate) fn read(&mut self) -> Option<HardwareCounts> {
        let counts = self.group.read().ok()?;
        let of = |counter| counts.get(counter).map(|entry| entry.value());
        Some(HardwareCounts {
            cycles: of(&self.cycles)?,
            instructions: of(&self.instructions)?,
            cache_misses: self.cache_misses.as_ref().and_then(of),
            branch_misses: self.branch_misses.as_ref().and_then(of),
        })
    }
}

impl HardwareCounts {
    /// Nothing of what can be counted.
    pub(crate) const NONE: Self =
        Self { cycles: 0, instructions: 0, cache_misses: Some(0), branch_misses: Some(0) };

    /// What has been counted since it was `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// So many times as much.
    pub(crate) fn times(self, times: u64) -> Self {
        self.with(Self::NONE, |count, _| count * times)
    }

    /// Both; what one of them lacks the sum lacks.
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let both = |one: Option<u64>, other: Option<u64>| Some(of(one?, other?));
        Self {
            cycles: of(self.cycles, other.cycles),
            instructions: of(self.instructions, other.instructions),
            cache_misses: both(self.cache_misses, other.cache_misses),
            branch_misses: both(self.branch_misses, other.branch_misses),
        }
    }
}

/// The model of this machine's processor; of what kind it is where the system does not tell.
pub fn processor() -> String {
    let model = |text: String| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(':').map(|(_, model)| model.trim().to_owned())
    };
    let told = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(model);
    told.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// For how long this thread has run on a processor: without what others on it took. `None` where there is
/// no system to ask.
pub fn processor_time() -> Option<Duration> {
    if cfg!(any(miri, shuttle)) {
        return None;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_additions_are_a_thousand_instructions_where_they_are_counted() {
        let Some(mut hardware) = Hardware::open() else { return };
        hardware.start();
        std::hint::black_box((0..1_000u64).map(std::hint::black_box).sum::<u64>());
        let counts = hardware.stop().unwrap();
        assert!((1_000..1_000_000).contains(&counts.instructions), "{counts:?}");
    }

    #[test]
    fn a_thread_that_sleeps_takes_no_time_of_a_processor() {
        let Some(before) = processor_time() else { return };
        std::thread::sleep(Duration::from_millis(50));
        let slept = processor_time().unwrap() - before;
        assert!(slept < Duration::from_millis(25), "{slept:?}");
    }

    #[test]
    fn what_one_lacks_the_sum_lacks() {
        let one = HardwareCounts { cycles: 1, instructions: 2, ..HardwareCounts::default() };
        let all = HardwareCounts { cache_misses: Some(3), branch_misses: None, ..one };
        assert_eq!(one.plus(all), HardwareCounts { cycles: 2, instructions: 4, ..one });
        assert_eq!(all.plus(all).cache_misses, Some(6));
        let twice = HardwareCounts { cycles: 2, instructions: 4, ..HardwareCounts::default() };
        assert_eq!((one.times(2), twice.since(one)), (twice, one));
    }
}
