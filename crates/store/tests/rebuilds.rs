//! What a store has is read and compared where it has lost something: that comes to an end whatever is there.
#![allow(clippy::unwrap_used)]

use anabranch_store::behind::{Action, Mark};
use anabranch_store::{
    Answer, Batch, Call, Change, Content, Driver, Entry, Error, Key, Kind, Memory, Operation,
    Outcome, Place, Reply, Scope, Settings, WriteBehind, view,
};

const MS: u64 = 1_000_000;

fn scope() -> Scope {
    Scope::new("nat", "a", Place::Core(0)).unwrap()
}

fn flows() -> Key {
    scope().key(Kind::Map, "flows").unwrap()
}

fn name(flow: u32) -> Vec<u8> {
    flow.to_be_bytes().into()
}

fn flow(flow: u32, value: u8) -> Change {
    Change::insert(&flows(), Entry::Pair(name(flow), vec![value]))
}

fn gone<T>() -> Result<T, Error> {
    Err(Error::unavailable("simulated", "no answer"))
}

/// Does what is due, a millisecond later.
fn act(writer: &mut WriteBehind, store: &mut impl Driver, now_ns: &mut u64) {
    *now_ns += MS;
    match writer.next(*now_ns) {
        Action::Wait(_) => {}
        Action::Commit(batches) => writer.committed(store.commit(&batches), *now_ns),
        Action::List(scope, page) => writer.listed(view::listing(store, &scope, page), *now_ns),
    }
}

fn lose_mark(store: &mut Memory) {
    let mark = Mark::key(&scope()).unwrap();
    store.run(&[Call::new(&mark, Operation::Delete)]).unwrap();
}

/// Many flows have ended while the store did not answer, more than may wait one by one; and others begin and end.
#[test]
fn what_is_too_much_goes_while_something_changes_all_the_time() {
    let mut store = Memory::default();
    let settings = Settings { most_waiting: 50, message_changes: 20, ..Settings::default() };
    let mut writer = WriteBehind::new(settings, 7, []).unwrap();
    let mut now_ns = 0;
    writer.changes((0..1_000).map(|number| flow(number, 1)).collect(), 0).unwrap();
    while writer.waiting() > 0 {
        act(&mut writer, &mut store, &mut now_ns);
    }
    let ended = (10..1_000).map(|flow| Change::erase(&flows(), name(flow))).collect();
    writer.changes(ended, now_ns).unwrap();
    let mut most = 0;
    for turn in 0..500u32 {
        // Before anything can be sent.
        let last = Change::erase(&flows(), name(10_000 + turn));
        writer.changes(vec![flow(10_001 + turn, 1), last], now_ns).unwrap();
        act(&mut writer, &mut store, &mut now_ns);
        most = most.max(writer.waiting());
    }
    let status = writer.status(now_ns);
    assert!(status.waiting < 10, "it is begun anew all the time: {status:?}");
    assert!(most < 2_500, "{most}");
    let stored = view::read(&mut store, &flows()).unwrap().unwrap();
    assert_eq!(stored.len(), 11);
}

/// The store is gone again while what is too much is removed.
#[test]
fn what_waits_is_bounded_while_what_is_too_much_is_removed() {
    let mut store = Memory::default();
    let settings = Settings { most_waiting: 50, ..Settings::default() };
    let mut writer = WriteBehind::new(settings, 7, []).unwrap();
    let mut now_ns = 0;
    writer.changes((0..300).map(|number| flow(number, 1)).collect(), 0).unwrap();
    while writer.waiting() > 0 {
        act(&mut writer, &mut store, &mut now_ns);
    }
    writer
        .changes((10..300).map(|flow| Change::erase(&flows(), name(flow))).collect(), now_ns)
        .unwrap();
    while writer.status(now_ns).waiting < 290 {
        act(&mut writer, &mut store, &mut now_ns);
    }
    let mut most = 0;
    for turn in 0..20_000u32 {
        now_ns += MS;
        let last = Change::erase(&flows(), name(10_000 + turn));
        writer.changes(vec![flow(10_001 + turn, 1), last], now_ns).unwrap();
        match writer.next(now_ns) {
            Action::Wait(_) => {}
            Action::Commit(_) => writer.committed(gone(), now_ns),
            Action::List(..) => writer.listed(gone(), now_ns),
        }
        most = most.max(writer.waiting());
    }
    assert!(most < 1_000, "{most}");
}

/// It could not be read at first, and nothing lacks.
#[test]
fn what_was_found_as_it_should_be_is_no_trouble_any_more() {
    let mut store = Memory::default();
    let mut writer = WriteBehind::new(Settings::default(), 7, []).unwrap();
    let (mut now_ns, mut fails) = (0, 3);
    writer.change(flow(1, 1), 0).unwrap();
    while writer.waiting() > 0 {
        act(&mut writer, &mut store, &mut now_ns);
    }
    lose_mark(&mut store);
    writer.change(flow(2, 1), now_ns).unwrap();
    while writer.waiting() > 0 {
        now_ns += MS;
        match writer.next(now_ns) {
            Action::Wait(_) => {}
            Action::Commit(batches) => writer.committed(store.commit(&batches), now_ns),
            Action::List(..) if fails > 0 => {
                fails -= 1;
                // As if it had been there already.
                store.run(&[flow(2, 1).call().clone()]).unwrap();
                writer.listed(gone(), now_ns);
                assert!(writer.status(now_ns).trouble.is_some());
            }
            Action::List(scope, page) => {
                writer.listed(view::listing(&mut store, &scope, page), now_ns)
            }
        }
    }
    let status = writer.status(now_ns);
    assert_eq!((fails, status.rebuilds, status.trouble), (0, 1, None));
}

/// A line by which more than so many entries do not arrive within a timeout, either way.
struct Narrow(Memory, usize);

impl Driver for Narrow {
    fn name(&self) -> &str {
        "narrow"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        let answers = self.0.run(calls)?;
        let len = |answer: &Answer| match answer {
            Ok(Reply::Page(entries, _)) => entries.len(),
            _ => 1,
        };
        if answers.iter().map(len).sum::<usize>() > self.1 { gone() } else { Ok(answers) }
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let len: usize = batches.iter().map(|batch| batch.calls.len() + batch.present.len()).sum();
        if len > self.1 { gone() } else { self.0.commit(batches) }
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.0.keys(prefix)
    }
}

#[test]
fn what_is_too_much_for_one_answer_is_read_by_several() {
    let mut store = Narrow(Memory::default(), 100);
    let mut writer = WriteBehind::new(Settings::default(), 7, []).unwrap();
    let mut now_ns = 0;
    writer.changes((0..5_000).map(|number| flow(number, 1)).collect(), 0).unwrap();
    for object in 0..20 {
        let counter = scope().key(Kind::Counter, &format!("n{object}")).unwrap();
        writer.change(Change::put(&counter, Content::Counter(1)), 0).unwrap();
        let map = scope().key(Kind::Map, &format!("m{object}")).unwrap();
        let flows = (0..30).map(|flow| Change::insert(&map, Entry::Pair(name(flow), vec![1])));
        writer.changes(flows.collect(), 0).unwrap();
    }
    while writer.waiting() > 0 {
        act(&mut writer, &mut store, &mut now_ns);
    }
    lose_mark(&mut store.0);
    writer.change(flow(2, 3), now_ns).unwrap();
    let until_ns = now_ns + 10_000 * MS;
    while writer.waiting() > 0 && now_ns < until_ns {
        act(&mut writer, &mut store, &mut now_ns);
    }
    let status = writer.status(now_ns);
    assert_eq!((status.waiting, status.rebuilds, status.trouble), (0, 1, None));
    let stored = view::state(&mut store.0, "nat", None).unwrap();
    assert_eq!(stored, writer.copy().collect());
}
