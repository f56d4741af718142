//! Steered values that shards lend one another: one whose own are used up takes one that is at home
//! elsewhere, and what comes to that home is sent after it.
//!
//! ```text
//! shard A: none of its own free ─▶ takes index i, at home in B, and says so here
//! reply to i ─▶ steered to B ─▶ finds nothing under i ─▶ looks here: lent to A ─▶ handled in A
//! ```
//!
//! All that a packet finds under the index stays in A, whoever A's worker is. Workers meet here only
//! when an index is taken or given back, and where something is looked up that is not there.

use std::fmt;
use std::sync::Arc;

use crate::state::homes::Homes;
use crate::state::indices::Within;
use crate::state::shared::{Borrowers, Commons};

/// Which indices of a steered allocator are in use, over all workers, and by whom those are that are
/// not used at home.
pub struct Loans {
    homes: Arc<Homes>,
    /// Whether a shard may borrow of another one.
    lends: bool,
    taken: Commons,
    lent: Borrowers,
}

/// In the place of a borrower: all shards have it, from the start or by a command.
const COMMON: u16 = u16::MAX - 1;

/// Places in a block of 64 indices, of which the first is even.
const EVEN: u64 = 0x5555_5555_5555_5555;

impl fmt::Debug for Loans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loans").field("lends", &self.lends).finish_non_exhaustive()
    }
}

impl Loans {
    /// All indices free; `lends` says whether a shard may borrow of another one.
    pub fn new(homes: Arc<Homes>, lends: bool) -> Self {
        Self { homes, lends, taken: Commons::default(), lent: Borrowers::default() }
    }

    /// Whether `index` is at home in `shard`.
    pub fn is_home(&self, index: u32, shard: u16) -> bool {
        self.homes.is_home(index, shard)
    }

    /// Takes `index`, of `len`, for its home `shard`; false when it is in use, or at home elsewhere.
    pub fn take(&self, len: u32, index: u32, shard: u16) -> bool {
        self.is_home(index, shard) && self.taken.lease_one(len, index)
    }

    /// Takes the first free index of a range, of `len` in all, that is at home in `shard`, or, where
    /// none is, one that is not.
    pub fn take_within(&self, len: u32, within: Within, shard: u16) -> Option<u32> {
        let (first, start, end) = within.bounds(len);
        if self.taken.is_full(len, first, end) {
            return None;
        }
        let kinds = if within.step == 2 { EVEN << (start & 1) } else { u64::MAX };
        let own = |from, to| self.homes.indices(shard, from, to);
        let takes =
            |&index: &u32| kinds >> (index % 64) & 1 != 0 && self.taken.lease_one(len, index);
        if let Some(index) = own(start, end).chain(own(first, start)).find(takes) {
            return Some(index);
        }
        let any = |from, to| self.taken.lease_first(len, from, to, kinds);
        let borrow = || any(start, end).or_else(|| any(first, start));
        let index = self.lends.then(borrow).flatten()?;
        self.lent.note(len, index, shard);
        Some(index)
    }

    /// Takes `index`, of `len`, for `shard`, wherever it is at home; false when it is in use.
    pub fn claim(&self, len: u32, index: u32, shard: u16) -> bool {
        let claimed = self.taken.lease_one(len, index);
        if claimed && !self.is_home(index, shard) {
            self.lent.note(len, index, shard);
        }
        claimed
    }

    /// Takes `index`, of `len`, for all shards alike, as each worker does for itself; false when a shard
    /// has it.
    pub fn claim_common(&self, len: u32, index: u32) -> bool {
        if self.taken.lease_one(len, index) {
            self.lent.note(len, index, COMMON);
            return true;
        }
        self.lent.of(index) == Some(COMMON)
    }

    /// Index `index`, of `len`, is free.
    pub fn give_back(&self, len: u32, index: u32) {
        self.lent.clear(index);
        self.taken.give_back(len, index);
    }

    /// The shard that has borrowed `index`.
    pub fn borrower(&self, index: u32) -> Option<u16> {
        self.lent.of(index).filter(|shard| *shard != COMMON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const LEN: u32 = 130;
    const SHARDS: u16 = 5;

    fn loans(lends: bool) -> Loans {
        let shards = (0..26).map(|column| (column * column + 3) % SHARDS).collect();
        Loans::new(Arc::new(Homes::new(shards, SHARDS).unwrap()), lends)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

        #[test]
        fn a_shard_gets_an_index_as_long_as_there_is_one(
            steps in prop::collection::vec((0..SHARDS, 0..LEN, 1..LEN, 1..=2u32, 0..LEN, any::<bool>()), 1..300),
        ) {
            let loans = loans(true);
            let mut taken: BTreeMap<u32, u16> = BTreeMap::new();
            for (shard, first, count, step, start, gives) in steps {
                if gives && let Some(index) = taken.keys().nth(start as usize % taken.len().max(1)) {
                    let index = *index;
                    loans.give_back(LEN, index);
                    taken.remove(&index);
                    prop_assert_eq!(loans.borrower(index), None);
                    continue;
                }
                let within = Within { first, count, step, start };
                let (_, begin, _) = within.bounds(LEN);
                let free = |index: &u32| {
                    !taken.contains_key(index) && (step == 1 || (index ^ begin) & 1 == 0)
                };
                let candidates: Vec<u32> =
                    (first..(first + count).min(LEN)).filter(free).collect();
                let own = candidates.iter().any(|&index| loans.is_home(index, shard));
                let got = loans.take_within(LEN, within, shard);
                prop_assert_eq!(got.is_some(), !candidates.is_empty());
                let Some(index) = got else { continue };
                prop_assert!(candidates.contains(&index));
                prop_assert_eq!(loans.is_home(index, shard), own, "it borrows only where it must");
                prop_assert_eq!(loans.borrower(index), (!own).then_some(shard));
                prop_assert!(!loans.take(LEN, index, shard));
                taken.insert(index, shard);
            }
        }
    }

    #[test]
    fn no_index_is_given_to_two() {
        let loans = loans(true);
        let all = Within { first: 0, count: LEN, step: 1, start: 77 };
        let mut given: Vec<u32> = std::thread::scope(|threads| {
            let worker = |shard| {
                let loans = &loans;
                threads.spawn(move || {
                    let take = || loans.take_within(LEN, all, shard);
                    std::iter::from_fn(take).collect::<Vec<_>>()
                })
            };
            let workers: Vec<_> = (0..3).map(worker).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        given.sort_unstable();
        assert_eq!(given, (0..LEN).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_lent_where_that_is_not_allowed() {
        let loans = loans(false);
        let all = Within { first: 0, count: LEN, step: 1, start: 0 };
        let own = std::iter::from_fn(|| loans.take_within(LEN, all, 2)).count();
        assert_eq!(own, (0..LEN).filter(|&index| loans.is_home(index, 2)).count());
    }

    #[test]
    fn what_all_shards_have_is_nobodys_and_what_one_has_is_not_for_all() {
        let loans = loans(true);
        assert!(loans.claim_common(LEN, 7) && loans.claim_common(LEN, 7), "each worker for itself");
        assert!(!loans.claim(LEN, 7, 1));
        assert_eq!(loans.borrower(7), None);
        let (home, away): (Vec<u16>, Vec<u16>) =
            (0..SHARDS).partition(|&shard| loans.is_home(9, shard));
        assert!(loans.claim(LEN, 9, away[0]) && !loans.claim(LEN, 9, home[0]));
        assert_eq!(loans.borrower(9), Some(away[0]));
        assert!(!loans.claim_common(LEN, 9));
    }
}
