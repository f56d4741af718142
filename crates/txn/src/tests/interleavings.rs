//! Two workers, one transaction each, in every interleaving and with every reordering that the memory
//! model allows. Nothing but the objects and the counts of commits is between them: no gate, and no
//! order of all, which would keep them in step.
#![cfg(loom)]

use super::*;
use crate::sync::thread;

/// Runs `a` and `b` on two objects of two words, all 0, and gives what they returned and what both objects are
/// in the end to `check`.
fn explore(
    a: fn(&Transaction, &Memory) -> Option<(u64, u64)>,
    b: fn(&Transaction, &Memory) -> Option<(u64, u64)>,
    check: fn([Option<(u64, u64)>; 2], (u64, u64)),
) {
    model(move || {
        let domain = Arc::new(Domain::new(2, false));
        let memory = domain.memory(Shape { objects: 2, tracked: 2, deadlines: 0, apart: true });
        domain.memories();
        let (there, other) = (Arc::clone(&domain), Arc::clone(&memory));
        let thread = thread::spawn(move || b(&Transaction::new(&there, 1), &other));
        let returned = [a(&Transaction::new(&domain, 0), &memory), thread.join().unwrap()];
        let last = Transaction::new(&domain, 0);
        last.begin();
        check(returned, (last.get(&memory, 0).unwrap(), last.get(&memory, 1).unwrap()));
    });
}

fn skew(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
    let own = transaction.worker() as u32;
    let seen = transaction.get(memory, 1 - own)?;
    if seen == 0 {
        transaction.set(memory, own, 1);
    }
    transaction.commit().is_ok().then_some((seen, 0))
}

fn logged_skew(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
    transaction.begin();
    skew(transaction, memory)
}

fn unlogged_skew(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
    transaction.begin_unlogged();
    skew(transaction, memory)
}

/// Both read what the other one writes.
#[test]
fn no_write_skew() {
    explore(logged_skew, logged_skew, |returned, end| assert_ne!(end, (1, 1), "{returned:?}"));
}

/// One of them, or both, without a log of what they read.
#[test]
fn no_write_skew_unlogged() {
    for other in [logged_skew, unlogged_skew] {
        explore(unlogged_skew, other, |returned, end| assert_ne!(end, (1, 1), "{returned:?}"));
    }
}

/// One changes both, the other reads both.
#[test]
fn no_torn_read() {
    fn write(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
        transaction.begin();
        transaction.set(memory, 0, 1);
        transaction.set(memory, 1, 1);
        transaction.commit().is_ok().then_some((1, 1))
    }
    fn read(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
        let seen = (transaction.get(memory, 0)?, transaction.get(memory, 1)?);
        transaction.commit().is_ok().then_some(seen)
    }
    fn logged(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
        transaction.begin();
        read(transaction, memory)
    }
    fn unlogged(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
        transaction.begin_unlogged();
        read(transaction, memory)
    }
    for reader in [logged, unlogged] {
        explore(write, reader, |[written, seen], end| {
            assert!(written.is_some() && end == (1, 1), "readers are in nobody's way");
            assert!(seen.is_none_or(|(x, y)| x == y), "{seen:?}");
        });
    }
}

/// An object of two words, changed and read.
#[test]
fn no_torn_object() {
    fn write(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
        transaction.begin();
        transaction.write(memory, 0, |words| (words.set(0, 1), words.set(1, 1)));
        transaction.commit().is_ok().then_some((1, 1))
    }
    fn read(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
        transaction.begin_unlogged();
        transaction.read(memory, 0, |words| (words.get(0), words.get(1)))
    }
    explore(write, read, |[_, seen], _| {
        assert!(seen.is_none_or(|(x, y)| x == y), "{seen:?}");
    });
}

/// Two add to the same object: both count, or one was told that it does not.
#[test]
fn no_lost_update() {
    fn one(transaction: &Transaction, memory: &Memory) -> Option<(u64, u64)> {
        transaction.begin();
        let seen = transaction.get(memory, 0)?;
        transaction.set(memory, 0, seen + 1);
        transaction.commit().is_ok().then_some((seen, seen + 1))
    }
    explore(one, one, |returned, end| {
        let committed = returned.iter().flatten().count() as u64;
        assert_eq!(end.0, committed, "{returned:?}");
    });
}
