//! Policer: a token bucket per destination address of what arrives on port 1; port 0 passes.

use super::table::{Key, Slot, Table};
use super::{BATCH, Hand, Packet, TICK_BITS, address, is_plain_ipv4, ticks};

/// The loop.
pub struct Policer {
    table: Table,
    hashes: [usize; BATCH],
    rate_bps: u64,
    /// What the bucket holds, in 10^-9 bit.
    burst: u64,
    lifetime: u32,
}

/// 10^-9 bit in a byte.
const PER_BYTE: u64 = 8_000_000_000;
const TICK_NS: u64 = 1 << TICK_BITS;

impl Policer {
    /// Loads destinations with full buckets.
    pub fn new(
        destinations: impl ExactSizeIterator<Item = u32>,
        rate_bps: u64,
        burst_bytes: u64,
    ) -> Self {
        let mut table = Table::new(destinations.len());
        let lifetime = ticks(burst_bytes * 8 / rate_bps + 10);
        for destination in destinations {
            let key = key(destination.to_be());
            table.insert(Slot { key, value: 0, deadline: lifetime, extra: 0 });
        }
        Self { table, hashes: [0; BATCH], rate_bps, burst: burst_bytes * PER_BYTE, lifetime }
    }
}

#[inline(always)]
fn key(destination: u32) -> Key {
    [destination.into(), 1]
}

impl Hand for Policer {
    fn batch(
        &mut self,
        packets: &mut [&mut Packet],
        ports: &[u8],
        now_ns: u64,
        out: &mut [u64; 2],
    ) {
        let now = (now_ns >> TICK_BITS) as u32;
        for (packet, hash) in packets.iter().zip(&mut self.hashes) {
            *hash = self.table.hash(key(address(packet, 30)));
            self.table.prefetch(*hash);
        }
        for ((packet, &hash), &port) in packets.iter().zip(&self.hashes).zip(ports) {
            if !is_plain_ipv4(packet) {
                continue;
            }
            if port == 0 {
                out[1] += 1;
                continue;
            }
            let found = self.table.find(hash, key(address(packet, 30)), now);
            let Some(slot) = found else { continue };
            // The last packet's time: its tick is known from the deadline, the rest is kept.
            let last_ns =
                u64::from(slot.deadline - self.lifetime) * TICK_NS + u64::from(slot.extra);
            let elapsed_ns = now_ns.saturating_sub(last_ns);
            let earned = elapsed_ns.saturating_mul(self.rate_bps);
            let missing = slot.value.saturating_sub(earned);
            let with_packet = missing + packet.len() as u64 * PER_BYTE;
            slot.deadline = now + self.lifetime;
            slot.extra = (now_ns % TICK_NS) as u32;
            if with_packet > self.burst {
                slot.value = missing;
                continue;
            }
            slot.value = with_packet;
            out[0] += 1;
        }
        self.table.expire(now, drop);
    }
}
