//! Values as bits in words: how they lie where several workers change them.
//!
//! Fields follow each other without gaps, lowest bits first; the width of each type is a constant, so
//! that a value's words and shifts are known when it is compiled. The zero value packs to zeroes.

/// Words of the largest value that a shared state object holds: keys, values, elements.
pub const MOST_WORDS: usize = 32;

/// Words that `bits` bits take.
pub const fn words(bits: u32) -> usize {
    bits.div_ceil(64) as usize
}

/// The larger of two widths.
pub const fn wider(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}

/// Takes a value's bits, into words that are zero.
pub struct Pack<'a> {
    words: &'a mut [u64],
    at: u32,
}

impl<'a> Pack<'a> {
    /// Packs into `words`.
    #[inline(always)]
    pub fn new(words: &'a mut [u64]) -> Self {
        Self { words, at: 0 }
    }

    /// Takes the low `width` bits (0 to 64) of `value`; the rest must be zero.
    #[inline(always)]
    pub fn put(&mut self, value: u64, width: u32) {
        let (word, bit) = ((self.at / 64) as usize, self.at % 64);
        self.at += width;
        if let Some(low) = self.words.get_mut(word) {
            *low |= value << bit;
        }
        if bit + width > 64
            && let Some(high) = self.words.get_mut(word + 1)
        {
            *high |= value >> (64 - bit);
        }
    }

    /// Bits so far.
    #[inline(always)]
    pub fn at(&self) -> u32 {
        self.at
    }

    /// Goes on at bit `at`.
    #[inline(always)]
    pub fn seek(&mut self, at: u32) {
        self.at = at;
    }
}

/// Gives a value's bits back.
pub struct Unpack<'a> {
    words: &'a [u64],
    at: u32,
}

impl<'a> Unpack<'a> {
    /// Unpacks what was packed into `words`.
    #[inline(always)]
    pub fn new(words: &'a [u64]) -> Self {
        Self { words, at: 0 }
    }

    /// The next `width` bits (0 to 64).
    #[inline(always)]
    pub fn take(&mut self, width: u32) -> u64 {
        let (word, bit) = ((self.at / 64) as usize, self.at % 64);
        self.at += width;
        if width == 0 {
            return 0;
        }
        let mut value = self.words.get(word).copied().unwrap_or(0) >> bit;
        if bit + width > 64 {
            value |= self.words.get(word + 1).copied().unwrap_or(0) << (64 - bit);
        }
        value & (u64::MAX >> (64 - width))
    }

    /// Bits so far.
    #[inline(always)]
    pub fn at(&self) -> u32 {
        self.at
    }

    /// Goes on at bit `at`.
    #[inline(always)]
    pub fn seek(&mut self, at: u32) {
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::key::Value;

    fn there_and_back<T: Value + std::fmt::Debug>(value: T) {
        let mut bits = [0; MOST_WORDS];
        let mut pack = Pack::new(&mut bits[..words(T::BITS)]);
        value.pack(&mut pack);
        assert_eq!(pack.at(), T::BITS, "{value:?}");
        let mut unpack = Unpack::new(&bits[..words(T::BITS)]);
        assert_eq!(T::unpack(&mut unpack), value);
        assert_eq!(unpack.at(), T::BITS, "{value:?}");
        assert!(value != T::zero() || bits.iter().all(|&word| word == 0), "{value:?}");
    }

    proptest! {
        #[test]
        fn values_come_back(
            a in any::<u8>(), b in any::<u32>(), c in any::<u64>(), d in any::<i16>(),
            e in any::<u128>(), f in prop::option::of(any::<u16>()), g in any::<[bool; 3]>(),
        ) {
            there_and_back((a, b, (c, d), f));
            there_and_back((g, c, e));
            there_and_back((Ipv4Addr::from(b), g, Ipv6Addr::from(e), f));
            there_and_back((a, [(b, f); 3]));
            there_and_back((f.ok_or(d), [c; 2], [f; 5]));
        }
    }

    #[test]
    fn zero_packs_to_zeroes() {
        there_and_back((0u8, [0u64; 3], None::<u32>, Err::<u8, i16>(0)));
        there_and_back(<(Ipv4Addr, bool, Option<u64>)>::zero());
    }
}
