//! For each network function the network around it: settings, and hosts that answer to what the
//! function makes of their peers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_packet::Packet;
use anabranch_runtime::testing::Outcome;
use toml::{Table, Value};

use crate::play::Surroundings;
use crate::sides::{Arrival, Endpoint, Ends, ends, macs, view};
use crate::traces::Captured;

/// Settings, as TOML.
pub fn settings(text: &str) -> Table {
    text.parse().unwrap()
}

/// A firewall that takes up connections whose beginning was not captured.
pub fn firewall() -> Table {
    settings("loose = true")
}

/// A static bridge that knows each station behind the port where it first sent.
pub fn bridge_static(arrivals: &[Arrival]) -> Table {
    let mut ports = HashMap::new();
    for arrival in arrivals {
        if let Some((src, _)) = macs(&arrival.packet).filter(|(src, _)| !src.is_multicast()) {
            ports.entry(src).or_insert(arrival.port);
        }
    }
    let station = |(mac, port): (&anabranch_packet::MacAddr, &u8)| {
        settings(&format!("mac = \"{mac}\"\nport = {port}"))
    };
    let stations: Vec<Value> = ports.iter().map(|one| Value::Table(station(one))).collect();
    Table::from_iter([("stations".to_owned(), Value::Array(stations))])
}

/// A router between a private network and the rest of the world, each behind one neighbour.
pub fn router() -> Table {
    let mut text = String::from(
        r#"
        [interfaces.p0]
        mac = "02:00:00:00:fe:00"
        addresses = ["100.127.0.1/24", "fdff:0:0:1::1/64"]
        promiscuous = true
        [interfaces.p1]
        mac = "02:00:00:00:fe:01"
        addresses = ["100.127.1.1/24", "fdff:0:0:2::1/64"]
        promiscuous = true
        [[neighbours]]
        address = "100.127.0.2"
        mac = "02:00:00:00:ff:00"
        [[neighbours]]
        address = "100.127.1.2"
        mac = "02:00:00:00:ff:01"
        [[neighbours]]
        address = "fdff:0:0:1::2"
        mac = "02:00:00:00:ff:00"
        [[neighbours]]
        address = "fdff:0:0:2::2"
        mac = "02:00:00:00:ff:01"
        "#,
    );
    let inside = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];
    let routes = inside.map(|to| (to, "100.127.0.2"));
    let outside = [("0.0.0.0/0", "100.127.1.2"), ("::/0", "fdff:0:0:2::2")];
    for (to, via) in routes.into_iter().chain([("fd00::/8", "fdff:0:0:1::2")]).chain(outside) {
        text += &format!("[[routes]]\nto = \"{to}\"\nvia = \"{via}\"\n");
    }
    settings(&text)
}

/// Hosts outside that answer to the public endpoints they have seen.
#[derive(Default)]
pub struct NatPeers {
    /// Public endpoints of inside ones, by protocol.
    mappings: HashMap<(Endpoint, u8), Endpoint>,
}

impl NatPeers {
    fn rewrite(&self, pkt: &mut Packet<'_>, ends: Option<Ends>) {
        if let Some(ends) = ends.filter(|ends| ends.dst.1 != 0)
            && let Some(&(IpAddr::V4(address), port)) =
                self.mappings.get(&(ends.dst, ends.protocol))
        {
            set_destination(pkt, address, port);
        }
        self.rewrite_quote(pkt);
    }

    /// An error quotes the packet as it left the function.
    fn rewrite_quote(&self, pkt: &mut Packet<'_>) {
        let Some(mut quote) = pkt.embedded_mut().filter(|quote| !quote.is_ipv6()) else { return };
        let protocol = quote.protocol();
        let port = if protocol == 1 { quote.id() } else { quote.src_port() };
        let inside = (IpAddr::from(quote.src()), port);
        if let Some(&(IpAddr::V4(address), port)) = self.mappings.get(&(inside, protocol)) {
            quote.set_src(address);
            quote.set_src_port(port);
            quote.set_id(port);
            set_destination(pkt, address, port);
        }
    }
}

fn set_destination(pkt: &mut Packet<'_>, address: Ipv4Addr, port: u16) {
    if let Some(mut ip) = pkt.ipv4_mut() {
        ip.set_dst(address);
    }
    pkt.set_dst_port(port);
    if let Some(mut icmp) = pkt.icmpv4_mut() {
        icmp.set_id(port);
    }
}

impl Surroundings for NatPeers {
    fn settings(&self) -> Table {
        settings("public = [\"100.127.2.1\", \"100.127.2.2\"]")
    }

    fn address(&mut self, arrival: &mut Arrival) {
        if arrival.port == 1 {
            let before = ends(&arrival.packet);
            let Captured { bytes, wire_len, .. } = &mut arrival.packet;
            view(bytes, *wire_len, |pkt| self.rewrite(pkt, before));
        }
    }

    fn seen(&mut self, arrival: &Arrival, outcome: &Outcome) {
        let Some(ends) = ends(&arrival.packet).filter(|ends| ends.dst.1 != 0) else { return };
        if let [(1, bytes)] = outcome.forwarded() {
            let sent = Captured { bytes: bytes.clone(), ..arrival.packet.clone() };
            let public = crate::sides::ends(&sent).unwrap().src;
            self.mappings.insert((ends.src, ends.protocol), public);
        }
    }
}

/// Services, each with one backend that answers from its own endpoint.
pub struct LbBackends {
    backends: Vec<(Ends, Endpoint)>,
    by_service: HashMap<(Endpoint, u8), Endpoint>,
}

/// Services that a load balancer is given, of each IP version.
const SERVICES: usize = 120;

impl LbBackends {
    /// The endpoints that clients of this capture speak to, up to [`SERVICES`].
    pub fn of(arrivals: &[Arrival]) -> Self {
        let mut all = Self { backends: Vec::new(), by_service: HashMap::new() };
        let mut count = [0; 2];
        for arrival in arrivals.iter().filter(|arrival| arrival.port == 0) {
            let Some(ends) = ends(&arrival.packet) else { continue };
            let version = &mut count[usize::from(ends.dst.0.is_ipv6())];
            let is_new = !all.by_service.contains_key(&(ends.dst, ends.protocol));
            let has_ports = matches!(ends.protocol, 6 | 17) && ends.dst.1 != 0;
            if is_new && has_ports && *version < SERVICES {
                *version += 1;
                let backend = backend(*version as u16, ends.dst);
                all.by_service.insert((ends.dst, ends.protocol), backend);
                all.backends.push((ends, backend));
            }
        }
        all
    }

    fn tables(&self, is_ipv6: bool) -> (Vec<Value>, Vec<Value>) {
        let of_version = self.backends.iter().filter(|(ends, _)| ends.dst.0.is_ipv6() == is_ipv6);
        let tables = of_version.enumerate().map(|(number, (ends, backend))| {
            let protocol = if ends.protocol == 6 { "tcp" } else { "udp" };
            let (address, port) = ends.dst;
            let service = format!("address='{address}'\nport={port}\nprotocol='{protocol}'");
            let (address, port) = backend;
            let member = format!("address='{address}'\nport={port}\nservice={number}");
            (Value::Table(settings(&service)), Value::Table(settings(&member)))
        });
        tables.unzip()
    }
}

/// A service that no packet is for: a balancer must have one.
fn nobody() -> Value {
    Value::Table(settings("address = '100.127.4.1'\nport = 1"))
}

/// A backend for a service, at the same port: what it is sent is read as before.
fn backend(number: u16, service: Endpoint) -> Endpoint {
    let address: IpAddr = match service.0.is_ipv6() {
        true => Ipv6Addr::new(0xfdff, 0, 0, 3, 0, 0, 0, number).into(),
        false => Ipv4Addr::from(0x647f_0300 + u32::from(number)).into(),
    };
    (address, service.1)
}

impl Surroundings for LbBackends {
    fn settings(&self) -> Table {
        let (services, backends) = self.tables(false);
        let (services6, backends6) = self.tables(true);
        let mut table = settings("table_size = \"tiny\"\nbackend_slots = 256");
        if self.backends.is_empty() {
            table.insert("services".to_owned(), Value::Array(vec![nobody()]));
            return table;
        }
        for (name, list) in [
            ("services", services),
            ("services6", services6),
            ("backends", backends),
            ("backends6", backends6),
        ] {
            table.insert(name.to_owned(), Value::Array(list));
        }
        table
    }

    fn address(&mut self, arrival: &mut Arrival) {
        let Some(ends) = ends(&arrival.packet).filter(|_| arrival.port == 1) else { return };
        let Some(&(address, port)) = self.by_service.get(&(ends.src, ends.protocol)) else {
            return;
        };
        let Captured { bytes, wire_len, .. } = &mut arrival.packet;
        view(bytes, *wire_len, |pkt| {
            match address {
                IpAddr::V4(address) => pkt.ipv4_mut().unwrap().set_src(address),
                IpAddr::V6(address) => pkt.ipv6_mut().unwrap().set_src(address),
            }
            pkt.set_src_port(port);
        });
    }
}
