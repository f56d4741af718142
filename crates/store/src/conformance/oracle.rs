//! What a store should answer, as plainly as it can be said: every object is a row of pairs, looked
//! through from end to end. It has nothing in common with the drivers.

use std::collections::BTreeMap;

use super::coverage::{Came, Cell};
use crate::call::{Call, End, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::Answer;
use crate::error::Error;
use crate::key::Key;

/// Keys (positions are the keys of a list) and what is under them; a value or counter is one pair.
type Row = Vec<(Bytes, Item)>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Bytes(Bytes),
    Number(i64),
}

#[derive(Default)]
pub(super) struct Oracle {
    rows: BTreeMap<Key, Row>,
    /// Values that end.
    ending: Vec<Key>,
}

impl Oracle {
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.rows.keys()
    }

    pub(super) fn answer(&mut self, call: &Call) -> Answer {
        call.check()?;
        let key = &call.key;
        let mut row = self.rows.remove(key).unwrap_or_default();
        let answer = self.change(key, &mut row, &call.operation);
        if row.is_empty() {
            self.ends(key, false);
        } else {
            self.rows.insert(key.clone(), row);
        }
        answer
    }

    /// What `call` would come to.
    pub(super) fn cell(&self, call: &Call) -> Cell {
        let row = self.rows.get_key_value(&call.key).map(|(key, row)| (key.clone(), row.clone()));
        let mut alone = Self { rows: row.into_iter().collect(), ending: Vec::new() };
        let came = match (alone.answer(call), self.has(call)) {
            (Err(_), _) => Came::Refused,
            (Ok(Reply::Was(false)), true) if is_comparison(&call.operation) => Came::Differs,
            (Ok(Reply::Was(false)), false) if is_comparison(&call.operation) => Came::Lacks,
            (Ok(_), true) => Came::Hit,
            (Ok(_), false) => Came::Miss,
        };
        Cell { operation: call.operation.name(), kind: call.key.kind(), came }
    }

    /// Whether there is what `call` is about: the object, the entry, an end.
    fn has(&self, call: &Call) -> bool {
        let Some(row) = self.rows.get(&call.key) else { return false };
        let has = |of: &Bytes| row.iter().any(|(key, _)| key == of);
        match &call.operation {
            Operation::TimeLeft => self.ending.contains(&call.key),
            Operation::Insert(entry) => has(&pair_of(entry).0),
            Operation::Erase(key)
            | Operation::Contains(key)
            | Operation::Find(key)
            | Operation::AddTo(key, _)
            | Operation::CompareAndInsert { key, .. } => has(key),
            _ => true,
        }
    }

    fn change(&mut self, key: &Key, row: &mut Row, operation: &Operation) -> Answer {
        match operation {
            Operation::Create(_) if !row.is_empty() => return Err(Error::Exists(key.clone())),
            Operation::Update(_) if row.is_empty() => return Err(Error::Missing(key.clone())),
            Operation::Create(to) | Operation::Update(to) | Operation::Put(to) => {
                *row = row_of(to);
                self.ends(key, false);
            }
            Operation::Read => return Ok(Reply::Content(content(key.kind(), row))),
            Operation::Delete => return Ok(Reply::Was(!std::mem::take(row).is_empty())),
            Operation::CompareAndUpdate { from, to, ttl_ms } => {
                let now = row.first().map(|(_, item)| item.clone());
                let same = now == from.clone().map(Item::Bytes);
                if same {
                    *row = vec![(Bytes::new(), Item::Bytes(to.clone()))];
                    self.ends(key, ttl_ms.is_some());
                }
                return Ok(Reply::Was(same));
            }
            Operation::Arm(value, _) => {
                *row = vec![(Bytes::new(), Item::Bytes(value.clone()))];
                self.ends(key, true);
            }
            Operation::TimeLeft => {
                return Ok(Reply::TimeLeft(self.ending.contains(key).then_some(1)));
            }
            Operation::Add(by) => return add(key, row, &Bytes::new(), *by),
            Operation::AddTo(entry, by) => return add(key, row, entry, *by),
            Operation::Push(end, element) => {
                let at = if *end == End::Front { 0 } else { row.len() };
                row.insert(at, (Bytes::new(), Item::Bytes(element.clone())));
                return Ok(Reply::Size(row.len() as u64));
            }
            Operation::Pop(end) => {
                let at = if *end == End::Front { 0 } else { row.len().saturating_sub(1) };
                let taken = (!row.is_empty()).then(|| row.remove(at));
                return Ok(Reply::Found(taken.map(|pair| entry(Kind::List, pair))));
            }
            Operation::Insert(entry) => return Ok(Reply::Was(insert(row, pair_of(entry)))),
            Operation::Erase(entry) => {
                let before = row.len();
                row.retain(|(key, _)| key != entry);
                return Ok(Reply::Was(row.len() < before));
            }
            Operation::Contains(entry) => {
                return Ok(Reply::Was(row.iter().any(|(key, _)| key == entry)));
            }
            Operation::Find(of) => {
                let found = row.iter().find(|(key, _)| key == of).cloned();
                return Ok(Reply::Found(found.map(|pair| entry(key.kind(), pair))));
            }
            Operation::CompareAndInsert { key, from, to } => {
                let now = row.iter().find(|(one, _)| one == key).map(|(_, item)| item.clone());
                let same = now == from.clone().map(Item::Bytes);
                if same {
                    insert(row, (key.clone(), Item::Bytes(to.clone())));
                }
                return Ok(Reply::Was(same));
            }
            Operation::Size => return Ok(Reply::Size(row.len() as u64)),
            Operation::Iterate { .. } => {
                let all = row.iter().cloned().map(|pair| entry(key.kind(), pair)).collect();
                return Ok(Reply::Page(all, None));
            }
        }
        Ok(Reply::Done)
    }

    fn ends(&mut self, key: &Key, ends: bool) {
        self.ending.retain(|one| one != key);
        if ends {
            self.ending.push(key.clone());
        }
    }
}

fn is_comparison(operation: &Operation) -> bool {
    matches!(operation, Operation::CompareAndUpdate { .. } | Operation::CompareAndInsert { .. })
}

/// Puts a pair in its place in the order of keys; whether there was one.
fn insert(row: &mut Row, pair: (Bytes, Item)) -> bool {
    let before = row.len();
    row.retain(|(key, _)| *key != pair.0);
    let was = row.len() < before;
    row.push(pair);
    row.sort_by(|a, b| a.0.cmp(&b.0));
    was
}

fn add(key: &Key, row: &mut Row, under: &Bytes, by: i64) -> Answer {
    let now = row.iter().find_map(|(key, item)| match item {
        Item::Number(number) if key == under => Some(i128::from(*number)),
        _ => None,
    });
    let sum = i64::try_from(now.unwrap_or(0) + i128::from(by));
    let sum = sum.map_err(|_| Error::OutOfRange(key.clone()))?;
    insert(row, (under.clone(), Item::Number(sum)));
    Ok(Reply::Number(sum))
}

fn row_of(content: &Content) -> Row {
    match content {
        Content::Value(bytes) => vec![(Bytes::new(), Item::Bytes(bytes.clone()))],
        Content::Counter(count) => vec![(Bytes::new(), Item::Number(*count))],
        Content::List(elements) => {
            let pair = |element: &Bytes| (Bytes::new(), Item::Bytes(element.clone()));
            elements.iter().map(pair).collect()
        }
        other => other.entries().iter().map(pair_of).collect(),
    }
}

fn pair_of(entry: &Entry) -> (Bytes, Item) {
    match entry {
        Entry::Member(member) => (member.clone(), Item::Bytes(Bytes::new())),
        Entry::Pair(key, value) => (key.clone(), Item::Bytes(value.clone())),
        Entry::Count(key, count) => (key.clone(), Item::Number(*count)),
    }
}

fn entry(kind: Kind, pair: (Bytes, Item)) -> Entry {
    match (kind, pair) {
        (Kind::List, (_, Item::Bytes(element))) => Entry::Member(element),
        (Kind::Map, (key, Item::Bytes(value))) => Entry::Pair(key, value),
        (_, (key, Item::Number(count))) => Entry::Count(key, count),
        (_, (key, _)) => Entry::Member(key),
    }
}

fn content(kind: Kind, row: &Row) -> Option<Content> {
    match (kind, row.first()) {
        (Kind::Value, Some((_, Item::Bytes(value)))) => Some(Content::Value(value.clone())),
        (Kind::Counter, Some((_, Item::Number(count)))) => Some(Content::Counter(*count)),
        _ => {
            let mut all = Content::empty(kind)?;
            row.iter().cloned().for_each(|pair| {
                all.insert(entry(kind, pair));
            });
            Some(all)
        }
    }
}

/// Whether an answer is as good as the expected one: time passes, pages may be cut differently and
/// hold their entries in any order (those of a list apart), an error is of the same kind.
pub(super) fn same(expected: &Answer, answer: &Answer) -> bool {
    match (expected, answer) {
        (Ok(Reply::TimeLeft(expected)), Ok(Reply::TimeLeft(left))) => {
            expected.is_some() == left.is_some()
        }
        (Ok(Reply::Page(all, _)), Ok(Reply::Page(page, next))) => {
            let known = page.iter().all(|entry| all.contains(entry));
            known && (next.is_some() || all.iter().all(|entry| page.contains(entry)))
        }
        (Err(expected), Err(error)) => {
            std::mem::discriminant(expected) == std::mem::discriminant(error)
        }
        (expected, answer) => expected == answer,
    }
}
