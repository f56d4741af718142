//! Terms without products and quotients of unknowns, which solvers of bit-vectors are slow at.

use super::{Binary, Kind, Node, Term, Terms};
use crate::hash::FastMap;

impl Terms {
    /// The term, each product and quotient of unknowns in it taken for any number: what cannot hold of
    /// that cannot hold of the term.
    pub(crate) fn softened(&mut self, term: Term) -> Term {
        self.soften(term, &mut FastMap::default())
    }

    fn soften(&mut self, term: Term, known: &mut FastMap<Term, Term>) -> Term {
        if !self.is_hard(term) {
            return term;
        }
        if let Some(soft) = known.get(&term) {
            return *soft;
        }
        let soft = self.soften_node(term, known);
        known.insert(term, soft);
        soft
    }

    fn soften_node(&mut self, term: Term, known: &mut FastMap<Term, Term>) -> Term {
        let mut soft = |this: &mut Self, part: Term| this.soften(part, known);
        match self.node(term).clone() {
            Node::Binary(operator, a, b) if !self.is_product(operator, b) => {
                let (a, b) = (soft(self, a), soft(self, b));
                self.binary(operator, a, b)
            }
            Node::Not(a) => {
                let a = soft(self, a);
                self.not(a)
            }
            Node::Ite(condition, a, b) => {
                let condition = soft(self, condition);
                let (a, b) = (soft(self, a), soft(self, b));
                self.ite(condition, a, b)
            }
            Node::Extract { high, low, of } => {
                let of = soft(self, of);
                self.extract(of, high, low)
            }
            Node::Extend { signed, width, of } => {
                let of = soft(self, of);
                self.extend(of, width, signed)
            }
            Node::Apply(function, arguments) => {
                let arguments: Vec<Term> = arguments.iter().map(|part| soft(self, *part)).collect();
                let symbol = self.symbol_of(function).clone();
                self.apply(&symbol.name, symbol.sort, symbol.kind, &arguments)
            }
            Node::Binary(Binary::RemUnsigned, _, by) => {
                // Less than what it is divided by, or zero.
                let by = soft(self, by);
                let any = self.anything(term);
                let is_less = self.binary(Binary::LessUnsigned, any, by);
                let zero = self.zero(self.sort(term));
                self.ite(is_less, any, zero)
            }
            _ => self.anything(term),
        }
    }

    /// Any value in the place of a term.
    fn anything(&mut self, term: Term) -> Term {
        self.symbol(&format!("some {}", term.index()), self.sort(term), Kind::Number)
    }

    /// Whether the operator multiplies or divides, by what is no power of two.
    pub(super) fn is_product(&self, operator: Binary, by: Term) -> bool {
        use Binary::{DivSigned, DivUnsigned, Mul, RemSigned, RemUnsigned};
        matches!(operator, Mul | DivUnsigned | DivSigned | RemUnsigned | RemSigned)
            && self.constant_of(by).is_none_or(|constant| !constant.is_power_of_two())
    }
}
