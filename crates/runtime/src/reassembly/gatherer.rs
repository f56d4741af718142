//! Datagrams put together where all packets pass by, before they are divided among workers: each then
//! gets its datagrams in the order in which they were completed, whoever had their fragments.

use std::collections::BTreeMap;

use anabranch_io::Chunk;
use anabranch_nf::{Builtin, NetworkFunction};
use anabranch_packet::parse;

use super::pool::{Fate, Pool};
use super::{Whole, is_part, may_be_part};
use crate::tally::Counts;

/// Puts the datagrams of chunks together.
#[derive(Debug)]
pub(crate) struct Gatherer {
    pool: Pool,
    counts: Counts,
    /// The fragments of chunks that come again, by where these start; `None`: none does.
    known: Option<BTreeMap<usize, Vec<u32>>>,
}

impl Gatherer {
    /// For `N`, where it asks for whole datagrams. `repeats`: chunks come again.
    pub(crate) fn of<N: NetworkFunction>(repeats: bool) -> Option<Self> {
        (N::LAYER == 4).then(|| Self {
            pool: Pool::default(),
            counts: Counts::new(0),
            known: repeats.then(BTreeMap::new),
        })
    }

    /// The datagrams that packets of `chunk` complete, each with the index of that packet.
    pub(crate) fn gather(&mut self, chunk: &Chunk) -> Vec<(u32, Whole)> {
        let Self { pool, counts, known } = self;
        let scanned;
        let parts = match known {
            Some(known) => known.entry(chunk.start()).or_insert_with(|| parts_of(chunk)),
            None => {
                scanned = parts_of(chunk);
                &scanned
            }
        };
        let mut wholes = Vec::new();
        for &index in parts {
            let Some((meta, bytes)) = chunk.packet(index as usize) else { continue };
            let outcome = pool.add(bytes, &meta, parse(bytes, meta.wire_len));
            counts.drop(Builtin::Reassembled, outcome.reassembled.len() as u64);
            counts.drop(Builtin::IncompleteDatagram, outcome.incomplete.len() as u64);
            match outcome.fate {
                Fate::Waits => {}
                Fate::Completes(whole) => wholes.push((index, whole)),
                Fate::Dropped(why) => counts.drop(why, 1),
            }
        }
        wholes
    }

    /// What became of fragments; those of incomplete datagrams are given up.
    pub(crate) fn end(mut self) -> Counts {
        self.counts.drop(Builtin::IncompleteDatagram, self.pool.end().len() as u64);
        self.counts
    }
}

/// The indices of a chunk's fragments.
fn parts_of(chunk: &Chunk) -> Vec<u32> {
    let is_part = |index: &u32| {
        let bytes = chunk.bytes(*index as usize);
        let wire_len = || chunk.meta(*index as usize).map_or(0, |meta| meta.wire_len);
        may_be_part(bytes) && is_part(parse(bytes, wire_len()))
    };
    (0..chunk.len() as u32).filter(is_part).collect()
}
