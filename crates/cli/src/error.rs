//! What can go wrong, in words for a person and an exit code for a script.

use std::path::Path;
use std::process::ExitCode;

use anabranch_runtime::report::ErrorKind;

/// A failure of a command. Its text says what was wrong, where, and what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is well-formed but makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A setting, a configuration file or a control command is wrong.
    #[error("{0}")]
    Settings(String),
    /// An input cannot be read.
    #[error("{0}")]
    Input(String),
    /// An input holds packets of a link type that is not supported.
    #[error("{0}")]
    LinkType(String),
    /// An output cannot be written.
    #[error("{0}")]
    Output(String),
    /// There is no such network function.
    #[error("{0}")]
    UnknownNf(String),
    /// A broken invariant of Anabranch itself.
    #[error("{0}; this is a fault in Anabranch, please report it")]
    Internal(String),
}

impl Error {
    /// An output error about `path`.
    pub(crate) fn output(path: &Path, cause: &std::io::Error) -> Error {
        Error::Output(format!("{}: cannot be written: {cause}", path.display()))
    }

    /// The error a run's first failure stands for.
    pub(crate) fn of_run(kind: ErrorKind, message: String) -> Error {
        match kind {
            ErrorKind::Input => Error::Input(message),
            ErrorKind::LinkType => Error::LinkType(message),
            ErrorKind::Control => Error::Settings(message),
            ErrorKind::Output => Error::Output(message),
        }
    }

    /// The program's exit code for this error; stable, see `docs/report.md`.
    pub fn code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Settings(_) => 3,
            Error::Input(_) => 4,
            Error::LinkType(_) => 5,
            Error::Output(_) => 6,
            Error::UnknownNf(_) => 7,
            Error::Internal(_) => 70,
        }
    }
}

impl From<&Error> for ExitCode {
    fn from(error: &Error) -> ExitCode {
        ExitCode::from(error.code())
    }
}

/// The names among `known` that `name` may have been meant to be, for "did you mean".
pub(crate) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = name.chars().count() / 3 + 1;
    known
        .into_iter()
        .map(|candidate| (edits(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that make `b` of `a` (Levenshtein 1966), row by row.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let replaced = diagonal + usize::from(letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("nat", "nat"), 0);
        assert_eq!(edits("kitten", "sitting"), 3);
    }

    #[test]
    fn a_typing_error_finds_its_word() {
        let known = ["nat", "firewall", "policer", "bridge"];
        assert_eq!(closest("fierwall", known), Some("firewall"));
        assert_eq!(closest("nta", known), Some("nat"));
        assert_eq!(closest("ids", known), None);
    }

    #[test]
    fn codes_are_the_documented_ones() {
        let errors = [
            (Error::Usage(String::new()), 2),
            (Error::Settings(String::new()), 3),
            (Error::Input(String::new()), 4),
            (Error::LinkType(String::new()), 5),
            (Error::of_run(ErrorKind::Output, String::new()), 6),
            (Error::UnknownNf(String::new()), 7),
            (Error::Internal(String::new()), 70),
        ];
        for (error, code) in errors {
            assert_eq!(error.code(), code, "{error}");
        }
    }
}
