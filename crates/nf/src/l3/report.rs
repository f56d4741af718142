//! ICMP errors about packets that are not forwarded.

use std::net::IpAddr;

use anabranch_packet::craft::{self, IcmpError};
use anabranch_packet::{Frame, Meta, Mode, Packet, Port, Real, parse};

use crate::context::Context;
use crate::l3::learned::Turn;
use crate::l3::{L3, is_own};
use crate::world::World;

impl L3 {
    /// Tells the sender of `packet`, as it arrived, of `error`: back through the port by which it
    /// came, to the station that sent it, and not more often than the limit allows. Nothing where
    /// the standards forbid an error, nor where the sender is ourselves or all hosts of a link.
    #[cold]
    pub(super) fn report<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        error: IcmpError,
        cx: &mut Context<'_, W>,
        turn: &mut Turn<'_>,
    ) {
        if !turn.limiter().or(&mut self.limiter, cx.now()).allows(cx.now()) {
            return;
        }
        let (port, len) = cx.arrival().restore(packet, &mut self.quoted);
        self.report_quoted((port, len, packet.len()), error, cx, turn);
    }

    /// The same about the packet that is held for neighbour `index`, and no longer then.
    pub(super) fn report_held<W: World>(
        &mut self,
        index: u32,
        error: IcmpError,
        cx: &mut Context<'_, W>,
        turn: &mut Turn<'_>,
    ) {
        let held = turn.held().give_up(index, &mut self.quoted);
        let allowed = turn.limiter().or(&mut self.limiter, cx.now()).allows(cx.now());
        if let Some((port, len, wire_len)) = held.filter(|_| allowed) {
            self.report_quoted((port, len, wire_len as u32), error, cx, turn);
        }
    }

    /// The same about the packet of `wire_len` bytes whose first `len` have been put together as they arrived.
    fn report_quoted<W: World>(
        &mut self,
        (port, len, wire_len): (Port, usize, u32),
        error: IcmpError,
        cx: &mut Context<'_, W>,
        turn: &mut Turn<'_>,
    ) {
        let Some(quoted) = self.quoted.get_mut(..len) else { return };
        let layout = parse(quoted, wire_len);
        let meta = Meta { wire_len, port, ..Meta::default() };
        let mut frame = Frame::new(quoted, 0, len, 0, meta);
        let original = Packet::<Real>::new(&mut frame, layout);
        let interface = self.interfaces.get(usize::from(port.index())).and_then(Option::as_ref);
        let (Some((src, dst)), Some(interface)) = (addresses(&original), interface) else { return };
        let is_own = |address| is_own(&self.own, Some(interface), address);
        if is_own(src) || self.broadcasts.has(src) {
            return;
        }
        // From the very address that was written to, where it is ours (RFC 4443, 2.2 (a)).
        let own = is_own(dst).then_some(dst);
        let Some(sender) = own.or_else(|| interface.address_towards(src)) else { return };
        let written = craft::icmp_error(&mut self.scratch, &original, sender, error);
        let Some(frame) = written.and_then(|len| self.scratch.get_mut(..len)) else { return };
        frame[6..12].copy_from_slice(&interface.mac.octets());
        turn.limiter().or(&mut self.limiter, cx.now()).spend(cx.now());
        cx.emit(port, frame);
    }
}

fn addresses(packet: &Packet<'_>) -> Option<(IpAddr, IpAddr)> {
    match (packet.ipv4(), packet.ipv6()) {
        (Some(ipv4), _) => Some((ipv4.src().into(), ipv4.dst().into())),
        (_, Some(ipv6)) => Some((ipv6.src().into(), ipv6.dst().into())),
        _ => None,
    }
}
