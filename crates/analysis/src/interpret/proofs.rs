//! What is proved of state objects, and what that says of the accesses of a path.

use super::value::Value;
use super::{Eval, Interpreter, Stop, stop};
use crate::access::{Access, Part};
use crate::expr::{Term, Terms};
use crate::proofs::{Counted, ENDLESS, Link, named};

/// What a part of the unknown value of the access `name` is called.
fn symbol(name: &str, part: &str) -> String {
    named(&format!("{name}.value"), part)
}

/// What an access has told of a part of what it found.
fn told(access: &Access, part: &str) -> Option<Term> {
    access.result.iter().find(|told| told.name == part).map(|told| told.term)
}

impl<'p> Interpreter<'p> {
    /// Whether a linked map has named the object under `key`, before the path has changed either of them;
    /// what its parts are is noted for the unknown value of an access of this name.
    pub(crate) fn follow_link(&mut self, object: usize, key: &[Term], name: &str) -> bool {
        let [index] = key else { return false };
        let links = std::mem::take(&mut self.links);
        let ident = &self.program.module.nf.fields[object].ident;
        let mut of_object = links.iter().filter(|link| *ident == link.allocator);
        let aliases = of_object.find_map(|link| self.named_by(link, *index, name));
        self.links = links;
        let is_named = aliases.is_some();
        self.aliases = aliases.unwrap_or_default();
        is_named
    }

    /// Of an object that a map names, the parts that are known, where the map was asked before anything
    /// changed.
    fn named_by(&mut self, link: &Link, index: Term, name: &str) -> Option<Vec<(String, Term)>> {
        let (_, before) = self.run.accesses.split_last()?;
        let changes =
            |object: &str, access: &Access| access.object == object && link.changed_by(access);
        if before.iter().any(|access| changes(&link.allocator, access)) {
            return None;
        }
        let until = before.iter().position(|access| changes(&link.map, access));
        let mut asked = before.iter().take(until.unwrap_or(before.len()));
        let named = asked.position(|access| {
            access.object == link.map && told(access, &link.index) == Some(index)
        })?;
        let found = self.run.accesses[named].outcome?;
        if !self.holds(found) {
            return None;
        }
        let key = &self.run.accesses[named].key;
        let known = |of: &String| key.iter().find(|part| part.name == *of).map(|part| part.term);
        let equal =
            link.equal.iter().filter_map(|(part, of)| Some((symbol(name, part), known(of)?)));
        let mut aliases: Vec<(String, Term)> = equal.collect();
        let fixed = link.fixed.iter();
        aliases.extend(fixed.map(|it| (symbol(name, &it.part), it.term(&mut self.terms))));
        Some(aliases)
    }

    /// Whether an object of which the next unknown value's parts are known so far never ends.
    pub(crate) fn never_ends(&self, object: usize, name: &str) -> bool {
        let ident = &self.program.module.nf.fields[object].ident;
        let known = |part: &str| {
            let symbol = symbol(name, part.strip_prefix("it.")?);
            let (_, term) = self.aliases.iter().find(|(alias, _)| *alias == symbol)?;
            self.terms.known_value(*term)
        };
        let mut values = self.values.iter();
        values
            .find(|values| *ident == values.object)
            .is_some_and(|values| values.never_ends(&known))
    }

    /// Whether the path knows that the time of an object is over, which it asks for without the time.
    pub(crate) fn has_ended(&mut self, object: usize, key: &[Term]) -> bool {
        let Some(present) = self.recall(object, key).map(|known| known.present) else {
            return false;
        };
        let absent = self.terms.not(present);
        self.holds(absent)
    }

    /// Takes it as given that what an access has found is one of the values that there can be; of an object
    /// whose time is over, that has an end.
    pub(crate) fn assume_values(
        &mut self,
        access: usize,
        present: Term,
        value: &Value,
        has_ended: bool,
    ) -> Eval<()> {
        let object = self.run.accesses[access].object.clone();
        let Some(at) = self.values.iter().position(|values| values.object == object) else {
            return Ok(());
        };
        let parts = self.parts(value, "")?;
        let key = &self.run.accesses[access].key;
        let mut part = |name: &str, terms: &mut Terms| match name.split_once('.')? {
            ("it", ENDLESS) => has_ended.then(|| terms.bool(false)),
            (of, name) => {
                let all = if of == "key" { key } else { &parts };
                all.iter().find(|part| part.name == name).map(|part| part.term)
            }
        };
        let holds = self.values[at].holds(&mut part, &mut self.terms);
        self.assume_where(present, holds)
    }

    /// As [`assume_values`](Self::assume_values), of that of which a path has one: its packet set, of this class
    /// where that is known, or a local.
    pub(crate) fn assume_own(
        &mut self,
        object: &str,
        class: Option<&str>,
        state: &[Part],
    ) -> Eval<()> {
        let mut known = self.values.iter().chain(&self.carried.values);
        let Some(values) = known.find(|values| values.object == object).cloned() else {
            return Ok(());
        };
        let number = class.and_then(|class| values.class_number(class));
        let mut part = |name: &str, terms: &mut Terms| match name.split_once('.')? {
            ("key", _) => Some(terms.constant(number?, 8)),
            (_, name) => state.iter().find(|part| part.name == name).map(|part| part.term),
        };
        let holds = values.holds(&mut part, &mut self.terms);
        let always = self.terms.bool(true);
        self.assume_where(always, holds)
    }

    /// Takes it as given that one holds where the other does.
    pub(crate) fn assume_where(&mut self, condition: Term, holds: Term) -> Eval<()> {
        let otherwise = self.terms.not(condition);
        let rule = self.terms.either(otherwise, holds);
        match self.possible(rule)? {
            true => self.assume(rule),
            false => stop(Stop::Infeasible),
        }
    }

    /// Whether a map has `key` for certain, since an object that the path has met holds it, and nothing of the two
    /// has been changed before: an object whose end it is may have gone.
    pub(crate) fn is_held(&mut self, map: usize, key: &[Term]) -> bool {
        let ident = &self.program.module.nf.fields[map].ident;
        let before = self.run.accesses.len().saturating_sub(1);
        let pairings = std::mem::take(&mut self.pairings);
        let mut of_map = pairings.iter().filter(|pairing| *ident == pairing.map);
        let is_held = of_map.any(|pairing| {
            let changes =
                |access: &Access| pairing.changed_by(access) && access.operation != "expire";
            !self.run.accesses[..before].iter().any(changes)
                && (0..before).any(|at| self.has_met(at, (&pairing.allocator, &pairing.equal), key))
        });
        self.pairings = pairings;
        is_held
    }

    /// Whether a map that counts objects has `key` for certain, since the path has met an object with that key before
    /// it has changed the map, or anything of the objects but that one.
    pub(crate) fn is_counted(&mut self, map: usize, key: &[Term]) -> Eval<bool> {
        let ident = &self.program.module.nf.fields[map].ident;
        let counted = self.counted.iter().find(|counted| *ident == counted.map).cloned();
        let Some(counted) = counted else { return Ok(false) };
        let before = self.run.accesses.len().saturating_sub(1);
        let changes = |access: &Access, object: &str| {
            access.object == object && Link::is_changed_by(&access.operation)
        };
        if self.run.accesses[..before].iter().any(|access| changes(access, &counted.map)) {
            return Ok(false);
        }
        for at in 0..before {
            let access = &self.run.accesses[at];
            let is_last = changes(access, &counted.allocator);
            // What has just been given out is not counted yet.
            let is_new = access.operation.starts_with("alloc");
            if !is_new
                && self.has_met(at, (&counted.allocator, &counted.equal), key)
                && !self.may_be_left_out(&counted, at)?
            {
                return Ok(true);
            }
            if is_last {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Whether an access has told of an object of the allocator, of which these parts equal `key`.
    fn has_met(
        &mut self,
        access: usize,
        (allocator, equal): (&str, &[(String, String)]),
        key: &[Term],
    ) -> bool {
        let access = &self.run.accesses[access];
        if access.object != allocator || equal.len() != key.len() {
            return false;
        }
        let (outcome, told) = (access.outcome, equal.iter().map(|(part, _)| told(access, part)));
        let Some(told) = told.collect::<Option<Vec<Term>>>() else { return false };
        let is_key = told.into_iter().zip(key).all(|(told, key)| {
            let same = self.terms.equal(told, *key);
            self.holds(same)
        });
        is_key && outcome.is_none_or(|outcome| self.holds(outcome))
    }

    /// Whether an object that an access has told of may be one that is not counted.
    fn may_be_left_out(&mut self, counted: &Counted, access: usize) -> Eval<bool> {
        let Some(but) = &counted.but else { return Ok(false) };
        let Some(told) = told(&self.run.accesses[access], &but.part) else { return Ok(true) };
        let value = but.term(&mut self.terms);
        let is_left_out = self.terms.equal(told, value);
        self.possible(is_left_out)
    }

    /// Whether a map has room for certain, since the path has taken something out of it, or an object for the new
    /// entry: it has no more entries than there are objects, and they fit.
    pub(crate) fn has_room(&mut self, map: usize) -> Eval<bool> {
        if self.has_freed(map) {
            return Ok(true);
        }
        let fields = &self.program.module.nf.fields;
        let name = fields[map].ident.to_string();
        let links = self.links.iter().filter(|link| link.is_whole && link.map == name);
        let links = links.map(|link| link.allocator.clone());
        let pairings = self.pairings.iter().filter(|pairing| pairing.map == name);
        let allocators: Vec<String> =
            links.chain(pairings.map(|pairing| pairing.allocator.clone())).collect();
        for allocator in allocators {
            let position = fields.iter().position(|field| field.ident == allocator);
            let Some(position) = position else { continue };
            if self.capacity(map)? == self.capacity(position)?
                && self.change_of(&allocator, true) + self.change_of(&name, false) > 0
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether anything is proved of state.
    pub(crate) fn knows_of_state(&self) -> bool {
        let linked = !self.links.is_empty() || !self.pairings.is_empty();
        linked || !self.counted.is_empty() || !self.values.is_empty()
    }

    /// Whether an allocator has an index left for certain, or a map a place, since the path has freed more than it
    /// has taken. Nothing is proved by that: a store may take nothing new all the same.
    pub(crate) fn has_freed(&mut self, object: usize) -> bool {
        let name = self.program.module.nf.fields[object].ident.to_string();
        self.knows_of_state() && self.change_of(&name, false) > 0
    }

    /// Whether an index can be had for certain, since the path itself has freed it, or it is the one whose end it
    /// is, and nothing has been taken since. Nothing is proved by that either.
    pub(crate) fn has_freed_index(&mut self, object: usize, index: Term) -> bool {
        if !self.knows_of_state() {
            return false;
        }
        let name = self.program.module.nf.fields[object].ident.to_string();
        let made = self.run.accesses.len().saturating_sub(1);
        let before = self.run.accesses.iter().take(made).filter(|access| access.object == name);
        let last = before.rev().find(|access| Link::is_changed_by(&access.operation));
        let frees = last.filter(|access| matches!(&*access.operation, "free" | "expire"));
        let Some(last) = frees.filter(|one| matches!(&*one.key, [at] if at.term == index)) else {
            return false;
        };
        let outcome = last.outcome;
        outcome.is_none_or(|outcome| self.holds(outcome))
    }

    /// By how many entries the path has made an object larger so far, or smaller, at least.
    fn change_of(&mut self, object: &str, larger: bool) -> i32 {
        let made = self.run.accesses.len().saturating_sub(1);
        let before = self.run.accesses.iter().take(made).filter(|access| access.object == object);
        let before: Vec<(bool, Option<Term>)> = before
            .filter_map(|access| match access.operation.as_str() {
                "allocate" | "allocate_within" | "allocate_at" | "insert" => {
                    Some((true, access.outcome))
                }
                "free" | "expire" | "remove" => Some((false, access.outcome)),
                _ => None,
            })
            .collect();
        let mut change = 0;
        for (adds, outcome) in before {
            // What goes the other way counts even where it may not have happened.
            let certain = outcome.is_none_or(|outcome| self.holds(outcome));
            change += if adds == larger { i32::from(certain) } else { -1 };
        }
        change
    }
}
