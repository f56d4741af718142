//! Who was in whose way: transactions retraced, operation by operation, when somebody profiles.
//!
//! ```text
//! operation that wants to write ─▶ Footprints of this worker: object ─▶ site, key
//! given up ─▶ the object in conflict ─▶ the other's operation, by the footprints of who changed it last
//!                │                    └▶ own operation: the one that had written it, and not read it before
//!                └─ read: run again closely ─▶ Trail: site, key, which reads and writes are of each
//!                                              operation ─▶ own operation
//! ```
//!
//! To note each operation costs half as much as the operations themselves. So those that only read are noted
//! in transactions that are looked at *closely*: those that run after one that was given up, which do the same
//! again, and no more than one of [`SPARSE`]. What is given up besides counts as what was looked at.
//!
//! Transactions themselves know nothing of it: whoever profiles tells the trail of each operation, and of each
//! transaction that begins, commits and is given up. Footprints are left before the commit of what they are of can
//! be in anybody's way.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::{Entries, Name};
use crate::sync::{AtomicU64, Ordering, Own};
use crate::transaction::{Cause, Transaction};

/// Operations of a transaction that are retraced; later ones are not known.
const STEPS: usize = 4_096;
/// Words of their keys.
const KEY_WORDS: usize = 16_384;
/// Footprints of a worker: later ones take the place of older ones in the same place.
const PLACES_BITS: u32 = 15;
/// Bits of a site: what is above them tells objects apart that share a place.
const SITE_BITS: u32 = 48;
/// Different keys that are counted for each cause.
const MOST_KEYS: usize = 1_024;
/// Of so many transactions one is looked at closely at most, but for the first [`EARLY`].
const SPARSE: u64 = 16;
/// Transactions that may be looked at closely before there are many: short runs are known in full.
const EARLY: u64 = 512;
/// Transactions looked at closely in which the operation is sought that one before was given up for.
const SOUGHT: u32 = 4;

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
    /// Another worker committed, and there was no log of what had been read to see whether that mattered.
    Overtaken {
        /// The last operation of the other that wanted to write.
        theirs: Option<Site>,
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
    /// Adds as large a part of `more` as `share` is of `all`.
    fn take_share(&mut self, more: &mut Self, share: u64, all: u64) {
        let part = |whole: &mut u64| {
            let part = (u128::from(*whole) * u128::from(share) / u128::from(all.max(1))) as u64;
            *whole -= part;
            part
        };
        let (times, known) = (part(&mut more.times), self.times.max(1));
        self.times += times;
        self.items += part(&mut more.items);
        self.alone += part(&mut more.alone);
        // Keys are as hot among those that were not looked at.
        self.keys.values_mut().for_each(|key| *key += *key * times / known);
    }

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
pub struct Footprints(Box<[Walk]>);

/// One worker's.
#[derive(Debug)]
struct Walk {
    places: Box<[[AtomicU64; 2]]>,
    /// The site that it left one for last; 0: none.
    last: AtomicU64,
}

/// An operation on an object, as its footprint tells.
type Print = (Site, u64);

impl Footprints {
    /// None as yet, of `workers` workers.
    pub fn new(workers: usize) -> Self {
        let places = || (0..1 << PLACES_BITS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]);
        let walk = |_| Walk { places: places().collect(), last: AtomicU64::new(0) };
        Self((0..workers).map(walk).collect())
    }

    fn place(&self, worker: usize, name: Name) -> Option<(&[AtomicU64; 2], u64)> {
        let hash = name.hash();
        let place = self.0.get(worker)?.places.get((hash >> (64 - PLACES_BITS)) as usize)?;
        Some((place, hash << SITE_BITS))
    }

    fn leave(&self, worker: usize, name: Name, (site, mark): Print) {
        if let Some((place, tag)) = self.place(worker, name) {
            // The two may be read apart: then a key is taken for another, which only a count shows.
            place[1].store(mark, Ordering::Relaxed);
            place[0].store(tag | site.0, Ordering::Relaxed);
        }
    }

    /// The worker has left all that it does for an operation.
    fn pass(&self, worker: usize, site: Site) {
        self.0.get(worker).into_iter().for_each(|walk| walk.last.store(site.0, Ordering::Relaxed));
    }

    fn last(&self, worker: usize) -> Option<Site> {
        let last = self.0.get(worker)?.last.load(Ordering::Relaxed);
        (last != 0).then_some(Site(last))
    }

    fn of(&self, worker: usize, name: Name) -> Option<Print> {
        let (place, tag) = self.place(worker, name)?;
        let found = place[0].load(Ordering::Relaxed);
        let is_there = found != 0 && (found ^ tag) >> SITE_BITS == 0;
        let site = Site(found & ((1 << SITE_BITS) - 1));
        is_there.then(|| (site, place[1].load(Ordering::Relaxed)))
    }
}

/// An operation that is done: which of the transaction's reads and writes are its own, and where its key is.
struct Step {
    site: Site,
    reads: Range<usize>,
    writes: Range<usize>,
    key: Range<usize>,
}

impl Step {
    fn packed(&self) -> [u64; 3] {
        let pair = |range: &Range<usize>| (range.start as u64) << 16 | range.end as u64;
        [self.site.0, pair(&self.reads) << 32 | pair(&self.writes), pair(&self.key)]
    }

    fn unpacked([site, counts, key]: [u64; 3]) -> Self {
        let pair = |pair: u64| usize::from((pair >> 16) as u16)..usize::from(pair as u16);
        Self { site: Site(site), reads: pair(counts >> 32), writes: pair(counts), key: pair(key) }
    }
}

/// Why, and in which operation, where one is known.
type Reason = (Why, Option<Site>);

/// A transaction that was given up for an operation that is not known yet.
#[derive(Debug)]
struct Sought {
    memory: u16,
    name: Name,
    theirs: Option<Print>,
    items: u64,
    /// Transactions in which it is still looked for.
    left: u32,
}

/// What was given up since it was asked, and for what the last time.
#[derive(Debug, Default)]
struct Noted {
    all: BTreeMap<Reason, GivenUp>,
    last: Option<Reason>,
    sought: Vec<Sought>,
    /// How often each reason was found by seeking: of such are those that nothing is known of.
    found: BTreeMap<Reason, u64>,
}

impl Noted {
    fn count(&mut self, reason: Reason, items: u64) -> &mut GivenUp {
        let given_up = self.all.entry(reason).or_default();
        given_up.times += 1;
        given_up.items += items;
        given_up
    }
}

/// What one worker's transactions do, operation by operation, and why they were given up.
#[derive(Debug)]
pub struct Trail {
    transaction: Arc<Transaction>,
    footprints: Arc<Footprints>,
    steps: Entries<3>,
    words: Entries<1>,
    /// Whether all operations are noted: 1; 0: those that want to write.
    closely: Own,
    /// The reads and writes of the transaction up to the operation noted last.
    told: [Own; 2],
    /// Transactions begun, and those of them that were looked at closely.
    begun: [Own; 2],
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
            closely: Own::default(),
            told: Default::default(),
            begun: Default::default(),
            blamed: Own::default(),
            noted: Mutex::default(),
        }
    }

    /// The transaction that is retraced.
    pub fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    /// A transaction begins.
    #[inline(always)]
    pub fn begin(&self) {
        self.steps.clear();
        self.words.clear();
        self.blamed.set(0);
        self.told.iter().for_each(|told| told.set(0));
        let [all, closely] = &self.begun;
        all.set(all.get() + 1);
        closely.set(closely.get() + self.closely.get());
        if self.is_close() {
            self.transaction.look_closely();
        }
    }

    #[inline(always)]
    fn is_close(&self) -> bool {
        self.closely.get() != 0
    }

    /// Whether the operation that is done is to be [noted](Self::note): all are, or it wants to write, or has doomed
    /// the transaction. Asked after each.
    #[inline(always)]
    pub fn is_told_of(&self) -> bool {
        self.transaction.is_worth_telling() && self.has_more_to_tell()
    }

    #[cold]
    #[inline(never)]
    fn has_more_to_tell(&self) -> bool {
        let transaction = &*self.transaction;
        self.is_close()
            || transaction.writes().len() > self.told[1].get() as usize
            || transaction.is_doomed() && self.blamed.get() == 0
    }

    /// The operation, which was about `key`, is done.
    #[cold]
    #[inline(never)]
    pub fn note(&self, site: Site, key: &[u64]) {
        let transaction = &*self.transaction;
        if transaction.is_alone() || self.blamed.get() != 0 {
            return;
        }
        let at = self.words.len();
        if !key.iter().all(|&word| self.words.push([word])) {
            self.words.truncate(at);
        }
        let [reads, writes] = [transaction.reads().len(), transaction.writes().len()];
        let [first_read, first_write] = self.told.each_ref().map(|told| told.get() as usize);
        self.told[0].set(reads as u64);
        self.told[1].set(writes as u64);
        let step = Step {
            site,
            // What others have read, which are not noted, is not its own.
            reads: if self.is_close() { first_read } else { reads }..reads,
            writes: first_write..writes,
            key: at..self.words.len(),
        };
        self.steps.push(step.packed());
        if transaction.is_doomed() {
            self.blamed.set(self.steps.len() as u64);
        }
        let print = (site, self.mark(&step));
        for name in transaction.writes().names_after(first_write) {
            self.footprints.leave(transaction.worker(), name, print);
        }
        if writes > first_write {
            self.footprints.pass(transaction.worker(), site);
        }
    }

    /// The transaction has committed.
    #[inline(always)]
    pub fn committed(&self) {
        if self.is_close() {
            self.find_sought(&mut self.locked(), None);
        }
    }

    /// The transaction is given up after so many items; `otherwise` is at fault where no operation
    /// is.
    #[cold]
    pub fn given_up(&self, cause: Cause, items: usize, otherwise: Option<Site>) {
        let blamed = self.step(self.blamed.get() as usize);
        let mut noted = self.locked();
        let name = match cause {
            Cause::Conflict(memory, object) => self.transaction.domain().name(memory, object),
            _ => None,
        };
        if self.is_close() {
            self.find_sought(&mut noted, name);
        }
        let (why, step) = match cause {
            Cause::Conflict(memory, _) => {
                let Some(name) = name else { return };
                let theirs = self.changed_by(name);
                match self.at_fault(name, Some(name)) {
                    None if self.may_be_close() => {
                        let (items, left) = (items as u64, SOUGHT);
                        noted.last = Some((self.conflict(memory, None, theirs), None));
                        noted.sought.push(Sought { memory, name, theirs, items, left });
                        self.closely.set(1);
                        return;
                    }
                    step => (self.conflict(memory, step.as_ref(), theirs), step),
                }
            }
            Cause::Overtaken => {
                let other = self.transaction.overtaker();
                let theirs = other.and_then(|worker| self.footprints.last(worker));
                (Why::Overtaken { theirs }, None)
            }
            Cause::Settled(_) => (Why::First, blamed),
            Cause::Alone => (Why::Alone, blamed),
            Cause::TooLarge => (Why::TooLarge, blamed),
        };
        let is_conflict = matches!(why, Why::Conflict { .. } | Why::Overtaken { .. });
        let site = step.as_ref().map(|step| step.site);
        let site = if is_conflict { site } else { site.or(otherwise) };
        noted.last = Some((why, site));
        let given_up = noted.count((why, site), items as u64);
        // Of several the one at fault is tried again by itself first.
        given_up.alone += u64::from(items <= 1 && !is_conflict);
        self.count_key(given_up, step);
    }

    fn count_key(&self, given_up: &mut GivenUp, step: Option<Step>) {
        let Some(key) = step.map(|step| self.words_of(&step).collect::<Key>()) else { return };
        if given_up.keys.len() < MOST_KEYS || given_up.keys.contains_key(&key) {
            *given_up.keys.entry(key).or_default() += 1;
        }
    }

    /// Whether the transaction that begins next is to have a log of what it reads: it is looked at closely, or may be
    /// one of few.
    #[inline(always)]
    pub fn needs_read_log(&self) -> bool {
        self.is_close() || self.begun[0].get() < EARLY
    }

    /// Whether the next transactions may be looked at closely.
    fn may_be_close(&self) -> bool {
        let [all, closely] = self.begun.each_ref().map(Own::get);
        // At no fixed distance: what is done may come round in as many transactions.
        let is_drawn = all.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 0;
        closely < EARLY || is_drawn && closely < EARLY + all / SPARSE
    }

    /// The transaction, looked at closely, is at its end, doomed for an object or not: which of its operations those
    /// before were given up for.
    #[cold]
    fn find_sought(&self, noted: &mut Noted, doomed_for: Option<Name>) {
        let mut sought = std::mem::take(&mut noted.sought);
        sought.retain_mut(|one| {
            one.left -= 1;
            let step = self.at_fault(one.name, doomed_for);
            if step.is_some() || one.left == 0 {
                let why = self.conflict(one.memory, step.as_ref(), one.theirs);
                let reason = (why, step.as_ref().map(|step| step.site));
                *noted.found.entry(reason).or_default() += u64::from(step.is_some());
                self.count_key(noted.count(reason, one.items), step);
                return false;
            }
            true
        });
        self.closely.set(u64::from(!sought.is_empty()));
        noted.sought = sought;
    }

    /// An item that needed to be alone, as was known before it ran, was so.
    pub fn ran_alone(&self, why: Site) {
        self.locked().all.entry((Why::Alone, Some(why))).or_default().alone += 1;
    }

    /// An item runs alone for what the last transaction was given up for.
    #[cold]
    pub fn runs_irrevocably(&self) {
        let noted = &mut *self.locked();
        noted.last.iter().for_each(|reason| noted.all.entry(*reason).or_default().alone += 1);
        // Who runs alone is not looked at.
        self.seek_no_more(noted);
    }

    /// Nothing is known of what is still sought.
    fn seek_no_more(&self, noted: &mut Noted) {
        for one in std::mem::take(&mut noted.sought) {
            noted.count((self.conflict(one.memory, None, one.theirs), None), one.items);
        }
        self.closely.set(0);
    }

    /// What was given up, and why, since the last call; `None` for a site that nobody knows.
    pub fn take(&self) -> BTreeMap<Reason, GivenUp> {
        let noted = &mut *self.locked();
        self.seek_no_more(noted);
        shared_out(std::mem::take(&mut noted.all), std::mem::take(&mut noted.found))
    }

    /// Nobody who holds it panics.
    fn locked(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conflict(&self, memory: u16, ours: Option<&Step>, theirs: Option<Print>) -> Why {
        let relation = match (ours.map(|step| self.mark(step)), theirs) {
            (Some(ours), Some((_, theirs))) if ours != 0 && theirs != 0 => {
                if ours == theirs {
                    Relation::Same
                } else {
                    Relation::Different
                }
            }
            _ => Relation::Unknown,
        };
        Why::Conflict { memory, theirs: theirs.map(|(site, _)| site), relation }
    }

    /// The own operation that looked at the object first, if it was noted; the transaction may be `doomed_for` one.
    fn at_fault(&self, name: Name, doomed_for: Option<Name>) -> Option<Step> {
        let read = self.transaction.reads().iter().position(|(read, _)| read == name);
        let written = self.transaction.writes().iter().position(|write| write.name == name);
        let looked = |step: &Step| match (read, written) {
            (Some(read), _) => step.reads.contains(&read),
            (None, Some(written)) => step.writes.contains(&written),
            (None, None) => false,
        };
        if read.is_none() && written.is_none() && doomed_for == Some(name) {
            // It was being looked at when the transaction was doomed.
            return self.step(self.blamed.get() as usize);
        }
        (1..=self.steps.len()).filter_map(|step| self.step(step)).find(looked)
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
        self.steps.get(number.checked_sub(1)?).map(Step::unpacked)
    }

    fn words_of(&self, step: &Step) -> impl Iterator<Item = u64> {
        step.key.clone().filter_map(|word| self.words.get(word)).map(|[word]| word)
    }

    /// A number that different keys rarely share; 0 for none.
    fn mark(&self, step: &Step) -> u64 {
        let mix = |mixed: u64, word: u64| {
            (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        if step.key.is_empty() { 0 } else { self.words_of(step).fold(0x51_7cc1, mix) | 1 }
    }
}

/// What nothing is known of counts as what was found by seeking, of the same memory: what is known without is known of
/// all.
fn shared_out(
    mut all: BTreeMap<Reason, GivenUp>,
    found: BTreeMap<Reason, u64>,
) -> BTreeMap<Reason, GivenUp> {
    let memory_of = |(why, _): &Reason| match why {
        Why::Conflict { memory, .. } => Some(*memory),
        Why::Overtaken { .. } | Why::Alone | Why::First | Why::TooLarge => None,
    };
    let mut known: BTreeMap<u16, u64> = BTreeMap::new();
    for (reason, times) in &found {
        memory_of(reason).into_iter().for_each(|of| *known.entry(of).or_default() += times);
    }
    known.retain(|_, times| *times > 0);
    let mut unknown: BTreeMap<u16, GivenUp> = BTreeMap::new();
    all.retain(|reason, given_up| match (memory_of(reason), reason.1) {
        (Some(memory), None) if known.contains_key(&memory) => {
            unknown.entry(memory).or_default().add(given_up);
            false
        }
        _ => true,
    });
    for (reason, times) in found {
        let memory = memory_of(&reason);
        let more = memory.and_then(|memory| unknown.get_mut(&memory));
        let left = memory.and_then(|memory| known.get_mut(&memory));
        if let (Some(more), Some(left), Some(given_up)) = (more, left, all.get_mut(&reason)) {
            // The last of a memory's takes what is left.
            let of = std::mem::replace(left, *left - times);
            given_up.take_share(more, times, of);
        }
    }
    all
}
