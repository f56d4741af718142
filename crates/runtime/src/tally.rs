//! What one worker counts, and the packets it collects for the captures.

use anabranch_io::Chunk;
use anabranch_io::sink::{Output, Outputs};
use anabranch_nf::{Builtin, DropReason, Verdict};
use anabranch_packet::{Frame, Meta, Port};

use crate::instance::{Release, let_go_each};
use crate::mailbox::{Again, Outbox};

/// Drop reasons are numbered below this.
const REASONS: usize = 512;

/// Packets and bytes of one direction of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flowed {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Flowed {
    fn count(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The counts of one worker.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Received, by port number.
    pub read: Vec<Flowed>,
    /// Sent, by port number.
    pub out: Vec<Flowed>,
    /// Of those sent, how many the NF made itself.
    pub emitted: u64,
    /// Dropped, by number of the reason.
    dropped: Vec<u64>,
}

impl Counts {
    /// Nothing yet, on `ports` ports.
    pub fn new(ports: usize) -> Self {
        let none = vec![Flowed::default(); ports];
        Self { read: none.clone(), out: none, emitted: 0, dropped: vec![0; REASONS] }
    }

    /// These packets were received. Those of a port are summed up first: a count in memory would have each
    /// packet wait for the one before.
    #[inline(always)]
    pub fn received(&mut self, batch: &[Frame<'_>]) {
        let Some(first) = batch.first() else { return };
        let (port, packets) = (first.meta().port, batch.len() as u64);
        let (mut bytes, mut others) = (0, 0);
        for frame in batch {
            bytes += u64::from(frame.meta().wire_len);
            others |= frame.meta().port.index() ^ port.index();
        }
        match others {
            0 => self.add_received(port, Flowed { packets, bytes }),
            _ => self.received_on_many(batch),
        }
    }

    /// Of several ports: as long as it stays the same.
    #[inline(never)]
    fn received_on_many(&mut self, batch: &[Frame<'_>]) {
        for run in batch.chunk_by(|a, b| a.meta().port == b.meta().port) {
            let bytes = run.iter().map(|frame| u64::from(frame.meta().wire_len)).sum();
            self.add_received(run[0].meta().port, Flowed { packets: run.len() as u64, bytes });
        }
    }

    fn add_received(&mut self, port: Port, sum: Flowed) {
        if let Some(read) = self.read.get_mut(usize::from(port.index())) {
            read.add(sum);
        }
    }

    /// Packets received on all ports.
    pub fn packets(&self) -> u64 {
        self.read.iter().map(|port| port.packets).sum()
    }

    /// Each reason for which packets were dropped, with their number.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let counted = self.dropped.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(reason, &count)| (DropReason(reason as u16), count))
    }

    /// `packets` went nowhere, for `reason`.
    pub(crate) fn drop(&mut self, reason: impl Into<DropReason>, packets: u64) {
        if let Some(count) = self.dropped.get_mut(usize::from(reason.into().0)) {
            *count += packets;
        }
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        self.read.iter_mut().zip(&other.read).for_each(|(mine, theirs)| mine.add(*theirs));
        self.out.iter_mut().zip(&other.out).for_each(|(mine, theirs)| mine.add(*theirs));
        self.dropped.iter_mut().zip(&other.dropped).for_each(|(mine, theirs)| *mine += theirs);
        self.emitted += other.emitted;
    }
}

/// Takes the packets that leave a worker's NF: counts all, keeps those that a capture wants.
pub struct Tally<'t> {
    /// The counts.
    pub counts: &'t mut Counts,
    /// Where packets are kept, if any port has a capture.
    pub outputs: Option<&'t mut Outputs>,
    /// Where the time stamps of packets are found, if they are handled at other times.
    pub arrivals: Option<&'t Chunk>,
    /// How far the clock is ahead of time stamps that are not found there, nanoseconds.
    pub ahead_ns: u64,
    /// Where packets wait that other workers own.
    pub outbox: Option<&'t mut Outbox>,
    /// The packet whose outputs come now, and how many it has had.
    place: (u64, u16),
}

impl<'t> Tally<'t> {
    /// Counts into `counts` and keeps packets in `outputs`.
    pub fn new(counts: &'t mut Counts, outputs: Option<&'t mut Outputs>) -> Self {
        Self { counts, outputs, arrivals: None, ahead_ns: 0, outbox: None, place: (u64::MAX, 0) }
    }

    #[inline(always)]
    fn count(&mut self, port: Port, wire_len: u32) -> bool {
        let out = self.counts.out.get_mut(usize::from(port.index()));
        out.map(|out| out.count(wire_len)).is_some()
    }

    #[inline(never)]
    fn keep(&mut self, cause: &Meta, port: Port, wire_len: u32, bytes: &[u8]) {
        let sub = if self.place.0 == cause.number { self.place.1.saturating_add(1) } else { 0 };
        self.place = (cause.number, sub);
        if let Some(outputs) = &mut self.outputs {
            let number = cause.number;
            let arrival = self
                .arrivals
                .and_then(|chunk| chunk.meta(number.wrapping_sub(chunk.first_number()) as usize));
            let timestamp_ns = arrival.map_or_else(
                || cause.arrival_ns.saturating_sub(self.ahead_ns),
                |meta| meta.arrival_ns,
            );
            outputs.push(&Output { number, sub, port, timestamp_ns, wire_len, bytes });
        }
    }

    /// Keeps a frame whose bytes are counted, and counts it.
    #[inline(never)]
    fn keep_frame(&mut self, frame: &Frame<'_>, port: Port) {
        if let Some(out) = self.counts.out.get_mut(usize::from(port.index())) {
            out.packets += 1;
        }
        self.keep(frame.meta(), port, frame.meta().wire_len, frame.bytes());
    }

    #[cold]
    fn dropped(&mut self, reason: DropReason) {
        self.counts.drop(reason, 1);
    }
}

impl Release for Tally<'_> {
    /// Packets that all leave through one port are summed up first, as those [received](Counts::received) are.
    #[inline(always)]
    fn let_go<T>(&mut self, frames: &[Frame<'_>], slots: &[T], verdict: impl Fn(&T) -> Verdict) {
        let sum = |port| {
            let mut bytes = 0;
            for (frame, slot) in frames.iter().zip(slots) {
                if verdict(slot) != Verdict::Forward(port) {
                    return None;
                }
                bytes += u64::from(frame.meta().wire_len);
            }
            Some(Flowed { packets: frames.len() as u64, bytes })
        };
        if self.outputs.is_none()
            && let Some(Verdict::Forward(port)) = slots.first().map(&verdict)
            && let Some(out) = self.counts.out.get_mut(usize::from(port.index()))
            && let Some(sum) = sum(port)
        {
            return out.add(sum);
        }
        let_go_each(self, frames, slots, verdict);
    }

    #[inline(always)]
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        let Some(out) = self.counts.out.get_mut(usize::from(port.index())) else {
            return self.dropped(Builtin::NoSuchPort.into());
        };
        out.bytes += u64::from(frame.meta().wire_len);
        if self.outputs.is_some() {
            return self.keep_frame(frame, port);
        }
        // Behind that question: side by side the two become a vector, which is dearer than adding them.
        out.packets += 1;
    }

    fn flood(&mut self, frame: &Frame<'_>) {
        let arrival = frame.meta().port;
        let ports = (0..self.counts.out.len()).map(|port| Port::new(port as u8));
        let mut alone = true;
        for port in ports.filter(|&port| port != arrival) {
            alone = false;
            self.forward(frame, port);
        }
        if alone {
            self.dropped(Builtin::NoSuchPort.into());
        }
    }

    #[inline]
    fn discard(&mut self, _: &Frame<'_>, reason: DropReason) {
        self.dropped(reason);
    }

    #[cold]
    fn hand_over(&mut self, frame: &Frame<'_>, worker: u16, again: Again) {
        match &mut self.outbox {
            Some(outbox) => outbox.put(frame, worker, Some(again)),
            None => unreachable!("only a worker with others beside it hands packets over"),
        }
    }

    fn settle(&mut self, reason: DropReason, held: &[u64]) {
        self.counts.drop(reason, held.len() as u64);
    }

    fn emit(&mut self, cause: &Meta, port: Port, frame: &[u8]) {
        if self.count(port, frame.len() as u32) {
            self.counts.emitted += 1;
            self.keep(cause, port, frame.len() as u32, frame);
        }
    }
}
