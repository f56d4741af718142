//! Who handles which packet of a chunk.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_io::Chunk;
use anabranch_rss::IndirectionTable;

use crate::steer::Steering;

/// Divides chunks among workers by their shards.
pub struct Division {
    steering: Arc<Steering>,
    table: Arc<IndirectionTable>,
    /// Shares of chunks that will come again, by where they start; `None`: nothing repeats.
    known: Option<BTreeMap<usize, Shares>>,
}

/// What each worker gets of a chunk.
#[derive(Clone)]
pub struct Shares {
    /// Per worker, the indices of its packets in the chunk; `None`: all.
    pub lists: Vec<Option<Vec<u32>>>,
    /// The shard of each packet, where it matters.
    pub shards: Option<Arc<Vec<u32>>>,
}

impl Division {
    /// By `steering` among the workers of `table`. `repeats`: every chunk comes again and again, so
    /// that its shares are worth keeping.
    pub fn new(steering: Arc<Steering>, table: Arc<IndirectionTable>, repeats: bool) -> Self {
        Self { steering, table, known: repeats.then(BTreeMap::new) }
    }

    /// Divides `chunk`.
    pub fn divide(&mut self, chunk: &Chunk) -> Shares {
        if self.table.workers() == 1 {
            return Shares { lists: vec![None], shards: None };
        }
        let known = self.known.as_ref().and_then(|known| known.get(&chunk.start()));
        if let Some(shares) = known {
            return shares.clone();
        }
        let shares = self.compute(chunk);
        if let Some(known) = &mut self.known {
            known.insert(chunk.start(), shares.clone());
        }
        shares
    }

    fn compute(&self, chunk: &Chunk) -> Shares {
        let workers = self.table.workers();
        let room = chunk.len() / workers + chunk.len() / 8;
        let mut lists: Vec<Vec<u32>> = (0..workers).map(|_| Vec::with_capacity(room)).collect();
        let mut shards = Vec::with_capacity(chunk.len());
        for (index, record) in chunk.records().iter().enumerate() {
            let shard = self.steering.shard(record.port, chunk.bytes(index), record.wire_len);
            shards.push(shard);
            if let Some(list) = lists.get_mut(usize::from(self.table.worker(shard))) {
                list.push(index as u32);
            }
        }
        Shares { lists: lists.into_iter().map(Some).collect(), shards: Some(Arc::new(shards)) }
    }
}
