//! Conditions drawn at random, for tests of what is said of conditions.

use crate::expr::circuit::Circuit;
use crate::expr::{Binary, Kind, Sort, Term, Terms};

/// What the unknowns are called, of 3 bits each.
pub(crate) const NAMES: [&str; 3] = ["x", "y", "z"];

/// Draws conditions over few and narrow unknowns, so that all values can be tried.
pub(crate) struct Draw {
    state: u64,
    names: [&'static str; 3],
}

impl Draw {
    pub(crate) fn new(seed: u64, names: [&'static str; 3]) -> Self {
        Self { state: seed, names }
    }

    /// One to four conditions.
    pub(crate) fn conditions(&mut self, terms: &mut Terms) -> Vec<Term> {
        (0..1 + self.below(4)).map(|_| self.truth(terms, 2)).collect()
    }

    fn below(&mut self, end: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % end
    }

    fn bits(&mut self, terms: &mut Terms, depth: usize) -> Term {
        use Binary::*;
        let name = self.names[self.below(3)];
        if depth == 0 || self.below(4) == 0 {
            return match self.below(2) {
                0 => terms.constant(self.below(8) as u128, 3),
                _ => terms.symbol(name, Sort::Bits(3), Kind::Number),
            };
        }
        let a = self.bits(terms, depth - 1);
        let b = self.bits(terms, depth - 1);
        match self.below(7) {
            0 => {
                let condition = self.truth(terms, depth - 1);
                terms.ite(condition, a, b)
            }
            1 => {
                let both = terms.concat(a, b);
                let low = self.below(4) as u8;
                terms.extract(both, low + 2, low)
            }
            2 => {
                let wide = terms.extend(a, 5, self.below(2) == 0);
                let sum = terms.constant(self.below(32) as u128, 5);
                let sum = terms.binary(Add, wide, sum);
                terms.extract(sum, 3, 1)
            }
            _ => {
                let operators = [
                    Add,
                    Sub,
                    Mul,
                    And,
                    Or,
                    Xor,
                    DivUnsigned,
                    RemUnsigned,
                    ShiftLeft,
                    ShiftRight,
                    DivSigned,
                    RemSigned,
                ];
                terms.binary(operators[self.below(operators.len())], a, b)
            }
        }
    }

    fn truth(&mut self, terms: &mut Terms, depth: usize) -> Term {
        use Binary::*;
        if depth > 0 && self.below(3) == 0 {
            let a = self.truth(terms, depth - 1);
            let b = self.truth(terms, depth - 1);
            return terms.binary([Both, Either, Equal][self.below(3)], a, b);
        }
        let (a, b) = (self.bits(terms, depth), self.bits(terms, depth));
        let operators =
            [Equal, LessUnsigned, LessEqualUnsigned, LessSigned, LessEqualSigned, Equal];
        let holds = terms.binary(operators[self.below(operators.len())], a, b);
        if self.below(3) == 0 { terms.not(holds) } else { holds }
    }
}

/// Values of up to three unknowns of 3 bits under which all holds.
pub(crate) fn examples(circuit: &mut Circuit) -> Vec<Vec<u128>> {
    let mut examples = Vec::new();
    for values in 0..512u128 {
        for (place, guess) in circuit.guess.iter_mut().enumerate() {
            *guess = values >> (3 * place) & 7;
        }
        let mut unmet = Vec::new();
        circuit.evaluate(&mut unmet);
        if unmet.is_empty() {
            examples.push(circuit.guess.clone());
        }
    }
    examples
}
