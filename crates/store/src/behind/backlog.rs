//! What of a scope the store lacks, in the order in which it is sent: as it was written.

use std::collections::BTreeMap;

/// Since when the store lacks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) ns: u64,
    /// The step in which it was written. What was written in one goes in one message.
    pub(super) step: u64,
}

/// An object as a whole, or an entry, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole(u32),
    Entry(u32),
}

/// What was written in a step.
#[derive(Default)]
struct Written {
    /// When the first of it was.
    ns: u64,
    /// Goes before its entries.
    wholes: Vec<u32>,
    entries: Vec<u32>,
}

impl Written {
    fn take(&mut self) -> Option<Part> {
        self.wholes.pop().map(Part::Whole).or_else(|| self.entries.pop().map(Part::Entry))
    }

    fn len(&self) -> usize {
        self.wholes.len() + self.entries.len()
    }
}

/// Parts in the order of their steps, each perhaps in several: the step that it is noted with is the one
/// that counts, and who has the parts says which that is. So nothing is looked for to be taken out.
#[derive(Default)]
pub(super) struct Backlog {
    steps: BTreeMap<u64, Written>,
    /// Places in all steps, those that do not count too.
    places: usize,
}

/// So many places may be in vain before they are looked for.
const IN_VAIN: usize = 4_096;

impl Backlog {
    pub(super) fn push(&mut self, part: Part, since: Since) {
        let fresh = || Written { ns: since.ns, ..Written::default() };
        let written = self.steps.entry(since.step).or_insert_with(fresh);
        written.ns = written.ns.min(since.ns);
        match part {
            Part::Whole(object) => written.wholes.push(object),
            Part::Entry(entry) => written.entries.push(entry),
        }
        self.places += 1;
    }

    /// Whether what was stored before is on its way once more, which goes first.
    pub(super) fn is_anew(&self) -> bool {
        self.steps.contains_key(&0)
    }

    /// The next part that counts, taken out if it is in this step or `step` is `None`.
    pub(super) fn pop(
        &mut self,
        step: Option<u64>,
        counts: impl Fn(Part, u64) -> bool,
    ) -> Option<Part> {
        while let Some(mut first) = self.steps.first_entry() {
            let at = *first.key();
            while let Some(part) = first.get_mut().take() {
                self.places -= 1;
                if !counts(part, at) {
                    continue;
                }
                if step.is_some_and(|step| step != at) {
                    let ns = first.get().ns;
                    self.push(part, Since { ns, step: at });
                    return None;
                }
                return Some(part);
            }
            first.remove();
        }
        None
    }

    /// Forgets what does not count, if it has become much: `len` parts do.
    pub(super) fn tidy(&mut self, len: usize, counts: impl Fn(Part, u64) -> bool) {
        if self.places <= 2 * len + IN_VAIN {
            return;
        }
        for (&step, written) in &mut self.steps {
            written.wholes.retain(|&object| counts(Part::Whole(object), step));
            written.entries.retain(|&entry| counts(Part::Entry(entry), step));
        }
        self.steps.retain(|_, written| written.len() > 0);
        self.places = self.steps.values().map(Written::len).sum();
    }

    /// Places, with those that do not count.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places
    }

    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.places = 0;
    }

    /// When the first of what is here was written, nanoseconds.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.steps.values().map(|written| written.ns).min()
    }
}
