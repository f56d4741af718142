//! State that is kept in a store: which places have changed, and values as bytes.
//!
//! An object that keeps a journal remembers *where* it was written, once however often; what is
//! there is read when the journal is drained, between two batches. Where no journal is kept nothing
//! is remembered: the places in which an object looks whether it is divided among shards are those in
//! which it looks for its journal. Where it is divided, what is told is told of a shard.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::Value;
use crate::pack::{Pack, Unpack, words};
pub use crate::state::shared::Steps;

use crate::state::shared::{Marks, Written};
use crate::state::table::SlotId;
use crate::state::wheel::Tick;
use crate::trace::Parts;

/// Takes what has changed. Objects are named by their fields; `shard` is the shard that an entry
/// belongs to, `None` where state is not divided, or the entry is what all workers have alike.
pub trait Sink {
    /// The entry under `key` holds `value` now.
    fn put(&mut self, object: &'static str, shard: Option<u16>, key: Vec<u8>, value: Vec<u8>);
    /// There is none under `key` any more.
    fn remove(&mut self, object: &'static str, shard: Option<u16>, key: Vec<u8>);
    /// What follows was written in this step of [`Steps`]; `None`: just now.
    fn at(&mut self, _step: Option<u32>) {}
    /// This worker's count is this now.
    fn count(&mut self, object: &'static str, count: u64);
}

/// The key under which a counter is given, by [`Journaled::restore`], what workers that there are no
/// more have counted: it is read with its own count and told by nobody.
pub const COUNTED_BY_OTHERS: &[u8] = b"others";

/// What [`Journaled::drain`] and [`Journaled::restore`] need to know.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Ticks from the Unix epoch to those that deadlines are counted from.
    pub origin: u64,
    /// Of how many entries of an object that were only refreshed the deadlines are wanted too, about.
    pub refreshes: usize,
    /// Some object has more of them, for the next time.
    pub has_more: Cell<bool>,
}

impl Moment {
    /// A deadline, counted from the Unix epoch.
    pub(crate) fn absolute(&self, deadline: Tick) -> u64 {
        self.origin.saturating_add(deadline.into())
    }

    /// The deadline that was counted from the Unix epoch. What has passed stays passed.
    pub(crate) fn deadline(&self, absolute: u64) -> Tick {
        let ticks = absolute.saturating_sub(self.origin);
        ticks.clamp(1, Tick::MAX.into()) as Tick
    }
}

/// A state object whose entries can be kept in a store.
pub trait Journaled {
    /// What its keys and values are made of, by the names of the fields. Entries of another layout
    /// are not read.
    fn layout(&self) -> String;
    /// From now on changes are remembered, each with its step.
    fn keep(&mut self, steps: &Steps);
    /// Tells what has changed since the last time.
    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink);
    /// Puts in an entry as it was told; false when it does not fit or cannot be read.
    fn restore(&mut self, key: &[u8], value: &[u8], moment: &Moment) -> bool;
}

/// The names of the numbers that a key and a value are made of, and their bytes.
pub fn layout<K: Value, V: Value>() -> String {
    format!("{} -> {}", described::<K>(), described::<V>())
}

fn described<V: Value>() -> String {
    let parts = Parts::of(&V::zero());
    let names: Vec<&str> = parts.all().iter().map(|(name, _)| name.as_str()).collect();
    format!("{} ({} bytes)", names.join(" "), stored(&V::zero()).len())
}

/// `value` as bytes: its bits, the lowest first.
pub fn stored<V: Value>(value: &V) -> Vec<u8> {
    let mut bits = vec![0; words(V::BITS)];
    value.pack(&mut Pack::new(&mut bits));
    let mut bytes: Vec<u8> = bits.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(V::BITS.div_ceil(8) as usize);
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

/// What is remembered of an object whose entries have keys `K`.
pub(crate) struct Journal<K> {
    changed: Written,
    /// Places whose deadline was moved, and perhaps nothing else.
    refreshed: Marks,
    /// Entries that are no more, or belong to another shard now, since which step.
    gone: Mutex<Vec<(Option<u16>, K, u32)>>,
}

impl<K: Value> Journal<K> {
    pub(crate) fn new(places: u32, steps: &Steps) -> Self {
        let (changed, refreshed) = (Written::new(places, steps), Marks::new(places));
        Self { changed, refreshed, gone: Mutex::default() }
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
            self.remove(lost, key());
        }
    }

    /// The entry under `key` is no more, or not in `shard`.
    pub(crate) fn remove(&mut self, shard: Option<u16>, key: K) {
        let step = self.changed.step();
        self.gone.get_mut().unwrap_or_else(PoisonError::into_inner).push((shard, key, step));
    }

    /// The entry under `key` is no more, and nothing is at its `place`: what comes there next is
    /// another one, written when it comes.
    pub(crate) fn clear(&mut self, place: u32, shard: Option<u16>, key: K) {
        self.changed.forget(place);
        self.remove(shard, key);
    }

    /// The same, by a worker that shares the object, which no shards divide.
    pub(crate) fn remove_beside(&self, key: K) {
        let step = self.changed.step();
        self.gone().push((None, key, step));
    }

    /// Nobody who holds it panics.
    fn gone(&self) -> MutexGuard<'_, Vec<(Option<u16>, K, u32)>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are `places` places now, and what was at one place each is at another.
    pub(crate) fn renumber(&mut self, places: u32, moved: &[(SlotId, SlotId)]) {
        self.changed.renumber(places, moved);
        self.refreshed.renumber(places, moved);
    }

    /// Tells of what is gone, and returns the places that are to be told after that, each with its step:
    /// what has come back since is among them.
    pub(crate) fn take(
        &self,
        name: &'static str,
        moment: &Moment,
        sink: &mut dyn Sink,
    ) -> Vec<(u32, u32)> {
        for (shard, key, step) in self.gone().drain(..) {
            sink.at(Some(step));
            sink.remove(name, shard, stored(&key));
        }
        let mut places = self.changed.take();
        if moment.refreshes > 0 {
            let (refreshed, has_more) = self.refreshed.take(moment.refreshes);
            let now = self.changed.step();
            places.extend(refreshed.into_iter().map(|place| (place, now)));
            moment.has_more.set(moment.has_more.get() | has_more);
        }
        places
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
