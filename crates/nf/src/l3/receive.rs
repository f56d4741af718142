//! What is done with a packet before the network function sees it.

use anabranch_packet::checksum::{Check, verify};
use anabranch_packet::craft;
use anabranch_packet::fragment::cut;
use anabranch_packet::{Mode, Packet, parse};

use crate::context::Context;
use crate::l3::configuration::Interface;
use crate::l3::{L3, SCRATCH_LEN, special};
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::World;

/// ICMPv6 types of neighbour discovery: router solicitation to redirect (RFC 4861).
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
/// ICMPv6 type of a multicast listener query (RFC 3810).
const QUERY: u8 = 130;
const ETHERNET_LEN: usize = 14;

/// Which frames a port admits without a closer look: those whose first eight bytes, under a mask,
/// are as expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    mask: u64,
    expected: u64,
    /// Frames of no VLAN only, and header checksums are verified.
    is_strict: bool,
}

impl Gate {
    /// The gate of an interface; without one it admits nothing.
    pub fn new(interface: Option<&Interface>) -> Self {
        match interface {
            None => Self { mask: 0, expected: 1, is_strict: true },
            // Only the group bit, the first on the wire, is looked at.
            Some(interface) if interface.promiscuous => {
                Self { mask: 1, expected: 0, is_strict: false }
            }
            Some(interface) => {
                let [a, b, c, d, e, f] = interface.mac.octets();
                let expected = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
                Self { mask: (1 << 48) - 1, expected, is_strict: true }
            }
        }
    }

    #[inline(always)]
    fn admits<M: Mode>(self, packet: &Packet<'_, M>) -> bool {
        let start = packet.bytes().first_chunk().map_or(0, |start| u64::from_le_bytes(*start));
        start & self.mask == self.expected && !(self.is_strict && is_of_vlan(packet))
    }
}

impl L3 {
    /// Answers what is addressed to the function itself: ARP, neighbour discovery, multicast listener queries,
    /// echo; drops what is not addressed to this station. `None`: the packet is the network function's, to be
    /// forwarded or, where TCP, UDP or an ICMP error is addressed to one of our own addresses, to
    /// be translated first.
    #[inline]
    pub fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        let Some(&gate) = self.gates.get(usize::from(packet.port().index())) else {
            return self.receive_elsewhere();
        };
        if !gate.admits(packet) {
            return self.receive_unusual(packet, cx);
        }
        cx.note_arrival(packet);
        if let Some(ipv4) = packet.ipv4() {
            if !self.own.has4(ipv4.dst()) && (!gate.is_strict || is_intact(packet)) {
                return None;
            }
        } else if let Some(ipv6) = packet.ipv6()
            && !self.own.has6(ipv6.dst())
            && !is_of_the_link(packet)
        {
            return None;
        }
        self.take_in(packet, cx, gate.is_strict)
    }

    /// Refuses what is not addressed to this station, and damaged headers, as [`receive`](Self::receive) does, and
    /// answers nothing: for what the function takes to be its own although one of our addresses stands in it.
    /// `None`: the packet may be handled, and errors about it will quote it as it is now.
    #[inline]
    pub fn admit<W: World, M: Mode>(
        &self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        let gate = self.gates.get(usize::from(packet.port().index()));
        if gate.is_some_and(|gate| gate.admits(packet)) {
            cx.note_arrival(packet);
        }
        self.admit_plain(packet)
    }

    /// The same, with nothing noted of the packet, so that no error can be sent about it.
    #[inline]
    pub fn admit_plain<M: Mode>(&self, packet: &Packet<'_, M>) -> Option<Verdict> {
        let Some(&gate) = self.gates.get(usize::from(packet.port().index())) else {
            return self.receive_elsewhere();
        };
        // What a promiscuous interface has taken in may come in again, whoever it was addressed to.
        let is_lax = || self.interfaces.iter().flatten().any(|other| other.promiscuous);
        let refused = match gate.admits(packet) || is_lax() {
            true => None,
            false => self.refuse_plain(packet),
        };
        let is_damaged = || gate.is_strict && !is_intact(packet);
        refused.or_else(|| is_damaged().then(|| Drop(Builtin::Ipv4Checksum)))
    }

    /// What [`receive`](Self::receive) says where nothing is to be answered or learned; `None`: it
    /// has to be asked. Nothing is noted of the packet, so that no error can be sent about it.
    #[inline]
    pub fn receive_plain<M: Mode>(&self, packet: &Packet<'_, M>) -> Option<Option<Verdict>> {
        let Some(&gate) = self.gates.get(usize::from(packet.port().index())) else {
            return Some(self.receive_elsewhere());
        };
        if !gate.admits(packet) {
            return self.refuse_plain(packet).map(Some);
        }
        let own = match (packet.ipv4(), packet.ipv6()) {
            (Some(ipv4), _) => self.own.has4(ipv4.dst()),
            // An address that we answer for is asked for again at our station.
            (_, Some(_)) if is_of_the_link(packet) => return None,
            (_, Some(ipv6)) => self.own.has6(ipv6.dst()),
            _ if packet.arp().is_some() => return None,
            _ => return Some(Some(Drop(Builtin::UnsupportedProtocol))),
        };
        if gate.is_strict && !is_intact(packet) {
            return Some(Some(Drop(Builtin::Ipv4Checksum)));
        }
        (!own).then_some(None)
    }

    /// Why a frame that the gate does not admit goes no further; `None`: it may be for us all the same.
    fn refuse_plain<M: Mode>(&self, packet: &Packet<'_, M>) -> Option<Verdict> {
        let refused = Some(Drop(Builtin::NotForThisInterface));
        let Some(interface) = self.interface(packet.port()) else { return refused };
        if is_of_vlan(packet) && !interface.promiscuous {
            return refused;
        }
        let dst = packet.ethernet().dst();
        if !dst.is_multicast() {
            // A recirculated packet: it arrived by another interface of ours, noted when it did.
            let recirculated = self.interfaces.iter().flatten().any(|other| other.mac == dst);
            return if recirculated { None } else { refused };
        }
        if packet.arp().is_some() || is_discovery(packet) || is_query(packet) {
            return None;
        }
        let is_ip = packet.ipv4().is_some() || packet.ipv6().is_some();
        // Nothing received by a link-layer broadcast is forwarded (RFC 1812, 5.3.4).
        Some(Drop(if is_ip { Builtin::NotForwardable } else { Builtin::UnsupportedProtocol }))
    }

    /// A port beyond those of the run, or a disabled L3.
    #[cold]
    fn receive_elsewhere(&self) -> Option<Verdict> {
        self.enabled().then(|| Drop(Builtin::NotForThisInterface))
    }

    /// Frames to many, to others, and of VLANs.
    #[cold]
    fn receive_unusual<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        if let Some(refused) = self.refuse_plain(packet) {
            return Some(refused);
        }
        if packet.ethernet().dst().is_multicast() {
            return Some(match packet.arp() {
                Some(_) => self.resolve_arp(packet, cx),
                None if is_query(packet) => self.answer_query(packet, cx),
                None => self.resolve_discovery(packet, cx),
            });
        }
        let promiscuous = self.interface(packet.port()).is_some_and(|at| at.promiscuous);
        self.take_in(packet, cx, !promiscuous)
    }

    /// Packets to this station that may be for us.
    #[cold]
    fn take_in<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
        strict: bool,
    ) -> Option<Verdict> {
        if packet.arp().is_some() {
            return Some(self.resolve_arp(packet, cx));
        }
        let own = match (packet.ipv4(), packet.ipv6()) {
            (Some(ipv4), _) => self.is_own(packet.port(), ipv4.dst().into()),
            (_, Some(ipv6)) => self.is_own(packet.port(), ipv6.dst().into()),
            _ => return Some(Drop(Builtin::UnsupportedProtocol)),
        };
        if strict && !is_intact(packet) {
            return Some(Drop(Builtin::Ipv4Checksum));
        }
        if is_of_the_link(packet) || (own && is_discovery(packet)) {
            return Some(self.resolve_discovery(packet, cx));
        }
        if !own {
            return None;
        }
        if is_query(packet) {
            return Some(self.answer_query(packet, cx));
        }
        if has_hops_left(packet) {
            return Some(Drop(Builtin::NotForwardable));
        }
        let asks4 = packet.icmpv4().is_some_and(|icmp| icmp.kind() == 8);
        let asks6 = packet.icmpv6().is_some_and(|icmp| icmp.kind() == 128);
        ((asks4 || asks6) && !packet.is_fragment()).then(|| self.answer_echo(packet, cx))
    }

    /// Nobody is answered who cannot be one host, nor by damaged data (RFC 1122, 3.2.2; RFC 4443, 2.3).
    fn answer_echo<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let is_damaged = verify(packet).transport == Check::Invalid;
        if is_damaged || !self.comes_from_a_host(packet) {
            return Drop(Builtin::NotForwardable);
        }
        // What went astray is answered where it belongs, if anywhere.
        if !cx.is_astray()
            && let Some(len) = craft::echo_reply(&mut self.scratch, packet)
        {
            match packet.meta().fragment_len {
                0 => self.emit_back(packet, len, cx),
                longest => self.emit_back_cut(packet, len, longest.into(), cx),
            }
        }
        Drop(Builtin::Answered)
    }

    fn comes_from_a_host<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        match (packet.ipv4(), packet.ipv6()) {
            (Some(ipv4), _) => {
                special::is_host(ipv4.src().into()) && !self.broadcasts.has4(ipv4.src())
            }
            (_, ipv6) => ipv6.is_some_and(|ipv6| special::is_host(ipv6.src().into())),
        }
    }

    /// As [`emit_back`](Self::emit_back), in fragments of IPv4 that are as long as those that came.
    #[cold]
    fn emit_back_cut<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        len: usize,
        longest: usize,
        cx: &mut Context<'_, W>,
    ) {
        let mac = self.interface(packet.port()).map(|interface| interface.mac);
        let asked = packet.ipv4().map(|ipv4| ipv4.identification());
        let (Some(mac), Some(id), Some(frame)) = (mac, asked, self.scratch.get_mut(..len)) else {
            return;
        };
        let (layout, mut piece) = (parse(frame, len as u32), [0; SCRATCH_LEN]);
        let at = layout.l3_offset() + 4;
        frame[6..12].copy_from_slice(&mac.octets());
        // Fragments are told apart by it; the header's checksum is computed for each of them.
        frame[at..at + 2].copy_from_slice(&id.to_be_bytes());
        // What cannot be cut is not sent.
        let _ = cut(frame, layout, longest, &mut piece, |piece| cx.emit(packet.port(), piece));
    }

    /// Emits the first `len` bytes of the scratch, an answer to `packet`, from our own station.
    pub(super) fn emit_back<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        len: usize,
        cx: &mut Context<'_, W>,
    ) {
        let mac = self.interface(packet.port()).map(|interface| interface.mac);
        if let (Some(mac), Some(frame)) = (mac, self.scratch.get_mut(..len)) {
            frame[6..12].copy_from_slice(&mac.octets());
            cx.emit(packet.port(), frame);
        }
    }
}

/// Whether the frame is of a VLAN. A tag with VLAN identifier 0 gives a priority and names none: whoever receives
/// it takes the frame as untagged (IEEE 802.1Q-2022, 6.9 and table 9-2).
#[inline(always)]
fn is_of_vlan<M: Mode>(packet: &Packet<'_, M>) -> bool {
    packet.layout().l3_offset() != ETHERNET_LEN && !has_priority_only(packet)
}

#[cold]
fn has_priority_only<M: Mode>(packet: &Packet<'_, M>) -> bool {
    packet.layout().vlan_tags() == 1 && packet.vlan().is_some_and(|tag| tag.id() == 0)
}

/// Whether a source route is to be followed from here on, so that this is not where the packet was sent to: a routing
/// header with segments left (RFC 8200, 4.4), a loose or strict source route that is not used up (RFC 791, 3.1).
fn has_hops_left<M: Mode>(packet: &Packet<'_, M>) -> bool {
    /// Loose and strict source route; what is left of them begins where they point to, counted from their kind.
    const ROUTES: [u8; 2] = [131, 137];
    let options = packet.ipv4().map(|ipv4| ipv4.options());
    let mut routes = options.into_iter().flatten().filter(|option| ROUTES.contains(&option.kind));
    let goes_on = |content: &[u8]| {
        content.first().is_some_and(|pointer| usize::from(*pointer) <= 2 + content.len())
    };
    packet.layout().is_routed() || routes.any(|option| goes_on(option.content))
}

fn is_discovery<M: Mode>(packet: &Packet<'_, M>) -> bool {
    packet.icmpv6().is_some_and(|icmp| DISCOVERY.contains(&icmp.kind()))
}

fn is_query<M: Mode>(packet: &Packet<'_, M>) -> bool {
    packet.icmpv6().is_some_and(|icmp| icmp.kind() == QUERY)
}

/// Neighbour discovery that no router has forwarded (RFC 4861, 6.1 and 7.1).
fn is_of_the_link<M: Mode>(packet: &Packet<'_, M>) -> bool {
    is_discovery(packet) && packet.ipv6().is_some_and(|ipv6| ipv6.hop_limit() == 255)
}

/// Whether the checksum of the IPv4 header, if there is one, is right (RFC 1812, 5.2.2).
#[inline(always)]
fn is_intact<M: Mode>(packet: &Packet<'_, M>) -> bool {
    let start = packet.layout().l3_offset();
    let header = packet.bytes().get(start..).and_then(|bytes| bytes.first_chunk::<20>());
    match header {
        Some(header) if header[0] == 0x45 => sum_is_valid(header),
        _ => is_long_intact(packet),
    }
}

/// The ones' complement sum, in words of 32 bits in memory order (RFC 1071, 2).
#[inline(always)]
fn sum_is_valid(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

#[cold]
fn is_long_intact<M: Mode>(packet: &Packet<'_, M>) -> bool {
    let Some(ipv4) = packet.ipv4() else { return true };
    let start = packet.layout().l3_offset();
    let header = packet.bytes().get(start..start + usize::from(ipv4.header_len()));
    header.is_some_and(|header| anabranch_packet::checksum::Sum::new().bytes(header).is_valid())
}
