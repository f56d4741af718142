//! Several sources as one, merged by time of arrival.

use super::{CHUNK_PACKETS, Progress, ProgressUnit, Recycler, Source, SourceError};
use crate::trace::{Chunk, Trace};

/// Merges sources by time. Each keeps its own order; of packets with the same time, those of the
/// earlier source come first. Packets are copied once; memory is one chunk per source and one for
/// the result.
pub struct MergedSource {
    inputs: Vec<Head>,
    recycler: Recycler,
    number: u64,
    error: Option<SourceError>,
}

/// A source, and the chunk of it that is being merged.
struct Head {
    source: Box<dyn Source>,
    chunk: Option<Chunk>,
    next: usize,
    ended: bool,
}

impl Head {
    /// The time of the next packet; `None` at the end.
    fn arrival_ns(&mut self) -> Result<Option<u64>, SourceError> {
        loop {
            let meta = self.chunk.as_ref().and_then(|chunk| chunk.meta(self.next));
            if let Some(meta) = meta {
                return Ok(Some(meta.arrival_ns));
            }
            if self.ended {
                return Ok(None);
            }
            // Released first, so that the source can reuse its memory.
            (self.chunk, self.next) = (None, 0);
            self.chunk = self.source.next_chunk()?;
            self.ended = self.chunk.is_none();
        }
    }

    fn move_to(&mut self, merged: &mut Trace) {
        if let Some(chunk) = &self.chunk {
            let start = chunk.start();
            merged.push_from(chunk.trace(), start + self.next, chunk.later_ns());
            self.next += 1;
        }
    }
}

impl MergedSource {
    /// Merges `sources`.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Self {
        let head = |source| Head { source, chunk: None, next: 0, ended: false };
        let inputs = sources.into_iter().map(head).collect();
        Self { inputs, recycler: Recycler::default(), number: 0, error: None }
    }

    /// The input whose next packet is first.
    fn first(&mut self) -> Result<Option<&mut Head>, SourceError> {
        let mut first = None;
        for (index, head) in self.inputs.iter_mut().enumerate() {
            if let Some(arrival_ns) = head.arrival_ns()?
                && first.is_none_or(|(earliest, _)| arrival_ns < earliest)
            {
                first = Some((arrival_ns, index));
            }
        }
        Ok(first.and_then(|(_, index)| self.inputs.get_mut(index)))
    }

    fn fill(&mut self, merged: &mut Trace) -> Result<(), SourceError> {
        while merged.len() < CHUNK_PACKETS {
            match self.first()? {
                Some(head) => head.move_to(merged),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

impl Source for MergedSource {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        if let Some(error) = self.error.take() {
            self.inputs.clear();
            return Err(error);
        }
        let mut merged = self.recycler.take();
        let filled = self.fill(&mut merged);
        if merged.is_empty() {
            filled?;
            return Ok(None);
        }
        self.error = filled.err();
        let (first_number, len) = (self.number, merged.len());
        self.number += len as u64;
        Ok(Some(Chunk::new(self.recycler.lend(merged), 0..len, first_number, 0)))
    }

    fn progress(&self) -> Progress {
        let parts = self.inputs.iter().map(|head| head.source.progress());
        let none = Progress { done: 0, total: Some(0), unit: ProgressUnit::Bytes };
        parts.reduce(Progress::and).unwrap_or(none)
    }
}
