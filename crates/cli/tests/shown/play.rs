//! Playing packets into a network function one by one, so that what became of each is known.

use anabranch_nf::NetworkFunction;
use anabranch_runtime::testing::{Harness, Outcome, START_NS};
use toml::Table;

use crate::sides::Arrival;

/// The network around a function: its settings, and what other hosts make of what it sends.
pub trait Surroundings {
    /// The function's configuration.
    fn settings(&self) -> Table;

    /// Changes a packet before it arrives, as hosts would that see what the function sent: they
    /// answer to a translated address, for one.
    fn address(&mut self, _arrival: &mut Arrival) {}

    /// The function has handled a packet.
    fn seen(&mut self, _arrival: &Arrival, _outcome: &Outcome) {}
}

/// Nothing but settings.
impl Surroundings for Table {
    fn settings(&self) -> Table {
        self.clone()
    }
}

/// A packet, as it was captured and as it arrived, and what became of it.
pub struct Step {
    pub original: Arrival,
    pub arrival: Arrival,
    pub outcome: Outcome,
}

impl Step {
    /// Whether it left, unchanged or not.
    pub fn is_forwarded(&self) -> bool {
        !self.outcome.forwarded().is_empty()
    }
}

/// Plays packets into a new `N`.
pub fn play<N: NetworkFunction>(
    surroundings: &mut dyn Surroundings,
    arrivals: &[Arrival],
) -> Vec<Step> {
    let mut harness = Harness::<N>::with_table(surroundings.settings()).unwrap();
    let mut clock_ns = START_NS;
    let step = |original: &Arrival| {
        let mut arrival = original.clone();
        surroundings.address(&mut arrival);
        let packet = &arrival.packet;
        // As in a run, time never runs backwards, though a capture's may.
        clock_ns = clock_ns.max(packet.at_ns);
        harness.at(clock_ns - START_NS);
        let outcome = harness.send_cut(arrival.port, &packet.bytes, packet.wire_len);
        surroundings.seen(&arrival, &outcome);
        Step { original: original.clone(), arrival, outcome }
    };
    arrivals.iter().map(step).collect()
}
