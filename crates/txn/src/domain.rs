//! What all workers of a run share.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::gate::Gate;
use crate::log::{Name, Note};
use crate::memory::{Memory, Shape, Version};
use crate::sync::{AtomicU64, Ordering, Own};
use crate::turns::{Turns, Way};

/// Workers at most: as many as a version has room for.
pub const MOST_WORKERS: usize = 1 << 15;

/// Notes, each with the place of its commit.
type Notes = Vec<(u64, Note)>;

/// What a worker has noted.
struct Noted {
    /// 1: something. Looked at first: who is alone would else take a line from each worker.
    any: AtomicU64,
    notes: Mutex<Notes>,
}

impl Noted {
    fn new() -> Self {
        Self { any: AtomicU64::new(0), notes: Mutex::default() }
    }

    fn add(&self, more: impl Iterator<Item = (u64, Note)>) {
        locked(&self.notes).extend(more);
        self.any.store(1, Ordering::Relaxed);
    }

    /// Hands it all to `act`. For who is alone.
    fn take(&self, act: impl FnMut((u64, Note))) {
        if self.any.load(Ordering::Relaxed) != 0 {
            self.any.store(0, Ordering::Relaxed);
            locked(&self.notes).drain(..).for_each(act);
        }
    }
}

/// Nobody who holds one panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memories that transactions of one run work on, and how far each worker's commits have come.
///
/// There is no clock and no counter that all commits go through. A worker counts its own; whoever
/// begins looks at all counts, and has with them the state at that moment: an object that was
/// changed by a commit beyond them is not yet there for it.
#[repr(align(128))]
pub struct Domain {
    /// How many commits each worker has made, twice, and one more while it makes the next.
    commits: Box<[CachePadded<AtomicU64>]>,
    made: Mutex<Vec<Arc<Memory>>>,
    /// All of them, once transactions have begun.
    memories: OnceLock<Box<[Arc<Memory>]>>,
    /// Who is in a transaction, and who is alone because it cannot commit beside others.
    pub(crate) gate: Gate,
    /// Whether memories settle, before transactions begin and again.
    settles: OnceLock<()>,
    /// What each worker has noted for who is alone next.
    noted: Box<[CachePadded<Noted>]>,
    /// What somebody alone has gathered of it and nobody has taken yet, by the numbers of memories.
    gathered: Mutex<Vec<Notes>>,
    /// The order of commits, where somebody wants to know it: it is a counter for all.
    order: Option<AtomicU64>,
    /// What gives the step of a commit, where somebody is told of changes.
    steps: OnceLock<Box<dyn Fn() -> u32 + Send + Sync>>,
    /// Whether transactions may go without a log of what they read.
    unlogged: bool,
    pub(crate) turns: Turns,
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

impl Domain {
    /// For `workers` workers. `ordered`: each commit is told its place in the order of all, and workers take
    /// turns every few batches.
    ///
    /// # Panics
    /// With no workers or more than [`MOST_WORKERS`].
    pub fn new(workers: usize, ordered: bool) -> Self {
        assert!((1..=MOST_WORKERS).contains(&workers), "{workers} workers");
        Self {
            commits: (0..workers).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            made: Mutex::default(),
            memories: OnceLock::new(),
            gate: Gate::new(workers),
            settles: OnceLock::new(),
            noted: (0..workers).map(|_| CachePadded::new(Noted::new())).collect(),
            gathered: Mutex::default(),
            order: ordered.then(|| AtomicU64::new(0)),
            steps: OnceLock::new(),
            unlogged: true,
            turns: Turns::new(workers, None, ordered),
        }
    }

    /// The same, whose workers always take turns, or never do, where that is said.
    #[must_use]
    pub fn with_turns(self, fixed: Option<bool>) -> Self {
        let turns = Turns::new(self.workers(), fixed, self.is_ordered());
        Self { turns, ..self }
    }

    /// The same, whose transactions always have a log of what they have read: for who measures what that costs.
    #[must_use]
    pub fn with_read_logs(self) -> Self {
        Self { unlogged: false, ..self }
    }

    /// Whether transactions may go without a log of what they read.
    pub(crate) fn may_be_unlogged(&self) -> bool {
        self.unlogged
    }

    /// Whether each commit is told its place in the order of all.
    pub fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// From now on whoever changes something does so in a step: `next` gives one later than all before, and is to
    /// be an [`AcqRel`](std::sync::atomic::Ordering::AcqRel) operation on one number. For who is alone; it stays
    /// the first.
    pub fn count_steps(&self, next: impl Fn() -> u32 + Send + Sync + 'static) {
        self.steps.get_or_init(|| Box::new(next));
    }

    /// The next step; `None`: nobody counts them.
    #[inline(always)]
    pub(crate) fn step(&self) -> Option<u32> {
        self.steps.get().map(|next| next())
    }

    /// Whether somebody counts steps.
    #[inline(always)]
    pub(crate) fn counts_steps(&self) -> bool {
        self.steps.get().is_some()
    }

    /// Hands the entries and ticks that were noted for a memory to `act`, in the order of commits where the
    /// domain keeps one. For who is alone.
    pub fn take_notes(&self, memory: &Memory, mut act: impl FnMut(u32, u32)) {
        let mut gathered = locked(&self.gathered);
        gathered.resize_with(self.memories().len(), Notes::new);
        for noted in &self.noted {
            noted.take(|one| gathered[usize::from(one.1.memory)].push(one));
        }
        let taken = &mut gathered[usize::from(memory.number())];
        taken.sort_by_key(|(place, _)| *place);
        taken.drain(..).for_each(|(_, note)| act(note.entry, note.tick));
    }

    pub(crate) fn note(&self, worker: usize, place: u64, notes: impl Iterator<Item = Note>) {
        let mut notes = notes.peekable();
        if notes.peek().is_some() {
            self.noted[worker].add(notes.map(|note| (place, note)));
        }
    }

    /// Workers.
    pub fn workers(&self) -> usize {
        self.commits.len()
    }

    /// Makes objects.
    ///
    /// # Panics
    /// Once a transaction has begun, and with more memories than 65,536.
    pub fn memory(&self, shape: Shape) -> Arc<Memory> {
        assert!(self.memories.get().is_none(), "memory is made before transactions begin");
        let mut memories = locked(&self.made);
        let number = u16::try_from(memories.len()).expect("fewer than 65,536 objects of state");
        let memory = Arc::new(Memory::new(number, shape));
        memory.take_turns(self.turns.way().takes_turns());
        memories.push(Arc::clone(&memory));
        memory
    }

    /// Takes it that transactions beside others change no object, until one would: that one runs alone,
    /// and from then on its memory is tracked, until it has been left alone for a while. What is read
    /// without being tracked costs little.
    ///
    /// Before transactions begin.
    pub fn settle(&self) {
        locked(&self.made).iter().for_each(|memory| memory.settle(true));
        self.settles.get_or_init(|| ());
    }

    /// Whether there is something to [settle again](Self::settle_again). To be called now and then, by
    /// one worker: of a memory that nobody has changed since the last call but one there is.
    pub(crate) fn has_quiet(&self) -> bool {
        if self.settles.get().is_none() {
            return false;
        }
        let found = self.memories().iter().any(|memory| memory.is_quiet());
        if !found {
            self.memories().iter().for_each(|memory| memory.calm_down());
        }
        found
    }

    /// Takes it again that nobody changes objects of memories that are quiet. For who is alone.
    pub(crate) fn settle_again(&self) {
        let quiet = self.memories().iter().filter(|memory| memory.is_quiet());
        quiet.for_each(|memory| memory.settle(true));
    }

    /// What workers did is over, and what they do next begins, unless it has. For who is alone.
    pub(crate) fn go_on(&self, way: Way) {
        if let Some(next) = self.turns.go_on(way, Instant::now()) {
            self.memories().iter().for_each(|memory| memory.take_turns(next.takes_turns()));
        }
    }

    /// All memories, once transactions have begun.
    #[inline(always)]
    pub(crate) fn memories(&self) -> &[Arc<Memory>] {
        self.memories.get_or_init(|| locked(&self.made).as_slice().into())
    }

    /// The objects of this memory are changed beside others from now on. For who is alone.
    pub(crate) fn unsettle(&self, number: u16) {
        if let Some(memory) = self.memories().get(usize::from(number)) {
            memory.settle(false);
        }
    }

    /// The number of the memory whose object has this name, and which of its objects that is.
    pub(crate) fn locate(&self, name: Name) -> (u16, u32) {
        let memory = self.memories().get(name.memory());
        memory.map(|memory| (memory.number(), memory.number_of(name))).unwrap_or_default()
    }

    /// The name of an object of the memory of this number, if there is one.
    pub(crate) fn name(&self, number: u16, object: u32) -> Option<Name> {
        let memory = self.memories().get(usize::from(number))?;
        (object < memory.shape().objects).then(|| memory.name(object))
    }

    /// The latest version that each worker has made.
    #[inline(always)]
    pub(crate) fn versions(&self) -> impl Iterator<Item = Version> + '_ {
        let version = |(worker, count): (usize, &CachePadded<AtomicU64>)| {
            // What a commit stored is seen by whoever sees its number.
            Version::new(worker, count.load(Ordering::Acquire) >> 1)
        };
        self.commits.iter().enumerate().map(version)
    }

    /// The worker is about to lock what its next commit changes; `number` is that of the last.
    #[inline(always)]
    pub(crate) fn announce(&self, worker: usize, number: u64) {
        self.commits[worker].store(number << 1 | 1, Ordering::Release);
    }

    /// All that the worker's commit `number` changed has been stored; or it has given the next up, and everything
    /// back.
    #[inline(always)]
    pub(crate) fn publish(&self, worker: usize, number: u64) {
        self.commits[worker].store(number << 1, Ordering::Release);
    }

    /// Whether no other worker than `worker` has committed since it had come as far as `seen`, or is about to.
    #[inline(always)]
    pub(crate) fn is_still(&self, worker: usize, seen: &[Own]) -> bool {
        let mut others = self.commits.iter().zip(seen).enumerate();
        others.all(|(other, (count, seen))| {
            let expected = Version(seen.get()).commit() << 1;
            other == worker || count.load(Ordering::Relaxed) == expected
        })
    }

    /// The next place in the order of all commits.
    pub(crate) fn place(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.fetch_add(1, Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::thread;
    use crate::tests::model;

    /// Two workers note beside each other, and one is alone meanwhile and afterwards: it has each note once, those of
    /// the other memory apart.
    #[test]
    fn what_is_noted_is_taken_once() {
        model(|| {
            let domain = Arc::new(Domain::new(2, false));
            let shape = Shape { objects: 1, tracked: 1, deadlines: 0, apart: true };
            let memories = [(); 2].map(|()| domain.memory(shape));
            domain.memories();
            let other = Arc::clone(&domain);
            let worker = thread::spawn(move || {
                for memory in 0..2 {
                    let inside = other.gate.enter(1);
                    let note = Note { memory, entry: 7, tick: 9 };
                    other.note(1, 0, [note].into_iter());
                    drop(inside);
                }
            });
            let mut taken: [Vec<(u32, u32)>; 2] = Default::default();
            let mut take = |memory: usize| {
                let alone = domain.gate.close();
                domain
                    .take_notes(&memories[memory], |entry, tick| taken[memory].push((entry, tick)));
                drop(alone);
            };
            take(1);
            worker.join().unwrap();
            take(0);
            take(1);
            assert_eq!(taken, [[(7, 9)], [(7, 9)]]);
        });
    }
}
