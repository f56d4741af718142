//! A trace in memory as a source, repeated a number of times or for a time.

use super::{CHUNK_PACKETS, Progress, ProgressUnit, Source, SourceError};
use crate::trace::{Chunk, Trace};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often an in-memory trace is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// That many times; 0 yields nothing.
    Times(u64),
    /// Until that much time has passed since the second chunk was asked for: who has the first may have much to do
    /// before the run begins, as reading back its state.
    For(Duration),
}

/// Yields a trace again and again, without copying it. Each turn is later than the one before by
/// the trace's [period](Trace::period_ns), so that time never runs backwards.
#[derive(Debug)]
pub struct MemorySource {
    trace: Arc<Trace>,
    repeat: Repeat,
    period_ns: u64,
    /// The turn that is being yielded, and the next packet in it.
    turn: u64,
    next: usize,
    /// When the second chunk was asked for.
    started: Option<Instant>,
    error: Option<SourceError>,
}

impl MemorySource {
    /// Repeats `trace`.
    pub fn new(trace: impl Into<Arc<Trace>>, repeat: Repeat) -> Self {
        let trace = trace.into();
        let period_ns = trace.period_ns();
        Self { trace, repeat, period_ns, turn: 0, next: 0, started: None, error: None }
    }

    /// Lets the source end with an error, that of the capture the trace was read from.
    #[must_use]
    pub fn ending_with(mut self, error: Option<SourceError>) -> Self {
        self.error = error;
        self
    }

    fn is_over(&self) -> bool {
        match (self.repeat, self.started) {
            _ if self.trace.is_empty() => true,
            (Repeat::Times(times), _) => self.turn >= times,
            (Repeat::For(time), Some(started)) => started.elapsed() >= time,
            (Repeat::For(_), None) => false,
        }
    }
}

impl Source for MemorySource {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        if (self.turn, self.next) != (0, 0) {
            self.started.get_or_insert_with(Instant::now);
        }
        if self.is_over() {
            return self.error.take().map_or(Ok(None), Err);
        }
        let (trace, turn, start) = (Arc::clone(&self.trace), self.turn, self.next);
        let number = turn * trace.len() as u64 + start as u64;
        let end = (start + CHUNK_PACKETS).min(trace.len());
        (self.turn, self.next) = if end == trace.len() { (turn + 1, 0) } else { (turn, end) };
        let later_ns = self.period_ns.saturating_mul(turn);
        Ok(Some(Chunk::new(trace, start..end, number, later_ns)))
    }

    fn repeats(&self) -> bool {
        true
    }

    fn progress(&self) -> Progress {
        match self.repeat {
            Repeat::Times(times) => {
                let len = self.trace.len() as u64;
                let done = self.turn * len + self.next as u64;
                Progress { done, total: times.checked_mul(len), unit: ProgressUnit::Packets }
            }
            Repeat::For(time) => {
                let passed = self.started.map_or(Duration::ZERO, |started| started.elapsed());
                let done = nanoseconds(passed.min(time));
                let total = Some(nanoseconds(time));
                Progress { done, total, unit: ProgressUnit::Nanoseconds }
            }
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
