//! Multicast listener discovery (RFC 2710, RFC 3810): routers and switches ask which groups the hosts of a link
//! listen to, and those say so.

use super::{
    Link,
    writer::{Network, Writer},
};
use crate::{
    MacAddr, Mode, Packet,
    checksum::{Check, verify},
    layout::{chunk, protocol},
};
use std::net::{IpAddr, Ipv6Addr};

const QUERY: u8 = 130;
const REPORT_VERSION_1: u8 = 131;
const REPORT: u8 = 143;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Where reports go (RFC 3810, 5.2.14).
const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// It passes no router (RFC 3810, 5).
const HOP_LIMIT: u8 = 1;
/// Routers look at it all the same (RFC 2711).
const ROUTER_ALERT: u8 = 5;
/// The host listens to the group, whoever speaks: MODE_IS_EXCLUDE with no source (RFC 3810, 5.2.12).
const LISTENS: u8 = 2;
/// Bytes of a query's body: of version 1, and of version 2 at least (RFC 3810, 8.1).
const BODY_VERSION_1: usize = 16;
const BODY: usize = 20;

/// Groups in one report: as many as fit the least MTU, 1,280 bytes.
pub const MOST_GROUPS: usize = (1_280 - 40 - 8 - 8) / 20;

/// Which groups are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerQuery {
    /// The group; `None`: all.
    pub group: Option<Ipv6Addr>,
    /// Whoever asks knows version 1 only (RFC 2710), and is answered in it.
    pub is_version_1: bool,
}

/// Asks which groups are listened to on the link.
pub fn listener_query(
    out: &mut [u8],
    sender_mac: MacAddr,
    sender_ip: Ipv6Addr,
    query: ListenerQuery,
) -> Option<usize> {
    let group = query.group.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let dst = query.group.unwrap_or(ALL_NODES);
    let tail = [0; BODY - BODY_VERSION_1];
    let tail = if query.is_version_1 { &[][..] } else { &tail[..] };
    put(out, sender_mac, (sender_ip, dst), [QUERY, 0, 0], &[&group.octets(), tail])
}

/// Says that `sender_ip` listens to `groups`, at most [`MOST_GROUPS`].
pub fn listener_report(
    out: &mut [u8],
    sender_mac: MacAddr,
    sender_ip: Ipv6Addr,
    groups: &[Ipv6Addr],
) -> Option<usize> {
    let mut records = [0; MOST_GROUPS * 20];
    for (record, group) in records.chunks_exact_mut(20).zip(groups) {
        record[0] = LISTENS;
        record[4..].copy_from_slice(&group.octets());
    }
    let count = u8::try_from(groups.len()).ok()?;
    let records = records.get(..groups.len() * 20)?;
    put(out, sender_mac, (sender_ip, ROUTERS), [REPORT, 0, count], &[records])
}

/// Says in version 1 that `sender_ip` listens to `group`.
pub fn listener_report_version_1(
    out: &mut [u8],
    sender_mac: MacAddr,
    sender_ip: Ipv6Addr,
    group: Ipv6Addr,
) -> Option<usize> {
    put(out, sender_mac, (sender_ip, group), [REPORT_VERSION_1, 0, 0], &[&group.octets()])
}

/// A message of this kind, with the last two bytes of its header, and its body.
fn put(
    out: &mut [u8],
    mac: MacAddr,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    [kind, high, low]: [u8; 3],
    body: &[&[u8]],
) -> Option<usize> {
    let [.., a, b, c, d] = dst.octets();
    let link = Link { src: mac, dst: MacAddr::new(0x33, 0x33, a, b, c, d), tags: [None; 2] };
    let network = Network::new(IpAddr::V6(src), IpAddr::V6(dst));
    let network = Network { hop_limit: HOP_LIMIT, has_router_alert: true, ..network };
    let mut writer = Writer::new(out);
    let len = 8 + body.iter().map(|part| part.len()).sum::<usize>();
    let start = writer.headers(&link, &network, protocol::ICMPV6, len)?;
    writer.put(&[kind, 0, 0, 0, 0, 0, high, low])?;
    body.iter().try_for_each(|part| writer.put(part))?;
    writer.finish(start, 2)
}

/// Reads a query. `None` if it is none, or one that must be ignored: it is not from the link, has no router alert,
/// or is damaged (RFC 3810, 6.2 and 8.1).
pub fn listener_asked<M: Mode>(packet: &Packet<'_, M>) -> Option<ListenerQuery> {
    let (icmp, ipv6) = (packet.icmpv6()?, packet.ipv6()?);
    let is_near = ipv6.hop_limit() == HOP_LIMIT && ipv6.src().is_unicast_link_local();
    if icmp.kind() != QUERY || !is_near || !has_router_alert(packet) {
        return None;
    }
    let body = packet.payload();
    let is_version_1 = body.len() == BODY_VERSION_1;
    if verify(packet).transport != Check::Valid || !(is_version_1 || body.len() >= BODY) {
        return None;
    }
    let group = Ipv6Addr::from(*chunk::<16>(body, 0)?);
    let is_known = group.is_unspecified() || group.is_multicast();
    let group = Some(group).filter(|group| group.is_multicast());
    is_known.then_some(ListenerQuery { group, is_version_1 })
}

/// Whether the packet's first options say that routers are to look at it, for listener discovery.
fn has_router_alert<M: Mode>(packet: &Packet<'_, M>) -> bool {
    let ip = packet.bytes().get(packet.layout().l3_offset()..).unwrap_or_default();
    let Some(&[next, ..]) = chunk::<34>(ip, 6) else { return false };
    let options = ip.get(41).and_then(|&units| ip.get(42..40 + (usize::from(units) + 1) * 8));
    let Some(mut options) = options.filter(|_| next == protocol::HOP_BY_HOP) else { return false };
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            // One byte of padding.
            (0, _) => rest,
            (ROUTER_ALERT, _) => return rest.starts_with(&[2, 0, 0]),
            (_, [len, rest @ ..]) => rest.get(usize::from(*len)..).unwrap_or_default(),
            (_, []) => return false,
        };
    }
    false
}
