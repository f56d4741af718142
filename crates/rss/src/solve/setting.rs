//! A problem that has been checked, with what follows from it for any choice of keys.

use crate::field::Field;
use crate::need::{Need, PacketPair, Side, Which};
use crate::nic::Hashing;
use crate::problem::Problem;
use crate::solution::{Cause, Malformed, Solution, Unsteerable};
use crate::solve::choice::choose;
use crate::solve::pairs::generators;
use crate::solve::space::Demand;
use crate::solve::usable::Usable;

/// A checked problem.
pub(crate) struct Setting<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) index_bits: u32,
    /// All classes that the ports' NICs tell apart.
    pub(crate) sides: Vec<Side>,
    /// One for each need.
    pub(crate) demands: Vec<Demand>,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Result<Self, Malformed> {
        let index_bits = index_bits(problem)?;
        for (at, need) in problem.needs.iter().enumerate() {
            check_need(problem, at, need)?;
        }
        check_ports(problem)?;
        let ports = problem.ports.iter().enumerate();
        let sides = ports
            .flat_map(|(port, spec)| spec.nic.classes().map(move |class| Side { port, class }))
            .collect();
        let mut setting = Self { problem, index_bits, sides, demands: Vec::new() };
        setting.demands = problem.needs.iter().map(|need| setting.demand(need)).collect();
        Ok(setting)
    }

    fn demand(&self, need: &Need) -> Demand {
        let sides = need.sides.map(|side| self.seen(side));
        let [first, second] = sides.map(|side| self.hashing(side).fields());
        Demand { sides, generators: generators(need, [&first, &second]) }
    }

    /// `side` with the class that its NIC treats its packets as.
    pub(crate) fn seen(&self, side: Side) -> Side {
        Side { class: self.problem.ports[side.port].nic.seen_as(side.class), ..side }
    }

    pub(crate) fn as_seen(&self, pair: &PacketPair) -> PacketPair {
        PacketPair { sides: pair.sides.map(|side| self.seen(side)), packets: pair.packets.clone() }
    }

    pub(crate) fn hashing(&self, side: Side) -> Hashing {
        self.problem.ports[side.port].nic.hashing(side.class)
    }

    /// The needs of `needs` that touch packets of `side`.
    pub(crate) fn touching(&self, needs: &[usize], side: Side) -> Vec<usize> {
        let touches = |need: &usize| self.demands[*need].sides.contains(&side);
        needs.iter().copied().filter(touches).collect()
    }

    /// Keys under which `needs` and `pairs` are met; else the classes that cannot be spread.
    pub(crate) fn find(
        &self,
        needs: &[usize],
        pairs: &[PacketPair],
    ) -> Result<Solution, Vec<Unsteerable>> {
        let usable = self.usable(needs);
        let hopeless = self.hopeless(needs, &usable);
        if !hopeless.is_empty() {
            return Err(hopeless);
        }
        match choose(self, needs, pairs, &usable) {
            (solution, stuck) if stuck.is_empty() => Ok(solution),
            (_, stuck) => Err(stuck),
        }
    }

    pub(crate) fn usable(&self, needs: &[usize]) -> Usable {
        Usable::new(self, &self.sides, needs)
    }

    /// The classes that no key can spread, as far as that does not depend on the key.
    pub(crate) fn hopeless(&self, needs: &[usize], usable: &Usable) -> Vec<Unsteerable> {
        self.sides.iter().filter_map(|side| self.hopeless_side(needs, usable, *side)).collect()
    }

    /// Why no key can spread the packets of `side`.
    fn hopeless_side(&self, needs: &[usize], usable: &Usable, side: Side) -> Option<Unsteerable> {
        let touching = self.touching(needs, side);
        let found = |needs, cause| Some(Unsteerable { side, needs, cause });
        match self.hashing(side) {
            _ if touching.is_empty() => None,
            Hashing::Undocumented => found(touching, Cause::Undocumented),
            Hashing::QueueZero => None,
            _ if usable.any(side) => None,
            _ => match self.fewest(usable.culprits(side), side)[..] {
                [one] => match self.unhashed(one) {
                    fields if fields.is_empty() => found(vec![one], Cause::Always),
                    fields => found(vec![one], Cause::Unhashed(fields)),
                },
                ref culprits => found(culprits.to_vec(), Cause::Disjoint),
            },
        }
    }

    /// `culprits` without those that the others do without to rule all bits of `side` out.
    fn fewest(&self, culprits: Vec<usize>, side: Side) -> Vec<usize> {
        let mut fewest = culprits.clone();
        for culprit in culprits {
            let others: Vec<usize> =
                fewest.iter().copied().filter(|other| *other != culprit).collect();
            if !self.usable(&others).any(side) {
                fewest = others;
            }
        }
        fewest
    }

    /// The fields that a need speaks of on a side whose NIC does not hash them.
    fn unhashed(&self, need: usize) -> Vec<Field> {
        let mut missing = Vec::new();
        for which in [Which::First, Which::Second] {
            let hashed = self.hashing(self.demands[need].sides[which.index()]).fields();
            let fields = self.problem.needs[need].fields(which).into_iter();
            missing.extend(fields.filter(|field| !hashed.contains(field)));
        }
        missing.sort();
        missing.dedup();
        missing
    }
}

fn index_bits(problem: &Problem) -> Result<u32, Malformed> {
    let widest = problem.ports.iter().map(|spec| spec.nic.index_bits()).min();
    match problem.index_bits.or(widest).unwrap_or(1) {
        bits @ 1..=32 => Ok(bits),
        bits => Err(Malformed::IndexBits(bits)),
    }
}

fn check_need(problem: &Problem, at: usize, need: &Need) -> Result<(), Malformed> {
    if let Some(side) = need.sides.iter().find(|side| side.port >= problem.ports.len()) {
        return Err(Malformed::NoSuchPort { need: Some(at), port: side.port });
    }
    match need.equalities.iter().position(|equality| !equality.is_well_formed()) {
        Some(equality) => Err(Malformed::Equality { need: at, equality }),
        None => Ok(()),
    }
}

/// The sample and the pinned fields.
fn check_ports(problem: &Problem) -> Result<(), Malformed> {
    if let Some(frame) = problem.sample.iter().find(|frame| frame.port >= problem.ports.len()) {
        return Err(Malformed::NoSuchPort { need: None, port: frame.port });
    }
    for (port, spec) in problem.ports.iter().enumerate() {
        let wrong =
            spec.pinned.iter().find(|(class, input)| !spec.nic.hashing(*class).allows(input));
        if let Some((class, input)) = wrong {
            return Err(Malformed::Pinned { port, class: *class, input: input.clone() });
        }
    }
    Ok(())
}
