//! From needs to the space of keys, for given inputs.

use std::ops::Range;

use crate::key::Key;
use crate::need::{FieldValues, PacketPair, Side};
use crate::nic::HashInput;
use crate::solve::pairs::{Generators, PairBits};
use crate::solve::system::{Space, System};

/// A need with its generators.
pub(crate) struct Demand {
    /// Classes as the ports' NICs see them.
    pub(crate) sides: [Side; 2],
    pub(crate) generators: Generators,
}

/// Which key bits of which port are which unknowns.
#[derive(Clone, Debug)]
pub(crate) struct KeyBits {
    starts: Vec<usize>,
}

impl KeyBits {
    /// Unknowns for keys of these lengths in bytes.
    pub(crate) fn new(lens: impl Iterator<Item = usize>) -> Self {
        let mut starts = vec![0];
        lens.for_each(|len| starts.push(starts.last().copied().unwrap_or(0) + len * 8));
        Self { starts }
    }

    pub(crate) fn of_port(&self, port: usize) -> Range<usize> {
        self.starts[port]..self.starts[port + 1]
    }

    /// Number of ports.
    pub(crate) fn ports(&self) -> usize {
        self.starts.len() - 1
    }

    /// The key bits that decide what the bit at `position` of the input of `port` adds to the
    /// entry.
    pub(crate) fn windows(
        &self,
        port: usize,
        position: usize,
        index_bits: u32,
    ) -> impl Iterator<Item = usize> + use<> {
        let start = self.starts[port] + position;
        start + 32 - index_bits as usize..start + 32
    }

    fn count(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }
}

/// The keys under which `demands` and `pairs` meet on the low `index_bits` bits, when `input` says
/// what is hashed for each side.
pub(crate) fn space<'a>(
    bits: &KeyBits,
    index_bits: u32,
    demands: impl Iterator<Item = &'a Demand>,
    pairs: &[PacketPair],
    input: impl Fn(Side) -> &'a HashInput,
) -> Space {
    let mut equations = Equations::new(bits, index_bits);
    for demand in demands {
        let places = demand.sides.map(|side| Places::new(bits, side, input(side)));
        let of = |bits: PairBits| places[bits.which.index()].of(bits);
        for run in demand.generators.runs() {
            equations.add(run.bits().filter_map(of), run.len());
        }
        let fixed = demand.generators.fixed();
        let all = fixed.filter_map(|bits| Some(of(bits)?..of(bits)? + u32::from(bits.len)));
        equations.add(all.flatten(), 1);
    }
    for pair in pairs {
        let [first, second] = pair.sides.map(|side| Places::new(bits, side, input(side)));
        let [own, other] = &pair.packets;
        equations.add(first.set_bits(own).chain(second.set_bits(other)), 1);
    }
    equations.system.solve()
}

/// Where the bits of one side's packets meet the key.
struct Places<'a> {
    start: usize,
    input: &'a HashInput,
}

impl<'a> Places<'a> {
    fn new(bits: &KeyBits, side: Side, input: &'a HashInput) -> Self {
        Self { start: bits.of_port(side.port).start, input }
    }

    /// The place of the first of `bits`.
    fn of(&self, bits: PairBits) -> Option<u32> {
        Some((self.start + self.input.offset(bits.field)? + usize::from(bits.first)) as u32)
    }

    /// The places of the bits that are set in a packet with these values.
    fn set_bits(&self, values: &'a FieldValues) -> impl Iterator<Item = u32> {
        let bits = self.input.places().flat_map(move |(field, positions)| {
            positions.zip(0..).filter(move |(_, bit)| values.bit(field, *bit))
        });
        bits.map(|(position, _)| (self.start + position) as u32)
    }
}

struct Equations {
    system: System,
    index_bits: u32,
    places: Vec<u32>,
    unknowns: Vec<u32>,
}

impl Equations {
    fn new(bits: &KeyBits, index_bits: u32) -> Self {
        let system = System::new(bits.count());
        Self { system, index_bits, places: Vec::new(), unknowns: Vec::new() }
    }

    /// The key bits at `places`, shifted to each index bit, sum to zero, and so do those one
    /// further, up to `len` in all.
    fn add(&mut self, places: impl Iterator<Item = u32>, len: u16) {
        self.places.clear();
        self.places.extend(places);
        self.places.sort_unstable();
        cancel_pairs(&mut self.places);
        let shifts = 32 - self.index_bits..32 + u32::from(len) - 1;
        if let [one] = self.places[..] {
            return self.system.are_zero(one + shifts.start..one + shifts.end);
        }
        for shift in shifts {
            self.unknowns.clear();
            self.unknowns.extend(self.places.iter().map(|place| place + shift));
            self.system.sum_is_zero(&self.unknowns);
        }
    }
}

/// Takes out what occurs twice in a sorted list.
fn cancel_pairs(places: &mut Vec<u32>) {
    let mut kept = 0;
    for at in 0..places.len() {
        if kept > 0 && places[kept - 1] == places[at] {
            kept -= 1;
        } else {
            places[kept] = places[at];
            kept += 1;
        }
    }
    places.truncate(kept);
}

/// The keys of all ports, when the free columns of `space` are as `choice` says: the bits that
/// nothing determines are at random too.
pub(crate) fn keys(bits: &KeyBits, space: &Space, choice: &[bool]) -> Vec<Key> {
    let unknowns = space.assign(choice);
    let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    let bytes: Vec<u8> = unknowns.chunks(8).map(byte).collect();
    let of_port = |port| bits.of_port(port).start / 8..bits.of_port(port).end / 8;
    (0..bits.ports()).filter_map(|port| Key::try_from(&bytes[of_port(port)]).ok()).collect()
}
