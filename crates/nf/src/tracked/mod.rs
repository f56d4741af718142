//! State objects that all workers work on at once, in transactions.
//!
//! ```text
//! worker 0: Tracked ──▶ ┐ the object, once: words with versions (`anabranch-txn`)
//! worker 1: Tracked ──▶ ┘ and, for lifetimes, a timer wheel that is turned by who is alone
//!       └─ each with its worker's Transaction
//! ```
//!
//! An author calls them as he calls those of one worker. What is read is the state of one moment; what
//! is written is seen by nobody before the transaction commits, and by everybody after. Where an
//! operation cannot be done beside others (the length of a map, a full table, what may have come to
//! its end), the transaction runs again alone.
//!
//! Storing what is there already is no write, and to refresh a lifetime is none either.

/// Does something with the words that a value of a type packs into, and with zeroes behind them: as few as
/// fit are made, so that they stay in registers. No function: what it does is to be inlined, which a closure
/// is not always.
macro_rules! of_words {
    ($value:ident as $Type:ty, |$words:ident| $act:expr) => {
        match $crate::pack::words(<$Type>::BITS) {
            0..=2 => {
                let $words = $crate::tracked::filled::<$Type, 2>($value);
                $act
            }
            3..=4 => {
                let $words = $crate::tracked::filled::<$Type, 4>($value);
                $act
            }
            5..=8 => {
                let $words = $crate::tracked::filled::<$Type, 8>($value);
                $act
            }
            _ => {
                let $words = $crate::tracked::filled::<$Type, { $crate::pack::MOST_WORDS }>($value);
                $act
            }
        }
    };
}

mod allocator;
pub mod causes;
mod divided;
mod map;
mod noting;
mod profile;
mod scalar;
mod sets;
mod vector;
mod wheel;

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use anabranch_txn::{Domain, Entry, Trail, Transaction, Words};

use crate::key::Value;
use crate::pack::{MOST_WORDS, Pack, Unpack, words};

pub use allocator::SharedAllocator;
pub use divided::{Age, Ages, DividedSets, PacketSets};
pub use map::SharedMap;
pub use profile::{Object, Profile};
pub use scalar::{SharedCounter, SharedDistributed, TrackedL3};
pub use sets::{Found, OpenSet, SharedSets};
pub use vector::{SharedCell, SharedVector};

/// A worker's access to an object that all workers share.
pub struct Tracked<O> {
    object: Arc<O>,
    transaction: Arc<Transaction>,
}

impl<O> Tracked<O> {
    /// `object`, worked on in `transaction`.
    pub fn new(object: Arc<O>, transaction: &Arc<Transaction>) -> Self {
        Self { object, transaction: Arc::clone(transaction) }
    }
}

/// What the workers of a run share, while it is being made for one after the other.
pub struct Sharing {
    /// The worker's transactions.
    pub transaction: Arc<Transaction>,
    objects: BTreeMap<String, Arc<dyn Any + Send + Sync>>,
    /// Who watches, and the trail of the worker.
    watched: Option<(Arc<Profile>, Arc<Trail>)>,
}

impl Sharing {
    /// Of the first worker, nothing shared as yet.
    pub fn new(domain: &Arc<Domain>) -> Self {
        let transaction = Arc::new(Transaction::new(domain, 0));
        Self { transaction, objects: BTreeMap::new(), watched: None }
    }

    /// The same, watched by `profile`.
    #[must_use]
    pub fn watched_by(self, profile: &Arc<Profile>) -> Self {
        let trail = profile.trail(self.transaction.domain(), &self.transaction);
        Self { watched: Some((Arc::clone(profile), trail)), ..self }
    }

    /// Who watches, and the trail of the worker; `None`: nobody does.
    pub fn watched(&self) -> Option<&(Arc<Profile>, Arc<Trail>)> {
        self.watched.as_ref()
    }

    /// The same objects, for the next worker.
    #[must_use]
    pub fn next(self) -> Self {
        let worker = self.transaction.worker() + 1;
        let transaction = Arc::new(Transaction::new(self.transaction.domain(), worker));
        match self.watched {
            None => Self { transaction, ..self },
            Some((profile, _)) => {
                Self { transaction, objects: self.objects, watched: None }.watched_by(&profile)
            }
        }
    }

    /// The object `name`, made if it is not there; `None`: one of another type has that name.
    pub fn object<O: Send + Sync + 'static>(
        &mut self,
        name: &str,
        make: impl FnOnce(&Domain) -> O,
    ) -> Option<Tracked<O>> {
        let domain = self.transaction.domain();
        let object = self
            .objects
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(make(domain)) as Arc<dyn Any + Send + Sync>);
        let object = Arc::clone(object).downcast().ok()?;
        Some(Tracked::new(object, &self.transaction))
    }
}

/// Entries of keys and values of these types, with a deadline or without.
struct EntryOf<K, V, const DEADLINE: bool>(PhantomData<fn(K) -> V>);

impl<K: Value, V: Value, const DEADLINE: bool> Entry for EntryOf<K, V, DEADLINE> {
    const KEY: usize = words(K::BITS);
    const VALUE: usize = words(V::BITS);
    const DEADLINE: bool = DEADLINE;
}

/// Calls `act` with the words that a value packs into.
#[inline(always)]
pub(crate) fn with_words<T: Value, R>(value: &T, act: impl FnOnce(&[u64]) -> R) -> R {
    of_words!(value as T, |packed| act(&packed[..words(T::BITS)]))
}

#[inline(always)]
fn filled<T: Value, const N: usize>(value: &T) -> [u64; N] {
    const { assert!(words(T::BITS) <= MOST_WORDS, "larger than a shared object holds") };
    let mut bits = [0; N];
    value.pack(&mut Pack::new(&mut bits));
    bits
}

/// The value whose words these are.
#[inline(always)]
fn from_words<T: Value>(from: Words<'_>) -> T {
    match words(T::BITS) {
        0..=2 => copied::<T, 2>(from),
        3..=8 => copied::<T, 8>(from),
        _ => copied::<T, MOST_WORDS>(from),
    }
}

#[inline(always)]
fn copied<T: Value, const N: usize>(from: Words<'_>) -> T {
    T::unpack(&mut Unpack::new(&packed::<T, N>(from)))
}

/// The words of a value, and zeroes behind them.
#[inline(always)]
fn packed<T: Value, const N: usize>(from: Words<'_>) -> [u64; N] {
    const { assert!(words(T::BITS) <= MOST_WORDS, "larger than a shared object holds") };
    let mut bits = [0; N];
    from.copy_to(0, &mut bits[..words(T::BITS).min(N)]);
    bits
}

/// A key in words, as text.
fn text<K: Value>(packed: &[u64]) -> String {
    let mut bits = [0; MOST_WORDS];
    bits.iter_mut().zip(packed).for_each(|(bits, &word)| *bits = word);
    if packed.is_empty() {
        String::new()
    } else {
        format!("{:?}", K::unpack(&mut Unpack::new(&bits)))
    }
}
