//! What packets answer when they are asked for a header or a field by its name.

use anabranch_nf::trace::Seen;
use anabranch_packet::{Field, Frame, Layout, Meta, Packet, Port, parse};

/// A property of packets that conditions are about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Property {
    /// Whether it has the header of this name, or another property of the layout.
    Header(&'static str),
    /// The field that stands at one place, or that the quoted packet has.
    Read(&'static Field),
    /// A field that is computed.
    Derived(&'static str),
    /// A payload byte's number.
    PayloadLen,
    /// Bytes on the wire.
    Len,
    /// The port of arrival.
    Port,
}

const HEADERS: [&str; 11] = [
    "ipv4",
    "ipv6",
    "tcp",
    "udp",
    "icmpv4",
    "icmpv6",
    "arp",
    "vlan",
    "embedded",
    "packet.is_fragment",
    "packet.is_first_fragment",
];

const DERIVED: [&str; 11] = [
    "ethernet.ethertype",
    "ipv4.header_len",
    "ipv6.protocol",
    "tcp.header_len",
    "tcp.mss",
    "icmpv4.is_echo",
    "icmpv4.is_error",
    "icmpv4.mtu",
    "icmpv6.is_echo",
    "icmpv6.is_error",
    "icmpv6.mtu",
];

/// A packet whose layout has been found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parsed<'a> {
    pub(crate) seen: &'a Seen,
    pub(crate) layout: Layout,
}

impl<'a> Parsed<'a> {
    pub(crate) fn of(seen: &'a Seen) -> Self {
        Self { seen, layout: parse(&seen.bytes, seen.wire_len) }
    }

    /// What `ask` says of it.
    fn asked<R>(&self, ask: impl FnOnce(&Packet<'_>) -> R) -> R {
        let (mut bytes, len) = (self.seen.bytes.clone(), self.seen.bytes.len());
        let (wire_len, port) = (self.seen.wire_len, Port::new(self.seen.port));
        let mut frame =
            Frame::new(&mut bytes, 0, len, 0, Meta { wire_len, port, ..Meta::default() });
        ask(&Packet::new(&mut frame, self.layout))
    }

    /// The payload.
    pub(crate) fn whole_payload(&self) -> Vec<u8> {
        self.asked(|packet| packet.payload().to_vec())
    }

    /// Byte `at` of the payload.
    pub(crate) fn payload(&self, at: usize) -> Option<u8> {
        self.asked(|packet| packet.payload().get(at).copied())
    }
}

impl Property {
    /// The property that the analysis calls `name`; `None`: it is something else.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if let Some(header) = HEADERS.into_iter().find(|header| *header == name) {
            return Some(Self::Header(header));
        }
        if let Some(derived) = DERIVED.into_iter().find(|derived| *derived == name) {
            return Some(Self::Derived(derived));
        }
        match name {
            "port" => Some(Self::Port),
            "packet.len" => Some(Self::Len),
            "payload.len" => Some(Self::PayloadLen),
            _ => Field::named(name).map(Self::Read),
        }
    }

    /// Its value of a packet; `None`: the packet has no such field.
    pub(crate) fn of(self, packet: &Parsed<'_>) -> Option<u128> {
        let layout = packet.layout;
        match self {
            Self::Header(name) => Some(header(name, packet).into()),
            Self::Derived(name) => derived(name, packet),
            Self::Read(field) => {
                let readable = field.header_offset(layout).is_some()
                    || field.header == "embedded"
                    || field.header == "packet";
                readable.then(|| field.value(&packet.seen.bytes, layout))
            }
            Self::Port => Some(packet.seen.port.into()),
            Self::Len => Some(packet.seen.wire_len.into()),
            Self::PayloadLen => Some(packet.asked(|packet| packet.payload().len()) as u128),
        }
    }
}

fn header(name: &str, packet: &Parsed<'_>) -> bool {
    let layout = packet.layout;
    match name {
        "ipv4" => layout.has_ipv4(),
        "ipv6" => layout.has_ipv6(),
        "tcp" => layout.has_tcp(),
        "udp" => layout.has_udp(),
        "icmpv4" => layout.has_icmpv4(),
        "icmpv6" => layout.has_icmpv6(),
        "arp" => layout.has_arp(),
        "vlan" => layout.has_vlan(),
        "packet.is_fragment" => layout.is_fragment(),
        "packet.is_first_fragment" => layout.is_first_fragment(),
        _ => packet.asked(|packet| packet.embedded().is_some()),
    }
}

fn derived(name: &str, packet: &Parsed<'_>) -> Option<u128> {
    packet.asked(|packet| {
        Some(match name {
            "ethernet.ethertype" => packet.ethernet().ethertype().into(),
            "ipv4.header_len" => packet.ipv4()?.header_len().into(),
            "ipv6.protocol" => packet.ipv6()?.protocol().into(),
            "tcp.header_len" => packet.tcp()?.header_len().into(),
            "tcp.mss" => packet.tcp()?.mss().into(),
            "icmpv4.is_echo" => packet.icmpv4()?.is_echo().into(),
            "icmpv4.is_error" => packet.icmpv4()?.is_error().into(),
            "icmpv4.mtu" => packet.icmpv4()?.mtu().into(),
            "icmpv6.is_echo" => packet.icmpv6()?.is_echo().into(),
            "icmpv6.is_error" => packet.icmpv6()?.is_error().into(),
            _ => packet.icmpv6()?.mtu().into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field of the packet crate's tables is known, and those that are computed are listed.
    #[test]
    fn every_field_has_a_value_where_its_header_is() {
        let samples = anabranch_packet::fuzzing::samples();
        for field in anabranch_packet::fields() {
            let name = format!("{}.{}", field.header, field.name);
            let property = Property::named(&name);
            assert!(property.is_some(), "{name}");
            let known = samples.iter().any(|sample| {
                let wire_len = sample.len() as u32;
                let seen = Seen { port: 0, bytes: sample.clone(), wire_len };
                property.and_then(|property| property.of(&Parsed::of(&seen))).is_some()
            });
            assert!(known, "{name}");
        }
    }
}
