//! Ethernet addresses.

use std::{fmt, str::FromStr};

/// An Ethernet (MAC) address, IEEE 802.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr([u8; 6]);

impl MacAddr {
    /// All ones: every station.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeros, which is no station's address.
    pub const ZERO: Self = Self([0; 6]);

    /// The address `a:b:c:d:e:f`.
    #[inline(always)]
    pub const fn new(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) -> Self {
        Self([a, b, c, d, e, f])
    }

    /// The six octets in the order of transmission.
    #[inline(always)]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Whether this is a group address (the broadcast address is one).
    #[inline(always)]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether this is `ff:ff:ff:ff:ff:ff`.
    #[inline(always)]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }
}

impl From<[u8; 6]> for MacAddr {
    #[inline(always)]
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not six octets in hexadecimal with `:` or `-` between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMacAddr;

impl fmt::Display for InvalidMacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address; write six octets, such as 02:00:00:00:00:01")
    }
}

impl std::error::Error for InvalidMacAddr {}

impl FromStr for MacAddr {
    type Err = InvalidMacAddr;

    fn from_str(text: &str) -> Result<Self, InvalidMacAddr> {
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            *octet = hex_octet(parts.next().ok_or(InvalidMacAddr)?)?;
        }
        if parts.next().is_some() { Err(InvalidMacAddr) } else { Ok(Self(octets)) }
    }
}

/// One or two hexadecimal digits; `from_str_radix` alone would also take a sign.
fn hex_octet(part: &str) -> Result<u8, InvalidMacAddr> {
    let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    u8::from_str_radix(part, 16).ok().filter(|_| digits).ok_or(InvalidMacAddr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let mac = MacAddr::new(0x02, 0, 0xab, 0xcd, 0xef, 1);
        assert_eq!(mac.to_string(), "02:00:ab:cd:ef:01");
        assert_eq!("02:00:ab:cd:ef:01".parse(), Ok(mac));
        assert_eq!("2-0-AB-CD-EF-1".parse(), Ok(mac));
        for bad in [
            "",
            "02:00",
            "02:00:ab:cd:ef:01:02",
            "02:00:ab:cd:ef:100",
            "+2:0:0:0:0:0",
            "0::0:0:0:0",
        ] {
            assert_eq!(bad.parse::<MacAddr>(), Err(InvalidMacAddr), "{bad}");
        }
    }

    #[test]
    fn group_addresses() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        let ipv6_group = MacAddr::new(0x33, 0x33, 0, 0, 0, 1);
        assert!(ipv6_group.is_multicast() && !ipv6_group.is_broadcast());
        assert!(!MacAddr::from([2, 0, 0, 0, 0, 1]).is_multicast());
    }
}
