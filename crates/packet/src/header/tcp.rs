//! TCP (RFC 9293): table of fields.

use super::{Options, header};
use crate::{Mode, checksum::Delta, layout::chunk, packet::chunk_mut};

header! {
    /// The TCP header (RFC 9293).
    tcp: Tcp / TcpMut, 20 bytes {
        /// Source port.
        src: u16 = 16 bits at 0, set_src updates checksum;
        /// Destination port.
        dst: u16 = 16 bits at 16, set_dst updates checksum;
        /// Sequence number.
        sequence: u32 = 32 bits at 32, set_sequence updates checksum;
        /// Acknowledgement number.
        acknowledgement: u32 = 32 bits at 64, set_acknowledgement updates checksum;
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
        window: u16 = 16 bits at 112, set_window updates checksum;
    } derived {
        /// Bytes of the header with its options, 20 to 60.
        header_len: u8 = 8 bits, |header, _, _| (header[12] >> 4) * 4;
        /// The maximum segment size that the sender announces (RFC 9293, 3.7.1), in bytes; 0: it announces
        /// none. Meant where SYN is set; of several options the first.
        mss: u16 = 16 bits, set_mss, |header, rest, _| {
            mss_offset(header, rest).and_then(|at| chunk(rest, at)).map_or(0, |mss| u16::from_be_bytes(*mss))
        };
    }
}

/// Kind and length of the option of a maximum segment size.
const MSS: [u8; 2] = [2, 4];

/// Where the maximum segment size lies in what follows the fixed header.
#[inline]
fn mss_offset(header: &[u8; 20], rest: &[u8]) -> Option<usize> {
    let options = Options::of(rest, (header[12] >> 4) * 4, 20);
    let mut left = options;
    left.find(|option| option.kind == MSS[0] && option.content.len() == 2)?;
    Some(options.as_bytes().len() - left.as_bytes().len() - 2)
}

impl<'a> Tcp<'a> {
    /// The options.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options::of(self.rest, self.header_len(), 20)
    }
}

impl<M: Mode> TcpMut<'_, M> {
    /// Sets [`mss`](Self::mss) and keeps the checksum right. No effect where that is 0.
    pub fn set_mss(&mut self, value: u16) {
        if M::HOLLOW {
            return;
        }
        let at = self.header.as_deref().and_then(|header| mss_offset(header, self.rest));
        // Whole words of the checksum: at an odd offset it is part of two, and the header ends at an even one.
        let Some((is_odd, begin)) = at.map(|at| (at % 2 == 1, at - 2 + at % 2)) else { return };
        let Some(words) = chunk_mut::<4>(self.rest, begin) else { return };
        let old = *words;
        let mss = if is_odd { &mut words[1..3] } else { &mut words[2..] };
        if *mss == [0, 0] {
            return;
        }
        mss.copy_from_slice(&value.to_be_bytes());
        let new = *words;
        self.checksum(Delta::of(&old, &new));
    }

    #[inline(always)]
    fn checksum(&mut self, delta: Delta) {
        if let Some(checksum) = self.header.as_deref_mut().and_then(|h| chunk_mut(h, 16)) {
            delta.apply(checksum);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checksum::verify;
    use crate::craft::{self, Link, Segment};
    use crate::fuzzing::with_packet;

    /// A segment with these options, and a right checksum.
    fn segment(options: [u8; 8]) -> Vec<u8> {
        let (mut out, ends) = (vec![0; 100], ("10.0.0.1:5", "10.0.0.2:80"));
        let (src, dst) = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
        let len = craft::tcp(&mut out, &Link::default(), src, dst, Segment::default(), &options);
        out.truncate(len.unwrap());
        // What was the payload becomes options; that changes one word.
        out[46] = 7 << 4;
        let checksum = u16::from_be_bytes([out[50], out[51]]);
        let (less, borrows) = checksum.overflowing_sub(0x2000);
        out[50..52].copy_from_slice(&(less - u16::from(borrows)).to_be_bytes());
        out
    }

    #[test]
    fn the_segment_size_is_found_and_set_wherever_it_lies() {
        let cases = [
            ([2, 4, 5, 0xb4, 1, 1, 4, 2], 1_460),
            ([1, 2, 4, 5, 0xb4, 1, 4, 2], 1_460),
            ([4, 2, 2, 4, 5, 0xb4, 0, 0], 1_460),
            ([1, 3, 3, 7, 2, 4, 5, 0xb4], 1_460),
            // Two of them; after the end; of a wrong length; cut off.
            ([2, 4, 5, 0xb4, 2, 4, 1, 1], 1_460),
            ([1, 1, 0, 2, 4, 5, 0xb4, 0], 0),
            ([2, 3, 5, 1, 1, 1, 1, 0], 0),
            ([1, 1, 1, 1, 1, 2, 4, 5], 0),
        ];
        for (options, mss) in cases {
            with_packet(&mut segment(options), |mut packet| {
                assert!(verify(&packet).is_ok(), "{options:?}");
                assert_eq!(packet.tcp().unwrap().mss(), mss, "{options:?}");
                packet.tcp_mut().unwrap().set_mss(1_300);
                let set = if mss == 0 { 0 } else { 1_300 };
                assert_eq!(packet.tcp().unwrap().mss(), set, "{options:?}");
                assert!(verify(&packet).is_ok(), "{options:?}");
                packet.tcp_mut().unwrap().set_mss(0);
                packet.tcp_mut().unwrap().set_mss(7);
                assert_eq!(packet.tcp().unwrap().mss(), 0, "0 is none");
            });
        }
    }

    #[test]
    fn numbers_and_windows_are_set_with_their_checksum() {
        let mut random = crate::fuzzing::Seeds::new(7);
        for _ in 0..1_000 {
            let mut bytes = segment([2, 4, 5, 0xb4, 1, 1, 4, 2]);
            let (sequence, acknowledgement) = (random.draw() as u32, random.draw() as u32);
            let window = random.draw() as u16;
            with_packet(&mut bytes, |mut packet| {
                let mut tcp = packet.tcp_mut().unwrap();
                tcp.set_sequence(sequence);
                tcp.set_acknowledgement(acknowledgement);
                tcp.set_window(window);
                let tcp = packet.tcp().unwrap();
                let set = (tcp.sequence(), tcp.acknowledgement(), tcp.window());
                assert_eq!(set, (sequence, acknowledgement, window));
                assert_eq!((tcp.mss(), tcp.flags()), (1_460, 0));
                assert!(verify(&packet).is_ok());
            });
        }
    }

    #[test]
    fn a_crafted_segment_announces_its_size() {
        let (mut out, segment) = ([0; 100], Segment { mss: Some(9_000), ..Segment::default() });
        let (src, dst) = ("[fd00::1]:5".parse().unwrap(), "[fd00::2]:80".parse().unwrap());
        let len = craft::tcp(&mut out, &Link::default(), src, dst, segment, b"hello").unwrap();
        with_packet(&mut out[..len], |packet| {
            assert!(verify(&packet).is_ok());
            let tcp = packet.tcp().unwrap();
            assert_eq!((tcp.mss(), tcp.header_len(), packet.payload()), (9_000, 24, &b"hello"[..]));
        });
    }
}
