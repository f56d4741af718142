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
use std::sync::Arc;
use std::time::Instant;

use anabranch_io::Chunk;
use anabranch_io::capture::{CaptureError, WriteError};
use anabranch_io::live::OpenError;
use anabranch_io::sink::{Outputs, Sinks, write_in_order};
use anabranch_io::source::{Input, Progress, Source, SourceError, open};
use anabranch_io::spec::SinkSpec;
use anabranch_nf::elements;
use anabranch_nf::settings::Command as _;
use anabranch_nf::{BuildError, NetworkFunction};
use anabranch_packet::{Meta, Port};
use anabranch_plan::{Plan, Strategy};
use anabranch_rss::IndirectionTable;
use thiserror::Error;

use crate::account::Account;
use crate::balance::{Balancing, Departure};
use crate::clock::Clock;
use crate::cores::Cores;
use crate::deployment::{Deployment, Refusal, strategy_of, why_not_sharded};
use crate::division::Division;
use crate::instance::{Instance, Making};
pub use crate::keeping::Keeping;
use crate::keeping::{Begun, SETS_ONLY, begin};
use crate::lock::Lock;
use crate::report::{BalanceReport, ErrorKind, RunReport};
use crate::steer::{SHARDS, Steering};
use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::sync::thread::{Scope, ScopedJoinHandle, scope};
use crate::threads::{no_thread, spawn_all};
use crate::transactions::Members;
use crate::worker::{
    Finished, Job, LastPacket, Late, Message, Notice, Reassignment, State, Worker,
};

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
    /// How several workers divide the packets; without a plan by flows, all state shared: why there is none.
    pub plan: Result<Plan, String>,
    /// Whether shards move from worker to worker.
    pub balancing: Balancing,
    /// Commands, each at so many nanoseconds after the first packet.
    pub commands: Vec<(u64, String)>,
    /// The store that keeps the state.
    pub store: Option<Keeping>,
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
    /// A live port cannot be opened.
    #[error(transparent)]
    Live(#[from] OpenError),
    /// The store that is to keep the state.
    #[error(transparent)]
    Store(#[from] anabranch_store::Error),
    /// Workers have their own state, but it is not known which shard it belongs to.
    #[error(
        "a store cannot keep state in shards here, {0}: run with --workers 1, and no --strategy"
    )]
    StoreOfParts(String),
    /// What the store has is not divided as this run divides it.
    #[error(
        "the state of `{instance}` in the store is {stored}, and this run's is {here}: {advice}"
    )]
    StoreDivided {
        /// Name of the instance.
        instance: String,
        /// How the stored state is divided.
        stored: String,
        /// How that of the run is.
        here: String,
        /// What to do.
        advice: &'static str,
    },
    /// What the store has was made with other settings than this run's, or at other ports.
    #[error(
        "the state of `{instance}` in the store was made with {what} being {stored}, and here it is {here}: have it \
         as it was, or begin anew as another --instance"
    )]
    StoreMade {
        /// Name of the instance.
        instance: String,
        /// What is different.
        what: String,
        /// What it was.
        stored: String,
        /// What it is.
        here: String,
    },
    /// Workers cannot be given a way to wake each other.
    #[error("no more file descriptors for workers: {0}; `ulimit -n` raises their number")]
    Exchange(std::io::Error),
    /// There is no thread for each worker.
    #[error("{}", no_thread("each worker", .0))]
    Threads(std::io::Error),
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
    let arrangement = Arrangement::of::<N>(options);
    let states = arrangement.states::<N>(&options.making)?;
    run_on(options, arrangement, states, watch)
}

/// Runs on `states`, which are arranged so.
pub(crate) fn run_on<N: NetworkFunction>(
    options: &Options,
    arrangement: Arrangement,
    mut states: States<N>,
    watch: &mut dyn FnMut(Progress, u64),
) -> Result<RunReport, RunError> {
    let workers = arrangement.table.workers();
    let mut source = open(&options.inputs)?;
    let sinks = Sinks::open(&options.outputs)?;
    let first = source.next_chunk();
    let origin = match &first {
        Ok(Some(chunk)) => chunk.meta(0).map_or(0, |meta| meta.arrival_ns),
        _ => 0,
    };
    let commands = read_commands::<N>(&options.commands)?;
    let faults_before = elements::faults();
    let mut warnings = Vec::new();
    let keeping = options.store.as_ref().map(|keeping| (keeping, &options.making));
    let beginning = (origin, &commands[..]);
    let Begun { kept, ahead_ns } =
        begin(keeping, &mut states, &arrangement, beginning, &mut warnings)?;
    let commanded = !options.commands.is_empty();
    let balancing = arrangement.balancing(&states, options.balancing, commanded);
    let states = states.share(&options.making, workers);
    let keep = options.outputs.iter().any(|(_, sink)| *sink != SinkSpec::Null);
    let mut account = Account::new::<N>(&options.making.ports, &options.commands);
    let is_one = workers == 1 && !arrangement.is_sharded();
    account.report.strategy = arrangement.strategy.to_owned();
    account.report.strategy_why = arrangement.why;
    if let Some(why) = balancing.as_ref().err() {
        account.report.strategy_why += &format!("; shards stay where they are: {why}");
    }
    let Arrangement { steering, table, .. } = arrangement;
    let steering = (!is_one).then_some(steering);
    // Load is looked at between chunks: none is longer than a window.
    let balancing = balancing.unwrap_or(Balancing::Still);
    let longest = balancing.window().map(|window| window.saturating_mul(workers as u64) as usize);
    let division = Division::new::<N>(steering, table, source.repeats(), balancing);
    account.report.faults = elements::faults() - faults_before;
    account.warn_of_fewer(workers, options.workers);
    let mut report = scope(|threads| {
        let clock = Clock::ahead_by(ahead_ns);
        let crew = Crew::start(threads, states, (keep, ahead_ns), options.making.ports.len())?;
        let coordinator = Coordinator {
            crew,
            source,
            sinks,
            division,
            clock,
            account,
            keep,
            longest,
            reassignments: 0,
            last: None,
        };
        Ok::<_, RunError>(coordinator.run(first, watch))
    })?;
    report.warnings.extend(warnings);
    if let Some(kept) = kept {
        let say = options.store.as_ref().map(|store| store.say);
        kept.close(&mut report, &mut |line| {
            line.zip(say).into_iter().for_each(|(line, say)| say(&format!("store: {line}")));
            true
        });
    }
    Ok(report)
}

/// How the workers of a run share its packets and its state.
pub(crate) struct Arrangement {
    pub(crate) strategy: &'static str,
    pub(crate) why: String,
    pub(crate) steering: Arc<Steering>,
    pub(crate) table: Arc<IndirectionTable>,
    /// Each worker has state of its own: all of it or, in a `mixed` run, its packet sets.
    pub(crate) deployment: Option<Deployment>,
}

impl Arrangement {
    pub(crate) fn of<N: NetworkFunction>(options: &Options) -> Self {
        let making = &options.making;
        let workers = options.workers.clamp(1, SHARDS);
        if workers == 1 {
            return Self::alone::<N>(options);
        }
        let plan = match &options.plan {
            Ok(plan) => plan,
            Err(why) => return Self::transactional::<N>(Some(why.clone()), workers),
        };
        let Making { settings, ports, .. } = making;
        let undivided = match strategy_of(plan) {
            Strategy::SharedNothing => match Deployment::new::<N>(plan, settings, ports, workers) {
                Ok(deployment) => return Self::shared_nothing(deployment),
                Err(Refusal(why)) => Some(why),
            },
            Strategy::Mixed => match Deployment::mixed::<N>(plan, ports, workers) {
                Ok(deployment) => return Self::mixed(deployment, why_not_sharded(plan)),
                Err(Refusal(why)) => Some(why),
            },
            // It could be divided, and somebody wants it so.
            Strategy::Transactional
                if plan.strategy == Strategy::Transactional && plan.impossible.is_none() =>
            {
                None
            }
            Strategy::Transactional => why_not_sharded(plan),
            Strategy::Lock => {
                let why = why_not_sharded(plan).unwrap_or_default();
                return Self::flows::<N>("lock", format!("one lock around the NF: {why}"), workers);
            }
        };
        Self::transactional::<N>(undivided, workers)
    }

    fn shared_nothing(deployment: Deployment) -> Self {
        Self::deployed("shared-nothing", deployment.explain(), deployment)
    }

    /// `why`: not everything is sharded.
    pub(crate) fn mixed(deployment: Deployment, why: Option<String>) -> Self {
        let (shards, why) = (deployment.steering.shards(), why.unwrap_or_default());
        let why = format!(
            "each worker has the packet sets of its part of {shards} shards; what else is written is \
             shared, and changed in transactions: {why}"
        );
        Self::deployed("mixed", why, deployment)
    }

    /// Packets go where the state is that `deployment` gives to one worker.
    fn deployed(strategy: &'static str, why: String, deployment: Deployment) -> Self {
        let steering = Arc::clone(&deployment.steering);
        let table = Arc::clone(&deployment.table);
        Self { strategy, why, steering, table, deployment: Some(deployment) }
    }

    /// One worker, whose state is divided only where a store keeps it and a plan is given: others may
    /// go on with it then.
    fn alone<N: NetworkFunction>(options: &Options) -> Self {
        let Making { settings, ports, .. } = &options.making;
        let plan = options.plan.as_ref().ok().filter(|_| options.store.is_some());
        let deployed = |plan| Deployment::new::<N>(plan, settings, ports, 1).ok();
        match plan.and_then(deployed) {
            Some(deployment) => Self::shared_nothing(deployment),
            None => Self::flows::<N>("one-worker", "one worker owns all state".to_owned(), 1),
        }
    }

    /// All state shared, and changed in transactions; `undivided`: why it has to be.
    pub(crate) fn transactional<N: NetworkFunction>(
        undivided: Option<String>,
        workers: usize,
    ) -> Self {
        let shared = "all state is shared, and changed in transactions";
        let why = undivided.map_or(shared.to_owned(), |why| format!("{shared}: {why}"));
        Self::flows::<N>("transactional", why, workers)
    }

    /// Packets divided by flows, so that each keeps its order; one state.
    fn flows<N: NetworkFunction>(strategy: &'static str, why: String, workers: usize) -> Self {
        let Ok(table) = IndirectionTable::new(SHARDS, SHARDS, workers) else {
            unreachable!("between 1 and {SHARDS} workers")
        };
        let (steering, table) =
            (Arc::new(Steering::by_flow().gathering(N::LAYER)), Arc::new(table));
        Self { strategy, why, steering, table, deployment: None }
    }

    /// How each worker has state of its own, by a plan.
    pub(crate) fn deployment(&self) -> Option<&Deployment> {
        self.deployment.as_ref()
    }

    /// How a store has the state divided; `None`: it is one owner's.
    pub(crate) fn division(&self) -> Option<String> {
        let keys = self.deployment.as_ref()?.steering.fingerprint();
        Some(match self.strategy {
            "mixed" => format!("{keys}{SETS_ONLY}"),
            _ => keys,
        })
    }

    /// Whether each worker has state of its own, by a plan.
    pub(crate) fn is_sharded(&self) -> bool {
        self.deployment.is_some()
    }

    pub(crate) fn states<N: NetworkFunction>(
        &self,
        making: &Making,
    ) -> Result<States<N>, BuildError> {
        Ok(match &self.deployment {
            Some(deployment) if self.strategy == "mixed" => {
                States::Tracked(Members::divided(making, deployment, false)?)
            }
            Some(deployment) => States::Owned(deployment.instances(making)?),
            None if self.strategy == "transactional" => {
                States::Tracked(Members::new(making, self.table.workers(), false)?)
            }
            None => States::Owned(vec![Instance::new(making)?]),
        })
    }
}

impl Arrangement {
    /// Whether shards move, or why they cannot though they should.
    /// `commanded`: the NF may be told to do something.
    pub(crate) fn balancing<N: NetworkFunction>(
        &self,
        states: &States<N>,
        balancing: Balancing,
        commanded: bool,
    ) -> Result<Balancing, String> {
        let (Some(deployment), States::Owned(instances)) = (self.deployment.as_ref(), states)
        else {
            return Ok(Balancing::Still);
        };
        if balancing == Balancing::Still {
            return Ok(Balancing::Still);
        }
        if let Some(why) = instances.first().and_then(Instance::immovable) {
            return Err(why);
        }
        match deployment.leased().filter(|_| commanded) {
            Some(name) => Err(format!("a command may have `{name}` give out what stands in all")),
            None => Ok(balancing),
        }
    }
}

pub(crate) fn read_commands<N: NetworkFunction>(
    commands: &[(u64, String)],
) -> Result<Vec<(u64, N::Command)>, RunError> {
    let read = |(after_ns, text): &(u64, String)| Ok((*after_ns, N::Command::read(text)?));
    commands.iter().map(read).collect::<Result<_, String>>().map_err(RunError::Command)
}

/// The state of a run, before its workers have it.
pub(crate) enum States<N: NetworkFunction> {
    /// One for each worker, or the one that all share.
    Owned(Vec<Instance<N>>),
    /// What all change in transactions.
    Tracked(Members<N>),
}

impl<N: NetworkFunction> States<N> {
    /// Starts the clock at `origin_ns` and has `commands` carried out, each so long after it.
    pub(crate) fn start(&mut self, origin_ns: u64, commands: &[(u64, N::Command)]) {
        let commands = commands
            .iter()
            .map(|(after_ns, command)| (origin_ns.saturating_add(*after_ns), command.clone()));
        match self {
            Self::Owned(instances) => {
                for instance in instances {
                    instance.start(origin_ns);
                    commands.clone().for_each(|(at_ns, command)| instance.schedule(at_ns, command));
                }
            }
            Self::Tracked(members) => {
                members.start(origin_ns);
                commands.for_each(|(at_ns, command)| members.schedule(at_ns, command));
            }
        }
    }

    /// What each worker gets.
    pub(crate) fn share(self, making: &Making, workers: usize) -> Vec<State<N>> {
        let mut instances = match self {
            Self::Owned(instances) => instances,
            Self::Tracked(members) => {
                let members = members.into_members().into_iter();
                return members.map(|member| State::Tracked(Box::new(member))).collect();
            }
        };
        if instances.len() == workers {
            return instances.into_iter().map(|own| State::Own(Box::new(own))).collect();
        }
        let Some(only) = instances.pop() else { return Vec::new() };
        let accesses = Lock::share(only, making.seed, workers, false);
        accesses.into_iter().map(|access| State::Locked(Box::new(access))).collect()
    }
}

/// The workers' threads.
struct Crew<'s> {
    workers: Vec<Sender<Message>>,
    notices: Receiver<(usize, Notice)>,
    threads: Vec<ScopedJoinHandle<'s, Option<Finished>>>,
}

impl<'s> Crew<'s> {
    fn start<'e, N: NetworkFunction>(
        threads: &'s Scope<'s, 'e>,
        states: Vec<State<N>>,
        (keep, ahead_ns): (bool, u64),
        ports: usize,
    ) -> Result<Self, RunError> {
        let (tell, notices) = channel();
        let cores = Cores::allowed();
        let (workers, inboxes): (Vec<_>, Vec<_>) = states.iter().map(|_| channel()).unzip();
        let works = states.into_iter().zip(inboxes).enumerate().map(|(number, (state, inbox))| {
            // Only who owns shards of its own hands packets over.
            let alone = !matches!(state, State::Own(_)) || workers.len() == 1;
            let peers = if alone { Vec::new() } else { workers.clone() };
            let worker = Worker { state, keep, ahead_ns, longest: LONGEST, number, ports, peers };
            let (cores, tell) = (cores.clone(), tell.clone());
            move || {
                cores.pin(number);
                worker.run(&inbox, &tell)
            }
        });
        let threads = spawn_all(threads, works).map_err(RunError::Threads)?;
        Ok(Self { workers, notices, threads })
    }

    /// Waits for every worker to end and returns what each said. A worker's panic is passed on.
    fn finish(self) -> Vec<Finished> {
        for worker in &self.workers {
            // A worker that is gone has panicked: joining it tells.
            let _ = worker.send(Message::End);
        }
        let joined = self.threads.into_iter().map(ScopedJoinHandle::join);
        joined
            .filter_map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    }
}

/// A chunk under way.
struct Pending {
    /// Number of its first packet.
    first: u64,
    /// What each worker's packets came to, as far as it has said so.
    done: Vec<Option<Outputs>>,
    /// What came of packets that were handed over.
    late: Vec<Outputs>,
    /// Packets handed over, less those of which their new owner has told.
    under_way: i64,
}

impl Pending {
    /// Of which none of `workers` workers has done its part.
    fn new(first: u64, workers: usize) -> Self {
        Self { first, done: (0..workers).map(|_| None).collect(), late: Vec::new(), under_way: 0 }
    }

    fn is_complete(&self) -> bool {
        self.done.iter().all(Option::is_some) && self.under_way == 0
    }

    fn is_missing(&self, worker: usize) -> bool {
        self.done.get(worker).is_some_and(Option::is_none)
    }

    fn settle(&mut self, late: Late) {
        self.under_way += late.sent as i64 - late.settled as i64;
        self.late.push(late.outputs);
    }

    fn into_outputs(self) -> Vec<Outputs> {
        self.done.into_iter().flatten().chain(self.late).collect()
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
    /// Packets that are handed out at once, where that matters.
    longest: Option<usize>,
    /// How often shards have changed hands.
    reassignments: u64,
    /// The last packet so far.
    last: Option<LastPacket>,
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
        let mut goes_on = true;
        loop {
            match next {
                Ok(Some(chunk)) => {
                    goes_on = self.handle(chunk, &mut pending, started);
                    if !goes_on {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.account.report.fail(kind_of(&error), error.to_string());
                    break;
                }
            }
            self.tell(watch);
            next = self.source.next_chunk();
        }
        // What a worker has left that has panicked is waited for in vain.
        while goes_on && !pending.is_empty() {
            goes_on = self.collect(&mut pending, started);
        }
        self.come_to_end(&mut pending, started);
        watch(self.source.progress(), self.account.handled());
        self.finish(started)
    }

    /// Tells how far the run is: of what was read, as much as has been handled.
    fn tell(&self, watch: &mut dyn FnMut(Progress, u64)) {
        let handled = self.account.handled();
        let read = self.last.as_ref().map_or(0, |last| last.meta.number + 1);
        watch(self.source.progress().of_done(handled, read), handled);
    }

    /// Brings all workers to the time of the last packet, which one of them has handled: what is due by then belongs
    /// to the run. All that was handed over has arrived before, unless the run has failed.
    fn come_to_end(&mut self, pending: &mut VecDeque<Pending>, started: Instant) {
        let Some(last) = self.last.take() else { return };
        for worker in &self.crew.workers {
            // A worker that is gone has panicked: joining it will tell.
            let _ = worker.send(Message::Last(last.clone()));
        }
        if pending.is_empty() {
            pending.push_back(Pending::new(last.meta.number + 1, self.crew.workers.len()));
            self.collect(pending, started);
        }
    }

    /// Has a chunk handled, and waits where too much is under way. False: the run must end.
    fn handle(
        &mut self,
        mut chunk: Chunk,
        pending: &mut VecDeque<Pending>,
        started: Instant,
    ) -> bool {
        while !chunk.is_empty() {
            let piece = chunk.take_first(self.longest.unwrap_or(usize::MAX));
            pending.push_back(self.hand_out(&piece));
            if pending.len() >= IN_FLIGHT && !self.collect(pending, started) {
                return false;
            }
        }
        true
    }

    /// Gives each worker its packets of `chunk`.
    fn hand_out(&mut self, chunk: &Chunk) -> Pending {
        let shares = self.division.divide(chunk);
        let times = self.clock.times(chunk);
        if let (Some(first), false) = (chunk.meta(0), shares.moved.is_empty()) {
            let at_ns = times.as_ref().and_then(|times| times.first().copied());
            let first = Meta { arrival_ns: at_ns.unwrap_or(first.arrival_ns), ..first };
            self.reassign(first, shares.moved);
        }
        let mut wholes = shares.wholes.into_iter().flatten();
        for (worker, mine) in self.crew.workers.iter().zip(shares.lists) {
            let (shards, times) = (shares.shards.clone(), times.clone());
            let outputs = Outputs::default();
            // A worker that is gone has panicked: joining it will tell.
            let wholes = wholes.next();
            let job = Job { chunk: chunk.clone(), mine, shards, times, wholes, outputs };
            let _ = worker.send(Message::Job(job));
        }
        self.last = LastPacket::of(chunk, times.as_deref().map(Vec::as_slice));
        Pending::new(chunk.first_number(), self.crew.workers.len())
    }

    /// Has shards change hands before the packet `first`.
    fn reassign(&mut self, first: Meta, departures: Vec<Departure>) {
        self.reassignments += 1;
        let (epoch, table) = (self.reassignments, Arc::clone(self.division.table()));
        let step = Reassignment { epoch, table, departures: departures.into(), first };
        for worker in &self.crew.workers {
            // A worker that is gone has panicked: joining it will tell.
            let _ = worker.send(Message::Reassignment(step.clone()));
        }
    }

    /// Waits for the oldest chunk under way and writes its outputs. False: the run must end.
    fn collect(&mut self, pending: &mut VecDeque<Pending>, started: Instant) -> bool {
        while pending.front().is_some_and(|chunk| !chunk.is_complete()) {
            match self.crew.notices.recv() {
                Ok((worker, Notice::Done(done))) => {
                    let sent = done.sent as i64;
                    let outputs = self.account.done(done, started);
                    // A worker does its jobs in order: this is its oldest one that is missing.
                    let of_worker = pending.iter_mut().find(|chunk| chunk.is_missing(worker));
                    if let Some(chunk) = of_worker {
                        chunk.under_way += sent;
                        chunk.done[worker] = Some(outputs);
                    }
                }
                Ok((_, Notice::Late(late))) => {
                    let of_chunk = pending.iter_mut().find(|chunk| chunk.first == late.chunk);
                    if let Some(chunk) = of_chunk {
                        chunk.settle(late);
                    }
                }
                // A worker that has panicked will not do its part: joining it passes the panic on.
                Ok((_, Notice::Panicked)) | Err(_) => return false,
            }
        }
        self.write(&mut pending.pop_front().map(Pending::into_outputs).unwrap_or_default())
    }

    fn write(&mut self, outputs: &mut [Outputs]) -> bool {
        if !self.keep {
            return true;
        }
        if self.account.has_failed(ErrorKind::Output) {
            return false;
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
        if let (Some(first), Some(counts)) = (ends.first_mut(), self.division.end()) {
            first.counts.add(&counts);
        }
        let mut outputs: Vec<Outputs> =
            ends.iter_mut().map(|end| std::mem::take(&mut end.outputs)).collect();
        if !self.account.has_failed(ErrorKind::Output) {
            let written = write_in_order(&mut outputs, &mut self.sinks);
            if let Err(error) = written.and_then(|()| self.sinks.finish()) {
                self.account.report.fail(ErrorKind::Output, error.to_string());
            }
        }
        self.account.report.balance = self.division.balance().map(|balance| {
            let entries_moved = ends.iter().map(|end| end.passed.entries).sum();
            BalanceReport { entries_moved, ..balance }
        });
        self.account.report.shards = self.division.shards();
        self.account.finish(ends, elapsed)
    }
}
