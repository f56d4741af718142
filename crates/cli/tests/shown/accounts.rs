//! Counting what became of packets: each is forwarded, or dropped for a reason that has a word.

use std::collections::BTreeMap;

use anabranch_nf::{Builtin, NetworkFunction};
use anabranch_packet::Malformed;
use anabranch_runtime::report::RunReport;

use crate::play::Step;

/// What a fragment is that waits for others.
pub const HELD: &str = "held";

/// The drops of an account or of a report, where those of fragments are not told apart: of one that waits it
/// is not known yet what becomes of it.
pub fn untold<S: ToString>(drops: &BTreeMap<S, u64>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (word, packets) in drops {
        let word = match &*word.to_string() {
            "reassembled" | "incomplete-datagram" => HELD.to_owned(),
            other => other.to_owned(),
        };
        *all.entry(word).or_default() += packets;
    }
    all
}

/// What became of many packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub read: u64,
    pub forwarded: u64,
    pub flooded: u64,
    pub emitted: u64,
    pub drops: BTreeMap<&'static str, u64>,
}

impl Account {
    /// The account of `steps`.
    pub fn of(steps: &[Step]) -> Self {
        let mut account = Self::default();
        steps.iter().for_each(|step| account.add(step));
        account
    }

    fn add(&mut self, step: &Step) {
        self.read += 1;
        self.emitted += step.outcome.emitted().len() as u64;
        match (step.outcome.forwarded(), step.outcome.dropped()) {
            ([_], None) => self.forwarded += 1,
            ([_, _, ..], None) => self.flooded += 1,
            ([], Some(word)) => *self.drops.entry(word).or_default() += 1,
            // Others of its datagram are not in the capture, or come later.
            ([], None) if step.outcome.waits() => *self.drops.entry(HELD).or_default() += 1,
            _ => panic!("neither forwarded nor dropped, or both: {:?}", step.outcome),
        }
    }

    /// Adds another one.
    pub fn join(&mut self, other: &Self) {
        self.read += other.read;
        self.forwarded += other.forwarded;
        self.flooded += other.flooded;
        self.emitted += other.emitted;
        for (word, packets) in &other.drops {
            *self.drops.entry(word).or_default() += packets;
        }
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Share of the packets that left.
    pub fn share(&self) -> f64 {
        (self.forwarded + self.flooded) as f64 / self.read.max(1) as f64
    }

    /// A row of the table.
    pub fn row(&self, name: &str) -> String {
        let drops: Vec<String> =
            self.drops.iter().map(|(word, packets)| format!("{packets} {word}")).collect();
        let Self { read, forwarded, flooded, emitted, .. } = self;
        format!("| {name} | {read} | {forwarded} | {flooded} | {emitted} | {} |", drops.join(", "))
    }
}

/// The heading of [`Account::row`].
pub const HEADING: &str = "| function | packets | forwarded | flooded | made by it | dropped |\n|---|---|---|---|---|---|";

/// Every reason that `N` may give.
pub fn words<N: NetworkFunction>() -> Vec<&'static str> {
    let builtin = Builtin::ALL.iter().map(|reason| reason.as_str());
    let malformed = Malformed::ALL.iter().map(|reason| reason.as_str());
    builtin.chain(malformed).chain(N::REASONS.iter().map(|reason| reason.name)).collect()
}

/// Asserts that each packet of a run left or was dropped for a known reason. `copies`: packets that
/// a flood added.
pub fn assert_adds_up<N: NetworkFunction>(report: &RunReport, copies: u64) {
    assert!(report.complete && report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!(report.faults, 0);
    let left = report.packets_out - report.packets_emitted - copies;
    assert_eq!(report.packets_read, left + report.packets_dropped, "{report:?}");
    assert_eq!(report.packets_dropped, report.drops.values().sum::<u64>());
    let words = words::<N>();
    for word in report.drops.keys() {
        assert!(words.contains(&word.as_str()), "{}: `{word}`", N::NAME);
    }
}
