//! `paths`: every call path of a network function.

use anabranch_analysis::Budget;
use anabranch_runtime::deployment;

use crate::arguments::PathsArguments;
use crate::error::Error;
use crate::file::print;
use crate::library::Library;
use crate::run::to_json;

/// Prints the call paths, as text or as JSON.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Analysis`] when the source is refused or the solver cannot be
/// run, [`Error::Output`].
pub(crate) fn paths(library: &Library, arguments: &PathsArguments) -> Result<(), Error> {
    let source = library.find(&arguments.nf)?.source();
    let paths = deployment::paths_of(&source, Budget::default());
    let paths = paths.map_err(|cause| Error::Analysis(cause.to_string()))?;
    if arguments.json { print(&to_json(&paths)?) } else { print(&paths.to_text()) }
}
