//! Timers that handlers have set: in the order of their times, those of one time in the order of their tokens.
//!
//! A timer belongs to the shard whose packet has set it, goes along where that moves, and is stored in its scope.
//! What `init` has set, and what that sets in turn, is not stored: a restart sets it anew.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::state::journal::{self, Moment, Sink, Steps};
use crate::state::shards::Bundle;

/// The name by which timers are stored; no field is named so.
pub const TIMERS: &str = "cx.timers";

/// Timers of one time, token and setter that are read back: more are none that any function has set.
const MOST_ALIKE: u32 = 1 << 20;

/// Who has set a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setter {
    /// `init`, or a timer that it has set.
    Init,
    /// No shard: a command or a period, all workers alike, or state is not divided.
    All,
    /// A packet of this shard, or what expired there.
    Shard(u16),
}

/// A timer that is to go off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer {
    /// When, in nanoseconds since the Unix epoch.
    pub due_ns: u64,
    /// What the handler is given.
    pub token: u64,
    /// For whom it goes off.
    pub setter: Setter,
}

/// Timers that have not gone off.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    kept: Option<Box<Kept>>,
}

/// What a store is to know of them.
#[derive(Debug)]
struct Kept {
    steps: Steps,
    standing: BTreeMap<Timer, Standing>,
    /// Of which the store is to be told, with the step since when.
    changed: BTreeMap<Timer, u32>,
}

/// Timers of one time, token and setter.
#[derive(Debug, Default)]
struct Standing {
    count: u32,
    /// The store has been told of some.
    is_told: bool,
}

impl Kept {
    /// There are so many more, or one less.
    fn change(&mut self, timer: Timer, change: impl FnOnce(u32) -> u32) {
        if timer.setter == Setter::Init {
            return;
        }
        let standing = self.standing.entry(timer).or_default();
        standing.count = change(standing.count);
        if standing.count == 0 && !standing.is_told {
            self.standing.remove(&timer);
            self.changed.remove(&timer);
        } else {
            let step = self.steps.now();
            self.changed.entry(timer).or_insert(step);
        }
    }
}

impl Timers {
    /// When the next one is due; `u64::MAX`: there is none.
    pub(crate) fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse(timer)| timer.due_ns)
    }

    pub(crate) fn set(&mut self, timer: Timer) {
        self.heap.push(Reverse(timer));
        if let Some(kept) = &mut self.kept {
            kept.change(timer, |count| count.saturating_add(1));
        }
    }

    /// Takes the next one, if it is due at `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Timer> {
        if self.next_ns() > now_ns {
            return None;
        }
        let Reverse(timer) = self.heap.pop()?;
        if let Some(kept) = &mut self.kept {
            kept.change(timer, |count| count.saturating_sub(1));
        }
        Some(timer)
    }

    /// From now on changes are remembered, for a store that has those that are there.
    pub(crate) fn keep(&mut self, steps: &Steps) {
        let mut standing: BTreeMap<Timer, Standing> = BTreeMap::new();
        for Reverse(timer) in self.heap.iter().filter(|one| one.0.setter != Setter::Init) {
            let one = standing.entry(*timer).or_default();
            (one.count, one.is_told) = (one.count + 1, true);
        }
        let (steps, changed) = (steps.clone(), BTreeMap::new());
        self.kept = Some(Box::new(Kept { steps, standing, changed }));
    }

    /// Tells what has changed since the last time, of whatever shards `moment` is of.
    pub(crate) fn drain(&mut self, moment: &Moment, sink: &mut dyn Sink) {
        let Some(kept) = self.kept.as_deref_mut() else { return };
        let Kept { standing, changed, .. } = kept;
        let mut told = changed.extract_if(.., |timer, _| moment.is_of(timer.shard()));
        while moment.room() > 0
            && let Some((timer, step)) = told.next()
        {
            moment.spend(1);
            sink.at(Some(step));
            tell(standing, timer, moment, sink);
        }
        drop(told);
        if moment.room() == 0 {
            moment.leave(changed.len());
        }
    }

    /// Sets what was told, for `setter`; false when it cannot be read.
    pub(crate) fn restore(&mut self, key: &[u8], value: &[u8], setter: Setter) -> bool {
        let (Some((due_ns, token)), Some(count)) =
            (journal::loaded::<(u64, u64)>(key), journal::loaded::<u32>(value))
        else {
            return false;
        };
        if count > MOST_ALIKE {
            return false;
        }
        let timer = Timer { due_ns, token, setter };
        (0..count).for_each(|_| self.set(timer));
        true
    }

    /// Takes out those of the shards that leave.
    pub(crate) fn take_shards(&mut self, bundle: &mut Bundle) {
        let mut moved: Vec<Timer> = Vec::new();
        self.heap.retain(|Reverse(timer)| {
            let leaves = timer.shard().is_some_and(|shard| bundle.shards().contains(shard));
            moved.extend(leaves.then_some(*timer));
            !leaves
        });
        if let Some(kept) = &mut self.kept {
            // What leaves has not gone off.
            kept.standing.retain(|timer, _| {
                timer.shard().is_none_or(|shard| !bundle.shards().contains(shard))
            });
        }
        bundle.pack(moved);
    }

    /// Puts in what another worker has taken out, and told.
    pub(crate) fn put_shards(&mut self, bundle: &mut Bundle) {
        for timer in bundle.unpack::<Timer>() {
            self.heap.push(Reverse(timer));
            if let Some(kept) = &mut self.kept {
                let one = kept.standing.entry(timer).or_default();
                (one.count, one.is_told) = (one.count + 1, true);
            }
        }
    }
}

fn tell(
    standing: &mut BTreeMap<Timer, Standing>,
    timer: Timer,
    moment: &Moment,
    sink: &mut dyn Sink,
) {
    let (part, key) = ((TIMERS, timer.shard()), (timer.due_ns, timer.token));
    match standing.get_mut(&timer).filter(|one| one.count > 0) {
        Some(one) => {
            one.is_told = true;
            moment.put(sink, part, &key, &one.count);
        }
        None => {
            standing.remove(&timer);
            moment.remove(sink, part, &key);
        }
    }
}

impl Timer {
    fn shard(self) -> Option<u16> {
        match self.setter {
            Setter::Shard(shard) => Some(shard),
            Setter::Init | Setter::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shards::ShardSet;
    use proptest::prelude::*;

    const SHARDS: u16 = 3;

    #[derive(Default)]
    struct Store(BTreeMap<(Option<u16>, Vec<u8>), Vec<u8>>);

    impl Sink for Store {
        fn put(&mut self, _: &'static str, shard: Option<u16>, key: &[u8], value: &[u8]) {
            self.0.insert((shard, key.to_vec()), value.to_vec());
        }
        fn remove(&mut self, _: &'static str, shard: Option<u16>, key: &[u8]) {
            assert!(self.0.remove(&(shard, key.to_vec())).is_some(), "it was never told");
        }
        fn count(&mut self, _: &'static str, _: u64) {}
    }

    impl Store {
        /// The timers of a worker that begins with what is stored.
        fn restored(&self) -> Timers {
            let mut timers = Timers::default();
            for ((shard, key), value) in &self.0 {
                assert!(timers.restore(key, value, shard.map_or(Setter::All, Setter::Shard)));
            }
            timers
        }
    }

    fn all(timers: &[Timers]) -> Vec<Timer> {
        let mut all: Vec<Timer> =
            timers.iter().flat_map(|one| one.heap.iter().map(|Reverse(timer)| *timer)).collect();
        all.sort_unstable();
        all
    }

    fn timer(due: u8, token: u8) -> Timer {
        let setter = match u16::from(token % 5) {
            shard if shard < SHARDS => Setter::Shard(shard),
            3 => Setter::All,
            _ => Setter::Init,
        };
        Timer { due_ns: (due % 8).into(), token: (token % 7).into(), setter }
    }

    proptest! {
        #[test]
        fn a_restart_has_the_timers_that_were_told(
            steps in prop::collection::vec((0u8..6, any::<u8>(), any::<u8>()), 1..200)
        ) {
            let mut workers = [Timers::default(), Timers::default()];
            let mut owners = [0usize; SHARDS as usize];
            let mut store = Store::default();
            let one_of = |setter: Setter, owners: &[usize]| match setter {
                Setter::Shard(shard) => owners[usize::from(shard)],
                _ => 0,
            };
            workers.iter_mut().for_each(|one| one.keep(&Steps::default()));
            for (what, a, b) in steps {
                match what {
                    0 | 1 => {
                        let timer = timer(a, b);
                        workers[one_of(timer.setter, &owners)].set(timer);
                    }
                    2 => drop(workers[usize::from(a % 2)].take((b % 9).into())),
                    3 => {
                        let shard = u16::from(a) % SHARDS;
                        let owner = &mut owners[usize::from(shard)];
                        let mut bundle = Bundle::new(ShardSet::from_iter([shard]), 0);
                        let of = Moment::new(0).of_shards(bundle.shards());
                        workers[*owner].drain(&of, &mut store);
                        workers[*owner].take_shards(&mut bundle);
                        *owner = 1 - *owner;
                        workers[*owner].put_shards(&mut bundle);
                    }
                    4 => {
                        let moment = Moment::new(0).of_changes((a % 4).into());
                        workers[usize::from(b % 2)].drain(&moment, &mut store);
                    }
                    _ => {
                        workers.iter_mut().for_each(|one| one.drain(&Moment::new(0), &mut store));
                        let mut expected = all(&workers);
                        expected.retain(|timer| timer.setter != Setter::Init);
                        prop_assert_eq!(all(&[store.restored()]), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn what_goes_off_before_it_is_told_waits_nowhere() {
        let mut timers = Timers::default();
        timers.keep(&Steps::default());
        for due_ns in 0..10_000 {
            timers.set(Timer { due_ns, token: 1, setter: Setter::All });
            assert!(timers.take(due_ns).is_some());
        }
        let kept = timers.kept.unwrap();
        assert!(kept.standing.is_empty() && kept.changed.is_empty());
    }
}
