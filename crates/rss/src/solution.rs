//! What a solver of keys returns.

use std::error::Error;
use std::fmt;

use crate::class::Class;
use crate::field::{Bits, Field};
use crate::key::Key;
use crate::need::Side;
use crate::nic::{HashInput, Nic};
use crate::score::Columns;
use crate::toeplitz::toeplitz;

/// A key for each port under which everything meets that must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The ports, in the order of the problem.
    pub ports: Vec<PortSolution>,
    /// Bits of the hash that select the entry.
    pub index_bits: u32,
    /// Dimension of the space of keys that this one was chosen from: there are two to that power,
    /// counting the key bits that are reached by the fields of classes which some need speaks of.
    pub dimension: usize,
}

impl Solution {
    /// What given keys do: for plans that were edited and keys that came from elsewhere, which
    /// [`broken_needs`](crate::broken_needs) checks. Its dimension is 0.
    pub fn given(ports: &[GivenPort], index_bits: u32) -> Self {
        Self {
            ports: ports.iter().map(|port| port.solution(index_bits)).collect(),
            index_bits,
            dimension: 0,
        }
    }

    /// The entry that a frame arriving at `port` selects; 0 for what is not hashed, and where there
    /// is no such port.
    pub fn entry(&self, port: usize, frame: &[u8]) -> u32 {
        let hash = self.ports.get(port).map_or(0, |port| port.hash(frame));
        hash & index_mask(self.index_bits)
    }

    /// What was found for the packets of `side`.
    pub fn class(&self, side: Side) -> Option<&ClassSolution> {
        let port = self.ports.get(side.port)?;
        let class = port.nic.seen_as(side.class);
        port.classes.iter().find(|solution| solution.class == class)
    }
}

/// The low `index_bits` bits of a hash.
pub(crate) fn index_mask(index_bits: u32) -> u32 {
    u32::MAX.checked_shr(32u32.saturating_sub(index_bits)).unwrap_or(0)
}

/// A port with a key that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenPort {
    /// The NIC.
    pub nic: &'static Nic,
    /// Its key.
    pub key: Key,
    /// The fields that are hashed for some classes; the others are hashed by all fields that the
    /// NIC has for them ([`Nic::richest`]).
    pub inputs: Vec<(Class, HashInput)>,
}

impl GivenPort {
    fn solution(&self, index_bits: u32) -> PortSolution {
        let Self { nic, key, .. } = *self;
        let columns = Columns::new(&key, index_bits);
        let class = |class: Class| {
            let chosen = self.inputs.iter().find(|(named, _)| nic.seen_as(*named) == class);
            let input = chosen.map_or_else(|| nic.richest(class), |(_, input)| input.clone());
            ClassSolution::new(class, &input, &columns, |at| columns.mixes_at(at))
        };
        PortSolution { nic, key, classes: nic.classes().map(class).collect() }
    }
}

/// What to configure at one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSolution {
    /// The NIC.
    pub nic: &'static Nic,
    /// Its key.
    pub key: Key,
    /// Every class that the NIC tells apart.
    pub classes: Vec<ClassSolution>,
}

impl PortSolution {
    /// The hash that the NIC computes for `frame`: its class as the NIC parses it, the fields
    /// chosen for that class, under the key. 0 when the class is not hashed.
    pub fn hash(&self, frame: &[u8]) -> u32 {
        let parsed = self.nic.parse(frame);
        let class = self.classes.iter().find(|own| own.class == parsed.class());
        class.map_or(0, |own| toeplitz(&self.key, &parsed.input(&own.input)))
    }
}

/// What is hashed for one class of one port, and how well it spreads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSolution {
    /// The class.
    pub class: Class,
    /// The fields to hash; none where the NIC hashes nothing.
    pub input: HashInput,
    /// Rank of the hash on the index bits: its packets can reach two to this power of entries.
    /// [`Solution::index_bits`] is full.
    pub rank: u32,
    /// Whether some need speaks of this class.
    pub constrained: bool,
    /// What each field of the input contributes.
    pub mixes: Vec<Mixed>,
    /// The bits of the input that do not change the entry.
    pub ignored: Vec<Bits>,
}

impl ClassSolution {
    /// What hashing `input` under a key does; `may` says whether a position of the input may change
    /// the entry under some key.
    pub(crate) fn new(
        side: Class,
        input: &HashInput,
        columns: &Columns,
        may: impl Fn(usize) -> bool,
    ) -> Self {
        Self {
            class: side,
            input: input.clone(),
            rank: columns.rank(input),
            constrained: false,
            mixes: columns.mixes(input, may),
            ignored: columns.ignored(input),
        }
    }

    /// Entries that its packets can reach.
    pub fn entries(&self) -> u64 {
        1 << self.rank
    }
}

/// What one field contributes to the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixed {
    /// The field.
    pub field: Field,
    /// Bits of it that change the entry when they change.
    pub bits: u16,
    /// Bits of it that change the entry under some key that meets the needs.
    pub may_mix: u16,
    /// Rank of its bits alone: when nothing else differs, packets reach two to this power of
    /// entries.
    pub rank: u32,
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// The problem contradicts itself or its NICs.
    Malformed(Malformed),
    /// Under every key, all packets of these classes would reach one entry.
    Unsteerable(Vec<Unsteerable>),
}

/// What is wrong with a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A need speaks of a port that there is not.
    NoSuchPort {
        /// Index of the need, or `None` for a frame of the sample.
        need: Option<usize>,
        /// The port it names.
        port: usize,
    },
    /// An equality has ranges of different lengths or outside their fields.
    Equality {
        /// Index of the need.
        need: usize,
        /// Index of its equality.
        equality: usize,
    },
    /// Equality of no bits, or of more than a hash has.
    IndexBits(u32),
    /// Fields were pinned that the NIC cannot hash.
    Pinned {
        /// Index of the port.
        port: usize,
        /// The class.
        class: Class,
        /// The fields.
        input: HashInput,
    },
    /// The caller of [`solve_with`](crate::solve_with) went on giving pairs that meet already, or
    /// a pair of ports that there are not.
    NoProgress,
}

/// A class that cannot be spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsteerable {
    /// Its packets.
    pub side: Side,
    /// Indices of the needs that leave no bit of them to hash, or that touch them.
    pub needs: Vec<usize>,
    /// Why.
    pub cause: Cause,
}

/// Why a class cannot be spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What must be equal is in fields that the NIC does not hash for this class.
    Unhashed(Vec<Field>),
    /// The needs have no field in common: what one lets differ is all that another makes equal.
    Disjoint,
    /// A need makes no hashed field of two packets equal, so that all packets must meet.
    Always,
    /// The fields could spread, but no key does that serves its needs: its fields meet the same key
    /// bits as others that must not count.
    NoKey,
    /// As [`Cause::NoKey`], but these needs, of other classes, are what is in the way: a port has
    /// one key for all classes. [`solve_most`](crate::solve_most) finds out what can be served.
    Conflict(Vec<usize>),
    /// The NIC's maker does not document what is hashed for this class.
    Undocumented,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Unsteerable(classes) => {
                for (at, class) in classes.iter().enumerate() {
                    write!(f, "{}{class}", if at == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
        }
    }
}

impl Error for Impossible {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPort { need: Some(need), port } => {
                write!(f, "need {need} speaks of port {port}, which the problem does not have")
            }
            Self::NoSuchPort { need: None, port } => {
                write!(f, "a sample frame arrived at port {port}, which the problem does not have")
            }
            Self::Equality { need, equality } => write!(
                f,
                "equality {equality} of need {need}: write ranges of one length that lie in their fields"
            ),
            Self::IndexBits(bits) => write!(f, "{bits} index bits: write 1 to 32"),
            Self::Pinned { port, class, input } => {
                write!(f, "port {port} cannot hash {input} for {class} packets")
            }
            Self::NoProgress => {
                f.write_str("the counter-examples meet already under the key they were found for")
            }
        }
    }
}

impl fmt::Display for Unsteerable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs = listed(&self.needs);
        write!(f, "{} cannot be spread: ", self.side)?;
        match &self.cause {
            Cause::Unhashed(fields) => {
                let fields: Vec<String> = fields.iter().map(Field::to_string).collect();
                write!(f, "{needs}: about {}, which the NIC does not hash", fields.join(" "))
            }
            Cause::Disjoint => write!(f, "{needs}: no field in common"),
            Cause::Always => write!(f, "{needs}: no hashed field is equal, so that all must meet"),
            Cause::NoKey => {
                write!(f, "{needs}: no key that serves this spreads the fields that the NIC hashes")
            }
            Cause::Conflict(others) => {
                write!(f, "{needs}: no key that serves this serves {} too", listed(others))
            }
            Cause::Undocumented => f.write_str("what the NIC hashes for them is not documented"),
        }
    }
}

/// Needs that are named before the rest is counted.
const NAMED_NEEDS: usize = 3;

/// `need 1`, `needs 1, 2`, `needs 1, 2, 3 and 4 more`.
fn listed(needs: &[usize]) -> String {
    let names: Vec<String> = needs.iter().take(NAMED_NEEDS).map(usize::to_string).collect();
    let plural = if needs.len() == 1 { "" } else { "s" };
    let rest = match needs.len().saturating_sub(NAMED_NEEDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("need{plural} {}{rest}", names.join(", "))
}
