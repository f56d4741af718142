//! Counts that only limit how much state is opened: half-open connections, sessions of a host.
//! Kept by each shard for itself they are a capacity like any other, which each shard has too.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use anabranch_analysis::expr::{Node, SymbolId, Term, Terms};
use anabranch_analysis::{Access, CallPath, Effect, Mode, Paths, Verdict};

use crate::filter::same_key;
use crate::owned::ASKING;
use crate::touch::without_reads;

/// What stands beside a count, by name.
pub(crate) struct Beside {
    pub(crate) sharded: BTreeSet<String>,
    /// All that packets find what other packets have left in, sharded or not.
    kept: BTreeSet<String>,
    /// Those of `kept` that only count.
    counts: BTreeSet<String>,
}

impl Beside {
    pub(crate) fn new(
        sharded: BTreeSet<String>,
        refused: BTreeSet<String>,
        counts: &Counts<'_>,
    ) -> Self {
        let kept: BTreeSet<String> = sharded.union(&refused).cloned().collect();
        let counts = kept.iter().filter(|name| counts.of(name, |count| count.counts));
        Self { counts: counts.cloned().collect(), sharded, kept }
    }
}

/// What is so of objects that count, whatever stands beside them: found once, when it is asked for.
pub(crate) struct Counts<'p> {
    paths: &'p Paths,
    known: RefCell<HashMap<String, Count<'p>>>,
}

struct Count<'p> {
    reads: Reads<'p>,
    counts: bool,
    only_refuses: Option<bool>,
}

impl<'p> Counts<'p> {
    pub(crate) fn new(paths: &'p Paths) -> Self {
        Self { paths, known: RefCell::default() }
    }

    fn of<T>(&self, name: &str, ask: impl FnOnce(&mut Count<'p>) -> T) -> T {
        let mut known = self.known.borrow_mut();
        if let Some(count) = known.get_mut(name) {
            return ask(count);
        }
        let mut reads = Reads::of(name, self.paths);
        let counts = is_count(name, self.paths, &mut reads);
        let count = Count { reads, counts, only_refuses: None };
        ask(known.entry(name.to_owned()).or_insert(count))
    }

    /// Whether an object is a count of this kind: what is read from it goes nowhere but into itself and
    /// into conditions; where it decides, the packet is dropped, leaving nothing, or an entry of a sharded
    /// object opened or closed; and it changes only together with one.
    pub(crate) fn is_limit(&self, name: &str, beside: &Beside) -> bool {
        let paths = self.paths;
        self.of(name, |count| {
            let reads = &mut count.reads;
            beside.counts.contains(name)
                && !reads.unknowns.is_empty()
                && paths.paths.iter().all(|path| keeps_to_itself(name, beside, path, reads))
                && *count.only_refuses.get_or_insert_with(|| only_refuses(name, paths, reads))
        })
    }
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

impl<'t> Reads<'t> {
    fn of(name: &str, paths: &'t Paths) -> Self {
        let unknowns = results(name, paths);
        Self { unknowns, terms: &paths.terms, known: HashMap::new(), texts: HashMap::new() }
    }

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

fn keeps_to_itself(name: &str, beside: &Beside, path: &CallPath, reads: &mut Reads<'_>) -> bool {
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
    let of_sharded =
        |access: &&Access| beside.sharded.contains(&access.object) && access.object != name;
    let decides = path.conditions.iter().any(|made| reads.has(made.term));
    let mut of_others = path.accesses.iter().filter(of_sharded);
    // Who is refused leaves nothing that is found later; who is not has opened or closed something.
    let is_limited = match path.verdict {
        Verdict::Drop(_) => !decides || leaves_nothing(name, beside, path, reads.terms),
        _ => of_others.any(|one| opens_or_closes(path, one, reads.terms)),
    };
    let own_write = |access: &Access| access.object == name && access.mode == Mode::Write;
    let changes = path.accesses.iter().any(own_write);
    // An entry that only lives longer is as it was.
    let is_change = |one: &Access| {
        let renews = ["touch", "refresh"].contains(&&*one.operation);
        one.mode == Mode::Write && !renews && path.outcome(one, reads.terms) != Some(false)
    };
    let with_another = path.accesses.iter().filter(of_sharded).any(is_change);
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

/// Whether there are more entries after an access, or fewer. What is put in a place that may be taken is neither, nor
/// what is taken out where there may be nothing, what finds no place, and what the path makes and takes out again.
fn opens_or_closes(path: &CallPath, access: &Access, terms: &Terms) -> bool {
    let outcome = path.outcome(access, terms);
    let others = path.accesses.iter().filter(|one| one.number != access.number);
    let mut same =
        others.filter(|one| is_same_entry(one, access) && path.outcome(one, terms) != Some(false));
    match access.operation.as_str() {
        "insert" if access.kind == "PacketSet" => true,
        "expire" => true,
        "remove" | "free" => {
            let was_there = outcome == Some(true) || had_found(path, access, true, terms);
            was_there && !same.any(is_making)
        }
        operation => {
            let is_new = operation != "insert" || was_absent(path, access, terms);
            is_making(access) && is_new && outcome != Some(false) && !same.any(is_closing)
        }
    }
}

/// Whether the path has looked for an entry, and found none, before it made it.
fn was_absent(path: &CallPath, insert: &Access, terms: &Terms) -> bool {
    had_found(path, insert, false, terms)
}

/// Whether the path has looked for an entry before an access to it, and whether it was there.
fn had_found(path: &CallPath, access: &Access, found: bool, terms: &Terms) -> bool {
    let before = path.accesses.iter().filter(|one| one.number < access.number);
    let asks = |one: &&Access| one.mode == Mode::Read || ASKING.contains(&&*one.operation);
    let same = before.filter(|one| one.object == access.object && asks(one));
    same.filter(|one| same_key(one, access)).any(|one| path.outcome(one, terms) == Some(found))
}

/// Whether all is as before once the packet is dropped, but for what it had closed before the count was asked: what it
/// makes it takes back, and counts follow what was closed.
fn leaves_nothing(name: &str, beside: &Beside, path: &CallPath, terms: &Terms) -> bool {
    let lasting =
        |effect: &Effect| matches!(effect, Effect::SetExpiry { .. } | Effect::SetTimer { .. });
    let own = || path.accesses.iter().filter(|one| one.object == name);
    let Some(first) = own().map(|one| one.number).min() else { return true };
    let reads = own().filter(|one| one.mode == Mode::Read).map(|one| one.number);
    let asked = reads.min().unwrap_or(first);
    let is_change = |one: &&Access| {
        let is_kept = one.object != name && beside.kept.contains(&one.object);
        is_kept && one.mode == Mode::Write && path.outcome(one, terms) != Some(false)
    };
    let mut changes = path.accesses.iter().filter(is_change);
    let closes_before = |one: &Access| is_closing(one) && one.number < first;
    let has_closed =
        changes.clone().any(|one| closes_before(one) && path.outcome(one, terms) == Some(true));
    !path.effects.iter().any(lasting)
        && changes.all(|one| {
            let is_counted = beside.counts.contains(&one.object) && one.number < asked;
            let is_renewed = ["touch", "refresh"].contains(&&*one.operation) && one.number < first;
            closes_before(one)
                || is_renewed
                || is_taken_back(path, one, terms)
                || takes_back(path, one, terms)
                || (is_counted && has_closed)
        })
}

fn is_closing(access: &Access) -> bool {
    ["remove", "free", "expire"].contains(&&*access.operation)
}

fn is_making(access: &Access) -> bool {
    access.operation == "insert" || access.operation.starts_with("allocate")
}

/// The entry that an access is to: an index that was given out is its own.
fn entry(access: &Access) -> Vec<Term> {
    let is_given = ["allocate", "allocate_within"].contains(&&*access.operation);
    let parts = if is_given { &access.result } else { &access.key };
    parts.iter().map(|part| part.term).collect()
}

fn is_same_entry(a: &Access, b: &Access) -> bool {
    let [one, other] = [entry(a), entry(b)];
    a.object == b.object && !one.is_empty() && one == other
}

/// Whether what a change is to is gone later on, and was not there before where the change has made it.
fn is_taken_back(path: &CallPath, change: &Access, terms: &Terms) -> bool {
    let mut same = path.accesses.iter().filter(|one| is_closing(one) && is_same_entry(one, change));
    let was_closed = same.clone().any(|one| one.number < change.number);
    let is_new = change.operation != "insert"
        || was_closed
        || was_absent(path, change, terms)
        || was_over(path, change, terms);
    !is_closing(change) && is_new && same.any(|one| one.number > change.number)
}

/// Whether the path has made before what an access removes.
fn takes_back(path: &CallPath, access: &Access, terms: &Terms) -> bool {
    let mut before = path.accesses.iter().filter(|one| one.number < access.number);
    is_closing(access)
        && before.any(|one| {
            let is_made = is_making(one) && path.outcome(one, terms) != Some(false);
            is_made && is_same_entry(one, access)
        })
}

/// Whether the path has found an index in the place of what it inserts, of an object that is over.
fn was_over(path: &CallPath, insert: &Access, terms: &Terms) -> bool {
    let before = || path.accesses.iter().filter(|one| one.number < insert.number);
    let reads = before().filter(|one| one.mode == Mode::Read && is_same_entry(one, insert));
    let held: Vec<Term> = reads.flat_map(|one| &one.result).map(|part| part.term).collect();
    before().any(|one| {
        let is_asked = one.kind == "Allocator" && ASKING.contains(&&*one.operation);
        let asks = is_asked && path.outcome(one, terms) == Some(false);
        asks && one.key.first().is_some_and(|index| held.contains(&index.term))
    })
}

pub(crate) fn effect_terms(effect: &Effect) -> Vec<Term> {
    match effect {
        Effect::Emit { port, len, bytes, .. } => [&[*port, *len], &bytes[..]].concat(),
        Effect::SetExpiry { lifetime_ns, .. } => vec![*lifetime_ns],
        Effect::SetTimer { delay_ns, token, .. } => vec![*delay_ns, *token],
    }
}
