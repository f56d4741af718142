//! Call paths: what one way through a handler requires, touches, rewrites and decides.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{Access, Part};
use crate::expr::{Kind, Node, Term, Terms};
use crate::interpret::value::{Slot, Value};

/// A condition of a path, and the line that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// It holds on the path.
    pub term: Term,
    /// Line of the branch.
    pub line: u32,
}

/// A header field the path leaves different from how it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrite {
    /// The header, `ipv4`.
    pub header: &'static str,
    /// The field, `src`.
    pub field: &'static str,
    /// Its final value.
    pub term: Term,
    /// Line of the last write.
    pub line: u32,
}

/// Something the path asks of the runtime, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A packet of the NF's own.
    Emit {
        /// Where it leaves.
        port: Term,
        /// Its length in bytes.
        len: Term,
        /// Its bytes, where they are no part of the packet's payload.
        bytes: Vec<Term>,
        /// Line.
        line: u32,
    },
    /// The packet set's own lifetime.
    SetExpiry {
        /// Nanoseconds.
        lifetime_ns: Term,
        /// Line.
        line: u32,
    },
    /// A timer.
    SetTimer {
        /// Nanoseconds from now.
        delay_ns: Term,
        /// Given to `timer`.
        token: Term,
        /// Line.
        line: u32,
    },
}

/// What becomes of the packet, or of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Sent out of a port.
    Forward(Term),
    /// Dropped, with the reason as it is written in tables.
    Drop(String),
    /// Sent out of every port but the arrival one.
    Flood,
    /// Re-enters as if received on a port.
    Recirculate(Term),
    /// Answered, resolved or dropped by this state object, which knows the reason.
    Object(String),
    /// A handler without a packet has run to its end.
    Done,
    /// `control` refused the command, with this text.
    Refused(String),
}

/// One way through a handler.
#[derive(Debug, Clone)]
pub struct CallPath {
    /// Number, from 1, over all handlers.
    pub number: usize,
    /// The handler: `packet (existing packet set)`, `orphan`, `control add-backend`, …
    pub handler: String,
    /// The arrival port, where ports are named.
    pub port: Option<usize>,
    /// The packet class of the packet set's key list, `ipv4 tcp`.
    pub class: Option<String>,
    /// Conditions in the order in which they were asked.
    pub conditions: Vec<Condition>,
    /// All that holds on it: conditions, and what is given (what ties fields of a packet to each other, settings
    /// that were accepted).
    pub(crate) holds: Vec<Term>,
    /// State accesses in order.
    pub accesses: Vec<Access>,
    /// Header fields rewritten.
    pub rewrites: Vec<Rewrite>,
    /// Packets emitted, timers and lifetimes set, in order.
    pub effects: Vec<Effect>,
    /// What becomes of the packet.
    pub verdict: Verdict,
    /// Line that decided the verdict.
    pub line: u32,
    /// A loop was cut off on it: paths with more iterations, which may touch other entries, are not
    /// listed.
    pub cut_off: bool,
    /// How many of its accesses were made before the end of a loop that is on it with its last turn only: what
    /// they have found may have been asked in a turn that is not listed.
    pub before_loops: usize,
}

impl CallPath {
    /// Whether an access of this path found, or did, what it was asked for; `None`: the path does not
    /// depend on it. `terms` are those of its [`Paths`](crate::Paths).
    pub fn outcome(&self, access: &Access, terms: &Terms) -> Option<bool> {
        let outcome = access.outcome?;
        if let Some(known) = terms.bool_of(outcome) {
            return Some(known);
        }
        let (symbol, positive) = match terms.node(outcome) {
            Node::Not(inner) => (*inner, false),
            _ => (outcome, true),
        };
        self.conditions.iter().find_map(|condition| match terms.node(condition.term) {
            _ if condition.term == symbol => Some(positive),
            Node::Not(of) if *of == symbol => Some(!positive),
            _ => None,
        })
    }
}

/// Something that can go wrong on some packet, or that limits the analysis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Line in the author's file.
    pub line: u32,
    /// What can happen.
    pub message: String,
}

impl Warning {
    /// Whether it says that a loop was cut off.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.message.starts_with("the number of iterations is unknown")
    }
}

/// What one run of a handler has done so far.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) accesses: Vec<Access>,
    /// How many of them were made before a loop had its turn, after which state may be any.
    pub(crate) cut: usize,
    /// Loops of which a turn was asked for.
    pub(crate) loops: usize,
    /// Lines of loops of which it has the last turn only.
    pub(crate) alike: Vec<u32>,
    /// Those in whose turn it is.
    pub(crate) turning: Vec<u32>,
    /// Accesses made before the last of them ended.
    pub(crate) before_loops: usize,
    /// Values that are being changed and that no local holds: an entry's in `update`.
    pub(crate) open: usize,
    /// The state of the packet's set.
    pub(crate) set: Option<Slot>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) fields: BTreeMap<(&'static str, &'static str), (Term, u32)>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) warnings: BTreeSet<Warning>,
    /// The arrival port's term, where there is a packet.
    pub(crate) port: Option<Term>,
    pub(crate) settings: Option<Value>,
    /// Whether the packet as it arrived was refused where it was to be admitted.
    pub(crate) refused: Option<Term>,
    /// Line at which the last verdict was made.
    pub(crate) verdict_line: u32,
    /// Random numbers drawn.
    pub(crate) randoms: usize,
    pub(crate) axioms: BTreeSet<&'static str>,
}

/// What a path knows about one entry of a state object.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) object: usize,
    pub(crate) key: Vec<Term>,
    pub(crate) present: Term,
    pub(crate) value: Option<Value>,
    /// Where the value is not known any more, parts of it that are, by the names that an unknown one's have.
    pub(crate) left: Vec<(String, Term)>,
}

impl Part {
    /// A part that is the whole value.
    pub(crate) fn whole(term: Term) -> Vec<Self> {
        vec![Self { name: String::new(), term, kind: Kind::Number }]
    }
}
