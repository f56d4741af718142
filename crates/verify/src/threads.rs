//! The packets of a program once more, by real threads under the lock and in transactions: what they do must
//! be what one core does with the packets in the order in which they took effect. Simulated workers take turns packet by
//! packet; threads meet within packets too.

use anabranch_nf::NetworkFunction;
use anabranch_packet::parse;
use anabranch_runtime::testing::{Arrived, Done, Harness, Sharing, SideBySide};

use crate::parallel::Parallel;
use crate::program::Program;
use crate::run::{START_NS, times};
use crate::setup::Setup;
use crate::simulate::Course;

/// Packets that a thread handles at a time.
const BATCH: usize = 16;

/// What real threads did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threaded {
    /// Packets that they handled.
    pub packets: usize,
    /// Where one core, in their order, does something else: under which seed, and what.
    pub differences: Vec<String>,
}

impl Threaded {
    /// Has `parallel`'s workers handle the packets that `course` of `program` sent, commands apart.
    pub(crate) fn run<N: NetworkFunction>(
        &mut self,
        setup: &Setup,
        parallel: &Parallel,
        program: &Program,
        course: &Course,
        seed: u64,
    ) {
        if Harness::<N>::with_table(setup.settings.clone()).is_err() {
            return;
        }
        let owners = parallel.divided.as_ref().map_or(0, |divided| divided.table.workers());
        let mut packets = Vec::new();
        let mut shares = vec![Vec::new(); parallel.workers];
        let mut divided = vec![Vec::new(); owners];
        for (handled, time_ns) in course.record.iter().zip(times(program)) {
            // What is malformed is dropped before the lock, and fragments are put together before it: they are in
            // no order.
            let arrival = handled.arrival.as_ref();
            let sent = arrival.filter(|one| {
                let layout = parse(&one.bytes, one.wire_len);
                layout.malformed().is_none() && !(N::LAYER == 4 && layout.is_fragment())
            });
            let Some(arrival) = sent else { continue };
            let worker = parallel.worker(parallel.shard(arrival));
            if let Some(share) = shares.get_mut(worker) {
                share.push(packets.len());
            }
            let share = parallel.divided_worker(arrival).and_then(|worker| divided.get_mut(worker));
            share.into_iter().for_each(|share| share.push(packets.len()));
            packets.push(Arrived {
                port: arrival.port,
                after_ns: time_ns.saturating_sub(START_NS),
                bytes: arrival.bytes.clone(),
                wire_len: arrival.wire_len,
            });
        }
        let divided = parallel.divided.as_ref().map(|one| (Sharing::Divided(one), &divided));
        let ways = [(Sharing::Locked, &shares), (Sharing::Tracked, &shares)];
        let ways = ways.into_iter().chain(divided);
        for (sharing, shares) in ways {
            let run = SideBySide::run::<N>(sharing, &setup.settings, &packets, shares, BATCH);
            let replayed = run.replay::<N>(&setup.settings, &packets);
            self.packets += packets.len();
            if let Some(what) = differs(sharing, &run.done, &replayed) {
                self.differences.push(format!("seed {seed}, {}: {what}", word(sharing)));
            }
        }
    }
}

fn word(sharing: Sharing<'_>) -> &'static str {
    match sharing {
        Sharing::Locked => "under the lock",
        Sharing::Tracked => "in transactions",
        Sharing::Divided(_) => "in transactions, packet sets apart",
    }
}

/// What threads did and one core does not.
fn differs(sharing: Sharing<'_>, threads: &Done, one: &Done) -> Option<String> {
    let outcomes =
        threads.outcomes.iter().find(|(number, outcome)| one.outcomes.get(number) != Some(outcome));
    if let Some((number, outcome)) = outcomes {
        let other = one.outcomes.get(number);
        return Some(format!("packet {number}: {outcome:?} by threads, {other:?} by one core"));
    }
    // In transactions, when an entry's place is given back after its end depends on the workers.
    if matches!(sharing, Sharing::Locked) && threads.tables != one.tables {
        return Some("state objects hold another number of entries".to_owned());
    }
    (threads.counters != one.counters).then(|| "counters differ".to_owned())
}
