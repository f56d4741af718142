//! `verify`: whether a network function on many cores does what it does on one.

use std::collections::BTreeMap;
use std::path::Path;

use anabranch_analysis::{Budget, CallPath, Paths};
use anabranch_io::Trace;
use anabranch_io::spec::{PortBinding, SourceSpec};
use anabranch_nf::NetworkFunction;
use anabranch_nf::packet::Port;
use anabranch_plan::{Plan, plan};
use anabranch_verify::{
    Difference, Done, Effort, Findings, Missing, Program, Setup, Subject, VerifyError, example,
    replay, verify,
};
use serde::Serialize;

use crate::arguments::VerifyArguments;
use crate::error::Error;
use crate::figures::{counted, thousands};
use crate::file::print;
use crate::library::Library;
use crate::paths::find;
use crate::plan::{options, paths_of, read_checked, read_unchecked};
use crate::progress::Progress;
use crate::run::{sources, to_json};
use crate::settings::settings;

/// What is to be verified: the command line, understood.
pub struct Trial {
    settings: toml::Table,
    inputs: Vec<PortBinding<SourceSpec>>,
    plan: Plan,
    workers: usize,
    effort: Effort,
    paths: Paths,
    unreached: bool,
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
    /// Call paths that were taken, those of `paths_distant` apart.
    paths_reached: usize,
    /// Call paths, as `anabranch paths` lists them.
    paths_known: usize,
    /// Call paths of these that need a number to be counted up for years, which no packet takes in our time.
    paths_distant: usize,
    /// Why call paths were not taken, in a word each, with how many.
    missing: BTreeMap<&'static str, usize>,
    #[serde(skip)]
    missing_text: String,
    /// Pairs of conflicting accesses that have met in an entry.
    pairs_reached: usize,
    /// Those that could.
    pairs_known: usize,
    /// Calls of handlers of which the path is known.
    followed: usize,
    /// What is proved of state objects, which rules out other paths.
    proved: Vec<String>,
    /// Calls of handlers by ways that are not listed, since a loop goes round more often.
    unlisted: usize,
    /// Calls of handlers of which the path cannot be told.
    undecided: usize,
    /// Where a call path says something else than what its packet did.
    disagreements: Vec<String>,
    /// Packets that real threads handled, under the lock and in transactions.
    threaded_packets: usize,
    /// What they did and one core in their order does not.
    threaded_differences: Vec<String>,
    /// Numbers of the call paths not taken, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreached: Option<Vec<usize>>,
    #[serde(skip)]
    unreached_text: String,
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

/// After the seeds, packets of theirs that are led to what none of them has reached, at most: one in so many.
const REST_OF: usize = 2;

/// What is said where the system has no solver.
const UNSOLVED: &str = "there is no z3: call paths that no packet takes count too, and traffic is led to fewer of \
                        the others (`apt-get install z3`)";

/// Verifies a network function and prints what was found.
///
/// # Errors
/// [`Error::Different`] where the runs differ, after the sequence has been printed, or where call paths
/// are not what runs; what keeps the
/// verification from beginning, as for `run` and `plan`.
pub(crate) fn run(library: &Library, arguments: &VerifyArguments) -> Result<(), Error> {
    let entry = library.find(&arguments.nf)?;
    // Said before all call paths are found.
    if cfg!(not(feature = "verify")) {
        return Err(Error::without("verify"));
    }
    let trial = trial(&entry.source(), arguments)?;
    let found = entry.verify(trial)?;
    match arguments.json {
        true => print(&to_json(&found)?)?,
        false => print(&found.to_text())?,
    }
    let wrong = found.disagreements.len() + found.threaded_differences.len();
    match (found.differences, wrong) {
        (0, 0) => Ok(()),
        (0, _) if !found.threaded_differences.is_empty() => Err(Error::Different(format!(
            "{}: threads differ from one core in their order",
            found.nf
        ))),
        (0, count) => Err(Error::Different(format!(
            "{}: the analysis and what runs disagree about {} of handlers",
            found.nf,
            counted(count as u64, "call")
        ))),
        (count, _) => Err(Error::Different(format!(
            "{}: many cores differ from one under {count} of {}",
            found.nf,
            counted(found.seeds, "seed")
        ))),
    }
}

fn trial(source: &anabranch_nf::Source, arguments: &VerifyArguments) -> Result<Trial, Error> {
    let own = settings(arguments.config.as_deref(), &arguments.settings)?;
    let budget = Budget { unsolved: true, ..Budget::default() };
    let all_paths = find(&arguments.nf, source, budget)?;
    let (packets, seeds, first_seed) = (arguments.packets, arguments.seeds, arguments.seed);
    if first_seed.checked_add(seeds as u64).is_none() {
        return Err(Error::Usage(format!(
            "--seed {first_seed}: there are not {seeds} seeds from it on"
        )));
    }
    // One seed alone is what it is among others.
    let rest = if seeds > 1 { packets.saturating_mul(seeds) / REST_OF } else { 0 };
    let effort = Effort { packets, seeds: seeds as u64, first_seed, rest };
    Ok(Trial {
        settings: own,
        inputs: sources(&arguments.inputs)?,
        plan: planned(&paths_of(source)?, arguments)?,
        workers: arguments.workers.count(),
        effort,
        paths: all_paths,
        unreached: arguments.unreached,
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
/// [`Error::Settings`], [`Error::Input`] for a capture that cannot be read, [`Error::Usage`] where it
/// is not compiled in, [`Error::LinkType`].
pub(crate) fn execute<N: NetworkFunction>(trial: Trial) -> Result<Verified, Error> {
    // Here too, so that worlds without the feature are not compiled.
    if cfg!(not(feature = "verify")) {
        return Err(Error::without("verify"));
    }
    let Trial { settings, inputs, plan, workers, mut effort, paths, unreached, mut progress } =
        trial;
    if paths.statistics.unsolved {
        progress.say(UNSOLVED);
    }
    let setup = Setup::exemplified::<N>(settings, example(N::NAME));
    let setup = setup.under::<N>(&plan, Some(&paths));
    let programs = captured(&inputs, &setup)?;
    let of_captures = programs.iter().map(Program::packets).sum();
    if let Some(more) = beside(effort.packets, of_captures) {
        progress.say(&more);
        effort.packets = of_captures + random_at_least(effort.packets);
    }
    let subject = Subject {
        setup: &setup,
        plan: &plan,
        workers,
        mutation: None,
        programs: &programs,
        paths: Some(&paths),
    };
    let all = effort.packets.saturating_mul(effort.seeds as usize).max(1);
    let mut beyond = (effort.rest > 0).then(|| sought_on(effort.rest));
    let found = verify::<N>(&subject, effort, &mut |Done { packets, is_rest }| {
        if let Some(what) = beyond.take_if(|_| is_rest) {
            progress.say(&what);
        }
        let done = (!is_rest).then(|| (packets as f64 / all as f64).min(1.0));
        progress.update(packets as u64, done);
    });
    progress.finish();
    let found = found.map_err(|why| match why {
        VerifyError::Settings(why) | VerifyError::Plan(why) => Error::Settings(why),
        VerifyError::Analysis(why) => Error::Analysis(why),
    })?;
    let mut verified = Verified::of::<N>(found, &plan, workers, &paths);
    if !unreached {
        verified.unreached = None;
        verified.unreached_text.clear();
    }
    Ok(verified)
}

/// What is done after the seeds.
fn sought_on(most: usize) -> String {
    let most = thousands(most as u64);
    format!(
        "after the seeds come call paths that none has taken, where nothing differs: at most {most} packets more"
    )
}

/// Random packets under each seed, of so many, whatever captures bring.
fn random_at_least(packets: usize) -> usize {
    packets.div_ceil(2)
}

/// That more than `packets` are sent, since captures alone would be no verification.
fn beside(packets: usize, of_captures: usize) -> Option<String> {
    let random = random_at_least(packets);
    (of_captures + random > packets && of_captures > 0).then(|| {
        format!(
            "the captures have {}, more than half of --packets {packets}: all of them are sent under each seed, \
             and {} after them; a larger --packets sends more of these",
            counted(of_captures as u64, "packet"),
            counted(random as u64, "random packet")
        )
    })
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
        traces.push(trace.map_err(|cause| Error::of_capture(&cause))?);
    }
    Ok(replay(&traces, setup))
}

impl Verified {
    fn of<N: NetworkFunction>(found: Findings, plan: &Plan, workers: usize, paths: &Paths) -> Self {
        let taken = found.taken;
        let unreached = paths.paths.iter().filter(|path| !taken.reached.contains(&path.number));
        let unreached: Vec<&CallPath> = unreached.collect();
        let texts = unreached.iter().map(|path| paths.path_to_text(path));
        let missing = by_reason(&taken.missing);
        Self {
            nf: N::NAME.to_owned(),
            strategy: plan.strategy.name(),
            workers,
            packets: found.packets,
            seeds: found.seeds,
            paths_reached: taken.reached.difference(&paths.distant).count(),
            paths_known: paths.paths.len(),
            paths_distant: paths.distant.len(),
            missing: missing.iter().map(|(why, count)| (why.word(), *count)).collect(),
            missing_text: reasons(&missing),
            pairs_reached: taken.pairs.0,
            pairs_known: taken.pairs.1,
            proved: paths.proved(),
            followed: taken.followed,
            unlisted: taken.unlisted,
            undecided: taken.unknown.values().sum(),
            disagreements: taken.disagreements,
            threaded_packets: found.threaded.packets,
            threaded_differences: found.threaded.differences,
            unreached_text: barriers(&taken.barriers) + &texts.collect::<String>(),
            unreached: Some(unreached.into_iter().map(|path| path.number).collect()),
            differences: found.differences,
            difference: found.difference.map(|one| Shown::of(N::NAME, &one)),
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "{}: {} under {}, {} on {}\n{} of {} call paths{}, {} of {} pairs of accesses reached\n",
            self.nf,
            counted(self.packets as u64, "packet"),
            counted(self.seeds, "seed"),
            self.strategy,
            counted(self.workers as u64, "worker"),
            self.paths_reached,
            self.paths_known - self.paths_distant,
            match self.paths_distant {
                0 => String::new(),
                distant => format!(" (and {distant} more that need a counter to run for years)"),
            },
            self.pairs_reached,
            self.pairs_known,
        );
        text.push_str(&self.missing_text);
        if !self.proved.is_empty() {
            text.push_str("proved of state\n");
        }
        for proved in &self.proved {
            text.push_str(&format!("  {proved}\n"));
        }
        for disagreement in &self.disagreements {
            text.push_str(&format!("the analysis and what runs disagree: {disagreement}\n"));
        }
        if self.threaded_packets > 0 {
            let packets = counted(self.threaded_packets as u64, "packet");
            text.push_str(&format!("{packets} by threads, under a lock and in transactions\n"));
        }
        for difference in &self.threaded_differences {
            text.push_str(&format!("threads differ: {difference}\n"));
        }
        text.push_str(&self.unreached_text);
        match &self.difference {
            None => text.push_str("no difference\n"),
            Some(shown) => {
                let sequence = format!(
                    "\nshortest sequence under seed {}, {}:\n{}repeat with: {}\n",
                    shown.seed,
                    counted(shown.steps as u64, "step"),
                    shown.sequence,
                    shown.repeat
                );
                text.push_str(&sequence);
            }
        }
        text
    }
}

/// How many of the paths not taken have each reason.
fn by_reason(missing: &BTreeMap<usize, Missing>) -> BTreeMap<Missing, usize> {
    let mut counts = BTreeMap::new();
    for why in missing.values() {
        *counts.entry(*why).or_default() += 1;
    }
    counts
}

/// Why paths were not taken, the most frequent reasons first.
fn reasons(all: &BTreeMap<Missing, usize>) -> String {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1));
    let rows =
        all.iter().map(|(why, count)| format!("of the call paths not taken, {count} {why}\n"));
    rows.collect()
}

/// Conditions that are shown at most.
const BARRIERS: usize = 20;

/// What kept packets from the paths not taken, most of them first.
fn barriers(all: &[(usize, String)]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows = all.iter().take(BARRIERS).map(|(count, text)| format!("{count:>7}  {text}\n"));
    format!(
        "\nconditions that never held, with the number of paths behind\n{}\n",
        rows.collect::<String>()
    )
}

impl Shown {
    fn of(nf: &str, found: &Difference) -> Self {
        Self {
            seed: found.seed,
            steps: found.program.steps.len(),
            what: found.what.clone(),
            settings: found.setup.settings.clone(),
            sequence: found.to_text(),
            repeat: format!(
                "verify {nf} --seed {} --seeds {}, with the same options",
                found.seed, found.seeds
            ),
        }
    }
}
