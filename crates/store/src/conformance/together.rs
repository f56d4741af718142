//! Several connections at once: nothing is lost or done twice, and nobody touches another's.

use std::collections::BTreeSet;
use std::thread;

use super::{Failure, Open, Report, Settings, equal, sequence};
use crate::call::{Call, End, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Batch, Driver, Outcome, only};
use crate::error::Error;
use crate::key::{Key, Place, Scope};

/// What each connection does to the common objects.
const EACH: u32 = 100;
/// Batches that are committed by one mark; below 256.
const ROUNDS: u8 = 30;

/// What each connection tried on its own.
pub(super) fn check(open: &impl Open, settings: &Settings) -> Result<Vec<Report>, Failure> {
    let scope = Scope::new("conformance", "together", Place::Instance)?;
    let key = |kind| scope.key(kind, "common");
    let (counter, list) = (key(Kind::Counter)?, key(Kind::List)?);
    let (value, map) = (key(Kind::Value)?, key(Kind::Map)?);
    let many = settings.connections;

    let reports = every(open, many, |mut driver, number| {
        let nf = format!("conformance-{number}-of-{many}");
        sequence(&mut *driver, &nf, u64::from(number), settings.calls)
    })?;
    let created = every(open, many, |mut driver, _| {
        match only(driver.run(&[Call::new(&counter, Operation::Create(Content::Counter(0)))])?) {
            Err(Error::Exists(_)) => Ok(false),
            answer => Ok(answer.map(|_| true)?),
        }
    })?;
    let created = created.into_iter().filter(|created| *created).count();
    equal("connections that create an object", created, 1)?;
    let keys = [&counter, &list, &value, &map];
    every(open, many, |mut driver, number| change(&mut *driver, number, keys))?;

    let mut driver = open()?;
    let total = i64::from(many * EACH);
    equal("counted together", read(&mut *driver, &counter)?, Some(Content::Counter(total)))?;
    let count = total.to_string().into_bytes();
    equal(
        "counted by comparing",
        read(&mut *driver, &value)?,
        Some(Content::Value(count.clone())),
    )?;
    let entry = Some(Entry::Pair(b"n".to_vec(), count));
    let found = only(driver.run(&[Call::new(&map, Operation::Find(b"n".to_vec()))])?)?;
    equal("counted in a map", found, Reply::Found(entry))?;
    let Some(Content::List(elements)) = read(&mut *driver, &list)? else {
        return Err(Failure("what was pushed together is no list".to_string()));
    };
    for number in 0..many {
        let of_one = |element: &&Bytes| element[0] == number as u8;
        let pushed: Vec<u8> = elements.iter().filter(of_one).map(|element| element[1]).collect();
        equal("pushed by one, in order", pushed, (0..EACH as u8).collect())?;
    }
    each_element_is_taken_once(open, many, &list, elements.into_iter().collect())?;
    if settings.atomic_commits {
        each_mark_has_one_writer(open, many, &scope)?;
    }
    Ok(reports)
}

/// Adds, pushes, and counts by comparing, `EACH` times.
fn change(driver: &mut dyn Driver, number: u32, keys: [&Key; 4]) -> Result<(), Failure> {
    let [counter, list, value, map] = keys;
    for step in 0..EACH as u8 {
        let element = vec![number as u8, step];
        let calls = [
            Call::new(counter, Operation::Add(1)),
            Call::new(list, Operation::Push(End::Back, element)),
        ];
        for answer in driver.run(&calls)? {
            answer?;
        }
        loop {
            let from = match read(driver, value)? {
                Some(Content::Value(bytes)) => Some(bytes),
                _ => None,
            };
            let to = one_more(from.as_deref());
            let operation = Operation::CompareAndUpdate { from, to, ttl_ms: None };
            if only(driver.run(&[Call::new(value, operation)])?)? == Reply::Was(true) {
                break;
            }
        }
        loop {
            let key = b"n".to_vec();
            let found = only(driver.run(&[Call::new(map, Operation::Find(key.clone()))])?)?;
            let from = match found {
                Reply::Found(Some(Entry::Pair(_, bytes))) => Some(bytes),
                _ => None,
            };
            let to = one_more(from.as_deref());
            let operation = Operation::CompareAndInsert { key, from, to };
            if only(driver.run(&[Call::new(map, operation)])?)? == Reply::Was(true) {
                break;
            }
        }
    }
    Ok(())
}

fn one_more(from: Option<&[u8]>) -> Bytes {
    let text = String::from_utf8_lossy(from.unwrap_or(b"0")).into_owned();
    (text.parse::<u64>().unwrap_or(0) + 1).to_string().into_bytes()
}

fn each_element_is_taken_once(
    open: &impl Open,
    many: u32,
    list: &Key,
    pushed: BTreeSet<Bytes>,
) -> Result<(), Failure> {
    let scope = list.scope();
    every(open, many, |mut driver, number| {
        let mine = scope.key(Kind::Set, &format!("taken-{number}"))?;
        loop {
            let taken = only(driver.run(&[Call::new(list, Operation::Pop(End::Front))])?)?;
            let Reply::Found(Some(element)) = taken else { return Ok(()) };
            let insert = Operation::Insert(element);
            equal("taken", only(driver.run(&[Call::new(&mine, insert)])?)?, Reply::Was(false))?;
        }
    })?;
    let mut driver = open()?;
    let mut all = BTreeSet::new();
    let mut count = 0;
    for number in 0..many {
        let mine = scope.key(Kind::Set, &format!("taken-{number}"))?;
        if let Some(Content::Set(members)) = read(&mut *driver, &mine)? {
            count += members.len();
            all.extend(members);
        }
    }
    equal("taken by all", (count, all), (pushed.len(), pushed))
}

/// Writers of one mark: of the batches that expect the same, one takes effect.
fn each_mark_has_one_writer(open: &impl Open, many: u32, scope: &Scope) -> Result<(), Failure> {
    let (mark, map) = (scope.key(Kind::Value, "mark")?, scope.key(Kind::Map, "marked")?);
    let wins = every(open, many, |mut driver, number| {
        let mut found: Option<Bytes> = None;
        let mut won = Vec::new();
        loop {
            let round = found.as_ref().map_or(0, |mark| mark[0]);
            if round == ROUNDS {
                return Ok(won);
            }
            let next = vec![round + 1, number as u8];
            let insert = Operation::Insert(Entry::Pair(next.clone(), Bytes::new()));
            let calls = vec![Call::new(&map, insert)];
            let (mark, expected) = (mark.clone(), found.clone());
            let batch = Batch { mark, expected, next: next.clone(), present: Vec::new(), calls };
            found = match driver.commit(&[batch])?.pop() {
                Some(Outcome::Committed) => {
                    won.push(next.clone());
                    Some(next)
                }
                Some(Outcome::Found(found)) => found,
                Some(Outcome::Refused(error)) => return Err(Failure(error.to_string())),
                Some(Outcome::Lacks) | None => {
                    return Err(Failure("no outcome of a batch".to_string()));
                }
            }
        }
    })?;
    let mut wins: Vec<Bytes> = wins.into_iter().flatten().collect();
    wins.sort();
    let rounds: Vec<u8> = wins.iter().map(|mark| mark[0]).collect();
    equal("batches that a mark let through", rounds, (1..=ROUNDS).collect())?;
    let done = wins.into_iter().map(|mark| (mark, Bytes::new())).collect();
    let found = read(&mut *open()?, &map)?;
    equal("what batches of one mark have done", found, Some(Content::Map(done)))
}

fn read(driver: &mut dyn Driver, key: &Key) -> Result<Option<Content>, Failure> {
    match only(driver.run(&[Call::new(key, Operation::Read)])?)? {
        Reply::Content(content) => Ok(content),
        other => Err(Failure(format!("`read` of `{key}`: {other:?}"))),
    }
}

/// Runs `work` on as many connections at once; what each comes to.
pub(super) fn every<T: Send>(
    open: &impl Open,
    many: u32,
    work: impl Fn(Box<dyn Driver>, u32) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let one = |number| work(open()?, number);
    let one = &one;
    thread::scope(|threads| {
        let workers: Vec<_> = (0..many).map(|n| threads.spawn(move || one(n))).collect();
        let ended = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| Failure("the driver panics".to_string()))?);
        // Each is waited for before any failure is told.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}
