//! Header fields that a hash may read, and ranges of their bits.

use std::fmt;

use crate::class::Class;

/// A header field of a packet.
///
/// Names are those of the network function language: `ipv4.src`, `tcp.dst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `ethernet.dst`: 48 bits.
    EthernetDst,
    /// `ethernet.src`: 48 bits.
    EthernetSrc,
    /// `ipv4.src`: 32 bits.
    Ipv4Src,
    /// `ipv4.dst`: 32 bits.
    Ipv4Dst,
    /// `ipv6.src`: 128 bits.
    Ipv6Src,
    /// `ipv6.dst`: 128 bits.
    Ipv6Dst,
    /// `tcp.src`: 16 bits.
    TcpSrc,
    /// `tcp.dst`: 16 bits.
    TcpDst,
    /// `udp.src`: 16 bits.
    UdpSrc,
    /// `udp.dst`: 16 bits.
    UdpDst,
    /// `sctp.src`: 16 bits.
    SctpSrc,
    /// `sctp.dst`: 16 bits.
    SctpDst,
    /// `sctp.tag`, the verification tag: 32 bits.
    SctpTag,
    /// Anything else that a need speaks of and that no NIC hashes (`icmpv4.id`, a VLAN, a byte of
    /// the payload): up to 128 bits, numbered by the caller.
    Other(u16),
}

impl Field {
    /// All fields that some NIC hashes.
    pub const HASHED: [Self; 13] = [
        Self::EthernetDst,
        Self::EthernetSrc,
        Self::Ipv4Src,
        Self::Ipv4Dst,
        Self::Ipv6Src,
        Self::Ipv6Dst,
        Self::TcpSrc,
        Self::TcpDst,
        Self::UdpSrc,
        Self::UdpDst,
        Self::SctpSrc,
        Self::SctpDst,
        Self::SctpTag,
    ];

    /// Bits of the field.
    pub const fn width(self) -> u16 {
        match self {
            Self::EthernetDst | Self::EthernetSrc => 48,
            Self::Ipv4Src | Self::Ipv4Dst | Self::SctpTag => 32,
            Self::Ipv6Src | Self::Ipv6Dst | Self::Other(_) => 128,
            Self::TcpSrc
            | Self::TcpDst
            | Self::UdpSrc
            | Self::UdpDst
            | Self::SctpSrc
            | Self::SctpDst => 16,
        }
    }

    /// The field's name in the network function language; `other` for [`Field::Other`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::EthernetDst => "ethernet.dst",
            Self::EthernetSrc => "ethernet.src",
            Self::Ipv4Src => "ipv4.src",
            Self::Ipv4Dst => "ipv4.dst",
            Self::Ipv6Src => "ipv6.src",
            Self::Ipv6Dst => "ipv6.dst",
            Self::TcpSrc => "tcp.src",
            Self::TcpDst => "tcp.dst",
            Self::UdpSrc => "udp.src",
            Self::UdpDst => "udp.dst",
            Self::SctpSrc => "sctp.src",
            Self::SctpDst => "sctp.dst",
            Self::SctpTag => "sctp.tag",
            Self::Other(_) => "other",
        }
    }

    /// The field of that name; `None` when no NIC hashes one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::HASHED.into_iter().find(|field| field.name() == name)
    }

    /// All bits of the field.
    pub const fn bits(self) -> Bits {
        Bits { field: self, first: 0, len: self.width() }
    }

    /// The first `len` bits of the field, as in `/24`; no more than it has.
    pub const fn prefix(self, len: u16) -> Bits {
        let width = self.width();
        Bits { field: self, first: 0, len: if len < width { len } else { width } }
    }

    /// Whether hashing this field adds nothing for packets of `class` that nothing ties together:
    /// MAC addresses of an IP packet name the next hop.
    pub(crate) fn is_needless(self, class: Class) -> bool {
        class != Class::NonIp && matches!(self, Self::EthernetDst | Self::EthernetSrc)
    }

    /// The field of a reply that holds what this one holds in the request.
    #[must_use]
    pub const fn swapped(self) -> Self {
        match self {
            Self::EthernetDst => Self::EthernetSrc,
            Self::EthernetSrc => Self::EthernetDst,
            Self::Ipv4Src => Self::Ipv4Dst,
            Self::Ipv4Dst => Self::Ipv4Src,
            Self::Ipv6Src => Self::Ipv6Dst,
            Self::Ipv6Dst => Self::Ipv6Src,
            Self::TcpSrc => Self::TcpDst,
            Self::TcpDst => Self::TcpSrc,
            Self::UdpSrc => Self::UdpDst,
            Self::UdpDst => Self::UdpSrc,
            Self::SctpSrc => Self::SctpDst,
            Self::SctpDst => Self::SctpSrc,
            Self::SctpTag | Self::Other(_) => self,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(f, "other.{number}"),
            named => f.write_str(named.name()),
        }
    }
}

/// A range of bits of one field, counted from its most significant bit, which is the first on the
/// wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bits {
    /// The field.
    pub field: Field,
    /// The first bit; 0 is the most significant.
    pub first: u16,
    /// Number of bits.
    pub len: u16,
}

impl Bits {
    /// Whether the range lies in the field and is not empty.
    pub const fn fits(self) -> bool {
        self.len > 0 && self.first as u32 + self.len as u32 <= self.field.width() as u32
    }
}

impl fmt::Display for Bits {
    /// `ipv4.src`, `ipv4.src/24`, or `ipv4.src[8..16]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, first, len } = *self;
        if first == 0 && len == field.width() {
            return write!(f, "{field}");
        }
        if first == 0 {
            return write!(f, "{field}/{len}");
        }
        write!(f, "{field}[{first}..{}]", u32::from(first) + u32::from(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_fields() {
        for field in Field::HASHED {
            assert_eq!(Field::named(field.name()), Some(field));
            assert_eq!(field.swapped().swapped(), field);
            assert_eq!(field.swapped().width(), field.width());
        }
        assert_eq!(Field::named("ipv4.ttl"), None);
    }

    #[test]
    fn ranges_are_written_as_they_are_read() {
        assert_eq!(Field::Ipv4Src.bits().to_string(), "ipv4.src");
        assert_eq!(Field::Ipv4Src.prefix(24).to_string(), "ipv4.src/24");
        assert_eq!(Field::TcpDst.prefix(99), Field::TcpDst.bits());
        let bits = Bits { field: Field::TcpDst, first: 8, len: 8 };
        assert_eq!(bits.to_string(), "tcp.dst[8..16]");
        assert!(bits.fits());
        assert!(!Bits { len: 9, ..bits }.fits());
        assert!(!Bits { len: 0, ..bits }.fits());
        assert!(!Bits { first: u16::MAX, len: u16::MAX, ..bits }.fits());
    }
}
