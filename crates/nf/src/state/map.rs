//! From keys to values.

use crate::key::{Hash, Key, Value};
use crate::state::table::Table;

/// A map of fixed capacity; see [`MapOperations`](crate::world::MapOperations) for what an author
/// calls.
pub struct Map<K, V> {
    table: Table<K, V>,
}

#[allow(clippy::len_without_is_empty, reason = "no operation of the language asks it")]
impl<K: Key, V: Value> Map<K, V> {
    /// An empty map with room for `capacity` entries, hashed with `seed`.
    pub fn new(capacity: u32, seed: u64) -> Self {
        Self { table: Table::new(capacity, seed) }
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
        self.table.remove(hash, id).map(|(_, value)| value)
    }

    /// Changes the value in place; false when there is none.
    #[inline(always)]
    pub fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        self.table.get_mut(self.hash(key), key).map(change).is_some()
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
