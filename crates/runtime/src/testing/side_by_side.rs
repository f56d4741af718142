//! Running an NF under the lock, and doing the same once more on one core.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread::{ScopedJoinHandle, scope};

use anabranch_nf::state::TableUse;
use anabranch_nf::{Line, NetworkFunction};
use anabranch_packet::{Frame, Meta, Port};

use super::{Outcome, Record, SEED, START_NS, started};
use crate::instance::{BATCH, Instance};
use crate::lock::{Access, Commit, Lock, Sides};

/// A packet to be handled.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Number of the port.
    pub port: u8,
    /// When, in nanoseconds since [`START_NS`].
    pub after_ns: u64,
    /// The captured bytes.
    pub bytes: Vec<u8>,
    /// Bytes on the wire.
    pub wire_len: u32,
}

/// What an NF did with packets.
#[derive(Debug, PartialEq, Eq)]
pub struct Done {
    /// What became of each, by its number.
    pub outcomes: BTreeMap<u64, Outcome>,
    /// How full each state object was at the end.
    pub tables: Vec<TableUse>,
    /// The NF's counters.
    pub counters: Vec<(&'static str, u64)>,
    /// What it logged, in order of time.
    pub logged: Vec<(u64, String)>,
}

/// A run under the lock.
#[derive(Debug)]
pub struct SideBySide {
    /// What came of it.
    pub done: Done,
    /// The packets in the order in which they took effect.
    pub order: Vec<Commit>,
    /// How they ended.
    pub sides: Sides,
}

impl SideBySide {
    /// Has as many threads as there are `shares` handle the packets of their share, numbered by
    /// their place in `packets`, in batches of up to `batch`.
    ///
    /// # Panics
    /// If the settings are wrong.
    pub fn run<N: NetworkFunction>(
        settings: &toml::Table,
        packets: &[Arrived],
        shares: &[Vec<usize>],
        batch: usize,
    ) -> Self {
        let (instance, ports) = made::<N>(settings);
        let accesses = Lock::share(instance, SEED, shares.len(), true);
        let together = Barrier::new(shares.len());
        let part = |(mut access, share): (Access<N>, &Vec<usize>)| {
            let mut record = Record::new::<N>(ports);
            together.wait();
            for numbers in share.chunks(batch.clamp(1, BATCH)) {
                handle(&mut access, numbers, packets, &mut record);
            }
            Part::of(access, record)
        };
        let parts: Vec<_> = scope(|threads| {
            let all = accesses.into_iter().zip(shares);
            let all: Vec<_> = all.map(|one| threads.spawn(|| part(one))).collect();
            let ended = all.into_iter().map(ScopedJoinHandle::join);
            ended.map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        Self::of(parts, Record::new::<N>(ports))
    }

    /// Has this thread handle the packets of `workers` workers in these turns, each a worker and the
    /// packets that it handles next: however far one is behind another, the same every time.
    ///
    /// # Panics
    /// If the settings are wrong, or there is no such worker.
    pub fn take_turns<N: NetworkFunction>(
        settings: &toml::Table,
        packets: &[Arrived],
        workers: usize,
        turns: &[(usize, Vec<usize>)],
    ) -> Self {
        let (instance, ports) = made::<N>(settings);
        let accesses = Lock::share(instance, SEED, workers, true);
        let new = |access| (access, Record::new::<N>(ports));
        let mut all: Vec<_> = accesses.into_iter().map(new).collect();
        for (worker, numbers) in turns {
            let (access, record) = &mut all[*worker];
            handle(access, numbers, packets, record);
        }
        let parts = all.into_iter().map(|(access, record)| Part::of(access, record)).collect();
        Self::of(parts, Record::new::<N>(ports))
    }

    fn of<N: NetworkFunction>(parts: Vec<Part<N>>, mut all: Record) -> Self {
        let (mut order, mut sides) = (Vec::new(), Sides::default());
        let (mut lines, mut last) = (Vec::new(), None);
        for part in parts {
            all.outcomes.extend(part.record.outcomes);
            order.extend(part.order);
            lines.extend(part.lines);
            sides.readers += part.sides.readers;
            sides.upgraded += part.sides.upgraded;
            last = last.or(part.instance);
        }
        order.sort_unstable();
        let Some(instance) = last else { unreachable!("some worker is the last") };
        Self { done: done(instance, all, lines), order, sides }
    }

    /// What one core makes of the packets in the order of this run.
    ///
    /// # Panics
    /// If the settings are wrong.
    pub fn replay<N: NetworkFunction>(&self, settings: &toml::Table, packets: &[Arrived]) -> Done {
        let (mut instance, ports) = made::<N>(settings);
        let (mut record, mut lines) = (Record::new::<N>(ports), Vec::new());
        for commit in &self.order {
            let one = (commit.number as usize, &packets[commit.number as usize], commit.time_ns);
            with_frames([one].into_iter(), |frames| {
                instance.handle(frames, &mut record);
            });
            lines.append(&mut instance.environment().log().take());
        }
        done(instance, record, lines)
    }
}

/// What a worker did.
struct Part<N: NetworkFunction> {
    record: Record,
    order: Vec<Commit>,
    sides: Sides,
    lines: Vec<Line>,
    instance: Option<Instance<N>>,
}

impl<N: NetworkFunction> Part<N> {
    fn of(mut access: Access<N>, record: Record) -> Self {
        let (order, sides, lines) = (access.take_order(), access.sides(), access.take_lines());
        Self { record, order, sides, lines, instance: access.finish() }
    }
}

fn handle<N: NetworkFunction>(
    access: &mut Access<N>,
    numbers: &[usize],
    packets: &[Arrived],
    record: &mut Record,
) {
    let of = |&number: &usize| (number, &packets[number], packets[number].at());
    with_frames(numbers.iter().map(of), |frames| access.handle(frames, record));
}

impl Arrived {
    fn at(&self) -> u64 {
        START_NS + self.after_ns
    }
}

fn made<N: NetworkFunction>(settings: &toml::Table) -> (Instance<N>, usize) {
    started(settings.clone()).unwrap_or_else(|why| panic!("{why}"))
}

/// Ends the instance's run; `record` and `lines` hold what came of the packets.
fn done<N: NetworkFunction>(
    mut instance: Instance<N>,
    mut record: Record,
    mut lines: Vec<Line>,
) -> Done {
    instance.shut_down(&mut record);
    lines.append(&mut instance.environment().log().take());
    let mut logged: Vec<_> = lines.into_iter().map(|line| (line.at_ns, line.text)).collect();
    logged.sort();
    Done {
        outcomes: record.outcomes,
        tables: instance.tables(),
        counters: instance.counters(),
        logged,
    }
}

/// Makes frames of copies of the packets: their numbers, themselves, and when they are handled.
fn with_frames<'p>(
    packets: impl Iterator<Item = (usize, &'p Arrived, u64)>,
    act: impl FnOnce(&mut [Frame<'_>]),
) {
    let mut copies: Vec<_> = packets.map(|one| (one.1.bytes.clone(), one)).collect();
    let mut frames = Vec::new();
    for copy in &mut copies {
        let (bytes, (number, packet, arrival_ns)) = copy;
        let meta = Meta {
            arrival_ns: *arrival_ns,
            number: *number as u64,
            steering_hash: 0,
            wire_len: packet.wire_len,
            port: Port::new(packet.port),
        };
        let len = bytes.len();
        frames.push(Frame::new(bytes, 0, len, 0, meta));
    }
    act(&mut frames);
}
