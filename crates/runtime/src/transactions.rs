//! The transactional strategy: all state shared, changed by all workers at once.
//!
//! ```text
//! worker 0: Member ── NF in the Parallel world, environment, what a batch came to ──┐
//! worker 1: Member ── …                                                         ┤ state objects, packet
//!                                                                               ┘ sets: words, versions
//! batch ▸ handlers, in one transaction ▸ commit ▸ release        (anabranch-txn: splits, repeats)
//!            └ due events, expiry, timers, log, what re-enters: alone, one packet
//! ```
//!
//! Packets are handled as by one core: those of a batch one after the other, in a transaction whose
//! end lets all of them go, or none. One that is to run again gets its bytes back; what it sent or
//! counted is forgotten.
//!
//! **Invariant**: what all workers do together is what one would do with the packets in the order of
//! their [`Commit`]s, up to which indices allocators give out. Events and expiry happen alone, before
//! the first packet in that order that is due. Times grow in that order from one packet that is alone
//! to the next: one that is overtaken by it is handled at its time. In between they need not, since
//! what has come to its end is noticed by nobody who is not alone, a refresh never brings an end
//! nearer, and what ends before somebody has to be alone is refreshed by nobody who is not.

mod alone;
mod batch;
mod kept;
mod seat;
mod sets;
mod turn;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use anabranch_nf::state::TableUse;
use anabranch_nf::tracked::{Profile, Sharing};
use anabranch_nf::{BuildError, Environment, Line, NetworkFunction};
use anabranch_packet::{Frame, Meta};
use anabranch_txn::{Counts, Domain, MOST_ITEMS, Transaction, Worker};

use crate::agenda::COLLECTION_NS;
use crate::deployment::Deployment;
use crate::finding::look_ahead;
use crate::instance::{Making, Release, set_shape};
use crate::lock::Commit;
use crate::reassembly::{Assembles, Reassembly};
use crate::schedule::Schedule;
use crate::tuner::Pass;
use crate::worker::InstanceEnd;
use alone::{Alone, Floor};
use batch::{Own, Work};
use sets::AllSets;

/// What the workers share, beside the state objects. On lines of its own, as all that several look at or one
/// writes to: what lies beside on the heap may be another worker's.
#[repr(align(128))]
struct Shared<N: NetworkFunction> {
    sets: AllSets<N::Set>,
    /// When there is something to do that has to be done alone, in nanoseconds since the Unix epoch.
    due_ns: AtomicU64,
    /// No packet is handled at an earlier time any more: what had come to its end then may have been
    /// collected.
    now_ns: AtomicU64,
    /// From when ticks are counted.
    origin_ns: AtomicU64,
    /// When a store is told what has changed, where one keeps the state.
    schedule: OnceLock<Arc<Schedule>>,
    alone: Mutex<Alone<N>>,
}

/// What holds for packets until somebody is alone.
#[derive(Clone, Copy)]
struct Times {
    now_ns: u64,
    due_ns: u64,
    origin_ns: u64,
}

/// One worker.
#[repr(align(128))]
pub struct Member<N: NetworkFunction> {
    shared: Arc<Shared<N>>,
    nf: N::Parallel,
    worker: Worker,
    own: Own,
}

/// An NF that several workers run, none of them begun.
pub struct Members<N: NetworkFunction> {
    members: Vec<Member<N>>,
}

impl<N: NetworkFunction> Members<N> {
    /// Makes the state and `workers` workers. `ordered`: each keeps the order in which its packets
    /// took effect.
    ///
    /// # Errors
    /// The settings, or the sizes they ask for, are wrong, or the NF cannot be run so.
    pub fn new(making: &Making, workers: usize, ordered: bool) -> Result<Self, BuildError> {
        let domain = Arc::new(Domain::new(workers, ordered).with_turns(making.turns));
        Self::sharing(making, Sharing::new(&domain), None)
    }

    /// The same for the workers of `deployment`, each of which has the packet sets of its shards for
    /// itself: their packets must come to it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn divided(
        making: &Making,
        deployment: &Deployment,
        ordered: bool,
    ) -> Result<Self, BuildError> {
        let domain = Domain::new(deployment.table.workers(), ordered).with_turns(making.turns);
        Self::sharing(making, Sharing::new(&Arc::new(domain)), Some(deployment))
    }

    /// As [`new`](Self::new) or [`divided`](Self::divided), watched by `profile`; of an NF in the
    /// Profiled world. Workers take no turns: what is asked is what is in the way of transactions.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn watched(
        making: &Making,
        workers: usize,
        deployment: Option<&Deployment>,
        profile: &Arc<Profile>,
    ) -> Result<Self, BuildError> {
        let domain = Arc::new(Domain::new(workers, false).with_turns(Some(false)));
        Self::sharing(making, Sharing::new(&domain).watched_by(profile), deployment)
    }

    fn sharing(
        making: &Making,
        mut sharing: Sharing,
        deployment: Option<&Deployment>,
    ) -> Result<Self, BuildError> {
        let domain = Arc::clone(sharing.transaction.domain());
        let (workers, ordered) = (domain.workers(), domain.is_ordered());
        let settings = making.own_settings::<N>()?;
        let mut made = Vec::with_capacity(workers);
        for _ in 0..workers {
            let transaction = Arc::clone(&sharing.transaction);
            let trail = sharing.watched().map(|(_, trail)| Arc::clone(trail));
            let mut builder = making.builder().sharing(sharing);
            let nf = N::Parallel::build(settings.clone(), &mut builder)?;
            made.push((nf, transaction, trail));
            let Some(shared) = builder.into_sharing() else { unreachable!("it was given") };
            sharing = shared.next();
        }
        let shape = set_shape(&made[0].0, &making.builder())?;
        let mut sets = AllSets::new(&domain, shape, making.seed, deployment)?;
        if let (Some((profile, _)), Some(name)) = (sharing.watched(), N::SET) {
            sets.watched_by(profile, name);
        }
        let shared = Arc::new(Shared {
            sets,
            due_ns: AtomicU64::new(u64::MAX),
            now_ns: AtomicU64::new(0),
            origin_ns: AtomicU64::new(0),
            schedule: OnceLock::new(),
            alone: Mutex::new(Alone::new(making.seed)),
        });
        domain.settle();
        let member = |(nf, transaction, trail): (N::Parallel, Arc<Transaction>, _)| Member {
            shared: Arc::clone(&shared),
            nf,
            worker: Worker::new(transaction),
            own: Own::new(making, ordered, trail),
        };
        Ok(Self { members: made.into_iter().map(member).collect() })
    }

    /// Starts the clock at `now_ns`, the first packet's arrival, and runs `init`.
    pub fn start(&mut self, now_ns: u64) {
        let Some(first) = self.members.first_mut() else { return };
        let Member { shared, nf, worker, .. } = first;
        worker.alone(|_| shared.alone().start(shared, nf, now_ns));
    }

    /// Has `command` carried out when the clock reaches `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, command: N::Command) {
        let Some(Member { shared, .. }) = self.members.first() else { return };
        shared.alone().schedule(shared, at_ns, command);
    }

    /// The workers.
    pub fn into_members(self) -> Vec<Member<N>> {
        self.members
    }
}

impl<N: NetworkFunction> Shared<N> {
    /// They change only where nobody else is at work: the gate publishes them.
    fn times(&self) -> Times {
        Times {
            now_ns: self.now_ns.load(Ordering::Relaxed),
            due_ns: self.due_ns.load(Ordering::Relaxed),
            origin_ns: self.origin_ns.load(Ordering::Relaxed),
        }
    }

    /// Has the next packet at or after the time at which there is something to do be alone.
    fn publish(&self, environment: &Environment) {
        let times = [(&self.due_ns, environment.due()), (&self.origin_ns, environment.origin())];
        for (own, time_ns) in times {
            // What is written every time goes from core to core.
            if own.load(Ordering::Relaxed) != time_ns {
                own.store(time_ns, Ordering::Relaxed);
            }
        }
    }

    /// The time of who is alone and would be at `now_ns`.
    fn advance(&self, now_ns: u64) -> u64 {
        self.now_ns.fetch_max(now_ns, Ordering::Relaxed).max(now_ns)
    }

    /// Whether a handler has panicked, and left something half done that others find.
    fn is_half_done(&self) -> bool {
        self.alone.is_poisoned() || self.sets.is_half_done()
    }

    /// Nobody who holds it panics half way but for an NF's handler, whose worker is reported.
    fn alone(&self) -> MutexGuard<'_, Alone<N>> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: NetworkFunction> Member<N> {
    /// Handles a batch.
    #[inline(never)]
    pub fn handle(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) {
        self.assemble(frames, release);
        self.tell();
    }

    /// Fetches the lines that the packets will touch first, where that pays.
    #[inline(always)]
    fn look_ahead(&mut self, frames: &mut [Frame<'_>]) {
        match self.own.tuner.begin_batch() {
            Pass::Off => {}
            pass => self.fetch(frames, pass),
        }
    }

    #[inline(never)]
    fn fetch(&mut self, frames: &mut [Frame<'_>], pass: Pass) {
        let Self { shared, nf, worker, own } = self;
        let sets = &shared.sets.hold(worker.number());
        look_ahead((&*nf, sets), &mut own.environment, frames, &mut own.findings, pass);
    }

    /// Does something with nobody beside it; what is logged meanwhile is this worker's.
    fn act_alone<R>(
        &mut self,
        act: impl FnOnce(&mut Alone<N>, &mut Floor<'_, N>) -> (R, Vec<Line>),
    ) -> R {
        let (done, mut lines) = self.with_floor(act);
        self.telling().iter().for_each(|schedule| schedule.owe_changes());
        self.own.lines.append(&mut lines);
        done
    }

    /// Has nobody beside it for a while.
    fn with_floor<R>(&mut self, act: impl FnOnce(&mut Alone<N>, &mut Floor<'_, N>) -> R) -> R {
        let Self { shared, nf, worker, .. } = self;
        worker.alone(|transaction| act(&mut shared.alone(), &mut Floor { shared, nf, transaction }))
    }

    /// Does what is due at the time of `cause`, without a packet.
    pub(crate) fn run_due(&mut self, cause: &Meta, release: &mut impl Release) {
        if cause.arrival_ns >= self.shared.due_ns.load(Ordering::Relaxed) {
            self.act_alone(|alone, floor| ((), alone.run_due(floor, cause, release)));
        }
        self.tell_in_time();
    }

    /// Has the NF carry out a command at the time of `cause`, after all that is due.
    ///
    /// # Errors
    /// Why the NF refused it.
    pub(crate) fn carry_out(
        &mut self,
        cause: &Meta,
        command: N::Command,
        release: &mut impl Release,
    ) -> Result<(), &'static str> {
        self.act_alone(|alone, floor| alone.carry_out(floor, cause, command, release))
    }

    /// What the state holds now.
    pub(crate) fn so_far(&self) -> InstanceEnd {
        let (tables, counters) = (self.tables(), self.nf.counters());
        InstanceEnd { tables, counters, ..InstanceEnd::default() }
    }

    /// When something is to be done without a packet, as seen at `now_ns`.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> u64 {
        let left_ns = self.telling().map_or(u64::MAX, Schedule::left_ns);
        let due_ns = match self.shared.alone.try_lock() {
            Ok(alone) => alone.next_due_ns(now_ns),
            Err(TryLockError::Poisoned(alone)) => alone.into_inner().next_due_ns(now_ns),
            // Somebody is at work, and sees to it himself: who has nothing to do is in nobody's way.
            Err(TryLockError::WouldBlock) => now_ns.saturating_add(COLLECTION_NS),
        };
        due_ns.min(now_ns.saturating_add(left_ns))
    }

    /// The lines that it logged since the last call.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.own.lines)
    }

    /// How its transactions ended.
    pub fn counts(&self) -> Counts {
        self.worker.counts()
    }

    /// When its packets took effect, where that was to be kept, since the last call.
    pub fn take_order(&mut self) -> Vec<Commit> {
        self.own.order.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How full each state object is.
    pub fn tables(&self) -> Vec<TableUse> {
        self.shared.sets.tables(&self.nf)
    }

    /// Lets go of what is shared. Whoever is the last to do so runs `shutdown`, and returns how it all
    /// ended.
    pub(crate) fn finish(self, release: &mut impl Release) -> Option<InstanceEnd> {
        let Self { shared, mut nf, mut worker, mut own } = self;
        own.reassembly.end(release);
        shared.alone().note_last(own.last);
        let shared = &Arc::into_inner(shared)?;
        let end = worker.alone(|transaction| {
            shared.alone().end(Floor { shared, nf: &mut nf, transaction }, release)
        });
        Some(end)
    }
}

impl<N: NetworkFunction> Assembles<N> for Member<N> {
    fn reassembly(&mut self) -> &mut Reassembly {
        &mut self.own.reassembly
    }

    #[inline(always)]
    fn handle_to_part(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) -> usize {
        let mut handled = 0;
        for frames in frames.chunks_mut(MOST_ITEMS) {
            self.look_ahead(frames);
            let Self { shared, nf, worker, own, .. } = self;
            let len = frames.len();
            let work = &mut Work { shared, nf, own, frames, sets: None, release, gone: 0 };
            let done = worker.handle(work, len);
            handled += done;
            if done < len {
                break;
            }
        }
        handled
    }
}
