//! A state object at one point of a path, as a function of the key: what it was at the beginning, which
//! may be anything, and what the path has written since.

use crate::expr::{Kind, Sort, Term, Terms};

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

/// An object and what the path has written to it so far.
pub(super) struct Object<'l> {
    pub(super) name: &'l str,
    /// Sorts of the parts of its values that matter.
    pub(super) parts: Vec<Sort>,
    pub(super) writes: Vec<Write>,
}

impl Object<'_> {
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
        let name = self.name;
        let present = terms.apply(&format!("{name} has"), Sort::Bool, Kind::Number, key);
        let parts = self.parts.iter().enumerate();
        let value = parts
            .map(|(at, sort)| terms.apply(&format!("{name} part {at}"), *sort, Kind::Number, key));
        Entry { present, value: value.collect() }
    }
}
