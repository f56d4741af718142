//! Writing captures.

use super::pcap::{MAGIC_MICROSECONDS, MAGIC_NANOSECONDS};
use super::pcapng::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, OPTION_TSRESOL, SECTION_HEADER,
};
use super::{LINKTYPE_ETHERNET, MAX_CAPTURED_LEN, Record, WriteError};
use std::ffi::OsString;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes collected before they are written.
const BUFFER_LEN: usize = 1 << 20;

/// The format of a capture to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CaptureFormat {
    /// pcap with nanosecond timestamps.
    #[default]
    PcapNanoseconds,
    /// pcap with microsecond timestamps, which are rounded down: for tools that know nothing newer.
    PcapMicroseconds,
    /// pcapng: one section, one interface, nanosecond timestamps.
    Pcapng,
}

impl CaptureFormat {
    /// The format a file name asks for by its extension: `.pcap` (or `.cap`, or none) or
    /// `.pcapng`. `None` for others.
    pub fn of_file_name(path: &Path) -> Option<Self> {
        let Some(extension) = path.extension() else {
            return Some(Self::PcapNanoseconds);
        };
        match extension.to_ascii_lowercase().to_str() {
            Some("pcap" | "cap") => Some(Self::PcapNanoseconds),
            Some("pcapng" | "ntar") => Some(Self::Pcapng),
            _ => None,
        }
    }
}

/// Writes a capture. Its bytes go to `NAME.part`, and [`finish`](Self::finish) gives the file its
/// name; a writer dropped before leaves nothing behind. A file that is replaced passes on its permissions; of a
/// link the file it leads to is replaced.
///
/// Numbers are little-endian. What is read back has the same bytes, lengths and times.
#[derive(Debug)]
pub struct CaptureWriter {
    out: BufWriter<File>,
    format: CaptureFormat,
    /// As it was named, and what it is.
    file: PathBuf,
    place: PathBuf,
    records: u64,
    finished: bool,
}

impl CaptureWriter {
    /// Starts a capture in the format its extension asks for.
    ///
    /// Fails when the extension is unknown or the file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let unknown = || WriteError::UnknownFormat { file: path.to_owned() };
        let format = CaptureFormat::of_file_name(path).ok_or_else(unknown)?;
        Self::create_as(path, format)
    }

    /// Starts a capture in a format of choice.
    ///
    /// Fails when the file cannot be created, when something other than a regular file has its
    /// name, or when another writer is at work on it.
    pub fn create_as(path: impl AsRef<Path>, format: CaptureFormat) -> Result<Self, WriteError> {
        let file = path.as_ref().to_owned();
        let replaced = fs::metadata(&file).ok();
        if replaced.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            return Err(WriteError::NotAFile { file });
        }
        let place = identity(&file);
        let permissions = replaced.map(|metadata| metadata.permissions());
        let out = match create_part(&part_of(&place), permissions) {
            Ok(out) => BufWriter::with_capacity(BUFFER_LEN, out),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(WriteError::InUse { file });
            }
            Err(source) => return Err(WriteError::Create { file, source }),
        };
        let mut writer = Self { out, format, file, place, records: 0, finished: false };
        let written = writer.write_header();
        written.map_err(|source| writer.failed(source))?;
        Ok(writer)
    }

    fn write_header(&mut self) -> io::Result<()> {
        let link = LINKTYPE_ETHERNET;
        match self.format {
            CaptureFormat::PcapNanoseconds => self.write_pcap_header(MAGIC_NANOSECONDS, link),
            CaptureFormat::PcapMicroseconds => self.write_pcap_header(MAGIC_MICROSECONDS, link),
            CaptureFormat::Pcapng => self.write_section_header(link),
        }
    }

    /// Magic, version 2.4, two reserved words, maximal packet length, link type.
    fn write_pcap_header(&mut self, magic: u32, link: u32) -> io::Result<()> {
        let version = 2 | 4 << 16;
        self.write_words(&[magic, version, 0, 0, MAX_CAPTURED_LEN, link])
    }

    /// A section of unknown length and one interface whose times are nanoseconds.
    fn write_section_header(&mut self, link: u32) -> io::Result<()> {
        let unknown = u32::MAX;
        self.write_words(&[SECTION_HEADER, 28, BYTE_ORDER_MAGIC, 1, unknown, unknown, 28])?;
        let resolution = u32::from(OPTION_TSRESOL) | 1 << 16;
        self.write_words(&[INTERFACE_DESCRIPTION, 32, link, MAX_CAPTURED_LEN, resolution, 9, 0, 32])
    }

    /// Appends a packet.
    ///
    /// Fails when writing does, or when the time does not fit the format.
    #[inline]
    pub fn write(&mut self, record: &Record<'_>) -> Result<(), WriteError> {
        let written = match self.format {
            CaptureFormat::Pcapng => self.write_block(record),
            _ => {
                let (seconds, fraction) = self.split_time(record.timestamp_ns)?;
                let captured = record.bytes.len() as u32;
                self.write_words(&[seconds, fraction, captured, record.wire_len])
                    .and_then(|()| self.out.write_all(record.bytes))
            }
        };
        written.map_err(|source| self.failed(source))?;
        self.records += 1;
        Ok(())
    }

    fn split_time(&self, timestamp_ns: u64) -> Result<(u32, u32), WriteError> {
        let Ok(seconds) = u32::try_from(timestamp_ns / 1_000_000_000) else {
            let file = self.file.clone();
            return Err(WriteError::TimestampTooLate { file, timestamp_ns });
        };
        let nanoseconds = (timestamp_ns % 1_000_000_000) as u32;
        match self.format {
            CaptureFormat::PcapMicroseconds => Ok((seconds, nanoseconds / 1_000)),
            _ => Ok((seconds, nanoseconds)),
        }
    }

    fn write_block(&mut self, record: &Record<'_>) -> io::Result<()> {
        let captured = record.bytes.len() as u32;
        let total = 32 + captured.next_multiple_of(4);
        let (high, low) = ((record.timestamp_ns >> 32) as u32, record.timestamp_ns as u32);
        let interface = 0;
        self.write_words(&[
            ENHANCED_PACKET,
            total,
            interface,
            high,
            low,
            captured,
            record.wire_len,
        ])?;
        self.out.write_all(record.bytes)?;
        self.out.write_all(&[0; 4][..(captured.next_multiple_of(4) - captured) as usize])?;
        self.write_words(&[total])
    }

    #[inline]
    fn write_words<const N: usize>(&mut self, words: &[u32; N]) -> io::Result<()> {
        self.out.write_all(words.map(u32::to_le_bytes).as_flattened())
    }

    /// Packets written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The file's final name.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Completes the capture and gives it its name. Returns the number of packets in it.
    ///
    /// Fails when the last bytes cannot be written or the file cannot be renamed.
    pub fn finish(mut self) -> Result<u64, WriteError> {
        let part = part_of(&self.place);
        let written = self.out.flush().and_then(|()| fs::rename(part, &self.place));
        written.map_err(|source| self.failed(source))?;
        self.finished = true;
        Ok(self.records)
    }

    #[cold]
    fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Write { file: self.file.clone(), records: self.records, source }
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done about a part that cannot be removed: it has no final name.
            let _ = fs::remove_file(part_of(&self.place));
        }
    }
}

/// The file that `path` names, however it is written: two paths of one file have one identity.
pub fn identity(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let of_new = || {
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(of_new).unwrap_or_else(|| path.to_owned())
}

/// `NAME.part`, beside the final file so that renaming is atomic.
pub fn part_of(file: &Path) -> PathBuf {
    let mut name: OsString = file.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Creates or takes over the part file. The lock tells a leftover from a writer at work.
fn create_part(part: &Path, permissions: Option<Permissions>) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    if let Some(these) = &permissions {
        // From the first moment on: nobody else may open it before.
        options.mode(these.mode());
    }
    let out = options.open(part)?;
    match out.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    out.set_len(0)?;
    permissions.into_iter().try_for_each(|these| out.set_permissions(these))?;
    Ok(out)
}
