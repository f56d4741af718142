//! Counts that only limit how much state is opened: half-open connections, sessions of a host.
//! Kept by each shard for itself they are a capacity like any other, which each shard has too.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use anabranch_analysis::expr::{Node, SymbolId, Term, Terms};
use anabranch_analysis::{Access, CallPath, Effect, Mode, Paths, Verdict};

use crate::filter::same_key;
use crate::touch::without_reads;

/// Whether an object is a count of this kind: what is read from it goes nowhere but into itself and
/// into conditions; where it decides, the packet is dropped, leaving nothing, or an entry of a sharded
/// object opened or closed; and it changes only together with one.
pub(crate) fn is_limit(name: &str, sharded: &BTreeSet<String>, paths: &Paths) -> bool {
    let unknowns = results(name, paths);
    if unknowns.is_empty() {
        return false;
    }
    let mut reads =
        Reads { unknowns, terms: &paths.terms, known: HashMap::new(), texts: HashMap::new() };
    is_count(name, paths, &mut reads)
        && paths.paths.iter().all(|path| keeps_to_itself(name, sharded, path, &mut reads))
        && only_refuses(name, paths, &mut reads)
}

/// Whether an object counts: what is stored is what was read there, changed, or a constant to begin
/// with; and some of it is the former.
fn is_count(name: &str, paths: &Paths, reads: &mut Reads<'_>) -> bool {
    let own = paths.accesses().filter(|(_, access)| access.object == name);
    let mut counts = false;
    for part in own.flat_map(|(_, access)| &access.value) {
        let changed = reads.has(part.term);
        if !changed && paths.terms.constant_of(part.term).is_none() {
            return false;
        }
        counts |= changed;
    }
    counts
}

struct Reads<'t> {
    unknowns: BTreeSet<SymbolId>,
    terms: &'t Terms,
    known: HashMap<Term, bool>,
    texts: HashMap<Term, Rc<str>>,
}

impl Reads<'_> {
    fn has(&mut self, term: Term) -> bool {
        let (unknowns, terms) = (&self.unknowns, self.terms);
        let depends = || terms.unknowns(term).iter().any(|id| unknowns.contains(id));
        *self.known.entry(term).or_insert_with(depends)
    }

    /// A term in words that do not depend on what else the path reads.
    fn text(&mut self, term: Term, paths: &Paths) -> Rc<str> {
        let text = || without_reads(&self.terms.print(term, &paths.words)).into();
        Rc::clone(self.texts.entry(term).or_insert_with(text))
    }
}

/// The unknowns that reading an object makes.
fn results(name: &str, paths: &Paths) -> BTreeSet<SymbolId> {
    let own = paths.accesses().filter(|(_, access)| access.object == name);
    let terms = own.flat_map(|(_, access)| {
        let parts = access.result.iter().chain(&access.value);
        parts.map(|part| part.term).chain(access.outcome)
    });
    let prefix = format!("{name}.");
    let ids = terms.flat_map(|term| paths.terms.unknowns(term).iter().copied());
    ids.filter(|id| paths.terms.symbol_of(*id).name.starts_with(&prefix)).collect()
}

fn keeps_to_itself(
    name: &str,
    sharded: &BTreeSet<String>,
    path: &CallPath,
    reads: &mut Reads<'_>,
) -> bool {
    // What the turns of a loop that are not listed have made of it, and whether they left, is not seen.
    let in_loop = path.accesses.iter().take(path.before_loops).any(|one| one.object == name);
    let escapes = path.rewrites.iter().any(|made| reads.has(made.term))
        || path
            .effects
            .iter()
            .any(|effect| effect_terms(effect).into_iter().any(|term| reads.has(term)))
        || path.accesses.iter().any(|access| leaves_through(name, access, reads));
    let verdict = match path.verdict {
        Verdict::Forward(port) | Verdict::Recirculate(port) => reads.has(port),
        _ => false,
    };
    if in_loop || escapes || verdict {
        return false;
    }
    let of_sharded = |access: &&Access| sharded.contains(&access.object) && access.object != name;
    let decides = path.conditions.iter().any(|made| reads.has(made.term));
    let mut of_others = path.accesses.iter().filter(of_sharded);
    // Who is refused leaves nothing that is found later; who is not has opened or closed something.
    let is_limited = match path.verdict {
        Verdict::Drop(_) => !of_others.any(|one| stays(path, one, reads.terms)),
        _ => of_others.any(|one| opens_or_closes(path, one, reads.terms)),
    };
    let own_write = |access: &Access| access.object == name && access.mode == Mode::Write;
    let changes = path.accesses.iter().any(own_write);
    let with_another = path.accesses.iter().filter(of_sharded).any(|one| one.mode == Mode::Write);
    (!decides || is_limited) && (!changes || with_another)
}

/// Whether a path drops its packet, and what it does beside a count: accesses to other objects, effects, rewrites.
type Deeds = (bool, Vec<Rc<str>>);

/// Whether it makes no difference what the count is, but for packets that are dropped where it is one way: of those
/// that are not, the same becomes both ways.
fn only_refuses(name: &str, paths: &Paths, reads: &mut Reads<'_>) -> bool {
    // By what was the same until the count was asked, and what was asked: what comes after where it is so, and not.
    type Asked<'p> = (&'p str, Option<usize>, Option<&'p str>, Vec<Term>, Term);
    let mut ways: HashMap<Asked<'_>, [BTreeSet<Deeds>; 2]> = HashMap::new();
    for path in &paths.paths {
        let asked = path.conditions.iter().enumerate();
        for (at, made) in asked.filter(|(_, made)| reads.has(made.term)).collect::<Vec<_>>() {
            let (term, holds) = match paths.terms.node(made.term) {
                Node::Not(inner) => (*inner, false),
                _ => (made.term, true),
            };
            let before = path.conditions[..at].iter().map(|one| one.term).collect();
            let class = path.class.as_deref();
            let ways = ways.entry((&path.handler, path.port, class, before, term)).or_default();
            ways[usize::from(holds)].insert(deeds(name, path, paths, reads));
        }
    }
    let passed = |way: &BTreeSet<Deeds>| -> BTreeSet<Deeds> {
        way.iter().filter(|(drops, _)| !drops).cloned().collect()
    };
    ways.values().all(|[no, yes]| match (passed(no), passed(yes)) {
        (one, other) if one.is_empty() && other.is_empty() => {
            no == yes || no.is_empty() || yes.is_empty()
        }
        (one, other) => one == other || one.is_empty() || other.is_empty(),
    })
}

/// What `path` does, whatever reads are called.
fn deeds(name: &str, path: &CallPath, paths: &Paths, reads: &mut Reads<'_>) -> Deeds {
    let mut all: Vec<Rc<str>> = Vec::new();
    for access in path.accesses.iter().filter(|access| access.object != name) {
        all.push(format!("{}.{}", access.object, access.operation).into());
        let parts = access.key.iter().chain(&access.value).map(|part| part.term);
        all.extend(parts.chain(access.lifetime).map(|term| reads.text(term, paths)));
    }
    for effect in &path.effects {
        let terms = effect_terms(effect).into_iter();
        all.extend(terms.map(|term| reads.text(term, paths)));
    }
    for rewrite in &path.rewrites {
        all.push(format!("{}.{}", rewrite.header, rewrite.field).into());
        all.push(reads.text(rewrite.term, paths));
    }
    all.push(match &path.verdict {
        Verdict::Forward(port) => format!("forward {}", reads.text(*port, paths)).into(),
        Verdict::Recirculate(port) => format!("again {}", reads.text(*port, paths)).into(),
        other => format!("{other:?}").into(),
    });
    (matches!(path.verdict, Verdict::Drop(_)), all)
}

fn leaves_through(name: &str, access: &Access, reads: &mut Reads<'_>) -> bool {
    let in_key = access.key.iter().any(|part| reads.has(part.term));
    let in_value = access.object != name && access.value.iter().any(|part| reads.has(part.term));
    in_key || in_value
}

/// Whether there are more entries after an access, or fewer. What is put in a place that may be taken is neither.
fn opens_or_closes(path: &CallPath, access: &Access, terms: &Terms) -> bool {
    let operation = access.operation.as_str();
    match operation {
        "insert" => access.kind == "PacketSet" || was_absent(path, access, terms),
        "remove" | "free" | "expire" => true,
        _ => operation.starts_with("allocate"),
    }
}

/// Whether the path has looked for an entry, and found none, before it made it.
fn was_absent(path: &CallPath, insert: &Access, terms: &Terms) -> bool {
    let before = path.accesses.iter().filter(|one| one.number < insert.number);
    let same = before.filter(|one| one.object == insert.object && one.mode == Mode::Read);
    same.filter(|one| same_key(one, insert)).any(|one| path.outcome(one, terms) == Some(false))
}

/// Whether an entry of a map, or an index that was taken, is new, and there after the path.
fn stays(path: &CallPath, access: &Access, terms: &Terms) -> bool {
    let is_new = match access.operation.as_str() {
        "insert" => was_absent(path, access, terms),
        operation => operation.starts_with("allocate"),
    };
    let mut after = path.accesses.iter().filter(|one| one.number > access.number);
    let goes =
        |one: &Access| one.object == access.object && ["remove", "free"].contains(&&*one.operation);
    is_new && path.outcome(access, terms) != Some(false) && !after.any(goes)
}

fn effect_terms(effect: &Effect) -> Vec<Term> {
    match effect {
        Effect::Emit { port, len, bytes, .. } => [&[*port, *len], &bytes[..]].concat(),
        Effect::SetExpiry { lifetime_ns, .. } => vec![*lifetime_ns],
        Effect::SetTimer { delay_ns, token, .. } => vec![*delay_ns, *token],
    }
}
