//! Keys as their table has them.

use std::marker::PhantomData;

use super::SetKey4;
use crate::key::{Fold, Hash, Key, Value};
use crate::pack::{Pack, Unpack};

/// Where the address stands that an IPv4 packet set is keyed by and nothing beside it, with the number of its
/// key list, the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneAddress {
    /// The packets' source.
    Source(u8),
    /// The packets' destination.
    Destination(u8),
}

/// A key of sets with the state `S`. Where each is [one IPv4 address](Value::ADDRESS) it is that address, 4
/// bytes instead of 16, so that more sets lie in a cache line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stored<K, S>(K, PhantomData<S>);

impl<K: Key, S: Value> Stored<K, S> {
    /// Of IPv6 sets none is: their keys are too long for a bucket to pack.
    const ADDRESS: Option<OneAddress> = if K::BITS == SetKey4::BITS { S::ADDRESS } else { None };

    #[inline(always)]
    pub(crate) fn new(key: &K) -> Self {
        Self(*key, PhantomData)
    }

    #[inline(always)]
    pub(crate) fn key(self) -> K {
        self.0
    }
}

impl<K: Eq, S: PartialEq> Eq for Stored<K, S> {}

impl<K: Key, S: Value> Value for Stored<K, S> {
    const BITS: u32 = if Self::ADDRESS.is_some() { 32 } else { K::BITS };

    fn zero() -> Self {
        Self(K::zero(), PhantomData)
    }

    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        let Some(one) = Self::ADDRESS else { return self.0.pack(pack) };
        let mut ends = [0; 2];
        self.0.pack(&mut Pack::new(&mut ends));
        let [first, second] = ends;
        let address = match one {
            OneAddress::Source(_) => first,
            OneAddress::Destination(_) => second,
        };
        pack.put(address & u64::from(u32::MAX), 32);
    }

    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        let key = match Self::ADDRESS {
            None => K::unpack(unpack),
            Some(one) => {
                let address = unpack.take(32);
                let ends = match one {
                    OneAddress::Source(list) => [address | SetKey4::list(list), 0],
                    OneAddress::Destination(list) => [SetKey4::list(list), address],
                };
                K::unpack(&mut Unpack::new(&ends))
            }
        };
        Self(key, PhantomData)
    }
}

impl<K: Key, S: Value> Key for Stored<K, S> {
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
    use std::net::Ipv4Addr;

    use super::*;
    use crate::packet_set::{SetShape, SetTable};

    /// What the policer keeps of a destination, under keys of any kind and of one address.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Account<const END: u8>([u64; 2]);

    impl<const END: u8> Value for Account<END> {
        const ADDRESS: Option<OneAddress> = match END {
            1 => Some(OneAddress::Source(3)),
            2 => Some(OneAddress::Destination(3)),
            _ => None,
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

    fn key(end: u8, host: u32) -> SetKey4 {
        let (host, none) = (Ipv4Addr::from(host), Ipv4Addr::UNSPECIFIED);
        let (src, dst) = if end == 1 { (host, none) } else { (none, host) };
        SetKey4::new(src, dst, 0, 0, 3)
    }

    /// Opens sets, and ends them: their keys are what they were.
    fn bytes<const END: u8>() -> u64 {
        const SETS: u32 = 1_000;
        let host = |number: u32| number.wrapping_mul(0x9e37_79b9);
        let shape = SetShape { capacity: SETS, lifetime_ns: 1_000_000_000 };
        let mut sets = SetTable::<SetKey4, Account<END>>::new(shape, 7);
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
    fn sets_of_one_address_take_less_room_and_keep_their_keys() {
        let (any, source, destination) = (bytes::<0>(), bytes::<1>(), bytes::<2>());
        assert_eq!(source, destination);
        assert!(source * 100 < any * 92, "{source} of {any} bytes");
    }

    #[test]
    fn keys_come_back_as_they_were() {
        fn back<const END: u8>(host: u32) {
            let key = Stored::<SetKey4, Account<END>>::new(&key(END, host));
            let mut words = [0; 2];
            key.pack(&mut Pack::new(&mut words));
            assert_eq!(Stored::unpack(&mut Unpack::new(&words)), key);
            assert_eq!(words[1] == 0 && words[0] >> 32 == 0, END != 0);
        }
        for host in [1, 0x0a00_0001, u32::MAX] {
            back::<0>(host);
            back::<1>(host);
            back::<2>(host);
        }
    }
}
