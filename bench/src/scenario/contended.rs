//! Loads in which workers are in each other's way, as the functions are by default and with the recipe
//! that `anabranch profile` names: the three of the NFork paper.

#[cfg(feature = "security")]
use anabranch_nfs::anti_ddos;

use super::ip::{SERVER, inside, public, publics};
use super::link::between;
use super::{Load, Scenario, Traffic, Way, capacity, settings};
use crate::BenchError;
use crate::hand::BATCH;
use crate::hand::floor::Floor;
#[cfg(feature = "security")]
use crate::packets::udp;
use crate::packets::{Arrival, End, syn};

/// A station's time is renewed by each of its frames, and when it is more than 250 s old.
pub(super) const BRIDGE: &[Load] = &["each-frame", "refresh-interval"];
/// In the pool less room is left than workers may take from beside each other, and as much as there are flows.
pub(super) const NAT: &[Load] = &["tight-pool", "overprovisioned"];
/// The counts of all workers are read for each packet, and every 10 ms.
#[cfg(feature = "security")]
const ANTI_DDOS: &[Load] = &["exact", "stale"];

impl<P: Fn(usize, Way) -> Arrival> Traffic<P> {
    /// No loop written by hand is compared with.
    fn contended(&self, burst_ns: u64, settings: toml::Table) -> Scenario {
        self.paced(burst_ns, settings, || Box::new(Floor))
    }
}

/// Nanoseconds between bursts for `flows` packets to take so many seconds.
fn in_time(flows: usize, seconds: f64) -> u64 {
    let bursts = flows.div_ceil(BATCH) as f64;
    (seconds * 1e9 / bursts) as u64
}

/// The same so that a flow that is over after `lifetime_s` seconds without a packet is so when its next one
/// comes, in so many of all cases: packets of a flow are apart by a time that is distributed exponentially.
fn coming_and_going(flows: usize, lifetime_s: u64, share: f64) -> u64 {
    in_time(flows, lifetime_s as f64 / (1.0 / share).ln())
}

/// The client of flow `n`, of which each host has 64, at ports all over the range.
fn client(n: usize) -> End {
    (inside(n).0, (1_024 + n * 40_503 % 64_000) as u16)
}

/// A station sends every 5 s: most of its frames are the first in their second.
pub(super) fn bridge(load: Load, flows: usize) -> Result<Scenario, BenchError> {
    let burst_ns = in_time(2 * flows, 5.0);
    let opening = &[Way::There, Way::Back];
    // So many that few stations are never heard.
    let traffic = Traffic { flows, packet: between, opening, least: 8 * flows };
    let interval_s = if load == BRIDGE[0] { 0 } else { 250 };
    let settings = settings(&format!(
        "stations = {}\nageing_s = 1000000\nrefresh_interval_s = {interval_s}",
        capacity(2 * flows)
    ))?;
    Ok(traffic.contended(burst_ns, settings))
}

/// Connections that nobody answers come and go: of `flows` that are drawn all but `ROOM` or so are open at a
/// time.
pub(super) fn nat(load: Load, flows: usize) -> Result<Scenario, BenchError> {
    const LIFETIME_S: u64 = 6;
    const ROOM: usize = 256;
    if flows < 2 * ROOM {
        return Err(BenchError::Settings(format!("nat/{load} takes {} flows or more", 2 * ROOM)));
    }
    let packet = |n, _| (0, syn(client(n), SERVER));
    let burst_ns = coming_and_going(flows, LIFETIME_S, ROOM as f64 / flows as f64);
    let traffic = Traffic { flows, packet, opening: &[Way::There], least: 12 * flows };
    let sessions = if load == NAT[0] { flows } else { 2 * flows };
    let settings = settings(&format!(
        "{}\nsessions = {sessions}\nhosts = {}\nhalf_open_percent = 100\nhalf_open_s = {LIFETIME_S}",
        public(publics(flows)),
        65_536 + flows,
    ))?;
    Ok(traffic.contended(burst_ns, settings))
}

/// One packet in five is the first of its flow. All pass, since that does not count as an attack.
#[cfg(feature = "security")]
impl super::Subject for anti_ddos::Function {
    const LOADS: &'static [Load] = &[];
    const CONTENDED: &'static [Load] = ANTI_DDOS;

    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        Self::scenario_under(ANTI_DDOS[0], flows)
    }

    fn scenario_under(load: Load, flows: usize) -> Result<Scenario, BenchError> {
        const LIFETIME_S: u64 = 2;
        let packet = |n, _| (1, udp(inside(n), SERVER));
        let burst_ns = coming_and_going(flows, LIFETIME_S, 0.2);
        let traffic = Traffic { flows, packet, opening: &[Way::There], least: 0 };
        let staleness_ms = if load == ANTI_DDOS[0] { 0 } else { 10 };
        let settings = settings(&format!(
            "udp = true\nflows = {}\none_packet_s = {LIFETIME_S}\nidle_s = {LIFETIME_S}\nleast_flows = 16777216\n\
             staleness_ms = {staleness_ms}",
            capacity(flows) + 65_536
        ))?;
        Ok(traffic.contended(burst_ns, settings))
    }
}
