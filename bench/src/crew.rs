//! Several workers at once: each on its core, with its share of the packets.
//!
//! Workers run at the same time and count their packets by slots of time, the same slots for all: a
//! slot's throughput is what all of them did in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread::scope;
use std::time::{Duration, Instant};

use anabranch_io::Trace;
use anabranch_io::capture::Record;
use anabranch_nf::NetworkFunction;
use anabranch_plan::Strategy;
use anabranch_rss::IndirectionTable;
use anabranch_runtime::deployment::Deployment;
use anabranch_runtime::lock::Lock;
use anabranch_runtime::steer::{SHARDS, Steering};
use anabranch_runtime::tuner::Pass;
use anabranch_runtime::worker::State;
use core_affinity::CoreId;

use crate::BenchError;
use crate::clock::{Cost, tsc};
use crate::document::Row;
use crate::lane::{Runner, pool};
use crate::measure::{deployed, divided, instance, members, with_costs};
use crate::planned::{Left, Readdressed, plan, ports, steering};
use crate::scenario::{Scenario, Subject};

/// A slot: so short that in many of them nothing else runs on any of the cores.
const SLOT: Duration = Duration::from_millis(4);
/// Slots of a turn.
const SLOTS: usize = 40;
/// Turns of each crew, with the others'.
const TURNS: usize = if cfg!(test) { 1 } else { 8 };
/// Packets between two looks at the time: a hundredth of a slot or less.
const STRETCH: usize = 256;

/// Pins this thread to a core: workers from the last one down.
pub fn pin(worker: usize) {
    // Threads of a pinned one see its core alone: the first to ask is not pinned yet.
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    let cores = CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default());
    if let Some(core) = cores.iter().rev().cycle().nth(worker) {
        core_affinity::set_for_current(*core);
    }
}

/// Measures crews of `workers` workers of `N`, the numbers ascending and the first of them 1: with
/// state divided where that is right, and behind one lock.
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
    let (mut crews, mut shares) = (Vec::new(), Vec::new());
    for &workers in workers {
        for (strategy, parts) in parts::<N>(scenario, workers)? {
            crews.push(Crew::new(workers, strategy));
            shares.push(parts);
        }
    }
    scope(|threads| {
        for (crew, parts) in crews.iter().zip(shares) {
            for (number, part) in parts.into_iter().enumerate() {
                threads.spawn(move || crew.work(number, part));
            }
        }
        for _ in 0..TURNS {
            crews.iter().for_each(Crew::turn);
        }
        crews.iter().for_each(Crew::dismiss);
    });
    let (mut rows, mut one) = (Vec::new(), f64::NAN);
    for crew in crews {
        let mut row = crew.row::<N>(of)?;
        if row.strategy == "one-worker" {
            one = row.mpps;
        }
        row.ratio_to_one_worker = Some(row.mpps / one);
        row.ratio_to_handwritten = row.tsc_per_packet / handwritten_tsc;
        rows.push(row);
    }
    Ok(rows)
}

/// One worker's state and packets.
pub struct Part<N: NetworkFunction> {
    state: State<N>,
    /// Opens the flows of this state, unless it is shared and has them open.
    opening: Arc<Trace>,
    steady: Arc<Trace>,
}

impl<N: NetworkFunction> Part<N> {
    /// Handles `packets` packets.
    pub fn run(self, packets: usize) {
        let mut pool = pool();
        let mut runner = Runner::new(&mut pool, self.state, None);
        runner.load(&self.steady);
        runner.run(packets);
    }
}

/// The only worker of a crew that shares state, named as a contestant; `None`: no such crew has that
/// name.
///
/// # Errors
/// As [`crews`].
pub fn lone<N: Subject>(
    scenario: &Scenario,
    named: [&str; 3],
) -> Result<Option<Part<N>>, BenchError> {
    let mut states = match named {
        ["mixed", "off", "supplied"] => match mixed::<N>(1) {
            Ok(deployment) => apart::<N>(scenario, &deployment, Some(Pass::Off))?,
            Err(_) => return Ok(None),
        },
        ["transactional", "off", "supplied"] => tracked::<N>(scenario, 1, Some(Pass::Off))?,
        ["lock", "off", "supplied"] => locked_up::<N>(scenario, 1)?,
        _ => return Ok(None),
    };
    let steady = Arc::clone(&scenario.steady);
    Ok(states.pop().map(|state| Part { state, opening: Arc::default(), steady }))
}

/// Workers that run at once, and what they have done.
struct Crew {
    workers: usize,
    strategy: &'static str,
    /// All workers and who directs them: at the start and at the end of each turn.
    barrier: Barrier,
    dismissed: AtomicBool,
    /// When the turn under way began, and on which tick.
    started: Mutex<(Instant, u64)>,
    /// What the workers did in it: packets in each slot.
    done: Mutex<Vec<[u64; SLOTS]>>,
    /// What each slot cost.
    costs: Mutex<Vec<Cost>>,
    /// Packets dropped, of all.
    dropped: Mutex<(u64, u64)>,
}

impl Crew {
    fn new(workers: usize, strategy: &'static str) -> Self {
        Self {
            workers,
            strategy,
            barrier: Barrier::new(workers + 1),
            dismissed: AtomicBool::new(false),
            started: Mutex::new((Instant::now(), tsc())),
            done: Mutex::default(),
            costs: Mutex::default(),
            dropped: Mutex::default(),
        }
    }

    /// What worker `number` does until it is dismissed.
    fn work<N: Subject>(&self, number: usize, part: Part<N>) {
        pin(number);
        let mut pool = pool();
        let mut runner = Runner::new(&mut pool, part.state, None);
        runner.load(&part.opening);
        runner.run(part.opening.len());
        runner.load(&part.steady);
        loop {
            self.barrier.wait();
            if self.dismissed.load(Ordering::Acquire) {
                break;
            }
            let (started, _) = *locked(&self.started);
            let mut slots = [0; SLOTS];
            while let Some(slot) = slots.get_mut(slot_of(started.elapsed())) {
                *slot += runner.run(STRETCH);
            }
            locked(&self.done).push(slots);
            self.barrier.wait();
        }
        let (dropped, packets) = runner.dropped();
        let mut all = locked(&self.dropped);
        *all = (all.0 + dropped, all.1 + packets);
    }

    /// Has all workers run for a turn.
    fn turn(&self) {
        let (now, tick) = (Instant::now(), tsc());
        *locked(&self.started) = (now, tick);
        self.barrier.wait();
        self.barrier.wait();
        let ticks = tick_rate(tsc() - tick, now.elapsed()) * self.workers as f64;
        let done = std::mem::take(&mut *locked(&self.done));
        // In the first slot they wake up.
        for slot in 1..SLOTS {
            let packets = done.iter().map(|slots| slots[slot]).sum();
            let cost = Cost { packets, tsc: ticks as u64, time: SLOT, ..Cost::default() };
            locked(&self.costs).extend((packets > 0).then_some(cost));
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
        let row = Row {
            strategy: self.strategy,
            workers: self.workers,
            prefetch: if self.strategy == "lock" { "off" } else { "auto" },
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

/// The slot in which something is done that begins so long after the start.
fn slot_of(elapsed: Duration) -> usize {
    (elapsed.as_nanos() / SLOT.as_nanos()) as usize
}

/// Ticks of a slot, given those of some time.
fn tick_rate(ticks: u64, time: Duration) -> f64 {
    ticks as f64 * SLOT.as_secs_f64() / time.as_secs_f64()
}

/// A strategy, and what each worker has under it.
type Parts<N> = (&'static str, Vec<Part<N>>);

/// How `workers` workers may share state: without a lock where that is right, and with it.
fn parts<N: Subject>(scenario: &Scenario, workers: usize) -> Result<Vec<Parts<N>>, BenchError> {
    let table = IndirectionTable::new(SHARDS, SHARDS, workers)
        .map_err(|error| BenchError::Settings(error.to_string()))?;
    let deployment =
        Deployment::new::<N>(&*plan::<N>()?, &scenario.settings, &ports::<N>(), workers);
    let mut ways = match deployment {
        _ if workers == 1 => vec![("one-worker", vec![alone(scenario)?])],
        Ok(deployment) => vec![("shared-nothing", shards(scenario, &deployment)?)],
        Err(_) => Vec::new(),
    };
    let mut shared = Vec::new();
    if plan::<N>()?.strategy == Strategy::Mixed
        && let Ok(deployment) = mixed::<N>(workers)
    {
        shared.push(("mixed", apart(scenario, &deployment, None)?));
    }
    shared.push(("transactional", tracked(scenario, workers, None)?));
    shared.push(("lock", locked_up(scenario, workers)?));
    for (strategy, states) in shared {
        ways.push((strategy, sharing(scenario, &table, states)?));
    }
    Ok(ways)
}

fn mixed<N: Subject>(workers: usize) -> Result<Deployment, BenchError> {
    let deployment = Deployment::mixed::<N>(&*plan::<N>()?, &ports::<N>(), workers);
    deployment.map_err(|why| BenchError::Settings(why.to_string()))
}

/// A state of its own for each worker, the flows of its shards open.
fn shards<N: Subject>(
    scenario: &Scenario,
    deployment: &Deployment,
) -> Result<Vec<Part<N>>, BenchError> {
    let Deployment { steering, table, .. } = deployment;
    let one = State::Own(Box::new(instance(&scenario.settings, None)?));
    let (one_says, _) = came_to::<N>(&scenario.opening, one);
    let mut readdressed = Readdressed::default();
    let mut states: Vec<State<N>> = Vec::new();
    for (worker, instance) in deployed(&scenario.settings, deployment)?.into_iter().enumerate() {
        let state = State::Own(Box::new(instance));
        let (mine, numbers) = share(&scenario.opening, steering, table, worker);
        let (says, state) = came_to(&Arc::new(mine), state);
        for (here, number) in says.iter().zip(numbers) {
            readdressed.learn(here, &one_says[number]);
        }
        states.push(state);
    }
    let steady = readdressed.apply(&scenario.steady);
    let part = |(worker, state)| {
        let steady = Arc::new(share(&steady, steering, table, worker).0);
        Part { state, opening: Arc::default(), steady }
    };
    Ok(states.into_iter().enumerate().map(part).collect())
}

/// What the packets of `trace` come to.
fn came_to<N: Subject>(trace: &Arc<Trace>, state: State<N>) -> (Vec<Left>, State<N>) {
    let mut pool = pool();
    let mut runner = Runner::new(&mut pool, state, None);
    (runner.collect(trace), runner.into_state())
}

/// All state for one worker, which opens the flows itself.
fn alone<N: Subject>(scenario: &Scenario) -> Result<Part<N>, BenchError> {
    Ok(Part {
        state: State::Own(Box::new(instance(&scenario.settings, None)?)),
        opening: Arc::clone(&scenario.opening),
        steady: Arc::clone(&scenario.steady),
    })
}

/// One state behind a lock, with all flows open.
fn locked_up<N: Subject>(scenario: &Scenario, workers: usize) -> Result<Vec<State<N>>, BenchError> {
    let own = opened(&scenario.opening, State::Own(Box::new(instance(&scenario.settings, None)?)));
    let State::Own(instance) = own else { unreachable!("it is the state that was given") };
    // As `instance` was made.
    let accesses = Lock::share(*instance, 1, workers, false).into_iter();
    Ok(accesses.map(|access| State::Locked(Box::new(access))).collect())
}

/// One state in transactions, with all flows open.
fn tracked<N: Subject>(
    scenario: &Scenario,
    workers: usize,
    pass: Option<Pass>,
) -> Result<Vec<State<N>>, BenchError> {
    let members = members::<N>(&scenario.settings, workers, pass)?.into_iter();
    let mut states: Vec<_> = members.map(|member| State::Tracked(Box::new(member))).collect();
    let first = opened(&scenario.opening, states.remove(0));
    states.insert(0, first);
    Ok(states)
}

/// The same, packet sets apart: each worker has opened its own.
fn apart<N: Subject>(
    scenario: &Scenario,
    deployment: &Deployment,
    pass: Option<Pass>,
) -> Result<Vec<State<N>>, BenchError> {
    let Deployment { steering, table, .. } = deployment;
    let open = |(worker, member)| {
        let mine = Arc::new(share(&scenario.opening, steering, table, worker).0);
        opened(&mine, State::Tracked(Box::new(member)))
    };
    let members = divided::<N>(&scenario.settings, deployment, pass)?.into_iter();
    Ok(members.enumerate().map(open).collect())
}

/// The state, with the flows of `opening` open.
fn opened<N: Subject>(opening: &Arc<Trace>, state: State<N>) -> State<N> {
    let mut pool = pool();
    let mut runner = Runner::<N>::new(&mut pool, state, None);
    runner.load(opening);
    runner.run(opening.len());
    runner.into_state()
}

/// The packets of each worker, for the access that it has to what all share.
fn sharing<N: Subject>(
    scenario: &Scenario,
    table: &IndirectionTable,
    states: Vec<State<N>>,
) -> Result<Vec<Part<N>>, BenchError> {
    let steering = steering::<N>()?;
    let part = |(worker, state)| Part {
        state,
        opening: Arc::default(),
        steady: Arc::new(share(&scenario.steady, &steering, table, worker).0),
    };
    Ok(states.into_iter().enumerate().map(part).collect())
}

/// The packets of `trace` that are `worker`'s, as its queue would hold them, and their numbers.
fn share(
    trace: &Trace,
    steering: &Steering,
    table: &IndirectionTable,
    worker: usize,
) -> (Trace, Vec<usize>) {
    let (mut mine, mut numbers) = (Trace::new(), Vec::new());
    for (index, record) in trace.records().iter().enumerate() {
        let bytes = trace.bytes(index);
        let shard = steering.shard(record.port, bytes, record.wire_len);
        if usize::from(table.worker(shard)) == worker {
            let (timestamp_ns, wire_len) = (record.arrival_ns, record.wire_len);
            mine.push(record.port, &Record { timestamp_ns, wire_len, bytes });
            numbers.push(index);
        }
    }
    mine.set_steering_hashes(|bytes, record| steering.shard(record.port, bytes, record.wire_len));
    (mine, numbers)
}
