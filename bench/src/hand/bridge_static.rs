//! Static bridge: the destination's entry tells the port; nothing is learnt, nothing ages.

use super::table::{Key, Slot, Table};
use super::{BATCH, Hand, Packet, word};

/// The loop.
pub struct BridgeStatic {
    table: Table,
    hashes: [usize; BATCH],
}

const MAC: u64 = 0xffff_ffff_ffff;
/// The group bit, in memory order.
const GROUP: u64 = 1;

impl BridgeStatic {
    /// Loads stations: address as its six bytes in memory order, and port.
    pub fn new(stations: impl ExactSizeIterator<Item = (u64, u8)>) -> Self {
        let mut table = Table::new(stations.len());
        for (mac, port) in stations {
            table.insert(Slot { key: [mac, 1], value: port.into(), deadline: u32::MAX, extra: 0 });
        }
        Self { table, hashes: [0; BATCH] }
    }
}

#[inline(always)]
fn key(packet: &Packet) -> Key {
    [word(packet, 0) & MAC, 1]
}

impl Hand for BridgeStatic {
    fn batch(&mut self, packets: &mut [&mut Packet], ports: &[u8], _: u64, out: &mut [u64; 2]) {
        for (packet, hash) in packets.iter().zip(&mut self.hashes) {
            *hash = self.table.hash(key(packet));
            self.table.prefetch(*hash);
        }
        for ((packet, &hash), &port) in packets.iter().zip(&self.hashes).zip(ports) {
            let key = key(packet);
            if key[0] & GROUP != 0 {
                continue;
            }
            let Some(slot) = self.table.find(hash, key, 0) else { continue };
            if slot.value != u64::from(port) {
                out[slot.value as usize & 1] += 1;
            }
        }
    }
}
