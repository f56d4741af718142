//! Whether a store still has what it was given: who may not look is told so for as long as that lasts, and waits for
//! nothing.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use anabranch_store::behind::{Action, Mark};
use anabranch_store::{
    Answer, Batch, Call, Change, Content, Driver, Entry, Error, Flusher, Key, Kind, Memory,
    Outcome, Place, Scope, Settings, WriteBehind, view,
};

const MS: u64 = 1_000_000;

fn scope() -> Scope {
    Scope::new("nat", "a", Place::Core(0)).unwrap()
}

fn flows() -> Key {
    scope().key(Kind::Map, "flows").unwrap()
}

fn flow(name: u8) -> Change {
    Change::insert(&flows(), Entry::Pair(vec![name], vec![1]))
}

/// As where a user may not do that.
fn no_looks(batch: &Batch) -> Outcome {
    match batch.present.is_empty() {
        true => Outcome::Committed,
        false => Outcome::Refused(Error::unavailable("simulated", "no HGET")),
    }
}

/// Until then, a millisecond each time; what is asked meanwhile.
fn go_on(
    (writer, store): (&mut WriteBehind, &mut Memory),
    (now_ns, until_ns): (&mut u64, u64),
    may_look: bool,
) -> usize {
    let mut asked = 0;
    while *now_ns < until_ns {
        *now_ns += MS;
        let batches = match writer.next(*now_ns) {
            Action::Wait(_) => continue,
            Action::Commit(batches) => batches,
            Action::List(scope, page) => {
                writer.listed(view::listing(store, &scope, page), *now_ns);
                continue;
            }
        };
        asked += batches.len();
        let refused = batches.iter().map(no_looks).find(|_| !may_look);
        let outcomes = match refused {
            Some(Outcome::Refused(error)) => Ok(vec![Outcome::Refused(error)]),
            _ => store.commit(&batches),
        };
        writer.committed(outcomes, *now_ns);
    }
    asked
}

#[test]
fn who_may_not_look_is_told_so_until_he_may_and_what_changes_is_stored() {
    let (mut store, mut now_ns) = (Memory::default(), 0);
    let mut writer = WriteBehind::new(Settings::default(), 7, []).unwrap();
    writer.change(flow(1), 0).unwrap();
    go_on((&mut writer, &mut store), (&mut now_ns, 1_500 * MS), true);
    let status = writer.status(now_ns);
    assert_eq!((status.waiting, status.trouble, status.unseen), (0, None, None));
    go_on((&mut writer, &mut store), (&mut now_ns, 4_000 * MS), false);
    for name in 2..20 {
        writer.change(flow(name), now_ns).unwrap();
        let until_ns = now_ns + 500 * MS;
        go_on((&mut writer, &mut store), (&mut now_ns, until_ns), false);
        let status = writer.status(now_ns);
        assert_eq!((status.waiting, status.trouble), (0, None));
        assert!(status.unseen.is_some_and(|why| why.contains("no HGET")));
    }
    let until_ns = now_ns + 130_000 * MS;
    go_on((&mut writer, &mut store), (&mut now_ns, until_ns), true);
    assert_eq!(writer.status(now_ns).unseen, None);
    assert_eq!(view::read(&mut store, &flows()).unwrap().unwrap().len(), 19);
}

/// What it could not be looked at is gone: there is nothing of which it is not known.
#[test]
fn where_there_is_nothing_to_look_at_nobody_is_told_that_he_may_not() {
    let (mut store, mut now_ns) = (Memory::default(), 0);
    let mut writer = WriteBehind::new(Settings::default(), 7, []).unwrap();
    writer.change(flow(1), 0).unwrap();
    go_on((&mut writer, &mut store), (&mut now_ns, 4_000 * MS), false);
    assert!(writer.status(now_ns).unseen.is_some());
    writer.change(Change::erase(&flows(), vec![1]), now_ns).unwrap();
    let until_ns = now_ns + 130_000 * MS;
    go_on((&mut writer, &mut store), (&mut now_ns, until_ns), false);
    assert_eq!(writer.status(now_ns).unseen, None);
}

/// A store that does not let it be looked.
struct Unseen(Memory);

impl Driver for Unseen {
    fn name(&self) -> &str {
        "unseen"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        self.0.run(calls)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let each = |batch: &Batch| match no_looks(batch) {
            Outcome::Committed => Ok(self.0.commit(std::slice::from_ref(batch))?.remove(0)),
            refused => Ok(refused),
        };
        batches.iter().map(each).collect()
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.0.keys(prefix)
    }
}

/// It took everything; whether it still has it, nobody knows, and it is said.
#[test]
fn who_may_not_look_is_told_so_at_the_end() {
    let store = Memory::default();
    let settings = Settings::default();
    let (flusher, _) = Flusher::open(Unseen(store.clone()), "nat", "a", settings).unwrap();
    let mut feed = flusher.feed();
    feed.change(flow(1));
    feed.hand_over_surely();
    assert_eq!(flusher.settle(Duration::from_secs(20)).waiting, 0);
    let status = flusher.close(Duration::from_secs(20));
    assert_eq!((status.waiting, status.trouble), (0, None));
    assert!(status.unseen.is_some_and(|why| why.contains("no HGET")));
}

/// An answer that was lost, a look in vain, and then the batch of before arrives after all: it is ours.
#[test]
fn a_batch_that_arrives_after_a_look_in_vain_is_taken_for_what_it_is() {
    let mut store = Memory::default();
    let mut writer = WriteBehind::new(Settings::default(), 7, []).unwrap();
    let mut now_ns = 0;
    writer.change(flow(1), 0).unwrap();
    go_on((&mut writer, &mut store), (&mut now_ns, 500 * MS), true);
    let commit = |writer: &mut WriteBehind, now_ns: &mut u64| loop {
        *now_ns += MS;
        match writer.next(*now_ns) {
            Action::Commit(batches) => break batches,
            Action::Wait(_) => {}
            Action::List(scope, _) => panic!("{scope} is to be listed"),
        }
    };
    writer.change(flow(2), now_ns).unwrap();
    let late = commit(&mut writer, &mut now_ns);
    writer.committed(Err(Error::unavailable("simulated", "no answer")), now_ns);
    let looks = commit(&mut writer, &mut now_ns);
    writer.committed(Ok(vec![Outcome::Lacks; looks.len()]), now_ns);
    assert_eq!(store.commit(&late).unwrap(), [Outcome::Committed]);
    let until_ns = now_ns + 5_000 * MS;
    go_on((&mut writer, &mut store), (&mut now_ns, until_ns), true);
    let status = writer.status(now_ns);
    assert_eq!((status.rebuilds, status.waiting), (1, 0), "lost once only");
    let mark = Mark::key(&scope()).unwrap();
    assert!(view::read(&mut store, &mark).unwrap().is_some());
    assert_eq!(view::state(&mut store, "nat", Some("a")).unwrap(), writer.copy().collect());
    assert_eq!(view::read(&mut store, &flows()).unwrap(), Some(content(&[1, 2])));
}

fn content(names: &[u8]) -> Content {
    Content::Map(names.iter().map(|name| (vec![*name], vec![1])).collect())
}
