//! Accesses to state.

use crate::expr::{Kind, Term};

/// Whether an access may change what a later packet sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It does not.
    Read,
    /// It may.
    Write,
}

/// A named part of a key, a value or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Field path (`address`, `0`, `endpoint.port`); empty for a value that is not an aggregate.
    pub name: String,
    /// Its value.
    pub term: Term,
    /// How constants are written: as an address, a port, a variant.
    pub kind: Kind,
}

/// One access to a state object.
#[derive(Debug, Clone)]
pub struct Access {
    /// The field of the NF struct, or the packet set's type.
    pub object: String,
    /// `Map`, `Vector`, …, or `PacketSet`.
    pub kind: &'static str,
    /// The operation, as in `docs/nf-language.md`; for packet sets `find`, `insert`, `update`,
    /// `expire`.
    pub operation: String,
    /// Read or write.
    pub mode: Mode,
    /// The entry: a map's key, an index, the packet set's fields; empty for whole objects.
    pub key: Vec<Part>,
    /// Whether the two directions of a key stand for one entry (a bidirectional packet set).
    pub symmetric: bool,
    /// What is stored.
    pub value: Vec<Part>,
    /// What the operation returned on this path.
    pub result: Vec<Part>,
    /// For how long an object lives from now on, in nanoseconds, where the operation says.
    pub lifetime: Option<Term>,
    /// Outcome in a word: `found`, `absent`, `full`, or nothing.
    pub outcome: Option<Term>,
    /// Number of the access on its path, from 1; results are named after it.
    pub number: usize,
    /// Line in the author's file.
    pub line: u32,
}
