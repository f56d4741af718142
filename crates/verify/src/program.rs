//! Traffic as a program: each run instantiates it with what came out of itself, so that a reply goes
//! to the port that this run allocated.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use anabranch_packet::craft::{self, IcmpError};

use crate::edit::{Edit, with_packet};
use crate::endpoint::{Placed, endpoints};
use crate::run::Handled;

/// A sequence of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// In order.
    pub steps: Vec<Step>,
    /// Packets that are not sent.
    pub avoid: Option<Arc<Allocated>>,
}

/// Endpoints that allocators give out. What is sent there unasked finds by chance what one run has
/// given out and another has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// Number of the port at which replies arrive.
    pub port: u8,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Ports and identifiers from this on may have been given out: the first of allocators, 1,024 at most.
    pub first: u16,
    /// Shards lend them one another: what comes to one may be overtaken on its way to the borrower.
    pub lends: bool,
}

/// Ports and identifiers that packets have of their own are below this.
pub(crate) const HIGH_PORTS: u16 = 1_024;

impl Allocated {
    /// Whether `arrival` goes to an endpoint that an allocator may have given out.
    pub(crate) fn is_to(&self, arrival: &Arrival) -> bool {
        let ends = endpoints(&arrival.bytes);
        ends.get(1).is_some_and(|to| self.addresses.contains(&to.endpoint.address))
    }

    /// Whether what `arrival` finds is chance: a packet of given bytes, or with
    /// an address put in, to an endpoint that may have been given out; or an echo from within, whose identifier is replaced at both ends.
    fn is_chance(&self, arrival: &Arrival, is_literal: bool) -> bool {
        let ends = endpoints(&arrival.bytes);
        let [_, to, quoted @ ..] = &ends[..] else { return false };
        let is_known = |end: &Placed| self.addresses.contains(&end.endpoint.address);
        let given = |end: &Placed| is_known(end) && end.endpoint.port >= self.first;
        let is_asked_for = is_literal && (given(to) || quoted.first().is_some_and(given));
        let is_echo_from_within = arrival.port != self.port && to.shares_port && is_known(to);
        is_asked_for || is_echo_from_within
    }

    /// Whether a packet may bring an allocated port, which is another one in another run.
    fn may_be_in(&self, arrival: &Arrival) -> bool {
        endpoints(&arrival.bytes).iter().any(|end| end.endpoint.port >= self.first)
    }
}

/// One step, and a name that it keeps when others are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: u32,
    /// What happens.
    pub act: Act,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A packet arrives.
    Packet(Template),
    /// A command is given, as `--control` takes it, once all packets before it have been handled.
    Command(String),
    /// All packets before it have been handled, then so many nanoseconds pass. Packets between two
    /// pauses arrive at the same time.
    Pause(u64),
}

/// How a packet is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Where it comes from.
    pub origin: Origin,
    /// Number of the port at which it arrives; `None`: that at which its cause left.
    pub port: Option<u8>,
    /// Changes, in order.
    pub edits: Vec<Edit>,
}

/// What a packet is made from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// These bytes, of so many on the wire.
    Bytes(Vec<u8>, u32),
    /// What came in in step `.0`.
    Again(u32),
    /// What came out of step `.0` as its output `.1`, sent back: ends swapped.
    Answer(u32, usize),
    /// An ICMP error about what came out of step `.0` as its output `.1`, from a router of this address
    /// or from whom it went to.
    Quote(u32, usize, IcmpError, Option<IpAddr>),
}

/// A packet as it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the port.
    pub port: u8,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Bytes on the wire.
    pub wire_len: u32,
}

impl Origin {
    /// The step it depends on.
    pub fn cause(&self) -> Option<u32> {
        match self {
            Self::Bytes(..) => None,
            Self::Again(step) | Self::Answer(step, _) | Self::Quote(step, ..) => Some(*step),
        }
    }
}

impl Origin {
    /// The step it depends on is now called `name`.
    pub(crate) fn rename(&mut self, name: Option<u32>) {
        let Some(name) = name else { return };
        match self {
            Self::Bytes(..) => {}
            Self::Again(step) | Self::Answer(step, _) | Self::Quote(step, ..) => *step = name,
        }
    }
}

impl Template {
    /// A packet of these bytes.
    pub fn literal(port: u8, bytes: Vec<u8>) -> Self {
        let wire_len = bytes.len() as u32;
        Self { origin: Origin::Bytes(bytes, wire_len), port: Some(port), edits: Vec::new() }
    }

    /// Was so many bytes long on the wire, if that is more.
    pub fn lengthen(&mut self, on_the_wire: u32) {
        if let Origin::Bytes(_, wire_len) = &mut self.origin {
            *wire_len = on_the_wire.max(*wire_len);
        }
    }

    /// Has what the second of each of `changes` puts in where it has what the first would: in its own bytes, and
    /// among its changes.
    pub(crate) fn replace(&mut self, changes: &[[Edit; 2]]) {
        for edit in &mut self.edits {
            if let Some([_, new]) = changes.iter().find(|[old, _]| old == edit) {
                *edit = *new;
            }
        }
        if let Origin::Bytes(bytes, _) = &mut self.origin {
            let before = bytes.clone();
            let has = |old: Edit| {
                let mut same = before.clone();
                old.apply(&mut same);
                same == before
            };
            changes.iter().filter(|[old, _]| has(*old)).for_each(|[_, new]| new.apply(bytes));
        }
    }

    /// The packet, where `cause` is what its run made of the step it depends on. `None`: nothing came
    /// out there, so nothing is sent.
    pub fn instantiate(&self, cause: Option<&Handled>) -> Option<Arrival> {
        let mut arrival = self.raw(cause)?;
        arrival.port = self.port.unwrap_or(arrival.port);
        for edit in &self.edits {
            edit.apply(&mut arrival.bytes);
        }
        arrival.wire_len = arrival.wire_len.max(arrival.bytes.len() as u32);
        Some(arrival)
    }

    fn raw(&self, cause: Option<&Handled>) -> Option<Arrival> {
        let made = |port: u8, bytes: Vec<u8>| {
            let wire_len = bytes.len() as u32;
            Arrival { port, bytes, wire_len }
        };
        match &self.origin {
            Origin::Bytes(bytes, wire_len) => {
                Some(Arrival { port: 0, bytes: bytes.clone(), wire_len: *wire_len })
            }
            Origin::Again(_) => cause?.arrival.clone(),
            Origin::Answer(_, output) => {
                let (port, bytes) = cause?.outcome.sent.get(*output)?;
                Some(made(*port, answer(bytes.clone())))
            }
            Origin::Quote(_, output, error, router) => {
                let (port, bytes) = cause?.outcome.sent.get(*output)?;
                Some(made(*port, quote(bytes.clone(), *error, *router)?))
            }
        }
    }
}

/// The packet with its ends swapped; an echo request becomes its reply.
fn answer(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(reply) = echo_reply(&mut bytes).or_else(|| neighbour(&mut bytes)) {
        return reply;
    }
    if let Some((dst, src)) = bytes.get_mut(..12).map(|macs| macs.split_at_mut(6)) {
        dst.swap_with_slice(src);
    }
    with_packet(&mut bytes, |packet| {
        if let Some(mut ip) = packet.ipv4_mut() {
            let (src, dst) = (ip.src(), ip.dst());
            ip.set_src(dst);
            ip.set_dst(src);
        }
        if let Some(mut ip) = packet.ipv6_mut() {
            let (src, dst) = (ip.src(), ip.dst());
            ip.set_src(dst);
            ip.set_dst(src);
        }
        if let (Some(src), Some(dst)) = (packet.src_port(), packet.dst_port()) {
            packet.set_src_port(dst);
            packet.set_dst_port(src);
        }
    });
    bytes
}

fn echo_reply(request: &mut [u8]) -> Option<Vec<u8>> {
    let mut out = vec![0; request.len() + 64];
    let len = with_packet(request, |packet| {
        let is_request = packet.icmpv4().is_some_and(|icmp| icmp.kind() == 8)
            || packet.icmpv6().is_some_and(|icmp| icmp.kind() == 128);
        is_request.then(|| craft::echo_reply(&mut out, packet)).flatten()
    })?;
    out.truncate(len);
    Some(out)
}

/// The answer of a host that is asked for its Ethernet address: in it the octets of its IP address that
/// tell hosts apart.
fn neighbour(request: &mut [u8]) -> Option<Vec<u8>> {
    let mut out = vec![0; 128];
    let len = with_packet(request, |packet| {
        let address: IpAddr = match packet.arp() {
            Some(arp) => arp.target_ip().into(),
            None => craft::neighbour_message(packet)?.target.into(),
        };
        let [third, last] = match address {
            IpAddr::V4(address) => [address.octets()[1], address.octets()[3]],
            IpAddr::V6(address) => [address.octets()[3], address.octets()[15]],
        };
        let mac = [2, 0, 0, 0, third, last].into();
        craft::arp_reply(&mut out, packet, mac)
            .or_else(|| craft::neighbour_advertisement(&mut out, packet, mac, false))
    })?;
    out.truncate(len);
    Some(out)
}

fn quote(mut bytes: Vec<u8>, error: IcmpError, router: Option<IpAddr>) -> Option<Vec<u8>> {
    let mut out = vec![0; 1_500];
    let len = with_packet(&mut bytes, |packet| {
        let dst: IpAddr = match packet.ipv4() {
            Some(ip) => ip.dst().into(),
            None => packet.ipv6()?.dst().into(),
        };
        let sender = router.filter(|router| router.is_ipv4() == dst.is_ipv4()).unwrap_or(dst);
        craft::icmp_error(&mut out, packet, sender, error)
    })?;
    out.truncate(len);
    Some(out)
}

impl Program {
    /// Packets, whether or not a run has a cause to send them.
    pub fn packets(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.act, Act::Packet(_))).count()
    }

    /// The packet that `template` makes where `cause` is what its run made of the step it depends on,
    /// unless it is to be avoided.
    pub(crate) fn arrival(&self, template: &Template, cause: Option<&Handled>) -> Option<Arrival> {
        let arrival = template.instantiate(cause)?;
        let is_literal = template.origin.cause().is_none();
        let avoided = self.avoid.as_ref().is_some_and(|all| {
            let puts_in = |edit: &Edit| match edit {
                Edit::Src(_) | Edit::Dst(_) | Edit::Protocol(_) | Edit::Kind(_) => true,
                Edit::SrcPort(port) | Edit::DstPort(port) | Edit::Id(port) => *port >= all.first,
                _ => false,
            };
            match !is_literal && template.edits.iter().any(puts_in) {
                true => all.is_chance(&arrival, true) || all.may_be_in(&arrival),
                false => all.is_chance(&arrival, is_literal),
            }
        });
        (!avoided).then_some(arrival)
    }

    /// These steps of it, without what depends on others.
    pub fn part(&self, steps: impl Iterator<Item = Step>) -> Self {
        let mut known = std::collections::HashSet::new();
        let has_cause = |step: &Step| {
            let cause = step.cause();
            let here = cause.is_none_or(|cause| known.contains(&cause));
            if here {
                known.insert(step.name);
            }
            here
        };
        Self { steps: steps.filter(has_cause).collect(), avoid: self.avoid.clone() }
    }
}

impl Step {
    /// The step that its packet is made from.
    pub fn cause(&self) -> Option<u32> {
        match &self.act {
            Act::Packet(template) => template.origin.cause(),
            _ => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(..) => f.write_str("packet"),
            Self::Again(step) => write!(f, "as step {step} sent"),
            Self::Answer(step, 0) => write!(f, "answer to what came out of step {step}"),
            Self::Answer(step, output) => write!(f, "answer to output {output} of step {step}"),
            Self::Quote(step, _, error, _) => {
                write!(f, "ICMP error {error:?} about what came out of step {step}")
            }
        }
    }
}
