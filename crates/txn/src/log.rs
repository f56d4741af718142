//! What a transaction keeps for itself: what it has read, copies of what it will change, what it will
//! raise or count when it commits. Of fixed size; a transaction that needs more runs alone.

use crate::memory::{LINE, Version, Words};
use crate::sync::{AtomicU64, Ordering, Own};

/// Names an object among all memories: the memory's number, and where in it its version stands. The
/// highest bit is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(u64);

const PLACE_BITS: u32 = 47;

impl Name {
    /// Of the first object of a memory.
    pub(crate) fn new(memory: u16) -> Self {
        Self(u64::from(memory) << PLACE_BITS)
    }

    /// The memory's number.
    #[inline(always)]
    pub(crate) fn memory(self) -> usize {
        (self.0 >> PLACE_BITS) as usize
    }

    /// A number that objects rarely share.
    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Where in the memory its version stands; its words follow.
    #[inline(always)]
    pub(crate) fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// Of what stands so many words further on.
    #[inline(always)]
    pub(crate) fn after(self, words: usize) -> Self {
        Self(self.0 + words as u64)
    }

    /// Its mark.
    #[inline(always)]
    pub(crate) fn mark(self) -> Mark {
        let (line, word) = (self.place() / LINE, self.place() % LINE);
        Mark::new((line + word * 29) as u64, Mark::salt(self.memory()))
    }
}

/// One bit of 256, which few objects that are used together share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Mark {
    /// Of the object on a memory's `line`th line, with the memory's [`salt`](Self::salt).
    #[inline(always)]
    pub(crate) fn new(line: u64, salt: u64) -> Self {
        Self(line ^ salt)
    }

    /// Keeps objects of the same number in several memories apart.
    #[inline(always)]
    pub(crate) fn salt(memory: usize) -> u64 {
        memory as u64 * 101
    }

    /// Which of four words it is in.
    #[inline(always)]
    pub(crate) fn word(self) -> usize {
        (self.0 >> 6 & 3) as usize
    }

    /// It, in its word.
    #[inline(always)]
    pub(crate) fn bit(self) -> u64 {
        1 << (self.0 & 63)
    }
}

/// They lie on the stack while a transaction is made: few where threads of a model checker have a small one.
const READS: usize = if cfg!(any(loom, shuttle)) { 128 } else { 4_096 };
const WRITES: usize = 512;
const SHADOW_WORDS: usize = 8_192;
/// Effects of one transaction at most.
pub(crate) const EFFECTS: usize = 512;
/// Places of the index over writes: more than twice as many as there are.
const INDEX: usize = 2_048;

/// Entries of `N` numbers, up to a fixed number of them.
#[derive(Debug)]
pub(crate) struct Entries<const N: usize> {
    entries: Box<[[Own; N]]>,
    len: Own,
}

impl<const N: usize> Entries<N> {
    pub(crate) fn new(most: usize) -> Self {
        let entries = (0..most).map(|_| std::array::from_fn(|_| Own::default())).collect();
        Self { entries, len: Own::default() }
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.len.set(0);
    }

    /// False: there is no room.
    #[inline(always)]
    pub(crate) fn push(&self, numbers: [u64; N]) -> bool {
        let len = self.len.get();
        let Some(entry) = self.entries.get(len as usize) else { return false };
        for at in 0..N {
            entry[at].set(numbers[at]);
        }
        self.len.set(len + 1);
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.len.get() as usize
    }

    /// Entry number `at`.
    pub(crate) fn get(&self, at: usize) -> Option<[u64; N]> {
        let entry = self.entries.get(at).filter(|_| at < self.len())?;
        Some(std::array::from_fn(|number| entry[number].get()))
    }

    /// Keeps the first `len` of them.
    pub(crate) fn truncate(&self, len: usize) {
        self.len.set(self.len.get().min(len as u64));
    }

    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = [u64; N]> + '_ {
        let entries = self.entries[..self.len()].iter();
        entries.map(|entry| std::array::from_fn(|at| entry[at].get()))
    }
}

/// What was read, and the version that it had. It lies in the transaction itself: each read of what is tracked
/// adds to it.
#[derive(Debug)]
pub(crate) struct Reads {
    names: [Own; READS],
    versions: [Own; READS],
    len: Own,
}

impl Reads {
    pub(crate) fn new() -> Self {
        let none = || std::array::from_fn(|_| Own::default());
        Self { names: none(), versions: none(), len: Own::default() }
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.len.set(0);
    }

    /// False: there is no room.
    #[inline(always)]
    pub(crate) fn push(&self, name: Name, version: Version) -> bool {
        let at = self.len();
        if at >= READS {
            return false;
        }
        self.names[at].set(name.0);
        self.versions[at].set(version.0);
        self.len.set(at as u64 + 1);
        true
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len.get() as usize
    }

    /// Whether there is no room for another.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == READS
    }

    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Name, Version)> + '_ {
        let (names, versions) = (&self.names[..self.len()], &self.versions[..self.len()]);
        names.iter().zip(versions).map(|(name, version)| (Name(name.get()), Version(version.get())))
    }
}

/// Copies of the objects that will be changed.
#[derive(Debug)]
pub(crate) struct Writes {
    entries: Box<[Entry]>,
    len: Own,
    words: Box<[AtomicU64]>,
    used: Own,
    /// From a hash of the name to the entry, in the low half; which transaction put it there, in the
    /// high one.
    index: Box<[Own]>,
    /// Which transaction this is, from 1 on.
    turn: Own,
}

#[derive(Debug, Default)]
struct Entry {
    name: Own,
    /// Where the copy begins, how long it is, and how many of its words are tracked.
    copy: [Own; 3],
}

/// An object that will be changed.
pub(crate) struct Write<'a> {
    pub(crate) name: Name,
    /// The copy, with the version that the object had when it was made.
    pub(crate) words: Words<'a>,
    /// How many of its words are tracked; the rest are deadlines.
    pub(crate) tracked: usize,
}

impl Write<'_> {
    /// The version that the object had when it was copied.
    #[inline(always)]
    pub(crate) fn version(&self) -> Version {
        Version(self.words.version().load(Ordering::Relaxed))
    }
}

impl Writes {
    pub(crate) fn new() -> Self {
        Self {
            entries: (0..WRITES).map(|_| Entry::default()).collect(),
            len: Own::default(),
            words: (0..SHADOW_WORDS).map(|_| AtomicU64::new(0)).collect(),
            used: Own::default(),
            index: Own::zeroes(INDEX),
            turn: Own::new(1),
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len.get() as usize
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        if self.len() > 0 {
            self.len.set(0);
            self.used.set(0);
            match (self.turn.get() + 1) as u32 {
                // No entry of a turn that comes again may be left.
                0 => {
                    self.index.iter().for_each(|place| place.set(0));
                    self.turn.set(1);
                }
                turn => self.turn.set(turn.into()),
            }
        }
    }

    /// Where the index may name the copy of an object, in turn.
    #[inline]
    fn places(name: Name) -> impl Iterator<Item = usize> {
        let hash = name.hash() >> 32;
        (0..INDEX).map(move |step| (hash as usize + step) % INDEX)
    }

    /// The copy of an object, if there is one.
    #[inline(always)]
    pub(crate) fn find(&self, name: Name) -> Option<Words<'_>> {
        for place in Self::places(name) {
            let found = self.index[place].get();
            if found >> 32 != self.turn.get() {
                return None;
            }
            let entry = &self.entries[found as u32 as usize];
            if entry.name.get() == name.0 {
                return Some(self.copy(entry));
            }
        }
        None
    }

    #[inline(always)]
    fn copy(&self, entry: &Entry) -> Words<'_> {
        let [first, len, _] = [0, 1, 2].map(|at| entry.copy[at].get() as usize);
        Words(&self.words[first..first + len])
    }

    /// Room for a copy of `len` words, its version included; `None`: there is none. It does not count
    /// before [`keep`](Self::keep).
    #[inline(always)]
    pub(crate) fn room(&self, len: usize) -> Option<Words<'_>> {
        let room = self.words.get(self.used.get() as usize..)?.get(..len)?;
        (self.len() < self.entries.len()).then_some(Words(room))
    }

    /// The room that was given last holds a copy of an object, of whose words so many are tracked.
    #[inline(always)]
    pub(crate) fn keep(&self, name: Name, words: Words<'_>, tracked: usize) {
        let (at, first, len) = (self.len.get(), self.used.get(), words.0.len() as u64);
        let entry = &self.entries[at as usize];
        entry.name.set(name.0);
        entry.copy.iter().zip([first, len, tracked as u64]).for_each(|(own, word)| own.set(word));
        self.len.set(at + 1);
        self.used.set(first + len);
        let turn = self.turn.get();
        if let Some(place) = Self::places(name).find(|&place| self.index[place].get() >> 32 != turn)
        {
            self.index[place].set(turn << 32 | at);
        }
    }

    /// The objects that will be changed, but for the first so many.
    #[inline(always)]
    pub(crate) fn names_after(&self, first: usize) -> impl Iterator<Item = Name> {
        let entries = self.entries[..self.len()].get(first..).unwrap_or_default();
        entries.iter().map(|entry| Name(entry.name.get()))
    }

    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Write<'_>> {
        self.entries[..self.len()].iter().map(|entry| Write {
            name: Name(entry.name.get()),
            words: self.copy(entry),
            tracked: entry.copy[2].get() as usize,
        })
    }
}

/// An entry of an object that whoever is alone next is to look at, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The memory that it was noted for, by its number.
    pub(crate) memory: u16,
    pub(crate) entry: u32,
    pub(crate) tick: u32,
}

/// Notes, until the transaction commits.
#[derive(Debug)]
pub(crate) struct Notes(Entries<3>);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(Entries::new(EFFECTS))
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    /// False: there is no room.
    pub(crate) fn push(&self, note: Note) -> bool {
        self.0.push([note.memory.into(), note.entry.into(), note.tick.into()])
    }

    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Note> + '_ {
        let note = |[memory, entry, tick]: [u64; 3]| Note {
            memory: memory as u16,
            entry: entry as u32,
            tick: tick as u32,
        };
        self.0.iter().map(note)
    }
}

/// What is done to words that are not tracked when the transaction has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A deadline is raised to this one.
    Raise(u64),
    /// A count that nobody else adds to grows.
    Add(u64),
}

/// Effects, until the transaction commits.
#[derive(Debug)]
pub(crate) struct Effects(Entries<2>);

const ADD: u64 = 1 << 63;

impl Effects {
    pub(crate) fn new() -> Self {
        Self(Entries::new(EFFECTS))
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    /// An effect on word `index` of an object. False: there is no room.
    #[inline(always)]
    pub(crate) fn push(&self, name: Name, index: usize, effect: Effect) -> bool {
        let (kind, word) = match effect {
            Effect::Raise(word) => (0, word),
            Effect::Add(n) => (ADD, n),
        };
        self.0.push([name.after(1 + index).0 | kind, word])
    }

    /// Effects, each with the name of the word.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Name, Effect)> + '_ {
        self.0.iter().map(|[place, word]| {
            let effect = if place & ADD == 0 { Effect::Raise(word) } else { Effect::Add(word) };
            (Name(place & !ADD), effect)
        })
    }
}
