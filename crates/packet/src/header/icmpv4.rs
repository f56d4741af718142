//! ICMPv4 (RFC 792): table of fields.

use super::header;
use crate::{Mode, checksum::Delta, packet::chunk_mut};

header! {
    /// The ICMPv4 header (RFC 792), with the four bytes whose meaning depends on the type.
    icmpv4: Icmpv4 / Icmpv4Mut, 8 bytes {
        /// The type.
        kind: u8 = 8 bits at 0;
        /// The code.
        code: u8 = 8 bits at 8;
        /// The identifier of an echo; other bits in other types.
        id: u16 = 16 bits at 32, set_id updates checksum if is_echo;
        /// The sequence number of an echo; other bits in other types.
        sequence: u16 = 16 bits at 48;
    } derived {
        /// Whether it is an echo request or reply.
        is_echo: bool = 1 bits, |header, _, _| matches!(header[0], 0 | 8);
        /// Whether it tells a packet's sender of an error, and quotes it (RFC 1122, 3.2.2): that its destination is
        /// unreachable, its time over, a field wrong. Redirects are a router's to the hosts beside it, and nobody
        /// quenches sources any more (RFC 6633): neither is about what has gone further.
        is_error: bool = 1 bits, |header, _, _| matches!(header[0], 3 | 11 | 12);
        /// The next hop's MTU (RFC 1191), where a packet was too big; else 0.
        mtu: u32 = 32 bits, |header, _, _| match header {
            [3, 4, _, _, _, _, high, low] => u32::from(u16::from_be_bytes([*high, *low])),
            _ => 0,
        };
    }
}

impl<M: Mode> Icmpv4Mut<'_, M> {
    #[inline(always)]
    fn checksum(&mut self, delta: Delta) {
        if let Some(checksum) = self.header.as_deref_mut().and_then(|h| chunk_mut(h, 2)) {
            delta.apply(checksum);
        }
    }
}
