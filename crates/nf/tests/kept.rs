//! State objects that are divided among shards and kept in a store: what is told of them is what they
//! hold, by shard, while shards move from one worker to another; a restart with other workers reads it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_nf::Environment;
use anabranch_nf::packet_set::{SetKey4, SetShape, SetTable};
use anabranch_nf::state::journal::{self, Journaled, Moment, Round, Sink, Steps, stored};
use anabranch_nf::state::{Allocator, Bundle, Cell, Here, Map, Movable, Scope, Vector, Ward};
use proptest::prelude::*;

const SHARDS: u16 = 4;

fn now() -> Moment {
    Moment::new(1_000)
}

/// A store: entries by shard and key. Of another shard than this one nothing is to be told.
#[derive(Default)]
struct Store(BTreeMap<(u16, Vec<u8>), Vec<u8>>, Option<u16>);

impl Store {
    fn key(&self, shard: Option<u16>, key: &[u8]) -> (u16, Vec<u8>) {
        assert!(self.1.is_none() || self.1 == shard, "{shard:?} instead of {:?}", self.1);
        (shard.unwrap(), key.to_vec())
    }
}

impl Sink for Store {
    fn put(&mut self, _: &'static str, shard: Option<u16>, key: &[u8], value: &[u8]) {
        self.0.insert(self.key(shard, key), value.to_vec());
    }
    fn remove(&mut self, _: &'static str, shard: Option<u16>, key: &[u8]) {
        self.0.remove(&self.key(shard, key));
    }
    fn count(&mut self, _: &'static str, _: u64) {
        panic!("no counter");
    }
}

/// An object, with what a function does to it and what is there then.
trait Object: Journaled + Movable {
    fn make(ward: &Ward, environment: Environment) -> Self;
    /// What a packet of `shard` does.
    fn step(&mut self, shard: u16, key: u8, value: u8);
    /// What is to be the same, on all workers together.
    fn contents(&self) -> BTreeMap<u64, u64>;
}

struct Kept<T, const PARTS: bool = false>(T, Environment);

type Parts = Kept<Map<u32, u32>, true>;

impl<T: Journaled, const PARTS: bool> Journaled for Kept<T, PARTS> {
    fn layout(&self) -> journal::Layout {
        self.0.layout()
    }
    fn keep(&mut self, steps: &Steps) {
        self.0.keep(steps);
    }
    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        self.0.drain(name, moment, sink);
    }
    fn restore(&mut self, key: &[u8], value: &[u8], moment: &Moment) -> bool {
        self.0.restore(key, value, moment)
    }
}

impl<T: Movable, const PARTS: bool> Movable for Kept<T, PARTS> {
    fn take_shards(&mut self, bundle: &mut Bundle) {
        self.0.take_shards(bundle);
    }
    fn put_shards(&mut self, bundle: &mut Bundle, shift: anabranch_nf::state::Shift) {
        self.0.put_shards(bundle, shift);
    }
    fn immovable(&self) -> Option<&'static str> {
        self.0.immovable()
    }
}

/// A key that only packets of `shard` touch.
fn of(shard: u16, key: u8) -> u32 {
    u32::from(key % 16) * u32::from(SHARDS) + u32::from(shard)
}

impl Object for Kept<Map<u32, u32>> {
    fn make(ward: &Ward, environment: Environment) -> Self {
        let mut map = Map::new(8, 1);
        map.divide(ward);
        Self(map, environment)
    }
    fn step(&mut self, shard: u16, key: u8, value: u8) {
        let key = of(shard, key);
        match value {
            0..80 => drop(self.0.remove(&key)),
            80..160 => drop(self.0.update(&key, |old| *old += u32::from(value))),
            _ => drop(self.0.insert(key, value.into())),
        }
    }
    fn contents(&self) -> BTreeMap<u64, u64> {
        self.0.iter().map(|(key, value)| (key.into(), u64::from(value) + 1)).collect()
    }
}

/// Packets of all shards count in the same entries.
impl Object for Parts {
    fn make(ward: &Ward, environment: Environment) -> Self {
        let mut map = Map::new(64, 1);
        map.divide(&Ward { scope: Scope::PerShard, ..ward.clone() });
        Self(map, environment)
    }
    fn step(&mut self, _: u16, key: u8, value: u8) {
        let key = u32::from(key % 8);
        match self.0.get(&key) {
            Some(count) if value < 100 => drop(self.0.insert(key, count.saturating_sub(1))),
            Some(count) => drop(self.0.insert(key, count.wrapping_add(1))),
            None => drop(self.0.insert(key, 1)),
        }
    }
    fn contents(&self) -> BTreeMap<u64, u64> {
        self.0.iter().filter(|(_, sum)| *sum != 0).map(|(k, sum)| (k.into(), sum.into())).collect()
    }
}

impl Object for Kept<Vector<u32>> {
    fn make(ward: &Ward, environment: Environment) -> Self {
        let mut vector = Vector::new(64);
        vector.divide(ward);
        Self(vector, environment)
    }
    fn step(&mut self, shard: u16, key: u8, value: u8) {
        self.0.update(of(shard, key), |old| *old = old.wrapping_add(value.into()));
    }
    /// Nothing says which worker's element is the latest: what is stored is looked at, apart.
    fn contents(&self) -> BTreeMap<u64, u64> {
        BTreeMap::new()
    }
}

impl Object for Kept<Cell<u64>> {
    fn make(ward: &Ward, environment: Environment) -> Self {
        let mut cell = Cell::default();
        cell.divide(ward);
        Self(cell, environment)
    }
    fn step(&mut self, _: u16, _: u8, value: u8) {
        self.0.update(|sum| *sum += u64::from(value));
    }
    fn contents(&self) -> BTreeMap<u64, u64> {
        [(0, self.0.get())].into()
    }
}

impl Object for Kept<Allocator<u32>> {
    fn make(ward: &Ward, environment: Environment) -> Self {
        let mut allocator = Allocator::new(64);
        allocator.divide(ward);
        Self(allocator, environment)
    }
    fn step(&mut self, shard: u16, key: u8, value: u8) {
        let (index, Self(allocator, environment)) = (of(shard, key), self);
        match value {
            0..60 => drop(allocator.free(index)),
            60..120 => drop(allocator.touch(index, environment)),
            120..180 => drop(allocator.set(index, value.into())),
            _ => drop(allocator.allocate_at(index, value.into(), 1 << 40, environment)),
        }
    }
    fn contents(&self) -> BTreeMap<u64, u64> {
        let value = |index: u32| Some((index.into(), u64::from(self.0.get(index, &self.1)?) + 1));
        (0..64u32).filter_map(value).collect()
    }
}

impl Object for Kept<SetTable<SetKey4, u32>> {
    fn make(ward: &Ward, environment: Environment) -> Self {
        let mut sets = SetTable::new(SetShape { capacity: 8, lifetime_ns: 1 << 40 }, 1);
        sets.divide(ward);
        Self(sets, environment)
    }
    fn step(&mut self, shard: u16, key: u8, value: u8) {
        let sets = &mut self.0;
        let key = SetKey4::new(of(shard, key).into(), 1.into(), 1, 2, 1);
        let hash = sets.hash(&key);
        match (sets.find(hash, &key), value) {
            (Some(id), 0..80) => drop(sets.close(hash, id)),
            (Some(id), _) => {
                sets.entry_mut(id).state = value.into();
                let spot = sets.entry_mut(id).spot();
                sets.touched(spot, true);
            }
            (None, _) => drop(sets.open(hash, key, value.into(), 1)),
        }
    }
    fn contents(&self) -> BTreeMap<u64, u64> {
        let key = |number: u32| SetKey4::new(number.into(), 1.into(), 1, 2, 1);
        let set = |number: u32| self.0.get(self.0.hash(&key(number)), &key(number));
        let found =
            (0..64).filter_map(|number| Some((number.into(), u64::from(set(number)?.state) + 1)));
        found.collect()
    }
}

/// One worker: its object, and where it is.
struct Worker<O>(O, Arc<Here>);

impl<O: Object> Worker<O> {
    fn new() -> Self {
        let mut environment = Environment::new(1);
        environment.set_origin(0);
        environment.begin(1, 1);
        let ward = Ward { scope: Scope::Sharded, here: Arc::clone(environment.here()), workers: 2 };
        let here = Arc::clone(&ward.here);
        Self(O::make(&ward, environment), here)
    }
}

/// What all workers have together: sums, where several have a part.
fn together<O: Object>(workers: &[Worker<O>]) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    for (key, value) in workers.iter().flat_map(|worker| worker.0.contents()) {
        let sum: &mut u64 = all.entry(key).or_default();
        *sum = (*sum + value) & u64::from(u32::MAX);
    }
    // A part may be below zero, its bits those of a large number.
    all.retain(|_, sum| *sum != 0);
    all
}

/// Does the steps at two workers between whom shards go back and forth. `note` sees the object after each.
fn while_shards_move<O: Object>(
    steps: &[(u16, u8, u8)],
    mut note: impl FnMut(u16, u8, &O),
) -> ([Worker<O>; 2], Store) {
    let mut workers = [Worker::<O>::new(), Worker::new()];
    workers.iter_mut().for_each(|worker| worker.0.keep(&Steps::default()));
    let (mut owners, mut store) = ([0, 1, 0, 1], Store::default());
    for &(shard, key, value) in steps {
        let owner = owners[usize::from(shard)];
        workers[owner].1.enter(shard.into());
        workers[owner].0.step(shard, key, value);
        note(shard, key, &workers[owner].0);
        if value % 5 == 0 {
            workers[owner].0.drain("x", &now(), &mut store);
        }
        if value % 11 == 0 {
            let mut bundle = Bundle::new([shard].into_iter().collect(), 0);
            store.1 = Some(shard);
            workers[owner].0.drain("x", &now().of_shards(bundle.shards()), &mut store);
            store.1 = None;
            workers[owner].0.take_shards(&mut bundle);
            let shift = bundle.shift(0);
            workers[1 - owner].1.leave();
            workers[1 - owner].0.put_shards(&mut bundle, shift);
            owners[usize::from(shard)] = 1 - owner;
        }
    }
    workers.iter_mut().for_each(|worker| worker.0.drain("x", &now(), &mut store));
    (workers, store)
}

fn is_kept<O: Object>(steps: &[(u16, u8, u8)]) {
    let (workers, store) = while_shards_move::<O>(steps, |_, _, _| ());
    let mut again = [Worker::<O>::new(), Worker::new(), Worker::new()];
    for ((shard, key), value) in &store.0 {
        let Worker(object, here) = &mut again[usize::from(shard % 3)];
        here.enter((*shard).into());
        assert!(object.restore(key, value, &now()), "shard {shard}: {key:?}");
    }
    assert_eq!(together(&again), together(&workers));
    // Told anew by the others, it is what it was.
    let mut told = Store::default();
    again.iter_mut().for_each(|worker| worker.0.keep(&Steps::default()));
    again.iter_mut().for_each(|worker| worker.0.drain("x", &now(), &mut told));
    assert_eq!(told.0, BTreeMap::new(), "what was read back has not changed");
}

/// Of each element, its last value by the shard that has it, and by no other.
fn elements_are_kept(steps: &[(u16, u8, u8)]) {
    let mut expected: BTreeMap<(u16, Vec<u8>), Vec<u8>> = BTreeMap::new();
    let (mut worker, mut store) = (Worker::<Kept<Vector<u32>>>::new(), Store::default());
    worker.0.keep(&Steps::default());
    for &(shard, key, value) in steps {
        worker.1.enter(shard.into());
        // Packets of any shard: the last one has it.
        let index = u32::from(key % 16);
        worker.0.0.write(index, value.into());
        let key = stored(&index);
        expected.retain(|(_, other), _| *other != key);
        let value = stored(&u32::from(value));
        expected.insert((shard, key), value);
        if shard == 0 {
            worker.0.drain("x", &now(), &mut store);
        }
    }
    worker.0.drain("x", &now(), &mut store);
    assert_eq!(store.0, expected);
}

/// Of each element, its last value, wherever its shard was then.
fn elements_that_move_are_kept(steps: &[(u16, u8, u8)]) {
    let mut expected: BTreeMap<(u16, Vec<u8>), Vec<u8>> = BTreeMap::new();
    let (_, store) = while_shards_move(steps, |shard, key, vector: &Kept<Vector<u32>>| {
        let index = of(shard, key);
        expected.insert((shard, stored(&index)), stored(&vector.0.read(index)));
    });
    assert_eq!(store.0, expected);
}

fn steps() -> impl Strategy<Value = Vec<(u16, u8, u8)>> {
    prop::collection::vec((0..SHARDS, any::<u8>(), any::<u8>()), 0..200)
}

proptest! {
    #[test]
    fn entries_of_maps(steps in steps()) {
        is_kept::<Kept<Map<u32, u32>>>(&steps);
    }

    #[test]
    fn parts_of_maps(steps in steps()) {
        is_kept::<Parts>(&steps);
    }

    #[test]
    fn elements_of_vectors(steps in steps()) {
        is_kept::<Kept<Vector<u32>>>(&steps);
        elements_are_kept(&steps);
        elements_that_move_are_kept(&steps);
    }

    #[test]
    fn parts_of_cells(steps in steps()) {
        is_kept::<Kept<Cell<u64>>>(&steps);
    }

    #[test]
    fn objects_of_allocators(steps in steps()) {
        is_kept::<Kept<Allocator<u32>>>(&steps);
    }

    #[test]
    fn packet_sets(steps in steps()) {
        is_kept::<Kept<SetTable<SetKey4, u32>>>(&steps);
    }
}

/// That an entry was refreshed is told by the worker that it has come to, and by nobody else.
fn refreshes_move<O: Object>(refresh: impl Fn(&mut O)) {
    let mut workers = [Worker::<O>::new(), Worker::new()];
    workers.iter_mut().for_each(|worker| worker.0.keep(&Steps::default()));
    let told = |worker: &mut Worker<O>, moment: &Moment| {
        let mut store = Store::default();
        worker.0.drain("x", moment, &mut store);
        store.0.len()
    };
    let [from, to] = &mut workers;
    for shard in 0..SHARDS {
        from.1.enter(shard.into());
        from.0.step(shard, 0, 200);
    }
    assert_eq!(told(from, &now()), usize::from(SHARDS));
    from.1.enter(2);
    refresh(&mut from.0);
    let mut bundle = Bundle::new([2].into_iter().collect(), 0);
    assert_eq!(told(from, &now().of_shards(bundle.shards())), 0);
    from.0.take_shards(&mut bundle);
    let shift = bundle.shift(0);
    to.0.put_shards(&mut bundle, shift);
    assert_eq!((told(from, &now()), told(to, &now())), (0, 1));
    assert_eq!((told(from, &now()), told(to, &now())), (0, 0));
    to.1.enter(2);
    refresh(&mut to.0);
    assert_eq!((told(from, &now()), told(to, &now())), (0, 1), "and once more where it is now");
}

#[test]
fn refreshes_that_were_not_told_move_with_their_entries() {
    refreshes_move::<Kept<Allocator<u32>>>(|objects| objects.step(2, 0, 100));
    refreshes_move::<Kept<SetTable<SetKey4, u32>>>(|sets| {
        let key = SetKey4::new(of(2, 0).into(), 1.into(), 1, 2, 1);
        let id = sets.0.find(sets.0.hash(&key), &key).unwrap();
        let spot = sets.0.entry_mut(id).spot();
        sets.0.touched(spot, false);
    });
}

/// What several objects have told.
#[derive(Default)]
struct Told(BTreeMap<(&'static str, Vec<u8>), Vec<u8>>);

impl Sink for Told {
    fn put(&mut self, object: &'static str, _: Option<u16>, key: &[u8], value: &[u8]) {
        self.0.insert((object, key.to_vec()), value.to_vec());
    }
    fn remove(&mut self, object: &'static str, _: Option<u16>, key: &[u8]) {
        self.0.remove(&(object, key.to_vec()));
    }
    fn count(&mut self, _: &'static str, _: u64) {}
}

/// Flows that come into being and end in three objects at once, each in one step.
struct Flows {
    inside: Map<u32, u32>,
    mappings: Allocator<u32>,
    sets: SetTable<SetKey4, u32>,
    environment: Environment,
    steps: Steps,
}

impl Flows {
    fn new() -> Self {
        Self::of(256)
    }

    /// With room for so many.
    fn of(capacity: u32) -> Self {
        let mut environment = Environment::new(1);
        environment.set_origin(0);
        environment.begin(1, 1);
        let shape = SetShape { capacity, lifetime_ns: 1 << 40 };
        let (mappings, sets) = (Allocator::new(capacity), SetTable::new(shape, 1));
        let (inside, steps) = (Map::new(capacity, 1), Steps::default());
        let mut flows = Self { inside, mappings, sets, environment, steps };
        flows.inside.keep(&flows.steps);
        flows.mappings.keep(&flows.steps);
        flows.sets.keep(&flows.steps);
        flows
    }

    fn key(flow: u32) -> SetKey4 {
        SetKey4::new(flow.into(), 1.into(), 1, 2, 1)
    }

    /// What there is of each flow, as it is told, but for when it ends.
    fn state(&self) -> BTreeMap<(&'static str, u32), u32> {
        let mut state = BTreeMap::new();
        for flow in 0..256 {
            let key = Self::key(flow);
            let inside = self.inside.get(&flow).map(|value| ("inside", value));
            let mapping =
                self.mappings.get(flow, &self.environment).map(|value| ("mappings", value));
            let set = self.sets.get(self.sets.hash(&key), &key).map(|set| ("sets", set.state));
            let found = inside.into_iter().chain(mapping).chain(set);
            state.extend(found.map(|(name, value)| ((name, flow), value)));
        }
        state
    }

    /// The flow comes, or something becomes of it.
    fn meet(&mut self, flow: u32, what: u32) {
        let key = Self::key(flow);
        let hash = self.sets.hash(&key);
        match (self.sets.find(hash, &key), what) {
            (None, _) => {
                self.inside.insert(flow, what);
                self.mappings.allocate_at(flow, what, 1 << 40, &self.environment);
                self.sets.open(hash, key, what, 1);
            }
            (Some(id), 0..3) => {
                self.mappings.set(flow, what);
                self.mappings.refresh(flow, 1 << 41, &self.environment);
                let spot = self.sets.entry_mut(id).spot();
                self.sets.touched(spot, false);
            }
            // Another one, in the same place.
            (Some(_), 3) => {
                self.mappings.free(flow);
                self.mappings.allocate_at(flow, 7, 1 << 40, &self.environment);
                self.inside.remove(&flow);
                self.inside.insert(flow, 7);
            }
            (Some(id), _) => {
                self.sets.close(hash, id);
                self.mappings.free(flow);
                self.inside.remove(&flow);
            }
        }
    }

    /// Tells about `most` changes; whether nothing is left.
    fn tell(&mut self, most: usize, told: &mut Told) -> bool {
        let moment = Moment::new(1_000).of_changes(most).of_refreshes(Some(Round {
            number: 1,
            turns: 4,
            every: 0,
        }));
        self.inside.drain("inside", &moment, told);
        self.mappings.drain("mappings", &moment, told);
        self.sets.drain("sets", &moment, told);
        moment.left() == 0
    }
}

impl Told {
    fn state(&self) -> BTreeMap<(&'static str, u32), u32> {
        let last = |bytes: &[u8]| u32::from_le_bytes(bytes[bytes.len() - 4..].try_into().unwrap());
        let flow = |name: &str, key: &[u8]| match name {
            "sets" => (0..256).find(|flow| stored(&Flows::key(*flow)) == key).unwrap(),
            _ => last(key),
        };
        let entry = |((name, key), value): (&(&'static str, Vec<u8>), &Vec<u8>)| {
            ((*name, flow(name, key)), last(value))
        };
        self.0.iter().map(entry).collect()
    }
}

/// However little is told at a time, what has been told when nothing is left is what there is.
#[test]
fn what_is_told_in_several_turns_is_what_there_is_when_nothing_is_left() {
    let mut rounds = [0; 2];
    for seed in 0..100u64 {
        let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u32| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            (number >> 33) as u32 % below
        };
        let (mut flows, mut told) = (Flows::new(), Told::default());
        let (most, live) = (1 + random(60) as usize, 1 + random(256));
        let mut turns = 0;
        for _ in 0..600 {
            flows.steps.next();
            for _ in 0..random(8) {
                flows.meet(random(live), random(6));
            }
            if random(4) > 0 {
                continue;
            }
            turns += 1;
            if flows.tell(most, &mut told) {
                rounds[usize::from(turns > 1)] += 1;
                turns = 0;
                assert_eq!(told.state(), flows.state(), "seed {seed}");
            }
        }
        while !flows.tell(most, &mut told) {}
        assert_eq!(told.state(), flows.state(), "seed {seed}");
    }
    assert!(rounds.iter().all(|rounds| *rounds > 500), "in one turn, in several: {rounds:?}");
}

impl Flows {
    /// The flow's packet comes at `now`, after which it lives so many ticks: noted as a packet's handler has it noted.
    fn refresh(&mut self, flow: u32, now: u32, ticks: u32) {
        self.environment.begin(anabranch_nf::to_ns((now - 1).into()), 1);
        self.mappings.refresh(flow, anabranch_nf::to_ns(ticks.into()), &self.environment);
        let key = Self::key(flow);
        let Some(id) = self.sets.find(self.sets.hash(&key), &key) else { return };
        let set = self.sets.entry_mut(id);
        let is_resized = set.refresh(now, ticks);
        if is_resized || !set.is_noted() {
            let spot = set.spot();
            self.sets.touched(spot, is_resized);
        }
    }

    /// When each flow ends, in both objects that know, as it is told.
    fn ends(&self) -> BTreeMap<(&'static str, Vec<u8>), u64> {
        let mut ends = BTreeMap::new();
        for flow in 0..MANY {
            let key = Self::key(flow);
            let mapping = self.mappings.kept(flow).map(|one| one.deadline.tick());
            let set = self.sets.get(self.sets.hash(&key), &key).map(|set| set.deadline().tick());
            ends.extend(mapping.map(|tick| (("mappings", stored(&flow)), 1_000 + u64::from(tick))));
            ends.extend(set.map(|tick| (("sets", stored(&key)), 1_000 + u64::from(tick))));
        }
        ends
    }
}

impl Flows {
    /// Everything that is due at the tick `now`; whether more is in this round, and in later ones.
    fn tell_refreshes(&mut self, now: u32, round: Round, told: &mut Told) -> (bool, bool) {
        let moment = Moment::new(1_000).at(now).of_refreshes(Some(round));
        self.inside.drain("inside", &moment, told);
        self.mappings.drain("mappings", &moment, told);
        self.sets.drain("sets", &moment, told);
        (moment.leaves_refreshes(), moment.has_refreshes_wait())
    }
}

impl Told {
    /// As [`Flows::ends`].
    fn ends(&self) -> BTreeMap<(&'static str, Vec<u8>), u64> {
        let end = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
        let ends = self.0.iter().filter(|((object, _), _)| *object != "inside");
        ends.map(|(at, value)| (at.clone(), end(value))).collect()
    }
}

const MANY: u32 = 2_000;

/// Of what lives long a store hears more seldom: what it has of a deadline is at most a sixteenth of the time that is
/// left behind, and two rounds. What is refreshed no more is told in the end, without a packet.
#[test]
fn deadlines_that_are_far_away_are_told_more_seldom() {
    const EVERY: u32 = 1_000;
    // A flow lives for two rounds, eight, 32 … 33,000.
    let lifetime = |flow: u32| (2 * EVERY) << (2 * (flow % 8));
    let (mut flows, mut told) = (Flows::of(MANY), Told::default());
    (0..MANY).for_each(|flow| flows.meet(flow, 5));
    let (mut behind_most, mut told_of) = (0, [0; 8]);
    let mut tell = |flows: &mut Flows, now: u32, number: u32| {
        let round = Round { number, turns: 4, every: EVERY };
        let before = told.ends();
        loop {
            if let (false, waits) = flows.tell_refreshes(now, round, &mut told) {
                return (before, told.ends(), waits);
            }
        }
    };
    for number in 1..=200 {
        let now = number * EVERY;
        (0..MANY).for_each(|flow| flows.refresh(flow, now, lifetime(flow)));
        let (before, after, waits) = tell(&mut flows, now, number);
        assert!(waits);
        let ends = flows.ends();
        for flow in 0..MANY {
            for at in [("mappings", stored(&flow)), ("sets", stored(&Flows::key(flow)))] {
                let behind = ends[&at] - after[&at];
                if number > 64 {
                    assert!(
                        behind <= u64::from(lifetime(flow) / 16 + 2 * EVERY),
                        "{flow}: {behind}"
                    );
                    told_of[flow as usize % 8] += u32::from(after.get(&at) != before.get(&at));
                }
                behind_most = behind.max(behind_most);
            }
        }
    }
    assert_eq!(behind_most, 63 * u64::from(EVERY));
    let of_each = 2 * MANY / 8 * 136;
    for (at, rounds) in [1, 1, 2, 8, 32, 64, 64, 64].into_iter().enumerate() {
        let share = f64::from(told_of[at]) * f64::from(rounds) / f64::from(of_each);
        assert!((0.8..1.2).contains(&share), "{at}: {}", told_of[at]);
    }
    // A lifetime of its own is told at once.
    flows.refresh(8, 200 * EVERY, 7);
    let (_, after, _) = tell(&mut flows, 200 * EVERY, 201);
    for at in [("mappings", stored(&8u32)), ("sets", stored(&Flows::key(8)))] {
        assert_eq!(after[&at], 1_000 + 200 * u64::from(EVERY) + 7);
    }
    let mut rounds = (202..).map(|number| tell(&mut flows, 200 * EVERY, number));
    let (_, after, _) = rounds.find(|(_, _, waits)| !waits).unwrap();
    assert_eq!(after, flows.ends());
}

/// However refreshes are spread over turns, once a round is over the store has every deadline as it is.
#[test]
fn deadlines_are_told_as_they_are_however_many_turns_it_takes() {
    let mut random = {
        let mut number = 0x9e37_79b9_7f4a_7c15u64;
        move |below: u32| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            (number >> 33) as u32 % below
        }
    };
    let mut rounds = [0; 2];
    let mut spread = 0;
    for _ in 0..4 {
        let (mut flows, mut told) = (Flows::of(MANY), Told::default());
        (0..MANY).for_each(|flow| flows.meet(flow, 5));
        let (mut turns, mut number, mut now) = (0, 1, 1);
        for _ in 0..400 {
            for _ in 0..random(800) {
                now += random(3);
                flows.refresh(random(MANY), now, 1_000_000);
            }
            for _ in 0..random(4) {
                // Closed, and perhaps another one in its place.
                let flow = random(MANY);
                flows.meet(flow, 5);
                (0..random(2)).for_each(|_| flows.meet(flow, 5));
            }
            let most = if random(5) == 0 { 1 } else { 8 };
            let leaves =
                flows.tell_refreshes(1, Round { number, turns: most, every: 0 }, &mut told).0;
            turns += 1;
            spread += u32::from(leaves);
            number += u32::from(!leaves);
            if most > 1 {
                continue;
            }
            assert_eq!(told.ends(), flows.ends());
            rounds[usize::from(turns > 1)] += 1;
            turns = 0;
        }
    }
    assert!(rounds.iter().all(|rounds| *rounds > 40), "in one turn, in several: {rounds:?}");
    assert!(spread > 500, "{spread} turns left something to others");
}

/// While a store is behind, what is there is changed, refreshed and removed, and no packet adds to it; an event does:
/// what it makes belongs to what is there.
#[test]
fn what_is_new_is_refused_while_the_store_is_behind() {
    let refuses = Arc::new(AtomicBool::new(false));
    let steps = Steps::refusing(Arc::clone(&refuses));
    let mut environment = Environment::new(1);
    environment.set_origin(0);
    environment.begin(1, 1);
    let mut map = Map::<u32, u32>::new(8, 1);
    map.keep(&steps);
    let mut objects = Allocator::<u32>::new(8);
    objects.keep(&steps);
    let shape = SetShape { capacity: 8, lifetime_ns: 1 << 40 };
    let mut sets = SetTable::<SetKey4, u32>::new(shape, 1);
    sets.keep(&steps);
    let key = |n: u8| SetKey4::new([10, 0, 0, n].into(), [9; 4].into(), 1, 2, 0);
    let mut open = |n: u8| sets.open(sets.hash(&key(n)), key(n), 7, environment.tick()).is_some();

    assert!(map.insert(1, 1) && open(1));
    let first = objects.allocate(5, 1 << 40, &environment).unwrap();
    refuses.store(true, Ordering::Relaxed);
    assert!(!map.insert(2, 2) && map.insert(1, 3) && map.remove(&1) == Some(3));
    assert!(!map.insert(1, 1), "it is new again");
    assert!(!open(2));
    assert_eq!(objects.allocate(5, 1 << 40, &environment), None);
    assert!(!objects.allocate_at(first + 1, 5, 1 << 40, &environment));
    assert!(objects.refresh(first, 1 << 41, &environment) && objects.set(first, 6));
    steps.set_event(true);
    assert!(objects.allocate_at(first + 1, 5, 1 << 40, &environment) && map.insert(3, 3));
    steps.set_event(false);
    assert!(!objects.allocate_at(first + 2, 5, 1 << 40, &environment) && !map.insert(4, 4));
    refuses.store(false, Ordering::Relaxed);
    assert!(map.insert(2, 2) && objects.allocate(5, 1 << 40, &environment).is_some());
}

/// What a store is told, by key.
#[derive(Default)]
struct Heard {
    removed: Vec<u32>,
    put: Vec<u32>,
}

impl Sink for Heard {
    fn put(&mut self, _: &'static str, _: Option<u16>, key: &[u8], _: &[u8]) {
        self.put.push(u32::from_le_bytes(key.try_into().unwrap()));
    }
    fn remove(&mut self, _: &'static str, _: Option<u16>, key: &[u8]) {
        self.removed.push(u32::from_le_bytes(key.try_into().unwrap()));
    }
    fn count(&mut self, _: &'static str, _: u64) {
        panic!("no counter");
    }
}

#[test]
fn of_each_place_one_key_that_is_gone_waits_while_nothing_is_told() {
    let mut map: Map<u32, u32> = Map::new(64, 1);
    map.keep(&Steps::default());
    let tell = |map: &mut Map<u32, u32>| {
        let mut heard = Heard::default();
        map.drain("map", &now(), &mut heard);
        heard
    };
    (0..40).for_each(|key| assert!(map.insert(key, 1)));
    assert_eq!(tell(&mut map).put.len(), 40);
    let come_and_go = |map: &mut Map<u32, u32>, from: u32| {
        for key in from..from + 10_000 {
            assert!(map.insert(key, 2) && map.remove(&key).is_some());
        }
    };
    come_and_go(&mut map, 1_000);
    (0..40).for_each(|key| assert!(map.remove(&key).is_some()));
    come_and_go(&mut map, 20_000);
    map.insert(7, 3);
    let heard = tell(&mut map);
    assert!((0..40).all(|key| heard.removed.contains(&key)), "of what it has");
    assert!(heard.removed.len() < 200, "{} keys waited", heard.removed.len());
    assert_eq!(heard.put, [7]);
    come_and_go(&mut map, 40_000);
    map.remove(&7);
    assert_eq!(tell(&mut map).removed, [7], "each place had its turn");
}
