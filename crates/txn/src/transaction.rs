//! One worker's transactions, one after the other.

use std::sync::Arc;

use crate::domain::Domain;
use crate::log::{Effect, Effects, Name, Note, Notes, Reads, Write, Writes};
use crate::memory::{Deadline, Memory, Version, Words, raise};
use crate::sync::{AtomicU64, Ordering, Own, fence, spin_loop};

/// Why a transaction has to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// What it read or wants to write was changed by another worker meanwhile: the memory's number
    /// and the object.
    Conflict(u16, u32),
    /// It does what can be done only while nobody else is at work.
    Alone,
    /// It reads or writes more than there is room to remember.
    TooLarge,
}

/// Where a committed transaction stands in the order of all, where the domain keeps one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64);

const RUNNING: u64 = 0;
const DOOMED: u64 = 1;
const ALONE: u64 = 2;

/// Looks at an object that is being committed, before giving up on it: as long as a commit of a few
/// objects takes, no longer.
const LOOKS: u32 = 64;

/// A worker's transaction: begun, filled by reading and writing objects, and committed or dropped,
/// again and again.
///
/// What is read is the state of one moment, and stays so: when that cannot be kept up, nothing is
/// read any more, and the transaction is *doomed*. Whoever works in it is not interrupted: reads give
/// nothing and writes are forgotten until it comes to its end.
///
/// **Invariant**: every object that was read has the version that it had when the transaction began
/// or last caught up, when all that others had committed had been stored.
#[derive(Debug)]
pub struct Transaction {
    domain: Arc<Domain>,
    worker: usize,
    mode: Own,
    cause: [Own; 2],
    /// The latest version of each worker that is there for this transaction.
    seen: Box<[Own]>,
    commits: Own,
    place: Own,
    reads: Reads,
    writes: Writes,
    effects: Effects,
    notes: Notes,
}

impl Transaction {
    /// The transaction of worker `worker`.
    pub fn new(domain: &Arc<Domain>, worker: usize) -> Self {
        Self {
            domain: Arc::clone(domain),
            worker,
            mode: Own::new(RUNNING),
            cause: Default::default(),
            seen: Own::zeroes(domain.workers()),
            commits: Own::default(),
            place: Own::default(),
            reads: Reads::new(),
            writes: Writes::new(),
            effects: Effects::new(),
            notes: Notes::new(),
        }
    }

    /// The worker's number.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// What it works on.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Begins, beside others.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.forget();
        self.mode.set(RUNNING);
        self.look();
        self.place.set(self.domain.place());
    }

    /// Begins while nobody else is at work, and nobody else may begin before it has ended: objects
    /// are read and written where they are.
    pub(crate) fn begin_alone(&self) {
        self.forget();
        self.mode.set(ALONE);
        self.place.set(self.domain.place());
    }

    fn forget(&self) {
        self.reads.clear();
        self.writes.clear();
        self.effects.clear();
        self.notes.clear();
    }

    /// Takes note of how far the others have come.
    #[inline(always)]
    fn look(&self) {
        for (own, version) in self.seen.iter().zip(self.domain.versions()) {
            own.set(version.0);
        }
    }

    /// Whether nobody else is at work.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.mode.get() == ALONE
    }

    /// Whether it has to run again.
    #[inline(always)]
    pub fn is_doomed(&self) -> bool {
        self.mode.get() == DOOMED
    }

    /// It has to run again, with nobody beside it; without effect when it does.
    #[cold]
    pub fn require_alone(&self) {
        self.doom(Cause::Alone);
    }

    #[cold]
    fn doom(&self, cause: Cause) {
        if self.mode.get() != RUNNING {
            return;
        }
        self.mode.set(DOOMED);
        self.note_cause(cause);
    }

    fn note_cause(&self, cause: Cause) {
        let (kind, what) = match cause {
            Cause::Conflict(memory, object) => (0, u64::from(memory) << 32 | u64::from(object)),
            Cause::Alone => (1, 0),
            Cause::TooLarge => (2, 0),
        };
        self.cause[0].set(kind);
        self.cause[1].set(what);
    }

    /// Why it was doomed.
    fn why(&self) -> Cause {
        let what = self.cause[1].get();
        match self.cause[0].get() {
            0 => Cause::Conflict((what >> 32) as u16, what as u32),
            1 => Cause::Alone,
            _ => Cause::TooLarge,
        }
    }

    #[inline(always)]
    fn accepts(&self, version: Version) -> bool {
        // One that is locked names a worker that there is not.
        self.seen.get(version.worker()).is_some_and(|seen| version.0 <= seen.get())
    }

    /// Looks at an object, as this transaction has left it; `None`: the transaction is doomed.
    ///
    /// `look` may be called more than once, and see words that were never there together; then what
    /// it returns is not used.
    #[inline(always)]
    pub fn read<R>(
        &self,
        memory: &Memory,
        object: u32,
        mut look: impl FnMut(Words<'_>) -> R,
    ) -> Option<R> {
        let (place, words) = memory.object(object);
        let name = Name::new(memory, object);
        if self.mode.get() != RUNNING || self.writes.may_have(name) {
            return match self.own(memory, object)? {
                Some(copy) => Some(look(copy)),
                None => self.read_shared(memory, object, look),
            };
        }
        let version = Version(place.load(Ordering::Acquire));
        if self.accepts(version) {
            let seen = look(words);
            fence(Ordering::Acquire);
            if place.load(Ordering::Relaxed) == version.0 && self.reads.push(name, version) {
                return Some(seen);
            }
        }
        self.read_shared(memory, object, look)
    }

    /// The words that are this transaction's: a copy, or the object itself where nobody else is at
    /// work. `None`: doomed; `Some(None)`: it has none.
    #[inline]
    fn own<'a>(&'a self, memory: &'a Memory, object: u32) -> Option<Option<Words<'a>>> {
        match self.mode.get() {
            RUNNING => Some(self.writes.find(Name::new(memory, object))),
            ALONE => Some(Some(memory.object(object).1)),
            _ => None,
        }
    }

    #[inline(never)]
    fn read_shared<R>(
        &self,
        memory: &Memory,
        object: u32,
        look: impl FnMut(Words<'_>) -> R,
    ) -> Option<R> {
        let (version, seen) = self.steady(memory, object, look)?;
        if !self.reads.push(Name::new(memory, object), version) {
            self.doom(Cause::TooLarge);
            return None;
        }
        Some(seen)
    }

    /// Looks at an object while it has a version that is there for this transaction.
    fn steady<R>(
        &self,
        memory: &Memory,
        object: u32,
        mut look: impl FnMut(Words<'_>) -> R,
    ) -> Option<(Version, R)> {
        let (place, words) = memory.object(object);
        for _ in 0..LOOKS {
            let version = Version(place.load(Ordering::Acquire));
            if version.is_locked() {
                spin_loop();
                continue;
            }
            if !self.accepts(version) && !self.catch_up() {
                return None;
            }
            let seen = look(words);
            fence(Ordering::Acquire);
            if self.accepts(version) && place.load(Ordering::Relaxed) == version.0 {
                return Some((version, seen));
            }
        }
        self.doom(Cause::Conflict(memory.number(), object));
        None
    }

    /// Begins at a later moment, if what was read until now is still the same then.
    fn catch_up(&self) -> bool {
        self.look();
        self.place.set(self.domain.place());
        let changed = self.changed_reads().or_else(|| self.changed_copies());
        match changed {
            Some(name) => self.doom(conflict(name)),
            None => return true,
        }
        false
    }

    /// Version and words of an object.
    #[inline(always)]
    fn object(&self, name: Name) -> (&AtomicU64, Words<'_>) {
        self.domain.memories()[name.memory()].object(name.object())
    }

    fn version(&self, name: Name) -> Version {
        Version(self.object(name).0.load(Ordering::Acquire))
    }

    /// What it has read.
    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    /// What it wants to write.
    pub(crate) fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Who changed an object last, or is about to.
    pub(crate) fn changer(&self, name: Name) -> usize {
        self.version(name).changer()
    }

    /// An object that was read and has changed, or is being changed by another.
    fn changed_reads(&self) -> Option<Name> {
        let own = Version::locked_by(self.worker);
        let changed = |&(name, version): &(Name, Version)| {
            let now = self.version(name);
            // What it has locked itself had the version that it was copied with.
            now != version && now != own
        };
        self.reads.iter().find(changed).map(|(name, _)| name)
    }

    fn changed_copies(&self) -> Option<Name> {
        self.writes.iter().find(|write| self.version(write.name) != write.version).map(|w| w.name)
    }

    /// Changes an object, from the commit on; `None`: the transaction is doomed.
    #[inline]
    pub fn write<R>(
        &self,
        memory: &Memory,
        object: u32,
        change: impl FnOnce(Words<'_>) -> R,
    ) -> Option<R> {
        let words = match self.own(memory, object)? {
            Some(words) => words,
            None => self.copy(memory, object)?,
        };
        Some(change(words))
    }

    fn copy<'a>(&'a self, memory: &'a Memory, object: u32) -> Option<Words<'a>> {
        let shape = memory.shape();
        let len = shape.tracked + shape.deadlines;
        let Some(copy) = self.writes.room(len) else {
            self.doom(Cause::TooLarge);
            return None;
        };
        let fill = |words: Words<'_>| (0..len).for_each(|at| copy.set(at, words.get(at)));
        let (version, ()) = self.steady(memory, object, fill)?;
        self.writes.keep(Name::new(memory, object), version, copy);
        Some(copy)
    }

    /// Raises deadline word `index` of an object when the transaction commits, unless the object has
    /// got another generation by then. It does not count as a change.
    #[inline(always)]
    pub fn raise(&self, memory: &Memory, object: u32, index: usize, deadline: Deadline) {
        self.take_effect(memory, object, index, Effect::Raise(deadline.word()));
    }

    /// Adds to word `index` of an object, which no other worker writes and no transaction reads as it
    /// goes on, when the transaction commits. It does not count as a change.
    #[inline(always)]
    pub fn add(&self, memory: &Memory, object: u32, index: usize, n: u64) {
        self.take_effect(memory, object, index, Effect::Add(n));
    }

    #[inline(always)]
    fn take_effect(&self, memory: &Memory, object: u32, index: usize, effect: Effect) {
        match self.own(memory, object) {
            None => {}
            // A copy's deadlines go where the copy goes.
            Some(Some(words)) => apply(words, index, effect),
            Some(None) if self.effects.push(Name::new(memory, object), index, effect) => {}
            Some(None) => self.doom(Cause::TooLarge),
        }
    }

    /// Has whoever is alone next told to look at `entry` of a memory at `tick`, when the transaction
    /// commits.
    pub fn note(&self, memory: &Memory, entry: u32, tick: u32) {
        let note = Note { memory: memory.number(), entry, tick };
        match self.mode.get() {
            ALONE => self.domain.note(self.worker, self.place.get(), [note].into_iter()),
            RUNNING if !self.notes.push(note) => self.doom(Cause::TooLarge),
            _ => {}
        }
    }

    /// Ends a transaction that was begun alone: all has taken effect.
    pub(crate) fn place(&self) -> Place {
        Place(self.place.get())
    }

    /// Has all that was written take effect at once, if what was read is still the same.
    #[inline(always)]
    pub(crate) fn commit(&self) -> Result<Place, Cause> {
        if self.is_doomed() {
            return Err(self.why());
        }
        if self.writes.len() > 0 {
            self.commit_writes()?;
        }
        for (name, index, effect) in self.effects.iter() {
            apply(self.object(name).1, index, effect);
        }
        self.domain.note(self.worker, self.place.get(), self.notes.iter());
        Ok(self.place())
    }

    fn commit_writes(&self) -> Result<(), Cause> {
        self.lock_all()?;
        self.place.set(self.domain.place());
        // Between the locks, taken, and the versions of what was read, looked at: of two that read
        // what the other writes at least one sees the other's lock.
        fence(Ordering::SeqCst);
        if let Some(name) = self.changed_reads() {
            self.unlock(self.writes.iter());
            return Err(conflict(name));
        }
        for write in self.writes.iter() {
            self.store(&write);
        }
        let number = self.commits.get() + 1;
        self.commits.set(number);
        self.domain.publish(self.worker, number);
        let version = Version::new(self.worker, number);
        for write in self.writes.iter() {
            self.object(write.name).0.store(version.0, Ordering::Release);
        }
        Ok(())
    }

    fn lock_all(&self) -> Result<(), Cause> {
        let own = Version::locked_by(self.worker);
        for (at, write) in self.writes.iter().enumerate() {
            let place = self.object(write.name).0;
            let locked = place.compare_exchange(
                write.version.0,
                own.0,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if locked.is_err() {
                self.unlock(self.writes.iter().take(at));
                return Err(conflict(write.name));
            }
        }
        Ok(())
    }

    /// Gives objects back as they were.
    fn unlock<'a>(&self, writes: impl Iterator<Item = Write<'a>>) {
        for write in writes {
            self.object(write.name).0.store(write.version.0, Ordering::Release);
        }
    }

    /// Stores a copy in place of its object, which is locked.
    fn store(&self, write: &Write<'_>) {
        let memory = &self.domain.memories()[write.name.memory()];
        let (shape, words) = (memory.shape(), memory.object(write.name.object()).1);
        (0..shape.tracked).for_each(|at| words.set(at, write.words.get(at)));
        for at in shape.tracked..shape.tracked + shape.deadlines {
            let (wanted, place) = (Deadline::from_word(write.words.get(at)), &words.0[at]);
            let now = Deadline::from_word(place.load(Ordering::Relaxed));
            if wanted.generation == now.generation {
                raise(place, wanted);
            } else {
                place.store(wanted.word(), Ordering::Relaxed);
            }
        }
    }
}

fn conflict(name: Name) -> Cause {
    Cause::Conflict(name.memory() as u16, name.object())
}

fn apply(words: Words<'_>, index: usize, effect: Effect) {
    match effect {
        Effect::Raise(word) => raise(&words.0[index], Deadline::from_word(word)),
        Effect::Add(n) => words.set(index, words.get(index).wrapping_add(n)),
    }
}
