//! The lock strategy: all state shared, read by all workers at once, written by one alone.
//!
//! ```text
//!              ┌── Access of worker 0: environment, head of the packet, counts
//! Lock ────────┼── Access of worker 1
//! (Instance)   └── …
//!
//! packet ──▶ speculate under the reader's side ──no write──▶ commit, release
//!                 │ write
//!                 └──▶ header restored ──▶ writer's side: what is due, then the packet, as on one core
//! ```
//!
//! Each packet is first run as if it only read (section 3.5.1 of Pereira's thesis "Parallel NF
//! Synthesis", 2021): under a lock of whose sides each worker takes its own for reading and a writer
//! all (`ShardedLock`), so that readers write no line that another core reads. A packet that would
//! write after all is undone and runs again under the writer's side, by the code that runs on one
//! core. Refreshing an entry is not a write; see [`Deadline`](anabranch_nf::state::Deadline).
//!
//! **Invariant**: what all workers do together is what one would do with the packets in the order of
//! their [`Commit`]s. Events and expiry happen under the writer's side, before the first packet that
//! is due, so they happen once. Time does not run backwards: a packet that is overtaken by a later
//! one is handled at that one's time, as far as anything was written in between.
//!
//! Where a store keeps the state, readers note what they refresh, as the code of one core notes what it
//! changes, and whoever finds that it is time tells the store on the writer's side.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use anabranch_nf::state::TableUse;
use anabranch_nf::world::Speculation;
use anabranch_nf::{Environment, Line, NetworkFunction, Verdict, elements};
use anabranch_packet::{Frame, Layout, Meta, parse};
use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::{ShardedLock, ShardedLockWriteGuard};

use crate::head::Head;
use crate::instance::{Instance, Release, refused};
use crate::reassembly::{Assembles, Reassembly, is_part, is_part_frame};
use crate::schedule::Schedule;

/// An instance that several workers share.
pub struct Lock<N: NetworkFunction> {
    state: ShardedLock<Locked<N>>,
    /// When each worker's last reader was, in nanoseconds since the Unix epoch.
    read_at: Box<[CachePadded<AtomicU64>]>,
    /// When a store is told what has changed, where one keeps the state.
    schedule: Option<Arc<Schedule>>,
}

struct Locked<N: NetworkFunction> {
    instance: Instance<N>,
    /// No packet is handled at an earlier time any more.
    now_ns: u64,
    /// Writers so far.
    writes: u64,
    /// The packet of the highest number among workers that have ended.
    last: Meta,
}

/// Packets of a worker, by the side of the lock that they ended on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// Those that ended as readers.
    pub readers: u64,
    /// Those that were upgraded to writers.
    pub upgraded: u64,
}

/// When a packet took effect. Ordered as one core would have had to handle the packets to do the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Commit {
    /// Writers until then, itself included.
    pub writes: u64,
    /// It was a reader: after the writer, and in any order among those of the same time.
    pub reader: bool,
    /// The time at which it was handled, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Its number.
    pub number: u64,
}

/// One worker's access to the shared instance.
pub struct Access<N: NetworkFunction> {
    lock: Arc<Lock<N>>,
    own: Own,
}

/// What a worker has for itself.
struct Own {
    worker: usize,
    /// Of its readers; writers have that of the instance.
    environment: Environment,
    head: Head,
    sides: Sides,
    lines: Vec<Line>,
    last: Meta,
    order: Option<Vec<Commit>>,
    /// Datagrams that are incomplete.
    reassembly: Reassembly,
}

impl<N: NetworkFunction> Lock<N> {
    /// Shares `instance`, made with `seed`, among `workers` workers. `ordered`: each keeps the order
    /// in which its packets took effect, 32 bytes a packet.
    pub fn share(
        mut instance: Instance<N>,
        seed: u64,
        workers: usize,
        ordered: bool,
    ) -> Vec<Access<N>> {
        instance.share(workers);
        let schedule = instance.telling().cloned();
        let locked = Locked { instance, now_ns: 0, writes: 0, last: Meta::default() };
        let read_at = (0..workers).map(|_| CachePadded::default()).collect();
        let lock = Arc::new(Self { state: ShardedLock::new(locked), read_at, schedule });
        let own = |worker| Own {
            worker,
            environment: Environment::new(seed),
            head: Head::default(),
            sides: Sides::default(),
            lines: Vec::new(),
            last: Meta::default(),
            order: ordered.then(Vec::new),
            reassembly: Reassembly::default(),
        };
        let access = |worker| Access { lock: Arc::clone(&lock), own: own(worker) };
        (0..workers).map(access).collect()
    }

    /// The state, for who changes it. A worker that panicked is reported when it is joined; the others
    /// finish their part, but no store is told of what was left half done.
    fn hold(&self) -> ShardedLockWriteGuard<'_, Locked<N>> {
        self.state.write().unwrap_or_else(|half_done| {
            let mut locked = half_done.into_inner();
            locked.instance.stop_telling();
            locked
        })
    }

    /// The writer's side.
    fn write(&self) -> ShardedLockWriteGuard<'_, Locked<N>> {
        let mut locked = self.hold();
        // Readers stored it before they let go of the lock.
        let read_at = self.read_at.iter().map(|at| at.load(Ordering::Relaxed));
        locked.now_ns = read_at.fold(locked.now_ns, u64::max);
        locked
    }
}

impl<N: NetworkFunction> Access<N> {
    /// Handles a batch. The packets' times are those at which they were handled, afterwards.
    #[inline(never)]
    pub fn handle(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) {
        self.assemble(frames, release);
        self.tell_in_time();
    }

    /// Tells the store that keeps the state what has changed, if it is time: on the writer's side, so
    /// that what is told was there together.
    fn tell_in_time(&self) {
        if let Some(turn) = self.lock.schedule.as_ref().and_then(|schedule| schedule.claim()) {
            self.lock.hold().instance.tell_now(turn);
        }
    }

    /// Handles packets as readers up to the first that would write or is to be put together with others, and
    /// returns how many.
    fn read(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) -> usize {
        let Self { lock, own } = self;
        let locked = lock.state.read().unwrap_or_else(PoisonError::into_inner);
        lock.schedule.iter().for_each(|schedule| schedule.owe_refreshes());
        let read_at = lock.read_at.get(own.worker);
        own.environment.follow(locked.instance.clock());
        let speculation = Speculation::new(own.worker);
        for (index, frame) in frames.iter_mut().enumerate() {
            let layout = parse(frame.bytes(), frame.meta().wire_len);
            // What leaves in fragments is left to a writer, too: it is rare.
            if N::LAYER == 4 && (frame.meta().fragment_len != 0 || is_part(layout)) {
                return index;
            }
            if let Some(reason) = refused::<N>(layout) {
                release.discard(frame, reason.into());
            } else {
                let Some(verdict) = own.speculate(&locked, frame, layout, &speculation) else {
                    return index;
                };
                if let Some(at) = read_at {
                    at.store(frame.meta().arrival_ns, Ordering::Relaxed);
                }
                own.release(frame, verdict, release);
            }
            own.sides.readers += 1;
        }
        frames.len()
    }

    /// Handles a packet as a writer.
    fn write(&mut self, frame: &mut Frame<'_>, release: &mut impl Release) {
        let Self { lock, own } = self;
        let locked = &mut *lock.write();
        locked.writes += 1;
        locked.now_ns = locked.now_ns.max(frame.meta().arrival_ns);
        frame.meta_mut().arrival_ns = locked.now_ns;
        own.note(frame, locked.writes, false);
        own.sides.upgraded += 1;
        lock.schedule.iter().for_each(|schedule| schedule.owe());
        locked.instance.handle_alone(frame, release);
        own.lines.append(&mut locked.instance.log().take());
    }

    /// Does what is due at the time of `cause`, without a packet.
    pub(crate) fn run_due(&mut self, cause: &Meta, release: &mut impl Release) {
        if cause.arrival_ns >= self.look(Instance::due_ns) {
            self.act_alone(cause, |instance, cause| instance.run_due(cause, release));
        }
        self.tell_in_time();
    }

    /// Acts on the instance as a writer, at the time of `cause`, without a packet.
    pub(crate) fn act_alone<T>(
        &mut self,
        cause: &Meta,
        act: impl FnOnce(&mut Instance<N>, &Meta) -> T,
    ) -> T {
        let Self { lock, own } = self;
        let locked = &mut *lock.write();
        locked.writes += 1;
        locked.now_ns = locked.now_ns.max(cause.arrival_ns);
        let cause = Meta { arrival_ns: locked.now_ns, ..*cause };
        let done = act(&mut locked.instance, &cause);
        own.lines.append(&mut locked.instance.log().take());
        done
    }

    /// Looks at the instance as a reader.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Instance<N>) -> T) -> T {
        look(&self.lock.state.read().unwrap_or_else(PoisonError::into_inner).instance)
    }

    /// When something is to be done without a packet, as seen at `now_ns`.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> u64 {
        self.look(|instance| instance.next_due_ns(now_ns))
    }

    /// The lines that its writers logged since the last call.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.own.lines)
    }

    /// How its packets ended.
    pub fn sides(&self) -> Sides {
        self.own.sides
    }

    /// How full each state object is.
    pub fn tables(&self) -> Vec<TableUse> {
        self.look(Instance::tables)
    }

    /// When its packets took effect, where that was to be kept, since the last call. Those of all
    /// workers, sorted, are the order of the run.
    pub fn take_order(&mut self) -> Vec<Commit> {
        self.own.order.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Lets go of the instance; whoever is the last to do so gets it.
    pub fn finish(mut self, release: &mut impl Release) -> Option<Instance<N>> {
        self.own.reassembly.end(release);
        let mut locked = self.lock.write();
        if self.own.last.number >= locked.last.number {
            locked.last = self.own.last;
        }
        drop(locked);
        let state = Arc::into_inner(self.lock)?.state;
        let locked = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Locked { mut instance, now_ns, last, .. } = locked;
        instance.end_after(Meta { arrival_ns: now_ns.max(last.arrival_ns), ..last });
        Some(instance)
    }
}

impl<N: NetworkFunction> Assembles<N> for Access<N> {
    fn reassembly(&mut self) -> &mut Reassembly {
        &mut self.own.reassembly
    }

    fn handle_to_part(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) -> usize {
        let mut handled = 0;
        loop {
            handled += self.read(&mut frames[handled..], release);
            match frames.get_mut(handled) {
                Some(writer) if !is_part_frame::<N>(writer) => self.write(writer, release),
                _ => return handled,
            }
            handled += 1;
        }
    }
}

impl Own {
    /// Runs the packet as a reader; `None`, and no trace of it: it would write.
    #[inline(always)]
    fn speculate<'a, N: NetworkFunction>(
        &mut self,
        locked: &'a Locked<N>,
        frame: &mut Frame<'_>,
        layout: Layout,
        speculation: &Speculation<'a>,
    ) -> Option<Verdict> {
        let time_ns = frame.meta().arrival_ns.max(locked.now_ns);
        if time_ns >= locked.instance.due_ns() {
            return None;
        }
        let faults = elements::faults();
        if N::REWRITES {
            self.head.save(frame.bytes(), layout);
        }
        self.environment.begin(time_ns, frame.meta().number);
        let verdict = locked.instance.speculate(frame, layout, &mut self.environment, speculation);
        // A packet that re-enters does so in one go: in between, others might write.
        let again = matches!(verdict, Verdict::Recirculate(_));
        if speculation.writes() || self.environment.take_asked() || again {
            if N::REWRITES {
                self.head.restore(frame);
            }
            self.environment.emitted().clear();
            elements::forget_since(faults);
            return None;
        }
        speculation.commit();
        frame.meta_mut().arrival_ns = time_ns;
        self.note(frame, locked.writes, true);
        Some(verdict)
    }

    /// Lets go what a reader made, and the packet.
    #[inline(always)]
    fn release(&mut self, frame: &Frame<'_>, verdict: Verdict, release: &mut impl Release) {
        if !self.environment.emitted().is_empty() {
            let emitted = self.environment.emitted();
            emitted.drain(|port, bytes| release.emit(frame.meta(), port, bytes));
        }
        match verdict {
            Verdict::Forward(port) => release.forward(frame, port),
            Verdict::Discard(reason) => release.discard(frame, reason),
            // What re-enters is no reader.
            Verdict::Flood | Verdict::Recirculate(_) => release.flood(frame),
        }
    }

    #[inline(always)]
    fn note(&mut self, frame: &Frame<'_>, writes: u64, reader: bool) {
        self.last = *frame.meta();
        if let Some(order) = &mut self.order {
            let Meta { arrival_ns: time_ns, number, .. } = self.last;
            order.push(Commit { writes, reader, time_ns, number });
        }
    }
}
