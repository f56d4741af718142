//! A stateful firewall: TCP by the states of RFC 6146 with simultaneous open (RFC 5382), UDP and
//! echo by timeouts (RFC 4787, RFC 5508).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use anabranch_io::traffic::Random;
use anabranch_nfs::firewall;
use anabranch_packet::craft::tcp_flags::{ACK, FIN, PSH, RST, SYN};
use anabranch_runtime::testing::Harness;

use super::packets::{echo_between, tcp_between, udp_between};
use super::{SECOND, one, pause};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp(u8),
    Udp,
    EchoRequest,
    EchoReply,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    from_inside: bool,
    kind: Kind,
    src: SocketAddr,
    dst: SocketAddr,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tcp {
    /// Its first packet is being looked at.
    New,
    SynSent,
    SynReceived,
    Established,
    Fin {
        inside: bool,
    },
    Closed,
    Reset,
}

struct Connection {
    /// The address that is inside.
    inside: IpAddr,
    outside: IpAddr,
    tcp: Option<Tcp>,
    last_ns: u64,
}

#[derive(Clone, Copy)]
struct Timeouts {
    half_open: u64,
    established: u64,
    closing: u64,
    udp: u64,
    icmp: u64,
}

struct Model {
    timeouts: Timeouts,
    flows: usize,
    loose: bool,
    connections: HashMap<(u8, SocketAddr, SocketAddr), Connection>,
}

impl Model {
    fn timeout_ns(&self, protocol: u8, tcp: Option<Tcp>) -> u64 {
        let Timeouts { half_open, established, closing, udp, icmp } = self.timeouts;
        let seconds = match tcp {
            Some(Tcp::New | Tcp::SynSent | Tcp::SynReceived) => half_open,
            Some(Tcp::Established | Tcp::Fin { .. }) => established,
            Some(Tcp::Closed | Tcp::Reset) => closing,
            None if protocol == 17 => udp,
            None => icmp,
        };
        seconds * SECOND
    }

    fn forget(&mut self, now_ns: u64) {
        let mut connections = std::mem::take(&mut self.connections);
        connections.retain(|(protocol, ..), one| {
            now_ns < one.last_ns + self.timeout_ns(*protocol, one.tcp)
        });
        self.connections = connections;
    }

    fn verdict(&mut self, packet: Packet, now_ns: u64) -> Option<&'static str> {
        self.forget(now_ns);
        let protocol = match packet.kind {
            Kind::Tcp(_) => 6,
            Kind::Udp => 17,
            Kind::EchoRequest | Kind::EchoReply => 1,
        };
        let key = (protocol, packet.src.min(packet.dst), packet.src.max(packet.dst));
        if !self.connections.contains_key(&key) {
            if let Some(refused) = self.refused(packet) {
                return Some(refused);
            }
            let tcp = (protocol == 6).then_some(Tcp::New);
            let (inside, outside) = (packet.src.ip(), packet.dst.ip());
            self.connections.insert(key, Connection { inside, outside, tcp, last_ns: now_ns });
        }
        let connection = self.connections.get_mut(&key).unwrap();
        connection.last_ns = now_ns;
        let here = if packet.from_inside { connection.inside } else { connection.outside };
        if packet.src.ip() != here && connection.inside != connection.outside {
            return Some("wrong-side");
        }
        match packet.kind {
            Kind::Tcp(flags) => match next(connection.tcp.unwrap(), flags, packet.from_inside) {
                Ok(state) => connection.tcp = Some(state),
                Err(reason) => return Some(reason),
            },
            Kind::Udp => {}
            asks if (asks == Kind::EchoRequest) == packet.from_inside => {}
            _ => return Some("out-of-state"),
        }
        None
    }

    /// Why a packet may not open a connection.
    fn refused(&self, packet: Packet) -> Option<&'static str> {
        if !packet.from_inside {
            return Some("unsolicited");
        }
        if let Kind::Tcp(flags) = packet.kind {
            match flags & (SYN | ACK | FIN | RST) {
                SYN => {}
                ACK if self.loose => {}
                ACK | RST => return Some("not-syn"),
                other if other == SYN | ACK || other == FIN | ACK || other == RST | ACK => {
                    return Some("not-syn");
                }
                _ => return Some("bad-tcp-flags"),
            }
        }
        let is_v4 = packet.src.is_ipv4();
        let alike = self.connections.keys().filter(|(_, one, _)| one.is_ipv4() == is_v4).count();
        (alike >= self.flows).then_some("packet-sets-full")
    }
}

/// The state after a segment.
fn next(state: Tcp, flags: u8, from_inside: bool) -> Result<Tcp, &'static str> {
    let opens = matches!(state, Tcp::New | Tcp::SynSent | Tcp::Closed | Tcp::Reset);
    match flags & (SYN | ACK | FIN | RST) {
        one if one == RST || one == RST | ACK => Ok(Tcp::Reset),
        SYN if from_inside && opens => Ok(Tcp::SynSent),
        SYN if from_inside => Ok(state),
        SYN if matches!(state, Tcp::SynSent | Tcp::SynReceived) => Ok(Tcp::SynReceived),
        SYN => Err("out-of-state"),
        one if one == SYN | ACK => match state {
            Tcp::SynSent if from_inside => Err("out-of-state"),
            Tcp::SynSent => Ok(Tcp::SynReceived),
            Tcp::Fin { .. } if !from_inside => Ok(Tcp::SynReceived),
            _ => Ok(state),
        },
        ACK => match state {
            Tcp::New | Tcp::Reset => Ok(Tcp::Established),
            Tcp::SynReceived if from_inside => Ok(Tcp::Established),
            Tcp::SynSent if from_inside => Err("out-of-state"),
            _ => Ok(state),
        },
        one if one == FIN | ACK => match state {
            Tcp::SynSent => Err("out-of-state"),
            Tcp::Closed | Tcp::Reset => Ok(state),
            Tcp::Fin { inside } if inside != from_inside => Ok(Tcp::Closed),
            _ => Ok(Tcp::Fin { inside: from_inside }),
        },
        _ => Err("bad-tcp-flags"),
    }
}

const FLAGS: [u8; 16] = [
    SYN,
    SYN,
    SYN,
    SYN | ACK,
    SYN | ACK,
    ACK,
    ACK,
    ACK | PSH,
    ACK | PSH,
    FIN | ACK,
    FIN | ACK,
    RST,
    RST | ACK,
    SYN | FIN,
    0,
    FIN | SYN | RST | ACK,
];

fn packet(random: &mut Random) -> Packet {
    let is_v6 = random.chance(0.25);
    let host = |text4: &str, text6: &str| -> IpAddr {
        if is_v6 { text6.parse().unwrap() } else { text4.parse().unwrap() }
    };
    // The outside host lies below one inside host and above the other.
    let inside = match random.below(2) {
        0 => host("10.0.0.1", "2001:db8::1"),
        _ => host("203.0.113.7", "fd00::7"),
    };
    let outside = host("198.51.100.1", "2a00::1");
    let from_inside = random.chance(0.55);
    let kind = match random.below(10) {
        0..=5 => Kind::Tcp(one(random, &FLAGS)),
        6..=7 => Kind::Udp,
        _ if random.chance(0.5) => Kind::EchoRequest,
        _ => Kind::EchoReply,
    };
    let (port, service) = match kind {
        Kind::EchoRequest | Kind::EchoReply => (5, 5),
        _ => (5 + random.below(3) as u16, 80),
    };
    let ends = (SocketAddr::new(inside, port), SocketAddr::new(outside, service));
    // Now and then a packet comes in on the side where its source is not.
    let outwards = from_inside != random.chance(0.03);
    let (src, dst) = if outwards { ends } else { (ends.1, ends.0) };
    Packet { from_inside, kind, src, dst }
}

fn frame(packet: Packet) -> Vec<u8> {
    let Packet { kind, src, dst, .. } = packet;
    match kind {
        Kind::Tcp(flags) => tcp_between(src, dst, flags),
        Kind::Udp => udp_between(src, dst),
        Kind::EchoRequest | Kind::EchoReply => {
            echo_between(src.ip(), dst.ip(), kind == Kind::EchoReply, src.port())
        }
    }
}

fn compare(seed: u64, flows: usize, lifetimes_s: &[u64], seen: &mut HashMap<&'static str, u32>) {
    let mut random = Random::new(seed);
    let loose = random.chance(0.5);
    let timeouts = Timeouts { half_open: 20, established: 100, closing: 30, udp: 60, icmp: 10 };
    let settings = [
        format!("flows={flows}"),
        format!("loose={loose}"),
        "half_open_timeout_s=20".to_owned(),
        "established_timeout_s=100".to_owned(),
        "closing_timeout_s=30".to_owned(),
        "udp_timeout_s=60".to_owned(),
        "icmp_timeout_s=10".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut nf = Harness::<firewall::Function>::new(&settings);
    let mut model = Model { timeouts, flows, loose, connections: HashMap::new() };
    let mut now_ns = 0;
    for number in 0..1_500 {
        now_ns += if lifetimes_s.is_empty() { 0 } else { pause(&mut random, lifetimes_s) };
        nf.at(now_ns);
        let packet = packet(&mut random);
        let outcome = nf.send(u8::from(!packet.from_inside), &frame(packet));
        let expected = model.verdict(packet, now_ns);
        assert_eq!(outcome.dropped(), expected, "seed {seed}, packet {number}: {packet:?}");
        assert_eq!(outcome.forwarded().len(), usize::from(expected.is_none()));
        *seen.entry(expected.unwrap_or("passed")).or_default() += 1;
    }
}

#[test]
fn the_firewall_follows_connections() {
    let mut seen = HashMap::new();
    for seed in 0..120 {
        compare(seed, 1_000, &[20, 100, 30, 60, 10, 1, 1, 1], &mut seen);
    }
    for word in ["passed", "unsolicited", "not-syn", "bad-tcp-flags", "out-of-state", "wrong-side"]
    {
        assert!(seen[word] > 1_000, "{seen:?}");
    }
}

#[test]
fn a_full_firewall_opens_nothing_more() {
    let mut seen = HashMap::new();
    for seed in 200..240 {
        compare(seed, 3, &[], &mut seen);
    }
    assert!(seen["packet-sets-full"] > 1_000, "{seen:?}");
}
