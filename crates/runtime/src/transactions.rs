//! The transactional strategy: all state shared, changed by all workers at once.
//!
//! ```text
//! worker 0: Member ── NF in the Parallel world, environment, heads of a batch ──┐
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
//! what has come to its end is noticed by nobody who is not alone, and a refresh never brings an end
//! nearer.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_nf::packet_set::{SetKey, SetKey4, SetKey6};
use anabranch_nf::settings::Settings as _;
use anabranch_nf::state::TableUse;
use anabranch_nf::tracked::{Found, SharedSets, Sharing};
use anabranch_nf::{
    BuildError, Builtin, Context, Drop, Environment, Key, Line, NetworkFunction, Value, Verdict,
    elements,
};
use anabranch_packet::{
    Common, Frame, Hollow, Layout, Meta, Mode, Packet, Port, Real, parse, parse_any, parse_common,
};
use anabranch_txn::{Batch, Counts, Domain, MOST_ITEMS, Place, Transaction, Worker};

use crate::events::{Event, Events};
use crate::head::Head;
use crate::instance::{EXPIRY_BUDGET, Making, RECIRCULATIONS, Release, refused};
use crate::lock::Commit;
use crate::tuner::{Pass, Tuner};
use crate::worker::InstanceEnd;

/// What the workers share, beside the state objects.
struct Shared<N: NetworkFunction> {
    sets: Sets<N::Set>,
    /// When there is something to do that has to be done alone, in nanoseconds since the Unix epoch.
    due_ns: AtomicU64,
    /// No packet is handled at an earlier time any more: what had come to its end then may have been
    /// collected.
    now_ns: AtomicU64,
    /// From when ticks are counted.
    origin_ns: AtomicU64,
    alone: Mutex<Alone<N>>,
}

struct Sets<S> {
    v4: SharedSets<SetKey4, S>,
    v6: SharedSets<SetKey6, S>,
}

/// What only who is alone works with.
struct Alone<N: NetworkFunction> {
    environment: Environment,
    events: Events<N::Parallel>,
    collects_ns: u64,
    /// The packet of the highest number among workers that have ended.
    last: Meta,
}

/// One worker.
pub struct Member<N: NetworkFunction> {
    shared: Arc<Shared<N>>,
    nf: N::Parallel,
    worker: Worker,
    own: Own,
}

/// What a worker has for itself, and may have to take back.
struct Own {
    environment: Environment,
    heads: Box<[Head; MOST_ITEMS]>,
    layouts: [Layout; MOST_ITEMS],
    tuner: Tuner,
    verdicts: [Verdict; MOST_ITEMS],
    /// Packets that the NF made, with the place of their cause in the batch.
    emitted: Vec<(usize, Port, Vec<u8>)>,
    faults: u64,
    lines: Vec<Line>,
    last: Meta,
    order: Option<Vec<Commit>>,
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
        let settings = making.own_settings();
        let settings = N::Settings::read(&settings).map_err(|why| BuildError(why.to_string()))?;
        let domain = Arc::new(Domain::new(workers, ordered));
        let mut sharing = Sharing::new(&domain);
        let mut made = Vec::with_capacity(workers);
        for _ in 0..workers {
            let transaction = Arc::clone(&sharing.transaction);
            let mut builder = making.builder().sharing(sharing);
            made.push((N::Parallel::build(settings.clone(), &mut builder)?, transaction));
            let Some(shared) = builder.into_sharing() else { unreachable!("it was given") };
            sharing = shared.next();
        }
        let sets = Sets::new::<N::Parallel>(&made[0].0, making, &domain)?;
        let shared = Arc::new(Shared {
            sets,
            due_ns: AtomicU64::new(u64::MAX),
            now_ns: AtomicU64::new(0),
            origin_ns: AtomicU64::new(0),
            alone: Mutex::new(Alone {
                environment: Environment::new(making.seed),
                events: Events::default(),
                collects_ns: 0,
                last: Meta::default(),
            }),
        });
        let member = |(nf, transaction): (N::Parallel, Arc<Transaction>)| Member {
            shared: Arc::clone(&shared),
            nf,
            worker: Worker::new(transaction),
            own: Own::new(making.seed, making.pass, ordered),
        };
        Ok(Self { members: made.into_iter().map(member).collect() })
    }

    /// Starts the clock at `now_ns`, the first packet's arrival, and runs `init`.
    pub fn start(&mut self, now_ns: u64) {
        let Some(first) = self.members.first_mut() else { return };
        let Member { shared, nf, worker, .. } = first;
        worker.alone(|_| {
            let mut alone = shared.alone();
            let Alone { environment, events, .. } = &mut *alone;
            environment.set_origin(now_ns);
            environment.set_alone(true);
            events.set_clock_end(environment.last_ns());
            events.start(now_ns);
            environment.begin_event(now_ns);
            environment.enter_every_shard();
            nf.init(&mut Context::new(environment));
            alone.plan(shared);
        });
    }

    /// Has `command` carried out when the clock reaches `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, command: N::Command) {
        let Some(Member { shared, .. }) = self.members.first() else { return };
        let mut alone = shared.alone();
        alone.events.schedule(at_ns, command);
        alone.plan(shared);
    }

    /// The workers.
    pub fn into_members(self) -> Vec<Member<N>> {
        self.members
    }
}

impl<S: Value> Sets<S> {
    fn new<P: NetworkFunction<Set = S>>(
        nf: &P,
        making: &Making,
        domain: &Domain,
    ) -> Result<Self, BuildError> {
        let mut shape = nf.set_shape();
        shape.capacity = match P::SET {
            Some(name) => making.builder().capacity(name, shape.capacity.into())?,
            None => 1,
        };
        Ok(Self {
            v4: SharedSets::new(domain, shape, making.seed ^ 0x4444),
            v6: SharedSets::new(domain, shape, making.seed ^ 0x6666),
        })
    }

    /// How full they are, and the objects of `nf`.
    fn tables<P: NetworkFunction>(&self, nf: &P) -> Vec<TableUse> {
        let mut tables = Vec::new();
        if let Some(name) = P::SET {
            tables.push(self.v4.table_use(&format!("{name} (IPv4)")));
            tables.push(self.v6.table_use(&format!("{name} (IPv6)")));
        }
        tables.extend(nf.tables());
        tables
    }

    fn expire(&self, transaction: &Transaction, now: u32, budget: &mut u32) -> Option<S> {
        let v4 = self.v4.expire(transaction, now, budget);
        v4.or_else(|| self.v6.expire(transaction, now, budget))
    }
}

/// What holds for packets until somebody is alone.
#[derive(Clone, Copy)]
struct Times {
    now_ns: u64,
    due_ns: u64,
    origin_ns: u64,
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

    /// The time of who is alone and would be at `now_ns`.
    fn advance(&self, now_ns: u64) -> u64 {
        self.now_ns.fetch_max(now_ns, Ordering::Relaxed).max(now_ns)
    }

    /// Nobody who holds it panics half way but for an NF's handler, whose worker is reported.
    fn alone(&self) -> MutexGuard<'_, Alone<N>> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: NetworkFunction> Alone<N> {
    /// Has the next packet at or after the time at which there is something to do come here.
    fn plan(&mut self, shared: &Shared<N>) {
        let has_state = N::SET.is_some() || N::OBJECTS;
        let collects_ns = if has_state { self.collects_ns } else { u64::MAX };
        self.environment.set_next_event(self.events.next().min(collects_ns));
        // It is read only where nobody is alone: the gate publishes it.
        shared.due_ns.store(self.environment.due(), Ordering::Relaxed);
        shared.origin_ns.store(self.environment.origin(), Ordering::Relaxed);
    }

    fn run_events(&mut self, seat: &mut Seat<'_, N>, cause: &Meta, release: &mut impl Release) {
        let now_ns = cause.arrival_ns;
        while let Some((at_ns, event)) = self.events.take(&mut self.environment, now_ns) {
            self.keep_in_reach(seat, at_ns);
            self.environment.begin_event(at_ns);
            if matches!(event, Event::Command(_)) {
                self.environment.enter_every_shard();
            }
            let cx = &mut Context::new(&mut self.environment);
            match event {
                Event::Timer(token) => seat.nf.timer(token, cx),
                Event::Period => seat.nf.periodic(cx),
                Event::Command(command) => {
                    seat.nf.control(command, cx).unwrap_or_else(|why| self.events.refuse(why));
                }
            }
            self.emit(cause, release);
        }
        self.keep_in_reach(seat, now_ns);
        self.collect(seat, cause, release);
        self.plan(seat.shared);
    }

    fn collect(&mut self, seat: &mut Seat<'_, N>, cause: &Meta, release: &mut impl Release) {
        if cause.arrival_ns < self.collects_ns {
            return;
        }
        self.environment.begin_expiry(cause.arrival_ns, cause.number);
        let now = self.environment.tick();
        let mut budget = EXPIRY_BUDGET;
        while let Some(state) = seat.shared.sets.expire(seat.transaction, now, &mut budget) {
            seat.nf.packet_set_expired(&state, &mut Context::new(&mut self.environment));
        }
        let done = seat.nf.expire(&mut self.environment, EXPIRY_BUDGET) && budget > 0;
        self.collects_ns = if done { self.environment.next_turn_ns() } else { 0 };
        self.emit(cause, release);
    }

    /// Has ticks counted from a later origin where they would run out at `now_ns`.
    fn keep_in_reach(&mut self, seat: &mut Seat<'_, N>, now_ns: u64) {
        if now_ns < self.environment.last_ns() {
            return;
        }
        let by = self.environment.rebase(now_ns);
        seat.shared.sets.v4.rebase(seat.transaction, by);
        seat.shared.sets.v6.rebase(seat.transaction, by);
        seat.nf.rebase(by);
        self.events.set_clock_end(self.environment.last_ns());
    }

    fn emit(&mut self, cause: &Meta, release: &mut impl Release) {
        self.environment.emitted().drain(|port, bytes| release.emit(cause, port, bytes));
    }
}

/// Where a worker works on what is shared.
struct Seat<'a, N: NetworkFunction> {
    shared: &'a Shared<N>,
    nf: &'a mut N::Parallel,
    transaction: &'a Transaction,
}

impl<N: NetworkFunction> Seat<'_, N> {
    #[inline(never)]
    fn handle_any(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        environment: &mut Environment,
    ) -> Verdict {
        self.handle::<Real>(frame, layout, environment)
    }

    /// Runs the handlers of a packet whose environment has begun.
    #[inline(always)]
    fn handle<M: Mode>(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        environment: &mut Environment,
    ) -> Verdict {
        let packet = &mut Packet::<M>::new(frame, layout);
        if N::SET.is_none() {
            let cx = &mut Context::new(environment);
            return self.nf.packet(&mut N::Set::zero(), packet, cx);
        }
        let sets = &self.shared.sets;
        match N::Parallel::set_key(packet) {
            SetKey::V4(key) => self.handle_in(&sets.v4, &key, packet, environment),
            SetKey::V6(key) => self.handle_in(&sets.v6, &key, packet, environment),
            SetKey::None => self.nf.orphan(packet, &mut Context::new(environment)),
        }
    }

    #[inline(always)]
    fn handle_in<K: Key, M: Mode>(
        &mut self,
        sets: &SharedSets<K, N::Set>,
        key: &K,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        let (transaction, now) = (self.transaction, environment.tick());
        let mut set = match sets.find(transaction, key, now) {
            Found::Alive(set) => set,
            Found::None if transaction.is_doomed() => return Drop(Builtin::NoPacketSet),
            found => {
                if let Found::Over(set) = found {
                    sets.close(transaction, key, &set);
                    self.nf.packet_set_expired(&set.state, &mut Context::new(environment));
                }
                let opened = self.nf.packet_set_opened(packet, &mut Context::new(environment));
                let state = match opened {
                    Ok(state) => state,
                    Err(declined) => return declined,
                };
                match sets.open(transaction, key, state, now) {
                    Some(set) => set,
                    None => return Drop(Builtin::PacketSetsFull),
                }
            }
        };
        let verdict = self.nf.packet(&mut set.state, packet, &mut Context::new(environment));
        sets.keep(transaction, &set, now, environment.expiry());
        verdict
    }
}

impl Own {
    fn new(seed: u64, pass: Option<Pass>, ordered: bool) -> Self {
        Self {
            environment: Environment::new(seed),
            layouts: [Layout::default(); MOST_ITEMS],
            tuner: Tuner::new(pass),
            heads: Box::new(std::array::from_fn(|_| Head::default())),
            verdicts: [Verdict::Flood; MOST_ITEMS],
            emitted: Vec::new(),
            faults: 0,
            lines: Vec::new(),
            last: Meta::default(),
            order: ordered.then(Vec::new),
        }
    }
}

/// A batch under way.
struct Work<'a, 'f, N: NetworkFunction, R: Release> {
    shared: &'a Shared<N>,
    nf: &'a mut N::Parallel,
    own: &'a mut Own,
    frames: &'a mut [Frame<'f>],
    release: &'a mut R,
}

impl<N: NetworkFunction, R: Release> Work<'_, '_, N, R> {
    /// Handles one packet beside others.
    #[inline(always)]
    fn beside(&mut self, at: usize, times: Times, transaction: &Transaction) {
        let (frame, own) = (&mut self.frames[at], &mut *self.own);
        let layout = own.layouts[at];
        own.heads[at].save(frame, layout);
        if let Some(reason) = refused::<N>(layout) {
            own.verdicts[at] = Verdict::Discard(reason.into());
            return;
        }
        frame.meta_mut().arrival_ns = frame.meta().arrival_ns.max(times.now_ns);
        if frame.meta().arrival_ns >= times.due_ns {
            return transaction.require_alone();
        }
        own.environment.begin(frame.meta().arrival_ns, frame.meta().number);
        let mut seat = Seat { shared: self.shared, nf: self.nf, transaction };
        let verdict = match layout.is_common() {
            true => seat.handle::<Common<Real>>(frame, layout, &mut own.environment),
            false => seat.handle_any(frame, layout, &mut own.environment),
        };
        own.verdicts[at] = verdict;
        // What re-enters does so in one go: in between, others might write.
        if own.environment.take_asked() || matches!(verdict, Verdict::Recirculate(_)) {
            transaction.require_alone();
        }
        if !own.environment.emitted().is_empty() {
            let emitted = &mut own.emitted;
            let keep = |port, bytes: &[u8]| emitted.push((at, port, bytes.to_vec()));
            own.environment.emitted().drain(keep);
        }
    }

    /// Handles one packet with nobody beside it, and what is due before it.
    fn alone(&mut self, at: usize, transaction: &Transaction) {
        let mut alone = self.shared.alone();
        let frame = &mut self.frames[at];
        let mut seat = Seat { shared: self.shared, nf: self.nf, transaction };
        self.own.verdicts[at] = alone.packet(&mut seat, frame, self.release);
        self.own.lines.append(&mut alone.environment.log().take());
    }
}

impl<N: NetworkFunction> Alone<N> {
    /// Handles a packet, as often as it re-enters.
    fn packet(
        &mut self,
        seat: &mut Seat<'_, N>,
        frame: &mut Frame<'_>,
        release: &mut impl Release,
    ) -> Verdict {
        frame.meta_mut().arrival_ns = seat.shared.advance(frame.meta().arrival_ns);
        for turn in 0..=RECIRCULATIONS {
            let layout = parse(frame.bytes(), frame.meta().wire_len);
            if let Some(reason) = refused::<N>(layout).filter(|_| turn == 0) {
                return Verdict::Discard(reason.into());
            }
            let meta = *frame.meta();
            if meta.arrival_ns >= self.environment.due() {
                self.run_events(seat, &meta, release);
            }
            self.environment.begin(meta.arrival_ns, meta.number);
            if turn > 0 {
                self.environment.reenter(turn);
            }
            let verdict = seat.handle_any(frame, layout, &mut self.environment);
            self.emit(&meta, release);
            self.plan(seat.shared);
            match verdict {
                Verdict::Recirculate(port) => frame.meta_mut().port = port,
                last => return last,
            }
        }
        Drop(Builtin::RecirculationLimit)
    }
}

impl<N: NetworkFunction, R: Release> Batch for Work<'_, '_, N, R> {
    fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
        if transaction.is_alone() {
            range.clone().for_each(|at| self.alone(at, transaction));
            return range.len();
        }
        let times = self.shared.times();
        self.own.environment.set_origin(times.origin_ns);
        self.own.faults = elements::faults();
        for (ran, at) in range.clone().enumerate() {
            self.beside(at, times, transaction);
            if transaction.is_doomed() {
                return ran + 1;
            }
        }
        range.len()
    }

    fn undo(&mut self, range: Range<usize>) {
        for at in range {
            self.own.heads[at].restore(&mut self.frames[at]);
        }
        self.own.emitted.clear();
        elements::forget_since(self.own.faults);
    }

    fn release(&mut self, range: Range<usize>, place: Place) {
        let mut emitted = std::mem::take(&mut self.own.emitted);
        for at in range {
            let frame = &self.frames[at];
            for (_, port, bytes) in emitted.extract_if(.., |(cause, ..)| *cause == at) {
                self.release.emit(frame.meta(), port, &bytes);
            }
            match self.own.verdicts[at] {
                Verdict::Forward(port) => self.release.forward(frame, port),
                Verdict::Discard(reason) => self.release.discard(frame, reason),
                Verdict::Flood | Verdict::Recirculate(_) => self.release.flood(frame),
            }
            self.own.last = *frame.meta();
            if let Some(order) = &mut self.own.order {
                let Meta { arrival_ns: time_ns, number, .. } = self.own.last;
                // Packets of one transaction come in the order in which it handled them.
                let writes = place.0 * MOST_ITEMS as u64 + at as u64;
                order.push(Commit { writes, reader: false, time_ns, number });
            }
        }
        self.own.emitted = emitted;
    }
}

impl<N: NetworkFunction> Member<N> {
    /// Handles a batch.
    #[inline(never)]
    pub fn handle(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) {
        for frames in frames.chunks_mut(MOST_ITEMS) {
            self.look_ahead(frames);
            let Self { shared, nf, worker, own, .. } = self;
            let len = frames.len();
            worker.handle(&mut Work { shared, nf, own, frames, release }, len);
        }
    }

    /// Parses the packets, and fetches the lines that they will touch first.
    fn look_ahead(&mut self, frames: &mut [Frame<'_>]) {
        let Self { shared, nf, own, .. } = self;
        let fetch = own.tuner.begin_batch() != Pass::Off;
        for (frame, layout) in frames.iter_mut().zip(&mut own.layouts) {
            *layout = match parse_common(frame.bytes(), frame.meta().wire_len) {
                Some(layout) => layout,
                None => parse_any(frame.bytes(), frame.meta().wire_len),
            };
            if fetch && N::SET.is_some() {
                match N::Parallel::set_key(&Packet::<Real>::new(frame, *layout)) {
                    SetKey::V4(key) => shared.sets.v4.prefetch(&key),
                    SetKey::V6(key) => shared.sets.v6.prefetch(&key),
                    SetKey::None => {}
                }
            }
        }
        if !fetch || !N::OBJECTS {
            return;
        }
        elements::hollow(|| {
            for (frame, layout) in frames.iter_mut().zip(&own.layouts) {
                match layout.is_common() {
                    true => {
                        let packet = &mut Packet::<Common<Hollow>>::new(frame, *layout);
                        nf.prefetch(packet, &mut own.environment);
                    }
                    false => {
                        let packet = &mut Packet::<Hollow>::new(frame, *layout);
                        nf.prefetch(packet, &mut own.environment);
                    }
                }
            }
        });
    }

    /// Does what is due at the time of `cause`, without a packet.
    pub(crate) fn run_due(&mut self, cause: &Meta, release: &mut impl Release) {
        if cause.arrival_ns < self.shared.due_ns.load(Ordering::Relaxed) {
            return;
        }
        let Self { shared, nf, worker, own, .. } = self;
        worker.alone(|transaction| {
            let mut alone = shared.alone();
            let mut seat = Seat { shared, nf, transaction };
            let cause = Meta { arrival_ns: shared.advance(cause.arrival_ns), ..*cause };
            alone.run_events(&mut seat, &cause, release);
            own.lines.append(&mut alone.environment.log().take());
        });
    }

    /// Has the NF carry out a command at the time of `cause`.
    ///
    /// # Errors
    /// Why the NF refused it.
    pub(crate) fn carry_out(
        &mut self,
        cause: &Meta,
        command: N::Command,
        release: &mut impl Release,
    ) -> Result<(), &'static str> {
        let Self { shared, nf, worker, own } = self;
        worker.alone(|transaction| {
            let mut alone = shared.alone();
            let mut seat = Seat { shared, nf, transaction };
            let cause = Meta { arrival_ns: shared.advance(cause.arrival_ns), ..*cause };
            alone.keep_in_reach(&mut seat, cause.arrival_ns);
            alone.environment.begin_event(cause.arrival_ns);
            alone.environment.enter_every_shard();
            let done = seat.nf.control(command, &mut Context::new(&mut alone.environment));
            alone.emit(&cause, release);
            alone.plan(shared);
            own.lines.append(&mut alone.environment.log().take());
            done
        })
    }

    /// What the state holds now.
    pub(crate) fn so_far(&self) -> InstanceEnd {
        let (tables, counters) = (self.tables(), self.nf.counters());
        InstanceEnd { tables, counters, ..InstanceEnd::default() }
    }

    /// When something is to be done without a packet.
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.shared.due_ns.load(Ordering::Relaxed)
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
        let Self { shared, mut nf, mut worker, own, .. } = self;
        {
            let mut alone = shared.alone();
            if own.last.number >= alone.last.number {
                alone.last = own.last;
            }
        }
        let shared = Arc::into_inner(shared)?;
        let end = worker.alone(|transaction| {
            let mut alone = shared.alone();
            let last = alone.last;
            let mut seat = Seat { shared: &shared, nf: &mut nf, transaction };
            alone.keep_in_reach(&mut seat, last.arrival_ns);
            alone.environment.begin(last.arrival_ns, last.number);
            seat.nf.shutdown(&mut Context::new(&mut alone.environment));
            alone.emit(&last, release);
            InstanceEnd {
                tables: shared.sets.tables(&nf),
                counters: nf.counters(),
                suppressed: alone.environment.log().suppressed(),
                lines: alone.environment.log().take(),
                refused: alone.events.take_refused(),
                unheeded: alone.events.commands_left(),
            }
        });
        Some(end)
    }
}
