//! Fragments of IP packets: where they stand (RFC 791, 3.2; RFC 8200, 4.5), and packets cut into them.

use crate::Layout;
use crate::checksum::Sum;

const IPV4_MORE: u16 = 0x2000;
const IPV4_OFFSET: u16 = 0x1fff;
const IPV6_LEN: usize = 40;
const IPV6_FRAGMENT_LEN: usize = 8;

/// Where a fragment stands in the datagram that it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where its IP header starts in the frame.
    pub ip: usize,
    /// Where its part of the payload starts in the frame.
    pub start: usize,
    /// Bytes of it.
    pub len: usize,
    /// Where they stand in the payload of the datagram, in bytes.
    pub offset: usize,
    /// Whether others come after it.
    pub more: bool,
    /// The identification of the datagram.
    pub id: u32,
    /// What the payload is, as the fragment's header says; in IPv6 only the first one's counts.
    pub protocol: u8,
}

impl Piece {
    /// Reads it from a frame that was parsed as `layout`. `None`: it is no fragment, or not all of it is
    /// there.
    pub fn of(frame: &[u8], layout: Layout) -> Option<Self> {
        if !layout.is_fragment() {
            return None;
        }
        let ip = layout.l3_offset();
        let packet = frame.get(ip..)?;
        let piece = if layout.has_ipv4() { ipv4(packet)? } else { ipv6(packet)? };
        let whole = piece.start.checked_add(piece.len)? <= packet.len();
        whole.then_some(Self { ip, start: ip + piece.start, ..piece })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Of an IPv4 packet.
fn ipv4(packet: &[u8]) -> Option<Piece> {
    let start = usize::from(packet.first()? & 15) * 4;
    let field = word(packet, 6)?;
    Some(Piece {
        ip: 0,
        start,
        len: usize::from(word(packet, 2)?).checked_sub(start)?,
        offset: usize::from(field & IPV4_OFFSET) * 8,
        more: field & IPV4_MORE != 0,
        id: word(packet, 4)?.into(),
        protocol: *packet.get(9)?,
    })
}

/// Of an IPv6 packet with a fragment header.
fn ipv6(packet: &[u8]) -> Option<Piece> {
    let at = ipv6_fragment_header(packet)?;
    let start = at + IPV6_FRAGMENT_LEN;
    let field = word(packet, at + 2)?;
    let id = u32::from(word(packet, at + 4)?) << 16 | u32::from(word(packet, at + 6)?);
    Some(Piece {
        ip: 0,
        start,
        len: (IPV6_LEN + usize::from(word(packet, 4)?)).checked_sub(start)?,
        offset: usize::from(field & !7),
        more: field & 1 != 0,
        id,
        protocol: *packet.get(at)?,
    })
}

/// Where the fragment header of an IPv6 packet starts: behind what every fragment has.
fn ipv6_fragment_header(packet: &[u8]) -> Option<usize> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let (mut next, mut at) = (*packet.get(6)?, IPV6_LEN);
    loop {
        match next {
            FRAGMENT => return Some(at),
            HOP_BY_HOP | ROUTING | DESTINATION => {
                next = *packet.get(at)?;
                at += (usize::from(*packet.get(at + 1)?) + 1) * 8;
            }
            _ => return None,
        }
    }
}

/// Cuts the IP packet of `frame`, parsed as `layout`, into fragments of at most `longest` bytes, IP
/// headers included. Each is written into `scratch`, behind what is before the IP header, and handed to
/// `send`. An IPv6 packet has to bring a fragment header, be it one that says that there are no others
/// (RFC 6946). `None`, and nothing sent, where bytes of the packet are missing, `scratch` is too short or
/// parts would stand where no offset can say.
pub fn cut(
    frame: &[u8],
    layout: Layout,
    longest: usize,
    scratch: &mut [u8],
    mut send: impl FnMut(&[u8]),
) -> Option<()> {
    let (ip, is_v4) = (layout.l3_offset(), layout.has_ipv4());
    let packet = frame.get(ip..)?;
    let Piece { start: header_len, len, offset, more, .. } =
        if is_v4 { ipv4(packet)? } else { ipv6(packet)? };
    let payload = packet.get(header_len..header_len + len)?;
    let most = longest.checked_sub(header_len)? & !7;
    let start = ip + header_len;
    // An offset that overflows is a forgery (RFC 1858).
    let in_range = offset + len <= usize::from(u16::MAX);
    if most == 0 || header_len < 20 || scratch.len() < start + most || !in_range {
        return None;
    }
    scratch[..start].copy_from_slice(&frame[..start]);
    let last = len.saturating_sub(1) / most;
    for (at, part) in payload.chunks(most).enumerate() {
        let header = &mut scratch[ip..start];
        if is_v4 && at == 1 {
            blank_uncopied(header);
        }
        place(header, part.len(), offset + at * most, more || at < last);
        let end = start + part.len();
        scratch[start..end].copy_from_slice(part);
        send(&scratch[..end]);
    }
    Some(())
}

/// Has `header`, an IPv4 header or an IPv6 header up to its fragment header, say that `len` bytes of
/// payload follow that stand at `offset` in the datagram, a multiple of 8, and whether others come after
/// them.
///
/// # Panics
/// `header` is shorter than 20 bytes, or 48 of IPv6.
pub fn place(header: &mut [u8], len: usize, offset: usize, more: bool) {
    if header[0] >> 4 == 4 {
        let flags = u16::from(header[6]) << 8 & !(IPV4_OFFSET | IPV4_MORE);
        let field = flags | if more { IPV4_MORE } else { 0 } | (offset / 8) as u16;
        let total = (header.len() + len) as u16;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].copy_from_slice(&field.to_be_bytes());
        header[10..12].fill(0);
        let checksum = Sum::new().bytes(header).checksum();
        header[10..12].copy_from_slice(&checksum);
    } else {
        let field = offset as u16 | u16::from(more);
        let payload_len = (header.len() - IPV6_LEN + len) as u16;
        let at = header.len() - IPV6_FRAGMENT_LEN + 2;
        header[4..6].copy_from_slice(&payload_len.to_be_bytes());
        header[at..at + 2].copy_from_slice(&field.to_be_bytes());
    }
}

/// Overwrites with "no operation" the options that stand in the first fragment only, so that the
/// header keeps its length.
fn blank_uncopied(header: &mut [u8]) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const COPIED: u8 = 0x80;
    let mut at = 20;
    while at < header.len() {
        let len = match header[at] {
            END => return,
            NO_OPERATION => 1,
            // An option that is cut, or claims less than its own two bytes, ends the list.
            _ => match header.get(at + 1) {
                Some(&len) if len >= 2 && at + usize::from(len) <= header.len() => usize::from(len),
                _ => return,
            },
        };
        if header[at] & COPIED == 0 {
            header[at..at + len].fill(NO_OPERATION);
        }
        at += len;
    }
}
