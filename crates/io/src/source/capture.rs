//! A capture file as a source, read as it is consumed.

use super::{CHUNK_PACKETS, Progress, ProgressUnit, Recycler, Source, SourceError};
use crate::capture::{CaptureError, CaptureReader};
use crate::trace::Chunk;
use anabranch_packet::Port;
use std::path::Path;

/// Reads a capture chunk by chunk.
#[derive(Debug)]
pub struct CaptureSource {
    reader: CaptureReader,
    port: Port,
    recycler: Recycler,
    number: u64,
    /// Found behind the packets of the last chunk.
    error: Option<CaptureError>,
}

impl CaptureSource {
    /// Opens a capture whose packets arrive at `port`.
    ///
    /// Fails as [`CaptureReader::open`] does.
    pub fn open(path: impl AsRef<Path>, port: Port) -> Result<Self, CaptureError> {
        let reader = CaptureReader::open(path)?;
        Ok(Self { reader, port, recycler: Recycler::default(), number: 0, error: None })
    }
}

impl Source for CaptureSource {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        let mut trace = self.recycler.take();
        let read = trace.read_from(&mut self.reader, self.port, CHUNK_PACKETS);
        if trace.is_empty() {
            read?;
            return Ok(None);
        }
        self.error = read.err();
        let (first_number, len) = (self.number, trace.len());
        self.number += len as u64;
        Ok(Some(Chunk::new(self.recycler.lend(trace), 0..len, first_number, 0)))
    }

    fn progress(&self) -> Progress {
        let (done, total) = (self.reader.offset(), self.reader.file_len());
        Progress { done, total, unit: ProgressUnit::Bytes }
    }
}
