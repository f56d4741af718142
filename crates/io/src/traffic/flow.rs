//! Flows: who talks with whom.

use super::random::{fraction, mix};
use super::spec::{PORTS_PER_HOST, TrafficSpec};
use anabranch_packet::MacAddr;
use std::net::{IpAddr, SocketAddr};

/// Steps between the ports of a host's flows; has no factor in common with [`PORTS_PER_HOST`], so
/// every port comes once before one comes again.
const PORT_STEP: u64 = 25_717;
const FIRST_PORT: u64 = 1_024;

/// The transport protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A flow between an inside host and an outside server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Inside address and port; no other flow has the same at the same time.
    pub inside: SocketAddr,
    /// Outside address and port.
    pub outside: SocketAddr,
    /// Station of the inside host.
    pub inside_mac: MacAddr,
    /// Station of the outside server.
    pub outside_mac: MacAddr,
}

/// All flows there can be, by number. A flow follows from its number alone.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    spec: TrafficSpec,
    hosts: u64,
    servers: u64,
}

impl Flows {
    pub(super) fn new(spec: &TrafficSpec) -> Self {
        let (hosts, servers) = (spec.hosts().into(), spec.servers().into());
        Self { spec: spec.clone(), hosts, servers }
    }

    /// Flow number `id`. The first [`TrafficSpec::flows`] of them are open at the beginning, the
    /// rest replace them.
    pub(super) fn get(&self, id: u64) -> Flow {
        let (host, nth) = (id % self.hosts, id / self.hosts);
        let server = self.server(id);
        let random = mix(id ^ mix(self.spec.seed));
        let protocol = self.protocol(random);
        let is_ipv6 = fraction(mix(random)) < self.spec.ipv6;
        let (inside, outside) = match is_ipv6 {
            true => (self.spec.inside6, self.spec.outside6),
            false => (self.spec.inside, self.spec.outside),
        };
        let inside_port = FIRST_PORT + (mix(host) + nth * PORT_STEP) % PORTS_PER_HOST;
        let stations = u64::from(self.spec.macs);
        Flow {
            protocol,
            inside: SocketAddr::new(inside.host(host as u32), inside_port as u16),
            outside: SocketAddr::new(outside.host(server as u32), self.port(protocol, random)),
            inside_mac: station(0, host % stations.div_ceil(2)),
            outside_mac: station(1, server % (stations / 2)),
        }
    }

    /// Goes through the servers host by host, so that few hosts and few servers still make many
    /// pairs; where every flow can have a server of its own, it gets it.
    fn server(&self, id: u64) -> u64 {
        let turn = if self.servers >= u64::from(self.spec.flows) { 0 } else { id / self.hosts };
        (id + turn) % self.servers
    }

    fn protocol(&self, random: u64) -> Protocol {
        if fraction(random) < self.spec.tcp { Protocol::Tcp } else { Protocol::Udp }
    }

    fn port(&self, protocol: Protocol, random: u64) -> u16 {
        match (self.spec.port, protocol) {
            (Some(port), _) => port,
            (None, Protocol::Tcp) if random & 3 == 0 => 80,
            (None, Protocol::Tcp) => 443,
            (None, Protocol::Udp) => 7,
        }
    }
}

/// A locally administered address: station `index` of a side.
fn station(side: u8, index: u64) -> MacAddr {
    let [.., a, b, c] = (index + 1).to_be_bytes();
    MacAddr::new(2, 0, side, a, b, c)
}

impl Flow {
    /// Whether the flow is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.inside.is_ipv6()
    }

    /// Source and destination of a packet of the flow.
    pub fn addresses(&self, from_inside: bool) -> (SocketAddr, SocketAddr) {
        match from_inside {
            true => (self.inside, self.outside),
            false => (self.outside, self.inside),
        }
    }

    /// Source and destination station of a packet of the flow.
    pub fn stations(&self, from_inside: bool) -> (MacAddr, MacAddr) {
        match from_inside {
            true => (self.inside_mac, self.outside_mac),
            false => (self.outside_mac, self.inside_mac),
        }
    }

    /// Bytes of the headers of a data packet, Ethernet included.
    pub fn header_len(&self) -> u32 {
        let ip = match self.inside.ip() {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 40,
        };
        let transport = match self.protocol {
            Protocol::Tcp => 20,
            Protocol::Udp => 8,
        };
        14 + ip + transport
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn flows(text: &str, count: u64) -> Vec<Flow> {
        let flows = Flows::new(&text.parse().unwrap());
        (0..count).map(|id| flows.get(id)).collect()
    }

    fn distinct<T: Eq + std::hash::Hash>(flows: &[Flow], part: impl Fn(&Flow) -> T) -> usize {
        flows.iter().map(part).collect::<HashSet<T>>().len()
    }

    #[test]
    #[cfg_attr(miri, ignore = "many flows")]
    fn every_flow_has_an_inside_endpoint_of_its_own() {
        for text in ["flows=100000", "flows=64512,hosts=1", "flows=50000,hosts=7,ipv6=0.5"] {
            let spec: TrafficSpec = text.parse().unwrap();
            let all = flows(text, u64::from(spec.flows));
            assert_eq!(distinct(&all, |flow| flow.inside), all.len(), "{text}");
            assert!(all.iter().all(|flow| flow.inside.port() >= 1_024));
        }
    }

    #[test]
    fn shares_and_ranges_are_kept() {
        let all = flows("flows=10000,tcp=0.3,ipv6=0.2,inside=10.1.0.0/16", 10_000);
        let tcp = all.iter().filter(|flow| flow.protocol == Protocol::Tcp).count();
        let ipv6 = all.iter().filter(|flow| flow.is_ipv6()).count();
        assert!((2_800..3_200).contains(&tcp) && (1_800..2_200).contains(&ipv6), "{tcp} {ipv6}");
        let inside = "10.1.0.0/16".parse::<super::super::Prefix>().unwrap();
        assert!(all.iter().all(|flow| flow.is_ipv6() || inside.contains(flow.inside.ip())));
        assert_eq!(distinct(&all, |flow| flow.inside.ip().is_ipv4()), 2);
    }

    #[test]
    fn servers_are_distinct_where_there_are_enough() {
        let all = flows("flows=100000,udp", 100_000);
        assert_eq!(distinct(&all, |flow| flow.outside), 100_000);
        let few = flows("flows=100000,udp,servers=100,hosts=100", 100_000);
        assert_eq!(distinct(&few, |flow| (flow.inside.ip(), flow.outside.ip())), 10_000);
    }

    #[test]
    fn stations_are_of_both_sides() {
        let all = flows("flows=10000,macs=200,hosts=1000,servers=1000", 10_000);
        assert_eq!(distinct(&all, |flow| flow.inside_mac), 100);
        assert_eq!(distinct(&all, |flow| flow.outside_mac), 100);
        assert!(all.iter().all(|flow| flow.inside_mac != flow.outside_mac));
        assert!(distinct(&all, |flow| (flow.inside_mac, flow.outside_mac)) > 900);
    }
}
