//! `verify`: whether a network function on many cores does what it does on one.

use std::path::Path;

use anabranch_analysis::{Budget, Paths};
use anabranch_io::Trace;
use anabranch_io::spec::{PortBinding, SourceSpec};
use anabranch_nf::NetworkFunction;
use anabranch_nf::packet::Port;
use anabranch_plan::{Plan, plan};
use anabranch_runtime::deployment;
use anabranch_verify::{
    Difference, Effort, Findings, Program, Setup, Subject, VerifyError, example, replay, verify,
};
use serde::Serialize;

use crate::arguments::VerifyArguments;
use crate::error::Error;
use crate::figures::thousands;
use crate::file::print;
use crate::library::Library;
use crate::plan::{options, paths_of, read_checked, read_unchecked};
use crate::progress::Progress;
use crate::run::{binding, to_json};
use crate::settings::settings;

/// What is to be verified: the command line, understood.
pub struct Trial {
    settings: toml::Table,
    inputs: Vec<PortBinding<SourceSpec>>,
    plan: Plan,
    workers: usize,
    effort: Effort,
    paths: Paths,
    progress: Progress,
}

/// What a verification found: the JSON document.
#[derive(Debug, Serialize)]
pub struct Verified {
    nf: String,
    strategy: &'static str,
    workers: usize,
    packets: usize,
    seeds: u64,
    /// Call paths that were taken for certain.
    paths_reached: usize,
    /// Call paths that may have been taken, those among them.
    paths_possible: usize,
    /// Call paths, as `anabranch paths` lists them.
    paths_known: usize,
    differences: u64,
    difference: Option<Shown>,
}

/// The shortest sequence that differs.
#[derive(Debug, Serialize)]
struct Shown {
    seed: u64,
    steps: usize,
    what: String,
    settings: toml::Table,
    sequence: String,
    repeat: String,
}

/// Verifies a network function and prints what was found.
///
/// # Errors
/// [`Error::Different`] where the runs differ, after the sequence has been printed; what keeps the
/// verification from beginning, as for `run` and `plan`.
pub(crate) fn run(library: &Library, arguments: &VerifyArguments) -> Result<(), Error> {
    let entry = library.find(&arguments.nf)?;
    let trial = trial(&entry.source(), arguments)?;
    let found = entry.verify(trial)?;
    match arguments.json {
        true => print(&to_json(&found)?)?,
        false => print(&found.to_text())?,
    }
    match found.differences {
        0 => Ok(()),
        count => Err(Error::Different(format!(
            "{}: many cores differ from one under {count} of {} seeds",
            found.nf, found.seeds
        ))),
    }
}

fn trial(source: &anabranch_nf::Source, arguments: &VerifyArguments) -> Result<Trial, Error> {
    let inputs = arguments.inputs.iter().map(|text| text.parse().map_err(binding("--in", text)));
    let mut own = settings(arguments.config.as_deref(), &arguments.settings)?;
    let example: toml::Table = example(&arguments.nf).parse().unwrap_or_default();
    for (name, value) in example {
        own.entry(name).or_insert(value);
    }
    let all_paths = deployment::paths_of(source, Budget::default());
    let all_paths = all_paths.map_err(|cause| Error::Analysis(cause.to_string()))?;
    let effort =
        Effort { packets: arguments.packets, seeds: arguments.seeds, first_seed: arguments.seed };
    Ok(Trial {
        settings: own,
        inputs: inputs.collect::<Result<_, _>>()?,
        plan: planned(&paths_of(source)?, arguments)?,
        workers: arguments.workers.count(),
        effort,
        paths: all_paths,
        progress: Progress::start(&arguments.nf),
    })
}

/// The plan of a file, or the one that there is of the strategy asked for.
fn planned(paths: &Paths, arguments: &VerifyArguments) -> Result<Plan, Error> {
    match &arguments.plan {
        Some(file) if arguments.unchecked => read_unchecked(file),
        Some(file) => read_checked(paths, file),
        None => plan(paths, &options(&arguments.planning)?)
            .map_err(|cause| Error::Analysis(cause.to_string())),
    }
}

/// Verifies `N` as ordered.
///
/// # Errors
/// [`Error::Settings`], [`Error::Input`] for a capture that cannot be read.
pub(crate) fn execute<N: NetworkFunction>(trial: Trial) -> Result<Verified, Error> {
    let Trial { settings, inputs, plan, workers, effort, paths, mut progress } = trial;
    let setup = Setup::new::<N>(settings).under(&plan);
    let programs = captured(&inputs, &setup)?;
    let subject = Subject {
        setup: &setup,
        plan: &plan,
        workers,
        mutation: None,
        programs: &programs,
        paths: Some(&paths),
    };
    let all = effort.packets.saturating_mul(effort.seeds as usize).max(1);
    let found = verify::<N>(&subject, effort, &mut |packets| {
        progress.update(packets as u64, Some(packets as f64 / all as f64));
    });
    progress.finish();
    let found = found.map_err(|why| match why {
        VerifyError::Settings(why) | VerifyError::Plan(why) => Error::Settings(why),
        VerifyError::Analysis(why) => Error::Analysis(why),
    })?;
    Ok(Verified::of::<N>(found, &plan, workers, paths.paths.len()))
}

/// The captures of all ports as programs, in order of time.
fn captured(inputs: &[PortBinding<SourceSpec>], setup: &Setup) -> Result<Vec<Program>, Error> {
    let mut traces = Vec::new();
    for input in inputs {
        let port = match &input.port {
            None => 0,
            Some(name) => setup.ports.iter().position(|port| port == name).ok_or_else(|| {
                let ports = setup.ports.join(", ");
                Error::Usage(format!("there is no port `{name}`; there are: {ports}"))
            })?,
        };
        let file: &Path = match &input.spec {
            SourceSpec::Capture(file) | SourceSpec::Memory { file, .. } => file,
            SourceSpec::Traffic(_) => {
                let message = "--in: `verify` makes traffic of its own; give captures";
                return Err(Error::Usage(message.to_owned()));
            }
        };
        let trace = Trace::from_capture(file, Port::new(port as u8));
        traces.push(trace.map_err(|cause| Error::Input(cause.to_string()))?);
    }
    Ok(replay(&traces, setup))
}

impl Verified {
    fn of<N: NetworkFunction>(
        found: Findings,
        plan: &Plan,
        workers: usize,
        paths_known: usize,
    ) -> Self {
        Self {
            nf: N::NAME.to_owned(),
            strategy: plan.strategy.name(),
            workers,
            packets: found.packets,
            seeds: found.seeds,
            paths_reached: found.reached.len(),
            paths_possible: found.possible.len(),
            paths_known,
            differences: found.differences,
            difference: found.difference.map(|one| Shown::of(N::NAME, &one)),
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "{}: {} packets under {} seeds, {} on {} workers\n{} to {} of {} call paths reached\n",
            self.nf,
            thousands(self.packets as u64),
            self.seeds,
            self.strategy,
            self.workers,
            self.paths_reached,
            self.paths_possible,
            self.paths_known,
        );
        match &self.difference {
            None => text.push_str("no difference\n"),
            Some(shown) => {
                let sequence = format!(
                    "\nshortest sequence under seed {}, {} steps:\n{}repeat with: {}\n",
                    shown.seed, shown.steps, shown.sequence, shown.repeat
                );
                text.push_str(&sequence);
            }
        }
        text
    }
}

impl Shown {
    fn of(nf: &str, found: &Difference) -> Self {
        Self {
            seed: found.seed,
            steps: found.program.steps.len(),
            what: found.what.clone(),
            settings: found.setup.settings.clone(),
            sequence: found.to_text(),
            repeat: format!("verify {nf} --seed {} --seeds 1, with the same options", found.seed),
        }
    }
}
