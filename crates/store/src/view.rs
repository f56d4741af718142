//! All of an NF's state as it is in a store: read, merged over cores, shards and instances, as JSON;
//! and claimed by the one who goes on writing it.

mod claim;

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value as Json, json};

use crate::behind::{Listing, Mark};
use crate::call::{Call, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Answer, Driver, only, unexpected, value_of};
use crate::error::Error;
use crate::key::{Key, Scope, prefix};
pub use claim::claim;

/// Entries that are read at once.
pub(crate) const PAGE: u32 = 4096;
/// Objects that are asked for at once, as many fewer as entries are.
const TOGETHER: u32 = 64;

/// Everything that an object holds, in pages where it is large; `None`: there is nothing.
pub fn read(driver: &mut (impl Driver + ?Sized), key: &Key) -> Result<Option<Content>, Error> {
    let first = only(driver.run(&[ask(key, Bytes::new(), PAGE)])?);
    read_on(driver, key, first, PAGE)
}

/// The call for what an object holds, of a collection for its page at `cursor`.
fn ask(key: &Key, cursor: Bytes, limit: u32) -> Call {
    let operation = match key.kind().is_collection() {
        true => Operation::Iterate { cursor, limit },
        false => Operation::Read,
    };
    Call::new(key, operation)
}

/// What an object holds, of which `first` is the answer to the first call.
fn read_on(
    driver: &mut (impl Driver + ?Sized),
    key: &Key,
    first: Answer,
    page: u32,
) -> Result<Option<Content>, Error> {
    let mut answer = first?;
    let Some(mut content) = Content::empty(key.kind()) else {
        return match answer {
            Reply::Content(content) => Ok(content),
            other => Err(unexpected(key, &other)),
        };
    };
    loop {
        let Reply::Page(entries, next) = answer else { return Err(unexpected(key, &answer)) };
        for entry in entries {
            content.insert(entry);
        }
        match next {
            Some(cursor) => answer = only(driver.run(&[ask(key, cursor, page)])?)?,
            None => return Ok((!content.is_empty()).then_some(content)),
        }
    }
}

/// Keys under which an instance has something, marks apart.
pub fn keys(
    driver: &mut (impl Driver + ?Sized),
    nf: &str,
    instance: &str,
) -> Result<Vec<Key>, Error> {
    keys_of(driver, &prefix(nf, Some(instance))?)
}

/// Keys that begin so, marks apart.
fn keys_of(driver: &mut (impl Driver + ?Sized), prefix: &str) -> Result<Vec<Key>, Error> {
    let mut keys = driver.keys(prefix)?;
    keys.retain(|key| Mark::key(&key.scope()).is_ok_and(|mark| mark != *key));
    Ok(keys)
}

/// Everything that an NF, or one instance of it, has in a store; marks apart.
pub fn state(
    driver: &mut (impl Driver + ?Sized),
    nf: &str,
    instance: Option<&str>,
) -> Result<BTreeMap<Key, Content>, Error> {
    let mut state = BTreeMap::new();
    each_of(driver, &prefix(nf, instance)?, PAGE, |key, content| {
        state.extend(content?.map(|content| (key.clone(), content)));
        Ok(())
    })?;
    Ok(state)
}

/// Reads what is under keys that begin so, marks apart, and hands it on.
fn each_of(
    driver: &mut (impl Driver + ?Sized),
    prefix: &str,
    page: u32,
    mut take: impl FnMut(&Key, Result<Option<Content>, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let keys = keys_of(driver, prefix)?;
    // Not one after the other: there may be some in each of many scopes.
    let together = (page / (PAGE / TOGETHER)).max(1);
    for keys in keys.chunks(together as usize) {
        let calls: Vec<Call> = keys.iter().map(|key| ask(key, Bytes::new(), page)).collect();
        for (key, first) in keys.iter().zip(driver.run(&calls)?) {
            take(key, read_on(driver, key, first, page))?;
        }
    }
    Ok(())
}

/// What a scope holds, `page` entries of it at once, and then what its mark does: which copy of the store it is that
/// was listed.
pub fn listing(
    driver: &mut (impl Driver + ?Sized),
    scope: &Scope,
    page: u32,
) -> Result<Listing, Error> {
    let mut found = BTreeMap::new();
    each_of(driver, &format!("{scope}@"), page, |key, content| {
        let content = match content {
            Ok(None) => return Ok(()),
            Ok(content) => content,
            // Somebody else has written something of another type there.
            Err(Error::Foreign { .. }) => None,
            Err(error) => return Err(error),
        };
        found.insert(key.clone(), content);
        Ok(())
    })?;
    let key = Mark::key(scope)?;
    let mark = value_of(&key, driver.run(&[Call::new(&key, Operation::Read)])?)?;
    Ok(Listing { found, mark })
}

/// The value that parts over cores, shards and instances come to. Counters add up, so do those of
/// counter maps under each key; sets and maps unite (under the same key of a map, one of the
/// values); lists follow each other; of values the one that `choose` makes of two.
pub fn merged(
    state: &BTreeMap<Key, Content>,
    choose: impl Fn(Bytes, Bytes) -> Bytes,
) -> BTreeMap<(String, Kind), Content> {
    let mut merged: BTreeMap<(String, Kind), Content> = BTreeMap::new();
    for (key, part) in state {
        let name = (key.id(), key.kind());
        let whole = match merged.remove(&name) {
            None => part.clone(),
            Some(sum) => merge(sum, part.clone(), &choose),
        };
        merged.insert(name, whole);
    }
    merged
}

/// The same by its names: the id, or `type@id` where releases have kept something of another type under the same id.
pub fn named(merged: &BTreeMap<(String, Kind), Content>) -> BTreeMap<String, (Kind, &Content)> {
    let of = |((id, kind), content): (&(String, Kind), _)| {
        let is_alone = merged.keys().filter(|(other, _)| other == id).count() == 1;
        let name = if is_alone { id.clone() } else { format!("{kind}@{id}") };
        (name, (*kind, content))
    };
    merged.iter().map(of).collect()
}

fn merge(sum: Content, part: Content, choose: impl Fn(Bytes, Bytes) -> Bytes) -> Content {
    match (sum, part) {
        (Content::Counter(a), Content::Counter(b)) => Content::Counter(a.wrapping_add(b)),
        (Content::Value(a), Content::Value(b)) => Content::Value(choose(a, b)),
        (Content::CounterMap(mut sums), Content::CounterMap(counts)) => {
            for (key, count) in counts {
                let sum = sums.entry(key).or_insert(0);
                *sum = sum.wrapping_add(count);
            }
            Content::CounterMap(sums)
        }
        (mut sum, part) => {
            for entry in part.entries() {
                sum.insert(entry);
            }
            sum
        }
    }
}

/// Content as JSON: text where bytes are printable ASCII, `0x…` else (also for text that begins so).
pub fn json(content: &Content) -> Json {
    match content {
        Content::Value(bytes) => Json::String(text(bytes)),
        Content::Counter(count) => json!(count),
        Content::List(elements) => elements.iter().map(|element| text(element)).collect(),
        Content::Set(members) => members.iter().map(|member| text(member)).collect(),
        Content::Map(_) | Content::CounterMap(_) => {
            let pair = |entry| match entry {
                Entry::Member(key) => (text(&key), Json::Null),
                Entry::Pair(key, value) => (text(&key), Json::String(text(&value))),
                Entry::Count(key, count) => (text(&key), json!(count)),
            };
            Json::Object(content.entries().into_iter().map(pair).collect::<Object<_, _>>())
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let printable = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    match std::str::from_utf8(bytes) {
        Ok(text) if printable && !text.starts_with("0x") => text.to_string(),
        _ => bytes.iter().fold("0x".to_string(), |text, byte| format!("{text}{byte:02x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use crate::key::Place;

    fn store() -> Memory {
        let mut store = Memory::default();
        for (instance, shard, by) in [("a", 1, 3), ("a", 2, 4), ("b", 1, 5), ("a2", 1, 100)] {
            let scope = Scope::new("nat", instance, Place::Shard(shard)).unwrap();
            let name = || vec![by as u8];
            let calls = [
                (Kind::Counter, Operation::Add(by)),
                (Kind::CounterMap, Operation::AddTo(b"k".to_vec(), by)),
                (Kind::Set, Operation::Insert(Entry::Member(name()))),
                (Kind::Value, Operation::Put(Content::Value(name()))),
            ];
            for (kind, operation) in calls {
                let key = scope.key(kind, "x").unwrap();
                only(store.run(&[Call::new(&key, operation)]).unwrap()).unwrap();
            }
        }
        store
    }

    #[test]
    fn parts_come_to_one_value() {
        let state = state(&mut store(), "nat", None).unwrap();
        let merged = merged(&state, |a, b| a.max(b));
        let of = |kind| merged[&("x".to_string(), kind)].clone();
        assert_eq!(of(Kind::Counter), Content::Counter(112));
        assert_eq!(of(Kind::CounterMap), Content::CounterMap([(b"k".to_vec(), 112)].into()));
        assert_eq!(of(Kind::Set).len(), 4);
        assert_eq!(of(Kind::Value), Content::Value(vec![100]));
        let one = [(("y".to_string(), Kind::List), Content::List(Vec::new()))];
        let all = merged.clone().into_iter().chain(one).collect();
        let names: Vec<String> = named(&all).into_keys().collect();
        assert_eq!(names, ["counter@x", "countermap@x", "set@x", "value@x", "y"]);
        assert_eq!(json(&of(Kind::CounterMap)).to_string(), r#"{"k":112}"#);
        assert_eq!(json(&of(Kind::Set)).to_string(), r#"["0x03","0x04","0x05","d"]"#);
    }

    #[test]
    fn large_objects_are_read_in_pages() {
        let mut store = Memory::default();
        let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Map, "x").unwrap();
        let entries = (0..10_000u32).map(|n| (n.to_be_bytes().to_vec(), vec![1])).collect();
        let content = Content::Map(entries);
        store.run(&[Call::new(&key, Operation::Put(content.clone()))]).unwrap();
        assert_eq!(read(&mut store, &key), Ok(Some(content)));
    }
}
