//! Several workers at once: each on its core, with its share of the packets.
//!
//! Workers run at the same time and count their packets by slots of time, the same slots for all: a
//! slot's throughput is what all of them did in it.

use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread::scope;
use std::time::{Duration, Instant};

use anabranch_io::Trace;
use anabranch_io::capture::Record;
use anabranch_nf::NetworkFunction;
use anabranch_plan::Strategy;
use anabranch_rss::IndirectionTable;
use anabranch_runtime::cores::Cores;
use anabranch_runtime::deployment::Deployment;
use anabranch_runtime::instance::Instance;
use anabranch_runtime::lock::Lock;
use anabranch_runtime::steer::{SHARDS, Steering};
use anabranch_runtime::threads::spawn_all;
use anabranch_runtime::tuner::Pass;
use anabranch_runtime::worker::State;

use crate::BenchError;
use crate::clock::{Cost, tsc};
use crate::document::Row;
use crate::hand::BATCH;
use crate::held::Held;
use crate::lane::{Runner, pool};
use crate::measure::{
    deployed, divided, instance, members, profiled, resident, resident_since, with_costs,
};
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

/// Pins this thread, worker `worker`, to its core; more workers than cores share them in turn.
pub fn pin(worker: usize) {
    // Threads of a pinned one see its core alone: the first to ask is not pinned yet.
    static CORES: OnceLock<Cores> = OnceLock::new();
    let cores = CORES.get_or_init(Cores::from_the_last);
    cores.pin(worker % cores.count().max(1));
}

/// Measures crews of `workers` workers of `N`, the numbers ascending and the first of them 1: by all
/// `strategies` that are right for it, or those that are named, and one worker alone in any case.
///
/// # Errors
/// Settings that the function refuses, more workers than shards, or packets that it drops.
pub fn crews<N: Subject>(
    scenario: &Scenario,
    of: &Row,
    workers: &[usize],
    strategies: Option<&[String]>,
) -> Result<Vec<Row>, BenchError> {
    let (mut crews, mut shares) = (Vec::new(), Vec::new());
    for &workers in workers {
        for Way { strategy, batch, parts, resident } in ways::<N>(scenario, workers, strategies)? {
            let resident_bytes_per_flow = resident;
            let of = Row { strategy, workers, batch, resident_bytes_per_flow, ..of.clone() };
            crews.push(Crew::new(of));
            shares.push(parts);
        }
    }
    let overall = of.load.is_some_and(|load| N::CONTENDED.contains(&load));
    scope(|threads| {
        let of_crews = crews.iter().zip(shares).flat_map(|(crew, parts)| {
            let parts = parts.into_iter().enumerate();
            parts.map(move |(number, part)| move || crew.work(number, part))
        });
        spawn_all(threads, of_crews).map_err(BenchError::Threads)?;
        for turn in 0..TURNS {
            crews.iter().for_each(Crew::turn);
            if overall && turn == 0 && TURNS > 1 {
                // Flows have come meanwhile: from now on as many end as begin.
                crews.iter().for_each(|crew| locked(&crew.costs).clear());
            }
        }
        crews.iter().for_each(Crew::dismiss);
        Ok::<_, BenchError>(())
    })?;
    let row = |crew: Crew| crew.row::<N>(overall);
    let rows: Result<Vec<Row>, BenchError> = crews.into_iter().map(row).collect();
    Ok(related(rows?))
}

/// With their ratios to one worker: of throughput to the first row, of memory to the same strategy.
fn related(mut rows: Vec<Row>) -> Vec<Row> {
    let ones: Vec<Row> = rows.iter().filter(|row| row.workers == 1).cloned().collect();
    for row in &mut rows {
        row.ratio_to_one_worker = ones.first().map(|one| row.mpps / one.mpps);
        let is_same = |one: &&Row| (one.strategy, one.batch) == (row.strategy, row.batch);
        let one = ones.iter().find(is_same).or(ones.first());
        let bytes = one.and_then(|one| one.resident_bytes_per_flow).filter(|bytes| *bytes > 0.0);
        row.memory_to_one_worker =
            row.resident_bytes_per_flow.zip(bytes).map(|(all, one)| all / one);
    }
    rows
}

/// One worker's state, its flows open, and packets.
pub struct Part<N: NetworkFunction> {
    state: Held<N>,
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
    let off = Some(Pass::Off);
    let mut states = match named {
        ["mixed", "off", how @ ("supplied" | "turns")] => match mixed::<N>(1) {
            Ok(deployment) => apart::<N>(scenario, &deployment, off, Some(how == "turns"))?,
            Err(_) => return Ok(None),
        },
        ["transactional", "off", how @ ("supplied" | "turns")] => {
            tracked::<N>(scenario, 1, off, Some(how == "turns"))?
        }
        ["transactional", "off", "singly"] => singly(tracked::<N>(scenario, 1, off, Some(false))?),
        ["lock", "off", "supplied"] => locked_up::<N>(scenario, 1)?,
        ["mutex", "off", "supplied"] => guarded::<N>(scenario, 1, off)?,
        _ => return Ok(None),
    };
    let steady = Arc::clone(&scenario.steady);
    Ok(states.pop().map(|state| Part { state, steady }))
}

/// A worker that is the only one, in transactions that somebody watches to make a profile.
///
/// # Errors
/// As [`crews`].
pub fn watched<N: Subject>(scenario: &Scenario) -> Result<Part<N::Profiled>, BenchError> {
    let state = State::Tracked(Box::new(profiled::<N>(&scenario.settings)?));
    Ok(Part { state: opened(&scenario.opening, state), steady: Arc::clone(&scenario.steady) })
}

/// Workers that run at once, and what they have done.
struct Crew {
    /// The row that it will have, without figures.
    of: Row,
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
    /// Transactions given up, where there are any.
    aborts: Mutex<Option<u64>>,
}

impl Crew {
    fn new(of: Row) -> Self {
        Self {
            barrier: Barrier::new(of.workers + 1),
            of,
            dismissed: AtomicBool::new(false),
            started: Mutex::new((Instant::now(), tsc())),
            done: Mutex::default(),
            costs: Mutex::default(),
            dropped: Mutex::default(),
            aborts: Mutex::default(),
        }
    }

    /// What worker `number` does until it is dismissed.
    fn work<N: Subject>(&self, number: usize, part: Part<N>) {
        pin(number);
        let mut pool = pool();
        let mut runner = Runner::new(&mut pool, part.state, None);
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
        if let Some(counts) = runner.state().transactions() {
            *locked(&self.aborts).get_or_insert(0) += counts.conflicts + counts.unfit;
        }
    }

    /// Has all workers run for a turn.
    fn turn(&self) {
        let (now, tick) = (Instant::now(), tsc());
        *locked(&self.started) = (now, tick);
        self.barrier.wait();
        self.barrier.wait();
        let ticks = tick_rate(tsc() - tick, now.elapsed()) * self.of.workers as f64;
        let done = std::mem::take(&mut *locked(&self.done));
        // In the first slot they wake up.
        for slot in 1..SLOTS {
            let packets = done.iter().map(|slots| slots[slot]).sum();
            let cost = Cost { packets, tsc: ticks as u64, time: SLOT, ..Cost::default() };
            locked(&self.costs).push(cost);
        }
    }

    fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Release);
        self.barrier.wait();
    }

    /// `overall`: with the figures of all slots together, not of the fastest.
    fn row<N: Subject>(self, overall: bool) -> Result<Row, BenchError> {
        let (dropped, packets) = *locked(&self.dropped);
        if dropped > 0 {
            return Err(BenchError::Dropped { nf: N::NAME, dropped, packets });
        }
        let aborts = *locked(&self.aborts);
        let aborts_per_million = aborts.map(|aborts| aborts as f64 * 1e6 / packets.max(1) as f64);
        let prefetch = if self.of.strategy == "lock" { "off" } else { "auto" };
        let row = Row { prefetch, steering_hash: "supplied", aborts_per_million, ..self.of };
        let costs = locked(&self.costs);
        let all = overall.then(|| Cost::sum(&costs));
        Ok(Row {
            repetitions: costs.len(),
            ..with_costs(row, all.as_ref().map_or(&costs, slice::from_ref))
        })
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

/// A way of several workers to share state, and what each of them has.
struct Way<N: NetworkFunction> {
    strategy: &'static str,
    batch: usize,
    parts: Vec<Part<N>>,
    /// Bytes a flow that became resident for it.
    resident: Option<f64>,
}

/// The ways of `workers` workers.
fn ways<N: Subject>(
    scenario: &Scenario,
    workers: usize,
    strategies: Option<&[String]>,
) -> Result<Vec<Way<N>>, BenchError> {
    let asked =
        |strategy: &str| strategies.is_none_or(|named| named.iter().any(|named| named == strategy));
    let table = IndirectionTable::new(SHARDS, SHARDS, workers)
        .map_err(|error| BenchError::Settings(error.to_string()))?;
    let mut ways = Vec::new();
    if workers == 1 {
        let strategy = if strategies.is_some() { "sequential" } else { "one-worker" };
        let one = || Ok(vec![own(scenario)?]);
        ways.push(Way::new(scenario, strategy, vec![Arc::clone(&scenario.steady)], one)?);
    } else if asked("shared-nothing")
        && let Ok(deployment) = divided_up::<N>(scenario, workers)
    {
        ways.push(shards(scenario, &deployment)?);
    }
    let steering = steering::<N>()?;
    let share = |worker| Arc::new(share(&scenario.steady, &steering, &table, worker).0);
    let steady: Vec<Arc<Trace>> = (0..workers).map(share).collect();
    let steady = || steady.clone();
    if asked("mixed")
        && plan::<N>()?.strategy == Strategy::Mixed
        && let Ok(deployment) = mixed::<N>(workers)
    {
        let states = || apart(scenario, &deployment, None, None);
        ways.push(Way::new(scenario, "mixed", steady(), states)?);
    }
    if asked("transactional") {
        let states = || tracked(scenario, workers, None, None);
        ways.push(Way::new(scenario, "transactional", steady(), states)?);
        let states = || Ok(singly(tracked(scenario, workers, None, None)?));
        ways.push(Way { batch: 1, ..Way::new(scenario, "transactional", steady(), states)? });
    }
    if asked("lock") {
        ways.push(Way::new(scenario, "lock", steady(), || locked_up(scenario, workers))?);
    }
    if asked("mutex") {
        let states = || guarded(scenario, workers, None);
        ways.push(Way::new(scenario, "mutex", steady(), states)?);
    }
    Ok(ways)
}

impl<N: NetworkFunction> Way<N> {
    /// Makes the states, one for each part of the packets.
    fn new(
        scenario: &Scenario,
        strategy: &'static str,
        steady: Vec<Arc<Trace>>,
        states: impl FnOnce() -> Result<Vec<Held<N>>, BenchError>,
    ) -> Result<Self, BenchError> {
        let before = resident();
        let states = states()?;
        let resident = resident_since(before, scenario.flows);
        let parts = states.into_iter().zip(steady).map(|(state, steady)| Part { state, steady });
        Ok(Self { strategy, batch: BATCH, parts: parts.collect(), resident })
    }
}

fn divided_up<N: Subject>(scenario: &Scenario, workers: usize) -> Result<Deployment, BenchError> {
    let deployment =
        Deployment::new::<N>(&*plan::<N>()?, &scenario.settings, &ports::<N>(), workers);
    deployment.map_err(|why| BenchError::Settings(why.to_string()))
}

fn mixed<N: Subject>(workers: usize) -> Result<Deployment, BenchError> {
    let deployment = Deployment::mixed::<N>(&*plan::<N>()?, &ports::<N>(), workers);
    deployment.map_err(|why| BenchError::Settings(why.to_string()))
}

/// A state of its own for each worker, the flows of its shards open.
fn shards<N: Subject>(scenario: &Scenario, deployment: &Deployment) -> Result<Way<N>, BenchError> {
    let Deployment { steering, table, .. } = deployment;
    let of = |trace: &Trace, worker| share(trace, steering, table, worker);
    let workers = 0..table.workers();
    let opening: Vec<_> = workers.clone().map(|worker| of(&scenario.opening, worker)).collect();
    let states = || deployed::<N>(&scenario.settings, deployment);
    let one_says = came_to(&scenario.opening, instance::<N>(&scenario.settings, None)?);
    let mut readdressed = Readdressed::default();
    let opening: Vec<Arc<Trace>> = states()?
        .into_iter()
        .zip(opening)
        .map(|(instance, (mine, numbers))| {
            let mine = Arc::new(mine);
            for (here, number) in came_to(&mine, instance).iter().zip(numbers) {
                readdressed.learn(here, &one_says[number]);
            }
            mine
        })
        .collect();
    drop(one_says);
    let steady = readdressed.apply(&scenario.steady);
    let steady = workers.map(|worker| Arc::new(of(&steady, worker).0)).collect();
    // Not those that told what each port is called: only now is it to be seen what they take.
    Way::new(scenario, "shared-nothing", steady, || {
        let open =
            |(instance, mine): (_, &Arc<Trace>)| opened(mine, State::Own(Box::new(instance)));
        Ok(states()?.into_iter().zip(&opening).map(open).collect())
    })
}

/// What the packets of `trace` come to.
fn came_to<N: Subject>(trace: &Arc<Trace>, instance: Instance<N>) -> Vec<Left> {
    let mut pool = pool();
    let state = Held::State(State::Own(Box::new(instance)));
    Runner::new(&mut pool, state, None).collect(trace)
}

/// All state for one worker, all flows open.
fn own<N: Subject>(scenario: &Scenario) -> Result<Held<N>, BenchError> {
    let own = State::Own(Box::new(instance(&scenario.settings, None)?));
    Ok(opened(&scenario.opening, own))
}

/// An instance with all flows open.
fn in_use<N: Subject>(scenario: &Scenario, pass: Option<Pass>) -> Result<Instance<N>, BenchError> {
    let own = State::Own(Box::new(instance(&scenario.settings, pass)?));
    match opened(&scenario.opening, own) {
        Held::State(State::Own(instance)) => Ok(*instance),
        _ => unreachable!("it is the state that was given"),
    }
}

/// One state behind a lock, with all flows open.
fn locked_up<N: Subject>(scenario: &Scenario, workers: usize) -> Result<Vec<Held<N>>, BenchError> {
    // As the instance was made.
    let accesses = Lock::share(in_use(scenario, None)?, 1, workers, false).into_iter();
    Ok(accesses.map(|access| Held::State(State::Locked(Box::new(access)))).collect())
}

/// One instance behind a mutex, with all flows open.
fn guarded<N: Subject>(
    scenario: &Scenario,
    workers: usize,
    pass: Option<Pass>,
) -> Result<Vec<Held<N>>, BenchError> {
    Ok(Held::behind_mutex(in_use(scenario, pass)?, workers))
}

/// One state in transactions, with all flows open.
fn tracked<N: Subject>(
    scenario: &Scenario,
    workers: usize,
    pass: Option<Pass>,
    turns: Option<bool>,
) -> Result<Vec<Held<N>>, BenchError> {
    let members = members::<N>(&scenario.settings, workers, pass, turns)?.into_iter();
    let mut states = members.map(|member| State::Tracked(Box::new(member)));
    let first = states.next().map(|first| opened(&scenario.opening, first));
    Ok(first.into_iter().chain(states.map(Held::State)).collect())
}

/// The same, each packet in a transaction of its own.
fn singly<N: NetworkFunction>(states: Vec<Held<N>>) -> Vec<Held<N>> {
    let singly = |state| match state {
        Held::State(state) => Held::Singly(state),
        other => other,
    };
    states.into_iter().map(singly).collect()
}

/// The same, packet sets apart: each worker has opened its own.
fn apart<N: Subject>(
    scenario: &Scenario,
    deployment: &Deployment,
    pass: Option<Pass>,
    turns: Option<bool>,
) -> Result<Vec<Held<N>>, BenchError> {
    let Deployment { steering, table, .. } = deployment;
    let open = |(worker, member)| {
        let mine = Arc::new(share(&scenario.opening, steering, table, worker).0);
        opened(&mine, State::Tracked(Box::new(member)))
    };
    let members = divided::<N>(&scenario.settings, deployment, pass, turns)?.into_iter();
    Ok(members.enumerate().map(open).collect())
}

/// The state, with the flows of `opening` open.
fn opened<N: NetworkFunction>(opening: &Arc<Trace>, state: State<N>) -> Held<N> {
    let mut pool = pool();
    let mut runner = Runner::<N>::new(&mut pool, Held::State(state), None);
    runner.load(opening);
    runner.run(opening.len());
    runner.into_state()
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
