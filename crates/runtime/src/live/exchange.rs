//! Between the workers of a live run: mailboxes, being woken, and the end.
//!
//! ```text
//!  worker a ───Mail───▶ bounded ring a→b ──▶ worker b
//!           ◀─emptied── bounded ring b→a ◀──
//! ```
//!
//! A ring has one sender and one receiver, so that the packets of a flow stay in order. A ring without
//! room is a drop, never a wait: two workers that waited for each other would wait for ever.
//!
//! **Invariant**: a worker that is asleep is woken by whoever gives it something. It says that it sleeps,
//! looks once more, and only then sleeps; who gives it something does so first and asks then.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Instant;

use crossbeam_utils::CachePadded;

use anabranch_nf::state::Bundle;

use crate::mailbox::Parcel;
use crate::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Parcels that may wait between two workers; each holds a batch at most.
pub(super) const MAILBOX: usize = 512;

/// What workers send each other.
pub(super) enum Mail {
    /// Packets.
    Parcel(Parcel),
    /// The sender has come to the next reassignment, at this time: no parcel behind this is of the table
    /// before.
    Fence(Instant),
    /// The state of shards that are the receiver's from now on.
    Bundle(Box<Bundle>),
}

/// What all workers and who started them see.
pub(super) struct Shared {
    /// Packets that each worker has handled so far.
    pub(super) handled: Vec<CachePadded<AtomicU64>>,
    /// Packets that each worker has received of each shard so far, where somebody watches.
    load: Vec<Box<[AtomicU64]>>,
    /// How often a worker has come to the end of a reassignment.
    changed: AtomicU64,
    /// Workers that are to look for orders.
    pub(super) ordered: Vec<CachePadded<AtomicBool>>,
    asleep: Vec<CachePadded<AtomicBool>>,
    wakers: Vec<UnixStream>,
    stopping: AtomicBool,
    /// A worker has panicked: nobody waits for it.
    failed: AtomicBool,
    /// Workers that receive no more and have handed over what they had to.
    quiet: AtomicUsize,
    /// Mail sent and not yet done with, and workers that are about to change hands.
    under_way: AtomicUsize,
}

impl Shared {
    /// Has every worker receive no more, and end when all that is under way has been handled.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for waker in &self.wakers {
            // A full stream wakes as well.
            let _ = { waker }.write(&[0]);
        }
    }

    /// Whether the run is to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Packets handled by all workers.
    pub(super) fn handled(&self) -> u64 {
        self.handled.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// A worker has panicked: nobody waits for it.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Where `worker` counts packets by shard.
    #[inline(always)]
    pub(super) fn load_of(&self, worker: usize) -> &[AtomicU64] {
        self.load.get(worker).map_or(&[], |load| load)
    }

    /// Packets of each shard so far.
    pub(super) fn load(&self) -> Vec<u64> {
        let shards = self.load.first().map_or(0, |load| load.len());
        let sum = |shard: usize| {
            let each = self.load.iter().filter_map(|load| load.get(shard));
            each.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        (0..shards).map(sum).collect()
    }

    /// All workers are about to be told that shards change hands: the run does not end before they have.
    pub(super) fn begin_change_of_hands(&self) {
        self.under_way.fetch_add(self.asleep.len(), Ordering::SeqCst);
    }

    /// Whether all workers have come to the end of the first `epoch` reassignments.
    pub(super) fn have_changed_hands(&self, epoch: u64) -> bool {
        self.changed.load(Ordering::SeqCst) >= epoch * self.asleep.len() as u64
    }

    /// A worker has come to the end of one.
    pub(super) fn has_changed_hands(&self) {
        self.changed.fetch_add(1, Ordering::SeqCst);
        self.done();
    }

    /// Something that was under way is done with.
    fn done(&self) {
        if self.under_way.fetch_sub(1, Ordering::SeqCst) == 1 && self.is_stopping() {
            self.stop();
        }
    }

    /// Wakes a worker that is asleep.
    pub(super) fn wake(&self, worker: usize) {
        fence(Ordering::SeqCst);
        let (Some(asleep), Some(mut waker)) = (self.asleep.get(worker), self.wakers.get(worker))
        else {
            return;
        };
        if asleep.swap(false, Ordering::SeqCst) {
            let _ = waker.write(&[0]);
        }
    }
}

/// Says so when a worker panics.
pub(super) struct Alarm(pub(super) Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::SeqCst);
            self.0.stop();
        }
    }
}

/// One worker's end of the exchange.
pub(super) struct Exchange {
    /// The worker's number.
    pub(super) worker: usize,
    /// What all see.
    pub(super) shared: Arc<Shared>,
    woken: UnixStream,
    /// To and from each worker; itself apart.
    lines: Vec<Option<Line>>,
    is_quiet: bool,
}

/// Rings to and from another worker.
struct Line {
    send: SyncSender<Mail>,
    /// Parcels of ours that it has emptied.
    emptied: Receiver<Parcel>,
    receive: Receiver<Mail>,
    give_back: SyncSender<Parcel>,
}

impl Exchange {
    /// The ends for `workers` workers, who count the packets of each of `shards` shards.
    ///
    /// # Errors
    /// The system has no more file descriptors.
    pub(super) fn between(workers: usize, shards: usize) -> std::io::Result<Vec<Self>> {
        let mut wakers = Vec::new();
        let mut woken = Vec::new();
        for _ in 0..workers {
            let (waker, one) = UnixStream::pair()?;
            waker.set_nonblocking(true)?;
            one.set_nonblocking(true)?;
            wakers.push(waker);
            woken.push(one);
        }
        let shared = Arc::new(Shared {
            handled: (0..workers).map(|_| CachePadded::default()).collect(),
            load: (0..workers).map(|_| (0..shards).map(|_| AtomicU64::new(0)).collect()).collect(),
            changed: AtomicU64::new(0),
            ordered: (0..workers).map(|_| CachePadded::default()).collect(),
            asleep: (0..workers).map(|_| CachePadded::default()).collect(),
            wakers,
            stopping: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            quiet: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
        });
        let mut lines = lines(workers);
        let ends = woken.into_iter().enumerate().map(|(worker, woken)| {
            let lines = lines.get_mut(worker).map(std::mem::take).unwrap_or_default();
            Self { worker, shared: Arc::clone(&shared), woken, lines, is_quiet: false }
        });
        Ok(ends.collect())
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.lines.len()
    }

    /// Sends something to `worker`. `Err`: its mailbox is full.
    pub(super) fn send(&self, worker: usize, mail: Mail) -> Result<(), Mail> {
        let Some(Some(line)) = self.lines.get(worker) else { return Err(mail) };
        self.shared.under_way.fetch_add(1, Ordering::SeqCst);
        match line.send.try_send(mail) {
            Ok(()) => {
                self.shared.wake(worker);
                Ok(())
            }
            Err(refused) => {
                self.shared.under_way.fetch_sub(1, Ordering::SeqCst);
                let (TrySendError::Full(mail) | TrySendError::Disconnected(mail)) = refused;
                Err(mail)
            }
        }
    }

    /// A parcel of this worker's to itself is under way: it is done with as others' are.
    pub(super) fn keep(&self) {
        self.shared.under_way.fetch_add(1, Ordering::SeqCst);
    }

    /// The next mail, and who sent it.
    pub(super) fn receive(&self) -> Option<(usize, Mail)> {
        let lines = self.lines.iter().enumerate();
        lines
            .filter_map(|(worker, line)| Some((worker, line.as_ref()?)))
            .find_map(|(worker, line)| Some((worker, line.receive.try_recv().ok()?)))
    }

    /// What `receive` gave is done with.
    pub(super) fn done(&self) {
        self.shared.done();
    }

    /// The same of a parcel, which goes back to its sender to be filled again.
    pub(super) fn settle(&self, sender: usize, parcel: Parcel) {
        if let Some(Some(line)) = self.lines.get(sender) {
            // Where there is no room, it is dropped.
            let _ = line.give_back.try_send(parcel);
        }
        self.done();
    }

    /// A parcel of this worker's that has been emptied.
    pub(super) fn emptied(&self) -> Option<Parcel> {
        self.lines.iter().flatten().find_map(|line| line.emptied.try_recv().ok())
    }

    /// What is readable when this worker is woken.
    pub(super) fn fd(&self) -> RawFd {
        self.woken.as_raw_fd()
    }

    /// This worker is about to sleep: it is woken from now on, and looks into its mailbox once more.
    pub(super) fn lie_down(&self) {
        if let Some(asleep) = self.shared.asleep.get(self.worker) {
            asleep.store(true, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    /// This worker is awake.
    pub(super) fn get_up(&self) {
        if let Some(asleep) = self.shared.asleep.get(self.worker) {
            asleep.store(false, Ordering::SeqCst);
        }
        let mut bytes = [0; 64];
        while { &self.woken }.read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }

    /// Whether this worker receives no more.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Receives no more, and has handed over all it had. True: so has everybody, and nothing is under way.
    pub(super) fn is_over(&mut self) -> bool {
        let Shared { quiet, under_way, failed, asleep, .. } = &*self.shared;
        if !std::mem::replace(&mut self.is_quiet, true) {
            quiet.fetch_add(1, Ordering::SeqCst);
            self.shared.stop();
        }
        let all = quiet.load(Ordering::SeqCst) == asleep.len();
        failed.load(Ordering::SeqCst) || all && under_way.load(Ordering::SeqCst) == 0
    }
}

/// Rings between all pairs of workers.
fn lines(workers: usize) -> Vec<Vec<Option<Line>>> {
    let mut all: Vec<Vec<Option<Line>>> = Vec::new();
    for _ in 0..workers {
        // To and from each worker that is there already; to itself there is none.
        let (mut own, others): (Vec<_>, Vec<_>) = all.iter().map(|_| pair()).unzip();
        all.iter_mut().zip(others).for_each(|(lines, other)| lines.push(other));
        own.push(None);
        all.push(own);
    }
    all
}

/// Both ends of the rings between two workers, each with one that brings emptied parcels back.
fn pair() -> (Option<Line>, Option<Line>) {
    let (to_b, to_a) = (sync_channel(MAILBOX), sync_channel(MAILBOX));
    let (from_b, from_a) = (sync_channel(MAILBOX), sync_channel(MAILBOX));
    let a = Line { send: to_b.0, emptied: from_b.1, receive: to_a.1, give_back: from_a.0 };
    let b = Line { send: to_a.0, emptied: from_a.1, receive: to_b.1, give_back: from_b.0 };
    (Some(a), Some(b))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use anabranch_packet::{Frame, Meta};

    fn parcel(number: u64) -> Mail {
        let mut bytes = [0; 60];
        let mut parcel = Parcel::default();
        parcel.push(&Frame::new(&mut bytes, 0, 60, 0, Meta { number, ..Meta::default() }), None);
        Mail::Parcel(parcel)
    }

    fn received(end: &Exchange) -> Option<(usize, Parcel)> {
        match end.receive()? {
            (sender, Mail::Parcel(parcel)) => Some((sender, parcel)),
            _ => unreachable!("only parcels are sent here"),
        }
    }

    #[test]
    fn parcels_stay_in_order_and_a_full_mailbox_refuses() {
        let ends = Exchange::between(3, 0).unwrap();
        for number in 0..MAILBOX as u64 {
            assert!(ends[2].send(0, parcel(number)).is_ok());
        }
        assert!(ends[2].send(0, parcel(0)).is_err(), "the mailbox is full");
        assert!(ends[1].send(0, parcel(7)).is_ok(), "each sender has a ring of its own");
        assert!(ends[1].send(1, parcel(7)).is_err(), "nobody sends to itself");
        let mut from_2 = Vec::new();
        while let Some((sender, mut parcel)) = received(&ends[0]) {
            if sender == 2 {
                from_2.extend(parcel.last_number());
            }
            parcel.clear();
            ends[0].settle(sender, parcel);
        }
        assert_eq!(from_2, (0..MAILBOX as u64).collect::<Vec<_>>());
        assert!(ends[2].emptied().is_some() && ends[1].emptied().is_some());
        assert!(ends[0].emptied().is_none());
    }

    #[test]
    fn the_run_ends_when_nothing_is_under_way() {
        let mut ends = Exchange::between(2, 0).unwrap();
        assert!(ends[0].send(1, parcel(1)).is_ok());
        ends[0].shared.stop();
        assert!(!ends[0].is_over() && !ends[1].is_over(), "a parcel is under way");
        let (sender, parcel) = received(&ends[1]).unwrap();
        ends[1].settle(sender, parcel);
        assert!(ends[0].is_over() && ends[1].is_over());
    }

    #[test]
    fn who_sleeps_is_woken() {
        let ends = Exchange::between(2, 0).unwrap();
        ends[1].lie_down();
        assert!(ends[1].receive().is_none());
        let waiting = std::time::Duration::from_secs(20);
        let started = Instant::now();
        std::thread::scope(|threads| {
            let fd = ends[1].fd();
            threads
                .spawn(move || anabranch_io::live::wait(&[fd], waiting, &mut Vec::new()).unwrap());
            std::thread::sleep(waiting / 400);
            assert!(ends[0].send(1, parcel(1)).is_ok());
        });
        assert!(started.elapsed() < waiting / 2);
        ends[1].get_up();
        assert!(ends[1].receive().is_some());
    }
}
