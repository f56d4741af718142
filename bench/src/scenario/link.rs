//! Bridges: pairs of stations, one behind each port.

use anabranch_nfs::{bridge, bridge_static};
use anabranch_packet::MacAddr;
use toml::Value;

use super::{Load, Scenario, Subject, Traffic, Way, capacity, contended, settings};
use crate::BenchError;
use crate::hand::bridge::Bridge;
use crate::hand::bridge_static::BridgeStatic;
use crate::hand::table::Key;
use crate::hand::{Packet, word};
use crate::packets::{Arrival, frame};

const MAC: u64 = 0xffff_ffff_ffff;

/// The station of pair `n` behind port `side`.
fn station(n: usize, side: u8) -> MacAddr {
    let [a, b, c, d] = (n as u32).to_be_bytes();
    MacAddr::new(2, side, a, b, c, d)
}

/// All stations of `pairs` pairs, as the loops take them.
fn stations(pairs: usize) -> impl ExactSizeIterator<Item = (u64, u8)> {
    (0..2 * pairs).map(|number| {
        let side = (number % 2) as u8;
        let [a, b, c, d, e, f] = station(number / 2, side).octets();
        (u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]), side)
    })
}

pub(super) fn between(n: usize, way: Way) -> Arrival {
    match way {
        Way::There => (0, frame(station(n, 0), station(n, 1))),
        Way::Back => (1, frame(station(n, 1), station(n, 0))),
    }
}

impl Subject for bridge::Function {
    const CONTENDED: &'static [Load] = contended::BRIDGE;

    fn scenario_under(load: Load, flows: usize) -> Result<Scenario, BenchError> {
        if load.is_empty() { Self::scenario(flows) } else { contended::bridge(load, flows) }
    }

    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        let traffic =
            Traffic { flows, packet: between, opening: &[Way::There, Way::Back], least: 0 };
        let settings = settings(&format!("stations = {}", capacity(2 * flows)))?;
        let hand = move || Box::new(Bridge::new(stations(flows))) as _;
        let source = |packet: &Packet, _| -> Key { [word(packet, 6) & MAC, 1] };
        Ok(traffic.scenario(settings, hand).with_limit(2 * flows, source))
    }
}

impl Subject for bridge_static::Function {
    /// Its table is a list of settings, which takes some hundred bytes a station to read.
    const MOST: usize = 65_536;

    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        let traffic = Traffic { flows, packet: between, opening: &[], least: 0 };
        let listed = |number: usize| {
            let (mac, port) = (station(number / 2, (number % 2) as u8), number as i64 % 2);
            let fields = [("mac", Value::String(mac.to_string())), ("port", Value::Integer(port))];
            Value::Table(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
        };
        let list = Value::Array((0..2 * flows).map(listed).collect());
        let settings = [("stations".to_owned(), list)].into_iter().collect();
        let hand = move || Box::new(BridgeStatic::new(stations(flows))) as _;
        let destination = |packet: &Packet, _| -> Key { [word(packet, 0) & MAC, 1] };
        Ok(traffic.scenario(settings, hand).with_limit(2 * flows, destination))
    }
}
