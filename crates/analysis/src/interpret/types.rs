//! Types of the NF language, as far as the interpreter needs them: to give literals a width and
//! to make symbolic values.

use std::rc::Rc;

use crate::expr::Kind;

/// An integer type or an address: a bit-vector with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    /// `u8` to `u128`, `usize` as 64 bits.
    Unsigned(u8),
    /// `i8` to `i128`, `isize` as 64 bits.
    Signed(u8),
    Usize,
    Ipv4,
    Ipv6,
    Mac,
    Port,
}

impl Scalar {
    /// The scalar type of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "u8" => Self::Unsigned(8),
            "u16" => Self::Unsigned(16),
            "u32" => Self::Unsigned(32),
            "u64" => Self::Unsigned(64),
            "u128" => Self::Unsigned(128),
            "usize" => Self::Usize,
            "i8" => Self::Signed(8),
            "i16" => Self::Signed(16),
            "i32" => Self::Signed(32),
            "i64" | "isize" => Self::Signed(64),
            "i128" => Self::Signed(128),
            "Ipv4Addr" => Self::Ipv4,
            "Ipv6Addr" => Self::Ipv6,
            "MacAddr" => Self::Mac,
            "Port" => Self::Port,
            _ => return None,
        })
    }

    /// Width in bits.
    pub(crate) fn width(self) -> u8 {
        match self {
            Self::Unsigned(width) | Self::Signed(width) => width,
            Self::Usize => 64,
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
            Self::Mac => 48,
            Self::Port => 8,
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::Signed(_))
    }

    /// Whether arithmetic is defined on it.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::Unsigned(_) | Self::Signed(_) | Self::Usize)
    }

    /// How its constants are written.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Ipv4 => Kind::Ipv4,
            Self::Ipv6 => Kind::Ipv6,
            Self::Mac => Kind::Mac,
            Self::Port => Kind::Port,
            _ => Kind::Number,
        }
    }

    /// Its name in Rust.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Unsigned(width) => format!("u{width}"),
            Self::Signed(width) => format!("i{width}"),
            Self::Usize => "usize".to_owned(),
            Self::Ipv4 => "Ipv4Addr".to_owned(),
            Self::Ipv6 => "Ipv6Addr".to_owned(),
            Self::Mac => "MacAddr".to_owned(),
            Self::Port => "Port".to_owned(),
        }
    }
}

/// A type, references erased: values are copied, and only `&mut` is a reference here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    /// Not known, or of no consequence: nothing is converted.
    Unknown,
    Unit,
    Bool,
    Scalar(Scalar),
    Tuple(Vec<Type>),
    Array(Box<Type>, usize),
    /// A slice, or an array whose length is a type parameter.
    Slice(Box<Type>),
    Option(Box<Type>),
    Result(Box<Type>, Box<Type>),
    /// `List<T>` of the settings.
    List(Box<Type>),
    /// A struct of the module, its type arguments filled in.
    Struct(Rc<StructShape>),
    /// An enum of the module, its type arguments filled in.
    Enum(Rc<EnumShape>),
}

impl Type {
    /// Whether a value of this type may be one of the other, as far as both are known.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        match (self, other) {
            (Type::Unknown, _) | (_, Type::Unknown) => true,
            (Type::Option(a), Type::Option(b)) => a.may_be(b),
            _ => self == other,
        }
    }
}

/// Fields of a struct, in order.
#[derive(Debug, PartialEq)]
pub(crate) struct StructShape {
    pub(crate) name: String,
    /// Names; `0`, `1`, … in a tuple struct.
    pub(crate) fields: Vec<(String, Type)>,
}

impl StructShape {
    /// Position of a field.
    pub(crate) fn position(&self, field: &str) -> Option<usize> {
        self.fields.iter().position(|(name, _)| name == field)
    }
}

/// Variants of an enum, in order.
#[derive(Debug, PartialEq)]
pub(crate) struct EnumShape {
    pub(crate) name: String,
    pub(crate) variants: Vec<Variant>,
}

/// One variant of an enum.
#[derive(Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    /// What `as` makes of it.
    pub(crate) discriminant: i128,
    pub(crate) fields: Vec<(String, Type)>,
}

impl EnumShape {
    /// Position of a variant.
    pub(crate) fn position(&self, variant: &str) -> Option<usize> {
        self.variants.iter().position(|known| known.name == variant)
    }

    /// Whether no variant has fields.
    pub(crate) fn is_plain(&self) -> bool {
        self.variants.iter().all(|variant| variant.fields.is_empty())
    }

    /// An enum of the prelude, given as variants with their number of fields.
    pub(crate) fn built_in(name: &str, variants: &[(&str, usize)]) -> Rc<Self> {
        let variants = variants.iter().zip(0..).map(|((name, fields), discriminant)| Variant {
            name: (*name).to_owned(),
            discriminant,
            fields: (0..*fields).map(|n| (n.to_string(), Type::Unknown)).collect(),
        });
        Rc::new(Self { name: name.to_owned(), variants: variants.collect() })
    }

    /// `Option`.
    pub(crate) fn option() -> Rc<Self> {
        Self::built_in("Option", &[("None", 0), ("Some", 1)])
    }
}
