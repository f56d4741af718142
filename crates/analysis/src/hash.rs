//! A hash for maps keyed by handles: several times faster than the default, which guards against
//! keys chosen by an attacker. These keys are ours.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map with the fast hash.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;
/// A set with the fast hash.
pub(crate) type FastSet<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// Multiply and rotate, a word at a time.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Mix(u64);

impl Mix {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }

    fn write_u128(&mut self, value: u128) {
        self.add(value as u64);
        self.add((value >> 64) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hash;

    fn hash(value: impl Hash) -> u64 {
        let mut hasher = Mix::default();
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn tells_near_keys_apart() {
        let all: HashSet<u64> = (0..1_000u32).map(hash).collect();
        assert_eq!(all.len(), 1_000);
        assert_ne!(hash("ipv4.src"), hash("ipv4.dst"));
        assert_ne!(hash(1u128 << 64), hash(1u128));
    }
}
