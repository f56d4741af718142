//! Indices and ranges past the end, and loops: each is defined, and alike in every world.

use anabranch_nf::prelude::*;

/// Past the end.
#[network_function(ports(left, right))]
pub mod bounds {
    pub struct Settings {
        /// What each kind of packet weighs.
        #[setting(default = [])]
        pub weights: List<u16>,
    }

    pub enum Reason {
        Weightless,
    }

    pub struct Scales {
        settings: Settings,
        #[capacity(4)]
        seen: Vector<u16>,
    }

    impl Scales {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let kind = u32::from(pkt.dst_port().unwrap_or(0)) % 8;
            let weight = self.settings.weights[kind];
            self.seen.write(kind, weight);
            let mut changed = false;
            self.seen.update(kind, |seen| {
                *seen += 1;
                changed = true;
            });
            if self.seen.read(kind) == 0 || !changed {
                return Drop(Reason::Weightless);
            }
            if weight == 0 { Flood } else { Forward(pkt.port().other()) }
        }
    }

    pub enum Colour {
        Red,
        Green(u16),
        Blue { depth: u8 },
    }

    /// A row of a table.
    pub struct Row {
        hits: u32,
        last: Option<u16>,
        cells: [u8; 4],
    }

    impl Row {
        fn hit(&mut self, by: u16) {
            self.hits += 1;
            self.last = Some(by);
        }

        fn total(&self) -> u64 {
            u64::from(self.hits) + self.last.map_or(0, |last| u64::from(last))
        }
    }

    const PRIMES: [u16; 6] = [2, 3, 5, 7, 11, 13];
    const NAME: &[u8] = b"HEAD /";
    const NEW: Row = Row { hits: 0, last: None, cells: [1, 2, 3, 4] };

    fn sum(bytes: &[u8]) -> u64 {
        let mut total = 0;
        for byte in bytes {
            total = total * 7 + u64::from(*byte);
        }
        total
    }

    fn double(value: &mut u16) -> u16 {
        *value = *value * 2 + 1;
        *value
    }

    /// Not an idiom: its loops are broken off.
    pub fn endless(a: u16) -> (u64, u16) {
        let mut turns = 0;
        while a > 0 {
            turns += 1;
        }
        let value = loop {
            if a == 0 {
                break 7;
            }
        };
        (turns, value)
    }

    pub fn idiom_123(a: u16, b: u32, c: u64) -> u64 {
        u64::from(PRIMES[a as usize % 9]) + u64::from(PRIMES[b as usize])
    }

    pub fn idiom_124(a: u16, b: u32, c: u64) -> u64 {
        let mut table = [1u64, 2, 3];
        table[a as usize % 5] = c;
        table[b as usize] = 9;
        table[0] ^ table[1] << 1 ^ table[2] << 2
    }

    pub fn idiom_125(a: u16, b: u32, c: u64) -> u64 {
        let mut grid = [[1u32, 2, 3], [4, 5, 6]];
        let (i, j) = (a as usize % 3, b as usize % 4);
        grid[i][j] = c as u32;
        let outside = grid[j][i];
        let mut all = u64::from(outside);
        for row in grid {
            for cell in row {
                all = all * 31 + u64::from(cell);
            }
        }
        all
    }

    pub fn idiom_126(a: u16, b: u32, c: u64) -> u64 {
        let mut table = [3u8, 1, 4, 1];
        let (i, j) = (a as usize % 6, b as usize % 6);
        table[i] += 7;
        table[j] -= table[i];
        table[table[1] as usize] ^= 0x55;
        table[i] <<= table[j];
        table[j] /= table[i];
        sum(&table)
    }

    pub fn idiom_127(a: u16, b: u32, c: u64) -> u64 {
        let mut table = [10u16, 20, 30];
        let (i, j) = (a as usize % 5, b as usize % 5);
        let first = double(&mut table[i]);
        let second = &mut table[j];
        *second += 5;
        let third = *second;
        double(&mut table[9]);
        u64::from(first) << 40 | u64::from(third) << 20 | u64::from(table[0] ^ table[1] ^ table[2])
    }

    pub fn idiom_128(a: u16, b: u32, c: u64) -> u64 {
        let bytes = c.to_be_bytes();
        let middle = &bytes[2..5];
        let past = &bytes[6..9];
        let far = &bytes[9..];
        let last = &bytes[6..=7];
        let one_more = &bytes[..=8];
        sum(middle)
            + sum(last) * 3
            + past.len() as u64 * 100
            + far.len() as u64 * 1_000
            + one_more.len() as u64 * 10_000
            + u64::from(middle[a as usize % 5])
    }

    pub fn idiom_129(a: u16, b: u32, c: u64) -> u64 {
        let mut rows = [NEW; 3];
        let (i, j) = (a as usize % 4, b as usize % 6);
        rows[i].hit(a);
        rows[i].hits += 2;
        rows[i].cells[j] += c as u8;
        rows[j].last = Some(7);
        let seen = rows[i];
        rows[0].total() + rows[1].total() * 3 + rows[2].total() * 5 + sum(&seen.cells) * 7
    }

    pub fn idiom_130(a: u16, b: u32, c: u64) -> u64 {
        let colours = [Colour::Green(4), Colour::Blue { depth: 9 }];
        let pairs = [(a, true), (1, false)];
        let maybe = [Some(b), None];
        let i = b as usize % 4;
        let colour = match colours[i] {
            Colour::Red => 1,
            Colour::Green(shade) => u64::from(shade) * 10,
            Colour::Blue { depth } => u64::from(depth) * 100,
        };
        let (number, yes) = pairs[i];
        colour + u64::from(number) + yes as u64 * 1_000 + u64::from(maybe[i].unwrap_or(3))
    }

    pub fn idiom_131(a: u16, b: u32, c: u64) -> u64 {
        let mut table = [5u64, 6, 7];
        let (i, j) = (a as usize % 4, b as usize % 4);
        (table[i], table[j]) = (table[j], table[i]);
        table[0] | table[1] << 8 | table[2] << 16
    }

    pub fn idiom_132(a: u16, b: u32, c: u64) -> u64 {
        let tail = &NAME[4..];
        let beyond = &NAME[4..9];
        sum(tail)
            + u64::from(tail[a as usize % 4]) * 3
            + u64::from(beyond[a as usize % 4]) * 5
            + beyond.get(0).map_or(1_000, |byte| u64::from(*byte))
            + NAME[1..3].starts_with(b"EA") as u64
            + u64::from(NAME[b as usize])
    }

    pub fn idiom_133(a: u16, b: u32, c: u64) -> u64 {
        let mut grid = [[1u8, 2, 3], [4, 5, 6]];
        let i = a as usize % 4;
        for cell in &mut grid[i] {
            *cell += b as u8;
        }
        let chosen = Some(grid[i]).map_or(0, |row| row[b as usize % 5]);
        sum(&grid[0]) + sum(&grid[1]) * 3 + u64::from(chosen)
    }

    pub fn idiom_134(a: u16, b: u32, c: u64) -> u64 {
        let mut left = [1u16, 2];
        let mut right = [3u16, 4];
        let i = a as usize % 3;
        let chosen = if b % 2 == 0 { &mut left[i] } else { &mut right[i] };
        *chosen += 100;
        let one = *chosen;
        if let Some(value) = Some(&mut left[i]) {
            *value += 1;
        }
        u64::from(one) << 32 | u64::from(left[0] + left[1]) << 16 | u64::from(right[0] ^ right[1])
    }

    pub fn idiom_135(a: u16, b: u32, c: u64) -> u64 {
        let grid = [[1u8, 2, 3, 4], [5, 6, 7, 8]];
        let row = &grid[a as usize % 3][1..3];
        let rows = [NEW; 2];
        let cells = &rows[b as usize % 3].cells[2..];
        sum(row) + sum(cells) * 3 + sum(&grid[b as usize % 3][2..]) * 11
    }

    pub fn idiom_136(a: u16, b: u32, c: u64) -> u64 {
        let mut sum = 0;
        for i in 0..PRIMES.len() {
            if PRIMES[i] > PRIMES[i - 1] && PRIMES[i + 1] != 0 {
                sum += u64::from(PRIMES[i]) * u64::from(a);
            }
        }
        sum
    }

    pub fn idiom_137(a: u16, b: u32, c: u64) -> u64 {
        let mut counts = [0u8; 8];
        let mut left = c;
        while left > 0 {
            counts[(left % 11) as usize] += 1;
            left /= 11;
        }
        sum(&counts)
    }

    pub fn idiom_138(a: u16, b: u32, c: u64) -> u64 {
        let mut buffer = [0u8; 4];
        let part = &mut buffer[1..3];
        part[0] = a as u8;
        part[b as usize % 4] += 9;
        for byte in &mut buffer[2..7] {
            *byte = 1;
        }
        u64::from(u32::from_be_bytes(buffer))
    }
    fn first_zero(bits: u64) -> u32 {
        let mut at = 0;
        loop {
            if bits >> at & 1 == 0 || at == 63 {
                return at;
            }
            at += 1;
        }
    }

    pub fn idiom_139(a: u16, b: u32, c: u64) -> u64 {
        let mut tries = 0;
        let row: Option<u16> = loop {
            tries += 1;
            if tries > a % 50 {
                break None;
            }
            if PRIMES[tries as usize] == 0 {
                break Some(tries);
            }
        };
        let mut steps = 0u32;
        'outer: while steps < b % 100 {
            steps += 1;
            while steps % 7 != 0 {
                if steps > 90 {
                    break 'outer;
                }
                steps += 1;
            }
        }
        u64::from(first_zero(c)) << 32 | u64::from(steps) << 16 | u64::from(row.unwrap_or(99))
    }
    pub fn idiom_140(a: u16, b: u32, c: u64) -> u64 {
        let mut at = a as usize % 40;
        let found = loop {
            if PRIMES[at] != 0 || at == 0 {
                break PRIMES[at];
            }
            at -= 1;
        };
        u64::from(found)
    }
}
