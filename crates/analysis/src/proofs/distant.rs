//! Numbers that nothing makes larger but a step of one at a time, from 0: paths on which one of them has to be
//! very large are there, but no packet comes to them in our time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::access::{Access, Mode, Part};
use crate::expr::{Binary, Node, Sort, SymbolId, Term, Terms};
use crate::path::CallPath;
use crate::solver::Solver;

/// A number that is large: at a billion steps of one a second it takes 36 years.
const LARGE: u128 = 1 << 60;

/// What a number may be put to at once.
const SMALL: u128 = 1 << 32;

/// A part of a state object that grows by no more than one with each access that changes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stepped {
    /// The object.
    pub object: String,
    /// The part of its values.
    pub part: String,
}

impl fmt::Display for Stepped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.part.is_empty() { "" } else { "." };
        write!(f, "`{}`: `it{dot}{}` grows by one at a time", self.object, self.part)
    }
}

/// The parts of 64 bits that `all` paths, those of `init` and of any turn of a loop among them, change only so.
pub(crate) fn stepped(all: &[CallPath], terms: &Terms) -> Vec<Stepped> {
    let answers = all.iter().flat_map(|path| &path.accesses).flat_map(results);
    let answers = answers.filter(|(_, part)| symbol(part.term, terms).is_some());
    let of = |(access, part): (&Access, &Part)| Stepped {
        object: access.object.clone(),
        part: part.name.clone(),
    };
    let mut found: BTreeSet<Stepped> = answers.map(of).collect();
    found.retain(|one| all.iter().all(|path| keeps(one, path, terms)));
    found.into_iter().collect()
}

/// Numbers of the paths on which such a part has to be large.
pub(crate) fn distant(
    stepped: &[Stepped],
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<BTreeSet<usize>, String> {
    let mut found = BTreeSet::new();
    for path in paths {
        let of_stepped = path.accesses.iter().flat_map(results).filter(|(access, part)| {
            let is = |one: &Stepped| one.object == access.object && one.part == part.name;
            stepped.iter().any(is) && symbol(part.term, terms).is_some()
        });
        let numbers: BTreeSet<Term> = of_stepped.map(|(_, part)| part.term).collect();
        let ids: Vec<SymbolId> = numbers.iter().filter_map(|term| symbol(*term, terms)).collect();
        let is_about = |term: &Term| {
            let asked = terms.unknowns(*term);
            !terms.is_hard(*term) && asked.iter().any(|id| ids.contains(id))
        };
        let mut question: Vec<Term> = path.holds.iter().copied().filter(is_about).collect();
        if question.is_empty() {
            continue;
        }
        let whatever = question.clone();
        for number in numbers {
            let large = terms.constant(LARGE, 64);
            question.push(terms.binary(Binary::LessUnsigned, number, large));
        }
        // What no number brings about takes no years: it never comes.
        if solver.refutes(question, terms)? && !solver.refutes(whatever, terms)? {
            found.insert(path.number);
        }
    }
    Ok(found)
}

/// What an access of a vector, a map or a cell answered, of 64 bits.
fn results(access: &Access) -> impl Iterator<Item = (&Access, &Part)> {
    let is_state = matches!(access.kind, "Vector" | "Map" | "Cell");
    access.result.iter().filter(move |_| is_state).map(move |part| (access, part))
}

fn symbol(term: Term, terms: &Terms) -> Option<SymbolId> {
    match terms.node(term) {
        Node::Symbol(id) if terms.sort(term) == Sort::Bits(64) => Some(*id),
        _ => None,
    }
}

/// Whether what a path stores is no larger than the largest that there was, and one more for each access that
/// stores.
fn keeps(of: &Stepped, path: &CallPath, terms: &Terms) -> bool {
    // By how much what was answered may be larger than all that there was.
    let mut above: BTreeMap<SymbolId, u128> = BTreeMap::new();
    let mut steps = 0;
    path.accesses.iter().filter(|access| access.object == of.object).all(|access| {
        let answered = results(access).filter(|(_, part)| part.name == of.part);
        for id in answered.filter_map(|(_, part)| symbol(part.term, terms)) {
            above.entry(id).or_insert(steps);
        }
        if access.mode == Mode::Read || access.value.is_empty() {
            return true;
        }
        steps += 1;
        let stored = access.value.iter().find(|part| part.name == of.part);
        let rise = stored.and_then(|part| rise(part.term, &above, terms));
        rise.is_some_and(|rise| rise <= steps)
    })
}

/// By how much a number may be larger than all that there was, of what was answered; a small one by nothing.
fn rise(term: Term, above: &BTreeMap<SymbolId, u128>, terms: &Terms) -> Option<u128> {
    match terms.node(term) {
        Node::Constant { value, .. } if *value < SMALL => Some(0),
        Node::Symbol(id) => above.get(id).copied(),
        Node::Ite(_, a, b) => Some(rise(*a, above, terms)?.max(rise(*b, above, terms)?)),
        Node::Binary(Binary::Add, a, b) => {
            let (term, step) = match (terms.constant_of(*a), terms.constant_of(*b)) {
                (Some(step), None) => (*b, step),
                (None, Some(step)) => (*a, step),
                _ => return None,
            };
            let step = Some(step).filter(|step| *step < SMALL)?;
            Some(rise(term, above, terms)? + step)
        }
        _ => None,
    }
}
