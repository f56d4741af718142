//! From keys to values, all words.
//!
//! ```text
//! object = bucket: header | slot … slot | deadline of each slot, where they have one
//! header = one tag byte per slot (0: free) … and, in byte 7, how many entries passed this bucket
//!          because it was full
//! ```
//!
//! As the table that one worker has for itself (`anabranch_nf::state`): no entry ever moves, removal
//! needs no tombstone, a look-up reads one bucket where none is overfull.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::count::Count;
use crate::domain::Domain;
use crate::memory::{Deadline, Memory, Shape, Version, Words};
use crate::sync::{Ordering, fence};
use crate::transaction::Transaction;

const EVERY_BYTE: u64 = 0x0101_0101_0101_0101;
const OVERFLOW_SHIFT: u32 = 56;
/// A count of passing entries that has come this far stays: it costs look-ups a step, no answer.
const OVERFLOW_STUCK: u64 = 0xff;
const LINE_WORDS: usize = 8;

/// What a map's entries are made of: known when it is compiled, so that offsets are constants.
pub trait Entry {
    /// Words of a key.
    const KEY: usize;
    /// Words of a value.
    const VALUE: usize;
    /// Whether entries have a deadline.
    const DEADLINE: bool;
}

/// Slots of a bucket, given the words of each. Version and header come first.
const fn slots(size: usize) -> usize {
    match size {
        0 => 7,
        1..=6 => (LINE_WORDS - 2) / size,
        7..=14 => (2 * LINE_WORDS - 2) / size,
        _ => 1,
    }
}

/// A map of fixed capacity.
pub struct Map<E> {
    buckets: Arc<Memory>,
    number: u32,
    len: Count,
    capacity: u32,
    entry: PhantomData<fn() -> E>,
}

impl<E> std::fmt::Debug for Map<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// Names an entry as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId {
    bucket: u32,
    slot: u32,
}

impl SlotId {
    #[inline(always)]
    fn place(self) -> (u32, usize) {
        (self.bucket, self.slot as usize)
    }
}

#[derive(Clone, Copy)]
enum Found<'a> {
    /// In this slot, and its words.
    Here(usize, Words<'a>),
    Beyond,
    Nowhere,
}

/// What a look-up saw in a bucket.
enum Seen<R> {
    Entry(SlotId, R),
    Beyond,
    Nowhere,
}

impl<E: Entry> Map<E> {
    /// Words of a slot, its deadline apart.
    const SLOT: usize = E::KEY + E::VALUE;
    /// Slots of a bucket: as many as fit one cache line, or two where that wastes less; at most seven.
    const SLOTS: usize = slots(Self::SLOT + E::DEADLINE as usize);
    /// Of buckets, however many there are.
    const SHAPE: Shape = Shape {
        objects: 0,
        tracked: 1 + Self::SLOTS * Self::SLOT,
        deadlines: if E::DEADLINE { Self::SLOTS } else { 0 },
        apart: true,
    };

    /// A map with room for `capacity` entries.
    pub fn new(domain: &Domain, capacity: u32) -> Self {
        // In sixteenths. The fewer slots a bucket has, the more room keeps entries in the bucket they belong to.
        let full = [8, 8, 8, 9, 10, 11][Self::SLOTS.min(5)];
        let wanted = (u64::from(capacity) * 16).div_ceil(full * Self::SLOTS as u64).max(1);
        let number = wanted.min(u64::from(u32::MAX) / Self::SLOTS as u64) as u32;
        let buckets = domain.memory(Shape { objects: number, ..Self::SHAPE });
        Self { buckets, number, len: Count::new(domain), capacity, entry: PhantomData }
    }

    /// Entries that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Slots in all.
    pub fn slots(&self) -> u32 {
        self.number * Self::SLOTS as u32
    }

    /// The number of a slot, below [`slots`](Self::slots).
    pub fn number(&self, id: SlotId) -> u32 {
        id.bucket * Self::SLOTS as u32 + id.slot
    }

    /// The slot of this number.
    pub fn slot(&self, number: u32) -> SlotId {
        SlotId { bucket: number / Self::SLOTS as u32, slot: number % Self::SLOTS as u32 }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    /// Entries, as far as they have been committed.
    pub fn len(&self) -> u32 {
        self.len.sum() as u32
    }

    /// Entries exactly, for who is alone; `None`: the transaction will be alone when it runs again.
    pub fn count(&self, transaction: &Transaction) -> Option<u32> {
        self.len.read(transaction).map(|len| len as u32)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its buckets, for which entries are noted by the numbers of their slots.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.buckets
    }

    /// Fetches the bucket of this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.buckets.prefetch(self.home(hash));
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> u32 {
        (((hash >> 32) * u64::from(self.number)) >> 32) as u32
    }

    fn next(&self, bucket: u32) -> u32 {
        if bucket + 1 == self.number { 0 } else { bucket + 1 }
    }

    #[inline(always)]
    fn tag(hash: u64) -> u8 {
        hash as u8 | 0x80
    }

    #[inline(always)]
    fn key_at(slot: usize) -> usize {
        1 + slot * Self::SLOT
    }

    #[inline(always)]
    fn value_at(slot: usize) -> usize {
        Self::key_at(slot) + E::KEY
    }

    /// The word of a bucket in which the deadline of `slot` stands.
    #[inline(always)]
    fn deadline_at(slot: usize) -> usize {
        1 + Self::SLOTS * Self::SLOT + slot
    }

    #[inline(always)]
    fn find_in<'a>(words: Words<'a>, hash: u64, key: &[u64]) -> Found<'a> {
        let header = words.get(0);
        let differ = header ^ (u64::from(Self::tag(hash)) * EVERY_BYTE);
        let mut candidates = differ.wrapping_sub(EVERY_BYTE) & !differ & (EVERY_BYTE << 7);
        candidates &= u64::MAX >> (64 - 8 * Self::SLOTS);
        while candidates != 0 {
            let slot = (candidates.trailing_zeros() / 8) as usize;
            let entry = words.part(Self::key_at(slot), Self::SLOT);
            if entry.are(0, key) {
                return Found::Here(slot, entry.part(E::KEY, E::VALUE));
            }
            candidates &= candidates - 1;
        }
        if header >> OVERFLOW_SHIFT == 0 { Found::Nowhere } else { Found::Beyond }
    }

    /// Calls `look` with the value under the key that the first words of `key` are, and the deadline, where
    /// entries have one; `None`: there is none, or the transaction is doomed. The key by value: a reference
    /// that is handed on would have it lie in memory for every look-up.
    ///
    /// `look` may be called more than once; only what it returned last is true.
    #[inline(always)]
    pub fn look<R, const N: usize>(
        &self,
        transaction: &Transaction,
        hash: u64,
        key: [u64; N],
        mut look: impl FnMut(Words<'_>, Deadline) -> R,
    ) -> Option<(SlotId, R)> {
        let bucket = self.home(hash);
        match self.look_in(transaction, bucket, (hash, key), &mut look)? {
            Seen::Entry(id, seen) => Some((id, seen)),
            Seen::Nowhere => None,
            Seen::Beyond => {
                // Taken apart: what comes from afar would have what is found here go by way of memory, too.
                let (id, seen) = self.look_beyond(transaction, bucket, (hash, key), &mut look)?;
                Some((id, seen))
            }
        }
    }

    /// As [`look`](Self::look), in the buckets after that which it belongs to.
    #[cold]
    #[inline(never)]
    fn look_beyond<R, const N: usize>(
        &self,
        transaction: &Transaction,
        mut bucket: u32,
        key: (u64, [u64; N]),
        look: &mut impl FnMut(Words<'_>, Deadline) -> R,
    ) -> Option<(SlotId, R)> {
        for _ in 1..self.number {
            bucket = self.next(bucket);
            match self.look_in(transaction, bucket, key, look)? {
                Seen::Entry(id, seen) => return Some((id, seen)),
                Seen::Nowhere => return None,
                Seen::Beyond => {}
            }
        }
        None
    }

    /// What `look` makes of the value under that key, outside of any transaction: a hint of what a look-up will
    /// find soon. `None` also where the entry lies elsewhere than where it belongs, or is being changed; and
    /// where somebody changes it who is alone, the value may be half of one and half of the next.
    #[inline(always)]
    pub fn glimpse<R, const N: usize>(
        &self,
        hash: u64,
        key: [u64; N],
        look: impl FnOnce(Words<'_>) -> R,
    ) -> Option<R> {
        let words = self.buckets.object_of(self.home(hash), Self::SHAPE);
        let before = words.version().load(Ordering::Acquire);
        let Found::Here(_, value) = Self::find_in(words, hash, &key[..E::KEY]) else { return None };
        let seen = look(value);
        fence(Ordering::Acquire);
        let after = words.version().load(Ordering::Relaxed);
        (before == after && !Version(before).is_locked()).then_some(seen)
    }

    #[inline(always)]
    fn look_in<R, const N: usize>(
        &self,
        transaction: &Transaction,
        bucket: u32,
        (hash, key): (u64, [u64; N]),
        look: &mut impl FnMut(Words<'_>, Deadline) -> R,
    ) -> Option<Seen<R>> {
        transaction.read_of(&self.buckets, (bucket, Self::SHAPE), |words| {
            match Self::find_in(words, hash, &key[..E::KEY]) {
                Found::Here(slot, value) => {
                    let seen = look(value, Self::deadline_in(words, slot));
                    Seen::Entry(SlotId { bucket, slot: slot as u32 }, seen)
                }
                Found::Beyond => Seen::Beyond,
                Found::Nowhere => Seen::Nowhere,
            }
        })
    }

    #[inline(always)]
    fn value_in<'a>(words: Words<'a>, slot: usize) -> Words<'a> {
        words.part(Self::value_at(slot), E::VALUE)
    }

    #[inline(always)]
    fn deadline_in(words: Words<'_>, slot: usize) -> Deadline {
        match E::DEADLINE {
            true => Deadline::from_word(words.get(Self::deadline_at(slot))),
            false => Deadline::default(),
        }
    }

    /// Tells `each` of the entries in which a bucket differs `before` and `after` a change, deadlines that were put
    /// off aside: the slot's number, the key of an entry that is there no more, and whether there is one that was
    /// not there before, or not like this.
    pub fn compare(
        bucket: u32,
        [before, after]: [Words<'_>; 2],
        mut each: impl FnMut(u32, Option<Words<'_>>, bool),
    ) {
        for slot in 0..Self::SLOTS {
            let [was, is] = [before, after].map(|words| words.get(0) >> (8 * slot) & 0xff != 0);
            let word = |words: Words<'_>, at| words.get(Self::key_at(slot) + at);
            let differs = |at| word(before, at) != word(after, at);
            let is_same = was && is && !(0..E::KEY).any(differs);
            let generation = |words| Self::deadline_in(words, slot).generation;
            let is_new = is
                && (!is_same
                    || (E::KEY..Self::SLOT).any(differs)
                    || generation(before) != generation(after));
            let gone = (was && !is_same).then(|| before.part(Self::key_at(slot), E::KEY));
            if gone.is_some() || is_new {
                each(bucket * Self::SLOTS as u32 + slot as u32, gone, is_new);
            }
        }
    }

    /// Changes the value of the entry at `id`, as [`look`](Self::look) found it in this transaction.
    #[inline]
    pub fn change(&self, transaction: &Transaction, id: SlotId, value: &[u64]) {
        let (bucket, slot) = id.place();
        transaction.write_of(&self.buckets, (bucket, Self::SHAPE), |words| {
            words.part(Self::value_at(slot), E::VALUE).copy_from(0, value);
        });
    }

    /// Gives the entry at `id` a new deadline, sooner or later than that it has.
    pub fn set_deadline(&self, transaction: &Transaction, id: SlotId, tick: u32) {
        let (bucket, slot) = id.place();
        let at = Self::deadline_at(slot);
        transaction.write(&self.buckets, bucket, |words| {
            let renewed = Deadline::from_word(words.get(at)).renewed(tick);
            words.set(at, renewed.word());
        });
    }

    /// Puts the deadline of the entry at `id` off, which is no change.
    #[inline(always)]
    pub fn raise(&self, transaction: &Transaction, id: SlotId, deadline: Deadline) {
        let (bucket, slot) = id.place();
        transaction.raise(&self.buckets, bucket, Self::deadline_at(slot), deadline);
    }

    /// Stores an entry under a key that has none, to end at `tick`; `None`: the map is full, or the
    /// transaction doomed.
    pub fn insert(
        &self,
        transaction: &Transaction,
        hash: u64,
        key: &[u64],
        value: &[u64],
        tick: u32,
    ) -> Option<SlotId> {
        if !self.len.has_room(transaction, self.capacity) {
            return None;
        }
        let mut bucket = self.home(hash);
        for _ in 0..self.number {
            let slot = transaction
                .write(&self.buckets, bucket, |words| self.fill(words, hash, key, value, tick))?;
            if let Some(slot) = slot {
                self.len.add(transaction, 1);
                return Some(SlotId { bucket, slot: slot as u32 });
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Fills a free slot of a bucket; where there is none, an entry passes.
    fn fill(
        &self,
        words: Words<'_>,
        hash: u64,
        key: &[u64],
        value: &[u64],
        tick: u32,
    ) -> Option<usize> {
        let header = words.get(0);
        let free = !header & (EVERY_BYTE << 7) & (u64::MAX >> (64 - 8 * Self::SLOTS));
        if free == 0 {
            words.set(0, counted(header, true));
            return None;
        }
        let slot = (free.trailing_zeros() / 8) as usize;
        words.set(0, header | u64::from(Self::tag(hash)) << (8 * slot));
        words.copy_from(Self::key_at(slot), key);
        words.copy_from(Self::value_at(slot), value);
        if E::DEADLINE {
            let at = Self::deadline_at(slot);
            words.set(at, Deadline::from_word(words.get(at)).renewed(tick).word());
        }
        Some(slot)
    }

    /// Removes the entry at `id`, as [`look`](Self::look) found it in this transaction, whose key has
    /// this hash.
    pub fn remove(&self, transaction: &Transaction, hash: u64, id: SlotId) {
        let (at, slot) = id.place();
        let mut bucket = self.home(hash);
        while bucket != at {
            transaction.write(&self.buckets, bucket, |words| {
                words.set(0, counted(words.get(0), false));
            });
            bucket = self.next(bucket);
        }
        transaction.write(&self.buckets, at, |words| {
            words.set(0, words.get(0) & !(0xff << (8 * slot)));
            if E::DEADLINE {
                let at = Self::deadline_at(slot);
                words.set(at, Deadline::from_word(words.get(at)).renewed(0).word());
            }
        });
        self.len.add(transaction, -1);
    }

    /// The key, value and deadline of the entry at `id`, if there is one.
    pub fn entry<R>(
        &self,
        transaction: &Transaction,
        id: SlotId,
        mut look: impl FnMut(Words<'_>, Words<'_>, Deadline) -> R,
    ) -> Option<R> {
        let (bucket, slot) = id.place();
        transaction.read(&self.buckets, bucket, |words| {
            let there = words.get(0) >> (8 * slot) & 0xff != 0;
            let key_at = Self::key_at(slot);
            let key = words.part(key_at, E::KEY);
            there.then(|| look(key, Self::value_in(words, slot), Self::deadline_in(words, slot)))
        })?
    }
}

/// A bucket's header when one entry more, or one fewer, passes it.
fn counted(header: u64, more: bool) -> u64 {
    let one = 1 << OVERFLOW_SHIFT;
    match header >> OVERFLOW_SHIFT {
        OVERFLOW_STUCK => header,
        _ if more => header + one,
        _ => header - one,
    }
}
