//! What is asked of a living run, and how it comes to the workers.
//!
//! ```text
//!  socket, metrics, program ──Request──▶ watcher ──Order──▶ worker: between two batches
//!                            ◀──answer──         ◀──answer──
//! ```
//!
//! Nobody reads what a worker writes while it writes: a worker that is asked tells, between two batches.
//! A batch pays for one relaxed load.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::exchange::Shared;
use super::tap::{Copies, Tap};
use super::worker::End;
use crate::events::of_all;
use crate::report::RunReport;
use crate::worker::Reassignment;

/// Longest time that workers may take for an answer: they look for orders between batches.
const PATIENCE: Duration = Duration::from_secs(5);

/// What may be asked of a living run. Whoever asks may leave before the answer comes.
#[derive(Debug)]
pub enum Request {
    /// What the run would say of itself if it ended now.
    Report(Sender<RunReport>),
    /// Has the NF carry out a command, by every worker that has state of its own.
    Command {
        /// As in `add-backend address=10.0.0.1 port=80`.
        text: String,
        /// Where it is said whether it was carried out, or else why not.
        answer: Sender<Result<(), String>>,
    },
    /// Copies packets from now on, until the other end is dropped.
    Copy {
        /// Which, as [`Filter::read`](super::Filter::read) reads it.
        filter: String,
        /// Where the copies can be had, or what is wrong with the filter.
        answer: Sender<Result<Copies, String>>,
    },
}

/// What a worker is told to do.
pub(super) enum Order<C> {
    /// Says what it has done so far.
    Tell(Sender<(usize, End)>),
    /// Has the NF carry out a command.
    CarryOut(C, Sender<Result<(), &'static str>>),
    /// Copies packets.
    Copy(Tap),
    /// Has shards change hands, as all others do.
    Reassign(Reassignment),
}

/// What watches the workers gives them their orders by.
pub(super) struct Orders<C> {
    shared: Arc<Shared>,
    workers: Vec<Sender<Order<C>>>,
    /// Workers with state of their own; the first alone where all share one.
    with_state: usize,
}

impl<C: Clone> Orders<C> {
    /// A way to each worker of `shared`, and its ends there.
    pub(super) fn new(shared: Arc<Shared>, is_shared: bool) -> (Self, Vec<Receiver<Order<C>>>) {
        let (workers, ends): (Vec<_>, Vec<_>) = shared.handled.iter().map(|_| channel()).unzip();
        let with_state = if is_shared { 1 } else { workers.len() };
        (Self { shared, workers, with_state }, ends)
    }

    /// What each worker has done so far, in their order; of those that do not answer, nothing.
    pub(super) fn tell(&self) -> Vec<End> {
        let (tell, told) = channel();
        let sent = self.give(self.workers.len(), || Order::Tell(tell.clone()));
        drop(tell);
        let mut ends = answers(&told, sent);
        ends.sort_by_key(|(worker, _)| *worker);
        ends.into_iter().map(|(_, end)| end).collect()
    }

    /// Has the NF carry out `command`.
    ///
    /// # Errors
    /// Why the NF refused it, or that workers do not answer.
    pub(super) fn carry_out(&self, command: &C) -> Result<(), String> {
        let (tell, told) = channel();
        let sent = self.give(self.with_state, || Order::CarryOut(command.clone(), tell.clone()));
        drop(tell);
        let done = answers(&told, sent);
        if done.len() < self.with_state {
            return Err("the run is ending: not every worker has carried it out".to_owned());
        }
        of_all(done).map_err(|why| format!("the NF refused the command: {why}"))
    }

    /// Has every worker copy packets.
    pub(super) fn copy(&self, tap: &Tap) {
        self.give(self.workers.len(), || Order::Copy(tap.clone()));
    }

    /// Has all workers have shards change hands.
    pub(super) fn reassign(&self, step: &Reassignment) {
        self.give(self.workers.len(), || Order::Reassign(step.clone()));
    }

    /// Gives the first `count` workers an order each, and returns how many took it.
    fn give(&self, count: usize, mut order: impl FnMut() -> Order<C>) -> usize {
        let workers = self.workers.iter().enumerate().take(count);
        let given = workers.filter(|(worker, line)| {
            let given = line.send(order()).is_ok();
            self.shared.order(*worker);
            given
        });
        given.count()
    }
}

fn answers<T>(told: &Receiver<T>, count: usize) -> Vec<T> {
    (0..count).map_while(|_| told.recv_timeout(PATIENCE).ok()).collect()
}

impl Shared {
    /// Has `worker` look for orders.
    fn order(&self, worker: usize) {
        if let Some(ordered) = self.ordered.get(worker) {
            ordered.store(true, Ordering::Release);
        }
        self.wake(worker);
    }

    /// Whether there are orders for `worker`, which takes them now.
    #[inline(always)]
    pub(super) fn takes_orders(&self, worker: usize) -> bool {
        let Some(ordered) = self.ordered.get(worker) else { return false };
        ordered.load(Ordering::Relaxed) && ordered.swap(false, Ordering::Acquire)
    }
}
