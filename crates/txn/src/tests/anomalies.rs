//! What must not be seen, each by name: the phenomena of Adya's thesis ("Weak Consistency", MIT 1999,
//! chapter 3) and what a published multi-version engine (MV-RLU) gets wrong.
#![cfg(not(any(loom, shuttle)))]

use super::*;
use crate::{Cause, Deadline};

/// Two workers on objects 0 and 1, which are `x` and `y`.
struct Scene {
    memory: Arc<Memory>,
    a: Transaction,
    b: Transaction,
}

const X: u32 = 0;
const Y: u32 = 1;

impl Scene {
    /// Both begun; `x` is 1 and `y` is 2.
    fn new() -> Self {
        let domain = Arc::new(Domain::new(2, true));
        let memory = numbers(&domain, 100);
        let (a, b) = (Transaction::new(&domain, 0), Transaction::new(&domain, 1));
        a.begin();
        a.set(&memory, X, 1);
        a.set(&memory, Y, 2);
        a.commit().unwrap();
        a.begin();
        b.begin();
        Self { memory, a, b }
    }

    fn x(&self, who: &Transaction) -> Option<u64> {
        who.get(&self.memory, X)
    }

    fn y(&self, who: &Transaction) -> Option<u64> {
        who.get(&self.memory, Y)
    }

    fn set_x(&self, who: &Transaction, word: u64) {
        who.set(&self.memory, X, word);
    }

    fn set_y(&self, who: &Transaction, word: u64) {
        who.set(&self.memory, Y, word);
    }

    /// What a third party sees.
    fn end(&self) -> (u64, u64) {
        self.a.begin();
        (self.x(&self.a).unwrap(), self.y(&self.a).unwrap())
    }
}

/// Write cycles (G0): of two that write both objects, one's values stand.
#[test]
fn no_dirty_write() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    scene.set_x(a, 10);
    scene.set_x(b, 20);
    scene.set_y(b, 21);
    assert!(b.commit().is_ok());
    scene.set_y(a, 11);
    assert!(a.commit().is_err());
    assert_eq!(scene.end(), (20, 21));
}

/// Aborted and intermediate reads (G1a, G1b): what is not committed is not seen.
#[test]
fn no_dirty_read() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    scene.set_x(a, 10);
    assert_eq!(scene.x(b), Some(1));
    scene.set_x(a, 11);
    assert_eq!(scene.x(b), Some(1));
    a.begin();
    assert_eq!(scene.x(b), Some(1));
    assert!(b.commit().is_ok());
    assert_eq!(scene.end(), (1, 2));
}

/// Circular information flow (G1c): two that read what the other writes.
#[test]
fn no_circular_flow() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    scene.set_x(a, 10);
    scene.set_y(b, 20);
    let seen = (scene.y(a), scene.x(b));
    assert_eq!(seen, (Some(2), Some(1)));
    assert!(a.commit().is_ok());
    assert!(b.commit().is_err());
}

/// An observed transaction that vanishes (OTV): who has seen one write of a commit sees the others.
#[test]
fn nothing_observed_vanishes() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    scene.set_x(a, 10);
    scene.set_y(a, 11);
    a.commit().unwrap();
    assert_eq!((scene.x(b), scene.y(b)), (Some(10), Some(11)));
}

/// Lost update (P4).
#[test]
fn no_lost_update() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    let (of_a, of_b) = (scene.x(a).unwrap(), scene.x(b).unwrap());
    scene.set_x(a, of_a + 100);
    scene.set_x(b, of_b + 100);
    assert!(a.commit().is_ok());
    assert_eq!(b.commit(), Err(Cause::Conflict(scene.memory.number(), X)));
    assert_eq!(scene.end(), (101, 2));
}

/// Without a log of what was read nobody can catch up: what another has committed meanwhile is not seen, and nothing
/// is committed beside it. Who only reads what was there is not in its way.
#[test]
fn no_change_is_committed_unlogged_beside_another() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    b.begin_unlogged();
    assert_eq!(scene.x(b), Some(1));
    scene.set_y(a, 10);
    assert!(a.commit().is_ok());
    scene.set_x(b, 20);
    assert_eq!(b.commit(), Err(Cause::Overtaken), "it may have read what has changed");
    b.begin_unlogged();
    scene.set_x(b, 20);
    assert!(b.commit().is_ok(), "nobody has committed since");
    a.begin_unlogged();
    b.begin();
    scene.set_y(b, 21);
    assert!(b.commit().is_ok());
    assert_eq!(scene.x(a), Some(20), "as it was when it began");
    assert!(a.commit().is_ok());
    a.begin_unlogged();
    b.begin();
    scene.set_y(b, 22);
    assert!(b.commit().is_ok());
    assert_eq!((scene.y(a), a.commit()), (None, Err(Cause::Overtaken)));
    assert_eq!(scene.end(), (20, 22));
}

/// Also of workers further on than those whose versions are looked at at a glance.
#[test]
fn any_number_of_workers_sees_what_another_commits() {
    let domain = Arc::new(Domain::new(200, true));
    let memory = numbers(&domain, 10);
    let workers: Vec<_> = (0..200).map(|number| Transaction::new(&domain, number)).collect();
    for (number, worker) in workers.iter().enumerate() {
        match number % 3 {
            0 => worker.begin(),
            1 => worker.begin_unlogged(),
            _ => worker.begin_alone(),
        }
        assert_eq!(worker.get(&memory, X), Some(number as u64));
        worker.set(&memory, X, number as u64 + 1);
        assert!(worker.commit().is_ok());
    }
    workers[199].begin();
    workers[130].begin();
    workers[130].set(&memory, X, 7);
    assert!(workers[130].commit().is_ok());
    assert_eq!(workers[199].get(&memory, X), Some(7), "it catches up");
}

/// Read skew (G-single): half of a commit is not seen, and who has read the old half gets no more.
#[test]
fn no_read_skew() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    assert_eq!(scene.x(b), Some(1));
    scene.set_x(a, 10);
    scene.set_y(a, 11);
    a.commit().unwrap();
    assert_eq!(scene.y(b), None, "12 was never the sum");
    assert!(b.is_doomed());
    assert_eq!(scene.x(b), None, "doomed is doomed");
    assert_eq!(b.commit(), Err(Cause::Conflict(scene.memory.number(), X)));
    b.begin();
    assert_eq!((scene.x(b), scene.y(b)), (Some(10), Some(11)));
}

/// Write skew (G2-item): each reads both, and writes another one.
#[test]
fn no_write_skew() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    for who in [a, b] {
        assert_eq!(scene.x(who).unwrap() + scene.y(who).unwrap(), 3);
    }
    scene.set_x(a, 0);
    scene.set_y(b, 0);
    assert!(a.commit().is_ok());
    assert!(b.commit().is_err());
    assert_eq!(scene.end(), (0, 2));
}

/// The read-only transaction that sees what no order explains (Fekete, O'Neil, O'Neil 2004).
#[test]
fn no_read_only_anomaly() {
    let scene = Scene::new();
    let Scene { a, b, memory } = &scene;
    let domain = a.domain();
    // b reads both and will take from x; a adds to y and commits; a reads both.
    let (x, y) = (scene.x(b).unwrap(), scene.y(b).unwrap());
    scene.set_y(a, 20);
    a.commit().unwrap();
    let reader = Transaction::new(domain, 0);
    reader.begin();
    assert_eq!((reader.get(memory, X), reader.get(memory, Y)), (Some(1), Some(20)));
    assert!(reader.commit().is_ok());
    scene.set_x(b, x + y);
    assert!(b.commit().is_err(), "it would have been before a, and after the reader");
}

/// Phantoms (G2): an absence that was read is validated like a value.
#[test]
fn no_phantom() {
    let domain = Arc::new(Domain::new(2, false));
    struct Pair;
    impl crate::Entry for Pair {
        const KEY: usize = 1;
        const VALUE: usize = 1;
        const DEADLINE: bool = false;
    }
    let map = crate::Map::<Pair>::new(&domain, 10_000);
    let (a, b) = (Transaction::new(&domain, 0), Transaction::new(&domain, 1));
    let absent = |who: &Transaction, key: u64| map.look(who, key << 40, [key], |_, _| ()).is_none();
    a.begin();
    b.begin();
    assert!(absent(&a, 1) && absent(&a, 2) && absent(&b, 1) && absent(&b, 2));
    map.insert(&a, 1 << 40, &[1], &[0], 0).unwrap();
    map.insert(&b, 2 << 40, &[2], &[0], 0).unwrap();
    assert!(a.commit().is_ok());
    assert!(b.commit().is_err(), "each entered because the other was not there");
}

/// What was committed before another began is there for it: the answer finds the mapping.
#[test]
fn what_is_committed_is_there_for_whoever_begins() {
    let scene = Scene::new();
    let Scene { a, b, .. } = &scene;
    for round in 1..if cfg!(miri) { 50 } else { 1_000 } {
        let (writer, reader) = if round % 2 == 0 { (a, b) } else { (b, a) };
        writer.begin();
        scene.set_x(writer, round);
        writer.commit().unwrap();
        reader.begin();
        assert_eq!(scene.x(reader), Some(round));
        assert!(reader.commit().is_ok());
    }
}

/// A second write of an object, and a read of what was written, are the transaction's own (MV-RLU
/// fails the second lock, and reads what was there before).
#[test]
fn reads_its_own_writes_and_writes_again() {
    let scene = Scene::new();
    let Scene { a, .. } = &scene;
    scene.set_x(a, 10);
    assert_eq!(scene.x(a), Some(10));
    scene.set_x(a, scene.x(a).unwrap() + 1);
    assert_eq!(scene.x(a), Some(11));
    a.commit().unwrap();
    assert_eq!(scene.end(), (11, 2));
}

/// One worker that changes a hot object again and again is never in its own way (MV-RLU is, within the
/// uncertainty of its clock).
#[test]
fn is_not_in_its_own_way() {
    let scene = Scene::new();
    let Scene { a, .. } = &scene;
    let rounds = if cfg!(miri) { 100 } else { 10_000 };
    for _ in 0..rounds {
        a.begin();
        scene.set_x(a, scene.x(a).unwrap() + 1);
        assert!(a.commit().is_ok());
    }
    assert_eq!(scene.end().0, rounds + 1);
}

/// However much was written, readers go on, and memory stays what it was (MV-RLU blocks readers when
/// three quarters of its log are full).
#[test]
fn a_reader_of_long_standing_holds_nobody_up() {
    let scene = Scene::new();
    let Scene { a, b, memory } = &scene;
    let bytes = memory.bytes();
    assert_eq!(b.get(memory, 50), Some(0));
    for round in 0..100_000 {
        a.begin();
        a.set(memory, round % 40, u64::from(round));
        assert!(a.commit().is_ok());
    }
    assert_eq!(b.get(memory, 50), Some(0), "the reader goes on");
    assert_eq!(
        b.get(memory, 39),
        Some(99_999),
        "and catches up, since nothing it read has changed"
    );
    assert_eq!(memory.bytes(), bytes);
}

/// A raise is no change, but does not outlive its generation.
#[test]
fn a_deadline_is_raised_only_in_its_generation() {
    let domain = Arc::new(Domain::new(2, false));
    let memory = domain.memory(Shape { objects: 1, tracked: 1, deadlines: 1, apart: true });
    let (a, b) = (Transaction::new(&domain, 0), Transaction::new(&domain, 1));
    let deadline =
        |who: &Transaction| who.read(&memory, 0, |words| Deadline::from_word(words.get(1)));
    let first = Deadline { generation: 0, tick: 10 };
    for who in [&a, &b] {
        who.begin();
        assert_eq!(deadline(who), Some(Deadline::default()));
        who.raise(&memory, 0, 1, Deadline { tick: 10 + 5 * who.worker() as u32, ..first });
    }
    assert!(b.commit().is_ok() && a.commit().is_ok());
    a.begin();
    assert_eq!(deadline(&a), Some(Deadline { tick: 15, ..first }), "the latest counts");
    b.begin();
    assert!(deadline(&b).is_some());
    b.raise(&memory, 0, 1, Deadline { tick: 99, ..first });
    a.write(&memory, 0, |words| words.set(1, Deadline::from_word(words.get(1)).renewed(3).word()));
    assert!(a.commit().is_ok() && b.commit().is_ok());
    a.begin();
    assert_eq!(deadline(&a), Some(Deadline { generation: 1, tick: 3 }));
}

/// A raise while a copy is under way is not lost when the copy is stored.
#[test]
fn a_raise_survives_the_change_of_another_word() {
    let domain = Arc::new(Domain::new(2, false));
    let memory = domain.memory(Shape { objects: 1, tracked: 1, deadlines: 1, apart: true });
    let (a, b) = (Transaction::new(&domain, 0), Transaction::new(&domain, 1));
    a.begin();
    a.set(&memory, 0, 7);
    b.begin();
    b.raise(&memory, 0, 1, Deadline { generation: 0, tick: 42 });
    assert!(b.commit().is_ok() && a.commit().is_ok());
    b.begin();
    assert_eq!(b.read(&memory, 0, |words| (words.get(0), words.get(1))), Some((7, 42)));
}

/// Who began before sees a raise: by then it must not matter, so that what ends before the horizon is raised by who
/// is alone.
#[test]
fn nobody_lives_on_by_a_raise_that_comes_after() {
    let domain = Arc::new(Domain::new(2, true));
    let memory = domain.memory(Shape { objects: 2, tracked: 1, deadlines: 1, apart: true });
    let (a, b) = (Transaction::new(&domain, 0), Transaction::new(&domain, 1));
    let ends = |who: &Transaction, object| {
        who.read(&memory, object, |words| Deadline::from_word(words.get(1)).tick)
    };
    let raise = |who: &Transaction, object, tick| {
        who.raise(&memory, object, 1, Deadline { generation: 0, tick });
    };
    b.begin_alone();
    (0..2).for_each(|object| raise(&b, object, 10 + object));
    b.set_horizon(11);
    a.begin();
    b.begin();
    raise(&b, 0, 50);
    assert_eq!(b.commit(), Err(Cause::Alone));
    assert_eq!((ends(&a, 0), a.commit().is_ok()), (Some(10), true), "as it was when it began");
    b.begin_alone();
    raise(&b, 0, 50);
    a.begin();
    b.begin();
    raise(&b, 1, 50);
    assert!(b.commit().is_ok() && a.place() < b.place());
    assert_eq!(ends(&a, 1), Some(50), "nobody is at 11, when it would have ended");
}

/// More than there is room for is said, not lost.
#[test]
fn what_is_too_large_says_so() {
    let domain = Arc::new(Domain::new(1, false));
    let memory = numbers(&domain, 10_000);
    let a = Transaction::new(&domain, 0);
    a.begin();
    (0..10_000).for_each(|object| a.set(&memory, object, 1));
    assert_eq!(a.commit(), Err(Cause::TooLarge));
    a.begin();
    assert!((0..10_000).any(|object| a.get(&memory, object).is_none()));
    assert_eq!(a.commit(), Err(Cause::TooLarge));
    a.begin_alone();
    (0..10_000).for_each(|object| a.set(&memory, object, u64::from(object)));
    a.begin();
    assert!((0..1_000).all(|object| a.get(&memory, object) == Some(object.into())));
}

/// What is taken to be settled is read untracked, until somebody changes it: alone, and tracked from
/// then on.
#[test]
fn nothing_settled_changes_beside_others() {
    let domain = Arc::new(Domain::new(2, true));
    let (memory, other) = (numbers(&domain, 10), numbers(&domain, 10));
    domain.settle();
    let (a, b) = (Transaction::new(&domain, 0), Transaction::new(&domain, 1));
    b.begin();
    assert_eq!(b.get(&memory, X), Some(0));
    a.begin();
    a.set(&memory, X, 1);
    assert!(a.is_doomed(), "b would not notice");
    assert_eq!((a.get(&memory, X), a.get(&other, X)), (None, None), "doomed is doomed");
    assert_eq!(a.commit(), Err(Cause::Settled(memory.number())));
    assert!(b.commit().is_ok());

    a.begin_alone();
    a.set(&memory, X, 1);
    b.begin();
    assert_eq!(b.get(&memory, X), Some(1));
    a.begin();
    a.set(&memory, X, 2);
    assert!(a.commit().is_ok(), "it is tracked now");
    b.set(&memory, Y, 7);
    assert_eq!(b.commit(), Err(Cause::Conflict(memory.number(), X)));

    b.begin();
    b.set(&other, Y, 7);
    assert_eq!(b.commit(), Err(Cause::Settled(other.number())), "the others still are settled");
}
