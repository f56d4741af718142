//! Shards that move between workers: which entries of a state object belong to which shard, and how
//! they are taken out of one worker's objects and put into another's.
//!
//! An entry belongs to the shard whose packet stored it. What `init` and commands store is common:
//! every worker has it. Once a packet has changed it, it goes with that packet's shard as well, and the
//! copies that stay are what the others had all along: where it matters that a copy is the latest, the
//! plan has all packets that touch it meet in one shard.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::l3::Learned;
use crate::memory::Zeroed;
use crate::state::shared::{Commons, Here, Whereabouts};
use crate::state::table::SlotId;
use crate::state::wheel::{NEVER, Tick};

/// Most shards that there are.
pub const MOST_SHARDS: usize = 512;

/// A set of shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSet([u64; MOST_SHARDS / 64]);

impl ShardSet {
    /// Adds `shard`; nothing where there can be no such shard.
    pub fn insert(&mut self, shard: u16) {
        if let Some(word) = self.0.get_mut(usize::from(shard) / 64) {
            *word |= 1 << (shard % 64);
        }
    }

    /// Whether `shard` is one of them.
    #[inline]
    pub fn contains(&self, shard: u16) -> bool {
        let word = self.0.get(usize::from(shard) / 64);
        word.is_some_and(|word| word >> (shard % 64) & 1 != 0)
    }

    /// The shards, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..MOST_SHARDS as u16).filter(|&shard| self.contains(shard))
    }
}

impl FromIterator<u16> for ShardSet {
    fn from_iter<I: IntoIterator<Item = u16>>(shards: I) -> Self {
        let mut set = Self::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

/// How a state object's entries belong to shards.
#[derive(Clone, Debug)]
pub enum Scope {
    /// Each entry to the shard that touches it.
    Sharded,
    /// As above, of an allocator whose indices stay inside: they are leased from what all workers
    /// have in common, so that an index is nobody else's wherever its shard goes.
    Leased(Arc<Commons>),
    /// Of routing: what a worker learns of neighbours all know.
    Replicated(Arc<Learned>),
    /// Each shard has its part of every entry, a number; a worker sees the sum over its shards.
    PerShard,
}

/// What an object needs to know of shards.
#[derive(Clone, Debug)]
pub struct Ward {
    /// How its entries belong to them.
    pub scope: Scope,
    /// Which one is being worked for.
    pub here: Arc<Here>,
    /// How many workers have objects like this one.
    pub workers: u32,
}

impl Ward {
    /// Of `len` places under indices, how many are used throughout: all, or of one of several workers none, since
    /// it has places here and there.
    pub(crate) fn dense(&self, len: u32) -> u32 {
        if self.workers > 1 { 0 } else { len }
    }
}

/// Whose an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Tag(u16);

/// Marks what every worker had before some shard changed it.
const COMMON: u16 = 1 << 15;

impl Tag {
    /// The shard it belongs to; `None`: to none in particular.
    pub(crate) fn shard(self) -> Option<u16> {
        (self.0 & !COMMON).checked_sub(1)
    }

    /// Whether every worker had it.
    pub(crate) fn is_common(self) -> bool {
        self.0 & COMMON != 0
    }
}

/// Which shard each place of an object belongs to.
pub(crate) struct Tags {
    here: Arc<Here>,
    tags: Zeroed<u16>,
}

impl Tags {
    /// For places `0 .. len`, of which the first `dense` are used throughout and the rest here and there.
    pub(crate) fn new(len: u32, dense: u32, here: &Arc<Here>) -> Self {
        Self { here: Arc::clone(here), tags: Zeroed::sparse(len as usize, dense as usize) }
    }

    /// Something is stored at `place`, by the shard that is being worked for or for all. Returns the
    /// shard that has lost the place to it.
    #[inline]
    pub(crate) fn note(&mut self, place: u32) -> Option<u16> {
        let tag = self.tags.get_mut(place as usize)?;
        let before = Tag(*tag).shard();
        match self.here.whereabouts() {
            Whereabouts::Shard(shard) => {
                *tag = *tag & COMMON | (shard + 1);
                return before.filter(|before| *before != shard);
            }
            Whereabouts::Everywhere if *tag == 0 => *tag = COMMON,
            Whereabouts::Everywhere | Whereabouts::NoShard => {}
        }
        None
    }

    /// Every worker has what is at `place`, whosever it is.
    pub(crate) fn share(&mut self, place: u32) {
        if let Some(tag) = self.tags.get_mut(place as usize) {
            *tag |= COMMON;
        }
    }

    pub(crate) fn set(&mut self, place: u32, tag: Tag) {
        if let Some(place) = self.tags.get_mut(place as usize) {
            *place = tag.0;
        }
    }

    /// `place` is free; returns whose it was.
    pub(crate) fn clear(&mut self, place: u32) -> Tag {
        self.tags.get_mut(place as usize).map_or_else(Tag::default, |tag| Tag(std::mem::take(tag)))
    }

    /// What is at `place` goes away with its shard. True: it stays as well, since it is common: other
    /// shards may look at it here.
    pub(crate) fn release(&mut self, place: u32) -> bool {
        let Some(tag) = self.tags.get_mut(place as usize) else { return false };
        *tag &= COMMON;
        *tag != 0
    }

    /// Whose `place` is.
    pub(crate) fn get(&self, place: u32) -> Tag {
        self.tags.get(place as usize).map_or_else(Tag::default, |&tag| Tag(tag))
    }

    /// The shard that is being worked for.
    pub(crate) fn here(&self) -> Option<u16> {
        self.here.shard()
    }

    /// The packet that is handled belongs to `shard`.
    pub(crate) fn stray(&self, shard: u16) {
        self.here.stray(shard);
    }

    /// Whether all shards alike are being worked for.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.here.whereabouts() == Whereabouts::Everywhere
    }

    /// The places of `shards`, in ascending order, with their tags. Two bytes of each place are
    /// read, so that a million take a fraction of a millisecond.
    pub(crate) fn places(&self, shards: &ShardSet) -> Vec<(u32, Tag)> {
        // Where nothing is, which is nearly everywhere, a cache line is looked at in one step.
        const LINE: usize = 32;
        let lines = (0..).step_by(LINE).zip(self.tags.chunks(LINE));
        let used = lines.filter(|(_, tags)| tags.iter().fold(0, |all, tag| all | tag) != 0);
        let tags = used.flat_map(|(first, tags)| (first..).zip(tags.iter().map(|tag| Tag(*tag))));
        tags.filter(|(_, tag)| tag.shard().is_some_and(|shard| shards.contains(shard))).collect()
    }

    /// There are `len` places now, and what was at one place each is at another.
    pub(crate) fn renumber(&mut self, len: u32, moved: &[(SlotId, SlotId)]) {
        let before = std::mem::replace(&mut self.tags, Zeroed::new(len as usize));
        for (from, to) in moved {
            self.set(to.0, Tag(before[from.0 as usize]));
        }
    }
}

/// The state of some shards, on its way from one worker to another.
#[derive(Debug, Default)]
pub struct Bundle {
    shards: ShardSet,
    /// Time from which the deadlines in it are counted, nanoseconds since the Unix epoch.
    origin_ns: u64,
    /// What each object gave, in the order of the objects.
    parts: VecDeque<Box<dyn Any + Send>>,
    entries: usize,
}

impl Bundle {
    /// For the state of `shards`, whose deadlines are counted from `origin_ns`.
    pub fn new(shards: ShardSet, origin_ns: u64) -> Self {
        Self { shards, origin_ns, ..Self::default() }
    }

    /// The shards whose state it is.
    pub fn shards(&self) -> &ShardSet {
        &self.shards
    }

    /// Entries in it.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// What is to be added to its deadlines where ticks are counted from `origin_ns`.
    pub fn shift(&self, origin_ns: u64) -> Shift {
        let ticks = |origin: u64| i64::try_from(origin >> crate::context::TICK_BITS).unwrap_or(0);
        Shift(ticks(self.origin_ns) - ticks(origin_ns))
    }

    /// Puts what an object gave behind what is there.
    pub(crate) fn pack<E: Send + 'static>(&mut self, entries: Vec<E>) {
        self.entries += entries.len();
        self.parts.push_back(Box::new(entries));
    }

    /// Takes what is foremost. Objects unpack in the order in which they packed, so that it is what
    /// the object of the same name gave.
    pub(crate) fn unpack<E: Send + 'static>(&mut self) -> Vec<E> {
        let part = self.parts.pop_front().and_then(|part| part.downcast().ok());
        debug_assert!(part.is_some(), "objects of the same function pack alike");
        part.map_or_else(Vec::new, |entries| *entries)
    }
}

/// Ticks that are to be added to a deadline that was counted from another origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift(i64);

impl Shift {
    /// `deadline` as the new origin has it; what has passed stays passed.
    pub fn of(self, deadline: Tick) -> Tick {
        if deadline == NEVER {
            return NEVER;
        }
        let moved = i64::from(deadline).saturating_add(self.0);
        moved.clamp(1, i64::from(NEVER - 1)) as Tick
    }
}

/// A state object whose entries can be taken out by shard.
pub trait Movable {
    /// Takes out what belongs to the bundle's shards and packs it.
    fn take_shards(&mut self, bundle: &mut Bundle);
    /// Unpacks what [`take_shards`](Self::take_shards) of another worker's object packed; `shift`
    /// is that of the bundle.
    fn put_shards(&mut self, bundle: &mut Bundle, shift: Shift);
    /// Why its entries cannot be taken out by shard; `None`: they can.
    fn immovable(&self) -> Option<&'static str>;
}
