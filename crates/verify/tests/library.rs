//! Functions of the library on many cores.

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

fn passes<N: NetworkFunction>() {
    let plan = planned::<N>();
    let setup = Setup::new::<N>(example(N::NAME).parse().unwrap());
    let subject = Subject {
        setup: &setup,
        plan: &plan,
        workers: 4,
        mutation: None,
        programs: &[],
        paths: None,
    };
    let effort = Effort { packets: 20_000, seeds: 4, first_seed: 1 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    if let Some(difference) = &found.difference {
        panic!("{} seed {}\n{}", N::NAME, difference.seed, difference.to_text());
    }
    assert_eq!((found.seeds, found.differences), (4, 0));
    assert!(found.packets >= 80_000, "{}", found.packets);
}

macro_rules! pass {
    ($($nf:ident)*) => {$(
        #[test]
        fn $nf() {
            passes::<anabranch_nfs::$nf::Function>();
        }
    )*};
}

pass! { nop policer firewall bridge bridge_static nat lb router }
