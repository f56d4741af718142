//! Entry points: which handlers there are, what is known when each starts, and what its end means.

mod class;
mod entry;
mod headers;
mod run;

pub(crate) use entry::{Entry, entries};
