//! State that a store keeps: put in at the start, told behind the packets' back from then on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::journal::{Journaled as _, Moment, Sink};
use anabranch_store::{Bytes, Change, Content, Entry, Error, Feed, Key, Kind, Scope};

use super::Instance;

/// Names of the tables of packet sets; no field is named so.
const V4: &str = "sets.v4";
const V6: &str = "sets.v6";
/// What the name of a layout begins with.
const LAYOUT: &str = ".layout.";

/// What becomes of what an instance changes.
pub struct Storing {
    feed: Feed,
    scope: Scope,
    keys: BTreeMap<&'static str, Key>,
    period: Duration,
    refresh: Duration,
    /// When changes are told next, and when refreshes.
    next: Instant,
    next_refresh: Instant,
}

impl Storing {
    /// Tells `feed` what changes in `scope`, every `period_ns` nanoseconds; deadlines that were only
    /// moved, every `refresh_ns`.
    pub fn new(feed: Feed, scope: Scope, period_ns: u64, refresh_ns: u64) -> Self {
        let (period, refresh) = (Duration::from_nanos(period_ns), Duration::from_nanos(refresh_ns));
        let (keys, next) = (BTreeMap::new(), Instant::now());
        Self { feed, scope, keys, period, refresh, next, next_refresh: next + refresh }
    }

    /// The key of an object; an NF's fields are always names that keys can have.
    fn key(&mut self, object: &'static str, kind: Kind) -> Option<&Key> {
        if !self.keys.contains_key(object) {
            self.keys.insert(object, self.scope.key(kind, object).ok()?);
        }
        self.keys.get(object)
    }

    fn change(&mut self, object: &'static str, kind: Kind, change: impl FnOnce(&Key) -> Change) {
        if let Some(key) = self.key(object, kind) {
            let change = change(key);
            self.feed.change(change);
        }
    }
}

impl Sink for Storing {
    fn put(&mut self, object: &'static str, key: Vec<u8>, value: Vec<u8>) {
        self.change(object, Kind::Map, |map| Change::insert(map, Entry::Pair(key, value)));
    }

    fn remove(&mut self, object: &'static str, key: Vec<u8>) {
        self.change(object, Kind::Map, |map| Change::erase(map, key));
    }

    fn count(&mut self, object: &'static str, count: u64) {
        // Past 2^63 it is stored as the negative number of the same bits.
        let count = Content::Counter(count as i64);
        self.change(object, Kind::Counter, |counter| Change::put(counter, count));
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

impl<N: NetworkFunction> Instance<N> {
    /// Puts in what a store has kept, after [`start`](Self::start).
    ///
    /// # Errors
    /// [`Error::Foreign`]: the entries of an object are made of other fields than here: another
    /// version of the function has written them.
    pub fn restore(&mut self, state: &[(Key, Content)]) -> Result<Restored, Error> {
        self.check_layouts(state)?;
        let moment = self.moment(false);
        let mut restored = Restored::default();
        for (key, content) in state {
            let object = key.id();
            let mut put = |key: &[u8], value: &[u8]| {
                let fits = match object.as_str() {
                    V4 => self.sets.v4.restore(key, value, &moment),
                    V6 => self.sets.v6.restore(key, value, &moment),
                    object => self.nf.restore(object, key, value, &moment),
                };
                restored.entries += u64::from(fits);
                restored.refused += u64::from(!fits);
            };
            match content {
                Content::Map(entries) => entries.iter().for_each(|(key, value)| put(key, value)),
                Content::Counter(count) => put(&[], &count.to_be_bytes()),
                _ => {}
            }
        }
        // Something of it may have to be collected.
        self.agenda.collect_soon();
        Ok(restored)
    }

    fn layouts(&self) -> Vec<(&'static str, String)> {
        let mut layouts = self.nf.layouts();
        if N::SET.is_some() {
            layouts.extend([(V4, self.sets.v4.layout()), (V6, self.sets.v6.layout())]);
        }
        layouts
    }

    fn check_layouts(&self, state: &[(Key, Content)]) -> Result<(), Error> {
        let layouts: BTreeMap<_, _> = self.layouts().into_iter().collect();
        for (key, content) in state {
            let (id, Content::Value(stored)) = (key.id(), content) else { continue };
            let Some(object) = id.strip_prefix(LAYOUT) else { continue };
            match layouts.get(object) {
                Some(layout) if layout.as_bytes() != &stored[..] => {
                    let stored = String::from_utf8_lossy(stored);
                    let why = format!("it was written as `{stored}` and is `{layout}` now");
                    return Err(Error::Foreign { key: key.clone(), why });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// From now on tells `storing` what changes.
    pub fn keep(&mut self, mut storing: Storing) {
        for (object, layout) in self.layouts() {
            let layout: Bytes = layout.into_bytes();
            if let Ok(key) = storing.scope.key(Kind::Value, &format!("{LAYOUT}{object}")) {
                storing.feed.change(Change::put(&key, Content::Value(layout)));
            }
        }
        self.nf.keep();
        if N::SET.is_some() {
            self.sets.v4.keep();
            self.sets.v6.keep();
        }
        self.storing = Some(Box::new(storing));
    }

    fn moment(&self, refreshes: bool) -> Moment {
        let origin = self.agenda.environment.origin() / anabranch_nf::to_ns(1);
        Moment { origin, refreshes }
    }

    /// Tells what has changed, if it is time.
    #[inline(never)]
    pub(super) fn tell(&mut self) {
        let now = Instant::now();
        let due = |storing: &Storing| (now >= storing.next, now >= storing.next_refresh);
        if let Some((true, refreshes)) = self.storing.as_deref().map(due) {
            self.tell_now(now, refreshes);
        }
    }

    /// Tells everything that has changed; refreshes too, where asked for.
    pub(super) fn tell_now(&mut self, now: Instant, refreshes: bool) {
        let Some(mut storing) = self.storing.take() else { return };
        let moment = self.moment(refreshes);
        self.nf.drain(&moment, &mut *storing);
        if N::SET.is_some() {
            self.sets.v4.drain(V4, &moment, &mut *storing);
            self.sets.v6.drain(V6, &moment, &mut *storing);
        }
        storing.feed.hand_over();
        storing.next = now + storing.period;
        if refreshes {
            storing.next_refresh = now + storing.refresh;
        }
        self.storing = Some(storing);
    }
}
