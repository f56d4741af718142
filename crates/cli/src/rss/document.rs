//! The documents of `rss`, as `--json` prints them.

use anabranch_rss::{
    Cause, ClassSolution, Impossible, Need, PortSolution, Problem, Solution, Unsteerable,
};
use serde::Serialize;

/// What `rss key` found.
#[derive(Debug, Serialize)]
pub(super) struct KeyDocument {
    /// `null` when there is no key.
    pub(super) solution: Option<SolutionDocument>,
    /// Classes that no key serves along with the others.
    pub(super) impossible: Vec<ImpossibleClass>,
    /// Microseconds of the search for fields and keys.
    pub(super) solve_us: f64,
}

/// Keys.
#[derive(Debug, Serialize)]
pub(super) struct SolutionDocument {
    index_bits: u32,
    /// Two to this power of keys meet the needs.
    dimension: usize,
    ports: Vec<PortDocument>,
}

#[derive(Debug, Serialize)]
struct PortDocument {
    port: usize,
    nic: &'static str,
    key: String,
    classes: Vec<ClassDocument>,
}

/// A packet class.
#[derive(Debug, Serialize)]
pub(super) struct ClassDocument {
    pub(super) class: &'static str,
    /// Whether a constraint is about it.
    constrained: bool,
    fields: Vec<FieldDocument>,
    pub(super) rank: u32,
    /// Entries that its packets can reach.
    pub(super) entries: u64,
}

#[derive(Debug, Serialize)]
struct FieldDocument {
    field: &'static str,
    /// Bits of the field.
    bits: u16,
    /// Bits that change the entry.
    mixing: u16,
    /// Rank of the field alone.
    rank: u32,
}

/// A class that cannot be spread.
#[derive(Debug, Serialize)]
pub(super) struct ImpossibleClass {
    port: usize,
    class: &'static str,
    /// `unhashed`, `disjoint`, `always`, `no-key`, `conflict` or `undocumented`.
    cause: &'static str,
    /// Fields that the NIC does not hash.
    fields: Vec<&'static str>,
    /// The needs that are why.
    needs: Vec<String>,
    /// The needs of other classes that are in the way.
    conflicts: Vec<String>,
}

impl SolutionDocument {
    pub(super) fn new(solution: &Solution) -> Self {
        Self {
            index_bits: solution.index_bits,
            dimension: solution.dimension,
            ports: solution.ports.iter().enumerate().map(PortDocument::new).collect(),
        }
    }
}

impl PortDocument {
    fn new((port, solution): (usize, &PortSolution)) -> Self {
        Self {
            port,
            nic: solution.nic.name,
            key: hex(&solution.key),
            classes: solution.classes.iter().map(ClassDocument::new).collect(),
        }
    }
}

impl ClassDocument {
    pub(super) fn new(class: &ClassSolution) -> Self {
        let field = |mixed: &anabranch_rss::Mixed| FieldDocument {
            field: mixed.field.name(),
            bits: mixed.field.width(),
            mixing: mixed.bits,
            rank: mixed.rank,
        };
        Self {
            class: class.class.name(),
            constrained: class.constrained,
            fields: class.mixes.iter().map(field).collect(),
            rank: class.rank,
            entries: class.entries(),
        }
    }
}

/// A key in hexadecimal without colons.
pub(super) fn hex(key: &anabranch_rss::Key) -> String {
    key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The classes that `impossible` names; none when it is about the problem itself.
pub(super) fn classes(problem: &Problem, impossible: &Impossible) -> Vec<ImpossibleClass> {
    match impossible {
        Impossible::Malformed(_) => Vec::new(),
        Impossible::Unsteerable(classes) => unsteerable(problem, classes),
    }
}

pub(super) fn unsteerable(problem: &Problem, classes: &[Unsteerable]) -> Vec<ImpossibleClass> {
    let words = |needs: &[usize]| {
        let needs = needs.iter().filter_map(|need| problem.needs.get(*need));
        needs.map(Need::to_string).collect()
    };
    let class = |class: &Unsteerable| ImpossibleClass {
        port: class.side.port,
        class: class.side.class.name(),
        cause: match class.cause {
            Cause::Unhashed(_) => "unhashed",
            Cause::Disjoint => "disjoint",
            Cause::Always => "always",
            Cause::NoKey => "no-key",
            Cause::Conflict(_) => "conflict",
            Cause::Undocumented => "undocumented",
        },
        fields: match &class.cause {
            Cause::Unhashed(fields) => fields.iter().map(|field| field.name()).collect(),
            _ => Vec::new(),
        },
        needs: words(&class.needs),
        conflicts: match &class.cause {
            Cause::Conflict(needs) => words(needs),
            _ => Vec::new(),
        },
    };
    classes.iter().map(class).collect()
}
