//! Whether two runs did the same.
//!
//! Under locks byte for byte. Where state is sharded, up to a renaming of what allocators gave out: a
//! one-to-one relation between endpoints (address, port or echo identifier) of the two runs. A pair
//! enters the relation, or replaces older ones, only at a step at which both runs allocated; from then
//! on each run must go on with its own. Where a function gives one port for all protocols, what was
//! allocated for a packet of one of them shows in those of another: the relation is then between
//! endpoints whatever their protocol, in the whole program.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use anabranch_packet::checksum::{Check, verify};
use anabranch_packet::parse;

use crate::edit::{LONGEST, with_packet};
use crate::endpoint::{Endpoint, Placed, endpoints};
use crate::run::{Handled, Outcome};

/// The same up to renaming, or byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// Every byte is the same.
    Exact,
    /// Allocated endpoints may have other values.
    Renamed,
}

/// A one-to-one relation between endpoints of two runs.
#[derive(Debug, Default)]
pub struct Renaming {
    /// Endpoints of all protocols are named alike.
    joint: bool,
    there: HashMap<Endpoint, Endpoint>,
    back: HashMap<Endpoint, Endpoint>,
    /// Sources of packets for which both runs allocated something that has not been seen yet: what is
    /// allocated for a packet that is dropped shows later.
    unseen: HashSet<Endpoint>,
    /// How many pairs were entered so far.
    noted: usize,
}

/// Compares two runs step by step.
#[derive(Debug)]
pub struct Comparison {
    sameness: Sameness,
    renaming: Renaming,
}

impl Comparison {
    /// A comparison of runs that have not begun.
    pub fn new(sameness: Sameness) -> Self {
        Self { sameness, renaming: Renaming::default() }
    }

    /// The same where a port is one for all protocols.
    pub fn of_joint_ports(sameness: Sameness) -> Self {
        Self { sameness, renaming: Renaming { joint: true, ..Renaming::default() } }
    }

    /// What differs at a step, in words; `None`: nothing.
    pub fn differs(&mut self, one: &Handled, many: &Handled) -> Option<String> {
        if one.arrival.is_some() != many.arrival.is_some() {
            return Some("the packet is sent in one run only".to_owned());
        }
        let (a, b) = (&one.outcome, &many.outcome);
        let quiet = a.sent.is_empty() && !a.allocated;
        if a == b && (self.sameness == Sameness::Exact || quiet) {
            return None;
        }
        if let Some(what) = verdicts(a, b) {
            return Some(what);
        }
        let fresh = self.renaming.fresh(one, many);
        let mut pairs = a.sent.iter().zip(&b.sent);
        let before = self.renaming.noted;
        let found = pairs.find_map(|((port, a), (_, b))| {
            let what = match self.sameness {
                Sameness::Exact => (a != b).then(|| "bytes differ".to_owned()),
                Sameness::Renamed => self.renaming.differs(a, b, fresh.as_ref()),
            };
            what.map(|what| format!("{what} of what left port {port}"))
        });
        // An echo's identifier is new at both of its ends, and was allocated for one.
        if let (true, Some([ours, _])) = (self.renaming.noted > before, &fresh) {
            self.renaming.has_shown(ours);
        }
        found
    }
}

fn verdicts(a: &Outcome, b: &Outcome) -> Option<String> {
    if a.refused != b.refused {
        return Some("dropped for another reason, or in one run only".to_owned());
    }
    if a.sent.len() != b.sent.len() || a.sent.iter().zip(&b.sent).any(|(a, b)| a.0 != b.0) {
        return Some("it leaves through other ports".to_owned());
    }
    (a.allocated != b.allocated).then(|| "something is allocated in one run only".to_owned())
}

impl Renaming {
    /// The endpoints that a packet brings in each run, where something new may show.
    fn fresh(&mut self, one: &Handled, many: &Handled) -> Option<[Vec<Endpoint>; 2]> {
        let allocated = one.outcome.allocated && many.outcome.allocated;
        if !allocated && self.unseen.is_empty() {
            return None;
        }
        let ours = self.arrived(one);
        if allocated {
            self.unseen.extend(ours.first());
        }
        let shows = ours.iter().any(|end| self.unseen.contains(end));
        shows.then(|| [ours, self.arrived(many)])
    }

    /// `fresh`: both runs allocated, of packets with these endpoints.
    fn differs(
        &mut self,
        a: &[u8],
        b: &[u8],
        fresh: Option<&[Vec<Endpoint>; 2]>,
    ) -> Option<String> {
        if a.len() != b.len() {
            return Some("the length".to_owned());
        }
        let (ends_a, ends_b) = (endpoints(a), endpoints(b));
        if ends_a.len() != ends_b.len() {
            return Some("the headers".to_owned());
        }
        if ends_a.iter().zip(&ends_b).any(|(one, other)| one.places != other.places) {
            return Some("the headers".to_owned());
        }
        let pairs = ends_a.chunks(2).zip(ends_b.chunks(2));
        for (ours, theirs) in pairs {
            if let Some(name) = self.unrelated(ours, theirs, fresh) {
                return Some(format!("the {name}"));
            }
        }
        if a == b {
            return None;
        }
        let places = ends_a.iter().flat_map(|end| end.places.iter().cloned());
        let checksums = checksums(a);
        let renamed: Vec<Range<usize>> = places.chain(checksums.iter().cloned()).collect();
        let covered = |at: usize| renamed.iter().any(|place| place.contains(&at));
        let first = (0..a.len()).find(|at| a.get(*at) != b.get(*at) && !covered(*at));
        if let Some(at) = first {
            return Some(format!("byte {at}"));
        }
        (right(a) != right(b)).then(|| "a checksum".to_owned())
    }

    /// Which of the two ends of a packet is not what the other run has there.
    fn unrelated(
        &mut self,
        ours: &[Placed],
        theirs: &[Placed],
        fresh: Option<&[Vec<Endpoint>; 2]>,
    ) -> Option<&'static str> {
        let mut wrong = None;
        let mut right = 0;
        for (one, other) in ours.iter().zip(theirs) {
            let same_host = one.endpoint.address == other.endpoint.address;
            match self.relates(one.endpoint, other.endpoint, fresh) {
                true => right += 1,
                // The identifier of an echo is of one end only, and which one is not known.
                false if one.shares_port && same_host => {}
                false => wrong = Some(one.name),
            }
        }
        wrong.or_else(|| (right == 0).then(|| ours.first().map(|one| one.name)).flatten())
    }

    /// Whether `one` is what the other run calls `other`; notes it where both are new.
    fn relates(
        &mut self,
        one: Endpoint,
        other: Endpoint,
        fresh: Option<&[Vec<Endpoint>; 2]>,
    ) -> bool {
        let (one, other) = (self.name(one), self.name(other));
        match (self.there.get(&one), self.back.get(&other)) {
            (Some(to), Some(from)) if *to == other && *from == one => return true,
            (None, None) if one == other => return true,
            _ => {}
        }
        // What a packet brings is not new, however much is allocated meanwhile.
        let is_new =
            fresh.is_some_and(|[ours, theirs]| !ours.contains(&one) && !theirs.contains(&other));
        if is_new {
            self.relate(one, other);
            self.noted += 1;
        }
        is_new
    }

    /// What was allocated for one of these has been seen.
    fn has_shown(&mut self, ours: &[Endpoint]) {
        if let Some(shown) = ours.iter().find(|end| self.unseen.contains(*end)) {
            self.unseen.remove(shown);
        }
    }

    fn relate(&mut self, one: Endpoint, other: Endpoint) {
        if let Some(old) = self.there.insert(one, other) {
            self.back.remove(&old);
        }
        if let Some(old) = self.back.insert(other, one)
            && old != one
        {
            self.there.remove(&old);
        }
    }

    /// The endpoints of a packet as it arrived.
    fn arrived(&self, handled: &Handled) -> Vec<Endpoint> {
        let arrival = handled.arrival.as_ref();
        let ends = arrival.map(|arrival| endpoints(&arrival.bytes)).unwrap_or_default();
        ends.into_iter().map(|end| self.name(end.endpoint)).collect()
    }

    fn name(&self, endpoint: Endpoint) -> Endpoint {
        Endpoint { protocol: if self.joint { 0 } else { endpoint.protocol }, ..endpoint }
    }
}

/// Where checksums stand that cover renamed fields. An error quotes checksums too, of which not
/// enough is there to verify them.
fn checksums(bytes: &[u8]) -> Vec<Range<usize>> {
    let layout = parse(bytes, LONGEST);
    let mut places = Vec::new();
    if layout.has_ipv4() {
        places.push(layout.l3_offset() + 10..layout.l3_offset() + 12);
    }
    let l4 = layout.l4_offset();
    let of_transport = match () {
        () if layout.has_tcp() => Some(16),
        () if layout.has_udp() => Some(6),
        () if layout.has_icmpv4() || layout.has_icmpv6() => Some(2),
        () => None,
    };
    if let Some(offset) = of_transport {
        places.push(l4 + offset..l4 + offset + 2);
    }
    if layout.has_icmpv4() || layout.has_icmpv6() {
        places.extend(crate::endpoint::quoted_checksums(bytes, l4 + 8));
    }
    places
}

/// Which checksums are right.
fn right(bytes: &[u8]) -> (Check, Check) {
    let report = with_packet(&mut bytes.to_vec(), |packet| verify(packet));
    (report.ipv4_header, report.transport)
}
