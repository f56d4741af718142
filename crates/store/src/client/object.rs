//! One object, with the calls of its type.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use super::Client;
use crate::call::{End, Operation, Reply};
use crate::content::{Bytes, Content, Entry};
use crate::driver::unexpected;
use crate::error::Error;
use crate::key::Key;

/// Whether a call waits for the store.
pub trait Mode: Sized {
    /// What a call returns.
    type Answer<T>;

    /// Makes the call; `read` makes of the reply what the caller wants.
    fn call<T>(
        client: &Client<Self>,
        key: &Key,
        operation: Operation,
        read: impl FnOnce(Reply) -> Result<T, Reply>,
    ) -> Self::Answer<T>;
}

/// A call returns what the store answers.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {}

/// A call returns at once, with an error if too many wait already; what comes of it is counted in
/// [`Client::failures`].
#[derive(Clone, Copy, Debug)]
pub enum NoWait {}

impl Mode for Blocking {
    type Answer<T> = Result<T, Error>;

    fn call<T>(
        client: &Client<Self>,
        key: &Key,
        operation: Operation,
        read: impl FnOnce(Reply) -> Result<T, Reply>,
    ) -> Result<T, Error> {
        read(client.ask(key, operation)?).map_err(|reply| unexpected(key, &reply))
    }
}

impl Mode for NoWait {
    type Answer<T> = Result<(), Error>;

    fn call<T>(
        client: &Client<Self>,
        key: &Key,
        operation: Operation,
        _: impl FnOnce(Reply) -> Result<T, Reply>,
    ) -> Result<(), Error> {
        client.tell(key, operation)
    }
}

/// A type of object.
pub trait Typed {
    /// What it holds.
    type Content;
    /// As stores take it.
    fn wrap(content: Self::Content) -> Content;
    /// As callers want it; the same again if it is of another type.
    fn unwrap(content: Content) -> Result<Self::Content, Content>;
}

macro_rules! types {
    ($($(#[$comment:meta])* $name:ident: $content:ty;)*) => {$(
        $(#[$comment])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl Typed for $name {
            type Content = $content;
            fn wrap(content: $content) -> Content {
                Content::$name(content)
            }
            fn unwrap(content: Content) -> Result<$content, Content> {
                match content {
                    Content::$name(content) => Ok(content),
                    other => Err(other),
                }
            }
        }
    )*};
}
types! {
    /// A name-value pair.
    Value: Bytes;
    /// A counter.
    Counter: i64;
    /// A list.
    List: Vec<Bytes>;
    /// A set.
    Set: BTreeSet<Bytes>;
    /// A map.
    Map: BTreeMap<Bytes, Bytes>;
    /// A map of counters.
    CounterMap: BTreeMap<Bytes, i64>;
}

/// One object in a store.
pub struct Object<'a, T, M> {
    client: &'a Client<M>,
    key: Key,
    of: PhantomData<T>,
}

fn done(reply: Reply) -> Result<(), Reply> {
    if reply == Reply::Done { Ok(()) } else { Err(reply) }
}

fn was(reply: Reply) -> Result<bool, Reply> {
    if let Reply::Was(was) = reply { Ok(was) } else { Err(reply) }
}

fn size(reply: Reply) -> Result<u64, Reply> {
    if let Reply::Size(size) = reply { Ok(size) } else { Err(reply) }
}

fn number(reply: Reply) -> Result<i64, Reply> {
    if let Reply::Number(number) = reply { Ok(number) } else { Err(reply) }
}

fn member(reply: Reply) -> Result<Option<Bytes>, Reply> {
    match reply {
        Reply::Found(None) => Ok(None),
        Reply::Found(Some(Entry::Member(member))) => Ok(Some(member)),
        other => Err(other),
    }
}

impl<'a, T: Typed, M> Object<'a, T, M> {
    pub(super) fn new(client: &'a Client<M>, key: Key) -> Self {
        Self { client, key, of: PhantomData }
    }

    /// Its key in the store.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

impl<T: Typed, M: Mode> Object<'_, T, M> {
    fn call<R>(
        &self,
        operation: Operation,
        read: impl FnOnce(Reply) -> Result<R, Reply>,
    ) -> M::Answer<R> {
        M::call(self.client, &self.key, operation, read)
    }

    /// Makes it; [`Error::Exists`] if there is one. A collection exists while it has an entry.
    pub fn create(&self, content: T::Content) -> M::Answer<()> {
        self.call(Operation::Create(T::wrap(content)), done)
    }

    /// All that it holds; `None` if there is none, or it is a collection without entries.
    pub fn read(&self) -> M::Answer<Option<T::Content>> {
        self.call(Operation::Read, |reply| match reply {
            Reply::Content(None) => Ok(None),
            Reply::Content(Some(content)) if content.is_empty() => Ok(None),
            Reply::Content(Some(content)) => {
                T::unwrap(content).map(Some).map_err(|other| Reply::Content(Some(other)))
            }
            other => Err(other),
        })
    }

    /// Holds this instead; [`Error::Missing`] if there is none.
    pub fn update(&self, content: T::Content) -> M::Answer<()> {
        self.call(Operation::Update(T::wrap(content)), done)
    }

    /// Holds this, whether there was one or not.
    pub fn put(&self, content: T::Content) -> M::Answer<()> {
        self.call(Operation::Put(T::wrap(content)), done)
    }

    /// Removes it; true if there was one.
    pub fn delete(&self) -> M::Answer<bool> {
        self.call(Operation::Delete, was)
    }
}

impl<M: Mode> Object<'_, Value, M> {
    /// Holds `to` if it holds `from` (`None`: if there is none); true if it did. With `ttl_ms`, for
    /// as many milliseconds.
    pub fn compare_and_update(
        &self,
        from: Option<Bytes>,
        to: Bytes,
        ttl_ms: Option<u64>,
    ) -> M::Answer<bool> {
        self.call(Operation::CompareAndUpdate { from, to, ttl_ms }, was)
    }

    /// Holds this for `ttl_ms` milliseconds (at least 1), unless it is written again: a timer, kept
    /// where it outlives the instance. Whoever starts anew asks for the time left and goes on.
    pub fn arm(&self, value: Bytes, ttl_ms: u64) -> M::Answer<()> {
        self.call(Operation::Arm(value, ttl_ms), done)
    }

    /// Milliseconds until it ends; `None` if it does not, or is not there.
    pub fn time_left(&self) -> M::Answer<Option<u64>> {
        self.call(Operation::TimeLeft, |reply| match reply {
            Reply::TimeLeft(left) => Ok(left),
            other => Err(other),
        })
    }
}

impl<M: Mode> Object<'_, Counter, M> {
    /// Adds `by`, to 0 if there is none; the sum. By the store's own increment: if the answer is
    /// lost, asking again may count twice.
    pub fn add(&self, by: i64) -> M::Answer<i64> {
        self.call(Operation::Add(by), number)
    }
}

impl<M: Mode> Object<'_, List, M> {
    /// One more element at `end`; how many there are.
    pub fn push(&self, end: End, element: Bytes) -> M::Answer<u64> {
        self.call(Operation::Push(end, element), size)
    }

    /// Takes the element at `end`; `None` if there is none.
    pub fn pop(&self, end: End) -> M::Answer<Option<Bytes>> {
        self.call(Operation::Pop(end), member)
    }
}

impl<M: Mode> Object<'_, Set, M> {
    /// Puts in a member; true if it was in.
    pub fn insert(&self, member: Bytes) -> M::Answer<bool> {
        self.call(Operation::Insert(Entry::Member(member)), was)
    }
}

impl<M: Mode> Object<'_, Map, M> {
    /// Puts `value` under `key`; true if there was one.
    pub fn insert(&self, key: Bytes, value: Bytes) -> M::Answer<bool> {
        self.call(Operation::Insert(Entry::Pair(key, value)), was)
    }

    /// The value under `key`.
    pub fn find(&self, key: Bytes) -> M::Answer<Option<Bytes>> {
        self.call(Operation::Find(key), |reply| match reply {
            Reply::Found(None) => Ok(None),
            Reply::Found(Some(Entry::Pair(_, value))) => Ok(Some(value)),
            other => Err(other),
        })
    }

    /// Has `to` under `key` if there is `from` (`None`: nothing); true if there was.
    pub fn compare_and_insert(
        &self,
        key: Bytes,
        from: Option<Bytes>,
        to: Bytes,
    ) -> M::Answer<bool> {
        self.call(Operation::CompareAndInsert { key, from, to }, was)
    }
}

impl<M: Mode> Object<'_, CounterMap, M> {
    /// Sets the counter under `key`; true if there was one.
    pub fn insert(&self, key: Bytes, count: i64) -> M::Answer<bool> {
        self.call(Operation::Insert(Entry::Count(key, count)), was)
    }

    /// The counter under `key`.
    pub fn find(&self, key: Bytes) -> M::Answer<Option<i64>> {
        self.call(Operation::Find(key), |reply| match reply {
            Reply::Found(None) => Ok(None),
            Reply::Found(Some(Entry::Count(_, count))) => Ok(Some(count)),
            other => Err(other),
        })
    }

    /// Adds `by` to the counter under `key`, as [`add`](Object::add) does; the sum.
    pub fn add_to(&self, key: Bytes, by: i64) -> M::Answer<i64> {
        self.call(Operation::AddTo(key, by), number)
    }
}

/// A type whose entries have keys.
pub trait Keyed: Typed {}
impl Keyed for Set {}
impl Keyed for Map {}
impl Keyed for CounterMap {}

impl<T: Keyed, M: Mode> Object<'_, T, M> {
    /// Takes out the entry under `key`; true if there was one.
    pub fn erase(&self, key: Bytes) -> M::Answer<bool> {
        self.call(Operation::Erase(key), was)
    }

    /// Whether there is an entry under `key`.
    pub fn contains(&self, key: Bytes) -> M::Answer<bool> {
        self.call(Operation::Contains(key), was)
    }
}

/// A type that has entries.
pub trait Collection: Typed {}
impl Collection for List {}
impl Collection for Set {}
impl Collection for Map {}
impl Collection for CounterMap {}

impl<T: Collection, M: Mode> Object<'_, T, M> {
    /// Number of entries.
    pub fn size(&self) -> M::Answer<u64> {
        self.call(Operation::Size, size)
    }
}

impl<T: Collection> Object<'_, T, Blocking> {
    /// Every entry, about `page` of them at a time. One that is there throughout comes at least once,
    /// and perhaps twice while others write.
    pub fn iterate(&self, page: u32) -> impl Iterator<Item = Result<Entry, Error>> + '_ {
        let mut cursor = Some(Bytes::new());
        std::iter::from_fn(move || {
            let operation = Operation::Iterate { cursor: cursor.take()?, limit: page };
            let read = |reply| match reply {
                Reply::Page(entries, next) => Ok((entries, next)),
                other => Err(other),
            };
            Some(self.call(operation, read).map(|(entries, next)| {
                cursor = next;
                entries
            }))
        })
        .flat_map(|page| match page {
            Ok(entries) => entries.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }
}
