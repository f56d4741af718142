//! The classic pcap format: a file header, then records.

use super::window::Window;
use super::{Endian, Fault, Found, MAX_CAPTURED_LEN};
use std::io::Read;

/// Magic number of files with microseconds.
pub(super) const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Magic number of files with nanoseconds.
pub(super) const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;

/// What the file header says.
#[derive(Debug)]
pub(super) struct Pcap {
    endian: Endian,
    /// Nanoseconds in one unit of a timestamp's fraction: 1 or 1,000.
    fraction_ns: u64,
    /// Bytes of a frame check sequence at the end of every packet.
    check_len: u32,
}

impl Pcap {
    /// The format of a file that starts with `magic`; `None` when it is not pcap.
    pub(super) fn detect(magic: [u8; 4]) -> Option<Self> {
        let fraction_ns = |number| match number {
            MAGIC_MICROSECONDS => Some(1_000),
            MAGIC_NANOSECONDS => Some(1),
            _ => None,
        };
        [Endian::Little, Endian::Big].into_iter().find_map(|endian| {
            let fraction_ns = fraction_ns(endian.u32(magic))?;
            Some(Self { endian, fraction_ns, check_len: 0 })
        })
    }

    /// Reads the file header and returns the link type.
    pub(super) fn open<R: Read>(&mut self, window: &mut Window<R>) -> Result<u32, Fault> {
        /// The upper four bits say how long the frame check sequence is, in words of 16 bits
        /// (draft-ietf-opsawg-pcap, 4).
        const HAS_CHECK_LEN: u32 = 1 << 26;
        if !window.need(FILE_HEADER_LEN)? {
            return Err(Fault::Truncated);
        }
        let network = self.endian.word(window.consume(FILE_HEADER_LEN), 5);
        if network & HAS_CHECK_LEN != 0 {
            self.check_len = (network >> 28) * 2;
        }
        Ok(network & 0xffff)
    }

    /// Finds the next record; `None` at the end of the file.
    #[inline]
    pub(super) fn next<R: Read>(&self, window: &mut Window<R>) -> Result<Option<Found>, Fault> {
        window.begin_record();
        if !window.need(RECORD_HEADER_LEN)? {
            return if window.bytes().is_empty() { Ok(None) } else { Err(Fault::Truncated) };
        }
        let header = window.bytes();
        let [seconds, fraction, captured_len, wire_len] =
            [0, 1, 2, 3].map(|index| self.endian.word(header, index));
        if captured_len > MAX_CAPTURED_LEN {
            return Err(Fault::Corrupt("a packet longer than any capture program stores"));
        }
        let total = RECORD_HEADER_LEN + captured_len as usize;
        if !window.need(total)? {
            return Err(Fault::Truncated);
        }
        let found = Found {
            timestamp_ns: u64::from(seconds) * 1_000_000_000
                + u64::from(fraction) * self.fraction_ns,
            wire_len,
            at: RECORD_HEADER_LEN,
            captured_len: captured_len as usize,
            total,
        };
        Ok(Some(found.without_check(self.check_len)))
    }
}
