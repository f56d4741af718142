//! The indirection table, in two steps: entry to shard (fixed), shard to worker (moves).

use std::error::Error;
use std::fmt;

/// The most entries a table may have.
const MAX_ENTRIES: usize = 512;

/// Maps a hash to a shard and on to the worker that owns it.
///
/// The entry is the low bits of the hash. Entries belong to shards for good, shards to workers
/// until they are moved. By default no shard has more than one entry more than another, and no worker
/// more than one shard more than another. Which worker has a shard follows from the shard's last bits:
/// with a Toeplitz hash they depend on the first bits of a field alone, where its last ones are not hashed,
/// so that values near one another go to one worker.
#[derive(Clone)]
pub struct IndirectionTable {
    /// Always of the full size, so that a masked index needs no bounds check.
    shard_of_entry: Box<[u16; MAX_ENTRIES]>,
    worker_of_entry: Box<[u16; MAX_ENTRIES]>,
    worker_of_shard: Vec<u16>,
    entries: usize,
    workers: usize,
}

impl IndirectionTable {
    /// A table of `entries` entries (128, 256 or 512) over `shards` shards and `workers` workers,
    /// evenly dealt out.
    ///
    /// Fails when `entries` is not such a number, or not `1 <= workers <= shards <= entries`.
    pub fn new(entries: usize, shards: usize, workers: usize) -> Result<Self, IndirectionError> {
        if !matches!(entries, 128 | 256 | 512) {
            return Err(IndirectionError::Entries(entries));
        }
        if shards == 0 || shards > entries {
            return Err(IndirectionError::Shards { shards, entries });
        }
        if workers == 0 || workers > shards {
            return Err(IndirectionError::Workers { workers, shards });
        }
        let worker_of_shard: Vec<u16> =
            (0..shards).map(|shard| (turn(shard, shards) * workers / shards) as u16).collect();
        let shard_of_entry = Box::new(std::array::from_fn(|entry| (entry % shards) as u16));
        let worker_of_entry = Box::new(shard_of_entry.map(|s| worker_of_shard[usize::from(s)]));
        Ok(Self { shard_of_entry, worker_of_entry, worker_of_shard, entries, workers })
    }

    /// The entry a hash selects: its low bits.
    #[inline]
    pub fn entry(&self, hash: u32) -> usize {
        // The second mask is a no-op that the compiler can see.
        (hash as usize & (self.entries - 1)) & (MAX_ENTRIES - 1)
    }

    /// The shard a hash selects.
    #[inline]
    pub fn shard(&self, hash: u32) -> u16 {
        self.shard_of_entry[self.entry(hash)]
    }

    /// The worker that owns the shard a hash selects.
    #[inline]
    pub fn worker(&self, hash: u32) -> u16 {
        self.worker_of_entry[self.entry(hash)]
    }

    /// The worker that owns `shard`; `None` when there is no such shard.
    pub fn worker_of_shard(&self, shard: u16) -> Option<u16> {
        self.worker_of_shard.get(usize::from(shard)).copied()
    }

    /// The shards that `worker` owns, in ascending order.
    pub fn shards_of_worker(&self, worker: u16) -> impl Iterator<Item = u16> + '_ {
        let owners = (0..).zip(&self.worker_of_shard);
        owners.filter(move |&(_, &owner)| owner == worker).map(|(shard, _)| shard)
    }

    /// Makes `worker` the owner of `shard`. Only the table changes: moving the state, and the
    /// packets that are under way, is the caller's protocol.
    ///
    /// Fails when there is no such shard or worker.
    pub fn move_shard(&mut self, shard: u16, worker: u16) -> Result<(), IndirectionError> {
        let (shards, workers) = (self.worker_of_shard.len(), self.workers);
        if usize::from(worker) >= workers {
            return Err(IndirectionError::NoSuchWorker { worker, workers });
        }
        match self.worker_of_shard.get_mut(usize::from(shard)) {
            Some(owner) => *owner = worker,
            None => return Err(IndirectionError::NoSuchShard { shard, shards }),
        }
        let entries = self.shard_of_entry.iter().zip(self.worker_of_entry.iter_mut());
        entries.filter(|(owned, _)| **owned == shard).for_each(|(_, owner)| *owner = worker);
        Ok(())
    }

    /// Number of entries: 128, 256 or 512.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.worker_of_shard.len()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The worker of each entry, as a NIC's indirection table takes it.
    pub fn as_queues(&self) -> &[u16] {
        &self.worker_of_entry[..self.entries]
    }
}

/// The place of `shard` when `shards` of them are put in order by their last bit first: 0, 4, 2, 6, 1, 5, 3, 7.
/// As they are numbered where their number is no power of two.
fn turn(shard: usize, shards: usize) -> usize {
    match shards.is_power_of_two() && shards > 1 {
        true => shard.reverse_bits() >> (usize::BITS - shards.ilog2()),
        false => shard,
    }
}

impl fmt::Debug for IndirectionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndirectionTable")
            .field("entries", &self.entries)
            .field("worker_of_shard", &self.worker_of_shard)
            .finish()
    }
}

/// What is wrong with the shape of an indirection table, or with a move in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndirectionError {
    /// A number of entries that no NIC has.
    Entries(usize),
    /// No shards, or more shards than entries.
    Shards {
        /// Shards asked for.
        shards: usize,
        /// Entries of the table.
        entries: usize,
    },
    /// No workers, or more workers than shards.
    Workers {
        /// Workers asked for.
        workers: usize,
        /// Shards of the table.
        shards: usize,
    },
    /// A move of a shard that does not exist.
    NoSuchShard {
        /// The shard that was named.
        shard: u16,
        /// Shards of the table.
        shards: usize,
    },
    /// A move to a worker that does not exist.
    NoSuchWorker {
        /// The worker that was named.
        worker: u16,
        /// Workers of the table.
        workers: usize,
    },
}

impl fmt::Display for IndirectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries(entries) => {
                write!(f, "an indirection table of {entries} entries: write 128, 256 or 512")
            }
            Self::Shards { shards, entries } => {
                write!(f, "{shards} shards in {entries} entries: write 1 to {entries} shards")
            }
            Self::Workers { workers, shards } => {
                write!(f, "{workers} workers for {shards} shards: write 1 to {shards} workers")
            }
            Self::NoSuchShard { shard, shards } => {
                write!(f, "there is no shard {shard}: the last one is {}", shards - 1)
            }
            Self::NoSuchWorker { worker, workers } => {
                write!(f, "there is no worker {worker}: the last one is {}", workers - 1)
            }
        }
    }
}

impl Error for IndirectionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_shards_are_dealt_out_evenly() {
        let table = IndirectionTable::new(512, 100, 7).unwrap();
        for worker in 0..7 {
            assert!((14..=15).contains(&table.shards_of_worker(worker).count()));
        }
        let mut per_shard = [0; 100];
        (0..512).for_each(|hash| per_shard[usize::from(table.shard(hash))] += 1);
        assert!(per_shard.iter().all(|entries| (5..=6).contains(entries)));
    }

    #[test]
    fn shards_that_end_alike_are_one_workers() {
        let workers = |count| {
            let table = IndirectionTable::new(128, 8, count).unwrap();
            let worker = |shard| table.worker_of_shard(shard).unwrap();
            (0..8).map(worker).collect::<Vec<_>>()
        };
        assert_eq!(workers(1), [0; 8]);
        assert_eq!(workers(2), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(workers(4), [0, 2, 1, 3, 0, 2, 1, 3]);
        assert_eq!(workers(3), [0, 1, 0, 2, 0, 1, 1, 2]);
    }

    #[test]
    fn the_entry_is_the_low_bits_of_the_hash() {
        let table = IndirectionTable::new(128, 128, 1).unwrap();
        assert_eq!(table.entry(0xffff_ff85), 5);
        assert_eq!(table.shard(0xffff_ff85), 5);
    }

    #[test]
    fn a_moved_shard_takes_its_entries_along_and_no_others() {
        let mut table = IndirectionTable::new(256, 64, 2).unwrap();
        let before: Vec<u16> = (0..256).map(|hash| table.worker(hash)).collect();
        table.move_shard(3, 0).unwrap();
        assert_eq!(table.worker_of_shard(3), Some(0));
        for (hash, was) in (0..256).zip(before) {
            let expected = if table.shard(hash) == 3 { 0 } else { was };
            assert_eq!(table.worker(hash), expected);
        }
        assert_eq!(table.as_queues().len(), 256);
    }

    #[test]
    fn impossible_shapes_and_moves_are_refused() {
        use IndirectionError as E;
        let refusal = |e, s, w| IndirectionTable::new(e, s, w).unwrap_err();
        assert_eq!(refusal(100, 1, 1), E::Entries(100));
        assert_eq!(refusal(1024, 1, 1), E::Entries(1024));
        assert_eq!(refusal(128, 0, 1), E::Shards { shards: 0, entries: 128 });
        assert_eq!(refusal(128, 129, 1), E::Shards { shards: 129, entries: 128 });
        assert_eq!(refusal(128, 4, 5), E::Workers { workers: 5, shards: 4 });
        let mut table = IndirectionTable::new(128, 4, 2).unwrap();
        assert_eq!(table.move_shard(4, 0), Err(E::NoSuchShard { shard: 4, shards: 4 }));
        assert_eq!(table.move_shard(0, 2), Err(E::NoSuchWorker { worker: 2, workers: 2 }));
    }
}
