//! Which indices of an allocator are free: a bit for each, 64 to an object.

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

/// Even bits, odd bits.
const PARITY: [u64; 2] = [0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa];

/// Indices `0 .. len`, free at first.
#[derive(Debug)]
pub struct Indices {
    /// One tracked word: the bits of those in use.
    words: Arc<Memory>,
    len: u32,
    used: Count,
    /// Where each worker looks next when it takes any: in a part of its own at first, so that workers
    /// do not meet.
    cursors: Box<[Own]>,
    /// One for all instead, where the order of commits is kept, so that one worker that repeats it takes
    /// the same.
    cursor: Option<Arc<Memory>>,
}

impl Indices {
    /// All of `len` free.
    pub fn new(domain: &Domain, len: u32) -> Self {
        let shape = Shape { objects: len.div_ceil(64), tracked: 1, deadlines: 0, apart: true };
        let part = u64::from(len) / domain.workers() as u64;
        let cursors = (0..domain.workers()).map(|worker| Own::new(worker as u64 * part)).collect();
        let one = Shape { objects: 1, tracked: 1, deadlines: 0, apart: true };
        let cursor = domain.is_ordered().then(|| domain.memory(one));
        Self { words: domain.memory(shape), len, used: Count::new(domain), cursors, cursor }
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

    /// The words in which 64 indices each stand.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.words
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// Takes `index`; false: it is in use, or the transaction doomed.
    pub fn take(&self, transaction: &Transaction, index: u32) -> bool {
        index < self.len && self.first_free(transaction, index, index + 1, u64::MAX) == Some(index)
    }

    /// Gives `index` back.
    pub fn give(&self, transaction: &Transaction, index: u32) {
        let bit = 1 << (index % 64);
        transaction.write(&self.words, index / 64, |words| words.set(0, words.get(0) & !bit));
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
        let cursor = &self.cursors[transaction.worker()];
        let start = cursor.get() as u32 % self.len;
        let taken = self
            .next_free(transaction, start, self.len)
            .or_else(|| self.next_free(transaction, 0, start));
        match taken {
            Some(index) => cursor.set(u64::from(index) + 1),
            None => transaction.require_alone(),
        }
        taken
    }

    fn take_next(&self, transaction: &Transaction, cursor: &Memory) -> Option<u32> {
        let start = transaction.read(cursor, 0, |words| words.get(0))? as u32;
        let all = Within { first: 0, count: self.len, step: 1, start };
        let index = self.take_within(transaction, all)?;
        transaction.write(cursor, 0, |words| words.set(0, u64::from(index) + 1))?;
        Some(index)
    }

    /// As [`first_free`](Self::first_free), passing over words that are full at a glance: it matters
    /// only that the index is free, not that it is the first.
    fn next_free(&self, transaction: &Transaction, from: u32, to: u32) -> Option<u32> {
        let full = |word: &u32| self.words.object(*word).1.get(0) == u64::MAX;
        let mut words = (from / 64..to.div_ceil(64)).filter(|word| !full(word));
        words.find_map(|word| {
            let (first, last) = (from.max(word * 64), to.min(word.saturating_add(1) * 64));
            self.first_free(transaction, first, last, u64::MAX)
        })
    }

    /// Takes the first free index within `within`; `None`: there is none, or the transaction is
    /// doomed.
    pub fn take_within(&self, transaction: &Transaction, within: Within) -> Option<u32> {
        let first = within.first.min(self.len);
        let end = first.saturating_add(within.count).min(self.len);
        let start = if (first..end).contains(&within.start) { within.start } else { first };
        let wanted = if within.step == 2 { PARITY[(start & 1) as usize] } else { u64::MAX };
        self.first_free(transaction, start, end, wanted)
            .or_else(|| self.first_free(transaction, first, start, wanted))
    }

    /// Takes the first free index in `from .. to` whose bit is among `wanted`.
    fn first_free(
        &self,
        transaction: &Transaction,
        from: u32,
        to: u32,
        wanted: u64,
    ) -> Option<u32> {
        for word in from / 64..to.div_ceil(64) {
            let below = |index: u32| match index.saturating_sub(word * 64) {
                bits @ 0..64 => (1u64 << bits) - 1,
                _ => u64::MAX,
            };
            let wanted = wanted & below(to) & !below(from);
            let free = transaction.read(&self.words, word, |words| !words.get(0) & wanted)?;
            if free != 0 {
                let bit = free.trailing_zeros();
                let take = |words: crate::Words<'_>| words.set(0, words.get(0) | 1 << bit);
                transaction.write(&self.words, word, take)?;
                self.used.add(transaction, 1);
                return Some(word * 64 + bit);
            }
        }
        None
    }
}
