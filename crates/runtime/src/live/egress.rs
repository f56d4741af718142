//! What leaves a batch: to which port each frame goes, until all of them are sent at once.

use anabranch_io::live::{Queue, Sent};
use anabranch_io::port::BATCH;
use anabranch_nf::{Builtin, DropReason, Word};
use anabranch_packet::{Frame, Meta, Port};

use super::tap::Taps;
use crate::instance::Release;
use crate::mailbox::{Again, Outbox};
use crate::tally::Counts;

/// What becomes of one frame of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Dropped or handed over: accounted for already.
    Gone,
    To(Port),
    Flood,
}

/// A packet that the NF made.
#[derive(Clone, Copy, Debug)]
struct Made {
    /// The frame before which it leaves, by its place in the batch.
    before: usize,
    port: Port,
    start: usize,
    end: usize,
}

/// The outcomes of a batch, in the order of its frames, and what the NF made besides.
#[derive(Debug, Default)]
pub(super) struct Egress {
    outcomes: Vec<Outcome>,
    made: Vec<Made>,
    bytes: Vec<u8>,
    /// Whether a frame leaves by several ports.
    floods: bool,
    /// Who watches.
    pub(super) taps: Taps,
}

impl Egress {
    /// Nothing yet, of an NF whose own drop reasons are `words`, and whose clock is `ahead_ns` ahead of the system's.
    pub(super) fn new(words: &'static [Word], ahead_ns: u64) -> Self {
        Self { taps: Taps::new(words, ahead_ns), ..Self::default() }
    }

    /// Where what leaves from `now_ns` on goes, until it is sent.
    #[inline(always)]
    pub(super) fn departures<'t>(
        &'t mut self,
        counts: &'t mut Counts,
        outbox: &'t mut Outbox,
        now_ns: u64,
    ) -> Departures<'t> {
        Departures { egress: self, counts, outbox, now_ns }
    }

    /// Sends what leaves `batch`, whose frames are lent by one of `queues`, through the queues of its ports at
    /// `at_ns`, and counts it. Frames may be gone or empty then.
    #[inline]
    pub(super) fn send<'m>(
        &mut self,
        batch: &mut Vec<Frame<'m>>,
        queues: &mut [Box<dyn Queue<'m> + 'm>],
        counts: &mut Counts,
        at_ns: u64,
    ) {
        let is_plain = self.made.is_empty() && !self.floods && self.outcomes.len() <= BATCH;
        if !is_plain || self.taps.are_there() {
            return self.send_copies(batch, queues, counts, at_ns);
        }
        match self.outcomes.split_first() {
            Some((Outcome::To(port), others))
                if others.len() + 1 == batch.len()
                    && others.iter().all(|one| *one == Outcome::To(*port)) =>
            {
                let number = usize::from(port.index());
                if let Some(queue) = queues.get_mut(number) {
                    note(queue.forward_all(batch), number, counts);
                }
            }
            _ => self.send_each(batch, queues, counts),
        }
        self.outcomes.clear();
    }

    /// Sends a batch whose frames leave by several ports, or do not leave.
    fn send_each<'m>(
        &self,
        batch: &mut [Frame<'m>],
        queues: &mut [Box<dyn Queue<'m> + 'm>],
        counts: &mut Counts,
    ) {
        for (number, queue) in queues.iter_mut().enumerate() {
            let (places, count) = self.places(Port::new(number as u8));
            if count > 0 {
                note(queue.forward(batch, &places[..count]), number, counts);
            }
        }
    }

    /// The places of frames, at most a batch of them, that leave by `port`.
    fn places(&self, port: Port) -> ([u8; BATCH], usize) {
        let (mut places, mut count) = ([0; BATCH], 0);
        for (place, outcome) in self.outcomes.iter().take(BATCH).enumerate() {
            // Written for each, and kept for those that leave: no jump.
            places[count] = place as u8;
            count += usize::from(*outcome == Outcome::To(port));
        }
        (places, count)
    }

    /// As [`send`](Self::send), of frames of any origin, which are copied. Where somebody watches what leaves, each
    /// is sent by itself: of several that a queue is given together it says only how many it has not sent.
    pub(super) fn send_copies(
        &mut self,
        batch: &[Frame<'_>],
        queues: &mut [Box<dyn Queue<'_> + '_>],
        counts: &mut Counts,
        at_ns: u64,
    ) {
        if self.outcomes.is_empty() && self.made.is_empty() {
            return;
        }
        let most = if self.taps.ask_what_leaves() { 1 } else { BATCH };
        for (number, queue) in queues.iter_mut().enumerate() {
            let mut send = |packets: &[&[u8]]| {
                let sent = queue.send(packets);
                if let (1, [packet]) = (most, packets) {
                    self.taps.given(packet, number, at_ns, sent);
                }
                sent
            };
            let mut sent = Sent::default();
            let mut packets: [&[u8]; BATCH] = [&[]; BATCH];
            let mut count = 0;
            for packet in self.leaving(batch, Port::new(number as u8)) {
                packets[count] = packet;
                count += 1;
                if count == most {
                    sent.add(send(&packets[..count]));
                    count = 0;
                }
            }
            if count > 0 {
                sent.add(send(&packets[..count]));
            }
            note(sent, number, counts);
        }
        self.outcomes.clear();
        self.made.clear();
        self.bytes.clear();
        self.floods = false;
    }

    /// What leaves by `port`, in order.
    fn leaving<'b>(&'b self, batch: &'b [Frame<'_>], port: Port) -> impl Iterator<Item = &'b [u8]> {
        let made_before = move |from: usize, to: usize| {
            let made = self.made.iter();
            let made = made.filter(move |one| one.port == port && (from..to).contains(&one.before));
            made.filter_map(|one| self.bytes.get(one.start..one.end))
        };
        let frames = batch.iter().zip(&self.outcomes).enumerate();
        let frames = frames.flat_map(move |(place, (frame, outcome))| {
            let leaves = match outcome {
                Outcome::Gone => false,
                Outcome::To(to) => *to == port,
                Outcome::Flood => frame.meta().port != port,
            };
            made_before(place, place + 1).chain(leaves.then(|| frame.bytes()))
        });
        frames.chain(made_before(batch.len().min(self.outcomes.len()), usize::MAX))
    }
}

/// Counts what was sent by the port of this number.
fn note(sent: Sent, port: usize, counts: &mut Counts) {
    if let Some(out) = counts.out.get_mut(port) {
        out.packets += sent.packets;
        out.bytes += sent.bytes;
    }
    counts.drop(Builtin::TransmitFull, sent.full);
    counts.drop(Builtin::PacketTooBig, sent.too_big);
    counts.drop(Builtin::LinkDown, sent.down);
}

/// Takes the packets that leave a worker's NF, each of a batch in its turn.
pub(super) struct Departures<'t> {
    /// Where outcomes are kept until the batch is done.
    egress: &'t mut Egress,
    /// The worker's counts.
    pub(super) counts: &'t mut Counts,
    /// Where packets wait that other workers own.
    outbox: &'t mut Outbox,
    now_ns: u64,
}

impl Departures<'_> {
    fn leave(&mut self, frame: &Frame<'_>, outcome: Outcome, has_port: bool) {
        if !has_port {
            self.egress.taps.dropped(frame, Builtin::NoSuchPort.into());
            self.counts.drop(Builtin::NoSuchPort, 1);
        }
        self.egress.outcomes.push(if has_port { outcome } else { Outcome::Gone });
    }

    fn exists(&self, port: Port) -> bool {
        usize::from(port.index()) < self.counts.out.len()
    }
}

impl Release for Departures<'_> {
    #[inline]
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        self.leave(frame, Outcome::To(port), self.exists(port));
    }

    fn flood(&mut self, frame: &Frame<'_>) {
        self.egress.floods = true;
        self.leave(frame, Outcome::Flood, self.counts.out.len() > 1);
    }

    fn discard(&mut self, frame: &Frame<'_>, reason: DropReason) {
        self.egress.taps.dropped(frame, reason);
        self.counts.drop(reason, 1);
        self.egress.outcomes.push(Outcome::Gone);
    }

    fn hand_over(&mut self, frame: &Frame<'_>, worker: u16, again: Again) {
        self.outbox.put(frame, worker, Some(again));
        self.egress.outcomes.push(Outcome::Gone);
    }

    fn hold(&mut self, frame: &Frame<'_>) {
        self.egress.taps.hold(frame);
        self.egress.outcomes.push(Outcome::Gone);
    }

    fn settle(&mut self, reason: DropReason, held: &[u64]) {
        self.egress.taps.settle(reason, held, self.now_ns);
        self.counts.drop(reason, held.len() as u64);
    }

    fn emit(&mut self, _: &Meta, port: Port, frame: &[u8]) {
        if self.exists(port) {
            self.counts.emitted += 1;
            let start = self.egress.bytes.len();
            self.egress.bytes.extend_from_slice(frame);
            let (before, end) = (self.egress.outcomes.len(), self.egress.bytes.len());
            self.egress.made.push(Made { before, port, start, end });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::fd::RawFd;

    use anabranch_io::live::QueueStatistics;

    use super::super::tap::{Event, Filter, Tap};
    use super::*;

    /// A queue that takes short packets, as many as there is room for; how often it was given some.
    struct Narrow {
        is_down: bool,
        room: usize,
        given: u64,
    }

    impl<'m> Queue<'m> for Narrow {
        fn receive(&mut self, _: &mut Vec<Frame<'m>>, _: usize) -> usize {
            0
        }

        fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
            batch.clear();
        }

        fn send(&mut self, packets: &[&[u8]]) -> Sent {
            let mut sent = Sent::default();
            self.given += 1;
            for packet in packets {
                match packet.len() {
                    _ if self.is_down => sent.down += 1,
                    5.. => sent.too_big += 1,
                    _ if self.room == 0 => sent.full += 1,
                    _ => (sent.packets, self.room) = (sent.packets + 1, self.room - 1),
                }
            }
            sent
        }

        fn attend(&mut self) {}

        fn fds(&self, _: &mut Vec<RawFd>) {}

        fn statistics(&mut self) -> QueueStatistics {
            QueueStatistics { missed: self.given, ..QueueStatistics::default() }
        }
    }

    /// What is copied by `filter` of five packets of which the third is too long for one port, where there is room for
    /// three, and all are flooded to one that is down; and how often the first port was given packets.
    fn watched(filter: &str) -> (Vec<(Event, u8, u8)>, u64) {
        let (mut egress, mut counts, mut outbox) =
            (Egress::default(), Counts::new(3), Outbox::new(1));
        let filter = Filter::read(filter, &["a", "b", "c"], &[], &[]).unwrap();
        let (tap, copies) = Tap::new(filter, Vec::new());
        egress.taps.add(tap);
        let mut buffers: Vec<Vec<u8>> =
            (0..5).map(|number| vec![number; if number == 2 { 5 } else { 4 }]).collect();
        let frames = buffers.iter_mut().map(|bytes| {
            let len = bytes.len();
            Frame::new(bytes, 0, len, 0, Meta { port: Port::new(2), ..Meta::default() })
        });
        let mut batch: Vec<Frame<'_>> = frames.collect();
        let mut departures = egress.departures(&mut counts, &mut outbox, 7);
        batch.iter().for_each(|frame| departures.flood(frame));
        let narrow = |is_down| Box::new(Narrow { is_down, room: 3, given: 0 });
        let mut queues: [Box<dyn Queue<'_>>; 3] = [narrow(false), narrow(true), narrow(false)];
        egress.send(&mut batch, &mut queues, &mut counts, 7);
        let drops: Vec<_> = counts.drops().map(|(_, count)| count).collect();
        assert_eq!((counts.out[0].packets, drops), (3, vec![1, 1, 5]));
        let copied = copies.packets.try_iter().map(|one| (one.event, one.port, one.bytes[0]));
        (copied.collect(), queues[0].statistics().missed)
    }

    #[test]
    fn who_watches_is_told_of_each_packet_whether_it_left() {
        let (copied, given) = watched("");
        let [big, full, down] = ["packet-too-big", "transmit-full", "link-down"].map(Event::Unsent);
        let fates = [Event::Left, Event::Left, big, Event::Left, full];
        let fates: Vec<_> = (0..).zip(fates).map(|(packet, event)| (event, 0, packet)).collect();
        assert_eq!(copied[..5], fates);
        assert_eq!(copied[5..], (0..5).map(|packet| (down, 1, packet)).collect::<Vec<_>>());
        assert_eq!(given, 5);
        assert_eq!(watched("dropped port=a").0, [(big, 0, 2), (full, 0, 4)]);
        assert_eq!(watched("reason=link-down").0.len(), 5);
        // Who does not watch that does not have each sent by itself.
        for filter in ["in", "reason=no-route"] {
            assert_eq!(watched(filter), (Vec::new(), 1), "{filter}");
        }
    }

    #[test]
    fn packets_leave_in_order_by_their_ports() {
        let (mut egress, mut counts, mut outbox) =
            (Egress::default(), Counts::new(3), Outbox::new(1));
        let mut buffers = [[1; 4], [2; 4], [3; 4], [4; 4]];
        let [a, b, c, d] = &mut buffers;
        let frame = |buffer| Frame::new(buffer, 0, 4, 0, Meta::default());
        let batch = [frame(a), frame(b), frame(c), frame(d)];
        let mut departures = egress.departures(&mut counts, &mut outbox, 0);
        departures.forward(&batch[0], Port::new(1));
        departures.emit(&Meta::default(), Port::new(1), &[9; 4]);
        departures.flood(&batch[1]);
        departures.discard(&batch[2], Builtin::NoRoute.into());
        departures.forward(&batch[3], Port::new(3));
        departures.emit(&Meta::default(), Port::new(1), &[8; 4]);
        departures.emit(&Meta::default(), Port::new(7), &[7; 4]);
        let by = |port| -> Vec<u8> {
            egress.leaving(&batch, Port::new(port)).map(|bytes| bytes[0]).collect()
        };
        assert_eq!((by(0), by(1), by(2)), (vec![], vec![1, 9, 2, 8], vec![2]));
        assert!(egress.floods);
        let (places, count) = egress.places(Port::new(1));
        assert_eq!(places[..count], [0]);
        assert_eq!(counts.drops().map(|(_, count)| count).sum::<u64>(), 2);
        assert_eq!(counts.emitted, 2);
    }
}
