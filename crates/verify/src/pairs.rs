//! Pairs of conflicting accesses: two places in the author's text that touch the same entry, one of
//! them writing.

use std::collections::{BTreeSet, HashMap};

use anabranch_analysis::{Access, Mode, Paths};

/// A place where a state object is accessed: object, operation, line.
type Site = (String, String, u32);

/// Entries: object and key.
type Touched = (String, Vec<u128>);

/// Which places have met in an entry.
pub(crate) struct Pairs {
    sites: HashMap<Site, usize>,
    writes: Vec<bool>,
    known: usize,
    reached: BTreeSet<(usize, usize)>,
    /// By entry, the places that have touched it, each with the first step that did.
    touched: HashMap<Touched, Vec<(usize, usize)>>,
}

impl Pairs {
    /// Those that `paths` can have; whole objects count as one entry, routing apart.
    pub(crate) fn of(paths: &Paths) -> Self {
        let mut pairs = Self {
            sites: HashMap::new(),
            writes: Vec::new(),
            known: 0,
            reached: BTreeSet::new(),
            touched: HashMap::new(),
        };
        let mut objects: HashMap<&str, Vec<usize>> = HashMap::new();
        for (_, access) in paths.accesses().filter(|(_, access)| counts(access)) {
            let next = pairs.sites.len();
            let site = *pairs.sites.entry(site(access)).or_insert(next);
            if site == next {
                pairs.writes.push(access.mode == Mode::Write);
                objects.entry(&access.object).or_default().push(site);
            }
        }
        for sites in objects.values() {
            let writers = sites.iter().filter(|site| pairs.writes.get(**site) == Some(&true));
            let readers = sites.len() - writers.clone().count();
            pairs.known += sites.len() * (sites.len() + 1) / 2 - readers * (readers + 1) / 2;
        }
        pairs
    }

    /// State is empty again.
    pub(crate) fn forget(&mut self) {
        self.touched.clear();
    }

    /// In step `step` the entry `key` is accessed; where an index is asked for, the whole pool and the index
    /// that was given out, if one was.
    pub(crate) fn access(
        &mut self,
        step: usize,
        access: &Access,
        mut key: Vec<u128>,
        given: Option<u128>,
    ) {
        let site = self.sites.get(&site(access)).copied();
        let Some(site) = site.filter(|_| counts(access)) else { return };
        if access.symmetric {
            key.sort_unstable();
        }
        if asks_for_any(access) {
            key.clear();
            given.iter().for_each(|index| self.touch(step, site, (&access.object, vec![*index])));
        }
        self.touch(step, site, (&access.object, key));
    }

    fn touch(&mut self, step: usize, site: usize, (object, key): (&String, Vec<u128>)) {
        let touched = self.touched.entry((object.clone(), key)).or_default();
        for (other, _) in touched.iter().filter(|(_, first)| *first != step) {
            let writes = |site: usize| self.writes.get(site) == Some(&true);
            if writes(site) || writes(*other) {
                self.reached.insert((site.min(*other), site.max(*other)));
            }
        }
        if !touched.iter().any(|(known, _)| *known == site) {
            touched.push((site, step));
        }
    }

    /// How many have met, and how many could.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.reached.len(), self.known)
    }
}

/// Whether an index is asked for, whichever it is.
pub(crate) fn asks_for_any(access: &Access) -> bool {
    matches!(access.operation.as_str(), "allocate" | "allocate_within")
}

fn counts(access: &Access) -> bool {
    access.kind != "L3" && access.operation != "expire"
}

fn site(access: &Access) -> Site {
    (access.object.clone(), access.operation.clone(), access.line)
}
