//! Firewall: a connection is found by both ends, in either direction, and refreshed. UDP has no
//! further state, but a packet must come in on the side where its source is.

use super::table::{Key, Slot, Table};
use super::{
    BATCH, DESTINATION, Hand, Packet, SOURCE, TICK_BITS, end, end_of, is_plain_udp, ticks,
};

/// A connection to load: inside address and port, outside address and port.
pub type Connection = (u32, u16, u32, u16);

/// The loop.
pub struct Firewall {
    table: Table,
    hashes: [usize; BATCH],
}

const LIFETIME: u32 = ticks(300);
const UDP: u64 = 17 << 48;

impl Firewall {
    /// Loads connections.
    pub fn new(connections: impl ExactSizeIterator<Item = Connection>) -> Self {
        let mut table = Table::new(connections.len());
        for (inside, inside_port, outside, outside_port) in connections {
            let ends = (
                end(inside.to_be(), inside_port.to_be()),
                end(outside.to_be(), outside_port.to_be()),
            );
            let (key, inside_is_lower) = key(ends);
            let value = inside_is_lower.into();
            table.insert(Slot { key, value, deadline: LIFETIME, extra: 0 });
        }
        Self { table, hashes: [0; BATCH] }
    }
}

/// Both ends, the lower first, and whether that is the source.
#[inline(always)]
fn key((source, destination): (u64, u64)) -> (Key, bool) {
    ([source.min(destination), source.max(destination) | UDP], source < destination)
}

#[inline(always)]
fn key_of(packet: &Packet) -> (Key, bool) {
    key((end_of(packet, SOURCE), end_of(packet, DESTINATION)))
}

impl Hand for Firewall {
    fn batch(
        &mut self,
        packets: &mut [&mut Packet],
        ports: &[u8],
        now_ns: u64,
        out: &mut [u64; 2],
    ) {
        let now = (now_ns >> TICK_BITS) as u32;
        for (packet, hash) in packets.iter().zip(&mut self.hashes) {
            *hash = self.table.hash(key_of(packet).0);
            self.table.prefetch(*hash);
        }
        for ((packet, &hash), &port) in packets.iter().zip(&self.hashes).zip(ports) {
            if !is_plain_udp(packet) {
                continue;
            }
            let (key, source_is_lower) = key_of(packet);
            let Some(slot) = self.table.find(hash, key, now) else { continue };
            if slot.value ^ u64::from(source_is_lower) != u64::from(port) {
                continue;
            }
            slot.deadline = now + LIFETIME;
            out[usize::from(port ^ 1) & 1] += 1;
        }
        self.table.expire(now, drop);
    }
}
