//! State that all workers share: whatever the strategy, a store has it as one worker would have told it,
//! and any run whose state is one owner's goes on with it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::ops::Range;

use anabranch_nf::NetworkFunction;
use anabranch_nf::prelude::*;
use anabranch_nfs::{firewall, lb};
use anabranch_packet::craft::{self, Link};
use anabranch_plan::Strategy;
use anabranch_runtime::run as runtime;
use anabranch_store::{Content, view};

use super::case::{Case, planned};

/// How a part is run: by which strategy, by how many workers, and what the report says of it.
type Crew = (Option<Strategy>, usize, &'static str);

const ALONE: Crew = (None, 1, "one-worker");
const LOCKED: Crew = (Some(Strategy::Lock), 4, "lock");
const MIXED: Crew = (Some(Strategy::Mixed), 4, "mixed");
const TRANSACTIONAL: Crew = (Some(Strategy::Transactional), 4, "transactional");

fn plan_for<N: NetworkFunction>(case: &mut Case, (strategy, ..): Crew) {
    case.plan = strategy.map(|strategy| planned::<N>(Some(strategy)));
}

/// Runs a part with its state kept, and returns what was sent.
fn run<N: NetworkFunction>(case: &mut Case, part: usize, crew: Crew) -> super::case::Sent {
    plan_for::<N>(case, crew);
    let (report, sent) = case.run::<N>(part, crew.1, true);
    assert_eq!((report.strategy.as_str(), report.workers.len()), (crew.2, crew.1));
    sent
}

/// The entries of an object by key: the deadline where they have one, and the rest of the value.
type Entries = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

/// What the store has of each object.
fn stored<N: NetworkFunction>(case: &Case) -> BTreeMap<String, Entries> {
    let mut store = case.location().look().unwrap();
    let state = view::state(&mut *store, N::NAME, Some("a")).unwrap();
    let mut objects = BTreeMap::<String, Entries>::new();
    for (key, content) in state {
        let object = objects.entry(key.id()).or_default();
        match content {
            Content::Map(entries) if ["sets.v4", "sets.v6", "ages"].contains(&&*key.id()) => {
                object.extend(entries.into_iter().map(|(key, value)| {
                    let (deadline, rest) = value.split_at(8);
                    (key, (u64::from_le_bytes(deadline.try_into().unwrap()), rest.to_vec()))
                }));
            }
            Content::Map(entries) => {
                object.extend(entries.into_iter().map(|(key, value)| (key, (0, value))));
            }
            Content::Counter(count) => {
                object.insert(Vec::new(), (0, count.to_le_bytes().to_vec()));
            }
            _ => {}
        }
    }
    objects
}

/// Parts that are run by `crews`, each going on with what the one before has left, leave in the store what
/// they leave there run by one worker; deadlines are those of packets that may have been handled later,
/// never earlier.
fn stores_what_one_worker_does<N: NetworkFunction>(
    settings: &'static str,
    write: impl Fn(&Case),
    crews: &[Crew],
    entries: usize,
) {
    let of = |crews: &[Crew]| {
        let mut case = Case::of::<N>(settings);
        write(&case);
        for (part, &crew) in (1..).zip(crews) {
            run::<N>(&mut case, part, crew);
        }
        stored::<N>(&case)
    };
    let (alone, together) = (of(&vec![ALONE; crews.len()]), of(crews));
    assert!(alone.values().map(BTreeMap::len).sum::<usize>() > entries);
    for (name, object) in &alone {
        let other = together.get(name).unwrap();
        let lacks = object.keys().find(|key| !other.contains_key(*key));
        let has_more = other.keys().find(|key| !object.contains_key(*key));
        let (len, other_len) = (object.len(), other.len());
        assert_eq!((lacks, has_more), (None, None), "{crews:?}: {name}: {len}, {other_len}");
        for (key, (deadline, rest)) in object {
            let (other_deadline, other_rest) = &other[key];
            assert_eq!(other_rest, rest, "{crews:?}: {name}: {key:?}");
            let what = format!("{crews:?}: {name}: {key:?}: {other_deadline} {deadline}");
            assert!(other_deadline >= deadline, "{what}");
        }
    }
}

/// Stopped after each part and gone on with by others, it sends what one worker sends that is never
/// stopped.
fn goes_on<N: NetworkFunction>(settings: &'static str, traffic: &str, crews: &[Crew]) {
    let mut case = Case::of::<N>(settings);
    case.write::<N>(traffic, crews.len());
    let (_, mut expected) = case.run::<N>(0, 1, false);
    let mut sent = Vec::new();
    for (part, &crew) in crews.iter().enumerate() {
        sent.extend(run::<N>(&mut case, part + 1, crew));
    }
    expected.sort_by_key(|(port, ..)| *port);
    sent.sort_by_key(|(port, ..)| *port);
    assert_eq!(sent.len(), expected.len());
    let differs = sent.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "of {} packets", sent.len());
}

/// Writes into objects of every kind what does not hang on the order of packets of different hosts.
#[network_function(ports(inside, outside))]
pub mod ledger {
    #[packet_set(ipv4(ip.src), capacity = 4_096, expires_s = 5)]
    pub struct Host {
        packets: u32,
    }
    pub struct Ledger {
        #[capacity(4_096)]
        turns: Map<Ipv4Addr, u32>,
        #[capacity(256)]
        columns: Vector<u32>,
        #[capacity(4_096)]
        #[expired(gone)]
        ages: Allocator<u32>,
        #[merge(sum)]
        sums: Distributed<u64>,
        total: Cell<u64>,
        packets: Counter,
    }
    const LIFETIME_NS: u64 = 5_000_000_000;
    fn sum(one: u64, other: u64) -> u64 {
        one + other
    }
    impl Ledger {
        fn packet(&mut self, host: &mut Host, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let src = ip.src();
            let number = u32::from(src) % 4_096;
            host.packets += 1;
            self.packets.add(1);
            self.total.update(|total| *total += 1);
            self.sums.update(|sum| *sum += 3);
            self.columns.update(number % 256, |column| *column += 1);
            let turn = match self.turns.get(&src) {
                Some(turn) => turn + 1,
                None => 1,
            };
            if turn == 7 {
                self.turns.remove(&src);
                self.ages.free(number);
                return Forward(OUTSIDE);
            }
            self.turns.insert(src, turn);
            if self.ages.touch(number, cx).is_none() {
                self.ages.allocate_at(number, turn, LIFETIME_NS, cx);
            }
            Forward(OUTSIDE)
        }
        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Drop(Builtin::UnsupportedProtocol)
        }
        fn gone(&mut self, index: u32, turn: u32, cx: &mut Context) {
            self.columns.update(index % 256, |column| *column += 1_000);
        }
    }
}

/// Packets of hosts in three parts: before the last one all are silent for longer than they are remembered,
/// and then there are others.
fn write_hosts(case: &Case) {
    let mut packets = questions(0..900, 8);
    let late = questions(1_000..1_600, 6).into_iter();
    packets.extend(late.map(|(port, at_ns, bytes)| (port, at_ns + 20_000_000_000, bytes)));
    case.write_packets::<ledger::Function>(&packets, 3);
}

#[test]
fn objects_of_every_kind_are_as_one_worker_would_have_them() {
    let crews: [&[Crew]; 4] = [
        &[LOCKED; 3],
        &[TRANSACTIONAL; 3],
        &[TRANSACTIONAL, ALONE, LOCKED],
        &[MIXED, (MIXED.0, 2, MIXED.2), (MIXED.0, 3, MIXED.2)],
    ];
    for crews in crews {
        stores_what_one_worker_does::<ledger::Function>("", write_hosts, crews, 1_000);
    }
}

#[test]
fn a_count_goes_on_from_what_it_was() {
    for crew in [ALONE, LOCKED, TRANSACTIONAL] {
        let mut case = Case::of::<ledger::Function>("");
        write_hosts(&case);
        (1..=3).for_each(|part| drop(run::<ledger::Function>(&mut case, part, crew)));
        let stored = stored::<ledger::Function>(&case);
        assert_eq!(stored["packets"], stored["total"], "{crew:?}");
    }
}

const FLOWS: &str = "gen:flows=3000,packets=60000,zipf=1.1,tcp=0.5,ipv6=0.2,churn=20000,seed=7";

#[test]
fn behind_the_lock_and_in_transactions_a_store_has_what_one_worker_would_tell() {
    for crew in [LOCKED, TRANSACTIONAL] {
        let write = |case: &Case| case.write::<firewall::Function>(FLOWS, 1);
        stores_what_one_worker_does::<firewall::Function>("", write, &[crew], 500);
    }
}

#[test]
fn one_worker_the_lock_and_transactions_go_on_from_each_other() {
    let behind_the_lock = [LOCKED, ALONE, LOCKED, LOCKED];
    let all = [TRANSACTIONAL, LOCKED, TRANSACTIONAL, ALONE, TRANSACTIONAL, TRANSACTIONAL];
    for crews in [&behind_the_lock[..], &all] {
        goes_on::<firewall::Function>("", FLOWS, crews);
    }
}

const TWO: &str = "services = [{address = '192.0.2.1', port = 53, protocol = 'udp'}]\n\
    backends = [{service = 0, address = '10.0.0.1', port = 53}, \
                {service = 0, address = '10.0.0.2', port = 53}]";
const THREE: &str = "services = [{address = '192.0.2.1', port = 53, protocol = 'udp'}]\n\
    backends = [{service = 0, address = '10.0.0.1', port = 53}, \
                {service = 0, address = '10.0.0.2', port = 53}, \
                {service = 0, address = '10.0.0.3', port = 53}]";

/// Questions of clients to the service, each client's again and again.
pub(super) fn questions(clients: Range<u32>, rounds: u32) -> super::case::Sent {
    let mut sent = Vec::new();
    let all = (0..rounds).flat_map(|_| clients.clone());
    for (number, client) in (0u64..).zip(all) {
        let mut bytes = vec![0; 256];
        let link = Link { src: [2; 6].into(), dst: [4; 6].into(), tags: [None; 2] };
        let end = |address, port| SocketAddr::V4(SocketAddrV4::new(address, port));
        let from = end(Ipv4Addr::from(0xc612_0000 + client), 5_000 + (client % 7) as u16);
        let to = end(Ipv4Addr::new(192, 0, 2, 1), 53);
        let len = craft::udp(&mut bytes, &link, from, to, b"who?").unwrap();
        bytes.truncate(len);
        sent.push((0, 1_767_225_600_000_000_000 + number * 50_000, bytes));
    }
    sent
}

/// Connections, which are divided, and the counts of backends, which are not.
#[test]
fn of_a_mixed_run_a_store_has_what_one_worker_would_tell() {
    let write = |case: &Case| case.write_packets::<lb::Function>(&questions(0..2_000, 20), 1);
    stores_what_one_worker_does::<lb::Function>(TWO, write, &[MIXED], 2_000);
}

/// A connection stays with its backend when there are others after a restart: it is known.
#[test]
fn a_mixed_run_goes_on_with_connections_whoever_has_their_shards_now() {
    let sent_by = |crews: [Crew; 3], stops: bool| {
        let mut case = Case::of::<lb::Function>(TWO);
        case.write_packets::<lb::Function>(&questions(0..1_000, 9), 3);
        let mut sent = Vec::new();
        for (part, crew) in (1..).zip(crews) {
            sent.extend(run::<lb::Function>(&mut case, part, crew));
            case.settings = THREE;
            if !stops {
                std::fs::remove_dir_all(case.folder.path().join("state")).unwrap();
            }
        }
        sent
    };
    let (three, two) = ((MIXED.0, 3, MIXED.2), (MIXED.0, 2, MIXED.2));
    let expected = sent_by([ALONE; 3], true);
    assert_eq!(sent_by([MIXED, three, two], true), expected);
    assert_ne!(sent_by([ALONE; 3], false), expected, "what is not known goes elsewhere");
}

#[test]
fn what_a_mixed_run_has_divided_no_other_goes_on_with() {
    let mut case = Case::of::<lb::Function>(TWO);
    case.write_packets::<lb::Function>(&questions(0..20, 2), 1);
    run::<lb::Function>(&mut case, 1, MIXED);
    for crew in [ALONE, LOCKED, TRANSACTIONAL] {
        plan_for::<lb::Function>(&mut case, crew);
        let options = case.options::<lb::Function>(1, crew.1, true);
        let error = runtime::run::<lb::Function>(&options, &mut |_, _| {}).unwrap_err().to_string();
        assert!(error.contains("packet sets only") && error.contains("by the plan"), "{error}");
    }
}
