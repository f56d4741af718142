//! How well a key spreads.

use std::collections::BTreeMap;

use crate::key::Key;
use crate::need::FieldValues;
use crate::nic::HashInput;
use crate::solution::{Mixed, index_mask};

/// Rank of the hash of `input` under `key` on the low `index_bits` bits.
pub(crate) fn rank(key: &Key, input: &HashInput, index_bits: u32) -> u32 {
    rank_of(key, 0..input.width(), index_bits)
}

/// Rank of the bits at `positions` of the input.
fn rank_of(key: &Key, positions: impl Iterator<Item = usize>, index_bits: u32) -> u32 {
    let mask = index_mask(index_bits);
    let mut basis = [0u32; 32];
    let mut rank = 0;
    for position in positions {
        let mut window = key.window(position) & mask;
        while window != 0 {
            let lead = window.trailing_zeros() as usize;
            if basis[lead] == 0 {
                basis[lead] = window;
                rank += 1;
                break;
            }
            window ^= basis[lead];
        }
        if rank == index_bits {
            break;
        }
    }
    rank
}

/// What each field of `input` contributes; `may` says whether the key bits that a position of the
/// input meets may be other than zero.
pub(crate) fn mixes(
    key: &Key,
    input: &HashInput,
    index_bits: u32,
    may: impl Fn(usize) -> bool,
) -> Vec<Mixed> {
    let mask = index_mask(index_bits);
    let mut start = 0;
    let mut mixes = Vec::with_capacity(input.fields().len());
    for &field in input.fields() {
        let positions = start..start + usize::from(field.width());
        start = positions.end;
        let bits = positions.clone().filter(|at| key.window(*at) & mask != 0).count() as u16;
        let may_mix = positions.clone().filter(|at| may(*at)).count() as u16;
        mixes.push(Mixed { field, bits, may_mix, rank: rank_of(key, positions, index_bits) });
    }
    mixes
}

/// The entry of a packet with these field values.
pub(crate) fn entry(key: &Key, input: &HashInput, values: &FieldValues, index_bits: u32) -> u32 {
    let fields = input.fields().iter();
    let bits = fields.flat_map(|&field| (0..field.width()).map(move |bit| values.bit(field, bit)));
    let set = bits.enumerate().filter(|(_, bit)| *bit);
    set.fold(0, |hash, (at, _)| hash ^ key.window(at)) & index_mask(index_bits)
}

/// How often two of `entries` are the same: the smaller, the more even.
pub(crate) fn collisions(entries: impl Iterator<Item = u32>) -> u64 {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    entries.for_each(|entry| *counts.entry(entry).or_default() += 1);
    counts.values().map(|count| count * count).sum()
}
