//! What was tried: how often each operation, on objects of each type, came to what.

use std::collections::BTreeMap;
use std::fmt;

use super::Failure;
use crate::content::Kind;

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls whose answers were compared with the oracle's, by what they came to.
    pub cells: BTreeMap<Cell, u64>,
}

/// Calls that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Name of the [`Operation`](crate::Operation).
    pub operation: &'static str,
    /// Type of the object.
    pub kind: Kind,
    /// What it came to.
    pub came: Came,
}

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Came {
    /// There was what it is about: the object, the entry, an end.
    Hit,
    /// There was not.
    Miss,
    /// It compares, and there was something else.
    Differs,
    /// It compares, and there was nothing.
    Lacks,
    /// An error.
    Refused,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let came = match self.came {
            Came::Hit => "finds it",
            Came::Miss => "finds nothing",
            Came::Differs => "compares with something else",
            Came::Lacks => "compares with nothing",
            Came::Refused => "is refused",
        };
        write!(f, "`{}` of a {} that {came}", self.operation, self.kind)
    }
}

impl Report {
    /// Calls that were compared.
    pub fn calls(&self) -> u64 {
        self.cells.values().sum()
    }

    /// Of them, those that were to be refused.
    pub fn refused(&self) -> u64 {
        let refused = self.cells.iter().filter(|(cell, _)| cell.came == Came::Refused);
        refused.map(|(_, times)| times).sum()
    }

    pub(super) fn count(&mut self, cell: Cell) {
        *self.cells.entry(cell).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: Self) {
        for (cell, times) in other.cells {
            *self.cells.entry(cell).or_default() += times;
        }
    }

    /// How often a cell came that has to; those that need not come are tried enough.
    pub(super) fn tried(&self, cell: Cell) -> u64 {
        let times = || self.cells.get(&cell).copied().unwrap_or(0);
        if must_come(cell) { times() } else { u64::MAX }
    }

    /// An error if a cell is empty that has to come.
    pub(super) fn is_complete(&self) -> Result<(), Failure> {
        let empty = all().filter(|cell| !self.cells.contains_key(cell));
        let empty: Vec<String> = empty.map(|cell| cell.to_string()).collect();
        if empty.is_empty() {
            return Ok(());
        }
        let calls = self.calls();
        Err(Failure(format!(
            "{calls} calls have not tried: {}; set more `sequences` or `calls`",
            empty.join(", ")
        )))
    }
}

const FOUND_OR_NOT: &[Came] = &[Came::Hit, Came::Miss];
const COMPARED: &[Came] = &[Came::Hit, Came::Miss, Came::Differs, Came::Lacks];
const ADDED: &[Came] = &[Came::Hit, Came::Miss, Came::Refused];

/// What each operation of a type must have come to.
fn of_kind(kind: Kind) -> Vec<(&'static str, &'static [Came])> {
    let mut all =
        vec![("create", &[Came::Miss, Came::Refused][..]), ("update", &[Came::Hit, Came::Refused])];
    let own: &[&str] = match kind {
        Kind::Value => &["arm", "time_left"],
        Kind::Counter => &[],
        Kind::List => &["push", "pop", "size", "iterate"],
        Kind::Set => &["insert", "erase", "contains", "size", "iterate"],
        Kind::Map | Kind::CounterMap => &["insert", "erase", "contains", "find", "size", "iterate"],
    };
    all.extend(["read", "put", "delete"].iter().chain(own).map(|name| (*name, FOUND_OR_NOT)));
    match kind {
        Kind::Value => all.push(("compare_and_update", COMPARED)),
        Kind::Counter => all.push(("add", ADDED)),
        Kind::Map => all.push(("compare_and_insert", COMPARED)),
        Kind::CounterMap => all.push(("add_to", ADDED)),
        Kind::List | Kind::Set => {}
    }
    all
}

fn must_come(cell: Cell) -> bool {
    let same =
        |(name, cames): &(&str, &[Came])| *name == cell.operation && cames.contains(&cell.came);
    of_kind(cell.kind).iter().any(same)
}

/// Every cell that must come.
fn all() -> impl Iterator<Item = Cell> {
    Kind::ALL.into_iter().flat_map(|kind| {
        let of_kind = of_kind(kind).into_iter();
        of_kind.flat_map(move |(operation, cames)| {
            cames.iter().map(move |came| Cell { operation, kind, came: *came })
        })
    })
}
