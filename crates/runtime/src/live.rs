//! A run over live ports: no source and no sink, each worker with a queue of its own of every port.
//!
//! ```text
//!  port ─▶ queue ─▶ worker 0 ─ mine ─▶ State ─▶ Egress ─▶ queues of the worker, one a port
//!    │                  │ others'                            ▲
//!    │                  ▼ Parcel (bounded)                    │
//!    └───▶ queue ─▶ worker 1 ──────────────▶ State ─▶ Egress ─┘
//! ```
//!
//! The kernel spreads packets over the queues; where state is sharded a worker hashes what it receives as
//! the plan says and hands over what belongs to others, so that the packets of a flow stay in order:
//! one flow, one queue, one ring, one owner. Time is the system's clock; timers, periods, commands and
//! expiry go on without packets.

mod clock;
mod egress;
mod exchange;
mod handover;
mod mover;
mod request;
mod scaling;
mod tap;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod worker;

pub use request::Request;
pub use tap::{Copied, Copies, Event, Filter, NEVER_COPIED, Unseen};

use std::sync::Arc;
use std::sync::mpsc::{Receiver as Requests, RecvTimeoutError};
use std::time::{Duration, Instant};

use anabranch_io::live::{LivePort, LiveSpec, QueueStatistics, open as open_port};
use anabranch_io::sink::Outputs;
use anabranch_nf::settings::Command as _;
use anabranch_nf::{Line, NetworkFunction, elements};
use anabranch_packet::Port;

use crate::account::Account;
use crate::balance::Balancing;
use crate::cores::Cores;
use crate::keeping::{Begun, Kept, begin};
use crate::report::{LivePortReport, RunReport};
use crate::run::{Arrangement, Options, RunError, read_commands};
use crate::sync::mpsc::{Receiver, channel};
use crate::sync::thread::{Scope, ScopedJoinHandle, scope};
use crate::threads::spawn_all;
use crate::worker::{Done, State};

use clock::LiveClock;
use exchange::{Exchange, Shared};
use mover::Mover;
use request::Orders;
use scaling::Scaling;
use tap::Tap;
use worker::{End, Owners, Worker};

/// Time between two looks at the run.
const LOOK: Duration = Duration::from_millis(50);

/// What whoever watches a live run is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment<'n> {
    /// A port is open: its name, and how packets come to it.
    Opened {
        /// The port.
        port: &'n str,
        /// The interface, and what is done there.
        about: &'n str,
    },
    /// Packets are being handled; how they are divided, in a sentence.
    Started(&'n str),
    /// A line that the NF wrote to its log.
    Logged(&'n Line),
    /// Why the store does not take what changes, from now on; `None`: it takes it again.
    Stored(Option<&'n str>),
    /// So many packets have been handled so far.
    Handled(u64),
    /// The run is over, but the store does not have everything; once, where that takes longer, for what it waits, and
    /// how long at most. Not to go on means to give up what it does not have.
    Ending(Option<&'n str>),
}

/// Runs `N` over live ports, one spec for each port of the run, until `watch`, which is told of the run
/// many times a second, says that it is to end. What comes by `requests` is answered meanwhile.
///
/// # Errors
/// When the run cannot begin: settings, commands, interfaces.
pub fn run<N: NetworkFunction>(
    options: &Options,
    specs: &[LiveSpec],
    requests: &Requests<Request>,
    watch: &mut dyn FnMut(Moment<'_>) -> bool,
) -> Result<RunReport, RunError> {
    let arrangement = Arrangement::of::<N>(options);
    let workers = arrangement.table.workers();
    let mut states = arrangement.states::<N>(&options.making)?;
    let commands = read_commands::<N>(&options.commands)?;
    let mut ports = open_all(specs, workers)?;
    // What NICs are told is put back when this goes, at the end.
    let scaling = Scaling::of_all(specs, &mut ports, options, &arrangement);
    let named = ports.iter().zip(specs).zip(&options.making.ports).zip(&scaling);
    for (((port, spec), name), scaling) in named {
        let about = format!("{spec}, {}{}", port.about, scaling.about());
        watch(Moment::Opened { port: name, about: &about });
    }
    let clock = LiveClock::start();
    let faults_before = elements::faults();
    let mut warnings = Vec::new();
    let keeping = options.store.as_ref().map(|keeping| (keeping, &options.making));
    let beginning = (clock.origin_ns(), &commands[..]);
    let Begun { kept, ahead_ns } =
        begin(keeping, &mut states, &arrangement, beginning, &mut warnings)?;
    let clock = clock.ahead_by(ahead_ns);
    warnings.extend(warning_of(ahead_ns));
    let mut account = Account::new::<N>(&options.making.ports, &options.commands);
    account.report.faults = elements::faults() - faults_before;
    account.warn_of_fewer(workers, options.workers);
    let commanded = !N::Command::schema().is_empty();
    let balancing = arrangement.balancing(&states, options.balancing, commanded);
    let states = states.share(&options.making, workers);
    let planned = scaling.iter().all(Scaling::is_planned);
    let mut about = steering(&arrangement, planned);
    if let Some(why) = balancing.as_ref().err() {
        about += &format!("; shards stay where they are: {why}");
    }
    watch(Moment::Started(&about));
    let balancing = balancing.unwrap_or(Balancing::Still);
    let crew = Crew::new(states, ports, &arrangement, balancing, clock)?;
    account.report.warnings.extend(warnings);
    let (looked, watched) = (Instant::now(), kept.as_ref().map(Watched::new));
    let workplace = Workplace { specs, requests, account, looked, kept: watched };
    let mut report = crew.work(workplace, &arrangement, watch)?;
    if let Some(kept) = kept {
        kept.close(&mut report, &mut |line| watch(Moment::Ending(line)));
    }
    Ok(report)
}

fn open_all(specs: &[LiveSpec], workers: usize) -> Result<Vec<LivePort>, RunError> {
    let open = |(number, spec)| Ok(open_port(spec, Port::new(number as u8), workers)?);
    specs.iter().enumerate().map(open).collect()
}

/// What to know of a clock that is so far ahead of the system's; of less than a second, nothing.
fn warning_of(ahead_ns: u64) -> Option<String> {
    let ahead_s = ahead_ns / 1_000_000_000;
    (ahead_s > 0).then(|| {
        format!(
            "the clock of the run before was {ahead_s} s ahead of the system's: this one's goes on from there; begin \
             as another --instance where that is not meant"
        )
    })
}

/// Who steers, and what that costs.
fn steering(arrangement: &Arrangement, planned: bool) -> String {
    let (workers, why) = (arrangement.table.workers(), &arrangement.why);
    match arrangement.is_sharded() {
        _ if workers == 1 => why.clone(),
        true if planned => {
            format!("{workers} workers, to whom the NICs bring what they own; {why}")
        }
        true => format!(
            "{workers} workers hash what they receive and hand over what others own, about {} in \
             {workers} packets, copied once more; {why}",
            workers - 1
        ),
        false => format!("{workers} workers handle what they receive; {why}"),
    }
}

/// Workers that have not begun.
struct Crew<N: NetworkFunction> {
    workers: Vec<Worker<N>>,
    /// Where each worker has shards.
    mover: Option<Mover>,
    shared: Arc<Shared>,
    orders: Orders<N::Command>,
    log: Receiver<Vec<Line>>,
}

/// Workers at work.
struct AtWork<'s, C> {
    threads: Vec<ScopedJoinHandle<'s, Option<End>>>,
    mover: Option<Mover>,
    shared: Arc<Shared>,
    orders: Orders<C>,
    log: Receiver<Vec<Line>>,
}

impl<N: NetworkFunction> Crew<N> {
    fn new(
        states: Vec<State<N>>,
        ports: Vec<LivePort>,
        arrangement: &Arrangement,
        balancing: Balancing,
        clock: LiveClock,
    ) -> Result<Self, RunError> {
        let fragments_only = !arrangement.is_sharded();
        let mover = Mover::new(&arrangement.table, balancing)
            .filter(|_| !fragments_only && states.len() > 1);
        let shards = if mover.is_some() { arrangement.table.shards() } else { 0 };
        let ends = Exchange::between(states.len(), shards).map_err(RunError::Exchange)?;
        // Where state is shared it matters for fragments alone, whose datagram one worker puts together.
        let gathers = N::LAYER == 4 && states.len() > 1;
        let owners = (!fragments_only || gathers).then(|| Owners {
            steering: Arc::clone(&arrangement.steering),
            table: Arc::clone(&arrangement.table),
            fragments_only,
            counts: mover.is_some(),
        });
        let shared = ends.first().map(|end| Arc::clone(&end.shared));
        let Some(shared) = shared else { unreachable!("there is at least one worker") };
        let is_shared = states.first().is_some_and(|state| !matches!(state, State::Own(_)));
        let (orders, told) = Orders::new(Arc::clone(&shared), is_shared);
        let (tell, log) = channel();
        let mut queues: Vec<_> = ports.into_iter().map(|port| port.queues.into_iter()).collect();
        let workers = states.into_iter().zip(ends).zip(told).map(|((state, exchange), orders)| {
            let opened = queues.iter_mut().filter_map(Iterator::next).collect();
            let (owners, log) = (owners.clone(), tell.clone());
            Worker { state, opened, exchange, owners, clock, log, orders }
        });
        Ok(Self { workers: workers.collect(), mover, shared, orders, log })
    }

    /// Works until `watch` says that the run is to end.
    fn work(
        self,
        mut workplace: Workplace<'_>,
        arrangement: &Arrangement,
        watch: &mut dyn FnMut(Moment<'_>) -> bool,
    ) -> Result<RunReport, RunError> {
        workplace.account.report.strategy = arrangement.strategy.to_owned();
        workplace.account.report.strategy_why.clone_from(&arrangement.why);
        scope(|threads| Ok(workplace.run::<N>(self.start(threads)?, watch)))
    }

    fn start<'s, 'e>(self, threads: &'s Scope<'s, 'e>) -> Result<AtWork<'s, N::Command>, RunError>
    where
        N: 's,
    {
        let cores = Cores::allowed();
        let workers = self.workers.into_iter().enumerate();
        let works = workers.map(|(number, worker)| {
            let cores = cores.clone();
            move || {
                cores.pin(number);
                worker.run()
            }
        });
        let threads = spawn_all(threads, works).map_err(RunError::Threads)?;
        let Self { mover, shared, orders, log, .. } = self;
        Ok(AtWork { threads, mover, shared, orders, log })
    }
}

/// Watches a run, and writes its report.
struct Workplace<'r> {
    specs: &'r [LiveSpec],
    requests: &'r Requests<Request>,
    account: Account,
    /// When it was looked the last time what workers have handled.
    looked: Instant,
    /// The store that keeps the state.
    kept: Option<Watched<'r>>,
}

/// A store, and what was told of it last.
struct Watched<'r> {
    kept: &'r Kept,
    told: bool,
    looked: Instant,
}

impl<'r> Watched<'r> {
    fn new(kept: &'r Kept) -> Self {
        Self { kept, told: false, looked: Instant::now() }
    }

    /// Tells when it begins and ends to be in trouble.
    fn look(&mut self, watch: &mut dyn FnMut(Moment<'_>) -> bool) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let trouble = self.kept.trouble();
        if trouble.is_some() != std::mem::replace(&mut self.told, trouble.is_some()) {
            watch(Moment::Stored(trouble.as_deref()));
        }
    }
}

/// Time between two looks whether the store is in trouble: what is over sooner is not worth a line.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Workplace<'_> {
    fn run<N: NetworkFunction>(
        mut self,
        mut crew: AtWork<'_, N::Command>,
        watch: &mut dyn FnMut(Moment<'_>) -> bool,
    ) -> RunReport {
        let started = Instant::now();
        while !crew.shared.is_stopping() && self.look(&crew, started, watch) {
            let pace = crew.mover.as_ref().map_or(LOOK, Mover::pace);
            match self.requests.recv_timeout(pace) {
                Ok(request) => self.answer::<N>(request, &crew, started),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pace),
            }
            crew.mover.iter_mut().for_each(|mover| mover.look(&crew.shared, &crew.orders));
        }
        crew.shared.stop();
        let joined = std::mem::take(&mut crew.threads).into_iter().map(ScopedJoinHandle::join);
        let ends: Vec<End> = joined
            .filter_map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        self.look(&crew, started, watch);
        self.finish(&crew, ends, started)
    }

    /// The report of workers that ended like this.
    fn finish<C>(&self, crew: &AtWork<'_, C>, ends: Vec<End>, started: Instant) -> RunReport {
        let mut account = self.account.clone();
        note_queues(&mut account.report, self.specs, &ends);
        if let Some(mover) = &crew.mover {
            let moved = ends.iter().map(|end| end.finished.passed.entries).sum();
            account.report.balance = mover.balance(moved);
            account.report.shards = Some(mover.shards(&crew.shared));
        }
        account.finish(ends.into_iter().map(|end| end.finished).collect(), started.elapsed())
    }

    fn answer<N: NetworkFunction>(
        &self,
        request: Request,
        crew: &AtWork<'_, N::Command>,
        started: Instant,
    ) {
        let orders = &crew.orders;
        // Whoever does not wait for the answer has gone.
        match request {
            Request::Report(answer) => {
                let mut report = self.finish(crew, orders.tell(), started);
                self.kept.iter().for_each(|one| one.kept.tell(&mut report));
                let _ = answer.send(report);
            }
            Request::Copy { filter, answer } => {
                let ports = &self.account.report.ports;
                let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
                let filter = Filter::read(&filter, &names, N::REASONS, NEVER_COPIED);
                let _ = answer.send(filter.map(|filter| {
                    let (tap, copies) =
                        Tap::new(filter, names.iter().map(|&name| name.to_owned()).collect());
                    orders.copy(&tap);
                    copies
                }));
            }
            Request::Command { text, answer } => {
                let command = N::Command::read(&text);
                let _ = answer.send(command.and_then(|command| orders.carry_out(&command)));
            }
        }
    }

    /// Tells how far the run is. False: it is to end.
    fn look<C>(
        &mut self,
        crew: &AtWork<'_, C>,
        started: Instant,
        watch: &mut dyn FnMut(Moment<'_>) -> bool,
    ) -> bool {
        let mut lines: Vec<Line> = Vec::new();
        while let Ok(more) = crew.log.try_recv() {
            lines.extend(more);
        }
        for line in &lines {
            watch(Moment::Logged(line));
        }
        self.kept.iter_mut().for_each(|kept| kept.look(watch));
        let handled = crew.shared.handled();
        let packets = handled.saturating_sub(self.account.handled());
        let (outputs, mine) = (Outputs::default(), Vec::new());
        let now = Instant::now();
        let took = std::mem::replace(&mut self.looked, now)..now;
        self.account.done(Done { outputs, mine, packets, sent: 0, lines, took }, started);
        watch(Moment::Handled(handled))
    }
}

/// What queues have counted, by port.
fn note_queues(report: &mut RunReport, specs: &[LiveSpec], ends: &[End]) {
    for (number, (port, spec)) in report.ports.iter_mut().zip(specs).enumerate() {
        let of_port = || ends.iter().filter_map(|end| end.queues.get(number));
        let sum = |count: fn(&QueueStatistics) -> u64| of_port().map(count).sum();
        port.live = Some(LivePortReport {
            interface: spec.to_string(),
            queues: of_port().count(),
            missed: sum(|queue| queue.missed),
            unsent: sum(|queue| queue.unsent),
            segmented: sum(|queue| queue.segmented),
            finished_checksums: sum(|queue| queue.finished_checksums),
            link_downs: sum(|queue| queue.link_downs),
            reopened: sum(|queue| queue.reopened),
        });
    }
}
