//! Typed calls come out as they went in, blocking or not, and what fails is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::call::{End, LIMITS};
use crate::content::{Bytes, Entry};
use crate::{Memory, Place};

fn scope() -> Scope {
    Scope::new("nf", "i", Place::Instance).unwrap()
}

fn client() -> Client {
    Client::new(Memory::default(), scope(), 1024)
}

fn bytes(text: &str) -> Bytes {
    text.as_bytes().to_vec()
}

#[test]
fn every_type_is_made_read_put_and_deleted() {
    let client = client();
    macro_rules! goes_round {
        ($object:ident, $first:expr, $second:expr) => {
            let object = client.$object("x").unwrap();
            let (first, second) = ($first, $second);
            let key = object.key().clone();
            assert_eq!(object.read(), Ok(None));
            assert_eq!(object.update(first.clone()), Err(Error::Missing(key.clone())));
            assert_eq!(object.create(first.clone()), Ok(()));
            assert_eq!(object.create(second.clone()), Err(Error::Exists(key)));
            assert_eq!(object.read(), Ok(Some(first)));
            assert_eq!(object.update(second.clone()), Ok(()));
            assert_eq!(object.read(), Ok(Some(second.clone())));
            assert_eq!(object.delete(), Ok(true));
            assert_eq!(object.delete(), Ok(false));
            assert_eq!(object.put(second.clone()), Ok(()));
            assert_eq!(object.read(), Ok(Some(second)));
        };
    }
    let (a, b) = (bytes("a"), bytes("b"));
    goes_round!(value, a.clone(), b.clone());
    goes_round!(counter, -3, i64::MAX);
    goes_round!(list, vec![b.clone(), a.clone(), b.clone()], vec![a.clone()]);
    goes_round!(set, BTreeSet::from([a.clone(), b.clone()]), BTreeSet::from([b.clone()]));
    goes_round!(
        map,
        BTreeMap::from([(a.clone(), b.clone())]),
        BTreeMap::from([(b.clone(), a.clone())])
    );
    goes_round!(counter_map, BTreeMap::from([(a.clone(), 5)]), BTreeMap::from([(b.clone(), -5)]));
}

#[test]
fn values_are_compared_and_end() {
    let client = client();
    let value = client.value("v").unwrap();
    assert_eq!(value.compare_and_update(None, bytes("a"), None), Ok(true));
    assert_eq!(value.compare_and_update(None, bytes("b"), None), Ok(false));
    assert_eq!(value.time_left(), Ok(None));
    assert_eq!(value.compare_and_update(Some(bytes("a")), bytes("b"), Some(60_000)), Ok(true));
    assert!(value.time_left().unwrap().is_some_and(|left| (1..=60_000).contains(&left)));
    assert_eq!(value.arm(bytes("c"), 1), Ok(()));
    while value.read().unwrap().is_some() {
        thread::yield_now();
    }
}

#[test]
fn lists_are_taken_from_both_ends() {
    let client = client();
    let list = client.list("l").unwrap();
    assert_eq!(list.push(End::Back, bytes("b")), Ok(1));
    assert_eq!(list.push(End::Back, bytes("c")), Ok(2));
    assert_eq!(list.push(End::Front, bytes("a")), Ok(3));
    assert_eq!(list.size(), Ok(3));
    assert_eq!(list.read(), Ok(Some(vec![bytes("a"), bytes("b"), bytes("c")])));
    assert_eq!(list.pop(End::Back), Ok(Some(bytes("c"))));
    assert_eq!(list.pop(End::Front), Ok(Some(bytes("a"))));
    assert_eq!(list.pop(End::Front), Ok(Some(bytes("b"))));
    assert_eq!(list.pop(End::Front), Ok(None));
    assert_eq!(list.read(), Ok(None), "no list is without elements");
}

#[test]
fn sets_hold_each_member_once() {
    let client = client();
    let set = client.set("s").unwrap();
    assert_eq!(set.insert(bytes("a")), Ok(false));
    assert_eq!(set.insert(bytes("a")), Ok(true));
    assert_eq!((set.contains(bytes("a")), set.contains(bytes("b"))), (Ok(true), Ok(false)));
    assert_eq!(set.size(), Ok(1));
    assert_eq!(set.erase(bytes("a")), Ok(true));
    assert_eq!(set.erase(bytes("a")), Ok(false));
    assert_eq!(set.size(), Ok(0));
}

#[test]
fn maps_are_compared_under_a_key() {
    let client = client();
    let map = client.map("m").unwrap();
    assert_eq!(map.insert(bytes("k"), bytes("1")), Ok(false));
    assert_eq!(map.insert(bytes("k"), bytes("2")), Ok(true));
    assert_eq!(map.find(bytes("k")), Ok(Some(bytes("2"))));
    assert_eq!(map.find(bytes("other")), Ok(None));
    assert_eq!(map.compare_and_insert(bytes("k"), Some(bytes("1")), bytes("3")), Ok(false));
    assert_eq!(map.compare_and_insert(bytes("k"), Some(bytes("2")), bytes("3")), Ok(true));
    assert_eq!(map.compare_and_insert(bytes("k"), None, bytes("4")), Ok(false));
    assert_eq!(map.compare_and_insert(bytes("l"), None, bytes("4")), Ok(true));
    let both = [(bytes("k"), bytes("3")), (bytes("l"), bytes("4"))];
    assert_eq!(map.read(), Ok(Some(both.into())));
    assert_eq!((map.contains(bytes("l")), map.size()), (Ok(true), Ok(2)));
    assert_eq!((map.erase(bytes("l")), map.erase(bytes("l"))), (Ok(true), Ok(false)));
}

#[test]
fn counter_maps_count_under_a_key() {
    let client = client();
    let counts = client.counter_map("c").unwrap();
    assert_eq!(counts.add_to(bytes("k"), 4), Ok(4));
    assert_eq!(counts.add_to(bytes("k"), -5), Ok(-1));
    assert_eq!(counts.insert(bytes("k"), i64::MAX), Ok(true));
    assert_eq!(counts.add_to(bytes("k"), 1), Err(Error::OutOfRange(counts.key().clone())));
    assert_eq!(counts.find(bytes("k")), Ok(Some(i64::MAX)));
    assert_eq!(counts.find(bytes("other")), Ok(None));
    assert_eq!((counts.contains(bytes("k")), counts.size()), (Ok(true), Ok(1)));
    assert_eq!((counts.erase(bytes("k")), counts.read()), (Ok(true), Ok(None)));
}

#[test]
fn every_entry_is_gone_through_whatever_the_page() {
    let client = client();
    let numbers = 0..50u8;
    let pairs: BTreeMap<Bytes, Bytes> = numbers.clone().map(|n| (vec![n], vec![n, n])).collect();
    let map = client.map("m").unwrap();
    map.put(pairs.clone()).unwrap();
    let list = client.list("l").unwrap();
    list.put(numbers.clone().rev().map(|n| vec![n % 3]).collect()).unwrap();
    for page in [1, 7, 50, 1_000] {
        let mut entries = map.iterate(page).collect::<Result<Vec<_>, _>>().unwrap();
        entries.sort();
        let expected = pairs.clone().into_iter().map(|(key, value)| Entry::Pair(key, value));
        assert_eq!(entries, expected.collect::<Vec<_>>(), "pages of {page}");
        let elements = list.iterate(page).collect::<Result<Vec<_>, _>>().unwrap();
        let expected = numbers.clone().rev().map(|n| Entry::Member(vec![n % 3]));
        assert_eq!(elements, expected.collect::<Vec<_>>(), "pages of {page}");
    }
    assert_eq!(client.set("none").unwrap().iterate(7).count(), 0);
}

#[test]
fn what_nobody_waits_for_is_done_in_order_and_failures_are_counted() {
    let client = client();
    assert_eq!(client.failures(), (0, None));
    let no_wait = client.no_wait();
    let (list, told) = (client.list("l").unwrap(), no_wait.list("l").unwrap());
    (0..100).for_each(|n| told.push(End::Back, vec![n]).unwrap());
    assert_eq!(list.read(), Ok(Some((0..100).map(|n| vec![n]).collect())));
    assert_eq!(client.failures(), (0, None));

    told.create(vec![bytes("again")]).unwrap();
    no_wait.counter("none").unwrap().update(1).unwrap();
    assert_eq!(list.size(), Ok(100), "answered after them");
    let missing = Error::Missing(client.counter("none").unwrap().key().clone());
    assert_eq!(no_wait.clone().failures(), (2, Some(missing)));
}

#[test]
fn what_can_never_be_done_is_told_at_once() {
    let client = client();
    let (limit, bytes) = (LIMITS.value_bytes, LIMITS.value_bytes + 1);
    let long = client.no_wait().value("v").unwrap().put(vec![0; bytes]);
    assert_eq!(long, Err(Error::TooLong { what: "a value", bytes, limit }));
    assert!(matches!(client.map("").err(), Some(Error::BadKey { .. })));
    assert_eq!(client.value("v").unwrap().read(), Ok(None));
    assert_eq!(client.failures(), (0, None), "it was not under way");
}

/// A store that is silent while there is a gate, and then does not answer.
struct Silent(Receiver<()>);

impl Driver for Silent {
    fn name(&self) -> &str {
        "silent"
    }
    fn run(&mut self, _: &[Call]) -> Result<Vec<Answer>, Error> {
        let _ = self.0.recv();
        Err(Error::unavailable("silent", "the gate is gone"))
    }
    fn keys(&mut self, _: &str) -> Result<Vec<Key>, Error> {
        Ok(Vec::new())
    }
}

#[test]
fn no_more_wait_than_may_and_each_that_could_not_be_done_is_counted() {
    let (open, gate) = channel();
    let client = Client::new(Silent(gate), scope(), 4);
    let told = client.no_wait();
    let told = told.counter("c").unwrap();
    let mut under_way = 0;
    let full = loop {
        match told.add(1) {
            Ok(()) => under_way += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, Error::Backlog { limit: 4 });
    assert!(under_way >= 4, "{under_way}");
    assert_eq!(client.failures(), (0, None), "who made the call knows");
    // What was under way is lost; each call of it counts.
    drop(open);
    let lost = client.counter("c").unwrap().read().unwrap_err();
    assert!(lost.is_unavailable(), "{lost}");
    assert_eq!(client.failures(), (under_way, Some(lost)));
}
