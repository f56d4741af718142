//! UDP (RFC 768): table of fields.

use super::header;
use crate::{Mode, checksum::Delta, packet::chunk_mut};

header! {
    /// The UDP header (RFC 768).
    udp: Udp / UdpMut, 8 bytes {
        /// Source port.
        src: u16 = 16 bits at 0, set_src updates checksum;
        /// Destination port.
        dst: u16 = 16 bits at 16, set_dst updates checksum;
        /// Bytes of header and payload.
        length: u16 = 16 bits at 32;
    } derived {
    }
}

impl<M: Mode> UdpMut<'_, M> {
    #[inline(always)]
    fn checksum(&mut self, delta: Delta) {
        if let Some(checksum) = self.header.as_deref_mut().and_then(|h| chunk_mut(h, 6)) {
            delta.apply_transport(checksum, true);
        }
    }
}
