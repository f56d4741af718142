//! Shards that move between workers while packets flow: nothing is lost, doubled or changed, and load
//! ends as even as shards allow.

use std::path::Path;

use anabranch_io::source::Input;
use anabranch_io::spec::{SinkSpec, SourceSpec};
use anabranch_nf::NetworkFunction;
use anabranch_nfs::{firewall, nat, policer};
use anabranch_plan::{Options as Planning, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::{BalanceReport, RunReport};
use anabranch_runtime::run::{Options, run};

/// A quarter of all shards, after so many packets a worker each time.
const RESTLESS: Balancing = Balancing::Restless(250);

struct Case {
    traffic: &'static str,
    settings: &'static str,
    plan: Plan,
}

impl Case {
    fn of<N: NetworkFunction>(traffic: &'static str, settings: &'static str) -> Self {
        let plan = plan_of::<N>(&Planning::new(Nic::named("e810").unwrap())).unwrap();
        Self { traffic, settings, plan }
    }

    fn run<N: NetworkFunction>(
        &self,
        workers: usize,
        balancing: Balancing,
        out: &Path,
    ) -> RunReport {
        let spec: SourceSpec = self.traffic.parse().unwrap();
        let options = Options {
            making: Making {
                seed: 3,
                settings: self.settings.parse().unwrap(),
                ports: N::PORTS.iter().map(|&name| name.to_owned()).collect(),
                ..Making::default()
            },
            inputs: vec![Input { port: None, spec }],
            outputs: vec![(None, SinkSpec::Capture(out.to_owned()))],
            workers,
            plan: Ok(self.plan.clone()),
            balancing,
            commands: Vec::new(),
            store: None,
        };
        let report = run::<N>(&options, &mut |_, _| {}).unwrap();
        assert_eq!(report.errors, []);
        assert_eq!(report.packets_read, report.packets_out + report.packets_dropped);
        report
    }
}

/// Several workers whose shards move write what `alone` workers write whose shards stay.
fn moving_changes_nothing<N: NetworkFunction>(case: &Case, alone: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (still, moving) = (folder.path().join("still.pcap"), folder.path().join("moving.pcap"));
    let expected = case.run::<N>(alone, Balancing::Still, &still);
    assert_eq!(expected.balance, None);
    for workers in [2, 3, 7] {
        let report = case.run::<N>(workers, RESTLESS, &moving);
        assert_eq!(report.strategy, "shared-nothing", "{}", report.strategy_why);
        let balance = report.balance.unwrap();
        assert!(balance.steps > 20 && balance.entries_moved > 1_000, "{workers}: {balance:?}");
        assert_eq!(report.drops, expected.drops, "{workers} workers");
        assert!(std::fs::read(&still).unwrap() == std::fs::read(&moving).unwrap(), "{workers}");
    }
}

#[test]
fn a_firewall_whose_shards_move_passes_the_same_packets() {
    let traffic = "gen:flows=3000,packets=60000,zipf=1.1,tcp=0.5,ipv6=0.2,churn=20000,seed=7";
    moving_changes_nothing::<firewall::Function>(&Case::of::<firewall::Function>(traffic, ""), 1);
}

#[test]
fn a_policer_whose_shards_move_drops_the_same_packets() {
    let traffic = "gen:flows=3000,packets=60000,zipf=1.1,ipv6=0.2,seed=8";
    let settings = "rate_bps = 100000\nburst_bytes = 2000";
    let case = Case::of::<policer::Function>(traffic, settings);
    moving_changes_nothing::<policer::Function>(&case, 1);
}

#[test]
fn a_nat_whose_shards_move_gives_the_same_ports() {
    let traffic = "gen:flows=2000,packets=60000,zipf=1.1,tcp=0.5,churn=20000,seed=9";
    let settings = "public = ['203.0.113.1', '203.0.113.2']";
    moving_changes_nothing::<nat::Function>(&Case::of::<nat::Function>(traffic, settings), 2);
}

fn balanced(traffic: &'static str, workers: usize) -> BalanceReport {
    let folder = tempfile::tempdir().unwrap();
    let case = Case::of::<policer::Function>(traffic, "");
    let out = folder.path().join("out.pcap");
    case.run::<policer::Function>(workers, Balancing::Even, &out).balance.unwrap()
}

#[test]
fn skewed_load_ends_within_a_tenth_of_the_best_assignment() {
    for traffic in [
        "gen:flows=65536,packets=600000,zipf=1.1,seed=1",
        "gen:flows=4096,packets=600000,zipf=1.1,seed=2",
        "gen:flows=300,packets=600000,seed=3",
    ] {
        let balance = balanced(traffic, 8);
        println!("{traffic} on 8 workers: {balance:?}");
        assert!(balance.shards_moved > 0, "{balance:?}");
        assert!(balance.busiest_last <= 1.1 * balance.best_last, "{balance:?}");
        assert!(balance.busiest_last < balance.busiest_first, "{balance:?}");
    }
}

#[test]
fn even_load_moves_nothing() {
    let balance = balanced("gen:flows=65536,packets=800000,seed=4", 4);
    println!("even load on 4 workers: {balance:?}");
    assert!(balance.windows >= 12, "{balance:?}");
    assert_eq!((balance.steps, balance.shards_moved), (0, 0), "{balance:?}");
}
