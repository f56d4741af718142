//! The synthetic function: an array of 10,000 elements, read, or read and changed, drawn by either law
//! for each packet anew, whatever its flow.

use anabranch_nfs::synthetic::Function;
use anabranch_nfs::synthetic::synthetic::Law;

use super::ip::with_server;
use super::{Load, Scenario, Subject, Traffic, settings};
use crate::BenchError;
use crate::hand::synthetic::Synthetic;

const ELEMENTS: u32 = 10_000;
/// What is drawn repeats with the trace: so many packets that every element has its share.
const PACKETS: usize = 1 << 17;

impl Subject for Function {
    const LOADS: &'static [Load] =
        &["read-uniform", "read-zipf", "read-write-uniform", "read-write-zipf"];

    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        Self::scenario_under(Self::LOADS[0], flows)
    }

    fn scenario_under(load: Load, flows: usize) -> Result<Scenario, BenchError> {
        let (writes, is_zipf) = (load.contains("write"), load.ends_with("zipf"));
        let (law, named) = if is_zipf { (Law::Zipf, "zipf") } else { (Law::Uniform, "uniform") };
        let settings = settings(&format!(
            "elements = {ELEMENTS}\nreads = 1\nwrites = {}\nlaw = \"{named}\"",
            u32::from(writes)
        ))?;
        let traffic = Traffic { flows, packet: with_server, opening: &[], least: PACKETS };
        let hand = move || Box::new(Synthetic::new(ELEMENTS, law, writes)) as _;
        Ok(traffic.scenario(settings, hand))
    }
}
