//! What traffic is steered by: sequences that went where none had gone, packets that a solver found
//! for ways not yet taken, and sequences that end before a way which only other state opens.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anabranch_nf::trace::Seen;
use anabranch_packet::fuzzing::Seeds;

use crate::edit::Edit;
use crate::field::{Parsed, Property};
use crate::program::{Act, Program, Step};
use crate::setup::Setup;

/// Sequences that are kept.
const KEPT: usize = 256;

/// Leads that are kept.
const LEADS: usize = 512;

/// Ways of which probes are kept, and how many of each.
const PROBED: usize = 1_024;
const PROBES: usize = 3;

/// Of a way that other settings may open, sequences that are kept, and how many are sent together.
const LISTED: usize = 12;
const TOGETHER: usize = 16;

/// Steps before the one that matters that are kept with it, besides its causes.
const BEFORE: usize = 24;

/// Steps of a sequence at most.
const LONGEST: usize = 120;

/// Values of fields under which a packet would have gone another way, by the names of symbols.
pub(crate) type Changes = Vec<(String, u128)>;

/// A sequence, and the setup that it was sent under.
pub(crate) type Known = (Arc<Setup>, Vec<Step>);

/// Sequences, leads and probes of one seed.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    sequences: Vec<Vec<Step>>,
    leads: Vec<Lead>,
    probes: Vec<Probe>,
    probed: HashMap<Way, usize>,
    /// Whether sequences are kept that end before a way which only other settings open: other lists, or smaller
    /// sizes; these.
    is_rest: bool,
    lists: Elsewhere,
    sizes: Elsewhere,
    replaced: usize,
}

/// Sequences that are to be sent under other settings, and how many have been kept for each way.
#[derive(Clone, Debug, Default)]
struct Elsewhere {
    kept: HashMap<Way, usize>,
    sequences: Vec<Known>,
}

impl Elsewhere {
    fn keep(&mut self, sent: &Sent<'_>, ways: &[Way]) {
        let mut is_wanted = false;
        for way in ways {
            let kept = self.kept.entry(*way).or_default();
            is_wanted |= *kept < LISTED;
            *kept += 1;
        }
        if is_wanted {
            self.sequences.push((sent.setup.clone(), sequence(sent.program, sent.at)));
        }
    }

    fn take(&mut self) -> Option<Vec<Known>> {
        let (setup, _) = self.sequences.last()?;
        let setup = setup.clone();
        let of_setup = self.sequences.extract_if(.., |(of, _)| Arc::ptr_eq(of, &setup));
        Some(of_setup.take(TOGETHER).collect())
    }
}

/// A tree of decisions, and a node of it.
pub(crate) type Way = (usize, usize);

/// A sequence, and what its last packet is to be like when it is sent once more.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    /// The settings under which it is to be sent.
    pub(crate) setup: Arc<Setup>,
    pub(crate) sequence: Arc<Vec<Step>>,
    pub(crate) edits: Vec<Edit>,
    /// Nanoseconds that pass before.
    pub(crate) pause: Option<u64>,
    /// Port at which it arrives.
    pub(crate) port: Option<u8>,
    /// Whether it is sent with each of the payloads that the function looks for.
    pub(crate) says_all: bool,
    /// Of those edits that are of addresses and ports, what the packet has and what it is to have.
    pub(crate) ends: Vec<[Edit; 2]>,
}

impl Lead {
    /// The sequence up to the packet of `sent`, without a change.
    fn of(sent: &Sent<'_>) -> Self {
        Self {
            setup: sent.setup.clone(),
            sequence: Arc::new(sequence(sent.program, sent.at)),
            edits: Vec::new(),
            pause: None,
            port: None,
            says_all: false,
            ends: Vec::new(),
        }
    }

    /// The sequence with the same ends changed in all of its packets that have them: what state holds of them it
    /// holds of the others instead.
    pub(crate) fn throughout(&self) -> Vec<Step> {
        let changed = |step: &Step| {
            let mut step = step.clone();
            if let Act::Packet(template) = &mut step.act {
                template.replace(&self.ends);
            }
            step
        };
        self.sequence.iter().map(changed).collect()
    }
}

/// What is known of a packet that has been handled, and what changes the state that it met may have to do with.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// Addresses with ports that it had as it came or as it left.
    pub(crate) ends: Vec<(IpAddr, u16)>,
    /// Its source and its destination as it came.
    pub(crate) came: Option<[(IpAddr, u16); 2]>,
    /// Lifetimes of what it came upon.
    pub(crate) lifetimes_ns: Vec<u64>,
}

/// A sequence whose last packet came by a way that has not been taken: state was not what it takes.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) setup: Arc<Setup>,
    pub(crate) sequence: Arc<Vec<Step>>,
    pub(crate) about: Arc<About>,
    way: Way,
    /// Paths not taken that lie behind.
    behind: usize,
    tried: usize,
}

#[cfg(test)]
impl Probe {
    /// One of this sequence, which nothing else is known of.
    pub(crate) fn of(setup: &Setup, sequence: Vec<Step>, about: About) -> Self {
        let (setup, sequence) = (Arc::new(setup.clone()), Arc::new(sequence));
        Self { setup, sequence, about: Arc::new(about), way: (0, 0), behind: 1, tried: 0 }
    }
}

/// A packet that has been handled: of which program, where in it, and what arrived.
#[derive(Clone, Copy)]
pub(crate) struct Sent<'a> {
    pub(crate) setup: &'a Arc<Setup>,
    pub(crate) program: &'a Program,
    pub(crate) at: usize,
    pub(crate) seen: &'a Seen,
}

impl Guide {
    /// One of what is left after all seeds: other lists and sizes are tried too.
    pub(crate) fn of_rest() -> Self {
        Self { is_rest: true, ..Self::default() }
    }

    /// Whether all seeds are over: what follows is sent under a lock.
    pub(crate) fn is_of_rest(&self) -> bool {
        self.is_rest
    }

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

    /// Keeps what the packet of `sent` is to be changed to; `setup` is what it is sent under then.
    pub(crate) fn lead(&mut self, sent: &Sent<'_>, changes: &Changes, setup: Option<Setup>) {
        if self.leads.len() >= LEADS {
            return;
        }
        let mut lead = Lead::of(sent);
        lead.setup = setup.map_or(lead.setup, Arc::new);
        let fields: BTreeMap<&str, u128> =
            changes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        lead.port = fields.get("port").map(|port| *port as u8);
        lead.pause = fields.get("pause").map(|pause| *pause as u64);
        lead.edits.extend(flags(&fields, sent.seen).map(Edit::Flags));
        lead.edits.extend(fragment(&fields));
        lead.edits.extend(fields.iter().filter_map(|(name, value)| edit(name, *value)));
        let parsed = Parsed::of(sent.seen);
        let ends = fields.iter().filter(|(name, _)| is_end(name)).filter_map(|(name, value)| {
            let old = Property::named(name)?.of(&parsed)?;
            Some([edit(name, old)?, edit(name, *value)?])
        });
        lead.ends.extend(ends);
        self.leads.push(lead);
    }

    /// Keeps that the packet of `sent` is to be sent with each of the payloads that the function looks for.
    pub(crate) fn lead_to_payloads(&mut self, sent: &Sent<'_>) {
        if self.leads.len() < LEADS {
            self.leads.push(Lead { says_all: true, ..Lead::of(sent) });
        }
    }

    /// Keeps the sequence up to the packet of `sent`, which came by these ways, each with the paths not
    /// taken behind it.
    pub(crate) fn probe(
        &mut self,
        sent: &Sent<'_>,
        ways: &[(Way, usize)],
        about: impl FnOnce() -> About,
    ) {
        let (mut kept_as, mut about) = (None, Some(about));
        for (way, behind) in ways {
            let is_full = self.probed.len() >= PROBED && !self.probed.contains_key(way);
            let kept = self.probed.get(way).copied().unwrap_or(0);
            if is_full || kept >= PROBES {
                continue;
            }
            self.probed.insert(*way, kept + 1);
            if let Some(about) = about.take() {
                let sequence = Arc::new(sequence(sent.program, sent.at));
                kept_as = Some((sequence, Arc::new(about())));
            }
            let Some((sequence, about)) = kept_as.clone() else { return };
            let setup = sent.setup.clone();
            let (way, behind, tried) = (*way, *behind, 0);
            self.probes.push(Probe { setup, sequence, about, way, behind, tried });
        }
    }

    /// Keeps the sequence up to the packet of `sent`, which came by these ways that other lists in the settings may
    /// open.
    pub(crate) fn relist(&mut self, sent: &Sent<'_>, ways: &[Way]) {
        if self.is_rest {
            self.lists.keep(sent, ways);
        }
    }

    /// The same of ways that are open where there is no room.
    pub(crate) fn resize(&mut self, sent: &Sent<'_>, ways: &[Way]) {
        if self.is_rest {
            self.sizes.keep(sent, ways);
        }
    }

    /// Some of the sequences that other lists may lead on, all of one setup, each once.
    pub(crate) fn take_listed(&mut self) -> Option<Vec<Known>> {
        self.lists.take()
    }

    /// The same of smaller sizes.
    pub(crate) fn take_sized(&mut self) -> Option<Vec<Known>> {
        self.sizes.take()
    }

    /// The way has been taken: nothing is to be tried for it.
    pub(crate) fn opened(&mut self, way: Way) {
        if self.is_rest {
            self.lists.kept.insert(way, LISTED);
            self.sizes.kept.insert(way, LISTED);
        }
        if self.probed.remove(&way).is_some() {
            self.probes.retain(|probe| probe.way != way);
        }
    }

    /// A setup under which there is something to follow.
    pub(crate) fn setup(&self, chance: &mut Seeds) -> Option<&Arc<Setup>> {
        let lead = self.leads.last().map(|lead| &lead.setup);
        let probe = self.probes.get(chance.below(self.probes.len())).map(|probe| &probe.setup);
        if chance.below(2) == 0 { lead.or(probe) } else { probe.or(lead) }
    }

    /// A lead under `setup`, each once.
    pub(crate) fn take_lead(&mut self, setup: &Setup) -> Option<Lead> {
        let at = self.leads.iter().rposition(|lead| lead.setup.settings == setup.settings)?;
        Some(self.leads.swap_remove(at))
    }

    /// A probe under `setup`: of some the one with most behind it that has been tried least.
    pub(crate) fn take_probe(&mut self, setup: &Setup, chance: &mut Seeds) -> Option<Probe> {
        let mine = (0..self.probes.len()).filter(|at| {
            let probe = self.probes.get(*at);
            probe.is_some_and(|probe| probe.setup.settings == setup.settings)
        });
        let mine: Vec<usize> = mine.collect();
        let drawn = (0..4).filter_map(|_| mine.get(chance.below(mine.len())).copied());
        let worth = |at: &usize| {
            self.probes.get(*at).map_or(0, |probe| 1_000 * probe.behind / (1 + probe.tried))
        };
        let best = drawn.max_by_key(worth)?;
        let probe = self.probes.get_mut(best)?;
        probe.tried += 1;
        Some(probe.clone())
    }

    /// Some sequence, of the later ones rather.
    pub(crate) fn sequence(&self, chance: &mut Seeds) -> Option<&Vec<Step>> {
        let count = self.sequences.len();
        self.sequences.get(chance.below(count).max(chance.below(count)))
    }
}

/// The step at `at`, those shortly before it, and what these are made from.
pub(crate) fn sequence(program: &Program, at: usize) -> Vec<Step> {
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

/// Whether the field tells ends apart, so that state may be kept by it.
fn is_end(name: &str) -> bool {
    matches!(name.split_once('.'), Some((_, "src" | "dst" | "id")))
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

fn flags(fields: &BTreeMap<&str, u128>, seen: &Seen) -> Option<u8> {
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

fn fragment(fields: &BTreeMap<&str, u128>) -> Option<Edit> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::endpoint::source_and_destination;
    use crate::program::Template;
    use anabranch_packet::craft::{self, Link};

    fn setup(name: &str) -> Arc<Setup> {
        Arc::new(Setup {
            settings: toml::Table::from_iter([(name.to_owned(), true.into())]),
            ports: vec!["a".to_owned(), "b".to_owned()],
            known_addresses: Vec::new(),
            known_ports: Vec::new(),
            known_ends: Vec::new(),
            lifetimes_s: vec![30],
            known_payloads: Vec::new(),
            commands: Vec::new(),
            allocated: None,
            exemplary: Vec::new(),
            made: Vec::new(),
            routes: false,
            is_paced: false,
        })
    }

    fn program() -> Program {
        let steps = (0..3).map(|name| {
            let act = Act::Packet(Template::literal(0, vec![name as u8; 60]));
            Step { name, act }
        });
        Program { steps: steps.collect(), avoid: None }
    }

    /// Probes are followed under the settings that they were found under, until their way is open.
    #[test]
    fn probes_last_until_their_way_has_been_taken() {
        let (mine, others, program) = (setup("mine"), setup("others"), program());
        let seen = Seen { port: 0, bytes: vec![2; 60], wire_len: 60 };
        let sent = Sent { setup: &mine, program: &program, at: 2, seen: &seen };
        let (mut guide, mut chance) = (Guide::default(), Seeds::new(1));
        for _ in 0..10 {
            guide.probe(&sent, &[((0, 1), 5), ((0, 2), 1)], About::default);
        }
        assert_eq!(guide.probes.len(), 2 * PROBES);
        assert!(guide.take_probe(&others, &mut chance).is_none());
        let probe = guide.take_probe(&mine, &mut chance).expect("there is one");
        assert_eq!(probe.sequence.last(), program.steps.last());
        guide.opened((0, 1));
        let mut left = guide.probes.iter();
        assert!(left.len() == PROBES && left.all(|probe| probe.way == (0, 2)));
    }

    /// What a lead changes of an end is changed in every packet that has it, in its bytes or by an edit.
    #[test]
    fn an_end_is_changed_in_the_whole_sequence() {
        let all = ["10.1.0.1:3", "10.1.0.2:3", "10.1.0.1:3"].map(|dst| {
            let mut bytes = vec![0; 100];
            let link = Link { src: [2; 6].into(), dst: [4; 6].into(), tags: [None; 2] };
            let src = "10.0.0.1:7".parse().unwrap();
            let len = craft::udp(&mut bytes, &link, src, dst.parse().unwrap(), b"").unwrap();
            bytes.truncate(len);
            bytes
        });
        let last = all[2].clone();
        let mut steps = Vec::new();
        for (name, bytes) in (0..).zip(all) {
            steps.push(Step { name, act: Act::Packet(Template::literal(0, bytes)) });
        }
        if let Act::Packet(template) = &mut steps[1].act {
            template.edits.push(Edit::Dst(IpAddr::from([10, 1, 0, 1])));
        }
        let (setup, program) = (setup("mine"), Program { steps, avoid: None });
        let seen = Seen { port: 0, wire_len: last.len() as u32, bytes: last };
        let sent = Sent { setup: &setup, program: &program, at: 2, seen: &seen };
        let mut guide = Guide::default();
        let new = u32::from(Ipv4Addr::new(192, 0, 2, 9));
        let changes = vec![("ipv4.dst".to_owned(), new.into()), ("ipv4.ttl".to_owned(), 9)];
        guide.lead(&sent, &changes, None);
        let lead = guide.take_lead(&setup).unwrap();
        let sent: Vec<(IpAddr, u16)> = lead
            .throughout()
            .iter()
            .filter_map(|step| match &step.act {
                Act::Packet(template) => {
                    let bytes = template.instantiate(None)?.bytes;
                    Some(source_and_destination(&bytes)?[1])
                }
                _ => None,
            })
            .collect();
        assert_eq!(sent, vec![(IpAddr::from([192, 0, 2, 9]), 3); 3]);
    }

    /// A packet whose way hangs on its payload is sent with all that are looked for.
    #[test]
    fn a_packet_is_sent_with_each_payload() {
        let payloads: Vec<&[u8]> = vec![b"one", b"two", b"three"];
        let setup =
            Arc::new(Setup { known_payloads: payloads.clone(), ..Setup::clone(&setup("mine")) });
        let program = program();
        let seen = Seen { port: 0, bytes: vec![2; 60], wire_len: 60 };
        let sent = Sent { setup: &setup, program: &program, at: 2, seen: &seen };
        let mut guide = Guide::default();
        guide.lead_to_payloads(&sent);
        let made = crate::generate::Generator::new(&setup, 7).guided(40, &mut guide);
        let mut said = made.steps.iter().filter_map(|step| match &step.act {
            Act::Packet(template) => match template.edits.last() {
                Some(Edit::Payload(payload)) if template.origin.cause().is_none() => Some(*payload),
                _ => None,
            },
            _ => None,
        });
        let row: BTreeSet<&[u8]> = said.by_ref().take(payloads.len()).collect();
        assert_eq!(row, payloads.into_iter().collect());
    }

    /// The packet of a probe is sent again after something else, under names of its own.
    #[test]
    fn what_lies_between_comes_before_the_packet_again() {
        let (setup, program) = (setup("mine"), program());
        let seen = Seen { port: 0, bytes: vec![2; 60], wire_len: 60 };
        let sent = Sent { setup: &setup, program: &program, at: 2, seen: &seen };
        let mut guide = Guide::default();
        guide.keep(&program, 2);
        guide.probe(&sent, &[((0, 1), 5)], About::default);
        let made = crate::generate::Generator::new(&setup, 7).guided(400, &mut guide);
        let last = program.steps.last().map(|step| step.act.clone());
        let is_last = |step: &&Step| Some(&step.act) == last.as_ref();
        let again = made.steps.iter().filter(is_last).count();
        assert!(again > 20, "{again}");
        let names: BTreeSet<u32> = made.steps.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), made.steps.len());
        assert!(made.steps.iter().any(|step| matches!(step.act, Act::Pause(ns) if ns > 1 << 33)));
    }
}
