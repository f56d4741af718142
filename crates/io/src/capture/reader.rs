//! Reading captures of any format.

use super::pcap::Pcap;
use super::pcapng::{Pcapng, SECTION_HEADER};
use super::window::Window;
use super::{CaptureError, Fault, Found, LINKTYPE_ETHERNET, Record, link_type_name};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Reads the packets of a pcap or pcapng capture, one after the other.
///
/// Memory stays at 1 MiB, or at the longest block of the file (at most 16 MiB).
#[derive(Debug)]
pub struct CaptureReader<R = File> {
    window: Window<R>,
    format: Format,
    file: PathBuf,
    file_len: Option<u64>,
    records: u64,
    ended: bool,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl CaptureReader<File> {
    /// Opens a capture file and reads its header.
    ///
    /// Fails when the file cannot be read, is no capture, or (pcap) has an unsupported link type.
    /// In pcapng files the link type belongs to each packet, so there [`next_record`] reports it.
    ///
    /// [`next_record`]: Self::next_record
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let failed = |source| CaptureError::Open { file: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            let found = "a directory";
            return Err(CaptureError::NotACapture { file: path.to_owned(), found });
        }
        let mut reader = Self::from_stream(file, path)?;
        reader.file_len = metadata.is_file().then_some(metadata.len());
        Ok(reader)
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads a capture from any stream; `name` stands for the file in errors.
    ///
    /// Fails as [`open`](CaptureReader::open) does.
    pub fn from_stream(stream: R, name: impl Into<PathBuf>) -> Result<Self, CaptureError> {
        let mut window = Window::new(stream);
        let file = name.into();
        let format = Format::Pcapng(Pcapng::new());
        let opened = window.need(4);
        let magic = window.bytes().first_chunk::<4>().copied();
        let mut reader = Self { window, format, file, file_len: None, records: 0, ended: false };
        opened.map_err(|error| reader.error(Fault::Read(error)))?;
        reader.detect(magic)?;
        Ok(reader)
    }

    fn detect(&mut self, magic: Option<[u8; 4]>) -> Result<(), CaptureError> {
        if let Some(mut pcap) = magic.and_then(Pcap::detect) {
            let link_type = pcap.open(&mut self.window).map_err(|fault| self.error(fault))?;
            if link_type != LINKTYPE_ETHERNET {
                return Err(self.error(Fault::LinkType(link_type)));
            }
            self.format = Format::Pcap(pcap);
        } else if magic != Some(SECTION_HEADER.to_be_bytes()) {
            let found = what_is_it(self.window.bytes());
            return Err(CaptureError::NotACapture { file: self.file.clone(), found });
        }
        Ok(())
    }

    /// The next packet, in the file's order; `None` at the end, and always after an error.
    ///
    /// Errors are those of the file's contents; packets returned before are valid.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.window),
        };
        match found {
            Ok(Some(found)) => Ok(Some(self.take(found))),
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(fault) => {
                self.ended = true;
                Err(self.error(fault))
            }
        }
    }

    #[inline]
    fn take(&mut self, found: Found) -> Record<'_> {
        self.records += 1;
        let block = self.window.consume(found.total);
        let bytes = &block[found.at..found.at + found.captured_len];
        Record { timestamp_ns: found.timestamp_ns, wire_len: found.wire_len, bytes }
    }

    #[cold]
    fn error(&self, fault: Fault) -> CaptureError {
        let (file, offset, records) =
            (self.file.clone(), self.window.record_offset(), self.records);
        match fault {
            Fault::Truncated => CaptureError::Truncated { file, offset, records },
            Fault::Corrupt(what) => CaptureError::Corrupt { file, offset, records, what },
            Fault::Read(source) => CaptureError::Read { file, offset, records, source },
            Fault::LinkType(number) => {
                CaptureError::UnsupportedLinkType { file, number, name: link_type_name(number) }
            }
        }
    }

    /// The file's name, as it was given.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Packets read so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of the file read so far.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Bytes of the whole file; `None` for streams, whose end is not known.
    pub fn file_len(&self) -> Option<u64> {
        self.file_len
    }
}

/// Names what else a file may be, from its first bytes.
fn what_is_it(start: &[u8]) -> &'static str {
    match start {
        [] => "an empty file",
        [0x1f, 0x8b, ..] => "a gzip file (decompress it first)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "a zstd file (decompress it first)",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "an xz file (decompress it first)",
        [0x04, 0x22, 0x4d, 0x18, ..] => "an lz4 file (decompress it first)",
        [0x34, 0xcd, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xcd, 0x34, ..] => {
            "a pcap file of Kuznetzov's modified format (convert it with editcap)"
        }
        [b's', b'n', b'o', b'o', b'p', ..] => "a snoop file (convert it with editcap)",
        _ => "something else",
    }
}
