//! A cluster whose hash slots move from node to node while it is asked: nothing is lost, and no worker waits.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anabranch_store::{
    Batch, Call, Content, Driver, Entry, Key, Kind, Operation, Outcome, Place, Reply, Scope,
};

use crate::failing::{Outcome as Ended, run, settings};
use crate::server::{Cluster, Server, available, until};
use crate::{by_socket, count, driver};
use anabranch_store::redis::Redis;

/// Longest that all that waits at the end may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The slot of a scope on its way from one master to another.
struct Move<'a> {
    slot: String,
    from: &'a Server,
    to: &'a Server,
}

impl<'a> Move<'a> {
    /// From now on the keys of a scope may lie at the `from`th master or the `to`th.
    fn begin(cluster: &'a Cluster, scope: &str, from: usize, to: usize) -> Self {
        let (from, to) = (&cluster.masters[from], &cluster.masters[to]);
        let slot = from.ask::<u64>(&["CLUSTER", "KEYSLOT", &format!("{{{scope}}}")]).to_string();
        to.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        from.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
        Self { slot, from, to }
    }

    /// Some keys that have not moved.
    fn left(&self) -> Vec<String> {
        self.from.ask(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"])
    }

    fn carry(&self, keys: &[String]) {
        let port = self.to.port.to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        self.from.ask::<()>(&words);
    }

    fn carry_all(&self) {
        loop {
            match &self.left()[..] {
                [] => return,
                keys => self.carry(keys),
            }
        }
    }

    /// The rest moves too, and the slot is the other master's; third parties hear of it later.
    fn end(self) {
        self.carry_all();
        for one in [self.to, self.from] {
            one.ask::<()>(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id(self.to)]);
        }
    }
}

fn id(one: &Server) -> String {
    one.ask(&["CLUSTER", "MYID"])
}

/// Which master has the slot of a scope in a cluster that was just started.
fn owner(cluster: &Cluster, scope: &str) -> usize {
    let slot: u64 = cluster.masters[0].ask(&["CLUSTER", "KEYSLOT", &format!("{{{scope}}}")]);
    [5_460, 10_922].iter().filter(|last| slot > **last).count()
}

fn errors(cluster: &Cluster, code: &str) -> u64 {
    cluster.masters.iter().map(|one| one.errors(code)).sum()
}

/// Waits until the nodes have answered so a few times more.
fn until_answered(cluster: &Cluster, code: &str) {
    let before = errors(cluster, code);
    until(code, || errors(cluster, code) > before + 2);
}

#[test]
fn slots_that_move_delay_nobody() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(false);
    // Nothing fails, however busy the machine is.
    let address = cluster.address().replace("timeout_ms=500", "timeout_ms=10000");
    let Ended { status, worst, .. } = run(
        || driver(&address),
        (settings(), PATIENCE),
        || {
            for scope in ["nat@edge@0", "nat@edge@1"] {
                let from = owner(&cluster, scope);
                let map = format!("{{{scope}}}@map@flows");
                until("it is written", || cluster.masters[from].ask::<u64>(&["EXISTS", &map]) == 1);
                let moving = Move::begin(&cluster, scope, from, (from + 1) % 3);
                // What is written has keys on both nodes.
                moving.carry(&[map]);
                until_answered(&cluster, "TRYAGAIN");
                thread::sleep(Duration::from_millis(300));
                moving.carry_all();
                until_answered(&cluster, "ASK");
                let moved = errors(&cluster, "MOVED");
                moving.end();
                until("MOVED", || errors(&cluster, "MOVED") > moved);
            }
        },
    );
    assert_eq!((status.failures, status.rebuilds), (0, 0), "{status:?} {worst:?}");
    assert!(worst.lag_ns > 250_000_000, "{worst:?}");
    assert!(worst.trouble.is_some_and(|why| why.contains("TRYAGAIN")));
}

/// The object `id` of a shard.
fn object(kind: Kind, shard: u16, id: &str) -> Key {
    Scope::new("nat", "edge", Place::Shard(shard)).unwrap().key(kind, id).unwrap()
}

/// To a node that had no slot until now, as one has that was added because the others are full.
#[test]
fn keys_of_a_slot_that_moves_are_found_on_either_node() {
    if !available() {
        return;
    }
    let mut cluster = Cluster::start(false);
    cluster.add_master();
    let mut driver = driver(&cluster.address());
    let keys: BTreeSet<Key> = (0..300).map(|n| object(Kind::Counter, 1, &n.to_string())).collect();
    let of = |keys: &BTreeSet<Key>, operation: Operation| -> Vec<Call> {
        keys.iter().map(|key| Call::new(key, operation.clone())).collect()
    };
    let mut all = |calls: &[Call], answer: &Reply| {
        let answers = driver.run(calls).unwrap();
        assert!(answers.iter().all(|one| one.as_ref() == Ok(answer)), "{answers:?}");
        // Those who are asked where keys are have to be told of all of them, and not of half.
        let listed: BTreeSet<Key> = driver.keys("nat@edge@s1@").unwrap().into_iter().collect();
        assert!(listed == keys, "{} keys are listed", listed.len());
    };
    all(&of(&keys, count(1)), &Reply::Done);
    let from = owner(&cluster, "nat@edge@s1");
    let moving = Move::begin(&cluster, "nat@edge@s1", from, 3);
    moving.carry(&moving.left());
    moving.carry(&moving.left()[..60]);
    let before = (moving.from.errors("ASK"), moving.to.number("stats", "total_reads_processed"));
    let number = Reply::Content(Some(Content::Counter(1)));
    all(&of(&keys, Operation::Read), &number);
    assert_eq!(moving.from.errors("ASK") - before.0, 160);
    // Together and not one by one.
    let reads = moving.to.number("stats", "total_reads_processed") - before.1;
    assert!(reads < 50, "{reads} reads");
    all(&of(&keys, Operation::Add(1)), &Reply::Number(2));
    moving.carry_all();
    all(&of(&keys, Operation::Add(1)), &Reply::Number(3));
    let moved = errors(&cluster, "MOVED");
    moving.end();
    all(&of(&keys, Operation::Add(1)), &Reply::Number(4));
    assert!(errors(&cluster, "MOVED") > moved);
}

/// Who writes a scope that stays, shard 2, and one that moves, shard 1, with their marks.
struct Writer {
    driver: Redis,
    marks: [u8; 2],
}

impl Writer {
    fn batch(&mut self, number: usize, shard: u16, calls: &[Call]) -> Batch {
        let expected = Some(vec![self.marks[number]]).filter(|mark| *mark != [0]);
        self.marks[number] += 1;
        let mark = object(Kind::Value, shard, "mark");
        let (next, present, calls) = (vec![self.marks[number]], Vec::new(), calls.to_vec());
        Batch { mark, expected, next, present, calls }
    }

    /// A batch of each scope: whether that of the one that moves is carried out, as the other is in any case.
    fn commits(&mut self, calls: &[Call]) -> bool {
        let other = Call::new(&object(Kind::Counter, 2, "a"), count(7));
        let batches = [self.batch(0, 2, &[other]), self.batch(1, 1, calls)];
        let [other, outcome] = self.driver.commit(&batches).unwrap().try_into().unwrap();
        assert_eq!(other, Outcome::Committed);
        if let Outcome::Refused(error) = outcome {
            self.marks[1] -= 1;
            assert!(error.is_unavailable() && error.to_string().contains("TRYAGAIN"), "{error}");
            assert!(error.to_string().contains("redis-cli --cluster fix"), "{error}");
            return false;
        }
        assert_eq!(outcome, Outcome::Committed);
        true
    }

    fn holds(&mut self, a: i64, map: &Content) {
        let held = [object(Kind::Counter, 1, "a"), object(Kind::Map, 1, "m")]
            .map(|key| self.driver.run(&[Call::new(&key, Operation::Read)]).unwrap().remove(0));
        let content = |content| Ok(Reply::Content(Some(content)));
        assert_eq!(held, [content(Content::Counter(a)), content(map.clone())]);
    }
}

fn put(id: &str, to: i64) -> Call {
    Call::new(&object(Kind::Counter, 1, id), count(to))
}

fn in_map(operation: Operation) -> Call {
    Call::new(&object(Kind::Map, 1, "m"), operation)
}

fn erase(n: u8) -> Call {
    in_map(Operation::Erase(vec![n]))
}

fn insert(n: u8) -> Call {
    in_map(Operation::Insert(Entry::Pair(vec![n], vec![n])))
}

fn map(entries: &[u8]) -> Content {
    Content::Map(entries.iter().map(|n| (vec![*n], vec![*n])).collect())
}

/// A map that has had no entry for a moment, though it is where it was, could not be gone on with.
#[test]
fn what_would_be_done_by_halves_while_a_slot_moves_is_not_begun() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(false);
    let mut writer = Writer { driver: driver(&cluster.address()), marks: [0, 0] };
    assert!(writer.commits(&[put("a", 1), put("b", 1), insert(1)]));
    let from = owner(&cluster, "nat@edge@s1");
    let moving = Move::begin(&cluster, "nat@edge@s1", from, (from + 1) % 3);
    assert!(writer.commits(&[put("a", 2), put("b", 2), insert(2)]), "it stays as it is");
    for calls in [
        vec![put("a", 3), erase(1), erase(2), insert(3)],
        vec![put("a", 3), in_map(Operation::Put(map(&[]))), insert(3)],
        vec![put("a", 3), in_map(Operation::Put(map(&[3])))],
        vec![put("a", 3), in_map(Operation::Delete), insert(3)],
    ] {
        assert!(!writer.commits(&calls));
    }
    for replace in [Operation::Put(map(&[3])), Operation::Update(map(&[3]))] {
        let late = writer.driver.run(&[in_map(replace)]).unwrap().remove(0).unwrap_err();
        assert!(late.is_unavailable() && late.to_string().contains("TRYAGAIN"), "{late}");
    }
    writer.holds(2, &map(&[1, 2]));
    moving.end();
    assert!(writer.commits(&[put("a", 3), erase(1), erase(2), insert(3)]));
    writer.holds(3, &map(&[3]));
}

#[test]
fn a_batch_whose_keys_are_not_together_is_not_begun_and_others_are_carried_out() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(false);
    let mut writer = Writer { driver: driver(&cluster.address()), marks: [0, 0] };
    assert!(writer.commits(&[put("a", 1), put("b", 1), insert(1), insert(2)]));
    let from = owner(&cluster, "nat@edge@s1");
    let moving = Move::begin(&cluster, "nat@edge@s1", from, (from + 1) % 3);
    // One there, the others here.
    moving.carry(&["{nat@edge@s1}@counter@a".to_owned()]);
    assert!(!writer.commits(&[put("a", 2), put("b", 2)]));
    // All there, and one nowhere: one node sends it on, and the other says that it is not all there.
    moving.carry_all();
    let asked = moving.from.errors("ASK");
    assert!(!writer.commits(&[put("a", 2), put("c", 2)]));
    assert!(moving.from.errors("ASK") > asked && moving.to.errors("TRYAGAIN") > 0);
    writer.holds(1, &map(&[1, 2]));
    assert!(writer.commits(&[put("a", 2), put("b", 2)]));
    // A call waits for what a batch does not, and what is asked after it comes after it.
    let whole = || in_map(Operation::Put(map(&[1, 2])));
    let tried = errors(&cluster, "TRYAGAIN");
    let mut patient = driver(&cluster.address().replace("timeout_ms=500", "timeout_ms=10000"));
    thread::scope(|threads| {
        threads.spawn(|| {
            until("it waits", || errors(&cluster, "TRYAGAIN") > tried);
            moving.end();
        });
        let was = Ok(Reply::Was(true));
        let answers = [Ok(Reply::Done), was.clone(), Ok(Reply::Done), was];
        let calls = [whole(), erase(1), whole(), erase(2)];
        assert_eq!(patient.run(&calls), Ok(answers.to_vec()));
    });
    writer.holds(2, &map(&[1]));
    assert!(writer.commits(&[put("c", 3), erase(1), insert(3)]));
}

/// From the node that is asked last to the one that is asked first and has been.
#[test]
fn keys_that_move_while_they_are_listed_are_all_listed() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(false);
    let mut driver = driver(&cluster.address());
    let mut nodes: Vec<usize> = (0..3).collect();
    nodes.sort_by_key(|number| cluster.masters[*number].node());
    let (first, last) = (nodes[0], nodes[2]);
    let shard = (0..).find(|n| owner(&cluster, &format!("nat@edge@s{n}")) == last).unwrap();
    let keys: BTreeSet<Key> =
        (0..400).map(|n| object(Kind::Counter, shard, &n.to_string())).collect();
    let calls: Vec<Call> = keys.iter().map(|key| Call::new(key, count(1))).collect();
    driver.run(&calls).unwrap();
    thread::scope(|threads| {
        let moves = threads.spawn(|| {
            let moving = Move::begin(&cluster, &format!("nat@edge@s{shard}"), last, first);
            while let Some(key) = moving.left().pop() {
                moving.carry(&[key]);
            }
            moving.end();
        });
        let mut lists = 0;
        while !moves.is_finished() {
            let listed: BTreeSet<Key> = driver.keys("nat@edge@").unwrap().into_iter().collect();
            assert!(listed == keys, "{} keys are listed", listed.len());
            lists += 1;
        }
        moves.join().unwrap();
        assert!(lists > 5, "{lists} lists while keys moved");
    });
}

/// Reads a map in pages, and after the first ones something happens to who has it.
fn in_pages(
    driver: &mut impl Driver,
    map: &Key,
    then: impl FnOnce(),
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut found, mut cursor, mut then) = (BTreeMap::new(), Some(Vec::new()), Some(then));
    while let Some(at) = cursor {
        let page = Call::new(map, Operation::Iterate { cursor: at, limit: 100 });
        match driver.run(&[page]).unwrap().remove(0).unwrap() {
            Reply::Page(entries, next) => {
                for entry in entries {
                    let Entry::Pair(key, value) = entry else { panic!("{entry:?}") };
                    found.insert(key, value);
                }
                cursor = next;
            }
            other => panic!("{other:?}"),
        }
        if found.len() > 1_000 {
            then.take().into_iter().for_each(|then| then());
        }
    }
    assert!(then.is_none(), "it is as large as that");
    found
}

/// What a server says of where it was in a table means nothing to another, nor to itself when it is started again.
#[test]
fn a_large_map_is_read_whole_though_another_server_goes_on_in_the_middle() {
    if !available() {
        return;
    }
    let entries = (0..4_000u32).map(|n| (n.to_be_bytes().to_vec(), b"v".to_vec()));
    let content: BTreeMap<Vec<u8>, Vec<u8>> = entries.collect();
    let map = object(Kind::Map, 1, "flows");
    let put = [Call::new(&map, Operation::Put(Content::Map(content.clone())))];
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut alone = driver(&by_socket(&server));
    alone.run(&put).unwrap();
    assert!(in_pages(&mut alone, &map, || server.restart()) == content, "started again");
    let cluster = Cluster::start(false);
    let mut driver = driver(&cluster.address());
    driver.run(&put).unwrap();
    let from = owner(&cluster, "nat@edge@s1");
    let begun = Move::begin(&cluster, "nat@edge@s1", from, (from + 1) % 3);
    assert!(in_pages(&mut driver, &map, || begun.carry_all()) == content, "on its way");
    // While all of it is asked of who does not have the slot yet.
    assert!(in_pages(&mut driver, &map, || ()) == content, "there");
    begun.end();
    let back = || Move::begin(&cluster, "nat@edge@s1", (from + 1) % 3, from).end();
    assert!(in_pages(&mut driver, &map, back) == content, "moved");
}
