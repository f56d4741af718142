//! The clock of a run: the latest arrival so far, and by how much the run before was ahead.

use std::sync::Arc;

use anabranch_io::Chunk;

/// Keeps the time of a run from running backwards where a capture's does.
///
/// What has expired may be forgotten at any later time, by whichever worker gets there first: were
/// the clock to go back before that, it would depend on the batches whether a flow still exists.
#[derive(Debug, Default)]
pub struct Clock {
    latest_ns: u64,
    ahead_ns: u64,
}

impl Clock {
    /// A clock that is ahead of arrivals by so many nanoseconds.
    pub fn ahead_by(ahead_ns: u64) -> Self {
        Self { latest_ns: 0, ahead_ns }
    }

    /// The time at which each packet of the next chunk is handled; `None`: that of its arrival.
    pub fn times(&mut self, chunk: &Chunk) -> Option<Arc<Vec<u64>>> {
        let (first, last) = (chunk.meta(0)?, chunk.meta(chunk.len() - 1)?);
        let runs_on = first.arrival_ns >= self.latest_ns && !chunk.trace().runs_backwards();
        if runs_on && self.ahead_ns == 0 {
            self.latest_ns = last.arrival_ns;
            return None;
        }
        let later_ns = chunk.later_ns().saturating_add(self.ahead_ns);
        let times = chunk.records().iter().map(|record| {
            self.latest_ns = self.latest_ns.max(record.arrival_ns.saturating_add(later_ns));
            self.latest_ns
        });
        Some(Arc::new(times.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_io::Trace;
    use anabranch_io::capture::Record;
    use anabranch_packet::Port;

    fn chunk(arrivals: &[u64]) -> Chunk {
        let mut trace = Trace::new();
        for &timestamp_ns in arrivals {
            trace.push(Port::new(0), &Record { timestamp_ns, wire_len: 60, bytes: &[0; 60] });
        }
        Chunk::whole(Arc::new(trace))
    }

    #[test]
    fn time_stands_still_until_it_has_been_caught_up() {
        let mut clock = Clock::default();
        assert_eq!(clock.times(&chunk(&[5, 5, 9])), None);
        let times = clock.times(&chunk(&[7, 8, 12, 11, 13]));
        assert_eq!(times.as_deref(), Some(&vec![9, 9, 12, 12, 13]));
        assert_eq!(clock.times(&chunk(&[13, 14])), None);
        assert_eq!(clock.times(&chunk(&[3])).as_deref(), Some(&vec![14]));
        assert_eq!(clock.times(&chunk(&[])), None);
    }

    #[test]
    fn time_goes_on_where_the_run_before_was() {
        let mut clock = Clock::ahead_by(100);
        assert_eq!(clock.times(&chunk(&[5, 9])).as_deref(), Some(&vec![105, 109]));
        assert_eq!(clock.times(&chunk(&[7, 12])).as_deref(), Some(&vec![109, 112]));
    }
}
