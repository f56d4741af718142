//! What a scope holds as it is here, and what of it the store lacks.
//!
//! Objects and entries have numbers, so that what is written again is found once and nothing is ordered by
//! name. An entry that is no more keeps its number until the store knows.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::backlog::{Backlog, Part, Since};
use crate::call::{Call, Operation};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::key::Key;

struct Object {
    key: Key,
    /// Of a value, a counter or a list, which are written whole.
    content: Option<Content>,
    /// Of the others, by the hash of their names.
    entries: HashTable<u32>,
    /// Entries that there are.
    len: usize,
    /// Since when the store lacks all of it: what it has is to be removed first, and then all entries that
    /// there are. None of them goes before.
    since: Option<Since>,
}

struct Row {
    object: u32,
    name: Bytes,
    held: Held,
    since: Option<Since>,
    under_way: bool,
}

/// What is under a name.
enum Held {
    Nothing,
    Member,
    Value(Bytes),
    Count(i64),
}

/// A scope's state.
#[derive(Default)]
pub(super) struct Mirror {
    objects: Vec<Object>,
    numbers: HashMap<Key, u32>,
    rows: Vec<Row>,
    /// Numbers of rows that are none any more.
    free: Vec<u32>,
    hasher: DefaultHashBuilder,
    backlog: Backlog,
    /// Parts that the store lacks.
    dirty: usize,
    /// Of these, those by which the store was found to differ, when it was found.
    differing: usize,
    /// Rows before it were looked at last.
    looked: usize,
    /// How often it was looked.
    looks: usize,
}

/// In so many of an object's entries one is sought that the store has.
const SOUGHT: usize = 64;

impl Mirror {
    /// The number of the object under `key`.
    pub(super) fn object(&mut self, key: &Key) -> u32 {
        if let Some(&number) = self.numbers.get(key) {
            return number;
        }
        let number = self.objects.len() as u32;
        let (content, entries) = (None, HashTable::new());
        self.objects.push(Object { key: key.clone(), content, entries, len: 0, since: None });
        self.numbers.insert(key.clone(), number);
        number
    }

    /// What the store has, too.
    pub(super) fn load(&mut self, state: BTreeMap<Key, Content>) {
        for (key, content) in state {
            let object = self.object(&key);
            self.hold(object, content);
        }
    }

    /// Puts `content` in place of what the object holds; whether there was something.
    fn hold(&mut self, object: u32, content: Content) -> bool {
        let was_there = self.drop_all(object);
        if content.kind() == Kind::List || !content.kind().is_collection() {
            let whole = Some(content).filter(|content| !content.is_empty());
            self.objects[object as usize].content = whole;
        } else {
            for entry in content.entries() {
                self.insert(object, entry);
            }
        }
        was_there
    }

    /// The object holds nothing any more; whether it did.
    fn drop_all(&mut self, object: u32) -> bool {
        let one = &mut self.objects[object as usize];
        let had = one.content.take().is_some() | (one.len > 0);
        if one.len > 0 {
            one.len = 0;
            for &row in &one.entries {
                self.rows[row as usize].held = Held::Nothing;
            }
        }
        had
    }

    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The row of an entry, a new one if need be.
    fn row(&mut self, object: u32, name: &[u8]) -> u32 {
        let hash = self.hash(name);
        let Self { objects, rows, free, hasher, .. } = self;
        let entries = &mut objects[object as usize].entries;
        if let Some(&row) = entries.find(hash, |&row| rows[row as usize].name == name) {
            return row;
        }
        let name = name.to_vec();
        let fresh = Row { object, name, held: Held::Nothing, since: None, under_way: false };
        let number = match free.pop() {
            Some(number) => {
                rows[number as usize] = fresh;
                number
            }
            None => {
                rows.push(fresh);
                rows.len() as u32 - 1
            }
        };
        entries.insert_unique(hash, number, |&row| hasher.hash_one(&rows[row as usize].name[..]));
        number
    }

    /// Puts in an entry; its row, and whether there was one of that name.
    fn insert(&mut self, object: u32, entry: Entry) -> (u32, bool) {
        let (name, held) = match entry {
            Entry::Member(name) => (name, Held::Member),
            Entry::Pair(name, value) => (name, Held::Value(value)),
            Entry::Count(name, count) => (name, Held::Count(count)),
        };
        let number = self.row(object, &name);
        let row = &mut self.rows[number as usize];
        let was_there = !matches!(row.held, Held::Nothing);
        row.held = held;
        self.objects[object as usize].len += usize::from(!was_there);
        (number, was_there)
    }

    /// Puts in a map's entry: as [`insert`](Self::insert), and what was there is written over.
    fn insert_pair(&mut self, object: u32, name: &[u8], value: &[u8]) -> (u32, bool) {
        let number = self.row(object, name);
        let row = &mut self.rows[number as usize];
        if let Held::Value(held) = &mut row.held {
            held.clear();
            held.extend_from_slice(value);
            return (number, true);
        }
        row.held = Held::Value(value.to_vec());
        self.objects[object as usize].len += 1;
        (number, false)
    }

    fn erase(&mut self, object: u32, name: &[u8]) -> u32 {
        let number = self.row(object, name);
        let row = &mut self.rows[number as usize];
        let was_there = !matches!(row.held, Held::Nothing);
        row.held = Held::Nothing;
        self.objects[object as usize].len -= usize::from(was_there);
        number
    }

    /// Carries out a call. What waits already keeps its place in the order where it stays what it is, with
    /// another value: nothing that changes all the time waits for ever, and what came into being with it
    /// finds it there. What is removed, or comes into being again, goes with what it does so with. Without
    /// `since` all is written again later, as it is then.
    pub(super) fn change(&mut self, call: Call, since: Option<Since>) {
        let Call { key, operation } = call;
        let object = self.object(&key);
        let (part, stays) = match operation {
            Operation::Put(content) => {
                let was_there = self.hold(object, content);
                (Part::Whole(object), was_there && !key.kind().is_collection())
            }
            Operation::Delete => {
                self.drop_all(object);
                (Part::Whole(object), false)
            }
            Operation::Insert(entry) => {
                let (row, was_there) = self.insert(object, entry);
                (Part::Entry(row), was_there)
            }
            Operation::Erase(name) => (Part::Entry(self.erase(object, &name)), false),
            _ => return,
        };
        self.changed(part, stays, since);
    }

    /// The same of a map's entry: it holds `value`, or is no more.
    pub(super) fn change_entry(
        &mut self,
        object: u32,
        name: &[u8],
        value: Option<&[u8]>,
        since: Option<Since>,
    ) {
        let (row, was_there) = match value {
            Some(value) => self.insert_pair(object, name, value),
            None => (self.erase(object, name), false),
        };
        self.changed(Part::Entry(row), was_there, since);
    }

    fn changed(&mut self, part: Part, stays: bool, since: Option<Since>) {
        match (since, part) {
            (Some(since), part) => self.note(part, stays, since),
            (None, Part::Entry(row)) => self.release(row),
            (None, Part::Whole(object)) => self.release_all(object),
        }
    }

    fn note(&mut self, part: Part, stays: bool, since: Since) {
        let since = self.since(part).map_or(since, |earlier| Since {
            ns: earlier.ns,
            step: if stays { earlier.step } else { since.step.max(earlier.step) },
        });
        match part {
            Part::Whole(object) => self.lack_all(object, since),
            Part::Entry(_) => self.lack(part, since),
        }
    }

    fn since(&self, part: Part) -> Option<Since> {
        match part {
            Part::Whole(object) => self.objects[object as usize].since,
            Part::Entry(row) => self.rows[row as usize].since,
        }
    }

    fn since_mut(&mut self, part: Part) -> &mut Option<Since> {
        match part {
            Part::Whole(object) => &mut self.objects[object as usize].since,
            Part::Entry(row) => &mut self.rows[row as usize].since,
        }
    }

    /// The store lacks this since then, whatever was known of it.
    fn lack(&mut self, part: Part, mut since: Since) {
        if let Part::Entry(row) = part {
            let object = self.rows[row as usize].object;
            let whole = self.objects[object as usize].since;
            since.step = whole.map_or(since.step, |whole| since.step.max(whole.step));
        }
        let earlier = self.since_mut(part).replace(since);
        self.dirty += usize::from(earlier.is_none());
        if earlier.is_some_and(|earlier| earlier.step == since.step && earlier.ns <= since.ns) {
            return;
        }
        self.backlog.push(part, since);
        let Self { objects, rows, backlog, dirty, .. } = self;
        backlog.tidy(*dirty, |part, step| counts(objects, rows, part, step));
    }

    /// The store lacks all of an object since then, or since it lacked some of it.
    fn lack_all(&mut self, object: u32, since: Since) {
        let whole = self.objects[object as usize].since;
        let mut ns = whole.map_or(since.ns, |earlier| since.ns.min(earlier.ns));
        let rows: Vec<u32> = self.objects[object as usize].entries.iter().copied().collect();
        for &row in &rows {
            if let Some(earlier) = self.rows[row as usize].since.take() {
                self.dirty -= 1;
                ns = ns.min(earlier.ns);
            }
        }
        let since = Since { ns, ..since };
        self.lack(Part::Whole(object), since);
        for row in rows {
            match self.rows[row as usize].held {
                Held::Nothing => self.release(row),
                _ => self.lack(Part::Entry(row), since),
            }
        }
    }

    /// The store has this, and lacks since then what is here and not there, or is another there. Entries that are there
    /// and not here go last.
    pub(super) fn lack_difference(&mut self, found: &BTreeMap<Key, Option<Content>>, since: Since) {
        self.forget();
        for key in found.keys() {
            let object = self.object(key);
            self.lack_absence(object, found, since);
        }
        for object in 0..self.objects.len() as u32 {
            let Object { key, content, .. } = &self.objects[object as usize];
            match found.get(key) {
                // It has to go before its entries can be written.
                Some(None) => self.lack_all(object, since),
                Some(Some(found)) if content.as_ref() == Some(found) => {}
                _ if content.is_some() => self.lack(Part::Whole(object), since),
                there => self.lack_entries(object, there.and_then(Option::as_ref), since),
            }
        }
        self.differing = self.dirty;
    }

    /// What the store has `found` of an object, and is not here, has to go. What is noted first is sent last, of whole
    /// objects and then of entries.
    fn lack_absence(&mut self, object: u32, found: &BTreeMap<Key, Option<Content>>, since: Since) {
        let Object { key, content, len, .. } = &self.objects[object as usize];
        let Some(Some(found)) = found.get(key) else { return };
        if content.is_some() {
            return;
        }
        if *len == 0 {
            return self.lack(Part::Whole(object), since);
        }
        for name in found.names() {
            let row = self.row(object, name);
            if matches!(self.held(row), Held::Nothing) {
                self.lack(Part::Entry(row), since);
            }
        }
    }

    /// The entries that are here, and not as `found`, the store lacks.
    fn lack_entries(&mut self, object: u32, found: Option<&Content>, since: Since) {
        let rows: Vec<u32> = self.objects[object as usize].entries.iter().copied().collect();
        for row in rows {
            let Row { name, held, .. } = &self.rows[row as usize];
            let is_there = match (held, found) {
                (Held::Nothing, _) => true,
                (Held::Member, Some(Content::Set(members))) => members.contains(name),
                (Held::Value(value), Some(Content::Map(entries))) => {
                    entries.get(name) == Some(value)
                }
                (Held::Count(count), Some(Content::CounterMap(counts))) => {
                    counts.get(name) == Some(count)
                }
                _ => false,
            };
            if !is_there {
                self.lack(Part::Entry(row), since);
            }
        }
    }

    /// It is not known any more what the store lacks.
    pub(super) fn forget(&mut self) {
        self.objects.iter_mut().for_each(|object| object.since = None);
        self.rows.iter_mut().for_each(|row| row.since = None);
        self.dirty = 0;
        self.backlog.clear();
        (0..self.objects.len() as u32).for_each(|object| self.release_all(object));
    }

    /// Gives back the rows of an object's entries that are no more.
    fn release_all(&mut self, object: u32) {
        let rows: Vec<u32> = self.objects[object as usize].entries.iter().copied().collect();
        rows.into_iter().for_each(|row| self.release(row));
    }

    /// Gives back a row that nobody needs any more.
    fn release(&mut self, number: u32) {
        let row = &self.rows[number as usize];
        if !matches!(row.held, Held::Nothing) || row.since.is_some() || row.under_way {
            return;
        }
        let hash = self.hash(&row.name);
        let entries = &mut self.objects[row.object as usize].entries;
        if let Ok(found) = entries.find_entry(hash, |&row| row == number) {
            found.remove();
            self.rows[number as usize].name = Bytes::new();
            self.free.push(number);
        }
    }

    /// What is to be sent next, taken out: of any step, or of this one only.
    pub(super) fn pop(&mut self, step: Option<u64>) -> Option<(Part, Since)> {
        let Self { objects, rows, backlog, .. } = self;
        let part = backlog.pop(step, |part, step| counts(objects, rows, part, step))?;
        let since = self.since_mut(part).take()?;
        self.dirty -= 1;
        if self.dirty == 0 {
            self.backlog.clear();
        }
        if let Part::Entry(row) = part {
            self.rows[row as usize].under_way = true;
        }
        Some((part, since))
    }

    /// The store has what was sent of `part`, or it is not known to be under way any more.
    pub(super) fn arrived(&mut self, part: Part) {
        if let Part::Entry(row) = part {
            self.rows[row as usize].under_way = false;
            self.release(row);
        }
    }

    /// What was sent has perhaps not arrived: it is lacked as before.
    pub(super) fn put_back(&mut self, part: Part, since: Since) {
        let step = match (part, self.since(part)) {
            (Part::Entry(row), Some(removed)) if matches!(self.held(row), Held::Nothing) => {
                removed.step
            }
            // What is put whole later comes before all of its entries, also before these.
            (Part::Whole(_), Some(later)) => later.step,
            _ => since.step,
        };
        if let Part::Entry(row) = part {
            self.rows[row as usize].under_way = false;
        }
        self.lack(part, Since { step, ..since });
    }

    fn held(&self, row: u32) -> &Held {
        &self.rows[row as usize].held
    }

    /// The call by which the store holds of `part` what is here; of a whole collection with entries of their
    /// own, nothing yet.
    pub(super) fn call(&self, part: Part) -> Call {
        match part {
            Part::Whole(object) => {
                let Object { key, content, .. } = &self.objects[object as usize];
                let put = content.clone().map(Operation::Put);
                Call::new(key, put.unwrap_or(Operation::Delete))
            }
            Part::Entry(row) => {
                let row = &self.rows[row as usize];
                let name = row.name.clone();
                let operation = match &row.held {
                    Held::Nothing => Operation::Erase(name),
                    Held::Member => Operation::Insert(Entry::Member(name)),
                    Held::Value(value) => Operation::Insert(Entry::Pair(name, value.clone())),
                    Held::Count(count) => Operation::Insert(Entry::Count(name, *count)),
                };
                Call::new(&self.objects[row.object as usize].key, operation)
            }
        }
    }

    /// Calls that the store has carried out before: of each object, and of `most` entries more, in turn.
    pub(super) fn present(&mut self, most: usize) -> Vec<Call> {
        self.looks = self.looks.wrapping_add(1);
        let objects = 0..self.objects.len() as u32;
        let mut parts: Vec<Part> = objects.filter_map(|object| self.some_of(object)).collect();
        for _ in 0..most.min(self.rows.len()) {
            let part = Part::Entry(self.looked as u32);
            if self.has_arrived(self.looked as u32) && !parts.contains(&part) {
                parts.push(part);
            }
            self.looked = (self.looked + 1) % self.rows.len();
        }
        parts.into_iter().map(|part| self.call(part)).collect()
    }

    /// What the store has of an object.
    fn some_of(&self, object: u32) -> Option<Part> {
        let Object { content, entries, since, .. } = &self.objects[object as usize];
        match content {
            Some(Content::Value(_) | Content::Counter(_)) => {
                since.is_none().then_some(Part::Whole(object))
            }
            _ => {
                // Another one each time: one that is written all the time is there though all others are gone.
                let first = self.looks % entries.len().clamp(1, SOUGHT);
                let mut rows = entries.iter().cycle().skip(first).take(SOUGHT.min(entries.len()));
                rows.find(|row| self.has_arrived(**row)).map(|row| Part::Entry(*row))
            }
        }
    }

    /// Whether the store has what is under this name, as it is here.
    fn has_arrived(&self, row: u32) -> bool {
        let Row { object, held, since, under_way, .. } = &self.rows[row as usize];
        let is_lacked = since.is_some() || self.objects[*object as usize].since.is_some();
        !is_lacked && !under_way && matches!(held, Held::Value(_) | Held::Count(_))
    }

    /// Whether what the store had is being written again.
    pub(super) fn is_written_anew(&self) -> bool {
        self.backlog.is_anew()
    }

    /// While that lasts, how many parts it was at first.
    pub(super) fn anew(&self) -> u64 {
        if self.is_written_anew() { self.differing as u64 } else { 0 }
    }

    /// Parts that the store lacks, without what is under way.
    pub(super) fn lacking(&self) -> usize {
        self.dirty
    }

    /// When the first of them was written, nanoseconds.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.backlog.oldest()
    }

    /// Entries of all objects; 1 for a value or counter.
    pub(super) fn len(&self) -> u64 {
        (0..self.objects.len() as u32).map(|object| self.len_of(object) as u64).sum()
    }

    fn len_of(&self, object: u32) -> usize {
        let Object { content, len, .. } = &self.objects[object as usize];
        content.as_ref().map_or(*len, Content::len)
    }

    /// All of it, as it is here.
    pub(super) fn all(&self) -> impl Iterator<Item = (Key, Content)> + '_ {
        self.objects.iter().filter_map(|object| {
            let entries = || {
                let mut content = Content::empty(object.key.kind())?;
                for &row in &object.entries {
                    let operation = self.call(Part::Entry(row)).operation;
                    if let Operation::Insert(entry) = operation {
                        content.insert(entry);
                    }
                }
                Some(content).filter(|content| !content.is_empty())
            };
            Some((object.key.clone(), object.content.clone().or_else(entries)?))
        })
    }
}

/// Whether it is in this step that `part` is sent.
fn counts(objects: &[Object], rows: &[Row], part: Part, step: u64) -> bool {
    let since = match part {
        Part::Whole(object) => objects[object as usize].since,
        Part::Entry(row) => rows[row as usize].since,
    };
    since.is_some_and(|since| since.step == step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Place, Scope};

    /// A store that does not answer: counters and entries are written again and again, and entries come and go.
    #[test]
    fn what_waits_takes_no_more_room_however_often_it_is_written() {
        let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
        let (counter, map) = (scope.key(Kind::Counter, "n").unwrap(), scope.key(Kind::Map, "x"));
        let (map, mut mirror) = (map.unwrap(), Mirror::default());
        let object = mirror.object(&map);
        for step in 0..100_000u64 {
            let since = Some(Since { ns: step, step });
            let put = Operation::Put(Content::Counter(step as i64));
            mirror.change(Call::new(&counter, put), since);
            let name = (step % 10).to_le_bytes();
            let value = (step % 3 > 0).then_some(&name[..]);
            mirror.change_entry(object, &name, value, since);
            assert!(mirror.backlog.len() < 5_000 && mirror.rows.len() <= 10, "step {step}");
        }
        let mut sent = 0;
        while mirror.pop(None).is_some() {
            sent += 1;
        }
        assert_eq!((sent, mirror.lacking(), mirror.backlog.len()), (11, 0, 0));
    }
}
