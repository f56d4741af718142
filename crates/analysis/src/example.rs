//! Looks for an example packet by guessing, before the solver is asked. Most branches of a handler
//! can go both ways, and an example shows it in microseconds; only what no guess meets needs proof.

use crate::bounds::{Bounds, Range};
use crate::expr::circuit::Circuit;
use crate::expr::{SymbolId, Term, Terms};
use crate::hash::FastMap;

/// Guesses a question gets.
const GUESSES: usize = 400;

/// Steps of evaluation a question gets: long conditions get fewer guesses.
const WORK: usize = 100_000;

/// Any value.
const ANY: Range = (0, u128::MAX);

/// Remembers the values of its last examples, which tend to be close to the next.
pub(crate) struct Examples {
    last: FastMap<Term, u128>,
    random: u64,
}

impl Default for Examples {
    fn default() -> Self {
        Self { last: FastMap::default(), random: 0x2545_f491_4f6c_dd1d }
    }
}

impl Examples {
    /// Whether an example that meets all conditions was found; `false` says nothing. `bounds` is what follows of
    /// the conditions.
    pub(crate) fn find(&mut self, conditions: &[Term], bounds: &Bounds<'_>, terms: &Terms) -> bool {
        let mut circuit = Circuit::of_any_function(conditions, terms);
        let ranges: Vec<Range> =
            circuit.unknowns.iter().map(|unknown| bounds.of(unknown.term)).collect();
        for (place, unknown) in circuit.unknowns.iter().enumerate() {
            let last = self.last.get(&unknown.term).copied().unwrap_or(0);
            circuit.guess[place] = last.clamp(ranges[place].0, ranges[place].1);
        }
        let mut places = places(conditions, &circuit, terms);
        for choices in &mut places {
            choices.retain(|place| ranges[*place].0 < ranges[*place].1);
        }
        let found = self.search(&mut circuit, &places, &ranges);
        if found {
            self.keep(&circuit);
        }
        found
    }

    /// Values near those of `start`, of the unknowns that `is_free`, under which all conditions hold.
    pub(crate) fn near(
        &mut self,
        conditions: &[Term],
        terms: &Terms,
        start: &dyn Fn(SymbolId) -> u128,
        is_free: &dyn Fn(SymbolId) -> bool,
    ) -> Option<Vec<(SymbolId, u128)>> {
        let mut circuit = Circuit::new(conditions, terms);
        for (place, unknown) in circuit.unknowns.iter().enumerate() {
            circuit.guess[place] = start(unknown.id);
        }
        let mut places = places(conditions, &circuit, terms);
        for choices in &mut places {
            choices.retain(|place| is_free(circuit.unknowns[*place].id));
        }
        let ranges = vec![ANY; circuit.unknowns.len()];
        let found = self.search(&mut circuit, &places, &ranges);
        let unknowns = circuit.unknowns.iter().zip(&circuit.guess);
        found.then(|| unknowns.map(|(unknown, value)| (unknown.id, *value)).collect())
    }

    /// Guesses until all conditions are met, changing one unknown of an unmet one at a time: of each
    /// condition those at `places`, each within its range.
    fn search(&mut self, circuit: &mut Circuit, places: &[Vec<usize>], ranges: &[Range]) -> bool {
        let (mut unmet, mut before) = (Vec::new(), Vec::new());
        circuit.evaluate(&mut unmet);
        for _ in 0..GUESSES.min(WORK / circuit.size().max(1)) {
            let Some(wrong) = unmet.get(self.below(unmet.len())) else { return true };
            let choices = &places[*wrong];
            let Some(place) = choices.get(self.below(choices.len())) else { return false };
            std::mem::swap(&mut unmet, &mut before);
            let old = circuit.guess[*place];
            let (low, high) = ranges[*place];
            circuit.guess[*place] = self.candidate(circuit, *place).clamp(low, high);
            circuit.evaluate(&mut unmet);
            // What makes things worse is taken back, mostly.
            if unmet.len() > before.len() && self.below(16) != 0 {
                circuit.guess[*place] = old;
                std::mem::swap(&mut unmet, &mut before);
            }
        }
        false
    }

    fn keep(&mut self, circuit: &Circuit) {
        for (unknown, value) in circuit.unknowns.iter().zip(&circuit.guess) {
            self.last.insert(unknown.term, *value);
        }
    }

    /// A value worth trying: a constant of the conditions or a neighbour of one, what another
    /// unknown has, a power of two, an end of the range, or anything.
    fn candidate(&mut self, circuit: &Circuit, place: usize) -> u128 {
        let width = circuit.unknowns[place].width;
        let all = crate::expr::mask(width);
        let old = circuit.guess[place];
        let bit = 1u128.checked_shl(self.below(usize::from(width)) as u32).unwrap_or(1);
        let constant = circuit.constants.get(self.below(circuit.constants.len()));
        let constant = constant.copied().unwrap_or(0);
        let other = circuit.guess.get(self.below(circuit.guess.len())).copied().unwrap_or(0);
        let value = match self.below(9) {
            0 => constant,
            1 => constant.wrapping_add(1),
            2 => constant.wrapping_sub(1),
            3 => other,
            4 => old ^ bit,
            5 => old.wrapping_add(bit),
            6 => bit,
            7 => {
                if old == 0 {
                    all
                } else {
                    0
                }
            }
            _ => u128::from(self.next()) << 64 | u128::from(self.next()),
        };
        if width == 1 { old ^ 1 } else { value & all }
    }

    fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            end => (self.next() % end as u64) as usize,
        }
    }

    /// Xorshift: the same guesses every time.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// For each condition, the places of the unknowns it depends on.
fn places(conditions: &[Term], circuit: &Circuit, terms: &Terms) -> Vec<Vec<usize>> {
    let mut of_symbol: FastMap<SymbolId, Vec<usize>> = FastMap::default();
    for (place, unknown) in circuit.unknowns.iter().enumerate() {
        of_symbol.entry(unknown.id).or_default().push(place);
    }
    let of = |condition: &Term| {
        terms
            .unknowns(*condition)
            .iter()
            .filter_map(|id| of_symbol.get(id))
            .flatten()
            .copied()
            .collect()
    };
    conditions.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Binary, Kind, Sort};

    #[test]
    fn finds_a_sum_and_gives_up_on_a_contradiction() {
        let mut terms = Terms::new();
        let a = terms.symbol("a", Sort::Bits(16), Kind::Number);
        let b = terms.symbol("b", Sort::Bits(16), Kind::Number);
        let sum = terms.binary(Binary::Add, a, b);
        let limit = terms.constant(1_000, 16);
        let high = terms.binary(Binary::LessUnsigned, limit, sum);
        let less = terms.binary(Binary::LessUnsigned, a, b);
        let more = terms.binary(Binary::LessUnsigned, b, a);
        let mut examples = Examples::default();
        let mut finds = |conditions: &[Term]| {
            let bounds = Bounds::under(conditions, &terms);
            bounds.is_some_and(|bounds| examples.find(conditions, &bounds, &terms))
        };
        assert!(finds(&[high, less]));
        assert!(!finds(&[high, less, more]));
    }
}
