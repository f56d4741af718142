//! A worker: one core that runs batches to completion.

use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_io::Chunk;
use anabranch_io::port::{BATCH, MemoryPort, PacketIo, Pool};
use anabranch_io::sink::Outputs;
use anabranch_nf::elements;
use anabranch_nf::state::TableUse;
use anabranch_nf::{Line, NetworkFunction};
use anabranch_packet::Frame;
use hdrhistogram::Histogram;

use crate::instance::Instance;
use crate::tally::{Counts, Tally};

/// One batch in so many is timed.
const TIMED: u32 = 8;

/// The state a worker runs on: its own shards, or all state behind one lock.
pub enum State<N: NetworkFunction> {
    /// Shards that nobody else touches.
    Own(Box<Instance<N>>),
    /// Everything, shared with the other workers.
    Shared(Arc<Mutex<Instance<N>>>),
}

impl<N: NetworkFunction> State<N> {
    #[inline(always)]
    fn with<R>(&mut self, act: impl FnOnce(&mut Instance<N>) -> R) -> R {
        match self {
            Self::Own(instance) => act(instance),
            // A worker that panicked is reported when it is joined; the others finish their part.
            Self::Shared(lock) => act(&mut lock.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// The instance, when nobody else works on it any more.
    fn into_last(self) -> Option<Instance<N>> {
        match self {
            Self::Own(instance) => Some(*instance),
            Self::Shared(lock) => Arc::into_inner(lock)?
                .into_inner()
                .map_or_else(|held| Some(held.into_inner()), Some),
        }
    }
}

/// A worker's part of a chunk.
pub struct Job {
    /// The packets.
    pub chunk: Chunk,
    /// Which of them are this worker's, by index in the chunk; `None`: all.
    pub mine: Option<Vec<u32>>,
    /// Steering hashes of the chunk's packets, where the source supplied none.
    pub hashes: Option<Arc<Vec<u32>>>,
    /// Times at which the chunk's packets are handled, where they do not follow from their arrival.
    pub times: Option<Arc<Vec<u64>>>,
    /// Where outputs are to be collected; given back in [`Done`].
    pub outputs: Outputs,
}

/// A job that is done.
pub struct Done {
    /// What left, if it is kept.
    pub outputs: Outputs,
    /// The list of the job, for reuse.
    pub mine: Vec<u32>,
    /// Packets handled in this job.
    pub packets: u64,
    /// Lines that the NF logged.
    pub lines: Vec<Line>,
}

/// What a worker says on the way.
pub enum Notice {
    /// It has done its oldest job.
    Done(Done),
    /// It is panicking and will do no job any more.
    Panicked,
}

/// Says so when its worker panics: the others keep the channel open, so that silence would be waited
/// for without end.
struct Alarm<'c>(&'c SyncSender<(usize, Notice)>, usize);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Where there is no room, somebody who listens has gone before us.
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
    /// Commands that the NF refused.
    pub refused: Vec<&'static str>,
    /// Commands that were due after the last packet, and were not carried out.
    pub unheeded: usize,
}

/// One worker of a run.
pub struct Worker<N: NetworkFunction> {
    /// Its state.
    pub state: State<N>,
    /// Whether some port has a capture.
    pub keep: bool,
    /// Longest packet that a chunk may hold, in bytes.
    pub longest: usize,
    /// Its number.
    pub number: usize,
    /// Ports of the run.
    pub ports: usize,
}

impl<N: NetworkFunction> Worker<N> {
    /// Runs jobs until there are no more.
    pub fn run(mut self, jobs: &Receiver<Job>, tell: &SyncSender<(usize, Notice)>) -> Finished {
        let _alarm = Alarm(tell, self.number);
        let mut pool = Pool::new(2 * BATCH, self.longest);
        let mut port = MemoryPort::new(pool.buffers());
        let mut batch = Vec::with_capacity(BATCH);
        let mut meter = Meter::new();
        let mut counts = Counts::new(self.ports);
        for job in jobs {
            let before = counts.packets();
            let started = Instant::now();
            let mut outputs = job.outputs;
            let first = job.chunk.first_number();
            let hashes = job.hashes.as_deref().map(|hashes| (first, &hashes[..]));
            let arrivals = job.times.as_ref().map(|_| job.chunk.clone());
            match job.mine {
                Some(mine) => drop(port.assign(job.chunk, mine)),
                None => port.assign_all(job.chunk),
            }
            while port.receive(&mut batch, BATCH) > 0 {
                let timed = meter.begin();
                note(&mut batch, &mut counts, hashes);
                if let Some(times) = &job.times {
                    set_times(&mut batch, first, times);
                }
                let mut tally = Tally::new(&mut counts, self.keep.then_some(&mut outputs));
                tally.arrivals = arrivals.as_ref();
                self.state.with(|instance| instance.handle(&mut batch, &mut tally));
                meter.end(timed, batch.len());
                port.release(&mut batch);
            }
            meter.busy += started.elapsed();
            drop(arrivals);
            let mine = port.clear();
            let packets = counts.packets() - before;
            let lines = self.state.with(|instance| instance.environment().log().take());
            let done = Done { outputs, mine, packets, lines };
            if tell.send((self.number, Notice::Done(done))).is_err() {
                break;
            }
        }
        self.finish(counts, meter)
    }

    fn finish(self, mut counts: Counts, meter: Meter) -> Finished {
        let mut outputs = Outputs::default();
        let mut tally = Tally::new(&mut counts, self.keep.then_some(&mut outputs));
        let end = self.state.into_last().map(|instance| InstanceEnd::of(instance, &mut tally));
        let Meter { latency, busy, .. } = meter;
        let faults = elements::faults();
        Finished { counts, latency, busy, instance: end.unwrap_or_default(), faults, outputs }
    }
}

impl InstanceEnd {
    fn of<N: NetworkFunction>(mut instance: Instance<N>, tally: &mut Tally<'_>) -> Self {
        instance.shut_down(tally);
        Self {
            tables: instance.tables(),
            counters: instance.counters(),
            suppressed: instance.environment().log().suppressed(),
            lines: instance.environment().log().take(),
            refused: instance.refused_commands(),
            unheeded: instance.commands_left(),
        }
    }
}

/// Counts a batch, and gives it the hashes that the source did not supply.
#[inline(always)]
fn note(batch: &mut [Frame<'_>], counts: &mut Counts, hashes: Option<(u64, &[u32])>) {
    counts.received(batch);
    if let Some((first, hashes)) = hashes {
        for frame in batch {
            let at = (frame.meta().number - first) as usize;
            frame.meta_mut().steering_hash = hashes.get(at).copied().unwrap_or_default();
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
struct Meter {
    latency: Histogram<u64>,
    busy: Duration,
    until_timed: u32,
}

impl Meter {
    fn new() -> Self {
        let bounds = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        let Ok(latency) = bounds else { unreachable!("the bounds are constant and valid") };
        Self { latency, busy: Duration::ZERO, until_timed: 1 }
    }

    #[inline(always)]
    fn begin(&mut self) -> Option<Instant> {
        self.until_timed -= 1;
        (self.until_timed == 0).then(|| {
            self.until_timed = TIMED;
            Instant::now()
        })
    }

    #[inline(always)]
    fn end(&mut self, started: Option<Instant>, packets: usize) {
        if let Some(started) = started {
            let ns = started.elapsed().as_nanos() as u64;
            self.latency.saturating_record_n(ns.max(1), packets as u64);
        }
    }
}
