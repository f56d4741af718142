//! Packets with nobody beside them, one after the other as on one core: one that needs it, or a batch where
//! workers take turns.
//!
//! ```text
//! nothing due ─▶ handler, on the objects themselves ─▶ … the next
//!    ├─ due, or a whole datagram ─▶ Alone::packet          └─ packets made, or one that re-enters: at once
//!    └─ a fragment that is to be put together with others: the end
//! ```

use std::sync::atomic::Ordering;

use anabranch_nf::{Environment, Line, NetworkFunction, Verdict};
use anabranch_packet::{Common, Frame, Packet, Real, parse_any, parse_common};

use super::alone::{Alone, Floor};
use super::batch::Slot;
use super::seat::{Seat, Visit};
use super::sets::{Families, Held};
use crate::handlers::{Handler, measured};
use crate::instance::{Release, refused};
use crate::reassembly::{is_part, is_part_frame, leaving};

/// Packets, and where they go.
pub(super) struct Queue<'a, 'f, R> {
    pub(super) frames: &'a mut [Frame<'f>],
    pub(super) slots: &'a mut [Slot],
    pub(super) release: &'a mut R,
    /// How many have been let go of; the rest may be later.
    pub(super) gone: usize,
}

impl<R: Release> Queue<'_, '_, R> {
    /// Lets go of the packets before that one, which are done with.
    fn let_go(&mut self, before: usize) {
        let done = self.gone..before;
        self.release.let_go(&self.frames[done.clone()], &self.slots[done], |slot| slot.verdict);
        self.gone = before;
    }
}

/// Why packets are not handled straight on.
enum Halt {
    /// There are no more, or the next one is to be put together with others.
    Done,
    /// Before the next one something is to be done.
    Before,
    /// After the last one, which has made packets or re-enters.
    After,
}

impl<N: NetworkFunction> Alone<N> {
    /// Handles packets, and what is due before each, up to a fragment that is to be put together with others;
    /// returns how many, and what was logged.
    pub(super) fn packets<R: Release>(
        &mut self,
        floor: &mut Floor<'_, N>,
        queue: &mut Queue<'_, '_, R>,
    ) -> (usize, Vec<Line>) {
        let mut done = 0;
        loop {
            let (frames, slots) = (&mut queue.frames[done..], &mut queue.slots[done..]);
            let (handled, halt) = self.straight_on(floor, frames, slots);
            done += handled;
            match halt {
                Halt::Done => break,
                Halt::Before if is_part_frame::<N>(&queue.frames[done]) => break,
                Halt::Before => {
                    self.with_care(floor, queue, done);
                    done += 1;
                }
                Halt::After => self.follow(floor, queue, done - 1),
            }
        }
        floor.shared.publish(&self.agenda.environment);
        (done, self.agenda.environment.log().take())
    }

    /// Handles packets up to the first with which there is more to do, and returns how many.
    fn straight_on(
        &mut self,
        floor: &mut Floor<'_, N>,
        frames: &mut [Frame<'_>],
        slots: &mut [Slot],
    ) -> (usize, Halt) {
        let Floor { shared, nf, transaction } = floor;
        let environment = &mut self.agenda.environment;
        let mut now_ns = shared.now_ns.load(Ordering::Relaxed);
        let visit = Visit::<N> { nf, transaction, trail: None };
        let mut held = shared.sets.hold(transaction.worker());
        let run = || match &mut held {
            Held::Common(sets) => {
                let seat = Seat::<N, _> { visit, sets: &mut sets.families() };
                Course { seat, environment, now_ns: &mut now_ns }.packets(frames, slots)
            }
            Held::Part(part) => {
                let seat = Seat::<N, _> { visit, sets: &mut part.families() };
                Course { seat, environment, now_ns: &mut now_ns }.packets(frames, slots)
            }
        };
        let handled = measured::<N::Parallel, _>(Handler::Packet, |(handled, _)| *handled, run);
        held.forget(transaction);
        shared.now_ns.store(now_ns, Ordering::Relaxed);
        handled
    }

    /// Handles packet `at`, and what is due before it.
    #[cold]
    fn with_care<R: Release>(
        &mut self,
        floor: &mut Floor<'_, N>,
        queue: &mut Queue<'_, '_, R>,
        at: usize,
    ) {
        queue.let_go(at);
        let frame = &mut queue.frames[at];
        let verdict = self.packet(floor, frame, queue.release);
        queue.slots[at].verdict = leaving(frame, verdict, queue.release);
    }

    /// Lets go of what packet `at` has made, and has it re-enter if it is to.
    #[cold]
    fn follow<R: Release>(
        &mut self,
        floor: &mut Floor<'_, N>,
        queue: &mut Queue<'_, '_, R>,
        at: usize,
    ) {
        queue.let_go(at);
        let (frame, slot) = (&mut queue.frames[at], &mut queue.slots[at]);
        self.agenda.emit(frame.meta(), queue.release);
        if let Verdict::Recirculate(port) = slot.verdict {
            frame.meta_mut().port = port;
            slot.verdict = self.turns(floor, frame, 1, queue.release);
        }
    }
}

/// Packets on their way, one after the other.
struct Course<'a, N: NetworkFunction, F> {
    seat: Seat<'a, N, F>,
    environment: &'a mut Environment,
    now_ns: &'a mut u64,
}

impl<N: NetworkFunction, F: Families<N::Set>> Course<'_, N, F> {
    /// One function whoever releases them: what is called from one place is inlined there.
    #[inline(never)]
    fn packets(mut self, frames: &mut [Frame<'_>], slots: &mut [Slot]) -> (usize, Halt) {
        for (at, (frame, slot)) in frames.iter_mut().zip(slots).enumerate() {
            let now_ns = frame.meta().arrival_ns.max(*self.now_ns);
            if N::LAYER == 4 && frame.meta().fragment_len != 0 {
                return (at, Halt::Before);
            }
            if !self.environment.stands_at(now_ns) {
                if now_ns >= self.environment.due() {
                    return (at, Halt::Before);
                }
                self.environment.advance(now_ns);
                *self.now_ns = now_ns;
            }
            frame.meta_mut().arrival_ns = now_ns;
            if !self.packet(frame, &mut slot.verdict) {
                return (at, Halt::Done);
            }
            let reenters = N::REENTERS && matches!(slot.verdict, Verdict::Recirculate(_));
            if reenters || !self.environment.emitted().is_empty() {
                return (at + 1, Halt::After);
            }
        }
        (frames.len(), Halt::Done)
    }

    /// Handles one packet, unless it is to be put together with others.
    #[inline(always)]
    fn packet(&mut self, frame: &mut Frame<'_>, verdict: &mut Verdict) -> bool {
        let Some(layout) = parse_common(frame.bytes(), frame.meta().wire_len) else {
            return self.packet_any(frame).map(|any| *verdict = any).is_some();
        };
        let packet = &mut Packet::<Common<Real>>::new(frame, layout);
        self.environment.begin_at_once(packet.meta().number);
        if !self.seat.handle(packet, self.environment, verdict) {
            *verdict = self.seat.open(frame, self.environment);
        }
        true
    }

    #[inline(never)]
    fn packet_any(&mut self, frame: &mut Frame<'_>) -> Option<Verdict> {
        let layout = parse_any(frame.bytes(), frame.meta().wire_len);
        if N::LAYER == 4 && is_part(layout) {
            return None;
        }
        if let Some(reason) = refused::<N>(layout) {
            return Some(Verdict::Discard(reason.into()));
        }
        self.environment.begin_at_once(frame.meta().number);
        Some(self.seat.handle_any(frame, self.environment))
    }
}
