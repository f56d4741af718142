//! TCP (RFC 9293): table of fields.

use super::{Options, header};
use crate::{Mode, checksum::Delta, packet::chunk_mut};

header! {
    /// The TCP header (RFC 9293).
    tcp: Tcp / TcpMut, 20 bytes {
        /// Source port.
        src: u16 = 16 bits at 0, set_src updates checksum;
        /// Destination port.
        dst: u16 = 16 bits at 16, set_dst updates checksum;
        /// Sequence number.
        sequence: u32 = 32 bits at 32;
        /// Acknowledgement number.
        acknowledgement: u32 = 32 bits at 64;
        /// All flags: CWR ECE URG ACK PSH RST SYN FIN, from the highest bit.
        flags: u8 = 8 bits at 104;
        /// Urgent pointer is valid.
        urg: bool = 1 bits at 106;
        /// Acknowledgement number is valid.
        ack: bool = 1 bits at 107;
        /// Push.
        psh: bool = 1 bits at 108;
        /// Reset.
        rst: bool = 1 bits at 109;
        /// Synchronise: opens a connection.
        syn: bool = 1 bits at 110;
        /// No more from the sender.
        fin: bool = 1 bits at 111;
        /// Receive window, unscaled.
        window: u16 = 16 bits at 112;
    } derived {
        /// Bytes of the header with its options, 20 to 60.
        header_len: u8 = 8 bits, |header, _, _| (header[12] >> 4) * 4;
    }
}

impl<'a> Tcp<'a> {
    /// The options.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options::of(self.rest, self.header_len(), 20)
    }
}

impl<M: Mode> TcpMut<'_, M> {
    #[inline(always)]
    fn checksum(&mut self, delta: Delta) {
        if let Some(checksum) = self.header.as_deref_mut().and_then(|h| chunk_mut(h, 16)) {
            delta.apply(checksum);
        }
    }
}
