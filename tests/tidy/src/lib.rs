//! Keeps the house tidy: the habits of `CONTRIBUTING.md` that a test can hold.
//!
//! Every rule is a function from the [`House`] (all text files of the workspace, parsed where they
//! are Rust) to the places that break it, and has a test of its own that shows it can fail.
//! `tests/house.rs` applies all of them to this workspace. Nothing depends on this crate.

pub mod calls;
pub mod copies;
pub mod documents;
pub mod house;
pub mod layers;
pub mod lengths;
pub mod licences;
pub mod names;
pub mod words;

pub use house::{House, Source};

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong, and what to do instead.
    pub message: String,
}

impl Violation {
    /// A violation at a line of a file.
    pub fn new(source: &Source, line: usize, message: impl Into<String>) -> Violation {
        Violation { path: source.path.clone(), line, message: message.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
