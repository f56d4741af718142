//! What an instance does when no packet comes: events, timers, expiry.

use anabranch_nf::NetworkFunction;
use anabranch_packet::Meta;

use super::{Instance, Release};

impl<N: NetworkFunction> Instance<N> {
    /// Does what is due at the time of `cause`; what the NF sends is caused by it.
    pub(crate) fn run_due(&mut self, cause: &Meta, release: &mut impl Release) {
        let Self { nf, sets, agenda, .. } = self;
        let is_due = cause.arrival_ns >= agenda.environment.due();
        agenda.run_due(nf, sets, cause, release);
        match is_due {
            true => self.tell(),
            false => self.tell_in_time(),
        }
    }

    /// `last` is the last packet of the run, and all have been handled, here or by other workers: does what is due
    /// before it, unless it was handled here. What it has brought about itself would be due before the next one. What
    /// has expired is collected as if the packets that others have had since had come here.
    pub(crate) fn come_to_end(&mut self, last: &Meta, release: &mut impl Release) {
        let Self { nf, sets, agenda, .. } = self;
        let since = last.number.saturating_sub(self.last.number);
        if since > 0 || !agenda.has_come_to(last.arrival_ns) {
            agenda.run_due_in(since.max(1), nf, sets, last, release);
        }
        self.end_after(*last);
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
        let Self { nf, sets, agenda, .. } = self;
        let done = agenda.carry_out(nf, sets, cause, command, release);
        self.tell();
        done
    }

    /// When something is to be done without a packet, as seen at `now_ns`.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> u64 {
        self.agenda.next_due_ns(now_ns).min(now_ns.saturating_add(self.nothing_to_tell_ns()))
    }
}
