//! Where a worker tells what it has changed, and learns how the flusher goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdrhistogram::Histogram;

use super::{Handed, Shared, lock};
use crate::behind::Change;
use crate::key::Key;
use crate::sheet::{MapNumber, Sheet};

/// From as many changes on that the flusher has not taken in, there is no room for more.
pub(super) const FULL: usize = 1 << 16;

/// Periods, and round trips to the store, for which something may wait before the flusher is behind.
const PERIODS: u64 = 2;
const ROUND_TRIPS: u64 = 3;

/// Since when something has not been told: since no time.
pub(super) const NEVER: u64 = u64::MAX;

/// From as many changes on a sheet is full.
const SHEET: usize = 1_024;

/// Where one worker tells what it changed.
pub struct Feed {
    number: usize,
    /// Maps that have numbers.
    maps: u32,
    /// Not in the line yet.
    sheets: Vec<Sheet>,
    /// From this one on they are handed over together.
    held: Option<usize>,
    /// Since when something has changed that was not told, nanoseconds, or [`NEVER`].
    untold_since: Arc<AtomicU64>,
    round_ns: Arc<AtomicU64>,
    /// How long packets have waited, nanoseconds: what is not added to those of all feeds yet.
    pauses: Vec<u64>,
    shared: Arc<Shared>,
}

impl Feed {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let number = shared.feeds.fetch_add(1, Ordering::Relaxed);
        let untold_since = Arc::new(AtomicU64::new(NEVER));
        lock(&shared.untold_since).push(Arc::clone(&untold_since));
        let round_ns = Arc::new(AtomicU64::new(0));
        lock(&shared.rounds_ns).push(Arc::clone(&round_ns));
        let (sheets, pauses, shared) = (Vec::new(), Vec::new(), Arc::clone(shared));
        Self { number, maps: 0, sheets, held: None, untold_since, round_ns, pauses, shared }
    }

    /// Something has changed. Goes to the store some time after the next
    /// [`hand_over`](Self::hand_over).
    pub fn change(&mut self, change: Change) {
        self.sheet().other(change);
    }

    /// What is told from now on may speak of times until `clock_ns`, nanoseconds since the Unix epoch, by the
    /// clock of the function.
    pub fn note_clock(&self, clock_ns: u64) {
        self.shared.clock_ns.fetch_max(clock_ns, Ordering::Relaxed);
    }

    /// A number for a map of which entries will be told.
    pub fn map(&mut self, key: &Key) -> MapNumber {
        self.sheet().name(key.clone());
        self.maps += 1;
        MapNumber(self.maps - 1)
    }

    /// As [`change`](Self::change), in `step`: the entry of a map under `key` holds `value` now, or is no
    /// more. Takes memory only as long as there are more changes at once than before.
    pub fn entry(&mut self, map: MapNumber, step: u32, key: &[u8], value: Option<&[u8]>) {
        self.sheet().entry(map, step, key, value);
    }

    /// The sheet that is being packed.
    fn sheet(&mut self) -> &mut Sheet {
        let is_held = self.held == Some(self.sheets.len());
        if is_held || self.sheets.last().is_none_or(|last| last.len() >= SHEET) {
            let spare = self.shared.spare.try_lock().ok().and_then(|mut spare| spare.pop());
            self.sheets.push(spare.unwrap_or_default());
        }
        let last = self.sheets.len() - 1;
        &mut self.sheets[last]
    }

    /// Hands over what has changed: called between two batches of packets. Never waits. While something is
    /// [held](Self::hold), nothing is handed over.
    pub fn hand_over(&mut self) {
        if self.is_empty() || self.held.is_some() {
            return;
        }
        if let Ok(mut line) = self.shared.line.try_lock() {
            let (feed, sheets) = (self.number, std::mem::take(&mut self.sheets));
            self.shared.put(&mut line, Handed { feed, sheets });
            drop(line);
            self.shared.wake();
        }
    }

    /// Whether there is room for more: false while the flusher is behind with what workers told it.
    /// More is taken nevertheless.
    pub fn has_room(&self) -> bool {
        self.shared.has_ended() || self.shared.in_line.load(Ordering::Relaxed) < FULL
    }

    /// Whether something has waited to be stored for more than two periods, or more than three times as long as
    /// the store takes for a message: what can be told later should be.
    pub fn is_behind(&self) -> bool {
        let Shared { stored_until_ns, round_trip_ns, period_ns, .. } = &*self.shared;
        let behind_ns =
            self.shared.now_ns().saturating_sub(stored_until_ns.load(Ordering::Relaxed));
        let [period_ns, round_trip_ns] = [*period_ns, round_trip_ns.load(Ordering::Relaxed)];
        let in_time_ns = (PERIODS * period_ns.max(100_000)).max(ROUND_TRIPS * round_trip_ns);
        behind_ns > in_time_ns && !self.shared.has_ended()
    }

    /// How long the store took for the last message that it answered, nanoseconds; 0: it has answered none.
    pub fn message_ns(&self) -> u64 {
        self.shared.last_trip_ns.load(Ordering::Relaxed)
    }

    /// It took so many nanoseconds to tell of all that was only refreshed.
    pub fn note_round(&self, ns: u64) {
        self.round_ns.store(ns, Ordering::Relaxed);
    }

    /// As [`hand_over`](Self::hand_over), but waits for its turn, some instructions of whoever is
    /// handing over just then: before another worker goes on with what was changed here.
    pub fn hand_over_surely(&mut self) {
        if !self.is_empty() {
            let sheets = std::mem::take(&mut self.sheets);
            self.put_surely(sheets);
            self.held = self.held.map(|_| 0);
        }
    }

    fn put_surely(&self, sheets: Vec<Sheet>) {
        self.shared.put(&mut lock(&self.shared.line), Handed { feed: self.number, sheets });
        self.shared.wake();
    }

    /// As [`hand_over_surely`](Self::hand_over_surely), while something is [held](Self::hold): of what is, only
    /// what was told of these maps, of which another worker tells from now on.
    pub fn hand_over_of(&mut self, maps: &[MapNumber]) {
        let Some(held) = self.held else { return self.hand_over_surely() };
        let mut leave = vec![false; self.maps as usize];
        maps.iter().for_each(|map| leave[map.0 as usize] = true);
        let (mut theirs, mut stay) = (Sheet::default(), self.sheets.split_off(held));
        for sheet in &mut stay {
            sheet.part(|map| leave[map.0 as usize], &mut theirs);
        }
        self.sheets.push(theirs);
        let sheets = std::mem::replace(&mut self.sheets, stay);
        self.put_surely(sheets);
        self.held = Some(0);
    }

    /// What is told from now on is handed over together, after the [`release`](Self::release): dropped
    /// before, the feed forgets it.
    pub fn hold(&mut self) {
        self.held.get_or_insert(self.sheets.len());
    }

    /// What was held may be handed over.
    pub fn release(&mut self) {
        self.held = None;
    }

    /// Whether there is something that has changed and is not told yet: it is as old then as what waits here.
    pub fn note_untold(&self, is_some: bool) {
        let since = match (is_some, self.untold_since.load(Ordering::Relaxed)) {
            (true, NEVER) => self.shared.now_ns(),
            (true, since) => since,
            (false, _) => NEVER,
        };
        self.untold_since.store(since, Ordering::Relaxed);
    }

    /// Packets have waited so many nanoseconds while it was told what has changed.
    pub fn note_pause(&mut self, ns: u64) {
        self.pauses.push(ns);
        // Packets do not wait for whoever looks at pauses: then this one is added with the next.
        if let Ok(mut all) = self.shared.pauses.try_lock() {
            add(&mut all, &mut self.pauses);
        }
    }

    /// Whether everything has been handed over.
    pub fn is_empty(&self) -> bool {
        self.sheets.iter().all(Sheet::is_empty)
    }

    /// Whether new flows should be taken: false when the store is behind and
    /// [`Policy::RefuseNew`](crate::behind::Policy::RefuseNew) is configured.
    pub fn accepts_new(&self) -> bool {
        !self.shared.refuses_new.load(Ordering::Relaxed)
    }

    /// Set as long as no new flows should be taken: for state objects, to look at when an entry is to come
    /// into being.
    pub fn refusal(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.refuses_new)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.note_untold(false);
        add(&mut lock(&self.shared.pauses), &mut self.pauses);
        let held = self.held.take().and_then(|from| self.sheets.get_mut(from..));
        held.into_iter().flatten().for_each(Sheet::forget);
        self.hand_over_surely();
    }
}

/// Adds times to those of all feeds.
fn add(all: &mut Option<Histogram<u64>>, times: &mut Vec<u64>) {
    times.drain(..).for_each(|ns| all.iter_mut().for_each(|all| all.saturating_record(ns)));
}
