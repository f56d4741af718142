//! Arithmetic that is defined for every operand, alike in every world and every build profile.

/// Integers of the NF language.
pub trait Integer: Copy {
    /// Sum modulo the width.
    fn sum(self, other: Self) -> Self;
    /// Difference modulo the width.
    fn difference(self, other: Self) -> Self;
    /// Product modulo the width.
    fn product(self, other: Self) -> Self;
    /// Negated modulo the width.
    fn negated(self) -> Self;
    /// Quotient; zero when `by` is zero.
    fn quotient(self, by: Self) -> Self;
    /// Remainder; zero when `by` is zero.
    fn remainder(self, by: Self) -> Self;
    /// Shifted left by `by` modulo the width.
    fn left(self, by: u32) -> Self;
    /// Shifted right by `by` modulo the width.
    fn right(self, by: u32) -> Self;
}

/// Shift distances: any integer of the NF language.
pub trait Distance: Copy {
    /// The distance; only its low bits count.
    fn bits(self) -> u32;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Integer for $integer {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn difference(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn quotient(self, by: Self) -> Self {
                if by == 0 { 0 } else { self.wrapping_div(by) }
            }
            #[inline(always)]
            fn remainder(self, by: Self) -> Self {
                if by == 0 { 0 } else { self.wrapping_rem(by) }
            }
            #[inline(always)]
            fn left(self, by: u32) -> Self {
                self.wrapping_shl(by)
            }
            #[inline(always)]
            fn right(self, by: u32) -> Self {
                self.wrapping_shr(by)
            }
        }
        impl Distance for $integer {
            #[inline(always)]
            fn bits(self) -> u32 {
                self as u32
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128);

/// `a + b`.
#[inline(always)]
pub fn add<T: Integer>(a: T, b: T) -> T {
    a.sum(b)
}

/// `a - b`.
#[inline(always)]
pub fn sub<T: Integer>(a: T, b: T) -> T {
    a.difference(b)
}

/// `a * b`.
#[inline(always)]
pub fn mul<T: Integer>(a: T, b: T) -> T {
    a.product(b)
}

/// `-a`.
#[inline(always)]
pub fn neg<T: Integer>(a: T) -> T {
    a.negated()
}

/// `a / b`.
#[inline(always)]
pub fn div<T: Integer>(a: T, b: T) -> T {
    a.quotient(b)
}

/// `a % b`.
#[inline(always)]
pub fn rem<T: Integer>(a: T, b: T) -> T {
    a.remainder(b)
}

/// `a << by`.
#[inline(always)]
pub fn shl<T: Integer>(a: T, by: impl Distance) -> T {
    a.left(by.bits())
}

/// `a >> by`.
#[inline(always)]
pub fn shr<T: Integer>(a: T, by: impl Distance) -> T {
    a.right(by.bits())
}

/// Iterations after which a `while` or a `loop` ends in a hollow world: what would end it for real
/// may be a write, and nothing is written there.
pub const HOLLOW_TURNS: u32 = 4_096;
/// Iterations after which it ends in every world, as by `break`, a fault: as many as the largest
/// state object has entries.
pub const TURNS: u32 = 1 << 24;

/// Iterations of a loop in a world that is `hollow` or is not.
#[inline(always)]
pub const fn most_turns(hollow: bool) -> u32 {
    if hollow { HOLLOW_TURNS } else { TURNS }
}

/// Counts an iteration; true after `most` of them.
#[inline(always)]
pub fn goes_too_far(turns: &mut u32, most: u32) -> bool {
    *turns += 1;
    let too_far = *turns > most;
    if too_far {
        crate::elements::count();
    }
    too_far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defined_everywhere() {
        assert_eq!((div(7u8, 0), div(7u8, 2), rem(7u8, 0), rem(7u8, 4)), (0, 3, 0, 3));
        assert_eq!((add(250u8, 7), sub(3u8, 5), mul(200u8, 2), neg(i8::MIN)), (1, 254, 144, -128));
        assert_eq!((div(i32::MIN, -1), rem(i32::MIN, -1)), (i32::MIN, 0));
        assert_eq!((shl(1u8, 9u64), shr(0x80u8, 7u16), shr(0x80u8, 8i32)), (2, 1, 0x80));
    }
}
