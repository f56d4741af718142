//! Which packet bits a need ties together: the space of packet pairs that it speaks of, as
//! generators.

use std::collections::BTreeMap;

use crate::field::{Bits, Field};
use crate::need::{Need, Which};
use crate::solve::system::Elimination;

/// A bit of one of the two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PairBit {
    pub(crate) which: Which,
    pub(crate) field: Field,
    pub(crate) bit: u16,
}

/// Sets of bits whose contributions to both hashes must cancel. Any pair of packets that the need
/// speaks of is the fixed set, to which some of the free ones are added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generators {
    /// Members with the set they belong to, by set.
    members: Vec<(usize, PairBit)>,
    /// The set of the bits that are always set.
    fixed: usize,
}

impl Generators {
    fn new(mut members: Vec<(usize, PairBit)>, fixed: usize) -> Self {
        members.sort_by_key(|(set, _)| *set);
        Self { members, fixed }
    }

    /// All sets.
    pub(crate) fn sets(&self) -> impl Iterator<Item = impl Iterator<Item = PairBit> + '_> + '_ {
        self.numbered().map(|(_, set)| set)
    }

    /// The bits that are set in every pair.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = PairBit> + '_ {
        self.numbered().filter(|(number, _)| *number == self.fixed).flat_map(|(_, set)| set)
    }

    /// The sets that may be added.
    pub(crate) fn free(&self) -> impl Iterator<Item = impl Iterator<Item = PairBit> + '_> + '_ {
        self.numbered().filter(|(number, _)| *number != self.fixed).map(|(_, set)| set)
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = PairBit> + '_)> + '_ {
        let sets = self.members.chunk_by(|(first, _), (second, _)| first == second);
        sets.map(|set| (set[0].0, set.iter().map(|(_, bit)| *bit)))
    }
}

/// The generators of `need`, over the bits of `fields` and those that the need names. A need whose
/// equalities contradict each other speaks of no pair and has none.
pub(crate) fn generators(need: &Need, fields: [&[Field]; 2]) -> Generators {
    let mut ties = Ties::new(need, fields);
    let mut linear = Vec::new();
    for equality in &need.equalities {
        for at in 0..equality.len() {
            let constant = equality.constant >> (equality.len() - 1 - at) & 1 == 1;
            let bit =
                |(which, bits): &(Which, Bits)| ties.number(*which, bits.field, bits.first + at);
            let members: Vec<usize> = equality.terms.iter().map(bit).collect();
            match members[..] {
                [one] => ties.unite(one, ties.one(), !constant),
                [first, second] => ties.unite(first, second, constant),
                _ => linear.push((members, constant)),
            }
        }
    }
    ties.generators(&linear)
}

/// Bits by number, united where they are equal or opposite. The last number stands for the
/// constant one.
struct Ties {
    /// Fields with the number of their first bit.
    starts: Vec<(Which, Field, usize)>,
    parent: Vec<usize>,
    /// Whether a bit is the opposite of its parent.
    opposite: Vec<bool>,
    contradiction: bool,
}

impl Ties {
    fn new(need: &Need, fields: [&[Field]; 2]) -> Self {
        let mut starts = Vec::new();
        let mut next = 0;
        for which in [Which::First, Which::Second] {
            let mut all = fields[which.index()].to_vec();
            all.extend(need.fields(which));
            all.sort();
            all.dedup();
            for field in all {
                starts.push((which, field, next));
                next += usize::from(field.width());
            }
        }
        let parent = (0..=next).collect();
        Self { starts, parent, opposite: vec![false; next + 1], contradiction: false }
    }

    fn one(&self) -> usize {
        self.parent.len() - 1
    }

    fn number(&self, which: Which, field: Field, bit: u16) -> usize {
        let start = self.starts.iter().find(|start| (start.0, start.1) == (which, field));
        start.map_or(self.one(), |(_, _, start)| start + usize::from(bit))
    }

    /// The bit that represents `bit`, and whether `bit` is its opposite.
    fn find(&mut self, bit: usize) -> (usize, bool) {
        let parent = self.parent[bit];
        if parent == bit {
            return (bit, false);
        }
        let (root, opposite) = self.find(parent);
        self.parent[bit] = root;
        self.opposite[bit] ^= opposite;
        (root, self.opposite[bit])
    }

    fn unite(&mut self, first: usize, second: usize, opposite: bool) {
        let ((first, of_first), (second, of_second)) = (self.find(first), self.find(second));
        let opposite = opposite ^ of_first ^ of_second;
        if first == second {
            self.contradiction |= opposite;
            return;
        }
        let (low, high) = (first.min(second), first.max(second));
        self.parent[low] = high;
        self.opposite[low] = opposite;
    }

    fn generators(mut self, linear: &[(Vec<usize>, bool)]) -> Generators {
        let Some(sums) = self.eliminate(linear) else { return Generators::default() };
        let mut members = Vec::with_capacity(self.parent.len());
        let one = self.one();
        for (which, field, start) in self.starts.clone() {
            for bit in 0..field.width() {
                let (root, opposite) = self.find(start + usize::from(bit));
                let itself = [root];
                let sum = sums.get(&root).map_or(&itself[..], Vec::as_slice);
                let constant = sum.contains(&one) ^ opposite;
                let free = sum.iter().filter(|root| **root != one);
                let member = PairBit { which, field, bit };
                free.for_each(|root| members.push((*root, member)));
                if constant {
                    members.push((one, member));
                }
            }
        }
        Generators::new(members, one)
    }

    /// For each representative that the equations of more than two bits determine, the
    /// representatives that it is the sum of. `None`: the equalities contradict each other.
    fn eliminate(&mut self, linear: &[(Vec<usize>, bool)]) -> Option<BTreeMap<usize, Vec<usize>>> {
        let one = self.one();
        if self.contradiction {
            return None;
        }
        if linear.is_empty() {
            return Some(BTreeMap::new());
        }
        let mut elimination = Elimination::new(self.parent.len());
        for (members, constant) in linear {
            let mut columns = if *constant { vec![one as u32] } else { Vec::new() };
            for member in members {
                let (root, opposite) = self.find(*member);
                columns.push(root as u32);
                columns.extend(opposite.then_some(one as u32));
            }
            elimination.add(columns.into_iter());
        }
        let rows = elimination.reduced();
        if rows[one].is_some() {
            return None;
        }
        let sum = |column: usize, row: &[u64]| {
            let others = (0..rows.len())
                .filter(|other| *other != column && row[other / 64] >> (other % 64) & 1 == 1);
            (column, others.collect())
        };
        let determined = rows.iter().enumerate().filter_map(|(at, row)| Some((at, row.as_ref()?)));
        Some(determined.map(|(column, row)| sum(column, row)).collect())
    }
}
