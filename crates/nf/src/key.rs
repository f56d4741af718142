//! Values that state objects hold, and keys that they are found by.

use std::net::{Ipv4Addr, Ipv6Addr};

use anabranch_packet::{MacAddr, Port};

use crate::state::journal::{Reader, Writer};
use crate::trace::Parts;

/// A plain value that a state object can hold: copied in and out, with a zero that stands for
/// "nothing" wherever a world is hollow or an index is out of range.
///
/// `#[network_function]` implements it for every struct and enum of the module (all fields zero;
/// the first variant).
pub trait Value: Copy + PartialEq + Send + Sync + 'static {
    /// Whether it is a number, so that parts of it add up.
    const NUMBER: bool = false;
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

    /// Describes the numbers that it is made of. Without effect for what no state object holds.
    fn parts(&self, _parts: &mut Parts) {}

    /// Writes itself as bytes, for a state store. Without effect for what no state object holds.
    fn store(&self, _to: &mut Writer) {}
    /// Reads what [`store`](Self::store) wrote; `None` if it is no such value.
    fn load(_from: &mut Reader<'_>) -> Option<Self> {
        None
    }
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

    /// The hash of everything taken.
    #[inline(always)]
    pub fn finish(self) -> Hash {
        Hash(multiply_fold(self.mixed ^ self.pending, MULTIPLIER ^ 0xa5a5_a5a5_5a5a_5a5a))
    }
}

/// Hash of a key: the high half places it, the low bits tag it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub u64);

impl Hash {
    /// The hash of a key of two words, in one multiplication.
    #[inline(always)]
    pub fn of_pair(words: [u64; 2], seed: u64) -> Self {
        Self(multiply_fold(words[0] ^ seed, words[1] ^ MULTIPLIER))
    }

    /// Position in a table: a fraction of its length, in units of 2^-32.
    #[inline(always)]
    pub fn position(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Tag of an occupied slot, never zero.
    #[inline(always)]
    pub fn tag(self) -> u8 {
        (self.0 as u8) | 0x80
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Value for $integer {
            const NUMBER: bool = true;
            #[inline(always)]
            fn zero() -> Self {
                0
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn parts(&self, parts: &mut Parts) {
                parts.leaf(*self as u128 & (u128::MAX >> (128 - <$integer>::BITS)));
            }
            fn store(&self, to: &mut Writer) {
                to.number(*self as u128, <$integer>::BITS / 8);
            }
            fn load(from: &mut Reader<'_>) -> Option<Self> {
                from.number(<$integer>::BITS / 8).map(|number| number as Self)
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
integers!(u8, u16, u32, u64, i8, i16, i32, i64, usize);

impl Value for u128 {
    #[inline(always)]
    fn zero() -> Self {
        0
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(*self);
    }
    fn store(&self, to: &mut Writer) {
        to.number(*self, 16);
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        from.number(16)
    }
}

impl Key for u128 {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push((*self >> 64) as u64, 64).push(*self as u64, 64)
    }
}

impl Value for bool {
    #[inline(always)]
    fn zero() -> Self {
        false
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(u128::from(*self));
    }
    fn store(&self, to: &mut Writer) {
        to.number(u128::from(*self), 1);
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        match from.number(1)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Key for bool {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push(u64::from(*self), 1)
    }
}

impl Value for Ipv4Addr {
    #[inline(always)]
    fn zero() -> Self {
        Self::UNSPECIFIED
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(u128::from(u32::from(*self)));
    }
    fn store(&self, to: &mut Writer) {
        u32::from(*self).store(to);
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        u32::load(from).map(Self::from)
    }
}

impl Key for Ipv4Addr {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push(u64::from(u32::from_ne_bytes(self.octets())), 32)
    }
}

impl Value for Ipv6Addr {
    #[inline(always)]
    fn zero() -> Self {
        Self::UNSPECIFIED
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(u128::from(*self));
    }
    fn store(&self, to: &mut Writer) {
        u128::from(*self).store(to);
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        u128::load(from).map(Self::from)
    }
}

impl Key for Ipv6Addr {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        u128::from_ne_bytes(self.octets()).fold(fold)
    }
}

impl Value for MacAddr {
    #[inline(always)]
    fn zero() -> Self {
        Self::from([0; 6])
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(self.octets().iter().fold(0, |all, octet| all << 8 | u128::from(*octet)));
    }
    fn store(&self, to: &mut Writer) {
        self.octets().store(to);
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        <[u8; 6]>::load(from).map(Self::from)
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
    #[inline(always)]
    fn zero() -> Self {
        Self::new(0)
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(u128::from(self.index()));
    }
    fn store(&self, to: &mut Writer) {
        self.index().store(to);
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        u8::load(from).map(Self::new)
    }
}

impl Key for Port {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold.push(u64::from(self.index()), 8)
    }
}

impl Value for () {
    #[inline(always)]
    fn zero() -> Self {}
    fn load(_: &mut Reader<'_>) -> Option<Self> {
        Some(())
    }
}

impl Key for () {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        fold
    }
}

impl<T: PartialEq + Sync + 'static> Value for &'static [T] {
    #[inline(always)]
    fn zero() -> Self {
        &[]
    }
}

impl Value for &'static str {
    #[inline(always)]
    fn zero() -> Self {
        ""
    }
}

impl<T: Value, E: Value> Value for Result<T, E> {
    #[inline(always)]
    fn zero() -> Self {
        Err(E::zero())
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    #[inline(always)]
    fn zero() -> Self {
        [T::zero(); N]
    }
    fn parts(&self, parts: &mut Parts) {
        for (position, element) in self.iter().enumerate() {
            parts.field(&position.to_string(), element);
        }
    }
    fn store(&self, to: &mut Writer) {
        self.iter().for_each(|element| element.store(to));
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        let mut all = Self::zero();
        for element in &mut all {
            *element = T::load(from)?;
        }
        Some(all)
    }
}

impl<T: Key, const N: usize> Key for [T; N] {
    #[inline(always)]
    fn fold(&self, fold: Fold) -> Fold {
        self.iter().fold(fold, |fold, element| element.fold(fold))
    }
}

impl<T: Value> Value for Option<T> {
    #[inline(always)]
    fn zero() -> Self {
        None
    }
    fn parts(&self, parts: &mut Parts) {
        parts.leaf(self.is_some().into());
        if let Some(value) = self {
            parts.field("value", value);
        }
    }
    fn store(&self, to: &mut Writer) {
        self.is_some().store(to);
        if let Some(value) = self {
            value.store(to);
        }
    }
    fn load(from: &mut Reader<'_>) -> Option<Self> {
        match bool::load(from)? {
            true => T::load(from).map(Some),
            false => Some(None),
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
            #[inline(always)]
            fn zero() -> Self {
                ($($name::zero(),)+)
            }
            #[allow(non_snake_case)]
            fn parts(&self, parts: &mut Parts) {
                let ($($name,)+) = self;
                let mut position = 0..;
                $(parts.field(&position.next().unwrap_or(0).to_string(), $name);)+
            }
            #[allow(non_snake_case)]
            fn store(&self, to: &mut Writer) {
                let ($($name,)+) = self;
                $($name.store(to);)+
            }
            fn load(from: &mut Reader<'_>) -> Option<Self> {
                Some(($($name::load(from)?,)+))
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

    #[test]
    fn order_and_width_count() {
        assert_ne!(hash((1u16, 2u16)), hash((2u16, 1u16)));
        assert_ne!(hash(0x0102_0304u32), hash(0x0403_0201u32));
    }
}
