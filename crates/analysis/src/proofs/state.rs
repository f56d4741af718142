//! A state object at one point of a path, as a function of the key: what it was at the beginning, which
//! may be anything, and what the path has written since.

use super::find::{distinct, place};
use crate::access::{Access, Part};
use crate::expr::{Kind, Sort, SymbolId, Term, Terms};
use crate::hash::FastSet;
use crate::path::CallPath;

/// What the part of an object is called that says whether it never ends: its lifetime was given as
/// [`u64::MAX`] nanoseconds. No part of the author's has such a name.
pub(crate) const ENDLESS: &str = "#endless";

/// A part of a key or of a value, whatever it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartType {
    pub(super) name: String,
    pub(super) sort: Sort,
    /// How it is written.
    pub(super) kind: Kind,
}

impl PartType {
    pub(super) fn of(part: &Part, terms: &Terms) -> Self {
        let (name, sort) = (part.name.clone(), terms.sort(part.term));
        Self { name, sort, kind: part.kind.clone() }
    }

    /// Which variant of this tag `other` is a part of.
    fn variant_of(&self, other: &Self) -> Option<u128> {
        let (of, Kind::Variants(names)) = (self.name.strip_suffix("variant")?, &self.kind) else {
            return None;
        };
        let within = other.name.strip_prefix(of)?;
        let is_in =
            |name: &String| within.strip_prefix(&**name).is_some_and(|it| it.starts_with('.'));
        names.iter().position(is_in).map(|at| at as u128)
    }

    /// Whether it is one of few: a boolean, a variant, a byte.
    pub(super) fn is_small(&self) -> bool {
        match self.kind {
            Kind::Variants(_) => true,
            Kind::Number => self.sort.width() <= 8,
            _ => self.sort == Sort::Bool,
        }
    }
}

/// How entries come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries {
    /// Of a map.
    Stored,
    /// Of an allocator: until they are freed, or collected some time after they have ended.
    Lasting,
    /// Of a vector, or the one of a cell: there from the start, all zero.
    Fixed,
    /// Of packet sets: on each path one, the packet's own or the one that ends, known by its class alone.
    Own,
}

/// The kind of a local that turns of a loop leave to the next ones: it is gone before anybody else looks.
pub(crate) const LOCAL: &str = "local";

/// What the class of a packet set is called, as if it were a part of the key.
pub(crate) const CLASS: &str = "#class";

/// Of what parts keys and values of an object are.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) entries: Entries,
    pub(super) key: Vec<PartType>,
    pub(super) parts: Vec<PartType>,
}

impl Layout {
    /// That of `object`, as `paths` store it; of values the parts that are `wanted`, and of an allocator's
    /// objects whether they never end. `None`: nothing is stored, or it is stored otherwise.
    pub(super) fn of(
        object: &str,
        paths: &[CallPath],
        terms: &Terms,
        wanted: impl Fn(&PartType) -> bool,
    ) -> Option<Self> {
        let all =
            || paths.iter().flat_map(|path| &path.accesses).filter(|one| one.object == object);
        let mut stores = all().filter(|one| !one.value.is_empty());
        let first = stores.next()?;
        // Where some are changed there are fewer, and of another variant of a local.
        let stores = match first.kind {
            "PacketSet" | LOCAL => stores.fold(first, |most, one| {
                let is_more = one.value.len() > most.value.len();
                if is_more { one } else { most }
            }),
            _ => first,
        };
        let typed = |part: &Part| PartType::of(part, terms);
        let mut parts: Vec<PartType> = stores.value.iter().map(typed).collect();
        if stores.kind == "Allocator" {
            // One of a known variant has fewer parts.
            for part in all().flat_map(|one| &one.value).map(typed) {
                let is_of_variant = parts.iter().any(|tag| tag.variant_of(&part).is_some());
                if is_of_variant && parts.iter().all(|known| known.name != part.name) {
                    parts.push(part);
                }
            }
        }
        parts.retain(wanted);
        let number =
            || vec![PartType { name: String::new(), sort: Sort::Bits(32), kind: Kind::Number }];
        let (entries, key) = match stores.kind {
            "Map" => {
                // One of a known variant has fewer parts.
                let mut key: Vec<PartType> = Vec::new();
                for part in all().flat_map(|one| &one.key) {
                    if key.iter().all(|known| known.name != part.name) {
                        key.push(typed(part));
                    }
                }
                (Entries::Stored, key)
            }
            "Allocator" => {
                let (name, kind) = (ENDLESS.to_owned(), Kind::Number);
                parts.push(PartType { name, sort: Sort::Bool, kind });
                (Entries::Lasting, number())
            }
            "Vector" => (Entries::Fixed, number()),
            "Cell" => (Entries::Fixed, Vec::new()),
            "PacketSet" => {
                let names = distinct(paths.iter().filter_map(|path| path.class.clone()));
                let kind = Kind::Variants(names.into());
                let (name, sort) = (CLASS.to_owned(), Sort::Bits(8));
                (Entries::Own, vec![PartType { name, sort, kind }])
            }
            LOCAL => (Entries::Own, Vec::new()),
            _ => return None,
        };
        Some(Self { entries, key, parts })
    }

    /// Leaves out what only some variants of objects have.
    pub(super) fn without_variants(&mut self) {
        if self.entries == Entries::Lasting {
            let all = self.parts.clone();
            self.parts.retain(|part| all.iter().all(|tag| tag.variant_of(part).is_none()));
        }
    }

    /// A part of what an access stores or is told.
    fn part(&self, part: &PartType, value: &[Part], terms: &mut Terms) -> Option<Term> {
        match self.entries {
            Entries::Lasting => part_of(part, (&self.parts, value), terms),
            _ => {
                let own = value.iter().find(|own| own.name == part.name)?.term;
                (terms.sort(own) == part.sort).then_some(own)
            }
        }
    }

    /// A key that may be any.
    pub(super) fn any_key(&self, terms: &mut Terms) -> Vec<Term> {
        let any =
            |part: &PartType| terms.symbol(&format!("any {}", part.name), part.sort, Kind::Number);
        self.key.iter().map(any).collect()
    }

    /// Which parts of its objects are those that equal the parts of `map`'s keys, in their order. `None`: it lacks
    /// one, or they are not the whole key.
    pub(super) fn keyed(&self, equal: &[(String, String)], map: &Self) -> Option<Vec<usize>> {
        let place = |(part, _): &(String, String)| self.parts.iter().position(|p| p.name == *part);
        let places: Option<Vec<usize>> = equal.iter().map(place).collect();
        places.filter(|places| places.len() == map.key.len())
    }

    /// Whether it is of packet sets.
    pub(super) fn is_of_packet(&self) -> bool {
        self.entries == Entries::Own && !self.key.is_empty()
    }

    /// That the packet set of `path` is of the class that its packet is of.
    pub(super) fn is_of_class(&self, path: &CallPath, terms: &mut Terms) -> Option<Term> {
        let (Entries::Own, [class]) = (self.entries, &*self.key) else { return None };
        let Kind::Variants(names) = &class.kind else { return None };
        let number = names.iter().position(|name| Some(name) == path.class.as_ref())?;
        let (own, number) = (self.any_key(terms), terms.constant(number as u128, 8));
        Some(terms.equal(*own.first()?, number))
    }

    /// The key of an access; `None`: it is not of these parts.
    fn key_of(&self, access: &Access, terms: &mut Terms) -> Option<Vec<Term>> {
        match self.entries {
            Entries::Lasting => Some(vec![place(access)?]),
            Entries::Own => Some(self.any_key(terms)),
            _ => {
                let part = |part| part_of(part, (&self.key, &access.key), terms);
                self.key.iter().map(part).collect()
            }
        }
    }
}

/// A part of what is made of these: zero where it is of another variant than that is, so that two are the same if
/// their parts are.
fn part_of(
    part: &PartType,
    (types, parts): (&[PartType], &[Part]),
    terms: &mut Terms,
) -> Option<Term> {
    let named = |name: &str| parts.iter().find(|part| part.name == name);
    let own = named(&part.name).map(|own| own.term);
    if own.is_some_and(|own| terms.sort(own) != part.sort) {
        return None;
    }
    let zero = terms.zero(part.sort);
    let mut all = own.unwrap_or(zero);
    let mut is_of_another = false;
    for (tag, variant) in types.iter().filter_map(|tag| Some((tag, tag.variant_of(part)?))) {
        let tag = named(&tag.name)?.term;
        is_of_another |= terms.constant_of(tag).is_some_and(|tag| tag != variant);
        let variant = terms.constant(variant, terms.width(tag));
        let is_of_it = terms.equal(tag, variant);
        all = terms.ite(is_of_it, all, zero);
    }
    (is_of_another || own.is_some()).then_some(all)
}

/// Whether an entry is there, and the parts of its value that matter.
pub(super) struct Entry {
    pub(super) present: Term,
    pub(super) value: Vec<Term>,
}

/// What is written to an entry, if `when` holds.
pub(super) struct Write {
    pub(super) key: Vec<Term>,
    pub(super) when: Term,
    /// Its new value; `None`: it is there no more.
    pub(super) value: Option<Vec<Term>>,
}

/// When an access writes, and what, as in [`Write`]; `None`: it does not.
type Written = Option<(Term, Option<Vec<Term>>)>;

/// An object, what a path has written to it so far, and what it has found out.
pub(super) struct Object<'l> {
    pub(super) name: &'l str,
    pub(super) layout: &'l Layout,
    pub(super) writes: Vec<Write>,
    /// What was asked for.
    pub(super) keys: Vec<Vec<Term>>,
    /// What is so, as the answers say.
    pub(super) facts: Vec<Term>,
}

impl<'l> Object<'l> {
    pub(super) fn new(name: &'l str, layout: &'l Layout) -> Self {
        Self { name, layout, writes: Vec::new(), keys: Vec::new(), facts: Vec::new() }
    }

    /// What is under `key` now.
    pub(super) fn at(&self, key: &[Term], terms: &mut Terms) -> Entry {
        let mut entry = self.at_first(key, terms);
        for write in &self.writes {
            let mut hit = write.when;
            for (part, written) in key.iter().zip(&write.key) {
                let same = terms.equal(*part, *written);
                hit = terms.both(hit, same);
            }
            let is_there = terms.bool(write.value.is_some());
            entry.present = terms.ite(hit, is_there, entry.present);
            for (part, new) in entry.value.iter_mut().zip(write.value.iter().flatten()) {
                *part = terms.ite(hit, *new, *part);
            }
        }
        entry
    }

    /// What was under `key` at the beginning.
    pub(super) fn at_first(&self, key: &[Term], terms: &mut Terms) -> Entry {
        let Self { name, layout, .. } = self;
        let present = match layout.entries {
            Entries::Fixed => terms.bool(true),
            _ => terms.apply(&format!("{name}#has"), Sort::Bool, Kind::Number, key),
        };
        let parts = layout.parts.iter();
        let value = parts.map(|part| {
            terms.apply(&format!("{name}#.{}", part.name), part.sort, Kind::Number, key)
        });
        Entry { present, value: value.collect() }
    }

    /// Notes what an access of `path` says and writes, and how it ended; `None` as [`access`](Self::access).
    pub(super) fn follow(
        &mut self,
        access: &Access,
        path: &CallPath,
        terms: &mut Terms,
    ) -> Option<()> {
        self.access(access, terms)?;
        self.facts.extend(outcome(access, path, terms));
        Some(())
    }

    /// Notes what an access says and writes; `None`: it does something that is not understood.
    pub(super) fn access(&mut self, access: &Access, terms: &mut Terms) -> Option<()> {
        if access.operation == "len" {
            return Some(());
        }
        let key = self.layout.key_of(access, terms)?;
        self.keys.push(key.clone());
        let now = self.at(&key, terms);
        let always = terms.bool(true);
        let outcome = access.outcome.unwrap_or(always);
        let written = match self.layout.entries {
            Entries::Stored => self.stored(access, (outcome, &now), terms)?,
            Entries::Lasting => self.lasting(access, (outcome, &now), terms)?,
            Entries::Own => self.own(access, (outcome, &now), terms)?,
            Entries::Fixed => {
                self.told(outcome, &access.result, &now.value, terms);
                match access.operation.as_str() {
                    "read" | "get" => None,
                    "update" if access.value.is_empty() => None,
                    "write" | "set" | "update" => {
                        let when = self.is_inside(&key, outcome, terms);
                        Some((when, Some(self.renewed(access, &now, terms)?)))
                    }
                    _ => return None,
                }
            }
        };
        self.writes.extend(written.map(|(when, value)| Write { key, when, value }));
        Some(())
    }

    /// Whether an element is written: past the end of a vector nothing is, and zero is read.
    fn is_inside(&self, key: &[Term], outcome: Term, terms: &mut Terms) -> Term {
        match key {
            [] => outcome,
            _ => terms.apply(&format!("{}#inside", self.name), Sort::Bool, Kind::Number, key),
        }
    }

    /// A packet set that is changed or ends is there, whether or not the path has looked for it before.
    fn own(
        &mut self,
        access: &Access,
        (outcome, now): (Term, &Entry),
        terms: &mut Terms,
    ) -> Option<Written> {
        if !matches!(&*access.operation, "insert" | "set") {
            self.found(access, (outcome, now), terms);
        }
        let is_whole = access.operation != "update";
        let mut part = |(part, now): (&PartType, &Term)| {
            let new = access.value.iter().find(|new| new.name == part.name);
            match new {
                Some(new) => (terms.sort(new.term) == part.sort).then_some(new.term),
                None if !is_whole => Some(*now),
                // Of another variant than the one that there is: anything will do.
                None => Some(terms.zero(part.sort)),
            }
        };
        let value = self.layout.parts.iter().zip(&now.value).map(&mut part);
        let value: Vec<Term> = value.collect::<Option<_>>()?;
        Some(match access.operation.as_str() {
            "find" | "get" => None,
            "insert" | "update" | "set" => Some((outcome, Some(value))),
            "expire" => Some((outcome, None)),
            _ => return None,
        })
    }

    fn stored(
        &mut self,
        access: &Access,
        (outcome, now): (Term, &Entry),
        terms: &mut Terms,
    ) -> Option<Written> {
        access.outcome?;
        if access.operation != "insert" {
            self.found(access, (outcome, now), terms);
        }
        Some(match access.operation.as_str() {
            "get" | "contains" => None,
            "update" if access.value.is_empty() => None,
            "insert" | "update" => Some((outcome, Some(self.renewed(access, now, terms)?))),
            "remove" => Some((outcome, None)),
            _ => return None,
        })
    }

    /// An object that has ended is there until it is collected: what is not found may be there, unless it
    /// never ends.
    fn lasting(
        &mut self,
        access: &Access,
        (outcome, now): (Term, &Entry),
        terms: &mut Terms,
    ) -> Option<Written> {
        let endless = *now.value.last()?;
        let ends = terms.not(endless);
        let is_new = access.operation.starts_with("alloc");
        match access.operation.as_str() {
            _ if is_new => {
                let free = terms.not(now.present);
                self.implied(outcome, free, terms);
                if access.operation == "allocate_at" {
                    // What was there and has just gone can be had again.
                    let place = self.layout.key_of(access, terms)?;
                    let was_there = self.at_first(&place, terms).present;
                    let has_gone = terms.both(was_there, free);
                    self.implied(has_gone, outcome, terms);
                }
            }
            "set" | "update" | "free" | "expire" => {
                let same = terms.equal(outcome, now.present);
                self.facts.push(same);
                self.facts.extend((access.operation == "expire").then_some(ends));
            }
            _ => {
                self.implied(outcome, now.present, terms);
                let stays = terms.both(now.present, endless);
                self.implied(stays, outcome, terms);
            }
        }
        if !is_new {
            self.told(outcome, &access.result, &now.value, terms);
        }
        let always = terms.bool(true);
        Some(match access.operation.as_str() {
            "get" | "touch" | "is_allocated" => None,
            "refresh" => {
                let mut value = now.value.clone();
                *value.last_mut()? = is_endless(access, terms)?;
                Some((outcome, Some(value)))
            }
            "allocate" | "allocate_within" | "allocate_at" => {
                let mut value = self.renewed(access, now, terms)?;
                *value.last_mut()? = is_endless(access, terms)?;
                Some((outcome, Some(value)))
            }
            "update" if access.value.is_empty() => None,
            "set" | "update" => Some((outcome, Some(self.renewed(access, now, terms)?))),
            "free" | "expire" => Some((always, None)),
            _ => return None,
        })
    }

    /// The parts of what is stored; whether it ends is left as it was.
    fn renewed(&self, access: &Access, now: &Entry, terms: &mut Terms) -> Option<Vec<Term>> {
        let layout = self.layout;
        let new = |(part, now): (&PartType, &Term)| match &*part.name {
            ENDLESS => Some(*now),
            _ => layout.part(part, &access.value, terms),
        };
        layout.parts.iter().zip(&now.value).map(new).collect()
    }

    fn implied(&mut self, condition: Term, fact: Term, terms: &mut Terms) {
        let not = terms.not(condition);
        let implied = terms.either(not, fact);
        self.facts.push(implied);
    }

    /// The access ends as what it asks for is there or not, and tells of it.
    fn found(&mut self, access: &Access, (outcome, now): (Term, &Entry), terms: &mut Terms) {
        let same = terms.equal(outcome, now.present);
        self.facts.push(same);
        self.told(outcome, &access.result, &now.value, terms);
    }

    /// Where the access found something, its result is what was there.
    fn told(&mut self, outcome: Term, result: &[Part], there: &[Term], terms: &mut Terms) {
        let layout = self.layout;
        for (part, there) in layout.parts.iter().zip(there) {
            if let Some(told) = layout.part(part, result, terms) {
                let same = terms.equal(told, *there);
                self.implied(outcome, same, terms);
            }
        }
    }
}

/// Whether the lifetime that an access gives has no end.
fn is_endless(access: &Access, terms: &mut Terms) -> Option<Term> {
    let longest = terms.constant(u64::MAX.into(), 64);
    Some(terms.equal(access.lifetime?, longest))
}

/// What holds on `path` and has to do with the unknowns of `about`: of what state has answered what is directly
/// about them, of the packet all. The whole would be too much to ask.
pub(super) fn relevant(about: &[Term], path: &CallPath, terms: &Terms) -> Vec<Term> {
    let mut unknowns = FastSet::default();
    unknowns.extend(about.iter().flat_map(|term| terms.unknowns(*term).iter().copied()));
    let is_of_state = |id: &SymbolId| terms.symbol_of(*id).name.contains('#');
    let mut is_first = true;
    loop {
        let before = unknowns.len();
        let shares = |one: &Term| terms.unknowns(*one).iter().any(|id| unknowns.contains(id));
        let of_packet = |one: &Term| !terms.unknowns(*one).iter().any(is_of_state);
        let near = path.holds.iter().filter(|one| shares(one) && (is_first || of_packet(one)));
        let near: Vec<Term> = near.copied().collect();
        unknowns.extend(near.iter().flat_map(|term| terms.unknowns(*term).iter().copied()));
        is_first = false;
        if unknowns.len() == before {
            break;
        }
    }
    let within = |one: &Term| terms.unknowns(*one).iter().all(|id| unknowns.contains(id));
    // Of what holds at once each part by itself.
    let parts = path.holds.iter().flat_map(|one| terms.conjuncts(*one));
    let mut chosen: Vec<Term> = parts.filter(within).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Products of unknowns are any numbers: what is proved so is proved.
pub(super) fn softened(all: &[Term], terms: &mut Terms) -> Vec<Term> {
    all.iter().map(|term| terms.softened(*term)).collect()
}

/// What the path has found out by asking how an access ended.
pub(super) fn outcome(access: &Access, path: &CallPath, terms: &mut Terms) -> Option<Term> {
    let outcome = access.outcome?;
    match path.outcome(access, terms)? {
        true => Some(outcome),
        false => Some(terms.not(outcome)),
    }
}
