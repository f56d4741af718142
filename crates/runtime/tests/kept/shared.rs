//! State that all workers share: whatever the strategy, a store has it as one worker would have told it,
//! and any run whose state is one owner's goes on with it.

use std::collections::BTreeMap;

use anabranch_nf::NetworkFunction;
use anabranch_nfs::firewall;
use anabranch_plan::Strategy;
use anabranch_store::{Content, view};

use crate::case::{Case, planned};

/// How a part is run: by which strategy, by how many workers, and what the report says of it.
type Crew = (Option<Strategy>, usize, &'static str);

const ALONE: Crew = (None, 1, "one-worker");
const LOCKED: Crew = (None, 4, "lock");

fn plan_for<N: NetworkFunction>(case: &mut Case, (strategy, ..): Crew) {
    case.plan = strategy.map(|strategy| planned::<N>(Some(strategy)));
}

/// Runs a part with its state kept, and returns what was sent.
fn run<N: NetworkFunction>(case: &mut Case, part: usize, crew: Crew) -> crate::case::Sent {
    plan_for::<N>(case, crew);
    let (report, sent) = case.run::<N>(part, crew.1, true);
    assert_eq!((report.strategy.as_str(), report.workers.len()), (crew.2, crew.1));
    sent
}

/// What the store has of each object: values by key, a deadline apart where there is one.
fn stored<N: NetworkFunction>(case: &Case) -> BTreeMap<String, BTreeMap<Vec<u8>, (u64, Vec<u8>)>> {
    let mut store = case.location().look().unwrap();
    let state = view::state(&mut *store, N::NAME, Some("a")).unwrap();
    let mut objects = BTreeMap::<String, BTreeMap<_, _>>::new();
    for (key, content) in state {
        let object = objects.entry(key.id()).or_default();
        match content {
            Content::Map(entries) => object.extend(entries.into_iter().map(|(key, value)| {
                let (deadline, rest) = value.split_at(8.min(value.len()));
                (key, (u64::from_le_bytes(deadline.try_into().unwrap_or_default()), rest.to_vec()))
            })),
            Content::Counter(count) => drop(object.insert(Vec::new(), (0, count.to_le_bytes().into()))),
            _ => {}
        }
    }
    objects
}

/// A run by `crew` leaves in the store what a run by one worker does; deadlines are those of packets that
/// may have been handled later, never earlier.
fn stores_what_one_worker_does<N: NetworkFunction>(
    settings: &'static str,
    traffic: &str,
    crew: Crew,
    entries: usize,
) {
    let of = |crew: Crew| {
        let mut case = Case::of::<N>(settings);
        case.write::<N>(traffic, 1);
        run::<N>(&mut case, 1, crew);
        stored::<N>(&case)
    };
    let (alone, together) = (of(ALONE), of(crew));
    assert!(alone.values().map(BTreeMap::len).sum::<usize>() > entries);
    for (name, object) in &alone {
        let other = together.get(name);
        let keys = |object: &BTreeMap<Vec<u8>, _>| object.keys().cloned().collect::<Vec<_>>();
        assert_eq!(other.map(keys), Some(keys(object)), "{name}");
        for (key, (deadline, rest)) in object {
            let (other_deadline, other_rest) = &other.unwrap()[key];
            assert_eq!(other_rest, rest, "{name}: {key:?}");
            assert!(other_deadline >= deadline, "{name}: {key:?}: {other_deadline} {deadline}");
        }
    }
}

/// Stopped after each part and gone on with by others, it sends what one worker sends that is never
/// stopped.
fn goes_on<N: NetworkFunction>(settings: &'static str, traffic: &str, crews: &[Crew]) {
    let mut case = Case::of::<N>(settings);
    case.write::<N>(traffic, crews.len());
    let (_, mut expected) = case.run::<N>(0, 1, false);
    let mut sent = Vec::new();
    for (part, &crew) in crews.iter().enumerate() {
        sent.extend(run::<N>(&mut case, part + 1, crew));
    }
    expected.sort_by_key(|(port, ..)| *port);
    sent.sort_by_key(|(port, ..)| *port);
    assert_eq!(sent.len(), expected.len());
    let differs = sent.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "of {} packets", sent.len());
}

const FLOWS: &str = "gen:flows=3000,packets=60000,zipf=1.1,tcp=0.5,ipv6=0.2,churn=20000,seed=7";

#[test]
fn behind_the_lock_a_store_has_what_one_worker_would_tell() {
    stores_what_one_worker_does::<firewall::Function>("", FLOWS, LOCKED, 500);
}

#[test]
fn one_worker_and_several_behind_the_lock_go_on_from_each_other() {
    let crews = [LOCKED, ALONE, LOCKED, LOCKED];
    goes_on::<firewall::Function>("", FLOWS, &crews);
}
