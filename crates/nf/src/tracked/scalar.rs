//! Counters, values in parts, routing.

use std::sync::{Arc, OnceLock};

use anabranch_packet::{Mode, Packet};
use anabranch_txn::{Count, Domain, Memory, Shape, Transaction, Words};

use super::causes::{Cause, Change, Contended, Operation, Recipe, Structure, When};
use super::{Tracked, from_words, noting, with_words};
use crate::context::Context;
use crate::key::Value;
use crate::l3::{L3, Learned};
use crate::pack::words;
use crate::state::Count as Told;
use crate::state::journal::{self, Journal, Journaled, Moment, Sink, Steps};
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::{CounterOperations, DistributedOperations, Glance, L3Operations, World};

/// A count that all workers add to.
pub struct SharedCounter {
    count: Count,
    /// What a store has been told, where one keeps it.
    told: OnceLock<Told>,
}

impl SharedCounter {
    /// Zero.
    pub fn new(domain: &Domain) -> Self {
        Self { count: Count::new(domain), told: OnceLock::new() }
    }
}

impl Tracked<SharedCounter> {
    /// What has been counted and committed.
    pub fn read(&self) -> u64 {
        self.object.count.sum()
    }
}

impl CounterOperations for Tracked<SharedCounter> {
    #[inline(always)]
    fn add(&mut self, n: u64) {
        self.object.count.add(&self.transaction, n as i64);
    }
    fn read(&self) -> u64 {
        self.object.count.read(&self.transaction).unwrap_or(0)
    }
}

/// A value in parts, one of each worker.
///
/// A worker reads its own part as it is. What it reads of the others it may keep for as long as the
/// author allows, in the time of its own packets, and read again: then it does not matter to it that they
/// go on. The merged value need then be none that ever was.
pub struct SharedDistributed<T> {
    parts: Arc<Memory>,
    merge: fn(T, T) -> T,
    /// `None`: the others' parts are read each time.
    kept: Option<Kept>,
    /// Whether parts were updated, where a store keeps the value.
    journal: OnceLock<Arc<Journal<u32>>>,
}

/// What each worker has read of the others lately.
struct Kept {
    /// The others' parts, merged, behind the time at which they were read, counted from 1: 0 is never.
    read: Arc<Memory>,
    /// For how long it is read again, in nanoseconds.
    staleness: u64,
}

impl<T: Value> SharedDistributed<T> {
    /// All parts zero. What is read of others may be `staleness_ns` old, unless the domain keeps the order
    /// of commits: then every byte can be compared with one core's.
    pub fn new(domain: &Domain, merge: fn(T, T) -> T, staleness_ns: u64) -> Self {
        let (objects, tracked) = (domain.workers() as u32, words(T::BITS));
        let shape = Shape { objects, tracked, deadlines: 0, apart: true };
        let parts = domain.memory(shape);
        let keeps = staleness_ns > 0 && !domain.is_ordered();
        let kept = keeps.then(|| Kept {
            read: domain.memory(Shape { tracked: 1 + tracked, ..shape }),
            staleness: staleness_ns,
        });
        Self { parts, merge, kept, journal: OnceLock::new() }
    }
}

impl<T: Value> Tracked<SharedDistributed<T>> {
    fn worker(&self) -> u32 {
        self.transaction.worker() as u32
    }

    fn part(&self, worker: u32) -> T {
        let part = self.transaction.read(&self.object.parts, worker, from_words);
        part.unwrap_or_else(T::zero)
    }

    /// The parts of the other workers, merged; `None`: there are no others.
    fn others(&self) -> Option<T> {
        let all = 0..self.object.parts.shape().objects;
        let parts = all.filter(|&worker| worker != self.worker()).map(|worker| self.part(worker));
        parts.reduce(self.object.merge)
    }

    /// The same, read a while ago if that is allowed.
    fn others_lately(&self, kept: &Kept) -> Option<T> {
        let (transaction, own) = (&self.transaction, self.worker());
        let now = transaction.time();
        let look = |words: Words<'_>| {
            (words.get(0), from_words::<T>(words.part(1, self.object.parts.shape().tracked)))
        };
        let (read_at, others) = transaction.read(&kept.read, own, look)?;
        let age = read_at.checked_sub(1).and_then(|read_at| now.checked_sub(read_at));
        if age.is_some_and(|age| age < kept.staleness) {
            return Some(others);
        }
        let others = self.others()?;
        with_words(&others, |others| {
            transaction.write(&kept.read, own, |words| {
                words.set(0, now.saturating_add(1));
                words.copy_from(1, others);
            });
        });
        Some(others)
    }
}

impl<T: Value> DistributedOperations<T> for Tracked<SharedDistributed<T>> {
    #[inline]
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        let own = self.worker();
        let mut part = self.part(own);
        change(&mut part);
        with_words(&part, |part| {
            self.transaction.write(&self.object.parts, own, |into| into.copy_from(0, part));
        });
        if let Some(journal) = noting::alone(&self.object.journal, &self.transaction) {
            journal.note(own);
        }
    }
    fn read(&self) -> T {
        let others = match &self.object.kept {
            Some(kept) if !self.transaction.is_alone() => self.others_lately(kept),
            _ => self.others(),
        };
        let own = self.part(self.worker());
        others.map_or(own, |others| (self.object.merge)(own, others))
    }
}

/// Routing of one worker. Where something is to be sent or learned, the transaction runs alone: what is
/// learned the others know from then on.
pub struct TrackedL3 {
    l3: L3,
    transaction: Arc<Transaction>,
}

impl TrackedL3 {
    /// Routing as `make` has it configured, with what all workers have `learned`.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn new<E>(
        learned: Tracked<Learned>,
        make: impl FnOnce(Arc<Learned>) -> Result<L3, E>,
    ) -> Result<Self, E> {
        Ok(Self { l3: make(learned.object)?, transaction: learned.transaction })
    }
}

impl L3Operations for TrackedL3 {
    #[inline(always)]
    fn enabled(&self) -> bool {
        self.l3.enabled()
    }
    #[inline]
    fn admit<W: World, M: Mode>(
        &self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        match self.transaction.is_alone() {
            true => self.l3.admit(packet, cx),
            false => self.l3.admit_plain(packet),
        }
    }
    #[inline]
    fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        self.l3.leads_nowhere(packet)
    }
    #[inline]
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        if self.transaction.is_alone() {
            return self.l3.receive(packet, cx);
        }
        self.l3.receive_plain(packet).unwrap_or_else(|| {
            self.transaction.require_alone();
            None
        })
    }
    #[inline]
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        if self.transaction.is_alone() {
            return self.l3.forward(packet, cx);
        }
        self.l3.listen();
        self.l3.forward_plain(packet, cx.now()).unwrap_or_else(|| {
            self.transaction.require_alone();
            Drop(Builtin::NoRoute)
        })
    }
    fn follow_up<W: World>(&mut self, cx: &mut Context<'_, W>) {
        self.l3.follow_up(cx);
    }
}

impl Journaled for Tracked<SharedCounter> {
    fn layout(&self) -> journal::Layout {
        journal::layout_of_count()
    }

    fn keep(&mut self, _: &Steps) {
        let told = Told::default();
        told.add(self.read());
        self.object.told.get_or_init(|| told);
    }

    fn drain(&mut self, name: &'static str, _: &Moment, sink: &mut dyn Sink) {
        let (count, Some(told)) = (self.read(), self.object.told.get()) else { return };
        let more = count.wrapping_sub(told.read());
        if more != 0 {
            told.add(more);
            sink.count(name, count);
        }
    }

    fn restore(&mut self, _: &[u8], value: &[u8], _: &Moment) -> bool {
        let Some(count) = journal::loaded::<u64>(value) else { return false };
        self.add(count.wrapping_sub(Tracked::<SharedCounter>::read(self)));
        true
    }
}

/// The value is told merged, as one worker has it.
impl<T: Value> Journaled for Tracked<SharedDistributed<T>> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<(), T>()
    }

    fn keep(&mut self, steps: &Steps) {
        let SharedDistributed { parts, journal, .. } = &*self.object;
        journal.get_or_init(|| {
            let journal = Arc::new(Journal::new(parts.shape().objects, steps));
            parts.watch(noting::numbered(&journal));
            journal
        });
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(journal) = self.object.journal.get() else { return };
        if !journal.take(name, moment, journal::at_once, sink).is_empty() {
            sink.at(None);
            moment.put(sink, (name, None), &(), &self.read());
        }
    }

    fn restore(&mut self, _: &[u8], value: &[u8], _: &Moment) -> bool {
        journal::loaded(value).map(|value| self.update(|part| *part = value)).is_some()
    }
}

impl<T: Value> Glance<T> for Tracked<SharedDistributed<T>> {
    #[inline(always)]
    fn glance(&self) -> T {
        T::zero()
    }
}

impl Glance<u64> for Tracked<SharedCounter> {
    #[inline(always)]
    fn glance(&self) -> u64 {
        0
    }
}

impl Glance<bool> for TrackedL3 {
    #[inline(always)]
    fn glance(&self) -> bool {
        self.l3.enabled()
    }
}

impl Contended for Tracked<SharedCounter> {
    const STRUCTURE: &'static Structure = &COUNTER;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        // Parts of a count are added to when transactions commit: nobody is in anybody's way.
        Vec::new()
    }

    fn key(_: &[u64]) -> String {
        String::new()
    }
}

impl<T: Value> Contended for Tracked<SharedDistributed<T>> {
    const STRUCTURE: &'static Structure = &DISTRIBUTED;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        vec![(self.object.parts.number(), "part")]
    }

    fn key(_: &[u64]) -> String {
        String::new()
    }
}

impl Contended for TrackedL3 {
    const STRUCTURE: &'static Structure = &ROUTING;

    fn parts(&self) -> Vec<(u16, &'static str)> {
        Vec::new()
    }

    fn key(_: &[u64]) -> String {
        String::new()
    }
}

static COUNTER: Structure = Structure {
    kind: "Counter",
    causes: &[Cause {
        name: "count asked",
        when: When::Alone(&[Operation::Read]),
        why: "the count is known exactly only while nobody else is at work",
        recipes: &[Recipe {
            change: Change::Line("read it in `periodic` and keep the answer in a `Cell`"),
            relaxes: "the count may be as old as the period is long",
            effect: "no packet runs alone for it",
        }],
    }],
};

/// Each worker updates a part of its own; a reading reads all of them.
static DISTRIBUTED: Structure = Structure {
    kind: "Distributed",
    causes: &[Cause {
        name: "read while updated",
        when: When::Met("part"),
        why: "a reading takes in the parts of all workers, and one of them was updated meanwhile",
        recipes: &[
            Recipe {
                change: Change::Staleness(10),
                relaxes: "what other workers did may be seen that much later, in milliseconds",
                effect: "each worker takes in the others' parts once in that time, and reads its own",
            },
            Recipe {
                change: Change::Line("read it in `periodic` and keep the answer in a `Cell`"),
                relaxes: "the value may be as old as the period is long",
                effect: "packets update parts that only their worker writes, and nobody reads",
            },
        ],
    }],
};

static ROUTING: Structure = Structure {
    kind: "L3",
    causes: &[Cause {
        name: "routing asks, learns or reports",
        when: When::Alone(&[Operation::Receive, Operation::Forward]),
        why: "questions, answers and errors of routing are one worker's at a time",
        recipes: &[Recipe {
            change: Change::Line(
                "give neighbours that are always there in the configuration, `[[neighbours]]`",
            ),
            relaxes: "a neighbour that is replaced by another station is not found again by itself",
            effect: "packets to them are never the reason for a question",
        }],
    }],
};

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use anabranch_txn::{Batch, Domain, Place, Transaction, Worker};

    use super::*;
    use crate::tracked::Sharing;

    /// A packet, at this time: counted in its worker's part, and all of them read.
    struct Packet<'a> {
        tally: &'a mut Tracked<SharedDistributed<u64>>,
        time: u64,
        read: u64,
    }

    impl Batch for Packet<'_> {
        fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
            transaction.set_time(self.time);
            self.tally.update(|packets| *packets += 1);
            self.read = self.tally.read();
            range.len()
        }
        fn undo(&mut self, _: Range<usize>) {}
        fn release(&mut self, _: Range<usize>, _: Place) {}
    }

    fn counted(staleness_ns: u64, packets: &[(usize, u64)]) -> Vec<u64> {
        let mut sharing = Sharing::new(&Arc::new(Domain::new(2, false)));
        let (mut workers, mut tallies) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let new = |domain: &Domain| {
                SharedDistributed::<u64>::new(domain, |one, other| one + other, staleness_ns)
            };
            tallies.push(sharing.object("it", new).unwrap());
            workers.push(Worker::new(Arc::clone(&sharing.transaction)));
            sharing = sharing.next();
        }
        let count = |&(worker, time): &(usize, u64)| {
            let mut packet = Packet { tally: &mut tallies[worker], time, read: 0 };
            workers[worker].handle(&mut packet, 1);
            packet.read
        };
        packets.iter().map(count).collect()
    }

    /// A worker knows its own packets at once, and those of others at most so late; time that goes back
    /// makes nothing older.
    #[test]
    fn a_declared_staleness_is_kept() {
        let packets = [(0, 0), (1, 1), (1, 2), (0, 5), (0, 10), (1, 10), (1, 11), (1, 3)];
        assert_eq!(counted(0, &packets), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(counted(10, &packets), [1, 2, 3, 2, 5, 4, 7, 8]);
    }
}
