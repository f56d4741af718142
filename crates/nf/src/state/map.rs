//! From keys to values.

use std::sync::Arc;

use crate::key::{Hash, Key, Value};
use crate::state::journal::{self, Journaled, Marks, Moment, Sink};
use crate::state::shards::{Bundle, Movable, Scope, Shift, Tag, Tags, Ward};
use crate::state::shared::Here;
use crate::state::table::{SlotId, Table};

/// A map of fixed capacity; see [`MapOperations`](crate::world::MapOperations) for what an author
/// calls.
pub struct Map<K, V> {
    table: Table<K, V>,
    /// Which shards its entries belong to, where these may move to other workers.
    shards: Option<Box<Shards<K, V>>>,
}

enum Shards<K, V> {
    /// Each entry to one shard.
    Sharded {
        tags: Tags,
        /// Entries that every worker had and a packet of this shard has removed.
        removed: Vec<(u16, K)>,
    },
    /// Each shard has its part of every entry: the entry is the sum of what the worker's shards
    /// have.
    PerShard { here: Arc<Here>, parts: Table<(u16, K), V> },
    /// All are this worker's, and kept in a store: which were written, and which removed.
    Kept { marks: Marks, gone: Vec<K> },
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
        Self { table: Table::new(capacity, seed), shards: None }
    }

    /// From now on it is known which shard each entry belongs to.
    pub fn divide(&mut self, ward: &Ward) {
        self.shards = Some(Box::new(match ward.scope {
            Scope::PerShard => Shards::PerShard {
                here: Arc::clone(&ward.here),
                parts: Table::new(self.capacity(), self.table.seed()),
            },
            Scope::Sharded | Scope::Leased(_) => Shards::Sharded {
                tags: Tags::new(self.table.slots(), &ward.here),
                removed: Vec::new(),
            },
        }));
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
        if self.shards.is_some() {
            return self.insert_divided(hash, key, value);
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
        if let Some(shards) = &mut self.shards {
            shards.removed(id, *key, value);
        }
        Some(value)
    }

    /// Changes the value in place; false when there is none.
    #[inline(always)]
    pub fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let hash = self.hash(key);
        if self.shards.is_none() {
            return self.table.get_mut(hash, key).map(change).is_some();
        }
        let Some(id) = self.table.find(hash, key) else { return false };
        let value = self.table.value_mut(id);
        let before = *value;
        change(value);
        let after = *value;
        if let Some(shards) = &mut self.shards {
            shards.changed(id, *key, before, after);
        }
        true
    }

    #[inline(never)]
    fn insert_divided(&mut self, hash: Hash, key: K, value: V) -> bool {
        let (id, before) = match self.table.find(hash, &key) {
            Some(id) => (id, std::mem::replace(self.table.value_mut(id), value)),
            None => match self.table.insert(hash, key, value) {
                Some(id) => (id, V::zero()),
                None => return false,
            },
        };
        if let Some(shards) = &mut self.shards {
            shards.changed(id, key, before, value);
        }
        true
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

impl<K: Key, V: Value> Shards<K, V> {
    /// The entry at `id` was `before`, or was not there if that is zero, and is `after`.
    fn changed(&mut self, id: SlotId, key: K, before: V, after: V) {
        match self {
            Self::Sharded { tags, removed } => {
                tags.note(id.0);
                if tags.is_everywhere() {
                    removed.retain(|(_, gone)| *gone != key);
                }
            }
            Self::PerShard { here, parts } => {
                if let (true, Some(shard)) = (V::NUMBER, here.shard()) {
                    add(parts, (shard, key), after.minus(before));
                }
            }
            Self::Kept { marks, .. } => marks.note(id.0),
        }
    }

    /// The entry at `id`, which was `value`, is there no more.
    fn removed(&mut self, id: SlotId, key: K, value: V) {
        match self {
            Self::Sharded { tags, removed } => {
                if let (true, Some(shard)) = (tags.clear(id.0).is_common(), tags.here()) {
                    removed.push((shard, key));
                }
            }
            Self::PerShard { .. } => self.changed(id, key, value, V::zero()),
            Self::Kept { gone, .. } => gone.push(key),
        }
    }
}

/// Adds `more` to a shard's part. Parts that come to zero are forgotten.
fn add<K: Key, V: Value>(parts: &mut Table<(u16, K), V>, key: (u16, K), more: V) {
    let hash = parts.hash(&key);
    let Some(id) = parts.find(hash, &key) else {
        if more != V::zero() {
            parts.make_room(1);
            parts.place(hash, key, more);
        }
        return;
    };
    let sum = parts.value(id).plus(more);
    if sum == V::zero() {
        parts.remove(hash, id);
    } else {
        *parts.value_mut(id) = sum;
    }
}

impl<K: Key, V: Value> Movable for Map<K, V> {
    fn take_shards(&mut self, bundle: &mut Bundle) {
        if self.is_kept() {
            return;
        }
        let mut moved = Vec::new();
        let mut shards = self.shards.take();
        match shards.as_deref_mut() {
            None => return,
            Some(Shards::Kept { .. }) => {}
            Some(Shards::Sharded { tags, removed }) => {
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
            Some(Shards::PerShard { parts, .. }) => {
                let ours = |((shard, _), _): &((u16, K), V)| bundle.shards().contains(*shard);
                let all = parts.iter().map(|(_, key, part)| (key, *part));
                let leave: Vec<((u16, K), V)> = all.filter(ours).collect();
                for ((shard, key), part) in leave {
                    add(parts, (shard, key), V::zero().minus(part));
                    self.add(key, V::zero().minus(part));
                    moved.push(Moved::Part(shard, key, part));
                }
            }
        }
        self.shards = shards;
        bundle.pack(moved);
    }

    fn put_shards(&mut self, bundle: &mut Bundle, _: Shift) {
        if self.is_kept() {
            return;
        }
        let mut shards = self.shards.take();
        let Some(shards_now) = shards.as_deref_mut() else { return };
        let moved: Vec<Moved<K, V>> = bundle.unpack();
        self.make_room(moved.len() as u32, shards_now);
        for one in moved {
            match (one, &mut *shards_now) {
                (Moved::Entry(tag, key, value), Shards::Sharded { tags, .. }) => {
                    let hash = self.hash(&key);
                    let id = match self.table.find(hash, &key) {
                        Some(id) => id,
                        None => self.table.place(hash, key, value),
                    };
                    *self.table.value_mut(id) = value;
                    tags.set(id.0, tag);
                }
                (Moved::Removed(shard, key), Shards::Sharded { tags, removed }) => {
                    let hash = self.hash(&key);
                    if let Some(id) = self.table.find(hash, &key) {
                        self.table.remove(hash, id);
                        tags.clear(id.0);
                    }
                    removed.push((shard, key));
                }
                (Moved::Part(shard, key, part), Shards::PerShard { parts, .. }) => {
                    add(parts, (shard, key), part);
                    self.add(key, part);
                }
                // The object of the same name on another worker is of the same kind.
                _ => {}
            }
        }
        self.shards = shards;
    }

    fn immovable(&self) -> Option<&'static str> {
        match self.shards.as_deref() {
            Some(Shards::PerShard { .. }) if !V::NUMBER => {
                Some("each shard has its part of its entries, and they are no numbers")
            }
            _ => None,
        }
    }
}

impl<K: Key, V: Value> Journaled for Map<K, V> {
    fn layout(&self) -> String {
        journal::layout::<K, V>()
    }

    fn keep(&mut self) {
        let marks = Marks::new(self.table.slots());
        self.shards = Some(Box::new(Shards::Kept { marks, gone: Vec::new() }));
    }

    fn drain(&mut self, name: &'static str, _: &Moment, sink: &mut dyn Sink) {
        let Some(Shards::Kept { marks, gone }) = self.shards.as_deref_mut() else { return };
        // A key that has come back since is among the marks.
        for key in gone.drain(..) {
            sink.remove(name, journal::stored(&key));
        }
        for place in marks.take() {
            if let Some(key) = self.table.key(SlotId(place)) {
                let value = journal::stored(self.table.value(SlotId(place)));
                sink.put(name, journal::stored(&key), value);
            }
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], _: &Moment) -> bool {
        match (journal::loaded(key), journal::loaded(value)) {
            (Some(key), Some(value)) => self.insert(key, value),
            _ => false,
        }
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Whether a store keeps it: then all of it is one worker's.
    fn is_kept(&self) -> bool {
        matches!(self.shards.as_deref(), Some(Shards::Kept { .. }))
    }

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
    fn make_room(&mut self, more: u32, shards: &mut Shards<K, V>) {
        let moved = self.table.make_room(more);
        if let (Some(moved), Shards::Sharded { tags, .. }) = (moved, shards) {
            tags.renumber(self.table.slots(), &moved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of room for 8, divided, with `keys` stored by the shard that each is modulo 4.
    fn divided(scope: &Scope, keys: impl Iterator<Item = u32>) -> (Map<u32, u32>, Arc<Here>) {
        let ward = Ward { scope: scope.clone(), here: Arc::default() };
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
