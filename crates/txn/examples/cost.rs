//! What reading and writing in transactions cost: `cost READS WRITES TRANSACTIONS [plain|settled|logged] [after]`,
//! one worker, objects of one word in cache. `settled`: nobody changes what is read; `logged`: transactions log
//! what they read, as they do where others commit beside them; `after`: reads come after the writes, so that each
//! looks whether it is of what has been written; `plain`: the reads are of an array of as large objects, in no
//! transaction. Prints nanoseconds per transaction.
//!
//! The cost of a read is the difference between two runs of more and fewer, less the same of `plain`: in time, or
//! in instructions, which `valgrind --tool=callgrind` counts and which repeat exactly.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anabranch_txn::{Batch, Domain, Memory, Place, Shape, Transaction, Worker};

/// Reads and writes spread over as many objects.
const OBJECTS: u32 = 256;

struct Work {
    plain: Option<Box<[[AtomicU64; 8]]>>,
    read: Arc<Memory>,
    written: Arc<Memory>,
    reads: u32,
    writes: u32,
    is_after: bool,
    sum: u64,
}

/// Objects of one word, however many there are.
const SHAPE: Shape = Shape { objects: 0, tracked: 1, deadlines: 0, apart: true };

impl Work {
    fn write(&self, transaction: &Transaction) {
        for object in 0..self.writes {
            transaction.write(&self.written, object % OBJECTS, |words| words.set(0, self.sum));
        }
    }
}

impl Batch for Work {
    fn run(&mut self, range: Range<usize>, transaction: &Transaction) -> usize {
        if let Some(plain) = &self.plain {
            for object in 0..self.reads {
                let object = &plain[(object % OBJECTS) as usize];
                self.sum = self.sum.wrapping_add(object[1].load(Ordering::Relaxed));
            }
            return range.len();
        }
        if self.is_after {
            self.write(transaction);
        }
        for object in 0..self.reads {
            let object = (object % OBJECTS, SHAPE);
            let read = transaction.read_of(&self.read, object, |words| words.get(0));
            self.sum = self.sum.wrapping_add(read.unwrap_or_default());
        }
        if !self.is_after {
            self.write(transaction);
        }
        range.len()
    }

    fn undo(&mut self, _: Range<usize>) {}

    fn release(&mut self, _: Range<usize>, _: Place) {}
}

fn main() {
    let mut numbers = std::env::args().skip(1).map_while(|text| text.parse::<u32>().ok());
    let mut next = |otherwise| numbers.next().unwrap_or(otherwise);
    let (reads, writes, count) = (next(32), next(0), next(100_000));
    let asks = |wanted: &str| std::env::args().any(|word| word == wanted);
    let domain = Domain::new(2, false).with_turns(Some(false));
    let domain = Arc::new(if asks("logged") { domain.with_read_logs() } else { domain });
    let memory = || domain.memory(Shape { objects: OBJECTS, ..SHAPE });
    let (read, written) = (memory(), memory());
    if asks("settled") {
        domain.settle();
    }
    let plain = asks("plain").then(|| (0..OBJECTS).map(|_| Default::default()).collect());
    let is_after = asks("after");
    let mut work = Work { plain, read, written, reads, writes, is_after, sum: 0 };
    let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
    let started = Instant::now();
    for _ in 0..count {
        worker.handle(&mut work, 1);
    }
    let ns = started.elapsed().as_nanos() as f64 / f64::from(count.max(1));
    println!("{reads} reads, {writes} writes: {ns:.1} ns a transaction ({})", black_box(work.sum));
}
