//! Packet sets that one worker has for itself while other state is shared.

use std::sync::Arc;

use anabranch_txn::{Count, Deadline, Domain, Trail, Transaction};

use super::causes::{Contended, Operation, Site, Structure};
use super::sets::{Found, OpenSet, SharedSets};
use super::wheel::SharedWheel;
use super::with_words;
use crate::context::{ends, to_ticks};
use crate::function::BuildError;
use crate::key::{Hash, Key, Value};
use crate::memory::Zeroed;
use crate::packet_set::{Ends, Entry, SetShape, Stored, ends_at};
use crate::state::TableUse;
use crate::state::journal::{self, Journal, Moment, Sink, Steps};
use crate::state::table::{SlotId, Table};
use crate::state::wheel::{Tick, Wheel};

/// How often a transaction changes a table at most, unless it runs alone: each of its packets opens a
/// set and keeps it.
const CHANGES: usize = 64;

/// The packet sets of one address family whose packets all come to one worker.
///
/// They are changed where they lie. What a change took away is remembered until the transaction has
/// committed ([`forget`](Self::forget)) or is given up ([`take_back`](Self::take_back)).
pub struct DividedSets<K, S> {
    table: Table<Stored<K, S>, Entry<S>>,
    changes: Vec<Change<S>>,
    lifetime: u32,
    /// Its number in a profile.
    number: u16,
    /// What is known under the numbers from here on to [`Ages`].
    first: u32,
    ages: Arc<Ages>,
    /// What is remembered of them, where a store keeps them.
    kept: Option<Kept<K>>,
    /// More was done to them than that deadlines were moved forward.
    wrote: bool,
}

/// Which sets were written and which closed, and the shard of each.
struct Kept<K> {
    journal: Journal<K>,
    shards: Zeroed<u16>,
}

impl<K: Value> Kept<K> {
    fn belongs(&mut self, slot: u32, shard: u16) {
        if let Some(place) = self.shards.get_mut(slot as usize) {
            *place = shard;
        }
    }

    fn shard(&self, slot: u32) -> Option<u16> {
        self.shards.get(slot as usize).copied()
    }

    fn closed(&mut self, slot: u32, key: K) {
        let shard = self.shard(slot);
        self.journal.clear(slot, shard, key);
    }
}

/// What the tables of all workers have in common: a table is full when one worker's would be, and sets
/// are looked at in the order in which one worker would, where the domain keeps the order of commits.
pub struct Ages {
    len: Count,
    capacity: u32,
    wheel: SharedWheel,
    /// Slots of each worker's table.
    slots: u32,
    /// Bytes of the wheel for each worker: known without the wheel, which is held while tables are
    /// looked at and so is not asked for by who holds a table.
    bytes: usize,
}

/// What a change took away.
enum Change<S> {
    /// The set was opened.
    Opened(Hash, SlotId),
    /// The set was like this.
    Kept(SlotId, Entry<S>),
}

/// What has become of a set that is looked at.
pub enum Age<S> {
    /// It ends then.
    Alive(Tick),
    /// It has ended, and is removed.
    Over(S),
    /// It was closed before.
    Gone,
}

impl Ages {
    /// The state of the next set whose time has run out at `now`. `look` goes to a set: the worker and
    /// the slot; `budget` counts down those. For who is alone.
    pub fn expire<S>(
        &self,
        transaction: &Transaction,
        now: Tick,
        budget: &mut u32,
        mut look: impl FnMut(usize, u32) -> Age<S>,
    ) -> Option<S> {
        let mut wheel = self.wheel.turn(transaction);
        while *budget > 0 {
            let number = wheel.pop(now)?;
            *budget -= 1;
            match look((number / self.slots) as usize, number % self.slots) {
                Age::Alive(tick) => wheel.queue(number, tick),
                Age::Over(state) => {
                    self.len.add(transaction, -1);
                    return Some(state);
                }
                Age::Gone => {}
            }
        }
        None
    }

    /// Ticks are counted from an origin `by` later. For who is alone.
    pub fn rebase(&self, transaction: &Transaction, by: Tick) {
        self.wheel.turn(transaction).rebase(by);
    }
}

impl<K: Ends, S: Value> DividedSets<K, S> {
    /// A table of this shape for each worker of the domain, hashed with `seed`.
    ///
    /// # Errors
    /// All of them together have 2^32 places or more.
    pub fn of_all(
        domain: &Domain,
        shape: SetShape,
        seed: u64,
    ) -> Result<(Vec<Self>, Arc<Ages>), BuildError> {
        let workers = domain.workers() as u32;
        let whole = Table::<Stored<K, S>, Entry<S>>::new(shape.capacity, seed);
        let table = || whole.for_one_of(workers);
        let slots = table().slots();
        let all = slots.checked_mul(workers).filter(|&all| all <= Wheel::MOST).ok_or_else(|| {
            let SetShape { capacity, .. } = shape;
            BuildError(format!(
                "{capacity} packet sets for each of {workers} workers are more places than there can be, \
                 2^32: run fewer workers, or ask for fewer sets"
            ))
        })?;
        let len = Count::new(domain);
        let wheel = SharedWheel::new(len.memory(), all);
        let bytes = wheel.bytes() / workers as usize;
        let ages = Arc::new(Ages { len, capacity: shape.capacity, wheel, slots, bytes });
        let new = |worker| Self {
            table: table(),
            changes: Vec::with_capacity(CHANGES),
            lifetime: to_ticks(shape.lifetime_ns).max(1),
            number: 0,
            first: worker * slots,
            ages: Arc::clone(&ages),
            kept: None,
            wrote: false,
        };
        Ok(((0..workers).map(new).collect(), ages))
    }

    /// It is known under this number in a profile.
    pub fn numbered(&mut self, number: u16) {
        self.number = number;
    }

    /// The hash of `key`, the same in every worker's table.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> Hash {
        self.table.hash(&Stored::new(key))
    }

    /// Fetches the bucket of this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash) {
        self.table.prefetch(hash);
    }

    #[inline(always)]
    fn open_set(id: SlotId, entry: &Entry<S>) -> OpenSet<S> {
        let deadline = Deadline { generation: 0, tick: entry.deadline().tick() };
        OpenSet { number: id.0, deadline, lifetime: entry.lifetime(), state: entry.state }
    }

    fn insert(
        &mut self,
        transaction: &Transaction,
        (hash, key): (Hash, &K),
        set: Entry<S>,
    ) -> Option<SlotId> {
        let Ages { len, capacity, wheel, .. } = &*self.ages;
        if !len.has_room(transaction, *capacity) {
            return None;
        }
        let tick = set.deadline().tick();
        let id = self.table.insert(hash, Stored::new(key), set)?;
        len.add(transaction, 1);
        wheel.queue(transaction, self.first + id.0, tick);
        Some(id)
    }

    /// The transaction has committed: beside others in this step, as is asked where that is to be noted, or alone
    /// (`None`), and it is. True: it did more than move deadlines forward.
    #[inline(always)]
    pub fn forget(&mut self, step: impl FnOnce() -> Option<u32>) -> bool {
        if self.wrote && self.kept.is_some() {
            step().into_iter().for_each(|step| self.note_changes(step));
        }
        self.changes.clear();
        std::mem::take(&mut self.wrote)
    }

    /// Nobody else has been at these sets since.
    fn note_changes(&self, step: u32) {
        let Some(Kept { journal, .. }) = &self.kept else { return };
        for change in &self.changes {
            match change {
                Change::Opened(_, id) => journal.note_in(id.0, step),
                Change::Kept(id, before) => {
                    let now = self.table.value(*id);
                    if (now.state, now.lifetime()) != (before.state, before.lifetime()) {
                        journal.note_in(id.0, step);
                    }
                }
            }
        }
    }

    /// The transaction is given up: the sets are what they were when it began.
    pub fn take_back(&mut self) {
        self.wrote = false;
        while let Some(change) = self.changes.pop() {
            match change {
                Change::Opened(hash, id) => drop(self.table.remove(hash, id)),
                Change::Kept(id, entry) => *self.table.value_mut(id) = entry,
            }
        }
    }

    /// Removes the set in `slot` if its time has run out at `now`. For who is alone.
    pub fn age(&mut self, slot: u32, now: Tick) -> Age<S> {
        let id = SlotId(slot);
        let Some(key) = self.table.key(id).map(Stored::key) else { return Age::Gone };
        let entry = self.table.value(id);
        if entry.is_alive(now) {
            return Age::Alive(entry.deadline().tick());
        }
        self.kept.iter_mut().for_each(|kept| kept.closed(slot, key));
        self.table.remove(self.hash(&key), id).map_or(Age::Gone, |(_, set)| Age::Over(set.state))
    }

    /// From now on changes are remembered, for a store.
    pub fn remember(&mut self, steps: &Steps) {
        let slots = self.table.slots();
        self.kept().journal = Journal::new(slots, steps);
    }

    fn kept(&mut self) -> &mut Kept<K> {
        let slots = self.table.slots();
        let journal = || Journal::new(slots, &Steps::default());
        let kept = || Kept { journal: journal(), shards: Zeroed::new(slots as usize) };
        self.kept.get_or_insert_with(kept)
    }

    /// Tells what has changed since the last time, by shard, as [`Journaled`](journal::Journaled) does.
    /// For who is alone.
    pub fn drain(&self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(kept) = &self.kept else { return };
        let ends = |slot| ends_at(&self.table, slot);
        for (slot, step) in kept.journal.take(name, moment, ends, sink) {
            sink.at(Some(step));
            let Some(key) = self.table.key(SlotId(slot)).map(Stored::key) else { continue };
            let set = self.table.value(SlotId(slot)).told(moment);
            moment.put(sink, (name, kept.shard(slot)), &key, &set);
        }
    }

    /// Puts in a set of `shard` as it was told; false when it does not fit or cannot be read. For who is
    /// alone, before there are any.
    pub fn restore(
        &mut self,
        transaction: &Transaction,
        shard: u16,
        (key, value): (&[u8], &[u8]),
        moment: &Moment,
    ) -> bool {
        let (key, set) = (journal::loaded::<K>(key), Entry::of_told(value, moment));
        let key = key.filter(|key| Stored::<K, S>::of_told(key).is_some());
        let (Some(key), Some(set)) = (key, set) else { return false };
        let id = self.insert(transaction, (self.hash(&key), &key), set);
        id.iter().for_each(|id| self.kept().belongs(id.0, shard));
        id.is_some()
    }

    /// Ticks are counted from an origin `by` later. For who is alone.
    pub fn rebase(&mut self, by: Tick) {
        self.table.update_all(|entry| entry.rebase(by));
    }

    /// How full the table is.
    pub fn table_use(&self, name: &str) -> TableUse {
        TableUse {
            name: name.to_owned(),
            used: self.table.len().into(),
            capacity: self.ages.capacity.into(),
            bytes: (self.table.bytes() + self.ages.bytes) as u64,
            faults: 0,
            whole: false,
            common: false,
        }
    }
}

impl<K: Ends, S: Value> Contended for DividedSets<K, S> {
    const STRUCTURE: &'static Structure = SharedSets::<K, S>::STRUCTURE;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        // Nobody else touches them.
        Vec::new()
    }

    fn key(words: &[u64]) -> String {
        super::text::<K>(words)
    }
}

/// The packet sets of one address family, for a packet in a transaction: those that all workers share, or
/// those that the packet's worker has for itself.
pub trait PacketSets<K: Key, S: Value> {
    /// Their number in a profile.
    fn number(&self) -> u16;
    /// The hash of `key`.
    fn hash(&self, key: &K) -> Hash;
    /// The set of `key`, which has this hash, at `now`.
    fn find(&mut self, transaction: &Transaction, key: (Hash, &K), now: Tick) -> Found<S>;
    /// Opens a set, for a packet of `shard`; `None`: the table is full, or the transaction doomed.
    fn open(
        &mut self,
        transaction: &Transaction,
        key: (Hash, &K),
        state: S,
        now: Tick,
        shard: u16,
    ) -> Option<OpenSet<S>>;
    /// A packet of the set is done with: stores its state, which is this now, if that has changed, and
    /// restarts its lifetime at `now`, with a new length when `lifetime` is not 0.
    fn keep(&mut self, transaction: &Transaction, set: (&OpenSet<S>, &S), now: Tick, lifetime: u32);
    /// Removes a set. For who is alone.
    fn close(&mut self, transaction: &Transaction, hash: Hash, set: &OpenSet<S>);

    /// Has `trail` note an operation about `key` that is done.
    #[cold]
    #[inline(never)]
    fn note(&self, trail: &Trail, operation: Operation, key: &K) {
        let site = Site { operation, object: Some(self.number()), line: 0 };
        with_words(key, |key| trail.note(site.into(), key));
    }
}

impl<K: Key, S: Value> PacketSets<K, S> for &SharedSets<K, S> {
    fn number(&self) -> u16 {
        SharedSets::number(self)
    }
    #[inline(always)]
    fn hash(&self, key: &K) -> Hash {
        SharedSets::hash(self, key)
    }
    #[inline(always)]
    fn find(&mut self, transaction: &Transaction, key: (Hash, &K), now: Tick) -> Found<S> {
        SharedSets::find(self, transaction, key, now)
    }
    fn open(
        &mut self,
        transaction: &Transaction,
        key: (Hash, &K),
        state: S,
        now: Tick,
        _: u16,
    ) -> Option<OpenSet<S>> {
        SharedSets::open(self, transaction, key, state, now)
    }
    #[inline(always)]
    fn keep(
        &mut self,
        transaction: &Transaction,
        set: (&OpenSet<S>, &S),
        now: Tick,
        lifetime: u32,
    ) {
        SharedSets::keep(self, transaction, set, now, lifetime);
    }
    fn close(&mut self, transaction: &Transaction, hash: Hash, set: &OpenSet<S>) {
        SharedSets::close(self, transaction, hash, set);
    }
}

impl<K: Ends, S: Value> PacketSets<K, S> for &mut DividedSets<K, S> {
    fn number(&self) -> u16 {
        self.number
    }

    #[inline(always)]
    fn hash(&self, key: &K) -> Hash {
        DividedSets::hash(self, key)
    }

    #[inline(always)]
    fn find(&mut self, transaction: &Transaction, (hash, key): (Hash, &K), now: Tick) -> Found<S> {
        let Some((id, entry)) = self.table.find_value(hash, &Stored::new(key)) else {
            return Found::None;
        };
        Found::at(transaction, DividedSets::<K, S>::open_set(id, entry), now)
    }

    fn open(
        &mut self,
        transaction: &Transaction,
        (hash, key): (Hash, &K),
        state: S,
        now: Tick,
        shard: u16,
    ) -> Option<OpenSet<S>> {
        if self.kept.as_ref().is_some_and(|kept| kept.journal.refuses_new()) {
            return None;
        }
        let tick = ends(now, self.lifetime);
        let set = Entry::new(tick, self.lifetime, state);
        let id = self.insert(transaction, (hash, key), set)?;
        if let Some(kept) = &mut self.kept {
            if transaction.is_alone() {
                kept.journal.note(id.0);
            }
            kept.belongs(id.0, shard);
        }
        self.changes.push(Change::Opened(hash, id));
        self.wrote = true;
        Some(DividedSets::<K, S>::open_set(id, self.table.value(id)))
    }

    #[inline(always)]
    fn keep(
        &mut self,
        transaction: &Transaction,
        (set, state): (&OpenSet<S>, &S),
        now: Tick,
        lifetime: u32,
    ) {
        let lifetime = if lifetime == 0 { set.lifetime } else { lifetime };
        let is_same = lifetime == set.lifetime && *state == set.state;
        if is_same && now.saturating_add(lifetime) <= set.deadline.tick {
            return;
        }
        let id = SlotId(set.number);
        self.wrote |= !is_same;
        if let Some(Kept { journal, .. }) = &self.kept
            && (is_same || transaction.is_alone())
        {
            journal.touch(id.0, !is_same);
        }
        let entry = self.table.value_mut(id);
        self.changes.push(Change::Kept(id, entry.copied()));
        entry.state = *state;
        entry.refresh(now, lifetime);
    }

    fn close(&mut self, transaction: &Transaction, hash: Hash, set: &OpenSet<S>) {
        let Ages { len, wheel, .. } = &*self.ages;
        if let Some((key, _)) = self.table.remove(hash, SlotId(set.number)) {
            self.kept.iter_mut().for_each(|kept| kept.closed(set.number, key.key()));
            self.wrote = true;
            wheel.turn(transaction).dequeue(self.first + set.number);
            len.add(transaction, -1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::ops::Range;

    use anabranch_txn::{Batch, Place, Worker};
    use proptest::prelude::*;

    use super::*;
    use crate::packet_set::SetKey4;

    const SHAPE: SetShape = SetShape { capacity: 12, lifetime_ns: 1 << 30 };

    fn key(host: u8) -> SetKey4 {
        SetKey4::new(Ipv4Addr::new(10, 0, 0, host), Ipv4Addr::LOCALHOST, 5, 80, 1)
    }

    /// What there is of each of these hosts: deadline, lifetime, state.
    fn content(sets: &DividedSets<SetKey4, u64>) -> Vec<Option<(u32, u32, u64)>> {
        let look = |host| {
            let set = sets.table.get(sets.hash(&key(host)), &Stored::new(&key(host)))?;
            Some((set.deadline().tick(), set.lifetime(), set.state))
        };
        (0..20).map(look).collect()
    }

    /// A packet of `host` as the runtime handles it: finds or opens the set, and counts in it.
    fn packet(
        mut sets: &mut DividedSets<SetKey4, u64>,
        transaction: &Transaction,
        (host, now, lifetime): (u8, u32, u32),
        closes: bool,
    ) {
        let key = (sets.hash(&key(host)), &key(host));
        let set = match sets.find(transaction, key, now) {
            Found::Alive(set) => set,
            Found::Over(set) if closes => return sets.close(transaction, key.0, &set),
            // Beside others it would run again alone.
            Found::Over(_) => return,
            Found::None => match sets.open(transaction, key, 0, now, 0) {
                Some(set) => set,
                None => return,
            },
        };
        let state = set.state + u64::from(now % 3);
        sets.keep(transaction, (&set, &state), now, lifetime);
    }

    /// Packets of hosts, in a worker's batches. Some ask for being alone once they have been handled.
    struct Packets<'a> {
        sets: &'a mut DividedSets<SetKey4, u64>,
        hosts: &'a [u8],
        given_up: usize,
    }

    impl Batch for Packets<'_> {
        fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
            for at in range.clone() {
                packet(self.sets, transaction, (self.hosts[at], 7, 1_000), false);
                if self.hosts[at] % 5 == 3 {
                    transaction.require_alone();
                }
                if transaction.is_doomed() {
                    return at + 1 - range.start;
                }
            }
            range.len()
        }
        fn committed(&mut self, transaction: &Transaction) {
            self.sets.forget(|| Some(transaction.step()));
        }
        fn undo(&mut self, _: Range<usize>) {
            self.given_up += 1;
            self.sets.take_back();
        }
        fn release(&mut self, _: Range<usize>, _: Place) {
            self.sets.forget(|| None);
        }
    }

    /// The first byte of each key that is told, and the step.
    #[derive(Default)]
    struct Told(Vec<(u8, u32)>, u32);

    impl Sink for Told {
        fn put(&mut self, _: &'static str, shard: Option<u16>, key: &[u8], _: &[u8]) {
            assert_eq!(shard, Some(0));
            self.0.push((*key.iter().find(|&&byte| byte != 0 && byte != 10).unwrap_or(&0), self.1));
        }
        fn remove(&mut self, _: &'static str, _: Option<u16>, _: &[u8]) {
            unreachable!("nothing is closed")
        }
        fn at(&mut self, step: Option<u32>) {
            self.1 = step.unwrap();
        }
        fn count(&mut self, _: &'static str, _: u64) {
            unreachable!("no counter")
        }
    }

    /// The first attempt opens a set and is given up; the second opens another in its place.
    #[test]
    fn an_attempt_that_is_given_up_leaves_no_step() {
        let domain = Arc::new(Domain::new(1, false));
        let shape = SetShape { capacity: 5_000, ..SHAPE };
        let (mut all, _) = DividedSets::<SetKey4, u64>::of_all(&domain, shape, 1).unwrap();
        let sets = &mut all[0];
        let steps = Steps::default();
        sets.remember(&steps);
        domain.count_steps(move || steps.next());
        let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
        let told = |sets: &DividedSets<_, _>| {
            let mut told = Told::default();
            sets.drain("sets", &Moment::new(0), &mut told);
            told.0
        };
        let mut handle = |sets: &mut _, hosts: &[u8]| {
            let mut packets = Packets { sets, hosts, given_up: 0 };
            worker.handle(&mut packets, hosts.len());
            packets.given_up
        };
        assert_eq!(handle(sets, &[1, 2]), 0);
        let first = told(sets);
        assert_eq!(first.len(), 2);
        assert_eq!(first[0].1, first[1].1, "one batch, one step");
        // Host 3 has to be alone, after hosts 1 and 4: that attempt is given up, and so is the second.
        assert_eq!(handle(sets, &[1, 4, 3]), 2);
        let mut again = told(sets);
        again.sort_unstable();
        let next = first[0].1 + 1;
        assert_eq!(again, [(1, next), (3, next + 1), (4, next)], "those before it, and itself");
        assert_eq!(told(sets), []);
    }

    proptest! {
        #[test]
        fn batches_that_are_given_up_and_run_again_count_once(
            hosts in prop::collection::vec(0u8..20, 1..80)
        ) {
            let domain = Arc::new(Domain::new(2, false));
            let shape = SetShape { capacity: 5_000, ..SHAPE };
            let (mut all, ages) = DividedSets::<SetKey4, u64>::of_all(&domain, shape, 1).unwrap();
            let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 1)));
            let mut packets = Packets { sets: &mut all[1], hosts: &hosts, given_up: 0 };
            worker.handle(&mut packets, hosts.len());
            prop_assert_eq!(packets.given_up > 0, hosts.iter().any(|host| host % 5 == 3));
            let count = |host| hosts.iter().filter(|&&one| one == host).count() as u64;
            let expected: Vec<_> =
                (0..20).map(|host| (count(host) > 0).then(|| (1_007, 1_000, count(host)))).collect();
            prop_assert_eq!(content(&all[1]), expected);
            let opened = (0..20).filter(|&host| count(host) > 0).count() as u64;
            prop_assert_eq!(ages.len.sum(), opened);
            let mut looked = Vec::new();
            worker.alone(|transaction| {
                let late = 1 << 20;
                let mut look = |worker: usize, slot| {
                    looked.push(worker);
                    all[worker].age(slot, late)
                };
                let mut budget = 1_000;
                while ages.expire(transaction, late, &mut budget, &mut look).is_some() {}
            });
            prop_assert_eq!(looked, vec![1; opened as usize]);
            prop_assert_eq!(ages.len.sum(), 0);
        }

        #[test]
        fn what_is_given_up_leaves_nothing_behind(
            packets in prop::collection::vec((0u8..20, 0u32..200, prop::option::of(1u32..2_000)), 1..60),
            kept in 0usize..60,
        ) {
            let domain = Arc::new(Domain::new(1, false));
            let (mut all, ages) = DividedSets::<SetKey4, u64>::of_all(&domain, SHAPE, 1).unwrap();
            let mut sets = all.remove(0);
            let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
            let (first, second) = packets.split_at(kept.min(packets.len()));
            let mut now = 10;
            let mut handle = |sets: &mut DividedSets<_, _>, packets: &[_], closes| {
                worker.alone(|transaction| {
                    for &(host, later, lifetime) in packets {
                        now += later;
                        let one = (host, now, Option::unwrap_or(lifetime, 0));
                        packet(sets, transaction, one, closes);
                    }
                });
            };
            handle(&mut sets, first, true);
            sets.forget(|| None);
            let before = content(&sets);
            handle(&mut sets, second, false);
            sets.take_back();
            prop_assert_eq!(content(&sets), before.clone());
            let mut left = Vec::new();
            worker.alone(|transaction| {
                let late = 1 << 20;
                let mut look = |worker, slot| {
                    assert_eq!(worker, 0);
                    sets.age(slot, late)
                };
                while let Some(state) = ages.expire(transaction, late, &mut 1_000, &mut look) {
                    left.push(state);
                }
            });
            left.sort_unstable();
            let mut there: Vec<_> = before.iter().flatten().map(|&(.., state)| state).collect();
            there.sort_unstable();
            prop_assert_eq!(left, there);
        }
    }
}
