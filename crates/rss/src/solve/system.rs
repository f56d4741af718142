//! Homogeneous equations over GF(2), most of which say that two unknowns are equal.

use std::ops::Range;

use crate::random::Random;
use crate::solve::space::KeyBits;

/// Equations being collected. Unknowns that must be equal, or zero, are united at once; longer
/// equations wait for the elimination.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// Unknown to representative; the last one stands for zero.
    parent: Vec<u32>,
    /// Unknowns that are zero, a bit each.
    zeros: Vec<u64>,
    rows: Vec<Vec<u32>>,
}

impl System {
    pub(crate) fn new(unknowns: usize) -> Self {
        let zeros = vec![0; unknowns.div_ceil(64)];
        Self { parent: (0..=unknowns as u32).collect(), zeros, rows: Vec::new() }
    }

    fn zero(&self) -> u32 {
        (self.parent.len() - 1) as u32
    }

    fn find(&mut self, unknown: u32) -> u32 {
        let mut at = unknown as usize;
        while self.parent[at] as usize != at {
            self.parent[at] = self.parent[self.parent[at] as usize];
            at = self.parent[at] as usize;
        }
        at as u32
    }

    fn unite(&mut self, first: u32, second: u32) {
        let (first, second) = (self.find(first), self.find(second));
        // The larger one wins, so that zero always represents its class.
        let (low, high) = (first.min(second), first.max(second));
        self.parent[low as usize] = high;
    }

    /// Each of `unknowns` is zero.
    pub(crate) fn are_zero(&mut self, unknowns: Range<u32>) {
        let mut at = unknowns.start;
        while at < unknowns.end {
            let end = unknowns.end.min((at / 64 + 1) * 64);
            self.zeros[at as usize / 64] |= u64::MAX >> (64 - (end - at)) << (at % 64);
            at = end;
        }
    }

    /// The sum of `unknowns` is zero.
    pub(crate) fn sum_is_zero(&mut self, unknowns: &[u32]) {
        match *unknowns {
            [] => {}
            [one] => self.are_zero(one..one + 1),
            [first, second] => self.unite(first, second),
            _ => self.rows.push(unknowns.to_vec()),
        }
    }

    /// Solves: all assignments that fulfil every equation.
    pub(crate) fn solve(mut self) -> Space {
        let unknowns = self.parent.len() - 1;
        let zero = self.zero();
        let zeros = std::mem::take(&mut self.zeros);
        for unknown in (0..zero).filter(|at| zeros[*at as usize / 64] >> (at % 64) & 1 == 1) {
            self.unite(unknown, zero);
        }
        let mut number = vec![u32::MAX; unknowns + 1];
        let mut columns = 0;
        let column_of: Vec<Option<u32>> = (0..unknowns as u32)
            .map(|unknown| {
                let class = self.find(unknown);
                if class == zero {
                    return None;
                }
                if number[class as usize] == u32::MAX {
                    number[class as usize] = columns;
                    columns += 1;
                }
                Some(number[class as usize])
            })
            .collect();
        let mut elimination = Elimination::new(columns as usize);
        for row in &self.rows {
            let present = row.iter().filter_map(|unknown| column_of[*unknown as usize]);
            elimination.add(present);
        }
        Space { column_of, rows: elimination.reduced() }
    }
}

/// Gauss-Jordan elimination on rows of bits.
pub(crate) struct Elimination {
    words: usize,
    /// The row whose leading column is this one.
    row_of: Vec<Option<Vec<u64>>>,
}

impl Elimination {
    pub(crate) fn new(columns: usize) -> Self {
        Self { words: columns.div_ceil(64), row_of: vec![None; columns] }
    }

    /// Adds the equation that these columns sum to zero; whether it is independent of the others.
    pub(crate) fn add(&mut self, columns: impl Iterator<Item = u32>) -> bool {
        let mut row = vec![0; self.words];
        columns.for_each(|column| row[column as usize / 64] ^= 1 << (column % 64));
        while let Some(lead) = leading(&row) {
            match &self.row_of[lead] {
                Some(other) => add_to(&mut row, other),
                None => {
                    self.row_of[lead] = Some(row);
                    return true;
                }
            }
        }
        false
    }

    /// Each leading column with its row, in which no other leading column occurs.
    pub(crate) fn reduced(mut self) -> Vec<Option<Vec<u64>>> {
        for column in (0..self.row_of.len()).rev() {
            let Some(row) = self.row_of[column].take() else { continue };
            for above in self.row_of[..column].iter_mut().flatten() {
                if above[column / 64] >> (column % 64) & 1 == 1 {
                    add_to(above, &row);
                }
            }
            self.row_of[column] = Some(row);
        }
        self.row_of
    }
}

fn leading(row: &[u64]) -> Option<usize> {
    let word = row.iter().position(|word| *word != 0)?;
    Some(word * 64 + row[word].trailing_zeros() as usize)
}

fn add_to(row: &mut [u64], other: &[u64]) {
    row.iter_mut().zip(other).for_each(|(word, other)| *word ^= other);
}

/// All solutions of a [`System`].
#[derive(Clone, Debug)]
pub(crate) struct Space {
    /// The column of each unknown; `None`: it is zero.
    column_of: Vec<Option<u32>>,
    /// For a column that depends on others, which (itself among them).
    rows: Vec<Option<Vec<u64>>>,
}

impl Space {
    /// The columns that may be chosen freely.
    pub(crate) fn free(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows.len()).filter(|column| self.rows[*column].is_none())
    }

    /// Whether `unknown` is zero in every solution.
    fn is_zero(&self, unknown: usize) -> bool {
        let Some(column) = self.column_of[unknown] else { return true };
        let row = &self.rows[column as usize];
        row.as_ref().is_some_and(|row| row.iter().map(|word| word.count_ones()).sum::<u32>() == 1)
    }

    /// Whether the bit at `position` of the input of `port` changes the entry under some key.
    pub(crate) fn may_mix(
        &self,
        bits: &KeyBits,
        port: usize,
        position: usize,
        index_bits: u32,
    ) -> bool {
        bits.windows(port, position, index_bits).any(|unknown| !self.is_zero(unknown))
    }

    /// The free columns that `unknown` depends on.
    pub(crate) fn depends_on(&self, unknown: usize) -> Vec<usize> {
        let Some(column) = self.column_of[unknown].map(|column| column as usize) else {
            return Vec::new();
        };
        match &self.rows[column] {
            None => vec![column],
            Some(row) => ones(row).filter(|other| *other != column).collect(),
        }
    }

    /// The free columns that any of `unknowns` depends on, in order.
    pub(crate) fn depend_on(&self, unknowns: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut found = vec![false; self.rows.len()];
        for column in unknowns.filter_map(|unknown| self.column_of[unknown]) {
            found[column as usize] = true;
        }
        for (column, row) in self.determined() {
            if std::mem::take(&mut found[column]) {
                ones(row).filter(|other| *other != column).for_each(|other| found[other] = true);
            }
        }
        self.free().filter(|column| found[*column]).collect()
    }

    /// The columns that depend on others, with their rows.
    fn determined(&self) -> impl Iterator<Item = (usize, &Vec<u64>)> {
        self.rows.iter().enumerate().filter_map(|(column, row)| Some((column, row.as_ref()?)))
    }

    /// Number of free columns among those of the unknowns that `counts` selects.
    pub(crate) fn dimension(&self, counts: impl Fn(usize) -> bool) -> usize {
        let selected = (0..self.column_of.len()).filter(|unknown| counts(*unknown));
        let mut used = vec![false; self.rows.len()];
        selected
            .filter_map(|unknown| self.column_of[unknown])
            .for_each(|at| used[at as usize] = true);
        self.free().filter(|column| used[*column]).count()
    }

    /// A choice of the free columns at random.
    pub(crate) fn choose(&self, random: &mut Random) -> Vec<bool> {
        (0..self.rows.len()).map(|_| random.next() >> 63 == 1).collect()
    }

    /// The unknowns when the free columns are as `choice` says.
    pub(crate) fn assign(&self, choice: &[bool]) -> Vec<bool> {
        let mut values = choice.to_vec();
        for (column, row) in self.determined() {
            let others = ones(row).filter(|other| *other != column);
            values[column] = others.fold(false, |sum, other| sum ^ choice[other]);
        }
        self.column_of.iter().map(|column| column.is_some_and(|at| values[at as usize])).collect()
    }
}

/// The columns of a row.
fn ones(row: &[u64]) -> impl Iterator<Item = usize> {
    let of = |(at, word): (usize, &u64)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(at * 64 + bit)
        })
    };
    row.iter().enumerate().flat_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every solution of a random system, found by trying all assignments, is one of the space,
    /// and there are as many.
    #[test]
    fn the_space_is_exactly_the_solutions() {
        const UNKNOWNS: usize = 9;
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut system = System::new(UNKNOWNS);
            let mut equations = Vec::new();
            for _ in 0..random.next() % 8 {
                let mask = random.next() as usize & ((1 << UNKNOWNS) - 1);
                let sparse = mask & random.next() as usize;
                let members: Vec<u32> =
                    (0..UNKNOWNS as u32).filter(|at| sparse >> at & 1 == 1).collect();
                system.sum_is_zero(&members);
                equations.push(sparse);
            }
            let fulfils =
                |all: usize| equations.iter().all(|one| (all & one).count_ones().is_multiple_of(2));
            let expected = (0..1usize << UNKNOWNS).filter(|all| fulfils(*all)).count();
            let space = system.solve();
            assert_eq!(1 << space.dimension(|_| true), expected, "seed {seed}");
            for _ in 0..20 {
                let values = space.assign(&space.choose(&mut random));
                let all = values.iter().rev().fold(0, |all, bit| all << 1 | usize::from(*bit));
                assert!(fulfils(all), "seed {seed}");
            }
        }
    }
}
