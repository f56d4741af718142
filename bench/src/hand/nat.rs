//! NAT: outbound packets are found by inside address and port, inbound ones by public address and
//! port; both are rewritten and refresh the mapping.

use super::table::{Key, Slot, Table};
use super::{
    BATCH, DESTINATION, Hand, Packet, SOURCE, TICK_BITS, address, end, end_of, is_plain_udp,
    number, rewrite, ticks,
};
use anabranch_nf::memory::{Zeroed, prefetch};

/// A mapping to load: inside address and port, public address and port.
pub type Mapping = (u32, u16, u32, u16);

/// The loop.
pub struct Nat {
    table: Table,
    /// Where the mapping of each public address and port lies in the table.
    places: Zeroed<u32>,
    first_public: u32,
    publics: u32,
    hashes: [usize; BATCH],
}

const LIFETIME: u32 = ticks(300);

impl Nat {
    /// Loads mappings whose `publics` public addresses follow one another from `first_public`.
    pub fn new(
        mappings: impl ExactSizeIterator<Item = Mapping>,
        first_public: u32,
        publics: u32,
    ) -> Self {
        let table = Table::new(mappings.len());
        let places = Zeroed::new((publics as usize) << 16);
        let mut nat = Self { table, places, first_public, publics, hashes: [0; BATCH] };
        for (inside, inside_port, public, public_port) in mappings {
            let key = key(end(inside.to_be(), inside_port.to_be()));
            let value = end(public.to_be(), public_port.to_be());
            let place = nat.table.insert(Slot { key, value, deadline: LIFETIME, extra: 0 });
            nat.places[((public - first_public) as usize) << 16 | usize::from(public_port)] = place;
        }
        nat
    }

    /// An address as it lies in a packet.
    #[inline(always)]
    fn is_public(&self, address: u32) -> bool {
        u32::from_be(address).wrapping_sub(self.first_public) < self.publics
    }
}

/// Where the place of a packet's public destination stands; past the end for other addresses.
#[inline(always)]
fn public_index(packet: &Packet, first_public: u32) -> usize {
    let public = u32::from_be(address(packet, 30)).wrapping_sub(first_public);
    (public as usize) << 16 | usize::from(number(packet, 36))
}

#[inline(always)]
fn is_for_many(address: u32) -> bool {
    u32::from_be(address) >= 0xe000_0000
}

#[inline(always)]
fn key(inside: u64) -> Key {
    [inside, 17]
}

impl Hand for Nat {
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
                *hash = self.table.hash(key(end_of(packet, SOURCE)));
                self.table.prefetch(*hash);
            } else {
                *hash = public_index(packet, self.first_public);
                prefetch(self.places.as_ptr().wrapping_add(*hash));
            }
        }
        for (hash, _) in self.hashes.iter_mut().zip(ports).filter(|(_, port)| **port == 1) {
            *hash = self.places.get(*hash).map_or(0, |&place| place as usize);
            self.table.prefetch(*hash);
        }
        for ((packet, &hash), &port) in packets.iter_mut().zip(&self.hashes).zip(ports) {
            if !is_plain_udp(packet) {
                continue;
            }
            if port == 0 {
                // To groups, or to a host behind this NAT: not of the established path.
                let to = address(packet, 30);
                if is_for_many(to) || self.is_public(to) {
                    continue;
                }
                let found = self.table.find(hash, key(end_of(packet, SOURCE)), now);
                let Some(slot) = found else { continue };
                slot.deadline = now + LIFETIME;
                rewrite(packet, SOURCE, slot.value);
            } else {
                let slot = self.table.at(hash);
                if slot.value != end_of(packet, DESTINATION) || slot.deadline <= now {
                    continue;
                }
                slot.deadline = now + LIFETIME;
                rewrite(packet, DESTINATION, slot.key[0]);
            }
            out[usize::from(port ^ 1) & 1] += 1;
        }
        self.table.expire(now, drop);
    }
}
