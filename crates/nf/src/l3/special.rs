//! Addresses that no router forwards to or from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::l3::prefix::Prefix;

/// Link-local addresses: those of interfaces, but nothing is forwarded to or from them (RFC 3927,
/// 2.7; RFC 4291, 2.5.6).
const LINK_LOCAL: [Prefix; 2] =
    [Prefix::v4(169, 254, 0, 0, 16), Prefix::v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10)];

/// Destinations besides that are not forwarded: "this network", loopback, multicast and reserved
/// in IPv4 (RFC 1812, 5.3.7), unspecified, loopback, mapped IPv4 and multicast in IPv6 (RFC 6890).
const NOWHERE: [Prefix; 7] = [
    Prefix::v4(0, 0, 0, 0, 8),
    Prefix::v4(127, 0, 0, 0, 8),
    Prefix::v4(224, 0, 0, 0, 3),
    Prefix::v6(Ipv6Addr::UNSPECIFIED, 128),
    Prefix::v6(Ipv6Addr::LOCALHOST, 128),
    Prefix::v6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    Prefix::v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

/// Every prefix that is not forwarded to.
pub(super) fn not_forwardable() -> impl Iterator<Item = Prefix> {
    LINK_LOCAL.into_iter().chain(NOWHERE)
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    LINK_LOCAL.iter().any(|prefix| prefix.contains(address))
}

/// Whether the address can be that of one host, link-local or not.
pub(super) fn is_host(address: IpAddr) -> bool {
    !NOWHERE.iter().any(|prefix| prefix.contains(address))
}

/// Whether packets from here are not forwarded.
#[inline(always)]
pub(super) fn is_source4_refused(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    matches!(first, 0 | 127 | 224..) || (first == 169 && second == 254)
}

/// Whether packets from here are not forwarded.
#[inline(always)]
pub(super) fn is_source6_refused(address: Ipv6Addr) -> bool {
    let [first, ..] = address.octets();
    matches!(first, 0 | 0xfe | 0xff) && is_refused(address.into())
}

#[cold]
fn is_refused(address: IpAddr) -> bool {
    not_forwardable().any(|prefix| prefix.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_refused_where_destinations_are() {
        for first in 0..=255 {
            for second in [0, 1, 253, 254, 255] {
                let address = Ipv4Addr::new(first, second, 3, 4);
                assert_eq!(is_source4_refused(address), is_refused(address.into()), "{address}");
            }
        }
        for text in ["::", "::1", "::ffff:1.2.3.4", "fe80::1", "ff02::1"] {
            assert!(is_source6_refused(text.parse().unwrap()), "{text}");
        }
        for text in ["::2", "64:ff9b::1", "fd00::1", "fec0::1", "2001:db8::1"] {
            assert!(!is_source6_refused(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn link_local_addresses_are_of_hosts() {
        for text in ["169.254.1.1", "fe80::1"] {
            let address = text.parse().unwrap();
            assert!(is_link_local(address) && is_host(address) && is_refused(address));
        }
        assert!(!is_host("224.0.0.1".parse().unwrap()));
        assert!(is_host("192.0.2.1".parse().unwrap()));
    }
}
