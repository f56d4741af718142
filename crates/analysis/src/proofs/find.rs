//! Where a map is given the index of an object that the same path has stored.

use std::collections::BTreeMap;

use super::state::PartType;
use super::{Fixed, Link};
use crate::access::{Access, Part};
use crate::expr::{Node, Term, Terms};
use crate::path::CallPath;

/// Links that every path which stores both at once would have, of objects whose end is told; each is to
/// be proved.
pub(crate) fn candidates(paths: &[CallPath], told: &[String], terms: &Terms) -> Vec<Link> {
    let mut found: BTreeMap<(&str, &str), Link> = BTreeMap::new();
    for path in paths {
        for (at, insert) in path.accesses.iter().enumerate() {
            let ("Map", "insert", [index]) = (insert.kind, &*insert.operation, &*insert.value)
            else {
                continue;
            };
            for allocator in told {
                let Some(stored) = stored(path, allocator, index.term, at) else { continue };
                let pair = (insert.object.as_str(), allocator.as_str());
                let here = link(pair, insert, stored, terms);
                match found.get_mut(&pair) {
                    Some(known) => {
                        known.equal.retain(|equal| here.equal.contains(equal));
                        known.fixed.retain(|fixed| here.fixed.contains(fixed));
                    }
                    None => {
                        found.insert(pair, here);
                    }
                }
            }
        }
    }
    let keys = |link: &Link| {
        let inserts = paths.iter().flat_map(|path| &path.accesses);
        let mut keys = inserts.filter(|access| access.object == link.map && !access.key.is_empty());
        keys.next().map_or(&[][..], |access| &access.key)
    };
    let says = |link: &Link| !link.equal.is_empty() || !link.fixed.is_empty();
    let links = found.into_values().filter(says).map(|link| {
        let is_equal = |part: &Part| link.equal.iter().any(|(_, of)| *of == part.name);
        Link { is_whole: keys(&link).iter().all(is_equal), ..link }
    });
    links.collect()
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

fn link((map, allocator): (&str, &str), insert: &Access, stored: &[Part], terms: &Terms) -> Link {
    let mut equal = Vec::new();
    for part in stored {
        let same = insert.key.iter().filter(|of| may_be(part.term, of.term, terms));
        equal.extend(same.map(|of| (part.name.clone(), of.name.clone())));
    }
    let small = stored.iter().filter(|part| PartType::of(part, terms).is_small());
    let fixed = small.filter_map(|part| Fixed::of(part, terms));
    let (map, allocator, fixed) = (map.to_owned(), allocator.to_owned(), fixed.collect());
    Link { map, allocator, equal, fixed, is_whole: false }
}
