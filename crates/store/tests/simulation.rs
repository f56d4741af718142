//! Write-behind against a store that fails in every way, by seed: it ends with the right values, a
//! restart finds what was once true, and of two writers the later one wins.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use anabranch_store::behind::{Action, Claimed};
use anabranch_store::conformance::Random;
use anabranch_store::{
    Answer, Batch, Bytes, Call, Change, Content, Driver, Entry, Error, Key, Kind, Memory, Outcome,
    Place, Policy, Scope, Settings, WriteBehind, view,
};

type State = BTreeMap<Key, Content>;

const MS: u64 = 1_000_000;

/// A store that fails now and then. Time passes while it is asked.
struct Faulty {
    store: Memory,
    /// Copies of what it held: a replica that is behind takes over.
    replicas: Vec<Vec<Call>>,
    random: Random,
    /// One in so many messages meets a fault; 0: none does.
    faults: u64,
    /// Batches take effect step by step, as in a store without transactions.
    in_steps: bool,
    now_ns: u64,
}

impl Faulty {
    fn new(seed: u64, faults: u64, in_steps: bool) -> Self {
        let (store, random) = (Memory::default(), Random::new(seed));
        Self { store, replicas: Vec::new(), random, faults, in_steps, now_ns: 0 }
    }

    fn all(&mut self) -> Vec<Call> {
        let keys = self.store.keys("").unwrap();
        let put = |key: Key| {
            let content = view::read(&mut self.store, &key).unwrap().unwrap();
            Call::new(&key, anabranch_store::Operation::Put(content))
        };
        keys.into_iter().map(put).collect()
    }

    fn become_one(&mut self, calls: &[Call]) {
        self.store = Memory::default();
        self.store.run(calls).unwrap();
    }

    /// A replica takes over that has not got the last writes, or any state of before.
    fn fail_over(&mut self) {
        let replica = self.random.pick(&self.replicas).cloned().unwrap_or_default();
        self.become_one(&replica);
    }

    /// One of the objects goes, or an entry of it; no mark does.
    fn delete_some(&mut self) {
        let is_list = |key: &Key| key.kind() == Kind::List || key.kind() == Kind::Set;
        let all = view::state(&mut self.store, "nat", None).unwrap();
        let keys: Vec<Key> = all.into_keys().filter(|key| !is_list(key)).collect();
        let Some(key) = self.random.pick(&keys).cloned() else { return };
        let is_map = matches!(key.kind(), Kind::Map | Kind::CounterMap);
        let operation = match is_map && self.random.one_in(2) {
            true => anabranch_store::Operation::Erase(vec![self.random.below(6) as u8]),
            false => anabranch_store::Operation::Delete,
        };
        self.store.run(&[Call::new(&key, operation)]).unwrap();
    }

    fn gone<T>(&self) -> Result<T, Error> {
        Err(Error::unavailable("simulated", "a fault"))
    }
}

impl Driver for Faulty {
    fn name(&self) -> &str {
        "simulated"
    }

    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        self.store.run(calls)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        self.now_ns += self.random.below(3 * MS);
        if self.random.one_in(4) {
            let all = self.all();
            self.replicas.push(all);
        }
        if self.faults == 0 || !self.random.one_in(self.faults) {
            return self.store.commit(batches);
        }
        match self.random.below(8) {
            // It does not arrive.
            0 => self.gone(),
            // The answer is lost.
            1 => {
                self.store.commit(batches)?;
                self.gone()
            }
            // Some batches take effect; or, without transactions, part of one.
            2 => {
                let some = self.random.below(batches.len() as u64 + 1) as usize;
                self.store.commit(&batches[..some])?;
                if let (true, Some(batch)) = (self.in_steps, batches.get(some)) {
                    let calls = self.random.below(batch.calls.len() as u64 + 1) as usize;
                    self.store.run(&batch.calls[..calls])?;
                }
                self.gone()
            }
            // It starts again, empty.
            3 => {
                self.become_one(&[]);
                self.gone()
            }
            4 => {
                self.fail_over();
                if self.random.one_in(2) { self.gone() } else { self.store.commit(batches) }
            }
            // Some scopes cannot be worked on now, others can.
            5 => {
                let mut commit = |batch| {
                    if self.random.one_in(2) {
                        return Ok(Outcome::Refused(Error::unavailable("simulated", "it moves")));
                    }
                    Ok(self.store.commit(std::slice::from_ref(batch))?.remove(0))
                };
                batches.iter().map(&mut commit).collect()
            }
            // Somebody deletes an object, or an entry.
            6 => {
                self.delete_some();
                self.store.commit(batches)
            }
            // It is slow.
            _ => {
                self.now_ns += self.random.below(2_000 * MS);
                self.store.commit(batches)
            }
        }
    }

    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        if self.faults > 0 && self.random.one_in(self.faults) {
            if self.random.one_in(2) {
                return self.gone();
            }
            self.fail_over();
        }
        self.store.keys(prefix)
    }
}

fn key(random: &mut Random, lanes: u64) -> Key {
    let scope = Scope::new("nat", "a", Place::Shard(random.below(lanes) as u16)).unwrap();
    let kind = Kind::ALL[random.below(6) as usize];
    scope.key(kind, if random.one_in(3) { "y" } else { "x" }).unwrap()
}

fn entry(random: &mut Random, kind: Kind) -> Entry {
    let name: Bytes = vec![random.below(6) as u8];
    match kind {
        Kind::Map => Entry::Pair(name, vec![random.below(200) as u8]),
        Kind::CounterMap => Entry::Count(name, random.below(200) as i64),
        _ => Entry::Member(name),
    }
}

fn content(random: &mut Random, kind: Kind) -> Content {
    let Some(mut content) = Content::empty(kind) else {
        let number = random.below(1_000);
        return match kind {
            Kind::Counter => Content::Counter(number as i64),
            _ => Content::Value(number.to_be_bytes().to_vec()),
        };
    };
    for _ in 0..random.below(5) {
        content.insert(entry(random, kind));
    }
    content
}

fn change(random: &mut Random, lanes: u64) -> Change {
    let key = key(random, lanes);
    let kind = key.kind();
    let keyed = matches!(kind, Kind::Set | Kind::Map | Kind::CounterMap);
    match random.below(8) {
        0 => Change::delete(&key),
        1..5 if keyed => Change::insert(&key, entry(random, kind)),
        5 | 6 if keyed => Change::erase(&key, vec![random.below(6) as u8]),
        _ => Change::put(&key, content(random, kind)),
    }
}

/// What the store should hold, by the plainest means: the same calls, at once.
fn truth(oracle: &mut Memory) -> State {
    view::state(oracle, "nat", None).unwrap()
}

fn act(writer: &mut WriteBehind, store: &mut Faulty) {
    match writer.next(store.now_ns) {
        Action::Wait(until) => store.now_ns = store.now_ns.max(until),
        Action::Commit(batches) => {
            batches.iter().for_each(|batch| batch.check().unwrap());
            let outcomes = store.commit(&batches);
            writer.committed(outcomes, store.now_ns);
        }
        Action::List(scope, page) => {
            let listing = view::listing(store, &scope, page);
            writer.listed(listing, store.now_ns);
        }
    }
}

fn settle(writer: &mut WriteBehind, store: &mut Faulty) {
    let mut settled = 0;
    for _ in 0..2_000 {
        // Each time long enough that it is looked whether everything is still there.
        store.now_ns += 2_000 * MS;
        writer.hurry();
        act(writer, store);
        settled = if writer.is_settled() { settled + 1 } else { 0 };
        // So often that every entry was looked at: there are 36 in a scope at most, and four are each time.
        if settled == 36 {
            return;
        }
    }
    panic!("it never settles: {:?}", writer.status(store.now_ns));
}

fn settings(random: &mut Random) -> Settings {
    Settings {
        message_changes: 1 + random.below(30) as usize,
        most_waiting: if random.one_in(2) { 1 << 20 } else { 1 + random.below(12) as usize },
        check_ns: 20 * MS,
        ..Settings::default()
    }
}

fn fresh(settings: Settings, epoch: u64) -> WriteBehind {
    WriteBehind::new(settings, epoch, []).unwrap()
}

/// One seed, where it is named; else many, `ANABRANCH_SEEDS` of them if that is set.
fn seeds() -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let all = 0..number("ANABRANCH_SEEDS").unwrap_or(1_500);
    number("ANABRANCH_SEED").map_or(all, |seed| seed..seed + 1)
}

#[test]
fn whatever_happens_to_the_store_it_ends_with_the_right_values() {
    let (mut rebuilds, mut failures, mut stored) = (0, 0, 0);
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut store = Faulty::new(seed + 1_000_000, 1 + random.below(9), random.one_in(3));
        let mut writer = fresh(settings(&mut random), 100);
        let mut oracle = Memory::default();
        for _ in 0..random.below(150) {
            for _ in 0..random.below(12) {
                let change = change(&mut random, 3);
                oracle.run(&[change.call().clone()]).unwrap();
                writer.change(change, store.now_ns).unwrap();
            }
            act(&mut writer, &mut store);
        }
        store.faults = 0;
        // The last fault may not have been noticed yet.
        settle(&mut writer, &mut store);
        let expected = truth(&mut oracle);
        let copy: State = writer.copy().collect();
        assert_eq!(copy, expected, "what is here; ANABRANCH_SEED={seed}");
        assert_eq!(truth(&mut store.store), expected, "what is stored; ANABRANCH_SEED={seed}");
        let status = writer.status(store.now_ns);
        assert_eq!((status.waiting, status.lag_ns, status.trouble), (0, 0, None));
        rebuilds += status.rebuilds;
        failures += status.failures;
        stored += status.stored;
    }
    if seeds().count() > 1 {
        assert!(
            rebuilds > 1_000 && failures > 10_000 && stored > 100_000,
            "{rebuilds} {failures} {stored}"
        );
    }
}

#[test]
fn a_restart_finds_what_was_true_when_a_batch_was_made_and_goes_on() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut store = Faulty::new(seed, 0, false);
        // Messages large enough to hold whatever changes between two of them.
        let settings = Settings { message_changes: 10_000, ..Settings::default() };
        let mut writer = fresh(settings, 100);
        let mut oracle = Memory::default();
        let mut history: Vec<(State, u64)> = vec![(State::new(), 0)];
        for _ in 0..random.below(60) {
            for _ in 0..random.below(6) {
                let change = change(&mut random, 1);
                oracle.run(&[change.call().clone()]).unwrap();
                writer.change(change, store.now_ns).unwrap();
            }
            let clock_ns = 1 + store.now_ns;
            writer.note_clock(clock_ns);
            history.push((truth(&mut oracle), clock_ns));
            act(&mut writer, &mut store);
        }
        // Killed here. The next one reads, claims, and goes on.
        let (epoch, claimed) = view::claim(&mut store.store, "nat", "a", 50).unwrap();
        assert!(claimed.is_empty() || epoch > 100, "{epoch}");
        let found: State = claimed.iter().flat_map(|one| one.content.clone()).collect();
        let clock_ns = claimed.iter().map(|one| one.mark.clock_ns).max().unwrap_or(0);
        let was = |(state, then_ns): &(State, u64)| *state == found && *then_ns <= clock_ns;
        assert!(history.iter().any(was), "ANABRANCH_SEED={seed}: {found:?} at {clock_ns}");
        let mut oracle = Memory::default();
        let puts = found
            .iter()
            .map(|(key, content)| Call::new(key, anabranch_store::Operation::Put(content.clone())));
        oracle.run(&puts.collect::<Vec<_>>()).unwrap();
        let mut next = WriteBehind::new(settings, epoch, claimed).unwrap();
        for _ in 0..random.below(20) {
            let change = change(&mut random, 2);
            oracle.run(&[change.call().clone()]).unwrap();
            next.change(change, store.now_ns).unwrap();
            act(&mut next, &mut store);
        }
        settle(&mut next, &mut store);
        assert_eq!(truth(&mut store.store), truth(&mut oracle), "ANABRANCH_SEED={seed}");
        assert_eq!(next.status(0).rebuilds, 0, "nothing was lost");
    }
}

#[test]
fn of_two_writers_the_later_one_wins() {
    let mut stopped = 0;
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut store = Faulty::new(seed, 12, random.one_in(2));
        let mut old = fresh(settings(&mut random), 100);
        for _ in 0..random.below(40) {
            old.change(change(&mut random, 2), store.now_ns).unwrap();
            act(&mut old, &mut store);
        }
        store.faults = 0;
        let (epoch, claimed) = view::claim(&mut store.store, "nat", "a", 200).unwrap();
        let lanes: Vec<Scope> = claimed.iter().map(|one: &Claimed| one.scope.clone()).collect();
        let mut oracle = Memory::default();
        let puts = claimed
            .iter()
            .flat_map(|one| &one.content)
            .map(|(key, content)| Call::new(key, anabranch_store::Operation::Put(content.clone())));
        oracle.run(&puts.collect::<Vec<_>>()).unwrap();
        let mut new = WriteBehind::new(settings(&mut random), epoch, claimed).unwrap();
        for _ in 0..random.below(40) {
            let mine = change(&mut random, 2);
            let theirs = change(&mut random, 2);
            if !lanes.contains(&mine.call().key.scope())
                || !lanes.contains(&theirs.call().key.scope())
            {
                continue;
            }
            oracle.run(&[mine.call().clone()]).unwrap();
            new.change(mine, store.now_ns).unwrap();
            old.change(theirs, store.now_ns).unwrap();
            act(&mut new, &mut store);
            act(&mut old, &mut store);
        }
        settle(&mut new, &mut store);
        // What the store had lost when it was claimed, nobody has claimed.
        let mut last = view::state(&mut store.store, "nat", None).unwrap();
        last.retain(|key, _| lanes.contains(&key.scope()));
        assert_eq!(last, truth(&mut oracle), "ANABRANCH_SEED={seed}");
        if old.is_fenced() {
            stopped += 1;
            let status = old.status(store.now_ns);
            assert!(status.trouble.is_some_and(|why| why.contains("another instance")));
        }
        assert!(!new.is_fenced());
    }
    assert!(seeds().count() == 1 || stopped > 300, "{stopped}");
}

#[test]
fn what_waits_is_bounded_and_lag_is_shown() {
    let mut store = Faulty::new(3, 0, false);
    let settings = Settings { most_waiting: 50, policy: Policy::RefuseNew, ..Settings::default() };
    let mut writer = fresh(settings, 100);
    for names in 0..5_000u32 {
        // Flows come and go; the state is never more than 20 entries.
        let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Map, "x").unwrap();
        let now_ns = u64::from(names) * MS;
        writer
            .change(Change::insert(&key, Entry::Pair(names.to_be_bytes().into(), vec![1])), now_ns)
            .unwrap();
        if let Some(old) = names.checked_sub(20) {
            writer.change(Change::erase(&key, old.to_be_bytes().into()), now_ns).unwrap();
        }
        match writer.next(now_ns) {
            Action::Commit(_) => writer.committed(store.gone(), now_ns),
            Action::List(..) => writer.listed(store.gone(), now_ns),
            Action::Wait(_) => {}
        }
        let status = writer.status(now_ns);
        assert!(status.waiting <= 60, "{status:?}");
        assert_eq!(status.accepts_new, now_ns <= 1_000 * MS, "{status:?}");
        assert_eq!(status.lag_ns, now_ns, "the first change waits still");
    }
    store.now_ns = 5_000 * MS;
    settle(&mut writer, &mut store);
    let status = writer.status(store.now_ns);
    assert!(status.accepts_new && status.lag_max_ns > 4_000 * MS, "{status:?}");
    assert_eq!(truth(&mut store.store).values().next().unwrap().len(), 20);
}

/// More entries come at once than may wait one by one, and while they are stored something changes all the time.
#[test]
fn a_large_state_is_stored_while_it_changes() {
    let mut store = Faulty::new(3, 0, false);
    let settings = Settings { most_waiting: 50, message_changes: 20, ..Settings::default() };
    let mut writer = fresh(settings, 100);
    let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Map, "x").unwrap();
    let insert = |name: u32, value| {
        Change::insert(&key, Entry::Pair(name.to_be_bytes().into(), vec![value]))
    };
    writer.changes((0..1_000).map(|name| insert(name, 1)).collect(), 0).unwrap();
    for ms in 1..=100u64 {
        store.now_ns = ms * MS;
        writer.change(insert(ms as u32, 2), store.now_ns).unwrap();
        match writer.next(store.now_ns) {
            Action::Commit(batches) => {
                let outcomes = store.store.commit(&batches);
                writer.committed(outcomes, store.now_ns);
            }
            other => panic!("{other:?}: it was begun anew"),
        }
    }
    assert!(writer.status(store.now_ns).waiting < 10);
    assert_eq!(truth(&mut store.store).values().next().unwrap().len(), 1_000);
}

#[test]
fn a_store_that_is_gone_is_asked_less_and_less_often() {
    let mut writer = fresh(Settings::default(), 7);
    let mut random = Random::new(1);
    writer.change(change(&mut random, 1), 0).unwrap();
    let (mut now_ns, mut asked) = (0, Vec::new());
    while now_ns < 2_000_000_000 {
        match writer.next(now_ns) {
            Action::Wait(until_ns) => now_ns = until_ns.max(now_ns + 1),
            Action::Commit(_) => {
                asked.push(now_ns);
                writer.committed(Err(Error::unavailable("store", "gone")), now_ns);
            }
            Action::List(..) => panic!("nothing is known to be lost"),
        }
        // As at the end of a run.
        writer.hurry();
    }
    assert!(asked[2] < 10_000_000, "at first soon: {asked:?}");
    assert!((20..40).contains(&asked.len()), "ten times a second in the end: {asked:?}");
    let Action::Commit(batches) = writer.next(now_ns + 200_000_000) else {
        panic!("nothing to send")
    };
    writer.committed(Ok(vec![Outcome::Committed; batches.len()]), now_ns + 200_000_000);
    assert_eq!((writer.waiting(), writer.status(now_ns).trouble), (0, None));
}

/// As of a slot of a cluster that is on its way from node to node, or was forgotten there.
#[test]
fn a_scope_that_is_not_worked_on_delays_no_other_and_is_begun_anew_by_nothing() {
    let mut store = Faulty::new(1, 0, false);
    let mut writer = fresh(Settings::default(), 7);
    let key = |shard| {
        let scope = Scope::new("nat", "a", Place::Shard(shard)).unwrap();
        scope.key(Kind::Counter, "x").unwrap()
    };
    let mut now_ns = 0;
    let mut go_on = |writer: &mut WriteBehind, store: &mut Faulty, refuses: bool| {
        let (mut refused, until_ns) = (0, now_ns + 2_000 * MS);
        while now_ns < until_ns {
            now_ns += MS;
            for shard in 0..2 {
                let change = Change::put(&key(shard), Content::Counter(now_ns as i64));
                writer.change(change, now_ns).unwrap();
            }
            match writer.next(now_ns) {
                Action::Wait(_) => {}
                Action::Commit(batches) => {
                    let commit = |batch: &Batch| {
                        if refuses && batch.mark.scope() == key(0).scope() {
                            refused += 1;
                            return Outcome::Refused(Error::unavailable("simulated", "it moves"));
                        }
                        store.store.commit(std::slice::from_ref(batch)).unwrap().remove(0)
                    };
                    let outcomes = batches.iter().map(commit).collect();
                    writer.committed(Ok(outcomes), now_ns);
                }
                Action::List(scope, _) => panic!("{scope} is not lost"),
            }
        }
        (refused, now_ns)
    };
    go_on(&mut writer, &mut store, false);
    let (refused, now_ns) = go_on(&mut writer, &mut store, true);
    assert!((20..40).contains(&refused), "asked less and less often: {refused}");
    let status = writer.status(now_ns);
    assert!(status.trouble.is_some_and(|why| why.contains("it moves")));
    assert!(status.lag_ns > 1_900 * MS, "{}", status.lag_ns);
    assert_eq!((status.waiting, status.rebuilds, status.failures), (1, 0, 0));
    let late_ns = |store: &mut Faulty, shard, now_ns| match truth(&mut store.store)[&key(shard)] {
        Content::Counter(then_ns) => now_ns - then_ns as u64,
        _ => panic!("a counter"),
    };
    assert!(late_ns(&mut store, 1, now_ns) < 3 * MS, "the other is not late");
    let (refused, now_ns) = go_on(&mut writer, &mut store, false);
    assert_eq!(
        (refused, writer.status(now_ns).trouble, writer.status(now_ns).rebuilds),
        (0, None, 0)
    );
    assert!(late_ns(&mut store, 0, now_ns) < 3 * MS);
}

/// As over a line by which more does not arrive within a timeout.
#[test]
fn what_is_too_much_for_one_message_is_stored_by_several() {
    let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Map, "x").unwrap();
    let mut store = Faulty::new(1, 0, false);
    let mut writer = fresh(Settings::default(), 100);
    // How many messages it takes, and the longest of them, where so many changes fit into one, and are made in a step.
    let mut messages = |fits: usize, in_step: u32| {
        let change = |n: u32| {
            let flow = Entry::Pair(n.to_be_bytes().into(), fits.to_be_bytes().into());
            Change::insert(&key, flow).in_step(n / in_step)
        };
        writer.changes((0..10_000).map(change).collect(), store.now_ns).unwrap();
        let (mut lengths, mut failures) = (Vec::new(), 0);
        while writer.waiting() > 0 {
            match writer.next(store.now_ns) {
                Action::Wait(until) => store.now_ns = until,
                Action::Commit(batches) => {
                    let length = |batch: &Batch| batch.calls.len() + batch.present.len();
                    let length = batches.iter().map(length).sum();
                    let outcomes =
                        if length > fits { store.gone() } else { store.commit(&batches) };
                    failures += usize::from(outcomes.is_err());
                    lengths.push(length);
                    writer.committed(outcomes, store.now_ns);
                }
                Action::List(scope, _) => panic!("{scope} is not lost"),
            }
            assert!(lengths.len() < 1_000, "of {fits} none comes to its end: {lengths:?}");
        }
        assert!(failures <= 12 + lengths.len() / 4, "{failures} of {}", lengths.len());
        (lengths.len(), lengths.into_iter().max().unwrap())
    };
    assert_eq!(messages(10_000, 1), (3, 4_096));
    for in_step in [1, 30, 10_000] {
        let (many, _) = messages(100, in_step);
        assert!(many < 250, "{many} messages for steps of {in_step}");
    }
    let (many, longest) = messages(10_000, 1);
    assert!(many < 80 && longest > 1_000, "it grows again: {many} messages, {longest} in one");
}

/// As where one part of the store is silent, which all are asked for the keys of a scope.
#[test]
fn a_scope_that_cannot_be_listed_keeps_no_other_waiting() {
    let mut store = Faulty::new(1, 0, false);
    let mut writer = fresh(Settings::default(), 7);
    let key = |shard| {
        let scope = Scope::new("nat", "a", Place::Shard(shard)).unwrap();
        scope.key(Kind::Counter, "x").unwrap()
    };
    for shard in 0..3 {
        writer.change(Change::put(&key(shard), Content::Counter(1)), 0).unwrap();
    }
    settle(&mut writer, &mut store);
    let mark = anabranch_store::behind::Mark::key(&key(0).scope()).unwrap();
    store.run(&[Call::new(&mark, anabranch_store::Operation::Delete)]).unwrap();
    let (mut latest_ns, mut lists, began_ns) = (0, 0, store.now_ns);
    let until_ns = began_ns + 20_000 * MS;
    while store.now_ns < until_ns {
        let since_ns = store.now_ns;
        for shard in 0..3 {
            let change = Change::put(&key(shard), Content::Counter(since_ns as i64));
            writer.change(change, since_ns).unwrap();
        }
        match writer.next(store.now_ns) {
            Action::List(..) => {
                // A timeout later.
                store.now_ns += 300 * MS;
                writer.listed(store.gone(), store.now_ns);
                lists += 1;
            }
            Action::Commit(batches) => {
                let outcomes = store.store.commit(&batches);
                writer.committed(outcomes, store.now_ns);
            }
            Action::Wait(_) => {}
        }
        store.now_ns += MS;
        let Content::Counter(stored_ns) = truth(&mut store.store)[&key(1)] else { panic!() };
        latest_ns = latest_ns.max(store.now_ns - began_ns.max(stored_ns as u64));
    }
    assert!((10..40).contains(&lists), "{lists} times");
    assert!(latest_ns < 400 * MS, "{latest_ns}");
    let status = writer.status(store.now_ns);
    assert!(status.trouble.is_some() && status.lag_ns > 19_000 * MS, "{status:?}");
    settle(&mut writer, &mut store);
    assert_eq!(writer.status(store.now_ns).trouble, None);
    assert_eq!(truth(&mut store.store), writer.copy().collect());
}

/// What is found in a store that was emptied says nothing of the one that was there before, and comes back; nor of
/// half a batch, without the mark that would be written last, where there are no transactions.
#[test]
fn what_was_listed_elsewhere_is_not_taken_for_what_is_there() {
    for is_half in [false, true] {
        let mut store = Faulty::new(1, 0, false);
        let mut writer = fresh(Settings { most_waiting: 1, ..Settings::default() }, 7);
        let scope = Scope::new("nat", "a", Place::Shard(0)).unwrap();
        let [x, y] = ["x", "y"].map(|id| scope.key(Kind::Counter, id).unwrap());
        writer.change(Change::put(&x, Content::Counter(1)), 0).unwrap();
        settle(&mut writer, &mut store);
        let mut before = store.all();
        before.retain(|call| call.key == x || !is_half);
        store.become_one(&[]);
        // More than may wait: it is to be found out what is there.
        for gone in [&x, &y] {
            writer.change(Change::delete(gone), store.now_ns).unwrap();
        }
        writer.hurry();
        loop {
            match writer.next(store.now_ns) {
                Action::Wait(until_ns) => store.now_ns = until_ns,
                Action::Commit(batches) => {
                    writer.committed(store.commit(&batches), store.now_ns);
                }
                Action::List(scope, page) => {
                    break writer.listed(view::listing(&mut store, &scope, page), store.now_ns);
                }
            }
        }
        store.become_one(&before);
        settle(&mut writer, &mut store);
        assert_eq!(truth(&mut store.store), State::new(), "half a batch: {is_half}");
    }
}

#[test]
fn many_changes_of_one_entry_are_one() {
    let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Map, "x").unwrap();
    let touch =
        |n: u64| Change::insert(&key, Entry::Pair(b"flow".to_vec(), n.to_be_bytes().into()));
    let mut store = Faulty::new(1, 0, false);
    let mut writer = fresh(Settings { period_ns: 10 * MS, ..Settings::default() }, 100);
    for step in 0..100_000u64 {
        store.now_ns = step * MS / 100;
        writer.change(touch(step), store.now_ns).unwrap();
        if let Action::Commit(batches) = writer.next(store.now_ns) {
            let outcomes = store.store.commit(&batches);
            writer.committed(outcomes, store.now_ns);
        }
    }
    let stored = writer.status(store.now_ns).stored;
    assert!((90..=110).contains(&stored), "{stored} of 100000");
}

/// Flows of three objects that come, change and go, up to 30 in a step. Killed between any two messages,
/// the store has each flow in all objects or in none.
#[test]
fn killed_between_any_two_messages_no_flow_is_half_there() {
    let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
    let objects = ["inside", "mappings", "peers"].map(|id| scope.key(Kind::Map, id).unwrap());
    // Each reads the whole store after every message.
    for seed in seeds().take(100) {
        let mut random = Random::new(seed);
        let mut store = Faulty::new(seed, 0, false);
        // As much as is written in one step, or more.
        let message_changes = 130 + random.below(200) as usize;
        let mut writer = fresh(Settings { message_changes, ..Settings::default() }, 100);
        let (mut next, mut live, mut messages) = (0u32, Vec::new(), 0);
        for turn in 0..20 {
            let mut told = Vec::new();
            // From what is written last to what is written first, and about to start again from 0.
            for step in (0..random.below(20) as u32).rev() {
                let flows = next..next + random.below(30) as u32;
                next = flows.end;
                let step = (u32::MAX - 5).wrapping_add(turn * 20 + 19 - step);
                let tell = |flow: u32, change: &dyn Fn(&Key, Bytes) -> Change| -> Vec<Change> {
                    let one = |key| change(key, flow.to_be_bytes().into()).in_step(step);
                    objects.iter().map(one).collect()
                };
                if let (true, Some(at)) = (random.one_in(2), live.len().checked_sub(1)) {
                    let gone = live.swap_remove(random.below(at as u64 + 1) as usize);
                    told.extend(tell(gone, &|key, name| Change::erase(key, name)));
                }
                for flow in flows {
                    let value = |n: u8| {
                        move |key: &Key, name| Change::insert(key, Entry::Pair(name, vec![n]))
                    };
                    told.extend(tell(flow, &value(1)));
                    live.push(flow);
                    let hot = live[random.below(live.len() as u64) as usize];
                    told.push(value(2)(&objects[0], hot.to_be_bytes().into()).in_step(step));
                }
            }
            // Objects are told one after the other.
            told.sort_by(|a, b| a.call().key.cmp(&b.call().key));
            writer.changes(told, store.now_ns).unwrap();
            for _ in 0..random.below(6) {
                act(&mut writer, &mut store);
                messages += 1;
                let state = truth(&mut store.store);
                let names = objects.each_ref().map(|key| state.get(key).map(names));
                let is_whole = names.iter().all(|one| *one == names[0]);
                assert!(is_whole, "ANABRANCH_SEED={seed}, message {messages}");
            }
        }
    }
}

fn names(content: &Content) -> Vec<Bytes> {
    let Content::Map(entries) = content else { panic!("{content:?}") };
    entries.keys().cloned().collect()
}

/// Somebody deletes an entry of many: all of it is written again, and of what was there still nothing goes meanwhile.
#[test]
fn what_the_store_has_still_stays_while_what_it_lacks_is_written_again() {
    const MANY: usize = 20_000;
    let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
    let (flows, count) =
        (scope.key(Kind::Map, "x").unwrap(), scope.key(Kind::Counter, "n").unwrap());
    let mut store = Faulty::new(1, 0, false);
    let mut writer = fresh(Settings::default(), 7);
    let insert = |n: usize| Change::insert(&flows, Entry::Pair(n.to_be_bytes().into(), vec![1]));
    writer.changes((0..MANY).map(insert).collect(), 0).unwrap();
    writer.change(Change::put(&count, Content::Counter(1)), 0).unwrap();
    settle(&mut writer, &mut store);
    // The one of the object at which it is looked each time is not known: the one of all that is first in turn.
    let gone = anabranch_store::Operation::Erase(0usize.to_be_bytes().into());
    store.run(&[Call::new(&flows, gone)]).unwrap();
    let was_whole = |store: &mut Faulty| truth(&mut store.store)[&flows].len() == MANY;
    let mut messages = 0;
    while writer.status(0).rebuilds == 0 || !was_whole(&mut store) {
        let is_anew = writer.status(0).rebuilds > 0;
        // It is slow then.
        store.now_ns += if is_anew { 5_000 * MS } else { 100 * MS };
        messages += 1;
        assert!(messages < 200_000, "it is never noticed");
        let batches = match writer.next(store.now_ns) {
            Action::Commit(batches) => batches,
            Action::Wait(_) => continue,
            Action::List(scope, page) => {
                writer.listed(view::listing(&mut store, &scope, page), store.now_ns);
                continue;
            }
        };
        let of_delete = |call: &&Call| call.operation == anabranch_store::Operation::Delete;
        let deletes = batches.iter().flat_map(|batch| &batch.calls).find(of_delete);
        assert_eq!(deletes, None);
        let looks = batches.iter().any(|batch| !batch.present.is_empty());
        assert!(!(is_anew && looks), "it would begin anew");
        let outcomes = store.store.commit(&batches);
        writer.committed(outcomes, store.now_ns);
        if batches.iter().any(|batch| !batch.calls.is_empty()) {
            assert!(truth(&mut store.store)[&flows].len() >= MANY - 1);
        }
    }
    settle(&mut writer, &mut store);
    assert_eq!(writer.status(store.now_ns).rebuilds, 1);
    assert_eq!(truth(&mut store.store), writer.copy().collect());
}

/// Somebody deletes the mark, and nothing else; or an older mark is put back. Killed after any message, the store has
/// what it had: nothing goes but what is not true.
#[test]
fn what_the_store_has_stays_when_its_mark_is_lost() {
    use anabranch_store::Operation;
    let scope = Scope::new("nat", "a", Place::Shard(0)).unwrap();
    let mark = anabranch_store::behind::Mark::key(&scope).unwrap();
    for older in [None, Some(Content::Value(b"1 7 1".to_vec()))] {
        let mut store = Faulty::new(1, 0, false);
        let settings = Settings { message_changes: 3, ..Settings::default() };
        let mut writer = fresh(settings, 7);
        let mut random = Random::new(5);
        for kind in Kind::ALL {
            let mut content = content(&mut random, kind);
            (0..6).for_each(|_| _ = content.insert(entry(&mut random, kind)));
            writer.change(Change::put(&scope.key(kind, "x").unwrap(), content), 0).unwrap();
        }
        settle(&mut writer, &mut store);
        let expected: State = writer.copy().collect();
        assert_eq!(expected.len(), 6);
        let lost = older.map_or(Operation::Delete, Operation::Put);
        let [flows, other] = ["x", "y"].map(|id| scope.key(Kind::Map, id).unwrap());
        let stale = |key| Call::new(key, Operation::Insert(Entry::Pair(vec![99], vec![1])));
        store.run(&[Call::new(&mark, lost), stale(&flows), stale(&other)]).unwrap();
        let until_ns = store.now_ns + 5_000 * MS;
        while store.now_ns < until_ns {
            store.now_ns += MS;
            act(&mut writer, &mut store);
            let mut now = truth(&mut store.store);
            now.remove(&other);
            if let Some(Content::Map(entries)) = now.get_mut(&flows) {
                entries.remove(&vec![99]);
            }
            assert_eq!(now, expected, "{:?}", writer.status(store.now_ns));
        }
        assert_eq!(truth(&mut store.store), expected);
        let status = writer.status(store.now_ns);
        assert_eq!((status.rebuilds, status.waiting), (1, 0));
        assert!(status.stored < 2 * 6 * 7, "what is there is not written again: {status:?}");
    }
}

/// As a server that evicts keys all the time, or on which somebody has given them an end; and one that does not let it
/// be looked.
#[test]
fn what_lacks_again_and_again_is_looked_at_less_and_less_often() {
    let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
    let (flows, count) =
        (scope.key(Kind::Map, "x").unwrap(), scope.key(Kind::Counter, "n").unwrap());
    for is_refused in [false, true] {
        let mut store = Faulty::new(1, 0, false);
        let mut writer = fresh(Settings::default(), 7);
        let mut looks_until = |writer: &mut WriteBehind, until_ns: u64, is_well: bool| {
            let mut looks = 0;
            while store.now_ns < until_ns {
                store.now_ns += 10 * MS;
                let change = Change::put(&count, Content::Counter(store.now_ns as i64));
                writer.change(change, store.now_ns).unwrap();
                let batches = match writer.next(store.now_ns) {
                    Action::Commit(batches) => batches,
                    Action::Wait(_) => continue,
                    Action::List(scope, page) => {
                        writer.listed(view::listing(&mut store.store, &scope, page), store.now_ns);
                        continue;
                    }
                };
                let looked = batches.iter().any(|batch| !batch.present.is_empty());
                looks += u32::from(looked);
                let refused = Outcome::Refused(Error::unavailable("simulated", "no HGET"));
                let outcomes = match looked && is_refused && !is_well {
                    true => Ok(vec![refused; batches.len()]),
                    false => store.store.commit(&batches),
                };
                writer.committed(outcomes, store.now_ns);
                if !is_well && !is_refused {
                    let gone = anabranch_store::Operation::Delete;
                    store.store.run(&[Call::new(&flows, gone)]).unwrap();
                }
            }
            looks
        };
        let flow = Entry::Pair(vec![1], vec![1]);
        writer.change(Change::insert(&flows, flow), 0).unwrap();
        looks_until(&mut writer, 1_000 * MS, true);
        let looks = looks_until(&mut writer, 121_000 * MS, false);
        assert!((5..12).contains(&looks), "{looks} in two minutes; refused: {is_refused}");
        let looks = looks_until(&mut writer, 421_000 * MS, true);
        assert!(looks > 120, "{looks} once all is well; refused: {is_refused}");
    }
}

/// All at once would be a message like no other, once a second.
#[test]
fn scopes_are_looked_at_one_after_the_other_and_looks_count_in_a_message() {
    const SCOPES: usize = 512;
    let mut store = Faulty::new(1, 0, false);
    let settings = Settings { message_changes: 64, ..Settings::default() };
    let mut writer = fresh(settings, 7);
    for shard in 0..SCOPES {
        let scope = Scope::new("nat", "a", Place::Shard(shard as u16)).unwrap();
        let map = scope.key(Kind::Map, "x").unwrap();
        let flows = (0..20u8).map(|flow| Change::insert(&map, Entry::Pair(vec![flow], vec![1])));
        writer.changes(flows.collect(), 0).unwrap();
    }
    let (mut most, mut looked) = ([0; 2], 0);
    while store.now_ns < 5_000 * MS {
        store.now_ns += MS;
        let Action::Commit(batches) = writer.next(store.now_ns) else { continue };
        let looks = |batch: &Batch| batch.present.len();
        let scopes = batches.iter().filter(|batch| looks(batch) > 0).count();
        let length: usize = batches.iter().map(|batch| batch.calls.len() + looks(batch)).sum();
        most = [most[0].max(scopes), most[1].max(length)];
        looked += scopes;
        let outcomes = store.store.commit(&batches);
        writer.committed(outcomes, store.now_ns);
    }
    assert!((3 * SCOPES..6 * SCOPES).contains(&looked), "{looked} looks");
    // A step is as long as its twenty changes.
    assert!(most[0] < 16 && most[1] < 64 + 25, "{most:?} scopes and calls in a message");
}
