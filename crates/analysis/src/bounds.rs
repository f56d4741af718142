//! What follows of conditions by the bounds of their parts alone: most of what the solver would be asked
//! to refute contradicts itself so (`standing < 3`, not free, not active, and free), and takes it a
//! thousand times as long.

use crate::expr::{Binary, Node, Term, Terms, mask, operands};
use crate::hash::FastMap;

/// Rounds at most: each takes bounds up from operands to terms and down again.
const ROUNDS: usize = 12;

/// The least and the greatest value that a term may have; of a truth, 0 and 1.
pub(crate) type Range = (u128, u128);

/// Bounds of all that conditions are made of, if the conditions hold.
pub(crate) struct Bounds<'t> {
    /// In order.
    terms: Vec<Term>,
    parts: Vec<Part<'t>>,
    ranges: Vec<Range>,
    has_changed: bool,
}

struct Part<'t> {
    node: &'t Node,
    width: u8,
    /// Where its operands are, before it.
    of: [usize; 3],
}

/// The conditions contradict each other.
struct Contradiction;

type Narrowed = Result<(), Contradiction>;

impl<'t> Bounds<'t> {
    /// The bounds under `conditions`; `None`: they cannot hold together.
    pub(crate) fn under(conditions: &[Term], terms: &'t Terms) -> Option<Self> {
        let (mut bounds, conditions) = Self::unknown(conditions, terms);
        conditions.into_iter().try_for_each(|at| bounds.narrow(at, (1, 1))).ok()?;
        bounds.settle().ok()?;
        Some(bounds)
    }

    fn settle(&mut self) -> Narrowed {
        for _ in 0..ROUNDS {
            self.has_changed = false;
            (0..self.parts.len()).try_for_each(|at| self.up(at))?;
            (0..self.parts.len()).rev().try_for_each(|at| self.down(at))?;
            if !self.has_changed {
                break;
            }
        }
        Ok(())
    }

    /// Nothing known of any part, and where the conditions are.
    fn unknown(conditions: &[Term], terms: &'t Terms) -> (Self, Vec<usize>) {
        let all = terms.within(conditions);
        let places: FastMap<Term, usize> =
            all.iter().enumerate().map(|(place, term)| (*term, place)).collect();
        let part = |term: &Term| {
            let node = terms.node(*term);
            let mut of = [0; 3];
            for (place, operand) in of.iter_mut().zip(operands(node)) {
                *place = places[&operand];
            }
            Part { node, width: terms.width(*term), of }
        };
        let parts: Vec<Part<'t>> = all.iter().map(part).collect();
        let ranges = parts.iter().map(|part| (0, mask(part.width))).collect();
        let conditions = conditions.iter().map(|condition| places[condition]).collect();
        (Self { terms: all, parts, ranges, has_changed: false }, conditions)
    }

    /// The bounds of a term that the conditions are made of; of another, any value.
    pub(crate) fn of(&self, term: Term) -> Range {
        self.terms.binary_search(&term).map_or((0, u128::MAX), |place| self.ranges[place])
    }

    fn narrow(&mut self, at: usize, (low, high): Range) -> Narrowed {
        let range = &mut self.ranges[at];
        let narrowed = (range.0.max(low), range.1.min(high));
        self.has_changed |= narrowed != *range;
        *range = narrowed;
        if narrowed.0 > narrowed.1 { Err(Contradiction) } else { Ok(()) }
    }

    /// Without that value, where it is the first or the last.
    fn exclude(&mut self, at: usize, value: u128) -> Narrowed {
        let (low, high) = self.ranges[at];
        match value {
            _ if low == high && low == value => Err(Contradiction),
            _ if value == low => self.narrow(at, (low + 1, high)),
            _ if value == high => self.narrow(at, (low, high - 1)),
            _ => Ok(()),
        }
    }

    /// Takes what is known of a term's operands up to it.
    fn up(&mut self, at: usize) -> Narrowed {
        let Part { node, width, of } = self.parts[at];
        let [a, b, c] = of.map(|place| self.ranges[place]);
        let all = mask(width);
        let range = match *node {
            Node::Bool(value) => (u128::from(value), u128::from(value)),
            Node::Constant { value, .. } => (value, value),
            Node::Symbol(_) | Node::Apply(..) => return Ok(()),
            Node::Not(_) => (1 - a.1, 1 - a.0),
            Node::Binary(operator, ..) => result(operator, a, b, all),
            Node::Ite(..) => match a {
                (1, _) => b,
                (_, 0) => c,
                _ => (b.0.min(c.0), b.1.max(c.1)),
            },
            Node::Concat(..) => {
                let low = self.parts[of[1]].width;
                (a.0 << low | b.0, a.1 << low | b.1)
            }
            Node::Extract { low, .. } if a.1 >> low <= all => (a.0 >> low, a.1 >> low),
            Node::Extend { signed: false, .. } => a,
            Node::Extend { .. } if a.1 <= mask(self.parts[of[0]].width) >> 1 => a,
            Node::Extract { .. } | Node::Extend { .. } => return Ok(()),
        };
        self.narrow(at, range)
    }

    /// Takes what is known of a term down to its operands.
    fn down(&mut self, at: usize) -> Narrowed {
        let Part { node, of: [a, b, c], .. } = self.parts[at];
        let range = self.ranges[at];
        match *node {
            Node::Not(_) => self.narrow(a, (1 - range.1, 1 - range.0)),
            Node::Binary(operator, ..) => self.narrow_operands(operator, range, (a, b), at),
            Node::Ite(..) => {
                let apart = |(low, high): Range| high < range.0 || range.1 < low;
                if apart(self.ranges[b]) {
                    self.narrow(a, (0, 0))?;
                }
                if apart(self.ranges[c]) {
                    self.narrow(a, (1, 1))?;
                }
                match self.ranges[a] {
                    (1, _) => self.narrow(b, range),
                    (_, 0) => self.narrow(c, range),
                    _ => Ok(()),
                }
            }
            Node::Concat(..) => {
                let low = self.parts[b].width;
                self.narrow(a, (range.0 >> low, range.1 >> low))
            }
            Node::Extend { signed: false, .. } => self.narrow(a, range),
            _ => Ok(()),
        }
    }

    fn narrow_operands(
        &mut self,
        operator: Binary,
        range: Range,
        (a, b): (usize, usize),
        at: usize,
    ) -> Narrowed {
        use Binary::*;
        let (of_a, of_b) = (self.ranges[a], self.ranges[b]);
        match (operator, range) {
            (Both, (1, _)) | (Either, (_, 0)) => {
                self.narrow(a, range)?;
                self.narrow(b, range)
            }
            (Both, (_, 0)) if of_a.0 == 1 => self.narrow(b, range),
            (Both, (_, 0)) if of_b.0 == 1 => self.narrow(a, range),
            (Either, (1, _)) if of_a.1 == 0 => self.narrow(b, range),
            (Either, (1, _)) if of_b.1 == 0 => self.narrow(a, range),
            (Equal, (1, _)) => {
                self.narrow(a, of_b)?;
                self.narrow(b, of_a)
            }
            (Equal, (_, 0)) => {
                if of_a.0 == of_a.1 {
                    self.exclude(b, of_a.0)?;
                }
                if of_b.0 == of_b.1 { self.exclude(a, of_b.0) } else { Ok(()) }
            }
            (LessUnsigned, (1, _)) => self.is_less(a, b),
            (LessUnsigned, (_, 0)) => self.is_at_most(b, a),
            (LessEqualUnsigned, (1, _)) => self.is_at_most(a, b),
            (LessEqualUnsigned, (_, 0)) => self.is_less(b, a),
            (Add, _) => {
                let all = mask(self.parts[at].width);
                let wraps = |x: Range, y: Range| x.1.checked_add(y.1).is_none_or(|sum| sum > all);
                if wraps(of_a, of_b) {
                    return Ok(());
                }
                let less = |by: Range| (range.0.saturating_sub(by.1), range.1.saturating_sub(by.0));
                self.narrow(a, less(of_b))?;
                self.narrow(b, less(of_a))
            }
            _ => Ok(()),
        }
    }

    fn is_less(&mut self, a: usize, b: usize) -> Narrowed {
        let (low, high) = (self.ranges[a].0, self.ranges[b].1);
        let below = high.checked_sub(1).ok_or(Contradiction)?;
        self.narrow(a, (0, below))?;
        self.narrow(b, (low.saturating_add(1), u128::MAX))
    }

    fn is_at_most(&mut self, a: usize, b: usize) -> Narrowed {
        let (low, high) = (self.ranges[a].0, self.ranges[b].1);
        self.narrow(a, (0, high))?;
        self.narrow(b, (low, u128::MAX))
    }
}

/// Bounds of an operator's result, `all` being the greatest value that it can have.
fn result(operator: Binary, a: Range, b: Range, all: u128) -> Range {
    use Binary::*;
    let truth = |holds: bool, fails: bool| (u128::from(holds), u128::from(!fails));
    let ones = u128::MAX.checked_shr((a.1 | b.1).leading_zeros()).unwrap_or(0);
    let range = match operator {
        Both => Some((a.0 & b.0, a.1 & b.1)),
        Either => Some((a.0 | b.0, a.1 | b.1)),
        Equal => Some(truth(a.0 == a.1 && a == b, a.1 < b.0 || b.1 < a.0)),
        LessUnsigned => Some(truth(a.1 < b.0, a.0 >= b.1)),
        LessEqualUnsigned => Some(truth(a.1 <= b.0, a.0 > b.1)),
        LessSigned | LessEqualSigned => Some((0, 1)),
        And => Some((0, a.1.min(b.1))),
        Or => Some((a.0.max(b.0), ones)),
        Xor => Some((0, ones)),
        Add => a.1.checked_add(b.1).map(|high| (a.0 + b.0, high)),
        Sub => (a.0 >= b.1).then(|| (a.0 - b.1, a.1 - b.0)),
        Mul => a.1.checked_mul(b.1).map(|high| (a.0 * b.0, high)),
        DivUnsigned => (b.0 > 0).then(|| (a.0 / b.1, a.1 / b.0)),
        RemUnsigned => (b.0 > 0).then(|| (0, a.1.min(b.1 - 1))),
        ShiftLeft | ShiftRight | ShiftRightSigned | DivSigned | RemSigned => None,
    };
    range.filter(|(_, high)| *high <= all).unwrap_or((0, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn::{Draw, NAMES, examples};
    use crate::expr::circuit::Circuit;

    /// What is refuted has no example, and every example is within the bounds.
    #[test]
    fn bounds_hold_for_every_example_there_is() {
        let (mut refuted, mut narrowed) = (0, 0);
        for seed in 0..20_000 {
            let mut terms = Terms::new();
            let conditions = Draw::new(seed, NAMES).conditions(&mut terms);
            let bounds = Bounds::under(&conditions, &terms);
            let mut circuit = Circuit::new(&conditions, &terms);
            let examples = examples(&mut circuit);
            let Some(bounds) = bounds else {
                assert!(examples.is_empty(), "seed {seed}: {:?}", examples[0]);
                refuted += 1;
                continue;
            };
            for (place, unknown) in circuit.unknowns.iter().enumerate() {
                let (low, high) = bounds.of(unknown.term);
                narrowed += u32::from((low, high) != (0, 7));
                for example in &examples {
                    assert!((low..=high).contains(&example[place]), "seed {seed}");
                }
            }
        }
        assert!(refuted > 3_000 && narrowed > 4_000, "{refuted} refuted, {narrowed} narrowed");
    }
}
