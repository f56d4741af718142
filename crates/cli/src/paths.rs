//! `paths`: every call path of a network function.

use crate::arguments::PathsArguments;
use crate::error::Error;
use crate::library::Library;

/// Prints the call paths, as text or as JSON.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Output`].
pub(crate) fn paths(library: &Library, arguments: &PathsArguments) -> Result<(), Error> {
    let _source = library.find(&arguments.nf)?.source();
    Err(Error::Internal("not here yet".to_string()))
}
