//! A batch of packets in transactions.

use std::ops::Range;
use std::sync::Arc;

use anabranch_nf::tracked::causes::{Operation, Site};
use anabranch_nf::{Environment, Line, NetworkFunction, Verdict, elements};
use anabranch_packet::{Common, Frame, Meta, Real};
use anabranch_txn::{Batch, Cause, MOST_ITEMS, Place, Trail, Transaction};

use super::alone::Floor;
use super::seat::Seat;
use super::sets::Held;
use super::{Shared, Times};
use crate::finding::Finding;
use crate::head::Head;
use crate::instance::{Making, Release, refused};
use crate::lock::Commit;
use crate::tuner::Tuner;

/// What a worker has for itself, and may have to take back.
pub(super) struct Own {
    pub(super) environment: Environment,
    pub(super) findings: [Finding; MOST_ITEMS],
    pub(super) tuner: Tuner,
    pub(super) lines: Vec<Line>,
    pub(super) last: Meta,
    pub(super) order: Option<Vec<Commit>>,
    /// Where operations are noted, where somebody watches.
    trail: Option<Arc<Trail>>,
    /// Why the runtime had a packet run alone; known where somebody watches.
    why_alone: Option<Site>,
    heads: Box<[Head; MOST_ITEMS]>,
    verdicts: [Verdict; MOST_ITEMS],
    /// How many packets the NF had made when it was done with each: they wait in the environment.
    emitted: [usize; MOST_ITEMS],
    faults: u64,
    /// Packet sets of its own were changed since a store was told.
    pub(super) wrote: bool,
}

impl Own {
    /// `ordered`: the order in which packets take effect is kept; `trail`: what is done is noted there.
    pub(super) fn new(making: &Making, ordered: bool, trail: Option<Arc<Trail>>) -> Self {
        Self {
            environment: Environment::new(making.seed),
            findings: [Finding::default(); MOST_ITEMS],
            tuner: Tuner::new(making.pass),
            lines: Vec::new(),
            last: Meta::default(),
            order: ordered.then(Vec::new),
            trail,
            why_alone: None,
            heads: Box::new(std::array::from_fn(|_| Head::default())),
            verdicts: [Verdict::Flood; MOST_ITEMS],
            emitted: [0; MOST_ITEMS],
            faults: 0,
            wrote: false,
        }
    }
}

/// What the runtime does for the author.
fn of_runtime(operation: Operation) -> Site {
    Site { operation, object: None, line: 0 }
}

/// A batch under way.
pub(super) struct Work<'a, 'f, N: NetworkFunction, R: Release> {
    pub(super) shared: &'a Shared<N>,
    pub(super) nf: &'a mut N::Parallel,
    pub(super) own: &'a mut Own,
    pub(super) frames: &'a mut [Frame<'f>],
    /// The packet sets, as long as a transaction is under way.
    pub(super) sets: Option<Held<'a, N::Set>>,
    pub(super) release: &'a mut R,
}

impl<N: NetworkFunction, R: Release> Work<'_, '_, N, R> {
    /// Handles one packet beside others.
    #[inline(always)]
    fn beside(
        &mut self,
        at: usize,
        times: Times,
        (transaction, sets): (&Transaction, &mut Held<'_, N::Set>),
    ) {
        let (frame, own) = (&mut self.frames[at], &mut *self.own);
        let finding = &own.findings[at];
        own.heads[at].save(frame, finding.layout);
        if let Some(reason) = refused::<N>(finding.layout) {
            own.verdicts[at] = Verdict::Discard(reason.into());
            return;
        }
        frame.meta_mut().arrival_ns = frame.meta().arrival_ns.max(times.now_ns);
        if frame.meta().arrival_ns >= times.due_ns {
            if N::Parallel::PROFILED {
                own.why_alone = Some(of_runtime(Operation::Due));
            }
            return transaction.require_alone();
        }
        own.environment.begin(frame.meta().arrival_ns, frame.meta().number);
        transaction.set_time(frame.meta().arrival_ns);
        let trail = own.trail.as_deref();
        let seat = Seat::<N> { nf: self.nf, sets, transaction, trail };
        let verdict = match finding.layout.is_common() {
            true => seat.handle::<Common<Real>>(frame, finding, &mut own.environment),
            false => seat.handle_any(frame, finding, &mut own.environment),
        };
        own.verdicts[at] = verdict;
        // What re-enters does so in one go: in between, others might write.
        if own.environment.take_asked() || matches!(verdict, Verdict::Recirculate(_)) {
            if N::Parallel::PROFILED {
                let asked = own.environment.take_asked_at();
                own.why_alone = asked.or(Some(of_runtime(Operation::Reenter)));
            }
            transaction.require_alone();
        }
    }

    /// Handles one packet with nobody beside it, and what is due before it.
    fn alone(&mut self, at: usize, transaction: &Transaction) {
        let (frame, finding) = (&mut self.frames[at], self.own.findings[at]);
        let mut floor = Floor { shared: self.shared, nf: self.nf, transaction };
        let (verdict, mut lines) =
            self.shared.alone().packet(&mut floor, frame, finding, self.release);
        self.own.verdicts[at] = verdict;
        self.own.lines.append(&mut lines);
        self.own.emitted[at] = 0;
    }

    /// Lets go what the NF made while it handled the packet at `at`, of which `first` is the first.
    #[inline(never)]
    fn emit(&mut self, at: usize, first: usize) {
        let (cause, emitted) = (self.frames[at].meta(), self.own.environment.emitted());
        for (port, bytes) in (first..self.own.emitted[at]).filter_map(|one| emitted.get(one)) {
            self.release.emit(cause, port, bytes);
        }
    }
}

impl<N: NetworkFunction, R: Release> Batch for Work<'_, '_, N, R> {
    fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
        if transaction.is_alone() {
            range.clone().for_each(|at| self.alone(at, transaction));
            return range.len();
        }
        if N::Parallel::PROFILED {
            self.own.why_alone = None;
            self.own.trail.iter().for_each(|trail| trail.begin());
        }
        let times = self.shared.times();
        self.own.environment.set_origin(times.origin_ns);
        self.own.faults = elements::faults();
        let mut sets = self.shared.sets.hold(transaction.worker());
        let mut ran = 0;
        for at in range {
            self.beside(at, times, (transaction, &mut sets));
            self.own.emitted[at] = self.own.environment.emitted().len();
            ran += 1;
            if transaction.is_doomed() {
                break;
            }
        }
        self.sets = Some(sets);
        ran
    }

    fn given_up(&mut self, cause: Cause, ran: usize) {
        if N::Parallel::PROFILED
            && let Some(trail) = &self.own.trail
        {
            trail.given_up(cause, ran, self.own.why_alone.map(Into::into));
        }
    }

    fn undo(&mut self, range: Range<usize>) {
        self.sets.take().into_iter().for_each(Held::take_back);
        for at in range {
            self.own.heads[at].restore(&mut self.frames[at]);
        }
        self.own.environment.emitted().clear();
        elements::forget_since(self.own.faults);
    }

    fn release(&mut self, range: Range<usize>, place: Place) {
        self.own.wrote |= self.sets.take().is_some_and(Held::forget);
        let mut released = 0;
        for at in range {
            if self.own.emitted[at] > released {
                self.emit(at, released);
                released = self.own.emitted[at];
            }
            let frame = &self.frames[at];
            match self.own.verdicts[at] {
                Verdict::Forward(port) => self.release.forward(frame, port),
                Verdict::Discard(reason) => self.release.discard(frame, reason),
                Verdict::Flood | Verdict::Recirculate(_) => self.release.flood(frame),
            }
            self.own.last = *frame.meta();
            if let Some(order) = &mut self.own.order {
                let Meta { arrival_ns: time_ns, number, .. } = self.own.last;
                // Packets of one transaction come in the order in which it handled them.
                let writes = place.0 * MOST_ITEMS as u64 + at as u64;
                order.push(Commit { writes, reader: false, time_ns, number });
            }
        }
        if released > 0 {
            self.own.environment.emitted().clear();
        }
    }
}
