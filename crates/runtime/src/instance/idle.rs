//! What an instance does when no packet comes: events, timers, expiry.

use anabranch_nf::NetworkFunction;
use anabranch_packet::Meta;

use super::{Instance, Release};

/// Steps of collecting what has expired at one go; more is left to the next call.
const STEPS: usize = 64;
/// How long collecting may wait where no packet comes: an entry that is over is found so in any case.
const COLLECTION_NS: u64 = 20_000_000;

impl<N: NetworkFunction> Instance<N> {
    /// Does what is due at the time of `cause`; what the NF sends is caused by it.
    pub(crate) fn run_due(&mut self, cause: &Meta, release: &mut impl Release) {
        for _ in 0..STEPS {
            if cause.arrival_ns < self.environment.due() {
                break;
            }
            self.run_events(cause, release);
        }
    }

    /// Carries out `command` now, at the time of `cause`, after all that is due.
    ///
    /// # Errors
    /// Why the NF refused it.
    pub(crate) fn carry_out(
        &mut self,
        cause: &Meta,
        command: N::Command,
        release: &mut impl Release,
    ) -> Result<(), &'static str> {
        self.run_due(cause, release);
        let done = self.control(cause.arrival_ns, command);
        self.emit(cause, release);
        self.plan();
        done
    }

    /// When something is to be done without a packet, as seen at `now_ns`.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> u64 {
        let collection_ns = match self.collects_ns {
            // There was more than one call may do.
            0 if self.environment.due() == 0 => now_ns,
            other => other.max(now_ns.saturating_add(COLLECTION_NS)),
        };
        self.events.next().min(self.environment.next_timer()).min(collection_ns)
    }
}
