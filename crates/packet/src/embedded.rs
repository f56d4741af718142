//! The packet inside an ICMPv4 or ICMPv6 error: the beginning of the one that caused it.
//!
//! Whoever translates a packet must translate what errors quote of it (RFC 5508). A change in the
//! quote changes up to three checksums: that of the inner IPv4 header, that of the inner transport
//! header where the quote reaches so far, and that of the error itself, which covers the other two.

use crate::{
    Field, Kind, Layout, Mode,
    checksum::Delta,
    header::Value,
    layout::{Extensions, chunk, ipv4_later_fragment, protocol},
    packet::chunk_mut,
};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};

const ICMP_LEN: usize = 8;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// Where the parts of the quoted packet are; offsets count from the start of the frame.
#[derive(Clone, Copy, Debug)]
struct Quote {
    /// The IP header.
    ip: usize,
    /// Where the quote ends.
    end: usize,
    version: Version,
    protocol: u8,
    /// The transport header; `None` in later fragments and where extension headers are cut.
    transport: Option<usize>,
    /// Whether the destination address is not the one in the pseudo header.
    routed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

impl Quote {
    fn find(bytes: &[u8], layout: Layout) -> Option<Self> {
        let icmp = layout.l4_offset();
        let kind = *bytes.get(icmp)?;
        let ip = icmp + ICMP_LEN;
        let end = layout.end().min(bytes.len());
        let quoted = bytes.get(..end)?;
        if layout.has_icmpv4() && matches!(kind, 3 | 11 | 12) {
            return Self::ipv4(quoted, ip);
        }
        if layout.has_icmpv6() && kind < 128 {
            return Self::ipv6(quoted, ip);
        }
        None
    }

    fn ipv4(quoted: &[u8], ip: usize) -> Option<Self> {
        let header = chunk::<IPV4_LEN>(quoted, ip)?;
        let header_len = usize::from(header[0] & 15) * 4;
        if header[0] >> 4 != 4 || header_len < IPV4_LEN {
            return None;
        }
        let transport = (!ipv4_later_fragment(header)).then_some(ip + header_len);
        let (version, protocol) = (Version::V4, header[9]);
        Some(Self { ip, end: quoted.len(), version, protocol, transport, routed: false })
    }

    fn ipv6(quoted: &[u8], ip: usize) -> Option<Self> {
        let header = chunk::<IPV6_LEN>(quoted, ip)?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let chain = Extensions::read(quoted, header[6], ip + IPV6_LEN);
        let whole = chain.malformed.is_none() && !chain.is_later_fragment();
        let transport = whole.then_some(chain.end);
        let routed = chain.is_routed();
        let (version, protocol) = (Version::V6, chain.protocol);
        Some(Self { ip, end: quoted.len(), version, protocol, transport, routed })
    }

    /// Where an address of this version is in its header.
    fn address(&self, version: Version, v4: usize, v6: usize) -> Option<usize> {
        (self.version == version).then_some(self.ip + if version == Version::V4 { v4 } else { v6 })
    }

    /// Where the port at `offset` of the transport header is.
    fn port(&self, offset: usize) -> Option<usize> {
        let ports = matches!(self.protocol, protocol::TCP | protocol::UDP);
        self.transport.filter(|_| ports).map(|at| at + offset)
    }

    /// Where the identifier of an echo is.
    fn id(&self, bytes: &[u8]) -> Option<usize> {
        let at = self.transport?;
        let kind = *bytes.get(..self.end)?.get(at)?;
        let echo = match (self.version, self.protocol) {
            (Version::V4, protocol::ICMPV4) => matches!(kind, 0 | 8),
            (Version::V6, protocol::ICMPV6) => matches!(kind, 128 | 129),
            _ => false,
        };
        echo.then_some(at + 4)
    }

    /// Where the inner transport checksum is, if there can be one.
    fn checksum(&self) -> Option<usize> {
        let offset = match (self.protocol, self.version) {
            (protocol::TCP, _) => 16,
            (protocol::UDP, _) => 6,
            (protocol::ICMPV4, Version::V4) | (protocol::ICMPV6, Version::V6) => 2,
            _ => return None,
        };
        self.transport.map(|at| at + offset)
    }

    fn read<T: Value, const N: usize>(&self, bytes: &[u8], at: Option<usize>) -> Option<T> {
        let field = chunk::<N>(bytes.get(..self.end)?, at?)?;
        Some(T::read(field, 0, N * 8))
    }
}

macro_rules! embedded {
    ($($(#[$doc:meta])* $field:ident: $ty:ident = $bytes:literal bytes, $none:expr,
        $setter:ident as $change:ident, |$quote:pat_param, $all:pat_param| $at:expr;)*) => {
        /// The packet inside an ICMP error, as far as it was quoted and captured.
        #[derive(Clone, Copy, Debug)]
        pub struct Embedded<'a> {
            bytes: &'a [u8],
            quote: Quote,
        }

        impl Embedded<'_> {
            $($(#[$doc])*
            #[inline]
            pub fn $field(&self) -> $ty {
                let ($quote, $all) = (&self.quote, self.bytes);
                self.quote.read::<$ty, $bytes>(self.bytes, $at).unwrap_or($none)
            })*

            /// The protocol above the inner IP header and its extension headers.
            #[inline]
            pub fn protocol(&self) -> u8 {
                self.quote.protocol
            }
        }

        impl<M: Mode> EmbeddedMut<'_, M> {
            $($(#[$doc])*
            #[inline]
            pub fn $field(&self) -> $ty {
                self.view().$field()
            }

            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field),
                ") and keeps inner and outer checksums right. No effect where it is not quoted.")]
            #[inline]
            pub fn $setter(&mut self, value: $ty) {
                if M::HOLLOW {
                    return;
                }
                let ($quote, $all) = (&self.quote, &*self.bytes);
                let mut new = [0; $bytes];
                value.write(&mut new, 0, $bytes * 8);
                if let Some(at) = $at {
                    self.set(Change::$change, at, new);
                }
            })*
        }

        pub(crate) static FIELDS: &[Field] = &[
            $(Field {
                header: "embedded",
                name: stringify!($field),
                bits: $bytes * 8,
                offset_bits: 0,
                settable: true,
                kind: <$ty as Value>::KIND,
                derived: true,
            },)*
            Field {
                header: "embedded",
                name: "protocol",
                bits: 8,
                offset_bits: 0,
                settable: false,
                kind: Kind::Uint,
                derived: true,
            },
        ];
    };
}

embedded! {
    /// Source address of an inner IPv4 packet; else unspecified.
    src: Ipv4Addr = 4 bytes, Ipv4Addr::UNSPECIFIED, set_src as Source,
        |quote, _| quote.address(Version::V4, 12, 8);
    /// Destination address of an inner IPv4 packet; else unspecified.
    dst: Ipv4Addr = 4 bytes, Ipv4Addr::UNSPECIFIED, set_dst as Destination,
        |quote, _| quote.address(Version::V4, 16, 24);
    /// Source address of an inner IPv6 packet; else unspecified.
    src6: Ipv6Addr = 16 bytes, Ipv6Addr::UNSPECIFIED, set_src6 as Source,
        |quote, _| quote.address(Version::V6, 12, 8);
    /// Destination address of an inner IPv6 packet; else unspecified.
    dst6: Ipv6Addr = 16 bytes, Ipv6Addr::UNSPECIFIED, set_dst6 as Destination,
        |quote, _| quote.address(Version::V6, 16, 24);
    /// Inner TCP or UDP source port; 0 where there is none.
    src_port: u16 = 2 bytes, 0, set_src_port as Transport, |quote, _| quote.port(0);
    /// Inner TCP or UDP destination port; 0 where there is none.
    dst_port: u16 = 2 bytes, 0, set_dst_port as Transport, |quote, _| quote.port(2);
    /// Identifier of an inner echo; 0 where there is none.
    id: u16 = 2 bytes, 0, set_id as Transport, |quote, bytes| quote.id(bytes);
}

impl<'a> Embedded<'a> {
    /// The packet quoted in `bytes`, if they hold an error that quotes one.
    pub(crate) fn of(bytes: &'a [u8], layout: Layout) -> Option<Self> {
        Some(Self { bytes, quote: Quote::find(bytes, layout)? })
    }

    /// Whether the inner packet is IPv6.
    #[inline]
    pub fn is_ipv6(&self) -> bool {
        self.quote.version == Version::V6
    }
}

/// What a change concerns, and so which inner checksums cover it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Source,
    Destination,
    Transport,
}

/// The packet inside an ICMP error, to be written.
#[derive(Debug)]
pub struct EmbeddedMut<'a, M: Mode> {
    bytes: &'a mut [u8],
    quote: Quote,
    /// Where the checksum of the error is.
    outer_checksum: usize,
    mode: PhantomData<M>,
}

impl<'a, M: Mode> EmbeddedMut<'a, M> {
    /// The packet quoted in `bytes`, if they hold an error that quotes one.
    pub(crate) fn of(bytes: &'a mut [u8], layout: Layout) -> Option<Self> {
        let quote = Quote::find(bytes, layout)?;
        Some(Self { bytes, quote, outer_checksum: layout.l4_offset() + 2, mode: PhantomData })
    }

    fn view(&self) -> Embedded<'_> {
        Embedded { bytes: self.bytes, quote: self.quote }
    }

    /// The protocol above the inner IP header and its extension headers.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.quote.protocol
    }

    /// Whether the inner packet is IPv6.
    #[inline]
    pub fn is_ipv6(&self) -> bool {
        self.view().is_ipv6()
    }

    fn set<const N: usize>(&mut self, change: Change, at: usize, new: [u8; N]) {
        let quoted = self.bytes.get_mut(..self.quote.end);
        let Some(field) = quoted.and_then(|quoted| chunk_mut::<N>(quoted, at)) else {
            return;
        };
        let delta = Delta::of(field, &new);
        *field = new;
        let mut all = delta;
        if change != Change::Transport && self.quote.version == Version::V4 {
            all = all.and(self.update(self.quote.ip + 10, delta, false));
        }
        if self.is_in_transport_checksum(change)
            && let Some(at) = self.quote.checksum()
        {
            all = all.and(self.update(at, delta, self.quote.protocol == protocol::UDP));
        }
        if let Some(checksum) = chunk_mut(self.bytes, self.outer_checksum) {
            all.apply(checksum);
        }
    }

    /// Addresses are in the pseudo header, which ICMPv4 has not.
    fn is_in_transport_checksum(&self, change: Change) -> bool {
        let icmpv4 = self.quote.version == Version::V4 && self.quote.protocol == protocol::ICMPV4;
        match change {
            Change::Transport => true,
            Change::Source => !icmpv4,
            Change::Destination => !icmpv4 && !self.quote.routed,
        }
    }

    /// Updates an inner checksum where it is quoted, and tells how that changed its own word.
    fn update(&mut self, at: usize, delta: Delta, udp: bool) -> Delta {
        let quoted = self.bytes.get_mut(..self.quote.end);
        let Some(checksum) = quoted.and_then(|quoted| chunk_mut::<2>(quoted, at)) else {
            return Delta::default();
        };
        let old = *checksum;
        delta.apply_transport(checksum, udp);
        Delta::of_word(old, *checksum)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Packet,
        checksum::{Sum, verify},
        craft::{self, IcmpError, Link, Segment},
        fuzzing::{samples, with_packet},
        parse,
    };
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
    const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

    /// A router's error about a TCP segment, of which it quotes `quoted` bytes above IP.
    fn error(quoted: usize) -> Vec<u8> {
        let (mut original, mut out) = (vec![0; 200], vec![0; 200]);
        let (src, dst): (SocketAddr, SocketAddr) = ((PUBLIC, 4_000).into(), (SERVER, 80).into());
        let (link, segment) = (Link::default(), Segment::default());
        let len = craft::tcp(&mut original, &link, src, dst, segment, &[7; 33]).unwrap();
        original.truncate(len);
        let router = IpAddr::V4(SERVER);
        let len = with_packet(&mut original, |packet| {
            craft::icmp_error(&mut out, &packet, router, IcmpError::TimeExceeded)
        });
        out.truncate(len.unwrap());
        shorten(&mut out, 14 + 20 + 8 + 20 + quoted);
        out
    }

    /// Cuts an ICMPv4 packet to `len` bytes, as if it had been sent so.
    fn shorten(packet: &mut Vec<u8>, len: usize) {
        packet.truncate(len);
        packet[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
        packet[24..26].fill(0);
        packet[36..38].fill(0);
        let header = Sum::new().bytes(&packet[14..34]).checksum();
        packet[24..26].copy_from_slice(&header);
        let icmp = Sum::new().bytes(&packet[34..]).checksum();
        packet[36..38].copy_from_slice(&icmp);
    }

    fn translate(packet: &mut Packet<'_>) {
        let mut inner = packet.embedded_mut().unwrap();
        assert_eq!((inner.src(), inner.dst(), inner.protocol()), (PUBLIC, SERVER, 6));
        assert_eq!((inner.src_port(), inner.dst_port(), inner.id()), (4_000, 80, 0));
        inner.set_src(INSIDE);
        inner.set_src_port(1_234);
        inner.set_id(99);
        assert_eq!((inner.src(), inner.src_port()), (INSIDE, 1_234));
    }

    /// Routers quote 8 bytes (RFC 792) or more (RFC 1812); the TCP checksum is past the first 16.
    #[test]
    fn quotes_of_every_length_are_translated() {
        for quoted in [8, 16, 18, 20, 40, 53] {
            let mut error = error(quoted);
            with_packet(&mut error, |mut packet| {
                assert!(verify(&packet).is_ok());
                translate(&mut packet);
                assert!(verify(&packet).is_ok(), "{quoted}");
            });
            let inner = &error[14 + 20 + 8..];
            assert!(Sum::new().bytes(&inner[..20]).is_valid(), "the inner IPv4 header");
            if quoted == 53 {
                let pseudo = Sum::new().ipv4(INSIDE, SERVER, 6, 53);
                assert!(pseudo.bytes(&inner[20..]).is_valid(), "the inner TCP checksum");
            }
        }
    }

    #[test]
    fn fields_that_are_not_quoted_read_as_zero_and_cannot_be_set() {
        for quoted in [0, 1, 2, 3] {
            let mut error = error(quoted);
            let before = error.clone();
            with_packet(&mut error, |mut packet| {
                let mut inner = packet.embedded_mut().unwrap();
                inner.set_dst_port(9);
                inner.set_id(9);
                inner.set_src6("2001:db8::1".parse().unwrap());
                assert_eq!((inner.dst_port(), inner.id(), inner.is_ipv6()), (0, 0, false));
            });
            assert_eq!(error, before);
        }
    }

    #[test]
    fn only_errors_quote() {
        let mut quoting = 0;
        for mut sample in samples() {
            with_packet(&mut sample, |packet| {
                let v4 = packet.icmpv4().is_some_and(|icmp| icmp.is_error());
                let v6 = packet.icmpv6().is_some_and(|icmp| icmp.is_error());
                assert_eq!(packet.embedded().is_some(), v4 || v6);
                assert!(packet.embedded().is_none_or(|inner| inner.is_ipv6() == v6));
                quoting += usize::from(v4 || v6);
            });
        }
        assert!(quoting >= 30, "{quoting}");
    }

    #[test]
    fn a_quoted_hop_on_the_way_is_not_in_the_inner_checksum() {
        let mut routed = 0;
        for mut sample in samples().into_iter().filter(|s| parse(s, s.len() as u32).is_routed()) {
            let (mut error, router) = (vec![0; 1_400], IpAddr::V6("2001:db8::1".parse().unwrap()));
            let len = with_packet(&mut sample, |packet| {
                craft::icmp_error(&mut error, &packet, router, IcmpError::TimeExceeded)
            });
            error.truncate(len.unwrap());
            with_packet(&mut error, |mut packet| {
                let segment = packet.bytes().len() - 101 - 20..;
                let before = packet.bytes()[segment.clone()].to_vec();
                packet.embedded_mut().unwrap().set_dst6("2001:db8::77".parse().unwrap());
                assert_eq!(packet.bytes()[segment.clone()], before);
                assert!(verify(&packet).is_ok());
                routed += 1;
            });
        }
        assert!(routed >= 9, "{routed}");
    }
}
