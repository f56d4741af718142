//! Several workers at once: each on its core, with its share of the packets, over one interval.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::scope;
use std::time::{Duration, Instant};

use anabranch_io::Trace;
use anabranch_io::capture::Record;
use anabranch_nf::{NetworkFunction, Sharing};
use anabranch_rss::IndirectionTable;
use anabranch_runtime::instance::SHARDS;
use anabranch_runtime::steer::Steerer;

use crate::BenchError;
use crate::clock::{Cost, Hardware, measure};
use crate::document::Row;
use crate::lane::{Runner, State, pool};
use crate::measure::{instance, with_costs};
use crate::scenario::{Scenario, Subject};

/// How long all workers of a crew run at once.
const INTERVAL: Duration = Duration::from_millis(20);
/// Intervals of each crew, in turn with the others; the fastest counts.
const ROUNDS: usize = if cfg!(test) { 2 } else { 40 };
/// Packets between two looks at the time.
const STRETCH: usize = 1_024;

/// Pins this thread to a core: workers from the last one down.
pub fn pin(worker: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(core) = cores.iter().rev().cycle().nth(worker) {
        core_affinity::set_for_current(*core);
    }
}

/// Measures crews of `workers` workers of `N`, the numbers ascending and the first of them 1.
/// `handwritten_tsc` is what the hand-written loop takes per packet.
///
/// # Errors
/// Settings that the function refuses, more workers than shards, or packets that it drops.
pub fn crews<N: Subject>(
    scenario: &Scenario,
    of: &Row,
    workers: &[usize],
    handwritten_tsc: f64,
) -> Result<Vec<Row>, BenchError> {
    let parts: Vec<Vec<Part<N>>> =
        workers.iter().map(|&workers| parts(scenario, workers)).collect::<Result<_, _>>()?;
    let crews: Vec<Crew> = workers.iter().map(|&workers| Crew::new(workers)).collect();
    scope(|threads| {
        for (crew, parts) in crews.iter().zip(parts) {
            for (number, part) in parts.into_iter().enumerate() {
                threads.spawn(move || crew.work(number, part));
            }
        }
        for round in 0..=ROUNDS {
            crews.iter().for_each(|crew| crew.round(round > 0));
        }
        crews.iter().for_each(Crew::dismiss);
    });
    let (mut rows, mut one) = (Vec::new(), f64::NAN);
    for crew in crews {
        let mut row = crew.row::<N>(of)?;
        if row.workers == 1 {
            one = row.mpps;
        }
        row.ratio_to_one_worker = Some(row.mpps / one);
        row.ratio_to_handwritten = row.tsc_per_packet / handwritten_tsc;
        rows.push(row);
    }
    Ok(rows)
}

/// One worker's state and packets.
struct Part<N: NetworkFunction> {
    state: State<N>,
    /// Opens the flows of this state, unless it is shared and has them open.
    opening: Arc<Trace>,
    steady: Arc<Trace>,
}

/// Workers that run at once, and what they have done.
struct Crew {
    workers: usize,
    /// All workers and who directs them: at the start and at the end of each interval.
    barrier: Barrier,
    stop: AtomicBool,
    dismissed: AtomicBool,
    /// What the workers did in the interval under way: from when to when, and what it cost.
    done: Mutex<Vec<(Instant, Cost)>>,
    /// Per interval, all workers' together; its time is that from the first start to the last end.
    costs: Mutex<Vec<Cost>>,
    /// Packets dropped, of all.
    dropped: Mutex<(u64, u64)>,
}

impl Crew {
    fn new(workers: usize) -> Self {
        Self {
            workers,
            barrier: Barrier::new(workers + 1),
            stop: AtomicBool::new(false),
            dismissed: AtomicBool::new(false),
            done: Mutex::default(),
            costs: Mutex::default(),
            dropped: Mutex::default(),
        }
    }

    /// What worker `number` does until it is dismissed.
    fn work<N: Subject>(&self, number: usize, part: Part<N>) {
        pin(number);
        let mut pool = pool();
        let mut runner = Runner::new(&mut pool, part.state, false);
        runner.load(&part.opening);
        runner.run(part.opening.len());
        runner.load(&part.steady);
        let mut hardware = Hardware::open();
        loop {
            self.barrier.wait();
            if self.dismissed.load(Ordering::Acquire) {
                break;
            }
            let started = Instant::now();
            let cost = measure(&mut hardware, || {
                let mut packets = 0;
                while !self.stop.load(Ordering::Relaxed) {
                    packets += runner.run(STRETCH);
                }
                packets
            });
            locked(&self.done).push((started, cost));
            self.barrier.wait();
        }
        let (dropped, packets) = runner.dropped();
        let mut all = locked(&self.dropped);
        *all = (all.0 + dropped, all.1 + packets);
    }

    /// Has all workers run for an interval. The first one warms up and does not `count`.
    fn round(&self, count: bool) {
        self.stop.store(false, Ordering::Relaxed);
        self.barrier.wait();
        std::thread::sleep(INTERVAL);
        self.stop.store(true, Ordering::Relaxed);
        self.barrier.wait();
        let together = together(&std::mem::take(&mut *locked(&self.done)));
        if count {
            locked(&self.costs).push(together);
        }
    }

    fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Release);
        self.barrier.wait();
    }

    fn row<N: Subject>(self, of: &Row) -> Result<Row, BenchError> {
        if let (dropped @ 1.., packets) = *locked(&self.dropped) {
            return Err(BenchError::Dropped { nf: N::NAME, dropped, packets });
        }
        let strategy = match N::SHARING {
            Sharing::PacketSets => "sharded",
            Sharing::Aggregate { .. } => "serial",
        };
        let row = Row {
            strategy,
            workers: self.workers,
            prefetch: "auto",
            steering_hash: "supplied",
            ..of.clone()
        };
        Ok(with_costs(row, &locked(&self.costs)))
    }
}

/// A worker that panicked is reported when it is joined.
fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The costs of workers that ran at once.
fn together(parts: &[(Instant, Cost)]) -> Cost {
    let first = parts.iter().map(|(started, _)| *started).min();
    let last = parts.iter().map(|(started, cost)| *started + cost.time).max();
    let sum = |of: fn(&Cost) -> Option<u64>| parts.iter().map(|(_, cost)| of(cost)).sum();
    Cost {
        packets: parts.iter().map(|(_, cost)| cost.packets).sum(),
        tsc: parts.iter().map(|(_, cost)| cost.tsc).sum(),
        time: first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first),
        cycles: sum(|cost| cost.cycles),
        instructions: sum(|cost| cost.instructions),
    }
}

/// What each of `workers` workers has.
fn parts<N: Subject>(scenario: &Scenario, workers: usize) -> Result<Vec<Part<N>>, BenchError> {
    let table = IndirectionTable::new(SHARDS, SHARDS, workers)
        .map_err(|error| BenchError::Settings(error.to_string()))?;
    match N::SHARING {
        Sharing::PacketSets => shards(scenario, &table),
        Sharing::Aggregate { .. } => sharing(scenario, &table),
    }
}

/// A state of its own for each worker, with the flows of its shards.
fn shards<N: Subject>(
    scenario: &Scenario,
    table: &IndirectionTable,
) -> Result<Vec<Part<N>>, BenchError> {
    let part = |worker| {
        Ok(Part {
            state: State::Own(Box::new(instance(&scenario.settings, None)?)),
            opening: share::<N>(&scenario.opening, table, worker),
            steady: share::<N>(&scenario.steady, table, worker),
        })
    };
    (0..table.workers()).map(part).collect()
}

/// One state for all, with all flows open.
fn sharing<N: Subject>(
    scenario: &Scenario,
    table: &IndirectionTable,
) -> Result<Vec<Part<N>>, BenchError> {
    let lock = Arc::new(Mutex::new(instance(&scenario.settings, None)?));
    let mut pool = pool();
    let mut runner = Runner::<N>::new(&mut pool, State::Shared(Arc::clone(&lock)), false);
    runner.load(&scenario.opening);
    runner.run(scenario.opening.len());
    let part = |worker| Part {
        state: State::Shared(Arc::clone(&lock)),
        opening: Arc::default(),
        steady: share::<N>(&scenario.steady, table, worker),
    };
    Ok((0..table.workers()).map(part).collect())
}

/// The packets of `trace` that are `worker`'s, as its queue would hold them.
fn share<N: Subject>(trace: &Trace, table: &IndirectionTable, worker: usize) -> Arc<Trace> {
    let steerer = Steerer::new::<N>();
    let mut mine = Trace::new();
    for (index, record) in trace.records().iter().enumerate() {
        let bytes = trace.bytes(index);
        if usize::from(table.worker(steerer.hash(bytes, record.wire_len))) == worker {
            let (timestamp_ns, wire_len) = (record.arrival_ns, record.wire_len);
            mine.push(record.port, &Record { timestamp_ns, wire_len, bytes });
        }
    }
    mine.set_steering_hashes(|bytes, record| steerer.hash(bytes, record.wire_len));
    Arc::new(mine)
}
