//! Functions of the library on many cores.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::{Budget, Source, paths_within};
use anabranch_nf::NetworkFunction;
use anabranch_nfs::{bridge, firewall, lb, nat, policer};
use anabranch_plan::{Options, Plan, plan};
use anabranch_rss::Nic;
use anabranch_verify::{Effort, Parallel, Setup, verify};

fn planned<N: NetworkFunction>() -> Plan {
    let source = Source { text: N::SOURCE.text, file: N::SOURCE.file, line: N::SOURCE.line };
    let paths = paths_within(&source, Budget::for_accesses()).unwrap();
    plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap()
}

fn check<N: NetworkFunction>(settings: &str) {
    let plan = planned::<N>();
    let setup = Setup::new::<N>(settings.parse().unwrap()).under(&plan);
    let parallel = Parallel::of_plan::<N>(&plan, &setup, 4).unwrap();
    let start = std::time::Instant::now();
    let found = verify::<N>(&setup, &parallel, Effort { packets: 20_000, seeds: 2, first_seed: 1 })
        .unwrap();
    println!("{} {:?} {}", N::NAME, start.elapsed(), found.packets);
    if let Some(d) = &found.difference {
        println!("{}", d.to_text(&setup));
    }
    assert!(found.difference.is_none());
}

#[test]
fn one() {
    check::<policer::Function>("");
    check::<firewall::Function>("");
}
#[test]
fn two() {
    check::<bridge::Function>("");
}
#[test]
fn nat() {
    check::<nat::Function>("public = ['203.0.113.1', '203.0.113.2']");
}
#[test]
fn lb() {
    check::<lb::Function>(
        "services = [{address='203.0.113.1', port=1}]\nbackends=[{address='10.1.0.1',port=2},{address='10.1.0.2',port=3}]\ntable_size='tiny'",
    );
}
