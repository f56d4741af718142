//! What sequences do not reach: pages of large collections, batches and their marks, values that end.

use std::thread;
use std::time::Duration;

use super::{Failure, ask, equal};
use crate::call::{Call, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Batch, Driver, Outcome};
use crate::key::{Key, Place, Scope};

pub(super) fn check(driver: &mut dyn Driver, ends_ms: u64) -> Result<(), Failure> {
    let scope = Scope::new("conformance", "examples", Place::Shard(7))?;
    if driver.run(&[])?.len() + driver.commit(&[])?.len() > 0 {
        return Err(Failure("answers to no calls at all".to_string()));
    }
    large_collections_come_in_pages(driver, &scope)?;
    what_is_armed_ends(driver, &scope, ends_ms)?;
    batches_take_effect_by_their_marks(driver, &scope)?;
    batches_take_effect_where_nothing_is_lost(driver, &scope)
}

fn large_collections_come_in_pages(driver: &mut dyn Driver, scope: &Scope) -> Result<(), Failure> {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_collection()) {
        let Some(mut content) = Content::empty(kind) else { continue };
        for number in 0..3_000u32 {
            let key = number.to_be_bytes().to_vec();
            content.insert(match kind {
                Kind::Map => Entry::Pair(key.clone(), key),
                Kind::CounterMap => Entry::Count(key, i64::from(number)),
                _ => Entry::Member(key),
            });
        }
        let key = scope.key(kind, "large")?;
        let put = ask(driver, &key, Operation::Put(content.clone()))?;
        equal("put of a large collection", put, Reply::Done)?;
        let read = ask(driver, &key, Operation::Read)?;
        equal("read of a large collection", read, Reply::Content(Some(content.clone())))?;
        for limit in [1_000, 7, 100_000] {
            let mut entries = pages(driver, &key, limit)?;
            if kind != Kind::List {
                entries.sort();
                entries.dedup();
            }
            equal(&format!("pages of {limit} of a {kind}"), entries, content.entries())?;
        }
        ask(driver, &key, Operation::Delete)?;
        equal("pages of nothing", pages(driver, &key, 10)?, Vec::new())?;
    }
    Ok(())
}

fn pages(driver: &mut dyn Driver, key: &Key, limit: u32) -> Result<Vec<Entry>, Failure> {
    let (mut all, mut cursor) = (Vec::new(), Bytes::new());
    loop {
        match ask(driver, key, Operation::Iterate { cursor, limit })? {
            Reply::Page(entries, next) => {
                all.extend(entries);
                match next {
                    Some(next) => cursor = next,
                    None => return Ok(all),
                }
            }
            other => return Err(Failure(format!("a page is {other:?}"))),
        }
        if all.len() > 100_000 {
            return Err(Failure(format!("the pages of `{key}` have no end")));
        }
    }
}

fn what_is_armed_ends(driver: &mut dyn Driver, scope: &Scope, ends_ms: u64) -> Result<(), Failure> {
    let key = |id: &str| scope.key(Kind::Value, id);
    let keys = [key("armed")?, key("compared")?, key("kept")?, key("compared, kept")?];
    let ttl_ms = Some(ends_ms);
    let to_end = |from: Option<&[u8]>, ttl_ms| Operation::CompareAndUpdate {
        from: from.map(<[u8]>::to_vec),
        to: b"b".to_vec(),
        ttl_ms,
    };
    ask(driver, &keys[0], Operation::Arm(b"a".to_vec(), ends_ms))?;
    equal("compared", ask(driver, &keys[1], to_end(None, ttl_ms))?, Reply::Was(true))?;
    ask(driver, &keys[2], Operation::Arm(b"a".to_vec(), ends_ms))?;
    ask(driver, &keys[2], Operation::Update(Content::Value(b"c".to_vec())))?;
    ask(driver, &keys[3], Operation::Arm(b"a".to_vec(), ends_ms))?;
    equal("kept", ask(driver, &keys[3], to_end(Some(b"a"), None))?, Reply::Was(true))?;
    for (key, ends) in keys.iter().zip([true, true, false, false]) {
        let Reply::TimeLeft(left) = ask(driver, key, Operation::TimeLeft)? else {
            return Err(Failure("`time_left` is no time".to_string()));
        };
        let right = left.map_or(!ends, |left| ends && left <= ends_ms);
        equal(&format!("`{}` ends, {left:?} left", key.id()), right, true)?;
    }
    thread::sleep(Duration::from_millis(ends_ms + 100));
    for (key, ends) in keys.iter().zip([true, true, false, false]) {
        let read = ask(driver, key, Operation::Read)?;
        equal(&format!("`{}` has ended", key.id()), read == Reply::Content(None), ends)?;
        equal("deleted", ask(driver, key, Operation::Delete)?, Reply::Was(!ends))?;
    }
    Ok(())
}

fn batches_take_effect_by_their_marks(
    driver: &mut dyn Driver,
    scope: &Scope,
) -> Result<(), Failure> {
    let mark = scope.key(Kind::Value, "mark")?;
    let map = scope.key(Kind::Map, "map")?;
    let insert =
        |to: &[u8]| Call::new(&map, Operation::Insert(Entry::Pair(b"k".to_vec(), to.to_vec())));
    let batch = |expected: Option<&[u8]>, next: &[u8], calls: Vec<Call>| {
        let expected = expected.map(<[u8]>::to_vec);
        let (mark, next) = (mark.clone(), next.to_vec());
        Batch { mark, expected, next, present: Vec::new(), calls }
    };
    let (found, committed) =
        (|mark: &[u8]| Outcome::Found(Some(mark.to_vec())), Outcome::Committed);
    let outcomes = driver.commit(&[
        batch(Some(b"0"), b"1", vec![insert(b"never")]),
        batch(None, b"1", vec![insert(b"first")]),
        batch(None, b"2", vec![insert(b"never")]),
    ])?;
    equal("marks", outcomes, vec![Outcome::Found(None), committed.clone(), found(b"1")])?;
    let value = ask(driver, &map, Operation::Find(b"k".to_vec()))?;
    let first = Entry::Pair(b"k".to_vec(), b"first".to_vec());
    equal("one batch has taken effect", value, Reply::Found(Some(first)))?;
    let all = vec![
        Call::new(&map, Operation::Put(Content::empty(Kind::Map).unwrap_or(Content::Counter(0)))),
        insert(b"second"),
        Call::new(&map, Operation::Erase(b"none".to_vec())),
        Call::new(&scope.key(Kind::Counter, "c")?, Operation::Put(Content::Counter(-5))),
        Call::new(&scope.key(Kind::List, "l")?, Operation::Put(Content::List(vec![b"a".to_vec()]))),
        Call::new(&scope.key(Kind::Set, "s")?, Operation::Insert(Entry::Member(b"m".to_vec()))),
        Call::new(&scope.key(Kind::CounterMap, "cm")?, Operation::Insert(Entry::Count(vec![7], 9))),
        Call::new(&scope.key(Kind::Value, "v")?, Operation::Put(Content::Value(Bytes::new()))),
    ];
    let keys: Vec<Key> = all.iter().skip(1).map(|call| call.key.clone()).collect();
    equal(
        "a batch of everything",
        driver.commit(&[batch(Some(b"1"), b"2", all)])?,
        vec![committed],
    )?;
    let reads: Vec<Call> = keys.iter().map(|key| Call::new(key, Operation::Read)).collect();
    for (call, answer) in reads.iter().zip(driver.run(&reads)?) {
        let there = matches!(&answer, Ok(Reply::Content(Some(content))) if !content.is_empty());
        equal(&format!("`{}` of the batch, {answer:?}", call.key), there, true)?;
    }
    let mark = ask(driver, &mark, Operation::Read)?;
    equal("the mark", mark, Reply::Content(Some(Content::Value(b"2".to_vec()))))
}

/// Of batches with the right mark those take effect of which everything is there that is to be.
fn batches_take_effect_where_nothing_is_lost(
    driver: &mut dyn Driver,
    scope: &Scope,
) -> Result<(), Failure> {
    let pair = |name: &[u8], to: &[u8]| Entry::Pair(name.to_vec(), to.to_vec());
    let insert = |key: &Key, entry| Call::new(key, Operation::Insert(entry));
    let put = |key: &Key, content| Call::new(key, Operation::Put(content));
    let (mark, map) = (scope.key(Kind::Value, "mark 2")?, scope.key(Kind::Map, "map 2")?);
    let (value, counter) = (scope.key(Kind::Value, "v 2")?, scope.key(Kind::Counter, "c 2")?);
    let counts = scope.key(Kind::CounterMap, "cm 2")?;
    let there = [
        insert(&map, pair(b"k", b"12")),
        insert(&map, pair(b"", b"")),
        put(&value, Content::Value(Bytes::new())),
        put(&counter, Content::Counter(-5)),
        insert(&counts, Entry::Count(vec![7], 9)),
    ];
    let none = scope.key(Kind::Value, "none")?;
    let lacking = [
        insert(&map, pair(b"k", b"1")),
        insert(&map, pair(b"no", b"")),
        put(&value, Content::Value(b"-".to_vec())),
        put(&none, Content::Value(b"-".to_vec())),
        put(&none, Content::Value(Bytes::new())),
        put(&counter, Content::Counter(5)),
        put(&scope.key(Kind::Counter, "none")?, Content::Counter(0)),
        insert(&counts, Entry::Count(vec![7], 8)),
        insert(&counts, Entry::Count(vec![8], 9)),
        insert(&scope.key(Kind::Map, "none")?, pair(b"k", b"false")),
    ];
    let mut commit = |round: u8, present: &[Call], calls: &[Call]| {
        let expected = round.checked_sub(1).map(|round| vec![round]);
        let (mark, next, calls) = (mark.clone(), vec![round], calls.to_vec());
        driver.commit(&[Batch { mark, expected, next, present: present.to_vec(), calls }])
    };
    equal("what is there", commit(0, &[], &there)?, vec![Outcome::Committed])?;
    let erase = Call::new(&map, Operation::Erase(b"k".to_vec()));
    for call in &lacking {
        let all = [&there[..], std::slice::from_ref(call)].concat();
        let what = format!("{call:?} is not there");
        equal(&what, commit(1, &all, std::slice::from_ref(&erase))?, vec![Outcome::Lacks])?;
    }
    let found = vec![Outcome::Found(Some(vec![0]))];
    equal("another mark", commit(2, &there, &[])?, found.clone())?;
    equal("another mark, and something lacks", commit(2, &lacking, &[])?, found)?;
    let other = insert(&map, pair(b"other", b"1"));
    equal("all is there", commit(1, &there, &[other])?, vec![Outcome::Committed])?;
    equal("erased", commit(2, &there, &[erase])?, vec![Outcome::Committed])?;
    equal("it is no more", commit(3, &there[..1], &[])?, vec![Outcome::Lacks])
}
