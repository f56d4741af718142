//! A loop and its function do the same job: the same bytes leave by the same ports.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_io::Trace;
use anabranch_nfs::{bridge, bridge_static, firewall, lb, nat, nop, policer};
use anabranch_runtime::worker::State;

use super::*;
use crate::hand::policer::Policer;
use crate::held::Held;
use crate::lane::{Runner, pool};
use crate::measure::{members, opened};
use crate::packets::{START_NS, period_ns, udp};

const SECOND: u64 = 1_000_000_000;

/// What left of each packet: port and bytes, if it left at all.
type Departures = Vec<Option<(u8, Vec<u8>)>>;

/// Has the loop handle each packet of `trace`, `later_ns` after its time, as a batch of its own.
fn by_hand(hand: &mut dyn Hand, trace: &Trace, later_ns: u64) -> Departures {
    let one = |((port, packet), record): ((u8, &Packet), &anabranch_io::TraceRecord)| {
        let (mut packet, mut out) = (*packet, [0; 2]);
        let now_ns = record.arrival_ns - START_NS + later_ns;
        hand.batch(&mut [&mut packet], &[port], now_ns, &mut out);
        let left = out.iter().position(|&count| count == 1)?;
        Some((left as u8, packet.to_vec()))
    };
    arrivals(trace).zip(trace.records()).map(one).collect()
}

fn assert_same(function: &Departures, hand: &Departures, what: &str) {
    assert_eq!(function.len(), hand.len());
    for (number, (function, hand)) in function.iter().zip(hand).enumerate() {
        assert_eq!(function, hand, "{what}: packet {number}");
    }
}

/// Function and loop over the established traffic, three times over.
fn same_job<N: Subject>(flows: usize) {
    for load in N::LOADS {
        same_job_under::<N>(&N::scenario_under(load, flows).unwrap());
    }
}

fn same_job_under<N: Subject>(scenario: &Scenario) {
    let mut pool = pool();
    let opening = Some(&scenario.opening);
    let mut runner = opened::<N>(&mut pool, &scenario.settings, opening, None, None).unwrap();
    let mut hand = scenario.hand();
    let later_ns = period_ns(&scenario.opening);
    for turn in 0..3 {
        let function = runner.collect(&scenario.steady);
        assert!(function.iter().all(Option::is_some), "{}: all are forwarded", N::NAME);
        let later_ns = later_ns + turn * period_ns(&scenario.steady);
        let hand = by_hand(&mut *hand, &scenario.steady, later_ns);
        assert_same(&function, &hand, N::NAME);
    }
}

#[test]
fn the_loops_send_what_the_functions_send() {
    for flows in [1, 100, 5_000] {
        same_job::<nop::Function>(flows);
        same_job::<policer::Function>(flows);
        same_job::<firewall::Function>(flows);
        same_job::<bridge::Function>(flows);
        same_job::<bridge_static::Function>(flows);
        same_job::<nat::Function>(flows);
        same_job::<lb::Function>(flows);
    }
    #[cfg(feature = "security")]
    same_job::<anabranch_nfs::synthetic::Function>(100);
}

#[test]
fn functions_rewrite_what_their_job_has_rewritten() {
    let rewrites = |scenario: Scenario| {
        let sent = by_hand(&mut *scenario.hand(), &scenario.steady, 0);
        let came = arrivals(&scenario.steady);
        came.zip(sent).all(|((port, packet), sent)| {
            sent.is_some_and(|(to, bytes)| to != port && bytes[..] != packet[..])
        })
    };
    assert!(rewrites(nat::Function::scenario(100).unwrap()));
    assert!(rewrites(lb::Function::scenario(100).unwrap()));
    assert!(!rewrites(firewall::Function::scenario(100).unwrap()));
}

/// How many packets of the traffic the loop forwards at `at_s`.
fn forwarded(scenario: &Scenario, hand: &mut dyn Hand, at_s: u64) -> usize {
    by_hand(hand, &scenario.steady, at_s * SECOND).into_iter().flatten().count()
}

#[test]
fn the_loops_refresh_and_drop_what_has_expired() {
    fn check<N: Subject>(lifetime_s: u64, alive_for_ever: usize) {
        let scenario = N::scenario(50).unwrap();
        let (packets, mut hand) = (scenario.steady.len(), scenario.hand());
        let mut at_s = 0;
        for _ in 0..3 {
            // Each flow is refreshed shortly before its end.
            at_s += lifetime_s - 1;
            by_hand(&mut *hand, &scenario.opening, at_s * SECOND);
            assert_eq!(forwarded(&scenario, &mut *hand, at_s), packets, "{}", N::NAME);
        }
        at_s += lifetime_s + 1;
        let left = forwarded(&scenario, &mut *hand, at_s);
        assert_eq!(left, alive_for_ever, "{}", N::NAME);
        // Not only are they past their deadline: they have been given back.
        assert_eq!(forwarded(&scenario, &mut *hand, 0), alive_for_ever, "{}", N::NAME);
    }
    let packets = firewall::Function::scenario(50).unwrap().steady.len();
    check::<policer::Function>(10, 0);
    check::<firewall::Function>(300, 0);
    check::<bridge::Function>(300, 0);
    check::<nat::Function>(300, 0);
    // Replies of a load balancer's backends belong to no connection.
    check::<lb::Function>(300, packets / 2);
}

/// The last 512 places of a pool are given by who is alone; of one with twice the room nobody comes to them.
#[test]
fn a_tight_pool_has_sessions_opened_alone() {
    let opened_alone = |load: Load| {
        let scenario = nat::Function::scenario_under(load, 4_000).unwrap();
        let mut members =
            members::<nat::Function>(&scenario.settings, 1, None, Some(false)).unwrap();
        let state = Held::State(State::Tracked(Box::new(members.remove(0))));
        let mut pool = pool();
        let mut runner = Runner::<nat::Function>::new(&mut pool, state, None);
        assert!(runner.collect(&scenario.opening).iter().all(Option::is_some), "{load}");
        let alone = runner.state().transactions().unwrap().alone;
        assert!(runner.collect(&scenario.steady).iter().all(Option::is_some), "{load}");
        (alone, runner.state().tables())
    };
    let ((tight, tables), (roomy, _)) =
        (opened_alone("tight-pool"), opened_alone("overprovisioned"));
    assert!((512..600).contains(&tight) && roomy < 50, "{tight} {roomy}");
    // Of a flow's packets one in 16 comes when it has ended.
    let sessions = tables.iter().find(|table| table.capacity == 4_000).unwrap();
    assert!((3_600..3_900).contains(&sessions.used), "{sessions:?}");
}

#[test]
fn the_policers_drop_the_same_packets() {
    let (rate, burst, flows) = (5_000_000, 640, 8);
    let destination = |n: usize| 0x0a00_0001 + n as u32;
    let mut chance = Chance::new(7);
    let sent = (0..20_000).map(|_| (1, udp((1, 1), (destination(chance.below(flows)), 9))));
    let trace = Arc::new(trace(sent));
    let settings = settings(&format!("rate_bps = {rate}\nburst_bytes = {burst}")).unwrap();
    let mut pool = pool();
    let mut runner: Runner<'_, policer::Function> =
        opened(&mut pool, &settings, None, None, None).unwrap();
    let function = runner.collect(&trace);
    let mut hand = Policer::new((0..flows).map(destination), rate, burst);
    // A lane's first packet arrives a period of nothing, one burst, after the start.
    let later_ns = period_ns(&Trace::new());
    assert_same(&function, &by_hand(&mut hand, &trace, later_ns), "policer");
    let passed = function.iter().flatten().count();
    assert!((100..10_000).contains(&passed), "{passed}");
}

#[test]
fn a_trace_holds_four_packets_a_flow_in_both_directions() {
    let scenario = nat::Function::scenario(1_000).unwrap();
    assert!(scenario.steady.len() >= 4_000 && scenario.steady.len() % BATCH == 0);
    assert!((950..1_000).contains(&scenario.distinct), "{}", scenario.distinct);
    let records = scenario.steady.records();
    assert_eq!(records.iter().filter(|record| record.port.index() == 1).count(), records.len() / 2);
    assert!(records.iter().all(|record| record.captured_len == 64));
    let shards: BTreeSet<u32> = records.iter().map(|record| record.steering_hash).collect();
    assert!(shards.len() > 400 && shards.iter().all(|&shard| shard < 512), "{}", shards.len());
}
