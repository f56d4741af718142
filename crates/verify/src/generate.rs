//! Random traffic: conversations between few hosts, so that state is met again, full of what hosts
//! seldom do.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_nf::l3::{ERROR_INTERVAL_NS, ERRORS_AT_ONCE};
use anabranch_packet::MacAddr;
use anabranch_packet::craft::{self, Echo, IcmpError, Link, Segment, tcp_flags};
use anabranch_packet::fuzzing::{Seeds, samples};

use crate::edit::Edit;
use crate::guide::{Guide, Known, Lead};
use crate::program::{Act, HIGH_PORTS, Origin, Program, Step, Template};
use crate::setup::{Command, Setup};

mod probing;

/// Hosts of a port.
pub(crate) const HOSTS: usize = 6;
/// Stations behind a port.
pub(crate) const STATIONS: usize = 4;
/// Transport ports that most packets have, from 1 on.
pub(crate) const LOW_PORTS: usize = 8;
/// Steps back that a packet may depend on.
const REACH: usize = 96;

/// Packets at most between sequences.
const FILLING: usize = 16;

/// The last byte of the function's own addresses, where it has interfaces, and the second of addresses that no
/// interface leads to.
pub(crate) const ITSELF: u8 = 254;
const NOWHERE: u8 = 99;

/// Third byte of the addresses of routers on the way.
const ROUTERS: u8 = 200;
const GRE: u8 = 47;
const ESP: u8 = 50;
const SCTP: u8 = 132;

/// Draws programs.
pub struct Generator<'s> {
    setup: &'s Setup,
    chance: Seeds,
    /// Packets of every shape.
    shapes: Vec<Vec<u8>>,
    /// Packets so far, by name of the step.
    sent: Vec<u32>,
    next: u32,
    /// Commands in a thousand steps.
    commands: usize,
    /// Packets in a hundred that are IPv4 where they could be IPv6.
    ipv4: usize,
    /// ICMP errors that would have been sent too early, were there one about each packet.
    errors: u64,
    /// Whether more may end at once than is collected with a packet: shards collect each its own, and so sooner.
    crowds: bool,
}

impl<'s> Generator<'s> {
    /// A generator of the programs of `seed`.
    pub fn new(setup: &'s Setup, seed: u64) -> Self {
        let (chance, shapes) = (Seeds::new(seed), samples());
        let (sent, next, commands, ipv4, errors) = (Vec::new(), 0, 4, 85, 0);
        let crowds = false;
        Self { setup, chance, shapes, sent, next, commands, ipv4, errors, crowds }
    }

    /// A program of these sequences.
    pub(crate) fn replayed(mut self, sequences: &[Known]) -> Program {
        let mut steps = Vec::new();
        for (_, sequence) in sequences {
            self.paste(sequence, false, &mut steps);
        }
        Program { steps, avoid: self.setup.allocated.clone() }
    }

    /// A program of these sequences, each after others that do the same, or with these before its last packet: what
    /// has little room has none for it.
    pub(crate) fn crowded(mut self, sequences: &[Known]) -> Program {
        let mut steps = Vec::new();
        for (_, sequence) in sequences {
            let Some((last, before)) = sequence.split_last() else { continue };
            if self.is(70) {
                self.shadow(sequence, &mut steps);
            }
            let names = self.paste(before, false, &mut steps);
            if self.is(30) {
                self.shadow(sequence, &mut steps);
            }
            self.paste_step(last, &names, &mut steps);
        }
        Program { steps, avoid: self.setup.allocated.clone() }
    }

    /// A program of `packets` packets, pauses and commands apart.
    pub fn program(mut self, packets: usize) -> Program {
        let mut steps = Vec::with_capacity(packets + packets / 16);
        while self.sent.len() < packets {
            let act = self.act();
            self.push(act, &mut steps);
        }
        Program { steps, avoid: self.setup.allocated.clone() }
    }

    /// A program of about `packets` packets that follows `guide`: its leads, its sequences with changes, and
    /// what comes of them.
    pub fn guided(mut self, packets: usize, guide: &mut Guide) -> Program {
        let mut steps = Vec::with_capacity(2 * packets);
        self.crowds = guide.is_of_rest();
        self.commands = self.pick(&[4, 4, 40, 120]).unwrap_or(4);
        self.ipv4 = self.pick(&[85, 85, 50, 15]).unwrap_or(85);
        while self.sent.len() < packets && !guide.is_empty() {
            let lead = if self.is(50) { guide.take_lead(self.setup) } else { None };
            let probe = match lead {
                None if self.is(70) => guide.take_probe(self.setup, &mut self.chance),
                _ => None,
            };
            match (lead, probe) {
                (Some(lead), _) => self.follow(&lead, &mut steps),
                (None, Some(probe)) => {
                    let other = guide.sequence(&mut self.chance).filter(|_| self.is(25));
                    self.probe(&probe, other, &mut steps);
                }
                (None, None) => {
                    let sequence = guide.sequence(&mut self.chance).cloned().unwrap_or_default();
                    self.paste(&sequence, true, &mut steps);
                }
            }
            for _ in 0..self.chance.below(FILLING) {
                let act = self.act();
                self.push_whole_or_cut(act, &mut steps);
            }
        }
        Program { steps, avoid: self.setup.allocated.clone() }
    }

    fn push(&mut self, act: Act, steps: &mut Vec<Step>) -> u32 {
        if self.setup.is_paced {
            self.pace(&act, steps);
        }
        let name = self.next;
        self.next += 1;
        if matches!(act, Act::Packet(_)) {
            self.sent.push(name);
        }
        steps.push(Step { name, act });
        name
    }

    /// Lets time pass before a packet that might be one more than may be reported.
    fn pace(&mut self, act: &Act, steps: &mut Vec<Step>) {
        match act {
            Act::Packet(_) => {
                if self.errors == ERRORS_AT_ONCE {
                    self.push(Act::Pause(ERRORS_AT_ONCE * ERROR_INTERVAL_NS), steps);
                }
                self.errors += 1;
            }
            Act::Pause(ns) => self.errors = self.errors.saturating_sub(ns / ERROR_INTERVAL_NS),
            Act::Command(_) => {}
        }
    }

    /// As [`push`](Self::push); now and then a packet comes in two fragments, in any order.
    fn push_whole_or_cut(&mut self, act: Act, steps: &mut Vec<Step>) {
        let Act::Packet(whole) = &act else {
            self.push(act, steps);
            return;
        };
        if !self.is(4) {
            self.push(act, steps);
            return;
        }
        let second_first = self.is(50);
        for second in [second_first, !second_first] {
            let mut part = whole.clone();
            part.edits.push(Edit::Part(second));
            self.push(Act::Packet(part), steps);
        }
    }

    /// The sequence, half of the time with what the lead changes changed in all of it, and its last packet changed.
    fn follow(&mut self, lead: &Lead, steps: &mut Vec<Step>) {
        let throughout = !lead.ends.is_empty() && self.is(50);
        let changed = throughout.then(|| lead.throughout());
        self.paste(changed.as_deref().unwrap_or(&lead.sequence), false, steps);
        let Some(Act::Packet(template)) = steps.last().map(|step| step.act.clone()) else { return };
        if lead.says_all {
            return self.say_all(&template, steps);
        }
        let mut template = template;
        template.edits.extend(lead.edits.iter().copied());
        template.port = lead.port.or(template.port);
        if let Some(pause) = lead.pause {
            self.push(Act::Pause(pause), steps);
        }
        self.push(Act::Packet(template), steps);
    }

    /// Adds the packet with each of the payloads that the function looks for, half of the time to one of the ports that
    /// it looks at.
    fn say_all(&mut self, packet: &Template, steps: &mut Vec<Step>) {
        let port = self.pick(&self.setup.known_ports).filter(|_| self.is(50)).map(Edit::DstPort);
        let mut payloads = self.setup.known_payloads.clone();
        let first = self.chance.below(payloads.len());
        payloads.rotate_left(first);
        for payload in payloads {
            let mut packet = packet.clone();
            packet.edits.extend(port);
            packet.edits.push(Edit::Payload(payload));
            self.push(Act::Packet(packet), steps);
        }
    }

    /// Adds the sequence under names of its own, which it returns; with `changes` here and there.
    fn paste(
        &mut self,
        sequence: &[Step],
        changes: bool,
        steps: &mut Vec<Step>,
    ) -> HashMap<u32, u32> {
        let mut names = HashMap::new();
        for step in sequence {
            let mut act = step.act.clone();
            if let Act::Packet(template) = &mut act {
                let cause = template.origin.cause();
                let renamed = cause.and_then(|cause| names.get(&cause).copied());
                if cause.is_some() && renamed.is_none() {
                    continue;
                }
                template.origin.rename(renamed);
                if changes && self.is(8) {
                    self.change(template);
                }
            }
            if changes && self.is(3) {
                let pause = Act::Pause(self.pause());
                self.push(pause, steps);
            }
            if changes && self.is(3) {
                continue;
            }
            let name = self.push(act.clone(), steps);
            names.insert(step.name, name);
            if changes && self.is(5) {
                self.push(act, steps);
            }
        }
        names
    }

    /// Adds one step, made from those that have these names now.
    fn paste_step(&mut self, step: &Step, names: &HashMap<u32, u32>, steps: &mut Vec<Step>) {
        let mut act = step.act.clone();
        if let Act::Packet(template) = &mut act {
            let renamed = template.origin.cause().and_then(|cause| names.get(&cause).copied());
            if renamed.is_none() && template.origin.cause().is_some() {
                return;
            }
            template.origin.rename(renamed);
        }
        self.push(act, steps);
    }

    fn change(&mut self, template: &mut Template) {
        match self.chance.below(4) {
            0 => template.edits.push(Edit::Flags(self.flags())),
            1 => template.port = Some(self.port()),
            2 => {
                template.edits.pop();
            }
            _ => template.edits.extend(self.variation()),
        }
    }

    fn act(&mut self) -> Act {
        let has_commands = !self.setup.commands.is_empty();
        match self.chance.below(1_000) {
            0..30 => Act::Pause(self.pause()),
            drawn if has_commands && drawn < 30 + self.commands => Act::Command(self.command()),
            34..50 => Act::Packet(self.oddity()),
            50..270 => Act::Packet(self.opening()),
            270..480 => self.depending(|name, _| Origin::Again(name)),
            480..900 => self.depending(Origin::Answer),
            900..930 => self.hairpin(),
            _ => {
                let (error, ipv4) = (self.error(), self.is(self.ipv4));
                let router = self.is(50).then(|| address(ROUTERS, 1, ipv4));
                self.depending(|name, output| Origin::Quote(name, output, error, router))
            }
        }
    }

    fn is(&mut self, percent: usize) -> bool {
        self.chance.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.chance.below(from.len())).copied()
    }

    /// Mostly short; now and then as long as the longest lifetimes.
    fn pause(&mut self) -> u64 {
        let magnitude = match self.chance.below(20) {
            0..12 => 6,
            12..17 => 9,
            17 => 10,
            18 => 11,
            _ => 13,
        };
        let most = 10u64.pow(magnitude);
        1 + self.chance.draw() % most
    }

    fn command(&mut self) -> String {
        let at = self.chance.below(self.setup.commands.len());
        let Some(command) = self.setup.commands.get(at) else { return String::new() };
        command.draw(self.setup, &mut self.chance)
    }

    /// One about this address and port, where there is one about such.
    fn command_about(&mut self, end: (IpAddr, u16)) -> String {
        let all = &self.setup.commands;
        let about: Vec<&Command> = all.iter().filter(|command| command.is_about(end.0)).collect();
        match about.get(self.chance.below(about.len())) {
            Some(command) => command.drawn(Some(&end), self.setup, &mut self.chance),
            None => self.command(),
        }
    }

    fn error(&mut self) -> IcmpError {
        let all = [
            IcmpError::TimeExceeded,
            IcmpError::TooBig { mtu: 1_400 },
            IcmpError::NetworkUnreachable,
            IcmpError::HostUnreachable,
            IcmpError::PortUnreachable,
            IcmpError::Prohibited,
        ];
        self.pick(&all).unwrap_or(IcmpError::TimeExceeded)
    }

    /// A packet that depends on a recent one, often the same again and again.
    fn depending(&mut self, origin: impl FnOnce(u32, usize) -> Origin) -> Act {
        let Some(cause) = self.recent() else { return Act::Packet(self.opening()) };
        let output = if self.is(4) { 1 } else { 0 };
        let mut edits = Vec::new();
        if self.is(60) {
            edits.push(Edit::Flags(self.flags()));
        }
        if self.is(12) {
            edits.extend(self.variation());
        }
        let port = self.is(3).then(|| self.port());
        Act::Packet(Template { origin: origin(cause, output), port, edits })
    }

    fn recent(&mut self) -> Option<u32> {
        let reach = self.sent.len().min(REACH);
        let back = self.chance.below(reach).min(self.chance.below(reach));
        self.sent.iter().rev().nth(back).copied()
    }

    /// To where an answer goes, from somebody else on another port.
    fn hairpin(&mut self) -> Act {
        let Some(cause) = self.recent() else { return Act::Packet(self.opening()) };
        let port = self.port();
        let src = self.host(port, true);
        let edits = vec![
            Edit::Src(src),
            Edit::SrcPort(self.transport_port()),
            Edit::Id(self.transport_port()),
            Edit::Flags(self.flags()),
        ];
        Act::Packet(Template { origin: Origin::Answer(cause, 0), port: Some(port), edits })
    }

    fn flags(&mut self) -> u8 {
        use tcp_flags::{ACK, FIN, PSH, RST, SYN};
        let usual = [SYN, SYN | ACK, ACK, ACK, ACK | PSH, FIN | ACK, FIN | ACK, RST, RST | ACK];
        if self.is(4) {
            return self.chance.draw() as u8;
        }
        self.pick(&usual).unwrap_or(ACK)
    }

    fn variation(&mut self) -> Option<Edit> {
        let port = self.port();
        if !self.setup.known_payloads.is_empty() && self.is(25) {
            return self.pick(&self.setup.known_payloads).map(Edit::Payload);
        }
        Some(match self.chance.below(10) {
            0 => Edit::Src(self.host(port, true)),
            1 | 2 => Edit::Dst(self.destination(port, true)),
            3 => Edit::SrcPort(self.transport_port()),
            4 => Edit::DstPort(self.transport_port()),
            5 => Edit::Id(self.transport_port()),
            6 => Edit::Hops(self.pick(&[0, 1, 2, 255])?),
            7 => Edit::Fragment(self.pick(&[0x2000, 0x2001, 0x0001, 0x00b9, 0x4000])?),
            8 => Edit::SrcMac(self.chance.below(8) as u8),
            _ => Edit::Cut(self.chance.below(80) as u16),
        })
    }

    fn port(&mut self) -> u8 {
        self.chance.below(self.setup.ports.len()) as u8
    }

    /// Mostly one of few, never one that an allocator may give out, where it leaves any.
    fn transport_port(&mut self) -> u16 {
        let first = self.setup.allocated.as_ref().map(|all| all.first.max(2));
        let below = first.unwrap_or(HIGH_PORTS);
        if self.is(70) {
            return 1 + self.chance.below(LOW_PORTS.min(usize::from(below) - 1)) as u16;
        }
        match self.pick(&self.setup.known_ports) {
            Some(port) if first.is_none_or(|first| port < first) => port,
            _ => self.chance.below(below.into()) as u16,
        }
    }

    fn host(&mut self, port: u8, ipv4: bool) -> IpAddr {
        let last = self.chance.below(HOSTS) as u8 + 1;
        address(port, last, ipv4)
    }

    /// A host of another port, or an address of the settings.
    fn destination(&mut self, port: u8, ipv4: bool) -> IpAddr {
        let share = if self.setup.known_addresses.is_empty() { 0 } else { 50 };
        if self.is(share)
            && let Some(known) = self.pick(&self.setup.known_addresses)
            && known.is_ipv4() == ipv4
        {
            return known;
        }
        let others = self.setup.ports.len().max(2) - 1;
        let other = (usize::from(port) + 1 + self.chance.below(others)) % (others + 1);
        // Now and then the function itself, or where no route leads.
        let drawn = self.setup.is_routed().then(|| self.chance.below(40));
        match drawn {
            Some(0) => address(port, ITSELF, ipv4),
            Some(1) => address(NOWHERE, 1, ipv4),
            _ => self.host(other as u8, ipv4),
        }
    }

    fn link(&mut self, port: u8) -> Link {
        let last = self.chance.below(STATIONS) as u8;
        let other = self.port();
        let dst = match self.chance.below(40) {
            0 => [0xff; 6].into(),
            1 => [0x01, 0x80, 0xc2, 0, 0, 3].into(),
            _ => station(other, self.chance.below(STATIONS) as u8),
        };
        // Now and then a station has moved.
        let home = if self.is(2) { other } else { port };
        let tag = self.is(8).then(|| self.chance.below(3) as u16);
        Link { src: station(home, last), dst, tags: [tag, None] }
    }

    /// One that the function looks into, where it does; else so many bytes.
    fn payload(&mut self, size: usize) -> Vec<u8> {
        if !self.setup.known_payloads.is_empty()
            && self.is(70)
            && let Some(known) = self.pick(&self.setup.known_payloads)
        {
            return known.to_vec();
        }
        vec![0x61; size]
    }

    /// A packet of its own, mostly the first of a conversation.
    fn opening(&mut self) -> Template {
        let port = self.port();
        let ipv4 = self.is(self.ipv4);
        let (src, dst) = (self.host(port, ipv4), self.destination(port, ipv4));
        let (src, dst) = if self.is(10) && self.setup.ports.len() > 1 {
            let known = self.pick(&self.setup.known_addresses).filter(|one| one.is_ipv4() == ipv4);
            (known.unwrap_or(src), dst)
        } else {
            (src, dst)
        };
        let (src_port, dst_port) = (self.transport_port(), self.transport_port());
        let link = self.link(port);
        let (src, dst) = (SocketAddr::new(src, src_port), SocketAddr::new(dst, dst_port));
        let size = self.pick(&[0, 4, 18, 90, 1_400]).unwrap_or(0);
        let payload = self.payload(size);
        let flags = if self.is(85) { tcp_flags::SYN } else { self.flags() };
        let kind = self.chance.below(10);
        let bytes = crafted(|out| match kind {
            0..5 => {
                let segment = Segment { flags, window: 1_000, ..Segment::default() };
                craft::tcp(out, &link, src, dst, segment, &payload)
            }
            5..8 => craft::udp(out, &link, src, dst, &payload),
            _ => {
                let echo = Echo { is_reply: kind == 9 && size == 4, id: src_port, sequence: 1 };
                craft::echo(out, &link, src.ip(), dst.ip(), echo, &payload)
            }
        });
        let mut template = Template::literal(port, bytes);
        if self.is(4) {
            template.edits.extend(self.variation());
        }
        if self.is(4) {
            template.edits.extend(self.pick(&[GRE, ESP, SCTP]).map(Edit::Protocol));
        }
        template
    }

    /// ARP, neighbour discovery, broken packets, packets of every shape.
    fn oddity(&mut self) -> Template {
        let port = self.port();
        let at = self.chance.below(self.shapes.len());
        let mut bytes = self.shapes.get(at).cloned().unwrap_or_default();
        if self.is(40) {
            self.chance.mutate(&mut bytes);
        }
        let mut template = Template::literal(port, bytes);
        // Ports of samples are high.
        template.edits = vec![
            Edit::DstPort(self.transport_port()),
            Edit::Src(self.host(port, true)),
            Edit::Dst(self.destination(port, true)),
        ];
        if self.is(30) {
            template.edits.extend(self.variation());
        }
        template
    }
}

/// Station `last` behind `port`.
pub(crate) fn station(port: u8, last: u8) -> MacAddr {
    [2, 0, 0, 0, port, last].into()
}

/// Host `last` behind `port`.
pub(crate) fn address(port: u8, last: u8, ipv4: bool) -> IpAddr {
    match ipv4 {
        true => Ipv4Addr::new(10, port, 0, last).into(),
        false => Ipv6Addr::new(0xfd00, port.into(), 0, 0, 0, 0, 0, last.into()).into(),
    }
}

fn crafted(craft: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut out = vec![0; 1_600];
    let len = craft(&mut out).unwrap_or(0);
    out.truncate(len);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_packets_come_than_may_be_reported() {
        for is_paced in [true, false] {
            let setup = Setup {
                is_paced,
                ..Setup::new::<anabranch_nfs::router::Function>(toml::Table::new())
            };
            let (mut now_ns, mut full_ns, mut most_ns) = (0, 0, 0);
            let program = Generator::new(&setup, 1).program(20_000);
            for step in &program.steps {
                match step.act {
                    Act::Packet(_) => {
                        full_ns = now_ns.max(full_ns) + ERROR_INTERVAL_NS;
                        most_ns = most_ns.max(full_ns - now_ns);
                    }
                    Act::Pause(ns) => now_ns += ns,
                    Act::Command(_) => {}
                }
            }
            assert_eq!(most_ns <= ERRORS_AT_ONCE * ERROR_INTERVAL_NS, is_paced, "{most_ns}");
        }
    }
}
