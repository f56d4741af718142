//! The packet as it arrived, for errors about it.

use anabranch_packet::{Mode, Packet, Port};

/// Bytes kept of the start of the frame: as far as a network function rewrites, addresses and
/// ports, and never more than the shortest frame has.
const HEAD: usize = 60;

/// The start of the packet being handled, from before it was rewritten.
///
/// A network function may rewrite addresses between `receive` and `forward`. An error from
/// `forward` goes to who sent the packet and quotes what was sent (RFC 1812, 4.3.2.3). So it goes with
/// the packet, also to another worker.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Number of the packet; none has the highest.
    number: u64,
    port: Port,
    len: usize,
    head: [u8; HEAD],
}

impl Default for Arrival {
    /// Of no packet.
    fn default() -> Self {
        Self { number: u64::MAX, port: Port::new(0), len: 0, head: [0; HEAD] }
    }
}

impl Arrival {
    /// Notes the packet, before anything is rewritten.
    #[inline(always)]
    pub(crate) fn note<M: Mode>(&mut self, packet: &Packet<'_, M>) {
        self.number = packet.meta().number;
        self.port = packet.port();
        match packet.bytes().first_chunk::<HEAD>() {
            Some(head) => {
                self.head = *head;
                self.len = HEAD;
            }
            None => self.note_short(packet.bytes()),
        }
    }

    #[cold]
    fn note_short(&mut self, bytes: &[u8]) {
        self.len = bytes.len().min(HEAD);
        self.head[..self.len].copy_from_slice(&bytes[..self.len]);
    }

    /// Whether it is this packet that was noted.
    pub(crate) fn is_of<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        self.number == packet.meta().number
    }

    /// Writes the start of the packet as it arrived, where that is known, into `out`. Returns the
    /// port of arrival and the bytes written.
    pub(super) fn restore<M: Mode>(&self, packet: &Packet<'_, M>, out: &mut [u8]) -> (Port, usize) {
        let bytes = packet.bytes();
        let len = bytes.len().min(out.len());
        out[..len].copy_from_slice(&bytes[..len]);
        if !self.is_of(packet) {
            return (packet.port(), len);
        }
        let head = self.len.min(len);
        out[..head].copy_from_slice(&self.head[..head]);
        (self.port, len)
    }
}
