//! Which bits may decide where a packet goes, whatever computes it: the linear functions of packet
//! fields that agree on all packets that must meet.
//!
//! A function for each side has a coefficient for each bit. That two sides agree whenever some
//! equations hold means that the functions, taken together, are a sum of those equations: a bit that
//! no equation holds fixed has coefficient zero, and bits that one equation joins have the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anabranch_rss::Which;

use crate::constraint::{Constraint, Side};
use crate::word::{Bit, FieldId, Fields};

/// A coefficient, by number.
type Variable = usize;

/// The bits that may decide, by side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deciding {
    /// Bits with a coefficient that need not be zero, with the class of equal coefficients.
    pub(crate) bits: BTreeMap<Side, BTreeMap<Bit, usize>>,
}

impl Deciding {
    /// How many independent bits decide at a side.
    pub(crate) fn rank(&self, side: Side) -> usize {
        let bits = self.bits.get(&side).into_iter().flat_map(BTreeMap::values);
        bits.collect::<BTreeSet<_>>().len()
    }

    /// The fields that may decide at a side.
    pub(crate) fn fields(&self, side: Side) -> BTreeSet<FieldId> {
        let bits = self.bits.get(&side).into_iter().flat_map(BTreeMap::keys);
        bits.map(|(field, _)| *field).collect()
    }
}

#[derive(Default)]
struct System {
    numbers: HashMap<(Side, Bit), Variable>,
    parents: Vec<Variable>,
    zero: Vec<bool>,
    rows: Vec<Vec<Variable>>,
}

/// What may decide at each of `sides`, of the bits in `fields` of each.
pub(crate) fn deciding<'a>(
    sides: &BTreeMap<Side, BTreeSet<FieldId>>,
    constraints: impl Iterator<Item = &'a Constraint>,
    fields: &Fields,
) -> Deciding {
    let mut system = System::default();
    for (side, own) in sides {
        for field in own {
            for bit in 0..fields.width(*field) {
                system.coefficient(*side, (*field, bit));
            }
        }
    }
    for constraint in constraints {
        system.constrain(constraint, sides, fields);
    }
    system.eliminate();
    system.result()
}

impl System {
    fn variable(&mut self) -> Variable {
        self.parents.push(self.parents.len());
        self.zero.push(false);
        self.parents.len() - 1
    }

    fn coefficient(&mut self, side: Side, bit: Bit) -> Variable {
        if let Some(known) = self.numbers.get(&(side, bit)) {
            return *known;
        }
        let new = self.variable();
        self.numbers.insert((side, bit), new);
        new
    }

    fn root(&mut self, variable: Variable) -> Variable {
        let mut root = variable;
        while self.parents[root] != root {
            root = self.parents[root];
        }
        let mut next = variable;
        while self.parents[next] != root {
            next = std::mem::replace(&mut self.parents[next], root);
        }
        root
    }

    fn join(&mut self, a: Variable, b: Variable) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[b] = a;
        self.zero[a] |= self.zero[b];
    }

    fn forbid(&mut self, variable: Variable) {
        let root = self.root(variable);
        self.zero[root] = true;
    }

    fn constrain(
        &mut self,
        constraint: &Constraint,
        sides: &BTreeMap<Side, BTreeSet<FieldId>>,
        fields: &Fields,
    ) {
        let mut weights: BTreeMap<(Which, Bit), Vec<Variable>> = BTreeMap::new();
        let mut odd = Vec::new();
        for equation in &constraint.equations {
            let weight = self.variable();
            for term in &equation.terms {
                weights.entry(*term).or_default().push(weight);
            }
            odd.extend(equation.constant.then_some(weight));
        }
        for which in [Which::First, Which::Second] {
            let side = constraint.sides[which.index()];
            for field in sides.get(&side).into_iter().flatten() {
                for bit in 0..fields.width(*field) {
                    let coefficient = self.coefficient(side, (*field, bit));
                    let of = weights.get(&(which, (*field, bit)));
                    self.sum(coefficient, of.map_or(&[][..], Vec::as_slice));
                }
            }
        }
        match odd[..] {
            [] => {}
            [one] => self.forbid(one),
            _ => self.rows.push(odd),
        }
    }

    /// A coefficient is the sum of weights.
    fn sum(&mut self, coefficient: Variable, weights: &[Variable]) {
        match weights {
            [] => self.forbid(coefficient),
            [one] => self.join(coefficient, *one),
            many => {
                let mut row = many.to_vec();
                row.push(coefficient);
                self.rows.push(row);
            }
        }
    }

    /// Gaussian elimination of what is not just an equality of two.
    fn eliminate(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let mut reduced: Vec<BTreeSet<Variable>> = Vec::new();
        for row in rows {
            let mut own = BTreeSet::new();
            for variable in row {
                let root = self.root(variable);
                if !self.zero[root] && !own.remove(&root) {
                    own.insert(root);
                }
            }
            for known in &reduced {
                if known.first().is_some_and(|pivot| own.contains(pivot)) {
                    own = own.symmetric_difference(known).copied().collect();
                }
            }
            let Some(pivot) = own.first().copied() else { continue };
            for known in &mut reduced {
                if known.contains(&pivot) {
                    *known = known.symmetric_difference(&own).copied().collect();
                }
            }
            reduced.push(own);
        }
        for row in reduced {
            if let [only] = row.iter().copied().collect::<Vec<_>>()[..] {
                self.forbid(only);
            }
        }
    }

    fn result(mut self) -> Deciding {
        let mut deciding = Deciding::default();
        let numbers: Vec<((Side, Bit), Variable)> =
            self.numbers.iter().map(|(place, number)| (*place, *number)).collect();
        for ((side, bit), variable) in numbers {
            let root = self.root(variable);
            if !self.zero[root] {
                deciding.bits.entry(side).or_default().insert(bit, root);
            }
        }
        deciding
    }
}
