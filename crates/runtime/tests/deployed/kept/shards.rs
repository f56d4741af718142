//! State that a store keeps by shards: stopped and started anew with any number of workers, while shards
//! move, a function sends what it sends without a stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_nf::prelude::network_function;
use anabranch_nf::state::ShardSet;
use anabranch_nf::{DropReason, NetworkFunction};
use anabranch_nfs::{firewall, nat, policer};
use anabranch_packet::craft::{Link, udp};
use anabranch_packet::{Frame, Meta, Port};
use anabranch_runtime::deployment::Deployment;
use anabranch_runtime::instance::{Making, Release};
use anabranch_runtime::mailbox::Again;
use anabranch_runtime::run::{RunError, run};
use anabranch_store::{Call, Kind, Operation, Place, Scope, view};

use super::case::{Case, capture, planned};

/// Stopped after each part and gone on with by another number of workers, it sends what `alone` workers
/// send that are never stopped.
fn goes_on<N: NetworkFunction>(
    settings: &'static str,
    traffic: &str,
    alone: usize,
    entries: usize,
) {
    let crews = [2, 3, 1, 7, 2];
    let case = Case::of::<N>(settings);
    case.write::<N>(traffic, crews.len());
    let (_, mut expected) = case.run::<N>(0, alone, false);
    let mut sent = Vec::new();
    let (mut moved, mut counters) = (0, BTreeMap::new());
    for (part, workers) in crews.into_iter().enumerate() {
        let (report, now) = case.run::<N>(part + 1, workers, true);
        assert_eq!((report.strategy.as_str(), report.workers.len()), ("shared-nothing", workers));
        sent.extend(now);
        moved += report.balance.map_or(0, |balance| balance.entries_moved);
        for (name, count) in report.counters {
            let before = counters.insert(name.clone(), count);
            assert!(before <= Some(count), "{name}: {before:?}, then {count}");
        }
    }
    assert!(moved > 500, "{moved} entries have moved");
    // Captures of several ports, one after the other: of each port in its order.
    expected.sort_by_key(|(port, ..)| *port);
    sent.sort_by_key(|(port, ..)| *port);
    assert_eq!(sent.len(), expected.len());
    let differs = sent.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "of {} packets", sent.len());
    let mut store = case.location().look().unwrap();
    let state = view::state(&mut *store, N::NAME, Some("a")).unwrap();
    let in_shards = state.keys().filter(|key| matches!(key.place(), Place::Shard(_)));
    let stored: usize = in_shards.map(|key| state[key].len()).sum();
    assert!(stored > entries, "{stored} entries");
}

#[test]
fn a_firewall_goes_on_with_its_connections() {
    let traffic = "gen:flows=3000,packets=60000,zipf=1.1,tcp=0.5,ipv6=0.2,churn=20000,seed=7";
    goes_on::<firewall::Function>("", traffic, 1, 500);
}

#[test]
fn a_policer_goes_on_with_its_buckets() {
    let traffic = "gen:flows=3000,packets=60000,zipf=1.1,ipv6=0.2,seed=8";
    goes_on::<policer::Function>("rate_bps = 100000\nburst_bytes = 2000", traffic, 1, 300);
}

#[test]
fn a_nat_goes_on_with_its_mappings() {
    let traffic = "gen:flows=2000,packets=60000,zipf=1.1,tcp=0.5,churn=20000,seed=9";
    let settings = "public = ['203.0.113.1', '203.0.113.2']\nudp_s = 1_000_000";
    goes_on::<nat::Function>(settings, traffic, 2, 2_000);
}

/// Says some time after each packet when it came.
#[network_function(ports(inside, outside))]
pub mod echoing {
    #[packet_set(ipv4(ipv4.src, ipv4.dst), capacity = 4096, expires_s = 60, bidirectional)]
    pub struct Pair {
        packets: u64,
    }
    pub struct Echoing {}
    impl Echoing {
        fn packet(&mut self, pair: &mut Pair, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            pair.packets += 1;
            cx.set_timer(50_000, cx.now());
            Forward(pkt.port().other())
        }
        fn timer(&mut self, token: u64, cx: &mut Context) {
            let bytes = token.to_be_bytes();
            cx.emit(OUTSIDE, &bytes);
        }
    }
}

/// A timer goes off once, wherever its shard is and whoever has set it.
#[test]
fn timers_go_off_in_the_shards_that_have_set_them() {
    let crews = [2, 3, 1, 7, 2];
    let case = Case::of::<echoing::Function>("");
    case.write::<echoing::Function>("gen:flows=500,packets=20000,tcp=0,seed=5", crews.len());
    let (mut came, mut gone_off, mut moved) = (BTreeMap::new(), BTreeMap::new(), 0);
    let mut stored = 0;
    for (part, workers) in crews.into_iter().enumerate() {
        let (report, sent) = case.run::<echoing::Function>(part + 1, workers, true);
        assert_eq!(report.strategy, "shared-nothing");
        moved += report.balance.map_or(0, |balance| balance.entries_moved);
        let mut store = case.location().look().unwrap();
        let state = view::state(&mut *store, "echoing", Some("a")).unwrap();
        let timers = state.iter().filter(|(key, _)| key.id() == "cx.timers");
        stored += timers.map(|(_, timers)| timers.len()).sum::<usize>();
        for (_, at_ns, bytes) in sent {
            match <[u8; 8]>::try_from(&bytes[..]) {
                Ok(token) => *gone_off.entry(u64::from_be_bytes(token)).or_insert(0) += 1,
                Err(_) => *came.entry(at_ns).or_insert(0) += 1,
            }
        }
    }
    let last_ns = *came.keys().last().unwrap();
    // Each worker looks at its timers when a packet comes to it.
    came.retain(|&at_ns, _| at_ns + 1_000_000 < last_ns);
    gone_off.retain(|&at_ns, _| at_ns + 1_000_000 < last_ns);
    assert!(came.len() > 10_000 && moved > 500, "{} {moved}", came.len());
    assert!(stored > 10, "{stored} timers went on");
    assert_eq!(came, gone_off);
}

/// Packets that timers send.
#[derive(Default)]
struct Emitted(usize);

impl Release for Emitted {
    fn forward(&mut self, _: &Frame<'_>, _: Port) {}
    fn flood(&mut self, _: &Frame<'_>) {}
    fn discard(&mut self, _: &Frame<'_>, reason: DropReason) {
        panic!("{reason:?}");
    }
    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {
        panic!("it is where it belongs");
    }
    fn emit(&mut self, _: &Meta, _: Port, _: &[u8]) {
        self.0 += 1;
    }
}

#[test]
fn timers_leave_with_their_shards() {
    let ports = vec!["inside".to_owned(), "outside".to_owned()];
    let making = Making { ports, ..Making::default() };
    let plan = planned::<echoing::Function>(None);
    let deployment =
        Deployment::new::<echoing::Function>(&plan, &making.settings, &making.ports, 2).unwrap();
    let instances = deployment.instances::<echoing::Function>(&making).unwrap();
    let [mut one, mut other] = instances.try_into().ok().unwrap();
    let (mut emitted, mut leave, mut set) = (Emitted::default(), ShardSet::default(), [0; 2]);
    one.start(0);
    other.start(0);
    for host in 0..100u8 {
        let mut bytes = [0; 256];
        let ends: [SocketAddr; 2] = [([10, 0, 0, host], 5_000).into(), ([10, 1, 0, 1], 53).into()];
        let len = udp(&mut bytes[64..], &Link::default(), ends[0], ends[1], b"echo").unwrap();
        let shard = deployment.steering.shard(Port::new(0), &bytes[64..64 + len], len as u32);
        let meta = Meta { wire_len: len as u32, steering_hash: shard, ..Meta::default() };
        one.handle(&mut [Frame::new(&mut bytes, 64, len, 0, meta)], &mut emitted);
        let leaves = shard.is_multiple_of(2);
        set[usize::from(leaves)] += 1;
        if leaves {
            leave.insert(shard as u16);
        }
    }
    other.put_shards(one.take_shards(leave));
    let late = Meta { arrival_ns: 1_000_000, ..Meta::default() };
    for (instance, set) in [(&mut one, set[0]), (&mut other, set[1])] {
        let mut emitted = Emitted::default();
        instance.advance(&late, &mut emitted);
        assert!(set > 10);
        assert_eq!(emitted.0, set);
    }
}

/// What cannot be gone on with is refused, with what to do instead.
#[test]
fn state_that_is_divided_otherwise_is_refused() {
    let mut case = Case::of::<firewall::Function>("");
    case.write::<firewall::Function>("gen:flows=50,packets=500,seed=1", 1);
    let refused = |case: &Case, workers| {
        let options = case.options::<firewall::Function>(1, workers, true);
        run::<firewall::Function>(&options, &mut |_, _| {}).unwrap_err()
    };
    case.run::<firewall::Function>(1, 2, true);
    let plan = case.plan.take().unwrap();
    let error = refused(&case, 1);
    assert!(matches!(error, RunError::StoreDivided { .. }), "{error}");
    assert!(error.to_string().contains("--strategy shared-nothing"), "{error}");
    let error = refused(&case, 2).to_string();
    assert!(error.contains("not divided") && error.contains("by the plan"), "{error}");
    let mut other = plan.clone();
    for port in &mut other.ports {
        port.key = port.key.chars().rev().collect();
    }
    case.plan = Some(other);
    let error = refused(&case, 2).to_string();
    assert!(error.contains("512 shards, keys ") && error.contains("--plan"), "{error}");
    // What says how it is divided is lost.
    let scope = Scope::new(firewall::Function::NAME, "a", Place::Core(0)).unwrap();
    let division = scope.key(Kind::Value, ".division").unwrap();
    case.location().open().unwrap().run(&[Call::new(&division, Operation::Delete)]).unwrap();
    let error = refused(&case, 2).to_string();
    assert!(error.contains("what said by what is lost") && error.contains("begin anew"), "{error}");
    // One worker's state in one scope.
    std::fs::remove_dir_all(case.folder.path().join("state")).unwrap();
    case.plan = None;
    case.run::<firewall::Function>(1, 1, true);
    case.plan = Some(plan);
    let error = refused(&case, 2).to_string();
    assert!(error.contains("not divided") && error.contains("--workers 1"), "{error}");
}

/// Of a run that ended before its first packet nothing binds the next one.
#[test]
fn a_run_without_packets_divides_nothing() {
    let mut case = Case::of::<firewall::Function>("");
    case.write::<firewall::Function>("gen:flows=50,packets=500,seed=1", 1);
    for port in 0..firewall::Function::PORTS.len() {
        let file = case.folder.path().join(format!("in-2-{port}.pcap"));
        std::fs::write(file, capture(std::iter::empty())).unwrap();
    }
    let plan = case.plan.take();
    for (number, workers) in [2, 1, 3, 1].into_iter().enumerate() {
        case.plan = plan.clone().filter(|_| workers > 1);
        let part = if number == 3 { 1 } else { 2 };
        case.run::<firewall::Function>(part, workers, true);
    }
    let (again, _) = case.run::<firewall::Function>(2, 1, true);
    assert!(again.store.is_some());
}
