//! Write-behind: what to send to a store and when, so that nobody waits for it and it ends with the
//! right values whatever happens to it. No threads, no clock, no store in here: a test drives it
//! through any fault by seed; [`Flusher`](crate::Flusher) drives it for real.
//!
//! ```text
//!  change ─▶ copy of all state ─▶ which entries are dirty, since when ─▶ batch ─▶ store
//!                 ▲                        ▲                               │
//!                 │                        └── not answered: dirty as before┤
//!                 └── the store lost it: what it has is read and compared ──┘
//! ```
//!
//! **Lanes.** Each [scope](crate::Scope) has its own mark in the store: the writer's epoch and the
//! number of the last batch. A batch takes effect only on top of the mark of the one before it.
//! A mark of an earlier batch, or none, or an entry that was stored and is not [there](Batch::present), of which some
//! are looked at once a second: the store lost something. Then a new mark is written, it is read what is there, and
//! what lacks or is another is written, and what is too much removed: nothing goes meanwhile that is as it should be. A
//! later epoch: another instance writes now, and this one stops. Beside them stands how far the
//! [clock](WriteBehind::note_clock) had come of who wrote, so that the next one's does not begin earlier.
//!
//! **What is sent first** is what was written first. What was written in one [step](Change::in_step), as
//! by the packets of one batch, goes in one message, so that a writer that is killed leaves a flow in all
//! objects or in none; an entry that is written again while it waits goes where it was, with its new value.
//!
//! **Invariant: what a batch holds are values, not differences.** Sent twice, or sent again after
//! something newer, it does no harm.
//!
//! **Invariant: what waits is bounded by the state**, and by what the store was found to have besides. Entries that
//! changed are remembered one by one; past a limit even that is forgotten, and all of the lane is compared with what the
//! store has instead.

mod backlog;
mod lane;
mod mark;
mod mirror;

use std::collections::{BTreeMap, HashMap, VecDeque};

use hdrhistogram::Histogram;

use crate::call::{Call, Operation, check_entry};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Batch, Outcome};
use crate::error::Error;
use crate::key::{Key, Place, Scope};
use crate::sheet::{Sheet, Told, What};
use backlog::Since;
use lane::Lane;
pub use mark::Mark;

/// What to do when the store is slow or gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Go on; lag grows and is shown.
    #[default]
    KeepOn,
    /// Say that no new flows should be taken, until the store has caught up.
    RefuseNew,
}

/// How a store is written behind. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// From one flush to the next.
    pub period_ns: u64,
    /// The same for deadlines that were only moved, coarser: of who tells of them.
    pub refresh_ns: u64,
    /// After how long without a change it is looked whether the store still has the last batch, and how often whether
    /// what was stored is there; up to 64 times as seldom where something lacks each time.
    pub check_ns: u64,
    /// Changes in one message to the store at most, about: it ends where a step does. Half as many after each that is
    /// not answered, an eighth more after each that is.
    pub message_changes: usize,
    /// Changes of one lane that may wait, one by one; where there is more, twice as many as there are entries.
    pub most_waiting: usize,
    /// What to do when the store is slow or gone.
    pub policy: Policy,
    /// Lag from which on it counts as slow, for [`Policy::RefuseNew`].
    pub slow_ns: u64,
}

impl Default for Settings {
    /// Flush every 1 ms, refreshes every second, 4096 changes a message, slow after a second.
    fn default() -> Self {
        Self {
            period_ns: 1_000_000,
            refresh_ns: 1_000_000_000,
            check_ns: 1_000_000_000,
            message_changes: 4096,
            most_waiting: 1 << 20,
            policy: Policy::KeepOn,
            slow_ns: 1_000_000_000,
        }
    }
}

/// A change of one object or entry, as it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    call: Call,
    step: u32,
}

impl Change {
    /// The object holds this.
    pub fn put(key: &Key, content: Content) -> Self {
        Self::of(key, Operation::Put(content))
    }

    /// The object is no more.
    pub fn delete(key: &Key) -> Self {
        Self::of(key, Operation::Delete)
    }

    /// The set, map or counter map has this entry.
    pub fn insert(key: &Key, entry: Entry) -> Self {
        Self::of(key, Operation::Insert(entry))
    }

    /// The set, map or counter map has no such entry.
    pub fn erase(key: &Key, entry: Bytes) -> Self {
        Self::of(key, Operation::Erase(entry))
    }

    fn of(key: &Key, operation: Operation) -> Self {
        Self { call: Call::new(key, operation), step: 0 }
    }

    /// The same, made in this step of all that are handed over together. Numbers of steps start again
    /// from 0 after 2^32.
    #[must_use]
    pub fn in_step(mut self, step: u32) -> Self {
        self.step = step;
        self
    }

    /// The call that it is, and its step.
    pub(crate) fn into_parts(self) -> (Call, u32) {
        (self.call, self.step)
    }

    /// The call that it is.
    pub fn call(&self) -> &Call {
        &self.call
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until then, nanoseconds.
    Wait(u64),
    /// Have the store commit these, then call [`WriteBehind::committed`].
    Commit(Vec<Batch>),
    /// [List](crate::view::listing) this scope, so many entries at once, then call [`WriteBehind::listed`].
    List(Scope, u32),
}

/// How it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Status {
    /// Changes that wait, with those under way.
    pub waiting: u64,
    /// Age of the oldest of them, nanoseconds.
    pub lag_ns: u64,
    /// Changes stored.
    pub stored: u64,
    /// Messages answered.
    pub messages: u64,
    /// Messages not answered.
    pub failures: u64,
    /// How often a lane was written again because the store had lost it.
    pub rebuilds: u64,
    /// Half of the changes were stored within as many nanoseconds.
    pub lag_p50_ns: u64,
    /// 99 in a hundred were.
    pub lag_p99_ns: u64,
    /// All were.
    pub lag_max_ns: u64,
    /// The same three of the last whole second.
    pub recent_lag_ns: [u64; 3],
    /// Whether new flows should be taken.
    pub accepts_new: bool,
    /// For how long they were not, nanoseconds.
    pub refused_ns: u64,
    /// Why the store did not take the last message; none if it did.
    pub trouble: Option<String>,
    /// Why it could not be looked, the last time, whether the store still has what it was given; none if it could.
    pub unseen: Option<String>,
    /// Nothing is stored any more, whatever becomes of the store.
    pub ended: bool,
    /// Of the times that packets waited while it was told what has changed, half took no longer.
    pub pause_p50_ns: u64,
    /// 99 in a hundred did not.
    pub pause_p99_ns: u64,
    /// None did.
    pub pause_max_ns: u64,
    /// How long it took to tell of all that was only refreshed, the last time.
    pub refresh_round_ns: u64,
}

/// What a scope has in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its objects, without its mark; `None`: what is there is not of the type that the key says.
    pub found: BTreeMap<Key, Option<Content>>,
    /// What the mark held after that.
    pub mark: Option<Bytes>,
}

/// A scope that a writer has claimed: nobody of an earlier epoch writes there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The scope.
    pub scope: Scope,
    /// The mark that the claim has set.
    pub mark: Mark,
    /// What is there.
    pub content: BTreeMap<Key, Content>,
}

/// The state of a writer.
pub struct WriteBehind {
    settings: Settings,
    epoch: u64,
    /// How far the clock has come of who tells what has changed, or had of those before.
    clock_ns: u64,
    lanes: Vec<Lane>,
    /// Which lane is whose.
    numbers: HashMap<Scope, usize>,
    /// The lanes with an answer to come, in the order of their batches.
    asked: Vec<usize>,
    listing: Option<usize>,
    /// Not before that is a lane listed, and how often in a row none could be.
    list_ns: u64,
    unlisted: u32,
    /// Changes in one message, about: as many as a slow way to the store lets through within its timeout.
    room: usize,
    /// Lanes that wait for a message, the one that waits longest first.
    turns: VecDeque<usize>,
    /// Steps so far, of all who hand over.
    steps: u64,
    flush_ns: u64,
    /// When the last message was sent.
    asked_ns: u64,
    /// Not before that is a store asked again that has not answered, however often in a row.
    retry_ns: u64,
    unanswered: u32,
    lags: Lags,
    trouble: Option<Error>,
    fenced: bool,
    counts: Counts,
}

/// An object of a lane.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    lane: usize,
    object: u32,
}

/// Steps that are handed over together: one of them, how far the first is from it, and what it is counted
/// as.
struct Steps {
    some: u32,
    first: i64,
    before: u64,
}

#[derive(Default)]
struct Counts {
    stored: u64,
    messages: u64,
    failures: u64,
    rebuilds: u64,
}

/// How late changes were stored, in microseconds.
struct Lags {
    all: Option<Histogram<u64>>,
    /// Of the second that has begun then, nanoseconds.
    now: Option<Histogram<u64>>,
    began_ns: u64,
    /// Of the one before.
    recent_ns: [u64; 3],
    has_ended: bool,
}

/// Longest pause until a store is asked again that has not answered, nanoseconds.
const RETRY_NS: u64 = 100_000_000;

/// So that it ends where a step does, a message may get so many times longer than it was meant to be.
const STEP: usize = 16;

/// How long to wait after as many refusals in a row.
fn pause_ns(period_ns: u64, refusals: u32) -> u64 {
    period_ns.saturating_mul(1 << refusals.min(20)).min(RETRY_NS)
}

/// What counts as recent, nanoseconds.
const RECENT_NS: u64 = 1_000_000_000;

impl Lags {
    fn new() -> Self {
        // Up to an hour, to two digits: these bounds are within what it can do.
        let histogram = || Histogram::new_with_bounds(1, 3_600_000_000, 2).ok();
        let (all, now) = (histogram(), histogram());
        Self { all, now, began_ns: 0, recent_ns: [0; 3], has_ended: false }
    }

    fn roll(&mut self, now_ns: u64) {
        if !self.has_ended && now_ns.saturating_sub(self.began_ns) >= RECENT_NS {
            self.recent_ns = quantiles_ns(&self.now);
            self.now.iter_mut().for_each(Histogram::reset);
            self.began_ns = now_ns;
        }
    }

    /// At `now_ns` is stored what has changed since these times.
    fn note(&mut self, since: Vec<u64>, now_ns: u64) {
        self.roll(now_ns);
        for since_ns in since {
            let lag_us = now_ns.saturating_sub(since_ns) / 1_000;
            let both = self.all.iter_mut().chain(&mut self.now);
            both.for_each(|lags| lags.saturating_record(lag_us));
        }
    }
}

/// The middle one, that of 99 in a hundred, and the longest.
fn quantiles_ns(lags: &Option<Histogram<u64>>) -> [u64; 3] {
    let of = |quantile| lags.as_ref().map_or(0, |lags| lags.value_at_quantile(quantile) * 1_000);
    [of(0.5), of(0.99), of(1.0)]
}

impl WriteBehind {
    /// A writer of epoch `epoch`, in a store where it has claimed `claimed`.
    pub fn new(
        settings: Settings,
        epoch: u64,
        claimed: impl IntoIterator<Item = Claimed>,
    ) -> Result<Self, Error> {
        let (mut lanes, mut numbers, mut clock_ns) = (Vec::new(), HashMap::new(), 0);
        for Claimed { scope, mark, content } in claimed {
            lanes.push(Lane::claimed((&scope, lanes.len()), mark, content)?);
            numbers.insert(scope, lanes.len() - 1);
            clock_ns = mark.clock_ns.max(clock_ns);
        }
        Ok(Self {
            settings,
            epoch,
            clock_ns,
            lanes,
            numbers,
            asked: Vec::new(),
            listing: None,
            list_ns: 0,
            unlisted: 0,
            room: settings.message_changes.max(1),
            turns: VecDeque::new(),
            steps: 0,
            flush_ns: 0,
            asked_ns: 0,
            retry_ns: 0,
            unanswered: 0,
            lags: Lags::new(),
            trouble: None,
            fenced: false,
            counts: Counts::default(),
        })
    }

    /// Something has changed, in a core's or shard's scope, in a step of its own. An error if the store
    /// could not take it ([`Call::check`]), or the scope is the instance's, where others write too.
    pub fn change(&mut self, change: Change, now_ns: u64) -> Result<(), Error> {
        self.changes(vec![change], now_ns)
    }

    /// The same of what is handed over together, each in its step, all after what was handed over before.
    /// What cannot be taken does not stop the rest; the first error is returned.
    pub fn changes(&mut self, changes: Vec<Change>, now_ns: u64) -> Result<(), Error> {
        let steps = self.begin(changes.iter().map(|change| change.step));
        let take = |change: Change| {
            let since = self.since(&steps, change.step, now_ns);
            self.take(change.call, since)
        };
        // All of them are taken.
        changes.into_iter().map(take).fold(Ok(()), Result::and)
    }

    /// As [`changes`](Self::changes), packed; `maps` are those that sheets have numbered so far.
    pub(crate) fn sheets(
        &mut self,
        sheets: &mut [Sheet],
        maps: &mut Vec<Result<Target, Error>>,
        now_ns: u64,
    ) -> Result<(), Error> {
        let steps = self.begin(sheets.iter().flat_map(Sheet::steps));
        let mut taken = Ok(());
        for sheet in sheets {
            for key in sheet.named() {
                maps.push(self.target(&key));
            }
            for Told { step, what } in sheet.told() {
                let since = self.since(&steps, step, now_ns);
                taken = taken.and(match what {
                    What::Entry { map, key, value } => match maps.get(map as usize) {
                        Some(Ok(target)) => self.take_entry(*target, key, value, since),
                        Some(Err(error)) => Err(error.clone()),
                        None => Ok(()),
                    },
                    What::Other(call) => self.take(call, since),
                });
            }
        }
        taken
    }

    /// What was handed over, and is from now on, may speak of times until `clock_ns`, nanoseconds since the Unix
    /// epoch. It goes to the store with what has changed, whose marks say so.
    pub fn note_clock(&mut self, clock_ns: u64) {
        self.clock_ns = self.clock_ns.max(clock_ns);
    }

    /// The latest time of which was told so, now or by those who had claimed the scopes before; 0: nobody has.
    pub fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// How the steps of what is handed over together are counted on.
    fn begin(&self, steps: impl Iterator<Item = u32> + Clone) -> Steps {
        let some = steps.clone().next().unwrap_or(0);
        let offset = |step: u32| i64::from(step.wrapping_sub(some).cast_signed());
        Steps { some, first: steps.map(offset).min().unwrap_or(0), before: self.steps + 1 }
    }

    fn since(&mut self, steps: &Steps, step: u32, now_ns: u64) -> Since {
        let offset = i64::from(step.wrapping_sub(steps.some).cast_signed());
        let step = steps.before + offset.abs_diff(steps.first);
        self.steps = self.steps.max(step);
        Since { ns: now_ns, step }
    }

    /// The lane of a key, a new one if need be.
    fn lane(&mut self, key: &Key) -> Result<usize, Error> {
        if let Some(lane) = self.numbers.get(key.scope_str()) {
            return Ok(*lane);
        }
        let scope = key.scope();
        if scope.place() == Place::Instance {
            let (text, why) = (scope.to_string(), "write a core's or a shard's scope behind");
            return Err(Error::BadKey { text, why });
        }
        self.lanes.push(Lane::new(&scope, self.lanes.len())?);
        self.numbers.insert(scope, self.lanes.len() - 1);
        Ok(self.lanes.len() - 1)
    }

    fn target(&mut self, key: &Key) -> Result<Target, Error> {
        if key.kind() != Kind::Map {
            return Err(Error::NotOfKind { operation: "insert", kind: key.kind() });
        }
        let lane = self.lane(key)?;
        Ok(Target { lane, object: self.lanes[lane].object(key) })
    }

    fn take(&mut self, call: Call, since: Since) -> Result<(), Error> {
        call.check()?;
        let lane = self.lane(&call.key)?;
        let lane = &mut self.lanes[lane];
        lane.change(call, since);
        lane.bound(self.settings.most_waiting, since.ns);
        Ok(())
    }

    fn take_entry(
        &mut self,
        target: Target,
        key: &[u8],
        value: Option<&[u8]>,
        since: Since,
    ) -> Result<(), Error> {
        check_entry(key, value.unwrap_or_default())?;
        let lane = &mut self.lanes[target.lane];
        lane.change_entry(target.object, key, value, since);
        lane.bound(self.settings.most_waiting, since.ns);
        Ok(())
    }

    /// What is to be done at `now_ns`. Until it is done there is nothing else: [`Action::Wait`].
    pub fn next(&mut self, now_ns: u64) -> Action {
        if self.fenced || !self.asked.is_empty() || self.listing.is_some() {
            return Action::Wait(now_ns + self.settings.period_ns);
        }
        let due_ns = self.flush_ns.max(self.retry_ns);
        if now_ns < due_ns {
            return Action::Wait(due_ns);
        }
        if let Some(number) = self.to_list(now_ns) {
            (self.listing, self.asked_ns) = (Some(number), now_ns);
            let (scope, page) = self.lanes[number].begin_listing();
            return Action::List(scope, page);
        }
        self.line_up(now_ns);
        let batches = self.batches(now_ns);
        if batches.is_empty() {
            // What changes next goes at once.
            return Action::Wait(now_ns + self.settings.period_ns);
        }
        self.asked_ns = now_ns;
        Action::Commit(batches)
    }

    /// A lane that is to be listed, each in its turn where some cannot be.
    fn to_list(&self, now_ns: u64) -> Option<usize> {
        let wants = |(number, lane): (usize, &Lane)| Some((lane.wants_listing()?, number));
        let next = self.lanes.iter().enumerate().filter_map(wants).min();
        next.filter(|_| now_ns >= self.list_ns).map(|(_, number)| number)
    }

    /// Every lane with something to send waits for its turn.
    fn line_up(&mut self, now_ns: u64) {
        let check_ns = self.settings.check_ns;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if !lane.in_line && lane.wants(now_ns, check_ns) {
                lane.in_line = true;
                self.turns.push_back(number);
            }
        }
    }

    fn batches(&mut self, now_ns: u64) -> Vec<Batch> {
        let mut room = self.room;
        // A very long step goes in parts where all of it does not get through.
        let most = (self.room * STEP).min(self.settings.message_changes.max(1));
        let writer = Mark { epoch: self.epoch, batch: 0, clock_ns: self.clock_ns };
        let mut batches = Vec::new();
        while room > 0
            && let Some(number) = self.turns.pop_front()
        {
            let lane = &mut self.lanes[number];
            lane.in_line = false;
            let batch = lane.batch(writer, (room, most), now_ns, self.settings.check_ns);
            room = room.saturating_sub((batch.calls.len() + batch.present.len()).max(1));
            batches.push(batch);
            self.asked.push(number);
        }
        batches
    }

    /// What the store says to the batches of the last [`Action::Commit`].
    pub fn committed(&mut self, outcomes: Result<Vec<Outcome>, Error>, now_ns: u64) {
        let asked = std::mem::take(&mut self.asked);
        // One message a period, and a store that is slow is idle for as long as it was at work, a period at most.
        let (period_ns, took_ns) = (self.settings.period_ns, now_ns.saturating_sub(self.asked_ns));
        self.flush_ns = (self.asked_ns + period_ns).max(now_ns + took_ns.min(period_ns));
        let outcomes = match outcomes {
            Ok(outcomes) if outcomes.len() == asked.len() => outcomes,
            Ok(_) => {
                let error = Error::unavailable("driver", "answers are missing");
                return self.failed(asked, error, now_ns);
            }
            Err(error) => return self.failed(asked, error, now_ns),
        };
        let most = self.settings.message_changes.max(1);
        // What was not sent because it might be too much goes at once, too.
        let is_short = self.room < most;
        self.room = (self.room + self.room / 8 + 1).min(most);
        self.unanswered = 0;
        self.counts.messages += 1;
        for (number, outcome) in asked.into_iter().zip(outcomes) {
            let lane = &mut self.lanes[number];
            match lane.answered(outcome, &self.settings, now_ns) {
                lane::Answered::Stored(since) => {
                    self.counts.stored += since.len() as u64;
                    self.lags.note(since, now_ns);
                }
                lane::Answered::Ours | lane::Answered::Unseen => {}
                lane::Answered::Refused(error) => self.trouble = Some(error),
                lane::Answered::Lost => self.counts.rebuilds += 1,
                lane::Answered::Fenced => {
                    self.fenced = true;
                    self.trouble = Some(Error::Fenced(lane.scope().to_string()));
                }
            }
        }
        self.note_well();
        // What did not fit goes at once.
        if !self.turns.is_empty() || is_short {
            self.flush_ns = now_ns;
        }
    }

    /// The store has answered: what was in the way is not any more, unless it refuses a scope still.
    fn note_well(&mut self) {
        if !self.fenced && !self.lanes.iter().any(Lane::is_refused) {
            self.trouble = None;
        }
    }

    fn failed(&mut self, asked: Vec<usize>, error: Error, now_ns: u64) {
        asked.into_iter().for_each(|number| self.lanes[number].failed());
        self.room = (self.room / 2).max(1);
        self.retry_later(error, now_ns);
    }

    /// A message is made anew each time: one that refuses at once is asked less and less often.
    fn retry_later(&mut self, error: Error, now_ns: u64) {
        self.counts.failures += 1;
        let pause_ns = pause_ns(self.settings.period_ns, self.unanswered);
        self.retry_ns = now_ns.saturating_add(pause_ns);
        self.unanswered += 1;
        self.trouble = Some(error);
    }

    /// What there is of the scope of the last [`Action::List`].
    pub fn listed(&mut self, listing: Result<Listing, Error>, now_ns: u64) {
        let Some(number) = self.listing.take() else { return };
        let lane = &mut self.lanes[number];
        let rebuilt = listing.and_then(|listing| lane.rebuild(listing, now_ns));
        let Err(error) = rebuilt else {
            self.unlisted = 0;
            self.note_well();
            return;
        };
        // What can be sent goes meanwhile: for twice as long as that took, longer each time.
        lane.listing_failed();
        let took_ns = now_ns.saturating_sub(self.asked_ns);
        let pause_ns = pause_ns(self.settings.period_ns, self.unlisted);
        self.list_ns = now_ns.saturating_add(pause_ns.max(took_ns.saturating_mul(2)));
        self.unlisted += 1;
        self.counts.failures += 1;
        self.trouble = Some(error);
    }

    /// How it goes at `now_ns`.
    pub fn status(&self, now_ns: u64) -> Status {
        self.status_with(now_ns, None)
    }

    /// The same where something has waited since `untold` that was not told here yet.
    pub(crate) fn status_with(&self, now_ns: u64, untold: Option<u64>) -> Status {
        let oldest = self.lanes.iter().filter_map(Lane::oldest).chain(untold).min();
        let lag_ns = oldest.map_or(0, |since| now_ns.saturating_sub(since));
        let slow = lag_ns > self.settings.slow_ns || self.fenced;
        let [lag_p50_ns, lag_p99_ns, lag_max_ns] = quantiles_ns(&self.lags.all);
        Status {
            waiting: self.waiting(),
            lag_ns,
            stored: self.counts.stored,
            messages: self.counts.messages,
            failures: self.counts.failures,
            rebuilds: self.counts.rebuilds,
            lag_p50_ns,
            lag_p99_ns,
            lag_max_ns,
            recent_lag_ns: self.lags.recent_ns,
            accepts_new: !(slow && self.settings.policy == Policy::RefuseNew),
            trouble: self.trouble.as_ref().map(ToString::to_string),
            unseen: self.lanes.iter().find_map(Lane::unseen).map(ToString::to_string),
            ..Status::default()
        }
    }

    /// Changes that wait, with those under way.
    pub fn waiting(&self) -> u64 {
        self.lanes.iter().map(Lane::waiting).sum()
    }

    /// Whether all that waits has been sent.
    pub(crate) fn is_all_under_way(&self) -> bool {
        self.lanes.iter().all(Lane::is_all_under_way)
    }

    /// What is recent begins anew, if it is time.
    pub(crate) fn roll(&mut self, now_ns: u64) {
        self.lags.roll(now_ns);
    }

    /// It is to be looked once more whether the store has everything that it was given.
    pub(crate) fn doubt(&mut self) {
        self.lanes.iter_mut().for_each(Lane::doubt);
        self.hurry();
    }

    /// Whether that has been seen.
    pub(crate) fn is_certain(&self) -> bool {
        !self.lanes.iter().any(Lane::is_in_doubt)
    }

    /// Nothing changes any more: what is recent stays what it was until now.
    pub(crate) fn end(&mut self) {
        self.lags.has_ended = true;
    }

    /// Whether another instance has taken over; nothing is written any more.
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Whether the store has everything, as far as is known.
    pub fn is_settled(&self) -> bool {
        self.asked.is_empty() && self.listing.is_none() && self.waiting() == 0
    }

    /// Everything that waits goes now.
    pub fn hurry(&mut self) {
        self.flush_ns = 0;
    }

    /// All state, as it is here.
    pub fn copy(&self) -> impl Iterator<Item = (Key, Content)> + '_ {
        self.lanes.iter().flat_map(Lane::copy)
    }
}
