//! The limit: each packet's flow is looked up and refreshed, nothing else is done.

use super::table::{Key, Slot, Table};
use super::{BATCH, Hand, Packet, TICK_BITS, ticks};

/// Looks up and refreshes; `K` tells what a packet of a port is found by.
pub struct Limit<K> {
    table: Table,
    key: K,
    hashes: [usize; BATCH],
}

const LIFETIME: u32 = ticks(300);

impl<K: Fn(&Packet, u8) -> Key> Limit<K> {
    /// Loads at most `keys` different keys, those of `packets`, each with its port.
    pub fn new<'p>(packets: impl Iterator<Item = (&'p Packet, u8)>, keys: usize, key: K) -> Self {
        let mut table = Table::new(keys);
        for (packet, port) in packets {
            let key = key(packet, port);
            if table.find(table.hash(key), key, 0).is_none() {
                table.insert(Slot { key, value: 0, deadline: LIFETIME, extra: 0 });
            }
        }
        Self { table, key, hashes: [0; BATCH] }
    }
}

impl<K: Fn(&Packet, u8) -> Key + Send> Hand for Limit<K> {
    fn batch(
        &mut self,
        packets: &mut [&mut Packet],
        ports: &[u8],
        now_ns: u64,
        out: &mut [u64; 2],
    ) {
        let now = (now_ns >> TICK_BITS) as u32;
        for ((packet, hash), &port) in packets.iter().zip(&mut self.hashes).zip(ports) {
            *hash = self.table.hash((self.key)(packet, port));
            self.table.prefetch(*hash);
        }
        for ((packet, &hash), &port) in packets.iter().zip(&self.hashes).zip(ports) {
            let found = self.table.find(hash, (self.key)(packet, port), now);
            let Some(slot) = found else { continue };
            slot.deadline = now + LIFETIME;
            out[usize::from(port ^ 1) & 1] += 1;
        }
    }
}
