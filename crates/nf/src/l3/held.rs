//! Packets that wait for their neighbour's address.

use anabranch_packet::Port;

use crate::l3::arrival::MOST as HEAD_LEN;

/// Packets held at once.
const SLOTS: usize = 64;
/// Longest frame that is held, in bytes.
const SLOT_LEN: usize = 2_048;
/// For how long a packet is worth sending, in nanoseconds.
const HOLD_NS: u64 = 3_000_000_000;
const FREE: u32 = u32::MAX;

/// A bounded store with the latest packet for each of some neighbours (RFC 1122, 2.3.2.2 asks for
/// at least one each), as it will leave, and how it arrived. When all slots are taken, a new packet
/// takes that of the one held longest. By default it has no slots.
#[derive(Default)]
pub(super) struct Held {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    /// The start of each as it arrived.
    heads: Vec<[u8; HEAD_LEN]>,
    next: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    neighbour: u32,
    len: usize,
    since: u64,
    /// The port that it arrived by.
    from: Port,
}

impl Held {
    pub fn new() -> Self {
        let slots = vec![Slot { neighbour: FREE, len: 0, since: 0, from: Port::new(0) }; SLOTS];
        let (bytes, heads) = (vec![0; SLOTS * SLOT_LEN], vec![[0; HEAD_LEN]; SLOTS]);
        Self { slots, bytes, heads, next: 0 }
    }

    fn find(&self, neighbour: u32) -> Option<usize> {
        self.slots.iter().position(|slot| slot.neighbour == neighbour)
    }

    /// Holds `frame`, which `arrived` so by a port, for `neighbour` from `now` on; nothing where it is too long.
    pub fn put(&mut self, neighbour: u32, frame: &[u8], (from, arrived): (Port, &[u8]), now: u64) {
        if frame.len() > SLOT_LEN || self.slots.is_empty() {
            return;
        }
        let at = self.find(neighbour).unwrap_or_else(|| {
            self.next = (self.next + 1) % self.slots.len();
            self.next
        });
        self.slots[at] = Slot { neighbour, len: frame.len(), since: now, from };
        self.bytes[at * SLOT_LEN..][..frame.len()].copy_from_slice(frame);
        let head = arrived.len().min(HEAD_LEN);
        self.heads[at][..head].copy_from_slice(&arrived[..head]);
    }

    /// Drops what is held for `neighbour`.
    pub fn forget(&mut self, neighbour: u32) {
        if let Some(at) = self.find(neighbour) {
            self.slots[at].neighbour = FREE;
        }
    }

    /// Writes what is held for `neighbour` into `out` as it arrived, as far as there is room; it is no longer
    /// held. Returns the port that it arrived by, the bytes written, and its length.
    pub fn give_up(&mut self, neighbour: u32, out: &mut [u8]) -> Option<(Port, usize, usize)> {
        let at = self.find(neighbour)?;
        self.slots[at].neighbour = FREE;
        let Slot { len, from, .. } = self.slots[at];
        let (written, head) = (len.min(out.len()), len.min(out.len()).min(HEAD_LEN));
        out[..written].copy_from_slice(&self.bytes[at * SLOT_LEN..][..written]);
        out[..head].copy_from_slice(&self.heads[at][..head]);
        Some((from, written, len))
    }

    /// What is held for `neighbour`, to be addressed and sent; no longer held, and nothing where
    /// it has waited too long at `now`.
    pub fn take(&mut self, neighbour: u32, now: u64) -> Option<&mut [u8]> {
        let at = self.find(neighbour)?;
        self.slots[at].neighbour = FREE;
        let Slot { len, since, .. } = self.slots[at];
        let frame = self.bytes.get_mut(at * SLOT_LEN..)?.get_mut(..len)?;
        (now.saturating_sub(since) <= HOLD_NS).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_packet_comes_back_once() {
        let mut held = Held::new();
        let from = Port::new(1);
        held.put(3, &[1; 60], (from, &[8; 60]), 0);
        held.put(3, &[2; 61], (from, &[9; 61]), 0);
        held.put(4, &[3; 62], (from, &[9; 62]), 0);
        held.put(5, &[4; 63], (from, &[9; 63]), 0);
        assert_eq!(held.take(3, HOLD_NS).as_deref(), Some(&[2; 61][..]));
        assert_eq!(held.take(3, HOLD_NS), None);
        assert_eq!(held.take(5, HOLD_NS + 1), None, "too old");
        held.forget(4);
        assert_eq!(held.take(4, 0), None);
        assert_eq!(Held::default().take(0, 0), None);
    }

    #[test]
    fn what_is_given_up_is_as_it_arrived() {
        let (mut held, mut out) = (Held::new(), [0; 150]);
        held.put(3, &[1; 200], (Port::new(1), &[2; 200]), 0);
        assert_eq!(held.give_up(3, &mut out), Some((Port::new(1), 150, 200)));
        assert_eq!((&out[..HEAD_LEN], &out[HEAD_LEN..]), (&[2; HEAD_LEN][..], &[1; 22][..]));
        assert_eq!(held.give_up(3, &mut out), None);
        held.put(3, &[1; 60], (Port::new(0), &[2; 60]), 0);
        assert_eq!(held.give_up(3, &mut out), Some((Port::new(0), 60, 60)));
        assert_eq!(out[..60], [2; 60]);
    }

    #[test]
    fn space_is_bounded() {
        let mut held = Held::new();
        held.put(7, &[0; SLOT_LEN + 1], (Port::new(0), &[]), 0);
        assert_eq!(held.take(7, 0), None);
        for neighbour in 0..=SLOTS as u32 {
            held.put(neighbour, &[1; 60], (Port::new(0), &[]), 0);
        }
        assert_eq!(held.take(0, 0), None, "the one held longest made room");
        assert!((1..=SLOTS as u32).all(|neighbour| held.take(neighbour, 0).is_some()));
    }
}
