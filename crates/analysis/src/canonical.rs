//! Questions that are the same but for what their unknowns are called: of what is to be proved, one path asks what
//! another has asked, of the third access where that asked of the fifth.
//!
//! ```text
//! a#3 < 5 ∧ a#3 = b#1 ∧ f(b#1)     b#2 = a#7 ∧ f(b#2) ∧ a#7 < 5     the same: u0 < 5 ∧ u1 = u0 ∧ f0(u1)
//! ```
//!
//! Unknowns are told apart by where they stand, as colours of the nodes of a graph are refined (Weisfeiler and
//! Leman, 1968), and numbered in that order. What is written then names all there is, so that equal writings are
//! equal questions; two that cannot be told apart may be written in either order, and are asked twice then.

use std::hash::{Hash, Hasher};

use crate::expr::{Node, Sort, SymbolId, Term, Terms, operands};
use crate::hash::{FastMap, Mix};

/// How often colours are refined: from a symbol to what it stands in, and down to others there.
const ROUNDS: usize = 2;

/// The conditions, in an order and with numbers for unknowns that do not depend on what those are called.
pub(crate) fn canonical(conditions: &[Term], terms: &Terms) -> Vec<u64> {
    let mut graph = Graph::of(conditions, terms);
    let mut roots: Vec<usize> = conditions.iter().map(|one| graph.places[one]).collect();
    graph.refine(&roots);
    roots.sort_by_key(|root| graph.colour(*root));
    let (parts, symbols) = (FastMap::default(), FastMap::default());
    let mut written = Written { graph: &graph, words: Vec::new(), parts, symbols };
    let roots: Vec<u64> = roots.into_iter().map(|root| written.part(root)).collect();
    let count = roots.len() as u64;
    written.words.extend(roots);
    // From here backwards it can be read in one way only.
    written.words.push(count);
    written.words
}

/// A term among those of a question.
struct Part {
    /// What it is, its unknown and operands left out.
    is: Vec<u64>,
    symbol: Option<SymbolId>,
    /// Places of its operands.
    operands: Vec<usize>,
    commutes: bool,
    /// What is below it.
    below: u64,
    /// Where it stands.
    above: u64,
}

struct Graph {
    /// Each after its operands.
    parts: Vec<Part>,
    places: FastMap<Term, usize>,
    colours: FastMap<SymbolId, u64>,
}

fn mixed(all: impl Hash) -> u64 {
    let mut mix = Mix::default();
    all.hash(&mut mix);
    mix.finish()
}

impl Graph {
    fn of(conditions: &[Term], terms: &Terms) -> Self {
        let all = terms.within(conditions);
        let places: FastMap<Term, usize> =
            all.iter().enumerate().map(|(place, term)| (*term, place)).collect();
        let part = |term: &Term| {
            let node = terms.node(*term);
            let symbol = match node {
                Node::Symbol(id) | Node::Apply(id, _) => Some(*id),
                _ => None,
            };
            Part {
                is: what(node, terms.sort(*term)),
                symbol,
                operands: operands(node).iter().map(|one| places[one]).collect(),
                commutes: matches!(node, Node::Binary(operator, ..) if operator.commutes()),
                below: 0,
                above: 0,
            }
        };
        let parts = all.iter().map(part).collect();
        Self { parts, places, colours: FastMap::default() }
    }

    /// Colours parts by what is below and above them.
    fn refine(&mut self, roots: &[usize]) {
        for _ in 0..ROUNDS {
            for at in 0..self.parts.len() {
                self.parts[at].below = self.below(at);
                self.parts[at].above = 0;
            }
            roots.iter().for_each(|root| self.parts[*root].above = 1);
            for at in (0..self.parts.len()).rev() {
                for place in 0..self.parts[at].operands.len() {
                    let Part { below, above, commutes, ref operands, .. } = self.parts[at];
                    let seen = mixed((below, above, if commutes { 0 } else { place }));
                    let operand = operands[place];
                    let operand = &mut self.parts[operand];
                    operand.above = operand.above.wrapping_add(seen);
                }
            }
            for Part { symbol, below, above, .. } in &self.parts {
                if let Some(symbol) = symbol {
                    let colour = self.colours.entry(*symbol).or_default();
                    *colour = colour.wrapping_add(mixed((below, above)));
                }
            }
        }
    }

    fn below(&self, at: usize) -> u64 {
        let part = &self.parts[at];
        let mut operands: Vec<u64> =
            part.operands.iter().map(|one| self.parts[*one].below).collect();
        if part.commutes {
            operands.sort_unstable();
        }
        let colour = part.symbol.map(|symbol| self.colours.get(&symbol));
        mixed((&part.is, colour, operands))
    }

    fn colour(&self, at: usize) -> (u64, u64) {
        (self.parts[at].below, self.parts[at].above)
    }
}

struct Written<'g> {
    graph: &'g Graph,
    words: Vec<u64>,
    parts: FastMap<usize, u64>,
    symbols: FastMap<SymbolId, u64>,
}

impl Written<'_> {
    /// Writes a part after its operands; its number.
    fn part(&mut self, at: usize) -> u64 {
        if let Some(number) = self.parts.get(&at) {
            return *number;
        }
        let part = &self.graph.parts[at];
        let mut operands = part.operands.clone();
        if part.commutes {
            operands.sort_by_key(|one| self.graph.colour(*one));
        }
        let operands: Vec<u64> = operands.into_iter().map(|one| self.part(one)).collect();
        self.words.extend(&part.is);
        if let Some(symbol) = part.symbol {
            let next = self.symbols.len() as u64;
            self.words.push(*self.symbols.entry(symbol).or_insert(next));
        }
        self.words.push(operands.len() as u64);
        self.words.extend(operands);
        let number = self.parts.len() as u64;
        self.parts.insert(at, number);
        number
    }
}

/// What a term is, its unknown and its operands left out.
fn what(node: &Node, sort: Sort) -> Vec<u64> {
    let width = match sort {
        Sort::Bool => 0,
        Sort::Bits(width) => u64::from(width),
    };
    match *node {
        Node::Bool(value) => vec![0, u64::from(value)],
        Node::Constant { value, .. } => vec![1, width, value as u64, (value >> 64) as u64],
        Node::Symbol(_) => vec![2, width],
        Node::Not(_) => vec![3],
        Node::Binary(operator, ..) => vec![4, operator as u64],
        Node::Ite(..) => vec![5],
        Node::Concat(..) => vec![6],
        Node::Extract { high, low, .. } => vec![7, u64::from(high), u64::from(low)],
        Node::Extend { signed, .. } => vec![8, u64::from(signed), width],
        Node::Apply(..) => vec![9, width],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn::{Draw, NAMES, examples};
    use crate::expr::circuit::Circuit;
    use crate::expr::{Binary, Kind};
    use std::collections::HashMap;

    /// `a < 5`, `a = b`, `f(c)`, in this order or the other way round.
    fn question(names: [&str; 2], of_first: bool, turned: bool) -> Vec<u64> {
        let mut terms = Terms::new();
        let mut symbol = |at: usize| terms.symbol(names[at], Sort::Bits(8), Kind::Number);
        let (a, b) = if turned {
            let b = symbol(1);
            (symbol(0), b)
        } else {
            (symbol(0), symbol(1))
        };
        let five = terms.constant(5, 8);
        let below = terms.binary(Binary::LessUnsigned, a, five);
        let same = terms.equal(a, b);
        let asked = [if of_first { a } else { b }];
        let applied = terms.apply("f", Sort::Bool, Kind::Number, &asked);
        let mut all = [below, same, applied];
        if turned {
            all.reverse();
        }
        canonical(&all, &terms)
    }

    #[test]
    fn names_and_order_do_not_matter_and_what_is_asked_does() {
        let one = question(["a#3", "b#1"], false, false);
        assert_eq!(one, question(["b#2", "a#7"], false, true));
        assert_ne!(one, question(["a#3", "b#1"], true, false));
    }

    /// With other names and the other way round it is the same question; and the same questions have equally many
    /// examples.
    #[test]
    fn the_same_questions_have_as_many_examples() {
        const QUESTIONS: u64 = 20_000;
        let mut known: HashMap<Vec<u64>, usize> = HashMap::new();
        let (mut same, mut again) = (0, 0);
        for seed in 0..QUESTIONS {
            let mut terms = Terms::new();
            let conditions = Draw::new(seed, NAMES).conditions(&mut terms);
            let mut circuit = Circuit::new(&conditions, &terms);
            let free = 8usize.pow(3 - circuit.unknowns.len() as u32);
            let count = examples(&mut circuit).len() / free;
            let one = canonical(&conditions, &terms);
            let mut terms = Terms::new();
            let mut conditions = Draw::new(seed, ["z", "x", "y"]).conditions(&mut terms);
            conditions.reverse();
            same += u64::from(one == canonical(&conditions, &terms));
            again += u64::from(known.contains_key(&one));
            let seen = *known.entry(one).or_insert(count);
            assert_eq!(seen, count, "seed {seed}");
        }
        assert!(same > QUESTIONS * 99 / 100 && again > 500, "{same} the same, {again} again");
    }
}
