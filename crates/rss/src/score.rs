//! How well a key spreads.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::field::{Bits, Field};
use crate::key::Key;
use crate::need::FieldValues;
use crate::nic::HashInput;
use crate::solution::{Mixed, index_mask};

/// What each bit of the input adds to the entry, under one key.
pub(crate) struct Columns {
    columns: Vec<u32>,
    index_bits: u32,
}

impl Columns {
    pub(crate) fn new(key: &Key, index_bits: u32) -> Self {
        let mask = index_mask(index_bits);
        let columns = key.windows().map(|window| window & mask).collect();
        Self { columns, index_bits }
    }

    /// Rank of the bits of the whole `input`.
    pub(crate) fn rank(&self, input: &HashInput) -> u32 {
        self.rank_of(0..input.width())
    }

    /// Rank of the bits at `positions` of the input.
    fn rank_of(&self, positions: Range<usize>) -> u32 {
        let mut basis = [0u32; 32];
        let mut rank = 0;
        for mut column in self.columns.get(positions).unwrap_or_default().iter().copied() {
            while column != 0 {
                let lead = column.trailing_zeros() as usize;
                if basis[lead] == 0 {
                    basis[lead] = column;
                    rank += 1;
                    break;
                }
                column ^= basis[lead];
            }
            if rank == self.index_bits {
                break;
            }
        }
        rank
    }

    /// What each field of `input` contributes; `may` says whether a position of the input meets
    /// key bits that may be other than zero.
    pub(crate) fn mixes(&self, input: &HashInput, may: impl Fn(usize) -> bool) -> Vec<Mixed> {
        let mixed = |(field, positions): (Field, Range<usize>)| Mixed {
            field,
            bits: self.mixing(positions.clone()).count() as u16,
            may_mix: positions.clone().filter(|at| may(*at)).count() as u16,
            rank: self.rank_of(positions),
        };
        input.places().map(mixed).collect()
    }

    /// The ranges of bits of `input` that do not change the entry.
    pub(crate) fn ignored(&self, input: &HashInput) -> Vec<Bits> {
        let mut ranges: Vec<Bits> = Vec::new();
        for (field, positions) in input.places() {
            let silent = positions.enumerate().filter(|(_, at)| !self.mixes_at(*at));
            for (bit, _) in silent {
                let first = bit as u16;
                match ranges.last_mut() {
                    Some(last) if last.field == field && last.first + last.len == first => {
                        last.len += 1;
                    }
                    _ => ranges.push(Bits { field, first, len: 1 }),
                }
            }
        }
        ranges
    }

    /// How many bits of `input` change the entry, and the ranks of its fields and of their last
    /// bytes, in which traffic differs most, added up.
    pub(crate) fn totals(&self, input: &HashInput) -> (u32, u32) {
        let bits = self.mixing(0..input.width()).count() as u32;
        let ranks = input.places().map(|(_, positions)| {
            let last = last_byte(&positions);
            self.rank_of(positions) + self.rank_of(last)
        });
        (bits, ranks.sum())
    }

    /// The positions of `input` that do not change the entry.
    pub(crate) fn silent(&self, input: &HashInput) -> impl Iterator<Item = usize> + '_ {
        (0..input.width()).filter(|at| !self.mixes_at(*at))
    }

    /// Whether the bit at `position` of an input changes the entry.
    pub(crate) fn mixes_at(&self, position: usize) -> bool {
        self.at(position) != 0
    }

    /// What the bit at `position` of an input adds to the entry.
    pub(crate) fn at(&self, position: usize) -> u32 {
        self.columns.get(position).copied().unwrap_or(0)
    }

    fn mixing(&self, positions: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        let columns = self.columns.get(positions).unwrap_or_default().iter().copied();
        columns.filter(|column| *column != 0)
    }
}

/// The entry of a packet with these field values.
pub(crate) fn entry_of(key: &Key, input: &HashInput, values: &FieldValues, index_bits: u32) -> u32 {
    let fields = input.fields().iter();
    let bits = fields.flat_map(|&field| (0..field.width()).map(move |bit| values.bit(field, bit)));
    let set = bits.enumerate().filter(|(_, bit)| *bit);
    set.fold(0, |hash, (at, _)| hash ^ key.window(at)) & index_mask(index_bits)
}

/// How often two frames are in the same entry, when there are so many in each of `entries`: the
/// smaller, the more even.
pub(crate) fn collisions(entries: impl Iterator<Item = (u32, u64)>) -> u64 {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    entries.for_each(|(entry, frames)| *counts.entry(entry).or_default() += frames);
    counts.values().map(|count| count * count).sum()
}

/// The positions of the last byte of a field.
pub(crate) fn last_byte(positions: &Range<usize>) -> Range<usize> {
    positions.end.saturating_sub(8).max(positions.start)..positions.end
}
