//! What is left under an index that is given out anew. Who had it before is decided by all packets together, and no
//! other name for the index makes up for it: what is read of that must be shared.

use std::collections::BTreeSet;

use anabranch_analysis::expr::{SymbolId, Term, Terms};
use anabranch_analysis::{Access, CallPath, Mode, Paths, Verdict};

use crate::limit::effect_terms;
use crate::resolve::Keyed;
use crate::shard::Refusal;
use crate::touch::{POOL, Part, Touches};

/// Why what `keys` touch under indices of an allocator is not the same whoever had an index before, if it is not.
pub(crate) fn why_left(
    touches: &Touches<'_>,
    object: usize,
    keys: &[Keyed<'_>],
    allocator: usize,
) -> Option<Refusal> {
    let paths = touches.paths;
    let is_index = |part: &Part| *part == Part::Fresh(allocator);
    let named = keys.iter().filter(|keyed| keyed.parts.iter().any(is_index));
    // Beside an index there may be more entries than one packet makes anew.
    let is_alone = named.clone().all(|keyed| keyed.parts.len() == 1);
    named.clone().next()?;
    let [name, pool] = [object, allocator].map(|at| &*paths.objects[at].name);
    // Who asks for an index by its number knows whose it was.
    let is_any = |access: &Access| access.object == pool && POOL.contains(&&*access.operation);
    if !paths.accesses().any(|(_, access)| is_any(access)) {
        return None;
    }
    let given = paths.paths.iter().find_map(|path| {
        let mut gives = gives(path, pool, &paths.terms);
        gives.find(|(_, index)| !is_alone || !begins(path, index.as_ref(), name, pool, paths))
    });
    let (given, _) = given?;
    if is_alone && is_cleared(name, pool, paths) {
        return None;
    }
    let read = paths.paths.iter().find_map(|path| read(path, name, &paths.terms))?;
    let why = format!(
        "what `{name}` holds is read at line {read} also where whoever had an index of `{pool}` before has left \
         it: line {} gives an index out, and all that stands there is not written first",
        given.line
    );
    Some((why, BTreeSet::from([given.line, read])))
}

/// Whether an index may be given out anew while `object` keeps under it what was there before.
pub(crate) fn keeps_old(touches: &Touches<'_>, object: usize, allocator: usize) -> bool {
    let paths = touches.paths;
    let [name, pool] = [object, allocator].map(|at| &*paths.objects[at].name);
    paths.paths.iter().any(|path| {
        let mut gives = gives(path, pool, &paths.terms);
        gives.any(|(_, index)| !begins(path, index.as_ref(), name, pool, paths))
    })
}

/// Where a path is given indices of `pool`: the access, and where it stands with which index.
pub(crate) fn gives<'p>(
    path: &'p CallPath,
    pool: &str,
    terms: &Terms,
) -> impl Iterator<Item = (&'p Access, Option<(usize, Term)>)> {
    let given = move |access: &&Access| {
        access.object == pool
            && access.operation.starts_with("allocate")
            && path.outcome(access, terms) != Some(false)
    };
    path.accesses.iter().filter(given).map(|access| {
        let index = match &*access.operation {
            "allocate_at" => access.key.first(),
            _ => access.result.first(),
        };
        (access, index.map(|index| (access.number, index.term)))
    })
}

/// Whether the first thing that the path does with what stands under an index that it was given is to write all of
/// it, or else to give the index back.
fn begins(
    path: &CallPath,
    given: Option<&(usize, Term)>,
    name: &str,
    pool: &str,
    paths: &Paths,
) -> bool {
    let Some((number, index)) = given else { return false };
    let mut after = path.accesses.iter().filter(|one| {
        let is_same = one.key.first().is_some_and(|key| key.term == *index);
        one.number > *number && is_same && (one.object == name || one.object == pool)
    });
    let first = after.find(|one| one.object == name || one.operation == "free");
    first.is_some_and(|one| one.object == pool || writes_all(path, one, &paths.terms))
}

/// Whether nothing of what was there is there afterwards, nor decides what is. An entry that a full map refuses was not
/// there before.
fn writes_all(path: &CallPath, access: &Access, terms: &Terms) -> bool {
    let is_new = || {
        let mut values = access.value.iter();
        !access.value.is_empty() && !values.any(|part| is_of_object(access, part.term, terms))
    };
    match &*access.operation {
        "write" | "insert" => is_new(),
        "remove" => !goes_by(path, access, &found(access, terms), terms),
        "update" => is_new() && !goes_by(path, access, &found(access, terms), terms),
        _ => false,
    }
}

/// From here on a lifetime has no end.
const FOR_EVER_NS: u128 = 1 << 51;

/// Whether whoever ends what has an index leaves under it what nobody has written yet.
fn is_cleared(name: &str, pool: &str, paths: &Paths) -> bool {
    let by_init = paths.objects.iter().find(|object| object.name == name);
    if by_init.is_none_or(|object| object.written_by("init").is_some()) {
        return false;
    }
    let is_end =
        |access: &Access| access.object == pool && ["free", "expire"].contains(&&*access.operation);
    // What is over without a handler is over all the same.
    let of_pool = || paths.accesses().filter(|(_, access)| access.object == pool);
    let is_told = of_pool().any(|(_, access)| access.operation == "expire");
    let mut lifetimes = of_pool().filter_map(|(_, access)| access.lifetime);
    (is_told || lifetimes.all(|lifetime| is_endless(lifetime, &paths.terms)))
        && paths.paths.iter().all(|path| {
            path.accesses.iter().filter(|access| is_end(access)).all(|end| {
                let index = end.key.first().map(|index| index.term);
                let is_change = |one: &&Access| {
                    let is_same = one.key.first().map(|key| key.term) == index;
                    one.object == name && one.mode == Mode::Write && is_same
                };
                let last = path.accesses.iter().rfind(is_change);
                last.is_some_and(|last| clears(last, &paths.terms))
                    || path.outcome(end, &paths.terms) == Some(false)
            })
        })
}

pub(crate) fn is_endless(lifetime: Term, terms: &Terms) -> bool {
    terms.constant_of(lifetime).is_some_and(|ns| ns >= FOR_EVER_NS)
}

fn clears(access: &Access, terms: &Terms) -> bool {
    let is_zero = |term| terms.constant_of(term) == Some(0) || terms.bool_of(term) == Some(false);
    match &*access.operation {
        "remove" => true,
        "write" => access.value.iter().all(|part| is_zero(part.term)),
        _ => false,
    }
}

/// The line at which a path goes by what it has found in an object: all but what is put back there.
pub(crate) fn read(path: &CallPath, name: &str, terms: &Terms) -> Option<u32> {
    // Whether there is room is a matter of how many there are.
    let asks =
        |one: &&Access| one.object == name && !["insert", "write"].contains(&&*one.operation);
    let mut reads = path.accesses.iter().enumerate().filter(|(_, one)| asks(one));
    let read = reads.find(|(at, read)| {
        let own = found(read, terms);
        // In turns of a loop that are not listed it may have been asked.
        !own.is_empty() && (*at < path.before_loops || goes_by(path, read, &own, terms))
    });
    read.map(|(_, read)| read.line)
}

pub(crate) fn goes_by(
    path: &CallPath,
    read: &Access,
    own: &BTreeSet<SymbolId>,
    terms: &Terms,
) -> bool {
    let is_of = |term: Term| is_of(own, term, terms);
    let sends = match path.verdict {
        Verdict::Forward(port) | Verdict::Recirculate(port) => is_of(port),
        _ => false,
    };
    sends
        || path.conditions.iter().any(|made| is_of(made.term))
        || path.rewrites.iter().any(|made| is_of(made.term))
        || path.effects.iter().flat_map(effect_terms).any(is_of)
        || path.accesses.iter().any(|access| {
            let values = access.value.iter().filter(|_| access.object != read.object);
            let keys = access.key.iter().chain(values).map(|part| part.term);
            keys.chain(access.lifetime).any(is_of)
        })
}

/// The unknowns that an access has found in its object.
pub(crate) fn found(access: &Access, terms: &Terms) -> BTreeSet<SymbolId> {
    let results = access.result.iter().map(|part| part.term).chain(access.outcome);
    let ids = results.flat_map(|term| terms.unknowns(term).iter().copied());
    ids.filter(|id| is_named_after(access, *id, terms)).collect()
}

fn is_named_after(access: &Access, id: SymbolId, terms: &Terms) -> bool {
    let name = terms.symbol_of(id).name.strip_prefix(&access.object);
    name.is_some_and(|rest| rest.starts_with('.'))
}

fn is_of(ids: &BTreeSet<SymbolId>, term: Term, terms: &Terms) -> bool {
    terms.unknowns(term).iter().any(|id| ids.contains(id))
}

fn is_of_object(access: &Access, term: Term, terms: &Terms) -> bool {
    terms.unknowns(term).iter().any(|id| is_named_after(access, *id, terms))
}
