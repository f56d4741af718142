//! Objects of an allocator and keys of a map that go in pairs, though neither names the other: each object holds a
//! key that is in the map, and of each key in the map there is one object.
//!
//! ```text
//! stations[address]         looks[i] = address
//!     which object holds a key is for the proof to say: the one that was given out last, on a path, to hold it
//! ```

use std::collections::BTreeMap;
use std::fmt;

use super::find::{may_be, place};
use super::prove::all_keep;
use super::state::{Entry, Layout, Object, PartType, outcome};
use super::{Link, equality};
use crate::access::Access;
use crate::expr::{Kind, Sort, Term, Terms};
use crate::path::CallPath;
use crate::solver::Solver;

/// Of every key in the map there is one object that holds it, and every object holds such a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// The map.
    pub map: String,
    /// The allocator.
    pub allocator: String,
    /// For each part of the key, in order, the part of the object that equals it, and the key's own.
    pub equal: Vec<(String, String)>,
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { map, allocator, .. } = self;
        let equal = self.equal.iter().map(|(part, of)| equality(part, of));
        let equal: Vec<String> = equal.collect();
        write!(f, "`{map}` has a key where `{allocator}` has an object: {}", equal.join(", "))
    }
}

impl Pairing {
    pub(crate) fn concerns(&self, access: &Access) -> bool {
        access.object == self.map || access.object == self.allocator
    }

    pub(crate) fn changed_by(&self, access: &Access) -> bool {
        self.concerns(access) && Link::is_changed_by(&access.operation)
    }
}

/// Pairings that every path which stores both a key and an object would make, of objects whose end is told; each
/// is to be proved.
pub(crate) fn pairings(paths: &[CallPath], told: &[String], terms: &Terms) -> Vec<Pairing> {
    let mut found: BTreeMap<(&str, &str), Pairing> = BTreeMap::new();
    for path in paths {
        for (at, insert) in path.accesses.iter().enumerate() {
            if insert.kind != "Map" || insert.operation != "insert" {
                continue;
            }
            for allocator in told {
                let Some(here) = pairing(&path.accesses[..at], allocator, insert, terms) else {
                    continue;
                };
                let pair = (insert.object.as_str(), allocator.as_str());
                match found.get_mut(&pair) {
                    Some(known) => known.equal.retain(|equal| here.equal.contains(equal)),
                    None => drop(found.insert(pair, here)),
                }
            }
        }
    }
    let is_whole = |pairing: &Pairing| {
        let own = paths.iter().flat_map(|path| &path.accesses);
        let mut own = own.filter(|one| one.object == pairing.map && !one.key.is_empty());
        own.next().is_some_and(|one| one.key.len() == pairing.equal.len())
    };
    found.into_values().filter(is_whole).collect()
}

/// The parts of an object that has been given out before, and is not what the map is given, that are the whole
/// key.
fn pairing(before: &[Access], allocator: &str, insert: &Access, terms: &Terms) -> Option<Pairing> {
    let gives =
        |access: &&Access| access.object == allocator && access.operation.starts_with("allocate");
    let given = before.iter().rev().find(gives)?;
    let index = place(given)?;
    if insert.value.iter().any(|part| part.term == index) {
        return None;
    }
    let of_key = insert.key.iter().map(|of| {
        let part = given.value.iter().find(|part| may_be(part.term, of.term, terms))?;
        Some((part.name.clone(), of.name.clone()))
    });
    let equal = of_key.collect::<Option<Vec<_>>>()?;
    Some(Pairing { map: insert.object.clone(), allocator: allocator.to_owned(), equal })
}

/// Whether all `paths` keep the pairing, each from any state in which it holds.
pub(crate) fn is_kept(
    pairing: &Pairing,
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<bool, String> {
    let matters = |part: &PartType| pairing.equal.iter().any(|(name, _)| *name == part.name);
    let layouts = Layout::of(&pairing.map, paths, terms, |_| false).zip(Layout::of(
        &pairing.allocator,
        paths,
        terms,
        matters,
    ));
    let Some((map, objects)) = layouts else { return Ok(false) };
    let part = |(name, _): &(String, String)| objects.parts.iter().position(|p| p.name == *name);
    let parts: Option<Vec<usize>> = pairing.equal.iter().map(part).collect();
    let Some(parts) = parts.filter(|parts| parts.len() == map.key.len()) else { return Ok(false) };
    let breaks = |path: &CallPath, terms: &mut Terms| {
        let (map, objects) =
            (Object::new(&pairing.map, &map), Object::new(&pairing.allocator, &objects));
        Trial { pairing, parts: &parts, terms, map, objects }.breaks(path)
    };
    all_keep(|access| pairing.concerns(access), breaks, paths, terms, solver)
}

/// One path against one pairing.
struct Trial<'p, 't> {
    pairing: &'p Pairing,
    /// Which parts of an object are the key's, in its order.
    parts: &'p [usize],
    terms: &'t mut Terms,
    map: Object<'p>,
    objects: Object<'p>,
}

/// Which object holds a key: at first any function of the key, in the end one of those that the path has touched
/// where that holds it then.
#[derive(Clone, Copy)]
enum When {
    First,
    End,
}

impl Trial<'_, '_> {
    /// What would hold if the path broke the pairing; `None`: it does something that is not understood.
    fn breaks(mut self, path: &CallPath) -> Option<Vec<Term>> {
        for access in path.accesses.iter().filter(|access| self.pairing.concerns(access)) {
            let object = match access.object == self.pairing.map {
                true => &mut self.map,
                false => &mut self.objects,
            };
            object.access(access, self.terms)?;
            object.facts.extend(outcome(access, path, self.terms));
        }
        let mut facts = std::mem::take(&mut self.map.facts);
        facts.append(&mut self.objects.facts);
        let terms = &mut *self.terms;
        let any = |part: &PartType, terms: &mut Terms| {
            terms.symbol(&format!("any {}", part.name), part.sort, Kind::Number)
        };
        let key: Vec<Term> = self.map.layout.key.iter().map(|part| any(part, terms)).collect();
        let index = vec![terms.symbol("any index", Sort::Bits(32), Kind::Number)];
        let mut keys = vec![key.clone()];
        keys.extend(self.map.keys.clone());
        let mut indices = vec![index.clone()];
        indices.extend(self.objects.keys.clone());
        for at in indices.clone() {
            let held = self.objects.at_first(&at, self.terms);
            keys.push(self.key_in(&held));
        }
        for key in &keys {
            facts.push(self.has_holder(key, When::First));
            indices.push(self.holder(key, When::First));
        }
        for index in &indices {
            facts.push(self.has_key(index, When::First));
        }
        let both = [self.has_holder(&key, When::End), self.has_key(&index, When::End)];
        let kept = self.terms.both(both[0], both[1]);
        facts.push(self.terms.not(kept));
        Some(facts)
    }

    /// The key that an object holds.
    fn key_in(&self, object: &Entry) -> Vec<Term> {
        self.parts.iter().map(|&part| object.value[part]).collect()
    }

    fn object(&mut self, index: &[Term], when: When) -> Entry {
        match when {
            When::First => self.objects.at_first(index, self.terms),
            When::End => self.objects.at(index, self.terms),
        }
    }

    fn has(&mut self, key: &[Term], when: When) -> Term {
        match when {
            When::First => self.map.at_first(key, self.terms).present,
            When::End => self.map.at(key, self.terms).present,
        }
    }

    /// Whether there is an object under `index` that holds `key`.
    fn holds(&mut self, index: &[Term], key: &[Term], when: When) -> Term {
        let object = self.object(index, when);
        let held = self.key_in(&object);
        held.iter().zip(key).fold(object.present, |all, (held, key)| {
            let same = self.terms.equal(*held, *key);
            self.terms.both(all, same)
        })
    }

    /// The index of the object that holds `key`, where one does.
    fn holder(&mut self, key: &[Term], when: When) -> Vec<Term> {
        let name = format!("{}#holder", self.pairing.map);
        let mut holder = self.terms.apply(&name, Sort::Bits(32), Kind::Number, key);
        if matches!(when, When::End) {
            for index in self.objects.keys.clone() {
                let holds = self.holds(&index, key, when);
                holder = self.terms.ite(holds, index[0], holder);
            }
        }
        vec![holder]
    }

    /// If the map has `key`, an object holds it.
    fn has_holder(&mut self, key: &[Term], when: When) -> Term {
        let holder = self.holder(key, when);
        let (has, holds) = (self.has(key, when), self.holds(&holder, key, when));
        let absent = self.terms.not(has);
        self.terms.either(absent, holds)
    }

    /// If there is an object under `index`, the map has its key, and it is the one that holds it.
    fn has_key(&mut self, index: &[Term], when: When) -> Term {
        let object = self.object(index, when);
        let key = self.key_in(&object);
        let holder = self.holder(&key, when);
        let (has, is_it) = (self.has(&key, when), self.terms.equal(holder[0], index[0]));
        let (fits, absent) = (self.terms.both(has, is_it), self.terms.not(object.present));
        self.terms.either(absent, fits)
    }
}
