//! Who handles which packet of a chunk.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_io::Chunk;
use anabranch_nf::NetworkFunction;
use anabranch_rss::IndirectionTable;

use crate::instance::SHARDS;
use crate::steer::Steerer;

/// Divides chunks among workers by the steering hash.
pub struct Division {
    steerer: Steerer,
    table: Option<IndirectionTable>,
    workers: usize,
    /// Shares of chunks that will come again, by where they start; `None`: nothing repeats.
    known: Option<BTreeMap<usize, Shares>>,
}

/// What each worker gets of a chunk.
#[derive(Clone)]
pub struct Shares {
    /// Per worker, the indices of its packets in the chunk; `None`: all.
    pub lists: Vec<Option<Vec<u32>>>,
    /// The steering hash of each packet, where it matters.
    pub hashes: Option<Arc<Vec<u32>>>,
}

impl Division {
    /// Among `workers`, by the packet set of `N`. `repeats`: every chunk comes again and again, so
    /// that its shares are worth keeping.
    pub fn new<N: NetworkFunction>(workers: usize, repeats: bool) -> Self {
        Self {
            steerer: Steerer::new::<N>(),
            table: IndirectionTable::new(SHARDS, SHARDS, workers).ok(),
            workers,
            known: repeats.then(BTreeMap::new),
        }
    }

    /// Divides `chunk`.
    pub fn divide(&mut self, chunk: &Chunk) -> Shares {
        if self.workers == 1 {
            return Shares { lists: vec![None], hashes: None };
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
        let room = chunk.len() / self.workers + chunk.len() / 8;
        let mut lists: Vec<Vec<u32>> =
            (0..self.workers).map(|_| Vec::with_capacity(room)).collect();
        let mut hashes = Vec::with_capacity(chunk.len());
        for (index, record) in chunk.records().iter().enumerate() {
            let hash = self.steerer.hash(chunk.bytes(index), record.wire_len);
            hashes.push(hash);
            let worker = self.table.as_ref().map_or(0, |table| table.worker(hash));
            if let Some(list) = lists.get_mut(usize::from(worker)) {
                list.push(index as u32);
            }
        }
        Shares { lists: lists.into_iter().map(Some).collect(), hashes: Some(Arc::new(hashes)) }
    }
}
