//! One way through a handler, from a trace: what it was given, what it asked, how it ended.

use anabranch_nf::Verdict;
use anabranch_nf::trace::{Call, Event, Parts, Seen};

/// One call of a handler; that of a new packet set goes on from `packet_set_opened` to `packet`.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    /// Its name, as the analysis has it.
    pub(crate) handler: String,
    pub(crate) now_ns: u64,
    /// Its packet, as it arrives and as it leaves.
    pub(crate) packet: Option<Seen>,
    pub(crate) left: Option<Seen>,
    /// What it asks of state objects, each with its number on the path.
    pub(crate) calls: Vec<(usize, Call)>,
    /// What it is given besides, by the names of symbols.
    pub(crate) given: Vec<(String, u128)>,
    /// Whether it has opened a new packet set.
    opened: bool,
    /// The state in which a packet leaves its set.
    pub(crate) kept: Option<Parts>,
    pub(crate) verdict: Option<Verdict>,
    next: usize,
    randoms: usize,
}

/// The passages of `events`, in order; `set` is the name of the packet set, `command` the text of the
/// command that was given meanwhile.
pub(crate) fn passages(
    events: Vec<Event>,
    set: Option<&str>,
    command: Option<&str>,
) -> Vec<Passage> {
    let mut all = Vec::new();
    let mut current: Option<Passage> = None;
    for event in events {
        match event {
            Event::Enter { handler, now_ns, given, packet } => match &mut current {
                Some(opened) if handler == "packet" => opened.stored(set),
                // The attempt to store it was an access, too.
                Some(opened) if handler == "packet_set_full" => opened.next += 1,
                other => {
                    all.extend(other.take());
                    *other = Some(Passage::new(handler, now_ns, &given, packet, [set, command]));
                }
            },
            Event::Call(call) => {
                if let Some(passage) = &mut current {
                    passage.calls.push((passage.next, call));
                    passage.next += 1;
                }
            }
            Event::Random(number) => {
                if let Some(passage) = &mut current {
                    passage.randoms += 1;
                    passage.given.push((format!("random#{}", passage.randoms), number.into()));
                }
            }
            Event::Leave { verdict, set: state, packet } => {
                let Some(mut passage) = current.take() else { continue };
                (passage.verdict, passage.left) = (verdict, packet);
                match (passage.handler == OPENING && !passage.opened, verdict) {
                    (true, None) => {
                        passage.opened = true;
                        passage.refused_unless_stored(set);
                        current = Some(passage);
                    }
                    _ => {
                        passage.kept = (!passage.is_refused()).then_some(state);
                        all.push(passage);
                    }
                }
            }
        }
    }
    all.extend(current);
    all
}

const OPENING: &str = "packet (new packet set)";

impl Passage {
    fn new(
        handler: &'static str,
        now_ns: u64,
        given: &Parts,
        packet: Option<Seen>,
        [set, command]: [Option<&str>; 2],
    ) -> Self {
        let mut passage = Self { now_ns, packet, next: 1, ..Self::default() };
        let named = |name: &str| {
            let parts = given.all().iter();
            parts.map(|(part, number)| (format!("{name}{part}"), *number)).collect()
        };
        passage.handler = handler.to_owned();
        match (handler, set, command) {
            ("packet_set_opened", ..) => {
                OPENING.clone_into(&mut passage.handler);
                passage.next = 2;
            }
            ("packet" | "packet_set_expired", Some(set), _) => {
                if handler == "packet" {
                    "packet (existing packet set)".clone_into(&mut passage.handler);
                }
                passage.next = 2;
                passage.given = named(set);
            }
            ("timer", ..) => passage.given = named("token"),
            ("control", _, Some(command)) => {
                let mut words = command.split_whitespace();
                passage.handler = format!("control {}", words.next().unwrap_or_default());
                let fields = words.filter_map(|word| word.split_once('='));
                passage.given = fields
                    .filter_map(|(name, text)| Some((format!("command.{name}"), number(text)?)))
                    .collect();
            }
            _ if handler.ends_with(" expired)") => {
                passage.next = 2;
                passage.given = named("");
                for (name, _) in &mut passage.given {
                    *name = match name.strip_prefix(".1") {
                        Some(part) => format!("object{part}"),
                        None => "index".to_owned(),
                    };
                }
            }
            _ => {}
        }
        passage
    }

    /// Whether its packet set has been stored, until it turns out to be: no.
    fn refused_unless_stored(&mut self, set: Option<&str>) {
        self.given.push((format!("{}.insert", set.unwrap_or_default()), 0));
    }

    /// Its packet set has been stored, and its packet is handled.
    fn stored(&mut self, set: Option<&str>) {
        let name = format!("{}.insert", set.unwrap_or_default());
        self.given.retain(|(known, _)| *known != name);
        self.given.push((name, 1));
        self.next += 1;
    }

    /// The values of all that it was given and told, by the names of symbols.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = (String, u128)> {
        let told = self.calls.iter().flat_map(|(number, call)| told(*number, call));
        self.given.iter().cloned().chain(told)
    }

    /// Whether a new packet set found the table full.
    fn is_refused(&self) -> bool {
        self.opened
            && self.given.iter().any(|(name, stored)| name.ends_with(".insert") && *stored == 0)
    }
}

/// What a call has answered, by the names of symbols.
fn told(number: usize, call: &Call) -> Vec<(String, u128)> {
    let base = match call.operation {
        "enabled" => format!("{}.enabled", call.object),
        operation => format!("{}.{operation}#{number}", call.object),
    };
    let is_value = call.outcome.is_some()
        && !call.operation.starts_with("allocate")
        && call.operation != "forward";
    let within = if is_value { ".value" } else { "" };
    let parts = call.result.all().iter();
    let parts = parts.map(|(name, value)| (format!("{base}{within}{name}"), *value));
    call.outcome.map(|outcome| (base.clone(), outcome.into())).into_iter().chain(parts).collect()
}

/// A value as commands and settings write it.
pub(crate) fn number(text: &str) -> Option<u128> {
    use std::net::IpAddr;
    let text = text.trim_matches('"');
    match text {
        "true" => return Some(1),
        "false" => return Some(0),
        _ => {}
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => return Some(u32::from(address).into()),
        Ok(IpAddr::V6(address)) => return Some(address.into()),
        Err(_) => {}
    }
    let octets: Vec<&str> = text.split(':').collect();
    if octets.len() == 6 {
        let octet = |all: u128, octet: &str| {
            Some(all << 8 | u128::from(u8::from_str_radix(octet, 16).ok()?))
        };
        return octets.into_iter().try_fold(0, octet);
    }
    text.replace('_', "").parse::<i128>().ok().map(|number| number as u128)
}
