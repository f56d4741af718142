//! Names that are lost while what they name is still out. Whoever takes a name out by its key alone, at the end of an
//! index, takes out that of a later one then: an index whose time is over ends only with one of the next packets.

use anabranch_analysis::expr::{Binary, Node, Term};
use anabranch_analysis::{Access, CallPath, Mode};

use super::{Names, Same, ended, told};
use crate::left::gives;
use crate::owned::known;

/// What a path knows of an entry.
#[derive(Clone, Copy)]
enum Entry {
    Unknown,
    Absent,
    Names(Term),
}

impl<'p> Names<'p> {
    /// Where an index may come to have no name before it ends, and how; `None`: at each key stands the one index that
    /// is out for it, or nothing.
    pub(super) fn lost(&self, same: &Same) -> Option<(u32, &'static str)> {
        let has_room = self.has_room();
        let lost = |path: &'p CallPath| {
            let unnamed = self.unnamed(path, has_room).map(|line| (line, "may give it no name"));
            unnamed.or_else(|| self.taken_from(path, same))
        };
        self.lasting().find_map(lost)
    }

    /// Where a path is given an index that it neither names for sure, as where every name `has_room`, nor gives back.
    fn unnamed(&self, path: &'p CallPath, has_room: bool) -> Option<u32> {
        let terms = &self.paths.terms;
        let is_kept = |index: Term| {
            let is_stored = |one: &Access| has_room || path.outcome(one, terms) == Some(true);
            let mut named = self.named(path);
            let is_named = named.any(|(one, part)| part.term == index && is_stored(one));
            is_named || self.is_over(path, index)
        };
        let mut gives = gives(path, self.pool, terms);
        gives
            .find(|(_, index)| !index.is_some_and(|(_, index)| is_kept(index)))
            .map(|(one, _)| one.line)
    }

    /// Whether the holder, all of whose entries are names, is as large as the pool.
    fn has_room(&self) -> bool {
        let object = |name: &str| self.paths.objects.iter().find(|object| object.name == name);
        let (Some(holder), Some(pool)) = (object(self.holder), object(self.pool)) else {
            return false;
        };
        holder.capacity.is_some()
            && holder.capacity == pool.capacity
            && holder.written_by("init").is_none()
            && self.is_all_names()
    }

    /// Whether whatever is stored there is a name.
    fn is_all_names(&self) -> bool {
        let mut all = self.lasting().flat_map(|path| self.own(path));
        all.all(|one| one.operation != "insert" || self.of(&one.value).is_some())
    }

    /// Where a path takes a name away, or puts another in its place, and the index stays out.
    fn taken_from(&self, path: &'p CallPath, same: &Same) -> Option<(u32, &'static str)> {
        let terms = &self.paths.terms;
        let changes =
            |one: &&Access| one.mode == Mode::Write && path.outcome(one, terms) != Some(false);
        self.own(path).filter(changes).find_map(|one| {
            let before = self.before(path, one);
            if one.operation == "remove" {
                let is_end = |end: &Access| {
                    let index = end.key.first().map(|part| part.term);
                    index.is_some_and(|index| same.is_of(one, path, (self.pool, index)))
                };
                let is_over = matches!(before, Entry::Names(index) if self.is_over(path, index))
                    || matches!(before, Entry::Absent)
                    || ended(path, self.pool, terms).any(is_end);
                return (!is_over).then_some((one.line, "takes it out, and the index stays"));
            }
            let new = self.of(&one.value);
            let is_over = match before {
                Entry::Names(index) => new == Some(index) || self.is_over(path, index),
                Entry::Absent => true,
                // The part stays as it is where only others are changed.
                Entry::Unknown => {
                    one.operation == "update" && !one.value.is_empty() && new.is_none()
                }
            };
            (!is_over).then_some((one.line, "may put another in its place"))
        })
    }

    /// Whether a path gives an index back, and does not take the same again, or is told of its end.
    fn is_over(&self, path: &CallPath, index: Term) -> bool {
        let of_index = |one: &&Access| one.key.first().is_some_and(|part| part.term == index);
        let own = || path.accesses.iter().filter(|one| one.object == self.pool).filter(of_index);
        let frees = own().filter(|one| one.operation == "free").map(|one| one.number).max();
        let is_freed = frees
            .is_some_and(|at| !own().any(|one| one.operation == "allocate_at" && one.number > at));
        is_freed || told(path, self.pool).any(|own| own == index)
    }

    /// What stands at the entry of an access when it is made.
    fn before(&self, path: &'p CallPath, access: &Access) -> Entry {
        let terms = &self.paths.terms;
        let mut entry = match self.of(&access.result) {
            Some(found) => Entry::Names(found),
            None => Entry::Unknown,
        };
        for one in self.own(path).filter(|one| one.number < access.number) {
            let done = path.outcome(one, terms);
            let is_same = self.is_same(one, access);
            entry = match &*one.operation {
                "insert" if done == Some(false) => entry,
                "insert" if is_same && done == Some(true) => {
                    self.of(&one.value).map_or(Entry::Unknown, Entry::Names)
                }
                // Another key may be the same.
                "insert" => Entry::Unknown,
                _ if !is_same => entry,
                _ if done == Some(false) || one.operation == "remove" => Entry::Absent,
                "update" => self.of(&one.value).map_or(entry, Entry::Names),
                _ => self.of(&one.result).map_or(entry, Entry::Names),
            };
        }
        entry
    }

    /// Whether the path has seen whose name stands at the entry of an access: that of the index, or else another's,
    /// which it lets stand.
    pub(super) fn is_asked(&self, path: &'p CallPath, access: &Access, index: Term) -> bool {
        let terms = &self.paths.terms;
        let known = known(path, terms);
        let is_index = |found: Term| {
            known.iter().any(|(term, holds)| match *terms.node(*term) {
                Node::Binary(Binary::Equal, a, b) => {
                    *holds && [(a, b), (b, a)].contains(&(found, index))
                }
                _ => false,
            })
        };
        let same = || self.own(path).filter(|one| self.is_same(one, access));
        let removes =
            |one: &Access| one.operation == "remove" && path.outcome(one, terms) != Some(false);
        same().any(|one| self.of(&one.result).is_some_and(is_index)) || !same().any(removes)
    }
}
