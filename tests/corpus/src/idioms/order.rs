//! In which order, and how often, parts of a statement are evaluated.

use anabranch_nf::prelude::*;

/// Indices and right sides that change something.
#[network_function(ports(left, right))]
pub mod order {
    pub struct Idle {}

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    pub struct Slot {
        count: u64,
        word: u32,
    }

    fn next(n: &mut usize) -> usize {
        *n += 1;
        *n - 1
    }

    fn small(c: u64) -> Option<u8> {
        if c % 3 == 0 { None } else { Some(c as u8) }
    }

    fn wide(c: u64) -> Option<u16> {
        let high = small(c)?;
        let low = small(c >> 8)?;
        Some(u16::from_be_bytes([high, low]))
    }

    fn halved(c: u64) -> Result<u8, u16> {
        if c % 2 == 0 { Ok((c / 2) as u8) } else { Err(c as u16) }
    }

    fn quartered(c: u64) -> Result<u32, u16> {
        let half = halved(c)?;
        let quarter = halved(u64::from(half))?;
        Ok(u32::from(quarter) + 1_000_000)
    }

    pub fn idiom_141(a: u16, b: u32, c: u64) -> u64 {
        let mut words = [0u32; 5];
        let mut n = 0usize;
        words[next(&mut n)] = b;
        words[next(&mut n)] = u32::from(a);
        u64::from(words[1]) << 32 | u64::from(words[2]) | n as u64
    }

    pub fn idiom_142(a: u16, b: u32, c: u64) -> u64 {
        let mut words = [c, 2, 3, 4, 5];
        let mut n = 1usize;
        words[next(&mut n)] = next(&mut n) as u64 + 10;
        words[next(&mut n)] += next(&mut n) as u64;
        words[0] ^ words[1] << 8 ^ words[2] << 16 ^ words[3] << 24 ^ words[4] << 32
    }

    pub fn idiom_143(a: u16, b: u32, c: u64) -> u64 {
        let mut slots = [Slot { count: c, word: b }, Slot { count: 1, word: 2 }];
        let mut n = 0usize;
        slots[next(&mut n)].count += 5;
        slots[next(&mut n)].word = b ^ 9;
        slots[0].count ^ u64::from(slots[1].word) << 20 ^ slots[1].count ^ n as u64
    }

    pub fn idiom_144(a: u16, b: u32, c: u64) -> u64 {
        let mut grid = [[0u64; 3]; 3];
        let mut n = 0usize;
        grid[next(&mut n)][1] = c;
        grid[1][next(&mut n)] += 5;
        for one in &mut grid[next(&mut n)] {
            *one += u64::from(a);
        }
        grid[0][1] ^ grid[1][1] << 4 ^ grid[2][0] << 8 ^ grid[2][2] << 30 ^ n as u64
    }

    pub fn idiom_145(a: u16, b: u32, c: u64) -> u64 {
        let mut words = [1u64, 2, 3, 4];
        let mut n = 0usize;
        words[{
            n += 1;
            n
        }] = c;
        let place = &mut words[next(&mut n)];
        *place += 1;
        (words[next(&mut n)], words[next(&mut n)]) = (7, u64::from(b));
        words[0] ^ words[1] << 3 ^ words[2] << 6 ^ words[3] << 9 ^ n as u64
    }

    pub fn idiom_146(a: u16, b: u32, c: u64) -> u64 {
        u64::from(wide(c).unwrap_or(7)) << 32 | u64::from(wide(u64::from(b)).unwrap_or(9))
    }

    pub fn idiom_147(a: u16, b: u32, c: u64) -> u64 {
        match quartered(c) {
            Ok(quarter) => u64::from(quarter),
            Err(why) => u64::from(why) << 40,
        }
    }

    fn each<F: FnMut(u32)>(n: u32, mut step: F) {
        for at in 0..n {
            step(at);
        }
    }

    fn step(n: u32) -> u64 {
        let mut sum = 0u64;
        each(n, |at| sum += u64::from(at) * 3);
        sum
    }

    pub fn idiom_148(a: u16, b: u32, c: u64) -> u64 {
        step(6) ^ c
    }

    pub fn idiom_149(a: u16, b: u32, c: u64) -> u64 {
        let exponent = u32::from(a) % 20;
        10u64.pow(exponent).wrapping_add(u64::from(b % 3).pow(exponent)) ^ c.pow(0)
    }

    fn doubled(n: u8) -> u16 {
        let twice = match n {
            0 => 1,
            1 => return 3,
            2 => u16::from(n) * 2,
            _ => 7,
        };
        twice + 1
    }

    pub fn idiom_150(a: u16, b: u32, c: u64) -> u64 {
        let limit = if a > 5 {
            10
        } else if a > 3 {
            b
        } else {
            20
        };
        let other = match a % 4 {
            0 => 5,
            1 if b > 9 => 300,
            1 => b,
            _ => 7,
        };
        let pair = match a % 3 {
            0 => (1, 2),
            1 => (b, 4),
            _ => (5, c),
        };
        let maybe = match a % 5 {
            0 => Some(1),
            1 => None,
            _ => Some(c),
        };
        u64::from(limit) + u64::from(other) * 3 + u64::from(pair.0) * 5 + pair.1 % 7
            ^ maybe.unwrap_or(9)
            ^ u64::from(doubled((a % 4) as u8))
    }
}
