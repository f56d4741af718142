//! Terms: what the analysis knows about a value that may differ from packet to packet.
//!
//! A term is a boolean or a bit-vector of 1 to 128 bits. Terms are hash-consed in one arena
//! ([`Terms`]), so that equal terms have equal handles and a comparison costs nothing. Operators
//! have the meaning of the NF language: arithmetic wraps, shifts are taken modulo the width, and
//! division by zero yields zero.

mod build;
pub(crate) mod circuit;
mod compare;
mod fold;
mod print;
mod slice;
mod soften;

use std::sync::Arc;

use crate::hash::{FastMap, FastSet};

pub use print::Words;

/// Handle of a term in its [`Terms`] arena. Equal handles are equal terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(u32);

/// Handle of a symbol (or uninterpreted function) in its [`Terms`] arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(u32);

impl Term {
    /// Position in the arena: those of one arena are counted from 0 without gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl SymbolId {
    /// Position among the symbols of the arena, counted from 0 without gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What kind of value a term has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sort {
    /// True or false.
    Bool,
    /// A bit-vector of so many bits, 1 to 128.
    Bits(u8),
}

impl Sort {
    /// Width in bits; a boolean counts as one.
    pub fn width(self) -> u8 {
        match self {
            Sort::Bool => 1,
            Sort::Bits(width) => width,
        }
    }
}

/// How a symbol's value is written in the field's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A number, or a boolean by its name.
    Number,
    /// Whether a header is in the packet: `tcp present`, `no tcp`.
    Presence,
    /// An answer with two outcomes, named for true and for false (`found`, `absent`).
    Outcome(&'static str, &'static str),
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An Ethernet address.
    Mac,
    /// A port of the NF.
    Port,
    /// A variant of a field-less enum, by number.
    Variants(Arc<[String]>),
}

/// A named unknown: a packet field, a result of a state access, a setting, the time.
#[derive(Debug, Clone)]
pub struct Symbol {
    /// Its name in the field's words, `ipv4.src` or `by_inside.get#3.value.port`.
    pub name: String,
    /// Boolean or bit-vector.
    pub sort: Sort,
    /// How constants compared with it are written.
    pub kind: Kind,
}

/// How the name of a turn of a loop begins, where it is any.
pub(crate) const TURN: &str = "any turn at line ";
/// How the name of what such turns may have left in a local begins.
pub(crate) const LEFT: &str = "left by turns in ";

/// A bit-vector or boolean operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    DivUnsigned,
    DivSigned,
    RemUnsigned,
    RemSigned,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Equal,
    LessUnsigned,
    LessEqualUnsigned,
    LessSigned,
    LessEqualSigned,
    Both,
    Either,
}

impl Binary {
    /// Whether the result is a boolean.
    pub fn is_boolean(self) -> bool {
        use Binary::*;
        matches!(
            self,
            Equal | LessUnsigned | LessEqualUnsigned | LessSigned | LessEqualSigned | Both | Either
        )
    }

    /// The result for known operands of `width` bits, booleans being 0 and 1, as the language has it.
    pub fn of(self, a: u128, b: u128, width: u8) -> u128 {
        fold::bits(self, a, b, width)
    }

    pub(crate) fn commutes(self) -> bool {
        use Binary::*;
        matches!(self, Add | Mul | And | Or | Xor | Equal | Both | Either)
    }
}

/// The shape of a term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// A known boolean.
    Bool(bool),
    /// A known bit-vector.
    Constant {
        /// The value, below 2^width.
        value: u128,
        /// Bits.
        width: u8,
    },
    /// An unknown.
    Symbol(SymbolId),
    /// Boolean negation.
    Not(Term),
    /// Two operands.
    Binary(Binary, Term, Term),
    /// `if condition { then } else { otherwise }`.
    Ite(Term, Term, Term),
    /// The first operand holds the high bits.
    Concat(Term, Term),
    /// Bits `high` down to `low`, both included.
    Extract {
        /// Highest bit taken.
        high: u8,
        /// Lowest bit taken.
        low: u8,
        /// Taken from.
        of: Term,
    },
    /// Widened with zeros, or with the sign bit.
    Extend {
        /// Whether the sign bit is repeated.
        signed: bool,
        /// Resulting width.
        width: u8,
        /// Widened from.
        of: Term,
    },
    /// An uninterpreted function of its arguments.
    Apply(SymbolId, Box<[Term]>),
}

/// The arena all terms of one analysis live in.
#[derive(Debug, Default)]
pub struct Terms {
    nodes: Vec<Node>,
    sorts: Vec<Sort>,
    unknowns: Vec<Arc<[SymbolId]>>,
    hard: Vec<bool>,
    calls: FastMap<Term, (&'static str, Box<[Term]>)>,
    interned: FastMap<Node, Term>,
    symbols: Vec<Symbol>,
    symbol_ids: FastMap<Sort, FastMap<String, SymbolId>>,
}

impl Terms {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// The shape of a term.
    pub fn node(&self, term: Term) -> &Node {
        &self.nodes[term.0 as usize]
    }

    /// Boolean, or bit-vector of some width.
    pub fn sort(&self, term: Term) -> Sort {
        self.sorts[term.0 as usize]
    }

    /// Width in bits; a boolean counts as one.
    pub fn width(&self, term: Term) -> u8 {
        self.sort(term).width()
    }

    /// The symbol behind a handle.
    pub fn symbol_of(&self, id: SymbolId) -> &Symbol {
        &self.symbols[id.0 as usize]
    }

    /// The symbols and functions a term depends on, in order of first creation, each once.
    pub fn unknowns(&self, term: Term) -> &Arc<[SymbolId]> {
        &self.unknowns[term.0 as usize]
    }

    /// Whether settings alone decide about a term, or nothing at all.
    pub(crate) fn is_of_settings(&self, term: Term) -> bool {
        let mut unknowns = self.unknowns(term).iter();
        unknowns.all(|id| self.symbol_of(*id).name.starts_with("settings."))
    }

    /// Whether a term is made of what a turn of a loop without a known end has: its number, or what turns before it
    /// may have left in locals.
    pub fn is_of_loop(&self, term: Term) -> bool {
        self.unknowns(term).iter().any(|id| {
            let name = &self.symbol_of(*id).name;
            name.starts_with(TURN) || name.starts_with(LEFT)
        })
    }

    /// The value of a constant bit-vector.
    pub fn constant_of(&self, term: Term) -> Option<u128> {
        match self.node(term) {
            Node::Constant { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The value of a constant boolean.
    pub fn bool_of(&self, term: Term) -> Option<bool> {
        match self.node(term) {
            Node::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Every symbol and function, in order of [`SymbolId::index`].
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Number of terms made so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no term has been made.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn symbol_id(&mut self, name: &str, sort: Sort, kind: Kind) -> SymbolId {
        let known = self.symbol_ids.entry(sort).or_default();
        if let Some(id) = known.get(name) {
            return *id;
        }
        let id = SymbolId(self.symbols.len() as u32);
        let name = name.to_owned();
        known.insert(name.clone(), id);
        self.symbols.push(Symbol { name, sort, kind });
        id
    }

    fn intern(&mut self, node: Node, sort: Sort) -> Term {
        if let Some(term) = self.interned.get(&node) {
            return *term;
        }
        let term = Term(self.nodes.len() as u32);
        self.unknowns.push(self.unknowns_of(&node));
        self.hard.push(self.hard_node(&node));
        self.nodes.push(node.clone());
        self.sorts.push(sort);
        self.interned.insert(node, term);
        term
    }

    /// Whether a term multiplies or divides unknowns: what solvers of bit-vectors are slow at.
    pub(crate) fn is_hard(&self, term: Term) -> bool {
        self.hard[term.0 as usize]
    }

    fn hard_node(&self, node: &Node) -> bool {
        let itself = matches!(*node, Node::Binary(operator, _, b) if self.is_product(operator, b));
        itself || operands(node).into_iter().any(|operand| self.is_hard(operand))
    }

    fn unknowns_of(&self, node: &Node) -> Arc<[SymbolId]> {
        let mut all = Vec::new();
        match node {
            Node::Symbol(id) => all.push(*id),
            Node::Apply(id, _) => all.push(*id),
            _ => {}
        }
        for operand in operands(node) {
            all.extend_from_slice(self.unknowns(operand));
        }
        all.sort_unstable();
        all.dedup();
        all.into()
    }

    /// All that conditions are made of, each once and behind its own parts.
    pub(crate) fn within(&self, conditions: &[Term]) -> Vec<Term> {
        let (mut seen, mut all) = (FastSet::default(), Vec::new());
        let mut open = conditions.to_vec();
        while let Some(term) = open.pop() {
            if seen.insert(term) {
                all.push(term);
                open.extend(operands(self.node(term)));
            }
        }
        // Parts were made before what is made of them.
        all.sort_unstable();
        all
    }
}

/// The terms a node is made of, in order.
pub fn operands(node: &Node) -> Vec<Term> {
    match node {
        Node::Bool(_) | Node::Constant { .. } | Node::Symbol(_) => Vec::new(),
        Node::Not(a) | Node::Extract { of: a, .. } | Node::Extend { of: a, .. } => vec![*a],
        Node::Binary(_, a, b) | Node::Concat(a, b) => vec![*a, *b],
        Node::Ite(c, a, b) => vec![*c, *a, *b],
        Node::Apply(_, arguments) => arguments.to_vec(),
    }
}

/// All ones in the low `width` bits.
pub(crate) fn mask(width: u8) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}
