//! What each NIC can hash.

mod models;
mod parse;

use std::fmt;
use std::ops::{Range, RangeInclusive};

use crate::class::Class;
use crate::field::Field;

pub use parse::Parsed;

/// Bits that select an entry of the largest table which a device may name: virtio
/// (`rss_max_indirection_table_length`) and gVNIC (`hash_lut_size`) do so in a number of 16 bits.
const DEVICE_INDEX_BITS_MAX: u32 = 15;

/// A model of a NIC: what it tells apart, which fields it hashes, how long its key and table are.
///
/// The models are [`Nic::ALL`]; each names the public sources that it follows.
pub struct Nic {
    /// The word on the command line: `e810`.
    pub name: &'static str,
    /// Maker and product.
    pub title: &'static str,
    /// Bytes of the key: 40 or 52.
    pub key_len: usize,
    /// How the device holds the key.
    pub key_order: KeyOrder,
    /// Sizes that the indirection table may have, ascending; powers of two.
    pub table_sizes: &'static [usize],
    /// Manual, specification or driver that the model follows.
    pub source: &'static str,
    /// What an operator should know.
    pub remarks: &'static str,
    /// The device says which size its table has.
    pub(crate) table_is_of_device: bool,
    pub(crate) parsing: Parsing,
    pub(crate) hashing: fn(Class) -> Hashing,
    /// Selections that Linux's driver takes, of those that the device hashes.
    pub(crate) told: fn(Class, &HashInput) -> bool,
}

/// How a device holds its key, where that differs from how operators write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// The first byte first, as in Microsoft's specification.
    Natural,
    /// The device reads the key from its last byte; drivers reverse it, operators do not.
    ReversedByDriver,
}

/// How far a NIC follows headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parsing {
    /// VLAN tags that are skipped.
    pub(crate) vlan_tags: usize,
    /// Whether IPv6 extension headers before TCP or UDP are followed.
    pub(crate) ipv6_extensions: bool,
    /// Whether fragments are a class of their own.
    pub(crate) fragments: bool,
    /// Whether SCTP is a class of its own.
    pub(crate) sctp: bool,
}

/// What a NIC can do with a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// Any non-empty selection of these fields, which are hashed in this order.
    AnyOf(&'static [Field]),
    /// One of these lists of fields, the richest one first.
    OneOf(&'static [&'static [Field]]),
    /// Nothing: all packets of the class go to queue 0.
    QueueZero,
    /// Something that its maker does not document: nothing can be said of where packets go.
    Undocumented,
}

impl Hashing {
    /// The fields that it can hash, in order.
    pub fn fields(self) -> Vec<Field> {
        match self {
            Self::AnyOf(fields) => fields.to_vec(),
            Self::OneOf(lists) => {
                let mut all = Vec::new();
                lists.iter().copied().flatten().for_each(|field| {
                    if !all.contains(field) {
                        all.push(*field);
                    }
                });
                all
            }
            Self::QueueZero | Self::Undocumented => Vec::new(),
        }
    }

    /// Whether `input` is one of the lists of fields that can be hashed.
    pub fn allows(self, input: &HashInput) -> bool {
        let fields = input.fields();
        match self {
            Self::AnyOf(all) => {
                !fields.is_empty()
                    && all.iter().filter(|field| fields.contains(field)).eq(fields.iter())
            }
            Self::OneOf(lists) => lists.contains(&fields),
            Self::QueueZero | Self::Undocumented => fields.is_empty(),
        }
    }
}

impl Nic {
    /// The model of that name.
    pub fn named(name: &str) -> Option<&'static Nic> {
        Self::ALL.iter().copied().find(|nic| nic.name == name)
    }

    /// The class that packets of `class` are treated as: itself, unless the NIC does not tell it
    /// apart.
    pub fn seen_as(&self, class: Class) -> Class {
        let Parsing { fragments, sctp, .. } = self.parsing;
        match class {
            Class::Ipv4Fragment if !fragments => Class::Ipv4,
            Class::Ipv6Fragment if !fragments => Class::Ipv6,
            Class::Ipv4Sctp if !sctp => Class::Ipv4,
            Class::Ipv6Sctp if !sctp => Class::Ipv6,
            own => own,
        }
    }

    /// The classes that this NIC tells apart.
    pub fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        Class::ALL.into_iter().filter(|&class| self.seen_as(class) == class)
    }

    /// What the NIC can do with packets of `class`.
    pub fn hashing(&self, class: Class) -> Hashing {
        (self.hashing)(self.seen_as(class))
    }

    /// Whether Linux's driver of the NIC takes `input` for `class`, of which `ethtool` has a word, by
    /// `ethtool -N DEV rx-flow-hash`.
    pub fn can_be_told(&self, class: Class, input: &HashInput) -> bool {
        (self.told)(class, input)
    }

    /// All fields that the NIC can hash for `class` at once; MAC addresses only where there is
    /// nothing else.
    pub fn richest(&self, class: Class) -> HashInput {
        match self.hashing(class) {
            Hashing::OneOf(lists) => HashInput::new(lists.first().copied().unwrap_or_default()),
            all => {
                let fields = all.fields();
                let needed = fields.iter().copied().filter(|field| !field.is_needless(class));
                HashInput::new(&needed.collect::<Vec<_>>())
            }
        }
    }

    /// Whether this is no NIC: workers compute the hash.
    pub fn is_software(&self) -> bool {
        self.name == "software"
    }

    /// Whether it has a table of 2^`index_bits` entries.
    pub fn has_table_of(&self, index_bits: u32) -> bool {
        self.device_index_bits().is_some_and(|bits| bits.contains(&index_bits))
            || self.table_sizes.iter().any(|entries| entries.ilog2() == index_bits)
    }

    /// Where the device itself says how large its table is, the index bits that it may have:
    /// [`Nic::table_sizes`] are the usual ones.
    pub fn device_index_bits(&self) -> Option<RangeInclusive<u32>> {
        self.table_is_of_device.then_some(1..=DEVICE_INDEX_BITS_MAX)
    }

    /// Bits of the hash that select the entry of the largest table.
    pub fn index_bits(&self) -> u32 {
        self.table_sizes.last().map_or(0, |entries| entries.ilog2())
    }

    /// Looks at an Ethernet frame as the NIC does.
    pub fn parse<'a>(&self, frame: &'a [u8]) -> Parsed<'a> {
        parse::parse(frame, self.parsing).treated_as(|class| self.seen_as(class))
    }
}

impl PartialEq for Nic {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Nic {}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nic({})", self.name)
    }
}

/// The fields that are hashed, in the order in which they are put one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HashInput(Vec<Field>);

impl HashInput {
    /// No field: what a class is given that is not hashed.
    pub const NOTHING: Self = Self(Vec::new());

    /// An input of these fields, in this order. A field is taken once.
    pub fn new(fields: &[Field]) -> Self {
        let mut input = Vec::with_capacity(fields.len());
        for field in fields {
            if !input.contains(field) && !matches!(field, Field::Other(_)) {
                input.push(*field);
            }
        }
        Self(input)
    }

    /// The fields in order; none when the class is not hashed.
    pub fn fields(&self) -> &[Field] {
        &self.0
    }

    /// Bits of the input.
    pub fn width(&self) -> usize {
        self.0.iter().map(|field| usize::from(field.width())).sum()
    }

    /// Each field with the positions of its bits in the input.
    pub fn places(&self) -> impl Iterator<Item = (Field, Range<usize>)> + '_ {
        let mut start = 0;
        self.0.iter().map(move |&field| {
            let positions = start..start + usize::from(field.width());
            start = positions.end;
            (field, positions)
        })
    }

    /// Where the bits of `field` begin in the input.
    pub fn offset(&self, field: Field) -> Option<usize> {
        self.places().find(|(own, _)| *own == field).map(|(_, positions)| positions.start)
    }
}

impl fmt::Display for HashInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        let names: Vec<String> = self.0.iter().map(Field::to_string).collect();
        f.write_str(&names.join(" "))
    }
}
