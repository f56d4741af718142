//! Under the lock, and in transactions, every network function does what one core would do with the
//! packets in the order in which they took effect: the same bytes, drops and counts; under the lock
//! also state and log.

use anabranch_nf::NetworkFunction;
use anabranch_nfs::{anti_ddos, bridge, bridge_static, firewall, lb, nat, nop, policer, router};
use anabranch_packet::{Port, parse};
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{Deployment, plan_of};
use anabranch_runtime::testing::{Arrived, Done, Sharing, SideBySide};
use toml::Table;

use crate::files::ports;
use crate::generated::traffic;
use crate::play::{Step, Surroundings, play};
use crate::scenarios::{self, LbBackends, NatPeers, settings};
use crate::sides::{Arrival, by_conversation, by_station};
use crate::traces;

/// Connections that come and go, in both directions, over about a minute.
const TRAFFIC: &str = "flows=800,packets=24000,zipf=1.1,size=imix,tcp=0.6,handshake=true,rst=0.1,ipv6=0.2,churn=20,rate=400,seed=5";

/// Functions whose packet sets a plan divides.
const APART: [&str; 4] = ["policer", "firewall", "lb", "anti-ddos"];

/// Runs `N` on two to four threads that are given packets at random, and holds what came of it
/// against one core.
fn assert_as_one<N: NetworkFunction>(
    surroundings: &mut dyn Surroundings,
    arrivals: &[Arrival],
    what: &str,
) {
    let settings = surroundings.settings();
    let first_ns = arrivals.first().map_or(0, |first| first.packet.at_ns);
    // As the hosts around it would have addressed them.
    let packets: Vec<Arrived> = play::<N>(surroundings, arrivals)
        .into_iter()
        .filter(|step| !(N::LAYER == 4 && is_fragment(step)))
        .map(|step| Arrived {
            port: step.arrival.port,
            after_ns: step.arrival.packet.at_ns.saturating_sub(first_ns),
            wire_len: step.arrival.packet.wire_len,
            bytes: step.arrival.packet.bytes,
        })
        .collect();
    let ports = ports::<N>();
    let nic = Nic::named("e810").unwrap();
    let plan = plan_of::<N>(&Options::new(nic)).unwrap();
    for threads in [2, 3, 4] {
        let shares = shares(packets.len(), threads);
        let run = SideBySide::run::<N>(Sharing::Locked, &settings, &packets, &shares, 8);
        let alone = run.replay::<N>(&settings, &packets);
        same_outcomes::<N>(&run, &alone);
        assert_eq!(run.done.tables, alone.tables, "{}", N::NAME);
        assert_eq!(run.done.logged, alone.logged, "{}", N::NAME);
        let handled = run.sides.readers + run.sides.upgraded;
        assert_eq!(handled, packets.len() as u64, "{}", N::NAME);
        println!("{}, {what}, {threads} threads: {:?}", N::NAME, run.sides);
        if settings.contains_key("interfaces") {
            // What one worker learns of neighbours is not told to the others: refused.
            continue;
        }
        let run = SideBySide::run::<N>(Sharing::Tracked, &settings, &packets, &shares, 32);
        same_outcomes::<N>(&run, &run.replay::<N>(&settings, &packets));
        let ended = run.transactions;
        let handled = ended.items + ended.alone + ended.irrevocable + ended.turn_items;
        assert_eq!(handled, packets.len() as u64, "{}", N::NAME);
        assert!(ended.items > 0 && ended.turn_items > 0, "{}: {ended:?}", N::NAME);
        println!("{}, {what}, {threads} threads: {:?}", N::NAME, run.transactions);
        let deployment = Deployment::mixed::<N>(&plan, &ports, threads);
        assert_eq!(deployment.is_ok(), APART.contains(&N::NAME), "{}", N::NAME);
        let Ok(deployment) = deployment else { continue };
        let (sharing, shares) = (Sharing::Divided(&deployment), steered(&packets, &deployment));
        let run = SideBySide::run::<N>(sharing, &settings, &packets, &shares, 32);
        let alone = run.replay::<N>(&settings, &packets);
        same_outcomes::<N>(&run, &alone);
        let sets = |done: &Done| -> Vec<_> {
            done.tables.iter().take(2).map(|table| (table.used, table.capacity)).collect()
        };
        assert_eq!(sets(&run.done), sets(&alone), "{}", N::NAME);
        assert!(run.transactions.unfit > 0, "{}: nothing was taken back", N::NAME);
        println!("{}, {what}, {threads} threads, sets apart: {:?}", N::NAME, run.transactions);
    }
}

/// Whether it is put together with others before workers get it.
fn is_fragment(step: &Step) -> bool {
    parse(&step.arrival.packet.bytes, step.arrival.packet.wire_len).is_fragment()
}

/// Which packets each thread handles where packet sets are apart: those of its shards.
fn steered(packets: &[Arrived], deployment: &Deployment) -> Vec<Vec<usize>> {
    let Deployment { steering, table, .. } = deployment;
    let mut shares = vec![Vec::new(); table.workers()];
    for (number, packet) in packets.iter().enumerate() {
        let shard = steering.shard(Port::new(packet.port), &packet.bytes, packet.wire_len);
        shares[usize::from(table.worker(shard))].push(number);
    }
    shares
}

fn same_outcomes<N: NetworkFunction>(run: &SideBySide, alone: &Done) {
    for (number, outcome) in &alone.outcomes {
        assert_eq!(Some(outcome), run.done.outcomes.get(number), "{}: {number}", N::NAME);
    }
    assert_eq!(run.done.counters, alone.counters, "{}", N::NAME);
}

/// Which packets each thread handles: every few in a row.
fn shares(packets: usize, threads: usize) -> Vec<Vec<usize>> {
    let mut shares = vec![Vec::new(); threads];
    let mut word = threads as u64;
    for number in 0..packets {
        if number % 4 == 0 {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        }
        shares[(word >> 40) as usize % threads].push(number);
    }
    shares
}

fn all_as_one(by_conversation: &[Arrival], by_station: &[Arrival], what: &str) {
    assert_as_one::<nop::Function>(&mut Table::new(), by_conversation, what);
    let mut tight = settings("rate_bps = 300_000\nburst_bytes = 3_000");
    assert_as_one::<policer::Function>(&mut tight, by_conversation, what);
    let short = "loose = true\nudp_timeout_s = 2\nestablished_timeout_s = 5\nclosing_timeout_s = 1";
    assert_as_one::<firewall::Function>(&mut settings(short), by_conversation, what);
    let mut stations = scenarios::bridge_static(by_station);
    assert_as_one::<bridge_static::Function>(&mut stations, by_station, what);
    assert_as_one::<bridge::Function>(&mut settings("ageing_s = 3"), by_station, what);
    assert_as_one::<nat::Function>(&mut NatPeers::default(), by_conversation, what);
    assert_as_one::<lb::Function>(&mut LbBackends::of(by_conversation), by_conversation, what);
    assert_as_one::<router::Function>(&mut scenarios::router(), by_conversation, what);
    let eager = settings("least_flows = 50\none_packet_s = 2\nidle_s = 4");
    assert_as_one::<anti_ddos::Function>(&mut eager.clone(), by_conversation, what);
}

#[test]
fn every_function_is_as_one_on_generated_traffic() {
    let arrivals = traffic(TRAFFIC);
    all_as_one(&arrivals, &arrivals, "generated");
}

#[test]
fn every_function_is_as_one_on_real_captures() {
    let mut packets = traces::merged(&traces::captures());
    packets.truncate(20_000);
    if !packets.is_empty() {
        all_as_one(&by_conversation(&packets), &by_station(&packets), "real");
    }
}
