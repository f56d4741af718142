//! `profile`: what limits a network function whose workers share state in transactions, and what to
//! change.
//!
//! ```text
//! order ─▶ runs, watched and not ─▶ Measured ─┐
//! source ─▶ call paths ─▶ Subject ────────────┴▶ Document ─▶ text · JSON · HTML · settings
//! ```

mod apply;
mod document;
mod recipe;
mod save;
mod text;

use std::path::Path;

use anabranch_analysis::Budget;
use anabranch_io::source::Progress as Done;
use anabranch_io::spec::SourceSpec;
use anabranch_nf::NetworkFunction;
use anabranch_plan::plan as plan_paths;
use anabranch_runtime::deployment::{paths_of, strategy_of};
use anabranch_runtime::hardware::HardwareCounts;
use anabranch_runtime::profile::{Finding, profile, unwatched};
use anabranch_runtime::report::RunReport;
use toml::Table;

use crate::arguments::{PlanningArguments, ProfileArguments};
use crate::error::Error;
use crate::file::{
    Files, check_writable, deliver, is_special, is_standard_output, print, read, tell, write_as,
};
use crate::html::profile as page;
use crate::library::{Entry, Library};
use crate::plan;
use crate::progress::{Passes, Progress};
use crate::run::{
    Order, cannot_begin, name_inputs, options, plan_for, sources, this_command, to_json,
};
use crate::settings::{control, settings, settings_from};
use apply::Figures;
pub(crate) use document::{Cause, Document, LimitKind, NOT_COUNTED};
pub(crate) use recipe::Step;
use recipe::Subject;

/// Pairs of runs, one watched and one not.
const PAIRS: usize = 5;

/// What runs of a profile came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The watched run of which the middle number of transactions was given up.
    pub report: RunReport,
    /// Why its transactions were given up.
    pub findings: Vec<Finding>,
    /// Of each pair of runs what they took of processors.
    pub pairs: Vec<Pair>,
    /// What each pair came to.
    pub runs: Vec<Run>,
    /// Millions of packets a second, not watched.
    pub mpps: f64,
    /// What processors counted of a run that was not watched, and of how many packets; where they count.
    pub hardware: Option<(HardwareCounts, u64)>,
}

/// Nanoseconds that workers ran on processors for a packet, in two runs after each other.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Watched.
    pub watched_ns: f64,
    /// Not watched.
    pub unwatched_ns: f64,
}

/// What a pair of runs came to.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Millions of packets a second, unwatched.
    pub mpps: f64,
    /// Transactions given up, watched.
    pub aborts: u64,
}

/// Profiles.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Usage`], [`Error::Settings`], [`Error::Input`], [`Error::Output`].
pub(crate) fn run(library: &Library, arguments: &ProfileArguments) -> Result<(), Error> {
    let entry = library.find(&arguments.nf)?;
    let outputs = [&arguments.html, &arguments.save];
    let order = order(arguments)?;
    check_repeatable(arguments, &order)?;
    let mut files = Files::default();
    files.reads_document("--config", arguments.config.as_deref());
    name_inputs(&mut files, &arguments.inputs, &order.inputs);
    files.document("--html", arguments.html.as_deref())?;
    files.document("--save", arguments.save.as_deref())?;
    if arguments.json {
        files.prints("--json".to_owned())?;
    }
    for path in outputs.into_iter().flatten().filter(|path| !is_standard_output(path)) {
        check_writable(path)?;
    }
    let given = order.settings.clone();
    let text = arguments.config.as_deref().filter(|_| arguments.save.is_some()).map(read);
    let text = text.transpose()?.unwrap_or_default();
    let measured = entry.profile(order)?;
    let mut document = Document::new(&measured, &subject(entry, &given)?);
    if let Some(first) = measured.report.errors.first() {
        return Err(Error::of_run(first.kind, first.message.clone()));
    }
    if arguments.apply {
        let again = |settings| entry.profile(Order { settings, ..self::order(arguments)? });
        let before = Figures::of(&measured);
        let accepts = |settings: &Table| entry.accepts(settings);
        let better = document.apply((&given, &before), accepts, again)?;
        if let Some(path) = &arguments.save {
            save(path, better, &text, arguments)?;
        }
    }
    show(&document, arguments)
}

/// All that is read can be read again: the traffic by each run, the configuration when it is written anew.
fn check_repeatable(arguments: &ProfileArguments, order: &Order) -> Result<(), Error> {
    for (text, input) in arguments.inputs.iter().zip(&order.inputs) {
        if let SourceSpec::Capture(file) | SourceSpec::Memory { file, .. } = &input.spec
            && is_special(file)
        {
            return Err(Error::Usage(format!(
                "--in {text}: a profile runs its traffic several times, and this can be read once: write it to a \
                 file first"
            )));
        }
    }
    match &arguments.config {
        Some(path) if arguments.save.is_some() && is_special(path) => Err(Error::Usage(format!(
            "--config {}: --save writes what stands there with its changes: give a file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes the settings that are `better`, into the operator's configuration, which is `text`.
fn save(
    path: &Path,
    better: Option<(Table, Vec<Step>)>,
    text: &str,
    arguments: &ProfileArguments,
) -> Result<(), Error> {
    let Some((settings, kept)) = better else {
        // Else the text says so.
        if arguments.json || is_standard_output(path) {
            tell(&format!("--save {}: nothing is written: no setting helped", path.display()));
        }
        return Ok(());
    };
    let file = save::file(&arguments.nf, &kept, text, &settings);
    match &arguments.config {
        // It may have the password of a store.
        Some(config) if !is_standard_output(path) => write_as(path, &file, config),
        _ => deliver(path, &file),
    }
}

fn show(document: &Document, arguments: &ProfileArguments) -> Result<(), Error> {
    if let Some(path) = &arguments.html {
        deliver(path, &page::render(document, &this_command()))?;
    }
    let outputs = [&arguments.html, &arguments.save];
    let silent = outputs.into_iter().flatten().any(|path| is_standard_output(path));
    match arguments.json {
        true => print(&to_json(document)?),
        false if silent => Ok(()),
        false => print(&text::render(document, arguments)),
    }
}

fn order(arguments: &ProfileArguments) -> Result<Order, Error> {
    let workers = arguments.workers.count();
    if workers < 2 {
        return Err(Error::Usage(
            "one worker is in nobody's way: profile with --workers 2 or more".to_owned(),
        ));
    }
    Ok(Order {
        ports: Vec::new(),
        openings: crate::live::Openings::default(),
        duration: None,
        inputs: sources(&arguments.inputs)?,
        outputs: Vec::new(),
        settings: settings(arguments.config.as_deref(), &arguments.settings)?,
        settings_from: settings_from(arguments.config.as_deref(), &arguments.settings),
        controls: arguments.control.iter().map(|text| control(text)).collect::<Result<_, _>>()?,
        workers,
        plan: None,
        planning: plan::options(&PlanningArguments::default())?,
        balance: false,
        seed: arguments.seed,
        store: None,
        progress: Progress::of_run(&arguments.nf),
    })
}

/// What recipes are made for. A function that cannot be analysed has no plan, and its objects no
/// lines; its causes are told all the same.
fn subject<'a>(entry: &'a dyn Entry, given: &'a Table) -> Result<Subject<'a>, Error> {
    let source = entry.source();
    let paths = paths_of(&source, Budget::for_accesses()).ok();
    let options = plan::options(&PlanningArguments::default())?;
    let planned = paths.as_ref().and_then(|paths| plan_paths(paths, &options).ok());
    Ok(Subject {
        source,
        description: entry.description(),
        given,
        objects: paths.map(|paths| paths.objects).unwrap_or_default(),
        planned: planned.map(|plan| strategy_of(&plan).name().to_owned()),
    })
}

/// Runs `F` as ordered, watched and not, in turn.
///
/// # Errors
/// When it cannot begin; [`Error::Usage`] where it is not compiled in.
pub(crate) fn execute<F: NetworkFunction>(order: Order) -> Result<Measured, Error> {
    if cfg!(not(feature = "profile")) {
        return Err(Error::without("profile"));
    }
    let plan = plan_for::<F>(&order)?;
    let options = options::<F>(&order, plan)?;
    let (mut passes, from) = (Passes::of(order.progress, 2 * PAIRS), order.settings_from);
    let (mut pairs, mut mpps) = (Vec::with_capacity(PAIRS), 0.0_f64);
    let (mut watched, mut hardware, mut runs) = (Vec::new(), None, Vec::with_capacity(PAIRS));
    for _ in 0..PAIRS {
        let mut watch = |done: Done, packets| passes.update(packets, done.fraction());
        let plain = unwatched::<F>(&options, &mut watch).map_err(cannot_begin(from.as_deref()))?;
        passes.next();
        let mut watch = |done: Done, packets| passes.update(packets, done.fraction());
        mpps = mpps.max(plain.mpps);
        hardware = counted(&plain);
        let (report, findings) =
            profile::<F>(&options, &mut watch).map_err(cannot_begin(from.as_deref()))?;
        passes.next();
        let (watched_ns, unwatched_ns) = (ns_a_packet(&report), ns_a_packet(&plain));
        pairs.push(Pair { watched_ns, unwatched_ns });
        let aborts = findings.iter().map(|finding| finding.times).sum();
        runs.push(Run { mpps: plain.mpps, aborts });
        watched.push((aborts, report, findings));
    }
    passes.finish();
    watched.sort_by_key(|(aborts, ..)| *aborts);
    let (_, report, findings) = watched.swap_remove(PAIRS / 2);
    Ok(Measured { report, findings, pairs, runs, mpps, hardware })
}

/// What the processors of all workers counted; `None`: not all of them did.
fn counted(report: &RunReport) -> Option<(HardwareCounts, u64)> {
    let each = report.workers.iter().map(|worker| worker.hardware);
    let sum = each.reduce(|one, other| Some(one?.plus(other?)))??;
    Some((sum, report.packets_read))
}

/// Of what the threads of workers ran, not of the time that passed: others may have had their processors.
fn ns_a_packet(report: &RunReport) -> f64 {
    let cpu_s: f64 = report.workers.iter().filter_map(|worker| worker.cpu_s).sum();
    cpu_s * 1e9 / report.packets_read.max(1) as f64
}
