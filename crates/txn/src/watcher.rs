//! Who is told what transactions change beside each other: whoever keeps state in a store.
//!
//! ```text
//! commit: announce ▸ lock ▸ take a step ▸ what was read is the same? ▸ tell watchers ▸ store ▸ publish ▸ unlock
//! ```
//!
//! **Invariant**: a transaction's step is later than those of all whose changes it has seen or writes over, and
//! of one object its watcher is told of changes in the order of their steps. An attempt that is given up has told
//! nobody anything.

use crate::memory::Words;

/// Is told of the objects of one memory. What who is alone does to them it is not told: he knows himself.
pub trait Watcher: Send + Sync {
    /// An object is `before` and will be `after`, by a commit of this step. Nobody else changes it meanwhile, but
    /// for deadlines that are raised.
    fn changes(&self, object: u32, before: Words<'_>, after: Words<'_>, step: u32);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sync::{AtomicU64, Ordering, thread};
    use crate::tests::model;
    use crate::{Domain, Memory, Shape, Transaction};

    /// Of each change: the object, what was there and what will be, the step.
    type Told = Arc<Mutex<Vec<(u32, [u64; 2], u32)>>>;

    struct Watch(Told);

    impl Watcher for Watch {
        fn changes(&self, object: u32, before: Words<'_>, after: Words<'_>, step: u32) {
            // Nobody waits for a plain lock while another has his turn.
            let words = [before.get(0), after.get(0)];
            self.0.lock().unwrap().push((object, words, step));
        }
    }

    /// Two objects, of which a watcher is told.
    fn watched() -> (Arc<Domain>, Arc<Memory>, Told) {
        let domain = Arc::new(Domain::new(2, false));
        let memory = domain.memory(Shape { objects: 2, tracked: 1, deadlines: 0, apart: true });
        domain.memories();
        let (told, steps) = (Told::default(), AtomicU64::new(0));
        domain.count_steps(move || steps.fetch_add(1, Ordering::AcqRel) as u32 + 1);
        memory.watch(Box::new(Watch(Arc::clone(&told))));
        (domain, memory, told)
    }

    /// Adds one to these objects, and returns the step if that is committed.
    fn add_one(
        domain: &Arc<Domain>,
        memory: &Memory,
        worker: usize,
        objects: &[u32],
    ) -> Option<u32> {
        let transaction = Transaction::new(domain, worker);
        transaction.begin();
        for &object in objects {
            let word = transaction.read(memory, object, |words| words.get(0))?;
            transaction.write(memory, object, |words| words.set(0, word + 1));
        }
        transaction.commit().is_ok().then(|| transaction.step())
    }

    /// Two change the same object, and one of them another: of what is committed it is told whole, in one step, and
    /// in the order in which it was; of the rest nothing.
    #[test]
    fn steps_are_in_the_order_of_what_is_committed() {
        model(|| {
            let (domain, memory, told) = watched();
            let (there, other) = (Arc::clone(&domain), Arc::clone(&memory));
            let thread = thread::spawn(move || add_one(&there, &other, 1, &[0]));
            let steps = [add_one(&domain, &memory, 0, &[1, 0]), thread.join().unwrap()];
            let told = told.lock().unwrap();
            let of_one = |object| told.iter().filter(move |one| one.0 == object);
            let committed: Vec<u32> = steps.into_iter().flatten().collect();
            assert_eq!(of_one(0).count(), committed.len());
            for (value, (_, words, step)) in of_one(0).enumerate() {
                assert_eq!(*words, [value as u64, value as u64 + 1]);
                assert!(committed.contains(step));
            }
            assert!(of_one(0).is_sorted_by_key(|one| one.2), "{told:?}");
            assert!(of_one(1).map(|one| Some(one.2)).eq(steps[0].map(Some)), "{told:?}");
        });
    }

    /// Who only reads what another changes comes, in steps too, before or after it.
    #[test]
    fn who_has_not_seen_a_change_is_in_no_later_step() {
        model(|| {
            let (domain, memory, _) = watched();
            let (there, other) = (Arc::clone(&domain), Arc::clone(&memory));
            let thread = thread::spawn(move || add_one(&there, &other, 1, &[0]));
            let transaction = Transaction::new(&domain, 0);
            transaction.begin();
            let seen = transaction.read(&memory, 0, |words| words.get(0));
            transaction.write(&memory, 1, |words| words.set(0, 7));
            let step = transaction.commit().is_ok().then(|| transaction.step());
            if let (Some(seen), Some(own), Some(other)) = (seen, step, thread.join().unwrap()) {
                assert_eq!(own > other, seen == 1, "{seen} seen in step {own}, changed in {other}");
            }
        });
    }

    /// Who is alone tells himself what he changes, in a step of his own.
    #[test]
    fn who_is_alone_is_in_one_step() {
        model(|| {
            let (domain, memory, told) = watched();
            let transaction = Transaction::new(&domain, 0);
            let alone = || {
                transaction.begin_alone();
                transaction.write(&memory, 0, |words| words.set(0, 3));
                [transaction.step(), transaction.step()]
            };
            assert_eq!([alone(), alone()], [[1, 1], [2, 2]]);
            assert_eq!(add_one(&domain, &memory, 0, &[0]), Some(3));
            assert_eq!(*told.lock().unwrap(), [(0, [3, 4], 3)]);
        });
    }
}
