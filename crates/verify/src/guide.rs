//! What traffic is steered by: sequences that went where none had gone, and packets that a solver found
//! for ways not yet taken.

use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

use anabranch_nf::trace::Seen;
use anabranch_packet::fuzzing::Seeds;

use crate::edit::Edit;
use crate::program::{Program, Step};

/// Sequences that are kept.
const KEPT: usize = 256;

/// Leads that are kept.
const LEADS: usize = 512;

/// Steps before the one that matters that are kept with it, besides its causes.
const BEFORE: usize = 24;

/// Steps of a sequence at most.
const LONGEST: usize = 120;

/// Values of fields under which a packet would have gone another way, by the names of symbols.
pub(crate) type Changes = Vec<(String, u128)>;

/// Sequences and leads of one seed.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    sequences: Vec<Vec<Step>>,
    leads: Vec<Lead>,
    replaced: usize,
}

/// A sequence, and what its last packet is to be like when it is sent once more.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    pub(crate) sequence: Vec<Step>,
    pub(crate) edits: Vec<Edit>,
    /// Nanoseconds that pass before.
    pub(crate) pause: Option<u64>,
    /// Port at which it arrives.
    pub(crate) port: Option<u8>,
}

impl Guide {
    /// Whether there is nothing to go by.
    pub(crate) fn is_empty(&self) -> bool {
        self.sequences.is_empty() && self.leads.is_empty()
    }

    /// Keeps the sequence of `program` up to the step at `at`, which went where none had gone.
    pub(crate) fn keep(&mut self, program: &Program, at: usize) {
        let sequence = sequence(program, at);
        match self.sequences.len() < KEPT {
            true => self.sequences.push(sequence),
            false => {
                self.replaced = (self.replaced + 97) % KEPT;
                if let Some(old) = self.sequences.get_mut(self.replaced) {
                    *old = sequence;
                }
            }
        }
    }

    /// Keeps what the packet `seen` of the step at `at` is to be changed to.
    pub(crate) fn lead(&mut self, program: &Program, at: usize, seen: &Seen, changes: &Changes) {
        if self.leads.len() >= LEADS {
            return;
        }
        let mut lead =
            Lead { sequence: sequence(program, at), edits: Vec::new(), pause: None, port: None };
        let fields: HashMap<&str, u128> =
            changes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        lead.port = fields.get("port").map(|port| *port as u8);
        lead.pause = fields.get("pause").map(|pause| *pause as u64);
        lead.edits.extend(flags(&fields, seen).map(Edit::Flags));
        lead.edits.extend(fragment(&fields));
        lead.edits.extend(fields.iter().filter_map(|(name, value)| edit(name, *value)));
        self.leads.push(lead);
    }

    /// A lead, each once.
    pub(crate) fn take_lead(&mut self) -> Option<Lead> {
        self.leads.pop()
    }

    /// Some sequence, of the later ones rather.
    pub(crate) fn sequence(&self, chance: &mut Seeds) -> Option<&Vec<Step>> {
        let count = self.sequences.len();
        self.sequences.get(chance.below(count).max(chance.below(count)))
    }
}

/// The step at `at`, those shortly before it, and what these are made from.
fn sequence(program: &Program, at: usize) -> Vec<Step> {
    let places: HashMap<u32, usize> =
        program.steps.iter().enumerate().map(|(at, step)| (step.name, at)).collect();
    let mut wanted: BTreeSet<usize> = BTreeSet::new();
    for start in (at.saturating_sub(BEFORE)..=at).rev() {
        let mut next = Some(start);
        while let Some(step) = next.filter(|step| wanted.len() < LONGEST && wanted.insert(*step)) {
            let cause = program.steps.get(step).and_then(Step::cause);
            next = cause.and_then(|cause| places.get(&cause)).copied();
        }
    }
    wanted.into_iter().filter_map(|at| program.steps.get(at)).cloned().collect()
}

/// Whether a packet can be made to have another value there.
pub(crate) fn is_editable(name: &str) -> bool {
    edit(name, 0).is_some()
        || FLAGS.contains(&name)
        || FRAGMENTS.contains(&name)
        || matches!(name, "tcp.flags" | "now")
}

const FLAGS: [&str; 6] = ["tcp.fin", "tcp.syn", "tcp.rst", "tcp.psh", "tcp.ack", "tcp.urg"];
const FRAGMENTS: [&str; 2] = ["ipv4.fragment_offset", "ipv4.more_fragments"];

fn flags(fields: &HashMap<&str, u128>, seen: &Seen) -> Option<u8> {
    let before = anabranch_packet::Field::named("tcp.flags")?;
    let layout = anabranch_packet::parse(&seen.bytes, seen.wire_len);
    let mut flags = before.value(&seen.bytes, layout) as u8;
    let mut is_changed = false;
    if let Some(all) = fields.get("tcp.flags") {
        (flags, is_changed) = (*all as u8, true);
    }
    for (bit, name) in FLAGS.into_iter().enumerate() {
        if let Some(set) = fields.get(name) {
            flags = flags & !(1 << bit) | (*set as u8) << bit;
            is_changed = true;
        }
    }
    is_changed.then_some(flags)
}

fn fragment(fields: &HashMap<&str, u128>) -> Option<Edit> {
    let [offset, more] = FRAGMENTS.map(|name| fields.get(name).copied());
    (offset.is_some() || more.is_some()).then(|| {
        Edit::Fragment((more.unwrap_or(0) as u16) << 13 | offset.unwrap_or(0) as u16 & 0x1fff)
    })
}

fn edit(name: &str, value: u128) -> Option<Edit> {
    let v4 = || Ipv4Addr::from(value as u32).into();
    let v6 = || Ipv6Addr::from(value).into();
    let mac = || {
        let [.., a, b, c, d, e, f] = value.to_be_bytes();
        [a, b, c, d, e, f].into()
    };
    Some(match name {
        "ipv4.src" => Edit::Src(v4()),
        "ipv4.dst" => Edit::Dst(v4()),
        "ipv6.src" => Edit::Src(v6()),
        "ipv6.dst" => Edit::Dst(v6()),
        "tcp.src" | "udp.src" => Edit::SrcPort(value as u16),
        "tcp.dst" | "udp.dst" => Edit::DstPort(value as u16),
        "icmpv4.id" | "icmpv6.id" => Edit::Id(value as u16),
        "icmpv4.kind" | "icmpv6.kind" => Edit::Kind(value as u8),
        "ipv4.ttl" | "ipv6.hop_limit" => Edit::Hops(value as u8),
        "ipv4.protocol" | "ipv6.protocol" => Edit::Protocol(value as u8),
        "ethernet.src" => Edit::Station(mac()),
        "ethernet.dst" => Edit::ToStation(mac()),
        _ => return None,
    })
}
