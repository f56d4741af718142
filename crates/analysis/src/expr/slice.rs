//! Parts of bit-vectors: extract, widen, join. Kept in a form in which the bytes of an address
//! put together again are the address.

use super::{Binary, Node, Sort, Term, Terms, fold, mask};

impl Terms {
    /// Bits `high` down to `low` of a term.
    pub fn extract(&mut self, of: Term, high: u8, low: u8) -> Term {
        let width = high - low + 1;
        if width == self.width(of) {
            return of;
        }
        match self.node(of).clone() {
            Node::Constant { value, .. } => self.constant(value >> low, width),
            Node::Extract { low: base, of, .. } => self.extract(of, base + high, base + low),
            Node::Concat(a, b) => self.extract_of_concat((a, b), of, high, low),
            Node::Extend { of: inner, .. } if high < self.width(inner) => {
                self.extract(inner, high, low)
            }
            Node::Extend { of: inner, signed: false, .. } => {
                self.extract_of_widened(inner, high, low)
            }
            Node::Binary(Binary::ShiftRight, x, by) => self.extract_of_shift(x, by, of, high, low),
            _ => self.intern(Node::Extract { high, low, of }, Sort::Bits(width)),
        }
    }

    fn extract_of_concat(&mut self, (a, b): (Term, Term), of: Term, high: u8, low: u8) -> Term {
        let split = self.width(b);
        if high < split {
            return self.extract(b, high, low);
        }
        if low >= split {
            return self.extract(a, high - split, low - split);
        }
        let width = high - low + 1;
        self.intern(Node::Extract { high, low, of }, Sort::Bits(width))
    }

    /// Part of a zero-extended term that reaches into the zeros.
    fn extract_of_widened(&mut self, inner: Term, high: u8, low: u8) -> Term {
        let width = high - low + 1;
        let top = self.width(inner);
        if low >= top {
            return self.constant(0, width);
        }
        let part = self.extract(inner, top - 1, low);
        self.extend(part, width, false)
    }

    fn extract_of_shift(&mut self, x: Term, by: Term, of: Term, high: u8, low: u8) -> Term {
        let width = high - low + 1;
        let total = self.width(x);
        let shift = self.constant_of(by).map(|n| (n % u128::from(total)) as u8);
        match shift {
            Some(shift) if high + shift < total => self.extract(x, high + shift, low + shift),
            Some(shift) if low + shift >= total => self.constant(0, width),
            Some(shift) => {
                let part = self.extract(x, total - 1, low + shift);
                self.extend(part, width, false)
            }
            None => self.intern(Node::Extract { high, low, of }, Sort::Bits(width)),
        }
    }

    /// Widens to `width` bits with zeros, or with the sign bit; narrows when `width` is less.
    pub fn extend(&mut self, of: Term, width: u8, signed: bool) -> Term {
        let from = self.width(of);
        if width == from {
            return of;
        }
        if width < from {
            return self.extract(of, width - 1, 0);
        }
        match *self.node(of) {
            Node::Constant { value, .. } if signed => {
                self.constant(fold::signed(value, from) as u128, width)
            }
            Node::Constant { value, .. } => self.constant(value, width),
            Node::Extend { of: inner, signed: false, .. } => self.extend(inner, width, false),
            _ => self.intern(Node::Extend { signed, width, of }, Sort::Bits(width)),
        }
    }

    /// What a choice chooses by, and between what; of one that was widened or narrowed, both widened or narrowed.
    pub fn alternatives(&mut self, term: Term) -> Option<(Term, Term, Term)> {
        match *self.node(term) {
            Node::Ite(condition, one, other) => Some((condition, one, other)),
            Node::Extend { signed, width, of } => {
                let (condition, one, other) = self.alternatives(of)?;
                let (one, other) =
                    (self.extend(one, width, signed), self.extend(other, width, signed));
                Some((condition, one, other))
            }
            Node::Extract { high, low, of } => {
                let (condition, one, other) = self.alternatives(of)?;
                let (one, other) = (self.extract(one, high, low), self.extract(other, high, low));
                Some((condition, one, other))
            }
            _ => None,
        }
    }

    /// Joins two terms, the first in the high bits. At most 128 bits together.
    pub fn concat(&mut self, high: Term, low: Term) -> Term {
        let (a, b) = (self.width(high), self.width(low));
        let width = a + b;
        match (self.node(high).clone(), self.node(low).clone()) {
            (Node::Constant { value: x, .. }, Node::Constant { value: y, .. }) => {
                self.constant((x << b) | y, width)
            }
            (Node::Constant { value: 0, .. }, _) => self.extend(low, width, false),
            (
                Node::Extract { high: top, low: from, of },
                Node::Extract { high: to, low: bottom, of: other },
            ) if of == other && from == to + 1 => self.extract(of, top, bottom),
            (Node::Concat(x, y), _) => self.concat_nested(x, y, high, low),
            _ => self.intern(Node::Concat(high, low), Sort::Bits(width)),
        }
    }

    /// `(x, y), low`: joins `y` with `low` first where they are neighbours in one term.
    fn concat_nested(&mut self, x: Term, y: Term, high: Term, low: Term) -> Term {
        let width = self.width(high) + self.width(low);
        if let (Node::Extract { low: from, of, .. }, Node::Extract { high: to, of: other, .. }) =
            (self.node(y), self.node(low))
            && of == other
            && *from == *to + 1
        {
            let joined = self.concat(y, low);
            return self.concat(x, joined);
        }
        self.intern(Node::Concat(high, low), Sort::Bits(width))
    }

    /// A boolean as a bit-vector of `width` bits, 0 or 1.
    pub fn from_bool(&mut self, condition: Term, width: u8) -> Term {
        let (one, zero) = (self.constant(1, width), self.constant(0, width));
        self.ite(condition, one, zero)
    }

    /// Whether a constant fits in `width` bits.
    pub fn fits(value: u128, width: u8) -> bool {
        value <= mask(width)
    }
}
