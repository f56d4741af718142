//! `trace`: one packet's way through a network function, on one worker.

use anabranch_analysis::{Budget, CallPath};
use anabranch_io::source::Input;
use anabranch_nf::NetworkFunction;
use anabranch_nf::trace::{Event as Step, Parts};
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::instance::Making;
use anabranch_runtime::live::{Event, Filter};
use anabranch_runtime::run::Options;
use anabranch_runtime::trace::{Fate, Followed, NEVER_TRACED, trace};
use anabranch_verify::{Coverage, Setup};
use serde::Serialize;

use crate::arguments::{PlanningArguments, TraceArguments};
use crate::error::Error;
use crate::figures::counted;
use crate::file::print;
use crate::library::Library;
use crate::paths::find;
use crate::progress::Progress;
use crate::run::{Order, PortNames, bound, cannot_begin, sources, to_json};
use crate::settings::{control, settings, settings_from};
use crate::{live, plan};

/// Numbers from here on are written in hexadecimal; addresses are written as such.
const LONG: u128 = 1 << 20;

/// Which packets are shown.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Filters, as `capture` has them.
    pub filter: String,
    /// The number of a packet.
    pub packet: Option<u64>,
    /// At most so many.
    pub count: usize,
}

/// A packet, and its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its number among all.
    pub number: u64,
    /// Nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// The port by which it came.
    pub port: String,
    /// Its length on the wire.
    pub bytes: u32,
    /// What handlers did for it and before it, one after the other.
    pub handlers: Vec<Handled>,
    /// `forwarded to wan`, `dropped: no-route`.
    pub fate: Vec<String>,
}

/// What one handler did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Handled {
    /// Its name.
    pub handler: String,
    /// The number of its call path, as `anabranch paths` has it; null where that is not known.
    pub path: Option<usize>,
    /// The path's last line in the source.
    pub line: Option<u32>,
    /// What it asked of state objects: `flows.get(.src=…) found`.
    pub accesses: Vec<String>,
}

/// What became of packets, and why no more is known.
pub(crate) type Traced = (Vec<Shown>, Option<Error>);

/// Prints what became of packets.
///
/// # Errors
/// As `run`, and [`Error::Usage`] for filters.
pub(crate) fn run(library: &Library, arguments: &TraceArguments) -> Result<(), Error> {
    let entry = library.find(&arguments.nf)?;
    let TraceArguments { packet, count, .. } = *arguments;
    let choice = Choice { filter: arguments.filters.join(" "), packet, count };
    let (shown, failed) = entry.trace(order(arguments)?, &choice)?;
    print(&if arguments.json { to_json(&shown)? } else { text(&shown) })?;
    failed.map_or(Ok(()), Err)
}

fn order(arguments: &TraceArguments) -> Result<Order, Error> {
    Ok(Order {
        inputs: sources(&arguments.inputs)?,
        outputs: Vec::new(),
        ports: Vec::new(),
        openings: live::Openings::default(),
        duration: None,
        settings: settings(arguments.config.as_deref(), &arguments.settings)?,
        settings_from: settings_from(arguments.config.as_deref(), &arguments.settings),
        controls: arguments.control.iter().map(|text| control(text)).collect::<Result<_, _>>()?,
        workers: 1,
        plan: None,
        planning: plan::options(&PlanningArguments::default())?,
        balance: false,
        store: None,
        seed: arguments.seed,
        progress: Progress::start(&arguments.nf),
    })
}

/// Follows packets of `F`; with them comes why an input failed, which they were before.
///
/// # Errors
/// When it cannot begin, or an input fails before any packet was found.
pub(crate) fn execute<F: NetworkFunction>(order: Order, choice: &Choice) -> Result<Traced, Error> {
    let ports = PortNames::new(F::PORTS, &order);
    let names: Vec<&str> = ports.0.iter().map(String::as_str).collect();
    let filter = Filter::read(&choice.filter, &names, F::REASONS, NEVER_TRACED);
    let filter = filter.map_err(Error::Usage)?;
    if filter.snap != Filter::default().snap {
        return Err(Error::Usage("snap=BYTES is for `capture`: no packet is copied here".into()));
    }
    let setup = Setup::new::<F>(order.settings.clone());
    let options = Options {
        plan: Err("one worker needs no plan".to_owned()),
        inputs: bound(&order.inputs, |port, spec| Ok(Input { port: ports.find(port)?, spec }))?,
        outputs: Vec::new(),
        making: Making {
            seed: order.seed,
            settings: order.settings,
            ports: ports.0.clone(),
            ..Making::default()
        },
        workers: 1,
        balancing: Balancing::Still,
        commands: order.controls.into_iter().map(|one| (one.at_ns, one.command)).collect(),
        store: None,
    };
    let mut found = Found { count: choice.count, ..Found::default() };
    let (mut progress, mut handled, from) = (order.progress, 0, order.settings_from);
    let traced = trace::<F::Traced>(&options, &mut |followed| {
        handled += 1;
        progress.update(handled, None);
        let complete_to = followed.complete_to;
        if is_chosen(&followed, choice, &filter) {
            found.add(Shown::of(&followed, &ports.0), followed.events);
        }
        match choice.packet {
            Some(wanted) => found.shown.is_empty() && complete_to <= wanted,
            None => !found.is_enough(complete_to),
        }
    });
    let Found { mut shown, events, .. } = found;
    if !shown.is_empty() {
        number_paths::<F>(&mut shown, events, &setup, &progress);
    }
    progress.finish();
    let failed = traced.map_err(cannot_begin(from.as_deref())).err();
    if shown.is_empty()
        && let Some(failed) = failed
    {
        return Err(failed);
    }
    if let (Some(wanted), true) = (choice.packet, shown.is_empty()) {
        let there = counted(handled, "packet");
        return Err(Error::Usage(format!("--packet {wanted}: there are {there}, numbered from 0")));
    }
    Ok((shown, failed))
}

/// Notes which call paths these packets took, one after the other, of which the function left these events. Without
/// a solver that is not known, and said.
fn number_paths<F: NetworkFunction>(
    shown: &mut [Shown],
    events: Vec<Vec<Step>>,
    setup: &Setup,
    progress: &Progress,
) {
    let paths = match find(F::NAME, &F::SOURCE, Budget::default()) {
        Ok(paths) => paths,
        Err(why) => return progress.say(&format!("call paths are not numbered: {why}")),
    };
    let mut coverage = Coverage::new::<F>(&paths);
    coverage.begin(setup);
    for (one, events) in shown.iter_mut().zip(events) {
        one.number_paths(&coverage.paths_of(events));
    }
}

/// The first packets that are chosen, by number, with the events that the function left.
#[derive(Default)]
struct Found {
    shown: Vec<Shown>,
    events: Vec<Vec<Step>>,
    /// At most so many.
    count: usize,
}

impl Found {
    /// One more; of fragments it is known late what became of them.
    fn add(&mut self, one: Shown, events: Vec<Step>) {
        let at = self.shown.partition_point(|other| other.number < one.number);
        self.shown.insert(at, one);
        self.events.insert(at, events);
        self.shown.truncate(self.count);
        self.events.truncate(self.count);
    }

    /// Whether no packet from this number on is among them.
    fn is_enough(&self, number: u64) -> bool {
        let last = self.count.checked_sub(1).map(|last| self.shown.get(last));
        last.is_none_or(|last| last.is_some_and(|last| last.number < number))
    }
}

fn is_chosen(followed: &Followed<'_>, choice: &Choice, filter: &Filter) -> bool {
    let Followed { meta, bytes, fate, .. } = followed;
    if let Some(number) = choice.packet {
        return meta.number == number;
    }
    let wants = |event| filter.wants(event, meta.port.index(), bytes, meta.wire_len);
    // Whatever becomes of it, it has entered.
    let is_any = filter.reason.is_none();
    (is_any && wants(Event::Entered))
        || match fate.dropped {
            Some(reason) => wants(Event::Dropped(reason)),
            None => is_any && wants(Event::Left),
        }
}

impl Shown {
    fn of(followed: &Followed<'_>, ports: &[String]) -> Self {
        let Followed { meta, bytes, events, fate, .. } = followed;
        let name = |port: u8| ports.get(usize::from(port)).cloned().unwrap_or_default();
        Self {
            number: meta.number,
            at_ns: meta.arrival_ns,
            port: name(meta.port.index()),
            bytes: meta.wire_len,
            handlers: handlers(events),
            fate: said(fate, bytes, name),
        }
    }

    /// Notes the call paths that its handlers took. The handler that opens a set and the one that it is opened for
    /// are one path.
    fn number_paths(&mut self, taken: &[Option<&CallPath>]) {
        let mut taken = taken.iter();
        for (place, handled) in self.handlers.iter_mut().enumerate() {
            let is_opened = place > 0 && handled.handler == OPENED;
            if let Some(Some(path)) = (!is_opened).then(|| taken.next()).flatten() {
                (handled.path, handled.line) = (Some(path.number), Some(path.line));
            }
        }
    }
}

/// A packet handler that goes on where a set was opened.
const OPENED: &str = "packet, in the set that was opened";

fn handlers(events: &[Step]) -> Vec<Handled> {
    let mut all: Vec<Handled> = Vec::new();
    let mut opened = false;
    for event in events {
        match event {
            Step::Enter { handler, given, .. } => {
                let name = match (*handler, std::mem::take(&mut opened)) {
                    ("packet", true) => OPENED.to_owned(),
                    (name, _) => format!("{name}{}", within(given, " with ", "")),
                };
                opened = *handler == "packet_set_opened";
                all.push(Handled { handler: name, ..Handled::default() });
            }
            Step::Call(call) => {
                let outcome = call.outcome.map_or("", |yes| if yes { ": yes" } else { ": no" });
                let line = format!(
                    "{}.{}({}{}){outcome}{}",
                    call.object,
                    call.operation,
                    written(&call.key),
                    within(&call.stored, " := ", ""),
                    within(&call.result, " → ", "")
                );
                all.last_mut().into_iter().for_each(|one| one.accesses.push(line.clone()));
            }
            Step::Random(number) => {
                let line = format!("drew {number}");
                all.last_mut().into_iter().for_each(|one| one.accesses.push(line.clone()));
            }
            Step::Leave { set, .. } => {
                let line = within(set, "its packet set is left as ", "");
                if let Some(one) = all.last_mut().filter(|_| !line.is_empty()) {
                    one.accesses.push(line);
                }
            }
        }
    }
    all
}

fn within(parts: &Parts, before: &str, after: &str) -> String {
    let written = written(parts);
    if written.is_empty() { written } else { format!("{before}{written}{after}") }
}

fn written(parts: &Parts) -> String {
    let part = |(place, (name, number)): (usize, &(String, u128))| {
        let number = match parts.written(place) {
            Some(text) => text,
            None if *number < LONG => number.to_string(),
            None => format!("{number:#x}"),
        };
        let name = name.trim_start_matches('.');
        if name.is_empty() { number } else { format!("{name}={number}") }
    };
    parts.all().iter().enumerate().map(part).collect::<Vec<_>>().join(" ")
}

/// What became of a packet of these bytes.
fn said(fate: &Fate, bytes: &[u8], name: impl Fn(u8) -> String) -> Vec<String> {
    let left = fate.left.iter().map(|(port, left)| {
        let changed = changed(bytes, left);
        let changed = if changed.is_empty() { String::new() } else { format!(", {changed}") };
        format!("forwarded to {}{changed}", name(*port))
    });
    let dropped = fate.dropped.iter().map(|reason| format!("dropped: {reason}"));
    let emitted = fate.emitted.iter();
    let emitted =
        emitted.map(|(port, made)| format!("made {} bytes for {}", made.len(), name(*port)));
    left.chain(dropped).chain(emitted).collect()
}

/// Where two packets differ.
fn changed(before: &[u8], after: &[u8]) -> String {
    if before.len() != after.len() {
        return format!("{} bytes long now", after.len());
    }
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let pairs = before.iter().zip(after).enumerate();
    for (at, _) in pairs.filter(|(_, (before, after))| before != after) {
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    let run = |(from, to): &(usize, usize)| match to - from {
        1 => from.to_string(),
        _ => format!("{from} to {}", to - 1),
    };
    let runs: Vec<String> = runs.iter().map(run).collect();
    if runs.is_empty() { String::new() } else { format!("bytes {} changed", runs.join(", ")) }
}

fn text(shown: &[Shown]) -> String {
    let first_ns = shown.first().map_or(0, |one| one.at_ns);
    let packet = |one: &Shown| {
        let after_s = one.at_ns.saturating_sub(first_ns) as f64 / 1e9;
        let head = format!(
            "packet {} at {}, {} bytes, {after_s:.6} s after the first shown\n",
            one.number, one.port, one.bytes
        );
        let handlers = one.handlers.iter().map(|handled| {
            let path = match (handled.path, handled.line) {
                (Some(path), Some(line)) => format!("  (path {path}, to line {line})"),
                _ => String::new(),
            };
            let accesses = handled.accesses.iter().map(|line| format!("    {line}\n"));
            format!("  {}{path}\n{}", handled.handler, accesses.collect::<String>())
        });
        let fate = one.fate.iter().map(|line| format!("  → {line}\n"));
        [head].into_iter().chain(handlers).chain(fate).collect::<String>()
    };
    let packets: Vec<String> = shown.iter().map(packet).collect();
    if packets.is_empty() { "no packet meets the filters\n".to_owned() } else { packets.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_such() {
        let v4 = std::net::Ipv4Addr::new(10, 0, 0, 1);
        let parts = Parts::of(&(v4, Some(v4.to_ipv6_mapped()), 1_u64 << 20, 7_u16));
        assert_eq!(written(&parts), "0=10.0.0.1 1=1 1.value=::ffff:10.0.0.1 2=0x100000 3=7");
        let station = anabranch_nf::packet::MacAddr::from([2, 0, 0, 0, 0, 1]);
        assert_eq!(written(&Parts::of(&station)), "02:00:00:00:00:01");
    }

    #[test]
    fn variants_are_written_by_their_names() {
        let mut parts = Parts::default();
        parts.variant(2, "half-open");
        assert_eq!(written(&parts), "half-open");
        assert_eq!(parts.all(), [(String::new(), 2)]);
    }

    #[test]
    fn changes_are_named_by_their_bytes() {
        assert_eq!(changed(b"abcdef", b"abXYeZ"), "bytes 2 to 3, 5 changed");
        assert_eq!(changed(b"abc", b"abc"), "");
        assert_eq!(changed(b"abc", b"ab"), "2 bytes long now");
    }
}
