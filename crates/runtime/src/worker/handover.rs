//! Shards change hands: the protocol by which workers pass on shards with their state, so that no
//! packet of a shard is handled by two workers, none in between, and none out of its turn.
//!
//! ```text
//! coordinator ──[jobs of the old table]──[reassignment]──[jobs of the new table]──▶ every worker
//!
//! a worker that comes to the reassignment
//!   1. does what is due by then, takes the new table, and tells every peer by a fence;
//!   2. waits for every peer's fence, and meanwhile opens parcels of the old table: behind a peer's
//!      fence come none;
//!   3. sends the state of each shard that leaves to its new owner;
//!   4. waits for the state of the shards that arrive, and goes on.
//! ```
//!
//! Parcels of the new table wait until step 4 is over. Nobody waits for the coordinator, and everybody
//! sends all it has to send before it waits for the same from others, so that all get through.

use std::sync::Arc;

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::ShardSet;
use anabranch_packet::Meta;
use anabranch_rss::IndirectionTable;

use super::{Message, Shift, State};
use crate::balance::Departure;
use crate::tally::Tally;

/// Shards change hands, between the jobs before and the jobs after.
#[derive(Clone)]
pub struct Reassignment {
    /// Its number, from 1.
    pub epoch: u64,
    /// From shards to workers, from now on.
    pub table: Arc<IndirectionTable>,
    /// What moves.
    pub departures: Arc<[Departure]>,
    /// The first packet after it.
    pub first: Meta,
}

impl Reassignment {
    /// How many workers pass shards on to `worker`, and which shards these are.
    pub(crate) fn arriving(&self, worker: u16) -> (usize, ShardSet) {
        let arriving = self.departures.iter().filter(|departure| departure.to == worker);
        let shards = arriving.clone().flat_map(|departure| departure.shards.iter()).collect();
        (arriving.count(), shards)
    }
}

/// What came of changing hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Entries of state objects that this worker has passed on.
    pub entries: u64,
}

impl<N: NetworkFunction> Shift<'_, N> {
    pub(super) fn change_hands(&mut self, step: &Reassignment) {
        let me = self.worker.number as u16;
        let (expected, arriving) = step.arriving(me);
        self.take_table(step, arriving);
        self.tell_peers(step.epoch);
        let peers = self.worker.peers.len() - 1;
        if !self.wait_until(|shift| shift.fences.get(&step.epoch) == Some(&peers)) {
            return;
        }
        self.fences.remove(&step.epoch);
        for departure in step.departures.iter().filter(|departure| departure.from == me) {
            self.pass_on(departure);
        }
        if !self.wait_until(|shift| shift.bundles.len() == expected) {
            return;
        }
        if let State::Own(instance) = &mut self.worker.state {
            self.bundles.drain(..).for_each(|bundle| instance.put_shards(bundle));
            instance.settle();
        }
        self.epoch = step.epoch;
        self.accept_due();
    }

    fn take_table(&mut self, step: &Reassignment, arriving: ShardSet) {
        let State::Own(instance) = &mut self.worker.state else { return };
        let keep = self.worker.keep.then_some(&mut self.carried);
        let mut tally = Tally::new(&mut self.counts, keep);
        tally.ahead_ns = self.worker.ahead_ns;
        instance.advance(&step.first, &mut tally);
        instance.adopt(Arc::clone(&step.table), arriving);
        self.sends = step.epoch;
    }

    fn tell_peers(&self, epoch: u64) {
        for (number, peer) in self.worker.peers.iter().enumerate() {
            if number != self.worker.number {
                // A worker that is gone has panicked: joining it will tell.
                let _ = peer.send(Message::Fence(epoch));
            }
        }
    }

    fn pass_on(&mut self, departure: &Departure) {
        let State::Own(instance) = &mut self.worker.state else { return };
        let bundle = instance.take_shards(departure.shards.clone());
        self.passed.entries += bundle.entries() as u64;
        if let Some(peer) = self.worker.peers.get(usize::from(departure.to)) {
            // As above.
            let _ = peer.send(Message::Bundle(bundle));
        }
    }

    /// Receives until `is_so`; false: the run has ended before, since some worker has failed.
    fn wait_until(&mut self, is_so: impl Fn(&Self) -> bool) -> bool {
        loop {
            self.accept_due();
            if is_so(self) {
                return true;
            }
            match self.messages.recv() {
                Ok(message) => self.receive(message),
                Err(_) => self.ended = true,
            }
            if self.ended {
                self.waiting.clear();
                return false;
            }
        }
    }
}
