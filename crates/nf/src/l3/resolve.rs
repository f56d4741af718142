//! ARP (RFC 826) and neighbour discovery (RFC 4861): questions answered, answers learned, and
//! questions of our own.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use anabranch_packet::craft::{self, IcmpError, NeighbourMessage};
use anabranch_packet::{MacAddr, Mode, Packet, Port};

use crate::context::Context;
use crate::l3::L3;
use crate::l3::learned::{Question, Turn};
use crate::l3::listen::solicited_node;
use crate::l3::neighbours::{Evidence, Neighbour, Resolution};
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::World;

const ARP_REQUEST: u16 = 1;
/// Flags of an advertisement (RFC 4861, 4.4), in the first 16 bits of its body.
const SOLICITED: u16 = 1 << 14;
const OVERRIDE: u16 = 1 << 13;

impl L3 {
    /// RFC 826, "Packet Reception": a known sender is updated; if we are asked, an unknown one is
    /// added, and the question answered.
    pub(super) fn resolve_arp<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let port = packet.port();
        let (Some(arp), Some(interface)) = (packet.arp(), self.interface(port)) else {
            return Drop(Builtin::NotForThisInterface);
        };
        let asked = arp.operation() == ARP_REQUEST && interface.answers(arp.target_ip().into());
        let mac = interface.mac;
        let sender = (arp.sender_ip().into(), arp.sender_mac());
        let learned = Arc::clone(&self.learned);
        let turn = &mut self.turn(&learned);
        let learned = self.learn(port, sender, asked, Evidence::Answer, cx, turn);
        if asked && let Some(len) = craft::arp_reply(&mut self.scratch, packet, mac) {
            self.emit_back(packet, len, cx);
        }
        Drop(if asked || learned { Builtin::Answered } else { Builtin::NotForThisInterface })
    }

    /// A new neighbour, in place of another where the table is full.
    pub(super) fn add_neighbour(
        &mut self,
        address: IpAddr,
        port: Port,
        turn: &mut Turn<'_>,
    ) -> Option<u32> {
        let neighbour = Neighbour::new(address, self.interface(port)?);
        let index = turn.place(self.neighbours.pinned().end, self.neighbours.limit())?;
        self.change(index, neighbour, turn);
        Some(index)
    }

    /// Learns that `address` on `port` is at `mac`: always where it is known already, else only if
    /// `add`. False where it is not to be believed: our own address, or not on the link.
    fn learn<W: World>(
        &mut self,
        port: Port,
        (address, mac): (IpAddr, MacAddr),
        add: bool,
        evidence: Evidence,
        cx: &mut Context<'_, W>,
        turn: &mut Turn<'_>,
    ) -> bool {
        let station = !mac.is_multicast() && mac != MacAddr::ZERO;
        if !station || self.is_own(port, address) {
            return false;
        }
        let wanted = || add && self.interface(port).is_some_and(|at| at.is_on_link(address));
        let index = match self.neighbours.find(address, port) {
            None if wanted() => self.add_neighbour(address, port, turn),
            found => found,
        };
        let Some(index) = index else { return false };
        let now = cx.now();
        self.update(index, turn, |neighbour| neighbour.learn(mac, evidence, now));
        if let Some((port, frame)) = turn.take_held(index, now) {
            cx.emit(port, frame);
        }
        true
    }

    /// Neighbour discovery; of routers' messages nothing is learned.
    pub(super) fn resolve_discovery<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let (Some(message), Some(ipv6)) = (craft::neighbour_message(packet), packet.ipv6()) else {
            return Drop(Builtin::NotForwardable);
        };
        let (src, dst) = (ipv6.src(), ipv6.dst());
        if message.is_solicitation {
            self.answer_solicitation(packet, message, (src, dst), cx)
        } else {
            self.take_advertisement(packet, message, dst, cx)
        }
    }

    /// RFC 4861, 7.1.1 and 7.2.3.
    fn answer_solicitation<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        message: NeighbourMessage,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let port = packet.port();
        let unnamed = src.is_unspecified();
        if unnamed && dst != solicited_node(message.target) {
            return Drop(Builtin::NotForwardable);
        }
        let Some(interface) = self.interface(port).filter(|at| at.answers(message.target.into()))
        else {
            return Drop(Builtin::NotForThisInterface);
        };
        let mac = interface.mac;
        if let (false, Some(theirs)) = (unnamed, message.mac) {
            let learned = Arc::clone(&self.learned);
            let turn = &mut self.turn(&learned);
            self.learn(port, (src.into(), theirs), true, Evidence::Hearsay, cx, turn);
        }
        let answer = craft::neighbour_advertisement(&mut self.scratch, packet, mac, true);
        if let Some(len) = answer {
            self.emit_back(packet, len, cx);
        }
        Drop(Builtin::Answered)
    }

    /// RFC 4861, 7.1.2 and 7.2.5.
    fn take_advertisement<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        message: NeighbourMessage,
        dst: Ipv6Addr,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let flags = packet.icmpv6().map_or(0, |icmp| icmp.id());
        let solicited = flags & SOLICITED != 0;
        if solicited && dst.is_multicast() {
            return Drop(Builtin::NotForwardable);
        }
        let port = packet.port();
        let learned = Arc::clone(&self.learned);
        let turn = &mut self.turn(&learned);
        let found = self.neighbours.find6(message.target, port);
        let Some((index, known)) = found.and_then(|at| Some((at, *self.neighbours.get(at)?)))
        else {
            return Drop(Builtin::NotForThisInterface);
        };
        let current = known.is_resolved.then(|| known.mac());
        let Some(mac) = message.mac.or(current) else {
            return Drop(Builtin::Answered);
        };
        let moved = current.is_some_and(|current| current != mac);
        if moved && flags & OVERRIDE == 0 {
            self.update(index, turn, Neighbour::doubt);
            return Drop(Builtin::Answered);
        }
        let evidence = if solicited { Evidence::Answer } else { Evidence::Hearsay };
        self.learn(port, (message.target.into(), mac), false, evidence, cx, turn);
        Drop(Builtin::Answered)
    }

    /// Neighbour `index`, which has just been asked for, is looked after when it has not answered within a second.
    pub(super) fn expect_answer<W: World>(
        &mut self,
        index: u32,
        cx: &mut Context<'_, W>,
        turn: &mut Turn<'_>,
    ) {
        let question = Question { index, asked_at: cx.now() };
        let due = turn.expect_answer(question, self.neighbours.limit());
        cx.expect_routing(due);
    }

    /// Asks again for who has not answered, and tells whose packet waits where it never did (RFC 4861, 7.2.2;
    /// RFC 1812, 5.2.7.1).
    pub fn follow_up<W: World>(&mut self, cx: &mut Context<'_, W>) {
        let learned = Arc::clone(&self.learned);
        let turn = &mut self.turn(&learned);
        while let Some(Question { index, asked_at }) = turn.take_question(cx.now()) {
            let now = cx.now();
            match self.update(index, turn, |neighbour| neighbour.follow_up(asked_at, now)) {
                Some(Some(Resolution::Waiting)) => {
                    self.ask(index, cx);
                    self.expect_answer(index, cx, turn);
                }
                Some(Some(Resolution::Failed)) => {
                    self.report_held(index, IcmpError::HostUnreachable, cx, turn);
                }
                _ => {}
            }
        }
        cx.expect_routing(turn.next_question());
    }

    /// Asks for neighbour `index`: everybody on its link, or itself at its last address.
    pub(super) fn ask<W: World>(&mut self, index: u32, cx: &mut Context<'_, W>) {
        let Some(neighbour) = self.neighbours.get(index).copied() else { return };
        let interface = self.interfaces.get(usize::from(neighbour.port.index()));
        let Some(interface) = interface.and_then(Option::as_ref) else { return };
        let (out, mac) = (&mut self.scratch, interface.mac);
        let known = neighbour.is_resolved.then(|| neighbour.mac());
        let len = match (interface.address_towards(neighbour.address), neighbour.address) {
            (Some(IpAddr::V4(from)), IpAddr::V4(whom)) => craft::arp_request(out, mac, from, whom),
            (Some(IpAddr::V6(from)), IpAddr::V6(whom)) => {
                craft::neighbour_solicitation(out, mac, from, whom, known)
            }
            _ => None,
        };
        let Some(frame) = len.and_then(|len| self.scratch.get_mut(..len)) else { return };
        if let Some(known) = known {
            frame[..6].copy_from_slice(&known.octets());
        }
        cx.emit(neighbour.port, frame);
    }
}
