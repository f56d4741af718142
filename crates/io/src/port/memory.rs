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

    /// Makes the listed packets of `chunk` (indices in the chunk, ascending) this worker's next
    /// ones; indices past its end are skipped. Returns the list of the chunk before, for reuse.
    pub fn assign(&mut self, chunk: Chunk, mine: Vec<u32>) -> Vec<u32> {
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
        let before = batch.len();
        let (free, counts) = (&mut self.free, &mut self.statistics);
        match &self.mine {
            Mine::All => {
                let left = chunk.len().saturating_sub(self.next).min(max);
                let range = self.next..self.next + left;
                self.next += lend(chunk, free, counts, batch, left, range);
            }
            Mine::Listed(list) => {
                let rest = list.get(self.next..).unwrap_or_default();
                let count = rest.len().min(max);
                let indices = rest[..count].iter().map(|&index| index as usize);
                self.next += lend(chunk, free, counts, batch, count, indices);
            }
        }
        batch.len() - before
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
        for frame in batch.drain(..) {
            self.free.give(frame.into_buffer().0);
        }
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

/// Appends the packets at `indices` to `batch`, and returns how many indices were used up.
#[inline(always)]
fn lend<'m>(
    chunk: &Chunk,
    free: &mut FreeBuffers<'m>,
    counts: &mut Statistics,
    batch: &mut Vec<Frame<'m>>,
    count: usize,
    indices: impl Iterator<Item = usize>,
) -> usize {
    let count = count.min(free.len());
    let records = chunk.records();
    let (mut bytes, mut cut) = (0, 0);
    let before = batch.len();
    batch.extend(free.take_many(count).zip(indices).filter_map(|(buffer, index)| {
        let record = records.get(index)?;
        bytes += u64::from(record.captured_len);
        let frame = fill(chunk, record, index, buffer);
        cut += u64::from(frame.captured_len() < record.captured_len as usize);
        Some(frame)
    }));
    counts.received += (batch.len() - before) as u64;
    counts.received_bytes += bytes;
    counts.cut += cut;
    count
}

/// Copies a packet into a buffer, in whole cache lines: nothing is zeroed, and a packet of up to 64
/// bytes is one copy of a length the compiler knows.
#[inline(always)]
fn fill<'m>(chunk: &Chunk, record: &TraceRecord, index: usize, buffer: &'m mut [u8]) -> Frame<'m> {
    let from = chunk.trace().lines(record);
    let to = buffer.get_mut(HEADROOM..).unwrap_or_default();
    if let (Some((to, to_rest)), Some((from, from_rest))) =
        (to.split_first_chunk_mut::<LINE>(), from.split_first_chunk::<LINE>())
    {
        *to = *from;
        if !from_rest.is_empty() {
            let len = from_rest.len().min(to_rest.len());
            to_rest[..len].copy_from_slice(&from_rest[..len]);
        }
    }
    let meta = chunk.meta_of(record, index);
    Frame::new(buffer, HEADROOM, record.captured_len as usize, 0, meta)
}
