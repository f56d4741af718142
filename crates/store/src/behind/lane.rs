//! A lane: one scope's state, what of it the store lacks, and the batch under way.

use std::collections::BTreeMap;

use super::Mark;
use crate::call::{Call, Operation};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Batch, Outcome};
use crate::error::Error;
use crate::key::{Key, Scope};

pub(super) struct Lane {
    mark: Key,
    copy: BTreeMap<Key, Content>,
    dirty: BTreeMap<Key, Dirty>,
    /// Timestamps that changed and are not due.
    refreshed: BTreeMap<Key, Dirty>,
    /// What the batch under way holds.
    under_way: BTreeMap<Key, Dirty>,
    /// The mark that the store is known to have.
    known: Option<Mark>,
    /// Batches sent, with those that were not answered.
    sent: u64,
    /// Of them, those sent before `known` was learnt. The mark of one of them is of a store that has
    /// gone back; that of a later one is of a batch whose answer was lost.
    settled: u64,
    state: State,
    /// Since when it is lost.
    lost_ns: u64,
    /// When the last batch was answered.
    answered_ns: u64,
    pub(super) in_line: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The store has everything but what is dirty.
    Following,
    /// It does not, and it has to be found out which keys are too many.
    Lost,
    Listing,
}

/// What of an object the store lacks, since when.
#[derive(Default)]
struct Dirty {
    /// All of it: what the store has is to be removed first, and then all `entries` there are.
    whole: Option<u64>,
    entries: BTreeMap<Bytes, u64>,
}

/// What an answer means.
pub(super) enum Answered {
    /// Changes are stored, which were made then.
    Stored(Vec<u64>),
    /// The mark is that of a batch of ours whose answer was lost.
    Ours,
    Lost,
    Fenced,
}

impl Dirty {
    /// The store lacks all of an object that holds `content`.
    fn all(content: Option<&Content>, since_ns: u64) -> Self {
        let keyed = content.filter(|content| content.kind() != Kind::List);
        let entries = keyed.map(Content::entries).unwrap_or_default();
        let entries = entries.into_iter().map(|entry| (name(&entry), since_ns)).collect();
        Self { whole: Some(since_ns), entries }
    }

    fn len(&self) -> usize {
        self.entries.len() + usize::from(self.whole.is_some())
    }

    fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.whole.into_iter().chain(self.entries.values().copied())
    }

    /// Takes in what is dirty since earlier.
    fn merge(&mut self, earlier: Self) {
        self.whole = earlier.whole.or(self.whole);
        for (entry, since_ns) in earlier.entries {
            self.entries.insert(entry, since_ns);
        }
    }
}

impl Lane {
    /// A lane that the store has nothing of.
    pub(super) fn new(scope: &Scope) -> Result<Self, Error> {
        Ok(Self {
            mark: Mark::key(scope)?,
            copy: BTreeMap::new(),
            dirty: BTreeMap::new(),
            refreshed: BTreeMap::new(),
            under_way: BTreeMap::new(),
            known: None,
            sent: 0,
            settled: 0,
            state: State::Following,
            lost_ns: 0,
            answered_ns: 0,
            in_line: false,
        })
    }

    /// A lane that this writer has claimed.
    pub(super) fn claimed(
        scope: &Scope,
        mark: Mark,
        copy: BTreeMap<Key, Content>,
    ) -> Result<Self, Error> {
        let lane = Self::new(scope)?;
        let (sent, settled) = (mark.batch, mark.batch);
        Ok(Self { copy, known: Some(mark), sent, settled, ..lane })
    }

    pub(super) fn copy(&self) -> impl Iterator<Item = (&Key, &Content)> {
        self.copy.iter()
    }

    pub(super) fn change(&mut self, call: Call, is_refresh: bool, now_ns: u64) {
        let Call { key, operation } = call;
        let entry = match operation {
            Operation::Put(content) if !content.is_empty() => {
                self.copy.insert(key.clone(), content);
                None
            }
            Operation::Put(_) | Operation::Delete => {
                self.copy.remove(&key);
                None
            }
            Operation::Insert(entry) => {
                let name = name(&entry);
                let empty = Content::empty(key.kind());
                let content = match empty {
                    Some(empty) => self.copy.entry(key.clone()).or_insert(empty),
                    None => return,
                };
                content.insert(entry);
                Some(name)
            }
            Operation::Erase(name) => {
                self.erase(&key, &name);
                Some(name)
            }
            _ => return,
        };
        self.note(key, entry, is_refresh, now_ns);
    }

    fn erase(&mut self, key: &Key, name: &Bytes) {
        let Some(content) = self.copy.get_mut(key) else { return };
        match content {
            Content::Set(members) => drop(members.remove(name)),
            Content::Map(entries) => drop(entries.remove(name)),
            Content::CounterMap(entries) => drop(entries.remove(name)),
            _ => {}
        }
        if content.is_empty() {
            self.copy.remove(key);
        }
    }

    fn note(&mut self, key: Key, entry: Option<Bytes>, is_refresh: bool, now_ns: u64) {
        // What is put whole goes with entries that come later: it is no refresh.
        let is_refresh = is_refresh && (entry.is_some() || !key.kind().is_collection());
        if is_refresh && self.is_dirty(&key, entry.as_ref()) {
            return;
        }
        let rows = if is_refresh { &mut self.refreshed } else { &mut self.dirty };
        let dirty = rows.entry(key.clone()).or_default();
        match entry {
            Some(entry) => drop(dirty.entries.entry(entry).or_insert(now_ns)),
            None => {
                let oldest = dirty.times().min().unwrap_or(now_ns);
                *dirty = Dirty::all(self.copy.get(&key), oldest);
            }
        }
    }

    fn is_dirty(&self, key: &Key, entry: Option<&Bytes>) -> bool {
        self.dirty.get(key).is_some_and(|dirty| match entry {
            None => dirty.whole.is_some(),
            Some(entry) => dirty.entries.contains_key(entry),
        })
    }

    /// With more than `most` waiting by name, the names are forgotten: all is to be written again.
    pub(super) fn bound(&mut self, most: usize, now_ns: u64) {
        // Summed only when it can be too much: most changes are of one object.
        let many = |rows: &BTreeMap<Key, Dirty>| rows.values().map(Dirty::len).sum::<usize>();
        if self.state == State::Following && many(&self.dirty) + many(&self.refreshed) > most {
            self.lose(now_ns);
        }
    }

    fn lose(&mut self, now_ns: u64) {
        self.lost_ns = self.oldest().unwrap_or(now_ns);
        self.state = State::Lost;
        self.dirty.clear();
        self.refreshed.clear();
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    pub(super) fn begin_listing(&mut self) {
        self.state = State::Listing;
    }

    pub(super) fn listing_failed(&mut self) {
        self.state = State::Lost;
    }

    /// Everything is to be written again, and of `keys`, which the store has, those that are not
    /// here are to go.
    pub(super) fn rebuild(&mut self, keys: &[Key], now_ns: u64) {
        self.state = State::Following;
        for key in keys.iter().filter(|key| **key != self.mark) {
            self.dirty.entry(key.clone()).or_default().whole = Some(now_ns);
        }
        for (key, content) in &self.copy {
            let all = Dirty::all(Some(content), self.lost_ns.min(now_ns));
            self.dirty.entry(key.clone()).or_default().merge(all);
        }
    }

    pub(super) fn refreshes_are_due(&mut self, now_ns: u64) {
        for (key, refreshed) in std::mem::take(&mut self.refreshed) {
            let dirty = self.dirty.entry(key).or_default();
            if refreshed.whole.is_some() {
                dirty.whole.get_or_insert(now_ns);
            }
            for entry in refreshed.entries.into_keys() {
                dirty.entries.entry(entry).or_insert(now_ns);
            }
        }
    }

    /// Whether there is something to send, or it is time to look whether all is still there.
    pub(super) fn wants(&self, now_ns: u64, check_ns: u64) -> bool {
        self.state == State::Following
            && (!self.dirty.is_empty() || now_ns >= self.answered_ns.saturating_add(check_ns))
    }

    /// A batch of at most about `room` changes.
    pub(super) fn batch(&mut self, epoch: u64, room: usize, now_ns: u64) -> Batch {
        let mut calls = Vec::new();
        while calls.len() < room
            && let Some((key, mut dirty)) = self.dirty.pop_first()
        {
            let mut taken = Dirty { whole: dirty.whole.take(), entries: BTreeMap::new() };
            if taken.whole.is_some() {
                calls.push(self.whole(&key));
            }
            while calls.len() < room
                && let Some((entry, since_ns)) = dirty.entries.pop_first()
            {
                calls.push(self.entry(&key, &entry));
                taken.entries.insert(entry, since_ns);
            }
            self.under_way.entry(key.clone()).or_default().merge(taken);
            if dirty.len() > 0 {
                self.dirty.insert(key, dirty);
            }
        }
        self.sent += 1;
        self.answered_ns = now_ns;
        let expected = self.known.map(Mark::encode);
        let next = Mark { epoch, batch: self.sent }.encode();
        Batch { mark: self.mark.clone(), expected, next, calls }
    }

    /// The call by which the store holds of a whole object what it holds here; of a collection with
    /// entries of their own, nothing yet.
    fn whole(&self, key: &Key) -> Call {
        let operation = match self.copy.get(key) {
            Some(content) if !key.kind().is_collection() || key.kind() == Kind::List => {
                Operation::Put(content.clone())
            }
            _ => Operation::Delete,
        };
        Call::new(key, operation)
    }

    fn entry(&self, key: &Key, entry: &Bytes) -> Call {
        let found = match self.copy.get(key) {
            Some(Content::Set(members)) => {
                members.contains(entry).then(|| Entry::Member(entry.clone()))
            }
            Some(Content::Map(entries)) => {
                entries.get(entry).map(|value| Entry::Pair(entry.clone(), value.clone()))
            }
            Some(Content::CounterMap(entries)) => {
                entries.get(entry).map(|count| Entry::Count(entry.clone(), *count))
            }
            _ => None,
        };
        let erase = || Operation::Erase(entry.clone());
        Call::new(key, found.map_or_else(erase, Operation::Insert))
    }

    pub(super) fn answered(&mut self, outcome: Outcome, epoch: u64, now_ns: u64) -> Answered {
        let sent = Mark { epoch, batch: self.sent };
        let found = match outcome {
            Outcome::Committed => {
                (self.known, self.settled) = (Some(sent), self.sent);
                self.answered_ns = now_ns;
                let stored = std::mem::take(&mut self.under_way);
                return Answered::Stored(stored.values().flat_map(Dirty::times).collect());
            }
            Outcome::Found(found) => found.map(|bytes| Mark::decode(&self.mark, &bytes)),
        };
        self.failed();
        match found {
            // What cannot be read was not written by a writer of this release: make way.
            Some(Err(_)) => return Answered::Fenced,
            // A later writer, or one of the same moment.
            Some(Ok(mark)) if mark > sent => return Answered::Fenced,
            Some(Ok(mark)) if mark.epoch == epoch && mark.batch > self.settled => {
                (self.known, self.settled) = (Some(mark), self.sent);
                return Answered::Ours;
            }
            found => (self.known, self.settled) = (found.and_then(Result::ok), self.sent),
        }
        self.lose(now_ns);
        Answered::Lost
    }

    /// What was under way may have been stored or not: it is dirty as before.
    pub(super) fn failed(&mut self) {
        for (key, earlier) in std::mem::take(&mut self.under_way) {
            if self.state == State::Following {
                self.dirty.entry(key).or_default().merge(earlier);
            }
        }
    }

    /// Changes that wait, with those under way.
    pub(super) fn waiting(&self) -> u64 {
        if self.state != State::Following {
            return self.copy.values().map(|content| content.len() as u64).sum::<u64>().max(1);
        }
        let rows = [&self.dirty, &self.refreshed, &self.under_way];
        rows.iter().flat_map(|rows| rows.values()).map(|dirty| dirty.len() as u64).sum()
    }

    /// Since when the oldest of them waits, refreshes that are not due apart.
    pub(super) fn oldest(&self) -> Option<u64> {
        if self.state != State::Following {
            return Some(self.lost_ns);
        }
        [&self.dirty, &self.under_way]
            .iter()
            .flat_map(|rows| rows.values())
            .flat_map(Dirty::times)
            .min()
    }
}

/// The key of an entry.
fn name(entry: &Entry) -> Bytes {
    match entry {
        Entry::Member(name) | Entry::Pair(name, _) | Entry::Count(name, _) => name.clone(),
    }
}
