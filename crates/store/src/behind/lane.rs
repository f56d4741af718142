//! A lane: one scope's state, what of it the store lacks, and the batch under way.

use std::collections::BTreeMap;

use super::backlog::{Part, Since};
use super::mirror::Mirror;
use super::{Listing, Mark, Settings, pause_ns};
use crate::call::Call;
use crate::content::{Bytes, Content};
use crate::driver::{Batch, Outcome};
use crate::error::Error;
use crate::key::{Key, Scope};
use crate::view::PAGE;

pub(super) struct Lane {
    scope: Scope,
    mark: Key,
    mirror: Mirror,
    /// What the batch under way holds.
    under_way: Vec<(Part, Since)>,
    /// The mark that the store is known to have, as it stands there.
    known: Option<Bytes>,
    /// That of the last batch sent, answered or not.
    sent: Mark,
    /// Number of the last batch sent before `known` was learnt. The mark of one until then is of a store that has
    /// gone back; that of a later one is of a batch whose answer was lost.
    settled: u64,
    state: State,
    /// Since when it is lost.
    lost_ns: u64,
    /// When the last batch was answered.
    answered_ns: u64,
    /// When it is to be looked next whether the store still has what it was given; nothing was sent yet: not said.
    look_ns: Option<u64>,
    /// Of the time from one look to the next, so many 64ths before the first: not all lanes look at once.
    turn: u64,
    /// Whether the batch under way looks, and how often in a row one that did found that something lacks, or was refused.
    looks: bool,
    lacks: u32,
    /// Why it could not be looked the last time, where there was something to look at.
    unseen: Option<Error>,
    /// It is to be looked whether the store still has everything, however short ago it had.
    is_in_doubt: bool,
    /// How often in a row the store would not work on this scope, or list it; not before then is it asked again.
    refusals: u32,
    retry_ns: u64,
    pub(super) in_line: bool,
}

/// Entries that are looked at together, beside one of each object.
const LOOKS: usize = 4;
/// Longest pause from one look to the next where each finds that something lacks, as a power of two of the usual one.
const SELDOM: u32 = 6;
/// Lanes that look one after the other.
const TURNS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The store has everything but what is dirty.
    Following,
    /// It does not. A mark of its own says first which store it is of: what is found there is not taken for what
    /// another has that takes over, whose mark, or want of one, may be the same as before.
    Lost,
    /// It has to be found out what is there.
    Marked,
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
    /// Nothing was done, nor lost: the store works on others now.
    Refused(Error),
    /// Nothing was done, nor lost: it could not be looked. The same is asked again without a look.
    Unseen,
}

impl Lane {
    /// A lane that the store has nothing of, and its number.
    pub(super) fn new(scope: &Scope, number: usize) -> Result<Self, Error> {
        Ok(Self {
            scope: scope.clone(),
            mark: Mark::key(scope)?,
            mirror: Mirror::default(),
            under_way: Vec::new(),
            known: None,
            sent: Mark::default(),
            settled: 0,
            state: State::Following,
            lost_ns: 0,
            answered_ns: 0,
            look_ns: None,
            turn: (number % TURNS) as u64,
            looks: false,
            lacks: 0,
            unseen: None,
            is_in_doubt: false,
            refusals: 0,
            retry_ns: 0,
            in_line: false,
        })
    }

    /// A lane that this writer has claimed.
    pub(super) fn claimed(
        (scope, number): (&Scope, usize),
        mark: Mark,
        copy: BTreeMap<Key, Content>,
    ) -> Result<Self, Error> {
        let mut lane = Self::new(scope, number)?;
        lane.mirror.load(copy);
        Ok(Self { known: Some(mark.encode()), sent: mark, settled: mark.batch, ..lane })
    }

    pub(super) fn copy(&self) -> impl Iterator<Item = (Key, Content)> + '_ {
        self.mirror.all()
    }

    pub(super) fn change(&mut self, call: Call, since: Since) {
        // Where it is lost, all is to be written again, as it is here then.
        self.mirror.change(call, self.is_following().then_some(since));
    }

    /// The number of an object.
    pub(super) fn object(&mut self, key: &Key) -> u32 {
        self.mirror.object(key)
    }

    /// A map's entry holds `value` now, or is no more.
    pub(super) fn change_entry(
        &mut self,
        object: u32,
        name: &[u8],
        value: Option<&[u8]>,
        since: Since,
    ) {
        self.mirror.change_entry(object, name, value, self.is_following().then_some(since));
    }

    /// With more than `most` waiting by name, and twice as many as there is, the names are forgotten: it is to be found
    /// out what the store has. (Of a large state much waits while it is stored, and of one that was large much while it
    /// is removed: to begin anew for it would never end.)
    pub(super) fn bound(&mut self, most: usize, now_ns: u64) {
        let lacking = self.mirror.lacking();
        let there_is = self.mirror.len().max(self.mirror.anew());
        let is_much = lacking > most && lacking as u64 > 2 * there_is;
        if self.is_following() && is_much {
            self.lose(now_ns);
        }
    }

    fn lose(&mut self, now_ns: u64) {
        self.lost_ns = self.oldest().unwrap_or(now_ns);
        self.state = State::Lost;
        self.mirror.forget();
    }

    fn is_following(&self) -> bool {
        self.state == State::Following
    }

    /// How often in a row it could not be listed, where it is to be.
    pub(super) fn wants_listing(&self) -> Option<u32> {
        (self.state == State::Marked).then_some(self.refusals)
    }

    /// The scope, and how many entries are to be read at once: half as many after each time that it could not be
    /// listed. It may be too much for the way to the store.
    pub(super) fn begin_listing(&mut self) -> (Scope, u32) {
        self.state = State::Listing;
        (self.scope.clone(), (PAGE >> self.refusals.min(20)).max(1))
    }

    /// Whether the store would not work on this scope when it was asked last.
    pub(super) fn is_refused(&self) -> bool {
        self.refusals > 0
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(super) fn listing_failed(&mut self) {
        self.refusals += 1;
        if self.state == State::Listing {
            self.state = State::Marked;
        }
    }

    /// What the store has not, or otherwise, is to be written, and what is not here is to go. An error where it is not
    /// the store that has the last mark.
    pub(super) fn rebuild(&mut self, listing: Listing, now_ns: u64) -> Result<(), Error> {
        let Listing { found, mark } = listing;
        if mark != self.known {
            // It is to be marked anew.
            self.state = State::Lost;
            return Err(Error::unavailable(&self.scope, "another copy of it does"));
        }
        (self.state, self.refusals) = (State::Following, 0);
        let since = Since { ns: self.lost_ns.min(now_ns), step: 0 };
        self.mirror.lack_difference(&found, since);
        Ok(())
    }

    /// Whether there is something to send, or it is time to look whether all is still there.
    pub(super) fn wants(&self, now_ns: u64, check_ns: u64) -> bool {
        let is_due = match self.state {
            State::Following => {
                self.mirror.lacking() > 0
                    || self.is_in_doubt
                    || now_ns >= self.answered_ns.saturating_add(check_ns)
                    || self.look_ns.is_some_and(|look_ns| self.may_look() && now_ns >= look_ns)
            }
            State::Lost => true,
            State::Marked | State::Listing => false,
        };
        is_due && now_ns >= self.retry_ns
    }

    /// It is to be looked whether the store has what it was given.
    pub(super) fn doubt(&mut self) {
        self.is_in_doubt = self.known.is_some();
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// A batch of about `room` changes: it ends where a step does, if that is not more than `most` later. Half as many
    /// after each refusal: it may be too much for the way to the part of the store that has this scope. Whose batch it
    /// is, and how far his clock has come, says `writer`.
    pub(super) fn batch(
        &mut self,
        writer: Mark,
        (room, most): (usize, usize),
        now_ns: u64,
        check_ns: u64,
    ) -> Batch {
        let present = self.present(now_ns, check_ns);
        let room = (room >> self.refusals.min(20)).max(1);
        let mut calls = Vec::new();
        let mut step = None;
        while calls.len() < room + most
            && let only = step.filter(|_| calls.len() >= room)
            && let Some((part, since)) = self.mirror.pop(only)
        {
            step = Some(since.step);
            calls.push(self.mirror.call(part));
            self.under_way.push((part, since));
        }
        self.sent = Mark { batch: self.sent.batch + 1, ..writer };
        self.answered_ns = now_ns;
        self.looks = !present.is_empty();
        let (expected, next) = (self.known.clone(), self.sent.encode());
        Batch { mark: self.mark.clone(), expected, next, present, calls }
    }

    /// What is to be there, if it is time to look: of marks nothing can be told of single objects. Not where the store
    /// would not work on this scope: a part of it may be on its way.
    fn present(&mut self, now_ns: u64, check_ns: u64) -> Vec<Call> {
        let first_ns = now_ns.saturating_add(check_ns / TURNS as u64 * self.turn);
        let is_due = self.is_in_doubt || now_ns >= *self.look_ns.get_or_insert(first_ns);
        if !is_due || !self.may_look() {
            return Vec::new();
        }
        self.look_later(check_ns, now_ns);
        let present = self.mirror.present(LOOKS);
        if present.is_empty() && self.mirror.lacking() == 0 {
            // There is nothing of which it is not known.
            self.unseen = None;
        }
        present
    }

    /// Not before all is there again that was found to lack: else it would begin anew, and what has changed since would
    /// never have its turn.
    fn may_look(&self) -> bool {
        self.is_following() && self.refusals == 0 && !self.mirror.is_written_anew()
    }

    /// Half as often after each look that was in vain: of a server that evicts, all would be written again all the time.
    fn look_later(&mut self, check_ns: u64, now_ns: u64) {
        let pause_ns = check_ns.saturating_mul(1 << self.lacks.min(SELDOM));
        self.look_ns = Some(now_ns.saturating_add(pause_ns));
    }

    /// What became of the batch under way; whether it looked.
    fn note_look(&mut self, outcome: &Outcome, check_ns: u64, now_ns: u64) -> bool {
        if !std::mem::take(&mut self.looks) {
            return false;
        }
        match outcome {
            Outcome::Committed => (self.lacks, self.unseen) = (0, None),
            Outcome::Lacks | Outcome::Refused(_) => {
                self.lacks += 1;
                self.look_later(check_ns, now_ns);
                self.unseen = match outcome {
                    Outcome::Refused(error) => Some(error.clone()),
                    _ => None,
                };
            }
            Outcome::Found(_) => {}
        }
        true
    }

    /// Why it could not be looked the last time whether the store still has what it was given.
    pub(super) fn unseen(&self) -> Option<&Error> {
        self.unseen.as_ref()
    }

    pub(super) fn answered(
        &mut self,
        outcome: Outcome,
        settings: &Settings,
        now_ns: u64,
    ) -> Answered {
        let sent = self.sent;
        let looked = self.note_look(&outcome, settings.check_ns, now_ns);
        let refusals = std::mem::take(&mut self.refusals);
        let found = match outcome {
            Outcome::Committed => {
                (self.known, self.settled) = (Some(sent.encode()), sent.batch);
                self.answered_ns = now_ns;
                match self.state {
                    State::Lost => self.state = State::Marked,
                    _ => self.is_in_doubt = false,
                }
                let stored = std::mem::take(&mut self.under_way);
                stored.iter().for_each(|(part, _)| self.mirror.arrived(*part));
                return Answered::Stored(stored.into_iter().map(|(_, since)| since.ns).collect());
            }
            Outcome::Refused(error) => {
                self.failed();
                self.retry_ns = now_ns.saturating_add(pause_ns(settings.period_ns, refusals));
                self.refusals = refusals + 1;
                return if looked { Answered::Unseen } else { Answered::Refused(error) };
            }
            Outcome::Lacks => {
                // A batch of before whose answer was lost may still arrive: its mark would be one of ours.
                self.failed();
                self.lose(now_ns);
                return Answered::Lost;
            }
            Outcome::Found(found) => found,
        };
        self.failed();
        let mark = found.as_deref().map(|bytes| Mark::decode(&self.mark, bytes));
        let settled = std::mem::replace(&mut self.settled, sent.batch);
        self.known = found;
        match mark {
            // What cannot be read was not written by a writer of this release: make way.
            Some(Err(_)) => return Answered::Fenced,
            // A later writer, or one of the same moment.
            Some(Ok(mark)) if mark.is_later_than(sent) => return Answered::Fenced,
            Some(Ok(mark)) if mark.epoch == sent.epoch && mark.batch > settled => {
                return Answered::Ours;
            }
            _ => {}
        }
        self.lose(now_ns);
        Answered::Lost
    }

    /// What was under way may have been stored or not: it is dirty as before.
    pub(super) fn failed(&mut self) {
        for (part, since) in std::mem::take(&mut self.under_way) {
            if self.is_following() {
                self.mirror.put_back(part, since);
            } else {
                self.mirror.arrived(part);
            }
        }
    }

    /// Changes that wait, with those under way.
    pub(super) fn waiting(&self) -> u64 {
        if !self.is_following() {
            return self.mirror.len().max(1);
        }
        (self.mirror.lacking() + self.under_way.len()) as u64
    }

    /// Whether all of them have been sent.
    pub(super) fn is_all_under_way(&self) -> bool {
        self.is_following() && self.mirror.lacking() == 0
    }

    /// Since when the oldest of them waits.
    pub(super) fn oldest(&self) -> Option<u64> {
        if !self.is_following() {
            return Some(self.lost_ns);
        }
        let under_way = self.under_way.iter().map(|(_, since)| since.ns);
        self.mirror.oldest().into_iter().chain(under_way).min()
    }
}
