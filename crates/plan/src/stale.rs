//! Names that are kept for longer than what they name: an index of an allocator that a map still holds, say, once it
//! has been given back. On one core it is then whoever's has been given it since; of shards it is another's, or nobody's.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::expr::{Binary, Node, SymbolId, Term, Terms};
use anabranch_analysis::{Access, CallPath, Condition, Mode, Part, Paths};

use crate::filter::{Caller, caller, same_key};
use crate::left::{found, goes_by, is_endless};
use crate::owned::{conjuncts, known};
use crate::shard::Refusal;
use crate::touch::POOL;

mod lost;

/// Why a name of an index of `pool` may be taken for one of whoever was given the index later, if it may.
pub(crate) fn why_stale(paths: &Paths, pool: &str) -> Option<Refusal> {
    let ends = Ends::of(pool, paths)?;
    places(pool, paths, false).into_iter().find_map(|(holder, part)| {
        let names = Names { holder, part, pool, paths };
        let read = names.read()?;
        let (end, how) = match ends {
            Ends::Alone(line) => {
                let how = format!("its time of line {line} is over by then, and no `#[expired]` method takes the name out");
                (line, how)
            }
            Ends::Told => names.kept()?,
        };
        let why = format!(
            "`{holder}` may still name an index of `{pool}` (read at line {read}) once it is another's: {how}"
        );
        Some((why, BTreeSet::from([read, end])))
    })
}

/// Whether indices of `pool` may be given out more than once, and not only to who asks for them by their numbers.
pub(crate) fn is_given_anew(paths: &Paths, pool: &str) -> bool {
    is_given(paths, pool) && Ends::of(pool, paths).is_some()
}

/// Whether a path is given an index of `pool`.
pub(crate) fn is_given(paths: &Paths, pool: &str) -> bool {
    paths.paths.iter().any(|path| given(path, pool).next().is_some())
}

/// How indices come to be free.
enum Ends {
    /// After a time, which nobody is told of.
    Alone(u32),
    /// Where a path gives them back, or is told.
    Told,
}

impl Ends {
    /// `None`: they never do.
    fn of(pool: &str, paths: &Paths) -> Option<Self> {
        let own = || paths.accesses().map(|(_, access)| access).filter(|one| one.object == pool);
        let ends = |one: &&Access| one.lifetime.is_some_and(|it| !is_endless(it, &paths.terms));
        match own().find(ends) {
            Some(one) if own().all(|one| one.operation != "expire") => Some(Self::Alone(one.line)),
            _ => {
                let mut all = paths.paths.iter().flat_map(|path| ended(path, pool, &paths.terms));
                all.next().map(|_| Self::Told)
            }
        }
    }
}

/// Where a path gives an index back, or is told that its time is over.
fn ended<'p>(path: &'p CallPath, pool: &str, terms: &Terms) -> impl Iterator<Item = &'p Access> {
    path.accesses.iter().filter(move |one| {
        let is_end = one.object == pool && ["free", "expire"].contains(&&*one.operation);
        is_end && path.outcome(one, terms) != Some(false)
    })
}

/// An object and a part of its values.
type Place<'p> = (&'p str, &'p str);

/// Where indices of `pool` are kept, or what is made of them; what stands `under` the index itself is its own, and no
/// other name for it.
fn places<'p>(pool: &str, paths: &'p Paths, under: bool) -> BTreeSet<Place<'p>> {
    let mut places = BTreeSet::new();
    loop {
        let before = places.len();
        for path in &paths.paths {
            let given: BTreeSet<Term> = given(path, pool).chain(told(path, pool)).collect();
            let known: Vec<(Place<'_>, BTreeSet<SymbolId>)> =
                places.iter().map(|place| (*place, read_at(path, *place, &paths.terms))).collect();
            for one in path.accesses.iter().filter(|one| one.mode == Mode::Write) {
                let is_under = |index: &Term| one.key.iter().any(|part| part.term == *index);
                let others = || given.iter().filter(|index| under || !is_under(index));
                for part in &one.value {
                    let own = (&*one.object, &*part.name);
                    let is_copy = known.iter().any(|(place, names)| {
                        *place != own && is_of(part.term, names, &paths.terms)
                    });
                    let mut names =
                        others().filter(|index| is_made_of(part, **index, &paths.terms));
                    if is_copy || names.next().is_some() {
                        places.insert(own);
                    }
                }
            }
        }
        if places.len() == before {
            return places;
        }
    }
}

/// What each path has of indices: those that it is given, and those that it has read where they, or what is made of
/// them, are kept.
pub(crate) fn indices<'p>(
    paths: &'p Paths,
    pool: &'p str,
) -> impl Fn(&CallPath) -> BTreeSet<SymbolId> + use<'p> {
    let (places, terms) = (places(pool, paths, true), &paths.terms);
    move |path| {
        let given = given(path, pool).flat_map(|index| terms.unknowns(index).iter().copied());
        given.chain(places.iter().flat_map(|place| read_at(path, *place, terms))).collect()
    }
}

/// The indices that a path is given.
fn given(path: &CallPath, pool: &str) -> impl Iterator<Item = Term> {
    let gives = move |one: &&Access| one.object == pool && POOL.contains(&&*one.operation);
    path.accesses.iter().filter(gives).flat_map(|one| &one.result).map(|part| part.term)
}

/// The indices that a path is told of, and which are free by then.
fn told(path: &CallPath, pool: &str) -> impl Iterator<Item = Term> {
    let tells = move |one: &&Access| one.object == pool && one.operation == "expire";
    path.accesses.iter().filter(tells).flat_map(|one| &one.key).map(|part| part.term)
}

/// What a path has read at a place.
fn read_at(path: &CallPath, (holder, part): Place<'_>, terms: &Terms) -> BTreeSet<SymbolId> {
    let own = path.accesses.iter().filter(|one| one.object == holder);
    own.flat_map(|one| found_as(one, part, terms)).collect()
}

/// The unknowns that an access has found as a part of what is stored.
fn found_as(access: &Access, part: &str, terms: &Terms) -> BTreeSet<SymbolId> {
    let parts = access.result.iter().filter(|one| one.name == part);
    let of_part: BTreeSet<SymbolId> =
        parts.flat_map(|one| terms.unknowns(one.term).iter().copied()).collect();
    // The object of an index that ends is handed to the handler, and bears no object's name.
    if access.operation == "expire" {
        return of_part;
    }
    found(access, terms).intersection(&of_part).copied().collect()
}

fn is_of(term: Term, ids: &BTreeSet<SymbolId>, terms: &Terms) -> bool {
    terms.unknowns(term).iter().any(|id| ids.contains(id))
}

fn is_made_of(part: &Part, index: Term, terms: &Terms) -> bool {
    let of = terms.unknowns(index);
    part.term == index || terms.unknowns(part.term).iter().any(|id| of.contains(id))
}

/// Names of indices of a pool, as one part of what an object holds.
struct Names<'p> {
    holder: &'p str,
    part: &'p str,
    pool: &'p str,
    paths: &'p Paths,
}

impl<'p> Names<'p> {
    /// The line at which a name is read, and something done by it.
    fn read(&self) -> Option<u32> {
        let terms = &self.paths.terms;
        let reads = |path: &'p CallPath| {
            let own = self.own(path).map(move |one| (path, one));
            own.map(|(path, one)| (path, one, found_as(one, self.part, terms)))
        };
        let mut used = self
            .lasting()
            .flat_map(reads)
            .filter(|(path, one, ids)| !ids.is_empty() && goes_by(path, one, ids, terms));
        used.next().map(|(_, one, _)| one.line)
    }

    /// Paths after which there are others.
    fn lasting(&self) -> impl Iterator<Item = &'p CallPath> {
        self.paths.paths.iter().filter(|path| caller(path) != Caller::Shutdown)
    }

    fn own(&self, path: &'p CallPath) -> impl Iterator<Item = &'p Access> {
        let holder = self.holder;
        path.accesses.iter().filter(move |one| one.object == holder)
    }

    /// The line after which a name may be kept for too long, and why, if there is one.
    fn kept(&self) -> Option<(u32, String)> {
        let (holder, objects) = (self.holder, &self.paths.objects);
        let kind = objects.iter().find(|object| object.name == holder)?.kind;
        let is_taken_out = ["Map", "PacketSet"].contains(&kind);
        let end = |one: &Access| {
            let line = one.line;
            let how = match &*one.operation {
                _ if !is_taken_out => format!(
                    "it ends at line {line}, and whether names leave `{holder}`, a {kind}, is not followed: keep them in a `Map`"
                ),
                "free" => format!("line {line} gives it back, and the name is not taken out"),
                _ => format!("line {line} is told of its end, and the name is not taken out"),
            };
            (line, how)
        };
        let mut ends = self
            .lasting()
            .flat_map(|path| ended(path, self.pool, &self.paths.terms).map(move |one| (path, one)));
        if !is_taken_out {
            return ends.next().map(|(_, one)| end(one));
        }
        let keeps = self.lasting().find_map(|path| self.keeps_otherwise(path));
        if let Some(line) = keeps {
            return Some((line, format!("line {line} stores it under a second key, or copies it")));
        }
        let same = self.same();
        let lost = self.lost(&same);
        let is_out = |path, one, lost| self.is_taken_out(path, one, (&same, lost));
        let (path, left) = ends.find(|(path, one)| !is_out(path, one, lost.is_some()))?;
        match lost.filter(|_| is_out(path, left, false)) {
            None => Some(end(left)),
            Some((line, how)) => {
                let removes = self.own(path).filter(|one| one.operation == "remove");
                let by = removes.last().map_or(left.line, |one| one.line);
                let out = format!(
                    "line {by} takes out whatever name stands at its key, and line {line} {how} before that: ask \
                     `{holder}` first whether it names the index"
                );
                Some((line, out))
            }
        }
    }

    /// Where a path stores what is neither an index that it was given, under one key, nor what was there.
    fn keeps_otherwise(&self, path: &'p CallPath) -> Option<u32> {
        let terms = &self.paths.terms;
        let names: Vec<(&Access, &Part)> = self.named(path).collect();
        let other = names.iter().find(|(write, part)| {
            let mut same = self.own(path).filter(|one| self.is_same(one, write));
            let is_copy = same.any(|one| self.of(&one.result) == Some(part.term));
            let is_new = given(path, self.pool).any(|index| index == part.term);
            let mut others = names.iter().filter(|(_, other)| is_made_of(other, part.term, terms));
            !(is_copy || is_new && others.all(|(one, _)| self.is_same(one, write)))
        });
        other.map(|(write, _)| write.line)
    }

    /// What a path puts there.
    fn named(&self, path: &'p CallPath) -> impl Iterator<Item = (&'p Access, &'p Part)> {
        let (part, terms) = (self.part, &self.paths.terms);
        let puts =
            move |one: &&Access| one.mode == Mode::Write && path.outcome(one, terms) != Some(false);
        let all = self.own(path).filter(puts);
        all.filter_map(move |one| Some((one, one.value.iter().find(|it| it.name == part)?)))
    }

    /// Whether two accesses are to one entry: of packet sets a path has one.
    fn is_same(&self, a: &Access, b: &Access) -> bool {
        a.kind == "PacketSet" || same_key(a, b)
    }

    fn of(&self, parts: &[Part]) -> Option<Term> {
        parts.iter().find(|part| part.name == self.part).map(|part| part.term)
    }

    /// Whether nothing is called by the index that ends, once the path is over, nor anything else that was; its name
    /// may be `lost` before.
    fn is_taken_out(&self, path: &'p CallPath, end: &Access, (same, lost): (&Same, bool)) -> bool {
        let Some(index) = end.key.first().map(|part| part.term) else { return false };
        let terms = &self.paths.terms;
        let named = || self.named(path).filter(|(_, part)| is_made_of(part, index, terms));
        let stays = |after: usize| named().any(|(one, _)| one.number > after);
        if given(path, self.pool).any(|own| own == index) {
            return named().all(|(one, _)| self.is_gone_after(path, one, index));
        }
        self.own(path).any(|one| {
            let is_at = self.of(&one.result) == Some(index)
                || same.is_of(one, path, (self.pool, index))
                    && (!lost || self.is_asked(path, one, index));
            let is_out = ["remove", "expire"].contains(&&*one.operation)
                || self.is_another(path, one, index);
            is_at && ((is_out && !stays(one.number)) || self.is_gone_after(path, one, index))
        })
    }

    /// Whether the entry of an access is taken out later, or has something else in the place of the index.
    fn is_gone_after(&self, path: &'p CallPath, access: &Access, index: Term) -> bool {
        let terms = &self.paths.terms;
        let later = || {
            let all = self.own(path).filter(|one| one.number > access.number);
            all.filter(|one| self.is_same(one, access) && path.outcome(one, terms) != Some(false))
        };
        let is_kept = |one: &Access| {
            one.value.iter().any(|it| it.name == self.part && is_made_of(it, index, terms))
        };
        let ends = later().filter(|one| match &*one.operation {
            "remove" | "expire" => true,
            "insert" | "update" if one.kind == "Map" => !one.value.is_empty() && !is_kept(one),
            "insert" | "update" => self.of(&one.value).is_some() && !is_kept(one),
            _ => false,
        });
        let Some(last) = ends.map(|one| one.number).max() else { return false };
        let mut named = self.named(path);
        !named.any(|(one, part)| one.number > last && is_made_of(part, index, terms))
    }

    /// Whether the path has seen that an entry is not there, or names another index.
    fn is_another(&self, path: &CallPath, access: &Access, index: Term) -> bool {
        let terms = &self.paths.terms;
        if path.outcome(access, terms) == Some(false) {
            return true;
        }
        let Some(found) = self.of(&access.result) else { return false };
        let is_asked = |term: Term| match *terms.node(term) {
            Node::Binary(Binary::Equal, a, b) => [(a, b), (b, a)].contains(&(found, index)),
            _ => access.outcome == Some(term),
        };
        let all_asked = |made: &Condition| {
            let parts = conjuncts(made.term, true, terms);
            parts.into_iter().any(|(term, holds)| {
                let mut asked = conjuncts(term, true, terms).into_iter();
                !holds && asked.all(|(term, holds)| holds && is_asked(term))
            })
        };
        path.conditions.iter().any(all_asked)
    }
}

/// Which parts of the objects that are named equal which parts of the keys under which they are.
struct Same(BTreeMap<String, BTreeSet<String>>);

impl Names<'_> {
    /// That of all names: as an index is given out, and as objects are changed later.
    fn same(&self) -> Same {
        let mut same: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in self.lasting() {
            for (write, part) in self.named(path) {
                let terms = &self.paths.terms;
                let mut new = given(path, self.pool);
                let Some(index) = new.find(|index| is_made_of(part, *index, terms)) else {
                    continue;
                };
                let Some(object) = last_object(path, self.pool, index) else { continue };
                for of_key in &write.key {
                    let equal = object
                        .iter()
                        .filter(|part| is_same_on(path, part.term, of_key.term, terms));
                    let equal: BTreeSet<String> = equal.map(|part| part.name.clone()).collect();
                    same.entry(of_key.name.clone())
                        .and_modify(|all| all.retain(|name| equal.contains(name)))
                        .or_insert(equal);
                }
            }
        }
        for path in self.lasting() {
            let stores = |one: &&Access| {
                let is_set = ["set", "update"].contains(&&*one.operation) && !one.value.is_empty();
                one.object == self.pool && is_set
            };
            for one in path.accesses.iter().filter(stores) {
                let Some(index) = one.key.first().map(|part| part.term) else { continue };
                if given(path, self.pool).any(|own| own == index) {
                    continue;
                }
                let known = known_of(path, self.pool, index);
                let is_left = |name: &String| {
                    one.value
                        .iter()
                        .any(|new| new.name == *name && known.contains(&(name, new.term)))
                };
                same.values_mut().for_each(|all| all.retain(is_left));
            }
        }
        Same(same)
    }
}

impl Same {
    /// Whether an access is to the entry that the object under `index` is named by.
    fn is_of(&self, access: &Access, path: &CallPath, (pool, index): (&str, Term)) -> bool {
        let known = known_of(path, pool, index);
        let is_known = |part: &Part| {
            let names = self.0.get(&part.name);
            names.is_some_and(|all| all.iter().any(|name| known.contains(&(name, part.term))))
        };
        !access.key.is_empty() && access.key.iter().all(is_known)
    }
}

/// What a path stores at last under an index that it is given.
fn last_object<'p>(path: &'p CallPath, pool: &str, index: Term) -> Option<&'p [Part]> {
    let is_of = |one: &&Access| {
        let of = if POOL.contains(&&*one.operation) { &one.result } else { &one.key };
        one.object == pool && of.first().is_some_and(|part| part.term == index)
    };
    let last = path.accesses.iter().rfind(|one| is_of(one) && !one.value.is_empty());
    last.map(|one| &*one.value)
}

/// Whether two terms are the same where the conditions of a path hold, by which a choice is made.
fn is_same_on(path: &CallPath, a: Term, b: Term, terms: &Terms) -> bool {
    if a == b {
        return true;
    }
    let Node::Ite(condition, yes, no) = *terms.node(a) else { return false };
    let asked = known(path, terms).into_iter().find(|(term, _)| *term == condition);
    asked.is_some_and(|(_, holds)| is_same_on(path, if holds { yes } else { no }, b, terms))
}

/// What a path has found of the object under an index.
fn known_of<'p>(path: &'p CallPath, pool: &str, index: Term) -> BTreeSet<(&'p String, Term)> {
    let is_of = |one: &&Access| {
        one.object == pool && one.key.first().is_some_and(|part| part.term == index)
    };
    let mut known = BTreeSet::new();
    for one in path.accesses.iter().filter(is_of) {
        known.extend(one.result.iter().map(|part| (&part.name, part.term)));
        // What is found after a change is what this path has put there.
        if !one.value.is_empty() {
            break;
        }
    }
    known
}
