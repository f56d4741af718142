//! What has shards move to workers that have less to do, while packets come.

use std::sync::Arc;
use std::time::Duration;

use anabranch_packet::Meta;
use anabranch_rss::IndirectionTable;

use super::LOOK;
use super::exchange::Shared;
use super::request::Orders;
use crate::balance::{Balancer, Balancing, departures};
use crate::report::{BalanceReport, ShardsReport};
use crate::worker::Reassignment;

/// Shards that move at a time, and how soon the next ones: workers receive nothing meanwhile.
const AT_A_TIME: usize = 4;
const NEXT: Duration = Duration::from_millis(5);

/// Watches the load of shards.
pub(super) struct Mover {
    balancer: Balancer,
    /// From shards to workers, as it is now, and as it is to be.
    table: Arc<IndirectionTable>,
    wanted: Option<IndirectionTable>,
    /// Packets of each shard so far.
    load: Vec<u64>,
    /// The last reassignment.
    epoch: u64,
    /// Shards that have moved.
    moved: u64,
    is_restless: bool,
}

impl Mover {
    /// Of shards that belong to workers as `table` says; `None`: they stay.
    pub(super) fn new(table: &Arc<IndirectionTable>, balancing: Balancing) -> Option<Self> {
        Some(Self {
            balancer: Balancer::new(table, balancing)?,
            table: Arc::clone(table),
            wanted: None,
            load: vec![0; table.shards()],
            epoch: 0,
            moved: 0,
            is_restless: matches!(balancing, Balancing::Restless(_)),
        })
    }

    /// Time to the next look.
    pub(super) fn pace(&self) -> Duration {
        match self.wanted {
            _ if self.is_restless => Duration::from_micros(200),
            Some(_) => NEXT,
            None => LOOK,
        }
    }

    /// Looks at the load, and has shards move where that is due.
    pub(super) fn look<C: Clone>(&mut self, shared: &Shared, orders: &Orders<C>) {
        let load = shared.load();
        let more = load.iter().zip(&self.load).map(|(now, before)| now.saturating_sub(*before));
        let more: Vec<u32> = more.map(|more| u32::try_from(more).unwrap_or(u32::MAX)).collect();
        self.load = load;
        if !shared.have_changed_hands(self.epoch) {
            return;
        }
        if self.wanted.is_none() {
            self.balancer.count(&more);
            self.wanted = self.balancer.rebalance(&self.table).map(|(wanted, _)| wanted);
        }
        if let Some(wanted) = self.wanted.take() {
            self.step(wanted, shared, orders);
        }
    }

    /// Moves some of the shards that are to be elsewhere.
    fn step<C: Clone>(&mut self, wanted: IndirectionTable, shared: &Shared, orders: &Orders<C>) {
        let mut table = IndirectionTable::clone(&self.table);
        let most = if self.is_restless { table.shards() } else { AT_A_TIME };
        let mut moved = 0;
        for shard in 0..table.shards() as u16 {
            let to = wanted.worker_of_shard(shard);
            if let Some(to) = to.filter(|_| to != table.worker_of_shard(shard)) {
                if moved == most {
                    self.wanted = Some(wanted);
                    break;
                }
                // Both exist.
                let _ = table.move_shard(shard, to);
                moved += 1;
            }
        }
        self.moved += moved as u64;
        let departures = departures(&self.table, &table).into();
        self.table = Arc::new(table);
        self.epoch += 1;
        let (epoch, table) = (self.epoch, Arc::clone(&self.table));
        shared.begin_change_of_hands();
        orders.reassign(&Reassignment { epoch, table, departures, first: Meta::default() });
    }

    /// How evenly packets were divided, with so many entries that have moved; `None`: it was not watched for
    /// long enough.
    pub(super) fn balance(&self, entries_moved: u64) -> Option<BalanceReport> {
        let (steps, shards_moved) = (self.epoch, self.moved);
        let balance = self.balancer.balance()?;
        Some(BalanceReport { steps, shards_moved, entries_moved, ..balance })
    }

    /// How packets spread over shards.
    pub(super) fn shards(&self, shared: &Shared) -> ShardsReport {
        let worker = |shard| self.table.worker_of_shard(shard as u16).unwrap_or_default();
        let each = shared.load().into_iter().enumerate();
        ShardsReport::new(each.map(|(shard, packets)| (packets, worker(shard))))
    }
}
