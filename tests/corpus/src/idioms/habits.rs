//! What authors write by habit: patterns, guards, loops and bits as they stand in protocol code.

use anabranch_nf::prelude::*;

/// Habits.
#[network_function(ports(left, right))]
pub mod habits {
    pub struct Settings {
        pub internal: u32,
        pub external: u32,
    }

    pub struct Idle {
        settings: Settings,
        seen: Cell<u32>,
    }

    fn either(settings: &Settings, internal: bool) -> u32 {
        let Settings { internal: inside, external } = settings;
        if internal { *inside } else { *external }
    }

    impl Settings {
        fn both(&self) -> u32 {
            self.internal ^ self.external
        }
    }

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Settings { internal, external } = self.settings;
            let settings = &self.settings;
            let known = internal ^ external ^ settings.external ^ self.settings.both();
            self.seen.set(known ^ either(&self.settings, true) ^ either(settings, false));
            Forward(pkt.port().other())
        }
    }

    pub enum Color {
        Green,
        Yellow,
        Red,
    }

    pub enum State {
        Closed,
        Knocking { next: u32, deadline: u64 },
        Open(u64),
    }

    pub struct Flow {
        ends: (u32, u32),
        color: Color,
        state: State,
    }

    const TABLE: [(u16, Color); 3] = [(80, Color::Green), (443, Color::Yellow), (22, Color::Red)];
    const START: State = State::Knocking { next: 1, deadline: 5 };
    const WIDTH: usize = 1 << 3;
    const MASKS: [u32; WIDTH] = [0xff; WIDTH];

    fn mask(len: u8) -> u32 {
        if len == 0 { 0 } else { u32::MAX << (32 - len) }
    }

    fn largest<T: Ord + Copy>(a: T, b: T, c: T) -> T {
        let two = if a > b { a } else { b };
        if two > c { two } else { c }
    }

    fn color_of(port: u16) -> Option<Color> {
        for (known, color) in TABLE {
            if known == port {
                return Some(color);
            }
        }
        None
    }

    impl State {
        fn after(self, now: u64) -> State {
            match self {
                State::Closed => State::Knocking { next: 1, deadline: now + 10 },
                State::Knocking { next, deadline } if now < deadline && next < 3 => {
                    State::Knocking { next: next + 1, deadline }
                }
                State::Knocking { next: 3.., .. } => State::Open(now),
                State::Knocking { .. } => State::Closed,
                open @ State::Open(_) => open,
            }
        }

        fn number(&self) -> u64 {
            match *self {
                State::Closed => 0,
                State::Knocking { next, deadline } => u64::from(next) << 32 ^ deadline,
                State::Open(until) => !until,
            }
        }
    }

    pub fn idiom_151(a: u16, b: u32, c: u64) -> u64 {
        let mut state = if a % 2 == 0 { State::Closed } else { START };
        for step in 0..4 {
            state = state.after(c % 16 + step);
        }
        state.number()
    }

    pub fn idiom_152(a: u16, b: u32, c: u64) -> u64 {
        let port = match a % 5 {
            0 => 80,
            1 => 443,
            _ => a,
        };
        if let Some(color) = color_of(port)
            && color != Color::Red
            && let Some(left) = b.checked_sub(1_000)
        {
            return u64::from(left) * 3;
        }
        7
    }

    pub fn idiom_153(a: u16, b: u32, c: u64) -> u64 {
        let len = (a % 33) as u8;
        u64::from(b & mask(len)) ^ u64::from(MASKS[len as usize % WIDTH])
    }

    pub fn idiom_154(a: u16, b: u32, c: u64) -> u64 {
        let wide = u128::from(c) << (a % 64) | u128::from(b);
        (wide >> 64) as u64 ^ wide as u64
    }

    pub fn idiom_155(a: u16, b: u32, c: u64) -> u64 {
        let flow = Flow { ends: (b, u32::from(a)), color: Color::Green, state: State::Open(c) };
        let marked = Flow { color: Color::Red, ..flow };
        let Flow { ends: (low, high), .. } = marked;
        let same = flow == marked || flow.state != marked.state;
        u64::from(low ^ high) + u64::from(same)
    }

    pub fn idiom_156(a: u16, b: u32, c: u64) -> u64 {
        let found = 'search: {
            for i in 0..8u32 {
                if b >> i & 1 == 1 {
                    break 'search Some(i);
                }
            }
            None
        };
        found.map_or(99, u64::from)
    }

    pub fn idiom_157(a: u16, b: u32, c: u64) -> u64 {
        let mut pairs = 0;
        'outer: for i in 0..6u64 {
            for j in 0..6 {
                if i * j == c % 11 {
                    continue 'outer;
                }
                if i + j > 8 {
                    break 'outer;
                }
                pairs += 1;
            }
        }
        pairs
    }

    pub fn idiom_158(a: u16, b: u32, c: u64) -> u64 {
        u64::from(largest(a, 300, b as u16)) + largest(c, 5, u64::from(b))
    }

    pub fn idiom_159(a: u16, b: u32, c: u64) -> u64 {
        let bytes = b.to_be_bytes();
        let zeros = if bytes[..2] == [0, 0] { 1 } else { 0 };
        let is_get = &bytes == b"GET " || bytes[1..] != [1, 2, 3];
        zeros + u64::from(is_get) * 2
    }

    pub fn idiom_160(a: u16, b: u32, c: u64) -> u64 {
        let mut total = 0u64;
        for &byte in &c.to_be_bytes() {
            total = total << 1 ^ byte as u64;
        }
        for byte in b.to_be_bytes().iter() {
            total += *byte as u64;
        }
        total
    }

    pub fn idiom_161(a: u16, b: u32, c: u64) -> u64 {
        match (a as u8, b as u8) {
            (b'a'..=b'z', _) => 1,
            (0, 0 | 1) => 2,
            (n @ 1..=9, m) if m > n => u64::from(m - n),
            (_, m @ 200..) => u64::from(m),
            _ => 3,
        }
    }

    pub fn idiom_162(a: u16, b: u32, c: u64) -> u64 {
        let balance = a as i16 as i32 - 300;
        let floor = -(b as i32 % 100).abs_diff(0).min(50) as i32;
        let kept = balance.clamp(-1_000, 1_000).max(floor);
        if kept < 0 { (-kept) as u64 } else { kept as u64 | 1 << 40 }
    }

    pub fn idiom_163(a: u16, b: u32, c: u64) -> u64 {
        let x = a;
        let x = u32::from(x) ^ b;
        let x = { u64::from(x) + 1 };
        let mut n = x % 20;
        while n > 3 {
            let n_next = if n % 2 == 0 { n / 2 } else { n - 3 };
            n = n_next;
        }
        n
    }

    pub fn idiom_164(a: u16, b: u32, c: u64) -> u64 {
        let ends = if (a, b) < (500, 70_000) { (b, 1) } else { (1, b) };
        let first = Some(ends.0);
        u64::from(first == Some(1)) + u64::from(first.is_some_and(|f| f > 10)) * 2
    }

    pub fn idiom_165(a: u16, b: u32, c: u64) -> u64 {
        let mut best: Option<(u64, u32)> = None;
        for i in 0..5u32 {
            let score = c.rotate_left(i * 7) % 101;
            match best {
                Some((known, _)) if known >= score => (),
                _ => best = Some((score, i)),
            }
        }
        let Some((score, i)) = best else { return 0 };
        score << 8 | u64::from(i)
    }

    pub fn idiom_166(a: u16, b: u32, c: u64) -> u64 {
        let mut cells = [[0u16; 3]; 2];
        for (i, row) in [(0, 1), (1, 2)] {
            cells[i][row] = a + row as u16;
        }
        for row in &mut cells {
            for cell in row {
                *cell += 1;
            }
        }
        u64::from(cells[0][1]) << 16 | u64::from(cells[1][2])
    }

    fn parsed(word: u32) -> Result<(u8, Option<u16>), &'static str> {
        let kind = (word >> 24) as u8;
        if kind == 0 {
            return Err("no kind");
        }
        let low = (word & 0xffff) as u16;
        Ok((kind, if low > 9 { Some(low) } else { None }))
    }

    pub fn idiom_167(a: u16, b: u32, c: u64) -> u64 {
        match parsed(b) {
            Ok((kind, Some(low))) => u64::from(kind) + u64::from(low),
            Ok((kind @ (1 | 2), None)) => u64::from(kind),
            Ok((_, None)) => 5,
            Err(_) => 6,
        }
    }

    pub fn idiom_168(a: u16, b: u32, c: u64) -> u64 {
        let mut left = 30;
        let steps = loop {
            if left < 3 || left == c % 40 {
                break left + 100;
            }
            left -= 3;
        };
        let mut n = 0;
        while let Some(next) = small(n, a) {
            n = next;
        }
        steps + u64::from(n)
    }

    fn small(n: u16, a: u16) -> Option<u16> {
        if n < a % 9 { Some(n + 1) } else { None }
    }

    pub fn idiom_169(a: u16, b: u32, c: u64) -> u64 {
        let color = match a % 3 {
            0 => Color::Green,
            1 => Color::Yellow,
            _ => Color::Red,
        };
        let colors = [color, Color::Red];
        let reds = u64::from(matches!(color, Color::Red | Color::Yellow if b > 5));
        reds + u64::from(colors[1] == color) * 2 + u64::from(colors == [Color::Red; 2]) * 4
    }

    pub fn idiom_170(a: u16, b: u32, c: u64) -> u64 {
        let bytes = c.to_be_bytes();
        let Some(&first) = bytes.get(a as usize % 10) else { return 1 };
        let last = match bytes.get(9) {
            Some(&byte) => byte,
            None => 4,
        };
        u64::from(first) * 256 + u64::from(last)
    }

    pub fn idiom_177(a: u16, b: u32, c: u64) -> u64 {
        let found = Some(b).and_then(|n: u32| -> Option<u32> {
            if n % 5 == 0 {
                return None;
            }
            Some(n + 1)
        });
        let is_small = Some(a).is_some_and(|n| {
            if n > 40 {
                return false;
            }
            n != 7
        });
        let (p, q);
        let (r, s): (u8, Option<u64>);
        if b > 20 {
            p = 3;
            (q, r) = (c, 250);
            s = Some(c);
        } else {
            (p, q) = (a, 9);
            r = 1;
            s = None;
        }
        let found = u64::from(found.unwrap_or(2));
        found + u64::from(is_small) + u64::from(p) + (q ^ c) + u64::from(r + 10) + s.unwrap_or(4)
    }
}
