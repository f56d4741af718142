//! Threads whose transactions read and write at random; what each saw is compared with what one thread
//! would see that ran them in the order that they say they took.
#![cfg(not(loom))]

use std::ops::Range;
use std::sync::Arc;

use super::*;
use crate::sync::thread;
use crate::{Batch, Counts, Place, Worker};

/// An item: reads some objects and adds to some.
#[derive(Clone, Debug)]
struct Item {
    reads: Vec<u32>,
    adds: Vec<u32>,
    needs_alone: bool,
}

/// What an item saw, and where in the order; items of one transaction have the same place.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    place: Place,
    worker: usize,
    number: usize,
    values: Vec<u64>,
}

struct Work<'a> {
    memory: &'a Memory,
    worker: usize,
    items: &'a [Item],
    /// Items of earlier batches.
    before: usize,
    seen: Vec<Vec<u64>>,
    released: Vec<Seen>,
}

impl Work<'_> {
    fn item(&mut self, number: usize, transaction: &Transaction) {
        let item = &self.items[number];
        if item.needs_alone {
            transaction.require_alone();
        }
        let mut values = Vec::new();
        for &object in &item.reads {
            values.extend(transaction.get(self.memory, object));
        }
        for &object in &item.adds {
            let old = transaction.get(self.memory, object);
            values.extend(old);
            // So that every value tells its history.
            let new = old
                .unwrap_or(0)
                .wrapping_mul(31)
                .wrapping_add((self.worker * 1_000 + number) as u64);
            transaction.set(self.memory, object, new);
        }
        self.seen[number] = values;
    }
}

impl Batch for Work<'_> {
    fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
        for (ran, at) in range.clone().enumerate() {
            self.item(self.before + at, transaction);
            if transaction.is_doomed() {
                return ran + 1;
            }
        }
        range.len()
    }

    fn undo(&mut self, range: Range<usize>) {
        range.for_each(|at| self.seen[self.before + at].clear());
    }

    fn release(&mut self, range: Range<usize>, place: Place) {
        for number in range.map(|at| self.before + at) {
            let values = std::mem::take(&mut self.seen[number]);
            self.released.push(Seen { place, worker: self.worker, number, values });
        }
    }
}

/// Runs the items of each worker in batches of so many, and returns what they saw, in their order, and the
/// counts.
fn run(objects: u32, work: &[Vec<Item>], size: usize) -> (Vec<Seen>, Vec<Counts>) {
    let domain = Arc::new(Domain::new(work.len(), true));
    let memory = numbers(&domain, objects);
    // Whoever is the first to write has all others wait, and objects tracked.
    domain.settle();
    let threads: Vec<_> = (0..work.len())
        .map(|number| {
            let (domain, memory, items) =
                (Arc::clone(&domain), Arc::clone(&memory), work[number].clone());
            thread::spawn(move || {
                let mut worker = Worker::new(Arc::new(Transaction::new(&domain, number)));
                let mut work = Work {
                    memory: &memory,
                    worker: number,
                    items: &items,
                    before: 0,
                    seen: vec![Vec::new(); items.len()],
                    released: Vec::new(),
                };
                for batch in items.chunks(size) {
                    worker.handle(&mut work, batch.len());
                    work.before += batch.len();
                }
                (work.released, worker.counts())
            })
        })
        .collect();
    let (mut all, mut counts) = (Vec::new(), Vec::new());
    for thread in threads {
        let (seen, count) = thread.join().unwrap();
        all.extend(seen);
        counts.push(count);
    }
    all.sort_by_key(|seen| (seen.place, seen.worker, seen.number));
    (all, counts)
}

/// One thread, in that order, sees the same; and every item was committed once.
fn check(objects: u32, work: &[Vec<Item>], history: &[Seen]) {
    let mut state = vec![0u64; objects as usize];
    let mut done = vec![0; work.len()];
    for seen in history {
        assert_eq!(done[seen.worker], seen.number, "each worker's own order");
        done[seen.worker] += 1;
        let item = &work[seen.worker][seen.number];
        let mut values: Vec<u64> =
            item.reads.iter().map(|&object| state[object as usize]).collect();
        for &object in &item.adds {
            let old = state[object as usize];
            values.push(old);
            state[object as usize] =
                old.wrapping_mul(31).wrapping_add((seen.worker * 1_000 + seen.number) as u64);
        }
        assert_eq!(values, seen.values, "{seen:?} of {item:?}");
    }
    assert!(done.iter().zip(work).all(|(done, items)| *done == items.len()));
}

/// Random items, from a seed.
fn draw(seed: u64, workers: usize, items: usize, objects: u32) -> Vec<Vec<Item>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % below
    };
    let mut item = || Item {
        reads: (0..next(4)).map(|_| next(objects)).collect(),
        adds: (0..next(3)).map(|_| next(objects)).collect(),
        needs_alone: next(20) == 0,
    };
    (0..workers).map(|_| (0..items).map(|_| item()).collect()).collect()
}

#[test]
#[cfg(not(any(loom, shuttle)))]
fn threads_take_the_order_that_they_say() {
    let (items, seeds) = if cfg!(miri) { (20, 3) } else { (2_000, 60) };
    let (mut conflicts, mut turns, mut commits) = (0, 0, 0);
    for seed in 0..seeds {
        let (workers, objects) = (2 + seed as usize % 3, [2, 5, 40][seed as usize % 3]);
        let work = draw(seed, workers, items, objects);
        let (history, counts) = run(objects, &work, 1 + seed as usize % 7);
        check(objects, &work, &history);
        for counts in counts {
            conflicts += counts.conflicts;
            turns += counts.turns;
            commits += counts.commits;
        }
    }
    assert!(turns > 0 && commits > 0, "both ways: {turns} turns, {commits} commits");
    // On one core threads hardly ever meet; what is asserted is the order.
    println!("{conflicts} conflicts in {seeds} runs");
}

/// What all change at first and then nobody does is settled again, and tracked as soon as somebody does.
#[test]
#[cfg(not(any(loom, shuttle)))]
fn what_is_left_alone_settles_again() {
    let domain = Arc::new(Domain::new(1, true).with_turns(Some(false)));
    let memory = numbers(&domain, 1);
    domain.settle();
    let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
    let mut states = Vec::new();
    for adds in [1, 0, 1, 0] {
        let item = Item { reads: vec![0], adds: vec![0; adds], needs_alone: false };
        let items = vec![item; 40];
        let (seen, released) = (vec![Vec::new(); items.len()], Vec::new());
        let mut batch =
            Work { memory: &memory, worker: 0, items: &items, before: 0, seen, released };
        // One by one, as they come.
        for _ in 0..items.len() {
            worker.handle(&mut batch, 1);
        }
        states.push((memory.is_settled(), worker.counts().alone));
    }
    assert_eq!(states, [(false, 1), (true, 1), (false, 2), (true, 2)]);
}

/// Eight threads on one word: nobody is given up more than [`PATIENCE`](crate::PATIENCE) times.
#[test]
#[cfg(not(any(loom, shuttle)))]
fn nothing_starves() {
    let items = if cfg!(miri) { 10 } else { 5_000 };
    let hot = Item { reads: vec![0], adds: vec![0], needs_alone: false };
    let work = vec![vec![hot; items]; 8];
    let (history, counts) = run(1, &work, 32);
    check(1, &work, &history);
    for counts in counts {
        // Whoever finds the word settled is alone once.
        assert!(counts.alone <= 1, "{counts:?}");
        let ended = counts.items + counts.irrevocable + counts.alone + counts.turn_items;
        assert_eq!(ended, items as u64);
        // Each end, of a transaction, a turn or alone, comes after less than that many attempts in vain,
        // or exactly that many.
        let most = u64::from(crate::PATIENCE);
        let ends = counts.commits + counts.turns + counts.alone;
        assert!(counts.conflicts <= most * counts.irrevocable + (most - 1) * ends, "{counts:?}");
    }
}

#[test]
#[cfg(shuttle)]
fn every_schedule_takes_the_order_that_it_says() {
    for seed in 0..4 {
        let model = move || {
            let objects = [1, 2, 3, 4][seed as usize];
            // Workers begin to take turns, and then to run beside each other again, in the middle.
            let work = draw(seed, 3, 6, objects);
            let (history, counts) = run(objects, &work, 1);
            check(objects, &work, &history);
            assert!(counts.iter().any(|counts| counts.turns > 0), "{counts:?}");
            assert!(counts.iter().any(|counts| counts.commits > 0), "{counts:?}");
        };
        shuttle::check_random(model, 500);
        shuttle::check_pct(model, 500, 3);
    }
}
