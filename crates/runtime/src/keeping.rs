//! Runs whose state a store keeps: what it has is put in at the start, and it is told what changes.
//!
//! State that a plan divides among shards is stored by shard, `nf@instance@s17@…`, wherever a shard is
//! worked for: another number of workers goes on with it. What all workers have alike stands in the
//! scope of the first; counts of each are in its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::journal::{COUNTED_BY_OTHERS, Layout};
use anabranch_nf::state::timers::TIMERS;
use anabranch_store::{Change, Content, Flusher, Key, Location, Place, Scope, Settings, Status};

use crate::cores::Cores;
use crate::deployment::Deployment;
use crate::instance::{Instance, Kept as Stored, Making, Owner, Restored, Storing, counted};
use crate::report::{LagReport, RestartReport, RunReport, StoreReport};
use crate::run::{Arrangement, RunError, States};
use crate::upgrade::{Saying, upgraded};

mod fits;

use fits::{DIVISION, Fitting, made_with};

/// How a division ends where only packet sets are divided.
pub(crate) const SETS_ONLY: &str = ", packet sets only";
/// Longest that the start and the end of a run wait for the store.
const PATIENCE: Duration = Duration::from_secs(10);
/// What it means that no new flows are taken.
const AS_IF_FULL: &str = "what needs room in a table is answered as if there were none";
/// Time after which the end of a run says what it waits for.
const A_MOMENT: Duration = Duration::from_millis(200);

/// How a store keeps the state of a run.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// Which store.
    pub location: Location,
    /// Name of the instance: a later run of the same name goes on with the state.
    pub instance: String,
    /// How it is written.
    pub settings: Settings,
    /// Is told, line by line, why the first packet is kept waiting.
    pub say: fn(&str),
}

/// States that have begun.
pub(crate) struct Begun {
    /// The store that keeps them, if one does.
    pub(crate) kept: Option<Kept>,
    /// How far their clock is ahead of the one by which they were to begin, nanoseconds: the run before was.
    pub(crate) ahead_ns: u64,
}

/// A store that has told what it has.
struct Opened {
    flusher: Flusher,
    store: String,
    state: Vec<(Key, Content)>,
    began: Instant,
    read_ns: u64,
}

/// A store at work.
pub(crate) struct Kept {
    flusher: Flusher,
    /// Which one, without passwords.
    store: String,
    restart: RestartReport,
}

/// Starts the clock of `states` at `now_ns` and has `commands` carried out, each so long after it. Where a store
/// keeps the state, what it has is put in, and kept from then on; and where the run before had come to a later time,
/// the clock goes on from there: what it has kept of times stays in the past.
pub(crate) fn begin<N: NetworkFunction>(
    keeping: Option<(&Keeping, &Making)>,
    states: &mut States<N>,
    arrangement: &Arrangement,
    (now_ns, commands): (u64, &[(u64, N::Command)]),
    warnings: &mut Vec<String>,
) -> Result<Begun, RunError> {
    let Some((keeping, making)) = keeping else {
        states.start(now_ns, commands);
        return Ok(Begun { kept: None, ahead_ns: 0 });
    };
    let begin = || {
        let fitting = Fitting {
            instance: &keeping.instance,
            division: arrangement.division(),
            made: made_with::<N>(making),
            layouts: layouts(states),
        };
        let opened = keeping.open(&fitting, states, arrangement, warnings)?;
        let ahead_ns = opened.flusher.clock_ns().saturating_sub(now_ns);
        states.start(now_ns.saturating_add(ahead_ns), commands);
        let kept = Some(keeping.go_on(&fitting, opened, states, arrangement, warnings)?);
        Ok(Begun { kept, ahead_ns })
    };
    Cores::allowed().beside(arrangement.table.workers(), begin)
}

impl Keeping {
    /// Takes over what the store has, unless this run could not go on with it: who writes it now keeps it then.
    fn open<N: NetworkFunction>(
        &self,
        fitting: &Fitting<'_>,
        states: &States<N>,
        arrangement: &Arrangement,
        warnings: &mut Vec<String>,
    ) -> Result<Opened, RunError> {
        if let (States::Owned(instances), Some(_)) = (states, arrangement.deployment())
            && let Some(why) = instances.first().and_then(Instance::immovable)
        {
            return Err(RunError::StoreOfParts(why));
        }
        let began = Instant::now();
        let mut driver = self.location.open()?;
        let store = driver.name().to_owned();
        fitting.look_ahead::<N>(&mut *driver)?;
        warnings.extend(driver.remark().map(str::to_owned));
        let (flusher, state) = Flusher::open(driver, N::NAME, &self.instance, self.settings)?;
        Ok(Opened { flusher, store, state, began, read_ns: since(began) })
    }

    /// Puts what the store has into the instances, and has it kept from then on.
    fn go_on<N: NetworkFunction>(
        &self,
        fitting: &Fitting<'_>,
        Opened { flusher, store, state, began, read_ns }: Opened,
        states: &mut States<N>,
        arrangement: &Arrangement,
        warnings: &mut Vec<String>,
    ) -> Result<Kept, RunError> {
        let (described, state) = match state.iter().all(|(key, _)| fits::describes(key)) {
            true => (state, Vec::new()),
            false => (Vec::new(), state),
        };
        fitting.check::<N>(state.iter().map(|(key, content)| (key, Some(content))))?;
        let who = (N::NAME, &self.instance[..]);
        let mut said = Saying { say: self.say, at_end: warnings };
        let state = upgraded(&flusher, who, &fitting.layouts, state, &mut said)?;
        let state = known(&fitting.layouts, state, warnings);
        let entries = restore(states, &state, arrangement.deployment(), warnings)?;
        let warm_ns = since(began);
        let mut feed = flusher.feed();
        described.iter().for_each(|(key, _)| feed.change(Change::delete(key)));
        feed.hand_over_surely();
        let storing = |number| self.storing::<N>(&flusher, fitting, number);
        match states {
            States::Owned(instances) => {
                for (number, instance) in (0..).zip(instances) {
                    instance.keep(storing(number)?);
                }
            }
            States::Tracked(members) => members.keep(storing(0)?),
        }
        // Nothing can be read back without what says how it is to be read: that is there before it.
        let begun = flusher.settle(PATIENCE);
        if begun.waiting > 0 {
            let why = begun.trouble.as_deref().unwrap_or("it is too slow");
            warnings.push(format!(
                "the store does not know yet how state is divided: until then no other run goes on with it: {why}"
            ));
        }
        let restart = RestartReport { entries, read_ns, warm_ns, ready_ns: since(began) };
        Ok(Kept { flusher, store, restart })
    }

    fn storing<N: NetworkFunction>(
        &self,
        flusher: &Flusher,
        fitting: &Fitting<'_>,
        number: u16,
    ) -> Result<Storing, RunError> {
        let Settings { period_ns, refresh_ns, .. } = self.settings;
        let (nf, instance) = (N::NAME.to_owned(), self.instance.clone());
        let owner = match fitting.division {
            None => Owner::Whole(Scope::new(&nf, &instance, Place::Core(0))?),
            Some(_) => Owner::Worker { nf, instance, number },
        };
        let mut storing = Storing::new(flusher.feed(), owner, period_ns, refresh_ns);
        if let Some(division) = &fitting.division {
            storing.describe(DIVISION, division.clone());
        }
        for made in &fitting.made {
            storing.describe(&made.id, made.text.clone());
        }
        Ok(storing)
    }
}

fn layouts<N: NetworkFunction>(states: &mut States<N>) -> Vec<(&'static str, Layout)> {
    match states {
        States::Owned(instances) => instances.first().map_or_else(Vec::new, Stored::layouts),
        States::Tracked(members) => members.layouts(),
    }
}

/// What this function has objects for: what is stored of others, as of releases that were, stays where it is.
fn known(
    layouts: &[(&'static str, Layout)],
    mut state: Vec<(Key, Content)>,
    warnings: &mut Vec<String>,
) -> Vec<(Key, Content)> {
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    state.retain(|(key, content)| {
        let object = key.id();
        let is_entries = matches!(content, Content::Map(_) | Content::Counter(_));
        let is_known = !is_entries
            || object == TIMERS
            || object.starts_with('.')
            || layouts.iter().any(|(name, _)| *name == object);
        if !is_known {
            *others.entry(object).or_default() += content.len();
        }
        is_known
    });
    for (object, entries) in others {
        warnings.push(format!(
            "{entries} stored entries of `{object}` are not read: this release of the function keeps nothing of this \
             name; they stay in the store"
        ));
    }
    state
}

fn since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Puts in what the store has; how many entries.
fn restore<N: NetworkFunction>(
    states: &mut States<N>,
    state: &[(Key, Content)],
    deployment: Option<&Deployment>,
    warnings: &mut Vec<String>,
) -> Result<u64, RunError> {
    let mut sum = Restored::default();
    match states {
        States::Tracked(members) => sum.add(members.restore(state)?),
        States::Owned(instances) => {
            let workers = instances.len();
            for (number, instance) in instances.iter_mut().enumerate() {
                sum.add(match deployment {
                    None => instance.restore(state)?,
                    Some(deployment) => {
                        instance.restore(&share(state, deployment, number, workers))?
                    }
                });
            }
        }
    }
    let Restored { entries, refused } = sum;
    if refused > 0 {
        warnings.push(format!(
            "{refused} of {} stored entries were left out: tables were larger before, packet sets had other keys, \
             or others than this function have written them, in another size",
            entries + refused
        ));
    }
    Ok(entries)
}

/// What worker `number` of `workers` gets: what is its shards', what all have alike, what a worker of
/// its number has counted. The first one gets what workers that there are no more have counted.
fn share(
    state: &[(Key, Content)],
    deployment: &Deployment,
    number: usize,
    workers: usize,
) -> Vec<(Key, Content)> {
    let mine = |(key, content): &(Key, Content)| {
        let whole = Some((key.clone(), content.clone()));
        match (key.place(), content) {
            (Place::Shard(shard), _) => {
                let owner = usize::from(deployment.table.worker(shard.into()));
                whole.filter(|_| owner == number)
            }
            (Place::Core(core), Content::Counter(count)) => match usize::from(core) {
                core if core == number => whole,
                core if core >= workers && number == 0 => {
                    let others = (COUNTED_BY_OTHERS.to_vec(), counted(*count));
                    Some((key.clone(), Content::Map([others].into())))
                }
                _ => None,
            },
            (Place::Core(0), _) => whole,
            _ => None,
        }
    };
    state.iter().filter_map(mine).collect()
}

impl Kept {
    /// Why the store does not take what changes; `None`: it does.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.flusher.trouble()
    }

    /// Reports how it goes; with a warning where it does not take what changes, and where no new flows are taken.
    pub(crate) fn tell(&self, report: &mut RunReport) {
        let store = report_of(self.store.clone(), self.restart, self.flusher.status());
        if let Some(why) = &store.trouble {
            let waiting = changes(store.waiting).0;
            report.warnings.push(format!("the store is in trouble, {waiting} waiting: {why}"));
        }
        if store.refuses_new {
            report.warnings.push(format!(
                "the store is so far behind that no new flows are taken: {AS_IF_FULL}"
            ));
        }
        report.store = Some(store);
    }

    /// Waits until the store has everything, and reports; with a warning if it has not. `goes_on` is asked whether it
    /// is to wait on, and told once, where that takes longer than a moment, for what and how long at most.
    pub(crate) fn close(
        self,
        report: &mut RunReport,
        goes_on: &mut dyn FnMut(Option<&str>) -> bool,
    ) {
        let mut is_told = false;
        let status = self.flusher.close_while(|flusher, waited| {
            if waited < A_MOMENT || is_told {
                return waited < PATIENCE && goes_on(None);
            }
            is_told = true;
            goes_on(Some(&waiting_for(&flusher.status())))
        });
        // That it may not be looked at is no reason for what was not taken.
        let refused = status.trouble.clone();
        let done = report_of(self.store, self.restart, status);
        if done.waiting > 0 {
            let why = refused.as_deref().unwrap_or("it is too slow");
            let (changes, are) = changes(done.waiting);
            report.warnings.push(format!("{changes} {are} not in the store: {why}"));
        } else if let Some(why) = &done.trouble {
            report.warnings.push(format!(
                "the store took all changes; whether it still has them at the end is not known: {why}"
            ));
        }
        if done.refused_ns > 0 || done.refuses_new && done.ended {
            report.warnings.push(format!(
                "for {} ms the store was so far behind that no new flows were taken: {AS_IF_FULL}",
                done.refused_ns / 1_000_000
            ));
        }
        report.store = Some(done);
    }
}

/// So many changes, and the verb after them.
fn changes(number: u64) -> (String, &'static str) {
    match number {
        1 => ("1 change".to_owned(), "is"),
        _ => (format!("{number} changes"), "are"),
    }
}

/// What the end of a run waits for.
fn waiting_for(status: &Status) -> String {
    let what = match changes(status.waiting) {
        _ if status.waiting == 0 => "to say whether it still has everything".to_owned(),
        (changes, are) => format!("for {changes} that {are} not in it"),
    };
    let why = status.trouble.as_ref().or(status.unseen.as_ref());
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    format!("waiting at most {} s {what}{why}", PATIENCE.as_secs())
}

fn report_of(store: String, restart: RestartReport, status: Status) -> StoreReport {
    let Status { stored, messages, failures, rebuilds, waiting, .. } = status;
    let Status { lag_ns: oldest_ns, lag_p50_ns, lag_p99_ns, lag_max_ns, trouble, ended, .. } =
        status;
    let Status { pause_p50_ns, pause_p99_ns, pause_max_ns, .. } = status;
    let pause_ns = LagReport { p50: pause_p50_ns, p99: pause_p99_ns, max: pause_max_ns };
    let lag_ns = LagReport { p50: lag_p50_ns, p99: lag_p99_ns, max: lag_max_ns };
    let [p50, p99, max] = status.recent_lag_ns;
    let recent_lag_ns = LagReport { p50, p99, max };
    StoreReport {
        store,
        stored,
        messages,
        failures,
        rebuilds,
        waiting,
        oldest_ns,
        lag_ns,
        recent_lag_ns,
        refresh_round_ns: status.refresh_round_ns,
        trouble: trouble.or(status.unseen),
        pause_ns,
        ended,
        refuses_new: !status.accepts_new,
        refused_ns: status.refused_ns,
        restart,
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use anabranch_store::{Answer, Batch, Call, Driver, Error, Kind, Memory, Outcome};

    use super::*;

    /// A store that has gone once it has been opened.
    struct Gone(Memory);

    impl Driver for Gone {
        fn name(&self) -> &str {
            "gone"
        }
        fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
            self.0.run(calls)
        }
        fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
            match batches {
                [] => Ok(Vec::new()),
                _ => Err(Error::unavailable("gone", "no answer")),
            }
        }
        fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
            self.0.keys(prefix)
        }
    }

    fn gone() -> Kept {
        let store = Gone(Memory::default());
        let policy = anabranch_store::Policy::RefuseNew;
        let settings = Settings { policy, slow_ns: 50_000_000, ..Settings::default() };
        let (flusher, _) = Flusher::open(store, "nat", "a", settings).unwrap();
        let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Map, "flows").unwrap();
        let mut feed = flusher.feed();
        let map = feed.map(&key);
        feed.entry(map, 0, b"a", Some(b"1"));
        drop(feed);
        Kept { flusher, store: "gone".to_owned(), restart: RestartReport::default() }
    }

    /// Also while the run goes on.
    #[test]
    fn trouble_with_the_store_is_among_the_warnings() {
        let (kept, mut report) = (gone(), RunReport::new("nat"));
        let began = Instant::now();
        while report.warnings.len() < 2 && began.elapsed() < Duration::from_secs(20) {
            report.warnings.clear();
            kept.tell(&mut report);
            std::thread::sleep(Duration::from_millis(10));
        }
        let [trouble, refused] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
        assert!(trouble.starts_with("the store is in trouble, 1 change waiting: "), "{trouble}");
        assert!(trouble.contains("no answer"), "{trouble}");
        assert!(
            refused.starts_with("the store is so far behind that no new flows are taken: "),
            "{refused}"
        );
        assert!(report.store.unwrap().refuses_new);
        drop(kept);
    }

    /// And it is said what is waited for, once and soon.
    #[test]
    fn the_wait_for_a_store_at_the_end_is_told_and_can_be_given_up() {
        let (mut report, began, mut told) = (RunReport::new("nat"), Instant::now(), Vec::new());
        gone().close(&mut report, &mut |line| {
            told.extend(line.map(|line| (line.to_owned(), began.elapsed())));
            began.elapsed() < Duration::from_secs(1)
        });
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        let [(line, at)] = &told[..] else { panic!("{told:?}") };
        assert!(
            line.starts_with("waiting at most 10 s for 1 change that is not in it: "),
            "{line}"
        );
        assert!(line.contains("no answer") && *at < Duration::from_secs(1), "{line}, {at:?}");
        let warning = &report.warnings[0];
        assert!(warning.starts_with("1 change is not in the store: "), "{warning}");
    }
}
