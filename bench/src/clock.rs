//! Cycles, instructions, time.

use std::time::{Duration, Instant};

use anabranch_runtime::hardware::Hardware;

/// The time-stamp counter, which ticks at a constant rate whatever the cores do; 0 where there is
/// none.
#[allow(unsafe_code)]
#[inline(always)]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reading the counter has no effect on memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Ticks of the time-stamp counter in a microsecond, measured over a moment.
pub fn tsc_mhz() -> f64 {
    let (started, before) = (Instant::now(), tsc());
    while started.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let (ticks, elapsed) = (tsc() - before, started.elapsed());
    ticks as f64 / elapsed.as_secs_f64() / 1e6
}

/// What a piece of work cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Packets that it was done for.
    pub packets: u64,
    /// Ticks of the time-stamp counter.
    pub tsc: u64,
    /// Time.
    pub time: Duration,
    /// Core cycles, where counted.
    pub cycles: Option<u64>,
    /// Instructions, where counted.
    pub instructions: Option<u64>,
}

impl Cost {
    /// What all of them cost together, but for what the processor counts.
    pub fn sum(costs: &[Self]) -> Self {
        let total = |of: fn(&Self) -> u64| costs.iter().map(of).sum();
        Self {
            packets: total(|cost| cost.packets),
            tsc: total(|cost| cost.tsc),
            time: costs.iter().map(|cost| cost.time).sum(),
            ..Self::default()
        }
    }
}

/// Does `work`, which tells for how many packets, and tells what it cost.
pub fn measure(hardware: &mut Option<Hardware>, work: impl FnOnce() -> u64) -> Cost {
    if let Some(hardware) = hardware {
        hardware.start();
    }
    let (started, before) = (Instant::now(), tsc());
    let packets = work();
    let (tsc, time) = (tsc() - before, started.elapsed());
    let counts = hardware.as_mut().and_then(Hardware::stop);
    let (cycles, instructions) = counts.map(|all| (all.cycles, all.instructions)).unzip();
    Cost { packets, tsc, time, cycles, instructions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_of_the_work() {
        let work = || {
            std::thread::sleep(Duration::from_millis(2));
            7
        };
        let cost = measure(&mut Hardware::open(), work);
        assert!(cost.packets == 7 && cost.time >= Duration::from_millis(2), "{cost:?}");
        if cfg!(target_arch = "x86_64") {
            let mhz = tsc_mhz();
            assert!((100.0..20_000.0).contains(&mhz), "{mhz}");
            assert!(cost.tsc as f64 >= 1_000.0 * mhz, "{cost:?} at {mhz} MHz");
        }
    }
}
