//! Ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 or IPv6 prefix, such as `10.0.0.0/8`. A bare address is a prefix of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// The first `len` bits of an IPv4 address; at most 32.
    pub const fn v4(address: Ipv4Addr, len: u8) -> Self {
        let len = if len > 32 { 32 } else { len };
        let mask = if len == 0 { 0 } else { u32::MAX << (32 - len) };
        let address = Ipv4Addr::from_bits(address.to_bits() & mask);
        Self { address: IpAddr::V4(address), len }
    }

    /// The first `len` bits of an IPv6 address; at most 128.
    pub const fn v6(address: Ipv6Addr, len: u8) -> Self {
        let len = if len > 128 { 128 } else { len };
        let mask = if len == 0 { 0 } else { u128::MAX << (128 - len) };
        let address = Ipv6Addr::from_bits(address.to_bits() & mask);
        Self { address: IpAddr::V6(address), len }
    }

    /// Whether this is an IPv6 prefix.
    pub fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// How many hosts it has room for, at most 2³². The network's own address, the next one (the
    /// gateway's) and the broadcast address are left out, unless there are only one or two
    /// addresses.
    pub fn hosts(&self) -> u64 {
        let all = 1u64 << self.host_bits().min(32);
        if all <= 2 { all } else { all - 3 }
    }

    /// The address of host `index`, from 0.
    #[inline]
    pub fn host(&self, index: u32) -> IpAddr {
        let offset = u64::from(index) + if self.host_bits() <= 1 { 0 } else { 2 };
        match self.address {
            IpAddr::V4(address) => {
                Ipv4Addr::from_bits(address.to_bits().wrapping_add(offset as u32)).into()
            }
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits().wrapping_add(u128::from(offset))).into()
            }
        }
    }

    /// Whether `address` lies in the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(_), IpAddr::V4(other)) => Self::v4(other, self.len) == *self,
            (IpAddr::V6(_), IpAddr::V6(other)) => Self::v6(other, self.len) == *self,
            _ => false,
        }
    }

    fn host_bits(&self) -> u32 {
        let bits = if self.is_ipv6() { 128 } else { 32 };
        bits - u32::from(self.len)
    }
}

/// The text is no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPrefix;

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse().map_err(|_| InvalidPrefix)?)),
            None => (text, None),
        };
        match (address.parse().map_err(|_| InvalidPrefix)?, len) {
            (IpAddr::V4(address), len @ (None | Some(0..=32))) => {
                Ok(Self::v4(address, len.unwrap_or(32)))
            }
            (IpAddr::V6(address), len @ (None | Some(0..=128))) => {
                Ok(Self::v6(address, len.unwrap_or(128)))
            }
            _ => Err(InvalidPrefix),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_leave_out_network_gateway_and_broadcast() {
        assert_eq!(prefix("10.0.0.0/24").hosts(), 253);
        assert_eq!(prefix("10.0.0.77/24").host(0), IpAddr::from([10, 0, 0, 2]));
        assert_eq!(prefix("10.0.0.0/24").host(252), IpAddr::from([10, 0, 0, 254]));
        assert_eq!(prefix("192.0.2.1").hosts(), 1);
        assert_eq!(prefix("192.0.2.1").host(0), IpAddr::from([192, 0, 2, 1]));
        assert_eq!(prefix("192.0.2.0/31").host(1), IpAddr::from([192, 0, 2, 1]));
        assert_eq!(prefix("fd00::/64").hosts(), (1 << 32) - 3);
        assert_eq!(prefix("fd00::/64").host(1).to_string(), "fd00::3");
        assert_eq!(prefix("0.0.0.0/0").hosts(), (1 << 32) - 3);
    }

    #[test]
    fn membership_and_text() {
        assert!(prefix("10.0.0.0/8").contains(IpAddr::from([10, 1, 2, 3])));
        assert!(!prefix("10.0.0.0/8").contains(IpAddr::from([11, 1, 2, 3])));
        assert!(!prefix("::/0").contains(IpAddr::from([11, 1, 2, 3])));
        assert_eq!(prefix("10.9.9.9/8").to_string(), "10.0.0.0/8");
        for wrong in ["", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "10.0.0.0/x", "10.0.0.0/"] {
            assert_eq!(wrong.parse::<Prefix>(), Err(InvalidPrefix), "{wrong}");
        }
    }
}
