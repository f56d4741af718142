//! Values under which conditions hold: packets for paths that none has taken.

use crate::example::Examples;
use crate::expr::{Node, SymbolId, Term, Terms};
use crate::solver::{Absence, Solver};

/// Questions that are put to the solver at most.
const QUESTIONS: u64 = 2_000;

/// Finds values for unknowns, by example first, then by the solver where the system has it.
#[derive(Default)]
pub struct Models {
    examples: Examples,
    solver: Option<Solver>,
}

impl Models {
    /// Values of the unknowns that `is_free`, near those of `start`, under which all `conditions` hold
    /// while the others keep theirs. `None`: none is found.
    pub fn find(
        &mut self,
        conditions: &[Term],
        terms: &Terms,
        start: &dyn Fn(SymbolId) -> u128,
        is_free: &dyn Fn(SymbolId) -> bool,
    ) -> Option<Vec<(SymbolId, u128)>> {
        let near = self.examples.near(conditions, terms, start, is_free);
        near.or_else(|| self.solved(conditions, terms, start, is_free))
    }

    fn solved(
        &mut self,
        conditions: &[Term],
        terms: &Terms,
        start: &dyn Fn(SymbolId) -> u128,
        is_free: &dyn Fn(SymbolId) -> bool,
    ) -> Option<Vec<(SymbolId, u128)>> {
        let solver = self.solver.get_or_insert_with(|| Solver::new(Absence::Allowed));
        if solver.calls >= QUESTIONS || conditions.iter().any(|one| terms.is_hard(*one)) {
            return None;
        }
        let (free, fixed): (Vec<_>, Vec<_>) =
            symbols(conditions, terms).into_iter().partition(|(id, _)| is_free(*id));
        let fixed: Vec<_> = fixed.into_iter().map(|(id, term)| (term, start(id))).collect();
        let wanted: Vec<Term> = free.iter().map(|(_, term)| *term).collect();
        let values = solver.model(conditions, &fixed, &wanted, terms)?;
        Some(free.into_iter().map(|(id, _)| id).zip(values).collect())
    }
}

/// The symbols of conditions with their terms, each once.
fn symbols(conditions: &[Term], terms: &Terms) -> Vec<(SymbolId, Term)> {
    let all = terms.within(conditions).into_iter();
    let symbols = all.filter_map(|term| match terms.node(term) {
        Node::Symbol(id) => Some((*id, term)),
        _ => None,
    });
    let mut found: Vec<_> = symbols.collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Binary, Kind, Sort};

    #[test]
    fn what_is_free_is_found_and_what_is_not_stays() {
        let mut terms = Terms::new();
        let [a, b] = ["a", "b"].map(|name| terms.symbol(name, Sort::Bits(16), Kind::Number));
        let [one, other] = [a, b].map(|term| match terms.node(term) {
            Node::Symbol(id) => *id,
            _ => panic!("a symbol"),
        });
        let sum = terms.binary(Binary::Add, a, b);
        let wanted = terms.constant(1_234, 16);
        let holds = terms.equal(sum, wanted);
        let start = |id: SymbolId| if id == other { 1_000 } else { 7 };
        let mut models = Models::default();
        let found = models.find(&[holds], &terms, &start, &|id| id == one);
        let found = found.map(|all| all.into_iter().find(|(id, _)| *id == one));
        if Solver::default().is_there() {
            assert_eq!(found, Some(Some((one, 234))));
        }
        assert_eq!(models.find(&[holds], &terms, &start, &|_| false), None, "nothing is free");
    }
}
