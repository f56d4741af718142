//! `run`: one network function over its inputs, and what it says at the end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_io::live::LiveSpec;
use anabranch_io::source::{Input, Progress as Done};
use anabranch_io::spec::{PortBinding, SinkSpec, SourceSpec, SpecError};
use anabranch_nf::NetworkFunction;
use anabranch_nf::packet::Port;
use anabranch_nf::settings::nearest;
use anabranch_plan::Plan;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{self as runtime, Keeping, Options, RunError};

use crate::arguments::RunArguments;
use crate::error::Error;
use crate::file::{Files, check_writable, deliver, is_standard_output, print, tell};
use crate::library::Library;
use crate::live::Openings;
use crate::progress::Progress;
use crate::settings::{Control, configuration, control, settings_from};
use crate::store::keeping;
use crate::{html, live, plan, summary};

/// Ports a run can have: their numbers are bytes.
const MOST_PORTS: usize = 256;

/// What is to be run: the command line, understood.
pub struct Order {
    /// What each port receives.
    pub inputs: Vec<PortBinding<SourceSpec>>,
    /// Where what leaves each port goes.
    pub outputs: Vec<PortBinding<SinkSpec>>,
    /// The interface that each port is, in a run over live ports.
    pub ports: Vec<PortBinding<LiveSpec>>,
    /// Where a run over live ports is seen and commanded from.
    pub(crate) openings: Openings,
    /// How long a run over live ports takes; `None`: until it is interrupted.
    pub duration: Option<Duration>,
    /// The settings, not yet checked against the NF's.
    pub settings: toml::Table,
    /// Where they are from, as messages about them begin.
    pub(crate) settings_from: Option<String>,
    /// Commands for the NF.
    pub controls: Vec<Control>,
    /// Number of workers.
    pub workers: usize,
    /// A plan that several workers are to follow; `None`: one is made.
    pub plan: Option<PathBuf>,
    /// What the plan is to be like.
    pub(crate) planning: anabranch_plan::Options,
    /// Whether shards move away from workers that have more to do than others.
    pub balance: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// The store that keeps the state.
    pub store: Option<Keeping>,
    /// Shows how far the run is.
    pub(crate) progress: Progress,
}

/// Runs what the command line says and delivers the report.
///
/// # Errors
/// What kept the run from beginning, else the first failure in the report: by then the report has
/// been delivered and the outputs hold what came of all that was read.
pub(crate) fn run(library: &Library, arguments: &RunArguments) -> Result<(), Error> {
    let entry = library.find(&arguments.nf)?;
    let order = order(arguments, entry.description().ports)?;
    check_files(&order, arguments)?;
    for path in [&arguments.json, &arguments.report].into_iter().flatten() {
        if !is_standard_output(path) {
            check_writable(path)?;
        }
    }
    let report = entry.run(order)?;
    deliver_all(&report, arguments)?;
    match report.errors.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(Error::of_run(first.kind, first.message)),
    }
}

fn order(arguments: &RunArguments, ports: &[&str]) -> Result<Order, Error> {
    if arguments.inputs.is_empty() && arguments.ports.is_empty() {
        let (nf, port) = (&arguments.nf, ports.first().unwrap_or(&"p0"));
        return Err(Error::Usage(format!(
            "nothing to read: give --in PORT=SOURCE, as in `run {nf} --in {port}={port}.pcap`, or an \
             interface for each port, as in `--port {port}=afpacket:eth1`"
        )));
    }
    if arguments.seconds.is_some() && arguments.ports.is_empty() {
        let instead = "a capture is repeated for a time by `mem:FILE?for=10s`";
        return Err(Error::Usage(format!("--for is for runs over interfaces (--port): {instead}")));
    }
    let watched =
        [("--listen", arguments.listen.is_some()), ("--metrics", arguments.metrics.is_some())];
    if arguments.ports.is_empty()
        && let Some((option, _)) = watched.into_iter().find(|(_, is_given)| *is_given)
    {
        return Err(Error::Usage(format!(
            "{option} is for runs over interfaces (--port): a run over captures has its report at the end"
        )));
    }
    let (settings, section) = configuration(arguments.config.as_deref(), &arguments.settings)?;
    let outputs = arguments.outputs.iter().map(|text| text.parse().map_err(binding("--out", text)));
    let ports = arguments.ports.iter().map(|text| text.parse().map_err(binding("--port", text)));
    Ok(Order {
        ports: ports.collect::<Result<_, _>>()?,
        openings: Openings { socket: arguments.listen.clone(), metrics: arguments.metrics },
        duration: arguments.seconds.map(|seconds| seconds.0),
        inputs: sources(&arguments.inputs)?,
        outputs: outputs.collect::<Result<_, _>>()?,
        settings,
        settings_from: settings_from(arguments.config.as_deref(), &arguments.settings),
        controls: arguments.control.iter().map(|text| control(text)).collect::<Result<_, _>>()?,
        workers: arguments.workers.count(),
        plan: arguments.plan.clone(),
        planning: plan::options(&arguments.planning)?,
        balance: !arguments.no_balance,
        seed: arguments.seed,
        store: keeping(&arguments.keeping, section)?,
        progress: Progress::of_run(&arguments.nf),
    })
}

/// No file may be read and written, or be two documents, and the packets of a port go to one.
fn check_files(order: &Order, arguments: &RunArguments) -> Result<(), Error> {
    let mut files = Files::default();
    files.reads_document("--config", arguments.config.as_deref());
    files.reads_document("--plan", arguments.plan.as_deref());
    name_inputs(&mut files, &arguments.inputs, &order.inputs);
    let to_one = "the packets of a port go to one file";
    once_a_port("--out", to_one, &arguments.outputs, &order.outputs)?;
    for (text, output) in arguments.outputs.iter().zip(&order.outputs) {
        if let SinkSpec::Capture(file) = &output.spec {
            // Two ports may share a capture.
            files.writes(format!("--out {text}"), file, |other| other.starts_with("--out"))?;
        }
    }
    files.document("--json", arguments.json.as_deref())?;
    files.document("--report", arguments.report.as_deref())?;
    match &arguments.listen {
        Some(path) => files.writes(format!("--listen {}", path.display()), path, |_| false),
        None => Ok(()),
    }
}

/// That no two bindings are of one port.
fn once_a_port<S>(
    option: &str,
    why: &str,
    texts: &[String],
    bindings: &[PortBinding<S>],
) -> Result<(), Error> {
    for (at, (text, one)) in texts.iter().zip(bindings).enumerate() {
        if let Some(before) = bindings[..at].iter().position(|before| before.port == one.port) {
            let before = &texts[before];
            return Err(Error::Usage(format!("{option} {text}: {why}, here `{option} {before}`")));
        }
    }
    Ok(())
}

/// The sources of `--in`, one for each port.
///
/// # Errors
/// [`Error::Usage`] for one that cannot be understood, and for two of one port.
pub(crate) fn sources(texts: &[String]) -> Result<Vec<PortBinding<SourceSpec>>, Error> {
    let sources = texts.iter().map(|text| text.parse().map_err(binding("--in", text)));
    let sources: Vec<PortBinding<SourceSpec>> = sources.collect::<Result<_, _>>()?;
    let lacks_port = |one: &PortBinding<SourceSpec>| {
        one.port.is_none() && !matches!(one.spec, SourceSpec::Traffic(_))
    };
    if sources.len() > 1
        && let Some(at) = sources.iter().position(lacks_port)
    {
        let text = &texts[at];
        return Err(Error::Usage(format!(
            "--in {text}: of several captures each names its port, as in `--in lan={text}`"
        )));
    }
    once_a_port("--in", "a port receives from one source", texts, &sources)?;
    Ok(sources)
}

/// What `--in` reads.
pub(crate) fn name_inputs(files: &mut Files, texts: &[String], inputs: &[PortBinding<SourceSpec>]) {
    for (text, input) in texts.iter().zip(inputs) {
        if let SourceSpec::Capture(file) | SourceSpec::Memory { file, .. } = &input.spec {
            files.reads(format!("--in {text}"), file);
        }
    }
}

pub(crate) fn binding<'a>(option: &'a str, text: &'a str) -> impl FnOnce(SpecError) -> Error + 'a {
    move |cause| Error::Usage(format!("{option} {text}: {}", of_spec(&cause)))
}

/// Why a source or a sink cannot be understood; of an option that does not exist, which was probably meant.
pub(crate) fn of_spec(cause: &SpecError) -> String {
    let meant = match cause {
        SpecError::UnknownOption { option, known } => {
            // Each as it is written: `loop=N`.
            let names = known.split(", ").filter_map(|one| one.split('=').next());
            nearest(option, names)
        }
        _ => None,
    };
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
    format!("{cause}{meant}")
}

/// JSON and HTML where they were asked for; the table on standard output, unless a document goes there.
fn deliver_all(report: &RunReport, arguments: &RunArguments) -> Result<(), Error> {
    // A live run has printed it as it came.
    for line in report.log.iter().filter(|_| arguments.ports.is_empty()) {
        tell(&format!("{} (line {}): {}", line.level, line.source_line, line.text));
    }
    // Files first: they are there although standard output is full, or its terminal has gone.
    if let Some(path) = &arguments.report {
        deliver(path, &html::render(report, &this_command()))?;
    }
    if let Some(path) = &arguments.json {
        deliver(path, &to_json(report)?)?;
    }
    let mut documents = [&arguments.json, &arguments.report].into_iter().flatten();
    match documents.any(|path| is_standard_output(path)) {
        true => Ok(()),
        false => print(&summary::render(report)),
    }
}

/// The command that this process runs, as pages quote it.
pub(crate) fn this_command() -> String {
    command_line(std::env::args_os())
}

/// A command as it can be typed again, without the passwords of stores.
fn command_line(words: impl Iterator<Item = OsString>) -> String {
    let plain = |at: char| at.is_ascii_alphanumeric() || "-_./:=,@%+?&".contains(at);
    let quoted = |word: OsString| match without_password(&word.to_string_lossy()) {
        word if !word.is_empty() && word.chars().all(plain) => word,
        word => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// The address of a store without user and password; any other word as it is.
pub(crate) fn without_password(word: &str) -> String {
    match (word.split_once("://"), word.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => word.to_owned(),
    }
}

/// A document as JSON, with the newline at its end.
///
/// # Errors
/// [`Error::Internal`]: every document of ours can be written as JSON.
pub(crate) fn to_json(document: &impl serde::Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(document);
    let text = text.map_err(|cause| Error::Internal(format!("no JSON: {cause}")))?;
    Ok(text + "\n")
}

/// Runs `F` as ordered.
///
/// # Errors
/// When the run cannot begin.
pub(crate) fn execute<F: NetworkFunction>(order: Order) -> Result<RunReport, Error> {
    let plan = plan_for::<F>(&order)?;
    let live = live::specs(&order.ports, &PortNames::new(F::PORTS, &order))?;
    let mut options = options::<F>(&order, plan)?;
    let Making { settings, ports, .. } = &mut options.making;
    live::mtu::fit(settings, &live, ports, LiveSpec::mtu)?;
    let (mut progress, from) = (order.progress, order.settings_from);
    let report = if live.is_empty() {
        let mut watch = |done: Done, packets| progress.update(packets, done.fraction());
        let report = runtime::run::<F>(&options, &mut watch);
        progress.finish();
        report
    } else {
        live::run::<F>(&options, &live, &order.openings, order.duration, progress)?
    };
    report.map_err(cannot_begin(from.as_deref()))
}

/// What the runtime is told of an order.
///
/// # Errors
/// [`Error::Usage`]: it names a port that there is not.
pub(crate) fn options<F: NetworkFunction>(
    order: &Order,
    plan: Result<Plan, String>,
) -> Result<Options, Error> {
    let ports = PortNames::new(F::PORTS, order);
    let (seed, settings) = (order.seed, order.settings.clone());
    let commands = order.controls.iter().map(|one| (one.at_ns, one.command.clone()));
    Ok(Options {
        plan,
        inputs: bound(&order.inputs, |port, spec| Ok(Input { port: ports.find(port)?, spec }))?,
        outputs: bound(&order.outputs, |port, spec| Ok((ports.find(port)?, spec)))?,
        making: Making { seed, settings, ports: ports.0, ..Making::default() },
        workers: order.workers,
        balancing: if order.balance { Balancing::Even } else { Balancing::Still },
        commands: commands.collect(),
        store: order.store.clone(),
    })
}

/// The plan that several workers follow. Where none can be made and none was asked for, why; they
/// share all state then, in transactions, which is always right.
pub(crate) fn plan_for<F: NetworkFunction>(order: &Order) -> Result<Result<Plan, String>, Error> {
    // One worker follows a plan only where others are to go on with its state.
    let asked = order.plan.is_some() || order.planning.strategy.is_some();
    if order.workers == 1 && !(order.store.is_some() && asked) {
        // One that is given is looked at all the same: it may be wrong.
        order.plan.as_deref().map(|file| plan::read(file, &F::SOURCE)).transpose()?;
        return Ok(Err("one worker needs no plan".to_owned()));
    }
    if let Some(file) = &order.plan {
        return plan::read(file, &F::SOURCE).map(Ok);
    }
    match (plan_of::<F>(&order.planning), order.planning.strategy) {
        (Ok(plan), _) => Ok(Ok(plan)),
        (Err(why), Some(_)) => Err(Error::Analysis(why.to_string())),
        (Err(why), None) => Ok(Err(format!("no plan could be made: {why}"))),
    }
}

pub(crate) fn bound<S: Clone, T>(
    bindings: &[PortBinding<S>],
    bind: impl Fn(Option<&str>, S) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    bindings.iter().map(|one| bind(one.port.as_deref(), one.spec.clone())).collect()
}

/// The error of a run whose settings are from there.
pub(crate) fn cannot_begin(from: Option<&str>) -> impl Fn(RunError) -> Error {
    move |error| of_run(from, error)
}

fn of_run(from: Option<&str>, error: RunError) -> Error {
    let message = error.to_string();
    match error {
        RunError::Build(_) => {
            Error::Settings(from.map_or(message.clone(), |from| format!("{from}: {message}")))
        }
        RunError::Command(_) => Error::Settings(message),
        RunError::Source(cause) => Error::of_run(runtime::kind_of(&cause), message),
        RunError::Sink(_) => Error::Output(message),
        RunError::Live(_) | RunError::Exchange(_) | RunError::Threads(_) | RunError::Store(_) => {
            Error::Input(message)
        }
        RunError::StoreOfParts(_) | RunError::StoreDivided { .. } | RunError::StoreMade { .. } => {
            Error::Usage(message)
        }
    }
}

/// The ports of a run, in the order of their numbers.
pub(crate) struct PortNames(pub(crate) Vec<String>);

impl PortNames {
    /// The NF's own ports; else those that the command line names, in that order, and at least two.
    pub(crate) fn new(own: &[&str], order: &Order) -> PortNames {
        let mut names: Vec<String> = own.iter().map(|name| name.to_string()).collect();
        if own.is_empty() {
            let inputs = order.inputs.iter().filter_map(|one| one.port.clone());
            let outputs = order.outputs.iter().filter_map(|one| one.port.clone());
            let live = order.ports.iter().filter_map(|one| one.port.clone());
            for name in inputs.chain(outputs).chain(live) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            while names.len() < 2 {
                names.push(format!("port{}", names.len()));
            }
        }
        PortNames(names)
    }

    pub(crate) fn find(&self, name: Option<&str>) -> Result<Option<Port>, Error> {
        let Some(name) = name else { return Ok(None) };
        let known = self.0.iter().position(|one| one == name);
        if known.is_some_and(|index| index >= MOST_PORTS) {
            let count = self.0.len();
            return Err(Error::Usage(format!(
                "{count} ports are named: a run has at most {MOST_PORTS}, and `{name}` is beyond them"
            )));
        }
        let port = known.and_then(|index| u8::try_from(index).ok()).map(Port::new);
        port.map(Some).ok_or_else(|| {
            Error::Usage(format!("there is no port `{name}`; the ports are: {}", self.0.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("redis://me:secret@host:1"), "redis://host:1");
        assert_eq!(without_password("redis://host:1"), "redis://host:1");
        assert_eq!(without_password("durable"), "durable");
    }

    #[test]
    fn there_are_256_ports_at_most() {
        let ports = PortNames((0..300).map(|port| format!("p{port}")).collect());
        assert_eq!(ports.find(Some("p255")).unwrap(), Some(Port::new(255)));
        let error = ports.find(Some("p256")).unwrap_err().to_string();
        assert_eq!(error, "300 ports are named: a run has at most 256, and `p256` is beyond them");
        assert!(ports.find(Some("wan")).unwrap_err().to_string().contains("there is no port"));
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let words = [
            "anabranch",
            "run",
            "nat",
            "--set",
            "public=['1.2.3.4']",
            "--store=redis://me:it@host:1",
        ];
        let line = command_line(words.into_iter().chain([""]).map(OsString::from));
        let quoted = r"'public=['\''1.2.3.4'\'']'";
        assert_eq!(line, format!("anabranch run nat --set {quoted} --store=redis://host:1 ''"));
    }
}
