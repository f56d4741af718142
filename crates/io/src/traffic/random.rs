//! Random numbers that are the same everywhere.

/// A generator of pseudo-random numbers: xoshiro256++ (Blackman and Vigna, 2019), seeded by
/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        let word = |n: u64| mix(seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        Self { state: [1, 2, 3, 4].map(word) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `limit`, each as likely as any other to within 2⁻³²; 0 when `limit` is 0.
    #[inline]
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u32
    }

    /// True with probability `share`.
    #[inline]
    pub fn chance(&mut self, share: f64) -> bool {
        fraction(self.next_u64()) < share
    }
}

/// Scrambles a number so that every input bit reaches every output bit; one to one.
#[inline]
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 64 random bits as a number from 0 up to, but not including, 1.
#[inline]
pub(super) fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_a_sequence_and_limits_hold() {
        let mut a = Random::new(7);
        let mut b = Random::new(7);
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Random::new(7).next_u64(), Random::new(8).next_u64());
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[a.below(10) as usize] += 1);
        assert!(seen.iter().all(|&count| (900..1_100).contains(&count)), "{seen:?}");
        assert_eq!(a.below(0), 0);
        let hits = (0..10_000).filter(|_| a.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!a.chance(0.0) && a.chance(1.0));
    }
}
