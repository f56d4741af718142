//! Packets that wait for their neighbour's address.

/// Packets held at once.
const SLOTS: usize = 64;
/// Longest frame that is held, in bytes.
const SLOT_LEN: usize = 2_048;
/// For how long a packet is worth sending, in nanoseconds.
const HOLD_NS: u64 = 3_000_000_000;
const FREE: u32 = u32::MAX;

/// A bounded store with the latest packet for each of some neighbours (RFC 1122, 2.3.2.2 asks for
/// at least one each). When all slots are taken, a new packet takes that of the one held longest. By default it
/// has no slots.
#[derive(Default)]
pub(super) struct Held {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    next: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    neighbour: u32,
    len: usize,
    since: u64,
}

impl Held {
    pub fn new() -> Self {
        let slots = vec![Slot { neighbour: FREE, len: 0, since: 0 }; SLOTS];
        Self { slots, bytes: vec![0; SLOTS * SLOT_LEN], next: 0 }
    }

    fn find(&self, neighbour: u32) -> Option<usize> {
        self.slots.iter().position(|slot| slot.neighbour == neighbour)
    }

    /// Holds `frame` for `neighbour` from `now` on; nothing where it is too long.
    pub fn put(&mut self, neighbour: u32, frame: &[u8], now: u64) {
        if frame.len() > SLOT_LEN || self.slots.is_empty() {
            return;
        }
        let at = self.find(neighbour).unwrap_or_else(|| {
            self.next = (self.next + 1) % self.slots.len();
            self.next
        });
        self.slots[at] = Slot { neighbour, len: frame.len(), since: now };
        self.bytes[at * SLOT_LEN..][..frame.len()].copy_from_slice(frame);
    }

    /// Drops what is held for `neighbour`.
    pub fn forget(&mut self, neighbour: u32) {
        if let Some(at) = self.find(neighbour) {
            self.slots[at].neighbour = FREE;
        }
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
        held.put(3, &[1; 60], 0);
        held.put(3, &[2; 61], 0);
        held.put(4, &[3; 62], 0);
        held.put(5, &[4; 63], 0);
        assert_eq!(held.take(3, HOLD_NS).as_deref(), Some(&[2; 61][..]));
        assert_eq!(held.take(3, HOLD_NS), None);
        assert_eq!(held.take(5, HOLD_NS + 1), None, "too old");
        held.forget(4);
        assert_eq!(held.take(4, 0), None);
        assert_eq!(Held::default().take(0, 0), None);
    }

    #[test]
    fn space_is_bounded() {
        let mut held = Held::new();
        held.put(7, &[0; SLOT_LEN + 1], 0);
        assert_eq!(held.take(7, 0), None);
        for neighbour in 0..=SLOTS as u32 {
            held.put(neighbour, &[1; 60], 0);
        }
        assert_eq!(held.take(0, 0), None, "the one held longest made room");
        assert!((1..=SLOTS as u32).all(|neighbour| held.take(neighbour, 0).is_some()));
    }
}
