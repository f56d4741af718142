//! The few numbers in state objects that several workers change at once, or that several objects
//! look at: when an entry ends, counts, which indices are leased, which shard is being worked for, which
//! places were written.
//! Everything else has one owner, or does not change.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::memory::Zeroed;
use crate::state::table::SlotId;
use crate::state::wheel::Tick;

/// The tick at which an entry ends; 0: there is no entry.
///
/// Whoever owns the entry reads and writes it as a plain number. Workers that share it may *extend*
/// it while others read: of all extensions the latest counts, so that an entry has ended only when it
/// has for every worker. A tick is 1.05 ms long and an extension within the same tick changes
/// nothing, so that an entry's line is written at most once a tick however many packets refresh it:
/// rarely enough that a list of ages per worker, which every collection would have to go through,
/// would gain nothing.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Deadline(AtomicU32);

impl Deadline {
    /// Ends at `tick`.
    #[inline(always)]
    pub fn new(tick: Tick) -> Self {
        Self(AtomicU32::new(tick))
    }

    /// When it ends.
    #[inline(always)]
    pub fn tick(&self) -> Tick {
        // Nothing else is published with it: values change only where nobody reads.
        self.0.load(Ordering::Relaxed)
    }

    /// The number, to be written.
    #[inline(always)]
    pub fn tick_mut(&mut self) -> &mut Tick {
        self.0.get_mut()
    }

    /// As [`extend`](Self::extend), by its owner.
    #[inline(always)]
    pub fn prolong(&mut self, tick: Tick) {
        let ends = self.tick_mut();
        *ends = tick.max(*ends);
    }

    /// Ends at `tick`, unless it ends later anyway.
    #[inline(always)]
    pub fn extend(&self, tick: Tick) {
        self.0.fetch_max(tick, Ordering::Relaxed);
    }
}

/// How long an entry lives from when it is refreshed, in ticks. And whether it is noted for a store that it was
/// since the store was told of it: who refreshes it has this at hand, and not what notes are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Lifetime(u32);

impl Lifetime {
    /// No lifetime has it.
    const NOTED: u32 = 1 << 31;

    /// So many ticks, below 2^31; not noted.
    #[inline(always)]
    pub fn new(ticks: Tick) -> Self {
        Self(ticks & !Self::NOTED)
    }

    /// The ticks.
    #[inline(always)]
    pub fn ticks(self) -> Tick {
        self.0 & !Self::NOTED
    }

    /// It is so many ticks now.
    #[inline(always)]
    pub fn set(&mut self, ticks: Tick) {
        self.0 = self.0 & Self::NOTED | ticks & !Self::NOTED;
    }

    /// Whether it is noted that the entry was refreshed.
    #[inline(always)]
    pub(crate) fn is_noted(self) -> bool {
        self.0 & Self::NOTED != 0
    }

    /// It is, or no more. **Only what is in its [`Journal`](crate::state::journal) is noted here.**
    pub(crate) fn note(&mut self, is_noted: bool) {
        self.0 = self.ticks() | if is_noted { Self::NOTED } else { 0 };
    }
}

/// A count that one worker adds to and others may read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`; wraps after 2^64.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        // No two add at once, so that it takes no exclusive access.
        self.0.store(self.read().wrapping_add(n), Ordering::Relaxed);
    }

    /// The count.
    #[inline(always)]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// In which shard a handler runs: what steered allocators may give it, and whose entry it is that it
/// stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In all alike: what it makes stands in every shard.
    Everywhere,
    /// In this one.
    Shard(u16),
    /// In none, as periods, and timers that commands have set.
    NoShard,
}

/// The [`Whereabouts`] of a worker: its environment says where it is, its state objects look. And
/// where the packet that is handled should be instead, if a state object has found that out.
#[derive(Debug)]
pub struct Here(AtomicU64);

const EVERYWHERE: u32 = u32::MAX;
const NO_SHARD: u32 = u32::MAX - 1;

impl Default for Here {
    fn default() -> Self {
        Self(AtomicU64::new(EVERYWHERE.into()))
    }
}

impl Here {
    /// A packet of `shard`, the low 16 bits of a hash, is handled.
    #[inline(always)]
    pub fn enter(&self, shard: u32) {
        // One worker sets it and the same one reads it: atomic only so that instances may be sent.
        self.0.store((shard & 0xffff).into(), Ordering::Relaxed);
    }

    /// What follows is done in every shard alike.
    pub fn enter_every_shard(&self) {
        self.0.store(EVERYWHERE.into(), Ordering::Relaxed);
    }

    /// What follows is done in no shard.
    #[inline(always)]
    pub fn leave(&self) {
        self.0.store(NO_SHARD.into(), Ordering::Relaxed);
    }

    /// What the packet that is handled asks for is in `shard`: it went astray.
    pub fn stray(&self, shard: u16) {
        let here = self.0.load(Ordering::Relaxed) & u64::from(u32::MAX);
        self.0.store(here | (u64::from(shard) + 1) << 32, Ordering::Relaxed);
    }

    /// Where the packet that is handled should be instead; `None`: here.
    #[inline]
    pub fn astray(&self) -> Option<u16> {
        (self.0.load(Ordering::Relaxed) >> 32).checked_sub(1).map(|shard| shard as u16)
    }

    /// Where the worker is.
    #[inline]
    pub fn whereabouts(&self) -> Whereabouts {
        match self.0.load(Ordering::Relaxed) as u32 {
            EVERYWHERE => Whereabouts::Everywhere,
            NO_SHARD => Whereabouts::NoShard,
            shard => Whereabouts::Shard(shard as u16),
        }
    }

    /// The shard that is being worked for.
    #[inline]
    pub fn shard(&self) -> Option<u16> {
        match self.whereabouts() {
            Whereabouts::Shard(shard) => Some(shard),
            _ => None,
        }
    }
}

/// Which shard has borrowed each index of an allocator, for all workers.
#[derive(Default)]
pub struct Borrowers(OnceLock<Zeroed<AtomicU16>>);

impl Borrowers {
    /// `shard` has borrowed `index`, of `len`; below 65,535.
    pub fn note(&self, len: u32, index: u32, shard: u16) {
        let all = self.0.get_or_init(|| Zeroed::new(len as usize));
        if let Some(borrower) = all.get(index as usize) {
            borrower.store(shard + 1, Ordering::Release);
        }
    }

    /// `index` is borrowed no more.
    pub fn clear(&self, index: u32) {
        if let Some(borrower) = self.0.get().and_then(|all| all.get(index as usize)) {
            borrower.store(0, Ordering::Release);
        }
    }

    /// Who has borrowed `index`.
    pub fn of(&self, index: u32) -> Option<u16> {
        self.0.get()?.get(index as usize)?.load(Ordering::Acquire).checked_sub(1)
    }
}

/// Which indices of an allocator are nobody's yet, where workers lease theirs from one stock: in
/// blocks of 64, or one by one.
#[derive(Debug, Default)]
pub struct Commons {
    /// A bit per index: leased.
    leased: OnceLock<Box<[AtomicU64]>>,
    /// A bit per block of 64 indices that has none free, where somebody has looked in vain.
    full: OnceLock<Box<[AtomicU64]>>,
}

/// So many bits, in words, none of them set.
fn bits(len: usize) -> Box<[AtomicU64]> {
    (0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
}

/// The `most` lowest of these bits.
fn lowest(bits: u64, most: u32) -> u64 {
    let mut left = bits;
    for _ in 0..most.min(bits.count_ones()) {
        left &= left - 1;
    }
    bits & !left
}

impl Commons {
    /// How many of `len` indices a worker leases at a time: few enough that what `workers` have leased and not given
    /// out is an eighth of all at most, where that can be.
    pub fn block(len: u32, workers: u32) -> u32 {
        (len / workers.saturating_mul(8).max(1)).clamp(1, 64)
    }

    fn words(&self, len: u32) -> &[AtomicU64] {
        self.leased.get_or_init(|| bits(len as usize))
    }

    /// Leases what is free, `most` at most, of the first block that has a free index in `from .. to`, of `len`
    /// indices in all: the block's first index, and a bit for each index that was got.
    pub fn lease(&self, len: u32, from: u32, to: u32, most: u32) -> Option<(u32, u64)> {
        let (first, last) = (from / 64, to.div_ceil(64));
        let words = self.words(len).get(first as usize..last as usize)?;
        (first..).zip(words).find_map(|(block, word)| {
            let start = block * 64;
            let below = |index: u32| match index.saturating_sub(start) {
                bits @ 0..64 => (1u64 << bits) - 1,
                _ => u64::MAX,
            };
            let wanted = below(to.min(len)) & !below(from);
            loop {
                let some = lowest(wanted & !word.load(Ordering::Relaxed), most);
                if some == 0 {
                    return None;
                }
                // Whoever sets a bit first has leased the index: no other memory hangs on it.
                let got = some & !word.fetch_or(some, Ordering::Relaxed);
                if got != 0 {
                    return Some((start, got));
                }
            }
        })
    }

    /// Leases the first index in `from .. to`, of `len` in all, that is free and of whose place in its
    /// block `kinds` has the bit set. What is full is looked at once in 64 blocks until something is given
    /// back there, so that looking in vain stays cheap.
    pub fn lease_first(&self, len: u32, from: u32, to: u32, kinds: u64) -> Option<u32> {
        let to = to.min(len);
        let words = self.words(len);
        let full = self.full.get_or_init(|| bits(words.len()));
        let (mut block, end) = (from / 64, to.div_ceil(64));
        while block < end {
            let skip = full.get((block / 64) as usize)?.load(Ordering::SeqCst) >> (block % 64);
            if skip & 1 != 0 {
                block += (!skip).trailing_zeros().min(64 - block % 64);
                continue;
            }
            let word = words.get(block as usize)?;
            let mut free = kinds & !word.load(Ordering::Relaxed);
            while free != 0 {
                let index = block * 64 + free.trailing_zeros();
                if (from..to).contains(&index) && self.lease_one(len, index) {
                    return Some(index);
                }
                free &= free - 1;
            }
            self.note_full(full, block, word);
            block += 1;
        }
        None
    }

    /// Whether somebody has found all indices in `from .. to`, of `len` in all, leased, and none of their blocks
    /// was given back since.
    pub fn is_full(&self, len: u32, from: u32, to: u32) -> bool {
        let Some(full) = self.full.get() else { return false };
        let (mut block, end) = (from / 64, to.min(len).div_ceil(64));
        while block < end {
            let Some(word) = full.get((block / 64) as usize) else { return false };
            let ahead = word.load(Ordering::SeqCst) >> (block % 64);
            let looked_at = (64 - block % 64).min(end - block);
            if ahead.trailing_ones() < looked_at {
                return false;
            }
            block += looked_at;
        }
        true
    }

    fn note_full(&self, full: &[AtomicU64], block: u32, word: &AtomicU64) {
        let Some(summary) = full.get((block / 64) as usize) else { return };
        let bit = 1 << (block % 64);
        if word.load(Ordering::Relaxed) == u64::MAX {
            summary.fetch_or(bit, Ordering::SeqCst);
            // Whoever has given back since either is seen here, or sees the bit.
            if word.load(Ordering::SeqCst) != u64::MAX {
                summary.fetch_and(!bit, Ordering::SeqCst);
            }
        }
    }

    /// Leases one index of `len`; false when it is leased already.
    pub fn lease_one(&self, len: u32, index: u32) -> bool {
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        let word = self.words(len).get(word).filter(|_| index < len);
        let is_free = |word: &&AtomicU64| word.load(Ordering::Relaxed) & bit == 0;
        word.filter(is_free).is_some_and(|word| word.fetch_or(bit, Ordering::Acquire) & bit == 0)
    }

    /// Gives back an index of `len` that was leased.
    pub fn give_back(&self, len: u32, index: u32) {
        let (block, bit) = ((index / 64) as usize, 1u64 << (index % 64));
        let Some(word) = self.words(len).get(block) else { return };
        // What was written of the index before is known to whoever leases it next.
        word.fetch_and(!bit, Ordering::SeqCst);
        let bit = 1u64 << (block % 64);
        if let Some(summary) = self.full.get().and_then(|full| full.get(block / 64))
            && summary.load(Ordering::SeqCst) & bit != 0
        {
            summary.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}

/// The step in which state is written now, of all the objects of who writes it. What is written in one,
/// as by the packets of a batch, is stored together. And whether its store takes what is new.
#[derive(Clone, Debug, Default)]
pub struct Steps(Arc<Alone<Step>>);

#[derive(Debug, Default)]
struct Step {
    number: AtomicU32,
    refuses_new: Arc<AtomicBool>,
    is_event: AtomicBool,
}

/// On cache lines of its own (pairs of them are fetched together), since others' steps are other workers'.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone<T>(T);

impl Steps {
    /// Of objects that answer as if they were full as long as `refuses_new` is set.
    pub fn refusing(refuses_new: Arc<AtomicBool>) -> Self {
        Self(Arc::new(Alone(Step { refuses_new, ..Step::default() })))
    }

    /// Whether no entry is to come into being.
    #[inline]
    pub fn refuses_new(&self) -> bool {
        let Step { refuses_new, is_event, .. } = &self.0.0;
        refuses_new.load(Ordering::Relaxed) && !is_event.load(Ordering::Relaxed)
    }

    /// What follows is done by an event, or no more: what that makes is no new flow, but belongs to one that
    /// is there, or to a command. For who is alone with the objects.
    pub fn set_event(&self, is_event: bool) {
        self.0.0.is_event.store(is_event, Ordering::Relaxed);
    }

    /// What is written from now on is written in a later step: this one. Numbers begin again after 2^32.
    #[inline]
    pub fn next(&self) -> u32 {
        // Transactions take theirs in the order in which they see what others have locked.
        self.0.0.number.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// The same, of who alone goes on to the next.
    #[inline]
    pub fn next_alone(&self) {
        self.0.0.number.store(self.now().wrapping_add(1), Ordering::Relaxed);
    }

    /// The number of this one.
    #[inline]
    pub fn now(&self) -> u32 {
        self.0.0.number.load(Ordering::Relaxed)
    }
}

/// Places of an object that were written, each once. Workers that share the object note at once; they
/// are taken while nobody does.
pub(crate) struct Marks {
    /// A bit per place.
    places: Zeroed<AtomicU64>,
    /// A bit per word of those.
    words: Zeroed<AtomicU64>,
    /// The word of places at which taking in turn goes on.
    next: AtomicU32,
    /// The most blocks of 64 places, with any noted, that were seen in the round that is under way.
    blocks: AtomicU32,
    /// The round in which all of them had their turn.
    done: AtomicU32,
}

/// Sets a bit; false: it was set.
#[inline]
fn set(bits: &[AtomicU64], at: usize) -> bool {
    let Some(word) = bits.get(at / 64) else { return false };
    let bit = 1 << (at % 64);
    // Looked at first: what is written every time goes from core to core.
    let was_set = word.load(Ordering::Relaxed) & bit != 0;
    if !was_set {
        word.fetch_or(bit, Ordering::Relaxed);
    }
    !was_set
}

/// The bits that are set, none of them any more.
fn take_bits(bits: &[AtomicU64], at: usize) -> impl Iterator<Item = usize> {
    let word = bits.get(at).filter(|word| word.load(Ordering::Relaxed) != 0);
    bits_of(at, word.map_or(0, |word| word.swap(0, Ordering::Relaxed)))
}

/// The bits that are set.
fn set_bits(bits: &[AtomicU64], at: usize) -> impl Iterator<Item = usize> {
    bits_of(at, bits.get(at).map_or(0, |word| word.load(Ordering::Relaxed)))
}

/// The bits of `word`, the one at `at`.
fn bits_of(at: usize, mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(at * 64 + bit)
    })
}

impl Marks {
    pub(crate) fn new(places: u32) -> Self {
        let words = (places as usize).div_ceil(64);
        let summary = Zeroed::new(words.div_ceil(64));
        Self {
            places: Zeroed::new(words),
            words: summary,
            next: AtomicU32::new(0),
            blocks: AtomicU32::new(0),
            done: AtomicU32::new(0),
        }
    }

    /// `place` was written; false: it was noted before.
    #[inline]
    pub(crate) fn note(&self, place: u32) -> bool {
        let is_new = set(&self.places, place as usize);
        if is_new {
            set(&self.words, place as usize / 64);
        }
        is_new
    }

    /// `place` was not written after all; whether it was noted.
    #[inline]
    pub(crate) fn forget(&self, place: u32) -> bool {
        let was_noted = self.is_noted(place);
        if let Some(word) = self.places.get(place as usize / 64).filter(|_| was_noted) {
            word.fetch_and(!(1 << (place % 64)), Ordering::Relaxed);
        }
        was_noted
    }

    /// Whether there is such a place.
    pub(crate) fn has(&self, place: u32) -> bool {
        (place as usize) < 64 * self.places.len()
    }

    fn is_noted(&self, place: u32) -> bool {
        let word = self.places.get(place as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (place % 64) & 1 != 0)
    }

    pub(crate) fn renumber(&mut self, places: u32, moved: &[(SlotId, SlotId)]) {
        let before = std::mem::replace(self, Self::new(places));
        let noted = moved.iter().filter(|(from, _)| before.is_noted(from.0));
        for (_, to) in noted {
            self.note(to.0);
        }
    }

    /// Places written since they were taken last, in ascending order: all, or as far as the block of 64 in
    /// which the `most`th is, and how many more there are.
    pub(crate) fn take(&self, most: usize) -> (Vec<u32>, usize) {
        let (mut taken, mut left) = (Vec::new(), 0);
        for at in 0..self.words.len() {
            for word in take_bits(&self.words, at) {
                if taken.len() < most {
                    taken.extend(take_bits(&self.places, word).map(|place| place as u32));
                } else if let Some(places) = self.places.get(word) {
                    left += places.load(Ordering::Relaxed).count_ones() as usize;
                    set(&self.words, word);
                }
            }
        }
        (taken, left)
    }

    /// Of the places written since they were taken last those that are `wanted`, in ascending order.
    pub(crate) fn take_those(&self, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut taken = Vec::new();
        for at in 0..self.words.len() {
            for word in set_bits(&self.words, at) {
                self.take_of(word, &wanted, &mut taken);
            }
        }
        taken
    }

    /// The same of the 64 places of one word; how many are still noted there.
    fn take_of(&self, word: usize, wanted: impl Fn(u32) -> bool, taken: &mut Vec<u32>) -> usize {
        let (mut mask, mut left) = (0u64, 0);
        for place in set_bits(&self.places, word) {
            if wanted(place as u32) {
                mask |= 1 << (place % 64);
                taken.push(place as u32);
            } else {
                left += 1;
            }
        }
        if let Some(word) = self.places.get(word).filter(|_| mask != 0) {
            word.fetch_and(!mask, Ordering::Relaxed);
        }
        left
    }

    /// Some of the places written since they were taken last, in ascending order, going on where the last call
    /// ended, and whether there may be more after these in this round. As many as makes `turns` calls a round
    /// through all of them, but at least `few`, where `looks` are looked at for it, and not many more than `most`. What is written again and again
    /// keeps nothing from its turn, nor does it have another one in the same round. What has many ticks
    /// `left` is in [some rounds](Round::is_of) only. In one turn: all there are.
    pub(crate) fn take_in_turn(
        &self,
        round: Round,
        left: impl Fn(u32) -> Tick,
        [few, looks, most]: [usize; 3],
    ) -> Taken {
        let Round { number, turns, .. } = round;
        let mut taken = Taken::default();
        if turns > 1 && self.done.load(Ordering::Relaxed) == number {
            return taken;
        }
        let next = self.next.swap(0, Ordering::Relaxed) as usize;
        let from = if turns > 1 { next } else { 0 };
        let blocks = self.blocks(from > 0).div_ceil(turns.max(1));
        let (mut blocks_seen, mut seen, mut after) = (0, 0, from);
        for at in from / 64..self.words.len() {
            for word in set_bits(&self.words, at).filter(|&word| word >= from) {
                let (told, is_share) = (taken.places.len(), blocks_seen >= blocks);
                let is_enough = is_share && (told >= few || seen >= looks);
                if is_enough || turns > 1 && told >= most {
                    self.next.store(after as u32, Ordering::Relaxed);
                    taken.has_more = true;
                    return taken;
                }
                (blocks_seen, after) = (blocks_seen + 1, word + 1);
                let before = taken.places.len();
                let is_due = |place| turns <= 1 || round.is_of(place, left(place));
                let others = self.take_of(word, is_due, &mut taken.places);
                seen += others + taken.places.len() - before;
                taken.has_others |= others > 0;
                if let Some(words) = self.words.get(at).filter(|_| others == 0) {
                    words.fetch_and(!(1 << (word % 64)), Ordering::Relaxed);
                }
            }
        }
        self.done.store(number, Ordering::Relaxed);
        taken
    }

    /// How many blocks of 64 places there are to tell of in a round: those that had their turn are noted again, or
    /// were seen when it began.
    fn blocks(&self, has_begun: bool) -> usize {
        let now = self.words.iter().map(|words| words.load(Ordering::Relaxed).count_ones()).sum();
        let most = if has_begun { self.blocks.load(Ordering::Relaxed).max(now) } else { now };
        self.blocks.store(most, Ordering::Relaxed);
        most as usize
    }
}

/// Places whose turn it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) places: Vec<u32>,
    /// There may be more in this round.
    pub(crate) has_more: bool,
    /// Some wait for a later round.
    pub(crate) has_others: bool,
}

/// A round in which what was only refreshed is told, each once at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// From 1 on, one more than that of the last.
    pub number: u32,
    /// So many turns, about. In one turn everything is told.
    pub turns: usize,
    /// From one round to the next, in ticks; 0: everything is told in each.
    pub every: Tick,
}

/// A deadline is told again after such a part of the time that is left until then.
const PART: Tick = 16;
/// Or after so many rounds, a power of two.
const MOST_ROUNDS: Tick = 64;

impl Round {
    /// Whether the entry at `place`, which has so many ticks left, is told in this round: once in as many rounds as
    /// take a sixteenth of that, or half as many. Neighbours have their turn in different ones.
    fn is_of(&self, place: u32, left: Tick) -> bool {
        let rounds = left.checked_div(self.every.saturating_mul(PART)).unwrap_or(1);
        let mask = (1 << rounds.clamp(1, MOST_ROUNDS).ilog2()) - 1;
        (self.number ^ place) & mask == 0
    }
}

/// Places of an object that were written, and the step in which each was written first since it was told.
pub(crate) struct Written {
    places: Marks,
    /// Of places that are noted; of others, any number.
    in_step: Zeroed<AtomicU32>,
    steps: Steps,
}

impl Written {
    pub(crate) fn new(places: u32, steps: &Steps) -> Self {
        let in_step = Zeroed::new(places as usize);
        Self { places: Marks::new(places), in_step, steps: steps.clone() }
    }

    /// `place` was written.
    #[inline]
    pub(crate) fn note(&self, place: u32) {
        self.note_in(place, self.steps.now());
    }

    /// The same, in this step.
    #[inline]
    pub(crate) fn note_in(&self, place: u32, step: u32) {
        if self.places.note(place) {
            self.write_down(place, step);
        }
    }

    #[inline]
    fn write_down(&self, place: u32, step: u32) {
        if let Some(in_step) = self.in_step.get(place as usize) {
            in_step.store(step, Ordering::Relaxed);
        }
    }

    /// `place` was not written after all.
    #[inline]
    pub(crate) fn forget(&self, place: u32) {
        self.places.forget(place);
    }

    /// The step in which something is written now.
    #[inline]
    pub(crate) fn step(&self) -> u32 {
        self.steps.now()
    }

    /// Whether no entry is to come into being.
    #[inline]
    pub(crate) fn refuses_new(&self) -> bool {
        self.steps.refuses_new()
    }

    pub(crate) fn renumber(&mut self, places: u32, moved: &[(SlotId, SlotId)]) {
        let before = std::mem::replace(self, Self::new(places, &self.steps));
        for (from, to) in moved.iter().filter(|(from, _)| before.places.is_noted(from.0)) {
            self.places.note(to.0);
            self.write_down(to.0, before.in_step(from.0));
        }
    }

    fn in_step(&self, place: u32) -> u32 {
        self.in_step.get(place as usize).map_or(0, |step| step.load(Ordering::Relaxed))
    }

    /// Places written since they were taken last, each with its step, and how many are left; as
    /// [`Marks::take`].
    pub(crate) fn take(&self, most: usize) -> (Vec<(u32, u32)>, usize) {
        let (places, left) = self.places.take(most);
        (self.with_steps(places), left)
    }

    /// The same of those that are `wanted`.
    pub(crate) fn take_those(&self, wanted: impl Fn(u32) -> bool) -> Vec<(u32, u32)> {
        self.with_steps(self.places.take_those(wanted))
    }

    fn with_steps(&self, places: Vec<u32>) -> Vec<(u32, u32)> {
        places.into_iter().map(|place| (place, self.in_step(place))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_index_is_leased_twice() {
        let commons = Commons::default();
        assert!(commons.lease_one(1_000, 70) && !commons.lease_one(1_000, 70));
        let mut all: Vec<u32> = std::thread::scope(|threads| {
            let worker = || {
                let lease = || commons.lease(1_000, 3, 990, 5);
                let indices = |(start, got): (u32, u64)| {
                    (0..64).filter(move |at| got >> at & 1 != 0).map(move |at| start + at)
                };
                std::iter::from_fn(lease).flat_map(indices).collect::<Vec<_>>()
            };
            let workers: Vec<_> = (0..3).map(|_| threads.spawn(worker)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        all.sort_unstable();
        let expected: Vec<u32> = (3..990).filter(|&index| index != 70).collect();
        assert_eq!(all, expected);
        commons.give_back(1_000, 500);
        assert_eq!(commons.lease(1_000, 0, 1_000, 64), Some((0, 0b111)));
        assert_eq!(commons.lease(1_000, 3, 990, 64), Some((448, 1 << 52)));
        assert!(!commons.lease_one(1_000, 1_000), "there is no such index");
    }

    #[test]
    fn of_all_extensions_the_latest_counts() {
        let mut deadline = Deadline::new(10);
        std::thread::scope(|threads| {
            for ends in [12, 40, 11, 3] {
                let deadline = &deadline;
                threads.spawn(move || deadline.extend(ends));
            }
        });
        assert_eq!((deadline.tick(), *deadline.tick_mut()), (40, 40));
    }

    #[test]
    fn a_place_is_told_once_and_again_when_it_changes_again() {
        let marks = Marks::new(9_000);
        for place in [3, 99, 3, 64, 8_999, 9_100] {
            marks.note(place);
        }
        assert_eq!(marks.take(2), (vec![3, 64, 99], 1), "a block of 64 at a time");
        assert_eq!(marks.take(0), (vec![], 1));
        assert_eq!(marks.take(usize::MAX), (vec![8_999], 0));
        assert_eq!(marks.take(usize::MAX), (vec![], 0));
        assert!(marks.note(99) && marks.note(100) && !marks.note(99));
        marks.forget(100);
        assert_eq!(marks.take(usize::MAX), (vec![99], 0));
    }

    #[test]
    fn of_some_places_the_others_stay_noted() {
        let marks = Marks::new(9_000);
        for place in [3, 99, 64, 70, 8_999, 4_100] {
            marks.note(place);
        }
        assert_eq!(marks.take_those(|place| place % 2 == 1), vec![3, 99, 8_999]);
        assert_eq!(marks.take_those(|place| place % 2 == 1), vec![]);
        assert!(marks.note(99) && !marks.note(64));
        assert_eq!(marks.take(usize::MAX), (vec![64, 70, 99, 4_100], 0));
    }

    #[test]
    fn a_place_is_told_with_the_step_of_its_first_write() {
        let steps = Steps::default();
        let mut written = Written::new(100, &steps);
        for place in [7, 8, 9] {
            steps.next();
            written.note(7);
            written.note(place);
        }
        assert_eq!(written.take(usize::MAX).0, [(7, 1), (8, 2), (9, 3)]);
        written.note(8);
        written.note(9);
        steps.next();
        written.forget(9);
        written.note(9);
        written.renumber(
            200,
            &[(SlotId(8), SlotId(150)), (SlotId(9), SlotId(3)), (SlotId(7), SlotId(7))],
        );
        assert_eq!(
            written.take(usize::MAX).0,
            [(3, 4), (150, 3)],
            "what comes there anew is written anew"
        );
    }

    #[test]
    fn what_is_too_much_at_once_is_told_in_turn() {
        let marks = Marks::new(9_000);
        let note = |places: &[u32]| {
            for place in places {
                marks.note(*place);
            }
        };
        note(&[5, 6, 5_000, 8_999]);
        let take = |number, turns, few, most| {
            let round = Round { number, turns, ..Round::default() };
            let Taken { places, has_more, has_others } =
                marks.take_in_turn(round, |_| Tick::MAX, [few, usize::MAX, most]);
            assert!(!has_others);
            (places, has_more)
        };
        assert_eq!(take(1, 100, 2, 9), (vec![5, 6], true));
        note(&[5, 4_096]);
        assert_eq!(
            take(1, 100, 2, 9),
            (vec![4_096, 5_000], true),
            "what is behind has its turn first"
        );
        assert_eq!(take(1, 100, 2, 9), (vec![8_999], false));
        note(&[200, 8_998]);
        assert_eq!(take(1, 100, 1, 9), (vec![], false), "this round is over");
        assert_eq!(take(2, 100, 1, 9), (vec![5], true));
        note(&[7]);
        assert_eq!(take(2, 1, 1, 9), (vec![7, 200, 8_998], false), "all there are");
        note(&(0..9_000).collect::<Vec<_>>());
        let lengths = |number, most| {
            let mut lengths = vec![];
            while let (taken, true) = take(number, 10, 100, most) {
                lengths.push(taken.len());
            }
            lengths
        };
        assert_eq!(lengths(3, 2_000), [15 * 64; 9], "ten turns, however many there are");
        assert_eq!(take(4, 10, 100, 2_000), (vec![], false));
        note(&(0..9_000).collect::<Vec<_>>());
        assert_eq!(lengths(5, 300), [320; 28], "not too many in one turn");
        take(5, 1, 0, 0);
        note(&(0..640).collect::<Vec<_>>());
        assert_eq!(lengths(6, 300), [128, 128, 128, 128], "as many of some as of all");
    }
}
