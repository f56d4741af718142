//! Whether every path keeps a link: from any state in which it holds, of whatever key is asked for.

use super::Link;
use super::find::place;
use super::state::{Entry, Object, Write};
use crate::access::{Access, Part};
use crate::expr::{Kind, Sort, SymbolId, Term, Terms};
use crate::hash::FastSet;
use crate::path::CallPath;
use crate::solver::Solver;

/// Whether all `paths` keep the link; each begins in any state in which it holds. A question that is not
/// decided counts as no.
pub(crate) fn holds(
    link: &Link,
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<bool, String> {
    let Some(shape) = Shape::of(link, paths, terms) else { return Ok(false) };
    let mut known = FastSet::default();
    for path in paths.iter().filter(|path| path.accesses.iter().any(|one| link.changed_by(one))) {
        // Most paths do the same to these two objects as another does.
        let done = done(link, path, terms);
        if known.contains(&done) {
            continue;
        }
        let Some(breaks) = Trial::new(link, &shape, terms).breaks(path) else { return Ok(false) };
        if solver.refutes(softened(&breaks, terms), terms)? {
            known.insert(done);
            continue;
        }
        let all = with_conditions(breaks, path, terms);
        if !solver.refutes(softened(&all, terms), terms)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a path does to the objects of a link, and how that ends.
fn done(link: &Link, path: &CallPath, terms: &Terms) -> Vec<(String, Vec<Term>, Option<bool>)> {
    let accesses = path.accesses.iter().filter(|access| link.concerns(access));
    let done = accesses.map(|access| {
        let parts = access.key.iter().chain(&access.value).chain(&access.result);
        let all = parts.map(|part| part.term).chain(access.outcome).collect();
        (format!("{} {}", access.object, access.operation), all, path.outcome(access, terms))
    });
    done.collect()
}

/// With the conditions of the path that are about nothing else.
fn with_conditions(mut facts: Vec<Term>, path: &CallPath, terms: &Terms) -> Vec<Term> {
    let unknowns = facts.iter().flat_map(|fact| terms.unknowns(*fact).iter().copied());
    let unknowns: FastSet<SymbolId> = unknowns.collect();
    let conditions = path.conditions.iter().map(|made| made.term);
    facts.extend(
        conditions.filter(|one| terms.unknowns(*one).iter().all(|id| unknowns.contains(id))),
    );
    facts
}

/// Products of unknowns are any numbers: what is proved so is proved.
fn softened(all: &[Term], terms: &mut Terms) -> Vec<Term> {
    all.iter().map(|term| terms.softened(*term)).collect()
}

/// Of what sorts the parts of keys and objects are that matter.
struct Shape {
    key: Vec<(String, Sort)>,
    /// In the order of the link's equalities.
    parts: Vec<Sort>,
}

impl Shape {
    fn of(link: &Link, paths: &[CallPath], terms: &Terms) -> Option<Self> {
        let all = || paths.iter().flat_map(|path| &path.accesses);
        let insert = all().find(|one| one.object == link.map && one.operation == "insert")?;
        let named = |part: &Part| (part.name.clone(), terms.sort(part.term));
        let stores =
            all().find(|one| one.object == link.allocator && one.operation.starts_with("alloc"))?;
        let sort = |(name, _): &(String, String)| {
            let part = stores.value.iter().find(|part| part.name == *name);
            part.map(|part| terms.sort(part.term))
        };
        let is_index = terms.sort(insert.value.first()?.term) == Sort::Bits(32);
        is_index.then_some(())?;
        Some(Self {
            key: insert.key.iter().map(named).collect(),
            parts: link.equal.iter().map(sort).collect::<Option<_>>()?,
        })
    }
}

impl Shape {
    /// Whether a key has these parts: one of a known variant has no others.
    fn fits(&self, key: &[Part], terms: &Terms) -> bool {
        let parts = key.iter().map(|part| (&part.name, terms.sort(part.term)));
        parts.eq(self.key.iter().map(|(name, sort)| (name, *sort)))
    }
}

/// One path against one link.
struct Trial<'l, 't> {
    link: &'l Link,
    shape: &'l Shape,
    terms: &'t mut Terms,
    map: Object<'l>,
    allocator: Object<'l>,
    /// What is so on the path.
    facts: Vec<Term>,
}

impl<'l, 't> Trial<'l, 't> {
    fn new(link: &'l Link, shape: &'l Shape, terms: &'t mut Terms) -> Self {
        let object = |name: &'l str, parts| Object { name, parts, writes: Vec::new() };
        let map = object(&link.map, vec![Sort::Bits(32)]);
        let allocator = object(&link.allocator, shape.parts.clone());
        Self { link, shape, terms, map, allocator, facts: Vec::new() }
    }

    /// What would hold if the path broke the link of some key; `None`: it does something that is not
    /// understood.
    fn breaks(mut self, path: &CallPath) -> Option<Vec<Term>> {
        let key = self.shape.key.iter();
        let any: Vec<Term> = key
            .map(|(name, sort)| self.terms.symbol(&format!("any {name}"), *sort, Kind::Number))
            .collect();
        let mut keys = vec![any.clone()];
        for access in path.accesses.iter().filter(|access| self.link.concerns(access)) {
            match access.object == self.link.map {
                true => keys.extend(self.map_access(access)?),
                false => self.allocator_access(access)?,
            }
            self.outcome(access, path);
        }
        for key in keys {
            let before = self.map.at_first(&key, self.terms);
            let kept = self.linked(&key, &before, false)?;
            self.facts.push(kept);
        }
        let after = self.map.at(&any, self.terms);
        let kept = self.linked(&any, &after, true)?;
        let broken = self.terms.not(kept);
        self.facts.push(broken);
        Some(self.facts)
    }

    /// That the link holds of a key under which the map has `entry`, in the end or at first.
    fn linked(&mut self, key: &[Term], entry: &Entry, in_the_end: bool) -> Option<Term> {
        let object = match in_the_end {
            true => self.allocator.at(&entry.value, self.terms),
            false => self.allocator.at_first(&entry.value, self.terms),
        };
        let mut holds = object.present;
        for ((_, of), part) in self.link.equal.iter().zip(&object.value) {
            let at = self.shape.key.iter().position(|(name, _)| name == of)?;
            let same = self.terms.equal(*part, *key.get(at)?);
            holds = self.terms.both(holds, same);
        }
        let absent = self.terms.not(entry.present);
        Some(self.terms.either(absent, holds))
    }

    /// What the path has found out by asking how an access ended.
    fn outcome(&mut self, access: &Access, path: &CallPath) {
        let Some(outcome) = access.outcome else { return };
        match path.outcome(access, self.terms) {
            Some(true) => self.facts.push(outcome),
            Some(false) => {
                let not = self.terms.not(outcome);
                self.facts.push(not);
            }
            None => {}
        }
    }

    /// Notes what an access of the map says and writes; returns its key.
    fn map_access(&mut self, access: &Access) -> Option<Option<Vec<Term>>> {
        if access.operation == "len" {
            return Some(None);
        }
        let key: Vec<Term> = access.key.iter().map(|part| part.term).collect();
        let outcome = access.outcome.filter(|_| self.shape.fits(&access.key, self.terms))?;
        let now = self.map.at(&key, self.terms);
        let new: Vec<Term> = access.value.iter().map(|part| part.term).collect();
        let (when, value) = match access.operation.as_str() {
            "get" | "contains" => (None, None),
            "insert" => (Some(outcome), Some(new)),
            "remove" => (Some(outcome), None),
            "update" if new.is_empty() => (None, None),
            "update" => (Some(outcome), Some(new)),
            _ => return None,
        };
        if access.operation != "insert" {
            self.same(outcome, now.present);
            self.told(outcome, &access.result, &[String::new()], &now.value);
        }
        if let Some(when) = when {
            self.map.writes.push(Write { key: key.clone(), when, value });
        }
        Some(Some(key))
    }

    /// Notes what an access of the allocator says and writes. An object that is over is there until it
    /// is collected: what is not found may be there.
    fn allocator_access(&mut self, access: &Access) -> Option<()> {
        if access.operation == "len" {
            return Some(());
        }
        let key = vec![place(access)?];
        let parts: Vec<String> = self.link.equal.iter().map(|(part, _)| part.clone()).collect();
        let named = |name: &String| access.value.iter().find(|part| part.name == *name);
        let new = || -> Option<Vec<Term>> {
            parts.iter().map(|name| named(name).map(|part| part.term)).collect()
        };
        let now = self.allocator.at(&key, self.terms);
        let always = self.terms.bool(true);
        let outcome = access.outcome.unwrap_or(always);
        let write = match access.operation.as_str() {
            "get" | "touch" | "is_allocated" | "refresh" => None,
            "allocate" | "allocate_within" | "allocate_at" => Some((outcome, Some(new()?))),
            "set" => Some((outcome, Some(new()?))),
            "update" if access.value.is_empty() => None,
            "update" => Some((outcome, Some(new()?))),
            "free" | "expire" => Some((always, None)),
            _ => return None,
        };
        match access.operation.as_str() {
            "allocate" | "allocate_within" | "allocate_at" => {
                let free = self.terms.not(now.present);
                self.implied(outcome, free);
            }
            "set" | "update" | "free" | "expire" => self.same(outcome, now.present),
            _ => self.implied(outcome, now.present),
        }
        if !access.operation.starts_with("alloc") {
            self.told(outcome, &access.result, &parts, &now.value);
        }
        if let Some((when, value)) = write {
            self.allocator.writes.push(Write { key, when, value });
        }
        Some(())
    }

    fn same(&mut self, a: Term, b: Term) {
        let same = self.terms.equal(a, b);
        self.facts.push(same);
    }

    fn implied(&mut self, outcome: Term, fact: Term) {
        let not = self.terms.not(outcome);
        let implied = self.terms.either(not, fact);
        self.facts.push(implied);
    }

    /// Where the access found something, its result is what was there.
    fn told(&mut self, outcome: Term, result: &[Part], names: &[String], there: &[Term]) {
        for (name, there) in names.iter().zip(there) {
            let told = result.iter().find(|part| part.name == *name);
            if let Some(told) =
                told.filter(|told| self.terms.sort(told.term) == self.terms.sort(*there))
            {
                let same = self.terms.equal(told.term, *there);
                self.implied(outcome, same);
            }
        }
    }
}
