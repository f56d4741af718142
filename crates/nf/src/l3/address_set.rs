//! A few addresses that packets are held against: our own, and those that mean all hosts of our links.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A few addresses, and a filter that tells most others apart by one bit.
#[derive(Default)]
pub(super) struct AddressSet {
    filter: u64,
    ipv4: Vec<Ipv4Addr>,
    ipv6: Vec<Ipv6Addr>,
}

impl AddressSet {
    pub fn new(addresses: impl Iterator<Item = IpAddr>) -> Self {
        let mut set = Self::default();
        for address in addresses {
            match address {
                IpAddr::V4(address) => {
                    set.filter |= bit4(address);
                    set.ipv4.push(address);
                }
                IpAddr::V6(address) => {
                    set.filter |= bit6(address);
                    set.ipv6.push(address);
                }
            }
        }
        set
    }

    #[inline(always)]
    pub fn has4(&self, address: Ipv4Addr) -> bool {
        self.filter & bit4(address) != 0 && self.ipv4.contains(&address)
    }

    #[inline(always)]
    pub fn has6(&self, address: Ipv6Addr) -> bool {
        self.filter & bit6(address) != 0 && self.ipv6.contains(&address)
    }

    pub fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.has4(address),
            IpAddr::V6(address) => self.has6(address),
        }
    }
}

/// By the golden ratio, so that neighbouring addresses differ.
#[inline(always)]
fn bit4(address: Ipv4Addr) -> u64 {
    1 << (address.to_bits().wrapping_mul(0x9e37_79b1) >> 26)
}

#[inline(always)]
fn bit6(address: Ipv6Addr) -> u64 {
    let bits = address.to_bits();
    let folded = (bits >> 64) as u64 ^ (bits as u64).rotate_left(32);
    1 << (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_what_it_was_given() {
        let given: [IpAddr; 3] =
            ["10.0.0.1", "192.0.2.1", "2001:db8::1"].map(|a| a.parse().unwrap());
        let set = AddressSet::new(given.into_iter());
        assert!(given.iter().all(|&address| set.has(address)));
        let others = (0..=u16::MAX).map(|low| Ipv4Addr::from(0x0a00_0002 + u32::from(low)));
        assert!(others.into_iter().all(|address| !set.has4(address)));
        assert!(
            (2..=u16::MAX).all(|low| !set.has6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, low)))
        );
        assert!(!AddressSet::default().has4(Ipv4Addr::UNSPECIFIED));
    }
}
