//! Structs, enums, tuples, methods, generics, closures.

use anabranch_nf::prelude::*;

/// Plain types and what is done with them.
#[network_function(ports(left, right))]
pub mod aggregates {
    pub struct Idle {}

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    /// An end of a session.
    pub struct Endpoint {
        host: u32,
        port: u16,
    }

    pub struct Range {
        first: u16,
        count: u16,
    }

    pub struct Wrapper(u32, bool);

    pub struct Empty;

    pub struct Pair<A, B> {
        a: A,
        b: B,
    }

    pub enum State {
        Closed,
        Opening { since: u64, tries: u8 },
        Open(u32),
    }

    pub enum Choice<T> {
        Nothing,
        One(T),
        Two(T, T),
    }

    impl Endpoint {
        fn new(host: u32, port: u16) -> Self {
            Self { host, port }
        }

        fn bits(&self) -> u64 {
            u64::from(self.host) << 16 | u64::from(self.port)
        }

        fn moved(self, by: u16) -> Endpoint {
            Endpoint { port: self.port + by, ..self }
        }

        fn advance(&mut self) {
            self.port += 1;
            if self.port == 0 {
                self.host += 1;
            }
        }
    }

    impl Range {
        fn holds(&self, port: u16) -> bool {
            port >= self.first && port - self.first < self.count
        }
    }

    impl State {
        fn next(self, now: u64) -> Self {
            match self {
                State::Closed => State::Opening { since: now, tries: 0 },
                State::Opening { since, tries } if tries < 3 => {
                    State::Opening { since, tries: tries + 1 }
                }
                State::Opening { since, .. } => State::Open((now - since) as u32),
                open => open,
            }
        }

        fn weight(&self) -> u64 {
            match self {
                State::Closed => 0,
                State::Opening { tries, .. } => u64::from(*tries) + 1,
                State::Open(elapsed) => u64::from(*elapsed),
            }
        }
    }

    impl<A, B> Pair<A, B> {
        fn swapped(self) -> Pair<B, A> {
            Pair { a: self.b, b: self.a }
        }
    }

    impl<T> Choice<T> {
        fn first(self) -> Option<T> {
            match self {
                Choice::Nothing => None,
                Choice::One(x) | Choice::Two(x, _) => Some(x),
            }
        }
    }

    fn largest<T: PartialOrd>(x: T, y: T) -> T {
        if x > y { x } else { y }
    }

    fn apply<F: Fn(u64) -> u64>(f: F, x: u64) -> u64 {
        f(f(x))
    }

    fn choose<T>(first: bool, x: T, y: T) -> T {
        if first { x } else { y }
    }

    fn bump(x: &mut u64, by: u64) {
        *x += by;
    }

    pub fn idiom_080(a: u16, b: u32, c: u64) -> u64 {
        let end = Endpoint { host: b, port: a };
        end.bits()
    }

    pub fn idiom_081(a: u16, b: u32, c: u64) -> u64 {
        let x = Endpoint::new(b, a);
        let y = x.moved(3);
        if x == y { 0 } else { y.bits() }
    }

    pub fn idiom_082(a: u16, b: u32, c: u64) -> u64 {
        let mut end = Endpoint::new(b, a);
        end.advance();
        end.advance();
        end.bits()
    }

    pub fn idiom_083(a: u16, b: u32, c: u64) -> u64 {
        let range = Range { first: 1024, count: 500 };
        range.holds(a) as u64
    }

    pub fn idiom_084(a: u16, b: u32, c: u64) -> u64 {
        let Wrapper(x, flag) = Wrapper(b, a > 3);
        if flag { u64::from(x) } else { 0 }
    }

    pub fn idiom_085(a: u16, b: u32, c: u64) -> u64 {
        let mut state = State::Closed;
        for _ in 0..a % 8 {
            state = state.next(c);
        }
        state.weight()
    }

    pub fn idiom_086(a: u16, b: u32, c: u64) -> u64 {
        let pair = Pair { a, b }.swapped();
        u64::from(pair.a) * 3 + u64::from(pair.b)
    }

    pub fn idiom_087(a: u16, b: u32, c: u64) -> u64 {
        let choice = match a % 3 {
            0 => Choice::Nothing,
            1 => Choice::One(b),
            _ => Choice::Two(b, 7),
        };
        choice.first().map_or(0, |x| u64::from(x) + 1)
    }

    pub fn idiom_088(a: u16, b: u32, c: u64) -> u64 {
        largest(u64::from(b), c) + u64::from(largest(a, 80))
    }

    pub fn idiom_089(a: u16, b: u32, c: u64) -> u64 {
        apply(|x| x * 3 + 1, c)
    }

    pub fn idiom_090(a: u16, b: u32, c: u64) -> u64 {
        let offset = u64::from(a);
        apply(|x| x + offset, u64::from(b))
    }

    pub fn idiom_091(a: u16, b: u32, c: u64) -> u64 {
        choose(a > 100, Endpoint::new(b, a), Endpoint::new(1, 2)).bits()
    }

    pub fn idiom_092(a: u16, b: u32, c: u64) -> u64 {
        let mut x = c;
        bump(&mut x, 5);
        bump(&mut x, u64::from(b));
        x
    }

    pub fn idiom_093(a: u16, b: u32, c: u64) -> u64 {
        let tuple = (a, b, (c, true));
        if tuple.2.1 { tuple.2.0 + u64::from(tuple.0) } else { 0 }
    }

    pub fn idiom_094(a: u16, b: u32, c: u64) -> u64 {
        let Endpoint { host, port: p } = Endpoint::new(b, a);
        u64::from(host) + u64::from(p)
    }

    pub fn idiom_095(a: u16, b: u32, c: u64) -> u64 {
        let state = State::Opening { since: c, tries: a as u8 };
        u64::from(matches!(state, State::Opening { tries: 0..=100, .. }))
    }

    pub fn idiom_096(a: u16, b: u32, c: u64) -> u64 {
        let nested = Pair { a: Endpoint::new(b, a), b: Some(State::Open(c as u32)) };
        match nested.b {
            Some(State::Open(x)) if x == nested.a.host => 1,
            _ => 0,
        }
    }

    pub fn idiom_097(a: u16, b: u32, c: u64) -> u64 {
        let mut pair = Pair { a: 1u64, b: 2u64 };
        pair.a += c;
        pair.b *= pair.a;
        pair.a ^ pair.b
    }

    pub fn idiom_098(a: u16, b: u32, c: u64) -> u64 {
        let x = Empty;
        let same = x == Empty;
        same as u64
    }

    pub fn idiom_099(a: u16, b: u32, c: u64) -> u64 {
        let ends = [Endpoint::new(b, a), Endpoint::new(5, 6), Endpoint::new(c as u32, 9)];
        let mut sum = 0;
        for end in ends {
            sum += end.bits();
        }
        sum
    }

    #[opaque]
    fn mixed(x: u64) -> u64 {
        x.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ x >> 29
    }

    pub fn idiom_100(a: u16, b: u32, c: u64) -> u64 {
        mixed(c) % 8
    }
}
