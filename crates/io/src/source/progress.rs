//! How far a source has come.

/// What progress is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressUnit {
    /// Bytes of capture files.
    Bytes,
    /// Packets.
    Packets,
    /// Nanoseconds of a run that lasts a given time.
    Nanoseconds,
}

/// How much of an input has been yielded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What has been done.
    pub done: u64,
    /// What there is in all, where that is known.
    pub total: Option<u64>,
    /// What both are counted in.
    pub unit: ProgressUnit,
}

impl Progress {
    /// The share that is done, 0 to 1, where the total is known.
    pub fn fraction(&self) -> Option<f64> {
        match self.total {
            Some(0) => Some(1.0),
            Some(total) => Some((self.done as f64 / total as f64).min(1.0)),
            None => None,
        }
    }

    /// How far the work is of which so many packets of those that were yielded are done.
    #[must_use]
    pub fn of_done(self, packets: u64, yielded: u64) -> Self {
        match self.unit {
            // Time passes whatever is done.
            ProgressUnit::Nanoseconds => self,
            ProgressUnit::Bytes | ProgressUnit::Packets => {
                let part = packets.min(yielded) as f64 / yielded.max(1) as f64;
                Self { done: (self.done as f64 * part) as u64, ..self }
            }
        }
    }

    /// Two inputs taken together; the total is unknown where their units differ.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self.unit != other.unit {
            return Self { total: None, ..self };
        }
        let total = self.total.zip(other.total).map(|(a, b)| a + b);
        Self { done: self.done + other.done, total, unit: self.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_and_sums() {
        let bytes = |done, total| Progress { done, total, unit: ProgressUnit::Bytes };
        assert_eq!(bytes(1, Some(4)).fraction(), Some(0.25));
        assert_eq!(bytes(0, Some(0)).fraction(), Some(1.0));
        assert_eq!(bytes(1, Some(4)).and(bytes(2, Some(8))), bytes(3, Some(12)));
        assert_eq!(bytes(1, Some(4)).and(bytes(2, None)).fraction(), None);
        assert_eq!(bytes(600, Some(1_000)).of_done(0, 30), bytes(0, Some(1_000)));
        assert_eq!(bytes(600, Some(1_000)).of_done(10, 30), bytes(200, Some(1_000)));
        let time = Progress { done: 5, total: Some(9), unit: ProgressUnit::Nanoseconds };
        assert_eq!(time.of_done(0, 30), time);
        let packets = Progress { done: 1, total: Some(2), unit: ProgressUnit::Packets };
        assert_eq!(bytes(1, Some(4)).and(packets), bytes(1, None));
    }
}
