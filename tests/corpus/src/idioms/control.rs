//! `if`, `match`, loops, early returns.

use anabranch_nf::prelude::*;

/// Control flow.
#[network_function(ports(left, right))]
pub mod control {
    pub struct Idle {}

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    const TABLE: [u16; 6] = [22, 53, 80, 123, 443, 8080];

    pub fn idiom_043(a: u16, b: u32, c: u64) -> u64 {
        if a < 100 {
            return 1;
        }
        if b < 100 {
            return 2;
        }
        3
    }

    pub fn idiom_044(a: u16, b: u32, c: u64) -> u64 {
        let class = if a < 1024 {
            2
        } else if a < 49_152 {
            4
        } else {
            7
        };
        class as u64
    }

    pub fn idiom_045(a: u16, b: u32, c: u64) -> u64 {
        match (a, b) {
            (0, _) => 1,
            (x, 0) if x > 5 => 2,
            (x, y) if u32::from(x) == y => 3,
            (1..=9, 1..=9) => 4,
            _ => 5,
        }
    }

    pub fn idiom_046(a: u16, b: u32, c: u64) -> u64 {
        match a {
            small @ 0..=99 => u64::from(small) * 2,
            x if x % 2 == 0 => 1,
            _ => 0,
        }
    }

    pub fn idiom_047(a: u16, b: u32, c: u64) -> u64 {
        u64::from(matches!(a, 80 | 443 | 8000..=8999))
    }

    pub fn idiom_048(a: u16, b: u32, c: u64) -> u64 {
        let mut sum = 0;
        for i in 0..8 {
            sum += c >> (i * 8) & 0xff;
        }
        sum
    }

    pub fn idiom_049(a: u16, b: u32, c: u64) -> u64 {
        let mut sum = 0u64;
        for i in 1..=5u64 {
            sum += i * c;
        }
        sum
    }

    pub fn idiom_050(a: u16, b: u32, c: u64) -> u64 {
        for port in TABLE {
            if port == a {
                return 1;
            }
        }
        0
    }

    pub fn idiom_051(a: u16, b: u32, c: u64) -> u64 {
        let mut found = 99;
        for i in 0..TABLE.len() {
            if TABLE[i] >= a {
                found = i;
                break;
            }
        }
        found as u64
    }

    pub fn idiom_052(a: u16, b: u32, c: u64) -> u64 {
        let mut left = b % 64;
        let mut steps = 0;
        while left > 0 {
            left /= 2;
            steps += 1;
        }
        steps
    }

    pub fn idiom_053(a: u16, b: u32, c: u64) -> u64 {
        let mut x = u64::from(a % 50);
        let found = loop {
            if x % 7 == 0 {
                break x;
            }
            x += 1;
        };
        found
    }

    pub fn idiom_054(a: u16, b: u32, c: u64) -> u64 {
        let mut count = 0;
        'rows: for i in 0..4u32 {
            for j in 0..4u32 {
                if i * j == b % 16 {
                    break 'rows;
                }
                if j > i {
                    continue 'rows;
                }
                count += 1;
            }
        }
        count
    }

    pub fn idiom_055(a: u16, b: u32, c: u64) -> u64 {
        let (low, high) = if a < 1000 { (a, 1000) } else { (1000, a) };
        u64::from(high - low)
    }

    pub fn idiom_056(a: u16, b: u32, c: u64) -> u64 {
        let x = {
            let y = c & 0xff;
            y * y
        };
        x + 1
    }

    pub fn idiom_057(a: u16, b: u32, c: u64) -> u64 {
        let mut state = 0u8;
        for i in 0..16 {
            state = match (state, a >> i & 1) {
                (0, 1) => 1,
                (1, 1) => 2,
                (2, 1) => 2,
                (s, 0) if s > 0 => s - 1,
                (s, _) => s,
            };
        }
        u64::from(state)
    }

    pub fn idiom_058(a: u16, b: u32, c: u64) -> u64 {
        let value = Some(b);
        if let Some(x) = value
            && x > 10
            && let Some(y) = x.checked_sub(20)
        {
            u64::from(y)
        } else {
            0
        }
    }

    pub fn idiom_059(a: u16, b: u32, c: u64) -> u64 {
        let mut bits = c;
        let mut count = 0u64;
        while bits != 0 && count < 64 {
            bits &= bits - 1;
            count += 1;
        }
        count
    }

    pub fn idiom_060(a: u16, b: u32, c: u64) -> u64 {
        let a = a + 1;
        let a = u32::from(a) + b;
        u64::from(a)
    }

    pub fn idiom_061(a: u16, b: u32, c: u64) -> u64 {
        let wanted = 'search: {
            if a > 100 {
                break 'search 1;
            }
            if b > 100 {
                break 'search 2;
            }
            3
        };
        wanted
    }

    pub fn idiom_062(a: u16, b: u32, c: u64) -> u64 {
        let mut next = Some(a % 20);
        let mut sum = 0;
        while let Some(n) = next {
            sum += u64::from(n);
            next = n.checked_sub(3);
        }
        sum
    }

    pub fn idiom_063(a: u16, b: u32, c: u64) -> u64 {
        let x;
        if a > 7 {
            x = 1;
        } else {
            x = 2;
        }
        x
    }

    pub fn idiom_064(a: u16, b: u32, c: u64) -> u64 {
        match b {
            0 => return 5,
            _ if a == 3 => {}
            _ => return 6,
        }
        7
    }

    pub fn idiom_171(a: u16, b: u32, c: u64) -> u64 {
        match (a % 7, b as u16 % 7) {
            (x, _) | (_, x) if x > 3 => 10 + u64::from(x),
            (x, y) if x == 0 || y == 0 => 1,
            _ => 2,
        }
    }

    pub fn idiom_172(a: u16, b: u32, c: u64) -> u64 {
        let ends = (a % 5, c as u16 % 5, b as u16 % 5);
        u64::from(matches!(ends, (x, _, _) | (_, x, _) | (_, _, x) if x == 3))
    }

    pub fn idiom_173(a: u16, b: u32, c: u64) -> u64 {
        match (a % 4, b) {
            (0, n) | (1, n) if n % 2 == 0 => 5,
            (1 | 2, n) if n % 3 == 0 => 6,
            _ => 7,
        }
    }
}
