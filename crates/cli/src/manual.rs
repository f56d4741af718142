//! `completions` and `man`: what the shell and `man` know of the program, from the same source as
//! `--help`.

use std::path::Path;

use anabranch_rss::Nic;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};

use crate::arguments::{Arguments, CompletionsArguments, ManArguments};
use crate::error::Error;
use crate::file::{print, write_whole};
use crate::library::Library;

/// Prints the completions for a shell.
///
/// # Errors
/// [`Error::Output`] when standard output cannot be written.
pub(crate) fn completions(
    program: &str,
    library: &Library,
    arguments: &CompletionsArguments,
) -> Result<(), Error> {
    let mut script = Vec::new();
    let functions = library.entries().map(|entry| entry.description().name).collect();
    let mut command = Arguments::command().name(leaked(program));
    let subcommands = command.get_subcommands().map(|one| leaked(one.get_name())).collect();
    command =
        naming(command, &[functions, Nic::ALL.iter().map(|nic| nic.name).collect(), subcommands]);
    clap_complete::generate(arguments.shell, &mut command, program, &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Arguments that are a network function, a NIC model, a subcommand.
const NAMES: [&[&str]; 3] = [&["nf", "nfs"], &["nic", "model"], &["subcommand"]];

/// The command with the names that its arguments may have, which only the program knows.
fn naming(command: Command, names: &[Vec<&'static str>; 3]) -> Command {
    let known = |mut argument: Arg| {
        for (ids, names) in NAMES.iter().zip(names) {
            if ids.contains(&argument.get_id().as_str()) {
                argument = argument.value_parser(PossibleValuesParser::new(names));
            }
        }
        argument
    };
    command.mut_args(known).mut_subcommands(|one| naming(one, names))
}

/// Prints a manual page, or writes all of them into a directory.
///
/// # Errors
/// [`Error::Usage`] for an unknown subcommand, [`Error::Output`].
pub(crate) fn man(program: &str, arguments: &ManArguments) -> Result<(), Error> {
    let mut command = Arguments::command().name(leaked(program));
    command.build();
    let mut within = program.to_string();
    if let Some(directory) = &arguments.out {
        std::fs::create_dir_all(directory).map_err(|cause| Error::output(directory, &cause))?;
        return write_all(&command, program, directory);
    }
    for name in &arguments.subcommand {
        let Some(subcommand) = command.find_subcommand(name) else {
            let message = format!("there is no subcommand `{name}`: see `{within} --help`");
            return Err(Error::Usage(message));
        };
        within += &format!(" {name}");
        command = titled(&command, subcommand);
    }
    print(&page(&command, program)?)
}

/// The page of a command, and those of its subcommands.
fn write_all(command: &Command, program: &str, directory: &Path) -> Result<(), Error> {
    let path = directory.join(format!("{}.1", command.get_name()));
    write_whole(&path, &page(command, program)?)?;
    let mut subcommands = command.get_subcommands().filter(|one| one.get_name() != "help");
    subcommands.try_for_each(|one| write_all(&titled(command, one), program, directory))
}

/// The subcommand under the name of its page, `anabranch-run`, `anabranch-rss-key`.
fn titled(command: &Command, subcommand: &Command) -> Command {
    let name = format!("{}-{}", command.get_name(), subcommand.get_name());
    subcommand.clone().name(leaked(&name))
}

/// The page, whose foot has the version of `program`.
fn page(command: &Command, program: &str) -> Result<String, Error> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .source(format!("{program} {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .map_err(|cause| Error::Internal(format!("the manual page cannot be made: {cause}")))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// `clap` wants names that live for ever; a program makes as many as it has commands.
fn leaked(name: &str) -> &'static str {
    Box::leak(name.to_string().into_boxed_str())
}
