//! Who handles which packet of a chunk, and when that changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_io::Chunk;
use anabranch_nf::NetworkFunction;
use anabranch_rss::IndirectionTable;

use crate::balance::{Balancer, Balancing, Departure};
use crate::reassembly::{Gatherer, Whole};
use crate::report::{BalanceReport, ShardsReport};
use crate::steer::{Steering, worker_of};
use crate::tally::Counts;

/// Divides chunks among workers by their shards.
pub struct Division {
    /// `None`: no packet's shard matters, one worker has them all.
    steering: Option<Arc<Steering>>,
    table: Arc<IndirectionTable>,
    /// `None`: shards stay where they are.
    balancer: Option<Balancer>,
    /// Packets of each shard so far.
    load: Vec<u64>,
    /// Shards of chunks that will come again, by where they start; `None`: nothing repeats.
    known: Option<BTreeMap<usize, Known>>,
    /// Where datagrams are put together first.
    gatherer: Option<Gatherer>,
}

/// What is known of a chunk that comes again.
struct Known {
    shards: Shards,
    /// What each worker gets of it; `None`: not known since shards have moved.
    lists: Option<Vec<Option<Vec<u32>>>>,
}

/// The shards of a chunk's packets.
#[derive(Clone)]
struct Shards {
    /// Of each packet.
    each: Arc<Vec<u32>>,
    /// How many packets each shard has.
    packets: Arc<[u32]>,
}

/// What each worker gets of a chunk.
pub struct Shares {
    /// Per worker, the indices of its packets in the chunk; `None`: all.
    pub lists: Vec<Option<Vec<u32>>>,
    /// The shard of each packet, where it matters.
    pub shards: Option<Arc<Vec<u32>>>,
    /// What has to move before.
    pub moved: Vec<Departure>,
    /// Per worker, the datagrams that its fragments complete; `None`: it gets no whole ones.
    pub(crate) wholes: Option<Vec<Vec<Whole>>>,
}

impl Division {
    /// By `steering` among the workers of `table`; without, all packets are one worker's. `repeats`:
    /// every chunk comes again and again, so that its shares are worth keeping. `balancing`: whether
    /// shards move.
    pub fn new<N: NetworkFunction>(
        steering: Option<Arc<Steering>>,
        table: Arc<IndirectionTable>,
        repeats: bool,
        balancing: Balancing,
    ) -> Self {
        let balancer = Balancer::new(&table, balancing);
        let load = vec![0; table.shards()];
        let gatherer = Gatherer::of::<N>(repeats);
        Self { steering, table, balancer, load, known: repeats.then(BTreeMap::new), gatherer }
    }

    /// Divides `chunk`.
    pub fn divide(&mut self, chunk: &Chunk) -> Shares {
        let wholes = self.gatherer.as_mut().map(|gatherer| gatherer.gather(chunk));
        let Some(steering) = &self.steering else {
            let wholes = wholes.map(|wholes| vec![wholes.into_iter().map(|one| one.1).collect()]);
            return Shares { lists: vec![None], shards: None, moved: Vec::new(), wholes };
        };
        let known = self.known.as_ref().and_then(|known| known.get(&chunk.start()));
        let shards = known.map_or_else(|| shards_of(steering, chunk), |known| known.shards.clone());
        for (load, &more) in self.load.iter_mut().zip(shards.packets.iter()) {
            *load += u64::from(more);
        }
        let moved = self.rebalance(&shards);
        let known = self.known.as_ref().and_then(|known| known.get(&chunk.start()));
        let lists = match known.and_then(|known| known.lists.as_ref()) {
            Some(lists) => lists.clone(),
            None => self.learn(chunk, &shards),
        };
        let shares = Shares { lists, shards: Some(shards.each), moved, wholes: None };
        match wholes {
            Some(wholes) => self.place(wholes, shares),
            None => shares,
        }
    }

    /// Gives each datagram to the owner of its flow, with the packet that completes it.
    fn place(&self, wholes: Vec<(u32, Whole)>, mut shares: Shares) -> Shares {
        let mut theirs: Vec<Vec<Whole>> = shares.lists.iter().map(|_| Vec::new()).collect();
        if let (Some(steering), Some(each), false) =
            (&self.steering, &mut shares.shards, wholes.is_empty())
        {
            let each = Arc::make_mut(each);
            for (index, whole) in wholes {
                let shard = whole.shard(steering);
                if let Some(place) = each.get_mut(index as usize) {
                    *place = shard;
                }
                if let Some(list) = theirs.get_mut(usize::from(self.table.worker(shard))) {
                    list.push(whole);
                }
            }
            shares.lists = self.lists(each);
        }
        Shares { wholes: Some(theirs), ..shares }
    }

    /// What became of fragments on the way.
    pub(crate) fn end(&mut self) -> Option<Counts> {
        self.gatherer.take().map(Gatherer::end)
    }

    /// Finds what each worker gets, and keeps it if the chunk will come again.
    fn learn(&mut self, chunk: &Chunk, shards: &Shards) -> Vec<Option<Vec<u32>>> {
        let lists = self.lists(&shards.each);
        if let Some(known) = &mut self.known {
            let one = Known { shards: shards.clone(), lists: Some(lists.clone()) };
            known.insert(chunk.start(), one);
        }
        lists
    }

    /// Counts a chunk's packets, and moves shards if it is time.
    fn rebalance(&mut self, shards: &Shards) -> Vec<Departure> {
        let Some(balancer) = &mut self.balancer else { return Vec::new() };
        balancer.count(&shards.packets);
        let Some((table, moved)) = balancer.rebalance(&self.table) else { return Vec::new() };
        self.table = Arc::new(table);
        for known in self.known.iter_mut().flat_map(BTreeMap::values_mut) {
            known.lists = None;
        }
        moved
    }

    /// From shards to workers, as it is now.
    pub fn table(&self) -> &Arc<IndirectionTable> {
        &self.table
    }

    /// How evenly packets were divided; `None`: nobody watched, or not for long enough.
    pub fn balance(&self) -> Option<BalanceReport> {
        self.balancer.as_ref()?.balance()
    }

    /// How packets spread over shards; `None`: none of them matters.
    pub fn shards(&self) -> Option<ShardsReport> {
        self.steering.as_ref()?;
        let worker = |shard| self.table.worker(shard as u32);
        let each = self.load.iter().enumerate();
        Some(ShardsReport::new(each.map(|(shard, &packets)| (packets, worker(shard)))))
    }

    /// What each worker gets of a chunk whose packets have these shards.
    fn lists(&self, each: &[u32]) -> Vec<Option<Vec<u32>>> {
        let workers = self.table.workers();
        let room = each.len() / workers + each.len() / 8;
        let mut lists: Vec<Vec<u32>> = (0..workers).map(|_| Vec::with_capacity(room)).collect();
        for (index, &shard) in (0_u32..).zip(each) {
            if let Some(list) = lists.get_mut(usize::from(worker_of(shard, &self.table))) {
                list.push(index);
            }
        }
        lists.into_iter().map(Some).collect()
    }
}

fn shards_of(steering: &Steering, chunk: &Chunk) -> Shards {
    let mut packets = vec![0; steering.shards()];
    let mut each = Vec::with_capacity(chunk.len());
    for (index, record) in chunk.records().iter().enumerate() {
        let shard = steering.shard(record.port, chunk.bytes(index), record.wire_len);
        each.push(shard);
        if let Some(count) = packets.get_mut(shard as usize) {
            *count += 1;
        }
    }
    Shards { each: Arc::new(each), packets: packets.into() }
}
