//! What a solver of keys is given.

use crate::class::Class;
use crate::need::{Need, Side};
use crate::nic::{HashInput, Nic};

/// Ports, what must meet, and how the choice among the keys is made.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// The ports, each with a key of its own.
    pub ports: Vec<PortSpec>,
    /// What must meet; all of it.
    pub needs: Vec<Need>,
    /// Bits of the hash that select the entry, 1 to 32; equality is demanded of these low bits
    /// only. `None`: as many as the largest table that all ports have.
    pub index_bits: Option<u32>,
    /// Seed of the choice: the same problem with the same seed has the same solution.
    pub seed: u64,
    /// Traffic to balance: frames as they arrived. May be empty.
    pub sample: Vec<SampleFrame>,
}

impl Problem {
    /// A problem over `nics`, one port each.
    pub fn new(nics: &[&'static Nic]) -> Self {
        let port = |&nic: &&'static Nic| PortSpec::new(nic);
        Self { ports: nics.iter().map(port).collect(), ..Self::default() }
    }

    /// Adds a need.
    #[must_use]
    pub fn need(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    /// Demands equality of the low `bits` bits.
    #[must_use]
    pub fn index_bits(mut self, bits: u32) -> Self {
        self.index_bits = Some(bits);
        self
    }

    /// Another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Without the needs that touch packets of `side`: for a class that is steered in software
    /// because no key serves it.
    #[must_use]
    pub fn without(mut self, side: Side) -> Self {
        let ports = &self.ports;
        let seen = |side: Side| {
            ports
                .get(side.port)
                .map_or(side, |port| Side { class: port.nic.seen_as(side.class), ..side })
        };
        self.needs.retain(|need| need.sides.iter().all(|own| seen(*own) != seen(side)));
        self
    }
}

/// A port of a [`Problem`].
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// Its NIC.
    pub nic: &'static Nic,
    /// Fields that are hashed whatever the solver would choose, for some classes.
    pub pinned: Vec<(Class, HashInput)>,
}

impl PortSpec {
    /// A port of `nic` with all choices open.
    pub fn new(nic: &'static Nic) -> Self {
        Self { nic, pinned: Vec::new() }
    }

    /// Hashes `input` for packets of `class`.
    #[must_use]
    pub fn pin(mut self, class: Class, input: HashInput) -> Self {
        self.pinned.push((class, input));
        self
    }
}

/// A frame of the traffic that a key is to balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFrame {
    /// Index of the port it arrived at.
    pub port: usize,
    /// Its bytes, from the destination MAC address on.
    pub bytes: Vec<u8>,
}
