//! State whose entries an earlier release of a function has made of something else: read as it was then, and written
//! as it is now, before the first packet.
//!
//! ```text
//! .new.X of every scope ═▶ .upgraded.X with .layout.X, .types.X ═▶ X of every scope ═▶ no .upgraded.X ═▶ no .new.X
//! ```
//!
//! What stands before a `═▶` is in the store before what stands behind it is written, and either may take any number
//! of messages; those three go in one: a release that knows nothing of `.upgraded.X` refuses the state from there on,
//! and does not write what would be lost when this one goes on. **Invariant**: who is killed leaves the state of then
//! whole, and where `.upgraded.X` says of what its entries are made, that of now, under `.new.X`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anabranch_nf::shape::Shape;
use anabranch_nf::state::journal::Layout;
use anabranch_store::{Change, Content, Error, Feed, Flusher, Key, Kind, Place, Scope};

use crate::instance::{LAYOUT, TYPES};

/// What the names of these begin with.
pub(crate) const NEW: &str = ".new.";
const UPGRADED: &str = ".upgraded.";
/// Longest that each of them is waited for while nothing of it is stored.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is said how far they are.
const OFTEN: Duration = Duration::from_secs(2);

type State = BTreeMap<Key, Content>;

/// Who is told what there is to say.
pub(crate) struct Saying<'s> {
    /// While it lasts.
    pub(crate) say: fn(&str),
    /// At the end of the run, too.
    pub(crate) at_end: &'s mut Vec<String>,
}

impl Saying<'_> {
    fn say(&mut self, what: String) {
        (self.say)(&format!("store: {what}"));
        self.at_end.push(what);
    }
}

/// The same state, of entries as `layouts` has them, which the store has too then; what there is to say of it, `said`
/// is told.
///
/// # Errors
/// [`Error::OtherLayout`] for entries that cannot be read so, [`Error::Unavailable`] where the store does not take them.
pub(crate) fn upgraded(
    flusher: &Flusher,
    (nf, instance): (&str, &str),
    layouts: &[(&'static str, Layout)],
    state: Vec<(Key, Content)>,
    said: &mut Saying<'_>,
) -> Result<Vec<(Key, Content)>, Error> {
    let common = Scope::new(nf, instance, Place::Core(0))?;
    let state: State = state.into_iter().collect();
    let mut upgrade = Upgrade { flusher, feed: flusher.feed(), common, state, said };
    let begun = |key: &Key| key.id().strip_prefix(UPGRADED).map(str::to_owned);
    let begun: Vec<String> = upgrade.state.keys().filter_map(begun).collect();
    for object in begun {
        if !upgrade.is_noted(&object)? {
            continue;
        }
        upgrade.said.say(format!(
            "stored entries of `{object}` were being read as another release of this function has them: that is done"
        ));
        upgrade.finish(&object)?;
    }
    // All or none: where one cannot be read, the release that wrote them can read them all.
    for (object, layout) in layouts {
        upgrade.others(object, layout)?;
    }
    for (object, layout) in layouts {
        if upgrade.convert(object, layout)? {
            upgrade.finish(object)?;
        }
    }
    upgrade.forget_unfinished();
    Ok(upgrade.state.into_iter().collect())
}

/// How entries of an object are to be read, where they are of another release: `text` has what says of what they are
/// made.
///
/// # Errors
/// [`Error::OtherLayout`].
pub(crate) fn others(
    common: &Scope,
    object: &str,
    layout: &Layout,
    text: impl FnOnce(&Key) -> Option<String>,
) -> Result<Option<How>, Error> {
    let key = common.key(Kind::Value, &format!("{TYPES}{object}"))?;
    let Some(stored) = text(&key).filter(|stored| *stored != layout.types) else { return Ok(None) };
    let here = layout.types.clone();
    match readable(&stored, &here) {
        Some(how) => Ok(Some(how)),
        None => Err(Error::OtherLayout { key, stored, here }),
    }
}

struct Upgrade<'f, 's> {
    flusher: &'f Flusher,
    said: &'f mut Saying<'s>,
    feed: Feed,
    /// Where it stands of what entries are made.
    common: Scope,
    state: State,
}

impl Upgrade<'_, '_> {
    /// How entries of an object are to be read, where they are of another release.
    fn others(&self, object: &str, layout: &Layout) -> Result<Option<How>, Error> {
        others(&self.common, object, layout, |key| match self.state.get(key) {
            Some(Content::Value(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        })
    }

    /// Writes what is new of an object beside what is there, and that it is all there; whether something is.
    fn convert(&mut self, object: &str, layout: &Layout) -> Result<bool, Error> {
        let Some((from, to, changes)) = self.others(object, layout)? else { return Ok(false) };
        let mut new = State::new();
        let (mut entries, mut lost) = (0, 0);
        for (key, content) in of(&self.state, object) {
            let Content::Map(old) = content else { continue };
            let each = old.iter().filter_map(|(name, value)| {
                from.converted(&to, value).map(|value| (name.clone(), value))
            });
            let converted: BTreeMap<_, _> = each.collect();
            entries += converted.len();
            lost += old.len() - converted.len();
            let beside = key.scope().key(Kind::Map, &format!("{NEW}{object}"))?;
            new.insert(beside, Content::Map(converted));
        }
        if new.is_empty() {
            // Nothing of it was stored: it is as it is here.
            let noted = self.noted(object, &layout.names, &layout.types)?;
            self.state.extend(noted);
            return Ok(false);
        }
        if lost > 0 {
            let key = self.common.key(Kind::Value, &format!("{TYPES}{object}"))?;
            let why = format!("{lost} entries of `{object}` are not made of what it says");
            return Err(Error::Foreign { key, why });
        }
        let changes = match changes.is_empty() {
            true => "numbers are wider, or there are more variants".to_owned(),
            false => changes.join(", "),
        };
        // One that was killed may have left others, of what is no more.
        for (beside, _) in of(&self.state, &format!("{NEW}{object}")) {
            new.entry(beside.clone()).or_insert_with(|| Content::Map(BTreeMap::new()));
        }
        self.said.say(format!(
            "{entries} stored entries of `{object}` are of another release of this function, and are read: {changes}"
        ));
        self.write(new)?;
        let flag = self.common.key(Kind::Value, &format!("{UPGRADED}{object}"))?;
        let both = format!("{}\n{}", layout.names, layout.types);
        let mut noted = self.noted(object, &layout.names, &layout.types)?;
        noted.insert(flag, Content::Value(both.into_bytes()));
        self.write(noted)?;
        Ok(true)
    }

    /// What says of what the entries of an object are made.
    fn noted(&self, object: &str, names: &str, types: &str) -> Result<State, Error> {
        let note = |(part, text): (&str, &str)| {
            let key = self.common.key(Kind::Value, &format!("{part}{object}"))?;
            Ok((key, Content::Value(text.as_bytes().to_vec())))
        };
        [(LAYOUT, names), (TYPES, types)].into_iter().map(note).collect()
    }

    /// Whether what is new of an object is to come in place of what was: it stands beside `.upgraded.X` that values are
    /// made as that says. Else a release that noted it later was killed before that: no entry was written yet, and others
    /// may have been since by one that knows nothing of it, so that it is begun anew.
    fn is_noted(&mut self, object: &str) -> Result<bool, Error> {
        let Some((flag, _, types)) = self.flag(object)? else { return Ok(false) };
        let key = self.common.key(Kind::Value, &format!("{TYPES}{object}"))?;
        let is_noted = self.state.get(&key) == Some(&Content::Value(types.into_bytes()));
        if !is_noted {
            self.erase(|key| *key == flag);
        }
        Ok(is_noted)
    }

    /// `.upgraded.X`, and the names and types that it says.
    fn flag(&self, object: &str) -> Result<Option<(Key, String, String)>, Error> {
        let flag = self.common.key(Kind::Value, &format!("{UPGRADED}{object}"))?;
        let Some(Content::Value(both)) = self.state.get(&flag) else { return Ok(None) };
        let both = String::from_utf8_lossy(both).into_owned();
        let Some((names, types)) = both.split_once('\n') else {
            let why = "it does not say of what entries are made".to_owned();
            return Err(Error::Foreign { key: flag, why });
        };
        Ok(Some((flag, names.to_owned(), types.to_owned())))
    }

    /// Puts what is new of an object, all of which is there, in place of what was.
    fn finish(&mut self, object: &str) -> Result<(), Error> {
        let Some((flag, names, types)) = self.flag(object)? else { return Ok(()) };
        // Where batches do not take effect as a whole, one of them may lack.
        let noted = self.noted(object, &names, &types)?;
        if noted.iter().any(|(key, text)| self.state.get(key) != Some(text)) {
            self.write(noted)?;
        }
        // Of what nothing could be read there is nothing.
        let nothing = |(key, _): (&Key, _)| (key.clone(), Content::Map(BTreeMap::new()));
        let mut written: State = of(&self.state, object).map(nothing).collect();
        let new = format!("{NEW}{object}");
        for (beside, content) in &mut self.state {
            if beside.kind() == Kind::Map && beside.id() == new {
                // The key stays, by which it is erased; what is there is needed once.
                let content = std::mem::replace(content, Content::Map(BTreeMap::new()));
                written.insert(beside.scope().key(Kind::Map, object)?, content);
            }
        }
        self.write(written)?;
        self.erase(|key| *key == flag);
        self.settle()
    }

    fn forget_unfinished(&mut self) {
        self.erase(|key| key.id().starts_with(NEW));
        self.feed.hand_over_surely();
    }

    fn erase(&mut self, is_meant: impl Fn(&Key) -> bool) {
        let Self { state, feed, .. } = self;
        state.retain(|key, _| {
            let stays = !is_meant(key);
            if !stays {
                feed.change(Change::delete(key));
            }
            stays
        });
    }

    /// Until the store has these, too.
    fn write(&mut self, written: State) -> Result<(), Error> {
        for (key, content) in written {
            self.feed.change(Change::put(&key, content.clone()));
            self.state.insert(key, content);
        }
        self.settle()
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.feed.hand_over_surely();
        // However much it is, as long as it becomes less.
        let (mut left, mut less) = (u64::MAX, Instant::now());
        let why = loop {
            let asked = Instant::now();
            let status = self.flusher.settle(OFTEN);
            let waiting = status.waiting;
            if waiting == 0 && status.trouble.is_none() {
                return Ok(());
            }
            if waiting < left && status.trouble.is_none() {
                (left, less) = (waiting, Instant::now());
            }
            // It comes back sooner where nothing is stored any more.
            let is_over = asked.elapsed() < OFTEN;
            if is_over || less.elapsed() >= PATIENCE {
                break status.trouble.unwrap_or_else(|| "it is too slow".to_owned());
            }
            (self.said.say)(&format!(
                "store: entries of another release are written anew, {waiting} changes are left"
            ));
        };
        let state =
            "the state of another release of the function is to be written as that of this one";
        Err(Error::unavailable(&self.common, format!("{state}, and is not: {why}")))
    }
}

/// What every scope has under this name.
fn of<'s>(state: &'s State, id: &str) -> impl Iterator<Item = (&'s Key, &'s Content)> {
    state.iter().filter(move |(key, _)| key.kind() == Kind::Map && key.id() == id)
}

/// What values of entries were made of and are, and what changes.
type How = (Shape, Shape, Vec<String>);

/// How entries can be read as they are here, where they can; keys are the same.
fn readable(stored: &str, here: &str) -> Option<How> {
    let (old_key, from) = stored.split_once(" -> ")?;
    let (new_key, to) = here.split_once(" -> ")?;
    let (from, to): (Shape, Shape) = (from.parse().ok()?, to.parse().ok()?);
    let changes = from.becomes(&to).ok().filter(|_| old_key == new_key)?;
    Some((from, to, changes))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use anabranch_nf::state::journal::{layout, stored};
    use anabranch_store::{
        Answer, Batch, Call, Driver, Durability, Memory, Operation, Outcome, Settings, view,
    };

    use super::*;

    /// What was said at once.
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// A store, and what it held after each message.
    struct Noted(Memory, Arc<Mutex<Vec<State>>>);

    impl Driver for Noted {
        fn name(&self) -> &str {
            "noted"
        }
        fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
            self.0.run(calls)
        }
        fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
            let outcomes = self.0.commit(batches)?;
            let now = view::state(&mut self.0, "nat", Some("a"))?;
            self.1.lock().unwrap().push(now);
            Ok(outcomes)
        }
        fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
            self.0.keys(prefix)
        }
    }

    /// A store that does not let it be looked what it has.
    struct Unseen(Memory);

    impl Driver for Unseen {
        fn name(&self) -> &str {
            "unseen"
        }
        fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
            self.0.run(calls)
        }
        fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
            let each = |batch: &Batch| match batch.present.is_empty() {
                true => Ok(self.0.commit(std::slice::from_ref(batch))?.remove(0)),
                false => Ok(Outcome::Refused(Error::unavailable("unseen", "no HGET"))),
            };
            batches.iter().map(each).collect()
        }
        fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
            self.0.keys(prefix)
        }
    }

    fn scopes() -> [Scope; 3] {
        [Place::Core(0), Place::Shard(3), Place::Shard(4)]
            .map(|place| Scope::new("nat", "a", place).unwrap())
    }

    fn flows<V: anabranch_nf::Value>(value: impl Fn(u32) -> V) -> State {
        let of = |scope: &Scope| {
            let flows = (0..10u32).map(|flow| (stored(&flow), stored(&value(flow))));
            (scope.key(Kind::Map, "flows").unwrap(), Content::Map(flows.collect()))
        };
        scopes().iter().map(of).collect()
    }

    /// What becomes of `state`, whose flows are as `Layout` says, and what the store holds after each message.
    fn upgrade(state: &State, layout: &Layout) -> (State, Vec<String>, Vec<State>) {
        let mut store = Memory::default();
        let put =
            |(key, content): (&Key, &Content)| Call::new(key, Operation::Put(content.clone()));
        let puts: Vec<Call> = state.iter().map(put).collect();
        store.run(&puts).unwrap().into_iter().for_each(|done| drop(done.unwrap()));
        let noted = Arc::default();
        let driver = Noted(store, Arc::clone(&noted));
        let settings = Settings { message_changes: 3, period_ns: 10_000, ..Settings::default() };
        let (flusher, state) = Flusher::open(driver, "nat", "a", settings).unwrap();
        let layouts = [("flows", layout.clone())];
        let mut said = Vec::new();
        let say = |line: &str| SAID.lock().unwrap().push(line.to_owned());
        let mut saying = Saying { say, at_end: &mut said };
        let state = upgraded(&flusher, ("nat", "a"), &layouts, state, &mut saying).unwrap();
        flusher.close(PATIENCE);
        let noted = noted.lock().unwrap().clone();
        (state.into_iter().collect(), said, noted)
    }

    /// `cargo test --release -p anabranch-runtime --lib -- --ignored --nocapture million`
    #[test]
    #[ignore = "takes long, and is to be looked at"]
    #[allow(clippy::print_stdout)]
    fn a_million_sessions_of_another_release_are_written_anew() {
        let [old, new] = [layout::<u32, (u64, u32, u8)>(), layout::<u32, (u64, u32, u16)>()];
        let folder = tempfile::tempdir().unwrap();
        let mut store = Memory::open(folder.path(), Durability::default()).unwrap();
        let scope = Scope::new("nat", "a", Place::Core(0)).unwrap();
        let flows = (0..1_000_000u32)
            .map(|flow| (stored(&flow), stored(&(u64::from(flow), flow, 7u8))))
            .collect();
        let put = |kind, id: &str, content| {
            Call::new(&scope.key(kind, id).unwrap(), Operation::Put(content))
        };
        let told = [(LAYOUT, &old.names), (TYPES, &old.types)].map(|(part, text)| {
            put(Kind::Value, &format!("{part}flows"), Content::Value(text.clone().into_bytes()))
        });
        store.run(&told).unwrap();
        store.run(&[put(Kind::Map, "flows", Content::Map(flows))]).unwrap();
        let began = Instant::now();
        let (flusher, state) = Flusher::open(store, "nat", "a", Settings::default()).unwrap();
        println!("read after {:?}", began.elapsed());
        let mut said = Vec::new();
        let mut saying = Saying { say: |line| println!("{line}"), at_end: &mut said };
        let layouts = [("flows", new)];
        let state = upgraded(&flusher, ("nat", "a"), &layouts, state, &mut saying).unwrap();
        println!("written anew after {:?}", began.elapsed());
        assert_eq!(state.iter().map(|(_, content)| content.len()).max(), Some(1_000_000));
        let status = flusher.close(PATIENCE);
        println!("settled after {:?}, {} changes", began.elapsed(), status.stored);
    }

    fn flows_of(state: &State) -> State {
        of(state, "flows").map(|(key, content)| (key.clone(), content.clone())).collect()
    }

    fn noted_as(state: &mut State, part: &str, text: &str) -> Key {
        let key = scopes()[0].key(Kind::Value, &format!("{part}flows")).unwrap();
        state.insert(key.clone(), Content::Value(text.as_bytes().to_vec()));
        key
    }

    #[test]
    fn whenever_it_is_killed_an_upgrade_is_not_by_halves() {
        let [old, new] = [layout::<u32, (u8, u16)>(), layout::<u32, (u32, u16, bool)>()];
        let mut before = flows(|flow| (flow as u8, 500 + flow as u16));
        let types = noted_as(&mut before, TYPES, &old.types);
        let names = noted_as(&mut before, LAYOUT, &old.names);
        let expected = flows(|flow| (flow, 500 + flow as u16, false));
        let (after, said, states) = upgrade(&before, &new);
        assert_eq!((flows_of(&after), said.len()), (expected.clone(), 1));
        let at_once = SAID.lock().unwrap().contains(&format!("store: {}", said[0]));
        assert!(at_once, "while it is waited for");
        assert!(states.len() > 12, "{}", states.len());
        for (number, state) in states.iter().enumerate() {
            let (after, _, later) = upgrade(state, &new);
            assert_eq!(flows_of(&after), expected, "killed after message {number}");
            let last = later.last().unwrap_or(state);
            assert_eq!(flows_of(last), expected, "in the store, killed after message {number}");
            assert!(!last.keys().any(|key| key.id().starts_with(NEW)), "{number}: {last:?}");
            let is_begun = state.keys().any(|key| key.id().starts_with(UPGRADED));
            let is_refused = state.get(&types) == Some(&Content::Value(new.types.clone().into()));
            assert!(!is_begun || is_refused, "another release would go on, {number}");
            let noted = Some(Content::Value(new.names.clone().into_bytes()));
            assert_eq!([last, &after].map(|state| state.get(&names)), [noted.as_ref(); 2]);
        }
    }

    /// An upgrade was killed while it wrote what is new, a release that knows nothing of that went on, and the flows
    /// of one scope ended.
    #[test]
    fn what_ended_since_an_upgrade_was_killed_does_not_come_back() {
        let [old, new] = [layout::<u32, (u8, u16)>(), layout::<u32, (u32, u16, bool)>()];
        let mut before = flows(|flow| (flow as u8, 500 + flow as u16));
        let mut expected = flows(|flow| (flow, 500 + flow as u16, false));
        let ended = scopes()[2].key(Kind::Map, "flows").unwrap();
        before.remove(&ended);
        let beside = scopes()[2].key(Kind::Map, ".new.flows").unwrap();
        before.insert(beside, expected.remove(&ended).unwrap());
        noted_as(&mut before, TYPES, &old.types);
        noted_as(&mut before, LAYOUT, &old.names);
        let (after, _, later) = upgrade(&before, &new);
        let there_is = |(_, content): &(Key, Content)| !content.is_empty();
        let after: State = flows_of(&after).into_iter().filter(there_is).collect();
        assert_eq!((&after, &flows_of(later.last().unwrap())), (&expected, &expected));
    }

    /// One said that all of it is there before it said of what entries are made, was killed in between, and a release
    /// that knows nothing of that went on.
    #[test]
    fn what_a_release_wrote_that_knows_of_no_upgrade_stays() {
        let [old, new] = [layout::<u32, (u8, u16)>(), layout::<u32, (u32, u16, bool)>()];
        let mut before = flows(|flow| (flow as u8, 700 + flow as u16));
        for (key, content) in flows(|flow| (flow, 500 + flow as u16, false)) {
            before.insert(key.scope().key(Kind::Map, ".new.flows").unwrap(), content);
        }
        noted_as(&mut before, TYPES, &old.types);
        noted_as(&mut before, LAYOUT, &old.names);
        noted_as(&mut before, UPGRADED, &format!("{}\n{}", new.names, new.types));
        let (after, _, later) = upgrade(&before, &new);
        let expected = flows(|flow| (flow, 700 + flow as u16, false));
        assert_eq!((&flows_of(&after), &flows_of(later.last().unwrap())), (&expected, &expected));
        let (after, said, later) = upgrade(&before, &old);
        let expected = flows(|flow| (flow as u8, 700 + flow as u16));
        assert_eq!((&flows_of(&after), &flows_of(later.last().unwrap())), (&expected, &expected));
        assert_eq!(said, [""; 0]);
    }

    /// As a user of Redis who may not do that: what is written is stored all the same.
    #[test]
    fn who_may_not_look_goes_on_with_the_state_of_another_release() {
        let [old, new] = [layout::<u32, (u8, u16)>(), layout::<u32, (u32, u16, bool)>()];
        let mut before = flows(|flow| (flow as u8, 500 + flow as u16));
        noted_as(&mut before, TYPES, &old.types);
        noted_as(&mut before, LAYOUT, &old.names);
        for _ in 0..20 {
            let mut store = Memory::default();
            let put =
                |(key, content): (&Key, &Content)| Call::new(key, Operation::Put(content.clone()));
            store.run(&before.iter().map(put).collect::<Vec<_>>()).unwrap();
            // It is looked all the time.
            let settings =
                Settings { check_ns: 2_000_000, period_ns: 10_000, ..Settings::default() };
            let (flusher, state) = Flusher::open(Unseen(store), "nat", "a", settings).unwrap();
            // Until it was refused, and nothing waits.
            std::thread::sleep(Duration::from_millis(7));
            let mut said = Vec::new();
            let mut saying = Saying { say: |_| {}, at_end: &mut said };
            let layouts = [("flows", new.clone())];
            let state = upgraded(&flusher, ("nat", "a"), &layouts, state, &mut saying).unwrap();
            let expected = flows(|flow| (flow, 500 + flow as u16, false));
            assert_eq!(flows_of(&state.into_iter().collect()), expected);
        }
    }
}
