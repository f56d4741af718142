//! Endpoints in a packet: what allocators give out and what is renamed.

use std::net::IpAddr;
use std::ops::Range;

use anabranch_packet::parse;

use crate::edit::LONGEST;

/// An address with a port or an echo identifier, of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port or identifier; 0 where there is none.
    pub port: u16,
    /// The protocol.
    pub protocol: u8,
}

/// An endpoint and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// What it is of: `source`, `quoted destination`, ….
    pub name: &'static str,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its port is the identifier of an echo, which stands there once for both ends.
    pub shares_port: bool,
    /// Where its address and its port stand.
    pub places: Vec<Range<usize>>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV4: u8 = 1;
const ICMPV6: u8 = 58;

/// The endpoints of an IP packet and of the one that it quotes, in a fixed order.
pub fn endpoints(bytes: &[u8]) -> Vec<Placed> {
    let layout = parse(bytes, LONGEST);
    if !layout.has_ipv4() && !layout.has_ipv6() {
        return Vec::new();
    }
    let has_ports = layout.has_transport();
    let outer = Network {
        at: layout.l3_offset(),
        is_ipv4: layout.has_ipv4(),
        protocol: layout.protocol(),
        transport: has_ports.then_some(layout.l4_offset()),
    };
    let mut found = outer.endpoints(bytes, ["source", "destination"]);
    if has_ports && let Some(inner) = quoted(bytes, layout.protocol(), layout.l4_offset()) {
        // An error has no port of its own: where its address is one of those that it quotes, the
        // endpoint is that one.
        let inner = inner.endpoints(bytes, QUOTED);
        for end in &mut found {
            let address = end.endpoint.address;
            let same = inner.iter().find(|inner| inner.endpoint.address == address);
            end.endpoint = same.map_or(Endpoint { port: 0, ..end.endpoint }, |end| end.endpoint);
            end.shares_port = same.is_some_and(|end| end.shares_port);
        }
        found.extend(inner);
    }
    found
}

const QUOTED: [&str; 2] = ["quoted source", "quoted destination"];

/// Source and destination of an IP packet, each with its port.
pub(crate) fn source_and_destination(bytes: &[u8]) -> Option<[(IpAddr, u16); 2]> {
    let ends = endpoints(bytes);
    let end = |at: usize| ends.get(at).map(|end| (end.endpoint.address, end.endpoint.port));
    Some([end(0)?, end(1)?])
}

/// Where an IP header and what follows it stand.
struct Network {
    at: usize,
    is_ipv4: bool,
    protocol: u8,
    transport: Option<usize>,
}

impl Network {
    fn endpoints(&self, bytes: &[u8], names: [&'static str; 2]) -> Vec<Placed> {
        let (first, width) = if self.is_ipv4 { (self.at + 12, 4) } else { (self.at + 8, 16) };
        let ends = [0, 1].map(|end| {
            let place = first + end * width..first + (end + 1) * width;
            let address = address(bytes.get(place.clone())?)?;
            let port = self.port(bytes, end);
            let shares_port = port.is_some() && !matches!(self.protocol, TCP | UDP);
            let mut places = vec![place];
            places.extend(port.map(|at| at..at + 2));
            let port = port.and_then(|at| word(bytes, at)).unwrap_or(0);
            let endpoint = Endpoint { address, port, protocol: self.protocol };
            Some(Placed { name: names[end], endpoint, shares_port, places })
        });
        ends.into_iter().flatten().collect()
    }

    /// Where the port of an end stands. An echo has its identifier on both.
    fn port(&self, bytes: &[u8], end: usize) -> Option<usize> {
        let transport = self.transport?;
        let at = match self.protocol {
            TCP | UDP => transport + 2 * end,
            ICMPV4 | ICMPV6 if is_echo(bytes.get(transport).copied()?) => transport + 4,
            _ => return None,
        };
        word(bytes, at).map(|_| at)
    }
}

fn is_echo(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 128 | 129)
}

fn is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        ICMPV4 => matches!(kind, 3 | 11 | 12),
        _ => kind < 128,
    }
}

/// The packet that an ICMP error quotes.
fn quoted(bytes: &[u8], protocol: u8, l4: usize) -> Option<Network> {
    if !matches!(protocol, ICMPV4 | ICMPV6) || !is_error(protocol, *bytes.get(l4)?) {
        return None;
    }
    let at = l4 + 8;
    let first = *bytes.get(at)?;
    match first >> 4 {
        4 => Some(Network {
            at,
            is_ipv4: true,
            protocol: *bytes.get(at + 9)?,
            transport: Some(at + 4 * usize::from(first & 0xf)),
        }),
        6 => Some(Network {
            at,
            is_ipv4: false,
            protocol: *bytes.get(at + 6)?,
            transport: Some(at + 40),
        }),
        _ => None,
    }
}

/// Where the checksums of a quoted packet at `at` stand, as far as they are quoted.
pub(crate) fn quoted_checksums(bytes: &[u8], at: usize) -> Vec<Range<usize>> {
    let Some(first) = bytes.get(at) else { return Vec::new() };
    let (transport, protocol, header) = match first >> 4 {
        4 => (at + 4 * usize::from(first & 0xf), bytes.get(at + 9), Some(at + 10..at + 12)),
        6 => (at + 40, bytes.get(at + 6), None),
        _ => return Vec::new(),
    };
    let checksum = match protocol {
        Some(&TCP) => transport + 16,
        Some(&UDP) => transport + 6,
        _ => transport + 2,
    };
    header.into_iter().chain(std::iter::once(checksum..checksum + 2)).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        _ => bytes.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}
