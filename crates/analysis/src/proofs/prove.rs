//! Whether every path keeps a link: from any state in which it holds, of whatever key is asked for.

use super::state::{Entry, Layout, Object, PartType, relevant, softened};
use super::{Link, Values};
use crate::access::Access;
use crate::expr::{Term, Terms};
use crate::hash::FastSet;
use crate::path::CallPath;
use crate::solver::Solver;

/// The link, if all `paths` keep it, with as much of what is fixed as they do; each begins in any state in which
/// it holds, and objects are what `values` says. A question that is not decided counts as no.
pub(crate) fn prove(
    link: Link,
    values: Option<&Values>,
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<Option<Link>, String> {
    if holds(&link, values, paths, terms, solver)? {
        return Ok(Some(link));
    }
    if link.fixed.is_empty() {
        return Ok(None);
    }
    let less = Link { fixed: Vec::new(), ..link };
    Ok(holds(&less, values, paths, terms, solver)?.then_some(less))
}

fn holds(
    link: &Link,
    values: Option<&Values>,
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<bool, String> {
    let Some(shape) = Shape::of(link, values, paths, terms) else { return Ok(false) };
    let concerns = |access: &Access| link.concerns(access);
    let breaks = |path: &CallPath, terms: &mut Terms| Trial::new(link, &shape, terms).breaks(path);
    all_keep(concerns, breaks, paths, terms, solver)
}

/// Whether every path leaves true what is so of the objects that `concerns` picks accesses of. `breaks` says what
/// would hold if a path did not, by what it does to these objects alone; `None`: it does something that is not
/// understood.
pub(super) fn all_keep(
    concerns: impl Fn(&Access) -> bool,
    mut breaks: impl FnMut(&CallPath, &mut Terms) -> Option<Vec<Term>>,
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<bool, String> {
    let mut known = FastSet::default();
    let changed = |access: &Access| concerns(access) && Link::is_changed_by(&access.operation);
    for path in paths.iter().filter(|path| path.accesses.iter().any(changed)) {
        // Most paths do the same to these objects as another does.
        let done = done(&concerns, path, terms);
        if known.contains(&done) {
            continue;
        }
        let Some(breaks) = breaks(path, terms) else { return Ok(false) };
        if solver.refutes(softened(&breaks, terms), terms)? {
            known.insert(done);
            continue;
        }
        let mut all = breaks;
        all.extend(relevant(&all, path, terms));
        if !solver.refutes(softened(&all, terms), terms)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a path does to the objects of these accesses, and how that ends.
fn done(
    concerns: impl Fn(&Access) -> bool,
    path: &CallPath,
    terms: &Terms,
) -> Vec<(String, Vec<Term>, Option<bool>)> {
    let accesses = path.accesses.iter().filter(|access| concerns(access));
    let done = accesses.map(|access| {
        let parts = access.key.iter().chain(&access.value).chain(&access.result);
        let all = parts.map(|part| part.term).chain(access.outcome).chain(access.lifetime);
        (
            format!("{} {}", access.object, access.operation),
            all.collect(),
            path.outcome(access, terms),
        )
    });
    done.collect()
}

/// Of what parts the keys and objects are that matter.
struct Shape<'l> {
    map: Layout,
    objects: Layout,
    values: Option<&'l Values>,
}

impl<'l> Shape<'l> {
    fn of(
        link: &Link,
        values: Option<&'l Values>,
        paths: &[CallPath],
        terms: &Terms,
    ) -> Option<Self> {
        let matters = |part: &PartType| {
            let is_equal = link.equal.iter().any(|(name, _)| *name == part.name);
            let is_fixed = link.fixed.iter().any(|fixed| fixed.part == part.name);
            is_equal || is_fixed || values.is_some_and(|values| values.is_about(&part.name))
        };
        let map = link.layout_of_map(paths, terms)?;
        let objects = Layout::of(&link.allocator, paths, terms, matters)?;
        Some(Self { map, objects, values })
    }
}

/// One path against one link.
struct Trial<'l, 't> {
    link: &'l Link,
    shape: &'l Shape<'l>,
    terms: &'t mut Terms,
    map: Object<'l>,
    allocator: Object<'l>,
}

impl<'l, 't> Trial<'l, 't> {
    fn new(link: &'l Link, shape: &'l Shape<'l>, terms: &'t mut Terms) -> Self {
        let map = Object::new(&link.map, &shape.map);
        let allocator = Object::new(&link.allocator, &shape.objects);
        Self { link, shape, terms, map, allocator }
    }

    /// What would hold if the path broke the link of some key; `None`: it does something that is not
    /// understood.
    fn breaks(mut self, path: &CallPath) -> Option<Vec<Term>> {
        let any = self.shape.map.any_key(self.terms);
        for access in path.accesses.iter().filter(|access| self.link.concerns(access)) {
            let object = match access.object == self.link.map {
                true => &mut self.map,
                false => &mut self.allocator,
            };
            object.follow(access, path, self.terms)?;
        }
        let mut facts = std::mem::take(&mut self.map.facts);
        facts.append(&mut self.allocator.facts);
        let mut asked = std::mem::take(&mut self.allocator.keys);
        for key in std::iter::once(any.clone()).chain(std::mem::take(&mut self.map.keys)) {
            let before = self.map.at_first(&key, self.terms);
            facts.push(self.linked(&key, &before, false)?);
            asked.push(before.value);
        }
        for index in asked {
            facts.extend(self.can_be(&index));
        }
        let after = self.map.at(&any, self.terms);
        let kept = self.linked(&any, &after, true)?;
        facts.push(self.terms.not(kept));
        Some(facts)
    }

    /// That the link holds of a key under which the map has `entry`, in the end or at first.
    fn linked(&mut self, key: &[Term], entry: &Entry, in_the_end: bool) -> Option<Term> {
        let object = match in_the_end {
            true => self.allocator.at(&entry.value, self.terms),
            false => self.allocator.at_first(&entry.value, self.terms),
        };
        let Shape { map, objects, .. } = self.shape;
        is_linked(self.link, (map, key, entry.present), (objects, &object), self.terms)
    }

    /// That the object under `index` was one that can be.
    fn can_be(&mut self, index: &[Term]) -> Option<Term> {
        let object = self.allocator.at_first(index, self.terms);
        can_be(self.shape.values?, &self.shape.objects, &object, self.terms).into()
    }
}

/// That a link holds of `key`, which the map has if `present`, and of the object that is named there. `None`: the
/// layouts lack parts of it.
pub(super) fn is_linked(
    link: &Link,
    (map, key, present): (&Layout, &[Term], Term),
    (objects, object): (&Layout, &Entry),
    terms: &mut Terms,
) -> Option<Term> {
    let part = |wanted: &str| objects.parts.iter().position(|part| part.name == wanted);
    let mut holds = object.present;
    for (ours, of) in &link.equal {
        let at = map.key.iter().position(|part| part.name == *of)?;
        let same = terms.equal(*object.value.get(part(ours)?)?, *key.get(at)?);
        holds = terms.both(holds, same);
    }
    for fixed in &link.fixed {
        let is = *object.value.get(part(&fixed.part)?)?;
        let value = fixed.term(terms);
        let same = terms.equal(is, value);
        holds = terms.both(holds, same);
    }
    let absent = terms.not(present);
    Some(terms.either(absent, holds))
}

/// That an object, if it is there, is one that can be.
pub(super) fn can_be(values: &Values, layout: &Layout, object: &Entry, terms: &mut Terms) -> Term {
    let parts = layout.parts.iter().zip(&object.value);
    let parts: Vec<(&String, Term)> = parts.map(|(part, term)| (&part.name, *term)).collect();
    let mut part = |name: &str, _: &mut Terms| {
        let name = name.strip_prefix("it.")?;
        parts.iter().find(|(known, _)| *known == name).map(|(_, term)| *term)
    };
    let holds = values.holds(&mut part, terms);
    let absent = terms.not(object.present);
    terms.either(absent, holds)
}
