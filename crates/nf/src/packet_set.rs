//! Packet sets: state that belongs to the packets of one flow, connection, host.

use std::net::{Ipv4Addr, Ipv6Addr};

use anabranch_packet::Port;

use crate::key::{Fold, Hash, Key, Value};
use crate::state::TableUse;
use crate::state::table::{SlotId, Table};
use crate::state::wheel::{Tick, Visit, Wheel};

/// What an IPv4 packet set is keyed by; fields that the declaration does not name are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetKey4 {
    /// Source address (of the smaller end where the set is bidirectional).
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port, or echo identifier.
    pub src_port: u16,
    /// Destination port, or echo identifier.
    pub dst_port: u16,
    /// Number of the key list, so that lists do not mix: 1 and up.
    pub list: u8,
}

/// As [`SetKey4`], for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetKey6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Source port, or echo identifier.
    pub src_port: u16,
    /// Destination port, or echo identifier.
    pub dst_port: u16,
    /// Number of the key list.
    pub list: u8,
}

macro_rules! set_key {
    ($key:ident, $address:ty) => {
        impl $key {
            /// The key that a packet and its reply share: the smaller end first.
            #[inline(always)]
            pub fn bidirectional(self) -> Self {
                if (self.src, self.src_port) <= (self.dst, self.dst_port) {
                    return self;
                }
                let Self { src, dst, src_port, dst_port, list } = self;
                Self { src: dst, dst: src, src_port: dst_port, dst_port: src_port, list }
            }
        }

        impl Value for $key {
            fn zero() -> Self {
                Self {
                    src: <$address>::UNSPECIFIED,
                    dst: <$address>::UNSPECIFIED,
                    src_port: 0,
                    dst_port: 0,
                    list: 0,
                }
            }
        }

        impl Key for $key {
            #[inline(always)]
            fn fold(&self, fold: Fold) -> Fold {
                let fold = self.dst.fold(self.src.fold(fold));
                fold.push(u64::from(self.src_port), 16)
                    .push(u64::from(self.dst_port), 16)
                    .push(u64::from(self.list), 8)
            }
        }
    };
}
set_key!(SetKey4, Ipv4Addr);
set_key!(SetKey6, Ipv6Addr);

/// The packet set of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKey {
    /// None: the packet is an orphan.
    None,
    /// An IPv4 set.
    V4(SetKey4),
    /// An IPv6 set.
    V6(SetKey6),
}

/// A packet-set declaration as steering needs it: which fields every key list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSpec {
    /// Name of the state struct.
    pub name: &'static str,
    /// Every list names the source address.
    pub src: bool,
    /// Every list names the destination address.
    pub dst: bool,
    /// Every list names the source port.
    pub src_port: bool,
    /// Every list names the destination port.
    pub dst_port: bool,
    /// A packet and its reply belong together.
    pub bidirectional: bool,
    /// Only packets received here belong to a set.
    pub port: Option<Port>,
}

/// Sizes of a packet-set table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetShape {
    /// Sets at once.
    pub capacity: u32,
    /// Lifetime from the last packet, in nanoseconds.
    pub lifetime_ns: u64,
}

/// A set in its table.
#[derive(Clone, Copy, Debug)]
pub struct Entry<S> {
    deadline: Tick,
    lifetime: u32,
    shard: u16,
    /// The NF's state.
    pub state: S,
}

impl<S> Entry<S> {
    /// Whether the set exists at `now`.
    #[inline(always)]
    pub fn is_alive(&self, now: Tick) -> bool {
        self.deadline > now
    }

    /// Restarts the lifetime at `now`, with a new length when `lifetime` is not 0.
    #[inline(always)]
    pub fn refresh(&mut self, now: Tick, lifetime: u32) {
        if lifetime != 0 {
            self.lifetime = lifetime;
        }
        self.deadline = now.saturating_add(self.lifetime);
    }

    /// The shard that owns the set.
    pub fn shard(&self) -> u16 {
        self.shard
    }
}

impl<S: Value> Value for Entry<S> {
    fn zero() -> Self {
        Self { deadline: 0, lifetime: 0, shard: 0, state: S::zero() }
    }
}

/// The packet sets of one address family.
pub struct SetTable<K, S> {
    table: Table<K, Entry<S>>,
    wheel: Option<Wheel>,
    lifetime: u32,
}

impl<K: Key, S: Value> SetTable<K, S> {
    /// A table of this shape, hashed with `seed`.
    pub fn new(shape: SetShape, seed: u64) -> Self {
        let lifetime = crate::context::to_ticks(shape.lifetime_ns).max(1);
        Self { table: Table::new(shape.capacity, seed), wheel: None, lifetime }
    }

    /// The hash of `key`.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> Hash {
        self.table.hash(key)
    }

    /// Fetches the bucket of this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash) {
        self.table.prefetch(hash);
    }

    /// The set of `key`, alive or not yet collected.
    #[inline(always)]
    pub fn find(&self, hash: Hash, key: &K) -> Option<SlotId> {
        self.table.find(hash, key)
    }

    /// The set at `id`, as [`find`](Self::find) or [`open`](Self::open) returned it just now.
    #[inline(always)]
    pub fn entry_mut(&mut self, id: SlotId) -> &mut Entry<S> {
        self.table.value_mut(id)
    }

    /// Opens a set; `None` when the table is full.
    pub fn open(&mut self, hash: Hash, key: K, shard: u16, state: S, now: Tick) -> Option<SlotId> {
        let lifetime = self.lifetime;
        let deadline = now.saturating_add(lifetime);
        let id = self.table.insert(hash, key, Entry { deadline, lifetime, shard, state })?;
        let slots = self.table.slots();
        self.wheel.get_or_insert_with(|| Wheel::new(slots)).queue(id.0, deadline);
        Some(id)
    }

    /// Removes a set, and returns its state.
    pub fn close(&mut self, hash: Hash, id: SlotId) -> Option<S> {
        self.table.remove(hash, id).map(|(_, entry)| entry.state)
    }

    /// The next set whose time has run out at `now`, removed, with its shard. `budget` counts down
    /// the sets looked at.
    #[inline]
    pub fn expire(&mut self, now: Tick, budget: &mut u32) -> Option<(u16, S)> {
        while *budget > 0 {
            let id = self.wheel.as_mut()?.pop(now)?;
            *budget -= 1;
            let Some((key, entry)) = self.table.entry(SlotId(id)) else { continue };
            match crate::state::visit(entry.deadline, now) {
                Visit::Again(deadline) => self.wheel.as_mut()?.queue(id, deadline),
                Visit::Forget => {
                    let hash = self.hash(&key);
                    return self.close(hash, SlotId(id)).map(|state| (entry.shard, state));
                }
            }
        }
        None
    }

    /// How full the table is.
    pub fn table_use(&self, name: &str) -> TableUse {
        let wheel = self.wheel.as_ref().map_or(0, Wheel::bytes);
        TableUse {
            name: name.to_owned(),
            used: self.table.len().into(),
            capacity: self.table.capacity().into(),
            bytes: (self.table.bytes() + wheel) as u64,
            faults: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: SetShape = SetShape { capacity: 100, lifetime_ns: 1 << 30 };

    fn key(host: u32) -> SetKey4 {
        SetKey4 {
            src: Ipv4Addr::from(host),
            dst: Ipv4Addr::LOCALHOST,
            src_port: 5,
            dst_port: 80,
            list: 1,
        }
    }

    #[test]
    fn a_packet_and_its_reply_share_a_set() {
        let there = key(9);
        let back = SetKey4 { src: there.dst, dst: there.src, src_port: 80, dst_port: 5, list: 1 };
        assert_eq!(there.bidirectional(), back.bidirectional());
        assert_ne!(there.bidirectional(), key(10).bidirectional());
    }

    #[test]
    fn lives_exactly_as_long_as_declared() {
        let mut sets = SetTable::<SetKey4, u64>::new(SHAPE, 1);
        let hash = sets.hash(&key(1));
        let id = sets.open(hash, key(1), 3, 77, 10).unwrap();
        assert_eq!((sets.entry_mut(id).state, sets.entry_mut(id).shard()), (77, 3));
        let mut alive = |now| sets.entry_mut(id).is_alive(now);
        assert!(alive(10 + 1_023) && !alive(10 + 1_024));
        sets.entry_mut(id).refresh(500, 0);
        assert!(sets.entry_mut(id).is_alive(500 + 1_023));
        sets.entry_mut(id).refresh(600, 50);
        assert!(!sets.entry_mut(id).is_alive(650));
    }

    #[test]
    fn collects_what_has_expired_and_only_that() {
        let mut sets = SetTable::<SetKey4, u64>::new(SHAPE, 1);
        for host in 0..100 {
            let hash = sets.hash(&key(host));
            sets.open(hash, key(host), 0, host.into(), host * 10).unwrap();
        }
        let hash = sets.hash(&key(100));
        assert!(sets.open(hash, key(100), 0, 0, 0).is_none());
        let mut expired = Vec::new();
        while let Some((0, state)) = sets.expire(1_524, &mut 1_000) {
            expired.push(state);
        }
        expired.sort_unstable();
        assert!(expired.len() >= 40 && expired.len() <= 51, "{}", expired.len());
        assert_eq!(expired, (0..expired.len() as u64).collect::<Vec<_>>());
    }
}
