//! Packets on their way out, collected per worker and written in the order of the input.

use super::Sinks;
use crate::capture::WriteError;
use anabranch_packet::{Frame, Port};

/// One packet on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output<'a> {
    /// Number of the input packet that caused it.
    pub number: u64,
    /// Its place among the outputs of that packet, from 0.
    pub sub: u16,
    /// Where it leaves.
    pub port: Port,
    /// When the packet that caused it arrived, nanoseconds since the Unix epoch.
    pub timestamp_ns: u64,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

impl<'a> Output<'a> {
    /// A received frame that leaves by `port`, as output `sub` of its packet.
    #[inline]
    pub fn of_frame(frame: &'a Frame<'_>, port: Port, sub: u16) -> Self {
        let meta = frame.meta();
        Self {
            number: meta.number,
            sub,
            port,
            timestamp_ns: meta.arrival_ns,
            wire_len: meta.wire_len,
            bytes: frame.bytes(),
        }
    }
}

/// The outputs of one worker. Cleared and reused from chunk to chunk, it soon allocates no more.
#[derive(Debug, Default)]
pub struct Outputs {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    timestamp_ns: u64,
    start: usize,
    len: u32,
    wire_len: u32,
    sub: u16,
    port: Port,
}

impl Entry {
    fn order(&self) -> (u64, u16) {
        (self.number, self.sub)
    }
}

impl Outputs {
    /// Appends a packet.
    #[inline]
    pub fn push(&mut self, output: &Output<'_>) {
        self.entries.push(Entry {
            number: output.number,
            timestamp_ns: output.timestamp_ns,
            start: self.bytes.len(),
            len: output.bytes.len() as u32,
            wire_len: output.wire_len,
            sub: output.sub,
            port: output.port,
        });
        self.bytes.extend_from_slice(output.bytes);
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The packets, in the order they were appended in.
    pub fn iter(&self) -> impl Iterator<Item = Output<'_>> {
        self.entries.iter().map(|entry| self.output(entry))
    }

    /// Forgets the packets and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Brings the packets into the order of the input. Workers mostly produce that order already.
    fn sort(&mut self) {
        if !self.entries.is_sorted_by_key(Entry::order) {
            self.entries.sort_by_key(Entry::order);
        }
    }

    fn output(&self, entry: &Entry) -> Output<'_> {
        let end = entry.start + entry.len as usize;
        Output {
            number: entry.number,
            sub: entry.sub,
            port: entry.port,
            timestamp_ns: entry.timestamp_ns,
            wire_len: entry.wire_len,
            bytes: self.bytes.get(entry.start..end).unwrap_or_default(),
        }
    }
}

/// Writes the outputs of all workers in the order of the input packets, so that one and many
/// workers write the same files, and clears them.
///
/// Fails when a sink does.
pub fn write_in_order(workers: &mut [Outputs], sinks: &mut Sinks) -> Result<(), WriteError> {
    workers.iter_mut().for_each(Outputs::sort);
    if let [only] = workers {
        only.iter().try_for_each(|output| sinks.write(&output))?;
    } else {
        merge(workers, sinks)?;
    }
    workers.iter_mut().for_each(Outputs::clear);
    Ok(())
}

fn merge(workers: &[Outputs], sinks: &mut Sinks) -> Result<(), WriteError> {
    let mut next = vec![0; workers.len()];
    loop {
        let heads = workers.iter().zip(&next).enumerate();
        let orders = heads.filter_map(|(worker, (outputs, &at))| {
            outputs.entries.get(at).map(|entry| (entry.order(), worker))
        });
        let Some((_, worker)) = orders.min() else { return Ok(()) };
        let entry = &workers[worker].entries[next[worker]];
        sinks.write(&workers[worker].output(entry))?;
        next[worker] += 1;
    }
}
