//! The table of the hand-written loops: linear probing over slots of 32 bytes, half full at most.

use anabranch_nf::memory::{ZeroValid, Zeroed, prefetch};

/// What a flow is found by; its second word is not zero.
pub type Key = [u64; 2];

const FREE: Key = [0, 0];
/// Of a slot that has ended inside a chain.
const ENDED: Key = [1, 0];
/// 2^64 over the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
/// Slots looked at for expiry per batch: every one of a million within two seconds at 10 Mpps.
const SWEEP: usize = 4;

/// One flow: half a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Slot {
    /// What the flow is found by.
    pub key: Key,
    /// What the function keeps of it.
    pub value: u64,
    /// When it ends, in the unit of the function; 0: it has ended.
    pub deadline: u32,
    /// More of what the function keeps.
    pub extra: u32,
}

// SAFETY: zero is a valid value of every field, and says that the slot is free.
#[allow(unsafe_code)]
unsafe impl ZeroValid for Slot {}

/// Word by word: the compiler would load both into vectors.
#[inline(always)]
fn same(a: Key, b: Key) -> bool {
    a[0] == b[0] && a[1] == b[1]
}

/// The table.
pub struct Table {
    slots: Zeroed<Slot>,
    mask: usize,
    shift: u32,
    sweep: usize,
}

impl Table {
    /// Room for `flows`.
    pub fn new(flows: usize) -> Self {
        let len = (2 * flows).next_power_of_two().max(2);
        let shift = len.leading_zeros() + 1;
        Self { slots: Zeroed::new(len), mask: len - 1, shift, sweep: 0 }
    }

    /// Where the search for a key begins.
    #[inline(always)]
    pub fn hash(&self, key: Key) -> usize {
        let product = u128::from(key[0] ^ MIX) * u128::from(key[1] ^ 0xd1b5_4a32_d192_ed03);
        let folded = (product as u64) ^ ((product >> 64) as u64);
        (folded.wrapping_mul(MIX) >> self.shift) as usize
    }

    /// Fetches the line of a place.
    #[inline(always)]
    pub fn prefetch(&self, place: usize) {
        prefetch(self.slots.as_ptr().wrapping_add(place));
    }

    /// The slot of `key`, whose hash is `hash`; `None`: not there, or past its deadline.
    #[inline(always)]
    pub fn find(&mut self, hash: usize, key: Key, now: u32) -> Option<&mut Slot> {
        let mut at = hash & self.mask;
        while !same(self.slots[at].key, key) {
            if same(self.slots[at].key, FREE) {
                return None;
            }
            at = (at + 1) & self.mask;
        }
        Some(&mut self.slots[at]).filter(|slot| slot.deadline > now)
    }

    /// Loads a flow, and says where it lies.
    pub fn insert(&mut self, new: Slot) -> u32 {
        let mut at = self.hash(new.key);
        while self.slots[at].key[1] != 0 {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = new;
        at as u32
    }

    /// The slot at a place.
    #[inline(always)]
    pub fn at(&mut self, place: usize) -> &mut Slot {
        &mut self.slots[place & self.mask]
    }

    /// Goes on round the table, a few slots a batch, ends those whose time has run out, and shows
    /// them to `ended`.
    #[inline(always)]
    pub fn expire(&mut self, now: u32, mut ended: impl FnMut(Slot)) {
        for _ in 0..SWEEP {
            self.sweep = (self.sweep + 1) & self.mask;
            let slot = self.slots[self.sweep];
            if slot.deadline.wrapping_sub(1) < now {
                self.end(self.sweep);
                ended(slot);
            }
        }
    }

    /// Gives a slot back: free where its chain ends, else to be stepped over.
    #[cold]
    fn end(&mut self, at: usize) {
        let next = self.slots[(at + 1) & self.mask].key;
        let key = if next == FREE { FREE } else { ENDED };
        self.slots[at] = Slot { key, value: 0, deadline: 0, extra: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot { key: FREE, value: 0, deadline: 100, extra: 0 };

    /// A key's steps from where its search begins, on average.
    fn steps(keys: &[Key]) -> f64 {
        let mut table = Table::new(keys.len());
        let step = |key| {
            let place = table.insert(Slot { key, ..SLOT }) as usize;
            place.wrapping_sub(table.hash(key)) & table.mask
        };
        keys.iter().copied().map(step).sum::<usize>() as f64 / keys.len() as f64
    }

    #[test]
    fn keys_that_count_up_spread_as_if_by_chance() {
        let stations: Vec<Key> = (0..1 << 16).map(|n: u64| [2 | n.swap_bytes() >> 16, 1]).collect();
        let ends: Vec<Key> =
            (0..1 << 16).map(|n: u64| [((n / 64) << 24) | ((n % 64) << 40), 17]).collect();
        // Half full, linear probing takes half a step on average (Knuth, volume 3, section 6.4).
        assert!(steps(&stations) < 0.55 && steps(&ends) < 0.55, "{}", steps(&ends));
    }

    #[test]
    fn what_has_ended_is_given_back_and_the_rest_is_found() {
        let mut table = Table::new(100);
        let key = |n: u64| [n, 9];
        for n in 0..100 {
            table.insert(Slot { key: key(n), deadline: if n % 2 == 0 { 10 } else { 20 }, ..SLOT });
        }
        let mut ended = 0;
        for _ in 0..table.slots.len() / SWEEP {
            table.expire(10, |_| ended += 1);
        }
        assert_eq!(ended, 50);
        for n in 0..100 {
            assert_eq!(table.find(table.hash(key(n)), key(n), 10).is_some(), n % 2 == 1);
        }
        assert!(table.find(table.hash(key(1)), key(1), 20).is_none(), "past its deadline");
        for n in 200..250 {
            table.insert(Slot { key: key(n), ..SLOT });
        }
        assert_eq!(table.slots.iter().filter(|slot| slot.deadline != 0).count(), 100);
    }
}
