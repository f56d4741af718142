//! The `anabranch` program, as a library: a crate with network functions of its own gets the whole
//! command line from one line.
//!
//! ```text
//! mod quota;
//! anabranch::main![quota];
//! ```
//!
//! ```text
//!  arguments ─▶ Library ─▶ dyn Entry ─▶ runtime ─▶ RunReport ─▶ table · JSON · HTML
//! ```
//!
//! It stands on top of everything else: the runtime runs, the analysis explains, the I/O crate
//! reads and writes; what is here reads the command line and shows results. Nothing depends on it
//! but programs. The NF library comes with the feature `library`, for the program of this crate
//! only; an author's own program does without.

mod advice;
mod arguments;
mod bench;
mod doctor;
mod error;
mod figures;
mod file;
mod html;
mod library;
mod list;
mod live;
mod manual;
mod paths;
mod plan;
mod profile;
mod progress;
mod rss;
mod run;
mod scaffold;
mod settings;
mod signals;
mod state;
mod store;
mod summary;
mod table;
mod trace;
mod traffic;
mod verify;

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

pub use anabranch_runtime::testing;
pub use error::Error;
pub use library::{Description, Entry, Library, entry};
pub use profile::{Measured, Pair};
pub use run::Order;
pub use settings::Control;
pub use trace::{Choice, Shown};
pub use verify::{Trial, Verified};

use arguments::{Arguments, Command};
use file::print_by;
use live::speaker::last_words;

/// Writes `fn main`: a program with the whole command line for the given network functions, each
/// named by a path to its module, or to
/// one that has its `Function`.
///
/// ```no_run
/// use anabranch_nf::prelude::*;
///
/// /// Forwards everything.
/// #[network_function(ports(left, right))]
/// pub mod wire {
///     /// Nothing to remember.
///     pub struct Wire {
///         forwarded: Counter,
///     }
///
///     impl Wire {
///         fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
///             self.forwarded.add(1);
///             Forward(pkt.port().other())
///         }
///     }
/// }
///
/// anabranch::main![wire];
/// ```
#[macro_export]
macro_rules! main {
    ($($($segment:ident)::+),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            let program = ::std::option_env!("CARGO_BIN_NAME").unwrap_or("anabranch");
            $crate::program(program, $crate::Library::new(
                $crate::entries![$($($segment::)+Function),+]
            ))
        }
    };
}

/// The entries of the given network functions, each named by its type.
#[macro_export]
macro_rules! entries {
    ($($function:ty),* $(,)?) => {
        ::std::vec![$($crate::entry::<$function>()),*]
    };
}

/// Runs the command line of this process for the functions of `library`: what [`main!`] calls.
/// Messages name the program `program`.
pub fn program(program: &'static str, library: Library) -> ExitCode {
    let command = with_negative_numbers(Arguments::command().name(program));
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refused(program, &error),
    };
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let library = std::panic::AssertUnwindSafe(&library);
    let done = catch_unwind(move || dispatch(program, *library, &arguments.command));
    // The panic itself has been printed where it happened.
    let broken = |_| Err(Error::Internal("stopped by a broken invariant".to_string()));
    match done.unwrap_or_else(broken) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(program, &error),
    }
}

/// Says why, as far as anybody reads it.
fn failed(program: &str, error: &Error) -> ExitCode {
    last_words(format!("{program}: {error}"));
    ExitCode::from(error.code())
}

/// Takes `-1` for a value, of which it is said what to write instead, and not for an option that there is not.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let takes = |argument: clap::Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    let command = command.mut_args(takes);
    names.into_iter().fold(command, |all, name| all.mut_subcommand(name, with_negative_numbers))
}

/// Help and version, which were asked for, on standard output.
fn shown(program: &str, error: &clap::Error) -> ExitCode {
    match print_by(|| error.print()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(program, &error),
    }
}

/// What clap says of a command line that cannot be understood. Which word it is that is no text, clap does not
/// say, nor what a number looks like.
fn refused(program: &str, error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return shown(program, error);
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let ours = match error.kind() {
        clap::error::ErrorKind::InvalidUtf8 => Some(not_text(&words)),
        _ => not_a_number(error),
    };
    let Some(ours) = ours else { error.exit() };
    last_words(format!("{program}: {ours}"));
    ExitCode::from(Error::Usage(String::new()).code())
}

/// Of a word that has to be a whole number and is none: which, and what to write.
fn not_a_number(error: &clap::Error) -> Option<String> {
    use clap::error::ContextKind;
    std::error::Error::source(error)?.downcast_ref::<std::num::ParseIntError>()?;
    let (argument, word) =
        (error.get(ContextKind::InvalidArg)?, error.get(ContextKind::InvalidValue)?.to_string());
    let alone = if anabranch_nf::settings::has_unit(&word) { " without a unit" } else { "" };
    Some(format!("`{word}` for {argument}: write a whole number{alone}"))
}

/// The words that are not UTF-8, each with the option before it, and what to do.
fn not_text(words: &[OsString]) -> String {
    let wrong = words.iter().enumerate().filter(|(_, word)| word.to_str().is_none());
    let named = wrong.map(|(at, word)| {
        let before = at.checked_sub(1).and_then(|at| words.get(at)?.to_str());
        let option = before.filter(|before| before.starts_with('-'));
        let option = option.map_or(String::new(), |option| format!("{option} "));
        format!("`{option}{}`", word.display())
    });
    format!(
        "{}: this is not UTF-8, as names of ports and of files after them have to be; give the file another \
         name, or a link to it (ln -s) that has one",
        named.collect::<Vec<_>>().join(", ")
    )
}

/// The network function of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

fn dispatch(program: &str, library: &Library, command: &Command) -> Result<(), Error> {
    match command {
        Command::Run(arguments) => run::run(library, arguments),
        Command::Top(arguments) => live::top::run(arguments),
        Command::Control(arguments) => live::client::control(arguments),
        Command::Capture(arguments) => live::client::capture(arguments),
        Command::Trace(arguments) => trace::run(library, arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Nfs(arguments) => list::nfs(library, arguments),
        Command::Paths(arguments) => paths::paths(library, arguments),
        Command::Plan(arguments) => plan::run(library, arguments),
        Command::Profile(arguments) => profile::run(library, arguments),
        Command::Verify(arguments) => verify::run(library, arguments),
        Command::Rss(arguments) => rss::rss(arguments),
        Command::State(arguments) => state::run(library, arguments),
        Command::Traffic(arguments) => traffic::traffic(arguments),
        Command::Bench(arguments) => bench::bench(library, arguments),
        Command::New(arguments) => scaffold::new(arguments),
        Command::Completions(arguments) => manual::completions(program, library, arguments),
        Command::Man(arguments) => manual::man(program, arguments),
    }
}
