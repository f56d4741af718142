//! ARP (RFC 826) and neighbour discovery (RFC 4861).

use super::{
    Link,
    writer::{Network, Writer},
};
use crate::{
    MacAddr, Mode, Packet,
    checksum::{Check, verify},
    layout::{chunk, ethertype, protocol},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: MacAddr = MacAddr::new(0x33, 0x33, 0, 0, 0, 1);
/// What neighbours send each other has passed no router (RFC 4861, 7.1).
const HOP_LIMIT: u8 = 255;

/// Asks all stations who has `target`.
pub fn arp_request(
    out: &mut [u8],
    sender_mac: MacAddr,
    sender_ip: Ipv4Addr,
    target: Ipv4Addr,
) -> Option<usize> {
    let link = Link { src: sender_mac, dst: MacAddr::BROADCAST, tags: [None; 2] };
    let mut writer = Writer::new(out);
    writer.link(&link, ethertype::ARP)?;
    put_arp(&mut writer, 1, (sender_mac, sender_ip), (MacAddr::ZERO, target))
}

/// Answers an ARP request: what it asks for is at `mac`. `None` too if it is no request.
pub fn arp_reply<M: Mode>(out: &mut [u8], request: &Packet<'_, M>, mac: MacAddr) -> Option<usize> {
    let arp = request.arp().filter(|arp| arp.operation() == 1)?;
    let mut writer = Writer::new(out);
    writer.link_back(request, Some(mac))?;
    put_arp(&mut writer, 2, (mac, arp.target_ip()), (arp.sender_mac(), arp.sender_ip()))
}

fn put_arp(
    writer: &mut Writer<'_>,
    operation: u8,
    sender: (MacAddr, Ipv4Addr),
    target: (MacAddr, Ipv4Addr),
) -> Option<usize> {
    writer.put(&[0, 1, 8, 0, 6, 4, 0, operation])?;
    for (mac, ip) in [sender, target] {
        writer.put(&mac.octets())?;
        writer.put(&ip.octets())?;
    }
    Some(writer.len())
}

/// Asks the group that `target` must be in for its Ethernet address, or itself where that is `known` and may be
/// another by now (RFC 4861, 7.3.3). A sender that has no address yet (`::`) asks whether `target` is taken, and names
/// no Ethernet address (RFC 4861, 4.3).
pub fn neighbour_solicitation(
    out: &mut [u8],
    sender_mac: MacAddr,
    sender_ip: Ipv6Addr,
    target: Ipv6Addr,
    known: Option<MacAddr>,
) -> Option<usize> {
    let [.., a, b, c] = target.octets();
    let tail = [u16::from(a) | 0xff00, u16::from_be_bytes([b, c])];
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, tail[0], tail[1]);
    let to = if known.is_some() { target } else { group };
    let dst = known.unwrap_or(MacAddr::new(0x33, 0x33, 0xff, a, b, c));
    let mut writer = Writer::new(out);
    writer.link(&Link { src: sender_mac, dst, tags: [None; 2] }, ethertype::IPV6)?;
    let option = (!sender_ip.is_unspecified()).then_some((SOURCE_LINK_ADDRESS, sender_mac));
    put_neighbour(writer, (sender_ip, to), [SOLICITATION, 0], target, option)
}

/// Answers a neighbour solicitation: its target is at `mac`, which is a router's if `is_router`.
/// `None` too if it is no solicitation, or one that must be ignored (RFC 4861, 7.1.1).
pub fn neighbour_advertisement<M: Mode>(
    out: &mut [u8],
    solicitation: &Packet<'_, M>,
    mac: MacAddr,
    is_router: bool,
) -> Option<usize> {
    let asked = neighbour_message(solicitation).filter(|message| message.is_solicitation)?;
    let asker = solicitation.ipv6()?.src();
    let mut writer = Writer::new(out);
    writer.link_back(solicitation, Some(mac))?;
    // Who asks whether its own address is taken has none to be answered at (RFC 4861, 7.2.4).
    let unnamed = asker.is_unspecified();
    if unnamed {
        writer.patch(0, &ALL_NODES_MAC.octets())?;
    }
    let dst = if unnamed { ALL_NODES } else { asker };
    let flags = u8::from(is_router) << 7 | u8::from(!unnamed) << 6 | 1 << 5;
    let option = Some((TARGET_LINK_ADDRESS, mac));
    put_neighbour(writer, (asked.target, dst), [ADVERTISEMENT, flags], asked.target, option)
}

fn put_neighbour(
    mut writer: Writer<'_>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    option: Option<(u8, MacAddr)>,
) -> Option<usize> {
    let network = Network::new(IpAddr::V6(src), IpAddr::V6(dst));
    let network = Network { hop_limit: HOP_LIMIT, ..network };
    let len = if option.is_some() { 32 } else { 24 };
    let start = writer.network(&network, protocol::ICMPV6, len)?;
    writer.put(&[kind, 0, 0, 0, flags, 0, 0, 0])?;
    writer.put(&target.octets())?;
    if let Some((kind, mac)) = option {
        writer.put(&[kind, 1])?;
        writer.put(&mac.octets())?;
    }
    writer.finish(start, 2)
}

/// What a neighbour solicitation or advertisement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourMessage {
    /// Whether it asks; else it tells.
    pub is_solicitation: bool,
    /// The address asked for or told of.
    pub target: Ipv6Addr,
    /// The Ethernet address of the sender of a solicitation, or of the target of an advertisement.
    pub mac: Option<MacAddr>,
}

/// Reads a neighbour solicitation or advertisement. `None` if it is neither, or one that must be
/// ignored: it passed a router, its checksum is wrong, an option is cut (RFC 4861, 7.1), or it has a fragment
/// header, which stays when fragments are put together (RFC 6980, 5).
pub fn neighbour_message<M: Mode>(packet: &Packet<'_, M>) -> Option<NeighbourMessage> {
    let (icmp, ipv6) = (packet.icmpv6()?, packet.ipv6()?);
    let option = match icmp.kind() {
        SOLICITATION => SOURCE_LINK_ADDRESS,
        ADVERTISEMENT => TARGET_LINK_ADDRESS,
        _ => return None,
    };
    let near = icmp.code() == 0 && ipv6.hop_limit() == HOP_LIMIT;
    if !near || packet.layout().has_fragment_header() || verify(packet).transport != Check::Valid {
        return None;
    }
    let target = Ipv6Addr::from(*chunk::<16>(packet.payload(), 0)?);
    let mac = link_address(packet.payload().get(16..)?, option)?;
    let is_solicitation = icmp.kind() == SOLICITATION;
    // Who has no address has no neighbours that could use its Ethernet address.
    let sound = !is_solicitation || !ipv6.src().is_unspecified() || mac.is_none();
    (sound && !target.is_multicast()).then_some(NeighbourMessage { is_solicitation, target, mac })
}

/// The link-layer address in the option `wanted`, if there is one. `None` where an option is cut.
fn link_address(mut options: &[u8], wanted: u8) -> Option<Option<MacAddr>> {
    let mut found = None;
    while !options.is_empty() {
        let [kind, units] = *chunk::<2>(options, 0)?;
        let option = options.get(..usize::from(units) * 8).filter(|option| !option.is_empty())?;
        if kind == wanted {
            found = chunk::<6>(option, 2).map(|mac| MacAddr::from(*mac));
        }
        options = options.get(option.len()..)?;
    }
    Some(found)
}
