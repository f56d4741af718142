//! What the call paths say of the indices of an allocator, whoever owns what: found once, when it is asked for.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use anabranch_analysis::Paths;

use crate::returned::{Arriving, returned};
use crate::shard::Refusal;
use crate::stale::why_stale;

/// Of the indices of every object.
pub(crate) struct Indices<'p> {
    paths: &'p Paths,
    /// By object.
    known: Vec<Known>,
}

#[derive(Clone, Default)]
struct Known {
    stale: OnceCell<Option<Refusal>>,
    returned: OnceCell<BTreeMap<Arriving, u32>>,
}

impl<'p> Indices<'p> {
    pub(crate) fn new(paths: &'p Paths) -> Self {
        Self { paths, known: vec![Known::default(); paths.objects.len()] }
    }

    /// As [`why_stale`].
    pub(crate) fn why_stale(&self, pool: usize) -> Option<&Refusal> {
        let find = || why_stale(self.paths, &self.paths.objects[pool].name);
        self.known[pool].stale.get_or_init(find).as_ref()
    }

    /// As [`returned`].
    pub(crate) fn returned(&self, pool: usize) -> &BTreeMap<Arriving, u32> {
        let find = || returned(self.paths, &self.paths.objects[pool].name);
        self.known[pool].returned.get_or_init(find)
    }
}
