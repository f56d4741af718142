//! The pcapng format: sections of blocks. Packets refer to interfaces, which give the link type
//! and the unit of the timestamps.

use super::window::Window;
use super::{Endian, Fault, Found, LINKTYPE_ETHERNET, MAX_CAPTURED_LEN};
use std::io::Read;

/// Type of a section header block; reads the same in both byte orders.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Block type and length before the body, the length again after it.
const BLOCK_HEADER_LEN: usize = 8;
const BLOCK_TRAILER_LEN: usize = 4;
/// Interface, timestamp (two words), captured length, original length.
const PACKET_HEADER_LEN: usize = 20;
/// Blocks that have to be held in memory are at most this long, as in libpcap.
const MAX_BLOCK_LEN: usize = 16 << 20;
const MAX_INTERFACES: usize = 65_536;

pub(super) const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;
const OPTION_FCSLEN: u16 = 13;
/// Of a packet.
const OPTION_FLAGS: u16 = 2;

/// The state of the section that is being read.
#[derive(Debug)]
pub(super) struct Pcapng {
    endian: Endian,
    interfaces: Vec<Interface>,
    /// Given to simple packets, which have no time of their own.
    last_timestamp_ns: u64,
}

impl Pcapng {
    /// A file of which no section was read yet.
    pub(super) fn new() -> Self {
        Self { endian: Endian::Little, interfaces: Vec::new(), last_timestamp_ns: 0 }
    }

    /// Finds the next packet; `None` at the end of the file.
    pub(super) fn next<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<Found>, Fault> {
        loop {
            window.begin_record();
            if !window.need(BLOCK_HEADER_LEN)? {
                return if window.bytes().is_empty() { Ok(None) } else { Err(Fault::Truncated) };
            }
            let kind = self.endian.word(window.bytes(), 0);
            if kind == SECTION_HEADER {
                self.open_section(window)?;
                continue;
            }
            let total = block_len(self.endian.word(window.bytes(), 1))?;
            match kind {
                INTERFACE_DESCRIPTION => {
                    self.add_interface(self.body(window, total)?)?;
                    window.consume(total);
                }
                ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET => {
                    return self.packet(kind, window, total).map(Some);
                }
                _ => self.skip_block(window, total)?,
            }
        }
    }

    /// Reads a section header, which sets the byte order of what follows.
    fn open_section<R: Read>(&mut self, window: &mut Window<R>) -> Result<(), Fault> {
        if !window.need(BLOCK_HEADER_LEN + 8)? {
            return Err(Fault::Truncated);
        }
        let header = window.bytes();
        self.endian = [Endian::Little, Endian::Big]
            .into_iter()
            .find(|endian| endian.word(header, 2) == BYTE_ORDER_MAGIC)
            .ok_or(Fault::Corrupt("a section header without the byte-order magic"))?;
        let version = self.endian.u16([header[12], header[13]]);
        if version != 1 {
            return Err(Fault::Corrupt("a section of a pcapng version other than 1"));
        }
        self.interfaces.clear();
        let total = block_len(self.endian.word(header, 1))?;
        self.skip_block(window, total)
    }

    fn skip_block<R: Read>(&self, window: &mut Window<R>, total: usize) -> Result<(), Fault> {
        if !window.skip(total - BLOCK_TRAILER_LEN)? || !window.need(BLOCK_TRAILER_LEN)? {
            return Err(Fault::Truncated);
        }
        if self.endian.word(window.consume(BLOCK_TRAILER_LEN), 0) as usize != total {
            return Err(MISMATCH);
        }
        Ok(())
    }

    /// Brings a whole block into memory and returns its body.
    fn body<'w, R: Read>(
        &self,
        window: &'w mut Window<R>,
        total: usize,
    ) -> Result<&'w [u8], Fault> {
        if total > MAX_BLOCK_LEN {
            return Err(Fault::Corrupt("a packet block of more than 16 MiB"));
        }
        if !window.need(total)? {
            return Err(Fault::Truncated);
        }
        let (rest, trailer) = window.bytes()[..total].split_at(total - BLOCK_TRAILER_LEN);
        if self.endian.word(trailer, 0) as usize != total {
            return Err(MISMATCH);
        }
        Ok(&rest[BLOCK_HEADER_LEN..])
    }

    fn add_interface(&mut self, body: &[u8]) -> Result<(), Fault> {
        if body.len() < 8 {
            return Err(Fault::Corrupt("an interface description that is too short"));
        }
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Fault::Corrupt("more than 65,536 interfaces in one section"));
        }
        let mut interface = Interface {
            link_type: u32::from(self.endian.u16([body[0], body[1]])),
            snap_len: self.endian.word(body, 1),
            resolution: Resolution::MICROSECONDS,
            offset_s: 0,
            check_len: 0,
        };
        for (code, value) in options(self.endian, &body[8..]) {
            interface.apply(self.endian, code, value);
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn packet<R: Read>(
        &mut self,
        kind: u32,
        window: &mut Window<R>,
        total: usize,
    ) -> Result<Found, Fault> {
        let body = self.body(window, total)?;
        let found = match kind {
            SIMPLE_PACKET => self.simple_packet(body)?,
            _ => self.full_packet(kind, body)?,
        };
        if found.captured_len > MAX_CAPTURED_LEN as usize {
            return Err(Fault::Corrupt("a packet longer than any capture program stores"));
        }
        self.last_timestamp_ns = found.timestamp_ns;
        Ok(Found { at: found.at + BLOCK_HEADER_LEN, total, ..found })
    }

    /// An enhanced or obsolete packet block: they differ in the width of the interface number.
    fn full_packet(&self, kind: u32, body: &[u8]) -> Result<Found, Fault> {
        let data_len = body.len().checked_sub(PACKET_HEADER_LEN).ok_or(TOO_SHORT)?;
        let interface = match kind {
            OBSOLETE_PACKET => u32::from(self.endian.u16([body[0], body[1]])),
            _ => self.endian.word(body, 0),
        };
        let interface = self.interface(interface)?;
        let [high, low, captured_len, wire_len] =
            [1, 2, 3, 4].map(|index| self.endian.word(body, index));
        let captured_len = captured_len as usize;
        if captured_len > data_len {
            return Err(TOO_SHORT);
        }
        let ticks = u64::from(high) << 32 | u64::from(low);
        let timestamp_ns = interface.timestamp_ns(ticks);
        let found = Found { timestamp_ns, wire_len, at: PACKET_HEADER_LEN, captured_len, total: 0 };
        let rest = body.get(PACKET_HEADER_LEN + captured_len.next_multiple_of(4)..);
        let own = self.check_len(rest.unwrap_or_default());
        Ok(found.without_check(own.unwrap_or(interface.check_len)))
    }

    /// What a packet's own options say of the length of its frame check sequence, if anything: bits 5 to 8 of its
    /// flags, in bytes.
    #[inline]
    fn check_len(&self, rest: &[u8]) -> Option<u32> {
        let mut flags = options(self.endian, rest).filter(|(code, _)| *code == OPTION_FLAGS);
        let (_, value) = flags.next()?;
        Some(self.endian.word(value, 0) >> 5 & 0xf).filter(|len| *len != 0)
    }

    /// A simple packet block: interface 0, no time, the captured length follows from the others.
    fn simple_packet(&self, body: &[u8]) -> Result<Found, Fault> {
        let data_len = body.len().checked_sub(4).ok_or(TOO_SHORT)?;
        let interface = self.interface(0)?;
        let snap_len = match interface.snap_len {
            0 => u32::MAX,
            limit => limit,
        };
        let wire_len = self.endian.word(body, 0);
        let captured_len = wire_len.min(snap_len) as usize;
        if captured_len > data_len {
            return Err(TOO_SHORT);
        }
        let timestamp_ns = self.last_timestamp_ns;
        let found = Found { timestamp_ns, wire_len, at: 4, captured_len, total: 0 };
        Ok(found.without_check(interface.check_len))
    }

    fn interface(&self, number: u32) -> Result<&Interface, Fault> {
        let interface = self.interfaces.get(number as usize);
        let interface =
            interface.ok_or(Fault::Corrupt("a packet of an interface that is not described"))?;
        if interface.link_type != LINKTYPE_ETHERNET {
            return Err(Fault::LinkType(interface.link_type));
        }
        Ok(interface)
    }
}

const MISMATCH: Fault = Fault::Corrupt("a block whose two lengths differ");
const TOO_SHORT: Fault = Fault::Corrupt("a packet block shorter than the packet it holds");

/// Checks the length of a block, header and trailer included.
fn block_len(len: u32) -> Result<usize, Fault> {
    if len < 12 || !len.is_multiple_of(4) {
        return Err(Fault::Corrupt("a block length that is under 12 or no multiple of 4"));
    }
    Ok(len as usize)
}

/// The options at the end of a block, until the first that is malformed.
fn options(endian: Endian, mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, after) = rest.split_first_chunk::<4>()?;
        let code = endian.u16([header[0], header[1]]);
        let len = usize::from(endian.u16([header[2], header[3]]));
        let value = after.get(..len)?;
        rest = after.get(len.next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, value))
    })
}

#[derive(Debug)]
struct Interface {
    link_type: u32,
    snap_len: u32,
    resolution: Resolution,
    /// Added to every timestamp.
    offset_s: i64,
    /// Bytes of a frame check sequence at the end of every packet that does not say otherwise.
    check_len: u32,
}

impl Interface {
    fn apply(&mut self, endian: Endian, code: u16, value: &[u8]) {
        match (code, value) {
            (OPTION_TSRESOL, &[resolution]) => self.resolution = Resolution::new(resolution),
            (OPTION_TSOFFSET, value) if value.len() == 8 => {
                let (a, b) = (endian.word(value, 0), endian.word(value, 1));
                let (high, low) = if endian == Endian::Big { (a, b) } else { (b, a) };
                self.offset_s = (u64::from(high) << 32 | u64::from(low)).cast_signed();
            }
            // In bits by the draft, in bytes by its example and by those who write it (pcapng issue 60): no check
            // sequence has fewer than 16 bits, nor as many bytes.
            (OPTION_FCSLEN, &[len]) => {
                self.check_len = u32::from(if len < 16 { len } else { len / 8 })
            }
            _ => {}
        }
    }

    /// Nanoseconds since the epoch; times before it, or 585 years after it, are clamped.
    #[inline]
    fn timestamp_ns(&self, ticks: u64) -> u64 {
        let ns = self.resolution.nanoseconds(ticks);
        if self.offset_s == 0 {
            return u64::try_from(ns).unwrap_or(u64::MAX);
        }
        let offset_ns = i128::from(self.offset_s) * 1_000_000_000;
        let ns = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(offset_ns);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// The unit of timestamps: `ticks * multiply / divide >> shift` nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Resolution {
    multiply: u64,
    divide: u128,
    shift: u32,
}

impl Resolution {
    const MICROSECONDS: Self = Self { multiply: 1_000, divide: 1, shift: 0 };

    /// `code`: the exponent of a negative power of 10, or of 2 when the top bit is set.
    fn new(code: u8) -> Self {
        let exponent = u32::from(code & 0x7f);
        if code & 0x80 != 0 {
            return Self { multiply: 1_000_000_000, divide: 1, shift: exponent };
        }
        let divide = 10u128.checked_pow(exponent.saturating_sub(9)).unwrap_or(u128::MAX);
        Self { multiply: 10u64.pow(9u32.saturating_sub(exponent)), divide, shift: 0 }
    }

    #[inline]
    fn nanoseconds(self, ticks: u64) -> u128 {
        let scaled = u128::from(ticks) * u128::from(self.multiply);
        if self.divide == 1 { scaled >> self.shift } else { scaled / self.divide }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_of_both_kinds() {
        assert_eq!(Resolution::MICROSECONDS.nanoseconds(5), 5_000);
        assert_eq!(Resolution::new(9).nanoseconds(5), 5);
        assert_eq!(Resolution::new(0).nanoseconds(5), 5_000_000_000);
        assert_eq!(Resolution::new(12).nanoseconds(5_999), 5);
        assert_eq!(Resolution::new(0x80 | 10).nanoseconds(1_024), 1_000_000_000);
        assert_eq!(Resolution::new(0x7f).nanoseconds(u64::MAX), 0);
        assert_eq!(Resolution::new(0xff).nanoseconds(u64::MAX), 0);
    }

    #[test]
    fn offsets_move_the_time_and_clamp() {
        let resolution = Resolution::new(9);
        let at =
            |offset_s| Interface { link_type: 1, snap_len: 0, resolution, offset_s, check_len: 0 };
        assert_eq!(at(2).timestamp_ns(7), 2_000_000_007);
        assert_eq!(at(-2).timestamp_ns(2_000_000_007), 7);
        assert_eq!(at(-3).timestamp_ns(7), 0);
        assert_eq!(at(i64::MAX).timestamp_ns(7), u64::MAX);
    }

    #[test]
    fn options_end_at_the_end_mark_or_at_damage() {
        let body = [9, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 3, 0, 0, 0];
        assert_eq!(options(Endian::Little, &body).count(), 1);
        assert_eq!(options(Endian::Little, &[9, 0, 200, 0, 6]).count(), 0);
    }
}
