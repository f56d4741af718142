//! Sources: where the packets of a run come from, chunk by chunk.

mod capture;
mod memory;
mod merged;
mod progress;
mod recycler;

pub use capture::CaptureSource;
pub use memory::{MemorySource, Repeat};
pub use merged::MergedSource;
pub use progress::{Progress, ProgressUnit};
pub(crate) use recycler::Recycler;

use crate::capture::CaptureError;
use crate::spec::{SourceSpec, SpecError};
use crate::trace::{Chunk, Trace};
use crate::traffic::TrafficSource;
use anabranch_packet::Port;
use std::path::Path;
use thiserror::Error;

/// Packets a chunk holds at most.
pub const CHUNK_PACKETS: usize = 65_536;

/// Bytes that are reserved at once for a capture in memory; a longer one makes them grow.
const RESERVED_BYTES: u64 = 4 << 30;

/// Yields the packets of a run in order, in chunks of at most [`CHUNK_PACKETS`], so that memory
/// stays bounded however long the input is.
pub trait Source: Send {
    /// The next packets; `None` at the end. Numbers go on from chunk to chunk, from zero.
    ///
    /// An error ends the source. The packets before it have been yielded.
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError>;

    /// How much of the input has been yielded.
    fn progress(&self) -> Progress;

    /// Whether the chunks are parts of one trace that comes again and again: two chunks that start
    /// at the same place are then the same packets.
    fn repeats(&self) -> bool {
        false
    }
}

/// Why a source cannot go on.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Traffic cannot be generated as asked for.
    #[error(transparent)]
    Traffic(#[from] SpecError),
}

/// One input of a run: a source, and the port its packets arrive at.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Where its packets arrive. `None`: port 0, except that generated traffic then uses both of
    /// ports 0 (inside) and 1 (outside).
    pub port: Option<Port>,
    /// Where the packets come from.
    pub spec: SourceSpec,
}

/// Opens all inputs of a run as one source: merged by time, numbered from zero.
///
/// In-memory captures that repeat alike are merged once, so that repeating them copies nothing.
/// Fails when an input cannot be opened. A damaged capture fails only after its sound packets.
pub fn open(inputs: &[Input]) -> Result<Box<dyn Source>, SourceError> {
    if let Some(repeat) = common_repeat(inputs) {
        return Ok(Box::new(load_all(inputs, repeat)?));
    }
    let mut sources = inputs.iter().map(open_one).collect::<Result<Vec<_>, _>>()?;
    match (sources.pop(), sources.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            sources.extend(last);
            Ok(Box::new(MergedSource::new(sources)))
        }
    }
}

fn open_one(input: &Input) -> Result<Box<dyn Source>, SourceError> {
    let port = input.port.unwrap_or_default();
    Ok(match &input.spec {
        SourceSpec::Capture(file) => Box::new(CaptureSource::open(file, port)?),
        SourceSpec::Memory { file, repeat } => {
            let (trace, error) = load(file, port)?;
            Box::new(MemorySource::new(trace, *repeat).ending_with(error))
        }
        SourceSpec::Traffic(spec) => Box::new(TrafficSource::new(spec, input.port)?),
    })
}

/// How all inputs repeat, when all are in-memory captures that repeat alike.
fn common_repeat(inputs: &[Input]) -> Option<Repeat> {
    let mut repeats = inputs.iter().map(|input| match input.spec {
        SourceSpec::Memory { repeat, .. } => Some(repeat),
        _ => None,
    });
    let first = repeats.next()??;
    repeats.all(|repeat| repeat == Some(first)).then_some(first)
}

fn load_all(inputs: &[Input], repeat: Repeat) -> Result<MemorySource, SourceError> {
    let mut traces = Vec::new();
    let mut first_error = None;
    for input in inputs {
        if let SourceSpec::Memory { file, .. } = &input.spec {
            let (trace, error) = load(file, input.port.unwrap_or_default())?;
            traces.push(trace);
            first_error = first_error.or(error);
        }
    }
    Ok(MemorySource::new(Trace::merge(traces), repeat).ending_with(first_error))
}

/// A capture in memory, and the error that cut it short.
fn load(file: &Path, port: Port) -> Result<(Trace, Option<SourceError>), SourceError> {
    let mut reader = crate::capture::CaptureReader::open(file)?;
    let mut trace = Trace::new();
    trace.reserve(0, reader.file_len().unwrap_or(0).min(RESERVED_BYTES) as usize);
    let read = trace.read_from(&mut reader, port, usize::MAX);
    Ok((trace, read.err().map(SourceError::from)))
}
