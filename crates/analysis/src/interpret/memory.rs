//! What a path knows about state it has already touched: an entry read twice is the same twice,
//! an entry written is what was written.

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

    /// Notes what a read found.
    pub(crate) fn remember(
        &mut self,
        object: usize,
        key: Vec<Term>,
        present: Term,
        value: Option<Value>,
    ) {
        self.run.memory.retain(|memory| memory.object != object || memory.key != key);
        self.run.memory.push(Memory { object, key, present, value });
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
