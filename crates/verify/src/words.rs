//! A difference in words: step by step what arrived, and what each run made of it.

use std::fmt::{self, Write as _};

use anabranch_packet::parse;

use crate::edit::{LONGEST, with_packet};
use crate::endpoint::{Placed, endpoints};
use crate::program::{Act, Arrival, Step};
use crate::run::{Handled, Outcome};
use crate::setup::Setup;
use crate::verify::Difference;

/// A packet in a line: its ends, its protocol, its flags.
pub fn describe(bytes: &[u8]) -> String {
    let layout = parse(bytes, LONGEST);
    let ends = endpoints(bytes);
    if let Some(why) = layout.malformed() {
        return format!("malformed packet of {} bytes ({})", bytes.len(), why.as_str());
    }
    let protocol = match () {
        () if layout.has_tcp() => "TCP",
        () if layout.has_udp() => "UDP",
        () if layout.has_icmpv4() => "ICMP",
        () if layout.has_icmpv6() => "ICMPv6",
        () if layout.has_arp() => "ARP",
        () if layout.has_ipv4() => "IPv4",
        () if layout.has_ipv6() => "IPv6",
        () => "Ethernet",
    };
    let mut text = protocol.to_owned();
    match &ends[..] {
        [src, dst, quoted @ ..] => {
            let _ = write!(text, " {} > {}", end(src), end(dst));
            if let [src, dst] = quoted {
                let _ = write!(text, " about {} > {}", end(src), end(dst));
            }
        }
        _ => text.push_str(&stations(bytes)),
    }
    text + &details(bytes)
}

fn end(end: &Placed) -> String {
    match (end.endpoint.port, end.endpoint.address.is_ipv6()) {
        (0, _) => end.endpoint.address.to_string(),
        (port, false) => format!("{}:{port}", end.endpoint.address),
        (port, true) => format!("[{}]:{port}", end.endpoint.address),
    }
}

fn stations(bytes: &[u8]) -> String {
    with_packet(&mut bytes.to_vec(), |packet| {
        let ethernet = packet.ethernet();
        format!(" {} > {}", ethernet.src(), ethernet.dst())
    })
}

/// Flags, kind of ICMP, whether it is a fragment.
fn details(bytes: &[u8]) -> String {
    with_packet(&mut bytes.to_vec(), |packet| {
        let mut text = String::new();
        if let Some(tcp) = packet.tcp() {
            let named = [
                (tcp.syn(), "SYN"),
                (tcp.ack(), "ACK"),
                (tcp.fin(), "FIN"),
                (tcp.rst(), "RST"),
                (tcp.psh(), "PSH"),
            ];
            let set = named.into_iter().filter(|(set, _)| *set);
            set.for_each(|(_, name)| {
                let _ = write!(text, " {name}");
            });
        }
        if let Some(icmp) = packet.icmpv4() {
            let _ = write!(text, " type {}", icmp.kind());
        }
        if let Some(icmp) = packet.icmpv6() {
            let _ = write!(text, " type {}", icmp.kind());
        }
        if packet.is_fragment() {
            text.push_str(" fragment");
        }
        text
    })
}

impl Difference {
    /// The sequence in words.
    pub fn to_text(&self) -> String {
        let setup = &self.setup;
        let mut text = String::new();
        let mut now_ns = 0;
        for (at, step) in self.program.steps.iter().enumerate() {
            if let Act::Pause(ns) = step.act {
                now_ns += ns;
            }
            let runs = [self.one.get(at), self.many.get(at)];
            let _ = Line { setup, step, now_ns, runs }.write(&mut text);
        }
        let name = self.program.steps.get(self.at).map_or(0, |step| step.name);
        let _ = writeln!(text, "step {name} differs: {}", self.what);
        text
    }
}

/// One step.
struct Line<'a> {
    setup: &'a Setup,
    step: &'a Step,
    now_ns: u64,
    runs: [Option<&'a Handled>; 2],
}

impl Line<'_> {
    fn write(&self, text: &mut String) -> fmt::Result {
        let seconds = self.now_ns as f64 / 1e9;
        write!(text, "step {} at {seconds:.6} s: ", self.step.name)?;
        match &self.step.act {
            Act::Pause(ns) => return writeln!(text, "{:.6} s pass", *ns as f64 / 1e9),
            Act::Command(command) => write!(text, "command {command}")?,
            Act::Packet(template) => write!(text, "{}", template.origin)?,
        }
        text.push('\n');
        for (run, name) in self.runs.iter().zip(["one core  ", "many cores"]) {
            let Some(handled) = run else { continue };
            if matches!(self.step.act, Act::Packet(_)) || handled.arrival.is_some() {
                let came = handled.arrival.as_ref().map(|arrival| self.arrival(arrival));
                let came = came.unwrap_or_else(|| "nothing is sent".to_owned());
                writeln!(text, "  {name} {came}")?;
            }
            writeln!(text, "             {}", self.outcome(&handled.outcome))?;
        }
        Ok(())
    }

    fn port(&self, port: u8) -> &str {
        self.setup.ports.get(usize::from(port)).map_or("?", String::as_str)
    }

    fn arrival(&self, arrival: &Arrival) -> String {
        format!("{}: {}", self.port(arrival.port), describe(&arrival.bytes))
    }

    fn outcome(&self, outcome: &Outcome) -> String {
        let mut parts: Vec<String> = outcome
            .sent
            .iter()
            .map(|(port, bytes)| format!("to {}: {}", self.port(*port), describe(bytes)))
            .collect();
        parts.extend(outcome.refused.map(|why| format!("refused: {why}")));
        if outcome.allocated {
            parts.push("something is allocated".to_owned());
        }
        if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
    }
}
