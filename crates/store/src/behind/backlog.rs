//! What of a scope the store lacks, in the order in which it is sent: as it was written.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::{Bytes, Content, Kind};
use crate::key::Key;

use super::lane::name;

/// Since when the store lacks something.
#[derive(Clone, Copy)]
pub(super) struct Since {
    pub(super) ns: u64,
    /// The step in which it was written. What was written in one goes in one message.
    pub(super) step: u64,
}

/// What of an object the store lacks.
#[derive(Default)]
pub(super) struct Dirty {
    /// All of it: what the store has is to be removed first, and then all `entries` there are.
    pub(super) whole: Option<Since>,
    pub(super) entries: BTreeMap<Bytes, Since>,
}

impl Dirty {
    pub(super) fn len(&self) -> usize {
        self.entries.len() + usize::from(self.whole.is_some())
    }

    pub(super) fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.whole.iter().chain(self.entries.values()).map(|since| since.ns)
    }

    /// An object as a whole, or its entry of that name.
    pub(super) fn get(&self, name: Option<&Bytes>) -> Option<Since> {
        match name {
            None => self.whole,
            Some(name) => self.entries.get(name).copied(),
        }
    }

    pub(super) fn set(&mut self, name: Option<Bytes>, since: Since) {
        match name {
            None => self.whole = Some(since),
            Some(name) => drop(self.entries.insert(name, since)),
        }
    }

    fn take(&mut self, name: Option<&Bytes>) -> Option<Since> {
        match name {
            None => self.whole.take(),
            Some(name) => self.entries.remove(name),
        }
    }
}

/// A step, and what was written in it: an object as a whole, before its entries, or an entry.
type Row = (u64, Key, Option<Bytes>);

/// **Invariant**: an object that is to be written as a whole comes before its entries.
#[derive(Default)]
pub(super) struct Backlog {
    objects: BTreeMap<Key, Dirty>,
    order: BTreeSet<Row>,
}

impl Backlog {
    pub(super) fn get(&self, key: &Key, name: Option<&Bytes>) -> Option<Since> {
        self.objects.get(key)?.get(name)
    }

    /// The store lacks this since then, whatever was known of it.
    pub(super) fn set(&mut self, key: &Key, name: Option<Bytes>, since: Since) {
        if let Some(earlier) = self.get(key, name.as_ref()) {
            if earlier.step == since.step && earlier.ns == since.ns {
                return;
            }
            self.order.remove(&(earlier.step, key.clone(), name.clone()));
        }
        self.order.insert((since.step, key.clone(), name.clone()));
        self.objects.entry(key.clone()).or_default().set(name, since);
    }

    /// The store lacks all of an object that holds `content`, since then or since it lacked some of it.
    pub(super) fn set_all(&mut self, key: &Key, content: Option<&Content>, since: Since) {
        let earlier = self.objects.remove(key).unwrap_or_default();
        for (name, since) in &earlier.entries {
            self.order.remove(&(since.step, key.clone(), Some(name.clone())));
        }
        if let Some(since) = earlier.whole {
            self.order.remove(&(since.step, key.clone(), None));
        }
        let since = Since { ns: earlier.times().min().unwrap_or(since.ns), ..since };
        self.set(key, None, since);
        let keyed = content.filter(|content| content.kind() != Kind::List);
        for entry in keyed.map(Content::entries).unwrap_or_default() {
            self.set(key, Some(name(&entry)), since);
        }
    }

    /// The step of what is to be sent next.
    pub(super) fn first_step(&self) -> Option<u64> {
        self.order.first().map(|(step, ..)| *step)
    }

    /// What is to be sent next, taken out.
    pub(super) fn pop(&mut self) -> Option<(Key, Option<Bytes>, Since)> {
        let (_, key, name) = self.order.pop_first()?;
        let dirty = self.objects.get_mut(&key)?;
        let since = dirty.take(name.as_ref())?;
        if dirty.len() == 0 {
            self.objects.remove(&key);
        }
        Some((key, name, since))
    }

    pub(super) fn clear(&mut self) {
        self.objects.clear();
        self.order.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.objects.values().flat_map(Dirty::times)
    }
}
