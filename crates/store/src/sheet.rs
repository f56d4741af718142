//! What a worker tells at once, packed: a change of a map's entry takes no memory of its own.

use crate::behind::Change;
use crate::call::Call;
use crate::key::Key;

/// A map's number, at the [`Feed`](crate::Feed) that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapNumber(pub(crate) u32);

/// Changes in the order in which they were told.
#[derive(Default)]
pub(crate) struct Sheet {
    /// Maps that are told of here first; their numbers go on from those before.
    names: Vec<Key>,
    records: Vec<Record>,
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    /// What is no map's entry.
    others: Vec<Call>,
}

struct Record {
    /// Number of the map, [`OTHER`], or [`ELSEWHERE`].
    map: u32,
    step: u32,
    key: u32,
    /// Bytes of the value, or [`GONE`].
    value: u32,
}

impl Record {
    /// Bytes of key and value.
    fn bytes(&self) -> usize {
        let value = if self.value == GONE { 0 } else { self.value };
        self.key as usize + value as usize
    }
}

const OTHER: u32 = u32::MAX;
/// Of a change that is on another sheet now.
const ELSEWHERE: u32 = u32::MAX - 1;
const GONE: u32 = u32::MAX;

/// A change.
pub(crate) struct Told<'a> {
    pub(crate) step: u32,
    pub(crate) what: What<'a>,
}

pub(crate) enum What<'a> {
    /// A map's entry holds `value` now; `None`: it is no more.
    Entry {
        map: u32,
        key: &'a [u8],
        value: Option<&'a [u8]>,
    },
    Other(Call),
}

impl Sheet {
    /// From now on there is one more map.
    pub(crate) fn name(&mut self, map: Key) {
        self.names.push(map);
    }

    pub(crate) fn entry(&mut self, map: MapNumber, step: u32, key: &[u8], value: Option<&[u8]>) {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(GONE - 1);
        let value_length = value.map_or(GONE, length);
        self.records.push(Record { map: map.0, step, key: length(key), value: value_length });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    pub(crate) fn other(&mut self, change: Change) {
        let (call, step) = change.into_parts();
        self.records.push(Record { map: OTHER, step, key: 0, value: 0 });
        self.others.push(call);
    }

    /// Puts what is told of maps that are `theirs` on another sheet, which is read before this one. That takes a
    /// look at each change, and moves nothing else.
    pub(crate) fn part(&mut self, is_theirs: impl Fn(MapNumber) -> bool, theirs: &mut Self) {
        theirs.names.append(&mut self.names);
        let mut rest = &self.bytes[..];
        for record in &mut self.records {
            let Some((bytes, after)) = rest.split_at_checked(record.bytes()) else { return };
            rest = after;
            if record.map < ELSEWHERE && is_theirs(MapNumber(record.map)) {
                theirs.bytes.extend_from_slice(bytes);
                theirs.records.push(Record { ..*record });
                record.map = ELSEWHERE;
            }
        }
    }

    /// Changes.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes that keys and values have room for.
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.records.iter().map(|record| record.step)
    }

    /// The maps that are told of here first, taken out.
    pub(crate) fn named(&mut self) -> impl Iterator<Item = Key> + '_ {
        self.names.drain(..)
    }

    /// The changes, taken out.
    pub(crate) fn told(&mut self) -> impl Iterator<Item = Told<'_>> {
        let Self { records, bytes, others, .. } = self;
        let (mut rest, mut others) = (&bytes[..], others.drain(..));
        records.iter().filter_map(move |&Record { map, step, key, value }| {
            if map == OTHER {
                return others.next().map(|call| Told { step, what: What::Other(call) });
            }
            let mut next = |length: u32| {
                let (first, after) = rest.split_at_checked(length as usize)?;
                rest = after;
                Some(first)
            };
            let key = next(key)?;
            let value = if value == GONE { None } else { Some(next(value)?) };
            if map == ELSEWHERE {
                return None;
            }
            Some(Told { step, what: What::Entry { map, key, value } })
        })
    }

    /// Nothing was told of its maps.
    pub(crate) fn forget(&mut self) {
        self.records.clear();
        self.bytes.clear();
        self.others.clear();
    }

    /// Empty, with the room that it has.
    pub(crate) fn emptied(mut self) -> Self {
        self.names.clear();
        self.forget();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Content, Kind};
    use crate::key::{Place, Scope};

    #[test]
    fn what_was_told_is_read_in_its_order() {
        let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
        let key = scope.key(Kind::Counter, "n").unwrap();
        let mut sheet = Sheet::default();
        for _ in 0..2 {
            sheet.name(scope.key(Kind::Map, "x").unwrap());
            sheet.entry(MapNumber(0), 7, b"ab", Some(b"cde"));
            sheet.other(Change::put(&key, Content::Counter(3)).in_step(8));
            sheet.entry(MapNumber(1), 9, b"", None);
            sheet.entry(MapNumber(0), 9, b"f", Some(b""));
            assert_eq!(sheet.named().count(), 1);
            let text: Vec<String> = sheet.told().map(|told| text(&told)).collect();
            assert_eq!(text, ["7 0 ab=cde", "8 nat@a@0@counter@n", "9 1 gone ", "9 0 f="]);
            sheet = sheet.emptied();
            assert!(sheet.is_empty() && sheet.room() > 0);
        }
    }

    #[test]
    fn what_is_theirs_is_read_from_another_sheet_and_nothing_else() {
        let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
        let key = scope.key(Kind::Counter, "n").unwrap();
        let (mut sheet, mut theirs) = (Sheet::default(), Sheet::default());
        for map in [0, 1, 0, 2] {
            sheet.name(scope.key(Kind::Map, "x").unwrap());
            sheet.entry(MapNumber(map), map, b"ab", (map < 2).then_some(b"cde"));
            sheet.other(Change::put(&key, Content::Counter(3)).in_step(8));
        }
        for _ in 0..2 {
            sheet.part(|map| map == MapNumber(0), &mut theirs);
        }
        sheet.part(|map| map == MapNumber(2), &mut theirs);
        let read =
            |sheet: &mut Sheet| -> Vec<String> { sheet.told().map(|told| text(&told)).collect() };
        assert_eq!((sheet.named().count(), theirs.named().count()), (0, 4));
        assert_eq!(read(&mut theirs), ["0 0 ab=cde", "0 0 ab=cde", "2 2 gone ab"]);
        let counter = "8 nat@a@0@counter@n";
        assert_eq!(read(&mut sheet), [counter, "1 1 ab=cde", counter, counter, counter]);
    }

    fn text(told: &Told<'_>) -> String {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        match &told.what {
            What::Entry { map, key, value: Some(value) } => {
                format!("{} {map} {}={}", told.step, text(key), text(value))
            }
            What::Entry { map, key, value: None } => {
                format!("{} {map} gone {}", told.step, text(key))
            }
            What::Other(call) => format!("{} {}", told.step, call.key),
        }
    }
}
