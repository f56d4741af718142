//! How a worker gets a batch of packets committed: together where it can, singly where it must, and
//! alone when nothing else helps.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use crate::transaction::{Cause, Place, Transaction};

/// Items of one transaction at most.
pub const MOST_ITEMS: usize = 32;

/// How often in a row a transaction that begins with the same item is given up before that item runs
/// with nobody beside it.
pub const PATIENCE: u32 = 8;

/// Commits in a row after which as many items more are tried at once.
const CALM: u32 = 4;

/// Commits of the first worker after which it looks for memory that nobody changes any more: often enough to
/// find it within milliseconds, and seldom enough that it costs nothing if it is changed then.
const SETTLING: u64 = if cfg!(test) { 4 } else { 1_024 };

/// What is to be done in transactions: items, one after the other.
pub trait Batch {
    /// Runs the items of `range` in order, up to the first at whose end the transaction is doomed,
    /// and returns how many were run.
    fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize;
    /// The transaction, in which so many items were run, is given up. For who wants to know why.
    fn given_up(&mut self, _cause: Cause, _ran: usize) {}
    /// Takes back what running these items did outside the transaction.
    fn undo(&mut self, range: Range<usize>);
    /// These items have been committed.
    fn release(&mut self, range: Range<usize>, place: Place);
}

/// How transactions ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions committed beside others.
    pub commits: u64,
    /// Items committed beside others.
    pub items: u64,
    /// Transactions given up because of a conflict.
    pub conflicts: u64,
    /// Transactions given up because an item needed to be alone, or more room than there is.
    pub unfit: u64,
    /// Items that ran alone because they needed to.
    pub alone: u64,
    /// Items that ran alone because others had been in their way for too long.
    pub irrevocable: u64,
}

impl Counts {
    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        self.commits += other.commits;
        self.items += other.items;
        self.conflicts += other.conflicts;
        self.unfit += other.unfit;
        self.alone += other.alone;
        self.irrevocable += other.irrevocable;
    }
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    transaction: Arc<Transaction>,
    size: usize,
    calm: u32,
    counts: Counts,
    /// Something was changed since it was asked.
    wrote: bool,
}

impl Worker {
    /// The worker whose transactions these are.
    pub fn new(transaction: Arc<Transaction>) -> Self {
        let (size, counts) = (MOST_ITEMS, Counts::default());
        Self { transaction, size, calm: 0, counts, wrote: false }
    }

    /// Its number.
    pub fn number(&self) -> usize {
        self.transaction.worker()
    }

    /// How its transactions ended.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether objects may have been changed by its items since the last call.
    pub fn take_wrote(&mut self) -> bool {
        std::mem::take(&mut self.wrote)
    }

    /// Has `len` items committed, in order.
    pub fn handle(&mut self, batch: &mut impl Batch, len: usize) {
        let (mut start, mut end, mut aborts) = (0, len, 0);
        while start < len {
            let to = end.min(start + self.size);
            let Err((ran, cause)) = self.attempt(batch, start..to) else {
                (start, end, aborts) = (to, len, 0);
                self.settle_again();
                continue;
            };
            match cause {
                Cause::Conflict(..) => {
                    self.counts.conflicts += 1;
                    self.size = (ran / 2).max(1);
                    aborts += 1;
                    if aborts < PATIENCE {
                        continue;
                    }
                    self.counts.irrevocable += 1;
                }
                Cause::Alone | Cause::Settled(_) | Cause::TooLarge if ran > 1 => {
                    self.counts.unfit += 1;
                    end = start + ran - 1;
                    continue;
                }
                Cause::Alone | Cause::Settled(_) | Cause::TooLarge => self.counts.alone += 1,
            }
            self.run_alone(batch, start);
            (start, end, aborts) = (start + 1, len, 0);
        }
    }

    /// Runs items in one transaction; otherwise how many were run, and why in vain.
    fn attempt(
        &mut self,
        batch: &mut impl Batch,
        range: Range<usize>,
    ) -> Result<(), (usize, Cause)> {
        let transaction = &*self.transaction;
        // A worker that panicked is reported when it is joined; of what is shared it has left nothing half
        // done.
        let gate = &transaction.domain().gate;
        let _beside = gate.read().unwrap_or_else(PoisonError::into_inner);
        transaction.begin();
        let ran = batch.run(range.clone(), transaction);
        let place = match transaction.commit() {
            Ok(place) => place,
            Err(cause) => {
                batch.given_up(cause, ran);
                batch.undo(range.start..range.start + ran);
                return Err((ran, cause));
            }
        };
        self.wrote |= transaction.writes().len() > 0;
        self.counts.commits += 1;
        self.counts.items += range.len() as u64;
        self.calm += 1;
        if self.calm == CALM {
            (self.calm, self.size) = (0, (2 * self.size).min(MOST_ITEMS));
        }
        batch.release(range, place);
        Ok(())
    }

    /// Now and then has memory settle again that nobody changes any more.
    #[inline(always)]
    fn settle_again(&mut self) {
        let is_time = self.counts.commits.is_multiple_of(SETTLING) && self.number() == 0;
        if is_time && self.transaction.domain().has_quiet() {
            self.alone(|transaction| transaction.domain().settle_again());
        }
    }

    fn run_alone(&mut self, batch: &mut impl Batch, item: usize) {
        self.wrote = true;
        self.alone(|transaction| {
            batch.run(item..item + 1, transaction);
            batch.release(item..item + 1, transaction.place());
        });
    }

    /// Does something with nobody beside it.
    pub fn alone<R>(&mut self, act: impl FnOnce(&Transaction) -> R) -> R {
        let transaction = &*self.transaction;
        let gate = &transaction.domain().gate;
        let _alone = gate.write().unwrap_or_else(PoisonError::into_inner);
        transaction.begin_alone();
        act(transaction)
    }
}
