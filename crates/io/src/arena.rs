//! Packet bytes, one packet after the other, each at the start of a cache line.

use std::fmt;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// A growing store of byte strings that starts each at a multiple of [`LINE`] in memory, padded to
/// whole lines. A 64-byte packet thus costs one line to read, and copies may run to the end of the
/// last line.
#[derive(Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    /// Where the first line starts in `bytes`: the allocator aligns less than we need.
    base: usize,
}

impl Arena {
    /// Appends `bytes` and returns their offset.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> u64 {
        let padded = bytes.len().next_multiple_of(LINE);
        self.reserve(padded);
        let offset = self.bytes.len() - self.base;
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.base + offset + padded, 0);
        offset as u64
    }

    /// Makes room for `more` bytes.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() < more {
            self.grow(more);
        }
    }

    /// The `len` bytes at `offset`; empty where there are none.
    #[inline(always)]
    pub(crate) fn get(&self, offset: u64, len: usize) -> &[u8] {
        let start = self.base + offset as usize;
        self.bytes.get(start..start + len).unwrap_or_default()
    }

    /// All bytes, padding included; what was stored at `offset` starts there.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.base..]
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(self.base);
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Makes room for at least `more` bytes. Moving to new memory may change the alignment, so the
    /// vector must never grow by itself.
    #[cold]
    fn grow(&mut self, more: usize) {
        let used = self.bytes.len() - self.base;
        let capacity = (used + more).max(2 * used).max(1 << 12) + LINE;
        let mut bytes: Vec<u8> = Vec::with_capacity(capacity);
        let base = bytes.as_ptr().align_offset(LINE).min(LINE);
        bytes.resize(base, 0);
        bytes.extend_from_slice(&self.bytes[self.base..]);
        *self = Self { bytes, base };
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} bytes)", self.bytes.len() - self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_starts_a_line_and_survives_growth() {
        let mut arena = Arena::default();
        let strings: Vec<Vec<u8>> = (0..300).map(|len| vec![len as u8; len]).collect();
        let offsets: Vec<u64> = strings.iter().map(|string| arena.push(string)).collect();
        for (string, &offset) in strings.iter().zip(&offsets) {
            assert_eq!(arena.get(offset, string.len()), string);
            let line = &arena.bytes()[offset as usize..];
            assert_eq!(line.len() % LINE, 0);
            assert!((line.as_ptr() as usize).is_multiple_of(LINE));
        }
    }

    #[test]
    fn clearing_keeps_the_memory_and_the_alignment() {
        let mut arena = Arena::default();
        arena.push(&[1; 5_000]);
        let capacity = arena.capacity();
        arena.clear();
        let offset = arena.push(&[2; 64]);
        assert_eq!((arena.capacity(), offset), (capacity, 0));
        assert!((arena.get(offset, 64).as_ptr() as usize).is_multiple_of(LINE));
        assert_eq!(arena.get(64, 1), &[0u8; 0]);
    }
}
