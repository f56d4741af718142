//! Functions over IPv4 and UDP: hosts inside, a server outside.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anabranch_nf::NetworkFunction;
use anabranch_nfs::{firewall, lb, nat, nop, policer};

use super::{Load, Scenario, Subject, Traffic, Way, capacity, contended, settings};
use crate::BenchError;
use crate::hand::firewall::Firewall;
use crate::hand::floor::Floor;
use crate::hand::lb::LoadBalancer;
use crate::hand::nat::Nat;
use crate::hand::policer::Policer;
use crate::hand::table::Key;
use crate::hand::{DESTINATION, Packet, SOURCE, address, end_of, number};
use crate::lane::pool;
use crate::measure::opened;
use crate::packets::{End, trace, udp};

pub(super) const SERVER: End = (0xc612_0001, 80);

/// The inside end of flow `n`: 64 flows per host.
pub(super) fn inside(n: usize) -> End {
    let port = 1_024 + (n % 64) * 7 + n / 64 % 512;
    (0x0a00_0001 + (n / 64) as u32, port as u16)
}

pub(super) fn with_server(n: usize, way: Way) -> (u8, Packet) {
    match way {
        Way::There => (0, udp(inside(n), SERVER)),
        Way::Back => (1, udp(SERVER, inside(n))),
    }
}

/// What the end on port 0 is found by: the source on port 0, the destination on port 1.
fn near_end(packet: &Packet, port: u8) -> Key {
    [end_of(packet, if port == 0 { SOURCE } else { DESTINATION }), 1]
}

impl Subject for nop::Function {
    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        let traffic = Traffic { flows, packet: with_server, opening: &[], least: 0 };
        Ok(traffic.scenario(toml::Table::new(), || Box::new(Floor)))
    }
}

impl Subject for firewall::Function {
    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        let traffic = Traffic { flows, packet: with_server, opening: &[Way::There], least: 0 };
        let settings = settings(&format!("flows = {}", capacity(flows)))?;
        let connection = |n| {
            let (address, port) = inside(n);
            (address, port, SERVER.0, SERVER.1)
        };
        let hand = move || Box::new(Firewall::new((0..flows).map(connection))) as _;
        Ok(traffic.scenario(settings, hand).with_limit(flows, near_end))
    }
}

impl Subject for policer::Function {
    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        let destination = |n: usize| 0x0a00_0001 + n as u32;
        let packet = |n, _| (1, udp(SERVER, (destination(n), 9)));
        let traffic = Traffic { flows, packet, opening: &[Way::There], least: 0 };
        // More than any destination receives, even if there is but one.
        let (rate, burst) = (10_000_000_000, 1_000_000);
        let settings = settings(&format!(
            "destinations = {}\nrate_bps = {rate}\nburst_bytes = {burst}",
            capacity(flows)
        ))?;
        let hand = move || Box::new(Policer::new((0..flows).map(destination), rate, burst)) as _;
        let key = |packet: &Packet, _| -> Key { [address(packet, 30).into(), 1] };
        Ok(traffic.scenario(settings, hand).with_limit(flows, key))
    }
}

/// Runs the packet that opens each flow through the function, and tells which end it left with
/// at offsets `at`.
fn translated<N: NetworkFunction>(
    settings: &toml::Table,
    flows: usize,
    packet: impl Fn(usize) -> Packet,
    at: crate::hand::End,
) -> Result<Arc<[End]>, BenchError> {
    let mut pool = pool();
    let opening = Arc::new(trace((0..flows).map(|n| (0, packet(n)))));
    let mut runner = opened::<N>(&mut pool, settings, None, None, None)?;
    let read = |left: Option<(u8, Vec<u8>)>| {
        let packet: Packet = left?.1.try_into().ok()?;
        Some((u32::from_be(address(&packet, at.0)), number(&packet, at.1)))
    };
    let ends: Option<Arc<[End]>> = runner.collect(&opening).into_iter().map(read).collect();
    ends.ok_or_else(|| BenchError::Settings(format!("{} does not open every flow", N::NAME)))
}

/// The first public address of the NAT.
const PUBLIC: u32 = 0xcb00_0000;

/// Public addresses for so many flows: half of their ports at most are used.
pub(super) fn publics(flows: usize) -> u32 {
    (flows / 32_768).max(1).next_power_of_two() as u32
}

/// The setting for so many public addresses.
pub(super) fn public(publics: u32) -> String {
    let addresses = (0..publics).map(|n| format!("\"{}\"", Ipv4Addr::from(PUBLIC + n)));
    format!("public = [{}]", addresses.collect::<Vec<_>>().join(", "))
}

impl Subject for nat::Function {
    const CONTENDED: &'static [Load] = contended::NAT;

    fn scenario_under(load: Load, flows: usize) -> Result<Scenario, BenchError> {
        if load.is_empty() { Self::scenario(flows) } else { contended::nat(load, flows) }
    }

    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        let publics = publics(flows);
        let settings = settings(&format!(
            "{}\nsessions = {}\nhosts = {}",
            public(publics),
            capacity(flows),
            capacity(flows.div_ceil(64)),
        ))?;
        let open = |n| udp(inside(n), SERVER);
        let ends = translated::<Self>(&settings, flows, open, SOURCE)?;
        let public = Arc::clone(&ends);
        let packet = move |n: usize, way| match way {
            Way::There => (0, udp(inside(n), SERVER)),
            Way::Back => (1, udp(SERVER, public[n])),
        };
        let traffic = Traffic { flows, packet, opening: &[Way::There], least: 0 };
        let hand = move || {
            let mappings = ends.iter().enumerate().map(|(n, &(public, public_port))| {
                let (address, port) = inside(n);
                (address, port, public, public_port)
            });
            Box::new(Nat::new(mappings, PUBLIC, publics)) as _
        };
        Ok(traffic.scenario(settings, hand).with_limit(2 * flows, near_end))
    }
}

/// Backends of the load balancer.
fn backends() -> Vec<End> {
    (0..16).map(|n| (0x0a80_0001 + n, 8_080)).collect()
}

impl Subject for lb::Function {
    fn scenario(flows: usize) -> Result<Scenario, BenchError> {
        let backends = backends();
        let listed = backends.iter().map(|&(address, port)| {
            format!("{{ address = \"{}\", port = {port} }}", Ipv4Addr::from(address))
        });
        let settings = settings(&format!(
            "services = [{{ address = \"{}\", port = {}, protocol = \"udp\" }}]\n\
             backends = [{}]\nconnections = {}",
            Ipv4Addr::from(SERVER.0),
            SERVER.1,
            listed.collect::<Vec<_>>().join(", "),
            capacity(flows),
        ))?;
        let open = |n| udp(inside(n), SERVER);
        let picked = translated::<Self>(&settings, flows, open, DESTINATION)?;
        let back = Arc::clone(&picked);
        let packet = move |n: usize, way| match way {
            Way::There => (0, udp(inside(n), SERVER)),
            Way::Back => (1, udp(back[n], inside(n))),
        };
        let traffic = Traffic { flows, packet, opening: &[Way::There], least: 0 };
        let hand = move || {
            let number = |end: &End| backends.iter().position(|one| one == end).unwrap_or(0);
            let connections = picked.iter().enumerate().map(|(n, end)| (inside(n), number(end)));
            Box::new(LoadBalancer::new(connections, &backends, SERVER)) as _
        };
        let keys = flows + 16;
        let source = |packet: &Packet, _| -> Key { [end_of(packet, SOURCE), 1] };
        Ok(traffic.scenario(settings, hand).with_limit(keys, source))
    }
}
