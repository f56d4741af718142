//! As much of a packet as a handler may rewrite, as it arrived: for packets that may run again.

use anabranch_packet::Frame;

/// A packet's head, saved.
pub(crate) struct Head {
    /// Of a packet of the common layout: its first bytes, and those that end where the head does. They
    /// overlap where it is short.
    halves: [[u8; Self::HALF]; 2],
    /// How long that head is; 0: all of the packet is in `whole`.
    len: usize,
    /// Of others, whose headers may lie anywhere (in an ICMP error, those of another packet too): all.
    whole: Vec<u8>,
}

impl Default for Head {
    fn default() -> Self {
        Self { halves: [[0; Self::HALF]; 2], len: 0, whole: Vec::new() }
    }
}

impl Head {
    /// Ethernet, IPv4 without options, TCP up to its options, which nobody rewrites: 14 + 20 + 20, and a
    /// little.
    const COMMON: usize = 2 * Self::HALF;
    /// No packet of the common layout is shorter.
    const HALF: usize = 32;

    /// Of a packet of the common layout, or of any other.
    #[inline(always)]
    pub(crate) fn save(&mut self, bytes: &[u8], is_common: bool) {
        let len = bytes.len().min(Self::COMMON);
        match (bytes.first_chunk(), bytes[..len].last_chunk()) {
            (Some(first), Some(last)) if is_common => {
                // One by one: as a whole they would go by way of the stack.
                self.halves[0] = *first;
                self.halves[1] = *last;
                self.len = len;
            }
            _ => self.save_whole(bytes),
        }
    }

    #[inline(never)]
    fn save_whole(&mut self, bytes: &[u8]) {
        self.len = 0;
        self.whole.clear();
        self.whole.extend_from_slice(bytes);
    }

    pub(crate) fn restore(&self, frame: &mut Frame<'_>) {
        let bytes = frame.bytes_mut();
        let [first, last] = &self.halves;
        let parts = match self.len {
            0 => [(0, &*self.whole), (0, &[])],
            len => [(0, &first[..]), (len - Self::HALF, &last[..])],
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
    use anabranch_packet::Meta;

    use super::*;

    /// Whatever its length, the head is as it was; what follows is nobody's business.
    #[test]
    fn what_was_saved_comes_back() {
        let mut head = Head::default();
        for (len, is_common) in (1..200).flat_map(|len| [(len, false), (len, true)]) {
            let mut buffer: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let before = buffer.clone();
            let frame = &mut Frame::new(&mut buffer, 0, len, 0, Meta::default());
            head.save(frame.bytes(), is_common);
            let kept = if is_common { len.min(Head::COMMON) } else { len };
            frame.bytes_mut()[..kept].fill(0xff);
            head.restore(frame);
            assert_eq!(frame.bytes(), before, "{len} bytes, common: {is_common}");
        }
    }
}
