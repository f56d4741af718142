//! Load balancer: a client's packets are found by both their ends and go to the connection's
//! backend; a backend's packets are found by the backend and come from its virtual endpoint.

use super::table::{Key, Slot, Table};
use super::{
    BATCH, DESTINATION, Hand, Packet, SOURCE, TICK_BITS, end, end_of, is_plain_udp, rewrite, ticks,
};

/// An address and a port.
pub type Endpoint = (u32, u16);

/// A backend as its connections need it.
#[derive(Clone, Copy)]
struct Backend {
    endpoint: u64,
    /// How often its number has been given: connections of earlier ones are cut.
    generation: u32,
    is_up: bool,
}

/// The loop.
pub struct LoadBalancer {
    /// Connections: value is the backend's number, extra its generation.
    table: Table,
    backends: Vec<Backend>,
    /// The virtual endpoint of each backend.
    replies: Table,
    hashes: [usize; BATCH],
}

const LIFETIME: u32 = ticks(300);
const UDP: u64 = 17 << 48;

impl LoadBalancer {
    /// Loads connections, client and number of the backend, to one service.
    pub fn new(
        connections: impl ExactSizeIterator<Item = (Endpoint, usize)>,
        backends: &[Endpoint],
        service: Endpoint,
    ) -> Self {
        let network = |(address, port): Endpoint| end(address.to_be(), port.to_be());
        let (mut table, mut replies) = (Table::new(connections.len()), Table::new(backends.len()));
        for (client, backend) in connections {
            let (key, value) = ([network(client), network(service) | UDP], backend as u64);
            table.insert(Slot { key, value, deadline: LIFETIME, extra: 1 });
        }
        for &backend in backends {
            let (key, value) = ([network(backend), UDP], network(service));
            replies.insert(Slot { key, value, deadline: u32::MAX, extra: 0 });
        }
        let up = |&one| Backend { endpoint: network(one), generation: 1, is_up: true };
        Self { table, backends: backends.iter().map(up).collect(), replies, hashes: [0; BATCH] }
    }
}

#[inline(always)]
fn key(packet: &Packet) -> Key {
    [end_of(packet, SOURCE), end_of(packet, DESTINATION) | UDP]
}

impl Hand for LoadBalancer {
    fn batch(
        &mut self,
        packets: &mut [&mut Packet],
        ports: &[u8],
        now_ns: u64,
        out: &mut [u64; 2],
    ) {
        let now = (now_ns >> TICK_BITS) as u32;
        for ((packet, hash), &port) in packets.iter().zip(&mut self.hashes).zip(ports) {
            if port == 0 {
                *hash = self.table.hash(key(packet));
                self.table.prefetch(*hash);
            }
        }
        for ((packet, &hash), &port) in packets.iter_mut().zip(&self.hashes).zip(ports) {
            if !is_plain_udp(packet) {
                continue;
            }
            if port == 0 {
                let Some(slot) = self.table.find(hash, key(packet), now) else { continue };
                let Some(backend) = self.backends.get(slot.value as usize) else { continue };
                if backend.generation != slot.extra || !backend.is_up {
                    continue;
                }
                slot.deadline = now + LIFETIME;
                rewrite(packet, DESTINATION, backend.endpoint);
            } else {
                let key = [end_of(packet, SOURCE), UDP];
                let found = self.replies.find(self.replies.hash(key), key, 0);
                let Some(slot) = found else { continue };
                rewrite(packet, SOURCE, slot.value);
            }
            out[usize::from(port ^ 1) & 1] += 1;
        }
        self.table.expire(now, drop);
    }
}
