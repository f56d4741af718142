//! `anabranch top`: a living run, seen from another terminal.

use super::arguments::TopArguments;
use super::client::report;
use crate::error::Error;
use crate::file::print;
use crate::{run, summary};

/// Shows the run, until it is over or the user has seen enough.
///
/// # Errors
/// [`Error::Input`]: no run listens there. [`Error::Usage`]: this is no terminal.
pub(crate) fn run(arguments: &TopArguments) -> Result<(), Error> {
    if arguments.json {
        print(&run::to_json(&report(&arguments.socket)?)?)
    } else if arguments.once {
        print(&summary::render(&report(&arguments.socket)?))
    } else {
        watch(arguments)
    }
}

#[cfg(feature = "terminal")]
fn watch(arguments: &TopArguments) -> Result<(), Error> {
    super::screen::watch(|| report(&arguments.socket), arguments.every.0)
}

#[cfg(not(feature = "terminal"))]
fn watch(_: &TopArguments) -> Result<(), Error> {
    Err(Error::Usage(
        "this program was built without the feature `terminal`: give --once or --json".to_owned(),
    ))
}
