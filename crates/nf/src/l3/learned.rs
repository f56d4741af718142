//! What the workers of a run have learned of neighbours, between them.
//!
//! ```text
//!  worker 0: table ◀─┐  what has changed   ┌─▶ table :worker 1
//!                    └────── Learned ──────┘
//! ```
//!
//! Each worker has a table of its own, and forwards by that once it has taken over what had changed before the
//! packet. What changes a neighbour (a question, an answer, a packet that waits) is done in *turns*: one worker at a
//! time, which has brought its table up to date before. So the tables are that of one sequential program.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_packet::Port;

use crate::l3::held::Held;
use crate::l3::limiter::Limiter;
use crate::l3::neighbours::{Neighbour, Neighbours, RETRANSMIT_NS};

/// Changes that are remembered; who has missed more reads the whole table.
const REMEMBERED: usize = 64;
/// Entries looked at for one to replace.
const CANDIDATES: u32 = 16;

/// The neighbours that the workers of a run have learned, and what else routing has only once: packets that wait,
/// and the rate of errors.
#[derive(Default)]
pub struct Learned {
    changes: Changes,
    table: Mutex<Table>,
}

impl fmt::Debug for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Learned").field("changes", &self.changes()).finish_non_exhaustive()
    }
}

/// How many changes there have been: looked at with each packet, and so in a pair of cache lines of its own,
/// as they are fetched.
#[derive(Default)]
#[repr(align(128))]
struct Changes(AtomicU64);

#[derive(Default)]
struct Table {
    entries: Vec<Neighbour>,
    /// Which entry the latest changes were of, by their number.
    latest: Vec<u32>,
    held: Held,
    /// Questions that nobody may have answered, in the order of time.
    questions: VecDeque<Question>,
    limiter: Limiter,
    /// Where the search for an entry to replace goes on.
    cursor: u32,
}

/// A question of ours.
#[derive(Clone, Copy)]
pub(super) struct Question {
    /// The neighbour that it is for.
    pub index: u32,
    pub asked_at: u64,
}

impl Question {
    /// When it is to be looked after.
    fn due(self) -> u64 {
        self.asked_at.saturating_add(RETRANSMIT_NS)
    }
}

impl Learned {
    /// Has room made for those of `neighbours`, unless another worker's table has been here before.
    pub(super) fn join(&self, neighbours: &Neighbours) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.latest.is_empty() {
            table.entries.reserve_exact(neighbours.limit() as usize);
            table.entries.extend_from_slice(neighbours.entries());
            table.latest = vec![0; REMEMBERED];
            table.held = Held::new();
            table.questions.reserve_exact(neighbours.limit() as usize);
        }
    }

    /// How many changes there have been.
    #[inline(always)]
    pub(super) fn changes(&self) -> u64 {
        self.changes.0.load(Ordering::Acquire)
    }

    /// Waits until no other worker is changing anything.
    pub(super) fn turn(&self) -> Turn<'_> {
        // Who panicked has left no entry half written; its run ends.
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        Turn { changes: &self.changes.0, table }
    }
}

/// Nobody else changes anything meanwhile.
pub(super) struct Turn<'a> {
    changes: &'a AtomicU64,
    table: MutexGuard<'a, Table>,
}

impl Turn<'_> {
    /// How many changes there have been.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// What has changed since there were `seen` changes, each entry as it is now; more where that is not
    /// remembered.
    pub fn since(&self, seen: u64) -> impl Iterator<Item = (u32, Neighbour)> + '_ {
        let Table { entries, latest, .. } = &*self.table;
        let missed = self.changes().saturating_sub(seen);
        let all = missed > REMEMBERED as u64;
        let some = if all { seen..seen } else { seen..self.changes() };
        let some = some.filter_map(|change| latest.get(change as usize % REMEMBERED).copied());
        let all = 0..if all { entries.len() as u32 } else { 0 };
        all.chain(some).filter_map(|index| Some((index, *entries.get(index as usize)?)))
    }

    /// Entry `index`, the next one or one that is there, is `neighbour` from now on.
    pub fn change(&mut self, index: u32, neighbour: Neighbour) {
        let (change, table) = (self.changes(), &mut *self.table);
        match table.entries.get_mut(index as usize) {
            Some(entry) => *entry = neighbour,
            None => table.entries.push(neighbour),
        }
        if let Some(latest) = table.latest.get_mut(change as usize % REMEMBERED) {
            *latest = index;
        }
        self.changes.store(change + 1, Ordering::Release);
    }

    /// Where a new neighbour goes, besides the first `pinned` of at most `limit`: the next entry, or the least
    /// recently confirmed of some learned ones, unresolved ones before all.
    pub fn place(&mut self, pinned: u32, limit: u32) -> Option<u32> {
        let table = &mut *self.table;
        let len = table.entries.len() as u32;
        if len < limit {
            return Some(len);
        }
        let learned = limit.checked_sub(pinned).filter(|&learned| learned > 0)?;
        let from = table.cursor;
        table.cursor = (from + CANDIDATES) % learned;
        let candidates = (0..CANDIDATES).map(|step| pinned + (from + step) % learned);
        let age =
            |index: &u32| table.entries.get(*index as usize).map_or(0, |entry| entry.fresh_until);
        let index = candidates.min_by_key(age)?;
        table.held.forget(index);
        Some(index)
    }

    /// The packets that wait.
    pub fn held(&mut self) -> &mut Held {
        &mut self.table.held
    }

    /// Remembers `question`, one of at most `limit`, to be looked after; returns when.
    pub fn expect_answer(&mut self, question: Question, limit: u32) -> u64 {
        let questions = &mut self.table.questions;
        if questions.len() >= limit as usize {
            // Of more questions than neighbours the first is for one whose place another has taken.
            questions.pop_front();
        }
        // Nearly always the last: only what workers at different times ask is not in order.
        let at = questions.partition_point(|other| other.asked_at <= question.asked_at);
        questions.insert(at, question);
        question.due()
    }

    /// The next question that is to be looked after at `now`.
    pub fn take_question(&mut self, now: u64) -> Option<Question> {
        self.table.questions.pop_front_if(|question| question.due() <= now)
    }

    /// When the next one is.
    pub fn next_question(&self) -> u64 {
        self.table.questions.front().map_or(u64::MAX, |question| question.due())
    }

    /// The rate of errors.
    pub fn limiter(&mut self) -> &mut Limiter {
        &mut self.table.limiter
    }

    /// The port of the neighbour that is entry `index`, and what was held for it, addressed.
    pub fn take_held(&mut self, index: u32, now: u64) -> Option<(Port, &[u8])> {
        let Table { entries, held, .. } = &mut *self.table;
        let (neighbour, frame) = (entries.get(index as usize)?, held.take(index, now)?);
        *frame.first_chunk_mut()? = neighbour.header;
        Some((neighbour.port, frame))
    }
}
