//! Bridge: the source's entry is renewed, the destination's tells the port.

use super::table::{Key, Slot, Table};
use super::{BATCH, Hand, Packet, word};

/// The loop. Its deadlines are in seconds.
pub struct Bridge {
    table: Table,
    hashes: [[usize; 2]; BATCH],
}

const AGEING_S: u32 = 300;
const MAC: u64 = 0xffff_ffff_ffff;
/// The group bit, in memory order.
const GROUP: u64 = 1;

impl Bridge {
    /// Loads stations: address as its six bytes in memory order, and port.
    pub fn new(stations: impl ExactSizeIterator<Item = (u64, u8)>) -> Self {
        let mut table = Table::new(stations.len());
        for (mac, port) in stations {
            table.insert(Slot { key: [mac, 1], value: port.into(), deadline: AGEING_S, extra: 0 });
        }
        Self { table, hashes: [[0; 2]; BATCH] }
    }
}

#[inline(always)]
fn keys(packet: &Packet) -> [Key; 2] {
    [[word(packet, 6) & MAC, 1], [word(packet, 0) & MAC, 1]]
}

impl Hand for Bridge {
    fn batch(
        &mut self,
        packets: &mut [&mut Packet],
        ports: &[u8],
        now_ns: u64,
        out: &mut [u64; 2],
    ) {
        let now_s = (now_ns / 1_000_000_000) as u32;
        for (packet, hashes) in packets.iter().zip(&mut self.hashes) {
            *hashes = keys(packet).map(|key| self.table.hash(key));
            hashes.iter().for_each(|&hash| self.table.prefetch(hash));
        }
        for ((packet, hashes), &port) in packets.iter().zip(&self.hashes).zip(ports) {
            let [source, destination] = keys(packet);
            if (source[0] | destination[0]) & GROUP != 0 {
                continue;
            }
            let Some(slot) = self.table.find(hashes[0], source, now_s) else { continue };
            // A frame in the same second has nothing to write.
            if slot.deadline != now_s + AGEING_S || slot.value != u64::from(port) {
                slot.deadline = now_s + AGEING_S;
                slot.value = port.into();
            }
            let Some(slot) = self.table.find(hashes[1], destination, now_s) else { continue };
            if slot.value != u64::from(port) {
                out[slot.value as usize & 1] += 1;
            }
        }
        self.table.expire(now_s, drop);
    }
}
