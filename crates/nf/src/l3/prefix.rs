//! Address prefixes, as routes and interfaces have them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with the number of its leading bits that count; the others are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub address: IpAddr,
    pub length: u8,
}

impl Prefix {
    pub const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length }
    }

    pub const fn v6(address: Ipv6Addr, length: u8) -> Self {
        Self { address: IpAddr::V6(address), length }
    }

    /// The prefix that is this one address.
    pub fn host(address: IpAddr) -> Self {
        Self { address, length: width(address) }
    }

    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()) & self.mask4() == 0,
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()) & self.mask6() == 0,
            _ => false,
        }
    }

    /// This prefix without its host bits.
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => Ipv4Addr::from(address.to_bits() & self.mask4()).into(),
            IpAddr::V6(address) => Ipv6Addr::from(address.to_bits() & self.mask6()).into(),
        };
        Self { address, ..self }
    }

    /// The addresses of an IPv4 prefix that mean all of its hosts: all host bits zero, as of old,
    /// and all ones. A prefix of 31 bits (RFC 3021) or 32 has none.
    pub fn broadcasts(self) -> Option<[IpAddr; 2]> {
        let IpAddr::V4(address) = self.address else { return None };
        let zeros = address.to_bits() & self.mask4();
        let both = [zeros, zeros | !self.mask4()].map(|bits| Ipv4Addr::from(bits).into());
        (self.length < 31).then_some(both)
    }

    fn mask4(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length.min(32))).unwrap_or(0)
    }

    fn mask6(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.length.min(128))).unwrap_or(0)
    }

    /// Reads `ADDRESS/LENGTH`. The error says what to write instead.
    pub fn read(text: &str) -> Result<Self, String> {
        let example = "write one such as \"10.0.0.0/24\" or \"2001:db8::/32\"";
        let Some((address, length)) = text.split_once('/') else {
            let hint = text.parse().ok().map(Self::host).map(|host| {
                let common = if host.length == 32 { 24 } else { 64 };
                format!("write that of its network, as in \"{text}/{common}\", or \"{host}\" for it alone")
            });
            let hint = hint.unwrap_or_else(|| example.to_owned());
            return Err(format!("\"{text}\" has no prefix length; {hint}"));
        };
        let address: IpAddr =
            address.parse().map_err(|_| format!("\"{text}\" is no prefix; {example}"))?;
        let length = length.parse().ok().filter(|&length: &u8| length <= width(address));
        let length = length.ok_or_else(|| {
            format!("\"{text}\": the prefix length is a number from 0 to {}", width(address))
        })?;
        Ok(Self { address, length })
    }
}

/// Bits of an address of this version.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::read(text).unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn contains_what_shares_the_leading_bits() {
        assert!(prefix("10.1.2.3/24").contains(address("10.1.2.255")));
        assert!(!prefix("10.1.2.3/24").contains(address("10.1.3.0")));
        assert!(prefix("0.0.0.0/0").contains(address("255.1.1.1")));
        assert!(!prefix("0.0.0.0/0").contains(address("::")));
        assert!(prefix("2001:db8::/33").contains(address("2001:db8:7fff::1")));
        assert!(!prefix("2001:db8::/33").contains(address("2001:db8:8000::1")));
        assert!(prefix("::/0").contains(address("ffff::")));
    }

    #[test]
    fn knows_the_network_and_its_broadcast_addresses() {
        assert_eq!(prefix("10.1.2.3/20").network(), prefix("10.1.0.0/20"));
        assert_eq!(prefix("2001:db8::1/64").network(), prefix("2001:db8::/64"));
        let all = [address("10.1.2.0"), address("10.1.2.255")];
        assert_eq!(prefix("10.1.2.3/24").broadcasts(), Some(all));
        assert_eq!(prefix("10.1.2.3/31").broadcasts(), None);
        assert_eq!(prefix("2001:db8::1/64").broadcasts(), None);
    }

    #[test]
    fn says_what_to_write() {
        for (text, words) in [
            ("10.0.0.1", "as in \"10.0.0.1/24\", or \"10.0.0.1/32\" for it alone"),
            ("fd00::1", "as in \"fd00::1/64\", or \"fd00::1/128\" for it alone"),
            ("ten", "has no prefix length; write one such as"),
            ("ten/8", "is no prefix; write one such as"),
            ("10.0.0.0/33", "the prefix length is a number from 0 to 32"),
            ("::/129", "the prefix length is a number from 0 to 128"),
            ("::/x", "the prefix length is a number"),
        ] {
            let error = Prefix::read(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
