//! Where a map is given the index of an object that the same path has stored.

use std::collections::{BTreeMap, BTreeSet};

use super::state::PartType;
use super::{Fixed, Link};
use crate::access::{Access, Part};
use crate::expr::{Node, Sort, Term, Terms};
use crate::path::CallPath;

/// Where a path stores a name of an object: what it puts into the map, and what the object is in the end.
type Named<'p> = (&'p Access, &'p [Part]);

/// Links that every path which stores both at once would have, of objects whose end is told; each is to
/// be proved.
pub(crate) fn candidates(paths: &[CallPath], told: &[String], terms: &Terms) -> Vec<Link> {
    let mut found: BTreeMap<[&str; 3], Vec<Named<'_>>> = BTreeMap::new();
    for path in paths {
        for (at, insert) in path.accesses.iter().enumerate() {
            if insert.kind != "Map" || insert.operation != "insert" {
                continue;
            }
            let is_index = |part: &&Part| terms.sort(part.term) == Sort::Bits(32);
            for (part, allocator) in insert
                .value
                .iter()
                .filter(is_index)
                .flat_map(|part| told.iter().map(move |allocator| (part, allocator)))
            {
                if let Some(object) = stored(path, allocator, part.term, at) {
                    let names = [&insert.object, allocator, &part.name].map(|name| &**name);
                    found.entry(names).or_default().push((insert, object));
                }
            }
        }
    }
    let keys = |map: &str| -> BTreeSet<&str> {
        let of_map =
            paths.iter().flat_map(|path| &path.accesses).filter(|access| access.object == map);
        of_map.flat_map(|access| &access.key).map(|part| part.name.as_str()).collect()
    };
    let links = found.into_iter().map(|([map, allocator, index], named)| {
        let equal = equal(&named, terms);
        let is_equal = |part: &&str| equal.iter().any(|(_, of)| of == part);
        Link {
            is_whole: keys(map).iter().all(is_equal),
            fixed: fixed(&named, terms),
            map: map.to_owned(),
            allocator: allocator.to_owned(),
            index: index.to_owned(),
            equal,
        }
    });
    links.filter(|link| !link.equal.is_empty() || !link.fixed.is_empty()).collect()
}

/// Parts of objects that equal parts of the keys under which they are named, wherever one of the two is there: where
/// neither is, object and key are of another variant.
fn equal(named: &[Named<'_>], terms: &Terms) -> Vec<(String, String)> {
    let of = |(insert, object): &Named<'_>| {
        let (key, object) = (&insert.key, *object);
        let pairs = object.iter().flat_map(move |part| key.iter().map(move |of| (part, of)));
        let same = pairs.filter(|(part, of)| may_be(part.term, of.term, terms));
        let same: Vec<_> = same.map(|(part, of)| (part.name.clone(), of.name.clone())).collect();
        same
    };
    let all = distinct(named.iter().flat_map(of));
    let is_same = |part: &String| all.iter().any(|(ours, of)| ours == part && of == part);
    // What two variants have in common that are each the key's.
    let follows = |(ours, of): &(String, String)| ours != of && is_same(ours) && is_same(of);
    let is_there = |parts: &[Part], name: &String| parts.iter().any(|part| part.name == *name);
    let fits = |pair: &(String, String), one: &Named<'_>| {
        let (insert, object) = one;
        of(one).contains(pair) || !is_there(object, &pair.0) && !is_there(&insert.key, &pair.1)
    };
    let fit = all.iter().filter(|pair| named.iter().all(|one| fits(pair, one)));
    fit.filter(|pair| !follows(pair)).cloned().collect()
}

/// Small parts of objects that are always the same.
fn fixed(named: &[Named<'_>], terms: &Terms) -> Vec<Fixed> {
    let of = |(_, object): &Named<'_>| -> Vec<Fixed> {
        let small = object.iter().filter(|part| PartType::of(part, terms).is_small());
        small.filter_map(|part| Fixed::of(part, terms)).collect()
    };
    let mut others = named.iter().map(of);
    let first = others.next().unwrap_or_default();
    others.fold(first, |all, other| all.into_iter().filter(|one| other.contains(one)).collect())
}

/// An entry that a path puts into a map after it has given out an object that holds the whole key, and whose
/// index is not what the map is given.
pub(super) struct Held<'p> {
    pub(super) insert: &'p Access,
    pub(super) allocator: &'p String,
    /// For each part of the key, in order, the part of the object that equals it, and the key's own.
    pub(super) equal: Vec<(String, String)>,
}

/// All such entries, of objects whose end is told.
pub(super) fn held<'p>(
    paths: &'p [CallPath],
    told: &'p [String],
    terms: &'p Terms,
) -> impl Iterator<Item = Held<'p>> {
    let inserts = paths.iter().flat_map(|path| {
        let all = path.accesses.iter().enumerate();
        let inserts = all.filter(|(_, it)| it.kind == "Map" && it.operation == "insert");
        inserts.map(|(at, insert)| (&path.accesses[..at], insert))
    });
    inserts.flat_map(move |(before, insert)| {
        told.iter().filter_map(move |allocator| {
            let given = given(before, allocator).last()?;
            let index = place(given)?;
            if insert.value.iter().any(|part| part.term == index) {
                return None;
            }
            let of_key = insert.key.iter().map(|of| {
                let part = given.value.iter().find(|part| may_be(part.term, of.term, terms))?;
                Some((part.name.clone(), of.name.clone()))
            });
            Some(Held { insert, allocator, equal: of_key.collect::<Option<_>>()? })
        })
    })
}

/// Where objects of an allocator are given out.
pub(super) fn given<'p>(
    accesses: &'p [Access],
    allocator: &str,
) -> impl Iterator<Item = &'p Access> {
    let gives = move |access: &&Access| {
        access.object == allocator && access.operation.starts_with("allocate")
    };
    accesses.iter().filter(gives)
}

/// Each once, in the order in which they come.
pub(super) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut known, one| {
        if !known.contains(&one) {
            known.push(one);
        }
        known
    })
}

/// What the path has stored at last under `index`, where it has taken that before its access `before`.
fn stored<'p>(
    path: &'p CallPath,
    allocator: &str,
    index: Term,
    before: usize,
) -> Option<&'p [Part]> {
    let mut given = given(path.accesses.get(..before)?, allocator);
    let taken = given.any(|access| place(access) == Some(index));
    let of_it = |access: &&Access| {
        access.object == allocator && place(access) == Some(index) && !access.value.is_empty()
    };
    let last = path.accesses.iter().rev().find(of_it);
    last.filter(|_| taken).map(|access| &*access.value)
}

/// The index under which an access of an allocator stores.
pub(super) fn place(access: &Access) -> Option<Term> {
    let parts = match access.operation.as_str() {
        "allocate" | "allocate_within" => &access.result,
        _ => &access.key,
    };
    match parts.as_slice() {
        [index] => Some(index.term),
        _ => None,
    }
}

/// Whether a term is `wanted`, or is that where a condition holds: keys are no choices.
fn may_be(term: Term, wanted: Term, terms: &Terms) -> bool {
    term == wanted
        || match *terms.node(term) {
            Node::Ite(_, a, b) => may_be(a, wanted, terms) || may_be(b, wanted, terms),
            _ => false,
        }
}
