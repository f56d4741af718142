//! `paths`: every call path of a network function.

use anabranch_analysis::{Budget, Paths};
use anabranch_nf::Source;
use anabranch_runtime::deployment;

use crate::arguments::PathsArguments;
use crate::error::Error;
use crate::file::print;
use crate::library::Library;
use crate::progress::meanwhile;
use crate::run::to_json;

/// Prints the call paths, as text or as JSON.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Analysis`] when the source is refused or the solver cannot be
/// run, [`Error::Output`].
pub(crate) fn paths(library: &Library, arguments: &PathsArguments) -> Result<(), Error> {
    let source = library.find(&arguments.nf)?.source();
    let paths = find(&arguments.nf, &source, Budget::default())?;
    if arguments.json { print(&to_json(&paths)?) } else { print(&paths.to_text()) }
}

/// All call paths of the function `nf` of this source, with all that can be proved of its state, which may take
/// some time.
///
/// # Errors
/// [`Error::Analysis`].
pub(crate) fn find(nf: &str, source: &Source, budget: Budget) -> Result<Paths, Error> {
    let said = "finding call paths, and what is so of state on each";
    let paths = meanwhile(nf, said, || deployment::paths_of(source, budget));
    paths.map_err(|cause| Error::Analysis(cause.to_string()))
}
