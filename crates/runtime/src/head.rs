//! As much of a packet as a handler may rewrite, as it arrived: for packets that may run again.

use anabranch_packet::{Frame, Layout};

/// A packet's head, saved.
pub(crate) struct Head {
    /// Of a packet of the common layout.
    common: [u8; Self::COMMON],
    /// Of others, whose headers may lie anywhere (in an ICMP error, those of another packet too): all.
    whole: Vec<u8>,
    is_common: bool,
}

impl Default for Head {
    fn default() -> Self {
        Self { common: [0; Self::COMMON], whole: Vec::new(), is_common: false }
    }
}

impl Head {
    /// Ethernet, IPv4 without options, TCP with all that fit: 14 + 20 + 60, and a little.
    const COMMON: usize = 96;

    #[inline(always)]
    pub(crate) fn save(&mut self, frame: &Frame<'_>, layout: Layout) {
        self.is_common = layout.is_common();
        match frame.bytes().first_chunk() {
            Some(head) if self.is_common => self.common = *head,
            _ => self.save_whole(frame.bytes()),
        }
    }

    #[inline(never)]
    fn save_whole(&mut self, bytes: &[u8]) {
        self.is_common = false;
        self.whole.clear();
        self.whole.extend_from_slice(bytes);
    }

    pub(crate) fn restore(&self, frame: &mut Frame<'_>) {
        let head = if self.is_common { &self.common[..] } else { &self.whole };
        if let Some(bytes) = frame.bytes_mut().get_mut(..head.len()) {
            bytes.copy_from_slice(head);
        }
    }
}
