//! The way of a packet from its destination address to the next station.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anabranch_packet::checksum::{Check, verify};
use anabranch_packet::craft::IcmpError;
use anabranch_packet::fragment::cut;
use anabranch_packet::{Mode, Packet, Port};

use crate::context::Context;
use crate::l3::L3;
use crate::l3::learned::Turn;
use crate::l3::neighbours::{Neighbour, Resolution};
use crate::l3::next_hop::NextHop;
use crate::l3::special;
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::World;

impl L3 {
    /// Routes the packet: finds the next hop of its destination address, decrements TTL or hop
    /// limit, holds its length against the link's MTU, and writes the MAC addresses. Sends ICMP
    /// errors, asks for neighbours and cuts packets in fragments where needed.
    #[inline]
    pub fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        self.listen();
        match self.forward_plain(packet, cx.now()) {
            Some(verdict) => verdict,
            None => self.forward_slowly(packet, cx),
        }
    }

    /// What [`forward`](Self::forward) does at `now` where nothing is to be sent or learned; `None`,
    /// and no change: it has to be asked.
    #[inline]
    pub fn forward_plain<M: Mode>(&self, packet: &mut Packet<'_, M>, now: u64) -> Option<Verdict> {
        let index = match self.next_hop(packet) {
            None => return Some(Drop(Builtin::UnsupportedProtocol)),
            Some(NextHop::Neighbour(index)) => index,
            Some(NextHop::OnLink(port)) => match (packet.ipv4(), packet.ipv6()) {
                (Some(ipv4), _) => self.neighbours.find4(ipv4.dst(), port)?,
                (_, ipv6) => self.neighbours.find6(ipv6?.dst(), port)?,
            },
            // Nobody is told that we do not listen but senders of UDP.
            Some(NextHop::Own) if packet.udp().is_none() => return Some(Drop(Builtin::Answered)),
            Some(NextHop::Nowhere) => return Some(Drop(Builtin::NotForwardable)),
            Some(_) => return None,
        };
        let (hops, len) = measure(packet);
        let neighbour = self.neighbours.get(index)?;
        neighbour.takes(hops, len, now).then(|| self.depart(packet, hops, neighbour))
    }

    /// Whether the packet goes nowhere from here: its destination is behind the port that it came by, or our own
    /// address there, or it is from or to an address that no router forwards.
    #[inline]
    pub fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        let port = packet.port();
        match (self.next_hop(packet), packet.ipv4(), packet.ipv6()) {
            (Some(NextHop::OnLink(out)), ..) => out == port,
            (Some(NextHop::Neighbour(index)), ..) => {
                self.neighbours.get(index).is_some_and(|neighbour| neighbour.port == port)
            }
            (Some(NextHop::Own), Some(ipv4), _) => self.is_of_port(port, ipv4.dst().into()),
            (Some(NextHop::Own), _, Some(ipv6)) => self.is_of_port(port, ipv6.dst().into()),
            (hop, ..) => hop == Some(NextHop::Nowhere),
        }
    }

    fn is_of_port(&self, port: Port, address: IpAddr) -> bool {
        self.interface(port).is_some_and(|interface| interface.has(address))
    }

    /// Where the route leads; `None`: it is no IP packet.
    #[inline(always)]
    fn next_hop<M: Mode>(&self, packet: &Packet<'_, M>) -> Option<NextHop> {
        match (packet.ipv4(), packet.ipv6()) {
            (Some(ipv4), _) => Some(self.next_hop4(ipv4.src(), ipv4.dst())),
            (_, Some(ipv6)) => Some(self.next_hop6(ipv6.src(), ipv6.dst())),
            _ => None,
        }
    }

    #[inline(always)]
    fn next_hop4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> NextHop {
        match special::is_source4_refused(src) || self.broadcasts.has4(src) {
            false => NextHop::from_value(self.ipv4.look_up(dst.octets())),
            true => NextHop::Nowhere,
        }
    }

    #[inline(always)]
    fn next_hop6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> NextHop {
        match special::is_source6_refused(src) {
            false => NextHop::from_value(self.ipv6.look_up(dst.octets())),
            true => NextHop::Nowhere,
        }
    }

    /// As [`forward`](Self::forward), where something is to be sent or learned.
    #[cold]
    #[inline(never)]
    fn forward_slowly<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let learned = Arc::clone(&self.learned);
        let turn = &mut self.turn(&learned);
        let dst = match (packet.ipv4(), packet.ipv6()) {
            (Some(ipv4), _) => IpAddr::from(ipv4.dst()),
            (_, Some(ipv6)) => ipv6.dst().into(),
            _ => return Drop(Builtin::UnsupportedProtocol),
        };
        let index = match self.next_hop(packet).unwrap_or(NextHop::Unreachable) {
            NextHop::Neighbour(index) => Some(index),
            NextHop::OnLink(port) => match self.neighbours.find(dst, port) {
                None => self.add_neighbour(dst, port, turn),
                found => found,
            },
            hop => return self.stop(packet, cx, hop, turn),
        };
        match index {
            Some(index) => self.pass(packet, cx, index, turn),
            None => Drop(Builtin::NeighbourUnresolved),
        }
    }

    /// Sends the packet to neighbour `index`, or says why not.
    fn pass<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
        index: u32,
        turn: &mut Turn<'_>,
    ) -> Verdict {
        let Some(mtu) = self.neighbours.get(index).map(|neighbour| neighbour.mtu) else {
            return Drop(Builtin::NeighbourUnresolved);
        };
        let (hops, len) = measure(packet);
        if hops <= 1 {
            self.report(packet, IcmpError::TimeExceeded, cx, turn);
            return Drop(Builtin::TtlExpired);
        }
        let too_big = len > mtu;
        if too_big && packet.ipv4().is_none_or(|ipv4| ipv4.dont_fragment()) {
            self.report(packet, IcmpError::TooBig { mtu }, cx, turn);
            return Drop(Builtin::PacketTooBig);
        }
        let state = self.resolve(index, cx, turn);
        let Some(neighbour) = self.neighbours.get(index).copied() else {
            return Drop(Builtin::NeighbourUnresolved);
        };
        match state {
            Resolution::Usable if too_big => self.cut(packet, cx, hops, &neighbour),
            Resolution::Usable => self.depart(packet, hops, &neighbour),
            Resolution::Waiting => {
                let (from, len) = cx.arrival().restore(packet, &mut self.quoted);
                // It leaves when the answer comes, so it is ready but for that.
                self.depart(packet, hops, &neighbour);
                let whole = packet.bytes().len() == packet.len() as usize;
                if whole && !too_big && packet.meta().fragment_len == 0 {
                    let arrived = self.quoted.get(..len).unwrap_or_default();
                    turn.held().put(index, packet.bytes(), (from, arrived), cx.now());
                }
                Drop(Builtin::NeighbourUnresolved)
            }
            Resolution::Failed => {
                self.report_held(index, IcmpError::HostUnreachable, cx, turn);
                self.report(packet, IcmpError::HostUnreachable, cx, turn);
                Drop(Builtin::NeighbourUnresolved)
            }
        }
    }

    /// Whether neighbour `index` can be sent to; asks for it where that is due.
    fn resolve<W: World>(
        &mut self,
        index: u32,
        cx: &mut Context<'_, W>,
        turn: &mut Turn<'_>,
    ) -> Resolution {
        let now = cx.now();
        if self.neighbours.get(index).is_some_and(|neighbour| now < neighbour.fresh_until) {
            return Resolution::Usable;
        }
        let Some(consulted) = self.update(index, turn, |neighbour| neighbour.consult(now)) else {
            return Resolution::Failed;
        };
        if consulted.ask {
            self.ask(index, cx);
        }
        if consulted.ask && consulted.state == Resolution::Waiting {
            self.expect_answer(index, cx, turn);
        }
        consulted.state
    }

    /// The packet goes no further.
    fn stop<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
        hop: NextHop,
        turn: &mut Turn<'_>,
    ) -> Verdict {
        match hop {
            // What is damaged was not sent to anybody (RFC 1122, 4.1.3.4).
            NextHop::Own if verify(packet).transport == Check::Invalid => {
                Drop(Builtin::NotForwardable)
            }
            NextHop::Own => {
                self.report(packet, IcmpError::PortUnreachable, cx, turn);
                Drop(Builtin::Answered)
            }
            NextHop::Nowhere => Drop(Builtin::NotForwardable),
            _ => {
                self.report(packet, IcmpError::NetworkUnreachable, cx, turn);
                Drop(Builtin::NoRoute)
            }
        }
    }

    /// Counts the hop and addresses the frame.
    #[inline(always)]
    fn depart<M: Mode>(
        &self,
        packet: &mut Packet<'_, M>,
        hops: u8,
        neighbour: &Neighbour,
    ) -> Verdict {
        if self.clamps {
            self.clamp(packet, neighbour.port);
        }
        if let Some(mut ipv4) = packet.ipv4_mut() {
            ipv4.set_ttl(hops.wrapping_sub(1));
        } else if let Some(mut ipv6) = packet.ipv6_mut() {
            ipv6.set_hop_limit(hops.wrapping_sub(1));
        }
        if !M::HOLLOW
            && let Some(start) = packet.bytes_mut().first_chunk_mut()
        {
            *start = neighbour.header;
        }
        Verdict::Forward(neighbour.port)
    }

    /// Who opens a TCP connection announces no larger segments than fit the links that it comes by and leaves by,
    /// where these are to be looked after.
    #[cold]
    fn clamp<M: Mode>(&self, packet: &mut Packet<'_, M>, out: Port) {
        let links = [packet.port(), out].into_iter().filter_map(|port| self.interface(port));
        let mtu = links.filter(|link| link.clamp_mss).map(|link| link.mtu).min();
        // Fixed headers of IP and TCP (RFC 6691, 2).
        let headers = if packet.ipv4().is_some() { 20 + 20 } else { 40 + 20 };
        if let (Some(mtu), Some(mut tcp)) = (mtu, packet.tcp_mut()) {
            let most = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
            if tcp.syn() && tcp.mss() > most {
                tcp.set_mss(most);
            }
        }
    }

    /// Sends the packet on in fragments.
    fn cut<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
        hops: u8,
        neighbour: &Neighbour,
    ) -> Verdict {
        self.depart(packet, hops, neighbour);
        let emit = |frame: &[u8]| cx.emit(neighbour.port, frame);
        let mtu = neighbour.mtu as usize;
        match cut(packet.bytes(), packet.layout(), mtu, &mut self.scratch, emit) {
            Some(()) => Drop(Builtin::Fragmented),
            None => Drop(Builtin::PacketTooBig),
        }
    }
}

/// TTL or hop limit, and bytes of the IP packet; of one that came in fragments, and leaves in fragments as
/// long, of the longest.
#[inline(always)]
fn measure<M: Mode>(packet: &Packet<'_, M>) -> (u8, u32) {
    let (hops, len) = match (packet.ipv4(), packet.ipv6()) {
        (Some(ipv4), _) => (ipv4.ttl(), ipv4.total_len().into()),
        (_, Some(ipv6)) => (ipv6.hop_limit(), 40 + u32::from(ipv6.payload_len())),
        _ => (0, 0),
    };
    match packet.meta().fragment_len {
        0 => (hops, len),
        longest => (hops, longest.into()),
    }
}
