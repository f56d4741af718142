//! What routers and hosts answer: ICMP errors and echo replies.

use super::{
    Echo,
    transport::{echo_header, icmp_protocol},
    writer::{Network, Writer},
};
use crate::{Mode, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An ICMPv4 error is at most 576 bytes long (RFC 1812, 4.3.2.3).
const IPV4_QUOTE_LEN: usize = 576 - 20 - 8;
/// An ICMPv6 error is at most 1280 bytes long, the least IPv6 MTU (RFC 4443, 2.4 (c)).
const IPV6_QUOTE_LEN: usize = 1280 - 40 - 8;
/// Internetwork control, as routers mark what they say (RFC 1812, 4.3.2.5).
const CONTROL_CLASS: u8 = 0xc0;

/// Why a packet is not forwarded, as ICMP can say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Its TTL or hop limit is spent.
    TimeExceeded,
    /// It does not fit the next link, which takes packets of `mtu` bytes.
    TooBig {
        /// The next link's MTU in bytes.
        mtu: u32,
    },
    /// There is no route.
    NetworkUnreachable,
    /// The neighbour does not answer.
    HostUnreachable,
    /// Nobody listens on the port.
    PortUnreachable,
    /// Policy forbids it.
    Prohibited,
}

impl IcmpError {
    /// Type, code, and the four bytes after the checksum (RFC 792, 1191, 1812).
    fn icmpv4(self) -> (u8, u8, u32) {
        match self {
            Self::TimeExceeded => (11, 0, 0),
            Self::TooBig { mtu } => (3, 4, mtu.min(0xffff)),
            Self::NetworkUnreachable => (3, 0, 0),
            Self::HostUnreachable => (3, 1, 0),
            Self::PortUnreachable => (3, 3, 0),
            Self::Prohibited => (3, 13, 0),
        }
    }

    /// Type, code, and the four bytes after the checksum (RFC 4443).
    fn icmpv6(self) -> (u8, u8, u32) {
        match self {
            Self::TimeExceeded => (3, 0, 0),
            Self::TooBig { mtu } => (2, 0, mtu),
            Self::NetworkUnreachable => (1, 0, 0),
            Self::HostUnreachable => (1, 3, 0),
            Self::PortUnreachable => (1, 4, 0),
            Self::Prohibited => (1, 1, 0),
        }
    }

    fn header(self, ipv4: bool) -> [u8; 8] {
        let (kind, code, rest) = if ipv4 { self.icmpv4() } else { self.icmpv6() };
        let [a, b, c, d] = rest.to_be_bytes();
        [kind, code, 0, 0, a, b, c, d]
    }
}

/// The error that `sender` answers `original` with, addressed back as it came.
///
/// `None` too where no error may be sent: in answer to errors, to what was sent to many, to
/// fragments but the first, and to sources that are not one host (RFC 1812, 4.3.2.7; RFC 4443,
/// 2.4 (e)).
pub fn icmp_error<M: Mode>(
    out: &mut [u8],
    original: &Packet<'_, M>,
    sender: IpAddr,
    error: IcmpError,
) -> Option<usize> {
    let dst = error_destination(original, error)?;
    let network = Network { traffic_class: CONTROL_CLASS, ..Network::new(sender, dst) };
    let quote = quote(original)?;
    let mut writer = Writer::new(out);
    writer.link_back(original, None)?;
    let start = writer.network(&network, icmp_protocol(dst), 8 + quote.len())?;
    writer.put(&error.header(dst.is_ipv4()))?;
    writer.put(quote)?;
    writer.finish(start, 2)
}

/// Whom to send an error about `original`, if anybody.
fn error_destination<M: Mode>(original: &Packet<'_, M>, error: IcmpError) -> Option<IpAddr> {
    let too_big = matches!(error, IcmpError::TooBig { .. });
    if let Some(ipv4) = original.ipv4() {
        let is_error =
            original.icmpv4().is_some_and(|icmp| icmp.is_error() || matches!(icmp.kind(), 4 | 5));
        let (src, dst) = (ipv4.src(), ipv4.dst());
        let to_many = original.ethernet().dst().is_multicast() || !is_ipv4_host(dst);
        let answered = !is_error && !to_many && is_ipv4_host(src) && ipv4.fragment_offset() == 0;
        return answered.then_some(IpAddr::V4(src));
    }
    let ipv6 = original.ipv6()?;
    let is_error = original.icmpv6().is_some_and(|icmp| icmp.is_error() || icmp.kind() == 137);
    let (src, dst) = (ipv6.src(), ipv6.dst());
    let to_many = original.ethernet().dst().is_multicast() || dst.is_multicast();
    let answered = !is_error && (!to_many || too_big) && is_ipv6_host(src);
    answered.then_some(IpAddr::V6(src))
}

fn is_ipv4_host(address: Ipv4Addr) -> bool {
    let [a, ..] = address.octets();
    a != 0 && a < 224 && !address.is_loopback()
}

fn is_ipv6_host(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
}

/// As much of the IP packet as an error may quote and the capture has.
fn quote<'p, M: Mode>(original: &'p Packet<'_, M>) -> Option<&'p [u8]> {
    let start = original.layout().l3_offset();
    let (len, limit) = match (original.ipv4(), original.ipv6()) {
        (Some(ipv4), _) => (usize::from(ipv4.total_len()), IPV4_QUOTE_LEN),
        (_, Some(ipv6)) => (usize::from(ipv6.payload_len()) + 40, IPV6_QUOTE_LEN),
        _ => return None,
    };
    let end = (start + len.min(limit)).min(original.bytes().len());
    original.bytes().get(start..end)
}

/// The reply to an echo request, addressed back as it came. `None` too for anything else, for
/// fragments, for requests to many, and where the payload was cut by the capture.
pub fn echo_reply<M: Mode>(out: &mut [u8], request: &Packet<'_, M>) -> Option<usize> {
    let layout = request.layout();
    if layout.is_fragment() || layout.end() > request.bytes().len() {
        return None;
    }
    let (network, echo) = echo_answer(request)?;
    let mut writer = Writer::new(out);
    writer.link_back(request, None)?;
    let len = 8 + request.payload().len();
    let start = writer.network(&network, icmp_protocol(network.src), len)?;
    writer.put(&echo_header(network.src, echo))?;
    writer.put(request.payload())?;
    writer.finish(start, 2)
}

fn echo_answer<M: Mode>(request: &Packet<'_, M>) -> Option<(Network, Echo)> {
    let (src, dst, id, sequence) = match (request.ipv4(), request.ipv6()) {
        (Some(ip), _) => {
            let icmp = request.icmpv4().filter(|icmp| icmp.kind() == 8 && icmp.code() == 0)?;
            let one_to_one = is_ipv4_host(ip.src()) && is_ipv4_host(ip.dst());
            one_to_one.then_some((ip.src().into(), ip.dst().into(), icmp.id(), icmp.sequence()))?
        }
        (_, Some(ip)) => {
            let icmp = request.icmpv6().filter(|icmp| icmp.kind() == 128 && icmp.code() == 0)?;
            let one_to_one = is_ipv6_host(ip.src()) && is_ipv6_host(ip.dst());
            one_to_one.then_some((ip.src().into(), ip.dst().into(), icmp.id(), icmp.sequence()))?
        }
        _ => return None,
    };
    Some((Network::new(dst, src), Echo { is_reply: true, id, sequence }))
}
