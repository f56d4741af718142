//! Counters, values in parts, routing.

use std::sync::Arc;

use anabranch_packet::{Mode, Packet};
use anabranch_txn::{Count, Domain, Memory, Shape, Transaction, Words};

use super::causes::{Cause, Change, Contended, Operation, Recipe, Structure, When};
use super::{Tracked, from_words, with_words};
use crate::context::Context;
use crate::key::Value;
use crate::l3::L3;
use crate::pack::words;
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::{CounterOperations, DistributedOperations, Glance, L3Operations, World};

/// A count that all workers add to.
pub struct SharedCounter(Count);

impl SharedCounter {
    /// Zero.
    pub fn new(domain: &Domain) -> Self {
        Self(Count::new(domain))
    }
}

impl Tracked<SharedCounter> {
    /// What has been counted and committed.
    pub fn read(&self) -> u64 {
        self.object.0.sum()
    }
}

impl CounterOperations for Tracked<SharedCounter> {
    #[inline(always)]
    fn add(&mut self, n: u64) {
        self.object.0.add(&self.transaction, n as i64);
    }
    fn read(&self) -> u64 {
        self.object.0.read(&self.transaction).unwrap_or(0)
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
    /// Of each worker: the others' parts, merged, behind the time at which they were read. `None`: they
    /// are read each time.
    kept: Option<Arc<Memory>>,
    staleness_ns: u64,
}

impl<T: Value> SharedDistributed<T> {
    /// All parts zero. What is read of others may be `staleness_ns` old.
    pub fn new(domain: &Domain, merge: fn(T, T) -> T, staleness_ns: u64) -> Self {
        let (objects, tracked) = (domain.workers() as u32, words(T::BITS));
        let shape = Shape { objects, tracked, deadlines: 0, apart: true };
        let parts = domain.memory(shape);
        let kept =
            (staleness_ns > 0).then(|| domain.memory(Shape { tracked: 1 + tracked, ..shape }));
        Self { parts, merge, kept, staleness_ns }
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
    fn others_lately(&self, kept: &Memory) -> Option<T> {
        let (transaction, own) = (&self.transaction, self.worker());
        let now = transaction.time();
        let look = |words: Words<'_>| {
            (words.get(0), from_words::<T>(words.part(1, self.object.parts.shape().tracked)))
        };
        match transaction.read(kept, own, look)? {
            // The time of reading is counted from 1: 0 is never.
            (read_at, others)
                if read_at > 0
                    && (read_at - 1..read_at - 1 + self.object.staleness_ns).contains(&now) =>
            {
                Some(others)
            }
            _ => {
                let others = self.others()?;
                with_words(&others, |others| {
                    transaction.write(kept, own, |words| {
                        words.set(0, now.saturating_add(1));
                        words.copy_from(1, others);
                    });
                });
                Some(others)
            }
        }
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

/// Routing of one worker. It learns no neighbours: what one learns is not told to the others.
pub struct TrackedL3 {
    l3: L3,
    transaction: Arc<Transaction>,
}

impl TrackedL3 {
    /// Routing as the operator configured it.
    pub fn new(l3: L3, transaction: &Arc<Transaction>) -> Self {
        Self { l3, transaction: Arc::clone(transaction) }
    }
}

impl L3Operations for TrackedL3 {
    #[inline(always)]
    fn enabled(&self) -> bool {
        self.l3.enabled()
    }
    #[inline]
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        match self.l3.receive_plain(packet) {
            Some(received) => received,
            None if self.transaction.is_alone() => self.l3.receive(packet, cx),
            None => {
                self.transaction.require_alone();
                None
            }
        }
    }
    #[inline]
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        match self.l3.forward_plain(packet, cx.now()) {
            Some(verdict) => verdict,
            None if self.transaction.is_alone() => self.l3.forward(packet, cx),
            None => {
                self.transaction.require_alone();
                Drop(Builtin::NoRoute)
            }
        }
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

/// Nothing: where neighbours are learned, functions are not run in transactions.
static ROUTING: Structure = Structure { kind: "L3", causes: &[] };
