//! Literals, constants, casts, and integers of every width.

use anabranch_nf::prelude::*;

/// Literals, constants and casts.
#[network_function(ports(left, right))]
pub mod literals {
    pub struct Idle {}

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    const LIMIT: u32 = 1_000;
    const MASK: u16 = 0x0fff;
    const FLAGS: u8 = 0b0001_0010;
    const LARGE: u64 = LIMIT as u64 * 1_000_000;
    const ENABLED: bool = true;
    const DNS: u16 = 53;

    pub fn idiom_001(a: u16, b: u32, c: u64) -> u64 {
        let port: u16 = 53;
        if a == port { 1 } else { 0 }
    }

    pub fn idiom_002(a: u16, b: u32, c: u64) -> u64 {
        let x = 5;
        c + x
    }

    pub fn idiom_003(a: u16, b: u32, c: u64) -> u64 {
        if b > LIMIT { LARGE } else { u64::from(b) }
    }

    pub fn idiom_004(a: u16, b: u32, c: u64) -> u64 {
        u64::from(a & MASK)
    }

    pub fn idiom_005(a: u16, b: u32, c: u64) -> u64 {
        (a as u8 & FLAGS) as u64
    }

    pub fn idiom_006(a: u16, b: u32, c: u64) -> u64 {
        b as u8 as u64 + c as u16 as u64
    }

    pub fn idiom_007(a: u16, b: u32, c: u64) -> u64 {
        u64::from(a as i16 as i32 as u32)
    }

    pub fn idiom_008(a: u16, b: u32, c: u64) -> u64 {
        let negative: i32 = -7;
        (negative + a as i32) as u64
    }

    pub fn idiom_009(a: u16, b: u32, c: u64) -> u64 {
        (ENABLED && a > 10) as u64
    }

    pub fn idiom_010(a: u16, b: u32, c: u64) -> u64 {
        match a {
            DNS => 1,
            80 | 8080 => 2,
            1..=1023 => 3,
            _ => 4,
        }
    }

    pub fn idiom_011(a: u16, b: u32, c: u64) -> u64 {
        let x = 1u64 << 40;
        x | 0xff_u64
    }

    pub fn idiom_012(a: u16, b: u32, c: u64) -> u64 {
        u64::from(u8::MAX) + u64::from(u16::MAX) + u64::from(u32::MIN)
    }

    pub fn idiom_013(a: u16, b: u32, c: u64) -> u64 {
        c.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
    }

    pub fn idiom_014(a: u16, b: u32, c: u64) -> u64 {
        let wide = u128::from(c) * u128::from(b);
        (wide >> 64) as u64 ^ wide as u64
    }

    pub fn idiom_015(a: u16, b: u32, c: u64) -> u64 {
        let signed = b as i32;
        if signed < 0 { (-signed) as u64 } else { signed as u64 }
    }

    pub fn idiom_016(a: u16, b: u32, c: u64) -> u64 {
        u64::from(b'A') + u64::from(b"xyz"[1])
    }

    pub fn idiom_017(a: u16, b: u32, c: u64) -> u64 {
        let bits = u64::BITS;
        u64::from(bits - c.leading_zeros())
    }

    pub fn idiom_018(a: u16, b: u32, c: u64) -> u64 {
        let x: u64 = if a % 2 == 0 { 1 } else { 0 };
        x + (a / 3) as u64
    }

    pub fn idiom_174(a: u16, b: u32, c: u64) -> u64 {
        let n = 1_000;
        let more = n + 24;
        let shift = 3;
        let mut count = 0;
        for turn in 0..100 {
            if turn % 7 == shift {
                count += 1;
            }
        }
        more as u64 + (60 << 1) as u64 + count as u64 + c
    }

    pub fn idiom_175(a: u16, b: u32, c: u64) -> u64 {
        let mut ones = 0;
        let mut run = 0;
        let mut longest = 0;
        for at in 0..32 {
            if b >> at & 1 == 1 {
                ones += 1;
                run += 1;
            } else {
                run = 0;
            }
            if run > longest {
                longest = run;
            }
        }
        let parity = if ones % 2 == 1 { 1 } else { 0 };
        (ones * 2) as u64 + (longest + 1) as u64 + parity as u64 + (ones == longest) as u64
    }

    pub fn idiom_176(a: u16, b: u32, c: u64) -> u64 {
        let mut port = 80;
        if b % 3 == 1 {
            port = 443;
        }
        let mut tries = 0;
        if a > 9 {
            tries = 2;
        }
        if c % 2 == 0 {
            tries += 1;
        }
        if tries > 0 {
            tries -= 1;
        }
        let name = match tries {
            0 => 5,
            1..=2 => 6,
            _ => 7,
        };
        let table = [1_u8, 20, 30];
        let mut signed = 0;
        if a % 5 == 0 {
            signed = -3;
        }
        let met = if a == port { 1 } else { 0 };
        let mut sum = 0;
        for turn in 0..tries {
            sum += turn + 1;
        }
        u64::from(port)
            + u64::from(table[tries])
            + name
            + (signed as i8 as u8) as u64
            + met
            + (c >> tries)
            + sum as u64
    }
}
