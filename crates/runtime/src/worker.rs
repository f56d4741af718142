//! A worker: one core that runs batches to completion.

mod handover;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_io::Chunk;
use anabranch_io::port::{BATCH, MemoryPort, PacketIo, Pool};
use anabranch_io::sink::Outputs;
use anabranch_nf::elements;
use anabranch_nf::state::{Bundle, TableUse};
use anabranch_nf::{Line, NetworkFunction};
use anabranch_packet::{Frame, Meta};
use hdrhistogram::Histogram;

pub use handover::{Passed, Reassignment};

use crate::events::Answer;
use crate::handlers;
use crate::hardware::{Hardware, HardwareCounts, processor_time};
use crate::instance::{Instance, Release};
use crate::lock::{Access, Commit, Sides};
use crate::mailbox::{Again, Outbox, Parcel};
use crate::reassembly::{Assembles as _, Reassembly, Whole};
use crate::report::HandlerReport;
use crate::sync::mpsc::{Receiver, Sender};
use crate::tally::{Counts, Tally};
use crate::transactions::Member;

/// Batches of a worker that are timed one after the other, from the first on: a short run has no others.
const EACH: u32 = 512;
/// Of those behind them one in so many is timed.
const TIMED: u32 = 8;

/// The state a worker runs on: its own shards, or all state behind one lock.
pub enum State<N: NetworkFunction> {
    /// Shards that nobody else touches.
    Own(Box<Instance<N>>),
    /// Everything, behind a lock.
    Locked(Box<Access<N>>),
    /// Everything, in transactions, but for packet sets of its own where the run is mixed.
    Tracked(Box<Member<N>>),
}

impl<N: NetworkFunction> State<N> {
    /// Handles a batch.
    #[inline(always)]
    pub fn handle(&mut self, batch: &mut [Frame<'_>], release: &mut impl Release) {
        match self {
            Self::Own(instance) => {
                instance.handle(batch, release);
            }
            Self::Locked(access) => access.handle(batch, release),
            Self::Tracked(member) => member.handle(batch, release),
        }
    }

    /// Datagrams are put together elsewhere; these are completed by packets that come now.
    fn expect(&mut self, wholes: Vec<Whole>) {
        self.reassembly().expect(wholes);
    }

    /// Datagrams that are incomplete.
    pub(crate) fn reassembly(&mut self) -> &mut Reassembly {
        match self {
            Self::Own(instance) => instance.reassembly(),
            Self::Locked(access) => access.reassembly(),
            Self::Tracked(member) => member.reassembly(),
        }
    }

    /// Goes on with a packet that another worker handed over, to re-enter.
    pub(crate) fn accept(
        &mut self,
        frame: &mut Frame<'_>,
        again: Again,
        release: &mut impl Release,
    ) {
        match self {
            Self::Own(instance) => instance.accept(frame, again, release),
            Self::Locked(_) | Self::Tracked(_) => {
                unreachable!("where state is shared what re-enters does so where it is")
            }
        }
    }

    /// Whether packets may be handled at later times than those of their arrival.
    fn delays(&self) -> bool {
        !matches!(self, Self::Own(_))
    }

    /// Lines that the NF logged since the last call.
    pub(crate) fn take_lines(&mut self) -> Vec<Line> {
        match self {
            Self::Own(instance) => instance.environment().log().take(),
            Self::Locked(access) => access.take_lines(),
            Self::Tracked(member) => member.take_lines(),
        }
    }

    /// Does what is due at the time of `cause`, without a packet.
    pub(crate) fn run_due(&mut self, cause: &Meta, release: &mut impl Release) {
        match self {
            Self::Own(instance) => instance.run_due(cause, release),
            Self::Locked(access) => access.run_due(cause, release),
            Self::Tracked(member) => member.run_due(cause, release),
        }
    }

    /// `last` is the last packet of the run, and all have been handled: does what is due before it and was not done
    /// then, since it is another worker's or was not shown to the NF.
    fn come_to_end(&mut self, last: &Meta, release: &mut impl Release) {
        match self {
            Self::Own(instance) => instance.come_to_end(last, release),
            // Of what is shared, the last packet may have brought about itself what is due at its very time.
            Self::Locked(_) | Self::Tracked(_) => {
                if self.next_due_ns(last.arrival_ns) < last.arrival_ns {
                    self.run_due(last, release);
                }
            }
        }
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
        match self {
            Self::Own(instance) => instance.carry_out(cause, command, release),
            Self::Tracked(member) => member.carry_out(cause, command, release),
            Self::Locked(access) => access
                .act_alone(cause, |instance, cause| instance.carry_out(cause, command, release)),
        }
    }

    /// What the state holds now; of one that is shared only `first` tells.
    pub(crate) fn so_far(&self, first: bool) -> InstanceEnd {
        match self {
            Self::Own(instance) => InstanceEnd::so_far(instance),
            Self::Locked(access) if first => access.look(InstanceEnd::so_far),
            Self::Tracked(member) if first => member.so_far(),
            Self::Locked(_) | Self::Tracked(_) => InstanceEnd::default(),
        }
    }

    /// When something is to be done without a packet, as seen at `now_ns`.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> u64 {
        match self {
            Self::Own(instance) => instance.next_due_ns(now_ns),
            Self::Locked(access) => access.next_due_ns(now_ns),
            Self::Tracked(member) => member.next_due_ns(now_ns),
        }
    }

    /// How packets ended, where state is behind a lock.
    pub fn sides(&self) -> Option<Sides> {
        match self {
            Self::Locked(access) => Some(access.sides()),
            Self::Own(_) | Self::Tracked(_) => None,
        }
    }

    /// How transactions ended.
    pub fn transactions(&self) -> Option<anabranch_txn::Counts> {
        match self {
            Self::Tracked(member) => Some(member.counts()),
            Self::Own(_) | Self::Locked(_) => None,
        }
    }

    /// How full each state object is.
    pub fn tables(&self) -> Vec<TableUse> {
        match self {
            Self::Own(instance) => instance.tables(),
            Self::Locked(access) => access.tables(),
            Self::Tracked(member) => member.tables(),
        }
    }

    /// Lets go of it; where nobody else works on it any more it is shut down.
    pub(crate) fn end(self, release: &mut impl Release) -> Option<InstanceEnd> {
        match self {
            Self::Own(instance) => Some(InstanceEnd::of(*instance, release)),
            Self::Locked(access) => {
                access.finish(release).map(|instance| InstanceEnd::of(instance, release))
            }
            Self::Tracked(member) => member.finish(release),
        }
    }

    /// When its packets took effect, where that was to be kept, since the last call.
    pub(crate) fn take_order(&mut self) -> Vec<Commit> {
        match self {
            Self::Own(_) => Vec::new(),
            Self::Locked(access) => access.take_order(),
            Self::Tracked(member) => member.take_order(),
        }
    }
}

/// A worker's part of a chunk.
pub struct Job {
    /// The packets.
    pub chunk: Chunk,
    /// Which of them are this worker's, by index in the chunk; `None`: all.
    pub mine: Option<Vec<u32>>,
    /// Shards of the chunk's packets, where they matter.
    pub shards: Option<Arc<Vec<u32>>>,
    /// Times at which the chunk's packets are handled, where they do not follow from their arrival.
    pub times: Option<Arc<Vec<u64>>>,
    /// Datagrams that its fragments complete, where they are put together before.
    pub(crate) wholes: Option<Vec<Whole>>,
    /// Where outputs are to be collected; given back in [`Done`].
    pub outputs: Outputs,
}

/// The last packet of a run.
#[derive(Clone)]
pub struct LastPacket {
    /// The chunk it is in.
    pub chunk: Chunk,
    /// The packet, at the time at which it is handled.
    pub meta: Meta,
}

impl LastPacket {
    /// The last one of `chunk`, whose packets are handled at `times`, where these do not follow from their
    /// arrival.
    pub fn of(chunk: &Chunk, times: Option<&[u64]>) -> Option<Self> {
        let meta = chunk.meta(chunk.len().checked_sub(1)?)?;
        let at_ns = times.and_then(|times| times.last().copied());
        let meta = Meta { arrival_ns: at_ns.unwrap_or(meta.arrival_ns), ..meta };
        Some(Self { chunk: chunk.clone(), meta })
    }
}

/// What a worker receives.
pub enum Message {
    /// Packets from the source.
    Job(Job),
    /// Packets of a chunk from another worker.
    Parcel(Chunk, Parcel),
    /// Shards change hands before the jobs that follow.
    Reassignment(Reassignment),
    /// Another worker has come to the reassignment of this number: no parcel that it sends from now
    /// on is of the table before.
    Fence(u64),
    /// State of shards that this worker gets.
    Bundle(Bundle),
    /// All packets have been handled, by all workers; this was the last one. Answered as a job is.
    Last(LastPacket),
    /// There will be no more.
    End,
}

/// Packets of other workers that have been handled, or handed on.
pub struct Late {
    /// Number of the first packet of the chunk they belong to.
    pub chunk: u64,
    /// What left, if it is kept.
    pub outputs: Outputs,
    /// Packets of the parcel.
    pub settled: usize,
    /// How many of them were handed over once more.
    pub sent: usize,
}

/// A job that is done.
pub struct Done {
    /// What left, if it is kept.
    pub outputs: Outputs,
    /// The list of the job, for reuse.
    pub mine: Vec<u32>,
    /// Packets handled in this job.
    pub packets: u64,
    /// How many of them were handed over to other workers.
    pub sent: usize,
    /// Lines that the NF logged.
    pub lines: Vec<Line>,
    /// When they were handled.
    pub took: Range<Instant>,
}

/// What a worker says on the way.
pub enum Notice {
    /// It has done its oldest job.
    Done(Done),
    /// It has handled what another worker handed over.
    Late(Late),
    /// It is panicking and will do no job any more.
    Panicked,
}

/// Says so when its worker panics: the others keep the channel open, so that silence would be waited
/// for without end.
struct Alarm<'c>(&'c Sender<(usize, Notice)>, usize);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Where nobody listens, somebody has gone before us.
            let _ = self.0.send((self.1, Notice::Panicked));
        }
    }
}

/// What a worker says at the end.
pub struct Finished {
    /// Its counts.
    pub counts: Counts,
    /// Time from a batch's arrival to its release, nanoseconds, per packet.
    pub latency: Histogram<u64>,
    /// Time spent on batches.
    pub busy: Duration,
    /// How its packets ended, where state was behind a lock.
    pub sides: Option<Sides>,
    /// How its transactions ended.
    pub transactions: Option<anabranch_txn::Counts>,
    /// What the processor counted of its thread, where it counts and handlers are not counted each for itself.
    pub hardware: Option<HardwareCounts>,
    /// What its handlers took, where the run is watched.
    pub handlers: Vec<HandlerReport>,
    /// Time that its thread ran on a processor, where the system tells.
    pub cpu: Option<Duration>,
    /// What it has passed on to others.
    pub passed: Passed,
    /// How its instance ended; of shared state the worker tells that let go of it last.
    pub instance: InstanceEnd,
    /// Indices past the end that its thread met.
    pub faults: u64,
    /// What `shutdown` emitted.
    pub outputs: Outputs,
}

/// An instance after `shutdown`.
#[derive(Default)]
pub struct InstanceEnd {
    /// State objects.
    pub tables: Vec<TableUse>,
    /// `Counter`s, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Log lines that were counted but not kept.
    pub suppressed: u64,
    /// Log lines since the last job.
    pub lines: Vec<Line>,
    /// What the NF said to commands, in their order.
    pub answers: Vec<Answer>,
    /// Commands that were due after the last packet, and were not carried out.
    pub unheeded: usize,
}

/// One worker of a run.
pub struct Worker<N: NetworkFunction> {
    /// Its state.
    pub state: State<N>,
    /// Whether some port has a capture.
    pub keep: bool,
    /// How far the clock is ahead of the capture's, nanoseconds.
    pub ahead_ns: u64,
    /// Longest packet that a chunk may hold, in bytes.
    pub longest: usize,
    /// Its number.
    pub number: usize,
    /// Ports of the run.
    pub ports: usize,
    /// How to reach every worker, where packets are handed over.
    pub peers: Vec<Sender<Message>>,
}

impl<N: NetworkFunction> Worker<N> {
    /// Handles what it receives until there is no more.
    pub fn run(self, messages: &Receiver<Message>, tell: &Sender<(usize, Notice)>) -> Finished {
        let _alarm = Alarm(tell, self.number);
        let mut pool = Pool::new(2 * BATCH, self.longest);
        let shift = Shift {
            port: MemoryPort::new(pool.buffers()),
            batch: Vec::with_capacity(BATCH),
            meter: Meter::new(),
            counts: Counts::new(self.ports),
            outbox: Outbox::new(self.peers.len()),
            waiting: VecDeque::new(),
            parked: Vec::new(),
            progress: 0,
            epoch: 0,
            sends: 0,
            fences: BTreeMap::new(),
            bundles: Vec::new(),
            carried: Outputs::default(),
            passed: Passed::default(),
            ended: false,
            messages,
            tell,
            worker: self,
        };
        let watched = N::Parallel::PROFILED;
        let mut hardware = if watched { None } else { Hardware::open() };
        if watched {
            handlers::watch();
        }
        let started = processor_time();
        hardware.iter_mut().for_each(Hardware::start);
        let finished = shift.run();
        let hardware = hardware.as_mut().and_then(Hardware::stop);
        let cpu = processor_time().zip(started).map(|(end, start)| end.saturating_sub(start));
        Finished { hardware, cpu, handlers: handlers::take(), ..finished }
    }
}

/// A worker at work.
struct Shift<'m, N: NetworkFunction> {
    worker: Worker<N>,
    messages: &'m Receiver<Message>,
    tell: &'m Sender<(usize, Notice)>,
    port: MemoryPort<'m>,
    batch: Vec<Frame<'m>>,
    meter: Meter,
    counts: Counts,
    outbox: Outbox,
    /// Tasks that came while another one was being done.
    waiting: VecDeque<Task>,
    /// What others have handed over and is too early to be handled.
    parked: Vec<(Chunk, Parcel)>,
    /// Every packet of this worker with a lower number has been handled.
    progress: u64,
    /// The last reassignment that is over: parcels of later ones are too early.
    epoch: u64,
    /// The reassignment by whose table packets are handed over.
    sends: u64,
    /// How many peers have come to each reassignment that is not over.
    fences: BTreeMap<u64, usize>,
    /// State that has arrived and not been put in.
    bundles: Vec<Bundle>,
    /// What left between two jobs; it goes with the second.
    carried: Outputs,
    passed: Passed,
    ended: bool,
}

/// What the coordinator asks for, in this order.
enum Task {
    Job(Job),
    Reassignment(Reassignment),
    Last(LastPacket),
}

impl<N: NetworkFunction> Shift<'_, N> {
    fn run(mut self) -> Finished {
        while !self.ended || !self.waiting.is_empty() {
            match self.waiting.pop_front() {
                Some(Task::Job(job)) => self.work(job),
                Some(Task::Reassignment(step)) => self.change_hands(&step),
                Some(Task::Last(last)) => self.come_to_end(&last),
                None => match self.messages.recv() {
                    Ok(message) => self.receive(message),
                    Err(_) => self.ended = true,
                },
            }
            self.accept_due();
        }
        self.finish()
    }

    fn work(&mut self, job: Job) {
        let before = self.counts.packets();
        let started = Instant::now();
        let Job { chunk, mine, shards, times, wholes, mut outputs } = job;
        if let Some(wholes) = wholes {
            self.worker.state.expect(wholes);
        }
        if !self.carried.is_empty() {
            outputs = std::mem::take(&mut self.carried);
        }
        let first = chunk.first_number();
        let delayed = times.is_some() || self.worker.state.delays();
        let arrivals = delayed.then(|| chunk.clone());
        let mut sent = 0;
        match mine {
            Some(mine) => drop(self.port.assign(chunk.clone(), mine)),
            None => self.port.assign_all(chunk.clone()),
        }
        while self.port.receive(&mut self.batch, BATCH) > 0 {
            let timed = self.meter.begin();
            note(
                &mut self.batch,
                &mut self.counts,
                shards.as_ref().map(|shards| (first, &shards[..])),
            );
            if let Some(times) = &times {
                set_times(&mut self.batch, first, times);
            }
            let mut tally = Tally::new(&mut self.counts, self.worker.keep.then_some(&mut outputs));
            tally.arrivals = arrivals.as_ref();
            tally.outbox = Some(&mut self.outbox);
            self.worker.state.handle(&mut self.batch, &mut tally);
            self.meter.end(timed, self.batch.len());
            if !self.worker.peers.is_empty() {
                self.progress = self.batch.last().map_or(0, |frame| frame.meta().number + 1);
                sent += self.hand_over(&chunk);
                self.look_into_mailbox();
            }
            self.port.release(&mut self.batch);
        }
        self.progress = first + chunk.len() as u64;
        let took = started..Instant::now();
        self.meter.busy += took.end - started;
        let mine = self.port.clear();
        let packets = self.counts.packets() - before;
        let lines = self.worker.state.take_lines();
        self.tell(Notice::Done(Done { outputs, mine, packets, sent, lines, took }));
    }

    /// Sends what has been put into the outbox, and returns how many packets that were.
    fn hand_over(&mut self, chunk: &Chunk) -> usize {
        if self.outbox.is_empty() {
            return 0;
        }
        let (peers, epoch) = (&self.worker.peers, self.sends);
        self.outbox.flush(|worker, mut parcel| {
            parcel.epoch = epoch;
            // A worker that is gone has panicked: joining it will tell.
            let _ = peers[worker].send(Message::Parcel(chunk.clone(), parcel));
        })
    }

    fn look_into_mailbox(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.receive(message);
        }
        self.accept_due();
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Parcel(chunk, parcel) => self.parked.push((chunk, parcel)),
            Message::Job(job) => self.waiting.push_back(Task::Job(job)),
            Message::Reassignment(step) => self.waiting.push_back(Task::Reassignment(step)),
            Message::Fence(epoch) => *self.fences.entry(epoch).or_default() += 1,
            Message::Bundle(bundle) => self.bundles.push(bundle),
            Message::Last(last) => self.waiting.push_back(Task::Last(last)),
            Message::End => self.ended = true,
        }
    }

    /// Handles what others have handed over, once this worker is as far: a packet overtakes none
    /// that arrived before it.
    fn accept_due(&mut self) {
        let mut at = 0;
        while let Some((_, parcel)) = self.parked.get(at) {
            let is_early = |number: u64| number >= self.progress || parcel.epoch > self.epoch;
            if parcel.last_number().is_some_and(is_early) {
                at += 1;
                continue;
            }
            let (chunk, parcel) = self.parked.remove(at);
            self.accept(chunk, parcel);
        }
    }

    fn accept(&mut self, chunk: Chunk, mut parcel: Parcel) {
        let settled = parcel.len();
        let mut outputs = Outputs::default();
        let mut tally = Tally::new(&mut self.counts, self.worker.keep.then_some(&mut outputs));
        tally.arrivals = Some(&chunk);
        tally.outbox = Some(&mut self.outbox);
        let state = &mut self.worker.state;
        parcel.open(|frame, again| match again {
            Some(again) => state.accept(frame, again, &mut tally),
            None => state.handle(std::slice::from_mut(frame), &mut tally),
        });
        self.outbox.give_back(parcel);
        // Told before they are sent: once nothing is on its way any more, the chunk is complete.
        let (chunk_number, sent) = (chunk.first_number(), self.outbox.waiting());
        self.tell(Notice::Late(Late { chunk: chunk_number, outputs, settled, sent }));
        self.hand_over(&chunk);
    }

    /// Brings the state to the time of the last packet of the run.
    fn come_to_end(&mut self, last: &LastPacket) {
        let started = Instant::now();
        let mut outputs = std::mem::take(&mut self.carried);
        let mut tally = Tally::new(&mut self.counts, self.worker.keep.then_some(&mut outputs));
        tally.arrivals = Some(&last.chunk);
        self.worker.state.come_to_end(&last.meta, &mut tally);
        let took = started..Instant::now();
        self.meter.busy += took.end - started;
        let (mine, lines) = (Vec::new(), self.worker.state.take_lines());
        self.tell(Notice::Done(Done { outputs, mine, packets: 0, sent: 0, lines, took }));
    }

    fn tell(&mut self, notice: Notice) {
        // Nobody listens any more: the run has failed, and ends.
        self.ended |= self.tell.send((self.worker.number, notice)).is_err();
    }

    fn finish(mut self) -> Finished {
        let mut outputs = std::mem::take(&mut self.carried);
        let keep = self.worker.keep;
        let mut tally = Tally::new(&mut self.counts, keep.then_some(&mut outputs));
        tally.ahead_ns = self.worker.ahead_ns;
        let sides = self.worker.state.sides();
        let transactions = self.worker.state.transactions();
        let end = self.worker.state.end(&mut tally);
        let Meter { latency, busy, .. } = self.meter;
        let (counts, faults) = (self.counts, elements::faults());
        let instance = end.unwrap_or_default();
        let passed = self.passed;
        let (hardware, handlers) = (None, Vec::new());
        Finished {
            counts,
            latency,
            busy,
            sides,
            transactions,
            hardware,
            handlers,
            cpu: None,
            passed,
            instance,
            faults,
            outputs,
        }
    }
}

impl InstanceEnd {
    /// What an instance that goes on holds.
    pub(crate) fn so_far<N: NetworkFunction>(instance: &Instance<N>) -> Self {
        let (tables, counters) = (instance.tables(), instance.counters());
        Self { tables, counters, ..Self::default() }
    }

    pub(crate) fn of<N: NetworkFunction>(
        mut instance: Instance<N>,
        release: &mut impl Release,
    ) -> Self {
        instance.shut_down(release);
        Self {
            tables: instance.tables(),
            counters: instance.counters(),
            suppressed: instance.environment().log().suppressed(),
            lines: instance.environment().log().take(),
            answers: instance.take_answers(),
            unheeded: instance.commands_left(),
        }
    }
}

/// Counts a batch, and tells its packets their shards.
#[inline(always)]
fn note(batch: &mut [Frame<'_>], counts: &mut Counts, shards: Option<(u64, &[u32])>) {
    counts.received(batch);
    if let Some((first, shards)) = shards {
        for frame in batch {
            let at = (frame.meta().number - first) as usize;
            frame.meta_mut().steering_hash = shards.get(at).copied().unwrap_or_default();
        }
    }
}

/// Gives a batch the times at which it is handled.
#[cold]
fn set_times(batch: &mut [Frame<'_>], first: u64, times: &[u64]) {
    for frame in batch {
        let at = (frame.meta().number - first) as usize;
        let time_ns = times.get(at).copied();
        frame.meta_mut().arrival_ns = time_ns.unwrap_or(frame.meta().arrival_ns);
    }
}

/// Times batches, not all of them.
pub(crate) struct Meter {
    pub(crate) latency: Histogram<u64>,
    pub(crate) busy: Duration,
    until_timed: u32,
    /// Batches that one that is timed stands for.
    stands_for: u32,
    /// How many are still to be timed one after the other.
    each: u32,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let bounds = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        let Ok(latency) = bounds else { unreachable!("the bounds are constant and valid") };
        Self { latency, busy: Duration::ZERO, until_timed: 1, stands_for: 1, each: EACH }
    }

    #[inline(always)]
    pub(crate) fn begin(&mut self) -> Option<Instant> {
        self.until_timed -= 1;
        (self.until_timed == 0).then(Instant::now)
    }

    #[inline(always)]
    pub(crate) fn end(&mut self, started: Option<Instant>, packets: usize) {
        if let Some(started) = started {
            let ns = started.elapsed().as_nanos() as u64;
            let packets = packets as u64 * u64::from(self.stands_for);
            self.latency.saturating_record_n(ns.max(1), packets);
            self.each = self.each.saturating_sub(1);
            self.stands_for = if self.each == 0 { TIMED } else { 1 };
            self.until_timed = self.stands_for;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Time passes between batches only where a batch is timed.
    #[test]
    fn a_short_run_is_timed_throughout_and_a_long_one_by_samples() {
        let mut meter = Meter::new();
        let mut timed = |batches: u32| {
            let begun = (0..batches).filter(|_| {
                let timed = meter.begin();
                meter.end(timed, 32);
                timed.is_some()
            });
            (begun.count() as u32, meter.latency.len())
        };
        assert_eq!(timed(8), (8, 8 * 32));
        assert_eq!(timed(EACH - 8), (EACH - 8, u64::from(EACH) * 32));
        // Each stands for as many as are not timed: cold caches do not count eight times.
        assert_eq!(timed(80 * TIMED), (80, u64::from(EACH + 80 * TIMED) * 32));
    }
}
