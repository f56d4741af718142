//! The handler's view of a packet.

use crate::{
    Embedded, EmbeddedMut, Field, Frame, Kind, Layout, Meta, Port,
    checksum::Delta,
    header::{
        Arp, Ethernet, EthernetMut, Icmpv4, Icmpv4Mut, Icmpv6, Icmpv6Mut, Ipv4, Ipv4Mut, Ipv6,
        Ipv6Mut, Tcp, TcpMut, Udp, UdpMut, Vlan, VlanMut,
    },
};
use std::marker::PhantomData;
use std::net::Ipv4Addr;

/// What is known of a packet when the code that handles it is compiled.
pub trait Mode {
    /// Setters do nothing, and are compiled away.
    const HOLLOW: bool;
    /// The layout is one that [`parse_common`](crate::parse_common) finds: offsets are constants.
    const COMMON: bool;
}

/// Setters write.
#[derive(Clone, Copy, Debug)]
pub enum Real {}

/// Setters do nothing: for passes over packets that only look ahead. Reads are real.
#[derive(Clone, Copy, Debug)]
pub enum Hollow {}

/// As `M`, of a packet whose layout is common.
#[derive(Clone, Copy, Debug)]
pub struct Common<M>(PhantomData<M>);

impl Mode for Real {
    const HOLLOW: bool = false;
    const COMMON: bool = false;
}

impl Mode for Hollow {
    const HOLLOW: bool = true;
    const COMMON: bool = false;
}

impl<M: Mode> Mode for Common<M> {
    const HOLLOW: bool = M::HOLLOW;
    const COMMON: bool = true;
}

/// One packet as a handler sees it: its bytes, where its headers are, and how it arrived.
#[derive(Debug)]
pub struct Packet<'a, M: Mode = Real> {
    bytes: &'a mut [u8],
    meta: &'a Meta,
    layout: Layout,
    mode: PhantomData<M>,
}

/// What the packet itself is asked; ports are those of `tcp` and `udp`.
pub(crate) static FIELDS: &[Field] = &[
    asked("len", 32, Kind::Uint),
    asked("is_fragment", 1, Kind::Bool),
    asked("is_first_fragment", 1, Kind::Bool),
    asked("protocol", 8, Kind::Uint),
];

const fn asked(name: &'static str, bits: u16, kind: Kind) -> Field {
    Field { header: "packet", name, bits, offset_bits: 0, settable: false, kind, derived: true }
}

macro_rules! views {
    ($($(#[$doc:meta])* $view:ident: $View:ident if $present:ident at $offset:ident;)*) => {
        $($(#[$doc])*
        #[inline(always)]
        pub fn $view(&self) -> Option<$View<'_>> {
            if !self.layout().$present() { return None; }
            let layout = self.layout();
            $View::at(self.bytes, layout.$offset(), layout)
        })*
    };
}

macro_rules! views_mut {
    ($($(#[$doc:meta])* $view:ident: $View:ident if $present:ident at $offset:ident;)*) => {
        $($(#[$doc])*
        #[inline(always)]
        pub fn $view(&mut self) -> Option<$View<'_, M>> {
            if !self.layout().$present() { return None; }
            let layout = self.layout();
            $View::at(self.bytes, layout.$offset(), layout)
        })*
    };
}

impl<'a, M: Mode> Packet<'a, M> {
    /// The packet in `frame`, whose layout [`parse`](crate::parse) found; in a [`Common`] mode only
    /// where it [is common](Layout::is_common): fields are read from wrong places otherwise.
    #[inline(always)]
    pub fn new(frame: &'a mut Frame<'_>, layout: Layout) -> Self {
        debug_assert!(!M::COMMON || layout.is_common());
        let (bytes, meta) = frame.split_mut();
        Self::of_parts(bytes, meta, layout)
    }

    /// As [`new`](Self::new), of a packet in [`parts`](Self::parts).
    #[inline(always)]
    pub fn of_parts(bytes: &'a mut [u8], meta: &'a Meta, layout: Layout) -> Self {
        let layout = if M::COMMON { layout.essence() } else { layout };
        Self { bytes, meta, layout, mode: PhantomData }
    }

    /// The same for somebody else: where its own address would otherwise be taken. Made of what is
    /// known of the layout: compilers hand the packet itself on instead of a mere copy.
    #[inline(always)]
    pub fn lent(&mut self) -> Packet<'_, M> {
        let layout = self.layout();
        Packet { bytes: self.bytes, meta: self.meta, layout, mode: PhantomData }
    }

    /// The port of arrival.
    #[inline(always)]
    pub fn port(&self) -> Port {
        self.meta.port
    }

    /// Bytes on the wire, without FCS.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub fn len(&self) -> u32 {
        self.meta.wire_len
    }

    /// What is known of the packet besides its bytes.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        self.meta
    }

    /// Where the headers are.
    #[inline(always)]
    pub fn layout(&self) -> Layout {
        if M::COMMON { self.layout.common() } else { self.layout }
    }

    /// The captured bytes, from the Ethernet header on.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// The captured bytes, and what is known besides: for who parses it anew.
    #[inline(always)]
    pub fn parts(&mut self) -> (&mut [u8], &Meta) {
        (self.bytes, self.meta)
    }

    /// The captured bytes for the framework to write; checksums are the writer's business.
    #[doc(hidden)]
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// The Ethernet header. That of a frame shorter than one reads as zeros.
    #[inline(always)]
    pub fn ethernet(&self) -> Ethernet<'_> {
        Ethernet::of(self.bytes, self.layout())
    }

    /// The Ethernet header, to be written; in a frame shorter than one nothing is.
    #[inline(always)]
    pub fn ethernet_mut(&mut self) -> EthernetMut<'_, M> {
        EthernetMut::of(self.bytes, self.layout())
    }

    views! {
        /// The outermost VLAN tag.
        vlan: Vlan if has_vlan at vlan_offset;
        /// The ARP packet, of Ethernet and IPv4.
        arp: Arp if has_arp at l3_offset;
        /// The IPv4 header.
        ipv4: Ipv4 if has_ipv4 at l3_offset;
        /// The IPv6 header.
        ipv6: Ipv6 if has_ipv6 at l3_offset;
        /// The TCP header; fragments but the first have none.
        tcp: Tcp if has_tcp at l4_offset;
        /// The UDP header; fragments but the first have none.
        udp: Udp if has_udp at l4_offset;
        /// The ICMPv4 header; fragments but the first have none.
        icmpv4: Icmpv4 if has_icmpv4 at l4_offset;
        /// The ICMPv6 header; fragments but the first have none.
        icmpv6: Icmpv6 if has_icmpv6 at l4_offset;
    }

    views_mut! {
        /// The outermost VLAN tag, to be written.
        vlan_mut: VlanMut if has_vlan at vlan_offset;
        /// The IPv4 header, to be written.
        ipv4_mut: Ipv4Mut if has_ipv4 at l3_offset;
        /// The IPv6 header, to be written.
        ipv6_mut: Ipv6Mut if has_ipv6 at l3_offset;
        /// The TCP header, to be written.
        tcp_mut: TcpMut if has_tcp at l4_offset;
        /// The UDP header, to be written.
        udp_mut: UdpMut if has_udp at l4_offset;
        /// The ICMPv4 header, to be written.
        icmpv4_mut: Icmpv4Mut if has_icmpv4 at l4_offset;
        /// The ICMPv6 header, to be written.
        icmpv6_mut: Icmpv6Mut if has_icmpv6 at l4_offset;
    }

    /// Whether this is a fragment of a packet.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        self.layout().is_fragment()
    }

    /// Whether this is a fragment and the first one.
    #[inline(always)]
    pub fn is_first_fragment(&self) -> bool {
        self.layout().is_first_fragment()
    }

    /// The protocol above IPv4, or above IPv6 and its extension headers; else 0.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.layout().protocol()
    }

    /// The TCP or UDP source port.
    #[inline(always)]
    pub fn src_port(&self) -> Option<u16> {
        self.ports().map(|[a, b, _, _]| u16::from_be_bytes([a, b]))
    }

    /// The TCP or UDP destination port.
    #[inline(always)]
    pub fn dst_port(&self) -> Option<u16> {
        self.ports().map(|[_, _, a, b]| u16::from_be_bytes([a, b]))
    }

    #[inline(always)]
    fn ports(&self) -> Option<[u8; 4]> {
        if !self.layout().has_ports() {
            return None;
        }
        let at = self.layout().l4_offset();
        self.bytes.get(at..at + 4)?.first_chunk().copied()
    }

    /// Sets the TCP or UDP source port and keeps the checksum right. Without ports, no effect.
    #[inline(always)]
    pub fn set_src_port(&mut self, port: u16) {
        self.set_port(self.layout().l4_offset(), port);
    }

    /// Sets the TCP or UDP destination port and keeps the checksum right. Without ports, no effect.
    #[inline(always)]
    pub fn set_dst_port(&mut self, port: u16) {
        self.set_port(self.layout().l4_offset() + 2, port);
    }

    /// Sets the IPv4 source address and, where there are ports, the TCP or UDP source port, and
    /// keeps the checksums right, each mended once. Without an IPv4 header, no effect.
    #[inline(always)]
    pub fn set_source(&mut self, address: Ipv4Addr, port: u16) {
        self.set_end(12, 0, address, port);
    }

    /// As [`set_source`](Self::set_source), of destination address and port.
    #[inline(always)]
    pub fn set_destination(&mut self, address: Ipv4Addr, port: u16) {
        self.set_end(16, 2, address, port);
    }

    /// An end of a flow; `address_at` and `port_at` count from the IPv4 and the transport header.
    #[inline(always)]
    fn set_end(&mut self, address_at: usize, port_at: usize, address: Ipv4Addr, port: u16) {
        let layout = self.layout();
        if M::HOLLOW || !layout.has_ipv4() {
            return;
        }
        let Some(header) = chunk_mut::<20>(self.bytes, layout.l3_offset()) else { return };
        let Some(field) = chunk_mut::<4>(header, address_at) else { return };
        let mut delta = Delta::of(field, &address.octets());
        *field = address.octets();
        if let Some(checksum) = chunk_mut(header, 10) {
            delta.apply(checksum);
        }
        if layout.has_ports()
            && let Some(field) = chunk_mut::<2>(self.bytes, layout.l4_offset() + port_at)
        {
            let new = port.to_be_bytes();
            delta = delta.and(Delta::of_word(*field, new));
            *field = new;
        }
        // No checksum is offset 0; what has one covers the addresses too.
        let at = layout.checksum_offset();
        if at != 0
            && let Some(checksum) = chunk_mut(self.bytes, at)
        {
            delta.apply_transport(checksum, layout.has_udp());
        }
    }

    /// TCP and UDP in one, without asking which: the layout knows where the checksum is.
    #[inline(always)]
    fn set_port(&mut self, at: usize, port: u16) {
        let layout = self.layout();
        if M::HOLLOW || !layout.has_ports() {
            return;
        }
        let Some(field) = chunk_mut::<2>(self.bytes, at) else {
            return;
        };
        let new = port.to_be_bytes();
        let delta = Delta::of_word(*field, new);
        *field = new;
        if let Some(checksum) = chunk_mut(self.bytes, layout.checksum_offset()) {
            delta.apply_transport(checksum, layout.has_udp());
        }
    }

    /// The packet inside an ICMPv4 or ICMPv6 error, as far as it was quoted.
    #[inline]
    pub fn embedded(&self) -> Option<Embedded<'_>> {
        Embedded::of(self.bytes, self.layout())
    }

    /// The packet inside an ICMPv4 or ICMPv6 error, to be written.
    #[inline]
    pub fn embedded_mut(&mut self) -> Option<EmbeddedMut<'_, M>> {
        EmbeddedMut::of(self.bytes, self.layout())
    }

    /// What follows the transport header, as far as it was captured; empty where there is none.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        let end = self.layout().end().min(self.bytes.len());
        let start =
            if self.layout().has_transport() { self.layout().payload_offset() } else { end };
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// `N` bytes at `at`, to be written; `at` is far from `usize::MAX`.
#[inline(always)]
pub(crate) fn chunk_mut<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..at + N)?.first_chunk_mut()
}

#[cfg(test)]
mod tests {
    use crate::{
        Malformed,
        checksum::verify,
        craft::{self, Link, Segment},
        fuzzing::{samples, with_packet},
        parse,
    };
    use std::net::{Ipv4Addr, SocketAddr};

    const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn tcp(tags: [Option<u16>; 2]) -> Vec<u8> {
        let link = Link { src: [2; 6].into(), dst: [4; 6].into(), tags };
        let ends: [SocketAddr; 2] = [(SRC, 1_000).into(), (DST, 80).into()];
        let segment =
            Segment { sequence: 9, acknowledgement: 8, flags: 0x12, window: 7, mss: None };
        let mut out = vec![0; 200];
        let len = craft::tcp(&mut out, &link, ends[0], ends[1], segment, b"hello").unwrap();
        out.truncate(len);
        out
    }

    #[test]
    fn fields_are_read_where_they_are() {
        with_packet(&mut tcp([Some(100), Some(200)]), |packet| {
            assert_eq!((packet.len(), packet.layout().vlan_tags()), (67, 2));
            assert_eq!(packet.ethernet().ethertype(), 0x0800);
            assert_eq!(packet.ethernet().dst(), [4; 6].into());
            assert_eq!(packet.vlan().unwrap().id(), 100);
            let ipv4 = packet.ipv4().unwrap();
            assert_eq!((ipv4.src(), ipv4.dst(), ipv4.ttl(), ipv4.header_len()), (SRC, DST, 64, 20));
            assert_eq!((ipv4.protocol(), ipv4.total_len(), ipv4.dont_fragment()), (6, 45, true));
            let tcp = packet.tcp().unwrap();
            assert_eq!((tcp.sequence(), tcp.acknowledgement(), tcp.window()), (9, 8, 7));
            assert!(tcp.syn() && tcp.ack() && !tcp.fin() && tcp.flags() == 0x12);
            assert_eq!((packet.src_port(), packet.dst_port()), (Some(1_000), Some(80)));
            assert_eq!(packet.payload(), b"hello");
            assert!(packet.udp().is_none() && packet.ipv6().is_none() && packet.arp().is_none());
        });
    }

    #[test]
    fn setters_write_what_getters_read() {
        with_packet(&mut tcp([Some(100), None]), |mut packet| {
            packet.ethernet_mut().set_src([6; 6].into());
            packet.vlan_mut().unwrap().set_id(4_095 + 4_096);
            packet.vlan_mut().unwrap().set_priority(5);
            let mut ipv4 = packet.ipv4_mut().unwrap();
            ipv4.set_src(DST);
            ipv4.set_dscp(46);
            ipv4.set_ecn(1);
            ipv4.set_ttl(63);
            assert_eq!((ipv4.src(), ipv4.dscp(), ipv4.ecn(), ipv4.ttl()), (DST, 46, 1, 63));
            packet.set_src_port(60_000);
            packet.tcp_mut().unwrap().set_dst(443);
            assert_eq!((packet.src_port(), packet.dst_port()), (Some(60_000), Some(443)));
            assert_eq!(packet.ethernet().src(), [6; 6].into());
            let vlan = packet.vlan().unwrap();
            assert_eq!((vlan.id(), vlan.priority()), (4_095, 5), "higher bits are ignored");
            assert!(verify(&packet).is_ok());
            assert_eq!(packet.payload(), b"hello");
        });
    }

    #[test]
    fn a_short_frame_reads_as_zeros_and_swallows_writes() {
        with_packet(&mut [9; 10], |mut packet| {
            assert_eq!(packet.layout().malformed(), Some(Malformed::EthernetHeaderTruncated));
            assert_eq!(packet.ethernet().src(), crate::MacAddr::ZERO);
            packet.ethernet_mut().set_src([1; 6].into());
            assert_eq!(packet.bytes(), [9; 10]);
        });
    }

    #[test]
    fn later_fragments_have_no_transport() {
        for mut sample in samples() {
            with_packet(&mut sample, |mut packet| {
                if packet.is_fragment() && !packet.is_first_fragment() {
                    assert!(packet.tcp().is_none() && packet.udp().is_none());
                    assert!(packet.icmpv4().is_none() && packet.icmpv6().is_none());
                    assert!(packet.protocol() != 0 && packet.payload().is_empty());
                    let before = packet.bytes().to_vec();
                    packet.set_src_port(1);
                    assert_eq!(packet.bytes(), before);
                }
            });
        }
    }

    #[test]
    fn an_end_is_set_as_its_parts_are() {
        for sample in samples() {
            let (mut parts, mut whole) = (sample.clone(), sample);
            with_packet(&mut parts, |mut packet| {
                if let Some(mut ipv4) = packet.ipv4_mut() {
                    ipv4.set_src(DST);
                    ipv4.set_dst(SRC);
                    packet.set_src_port(5);
                    packet.set_dst_port(60_000);
                }
            });
            with_packet(&mut whole, |mut packet| {
                packet.set_source(DST, 5);
                packet.set_destination(SRC, 60_000);
            });
            assert_eq!(parts, whole);
        }
    }

    /// The end of a first fragment's datagram is not here, but its checksum is, and must be kept.
    #[test]
    fn a_first_fragment_keeps_the_checksum_of_the_whole() {
        let whole = tcp([None, None]);
        let mut first = whole.clone();
        first[20] = 0x20;
        for bytes in [&mut first, &mut whole.clone()] {
            with_packet(bytes, |mut packet| {
                packet.ipv4_mut().unwrap().set_src(DST);
                packet.set_src_port(5);
            });
        }
        let mut whole = whole;
        with_packet(&mut whole, |mut packet| {
            packet.ipv4_mut().unwrap().set_src(DST);
            packet.set_src_port(5);
            assert!(verify(&packet).is_ok());
        });
        assert!(parse(&first, first.len() as u32).is_first_fragment());
        assert_eq!(first[34..], whole[34..]);
    }

    /// The pseudo header has the destination that the routing header ends at (RFC 8200, 8.1).
    #[test]
    fn a_hop_on_the_way_is_not_in_the_checksum() {
        let mut routed = 0;
        for mut sample in samples() {
            with_packet(&mut sample, |mut packet| {
                let layout = packet.layout();
                if !layout.is_routed() {
                    return;
                }
                routed += 1;
                let before = packet.bytes()[layout.l4_offset()..].to_vec();
                packet.ipv6_mut().unwrap().set_dst("2001:db8::77".parse().unwrap());
                assert_eq!(packet.bytes()[layout.l4_offset()..], before);
                packet.ipv6_mut().unwrap().set_src("2001:db8::77".parse().unwrap());
                assert_ne!(packet.bytes()[layout.l4_offset()..], before);
            });
        }
        assert!(routed >= 9, "{routed}");
    }
}
