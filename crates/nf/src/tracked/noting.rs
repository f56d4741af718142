//! What workers change beside each other, noted for a store as it is committed.
//!
//! Not as they change it: an attempt that is given up would have noted it, too, and whoever took the same place
//! next would have inherited its step. Who is alone notes at once.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use anabranch_txn::{Deadline, Entry, Map, Transaction, Watcher, Words};

use super::from_words;
use crate::key::Value;
use crate::state::journal::Journal;

/// Where who is alone notes what he changes, if it is kept; nobody is told of it otherwise.
#[inline]
pub(super) fn alone<'a, K>(
    journal: &'a OnceLock<Arc<Journal<K>>>,
    transaction: &Transaction,
) -> Option<&'a Journal<K>> {
    journal.get().filter(|_| transaction.is_alone()).map(|journal| &**journal)
}

/// Of objects that are told by their numbers.
struct Numbered(Arc<Journal<u32>>);

impl Watcher for Numbered {
    fn changes(&self, object: u32, _: Words<'_>, _: Words<'_>, step: u32) {
        self.0.note_in(object, step);
    }
}

/// Notes what is committed of objects that are told by their numbers.
pub(super) fn numbered(journal: &Arc<Journal<u32>>) -> Box<dyn Watcher> {
    Box::new(Numbered(Arc::clone(journal)))
}

/// Of those that have a deadline, in this word, and are gone when they have none.
struct Mortal(Arc<Journal<u32>>, usize);

impl Watcher for Mortal {
    fn changes(&self, object: u32, before: Words<'_>, after: Words<'_>, step: u32) {
        let is_there = |words: Words<'_>| Deadline::from_word(words.get(self.1)).tick != 0;
        match (is_there(before), is_there(after)) {
            // What is given the number next has a step of its own.
            (true, false) => self.0.clear_in(object, object, step),
            (false, false) => {}
            (_, true) => self.0.note_in(object, step),
        }
    }
}

/// Notes what is committed of objects that are told by their numbers as long as they have a deadline, in this word.
pub(super) fn mortal(journal: &Arc<Journal<u32>>, deadline: usize) -> Box<dyn Watcher> {
    Box::new(Mortal(Arc::clone(journal), deadline))
}

/// Of buckets of entries with keys `K`.
struct Buckets<K, E>(Arc<Journal<K>>, PhantomData<fn() -> E>);

impl<K: Value, E: Entry> Watcher for Buckets<K, E> {
    fn changes(&self, bucket: u32, before: Words<'_>, after: Words<'_>, step: u32) {
        Map::<E>::compare(bucket, [before, after], |slot, gone, is_new| {
            gone.into_iter().for_each(|key| self.0.clear_in(slot, from_words(key), step));
            if is_new {
                self.0.note_in(slot, step);
            }
        });
    }
}

/// Notes what is committed of the buckets of a map.
pub(super) fn buckets<K: Value, E: Entry + 'static>(journal: &Arc<Journal<K>>) -> Box<dyn Watcher> {
    Box::new(Buckets::<K, E>(Arc::clone(journal), PhantomData))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use anabranch_txn::{Batch, Domain, Place, Worker};

    use super::*;
    use crate::context::{Context, Environment};
    use crate::key::{Fold, Key};
    use crate::pack::{Pack, Unpack};
    use crate::state::journal::{Journaled, Moment, Sink, Steps};
    use crate::tracked::{SharedAllocator, SharedMap, Sharing, Tracked};
    use crate::world::{AllocatorOperations, MapOperations, Solo};

    /// What is told: object, step, key, and the value if there is one.
    #[derive(Default)]
    struct Told(Vec<(&'static str, u32, u8, Option<u8>)>, u32);

    impl Sink for Told {
        fn put(&mut self, object: &'static str, _: Option<u16>, key: &[u8], value: &[u8]) {
            self.0.push((object, self.1, key[0], Some(value[0])));
        }
        fn remove(&mut self, object: &'static str, _: Option<u16>, key: &[u8]) {
            self.0.push((object, self.1, key[0], None));
        }
        fn at(&mut self, step: Option<u32>) {
            self.1 = step.unwrap();
        }
        fn count(&mut self, _: &'static str, _: u64) {
            unreachable!("no counter")
        }
    }

    /// All of them belong in one bucket, of three entries.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Name(u8);

    impl Value for Name {
        const BITS: u32 = 8;
        fn zero() -> Self {
            Self(0)
        }
        fn pack(&self, pack: &mut Pack<'_>) {
            pack.put(self.0.into(), 8);
        }
        fn unpack(unpack: &mut Unpack<'_>) -> Self {
            Self(unpack.take(8) as u8)
        }
    }

    impl Key for Name {
        fn fold(&self, fold: Fold) -> Fold {
            fold
        }
    }

    type Shared = Tracked<SharedMap<Name, u32>>;

    /// A worker, with two maps.
    struct One {
        worker: Worker,
        maps: [Shared; 2],
    }

    /// One packet, and how often it was run.
    struct Packet<'a>(&'a mut [Shared; 2], &'a mut dyn FnMut(&mut [Shared; 2], u32), u32);

    impl Batch for Packet<'_> {
        fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
            assert!(!transaction.is_alone());
            self.2 += 1;
            (self.1)(self.0, self.2);
            range.len()
        }
        fn undo(&mut self, _: Range<usize>) {}
        fn release(&mut self, _: Range<usize>, _: Place) {}
    }

    impl One {
        /// Does something in a transaction, which knows which attempt it is; returns how many it took.
        fn packet(&mut self, mut act: impl FnMut(&mut [Shared; 2], u32)) -> u32 {
            let mut packet = Packet(&mut self.maps, &mut act, 0);
            self.worker.handle(&mut packet, 1);
            packet.2
        }

        fn told(&mut self) -> Vec<(&'static str, u32, u8, Option<u8>)> {
            let (Self { worker, maps }, mut told) = (self, Told::default());
            worker.alone(|_| {
                for (map, name) in maps.iter_mut().zip(["one", "two"]) {
                    map.drain(name, &Moment::new(0), &mut told);
                }
            });
            told.0
        }
    }

    /// Two workers, and a store.
    fn workers() -> [One; 2] {
        let domain = Arc::new(Domain::new(2, false).with_turns(Some(false)));
        let mut sharing = Some(Sharing::new(&domain));
        let mut workers = [0, 1].map(|_| {
            let mut own = sharing.take().unwrap();
            let mut map =
                |name| own.object(name, |domain| SharedMap::new(domain, 5_000, 1)).unwrap();
            let maps = [map("one"), map("two")];
            let worker = Worker::new(Arc::clone(&own.transaction));
            sharing = Some(own.next());
            One { worker, maps }
        });
        let steps = Steps::default();
        workers[0].maps.iter_mut().for_each(|map| map.keep(&steps));
        domain.count_steps(move || steps.next());
        workers
    }

    struct Act<F>(F);

    impl<F: FnMut()> Batch for Act<F> {
        fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
            assert!(!transaction.is_alone());
            (self.0)();
            range.len()
        }
        fn undo(&mut self, _: Range<usize>) {}
        fn release(&mut self, _: Range<usize>, _: Place) {}
    }

    /// An object is made, given back, and another one made that has its number, before any is told.
    #[test]
    fn who_is_given_a_number_does_not_inherit_the_step_of_who_had_it() {
        let domain = Arc::new(Domain::new(1, false).with_turns(Some(false)));
        let mut own = Sharing::new(&domain);
        let mut objects =
            own.object("objects", |domain| SharedAllocator::<u8>::new(domain, 64)).unwrap();
        let mut worker = Worker::new(Arc::clone(&own.transaction));
        let steps = Steps::default();
        objects.keep(&steps);
        domain.count_steps(move || steps.next());
        let mut environment = Environment::new(1);
        let context = &Context::<Solo>::new(&mut environment);
        for value in [11, 22] {
            worker.handle(&mut Act(|| assert!(objects.allocate_at(7, value, 1 << 40, context))), 1);
            if value == 11 {
                worker.handle(&mut Act(|| assert!(objects.free(7))), 1);
            }
        }
        let mut told = Told::default();
        worker.alone(|_| objects.drain("objects", &Moment::new(0), &mut told));
        let [(_, gone, 7, None), (_, come, 7, Some(_))] = told.0[..] else {
            panic!("{:?}", told.0)
        };
        assert_eq!(come, gone + 1);
        // Who is alone notes it himself.
        worker.alone(|_| {
            assert!(objects.free(7) && objects.allocate_at(7, 33, 1 << 40, context));
        });
        let mut told = Told::default();
        worker.alone(|_| objects.drain("objects", &Moment::new(0), &mut told));
        assert!(matches!(told.0[..], [(_, _, 7, None), (_, _, 7, Some(_))]), "{:?}", told.0);
    }

    /// The first attempt of one is overtaken by the other, which takes its places.
    #[test]
    fn who_takes_the_place_of_an_attempt_does_not_inherit_its_step() {
        let [mut one, mut other] = workers();
        let tries = one.packet(|[first, second], attempt| {
            first.insert(Name(1), 11);
            if attempt == 1 {
                other.packet(|[_, second], _| assert!(second.insert(Name(3), 33)));
                other.packet(|maps, _| {
                    assert!(maps.iter_mut().all(|map| map.insert(Name(2), 22)));
                });
            }
            second.insert(Name(1), 11);
        });
        assert_eq!(tries, 2);
        let mut told = one.told();
        told.sort_by_key(|one| one.1);
        let names: Vec<_> = told.iter().map(|one| (one.0, one.2)).collect();
        let expected = [("two", 3), ("one", 2), ("two", 2), ("one", 1), ("two", 1)];
        assert_eq!(names, expected, "in the order of what was committed: {told:?}");
        let is_same: Vec<_> = told.windows(2).map(|two| two[0].1 == two[1].1).collect();
        assert_eq!(is_same, [false, true, false, true], "{told:?}");
    }

    #[test]
    fn what_an_attempt_has_removed_is_not_told_to_be_gone() {
        let [mut one, mut other] = workers();
        one.packet(|[first, _], _| assert!(first.insert(Name(1), 11)));
        assert_eq!(one.told().len(), 1);
        let tries = one.packet(|[first, second], attempt| match attempt {
            1 => {
                assert_eq!(first.remove(&Name(1)), Some(11));
                second.insert(Name(3), 33);
                other.packet(|[_, second], _| assert!(second.insert(Name(2), 22)));
            }
            _ => assert!(first.contains(&Name(1))),
        });
        assert_eq!(tries, 2);
        let told = one.told();
        assert!(matches!(told[..], [("two", _, 2, Some(22))]), "{told:?}");
    }

    #[test]
    fn what_comes_to_the_place_of_what_is_gone_is_written_when_it_comes() {
        let [mut one, mut other] = workers();
        one.packet(|[first, _], _| assert!(first.insert(Name(1), 11)));
        other.packet(|[first, _], _| assert_eq!(first.remove(&Name(1)), Some(11)));
        one.packet(|[first, _], _| assert!(first.insert(Name(3), 33)));
        // What comes and goes in one transaction is not told, nor what is as it was.
        other.packet(|[first, second], _| {
            assert!(first.insert(Name(4), 44) && first.remove(&Name(4)).is_some());
            assert!(second.insert(Name(5), 55) && second.remove(&Name(5)).is_some());
            assert!(first.insert(Name(3), 33));
        });
        let told = one.told();
        let [("one", gone, 1, None), ("one", come, 3, Some(33))] = told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(come, gone + 1);
        one.packet(|[first, _], _| {
            assert!(
                first.remove(&Name(3)).is_some()
                    && first.insert(Name(6), 66)
                    && first.insert(Name(3), 34)
            );
        });
        let told: Vec<_> = one.told().into_iter().map(|one| (one.2, one.3)).collect();
        assert_eq!(told, [(3, None), (6, Some(66)), (3, Some(34))]);
    }
}
