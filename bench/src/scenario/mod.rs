//! Established traffic for each function, and the hand-written loop loaded with the same flows.

mod contended;
mod ip;
mod link;
#[cfg(feature = "security")]
mod synthetic;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_io::Trace;
use anabranch_nf::NetworkFunction;
use anabranch_runtime::steer::Steering;

use crate::BenchError;
use crate::hand::limit::Limit;
use crate::hand::table::Key;
use crate::hand::{BATCH, Hand, Packet};
use crate::packets::{Arrival, BURST_NS, Chance, arrivals, paced, trace};

/// Packets per flow that a trace holds at least.
const PER_FLOW: usize = 4;

/// A function that can be measured.
pub trait Subject: NetworkFunction {
    /// Most flows that it can be measured with.
    const MOST: usize = 1 << 24;
    /// The loads that it is measured under, where there are several.
    const LOADS: &'static [Load] = &[""];
    /// Loads in which workers are in each other's way: measured where they are named, and compared with
    /// one worker, not with a loop. Some packets have far more to do than others: it counts how workers
    /// get on overall.
    const CONTENDED: &'static [Load] = &[];

    /// Established traffic of `flows` flows.
    ///
    /// # Errors
    /// When the function does not open them.
    fn scenario(flows: usize) -> Result<Scenario, BenchError>;

    /// The same under one of its loads.
    ///
    /// # Errors
    /// As [`scenario`](Self::scenario).
    fn scenario_under(_: Load, flows: usize) -> Result<Scenario, BenchError> {
        Self::scenario(flows)
    }
}

/// What a function is set to do; empty where there is one way.
pub type Load = &'static str;

/// Makes a bare look-up of the flows of a trace.
type MakeLimit = Box<dyn Fn(&Trace) -> Box<dyn Hand>>;

/// What a function is measured on.
pub struct Scenario {
    /// Its settings.
    pub settings: toml::Table,
    /// Flows that are opened.
    pub flows: usize,
    /// Opens every flow.
    pub opening: Arc<Trace>,
    /// Established traffic, with steering hashes, in whole batches.
    pub steady: Arc<Trace>,
    /// Distinct flows in it: pairs of stations for a bridge, destinations for the policer.
    pub distinct: usize,
    hand: Box<dyn Fn() -> Box<dyn Hand>>,
    limit: Option<MakeLimit>,
}

impl Scenario {
    /// The hand-written loop, its flows open.
    pub fn hand(&self) -> Box<dyn Hand> {
        (self.hand)()
    }

    /// The bare look-up; `None`: the function looks nothing up.
    pub fn limit(&self) -> Option<Box<dyn Hand>> {
        self.limit.as_ref().map(|limit| limit(&self.steady))
    }

    /// With a bare look-up of at most `keys` different keys.
    fn with_limit<K>(mut self, keys: usize, key: K) -> Self
    where
        K: Fn(&Packet, u8) -> Key + Copy + Send + 'static,
    {
        self.limit = Some(Box::new(move |trace| {
            let packets = arrivals(trace).map(|(port, packet)| (packet, port));
            Box::new(Limit::new(packets, keys, key))
        }));
        self
    }
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The one that opens it.
    There,
    /// The reply.
    Back,
}

/// Flows, each with two packets.
struct Traffic<P> {
    flows: usize,
    /// The packet of a flow, by its number.
    packet: P,
    /// Packets of a flow that open it.
    opening: &'static [Way],
    /// Packets that the trace holds however few flows there are.
    least: usize,
}

impl<P: Fn(usize, Way) -> Arrival> Traffic<P> {
    /// Packets that open every flow.
    fn opening(&self) -> impl Iterator<Item = Arrival> + '_ {
        (0..self.flows)
            .flat_map(move |n| self.opening.iter().map(move |&way| (self.packet)(n, way)))
    }

    /// Packets of flows drawn uniformly, in whole batches, there and back in turn: a port is polled
    /// at a time. Marks the flows it draws.
    fn steady<'s>(&'s self, drawn: &'s mut [bool]) -> impl Iterator<Item = Arrival> + 's {
        let mut chance = Chance::new(self.flows as u64);
        let packets = (PER_FLOW * self.flows).max(self.least).next_multiple_of(2 * BATCH);
        (0..packets).map(move |number| {
            let flow = chance.below(self.flows);
            drawn[flow] = true;
            let way = [Way::There, Way::Back][number / BATCH % 2];
            (self.packet)(flow, way)
        })
    }

    /// A scenario without a bare look-up. A lone worker is steered nothing, so that any hashes do for
    /// the packets; of several each has its own packets, hashed by the plan.
    fn scenario(
        &self,
        settings: toml::Table,
        hand: impl Fn() -> Box<dyn Hand> + 'static,
    ) -> Scenario {
        self.paced(BURST_NS, settings, hand)
    }

    /// The same with `burst_ns` nanoseconds between bursts.
    fn paced(
        &self,
        burst_ns: u64,
        settings: toml::Table,
        hand: impl Fn() -> Box<dyn Hand> + 'static,
    ) -> Scenario {
        let mut drawn = vec![false; self.flows];
        let mut steady = paced(burst_ns, self.steady(&mut drawn));
        let steering = Steering::by_flow();
        steady.set_steering_hashes(|bytes, record| {
            steering.shard(record.port, bytes, record.wire_len)
        });
        Scenario {
            settings,
            flows: self.flows,
            opening: Arc::new(trace(self.opening())),
            steady: Arc::new(steady),
            distinct: drawn.into_iter().filter(|drawn| *drawn).count(),
            hand: Box::new(hand),
            limit: None,
        }
    }
}

/// Settings from TOML.
fn settings(text: &str) -> Result<toml::Table, BenchError> {
    text.parse().map_err(|error: toml::de::Error| BenchError::Settings(error.to_string()))
}

/// Room for `count` and a quarter more.
fn capacity(count: usize) -> usize {
    count + count / 4
}
