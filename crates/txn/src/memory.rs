//! Objects of words, each with a version.
//!
//! ```text
//! object = version | tracked words … | deadlines …        padded to 2, 4, 8, 16 … words
//! version = locked (1 bit) | worker (15 bits) | that worker's commit (48 bits)
//! deadline = generation (32 bits) | tick (32 bits)
//! ```
//!
//! An object never straddles more cache lines than it must. Tracked words change only while their
//! object is locked, and with its version. A deadline may also be *raised* without a lock: within a
//! generation its tick only grows, so that of several raises the latest counts, whatever their order.

use std::sync::OnceLock;

use anabranch_memory::prefetch;

use crate::log::{Mark, Name};
use crate::sync::{AtomicU64, Ordering, Own, Zeroed};
use crate::watcher::Watcher;

/// Words of a cache line.
pub(crate) const LINE: usize = 8;
type Line = [AtomicU64; LINE];
const LOCKED: u64 = 1 << 63;
const COMMIT_BITS: u32 = 48;
/// Only who is alone changes its objects.
const SETTLED: u64 = 1;
/// Whoever works on its objects has the turn.
const TURNS: u64 = 2;
/// Looks at a memory without a change in between until it is quiet, and one more.
const UNREST: u64 = 2;

/// Says which commit an object was last changed by, or that one is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) u64);

impl Version {
    pub(crate) fn new(worker: usize, commit: u64) -> Self {
        Self((worker as u64) << COMMIT_BITS | commit)
    }

    pub(crate) fn locked_by(worker: usize) -> Self {
        Self(LOCKED | (worker as u64) << COMMIT_BITS)
    }

    #[inline(always)]
    pub(crate) fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// The worker that made it; of one that is locked, more than there are workers.
    #[inline(always)]
    pub(crate) fn worker(self) -> usize {
        (self.0 >> COMMIT_BITS) as usize
    }

    /// The number of the commit that made it, among its worker's.
    #[inline(always)]
    pub(crate) fn commit(self) -> u64 {
        self.0 & ((1 << COMMIT_BITS) - 1)
    }

    /// The worker that made it or, of one that is locked, is making another.
    pub(crate) fn changer(self) -> usize {
        Self(self.0 & !LOCKED).worker()
    }
}

/// Number and size of a memory's objects.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Objects.
    pub objects: u32,
    /// Words of each that are tracked: changed by transactions, and read by them.
    pub tracked: usize,
    /// Deadlines of each.
    pub deadlines: usize,
    /// Each has cache lines of its own, so that those who change neighbours do not disturb each
    /// other.
    pub apart: bool,
}

impl Shape {
    /// Words of an object that are used, its version included.
    #[inline(always)]
    pub(crate) const fn used(self) -> usize {
        1 + self.tracked + self.deadlines
    }

    /// Whether objects of so many words have cache lines of their own, lie [apart](Self::apart) or not.
    #[inline(always)]
    const fn fills_lines(self) -> bool {
        self.apart || self.used() > LINE / 2
    }

    /// Words from one object to the next.
    #[inline(always)]
    const fn stride(self) -> usize {
        match self.used() {
            words if words > LINE => words.div_ceil(LINE) * LINE,
            _ if self.apart => LINE,
            words => words.next_power_of_two(),
        }
    }
}

/// Objects of one shape, all words zero at first. All workers look at it with every access: no line of it is also
/// somebody else's.
#[repr(align(128))]
pub struct Memory {
    number: u16,
    /// The name of its first object.
    first: Name,
    /// What goes into the marks of its objects.
    salt: u64,
    shape: Shape,
    stride: u32,
    /// Words of an object that are used, its version included.
    used: usize,
    /// Why there is nothing to validate: [`SETTLED`], [`TURNS`].
    steady: Own,
    /// For how many more looks at it it is taken to be changed beside others.
    unrest: Own,
    lines: Zeroed<Line>,
    watcher: OnceLock<Box<dyn Watcher>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("number", &self.number).field("shape", &self.shape).finish()
    }
}

impl Memory {
    pub(crate) fn new(number: u16, shape: Shape) -> Self {
        let (stride, used) = (shape.stride(), shape.used());
        let words = shape.objects as usize * stride;
        Self {
            number,
            first: Name::new(number),
            salt: Mark::salt(number.into()),
            shape,
            stride: stride as u32,
            used,
            steady: Own::default(),
            unrest: Own::default(),
            lines: Zeroed::new(words.div_ceil(LINE)),
            watcher: OnceLock::new(),
        }
    }

    /// Its number among the memories of its domain.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Number and size of its objects.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// From now on has `watcher` told of each change that is committed beside others, where the domain
    /// [counts steps](crate::Domain::count_steps). For who is alone; it stays the first.
    pub fn watch(&self, watcher: Box<dyn Watcher>) {
        self.watcher.get_or_init(|| watcher);
    }

    pub(crate) fn watcher(&self) -> Option<&dyn Watcher> {
        self.watcher.get().map(|watcher| &**watcher)
    }

    /// Whether nobody changes its objects while a transaction looks at them.
    #[inline(always)]
    pub(crate) fn is_steady(&self) -> bool {
        self.steady.get() != 0
    }

    /// Whether it is taken that nobody changes its objects beside others.
    pub(crate) fn is_settled(&self) -> bool {
        self.steady.get() & SETTLED != 0
    }

    /// For who is alone, or before transactions begin.
    pub(crate) fn settle(&self, settled: bool) {
        self.set(SETTLED, settled);
        self.note_change();
    }

    /// Workers take turns from now on, or do not any more. For who is alone, or before transactions begin.
    pub(crate) fn take_turns(&self, takes_turns: bool) {
        self.set(TURNS, takes_turns);
    }

    fn set(&self, why: u64, holds: bool) {
        let others = self.steady.get() & !why;
        self.steady.set(if holds { others | why } else { others });
    }

    /// An object of it was changed, or may soon be beside others.
    #[inline(always)]
    pub fn note_change(&self) {
        // Looked at first: it lies beside what all workers read.
        if self.unrest.get() != UNREST {
            self.unrest.set(UNREST);
        }
    }

    /// Whether nobody has changed an object of it for a while, though its objects are tracked.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_settled() && self.unrest.get() == 0
    }

    /// A while has gone by. A change that is noted meanwhile may be forgotten: what is taken to be quiet
    /// then is not wrong, but soon changed.
    pub(crate) fn calm_down(&self) {
        self.unrest.set(self.unrest.get().saturating_sub(1));
    }

    /// Which object has this name, which is of one of these.
    pub(crate) fn number_of(&self, name: Name) -> u32 {
        (name.place() / self.stride as usize) as u32
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        self.lines.as_flattened()
    }

    /// So many of its words from `place` on.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    pub(crate) fn words_at(&self, place: usize, len: usize) -> &[AtomicU64] {
        &self.words()[place..place + len]
    }

    /// An object.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline(always)]
    pub(crate) fn object(&self, object: u32) -> (Name, Words<'_>) {
        let at = self.place(object);
        (self.first.after(at), Words(&self.words()[at..at + self.used]))
    }

    /// An object of so many words as all of these have, and known to lie apart if `shape` says so or by their
    /// number: where it is known when this is compiled, offsets need no check.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline(always)]
    pub(crate) fn object_of(&self, object: u32, shape: Shape) -> Words<'_> {
        let stride = if shape.fills_lines() { shape.stride() } else { self.stride as usize };
        debug_assert_eq!((stride, shape.used()), (self.stride as usize, self.used));
        if stride == LINE {
            // One check of the number, instead of two of where its words lie, and none that needs both sides
            // for what it says.
            let Some(line) = self.lines.get(object as usize) else { no_such_object() };
            return Words(&line[..shape.used()]);
        }
        let at = object as usize * stride;
        Words(&self.words()[at..at + shape.used()])
    }

    /// The name of an object whose shape is known when this is compiled, as [`object_of`](Self::object_of) has it.
    #[inline(always)]
    pub(crate) fn name_of(&self, object: u32, shape: Shape) -> Name {
        match shape.fills_lines() {
            true => self.first.after(object as usize * shape.stride()),
            false => self.name(object),
        }
    }

    /// The mark of that name.
    #[inline(always)]
    pub(crate) fn mark_of(&self, object: u32, shape: Shape) -> Mark {
        match shape.stride() == LINE && shape.fills_lines() {
            true => Mark::new(object.into(), self.salt),
            false => self.name_of(object, shape).mark(),
        }
    }

    /// The name of an object, if there is such an object.
    #[inline(always)]
    pub(crate) fn name(&self, object: u32) -> Name {
        self.first.after(self.place(object))
    }

    #[inline(always)]
    fn place(&self, object: u32) -> usize {
        (u64::from(object) * u64::from(self.stride)) as usize
    }

    /// Fetches an object's lines, if there is such an object.
    #[inline(always)]
    pub fn prefetch(&self, object: u32) {
        let start = self.words().as_ptr().wrapping_add(self.place(object));
        for line in (0..self.stride as usize).step_by(LINE) {
            prefetch(start.wrapping_add(line));
        }
    }
}

#[cold]
#[inline(never)]
fn no_such_object() -> ! {
    panic!("there is no such object")
}

/// An object, or a copy that a transaction has of it: its version, then its words, tracked ones and
/// deadlines.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub(crate) &'a [AtomicU64]);

impl Words<'_> {
    /// Where its version stands.
    #[inline(always)]
    pub(crate) fn version(&self) -> &AtomicU64 {
        &self.0[0]
    }

    /// Word `index`.
    ///
    /// # Panics
    /// If the object has no such word.
    #[inline(always)]
    pub fn get(self, index: usize) -> u64 {
        // Whoever reads what others change looks at the version afterwards.
        self.0[1 + index].load(Ordering::Relaxed)
    }

    /// Sets word `index`.
    ///
    /// # Panics
    /// If the object has no such word.
    #[inline(always)]
    pub fn set(self, index: usize, word: u64) {
        self.0[1 + index].store(word, Ordering::Relaxed);
    }

    /// Whether the words from `index` on are `words`.
    ///
    /// # Panics
    /// If the object has no such words.
    #[inline(always)]
    pub fn are(self, index: usize, words: &[u64]) -> bool {
        let own = self.0[1 + index..][..words.len()].iter();
        own.zip(words).all(|(own, &word)| own.load(Ordering::Relaxed) == word)
    }

    /// Copies words from `index` on.
    ///
    /// # Panics
    /// If the object has no such words.
    #[inline(always)]
    pub fn copy_to(self, index: usize, into: &mut [u64]) {
        let own = self.0[1 + index..][..into.len()].iter();
        own.zip(into).for_each(|(own, word)| *word = own.load(Ordering::Relaxed));
    }

    /// Sets words from `index` on.
    ///
    /// # Panics
    /// If the object has no such words.
    #[inline(always)]
    pub fn copy_from(self, index: usize, words: &[u64]) {
        let own = self.0[1 + index..][..words.len()].iter();
        own.zip(words).for_each(|(own, &word)| own.store(word, Ordering::Relaxed));
    }

    /// Only the first `words`, those from `index` on.
    #[inline(always)]
    pub fn part(self, index: usize, words: usize) -> Self {
        // What stands before them takes the place of a version, which nobody asks a part for.
        Self(&self.0[index..][..1 + words])
    }
}

/// When something ends, and which life of it that is: an object that is made anew has a later
/// generation, so that who raised the deadline of the old one does not raise that of the new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline {
    /// Which life of it.
    pub generation: u32,
    /// When it ends; 0: it does not exist.
    pub tick: u32,
}

impl Deadline {
    /// As it stands in a word.
    #[inline(always)]
    pub fn from_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, tick: word as u32 }
    }

    /// The word that it stands in.
    #[inline(always)]
    pub fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.tick)
    }

    /// The same, in the next generation.
    #[must_use]
    pub fn renewed(self, tick: u32) -> Self {
        Self { generation: self.generation.wrapping_add(1), tick }
    }
}

/// Raises the deadline in `place`, unless it has got another generation or ends later anyway.
pub(crate) fn raise(place: &AtomicU64, wanted: Deadline) {
    let mut now = place.load(Ordering::Relaxed);
    loop {
        let current = Deadline::from_word(now);
        if current.generation != wanted.generation || current.tick >= wanted.tick {
            return;
        }
        let swap =
            place.compare_exchange_weak(now, wanted.word(), Ordering::Relaxed, Ordering::Relaxed);
        match swap {
            Ok(_) => return,
            Err(other) => now = other,
        }
    }
}
