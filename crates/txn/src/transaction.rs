//! One worker's transactions, one after the other.

use std::sync::Arc;

use crate::domain::Domain;
use crate::log::{Effect, Effects, Mark, Name, Note, Notes, Reads, Write, Writes};
use crate::memory::{Deadline, Memory, Shape, Version, Words, raise};
use crate::sync::{Apart, AtomicU64, Ordering, Own, fence, spin_loop};

/// Why a transaction has to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// What it read or wants to write was changed by another worker meanwhile: the memory's number
    /// and the object.
    Conflict(u16, u32),
    /// Another worker has committed meanwhile, and there is no log of what was read to see whether that matters.
    Overtaken,
    /// It does what can be done only while nobody else is at work.
    Alone,
    /// It is the first that changes objects of this memory, of which it was taken that nobody does.
    Settled(u16),
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
/// objects takes.
const LOOKS: u32 = 64;

/// How often what was seen may turn out to have changed meanwhile, before it is given up.
const TURNS: u64 = 4;

/// Workers whose versions are looked at at a glance.
const NEAR: usize = 64;

/// Objects may have to be looked for elsewhere than where they lie: there are copies, or the transaction does
/// not run beside others.
const SPECIAL: u64 = 1;

/// What is read is logged.
const LOGGED: u64 = 2;

/// Every operation is to be told of.
const CLOSE: u64 = 4;

/// Of one read: it has been looked at once in vain.
const LOOK: u64 = 8;

/// A worker's transaction: begun, filled by reading and writing objects, and committed or dropped,
/// again and again.
///
/// What is read is the state of one moment, and stays so: when that cannot be kept up, nothing is
/// read any more, and the transaction is *doomed*. Whoever works in it is not interrupted: reads give
/// nothing (or, of what is settled, what was there all along) and writes are forgotten until it comes to its
/// end.
///
/// **Invariant**: every object that was read has the version that it had when the transaction began
/// or last caught up, when all that others had committed had been stored.
///
/// One that is *unlogged* has no log of what it has read. It reads what was there when it began all the same,
/// but commits a change only if nobody else has committed since, and never catches up.
#[repr(align(128))]
pub struct Transaction {
    /// What reads have to mind: [`SPECIAL`], [`LOGGED`]; and [`CLOSE`].
    state: Own,
    /// A bit for each copy, by its object's name: what has none of them has no copy. All of them,
    /// unless it runs beside others.
    marks: [Own; 4],
    domain: Arc<Domain>,
    worker: usize,
    mode: Own,
    cause: [Own; 2],
    /// The latest version of each worker that is there for this transaction.
    seen: Apart,
    /// The same of the first workers, 0 of others: one look tells of nearly every version. Beyond any version where
    /// nobody else is at work.
    near: [Own; NEAR],
    commits: Own,
    place: Own,
    time: Own,
    /// No transaction beside this one is at this tick or later.
    horizon: Own,
    /// In which step it changes what it does, where steps are counted.
    step: Own,
    reads: Reads,
    writes: Writes,
    effects: Effects,
    notes: Notes,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Transaction {
    /// The transaction of worker `worker`.
    pub fn new(domain: &Arc<Domain>, worker: usize) -> Self {
        Self {
            state: Own::default(),
            marks: Default::default(),
            domain: Arc::clone(domain),
            worker,
            mode: Own::new(RUNNING),
            cause: Default::default(),
            seen: Apart::new(domain.workers()),
            near: std::array::from_fn(|_| Own::default()),
            commits: Own::default(),
            place: Own::default(),
            time: Own::default(),
            horizon: Own::default(),
            step: Own::default(),
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

    /// Time, as whoever works in it sees it: for what is allowed to be old.
    #[inline(always)]
    pub fn time(&self) -> u64 {
        self.time.get()
    }

    /// From now on it is `time` for who works in it.
    #[inline(always)]
    pub fn set_time(&self, time: u64) {
        self.time.set(time);
    }

    /// Nobody who works beside others is at `tick` or later, until somebody has been alone.
    #[inline(always)]
    pub fn set_horizon(&self, tick: u32) {
        self.horizon.set(tick.into());
    }

    /// What it works on.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Begins, beside others.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.begin_with(LOGGED);
    }

    /// Begins, beside others, without a log of what it reads.
    #[inline(always)]
    pub(crate) fn begin_unlogged(&self) {
        self.begin_with(0);
    }

    #[inline(always)]
    fn begin_with(&self, state: u64) {
        self.forget();
        self.mode.set(RUNNING);
        self.state.set(state);
        self.mark_all(0);
        self.look();
        self.place.set(self.domain.place());
    }

    /// Begins while nobody else is at work, and nobody else may begin before it has ended: objects
    /// are read and written where they are.
    pub(crate) fn begin_alone(&self) {
        if self.mode.get() == DOOMED
            && let Cause::Settled(memory) = self.why()
        {
            self.domain.unsettle(memory);
        }
        self.forget();
        self.mode.set(ALONE);
        self.state.set(SPECIAL);
        self.mark_all(u64::MAX);
        self.near.iter().zip(&*self.seen).for_each(|(near, _)| near.set(u64::MAX));
        self.place.set(self.domain.place());
        self.take_step();
    }

    fn forget(&self) {
        self.reads.clear();
        self.writes.clear();
        self.effects.clear();
        self.notes.clear();
    }

    #[inline(always)]
    fn mark_all(&self, bits: u64) {
        self.marks.iter().for_each(|marks| marks.set(bits));
    }

    /// Whether there may be a copy of the object, or it is not to be looked for at all.
    #[inline(always)]
    fn is_marked(&self, minds: u64, mark: impl FnOnce() -> Mark) -> bool {
        if minds & SPECIAL == 0 {
            return false;
        }
        let mark = mark();
        self.marks[mark.word()].get() & mark.bit() != 0
    }

    /// Whether what is read is logged.
    #[inline(always)]
    fn is_logged(&self) -> bool {
        self.state.get() & LOGGED != 0
    }

    /// Until it ends, every operation is to be told of.
    pub(crate) fn look_closely(&self) {
        self.state.set(self.state.get() | CLOSE);
    }

    /// Whether there may be something to tell of an operation that is done: it has changed something, it has doomed
    /// the transaction, or all are told of.
    #[inline(always)]
    pub(crate) fn is_worth_telling(&self) -> bool {
        self.state.get() & (SPECIAL | CLOSE) != 0
    }

    #[inline(always)]
    fn mark(&self, name: Name) {
        let mark = name.mark();
        self.state.set(self.state.get() | SPECIAL);
        self.marks[mark.word()].set(self.marks[mark.word()].get() | mark.bit());
    }

    /// Takes note of how far the others have come.
    #[inline(always)]
    fn look(&self) {
        for (own, version) in self.seen.iter().zip(self.domain.versions()) {
            own.set(version.0);
        }
        self.near.iter().zip(&*self.seen).for_each(|(near, own)| near.set(own.get()));
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
        self.state.set(SPECIAL);
        self.mark_all(u64::MAX);
        self.note_cause(cause);
    }

    fn note_cause(&self, cause: Cause) {
        let (kind, what) = match cause {
            Cause::Conflict(memory, object) => (0, u64::from(memory) << 32 | u64::from(object)),
            Cause::Alone => (1, 0),
            Cause::TooLarge => (2, 0),
            Cause::Settled(memory) => (3, memory.into()),
            Cause::Overtaken => (4, 0),
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
            2 => Cause::TooLarge,
            3 => Cause::Settled(what as u16),
            _ => Cause::Overtaken,
        }
    }

    /// Whether that was the version of an object when this transaction began or last caught up. What was seen of
    /// the object before its version was looked at was there at that moment, then: whatever has been committed to
    /// it since, or is being committed, has left it another version or its lock.
    #[inline(always)]
    fn accepts(&self, version: Version) -> bool {
        // One of a worker further on, or one that is locked, is greater than any that is there.
        version.0 <= self.near[version.worker() % NEAR].get() || self.accepts_far(version)
    }

    /// The same of workers further on.
    #[cold]
    #[inline(never)]
    fn accepts_far(&self, version: Version) -> bool {
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
        look: impl FnMut(Words<'_>) -> R,
    ) -> Option<R> {
        let shape = Shape { apart: false, ..memory.shape() };
        self.read_of(memory, (object, shape), look)
    }

    /// The same of an object whose shape is known when this is compiled: what is looked at then needs no
    /// check.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline(always)]
    pub fn read_of<R>(
        &self,
        memory: &Memory,
        (object, shape): (u32, Shape),
        mut look: impl FnMut(Words<'_>) -> R,
    ) -> Option<R> {
        let words = memory.object_of(object, shape);
        if memory.is_steady() {
            // Nobody can change it before this transaction has ended. One that is doomed sees nothing: its own
            // writes are dropped, and a loop that waits for one of them would not end.
            return (!self.is_doomed()).then(|| look(words));
        }
        // Care is called apart, and `look` is not: what it goes by and returns need not lie in memory. For the
        // same reason there is one number for all that decides.
        let mut minds = self.state.get();
        let mut words = words;
        if self.is_marked(minds, || memory.mark_of(object, shape)) {
            (words, minds) = self.view(memory, (object, shape), minds)?;
        }
        loop {
            let seen = look(words);
            fence(Ordering::Acquire);
            let version = Version(words.version().load(Ordering::Relaxed));
            let note = || self.reads.push(memory.name_of(object, shape), version);
            if self.accepts(version) && (minds & LOGGED == 0 || note()) {
                return Some(seen);
            }
            (words, minds) = self.view(memory, (object, shape), minds + LOOK)?;
        }
    }

    #[inline(always)]
    fn view<'a>(
        &'a self,
        memory: &'a Memory,
        (object, shape): (u32, Shape),
        minds: u64,
    ) -> Option<(Words<'a>, u64)> {
        let (words, minds) = self.view_with_care(memory, object, minds)?;
        Some((Words(&words.0[..shape.used()]), minds))
    }

    /// Where to look at an object that is tracked, whatever there may be: a copy, another who is changing it,
    /// nobody else, no more room; and what this read has to mind there.
    #[cold]
    #[inline(never)]
    fn view_with_care<'a>(
        &'a self,
        memory: &'a Memory,
        object: u32,
        minds: u64,
    ) -> Option<(Words<'a>, u64)> {
        let looks = minds / LOOK;
        let (name, words) = memory.object(object);
        if looks > 0 && self.reads.is_full() {
            self.doom(Cause::TooLarge);
        } else if looks == TURNS {
            self.doom(self.conflict(name));
        }
        if self.is_marked(self.state.get(), || name.mark())
            && let Some(own) = self.own(name, words)?
        {
            // What it would write anyway is none of what it has read.
            return Some((own, minds & !LOGGED));
        }
        self.await_version(name, words).then_some((words, minds | self.state.get()))
    }

    /// Waits while an object is being changed by another, and catches up with it if it was after this transaction
    /// began: until it has a version that is there for this one. False: the transaction is doomed.
    #[inline(never)]
    fn await_version(&self, name: Name, words: Words<'_>) -> bool {
        for _ in 0..LOOKS {
            let version = Version(words.version().load(Ordering::Acquire));
            if self.accepts(version) {
                return true;
            }
            if version.is_locked() {
                spin_loop();
            } else if !self.catch_up() {
                return false;
            }
        }
        self.doom(self.conflict(name));
        false
    }

    /// The words that are this transaction's: a copy, or the object itself where nobody else is at
    /// work. `None`: doomed; `Some(None)`: it has none.
    #[inline]
    fn own<'a>(&'a self, name: Name, words: Words<'a>) -> Option<Option<Words<'a>>> {
        match self.mode.get() {
            RUNNING => Some(self.writes.find(name)),
            ALONE => Some(Some(words)),
            _ => None,
        }
    }

    /// Begins at a later moment, if what was read until now is still the same then.
    fn catch_up(&self) -> bool {
        if !self.is_logged() {
            self.doom(Cause::Overtaken);
            return false;
        }
        self.look();
        self.place.set(self.domain.place());
        let changed = self.changed_reads().or_else(|| self.changed_copies());
        match changed {
            Some(name) => self.doom(self.conflict(name)),
            None => return true,
        }
        false
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
        now(self.domain.memories(), name).changer()
    }

    /// A worker that has committed since this transaction began, or last caught up.
    pub(crate) fn overtaker(&self) -> Option<usize> {
        let others = self.seen.iter().zip(self.domain.versions()).enumerate();
        let later = others.filter(|(_, (seen, version))| version.0 > seen.get());
        later.map(|(worker, _)| worker).find(|&worker| worker != self.worker)
    }

    /// An object that was read and has changed, or is being changed by another.
    fn changed_reads(&self) -> Option<Name> {
        let (memories, own) = (self.domain.memories(), Version::locked_by(self.worker));
        for (name, version) in self.reads.iter() {
            let now = now(memories, name);
            if now == version {
                continue;
            }
            // What it has locked itself had the version that it was copied with.
            if now != own {
                return Some(name);
            }
        }
        None
    }

    fn changed_copies(&self) -> Option<Name> {
        let memories = self.domain.memories();
        let changed = |write: &Write<'_>| now(memories, write.name) != write.version();
        self.writes.iter().find(changed).map(|write| write.name)
    }

    /// Changes an object, from the commit on; `None`: the transaction is doomed.
    #[inline(always)]
    pub fn write<R>(
        &self,
        memory: &Memory,
        object: u32,
        change: impl FnOnce(Words<'_>) -> R,
    ) -> Option<R> {
        let shape = Shape { apart: false, ..memory.shape() };
        self.write_of(memory, (object, shape), change)
    }

    /// The same of an object whose shape is known when this is compiled: what is changed then needs no check.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline(always)]
    pub fn write_of<R>(
        &self,
        memory: &Memory,
        (object, shape): (u32, Shape),
        change: impl FnOnce(Words<'_>) -> R,
    ) -> Option<R> {
        let words = match self.in_place(memory, (object, shape)) {
            Some(words) => {
                memory.note_change();
                words
            }
            None => Words(&self.copy_of(memory, object)?.0[..shape.used()]),
        };
        Some(change(words))
    }

    /// An object to be changed where it lies, by who is alone, who says so ([`Memory::note_change`]); `None`:
    /// others are beside.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline(always)]
    pub fn in_place<'a>(
        &self,
        memory: &'a Memory,
        (object, shape): (u32, Shape),
    ) -> Option<Words<'a>> {
        if !self.is_alone() {
            return None;
        }
        Some(memory.object_of(object, shape))
    }

    /// This transaction's copy of an object, made if there is none.
    #[inline(never)]
    fn copy_of<'a>(&'a self, memory: &'a Memory, object: u32) -> Option<Words<'a>> {
        let (name, words) = memory.object(object);
        let own = if self.is_marked(self.state.get(), || name.mark()) {
            self.own(name, words)?
        } else {
            None
        };
        own.or_else(|| self.copy(name, words, memory))
    }

    #[inline(always)]
    fn copy(&self, name: Name, words: Words<'_>, memory: &Memory) -> Option<Words<'_>> {
        if memory.is_settled() {
            self.doom(Cause::Settled(memory.number()));
            return None;
        }
        let Some(copy) = self.writes.room(words.0.len()) else {
            self.doom(Cause::TooLarge);
            return None;
        };
        for _ in 0..TURNS {
            copy_words(words.0, copy.0);
            fence(Ordering::Acquire);
            let version = Version(words.version().load(Ordering::Relaxed));
            if self.accepts(version) {
                copy.version().store(version.0, Ordering::Relaxed);
                self.writes.keep(name, copy, memory.shape().tracked);
                self.mark(name);
                return Some(copy);
            }
            if !self.await_version(name, words) {
                return None;
            }
        }
        self.doom(self.conflict(name));
        None
    }

    /// Raises deadline word `index` of an object when the transaction commits, unless the object has
    /// got another generation by then. It does not count as a change: others see it whose place in the order of
    /// all is before this one's. So what might have come to its end for one of them ([`set_horizon`]) is raised by
    /// who is alone.
    ///
    /// [`set_horizon`]: Self::set_horizon
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
        let (name, words) = memory.object(object);
        if !self.is_marked(self.state.get(), || name.mark()) {
            return self.remember((name, words), index, effect);
        }
        match self.own(name, words) {
            None => {}
            // A copy's deadlines go where the copy goes.
            Some(Some(words)) => apply(&words.0[1 + index], effect),
            Some(None) => self.remember((name, words), index, effect),
        }
    }

    #[inline(always)]
    fn remember(&self, (name, words): (Name, Words<'_>), index: usize, effect: Effect) {
        if matches!(effect, Effect::Raise(_)) {
            let deadline = Deadline::from_word(words.0[1 + index].load(Ordering::Relaxed));
            if u64::from(deadline.tick) < self.horizon.get() {
                return self.require_alone();
            }
        }
        if !self.effects.push(name, index, effect) {
            self.doom(Cause::TooLarge);
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

    /// Where it stands in the order of all.
    pub(crate) fn place(&self) -> Place {
        Place(self.place.get())
    }

    /// In which step it has changed what it did, where steps are counted: for what is changed outside of objects,
    /// once it has committed, before another begins. One that has changed no object takes it now, and another one
    /// each time.
    pub fn step(&self) -> u32 {
        if self.writes.len() == 0 && !self.is_alone() {
            self.take_step();
        }
        self.step.get() as u32
    }

    #[inline(always)]
    fn take_step(&self) {
        self.domain.step().iter().for_each(|&step| self.step.set(step.into()));
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
        let memories = self.domain.memories();
        for (name, effect) in self.effects.iter() {
            apply(word(memories, name), effect);
        }
        self.domain.note(self.worker, self.place.get(), self.notes.iter());
        Ok(self.place())
    }

    fn commit_writes(&self) -> Result<(), Cause> {
        let committed = self.commits.get();
        self.domain.announce(self.worker, committed);
        if let Err(cause) = self.lock_all().and_then(|()| self.validate()) {
            self.domain.publish(self.worker, committed);
            return Err(cause);
        }
        if self.domain.counts_steps() {
            self.tell_watchers();
        }
        let memories = self.domain.memories();
        for write in self.writes.iter() {
            let memory = &memories[write.name.memory()];
            store(&write, memory.words_at(write.name.place(), write.words.0.len()));
        }
        let number = committed + 1;
        self.commits.set(number);
        self.domain.publish(self.worker, number);
        let version = Version::new(self.worker, number);
        for write in self.writes.iter() {
            word(memories, write.name).store(version.0, Ordering::Release);
            memories[write.name.memory()].note_change();
        }
        Ok(())
    }

    /// Tells of what is locked and will be stored: whoever changes it next is told of later.
    #[inline(never)]
    fn tell_watchers(&self) {
        let step = self.step.get() as u32;
        for write in self.writes.iter() {
            let memory = &self.domain.memories()[write.name.memory()];
            let Some(watcher) = memory.watcher() else { continue };
            let before = Words(memory.words_at(write.name.place(), write.words.0.len()));
            watcher.changes(memory.number_of(write.name), before, write.words, step);
        }
    }

    /// Whether all that was read is still the same. What is to be changed is locked, and given back if not.
    #[inline(always)]
    fn validate(&self) -> Result<(), Cause> {
        self.place.set(self.domain.place());
        // Before what was read is looked at: whoever locks that afterwards takes a later one.
        self.take_step();
        // Between the commit, announced, with its locks, taken, and what others have announced and locked, looked
        // at: of two that read what the other writes at least one sees the other.
        fence(Ordering::SeqCst);
        if self.domain.is_still(self.worker, &self.seen) {
            return Ok(());
        }
        let changed = match self.is_logged() {
            false => Some(Cause::Overtaken),
            true => self.changed_reads().map(|name| self.conflict(name)),
        };
        let Some(cause) = changed else { return Ok(()) };
        self.unlock(self.writes.iter());
        Err(cause)
    }

    fn lock_all(&self) -> Result<(), Cause> {
        let (memories, own) = (self.domain.memories(), Version::locked_by(self.worker));
        for (at, write) in self.writes.iter().enumerate() {
            let locked = word(memories, write.name).compare_exchange(
                write.version().0,
                own.0,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if locked.is_err() {
                self.unlock(self.writes.iter().take(at));
                return Err(self.conflict(write.name));
            }
        }
        Ok(())
    }

    /// Gives objects back as they were.
    fn unlock<'a>(&self, writes: impl Iterator<Item = Write<'a>>) {
        let memories = self.domain.memories();
        for write in writes {
            word(memories, write.name).store(write.version().0, Ordering::Release);
        }
    }

    #[cold]
    fn conflict(&self, name: Name) -> Cause {
        let (memory, object) = self.domain.locate(name);
        Cause::Conflict(memory, object)
    }
}

/// The word of this name: of an object, its version.
#[inline(always)]
fn word(memories: &[Arc<Memory>], name: Name) -> &AtomicU64 {
    &memories[name.memory()].words_at(name.place(), 1)[0]
}

/// The version that an object has now.
#[inline(always)]
fn now(memories: &[Arc<Memory>], name: Name) -> Version {
    Version(word(memories, name).load(Ordering::Acquire))
}

#[inline(always)]
fn copy_words(from: &[AtomicU64], into: &[AtomicU64]) {
    for (into, word) in into.iter().zip(from) {
        into.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Stores a copy in place of its object, which is locked and stays so.
#[inline(always)]
fn store(write: &Write<'_>, into: &[AtomicU64]) {
    let (tracked, deadlines) = write.words.0.split_at(1 + write.tracked);
    let (into, ends) = into.split_at(1 + write.tracked);
    copy_words(&tracked[1..], &into[1..]);
    for (place, wanted) in ends.iter().zip(deadlines) {
        let wanted = Deadline::from_word(wanted.load(Ordering::Relaxed));
        let now = Deadline::from_word(place.load(Ordering::Relaxed));
        if wanted.generation == now.generation {
            raise(place, wanted);
        } else {
            place.store(wanted.word(), Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn apply(word: &AtomicU64, effect: Effect) {
    match effect {
        Effect::Raise(wanted) => raise(word, Deadline::from_word(wanted)),
        Effect::Add(n) => {
            word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        }
    }
}
