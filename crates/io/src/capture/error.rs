//! What can go wrong with capture files.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a capture could not be read, or not to its end.
///
/// Records that were read before the error are valid.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened: {source}", file.display())]
    Open {
        /// The capture.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Reading failed in the middle of the file.
    #[error("{}: reading failed at byte {offset}, after {records} packets: {source}", file.display())]
    Read {
        /// The capture.
        file: PathBuf,
        /// Where in the file.
        offset: u64,
        /// Packets read before.
        records: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{}: not a capture, but {found}; give a pcap or pcapng file", file.display())]
    NotACapture {
        /// The file.
        file: PathBuf,
        /// What it seems to be.
        found: &'static str,
    },
    /// The packets are not Ethernet frames.
    #[error(
        "{}: link type {number} ({name}) is not supported, only Ethernet (1) is; \
         capture on an Ethernet interface, or rewrite the link layer of this file first",
        file.display()
    )]
    UnsupportedLinkType {
        /// The capture.
        file: PathBuf,
        /// The link type's number in the registry of the pcap format.
        number: u32,
        /// Its name there.
        name: &'static str,
    },
    /// The file ends in the middle of a record.
    #[error(
        "{}: ends in the middle of a packet or block that starts at byte {offset}, after {records} \
         packets; the capture was cut off, what comes before is sound",
        file.display()
    )]
    Truncated {
        /// The capture.
        file: PathBuf,
        /// Where the unfinished record starts.
        offset: u64,
        /// Packets read before.
        records: u64,
    },
    /// A record contradicts the format.
    #[error(
        "{}: damaged at byte {offset}, after {records} packets: {what}; what comes before is sound",
        file.display()
    )]
    Corrupt {
        /// The capture.
        file: PathBuf,
        /// Where the damaged record starts.
        offset: u64,
        /// Packets read before.
        records: u64,
        /// What contradicts the format.
        what: &'static str,
    },
}

impl CaptureError {
    /// Packets that were read before the error.
    pub fn records_before(&self) -> u64 {
        match self {
            Self::Read { records, .. }
            | Self::Truncated { records, .. }
            | Self::Corrupt { records, .. } => *records,
            _ => 0,
        }
    }
}

/// Why a capture could not be written. Nothing is left under its final name.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file cannot be created.
    #[error("{}: cannot be written: {}", file.display(), why_not_made(file, source))]
    Create {
        /// The capture.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something that is not a regular file already has this name.
    #[error("{}: is not a regular file; give a file name, or `null` to discard the packets", file.display())]
    NotAFile {
        /// What has the name.
        file: PathBuf,
    },
    /// Another writer is at work on the same capture.
    #[error("{}: is already being written; give each output a file of its own", file.display())]
    InUse {
        /// The capture.
        file: PathBuf,
    },
    /// The file name says no format.
    #[error("{}: no capture format has this extension; write .pcap or .pcapng", file.display())]
    UnknownFormat {
        /// The capture.
        file: PathBuf,
    },
    /// Writing failed, for example because the disk is full.
    #[error("{}: writing failed after {records} packets: {source}; the unfinished file is removed", file.display())]
    Write {
        /// The capture.
        file: PathBuf,
        /// Packets written before.
        records: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A time after the year 2106 does not fit pcap's 32-bit seconds.
    #[error("{}: the time {timestamp_ns} ns does not fit the pcap format (until 2106); write a .pcapng file", file.display())]
    TimestampTooLate {
        /// The capture.
        file: PathBuf,
        /// The time, nanoseconds since the Unix epoch.
        timestamp_ns: u64,
    },
}

/// Why the file `path` cannot be made, where the system said `cause`.
pub fn why_not_made(path: &Path, cause: &io::Error) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let is_missing = cause.kind() == io::ErrorKind::NotFound;
    match folder.filter(|folder| is_missing && !folder.exists()) {
        Some(folder) => format!("there is no directory {}: make it first", folder.display()),
        None => cause.to_string(),
    }
}
