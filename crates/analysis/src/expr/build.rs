//! Making terms: constants are folded and cheap identities applied, so that most decisions of a
//! handler never reach the solver.

use super::{Binary, Kind, Node, Sort, Term, Terms, fold, mask};

impl Terms {
    /// A known boolean.
    pub fn bool(&mut self, value: bool) -> Term {
        self.intern(Node::Bool(value), Sort::Bool)
    }

    /// A known bit-vector; `value` is taken modulo 2^width.
    pub fn constant(&mut self, value: u128, width: u8) -> Term {
        let value = value & mask(width);
        self.intern(Node::Constant { value, width }, Sort::Bits(width))
    }

    /// False, or all bits zero.
    pub fn zero(&mut self, sort: Sort) -> Term {
        match sort {
            Sort::Bool => self.bool(false),
            Sort::Bits(width) => self.constant(0, width),
        }
    }

    /// The unknown of this name and sort; the same one every time.
    pub fn symbol(&mut self, name: &str, sort: Sort, kind: Kind) -> Term {
        let id = self.symbol_id(name, sort, kind);
        self.intern(Node::Symbol(id), sort)
    }

    /// An uninterpreted function of its arguments.
    pub fn apply(&mut self, name: &str, sort: Sort, kind: Kind, arguments: &[Term]) -> Term {
        if arguments.is_empty() {
            return self.symbol(name, sort, kind);
        }
        let id = self.symbol_id(name, sort, kind);
        self.intern(Node::Apply(id, arguments.into()), sort)
    }

    /// Boolean negation. Comparisons are turned round, so that a negated comparison is one too.
    pub fn not(&mut self, a: Term) -> Term {
        use Binary::*;
        match *self.node(a) {
            Node::Bool(value) => self.bool(!value),
            Node::Not(inner) => inner,
            Node::Binary(LessUnsigned, x, y) => self.binary(LessEqualUnsigned, y, x),
            Node::Binary(LessEqualUnsigned, x, y) => self.binary(LessUnsigned, y, x),
            Node::Binary(LessSigned, x, y) => self.binary(LessEqualSigned, y, x),
            Node::Binary(LessEqualSigned, x, y) => self.binary(LessSigned, y, x),
            _ => self.intern(Node::Not(a), Sort::Bool),
        }
    }

    /// Notes that a term is what a method call makes, so that it is written as the call.
    pub fn call(&mut self, term: Term, method: &'static str, operands: &[Term]) {
        let compound = !matches!(
            self.node(term),
            Node::Bool(_) | Node::Constant { .. } | Node::Symbol(_) | Node::Apply(..)
        );
        if compound && !operands.contains(&term) {
            self.calls.entry(term).or_insert_with(|| (method, operands.into()));
        }
    }

    /// Both hold.
    pub fn both(&mut self, a: Term, b: Term) -> Term {
        self.binary(Binary::Both, a, b)
    }

    /// All hold; true when there are none.
    pub fn all(&mut self, terms: &[Term]) -> Term {
        let start = self.bool(true);
        terms.iter().fold(start, |all, term| self.both(all, *term))
    }

    /// At least one holds; false when there are none.
    pub fn any(&mut self, terms: &[Term]) -> Term {
        let start = self.bool(false);
        terms.iter().fold(start, |any, term| self.either(any, *term))
    }

    /// At least one of two holds.
    pub fn either(&mut self, a: Term, b: Term) -> Term {
        self.binary(Binary::Either, a, b)
    }

    /// Equality of two terms of one sort.
    pub fn equal(&mut self, a: Term, b: Term) -> Term {
        self.binary(Binary::Equal, a, b)
    }

    /// Two's complement negation.
    pub fn negate(&mut self, a: Term) -> Term {
        let zero = self.constant(0, self.width(a));
        self.binary(Binary::Sub, zero, a)
    }

    /// Every bit turned over.
    pub fn complement(&mut self, a: Term) -> Term {
        let ones = self.constant(u128::MAX, self.width(a));
        self.binary(Binary::Xor, a, ones)
    }

    /// An operator on two operands of one width.
    pub fn binary(&mut self, operator: Binary, a: Term, b: Term) -> Term {
        if let (Some(x), Some(y)) = (self.known_value(a), self.known_value(b)) {
            return self.folded(operator, x, y, self.width(a));
        }
        let (a, b) = self.ordered(operator, a, b);
        let simpler = if operator.is_boolean() {
            self.simplify_boolean(operator, a, b)
        } else {
            self.simplify_bits(operator, a, b)
        };
        simpler.unwrap_or_else(|| self.intern_binary(operator, a, b))
    }

    pub(super) fn intern_binary(&mut self, operator: Binary, a: Term, b: Term) -> Term {
        let sort = match operator.is_boolean() {
            true => Sort::Bool,
            false => self.sort(a),
        };
        self.intern(Node::Binary(operator, a, b), sort)
    }

    fn folded(&mut self, operator: Binary, x: u128, y: u128, width: u8) -> Term {
        match operator.is_boolean() {
            true => self.bool(fold::truth(operator, x, y, width)),
            false => self.constant(fold::bits(operator, x, y, width), width),
        }
    }

    /// The value of a constant of either sort.
    pub fn known_value(&self, term: Term) -> Option<u128> {
        match self.node(term) {
            Node::Constant { value, .. } => Some(*value),
            Node::Bool(value) => Some(u128::from(*value)),
            _ => None,
        }
    }

    /// Constants go right and older terms left, so that `a + b` and `b + a` are one term.
    fn ordered(&self, operator: Binary, a: Term, b: Term) -> (Term, Term) {
        if !operator.commutes() || self.known_value(b).is_some() {
            return (a, b);
        }
        if self.known_value(a).is_some() || b < a {
            return (b, a);
        }
        (a, b)
    }

    fn simplify_bits(&mut self, operator: Binary, a: Term, b: Term) -> Option<Term> {
        use Binary::*;
        let width = self.width(a);
        if a == b && matches!(operator, Sub | Xor) {
            return Some(self.constant(0, width));
        }
        if a == b && matches!(operator, And | Or) {
            return Some(a);
        }
        let constant = self.constant_of(b)?;
        match (operator, constant) {
            (Add | Sub | Or | Xor | ShiftLeft | ShiftRight | ShiftRightSigned, 0) => Some(a),
            (Mul | And | DivUnsigned | RemUnsigned | DivSigned | RemSigned, 0) => Some(b),
            (Mul | DivUnsigned | DivSigned, 1) => Some(a),
            (RemUnsigned | RemSigned, 1) => Some(self.constant(0, width)),
            (And, ones) if ones == mask(width) => Some(a),
            (Or, ones) if ones == mask(width) => Some(b),
            (Sub, n) => Some(self.add_constant(a, n.wrapping_neg())),
            (Add | Xor, _) => self.merge_constant(operator, a, b),
            (And, _) => self.low_mask(a, constant),
            _ => None,
        }
    }

    fn add_constant(&mut self, a: Term, n: u128) -> Term {
        let n = self.constant(n, self.width(a));
        self.binary(Binary::Add, a, n)
    }

    /// `(x + 1) + 2` is `x + 3`; likewise for exclusive or.
    fn merge_constant(&mut self, operator: Binary, a: Term, b: Term) -> Option<Term> {
        let Node::Binary(inner, x, y) = *self.node(a) else {
            return None;
        };
        if inner != operator || self.constant_of(y).is_none() {
            return None;
        }
        let sum = self.binary(operator, y, b);
        Some(self.binary(operator, x, sum))
    }

    /// `x & 0xff` is the low byte of `x`, widened: the form in which keys are compared.
    fn low_mask(&mut self, a: Term, constant: u128) -> Option<Term> {
        let bits = constant.count_ones() as u8;
        let width = self.width(a);
        if constant != mask(bits) {
            return None;
        }
        let low = self.extract(a, bits - 1, 0);
        Some(self.extend(low, width, false))
    }

    /// `if condition { a } else { b }`.
    pub fn ite(&mut self, condition: Term, a: Term, b: Term) -> Term {
        match self.bool_of(condition) {
            Some(true) => return a,
            Some(false) => return b,
            None if a == b => return a,
            None => {}
        }
        if self.sort(a) == Sort::Bool {
            let (not, yes) = (self.not(condition), self.both(condition, a));
            let no = self.both(not, b);
            return self.either(yes, no);
        }
        self.intern(Node::Ite(condition, a, b), self.sort(a))
    }
}
