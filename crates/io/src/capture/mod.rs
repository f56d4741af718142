//! Capture files: pcap and pcapng, read record by record and written whole.
//!
//! Reading streams through one buffer, so memory does not grow with the file. Writing goes to
//! `NAME.part`, which takes its final name only when it is complete.
//!
//! Sources: the Internet drafts draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

mod error;
mod link;
mod pcap;
mod pcapng;
mod reader;
mod window;
mod writer;

pub use error::{CaptureError, WriteError, why_not_made};
pub use link::link_type_name;
pub use reader::CaptureReader;
pub use writer::{CaptureFormat, CaptureWriter, identity, part_of};

/// The link type of Ethernet, the only one that is supported.
pub const LINKTYPE_ETHERNET: u32 = 1;

/// Bytes of the longest packet a capture may hold, as in libpcap.
pub const MAX_CAPTURED_LEN: u32 = 262_144;

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp_ns: u64,
    /// Bytes the packet had on the wire; more than were captured when it was cut off.
    pub wire_len: u32,
    /// The bytes that were captured, from the Ethernet header on.
    pub bytes: &'a [u8],
}

/// Byte order of the numbers in a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endian {
    Little,
    Big,
}

impl Endian {
    #[inline]
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The `index`-th 32-bit word of `bytes`; zero past their end.
    #[inline]
    fn word(self, bytes: &[u8], index: usize) -> u32 {
        let word = bytes.get(index * 4..).and_then(|rest| rest.first_chunk());
        self.u32(word.copied().unwrap_or_default())
    }
}

/// A record found in the window: where its bytes are, relative to the window's start.
#[derive(Clone, Copy, Debug)]
struct Found {
    timestamp_ns: u64,
    wire_len: u32,
    /// Offset of the first captured byte.
    at: usize,
    captured_len: usize,
    /// Bytes of the whole record or block.
    total: usize,
}

impl Found {
    /// The packet without a frame check sequence of so many bytes at its end. That is no part of the packet, neither
    /// of its length nor, unless it was cut off, of what was captured.
    #[inline]
    fn without_check(self, check_len: u32) -> Self {
        if check_len == 0 {
            return self;
        }
        let wire_len = self.wire_len.saturating_sub(check_len);
        Self { wire_len, captured_len: self.captured_len.min(wire_len as usize), ..self }
    }
}

/// What is wrong with a capture, before the file and offset are known.
#[derive(Debug)]
enum Fault {
    Truncated,
    Corrupt(&'static str),
    LinkType(u32),
    Read(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Read(error)
    }
}
