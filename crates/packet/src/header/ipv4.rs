//! IPv4 (RFC 791): table of fields, and which checksums have the addresses in them.

use super::{Options, header};
use crate::{Mode, checksum::Delta, packet::chunk_mut};
use std::net::Ipv4Addr;

header! {
    /// The IPv4 header (RFC 791).
    ipv4: Ipv4 / Ipv4Mut, 20 bytes {
        /// Differentiated services code point (RFC 2474), 0 to 63.
        dscp: u8 = 6 bits at 8, set_dscp updates header_checksum;
        /// Explicit congestion notification (RFC 3168), 0 to 3.
        ecn: u8 = 2 bits at 14, set_ecn updates header_checksum;
        /// Bytes of header and payload.
        total_len: u16 = 16 bits at 16;
        /// Identification, the same in all fragments of a packet.
        identification: u16 = 16 bits at 32;
        /// Whether routers may not fragment it.
        dont_fragment: bool = 1 bits at 49;
        /// Whether more fragments follow.
        more_fragments: bool = 1 bits at 50;
        /// Offset in the whole packet, in units of 8 bytes.
        fragment_offset: u16 = 13 bits at 51;
        /// Time to live, in hops.
        ttl: u8 = 8 bits at 64, set_ttl updates header_checksum;
        /// Protocol of the payload.
        protocol: u8 = 8 bits at 72;
        /// Source address.
        src: Ipv4Addr = 32 bits at 96, set_src updates all_checksums;
        /// Destination address.
        dst: Ipv4Addr = 32 bits at 128, set_dst updates all_checksums;
    } derived {
        /// Bytes of the header with its options, 20 to 60.
        header_len: u8 = 8 bits, |header, _, _| (header[0] & 15) * 4;
    }
}

impl<'a> Ipv4<'a> {
    /// The options.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options::of(self.rest, self.header_len(), 20)
    }
}

impl<M: Mode> Ipv4Mut<'_, M> {
    #[inline(always)]
    fn header_checksum(&mut self, delta: Delta) {
        if let Some(checksum) = self.header.as_deref_mut().and_then(|h| chunk_mut(h, 10)) {
            delta.apply(checksum);
        }
    }

    /// That of the header, and of what has the addresses in its pseudo header.
    #[inline(always)]
    fn all_checksums(&mut self, delta: Delta) {
        self.header_checksum(delta);
        super::update_transport(self.rest, self.layout, 20, delta);
    }
}
