//! One key out of many: drawn at random, then mended bit by bit.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::key::Key;
use crate::nic::HashInput;
use crate::random::Random;
use crate::score::{Columns, collisions, last_byte};
use crate::solution::index_mask;
use crate::solve::space::{KeyBits, keys};
use crate::solve::system::Space;
use crate::toeplitz::ToeplitzTable;

/// Keys that are drawn before the best one is mended.
const DRAWS: usize = 16;
/// Keys that are drawn when there is traffic to balance.
const DRAWS_WITH_SAMPLE: usize = 64;
/// Free key bits of which all values are tried, when no more of them matter.
const MAX_TRIED_COLUMNS: usize = 10;
/// Changes that are tried to mend a key.
const MAX_CHANGES: usize = 256;

/// How well keys spread. Larger is better; compared in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// The smallest rank of a class that some need speaks of.
    least_rank: u32,
    /// Ranks of the classes that some need speaks of.
    ranks: u32,
    /// Ranks of the other classes.
    other_ranks: u32,
    /// Bits that mix, over all classes.
    bits: u32,
    /// Ranks of single fields and of their last bytes, over all classes.
    field_ranks: u32,
    /// How evenly the sample spreads.
    balance: u64,
}

/// Keys, and how well they spread.
pub(crate) struct Draw {
    pub(crate) keys: Vec<Key>,
    pub(crate) score: Score,
    pub(crate) columns: Vec<Columns>,
    choice: Vec<bool>,
}

impl Draw {
    /// Rank of `input` at `port`.
    pub(crate) fn rank(&self, port: usize, input: &HashInput) -> u32 {
        self.columns[port].rank(input)
    }
}

/// Packets of one class and what is hashed of them.
#[derive(Clone, Copy)]
pub(crate) struct Spread<'a> {
    pub(crate) port: usize,
    pub(crate) input: &'a HashInput,
    pub(crate) constrained: bool,
}

/// Classes of one port whose inputs have fields of the same widths: all keys serve them alike.
struct Group<'a> {
    spread: Spread<'a>,
    classes: u32,
    /// Positions of the input that may change the entry, per field: in all of it, and in its last
    /// byte.
    may: Vec<[u32; 2]>,
}

/// What keys are judged by.
pub(crate) struct Scoring<'a> {
    bits: &'a KeyBits,
    space: &'a Space,
    index_bits: u32,
    groups: Vec<Group<'a>>,
    /// Port and hash input of the frames of the sample, with their number.
    sample: BTreeMap<(usize, Vec<u8>), u64>,
    /// What no key can surpass, the sample aside.
    ideal: Score,
}

impl<'a> Scoring<'a> {
    pub(crate) fn new(
        bits: &'a KeyBits,
        space: &'a Space,
        index_bits: u32,
        spreads: impl Iterator<Item = Spread<'a>>,
        frames: impl Iterator<Item = (usize, Vec<u8>)>,
    ) -> Self {
        let mut sample = BTreeMap::new();
        frames.for_each(|frame| *sample.entry(frame).or_default() += 1);
        let mut groups: Vec<Group> = Vec::new();
        for spread in spreads.filter(|spread| !spread.input.fields().is_empty()) {
            match groups.iter_mut().find(|group| alike(&group.spread, &spread)) {
                Some(group) => group.classes += 1,
                None => groups.push(Group {
                    spread,
                    classes: 1,
                    may: may(bits, space, index_bits, spread),
                }),
            }
        }
        let mut scoring = Self { bits, space, index_bits, groups, sample, ideal: Score::default() };
        scoring.ideal = scoring.sum(|group| {
            let all = group.may.iter().map(|[field, _]| field).sum::<u32>();
            let ranks = group.may.iter().flatten().map(|may| (*may).min(index_bits)).sum();
            (all.min(index_bits), all, ranks)
        });
        scoring
    }

    /// The best keys that were found; the same for the same seed. Any keys when none can surpass
    /// `other`.
    pub(crate) fn best(&self, seed: u64, other: Score) -> Draw {
        let mut random = Random::new(seed);
        let mut best = self.judge(self.space.choose(&mut random));
        if self.sample.is_empty() && self.ideal <= other {
            return best;
        }
        let draws = if self.sample.is_empty() { DRAWS } else { DRAWS_WITH_SAMPLE };
        for _ in 1..draws {
            if self.is_ideal(&best) {
                break;
            }
            let next = self.judge(self.space.choose(&mut random));
            best = if next.score > best.score { next } else { best };
        }
        match self.few_columns() {
            Some(few) if best.score < self.ideal => self.try_all(best, &few),
            _ => self.mend(best),
        }
    }

    /// The free columns that matter to a class which some need speaks of, where they are few.
    fn few_columns(&self) -> Option<Vec<usize>> {
        let mut few: Vec<usize> = Vec::new();
        for Group { spread, .. } in self.groups.iter().filter(|group| group.spread.constrained) {
            for position in 0..spread.input.width() {
                for column in self.columns_at(spread.port, position) {
                    if !few.contains(&column) {
                        few.push(column);
                    }
                }
                if few.len() > MAX_TRIED_COLUMNS {
                    return None;
                }
            }
        }
        Some(few)
    }

    /// The best of all values of `columns`.
    fn try_all(&self, mut best: Draw, columns: &[usize]) -> Draw {
        let mut choice = best.choice.clone();
        for bits in 0..1u32 << columns.len() {
            for (at, column) in columns.iter().enumerate() {
                choice[*column] = bits >> at & 1 == 1;
            }
            let next = self.judge(choice.clone());
            best = if next.score > best.score { next } else { best };
        }
        best
    }

    /// The free columns that decide what the bit at `position` of the input of `port` adds.
    fn columns_at(&self, port: usize, position: usize) -> impl Iterator<Item = usize> {
        let unknowns = self.bits.windows(port, position, self.index_bits);
        unknowns.flat_map(|unknown| self.space.depends_on(unknown))
    }

    /// Nothing but the balance of the sample can become better.
    fn is_ideal(&self, draw: &Draw) -> bool {
        self.sample.is_empty() && draw.score >= self.ideal
    }

    /// Changes single free bits of the key that stop a packet bit from mixing, or that leave the
    /// rank short, as long as that helps.
    fn mend(&self, mut best: Draw) -> Draw {
        let mut changes = 0;
        let mut helped = true;
        while helped && !self.is_ideal(&best) {
            helped = false;
            for column in self.suspects(&best) {
                if changes == MAX_CHANGES {
                    return best;
                }
                changes += 1;
                let mut choice = best.choice.clone();
                choice[column] = !choice[column];
                let next = self.judge(choice);
                if next.score > best.score {
                    best = next;
                    helped = true;
                    break;
                }
            }
        }
        best
    }

    /// Free columns of the key whose change may help: those that meet a packet bit which does not
    /// mix, or all where the rank of a class is short.
    fn suspects(&self, draw: &Draw) -> Vec<usize> {
        let ranks = |score: &Score| (score.least_rank, score.ranks, score.other_ranks);
        if ranks(&draw.score) < ranks(&self.ideal) {
            return self.space.free().collect();
        }
        let silent = self.groups.iter().flat_map(|Group { spread, .. }| {
            let positions = draw.columns[spread.port].silent(spread.input);
            positions.flat_map(|at| self.bits.windows(spread.port, at, self.index_bits))
        });
        self.space.depend_on(silent)
    }

    fn judge(&self, choice: Vec<bool>) -> Draw {
        let keys = keys(self.bits, self.space, &choice);
        let columns: Vec<Columns> =
            keys.iter().map(|key| Columns::new(key, self.index_bits)).collect();
        let mut score = self.sum(|group| {
            let Spread { port, input, .. } = group.spread;
            let (bits, ranks) = columns[port].totals(input);
            (columns[port].rank(input), bits, ranks)
        });
        score.balance = self.balance(&keys);
        Draw { keys, score, choice, columns }
    }

    /// Adds up rank, mixing bits and ranks of fields over all classes.
    fn sum(&self, of: impl Fn(&Group) -> (u32, u32, u32)) -> Score {
        let mut score = Score { least_rank: 32, ..Score::default() };
        for group in &self.groups {
            let (rank, bits, field_ranks) = of(group);
            if group.spread.constrained {
                score.least_rank = score.least_rank.min(rank);
                score.ranks += rank * group.classes;
            } else {
                score.other_ranks += rank * group.classes;
            }
            score.bits += bits * group.classes;
            score.field_ranks += field_ranks * group.classes;
        }
        score
    }

    fn balance(&self, keys: &[Key]) -> u64 {
        if self.sample.is_empty() {
            return 0;
        }
        let mask = index_mask(self.index_bits);
        let tables: Vec<ToeplitzTable> = keys.iter().map(ToeplitzTable::full).collect();
        let entries = self
            .sample
            .iter()
            .map(|((port, input), frames)| (tables[*port].hash(input) & mask, *frames));
        u64::MAX - collisions(entries)
    }
}

fn alike(first: &Spread, second: &Spread) -> bool {
    let widths = |spread: &Spread| {
        let fields = spread.input.fields().iter();
        fields.map(|field| field.width()).collect::<Vec<_>>()
    };
    (first.port, first.constrained) == (second.port, second.constrained)
        && widths(first) == widths(second)
}

/// Positions of the input that may change the entry, per field: in all of it, and in its last byte.
fn may(bits: &KeyBits, space: &Space, index_bits: u32, spread: Spread) -> Vec<[u32; 2]> {
    let may = |at: &usize| space.may_mix(bits, spread.port, *at, index_bits);
    let count = |positions: Range<usize>| positions.filter(may).count() as u32;
    spread.input.places().map(|(_, at)| [count(at.clone()), count(last_byte(&at))]).collect()
}
