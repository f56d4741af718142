//! A worker of a live run: receives, hands over, handles, sends; sleeps when there is nothing to do.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anabranch_io::live::{Opened, Queue, QueueStatistics, wait};
use anabranch_io::port::BATCH;
use anabranch_io::sink::Outputs;
use anabranch_nf::{Builtin, Line, NetworkFunction, elements};
use anabranch_packet::{Frame, Meta};
use anabranch_rss::IndirectionTable;

use super::clock::LiveClock;
use super::egress::Egress;
use super::exchange::{Alarm, Exchange, MAILBOX, Mail};
use super::handover::Hands;
use super::request::Order;
use super::tap::Taps;
use crate::mailbox::{Again, Outbox, Parcel};
use crate::reassembly::has_parts;
use crate::steer::{Steering, is_gathered, worker_of};
use crate::sync::mpsc::Sender;
use crate::tally::{Counts, Tally};
use crate::worker::{Finished, Meter, State};

/// Time between two looks at interfaces, and longest sleep.
const ATTENTION: Duration = Duration::from_millis(100);
/// Time, at most, for what has arrived when the run is to end.
const DRAIN: Duration = Duration::from_millis(50);
/// Sleep of a worker whose queues are polled: a shorter one is none, a longer one would let their rings run full.
const SHORTEST_NAP: Duration = Duration::from_micros(5);
const LONGEST_NAP: Duration = Duration::from_micros(50);

/// Whose packet is whose.
#[derive(Clone)]
pub(super) struct Owners {
    pub(super) steering: Arc<Steering>,
    pub(super) table: Arc<IndirectionTable>,
    /// All but fragments are at home wherever they are received.
    pub(super) fragments_only: bool,
    /// Somebody watches how many packets each shard has.
    pub(super) counts: bool,
}

/// One worker of a live run.
pub(super) struct Worker<N: NetworkFunction> {
    /// Its state.
    pub(super) state: State<N>,
    /// Its queue of each port.
    pub(super) opened: Vec<Box<dyn Opened>>,
    /// The others.
    pub(super) exchange: Exchange,
    /// `None`: every packet is at home wherever it is received.
    pub(super) owners: Option<Owners>,
    /// The clock of the run.
    pub(super) clock: LiveClock,
    /// Where lines of the NF's log go.
    pub(super) log: Sender<Vec<Line>>,
    /// What it is told to do besides.
    pub(super) orders: Receiver<Order<N::Command>>,
}

/// What a worker says at the end.
pub(super) struct End {
    pub(super) finished: Finished,
    /// By port.
    pub(super) queues: Vec<QueueStatistics>,
}

impl<N: NetworkFunction> Worker<N> {
    /// Works until the run is over.
    pub(super) fn run(self) -> End {
        let Self { state, mut opened, exchange, owners, clock, log, orders } = self;
        let _alarm = Alarm(Arc::clone(&exchange.shared));
        let queues: Vec<_> = opened.iter_mut().map(|opened| opened.queue()).collect();
        let workers = exchange.shared.handled.len();
        let mut outbox = Outbox::new(workers);
        if workers > 1 && owners.as_ref().is_some_and(|owners| !owners.fragments_only) {
            // What another worker is behind with takes no memory that is not there from the start.
            outbox.stock(MAILBOX, BATCH);
        }
        let shift = Shift {
            counts: Counts::new(queues.len()),
            egress: Egress::new(N::REASONS, clock.ahead_ns()),
            outbox,
            batch: Vec::with_capacity(BATCH),
            theirs: Vec::with_capacity(BATCH),
            mail: Vec::with_capacity(BATCH),
            again: Vec::with_capacity(BATCH),
            hands: Hands::default(),
            meter: Meter::new(),
            number: exchange.worker as u64,
            step: workers as u64,
            attends: Instant::now() + ATTENTION,
            polls: queues.iter().any(|queue| queue.is_polled()),
            queues,
            now: Instant::now(),
            busy_at: Instant::now(),
            fds: Vec::new(),
            failed: Vec::new(),
            state,
            exchange,
            owners,
            clock,
            log,
            orders,
        };
        shift.run()
    }
}

/// A worker at work.
pub(super) struct Shift<'m, N: NetworkFunction> {
    pub(super) state: State<N>,
    queues: Vec<Box<dyn Queue<'m> + 'm>>,
    pub(super) exchange: Exchange,
    pub(super) owners: Option<Owners>,
    clock: LiveClock,
    log: Sender<Vec<Line>>,
    orders: Receiver<Order<N::Command>>,
    pub(super) counts: Counts,
    pub(super) egress: Egress,
    pub(super) outbox: Outbox,
    batch: Vec<Frame<'m>>,
    /// Of a batch, what other workers own.
    theirs: Vec<Frame<'m>>,
    /// Room for what others hand over, with how often it has re-entered.
    mail: Vec<Frame<'m>>,
    again: Vec<Option<Again>>,
    pub(super) hands: Hands,
    meter: Meter,
    /// Number of the next packet: all that are its own modulo the number of workers.
    number: u64,
    step: u64,
    /// When interfaces are looked at next.
    attends: Instant,
    /// Whether there is a queue that has to be looked at.
    polls: bool,
    /// The time of this turn.
    pub(super) now: Instant,
    /// When there was a packet last.
    busy_at: Instant,
    fds: Vec<RawFd>,
    failed: Vec<bool>,
}

impl<N: NetworkFunction> Shift<'_, N> {
    fn run(mut self) -> End {
        let mut drained: Option<Instant> = None;
        loop {
            let stopping = self.exchange.shared.is_stopping();
            // Who is quiet stays so: another may have ended, who would not open what it is handed.
            let receives = !stopping
                || !self.exchange.is_quiet() && self.now < *drained.get_or_insert(self.now + DRAIN);
            let packets = if receives { self.receive_all() } else { 0 } + self.collect_mail();
            self.run_due();
            self.take_orders();
            self.look_at_clock(packets);
            if !stopping {
                self.attend_in_time();
                if packets == 0 {
                    self.sleep();
                }
            } else if packets == 0 {
                if self.exchange.is_over() {
                    return self.finish();
                }
                self.sleep();
            }
        }
    }

    fn receive_all(&mut self) -> usize {
        (0..self.queues.len()).map(|port| self.receive(port)).sum()
    }

    /// Handles a batch of a port's queue.
    fn receive(&mut self, port: usize) -> usize {
        let Some(queue) = self.queues.get_mut(port) else { return 0 };
        if queue.receive(&mut self.batch, BATCH) == 0 {
            return 0;
        }
        let timed = self.meter.begin();
        let now_ns = self.clock.at(self.now);
        for frame in &mut self.batch {
            let meta = frame.meta_mut();
            (meta.arrival_ns, meta.number) = (now_ns, self.number);
            self.number += self.step;
        }
        let received = self.batch.len();
        self.egress.taps.entered(&self.batch);
        self.divide();
        self.counts.received(&self.batch);
        let mine = self.batch.len();
        let mut departures = self.egress.departures(&mut self.counts, &mut self.outbox, now_ns);
        self.state.handle(&mut self.batch, &mut departures);
        self.egress.send(&mut self.batch, &mut self.queues, &mut self.counts, now_ns);
        self.meter.end(timed, mine);
        self.note_handled(mine);
        if let Some(queue) = self.queues.get_mut(port) {
            queue.release(&mut self.batch);
            queue.release(&mut self.theirs);
        }
        self.hand_over();
        received
    }

    /// Takes what other workers own out of the batch, into their parcels.
    fn divide(&mut self) {
        let Some(owners) = &self.owners else { return };
        let Owners { steering, table, fragments_only, counts } = owners;
        if *fragments_only && !has_parts::<N>(&self.batch) {
            return;
        }
        steering.hash_batch(&mut self.batch);
        if *counts {
            note_load(&self.batch, self.exchange.shared.load_of(self.exchange.worker));
        }
        let me = self.exchange.worker;
        let owner = |frame: &Frame<'_>| worker_of(frame.meta().steering_hash, table);
        let leaves = |frame: &Frame<'_>| {
            let goes = !fragments_only || is_gathered(frame.meta().steering_hash);
            goes && usize::from(owner(frame)) != me
        };
        for frame in self.batch.extract_if(.., |frame| leaves(frame)) {
            self.outbox.put(&frame, owner(&frame), None);
            self.theirs.push(frame);
        }
    }

    fn note_handled(&self, packets: usize) {
        if let Some(handled) = self.exchange.shared.handled.get(self.exchange.worker) {
            handled.fetch_add(packets as u64, Ordering::Relaxed);
        }
    }

    /// Sends what has been put into the outbox.
    pub(super) fn hand_over(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        let Self { outbox, exchange, counts, egress, hands, .. } = self;
        let mut refused = None;
        outbox.flush(|worker, mut parcel| {
            parcel.epoch = hands.sends;
            if worker == exchange.worker {
                // What re-enters in a shard that is its own, but whose state has not arrived.
                exchange.keep();
                hands.held.push_back((worker, parcel));
            } else if let Err(Mail::Parcel(mut parcel)) =
                exchange.send(worker, Mail::Parcel(parcel))
            {
                drop_all(&mut parcel, counts, &egress.taps);
                refused = Some(parcel);
            }
        });
        refused.into_iter().for_each(|parcel| outbox.give_back(parcel));
        while let Some(parcel) = exchange.emptied() {
            outbox.give_back(parcel);
        }
    }

    /// Takes what others have sent, and handles the packets. How many they were.
    pub(super) fn collect_mail(&mut self) -> usize {
        let mut packets = 0;
        while let Some((sender, mail)) = self.exchange.receive() {
            match mail {
                Mail::Parcel(parcel) if parcel.epoch > self.hands.epoch => {
                    self.hands.held.push_back((sender, parcel));
                    continue;
                }
                Mail::Parcel(parcel) => {
                    packets += parcel.len();
                    self.open(sender, parcel);
                    continue;
                }
                Mail::Fence(at) => {
                    self.hands.fences += 1;
                    self.now = self.now.max(at);
                }
                Mail::Bundle(bundle) => self.hands.bundles.push(*bundle),
            }
            self.exchange.done();
        }
        packets
    }

    /// Handles what `sender` has handed over.
    pub(super) fn open(&mut self, sender: usize, mut parcel: Parcel) {
        self.handle_parcel(&mut parcel);
        parcel.clear();
        // Before the parcel is settled, so that the run does not end in between.
        self.hand_over();
        self.exchange.settle(sender, parcel);
    }

    fn handle_parcel(&mut self, parcel: &mut Parcel) {
        let now_ns = self.clock.at(self.now);
        let mut frames = emptied(std::mem::take(&mut self.mail));
        self.again.clear();
        for (mut frame, again) in parcel.frames() {
            frame.meta_mut().arrival_ns = now_ns;
            frames.push(frame);
            self.again.push(again);
        }
        let mut departures = self.egress.departures(&mut self.counts, &mut self.outbox, now_ns);
        let mut from = 0;
        // What re-enters was counted where it was received.
        for run in self.again.chunk_by(|a, b| a.is_none() && b.is_none()) {
            let Some(some) = frames.get_mut(from..from + run.len()) else { break };
            from += run.len();
            match (run, &mut *some) {
                ([Some(again), ..], [frame, ..]) => {
                    self.state.accept(frame, *again, &mut departures);
                }
                _ => {
                    departures.counts.received(some);
                    for batch in some.chunks_mut(BATCH) {
                        self.state.handle(batch, &mut departures);
                    }
                }
            }
        }
        self.egress.send_copies(&frames, &mut self.queues, &mut self.counts, now_ns);
        self.note_handled(frames.len());
        self.mail = emptied(frames);
    }

    /// Does what is due without a packet.
    fn run_due(&mut self) {
        let cause = self.cause();
        let mut departures =
            self.egress.departures(&mut self.counts, &mut self.outbox, cause.arrival_ns);
        self.state.run_due(&cause, &mut departures);
        self.send_made(&cause);
    }

    /// Sends what the NF has made without a packet.
    pub(super) fn send_made(&mut self, cause: &Meta) {
        self.egress.send_copies(&[], &mut self.queues, &mut self.counts, cause.arrival_ns);
    }

    /// The time, as the cause of what happens without a packet.
    pub(super) fn cause(&self) -> Meta {
        let arrival_ns = self.clock.at(self.now);
        Meta { arrival_ns, number: self.number, ..Meta::default() }
    }

    /// Does what it has been told to. False: nothing.
    #[inline(always)]
    fn take_orders(&mut self) -> bool {
        let there_are = self.exchange.shared.takes_orders(self.exchange.worker);
        if there_are {
            while let Ok(order) = self.orders.try_recv() {
                self.follow(order);
            }
        }
        there_are
    }

    #[cold]
    fn follow(&mut self, order: Order<N::Command>) {
        // Whoever does not wait for the answer has gone.
        match order {
            Order::Tell(answer) => {
                let so_far = (self.exchange.worker, self.so_far());
                let _ = answer.send(so_far);
            }
            Order::Copy(tap) => self.egress.taps.add(tap),
            Order::CarryOut(command, answer) => {
                let cause = self.cause();
                let mut departures =
                    self.egress.departures(&mut self.counts, &mut self.outbox, cause.arrival_ns);
                let done = self.state.carry_out(&cause, command, &mut departures);
                self.send_made(&cause);
                let _ = answer.send(done);
            }
            Order::Reassign(step) => self.change_hands(&step),
        }
    }

    /// Looks at the clock, once a turn: reading it costs as much as handling a packet or two. A turn with packets
    /// was a busy one.
    #[inline(always)]
    fn look_at_clock(&mut self, packets: usize) {
        let now = Instant::now();
        if packets > 0 {
            self.meter.busy += now - self.now;
            self.busy_at = now;
        }
        self.now = now;
    }

    fn attend_in_time(&mut self) {
        if self.now >= self.attends {
            self.attends = self.now + ATTENTION;
            self.queues.iter_mut().for_each(|queue| queue.attend());
            self.egress.taps.forget();
            self.give_up_late();
            let lines = self.state.take_lines();
            if !lines.is_empty() {
                // Nobody listens any more: the run is ending.
                let _ = self.log.send(lines);
            }
            // To open something anew takes its time.
            self.now = Instant::now();
        }
    }

    /// Drops fragments that have waited long enough, also where no others come.
    fn give_up_late(&mut self) {
        let now_ns = self.clock.at(self.now);
        let mut departures = self.egress.departures(&mut self.counts, &mut self.outbox, now_ns);
        self.state.reassembly().give_up_late(now_ns, &mut departures);
    }

    /// Sleeps until there is a packet, mail, or something due.
    fn sleep(&mut self) {
        let longest = if self.polls { self.nap() } else { ATTENTION };
        if longest.is_zero() {
            return std::hint::spin_loop();
        }
        self.exchange.lie_down();
        if self.collect_mail() == 0 && !self.take_orders() {
            let now_ns = self.clock.at(self.now);
            let due_ns = self.state.next_due_ns(now_ns).saturating_sub(now_ns);
            self.fds.clear();
            self.fds.push(self.exchange.fd());
            self.queues.iter().for_each(|queue| queue.fds(&mut self.fds));
            let timeout = longest.min(Duration::from_nanos(due_ns));
            let waited = wait(&self.fds, timeout, &mut self.failed);
            if waited.is_err() || self.failed.contains(&true) {
                // Nothing can be waited for: interfaces are looked at, and time passes.
                self.attends = self.now;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.exchange.get_up();
        self.now = Instant::now();
    }

    /// How long a worker may sleep whose queues wake nobody: an eighth of the time in which nothing has come.
    fn nap(&self) -> Duration {
        let nap = (self.now - self.busy_at) / 8;
        if nap < SHORTEST_NAP { Duration::ZERO } else { nap.min(LONGEST_NAP) }
    }

    /// What queues have counted, and with it what has been counted here.
    fn counted(&mut self) -> (Vec<QueueStatistics>, Counts) {
        let queues: Vec<_> = self.queues.iter_mut().map(|queue| queue.statistics()).collect();
        let mut counts = self.counts.clone();
        for (read, statistics) in counts.read.iter_mut().zip(&queues) {
            read.packets += statistics.oversized;
            read.bytes += statistics.oversized_bytes;
        }
        counts.drop(Builtin::Oversized, queues.iter().map(|queue| queue.oversized).sum());
        (queues, counts)
    }

    /// What it would say if it ended now, `shutdown` apart.
    fn so_far(&mut self) -> End {
        let (queues, counts) = self.counted();
        let finished = Finished {
            counts,
            latency: self.meter.latency.clone(),
            busy: self.meter.busy,
            sides: self.state.sides(),
            transactions: self.state.transactions(),
            hardware: None,
            handlers: Vec::new(),
            cpu: None,
            passed: self.hands.passed,
            instance: self.state.so_far(self.exchange.worker == 0),
            faults: elements::faults(),
            outputs: Outputs::default(),
        };
        End { finished, queues }
    }

    fn finish(mut self) -> End {
        let now_ns = self.clock.at(self.now);
        let mut departures = self.egress.departures(&mut self.counts, &mut self.outbox, now_ns);
        self.state.reassembly().end(&mut departures);
        let End { mut finished, .. } = self.so_far();
        let mut outputs = Outputs::default();
        let mut lines = self.state.take_lines();
        let mut tally = Tally::new(&mut finished.counts, Some(&mut outputs));
        finished.instance = self.state.end(&mut tally).unwrap_or_default();
        lines.append(&mut finished.instance.lines);
        // Who listens waits for this worker to end first.
        let _ = self.log.send(lines);
        for output in outputs.iter() {
            if let Some(queue) = self.queues.get_mut(usize::from(output.port.index())) {
                let sent = queue.send(&[output.bytes]);
                self.egress.taps.given(output.bytes, output.port.index().into(), now_ns, sent);
            }
        }
        finished.faults = elements::faults();
        // Nothing is sent any more.
        self.queues.iter_mut().for_each(|queue| queue.end());
        let queues = self.queues.iter_mut().map(|queue| queue.statistics()).collect();
        End { finished, queues }
    }
}

/// Counts the packets of each shard.
#[inline(always)]
fn note_load(batch: &[Frame<'_>], load: &[AtomicU64]) {
    for frame in batch {
        // What belongs to no shard has a number past them.
        if let Some(count) = load.get(frame.meta().steering_hash as usize) {
            // Nobody else writes it.
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

/// The same room, for frames of another place.
fn emptied<'b>(mut frames: Vec<Frame<'_>>) -> Vec<Frame<'b>> {
    frames.clear();
    // Collected in place: nothing is allocated.
    frames.into_iter().map_while(|_| None).collect()
}

/// Counts a parcel that nobody takes as dropped.
fn drop_all(parcel: &mut Parcel, counts: &mut Counts, taps: &Taps) {
    counts.drop(Builtin::MailboxFull, parcel.len() as u64);
    for (frame, again) in parcel.frames() {
        taps.dropped(&frame, Builtin::MailboxFull.into());
        // What re-enters has been counted already.
        if again.is_none() {
            counts.received(&[frame]);
        }
    }
    parcel.clear();
}
