//! The balancer: which shards are to move to which workers, from how many packets each had.
//!
//! Load is watched per shard, in windows of so many packets that chance alone does not look like
//! imbalance. While the busiest worker has no more than a margin above the best that any assignment of
//! these shards could give it, nothing moves; once it has more, shards move until it is close to that
//! best. (The idea of moving entries of the indirection table by their load is RSS++'s, Barbette et
//! al., CoNEXT 2019.)

use anabranch_nf::state::ShardSet;
use anabranch_rss::IndirectionTable;

use crate::report::BalanceReport;

/// Whether shards move, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// They stay where they are.
    Still,
    /// They move away from workers that have more to do than others.
    #[default]
    Even,
    /// Many move all the time, whatever the load, after so many packets a worker each time: to see that
    /// it changes nothing.
    Restless(u64),
}

impl Balancing {
    /// After how many packets a worker load is looked at; `None`: never.
    pub fn window(self) -> Option<u64> {
        match self {
            Self::Still => None,
            Self::Even => Some(WINDOW),
            Self::Restless(window) => Some(window.max(1)),
        }
    }
}

/// Packets of a window, per worker: one standard deviation of a worker's count is 0.8 % of it.
pub const WINDOW: u64 = 1 << 14;
/// How far above the best the busiest worker may be before anything moves, in percent.
const MARGIN_PERCENT: u64 = 5;
/// How near to the best is near enough, in percent.
const NEAR_PERCENT: u64 = 1;

/// Watches the load of shards, and says which are to move.
#[derive(Debug)]
pub struct Balancer {
    /// Packets of each shard in this window.
    load: Vec<u64>,
    packets: u64,
    /// Packets of a window.
    window: u64,
    is_restless: bool,
    workers: usize,
    balance: BalanceReport,
}

/// Shards that leave one worker for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Who has them.
    pub from: u16,
    /// Who gets them.
    pub to: u16,
    /// Which.
    pub shards: ShardSet,
}

impl Balancer {
    /// Of as many shards and workers as `table` has; `None` where they stay.
    pub fn new(table: &IndirectionTable, balancing: Balancing) -> Option<Self> {
        let (load, workers) = (vec![0; table.shards()], table.workers());
        let window = balancing.window()?.saturating_mul(workers as u64);
        let is_restless = matches!(balancing, Balancing::Restless(_));
        let balance = BalanceReport::default();
        Some(Self { load, packets: 0, window, is_restless, workers, balance })
    }

    /// So many packets of each shard have come.
    pub fn count(&mut self, packets: &[u32]) {
        for (load, &more) in self.load.iter_mut().zip(packets) {
            *load += u64::from(more);
            self.packets += u64::from(more);
        }
    }

    /// At the end of a window, where `table` divides packets unevenly: the table that divides them
    /// well, and what has to move.
    pub fn rebalance(
        &mut self,
        table: &IndirectionTable,
    ) -> Option<(IndirectionTable, Vec<Departure>)> {
        if self.packets < self.window {
            return None;
        }
        let mut loads = Loads::new(&self.load, table);
        let mean = self.packets as f64 / self.workers as f64;
        let busiest = loads.most().1;
        self.balance.windows += 1;
        self.balance.busiest_last = busiest as f64 / mean;
        self.balance.best_last = loads.best as f64 / mean;
        if self.balance.windows == 1 {
            self.balance.busiest_first = self.balance.busiest_last;
        }
        let better = (loads.are_uneven() || self.is_restless).then(|| {
            let mut better = table.clone();
            match self.is_restless {
                true => shuffle(&mut better, self.balance.windows),
                false => loads.even_out(&mut better),
            }
            let departures = departures(table, &better);
            (better, departures)
        });
        self.load.fill(0);
        self.packets = 0;
        let better = better.filter(|(_, departures)| !departures.is_empty());
        if let Some((_, departures)) = &better {
            self.balance.steps += 1;
            let moved = departures.iter().map(|one| one.shards.iter().count() as u64);
            self.balance.shards_moved += moved.sum::<u64>();
        }
        better
    }

    /// How evenly packets were divided so far; `None`: no window has ended.
    pub fn balance(&self) -> Option<BalanceReport> {
        (self.balance.windows > 0).then_some(self.balance)
    }
}

/// Gives about one shard in four to the worker that is next to its own, each time others.
fn shuffle(table: &mut IndirectionTable, turn: u64) {
    for shard in 0..table.shards() as u16 {
        let chance = (u64::from(shard) << 32 ^ turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
        let owner = table.worker_of_shard(shard).filter(|_| chance == 0);
        // Both exist.
        if let Some(owner) = owner {
            let next = (usize::from(owner) + 1) % table.workers();
            let _ = table.move_shard(shard, next as u16);
        }
    }
}

/// What has to move for `before` to become `after`.
pub(crate) fn departures(before: &IndirectionTable, after: &IndirectionTable) -> Vec<Departure> {
    let mut departures: Vec<Departure> = Vec::new();
    for shard in 0..before.shards() as u16 {
        let owners = (before.worker_of_shard(shard), after.worker_of_shard(shard));
        let (Some(from), Some(to)) = owners else { continue };
        if from == to {
            continue;
        }
        let known = departures.iter_mut().find(|one| (one.from, one.to) == (from, to));
        match known {
            Some(departure) => departure.shards.insert(shard),
            None => departures.push(Departure { from, to, shards: [shard].into_iter().collect() }),
        }
    }
    departures
}

/// What no assignment to `workers` workers goes below: an even share; the largest shard; of one more
/// shards than workers, the largest ones, two that share a worker; as many of the smallest as some
/// worker has at least.
fn bound(of_shard: &[u64], workers: usize) -> u64 {
    let mut loads = of_shard.to_vec();
    loads.sort_unstable_by(|a, b| b.cmp(a));
    let at = |index: usize| loads.get(index).copied().unwrap_or(0);
    let even = loads.iter().sum::<u64>().div_ceil(workers.max(1) as u64);
    let pair = at(workers.max(1) - 1) + at(workers.max(1));
    let many = loads.len().div_ceil(workers.max(1));
    let least: u64 = loads.iter().rev().take(many).sum();
    even.max(at(0)).max(pair).max(least)
}

/// The load of each worker's shards.
struct Loads<'a> {
    of_shard: &'a [u64],
    of_worker: Vec<u64>,
    /// No assignment gives the busiest worker less.
    best: u64,
}

impl<'a> Loads<'a> {
    fn new(of_shard: &'a [u64], table: &IndirectionTable) -> Self {
        let mut of_worker = vec![0; table.workers()];
        for (shard, load) in (0..).zip(of_shard) {
            let owner = table.worker_of_shard(shard).and_then(|at| of_worker.get_mut(at as usize));
            owner.into_iter().for_each(|sum| *sum += load);
        }
        let best = bound(of_shard, of_worker.len());
        Self { of_shard, of_worker, best }
    }

    fn most(&self) -> (u16, u64) {
        let loads = (0..).zip(self.of_worker.iter().copied());
        loads.max_by_key(|&(worker, load)| (load, std::cmp::Reverse(worker))).unwrap_or((0, 0))
    }

    fn least(&self) -> (u16, u64) {
        let loads = (0..).zip(self.of_worker.iter().copied());
        loads.min_by_key(|&(worker, load)| (load, worker)).unwrap_or((0, 0))
    }

    /// Whether the busiest worker is above the best by the margin, and by more than chance: three
    /// standard deviations of its count.
    fn are_uneven(&self) -> bool {
        let busiest = self.most().1;
        let margin = self.best * MARGIN_PERCENT / 100 + 3 * busiest.isqrt();
        busiest > self.best + margin
    }

    /// Moves few shards; all anew only where that is better by the margin.
    fn even_out(&mut self, table: &mut IndirectionTable) {
        self.improve(table);
        if self.is_near() {
            return;
        }
        let (mut dealt, mut anew) = self.dealt(table);
        dealt.improve(&mut anew);
        let margin = dealt.most().1 * MARGIN_PERCENT / 100;
        if self.most().1 > dealt.most().1 + margin {
            (*self, *table) = (dealt, anew);
        }
    }

    fn is_near(&self) -> bool {
        self.most().1 <= self.best + self.best * NEAR_PERCENT / 100
    }

    /// Every shard given out anew, the largest first, each to the idlest: the busiest worker has at
    /// most a third more than in the best of all assignments (Graham, "Bounds on multiprocessing
    /// timing anomalies", 1969).
    fn dealt(&self, table: &IndirectionTable) -> (Self, IndirectionTable) {
        let mut anew = table.clone();
        let of_worker = vec![0; self.of_worker.len()];
        let mut dealt = Self { of_shard: self.of_shard, of_worker, best: self.best };
        let mut order: Vec<(u64, u16)> = self.of_shard.iter().copied().zip(0..).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for (load, shard) in order {
            let (idlest, _) = dealt.least();
            if anew.move_shard(shard, idlest).is_ok() {
                dealt.of_worker[usize::from(idlest)] += load;
            }
        }
        (dealt, anew)
    }

    /// Moves shards, or exchanges two, from the busiest worker to the idlest, each time what evens
    /// these two out best, until the busiest is near the best or nothing helps.
    fn improve(&mut self, table: &mut IndirectionTable) {
        for _ in 0..4 * self.of_shard.len() {
            let ((most, busiest), (least, idlest)) = (self.most(), self.least());
            if self.is_near() {
                return;
            }
            let Some((there, back)) = self.exchange(table, (most, least), busiest - idlest) else {
                return;
            };
            self.give(table, there, (most, least));
            if let Some(back) = back {
                self.give(table, back, (least, most));
            }
        }
    }

    /// The shard of the first worker and perhaps one of the second whose exchange brings their loads,
    /// now `gap` apart, nearest to each other.
    fn exchange(
        &self,
        table: &IndirectionTable,
        (most, least): (u16, u16),
        gap: u64,
    ) -> Option<(u16, Option<u16>)> {
        let load = |shard: u16| self.of_shard.get(usize::from(shard)).copied().unwrap_or(0);
        // What is left of the gap where `more` goes over: less than before where it helps.
        let left = |more: u64| (gap as i64 - 2 * more as i64).unsigned_abs();
        let loaded = |worker| table.shards_of_worker(worker).filter(move |&shard| load(shard) > 0);
        let single = loaded(most).map(|there| (left(load(there)), there, None)).min();
        let single = single.filter(|&(left, ..)| left < gap);
        if let Some((left, there, _)) = single
            && left <= gap / 8
        {
            return Some((there, None));
        }
        let theirs: Vec<u16> = loaded(least).collect();
        let pairs = loaded(most).flat_map(|there| theirs.iter().map(move |&back| (there, back)));
        let pairs = pairs.filter(|&(there, back)| load(there) > load(back));
        let pair = pairs
            .map(|(there, back)| (left(load(there) - load(back)), there, Some(back)))
            .filter(|&(left, ..)| left < gap)
            .min();
        let (_, there, back) = single.into_iter().chain(pair).min()?;
        Some((there, back))
    }

    fn give(&mut self, table: &mut IndirectionTable, shard: u16, (from, to): (u16, u16)) {
        let load = self.of_shard.get(usize::from(shard)).copied().unwrap_or(0);
        if table.move_shard(shard, to).is_ok() {
            self.of_worker[usize::from(from)] -= load;
            self.of_worker[usize::from(to)] += load;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(workers: usize) -> IndirectionTable {
        IndirectionTable::new(512, 512, workers).unwrap()
    }

    fn busiest(load: &[u64], table: &IndirectionTable) -> (u64, u64) {
        let loads = Loads::new(load, table);
        (loads.most().1, loads.best)
    }

    /// The least that the busiest of `workers` can have, by trying everything.
    fn optimum(load: &[u64], workers: usize) -> u64 {
        fn place(rest: &[u64], sums: &mut Vec<u64>, best: &mut u64) {
            let Some((&first, rest)) = rest.split_first() else {
                *best = (*best).min(sums.iter().copied().max().unwrap());
                return;
            };
            for worker in 0..sums.len() {
                if sums[worker] + first < *best {
                    sums[worker] += first;
                    place(rest, sums, best);
                    sums[worker] -= first;
                }
            }
        }
        let mut best = u64::MAX;
        place(load, &mut vec![0; workers], &mut best);
        best
    }

    /// As far above the best of all assignments as all anew may be, and the margin.
    fn is_near_enough(found: u64, optimum: u64, workers: usize) -> bool {
        let anew = 4.0 / 3.0 - 1.0 / (3.0 * workers as f64);
        found as f64 <= anew * (1.0 + MARGIN_PERCENT as f64 / 100.0) * optimum as f64
    }

    #[test]
    fn where_few_moves_do_not_help_all_shards_are_given_out_anew() {
        // No move between the busiest and the idlest helps before a third more than the best.
        let load = [36_995, 87_965, 33_933, 25_394, 96_321, 75_379];
        let mut table = table(3);
        let mut loads = Loads::new(&load, &table);
        loads.improve(&mut table);
        let (stuck, optimum) = (loads.most().1, optimum(&load, 3));
        assert!(!is_near_enough(stuck, optimum, 3), "{stuck} {optimum}");
        loads.even_out(&mut table);
        assert_eq!(busiest(&load, &table).0, optimum);
    }

    proptest! {
        #[test]
        fn few_shards_are_near_the_best_of_all_assignments(
            load in prop::collection::vec(0u64..100_000, 6..9),
            workers in 2usize..4,
        ) {
            let mut table = table(workers);
            let optimum = optimum(&load, workers);
            let mut loads = Loads::new(&load, &table);
            loads.even_out(&mut table);
            let (found, bound) = busiest(&load, &table);
            prop_assert!(bound <= optimum && optimum <= found, "{bound} {optimum} {found}");
            prop_assert!(is_near_enough(found, optimum, workers), "{found} {optimum} {load:?}");
        }

        #[test]
        fn many_shards_come_within_two_percent_of_the_bound(
            seed in any::<u64>(),
            workers in 2usize..17,
            exponent in 0u32..14,
        ) {
            // The n-th most loaded shard has n^-exponent/10 of the first one's load.
            let mut order: Vec<usize> = (0..512).collect();
            let mut state = seed | 1;
            for at in (1..512).rev() {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                order.swap(at, (state >> 33) as usize % (at + 1));
            }
            let of_rank = |rank: usize| {
                (1e6 * f64::powf(rank as f64 + 1.0, -f64::from(exponent) / 10.0)) as u64
            };
            let load: Vec<u64> = order.into_iter().map(of_rank).collect();
            let mut table = table(workers);
            Loads::new(&load, &table).even_out(&mut table);
            let (found, bound) = busiest(&load, &table);
            prop_assert!(found as f64 <= 1.02 * bound as f64, "{found} {bound}");
        }
    }

    fn window(balancer: &mut Balancer, load: impl Fn(u16) -> u32) {
        let load: Vec<u32> = (0..512).map(load).collect();
        balancer.count(&load);
    }

    #[test]
    fn an_even_load_moves_nothing() {
        let table = table(4);
        let mut balancer = Balancer::new(&table, Balancing::Even).unwrap();
        for round in 0..100 {
            // Four percent more for one worker than for the others, and what differs by chance.
            window(&mut balancer, |shard| {
                let chance = (u32::from(shard) * 7 + round * 13) % 11;
                145 + chance + u32::from(shard % 4 == 1) * 6
            });
            assert!(balancer.rebalance(&table).is_none());
        }
        let balance = balancer.balance().unwrap();
        assert_eq!((balance.windows, balance.shards_moved), (100, 0));
    }

    #[test]
    fn what_has_moved_once_stays_where_the_load_stays() {
        let table = table(4);
        let mut balancer = Balancer::new(&table, Balancing::Even).unwrap();
        let load = |shard: u16| if shard.is_multiple_of(4) { 400 } else { 100 };
        window(&mut balancer, load);
        let (table, moved) = balancer.rebalance(&table).unwrap();
        assert!(moved.iter().all(|one| one.from == 0) && moved.len() == 3, "{moved:?}");
        for _ in 0..10 {
            window(&mut balancer, load);
            assert!(balancer.rebalance(&table).is_none());
        }
        let balance = balancer.balance().unwrap();
        assert!(balance.busiest_first > 2.2 && balance.busiest_last < 1.03, "{balance:?}");
    }

    #[test]
    fn half_a_window_is_not_judged_by() {
        let table = table(2);
        let mut balancer = Balancer::new(&table, Balancing::Even).unwrap();
        window(&mut balancer, |shard| u32::from(shard == 0) * 20_000);
        assert!(balancer.rebalance(&table).is_none());
        assert_eq!(balancer.balance(), None);
    }
}
