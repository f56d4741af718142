//! A run: sources, workers, sinks, and the report at the end.
//!
//! ```text
//! source ──chunk──▶ steer ──jobs──▶ worker 0 … n ──outputs──▶ merge by packet number ──▶ sinks
//! ```
//!
//! The coordinator reads chunks, hashes their packets as a NIC would, and gives each worker the
//! packets of its shards. Workers keep a few chunks in flight; outputs of a chunk are merged in the
//! order of its packets, so that one and many workers write the same files.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Scope, ScopedJoinHandle, scope};
use std::time::Instant;

use anabranch_io::Chunk;
use anabranch_io::capture::{CaptureError, WriteError};
use anabranch_io::sink::{Outputs, Sinks, write_in_order};
use anabranch_io::source::{Input, Progress, Source, SourceError, open};
use anabranch_io::spec::SinkSpec;
use anabranch_nf::elements;
use anabranch_nf::settings::Command as _;
use anabranch_nf::{BuildError, NetworkFunction, Sharing};
use anabranch_packet::Port;
use thiserror::Error;

use crate::account::Account;
use crate::clock::Clock;
use crate::division::Division;
use crate::instance::{Instance, Making, SHARDS};
use crate::report::{ErrorKind, RunReport};
use crate::worker::{Finished, Job, Notice, State, Worker};

/// Chunks in flight per worker.
const IN_FLIGHT: usize = 3;
/// Longest packet of any capture, in bytes; buffers are made for it, pages for what is touched.
const LONGEST: usize = 1 << 18;

/// What to run.
pub struct Options {
    /// Settings, ports, seed.
    pub making: Making,
    /// Where packets come from.
    pub inputs: Vec<Input>,
    /// Where they go; packets of ports without a sink are counted.
    pub outputs: Vec<(Option<Port>, SinkSpec)>,
    /// Number of workers.
    pub workers: usize,
    /// Commands, each at so many nanoseconds after the first packet.
    pub commands: Vec<(u64, String)>,
}

/// Why a run could not begin.
#[derive(Debug, Error)]
pub enum RunError {
    /// The settings, or the sizes they ask for, are wrong.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A command is none of the NF's.
    #[error("{0}")]
    Command(String),
    /// An input cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An output cannot be created.
    #[error(transparent)]
    Sink(#[from] WriteError),
}

/// The kind of failure that `error` is in a report.
pub fn kind_of(error: &SourceError) -> ErrorKind {
    match error {
        SourceError::Capture(CaptureError::UnsupportedLinkType { .. }) => ErrorKind::LinkType,
        _ => ErrorKind::Input,
    }
}

/// Runs `N` and reports. `watch` is told now and then how far the run is and how many packets have
/// been handled.
///
/// # Errors
/// When the run cannot begin. What goes wrong later stands in the report, whose figures are those
/// of what was read until then.
pub fn run<N: NetworkFunction>(
    options: &Options,
    watch: &mut dyn FnMut(Progress, u64),
) -> Result<RunReport, RunError> {
    let workers = options.workers.clamp(1, SHARDS);
    let shared = matches!(N::SHARING, Sharing::Aggregate { .. });
    let mut instances = instances::<N>(options, if shared { 1 } else { workers })?;
    let mut source = open(&options.inputs)?;
    let sinks = Sinks::open(&options.outputs)?;
    let first = source.next_chunk();
    let origin = match &first {
        Ok(Some(chunk)) => chunk.meta(0).map_or(0, |meta| meta.arrival_ns),
        _ => 0,
    };
    let commands = read_commands::<N>(&options.commands)?;
    let faults_before = elements::faults();
    for instance in &mut instances {
        instance.start(origin);
        for (after_ns, command) in &commands {
            instance.schedule(origin.saturating_add(*after_ns), command.clone());
        }
    }
    let states = states(instances, workers);
    let keep = options.outputs.iter().any(|(_, sink)| *sink != SinkSpec::Null);
    let division = Division::new::<N>(workers, source.repeats());
    let mut account = Account::new::<N>(&options.making.ports, workers);
    account.report.faults = elements::faults() - faults_before;
    if workers < options.workers {
        let asked = options.workers;
        account.warn(format!(
            "{asked} workers were asked for; state has {SHARDS} shards, so that {workers} run"
        ));
    }
    Ok(scope(|threads| {
        let crew = Crew::start(threads, states, keep, options.making.ports.len());
        Coordinator { crew, source, sinks, division, clock: Clock::default(), account, keep }
            .run(first, watch)
    }))
}

fn instances<N: NetworkFunction>(
    options: &Options,
    count: usize,
) -> Result<Vec<Instance<N>>, BuildError> {
    (0..count).map(|_| Instance::new(&options.making)).collect()
}

fn read_commands<N: NetworkFunction>(
    commands: &[(u64, String)],
) -> Result<Vec<(u64, N::Command)>, RunError> {
    let read = |(after_ns, text): &(u64, String)| Ok((*after_ns, N::Command::read(text)?));
    commands.iter().map(read).collect::<Result<_, String>>().map_err(RunError::Command)
}

/// One state per worker: its own, or the one that all share.
fn states<N: NetworkFunction>(instances: Vec<Instance<N>>, workers: usize) -> Vec<State<N>> {
    let mut instances: Vec<_> = instances.into_iter().map(Box::new).collect();
    if instances.len() == workers {
        return instances.into_iter().map(State::Own).collect();
    }
    let Some(only) = instances.pop() else { return Vec::new() };
    let lock = Arc::new(Mutex::new(*only));
    (0..workers).map(|_| State::Shared(Arc::clone(&lock))).collect()
}

/// The workers' threads.
struct Crew<'s> {
    jobs: Vec<SyncSender<Job>>,
    notices: Receiver<(usize, Notice)>,
    threads: Vec<ScopedJoinHandle<'s, Finished>>,
}

impl<'s> Crew<'s> {
    fn start<'e, N: NetworkFunction>(
        threads: &'s Scope<'s, 'e>,
        states: Vec<State<N>>,
        keep: bool,
        ports: usize,
    ) -> Self {
        // Room for every notice that can be under way, so that no worker ever waits for us.
        let (tell, notices) = sync_channel(2 * IN_FLIGHT * states.len());
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let mut crew = Self { jobs: Vec::new(), notices, threads: Vec::new() };
        for (number, state) in states.into_iter().enumerate() {
            let (send, jobs) = sync_channel(IN_FLIGHT);
            let worker = Worker { state, keep, longest: LONGEST, number, ports };
            let (core, tell) = (cores.get(number).copied(), tell.clone());
            crew.jobs.push(send);
            crew.threads.push(threads.spawn(move || {
                if let Some(core) = core {
                    core_affinity::set_for_current(core);
                }
                worker.run(&jobs, &tell)
            }));
        }
        crew
    }

    /// Waits for every worker to end and returns what each said. A worker's panic is passed on.
    fn finish(self) -> Vec<Finished> {
        drop(self.jobs);
        let joined = self.threads.into_iter().map(ScopedJoinHandle::join);
        joined.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    }
}

/// A chunk under way: the outputs that have come back.
struct Pending(Vec<Option<Outputs>>);

impl Pending {
    fn is_complete(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    fn is_missing(&self, worker: usize) -> bool {
        self.0.get(worker).is_some_and(Option::is_none)
    }
}

struct Coordinator<'s> {
    crew: Crew<'s>,
    source: Box<dyn Source>,
    sinks: Sinks,
    division: Division,
    clock: Clock,
    account: Account,
    keep: bool,
}

impl Coordinator<'_> {
    fn run(
        mut self,
        first: Result<Option<Chunk>, SourceError>,
        watch: &mut dyn FnMut(Progress, u64),
    ) -> RunReport {
        let started = Instant::now();
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut next = first;
        loop {
            match next {
                Ok(Some(chunk)) => pending.push_back(self.hand_out(&chunk)),
                Ok(None) => break,
                Err(error) => {
                    self.account.report.fail(kind_of(&error), error.to_string());
                    break;
                }
            }
            if pending.len() >= IN_FLIGHT && !self.collect(&mut pending, started) {
                break;
            }
            watch(self.source.progress(), self.account.handled());
            next = self.source.next_chunk();
        }
        while !pending.is_empty() && self.collect(&mut pending, started) {}
        watch(self.source.progress(), self.account.handled());
        self.finish(started)
    }

    /// Gives each worker its packets of `chunk`.
    fn hand_out(&mut self, chunk: &Chunk) -> Pending {
        let shares = self.division.divide(chunk);
        let times = self.clock.times(chunk);
        for (jobs, mine) in self.crew.jobs.iter().zip(shares.lists) {
            let (hashes, times) = (shares.hashes.clone(), times.clone());
            let outputs = Outputs::default();
            // A worker that is gone has panicked: joining it will tell.
            let _ = jobs.send(Job { chunk: chunk.clone(), mine, hashes, times, outputs });
        }
        Pending(self.crew.jobs.iter().map(|_| None).collect())
    }

    /// Waits for the oldest chunk under way and writes its outputs. False: the run must end.
    fn collect(&mut self, pending: &mut VecDeque<Pending>, started: Instant) -> bool {
        while pending.front().is_some_and(|chunk| !chunk.is_complete()) {
            // A worker that has panicked will not do its part: joining it passes the panic on.
            let Ok((worker, Notice::Done(done))) = self.crew.notices.recv() else { return false };
            let outputs = self.account.done(done, started.elapsed());
            // A worker does its jobs in order: this is its oldest one that is missing.
            let of_worker = pending.iter_mut().find(|chunk| chunk.is_missing(worker));
            if let Some(Pending(chunks)) = of_worker {
                chunks[worker] = Some(outputs);
            }
        }
        let oldest = pending.pop_front().map(|Pending(outputs)| outputs).unwrap_or_default();
        self.write(&mut oldest.into_iter().flatten().collect::<Vec<_>>())
    }

    fn write(&mut self, outputs: &mut [Outputs]) -> bool {
        if !self.keep {
            return true;
        }
        match write_in_order(outputs, &mut self.sinks) {
            Ok(()) => true,
            Err(error) => {
                self.account.report.fail(ErrorKind::Output, error.to_string());
                false
            }
        }
    }

    /// Ends the workers, writes what they sent at shutdown, and gives the captures their names.
    fn finish(mut self, started: Instant) -> RunReport {
        let mut ends = self.crew.finish();
        let elapsed = started.elapsed();
        let mut outputs: Vec<Outputs> =
            ends.iter_mut().map(|end| std::mem::take(&mut end.outputs)).collect();
        if !self.account.has_failed(ErrorKind::Output) {
            let written = write_in_order(&mut outputs, &mut self.sinks);
            if let Err(error) = written.and_then(|()| self.sinks.finish()) {
                self.account.report.fail(ErrorKind::Output, error.to_string());
            }
        }
        self.account.finish(ends, elapsed)
    }
}
