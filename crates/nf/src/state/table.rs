//! The hash table under maps and packet sets.
//!
//! ```text
//! bucket  = header (8 bytes) + slots (`bucket.rs`), in one cache line where the entry is small enough
//! header  = one tag byte per slot (0: free) … and, in byte 7, how many entries passed this bucket
//!           because it was full
//! slot id = bucket × slots per bucket + slot: stable as long as the entry lives
//! ```
//!
//! A look-up reads the header, compares eight tags at once and touches one slot. A full bucket
//! sends its entries to the next one and counts them (the overflow count of Facebook's F14, 2019):
//! a look-up goes on only where that count is not zero, removal needs no tombstone, and **no entry
//! ever moves**, so that timers and the prefetch pass may hold slot ids.
//!
//! **One of several workers** has its share of the entries, mostly, and must have room for all of them.
//! Its buckets are two ranges: the *near* ones, as many as its share needs, where every look-up begins;
//! and *far* ones, for entries that come when the near ones are full, which cost no memory as long as none
//! is there. Then, and only then, what is not near is looked for there as well.
//!
//! A shard's entries lie among the others, not in a segment of their own: the steering hash that
//! picks the shard may be as skewed as the traffic, and a segment that overflows would cost every
//! look-up in it.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::key::{Hash, Key, spread};
use crate::memory::{Zeroed, prefetch};
use crate::state::bucket::{Bucket, Line};

const EVERY_BYTE: u64 = 0x0101_0101_0101_0101;
const OVERFLOW_SHIFT: u32 = 56;
const OVERFLOW_STUCK: u64 = 0xff;

/// What a table holds beside the key. It is never dropped.
pub trait Stored: Send + Sync + 'static {}
impl<T: Send + Sync + 'static> Stored for T {}

/// Identifies an entry as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// Where an entry lies.
#[derive(Clone, Copy)]
struct Place {
    bucket: u32,
    slot: usize,
}

impl Place {
    #[inline(always)]
    fn id<K: Key, V: Stored>(self) -> SlotId {
        SlotId(self.bucket * Table::<K, V>::SLOTS as u32 + self.slot as u32)
    }
}

/// A table from `K` to `V` of fixed capacity; see the module's page.
pub struct Table<K, V> {
    lines: Zeroed<Line>,
    buckets: u32,
    /// Of them, near ones: all, or those of the share of one of several workers.
    near: u32,
    len: u32,
    /// Entries in near buckets; and how many go there at most.
    near_len: u32,
    near_most: u32,
    capacity: u32,
    seed: u64,
    entry: PhantomData<(K, V)>,
}

#[allow(clippy::len_without_is_empty, reason = "nobody asks it")]
impl<K: Key, V: Stored> Table<K, V> {
    const LINES: usize = Bucket::<K, V>::LINES;
    const SLOTS: usize = Bucket::<K, V>::SLOTS;
    const TAGS: u64 = u64::MAX >> (64 - 8 * Self::SLOTS);
    /// How full in sixteenths at most: the fewer slots a bucket has, the more room keeps entries in the
    /// bucket they belong to, and a look-up in vain short even in a full table.
    const FULL: u64 = match Self::SLOTS {
        1 | 2 => 8,
        3 => 9,
        4 => 10,
        _ => 11,
    };

    /// A table with room for `capacity` entries. `seed` makes its hash function.
    pub fn new(capacity: u32, seed: u64) -> Self {
        Self::with(capacity, spread(seed))
    }

    fn with(capacity: u32, seed: u64) -> Self {
        let buckets = Self::buckets_for(capacity);
        let capacity = capacity.min(buckets * Self::SLOTS as u32);
        Self::laid_out(buckets, 0, capacity, seed)
    }

    /// Of the same capacity, empty, for one of `workers` workers among which entries are divided.
    pub fn for_one_of(&self, workers: u32) -> Self {
        // What fits a huge page is left whole.
        const SMALL: usize = 2 << 20;
        if workers < 2 || self.lines.len() * size_of::<Line>() <= SMALL {
            return Self::with(self.capacity, self.seed);
        }
        self.with_share(self.capacity.div_ceil(workers))
    }

    /// The same, expecting `share` of the entries, or somewhat more.
    fn with_share(&self, share: u32) -> Self {
        let share = share.saturating_add(share / 16);
        if share >= self.capacity {
            return Self::with(self.capacity, self.seed);
        }
        let near = Self::buckets_for(share);
        let most = u32::MAX / Self::SLOTS as u32 - near;
        let far = Self::buckets_for(self.capacity.saturating_sub(Self::entries_in(near))).min(most);
        // Of fewer slots the eighth that is left free could be none.
        if near.min(far) * (Self::SLOTS as u32) < 64 {
            return Self::with(self.capacity, self.seed);
        }
        Self::laid_out(near, far, self.capacity, self.seed)
    }

    /// Entries that so many buckets are for.
    fn entries_in(buckets: u32) -> u32 {
        (u64::from(buckets) * Self::SLOTS as u64 * Self::FULL / 16) as u32
    }

    fn laid_out(near: u32, far: u32, capacity: u32, seed: u64) -> Self {
        let buckets = near + far;
        let near_most = if far == 0 { u32::MAX } else { Self::entries_in(near) };
        let lines = buckets as usize * Self::LINES;
        let lines = match far {
            0 => Zeroed::new(lines),
            _ => Zeroed::sparse(lines, near as usize * Self::LINES),
        };
        let (len, near_len, entry) = (0, 0, PhantomData);
        Self { lines, buckets, near, len, near_len, near_most, capacity, seed, entry }
    }

    /// Buckets for so many entries.
    fn buckets_for(entries: u32) -> u32 {
        const { assert!(!std::mem::needs_drop::<V>()) }
        let wanted = (u64::from(entries) * 16).div_ceil(Self::FULL * Self::SLOTS as u64).max(1);
        // Slot ids have 32 bits; a table never holds more than it has slots, so that one is free
        // for every insertion.
        let most = u32::MAX / Self::SLOTS as u32;
        u32::try_from(wanted).map_or(most, |wanted| wanted.min(most))
    }

    /// Entries stored.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Entries that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// One more than the largest slot id.
    pub fn slots(&self) -> u32 {
        self.buckets * Self::SLOTS as u32
    }

    /// Of them, those of near buckets, which come first.
    pub fn near_slots(&self) -> u32 {
        self.near * Self::SLOTS as u32
    }

    /// Bytes of memory when every line has been touched; of far buckets only when some are used.
    pub fn bytes(&self) -> usize {
        let buckets = if self.len == self.near_len { self.near } else { self.buckets };
        buckets as usize * Self::LINES * size_of::<Line>()
    }

    /// The hash of `key` in this table.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> Hash {
        key.hash(self.seed)
    }

    /// Fetches the bucket where a key of this hash would lie.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash) {
        let line = self.lines.start().wrapping_add(self.home(hash) as usize * Self::LINES);
        prefetch(line);
        if Self::LINES > 1 {
            prefetch(line.wrapping_add(1));
        }
    }

    /// Fetches what of such a bucket is not in the line of its header, of who reads that at once: else it is waited for
    /// after the header.
    #[inline(always)]
    pub fn prefetch_rest(&self, hash: Hash) {
        if Self::LINES > 1 {
            prefetch(self.lines.start().wrapping_add(self.home(hash) as usize * Self::LINES + 1));
        }
    }

    #[inline(always)]
    fn home(&self, hash: Hash) -> u32 {
        ((u64::from(hash.position()) * u64::from(self.near)) >> 32) as u32
    }

    /// Where a key of this hash goes when the near buckets are full.
    fn far_home(&self, hash: Hash) -> u32 {
        let far = self.buckets - self.near;
        self.near + ((u64::from(hash.position()) * u64::from(far)) >> 32) as u32
    }

    /// The next bucket of those that `bucket` is one of, near or far.
    #[inline(always)]
    fn next(&self, bucket: u32) -> u32 {
        match bucket + 1 {
            after if after == self.near => 0,
            after if after == self.buckets => self.near,
            after => after,
        }
    }

    #[inline(always)]
    fn bucket(&self, bucket: u32) -> *mut u8 {
        debug_assert!(bucket < self.buckets);
        // SAFETY: every bucket number below `buckets` has its `LINES` lines in the block.
        unsafe { self.lines.start().add(bucket as usize * Self::LINES).cast() }
    }

    #[inline(always)]
    fn header(&self, bucket: u32) -> u64 {
        // SAFETY: the first word of a bucket is its header, zero from the start.
        unsafe { self.bucket(bucket).cast::<u64>().read() }
    }

    #[inline(always)]
    fn set_header(&mut self, bucket: u32, header: u64) {
        // SAFETY: as in `header`; `&mut self` makes the access exclusive, and the pointer is the
        // block's own.
        unsafe { self.bucket(bucket).cast::<u64>().write(header) }
    }

    /// Where the value of a slot lies.
    #[inline(always)]
    fn value_at(&self, place: Place) -> NonNull<V> {
        // SAFETY: it is one of our buckets.
        unsafe { Bucket::<K, V>::value(self.bucket(place.bucket), place.slot) }
    }

    #[inline(always)]
    fn place_of(id: SlotId) -> Place {
        Place { bucket: id.0 / Self::SLOTS as u32, slot: id.0 as usize % Self::SLOTS }
    }

    /// Bits 7, 15, … set for the slots whose tag is `tag`; now and then for another, never missing one.
    #[inline(always)]
    fn matching(header: u64, tag: u8) -> u64 {
        let differ = header ^ (u64::from(tag) * EVERY_BYTE);
        differ.wrapping_sub(EVERY_BYTE) & !differ & (EVERY_BYTE << 7) & Self::TAGS
    }

    /// Finds `key`, whose hash is `hash`.
    #[inline(always)]
    pub fn find(&self, hash: Hash, key: &K) -> Option<SlotId> {
        self.locate(hash, key).map(|place| place.id::<K, V>())
    }

    /// As [`find`](Self::find), with the value.
    #[inline(always)]
    pub fn find_value(&self, hash: Hash, key: &K) -> Option<(SlotId, &V)> {
        let place = self.locate(hash, key)?;
        // SAFETY: `locate` names occupied slots only, and these are initialised.
        Some((place.id::<K, V>(), unsafe { self.value_at(place).as_ref() }))
    }

    /// The value under `key`, whose hash is `hash`.
    #[inline(always)]
    pub fn get(&self, hash: Hash, key: &K) -> Option<&V> {
        // SAFETY: `locate_value` names occupied slots only, and these are initialised.
        self.locate_value(hash, key).map(|value| unsafe { value.as_ref() })
    }

    /// The place of a value of this table that lies at `address`.
    #[inline]
    pub fn place_at(&self, address: usize) -> SlotId {
        let offset = address.wrapping_sub(self.lines.start().addr());
        let (bucket, slot) = Bucket::<K, V>::whose_value(offset);
        Place { bucket: bucket as u32, slot }.id::<K, V>()
    }

    /// As [`get`](Self::get), to change it.
    #[inline(always)]
    pub fn get_mut(&mut self, hash: Hash, key: &K) -> Option<&mut V> {
        // SAFETY: as in `get`; `&mut self` makes the access exclusive.
        self.locate_value(hash, key).map(|mut value| unsafe { value.as_mut() })
    }

    /// As `locate`, by the value's address: that of the bucket is at hand where the key was found in it.
    #[inline(always)]
    fn locate_value(&self, hash: Hash, key: &K) -> Option<NonNull<V>> {
        let home = self.home(hash);
        let header = self.header(home);
        match self.locate_in(home, header, hash.tag(), key) {
            Some(place) => Some(self.value_at(Place { bucket: home, ..place })),
            None if self.is_all_there(header) => None,
            None => self.locate_beyond(home, hash, *key).map(|place| self.value_at(place)),
        }
    }

    #[inline(always)]
    fn locate(&self, hash: Hash, key: &K) -> Option<Place> {
        let home = self.home(hash);
        let header = self.header(home);
        match self.locate_in(home, header, hash.tag(), key) {
            Some(place) => Some(place),
            None if self.is_all_there(header) => None,
            None => self.locate_beyond(home, hash, *key),
        }
    }

    /// Whether all that is at home in a near bucket with this header lies there.
    #[inline(always)]
    fn is_all_there(&self, header: u64) -> bool {
        header >> OVERFLOW_SHIFT == 0 && self.len == self.near_len
    }

    #[inline(always)]
    fn locate_in(&self, bucket: u32, header: u64, tag: u8, key: &K) -> Option<Place> {
        let mut candidates = Self::matching(header, tag);
        while candidates != 0 {
            let slot = (candidates.trailing_zeros() / 8) as usize;
            // SAFETY: a tag that is not zero marks an initialised slot; `matching` may name a slot
            // whose tag differs, but only above one that matches, and tags have bit 7 set, so that
            // a free slot (tag 0) differs by at least that bit and is never named.
            if unsafe { Bucket::<K, V>::has_key(self.bucket(bucket), slot, key) } {
                return Some(Place { bucket, slot });
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Takes the key by value: a reference would have every look-up keep its key in memory.
    #[cold]
    #[inline(never)]
    fn locate_beyond(&self, home: u32, hash: Hash, key: K) -> Option<Place> {
        let is_passed = self.header(home) >> OVERFLOW_SHIFT != 0;
        let near = is_passed.then(|| self.locate_from(self.next(home), home, hash, &key)).flatten();
        let far = || {
            let far = self.far_home(hash);
            self.locate_from(far, far, hash, &key)
        };
        near.or_else(|| (self.len > self.near_len).then(far).flatten())
    }

    /// Looks into the buckets from `first` on, up to one that nobody passed, or around to `home`.
    #[inline(always)]
    fn locate_from(&self, first: u32, home: u32, hash: Hash, key: &K) -> Option<Place> {
        let mut bucket = first;
        loop {
            let header = self.header(bucket);
            if let Some(place) = self.locate_in(bucket, header, hash.tag(), key) {
                return Some(place);
            }
            bucket = self.next(bucket);
            if header >> OVERFLOW_SHIFT == 0 || bucket == home {
                return None;
            }
        }
    }

    /// Stores `value` under `key`, which must not be in the table. `None`: the table is full.
    pub fn insert(&mut self, hash: Hash, key: K, value: V) -> Option<SlotId> {
        (self.len < self.capacity).then(|| self.place(hash, key, value))
    }

    /// As [`insert`](Self::insert), full or not.
    ///
    /// # Panics
    /// If every slot is taken: [`make_room`](Self::make_room) before.
    pub fn place(&mut self, hash: Hash, key: K, value: V) -> SlotId {
        assert!(self.len < self.slots(), "no room was made");
        let is_near = self.near_len < self.near_most || self.is_far_full();
        let mut bucket = if is_near { self.home(hash) } else { self.far_home(hash) };
        loop {
            let header = self.header(bucket);
            let free = !header & (EVERY_BYTE << 7) & Self::TAGS;
            if free != 0 {
                let slot = (free.trailing_zeros() / 8) as usize;
                self.set_header(bucket, header | u64::from(hash.tag()) << (8 * slot));
                // SAFETY: it is one of our buckets, and `&mut self` makes the access exclusive.
                unsafe { Bucket::write(self.bucket(bucket), slot, key, value) };
                self.len += 1;
                self.near_len += u32::from(is_near);
                return SlotId(bucket * Self::SLOTS as u32 + slot as u32);
            }
            self.count_overflow(bucket, true);
            bucket = self.next(bucket);
        }
    }

    /// Whether far buckets are so full that near ones take what is left beyond the capacity.
    fn is_far_full(&self) -> bool {
        let far = (self.buckets - self.near) * Self::SLOTS as u32;
        self.len - self.near_len >= far / 8 * 7
    }

    /// Whether there are no slots for `more` entries beside those that are there, some left free so
    /// that look-ups stay short.
    fn lacks(&self, more: u32) -> bool {
        u64::from(self.len) + u64::from(more) > u64::from(self.slots()) / 8 * 7
    }

    /// Makes slots for `more` entries, where they are lacking, beyond the capacity, which stays what it
    /// was. It is the one occasion on which entries get other slots: each one's old and new slot.
    pub fn make_room(&mut self, more: u32) -> Option<Vec<(SlotId, SlotId)>> {
        if !self.lacks(more) {
            return None;
        }
        // Some 1.6 times as many slots: of 2.8 times as many half would be idle mostly.
        let wanted = self.len.saturating_add(more);
        let mut larger = Self::with(wanted.saturating_add(wanted / 8).max(8), self.seed);
        let move_entry = |(from, key, value): (SlotId, K, &V)| {
            // SAFETY: the value is copied out of an occupied slot; nothing that a table holds needs
            // to be dropped, and the old one is forgotten below.
            let value = unsafe { std::ptr::read(value) };
            (from, larger.place(self.hash(&key), key, value))
        };
        let moved = self.iter().map(move_entry).collect();
        larger.capacity = self.capacity;
        *self = larger;
        Some(moved)
    }

    /// What its hash function was made of, spread.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// One more (or one fewer) entry passes `bucket`. A count that has reached 255 stays: it costs
    /// look-ups a step, never an answer.
    fn count_overflow(&mut self, bucket: u32, more: bool) {
        let header = self.header(bucket);
        let one = 1 << OVERFLOW_SHIFT;
        if header >> OVERFLOW_SHIFT != OVERFLOW_STUCK {
            self.set_header(bucket, if more { header + one } else { header - one });
        }
    }

    /// Removes the entry at `id`, whose key has this hash, and returns it.
    pub fn remove(&mut self, hash: Hash, id: SlotId) -> Option<(K, V)> {
        let key = self.key(id)?;
        let Place { bucket: at, slot } = Self::place_of(id);
        // SAFETY: an occupied slot is initialised; it is free from here on, so that nobody reads it
        // again.
        let value = unsafe { self.value_at(Place { bucket: at, slot }).read() };
        let is_near = at < self.near;
        let mut bucket = if is_near { self.home(hash) } else { self.far_home(hash) };
        self.near_len -= u32::from(is_near);
        while bucket != at {
            self.count_overflow(bucket, false);
            bucket = self.next(bucket);
        }
        self.set_header(at, self.header(at) & !(0xff << (8 * slot)));
        self.len -= 1;
        Some((key, value))
    }

    fn occupied(&self, id: SlotId) -> bool {
        let Place { bucket, slot } = Self::place_of(id);
        bucket < self.buckets && self.header(bucket) >> (8 * slot) & 0xff != 0
    }

    /// The key of the entry at `id`, if there is one.
    pub fn key(&self, id: SlotId) -> Option<K> {
        let Place { bucket, slot } = Self::place_of(id);
        // SAFETY: an occupied slot is initialised.
        self.occupied(id).then(|| unsafe { Bucket::<K, V>::key(self.bucket(bucket), slot) })
    }

    /// The value at `id`, as [`find`](Self::find) or [`insert`](Self::insert) returned it just now.
    ///
    /// # Panics
    /// If the slot is free: the caller has kept an id beyond its entry.
    #[inline(always)]
    pub fn value(&self, id: SlotId) -> &V {
        assert!(self.occupied(id), "slot id outlived its entry");
        // SAFETY: an occupied slot is initialised.
        unsafe { self.value_at(Self::place_of(id)).as_ref() }
    }

    /// As [`value`](Self::value), to change it.
    #[inline(always)]
    pub fn value_mut(&mut self, id: SlotId) -> &mut V {
        assert!(self.occupied(id), "slot id outlived its entry");
        // SAFETY: an occupied slot is initialised; `&mut self` makes the access exclusive.
        unsafe { self.value_at(Self::place_of(id)).as_mut() }
    }

    /// Changes every value, in the order of the table.
    pub fn update_all(&mut self, mut change: impl FnMut(&mut V)) {
        let mut left = self.len;
        for id in (0..self.slots()).map(SlotId) {
            if left == 0 {
                break;
            }
            if self.occupied(id) {
                change(self.value_mut(id));
                left -= 1;
            }
        }
    }

    /// Every entry, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (SlotId, K, &V)> + '_ {
        let slots = (0..self.slots()).map(SlotId);
        slots.filter_map(|id| self.key(id).map(|key| (id, key, self.value(id))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Value;
    use anabranch_packet::MacAddr;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u16, u32),
        Remove(u16),
        Find(u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..400u16, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
            (0..400u16).prop_map(Step::Remove),
            (0..400u16).prop_map(Step::Find),
        ];
        prop::collection::vec(step, 1..if cfg!(miri) { 60 } else { 1_500 })
    }

    fn agrees<V: Value + PartialEq + std::fmt::Debug>(steps: &[Step], of: impl Fn(u32) -> V) {
        let whole = Table::<(u16, u32), V>::new(200, 3);
        agrees_in(whole.with_share(60), steps, &of);
        agrees_in(whole.with_share(100), steps, &of);
        agrees_in(whole, steps, &of);
    }

    fn agrees_in<V: Value + PartialEq + std::fmt::Debug>(
        mut table: Table<(u16, u32), V>,
        steps: &[Step],
        of: &impl Fn(u32) -> V,
    ) {
        let mut oracle = BTreeMap::new();
        for &step in steps {
            let (Step::Insert(key, _) | Step::Remove(key) | Step::Find(key)) = step;
            let key = (key, u32::from(key) * 7);
            let hash = table.hash(&key);
            let found = table.find(hash, &key);
            assert_eq!(found.map(|id| *table.value(id)), oracle.get(&key).copied());
            let at = found.map(|id| table.place_at(std::ptr::from_ref(table.value(id)).addr()));
            assert_eq!(at, found);
            match (step, found) {
                (Step::Insert(_, value), None) => {
                    let stored = table.insert(hash, key, of(value));
                    assert_eq!(stored.is_some(), oracle.len() < 200);
                    if stored.is_some() {
                        oracle.insert(key, of(value));
                    }
                }
                (Step::Insert(_, value), Some(id)) => {
                    *table.value_mut(id) = of(value);
                    oracle.insert(key, of(value));
                }
                (Step::Remove(_), Some(id)) => {
                    assert_eq!(table.remove(hash, id), oracle.remove(&key).map(|v| (key, v)));
                }
                _ => {}
            }
            assert_eq!(table.len() as usize, oracle.len());
        }
        let stored: BTreeMap<_, _> = table.iter().map(|(_, k, v)| (k, *v)).collect();
        assert_eq!(stored, oracle);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

        #[test]
        fn agrees_with_a_tree_map(steps in steps()) {
            agrees(&steps, |value| value);
            agrees(&steps, |value| (value as u8, value > 9));
            agrees(&steps, u128::from);
            agrees(&steps, |value| [value; 9]);
            agrees(&steps, |value| [u64::from(value); 21]);
            agrees(&steps, |_| ());
        }
    }

    /// Fills a table, empties half of it, and finds the other half as it was.
    fn keeps_entries_apart<K: Key, V: Value + PartialEq + std::fmt::Debug>(
        key: impl Fn(u8) -> K,
        value: impl Fn(u8) -> V,
    ) {
        const COUNT: u8 = 40;
        let mut table = Table::<K, V>::new(COUNT.into(), 5);
        for n in 0..COUNT {
            assert!(table.insert(table.hash(&key(n)), key(n), value(n)).is_some());
        }
        for n in (0..COUNT).step_by(2) {
            let hash = table.hash(&key(n));
            let id = table.find(hash, &key(n)).unwrap();
            assert_eq!(table.remove(hash, id).map(|(_, value)| value), Some(value(n)));
        }
        for n in 0..COUNT {
            let found = table.get(table.hash(&key(n)), &key(n)).copied();
            assert_eq!(found, (n % 2 == 1).then(|| value(n)));
            if let Some(kept) = table.get_mut(table.hash(&key(n)), &key(n)) {
                *kept = value(n.wrapping_mul(3));
                assert_eq!(
                    table.get(table.hash(&key(n)), &key(n)),
                    Some(&value(n.wrapping_mul(3)))
                );
            }
        }
    }

    macro_rules! sizes {
        ($($size:literal)*) => {$(
            keeps_entries_apart(|n| n, |n| [n; $size]);
            keeps_entries_apart(u32::from, |n| [n; $size]);
            keeps_entries_apart(u128::from, |n| [n; $size]);
            keeps_entries_apart(u64::from, |n| (u128::from(n), [n; $size]));
        )*};
    }

    #[test]
    fn entries_of_every_size_and_alignment_lie_apart() {
        sizes!(0 1 2 3 7 8 9 15 16 19 20 21 23 24 25 27 28 29 31 32 33 35 36 37 39 40 41 43 44 45);
        sizes!(47 48 49 51 52 53 55 56 57 59 60 61 63 64 65 95 100 111 112 113 119 120 121 128);
        sizes!(500 1_000 4_096);
        keeps_entries_apart(|n| (n, true), |n| (n % 2 == 0).then_some(n % 3 == 0));
        keeps_entries_apart(|n| Some(u16::from(n)), |_| ());
    }

    type Endpoint = (Ipv4Addr, u16, u8);

    /// What is packed has more slots, and lies apart too.
    #[test]
    fn keys_with_gaps_are_packed() {
        let endpoint = |n| (Ipv4Addr::new(10, 0, 0, n), u16::from(n) << 8, !n);
        keeps_entries_apart(endpoint, u32::from);
        keeps_entries_apart(endpoint, |n| [n; 5]);
        keeps_entries_apart(|n| (n, u32::from(n), n % 2 == 0), |n| u64::from(!n));
        keeps_entries_apart(|n| (MacAddr::from([n; 6]), n % 3 == 0), |n| (!n, u32::from(n)));
        keeps_entries_apart(|n| (n, u32::from(n), !n), |n| [u16::from(n); 19]);
        assert_eq!(Table::<Endpoint, u32>::SLOTS, 5);
        assert_eq!(Table::<MacAddr, u32>::SLOTS, 5);
        assert_eq!(Table::<(u32, u16), (u8, bool)>::SLOTS, 7);
        assert_eq!(Table::<u64, u32>::SLOTS, 4);
        // Of more than a word: 9, 13, 15 and 16 bytes.
        let both = |n| (endpoint(n), Ipv4Addr::new(!n, 0, 0, 7), u16::from(!n));
        keeps_entries_apart(|n| (u64::from(n) << 60 | 5, n), u32::from);
        keeps_entries_apart(both, u32::from);
        keeps_entries_apart(both, |n| (n, u64::from(!n)));
        keeps_entries_apart(|n| (both(n), u16::from(n) << 7), |n| [n; 3]);
        keeps_entries_apart(|n| Ipv6Addr::from(u128::from(n) << 120 | 9), |n| [u64::from(n); 3]);
        assert_eq!(Table::<(Endpoint, Ipv4Addr, u16), u32>::SLOTS, 3);
    }

    #[test]
    fn a_table_at_capacity_still_answers() {
        let whole = Table::<u32, u32>::new(COUNT, 1);
        answers_at_capacity(whole.with_share(COUNT / 8));
        answers_at_capacity(whole);
    }

    const COUNT: u32 = if cfg!(miri) { 300 } else { 5_000 };

    fn answers_at_capacity(mut table: Table<u32, u32>) {
        for key in 0..COUNT {
            assert!(table.insert(table.hash(&key), key, key).is_some());
        }
        assert!(table.insert(table.hash(&COUNT), COUNT, 0).is_none());
        for key in 0..2 * COUNT {
            assert_eq!(table.find(table.hash(&key), &key).is_some(), key < COUNT);
        }
        for key in 0..COUNT {
            let hash = table.hash(&key);
            let id = table.find(hash, &key).unwrap();
            assert_eq!(table.remove(hash, id), Some((key, key)));
        }
        assert!(table.is_unmarked());
    }

    /// Of two and of eight workers: what they take together beside what one does, and that nothing is far
    /// while a worker has little more than its share.
    #[test]
    fn shares_take_little_more_than_the_whole() {
        let whole = Table::<u64, u64>::new(1 << 18, 1);
        for workers in [2, 8] {
            let mut one = whole.for_one_of(workers);
            assert!(one.bytes() * workers as usize <= whole.bytes() * 107 / 100);
            assert!(one.slots() <= whole.slots() && one.capacity() == whole.capacity());
            for key in 0..u64::from((1 << 18) / workers * 21 / 20) {
                one.insert(one.hash(&key), key, key).unwrap();
            }
            assert_eq!(one.len(), one.near_len);
            for key in 1 << 20..1 << 21 {
                if one.insert(one.hash(&key), key, key).is_none() {
                    break;
                }
            }
            assert!(one.len() == one.capacity() && one.len() > one.near_len);
        }
        let small = Table::<u64, u64>::new(50_000, 1);
        assert_eq!(small.for_one_of(8).bytes(), small.bytes());
    }

    /// Buckets that a look-up of an absent key reads in a table that is as full as it gets: the
    /// mean of many, and the most.
    fn steps_of_a_miss<const SIZE: usize>(workers: u32) -> (f64, u32) {
        let whole = Table::<u32, [u8; SIZE]>::new(50_000, 9);
        let mut table = whole.with_share(50_000 / workers);
        // Replaced several times over, as flows come and go.
        for key in 0..200_000 {
            if let Some(old) = u32::checked_sub(key, 50_000) {
                let hash = table.hash(&old);
                let id = table.find(hash, &old).unwrap();
                table.remove(hash, id);
            }
            table.insert(table.hash(&key), key, [0; SIZE]).unwrap();
        }
        let misses = (1_000_000..1_100_000).map(|key| table.steps(table.hash(&key)));
        let (sum, most) = misses.fold((0, 0), |(sum, most), steps| (sum + steps, steps.max(most)));
        (f64::from(sum) / 100_000.0, most)
    }

    #[test]
    #[cfg_attr(miri, ignore = "many look-ups")]
    fn a_miss_in_a_full_table_reads_few_buckets() {
        for workers in [1, 2, 8, 64] {
            let cases = [
                steps_of_a_miss::<4>(workers),
                steps_of_a_miss::<8>(workers),
                steps_of_a_miss::<12>(workers),
                steps_of_a_miss::<20>(workers),
                steps_of_a_miss::<24>(workers),
                steps_of_a_miss::<34>(workers),
                steps_of_a_miss::<52>(workers),
                steps_of_a_miss::<100>(workers),
            ];
            // Of one of several workers both ranges are looked into.
            let (mean_bound, most_bound) = if workers == 1 { (4.0, 60) } else { (8.0, 120) };
            for (mean, most) in cases {
                let fits = mean < mean_bound && most < most_bound;
                assert!(fits, "{workers} workers: {mean} on average, {most} at most");
            }
        }
    }

    impl<K: Key, V: Value> Table<K, V> {
        /// Buckets that `locate` reads when it does not find a key of this hash.
        fn steps(&self, hash: Hash) -> u32 {
            let from = |mut bucket: u32| {
                let mut steps = 1;
                while self.header(bucket) >> OVERFLOW_SHIFT != 0 && steps < self.buckets {
                    (bucket, steps) = (self.next(bucket), steps + 1);
                }
                steps
            };
            let far = if self.len > self.near_len { from(self.far_home(hash)) } else { 0 };
            from(self.home(hash)) + far
        }

        /// No tag and, unless one got stuck, no overflow count is left.
        fn is_unmarked(&self) -> bool {
            (0..self.buckets).all(|bucket| matches!(self.header(bucket) >> 56, 0 | 0xff))
                && (0..self.buckets).all(|bucket| self.header(bucket) << 8 == 0)
        }
    }
}
