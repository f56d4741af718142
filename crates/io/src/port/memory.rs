//! A port whose packets come from a trace in memory.

use super::{FreeBuffers, HEADROOM, PacketIo, PortError, Statistics};
use crate::arena::LINE;
use crate::sink::{Output, Outputs};
use crate::trace::{Chunk, TraceRecord};
use anabranch_packet::{Frame, Port};
use anabranch_rss::{IndirectionTable, Steering};

/// Lends one worker copies of its packets of a chunk, as a NIC's DMA would place them, and collects
/// what the worker sends.
///
/// ```
/// use anabranch_io::port::{MemoryPort, PacketIo, Pool};
/// use anabranch_io::{Chunk, Trace, capture::Record};
/// use anabranch_packet::Port;
/// use std::sync::Arc;
///
/// let mut trace = Trace::new();
/// trace.push(Port::new(0), &Record { timestamp_ns: 7, wire_len: 60, bytes: &[1; 60] });
/// let mut pool = Pool::new(64, 1_514);
/// let mut port = MemoryPort::new(pool.buffers());
/// port.assign_all(Chunk::whole(Arc::new(trace)));
/// let mut batch = Vec::with_capacity(32);
/// assert_eq!(port.receive(&mut batch, 32), 1);
/// assert_eq!(batch[0].bytes(), &[1; 60]);
/// port.transmit(Port::new(1), &mut batch);
/// assert_eq!(port.outputs_mut().len(), 1);
/// ```
#[derive(Debug)]
pub struct MemoryPort<'m> {
    free: FreeBuffers<'m>,
    /// Bytes a buffer has for a packet.
    room: u32,
    chunk: Option<Chunk>,
    /// The worker's packets of the chunk, by their index in it.
    mine: Mine,
    /// How many of them have been received.
    next: usize,
    outputs: Outputs,
    statistics: Statistics,
}

/// Which packets of the chunk are this worker's.
#[derive(Debug)]
enum Mine {
    All,
    Listed(Vec<u32>),
}

impl<'m> MemoryPort<'m> {
    /// A port without packets, which lends `free`.
    pub fn new(free: FreeBuffers<'m>) -> Self {
        Self {
            room: free.room(),
            free,
            chunk: None,
            mine: Mine::All,
            next: 0,
            outputs: Outputs::default(),
            statistics: Statistics::default(),
        }
    }

    /// Makes all packets of `chunk` this worker's next ones. What was left of the chunk before is
    /// forgotten.
    pub fn assign_all(&mut self, chunk: Chunk) {
        (self.chunk, self.mine, self.next) = (Some(chunk), Mine::All, 0);
    }

    /// Makes the listed packets of `chunk` (indices in the chunk, in any order) this worker's next
    /// ones; indices past its end are left out. Returns the list of the chunk before, for reuse.
    pub fn assign(&mut self, chunk: Chunk, mut mine: Vec<u32>) -> Vec<u32> {
        let exists = |index: u32| (index as usize) < chunk.len();
        if mine.iter().max().is_some_and(|&last| !exists(last)) {
            mine.retain(|&index| exists(index));
        }
        let before = std::mem::replace(&mut self.mine, Mine::Listed(mine));
        (self.chunk, self.next) = (Some(chunk), 0);
        match before {
            Mine::All => Vec::new(),
            Mine::Listed(list) => list,
        }
    }

    /// Forgets the chunk, so that its memory can be reused, and returns the list, if there was one.
    pub fn clear(&mut self) -> Vec<u32> {
        self.chunk = None;
        match std::mem::replace(&mut self.mine, Mine::All) {
            Mine::All => Vec::new(),
            Mine::Listed(list) => list,
        }
    }

    /// What was transmitted, and where a worker adds packets of its own.
    pub fn outputs_mut(&mut self) -> &mut Outputs {
        &mut self.outputs
    }

    /// Packets that were assigned and not yet received.
    pub fn remaining(&self) -> usize {
        let assigned = match (&self.chunk, &self.mine) {
            (None, _) => 0,
            (Some(chunk), Mine::All) => chunk.len(),
            (Some(_), Mine::Listed(list)) => list.len(),
        };
        assigned.saturating_sub(self.next)
    }
}

impl<'m> PacketIo<'m> for MemoryPort<'m> {
    #[inline]
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize {
        let Some(chunk) = &self.chunk else { return 0 };
        let most = self.remaining().min(max).min(self.free.len());
        let mine = self.next..self.next + most;
        let (records, free) = (chunk.records(), self.free.take_many(most));
        let before = batch.len();
        match &self.mine {
            Mine::All => {
                let records = records.get(mine.clone()).unwrap_or_default();
                lend(chunk, free.zip(records.iter().zip(mine.start..)), batch);
            }
            Mine::Listed(list) => {
                let list = list.get(mine.clone()).unwrap_or_default();
                let listed = list.iter().map(|&index| {
                    let index = index as usize;
                    (records.get(index).unwrap_or(&TraceRecord::NONE), index)
                });
                lend(chunk, free.zip(listed), batch);
            }
        }
        let received = batch.get(before..).unwrap_or_default();
        count(&mut self.statistics, received);
        if chunk.trace().max_captured_len() > self.room {
            self.statistics.cut += count_cut(received, chunk);
        }
        self.next = mine.end;
        received.len()
    }

    fn transmit(&mut self, port: Port, batch: &mut Vec<Frame<'m>>) -> usize {
        let count = batch.len();
        for frame in batch.iter() {
            self.statistics.transmitted_bytes += frame.captured_len() as u64;
            self.outputs.push(&Output::of_frame(frame, port, 0));
        }
        self.statistics.transmitted += count as u64;
        self.release(batch);
        count
    }

    #[inline]
    fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
        self.free.give_many(batch.drain(..).map(|frame| frame.into_buffer().0));
    }

    fn program_rss(
        &mut self,
        port: Port,
        _: &Steering,
        _: &IndirectionTable,
    ) -> Result<(), PortError> {
        Err(PortError::NoRss { port })
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}

/// Appends frames to `batch`: each a buffer, the record of a packet, and its index in the chunk.
///
/// The iterators know their length, so that the loop checks the room in `batch` once; what the loop
/// needs of the chunk is copied out of it first, so that writes to buffers cannot seem to change
/// it.
#[inline(always)]
fn lend<'m, 'c>(
    chunk: &'c Chunk,
    packets: impl Iterator<Item = (&'m mut [u8], (&'c TraceRecord, usize))>,
    batch: &mut Vec<Frame<'m>>,
) {
    let bytes = chunk.trace().all_bytes();
    let (first_number, later_ns) = (chunk.first_number(), chunk.later_ns());
    batch.extend(packets.map(move |(buffer, (record, index))| {
        copy_packet(buffer, bytes, record);
        let meta = record.meta(first_number + index as u64, later_ns);
        Frame::new(buffer, HEADROOM, record.captured_len as usize, 0, meta)
    }));
}

/// Copies a packet in whole cache lines, as far as there is room: nothing is zeroed, and a packet of
/// up to 64 bytes is one copy of a length the compiler knows.
#[inline(always)]
fn copy_packet(buffer: &mut [u8], bytes: &[u8], record: &TraceRecord) {
    let start = record.offset();
    let from = bytes.get(start..start.wrapping_add(LINE));
    if let (Some(to), Some(from)) = (buffer.get_mut(HEADROOM..HEADROOM + LINE), from) {
        to.copy_from_slice(from);
    }
    if record.captured_len as usize > LINE {
        copy_rest(buffer, bytes.get(start..).unwrap_or_default(), record.captured_len as usize);
    }
}

/// What follows the first line of a packet.
#[inline(never)]
fn copy_rest(buffer: &mut [u8], from: &[u8], len: usize) {
    let to = buffer.get_mut(HEADROOM..).unwrap_or_default();
    let end = len.next_multiple_of(LINE).min(to.len()).min(from.len());
    if let (Some(to), Some(from)) = (to.get_mut(LINE..end), from.get(LINE..end)) {
        to.copy_from_slice(from);
    }
}

/// Adds frames to the counts.
#[inline(always)]
fn count(statistics: &mut Statistics, frames: &[Frame<'_>]) {
    statistics.received += frames.len() as u64;
    statistics.received_bytes +=
        frames.iter().map(|frame| frame.captured_len() as u64).sum::<u64>();
}

/// How many frames are shorter than what was captured.
#[cold]
fn count_cut(frames: &[Frame<'_>], chunk: &Chunk) -> u64 {
    let is_cut = |frame: &&Frame<'_>| {
        let index = (frame.meta().number - chunk.first_number()) as usize;
        chunk.bytes(index).len() > frame.captured_len()
    };
    frames.iter().filter(is_cut).count() as u64
}
