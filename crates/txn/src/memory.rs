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

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use anabranch_memory::prefetch;

use crate::log::Name;
use crate::sync::{AtomicU64, Ordering, Own, Zeroed};

const LINE: usize = 8;
const LOCKED: u64 = 1 << 63;
const COMMIT_BITS: u32 = 48;

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
    /// Words from one object to the next.
    fn stride(self) -> usize {
        let words = 1 + self.tracked + self.deadlines;
        match words {
            words if words > LINE => words.div_ceil(LINE) * LINE,
            _ if self.apart => LINE,
            words => words.next_power_of_two(),
        }
    }
}

/// The words of all memories of a domain, one after the other: mapped when all of these are known, so
/// that an object is named by where it lies.
#[derive(Default)]
pub(crate) struct Arena {
    len: AtomicUsize,
    words: OnceLock<Zeroed<AtomicU64>>,
}

impl Arena {
    /// Room for `len` words more, in cache lines of its own, and where it begins.
    ///
    /// # Panics
    /// Once the words are there.
    fn reserve(&self, len: usize) -> usize {
        assert!(self.words.get().is_none(), "memory is made before transactions begin");
        self.len.fetch_add(len.next_multiple_of(LINE), Ordering::Relaxed)
    }

    /// All words.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.words.get_or_init(|| Zeroed::new(self.len.load(Ordering::Relaxed)))
    }
}

/// Objects of one shape, all words zero at first.
pub struct Memory {
    number: u16,
    shape: Shape,
    stride: usize,
    /// Words of an object that are used, its version included.
    used: usize,
    /// Where its first object begins.
    first: usize,
    /// Whether only who is alone changes its objects: then there is nothing to validate.
    settled: Own,
    arena: Arc<Arena>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("number", &self.number).field("shape", &self.shape).finish()
    }
}

impl Memory {
    pub(crate) fn new(number: u16, shape: Shape, arena: &Arc<Arena>) -> Self {
        let stride = shape.stride();
        let first = arena.reserve(shape.objects as usize * stride);
        let used = 1 + shape.tracked + shape.deadlines;
        let (settled, arena) = (Own::default(), Arc::clone(arena));
        Self { number, shape, stride, used, first, settled, arena }
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
        self.shape.objects as usize * self.stride * size_of::<u64>()
    }

    #[inline(always)]
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.get() != 0
    }

    /// For who is alone, or before transactions begin.
    pub(crate) fn settle(&self, settled: bool) {
        self.settled.set(settled.into());
    }

    /// Which object has this name, if one of these has.
    pub(crate) fn number_of(&self, name: Name) -> Option<u32> {
        let object = name.place().checked_sub(self.first)? / self.stride;
        u32::try_from(object).ok().filter(|&object| object < self.shape.objects)
    }

    /// An object.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline(always)]
    pub(crate) fn object(&self, object: u32) -> (Name, Words<'_>) {
        assert!(object < self.shape.objects, "there is no such object");
        let at = self.first + object as usize * self.stride;
        (Name::new(at), Words(&self.arena.words()[at..][..self.used]))
    }

    /// Fetches an object's lines, if there is such an object.
    #[inline(always)]
    pub fn prefetch(&self, object: u32) {
        let at = self.first + object as usize * self.stride;
        let start = self.arena.words().as_ptr().wrapping_add(at);
        for line in (0..self.stride).step_by(LINE) {
            prefetch(start.wrapping_add(line));
        }
    }
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
        // Whoever reads what others change looks at the version before and after.
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
