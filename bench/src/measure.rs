//! One worker: contestants in turn, and the figures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_io::port::Pool;
use anabranch_nf::{BuildError, NetworkFunction};
use anabranch_runtime::deployment::Deployment;
use anabranch_runtime::hardware::Hardware;
use anabranch_runtime::instance::{Instance, Making};
use anabranch_runtime::steer::Steering;
use anabranch_runtime::transactions::{Member, Members};
use anabranch_runtime::tuner::Pass;
use anabranch_runtime::worker::State;

use crate::BenchError;
use crate::clock::{Cost, measure};
use crate::crew;
use crate::document::Row;
use crate::hand::Hand;
use crate::hand::floor::Floor;
use crate::held::Held;
use crate::lane::{BareRunner, HandRunner, Packed, Runner, pool};
use crate::packets::START_NS;
use crate::planned::{ports, steering};
use crate::scenario::{Scenario, Subject};

/// Packets of a measurement: some tenths of a millisecond, so that many escape being interrupted.
/// The fastest counts: on a machine with other work the rest measure that work.
const SLICE: usize = if cfg!(test) { 1 << 10 } else { 1 << 15 };
/// Measurements that a contestant makes in a row, at least; those over the whole trace if that is
/// longer, so that its own tables are in the caches and not the others'.
const SLICES: usize = 8;
/// Turns of each contestant, at least and at most.
const TURNS: (usize, usize) = if cfg!(test) { (2, 2) } else { (5, 60) };
/// After this time there are no more turns than the least.
const ENOUGH: Duration = Duration::from_secs(6);

/// Something that is measured.
struct Contestant<'c> {
    strategy: &'static str,
    prefetch: &'static str,
    hash: &'static str,
    /// Handles so many packets, and tells how many it were.
    run: Box<dyn FnMut(usize) -> u64 + 'c>,
    costs: Vec<Cost>,
}

impl<'c> Contestant<'c> {
    fn of_function<N: Subject>(
        runner: &'c mut Runner<'_, N>,
        prefetch: &'static str,
        hash: &'static str,
    ) -> Self {
        let run = Box::new(|packets| runner.run(packets));
        Self { strategy: "sequential", prefetch, hash, run, costs: Vec::new() }
    }

    fn by_hand(strategy: &'static str, run: impl FnMut(usize) -> u64 + 'c) -> Self {
        let prefetch = if strategy == "header-only" { "off" } else { "on" };
        Self { strategy, prefetch, hash: "none", run: Box::new(run), costs: Vec::new() }
    }

    fn turn(&mut self, slices: usize, hardware: &mut Option<Hardware>) {
        for _ in 0..slices {
            self.costs.push(measure(hardware, || (self.run)(SLICE)));
        }
    }

    fn row(&self, of: &Row) -> Row {
        let row = Row {
            strategy: self.strategy,
            prefetch: self.prefetch,
            steering_hash: self.hash,
            workers: 1,
            ..of.clone()
        };
        with_costs(row, &self.costs)
    }
}

/// The row with the figures of the fastest of `costs`.
pub fn with_costs(mut row: Row, costs: &[Cost]) -> Row {
    let per_packet = |of: &dyn Fn(&Cost) -> Option<u64>| -> Option<Vec<f64>> {
        let each = |cost: &Cost| Some(of(cost)? as f64 / cost.packets.max(1) as f64);
        let mut all: Vec<f64> = costs.iter().map(each).collect::<Option<_>>()?;
        all.sort_by(f64::total_cmp);
        Some(all)
    };
    let fastest = |of: &dyn Fn(&Cost) -> Option<u64>| per_packet(of)?.first().copied();
    let tsc = per_packet(&|cost| Some(cost.tsc)).unwrap_or_default();
    let ns = fastest(&|cost| Some(cost.time.as_nanos() as u64)).unwrap_or_default();
    row.tsc_per_packet = tsc.first().copied().unwrap_or_default();
    let median = tsc.get(tsc.len() / 2).copied().unwrap_or_default();
    row.spread = (median - row.tsc_per_packet) / row.tsc_per_packet;
    row.cycles_per_packet = fastest(&|cost| cost.cycles);
    row.instructions_per_packet = fastest(&|cost| cost.instructions);
    row.mpps = 1e3 / ns;
    row.repetitions = costs.len();
    row
}

/// Measures `N` on one worker: the rows of contestants, as `of` but for what is theirs.
///
/// # Errors
/// Settings that the function refuses, or packets that a contestant drops.
pub fn one_worker<N: Subject>(scenario: &Scenario, of: &Row) -> Result<Vec<Row>, BenchError> {
    let (mut rows, memory) = contest::<N, _>(scenario, |contestants| {
        compete(contestants, scenario.steady.len());
        contestants.iter().map(|contestant| contestant.row(of)).collect::<Vec<_>>()
    })?;
    (rows[0].bytes_per_flow, rows[0].resident_bytes_per_flow) = memory;
    Ok(rows)
}

/// Has one contestant, named by strategy, prefetch and steering hash, handle `packets` packets; of a
/// strategy by which workers share state, a worker that is the only one.
///
/// # Errors
/// As [`one_worker`]; [`BenchError::Unknown`] where there is no such contestant.
pub fn exercise<N: Subject>(
    scenario: &Scenario,
    named: [&str; 3],
    packets: usize,
) -> Result<(), BenchError> {
    let is_it = |one: &&mut Contestant<'_>| [one.strategy, one.prefetch, one.hash] == named;
    if named == ["transactional", "off", "watched"] {
        crew::watched::<N>(scenario)?.run(packets);
        return Ok(());
    }
    if let Some(part) = crew::lone::<N>(scenario, named)? {
        part.run(packets);
        return Ok(());
    }
    let (found, _) = contest::<N, _>(scenario, |contestants| {
        contestants.iter_mut().find(is_it).map(|contestant| (contestant.run)(packets))
    })?;
    found.map(|_| ()).ok_or_else(|| BenchError::Unknown(named.join(" ")))
}

/// Bytes a flow takes: by the tables' sizes, and by resident pages.
type Memory = (Option<f64>, Option<f64>);

/// Makes all contestants, has them do `work`, and checks that they dropped nothing.
fn contest<N: Subject, R>(
    scenario: &Scenario,
    work: impl FnOnce(&mut [Contestant<'_>]) -> R,
) -> Result<(R, Memory), BenchError> {
    let variants = variants::<N>();
    let mut pools: Vec<Pool> = variants.iter().map(|_| pool()).collect();
    let (mut runners, memory) = runners::<N>(&mut pools, &variants, scenario)?;
    let (packed, mut loops) = (Packed::new(&scenario.steady), loops(scenario));
    let mut pools: Vec<Pool> = loops.iter().map(|_| pool()).collect();
    let mut bare = BareRunner::new(&packed, scenario.hand());
    let mut on_ports: Vec<_> = pools
        .iter_mut()
        .zip(loops.drain(..))
        .map(|(pool, (strategy, hand))| (strategy, HandRunner::new(pool, hand, &scenario.steady)))
        .collect();
    let functions = runners.iter_mut().zip(&variants);
    let mut contestants: Vec<_> = functions
        .map(|(runner, &(_, prefetch, hash))| Contestant::of_function(runner, prefetch, hash))
        .collect();
    contestants.extend(
        on_ports
            .iter_mut()
            .map(|(strategy, runner)| Contestant::by_hand(strategy, |packets| runner.run(packets))),
    );
    contestants.push(Contestant::by_hand("handwritten-bare", |packets| bare.run(packets)));
    let result = work(&mut contestants);
    drop(contestants);
    let by_hand = on_ports.iter().map(|(_, runner)| runner.dropped());
    for (dropped, packets) in runners.iter().map(Runner::dropped).chain(by_hand) {
        if dropped > 0 {
            return Err(BenchError::Dropped { nf: N::NAME, dropped, packets });
        }
    }
    Ok((result, memory))
}

/// The function in each of its variants, flows open, and the memory that the first one takes.
fn runners<'m, N: Subject>(
    pools: &'m mut [Pool],
    variants: &[Variant],
    scenario: &Scenario,
) -> Result<(Vec<Runner<'m, N>>, Memory), BenchError> {
    let (mut runners, mut memory) = (Vec::new(), (None, None));
    let before = resident();
    for (pool, &(pass, _, hash)) in pools.iter_mut().zip(variants) {
        let opening = Some(&scenario.opening);
        let steering = (hash == "computed").then(steering::<N>).transpose()?;
        let mut runner = opened::<N>(pool, &scenario.settings, opening, pass, steering)?;
        if runners.is_empty() {
            memory = (
                bytes_per_flow(&mut runner, scenario.flows),
                resident_since(before, scenario.flows),
            );
        }
        runner.load(&scenario.steady);
        runners.push(runner);
    }
    Ok((runners, memory))
}

/// The loops that run over a port.
fn loops(scenario: &Scenario) -> Vec<(&'static str, Box<dyn Hand>)> {
    let mut loops = vec![("handwritten", scenario.hand())];
    loops.extend(scenario.limit().map(|limit| ("lookup-only", limit)));
    loops.push(("header-only", Box::new(Floor)));
    loops
}

/// A way in which a function is run: the Prefetch pass, its name, the steering hash.
type Variant = (Option<Pass>, &'static str, &'static str);

fn variants<N: NetworkFunction>() -> Vec<Variant> {
    let mut variants = vec![
        (None, "auto", "supplied"),
        (None, "auto", "computed"),
        (Some(Pass::Off), "off", "supplied"),
    ];
    if N::SET.is_some() || N::OBJECTS {
        variants.push((Some(Pass::One), "one", "supplied"));
    }
    if N::OBJECTS {
        variants.push((Some(Pass::Two), "two", "supplied"));
    }
    variants
}

/// Lets the contestants take turns over a trace of `packets` packets.
fn compete(contestants: &mut [Contestant<'_>], packets: usize) {
    let slices = packets.div_ceil(SLICE).max(SLICES);
    let mut hardware = Hardware::open();
    for contestant in contestants.iter_mut() {
        (contestant.run)(slices * SLICE);
    }
    let started = Instant::now();
    for turn in 0..TURNS.1 {
        if turn >= TURNS.0 && started.elapsed() > ENOUGH {
            break;
        }
        contestants.iter_mut().for_each(|contestant| contestant.turn(slices, &mut hardware));
    }
}

/// An instance of `N`, started.
///
/// # Errors
/// Settings that the function refuses.
pub fn instance<N: NetworkFunction>(
    settings: &toml::Table,
    pass: Option<Pass>,
) -> Result<Instance<N>, BuildError> {
    Ok(started(Instance::new(&making::<N>(settings, pass))?))
}

/// As [`instance`], of one worker of several.
///
/// # Errors
/// Settings that the function refuses.
pub fn deployed<N: NetworkFunction>(
    settings: &toml::Table,
    deployment: &Deployment,
) -> Result<Vec<Instance<N>>, BuildError> {
    let instances = deployment.instances(&making::<N>(settings, None))?;
    Ok(instances.into_iter().map(started).collect())
}

/// As [`instance`], of `workers` workers that share all state in transactions.
///
/// # Errors
/// Settings that the function refuses.
pub fn members<N: NetworkFunction>(
    settings: &toml::Table,
    workers: usize,
    pass: Option<Pass>,
    turns: Option<bool>,
) -> Result<Vec<Member<N>>, BuildError> {
    let making = Making { turns, ..making::<N>(settings, pass) };
    Ok(begun(Members::new(&making, workers, false)?))
}

/// The same, packet sets apart.
///
/// # Errors
/// Settings that the function refuses.
pub fn divided<N: NetworkFunction>(
    settings: &toml::Table,
    deployment: &Deployment,
    pass: Option<Pass>,
    turns: Option<bool>,
) -> Result<Vec<Member<N>>, BuildError> {
    let making = Making { turns, ..making::<N>(settings, pass) };
    Ok(begun(Members::divided(&making, deployment, false)?))
}

/// The only one of its workers, watched.
///
/// # Errors
/// Settings that the function refuses.
pub fn profiled<N: NetworkFunction>(
    settings: &toml::Table,
) -> Result<Member<N::Profiled>, BuildError> {
    let making = making::<N>(settings, Some(Pass::Off));
    let members = Members::<N::Profiled>::watched(&making, 1, None, &Arc::default())?;
    let Some(member) = begun(members).pop() else { unreachable!("there is one") };
    Ok(member)
}

fn begun<N: NetworkFunction>(mut members: Members<N>) -> Vec<Member<N>> {
    members.start(START_NS);
    members.into_members()
}

fn making<N: NetworkFunction>(settings: &toml::Table, pass: Option<Pass>) -> Making {
    Making { seed: 1, settings: settings.clone(), ports: ports::<N>(), pass, turns: None }
}

fn started<N: NetworkFunction>(mut instance: Instance<N>) -> Instance<N> {
    instance.start(START_NS);
    instance
}

/// A runner with an instance of its own, the flows of `opening` open.
///
/// # Errors
/// Settings that the function refuses.
pub fn opened<'m, N: NetworkFunction>(
    pool: &'m mut Pool,
    settings: &toml::Table,
    opening: Option<&Arc<anabranch_io::Trace>>,
    pass: Option<Pass>,
    steering: Option<Arc<Steering>>,
) -> Result<Runner<'m, N>, BuildError> {
    let state = Held::State(State::Own(Box::new(instance::<N>(settings, pass)?)));
    let mut runner = Runner::new(pool, state, steering);
    if let Some(opening) = opening {
        runner.load(opening);
        runner.run(opening.len());
    }
    Ok(runner)
}

/// Memory of the entries in use, each with its share of what its table takes when it is full.
fn bytes_per_flow<N: NetworkFunction>(runner: &mut Runner<'_, N>, flows: usize) -> Option<f64> {
    let tables = runner.state().tables();
    let used = |table: &anabranch_nf::state::TableUse| {
        table.bytes as f64 / table.capacity.max(1) as f64 * table.used as f64
    };
    let bytes: f64 = tables.iter().map(used).sum();
    (bytes > 0.0).then(|| bytes / flows as f64)
}

/// Flows from which on resident pages tell what one takes.
const MANY: usize = 50_000;

/// Bytes of this process that are in memory.
pub fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

/// Bytes a flow that have become resident since there were `before`; `None`: too few flows to tell.
pub fn resident_since(before: Option<u64>, flows: usize) -> Option<f64> {
    let grown = resident()?.saturating_sub(before?);
    (flows >= MANY).then(|| grown as f64 / flows as f64)
}
