//! Marks: what a lane says in the store about who wrote it last.

use std::hash::{BuildHasher as _, RandomState};

use crate::content::{Bytes, Kind};
use crate::error::Error;
use crate::key::{Key, Scope};

/// Layout of what is stored under a scope; another meaning of objects is another layout.
const LAYOUT: u16 = 1;

/// Who wrote a lane last, its how-manieth batch it was, and how far the writer's clock had come. Later writers have
/// later epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// When the writer started, and something that tells it from others that started then
    /// ([`epoch_at`](Self::epoch_at)); later if that was taken.
    pub epoch: u64,
    /// Number of the batch.
    pub batch: u64,
    /// The latest time that what is stored may speak of, nanoseconds since the Unix epoch; 0: nobody has said.
    pub clock_ns: u64,
}

/// Bits of an epoch that are drawn.
const DRAWN: u32 = 20;

impl Mark {
    /// An epoch of a writer that starts at `now_ms`, milliseconds since the Unix epoch: two that start at once
    /// have the same one once in a million times. (Plain milliseconds, as they once were, are earlier.)
    pub fn epoch_at(now_ms: u64) -> u64 {
        now_ms << DRAWN | RandomState::new().hash_one(now_ms) & ((1 << DRAWN) - 1)
    }

    /// The key of the mark of a scope. No object of an NF has its id.
    pub fn key(scope: &Scope) -> Result<Key, Error> {
        scope.key(Kind::Value, ".mark")
    }

    /// Whether it was written after `other`.
    pub(crate) fn is_later_than(self, other: Self) -> bool {
        (self.epoch, self.batch) > (other.epoch, other.batch)
    }

    /// As it stands in the store. Releases before there was a clock read what stands before it.
    pub fn encode(self) -> Bytes {
        let mark = format!("{LAYOUT} {} {}", self.epoch, self.batch);
        match self.clock_ns {
            0 => mark,
            clock_ns => format!("{mark} {clock_ns}"),
        }
        .into_bytes()
    }

    /// As it was encoded; an error for what is none, or of a later release.
    pub fn decode(key: &Key, bytes: &[u8]) -> Result<Self, Error> {
        let foreign = || Error::Foreign { key: key.clone(), why: "it is no mark".to_string() };
        let text = std::str::from_utf8(bytes).map_err(|_| foreign())?;
        let mut words = text.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let layout = number().ok_or_else(foreign)?;
        if layout > u64::from(LAYOUT) {
            let (what, found) = (key.to_string(), u16::try_from(layout).unwrap_or(u16::MAX));
            return Err(Error::LaterFormat { what, found, known: LAYOUT });
        }
        let (epoch, batch) = number().zip(number()).ok_or_else(foreign)?;
        Ok(Self { epoch, batch, clock_ns: number().unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Place;

    #[test]
    fn writers_that_start_at_once_have_epochs_of_their_own() {
        let now_ms = 1_800_000_000_000;
        let mut epochs: Vec<u64> = (0..100).map(|_| Mark::epoch_at(now_ms)).collect();
        assert!(epochs.iter().all(|epoch| *epoch > now_ms && *epoch < Mark::epoch_at(now_ms + 1)));
        epochs.sort_unstable();
        epochs.dedup();
        assert!(epochs.len() > 90, "{}", epochs.len());
    }

    #[test]
    fn marks_are_read_as_written_and_others_are_refused() {
        let key = Mark::key(&Scope::new("nat", "edge", Place::Shard(1)).unwrap()).unwrap();
        let mark = Mark { epoch: 1_700_000_000_000, batch: 42, clock_ns: 0 };
        assert_eq!(mark.encode(), b"1 1700000000000 42", "as it was before there was a clock");
        assert_eq!(Mark::decode(&key, &mark.encode()), Ok(mark));
        let mark = Mark { clock_ns: u64::MAX, ..mark };
        assert_eq!(Mark::decode(&key, &mark.encode()), Ok(mark));
        assert!(matches!(Mark::decode(&key, b"2 1 1"), Err(Error::LaterFormat { found: 2, .. })));
        for other in [&b""[..], b"1", b"1 2", b"x y z", &[0xff]] {
            assert!(matches!(Mark::decode(&key, other), Err(Error::Foreign { .. })));
        }
    }
}
