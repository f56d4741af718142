//! Planted bugs: every one that breaks a plan is noticed by traffic, with a sequence of a few packets.

use std::collections::BTreeMap;

use anabranch_analysis::{Budget, Paths, Source, paths_within};
use anabranch_nf::NetworkFunction;
use anabranch_nfs::{bridge, firewall, lb, nat, policer};
use anabranch_plan::{Options, Plan, PlanError, Strategy, check, plan};
use anabranch_rss::Nic;
use anabranch_verify::{Effort, Fault, Findings, Mutation, Setup, Subject, example, verify};

fn paths_of<N: NetworkFunction>() -> Paths {
    let source = Source { text: N::SOURCE.text, file: N::SOURCE.file, line: N::SOURCE.line };
    paths_within(&source, Budget::for_accesses()).unwrap()
}

fn options() -> Options {
    Options::new(Nic::named("e810").unwrap())
}

/// What becomes of a mutated plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It breaks something, which traffic notices.
    Breaks,
    /// The check refuses it for its form, or for its NIC, whatever traffic notices.
    Refused,
    /// It is as right as before.
    Harmless,
}

/// What a mutation does. Of steered allocation and of the runtime a check of the plan says nothing: there
/// every one breaks something but where the function does not use what is broken.
fn effect(paths: &Paths, found: &Plan, mutation: &Mutation) -> Effect {
    let breaks = |does: bool| if does { Effect::Breaks } else { Effect::Harmless };
    match mutation {
        Mutation::Runtime(Fault::KeepsHandOvers) => breaks(found.nf == "nat"),
        Mutation::Runtime(Fault::MovesShards | Fault::MovesUndrained) => Effect::Breaks,
        Mutation::Unsteered(_) | Mutation::Base(..) => Effect::Breaks,
        // The period is cut short or goes on into the next address; both give out other ports.
        Mutation::Modulus(..) => Effect::Breaks,
        _ => {
            let plan = mutation.of_plan(found);
            match check(paths, &plan) {
                Err(PlanError::Unfit(_)) => Effect::Refused,
                checked => breaks(plan.strategy == Strategy::SharedNothing && checked.is_err()),
            }
        }
    }
}

fn try_out<N: NetworkFunction>(found: &Plan, mutation: &Mutation) -> Option<Findings> {
    let setup = Setup::new::<N>(example(N::NAME).parse().unwrap());
    let mutation = Some(mutation);
    let subject =
        Subject { setup: &setup, plan: found, workers: 4, mutation, programs: &[], paths: None };
    let effort = Effort { packets: 20_000, seeds: 3, first_seed: 7, rest: 0 };
    verify::<N>(&subject, effort, &mut |_| {}).ok()
}

/// Counts of what was caught, by kind.
#[derive(Default)]
struct Tally {
    caught: BTreeMap<String, usize>,
    missed: Vec<String>,
    harmless: usize,
}

impl Tally {
    fn add<N: NetworkFunction>(&mut self, paths: &Paths, found: &Plan, mutation: &Mutation) {
        let name = format!("{} {mutation}", N::NAME);
        let Some(findings) = try_out::<N>(found, mutation) else { return };
        match (findings.difference, effect(paths, found, mutation)) {
            (Some(difference), Effect::Breaks | Effect::Refused) => {
                let steps = difference.program.steps.len();
                println!("{name}: {steps} steps");
                // A shard that moves at the wrong moment needs the moment, which fewer steps change.
                let is_of_moment = *mutation == Mutation::Runtime(Fault::MovesUndrained);
                let most = if is_of_moment { 400 } else { 8 };
                assert!(steps <= most, "{name}\n{}", difference.to_text());
                let kind: String =
                    name.chars().take_while(|one| one.is_alphanumeric() || *one == ' ').collect();
                *self.caught.entry(kind.trim().to_owned()).or_default() += 1;
            }
            (None, Effect::Breaks) => {
                let why = check(paths, &mutation.of_plan(found));
                self.missed.push(format!("{name}: {why:?}"));
            }
            (None, Effect::Refused | Effect::Harmless) => self.harmless += 1,
            (Some(difference), Effect::Harmless) => {
                panic!("{name} breaks nothing, yet\n{}", difference.to_text())
            }
        }
    }

    fn draw<N: NetworkFunction>(&mut self, seeds: std::ops::Range<u64>) {
        let paths = paths_of::<N>();
        let found = plan(&paths, &options()).unwrap();
        for seed in seeds {
            if let Some(mutation) = Mutation::draw(&found, seed) {
                self.add::<N>(&paths, &found, &mutation);
            }
        }
    }

    fn forget<N: NetworkFunction>(&mut self, object: &str) {
        let paths = paths_of::<N>();
        let found = plan(&paths, &options()).unwrap();
        let mutation = Mutation::forgotten(&mut paths_of::<N>(), object, &options()).unwrap();
        self.add::<N>(&paths, &found, &mutation);
    }

    fn all_caught(&self, least: usize) {
        println!("caught {:#?}\nharmless {}", self.caught, self.harmless);
        let caught: usize = self.caught.values().sum();
        assert!(self.missed.is_empty(), "missed {:#?}", self.missed);
        assert!(caught >= least, "{caught} caught");
    }
}

#[test]
fn a_plan_for_the_nat_cannot_be_broken_unnoticed() {
    let mut tally = Tally::default();
    tally.draw::<nat::Function>(1..25);
    for object in ["inside", "mappings"] {
        tally.forget::<nat::Function>(object);
    }
    tally.all_caught(10);
}

#[test]
fn plans_for_packet_sets_cannot_be_broken_unnoticed() {
    let mut tally = Tally::default();
    tally.draw::<firewall::Function>(1..40);
    tally.draw::<policer::Function>(1..40);
    tally.forget::<firewall::Function>("Connection");
    tally.forget::<policer::Function>("Bucket");
    tally.all_caught(10);
}

#[test]
fn what_is_shared_cannot_be_kept_apart_unnoticed() {
    let mut tally = Tally::default();
    tally.draw::<bridge::Function>(1..2);
    tally.draw::<lb::Function>(1..2);
    tally.all_caught(2);
}
