//! What can be wrong with a written source or sink.

use std::path::PathBuf;
use thiserror::Error;

/// Why a source or sink cannot be understood. Who reports it says first what was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// The word before the colon is none of ours.
    #[error(
        "there is no kind `{kind}:`; write {expected} \
         (a file whose name contains a colon is written pcap:{spec})"
    )]
    UnknownKind {
        /// The whole text.
        spec: String,
        /// The word before the colon.
        kind: String,
        /// The words that are known.
        expected: &'static str,
    },
    /// `null` was given as a source.
    #[error("this is a sink; as a source give a capture, mem: or gen:")]
    NotASource,
    /// No file name follows the kind.
    #[error("the file name is missing; write for example {spec}FILE")]
    NoFile {
        /// The whole text.
        spec: String,
    },
    /// No port's name stands before the `=`.
    #[error(
        "the port's name is missing before `=` \
         (a file whose name begins so is written pcap:{spec})"
    )]
    NoPort {
        /// The whole text.
        spec: String,
    },
    /// What stands before the `=` cannot be a port's name.
    #[error(
        "`{port}` is no port's name: it has letters, digits, `-` and `_` \
         (a file whose name has a `=` is written pcap:{spec})"
    )]
    BadPort {
        /// What stands there.
        port: String,
        /// The whole text.
        spec: String,
    },
    /// `-`, where other programs have standard input and output.
    #[error(
        "`-` is no file: read standard input as /dev/stdin; captures are written to files only"
    )]
    Dash,
    /// An output file's extension names no capture format.
    #[error("{}: no capture format has this extension; write .pcap or .pcapng", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
    },
    /// An option that does not exist.
    #[error("unknown option `{option}`; there are {known}")]
    UnknownOption {
        /// Its name.
        option: String,
        /// Those that exist.
        known: &'static str,
    },
    /// An option's value is not of its type, or out of range.
    #[error("{option}={value}: {expected}")]
    InvalidValue {
        /// The option.
        option: String,
        /// What was given.
        value: String,
        /// What to write.
        expected: String,
    },
    /// Options that cannot go together.
    #[error("{0}")]
    Contradiction(String),
}

impl SpecError {
    pub(crate) fn unknown_kind(spec: &str, kind: &str, expected: &'static str) -> Self {
        Self::UnknownKind { spec: spec.to_owned(), kind: kind.to_owned(), expected }
    }

    pub(crate) fn unknown_option(option: &str, known: &'static str) -> Self {
        Self::UnknownOption { option: option.to_owned(), known }
    }

    pub(crate) fn invalid(option: &str, value: &str, expected: impl Into<String>) -> Self {
        Self::InvalidValue {
            option: option.to_owned(),
            value: value.to_owned(),
            expected: expected.into(),
        }
    }
}
