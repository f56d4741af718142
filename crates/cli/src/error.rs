//! What can go wrong, in words for a person and an exit code for a script.

use std::path::Path;

use anabranch_io::capture::{CaptureError, why_not_made};
use anabranch_runtime::report::ErrorKind;
use anabranch_runtime::threads::no_thread;

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
    /// A network function cannot be analysed: its source is refused, a budget is exceeded, or the
    /// solver cannot be run.
    #[error("{0}")]
    Analysis(String),
    /// Many cores do not do what one core does.
    #[error("{0}")]
    Different(String),
    /// A broken invariant of Anabranch itself.
    #[error("{0}; this is a fault in Anabranch, please report it")]
    Internal(String),
}

impl Error {
    /// An output error about `path`.
    pub(crate) fn output(path: &Path, cause: &std::io::Error) -> Error {
        let why = why_not_made(path, cause);
        Error::Output(format!("{}: cannot be written: {why}", path.display()))
    }

    /// `feature`, which a command needs, was not compiled in.
    pub(crate) fn without(feature: &str) -> Error {
        Error::Usage(format!(
            "this program was compiled without `{feature}`; build it with the feature `{feature}`: \
             cargo build --release --package anabranch --features {feature}"
        ))
    }

    /// No thread can be had for `what`.
    pub(crate) fn no_thread(what: &str, cause: &std::io::Error) -> Error {
        Error::Input(no_thread(what, cause))
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

    /// A capture that cannot be read as a whole.
    pub(crate) fn of_capture(cause: &CaptureError) -> Error {
        let message = cause.to_string();
        match cause {
            CaptureError::UnsupportedLinkType { .. } => Error::LinkType(message),
            _ => Error::Input(message),
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
            Error::Analysis(_) => 8,
            Error::Different(_) => 9,
            Error::Internal(_) => 70,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_documented_ones() {
        let errors = [
            (Error::Usage(String::new()), 2),
            (Error::Settings(String::new()), 3),
            (Error::Input(String::new()), 4),
            (Error::LinkType(String::new()), 5),
            (Error::of_run(ErrorKind::Output, String::new()), 6),
            (Error::UnknownNf(String::new()), 7),
            (Error::Analysis(String::new()), 8),
            (Error::Different(String::new()), 9),
            (Error::Internal(String::new()), 70),
        ];
        for (error, code) in errors {
            assert_eq!(error.code(), code, "{error}");
        }
    }
}
