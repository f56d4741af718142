//! From keys to values.

use std::sync::Arc;

use crate::key::{Hash, Key, Value};
use crate::state::journal::{self, Journal, Journaled, Moment, Sink, Steps};
use crate::state::shards::{Bundle, Movable, Scope, Shift, Tag, Tags, Ward};
use crate::state::shared::Here;
use crate::state::table::{SlotId, Table};

/// A map of fixed capacity; see [`MapOperations`](crate::world::MapOperations) for what an author
/// calls.
pub struct Map<K, V> {
    table: Table<K, V>,
    /// What is noted of its entries.
    notes: Option<Box<Notes<K, V>>>,
}

/// Which shards entries belong to, where these may move to other workers; which were written and which
/// removed, where a store keeps them.
struct Notes<K, V> {
    shards: Shards<K, V>,
    /// Of a map in parts its places are those of the parts.
    journal: Option<Journal<K>>,
}

enum Shards<K, V> {
    /// All are this worker's.
    Whole,
    /// Each entry to one shard.
    Sharded {
        tags: Tags,
        /// Entries that every worker had and a packet of this shard has removed.
        removed: Vec<(u16, K)>,
    },
    /// Each shard has its part of every entry: the entry is the sum of what the worker's shards
    /// have.
    PerShard { here: Arc<Here>, parts: Table<(u16, K), V> },
}

/// What leaves a map with its shard.
enum Moved<K, V> {
    Entry(Tag, K, V),
    Part(u16, K, V),
    /// An entry that every worker had, and which is to be removed there too.
    Removed(u16, K),
}

#[allow(clippy::len_without_is_empty, reason = "no operation of the language asks it")]
impl<K: Key, V: Value> Map<K, V> {
    /// An empty map with room for `capacity` entries, hashed with `seed`.
    pub fn new(capacity: u32, seed: u64) -> Self {
        Self { table: Table::new(capacity, seed), notes: None }
    }

    /// From now on it is known which shard each entry belongs to; of an empty map.
    pub fn divide(&mut self, ward: &Ward) {
        let shards = match ward.scope {
            Scope::PerShard => Shards::PerShard {
                here: Arc::clone(&ward.here),
                parts: Table::new(self.capacity(), self.table.seed()),
            },
            _ => {
                self.table = self.table.for_one_of(ward.workers);
                let tags = Tags::new(self.table.slots(), self.table.near_slots(), &ward.here);
                Shards::Sharded { tags, removed: Vec::new() }
            }
        };
        self.notes = Some(Box::new(Notes { shards, journal: None }));
    }

    /// Entries stored.
    pub fn len(&self) -> u32 {
        self.table.len()
    }

    /// Entries that fit.
    pub fn capacity(&self) -> u32 {
        self.table.capacity()
    }

    /// Bytes of memory when every line has been touched.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    #[inline(always)]
    fn hash(&self, key: &K) -> Hash {
        self.table.hash(key)
    }

    /// The value under `key`.
    #[inline(always)]
    pub fn get(&self, key: &K) -> Option<V> {
        self.table.get(self.hash(key), key).copied()
    }

    /// Stores `value` under `key`, in place of what was there; false when the map is full.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> bool {
        let hash = self.hash(&key);
        if self.notes.is_some() {
            return self.insert_noted(hash, key, value);
        }
        if let Some(old) = self.table.get_mut(hash, &key) {
            *old = value;
            return true;
        }
        self.table.insert(hash, key, value).is_some()
    }

    /// Removes what is under `key`, and returns it.
    #[inline]
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.hash(key);
        let id = self.table.find(hash, key)?;
        let (_, value) = self.table.remove(hash, id)?;
        if let Some(notes) = &mut self.notes {
            notes.removed(id, *key, value);
        }
        Some(value)
    }

    /// Changes the value in place; false when there is none.
    #[inline(always)]
    pub fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let hash = self.hash(key);
        if self.notes.is_none() {
            return self.table.get_mut(hash, key).map(change).is_some();
        }
        let Some(id) = self.table.find(hash, key) else { return false };
        let value = self.table.value_mut(id);
        let before = *value;
        change(value);
        let after = *value;
        if let Some(notes) = &mut self.notes {
            notes.changed(id, *key, before, after);
        }
        true
    }

    #[inline(never)]
    fn insert_noted(&mut self, hash: Hash, key: K, value: V) -> bool {
        let (id, before) = match self.table.find(hash, &key) {
            Some(id) => (id, std::mem::replace(self.table.value_mut(id), value)),
            None if self.refuses_new() => return false,
            None => match self.table.insert(hash, key, value) {
                Some(id) => (id, V::zero()),
                None => return false,
            },
        };
        if let Some(notes) = &mut self.notes {
            notes.changed(id, key, before, value);
            notes.stored(id);
        }
        true
    }

    fn refuses_new(&self) -> bool {
        let journal = self.notes.as_ref().and_then(|notes| notes.journal.as_ref());
        journal.is_some_and(Journal::refuses_new)
    }

    /// Fetches the line where `key` would lie.
    #[inline(always)]
    pub fn prefetch(&self, key: &K) {
        self.table.prefetch(self.hash(key));
    }

    /// Every entry.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        self.table.iter().map(|(_, key, value)| (key, *value))
    }
}

impl<K: Key, V: Value> Notes<K, V> {
    fn is_divided(&self) -> bool {
        !matches!(self.shards, Shards::Whole)
    }

    /// Whose the entry at `place` is, or the part of one.
    fn shard(&self, place: u32) -> Option<u16> {
        match &self.shards {
            Shards::Whole => None,
            Shards::Sharded { tags, .. } => tags.get(place).shard(),
            Shards::PerShard { parts, .. } => parts.key(SlotId(place)).map(|(shard, _)| shard),
        }
    }

    /// The entry at `id` was `before`, or was not there if that is zero, and is `after`.
    fn changed(&mut self, id: SlotId, key: K, before: V, after: V) {
        let mut lost = None;
        match &mut self.shards {
            Shards::Whole => {}
            Shards::Sharded { tags, removed } => {
                lost = tags.note(id.0);
                if tags.is_everywhere() {
                    removed.retain(|(_, gone)| *gone != key);
                }
            }
            Shards::PerShard { here, .. } => {
                if let (true, Some(shard)) = (V::NUMBER, here.shard())
                    && let Some(id) = self.add((shard, key), after.minus(before))
                    && let Some(journal) = &self.journal
                {
                    journal.note(id.0);
                }
                return;
            }
        }
        if let Some(journal) = &mut self.journal {
            journal.change(id.0, lost, || key);
        }
    }

    /// An entry was put at `id`: by a command, in every worker alike, whosever it was here before.
    fn stored(&mut self, id: SlotId) {
        if let Shards::Sharded { tags, .. } = &mut self.shards
            && tags.is_everywhere()
        {
            tags.share(id.0);
        }
    }

    /// The entry at `id`, which was `value`, is there no more.
    fn removed(&mut self, id: SlotId, key: K, value: V) {
        let mut shard = None;
        match &mut self.shards {
            Shards::Whole => {}
            Shards::Sharded { tags, removed } => {
                let tag = tags.clear(id.0);
                shard = tag.shard();
                if let (true, Some(shard)) = (tag.is_common(), tags.here()) {
                    removed.push((shard, key));
                }
            }
            Shards::PerShard { .. } => return self.changed(id, key, value, V::zero()),
        }
        if let Some(journal) = &mut self.journal {
            journal.clear(id.0, shard, key);
        }
    }

    /// What is at `id` has come with its shard: the store has it.
    fn arrived(&self, id: SlotId) {
        self.journal.iter().for_each(|journal| journal.arrive(id.0, false));
    }

    /// Adds `more` to a shard's part, where there are parts, and returns where it is. Those that come to zero are
    /// forgotten.
    fn add(&mut self, key: (u16, K), more: V) -> Option<SlotId> {
        let Shards::PerShard { parts, .. } = &mut self.shards else { return None };
        let hash = parts.hash(&key);
        let found = parts.find(hash, &key);
        let sum = found.map_or_else(V::zero, |id| *parts.value(id)).plus(more);
        let id = match found {
            Some(id) if sum == V::zero() => {
                parts.remove(hash, id);
                if let Some(journal) = &mut self.journal {
                    journal.clear(id.0, Some(key.0), key.1);
                }
                return None;
            }
            None if sum == V::zero() => return None,
            Some(id) => id,
            None => {
                let moved = parts.make_room(1);
                if let (Some(moved), Some(journal)) = (moved, &mut self.journal) {
                    journal.renumber(parts.slots(), &moved);
                }
                parts.place(hash, key, sum)
            }
        };
        *parts.value_mut(id) = sum;
        Some(id)
    }
}

impl<K: Key, V: Value> Movable for Map<K, V> {
    fn take_shards(&mut self, bundle: &mut Bundle) {
        let Some(mut notes) = self.notes.take_if(|notes| notes.is_divided()) else { return };
        let mut moved = Vec::new();
        // What leaves is not gone.
        let journal = notes.journal.take();
        match &mut notes.shards {
            Shards::Whole => {}
            Shards::Sharded { tags, removed } => {
                let leave = removed.extract_if(.., |(shard, _)| bundle.shards().contains(*shard));
                moved.extend(leave.map(|(shard, key)| Moved::Removed(shard, key)));
                for (slot, tag) in tags.places(bundle.shards()) {
                    let Some(key) = self.table.key(SlotId(slot)) else { continue };
                    moved.push(Moved::Entry(tag, key, *self.table.value(SlotId(slot))));
                    if !tags.release(slot) {
                        self.table.remove(self.hash(&key), SlotId(slot));
                    }
                }
            }
            Shards::PerShard { parts, .. } => {
                let ours = |((shard, _), _): &((u16, K), V)| bundle.shards().contains(*shard);
                let all = parts.iter().map(|(_, key, part)| (key, *part));
                let leave: Vec<((u16, K), V)> = all.filter(ours).collect();
                for ((shard, key), part) in leave {
                    notes.add((shard, key), V::zero().minus(part));
                    self.add(key, V::zero().minus(part));
                    moved.push(Moved::Part(shard, key, part));
                }
            }
        }
        notes.journal = journal;
        self.notes = Some(notes);
        bundle.pack(moved);
    }

    fn put_shards(&mut self, bundle: &mut Bundle, _: Shift) {
        let Some(mut notes) = self.notes.take_if(|notes| notes.is_divided()) else { return };
        let moved: Vec<Moved<K, V>> = bundle.unpack();
        self.make_room(moved.len() as u32, Some(&mut notes));
        for one in moved {
            match (one, &mut notes.shards) {
                (Moved::Entry(tag, key, value), Shards::Sharded { tags, .. }) => {
                    let hash = self.hash(&key);
                    let id = match self.table.find(hash, &key) {
                        Some(id) => id,
                        None => self.table.place(hash, key, value),
                    };
                    *self.table.value_mut(id) = value;
                    tags.set(id.0, tag);
                    notes.arrived(id);
                }
                (Moved::Removed(shard, key), Shards::Sharded { tags, removed }) => {
                    let hash = self.hash(&key);
                    if let Some(id) = self.table.find(hash, &key) {
                        self.table.remove(hash, id);
                        tags.clear(id.0);
                    }
                    removed.push((shard, key));
                }
                (Moved::Part(shard, key, part), Shards::PerShard { .. }) => {
                    let id = notes.add((shard, key), part);
                    id.iter().for_each(|id| notes.arrived(*id));
                    self.add(key, part);
                }
                // The object of the same name on another worker is of the same kind.
                _ => {}
            }
        }
        self.notes = Some(notes);
    }

    fn immovable(&self) -> Option<&'static str> {
        match self.notes.as_ref().map(|notes| &notes.shards) {
            Some(Shards::PerShard { .. }) if !V::NUMBER => {
                Some("each shard has its part of its entries, and they are no numbers")
            }
            _ => None,
        }
    }
}

impl<K: Key, V: Value> Journaled for Map<K, V> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<K, V>()
    }

    fn keep(&mut self, steps: &Steps) {
        let whole = || Box::new(Notes { shards: Shards::Whole, journal: None });
        let notes = self.notes.get_or_insert_with(whole);
        let slots = match &notes.shards {
            Shards::PerShard { parts, .. } => parts.slots(),
            Shards::Whole | Shards::Sharded { .. } => self.table.slots(),
        };
        notes.journal = Some(Journal::new(slots, steps));
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(notes) = self.notes.as_deref() else { return };
        let Some(journal) = &notes.journal else { return };
        for (slot, step) in
            journal.take_divided(name, moment, |slot| notes.shard(slot), journal::at_once, sink)
        {
            sink.at(Some(step));
            let (id, shard) = (SlotId(slot), notes.shard(slot));
            let found = match &notes.shards {
                Shards::PerShard { parts, .. } => {
                    parts.key(id).map(|(_, key)| (key, parts.value(id)))
                }
                _ => self.table.key(id).map(|key| (key, self.table.value(id))),
            };
            if let Some((key, value)) = found {
                moment.put(sink, (name, shard), &key, value);
            }
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], _: &Moment) -> bool {
        let (Some(key), Some(value)) = (journal::loaded::<K>(key), journal::loaded::<V>(value))
        else {
            return false;
        };
        // As of shards that move: none may be lost.
        let hash = self.hash(&key);
        if self.len() >= self.capacity() && self.table.find(hash, &key).is_none() {
            let mut notes = self.notes.take();
            self.make_room(1, notes.as_deref_mut());
            self.notes = notes;
            self.table.place(hash, key, V::zero());
        }
        match self.notes.as_ref().map(|notes| &notes.shards) {
            // It is the part of the shard that is being worked for.
            Some(Shards::PerShard { .. }) => {
                let sum = self.get(&key).map_or(value, |others| others.plus(value));
                self.insert(key, sum)
            }
            _ => self.insert(key, value),
        }
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Adds to an entry what came or went with a shard; an entry that comes to zero is removed.
    fn add(&mut self, key: K, more: V) {
        let hash = self.hash(&key);
        match self.table.find(hash, &key) {
            None => {
                self.table.place(hash, key, more);
            }
            Some(id) => {
                let sum = self.table.value(id).plus(more);
                *self.table.value_mut(id) = sum;
                if sum == V::zero() {
                    self.table.remove(hash, id);
                }
            }
        }
    }

    /// Has room for `more` entries, beyond the capacity if need be: none may be lost.
    fn make_room(&mut self, more: u32, notes: Option<&mut Notes<K, V>>) {
        let Some(moved) = self.table.make_room(more) else { return };
        let Some(notes) = notes else { return };
        if let Shards::Sharded { tags, .. } = &mut notes.shards {
            tags.renumber(self.table.slots(), &moved);
            if let Some(journal) = &mut notes.journal {
                journal.renumber(self.table.slots(), &moved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of room for 8, divided, with `keys` stored by the shard that each is modulo 4.
    fn divided(scope: &Scope, keys: impl Iterator<Item = u32>) -> (Map<u32, u32>, Arc<Here>) {
        let ward = Ward { scope: scope.clone(), here: Arc::default(), workers: 2 };
        let mut map = Map::new(8, 1);
        map.divide(&ward);
        for key in keys {
            ward.here.enter(key % 4);
            assert!(map.insert(key, key + 100));
        }
        (map, ward.here)
    }

    fn moved(from: &mut Map<u32, u32>, to: &mut Map<u32, u32>, shards: &[u16]) -> usize {
        let mut bundle = Bundle::new(shards.iter().copied().collect(), 0);
        from.take_shards(&mut bundle);
        let (entries, shift) = (bundle.entries(), bundle.shift(0));
        to.put_shards(&mut bundle, shift);
        entries
    }

    #[test]
    fn more_than_fits_is_kept_and_can_go_on() {
        let (mut a, _) = divided(&Scope::Sharded, 0..8);
        let (mut b, _) = divided(&Scope::Sharded, 8..16);
        assert_eq!(moved(&mut a, &mut b, &[0, 1, 2, 3]), 8);
        assert_eq!((a.len(), b.len(), b.capacity()), (0, 16, 8));
        assert!((0..16).all(|key| b.get(&key) == Some(key + 100)));
        assert!(!b.insert(99, 0), "it is more than full");
        assert_eq!(moved(&mut b, &mut a, &[1, 3]), 8);
        assert!((0..16).all(|key| a.get(&key).is_some() == (key % 2 == 1)));
        assert!((0..16).all(|key| b.get(&key).is_some() == (key % 2 == 0)));
    }

    #[test]
    fn what_all_workers_have_stays_and_what_a_shard_removed_goes_everywhere_it_goes() {
        let common = |map: &mut Map<u32, u32>, here: &Here| {
            here.enter_every_shard();
            assert!(map.insert(70, 1) && map.insert(71, 1));
        };
        let (mut a, here) = divided(&Scope::Sharded, 0..1);
        let (mut b, there) = divided(&Scope::Sharded, 1..2);
        common(&mut a, &here);
        common(&mut b, &there);
        here.enter(2);
        assert!(a.insert(70, 2) && a.remove(&71).is_some());
        moved(&mut a, &mut b, &[2]);
        assert_eq!((b.get(&70), b.get(&71), a.get(&70)), (Some(2), None, Some(2)));
    }

    /// The others have what a command puts in place of a shard's own entry.
    #[test]
    fn what_a_command_stores_over_an_entry_of_a_shard_goes_with_it() {
        let (mut a, here) = divided(&Scope::Sharded, 0..1);
        let (mut b, there) = divided(&Scope::Sharded, 1..2);
        here.enter(2);
        assert!(a.insert(70, 1));
        for (map, here) in [(&mut a, &here), (&mut b, &there)] {
            here.enter_every_shard();
            assert!(map.insert(70, 5));
        }
        here.enter(2);
        assert_eq!(a.remove(&70), Some(5));
        moved(&mut a, &mut b, &[2]);
        assert_eq!((a.get(&70), b.get(&70)), (None, None));
    }

    #[test]
    fn a_sum_is_that_of_the_shards_that_are_here() {
        let (mut a, here) = divided(&Scope::PerShard, std::iter::empty());
        let (mut b, _) = divided(&Scope::PerShard, std::iter::empty());
        for (shard, sum) in [(0, 3), (1, 5), (0, 9)] {
            here.enter(shard);
            assert!(a.insert(7, sum), "what this shard adds is the difference");
        }
        moved(&mut a, &mut b, &[0]);
        assert_eq!((a.get(&7), b.get(&7)), (Some(2), Some(7)));
        moved(&mut a, &mut b, &[1]);
        assert_eq!((a.get(&7), b.get(&7)), (None, Some(9)));
    }
}
