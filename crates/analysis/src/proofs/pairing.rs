//! Objects of an allocator and keys of a map that go in pairs, though neither names the other: each object holds a
//! key that is in the map, and of each key in the map there is one object.
//!
//! ```text
//! stations[address]         looks[i] = address
//!     which object holds a key is for the proof to say: the one that was given out last, on a path, to hold it
//! ```

use std::fmt;

use super::find::{Held, distinct, held};
use super::prove::all_keep;
use super::state::{Entry, Layout, Object, PartType};
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
        let equal: Vec<String> = self.equal.iter().map(|(part, of)| equality(part, of)).collect();
        write!(f, "`{map}` has a key where `{allocator}` has an object: {}", equal.join(", "))
    }
}

impl Pairing {
    fn concerns(&self, access: &Access) -> bool {
        access.object == self.map || access.object == self.allocator
    }

    pub(crate) fn changed_by(&self, access: &Access) -> bool {
        self.concerns(access) && Link::is_changed_by(&access.operation)
    }
}

/// Pairings that a path would make which stores both a key and an object; each is to be proved.
pub(crate) fn pairings(paths: &[CallPath], told: &[String], terms: &Terms) -> Vec<Pairing> {
    distinct(held(paths, told, terms).map(|Held { insert, allocator, equal }| Pairing {
        map: insert.object.clone(),
        allocator: allocator.clone(),
        equal,
    }))
}

/// Whether all `paths` keep the pairing, each from any state in which it holds.
pub(crate) fn is_kept(
    pairing: &Pairing,
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<bool, String> {
    let Pairing { map: name, allocator, equal } = pairing;
    let matters = |part: &PartType| equal.iter().any(|(name, _)| *name == part.name);
    let map = Layout::of(name, paths, terms, |_| false);
    let Some((map, objects)) = map.zip(Layout::of(allocator, paths, terms, matters)) else {
        return Ok(false);
    };
    let Some(parts) = objects.keyed(equal, &map) else { return Ok(false) };
    let breaks = |path: &CallPath, terms: &mut Terms| {
        let (map, objects) = (Object::new(name, &map), Object::new(allocator, &objects));
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
            object.follow(access, path, self.terms)?;
        }
        let mut facts = std::mem::take(&mut self.map.facts);
        facts.append(&mut self.objects.facts);
        let key = self.map.layout.any_key(self.terms);
        let index = vec![self.terms.symbol("any index", Sort::Bits(32), Kind::Number)];
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
