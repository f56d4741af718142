//! Reuse of the memory of chunks that are done with.

use crate::trace::Trace;
use std::sync::Arc;

/// Chunks that are watched for reuse at once; more are in flight only with many workers behind.
const KEPT: usize = 8;

/// Remembers the traces that were handed out, and takes one back when its last user is done:
/// fresh memory would cost a page fault every few packets.
#[derive(Debug, Default)]
pub(crate) struct Recycler {
    lent: Vec<Arc<Trace>>,
}

impl Recycler {
    /// An empty trace, with the memory of an earlier one where possible.
    pub(crate) fn take(&mut self) -> Trace {
        let idle = self.lent.iter_mut().position(|trace| Arc::get_mut(trace).is_some());
        let reused = idle.and_then(|at| Arc::into_inner(self.lent.swap_remove(at)));
        let mut trace = reused.unwrap_or_default();
        trace.clear();
        trace
    }

    /// Shares a trace and remembers it.
    pub(crate) fn lend(&mut self, trace: Trace) -> Arc<Trace> {
        let shared = Arc::new(trace);
        if self.lent.len() < KEPT {
            self.lent.push(Arc::clone(&shared));
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Record;
    use anabranch_packet::Port;

    #[test]
    fn memory_comes_back_only_when_nobody_uses_it() {
        let mut recycler = Recycler::default();
        let mut trace = recycler.take();
        trace.push(Port::new(0), &Record { timestamp_ns: 0, wire_len: 60, bytes: &[1; 60] });
        let lent = recycler.lend(trace);
        assert_eq!(recycler.take().memory(), 0);
        drop(lent);
        let reused = recycler.take();
        assert!(reused.memory() > 0 && reused.is_empty());
    }
}
