//! Calls: what can be asked of a store, and what it answers.

use serde::{Deserialize, Serialize};

use crate::content::{Bytes, Content, Entry, Kind};
use crate::error::Error;
use crate::key::Key;

/// How long things may be. Every driver holds to the same ones, so that an NF that runs with one
/// store runs with all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a key in a map, or a member of a set.
    pub key_bytes: usize,
    /// Bytes of a value, or an element of a list.
    pub value_bytes: usize,
}

/// 1 KiB for keys, 1 MiB for values: what every store that there is a driver for takes without
/// effort.
pub const LIMITS: Limits = Limits { key_bytes: 1 << 10, value_bytes: 1 << 20 };

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Where reading begins.
    Front,
    /// Where it ends.
    Back,
}

/// What is done to one object. The order is part of the format of logs: new ones go to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Any type: it holds this; [`Error::Exists`] where there is something. Answers `Done`.
    Create(Content),
    /// Any type: all of it. Answers `Content`, an empty collection where there is none.
    Read,
    /// Any type: it holds this instead; [`Error::Missing`] where there is nothing. Answers `Done`.
    Update(Content),
    /// Any type: it holds this, whatever was there. Answers `Done`.
    Put(Content),
    /// Any type: it is no more. Answers `Was`: there was something.
    Delete,
    /// Value: holds `to` if it holds `from` now (`None`: if there is nothing). With `ttl_ms` it ends
    /// after as many milliseconds, unless it is written again. Answers `Was`: it held `from`.
    CompareAndUpdate {
        /// What it should hold.
        from: Option<Bytes>,
        /// What it holds then.
        to: Bytes,
        /// Milliseconds until it ends, at least 1.
        ttl_ms: Option<u64>,
    },
    /// Value: holds this, and ends after as many milliseconds (at least 1). Answers `Done`.
    Arm(Bytes, u64),
    /// Value: answers `TimeLeft`: milliseconds until it ends, `None` if it does not or is not there.
    TimeLeft,
    /// Counter: adds; from 0 where there is none; [`Error::OutOfRange`] past the range. Answers
    /// `Number`, the sum.
    Add(i64),
    /// List: one more element. Answers `Size`.
    Push(End, Bytes),
    /// List: takes an element. Answers `Found`.
    Pop(End),
    /// Set, map, counter map: puts in place of what was under the key. Answers `Was`: there was
    /// something.
    Insert(Entry),
    /// Set, map, counter map: takes the entry out. Answers `Was`.
    Erase(Bytes),
    /// Set, map, counter map: answers `Was`: there is such an entry.
    Contains(Bytes),
    /// Map, counter map: the entry under a key. Answers `Found`.
    Find(Bytes),
    /// Counter map: adds to the counter under a key, from 0 where there is none;
    /// [`Error::OutOfRange`] past the range. Answers `Number`, the sum.
    AddTo(Bytes, i64),
    /// Map: as `CompareAndUpdate`, of the value under a key.
    CompareAndInsert {
        /// The key in the map.
        key: Bytes,
        /// What should be under it.
        from: Option<Bytes>,
        /// What is under it then.
        to: Bytes,
    },
    /// Collections: answers `Size`, the number of entries.
    Size,
    /// Collections: some entries, beginning at a cursor (the first is empty). Answers `Page`.
    /// Entries that are there from the first page to the last come at least once, unless the whole object is put
    /// meanwhile; while others write, one can come twice.
    Iterate {
        /// Where the page before ended.
        cursor: Bytes,
        /// About how many entries to give.
        limit: u32,
    },
}

impl Operation {
    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Read => "read",
            Self::Update(_) => "update",
            Self::Put(_) => "put",
            Self::Delete => "delete",
            Self::CompareAndUpdate { .. } => "compare_and_update",
            Self::Arm(..) => "arm",
            Self::TimeLeft => "time_left",
            Self::Add(_) => "add",
            Self::Push(..) => "push",
            Self::Pop(_) => "pop",
            Self::Insert(_) => "insert",
            Self::Erase(_) => "erase",
            Self::Contains(_) => "contains",
            Self::Find(_) => "find",
            Self::AddTo(..) => "add_to",
            Self::CompareAndInsert { .. } => "compare_and_insert",
            Self::Size => "size",
            Self::Iterate { .. } => "iterate",
        }
    }

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::Read | O::TimeLeft | O::Contains(_) | O::Find(_) | O::Size | O::Iterate { .. }
        )
    }

    /// Whether the object ends as it is and the answer is right when it is done twice.
    pub fn may_be_repeated(&self) -> bool {
        self.is_read() || matches!(self, Self::Put(_) | Self::Arm(..))
    }

    /// Whether it says how the object ends, not by how much it changes: done twice is done once.
    pub fn is_absolute(&self) -> bool {
        use Operation as O;
        matches!(self, O::Put(_) | O::Arm(..) | O::Delete | O::Insert(_) | O::Erase(_))
    }

    /// Whether objects of `kind` have it, with the content it comes with.
    fn is_of(&self, kind: Kind) -> bool {
        match self {
            Self::Create(content) | Self::Update(content) | Self::Put(content) => {
                content.kind() == kind
            }
            Self::Read | Self::Delete => true,
            Self::CompareAndUpdate { .. } | Self::Arm(..) | Self::TimeLeft => kind == Kind::Value,
            Self::Add(_) => kind == Kind::Counter,
            Self::Push(..) | Self::Pop(_) => kind == Kind::List,
            Self::Insert(entry) => match entry {
                Entry::Member(_) => kind == Kind::Set,
                Entry::Pair(..) => kind == Kind::Map,
                Entry::Count(..) => kind == Kind::CounterMap,
            },
            Self::Erase(_) | Self::Contains(_) => {
                matches!(kind, Kind::Set | Kind::Map | Kind::CounterMap)
            }
            Self::Find(_) => matches!(kind, Kind::Map | Kind::CounterMap),
            Self::AddTo(..) => kind == Kind::CounterMap,
            Self::CompareAndInsert { .. } => kind == Kind::Map,
            Self::Size | Self::Iterate { .. } => kind.is_collection(),
        }
    }

    fn check_lengths(&self, limits: &Limits) -> Result<(), Error> {
        let key = |key: &Bytes| within("a key", key, limits.key_bytes);
        let value = |value: &Bytes| within("a value", value, limits.value_bytes);
        match self {
            Self::Create(content) | Self::Update(content) | Self::Put(content) => match content {
                Content::Value(bytes) => value(bytes),
                Content::Counter(_) => Ok(()),
                Content::List(elements) => elements.iter().try_for_each(value),
                Content::Set(members) => members.iter().try_for_each(key),
                Content::Map(entries) => {
                    entries.iter().try_for_each(|(k, v)| key(k).and_then(|()| value(v)))
                }
                Content::CounterMap(entries) => entries.keys().try_for_each(key),
            },
            Self::CompareAndUpdate { from, to, .. } => {
                value(to).and(from.as_ref().map_or(Ok(()), value))
            }
            Self::Arm(bytes, _) | Self::Push(_, bytes) => value(bytes),
            Self::Insert(Entry::Pair(k, v)) => key(k).and_then(|()| value(v)),
            Self::Insert(Entry::Member(k) | Entry::Count(k, _))
            | Self::Erase(k)
            | Self::Contains(k)
            | Self::Find(k)
            | Self::AddTo(k, _) => key(k),
            Self::CompareAndInsert { key: k, from, to } => {
                key(k).and_then(|()| value(to)).and(from.as_ref().map_or(Ok(()), value))
            }
            _ => Ok(()),
        }
    }
}

fn within(what: &'static str, bytes: &[u8], limit: usize) -> Result<(), Error> {
    match bytes.len() {
        bytes if bytes > limit => Err(Error::TooLong { what, bytes, limit }),
        _ => Ok(()),
    }
}

/// Whether a key and a value of a map are within the limits.
pub(crate) fn check_entry(key: &[u8], value: &[u8]) -> Result<(), Error> {
    within("a key", key, LIMITS.key_bytes)?;
    within("a value", value, LIMITS.value_bytes)
}

/// An operation on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The object.
    pub key: Key,
    /// What is done to it.
    pub operation: Operation,
}

impl Call {
    /// `operation` on `key`.
    pub fn new(key: &Key, operation: Operation) -> Self {
        Self { key: key.clone(), operation }
    }

    /// Whether the object's type has the operation and nothing is too long; drivers ask first and
    /// answer with the error, so that all refuse the same.
    pub fn check(&self) -> Result<(), Error> {
        let (operation, kind) = (&self.operation, self.key.kind());
        if !operation.is_of(kind) {
            return Err(Error::NotOfKind { operation: operation.name(), kind });
        }
        operation.check_lengths(&LIMITS)
    }
}

/// What a store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is done.
    Done,
    /// Whether there was something, or it was as expected.
    Was(bool),
    /// All of an object; `None`: there is no such value or counter.
    Content(Option<Content>),
    /// A sum.
    Number(i64),
    /// An entry; `None`: there is none.
    Found(Option<Entry>),
    /// Entries.
    Size(u64),
    /// Milliseconds until a value ends.
    TimeLeft(Option<u64>),
    /// Some entries, and where the next page begins; `None`: this was the last.
    Page(Vec<Entry>, Option<Bytes>),
}
