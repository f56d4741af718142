//! What a path knows about state it has already touched: an entry read twice is the same twice,
//! an entry written is what was written.

use super::fresh::leaves;
use super::types::Type;
use super::value::Value;
use super::{Eval, Interpreter, place};
use crate::expr::Term;
use crate::path::Memory;

impl<'p> Interpreter<'p> {
    /// What the path knows about an entry.
    pub(crate) fn recall(&self, object: usize, key: &[Term]) -> Option<&Memory> {
        let mut known = self.run.memory.iter().rev();
        known.find(|memory| memory.object == object && memory.key == key)
    }

    /// The value of an entry that the path knows, or that is one of several that it knows.
    pub(crate) fn recall_value(&mut self, object: usize, key: &[Term]) -> Option<Value> {
        if let Some(known) = self.recall(object, key) {
            return known.value.clone();
        }
        let &[key] = key else { return None };
        let (condition, one, other) = self.terms.alternatives(key)?;
        let one = self.recall_value(object, &[one])?;
        let other = self.recall_value(object, &[other])?;
        place::choose(condition, &one, &other, &mut self.terms)
    }

    /// The unknown value called `name` of an entry, with the parts that a write is known to have left.
    pub(crate) fn value_left(
        &mut self,
        object: usize,
        key: &[Term],
        name: &str,
        of: &Type,
    ) -> Eval<Value> {
        let left = self.parts_left(object, key).into_iter();
        self.aliases = left.map(|(part, term)| (format!("{name}{part}"), term)).collect();
        let value = self.unknown(name, of, &[]);
        self.aliases.clear();
        value
    }

    /// The parts that the path knows of an entry, or of each of several that it is one of.
    fn parts_left(&mut self, object: usize, key: &[Term]) -> Vec<(String, Term)> {
        match self.recall(object, key).cloned() {
            Some(Memory { value: Some(value), .. }) => return leaves(&value, &mut self.terms),
            Some(known) => return known.left,
            None => {}
        }
        let &[key] = key else { return Vec::new() };
        let Some((condition, one, other)) = self.terms.alternatives(key) else { return Vec::new() };
        let (one, other) = (self.parts_left(object, &[one]), self.parts_left(object, &[other]));
        let mut both = Vec::new();
        for (part, term) in one {
            let same = other.iter().find(|(name, _)| *name == part).map(|(_, other)| *other);
            let same = same.filter(|other| self.terms.sort(*other) == self.terms.sort(term));
            both.extend(same.map(|other| (part, self.terms.ite(condition, term, other))));
        }
        both
    }

    /// Notes what a read found.
    pub(crate) fn remember(
        &mut self,
        object: usize,
        key: Vec<Term>,
        present: Term,
        value: Option<Value>,
    ) {
        self.run.memory.retain(|memory| memory.object != object || memory.key != key);
        self.run.memory.push(Memory { object, key, present, value, left: Vec::new() });
    }

    /// Forgets every entry that a write at this key may have changed.
    pub(crate) fn forget(&mut self, object: usize, key: &[Term]) {
        let entries = std::mem::take(&mut self.run.memory);
        let kept = entries
            .into_iter()
            .filter(|entry| entry.object != object || self.distinct(&entry.key, key))
            .collect();
        self.run.memory = kept;
    }

    /// Forgets of every entry what it may no longer be once the one at this key, which stays where it is, becomes
    /// `new`: parts of that which are what they were are so of whatever entry it is.
    pub(crate) fn forget_changed(&mut self, object: usize, key: &[Term], new: &Value) {
        let known = self.recall(object, key).and_then(|known| known.value.clone());
        let Some(known) = known else { return self.forget(object, key) };
        let new = leaves(new, &mut self.terms);
        let mut same = leaves(&known, &mut self.terms);
        same.retain(|leaf| new.contains(leaf));
        let mut entries = std::mem::take(&mut self.run.memory);
        entries.retain_mut(|entry| {
            if entry.object != object || self.distinct(&entry.key, key) {
                return true;
            }
            if let Some(value) = entry.value.take() {
                entry.left = leaves(&value, &mut self.terms);
            }
            entry.left.retain(|(part, _)| same.iter().any(|(same, _)| same == part));
            true
        });
        self.run.memory = entries;
    }

    /// Forgets everything about an object.
    pub(crate) fn forget_all(&mut self, object: usize) {
        self.run.memory.retain(|memory| memory.object != object);
    }

    /// Whether two keys are known to differ on this path.
    fn distinct(&mut self, a: &[Term], b: &[Term]) -> bool {
        let mut same = self.terms.bool(true);
        for (x, y) in a.iter().zip(b) {
            if self.terms.sort(*x) != self.terms.sort(*y) {
                return false;
            }
            let equal = self.terms.equal(*x, *y);
            same = self.terms.both(same, equal);
        }
        if let Some(known) = self.terms.bool_of(same) {
            return !known;
        }
        let differ = self.terms.not(same);
        self.explorer.already(differ, same) == Some(true)
    }

    /// The terms of a stored value or key of this type.
    pub(crate) fn stored(&mut self, value: Value, of: &'p syn::Type) -> Eval {
        let value = self.settled(value)?;
        let of = self.resolve(of)?;
        self.coerce(value, &of)
    }
}
