//! Which side a captured packet came from: a capture holds both directions in one file, a network
//! function has a port for each.

use std::collections::HashMap;
use std::net::IpAddr;

use anabranch_packet::fragment::Piece;
use anabranch_packet::{Frame, MacAddr, Meta, Packet, parse};

use crate::traces::Captured;

/// An address with its port, or with an echo's identifier; port 0 where there is none.
pub type Endpoint = (IpAddr, u16);

/// Who sends to whom, over which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    pub src: Endpoint,
    pub dst: Endpoint,
    pub protocol: u8,
}

/// A packet at a port of a network function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// 0: the side that opened the conversation (lan, inside, clients); 1: the other one.
    pub port: u8,
    pub packet: Captured,
}

/// Shows the packet in `bytes`, whose setters write to them.
pub fn view<R>(bytes: &mut [u8], wire_len: u32, look: impl FnOnce(&mut Packet<'_>) -> R) -> R {
    let (len, layout) = (bytes.len(), parse(bytes, wire_len));
    let meta = Meta { wire_len, ..Meta::default() };
    look(&mut Packet::new(&mut Frame::new(bytes, 0, len, 0, meta), layout))
}

/// Who sends a packet to whom; `None` for what is not IP.
pub fn ends(packet: &Captured) -> Option<Ends> {
    view(&mut packet.bytes.clone(), packet.wire_len, |pkt| ends_of(pkt))
}

fn ends_of(pkt: &Packet<'_>) -> Option<Ends> {
    let (src, dst): (IpAddr, IpAddr) = match (pkt.ipv4(), pkt.ipv6()) {
        (Some(ip), _) => (ip.src().into(), ip.dst().into()),
        (_, Some(ip)) => (ip.src().into(), ip.dst().into()),
        _ => return None,
    };
    let (src_port, dst_port) = ports(pkt);
    Some(Ends { src: (src, src_port), dst: (dst, dst_port), protocol: pkt.protocol() })
}

fn ports(pkt: &Packet<'_>) -> (u16, u16) {
    let echo4 = pkt.icmpv4().filter(|icmp| icmp.is_echo()).map(|icmp| icmp.id());
    let echo6 = pkt.icmpv6().filter(|icmp| icmp.is_echo()).map(|icmp| icmp.id());
    match (pkt.src_port(), pkt.dst_port(), echo4.or(echo6)) {
        (Some(src), Some(dst), _) => (src, dst),
        (_, _, Some(id)) => (id, id),
        _ => (0, 0),
    }
}

/// The ends of the packet that an ICMP error quotes.
fn quoted(packet: &Captured) -> Option<Ends> {
    view(&mut packet.bytes.clone(), packet.wire_len, |pkt| {
        let is_v4 = pkt.ipv4().is_some();
        let quote = pkt.embedded()?;
        let (src, dst): (IpAddr, IpAddr) = match is_v4 {
            true => (quote.src().into(), quote.dst().into()),
            false => (quote.src6().into(), quote.dst6().into()),
        };
        let (src_port, dst_port) = match quote.protocol() {
            1 | 58 => (quote.id(), quote.id()),
            _ => (quote.src_port(), quote.dst_port()),
        };
        Some(Ends { src: (src, src_port), dst: (dst, dst_port), protocol: quote.protocol() })
    })
}

/// Conversations, each with the end that opened it.
#[derive(Default)]
struct Openers(HashMap<(Endpoint, Endpoint, u8), Endpoint>);

impl Openers {
    /// 0 if the packet comes from the end that opened its conversation. `reply`: the first packet
    /// seen is an answer already.
    fn port(&mut self, ends: Ends, reply: bool) -> u8 {
        let (low, high) = (ends.src.min(ends.dst), ends.src.max(ends.dst));
        let first = if reply { ends.dst } else { ends.src };
        let opener = self.0.entry((low, high, ends.protocol)).or_insert(first);
        u8::from(*opener != ends.src)
    }
}

/// The packets of a capture, each at the port of its side: conversations are between the end that
/// opened them (port 0) and the one that answered (port 1).
pub fn by_conversation(packets: &[Captured]) -> Vec<Arrival> {
    let (mut openers, mut stations) = (Openers::default(), Stations::default());
    let mut datagrams = HashMap::new();
    let mut port = |packet: &Captured| {
        if let Some(about) = quoted(packet) {
            // An error goes back where the packet it quotes came from.
            1 - openers.port(about, false)
        } else if let Some(ends) = ends(packet) {
            openers.port(ends, is_answer(packet))
        } else {
            stations.port(packet)
        }
    };
    let arrivals = packets.iter().map(|packet| {
        let port = match datagram(packet) {
            // Of fragments only the first says which conversation they are of.
            Some(datagram) => *datagrams.entry(datagram).or_insert_with(|| port(packet)),
            None => port(packet),
        };
        Arrival { port, packet: packet.clone() }
    });
    in_order(arrivals.collect())
}

/// What is the same for all fragments of a datagram.
fn datagram(packet: &Captured) -> Option<(IpAddr, IpAddr, u32)> {
    let piece = Piece::of(&packet.bytes, parse(&packet.bytes, packet.wire_len))?;
    let Ends { src, dst, .. } = ends(packet)?;
    Some((src.0, dst.0, piece.id))
}

/// SYN and ACK: the second packet of a connection.
fn is_answer(packet: &Captured) -> bool {
    view(&mut packet.bytes.clone(), packet.wire_len, |pkt| {
        pkt.tcp().is_some_and(|tcp| tcp.syn() && tcp.ack())
    })
}

/// Stations, each behind one port.
#[derive(Default)]
struct Stations(HashMap<MacAddr, u8>);

impl Stations {
    /// A new station is put opposite to the one it sends to, or that sends to it.
    fn port(&mut self, packet: &Captured) -> u8 {
        let Some((src, dst)) = macs(packet) else { return 0 };
        let opposite = self.0.get(&dst).map_or(0, |port| 1 - port);
        let port = *self.0.entry(src).or_insert(opposite);
        if !dst.is_multicast() {
            self.0.entry(dst).or_insert(1 - port);
        }
        port
    }
}

/// Source and destination; `None` where less than an Ethernet header was captured.
pub fn macs(packet: &Captured) -> Option<(MacAddr, MacAddr)> {
    let header: [u8; 12] = *packet.bytes.first_chunk()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = header;
    Some((MacAddr::new(g, h, i, j, k, l), MacAddr::new(a, b, c, d, e, f)))
}

/// The packets of a capture, each at the port of its sending station: stations that talk to one
/// another stand on both sides.
pub fn by_station(packets: &[Captured]) -> Vec<Arrival> {
    let mut stations = Stations::default();
    let arrivals = packets
        .iter()
        .map(|packet| Arrival { port: stations.port(packet), packet: packet.clone() });
    in_order(arrivals.collect())
}

/// In the order in which two captures, one a port, are read together: by time, each keeping its own
/// order where its times run backwards; port 0 first at equal times.
fn in_order(arrivals: Vec<Arrival>) -> Vec<Arrival> {
    let (first, second): (Vec<_>, Vec<_>) =
        arrivals.into_iter().partition(|arrival| arrival.port == 0);
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    let mut merged = Vec::new();
    loop {
        let next = match (first.peek(), second.peek()) {
            (Some(a), Some(b)) if b.packet.at_ns < a.packet.at_ns => second.next(),
            (Some(_), _) => first.next(),
            _ => second.next(),
        };
        match next {
            Some(arrival) => merged.push(arrival),
            None => return merged,
        }
    }
}

#[test]
fn sides_follow_who_opened() {
    use anabranch_packet::craft::{Link, Segment, tcp, tcp_flags};
    let link = Link {
        src: MacAddr::new(2, 0, 0, 0, 0, 1),
        dst: MacAddr::new(2, 0, 0, 0, 0, 2),
        tags: [None; 2],
    };
    let segment = |src: &str, dst: &str, flags| {
        let mut bytes = vec![0; 100];
        let segment = Segment { flags, ..Segment::default() };
        let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
        let len = tcp(&mut bytes, &link, src, dst, segment, b"").unwrap();
        bytes.truncate(len);
        Captured { at_ns: 0, wire_len: len as u32, bytes }
    };
    let (a, b, c) = ("10.0.0.1:5", "10.0.0.2:80", "10.0.0.3:80");
    let packets = [
        segment(a, b, tcp_flags::SYN),
        segment(c, a, tcp_flags::SYN | tcp_flags::ACK),
        segment(b, a, tcp_flags::ACK),
    ];
    let ports: Vec<u8> = packets
        .iter()
        .map(|one| {
            by_conversation(&packets).iter().find(|arrival| arrival.packet == *one).unwrap().port
        })
        .collect();
    assert_eq!(ports, [0, 1, 1]);
    assert!(by_station(&packets).iter().all(|arrival| arrival.port == 0));
}
