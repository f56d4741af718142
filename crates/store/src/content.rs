//! What objects hold: the six types of FlexState's interface (§3.1.1).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes that the store does not look into.
pub type Bytes = Vec<u8>;

/// Type of an object. The order is part of the format of logs: new ones go to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Bytes under a name.
    Value,
    /// A signed number of 64 bits that can be added to.
    Counter,
    /// Elements in order, the same one perhaps several times.
    List,
    /// Members, each once.
    Set,
    /// Keys with values.
    Map,
    /// Keys with counters.
    CounterMap,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Value, Self::Counter, Self::List, Self::Set, Self::Map, Self::CounterMap];

    /// Its word in keys.
    pub fn word(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Counter => "counter",
            Self::List => "list",
            Self::Set => "set",
            Self::Map => "map",
            Self::CounterMap => "countermap",
        }
    }

    /// The type of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether it holds entries. A collection exists while it has at least one.
    pub fn is_collection(self) -> bool {
        !matches!(self, Self::Value | Self::Counter)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// All that an object holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Of a name-value pair.
    Value(Bytes),
    /// Of a counter.
    Counter(i64),
    /// Of a list, the front first.
    List(Vec<Bytes>),
    /// Of a set.
    Set(BTreeSet<Bytes>),
    /// Of a map.
    Map(BTreeMap<Bytes, Bytes>),
    /// Of a counter map.
    CounterMap(BTreeMap<Bytes, i64>),
}

impl Content {
    /// A collection without entries, or `None` for a value or counter.
    pub fn empty(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Value | Kind::Counter => None,
            Kind::List => Some(Self::List(Vec::new())),
            Kind::Set => Some(Self::Set(BTreeSet::new())),
            Kind::Map => Some(Self::Map(BTreeMap::new())),
            Kind::CounterMap => Some(Self::CounterMap(BTreeMap::new())),
        }
    }

    /// The type of object that holds it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Value(_) => Kind::Value,
            Self::Counter(_) => Kind::Counter,
            Self::List(_) => Kind::List,
            Self::Set(_) => Kind::Set,
            Self::Map(_) => Kind::Map,
            Self::CounterMap(_) => Kind::CounterMap,
        }
    }

    /// Whether it is a collection without entries, which is the same as none.
    pub fn is_empty(&self) -> bool {
        self.kind().is_collection() && self.len() == 0
    }

    /// Entries; 1 for a value or counter.
    pub fn len(&self) -> usize {
        match self {
            Self::Value(_) | Self::Counter(_) => 1,
            Self::List(elements) => elements.len(),
            Self::Set(members) => members.len(),
            Self::Map(entries) => entries.len(),
            Self::CounterMap(entries) => entries.len(),
        }
    }

    /// Its entries in order; a value or counter has none.
    pub fn entries(&self) -> Vec<Entry> {
        match self {
            Self::Value(_) | Self::Counter(_) => Vec::new(),
            Self::List(elements) => elements.iter().cloned().map(Entry::Member).collect(),
            Self::Set(members) => members.iter().cloned().map(Entry::Member).collect(),
            Self::Map(entries) => {
                entries.iter().map(|(key, value)| Entry::Pair(key.clone(), value.clone())).collect()
            }
            Self::CounterMap(entries) => {
                entries.iter().map(|(key, count)| Entry::Count(key.clone(), *count)).collect()
            }
        }
    }

    /// Names of the entries that have one.
    pub(crate) fn names(&self) -> Vec<&Bytes> {
        match self {
            Self::Value(_) | Self::Counter(_) | Self::List(_) => Vec::new(),
            Self::Set(members) => members.iter().collect(),
            Self::Map(entries) => entries.keys().collect(),
            Self::CounterMap(entries) => entries.keys().collect(),
        }
    }

    /// Puts in an entry, in place of what was under its key; true when there was something. An
    /// entry that is not of its type is not put in.
    pub fn insert(&mut self, entry: Entry) -> bool {
        match (self, entry) {
            (Self::List(elements), Entry::Member(element)) => {
                elements.push(element);
                false
            }
            (Self::Set(members), Entry::Member(member)) => !members.insert(member),
            (Self::Map(entries), Entry::Pair(key, value)) => entries.insert(key, value).is_some(),
            (Self::CounterMap(entries), Entry::Count(key, count)) => {
                entries.insert(key, count).is_some()
            }
            _ => false,
        }
    }
}

/// One entry of a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Entry {
    /// Element of a list, member of a set.
    Member(Bytes),
    /// Key and value in a map.
    Pair(Bytes, Bytes),
    /// Key and counter in a counter map.
    Count(Bytes, i64),
}
