//! Constraints: which packets must meet, as equalities between their fields.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_rss::Which;

use crate::class::Class;
use crate::resolve::Keyed;
use crate::touch::Part;
use crate::word::{Bit, FieldId, Fields, Sum};

/// Packets of one class at one port.
pub(crate) type Side = (usize, Class);

/// Bits of the two packets that add up to a constant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Equation {
    pub(crate) terms: Vec<(Which, Bit)>,
    pub(crate) constant: bool,
}

/// Packets of two sides that must meet whenever all equations hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Constraint {
    pub(crate) sides: [Side; 2],
    /// None: all of them must meet.
    pub(crate) equations: BTreeSet<Equation>,
}

/// Where a constraint comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    /// State objects.
    pub(crate) objects: BTreeSet<usize>,
    /// Pairs of lines whose accesses touch one entry, one of them to write.
    pub(crate) lines: BTreeSet<(u32, u32)>,
    /// Pairs of lines that both read an entry which another line writes.
    pub(crate) reads: BTreeSet<(u32, u32)>,
}

impl Cause {
    pub(crate) fn extend(&mut self, other: &Self) {
        self.objects.extend(&other.objects);
        self.lines.extend(&other.lines);
        self.reads.extend(&other.reads);
    }

    /// The pair of lines to show for it: two different ones if there are such, a write if there is.
    pub(crate) fn shown(&self) -> Option<(u32, u32)> {
        let all = || self.lines.iter().chain(&self.reads);
        all().find(|(a, b)| a != b).or(all().next()).copied()
    }

    /// Every line.
    pub(crate) fn every_line(&self) -> BTreeSet<u32> {
        self.lines.iter().chain(&self.reads).flat_map(|(a, b)| [*a, *b]).collect()
    }
}

/// Constraints and what each comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Constraints {
    pub(crate) all: BTreeMap<Constraint, Cause>,
}

impl Constraints {
    pub(crate) fn add(&mut self, constraint: Constraint, cause: &Cause) {
        self.all.entry(constraint.ordered()).or_default().extend(cause);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for (constraint, cause) in &other.all {
            self.all.entry(constraint.clone()).or_default().extend(cause);
        }
    }

    /// Those that no other implies: a coarser one, with fewer equations, serves the finer.
    pub(crate) fn coarsest(&self) -> Self {
        let mut by_sides: BTreeMap<[Side; 2], Vec<&Constraint>> = BTreeMap::new();
        for constraint in self.all.keys() {
            by_sides.entry(constraint.sides).or_default().push(constraint);
        }
        let implied = |constraint: &Constraint| {
            by_sides.get(&constraint.sides).into_iter().flatten().any(|other| {
                other.equations.len() < constraint.equations.len()
                    && other.equations.is_subset(&constraint.equations)
            })
        };
        let kept = self.all.iter().filter(|(constraint, _)| !implied(constraint));
        Self { all: kept.map(|(one, cause)| (one.clone(), cause.clone())).collect() }
    }
}

impl Constraint {
    /// With its sides in order; of two of the same side, the lesser way to write it.
    fn ordered(self) -> Self {
        let turned = self.turned();
        match self.sides[0].cmp(&self.sides[1]) {
            std::cmp::Ordering::Greater => turned,
            std::cmp::Ordering::Equal if turned.equations < self.equations => turned,
            _ => self,
        }
    }

    fn turned(&self) -> Self {
        let other = |which: Which| match which {
            Which::First => Which::Second,
            Which::Second => Which::First,
        };
        let turn = |equation: &Equation| {
            let terms = equation.terms.iter().map(|(which, bit)| (other(*which), *bit));
            Equation::new(terms.collect(), equation.constant)
        };
        Self {
            sides: [self.sides[1], self.sides[0]],
            equations: self.equations.iter().map(turn).collect(),
        }
    }

    /// Fields of the packet `which` that its equations speak of.
    pub(crate) fn fields(&self, which: Which) -> BTreeSet<FieldId> {
        let terms = self.equations.iter().flat_map(|equation| &equation.terms);
        terms.filter(|(of, _)| *of == which).map(|(_, (field, _))| *field).collect()
    }
}

impl Equation {
    fn new(mut terms: Vec<(Which, Bit)>, constant: bool) -> Self {
        terms.sort_unstable();
        Self { terms, constant }
    }

    /// The sum of two equations.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let own = self.terms.iter().filter(|term| !other.terms.contains(term));
        let theirs = other.terms.iter().filter(|term| !self.terms.contains(term));
        Self::new(own.chain(theirs).copied().collect(), self.constant ^ other.constant)
    }

    /// That two sums, one of each packet, are the same.
    fn between(a: &Sum, b: &Sum) -> Self {
        let first = a.bits.iter().map(|bit| (Which::First, *bit));
        let second = b.bits.iter().map(|bit| (Which::Second, *bit));
        Self::new(first.chain(second).collect(), a.constant ^ b.constant)
    }
}

/// What is left of equations between packets of two classes, which say what their protocols are; nothing where these
/// contradict one.
pub(crate) fn of_classes(
    equations: &BTreeSet<Equation>,
    classes: [Class; 2],
    fields: &Fields,
) -> Option<BTreeSet<Equation>> {
    let sum = |equation: &Equation, which: Which| {
        let own = equation.terms.iter().filter(|(of, _)| *of == which);
        let bits = own.map(|(_, bit)| *bit).collect();
        of_class(&Sum { bits, constant: false }, classes[which.index()], fields)
    };
    let mut left = BTreeSet::new();
    for equation in equations {
        let [a, b] = [Which::First, Which::Second].map(|which| sum(equation, which));
        let mut equation = Equation { constant: equation.constant, ..Equation::between(&a, &b) };
        equation.constant ^= a.constant ^ b.constant;
        add(&mut left, equation)?;
    }
    Some(left)
}

/// Adds an equation that says something; `None`: it never holds.
fn add(equations: &mut BTreeSet<Equation>, equation: Equation) -> Option<()> {
    match (equation.terms.is_empty(), equation.constant) {
        (true, true) => return None,
        (true, false) => {}
        (false, _) => {
            equations.insert(equation);
        }
    }
    Some(())
}

/// What holds of two packets when their keys name one entry; nothing where they never do.
pub(crate) fn equations(
    a: &Keyed<'_>,
    b: &Keyed<'_>,
    classes: [Class; 2],
    swap: bool,
    fields: &mut Fields,
) -> Option<BTreeSet<Equation>> {
    let second = if swap { reversed(b, fields) } else { b.parts.clone() };
    let mut all = BTreeSet::new();
    for (x, y) in a.parts.iter().zip(&second) {
        if quotes_another(x, y, classes, fields)
            || quotes_another(y, x, [classes[1], classes[0]], fields)
        {
            return None;
        }
        // Those of two allocators may be the same number.
        if matches!((x, y), (Part::Fresh(a), Part::Fresh(b)) if a == b) {
            return None;
        }
        let (Some(x), Some(y)) = (sums(x, y, classes[0], fields), sums(y, x, classes[1], fields))
        else {
            continue;
        };
        for (x, y) in x.iter().zip(&y) {
            add(&mut all, Equation::between(x, y))?;
        }
    }
    Some(all)
}

/// The bits of a part that can be compared with `other`; of a protocol number, what the class says. Words of
/// different lengths are not: sums of them are made in different types, in which they begin anew elsewhere.
fn sums(part: &Part, other: &Part, class: Class, fields: &Fields) -> Option<Vec<Sum>> {
    let (word, len) = match (part, other) {
        (Part::Word(word), Part::Word(other)) => (word, other.len()),
        (Part::Shifted { base, by }, Part::Shifted { base: other, by: same }) if by == same => {
            (base, other.len())
        }
        _ => return None,
    };
    if word.len() != len {
        return None;
    }
    Some(word.iter().map(|sum| of_class(sum, class, fields)).collect())
}

fn of_class(sum: &Sum, class: Class, fields: &Fields) -> Sum {
    let mut known = Sum { bits: Vec::new(), constant: sum.constant };
    for (field, bit) in &sum.bits {
        let protocol = match fields.name(*field) {
            "ipv4.protocol" | "ipv6.protocol" => class.protocol(),
            "embedded.protocol" => {
                [1, 58].into_iter().find(|one| class.quotes(u128::from(*one)) == Some(true))
            }
            _ => None,
        };
        match protocol {
            Some(protocol) => {
                let from_low = fields.width(*field).saturating_sub(1).saturating_sub(*bit);
                known.constant ^= u128::from(protocol) >> from_low & 1 == 1;
            }
            None => known.bits.push((*field, *bit)),
        }
    }
    known
}

/// Whether one part is the protocol of a quoted packet, and the other one a number that packets of
/// its class do not quote.
fn quotes_another(part: &Part, other: &Part, classes: [Class; 2], fields: &Fields) -> bool {
    let (Part::Word(word), Part::Word(number)) = (part, other) else { return false };
    let quoted = word.iter().flat_map(|sum| &sum.bits);
    if word.is_empty()
        || !quoted.clone().all(|(field, _)| fields.name(*field) == "embedded.protocol")
        || quoted.count() != word.len()
    {
        return false;
    }
    let number: Vec<Sum> = number.iter().map(|sum| of_class(sum, classes[1], fields)).collect();
    let known = number.iter().all(|sum| sum.bits.is_empty());
    let value = number.iter().fold(0u128, |all, sum| all << 1 | u128::from(sum.constant));
    known && classes[0].quotes(value) == Some(false)
}

/// The parts of a packet set's key as its reply has them.
fn reversed(keyed: &Keyed<'_>, fields: &mut Fields) -> Vec<Part> {
    let turn = |sum: &Sum, fields: &mut Fields| {
        let mut bits: Vec<Bit> =
            sum.bits.iter().map(|(field, bit)| (fields.swapped(*field), *bit)).collect();
        bits.sort_unstable();
        Sum { bits, constant: sum.constant }
    };
    let mut parts = Vec::new();
    for part in &keyed.parts {
        parts.push(match part {
            Part::Word(word) => Part::Word(word.iter().map(|sum| turn(sum, fields)).collect()),
            other => other.clone(),
        });
    }
    parts
}

/// Fields of a key.
pub(crate) fn key_fields(keyed: &Keyed<'_>) -> BTreeSet<FieldId> {
    let words = keyed.parts.iter().filter_map(|part| match part {
        Part::Word(word) | Part::Shifted { base: word, .. } => Some(word),
        _ => None,
    });
    words
        .flat_map(|word| word.iter())
        .flat_map(|sum| sum.bits.iter().map(|(field, _)| *field))
        .collect()
}

/// The classes of a keyed packet: those that have every field of its key.
pub(crate) fn sides(keyed: &Keyed<'_>, fields: &Fields) -> Option<Vec<Side>> {
    let context = keyed.context?;
    let mut classes = context.classes;
    for field in key_fields(keyed) {
        classes = classes.and(crate::class::Classes::with(fields.header(field)));
    }
    Some(classes.iter().map(|class| (context.port, class)).collect())
}
