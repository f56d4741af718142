//! Where packet sets are: with all workers, or each with the one worker to which all its packets come.

use std::cell::LazyCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_nf::packet_set::{SetKey4, SetKey6, SetShape};
use anabranch_nf::state::TableUse;
use anabranch_nf::state::journal::{Moment, Sink, Steps};
use anabranch_nf::state::wheel::Tick;
use anabranch_nf::tracked::{Ages, DividedSets, PacketSets, Profile, SharedSets};
use anabranch_nf::{BuildError, NetworkFunction, Value};
use anabranch_packet::{Frame, Mode, Packet};
use anabranch_rss::IndirectionTable;
use anabranch_store::Place;
use anabranch_txn::{Domain, Transaction};
use crossbeam_utils::CachePadded;

use crate::agenda::Expiring;
use crate::deployment::Deployment;
use crate::finding::{Finds, SetPlace, Sets, family_names};
use crate::instance::storing::{V4, V6};
use crate::steer::Steering;

/// The packet sets of all workers, in one place.
pub(super) type CommonSets<S> = Sets<SharedSets<SetKey4, S>, SharedSets<SetKey6, S>>;

/// The packet sets of one worker.
pub(super) type Part<S> = Sets<DividedSets<SetKey4, S>, DividedSets<SetKey6, S>>;

/// The packet sets of a run.
pub(super) enum AllSets<S> {
    /// Any worker's packets may touch any of them.
    Common(CommonSets<S>),
    /// Each worker has those of its packets.
    Divided(Parts<S>),
}

/// The packet sets of each worker.
///
/// A worker holds its part as long as it is in a transaction; who is alone may hold any. Timer wheels are
/// taken before parts, and never by who holds one beside others.
pub(super) struct Parts<S> {
    steering: Arc<Steering>,
    table: Arc<IndirectionTable>,
    each: Box<[CachePadded<Mutex<Part<S>>>]>,
    ages: Sets<Arc<Ages>, Arc<Ages>>,
}

impl<S: Value> AllSets<S> {
    /// Sets of this shape, divided as `deployment` says.
    ///
    /// # Errors
    /// They are too many for so many workers.
    pub(super) fn new(
        domain: &Domain,
        shape: SetShape,
        seed: u64,
        deployment: Option<&Deployment>,
    ) -> Result<Self, BuildError> {
        let (of_v4, of_v6) = (seed ^ 0x4444, seed ^ 0x6666);
        let Some(deployment) = deployment else {
            return Ok(Self::Common(Sets {
                v4: SharedSets::new(domain, shape, of_v4),
                v6: SharedSets::new(domain, shape, of_v6),
            }));
        };
        let (v4, ages4) = DividedSets::of_all(domain, shape, of_v4)?;
        let (v6, ages6) = DividedSets::of_all(domain, shape, of_v6)?;
        let part = |(v4, v6)| CachePadded::new(Mutex::new(Sets { v4, v6 }));
        Ok(Self::Divided(Parts {
            steering: Arc::clone(&deployment.steering),
            table: Arc::clone(&deployment.table),
            each: v4.into_iter().zip(v6).map(part).collect(),
            ages: Sets { v4: ages4, v6: ages6 },
        }))
    }

    /// Has `profile` watch them, under the name that the author gave them.
    pub(super) fn watched_by(&mut self, profile: &Profile, name: &str) {
        let [of_v4, of_v6] = family_names(name);
        match self {
            Self::Common(Sets { v4, v6 }) => {
                v4.numbered(profile.watch(&of_v4, v4));
                v6.numbered(profile.watch(&of_v6, v6));
            }
            Self::Divided(parts) => {
                for part in &parts.each {
                    let Sets { v4, v6 } = &mut *held(part);
                    v4.numbered(profile.watch(&of_v4, v4));
                    v6.numbered(profile.watch(&of_v6, v6));
                }
            }
        }
    }

    /// Whether somebody has panicked while he held some of them.
    pub(super) fn is_half_done(&self) -> bool {
        match self {
            Self::Common(_) => false,
            Self::Divided(parts) => parts.each.iter().any(|part| part.is_poisoned()),
        }
    }

    /// The sets that packets of `worker` may touch.
    pub(super) fn hold(&self, worker: usize) -> Held<'_, S> {
        match self {
            Self::Common(sets) => Held::Common(sets),
            Self::Divided(parts) => Held::Part(held(&parts.each[worker])),
        }
    }

    /// Finds the shard of a packet that re-enters, and whose that is, if it matters.
    pub(super) fn steer_anew(&self, frame: &mut Frame<'_>) -> Option<usize> {
        let Self::Divided(Parts { steering, table, .. }) = self else { return None };
        let meta = *frame.meta();
        let shard = steering.shard(meta.port, frame.bytes(), meta.wire_len);
        frame.meta_mut().steering_hash = shard;
        Some(table.worker(shard).into())
    }

    /// From now on changes are remembered, for a store.
    pub(super) fn remember(&self, steps: &Steps) {
        match self {
            Self::Common(Sets { v4, v6 }) => {
                v4.remember(steps);
                v6.remember(steps);
            }
            Self::Divided(parts) => {
                for part in &parts.each {
                    let Sets { v4, v6 } = &mut *held(part);
                    v4.remember(steps);
                    v6.remember(steps);
                }
            }
        }
    }

    /// Tells what has changed since the last time. For who is alone.
    pub(super) fn drain(&self, transaction: &Transaction, moment: &Moment, sink: &mut dyn Sink) {
        match self {
            Self::Common(Sets { v4, v6 }) => {
                v4.drain(transaction, V4, moment, sink);
                v6.drain(transaction, V6, moment, sink);
            }
            Self::Divided(parts) => {
                for part in &parts.each {
                    let part = held(part);
                    part.v4.drain(V4, moment, sink);
                    part.v6.drain(V6, moment, sink);
                }
            }
        }
    }

    /// Puts in a set of the family `object` as it was told, where its shard is; false when it does not fit
    /// or cannot be read. For who is alone, before there are any.
    pub(super) fn restore(
        &self,
        transaction: &Transaction,
        (place, object): (Place, &str),
        set: (&[u8], &[u8]),
        moment: &Moment,
    ) -> bool {
        match (self, place) {
            (Self::Common(sets), _) if object == V4 => sets.v4.restore(transaction, set, moment),
            (Self::Common(sets), _) => sets.v6.restore(transaction, set, moment),
            (Self::Divided(parts), Place::Shard(shard)) => {
                let part = parts.each.get(usize::from(parts.table.worker(shard.into())));
                part.is_some_and(|part| {
                    let Sets { v4, v6 } = &mut *held(part);
                    match object == V4 {
                        true => v4.restore(transaction, shard, set, moment),
                        false => v6.restore(transaction, shard, set, moment),
                    }
                })
            }
            (Self::Divided(_), Place::Core(_) | Place::Instance) => false,
        }
    }

    /// How full they are, and the objects of `nf`.
    pub(super) fn tables<N: NetworkFunction>(&self, nf: &N) -> Vec<TableUse> {
        let parts = match self {
            Self::Common(sets) => return sets.tables(nf),
            Self::Divided(parts) => parts,
        };
        let each = parts.each.iter().map(|part| held(part).tables(nf));
        each.reduce(together).unwrap_or_default()
    }
}

/// Packet sets, as the packets of one worker touch them.
pub(super) enum Held<'a, S> {
    /// Beside those of other workers.
    Common(&'a CommonSets<S>),
    /// Alone.
    Part(MutexGuard<'a, Part<S>>),
}

/// The packet sets of both address families, for a packet in a transaction.
pub(super) trait Families<S: Value> {
    type V4: PacketSets<SetKey4, S>;
    type V6: PacketSets<SetKey6, S>;
    fn v4(&mut self) -> &mut Self::V4;
    fn v6(&mut self) -> &mut Self::V6;
}

impl<S, V4, V6> Families<S> for Sets<V4, V6>
where
    S: Value,
    V4: PacketSets<SetKey4, S>,
    V6: PacketSets<SetKey6, S>,
{
    type V4 = V4;
    type V6 = V6;
    #[inline(always)]
    fn v4(&mut self) -> &mut V4 {
        &mut self.v4
    }
    #[inline(always)]
    fn v6(&mut self) -> &mut V6 {
        &mut self.v6
    }
}

impl<S: Value> CommonSets<S> {
    /// The sets, for packets.
    pub(super) fn families(&self) -> impl Families<S> {
        Sets { v4: &self.v4, v6: &self.v6 }
    }
}

impl<S: Value> Part<S> {
    /// The sets, for packets.
    pub(super) fn families(&mut self) -> impl Families<S> {
        Sets { v4: &mut self.v4, v6: &mut self.v6 }
    }
}

impl<S: Value> Held<'_, S> {
    /// What was done to them in this transaction stays. True: sets of one worker were changed.
    pub(super) fn forget(self, transaction: &Transaction) -> bool {
        let Self::Part(mut part) = self else { return false };
        // It is one step for both.
        let step = LazyCell::new(|| (!transaction.is_alone()).then(|| transaction.step()));
        part.v4.forget(|| *step) | part.v6.forget(|| *step)
    }

    /// What was done to them was not done.
    pub(super) fn take_back(self) {
        if let Self::Part(mut part) = self {
            part.v4.take_back();
            part.v6.take_back();
        }
    }
}

impl<S: Value> Finds for Held<'_, S> {
    #[inline(always)]
    fn find<N: NetworkFunction, M: Mode>(&self, packet: &Packet<'_, M>, fetch: bool) -> SetPlace {
        match self {
            Self::Common(sets) => sets.find::<N, M>(packet, fetch),
            Self::Part(part) => part.find::<N, M>(packet, fetch),
        }
    }
}

/// Who panics while holding it is an NF's handler, and reported: the run ends, and nobody relies on what
/// that transaction left there.
fn held<S>(part: &Mutex<Part<S>>) -> MutexGuard<'_, Part<S>> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tables of two workers as one; packet sets come first, and objects are all workers'.
fn together(mut all: Vec<TableUse>, other: Vec<TableUse>) -> Vec<TableUse> {
    for (one, other) in all.iter_mut().zip(other).take(2) {
        one.used += other.used;
        one.bytes += other.bytes;
    }
    all
}

/// The sets, for who is alone.
pub(super) struct Collected<'a, S> {
    pub(super) sets: &'a AllSets<S>,
    pub(super) transaction: &'a Transaction,
}

impl<S: Value> Expiring<S> for Collected<'_, S> {
    fn expire(&mut self, now: Tick, budget: &mut u32) -> Option<(Option<u16>, S)> {
        let transaction = self.transaction;
        let state = match self.sets {
            AllSets::Common(Sets { v4, v6 }) => {
                v4.expire(transaction, now, budget).or_else(|| v6.expire(transaction, now, budget))
            }
            AllSets::Divided(Parts { each, ages: Sets { v4, v6 }, .. }) => {
                let look4 = |worker: usize, slot| held(&each[worker]).v4.age(slot, now);
                let look6 = |worker: usize, slot| held(&each[worker]).v6.age(slot, now);
                v4.expire(transaction, now, budget, look4)
                    .or_else(|| v6.expire(transaction, now, budget, look6))
            }
        };
        Some((None, state?))
    }

    fn rebase(&mut self, by: Tick) {
        match self.sets {
            AllSets::Common(Sets { v4, v6 }) => {
                v4.rebase(self.transaction, by);
                v6.rebase(self.transaction, by);
            }
            AllSets::Divided(parts) => {
                parts.ages.v4.rebase(self.transaction, by);
                parts.ages.v6.rebase(self.transaction, by);
                for part in &parts.each {
                    let Sets { v4, v6 } = &mut *held(part);
                    v4.rebase(by);
                    v6.rebase(by);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::plan_of;
    use anabranch_nfs::policer;
    use anabranch_plan::Options;
    use anabranch_rss::Nic;

    #[test]
    fn what_a_panic_has_left_is_half_done() {
        let options = Options::new(Nic::named("e810").unwrap());
        let plan = plan_of::<policer::Function>(&options).unwrap();
        let ports = ["lan".to_owned(), "wan".to_owned()];
        let deployment = Deployment::mixed::<policer::Function>(&plan, &ports, 2).unwrap();
        let shape = SetShape { capacity: 64, lifetime_ns: 1_000_000_000 };
        let domain = Domain::new(2, false);
        let sets = AllSets::<u32>::new(&domain, shape, 1, Some(&deployment)).unwrap();
        drop(sets.hold(1));
        assert!(!sets.is_half_done());
        let panicked = std::thread::scope(|threads| {
            let hold = || {
                let _held = sets.hold(1);
                panic!("half way");
            };
            threads.spawn(hold).join().is_err()
        });
        assert!(panicked && sets.is_half_done());
    }
}
