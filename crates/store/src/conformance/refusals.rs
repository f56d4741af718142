//! What every store refuses, with which error, and that it takes what is just within: not left to chance.

use super::{Failure, HOUR_MS, ask, equal};
use crate::call::{Call, End, LIMITS, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Answer, Batch, Driver};
use crate::error::Error;
use crate::key::{Key, Place, Scope, prefix};

pub(super) fn check(driver: &mut dyn Driver) -> Result<(), Failure> {
    let scope = Scope::new("conformance", "refused", Place::Core(3))?;
    let long = |what, limit| move |bytes| Error::TooLong { what, bytes, limit };
    up_to(driver, &scope, LIMITS.key_bytes, with_key, long("a key", LIMITS.key_bytes))?;
    up_to(driver, &scope, LIMITS.value_bytes, with_value, long("a value", LIMITS.value_bytes))?;
    types_have_their_own_operations(driver, &scope)?;
    only_what_is_not_there_is_created(driver, &scope)?;
    what_differs_stays(driver, &scope)?;
    sums_stay_in_their_range(driver, &scope)?;
    batches_hold_what_may_be_repeated(driver, &scope)
}

/// Takes `limit` bytes, refuses one more, and does what stands beside it.
fn up_to(
    driver: &mut dyn Driver,
    scope: &Scope,
    limit: usize,
    with: fn(Bytes) -> Vec<(Kind, Operation, Reply)>,
    too_long: impl Fn(usize) -> Error,
) -> Result<(), Failure> {
    // One after the other: together they could be more than a store takes in one message.
    for (kind, operation, reply) in with(vec![b'n'; limit]) {
        let (what, key) = (operation.name(), scope.key(kind, "long")?);
        let answer = ask(driver, &key, operation);
        // Without what they hold, which nobody wants to read.
        equal(&format!("whether {what} of {limit} bytes is right"), answer == Ok(reply), true)?;
    }
    is_empty(driver, scope)?;
    let over = with(vec![b'n'; limit + 1]).into_iter();
    let over = over.filter(|(_, operation, _)| !matches!(operation, Operation::Delete));
    let over = over.map(|(kind, operation, _)| Ok(Call::new(&scope.key(kind, "long")?, operation)));
    let mut calls = over.collect::<Result<Vec<_>, Error>>()?;
    let mut expected: Vec<Answer> = vec![Err(too_long(limit + 1)); calls.len()];
    let beside = scope.key(Kind::Counter, "beside")?;
    calls.extend([Operation::Add(1), Operation::Delete].map(|one| Call::new(&beside, one)));
    expected.extend([Ok(Reply::Number(1)), Ok(Reply::Was(true))]);
    equal("what is too long, and what is beside it", driver.run(&calls)?, expected)?;
    is_empty(driver, scope)
}

/// Every operation with a key, and what it comes to; nothing is there before and after.
fn with_key(key: Bytes) -> Vec<(Kind, Operation, Reply)> {
    use Operation as O;
    let (k, v) = (|| key.clone(), b"v".to_vec());
    let set = Content::Set([k()].into());
    let map = Content::Map([(k(), v.clone())].into());
    let counts = Content::CounterMap([(k(), 7)].into());
    let pair = Entry::Pair(k(), v.clone());
    let compared = O::CompareAndInsert { key: k(), from: None, to: v.clone() };
    vec![
        (Kind::Set, O::Insert(Entry::Member(k())), Reply::Was(false)),
        (Kind::Set, O::Contains(k()), Reply::Was(true)),
        (Kind::Set, O::Erase(k()), Reply::Was(true)),
        (Kind::Set, O::Create(set.clone()), Reply::Done),
        (Kind::Set, O::Update(set.clone()), Reply::Done),
        (Kind::Set, O::Put(set), Reply::Done),
        (Kind::Set, O::Delete, Reply::Was(true)),
        (Kind::Map, compared, Reply::Was(true)),
        (Kind::Map, O::Insert(pair.clone()), Reply::Was(true)),
        (Kind::Map, O::Contains(k()), Reply::Was(true)),
        (Kind::Map, O::Find(k()), Reply::Found(Some(pair))),
        (Kind::Map, O::Erase(k()), Reply::Was(true)),
        (Kind::Map, O::Create(map.clone()), Reply::Done),
        (Kind::Map, O::Update(map.clone()), Reply::Done),
        (Kind::Map, O::Put(map), Reply::Done),
        (Kind::Map, O::Delete, Reply::Was(true)),
        (Kind::CounterMap, O::AddTo(k(), 4), Reply::Number(4)),
        (Kind::CounterMap, O::Insert(Entry::Count(k(), 5)), Reply::Was(true)),
        (Kind::CounterMap, O::Contains(k()), Reply::Was(true)),
        (Kind::CounterMap, O::Find(k()), Reply::Found(Some(Entry::Count(k(), 5)))),
        (Kind::CounterMap, O::Erase(k()), Reply::Was(true)),
        (Kind::CounterMap, O::Create(counts.clone()), Reply::Done),
        (Kind::CounterMap, O::Update(counts.clone()), Reply::Done),
        (Kind::CounterMap, O::Put(counts), Reply::Done),
        (Kind::CounterMap, O::Delete, Reply::Was(true)),
    ]
}

/// The same with a value.
fn with_value(value: Bytes) -> Vec<(Kind, Operation, Reply)> {
    use Operation as O;
    let v = || value.clone();
    let (one, list) = (Content::Value(v()), Content::List(vec![v()]));
    let (k, map) = (|| b"k".to_vec(), Content::Map([(b"k".to_vec(), v())].into()));
    let compared = |from, to| O::CompareAndUpdate { from, to, ttl_ms: None };
    let inserted = |from, to| O::CompareAndInsert { key: k(), from, to };
    vec![
        (Kind::Value, O::Create(one.clone()), Reply::Done),
        (Kind::Value, O::Update(one.clone()), Reply::Done),
        (Kind::Value, O::Put(one), Reply::Done),
        (Kind::Value, compared(Some(v()), b"w".to_vec()), Reply::Was(true)),
        (Kind::Value, compared(Some(b"w".to_vec()), v()), Reply::Was(true)),
        (Kind::Value, O::Arm(v(), HOUR_MS), Reply::Done),
        (Kind::Value, O::Delete, Reply::Was(true)),
        (Kind::List, O::Create(list.clone()), Reply::Done),
        (Kind::List, O::Update(list.clone()), Reply::Done),
        (Kind::List, O::Put(list), Reply::Done),
        (Kind::List, O::Push(End::Back, v()), Reply::Size(2)),
        (Kind::List, O::Push(End::Front, v()), Reply::Size(3)),
        (Kind::List, O::Delete, Reply::Was(true)),
        (Kind::Map, O::Create(map.clone()), Reply::Done),
        (Kind::Map, O::Update(map.clone()), Reply::Done),
        (Kind::Map, O::Put(map), Reply::Done),
        (Kind::Map, inserted(Some(v()), b"w".to_vec()), Reply::Was(true)),
        (Kind::Map, inserted(Some(b"w".to_vec()), v()), Reply::Was(true)),
        (Kind::Map, O::Insert(Entry::Pair(k(), v())), Reply::Was(true)),
        (Kind::Map, O::Delete, Reply::Was(true)),
    ]
}

/// An object's content, as small as it can be.
fn sample(kind: Kind) -> Content {
    let bytes = || b"a".to_vec();
    match kind {
        Kind::Value => Content::Value(bytes()),
        Kind::Counter => Content::Counter(1),
        Kind::List => Content::List(vec![bytes()]),
        Kind::Set => Content::Set([bytes()].into()),
        Kind::Map => Content::Map([(bytes(), bytes())].into()),
        Kind::CounterMap => Content::CounterMap([(bytes(), 1)].into()),
    }
}

/// Every operation that not all types have, with those that have it.
fn operations() -> Vec<(Operation, Vec<Kind>)> {
    use Kind as K;
    use Operation as O;
    let k = || b"a".to_vec();
    let of_content = [O::Create, O::Update, O::Put];
    let of_content =
        of_content.into_iter().flat_map(|one| K::ALL.map(|kind| (one(sample(kind)), vec![kind])));
    let keyed = vec![K::Set, K::Map, K::CounterMap];
    let collections = vec![K::List, K::Set, K::Map, K::CounterMap];
    let own = [
        (O::CompareAndUpdate { from: None, to: k(), ttl_ms: None }, vec![K::Value]),
        (O::Arm(k(), HOUR_MS), vec![K::Value]),
        (O::TimeLeft, vec![K::Value]),
        (O::Add(1), vec![K::Counter]),
        (O::Push(End::Back, k()), vec![K::List]),
        (O::Pop(End::Back), vec![K::List]),
        (O::Insert(Entry::Member(k())), vec![K::Set]),
        (O::Insert(Entry::Pair(k(), k())), vec![K::Map]),
        (O::Insert(Entry::Count(k(), 1)), vec![K::CounterMap]),
        (O::Erase(k()), keyed.clone()),
        (O::Contains(k()), keyed),
        (O::Find(k()), vec![K::Map, K::CounterMap]),
        (O::AddTo(k(), 1), vec![K::CounterMap]),
        (O::CompareAndInsert { key: k(), from: None, to: k() }, vec![K::Map]),
        (O::Size, collections.clone()),
        (O::Iterate { cursor: Bytes::new(), limit: 1 }, collections),
    ];
    of_content.chain(own).collect()
}

fn types_have_their_own_operations(driver: &mut dyn Driver, scope: &Scope) -> Result<(), Failure> {
    for kind in Kind::ALL {
        let key = scope.key(kind, "other")?;
        let others = operations().into_iter().filter(|(_, kinds)| !kinds.contains(&kind));
        let calls: Vec<Call> = others.map(|(operation, _)| Call::new(&key, operation)).collect();
        let refused =
            |call: &Call| Err(Error::NotOfKind { operation: call.operation.name(), kind });
        let expected: Vec<Answer> = calls.iter().map(refused).collect();
        equal(&format!("what a {kind} does not have"), driver.run(&calls)?, expected)?;
    }
    is_empty(driver, scope)
}

fn only_what_is_not_there_is_created(
    driver: &mut dyn Driver,
    scope: &Scope,
) -> Result<(), Failure> {
    for kind in Kind::ALL {
        let key = scope.key(kind, "there")?;
        let content = sample(kind);
        let mut steps = vec![
            (Operation::Update(content.clone()), Err(Error::Missing(key.clone()))),
            (Operation::Create(content.clone()), Ok(Reply::Done)),
            (Operation::Create(content.clone()), Err(Error::Exists(key.clone()))),
            (Operation::Update(content), Ok(Reply::Done)),
        ];
        // A collection without entries is none.
        match Content::empty(kind) {
            None => steps.push((Operation::Delete, Ok(Reply::Was(true)))),
            Some(empty) => steps.extend([
                (Operation::Update(empty.clone()), Ok(Reply::Done)),
                (Operation::Create(empty.clone()), Ok(Reply::Done)),
                (Operation::Update(empty), Err(Error::Missing(key.clone()))),
            ]),
        }
        in_turn(driver, &key, steps)?;
    }
    is_empty(driver, scope)
}

fn what_differs_stays(driver: &mut dyn Driver, scope: &Scope) -> Result<(), Failure> {
    let ttl_ms = Some(HOUR_MS);
    let value = scope.key(Kind::Value, "compared")?;
    stays(driver, &value, |from, to| Operation::CompareAndUpdate { from, to, ttl_ms })?;
    let map = scope.key(Kind::Map, "compared")?;
    let key = b"a".to_vec();
    stays(driver, &map, |from, to| Operation::CompareAndInsert { key: key.clone(), from, to })?;
    is_empty(driver, scope)
}

fn stays(
    driver: &mut dyn Driver,
    key: &Key,
    compare: impl Fn(Option<Bytes>, Bytes) -> Operation,
) -> Result<(), Failure> {
    let (a, b) = (|| b"a".to_vec(), || b"b".to_vec());
    let (was, is) = (|was| Ok(Reply::Was(was)), |content| Ok(Reply::Content(content)));
    let held = || sample(key.kind());
    let steps = vec![
        (compare(Some(a()), b()), was(false)),
        (Operation::Read, is(Content::empty(key.kind()))),
        (Operation::Put(held()), Ok(Reply::Done)),
        (compare(None, b()), was(false)),
        (Operation::Read, is(Some(held()))),
        (compare(Some(b()), b()), was(false)),
        (compare(Some(Bytes::new()), b()), was(false)),
        (Operation::Read, is(Some(held()))),
        (compare(Some(a()), Bytes::new()), was(true)),
        (compare(None, b()), was(false)),
        (compare(Some(Bytes::new()), a()), was(true)),
        (Operation::Delete, was(true)),
    ];
    in_turn(driver, key, steps)
}

fn sums_stay_in_their_range(driver: &mut dyn Driver, scope: &Scope) -> Result<(), Failure> {
    let counter = scope.key(Kind::Counter, "sum")?;
    stays_in_range(driver, &counter, Operation::Add)?;
    let counts = scope.key(Kind::CounterMap, "sum")?;
    stays_in_range(driver, &counts, |by| Operation::AddTo(b"a".to_vec(), by))?;
    is_empty(driver, scope)
}

fn stays_in_range(
    driver: &mut dyn Driver,
    key: &Key,
    add: impl Fn(i64) -> Operation,
) -> Result<(), Failure> {
    let number = |number| Ok(Reply::Number(number));
    let past = || Err(Error::OutOfRange(key.clone()));
    let steps = vec![
        (add(i64::MAX), number(i64::MAX)),
        (add(1), past()),
        (add(i64::MAX), past()),
        (add(0), number(i64::MAX)),
        (add(i64::MIN), number(-1)),
        (add(i64::MIN), past()),
        (add(i64::MIN + 1), number(i64::MIN)),
        (add(-1), past()),
        (add(i64::MAX), number(-1)),
        (Operation::Delete, Ok(Reply::Was(true))),
    ];
    in_turn(driver, key, steps)
}

fn batches_hold_what_may_be_repeated(
    driver: &mut dyn Driver,
    scope: &Scope,
) -> Result<(), Failure> {
    let mark = scope.key(Kind::Value, "mark")?;
    let beside = Call::new(&scope.key(Kind::Set, "beside")?, Operation::Put(sample(Kind::Set)));
    let mut refused = |call: &Call| {
        let calls = vec![beside.clone(), call.clone()];
        let (mark, next) = (mark.clone(), b"1".to_vec());
        let batch = Batch { mark, expected: None, next, present: Vec::new(), calls };
        let error = driver.commit(&[batch]).err();
        error.ok_or_else(|| Failure(format!("a batch holds {call:?}")))
    };
    for (operation, kinds) in operations() {
        let call = Call::new(&scope.key(kinds[0], "in a batch")?, operation);
        if !call.operation.is_absolute() {
            let name = call.operation.name();
            equal("a batch's error", refused(&call)?, Error::NotInBatch(name))?;
        }
    }
    let elsewhere = Scope::new("conformance", "refused", Place::Core(4))?;
    let elsewhere = elsewhere.key(Kind::Set, "x")?;
    for key in [&elsewhere, &mark] {
        let error = refused(&Call::new(key, Operation::Delete))?;
        let named = matches!(&error, Error::BadKey { text, .. } if text == key.as_str());
        equal(&format!("a batch's error for `{key}` is a bad key, {error}"), named, true)?;
    }
    let set = scope.key(Kind::Set, "x")?;
    let pair = Call::new(&set, Operation::Insert(Entry::Pair(Bytes::new(), Bytes::new())));
    let of_kind = Error::NotOfKind { operation: "insert", kind: Kind::Set };
    equal("a batch's error", refused(&pair)?, of_kind)?;
    let (limit, bytes) = (LIMITS.key_bytes, LIMITS.key_bytes + 1);
    let erase = Call::new(&set, Operation::Erase(vec![b'n'; bytes]));
    let too_long = Error::TooLong { what: "a key", bytes, limit };
    equal("a batch's error", refused(&erase)?, too_long)?;
    is_empty(driver, scope)
}

fn in_turn(
    driver: &mut dyn Driver,
    key: &Key,
    steps: Vec<(Operation, Answer)>,
) -> Result<(), Failure> {
    let calls: Vec<Call> = steps.iter().map(|(one, _)| Call::new(key, one.clone())).collect();
    let expected: Vec<Answer> = steps.into_iter().map(|(_, answer)| answer).collect();
    equal(&format!("what `{key}` comes to"), driver.run(&calls)?, expected)
}

fn is_empty(driver: &mut dyn Driver, scope: &Scope) -> Result<(), Failure> {
    let mut keys = driver.keys(&prefix("conformance", Some("refused"))?)?;
    keys.retain(|key| key.scope_str() == scope.as_str());
    equal("objects after what was refused", keys, Vec::new())
}
