//! What is measured in one run of the bench.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use anabranch_nfs::{bridge, bridge_static, firewall, lb, nat, nop, policer};

use crate::BenchError;
use crate::crew::{crews, pin};
use crate::document::{Document, Machine, Row};
use crate::measure::{exercise, one_worker};
use crate::scenario::Subject;

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Names of functions, of [`names`]; empty: all.
    pub nfs: Vec<String>,
    /// Numbers of flows, each at least 1.
    pub flows: Vec<usize>,
    /// Numbers of workers, each at least 1. One worker is always measured, to compare with.
    pub workers: Vec<usize>,
}

/// How far the bench is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A function is measured on a number of flows.
    Begins {
        /// Its name.
        nf: &'static str,
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
    fn most(&self) -> usize;
    fn rows(&self, flows: usize, workers: &[usize]) -> Result<Vec<Row>, BenchError>;
    fn exercise(&self, flows: usize, named: [&str; 3], packets: usize) -> Result<(), BenchError>;
}

struct Of<N>(PhantomData<N>);

impl<N: Subject> Contender for Of<N> {
    fn name(&self) -> &'static str {
        N::NAME
    }

    fn most(&self) -> usize {
        N::MOST
    }

    fn rows(&self, flows: usize, workers: &[usize]) -> Result<Vec<Row>, BenchError> {
        let scenario = N::scenario(flows)?;
        let mut rows = one_worker::<N>(&scenario, flows)?;
        if workers.len() > 1 {
            let by_hand = rows.iter().find(|row| row.strategy == "handwritten");
            let tsc = by_hand.map_or(f64::NAN, |row| row.tsc_per_packet);
            let distinct_flows = scenario.distinct;
            let of = Row { nf: N::NAME, flows, distinct_flows, ..Row::default() };
            rows.extend(crews::<N>(&scenario, &of, workers, tsc)?);
        }
        Ok(rows.into_iter().map(Row::rounded).collect())
    }

    fn exercise(&self, flows: usize, named: [&str; 3], packets: usize) -> Result<(), BenchError> {
        exercise::<N>(flows, named, packets)
    }
}

fn of<N: Subject>() -> Box<dyn Contender> {
    Box::new(Of::<N>(PhantomData))
}

/// Every function that has a job written by hand to be compared with.
fn contenders() -> Vec<Box<dyn Contender>> {
    vec![
        of::<nop::Function>(),
        of::<policer::Function>(),
        of::<firewall::Function>(),
        of::<bridge::Function>(),
        of::<bridge_static::Function>(),
        of::<nat::Function>(),
        of::<lb::Function>(),
    ]
}

/// Names of the functions that can be measured.
pub fn names() -> Vec<&'static str> {
    contenders().iter().map(|contender| contender.name()).collect()
}

/// Measures what `plan` says, and tells `watch` how far it is. Pins this thread to a core.
///
/// # Errors
/// [`BenchError::Unknown`] before anything is measured; else whatever keeps a function from being
/// measured.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Step)) -> Result<Document, BenchError> {
    let contenders = chosen(&plan.nfs)?;
    let workers: BTreeSet<usize> = plan.workers.iter().copied().chain([1]).collect();
    let workers: Vec<usize> = workers.into_iter().collect();
    if plan.flows.contains(&0) || workers.contains(&0) {
        return Err(BenchError::Settings("flows and workers are 1 or more".to_owned()));
    }
    let mut document = Document { machine: Machine::this(), results: Vec::new() };
    pin(0);
    let (steps, mut done) = (contenders.len() * plan.flows.len(), 0);
    for contender in &contenders {
        for &flows in &plan.flows {
            let (nf, most) = (contender.name(), contender.most());
            if flows > most {
                watch(Step::Skipped { nf, flows, most });
            } else {
                watch(Step::Begins { nf, flows, done, steps });
                document.results.extend(contender.rows(flows, &workers)?);
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
        return Ok(contenders());
    }
    let named = |name: &String| {
        let found = contenders().into_iter().find(|contender| contender.name() == name);
        found.ok_or_else(|| BenchError::Unknown(name.clone()))
    };
    nfs.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(nfs: &[&str], flows: &[usize], workers: &[usize]) -> Plan {
        let nfs = nfs.iter().map(|&nf| nf.to_owned()).collect();
        Plan { nfs, flows: flows.to_vec(), workers: workers.to_vec() }
    }

    #[test]
    fn every_function_is_measured_in_every_way() {
        let mut steps = Vec::new();
        let document = run(&plan(&[], &[100], &[]), &mut |step| steps.push(step)).unwrap();
        assert_eq!(steps.len(), names().len());
        for nf in names() {
            let rows: Vec<&Row> = document.results.iter().filter(|row| row.nf == nf).collect();
            for strategy in ["sequential", "handwritten", "handwritten-bare", "header-only"] {
                assert!(rows.iter().any(|row| row.strategy == strategy), "{nf} {strategy}");
            }
            assert_eq!((rows[0].prefetch, rows[0].steering_hash), ("auto", "supplied"));
            for row in rows {
                assert!(row.mpps > 0.0 && row.ratio_to_handwritten > 0.0 && row.spread >= 0.0);
                assert!(row.repetitions >= 2 && (90..=100).contains(&row.distinct_flows));
                assert!(row.strategy != "handwritten" || row.ratio_to_handwritten == 1.0);
            }
        }
    }

    #[test]
    fn crews_are_compared_with_a_crew_of_one() {
        let document =
            run(&plan(&["firewall", "nat", "bridge"], &[100], &[2]), &mut |_| {}).unwrap();
        let divided = Some((2, "shared-nothing"));
        for (nf, divided) in [("firewall", divided), ("nat", divided), ("bridge", None)] {
            let of = |row: &&Row| row.nf == nf && row.ratio_to_one_worker.is_some();
            let crews: Vec<&Row> = document.results.iter().filter(of).collect();
            let kinds: Vec<_> = crews.iter().map(|row| (row.workers, row.strategy)).collect();
            let mut expected = vec![(1, "one-worker"), (1, "transactional"), (1, "lock")];
            expected.extend(divided);
            expected.extend([(2, "transactional"), (2, "lock")]);
            assert_eq!(kinds, expected, "{nf}");
            assert_eq!(crews[0].ratio_to_one_worker, Some(1.0));
            assert!(crews[1].ratio_to_one_worker.is_some_and(|ratio| ratio > 0.0));
        }
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
