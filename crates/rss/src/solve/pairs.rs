//! Which packet bits a need ties together: the space of packet pairs that it speaks of, as
//! generators.

use std::collections::BTreeMap;

use crate::field::{Bits, Field};
use crate::need::{Equality, Need, Which};
use crate::solve::system::Elimination;

/// Bits of one of the two packets that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairBits {
    pub(crate) which: Which,
    pub(crate) field: Field,
    pub(crate) first: u16,
    pub(crate) len: u16,
}

/// Sets of bits whose contributions to both hashes must cancel. Any pair of packets that the need
/// speaks of is the fixed set, to which some of the free ones are added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generators {
    /// Ranges with the run they belong to, by run.
    members: Vec<(usize, PairBits)>,
    /// The number of the bits that are always set.
    fixed: usize,
}

/// Free sets that follow one another: each has the bit after that of the set before, of every
/// range. The ranges have one length.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a>(&'a [(usize, PairBits)]);

impl<'a> Run<'a> {
    pub(crate) fn bits(self) -> impl Iterator<Item = PairBits> + 'a {
        self.0.iter().map(|(_, bits)| *bits)
    }

    /// How many sets.
    pub(crate) fn len(self) -> u16 {
        self.0.first().map_or(0, |(_, range)| range.len)
    }
}

impl Generators {
    fn new(mut members: Vec<(usize, PairBits)>, fixed: usize) -> Self {
        members.sort_by_key(|(run, _)| *run);
        Self { members, fixed }
    }

    /// The ranges of the bits that are set in every pair.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = PairBits> + Clone + '_ {
        let fixed = self.members.iter().filter(|(run, _)| *run == self.fixed);
        fixed.map(|(_, bits)| *bits)
    }

    /// The sets that may be added.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let runs = self.members.chunk_by(|(first, _), (second, _)| first == second);
        runs.filter(|run| run[0].0 != self.fixed).map(Run)
    }
}

/// The generators of `need`, over the bits of `fields` and those that the need names. A need whose
/// equalities contradict each other speaks of no pair and has none.
pub(crate) fn generators(need: &Need, fields: [&[Field]; 2]) -> Generators {
    spanned(&need.equalities, fields).unwrap_or_default()
}

/// Whether the equalities hold between no two packets.
pub(crate) fn contradict(equalities: &[Equality]) -> bool {
    spanned(equalities, [&[], &[]]).is_none()
}

/// The generators of pairs between which all of `equalities` hold; `None`: they contradict each other.
fn spanned(equalities: &[Equality], fields: [&[Field]; 2]) -> Option<Generators> {
    let cuts = Cuts::new(equalities, fields);
    let mut ties = Ties::new(cuts.ranges());
    let mut linear = Vec::new();
    for equality in equalities {
        for at in cuts.within(equality) {
            let constant = constant_bits(equality) >> at & 1 == 1;
            let range =
                |(which, bits): &(Which, Bits)| cuts.number(*which, bits.field, bits.first + at);
            let members: Vec<usize> = equality.terms.iter().map(range).collect();
            match members[..] {
                [one] => ties.unite(one, ties.one(), !constant),
                [first, second] => ties.unite(first, second, constant),
                _ => linear.push((members, constant)),
            }
        }
    }
    ties.generators(&linear)
}

/// What the bits of an equality add up to, the first bit of its ranges lowest.
fn constant_bits(equality: &Equality) -> u128 {
    equality.constant.reverse_bits().unbounded_shr(128 - u32::from(equality.len()))
}

/// The lowest `len` bits.
pub(crate) fn low(len: u16) -> u128 {
    u128::MAX.unbounded_shr(128 - u32::from(len))
}

/// The numbers of the bits that are set.
fn ones(mut bits: u128) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let at = (bits != 0).then(|| bits.trailing_zeros() as u16)?;
        bits &= bits - 1;
        Some(at)
    })
}

/// Where the fields are cut, so that a need treats the bits in between alike: none of its
/// equalities begins, ends or has another constant there, or meets such a place elsewhere.
struct Cuts {
    /// Fields with the bits at which a range begins.
    fields: Vec<(Which, Field, u128)>,
}

impl Cuts {
    fn new(equalities: &[Equality], fields: [&[Field]; 2]) -> Self {
        let mut all = Vec::new();
        for which in [Which::First, Which::Second] {
            let start = all.len();
            let named = equalities.iter().flat_map(|equality| &equality.terms);
            let named = named.filter(|(of, _)| *of == which).map(|(_, bits)| bits.field);
            for field in fields[which.index()].iter().copied().chain(named) {
                if !all[start..].iter().any(|(_, known, _)| *known == field) {
                    all.push((which, field, 1));
                }
            }
            all[start..].sort_unstable();
        }
        let mut cuts = Self { fields: all };
        while cuts.cut_once(equalities) {}
        cuts
    }

    /// Cuts where any of `equalities` says so; whether that was new.
    fn cut_once(&mut self, equalities: &[Equality]) -> bool {
        let mut new = false;
        for equality in equalities {
            new |= self.cut(equality);
        }
        new
    }

    /// Cuts where `equality` begins, ends, changes its constant, or where one of its ranges is cut;
    /// whether that was new.
    fn cut(&mut self, equality: &Equality) -> bool {
        let constant = constant_bits(equality);
        let within = self.cuts_within(equality) | (constant ^ constant << 1) & low(equality.len());
        let mut new = false;
        for (which, bits) in &equality.terms {
            let end = 1u128.unbounded_shl(u32::from(bits.first + bits.len));
            let end = end & low(bits.field.width());
            let Some(cuts) = self.of(*which, bits.field) else { continue };
            let more = *cuts | within << bits.first | end;
            new |= std::mem::replace(cuts, more) != more;
        }
        new
    }

    fn of(&mut self, which: Which, field: Field) -> Option<&mut u128> {
        let own = self.fields.iter_mut().find(|own| (own.0, own.1) == (which, field));
        own.map(|(_, _, cuts)| cuts)
    }

    /// Where the ranges of `equality` are cut, counted from their first bits, these included.
    fn cuts_within(&self, equality: &Equality) -> u128 {
        let of = |(which, bits): &(Which, Bits)| {
            let own = self.fields.iter().find(|own| (own.0, own.1) == (*which, bits.field));
            own.map_or(0, |(_, _, cuts)| cuts >> bits.first) & low(bits.len)
        };
        equality.terms.iter().map(of).fold(low(equality.len()) & 1, |all, cuts| all | cuts)
    }

    /// The first bit of each range of `equality` that is treated alike.
    fn within(&self, equality: &Equality) -> impl Iterator<Item = u16> + use<> {
        ones(self.cuts_within(equality))
    }

    /// The number of the range that begins at `bit` of `field`.
    fn number(&self, which: Which, field: Field, bit: u16) -> usize {
        let mut number = 0;
        for (of, own, cuts) in &self.fields {
            if (*of, *own) == (which, field) {
                return number + (cuts & low(bit)).count_ones() as usize;
            }
            number += cuts.count_ones() as usize;
        }
        number
    }

    /// All ranges, by number.
    fn ranges(&self) -> Vec<PairBits> {
        let of = |&(which, field, cuts): &(Which, Field, u128)| {
            ones(cuts).map(move |first| {
                let next = (cuts & !low(first + 1)).trailing_zeros() as u16;
                PairBits { which, field, first, len: next.min(field.width()) - first }
            })
        };
        self.fields.iter().flat_map(of).collect()
    }
}

/// Ranges by number, united where they are equal or opposite. The last number stands for the
/// constant one.
struct Ties {
    ranges: Vec<PairBits>,
    parent: Vec<usize>,
    /// Whether a range is the opposite of its parent.
    opposite: Vec<bool>,
    contradiction: bool,
}

impl Ties {
    fn new(ranges: Vec<PairBits>) -> Self {
        let one = ranges.len();
        let parent = (0..=one).collect();
        Self { ranges, parent, opposite: vec![false; one + 1], contradiction: false }
    }

    fn one(&self) -> usize {
        self.ranges.len()
    }

    /// The range that represents `range`, and whether `range` is its opposite.
    fn find(&mut self, range: usize) -> (usize, bool) {
        let parent = self.parent[range];
        if parent == range {
            return (range, false);
        }
        let (root, opposite) = self.find(parent);
        self.parent[range] = root;
        self.opposite[range] ^= opposite;
        (root, self.opposite[range])
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

    /// `None`: the equalities contradict each other.
    fn generators(mut self, linear: &[(Vec<usize>, bool)]) -> Option<Generators> {
        let sums = self.eliminate(linear)?;
        let mut members = Vec::with_capacity(self.parent.len());
        let one = self.one();
        for number in 0..one {
            let range = self.ranges[number];
            let (root, opposite) = self.find(number);
            let itself = [root];
            let sum = sums.get(&root).map_or(&itself[..], Vec::as_slice);
            let constant = sum.contains(&one) ^ opposite;
            members.extend(sum.iter().filter(|root| **root != one).map(|root| (*root, range)));
            members.extend(constant.then_some((one, range)));
        }
        Some(Generators::new(members, one))
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
