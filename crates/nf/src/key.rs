//! Values that state objects hold, and keys that they are found by.

use std::fmt::Debug;
use std::net::{Ipv4Addr, Ipv6Addr};

use anabranch_packet::{MacAddr, Port};

use crate::pack::{Pack, Unpack, wider};
use crate::packet_set::OneAddress;
use crate::shape::Shape;
use crate::trace::{Form, Parts};

/// A plain value that a state object can hold: copied in and out, with a zero that stands for
/// "nothing" wherever a world is hollow or an index is out of range.
///
/// `#[network_function]` implements it for every struct and enum of the module (all fields zero;
/// the first variant).
pub trait Value: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// Whether it is a number, so that parts of it add up.
    const NUMBER: bool = false;
    /// Of the state of packet sets, by version of IP: whether each is one address.
    const ADDRESSES: [Option<OneAddress>; 2] = [None; 2];
    /// Bits that it packs into; 0 for what no state object holds.
    const BITS: u32;
    /// The zero value.
    fn zero() -> Self;
    /// The sum, round its end; where it is no number, itself.
    #[must_use]
    fn plus(self, _other: Self) -> Self {
        self
    }
    /// The difference, round its end; where it is no number, itself.
    #[must_use]
    fn minus(self, _other: Self) -> Self {
        self
    }

    /// Packs it into [`BITS`](Self::BITS) bits: zeroes if it is zero.
    fn pack(&self, pack: &mut Pack<'_>);
    /// What was packed; zero for what has no bits.
    fn unpack(unpack: &mut Unpack<'_>) -> Self;

    /// How it lies in its bits.
    fn shape() -> Shape {
        Shape::number("bits", Self::BITS)
    }

    /// Describes the numbers that it is made of. Without effect for what no state object holds.
    fn parts(&self, _parts: &mut Parts) {}
}

/// A value that a [`Map`](crate::state::Map) or a packet set is keyed by.
///
/// `#[network_function]` implements it for every struct and enum of the module, folding the fields
/// in order.
pub trait Key: Value + Eq {
    /// Feeds the key's bits to `fold`, field by field.
    fn fold(&self, fold: Fold) -> Fold;

    /// The key's hash under `seed`.
    #[inline(always)]
    fn hash(&self, seed: u64) -> Hash {
        self.fold(Fold::new(seed)).finish()
    }

    /// Whether it is `other`. One of 64 bits is compared as the word that is hashed, not field by field.
    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        if Self::BITS == 64 {
            return self.fold(Fold::new(0)).word() == other.fold(Fold::new(0)).word();
        }
        self == other
    }
}

/// Accumulates a key's bits and mixes them 64 at a time.
///
/// Widths are compile-time constants once `fold` is inlined, so that a 13-byte key costs two
/// multiplications and no branch. The mixing step is the folded 64 × 64 → 128 bit multiplication
/// known from wyhash; the seed is drawn per run, so that a stranger cannot aim at one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    mixed: u64,
    pending: u64,
    bits: u32,
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn multiply_fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A seed with about half of its bits set, however small `seed` is: a hash multiplies by it.
pub(crate) fn spread(seed: u64) -> u64 {
    let once = multiply_fold(seed ^ 0xd1b5_4a32_d192_ed03, MULTIPLIER);
    multiply_fold(once ^ MULTIPLIER, 0xd1b5_4a32_d192_ed03)
}

impl Fold {
    /// Starts with `seed`.
    #[inline(always)]
    pub fn new(seed: u64) -> Self {
        Self { mixed: seed, pending: 0, bits: 0 }
    }

    /// Takes the low `width` bits (1 to 64) of `value`; the rest must be zero.
    #[inline(always)]
    pub fn push(mut self, value: u64, width: u32) -> Self {
        if self.bits + width > 64 {
            self.mixed = multiply_fold(self.mixed ^ self.pending, MULTIPLIER);
            self.pending = value;
            self.bits = width;
        } else {
            // `bits` is below 64 here: a full accumulator leaves no room for one bit more.
            self.pending |= value << self.bits;
            self.bits += width;
        }
        self
    }

    /// All bits taken, which are 64 at most.
    #[inline(always)]
    fn word(self) -> u64 {
        self.pending
    }

    /// The hash of everything taken.
    #[inline(always)]
    pub fn finish(self) -> Hash {
        Hash::of_product(self.mixed ^ self.pending, MULTIPLIER ^ 0xa5a5_a5a5_5a5a_5a5a)
    }
}

/// Hash of a key: one half places it, the other tags it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    position: u32,
    mark: u32,
}

impl Hash {
    /// The hash of no key.
    pub const NONE: Self = Self { position: 0, mark: 0 };

    /// The hash of a key of two words, in one multiplication.
    #[inline(always)]
    pub fn of_pair(words: [u64; 2], seed: u64) -> Self {
        Self::of_product(words[0] ^ seed, words[1] ^ MULTIPLIER)
    }

    /// Keys that follow one another, as ports and addresses do, make both halves of the product go up in
    /// equal steps. Folded upon each other as they are, so does the position, and with some seeds most keys of
    /// a host meet in a few buckets; crosswise the steps of one break up the other's, and multiplied once more
    /// what is left of them. The tag has them as they are: crosswise its bits would be those that hardly change.
    #[inline(always)]
    fn of_product(a: u64, b: u64) -> Self {
        let product = u128::from(a) * u128::from(b);
        let (low, high) = (product as u64, (product >> 64) as u64);
        let crossed = (low >> 32) as u32 ^ high as u32;
        // 2^32 over the golden ratio.
        Self { position: crossed.wrapping_mul(0x9e37_79b1), mark: low as u32 ^ high as u32 }
    }

    /// Both halves, the position above.
    #[inline(always)]
    pub fn word(self) -> u64 {
        u64::from(self.position) << 32 | u64::from(self.mark)
    }

    /// Position in a table: a fraction of its length, in units of 2^-32.
    #[inline(always)]
    pub fn position(self) -> u32 {
        self.position
    }

    /// Tag of an occupied slot, never zero.
    #[inline(always)]
    pub fn tag(self) -> u8 {
        (self.mark as u8) | 0x80
    }
}

macro_rules! integers {
    ($($integer:ty: $word:literal),*) => {$(
        impl Value for $integer {
            const NUMBER: bool = true;
            const BITS: u32 = <$integer>::BITS;
            #[inline(always)]
            fn zero() -> Self {
                0
            }
            #[inline(always)]
            fn pack(&self, pack: &mut Pack<'_>) {
                pack.put(*self as u64 & (u64::MAX >> (64 - <$integer>::BITS)), <$integer>::BITS);
            }
            #[inline(always)]
            fn unpack(unpack: &mut Unpack<'_>) -> Self {
                unpack.take(<$integer>::BITS) as $integer
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn shape() -> Shape {
                Shape::number($word, <$integer>::BITS)
            }
            fn parts(&self, parts: &mut Parts) {
                parts.leaf(*self as u128 & (u128::MAX >> (128 - <$integer>::BITS)));
            }
        }
        impl Key for $integer {
            #[inline(always)]
            fn fold(&self, fold: Fold) -> Fold {
                fold.push(*self as u64 & (u64::MAX >> (64 - <$integer>::BITS)), <$integer>::BITS)
            }
        }
    )*};
}
integers!(u8: "u", u16: "u", u32: "u", u64: "u", i8: "i", i16: "i", i32: "i", i64: "i", usize: "u");

impl Value for u128 {
    const BITS: u32 = 128;
    fn shape() -> Shape {
        Shape::number("u", Self::BITS)
    }
    #[inline(always)]
    fn zero() -> Self {
        0
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        pack.put(*self as u64, 64);
        pack.put((*self >> 64) as u64, 64);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        u128::from(unpack.take(64)) | u128::from(unpack.take(64)) << 64
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(*self);
    }
}

impl Key for u128 {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push((*self >> 64) as u64, 64).push(*self as u64, 64)
    }
}

impl Value for bool {
    const BITS: u32 = 1;
    fn shape() -> Shape {
        Shape::number("bool", Self::BITS)
    }
    #[inline(always)]
    fn zero() -> Self {
        false
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        pack.put(u64::from(*self), 1);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        unpack.take(1) != 0
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(u128::from(*self));
    }
}

impl Key for bool {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push(u64::from(*self), 1)
    }
}

impl Value for Ipv4Addr {
    const BITS: u32 = 32;
    fn shape() -> Shape {
        Shape::number("ipv4.", Self::BITS)
    }
    #[inline(always)]
    fn zero() -> Self {
        Self::UNSPECIFIED
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        pack.put(u64::from(u32::from_le_bytes(self.octets())), 32);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        Self::from((unpack.take(32) as u32).to_le_bytes())
    }
    fn parts(&self, parts: &mut Parts) {
        parts.formed(u128::from(u32::from(*self)), Form::V4);
    }
}

impl Key for Ipv4Addr {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push(u64::from(u32::from_ne_bytes(self.octets())), 32)
    }
}

impl Value for Ipv6Addr {
    const BITS: u32 = 128;
    fn shape() -> Shape {
        Shape::number("ipv6.", Self::BITS)
    }
    #[inline(always)]
    fn zero() -> Self {
        Self::UNSPECIFIED
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        u128::from_le_bytes(self.octets()).pack(pack);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        Self::from(u128::unpack(unpack).to_le_bytes())
    }
    fn parts(&self, parts: &mut Parts) {
        parts.formed(u128::from(*self), Form::V6);
    }
}

impl Key for Ipv6Addr {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        u128::from_ne_bytes(self.octets()).fold(fold)
    }
}

impl Value for MacAddr {
    const BITS: u32 = 48;
    fn shape() -> Shape {
        Shape::number("mac", Self::BITS)
    }
    #[inline(always)]
    fn zero() -> Self {
        Self::from([0; 6])
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        let [a, b, c, d, e, f] = self.octets();
        pack.put(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), 48);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        let [a, b, c, d, e, f, ..] = unpack.take(48).to_le_bytes();
        Self::from([a, b, c, d, e, f])
    }
    fn parts(&self, parts: &mut Parts) {
        let number = self.octets().iter().fold(0, |all, octet| all << 8 | u128::from(*octet));
        parts.formed(number, Form::Mac);
    }
}

impl Key for MacAddr {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        let [a, b, c, d, e, f] = self.octets();
        fold.push(u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]), 48)
    }
}

impl Value for Port {
    const BITS: u32 = 8;
    fn shape() -> Shape {
        Shape::number("port", Self::BITS)
    }
    #[inline(always)]
    fn zero() -> Self {
        Self::new(0)
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        pack.put(u64::from(self.index()), 8);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        Self::new(unpack.take(8) as u8)
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(u128::from(self.index()));
    }
}

impl Key for Port {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push(u64::from(self.index()), 8)
    }
}

impl Value for () {
    const BITS: u32 = 0;
    fn shape() -> Shape {
        Shape::fields([])
    }
    #[inline(always)]
    fn zero() -> Self {}
    #[inline(always)]
    fn pack(&self, _: &mut Pack<'_>) {}
    #[inline(always)]
    fn unpack(_: &mut Unpack<'_>) -> Self {}
}

impl Key for () {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold
    }
}

impl<T: PartialEq + Debug + Sync + 'static> Value for &'static [T] {
    const BITS: u32 = 0;
    #[inline(always)]
    fn zero() -> Self {
        &[]
    }
    #[inline(always)]
    fn pack(&self, _: &mut Pack<'_>) {}
    #[inline(always)]
    fn unpack(_: &mut Unpack<'_>) -> Self {
        &[]
    }
}

impl Value for &'static str {
    const BITS: u32 = 0;
    #[inline(always)]
    fn zero() -> Self {
        ""
    }
    #[inline(always)]
    fn pack(&self, _: &mut Pack<'_>) {}
    #[inline(always)]
    fn unpack(_: &mut Unpack<'_>) -> Self {
        ""
    }
}

impl<T: Value, E: Value> Value for Result<T, E> {
    const BITS: u32 = 1 + wider(T::BITS, E::BITS);
    fn shape() -> Shape {
        let [ok, err] = [T::shape(), E::shape()].map(|shape| Shape::fields([("value", shape)]));
        Shape::choice(1, [("err", err), ("ok", ok)])
    }
    #[inline(always)]
    fn zero() -> Self {
        Err(E::zero())
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        let end = pack.at() + Self::BITS;
        pack.put(u64::from(self.is_ok()), 1);
        match self {
            Ok(value) => value.pack(pack),
            Err(error) => error.pack(pack),
        }
        pack.seek(end);
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        let end = unpack.at() + Self::BITS;
        let result = match unpack.take(1) {
            0 => Err(E::unpack(unpack)),
            _ => Ok(T::unpack(unpack)),
        };
        unpack.seek(end);
        result
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    const BITS: u32 = T::BITS * N as u32;
    fn shape() -> Shape {
        Shape::Array(N as u32, Box::new(T::shape()))
    }
    #[inline(always)]
    fn zero() -> Self {
        [T::zero(); N]
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        for element in self {
            element.pack(pack);
        }
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        // Loops, which are part of whoever calls this: a function for each element is not, always.
        let mut all = Self::zero();
        for element in &mut all {
            *element = T::unpack(unpack);
        }
        all
    }
    fn parts(&self, parts: &mut Parts) {
        for (position, element) in self.iter().enumerate() {
            parts.field(&position.to_string(), element);
        }
    }
}

impl<T: Key, const N: usize> Key for [T; N] {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        self.iter().fold(fold, |fold, element| element.fold(fold))
    }
}

impl<T: Value> Value for Option<T> {
    const BITS: u32 = 1 + T::BITS;
    fn shape() -> Shape {
        let some = Shape::fields([("value", T::shape())]);
        Shape::choice(1, [("none", Shape::fields([])), ("some", some)])
    }
    #[inline(always)]
    fn zero() -> Self {
        None
    }
    #[inline(always)]
    fn pack(&self, pack: &mut Pack<'_>) {
        pack.put(u64::from(self.is_some()), 1);
        match self {
            Some(value) => value.pack(pack),
            None => pack.seek(pack.at() + T::BITS),
        }
    }
    #[inline(always)]
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        let there = unpack.take(1) != 0;
        let value = T::unpack(unpack);
        there.then_some(value)
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(self.is_some().into());
        if let Some(value) = self {
            parts.field("value", value);
        }
    }
}

impl<T: Key> Key for Option<T> {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        match self {
            None => fold.push(0, 1),
            Some(value) => value.fold(fold.push(1, 1)),
        }
    }
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: Value),+> Value for ($($name,)+) {
            const BITS: u32 = 0 $(+ $name::BITS)+;
            fn shape() -> Shape {
                let shapes = [$($name::shape()),+].into_iter();
                Shape::Fields((0..).map(|at: u32| at.to_string()).zip(shapes).collect())
            }
            #[inline(always)]
            fn zero() -> Self {
                ($($name::zero(),)+)
            }
            #[inline(always)]
            #[allow(non_snake_case)]
            fn pack(&self, pack: &mut Pack<'_>) {
                let ($($name,)+) = self;
                $($name.pack(pack);)+
            }
            #[inline(always)]
            fn unpack(unpack: &mut Unpack<'_>) -> Self {
                ($($name::unpack(unpack),)+)
            }
            #[allow(non_snake_case)]
            fn parts(&self, parts: &mut Parts) {
                let ($($name,)+) = self;
                let mut position = 0..;
                $(parts.field(&position.next().unwrap_or(0).to_string(), $name);)+
            }
        }
        impl<$($name: Key),+> Key for ($($name,)+) {
            #[inline(always)]
            #[allow(non_snake_case)]
            fn fold(&self, fold: Fold) -> Fold {
                let ($($name,)+) = self;
                $(let fold = $name.fold(fold);)+
                fold
            }
        }
    };
}
tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: impl Key) -> Hash {
        key.fold(Fold::new(7)).finish()
    }

    #[test]
    fn neighbouring_keys_spread() {
        let mut counts = [0u32; 64];
        for host in 0..64_000u32 {
            let position = hash((Ipv4Addr::from(0x0a00_0000 + host), 80u16)).position();
            counts[(position >> 26) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (800..1_200).contains(&count)), "{counts:?}");
    }

    /// Of the ports of a host and of the hosts of a network, in buckets half full, few find no room where they
    /// belong, whatever the seed: chance would have it of one in ten.
    #[test]
    #[cfg_attr(miri, ignore = "many hashes")]
    fn keys_that_follow_one_another_find_room() {
        const KEYS: u32 = 1_000;
        let server = 0x0002_0050_0100_12c6;
        let ports: fn(u32) -> u64 = |n| 0x0100_000a | u64::from(1_024 + n) << 32;
        let hosts: fn(u32) -> u64 = |n| u64::from((0x0a00_0001 + n).to_be()) | 40_000 << 32;
        let pairs = [ports, hosts].map(|key| move |n, seed| Hash::of_pair([server, key(n)], seed));
        let endpoint = |n: u32, seed| (0x0a00_0001u32, 1_024 + n as u16).hash(seed);
        let number = |n: u32, seed| n.hash(seed);
        let hashes: [&dyn Fn(u32, u64) -> Hash; 4] = [&pairs[0], &pairs[1], &endpoint, &number];
        for seed in (0..300).map(spread) {
            for hash in hashes {
                let mut taken = [0u32; KEYS as usize];
                for n in 0..KEYS {
                    let position = u64::from(hash(n, seed).position());
                    taken[((position * u64::from(KEYS)) >> 32) as usize] += 1;
                }
                let without: u32 = taken.iter().map(|taken| taken.saturating_sub(2)).sum();
                assert!(without < KEYS * 3 / 20, "{without} of {KEYS} with {seed:#x}");
            }
        }
    }

    #[test]
    fn order_and_width_count() {
        assert_ne!(hash((1u16, 2u16)), hash((2u16, 1u16)));
        assert_ne!(hash(0x0102_0304u32), hash(0x0403_0201u32));
    }
}
