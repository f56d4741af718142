//! Neighbours: what is known of the stations on our links, and asking for what is not.
//!
//! ```text
//!            a packet needs it: asked            answered            30 s later, a packet needs it:
//!  (absent) ───────────────────▶ unresolved ───────────────▶ fresh ───────────────┐ asked at its address
//!                                 │      ▲                     ▲                   ▼
//!          3 questions unanswered │      │ 3 unanswered        │ answered        stale (still used)
//!                                 ▼      └─────────────────────┴───────────────────┘
//!                              failed (asked on, once a second, while packets come)
//! ```
//!
//! A state changes when a packet meets it. Who is unresolved is asked three times whether packets come or not
//! ([`Neighbour::follow_up`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use anabranch_packet::{MacAddr, Port};

use crate::l3::configuration::Interface;
use crate::state::Map;

/// Neighbours learned from the links, besides those in the configuration.
pub(super) const LEARNED: u32 = 4_096;
/// Between two questions for one address: RETRANS_TIMER (RFC 4861, 10); RFC 1122, 2.3.2.1 has the
/// same for ARP.
pub(super) const RETRANSMIT_NS: u64 = 1_000_000_000;
/// Questions until a neighbour counts as gone: MAX_MULTICAST_SOLICIT (RFC 4861, 10).
const QUESTIONS: u8 = 3;
/// An answer is believed for REACHABLE_TIME (RFC 4861, 10).
const REACHABLE_NS: u64 = 30_000_000_000;
/// Of answers within this time the first counts.
const LATELY_NS: u64 = 1_000_000_000;
/// One neighbour, in a cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub(super) struct Neighbour {
    /// Until when `header` may be used without a second thought; 0: there is none.
    pub fresh_until: u64,
    /// The first 12 bytes of a frame to it: its address and ours.
    pub header: [u8; 12],
    /// Largest IP packet on the way to it, in bytes.
    pub mtu: u32,
    pub port: Port,
    /// Whether `header` is complete.
    pub is_resolved: bool,
    /// Asked since it last answered.
    questions: u8,
    asked_at: u64,
    pub address: IpAddr,
}

const STATIC: u64 = u64::MAX;

impl Neighbour {
    /// The one at `address` on the link of `interface`, of whom no more is known.
    pub fn new(address: IpAddr, interface: &Interface) -> Self {
        let mut header = [0; 12];
        header[6..].copy_from_slice(&interface.mac.octets());
        Self {
            fresh_until: 0,
            header,
            mtu: interface.mtu,
            port: interface.port,
            is_resolved: false,
            questions: 0,
            asked_at: 0,
            address,
        }
    }

    /// Its Ethernet address, all zero until it is resolved.
    pub fn mac(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = self.header;
        MacAddr::new(a, b, c, d, e, f)
    }

    fn set_mac(&mut self, mac: MacAddr) {
        self.header[..6].copy_from_slice(&mac.octets());
        self.is_resolved = true;
    }

    /// Whether a packet with `hops` left and of `len` bytes may be sent to it at `now` as it is.
    #[inline(always)]
    pub fn takes(&self, hops: u8, len: u32, now: u64) -> bool {
        hops > 1 && len <= self.mtu && now < self.fresh_until
    }

    pub fn is_static(&self) -> bool {
        self.fresh_until == STATIC
    }

    /// What to do with a packet for it at `now`, when it is not fresh.
    pub fn consult(&mut self, now: u64) -> Consulted {
        let asked = self.questions > 0 && now.saturating_sub(self.asked_at) < RETRANSMIT_NS;
        if self.is_resolved && !asked && self.questions >= QUESTIONS {
            self.is_resolved = false;
            self.fresh_until = 0;
            self.questions = 0;
        }
        if !asked {
            self.questions = self.questions.saturating_add(1);
            self.asked_at = now;
        }
        if self.is_resolved {
            // Fresh for a second, so that the packets until the next question need no thought.
            self.fresh_until = self.asked_at.saturating_add(RETRANSMIT_NS);
        }
        let state = match (self.is_resolved, self.questions) {
            (true, _) => Resolution::Usable,
            (false, ..=QUESTIONS) => Resolution::Waiting,
            (false, _) => Resolution::Failed,
        };
        Consulted { state, ask: !asked }
    }

    /// What has become of the question of `asked_at`, [`RETRANSMIT_NS`] ago: `Waiting`, it is to be asked again, now;
    /// `Failed`, that was the last. `None`: it has answered, has been asked since, or was another's.
    pub fn follow_up(&mut self, asked_at: u64, now: u64) -> Option<Resolution> {
        if self.is_resolved || self.questions == 0 || self.asked_at != asked_at {
            return None;
        }
        if self.questions >= QUESTIONS {
            return Some(Resolution::Failed);
        }
        self.questions += 1;
        self.asked_at = now;
        Some(Resolution::Waiting)
    }

    fn has_answered_lately(&self, now: u64) -> bool {
        let answered_at = self.fresh_until.checked_sub(REACHABLE_NS);
        answered_at.is_some_and(|at| now < at.saturating_add(LATELY_NS))
    }

    /// It is at `mac`.
    pub fn learn(&mut self, mac: MacAddr, evidence: Evidence, now: u64) {
        if self.is_static() {
            return;
        }
        let changed = !self.is_resolved || self.mac() != mac;
        self.set_mac(mac);
        match evidence {
            // Who speaks often is believed for about as long, and others need not be told each time.
            Evidence::Answer if changed || !self.has_answered_lately(now) => {
                self.fresh_until = now.saturating_add(REACHABLE_NS);
            }
            Evidence::Answer => {}
            Evidence::Hearsay if changed => self.fresh_until = 1,
            Evidence::Hearsay => {}
        }
        if evidence == Evidence::Answer || changed {
            self.questions = 0;
        }
    }

    /// It may have moved: it is used, and asked for with the next packet.
    pub fn doubt(&mut self) {
        if !self.is_static() {
            self.fresh_until = self.fresh_until.min(1);
            self.questions = 0;
        }
    }
}

/// Whether a neighbour can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// Its address is known.
    Usable,
    /// It has been asked for.
    Waiting,
    /// It has been asked for and does not answer.
    Failed,
}

/// What is to be done before a packet can be sent to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consulted {
    pub state: Resolution,
    /// It is to be asked for, now.
    pub ask: bool,
}

/// How much an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The neighbour hears us: it answered.
    Answer,
    /// It spoke, whether it hears us or not.
    Hearsay,
}

/// The neighbours of all interfaces, as one worker knows them.
pub(super) struct Neighbours {
    entries: Vec<Neighbour>,
    ipv4: Map<(Ipv4Addr, Port), u32>,
    ipv6: Map<(Ipv6Addr, Port), u32>,
    /// The first so many are in the configuration and stay.
    pinned: u32,
    limit: u32,
}

impl Neighbours {
    /// A table with room for `pinned` neighbours that stay, and for learned ones.
    pub fn new(pinned: u32, seed: u64) -> Self {
        let limit = pinned.saturating_add(LEARNED);
        Self {
            entries: Vec::with_capacity(limit as usize),
            ipv4: Map::new(limit, seed),
            ipv6: Map::new(limit, seed ^ 1),
            pinned: 0,
            limit,
        }
    }

    /// The table that has no room.
    pub fn none() -> Self {
        Self {
            entries: Vec::new(),
            ipv4: Map::new(1, 0),
            ipv6: Map::new(1, 0),
            pinned: 0,
            limit: 0,
        }
    }

    /// Makes (or finds) a neighbour that stays. Only before packets come.
    pub fn pin(&mut self, address: IpAddr, interface: &Interface) -> u32 {
        let index = self.find(address, interface.port).unwrap_or_else(|| {
            let index = self.entries.len() as u32;
            self.put(index, Neighbour::new(address, interface));
            index
        });
        self.pinned = self.pinned.max(index + 1);
        index
    }

    /// Gives a neighbour its Ethernet address for good.
    pub fn fix(&mut self, index: u32, mac: MacAddr) {
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.set_mac(mac);
            entry.fresh_until = STATIC;
        }
    }

    /// The neighbours that stay.
    pub fn pinned(&self) -> Range<u32> {
        0..self.pinned
    }

    /// How many there may be at most.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// All of them.
    pub fn entries(&self) -> &[Neighbour] {
        &self.entries
    }

    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&Neighbour> {
        self.entries.get(index as usize)
    }

    #[inline(always)]
    pub fn find4(&self, address: Ipv4Addr, port: Port) -> Option<u32> {
        self.ipv4.get(&(address, port))
    }

    #[inline(always)]
    pub fn find6(&self, address: Ipv6Addr, port: Port) -> Option<u32> {
        self.ipv6.get(&(address, port))
    }

    pub fn find(&self, address: IpAddr, port: Port) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.find4(address, port),
            IpAddr::V6(address) => self.find6(address, port),
        }
    }

    /// Entry `index`, the next one or one that is there, is `neighbour` from now on. Returns whose place it took.
    pub fn put(&mut self, index: u32, neighbour: Neighbour) -> Option<(IpAddr, Port)> {
        let old = self.get(index).map(|old| (old.address, old.port));
        let new = (neighbour.address, neighbour.port);
        let replaced = old.filter(|&old| old != new);
        if let Some(replaced) = replaced {
            self.forget(replaced, index);
        }
        if old != Some(new) {
            self.name(new, index);
        }
        match self.entries.get_mut(index as usize) {
            Some(entry) => *entry = neighbour,
            None => self.entries.push(neighbour),
        }
        replaced
    }

    /// The address leads to entry `index`. There is room for as many as there are entries.
    fn name(&mut self, (address, port): (IpAddr, Port), index: u32) {
        let stored = match address {
            IpAddr::V4(address) => self.ipv4.insert((address, port), index),
            IpAddr::V6(address) => self.ipv6.insert((address, port), index),
        };
        debug_assert!(stored, "{address} has no room among {} neighbours", self.limit);
    }

    /// The address leads to entry `index` no longer; it may lead to another by now.
    fn forget(&mut self, (address, port): (IpAddr, Port), index: u32) {
        if self.find(address, port) == Some(index) {
            match address {
                IpAddr::V4(address) => self.ipv4.remove(&(address, port)),
                IpAddr::V6(address) => self.ipv6.remove(&(address, port)),
            };
        }
    }
}
