//! Why a packet, or the rest of one, could not be understood.

use std::fmt;

macro_rules! malformed {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)*) => {
        /// Why a packet could not be understood. Each reason has one word, the same in the command
        /// line, metrics, traces and captures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Malformed {
            $($(#[$doc])* $variant,)*
        }

        impl Malformed {
            /// Every reason, in the order of the layers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The reason's word, in kebab case.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

malformed! {
    /// Fewer bytes than an Ethernet header (14) were captured: the only reason at layer 2.
    EthernetHeaderTruncated = "ethernet-header-truncated",
    /// A VLAN tag (4 bytes, IEEE 802.1Q) is cut.
    VlanTagTruncated = "vlan-tag-truncated",
    /// More than four VLAN tags.
    VlanTagsTooMany = "vlan-tags-too-many",
    /// An ARP packet for Ethernet and IPv4 (28 bytes, RFC 826) is cut.
    ArpTruncated = "arp-truncated",
    /// The IPv4 header with its options is cut.
    Ipv4HeaderTruncated = "ipv4-header-truncated",
    /// The Ethernet type says IPv4, the version field does not.
    Ipv4Version = "ipv4-version",
    /// The IPv4 header length is under 20 bytes.
    Ipv4HeaderLength = "ipv4-header-length",
    /// The IPv4 total length is under the header length or over what was on the wire.
    Ipv4TotalLength = "ipv4-total-length",
    /// The IPv6 header (40 bytes) is cut.
    Ipv6HeaderTruncated = "ipv6-header-truncated",
    /// The Ethernet type says IPv6, the version field does not.
    Ipv6Version = "ipv6-version",
    /// The IPv6 payload length is over what was on the wire.
    Ipv6PayloadLength = "ipv6-payload-length",
    /// An IPv6 extension header is cut.
    Ipv6ExtensionTruncated = "ipv6-extension-truncated",
    /// More extension headers than are read (12), or longer ones than any real packet has.
    Ipv6ExtensionsTooMany = "ipv6-extensions-too-many",
    /// The TCP header with its options is cut.
    TcpHeaderTruncated = "tcp-header-truncated",
    /// The TCP data offset is under 20 bytes or past the end of the packet.
    TcpHeaderLength = "tcp-header-length",
    /// The UDP header (8 bytes) is cut.
    UdpHeaderTruncated = "udp-header-truncated",
    /// The UDP length is under 8 or past the end of the packet.
    UdpLength = "udp-length",
    /// The ICMP header (8 bytes) is cut.
    Icmpv4HeaderTruncated = "icmpv4-header-truncated",
    /// The ICMPv6 header (8 bytes) is cut.
    Icmpv6HeaderTruncated = "icmpv6-header-truncated",
}

impl Malformed {
    /// 0 for none, else a number from 1 on.
    pub(crate) const fn number(reason: Option<Self>) -> u8 {
        match reason {
            Some(reason) => reason as u8 + 1,
            None => 0,
        }
    }

    /// The reason of this [`number`](Self::number).
    #[inline(always)]
    pub(crate) const fn numbered(number: u8) -> Option<Self> {
        if number == 0 || number as usize > Self::ALL.len() {
            return None;
        }
        Some(Self::ALL[number as usize - 1])
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::Malformed;
    use std::collections::HashSet;

    #[test]
    fn words_are_distinct_and_kebab_case() {
        let words: HashSet<_> = Malformed::ALL.iter().map(|m| m.to_string()).collect();
        assert_eq!(words.len(), Malformed::ALL.len());
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(words.iter().all(|word| word.chars().all(kebab)));
    }

    #[test]
    fn numbers_round_trip() {
        assert_eq!(Malformed::numbered(Malformed::number(None)), None);
        for reason in Malformed::ALL {
            assert_eq!(Malformed::numbered(Malformed::number(Some(*reason))), Some(*reason));
        }
        assert_eq!(Malformed::numbered(u8::MAX), None);
    }
}
