//! Functions of the library on many cores: nothing differs, every call path is what runs, and most of
//! those that can be taken are.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod mutants;

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::{Budget, CallPath, Paths, Source, Verdict, paths_within};
use anabranch_nf::NetworkFunction;
use anabranch_plan::{Options, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{
    Done, Effort, Fault, Findings, Generator, Missing, Mutation, Parallel, Setup, Simulation,
    Subject,
};
use anabranch_verify::{example, verify};

fn planned<N: NetworkFunction>() -> Plan {
    plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap()
}

fn budget() -> Budget {
    Budget { unsolved: true, ..Budget::default() }
}

/// What comes of so much effort on four workers.
fn tried<N: NetworkFunction>(
    setup: &Setup,
    plan: &Plan,
    paths: Option<&Paths>,
    effort: Effort,
) -> Findings {
    let (workers, mutation, programs) = (4, None, &[]);
    let subject = Subject { setup, plan, workers, mutation, programs, paths };
    verify::<N>(&subject, effort, &mut |_| {}).unwrap()
}

/// Nothing differs.
fn agrees<N: NetworkFunction>(setup: &Setup, paths: Option<&Paths>) -> Findings {
    let effort = Effort { packets: 20_000, seeds: 4, first_seed: 1, rest: 0 };
    let found = tried::<N>(setup, &planned::<N>(), paths, effort);
    if let Some(difference) = &found.difference {
        panic!("{} seed {}\n{}", N::NAME, difference.seed, difference.to_text());
    }
    assert_eq!((found.seeds, found.differences), (4, 0));
    assert!(found.packets >= 80_000, "{}", found.packets);
    assert_eq!(found.threaded.differences, Vec::<String>::new());
    assert!(found.threaded.packets > 20_000, "{:?}", found.threaded);
    found
}

/// `least` call paths are taken, and so many pairs of accesses meet.
fn passes<N: NetworkFunction>(least: (usize, usize)) {
    let paths = paths_of(&N::SOURCE, budget()).unwrap();
    let setup = Setup::exemplified::<N>(toml::Table::new(), example(N::NAME));
    let found = agrees::<N>(&setup, Some(&paths));
    let taken = found.taken;
    assert_eq!(taken.disagreements, Vec::<String>::new());
    assert_eq!(taken.unknown, BTreeMap::new(), "what opaque functions return is known too");
    assert!(taken.reached.iter().all(|number| (1..=paths.paths.len()).contains(number)));
    let behind: usize = taken.barriers.iter().map(|(count, _)| count).sum();
    println!("{}: {} of {}", N::NAME, taken.reached.len(), paths.paths.len());
    let missing = taken.missing.len();
    assert_eq!(missing + taken.reached.len(), paths.paths.len(), "each has its reason");
    let unlisted = taken.unlisted > 0;
    assert!(unlisted || behind + taken.reached.len() <= paths.paths.len(), "{behind} are behind");
    let reached = (taken.reached.len(), taken.pairs.0);
    assert!(reached.0 >= least.0 && reached.1 >= least.1, "{reached:?} of {:?}", taken.pairs);
    assert!(taken.pairs.0 <= taken.pairs.1);
    // What is dropped while nobody follows counts too.
    let taken = taken.reached.iter().filter_map(|number| match &paths.paths[number - 1].verdict {
        Verdict::Drop(reason) => Some(reason.as_str()),
        _ => None,
    });
    let mut dropped: BTreeSet<&str> = dropped::<N>(&setup);
    dropped.extend(taken);
    has_dropped::<N>(&dropped);
}

/// A function that has reasons of its own to drop packets has dropped some for one of them: traffic
/// that it does not care for would agree too.
fn has_dropped<N: NetworkFunction>(dropped: &BTreeSet<&str>) {
    let mut own = N::REASONS.iter().map(|reason| reason.name);
    assert!(N::REASONS.is_empty() || own.any(|name| dropped.contains(name)), "{dropped:?}");
}

/// Why four workers behind a lock drop packets of traffic as `agrees` sends it.
fn dropped<N: NetworkFunction>(setup: &Setup) -> BTreeSet<&'static str> {
    let of_seed = |seed| {
        let program = Generator::new(setup, seed).program(5_000);
        let many = Simulation::<N>::new(&Parallel::locked(4), &setup.making(seed), seed).unwrap();
        many.run(&program).record.into_iter().filter_map(|handled| handled.outcome.refused)
    };
    (1..=4).flat_map(of_seed).collect()
}

macro_rules! pass {
    ($($nf:ident: $paths:literal $pairs:literal,)*) => {$(
        #[test]
        fn $nf() {
            passes::<anabranch_nfs::$nf::Function>(($paths, $pairs));
        }
    )*};
}

pass! {
    nop: 2 0,
    policer: 10 5,
    firewall: 92 5,
    bridge: 52 16,
    bridge_static: 4 0,
    nat: 560 108,
    lb: 180 64,
    router: 3 0,
    anti_ddos: 28 18,
    portscan: 45 15,
    trojan: 38 7,
    sidejacking: 14 8,
    prads: 70 6,
    dns_tunnel: 65 30,
}

/// Following these call paths takes too long for a test: many of them, or loops whose end is open.
#[test]
fn what_has_too_many_call_paths_agrees() {
    use anabranch_nfs::{dns_tunnel, synthetic};
    fn one<N: NetworkFunction>() {
        agrees::<N>(&Setup::exemplified::<N>(toml::Table::new(), example(N::NAME)), None);
    }
    fn one_that_drops<N: NetworkFunction>() {
        one::<N>();
        let setup = Setup::exemplified::<N>(toml::Table::new(), example(N::NAME));
        has_dropped::<N>(&dropped::<N>(&setup));
    }
    one_that_drops::<dns_tunnel::Function>();
    // Drops only after centuries.
    one::<synthetic::Function>();
}

/// Elements are counted up by one, and so only years of that would bring the reason that the function has. No index
/// is past the end.
#[test]
fn what_takes_years_is_told() {
    type N = anabranch_nfs::synthetic::Function;
    let paths = paths_of(&N::SOURCE, budget()).unwrap();
    let is_saturated = |path: &&CallPath| paths.verdict_of(path) == "Drop(saturated)";
    let saturated: BTreeSet<usize> =
        paths.paths.iter().filter(is_saturated).map(|path| path.number).collect();
    assert!(!saturated.is_empty() && paths.distant == saturated, "{:?}", paths.distant);
    assert!(!paths.to_text().contains("settings.elements <= chosen"));
    let setup = Setup::exemplified::<N>(toml::Table::new(), example(N::NAME));
    let effort = Effort { packets: 2_000, seeds: 1, first_seed: 1, rest: 0 };
    let taken = tried::<N>(&setup, &planned::<N>(), Some(&paths), effort).taken;
    assert_eq!(taken.disagreements, Vec::<String>::new());
    let years = taken.missing.into_iter().filter(|(_, why)| *why == Missing::Years);
    assert!(years.map(|(number, _)| number).eq(saturated));
}

/// What a traced run did has to be what the analysis says; here it says something else.
#[test]
fn call_paths_that_are_wrong_are_noticed() {
    type N = anabranch_nfs::policer::Function;
    let source = N::SOURCE;
    let text = source.text.replace("with_packet > self.settings", "with_packet < self.settings");
    assert_ne!(text, source.text);
    let wrong = Source { text: &text, file: source.file, line: source.line };
    let paths = paths_within(&wrong, budget()).unwrap();
    let setup = Setup::exemplified::<N>(toml::Table::new(), example("policer"));
    let effort = Effort { packets: 2_000, seeds: 1, first_seed: 1, rest: 0 };
    let found = tried::<N>(&setup, &planned::<N>(), Some(&paths), effort);
    assert!(!found.taken.disagreements.is_empty());
    assert_eq!(found.differences, 0, "the runs themselves agree");
}

/// What is proved of state rules out paths; here it is not so, and here paths have been ruled out that are
/// taken.
#[test]
fn state_that_is_wrongly_known_is_noticed() {
    type N = anabranch_nfs::nat::Function;
    let setup = Setup::exemplified::<N>(toml::Table::new(), example("nat"));
    let effort = Effort { packets: 4_000, seeds: 1, first_seed: 1, rest: 0 };
    let disagree = |paths: &Paths| {
        tried::<N>(&setup, &planned::<N>(), Some(paths), effort).taken.disagreements
    };
    let mut paths = paths_of(&N::SOURCE, budget()).unwrap();
    assert_eq!(disagree(&paths), Vec::<String>::new());
    let all = paths.links.clone();
    let link = paths.links.iter_mut().find(|link| link.map == "inside").unwrap();
    link.equal = vec![("peer.address".to_owned(), "address".to_owned())];
    assert!(disagree(&paths).iter().any(|why| why.contains("finds `peer.address`")));
    paths.links = all;
    // Of a function in which nothing is ever half open.
    let text = N::SOURCE.text.replace("{ State::HalfOpen }", "{ State::Open }");
    let text = text.replace(" State::HalfOpen\n", " State::Open\n");
    let other = Source { text: &text, file: N::SOURCE.file, line: N::SOURCE.line };
    let other = paths_within(&other, budget()).unwrap();
    let values = std::mem::replace(&mut paths.values, other.values);
    assert_ne!(paths.values, values);
    assert!(disagree(&paths).iter().any(|why| why.contains("mappings.allocate_within stores")));
    paths.values = values;
    paths.paths.retain(|path| path.line % 2 == 0);
    assert!(disagree(&paths).iter().any(|why| why.contains("is no path")));
}

/// So is what is wrongly known of packet sets: here of a firewall that opens them otherwise.
#[test]
fn packet_sets_that_are_wrongly_known_are_noticed() {
    type N = anabranch_nfs::firewall::Function;
    let text = N::SOURCE.text.replace("state: State::New, inside", "state: State::Closed, inside");
    assert_ne!(text, N::SOURCE.text);
    let other = Source { text: &text, file: N::SOURCE.file, line: N::SOURCE.line };
    let other = paths_within(&other, budget()).unwrap();
    let mut paths = paths_of(&N::SOURCE, budget()).unwrap();
    assert_ne!(paths.values, other.values);
    paths.values = other.values;
    let setup = Setup::exemplified::<N>(toml::Table::new(), example("firewall"));
    let effort = Effort { packets: 4_000, seeds: 1, first_seed: 1, rest: 0 };
    let found = tried::<N>(&setup, &planned::<N>(), Some(&paths), effort).taken;
    assert!(found.disagreements.iter().any(|why| why.contains("it becomes")));
}

/// A seed does the same whatever ran before it, so that a difference can be repeated alone.
#[test]
fn seeds_do_not_depend_on_each_other() {
    type N = anabranch_nfs::firewall::Function;
    let (plan, setup) = (planned::<N>(), Setup::new::<N>(toml::Table::new()));
    let paths = paths_of(&N::SOURCE, budget()).unwrap();
    let packets = |first_seed, seeds| {
        let effort = Effort { packets: 12_000, seeds, first_seed, rest: 0 };
        let found = tried::<N>(&setup, &plan, Some(&paths), effort);
        (found.packets, found.taken.followed)
    };
    let (one, two, both) = (packets(1, 1), packets(2, 1), packets(1, 2));
    assert_eq!((one.0 + two.0, one.1 + two.1), both);
}

/// What is led to what no seed has reached gets there.
#[test]
fn the_rest_is_led_to_what_no_seed_has_reached() {
    type N = anabranch_nfs::nat::Function;
    let setup = Setup::exemplified::<N>(toml::Table::new(), example("nat"));
    let paths = paths_of(&N::SOURCE, budget()).unwrap();
    let plan = planned::<N>();
    let reached = |rest| {
        let effort = Effort { packets: 10_000, seeds: 2, first_seed: 1, rest };
        let (setup, plan, paths, workers) = (&setup, &plan, Some(&paths), 4);
        let subject = Subject { setup, plan, workers, mutation: None, programs: &[], paths };
        let (mut of_seeds, mut of_rest) = (0, 0);
        let mut tell = |done: Done| match done.is_rest {
            true => of_rest = done.packets,
            false => of_seeds = done.packets,
        };
        let found = verify::<N>(&subject, effort, &mut tell).unwrap();
        assert!(of_seeds >= 20_000 && (of_rest > of_seeds) == (rest > 0), "{of_seeds} {of_rest}");
        assert_eq!((found.differences, found.taken.disagreements), (0, Vec::new()));
        assert!(found.packets <= 20_000 + rest + 10_000, "{}", found.packets);
        found.taken.reached
    };
    let (before, after) = (reached(0), reached(15_000));
    assert!(before.is_subset(&after), "the seeds do the same");
    assert!(after.len() > before.len() + 20, "{} after {}", after.len(), before.len());
}

/// Each shard's worker counts the sessions of a host for itself, as the plan lists: what only one core refuses for that
/// is left out, and a bug beside it is noticed all the same.
#[test]
fn limits_that_each_worker_has_for_itself_are_no_difference() {
    type N = anabranch_nfs::nat::Function;
    let settings = "sessions_per_host = 2".parse().unwrap();
    let setup = Setup::exemplified::<N>(settings, example("nat"));
    let (plan, paths) = (planned::<N>(), paths_of(&N::SOURCE, budget()).unwrap());
    let effort = Effort { packets: 5_000, seeds: 2, first_seed: 1, rest: 0 };
    let differences = |mutation: Option<&Mutation>, paths: Option<&Paths>| {
        let (workers, programs, plan, setup) = (4, &[], &plan, &setup);
        let subject = Subject { setup, plan, workers, mutation, programs, paths };
        verify::<N>(&subject, effort, &mut |_| {}).unwrap().differences
    };
    assert_eq!(differences(None, None), 2, "nobody reaches the limit");
    assert_eq!(differences(None, Some(&paths)), 0);
    for fault in [Fault::MovesShards, Fault::KeepsHandOvers] {
        let planted = Mutation::Runtime(fault);
        assert_eq!(differences(Some(&planted), Some(&paths)), 2, "{planted}");
    }
}

/// With fewer ports than shards nearly every mapping is under a port that is at home elsewhere.
#[test]
fn a_nat_whose_shards_borrow_their_ports() {
    let settings = "first_port = 2048\nlast_port = 2175".parse().unwrap();
    let setup = Setup::exemplified::<anabranch_nfs::nat::Function>(settings, example("nat"));
    assert!(planned::<anabranch_nfs::nat::Function>().steered.iter().all(|one| one.lends));
    agrees::<anabranch_nfs::nat::Function>(&setup, None);
}
