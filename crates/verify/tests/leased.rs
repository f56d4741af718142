//! Functions that go on without what a pool has not given them, which workers lease from: one of many may find none
//! where one core does.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anabranch_analysis::Budget;
use anabranch_nf::NetworkFunction;
use anabranch_nfs::{dns_tunnel, portscan, prads, trojan};
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{Effort, Fault, Mutation, Setup, Subject, example, verify};

/// Of two seeds those that differ under these settings, with this bug.
fn differences<N: NetworkFunction>(settings: &str, mutation: Option<&Mutation>) -> u64 {
    let plan = plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    let paths = paths_of(&N::SOURCE, Budget { unsolved: true, ..Budget::default() }).unwrap();
    let setup = Setup::exemplified::<N>(settings.parse().unwrap(), example(N::NAME));
    let (workers, programs) = (4, &[]);
    let (setup, plan, paths) = (&setup, &plan, Some(&paths));
    let subject = Subject { setup, plan, workers, mutation, programs, paths };
    let effort = Effort { packets: 8_000, seeds: 2, first_seed: 1, rest: 0 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    if let Some(difference) = &found.difference {
        println!("{} {settings} seed {}\n{}", N::NAME, difference.seed, difference.to_text());
    }
    found.differences
}

#[test]
fn a_pool_that_one_worker_finds_empty_is_no_difference() {
    for settings in ["contacts = 64", "contacts = 8", "hosts = 8"] {
        assert_eq!(differences::<portscan::Function>(settings, None), 0, "{settings}");
    }
    assert_eq!(differences::<trojan::Function>("hosts = 2", None), 0);
    assert_eq!(differences::<prads::Function>("assets = 64", None), 0);
    let settings = "clients = 1\nanswers = 1\nwindow_s = 2\nthreshold = 1";
    assert_eq!(differences::<dns_tunnel::Function>(settings, None), 0);
}

/// Before it is nearly used up a bug is noticed all the same.
#[test]
fn a_bug_beside_a_small_pool_is_noticed() {
    let planted = Mutation::Runtime(Fault::MovesShards);
    for settings in ["contacts = 64", "contacts = 1024"] {
        assert_eq!(differences::<portscan::Function>(settings, Some(&planted)), 2, "{settings}");
    }
    assert_eq!(differences::<trojan::Function>("hosts = 64", Some(&planted)), 2);
    assert_eq!(differences::<prads::Function>("assets = 64", Some(&planted)), 2);
}
