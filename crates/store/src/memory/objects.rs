//! What calls do, plainly: the objects of a store in memory.

use std::ops::Bound;

use hashbrown::{DefaultHashBuilder, HashMap};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::call::{Call, End, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::Answer;
use crate::error::Error;
use crate::key::Key;

/// Every object by its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Objects(pub(super) HashMap<Key, Object>);

/// One object. Collections in it are never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Object {
    content: Held,
    /// When it ends, milliseconds since the Unix epoch.
    ends_ms: Option<u64>,
}

/// Entries for which a map may have room that it does not use.
const SPARE: usize = 1024;

/// What an object holds; encoded as [`Content`] is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Content")]
enum Held {
    /// A map's entries: functions have their state in maps, and nothing of it is asked for in order.
    Map(IndexMap<Bytes, Bytes, DefaultHashBuilder>),
    /// Of any other object.
    Other(Content),
}

impl From<Content> for Held {
    fn from(content: Content) -> Self {
        match content {
            Content::Map(entries) => Self::Map(entries.into_iter().collect()),
            other => Self::Other(other),
        }
    }
}

impl Serialize for Held {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Map(entries) => {
                serializer.serialize_newtype_variant("Content", Kind::Map as u32, "Map", entries)
            }
            Self::Other(content) => content.serialize(serializer),
        }
    }
}

impl Held {
    fn content(&self) -> Content {
        match self {
            Self::Map(entries) => {
                let entry = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
                Content::Map(entries.iter().map(entry).collect())
            }
            Self::Other(content) => content.clone(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Map(entries) => entries.len(),
            Self::Other(content) => content.len(),
        }
    }
}

impl Objects {
    /// Carries out a call at `now_ms`, milliseconds since the Unix epoch. The same calls at the same
    /// times always come to the same.
    pub(super) fn apply(&mut self, call: &Call, now_ms: u64) -> Answer {
        call.check()?;
        let key = &call.key;
        if self.0.get(key).is_some_and(|object| object.ends_ms.is_some_and(|end| end <= now_ms)) {
            self.0.remove(key);
        }
        match &call.operation {
            Operation::Create(_) if self.0.contains_key(key) => Err(Error::Exists(key.clone())),
            Operation::Update(_) if !self.0.contains_key(key) => Err(Error::Missing(key.clone())),
            Operation::Create(content) | Operation::Update(content) | Operation::Put(content) => {
                Ok(self.put(key, content.clone(), None))
            }
            Operation::Read => {
                let content = self.0.get(key).map(|object| object.content.content());
                Ok(Reply::Content(content.or(Content::empty(key.kind()))))
            }
            Operation::Delete => Ok(Reply::Was(self.0.remove(key).is_some())),
            Operation::CompareAndUpdate { from, to, ttl_ms } => {
                let same = self.value(key) == from.as_ref();
                if same {
                    self.put(key, Content::Value(to.clone()), end(*ttl_ms, now_ms));
                }
                Ok(Reply::Was(same))
            }
            Operation::Arm(value, ttl_ms) => {
                Ok(self.put(key, Content::Value(value.clone()), end(Some(*ttl_ms), now_ms)))
            }
            Operation::TimeLeft => {
                let end = self.0.get(key).and_then(|object| object.ends_ms);
                Ok(Reply::TimeLeft(end.map(|end| end - now_ms)))
            }
            Operation::Add(by) => self.add(key, *by),
            entries => self.apply_to_entries(key, entries),
        }
    }

    fn apply_to_entries(&mut self, key: &Key, operation: &Operation) -> Answer {
        // A type that is no collection has been refused.
        let Some(empty) = Content::empty(key.kind()).map(Held::from) else {
            return Ok(Reply::Done);
        };
        if operation.is_read() {
            return Ok(read_entries(self.0.get(key).map_or(&empty, |one| &one.content), operation));
        }
        let object = self.0.entry_ref(key).or_insert(Object { content: empty, ends_ms: None });
        let answer = change_entries(key, &mut object.content, operation);
        if object.content.len() == 0 {
            self.0.remove(key);
        }
        answer
    }

    fn put(&mut self, key: &Key, content: Content, ends_ms: Option<u64>) -> Reply {
        if content.is_empty() {
            self.0.remove(key);
        } else {
            self.0.insert(key.clone(), Object { content: content.into(), ends_ms });
        }
        Reply::Done
    }

    fn value(&self, key: &Key) -> Option<&Bytes> {
        match self.0.get(key).map(|object| &object.content) {
            Some(Held::Other(Content::Value(value))) => Some(value),
            _ => None,
        }
    }

    fn add(&mut self, key: &Key, by: i64) -> Answer {
        let now = match self.0.get(key).map(|object| &object.content) {
            Some(Held::Other(Content::Counter(count))) => *count,
            _ => 0,
        };
        let sum = now.checked_add(by).ok_or_else(|| Error::OutOfRange(key.clone()))?;
        self.put(key, Content::Counter(sum), None);
        Ok(Reply::Number(sum))
    }

    /// The keys that begin with `prefix`.
    pub(super) fn keys(&self, prefix: &str) -> Vec<Key> {
        self.0.keys().filter(|key| key.as_str().starts_with(prefix)).cloned().collect()
    }
}

fn end(ttl_ms: Option<u64>, now_ms: u64) -> Option<u64> {
    ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms.max(1)))
}

fn read_entries(content: &Held, operation: &Operation) -> Reply {
    match operation {
        Operation::Size => Reply::Size(content.len() as u64),
        Operation::Iterate { cursor, limit } => page(content, cursor, (*limit).max(1) as usize),
        Operation::Contains(key) => Reply::Was(match content {
            Held::Other(Content::Set(members)) => members.contains(key),
            _ => find(content, key).is_some(),
        }),
        Operation::Find(key) => Reply::Found(find(content, key)),
        _ => Reply::Done,
    }
}

fn find(content: &Held, key: &Bytes) -> Option<Entry> {
    match content {
        Held::Map(entries) => entries.get(key).map(|value| Entry::Pair(key.clone(), value.clone())),
        Held::Other(Content::CounterMap(entries)) => {
            entries.get(key).map(|count| Entry::Count(key.clone(), *count))
        }
        _ => None,
    }
}

fn change_entries(key: &Key, content: &mut Held, operation: &Operation) -> Answer {
    let content = match content {
        Held::Map(entries) => return Ok(change_map(entries, operation)),
        Held::Other(content) => content,
    };
    Ok(match (content, operation) {
        (Content::List(elements), Operation::Push(end, element)) => {
            let at = if *end == End::Front { 0 } else { elements.len() };
            elements.insert(at, element.clone());
            Reply::Size(elements.len() as u64)
        }
        (Content::List(elements), Operation::Pop(end)) => Reply::Found(match end {
            End::Front if elements.is_empty() => None,
            End::Front => Some(Entry::Member(elements.remove(0))),
            End::Back => elements.pop().map(Entry::Member),
        }),
        (content, Operation::Insert(entry)) => Reply::Was(content.insert(entry.clone())),
        (Content::Set(members), Operation::Erase(member)) => Reply::Was(members.remove(member)),
        (Content::CounterMap(entries), Operation::Erase(key)) => {
            Reply::Was(entries.remove(key).is_some())
        }
        (Content::CounterMap(entries), Operation::AddTo(entry, by)) => {
            let now = entries.get(entry).copied().unwrap_or(0);
            let sum = now.checked_add(*by).ok_or_else(|| Error::OutOfRange(key.clone()))?;
            entries.insert(entry.clone(), sum);
            Reply::Number(sum)
        }
        _ => Reply::Done,
    })
}

fn change_map(
    entries: &mut IndexMap<Bytes, Bytes, DefaultHashBuilder>,
    operation: &Operation,
) -> Reply {
    match operation {
        Operation::Insert(Entry::Pair(key, value)) => {
            let held = entries.get_mut(key);
            let was_there = held.is_some();
            match held {
                // In its memory: nearly always it is as long.
                Some(held) => held.clone_from(value),
                None => drop(entries.insert(key.clone(), value.clone())),
            }
            Reply::Was(was_there)
        }
        Operation::Erase(key) => {
            let was_there = entries.swap_remove(key).is_some();
            if entries.capacity() > SPARE && entries.len() < entries.capacity() / 8 {
                entries.shrink_to(2 * entries.len());
            }
            Reply::Was(was_there)
        }
        Operation::CompareAndInsert { key, from, to } => {
            let same = entries.get(key) == from.as_ref();
            if same {
                entries.insert(key.clone(), to.clone());
            }
            Reply::Was(same)
        }
        _ => Reply::Done,
    }
}

/// A page of at most `limit` entries. The cursor of a list is its position, that of a map how many entries there are
/// before it: pages go from the last entry to the first, since in place of one that is removed the last one comes,
/// which has been given already. That of the others is the last key given. All after a byte that keeps it from being
/// empty.
fn page(content: &Held, cursor: &Bytes, limit: usize) -> Reply {
    let after = cursor.get(1..).unwrap_or_default().to_vec();
    let from = if cursor.is_empty() { Bound::Unbounded } else { Bound::Excluded(after.clone()) };
    let range = (from, Bound::Unbounded);
    let position = <[u8; 8]>::try_from(after.as_slice()).ok().map(u64::from_le_bytes);
    let content = match content {
        Held::Other(content) => content,
        Held::Map(entries) => {
            let end = position.map_or(entries.len(), |end| (end as usize).min(entries.len()));
            let start = end.saturating_sub(limit);
            let some = entries.get_range(start..end).into_iter().flatten().rev();
            let page = some.map(|(key, value)| Entry::Pair(key.clone(), value.clone())).collect();
            return Reply::Page(
                page,
                (start > 0).then(|| cursor_at(&(start as u64).to_le_bytes())),
            );
        }
    };
    let entries: Vec<Entry> = match content {
        Content::List(elements) => {
            let start = position.unwrap_or(0);
            let rest = elements.iter().skip(start as usize).take(limit);
            let page: Vec<Entry> = rest.cloned().map(Entry::Member).collect();
            let end = start + page.len() as u64;
            let more = end < elements.len() as u64;
            return Reply::Page(page, more.then(|| cursor_at(&end.to_le_bytes())));
        }
        Content::Set(members) => {
            members.range(range).take(limit).cloned().map(Entry::Member).collect()
        }
        Content::CounterMap(entries) => {
            let rest = entries.range(range).take(limit);
            rest.map(|(key, count)| Entry::Count(key.clone(), *count)).collect()
        }
        Content::Map(_) | Content::Value(_) | Content::Counter(_) => Vec::new(),
    };
    let last = match entries.last() {
        Some(Entry::Member(key) | Entry::Pair(key, _) | Entry::Count(key, _)) => cursor_at(key),
        None => return Reply::Page(entries, None),
    };
    let more = entries.len() == limit;
    Reply::Page(entries, more.then_some(last))
}

fn cursor_at(position: &[u8]) -> Bytes {
    [b"@", position].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Place, Scope};

    fn pair(number: u8) -> (Bytes, Bytes) {
        (vec![number], vec![number; 3])
    }

    #[test]
    fn a_map_is_written_as_it_always_was() {
        let content = Content::Map((0..9).map(pair).collect());
        let held = Held::from(content.clone());
        let bytes = postcard::to_stdvec(&content).unwrap();
        assert_eq!(postcard::to_stdvec(&held).unwrap(), bytes);
        assert_eq!(postcard::from_bytes::<Held>(&bytes).unwrap(), held);
        assert_eq!(held.content(), content);
    }

    #[test]
    fn pages_of_a_map_have_what_stays_whatever_goes_and_comes() {
        let scope = Scope::new("nf", "a", Place::Core(0)).unwrap();
        let key = scope.key(Kind::Map, "m").unwrap();
        let mut objects = Objects::default();
        let mut apply = |operation| objects.apply(&Call::new(&key, operation), 0).unwrap();
        let insert = |number| {
            let (key, value) = pair(number);
            Operation::Insert(Entry::Pair(key, value))
        };
        (0..100).for_each(|number| drop(apply(insert(number))));
        let (mut given, mut cursor) = (Vec::new(), Bytes::new());
        for turn in 0.. {
            let Reply::Page(page, next) = apply(Operation::Iterate { cursor, limit: 7 }) else {
                panic!("no page")
            };
            assert!(page.len() <= 7);
            given.extend(page);
            let Some(next) = next else { break };
            cursor = next;
            // Every third goes, from both ends; others come.
            for gone in [turn * 3, 99 - turn * 3].into_iter().filter(|gone| gone % 3 == 0) {
                apply(Operation::Erase(vec![gone]));
            }
            apply(insert(100 + turn));
        }
        for number in (0..100).filter(|number| number % 3 > 0) {
            let (key, value) = pair(number);
            assert!(given.contains(&Entry::Pair(key, value)), "{number}");
        }
    }
}
