//! Shards change hands while packets come: the protocol of a run over captures (`worker/handover.rs`), over
//! rings.
//!
//! ```text
//! watcher ──Order::Reassign──▶ every worker, which between two batches
//!   1. takes the new table, and puts a fence with its time into the ring to every other;
//!   2. waits for the fences of all others, and meanwhile handles what they handed over by the old table:
//!      behind a fence comes none;
//!   3. does what is due by the latest of those times, which is the same for all, and puts the state of
//!      each shard that leaves into the ring to its new owner;
//!   4. waits for the state of the shards that arrive, goes on with what was held back meanwhile, and waits
//!      until all have come as far.
//! ```
//!
//! While it waits a worker receives nothing: packets wait in its queues, which have room for as long as a
//! few shards take. So few shards move at a time, and the next ones when all workers have gone on.
//! What re-enters in a shard of the new table before step 4 is held back in the order in which it came;
//! whoever waits empties its mailbox, so that nobody waits for room in it for ever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::{Bundle, ShardSet};

use super::exchange::Mail;
use super::worker::Shift;
use crate::mailbox::Parcel;
use crate::worker::{Passed, Reassignment, State};

/// Where a worker is in the changing of hands.
#[derive(Default)]
pub(super) struct Hands {
    /// The last reassignment that is over here: parcels of later ones are held back.
    pub(super) epoch: u64,
    /// The reassignment by whose table packets are handed over.
    pub(super) sends: u64,
    /// Workers that have come to the next one.
    pub(super) fences: usize,
    /// State that has arrived.
    pub(super) bundles: Vec<Bundle>,
    /// Parcels that are too early, with who sent them.
    pub(super) held: VecDeque<(usize, Parcel)>,
    pub(super) passed: Passed,
}

impl<N: NetworkFunction> Shift<'_, N> {
    /// Has shards change hands.
    #[cold]
    pub(super) fn change_hands(&mut self, step: &Reassignment) {
        let me = self.exchange.worker as u16;
        let (expected, arriving) = step.arriving(me);
        self.take_table(step, arriving);
        let others = self.exchange.workers() - 1;
        for worker in (0..=others).filter(|&worker| worker != usize::from(me)) {
            self.send_surely(worker, Mail::Fence(self.now));
        }
        let mut goes_on = self.wait_until(|shift| shift.hands.fences == others);
        self.hands.fences = 0;
        self.advance();
        for departure in step.departures.iter().filter(|one| one.from == me && goes_on) {
            let State::Own(instance) = &mut self.state else { break };
            let bundle = instance.take_shards(departure.shards.clone());
            self.hands.passed.entries += bundle.entries() as u64;
            self.send_surely(departure.to.into(), Mail::Bundle(Box::new(bundle)));
        }
        goes_on = goes_on && self.wait_until(|shift| shift.hands.bundles.len() == expected);
        // No packet of these shards was handled at a later time.
        self.now = Instant::now();
        if let (State::Own(instance), true) = (&mut self.state, goes_on) {
            self.hands.bundles.drain(..).for_each(|bundle| instance.put_shards(bundle));
            instance.settle();
        }
        self.hands.epoch = step.epoch;
        while let Some((sender, parcel)) = self.hands.held.pop_front() {
            self.open(sender, parcel);
        }
        self.exchange.shared.has_changed_hands();
        self.wait_until(|shift| shift.exchange.shared.have_changed_hands(step.epoch));
    }

    /// Hands packets over by the new table.
    fn take_table(&mut self, step: &Reassignment, arriving: ShardSet) {
        if let State::Own(instance) = &mut self.state {
            instance.adopt(Arc::clone(&step.table), arriving);
        }
        if let Some(owners) = &mut self.owners {
            owners.table = Arc::clone(&step.table);
        }
        self.hands.sends = step.epoch;
    }

    /// Does what is due by now, to the state that is still this worker's.
    fn advance(&mut self) {
        let cause = self.cause();
        let mut departures =
            self.egress.departures(&mut self.counts, &mut self.outbox, cause.arrival_ns);
        if let State::Own(instance) = &mut self.state {
            instance.advance(&cause, &mut departures);
        }
        self.send_made(&cause);
        self.hand_over();
    }

    /// Sends what must not be lost.
    fn send_surely(&mut self, worker: usize, mut mail: Mail) {
        while let Err(refused) = self.exchange.send(worker, mail) {
            if self.exchange.shared.has_failed() {
                return;
            }
            mail = refused;
            self.collect_mail();
            std::thread::yield_now();
        }
    }

    /// Takes what others send until `is_so`; false: a worker has failed before, and the run ends.
    fn wait_until(&mut self, is_so: impl Fn(&Self) -> bool) -> bool {
        loop {
            self.collect_mail();
            if is_so(self) {
                return true;
            }
            if self.exchange.shared.has_failed() {
                return false;
            }
            std::thread::yield_now();
        }
    }
}
