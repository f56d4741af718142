//! Maps that count the objects of an allocator: under a key stands how many objects hold it, and nothing where none
//! does.
//!
//! ```text
//! hosts[address]        how many mappings there are whose inside address that is, static ones left out
//! ```

use std::fmt;

use super::find::{Held, distinct, given, held};
use super::prove::{all_keep, can_be, is_linked};
use super::state::{Entry, Layout, Object, PartType};
use super::{Fixed, Link, Values, equality};
use crate::access::{Access, Part};
use crate::expr::{Binary, Kind, Sort, Term, Terms};
use crate::path::CallPath;
use crate::solver::Solver;

/// How many objects have something in common stands in a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The map.
    pub map: String,
    /// The allocator.
    pub allocator: String,
    /// For each part of the key, in order, the part of an object that equals it, and the key's own.
    pub equal: Vec<(String, String)>,
    /// Objects of which this is so are not counted.
    pub but: Option<Fixed>,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { map, allocator, .. } = self;
        let equal: Vec<String> = self.equal.iter().map(|(part, of)| equality(part, of)).collect();
        write!(f, "`{map}[key]` counts `{allocator}`: {}", equal.join(", "))?;
        self.but.iter().try_for_each(|but| write!(f, ", but for {but}"))
    }
}

/// Counts that would be kept where a path gives out an object and puts a number under a part of it; each is to be
/// proved, those that leave nothing out first.
pub(crate) fn counts(paths: &[CallPath], told: &[String], terms: &Terms) -> Vec<Counted> {
    let counts = |held: &Held<'_>| {
        let is_number =
            |part: &Part| part.name.is_empty() && terms.sort(part.term) == Sort::Bits(32);
        matches!(&*held.insert.value, [number] if is_number(number))
    };
    let all = held(paths, told, terms).filter(counts);
    let all = distinct(all.map(|Held { insert, allocator, equal }| Counted {
        map: insert.object.clone(),
        allocator: allocator.clone(),
        equal,
        but: None,
    }));
    let with_left_out = |one: Counted| {
        let left_out = left_out(paths, &one, terms).into_iter().map(Some);
        let but = std::iter::once(None).chain(left_out);
        but.map(move |but| Counted { but, ..one.clone() })
    };
    all.into_iter().flat_map(with_left_out).collect()
}

/// What objects may have that are not counted: variants of those that are given out where the map is left alone.
fn left_out(paths: &[CallPath], counted: &Counted, terms: &Terms) -> Vec<Fixed> {
    let leaves_alone =
        |path: &&CallPath| path.accesses.iter().all(|access| access.object != counted.map);
    let paths = paths.iter().filter(leaves_alone);
    let given = paths.flat_map(|path| given(&path.accesses, &counted.allocator));
    let parts = given.flat_map(|access| &access.value);
    let variants = parts.filter(|part| matches!(part.kind, Kind::Variants(_)));
    distinct(variants.filter_map(|part| Fixed::of(part, terms)))
}

/// Whether all `paths` keep the count, each from any state in which it is right, `links` hold, and objects are what
/// `values` says.
pub(crate) fn is_counted(
    counted: &Counted,
    (links, values): (&[Link], Option<&Values>),
    paths: &[CallPath],
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<bool, String> {
    let links =
        links.iter().filter(|link| link.allocator == counted.allocator && link.map != counted.map);
    let links: Vec<&Link> = links.collect();
    let matters = |part: &PartType| {
        let in_link = |link: &&Link| {
            link.equal.iter().any(|(name, _)| *name == part.name)
                || link.fixed.iter().any(|fixed| fixed.part == part.name)
        };
        counted.equal.iter().any(|(name, _)| *name == part.name)
            || counted.but.iter().any(|but| but.part == part.name)
            || values.is_some_and(|values| values.is_about(&part.name))
            || links.iter().any(in_link)
    };
    let Some(map) = Layout::of(&counted.map, paths, terms, |_| true) else { return Ok(false) };
    let objects = Layout::of(&counted.allocator, paths, terms, matters);
    let Some(objects) = objects else { return Ok(false) };
    let part = |but: &Fixed| objects.parts.iter().position(|part| part.name == but.part);
    let but = counted.but.as_ref().map(part);
    let parts = objects.keyed(&counted.equal, &map);
    let (Some(parts), true) = (parts, but != Some(None)) else { return Ok(false) };
    let named = links.iter().filter_map(|link| Some((*link, link.layout_of_map(paths, terms)?)));
    let named: Vec<(&Link, Layout)> = named.collect();
    if !matches!(&*map.parts, [it] if it.sort == Sort::Bits(32)) {
        return Ok(false);
    }
    let concerns = |access: &Access| {
        access.object == counted.map
            || access.object == counted.allocator
            || named.iter().any(|(link, _)| access.object == link.map)
    };
    let breaks = |path: &CallPath, terms: &mut Terms| {
        let trial = Trial {
            counted,
            values,
            parts: &parts,
            but: but.flatten(),
            map: Object::new(&counted.map, &map),
            objects: Object::new(&counted.allocator, &objects),
            named: named.iter().map(|(link, map)| (*link, Object::new(&link.map, map))).collect(),
            terms,
        };
        trial.breaks(path)
    };
    all_keep(concerns, breaks, paths, terms, solver)
}

/// One path against one count.
struct Trial<'p, 't> {
    counted: &'p Counted,
    values: Option<&'p Values>,
    /// Which parts of an object are the key's, in its order.
    parts: &'p [usize],
    /// Which part says that an object is not counted.
    but: Option<usize>,
    map: Object<'p>,
    objects: Object<'p>,
    /// Maps that name objects.
    named: Vec<(&'p Link, Object<'p>)>,
    terms: &'t mut Terms,
}

/// More objects than an allocator can have.
const MANY: u128 = (1 << 32) - 1_024;

impl Trial<'_, '_> {
    /// What would hold if the path made the count wrong; `None`: it does something that is not understood.
    fn breaks(mut self, path: &CallPath) -> Option<Vec<Term>> {
        for access in &path.accesses {
            if self.gives_nothing(access, path) {
                continue;
            }
            let named = &mut self.named;
            let object = match &access.object {
                map if *map == self.counted.map => &mut self.map,
                objects if *objects == self.counted.allocator => &mut self.objects,
                other => match named.iter_mut().find(|(link, _)| link.map == *other) {
                    Some((_, object)) => object,
                    None => continue,
                },
            };
            object.follow(access, path, self.terms)?;
        }
        let mut facts = std::mem::take(&mut self.map.facts);
        facts.append(&mut self.objects.facts);
        self.named.iter_mut().for_each(|(_, map)| facts.append(&mut map.facts));
        let key = self.map.layout.any_key(self.terms);
        facts.extend(self.known_at_first()?);
        let mut keys = self.map.keys.clone();
        keys.push(key.clone());
        for key in &keys {
            let count = self.count(key);
            let entry = self.map.at_first(key, self.terms);
            facts.push(self.is_right(&entry, count));
            let before = self.touched(key, false);
            let least = self.terms.binary(Binary::LessEqualUnsigned, before, count);
            let many = self.terms.constant(MANY, 32);
            let most = self.terms.binary(Binary::LessUnsigned, count, many);
            facts.extend([least, most]);
        }
        let (count, before, after) =
            (self.count(&key), self.touched(&key, false), self.touched(&key, true));
        let more = self.terms.binary(Binary::Add, count, after);
        let count = self.terms.binary(Binary::Sub, more, before);
        let entry = self.map.at(&key, self.terms);
        let kept = self.is_right(&entry, count);
        facts.push(self.terms.not(kept));
        Some(facts)
    }

    /// Whether an access has asked for an index in vain.
    fn gives_nothing(&mut self, access: &Access, path: &CallPath) -> bool {
        let Some(outcome) = access.outcome.filter(|_| access.operation.starts_with("alloc")) else {
            return false;
        };
        let refused = self.terms.not(outcome);
        self.terms.bool_of(refused) == Some(true) || path.holds.contains(&refused)
    }

    /// What is proved otherwise of what the path asks for.
    fn known_at_first(&mut self) -> Option<Vec<Term>> {
        let (mut facts, mut indices) = (Vec::new(), self.objects.keys.clone());
        for (link, map) in &self.named {
            for key in &map.keys {
                let entry = map.at_first(key, self.terms);
                let object = self.objects.at_first(&entry.value, self.terms);
                let (of_map, of_objects) = (map.layout, self.objects.layout);
                let link = is_linked(
                    link,
                    (of_map, key, entry.present),
                    (of_objects, &object),
                    self.terms,
                );
                facts.push(link?);
                indices.push(entry.value);
            }
        }
        for index in indices {
            let object = self.objects.at_first(&index, self.terms);
            let layout = self.objects.layout;
            facts.extend(self.values.map(|values| can_be(values, layout, &object, self.terms)));
        }
        Some(facts)
    }

    /// How many objects with this key there are at first.
    fn count(&mut self, key: &[Term]) -> Term {
        let name = format!("{}#count", self.counted.map);
        self.terms.apply(&name, Sort::Bits(32), Kind::Number, key)
    }

    /// How many of them are among those that the path touches, at first or in the end.
    fn touched(&mut self, key: &[Term], in_the_end: bool) -> Term {
        let indices = self.objects.keys.clone();
        let (none, one) = (self.terms.constant(0, 32), self.terms.constant(1, 32));
        let mut sum = none;
        for (at, index) in indices.iter().enumerate() {
            let object = match in_the_end {
                true => self.objects.at(index, self.terms),
                false => self.objects.at_first(index, self.terms),
            };
            let mut counts = self.counts(&object, key);
            for before in &indices[..at] {
                let same = self.terms.equal(before[0], index[0]);
                let other = self.terms.not(same);
                counts = self.terms.both(counts, other);
            }
            let more = self.terms.ite(counts, one, none);
            sum = self.terms.binary(Binary::Add, sum, more);
        }
        sum
    }

    /// Whether an object is there and counts as one with this key.
    fn counts(&mut self, object: &Entry, key: &[Term]) -> Term {
        let mut counts = object.present;
        for (part, key) in self.parts.iter().zip(key) {
            let same = self.terms.equal(object.value[*part], *key);
            counts = self.terms.both(counts, same);
        }
        if let (Some(but), Some(part)) = (&self.counted.but, self.but) {
            let value = but.term(self.terms);
            let left_out = self.terms.equal(object.value[part], value);
            let is_counted = self.terms.not(left_out);
            counts = self.terms.both(counts, is_counted);
        }
        counts
    }

    /// Whether what stands in the map is `count`.
    fn is_right(&mut self, entry: &Entry, count: Term) -> Term {
        let none = self.terms.constant(0, 32);
        let is_none = self.terms.equal(count, none);
        let absent = self.terms.not(entry.present);
        let same = self.terms.equal(absent, is_none);
        let is_count = self.terms.equal(entry.value[0], count);
        let told = self.terms.either(absent, is_count);
        self.terms.both(same, told)
    }
}
