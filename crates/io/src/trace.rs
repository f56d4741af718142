//! Traces: packets in memory.

use crate::arena::Arena;
use crate::capture::{CaptureError, CaptureReader, Record};
use anabranch_packet::{Meta, Port};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What a trace knows of one packet, besides its bytes. 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Where in the arena its bytes start.
    offset: u64,
    /// When it arrived, nanoseconds since the Unix epoch.
    pub arrival_ns: u64,
    /// Its steering hash, as a NIC would supply it; zero until one is set.
    pub steering_hash: u32,
    /// Bytes that were captured.
    pub captured_len: u32,
    /// Bytes it had on the wire.
    pub wire_len: u32,
    /// Where it arrives.
    pub port: Port,
}

impl TraceRecord {
    /// No packet.
    pub(crate) const NONE: Self = Self {
        offset: 0,
        arrival_ns: 0,
        steering_hash: 0,
        captured_len: 0,
        wire_len: 0,
        port: Port::new(0),
    };

    /// Where in the trace's bytes the packet starts.
    #[inline(always)]
    pub(crate) fn offset(&self) -> usize {
        self.offset as usize
    }

    /// What is known of the packet as number `number`, `later_ns` later.
    #[inline(always)]
    pub(crate) fn meta(&self, number: u64, later_ns: u64) -> Meta {
        Meta {
            arrival_ns: self.arrival_ns.wrapping_add(later_ns),
            number,
            steering_hash: self.steering_hash,
            wire_len: self.wire_len.max(self.captured_len),
            port: self.port,
            ..Meta::default()
        }
    }
}

/// Packets in memory, in order of arrival: one arena of bytes, and a record for each packet.
#[derive(Debug, Default)]
pub struct Trace {
    arena: Arena,
    records: Vec<TraceRecord>,
    max_captured_len: u32,
    /// Some packet's time is before that of the packet before it.
    runs_backwards: bool,
}

impl Trace {
    /// A trace without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a whole capture into memory; all its packets arrive at `port`.
    ///
    /// Fails as [`CaptureReader`] does; [`read_from`](Self::read_from) keeps what came before the
    /// error.
    pub fn from_capture(path: impl AsRef<Path>, port: Port) -> Result<Self, CaptureError> {
        let mut trace = Self::new();
        trace.read_from(&mut CaptureReader::open(path)?, port, usize::MAX)?;
        Ok(trace)
    }

    /// Makes room for packets to come, so that a long trace is not moved as it grows. `bytes` counts
    /// each packet rounded up to 64.
    pub fn reserve(&mut self, packets: usize, bytes: usize) {
        self.records.reserve(packets);
        self.arena.reserve(bytes);
    }

    /// Appends at most `max` packets of a capture and returns how many there were; fewer than
    /// `max` only at the end. After an error the packets before it have been appended.
    pub fn read_from<R: Read>(
        &mut self,
        reader: &mut CaptureReader<R>,
        port: Port,
        max: usize,
    ) -> Result<usize, CaptureError> {
        for count in 0..max {
            match reader.next_record()? {
                Some(record) => self.push(port, &record),
                None => return Ok(count),
            }
        }
        Ok(max)
    }

    /// Appends a packet that arrives at `port`.
    #[inline]
    pub fn push(&mut self, port: Port, record: &Record<'_>) {
        let captured_len = record.bytes.len() as u32;
        let offset = self.arena.push(record.bytes);
        self.enter(TraceRecord {
            offset,
            arrival_ns: record.timestamp_ns,
            steering_hash: 0,
            captured_len,
            wire_len: record.wire_len,
            port,
        });
    }

    #[inline]
    fn enter(&mut self, record: TraceRecord) {
        self.max_captured_len = self.max_captured_len.max(record.captured_len);
        let before = self.records.last();
        self.runs_backwards |= before.is_some_and(|last| last.arrival_ns > record.arrival_ns);
        self.records.push(record);
    }

    /// Merges traces by time of arrival. Each keeps its own order, even where its times run
    /// backwards; of packets with the same time, those of the earlier trace come first.
    pub fn merge(mut traces: Vec<Self>) -> Self {
        if traces.len() < 2 {
            return traces.pop().unwrap_or_default();
        }
        let mut next = vec![0; traces.len()];
        let mut merged = Self::new();
        loop {
            let heads = traces.iter().zip(&next).enumerate();
            let arrivals = heads.filter_map(|(input, (trace, &at))| {
                trace.records.get(at).map(|record| (record.arrival_ns, input))
            });
            let Some((_, first)) = arrivals.min() else {
                return merged;
            };
            merged.push_from(&traces[first], next[first], 0);
            next[first] += 1;
        }
    }

    /// Appends the packet `index` of another trace, `later_ns` later.
    pub(crate) fn push_from(&mut self, other: &Self, index: usize, later_ns: u64) {
        let Some(record) = other.records.get(index) else { return };
        let offset = self.arena.push(other.bytes(index));
        let arrival_ns = record.arrival_ns.saturating_add(later_ns);
        self.enter(TraceRecord { offset, arrival_ns, ..*record });
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What is known of each packet, in order.
    #[inline]
    pub fn records(&self) -> &[TraceRecord] {
        &self.records
    }

    /// Stores the steering hash of each packet, computed from its bytes and what is known of it:
    /// what a NIC does as packets arrive.
    pub fn set_steering_hashes(&mut self, mut hash: impl FnMut(&[u8], &TraceRecord) -> u32) {
        for record in &mut self.records {
            let bytes = self.arena.get(record.offset, record.captured_len as usize);
            record.steering_hash = hash(bytes, record);
        }
    }

    /// The captured bytes of packet `index`; empty when there is no such packet.
    #[inline(always)]
    pub fn bytes(&self, index: usize) -> &[u8] {
        match self.records.get(index) {
            Some(record) => self.arena.get(record.offset, record.captured_len as usize),
            None => &[],
        }
    }

    /// The bytes of all packets, each padded to whole 64-byte lines.
    #[inline(always)]
    pub(crate) fn all_bytes(&self) -> &[u8] {
        self.arena.bytes()
    }

    /// Whether some packet's time is before that of the packet before it.
    #[inline]
    pub fn runs_backwards(&self) -> bool {
        self.runs_backwards
    }

    /// Bytes of the longest packet, as captured.
    pub fn max_captured_len(&self) -> u32 {
        self.max_captured_len
    }

    /// Sum of the lengths on the wire.
    pub fn wire_bytes(&self) -> u64 {
        self.records.iter().map(|record| u64::from(record.wire_len)).sum()
    }

    /// Nanoseconds from the first arrival to the last, plus one mean gap: the time after which the
    /// trace can be repeated as if the traffic went on.
    pub fn period_ns(&self) -> u64 {
        let arrivals = || self.records.iter().map(|record| record.arrival_ns);
        let (Some(first), Some(last)) = (arrivals().min(), arrivals().max()) else {
            return 0;
        };
        let gaps = (self.records.len() as u64 - 1).max(1);
        (last - first).saturating_add(((last - first) / gaps).max(1))
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.arena.capacity() + self.records.capacity() * size_of::<TraceRecord>()
    }

    /// Forgets the packets and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.arena.clear();
        self.records.clear();
        self.max_captured_len = 0;
        self.runs_backwards = false;
    }
}

/// Part of a trace, numbered and placed in time: what a source yields.
///
/// A trace that is looped is not copied: each turn is a chunk with another first number and a
/// later time.
#[derive(Clone, Debug)]
pub struct Chunk {
    trace: Arc<Trace>,
    range: Range<usize>,
    first_number: u64,
    later_ns: u64,
}

impl Chunk {
    /// The packets `range` of `trace` (cut to those that exist), numbered from `first_number`,
    /// each `later_ns` later than in the trace.
    pub fn new(trace: Arc<Trace>, range: Range<usize>, first_number: u64, later_ns: u64) -> Self {
        let end = range.end.min(trace.len());
        let range = range.start.min(end)..end;
        Self { trace, range, first_number, later_ns }
    }

    /// A whole trace, numbered from zero, at its own time.
    pub fn whole(trace: Arc<Trace>) -> Self {
        let range = 0..trace.len();
        Self::new(trace, range, 0, 0)
    }

    /// Takes off the first `packets` packets, or all where there are no more.
    pub fn take_first(&mut self, packets: usize) -> Self {
        let mut first = self.clone();
        let count = packets.min(self.len());
        first.range.end = self.range.start + count;
        self.range.start += count;
        self.first_number += count as u64;
        first
    }

    /// The trace this is part of.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Where in the trace the chunk starts.
    #[inline]
    pub fn start(&self) -> usize {
        self.range.start
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The records of the packets. Their times lack [`later_ns`](Self::later_ns); packet `index`
    /// of the chunk is `records()[index]`.
    #[inline]
    pub fn records(&self) -> &[TraceRecord] {
        &self.trace.records[self.range.clone()]
    }

    /// The captured bytes of packet `index`; empty when there is no such packet.
    #[inline(always)]
    pub fn bytes(&self, index: usize) -> &[u8] {
        match self.records().get(index) {
            Some(record) => self.trace.arena.get(record.offset, record.captured_len as usize),
            None => &[],
        }
    }

    /// What is known of packet `index`, and its captured bytes; `None` when there is no such packet.
    #[inline]
    pub fn packet(&self, index: usize) -> Option<(Meta, &[u8])> {
        Some((self.meta(index)?, self.bytes(index)))
    }

    /// The number of the first packet among all of the run.
    #[inline]
    pub fn first_number(&self) -> u64 {
        self.first_number
    }

    /// Nanoseconds to add to the times of the records.
    #[inline]
    pub fn later_ns(&self) -> u64 {
        self.later_ns
    }

    /// What is known of packet `index`, numbered and placed in time; `None` when there is no such
    /// packet.
    #[inline]
    pub fn meta(&self, index: usize) -> Option<Meta> {
        let record = self.records().get(index)?;
        Some(record.meta(self.first_number + index as u64, self.later_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_chunk_are_numbered_as_the_chunk_is() {
        let whole = Chunk::new(Arc::new(trace(0, &[1, 2, 3, 4, 5])), 1..5, 70, 100);
        let mut rest = whole.clone();
        let pieces: Vec<Chunk> = [3, 0, 9].map(|packets| rest.take_first(packets)).into();
        assert_eq!(pieces.iter().map(Chunk::len).collect::<Vec<_>>(), [3, 0, 1]);
        let of_piece =
            |piece: &Chunk| (0..piece.len()).map(|at| piece.meta(at)).collect::<Vec<_>>();
        let metas: Vec<_> = pieces.iter().flat_map(of_piece).collect();
        assert_eq!(metas, of_piece(&whole));
        assert!(rest.is_empty());
    }

    fn trace(port: u8, arrivals: &[u64]) -> Trace {
        let mut trace = Trace::new();
        for &timestamp_ns in arrivals {
            let bytes = [port, timestamp_ns as u8];
            trace.push(Port::new(port), &Record { timestamp_ns, wire_len: 60, bytes: &bytes });
        }
        trace
    }

    #[test]
    fn merging_is_stable_and_keeps_each_inputs_order() {
        let merged = Trace::merge(vec![trace(0, &[1, 5, 3, 9]), trace(1, &[1, 4, 5])]);
        let order: Vec<_> = (0..merged.len()).map(|i| merged.bytes(i).to_vec()).collect();
        assert_eq!(order, [[0, 1], [1, 1], [1, 4], [0, 5], [0, 3], [1, 5], [0, 9]]);
        assert!(merged.records().iter().zip(order).all(|(r, b)| r.port.index() == b[0]));
    }

    #[test]
    fn a_trace_knows_that_its_times_run_backwards() {
        assert!(!trace(0, &[1, 1, 2]).runs_backwards());
        let mut backwards = trace(0, &[1, 5, 3]);
        assert!(backwards.runs_backwards());
        assert!(Trace::merge(vec![backwards, trace(1, &[2])]).runs_backwards());
        backwards = trace(0, &[1, 5, 3]);
        backwards.clear();
        assert!(!backwards.runs_backwards());
    }

    #[test]
    fn a_record_is_half_a_cache_line() {
        assert_eq!(size_of::<TraceRecord>(), 32);
    }

    #[test]
    fn a_chunk_numbers_its_packets_and_moves_their_times() {
        let chunk = Chunk::new(Arc::new(trace(1, &[10, 20, 30])), 1..9, 100, 1_000);
        assert_eq!(chunk.len(), 2);
        let meta = chunk.meta(1).unwrap();
        assert_eq!((meta.number, meta.arrival_ns, meta.wire_len), (101, 1_030, 60));
        assert_eq!((chunk.bytes(0), chunk.bytes(2)), (&[1, 20][..], &[][..]));
        assert!(chunk.meta(2).is_none());
    }

    #[test]
    fn the_period_leaves_one_gap_before_the_repetition() {
        assert_eq!(trace(0, &[100, 110, 120]).period_ns(), 30);
        assert_eq!(trace(0, &[100]).period_ns(), 1);
        assert_eq!(Trace::new().period_ns(), 0);
    }
}
