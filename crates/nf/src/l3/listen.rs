//! Multicast listener discovery (RFC 3810): a switch that looks into it hands solicitations of an address only to
//! whom it has heard to listen to that address's group (RFC 4861, 7.2.1; RFC 4541, 3). Whoever asks is answered at once.

use std::net::{IpAddr, Ipv6Addr};

use anabranch_packet::craft::{self, ListenerQuery};
use anabranch_packet::{Mode, Packet};

use crate::context::Context;
use crate::l3::L3;
use crate::l3::configuration::Interface;
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::World;

/// Prefixes to be answered for have their groups reported from so many bits on: 256 addresses, 5 reports.
const REPORTED_FROM: u8 = 120;

/// The groups that an interface listens to, in order, each once: those of its addresses and of the prefixes that it
/// answers for.
pub(super) fn groups(interface: Option<&Interface>) -> Vec<Ipv6Addr> {
    let Some(Interface { addresses, answer_for, .. }) = interface else { return Vec::new() };
    let own = addresses.iter().map(|own| (own.address, 1));
    let prefixes = answer_for.iter().filter(|prefix| prefix.length >= REPORTED_FROM);
    let others = prefixes.map(|prefix| (prefix.address, 1_u128 << (128 - prefix.length.min(128))));
    let all = own.chain(others).filter_map(|(first, count)| match first {
        IpAddr::V6(first) => Some((first.to_bits(), count)),
        IpAddr::V4(_) => None,
    });
    let mut groups: Vec<_> = all
        .flat_map(|(first, count)| (0..count).map(move |at| solicited_node((first + at).into())))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// The group that the host with `address` listens to (RFC 4291, 2.7.1).
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | (address.to_bits() & 0x00ff_ffff))
}

impl L3 {
    /// Reports those of our groups that are asked for, in the version of who asks.
    pub(super) fn answer_query<W: World, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let Some(query) = craft::listener_asked(packet) else {
            return Drop(Builtin::NotForwardable);
        };
        let groups = self.groups.get(usize::from(packet.port().index()));
        let groups = groups.map_or(&[][..], |groups| asked_for(groups, query));
        let interface = self.interfaces.get(usize::from(packet.port().index()));
        let Some(interface) = interface.and_then(Option::as_ref).filter(|_| !groups.is_empty())
        else {
            return Drop(Builtin::NotForThisInterface);
        };
        let asker = packet.ipv6().map_or(Ipv6Addr::UNSPECIFIED, |ipv6| ipv6.src());
        let (out, mac) = (&mut self.scratch, interface.mac);
        let Some(IpAddr::V6(own)) = interface.address_towards(asker.into()) else {
            return Drop(Builtin::NotForThisInterface);
        };
        let at_once = if query.is_version_1 { 1 } else { craft::MOST_GROUPS };
        for groups in groups.chunks(at_once) {
            let len = match (query.is_version_1, groups) {
                (true, &[group, ..]) => craft::listener_report_version_1(out, mac, own, group),
                _ => craft::listener_report(out, mac, own, groups),
            };
            if let Some(frame) = len.and_then(|len| out.get(..len)) {
                cx.emit(packet.port(), frame);
            }
        }
        Drop(Builtin::Answered)
    }
}

/// Those of `groups` that the query is about.
fn asked_for(groups: &[Ipv6Addr], query: ListenerQuery) -> &[Ipv6Addr] {
    let Some(group) = query.group else { return groups };
    let found = groups.binary_search(&group).ok();
    found.and_then(|at| groups.get(at..=at)).unwrap_or_default()
}
