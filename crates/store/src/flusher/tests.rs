//! What a flusher does for workers that tell it what they change, in real time.

use super::feed::FULL;
use super::*;
use crate::behind::Change;
use crate::call::{Call, Operation};
use crate::content::{Entry, Kind};
use crate::driver::{Batch, Outcome};
use crate::key::{Place, Scope};
use crate::memory::Memory;
use std::collections::BTreeMap;

fn key(core: u16) -> Key {
    Scope::new("nat", "a", Place::Core(core)).unwrap().key(Kind::Map, "flows").unwrap()
}

fn insert(core: u16, flow: u32, value: u8) -> Change {
    Change::insert(&key(core), Entry::Pair(flow.to_be_bytes().into(), vec![value]))
}

#[test]
fn packets_do_not_wait_for_whoever_looks_how_long_they_waited() {
    let (flusher, _) = Flusher::open(Memory::default(), "nat", "a", Settings::default()).unwrap();
    let mut feed = flusher.feed();
    let looked_at = lock(&flusher.shared.pauses);
    feed.note_pause(7_000);
    drop(looked_at);
    assert_eq!(flusher.status().pause_max_ns, 0, "it is added later");
    feed.note_pause(90);
    let longest = flusher.status().pause_max_ns;
    assert!((6_900..7_100).contains(&longest), "{longest}");
}

#[test]
fn what_workers_change_is_found_by_the_next_start() {
    let store = Memory::default();
    let (flusher, found) = Flusher::open(store.clone(), "nat", "a", Settings::default()).unwrap();
    assert_eq!(found, []);
    thread::scope(|threads| {
        for core in 0..4 {
            let mut feed = flusher.feed();
            threads.spawn(move || {
                let map = feed.map(&key(core));
                for step in 0..20_000u32 {
                    let (flow, value) = (step % 500, (step / 500) as u8);
                    match core % 2 {
                        0 => feed.change(insert(core, flow, value)),
                        _ => feed.entry(map, 0, &flow.to_be_bytes(), Some(&[value])),
                    }
                    if step % 32 == 0 {
                        feed.hand_over();
                    }
                }
            });
        }
    });
    let status = flusher.close(Duration::from_secs(20));
    assert_eq!((status.waiting, status.trouble), (0, None));
    assert!(status.stored >= 2_000 && status.accepts_new);
    let (_, found) = Flusher::open(store, "nat", "a", Settings::default()).unwrap();
    let flows = (0..500u32).map(|flow| (flow.to_be_bytes().to_vec(), vec![39]));
    let flows = Content::Map(flows.collect::<BTreeMap<_, _>>());
    let expected: Vec<_> = (0..4).map(|core| (key(core), flows.clone())).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_has_settled_is_stored_whatever_the_period() {
    let store = Memory::default();
    let settings = Settings { period_ns: 3_600_000_000_000, ..Settings::default() };
    let (flusher, _) = Flusher::open(store.clone(), "nat", "a", settings).unwrap();
    let mut feed = flusher.feed();
    for round in 1..4 {
        feed.change(insert(0, round, 1));
        feed.hand_over_surely();
        let status = flusher.settle(Duration::from_secs(20));
        assert_eq!((status.waiting, status.trouble), (0, None));
        let view = view::state(&mut store.clone(), "nat", Some("a")).unwrap();
        let Some(Content::Map(flows)) = view.get(&key(0)) else { panic!("{view:?}") };
        assert_eq!(flows.len(), round as usize);
    }
}

#[test]
fn what_changes_after_a_pause_is_stored_at_once() {
    let mut store = Memory::default();
    let settings = Settings { period_ns: 3_600_000_000_000, ..Settings::default() };
    let (flusher, _) = Flusher::open(store.clone(), "nat", "a", settings).unwrap();
    let mut feed = flusher.feed();
    // So long that the flusher has looked, and found nothing.
    thread::sleep(3 * NAP);
    feed.change(insert(0, 1, 1));
    feed.hand_over_surely();
    let began = Instant::now();
    while view::state(&mut store, "nat", Some("a")).unwrap().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20));
        thread::yield_now();
    }
}

/// A server that was started again, empty, since the last message.
#[test]
fn what_a_store_has_lost_just_before_the_end_is_written_again() {
    let mut store = Memory::default();
    let (flusher, _) = Flusher::open(store.clone(), "nat", "a", Settings::default()).unwrap();
    let mut feed = flusher.feed();
    for core in 0..3 {
        feed.change(insert(core, 1, 1));
    }
    drop(feed);
    assert_eq!(flusher.settle(Duration::from_secs(20)).waiting, 0);
    let keys = store.keys("nat@a@").unwrap();
    let delete = |key| Call::new(key, Operation::Delete);
    store.run(&keys.iter().map(delete).collect::<Vec<_>>()).unwrap();
    let status = flusher.close(Duration::from_secs(20));
    assert_eq!((status.waiting, status.rebuilds), (0, 3));
    let found = view::state(&mut store, "nat", Some("a")).unwrap();
    assert!((0..3).all(|core| found.get(&key(core)).is_some_and(|flows| flows.len() == 1)));
}

/// A store that does something else before it commits, and perhaps does not.
struct Before<F>(Memory, F);

impl<F: FnMut(&[Batch]) -> Result<(), Error> + Send> Driver for Before<F> {
    fn name(&self) -> &str {
        "before"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<crate::Answer>, Error> {
        self.0.run(calls)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        (self.1)(batches)?;
        self.0.commit(batches)
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.0.keys(prefix)
    }
}

/// It takes its time to say that it does not answer.
#[test]
fn a_store_that_does_not_answer_at_the_end_is_asked_until_it_does_or_patience_is_over() {
    for (fails, is_sure) in [(3, true), (usize::MAX, false)] {
        let left = Arc::new(AtomicUsize::new(0));
        let fails_left = Arc::clone(&left);
        let store = Before(Memory::default(), move |_: &[Batch]| {
            match fails_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            {
                Ok(_) => {
                    thread::sleep(Duration::from_millis(600));
                    Err(Error::unavailable("before", "no answer"))
                }
                Err(_) => Ok(()),
            }
        });
        let (flusher, _) = Flusher::open(store, "nat", "a", Settings::default()).unwrap();
        let mut feed = flusher.feed();
        feed.change(insert(0, 1, 1));
        drop(feed);
        assert_eq!(flusher.settle(Duration::from_secs(20)).waiting, 0);
        left.store(fails, Ordering::Relaxed);
        let status = flusher.close(Duration::from_secs(if is_sure { 20 } else { 2 }));
        assert_eq!((status.waiting, status.trouble.is_none()), (0, is_sure), "{status:?}");
    }
}

#[test]
fn the_line_is_full_until_the_flusher_has_taken_in_what_is_in_it() {
    let behind = WriteBehind::new(Settings::default(), 1, []).unwrap();
    let shared = Arc::new(Shared::new(&behind, 1_000_000, sync_channel(1).0));
    let (mut one, mut other) = (Feed::new(&shared), Feed::new(&shared));
    for flow in 0..FULL as u32 {
        one.change(insert(0, flow % 10, 1));
    }
    assert!(one.has_room() && other.has_room(), "it is not in the line yet");
    one.hand_over();
    assert!(!one.has_room() && !other.has_room());
    other.change(insert(0, 3, 2));
    other.hand_over();
    assert!(other.is_empty(), "more is taken nevertheless");
    let behind = WriteBehind::new(Settings::default(), 1, []).unwrap();
    let (shown, period) = (Instant::now(), Duration::ZERO);
    let (refused, shares) = (Duration::ZERO, Arc::clone(&shared));
    let (maps, taken_ns, asked_ns, asked_all) = (Vec::new(), 0, 0, None);
    let mut worker = Worker {
        behind,
        maps,
        shared: shares,
        period,
        taken_ns,
        asked_ns,
        asked_all,
        refused,
        shown,
        is_closed: false,
    };
    worker.show(None);
    assert_eq!(shared.status().waiting, FULL as u64 + 1);
    worker.take_changes().unwrap();
    assert!(one.has_room());
    worker.show(None);
    assert_eq!(shared.status().waiting, 10);
}

#[test]
fn what_is_held_is_handed_over_whole_or_not_at_all() {
    for is_released in [false, true] {
        let store = Memory::default();
        let (flusher, _) = Flusher::open(store.clone(), "nat", "a", Settings::default()).unwrap();
        let mut feed = flusher.feed();
        let map = feed.map(&key(0));
        feed.change(insert(0, 1, 1));
        feed.hold();
        feed.entry(map, 0, b"one", Some(b"1"));
        feed.hand_over();
        assert!(!feed.is_empty(), "nothing is, while something is held");
        feed.entry(map, 0, b"other", Some(b"1"));
        if is_released {
            feed.release();
        }
        drop(feed);
        flusher.close(Duration::from_secs(20));
        let found = view::state(&mut store.clone(), "nat", Some("a")).unwrap();
        let len = found.get(&key(0)).map(Content::len);
        assert_eq!(len, Some(if is_released { 3 } else { 1 }));
    }
}

/// A map leaves for another worker while something of it is held.
#[test]
fn what_is_held_of_a_map_that_leaves_goes_before_what_another_worker_tells_of_it() {
    for is_released in [false, true] {
        let store = Memory::default();
        let (flusher, _) = Flusher::open(store.clone(), "nat", "a", Settings::default()).unwrap();
        let (mut feed, mut other) = (flusher.feed(), flusher.feed());
        feed.change(insert(2, 1, 1));
        feed.hold();
        let [stays, leaves] = [0, 1].map(|core| feed.map(&key(core)));
        for map in [stays, leaves] {
            feed.entry(map, 0, b"one", Some(b"1"));
            feed.entry(map, 0, b"other", Some(b"1"));
        }
        feed.hand_over_of(&[leaves]);
        let theirs = other.map(&key(1));
        other.entry(theirs, 0, b"one", None);
        other.entry(theirs, 0, b"other", Some(b"2"));
        other.hand_over_surely();
        feed.entry(stays, 0, b"one", None);
        if is_released {
            feed.release();
        }
        feed.hand_over();
        drop(feed);
        flusher.close(Duration::from_secs(20));
        let found = view::state(&mut store.clone(), "nat", Some("a")).unwrap();
        let of = |map, value: &[u8]| {
            let entries = [(b"other".to_vec(), value.to_vec())];
            (key(map), Content::Map(BTreeMap::from(entries)))
        };
        let mut expected: BTreeMap<_, _> = [of(1, b"2")].into();
        expected.extend(is_released.then(|| of(0, b"1")));
        expected.insert(key(2), found[&key(2)].clone());
        assert_eq!(found, expected);
    }
}

#[test]
fn what_workers_have_not_told_is_late_too() {
    let settings =
        Settings { policy: Policy::RefuseNew, slow_ns: 50_000_000, ..Settings::default() };
    let (flusher, _) = Flusher::open(Memory::default(), "nat", "a", settings).unwrap();
    let (feed, began) = (flusher.feed(), Instant::now());
    for is_untold in [true, false] {
        feed.note_untold(is_untold);
        while feed.accepts_new() == is_untold && began.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(feed.accepts_new(), !is_untold, "{:?}", flusher.status());
    }
}

/// It is counted for how long none were taken that came.
#[test]
fn after_the_end_no_flows_are_refused() {
    let settings =
        Settings { policy: Policy::RefuseNew, slow_ns: 50_000_000, ..Settings::default() };
    let gone = Before(Memory::default(), |batches: &[Batch]| match batches {
        [] => Ok(()),
        _ => Err(Error::unavailable("before", "no answer")),
    });
    let (flusher, _) = Flusher::open(gone, "nat", "a", settings).unwrap();
    let (mut feed, began) = (flusher.feed(), Instant::now());
    feed.change(insert(0, 1, 1));
    feed.hand_over_surely();
    while feed.accepts_new() && began.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(100));
    drop(feed);
    let lasted = began.elapsed();
    let status = flusher.close(Duration::from_secs(2));
    let refused = Duration::from_nanos(status.refused_ns);
    assert!(refused >= Duration::from_millis(50) && refused <= lasted, "{refused:?}, {lasted:?}");
    assert!(status.waiting == 1 && !status.accepts_new, "{status:?}");
}

/// While something changes all the time, and there is always something that waits.
#[test]
fn who_is_far_away_is_not_behind_and_who_does_not_answer_is() {
    for (ms, is_stuck) in [(5, false), (20, false), (3_000, true)] {
        let slow = Before(Memory::default(), move |_: &[Batch]| {
            thread::sleep(Duration::from_millis(ms));
            Ok(())
        });
        let (flusher, _) = Flusher::open(slow, "nat", "a", Settings::default()).unwrap();
        let mut feed = flusher.feed();
        let (mut behind, mut turns) = (0, 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(600) {
            feed.change(insert(0, turns, 1));
            feed.hand_over();
            thread::sleep(Duration::from_millis(1));
            turns += 1;
            // At first nothing is known of it.
            behind += u32::from(feed.is_behind() && began.elapsed().as_millis() > 100);
        }
        let share = f64::from(behind) / f64::from(turns);
        assert_eq!(share > 0.5, is_stuck, "{ms} ms: {behind} of {turns} turns");
    }
}

#[test]
fn where_the_thread_has_ended_nothing_is_kept_for_it_and_the_status_says_so() {
    for policy in [Policy::KeepOn, Policy::RefuseNew] {
        let settings = Settings { policy, ..Settings::default() };
        let broken = Before(Memory::default(), |batches: &[Batch]| {
            assert!(batches.is_empty(), "a mistake of the driver's");
            Ok(())
        });
        let (flusher, _) = Flusher::open(broken, "nat", "a", settings).unwrap();
        let mut feed = flusher.feed();
        feed.change(insert(0, 1, 1));
        feed.hand_over_surely();
        while !flusher.status().ended {
            thread::yield_now();
        }
        for round in 0..10 {
            for flow in 0..FULL as u32 / 2 {
                feed.change(insert(0, flow, round));
            }
            feed.hand_over();
            assert!(feed.is_empty() && feed.has_room() && lock(&flusher.shared.line).is_empty());
        }
        assert_eq!(feed.accepts_new(), policy == Policy::KeepOn);
        let status = flusher.close(Duration::from_secs(20));
        assert!(status.ended && status.waiting > 5 * FULL as u64, "{status:?}");
        assert_eq!(status.accepts_new, policy == Policy::KeepOn);
        assert_eq!(status.trouble.as_deref(), Some("the thread that writes to it has ended"));
    }
}

#[test]
fn changes_are_stored_within_some_periods() {
    let mut store = Memory::default();
    let (flusher, _) = Flusher::open(store.clone(), "nat", "a", Settings::default()).unwrap();
    let mut feed = flusher.feed();
    feed.change(insert(0, 1, 1));
    feed.hand_over();
    let began = Instant::now();
    while store.keys("nat@a@0@map").unwrap().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(5));
        thread::yield_now();
    }
    drop(flusher);
}

/// Also one that writes nothing; and one of a release that knew of no clock has none.
#[test]
fn who_goes_on_knows_how_far_the_clock_had_come() {
    let mut store = Memory::default();
    let open =
        |store: &Memory| Flusher::open(store.clone(), "nat", "a", Settings::default()).unwrap().0;
    let write = |flusher: Flusher, core, clock_ns| {
        let mut feed = flusher.feed();
        feed.note_clock(clock_ns);
        feed.change(insert(core, 1, 1));
        drop(feed);
        assert_eq!(flusher.close(Duration::from_secs(20)).waiting, 0);
    };
    let first = open(&store);
    assert_eq!(first.clock_ns(), 0);
    write(first, 0, 500);
    drop(open(&store));
    let third = open(&store);
    assert_eq!(third.clock_ns(), 500);
    write(third, 1, 400);
    assert_eq!(open(&store).clock_ns(), 500, "it does not go back");
    for core in [0, 1] {
        let mark = Mark::key(&key(core).scope()).unwrap();
        let old = Operation::Put(Content::Value(b"1 7 3".to_vec()));
        store.run(&[Call::new(&mark, old)]).unwrap();
    }
    assert_eq!(open(&store).clock_ns(), 0);
}

#[test]
fn who_was_overtaken_stops_and_says_so() {
    let store = Memory::default();
    let open = || Flusher::open(store.clone(), "nat", "a", Settings::default()).unwrap();
    let (first, _) = open();
    let mut feed = first.feed();
    feed.change(insert(0, 1, 1));
    feed.hand_over();
    while first.status().stored == 0 {
        thread::yield_now();
    }
    let (second, found) = open();
    assert_eq!(found.len(), 1);
    feed.change(insert(0, 2, 2));
    drop(feed);
    let trouble = first.close(Duration::from_secs(5)).trouble;
    assert!(trouble.is_some_and(|why| why.contains("another instance")));
    assert_eq!(second.close(Duration::from_secs(5)).trouble, None);
    assert_eq!(open().1, found);
}
