//! Handling one packet on what is shared.

use anabranch_nf::packet_set::SetKey;
use anabranch_nf::tracked::causes::Operation;
use anabranch_nf::tracked::{Family, Found};
use anabranch_nf::{
    Builtin, Context, Drop, Environment, Hash, Key, NetworkFunction, Value, Verdict,
};
use anabranch_packet::{Frame, Layout, Mode, Packet, Real};
use anabranch_txn::{Trail, Transaction};

use super::sets::Held;

/// Where a worker works on what is shared.
pub(super) struct Seat<'a, 's, N: NetworkFunction> {
    pub(super) nf: &'a mut N::Parallel,
    /// The packet sets that the packet may touch.
    pub(super) sets: &'a mut Held<'s, N::Set>,
    pub(super) transaction: &'a Transaction,
    /// Where operations on packet sets are noted, where somebody watches.
    pub(super) trail: Option<&'a Trail>,
}

impl<N: NetworkFunction> Seat<'_, '_, N> {
    #[inline(never)]
    pub(super) fn handle_any(
        self,
        frame: &mut Frame<'_>,
        layout: Layout,
        environment: &mut Environment,
    ) -> Verdict {
        self.handle::<Real>(frame, layout, environment)
    }

    /// Runs the handlers of a packet whose environment has begun.
    #[inline(always)]
    pub(super) fn handle<M: Mode>(
        self,
        frame: &mut Frame<'_>,
        layout: Layout,
        environment: &mut Environment,
    ) -> Verdict {
        let packet = &mut Packet::<M>::new(frame, layout);
        let Self { nf, sets, transaction, trail } = self;
        if N::SET.is_none() {
            let cx = &mut Context::new(environment);
            return nf.packet(&mut N::Set::zero(), packet, cx);
        }
        let mut visit = Visit::<N> { nf, transaction, trail };
        match N::Parallel::set_key(packet) {
            SetKey::V4(key) => {
                let mut sets = sets.v4();
                let hash = sets.hash(&key);
                visit.handle_in(&mut sets, (hash, &key), packet, environment)
            }
            SetKey::V6(_) if !M::COMMON => visit.handle_v6(sets, packet, environment),
            _ => visit.nf.orphan(packet, &mut Context::new(environment)),
        }
    }
}

/// A packet at work, its set aside.
struct Visit<'a, N: NetworkFunction> {
    nf: &'a mut N::Parallel,
    transaction: &'a Transaction,
    trail: Option<&'a Trail>,
}

impl<N: NetworkFunction> Visit<'_, N> {
    #[inline(never)]
    fn handle_v6<M: Mode>(
        &mut self,
        sets: &mut Held<'_, N::Set>,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        let mut sets = sets.v6();
        match N::Parallel::set_key(packet) {
            SetKey::V6(key) => {
                let hash = sets.hash(&key);
                self.handle_in(&mut sets, (hash, &key), packet, environment)
            }
            _ => self.nf.orphan(packet, &mut Context::new(environment)),
        }
    }

    /// An operation on the packet set of `key` begins: noted where the NF is watched.
    #[inline(always)]
    fn begin<K: Key>(&self, sets: &Family<'_, K, N::Set>, operation: Operation, key: &K) {
        if N::Parallel::PROFILED
            && let Some(trail) = self.trail
        {
            sets.watch(trail, operation, key);
        }
    }

    /// It is done.
    #[inline(always)]
    fn end(&self) {
        if N::Parallel::PROFILED
            && let Some(trail) = self.trail
        {
            trail.leave();
        }
    }

    #[inline(always)]
    fn handle_in<K: Key, M: Mode>(
        &mut self,
        sets: &mut Family<'_, K, N::Set>,
        (hash, key): (Hash, &K),
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        let (transaction, now) = (self.transaction, environment.tick());
        self.begin(sets, Operation::Find, key);
        let found = sets.find(transaction, (hash, key), now);
        self.end();
        let mut set = match found {
            Found::Alive(set) => set,
            Found::None if transaction.is_doomed() => return Drop(Builtin::NoPacketSet),
            found => {
                if let Found::Over(set) = found {
                    sets.close(transaction, hash, &set);
                    self.nf.packet_set_expired(&set.state, &mut Context::new(environment));
                }
                let opened = self.nf.packet_set_opened(packet, &mut Context::new(environment));
                let state = match opened {
                    Ok(state) => state,
                    Err(declined) => return declined,
                };
                let shard = packet.meta().steering_hash as u16;
                self.begin(sets, Operation::Open, key);
                let opened = sets.open(transaction, (hash, key), state, now, shard);
                self.end();
                match opened {
                    Some(set) => set,
                    None => return Drop(Builtin::PacketSetsFull),
                }
            }
        };
        let verdict = self.nf.packet(&mut set.state, packet, &mut Context::new(environment));
        let expiry = environment.expiry();
        self.begin(sets, Operation::Keep, key);
        sets.keep(transaction, &set, now, expiry);
        self.end();
        verdict
    }
}
