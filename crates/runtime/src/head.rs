//! As much of a packet as a handler may rewrite, as it arrived: for packets that may run again.

use anabranch_packet::{Frame, Layout};

/// A packet's head, saved.
pub(crate) struct Head {
    /// Of a packet of the common layout: its headers, without options of TCP.
    headers: [u8; Self::HEADERS],
    /// Of a packet of the common layout: where its headers end, options and all; 0: all of the packet is in `rest`.
    end: u16,
    /// Options of TCP. Of packets whose headers may lie anywhere (in an ICMP error, those of another packet too): all.
    rest: Vec<u8>,
}

impl Default for Head {
    fn default() -> Self {
        Self { headers: [0; Self::HEADERS], end: 0, rest: Vec::new() }
    }
}

impl Head {
    /// Ethernet, IPv4 without options, TCP up to its options, and as much of what follows as makes whole words.
    const HEADERS: usize = 14 + 20 + 20 + 2;

    #[inline(always)]
    pub(crate) fn save(&mut self, bytes: &[u8], layout: Layout) {
        match bytes.first_chunk() {
            Some(headers) if layout.is_common() => {
                self.headers = *headers;
                self.end = layout.payload_offset() as u16;
                if layout.payload_offset() > Self::HEADERS {
                    self.save_rest(&bytes[Self::HEADERS..layout.payload_offset()]);
                }
            }
            _ => {
                self.end = 0;
                self.save_rest(bytes);
            }
        }
    }

    #[inline(never)]
    fn save_rest(&mut self, bytes: &[u8]) {
        self.rest.clear();
        self.rest.extend_from_slice(bytes);
    }

    pub(crate) fn restore(&self, frame: &mut Frame<'_>) {
        let bytes = frame.bytes_mut();
        let end = usize::from(self.end);
        let options = if end > Self::HEADERS { &self.rest[..] } else { &[] };
        let parts = match end {
            0 => [(0, &self.rest[..]), (0, &[])],
            _ => [(0, &self.headers[..]), (Self::HEADERS, options)],
        };
        for (at, part) in parts {
            if let Some(bytes) = bytes.get_mut(at..at + part.len()) {
                bytes.copy_from_slice(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_packet::craft::{self, Link, Segment};
    use anabranch_packet::{Meta, parse};

    use super::*;

    fn segment(options: usize) -> Vec<u8> {
        let mut bytes = vec![0; 200];
        let (src, dst) = ("10.0.0.1:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let payload: Vec<u8> = (0..60).collect();
        let len = craft::tcp(&mut bytes, &Link::default(), src, dst, Segment::default(), &payload);
        bytes.truncate(len.unwrap());
        // What was the payload becomes options.
        bytes[46] = (5 + options as u8) << 4;
        bytes
    }

    fn datagram(payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; 200];
        let (src, dst) = ("10.0.0.1:5".parse().unwrap(), "10.0.0.2:53".parse().unwrap());
        let len = craft::udp(&mut bytes, &Link::default(), src, dst, &vec![7; payload]);
        bytes.truncate(len.unwrap());
        bytes
    }

    /// Headers are as they were, options of TCP among them, whatever the slot held before; a payload that nobody
    /// writes is nobody's business.
    #[test]
    fn what_was_saved_comes_back() {
        let mut head = Head::default();
        let segments = (0..=10).map(segment);
        let datagrams = (0..30).map(datagram);
        let foreign = (1..200).map(|len| (0..len).map(|at| at as u8).collect::<Vec<_>>());
        for mut buffer in segments.chain(foreign).chain(datagrams) {
            let (before, len) = (buffer.clone(), buffer.len());
            let frame = &mut Frame::new(&mut buffer, 0, len, 0, Meta::default());
            let layout = parse(frame.bytes(), len as u32);
            head.save(frame.bytes(), layout);
            let written = if layout.is_common() { layout.payload_offset() } else { len };
            frame.bytes_mut()[..written].fill(0xff);
            head.restore(frame);
            assert_eq!(frame.bytes(), before, "{layout:?}");
        }
    }
}
