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

use anabranch_memory::prefetch;

use crate::sync::{AtomicU64, Ordering, Zeroed};

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

/// Objects of one shape, all words zero at first.
pub struct Memory {
    number: u16,
    shape: Shape,
    stride: usize,
    /// Words of an object that are used, its version included.
    used: usize,
    words: Zeroed<AtomicU64>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("number", &self.number).field("shape", &self.shape).finish()
    }
}

impl Memory {
    pub(crate) fn new(number: u16, shape: Shape) -> Self {
        let stride = shape.stride();
        let words = Zeroed::new(shape.objects as usize * stride);
        let used = 1 + shape.tracked + shape.deadlines;
        Self { number, shape, stride, used, words }
    }

    /// Its number among the memories of its domain.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Number and size of its objects.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// Version and words of an object.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline(always)]
    pub(crate) fn object(&self, object: u32) -> (&AtomicU64, Words<'_>) {
        let object = &self.words[object as usize * self.stride..][..self.used];
        (&object[0], Words(&object[1..]))
    }

    /// Fetches an object's lines, if there is such an object.
    #[inline(always)]
    pub fn prefetch(&self, object: u32) {
        let start = self.words.as_ptr().wrapping_add(object as usize * self.stride);
        for line in (0..self.stride).step_by(LINE) {
            prefetch(start.wrapping_add(line));
        }
    }
}

/// The words of an object, or of a copy that a transaction has of it: tracked ones, then deadlines.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub(crate) &'a [AtomicU64]);

impl Words<'_> {
    /// Word `index`.
    ///
    /// # Panics
    /// If the object has no such word.
    #[inline(always)]
    pub fn get(self, index: usize) -> u64 {
        // Whoever reads what others change looks at the version before and after.
        self.0[index].load(Ordering::Relaxed)
    }

    /// Sets word `index`.
    ///
    /// # Panics
    /// If the object has no such word.
    #[inline(always)]
    pub fn set(self, index: usize, word: u64) {
        self.0[index].store(word, Ordering::Relaxed);
    }

    /// Whether the words from `index` on are `words`.
    #[inline(always)]
    pub fn are(self, index: usize, words: &[u64]) -> bool {
        (index..).zip(words).all(|(at, &word)| self.get(at) == word)
    }

    /// Copies words from `index` on.
    #[inline(always)]
    pub fn copy_to(self, index: usize, into: &mut [u64]) {
        (index..).zip(into).for_each(|(at, word)| *word = self.get(at));
    }

    /// Sets words from `index` on.
    #[inline(always)]
    pub fn copy_from(self, index: usize, words: &[u64]) {
        (index..).zip(words).for_each(|(at, &word)| self.set(at, word));
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
