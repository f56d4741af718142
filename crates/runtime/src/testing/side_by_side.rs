//! Running an NF on state that all workers share, and doing the same once more on one core.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread::{ScopedJoinHandle, scope};

use anabranch_nf::state::TableUse;
use anabranch_nf::{Line, NetworkFunction};
use anabranch_packet::{Frame, Meta, Port};
use anabranch_txn::Counts;

use super::{Outcome, Record, SEED, START_NS, making, started};
use crate::deployment::Deployment;
use crate::instance::{BATCH, Instance};
use crate::lock::{Commit, Lock, Sides};
use crate::transactions::Members;
use crate::worker::{InstanceEnd, State};

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

/// How workers share state.
#[derive(Clone, Copy, Debug)]
pub enum Sharing<'d> {
    /// Behind a lock.
    Locked,
    /// In transactions.
    Tracked,
    /// In transactions, packet sets apart: each worker has those of its shards, and gets their packets.
    Divided(&'d Deployment),
}

/// A run on state that all workers share.
#[derive(Debug)]
pub struct SideBySide {
    /// What came of it.
    pub done: Done,
    /// The packets in the order in which they took effect.
    pub order: Vec<Commit>,
    /// How they ended, under the lock.
    pub sides: Sides,
    /// How transactions ended.
    pub transactions: Counts,
}

impl SideBySide {
    /// Has as many threads as there are `shares` handle the packets of their share, numbered by
    /// their place in `packets`, in batches of up to `batch`.
    ///
    /// # Panics
    /// If the settings are wrong.
    pub fn run<N: NetworkFunction>(
        sharing: Sharing<'_>,
        settings: &toml::Table,
        packets: &[Arrived],
        shares: &[Vec<usize>],
        batch: usize,
    ) -> Self {
        let (states, ports) = shared::<N>(sharing, settings, shares.len());
        let together = Barrier::new(shares.len());
        let part = |(mut state, share): (State<N>, &Vec<usize>)| {
            let mut record = Record::new::<N>(ports);
            together.wait();
            for numbers in share.chunks(batch.clamp(1, BATCH)) {
                handle(&mut state, numbers, packets, &mut record);
            }
            Part { record, state }
        };
        let parts: Vec<_> = scope(|threads| {
            let all = states.into_iter().zip(shares);
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
        sharing: Sharing<'_>,
        settings: &toml::Table,
        packets: &[Arrived],
        workers: usize,
        turns: &[(usize, Vec<usize>)],
    ) -> Self {
        let (states, ports) = shared::<N>(sharing, settings, workers);
        let new = |state| (state, Record::new::<N>(ports));
        let mut all: Vec<_> = states.into_iter().map(new).collect();
        for (worker, numbers) in turns {
            let (state, record) = &mut all[*worker];
            handle(state, numbers, packets, record);
        }
        let parts = all.into_iter().map(|(state, record)| Part { record, state }).collect();
        Self::of(parts, Record::new::<N>(ports))
    }

    fn of<N: NetworkFunction>(parts: Vec<Part<N>>, mut all: Record) -> Self {
        let (mut order, mut sides) = (Vec::new(), Sides::default());
        let (mut transactions, mut lines, mut states) = (Counts::default(), Vec::new(), Vec::new());
        for Part { record, mut state } in parts {
            all.outcomes.extend(record.outcomes);
            order.extend(state.take_order());
            lines.extend(state.take_lines());
            let of_worker = state.sides().unwrap_or_default();
            sides.readers += of_worker.readers;
            sides.upgraded += of_worker.upgraded;
            transactions.add(&state.transactions().unwrap_or_default());
            states.push(state);
        }
        order.sort_unstable();
        let mut ends = states.into_iter().filter_map(|state| state.end(&mut all));
        let Some(end) = ends.next() else { unreachable!("some worker is the last") };
        drop(ends);
        Self { done: done(end, all, lines), order, sides, transactions }
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
        let end = InstanceEnd::of(instance, &mut record);
        done(end, record, lines)
    }
}

/// What a worker did.
struct Part<N: NetworkFunction> {
    record: Record,
    state: State<N>,
}

/// A state for each of `workers` workers, and how many ports they have.
fn shared<N: NetworkFunction>(
    sharing: Sharing<'_>,
    settings: &toml::Table,
    workers: usize,
) -> (Vec<State<N>>, usize) {
    let (instance, ports) = made::<N>(settings);
    let states = match sharing {
        Sharing::Locked => {
            let accesses = Lock::share(instance, SEED, workers, true).into_iter();
            accesses.map(|access| State::Locked(Box::new(access))).collect()
        }
        Sharing::Tracked | Sharing::Divided(_) => {
            let making = making::<N>(settings.clone());
            let made = match sharing {
                Sharing::Divided(deployment) => Members::divided(&making, deployment, true),
                _ => Members::new(&making, workers, true),
            };
            let mut members = made.unwrap_or_else(|why| panic!("{why}"));
            members.start(START_NS);
            let members = members.into_members().into_iter();
            members.map(|member| State::Tracked(Box::new(member))).collect()
        }
    };
    (states, ports)
}

fn handle<N: NetworkFunction>(
    state: &mut State<N>,
    numbers: &[usize],
    packets: &[Arrived],
    record: &mut Record,
) {
    let of = |&number: &usize| (number, &packets[number], packets[number].at());
    with_frames(numbers.iter().map(of), |frames| state.handle(frames, record));
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
fn done(mut end: InstanceEnd, record: Record, mut lines: Vec<Line>) -> Done {
    lines.append(&mut end.lines);
    let mut logged: Vec<_> = lines.into_iter().map(|line| (line.at_ns, line.text)).collect();
    logged.sort();
    Done { outcomes: record.outcomes, tables: end.tables, counters: end.counters, logged }
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
            wire_len: packet.wire_len,
            port: Port::new(packet.port),
            ..Meta::default()
        };
        let len = bytes.len();
        frames.push(Frame::new(bytes, 0, len, 0, meta));
    }
    act(&mut frames);
}
