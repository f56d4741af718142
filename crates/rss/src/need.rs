//! What must meet: pairs of packets that have to reach the same entry.

use std::fmt;

use crate::class::Class;
use crate::field::{Bits, Field};

/// Packets of one class that arrive at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Side {
    /// Index of the port in [`Problem::ports`](crate::Problem::ports).
    pub port: usize,
    /// Their class, as the port's NIC parses.
    pub class: Class,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets of port {}", self.class, self.port)
    }
}

/// One of the two packets of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Which {
    /// The packet of the need's first side.
    First,
    /// The packet of the need's second side.
    Second,
}

impl Which {
    /// 0 or 1.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// An equality between two packets: the bit ranges of `terms`, added without carry (exclusive or)
/// bit by bit, are `constant`.
///
/// Two terms and zero say that two ranges are equal, one term that a range is a constant; more
/// terms say anything that is linear in the packets' bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Equality {
    /// Ranges of one length, each of one of the packets.
    pub terms: Vec<(Which, Bits)>,
    /// What they add up to; the last bit of the ranges is its least significant.
    pub constant: u128,
}

impl Equality {
    /// `field` is the same in both packets.
    pub fn same(field: Field) -> Self {
        Self::between(field.bits(), field.bits())
    }

    /// `first` of the first packet is `second` of the second one.
    pub fn between(first: Bits, second: Bits) -> Self {
        Self { terms: vec![(Which::First, first), (Which::Second, second)], constant: 0 }
    }

    /// `bits` of one packet are `value`.
    pub fn constant(which: Which, bits: Bits, value: u128) -> Self {
        Self { terms: vec![(which, bits)], constant: value }
    }

    /// Bits that each range has; 0 when there is no range.
    pub fn len(&self) -> u16 {
        self.terms.first().map_or(0, |(_, bits)| bits.len)
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all ranges lie in their fields and have one length.
    pub fn is_well_formed(&self) -> bool {
        let len = self.len();
        self.terms.iter().all(|(_, bits)| bits.fits() && bits.len == len)
    }
}

impl fmt::Display for Equality {
    /// `first.ipv4.src = second.ipv4.dst`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let term = |(which, bits): &(Which, Bits)| match which {
            Which::First => format!("first.{bits}"),
            Which::Second => format!("second.{bits}"),
        };
        let terms: Vec<String> = self.terms.iter().map(term).collect();
        match (&terms[..], self.constant) {
            ([first, second], 0) => write!(f, "{first} = {second}"),
            _ => write!(f, "{} = {:#x}", terms.join(" ^ "), self.constant),
        }
    }
}

/// "Whenever all `equalities` hold between a packet of the first side and one of the second, both
/// must reach the same entry."
///
/// Several needs hold together, so that a disjunction is one need for each of its parts. A need
/// without equalities says that all packets must meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Need {
    /// Where the two packets come from.
    pub sides: [Side; 2],
    /// What holds between them.
    pub equalities: Vec<Equality>,
}

impl Need {
    /// A need between packets of `first` and of `second`.
    pub fn new(first: Side, second: Side, equalities: Vec<Equality>) -> Self {
        Self { sides: [first, second], equalities }
    }

    /// Packets of `side` with the same `fields` must meet.
    pub fn same(side: Side, fields: &[Field]) -> Self {
        Self::new(side, side, fields.iter().map(|&field| Equality::same(field)).collect())
    }

    /// A packet of `first` and one of `second` whose `fields` are those of the first with source
    /// and destination exchanged must meet.
    pub fn reply(first: Side, second: Side, fields: &[Field]) -> Self {
        let pair = |&field: &Field| Equality::between(field.bits(), field.swapped().bits());
        Self::new(first, second, fields.iter().map(pair).collect())
    }

    /// The fields that its equalities speak of, of the packet `which`, in order.
    pub fn fields(&self, which: Which) -> Vec<Field> {
        let terms = self.equalities.iter().flat_map(|equality| &equality.terms);
        let mut fields: Vec<Field> =
            terms.filter(|(of, _)| *of == which).map(|(_, bits)| bits.field).collect();
        fields.sort();
        fields.dedup();
        fields
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.sides;
        let equalities: Vec<String> = self.equalities.iter().map(Equality::to_string).collect();
        let when = if equalities.is_empty() { "always".into() } else { equalities.join(" and ") };
        write!(f, "{first} (first) and {second} (second): {when}")
    }
}

/// A packet by the values of its fields, for conditions that are not linear.
///
/// Values are right-aligned: the last bit of the field is the least significant. A field that is
/// not named is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldValues(pub Vec<(Field, u128)>);

impl FieldValues {
    /// The value of `field`.
    pub fn get(&self, field: Field) -> u128 {
        self.0.iter().find(|(named, _)| *named == field).map_or(0, |(_, value)| *value)
    }

    /// Changes bit `bit` of `field`, counted from its most significant one.
    pub(crate) fn flip(&mut self, field: Field, bit: u16) {
        let mask = 1 << (field.width() - 1 - bit);
        match self.0.iter_mut().find(|(named, _)| *named == field) {
            Some((_, value)) => *value ^= mask,
            None => self.0.push((field, mask)),
        }
    }

    /// Bit `bit` of `field`, counted from its most significant one.
    pub fn bit(&self, field: Field, bit: u16) -> bool {
        let shift = u32::from(field.width().saturating_sub(1)).saturating_sub(u32::from(bit));
        self.get(field) >> shift & 1 == 1
    }
}

/// Two packets that must meet: what a condition that is not linear is closed over by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPair {
    /// Where they come from.
    pub sides: [Side; 2],
    /// Their fields.
    pub packets: [FieldValues; 2],
}
