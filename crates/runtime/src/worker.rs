//! A worker: one core that runs batches to completion.

use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_io::Chunk;
use anabranch_io::port::{BATCH, MemoryPort, PacketIo, Pool};
use anabranch_io::sink::Outputs;
use anabranch_nf::state::TableUse;
use anabranch_nf::{Line, NetworkFunction};
use anabranch_packet::{Frame, Meta};
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
}

/// A worker's part of a chunk.
pub struct Job {
    /// The packets.
    pub chunk: Chunk,
    /// Which of them are this worker's, by index in the chunk; `None`: all.
    pub mine: Option<Vec<u32>>,
    /// Steering hashes of the chunk's packets, where the source supplied none.
    pub hashes: Option<Arc<Vec<u32>>>,
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

/// What a worker says at the end.
pub struct Finished {
    /// Its counts.
    pub counts: Counts,
    /// Time from a batch's arrival to its release, nanoseconds, per packet.
    pub latency: Histogram<u64>,
    /// Time spent on batches.
    pub busy: Duration,
    /// State objects at the end; of shared state the first worker tells.
    pub tables: Vec<TableUse>,
    /// Log lines that were counted but not kept.
    pub suppressed: u64,
    /// Commands that the NF refused.
    pub refused: Vec<&'static str>,
    /// What `shutdown` emitted.
    pub outputs: Outputs,
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
    pub fn run(mut self, jobs: &Receiver<Job>, done: &SyncSender<(usize, Done)>) -> Finished {
        let mut pool = Pool::new(2 * BATCH, self.longest);
        let mut port = MemoryPort::new(pool.buffers());
        let mut batch = Vec::with_capacity(BATCH);
        let mut meter = Meter::new();
        let mut counts = Counts::new(self.ports);
        let mut last = Meta::default();
        for job in jobs {
            let before = counts.packets();
            let started = Instant::now();
            let mut outputs = job.outputs;
            let hashes =
                job.hashes.as_deref().map(|hashes| (job.chunk.first_number(), &hashes[..]));
            match job.mine {
                Some(mine) => drop(port.assign(job.chunk, mine)),
                None => port.assign_all(job.chunk),
            }
            while port.receive(&mut batch, BATCH) > 0 {
                let timed = meter.begin();
                note(&mut batch, &mut counts, hashes);
                let mut tally = Tally::new(&mut counts, self.keep.then_some(&mut outputs));
                self.state.with(|instance| instance.handle(&mut batch, &mut tally));
                last = batch.last().map_or(last, |frame| *frame.meta());
                meter.end(timed, batch.len());
                port.release(&mut batch);
            }
            meter.busy += started.elapsed();
            let mine = port.clear();
            let packets = counts.packets() - before;
            let lines = self.state.with(|instance| instance.environment().log().take());
            if done.send((self.number, Done { outputs, mine, packets, lines })).is_err() {
                break;
            }
        }
        self.finish(counts, meter, &last)
    }

    fn finish(mut self, mut counts: Counts, meter: Meter, last: &Meta) -> Finished {
        let mut outputs = Outputs::default();
        let speaks = self.number == 0 || matches!(self.state, State::Own(_));
        let mut tally = Tally::new(&mut counts, self.keep.then_some(&mut outputs));
        let (tables, suppressed, refused) = self.state.with(|instance| {
            if !speaks {
                return Default::default();
            }
            instance.shut_down(last, &mut tally);
            let suppressed = instance.environment().log().suppressed();
            (instance.tables(), suppressed, instance.refused_commands())
        });
        let Meter { latency, busy, .. } = meter;
        Finished { counts, latency, busy, tables, suppressed, refused, outputs }
    }
}

/// Counts a batch, and gives it the hashes that the source did not supply.
#[inline(always)]
fn note(batch: &mut [Frame<'_>], counts: &mut Counts, hashes: Option<(u64, &[u32])>) {
    for frame in batch {
        counts.received(frame.meta());
        if let Some((first, hashes)) = hashes {
            let at = (frame.meta().number - first) as usize;
            frame.meta_mut().steering_hash = hashes.get(at).copied().unwrap_or_default();
        }
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
