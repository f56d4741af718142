//! Objects whose entries are named by an allocator: whoever allocated an index owns what is stored
//! under it. An index that comes back in a packet field needs more: the interchangeable condition
//! of Pereira's thesis "Parallel NF Synthesis" (2021, section 3.3.2), or an allocator that gives out
//! only values which lead the reply home.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anabranch_analysis::expr::{Binary, Node, Term, Terms};
use anabranch_analysis::{Access, CallPath, Condition, Effect, Mode, Verdict};
use anabranch_rss::Which;

use crate::class::{Class, Classes, quoted_protocol};
use crate::constraint::{Constraint, Equation, of_classes};
use crate::filter::{Caller, caller};
use crate::left::keeps_old;
use crate::resolve::Keyed;
use crate::touch::{Context, Part, Touches, narrow};
use crate::word::{FieldId, Word};

/// The allocator that names the entries which `keys` touch, if one does.
pub(crate) fn owner(object: usize, keys: &[Keyed<'_>], touches: &Touches<'_>) -> Option<usize> {
    if touches.paths.objects[object].kind == "Allocator" {
        return Some(object);
    }
    keys.iter().find_map(|keyed| match keyed.parts[..] {
        [Part::Fresh(allocator)] => Some(allocator),
        _ => None,
    })
}

/// Whether a key names an entry that its owner, or nobody, may be another shard's. What `init` left names one that
/// every shard has, where `init` has taken it; what a packet takes there, others may want as well.
pub(crate) fn is_foreign(touches: &Touches<'_>, keyed: &Keyed<'_>, allocator: usize) -> bool {
    keyed.parts.iter().any(|part| match part {
        Part::Initial => {
            let path = touches.paths.paths.get(keyed.at.0);
            let access = path.and_then(|path| path.accesses.get(keyed.at.1));
            let takes = access.is_some_and(|access| access.operation == "allocate_at");
            takes || touches.paths.objects[allocator].written_by("init").is_none()
        }
        part => is_brought(part, allocator),
    })
}

/// Whether an index is none that this path was given, or `init` left.
fn is_brought(part: &Part, allocator: usize) -> bool {
    match part {
        Part::Fresh(own) => *own != allocator,
        Part::Initial => false,
        _ => true,
    }
}

/// What an equality of the interchangeable condition joins: a part of a stored value, and the
/// arriving packet's word.
type Joined = BTreeSet<((usize, String), Word)>;

/// A condition under which it makes no difference where an index is looked up.
#[derive(Debug, Clone)]
pub(crate) struct Interchangeable {
    pub(crate) constraints: Vec<Constraint>,
    /// Lines of the accesses it stands for.
    pub(crate) lines: BTreeSet<u32>,
}

/// The interchangeable condition of what `objects` hold: every path that looks an index up which it
/// has from a packet either does as if it had found nothing, or has found that what is stored
/// belongs to the arriving packet.
pub(crate) fn interchangeable(
    touches: &mut Touches<'_>,
    objects: &BTreeSet<usize>,
    foreign: &[Keyed<'_>],
    allocator: usize,
) -> Option<Interchangeable> {
    let of_packets = |part: &Part| matches!(part, Part::Word(_) | Part::Shifted { .. });
    if !foreign.iter().all(|keyed| keyed.context.is_some() && keyed.parts.iter().all(of_packets)) {
        return None;
    }
    let paths = touches.paths;
    let mut common: BTreeMap<Context, Joined> = BTreeMap::new();
    let mut sinks = BTreeSet::new();
    let (mut lines, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (number, path) in paths.paths.iter().enumerate() {
        let brought = brought(touches, path, objects, allocator);
        let Some(context) = touches.contexts[number].filter(|_| !brought.is_empty()) else {
            continue;
        };
        lines.extend(brought.values().flat_map(|found| &found.lines));
        seen.extend(brought.values().flat_map(|found| &found.at).map(|at| (number, *at)));
        if let Some(reason) = sink(path, touches) {
            sinks.insert(reason);
            continue;
        }
        // Of several indices that a packet brings, each is compared for itself.
        for found in brought.values() {
            let mut joined = joined(touches, path, &found.results);
            // What nobody has stored is zero elsewhere too, or left of whoever had the index before.
            joined.retain(|((object, _), _)| found.is_there || *object == allocator);
            common
                .entry(context)
                .and_modify(|known| *known = known.intersection(&joined).cloned().collect())
                .or_insert(joined);
        }
    }
    // By the access: one line may look up what this packet brings, and what another one has left.
    if !foreign.iter().all(|keyed| keyed.direct && seen.contains(&keyed.at)) {
        return None;
    }
    if sinks.len() > 1 || common.values().any(BTreeSet::is_empty) {
        return None;
    }
    let compared: BTreeSet<usize> =
        common.values().flatten().map(|((object, _), _)| *object).collect();
    if compared
        .into_iter()
        .any(|object| object != allocator && keeps_old(touches, object, allocator))
    {
        return None;
    }
    let mut constraints = Vec::new();
    for (context, joined) in &common {
        constraints.extend(constraints_of(touches, *context, joined)?);
    }
    Some(Interchangeable { constraints, lines })
}

/// Operations of an allocator that say whether an index is out: the others find what is over, too.
pub(crate) const ASKING: [&str; 4] = ["get", "touch", "refresh", "is_allocated"];

/// What a path finds under an index that its packet has brought.
#[derive(Default)]
struct Found {
    lines: BTreeSet<u32>,
    /// Positions of the accesses on the path.
    at: BTreeSet<usize>,
    results: BTreeSet<Term>,
    /// The allocator has given it out.
    is_there: bool,
}

/// By the indices that the packet of a path has brought.
fn brought(
    touches: &mut Touches<'_>,
    path: &CallPath,
    objects: &BTreeSet<usize>,
    allocator: usize,
) -> BTreeMap<Term, Found> {
    let mut brought: BTreeMap<Term, Found> = BTreeMap::new();
    let accesses = path.accesses.iter().enumerate();
    for (at, access) in accesses.filter(|_| caller(path) == Caller::Packet) {
        let object = touches.object(&access.object);
        let known = object.is_some_and(|object| objects.contains(&object));
        let ([index], true) = (&access.key[..], known) else { continue };
        let part = touches.part(index.term, &HashMap::new());
        if is_brought(&part, allocator) && !matches!(part, Part::Stored(_)) {
            let found = brought.entry(index.term).or_default();
            found.lines.insert(access.line);
            found.at.insert(at);
            found.results.extend(access.result.iter().map(|part| part.term));
            let asks = object == Some(allocator) && ASKING.contains(&&*access.operation);
            found.is_there |= asks && path.outcome(access, &touches.paths.terms) == Some(true);
        }
    }
    brought
}

/// The reason of a path that drops its packet and leaves no trace, and what it leaves the packet set to live.
fn sink<'p>(path: &'p CallPath, touches: &Touches<'_>) -> Option<(&'p str, Option<Term>)> {
    let writes = path.accesses.iter().any(|access| access.mode == Mode::Write);
    let Verdict::Drop(reason) = &path.verdict else { return None };
    let mut lifetime = None;
    for effect in &path.effects {
        match effect {
            // What is found must not say how long.
            Effect::SetExpiry { lifetime_ns, .. } if touches.is_rigid(*lifetime_ns) => {
                lifetime = Some(*lifetime_ns);
            }
            _ => return None,
        }
    }
    (!writes && path.rewrites.is_empty()).then_some((reason, lifetime))
}

/// Equalities that the path asks for between these `results` and its packet.
fn joined(touches: &mut Touches<'_>, path: &CallPath, results: &BTreeSet<Term>) -> Joined {
    let mut joined = Joined::new();
    for condition in &path.conditions {
        for (a, b) in equalities(condition.term, &touches.paths.terms) {
            let nothing = HashMap::new();
            if !results.contains(&a) && !results.contains(&b) {
                continue;
            }
            let parts = (touches.part(a, &nothing), touches.part(b, &nothing));
            let (Part::Stored(stored), Part::Word(word)) = (match parts {
                (word @ Part::Word(_), stored) => (stored, word),
                ordered => ordered,
            }) else {
                continue;
            };
            if word.iter().any(|sum| !sum.bits.is_empty()) {
                joined.insert(((stored.object, stored.part), word));
            }
        }
    }
    joined
}

/// The equalities that hold where `term` does.
fn equalities(term: Term, terms: &Terms) -> Vec<(Term, Term)> {
    let mut found = Vec::new();
    for (term, holds) in conjuncts(term, true, terms) {
        if let (Node::Binary(Binary::Equal, a, b), true) = (terms.node(term), holds) {
            found.push((*a, *b));
        }
    }
    found
}

/// The parts of a condition that hold by themselves, or do not.
pub(crate) fn conjuncts(term: Term, holds: bool, terms: &Terms) -> Vec<(Term, bool)> {
    match *terms.node(term) {
        Node::Not(inner) => conjuncts(inner, !holds, terms),
        Node::Binary(Binary::Both, a, b) if holds => {
            [conjuncts(a, true, terms), conjuncts(b, true, terms)].concat()
        }
        Node::Binary(Binary::Either, a, b) if !holds => {
            [conjuncts(a, false, terms), conjuncts(b, false, terms)].concat()
        }
        _ => vec![(term, holds)],
    }
}

/// The condition between whoever stored the parts and the arriving packet.
fn constraints_of(
    touches: &Touches<'_>,
    context: Context,
    joined: &Joined,
) -> Option<Vec<Constraint>> {
    let objects: BTreeSet<usize> = joined.iter().map(|((object, _), _)| *object).collect();
    let mut constraints = Vec::new();
    for object in objects {
        let of_object = joined.iter().filter(|((of, _), _)| *of == object);
        for write in &touches.writes[object] {
            let mut equations = BTreeSet::new();
            for ((_, part), word) in of_object.clone() {
                match write.parts.get(part) {
                    Some(Part::Word(stored)) => equations.extend(equal(stored, word)),
                    _ => return None,
                }
            }
            constraints.extend(between(write.context?, context, &equations, touches)?);
        }
    }
    Some(constraints)
}

fn equal(stored: &Word, word: &Word) -> Vec<Equation> {
    let pairs = stored.iter().zip(word.iter());
    let equation = |(a, b): (&crate::word::Sum, &crate::word::Sum)| Equation {
        terms: {
            let first = a.bits.iter().map(|bit| (Which::First, *bit));
            first.chain(b.bits.iter().map(|bit| (Which::Second, *bit))).collect()
        },
        constant: a.constant ^ b.constant,
    };
    pairs.map(equation).filter(|equation| !equation.terms.is_empty()).collect()
}

/// The constraint for all classes of two contexts that have the fields it speaks of; nothing where all packets of
/// flows would have to meet.
fn between(
    first: Context,
    second: Context,
    equations: &BTreeSet<Equation>,
    touches: &Touches<'_>,
) -> Option<Vec<Constraint>> {
    let mut constraints = Vec::new();
    for a in first.classes.iter() {
        for b in second.classes.iter() {
            let Some(equations) = of_classes(equations, [a, b], &touches.fields) else { continue };
            let says_nothing = equations.is_empty();
            let constraint = Constraint { sides: [(first.port, a), (second.port, b)], equations };
            let has = |which, class: Class| {
                let fields = constraint.fields(which);
                let mut headers = fields.iter().map(|field| touches.fields.header(*field));
                headers.all(|header| Classes::with(header).contains(class))
            };
            if has(Which::First, a) && has(Which::Second, b) {
                if says_nothing && (a.carries_flows() || b.carries_flows()) {
                    return None;
                }
                constraints.push(constraint);
            }
        }
    }
    Some(constraints)
}

/// How the packet field is had back from an index: `base + index % modulus`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decoded {
    /// What the index is taken modulo, in the author's words.
    pub(crate) modulus: String,
    /// What is added then; empty where nothing is.
    pub(crate) base: String,
    pub(crate) field: FieldId,
}

/// The packet field that the index of this access stands for. An index of the form
/// `row × modulus + (field − base)`, or without a row, where the path knows that `field − base < modulus`,
/// determines the field as long as it does not wrap.
pub(crate) fn decoded(
    touches: &mut Touches<'_>,
    keyed: &Keyed<'_>,
    class: Class,
) -> Option<Decoded> {
    let path = touches.paths.paths.get(keyed.at.0)?;
    let access = path.accesses.get(keyed.at.1)?;
    let index = access.key.first()?.term;
    let terms = &touches.paths.terms;
    let known = known(path, terms);
    let with_row = match *terms.node(index) {
        Node::Binary(Binary::Add, a, b) => {
            [(a, b), (b, a)].into_iter().find_map(|(row, column)| {
                let Node::Binary(Binary::Mul, x, y) = *terms.node(row) else { return None };
                let is_modulus = |modulus: &Term| bounds(column, &known, terms).contains(modulus);
                Some((column, [x, y].into_iter().find(is_modulus)?))
            })
        }
        _ => None,
    };
    let alone = || {
        let mut bounds = bounds(index, &known, terms).into_iter();
        bounds.find(|bound| touches.is_rigid(*bound)).map(|bound| (index, bound))
    };
    let (column, modulus) = with_row.or_else(alone)?;
    let is_same = |other: &Access| {
        other.object == access.object && other.key.first().is_some_and(|key| key.term == index)
    };
    // Where it was asked only after the access, another path has the same without.
    let mut others = touches.paths.paths.iter().filter(|path| path.accesses.iter().any(is_same));
    let is_bound = |path| bounds(column, &self::known(path, terms), terms).contains(&modulus);
    if !touches.is_rigid(modulus) || !others.all(is_bound) {
        return None;
    }
    let (field, base) = column_of(touches, column, class)?;
    Some(Decoded { modulus: touches.rigid_text(modulus), base, field })
}

/// What a choice by the protocol of a quoted packet comes to for a class.
fn chosen(term: Term, class: Class, terms: &Terms) -> Term {
    let Node::Ite(condition, yes, no) = *terms.node(term) else { return term };
    let Node::Binary(Binary::Equal, a, b) = *terms.node(condition) else { return term };
    match quoted_protocol(a, b, terms).and_then(|number| class.quotes(number)) {
        Some(true) => chosen(yes, class, terms),
        Some(false) => chosen(no, class, terms),
        None => term,
    }
}

/// What holds on a path, each condition for itself.
pub(crate) fn known(path: &CallPath, terms: &Terms) -> Vec<(Term, bool)> {
    let of = |condition: &Condition| conjuncts(condition.term, true, terms);
    path.conditions.iter().flat_map(of).collect()
}

/// What the path knows `column` to be less than.
fn bounds(column: Term, known: &[(Term, bool)], terms: &Terms) -> Vec<Term> {
    let bound = |(term, holds): &(Term, bool)| match (terms.node(*term), *holds) {
        (Node::Binary(Binary::LessUnsigned, a, b), true) if *a == column => Some(*b),
        (Node::Binary(Binary::LessEqualUnsigned, a, b), false) if *b == column => Some(*a),
        _ => None,
    };
    known.iter().filter_map(bound).collect()
}

/// `field − base`, widened before or after.
fn column_of(touches: &mut Touches<'_>, column: Term, class: Class) -> Option<(FieldId, String)> {
    let terms = &touches.paths.terms;
    let column = narrow(column, terms);
    let (field, base) = match *terms.node(column) {
        Node::Binary(Binary::Sub, field, base) if touches.is_rigid(base) => {
            (field, touches.rigid_text(base))
        }
        // What is taken off is kept as what is added to wrap.
        Node::Binary(Binary::Add, field, added) => {
            let least = terms.constant_of(added)?.wrapping_neg();
            (field, (least & u128::MAX >> (128 - terms.width(added))).to_string())
        }
        _ => (column, String::new()),
    };
    let field = chosen(narrow(field, terms), class, terms);
    let Node::Symbol(id) = *terms.node(field) else { return None };
    let id = touches.fields.of_symbol(touches.paths.terms.symbol_of(id))?;
    Some((id, base))
}
