//! Which indices of an allocator are free: a bit for each, 64 to an object, and a bit for each 64 that are not.

use std::ops::Range;
use std::sync::Arc;

use crate::count::Count;
use crate::domain::Domain;
use crate::memory::{Memory, Shape};
use crate::sync::Own;
use crate::transaction::Transaction;

/// Where to look for a free index.
#[derive(Clone, Copy, Debug)]
pub struct Within {
    /// First index of the range.
    pub first: u32,
    /// Length of the range.
    pub count: u32,
    /// 1: any index; 2: only those of `start`'s parity.
    pub step: u32,
    /// Where to begin; the search wraps round within the range.
    pub start: u32,
}

/// Indices `0 .. len`, free at first.
///
/// Even and odd ones apart, since port parity (RFC 4787, section 4.2.2) asks for one kind: an index is the
/// `index / 2`th of its parity.
#[derive(Debug)]
pub struct Indices {
    /// Of the first, bits say which indices are in use; of each further one, which words of that before are full.
    /// So the first free index is found in a few words, however many are in use, and nobody who changes one of
    /// the others is in the way.
    levels: Vec<Level>,
    len: u32,
    used: Count,
    /// Where each worker looks next when it takes any, even indices first: in a part of its own at first, so that
    /// workers do not meet.
    cursors: Box<[Own]>,
    /// One for all instead, where the order of commits is kept, so that one worker that repeats it takes
    /// the same.
    cursor: Option<Arc<Memory>>,
}

/// Words of bits, one to an object, those of even indices first.
#[derive(Debug)]
struct Level {
    words: Arc<Memory>,
    /// How many there are of each parity.
    each: u32,
}

impl Level {
    /// A word of one parity, if there is such a one.
    #[inline(always)]
    fn object(&self, parity: u32, word: u32) -> Option<u32> {
        (word < self.each).then_some(parity * self.each + word)
    }
}

/// An index, as which of which parity.
type Spot = (u32, u32);

impl Indices {
    /// All of `len` free.
    pub fn new(domain: &Domain, len: u32) -> Self {
        let memory =
            |objects| domain.memory(Shape { objects, tracked: 1, deadlines: 0, apart: true });
        let mut levels: Vec<Level> = Vec::new();
        let mut bits = len.div_ceil(2);
        while bits > 1 || levels.is_empty() {
            bits = bits.div_ceil(64);
            levels.push(Level { words: memory(2 * bits), each: bits });
        }
        let part = u64::from(len) / domain.workers() as u64;
        let cursors = (0..domain.workers()).map(|worker| Own::new(worker as u64 * part)).collect();
        let cursor = domain.is_ordered().then(|| memory(1));
        Self { levels, len, used: Count::new(domain), cursors, cursor }
    }

    /// Indices in all.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Indices in use, as far as that has been committed.
    pub fn used(&self) -> u32 {
        self.used.sum() as u32
    }

    /// Indices in use exactly, for who is alone; `None`: the transaction will be alone when it runs
    /// again.
    pub fn count(&self, transaction: &Transaction) -> Option<u32> {
        self.used.read(transaction).map(|used| used as u32)
    }

    /// The words in which 64 indices each stand, and those which say of 64 words each that they are full.
    pub fn memories(&self) -> impl Iterator<Item = &Arc<Memory>> {
        self.levels.iter().map(|level| &level.words)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.memories().map(|words| words.bytes()).sum()
    }

    /// Takes `index`; false: it is in use, or the transaction doomed.
    pub fn take(&self, transaction: &Transaction, index: u32) -> bool {
        let (parity, at) = (index % 2, index / 2);
        let word = self.levels[0].object(parity, at / 64).filter(|_| index < self.len);
        let bits = word.and_then(|object| bits(transaction, &self.levels[0].words, object));
        bits.is_some_and(|bits| bits >> (at % 64) & 1 == 0)
            && self.mark(transaction, (parity, at)).is_some()
    }

    /// Gives `index` back.
    pub fn give(&self, transaction: &Transaction, index: u32) {
        let (parity, mut at) = (index % 2, index / 2);
        for level in &self.levels {
            let Some(object) = level.object(parity, at / 64) else { break };
            let was_full = transaction.write(&level.words, object, |words| {
                let before = words.get(0);
                words.set(0, before & !(1 << (at % 64)));
                before == u64::MAX
            });
            if was_full != Some(true) {
                break;
            }
            at /= 64;
        }
        self.used.add(transaction, -1);
    }

    /// Takes any free index: for each worker the next after the one it took last, so that an index
    /// rests before it is used again. `None`: there is none, or the transaction is doomed.
    pub fn take_any(&self, transaction: &Transaction) -> Option<u32> {
        if let Some(cursor) = &self.cursor {
            return self.take_next(transaction, cursor);
        }
        // Beside others one that is certainly free may not be found; alone none is missed.
        if !self.used.has_room(transaction, self.len) {
            return None;
        }
        let [even, odd] = [0, 1].map(|parity| self.number(parity, self.len));
        let cursor = &self.cursors[transaction.worker()];
        let start = cursor.get() as u32 % self.len;
        let stretches = match start.checked_sub(even) {
            None => [(0, start, even), (1, 0, odd), (0, 0, start)],
            Some(start) => [(1, start, odd), (0, 0, even), (1, 0, start)],
        };
        let mut taken = stretches.into_iter();
        let taken = taken.find_map(|(parity, from, to)| {
            Some((parity, self.next_free(transaction, parity, from, to)?))
        });
        let Some((parity, at)) = taken else {
            transaction.require_alone();
            return None;
        };
        cursor.set(u64::from(parity * even + at) + 1);
        Some(2 * at + parity)
    }

    fn take_next(&self, transaction: &Transaction, cursor: &Memory) -> Option<u32> {
        let start = transaction.read(cursor, 0, |words| words.get(0))? as u32;
        let all = Within { first: 0, count: self.len, step: 1, start };
        let index = self.take_within(transaction, all)?;
        transaction.write(cursor, 0, |words| words.set(0, u64::from(index) + 1))?;
        Some(index)
    }

    /// Takes an index of one parity that is the first free one at a glance: it matters only that it is free.
    fn next_free(
        &self,
        transaction: &Transaction,
        parity: u32,
        mut from: u32,
        to: u32,
    ) -> Option<u32> {
        while from < to {
            let glance = |words: &Memory, object| Some(words.object(object).1.get(0));
            let word = self.search(parity, from..to, glance)? / 64;
            let (from_here, to_here) = (from.max(word * 64), to.min(word.saturating_add(1) * 64));
            let object = self.levels[0].object(parity, word)?;
            let free =
                !bits(transaction, &self.levels[0].words, object)? & (u64::MAX << (from_here % 64));
            let at = word * 64 + free.trailing_zeros();
            if free != 0 && at < to_here {
                self.mark(transaction, (parity, at))?;
                return Some(at);
            }
            from = to_here;
        }
        None
    }

    /// Takes the first free index within `within`; `None`: there is none, or the transaction is
    /// doomed.
    pub fn take_within(&self, transaction: &Transaction, within: Within) -> Option<u32> {
        let first = within.first.min(self.len);
        let end = first.saturating_add(within.count).min(self.len);
        let start = if (first..end).contains(&within.start) { within.start } else { first };
        let kinds = if within.step == 2 { start % 2..start % 2 + 1 } else { 0..2 };
        let found = |from, to| {
            let of = |parity| {
                let (from, to) = (self.number(parity, from), self.number(parity, to));
                Some(2 * self.first_free(transaction, parity, from, to)? + parity)
            };
            kinds.clone().filter_map(of).min()
        };
        let index = found(start, end).or_else(|| found(first, start))?;
        self.mark(transaction, (index % 2, index / 2))?;
        Some(index)
    }

    /// How many indices of a parity lie before `index`.
    fn number(&self, parity: u32, index: u32) -> u32 {
        (index + 1 - parity) / 2
    }

    /// The first free index of a parity in `from .. to`.
    fn first_free(
        &self,
        transaction: &Transaction,
        parity: u32,
        from: u32,
        to: u32,
    ) -> Option<u32> {
        self.search(parity, from..to, |words, object| bits(transaction, words, object))
    }

    /// The first index of a parity in a range that is not in use by what `read` says.
    fn search(
        &self,
        parity: u32,
        range: Range<u32>,
        read: impl Fn(&Memory, u32) -> Option<u64>,
    ) -> Option<u32> {
        first_gap(range, |level, word| {
            let level = self.levels.get(level)?;
            read(&level.words, level.object(parity, word)?)
        })
    }

    /// Notes that an index is in use, and what is full thereby; `None`: the transaction is doomed.
    fn mark(&self, transaction: &Transaction, (parity, mut at): Spot) -> Option<()> {
        for level in &self.levels {
            let is_full =
                transaction.write(&level.words, level.object(parity, at / 64)?, |words| {
                    words.set(0, words.get(0) | 1 << (at % 64));
                    words.get(0) == u64::MAX
                })?;
            if !is_full {
                break;
            }
            at /= 64;
        }
        self.used.add(transaction, 1);
        Some(())
    }
}

/// A word of bits, as a transaction has left it; `None`: it is doomed.
fn bits(transaction: &Transaction, words: &Memory, object: u32) -> Option<u64> {
    transaction.read(words, object, |words| words.get(0))
}

/// The first bit in `range` that is not set, of bits with a summary: `word(0, n)` is the `n`th word of them, and
/// each bit of level `l + 1` says that a word of level `l` is full; `None` past the end of a level, and of the last.
/// Up while the rest of the word is full, then down to the gap: two words of each level at most.
#[inline]
pub fn first_gap(range: Range<u32>, word: impl Fn(usize, u32) -> Option<u64>) -> Option<u32> {
    let (mut at, mut to, mut level) = (range.start, range.end, 0);
    loop {
        if at >= to {
            return None;
        }
        let free = !word(level, at / 64)? & (u64::MAX << (at % 64));
        if free != 0 {
            at = at / 64 * 64 + free.trailing_zeros();
            break;
        }
        (at, to, level) = (at / 64 + 1, to.div_ceil(64), level + 1);
    }
    for level in (0..level).rev() {
        at = at * 64 + word(level, at)?.trailing_ones();
    }
    (at < range.end).then_some(at)
}
