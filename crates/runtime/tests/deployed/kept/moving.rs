//! Shards that move while a store keeps their state: in a flood of new flows, in the middle of what is told in
//! several turns, the store has of each shard what was there together, in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch_nf::DropReason;
use anabranch_nf::state::ShardSet;
use anabranch_nf::state::journal::loaded;
use anabranch_nfs::nat::Function as Nat;
use anabranch_packet::craft::{Link, udp};
use anabranch_packet::{Frame, Meta, Port};
use anabranch_plan::Plan;
use anabranch_runtime::deployment::Deployment;
use anabranch_runtime::instance::{Instance, Making, Owner, Release, Storing};
use anabranch_runtime::mailbox::Again;
use anabranch_store::conformance::Random;
use anabranch_store::{
    Answer, Batch, Call, Content, Driver, Error, Flusher, Key, Memory, Outcome, Place, Settings,
    Status, view,
};

use super::case::planned;

const START_NS: u64 = 1_767_225_600_123_456_789;
const FLOWS: u32 = 9_000;

/// What a store has.
type State = BTreeMap<Key, Content>;

/// The public endpoint of what is forwarded, in its order.
#[derive(Default)]
struct Endpoints(Vec<[u8; 6]>);

impl Release for Endpoints {
    fn forward(&mut self, frame: &Frame<'_>, _: Port) {
        let bytes = frame.bytes();
        self.0.push([&bytes[26..30], &bytes[34..36]].concat().try_into().unwrap());
    }
    fn flood(&mut self, _: &Frame<'_>) {
        panic!("a NAT does not flood");
    }
    fn discard(&mut self, _: &Frame<'_>, reason: DropReason) {
        panic!("{reason:?}");
    }
    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {
        panic!("it is where it belongs");
    }
    fn emit(&mut self, _: &Meta, _: Port, _: &[u8]) {}
}

/// Workers of a NAT, whose shards move from one to another.
struct Crew {
    deployment: Deployment,
    instances: Vec<Instance<Nat>>,
    /// The public endpoint of each flow.
    public: BTreeMap<u32, [u8; 6]>,
    /// The flows of each shard, by the batch in which they came.
    order: BTreeMap<u16, Vec<Vec<u32>>>,
    sent: u64,
}

fn host(flow: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + flow)
}

impl Crew {
    /// So many workers, with what a store has.
    fn start(plan: &Plan, workers: usize, state: &State) -> Self {
        let settings = "public = ['203.0.113.1', '203.0.113.2']\nsessions = 131072\nhosts = 131072";
        let ports = vec!["lan".to_owned(), "wan".to_owned()];
        let making =
            Making { seed: 5, settings: settings.parse().unwrap(), ports, ..Making::default() };
        let deployment =
            Deployment::new::<Nat>(plan, &making.settings, &making.ports, workers).unwrap();
        let mut instances = deployment.instances::<Nat>(&making).unwrap();
        for (number, instance) in instances.iter_mut().enumerate() {
            instance.start(START_NS);
            let is_mine = |place| match place {
                Place::Shard(shard) => usize::from(deployment.table.worker(shard.into())) == number,
                place => place == Place::Core(number as u16),
            };
            let mine = state.iter().filter(|(key, _)| is_mine(key.place()));
            let mine: Vec<_> = mine.map(|(key, content)| (key.clone(), content.clone())).collect();
            assert_eq!(instance.restore(&mine).unwrap().refused, 0);
        }
        let (public, order) = (BTreeMap::new(), BTreeMap::new());
        Self { deployment, instances, public, order, sent: 0 }
    }

    /// From now on tells `flusher` what changes, every so often.
    fn keep(&mut self, flusher: &Flusher, period_ns: u64) {
        for (number, instance) in (0..).zip(&mut self.instances) {
            let owner = Owner::Worker { nf: "nat".to_owned(), instance: "a".to_owned(), number };
            instance.keep(Storing::new(flusher.feed(), owner, period_ns, 10_000_000));
        }
    }

    /// A packet of each of these flows.
    fn send(&mut self, flows: impl Iterator<Item = u32>) {
        let mut batches: BTreeMap<u16, Vec<(u32, u32, Vec<u8>)>> = BTreeMap::new();
        for flow in flows {
            let mut bytes = vec![0; 128];
            let ends: [SocketAddr; 2] =
                [(host(flow), 5_000).into(), (Ipv4Addr::new(198, 51, 100, 1), 53).into()];
            let len = udp(&mut bytes, &Link::default(), ends[0], ends[1], b"kept").unwrap();
            bytes.truncate(len);
            let shard = self.deployment.steering.shard(Port::new(0), &bytes, len as u32);
            let worker = self.deployment.table.worker(shard);
            batches.entry(worker).or_default().push((flow, shard, bytes));
        }
        for (worker, mut batch) in batches {
            batch.chunks_mut(32).for_each(|batch| self.handle(worker, batch));
        }
    }

    fn handle(&mut self, worker: u16, batch: &mut [(u32, u32, Vec<u8>)]) {
        let mut of_shards: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for (flow, shard, _) in batch.iter() {
            of_shards.entry(*shard as u16).or_default().push(*flow);
        }
        for (shard, flows) in of_shards {
            self.order.entry(shard).or_default().push(flows);
        }
        let flows: Vec<u32> = batch.iter().map(|one| one.0).collect();
        let mut frames: Vec<Frame<'_>> = Vec::new();
        for (_, shard, bytes) in batch {
            let (len, number) = (bytes.len(), self.sent);
            self.sent += 1;
            let arrival_ns = START_NS + number * 100;
            let (port, steering_hash) = (Port::new(0), *shard);
            let wire_len = len as u32;
            let meta =
                Meta { arrival_ns, number, steering_hash, wire_len, port, ..Meta::default() };
            frames.push(Frame::new(bytes, 0, len, 0, meta));
        }
        let mut sent = Endpoints::default();
        self.instances[usize::from(worker)].handle(&mut frames, &mut sent);
        assert_eq!(sent.0.len(), flows.len());
        for (flow, public) in flows.into_iter().zip(sent.0) {
            assert_eq!(*self.public.entry(flow).or_insert(public), public, "flow {flow}");
        }
    }

    /// Gives these shards of one worker to another; entries that have moved, and how long it took.
    fn move_shards(&mut self, shards: &ShardSet, from: u16, to: u16) -> (usize, Duration) {
        let table = Arc::make_mut(&mut self.deployment.table);
        shards.iter().for_each(|shard| table.move_shard(shard, to).unwrap());
        for instance in &mut self.instances {
            instance.adopt(Arc::clone(&self.deployment.table), ShardSet::default());
        }
        let began = Instant::now();
        let bundle = self.instances[usize::from(from)].take_shards(shards.clone());
        let (took, entries) = (began.elapsed(), bundle.entries());
        self.instances[usize::from(to)].put_shards(bundle);
        (entries, took)
    }

    /// Some shards of some worker go to some other; entries that have moved.
    fn move_some(&mut self, random: &mut Random) -> usize {
        let workers = self.instances.len() as u64;
        let from = random.below(workers) as u16;
        let to = (u64::from(from) + 1 + random.below(workers - 1)) % workers;
        let table = Arc::clone(&self.deployment.table);
        let own = (0..table.shards() as u16).filter(|&shard| table.worker(shard.into()) == from);
        let few = 1 + random.below(20);
        let shards = own.filter(|_| random.one_in(few)).collect();
        self.move_shards(&shards, from, to as u16).0
    }

    /// New flows, while shards move back and forth; entries that have moved.
    fn flood(&mut self, random: &mut Random) -> usize {
        let (mut next, mut moved) = (0, 0);
        while next < FLOWS {
            let most = if random.one_in(6) { 1_500 } else { 60 };
            let more = 1 + random.below(most) as u32;
            self.send(next..(next + more).min(FLOWS));
            next += more;
            if random.one_in(3) {
                moved += self.move_some(random);
            }
            if random.one_in(8) {
                std::thread::sleep(Duration::from_micros(random.below(2_500)));
            }
        }
        moved
    }

    fn end(mut self) -> BTreeMap<u32, [u8; 6]> {
        let mut sent = Endpoints::default();
        self.instances.iter_mut().for_each(|instance| instance.shut_down(&mut sent));
        self.public
    }
}

/// What of the flows of each shard there is in one direction, and how many are in one only.
fn found(state: &State) -> BTreeMap<u16, (BTreeSet<u32>, usize)> {
    let mut found = BTreeMap::new();
    for (key, content) in state {
        let (Place::Shard(shard), Content::Map(inside)) = (key.place(), content) else { continue };
        let mappings: BTreeSet<_> = match key.scope().key(key.kind(), "mappings") {
            Ok(other) => match state.get(&other) {
                Some(Content::Map(mappings)) => mappings.keys().collect(),
                _ => BTreeSet::new(),
            },
            Err(why) => panic!("{why}"),
        };
        if key.id() == "mappings" {
            found.entry(shard).or_insert_with(|| (BTreeSet::new(), mappings.len()));
        }
        if key.id() == "inside" {
            let indices: BTreeSet<_> = inside.values().collect();
            let flow = |key: &Vec<u8>| {
                let (address, ..) = loaded::<(Ipv4Addr, u16, u8)>(key).unwrap();
                u32::from(address) - u32::from(host(0))
            };
            let flows = inside.keys().map(flow).collect();
            found.insert(shard, (flows, indices.symmetric_difference(&mappings).count()));
        }
    }
    found
}

/// A store of which it is noted what it has after each of its messages: what a run finds that was killed there.
struct Watched(Memory, Arc<Mutex<Vec<State>>>);

impl Driver for Watched {
    fn name(&self) -> &str {
        "watched"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        self.0.run(calls)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let outcomes = self.0.commit(batches);
        self.1.lock().unwrap().push(state_of(&self.0));
        outcomes
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.0.keys(prefix)
    }
}

fn state_of(store: &Memory) -> State {
    view::state(&mut store.clone(), "nat", Some("a")).unwrap()
}

fn settings() -> Settings {
    Settings { period_ns: 200_000, message_changes: 512, ..Settings::default() }
}

/// Workers that go on with `state` translate the flows of it as they were translated before.
fn assert_goes_on(plan: &Plan, workers: usize, state: &State, public: &BTreeMap<u32, [u8; 6]>) {
    let flows: BTreeSet<u32> = found(state).into_values().flat_map(|(flows, _)| flows).collect();
    let mut crew = Crew::start(plan, workers, state);
    crew.send(flows.iter().copied());
    for flow in flows {
        assert_eq!(crew.public[&flow], public[&flow], "flow {flow}, by {workers} workers");
    }
}

/// Killed after any message, there is of each shard what came first, batch by batch, and nothing by halves,
/// whichever workers had it; and what is found then is gone on with.
#[test]
fn what_is_stored_of_a_shard_that_moves_was_there_together_and_comes_in_its_order() {
    let plan = planned::<Nat>(None);
    let mut kills = 0;
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let period_ns = [0, 5_000_000, 30_000_000][seed as usize % 3];
        let states = Arc::default();
        let watched = Watched(Memory::default(), Arc::clone(&states));
        let store = watched.0.clone();
        let (flusher, _) = Flusher::open(watched, "nat", "a", settings()).unwrap();
        let mut crew = Crew::start(&plan, 3, &State::new());
        crew.keep(&flusher, period_ns);
        let moved = crew.flood(&mut random);
        assert!(moved > 5_000, "seed {seed}: {moved} entries have moved");
        let order = std::mem::take(&mut crew.order);
        let public = crew.end();
        assert_eq!(flusher.close(Duration::from_secs(20)).waiting, 0);
        let states = states.lock().unwrap();
        kills += states.len();
        for (number, state) in states.iter().enumerate() {
            for (shard, (flows, halves)) in found(state) {
                let what = format!("seed {seed}, message {number}, shard {shard}");
                assert_eq!(halves, 0, "{what}");
                let so_many = |most: usize| order[&shard][..most].iter().flatten().copied();
                let first =
                    (0..=order[&shard].len()).find(|&most| so_many(most).count() >= flows.len());
                assert!(so_many(first.unwrap()).eq(flows.iter().copied()), "{what}: {flows:?}");
            }
        }
        assert_goes_on(&plan, 2, random.pick(&states).unwrap(), &public);
        let last = state_of(&store);
        let all: usize = found(&last).values().map(|(flows, _)| flows.len()).sum();
        assert_eq!(all, FLOWS as usize, "seed {seed}");
        assert_goes_on(&plan, 4, &last, &public);
    }
    assert!(kills > 200, "{kills} messages");
}

/// A store whose messages and answers are lost now and then once it is open, and which once begins again empty.
struct Shaky {
    store: Memory,
    random: Random,
    messages: u32,
}

impl Driver for Shaky {
    fn name(&self) -> &str {
        "shaky"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        self.store.run(calls)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        self.messages += 1;
        if self.messages == 40 {
            let prefix = "nat@a@";
            let all = self.store.keys(prefix)?.into_iter();
            let calls: Vec<_> =
                all.map(|key| Call::new(&key, anabranch_store::Operation::Delete)).collect();
            self.store.run(&calls)?;
        }
        let lost = || Error::unavailable("shaky", "it is lost");
        if self.messages > 5 && self.random.one_in(6) {
            return Err(lost());
        }
        let outcomes = self.store.commit(batches);
        if self.messages > 5 && self.random.one_in(6) { Err(lost()) } else { outcomes }
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.store.keys(prefix)
    }
}

/// Whatever becomes of messages and of the store itself, in the end it has what the workers have.
#[test]
fn a_store_that_fails_while_shards_move_ends_with_what_the_workers_have() {
    let plan = planned::<Nat>(None);
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let store = Memory::default();
        let shaky = Shaky { store: store.clone(), random: Random::new(seed), messages: 0 };
        let (flusher, _) = Flusher::open(shaky, "nat", "a", settings()).unwrap();
        let mut crew = Crew::start(&plan, 3, &State::new());
        crew.keep(&flusher, [0, 5_000_000, 30_000_000][seed as usize % 3]);
        crew.flood(&mut random);
        let public = crew.end();
        let Status { waiting, failures, rebuilds, .. } = flusher.close(Duration::from_secs(20));
        assert_eq!(waiting, 0, "seed {seed}");
        assert!(
            failures > 5 && rebuilds > 0,
            "seed {seed}: {failures} failures, {rebuilds} rebuilds"
        );
        let state = state_of(&store);
        let found = found(&state);
        assert!(found.values().all(|(_, halves)| *halves == 0), "seed {seed}");
        assert_eq!(found.values().map(|one| one.0.len()).sum::<usize>(), FLOWS as usize);
        assert_goes_on(&plan, 2, &state, &public);
    }
}

/// How long a worker's packets wait for what is told of four shards of 512 that leave it, and how much of it is the
/// telling: printed, not asserted, since it depends on the machine.
/// `cargo test --release -p anabranch-runtime --test deployed -- --ignored --nocapture wait`
#[test]
#[ignore = "measures"]
fn how_long_packets_wait_for_shards_that_leave() {
    let plan = planned::<Nat>(None);
    for flows in [1_000, 10_000, 100_000] {
        for is_kept in [false, true] {
            let store = Memory::default();
            let (flusher, _) = Flusher::open(store, "nat", "a", settings()).unwrap();
            let mut crew = Crew::start(&plan, 2, &State::new());
            if is_kept {
                // Nothing is told of its own accord.
                crew.keep(&flusher, 3_600_000_000_000);
            }
            crew.send(0..flows);
            let mut times = Vec::new();
            for four in 0..32 {
                let table = &crew.deployment.table;
                let own = (0..table.shards() as u16).filter(|&one| table.worker(one.into()) == 0);
                let shards: ShardSet = own.take(4).collect();
                let (entries, took) = crew.move_shards(&shards, 0, 1);
                times.push((took, entries));
                if four % 8 == 0 {
                    crew.send(flows + four * 100..flows + four * 100 + 100);
                }
            }
            times.sort();
            let Status { pause_p50_ns, pause_max_ns, .. } = flusher.status();
            println!(
                "{flows} flows, kept {is_kept}: half of 32 moves (of {} entries) within {:?}, nine in ten within \
                 {:?}, all within {:?}; told within {pause_p50_ns} ns, at most {pause_max_ns} ns",
                times[16].1, times[16].0, times[28].0, times[31].0
            );
        }
    }
}
