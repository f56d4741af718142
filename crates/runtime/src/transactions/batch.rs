//! A batch of packets in transactions.

use std::ops::Range;
use std::sync::Arc;

use anabranch_nf::tracked::causes::{Operation, Site};
use anabranch_nf::{Emitted, Environment, Line, NetworkFunction, Verdict, elements};
use anabranch_packet::{Common, Frame, Layout, Meta, Mode, Packet, Real, parse_any, parse_common};
use anabranch_txn::{Batch, Cause, MOST_ITEMS, Place, Trail, Transaction};
use crossbeam_utils::CachePadded;

use super::alone::Floor;
use super::seat::{Seat, Visit};
use super::sets::{Families, Held};
use super::turn::Queue;
use super::{Shared, Times};
use crate::finding::Findings;
use crate::handlers::{Handler, measured};
use crate::head::Head;
use crate::instance::{Making, Release, let_go_one, refused};
use crate::lock::Commit;
use crate::reassembly::{Reassembly, is_part};
use crate::tuner::Tuner;

/// What a worker has for itself, and may have to take back.
pub(super) struct Own {
    pub(super) environment: Environment,
    pub(super) tuner: Tuner,
    pub(super) findings: Findings,
    pub(super) lines: Vec<Line>,
    pub(super) last: Meta,
    pub(super) order: Option<Vec<Commit>>,
    /// Where operations are noted, where somebody watches.
    trail: Option<Arc<Trail>>,
    /// Why the runtime had a packet run alone; known where somebody watches.
    why_alone: Option<Site>,
    slots: Box<CachePadded<[Slot; MOST_ITEMS]>>,
    faults: u64,
    /// Packet sets of its own were changed since a store was told.
    pub(super) wrote: bool,
    /// Datagrams that are incomplete.
    pub(super) reassembly: Reassembly,
}

/// A packet as it was, and what the NF said of it.
pub(super) struct Slot {
    head: Head,
    pub(super) verdict: Verdict,
    /// How many packets it had made when it was done with it, if it made any: they wait in the environment.
    emitted: u32,
}

impl Slot {
    /// The packet is not shown to the NF, and yet to be found as it is when it runs again.
    #[cold]
    fn refuse(&mut self, frame: &Frame<'_>) {
        self.head.save(frame.bytes(), Layout::default());
        self.verdict = Verdict::Flood;
    }
}

impl Own {
    /// `ordered`: the order in which packets take effect is kept; `trail`: what is done is noted there.
    pub(super) fn new(making: &Making, ordered: bool, trail: Option<Arc<Trail>>) -> Self {
        Self {
            environment: Environment::new(making.seed),
            tuner: Tuner::new(making.pass),
            findings: Findings::default(),
            lines: Vec::new(),
            last: Meta::default(),
            order: ordered.then(Vec::new),
            trail,
            why_alone: None,
            slots: Box::new(CachePadded::new(std::array::from_fn(|_| Slot {
                head: Head::default(),
                verdict: Verdict::Flood,
                emitted: 0,
            }))),
            faults: 0,
            wrote: false,
            reassembly: Reassembly::default(),
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
    /// How many packets have been let go of before the end of what they were handled in.
    pub(super) gone: usize,
}

/// Packets beside those of others, one after the other.
struct Beside<'a, N: NetworkFunction, F> {
    seat: Seat<'a, N, F>,
    environment: &'a mut Environment,
    times: Times,
    why_alone: &'a mut Option<Site>,
}

impl<N: NetworkFunction, F: Families<N::Set>> Beside<'_, N, F> {
    /// Handles packets up to the first at whose end the transaction is doomed, or before a fragment that is to be
    /// put together with others, and returns how many. One function whoever releases them: what is called from
    /// one place is inlined there.
    #[inline(never)]
    fn packets(mut self, frames: &mut [Frame<'_>], slots: &mut [Slot]) -> usize {
        let all = frames.len().min(slots.len());
        for (at, (frame, slot)) in frames.iter_mut().zip(slots).enumerate() {
            if !self.packet(frame, slot) {
                return at;
            }
            if self.seat.visit.transaction.is_doomed() {
                return at + 1;
            }
        }
        all
    }

    /// Handles one packet, unless it is to be put together with others.
    #[inline(always)]
    fn packet(&mut self, frame: &mut Frame<'_>, slot: &mut Slot) -> bool {
        // Packets that arrive together find the clock where it is to be, and nothing due.
        if !self.environment.stands_at(frame.meta().arrival_ns) && !self.advance(frame, slot) {
            return true;
        }
        match parse_common(frame.bytes(), frame.meta().wire_len) {
            Some(layout) => self.handle::<Common<Real>>(frame, layout, slot),
            None => {
                if !self.packet_any(frame, slot) {
                    return false;
                }
            }
        }
        let reenters = N::REENTERS && matches!(slot.verdict, Verdict::Recirculate(_));
        if self.environment.has_more() | reenters {
            self.more(slot, reenters);
        }
        true
    }

    /// The clock comes to the arrival of a packet; `false`: something is due before, and it is to run alone.
    #[inline(always)]
    fn advance(&mut self, frame: &mut Frame<'_>, slot: &mut Slot) -> bool {
        let meta = frame.meta_mut();
        meta.arrival_ns = meta.arrival_ns.max(self.times.now_ns);
        let now_ns = meta.arrival_ns;
        if now_ns >= self.times.due_ns {
            slot.refuse(frame);
            self.require_alone(|| of_runtime(Operation::Due));
            return false;
        }
        self.environment.advance(now_ns);
        self.seat.visit.transaction.set_time(now_ns);
        true
    }

    /// There is more to a packet than its verdict.
    #[inline(never)]
    fn more(&mut self, slot: &mut Slot, reenters: bool) {
        slot.emitted = self.environment.emitted().len() as u32;
        // What re-enters does so in one go: in between, others might write.
        if self.environment.take_asked() | reenters {
            let asked = self.environment.take_asked_at();
            self.require_alone(|| asked.unwrap_or(of_runtime(Operation::Reenter)));
        }
    }

    #[inline(never)]
    fn packet_any(&mut self, frame: &mut Frame<'_>, slot: &mut Slot) -> bool {
        let layout = parse_any(frame.bytes(), frame.meta().wire_len);
        if N::LAYER == 4 && is_part(layout) {
            return false;
        }
        if let Some(reason) = refused::<N>(layout) {
            slot.refuse(frame);
            slot.verdict = Verdict::Discard(reason.into());
        } else {
            self.handle::<Real>(frame, layout, slot);
        }
        true
    }

    #[inline(always)]
    fn handle<M: Mode>(&mut self, frame: &mut Frame<'_>, layout: Layout, slot: &mut Slot) {
        // First of all, while what parsing has learnt of the frame's length is known.
        let packet = &mut Packet::<M>::new(frame, layout);
        if N::REWRITES {
            slot.head.save(packet.bytes(), packet.layout());
        }
        let Meta { number, fragment_len, .. } = *packet.meta();
        debug_assert_eq!(fragment_len, 0, "a datagram that was put together is alone");
        self.environment.begin_at_once(number);
        if !self.seat.handle(packet, self.environment, &mut slot.verdict) {
            slot.verdict = self.seat.open(frame, self.environment);
        }
    }

    #[cold]
    fn require_alone(&mut self, why: impl FnOnce() -> Site) {
        if N::Parallel::PROFILED {
            *self.why_alone = Some(why());
        }
        self.seat.visit.transaction.require_alone();
    }
}

impl<N: NetworkFunction, R: Release> Work<'_, '_, N, R> {
    /// Says when the packets of `range` took effect.
    #[inline(never)]
    fn note_order(&mut self, range: Range<usize>, place: Place) {
        let Some(order) = &mut self.own.order else { return };
        for at in range {
            let Meta { arrival_ns: time_ns, number, .. } = *self.frames[at].meta();
            // Packets of one transaction come in the order in which it handled them.
            let writes = place.0 * MOST_ITEMS as u64 + at as u64;
            order.push(Commit { writes, reader: false, time_ns, number });
        }
    }
}

impl<N: NetworkFunction, R: Release> Batch for Work<'_, '_, N, R> {
    fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
        let Self { shared, nf, own, frames, .. } = self;
        let Own { environment, trail, why_alone, slots, faults, .. } = &mut **own;
        let trail = if N::Parallel::PROFILED { trail.as_deref() } else { None };
        trail.into_iter().for_each(Trail::begin);
        *why_alone = None;
        let times = shared.times();
        environment.set_origin(times.origin_ns);
        // Whose packet comes when something is due is alone.
        let last = environment.tick_at(times.due_ns.saturating_sub(1));
        transaction.set_horizon(last.saturating_add(1));
        *faults = elements::faults();
        let (frames, slots) = (&mut frames[range.clone()], &mut slots[range]);
        let visit = Visit::<N> { nf, transaction, trail };
        let mut held = shared.sets.hold(transaction.worker());
        let run = || match &mut held {
            Held::Common(sets) => {
                let seat = Seat::<N, _> { visit, sets: &mut sets.families() };
                Beside { seat, environment, times, why_alone }.packets(frames, slots)
            }
            Held::Part(part) => {
                let seat = Seat::<N, _> { visit, sets: &mut part.families() };
                Beside { seat, environment, times, why_alone }.packets(frames, slots)
            }
        };
        let ran = measured::<N::Parallel, _>(Handler::Packet, |ran| *ran, run);
        self.sets = Some(held);
        ran
    }

    fn run_alone(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
        let Self { shared, nf, own, frames, release, gone, .. } = self;
        let (frames, slots) = (&mut frames[range.clone()], &mut own.slots[range.clone()]);
        let queue = &mut Queue { frames, slots, release: *release, gone: 0 };
        let floor = &mut Floor { shared, nf, transaction };
        let (handled, mut lines) = shared.alone().packets(floor, queue);
        *gone = range.start + queue.gone;
        own.lines.append(&mut lines);
        handled
    }

    /// What is due comes before it, or it is a datagram that was put together: that is a batch of its own, and
    /// leaves in pieces.
    fn needs_alone(&self, item: usize) -> bool {
        let (meta, times) = (self.frames[item].meta(), self.shared.times());
        meta.fragment_len != 0 || meta.arrival_ns.max(times.now_ns) >= times.due_ns
    }

    fn needs_read_log(&self) -> bool {
        N::Parallel::PROFILED && self.own.trail.as_ref().is_some_and(|trail| trail.needs_read_log())
    }

    fn ran_alone(&mut self, item: usize) {
        if N::Parallel::PROFILED
            && let Some(trail) = &self.own.trail
        {
            let is_whole = self.frames[item].meta().fragment_len != 0;
            let why = if is_whole { Operation::Reenter } else { Operation::Due };
            trail.ran_alone(of_runtime(why).into());
        }
    }

    fn given_up(&mut self, cause: Cause, ran: usize) {
        if N::Parallel::PROFILED
            && let Some(trail) = &self.own.trail
        {
            trail.given_up(cause, ran, self.own.why_alone.map(Into::into));
        }
    }

    fn runs_irrevocably(&mut self) {
        if N::Parallel::PROFILED {
            self.own.trail.iter().for_each(|trail| trail.runs_irrevocably());
        }
    }

    fn committed(&mut self, transaction: &Transaction) {
        if N::Parallel::PROFILED {
            self.own.trail.iter().for_each(|trail| trail.committed());
        }
        self.own.wrote |= self.sets.take().is_some_and(|sets| sets.forget(transaction));
    }

    fn undo(&mut self, range: Range<usize>) {
        self.sets.take().into_iter().for_each(Held::take_back);
        let Own { environment, slots, .. } = &mut *self.own;
        for (slot, frame) in slots[range.clone()].iter_mut().zip(&mut self.frames[range]) {
            slot.emitted = 0;
            if N::REWRITES {
                slot.head.restore(frame);
            }
        }
        environment.emitted().clear();
        elements::forget_since(self.own.faults);
    }

    fn release(&mut self, range: Range<usize>, place: Place) {
        let Self { own, frames, release, gone, .. } = self;
        let left = range.start.max(*gone)..range.end;
        let (frames, slots) = (&frames[left.clone()], &mut own.slots[left]);
        if own.environment.emitted().is_empty() {
            release.let_go(frames, slots, |slot| slot.verdict);
        } else {
            let emitted = own.environment.emitted();
            let_go_with(*release, frames.iter().zip(&*slots), emitted);
            slots.iter_mut().for_each(|slot| slot.emitted = 0);
            emitted.clear();
        }
        own.last = frames.last().map_or(own.last, |frame| *frame.meta());
        if own.order.is_some() {
            self.note_order(range, place);
        }
    }
}

/// Lets go of packets, before each what the NF made while it handled it.
#[inline(never)]
fn let_go_with<'a, 'f: 'a>(
    release: &mut impl Release,
    packets: impl Iterator<Item = (&'a Frame<'f>, &'a Slot)>,
    emitted: &Emitted,
) {
    let mut released = 0;
    for (frame, slot) in packets {
        let made = (released..slot.emitted).filter_map(|one| emitted.get(one as usize));
        made.for_each(|(port, bytes)| release.emit(frame.meta(), port, bytes));
        released = released.max(slot.emitted);
        let_go_one(release, frame, slot.verdict);
    }
}
