//! Fragmentation of IPv4 packets (RFC 791, 3.2).

use anabranch_packet::checksum::Sum;

const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// Cuts the IPv4 packet at offset `l3` of `frame` into fragments of at most `mtu` bytes. Each is
/// written into `scratch`, behind the bytes before `l3`, and handed to `send`. `None`, and nothing
/// sent, where bytes of the packet are missing or `scratch` is too short.
pub(super) fn fragment(
    frame: &[u8],
    l3: usize,
    mtu: usize,
    scratch: &mut [u8],
    mut send: impl FnMut(&[u8]),
) -> Option<()> {
    let packet = frame.get(l3..)?;
    let header_len = usize::from(packet.first()? & 15) * 4;
    let total_len = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let field = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
    let payload = packet.get(..total_len)?.get(header_len..)?;
    let piece = mtu.checked_sub(header_len)? & !7;
    // An offset that overflows is a forgery (RFC 1858).
    let in_range = usize::from(field & OFFSET) + payload.len() / 8 <= usize::from(OFFSET);
    if piece == 0 || header_len < 20 || scratch.len() < l3 + header_len + piece || !in_range {
        return None;
    }
    let start = l3 + header_len;
    scratch[..start].copy_from_slice(&frame[..start]);
    let pieces = payload.len().div_ceil(piece);
    for (at, part) in payload.chunks(piece).enumerate() {
        let offset = (field & OFFSET) + (at * piece / 8) as u16;
        let more = if at + 1 < pieces { MORE_FRAGMENTS } else { field & MORE_FRAGMENTS };
        let header = &mut scratch[l3..start];
        if at == 1 {
            blank_uncopied(header);
        }
        header[2..4].copy_from_slice(&((header_len + part.len()) as u16).to_be_bytes());
        header[6..8]
            .copy_from_slice(&(field & !(OFFSET | MORE_FRAGMENTS) | more | offset).to_be_bytes());
        header[10..12].fill(0);
        let checksum = Sum::new().bytes(header).checksum();
        header[10..12].copy_from_slice(&checksum);
        scratch[start..start + part.len()].copy_from_slice(part);
        send(&scratch[..start + part.len()]);
    }
    Some(())
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
