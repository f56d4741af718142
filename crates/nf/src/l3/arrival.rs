//! The packet as it arrived, for errors about it.

use anabranch_packet::{Mode, Packet, Port};

/// Bytes kept of the start of nearly every frame: as many as the shortest has, and no fewer than a network
/// function rewrites of an untagged packet of IPv4 without options.
const HEAD: usize = 60;
/// Bytes kept at most, where addresses, ports and checksums lie further on.
pub(super) const MOST: usize = 128;
/// Bytes of a transport header as far as its checksum.
const TRANSPORT: usize = 18;

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
    head: [u8; MOST],
}

impl Default for Arrival {
    /// Of no packet.
    fn default() -> Self {
        Self { number: u64::MAX, port: Port::new(0), len: 0, head: [0; MOST] }
    }
}

impl Arrival {
    /// Notes the packet, before anything is rewritten.
    #[inline(always)]
    pub(crate) fn note<M: Mode>(&mut self, packet: &Packet<'_, M>) {
        self.number = packet.meta().number;
        self.port = packet.port();
        let wanted = packet.layout().l4_offset() + TRANSPORT;
        match packet.bytes().first_chunk::<HEAD>() {
            Some(head) if wanted <= HEAD => {
                self.head[..HEAD].copy_from_slice(head);
                self.len = HEAD;
            }
            _ => self.note_slowly(packet.bytes()),
        }
    }

    #[cold]
    fn note_slowly(&mut self, bytes: &[u8]) {
        self.len = bytes.len().min(MOST);
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
