//! Write-behind to a store that fails: no worker waits, and the store ends with the right values. The tests of each
//! driver have this as a module.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_store::conformance::Random;
use anabranch_store::{
    Bytes, Call, Change, Content, Driver, Entry, Feed, Flusher, Key, Kind, Operation, Place, Reply,
    Scope, Settings, Status, view,
};

/// Longest that a worker may take for a batch: far below any fault, far above any scheduling.
const SLOW: Duration = Duration::from_millis(250);

pub struct Outcome {
    pub status: Status,
    /// The worst seen while it ran.
    pub worst: Status,
    pub slowest: Duration,
}

/// The end of those who wait for these, also where the fault panics: they would be waited for without end.
struct Ending<'a>([&'a AtomicBool; 2]);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|end| end.store(true, Ordering::Relaxed));
    }
}

/// Flows come, change and go on two workers while `fault` happens; then the store must hold what they
/// ended with, for which it has `patience` at the end, and a restart find it.
pub fn run<D: Driver + 'static>(
    open: impl Fn() -> D,
    (settings, patience): (Settings, Duration),
    fault: impl FnOnce(),
) -> Outcome {
    let (flusher, found) = Flusher::open(open(), "nat", "edge", settings).unwrap();
    assert_eq!(found, [], "a fresh store");
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut worst = Status::default();
    let ended = thread::scope(|threads| {
        let workers: Vec<_> = (0..2u16)
            .map(|core| {
                let (feed, stop) = (flusher.feed(), &stop);
                threads.spawn(move || work(core, feed, stop))
            })
            .collect();
        thread::sleep(Duration::from_millis(50));
        let watch = threads.spawn({
            let (flusher, done) = (&flusher, &done);
            move || {
                let mut worst = Status { accepts_new: true, ..Status::default() };
                while !done.load(Ordering::Relaxed) {
                    let status = flusher.status();
                    worst.lag_ns = worst.lag_ns.max(status.lag_ns);
                    worst.waiting = worst.waiting.max(status.waiting);
                    worst.accepts_new &= status.accepts_new;
                    worst.trouble = worst.trouble.or(status.trouble);
                    thread::sleep(Duration::from_millis(1));
                }
                worst
            }
        });
        let ending = Ending([&stop, &done]);
        fault();
        thread::sleep(Duration::from_millis(1_300));
        drop(ending);
        worst = watch.join().unwrap();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    let status = flusher.close(patience);
    assert_eq!((status.waiting, &status.trouble), (0, &None), "{status:?}");
    let slowest = ended.iter().map(|(_, slowest)| *slowest).max().unwrap();
    let expected: BTreeMap<Key, Content> = ended.into_iter().flat_map(|(state, _)| state).collect();
    let mut beside = open();
    assert!(expected == view::state(&mut beside, "nat", Some("edge")).unwrap(), "what is stored");
    let (again, found) = Flusher::open(beside, "nat", "edge", settings).unwrap();
    assert!(found.into_iter().collect::<BTreeMap<_, _>>() == expected, "what a restart finds");
    drop(again);
    assert!(slowest < SLOW, "a worker waited for {slowest:?}");
    Outcome { status, worst, slowest }
}

fn work(core: u16, mut feed: Feed, stop: &AtomicBool) -> (BTreeMap<Key, Content>, Duration) {
    let scope = Scope::new("nat", "edge", Place::Core(core)).unwrap();
    let (map, counter) =
        (scope.key(Kind::Map, "flows").unwrap(), scope.key(Kind::Counter, "packets").unwrap());
    let mut random = Random::new(u64::from(core));
    let mut flows: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    let (mut packets, mut slowest) = (0i64, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        for _ in 0..32 {
            let flow = random.below(3_000).to_be_bytes().to_vec();
            packets += 1;
            if random.one_in(4) {
                flows.remove(&flow);
                feed.change(Change::erase(&map, flow));
            } else {
                let value = packets.to_be_bytes().to_vec();
                flows.insert(flow.clone(), value.clone());
                let insert = Change::insert(&map, Entry::Pair(flow, value));
                feed.change(insert);
            }
            feed.change(Change::put(&counter, Content::Counter(packets)));
        }
        feed.hand_over();
        slowest = slowest.max(began.elapsed());
        thread::sleep(Duration::from_micros(300));
    }
    drop(feed);
    ([(map, Content::Map(flows)), (counter, Content::Counter(packets))].into(), slowest)
}

/// One writer adds 1 again and again while `fault` happens: what was answered is done, once, and what was not, once
/// or not at all, at any time.
pub fn adds(mut driver: impl Driver, fault: impl FnOnce() + Send) {
    let scope = Scope::new("count", "edge", Place::Core(0)).unwrap();
    let counter = scope.key(Kind::Counter, "sum").unwrap();
    let (mut sum, mut unknown, mut failures) = (0, 0, 0);
    thread::scope(|threads| {
        let fault = threads.spawn(fault);
        while !fault.is_finished() {
            if let Some(Reply::Number(now)) = answer(&mut driver, &counter, Operation::Add(1)) {
                let late = now - sum - 1;
                assert!((0..=unknown).contains(&late), "{now} after {sum}, {unknown} unknown");
                (sum, unknown) = (now, unknown - late);
            } else {
                (unknown, failures) = (unknown + 1, failures + 1);
            }
        }
    });
    let began = Instant::now();
    let last = loop {
        match answer(&mut driver, &counter, Operation::Read) {
            Some(Reply::Content(Some(Content::Counter(last)))) => break last,
            other => assert!(began.elapsed() < Duration::from_secs(60), "{other:?}"),
        }
    };
    assert!((sum..=sum + unknown).contains(&last), "{last} after {sum}, {unknown} unknown");
    assert!(sum > 0 && failures > 0, "{sum} added, {failures} not answered");
}

fn answer(driver: &mut impl Driver, key: &Key, operation: Operation) -> Option<Reply> {
    driver.run(&[Call::new(key, operation)]).ok()?.remove(0).ok()
}

pub fn settings() -> Settings {
    Settings { refresh_ns: 100_000_000, check_ns: 200_000_000, ..Settings::default() }
}
