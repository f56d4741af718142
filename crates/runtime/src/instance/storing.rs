//! State that a store keeps: put in at the start, told behind the packets' back from then on.

use std::sync::Arc;

use anabranch_nf::packet_set::{SetKey4, SetKey6};
use anabranch_nf::state::journal::{self, Journaled as _, Layout, Moment, Sink, Steps};
use anabranch_nf::state::timers::TIMERS;
use anabranch_nf::state::{MOST_SHARDS, ShardSet};
use anabranch_nf::{Environment, NetworkFunction, to_ns};
use anabranch_store::{Bytes, Change, Content, Error, Feed, Key, Kind, MapNumber, Place, Scope};

use super::{BATCH, Instance, OwnSets};

use crate::agenda::Agenda;
use crate::schedule::{Schedule, Turn};

/// Names of the tables of packet sets; no field is named so.
pub(crate) const V4: &str = "sets.v4";
pub(crate) const V6: &str = "sets.v6";
/// What the names of the two parts of a layout begin with: names of numbers, and types, which the first releases did
/// not note.
pub(crate) const LAYOUT: &str = ".layout.";
pub(crate) const TYPES: &str = ".types.";

/// In whose scopes an instance writes.
#[derive(Clone, Debug)]
pub enum Owner {
    /// All state is here, in one scope.
    Whole(Scope),
    /// It is one worker of several, or of one that others may follow: each shard has a scope, wherever
    /// it is worked for; counts are in the worker's.
    Worker {
        /// Name of the network function.
        nf: String,
        /// Name of its instance in the store.
        instance: String,
        /// The worker's number. The first one writes what all have alike.
        number: u16,
    },
}

impl Owner {
    /// The scope of `shard`'s entries, or of those that all have alike; `None`: another worker tells
    /// them.
    fn scope(&self, shard: Option<u16>) -> Option<Scope> {
        match (self, shard) {
            (Self::Whole(scope), _) => Some(scope.clone()),
            (Self::Worker { nf, instance, .. }, Some(shard)) => {
                Scope::new(nf, instance, Place::Shard(shard)).ok()
            }
            (Self::Worker { number: 0, .. }, None) => self.own(),
            (Self::Worker { .. }, None) => None,
        }
    }

    /// The scope of what is neither a shard's nor the same on all workers.
    fn own(&self) -> Option<Scope> {
        match self {
            Self::Whole(scope) => Some(scope.clone()),
            Self::Worker { nf, instance, number } => {
                Scope::new(nf, instance, Place::Core(*number)).ok()
            }
        }
    }
}

/// A stored count, as an object reads it.
pub(crate) fn counted(count: i64) -> Vec<u8> {
    journal::stored(&count.cast_unsigned())
}

/// How many changes are told in one turn: few, so that packets do not wait long, and so many that what is
/// left becomes less from turn to turn, whatever changes meanwhile.
#[derive(Debug)]
struct Pace {
    changes: usize,
    /// So many were left after the last turn.
    left: usize,
}

/// Changes that are told in one turn at least.
const FEW: usize = 1_024;

impl Default for Pace {
    fn default() -> Self {
        Self { changes: FEW, left: 0 }
    }
}

impl Pace {
    fn changes(&self) -> usize {
        self.changes
    }

    /// After a turn that has `left` so many, or would have told `room` more.
    fn adapt(&mut self, left: usize, room: usize) {
        let done = self.left.saturating_sub(left);
        if left == 0 && room > self.changes * 3 / 4 {
            self.changes = (self.changes / 2).max(FEW);
        } else if left > 0 && self.left > 0 && done < self.changes / 2 {
            self.changes = self.changes.saturating_mul(2);
        }
        self.left = left;
    }
}

/// How many of the entries that were only refreshed are told in one turn, and in which turns: so many that a
/// round through them takes as long as it should, or fewer where the flusher does not keep up with those; and
/// where a message keeps the store for long, so seldom that it is idle for as long in between. It has
/// room for what is new then, and packets have the machine that it may share.
#[derive(Debug)]
struct RefreshPace {
    /// A round takes so many times as many turns.
    slower: usize,
    /// Turns since the flusher was behind.
    in_time: u32,
    /// Turns left out since then.
    left_out: u32,
}

/// A round takes at most so many times as many turns.
const SLOWEST: usize = 64;
/// After so many turns in time a round is told in half as many.
const STEADY: u32 = 64;
/// From turn to turn that is left out the next comes later, up to so many times.
const LATEST: u32 = 20;
/// So many turns are left out one after the other at most: whatever becomes of the flusher, some are told.
const PATIENT: u32 = 24;

impl RefreshPace {
    fn new() -> Self {
        Self { slower: 1, in_time: 0, left_out: 0 }
    }

    /// How many turns later more of them are told, where there is one every `turn_ns` nanoseconds, and a message
    /// takes the store `message_ns`.
    fn later(turn_ns: u64, message_ns: u64) -> u32 {
        let turns = message_ns.saturating_mul(2).div_ceil(turn_ns.max(1));
        turns.clamp(1, u64::from(LATEST)) as u32
    }

    /// In how many turns, of which this is one, all of them are told where it should be `turns`; or in this turn
    /// none, and how many turns later they are to be asked for again.
    fn turns(&mut self, turns: usize, is_behind: bool) -> Result<usize, u32> {
        if is_behind && self.left_out < PATIENT {
            if self.left_out == 0 {
                self.slower = (self.slower * 2).min(SLOWEST);
            }
            self.left_out += 1;
            self.in_time = 0;
            return Err(self.left_out.min(LATEST));
        }
        self.left_out = 0;
        self.in_time += 1;
        if self.in_time.is_multiple_of(STEADY) {
            self.slower = (self.slower / 2).max(1);
        }
        Ok(turns.saturating_mul(self.slower))
    }
}

/// After so many full batches the clock is looked at: some tens of microseconds later.
const LOOKS_EVERY: u32 = 16;

/// What becomes of what an instance changes.
pub struct Storing {
    feed: Feed,
    owner: Owner,
    /// The maps of each object, by shard; the last one is for what is in none.
    maps: Vec<(&'static str, Vec<Option<MapNumber>>)>,
    /// Which object of these is told just now.
    object: usize,
    /// The step of what is told just now.
    step: u32,
    pace: Pace,
    refresh_pace: RefreshPace,
    /// Full batches since the clock was looked at.
    full_batches: u32,
    pub(crate) schedule: Arc<Schedule>,
}

impl Storing {
    /// Tells `feed` what `owner` changes, every `period_ns` nanoseconds; deadlines that were only
    /// moved, every `refresh_ns`.
    pub fn new(feed: Feed, owner: Owner, period_ns: u64, refresh_ns: u64) -> Self {
        let steps = Steps::refusing(feed.refusal());
        let schedule = Arc::new(Schedule::new(period_ns, refresh_ns, steps));
        let (pace, refresh_pace) = (Pace::default(), RefreshPace::new());
        Self {
            feed,
            owner,
            maps: Vec::new(),
            object: 0,
            step: 0,
            pace,
            refresh_pace,
            full_batches: 0,
            schedule,
        }
    }

    /// The map of an object's part; an NF's fields are always names that keys can have. `None`: it is
    /// not told from here.
    fn map(&mut self, object: &'static str, shard: Option<u16>) -> Option<MapNumber> {
        if self.maps.get(self.object).is_none_or(|(name, _)| *name != object) {
            self.object =
                self.maps.iter().position(|(name, _)| *name == object).unwrap_or_else(|| {
                    self.maps.push((object, vec![None; MOST_SHARDS + 1]));
                    self.maps.len() - 1
                });
        }
        let (_, parts) = self.maps.get_mut(self.object)?;
        let map = parts.get_mut(shard.map_or(MOST_SHARDS, usize::from))?;
        if map.is_none() {
            let key = self.owner.scope(shard)?.key(Kind::Map, object).ok()?;
            *map = Some(self.feed.map(&key));
        }
        *map
    }

    /// Says what the entries of each object are made of, before any is told.
    pub(crate) fn begin(&mut self, layouts: Vec<(&'static str, Layout)>) {
        for (object, Layout { names, types }) in layouts {
            self.describe(&format!("{LAYOUT}{object}"), names);
            self.describe(&format!("{TYPES}{object}"), types);
        }
        self.feed.hand_over_surely();
    }

    /// What is told from now on may speak of times until `now_ns`, by the clock of the function.
    pub(crate) fn note_clock(&self, now_ns: u64) {
        self.feed.note_clock(self.schedule.clock_ns(now_ns));
    }

    /// Tells what `drain` gives, between two batches; later, while the flusher is behind: objects remember
    /// what they have to tell in less room than the line to it takes. What takes long is told in several
    /// turns, and handed over with what has changed meanwhile once nothing is left: what is stored was there
    /// together.
    pub(crate) fn tell(
        &mut self,
        mut turn: Turn,
        moment: Moment,
        drain: impl FnOnce(&Moment, &mut dyn Sink),
    ) {
        if !turn.must && !self.feed.has_room() {
            self.feed.note_untold(true);
            return self.schedule.put_off(turn);
        }
        if !turn.must {
            self.pace_refreshes(&mut turn, &moment);
        }
        let moment = moment.of_refreshes(turn.refreshes);
        let moment = if turn.must { moment } else { moment.of_changes(self.pace.changes()) };
        self.at(None);
        self.feed.hold();
        drain(&moment, self);
        if moment.left() == 0 {
            self.feed.release();
            self.feed.hand_over();
        }
        self.feed.note_untold(moment.left() > 0);
        if !turn.must {
            self.pace.adapt(moment.left(), moment.room());
            // Also the time until nobody was beside: others waited for it too.
            self.feed.note_pause(self.schedule.since_ns(turn));
        }
        let round = self.schedule.told(turn, self.feed.is_empty(), &moment);
        round.iter().for_each(|ns| self.feed.note_round(*ns));
    }

    /// Has as many refreshes be told as the flusher keeps up with, where they have a longer period than changes.
    fn pace_refreshes(&mut self, turn: &mut Turn, moment: &Moment) {
        let Some(round) = turn.refreshes.as_mut().filter(|round| round.turns > 1) else { return };
        round.every = round.every.max(self.schedule.since_round(moment));
        match self.refresh_pace.turns(round.turns, self.feed.is_behind()) {
            Ok(turns) => {
                let later = RefreshPace::later(self.schedule.soon_ns(), self.feed.message_ns());
                (round.turns, turn.later) = (turns, later);
            }
            Err(later) => (turn.refreshes, turn.later) = (None, later),
        }
    }

    /// Tells what `drain` gives of shards that are about to leave for another worker, and hands it over with what
    /// was told of them before: whatever this worker has done to them is in the line before what the other will
    /// do, and complete, wherever the turns of the others are.
    fn tell_of(
        &mut self,
        shards: &ShardSet,
        moment: Moment,
        drain: impl FnOnce(&Moment, &mut dyn Sink),
    ) {
        let turn = self.schedule.whole();
        self.at(None);
        drain(&moment.of_shards(shards), self);
        let of_object = |maps: &Vec<Option<MapNumber>>| -> Vec<MapNumber> {
            shards.iter().filter_map(|shard| *maps.get(usize::from(shard))?).collect()
        };
        let theirs: Vec<_> = self.maps.iter().flat_map(|(_, maps)| of_object(maps)).collect();
        self.feed.hand_over_of(&theirs);
        // What was due before the packet at which they leave may have changed the others.
        self.schedule.owe();
        self.feed.note_pause(self.schedule.since_ns(turn));
    }

    /// Says something about all of the state, in the scope of what all have alike.
    pub fn describe(&mut self, id: &str, text: String) {
        let text: Bytes = text.into_bytes();
        let scope = self.owner.scope(None);
        if let Some(key) = scope.and_then(|scope| scope.key(Kind::Value, id).ok()) {
            self.feed.change(Change::put(&key, Content::Value(text)));
        }
    }
}

impl Sink for Storing {
    fn put(&mut self, object: &'static str, shard: Option<u16>, key: &[u8], value: &[u8]) {
        if let Some(map) = self.map(object, shard) {
            self.feed.entry(map, self.step, key, Some(value));
        }
    }

    fn remove(&mut self, object: &'static str, shard: Option<u16>, key: &[u8]) {
        if let Some(map) = self.map(object, shard) {
            self.feed.entry(map, self.step, key, None);
        }
    }

    fn at(&mut self, step: Option<u32>) {
        self.step = step.unwrap_or_else(|| self.schedule.steps().now());
    }

    fn count(&mut self, object: &'static str, count: u64) {
        // Past 2^63 it is stored as the negative number of the same bits.
        let count = Content::Counter(count as i64);
        let counter = self.owner.own().and_then(|own| own.key(Kind::Counter, object).ok());
        if let Some(counter) = counter {
            let step = self.schedule.steps().now();
            self.feed.change(Change::put(&counter, count).in_step(step));
        }
    }
}

/// What was put in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Entries put in.
    pub entries: u64,
    /// Entries that did not fit or could not be read.
    pub refused: u64,
}

impl Restored {
    /// And these.
    pub(crate) fn add(&mut self, more: Self) {
        self.entries += more.entries;
        self.refused += more.refused;
    }
}

/// Sets the timers that a store has kept.
pub(crate) fn restore_timers(environment: &mut Environment, state: &[(Key, Content)]) -> Restored {
    let mut restored = Restored::default();
    for (key, content) in state.iter().filter(|(key, _)| key.id() == TIMERS) {
        let Content::Map(timers) = content else { continue };
        let shard = match key.place() {
            Place::Shard(shard) => Some(shard),
            Place::Core(_) | Place::Instance => None,
        };
        for (key, value) in timers {
            let is_set = environment.restore_timers(key, value, shard);
            restored.entries += u64::from(is_set);
            restored.refused += u64::from(!is_set);
        }
    }
    restored
}

/// State that a store can keep: the objects and packet sets of one worker, or of all.
pub(crate) trait Kept {
    /// What the entries of each object are made of.
    fn layouts(&self) -> Vec<(&'static str, Layout)>;
    /// Puts in an entry of an object, as it was told, of the scope of `place`; false when it does not fit or
    /// cannot be read.
    fn put(&mut self, place: Place, object: &str, entry: (&[u8], &[u8]), moment: &Moment) -> bool;

    /// Puts in what a store has.
    ///
    /// # Errors
    /// [`Error::OtherLayout`]: the entries of an object are made of something else than here.
    fn put_all(&mut self, state: &[(Key, Content)], moment: &Moment) -> Result<Restored, Error> {
        check_layouts(&self.layouts(), state)?;
        let mut restored = Restored::default();
        for (key, content) in state.iter().filter(|(key, _)| key.id() != TIMERS) {
            let (place, object) = (key.place(), key.id());
            let mut put = |key: &[u8], value: &[u8]| {
                let fits = self.put(place, &object, (key, value), moment);
                restored.entries += u64::from(fits);
                restored.refused += u64::from(!fits);
            };
            match content {
                Content::Map(entries) => entries.iter().for_each(|(key, value)| put(key, value)),
                Content::Counter(count) => put(&[], &counted(*count)),
                _ => {}
            }
        }
        Ok(restored)
    }
}

fn check_layouts(
    layouts: &[(&'static str, Layout)],
    state: &[(Key, Content)],
) -> Result<(), Error> {
    for (key, content) in state {
        let (id, Content::Value(stored)) = (key.id(), content) else { continue };
        let here = |object: &str| layouts.iter().find(|(name, _)| *name == object);
        let noted = match (id.strip_prefix(LAYOUT), id.strip_prefix(TYPES)) {
            (Some(object), _) => here(object).map(|(_, layout)| &layout.names),
            (_, Some(object)) => here(object).map(|(_, layout)| &layout.types),
            _ => None,
        };
        if let Some(noted) = noted.filter(|noted| noted.as_bytes() != &stored[..]) {
            let (stored, here) = (String::from_utf8_lossy(stored).into_owned(), noted.clone());
            return Err(Error::OtherLayout { key: key.clone(), stored, here });
        }
    }
    Ok(())
}

/// What the entries of each object and of the packet sets of `nf` are made of.
pub(crate) fn layouts<N: NetworkFunction>(nf: &N) -> Vec<(&'static str, Layout)> {
    let mut layouts = nf.layouts();
    if N::SET.is_some() {
        layouts.extend([
            (V4, journal::layout::<SetKey4, (u64, u32, N::Set)>()),
            (V6, journal::layout::<SetKey6, (u64, u32, N::Set)>()),
        ]);
    }
    layouts
}

/// Now, as entries are told: ticks are counted from the origin of `environment`.
pub(crate) fn moment(environment: &Environment) -> Moment {
    Moment::new(environment.origin() / to_ns(1)).at(environment.tick())
}

impl<N: NetworkFunction> Kept for Instance<N> {
    fn layouts(&self) -> Vec<(&'static str, Layout)> {
        layouts(&self.nf)
    }

    fn put(&mut self, place: Place, object: &str, entry: (&[u8], &[u8]), moment: &Moment) -> bool {
        match place {
            Place::Shard(shard) => self.agenda.environment.enter_shard(shard.into()),
            Place::Core(_) | Place::Instance => self.agenda.environment.enter_every_shard(),
        }
        let (key, value) = entry;
        match object {
            V4 => self.sets.v4.restore(key, value, moment),
            V6 => self.sets.v6.restore(key, value, moment),
            object => self.nf.restore(object, key, value, moment),
        }
    }
}

impl<N: NetworkFunction> Instance<N> {
    /// Puts in what a store has kept, after [`start`](Self::start). What is in a shard's scope belongs
    /// to that shard from then on; counts are this worker's own, those under
    /// [`COUNTED_BY_OTHERS`](anabranch_nf::state::journal::COUNTED_BY_OTHERS) apart.
    ///
    /// # Errors
    /// [`Error::OtherLayout`]: the entries of an object are made of something else than here: another
    /// version of the function has written them.
    pub fn restore(&mut self, state: &[(Key, Content)]) -> Result<Restored, Error> {
        let moment = moment(&self.agenda.environment);
        let mut restored = self.put_all(state, &moment)?;
        restored.add(restore_timers(&mut self.agenda.environment, state));
        self.agenda.environment.leave();
        // Something of it may have to be collected.
        self.agenda.collect_soon();
        Ok(restored)
    }

    /// From now on tells `storing` what changes.
    pub fn keep(&mut self, mut storing: Storing) {
        storing.begin(self.layouts());
        let steps = storing.schedule.steps();
        self.agenda.keep(steps);
        self.nf.keep(steps);
        if N::SET.is_some() {
            self.sets.v4.keep(steps);
            self.sets.v6.keep(steps);
        }
        self.storing = Some(Box::new(storing));
    }

    /// From now on nobody is told what changes.
    pub(crate) fn stop_telling(&mut self) {
        self.storing = None;
    }

    /// When what has changed is told, where a store keeps the state.
    pub(crate) fn telling(&self) -> Option<&Arc<Schedule>> {
        self.storing.as_deref().map(|storing| &storing.schedule)
    }

    /// So many packets have been handled, in one step: what has changed is told, if it is time. After full batches
    /// the clock is looked at now and then only: the next one comes so soon that nothing is late for it, and
    /// whoever has nothing more to handle looks too.
    #[inline(never)]
    pub(super) fn tell_after(&mut self, packets: usize) {
        let Some(storing) = &mut self.storing else { return };
        storing.schedule.owe_alone();
        let is_full = packets == BATCH;
        storing.full_batches = if is_full { (storing.full_batches + 1) % LOOKS_EVERY } else { 0 };
        if storing.full_batches == 0 {
            self.tell_in_time();
        }
    }

    /// Something was due, or there is nothing more to handle: what has changed is told, if it is time.
    #[inline(never)]
    pub(super) fn tell(&mut self) {
        self.telling().iter().for_each(|schedule| schedule.owe());
        self.tell_in_time();
    }

    /// Tells what was not told yet, if it is time.
    pub(crate) fn tell_in_time(&mut self) {
        if let Some(turn) = self.telling().and_then(|schedule| schedule.turn()) {
            self.tell_now(turn);
        }
    }

    /// How long, in nanoseconds, nothing is to be told without a packet.
    pub(super) fn nothing_to_tell_ns(&self) -> u64 {
        self.telling().map_or(u64::MAX, |schedule| schedule.left_ns())
    }

    /// Tells what has changed of `shards`, before they leave for another worker.
    pub(super) fn tell_before_moving(&mut self, shards: &ShardSet) {
        let Some(mut storing) = self.storing.take() else { return };
        let Self { nf, sets, agenda: Agenda { environment, .. }, .. } = self;
        storing.note_clock(environment.now());
        storing.tell_of(shards, moment(environment), |moment, sink| {
            drain(nf, sets, moment, sink);
            environment.drain_timers(moment, sink);
        });
        self.storing = Some(storing);
    }

    /// Tells everything.
    pub(super) fn tell_whole(&mut self) {
        if let Some(turn) = self.telling().map(|schedule| schedule.whole()) {
            self.tell_now(turn);
        }
    }

    /// Tells everything that has changed; refreshes too, where it is their turn.
    pub(crate) fn tell_now(&mut self, turn: Turn) {
        let Some(mut storing) = self.storing.take() else { return };
        let Self { nf, sets, agenda: Agenda { environment, .. }, .. } = self;
        storing.note_clock(environment.now());
        storing.tell(turn, moment(environment), |moment, sink| {
            drain(nf, sets, moment, sink);
            environment.drain_timers(moment, sink);
        });
        self.storing = Some(storing);
    }
}

/// What has changed of a function's objects and packet sets.
fn drain<N: NetworkFunction>(
    nf: &mut N,
    sets: &mut OwnSets<N::Set>,
    moment: &Moment,
    sink: &mut dyn Sink,
) {
    nf.drain(moment, sink);
    if N::SET.is_some() {
        sets.v4.drain(V4, moment, sink);
        sets.v6.drain(V6, moment, sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns until nothing is left where there are so many changes and `more` with each turn, and how many the
    /// largest of them tells.
    fn turns(pace: &mut Pace, changes: usize, more: usize) -> (usize, usize) {
        let (mut left, mut most) = (changes, 0);
        for turn in 1.. {
            let told = left.min(pace.changes());
            (left, most) = (left - told, most.max(told));
            pace.adapt(left, pace.changes() - told);
            if left == 0 {
                return (turn, most);
            }
            left += more;
        }
        unreachable!()
    }

    #[test]
    fn turns_are_as_short_as_gets_to_the_end() {
        let mut pace = Pace::default();
        assert_eq!(turns(&mut pace, 100_000, 0), (98, FEW), "what waits is told in small turns");
        assert_eq!(turns(&mut pace, 100_000, 100).1, FEW);
        for more in [600, 2_000, 30_000] {
            let (turns, most) = turns(&mut pace, 100_000, more);
            assert!(turns < 100 && most <= 4 * more.max(FEW), "{more}: {turns} {most}");
        }
        for _ in 0..10 {
            turns(&mut pace, 10, 0);
        }
        assert_eq!(pace.changes(), FEW);
    }

    #[test]
    fn a_store_is_idle_for_as_long_as_a_message_of_refreshes_takes() {
        let later = |message_us: u64| RefreshPace::later(1_000_000, message_us * 1_000);
        assert_eq!([0, 200, 500].map(later), [1; 3], "each turn, where it is for half of the time");
        assert_eq!([501, 1_500, 2_000].map(later), [2, 3, 4]);
        assert_eq!(later(u64::MAX / 1_000), LATEST, "however long one took");
    }

    #[test]
    fn refreshes_are_told_as_fast_as_they_are_stored() {
        // What a turn has told of 100,000, in 100 turns or more, is stored at so many a turn.
        for stored in [50, 400, 900, 5_000] {
            let (mut pace, mut waiting, mut most, mut told) = (RefreshPace::new(), 0, 0, 0);
            let mut next = 0;
            for turn in 0..10_000 {
                let turns =
                    if turn < next { Err(0) } else { pace.turns(100, waiting > 3 * stored) };
                next = next.max(turn + turns.err().unwrap_or(0));
                let share = turns.map_or(0, |turns| 100_000 / turns);
                waiting = (waiting + share).saturating_sub(stored);
                (told, most) = (told + share, if turn > 100 { most.max(waiting) } else { most });
            }
            let all = 10_000 * stored.min(1_000);
            assert!(told <= all + 5_000 && told > all * 6 / 10, "{stored}: {told}");
            assert!(most <= 5 * stored, "{stored}: {most}");
        }
    }
}
