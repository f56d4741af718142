//! Functions of the library on many cores: nothing differs, every call path is what runs, and most of
//! those that can be taken are.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::{Budget, Source, paths_within};
use anabranch_nf::NetworkFunction;
use anabranch_plan::{Options, Plan, plan};
use anabranch_rss::Nic;
use anabranch_verify::{Effort, Setup, Subject, example, verify};

fn planned<N: NetworkFunction>() -> Plan {
    let source = Source { text: N::SOURCE.text, file: N::SOURCE.file, line: N::SOURCE.line };
    let paths = paths_within(&source, Budget::for_accesses()).unwrap();
    plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap()
}

/// `least` call paths are taken, and so many pairs of accesses meet.
fn passes<N: NetworkFunction>(least: (usize, usize)) {
    let plan = planned::<N>();
    let source = Source { text: N::SOURCE.text, file: N::SOURCE.file, line: N::SOURCE.line };
    let budget = Budget { unsolved: true, ..Budget::default() };
    let paths = paths_within(&source, budget).unwrap();
    let setup = Setup::exemplified::<N>(toml::Table::new(), example(N::NAME));
    let subject = Subject {
        setup: &setup,
        plan: &plan,
        workers: 4,
        mutation: None,
        programs: &[],
        paths: Some(&paths),
    };
    let effort = Effort { packets: 20_000, seeds: 4, first_seed: 1 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    if let Some(difference) = &found.difference {
        panic!("{} seed {}\n{}", N::NAME, difference.seed, difference.to_text());
    }
    assert_eq!((found.seeds, found.differences), (4, 0));
    assert!(found.packets >= 80_000, "{}", found.packets);
    assert_eq!(found.threaded.differences, Vec::<String>::new());
    assert!(found.threaded.packets > 20_000, "{:?}", found.threaded);
    let taken = found.taken;
    assert_eq!(taken.disagreements, Vec::<String>::new());
    assert!(taken.unknown.is_empty(), "{:?}", taken.unknown);
    assert!(taken.reached.iter().all(|number| (1..=paths.paths.len()).contains(number)));
    let behind: usize = taken.barriers.iter().map(|(count, _)| count).sum();
    let unlisted = taken.unlisted > 0;
    assert!(unlisted || behind + taken.reached.len() <= paths.paths.len(), "{behind} are behind");
    let reached = (taken.reached.len(), taken.pairs.0);
    assert!(reached.0 >= least.0 && reached.1 >= least.1, "{reached:?} of {:?}", taken.pairs);
    assert!(taken.pairs.0 <= taken.pairs.1);
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
    firewall: 100 5,
    bridge: 45 15,
    bridge_static: 4 0,
    nat: 400 95,
    lb: 120 70,
    router: 3 0,
}

/// What a traced run did has to be what the analysis says; here it says something else.
#[test]
fn call_paths_that_are_wrong_are_noticed() {
    type N = anabranch_nfs::policer::Function;
    let plan = planned::<N>();
    let source = N::SOURCE;
    let text = source.text.replace("with_packet > self.settings", "with_packet < self.settings");
    let wrong = Source { text: &text, file: source.file, line: source.line };
    assert_ne!(text, source.text);
    let paths = paths_within(&wrong, Budget { unsolved: true, ..Budget::default() }).unwrap();
    let setup = Setup::exemplified::<N>(toml::Table::new(), example("policer"));
    let subject = Subject {
        setup: &setup,
        plan: &plan,
        workers: 2,
        mutation: None,
        programs: &[],
        paths: Some(&paths),
    };
    let effort = Effort { packets: 2_000, seeds: 1, first_seed: 1 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    assert!(!found.taken.disagreements.is_empty());
    assert_eq!(found.differences, 0, "the runs themselves agree");
}

/// A seed does the same whatever ran before it, so that a difference can be repeated alone.
#[test]
fn seeds_do_not_depend_on_each_other() {
    type N = anabranch_nfs::firewall::Function;
    let (plan, setup) = (planned::<N>(), Setup::new::<N>(toml::Table::new()));
    let source = Source { text: N::SOURCE.text, file: N::SOURCE.file, line: N::SOURCE.line };
    let paths = paths_within(&source, Budget { unsolved: true, ..Budget::default() }).unwrap();
    let packets = |first_seed, seeds| {
        let subject = Subject {
            setup: &setup,
            plan: &plan,
            workers: 4,
            mutation: None,
            programs: &[],
            paths: Some(&paths),
        };
        let effort = Effort { packets: 12_000, seeds, first_seed };
        let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
        (found.packets, found.taken.followed)
    };
    let (one, two, both) = (packets(1, 1), packets(2, 1), packets(1, 2));
    assert_eq!((one.0 + two.0, one.1 + two.1), both);
}
