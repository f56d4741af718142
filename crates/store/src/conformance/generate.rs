//! Calls drawn by a seed: few objects and few keys, so that they meet; odd names and odd bytes.

use crate::call::{Call, End, LIMITS, Operation};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::error::Error;
use crate::key::{Key, Place, Scope};

/// A generator of numbers (SplitMix64), so that a seed is the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `all`; `None` if there is none.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u64) as usize)
    }
}

pub(super) struct Generator {
    random: Random,
    keys: Vec<Key>,
    /// The object of the last call.
    last: Key,
}

impl Generator {
    pub(super) fn new(seed: u64, nf: &str) -> Result<Self, Error> {
        let mut keys = Vec::new();
        let places = [("a", Place::Core(1)), ("a@1*", Place::Shard(1)), ("{b}", Place::Instance)];
        for id in ["x", "x@y %s\u{e9}\n"] {
            for (instance, place) in places {
                let scope = Scope::new(nf, instance, place)?;
                for kind in Kind::ALL {
                    keys.push(scope.key(kind, id)?);
                }
            }
        }
        let last = keys[0].clone();
        Ok(Self { random: Random::new(seed), keys, last })
    }

    /// How many calls to make in one `run`.
    pub(super) fn together(&mut self) -> u64 {
        self.random.below(20)
    }

    /// A call. Now and then what the last one did is read; mostly it is, of many, the one that was `tried`
    /// least, so that few calls are enough to meet everything.
    pub(super) fn call(&mut self, tried: impl Fn(&Call) -> u64) -> Call {
        if self.random.one_in(8) {
            return Call::new(&self.last, Operation::Read);
        }
        let drawn = if self.random.one_in(4) { 1 } else { DRAWN };
        let mut least = self.draw();
        for _ in 1..drawn {
            let other = self.draw();
            if tried(&other) < tried(&least) {
                least = other;
            }
        }
        self.last = least.key.clone();
        least
    }

    fn draw(&mut self) -> Call {
        // One object of each type most of the time, so that it fills.
        let keys = if self.random.one_in(4) { self.keys.len() } else { Kind::ALL.len() };
        let key = self.keys[self.random.below(keys as u64) as usize].clone();
        let kind = match self.random.one_in(40) {
            true => self.kind(),
            false => key.kind(),
        };
        Call { operation: self.operation(kind), key }
    }

    fn kind(&mut self) -> Kind {
        self.random.pick(&Kind::ALL).copied().unwrap_or(Kind::Value)
    }

    fn operation(&mut self, kind: Kind) -> Operation {
        match self.random.below(16) {
            0 => Operation::Create(self.content(kind)),
            1 => Operation::Update(self.content(kind)),
            2 => Operation::Put(self.content(kind)),
            3 => Operation::Read,
            4 | 5 => Operation::Delete,
            6 if kind.is_collection() => Operation::Size,
            7 if kind.is_collection() => {
                Operation::Iterate { cursor: Bytes::new(), limit: 1 + self.random.below(40) as u32 }
            }
            _ => self.own_operation(kind),
        }
    }

    fn own_operation(&mut self, kind: Kind) -> Operation {
        let keyed = matches!(kind, Kind::Set | Kind::Map | Kind::CounterMap);
        match (kind, self.random.below(6)) {
            (Kind::Value, 0) => Operation::Arm(self.value(), HOUR_MS),
            (Kind::Value, 1 | 2) => Operation::TimeLeft,
            (Kind::Value, _) => Operation::CompareAndUpdate {
                from: self.maybe_value(),
                to: self.value(),
                ttl_ms: self.random.one_in(3).then_some(HOUR_MS),
            },
            (Kind::Counter, _) => Operation::Add(self.number()),
            (Kind::List, 0..4) => Operation::Push(self.end(), self.element()),
            (Kind::List, _) => Operation::Pop(self.end()),
            (_, 0) if keyed => Operation::Erase(self.key()),
            (_, 1) if keyed => Operation::Contains(self.key()),
            (Kind::Map | Kind::CounterMap, 2) => Operation::Find(self.key()),
            (Kind::Map, 3) => Operation::CompareAndInsert {
                key: self.key(),
                from: self.maybe_value(),
                to: self.value(),
            },
            (Kind::CounterMap, 3 | 4) => Operation::AddTo(self.key(), self.number()),
            _ => Operation::Insert(self.entry(kind)),
        }
    }

    fn end(&mut self) -> End {
        if self.random.one_in(2) { End::Front } else { End::Back }
    }

    fn content(&mut self, kind: Kind) -> Content {
        let Some(mut content) = Content::empty(kind) else {
            return match kind {
                Kind::Counter => Content::Counter(self.number()),
                _ => Content::Value(self.value()),
            };
        };
        for _ in 0..self.random.below(8) {
            let entry = self.entry(kind);
            content.insert(entry);
        }
        content
    }

    fn entry(&mut self, kind: Kind) -> Entry {
        match kind {
            Kind::Map => Entry::Pair(self.key(), self.value()),
            Kind::CounterMap => Entry::Count(self.key(), self.number()),
            Kind::List => Entry::Member(self.element()),
            _ => Entry::Member(self.key()),
        }
    }

    /// An element of a list, mostly another one, so that their order is seen.
    fn element(&mut self) -> Bytes {
        match self.random.one_in(4) {
            true => self.value(),
            false => vec![self.random.next() as u8],
        }
    }

    /// A key in a map: one of few, or of odd bytes.
    fn key(&mut self) -> Bytes {
        match self.random.below(24) {
            0 => Bytes::new(),
            1 => vec![0xff, 0, b'\r', b'\n', b'*'],
            2 => vec![b'k'; LIMITS.key_bytes + self.random.below(2) as usize],
            one => vec![b'a' + (one % 2) as u8],
        }
    }

    fn value(&mut self) -> Bytes {
        match self.random.below(400) {
            0..20 => Bytes::new(),
            20..40 => vec![0, 0xfe, b'\'', b'"', b'\n'],
            40..50 => b"12".to_vec(),
            50 => vec![b'v'; LIMITS.value_bytes + self.random.below(2) as usize],
            one => vec![b'a' + (one % 2) as u8],
        }
    }

    fn maybe_value(&mut self) -> Option<Bytes> {
        (!self.random.one_in(3)).then(|| self.value())
    }

    fn number(&mut self) -> i64 {
        match self.random.below(12) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => 0,
            _ => self.random.below(2_000) as i64 - 1_000,
        }
    }
}

pub(super) const HOUR_MS: u64 = 3_600_000;
/// Of how many calls the least tried is taken: some come once in hundreds.
const DRAWN: u32 = 30;
