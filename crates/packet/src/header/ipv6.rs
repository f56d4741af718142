//! IPv6 (RFC 8200): table of fields, and which checksums have the addresses in them.

use super::header;
use crate::{Mode, checksum::Delta};
use std::net::Ipv6Addr;

header! {
    /// The IPv6 header (RFC 8200).
    ipv6: Ipv6 / Ipv6Mut, 40 bytes {
        /// Traffic class: differentiated services and congestion notification.
        traffic_class: u8 = 8 bits at 4, set_traffic_class updates nothing;
        /// Flow label (RFC 6437), 20 bits.
        flow_label: u32 = 20 bits at 12;
        /// Bytes after this header, extension headers included.
        payload_len: u16 = 16 bits at 32;
        /// Hop limit.
        hop_limit: u8 = 8 bits at 56, set_hop_limit updates nothing;
        /// Source address.
        src: Ipv6Addr = 128 bits at 64, set_src updates transport_checksum;
        /// Destination address.
        dst: Ipv6Addr = 128 bits at 192, set_dst updates routed_checksum;
    } derived {
        /// The protocol after all extension headers; in a fragment but the first, that of the
        /// fragmented part.
        protocol: u8 = 8 bits, |_, _, layout| layout.protocol();
    }
}

impl<M: Mode> Ipv6Mut<'_, M> {
    #[inline(always)]
    fn nothing(&mut self, _: Delta) {}

    #[inline(always)]
    fn transport_checksum(&mut self, delta: Delta) {
        super::update_transport(self.rest, self.layout, 40, delta);
    }

    /// The pseudo header has the final destination, which a routing header may hold (RFC 8200,
    /// 8.1); then the address here is only the next hop's.
    #[inline(always)]
    fn routed_checksum(&mut self, delta: Delta) {
        if !self.layout.is_routed() {
            self.transport_checksum(delta);
        }
    }
}
