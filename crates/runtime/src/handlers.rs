//! What the handlers of a function take, each for itself, where a run is watched.
//!
//! Of what one thread calls, the first times are measured, and then some, which count for the others: a handler that
//! every packet calls is told without being slowed down. Clocks are asked more often than counters, which takes
//! longer; what counting itself comes to is taken off.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anabranch_nf::NetworkFunction;

use crate::hardware::{Hardware, HardwareCounts};
use crate::report::HandlerReport;

/// So many times all is measured, then the time of one in some, and what is counted meanwhile of one in these.
const ALL: u64 = 64;
const TIMED: u64 = 4;
const COUNTED: u64 = 64;
/// Times that nothing is counted, to know what counting comes to.
const EMPTY: usize = 16;

/// A handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    /// `packet`, with the parsing before it and the packet's set.
    Packet,
    /// `control`.
    Control,
    /// `timer`.
    Timer,
    /// `periodic`.
    Periodic,
    /// What is called for what expires, and the collecting itself.
    Expired,
}

const NAMES: [&str; 5] = ["packet", "control", "timer", "periodic", "expired"];

#[derive(Clone, Copy, Default)]
struct Sum {
    calls: u64,
    /// How often there was something to measure.
    sections: u64,
    time: Duration,
    counts: Option<HardwareCounts>,
}

/// A section that is being measured.
#[derive(Clone, Copy, Default)]
struct Begun {
    /// When it began, and how many it counts for.
    time: Option<(Instant, u64)>,
    counts: Option<(HardwareCounts, u64)>,
}

/// The measuring of one thread.
struct Meter {
    hardware: Option<Hardware>,
    /// What is counted while nothing is done.
    empty: HardwareCounts,
    sums: [Sum; NAMES.len()],
}

thread_local! {
    static METER: RefCell<Option<Meter>> = const { RefCell::new(None) };
}

impl Meter {
    fn new() -> Self {
        let mut hardware = Hardware::open();
        hardware.iter_mut().for_each(Hardware::start);
        let counts = hardware.as_ref().map(|_| HardwareCounts::NONE);
        let sums = [Sum { counts, ..Sum::default() }; NAMES.len()];
        let mut meter = Self { hardware, empty: HardwareCounts::NONE, sums };
        let empty = (0..EMPTY).filter_map(|_| {
            let before = meter.count()?;
            Some(meter.count()?.since(before))
        });
        meter.empty = empty.min_by_key(|counts| counts.cycles).unwrap_or(HardwareCounts::NONE);
        meter
    }

    fn count(&mut self) -> Option<HardwareCounts> {
        self.hardware.as_mut().and_then(Hardware::read)
    }

    fn begin(&mut self, handler: Handler) -> Begun {
        let sum = &mut self.sums[handler as usize];
        sum.sections += 1;
        let number = sum.sections;
        let weight = |thinned: u64| match number {
            0..=ALL => Some(1),
            _ => number.is_multiple_of(thinned).then_some(thinned),
        };
        let counts = weight(COUNTED).and_then(|weight| Some((self.count()?, weight)));
        Begun { counts, time: weight(TIMED).map(|weight| (Instant::now(), weight)) }
    }

    fn end(&mut self, handler: Handler, begun: Begun, calls: u64) {
        let elapsed = begun.time.map(|(began, weight)| began.elapsed() * weight as u32);
        let counts = begun.counts.and_then(|(before, weight)| {
            Some(self.count()?.since(before).since(self.empty).times(weight))
        });
        let sum = &mut self.sums[handler as usize];
        sum.calls += calls;
        sum.time += elapsed.unwrap_or_default();
        if let Some(counts) = counts {
            sum.counts = sum.counts.map(|sum| sum.plus(counts));
        }
    }
}

/// Measures what this thread does from now on.
pub(crate) fn watch() {
    METER.with(|meter| *meter.borrow_mut() = Some(Meter::new()));
}

/// What this thread's handlers have taken; measures no more.
pub(crate) fn take() -> Vec<HandlerReport> {
    let meter = METER.with(|meter| meter.borrow_mut().take());
    let sums = meter.into_iter().flat_map(|meter| NAMES.into_iter().zip(meter.sums));
    let report = |(name, sum): (&str, Sum)| HandlerReport {
        handler: name.to_owned(),
        calls: sum.calls,
        time_s: sum.time.as_secs_f64(),
        hardware: sum.counts,
    };
    sums.filter(|(_, sum)| sum.calls > 0).map(report).collect()
}

/// Runs what calls `handler`, `calls` times as is seen by what comes of it.
#[inline(always)]
pub(crate) fn measured<N: NetworkFunction, R>(
    handler: Handler,
    calls: impl FnOnce(&R) -> usize,
    run: impl FnOnce() -> R,
) -> R {
    match N::PROFILED {
        true => measure(handler, calls, run),
        false => run(),
    }
}

#[inline(never)]
fn measure<R>(handler: Handler, calls: impl FnOnce(&R) -> usize, run: impl FnOnce() -> R) -> R {
    let begun = asked(|meter| meter.begin(handler)).unwrap_or_default();
    let done = run();
    let calls = calls(&done) as u64;
    asked(|meter| meter.end(handler, begun, calls));
    done
}

/// What this thread's meter says, if it has one.
fn asked<R>(ask: impl FnOnce(&mut Meter) -> R) -> Option<R> {
    METER.with(|meter| meter.borrow_mut().as_mut().map(ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(time: Duration) {
        let started = Instant::now();
        while started.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn few_calls_are_measured_all_of_them_and_many_by_some() {
        watch();
        let started = Instant::now();
        for number in 0..5_000 {
            if number % 1_000 == 0 {
                measure(Handler::Timer, |_| 1, || work(Duration::from_millis(2)));
            }
            measure(Handler::Packet, |_| 32, || work(Duration::from_micros(5)));
        }
        let took = started.elapsed().as_secs_f64();
        let taken = take();
        let names: Vec<(&str, u64)> =
            taken.iter().map(|one| (one.handler.as_str(), one.calls)).collect();
        assert_eq!(names, [("packet", 160_000), ("timer", 5)]);
        let part = taken.iter().map(|one| one.time_s).sum::<f64>() / took;
        assert!((0.5..1.5).contains(&part), "{part}: {taken:?}");
        assert!(taken[1].time_s >= 0.010, "{taken:?}");
        assert!(take().is_empty(), "nobody measures any more");
        measure(Handler::Packet, |_| 1, || ());
        assert!(take().is_empty());
    }
}
