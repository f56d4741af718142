//! Objects of all workers that are watched at work, to know why transactions are given up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_txn::{Domain, Footprints, Trail, Transaction};

use super::causes::{Contended, Structure};

/// What the workers of a run leave behind while they are watched.
#[derive(Debug, Default)]
pub struct Profile {
    objects: Mutex<Vec<Object>>,
    trails: Mutex<Vec<Arc<Trail>>>,
    footprints: Mutex<Option<Arc<Footprints>>>,
}

/// A state object that is watched.
#[derive(Clone, Debug)]
pub struct Object {
    /// The field of the NF struct; of packet sets the name of the struct.
    pub name: String,
    /// What it is.
    pub structure: &'static Structure,
    /// Its memories, by number, and which part of it each is.
    pub parts: Vec<(u16, &'static str)>,
    /// A key or index of it in words, as text.
    pub key: fn(&[u64]) -> String,
}

/// Nobody who holds one panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Profile {
    /// Has the object `name` watched, and returns its number: of several with that name there is one.
    pub fn watch<O: Contended>(&self, name: &str, object: &O) -> u16 {
        let mut objects = locked(&self.objects);
        let known = objects.iter().position(|known| known.name == name);
        let number = known.unwrap_or_else(|| {
            let (name, parts) = (name.to_owned(), object.parts());
            objects.push(Object { name, structure: O::STRUCTURE, parts, key: O::key });
            objects.len() - 1
        });
        u16::try_from(number).unwrap_or(u16::MAX - 1)
    }

    /// The trail of a worker's transactions.
    pub(super) fn trail(&self, domain: &Domain, transaction: &Arc<Transaction>) -> Arc<Trail> {
        let mut footprints = locked(&self.footprints);
        let footprints =
            footprints.get_or_insert_with(|| Arc::new(Footprints::new(domain.workers())));
        let trail = Arc::new(Trail::new(transaction, footprints));
        locked(&self.trails).push(Arc::clone(&trail));
        trail
    }

    /// The objects, by their numbers.
    pub fn objects(&self) -> Vec<Object> {
        locked(&self.objects).clone()
    }

    /// The trails of all workers.
    pub fn trails(&self) -> Vec<Arc<Trail>> {
        locked(&self.trails).clone()
    }
}
