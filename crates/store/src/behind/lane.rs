//! A lane: one scope's state, what of it the store lacks, and the batch under way.

use std::collections::BTreeMap;

use super::Mark;
use super::backlog::{Backlog, Dirty, Since};
use crate::call::{Call, Operation};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Batch, Outcome};
use crate::error::Error;
use crate::key::{Key, Scope};

pub(super) struct Lane {
    mark: Key,
    copy: BTreeMap<Key, Content>,
    dirty: Backlog,
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

/// What an answer means.
pub(super) enum Answered {
    /// Changes are stored, which were made then.
    Stored(Vec<u64>),
    /// The mark is that of a batch of ours whose answer was lost.
    Ours,
    Lost,
    Fenced,
}

impl Lane {
    /// A lane that the store has nothing of.
    pub(super) fn new(scope: &Scope) -> Result<Self, Error> {
        Ok(Self {
            mark: Mark::key(scope)?,
            copy: BTreeMap::new(),
            dirty: Backlog::default(),
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

    pub(super) fn change(&mut self, call: Call, is_refresh: bool, since: Since) {
        let Call { key, operation } = call;
        let (name, stays) = match operation {
            Operation::Put(content) if !content.is_empty() => {
                let was_there = self.copy.insert(key.clone(), content).is_some();
                (None, was_there && !key.kind().is_collection())
            }
            Operation::Put(_) | Operation::Delete => {
                self.copy.remove(&key);
                (None, false)
            }
            Operation::Insert(entry) => {
                let Some(empty) = Content::empty(key.kind()) else { return };
                let name = name(&entry);
                (Some(name), self.copy.entry(key.clone()).or_insert(empty).insert(entry))
            }
            Operation::Erase(name) => {
                self.erase(&key, &name);
                (Some(name), false)
            }
            _ => return,
        };
        self.note(&key, name, is_refresh, (stays, since));
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

    /// The store lacks this since then. What waits already keeps its place in the order where it
    /// `stays` what it is, with another value: nothing that changes all the time waits for ever, and
    /// what came into being with it finds it there. What is removed, or comes into being again, goes
    /// with what it does so with.
    fn note(
        &mut self,
        key: &Key,
        name: Option<Bytes>,
        is_refresh: bool,
        (stays, since): (bool, Since),
    ) {
        if self.is_lost() {
            // All is to be written again, as it is in the copy then.
            return;
        }
        let earlier = self.dirty.get(key, name.as_ref());
        // What is put whole goes with entries that come later: it is no refresh.
        if is_refresh && (name.is_some() || !key.kind().is_collection()) {
            if earlier.is_none() {
                let refreshed = self.refreshed.entry(key.clone()).or_default();
                refreshed.set(name.clone(), refreshed.get(name.as_ref()).unwrap_or(since));
            }
            return;
        }
        let since = earlier.map_or(since, |earlier| Since {
            ns: earlier.ns,
            step: if stays { earlier.step } else { since.step.max(earlier.step) },
        });
        match name {
            Some(_) => self.dirty.set(key, name, since),
            None => self.dirty.set_all(key, self.copy.get(key), since),
        }
    }

    /// With more than `most` waiting by name, the names are forgotten: all is to be written again.
    pub(super) fn bound(&mut self, most: usize, now_ns: u64) {
        let refreshed: usize = self.refreshed.values().map(Dirty::len).sum();
        if self.state == State::Following && self.dirty.len() + refreshed > most {
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
        self.dirty.clear();
        for key in keys.iter().filter(|key| **key != self.mark) {
            self.dirty.set(key, None, Since { ns: now_ns, step: 0 });
        }
        for (key, content) in &self.copy {
            let since = Since { ns: self.lost_ns.min(now_ns), step: 0 };
            self.dirty.set_all(key, Some(content), since);
        }
    }

    pub(super) fn refreshes_are_due(&mut self, since: Since) {
        for (key, refreshed) in std::mem::take(&mut self.refreshed) {
            let whole = refreshed.whole.map(|_| None);
            for name in whole.into_iter().chain(refreshed.entries.into_keys().map(Some)) {
                if self.dirty.get(&key, name.as_ref()).is_none() {
                    self.dirty.set(&key, name, since);
                }
            }
        }
    }

    /// Whether there is something to send, or it is time to look whether all is still there.
    pub(super) fn wants(&self, now_ns: u64, check_ns: u64) -> bool {
        self.state == State::Following
            && (self.dirty.len() > 0 || now_ns >= self.answered_ns.saturating_add(check_ns))
    }

    /// A batch of about `room` changes: it ends where a step does, if that is not more than `most` later.
    pub(super) fn batch(&mut self, epoch: u64, room: usize, most: usize, now_ns: u64) -> Batch {
        let mut calls = Vec::new();
        let mut step = None;
        while let Some(next) = self.dirty.first_step()
            && (calls.len() < room || Some(next) == step && calls.len() < room + most)
            && let Some((key, name, since)) = self.dirty.pop()
        {
            step = Some(next);
            calls.push(match &name {
                None => self.whole(&key),
                Some(name) => self.entry(&key, name),
            });
            self.under_way.entry(key).or_default().set(name, since);
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
                self.put_back(&key, earlier);
            }
        }
    }

    fn put_back(&mut self, key: &Key, earlier: Dirty) {
        // What is put whole later comes before all of its entries, also before these.
        let whole = self.dirty.get(key, None).map(|whole| whole.step);
        if let Some(since) = earlier.whole {
            let step = whole.unwrap_or(since.step);
            self.dirty.set(key, None, Since { step, ..since });
        }
        for (name, since) in earlier.entries {
            let is_there = matches!(self.entry(key, &name).operation, Operation::Insert(_));
            let removed = self.dirty.get(key, Some(&name)).filter(|_| !is_there);
            let step = removed.map_or(since.step, |removed| removed.step);
            let step = step.max(whole.unwrap_or(0));
            self.dirty.set(key, Some(name), Since { step, ..since });
        }
    }

    /// Changes that wait, with those under way.
    pub(super) fn waiting(&self) -> u64 {
        if self.state != State::Following {
            return self.copy.values().map(|content| content.len() as u64).sum::<u64>().max(1);
        }
        let rows = self.refreshed.values().chain(self.under_way.values());
        (self.dirty.len() + rows.map(Dirty::len).sum::<usize>()) as u64
    }

    /// Since when the oldest of them waits, refreshes that are not due apart.
    pub(super) fn oldest(&self) -> Option<u64> {
        if self.state != State::Following {
            return Some(self.lost_ns);
        }
        self.dirty.times().chain(self.under_way.values().flat_map(Dirty::times)).min()
    }
}

/// The key of an entry.
pub(super) fn name(entry: &Entry) -> Bytes {
    match entry {
        Entry::Member(name) | Entry::Pair(name, _) | Entry::Count(name, _) => name.clone(),
    }
}
