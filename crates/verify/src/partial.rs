//! Terms evaluated where only some unknowns are known.

use std::collections::HashMap;

use anabranch_analysis::expr::{Binary, Node, SymbolId, Term, Terms};

/// Values of terms, as far as they follow from those of symbols.
pub(crate) struct Partial<'t> {
    terms: &'t Terms,
    /// Symbols of which something is known: their value, or that it is not known.
    known: HashMap<SymbolId, Option<u128>>,
    memo: HashMap<Term, Option<u128>>,
}

impl<'t> Partial<'t> {
    pub(crate) fn new(terms: &'t Terms) -> Self {
        Self { terms, known: HashMap::new(), memo: HashMap::new() }
    }

    /// Notes what is known of a symbol. All symbols come before the first term.
    pub(crate) fn note(&mut self, symbol: SymbolId, value: Option<u128>) {
        self.known.insert(symbol, value);
    }

    /// The value of `term` where `own` holds the symbols that are not noted; `None`: not known.
    pub(crate) fn value(&mut self, term: Term, own: &HashMap<SymbolId, u128>) -> Option<u128> {
        let terms = self.terms;
        let is_common = terms.unknowns(term).iter().all(|id| self.known.contains_key(id));
        if is_common && let Some(known) = self.memo.get(&term) {
            return *known;
        }
        let value = self.node(term, own);
        if is_common {
            self.memo.insert(term, value);
        }
        value
    }

    fn node(&mut self, term: Term, own: &HashMap<SymbolId, u128>) -> Option<u128> {
        let terms = self.terms;
        let width = terms.width(term);
        match *terms.node(term) {
            Node::Bool(value) => Some(value.into()),
            Node::Constant { value, .. } => Some(value),
            Node::Symbol(id) => own.get(&id).copied().or_else(|| self.known.get(&id).copied()?),
            Node::Not(a) => Some(1 ^ self.value(a, own)?),
            Node::Binary(operator, a, b) => self.binary(operator, [a, b], own),
            Node::Ite(condition, a, b) => match self.value(condition, own) {
                Some(0) => self.value(b, own),
                Some(_) => self.value(a, own),
                None => {
                    let (a, b) = (self.value(a, own), self.value(b, own));
                    a.filter(|_| a == b)
                }
            },
            Node::Concat(high, low) => {
                let (high, shift) = (self.value(high, own)?, terms.width(low));
                Some(high << shift | self.value(low, own)?)
            }
            Node::Extract { low, of, .. } => Some(self.value(of, own)? >> low & ones(width)),
            Node::Extend { signed, of, .. } => {
                let (value, from) = (self.value(of, own)?, terms.width(of));
                let negative = signed && value >> (from - 1) & 1 == 1;
                Some(if negative { value | (ones(width) & !ones(from)) } else { value })
            }
            Node::Apply(..) => None,
        }
    }

    fn binary(
        &mut self,
        operator: Binary,
        [a, b]: [Term; 2],
        own: &HashMap<SymbolId, u128>,
    ) -> Option<u128> {
        let width = self.terms.width(a);
        let (a, b) = (self.value(a, own), self.value(b, own));
        match (operator, a, b) {
            (Binary::Both, Some(0), _) | (Binary::Both, _, Some(0)) => Some(0),
            (Binary::Either, Some(1), _) | (Binary::Either, _, Some(1)) => Some(1),
            (_, Some(a), Some(b)) => Some(operator.of(a, b, width)),
            _ => None,
        }
    }
}

fn ones(width: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(width)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_analysis::expr::{Kind, Sort};

    #[test]
    fn what_follows_from_what_is_known_is_known() {
        let mut terms = Terms::new();
        let a = terms.symbol("a", Sort::Bits(16), Kind::Number);
        let b = terms.symbol("b", Sort::Bits(16), Kind::Number);
        let limit = terms.constant(10, 16);
        let low = terms.binary(Binary::LessUnsigned, a, limit);
        let other = terms.binary(Binary::LessUnsigned, b, limit);
        let (both, either) = (terms.both(low, other), terms.either(low, other));
        let (Node::Symbol(a), Node::Symbol(b)) = (terms.node(a).clone(), terms.node(b).clone())
        else {
            panic!("symbols");
        };
        let mut partial = Partial::new(&terms);
        partial.note(a, Some(3));
        let nothing = HashMap::new();
        assert_eq!(partial.value(low, &nothing), Some(1));
        assert_eq!(
            (partial.value(both, &nothing), partial.value(either, &nothing)),
            (None, Some(1))
        );
        assert_eq!(partial.value(both, &HashMap::from([(b, 11)])), Some(0));
        assert_eq!(partial.value(both, &HashMap::from([(b, 9)])), Some(1));
    }
}
