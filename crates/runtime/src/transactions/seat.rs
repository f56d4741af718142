//! Handling one packet on what is shared.

use anabranch_nf::packet_set::{SetKey, SetKey4, SetKey6, SetShape};
use anabranch_nf::state::wheel::Tick;
use anabranch_nf::tracked::causes::Operation;
use anabranch_nf::tracked::{Found, Profile, SharedSets};
use anabranch_nf::{
    Builtin, Context, Drop, Environment, Hash, Key, NetworkFunction, Value, Verdict,
};
use anabranch_packet::{Frame, Mode, Packet, Real};
use anabranch_txn::{Domain, Trail, Transaction};

use super::Shared;
use crate::agenda::Expiring;
use crate::finding::{Finding, Kind, Sets, family_names};

/// The packet sets of all workers.
pub(super) type CommonSets<S> = Sets<SharedSets<SetKey4, S>, SharedSets<SetKey6, S>>;

impl<S: Value> CommonSets<S> {
    pub(super) fn new(domain: &Domain, shape: SetShape, seed: u64) -> Self {
        Self {
            v4: SharedSets::new(domain, shape, seed ^ 0x4444),
            v6: SharedSets::new(domain, shape, seed ^ 0x6666),
        }
    }

    /// Has `profile` watch them, under the name that the author gave them.
    pub(super) fn watched_by(&mut self, profile: &Profile, name: &str) {
        let [v4, v6] = family_names(name);
        self.v4.numbered(profile.watch(&v4, &self.v4));
        self.v6.numbered(profile.watch(&v6, &self.v6));
    }
}

/// Where a worker works on what is shared.
pub(super) struct Seat<'a, N: NetworkFunction> {
    pub(super) shared: &'a Shared<N>,
    pub(super) nf: &'a mut N::Parallel,
    pub(super) transaction: &'a Transaction,
    /// Where operations on packet sets are noted, where somebody watches.
    pub(super) trail: Option<&'a Trail>,
}

impl<N: NetworkFunction> Seat<'_, N> {
    #[inline(never)]
    pub(super) fn handle_any(
        &mut self,
        frame: &mut Frame<'_>,
        finding: &Finding,
        environment: &mut Environment,
    ) -> Verdict {
        self.handle::<Real>(frame, finding, environment)
    }

    /// Does something with the packet set of `key`, noted where the NF is watched.
    #[inline(always)]
    fn noted<K: Key, R>(
        &self,
        sets: &SharedSets<K, N::Set>,
        (operation, key): (Operation, &K),
        act: impl FnOnce() -> R,
    ) -> R {
        match self.trail {
            Some(trail) if N::Parallel::PROFILED => {
                sets.watch(trail, operation, key);
                let done = act();
                trail.leave();
                done
            }
            _ => act(),
        }
    }

    /// Runs the handlers of a packet whose environment has begun.
    #[inline(always)]
    pub(super) fn handle<M: Mode>(
        &mut self,
        frame: &mut Frame<'_>,
        finding: &Finding,
        environment: &mut Environment,
    ) -> Verdict {
        let packet = &mut Packet::<M>::new(frame, finding.layout);
        if N::SET.is_none() {
            let cx = &mut Context::new(environment);
            return self.nf.packet(&mut N::Set::zero(), packet, cx);
        }
        let sets = &self.shared.sets;
        match finding.kind {
            Kind::V4 => self.handle_in(&sets.v4, (finding.hash, &finding.key), packet, environment),
            Kind::V6 if !M::COMMON => self.handle_v6(packet, environment),
            _ => self.nf.orphan(packet, &mut Context::new(environment)),
        }
    }

    #[inline(never)]
    fn handle_v6<M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        let sets = &self.shared.sets.v6;
        match N::Parallel::set_key(packet) {
            SetKey::V6(key) => self.handle_in(sets, (sets.hash(&key), &key), packet, environment),
            _ => self.nf.orphan(packet, &mut Context::new(environment)),
        }
    }

    #[inline(always)]
    fn handle_in<K: Key, M: Mode>(
        &mut self,
        sets: &SharedSets<K, N::Set>,
        (hash, key): (Hash, &K),
        packet: &mut Packet<'_, M>,
        environment: &mut Environment,
    ) -> Verdict {
        let (transaction, now) = (self.transaction, environment.tick());
        let find = || sets.find(transaction, (hash, key), now);
        let mut set = match self.noted(sets, (Operation::Find, key), find) {
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
                let open = || sets.open(transaction, (hash, key), state, now);
                match self.noted(sets, (Operation::Open, key), open) {
                    Some(set) => set,
                    None => return Drop(Builtin::PacketSetsFull),
                }
            }
        };
        let verdict = self.nf.packet(&mut set.state, packet, &mut Context::new(environment));
        let keep = || sets.keep(transaction, &set, now, environment.expiry());
        self.noted(sets, (Operation::Keep, key), keep);
        verdict
    }
}

/// The sets, for who is alone.
pub(super) struct Collected<'a, S> {
    pub(super) sets: &'a CommonSets<S>,
    pub(super) transaction: &'a Transaction,
}

impl<S: Value> Expiring<S> for Collected<'_, S> {
    fn expire(&mut self, now: Tick, budget: &mut u32) -> Option<(Option<u16>, S)> {
        let Self { sets, transaction } = self;
        let v4 = sets.v4.expire(transaction, now, budget);
        let state = v4.or_else(|| sets.v6.expire(transaction, now, budget))?;
        Some((None, state))
    }

    fn rebase(&mut self, by: Tick) {
        self.sets.v4.rebase(self.transaction, by);
        self.sets.v6.rebase(self.transaction, by);
    }
}
