//! Two threads whose items take so long beside each other, and so long in turns: they are to find out.
#![cfg(not(any(loom, shuttle)))]

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::{Batch, Counts, Place, Worker};

/// An item that takes its time, and reads a word or changes it.
struct Slow<'a> {
    memory: &'a Memory,
    writes: bool,
    alone_us: u64,
    beside_us: u64,
}

impl Slow<'_> {
    fn item(&self, transaction: &Transaction, takes_us: u64) {
        let word = transaction.get(self.memory, 0).unwrap_or(0);
        thread::sleep(Duration::from_micros(takes_us));
        if self.writes {
            transaction.set(self.memory, 0, word + 1);
        }
    }
}

impl Batch for Slow<'_> {
    fn run(&mut self, _: Range<usize>, transaction: &Transaction) -> usize {
        self.item(transaction, self.beside_us);
        1
    }
    fn run_alone(&mut self, _: Range<usize>, transaction: &Transaction) -> usize {
        self.item(transaction, self.alone_us);
        1
    }
    fn undo(&mut self, _: Range<usize>) {}
    fn release(&mut self, _: Range<usize>, _: Place) {}
}

/// Has each worker handle so many items, at the same time, and returns what became of them and the word.
fn together(workers: &mut [Worker], item: &Slow<'_>, items: u64) -> (Vec<Counts>, u64) {
    let before: Vec<Counts> = workers.iter().map(Worker::counts).collect();
    thread::scope(|threads| {
        for worker in workers.iter_mut() {
            let mut item = Slow { ..*item };
            threads.spawn(move || {
                for _ in 0..items {
                    worker.handle(&mut item, 1);
                    // The next one is received meanwhile.
                    thread::sleep(Duration::from_micros(20));
                }
            });
        }
    });
    let more = |(worker, before): (&Worker, Counts)| {
        let now = worker.counts();
        Counts {
            commits: now.commits - before.commits,
            turns: now.turns - before.turns,
            alone: now.alone - before.alone,
            irrevocable: now.irrevocable - before.irrevocable,
            ..now
        }
    };
    let counts = workers.iter().zip(before).map(more).collect();
    (counts, workers[0].alone(|transaction| transaction.get(item.memory, 0)).unwrap())
}

fn sum(counts: &[Counts], of: impl Fn(&Counts) -> u64) -> u64 {
    counts.iter().map(of).sum()
}

/// All write one word, and what is done beside others takes longer and is done in vain: they take turns. Then
/// all only read, at the same time: they take none. Both again. They find out before long, however busy the
/// machine is.
#[test]
fn turns_are_taken_where_they_are_faster() {
    const ITEMS: u64 = 100;
    const CHANCES: usize = if cfg!(miri) { 5 } else { 20 };
    let domain = Arc::new(Domain::new(2, false));
    let memory = numbers(&domain, 1);
    domain.settle();
    let new = |worker| Worker::new(Arc::new(Transaction::new(&domain, worker)));
    let mut workers: Vec<Worker> = (0..2).map(new).collect();
    let writing = Slow { memory: &memory, writes: true, alone_us: 50, beside_us: 600 };
    let reading = Slow { memory: &memory, writes: false, alone_us: 200, beside_us: 200 };
    let mut written = 0;
    for item in [&writing, &reading, &writing, &reading] {
        let mut find_out = || {
            let (counts, word) = together(&mut workers, item, ITEMS);
            written += if item.writes { 2 * ITEMS } else { 0 };
            assert_eq!(word, written, "each is counted once");
            let all = |one: &Counts| one.turns + one.commits + one.alone + one.irrevocable;
            assert!(counts.iter().all(|one| all(one) == ITEMS), "{counts:?}");
            match item.writes {
                true => sum(&counts, |one| one.turns) > ITEMS * 3 / 2,
                false => sum(&counts, |one| one.commits) > ITEMS * 3 / 2,
            }
        };
        assert!((0..CHANCES).any(|_| find_out()), "they write: {}", item.writes);
    }
}
