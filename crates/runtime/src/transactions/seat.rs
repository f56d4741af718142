//! Handling one packet on what is shared.

use anabranch_nf::packet_set::{SetKey, SetKey6};
use anabranch_nf::tracked::causes::Operation;
use anabranch_nf::tracked::{Found, OpenSet, PacketSets};
use anabranch_nf::{Builtin, Context, Drop, Environment, Key, NetworkFunction, Value, Verdict};
use anabranch_packet::{Frame, Mode, Packet, Real, parse};
use anabranch_txn::{Trail, Transaction};

use super::sets::Families;

/// Where a worker works on what is shared.
pub(super) struct Seat<'a, N: NetworkFunction, F> {
    pub(super) visit: Visit<'a, N>,
    /// The packet sets that the packet may touch.
    pub(super) sets: &'a mut F,
}

/// A packet at work, its set aside.
pub(super) struct Visit<'a, N: NetworkFunction> {
    pub(super) nf: &'a mut N::Parallel,
    pub(super) transaction: &'a Transaction,
    /// Where operations on packet sets are noted, where somebody watches.
    pub(super) trail: Option<&'a Trail>,
}

impl<N: NetworkFunction, F: Families<N::Set>> Seat<'_, N, F> {
    /// Runs the handlers of a packet of any layout, whose environment has begun.
    #[inline(never)]
    pub(super) fn handle_any(
        &mut self,
        frame: &mut Frame<'_>,
        environment: &mut Environment,
    ) -> Verdict {
        let layout = parse(frame.bytes(), frame.meta().wire_len);
        let mut verdict = Verdict::Flood;
        if !self.handle(&mut Packet::<Real>::new(frame, layout), environment, &mut verdict) {
            verdict = self.open(frame, environment);
        }
        verdict
    }

    /// Runs the handlers of a packet whose environment has begun; `false`: its set is to be
    /// [opened](Self::open). The verdict is put where it is to stay: to return it would cost every packet.
    #[inline(always)]
    pub(super) fn handle<M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
        verdict: &mut Verdict,
    ) -> bool {
        let Self { visit, sets } = self;
        if N::SET.is_none() {
            *verdict = visit.packet(&mut N::Set::zero(), packet, environment);
            return true;
        }
        match N::Parallel::set_key(packet) {
            SetKey::V4(key) => visit.find(sets.v4(), &key, packet, environment, verdict),
            SetKey::V6(_) if !M::COMMON => visit.find_v6(sets.v6(), packet, environment, verdict),
            _ => {
                *verdict = visit.orphan(packet, environment);
                true
            }
        }
    }

    /// Opens the packet's set, in place of one that has expired there, and handles its first packet. It is
    /// parsed once more: to hand its layout over would cost every packet.
    #[cold]
    #[inline(never)]
    pub(super) fn open(&mut self, frame: &mut Frame<'_>, environment: &mut Environment) -> Verdict {
        let Self { visit, sets } = self;
        if visit.transaction.is_doomed() {
            return Drop(Builtin::NoPacketSet);
        }
        let layout = parse(frame.bytes(), frame.meta().wire_len);
        let packet = &mut Packet::<Real>::new(frame, layout);
        match N::Parallel::set_key(packet) {
            SetKey::V4(key) => visit.open(sets.v4(), &key, packet, environment),
            SetKey::V6(key) => visit.open(sets.v6(), &key, packet, environment),
            SetKey::None => visit.orphan(packet, environment),
        }
    }
}

impl<N: NetworkFunction> Visit<'_, N> {
    /// An operation on packet sets is done, and was about the set of `key`.
    #[inline(always)]
    fn done<K: Key>(&self, operation: Operation, (sets, key): (&impl PacketSets<K, N::Set>, &K)) {
        if N::Parallel::PROFILED
            && let Some(trail) = self.trail
            && trail.is_told_of()
        {
            sets.note(trail, operation, key);
        }
    }

    /// Handles a packet whose set exists; `false`: it does not.
    #[inline(always)]
    fn find<K: Key, M: Mode>(
        &mut self,
        sets: &mut impl PacketSets<K, N::Set>,
        key: &K,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
        verdict: &mut Verdict,
    ) -> bool {
        let hash = sets.hash(key);
        let found = sets.find(self.transaction, (hash, key), environment.tick());
        self.done(Operation::Find, (sets, key));
        let Found::Alive(set) = found else { return false };
        *verdict = self.packet_of(sets, (key, set), packet, environment);
        true
    }

    #[inline(never)]
    fn find_v6<M: Mode>(
        &mut self,
        sets: &mut impl PacketSets<SetKey6, N::Set>,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
        verdict: &mut Verdict,
    ) -> bool {
        let SetKey::V6(key) = N::Parallel::set_key(packet) else { return false };
        self.find(sets, &key, packet, environment, verdict)
    }

    /// Handles the first packet of a set.
    fn open<K: Key>(
        &mut self,
        sets: &mut impl PacketSets<K, N::Set>,
        key: &K,
        packet: &mut Packet<'_>,
        environment: &mut Environment,
    ) -> Verdict {
        let (transaction, now, hash) = (self.transaction, environment.tick(), sets.hash(key));
        if let Found::Over(set) = sets.find(transaction, (hash, key), now) {
            sets.close(transaction, hash, &set);
            self.nf.packet_set_expired(&set.state, &mut Context::new(environment));
        }
        let opened = self.nf.packet_set_opened(packet, &mut Context::new(environment));
        let state = match opened {
            Ok(state) => state,
            Err(declined) => return declined,
        };
        let shard = packet.meta().steering_hash as u16;
        let opened = sets.open(transaction, (hash, key), state, now, shard);
        self.done(Operation::Open, (sets, key));
        match opened {
            Some(set) => self.packet_of(sets, (key, set), packet, environment),
            None => self.nf.packet_set_full(&state, packet, &mut Context::new(environment)),
        }
    }

    /// Handles a packet of `set`.
    #[inline(always)]
    fn packet_of<K: Key, M: Mode>(
        &mut self,
        sets: &mut impl PacketSets<K, N::Set>,
        (key, set): (&K, OpenSet<N::Set>),
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        let (now, mut state) = (environment.tick(), set.state);
        let verdict = self.packet(&mut state, packet, environment);
        sets.keep(self.transaction, (&set, &state), now, environment.expiry());
        self.done(Operation::Keep, (sets, key));
        verdict
    }

    /// The handler: part of the loop over a batch for packets of the common layout, one function for all
    /// others.
    #[inline(always)]
    fn packet<M: Mode>(
        &mut self,
        set: &mut N::Set,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        match M::COMMON {
            true => self.nf.packet(set, packet, &mut Context::new(environment)),
            false => packet_any(self.nf, set, packet, environment),
        }
    }

    #[inline(always)]
    fn orphan<M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        match M::COMMON {
            true => self.nf.orphan(packet, &mut Context::new(environment)),
            false => orphan_any(self.nf, packet, environment),
        }
    }
}

#[inline(never)]
fn packet_any<N: NetworkFunction, M: Mode>(
    nf: &mut N,
    set: &mut N::Set,
    packet: &mut Packet<'_, M>,
    environment: &mut Environment,
) -> Verdict {
    nf.packet(set, packet, &mut Context::new(environment))
}

#[inline(never)]
fn orphan_any<N: NetworkFunction, M: Mode>(
    nf: &mut N,
    packet: &mut Packet<'_, M>,
    environment: &mut Environment,
) -> Verdict {
    nf.orphan(packet, &mut Context::new(environment))
}
