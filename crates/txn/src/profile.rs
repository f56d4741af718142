//! Who was in whose way: transactions retraced, operation by operation, when somebody profiles.
//!
//! ```text
//! operation ─▶ Trail: site, key, how much had been read and written when it began
//!                └─ what it wants to write ─▶ Footprints of this worker: object ─▶ site, key
//! given up  ─▶ the object in conflict ─▶ own operation, by the trail
//!                                     └▶ the other's, by the footprints of who changed it last
//! ```
//!
//! Transactions themselves know nothing of it: whoever profiles tells the trail of each operation
//! before and after, and of each transaction that is given up. Footprints are left while an operation is
//! under way, before its commit can be in anybody's way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::{Entries, Name};
use crate::sync::{AtomicU64, Ordering, Own};
use crate::transaction::{Cause, Transaction};

/// Operations of a transaction that are retraced; later ones count as the last of these.
const STEPS: usize = 4_096;
/// Words of their keys.
const KEY_WORDS: usize = 16_384;
/// Footprints of a worker: later ones take the place of older ones in the same place.
const PLACES_BITS: u32 = 15;
/// Bits of a site: what is above them tells objects apart that share a place.
const SITE_BITS: u32 = 48;
/// Different keys that are counted for each cause.
const MOST_KEYS: usize = 1_024;

/// An operation in an NF's text: a number of 48 bits that whoever profiles has a meaning for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(pub u64);

/// The words of a key or the index that an operation was about; empty where there is none.
pub type Key = Box<[u64]>;

/// Whether two operations in conflict were about the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// They were.
    Same,
    /// They were not: what is kept under both is one object to transactions.
    Different,
    /// The other operation, or one of the keys, is not known any more.
    Unknown,
}

/// Why a transaction was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Another worker changed what it had read or wanted to write.
    Conflict {
        /// The number of the memory whose object that was.
        memory: u16,
        /// What the other did first with that object in the transaction that changed it.
        theirs: Option<Site>,
        /// Whether both were about the same key.
        relation: Relation,
    },
    /// The operation can be done only with nobody beside it.
    Alone,
    /// It was the first to change what nobody had changed beside others.
    First,
    /// It read or wrote more than there is room to remember.
    TooLarge,
}

/// Transactions given up for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// How many.
    pub times: u64,
    /// Items that had been run in them, for nothing.
    pub items: u64,
    /// Items that ran alone for it.
    pub alone: u64,
    /// How often each key of the own operation was the one.
    pub keys: BTreeMap<Key, u64>,
}

impl GivenUp {
    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        self.times += other.times;
        self.items += other.items;
        self.alone += other.alone;
        for (key, times) in &other.keys {
            *self.keys.entry(key.clone()).or_default() += times;
        }
    }
}

/// What each worker has left on objects.
#[derive(Debug)]
pub struct Footprints(Box<[Box<[[AtomicU64; 2]]>]>);

/// An operation on an object, as its footprint tells.
type Print = (Site, u64);

impl Footprints {
    /// None as yet, of `workers` workers.
    pub fn new(workers: usize) -> Self {
        let places = || (0..1 << PLACES_BITS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]);
        Self((0..workers).map(|_| places().collect()).collect())
    }

    fn place(&self, worker: usize, name: Name) -> Option<(&[AtomicU64; 2], u64)> {
        let hash = name.hash();
        let place = self.0.get(worker)?.get((hash >> (64 - PLACES_BITS)) as usize)?;
        Some((place, hash << SITE_BITS))
    }

    fn leave(&self, worker: usize, name: Name, (site, mark): Print) {
        if let Some((place, tag)) = self.place(worker, name) {
            // The two may be read apart: then a key is taken for another, which only a count shows.
            place[1].store(mark, Ordering::Relaxed);
            place[0].store(tag | site.0, Ordering::Relaxed);
        }
    }

    fn of(&self, worker: usize, name: Name) -> Option<Print> {
        let (place, tag) = self.place(worker, name)?;
        let found = place[0].load(Ordering::Relaxed);
        let is_there = found != 0 && (found ^ tag) >> SITE_BITS == 0;
        let site = Site(found & ((1 << SITE_BITS) - 1));
        is_there.then(|| (site, place[1].load(Ordering::Relaxed)))
    }
}

/// An operation under way or done.
struct Step {
    site: Site,
    reads: usize,
    writes: usize,
    key: (usize, usize),
}

/// Why, and in which operation, where one is known.
type Reason = (Why, Option<Site>);

/// What was given up since it was asked, and for what the last time.
#[derive(Debug, Default)]
struct Noted {
    all: BTreeMap<Reason, GivenUp>,
    last: Option<Reason>,
}

/// What one worker's transactions do, operation by operation, and why they were given up.
#[derive(Debug)]
pub struct Trail {
    transaction: Arc<Transaction>,
    footprints: Arc<Footprints>,
    /// Site; reads and writes when it began; where its key is.
    steps: Entries<3>,
    words: Entries<1>,
    /// Whether the last of them is under way: 1 more than there were writes when it began.
    open: Own,
    /// The operation in which the transaction was doomed, counted from 1.
    blamed: Own,
    noted: Mutex<Noted>,
}

impl Trail {
    /// Of a worker's transactions; all workers have the same `footprints`.
    pub fn new(transaction: &Arc<Transaction>, footprints: &Arc<Footprints>) -> Self {
        Self {
            transaction: Arc::clone(transaction),
            footprints: Arc::clone(footprints),
            steps: Entries::new(STEPS),
            words: Entries::new(KEY_WORDS),
            open: Own::default(),
            blamed: Own::default(),
            noted: Mutex::default(),
        }
    }

    /// The transaction that is retraced.
    pub fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    /// A transaction begins.
    pub fn begin(&self) {
        self.steps.clear();
        self.words.clear();
        self.open.set(0);
        self.blamed.set(0);
    }

    /// An operation begins that is about `key`.
    #[inline]
    pub fn enter(&self, site: Site, key: &[u64]) {
        if self.transaction.is_alone() || self.transaction.is_doomed() {
            return;
        }
        let writes = self.transaction.writes().len() as u64;
        self.open.set(writes + 1);
        let reads = (self.transaction.reads().len() as u64) << 32;
        let at = (self.words.len() as u64) << 32;
        let fits = key.iter().all(|&word| self.words.push([word]));
        let len = if fits { key.len() as u64 } else { 0 };
        self.steps.push([site.0, reads | writes, at | len]);
    }

    /// It is done.
    #[inline]
    pub fn leave(&self) {
        let Some(before) = self.open.get().checked_sub(1) else { return };
        self.open.set(0);
        if self.transaction.is_doomed() {
            self.blamed.set(self.steps.len() as u64);
        }
        // Most operations only read.
        if self.transaction.writes().len() as u64 > before {
            self.leave_footprints(before as usize);
        }
    }

    /// On what the operation that is done has written: all but the first so many.
    fn leave_footprints(&self, before: usize) {
        let Some(step) = self.step(self.steps.len()) else { return };
        let (worker, print) = (self.transaction.worker(), (step.site, self.mark(&step)));
        for name in self.transaction.writes().names_after(before) {
            self.footprints.leave(worker, name, print);
        }
    }

    /// It is done, and has turned out to be about `key`: an index that was given out.
    pub fn leave_with(&self, key: &[u64]) {
        if let Some(step) = self.step(self.steps.len()).filter(|_| self.open.get() != 0) {
            let at = (self.words.len() as u64) << 32;
            if key.iter().all(|&word| self.words.push([word])) {
                let counts = (step.reads as u64) << 32 | step.writes as u64;
                self.steps.replace_last([step.site.0, counts, at | key.len() as u64]);
            }
        }
        self.leave();
    }

    /// The transaction is given up after so many items; `otherwise` is at fault where no operation
    /// is.
    #[cold]
    pub fn given_up(&self, cause: Cause, items: usize, otherwise: Option<Site>) {
        let (why, step) = match cause {
            Cause::Conflict(memory, object) => {
                match self.transaction.domain().name(memory, object) {
                    Some(name) => self.conflict(memory, name),
                    None => return,
                }
            }
            // Where there is a profile reads are logged.
            Cause::Overtaken => return,
            Cause::Settled(_) => (Why::First, self.step(self.blamed.get() as usize)),
            Cause::Alone => (Why::Alone, self.step(self.blamed.get() as usize)),
            Cause::TooLarge => (Why::TooLarge, self.step(self.blamed.get() as usize)),
        };
        let site = step.as_ref().map_or(otherwise, |step| Some(step.site));
        let is_conflict = matches!(why, Why::Conflict { .. });
        let mut noted = self.locked();
        noted.last = Some((why, site));
        let given_up = noted.all.entry((why, site)).or_default();
        given_up.times += 1;
        given_up.items += items as u64;
        // Of several the one at fault is tried again by itself first.
        given_up.alone += u64::from(items <= 1 && !is_conflict);
        if let Some(step) = step {
            let key = self.key(&step);
            if given_up.keys.len() < MOST_KEYS || given_up.keys.contains_key(&key) {
                *given_up.keys.entry(key).or_default() += 1;
            }
        }
    }

    /// An item that needed to be alone, as was known before it ran, was so.
    pub fn ran_alone(&self, why: Site) {
        self.locked().all.entry((Why::Alone, Some(why))).or_default().alone += 1;
    }

    /// An item runs alone for what the last transaction was given up for.
    #[cold]
    pub fn runs_irrevocably(&self) {
        let Noted { all, last } = &mut *self.locked();
        last.iter().for_each(|reason| all.entry(*reason).or_default().alone += 1);
    }

    /// What was given up, and why, since the last call; `None` for a site that nobody knows.
    pub fn take(&self) -> BTreeMap<Reason, GivenUp> {
        std::mem::take(&mut self.locked().all)
    }

    /// Nobody who holds it panics.
    fn locked(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conflict(&self, memory: u16, name: Name) -> (Why, Option<Step>) {
        let step = self.at_fault(name);
        let theirs = self.changed_by(name);
        let relation = match (&step, theirs) {
            (Some(step), Some((_, theirs))) if self.mark(step) != 0 && theirs != 0 => {
                if self.mark(step) == theirs { Relation::Same } else { Relation::Different }
            }
            _ => Relation::Unknown,
        };
        (Why::Conflict { memory, theirs: theirs.map(|(site, _)| site), relation }, step)
    }

    /// The own operation that looked at the object first.
    fn at_fault(&self, name: Name) -> Option<Step> {
        let read = self.transaction.reads().iter().position(|(read, _)| read == name);
        let written = self.transaction.writes().iter().position(|write| write.name == name);
        let began = |step: &Step| match (read, written) {
            (Some(read), _) => step.reads <= read,
            (None, Some(written)) => step.writes <= written,
            (None, None) => false,
        };
        let blamed = match self.blamed.get() as usize {
            0 => self.steps.len(),
            blamed => blamed,
        };
        let mut steps = (1..=self.steps.len()).rev().filter_map(|step| self.step(step));
        // What is in neither list was being looked at when the transaction was doomed.
        steps.find(began).or_else(|| self.step(blamed))
    }

    /// What changed the object: who holds it, or made the version that it has; if that is this
    /// worker itself (the other has let go of it without a change), any other that was there.
    fn changed_by(&self, name: Name) -> Option<Print> {
        let (own, last) = (self.transaction.worker(), self.transaction.changer(name));
        let others = (0..self.transaction.domain().workers()).filter(|&other| other != own);
        let first = Some(last).filter(|&last| last != own).into_iter();
        first.chain(others).find_map(|worker| self.footprints.of(worker, name))
    }

    /// The operation of this number, counted from 1.
    fn step(&self, number: usize) -> Option<Step> {
        let [site, counts, key] = self.steps.get(number.checked_sub(1)?)?;
        Some(Step {
            site: Site(site),
            reads: (counts >> 32) as usize,
            writes: counts as u32 as usize,
            key: ((key >> 32) as usize, key as u32 as usize),
        })
    }

    fn key(&self, step: &Step) -> Key {
        self.words_of(step).collect()
    }

    fn words_of(&self, step: &Step) -> impl Iterator<Item = u64> {
        let (at, len) = step.key;
        (at..at + len).filter_map(|word| self.words.get(word)).map(|[word]| word)
    }

    /// A number that different keys rarely share; 0 for none.
    fn mark(&self, step: &Step) -> u64 {
        let mix = |mixed: u64, word: u64| {
            (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        if step.key.1 == 0 { 0 } else { self.words_of(step).fold(0x51_7cc1, mix) | 1 }
    }
}
