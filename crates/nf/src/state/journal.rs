//! State that is kept in a store: which places have changed, and values as bytes.
//!
//! An object that keeps a journal remembers *where* it was written, once however often; what is
//! there is read when the journal is drained, between two batches. Where no journal is kept nothing
//! is remembered: the places in which an object looks whether it is divided among shards are those in
//! which it looks for its journal. Where it is divided, what is told is told of a shard.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::Value;
use crate::pack::{Pack, Unpack, words};
pub use crate::state::shared::{Round, Steps};

use crate::context::FOREVER;
use crate::state::shards::ShardSet;
use crate::state::shared::{Marks, Written};
use crate::state::table::SlotId;
use crate::state::wheel::{NEVER, Tick};
use crate::trace::Parts;

/// So many refreshed entries of an object are told in one turn at least, or so many looked at for it, where there are
/// as many; and not many more than the third told.
const REFRESHES: [usize; 3] = [16, 256, 4_096];

/// Takes what has changed. Objects are named by their fields; `shard` is the shard that an entry
/// belongs to, `None` where state is not divided, or the entry is what all workers have alike.
pub trait Sink {
    /// The entry under `key` holds `value` now.
    fn put(&mut self, object: &'static str, shard: Option<u16>, key: &[u8], value: &[u8]);
    /// There is none under `key` any more.
    fn remove(&mut self, object: &'static str, shard: Option<u16>, key: &[u8]);
    /// What follows was written in this step of [`Steps`]; `None`: just now.
    fn at(&mut self, _step: Option<u32>) {}
    /// This worker's count is this now.
    fn count(&mut self, object: &'static str, count: u64);
}

/// The key under which a counter is given, by [`Journaled::restore`], what workers that there are no
/// more have counted: it is read with its own count and told by nobody.
pub const COUNTED_BY_OTHERS: &[u8] = b"others";

/// What [`Journaled::drain`] and [`Journaled::restore`] need to know, and what is left to tell.
#[derive(Debug)]
pub struct Moment {
    /// Ticks from the Unix epoch to those that deadlines are counted from.
    origin: u64,
    /// When it is.
    now: Tick,
    /// In which round the deadlines of entries that were only refreshed are told.
    refreshes: Option<Round>,
    refreshes_left: Cell<bool>,
    refreshes_wait: Cell<bool>,
    /// Of how many more changes it is told, about.
    changes: Cell<usize>,
    /// So many more there are.
    left: Cell<usize>,
    /// Of which shards it is told; `None`: of all there is.
    shards: Option<ShardSet>,
    packed: RefCell<Packed>,
}

impl Moment {
    /// Ticks are counted from one that is `origin` ticks after the Unix epoch. Everything is told.
    pub fn new(origin: u64) -> Self {
        Self {
            origin,
            now: 0,
            refreshes: Some(Round { turns: 1, ..Round::default() }),
            refreshes_left: Cell::new(false),
            refreshes_wait: Cell::new(false),
            changes: Cell::new(usize::MAX),
            left: Cell::new(0),
            shards: None,
            packed: RefCell::default(),
        }
    }

    /// The same, at the tick `now`.
    #[must_use]
    pub fn at(mut self, now: Tick) -> Self {
        self.now = now;
        self
    }

    /// When it is, in ticks after the Unix epoch.
    pub fn now(&self) -> u64 {
        self.origin.saturating_add(self.now.into())
    }

    /// The same, of about so many changes of all objects together, so that packets do not wait long. What was
    /// told, this time and before, is what there is when nothing [is left](Self::left).
    #[must_use]
    pub fn of_changes(mut self, most: usize) -> Self {
        self.changes = Cell::new(most);
        self
    }

    /// The same, of entries that were only refreshed those that are next in this round; `None`: of none.
    #[must_use]
    pub fn of_refreshes(mut self, round: Option<Round>) -> Self {
        self.refreshes = round;
        self
    }

    /// The same, of what belongs to these shards and of nothing else: whatever has changed of them. Deadlines
    /// that were only moved stay noted: they leave with their entries.
    #[must_use]
    pub fn of_shards(mut self, shards: &ShardSet) -> Self {
        self.shards = Some(shards.clone());
        self
    }

    /// Whether what belongs to `shard` is told.
    pub(crate) fn is_of(&self, shard: Option<u16>) -> bool {
        let Some(shards) = &self.shards else { return true };
        shard.is_some_and(|shard| shards.contains(shard))
    }

    /// How many changes there are that were not told, for the next time.
    pub fn left(&self) -> usize {
        self.left.get()
    }

    /// How many more changes might have been told.
    pub fn room(&self) -> usize {
        self.changes.get()
    }

    /// Whether some object may have more refreshes in this round, for the next time.
    pub fn leaves_refreshes(&self) -> bool {
        self.refreshes_left.get()
    }

    /// Whether some object has refreshes that wait for a later round.
    pub fn has_refreshes_wait(&self) -> bool {
        self.refreshes_wait.get()
    }

    /// Some object has refreshes that wait for a later round.
    pub fn leave_to_later_rounds(&self) {
        self.refreshes_wait.set(true);
    }

    pub(crate) fn spend(&self, changes: usize) {
        self.changes.set(self.changes.get().saturating_sub(changes));
    }

    pub(crate) fn leave(&self, changes: usize) {
        self.left.set(self.left.get() + changes);
    }

    /// Tells that the entry of an object, and perhaps a shard, under `key` holds `value` now.
    pub(crate) fn put<K: Value, V: Value>(
        &self,
        sink: &mut dyn Sink,
        (object, shard): (&'static str, Option<u16>),
        key: &K,
        value: &V,
    ) {
        let Packed { words, key: key_bytes, value: value_bytes } = &mut *self.packed.borrow_mut();
        pack(key, words, key_bytes);
        pack(value, words, value_bytes);
        sink.put(object, shard, key_bytes, value_bytes);
    }

    /// Tells that there is no entry under `key` any more.
    pub(crate) fn remove<K: Value>(
        &self,
        sink: &mut dyn Sink,
        (object, shard): (&'static str, Option<u16>),
        key: &K,
    ) {
        let Packed { words, key: bytes, .. } = &mut *self.packed.borrow_mut();
        pack(key, words, bytes);
        sink.remove(object, shard, bytes);
    }

    /// A deadline, counted from the Unix epoch; [`u64::MAX`] of what does not end.
    pub(crate) fn absolute(&self, deadline: Tick) -> u64 {
        if deadline == NEVER { u64::MAX } else { self.origin.saturating_add(deadline.into()) }
    }

    /// The deadline, counted from the Unix epoch, of what lives so many ticks from each refresh. What has passed
    /// stays passed; nothing lives longer than that from now on, as it would where the clock has gone back since;
    /// what lives for ever has no end, whatever an older release has stored.
    pub(crate) fn deadline(&self, absolute: u64, lifetime: u32) -> Tick {
        if absolute == u64::MAX || lifetime == FOREVER {
            return NEVER;
        }
        let last = self.now.saturating_add(lifetime).min(NEVER - 1);
        absolute.saturating_sub(self.origin).clamp(1, last.max(1).into()) as Tick
    }
}

/// A key and a value as bytes, in memory that is used again.
#[derive(Debug, Default)]
struct Packed {
    words: Vec<u64>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// `value` as bytes: its bits, the lowest first.
fn pack<V: Value>(value: &V, bits: &mut Vec<u64>, bytes: &mut Vec<u8>) {
    bits.clear();
    bits.resize(words(V::BITS), 0);
    value.pack(&mut Pack::new(bits));
    bytes.clear();
    bits.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.truncate(V::BITS.div_ceil(8) as usize);
}

/// A state object whose entries can be kept in a store.
pub trait Journaled {
    /// What its keys and values are made of. Entries of another layout are not read.
    fn layout(&self) -> Layout;
    /// From now on changes are remembered, each with its step.
    fn keep(&mut self, steps: &Steps);
    /// Tells what has changed since the last time, of whatever shards `moment` is of.
    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink);
    /// Puts in an entry as it was told; false when it does not fit or cannot be read.
    fn restore(&mut self, key: &[u8], value: &[u8], moment: &Moment) -> bool;
}

/// What the entries of an object are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The names of the numbers that a key and a value are made of, and their bytes: all that the first releases noted.
    pub names: String,
    /// How both lie in their bits, variants that are not the first among them.
    pub types: String,
}

/// That of entries with such keys and values.
pub fn layout<K: Value, V: Value>() -> Layout {
    Layout {
        names: format!("{} -> {}", described::<K>(), described::<V>()),
        types: format!("{} -> {}", K::shape(), V::shape()),
    }
}

/// That of a count.
pub(crate) fn layout_of_count() -> Layout {
    Layout { names: "count".to_owned(), types: u64::shape().to_string() }
}

fn described<V: Value>() -> String {
    let parts = Parts::of(&V::zero());
    let names: Vec<&str> = parts.all().iter().map(|(name, _)| name.as_str()).collect();
    format!("{} ({} bytes)", names.join(" "), stored(&V::zero()).len())
}

/// `value` as bytes, as it is told.
pub fn stored<V: Value>(value: &V) -> Vec<u8> {
    let (mut words, mut bytes) = (Vec::new(), Vec::new());
    pack(value, &mut words, &mut bytes);
    bytes
}

/// The value that `bytes` are; `None` if they are none.
pub fn loaded<V: Value>(bytes: &[u8]) -> Option<V> {
    let mut bits = vec![0; words(V::BITS)];
    for (at, byte) in bytes.iter().enumerate() {
        *bits.get_mut(at / 8)? |= u64::from(*byte) << (8 * (at % 8));
    }
    let value = V::unpack(&mut Unpack::new(&bits));
    // Bits that no value packs to are read as another one.
    (stored(&value) == bytes).then_some(value)
}

/// Where it is noted that a deadline was moved forward, by a worker that shares the object.
#[derive(Clone, Copy)]
pub struct Refreshing<'a> {
    marks: &'a Marks,
    place: u32,
}

impl Refreshing<'_> {
    /// It was.
    #[inline]
    pub fn note(self) {
        self.marks.note(self.place);
    }
}

/// When what is at a place ends, where nothing is that may be told later.
pub(crate) fn at_once(_: u32) -> Tick {
    0
}

/// What is remembered of an object whose entries have keys `K`.
pub(crate) struct Journal<K> {
    changed: Written,
    /// Places whose deadline was moved, and perhaps nothing else.
    refreshed: Marks,
    /// Entries that are no more, or belong to another shard now, since which step.
    gone: Mutex<VecDeque<(Option<u16>, K, u32)>>,
    /// Places of which nothing has been told since the key of what was there was noted as gone: of what comes and
    /// goes there meanwhile the store never hears. So of each place one key waits, and one more for each time that
    /// what was there left with its shard.
    untold: Marks,
}

impl<K: Value> Journal<K> {
    pub(crate) fn new(places: u32, steps: &Steps) -> Self {
        let (changed, refreshed) = (Written::new(places, steps), Marks::new(places));
        Self { changed, refreshed, gone: Mutex::default(), untold: Marks::new(places) }
    }

    /// Whether the store takes nothing new for the time being: an entry that is not there is to be
    /// answered as if there were no room for it.
    #[inline]
    pub(crate) fn refuses_new(&self) -> bool {
        self.changed.refuses_new()
    }

    /// What is at `place` was written.
    #[inline]
    pub(crate) fn note(&self, place: u32) {
        self.changed.note(place);
    }

    /// What is at `place` was written in this step, by a worker that shares the object: nobody else writes there
    /// meanwhile, nor takes it back.
    #[inline]
    pub(crate) fn note_in(&self, place: u32, step: u32) {
        self.changed.note_in(place, step);
    }

    /// What is at `place` was refreshed, and perhaps `changed`.
    #[inline]
    pub(crate) fn touch(&self, place: u32, changed: bool) {
        if changed {
            self.note(place);
        } else {
            self.refreshed.note(place);
        }
    }

    /// Where it is noted that the deadline of the entry at `place` was moved forward.
    pub(crate) fn refreshing(&self, place: u32) -> Refreshing<'_> {
        Refreshing { marks: &self.refreshed, place }
    }

    /// The entry at `place` was written. It was `lost` by a shard, if it belonged to another before.
    #[inline]
    pub(crate) fn change(&mut self, place: u32, lost: Option<u16>, key: impl FnOnce() -> K) {
        self.note(place);
        if lost.is_some() {
            self.remove(place, lost, key());
        }
    }

    /// The entry under `key`, at `place`, is no more, or not in `shard`.
    pub(crate) fn remove(&mut self, place: u32, shard: Option<u16>, key: K) {
        debug_assert!(self.untold.has(place), "of {place} nothing can be noted");
        if self.untold.note(place) {
            let gone = (shard, key, self.changed.step());
            self.gone.get_mut().unwrap_or_else(PoisonError::into_inner).push_back(gone);
        }
    }

    /// The entry under `key` is no more, and nothing is at its `place`: what comes there next is
    /// another one, written when it comes.
    pub(crate) fn clear(&mut self, place: u32, shard: Option<u16>, key: K) {
        self.changed.forget(place);
        self.remove(place, shard, key);
    }

    /// As [`clear`](Self::clear), of an object that no shards divide, by a worker that shares it and is alone.
    pub(crate) fn clear_alone(&self, place: u32, key: K) {
        self.clear_in(place, key, self.changed.step());
    }

    /// The same in this step: nobody else writes there meanwhile, nor takes it back.
    pub(crate) fn clear_in(&self, place: u32, key: K, step: u32) {
        debug_assert!(self.untold.has(place), "of {place} nothing can be noted");
        self.changed.forget(place);
        if self.untold.note(place) {
            self.gone().push_back((None, key, step));
        }
    }

    /// An entry that another worker has told, except perhaps that it was refreshed, has come to `place` with its
    /// shard. Where it was, it is told with what changes: its turn would begin anew with each move.
    pub(crate) fn arrive(&self, place: u32, is_refreshed: bool) {
        self.untold.forget(place);
        if is_refreshed {
            self.note(place);
        }
    }

    /// Nobody who holds it panics.
    fn gone(&self) -> MutexGuard<'_, VecDeque<(Option<u16>, K, u32)>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are `places` places now, and what was at one place each is at another.
    pub(crate) fn renumber(&mut self, places: u32, moved: &[(SlotId, SlotId)]) {
        self.changed.renumber(places, moved);
        self.refreshed.renumber(places, moved);
        self.untold.renumber(places, moved);
    }

    /// Tells of what is gone, and returns the places that are to be told after that, each with its step:
    /// what has come back since is among them. Of what was only refreshed, `ends` knows when it does.
    pub(crate) fn take(
        &self,
        name: &'static str,
        moment: &Moment,
        ends: impl Fn(u32) -> Tick,
        sink: &mut dyn Sink,
    ) -> Vec<(u32, u32)> {
        let gone_left = self.take_gone(name, moment, sink);
        // What has come back is told after what went.
        let most = if gone_left > 0 { 0 } else { moment.changes.get() };
        let (mut places, left) = self.changed.take(most);
        self.are_told(&places);
        moment.spend(places.len());
        moment.leave(gone_left + left);
        let Some(round) = moment.refreshes else { return places };
        if gone_left + left > 0 {
            moment.refreshes_left.set(true);
            return places;
        }
        let left = |place| ends(place).saturating_sub(moment.now);
        let refreshed = self.refreshed.take_in_turn(round, left, REFRESHES);
        let now = self.changed.step();
        places.extend(refreshed.places.into_iter().map(|place| (place, now)));
        moment.refreshes_left.set(moment.refreshes_left.get() | refreshed.has_more);
        if refreshed.has_others {
            moment.leave_to_later_rounds();
        }
        places
    }

    /// The same of an object that shards divide, which may have to tell of some of them only: of whom it is that
    /// is at a place, `shard_of` knows. That takes a look at each place that is noted, and none at others.
    pub(crate) fn take_divided(
        &self,
        name: &'static str,
        moment: &Moment,
        shard_of: impl Fn(u32) -> Option<u16>,
        ends: impl Fn(u32) -> Tick,
        sink: &mut dyn Sink,
    ) -> Vec<(u32, u32)> {
        if moment.shards.is_none() {
            return self.take(name, moment, ends, sink);
        }
        self.gone().retain(|(shard, key, step)| {
            let stays = !moment.is_of(*shard);
            if !stays {
                sink.at(Some(*step));
                moment.remove(sink, (name, *shard), key);
            }
            stays
        });
        let places = self.changed.take_those(|place| moment.is_of(shard_of(place)));
        self.are_told(&places);
        places
    }

    fn are_told(&self, places: &[(u32, u32)]) {
        for (place, _) in places {
            self.untold.forget(*place);
        }
    }

    /// The entry at `place`, of which all changes have been told, leaves with its shard; whether it was
    /// refreshed since that was told.
    pub(crate) fn leave(&mut self, place: u32) -> bool {
        self.refreshed.forget(place)
    }

    /// Tells of what is gone, as much as may be told, and returns how much is left.
    fn take_gone(&self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) -> usize {
        let mut gone = self.gone();
        while moment.changes.get() > 0
            && let Some((shard, key, step)) = gone.pop_front()
        {
            sink.at(Some(step));
            moment.remove(sink, (name, shard), &key);
            moment.spend(1);
        }
        gone.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn values_are_read_as_they_were_written() {
        type Entry = (u16, Option<Ipv4Addr>, [i32; 2]);
        for value in [(7, None, [-1, 2]), (65_535, Some(Ipv4Addr::LOCALHOST), [i32::MIN, 0])] {
            let value: Entry = value;
            let bytes = stored(&value);
            assert_eq!(loaded::<Entry>(&bytes), Some(value));
            assert_eq!(loaded::<Entry>(&bytes[1..]), None, "one byte less");
            assert_eq!(loaded::<Entry>(&[&bytes[..], &[0]].concat()), None, "one byte more");
        }
        assert_eq!(loaded::<bool>(&[2]), None);
    }
}
