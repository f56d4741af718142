//! L3 as a network function sees it: frames in, verdicts and frames out.

mod configuration;
mod errors;
mod forwarding;
mod listening;
mod neighbours;
mod robustness;
mod together;

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_packet::craft::{self, Link};
use anabranch_packet::{Frame, MacAddr, Meta, Packet, Port, checksum, parse};

use crate::context::{Context, Environment};
use crate::l3::{L3, Learned};
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::Solo;

pub(super) const LAN: Port = Port::new(0);
pub(super) const WAN: Port = Port::new(1);
pub(super) const LAN_MAC: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 1);
pub(super) const WAN_MAC: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 2);
pub(super) const HOST_MAC: MacAddr = MacAddr::new(2, 0, 0, 0, 1, 7);
pub(super) const GATEWAY_MAC: MacAddr = MacAddr::new(2, 0, 0, 0, 2, 1);
pub(super) const SECOND: u64 = 1_000_000_000;

/// Two links, a default route each for IPv4 and IPv6 over the second; the gateways are known.
pub(super) const NETWORK: &str = r#"
    [interfaces.lan]
    mac = "02:00:00:00:00:01"
    addresses = ["10.0.0.1/24", "2001:db8:1::1/64"]
    [interfaces.wan]
    mac = "02:00:00:00:00:02"
    addresses = ["198.51.100.2/24", "2001:db8:2::2/64"]
    mtu = 1280
    [[routes]]
    to = "0.0.0.0/0"
    via = "198.51.100.1"
    [[routes]]
    to = "2000::/3"
    via = "2001:db8:2::1"
    [[neighbours]]
    address = "198.51.100.1"
    mac = "02:00:00:00:02:01"
    [[neighbours]]
    address = "2001:db8:2::1"
    mac = "02:00:00:00:02:01"
"#;

pub(super) fn read(text: &str) -> Result<L3, String> {
    read_with(text, &Arc::default())
}

/// The router of one worker of those that have `learned` in common.
pub(super) fn read_with(text: &str, learned: &Arc<Learned>) -> Result<L3, String> {
    let table = text.parse().unwrap();
    L3::new(&table, &["lan".to_owned(), "wan".to_owned()], 7, Arc::clone(learned))
}

/// A frame that is written.
pub(super) fn made(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut out = vec![0; 256];
    let len = write(&mut out).unwrap();
    out.truncate(len);
    out
}

/// What became of one packet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// What `receive` said; `None`: what `forward` said comes next.
    pub received: Option<Verdict>,
    pub verdict: Verdict,
    pub bytes: Vec<u8>,
    pub emitted: Vec<(Port, Vec<u8>)>,
}

/// A router, its clock, and its output.
pub(super) struct Router {
    pub l3: L3,
    pub environment: Environment,
    pub now: u64,
    /// Whether what is emitted must be well-formed, as it is when what comes in is.
    pub checks_output: bool,
    number: u64,
}

impl Router {
    pub fn new(text: &str) -> Self {
        let l3 = read(text).unwrap();
        let now = 1_700_000_000 * SECOND;
        Self { l3, environment: Environment::new(1), now, checks_output: true, number: 0 }
    }

    /// What is due `ns` later is done, at its time; returns what was sent.
    pub fn wait(&mut self, ns: u64) -> Vec<(Port, Vec<u8>)> {
        self.now += ns;
        let mut emitted = Vec::new();
        while self.environment.due() <= self.now {
            self.follow_up(&mut emitted);
        }
        emitted
    }

    /// Does what is due next.
    pub fn follow_up(&mut self, emitted: &mut Vec<(Port, Vec<u8>)>) {
        let due = self.environment.due();
        self.environment.begin_event(due);
        assert!(self.environment.take_routing(due));
        self.l3.follow_up(&mut Context::<Solo>::new(&mut self.environment));
        self.environment.emitted().drain(|port, bytes| emitted.push((port, bytes.to_vec())));
    }

    /// The packet is received, rewritten by `rewrite`, and forwarded if it is not ours. What was due is done before.
    pub fn send_through(
        &mut self,
        port: Port,
        frame: &[u8],
        rewrite: impl FnOnce(&mut Packet<'_>),
    ) -> Outcome {
        let mut emitted = self.wait(0);
        self.number += 1;
        self.environment.begin(self.now, self.number);
        let mut buffer = frame.to_vec();
        let wire_len = frame.len() as u32;
        let meta = Meta { number: self.number, port, wire_len, ..Meta::default() };
        let mut frame = Frame::new(&mut buffer, 0, wire_len as usize, 0, meta);
        let layout = parse(frame.bytes(), wire_len);
        let mut packet = Packet::new(&mut frame, layout);
        let mut cx = Context::<Solo>::new(&mut self.environment);
        let received = self.l3.receive(&mut packet, &mut cx);
        let verdict = received.unwrap_or_else(|| {
            rewrite(&mut packet);
            self.l3.forward(&mut packet, &mut cx)
        });
        self.environment.emitted().drain(|port, bytes| emitted.push((port, bytes.to_vec())));
        if self.checks_output {
            emitted.iter().for_each(|(_, bytes)| assert_intact(bytes));
        }
        Outcome { received, verdict, bytes: buffer, emitted }
    }

    pub fn send(&mut self, port: Port, frame: &[u8]) -> Outcome {
        self.send_through(port, frame, |_| {})
    }
}

/// Calls `look` with the packet in `frame`.
pub(super) fn with_packet<R>(frame: &[u8], look: impl FnOnce(&mut Packet<'_>) -> R) -> R {
    let mut buffer = frame.to_vec();
    let wire_len = frame.len() as u32;
    let mut frame =
        Frame::new(&mut buffer, 0, frame.len(), 0, Meta { wire_len, ..Meta::default() });
    let layout = parse(frame.bytes(), wire_len);
    look(&mut Packet::new(&mut frame, layout))
}

/// Nothing is malformed and every checksum is right.
pub(super) fn assert_intact(frame: &[u8]) {
    with_packet(frame, |packet| {
        assert_eq!(packet.layout().malformed(), None);
        let report = checksum::verify(packet);
        assert!(report.is_ok(), "{report:?} in {frame:02x?}");
    });
}

pub(super) fn socket(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// A UDP packet with `len` bytes of payload, each telling its place.
pub(super) fn udp(src_mac: MacAddr, dst_mac: MacAddr, src: &str, dst: &str, len: usize) -> Vec<u8> {
    let link = Link { src: src_mac, dst: dst_mac, tags: [None; 2] };
    let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
    let mut out = vec![0; len + 128];
    let written =
        craft::udp(&mut out, &link, socket(src, 4_000), socket(dst, 53), &payload).unwrap();
    out.truncate(written);
    out
}

/// From a host on the LAN to our LAN station.
pub(super) fn outbound(src: &str, dst: &str, len: usize) -> Vec<u8> {
    udp(HOST_MAC, LAN_MAC, src, dst, len)
}

/// From the gateway to our WAN station.
pub(super) fn inbound(src: &str, dst: &str, len: usize) -> Vec<u8> {
    udp(GATEWAY_MAC, WAN_MAC, src, dst, len)
}

/// The frame with changes by `change`.
pub(super) fn changed(frame: &[u8], change: impl FnOnce(&mut Packet<'_>)) -> Vec<u8> {
    with_packet(frame, |packet| {
        change(packet);
        packet.bytes().to_vec()
    })
}

pub(super) fn with_hops(frame: &[u8], hops: u8) -> Vec<u8> {
    changed(frame, |packet| {
        if let Some(mut ipv4) = packet.ipv4_mut() {
            ipv4.set_ttl(hops);
        } else if let Some(mut ipv6) = packet.ipv6_mut() {
            ipv6.set_hop_limit(hops);
        }
    })
}

pub(super) fn macs(frame: &[u8]) -> (MacAddr, MacAddr) {
    with_packet(frame, |packet| (packet.ethernet().dst(), packet.ethernet().src()))
}

pub(super) fn drop(reason: Builtin) -> Verdict {
    Drop(reason)
}
