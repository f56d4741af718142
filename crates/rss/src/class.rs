//! Packet classes: what a NIC tells apart before it chooses the fields to hash.

use std::fmt;

use crate::field::Field;

/// A class of packets. Every frame is of exactly one class; which one depends on how far a NIC
/// parses ([`Nic::parse`](crate::Nic::parse)), and a NIC may treat several alike
/// ([`Nic::seen_as`](crate::Nic::seen_as)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// IPv4 with TCP, not a fragment.
    Ipv4Tcp,
    /// IPv4 with UDP, not a fragment.
    Ipv4Udp,
    /// IPv4 with SCTP, not a fragment.
    Ipv4Sctp,
    /// Any fragment of an IPv4 packet, the first one too: its ports are not looked at.
    Ipv4Fragment,
    /// All other IPv4: ICMP, ESP, GRE, ….
    Ipv4,
    /// IPv6 with TCP.
    Ipv6Tcp,
    /// IPv6 with UDP.
    Ipv6Udp,
    /// IPv6 with SCTP.
    Ipv6Sctp,
    /// IPv6 with a fragment header.
    Ipv6Fragment,
    /// All other IPv6: ICMPv6, extension headers that the NIC does not follow, ….
    Ipv6,
    /// ARP, MPLS, more VLAN tags than the NIC follows, malformed headers, ….
    NonIp,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 11] = [
        Self::Ipv4Tcp,
        Self::Ipv4Udp,
        Self::Ipv4Sctp,
        Self::Ipv4Fragment,
        Self::Ipv4,
        Self::Ipv6Tcp,
        Self::Ipv6Udp,
        Self::Ipv6Sctp,
        Self::Ipv6Fragment,
        Self::Ipv6,
        Self::NonIp,
    ];

    /// The class in words that need no quotes: `ipv4-tcp`, `ipv6-fragment`, `non-ip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4Tcp => "ipv4-tcp",
            Self::Ipv4Udp => "ipv4-udp",
            Self::Ipv4Sctp => "ipv4-sctp",
            Self::Ipv4Fragment => "ipv4-fragment",
            Self::Ipv4 => "ipv4",
            Self::Ipv6Tcp => "ipv6-tcp",
            Self::Ipv6Udp => "ipv6-udp",
            Self::Ipv6Sctp => "ipv6-sctp",
            Self::Ipv6Fragment => "ipv6-fragment",
            Self::Ipv6 => "ipv6",
            Self::NonIp => "non-ip",
        }
    }

    /// The class of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Whether every packet of this class has `field` in headers that are looked at.
    pub fn has(self, field: Field) -> bool {
        let tagged = matches!(self, Self::Ipv4Sctp | Self::Ipv6Sctp);
        self.fields().contains(&field) || (tagged && field == Field::SctpTag)
    }

    /// The fields of [`Field::HASHED`] that it [has](Self::has) and that tell a flow, in the order of
    /// Toeplitz inputs: not the verification tag of SCTP, which differs from one direction to the other.
    pub const fn fields(self) -> &'static [Field] {
        use Field as F;
        match self {
            Self::Ipv4Tcp => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv4Src, F::Ipv4Dst, F::TcpSrc, F::TcpDst]
            }
            Self::Ipv4Udp => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv4Src, F::Ipv4Dst, F::UdpSrc, F::UdpDst]
            }
            Self::Ipv4Sctp => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv4Src, F::Ipv4Dst, F::SctpSrc, F::SctpDst]
            }
            Self::Ipv4Fragment | Self::Ipv4 => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv4Src, F::Ipv4Dst]
            }
            Self::Ipv6Tcp => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv6Src, F::Ipv6Dst, F::TcpSrc, F::TcpDst]
            }
            Self::Ipv6Udp => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv6Src, F::Ipv6Dst, F::UdpSrc, F::UdpDst]
            }
            Self::Ipv6Sctp => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv6Src, F::Ipv6Dst, F::SctpSrc, F::SctpDst]
            }
            Self::Ipv6Fragment | Self::Ipv6 => {
                &[F::EthernetDst, F::EthernetSrc, F::Ipv6Src, F::Ipv6Dst]
            }
            Self::NonIp => &[F::EthernetDst, F::EthernetSrc],
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
