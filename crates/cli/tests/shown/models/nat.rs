//! Endpoint-independent mapping (RFC 4787, 5382, 5508): which packets pass is the model's to say,
//! which free port a mapping gets is the function's, within the rules.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch_io::traffic::Random;
use anabranch_nfs::nat;
use anabranch_packet::craft::tcp_flags::{ACK, FIN, RST, SYN};
use anabranch_runtime::testing::{Harness, Outcome};

use super::packets::{echo_between, tcp_between, udp_between};
use super::{SECOND, one, pause};
use crate::sides::{Ends, ends};
use crate::traces::Captured;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const LAN: u8 = 0;
const WAN: u8 = 1;
const PUBLIC: [Ipv4Addr; 2] = [Ipv4Addr::new(203, 0, 113, 1), Ipv4Addr::new(203, 0, 113, 2)];
const FIRST_PORT: u16 = 1_024;
const LAST_PORT: u16 = 1_279;
/// An expired mapping may keep its port for so long, until its turn to be collected comes.
const COLLECTED_NS: u64 = 70 * SECOND;
/// At least two are looked at with each packet, and there are fewer than so many.
const COLLECTED_PACKETS: u64 = 100;

/// Protocol, address and port.
type Point = (u8, SocketAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All but TCP.
    Open,
    HalfOpen,
    Answered,
    Established,
    Finished {
        inside: bool,
    },
    Closed,
    Reset,
}

#[derive(Clone, Debug)]
struct Mapping {
    public: SocketAddr,
    peer: SocketAddr,
    state: State,
    /// More than one connection has used it.
    shared: bool,
    until_ns: u64,
    lifetime_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filtering {
    Nobody,
    Address,
    Endpoint,
}

/// Mappings at once, of a host, and TCP ones without an answer.
#[derive(Clone, Copy)]
struct Limits {
    sessions: usize,
    per_host: usize,
    half_open: usize,
}

struct Model {
    filtering: Filtering,
    limits: Limits,
    mappings: HashMap<Point, Mapping>,
    /// Public endpoints of mappings that have ended: when, and before which packet.
    ended: HashMap<Point, (u64, u64)>,
    packets: u64,
    /// Further peers that may answer, and until when.
    permitted: HashMap<(Point, SocketAddr), u64>,
}

fn lifetime_ns(protocol: u8, state: State) -> u64 {
    let seconds = match state {
        State::Open if protocol == UDP => 300,
        State::Open => 60,
        State::HalfOpen => 30,
        State::Answered | State::Closed | State::Reset => 240,
        State::Established | State::Finished { .. } => 7_440,
    };
    seconds * SECOND
}

/// The state after a segment of the connection that is followed.
fn next(state: State, flags: u8, from_inside: bool, shared: bool) -> State {
    use State::*;
    let fin = flags & FIN != 0 && !shared;
    match state {
        Open => Open,
        HalfOpen if flags & RST != 0 || from_inside => HalfOpen,
        _ if flags & RST != 0 => {
            if shared {
                state
            } else {
                Reset
            }
        }
        HalfOpen => Answered,
        Closed | Reset | Finished { .. } if from_inside && flags & SYN != 0 => {
            if shared {
                Established
            } else {
                HalfOpen
            }
        }
        Reset => Established,
        Answered | Established if fin => Finished { inside: from_inside },
        Answered if from_inside && flags & SYN == 0 => Established,
        Finished { inside } if fin && inside != from_inside => Closed,
        _ => state,
    }
}

impl Model {
    fn forget(&mut self, now_ns: u64) {
        self.packets += 1;
        let (ended, packets) = (&mut self.ended, self.packets);
        self.mappings.retain(|(protocol, _), mapping| {
            if now_ns >= mapping.until_ns {
                ended.insert((*protocol, mapping.public), (mapping.until_ns, packets));
            }
            now_ns < mapping.until_ns
        });
        ended.retain(|_, (at_ns, packet)| {
            now_ns < *at_ns + COLLECTED_NS || packets <= *packet + COLLECTED_PACKETS
        });
        self.permitted.retain(|_, until_ns| now_ns < *until_ns);
    }

    /// What of a peer the filtering looks at.
    fn filtered(&self, protocol: u8, peer: SocketAddr) -> SocketAddr {
        let by_port = self.filtering == Filtering::Endpoint && protocol != ICMP;
        SocketAddr::new(peer.ip(), if by_port { peer.port() } else { 0 })
    }

    fn follow(&mut self, inside: Point, peer: SocketAddr, flags: u8, from_inside: bool, now: u64) {
        let mapping = self.mappings.get_mut(&inside).unwrap();
        let before = mapping.state;
        if inside.0 == TCP {
            let over = matches!(before, State::Closed | State::Reset);
            if peer != mapping.peer && from_inside && flags & SYN != 0 {
                if over && !mapping.shared { mapping.peer = peer } else { mapping.shared = true }
            }
            let is_of_it = peer == mapping.peer || mapping.shared;
            if is_of_it {
                mapping.state = next(before, flags, from_inside, mapping.shared);
            } else if !from_inside {
                // A stranger prolongs nothing.
                return;
            }
        }
        mapping.lifetime_ns = lifetime_ns(inside.0, mapping.state);
        mapping.until_ns = now + mapping.lifetime_ns;
    }

    /// From inside: the reasons for which the packet may be dropped, one of which must be given.
    fn refusals(&self, inside: Point, flags: u8) -> Vec<&'static str> {
        let mut refusals = Vec::new();
        if self.mappings.contains_key(&inside) {
            return refusals;
        }
        if flags & RST != 0 {
            return vec!["no-mapping"];
        }
        let of_host = self.mappings.keys().filter(|(_, end)| end.ip() == inside.1.ip()).count();
        let half_open = self.mappings.values().filter(|one| one.state == State::HalfOpen).count();
        let limit = self.limits.half_open;
        let is_over_share = half_open >= limit - limit / 2 && of_host > (limit / 16).max(64);
        if inside.0 == TCP && (half_open >= limit || is_over_share) {
            refusals.push("half-open-limit");
        }
        if of_host >= self.limits.per_host {
            refusals.push("host-limit");
        }
        if self.mappings.len() >= self.limits.sessions {
            refusals.push("table-full");
        }
        refusals
    }

    /// A packet from inside was translated to come from `public`.
    fn left(&mut self, inside: Point, peer: SocketAddr, flags: u8, public: SocketAddr, now: u64) {
        if let Some(mapping) = self.mappings.get(&inside) {
            assert_eq!(public, mapping.public, "the mapping depends on the inside endpoint only");
            let (first, this) = (mapping.peer, self.filtered(inside.0, peer));
            self.follow(inside, peer, flags, true, now);
            if this != self.filtered(inside.0, first) {
                let until_ns = now + lifetime_ns(inside.0, self.mappings[&inside].state);
                self.permitted.insert((inside, this), until_ns);
            }
            return;
        }
        self.assert_public_is_right(inside, public);
        let state = if inside.0 == TCP { State::HalfOpen } else { State::Open };
        let lifetime_ns = lifetime_ns(inside.0, state);
        let until_ns = now + lifetime_ns;
        let mapping = Mapping { public, peer, state, shared: false, until_ns, lifetime_ns };
        self.mappings.insert(inside, mapping);
    }

    fn assert_public_is_right(&self, inside: Point, public: SocketAddr) {
        let IpAddr::V4(address) = public.ip() else { panic!("{public}") };
        assert!(PUBLIC.contains(&address) && (FIRST_PORT..=LAST_PORT).contains(&public.port()));
        let taken = |port: u16| {
            let point = (inside.0, SocketAddr::new(public.ip(), port));
            let live = self.mappings.iter().any(|(one, is)| (one.0, is.public) == point);
            (live, live || self.ended.contains_key(&point))
        };
        assert!(!taken(public.port()).0, "{public} is given twice");
        // Hosts keep their public address, and their port where it is free (RFC 4787 REQ-2, REQ-3).
        let mut of_host = self.mappings.iter().filter(|(one, _)| one.1.ip() == inside.1.ip());
        assert!(of_host.all(|(_, mapping)| mapping.public.ip() == public.ip()), "not paired");
        let port = inside.1.port();
        let preserved = port == public.port();
        let could = (FIRST_PORT..=LAST_PORT).contains(&port) && !taken(port).1;
        assert!(preserved || !could, "{port} was free, and became {}", public.port());
        assert!(inside.0 != UDP || public.port() % 2 == port % 2, "parity (RFC 4787 REQ-4)");
    }

    /// From outside: where the packet goes, or why not.
    fn entering(
        &mut self,
        public: Point,
        peer: SocketAddr,
        flags: u8,
        now: u64,
    ) -> Result<SocketAddr, &'static str> {
        if !PUBLIC.map(IpAddr::V4).contains(&public.1.ip()) {
            return Err("not-public");
        }
        let found = self.mappings.iter().find(|(one, is)| (one.0, is.public) == public);
        let Some((&inside, mapping)) = found else { return Err("unsolicited") };
        let this = self.filtered(public.0, peer);
        let is_permitted = self.filtering == Filtering::Nobody
            || this == self.filtered(public.0, mapping.peer)
            || self.permitted.contains_key(&(inside, this));
        if !is_permitted {
            return Err("filtered");
        }
        self.follow(inside, peer, flags, false, now);
        Ok(inside.1)
    }
}

/// A random packet: from inside or to a public endpoint, mostly one that exists.
#[derive(Debug)]
struct Sent {
    port: u8,
    ends: Ends,
    flags: u8,
}

const FLAGS: [u8; 7] = [SYN, SYN, ACK, ACK, FIN | ACK, RST, SYN | ACK];

fn random_packet(random: &mut Random, model: &Model, protocols: &[u8], hosts: u8) -> Sent {
    let protocol = one(random, protocols);
    let flags = if protocol == TCP { one(random, &FLAGS) } else { 0 };
    let peer = SocketAddr::new([198, 51, 100, one(random, &[1, 2])].into(), one(random, &[80, 81]));
    if random.chance(0.5) {
        let host = [10, 0, 0, random.below(u32::from(hosts)) as u8].into();
        let port = one(random, &[5, 6, 1_030, 1_031, 1_033, 40_000]);
        let inside = SocketAddr::new(host, port);
        // An echo has one identifier for both ends.
        let peer = if protocol == ICMP { SocketAddr::new(peer.ip(), port) } else { peer };
        return Sent {
            port: LAN,
            ends: Ends { src: pair(inside), dst: pair(peer), protocol },
            flags,
        };
    }
    let mut publics: Vec<SocketAddr> = model
        .mappings
        .iter()
        .filter(|(one, _)| one.0 == protocol)
        .map(|(_, mapping)| mapping.public)
        .collect();
    publics.sort();
    publics.push(SocketAddr::new(PUBLIC[0].into(), 1_200 + random.below(9) as u16));
    if random.chance(0.05) {
        publics = vec![SocketAddr::new([203, 0, 113, 3].into(), 1_030)];
    }
    let public = one(random, &publics);
    let peer = if protocol == ICMP { SocketAddr::new(peer.ip(), public.port()) } else { peer };
    Sent { port: WAN, ends: Ends { src: pair(peer), dst: pair(public), protocol }, flags }
}

fn pair(end: SocketAddr) -> (IpAddr, u16) {
    (end.ip(), end.port())
}

fn frame(sent: &Sent) -> Vec<u8> {
    let (src, dst) = (SocketAddr::from(sent.ends.src), SocketAddr::from(sent.ends.dst));
    match sent.ends.protocol {
        TCP => tcp_between(src, dst, sent.flags),
        UDP => udp_between(src, dst),
        _ => echo_between(src.ip(), dst.ip(), sent.port == WAN, src.port()),
    }
}

/// Source and destination of the packet that left through `port`.
fn translated(outcome: &Outcome, port: u8) -> Option<(SocketAddr, SocketAddr)> {
    let [(to, bytes)] = outcome.forwarded() else { return None };
    assert_eq!(*to, port);
    let packet = Captured { at_ns: 0, wire_len: bytes.len() as u32, bytes: bytes.clone() };
    ends(&packet).map(|ends| (ends.src.into(), ends.dst.into()))
}

/// One packet through both; returns the verdict's word.
fn step(nf: &mut Harness<nat::Function>, model: &mut Model, sent: &Sent, now: u64) -> &'static str {
    nf.at(now);
    model.forget(now);
    let outcome = nf.send(sent.port, &frame(sent));
    let Ends { src, dst, protocol } = sent.ends;
    let (src, dst) = (SocketAddr::from(src), SocketAddr::from(dst));
    if sent.port == LAN {
        let refusals = model.refusals((protocol, src), sent.flags);
        return match translated(&outcome, WAN) {
            Some((public, to)) => {
                assert!(refusals.is_empty(), "passed in spite of {refusals:?}");
                let expected = if protocol == ICMP { public.port() } else { dst.port() };
                assert_eq!(to, SocketAddr::new(dst.ip(), expected));
                model.left((protocol, src), dst, sent.flags, public, now);
                "left"
            }
            None => {
                let word = outcome.dropped().unwrap();
                assert!(refusals.contains(&word), "{word} is none of {refusals:?}");
                word
            }
        };
    }
    let expected = model.entering((protocol, dst), src, sent.flags, now);
    assert_eq!(translated(&outcome, LAN).map(|(_, to)| to), expected.ok());
    if let Some((from, to)) = translated(&outcome, LAN) {
        let port = if protocol == ICMP { to.port() } else { src.port() };
        assert_eq!(from, SocketAddr::new(src.ip(), port), "the peer stays as it is");
    }
    assert_eq!(outcome.dropped(), expected.err());
    expected.err().unwrap_or("entered")
}

/// Says at which packet the models parted.
struct Told<'a>(std::fmt::Arguments<'a>);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.0);
        }
    }
}

struct Setting {
    filtering: Filtering,
    limits: Limits,
    protocols: &'static [u8],
    hosts: u8,
    lifetimes_s: &'static [u64],
}

const AMPLE: Limits = Limits { sessions: 10_000, per_host: 16_384, half_open: 2_500 };

fn compare(seed: u64, setting: &Setting, seen: &mut HashMap<&'static str, u32>) {
    let mut random = Random::new(seed);
    let Setting { filtering, limits, protocols, hosts, lifetimes_s } = *setting;
    let filter = match filtering {
        Filtering::Nobody => "endpoint-independent",
        Filtering::Address => "address-dependent",
        Filtering::Endpoint => "address-and-port-dependent",
    };
    let percent = limits.half_open * 100 / limits.sessions;
    let settings = format!(
        "public = ['{}', '{}']\nfirst_port = {FIRST_PORT}\nlast_port = {LAST_PORT}\n\
         filtering = '{filter}'\nsessions = {}\nsessions_per_host = {}\nhalf_open_percent = {percent}",
        PUBLIC[0], PUBLIC[1], limits.sessions, limits.per_host
    );
    let mut nf = Harness::<nat::Function>::with_table(settings.parse().unwrap()).unwrap();
    let (mappings, ended, permitted) = Default::default();
    let mut model = Model { filtering, limits, mappings, ended, packets: 0, permitted };
    let mut now_ns = 0;
    for number in 0..1_500 {
        now_ns += if lifetimes_s.is_empty() { 0 } else { pause(&mut random, lifetimes_s) };
        let sent = random_packet(&mut random, &model, protocols, hosts);
        let _told = Told(format_args!("seed {seed}, packet {number} at {now_ns} ns: {sent:?}"));
        let word = step(&mut nf, &mut model, &sent, now_ns);
        *seen.entry(word).or_default() += 1;
    }
}

fn compare_all(seeds: std::ops::Range<u64>, setting: &Setting) -> HashMap<&'static str, u32> {
    let mut seen = HashMap::new();
    seeds.for_each(|seed| compare(seed, setting, &mut seen));
    seen
}

#[test]
fn the_nat_maps_by_inside_endpoint() {
    let seen = compare_all(
        0..80,
        &Setting {
            filtering: Filtering::Nobody,
            limits: AMPLE,
            protocols: &[TCP, TCP, UDP, ICMP],
            hosts: 5,
            lifetimes_s: &[30, 60, 240, 300, 1, 1, 1, 7_440],
        },
    );
    for word in ["left", "entered", "unsolicited", "not-public", "no-mapping"] {
        assert!(seen[word] > 500, "{seen:?}");
    }
}

#[test]
fn the_nat_lets_in_whom_the_filtering_lets_in() {
    for filtering in [Filtering::Address, Filtering::Endpoint] {
        let seen = compare_all(
            100..140,
            &Setting {
                filtering,
                limits: AMPLE,
                protocols: &[UDP, UDP, ICMP],
                hosts: 3,
                lifetimes_s: &[60, 300, 1, 1],
            },
        );
        assert!(seen["filtered"] > 1_000 && seen["entered"] > 1_000, "{seen:?}");
    }
}

#[test]
fn the_nat_keeps_its_limits() {
    let limits = Limits { sessions: 100, per_host: 12, half_open: 20 };
    let protocols = &[TCP, UDP, ICMP];
    let filtering = Filtering::Nobody;
    let limited = |hosts, words: &[&str]| {
        let setting = Setting { filtering, limits, protocols, hosts, lifetimes_s: &[] };
        let seen = compare_all(200..230, &setting);
        for &word in words {
            assert!(seen.get(word).is_some_and(|&count| count > 100), "{word}: {seen:?}");
        }
    };
    limited(30, &["left", "half-open-limit", "table-full"]);
    limited(4, &["left", "host-limit"]);
}
