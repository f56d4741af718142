//! TCP segments, UDP datagrams and ICMP echoes.

use super::{
    Link,
    writer::{Network, Writer},
};
use crate::layout::protocol;
use std::net::{IpAddr, SocketAddr};

/// The bits of [`Segment::flags`].
pub mod tcp_flags {
    /// No more from the sender.
    pub const FIN: u8 = 1;
    /// Opens a connection.
    pub const SYN: u8 = 1 << 1;
    /// Resets a connection.
    pub const RST: u8 = 1 << 2;
    /// Push.
    pub const PSH: u8 = 1 << 3;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 1 << 4;
}

/// What a TCP header says besides ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags, of [`tcp_flags`].
    pub flags: u8,
    /// Receive window.
    pub window: u16,
    /// The maximum segment size that is announced, in an option.
    pub mss: Option<u16>,
}

/// What an echo says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// Whether it is a reply, else a request.
    pub is_reply: bool,
    /// Identifier.
    pub id: u16,
    /// Sequence number.
    pub sequence: u16,
}

/// A TCP segment, with no options but a maximum segment size.
pub fn tcp(
    out: &mut [u8],
    link: &Link,
    src: SocketAddr,
    dst: SocketAddr,
    segment: Segment,
    payload: &[u8],
) -> Option<usize> {
    let network = Network::new(src.ip(), dst.ip());
    let mut header = [0; 24];
    let header_len = if segment.mss.is_some() { 24 } else { 20 };
    header[..2].copy_from_slice(&src.port().to_be_bytes());
    header[2..4].copy_from_slice(&dst.port().to_be_bytes());
    header[4..8].copy_from_slice(&segment.sequence.to_be_bytes());
    header[8..12].copy_from_slice(&segment.acknowledgement.to_be_bytes());
    header[12..14].copy_from_slice(&[header_len << 2, segment.flags]);
    header[14..16].copy_from_slice(&segment.window.to_be_bytes());
    let [high, low] = segment.mss.unwrap_or(0).to_be_bytes();
    header[20..].copy_from_slice(&[2, 4, high, low]);
    let header = header.get(..usize::from(header_len))?;
    let mut writer = Writer::new(out);
    let start = writer.headers(link, &network, protocol::TCP, header.len() + payload.len())?;
    writer.put(header)?;
    writer.put(payload)?;
    writer.finish(start, 16)
}

/// A UDP datagram.
pub fn udp(
    out: &mut [u8],
    link: &Link,
    src: SocketAddr,
    dst: SocketAddr,
    payload: &[u8],
) -> Option<usize> {
    let network = Network::new(src.ip(), dst.ip());
    let len = 8 + payload.len();
    let mut writer = Writer::new(out);
    let start = writer.headers(link, &network, protocol::UDP, len)?;
    writer.put(&src.port().to_be_bytes())?;
    writer.put(&dst.port().to_be_bytes())?;
    writer.put(&u16::try_from(len).ok()?.to_be_bytes())?;
    writer.put(&[0, 0])?;
    writer.put(payload)?;
    writer.finish(start, 6)
}

/// An ICMPv4 or ICMPv6 echo request or reply (RFC 792, RFC 4443), as the addresses are.
pub fn echo(
    out: &mut [u8],
    link: &Link,
    src: IpAddr,
    dst: IpAddr,
    echo: Echo,
    payload: &[u8],
) -> Option<usize> {
    let mut writer = Writer::new(out);
    let protocol = icmp_protocol(src);
    let network = Network::new(src, dst);
    let start = writer.headers(link, &network, protocol, 8 + payload.len())?;
    writer.put(&echo_header(src, echo))?;
    writer.put(payload)?;
    writer.finish(start, 2)
}

pub(super) fn icmp_protocol(address: IpAddr) -> u8 {
    if address.is_ipv4() { protocol::ICMPV4 } else { protocol::ICMPV6 }
}

pub(super) fn echo_header(address: IpAddr, echo: Echo) -> [u8; 8] {
    let kind = match (address.is_ipv4(), echo.is_reply) {
        (true, false) => 8,
        (true, true) => 0,
        (false, false) => 128,
        (false, true) => 129,
    };
    let ([a, b], [c, d]) = (echo.id.to_be_bytes(), echo.sequence.to_be_bytes());
    [kind, 0, 0, 0, a, b, c, d]
}
