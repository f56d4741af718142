//! Shards that move from one worker's instance to another's, with their state.

use std::sync::Arc;

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::{Bundle, Movable as _, ShardSet};
use anabranch_packet::Meta;
use anabranch_rss::IndirectionTable;

use super::{Instance, Release};

impl<N: NetworkFunction> Instance<N> {
    /// Why shards cannot move to other workers: the object whose entries cannot be told apart by
    /// shard, and why.
    pub fn immovable(&self) -> Option<String> {
        let (name, why) = self.nf.immovable()?;
        Some(format!("`{name}`: {why}"))
    }

    /// Brings the instance to the time of the packet of `next`, which is not handled: what is due by
    /// then is done, so that it is done to the state of the shards that this worker has until now.
    pub fn advance(&mut self, next: &Meta, release: &mut impl Release) {
        let now_ns = next.arrival_ns.max(self.last.arrival_ns);
        let next = Meta { arrival_ns: now_ns, ..*next };
        if now_ns >= self.agenda.environment.due() {
            let Self { nf, sets, agenda, .. } = self;
            agenda.run_events(nf, sets, &next, release);
        }
        let Self { nf, sets, agenda, .. } = self;
        agenda.keep_in_reach(nf, sets, now_ns);
        self.last.arrival_ns = now_ns;
    }

    /// Takes the state of `shards` out of every object. No packet of them may be handled here from now
    /// on.
    pub fn take_shards(&mut self, shards: ShardSet) -> Bundle {
        self.tell_before_moving(&shards);
        let mut bundle = Bundle::new(shards, self.agenda.environment.origin());
        self.sets.v4.take_shards(&mut bundle);
        self.sets.v6.take_shards(&mut bundle);
        self.nf.take_shards(&mut bundle);
        self.agenda.environment.take_timers(&mut bundle);
        bundle
    }

    /// Puts in what another worker's instance took out.
    pub fn put_shards(&mut self, mut bundle: Bundle) {
        let shift = bundle.shift(self.agenda.environment.origin());
        self.sets.v4.put_shards(&mut bundle, shift);
        self.sets.v6.put_shards(&mut bundle, shift);
        self.nf.put_shards(&mut bundle, shift);
        self.agenda.environment.put_timers(&mut bundle);
        // Where the last worker had not told yet how long entries last, this one does.
        self.telling().iter().for_each(|schedule| schedule.owe_refreshes());
        // Something of it may have to be collected.
        self.agenda.collect_soon();
    }

    /// From now on shards belong to workers as `table` says. `arriving` are this worker's from then on,
    /// but their state has not arrived: packets that re-enter there are handed over, to this very
    /// worker, until [`settle`](Self::settle).
    pub fn adopt(&mut self, table: Arc<IndirectionTable>, arriving: ShardSet) {
        if let Some(post) = &mut self.post {
            post.deployment.table = table;
            post.arriving = arriving;
        }
    }

    /// All state that was to arrive has.
    pub fn settle(&mut self) {
        if let Some(post) = &mut self.post {
            post.arriving = ShardSet::default();
        }
    }
}
