//! What a virtual NIC leaves undone: the header that says so, and finishing checksums.

use super::segment::Segments;
use super::tunnel::Ip;
use anabranch_packet::checksum::Sum;
use anabranch_packet::parse;

/// What is to be done to a packet before it is one as on the wire (`struct virtio_net_hdr`,
/// Virtual I/O Device 1.2, 5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offload {
    needs_checksum: bool,
    kind: u8,
    segment_len: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// What a packet turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// It is as on the wire now. `true`: a checksum was finished.
    Whole(bool),
    /// It is to be cut.
    Cut(Segments),
    /// It cannot be made into what was on the wire.
    Unknown,
}

impl Offload {
    /// Length of the header.
    pub(super) const LEN: usize = 10;
    const NEEDS_CHECKSUM: u8 = 1;
    /// The bit that says that the packet has ECN bits set; it changes nothing else.
    const ECN: u8 = 0x80;
    const TCP_OVER_IPV4: u8 = 1;
    const TCP_OVER_IPV6: u8 = 4;
    /// UDP in datagrams of one size, not the fragmentation of one datagram, which is 3.
    const UDP: u8 = 5;

    /// Reads the header, whose numbers are in the machine's order.
    pub(super) fn read(header: &[u8; Self::LEN]) -> Self {
        let short = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        Self {
            needs_checksum: header[0] & Self::NEEDS_CHECKSUM != 0,
            kind: header[1] & !Self::ECN,
            segment_len: short(4),
            checksum_start: short(6),
            checksum_offset: short(8),
        }
    }

    /// The same for a packet in which `bytes` were put before the network header.
    pub(super) fn moved(self, bytes: u16) -> Self {
        Self { checksum_start: self.checksum_start.saturating_add(bytes), ..self }
    }

    /// Undoes the offload, or says what is to be done.
    pub(super) fn undo(self, packet: &mut [u8]) -> Wire {
        if self.kind != 0 {
            return self.segments(packet).map_or(Wire::Unknown, Wire::Cut);
        }
        if !self.needs_checksum {
            return Wire::Whole(false);
        }
        let start = usize::from(self.checksum_start);
        match finish(packet, start, start + usize::from(self.checksum_offset)) {
            Some(()) => Wire::Whole(true),
            None => Wire::Unknown,
        }
    }

    /// The segments of a packet that is to be cut, if that is what the header says it is: a kind, and where the
    /// transport header is, which may be in a tunnel.
    fn segments(self, packet: &[u8]) -> Option<Segments> {
        let layout = parse(packet, packet.len() as u32);
        let segments = Segments::new(packet, layout, self.segment_len)?;
        let ip = segments.ip();
        let is_of_kind = match self.kind {
            Self::TCP_OVER_IPV4 => ip.is_tcp() && !ip.ipv6,
            Self::TCP_OVER_IPV6 => ip.is_tcp() && ip.ipv6,
            Self::UDP => ip.is_udp(),
            _ => false,
        };
        // What was put together on receiving has no checksum left to finish, and does not say where.
        let is_there = !self.needs_checksum || usize::from(self.checksum_start) == ip.l4;
        (is_of_kind && is_there).then_some(segments)
    }
}

/// Finishes the checksum at `field` over all from `start` on; the field holds the sum of the pseudo
/// header. `None`: it lies outside the packet.
fn finish(packet: &mut [u8], start: usize, field: usize) -> Option<()> {
    // Zero means "no checksum" in UDP, and is as good as 0xffff in TCP.
    let checksum = Sum::new().bytes(packet.get(start..)?).udp_checksum();
    packet.get_mut(field..field + 2)?.copy_from_slice(&checksum);
    Some(())
}

/// Finishes the TCP or UDP checksums of a packet that comes without a word on its offloads, its own and that of one
/// in a tunnel, which are the sum of the pseudo header and nothing else. Where a whole checksum happens to be that
/// too, it comes out the same. True: one was finished.
pub(super) fn finish_unmarked(packet: &mut [u8]) -> bool {
    let layout = parse(packet, packet.len() as u32);
    let carried = Ip::tunnelled(packet, layout).map(|[_, inner]| inner);
    let outermost = Ip::outermost(layout).filter(|_| layout.malformed().is_none());
    let both = [carried, outermost];
    both.into_iter().flatten().filter(|ip| finish_if_unfinished(packet, *ip).is_some()).count() > 0
}

/// Finishes the checksum of what `ip` carries, if it is unfinished.
fn finish_if_unfinished(packet: &mut [u8], ip: Ip) -> Option<()> {
    let field = ip.checksum_at();
    let written = packet.get(field..field + 2)?;
    let pseudo = ip.pseudo_header(packet, ip.end.checked_sub(ip.l4)?)?.checksum();
    let is_unfinished = *written == pseudo.map(|byte| !byte);
    is_unfinished.then(|| finish(packet.get_mut(..ip.end)?, ip.l4, field))?
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use anabranch_packet::checksum::{Check, verify};
    use anabranch_packet::{Frame, Meta, Packet, Real};

    /// A UDP packet of `payload` whose checksum holds the sum of the pseudo header only.
    fn unfinished(payload: &[u8]) -> Vec<u8> {
        let udp_len = 8 + payload.len() as u16;
        let mut packet = vec![2; 12];
        packet.extend([8, 0, 0x45, 0]);
        packet.extend((20 + udp_len).to_be_bytes());
        packet.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([0x30, 0x39, 0, 53]);
        packet.extend(udp_len.to_be_bytes());
        let pseudo = Sum::new()
            .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, udp_len.into())
            .checksum();
        packet.extend(pseudo.map(|byte| !byte));
        packet.extend(payload);
        packet
    }

    fn transport(packet: &mut [u8]) -> Check {
        let layout = parse(packet, packet.len() as u32);
        let mut frame = Frame::new(packet, 0, usize::MAX, 0, Meta::default());
        verify(&Packet::<Real>::new(&mut frame, layout)).transport
    }

    fn header(flags: u8, kind: u8, start: u16, offset: u16) -> [u8; Offload::LEN] {
        let mut header = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..].copy_from_slice(&offset.to_ne_bytes());
        header
    }

    #[test]
    fn unfinished_checksums_are_finished() {
        for len in [0, 1, 2, 63, 1_400] {
            let mut packet = unfinished(&vec![0xa5; len]);
            assert_eq!(transport(&mut packet), Check::Invalid);
            let offload = Offload::read(&header(1, 0, 34, 6));
            assert_eq!(offload.undo(&mut packet), Wire::Whole(true));
            assert_eq!(transport(&mut packet), Check::Valid, "{len}");
        }
    }

    #[test]
    fn unfinished_checksums_are_recognised() {
        for len in [0, 1, 33, 1_400] {
            let mut packet = unfinished(&vec![0x5a; len]);
            // Bytes after the packet are no part of it.
            packet.extend([0xee; 7]);
            assert!(finish_unmarked(&mut packet));
            assert_eq!(transport(&mut packet), Check::Valid, "{len}");
            let before = packet.clone();
            assert!(!finish_unmarked(&mut packet) && packet == before, "it is finished");
        }
        for len in 0..60 {
            finish_unmarked(&mut unfinished(b"abc")[..len.min(45)]);
        }
    }

    /// That of a packet in a tunnel is found, whatever the tunnel's own is.
    #[test]
    fn unfinished_checksums_in_tunnels_are_recognised() {
        let carried = unfinished(&[0x5a; 33]);
        for own in [[0, 0], [0x12, 0x34]] {
            let udp_len = (16 + carried.len()) as u16;
            let mut packet = unfinished(&[]);
            packet[16..18].copy_from_slice(&(20 + udp_len).to_be_bytes());
            packet[36..38].copy_from_slice(&4_789_u16.to_be_bytes());
            packet[38..40].copy_from_slice(&udp_len.to_be_bytes());
            packet[40..42].copy_from_slice(&own);
            packet.extend([8, 0, 0, 0, 0, 0, 7, 0]);
            let at = packet.len();
            packet.extend(&carried);
            let before = packet.clone();
            assert!(finish_unmarked(&mut packet));
            assert_eq!(packet[..at], before[..at]);
            assert_eq!(transport(&mut packet[at..]), Check::Valid);
            assert!(!finish_unmarked(&mut packet));
        }
    }

    /// What is to be cut is what the header says, where it says; else it would be cut in the middle.
    #[test]
    fn what_is_of_another_kind_is_not_cut() {
        let mut header = header(1, Offload::UDP, 34, 6);
        header[4..6].copy_from_slice(&100_u16.to_ne_bytes());
        let undo = |change: &[(usize, u8)]| {
            let mut header = header;
            change.iter().for_each(|&(at, byte)| header[at] = byte);
            matches!(Offload::read(&header).undo(&mut unfinished(&[7; 300])), Wire::Cut(_))
        };
        assert!(undo(&[]) && undo(&[(0, 0), (6, 0)]) && undo(&[(1, Offload::UDP | Offload::ECN)]));
        for kind in [Offload::TCP_OVER_IPV4, Offload::TCP_OVER_IPV6, 3, 2, 77] {
            assert!(!undo(&[(1, kind)]), "{kind}");
        }
        assert!(!undo(&[(6, 84)]), "the kernel means another header");
    }

    #[test]
    fn finished_packets_stay_as_they_are() {
        let mut packet = unfinished(b"abc");
        let before = packet.clone();
        assert_eq!(Offload::read(&header(2, 0, 0, 0)).undo(&mut packet), Wire::Whole(false));
        assert_eq!(packet, before);
    }

    #[test]
    fn what_lies_outside_the_packet_is_refused() {
        for (start, offset) in [(60_000, 6), (34, 60_000), (34, 12)] {
            let wire = Offload::read(&header(1, 0, start, offset)).undo(&mut unfinished(b"abc"));
            assert_eq!(wire, Wire::Unknown, "{start} {offset}");
        }
        assert_eq!(Offload::read(&header(1, 3, 34, 6)).undo(&mut unfinished(b"")), Wire::Unknown);
        assert_eq!(Offload::read(&header(1, 1, 34, 6)).undo(&mut []), Wire::Unknown);
    }
}
