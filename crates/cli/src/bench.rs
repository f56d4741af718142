//! `bench`: network functions measured against the same job written by hand.

use crate::arguments::BenchArguments;
use crate::error::Error;
use crate::library::Library;

/// Measures and prints.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Output`].
pub(crate) fn bench(library: &Library, arguments: &BenchArguments) -> Result<(), Error> {
    for name in &arguments.nfs {
        library.find(name)?;
    }
    Err(Error::Internal("not here yet".to_string()))
}
