//! Packet sets: state that belongs to the packets of one flow, connection, host.

mod stored;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) use stored::Stored;
pub use stored::{Ends, OneAddress};

use crate::key::{Fold, Hash, Key, Value};
use crate::pack::{Pack, Unpack};
use crate::state::journal::{self, Journal, Journaled, Moment, Refreshing, Sink, Steps};
use crate::state::shards::{Tag, Tags};

use crate::context::ends;
use crate::state::table::{SlotId, Table};
use crate::state::wheel::{Tick, Wheel, rebased};
use crate::state::{Bundle, Deadline, Lifetime, Movable, Shift, TableUse, Ward};

/// What an IPv4 packet set is keyed by: both ends, and the number of the key list, so that lists do
/// not mix. Fields that the declaration does not name are zero.
///
/// An end is its address in the bytes' order and its port, in one word; the list's number stands
/// above the first end's port. Packed, so that two sets with a little state fit one cache line.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct SetKey4 {
    first: u64,
    second: u64,
}

impl SetKey4 {
    /// The key of no packet.
    pub const NONE: Self = Self { first: 0, second: 0 };

    /// The key of a packet from `src` to `dst`; ports are zero where there are none.
    #[inline(always)]
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, src_port: u16, dst_port: u16, list: u8) -> Self {
        Self::of_ends(end(src, src_port), end(dst, dst_port), list)
    }

    /// The key that a packet and its reply share: the smaller end first.
    #[inline(always)]
    pub fn between(src: Ipv4Addr, dst: Ipv4Addr, src_port: u16, dst_port: u16, list: u8) -> Self {
        let (src, dst) = (end(src, src_port), end(dst, dst_port));
        Self::of_ends(src.min(dst), src.max(dst), list)
    }

    #[inline(always)]
    fn of_ends(first: u64, second: u64, list: u8) -> Self {
        Self { first: first | u64::from(list) << 48, second }
    }
}

#[inline(always)]
fn end(address: Ipv4Addr, port: u16) -> u64 {
    u64::from(u32::from_ne_bytes(address.octets())) | u64::from(port) << 32
}

impl Value for SetKey4 {
    const BITS: u32 = 128;
    fn zero() -> Self {
        Self::NONE
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        pack.put(self.first, 64);
        pack.put(self.second, 64);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        Self { first: unpack.take(64), second: unpack.take(64) }
    }
}

impl fmt::Debug for SetKey4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |end: u64| Ipv4Addr::from((end as u32).to_ne_bytes()).to_string();
        let (first, second) = (self.first, self.second);
        let ends = [first, second].map(|end| (address(end), (end >> 32) as u16));
        write_ends(f, &ends, second == 0)
    }
}

/// The ends of a packet set, as many as its key has, with their ports where there are any.
fn write_ends(
    f: &mut fmt::Formatter<'_>,
    [first, second]: &[(String, u16); 2],
    is_one: bool,
) -> fmt::Result {
    let write = |f: &mut fmt::Formatter<'_>, (address, port): &(String, u16)| match port {
        0 => f.write_str(address),
        port => write!(f, "{address} port {port}"),
    };
    write(f, first)?;
    if !is_one {
        f.write_str(", ")?;
        write(f, second)?;
    }
    Ok(())
}

impl Key for SetKey4 {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push(self.first, 64).push(self.second, 64)
    }

    #[inline(always)]
    fn hash(&self, seed: u64) -> Hash {
        Hash::of_pair([self.first, self.second], seed)
    }
}

/// As [`SetKey4`], for IPv6.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SetKey6 {
    first: [u64; 2],
    second: [u64; 2],
    /// The first end's port below the second's: 40 bytes in all, so that a set with a little state
    /// fits one cache line.
    ports: u32,
    list: u8,
}

impl SetKey6 {
    /// The key of a packet from `src` to `dst`; ports are zero where there are none.
    #[inline(always)]
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, src_port: u16, dst_port: u16, list: u8) -> Self {
        let ports = u32::from(src_port) | u32::from(dst_port) << 16;
        Self { first: halves(src), second: halves(dst), ports, list }
    }

    /// The key that a packet and its reply share: the smaller end first.
    #[inline(always)]
    pub fn between(src: Ipv6Addr, dst: Ipv6Addr, src_port: u16, dst_port: u16, list: u8) -> Self {
        if (halves(src), src_port) <= (halves(dst), dst_port) {
            Self::new(src, dst, src_port, dst_port, list)
        } else {
            Self::new(dst, src, dst_port, src_port, list)
        }
    }
}

#[inline(always)]
fn halves(address: Ipv6Addr) -> [u64; 2] {
    let word = u128::from_ne_bytes(address.octets());
    [word as u64, (word >> 64) as u64]
}

impl Value for SetKey6 {
    const BITS: u32 = 4 * 64 + 32 + 8;
    fn zero() -> Self {
        Self { first: [0; 2], second: [0; 2], ports: 0, list: 0 }
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        (self.first, self.second, self.ports, self.list).pack(pack);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        let (first, second, ports, list) = Value::unpack(unpack);
        Self { first, second, ports, list }
    }
}

impl fmt::Debug for SetKey6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |end: [u64; 2]| {
            let word = u128::from(end[0]) | u128::from(end[1]) << 64;
            Ipv6Addr::from(word.to_ne_bytes()).to_string()
        };
        let ends = [
            (address(self.first), self.ports as u16),
            (address(self.second), (self.ports >> 16) as u16),
        ];
        write_ends(f, &ends, self.second == [0; 2] && self.ports >> 16 == 0)
    }
}

impl Key for SetKey6 {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        let ([a, b], [c, d]) = (self.first, self.second);
        let fold = fold.push(a, 64).push(b, 64).push(c, 64).push(d, 64);
        fold.push(u64::from(self.ports) | u64::from(self.list) << 32, 64)
    }
}

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

/// Sizes of a packet-set table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetShape {
    /// Sets at once.
    pub capacity: u32,
    /// Lifetime from the last packet, in nanoseconds.
    pub lifetime_ns: u64,
}

/// A set in its table.
#[derive(Debug)]
pub struct Entry<S> {
    deadline: Deadline,
    lifetime: Lifetime,
    /// The NF's state.
    pub state: S,
}

/// Where a set lies.
#[derive(Clone, Copy, Debug)]
pub struct Spot(usize);

impl<S> Entry<S> {
    /// Where it lies, as long as it stays in its table.
    #[inline(always)]
    pub fn spot(&self) -> Spot {
        Spot(std::ptr::from_ref(self).addr())
    }

    /// Whether the set exists at `now`.
    #[inline(always)]
    pub fn is_alive(&self, now: Tick) -> bool {
        self.deadline.tick() > now
    }

    /// The set, if it exists at `now`: a plain comparison, of whoever owns it.
    #[inline(always)]
    pub fn if_alive(&mut self, now: Tick) -> Option<&mut Self> {
        (*self.deadline.tick_mut() > now).then_some(self)
    }

    /// Restarts the lifetime at `now`, with a new length when `lifetime` is not 0. Of the same length it
    /// never ends sooner than before, whichever of two packets comes first. Whether the length is a new one.
    #[inline(always)]
    pub fn refresh(&mut self, now: Tick, lifetime: u32) -> bool {
        let last = self.lifetime.ticks();
        let is_new = lifetime != 0 && lifetime != last;
        if is_new {
            self.lifetime.set(lifetime);
            *self.deadline.tick_mut() = ends(now, lifetime);
        } else {
            self.deadline.prolong(now.wrapping_add(last));
        }
        is_new
    }

    /// A set that ends at `tick`, and lives so long from each packet on.
    pub(crate) fn new(tick: Tick, lifetime: u32, state: S) -> Self {
        Self { deadline: Deadline::new(tick), lifetime: Lifetime::new(lifetime), state }
    }

    /// Ticks are counted from an origin `by` later.
    pub(crate) fn rebase(&mut self, by: Tick) {
        let deadline = self.deadline.tick_mut();
        *deadline = rebased(*deadline, by);
    }

    /// The same once more.
    pub(crate) fn copied(&self) -> Self
    where
        S: Copy,
    {
        Self::new(self.deadline.tick(), self.lifetime(), self.state)
    }

    /// As a store has it.
    pub(crate) fn told(&self, moment: &Moment) -> (u64, u32, S)
    where
        S: Copy,
    {
        (moment.absolute(self.deadline.tick()), self.lifetime(), self.state)
    }

    /// The set that a store has so; `None`: it is none.
    pub(crate) fn of_told(told: &[u8], moment: &Moment) -> Option<Self>
    where
        S: Value,
    {
        let (absolute, lifetime, state) = journal::loaded(told)?;
        Some(Self::new(moment.deadline(absolute, lifetime), lifetime, state))
    }

    /// When the set ends.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// Its lifetime from each packet on, in ticks.
    pub fn lifetime(&self) -> u32 {
        self.lifetime.ticks()
    }

    /// Whether it is noted for a store that the set was refreshed.
    #[inline(always)]
    pub fn is_noted(&self) -> bool {
        self.lifetime.is_noted()
    }
}

/// The packet sets of one address family.
pub struct SetTable<K, S> {
    table: Table<Stored<K, S>, Entry<S>>,
    wheel: Wheel,
    lifetime: u32,
    /// Which shards its sets belong to, where these may move to other workers.
    tags: Option<Tags>,
    /// Which sets were written and which closed, where a store keeps them.
    journal: Option<Box<Journal<K>>>,
}

impl<K: Ends, S: Value> SetTable<K, S> {
    /// A table of this shape, hashed with `seed`.
    pub fn new(shape: SetShape, seed: u64) -> Self {
        let lifetime = crate::context::to_ticks(shape.lifetime_ns).max(1);
        let table = Table::new(shape.capacity, seed);
        let wheel = Wheel::new(table.slots());
        Self { table, wheel, lifetime, tags: None, journal: None }
    }

    /// From now on it is known which shard each set belongs to; of an empty table.
    pub fn divide(&mut self, ward: &Ward) {
        self.table = self.table.for_one_of(ward.workers);
        let (slots, near) = (self.table.slots(), self.table.near_slots());
        self.wheel = Wheel::sparse(slots, near);
        self.tags = Some(Tags::new(slots, near, &ward.here));
    }

    /// The hash of `key`.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> Hash {
        self.table.hash(&Stored::new(key))
    }

    /// Fetches the bucket of this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash) {
        self.table.prefetch(hash);
    }

    /// The set of `key`, alive or not yet collected.
    #[inline(always)]
    pub fn find(&self, hash: Hash, key: &K) -> Option<SlotId> {
        self.table.find(hash, &Stored::new(key))
    }

    /// The set of `key`, alive or not yet collected.
    #[inline(always)]
    pub fn get(&self, hash: Hash, key: &K) -> Option<&Entry<S>> {
        self.table.get(hash, &Stored::new(key))
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, hash: Hash, key: &K) -> Option<&mut Entry<S>> {
        self.table.prefetch_rest(hash);
        self.table.get_mut(hash, &Stored::new(key))
    }

    /// The set at `id`, as [`find`](Self::find) or [`open`](Self::open) returned it just now.
    #[inline(always)]
    pub fn entry_mut(&mut self, id: SlotId) -> &mut Entry<S> {
        self.table.value_mut(id)
    }

    /// Opens a set; `None` when the table is full, or the store that keeps it takes nothing new.
    pub fn open(&mut self, hash: Hash, key: K, state: S, now: Tick) -> Option<SlotId> {
        if self.journal.as_deref().is_some_and(Journal::refuses_new) {
            return None;
        }
        let lifetime = self.lifetime;
        let deadline = ends(now, lifetime);
        let entry = Entry::new(deadline, lifetime, state);
        let id = self.table.insert(hash, Stored::new(&key), entry)?;
        if let Some(tags) = &mut self.tags {
            tags.note(id.0);
        }
        if let Some(journal) = self.journal.as_deref_mut() {
            journal.note(id.0);
        }
        self.wheel.queue(id.0, deadline);
        Some(id)
    }

    /// Removes a set, and returns its state.
    pub fn close(&mut self, hash: Hash, id: SlotId) -> Option<S> {
        let shard = self.tags.as_mut().and_then(|tags| tags.clear(id.0).shard());
        let (key, entry) = self.table.remove(hash, id)?;
        self.wheel.dequeue(id.0);
        if let Some(journal) = self.journal.as_deref_mut() {
            journal.clear(id.0, shard, key.key());
        }
        Some(entry.state)
    }

    /// The set there was refreshed, and its state perhaps `changed`: told to the store that keeps it. Nothing is
    /// to be told of a set that [is noted](Entry::is_noted) and has not changed.
    pub fn touched(&mut self, spot: Spot, changed: bool) {
        let Some(journal) = self.journal.as_deref_mut() else { return };
        let place = self.table.place_at(spot.0);
        journal.touch(place.0, changed);
        if !changed {
            self.table.value_mut(place).lifetime.note(true);
        }
    }

    /// Where it is noted, for a store, that the set of `key` was refreshed.
    #[inline]
    pub fn refreshing(&self, hash: Hash, key: &K) -> Option<Refreshing<'_>> {
        let journal = self.journal.as_deref()?;
        self.find(hash, key).map(|id| journal.refreshing(id.0))
    }

    /// The next set whose time has run out at `now`, removed, with its shard where that is known.
    /// `budget` counts down the sets looked at.
    #[inline]
    pub fn expire(&mut self, now: Tick, budget: &mut u32) -> Option<(Option<u16>, S)> {
        while *budget > 0 {
            let id = self.wheel.pop(now)?;
            *budget -= 1;
            let Some(key) = self.table.key(SlotId(id)).map(Stored::key) else { continue };
            let entry = self.table.value(SlotId(id));
            if entry.is_alive(now) {
                self.wheel.queue(id, entry.deadline.tick());
                continue;
            }
            let hash = self.hash(&key);
            let shard = self.tags.as_ref().and_then(|tags| tags.get(id).shard());
            return self.close(hash, SlotId(id)).map(|state| (shard, state));
        }
        None
    }

    /// Ticks are counted from an origin `by` later.
    pub fn rebase(&mut self, by: Tick) {
        self.table.update_all(|entry| entry.rebase(by));
        self.wheel.rebase(by);
    }

    /// Has slots for `more` sets, beyond the capacity if need be: none may be lost.
    fn make_room(&mut self, more: u32) {
        let Some(moved) = self.table.make_room(more) else { return };
        let slots = self.table.slots();
        if let Some(tags) = &mut self.tags {
            tags.renumber(slots, &moved);
        }
        if let Some(journal) = &mut self.journal {
            journal.renumber(slots, &moved);
        }
        let mut wheel = self.wheel.emptied(slots);
        for (_, id) in moved {
            wheel.queue(id.0, self.table.value(id).deadline.tick());
        }
        self.wheel = wheel;
    }

    /// How full the table is.
    pub fn table_use(&self, name: &str) -> TableUse {
        TableUse {
            name: name.to_owned(),
            used: self.table.len().into(),
            capacity: self.table.capacity().into(),
            bytes: (self.table.bytes() + self.wheel.bytes()) as u64,
            faults: 0,
            whole: false,
            common: false,
        }
    }
}

/// When the set in a slot ends; 0: there is none.
pub(crate) fn ends_at<K: Ends, S: Value>(table: &Table<Stored<K, S>, Entry<S>>, slot: u32) -> Tick {
    let id = SlotId(slot);
    table.key(id).map_or(0, |_| table.value(id).deadline.tick())
}

impl<K: Ends, S: Value> Journaled for SetTable<K, S> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<K, (u64, u32, S)>()
    }

    fn keep(&mut self, steps: &Steps) {
        self.journal = Some(Box::new(Journal::new(self.table.slots(), steps)));
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(journal) = self.journal.as_deref() else { return };
        let shard_of = |place| self.tags.as_ref().and_then(|tags| tags.get(place).shard());
        let ends = |place| ends_at(&self.table, place);
        for (place, step) in journal.take_divided(name, moment, shard_of, ends, sink) {
            sink.at(Some(step));
            let Some(key) = self.table.key(SlotId(place)).map(Stored::key) else { continue };
            let set = self.table.value_mut(SlotId(place));
            set.lifetime.note(false);
            moment.put(sink, (name, shard_of(place)), &key, &set.told(moment));
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], moment: &Moment) -> bool {
        let (key, set) = (journal::loaded::<K>(key), Entry::of_told(value, moment));
        let (Some(key), Some(set)) = (key, set) else { return false };
        let Some(stored) = Stored::of_told(&key) else { return false };
        let hash = self.hash(&key);
        let deadline = set.deadline.tick();
        let found = self.find(hash, &key).or_else(|| self.open(hash, key, set.state, 0));
        let id = found.unwrap_or_else(|| {
            // As of shards that move: none may be lost.
            self.make_room(1);
            let id = self.table.place(hash, stored, set.copied());
            self.tags.as_mut().and_then(|tags| tags.note(id.0));
            id
        });
        *self.entry_mut(id) = set;
        self.wheel.queue(id.0, deadline);
        true
    }
}

/// A set that leaves with its shard.
struct MovedSet<K, S> {
    tag: Tag,
    key: K,
    deadline: Tick,
    lifetime: u32,
    /// Since it was told to a store.
    is_refreshed: bool,
    state: S,
}

impl<K: Ends, S: Value> Movable for SetTable<K, S> {
    fn take_shards(&mut self, bundle: &mut Bundle) {
        let places = self.tags.as_ref().map_or_else(Vec::new, |tags| tags.places(bundle.shards()));
        let mut moved = Vec::with_capacity(places.len());
        // What leaves is not gone.
        let mut journal = self.journal.take();
        for (slot, tag) in places {
            let Some(key) = self.table.key(SlotId(slot)).map(Stored::key) else { continue };
            let Entry { deadline, lifetime, state } = self.table.value(SlotId(slot));
            let (lifetime, state) = (lifetime.ticks(), *state);
            let is_refreshed = journal.as_mut().is_some_and(|journal| journal.leave(slot));
            let deadline = deadline.tick();
            moved.push(MovedSet { tag, key, deadline, lifetime, is_refreshed, state });
            self.close(self.hash(&key), SlotId(slot));
        }
        self.journal = journal;
        bundle.pack(moved);
    }

    fn put_shards(&mut self, bundle: &mut Bundle, shift: Shift) {
        let moved: Vec<MovedSet<K, S>> = bundle.unpack();
        self.make_room(moved.len() as u32);
        for MovedSet { tag, key, deadline, lifetime, is_refreshed, state } in moved {
            let (hash, deadline) = (self.hash(&key), shift.of(deadline));
            let mut entry = Entry::new(deadline, lifetime, state);
            entry.lifetime.note(is_refreshed && self.journal.is_some());
            let id = self.table.place(hash, Stored::new(&key), entry);
            self.wheel.queue(id.0, deadline);
            if let Some(tags) = &mut self.tags {
                tags.set(id.0, tag);
            }
            if let Some(journal) = self.journal.as_deref() {
                journal.arrive(id.0, is_refreshed);
            }
        }
    }

    fn immovable(&self) -> Option<&'static str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Scope;
    use std::sync::Arc;

    const SHAPE: SetShape = SetShape { capacity: 100, lifetime_ns: 1 << 30 };

    fn key(host: u32) -> SetKey4 {
        SetKey4::new(Ipv4Addr::from(host), Ipv4Addr::LOCALHOST, 5, 80, 1)
    }

    #[test]
    fn a_packet_and_its_reply_share_a_set() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::new(9, 0, 0, 10));
        let there = SetKey4::between(a, b, 5, 80, 1);
        assert_eq!(there, SetKey4::between(b, a, 80, 5, 1));
        let others = [(a, b, 80, 5, 1), (a, b, 5, 80, 2), (b, a, 5, 80, 1), (a, a, 5, 80, 1)];
        for (src, dst, src_port, dst_port, list) in others {
            assert_ne!(there, SetKey4::between(src, dst, src_port, dst_port, list));
            let (six, dix) = (src.to_ipv6_mapped(), dst.to_ipv6_mapped());
            let there = SetKey6::between(a.to_ipv6_mapped(), b.to_ipv6_mapped(), 5, 80, 1);
            assert_ne!(there, SetKey6::between(six, dix, src_port, dst_port, list));
            let back = SetKey6::between(dix, six, dst_port, src_port, list);
            assert_eq!(back, SetKey6::between(six, dix, src_port, dst_port, list));
        }
        assert_ne!(SetKey4::new(a, b, 5, 80, 1), SetKey4::new(b, a, 80, 5, 1));
    }

    #[test]
    #[cfg_attr(miri, ignore = "many hashes")]
    fn keys_that_differ_in_one_field_spread() {
        let keys = |n: u32| {
            let address = Ipv4Addr::from(0x0a00_0000 + n);
            let none = Ipv4Addr::UNSPECIFIED;
            [
                SetKey4::new(none, address, 0, 0, 1),
                SetKey4::new(address, none, 0, 0, 1),
                SetKey4::between(Ipv4Addr::LOCALHOST, none, n as u16, 80, 1),
            ]
        };
        for seed in [0, 1, 0x4445, u64::MAX] {
            let sets = SetTable::<SetKey4, u64>::new(SHAPE, seed);
            for which in 0..3 {
                let mut counts = [0u32; 64];
                for n in 0..64_000 {
                    let hash = sets.hash(&keys(n)[which]);
                    counts[(hash.position() >> 26) as usize] += 1;
                }
                assert!(counts.iter().all(|&count| (700..1_300).contains(&count)), "{counts:?}");
            }
        }
    }

    #[test]
    fn lives_exactly_as_long_as_declared() {
        let mut sets = SetTable::<SetKey4, u64>::new(SHAPE, 1);
        let hash = sets.hash(&key(1));
        let id = sets.open(hash, key(1), 77, 10).unwrap();
        assert_eq!(sets.entry_mut(id).state, 77);
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
            sets.open(hash, key(host), host.into(), host * 10).unwrap();
        }
        let hash = sets.hash(&key(100));
        assert!(sets.open(hash, key(100), 0, 0).is_none());
        let mut expired = Vec::new();
        while let Some((None, state)) = sets.expire(1_524, &mut 1_000) {
            expired.push(state);
        }
        expired.sort_unstable();
        assert!(expired.len() >= 40 && expired.len() <= 51, "{}", expired.len());
        assert_eq!(expired, (0..expired.len() as u64).collect::<Vec<_>>());
    }

    /// When a set is looked at follows from when it was opened, not from what the table held before.
    #[test]
    fn a_set_opened_long_after_the_start_is_not_looked_at_before_its_end() {
        let mut sets = SetTable::<SetKey4, u64>::new(SHAPE, 1);
        let late = 10_000_000;
        assert_eq!(sets.expire(late, &mut 2), None);
        let key = key(1);
        sets.open(sets.hash(&key), key, 7, late).unwrap();
        let mut budget = 2;
        assert_eq!(sets.expire(late + 500, &mut budget), None);
        assert_eq!(budget, 2, "it was looked at half-way");
        assert_eq!(sets.expire(late + 1_100, &mut budget), Some((None, 7)));
        assert_eq!(budget, 1);
    }

    #[test]
    fn sets_that_are_more_than_fit_are_kept_and_expire() {
        let made = |first: u32| {
            let mut sets = SetTable::<SetKey4, u64>::new(SetShape { capacity: 8, ..SHAPE }, 1);
            let ward = Ward { scope: Scope::Sharded, here: Arc::default(), workers: 2 };
            sets.divide(&ward);
            for host in first..first + 8 {
                ward.here.enter(host % 4);
                sets.open(sets.hash(&key(host)), key(host), host.into(), 10).unwrap();
            }
            sets
        };
        let (mut a, mut b) = (made(0), made(8));
        let mut bundle = Bundle::new((0..4).collect(), 0);
        a.take_shards(&mut bundle);
        let shift = bundle.shift(0);
        b.put_shards(&mut bundle, shift);
        let state = |host| b.get(b.hash(&key(host)), &key(host)).map(|set| set.state);
        assert!((0..16).all(|host| state(host) == Some(host.into())));
        assert!(a.expire(5_000, &mut 100).is_none());
        let mut expired: Vec<_> = std::iter::from_fn(|| b.expire(5_000, &mut 100)).collect();
        expired.sort_unstable_by_key(|(_, state)| *state);
        let expected: Vec<_> = (0..16).map(|host| (Some(host as u16 % 4), host)).collect();
        assert_eq!(expired, expected);
    }

    /// Of a table that is divided: one worker gets the other's half as well, and gives all of it back.
    #[test]
    #[cfg_attr(miri, ignore = "many sets")]
    fn a_worker_that_gets_all_shards_has_room_for_them() {
        const SETS: u32 = 50_000;
        let key =
            |number: u32| SetKey4::new(Ipv4Addr::from_bits(number), Ipv4Addr::LOCALHOST, 5, 80, 1);
        let ward = || Ward { scope: Scope::Sharded, here: Arc::default(), workers: 2 };
        let made = |first: u32| {
            let shape = SetShape { capacity: 2 * SETS, ..SHAPE };
            let (mut sets, ward) = (SetTable::<SetKey4, u64>::new(shape, 1), ward());
            let whole = sets.table.bytes();
            sets.divide(&ward);
            for number in first..first + SETS {
                ward.here.enter(number % 4);
                sets.open(sets.hash(&key(number)), key(number), number.into(), 10).unwrap();
            }
            assert!(sets.table.bytes() <= whole * 54 / 100);
            sets
        };
        let hand_over = |from: &mut SetTable<_, _>, to: &mut SetTable<_, _>| {
            let mut bundle = Bundle::new((0..4).collect(), 0);
            from.take_shards(&mut bundle);
            let shift = bundle.shift(0);
            to.put_shards(&mut bundle, shift);
        };
        let has = |sets: &SetTable<SetKey4, u64>, count: u32| {
            let state = |number| sets.get(sets.hash(&key(number)), &key(number));
            (0..count).all(|number| state(number).is_some_and(|set| set.state == number.into()))
        };
        let (mut a, mut b) = (made(0), made(SETS));
        hand_over(&mut a, &mut b);
        assert!(has(&b, 2 * SETS) && a.table.len() == 0);
        assert!(b.open(b.hash(&key(u32::MAX)), key(u32::MAX), 0, 10).is_none(), "it is full");
        // More than there is room for: nothing is lost.
        for more in [2 * SETS, 3 * SETS] {
            hand_over(&mut made(more), &mut b);
            assert!(has(&b, more + SETS));
        }
        hand_over(&mut b, &mut a);
        assert!(has(&a, 4 * SETS) && b.table.len() == 0);
        let expired = std::iter::from_fn(|| a.expire(5_000, &mut 1_000_000)).count();
        assert_eq!((expired, a.table.len()), (4 * SETS as usize, 0));
    }
}
