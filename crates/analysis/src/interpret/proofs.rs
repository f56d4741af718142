//! What is proved of state objects, and what that says of the accesses of a path.

use super::value::Value;
use super::{Eval, Interpreter, Stop, stop};
use crate::access::Access;
use crate::expr::{Term, Terms};
use crate::proofs::{ENDLESS, Link};

/// What a part of the unknown value of the access `name` is called.
fn symbol(name: &str, part: &str) -> String {
    let part = part.strip_suffix("variant").map_or(part, |of| of.trim_end_matches('.'));
    let dot = if part.is_empty() { "" } else { "." };
    format!("{name}.value{dot}{part}")
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
            access.object == link.map && matches!(&*access.result, [part] if part.term == index)
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
        let absent = self.terms.not(present);
        let rule = self.terms.either(absent, holds);
        match self.possible(rule)? {
            true => self.assume(rule),
            false => stop(Stop::Infeasible),
        }
    }

    /// Whether a map has room for certain, since the path has taken something out of it, or an object for the new
    /// entry: it has no more entries than there are objects, and they fit.
    pub(crate) fn has_room(&mut self, map: usize) -> Eval<bool> {
        if self.has_freed(map) {
            return Ok(true);
        }
        let fields = &self.program.module.nf.fields;
        let mut links = self.links.iter().filter(|link| link.is_whole);
        let Some(link) = links.find(|link| fields[map].ident == link.map).cloned() else {
            return Ok(false);
        };
        let Some(allocator) = fields.iter().position(|field| field.ident == link.allocator) else {
            return Ok(false);
        };
        if self.capacity(map)? != self.capacity(allocator)? {
            return Ok(false);
        }
        Ok(self.change_of(&link.allocator, true) + self.change_of(&link.map, false) > 0)
    }

    /// Whether an allocator has an index left for certain, or a map a place, since the path has freed more than it
    /// has taken. Nothing is proved by that: a store may take nothing new all the same.
    pub(crate) fn has_freed(&mut self, object: usize) -> bool {
        let name = self.program.module.nf.fields[object].ident.to_string();
        let is_proved = !self.links.is_empty() || !self.values.is_empty();
        is_proved && self.change_of(&name, false) > 0
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
