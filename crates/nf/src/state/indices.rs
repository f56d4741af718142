//! Which indices of an allocator are free.

use anabranch_txn::first_gap;

/// Levels of 64-way summary: 64^5 indices per parity, more than any allocator holds.
const LEVELS: usize = 5;

/// A set of used indices below a fixed length, with the first free one at or after any index found
/// in at most `2 × LEVELS` words: a bit per index, and above it a bit per *full* word, level on
/// level.
struct Used {
    levels: [Vec<u64>; LEVELS],
    len: u32,
}

impl Used {
    fn new(len: u32) -> Self {
        let mut words = len as usize;
        let levels = std::array::from_fn(|_| {
            words = words.div_ceil(64).max(1);
            vec![0; words]
        });
        Self { levels, len }
    }

    /// All of `len` used.
    fn full(len: u32) -> Self {
        let mut used = Self::new(len);
        used.levels.iter_mut().for_each(|level| level.fill(u64::MAX));
        used
    }

    fn contains(&self, index: u32) -> bool {
        self.levels[0][(index / 64) as usize] >> (index % 64) & 1 != 0
    }

    fn insert(&mut self, mut index: u32) {
        for level in &mut self.levels {
            let word = &mut level[(index / 64) as usize];
            *word |= 1 << (index % 64);
            if *word != u64::MAX {
                return;
            }
            index /= 64;
        }
    }

    fn remove(&mut self, mut index: u32) {
        for level in &mut self.levels {
            let word = &mut level[(index / 64) as usize];
            let was_full = *word == u64::MAX;
            *word &= !(1 << (index % 64));
            if !was_full {
                return;
            }
            index /= 64;
        }
    }

    /// The first free index in `from .. to`.
    fn first_free(&self, from: u32, to: u32) -> Option<u32> {
        first_gap(from..to.min(self.len), |level, word| {
            self.levels.get(level)?.get(word as usize).copied()
        })
    }
}

/// The free indices of an allocator, even and odd apart, since port parity (RFC 4787 §4.2.2) asks
/// for one kind.
pub struct Indices {
    parity: [Used; 2],
    len: u32,
    used: u32,
}

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

impl Within {
    /// First index, index to begin at, and end of the range, of `len` indices in all.
    pub(crate) fn bounds(self, len: u32) -> (u32, u32, u32) {
        let first = self.first.min(len);
        let end = first.saturating_add(self.count).min(len);
        let start = if (first..end).contains(&self.start) { self.start } else { first };
        (first, start, end)
    }
}

#[allow(clippy::len_without_is_empty, reason = "nobody asks it")]
impl Indices {
    /// Indices `0 .. len`, all free.
    pub fn new(len: u32) -> Self {
        Self { parity: [Used::new(len.div_ceil(2)), Used::new(len / 2)], len, used: 0 }
    }

    /// Indices `0 .. len`, all in use.
    pub fn all_used(len: u32) -> Self {
        Self { parity: [Used::full(len.div_ceil(2)), Used::full(len / 2)], len, used: len }
    }

    /// Indices in all.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Indices in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let words = |used: &Used| used.levels.iter().map(Vec::len).sum::<usize>();
        self.parity.iter().map(words).sum::<usize>() * size_of::<u64>()
    }

    /// Takes `index`; false when it is in use or past the end.
    pub fn take(&mut self, index: u32) -> bool {
        let used = &mut self.parity[(index & 1) as usize];
        if index >= self.len || used.contains(index >> 1) {
            return false;
        }
        used.insert(index >> 1);
        self.used += 1;
        true
    }

    /// Gives `index` back; false when it was free.
    pub fn give(&mut self, index: u32) -> bool {
        let used = &mut self.parity[(index & 1) as usize];
        if index >= self.len || !used.contains(index >> 1) {
            return false;
        }
        used.remove(index >> 1);
        self.used -= 1;
        true
    }

    /// Takes the first free index within `within`.
    pub fn take_within(&mut self, within: Within) -> Option<u32> {
        let (first, start, end) = within.bounds(self.len);
        let found = self
            .first_free(start, end, within.step, start & 1)
            .or_else(|| self.first_free(first, start, within.step, start & 1))?;
        self.take(found);
        Some(found)
    }

    fn first_free(&self, from: u32, to: u32, step: u32, parity: u32) -> Option<u32> {
        let of = |parity: u32| {
            // Index i of parity p is number (i - p) / 2 among its kind.
            let number = |index: u32| (index + 1 - parity) / 2;
            let found = self.parity[parity as usize].first_free(number(from), number(to))?;
            Some(found * 2 + parity)
        };
        match step {
            2 => of(parity),
            _ => match (of(0), of(1)) {
                (Some(even), Some(odd)) => Some(even.min(odd)),
                (even, odd) => even.or(odd),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn expected(used: &BTreeSet<u32>, len: u32, within: Within) -> Option<u32> {
        let end = within.first.saturating_add(within.count).min(len);
        let start =
            if (within.first..end).contains(&within.start) { within.start } else { within.first };
        let fits =
            |index: &u32| !used.contains(index) && (within.step == 1 || (index ^ start) & 1 == 0);
        (start..end).find(fits).or_else(|| (within.first..start.min(end)).find(fits))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

        #[test]
        fn agrees_with_a_sorted_set(
            len in 1u32..9_000,
            steps in prop::collection::vec((any::<u8>(), 0u32..9_000, 0u32..3_000, 1u32..3, 0u32..9_000), 1..400),
        ) {
            let (mut indices, mut used) = (Indices::new(len), BTreeSet::new());
            for (what, first, count, step, start) in steps {
                let within = Within { first: first % len, count, step, start: start % len };
                match what % 4 {
                    0 => prop_assert_eq!(indices.give(first), used.remove(&first)),
                    1 => prop_assert_eq!(indices.take(first), first < len && used.insert(first)),
                    _ => {
                        let wanted = expected(&used, len, within);
                        prop_assert_eq!(indices.take_within(within), wanted);
                        used.extend(wanted);
                    }
                }
                prop_assert_eq!(indices.used() as usize, used.len());
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "64 million indices")]
    fn looks_beyond_a_full_summary() {
        const LEN: u32 = 1 << 26;
        let mut indices = Indices::new(LEN);
        // What the summaries say when all but the last indices of each parity are taken.
        for used in &mut indices.parity {
            used.levels[0].fill(u64::MAX);
            used.remove(LEN / 2 - 1);
            for level in 1..LEVELS {
                let (below, above) = used.levels.split_at_mut(level);
                let full = |word: usize| below[level - 1].get(word) == Some(&u64::MAX);
                for (at, word) in above[0].iter_mut().enumerate() {
                    *word = (0..64).filter(|bit| full(at * 64 + bit)).map(|bit| 1 << bit).sum();
                }
            }
        }
        let all = Within { first: 0, count: LEN, step: 1, start: 0 };
        assert_eq!(indices.take_within(all), Some(LEN - 2));
        assert_eq!(indices.take_within(all), Some(LEN - 1));
        assert_eq!(indices.take_within(all), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million indices")]
    fn finds_the_last_free_index_of_a_million() {
        let mut indices = Indices::new(1_000_000);
        let all = Within { first: 0, count: u32::MAX, step: 1, start: 0 };
        for wanted in 0..1_000_000 {
            assert_eq!(indices.take_within(all), Some(wanted));
        }
        assert_eq!(indices.take_within(all), None);
        assert!(indices.give(777_777));
        assert_eq!(indices.take_within(Within { start: 999_999, ..all }), Some(777_777));
    }
}
