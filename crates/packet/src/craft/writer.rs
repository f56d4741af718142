//! Bytes appended to a packet in the making.

use super::Link;
use crate::{
    MacAddr, Mode, Packet,
    checksum::Sum,
    layout::{ethertype, protocol},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an IP header is to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub hop_limit: u8,
    pub traffic_class: u8,
    /// Options of IPv6 that have routers look at it, for multicast listener discovery (RFC 2711).
    pub has_router_alert: bool,
}

impl Network {
    pub(super) fn new(src: IpAddr, dst: IpAddr) -> Self {
        Self { src, dst, hop_limit: 64, traffic_class: 0, has_router_alert: false }
    }

    fn ethertype(&self) -> u16 {
        if self.src.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 }
    }
}

/// A transport header under way: where it begins, and the sum of its pseudo header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transport {
    start: usize,
    pseudo: Sum,
    protocol: u8,
}

pub(super) struct Writer<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len())?;
        self.out.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// Writes over what was put before.
    pub(super) fn patch(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let written = self.out.get_mut(..self.len)?;
        written.get_mut(at..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    fn put_macs(&mut self, dst: MacAddr, src: MacAddr) -> Option<()> {
        self.put(&dst.octets())?;
        self.put(&src.octets())
    }

    fn put_u16(&mut self, value: u16) -> Option<()> {
        self.put(&value.to_be_bytes())
    }

    /// The Ethernet header, tags and type.
    pub(super) fn link(&mut self, link: &Link, ethertype: u16) -> Option<()> {
        self.put_macs(link.dst, link.src)?;
        let double = link.tags.iter().all(Option::is_some);
        let mut kind = if double { ethertype::QINQ } else { ethertype::VLAN };
        for id in link.tags.iter().flatten() {
            self.put_u16(kind)?;
            self.put_u16(id & 0xfff)?;
            kind = ethertype::VLAN;
        }
        self.put_u16(ethertype)
    }

    /// The Ethernet header of `original` back to its sender, with its tags and type. `src` is who
    /// answers; else whom it was addressed to.
    pub(super) fn link_back<M: Mode>(
        &mut self,
        original: &Packet<'_, M>,
        src: Option<MacAddr>,
    ) -> Option<()> {
        let ethernet = original.ethernet();
        self.put_macs(ethernet.src(), src.unwrap_or(ethernet.dst()))?;
        self.put(original.bytes().get(12..original.layout().l3_offset())?)
    }

    /// Ethernet and IP header before `len` bytes of a transport protocol.
    pub(super) fn headers(
        &mut self,
        link: &Link,
        network: &Network,
        protocol: u8,
        len: usize,
    ) -> Option<Transport> {
        self.link(link, network.ethertype())?;
        self.network(network, protocol, len)
    }

    /// An IP header before `len` bytes of a transport protocol.
    pub(super) fn network(
        &mut self,
        network: &Network,
        protocol: u8,
        len: usize,
    ) -> Option<Transport> {
        let pseudo = match (network.src, network.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.ipv4(network, src, dst, protocol, len)?,
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.ipv6(network, src, dst, protocol, len)?,
            _ => return None,
        };
        Some(Transport { start: self.len, pseudo, protocol })
    }

    /// Not to be fragmented, and so without an identification (RFC 6864, 4.1).
    fn ipv4(
        &mut self,
        network: &Network,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        protocol: u8,
        len: usize,
    ) -> Option<Sum> {
        let total_len = u16::try_from(len + 20).ok()?;
        let mut header = [0; 20];
        header[..2].copy_from_slice(&[0x45, network.traffic_class]);
        header[2..4].copy_from_slice(&total_len.to_be_bytes());
        header[6] = 0x40;
        header[8..10].copy_from_slice(&[network.hop_limit, protocol]);
        header[12..16].copy_from_slice(&src.octets());
        header[16..].copy_from_slice(&dst.octets());
        let checksum = Sum::new().bytes(&header).checksum();
        header[10..12].copy_from_slice(&checksum);
        self.put(&header)?;
        Some(Sum::new().ipv4(src, dst, protocol, len as u32))
    }

    fn ipv6(
        &mut self,
        network: &Network,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        protocol: u8,
        len: usize,
    ) -> Option<Sum> {
        let alert = [protocol, 0, 5, 2, 0, 0, 1, 0];
        let (next, options) = match network.has_router_alert {
            true => (protocol::HOP_BY_HOP, &alert[..]),
            false => (protocol, &[][..]),
        };
        let payload_len = u16::try_from(options.len() + len).ok()?;
        let class = network.traffic_class;
        self.put(&[0x60 | class >> 4, class << 4, 0, 0])?;
        self.put_u16(payload_len)?;
        self.put(&[next, network.hop_limit])?;
        self.put(&src.octets())?;
        self.put(&dst.octets())?;
        self.put(options)?;
        Some(Sum::new().ipv6(src, dst, protocol, len as u32))
    }

    /// Computes the checksum over all that was put since `transport`, and writes it at `offset`.
    pub(super) fn finish(self, transport: Transport, offset: usize) -> Option<usize> {
        let segment = self.out.get_mut(transport.start..self.len)?;
        let sum = if transport.protocol == protocol::ICMPV4 {
            Sum::new().bytes(segment)
        } else {
            transport.pseudo.bytes(segment)
        };
        let udp = transport.protocol == protocol::UDP;
        let checksum = if udp { sum.udp_checksum() } else { sum.checksum() };
        segment.get_mut(offset..offset + 2)?.copy_from_slice(&checksum);
        Some(self.len)
    }
}
