//! Keys as their table has them.

use std::marker::PhantomData;

use super::{SetKey4, SetKey6};
use crate::key::{Fold, Hash, Key, Value};
use crate::pack::{Pack, Unpack};

/// Where the address stands that packet sets are keyed by and nothing beside it, with the number of their key list,
/// the only one of its version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneAddress {
    /// The packets' source.
    Source(u8),
    /// The packets' destination.
    Destination(u8),
}

/// A key of packet sets of one version of IP.
pub trait Ends: Key {
    /// Of [`Value::ADDRESSES`], that of this version.
    const VERSION: usize;
    /// Bits of an address.
    const ADDRESS: u32;

    /// The words of one of its addresses.
    fn address(&self, one: OneAddress) -> [u64; 2];

    /// The key of sets that are this address.
    fn of_address(words: [u64; 2], one: OneAddress) -> Self;
}

impl Ends for SetKey4 {
    const VERSION: usize = 0;
    const ADDRESS: u32 = 32;

    #[inline(always)]
    fn address(&self, one: OneAddress) -> [u64; 2] {
        let end = match one {
            OneAddress::Source(_) => self.first,
            OneAddress::Destination(_) => self.second,
        };
        [end & u64::from(u32::MAX), 0]
    }

    #[inline(always)]
    fn of_address([address, _]: [u64; 2], one: OneAddress) -> Self {
        match one {
            OneAddress::Source(list) => Self::of_ends(address, 0, list),
            OneAddress::Destination(list) => Self::of_ends(0, address, list),
        }
    }
}

impl Ends for SetKey6 {
    const VERSION: usize = 1;
    const ADDRESS: u32 = 128;

    #[inline(always)]
    fn address(&self, one: OneAddress) -> [u64; 2] {
        match one {
            OneAddress::Source(_) => self.first,
            OneAddress::Destination(_) => self.second,
        }
    }

    #[inline(always)]
    fn of_address(address: [u64; 2], one: OneAddress) -> Self {
        let (first, second, list) = match one {
            OneAddress::Source(list) => (address, [0; 2], list),
            OneAddress::Destination(list) => ([0; 2], address, list),
        };
        Self { first, second, ports: 0, list }
    }
}

/// A key of sets with the state `S`. Where each is [one address](Value::ADDRESSES) it is that address, 4 bytes
/// instead of 16, or 16 instead of 40, so that more sets lie in a cache line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stored<K, S>(K, PhantomData<S>);

impl<K: Ends, S: Value> Stored<K, S> {
    const ONE: Option<OneAddress> = S::ADDRESSES[K::VERSION];

    #[inline(always)]
    pub(crate) fn new(key: &K) -> Self {
        debug_assert!(Self::of_told(key).is_some(), "{key:?} is more than an address");
        Self(*key, PhantomData)
    }

    /// The key that a store has so; `None`: it is of a release whose sets had other keys, more of which counts than
    /// the table keeps.
    pub(crate) fn of_told(key: &K) -> Option<Self> {
        let is_all = |one| K::of_address(key.address(one), one) == *key;
        Self::ONE.is_none_or(is_all).then_some(Self(*key, PhantomData))
    }

    #[inline(always)]
    pub(crate) fn key(self) -> K {
        self.0
    }
}

impl<K: Eq, S: PartialEq> Eq for Stored<K, S> {}

impl<K: Ends, S: Value> Value for Stored<K, S> {
    const BITS: u32 = if Self::ONE.is_some() { K::ADDRESS } else { K::BITS };

    fn zero() -> Self {
        Self(K::zero(), PhantomData)
    }

    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        let Some(one) = Self::ONE else { return self.0.pack(pack) };
        let [low, high] = self.0.address(one);
        pack.put(low, K::ADDRESS.min(64));
        if K::ADDRESS > 64 {
            pack.put(high, K::ADDRESS - 64);
        }
    }

    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        let key = match Self::ONE {
            None => K::unpack(unpack),
            Some(one) => {
                let low = unpack.take(K::ADDRESS.min(64));
                let high = unpack.take(K::ADDRESS.saturating_sub(64));
                K::of_address([low, high], one)
            }
        };
        Self(key, PhantomData)
    }
}

impl<K: Ends, S: Value> Key for Stored<K, S> {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        self.0.fold(fold)
    }

    #[inline(always)]
    fn hash(&self, seed: u64) -> Hash {
        self.0.hash(seed)
    }

    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::Arc;

    use anabranch_txn::{Domain, Transaction, Worker};

    use super::*;
    use crate::packet_set::{SetShape, SetTable};
    use crate::state::journal::{self, Journaled as _, Moment};
    use crate::state::table::Table;
    use crate::tracked::DividedSets;

    /// What the policer keeps of a destination, under keys of any kind and of one address.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Account<const END: u8>([u64; 2]);

    impl<const END: u8> Value for Account<END> {
        const ADDRESSES: [Option<OneAddress>; 2] = match END {
            1 => [Some(OneAddress::Source(3)); 2],
            2 => [Some(OneAddress::Destination(3)); 2],
            _ => [None; 2],
        };
        const BITS: u32 = <[u64; 2]>::BITS;
        fn zero() -> Self {
            Self([0; 2])
        }
        fn pack(&self, pack: &mut Pack<'_>) {
            self.0.pack(pack);
        }
        fn unpack(unpack: &mut Unpack<'_>) -> Self {
            Self(Value::unpack(unpack))
        }
    }

    fn key4(end: u8, host: u32) -> SetKey4 {
        let (host, none) = (Ipv4Addr::from(host), Ipv4Addr::UNSPECIFIED);
        let (src, dst) = if end == 1 { (host, none) } else { (none, host) };
        SetKey4::new(src, dst, 0, 0, 3)
    }

    fn key6(end: u8, host: u32) -> SetKey6 {
        let host = Ipv6Addr::from(u128::from(host) << 90 | u128::from(!host) << 7);
        let none = Ipv6Addr::UNSPECIFIED;
        let (src, dst) = if end == 1 { (host, none) } else { (none, host) };
        SetKey6::new(src, dst, 0, 0, 3)
    }

    /// Opens sets, finds them, and ends them, and says how many bytes they take.
    fn bytes<K: Ends, const END: u8>(key: fn(u8, u32) -> K) -> u64 {
        const SETS: u32 = 1_000;
        let host = |number: u32| number.wrapping_mul(0x9e37_79b9);
        let shape = SetShape { capacity: SETS, lifetime_ns: 1_000_000_000 };
        let mut sets = SetTable::<K, Account<END>>::new(shape, 7);
        for number in 0..SETS {
            let key = key(END, host(number));
            let account = Account([number.into(), 9]);
            sets.open(sets.hash(&key), key, account, 1).expect("there is room");
        }
        for number in 0..SETS {
            let key = key(END, host(number));
            let set = sets.get(sets.hash(&key), &key).expect("it was opened");
            assert_eq!(set.state, Account([number.into(), 9]));
        }
        let other = key(END, host(SETS));
        assert!(sets.get(sets.hash(&other), &other).is_none());
        let bytes = sets.table_use("").bytes;
        let ended = std::iter::from_fn(|| sets.expire(1 << 20, &mut u32::MAX.clone()));
        assert_eq!(ended.count(), SETS as usize);
        bytes
    }

    #[test]
    fn sets_of_one_address_take_less_room() {
        let [any, source, destination] =
            [bytes::<_, 0>(key4), bytes::<_, 1>(key4), bytes::<_, 2>(key4)];
        assert_eq!(source, destination);
        assert!(source * 100 < any * 92, "{source} of {any} bytes");
        let [any, source, destination] =
            [bytes::<_, 0>(key6), bytes::<_, 1>(key6), bytes::<_, 2>(key6)];
        assert_eq!(source, destination);
        assert!(source * 100 < any * 60, "{source} of {any} bytes");
    }

    /// Of an earlier release whose sets had more in their keys, or another list: they would be looked for elsewhere
    /// once their time is over.
    #[test]
    fn what_other_key_lists_have_left_is_refused() {
        let [source, destination] = [key4(1, 7), key4(2, 7)];
        let (src, none) = (Ipv4Addr::from(7), Ipv4Addr::UNSPECIFIED);
        let others = [
            destination,
            SetKey4::new(src, none, 0, 0, 2),
            SetKey4::new(src, none, 5, 0, 3),
            SetKey4::new(src, Ipv4Addr::from(8), 0, 0, 3),
        ];
        let shape = SetShape { capacity: 8, lifetime_ns: 1_000_000_000 };
        let (moment, set) = (Moment::new(0), (1u64 << 30, 1_000u32, Account::<1>([1, 2])));
        let mut own = SetTable::<SetKey4, Account<1>>::new(shape, 7);
        let mut restores =
            |key| own.restore(&journal::stored(key), &journal::stored(&set), &moment);
        assert!(!others.iter().any(&mut restores) && restores(&source));

        let domain = Arc::new(Domain::new(1, false));
        // Kept where each worker has its own, too, while other state is shared.
        let (mut divided, _) =
            DividedSets::<SetKey4, Account<1>>::of_all(&domain, shape, 7).expect("it is small");
        let mut worker = Worker::new(Arc::new(Transaction::new(&domain, 0)));
        worker.alone(|transaction| {
            let mut restores = |key| {
                let told = (&*journal::stored(key), &*journal::stored(&set));
                divided[0].restore(transaction, 0, told, &moment)
            };
            assert!(!others.iter().any(&mut restores));
        });
    }

    #[test]
    fn keys_come_back_as_they_were() {
        fn back<K: Ends, const END: u8>(key: K, is_short: bool) {
            let key = Stored::<K, Account<END>>::new(&key);
            let mut words = [0; 5];
            key.pack(&mut Pack::new(&mut words));
            assert_eq!(Stored::unpack(&mut Unpack::new(&words)), key);
            let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last as u32 + 1);
            assert_eq!(used <= K::ADDRESS.div_ceil(64), is_short);
        }
        for host in [1, 0x0a00_0001, u32::MAX] {
            back::<_, 0>(key4(0, host), false);
            back::<_, 1>(key4(1, host), true);
            back::<_, 2>(key4(2, host), true);
            back::<_, 0>(key6(0, host), false);
            back::<_, 1>(key6(1, host), true);
            back::<_, 2>(key6(2, host), true);
        }
        // Two to a line, and one.
        let [short, long] = [
            Table::<Stored<SetKey4, Account<2>>, [u64; 3]>::new(8, 1).bytes(),
            Table::<Stored<SetKey6, Account<2>>, [u64; 3]>::new(8, 1).bytes(),
        ];
        assert_eq!((short, long), (8 * 64, 16 * 64));
    }
}
