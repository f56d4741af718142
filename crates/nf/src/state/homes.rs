//! Steered allocation: which indices an allocator may give out in which shard.

/// The shard of each index, where that follows from a packet field that replies will bring:
/// index `i` is at home in shard `shards[i % shards.len()]`.
///
/// With one hash for all packets, an index that a shard gives out must lead the reply home: it is
/// taken among those of its own shard only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    shards: Box<[u16]>,
    /// The columns of each shard, in ascending order, one shard's after another's.
    columns: Box<[u32]>,
    /// Where each shard's columns begin.
    starts: Box<[u32]>,
}

impl Homes {
    /// The homes of indices whose shards repeat after `shards`; none of them is as large as
    /// `count`. `None` for no shard at all.
    pub fn new(shards: Vec<u16>, count: u16) -> Option<Self> {
        if shards.is_empty() || u32::try_from(shards.len()).is_err() {
            return None;
        }
        let mut columns: Vec<u32> = (0..shards.len() as u32).collect();
        columns.sort_by_key(|&column| shards[column as usize]);
        let start = |shard: u16| columns.partition_point(|&at| shards[at as usize] < shard) as u32;
        let starts = (0..=count).map(start).collect();
        Some(Self { shards: shards.into(), columns: columns.into(), starts })
    }

    /// Whether `index` is at home in `shard`.
    pub fn is_home(&self, index: u32, shard: u16) -> bool {
        self.shards[index as usize % self.shards.len()] == shard
    }

    /// The indices of `from .. to` that are at home in `shard`, in ascending order.
    pub fn indices(&self, shard: u16, from: u32, to: u32) -> impl Iterator<Item = u32> + '_ {
        let at = |shard: u16| self.starts.get(usize::from(shard)).map_or(0, |&at| at as usize);
        let columns = self.columns.get(at(shard)..at(shard.saturating_add(1))).unwrap_or_default();
        let width = self.shards.len() as u32;
        let rows = if columns.is_empty() { 0..0 } else { from / width..to.div_ceil(width) };
        let of_row = move |row: u32| {
            let base = row * width;
            let first = columns.partition_point(|&column| base + column < from);
            columns[first..].iter().map(move |&column| base + column)
        };
        rows.flat_map(of_row).take_while(move |&index| index < to)
    }

    /// How many of the indices below the period are at home in each shard.
    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.starts.windows(2).map(|pair| pair[1] - pair[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

        #[test]
        fn the_indices_of_a_shard_are_those_at_home_there(
            shards in prop::collection::vec(0u16..7, 1..60),
            shard in 0u16..9,
            from in 0u32..300,
            len in 0u32..300,
        ) {
            let homes = Homes::new(shards, 7).unwrap();
            let found: Vec<u32> = homes.indices(shard, from, from + len).collect();
            let expected: Vec<u32> =
                (from..from + len).filter(|&index| homes.is_home(index, shard)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn sizes_add_up_to_the_period() {
        let homes = Homes::new(vec![3, 0, 3, 1], 4).unwrap();
        assert_eq!(homes.sizes().collect::<Vec<_>>(), [1, 1, 0, 2]);
        assert_eq!(Homes::new(Vec::new(), 4), None);
    }
}
