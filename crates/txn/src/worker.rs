//! How a worker gets a batch of packets committed: together where it can, singly where it must, and
//! alone when nothing else helps.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::transaction::{Cause, Place, Transaction};
use crate::turns::Way;

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

/// Transactions without a log of what they read, one after the other, after which that is presumed to go well, and
/// most transactions with a log before the next try without.
const EASE: u32 = 64;
const MOST_LOGGED: u32 = 4_096;

/// Whether transactions log what they read. Without a log reads cost less, and a transaction that was overtaken runs
/// again, whatever it has read: worth it where others seldom commit changes meanwhile, which is tried.
#[derive(Debug)]
struct Logging {
    /// Transactions with a log before the next without; never one without if all have one.
    left: u32,
    /// How many that will be when next one without was in vain.
    next: u32,
    /// How many without a log have committed since.
    well: u32,
    always: bool,
    /// The transaction under way has one.
    has: bool,
}

impl Logging {
    fn new(always: bool) -> Self {
        Self { left: 0, next: 1, well: 0, always, has: always }
    }

    /// Whether the transaction that begins now is to have a log.
    #[inline(always)]
    fn is_on(&self) -> bool {
        self.left > 0 || self.always
    }

    /// A transaction begins, which is to have a log in any case where `is_needed`: whether it has one.
    #[inline(always)]
    fn begins(&mut self, is_needed: bool) -> bool {
        self.has = self.is_on() || is_needed;
        self.has
    }

    /// The transaction was committed.
    #[inline(always)]
    fn went_well(&mut self) {
        if self.has {
            self.left = self.left.saturating_sub(1);
            return;
        }
        self.well += 1;
        if self.well == EASE {
            (self.well, self.next) = (0, 1);
        }
    }

    /// One without a log was overtaken.
    fn was_in_vain(&mut self) {
        self.left = self.next;
        self.next = (2 * self.next).min(MOST_LOGGED);
        self.well = 0;
    }
}

/// What is to be done in transactions: items, one after the other.
pub trait Batch {
    /// Runs the items of `range` in order, up to the first at whose end the transaction is doomed, or before
    /// which the batch is to end, and returns how many were run.
    fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize;
    /// Runs the items of `range` in order, up to the first before which the batch is to end, with nobody beside
    /// them: nothing is taken back. Returns how many were run.
    fn run_alone(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
        self.run(range, transaction)
    }
    /// Whether the item is seen to need nobody beside it before it is run.
    fn needs_alone(&self, _item: usize) -> bool {
        false
    }
    /// Whether the transaction that begins next is to have a log of what it reads in any case.
    fn needs_read_log(&self) -> bool {
        false
    }
    /// An item that was seen to need it has run alone. For who wants to know why.
    fn ran_alone(&mut self, _item: usize) {}
    /// The transaction, in which so many items were run, is given up. For who wants to know why.
    fn given_up(&mut self, _cause: Cause, _ran: usize) {}
    /// Others have been in the way of the first item of the transaction that was given up last for too often: it
    /// runs alone now. For who wants to know why.
    fn runs_irrevocably(&mut self) {}
    /// The transaction, beside others, has committed: what was done outside of it is done in its
    /// [step](Transaction::step).
    fn committed(&mut self, _transaction: &Transaction) {}
    /// Takes back what running these items did outside the transaction.
    fn undo(&mut self, range: Range<usize>);
    /// These items have been committed.
    fn release(&mut self, range: Range<usize>, place: Place);
}

/// How a batch goes on once items of it are done.
enum Course {
    /// With this item next, if there is one.
    Goes(usize),
    /// It ends before this one.
    Ends(usize),
}

impl Course {
    /// Of the items of `range` so many were run, and none in vain.
    #[inline(always)]
    fn after(ran: usize, range: Range<usize>) -> Self {
        let next = range.start + ran;
        if next < range.end { Self::Ends(next) } else { Self::Goes(next) }
    }
}

/// How transactions ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions committed beside others.
    pub commits: u64,
    /// Items committed beside others.
    pub items: u64,
    /// Transactions given up because another worker changed what was read or was to be changed, or, where no log
    /// says what was read, because another has committed.
    pub conflicts: u64,
    /// Transactions given up because an item needed to be alone, or more room than there is.
    pub unfit: u64,
    /// Items that ran alone because they needed to.
    pub alone: u64,
    /// Items that ran alone because others had been in their way for too long.
    pub irrevocable: u64,
    /// Batches that ran while workers took turns.
    pub turns: u64,
    /// Items of theirs.
    pub turn_items: u64,
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
        self.turns += other.turns;
        self.turn_items += other.turn_items;
    }
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    transaction: Arc<Transaction>,
    size: usize,
    calm: u32,
    logging: Logging,
    counts: Counts,
    /// Something was changed since it was asked.
    wrote: bool,
    /// How batches were handled when it was looked last, and at the end of the last one.
    way: [Way; 2],
    /// Batches until it is looked again.
    patience: u32,
    /// The time of this batch is counted.
    counted: bool,
}

impl Worker {
    /// The worker whose transactions these are.
    pub fn new(transaction: Arc<Transaction>) -> Self {
        let turns = &transaction.domain().turns;
        let (way, patience) = (turns.way(), turns.patience(turns.way()));
        let logging = Logging::new(!transaction.domain().may_be_unlogged());
        Self {
            transaction,
            size: MOST_ITEMS,
            calm: 0,
            logging,
            counts: Counts::default(),
            wrote: false,
            way: [way; 2],
            patience,
            counted: false,
        }
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

    /// Has `len` items committed, in order, or those before which the batch is to end, and returns how many.
    pub fn handle(&mut self, batch: &mut impl Batch, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        let way = self.transaction.domain().turns.way();
        if way.is_trial() {
            self.counted = count(&self.transaction);
        }
        let done = self.handle_all(batch, len);
        self.patience -= 1;
        if self.patience == 0 || self.way[0] != self.way[1] {
            self.look_up(way, done);
        }
        done
    }

    #[inline(always)]
    fn handle_all(&mut self, batch: &mut impl Batch, len: usize) -> usize {
        let (mut start, mut end, mut aborts) = (0, len, 0);
        while start < len {
            if !self.way[1].takes_turns() && batch.needs_alone(start) {
                match self.run_alone(batch, start..len, true) {
                    Course::Goes(next) if next == start => {}
                    Course::Goes(next) => (start, end, aborts) = (next, len, 0),
                    Course::Ends(before) => return before,
                }
                continue;
            }
            let (ran, cause) = match self.attempt(batch, start..end, len) {
                Ok(Course::Goes(next)) => {
                    (start, end, aborts) = (next, len, 0);
                    self.settle_again();
                    continue;
                }
                Ok(Course::Ends(before)) => return before,
                Err(why) => why,
            };
            match cause {
                Cause::Conflict(..) | Cause::Overtaken => {
                    self.counts.conflicts += 1;
                    if !self.logging.has {
                        self.logging.was_in_vain();
                    }
                    if cause != Cause::Overtaken {
                        self.size = (ran / 2).max(1);
                    }
                    aborts += 1;
                    if aborts < PATIENCE {
                        continue;
                    }
                    self.counts.irrevocable += 1;
                    batch.runs_irrevocably();
                }
                Cause::Alone | Cause::Settled(_) | Cause::TooLarge => {
                    self.counts.unfit += 1;
                    if ran > 1 {
                        end = start + ran - 1;
                        continue;
                    }
                    self.counts.alone += 1;
                }
            }
            match self.run_alone(batch, start..len, false) {
                Course::Goes(next) => (start, end, aborts) = (next, len, 0),
                Course::Ends(before) => return before,
            }
        }
        len
    }

    /// A batch of so many items is done that began in the while `way`: has all workers do what comes next, if it
    /// is time.
    #[cold]
    #[inline(never)]
    fn look_up(&mut self, way: Way, items: usize) {
        let [before, now] = self.way;
        let turns = &self.transaction.domain().turns;
        let is_over = match std::mem::take(&mut self.counted) {
            true => {
                let whole = (way == now).then_some(way);
                turns.end(self.number(), whole, items, Instant::now())
            }
            false => way == now && before == now && turns.is_time(way, Instant::now()),
        };
        if is_over {
            // Others come to the same end.
            let domain = self.transaction.domain();
            let alone = domain.gate.close_if(|| turns.way() == way);
            alone.iter().for_each(|_| domain.go_on(way));
        }
        let now = turns.way();
        (self.way, self.patience) = ([now; 2], turns.patience(now));
    }

    /// Runs items of `range` in one transaction, or all up to `len` where workers take turns; otherwise how many
    /// were run, and why in vain. None is run where workers no more take turns, though they did a batch ago: it
    /// was not looked whether the first of them needs to be alone.
    #[inline(always)]
    fn attempt(
        &mut self,
        batch: &mut impl Batch,
        range: Range<usize>,
        len: usize,
    ) -> Result<Course, (usize, Cause)> {
        let transaction = &*self.transaction;
        let took_turns = self.way[1].takes_turns();
        if took_turns {
            // As it was a batch ago, and before the gate: who waits is in nobody's way.
            let (turns, workers) = (&transaction.domain().turns, transaction.domain().workers());
            turns.floor.be_polite(self.number(), workers, || !turns.way().takes_turns());
        }
        let inside = transaction.domain().gate.enter(self.number());
        let way = transaction.domain().turns.way();
        self.way[1] = way;
        if way.is_trial() && !self.counted {
            // It has begun meanwhile. Who waits for its turn now is counted, too.
            self.counted = count(transaction);
        }
        if way.takes_turns() {
            let range = range.start..len;
            let (ran, place) = take_turn(batch, range.clone(), transaction);
            drop(inside);
            self.wrote = true;
            self.counts.turns += 1;
            self.counts.turn_items += ran as u64;
            batch.release(range.start..range.start + ran, place);
            return Ok(Course::after(ran, range));
        }
        if took_turns {
            return Ok(Course::Goes(range.start));
        }
        let range = range.start..range.end.min(range.start + self.size);
        match self.logging.begins(batch.needs_read_log()) {
            true => transaction.begin(),
            false => transaction.begin_unlogged(),
        }
        let ran = batch.run(range.clone(), transaction);
        let place = match transaction.commit() {
            Ok(place) => place,
            Err(cause) => {
                batch.given_up(cause, ran);
                batch.undo(range.start..range.start + ran);
                return Err((ran, cause));
            }
        };
        batch.committed(transaction);
        self.logging.went_well();
        self.wrote |= transaction.writes().len() > 0;
        self.counts.commits += 1;
        self.counts.items += ran as u64;
        self.calm += 1;
        if self.calm == CALM {
            (self.calm, self.size) = (0, (2 * self.size).min(MOST_ITEMS));
        }
        batch.release(range.start..range.start + ran, place);
        Ok(Course::after(ran, range))
    }

    /// Now and then has memory settle again that nobody changes any more.
    #[inline(always)]
    fn settle_again(&mut self) {
        let done = self.counts.commits + self.counts.turns;
        let is_time = done.is_multiple_of(SETTLING) && self.number() == 0;
        if is_time && self.transaction.domain().has_quiet() {
            self.alone(|transaction| transaction.domain().settle_again());
        }
    }

    /// Runs the first of the items with nobody beside it, and those after it that are seen to need that: others
    /// wait once for all of them. Next is the first itself, if that `is_foreseen` and needs it no more, since
    /// another who was alone has done what it was for.
    fn run_alone(
        &mut self,
        batch: &mut impl Batch,
        items: Range<usize>,
        is_foreseen: bool,
    ) -> Course {
        let transaction = &*self.transaction;
        let gate = &transaction.domain().gate;
        let closed = match is_foreseen {
            true => gate.close_if(|| batch.needs_alone(items.start)),
            false => Some(gate.close()),
        };
        let mut next = items.start;
        let Some(_alone) = closed else { return Course::Goes(next) };
        transaction.begin_alone();
        self.wrote = true;
        let mut is_foreseen = is_foreseen;
        loop {
            if batch.run_alone(next..next + 1, transaction) == 0 {
                return Course::Ends(next);
            }
            batch.release(next..next + 1, transaction.place());
            if is_foreseen {
                self.counts.alone += 1;
                batch.ran_alone(next);
            }
            next += 1;
            is_foreseen = next < items.end && batch.needs_alone(next);
            if !is_foreseen {
                return Course::Goes(next);
            }
        }
    }

    /// Does something with nobody beside it.
    pub fn alone<R>(&mut self, act: impl FnOnce(&Transaction) -> R) -> R {
        let transaction = &*self.transaction;
        let _alone = transaction.domain().gate.close();
        transaction.begin_alone();
        act(transaction)
    }
}

/// Has the time of this worker's batch counted from now on: true.
#[cold]
#[inline(never)]
fn count(transaction: &Transaction) -> bool {
    transaction.domain().turns.begin(transaction.worker(), Instant::now());
    true
}

/// Runs items with nobody beside them, while workers take turns, and returns how many, and their place. Items are
/// let go of later: who waits for the turn need not wait for that.
fn take_turn(
    batch: &mut impl Batch,
    range: Range<usize>,
    transaction: &Transaction,
) -> (usize, Place) {
    let _floor = transaction.domain().turns.floor.take(transaction.worker());
    transaction.begin_alone();
    (batch.run_alone(range, transaction), transaction.place())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of which some need to be alone and one ends the batch, and what became of them.
    #[cfg(not(any(loom, shuttle)))]
    #[derive(Default)]
    struct Items {
        alone: Range<usize>,
        end: Option<usize>,
        tried: Vec<usize>,
        released: Vec<(usize, Option<Place>)>,
    }

    #[cfg(not(any(loom, shuttle)))]
    impl Batch for Items {
        fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
            let range = range.start..self.end.map_or(range.end, |end| range.end.min(end));
            self.tried.push(range.start);
            let last = range.clone().find(|item| self.alone.contains(item));
            last.iter().for_each(|_| transaction.require_alone());
            last.map_or(range.len(), |last| last + 1 - range.start)
        }
        fn run_alone(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
            assert!(transaction.is_alone());
            self.end.map_or(range.end, |end| range.end.min(end)) - range.start
        }
        fn needs_alone(&self, item: usize) -> bool {
            self.alone.contains(&item)
        }
        fn undo(&mut self, _: Range<usize>) {}
        fn release(&mut self, range: Range<usize>, place: Place) {
            self.released
                .extend(range.map(|item| (item, self.alone.contains(&item).then_some(place))));
        }
    }

    #[test]
    #[cfg(not(any(loom, shuttle)))] // there is but one thread
    fn items_that_need_to_be_alone_are_so_in_one_go() {
        let domain = Arc::new(crate::Domain::new(2, true));
        for alone in [0..0, 0..1, 3..9, 20..32, 0..32] {
            let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
            let mut batch = Items { alone: alone.clone(), ..Items::default() };
            worker.handle(&mut batch, MOST_ITEMS);
            let (items, places): (Vec<_>, Vec<_>) = batch.released.into_iter().unzip();
            assert_eq!(items, (0..MOST_ITEMS).collect::<Vec<_>>(), "each once, in order");
            let places: Vec<Place> = places.into_iter().flatten().collect();
            assert_eq!(places.len(), alone.len());
            assert!(places.iter().all(|place| *place == places[0]), "others waited once");
            let Counts { alone: counted, items, .. } = worker.counts();
            assert_eq!((counted as usize, items as usize), (alone.len(), MOST_ITEMS - alone.len()));
        }
    }

    #[test]
    #[cfg(not(any(loom, shuttle)))] // there is but one thread
    fn a_batch_ends_before_an_item_that_is_none_of_it() {
        for takes_turns in [false, true] {
            let domain = Arc::new(crate::Domain::new(2, true).with_turns(Some(takes_turns)));
            for (end, alone) in (0..MOST_ITEMS).flat_map(|end| [(end, 0..0), (end, 3..9)]) {
                let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
                let mut batch = Items { alone, end: Some(end), ..Items::default() };
                assert_eq!(worker.handle(&mut batch, MOST_ITEMS), end);
                let items: Vec<_> = batch.released.iter().map(|(item, _)| *item).collect();
                assert_eq!(items, (0..end).collect::<Vec<_>>(), "each once, in order");
                let Counts { alone, items, turn_items, .. } = worker.counts();
                assert_eq!((alone + items + turn_items) as usize, end);
            }
        }
    }

    #[test]
    #[cfg(not(any(loom, shuttle)))] // there is but one thread
    fn what_needs_to_be_alone_is_so_in_the_first_batch_after_turns() {
        let domain = Arc::new(crate::Domain::new(2, true).with_turns(Some(false)));
        let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
        worker.way[1] = worker.way[1].next(true, false);
        let mut batch = Items { alone: 0..1, ..Items::default() };
        assert_eq!(worker.handle(&mut batch, MOST_ITEMS), MOST_ITEMS);
        assert_eq!(batch.tried, [1], "it was not tried beside others");
        let Counts { alone, items, .. } = worker.counts();
        assert_eq!((alone, items as usize), (1, MOST_ITEMS - 1));
    }

    #[test]
    fn a_log_is_kept_for_longer_each_time_that_going_without_was_in_vain() {
        let mut logging = Logging::new(false);
        for expected in [1, 2, 4, 8] {
            assert!(!logging.begins(false));
            logging.was_in_vain();
            let mut kept = 0;
            while logging.begins(false) {
                logging.went_well();
                kept += 1;
            }
            assert_eq!(kept, expected);
        }
        for _ in 0..EASE {
            // What had one in any case says nothing of those without.
            assert!(logging.begins(true));
            logging.went_well();
        }
        assert!(!logging.begins(false));
        logging.was_in_vain();
        assert!((0..16).all(|_| {
            let has = logging.begins(false);
            logging.went_well();
            has
        }));
        for _ in 0..EASE {
            assert!(!logging.begins(false));
            logging.went_well();
        }
        assert!(!logging.begins(false));
        logging.was_in_vain();
        assert!(logging.begins(false));
        logging.went_well();
        assert!(!logging.begins(false), "it went well for long enough");
        assert!(Logging::new(true).begins(false));
    }
}
