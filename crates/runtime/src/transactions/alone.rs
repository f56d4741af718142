//! What is done with nobody beside it: what is due, commands, packets that ask for it.

use anabranch_nf::{Builtin, Drop, Line, NetworkFunction, Verdict};
use anabranch_packet::{Frame, Meta, parse};
use anabranch_txn::Transaction;

use super::Shared;
use super::seat::{Seat, Visit};
use super::sets::{Collected, Held};
use crate::agenda::Agenda;
use crate::handlers::{Handler, measured};
use crate::instance::{RECIRCULATIONS, Release, Storing, refused};
use crate::worker::InstanceEnd;

/// All state, for the one worker that has the floor.
pub(super) struct Floor<'a, N: NetworkFunction> {
    pub(super) shared: &'a Shared<N>,
    pub(super) nf: &'a mut N::Parallel,
    pub(super) transaction: &'a Transaction,
}

/// What only who is alone works with.
pub(super) struct Alone<N: NetworkFunction> {
    pub(super) agenda: Agenda<N::Parallel>,
    /// Who is told what changes, where a store keeps the state.
    pub(super) storing: Option<Box<Storing>>,
    /// The packet of the highest number among workers that have ended.
    last: Meta,
}

impl<N: NetworkFunction> Alone<N> {
    pub(super) fn new(seed: u64) -> Self {
        let mut agenda = Agenda::new(seed);
        agenda.environment.set_alone(true);
        Self { agenda, storing: None, last: Meta::default() }
    }

    /// Starts the clock at `now_ns` and runs `init`.
    pub(super) fn start(&mut self, shared: &Shared<N>, nf: &mut N::Parallel, now_ns: u64) {
        self.agenda.start(nf, now_ns);
        shared.publish(&self.agenda.environment);
    }

    /// Has `command` carried out when the clock reaches `at_ns`.
    pub(super) fn schedule(&mut self, shared: &Shared<N>, at_ns: u64, command: N::Command) {
        self.agenda.schedule(at_ns, command);
        shared.publish(&self.agenda.environment);
    }

    /// Does something in the name of the packet of `cause`, no earlier than what was done before, and
    /// returns what was logged, too.
    fn act<R>(
        &mut self,
        floor: &mut Floor<'_, N>,
        cause: &Meta,
        act: impl FnOnce(
            &mut Agenda<N::Parallel>,
            &mut N::Parallel,
            &mut Collected<'_, N::Set>,
            &Meta,
        ) -> R,
    ) -> (R, Vec<Line>) {
        let Floor { shared, nf, transaction } = floor;
        let cause = Meta { arrival_ns: shared.advance(cause.arrival_ns), ..*cause };
        let sets = &mut Collected { sets: &shared.sets, transaction };
        let done = act(&mut self.agenda, nf, sets, &cause);
        shared.publish(&self.agenda.environment);
        (done, self.agenda.environment.log().take())
    }

    /// Does what is due at the time of `cause`.
    pub(super) fn run_due(
        &mut self,
        floor: &mut Floor<'_, N>,
        cause: &Meta,
        release: &mut impl Release,
    ) -> Vec<Line> {
        self.act(floor, cause, |agenda, nf, sets, cause| agenda.run_due(nf, sets, cause, release)).1
    }

    /// Has the NF carry out a command at the time of `cause`, after all that is due.
    pub(super) fn carry_out(
        &mut self,
        floor: &mut Floor<'_, N>,
        cause: &Meta,
        command: N::Command,
        release: &mut impl Release,
    ) -> (Result<(), &'static str>, Vec<Line>) {
        self.act(floor, cause, |agenda, nf, sets, cause| {
            agenda.carry_out(nf, sets, cause, command, release)
        })
    }

    /// When something is to be done without a packet, as seen at `now_ns`.
    pub(super) fn next_due_ns(&self, now_ns: u64) -> u64 {
        self.agenda.next_due_ns(now_ns)
    }

    /// Handles a packet, as often as it re-enters, and what is due before it.
    pub(super) fn packet(
        &mut self,
        floor: &mut Floor<'_, N>,
        frame: &mut Frame<'_>,
        release: &mut impl Release,
    ) -> Verdict {
        if let Some(reason) = refused::<N>(parse(frame.bytes(), frame.meta().wire_len)) {
            return Verdict::Discard(reason.into());
        }
        frame.meta_mut().arrival_ns = floor.shared.advance(frame.meta().arrival_ns);
        self.turns(floor, frame, 0, release)
    }

    /// Handles a packet that has entered so often before.
    pub(super) fn turns(
        &mut self,
        floor: &mut Floor<'_, N>,
        frame: &mut Frame<'_>,
        entered: u32,
        release: &mut impl Release,
    ) -> Verdict {
        let Floor { shared, nf, transaction } = floor;
        let mut worker = transaction.worker();
        for turn in entered..=RECIRCULATIONS {
            let meta = *frame.meta();
            if meta.arrival_ns >= self.agenda.environment.due() {
                let sets = &mut Collected { sets: &shared.sets, transaction };
                self.agenda.run_events(nf, sets, &meta, release);
            }
            let environment = &mut self.agenda.environment;
            environment.begin(meta.arrival_ns, meta.number);
            if turn > 0 {
                environment.reenter(turn);
            }
            // A datagram that was put together has come to where its fragments were.
            if turn > 0 || meta.fragment_len != 0 {
                worker = shared.sets.steer_anew(frame).unwrap_or(worker);
            }
            let mut sets = shared.sets.hold(worker);
            let visit = Visit::<N> { nf, transaction, trail: None };
            let run = || match &mut sets {
                Held::Common(sets) => {
                    let sets = &mut sets.families();
                    Seat::<N, _> { visit, sets }.handle_any(frame, environment)
                }
                Held::Part(part) => {
                    let sets = &mut part.families();
                    Seat::<N, _> { visit, sets }.handle_any(frame, environment)
                }
            };
            let verdict = measured::<N::Parallel, _>(Handler::Packet, |_| 1, run);
            sets.forget(transaction);
            self.agenda.emit(&meta, release);
            match verdict {
                Verdict::Recirculate(port) => frame.meta_mut().port = port,
                last => return last,
            }
        }
        Drop(Builtin::RecirculationLimit)
    }

    /// A worker has ended, and `last` was its last packet.
    pub(super) fn note_last(&mut self, last: Meta) {
        if last.number >= self.last.number {
            self.last = last;
        }
    }

    /// Runs `shutdown`, and returns how it all ended.
    pub(super) fn end(
        &mut self,
        mut floor: Floor<'_, N>,
        release: &mut impl Release,
    ) -> InstanceEnd {
        let sets = &mut Collected { sets: &floor.shared.sets, transaction: floor.transaction };
        self.agenda.shut_down(floor.nf, sets, &self.last, release);
        self.tell_whole(&mut floor);
        let Floor { shared, nf, .. } = floor;
        let Agenda { environment, events, .. } = &mut self.agenda;
        InstanceEnd {
            tables: shared.sets.tables(nf),
            counters: nf.counters(),
            suppressed: environment.log().suppressed(),
            lines: environment.log().take(),
            answers: events.take_answers(),
            unheeded: events.commands_left(),
        }
    }
}
