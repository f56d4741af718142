//! One and many workers write the same bytes, wherever several workers share nothing.

use std::path::Path;

use anabranch_nf::NetworkFunction;
use anabranch_nfs::{bridge, bridge_static, firewall, lb, nop, policer, router};
use toml::Table;

use crate::accounts::words;
use crate::files::{run_captures, write_arrivals};
use crate::generated::{MIXED, traffic};
use crate::scenarios::{self, settings};
use crate::sides::{Arrival, by_conversation, by_station};
use crate::traces;

/// Runs `N` on one worker and on several, over the same two captures.
fn assert_same<N: NetworkFunction>(settings: &Table, arrivals: &[Arrival], what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let inputs = write_arrivals(folder.path(), arrivals);
    let (alone, outputs) = run_captures::<N>(settings, &inputs, folder.path(), 1);
    let expected = contents(&outputs);
    for workers in [2, 4] {
        let (report, outputs) = run_captures::<N>(settings, &inputs, folder.path(), workers);
        assert_eq!(report.strategy, "shared-nothing");
        assert!(report.workers.iter().all(|worker| worker.packets > 0), "{:?}", report.workers);
        assert_eq!(report.drops, alone.drops, "{} with {workers} workers, {what}", N::NAME);
        assert!(contents(&outputs) == expected, "{} with {workers} workers, {what}", N::NAME);
        assert!(report.drops.keys().all(|word| words::<N>().contains(&word.as_str())));
    }
    let written: usize = expected.iter().map(Vec::len).sum();
    let (read, drops) = (alone.packets_read, &alone.drops);
    println!("{}, {what}: {read} packets, {written} bytes the same; dropped {drops:?}", N::NAME);
    assert!(alone.packets_out > read / 2, "{}: hardly anything passes: {drops:?}", N::NAME);
}

fn contents(files: &[impl AsRef<Path>]) -> Vec<Vec<u8>> {
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// All of them, over traffic whose conversations and whose stations are on their sides.
fn all_same(by_conversation: &[Arrival], by_station: &[Arrival], what: &str) {
    assert_same::<nop::Function>(&Table::new(), by_conversation, what);
    let tight = settings("rate_bps = 300_000\nburst_bytes = 3_000");
    assert_same::<policer::Function>(&tight, by_conversation, what);
    let short = "loose = true\nudp_timeout_s = 2\nestablished_timeout_s = 5\nclosing_timeout_s = 1";
    assert_same::<firewall::Function>(&settings(short), by_conversation, what);
    let stations = scenarios::bridge_static(by_station);
    assert_same::<bridge_static::Function>(&stations, by_station, what);
}

#[test]
fn one_and_many_workers_are_the_same_on_generated_traffic() {
    let arrivals = traffic(MIXED);
    all_same(&arrivals, &arrivals, "generated");
    // Real captures hold more that a router reports than it may at once; workers, each at its own time of the
    // capture, then report other packets.
    assert_same::<router::Function>(&scenarios::router(), &arrivals, "generated");
}

#[test]
fn one_and_many_workers_are_the_same_on_real_captures() {
    let packets = traces::merged(&traces::captures());
    if !packets.is_empty() {
        all_same(&by_conversation(&packets), &by_station(&packets), "real");
    }
}

/// The others have state that all packets share, and say so.
#[test]
fn the_rest_is_shared() {
    fn assert_shared<N: NetworkFunction>(
        strategy: &str,
        settings: &Table,
        arrivals: &[Arrival],
        object: &str,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let inputs = write_arrivals(folder.path(), arrivals);
        let (report, _) = run_captures::<N>(settings, &inputs, folder.path(), 2);
        assert_eq!(report.strategy, strategy, "{}", N::NAME);
        let why = &report.strategy_why;
        assert!(why.contains(&format!("`{object}`")) && why.contains("line "), "{why}");
        assert!(
            report.packets_read == 1_065 && report.packets_out + report.packets_dropped >= 1_065
        );
    }
    let mut arrivals = traffic("flows=100,packets=2000,seed=4");
    arrivals.retain(|arrival| arrival.port == 0);
    let services = settings("services = [{address='1.2.3.4', port=1}]");
    assert_shared::<lb::Function>("mixed", &services, &arrivals, "backends");
    assert_shared::<bridge::Function>("transactional", &Table::new(), &arrivals, "stations");
}
