//! `plan`: how a network function runs on many cores, and why.

use std::path::Path;

use anabranch_analysis::{Budget, Paths};
use anabranch_plan::{Options, Plan, PlanError, check, numbered, plan};
use anabranch_rss::Nic;
use anabranch_runtime::deployment;

use crate::arguments::{PlanArguments, PlanningArguments, StrategyChoice};
use crate::error::Error;
use crate::file::{Files, check_writable, deliver, is_standard_output, print, read as read_text};
use crate::html::plan as page;
use crate::library::Library;
use crate::run::{this_command, to_json};

/// Plans a network function, or checks a plan that was edited.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Usage`] for an unknown NIC, [`Error::Analysis`] when the source is
/// refused or no plan of the strategy asked for exists, [`Error::Settings`] for a plan that breaks a
/// constraint, [`Error::Output`].
pub(crate) fn run(library: &Library, arguments: &PlanArguments) -> Result<(), Error> {
    let options = Options { seed: arguments.seed, ..options(&arguments.planning)? };
    let Some(nf) = &arguments.nf else { return print(&overview(library, &options)?) };
    let outputs = [&arguments.out, &arguments.html];
    let mut files = Files::default();
    files.reads_document("--check", arguments.check.as_deref());
    files.document("-o", arguments.out.as_deref())?;
    files.document("--html", arguments.html.as_deref())?;
    if arguments.json {
        files.prints("--json".to_owned())?;
    }
    for path in outputs.into_iter().flatten().filter(|path| !is_standard_output(path)) {
        check_writable(path)?;
    }
    let paths = paths_of(&library.find(nf)?.source())?;
    if let Some(edited) = &arguments.check {
        read_checked(&paths, edited)?;
        return print(&format!("{}: what must meet meets\n", edited.display()));
    }
    let found = plan(&paths, &options).map_err(|cause| Error::Analysis(cause.to_string()))?;
    show(&paths, &found, arguments)
}

/// What the plans of all functions come to, a line each.
fn overview(library: &Library, options: &Options) -> Result<String, Error> {
    let mut lines =
        "| NF | strategy | packets meet by | state | may differ | keys, µs | in all, ms |\n\
                     |---|---|---|---|---|---|---|\n"
            .to_owned();
    for entry in library.entries() {
        let found = plan(&paths_of(&entry.source())?, options);
        let found = found.map_err(|cause| Error::Analysis(cause.to_string()))?;
        let differences = found.differences.len();
        lines += &format!(
            "| `{}` | {} | {} | {} | {differences} | {} | {} |\n",
            found.nf,
            found.strategy.name(),
            meeting(&found),
            state(&found),
            found.solve_us,
            found.total_ms
        );
    }
    Ok(lines)
}

/// The fields that packets of each port are hashed by, ports of TCP and UDP alike.
fn meeting(found: &Plan) -> String {
    if let Some(impossible) = &found.impossible {
        return format!("nothing in common, {}", numbered(&impossible.lines));
    }
    if found.constraints.is_empty() {
        return "anything".to_owned();
    }
    let fields = |port: &anabranch_plan::Port| {
        let mut fields: Vec<String> = Vec::new();
        for field in &port.fields {
            let field = field.replace("tcp.", "port.").replace("udp.", "port.");
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        format!("`{}`: {}", port.port, fields.join(", "))
    };
    let ports: Vec<String> = found.ports.iter().map(fields).collect();
    ports.join("; ")
}

/// State objects, by how they are kept.
fn state(found: &Plan) -> String {
    let mut kept: Vec<(&str, Vec<String>)> = Vec::new();
    for object in &found.objects {
        let (mode, name) = (object.mode.name(), format!("`{}`", object.name));
        match kept.iter_mut().find(|(known, _)| *known == mode) {
            Some((_, names)) => names.push(name),
            None => kept.push((mode, vec![name])),
        }
    }
    let kept: Vec<String> =
        kept.iter().map(|(mode, names)| format!("{mode}: {}", names.join(", "))).collect();
    kept.join("; ")
}

/// The call paths of the function of this source, as planning needs them.
///
/// # Errors
/// [`Error::Analysis`].
pub(crate) fn paths_of(source: &anabranch_nf::Source) -> Result<Paths, Error> {
    let paths = deployment::paths_of(source, Budget::for_accesses());
    paths.map_err(|cause| Error::Analysis(cause.to_string()))
}

/// The plan in `file`, if it holds for the function of this source.
///
/// # Errors
/// [`Error::Settings`]: it cannot be read, or breaks a constraint; [`Error::Analysis`].
pub(crate) fn read(file: &Path, source: &anabranch_nf::Source) -> Result<Plan, Error> {
    read_checked(&paths_of(source)?, file)
}

/// What kind of plan is asked for.
///
/// # Errors
/// [`Error::Usage`] for an unknown NIC.
pub(crate) fn options(arguments: &PlanningArguments) -> Result<Options, Error> {
    let Some(nic) = Nic::named(&arguments.nic) else {
        let known: Vec<&str> = Nic::ALL.iter().map(|nic| nic.name).collect();
        return Err(Error::Usage(format!(
            "there is no NIC model `{}`; write one of {}",
            arguments.nic,
            known.join(", ")
        )));
    };
    let strategy = match arguments.strategy {
        StrategyChoice::Auto => None,
        StrategyChoice::SharedNothing => Some(anabranch_plan::Strategy::SharedNothing),
        StrategyChoice::Mixed => Some(anabranch_plan::Strategy::Mixed),
        StrategyChoice::Transactional => Some(anabranch_plan::Strategy::Transactional),
        StrategyChoice::Lock => Some(anabranch_plan::Strategy::Lock),
    };
    Ok(Options { strategy, ..Options::new(nic) })
}

fn show(paths: &Paths, found: &Plan, arguments: &PlanArguments) -> Result<(), Error> {
    if let Some(path) = &arguments.out {
        let text = found.to_toml().map_err(|cause| Error::Internal(cause.to_string()))?;
        deliver(path, &text)?;
    }
    if let Some(path) = &arguments.html {
        deliver(path, &page::render(paths, found, &this_command()))?;
    }
    let silent =
        |path: &Option<std::path::PathBuf>| path.as_deref().is_some_and(is_standard_output);
    match arguments.json {
        true => print(&to_json(found)?),
        false if silent(&arguments.out) || silent(&arguments.html) => Ok(()),
        false => print(&found.to_text()),
    }
}

/// The plan in `file`, if it holds for the function of these paths.
///
/// # Errors
/// [`Error::Settings`]: it cannot be read, or breaks a constraint.
pub(crate) fn read_checked(paths: &Paths, file: &Path) -> Result<Plan, Error> {
    let edited = read_unchecked(file)?;
    check(paths, &edited).map_err(|cause| wrong(file, cause))?;
    Ok(edited)
}

/// The plan in `file`, whether it holds or not.
///
/// # Errors
/// [`Error::Settings`]: it cannot be read.
pub(crate) fn read_unchecked(file: &Path) -> Result<Plan, Error> {
    let text = read_text(file)?;
    Plan::from_toml(&text).map_err(|cause| wrong(file, cause))
}

fn wrong(file: &Path, cause: PlanError) -> Error {
    Error::Settings(format!("{}: {cause}", file.display()))
}
