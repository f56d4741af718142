//! Objects as rows, and what batches come to.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::call::{Call, Operation};
use crate::clock::now_ms;
use crate::content::{Bytes, Content, Entry, Kind};

/// The position of a list's first element: there is as much room before as after.
const MIDDLE: u64 = 1 << 63;

/// What a row holds beside its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) value: Option<Bytes>,
    pub(super) number: Option<i64>,
    /// When it ends, milliseconds since the Unix epoch; nothing: it does not.
    pub(super) ends: Option<i64>,
}

/// Rows of an object by their entries: the key of a map, a member, a position; empty of what has only
/// one. `None`: the row is to go.
pub(super) type Rows = BTreeMap<Bytes, Option<Cell>>;

impl Cell {
    pub(super) fn value(bytes: Bytes) -> Self {
        Self { value: Some(bytes), ..Self::default() }
    }

    pub(super) fn number(number: i64) -> Self {
        Self { number: Some(number), ..Self::default() }
    }

    /// A value that ends after `ttl_ms`.
    pub(super) fn ending(bytes: Bytes, ttl_ms: u64) -> Self {
        let ends = now_ms().saturating_add(ttl_ms.max(1));
        Self { ends: Some(i64::try_from(ends).unwrap_or(i64::MAX)), ..Self::value(bytes) }
    }

    /// Milliseconds until it ends, 0: it has ended; nothing: it does not end.
    pub(super) fn left_ms(&self) -> Option<u64> {
        let ends = u64::try_from(self.ends?).unwrap_or(0);
        Some(ends.saturating_sub(now_ms()))
    }

    pub(super) fn is_alive(&self) -> bool {
        self.left_ms() != Some(0)
    }

    /// Seconds after which the store may forget the row by itself; 0: never. Some after its end, which
    /// `ends` tells more exactly, by the clocks of clients.
    pub(super) fn ttl_s(&self) -> i32 {
        let ttl = self.left_ms().map(|ms| Duration::from_millis(ms).as_secs() + 60);
        ttl.map_or(0, |ttl| i32::try_from(ttl).unwrap_or(630_720_000).min(630_720_000))
    }
}

/// The position of an element `steps` behind (before, if negative) another one's; of the first one, if
/// there is no other.
pub(super) fn position(other: Option<&Bytes>, steps: i64) -> Bytes {
    let at = other.and_then(|other| other.first_chunk()).map(|bytes| u64::from_be_bytes(*bytes));
    at.map_or(MIDDLE, |at| at.wrapping_add_signed(steps)).to_be_bytes().to_vec()
}

pub(super) fn rows_of(content: &Content) -> Rows {
    let one = |cell| Rows::from([(Bytes::new(), Some(cell))]);
    match content {
        Content::Value(bytes) => one(Cell::value(bytes.clone())),
        Content::Counter(count) => one(Cell::number(*count)),
        Content::List(elements) => {
            let place = |(at, element): (u64, &Bytes)| {
                ((MIDDLE + at).to_be_bytes().to_vec(), Some(Cell::value(element.clone())))
            };
            (0..).zip(elements).map(place).collect()
        }
        _ => content.entries().into_iter().map(row_of).collect(),
    }
}

/// The row of an entry of anything but a list.
pub(super) fn row_of(entry: Entry) -> (Bytes, Option<Cell>) {
    match entry {
        Entry::Member(member) => (member, Some(Cell::value(Bytes::new()))),
        Entry::Pair(key, value) => (key, Some(Cell::value(value))),
        Entry::Count(key, count) => (key, Some(Cell::number(count))),
    }
}

pub(super) fn entry_of(kind: Kind, name: Bytes, cell: Cell) -> Entry {
    match kind {
        Kind::List => Entry::Member(cell.value.unwrap_or_default()),
        Kind::Map => Entry::Pair(name, cell.value.unwrap_or_default()),
        Kind::CounterMap => Entry::Count(name, cell.number.unwrap_or_default()),
        Kind::Set | Kind::Value | Kind::Counter => Entry::Member(name),
    }
}

/// What an object of `kind` holds; as [`Operation::Read`] answers.
pub(super) fn content_of(kind: Kind, rows: Vec<(Bytes, Cell)>) -> Option<Content> {
    let Some(mut content) = Content::empty(kind) else {
        let (_, cell) = rows.into_iter().next()?;
        return match kind {
            Kind::Counter => cell.number.map(Content::Counter),
            _ => cell.value.map(Content::Value),
        };
    };
    for (name, cell) in rows {
        content.insert(entry_of(kind, name, cell));
    }
    Some(content)
}

/// What the calls of a batch come to for one object.
#[derive(Default)]
pub(super) struct End {
    /// What was there before is to go, but for what is among the rows.
    pub(super) clears: bool,
    pub(super) rows: Rows,
}

impl End {
    pub(super) fn apply(&mut self, call: &Call) {
        match &call.operation {
            Operation::Put(content) => {
                (self.clears, self.rows) = (true, rows_of(content));
            }
            Operation::Arm(bytes, ttl_ms) => {
                self.rows = [(Bytes::new(), Some(Cell::ending(bytes.clone(), *ttl_ms)))].into();
            }
            Operation::Delete => {
                (self.clears, self.rows) = (true, Rows::new());
            }
            Operation::Insert(entry) => {
                let (name, cell) = row_of(entry.clone());
                self.rows.insert(name, cell);
            }
            Operation::Erase(name) => {
                self.rows.insert(name.clone(), None);
            }
            // A batch was checked to have no others.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_read_as_it_was_written() {
        let text = |text: &str| text.as_bytes().to_vec();
        for content in [
            Content::Value(Bytes::new()),
            Content::Counter(-7),
            Content::List(vec![text("b"), text("a"), text("b")]),
            Content::Set([text("x"), Bytes::new()].into()),
            Content::Map([(text("k"), text("v"))].into()),
            Content::CounterMap([(text("k"), -1)].into()),
        ] {
            let rows = rows_of(&content).into_iter();
            let rows = rows.map(|(name, cell)| (name, cell.unwrap())).collect();
            assert_eq!(content_of(content.kind(), rows), Some(content));
        }
        assert_eq!(content_of(Kind::Counter, Vec::new()), None);
        assert_eq!(content_of(Kind::List, Vec::new()), Some(Content::List(Vec::new())));
    }

    #[test]
    fn positions_follow_each_other_on_both_sides() {
        let first = position(None, 1);
        let (before, after) = (position(Some(&first), -1), position(Some(&first), 1));
        assert!(before < first && first < after);
    }

    #[test]
    fn what_is_armed_ends_and_the_store_forgets_it_later() {
        let cell = Cell::ending(Bytes::new(), 1_500);
        assert!(cell.is_alive() && cell.left_ms().is_some_and(|left| left <= 1_500));
        assert!((60..=62).contains(&cell.ttl_s()));
        assert!(!Cell { ends: Some(1), ..Cell::default() }.is_alive());
        assert_eq!((Cell::number(1).ttl_s(), Cell::number(1).left_ms()), (0, None));
    }
}
