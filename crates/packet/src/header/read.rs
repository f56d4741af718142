//! Fields read by what the table says of them: for steering, where which ones are read is known
//! only when a plan is.

use super::Field;
use crate::{Embedded, Layout};

impl Field {
    /// The field that the language calls `name`, such as `ipv4.src` or `embedded.dst_port`.
    pub fn named(name: &str) -> Option<&'static Self> {
        let (header, field) = name.split_once('.')?;
        super::fields().find(|one| one.header == header && one.name == field)
    }

    /// Where the field's header begins in a packet of this layout; `None`: it has none, or the field
    /// is derived.
    #[inline]
    pub fn header_offset(&self, layout: Layout) -> Option<usize> {
        let (has, at) = match self.header {
            _ if self.derived => return None,
            "ethernet" => (true, 0),
            "vlan" => (layout.has_vlan(), layout.vlan_offset()),
            "arp" => (layout.has_arp(), layout.l3_offset()),
            "ipv4" => (layout.has_ipv4(), layout.l3_offset()),
            "ipv6" => (layout.has_ipv6(), layout.l3_offset()),
            "tcp" => (layout.has_tcp(), layout.l4_offset()),
            "udp" => (layout.has_udp(), layout.l4_offset()),
            "icmpv4" => (layout.has_icmpv4(), layout.l4_offset()),
            "icmpv6" => (layout.has_icmpv6(), layout.l4_offset()),
            _ => return None,
        };
        has.then_some(at)
    }

    /// The field's value in the packet of `bytes`; 0 where the packet does not have it, and for
    /// derived fields other than those of `embedded` and the packet's protocol.
    pub fn value(&self, bytes: &[u8], layout: Layout) -> u128 {
        match (self.header_offset(layout), self.header) {
            (Some(at), _) => self.bits_at(bytes, at * 8 + usize::from(self.offset_bits)),
            (None, "embedded") => self.quoted(bytes, layout).unwrap_or(0),
            (None, "packet") if self.name == "protocol" => layout.protocol().into(),
            _ => 0,
        }
    }

    fn bits_at(&self, bytes: &[u8], start: usize) -> u128 {
        let bits = usize::from(self.bits);
        if start.is_multiple_of(8) && bits.is_multiple_of(8) {
            let field = bytes.get(start / 8..(start + bits) / 8).unwrap_or_default();
            return field.iter().fold(0, |value, &byte| value << 8 | u128::from(byte));
        }
        let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        (start..start + bits).fold(0, |value, at| value << 1 | u128::from(bit(at)))
    }

    fn quoted(&self, bytes: &[u8], layout: Layout) -> Option<u128> {
        let quote = Embedded::of(bytes, layout)?;
        Some(match self.name {
            "src" => u32::from(quote.src()).into(),
            "dst" => u32::from(quote.dst()).into(),
            "src6" => quote.src6().into(),
            "dst6" => quote.dst6().into(),
            "src_port" => quote.src_port().into(),
            "dst_port" => quote.dst_port().into(),
            "id" => quote.id().into(),
            "protocol" => quote.protocol().into(),
            _ => return None,
        })
    }
}

/// Whether the packet of `bytes` is an error that quotes another one, and the protocol of that.
pub fn quoted_protocol(bytes: &[u8], layout: Layout) -> Option<u8> {
    Embedded::of(bytes, layout).map(|quote| quote.protocol())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::samples;
    use crate::{Frame, Meta, Packet, Real, fields, parse};

    fn value(name: &str, bytes: &[u8]) -> u128 {
        Field::named(name).unwrap().value(bytes, parse(bytes, bytes.len() as u32))
    }

    /// Every field of the table that steering may ask for says what the view says.
    #[test]
    fn values_are_those_of_the_views() {
        let mut seen = std::collections::BTreeSet::new();
        for mut bytes in samples() {
            let layout = parse(&bytes, bytes.len() as u32);
            let copy = bytes.clone();
            let len = bytes.len();
            let mut frame = Frame::new(&mut bytes, 0, len, 0, Meta::default());
            let packet = Packet::<Real>::new(&mut frame, layout);
            let mut check = |name: &'static str, expected: u128| {
                seen.insert(name);
                assert_eq!(value(name, &copy), expected, "{name}");
            };
            if let Some(ip) = packet.ipv4() {
                check("ipv4.src", u32::from(ip.src()).into());
                check("ipv4.dst", u32::from(ip.dst()).into());
                check("ipv4.dscp", ip.dscp().into());
            }
            if let Some(ip) = packet.ipv6() {
                check("ipv6.src", ip.src().into());
                check("ipv6.traffic_class", ip.traffic_class().into());
            }
            if let Some(tcp) = packet.tcp() {
                check("tcp.dst", tcp.dst().into());
            }
            if let Some(vlan) = packet.vlan() {
                check("vlan.id", vlan.id().into());
            }
            if let Some(quote) = packet.embedded() {
                check("embedded.src_port", quote.src_port().into());
                check("embedded.src", u32::from(quote.src()).into());
                assert_eq!(quoted_protocol(&copy, layout), Some(quote.protocol()));
            }
            check("packet.protocol", packet.protocol().into());
        }
        assert!(seen.len() >= 9, "samples of every kind: {seen:?}");
    }

    #[test]
    fn what_a_packet_does_not_have_is_zero() {
        for field in fields().filter(|field| !matches!(field.header, "ethernet")) {
            assert_eq!(field.value(&[], Layout::default()), 0, "{field:?}");
        }
        assert_eq!(Field::named("ipv4.nothing"), None);
        assert_eq!(Field::named("src"), None);
    }
}
