//! One packet beside other workers', on an instance that they share.

use anabranch_nf::packet_set::{Ends, SetKey, SetTable};
use anabranch_nf::world::Speculation;
use anabranch_nf::{Builtin, Drop, Environment, Log, NetworkFunction, Value, Verdict};
use anabranch_packet::{Frame, Layout, Meta, Packet};

use super::{Instance, Release};

impl<N: NetworkFunction> Instance<N> {
    /// Handles the packet, whose environment has begun, as long as nothing is to be written.
    /// Headers are rewritten; packets that the NF made stay in `environment`, refreshes and counts in
    /// `speculation`, which also says whether the packet would write: then all of it is void.
    pub(crate) fn speculate<'a>(
        &'a self,
        frame: &mut Frame<'_>,
        layout: Layout,
        environment: &mut Environment,
        speculation: &Speculation<'a>,
    ) -> Verdict {
        let packet = &mut Packet::new(frame, layout);
        if N::SET.is_none() {
            return self.nf.speculate(&mut N::Set::zero(), packet, environment, speculation);
        }
        let in_set = match N::set_key(packet) {
            SetKey::V4(key) => {
                self.speculate_in(&self.sets.v4, &key, packet, environment, speculation)
            }
            SetKey::V6(key) => {
                self.speculate_in(&self.sets.v6, &key, packet, environment, speculation)
            }
            SetKey::None => Some(self.nf.speculate_orphan(packet, environment, speculation)),
        };
        in_set.unwrap_or_else(|| {
            speculation.write();
            Drop(Builtin::NoPacketSet)
        })
    }

    /// Of a packet whose set is `key`; `None`: there is none, or its end may have come.
    #[inline(always)]
    fn speculate_in<'a, K: Ends>(
        &'a self,
        sets: &'a SetTable<K, N::Set>,
        key: &K,
        packet: &mut Packet<'_>,
        environment: &mut Environment,
        speculation: &Speculation<'a>,
    ) -> Option<Verdict> {
        let hash = sets.hash(key);
        let set = sets.get(hash, key)?;
        let mut state = set.state;
        let noted = || sets.refreshing(hash, key);
        if !speculation.refresh(set.deadline(), set.lifetime(), environment.tick(), noted) {
            return None;
        }
        let verdict = self.nf.speculate(&mut state, packet, environment, speculation);
        let lifetime = environment.expiry();
        let same_lifetime = lifetime == 0 || lifetime == set.lifetime();
        (same_lifetime && state == set.state).then_some(verdict)
    }

    /// When events are due or something may have expired, in nanoseconds since the Unix epoch.
    pub(crate) fn due_ns(&self) -> u64 {
        self.agenda.environment.due()
    }

    /// What time it is for this instance: other environments count ticks as it does.
    pub(crate) fn clock(&self) -> &Environment {
        &self.agenda.environment
    }

    /// Makes room for what each of `workers` workers keeps for itself.
    pub(crate) fn share(&mut self, workers: usize) {
        self.nf.share(workers);
    }

    /// Handles a packet alone, with what is due before it.
    pub(crate) fn handle_alone(&mut self, frame: &mut Frame<'_>, release: &mut impl Release) {
        match frame.meta().fragment_len {
            0 => self.handle_at_once(frame, release),
            _ => self.admit(frame, release),
        }
    }

    /// The log.
    pub(crate) fn log(&mut self) -> &mut Log {
        self.agenda.environment.log()
    }

    /// `last` was the last packet.
    pub(crate) fn end_after(&mut self, last: Meta) {
        self.last = last;
    }
}
