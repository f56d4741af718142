//! What is measured in one run of the bench.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use anabranch_nfs::{bridge, bridge_static, firewall, lb, nat, nop, policer};

use crate::BenchError;
use crate::crew::{crews, pin};
use crate::document::{Document, Machine, Row};
use crate::hand::BATCH;
use crate::measure::{exercise, one_worker};
use crate::planned::plan;
use crate::scenario::{Load, Subject};

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Names of functions, of [`names`], or of one with `/` and one of its loads, those that are measured
    /// only where they are named included; empty: all.
    pub nfs: Vec<String>,
    /// Numbers of flows, each at least 1.
    pub flows: Vec<usize>,
    /// Numbers of workers, each at least 1. One worker is always measured, to compare with.
    pub workers: Vec<usize>,
    /// Strategies to measure, of [`STRATEGIES`], by workers at once and nothing beside them; empty:
    /// all, and one worker against loops written by hand.
    pub strategies: Vec<String>,
}

/// Strategies by which workers share state, in the order of their rows.
pub const STRATEGIES: [&str; 6] =
    ["sequential", "shared-nothing", "mixed", "transactional", "lock", "mutex"];

/// How far the bench is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A function is measured on a number of flows.
    Begins {
        /// Its name.
        nf: &'static str,
        /// Its load; empty where it has one.
        load: &'static str,
        /// Flows.
        flows: usize,
        /// Steps that are done.
        done: usize,
        /// Steps in all.
        steps: usize,
    },
    /// A function is not measured on that many flows.
    Skipped {
        /// Its name.
        nf: &'static str,
        /// Flows asked for.
        flows: usize,
        /// Flows it can be measured on.
        most: usize,
    },
}

/// A function to measure, whatever its type.
trait Contender {
    fn name(&self) -> &'static str;
    fn load(&self) -> Load;
    fn most(&self) -> usize;
    /// Whether it is compared with one worker only, and measured where it is named only.
    fn is_contended(&self) -> bool;
    fn rows(&self, flows: usize, wanted: &Wanted<'_>) -> Result<Vec<Row>, BenchError>;
    fn exercise(&self, flows: usize, named: [&str; 3], packets: usize) -> Result<(), BenchError>;
}

/// Numbers of workers, ascending from 1, and strategies; none: all, and loops written by hand.
struct Wanted<'p> {
    workers: &'p [usize],
    strategies: &'p [String],
}

struct Of<N> {
    load: Load,
    function: PhantomData<N>,
}

impl<N: Subject> Contender for Of<N> {
    fn name(&self) -> &'static str {
        N::NAME
    }

    fn load(&self) -> Load {
        self.load
    }

    fn most(&self) -> usize {
        N::MOST
    }

    fn is_contended(&self) -> bool {
        N::CONTENDED.contains(&self.load)
    }

    fn rows(&self, flows: usize, wanted: &Wanted<'_>) -> Result<Vec<Row>, BenchError> {
        let Wanted { workers, strategies } = *wanted;
        let scenario = N::scenario_under(self.load, flows)?;
        let of = Row {
            nf: N::NAME,
            load: (!self.load.is_empty()).then_some(self.load),
            flows,
            distinct_flows: scenario.distinct,
            solve_us: plan::<N>()?.solve_us,
            batch: BATCH,
            ..Row::default()
        };
        let all = STRATEGIES.map(str::to_owned);
        let strategies = match strategies {
            [] if self.is_contended() => &all,
            wanted => wanted,
        };
        if !strategies.is_empty() {
            let rows = crews::<N>(&scenario, &of, workers, Some(strategies))?;
            return Ok(rows.into_iter().map(Row::rounded).collect());
        }
        let mut rows = one_worker::<N>(&scenario, &of)?;
        if workers.len() > 1 {
            rows.extend(crews::<N>(&scenario, &of, workers, None)?);
        }
        relate(&mut rows);
        Ok(rows.into_iter().map(Row::rounded).collect())
    }

    fn exercise(&self, flows: usize, named: [&str; 3], packets: usize) -> Result<(), BenchError> {
        exercise::<N>(&N::scenario_under(self.load, flows)?, named, packets)
    }
}

/// Sets each row's ratio to the hand-written loop.
fn relate(rows: &mut [Row]) {
    let by_hand = rows.iter().find(|row| row.strategy == "handwritten");
    let tsc = by_hand.map(|row| row.tsc_per_packet);
    rows.iter_mut()
        .for_each(|row| row.ratio_to_handwritten = tsc.map(|tsc| row.tsc_per_packet / tsc));
}

fn of<N: Subject>(contenders: &mut Vec<Box<dyn Contender>>) {
    let one = |&load| Box::new(Of::<N> { load, function: PhantomData }) as Box<dyn Contender>;
    contenders.extend(N::LOADS.iter().chain(N::CONTENDED).map(one));
}

/// Every load of every function.
fn contenders() -> Vec<Box<dyn Contender>> {
    let mut contenders = Vec::new();
    of::<nop::Function>(&mut contenders);
    of::<policer::Function>(&mut contenders);
    of::<firewall::Function>(&mut contenders);
    of::<bridge::Function>(&mut contenders);
    of::<bridge_static::Function>(&mut contenders);
    of::<nat::Function>(&mut contenders);
    of::<lb::Function>(&mut contenders);
    #[cfg(feature = "security")]
    of::<anabranch_nfs::synthetic::Function>(&mut contenders);
    #[cfg(feature = "security")]
    of::<anabranch_nfs::anti_ddos::Function>(&mut contenders);
    contenders
}

/// Every function, under every load in which it has a job written by hand to be compared with.
fn compared() -> impl Iterator<Item = Box<dyn Contender>> {
    contenders().into_iter().filter(|contender| !contender.is_contended())
}

/// Names of the functions that can be measured by themselves, without one of their loads.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = compared().map(|contender| contender.name()).collect();
    names.dedup();
    names
}

/// Measures what `plan` says, and tells `watch` how far it is.
///
/// # Errors
/// [`BenchError::Unknown`] before anything is measured; else whatever keeps a function from being
/// measured.
pub fn run(plan: &Plan, watch: &mut (dyn FnMut(Step) + Send)) -> Result<Document, BenchError> {
    // A thread of its own is pinned: what the caller starts later may run on every core.
    scope(|threads| {
        let measuring = Builder::new().spawn_scoped(threads, || measure(plan, watch));
        let measured = measuring.map_err(BenchError::Threads)?.join();
        measured.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn measure(plan: &Plan, watch: &mut dyn FnMut(Step)) -> Result<Document, BenchError> {
    let contenders = chosen(&plan.nfs)?;
    let workers: BTreeSet<usize> = plan.workers.iter().copied().chain([1]).collect();
    let workers: Vec<usize> = workers.into_iter().collect();
    if plan.flows.contains(&0) || workers.contains(&0) {
        return Err(BenchError::Settings("flows and workers are 1 or more".to_owned()));
    }
    let unknown = |strategy: &&String| !STRATEGIES.contains(&strategy.as_str());
    if let Some(strategy) = plan.strategies.iter().find(unknown) {
        return Err(BenchError::Settings(format!("there is no strategy {strategy}")));
    }
    let wanted = Wanted { workers: &workers, strategies: &plan.strategies };
    let mut document = Document { machine: Machine::this(), results: Vec::new() };
    pin(0);
    let (steps, mut done) = (contenders.len() * plan.flows.len(), 0);
    for contender in &contenders {
        for &flows in &plan.flows {
            let (nf, load, most) = (contender.name(), contender.load(), contender.most());
            if flows > most {
                watch(Step::Skipped { nf, flows, most });
            } else {
                watch(Step::Begins { nf, load, flows, done, steps });
                document.results.extend(contender.rows(flows, &wanted)?);
            }
            done += 1;
        }
    }
    Ok(document)
}

/// Has one contestant of the function `nf`, named by its row's strategy, prefetch and steering
/// hash, handle `packets` packets of `flows` flows, for a profiler to look at.
///
/// # Errors
/// [`BenchError::Unknown`]; else as [`run`].
pub fn work(nf: &str, flows: usize, named: [&str; 3], packets: usize) -> Result<(), BenchError> {
    let found = chosen(&[nf.to_owned()])?;
    found.iter().try_for_each(|contender| contender.exercise(flows, named, packets))
}

/// The functions named, in that order; all when none is.
fn chosen(nfs: &[String]) -> Result<Vec<Box<dyn Contender>>, BenchError> {
    if nfs.is_empty() {
        return Ok(compared().collect());
    }
    let mut chosen = Vec::new();
    for name in nfs {
        let (nf, load) =
            name.split_once('/').map_or((&**name, None), |(nf, load)| (nf, Some(load)));
        let is_it = |one: &dyn Contender| {
            one.name() == nf && load.map_or(!one.is_contended(), |load| one.load() == load)
        };
        let before = chosen.len();
        chosen.extend(contenders().into_iter().filter(|one| is_it(&**one)));
        if chosen.len() == before {
            return Err(BenchError::Unknown(name.clone()));
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use anabranch_runtime::cores::Cores;

    use super::*;

    fn plan(nfs: &[&str], flows: &[usize], workers: &[usize]) -> Plan {
        let nfs = nfs.iter().map(|&nf| nf.to_owned()).collect();
        Plan { nfs, flows: flows.to_vec(), workers: workers.to_vec(), strategies: Vec::new() }
    }

    #[test]
    fn every_function_is_measured_in_every_way() {
        let mut steps = Vec::new();
        let document = run(&plan(&[], &[100], &[]), &mut |step| steps.push(step)).unwrap();
        assert!(steps.len() >= names().len() && names().contains(&"synthetic"));
        for nf in names() {
            let rows: Vec<&Row> = document.results.iter().filter(|row| row.nf == nf).collect();
            for strategy in ["sequential", "handwritten", "handwritten-bare", "header-only"] {
                assert!(rows.iter().any(|row| row.strategy == strategy), "{nf} {strategy}");
            }
            assert_eq!((rows[0].prefetch, rows[0].steering_hash), ("auto", "supplied"));
            for row in rows {
                assert!(
                    row.mpps > 0.0 && row.ratio_to_handwritten > Some(0.0) && row.spread >= 0.0
                );
                assert!(row.repetitions >= 2 && (90..=100).contains(&row.distinct_flows));
                assert!(row.strategy != "handwritten" || row.ratio_to_handwritten == Some(1.0));
            }
        }
    }

    #[test]
    fn crews_are_compared_with_a_crew_of_one() {
        let document =
            run(&plan(&["firewall", "nat", "bridge"], &[100], &[2]), &mut |_| {}).unwrap();
        let divided = Some((2, "shared-nothing", 32));
        for (nf, divided) in [("firewall", divided), ("nat", divided), ("bridge", None)] {
            let of = |row: &&Row| row.nf == nf && row.ratio_to_one_worker.is_some();
            let crews: Vec<&Row> = document.results.iter().filter(of).collect();
            let kind = |row: &&Row| (row.workers, row.strategy, row.batch);
            let kinds: Vec<_> = crews.iter().map(kind).collect();
            let shared = |workers| {
                let transactional = [32, 1].map(|batch| (workers, "transactional", batch));
                transactional.into_iter().chain([(workers, "lock", 32), (workers, "mutex", 32)])
            };
            let mut expected = vec![(1, "one-worker", 32)];
            expected.extend(shared(1));
            expected.extend(divided);
            expected.extend(shared(2));
            assert_eq!(kinds, expected, "{nf}");
            assert_eq!(crews[0].ratio_to_one_worker, Some(1.0));
            assert!(crews[1].ratio_to_one_worker.is_some_and(|ratio| ratio > 0.0));
        }
    }

    #[test]
    fn strategies_that_are_asked_for_are_measured_on_one_worker_too() {
        let strategies = |named: &[&str]| Plan {
            strategies: named.iter().map(|&one| one.to_owned()).collect(),
            ..plan(&["synthetic/read-write-zipf", "nop"], &[100], &[2])
        };
        let document = run(&strategies(&["mutex", "shared-nothing"]), &mut |_| {}).unwrap();
        let of = |row: &Row| (row.nf, row.load, row.workers, row.strategy);
        let rows: Vec<_> = document.results.iter().map(of).collect();
        let load = Some("read-write-zipf");
        let expected = [
            ("synthetic", load, 1, "sequential"),
            ("synthetic", load, 1, "mutex"),
            ("synthetic", load, 2, "mutex"),
            ("nop", None, 1, "sequential"),
            ("nop", None, 1, "mutex"),
            ("nop", None, 2, "shared-nothing"),
            ("nop", None, 2, "mutex"),
        ];
        assert_eq!(rows, expected);
        for row in &document.results {
            assert!(row.ratio_to_handwritten.is_none() && row.ratio_to_one_worker > Some(0.0));
        }
        let unknown = run(&strategies(&["mutexes"]), &mut |_| {});
        assert!(matches!(unknown, Err(BenchError::Settings(_))));
        let load = run(&plan(&["synthetic/read"], &[1], &[]), &mut |_| {});
        assert!(matches!(load, Err(BenchError::Unknown(name)) if name == "synthetic/read"));
    }

    #[test]
    fn loads_in_which_workers_meet_are_measured_where_they_are_named() {
        let all = contenders();
        let contended = all.iter().filter(|one| one.is_contended());
        let contended: Vec<String> =
            contended.map(|one| format!("{}/{}", one.name(), one.load())).collect();
        assert_eq!(contended.len(), 6, "{contended:?}");
        let names: Vec<&str> = contended.iter().map(String::as_str).collect();
        let mut wanted = plan(&names, &[1_000], &[2]);
        wanted.strategies = vec!["transactional".to_owned()];
        let document = run(&wanted, &mut |_| {}).unwrap();
        for name in &names {
            let is_its =
                |row: &&Row| *name == format!("{}/{}", row.nf, row.load.unwrap_or_default());
            let rows: Vec<&Row> = document.results.iter().filter(is_its).collect();
            let kinds: Vec<_> = rows.iter().map(|row| (row.workers, row.batch)).collect();
            assert_eq!(kinds, [(1, 32), (1, 32), (1, 1), (2, 32), (2, 1)], "{name}");
            assert!(rows[0].aborts_per_million.is_none() && rows[0].mpps > 0.0, "{name}");
            assert!(rows[1..].iter().all(|row| row.aborts_per_million >= Some(0.0)), "{name}");
        }
        assert!(!super::names().contains(&"anti-ddos"), "it has no other load");
        let alone = run(&plan(&["anti-ddos"], &[1_000], &[]), &mut |_| {});
        assert!(matches!(alone, Err(BenchError::Unknown(name)) if name == "anti-ddos"));
        let few = run(&plan(&["nat/tight-pool"], &[100], &[]), &mut |_| {});
        assert!(matches!(few, Err(BenchError::Settings(_))));
    }

    #[test]
    fn who_asks_keeps_all_cores() {
        let before = Cores::allowed().count();
        run(&plan(&["nop"], &[10], &[]), &mut |_| {}).unwrap();
        assert_eq!(Cores::allowed().count(), before);
    }

    #[test]
    fn a_nat_session_takes_at_most_128_bytes() {
        let document = run(&plan(&["nat"], &[50_000], &[]), &mut |_| {}).unwrap();
        let row = &document.results[0];
        assert!(row.bytes_per_flow.is_some_and(|bytes| (20.0..=128.0).contains(&bytes)), "{row:?}");
    }

    #[test]
    fn what_cannot_be_measured_is_told() {
        let unknown = run(&plan(&["firewal"], &[1], &[]), &mut |_| {});
        assert!(matches!(unknown, Err(BenchError::Unknown(name)) if name == "firewal"));
        for nothing in [plan(&["nop"], &[0], &[]), plan(&["nop"], &[1], &[0])] {
            assert!(matches!(run(&nothing, &mut |_| {}), Err(BenchError::Settings(_))));
        }
        let many = plan(&["bridge-static"], &[1 << 20], &[]);
        let mut steps = Vec::new();
        assert!(run(&many, &mut |step| steps.push(step)).unwrap().results.is_empty());
        assert!(matches!(steps[..], [Step::Skipped { .. }]));
        let crowd = run(&plan(&["nop"], &[1], &[1_000]), &mut |_| {});
        assert!(matches!(crowd, Err(BenchError::Settings(_))), "more workers than shards");
        assert!(work("nat", 10, ["handwritten", "on", "none"], 100).is_ok());
        assert!(work("nat", 10, ["handwritten", "off", "none"], 100).is_err());
    }
}
