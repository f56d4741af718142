//! Sequences whose last packet is sent once more after something that may have changed what state answers.

use std::collections::HashMap;

use super::{Generator, HOSTS, address};
use crate::edit::Edit;
use crate::endpoint::source_and_destination;
use crate::guide::Probe;
use crate::program::{Act, Origin, Step, Template};

/// The longest pause: settings may allow years.
const MOST_NS: u64 = 20_000_000_000_000;
/// Steps at most between a packet and its repetition, where other state is wanted.
const BETWEEN: usize = 4;
/// Commands at most that are given together about one end.
const TOGETHER: usize = 3;
/// How many others do the same as a sequence, and the last of its steps that they do.
const SHADOWS: usize = 4;
const SHADOWED: usize = 12;
/// How many do the same where more is to end than is collected with a packet, and how many packets each.
const CROWD: usize = 24;
const CROWDED: usize = 2;

impl Generator<'_> {
    /// The sequence, something that may change state, and its last packet once more. Where there is an `other`
    /// sequence, what changes state is that one, between the ends of the last packet.
    pub(super) fn probe(
        &mut self,
        probe: &Probe,
        other: Option<&Vec<Step>>,
        steps: &mut Vec<Step>,
    ) {
        let Some((last, before)) = probe.sequence.split_last() else { return };
        let is_sent_before = self.is(70);
        let sequence = if is_sent_before { &probe.sequence[..] } else { before };
        let ends = self.is(25);
        match ends && self.is(60) {
            true if self.crowds && self.is(60) => {
                // What is older than they would be collected before them.
                let pause = self.lifetime_of(probe).map(|whole| Act::Pause(whole + 2_000_000));
                pause.into_iter().for_each(|pause| _ = self.push(pause, steps));
                self.crowd(sequence, steps);
            }
            true => self.shadow(sequence, steps),
            false => {}
        }
        let names = self.paste(sequence, false, steps);
        if ends {
            self.refresh_some(probe, &names, steps);
        } else if let Some(other) = other {
            self.paste(&of_the_same(other, probe), false, steps);
        } else {
            for _ in 0..1 + self.chance.below(BETWEEN) {
                self.between(probe, &names, steps);
            }
        }
        let mut last = last.clone();
        if let (Act::Packet(template), true) = (&mut last.act, self.is(35)) {
            template.edits.extend(self.variation());
        }
        self.paste_step(&last, &names, steps);
    }

    /// Adds the last packets of the sequence for others that do the same, before it: what ends by then ends with
    /// what they have left, and since little is collected at a time some of it is over and still there.
    pub(super) fn shadow(&mut self, sequence: &[Step], steps: &mut Vec<Step>) {
        let last = &sequence[sequence.len().saturating_sub(SHADOWED)..];
        for _ in 0..SHADOWS {
            let edits = [Edit::SrcPort(self.transport_port()), Edit::Id(self.transport_port())];
            let of_another = |step: &Step| {
                let mut step = step.clone();
                match &mut step.act {
                    Act::Packet(template) if template.origin.cause().is_none() => {
                        template.edits.extend(edits);
                        Some(step)
                    }
                    Act::Packet(_) => Some(step),
                    _ => None,
                }
            };
            let steps_of_another: Vec<Step> = last.iter().filter_map(of_another).collect();
            self.paste(&steps_of_another, false, steps);
        }
    }

    /// Adds the last packets of their own that the sequence has for so many others that not all they leave ends at once.
    fn crowd(&mut self, sequence: &[Step], steps: &mut Vec<Step>) {
        let own = sequence.iter().rev().filter_map(|step| match &step.act {
            Act::Packet(template) if template.origin.cause().is_none() => Some(template),
            _ => None,
        });
        let own: Vec<&Template> = own.take(CROWDED).collect();
        for other in 1..=CROWD {
            let port = Edit::SrcPort(self.transport_port());
            for template in own.iter().rev() {
                let mut template = Template::clone(template);
                let (behind, host) = (template.port.unwrap_or(0), (HOSTS + other) as u8);
                let addresses = [true, false].map(|ipv4| Edit::Src(address(behind, host, ipv4)));
                template.edits.extend(addresses);
                template.edits.push(port);
                self.push(Act::Packet(template), steps);
            }
        }
    }

    /// A lifetime that passes, in the middle of which one packet is sent again: what it refreshes is there in the
    /// end, what is as old otherwise has just ended. Half of the time that is the last packet with a change, sent
    /// before too: what both have in common lasts, and what is the last one's alone ends.
    fn refresh_some(&mut self, probe: &Probe, names: &HashMap<u32, u32>, steps: &mut Vec<Step>) {
        let Some(whole) = self.lifetime_of(probe) else { return };
        let last = probe.sequence.last().and_then(|last| names.get(&last.name));
        let mut all: Vec<u32> = names.values().copied().collect();
        all.sort_unstable();
        if let (Some(last), true) = (last, self.is(50)) {
            let varied = Template { edits: self.variation().into_iter().collect(), ..again(*last) };
            all = vec![self.push(Act::Packet(varied), steps)];
        }
        self.push(Act::Pause(whole / 2), steps);
        for _ in 0..1 + self.chance.below(3) {
            let Some(name) = self.pick(&all) else { break };
            self.push(Act::Packet(again(name)), steps);
        }
        let rest = whole / 2 + 2_000_000 + self.chance.draw() % 30_000_000;
        self.push(Act::Pause(rest), steps);
    }

    /// Something that may change what a packet finds: commands, a lifetime that passes, the same packet
    /// with a change, its answer, anything.
    fn between(&mut self, probe: &Probe, names: &HashMap<u32, u32>, steps: &mut Vec<Step>) {
        let last = probe.sequence.last().and_then(|last| names.get(&last.name).copied());
        let known = last.or_else(|| self.sent.last().copied());
        let act = match (self.chance.below(8), known) {
            (0, Some(name)) if !self.setup.known_payloads.is_empty() => {
                return self.say_all(&again(name), steps);
            }
            (0 | 1, _) if !self.setup.commands.is_empty() => return self.commands(probe, steps),
            (0..=2, _) => Act::Pause(self.lifetime(probe)),
            (3 | 4, Some(name)) => {
                let mut template = again(name);
                self.change(&mut template);
                Act::Packet(template)
            }
            (5 | 6, Some(name)) => {
                let edits = if self.is(50) { vec![Edit::Flags(self.flags())] } else { Vec::new() };
                Act::Packet(Template { origin: Origin::Answer(name, 0), port: None, edits })
            }
            _ => self.act(),
        };
        self.push(act, steps);
    }

    /// A command, or some about an end that the last packet had as it came or as it left.
    fn commands(&mut self, probe: &Probe, steps: &mut Vec<Step>) {
        let end = self.pick(&probe.about.ends).filter(|_| self.is(60));
        let count = if end.is_some() { 1 + self.chance.below(TOGETHER) } else { 1 };
        for _ in 0..count {
            let command = match end {
                Some(end) => self.command_about(end),
                None => self.command(),
            };
            self.push(Act::Command(command), steps);
        }
    }

    /// A time after which something ends, so that what has ended is still there or is collected, or half of it, which
    /// twice makes a whole.
    fn lifetime(&mut self, probe: &Probe) -> u64 {
        let Some(whole) = self.lifetime_of(probe) else { return self.pause() };
        match self.chance.below(6) {
            0 => whole / 2,
            1 => whole / 2 + self.chance.draw() % (whole / 4).max(1),
            2 => whole.saturating_sub(2_000_000),
            3 => whole + self.chance.draw() % 40_000_000,
            _ => whole + self.chance.draw() % 2_000_000_000,
        }
    }

    /// A lifetime: mostly one of what the last packet came upon, else one of the settings.
    fn lifetime_of(&mut self, probe: &Probe) -> Option<u64> {
        let given = self.pick(&probe.about.lifetimes_ns).filter(|_| self.is(70));
        let set = || Some(self.pick(&self.setup.lifetimes_s)?.saturating_mul(1_000_000_000));
        given.or_else(set).map(|whole| whole.min(MOST_NS))
    }
}

/// The packet of this name, as it was.
fn again(name: u32) -> Template {
    Template { origin: Origin::Again(name), port: None, edits: Vec::new() }
}

/// The last steps of `sequence`, between the ends that the last packet of `probe` had.
fn of_the_same(sequence: &[Step], probe: &Probe) -> Vec<Step> {
    let mut steps = sequence[sequence.len().saturating_sub(SHADOWED)..].to_vec();
    let own = steps.iter().rev().find_map(|step| match &step.act {
        Act::Packet(Template { origin: Origin::Bytes(bytes, _), .. }) => {
            source_and_destination(bytes)
        }
        _ => None,
    });
    let Some((own, theirs)) = own.zip(probe.about.came) else { return steps };
    let changes = own.into_iter().zip(theirs).flat_map(|((old, old_port), (new, new_port))| {
        [
            [Edit::Src(old), Edit::Src(new)],
            [Edit::Dst(old), Edit::Dst(new)],
            [Edit::SrcPort(old_port), Edit::SrcPort(new_port)],
            [Edit::DstPort(old_port), Edit::DstPort(new_port)],
        ]
    });
    let changes: Vec<[Edit; 2]> = changes.collect();
    for step in &mut steps {
        if let Act::Packet(template) = &mut step.act {
            template.replace(&changes);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::About;
    use crate::setup::Setup;
    use anabranch_nfs::firewall::Function;

    /// What another sequence did between its ends is done between those of the probe.
    #[test]
    fn another_sequence_is_sent_between_the_ends_of_the_probe() {
        let setup = Setup::new::<Function>(toml::Table::new());
        let openings = |seed| {
            let mut generator = Generator::new(&setup, seed);
            let template = generator.opening();
            vec![Step { name: 0, act: Act::Packet(template) }]
        };
        let ends = |steps: &[Step]| match &steps.first()?.act {
            Act::Packet(template) => source_and_destination(&template.instantiate(None)?.bytes),
            _ => None,
        };
        let mut is_moved = 0;
        for seed in 1..50 {
            let (mine, others) = (openings(seed), openings(seed + 50));
            let (Some(came), Some(were)) = (ends(&mine), ends(&others)) else { continue };
            let is_ipv4 = |end: [(std::net::IpAddr, u16); 2]| end[0].0.is_ipv4();
            if is_ipv4(came) != is_ipv4(were) || came == were {
                continue;
            }
            let about = About { came: Some(came), ..About::default() };
            let moved = of_the_same(&others, &Probe::of(&setup, mine, about));
            let addresses = |ends: [(std::net::IpAddr, u16); 2]| ends.map(|end| end.0);
            assert_eq!(ends(&moved).map(addresses), Some(addresses(came)));
            is_moved += 1;
        }
        assert!(is_moved > 20, "{is_moved}");
    }

    /// Commands come together about ends that packets had, and time passes as long as lifetimes are.
    #[test]
    fn what_a_probe_is_about_lies_between() {
        let settings = crate::examples::example("lb").parse().unwrap_or_default();
        let setup = Setup::new::<anabranch_nfs::lb::Function>(settings);
        let about = About {
            ends: vec![([192, 0, 2, 77].into(), 9)],
            came: None,
            lifetimes_ns: vec![12_345_000_000_000],
        };
        let packet = Template::literal(0, vec![2; 60]);
        let steps = vec![Step { name: 0, act: Act::Packet(packet) }];
        let probe = Probe::of(&setup, steps, about);
        let (mut generator, mut steps) = (Generator::new(&setup, 1), Vec::new());
        (0..800).for_each(|_| generator.probe(&probe, None, &mut steps));
        let is_about = |step: &Step| matches!(&step.act, Act::Command(text) if text.contains("address=192.0.2.77"));
        assert!(steps.windows(2).filter(|two| two.iter().all(is_about)).count() > 10);
        let lasts =
            |step: &&Step| matches!(step.act, Act::Pause(ns) if ns / 1_000_000_000 == 12_345);
        assert!(steps.iter().filter(lasts).count() > 10);
    }
}
