//! The synthetic function: an element of an array, drawn anew for each packet, read or counted up.

use anabranch_nfs::synthetic::synthetic::{Law, chosen, root};

use super::{BATCH, Hand, Packet};
use crate::packets::Chance;

/// The loop.
pub struct Synthetic {
    elements: Vec<[u64; 8]>,
    chance: Chance,
    indices: [u32; BATCH],
    law: Law,
    range: (u64, u64),
    writes: bool,
}

impl Synthetic {
    /// An array of `elements` elements that are drawn by `law`; `writes`: what is read is changed.
    pub fn new(elements: u32, law: Law, writes: bool) -> Self {
        let one = 1 << 40;
        // As the function's `init` has it.
        let range = (root(606_731_584_781), root(u64::from(elements) * one + one / 2));
        let (chance, indices) = (Chance::new(1), [0; BATCH]);
        Self { elements: vec![[0; 8]; elements as usize], chance, indices, law, range, writes }
    }
}

impl Hand for Synthetic {
    fn batch(&mut self, packets: &mut [&mut Packet], ports: &[u8], _: u64, out: &mut [u64; 2]) {
        let (elements, (low, high)) = (self.elements.len() as u32, self.range);
        for index in &mut self.indices[..packets.len()] {
            *index = chosen(self.chance.word(), elements, self.law, low, high);
        }
        for (&index, &port) in self.indices.iter().zip(ports) {
            let Some(element) = self.elements.get_mut(index as usize) else { continue };
            let was = element[0];
            element[0] += u64::from(self.writes);
            out[usize::from(port ^ 1) & 1] += u64::from(was != u64::MAX);
        }
    }
}
