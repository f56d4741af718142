//! Conditions evaluated on concrete values, over and over: how the search for an example packet
//! tries its guesses.

use crate::hash::{FastMap, FastSet};

use super::{Binary, Node, SymbolId, Term, Terms, fold, mask, operands};

/// The unknown function that gives the bytes of the payload.
pub(crate) const PAYLOAD: &str = "payload[]";

/// One step of an evaluation; operands are positions of earlier steps.
#[derive(Debug)]
enum Gate {
    Known(u128),
    Unknown(usize),
    Not(usize),
    Binary {
        operator: Binary,
        a: usize,
        b: usize,
        width: u8,
    },
    Ite(usize, usize, usize),
    Concat {
        high: usize,
        low: usize,
        split: u8,
    },
    Extract {
        of: usize,
        low: u8,
        width: u8,
    },
    Extend {
        of: usize,
        signed: bool,
        from: u8,
        width: u8,
    },
    Apply {
        function: SymbolId,
        arguments: Vec<usize>,
        width: u8,
    },
    /// A byte of the payload, by its offset.
    Byte(usize),
}

/// What is given a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unknown {
    pub(crate) term: Term,
    /// The symbol that the term is, or the function of which it is a value.
    pub(crate) id: SymbolId,
    pub(crate) width: u8,
}

/// Conditions laid out for evaluation.
#[derive(Debug)]
pub(crate) struct Circuit {
    gates: Vec<Gate>,
    values: Vec<u128>,
    positions: FastMap<Term, usize>,
    roots: Vec<usize>,
    /// The unknowns, and the value each has now.
    pub(crate) unknowns: Vec<Unknown>,
    pub(crate) guess: Vec<u128>,
    /// The payload's bytes where they are known; else any function of the offset will do.
    pub(crate) payload: Vec<u8>,
    /// Functions whose values are given one by one.
    listed: FastSet<SymbolId>,
    /// Constants that stand in the conditions: likely to matter.
    pub(crate) constants: Vec<u128>,
}

impl Circuit {
    pub(crate) fn new(conditions: &[Term], terms: &Terms) -> Self {
        Self::listing(FastSet::default(), conditions, terms)
    }

    /// The same with functions of known arguments alone, as of the elements of a list, as unknowns: any value of one is
    /// as good as any of another.
    pub(crate) fn of_any_function(conditions: &[Term], terms: &Terms) -> Self {
        let (mut listed, mut others) = (FastSet::default(), FastSet::default());
        for term in terms.within(conditions) {
            if let Node::Apply(function, arguments) = terms.node(term) {
                let known = arguments.iter().all(|one| terms.constant_of(*one).is_some());
                if known {
                    listed.insert(*function)
                } else {
                    others.insert(*function)
                };
            }
        }
        listed.retain(|function| {
            !others.contains(function) && terms.symbol_of(*function).name != PAYLOAD
        });
        Self::listing(listed, conditions, terms)
    }

    fn listing(listed: FastSet<SymbolId>, conditions: &[Term], terms: &Terms) -> Self {
        let mut circuit = Self {
            listed,
            gates: Vec::new(),
            values: Vec::new(),
            positions: FastMap::default(),
            roots: Vec::new(),
            unknowns: Vec::new(),
            guess: Vec::new(),
            payload: Vec::new(),
            constants: Vec::new(),
        };
        for condition in conditions {
            let root = circuit.add(*condition, terms);
            circuit.roots.push(root);
        }
        circuit.values = vec![0; circuit.gates.len()];
        circuit
    }

    /// How many conditions there are.
    pub(crate) fn roots(&self) -> usize {
        self.roots.len()
    }

    /// What the last evaluation made of a condition, or of another term laid out with them.
    pub(crate) fn root(&self, position: usize) -> u128 {
        self.values[self.roots[position]]
    }

    /// Steps of one evaluation.
    pub(crate) fn size(&self) -> usize {
        self.gates.len()
    }

    fn add(&mut self, term: Term, terms: &Terms) -> usize {
        if let Some(position) = self.positions.get(&term) {
            return *position;
        }
        let parts: Vec<usize> =
            operands(terms.node(term)).into_iter().map(|part| self.add(part, terms)).collect();
        let gate = self.gate(term, &parts, terms);
        self.gates.push(gate);
        self.positions.insert(term, self.gates.len() - 1);
        self.gates.len() - 1
    }

    fn gate(&mut self, term: Term, parts: &[usize], terms: &Terms) -> Gate {
        let width = terms.width(term);
        match (terms.node(term), parts) {
            (Node::Bool(value), _) => Gate::Known(u128::from(*value)),
            (Node::Constant { value, .. }, _) => {
                self.constants.push(*value);
                Gate::Known(*value)
            }
            (Node::Not(_), [a]) => Gate::Not(*a),
            (Node::Binary(operator, left, _), [a, b]) => {
                Gate::Binary { operator: *operator, a: *a, b: *b, width: terms.width(*left) }
            }
            (Node::Ite(..), [c, a, b]) => Gate::Ite(*c, *a, *b),
            (Node::Concat(_, right), [high, low]) => {
                Gate::Concat { high: *high, low: *low, split: terms.width(*right) }
            }
            (Node::Extract { low, .. }, [of]) => Gate::Extract { of: *of, low: *low, width },
            (Node::Extend { signed, of: inner, .. }, [of]) => {
                Gate::Extend { of: *of, signed: *signed, from: terms.width(*inner), width }
            }
            (Node::Apply(function, _), _) if self.listed.contains(function) => {
                self.unknown(term, *function, width)
            }
            (Node::Apply(function, _), [at]) if terms.symbol_of(*function).name == PAYLOAD => {
                Gate::Byte(*at)
            }
            (Node::Apply(function, _), _) => {
                Gate::Apply { function: *function, arguments: parts.to_vec(), width }
            }
            (Node::Symbol(id), _) => self.unknown(term, *id, width),
            _ => Gate::Known(0),
        }
    }

    fn unknown(&mut self, term: Term, id: SymbolId, width: u8) -> Gate {
        self.unknowns.push(Unknown { term, id, width });
        self.guess.push(0);
        Gate::Unknown(self.unknowns.len() - 1)
    }

    /// Evaluates the guess; `unmet` are the positions of the conditions it does not meet then.
    pub(crate) fn evaluate(&mut self, unmet: &mut Vec<usize>) {
        for position in 0..self.gates.len() {
            self.values[position] = self.value(&self.gates[position]);
        }
        let roots = self.roots.iter().enumerate();
        unmet.clear();
        unmet.extend(roots.filter(|(_, root)| self.values[**root] == 0).map(|(place, _)| place));
    }

    fn value(&self, gate: &Gate) -> u128 {
        let at = |position: &usize| self.values[*position];
        match gate {
            Gate::Known(value) => *value,
            Gate::Unknown(place) => self.guess[*place],
            Gate::Not(a) => 1 - at(a),
            Gate::Binary { operator, a, b, width } => fold::bits(*operator, at(a), at(b), *width),
            Gate::Ite(c, a, b) => {
                if at(c) == 1 {
                    at(a)
                } else {
                    at(b)
                }
            }
            Gate::Concat { high, low, split } => at(high) << split | at(low),
            Gate::Extract { of, low, width } => at(of) >> low & mask(*width),
            Gate::Extend { of, signed: true, from, width } => {
                fold::signed(at(of), *from) as u128 & mask(*width)
            }
            Gate::Extend { of, .. } => at(of),
            Gate::Byte(offset) => {
                let offset = at(offset);
                let known = usize::try_from(offset).ok().and_then(|at| self.payload.get(at));
                known.map_or(mixed(offset) & 0xff, |byte| u128::from(*byte))
            }
            Gate::Apply { function, arguments, width } => {
                let start = u128::from(function.0) + 1;
                mixed(arguments.iter().map(at).fold(start, |hash, part| mixed(hash ^ part)))
                    & mask(*width)
            }
        }
    }
}

/// Some function of its argument: any will do for an unknown function.
fn mixed(value: u128) -> u128 {
    let value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    value ^ value >> 61
}
