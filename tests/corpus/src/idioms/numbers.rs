//! What integers can do: operators that are total, and the methods of the language.

use anabranch_nf::prelude::*;

/// Arithmetic.
#[network_function(ports(left, right))]
pub mod numbers {
    pub struct Idle {}

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    pub fn idiom_019(a: u16, b: u32, c: u64) -> u64 {
        c / u64::from(a)
    }

    pub fn idiom_020(a: u16, b: u32, c: u64) -> u64 {
        c % u64::from(a & 3)
    }

    pub fn idiom_021(a: u16, b: u32, c: u64) -> u64 {
        c << a
    }

    pub fn idiom_022(a: u16, b: u32, c: u64) -> u64 {
        u64::from(b >> a) ^ (c >> b)
    }

    pub fn idiom_023(a: u16, b: u32, c: u64) -> u64 {
        let mut x = c;
        x /= u64::from(b);
        x %= 1_000;
        x <<= a;
        x >>= 3;
        x
    }

    pub fn idiom_024(a: u16, b: u32, c: u64) -> u64 {
        let mut x = b;
        x += 7;
        x -= 9;
        x *= 3;
        x ^= 0xff;
        x |= 1;
        x &= !2;
        u64::from(x)
    }

    pub fn idiom_025(a: u16, b: u32, c: u64) -> u64 {
        u64::from(a.wrapping_add(60_000).wrapping_sub(5).wrapping_mul(3))
    }

    pub fn idiom_026(a: u16, b: u32, c: u64) -> u64 {
        u64::from(a.saturating_add(60_000)) + u64::from(a.saturating_sub(300))
    }

    pub fn idiom_027(a: u16, b: u32, c: u64) -> u64 {
        match a.checked_add(65_000) {
            Some(sum) => u64::from(sum),
            None => 0,
        }
    }

    pub fn idiom_028(a: u16, b: u32, c: u64) -> u64 {
        b.checked_sub(1_000).map_or(99, |left| u64::from(left))
    }

    pub fn idiom_029(a: u16, b: u32, c: u64) -> u64 {
        u64::from(b.min(50)) + u64::from(a.max(7)) + c.clamp(10, 20)
    }

    pub fn idiom_030(a: u16, b: u32, c: u64) -> u64 {
        u64::from(a as u32 % 7).pow(3)
    }

    pub fn idiom_031(a: u16, b: u32, c: u64) -> u64 {
        u64::from(b.count_ones() + b.leading_zeros() + b.trailing_zeros())
    }

    pub fn idiom_032(a: u16, b: u32, c: u64) -> u64 {
        u64::from(a.swap_bytes()) + u64::from(b.swap_bytes())
    }

    pub fn idiom_033(a: u16, b: u32, c: u64) -> u64 {
        c.rotate_left(13) ^ c.rotate_right(u32::from(a))
    }

    pub fn idiom_034(a: u16, b: u32, c: u64) -> u64 {
        u64::from(b.abs_diff(u32::from(a)))
    }

    pub fn idiom_035(a: u16, b: u32, c: u64) -> u64 {
        if b.is_power_of_two() { 1 } else { 0 }
    }

    pub fn idiom_036(a: u16, b: u32, c: u64) -> u64 {
        let x = a as i16;
        let y = x >> 3;
        (y * 2) as i64 as u64
    }

    pub fn idiom_037(a: u16, b: u32, c: u64) -> u64 {
        let x = b as i32 / a as i32;
        let y = b as i32 % (a as i32 - 5);
        (x + y) as u64
    }

    pub fn idiom_038(a: u16, b: u32, c: u64) -> u64 {
        // Elapsed time as a token bucket has it: multiply wide, then divide.
        let tokens = u128::from(c) * u128::from(b) / 1_000_000_000;
        tokens.min(u128::from(u64::MAX)) as u64
    }

    pub fn idiom_039(a: u16, b: u32, c: u64) -> u64 {
        // The Internet checksum folds carries.
        let mut sum = u32::from(a) + (b >> 16) + (b & 0xffff);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u64::from(!(sum as u16))
    }

    pub fn idiom_040(a: u16, b: u32, c: u64) -> u64 {
        let low = c & 0xffff_ffff;
        let high = c >> 32;
        high << 32 | low
    }

    pub fn idiom_041(a: u16, b: u32, c: u64) -> u64 {
        !c ^ !u64::from(b)
    }

    pub fn idiom_042(a: u16, b: u32, c: u64) -> u64 {
        let even = a & 1 == 0;
        let small = b < 100;
        (even && !small || even ^ small) as u64
    }
}
