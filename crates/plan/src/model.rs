//! The plan: one readable document that a runtime consumes and an operator may edit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a network function runs on many cores, what shares least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Every packet finds all state it touches in its own shard.
    SharedNothing,
    /// Some objects are sharded, others shared by all workers.
    Mixed,
    /// All state shared, changed by all workers at once in transactions.
    Transactional,
    /// One lock around the whole state.
    Lock,
}

impl Strategy {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedNothing => "shared-nothing",
            Self::Mixed => "mixed",
            Self::Transactional => "transactional",
            Self::Lock => "lock",
        }
    }

    /// Whether all state is shared by all workers, so that packets may go anywhere.
    pub const fn shares_all(self) -> bool {
        matches!(self, Self::Transactional | Self::Lock)
    }
}

/// How a state object is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectMode {
    /// Each shard has the entries that its packets touch.
    Sharded,
    /// As `sharded`; the allocator gives out only values that lead the reply home.
    Steered,
    /// Written before the first packet and never again.
    ReadOnly,
    /// Each shard has a part; parts are merged when read.
    Distributed,
    /// Each shard has a copy; the control plane writes all of them.
    Replicated,
    /// A count that limits what is opened, kept by each shard for itself.
    PerShard,
    /// One for all workers: by transactions, or under the lock.
    Shared,
}

impl ObjectMode {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sharded => "sharded",
            Self::Steered => "steered",
            Self::ReadOnly => "read-only",
            Self::Distributed => "distributed",
            Self::Replicated => "replicated",
            Self::PerShard => "per-shard",
            Self::Shared => "shared",
        }
    }
}

/// What steers the packets of some classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steerer {
    /// The NIC's hash.
    Nic,
    /// The worker that receives the packet computes the hash and hands it over.
    Software,
    /// Nothing: all packets of the class are in the shard of hash 0.
    OneShard,
}

/// How a network function runs on many cores, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The network function.
    pub nf: String,
    /// How it runs.
    pub strategy: Strategy,
    /// The NIC model that the keys are for.
    pub nic: String,
    /// Low bits of the hash that select the entry of the indirection table.
    pub index_bits: u32,
    /// Seed of the choice among the keys.
    pub seed: u64,
    /// Ports with their keys, in order; one entry named `any` where their number is open, which
    /// then holds for every port.
    pub ports: Vec<Port>,
    /// State objects in order: the packet set, then the fields.
    pub objects: Vec<Object>,
    /// Which packets must meet.
    pub constraints: Vec<Meeting>,
    /// Allocators that give out only values that lead the reply home.
    pub steered: Vec<SteeredAllocation>,
    /// Where many cores may behave differently from one.
    pub differences: Vec<Difference>,
    /// Parts of keys that could not be used, so that packets meet which need not.
    pub notes: Vec<Difference>,
    /// Why packets cannot be sharded, where they cannot.
    pub impossible: Option<Impossible>,
    /// Microseconds that finding the keys took.
    pub solve_us: u64,
    /// Milliseconds from the source to the plan.
    pub total_ms: u64,
}

/// A port's hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name.
    pub port: String,
    /// Fields that TCP and UDP packets are hashed by, and that change where a packet goes.
    pub fields: Vec<String>,
    /// The Toeplitz key in hexadecimal.
    pub key: String,
    /// Bits of the entry that TCP and UDP packets decide: two to this power entries can be reached.
    pub rank: u32,
    /// Class by class.
    pub classes: Vec<PortClass>,
}

/// How the packets of one class at one port are steered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortClass {
    /// The class; `first-fragment` follows where fragments with ports are told apart.
    pub class: String,
    /// What steers them.
    pub by: Steerer,
    /// The input of the hash, field by field. In software an input field may hold another one
    /// (`tcp.dst` is `icmpv4.id`), or nothing, which is zeros (`-`).
    pub input: Vec<Input>,
    /// The port whose key is used, where it is not this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key_of: Option<String>,
    /// Bits of the entry that its packets decide.
    pub rank: u32,
}

/// A field of a hash's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The field that stands there in packets that a NIC hashes.
    pub place: String,
    /// The field that is put there; `-` for zeros.
    pub field: String,
}

/// A state object's mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// `Map`, `Allocator`, `PacketSet`, ….
    pub kind: String,
    /// How it is kept.
    pub mode: ObjectMode,
    /// Why.
    pub why: String,
    /// The lines that say so.
    pub lines: Vec<u32>,
    /// Its capacity as the author wrote it; each shard's worker has that much.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capacity: Option<String>,
}

/// Packets that must meet: those of two ports between which all equalities hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meeting {
    /// The two ports; the same one twice for packets of one port.
    pub ports: Vec<String>,
    /// What holds between two packets that must meet; the second one of a port has a dash.
    pub equalities: Vec<String>,
    /// The classes of the first packet, and of the second.
    pub classes: [Vec<String>; 2],
    /// The objects whose entry they share.
    pub objects: Vec<String>,
    /// The lines that touch it.
    pub lines: Vec<u32>,
}

/// An allocator whose values become header fields of replies.
///
/// An index may be given out in a shard when a packet of `port` with
/// `field = base + index % modulus`, every other field zero, is steered to that shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteeredAllocation {
    /// The allocator.
    pub object: String,
    /// The port at which replies arrive.
    pub port: String,
    /// What the index is taken modulo: an expression over settings and what `init` left.
    pub modulus: String,
    /// What is added; empty for nothing.
    pub base: String,
    /// The field that holds the value, by packet class.
    pub fields: BTreeMap<String, String>,
    /// The lines that look a value up which a packet brings.
    pub lines: Vec<u32>,
    /// Whether a shard whose values are used up may take others': a packet that finds nothing under
    /// the value that it brings has changed nothing, and can be handled where the value went.
    #[serde(default)]
    pub lends: bool,
}

/// Where parallel and sequential behaviour may differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// What may differ.
    pub what: String,
    /// The lines it is about.
    pub lines: Vec<u32>,
}

/// Why no sharding exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impossible {
    /// The reason: needs that have nothing in common, a field that nothing hashes.
    pub why: String,
    /// The lines whose needs these are.
    pub lines: Vec<u32>,
}
