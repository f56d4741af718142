//! Simplification of comparisons and of boolean connectives.

use super::{Binary, Node, Term, Terms, mask};

impl Terms {
    /// The conditions a condition is made of: those of `a && b` are `a` and `b`. One that is
    /// written as a call stays whole.
    pub fn conjuncts(&self, condition: Term) -> Vec<Term> {
        match *self.node(condition) {
            Node::Binary(Binary::Both, a, b) if !self.calls.contains_key(&condition) => {
                let mut all = self.conjuncts(a);
                all.extend(self.conjuncts(b));
                all
            }
            _ => vec![condition],
        }
    }

    pub(super) fn simplify_boolean(&mut self, operator: Binary, a: Term, b: Term) -> Option<Term> {
        use Binary::*;
        match operator {
            Both | Either => self.simplify_connective(operator, a, b),
            Equal => self.simplify_equal(a, b),
            LessUnsigned | LessEqualUnsigned => self.simplify_order(operator, a, b),
            LessSigned => (a == b).then(|| self.bool(false)),
            LessEqualSigned => (a == b).then(|| self.bool(true)),
            _ => None,
        }
    }

    fn simplify_connective(&mut self, operator: Binary, a: Term, b: Term) -> Option<Term> {
        if a == b {
            return Some(a);
        }
        if let Some(known) = self.bool_of(b) {
            let neutral = operator == Binary::Both;
            return Some(if known == neutral { a } else { b });
        }
        if self.not(a) == b {
            return Some(self.bool(operator == Binary::Either));
        }
        None
    }

    fn simplify_equal(&mut self, a: Term, b: Term) -> Option<Term> {
        if a == b {
            return Some(self.bool(true));
        }
        if let Some(value) = self.bool_of(b) {
            return Some(if value { a } else { self.not(a) });
        }
        if let Some(value) = self.constant_of(b) {
            return self.equal_constant(a, value);
        }
        match (self.node(a).clone(), self.node(b).clone()) {
            (Node::Extend { of: x, signed, .. }, Node::Extend { of: y, signed: other, .. })
                if signed == other && self.width(x) == self.width(y) =>
            {
                Some(self.equal(x, y))
            }
            (Node::Concat(x, y), Node::Concat(v, w)) if self.width(y) == self.width(w) => {
                let (high, low) = (self.equal(x, v), self.equal(y, w));
                Some(self.both(high, low))
            }
            _ => None,
        }
    }

    fn equal_constant(&mut self, a: Term, value: u128) -> Option<Term> {
        match self.node(a).clone() {
            Node::Extend { of, signed: false, .. } => {
                let width = self.width(of);
                if value > mask(width) {
                    return Some(self.bool(false));
                }
                let value = self.constant(value, width);
                Some(self.equal(of, value))
            }
            Node::Binary(operator @ (Binary::Add | Binary::Xor), x, y) => {
                self.constant_of(y)?;
                let inverse = match operator {
                    Binary::Add => Binary::Sub,
                    _ => Binary::Xor,
                };
                let value = self.constant(value, self.width(a));
                let value = self.binary(inverse, value, y);
                Some(self.equal(x, value))
            }
            Node::Concat(x, y) => {
                let low = self.constant(value, self.width(y));
                let high = self.constant(value >> self.width(y), self.width(x));
                let (high, low) = (self.equal(x, high), self.equal(y, low));
                Some(self.both(high, low))
            }
            Node::Binary(Binary::And, x, y) => self.equal_bit(x, y, value),
            Node::Ite(condition, x, y) => self.equal_choice(condition, x, y, value),
            _ if value == 0 && self.width(a) == 1 => {
                let one = self.constant(1, 1);
                let set = self.equal(a, one);
                Some(self.not(set))
            }
            _ => None,
        }
    }

    /// One bit masked out and compared is that bit.
    fn equal_bit(&mut self, x: Term, mask: Term, value: u128) -> Option<Term> {
        let mask = self.constant_of(mask).filter(|mask| mask.is_power_of_two())?;
        if value != 0 && value != mask {
            return Some(self.bool(false));
        }
        let at = mask.trailing_zeros() as u8;
        let bit = self.extract(x, at, at);
        let wanted = self.constant(u128::from(value != 0), 1);
        Some(self.equal(bit, wanted))
    }

    /// A choice between constants compared with a constant is a condition on the choice.
    fn equal_choice(&mut self, condition: Term, x: Term, y: Term, value: u128) -> Option<Term> {
        if self.constant_of(x).is_none() && self.constant_of(y).is_none() {
            return None;
        }
        let value = self.constant(value, self.width(x));
        let (x, y) = (self.equal(x, value), self.equal(y, value));
        Some(self.ite(condition, x, y))
    }

    fn simplify_order(&mut self, operator: Binary, a: Term, b: Term) -> Option<Term> {
        let strict = operator == Binary::LessUnsigned;
        if a == b {
            return Some(self.bool(!strict));
        }
        if let Some(known) = self.order_of_remainder(strict, a, b) {
            return Some(known);
        }
        let ones = mask(self.width(a));
        match (self.constant_of(a), self.constant_of(b)) {
            (_, Some(0)) if strict => Some(self.bool(false)),
            (Some(0), _) if !strict => Some(self.bool(true)),
            (_, Some(n)) if !strict && n == ones => Some(self.bool(true)),
            (Some(n), _) if strict && n == ones => Some(self.bool(false)),
            (_, Some(1)) if strict => self.equal_number(a, 0),
            (_, Some(0)) => self.equal_number(a, 0),
            (Some(0), _) => {
                let zero = self.equal_number(b, 0)?;
                Some(self.not(zero))
            }
            (None, None) => self.order_of_widened(operator, a, b),
            (_, Some(n)) => self.order_below(operator, a, n),
            (Some(n), _) => self.order_above(operator, n, b),
        }
    }

    fn equal_number(&mut self, a: Term, value: u128) -> Option<Term> {
        let value = self.constant(value, self.width(a));
        Some(self.equal(a, value))
    }

    /// A remainder is below its divisor, unless that is 0, which leaves 0.
    fn order_of_remainder(&mut self, strict: bool, a: Term, b: Term) -> Option<Term> {
        if self.divisor(a).is_some_and(|by| by == self.unwidened(b)) {
            let zero = self.equal_number(self.unwidened(b), 0)?;
            return Some(if strict { self.not(zero) } else { self.bool(true) });
        }
        if self.divisor(b).is_some_and(|by| by == self.unwidened(a)) {
            let zero = self.equal_number(self.unwidened(a), 0)?;
            return Some(if strict { self.bool(false) } else { zero });
        }
        None
    }

    /// What `term` is the remainder of a division by, or some low bits of one.
    fn divisor(&self, term: Term) -> Option<Term> {
        match *self.node(term) {
            Node::Extend { of, signed: false, .. } | Node::Extract { of, low: 0, .. } => {
                self.divisor(of)
            }
            Node::Binary(Binary::RemUnsigned, _, by) => Some(by),
            _ => None,
        }
    }

    fn unwidened(&self, term: Term) -> Term {
        self.widened(term).unwrap_or(term)
    }

    fn widened(&self, term: Term) -> Option<Term> {
        match *self.node(term) {
            Node::Extend { of, signed: false, .. } => Some(of),
            _ => None,
        }
    }

    fn order_of_widened(&mut self, operator: Binary, a: Term, b: Term) -> Option<Term> {
        let (x, y) = (self.widened(a)?, self.widened(b)?);
        (self.width(x) == self.width(y)).then(|| self.binary(operator, x, y))
    }

    fn order_below(&mut self, operator: Binary, a: Term, n: u128) -> Option<Term> {
        let inner = self.widened(a)?;
        let width = self.width(inner);
        if n > mask(width) {
            return Some(self.bool(true));
        }
        let n = self.constant(n, width);
        Some(self.binary(operator, inner, n))
    }

    fn order_above(&mut self, operator: Binary, n: u128, b: Term) -> Option<Term> {
        let inner = self.widened(b)?;
        let width = self.width(inner);
        if n > mask(width) {
            return Some(self.bool(false));
        }
        let n = self.constant(n, width);
        Some(self.binary(operator, n, inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Kind, Sort};

    /// Of all numbers of four bits; low bits of a remainder, widened, count as it.
    #[test]
    fn a_remainder_is_below_its_divisor_unless_that_is_zero() {
        for (a, by) in (0..16).flat_map(|a| (0..16).map(move |by| (a, by))) {
            let rest = Binary::RemUnsigned.of(a, by, 4);
            assert_eq!((rest < by, by <= rest), (by != 0, by == 0));
            assert!(rest <= by);
        }
        let mut terms = Terms::new();
        let [a, by] = ["a", "by"].map(|name| terms.symbol(name, Sort::Bits(32), Kind::Number));
        let rest = terms.binary(Binary::RemUnsigned, a, by);
        let low = terms.extract(rest, 15, 0);
        let (rest, divisor) = (terms.extend(low, 64, false), terms.extend(by, 64, false));
        let nothing = terms.constant(0, 32);
        let zero = terms.equal(by, nothing);
        let other = terms.not(zero);
        let mut order = |operator, a, b| terms.binary(operator, a, b);
        assert_eq!(order(Binary::LessUnsigned, rest, divisor), other);
        assert_eq!(order(Binary::LessEqualUnsigned, divisor, rest), zero);
        let strictly_above = order(Binary::LessUnsigned, divisor, rest);
        assert_eq!(terms.bool_of(strictly_above), Some(false));
        let high = terms.extract(a, 31, 16);
        let order = terms.binary(Binary::LessUnsigned, high, a);
        assert_eq!(terms.bool_of(order), None, "no remainder");
    }
}
