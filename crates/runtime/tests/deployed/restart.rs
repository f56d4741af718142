//! A store keeps an instance's state: stopped anywhere and started anew, it does what it would have
//! done without the stop, whoever has the state then.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch_nf::prelude::network_function;
use anabranch_nf::settings::Command as _;
use anabranch_nf::{DropReason, NetworkFunction};
use anabranch_packet::craft::{self, Link};
use anabranch_packet::{Frame, Meta, Port};
use anabranch_runtime::instance::{Instance, Making, Owner, Release, Restored, Storing};
use anabranch_runtime::lock::Lock;
use anabranch_runtime::mailbox::Again;
use anabranch_runtime::transactions::Members;
use anabranch_runtime::worker::State;
use anabranch_store::conformance::Random;
use anabranch_store::{
    Answer, Batch, Call, Content, Driver, Error, Flusher, Key, Memory, Outcome, Place, Policy,
    Scope, Settings, Status, view,
};

const START_NS: u64 = 1_767_225_600_123_456_789;

/// What became of one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sent(Vec<(u8, Vec<u8>)>);

impl Release for Sent {
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        self.0.push((port.index(), frame.bytes().to_vec()));
    }
    fn flood(&mut self, frame: &Frame<'_>) {
        self.0.push((254, frame.bytes().to_vec()));
    }
    fn discard(&mut self, _: &Frame<'_>, reason: DropReason) {
        self.0.push((255, format!("{reason:?}").into_bytes()));
    }
    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {}
    fn emit(&mut self, _: &Meta, port: Port, frame: &[u8]) {
        self.0.push((port.index(), frame.to_vec()));
    }
}

/// A flusher, and what it has found in the store.
type Opened = (Flusher, Vec<(Key, Content)>);

/// Who has the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// One worker.
    Alone,
    /// Two, behind a lock.
    Locked,
    /// Two, in transactions.
    Tracked,
}

struct Node<N: NetworkFunction> {
    /// They take turns.
    workers: Vec<State<N>>,
    flusher: Option<Flusher>,
    restored: Restored,
}

impl<N: NetworkFunction> Node<N> {
    /// Starts at `now_ns`, with what the store has.
    fn start(
        settings: &str,
        now_ns: u64,
        held: Held,
        store: Option<&Memory>,
    ) -> Result<Self, Error> {
        let open = |store: &Memory| Flusher::open(store.clone(), N::NAME, "a", Settings::default());
        // Whatever changes is told after each packet.
        Self::kept_by(settings, now_ns, held, (store.map(open).transpose()?, 0))
    }

    /// Starts at `now_ns`, with what a flusher has found, which is told what changes every so many
    /// nanoseconds.
    fn kept_by(
        settings: &str,
        now_ns: u64,
        held: Held,
        (opened, period_ns): (Option<Opened>, u64),
    ) -> Result<Self, Error> {
        let ports = N::PORTS.iter().map(|name| (*name).to_owned()).collect();
        let settings: toml::Table = settings.parse().unwrap();
        let making = Making { seed: 9, settings, ports, ..Making::default() };
        let (flusher, state) = opened.unzip();
        let state = state.unwrap_or_default();
        let owner = Owner::Whole(Scope::new(N::NAME, "a", Place::Core(0))?);
        let storing =
            |flusher: &Flusher| Storing::new(flusher.feed(), owner.clone(), period_ns, period_ns);
        let storing = flusher.as_ref().map(storing);
        let (workers, restored) = match held {
            Held::Tracked => {
                let mut members = Members::<N>::new(&making, 2, true).unwrap();
                members.start(now_ns);
                let restored = members.restore(&state)?;
                storing.into_iter().for_each(|storing| members.keep(storing));
                let members = members.into_members().into_iter().map(Box::new);
                (members.map(State::Tracked).collect(), restored)
            }
            Held::Alone | Held::Locked => {
                let mut instance = Instance::<N>::new(&making).unwrap();
                instance.start(now_ns);
                let restored = instance.restore(&state)?;
                storing.into_iter().for_each(|storing| instance.keep(storing));
                let workers = match held {
                    Held::Alone => vec![State::Own(Box::new(instance))],
                    _ => {
                        let shared = Lock::share(instance, making.seed, 2, false).into_iter();
                        shared.map(Box::new).map(State::Locked).collect()
                    }
                };
                (workers, restored)
            }
        };
        Ok(Self { workers, flusher, restored })
    }

    fn send(&mut self, packet: &Packet, number: u64) -> Sent {
        let mut sent = Sent::default();
        self.handle(packet, number, &mut sent);
        sent
    }

    fn handle(&mut self, packet: &Packet, number: u64, release: &mut impl Release) {
        let mut buffer = [&[0; 128][..], &packet.bytes, &[0; 128]].concat();
        let meta = Meta {
            arrival_ns: packet.at_ns,
            number,
            wire_len: packet.bytes.len() as u32,
            port: Port::new(packet.port),
            ..Meta::default()
        };
        let frame = Frame::new(&mut buffer, 128, packet.bytes.len(), 0, meta);
        let worker = number as usize % self.workers.len();
        self.workers[worker].handle(&mut [frame], release);
    }

    /// Stops without a word, but for what was on its way to the store.
    fn stop(self) {
        drop(self.workers);
        if let Some(flusher) = self.flusher {
            assert_eq!(flusher.close(Duration::from_secs(20)).waiting, 0);
        }
    }
}

struct Packet {
    port: u8,
    at_ns: u64,
    bytes: Vec<u8>,
}

fn udp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16)) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, src.0.octets()[3], 2, 0, 0, 0, 0, dst.0.octets()[3], 8, 0];
    let mut ip = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0];
    ip.extend(src.0.octets());
    ip.extend(dst.0.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend(
        [src.1.to_be_bytes(), dst.1.to_be_bytes(), [0, 12], [0, 0], [1, 2], [3, 4]].concat(),
    );
    bytes
}

/// Packets of flows from inside, answers to what has been sent, and strangers.
fn next(random: &mut Random, at_ns: u64, wan: &[Vec<u8>]) -> Packet {
    let host = |random: &mut Random| Ipv4Addr::new(10, 0, 0, 1 + random.below(9) as u8);
    let far = |random: &mut Random| Ipv4Addr::new(198, 51, 100, 1 + random.below(4) as u8);
    if random.one_in(3)
        && let Some(sent) = random.pick(wan)
    {
        let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&sent[at..at + 4]).unwrap());
        let port = |at: usize| u16::from_be_bytes([sent[at], sent[at + 1]]);
        let bytes = udp((address(30), port(36)), (address(26), port(34)));
        return Packet { port: 1, at_ns, bytes };
    }
    let (src, dst) = ((host(random), 5_000 + random.below(6) as u16), (far(random), 53));
    match random.one_in(10) {
        true => Packet { port: 1, at_ns, bytes: udp(dst, src) },
        false => Packet { port: 0, at_ns, bytes: udp(src, dst) },
    }
}

/// What is sent for packets drawn by `seed` when the function is stopped and started anew after every
/// packet of `stops`. The state is `held` in turn.
fn run<N: NetworkFunction>(
    settings: &str,
    seed: u64,
    stops: &[u64],
    held: &[Held],
) -> (Vec<Sent>, u64) {
    let mut held = held.iter().copied().cycle();
    let mut next_held = || held.next().unwrap();
    let store = Memory::default();
    let kept = (!stops.is_empty()).then_some(&store);
    let mut random = Random::new(seed);
    let mut node = Node::<N>::start(settings, START_NS, next_held(), kept).unwrap();
    let (mut all, mut wan, mut at_ns, mut restored) = (Vec::new(), Vec::new(), START_NS, 0);
    for number in 0..1_500 {
        // Lifetimes end now and then; in between nothing is due.
        let most_ns = if random.one_in(4) { 10_000_000_000 } else { 1_000_000 };
        at_ns += random.below(most_ns);
        let packet = next(&mut random, at_ns, &wan);
        let sent = node.send(&packet, number);
        let left = sent.0.iter().filter(|(port, bytes)| *port == 1 && bytes.len() > 40);
        wan.extend(left.map(|(_, bytes)| bytes.clone()));
        all.push(sent);
        if stops.contains(&number) {
            node.stop();
            node = Node::start(settings, at_ns, next_held(), kept).unwrap();
            assert_eq!(node.restored.refused, 0);
            restored += node.restored.entries;
        }
    }
    node.stop();
    (all, restored)
}

fn goes_on<N: NetworkFunction>(settings: &str, least: u64) {
    for seed in 0..4 {
        let (without, _) = run::<N>(settings, seed, &[], &[Held::Alone]);
        let mut random = Random::new(seed);
        let stops: Vec<u64> = (0..8).map(|_| random.below(1_500)).collect();
        let in_turn = [Held::Tracked, Held::Alone, Held::Locked];
        for held in [&[Held::Alone][..], &[Held::Locked], &[Held::Tracked], &in_turn] {
            let (with, restored) = run::<N>(settings, seed, &stops, held);
            assert!(restored >= least, "{}: {held:?}: {restored} entries", N::NAME);
            for (number, (with, without)) in with.iter().zip(&without).enumerate() {
                assert_eq!(with, without, "{}, {held:?}, seed {seed}, packet {number}", N::NAME);
            }
        }
    }
}

#[test]
fn a_nat_keeps_its_mappings() {
    // Mappings do not end here: when the port of one that has ended is given again depends on when
    // timer wheels look at it, two a packet, and they begin anew.
    let nat = "public = [\"203.0.113.1\", \"203.0.113.2\"]\nudp_s = 1_000_000\n\
               filtering = \"address-dependent\"";
    goes_on::<anabranch_nfs::nat::Function>(nat, 100);
}

#[test]
fn a_firewall_keeps_its_connections() {
    goes_on::<anabranch_nfs::firewall::Function>("", 100);
}

#[test]
fn a_policer_keeps_its_buckets() {
    goes_on::<anabranch_nfs::policer::Function>("rate_bps = 1000\nburst_bytes = 1600", 10);
}

#[test]
fn a_bridge_keeps_what_it_has_learnt() {
    goes_on::<anabranch_nfs::bridge::Function>("", 20);
}

/// Has a timer go off some time after each packet; what it leaves decides what becomes of later ones.
#[network_function(ports(inside, outside))]
pub mod reminding {
    pub struct Reminding {
        gone_off: Cell<u64>,
    }
    impl Reminding {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            cx.set_timer(cx.now() % 20_000_000_000, cx.now() % 5);
            match self.gone_off.get() % 3 {
                0 => Forward(pkt.port()),
                _ => Forward(pkt.port().other()),
            }
        }
        fn timer(&mut self, token: u64, cx: &mut Context) {
            self.gone_off.update(|sum| *sum = *sum * 3 + token + 1);
            if token == 4 {
                cx.set_timer(1_000_000_000, 1);
            }
        }
    }
}

#[test]
fn timers_go_off_that_were_set_before_a_stop() {
    goes_on::<reminding::Function>("", 10);
}

/// Counts what goes off of a timer that `init` has set and that sets itself again, and says when that of a packet
/// does.
#[network_function(ports(inside, outside))]
pub mod ticking {
    pub struct Ticking {
        ticks: Cell<u64>,
        reminded_ns: Cell<u64>,
    }
    impl Ticking {
        fn init(&mut self, cx: &mut Context) {
            cx.set_timer(1_000_000_000, 0);
        }
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == INSIDE {
                cx.set_timer(5_000_000_000, 1);
            }
            Forward(pkt.port().other())
        }
        fn timer(&mut self, token: u64, cx: &mut Context) {
            match token {
                0 => {
                    self.ticks.update(|ticks| *ticks += 1);
                    cx.set_timer(1_000_000_000, 0);
                }
                _ => self.reminded_ns.set(cx.now()),
            }
        }
    }
}

/// What `init` sets it sets again, once; what should have gone off between a stop and a start does so at the start.
#[test]
fn timers_of_init_are_its_own_and_others_go_off_late_rather_than_never() {
    let store = Memory::default();
    let number = |id: &str| {
        let state = view::state(&mut store.clone(), "ticking", Some("a")).unwrap();
        let (_, content) = state.iter().find(|(key, _)| key.id() == id).unwrap();
        let Content::Map(entries) = content else { panic!("{content:?}") };
        u64::from_le_bytes(entries.values().next().unwrap()[..].try_into().unwrap())
    };
    let bytes = || udp((Ipv4Addr::new(10, 0, 0, 1), 5_000), (Ipv4Addr::new(198, 51, 100, 1), 53));
    let second = |after: u64| START_NS + after * 1_000_000_000;
    for (held, start) in [(Held::Alone, 0), (Held::Locked, 100), (Held::Tracked, 200)] {
        let kept = Some(&store);
        let start_node = |at| Node::<ticking::Function>::start("", at, held, kept).unwrap();
        let mut node = start_node(second(start));
        for after in 0..3 {
            // The last one from inside sets the timer that is overdue later.
            let port = u8::from(after != 2);
            node.send(&Packet { port, at_ns: second(start + after), bytes: bytes() }, after);
        }
        node.stop();
        let ticks = number("ticks");
        let mut node = start_node(second(start + 60));
        assert_eq!(node.restored.entries, if start == 0 { 2 } else { 3 }, "{held:?}");
        for after in [60, 63] {
            let at_ns = second(start + after);
            node.send(&Packet { port: 1, at_ns, bytes: bytes() }, after);
        }
        node.stop();
        assert_eq!(number("ticks"), ticks + 3, "{held:?}: `init` counts once a second");
        assert_eq!(number("reminded_ns"), second(start + 60), "{held:?}");
    }
}

/// The table is built by a timer that a command has set.
#[test]
fn a_balancer_goes_on_building_its_table() {
    type Lb = anabranch_nfs::lb::Function;
    // So small that all of it is on its way to the store soon after it has changed.
    let settings = "services = [{address = '198.18.0.1', port = 53, protocol = 'udp'}]\n\
                    backends = [{service = 0, address = '192.0.2.1', port = 53}]\n\
                    table_size = 'small'";
    let built = |stop: Option<u64>| {
        let store = Memory::default();
        let content = || {
            let state = view::state(&mut store.clone(), "lb", Some("a")).unwrap();
            state.into_iter().find(|(key, _)| key.id() == "build").unwrap().1
        };
        let start = |at_ns| Node::<Lb>::start(settings, at_ns, Held::Alone, Some(&store)).unwrap();
        let mut node = start(START_NS);
        let State::Own(instance) = &mut node.workers[0] else { panic!("one worker") };
        let command = "add-backend service=0 address=192.0.2.2 port=53";
        let command = <Lb as NetworkFunction>::Command::read(command).unwrap();
        instance.schedule(START_NS + 1_000_000, command);
        let mut half = None;
        for number in 0..200 {
            let at_ns = START_NS + number * 150_000;
            let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(198, 18, 0, 1));
            let packet = Packet { port: 0, at_ns, bytes: udp((from, 5_000), (to, 53)) };
            assert_eq!(node.send(&packet, number).0[0].0, 1, "it is forwarded");
            if stop == Some(number) {
                node.stop();
                half = Some(content());
                node = start(at_ns);
            }
        }
        node.stop();
        (half, content())
    };
    let (_, whole) = built(None);
    let (half, resumed) = built(Some(10));
    assert_ne!(half.unwrap(), whole, "it was stopped before the end");
    assert_eq!(resumed, whole);
}

/// What a packet sends there, its own destination, is half of its set's key.
#[test]
fn a_balancer_keeps_connections_whose_packets_it_rewrites() {
    type Lb = anabranch_nfs::lb::Function;
    let settings = "services6 = [{address = '2001:db8::1', port = 53, protocol = 'udp'}]\n\
                    backends6 = [{service = 0, address = 'fd00::2', port = 53}]";
    let kept_after = |seconds: &[u64]| {
        let store = Memory::default();
        let mut node = Node::<Lb>::start(settings, START_NS, Held::Alone, Some(&store)).unwrap();
        for (&second, number) in seconds.iter().zip(0..) {
            let mut bytes = vec![0; 256];
            let link = Link { src: [2; 6].into(), dst: [4; 6].into(), tags: [None; 2] };
            let ends = ["[2001:db8::7]:5000", "[2001:db8::1]:53"].map(|end| end.parse().unwrap());
            let len = craft::udp(&mut bytes, &link, ends[0], ends[1], b"who?").unwrap();
            bytes.truncate(len);
            let at_ns = START_NS + second * 1_000_000_000;
            let sent = node.send(&Packet { port: 0, at_ns, bytes }, number);
            let [(1, forwarded)] = &sent.0[..] else { panic!("{sent:?}") };
            assert_eq!(forwarded[38..54], "fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        }
        node.stop();
        let mut state = view::state(&mut store.clone(), "lb", Some("a")).unwrap();
        state.retain(|key, _| key.id() == "sets.v6");
        assert_eq!(state.len(), 1);
        state
    };
    assert_ne!(kept_after(&[0]), kept_after(&[0, 20]), "the later packet is known");
}

#[test]
fn state_of_another_version_is_refused() {
    let store = Memory::default();
    let mut node =
        Node::<anabranch_nfs::firewall::Function>::start("", START_NS, Held::Alone, Some(&store))
            .unwrap();
    let bytes = udp((Ipv4Addr::new(10, 0, 0, 1), 5), (Ipv4Addr::new(9, 9, 9, 9), 53));
    node.send(&Packet { port: 0, at_ns: START_NS, bytes }, 0);
    node.stop();
    let key = store_layout(&store);
    let put = anabranch_store::Operation::Put(Content::Value(b"other".to_vec()));
    store.clone().run(&[Call::new(&key, put)]).unwrap();
    let refused =
        Node::<anabranch_nfs::firewall::Function>::start("", START_NS, Held::Alone, Some(&store));
    let error = refused.err().unwrap();
    assert!(matches!(&error, Error::OtherLayout { stored, .. } if stored == "other"), "{error}");
}

fn store_layout(store: &Memory) -> Key {
    let keys = store.clone().keys("firewall@a@0@value@.layout").unwrap();
    keys.into_iter().next().unwrap()
}

/// Remembers who has sent; of an odd host it says so.
#[network_function(ports(inside, outside))]
pub mod noisy {
    pub struct Noisy {
        #[capacity(64)]
        hosts: Map<Ipv4Addr, u32>,
    }
    impl Noisy {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let src = ip.src();
            self.hosts.insert(src, 1);
            if u32::from(src) % 2 == 1 {
                log!(cx, info, "{} is odd", src);
                cx.emit(pkt.port(), b"0123456789abcdef");
            }
            Forward(OUTSIDE)
        }
    }
}

/// Panics at what a function says.
struct Startled;

impl Release for Startled {
    fn forward(&mut self, _: &Frame<'_>, _: Port) {}
    fn flood(&mut self, _: &Frame<'_>) {}
    fn discard(&mut self, _: &Frame<'_>, _: DropReason) {}
    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {}
    fn emit(&mut self, _: &Meta, _: Port, _: &[u8]) {
        panic!("startled");
    }
}

/// Others go on with what a worker has left that panics, but the store has what was there before.
#[test]
fn what_a_worker_that_panics_leaves_half_done_is_not_stored() {
    for held in [Held::Locked, Held::Tracked] {
        let store = Memory::default();
        let mut node = Node::<noisy::Function>::start("", START_NS, held, Some(&store)).unwrap();
        let packet = |host| Packet {
            port: 0,
            at_ns: START_NS,
            bytes: udp((Ipv4Addr::new(10, 0, 0, host), 5), (Ipv4Addr::new(9, 9, 9, 9), 53)),
        };
        for (host, number) in [(2, 0), (4, 1)] {
            assert_eq!(node.send(&packet(host), number).0.len(), 1, "it is forwarded");
        }
        let startled = std::panic::AssertUnwindSafe(|| {
            node.handle(&packet(3), 2, &mut Startled);
        });
        assert!(std::panic::catch_unwind(startled).is_err());
        assert_eq!(node.send(&packet(6), 3).0.len(), 1, "the other goes on");
        node.stop();
        let state = view::state(&mut store.clone(), "noisy", Some("a")).unwrap();
        let hosts = state.iter().find(|(key, _)| key.id() == "hosts").unwrap().1;
        assert_eq!(hosts.len(), 2, "{held:?}: {hosts:?}");
    }
}

/// A store that notes what a NAT that is killed after any of its messages finds: the mappings that are
/// in both directions, and those that are in one.
struct Watched {
    store: Memory,
    found: Found,
}

impl Watched {
    fn flows(&mut self) -> (usize, usize) {
        let state = view::state(&mut self.store, "nat", Some("a")).unwrap();
        let entries = |name: &str| {
            let object = state.iter().find(|(key, _)| key.id() == name);
            match object {
                Some((_, Content::Map(entries))) => entries.clone(),
                _ => BTreeMap::new(),
            }
        };
        let inside: BTreeSet<_> = entries("inside").into_values().collect();
        let mappings: BTreeSet<_> = entries("mappings").into_keys().collect();
        let whole = inside.intersection(&mappings).count();
        (whole, inside.symmetric_difference(&mappings).count())
    }
}

impl Driver for Watched {
    fn name(&self) -> &str {
        "watched"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        self.store.run(calls)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let outcomes = self.store.commit(batches);
        let found = self.flows();
        self.found.lock().unwrap().push(found);
        outcomes
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.store.keys(prefix)
    }
}

/// What packets of one batch write is in one message, whether it is told batch by batch or all at once, in
/// several turns, and however few of them there were.
#[test]
fn a_nat_that_is_killed_in_a_flood_has_no_flow_by_halves() {
    let flows = flows(3_000);
    for held in [Held::Alone, Held::Locked, Held::Tracked] {
        const LONG_NS: u64 = 50_000_000;
        for (period_ns, turns, is_all) in
            [(0, 1, true), (LONG_NS, 0, false), (LONG_NS, 3, false), (LONG_NS, 60, true)]
        {
            let (mut node, found) = watched(held, period_ns);
            // The first batch is told at once.
            let mut sent = batches(&mut node, &flows[..2_900], 0);
            std::thread::sleep(Duration::from_nanos(period_ns));
            sent += batches(&mut node, &flows[2_900..], sent);
            std::thread::sleep(Duration::from_nanos(period_ns));
            for _ in 0..turns {
                // What is left of a turn is told a millisecond later.
                std::thread::sleep(Duration::from_millis(2));
                sent += batches(&mut node, &flows[..1], sent);
            }
            node.stop();
            let found = found.lock().unwrap();
            let (most, half) = (found.iter().map(|one| one.0), found.iter().map(|one| one.1));
            let what = format!("{held:?}, every {period_ns} ns, {turns} more: {found:?}");
            assert_eq!(half.max(), Some(0), "{what}");
            if is_all {
                assert_eq!(most.max(), Some(3_000), "{what}");
                assert!(found.len() > 30, "{what}");
            }
        }
    }
}

/// So it is where two workers open flows at the same time, and give up what others have done meanwhile.
#[test]
fn a_nat_that_is_killed_while_its_workers_work_side_by_side_has_no_flow_by_halves() {
    const PERIOD_NS: u64 = 50_000_000;
    let flows = flows(3_000);
    for held in [Held::Tracked, Held::Tracked, Held::Locked].into_iter().cycle().take(24) {
        let (mut node, found) = watched(held, PERIOD_NS);
        // The first batch is told at once.
        batches(&mut node, &flows[..32], 0);
        let mut numbers = 0;
        std::thread::scope(|threads| {
            for (worker, flows) in node.workers.iter_mut().zip(flows[32..].chunks(1_484)) {
                numbers += 10_000;
                threads.spawn(move || feed(worker, flows, numbers));
            }
        });
        std::thread::sleep(Duration::from_nanos(PERIOD_NS));
        for more in 0..60 {
            std::thread::sleep(Duration::from_millis(2));
            batches(&mut node, &flows[..1], 40_000 + more);
        }
        node.stop();
        let found = found.lock().unwrap();
        let what = format!("{held:?}: {found:?}");
        assert_eq!(found.iter().map(|one| one.1).max(), Some(0), "{what}");
        assert_eq!(found.iter().map(|one| one.0).max(), Some(3_000), "{what}");
    }
}

type Found = Arc<Mutex<Vec<(usize, usize)>>>;

/// A NAT whose store notes what it would find, told so often in messages of 256 changes.
fn watched(held: Held, period_ns: u64) -> (Node<anabranch_nfs::nat::Function>, Found) {
    let found = Found::default();
    let watched = Watched { store: Memory::default(), found: Arc::clone(&found) };
    let settings = Settings { message_changes: 256, ..Settings::default() };
    let opened = Flusher::open(watched, "nat", "a", settings).unwrap();
    let nat = "public = [\"203.0.113.1\"]";
    (Node::kept_by(nat, START_NS, held, (Some(opened), period_ns)).unwrap(), found)
}

/// The first packets of flows of so many hosts.
fn flows(hosts: u32) -> Vec<Vec<u8>> {
    let flow = |n: u32| {
        let host = Ipv4Addr::new(10, 0, (n >> 8) as u8, n as u8);
        udp((host, 5_000), (Ipv4Addr::new(198, 51, 100, 1), 53))
    };
    (0..hosts).map(flow).collect()
}

/// What it costs per packet that a store keeps a NAT's state: printed, not asserted, since it depends
/// on the machine. `cargo test --release -p anabranch-runtime --test deployed -- --ignored --nocapture restart`
#[test]
#[ignore = "measures"]
fn cost_of_being_kept() {
    type Nat = anabranch_nfs::nat::Function;
    let settings = "public = [\"203.0.113.1\"]";
    let flows = flows(20_000);
    for round in 0..3 {
        for store in [None, Some(Memory::default())] {
            let mut node = Node::<Nat>::start(settings, START_NS, Held::Alone, None).unwrap();
            let flusher =
                store.map(|store| Flusher::open(store, "nat", "a", Settings::default()).unwrap().0);
            if let Some(flusher) = &flusher {
                let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
                let (period, refresh) = (1_000_000, 1_000_000_000);
                let owner = Owner::Whole(scope);
                let State::Own(instance) = &mut node.workers[0] else { unreachable!() };
                instance.keep(Storing::new(flusher.feed(), owner, period, refresh));
            }
            for (what, times) in [("new flows", 1), ("established flows", 100)] {
                let began = worked_ns();
                let mut packets = 0u64;
                for _ in 0..times {
                    packets += batches(&mut node, &flows, packets);
                }
                let ns = (worked_ns() - began) as f64 / packets as f64;
                println!("round {round}, kept {}: {what}: {ns:.1} ns a packet", flusher.is_some());
                // The flusher's own work is not what is measured next.
                std::thread::sleep(Duration::from_millis(900));
            }
            drop(node);
            if let Some(flusher) = flusher {
                println!("{:?}", flusher.close(Duration::from_secs(20)));
            }
        }
    }
}

/// What this thread has worked, nanoseconds: others may be at work on the same cores.
fn worked_ns() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

fn batches<N: NetworkFunction>(node: &mut Node<N>, flows: &[Vec<u8>], first: u64) -> u64 {
    feed(&mut node.workers[0], flows, first)
}

fn feed<N: NetworkFunction>(worker: &mut State<N>, flows: &[Vec<u8>], first: u64) -> u64 {
    let mut sent = Nowhere;
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    for (batch, flows) in flows.chunks(32).enumerate() {
        buffers.clear();
        buffers.extend(flows.iter().map(|flow| [&[0; 64][..], flow, &[0; 64]].concat()));
        let mut frames: Vec<Frame<'_>> = Vec::with_capacity(32);
        for (at, (buffer, flow)) in buffers.iter_mut().zip(flows).enumerate() {
            let number = first + (batch * 32 + at) as u64;
            let (arrival_ns, wire_len) = (START_NS + number * 1_000, flow.len() as u32);
            let meta = Meta { arrival_ns, number, wire_len, port: Port::new(0), ..Meta::default() };
            frames.push(Frame::new(buffer, 64, flow.len(), 0, meta));
        }
        worker.handle(&mut frames, &mut sent);
    }
    flows.len() as u64
}

struct Nowhere;

impl Release for Nowhere {
    fn forward(&mut self, _: &Frame<'_>, _: Port) {}
    fn flood(&mut self, _: &Frame<'_>) {}
    fn discard(&mut self, _: &Frame<'_>, _: DropReason) {}
    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {}
    fn emit(&mut self, _: &Meta, _: Port, _: &[u8]) {}
}

/// A store that can be made not to answer.
struct Gate {
    store: Memory,
    is_open: Arc<AtomicBool>,
}

impl Gate {
    fn ask<T>(&mut self, ask: impl FnOnce(&mut Memory) -> Result<T, Error>) -> Result<T, Error> {
        match self.is_open.load(Ordering::Relaxed) {
            true => ask(&mut self.store),
            false => Err(Error::unavailable("gate", "it is shut")),
        }
    }
}

impl Driver for Gate {
    fn name(&self) -> &str {
        "gate"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        self.ask(|store| store.run(calls))
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        self.ask(|store| store.commit(batches))
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.ask(|store| store.keys(prefix))
    }
}

/// Whoever has the state, kept in a store that can be shut.
struct Shut<N: NetworkFunction> {
    node: Node<N>,
    store: Memory,
    is_open: Arc<AtomicBool>,
}

impl<N: NetworkFunction> Shut<N> {
    fn start(settings: &str, held: Held, policy: Policy) -> Self {
        let (store, is_open) = (Memory::default(), Arc::new(AtomicBool::new(true)));
        let gate = Gate { store: store.clone(), is_open: Arc::clone(&is_open) };
        let slow = Settings { policy, slow_ns: 100_000_000, ..Settings::default() };
        let opened = Some(Flusher::open(gate, N::NAME, "a", slow).unwrap());
        let node = Node::kept_by(settings, START_NS, held, (opened, 0)).unwrap();
        Self { node, store, is_open }
    }

    fn status(&self) -> Status {
        self.node.flusher.as_ref().unwrap().status()
    }

    /// Workers go on polling meanwhile, as in a run: what there was no time to tell after a packet they tell then.
    #[track_caller]
    fn wait(&mut self, until: fn(&Status) -> bool) {
        let began = Instant::now();
        while !until(&self.status()) {
            self.node.workers.iter_mut().for_each(|worker| worker.handle(&mut [], &mut Nowhere));
            assert!(began.elapsed() < Duration::from_secs(20), "{}: {:?}", N::NAME, self.status());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[track_caller]
    fn shut(&mut self) {
        self.wait(|status| status.waiting == 0);
        self.is_open.store(false, Ordering::Relaxed);
    }

    #[track_caller]
    fn open(&mut self) {
        self.is_open.store(true, Ordering::Relaxed);
        self.wait(|status| status.accepts_new && status.waiting == 0);
    }
}

/// A packet of host `number` inside to one outside, or one back.
fn of_host(number: u8, is_reply: bool, after_ms: u64) -> Packet {
    let ends = [(Ipv4Addr::new(10, 0, 0, number), 5_000), (Ipv4Addr::new(9, 9, 9, 9), 53)];
    let [src, dst] = if is_reply { [ends[1], ends[0]] } else { ends };
    let at_ns = START_NS + after_ms * 1_000_000;
    Packet { port: is_reply.into(), at_ns, bytes: udp(src, dst) }
}

/// While the store is gone flows go on, and none begins; when it is back they begin. `is_taken` sends what makes
/// the function remember a host, and says whether it does.
fn refuses_new<N: NetworkFunction>(
    settings: &str,
    policy: Policy,
    mut is_taken: impl FnMut(&mut Node<N>, u8) -> bool,
) {
    let refuses = policy == Policy::RefuseNew;
    for held in [Held::Alone, Held::Locked, Held::Tracked] {
        let mut run = Shut::<N>::start(settings, held, policy);
        assert!(is_taken(&mut run.node, 1), "{}, {held:?}", N::NAME);
        run.shut();
        assert!(is_taken(&mut run.node, 2), "{}, {held:?}: it is not behind yet", N::NAME);
        run.wait(|status| status.lag_ns > 200_000_000);
        assert_eq!(is_taken(&mut run.node, 3), !refuses, "{}, {held:?}", N::NAME);
        assert!(is_taken(&mut run.node, 1) && is_taken(&mut run.node, 2), "{}, {held:?}", N::NAME);
        run.open();
        assert!(is_taken(&mut run.node, 3), "{}, {held:?}", N::NAME);
        assert_eq!(run.status().refused_ns > 0, refuses, "{}, {held:?}", N::NAME);
        run.node.stop();
    }
}

#[test]
fn no_flow_begins_while_the_store_is_behind_where_that_is_asked_for() {
    fn leaves<N: NetworkFunction>(node: &mut Node<N>, number: u8) -> bool {
        matches!(node.send(&of_host(number, false, 0), 0).0[..], [(1, _)])
    }
    fn is_learnt<N: NetworkFunction>(node: &mut Node<N>, number: u8) -> bool {
        // A frame's destination says the host that its packet comes from.
        node.send(&of_host(number, true, 0), 0);
        matches!(node.send(&of_host(number, false, 0), 1).0[..], [(1, _)])
    }
    for policy in [Policy::RefuseNew, Policy::KeepOn] {
        refuses_new::<anabranch_nfs::firewall::Function>("", policy, leaves);
        let nat = "public = [\"203.0.113.1\"]";
        refuses_new::<anabranch_nfs::nat::Function>(nat, policy, leaves);
        refuses_new::<anabranch_nfs::bridge::Function>("", policy, is_learnt);
    }
}

/// What is done when something expires is no new flow: a bridge looks at a station again by allocating anew.
#[test]
fn a_station_ages_also_where_it_was_looked_at_while_the_store_was_behind() {
    for held in [Held::Alone, Held::Locked, Held::Tracked] {
        let bridge = "ageing_s = 2";
        let mut run =
            Shut::<anabranch_nfs::bridge::Function>::start(bridge, held, Policy::RefuseNew);
        let mut number = 0;
        let mut hear = |node: &mut Node<_>, host: u8, after_ms: u64| {
            number += 1;
            node.send(&of_host(host, true, after_ms), number);
        };
        hear(&mut run.node, 1, 0);
        run.shut();
        hear(&mut run.node, 1, 1_500);
        run.wait(|status| status.lag_ns > 200_000_000);
        (0..4).for_each(|more| hear(&mut run.node, 1, 2_600 + more));
        run.open();
        (0..8).for_each(|more| hear(&mut run.node, 2, 20_000 + more));
        let mut store = run.store;
        run.node.stop();
        let state = view::state(&mut store, "bridge", Some("a")).unwrap();
        let entries = |id: &str| {
            let of = |(key, content): (&Key, &Content)| (key.id() == id).then(|| content.len());
            state.iter().find_map(of)
        };
        assert_eq!((entries("stations"), entries("looks")), (Some(1), Some(1)), "{held:?}");
    }
}
