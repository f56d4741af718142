//! How long workers pause to tell what has changed: counted by length, by all of them at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Lengths to each power of two that are told apart.
const PARTS: u64 = 4;

/// Counts of pauses, to a quarter of their length.
pub(crate) struct Pauses {
    lengths: Box<[AtomicU64]>,
    longest_ns: AtomicU64,
}

impl Default for Pauses {
    fn default() -> Self {
        let lengths = (0..64 * PARTS).map(|_| AtomicU64::new(0)).collect();
        Self { lengths, longest_ns: AtomicU64::new(0) }
    }
}

impl Pauses {
    pub(crate) fn note(&self, ns: u64) {
        if let Some(count) = self.lengths.get(place(ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// Of a hundred pauses `percent` were no longer than this; 0: there was none.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let counts = || self.lengths.iter().map(|count| count.load(Ordering::Relaxed));
        let wanted = (counts().sum::<u64>() * percent).div_ceil(100);
        let mut so_far = 0;
        let found = counts().position(|count| {
            so_far += count;
            so_far >= wanted && so_far > 0
        });
        found.map_or(0, longest_at).min(self.longest_ns())
    }

    pub(crate) fn longest_ns(&self) -> u64 {
        self.longest_ns.load(Ordering::Relaxed)
    }
}

/// Where a pause is counted.
fn place(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2());
    ((power - 1) * PARTS + (ns >> (power - 2)) % PARTS) as usize
}

/// The longest pause that is counted there.
fn longest_at(place: usize) -> u64 {
    let (power, part) = (place as u64 / PARTS + 1, place as u64 % PARTS);
    match place as u64 {
        small @ 0..PARTS => small,
        _ => ((PARTS + part) << (power - 2)) + ((1 << (power - 2)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_quarter() {
        let pauses = Pauses::default();
        assert_eq!((pauses.percentile(50), pauses.longest_ns()), (0, 0));
        for ns in 1..=1_000 {
            pauses.note(ns * 1_000);
        }
        for (percent, exact) in [(50, 500_000), (99, 990_000), (100, 1_000_000)] {
            let found = pauses.percentile(percent);
            assert!((exact..=exact * 5 / 4).contains(&found), "{percent}: {found}");
        }
        assert_eq!(pauses.longest_ns(), 1_000_000);
    }

    #[test]
    fn every_length_has_its_place() {
        for ns in (0..200_000).chain([u64::MAX - 1, u64::MAX]) {
            let place = place(ns);
            assert!(place < 64 * PARTS as usize && longest_at(place) >= ns, "{ns}");
            assert!(place == 0 || longest_at(place - 1) < ns, "{ns}");
        }
    }
}
