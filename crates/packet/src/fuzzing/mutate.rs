//! Seeded packets and mutations, for machines without a fuzzer.

use crate::{
    Frame, Layout, Meta, Packet,
    checksum::Sum,
    craft::{self, Echo, IcmpError, Link, Segment},
    parse,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Pseudo-random numbers from a seed (SplitMix64, Steele et al., 2014).
#[derive(Clone, Debug)]
pub struct Seeds(u64);

impl Seeds {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit.max(1) as u64) as usize
    }

    /// Changes one to four bytes, or cuts the end off: mostly in the headers.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let reach = if self.below(4) == 0 { bytes.len() } else { bytes.len().min(80) };
            let (at, value) = (self.below(reach), self.interesting());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if self.below(4) == 0 {
            bytes.truncate(self.below(bytes.len() + 1));
        }
    }

    fn interesting(&mut self) -> u8 {
        const VALUES: [u8; 16] =
            [0, 1, 4, 6, 8, 17, 43, 44, 51, 58, 60, 0x40, 0x45, 0x60, 0x81, 0xff];
        let [random, choice, ..] = self.draw().to_le_bytes();
        VALUES.get(usize::from(choice)).copied().unwrap_or(random)
    }
}

/// Well-formed packets of every kind, with right checksums: with and without tags, IPv4 options,
/// TCP with and without options, IPv6 extension headers, fragments, UDP without checksum, errors that quote, ARP and neighbours.
pub fn samples() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for tags in [[None, None], [Some(7), None], [Some(7), Some(4000)]] {
        let link = Link { src: [2, 0, 0, 0, 0, 1].into(), dst: [2, 0, 0, 0, 0, 2].into(), tags };
        for (src, dst) in [v4_ends(), v6_ends()] {
            let plain = transports(&link, src, dst);
            all.extend(plain.iter().flat_map(|packet| variants(packet)));
            all.extend(plain.iter().flat_map(|packet| errors(packet, dst.ip())));
            all.extend(plain);
        }
    }
    all.extend(neighbours());
    all
}

fn v4_ends() -> (SocketAddr, SocketAddr) {
    let host = |last, port| (IpAddr::V4(Ipv4Addr::new(10, 1, 2, last)), port).into();
    (host(3, 40_000), host(4, 443))
}

fn v6_ends() -> (SocketAddr, SocketAddr) {
    let net = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 2, 3, 4, last));
    ((net(3), 40_000).into(), (net(4), 443).into())
}

fn crafted_by(craft: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut out = vec![0; 1_600];
    let len = craft(&mut out).unwrap_or(0);
    out.truncate(len);
    out
}

fn transports(link: &Link, src: SocketAddr, dst: SocketAddr) -> Vec<Vec<u8>> {
    // With options over IPv4.
    let mss = src.is_ipv4().then_some(1_460);
    let segment = Segment { sequence: 1, acknowledgement: 2, flags: 0x18, window: 3, mss };
    let request = Echo { is_reply: false, id: 77, sequence: 5 };
    let payload: Vec<u8> = (0..101).collect();
    vec![
        crafted_by(|out| craft::tcp(out, link, src, dst, segment, &payload)),
        crafted_by(|out| craft::udp(out, link, src, dst, &payload)),
        crafted_by(|out| craft::echo(out, link, src.ip(), dst.ip(), request, &payload)),
    ]
}

/// Runs `use_of` on the packet in `bytes`.
pub fn with_packet<T>(bytes: &mut [u8], use_of: impl FnOnce(Packet<'_>) -> T) -> T {
    let wire_len = bytes.len() as u32;
    let layout = parse(bytes, wire_len);
    let (len, meta) = (bytes.len(), Meta { wire_len, ..Meta::default() });
    use_of(Packet::new(&mut Frame::new(bytes, 0, len, 0, meta), layout))
}

/// Errors about the packet, of whole and of little quote, and the error answered to nobody.
fn errors(packet: &[u8], router: IpAddr) -> Vec<Vec<u8>> {
    let kinds = [IcmpError::TimeExceeded, IcmpError::TooBig { mtu: 1_400 }];
    let about = |error| {
        let mut packet = packet.to_vec();
        crafted_by(|out| with_packet(&mut packet, |p| craft::icmp_error(out, &p, router, error)))
    };
    kinds.into_iter().map(about).collect()
}

fn neighbours() -> Vec<Vec<u8>> {
    let (mac, last) = ([2, 0, 0, 0, 0, 1].into(), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9));
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut request = crafted_by(|out| craft::arp_request(out, mac, a, b));
    let mut asked =
        crafted_by(|out| craft::neighbour_solicitation(out, mac, Ipv6Addr::LOCALHOST, last, None));
    let reply = |out: &mut [u8]| with_packet(&mut request, |p| craft::arp_reply(out, &p, mac));
    let reply = crafted_by(reply);
    let told = crafted_by(|out| {
        with_packet(&mut asked, |p| craft::neighbour_advertisement(out, &p, mac, true))
    });
    vec![request, reply, asked, told]
}

/// The packet with options or extension headers, as fragments, and without UDP checksum.
fn variants(packet: &[u8]) -> Vec<Vec<u8>> {
    let layout = parse(packet, packet.len() as u32);
    let mut all = if layout.has_ipv4() {
        vec![
            with_ipv4_options(packet, layout),
            ipv4_fragment(packet, layout, 0x2000),
            ipv4_fragment(packet, layout, 3),
        ]
    } else {
        let routing = |left| {
            [
                layout.protocol(),
                2,
                0,
                left,
                0,
                0,
                0,
                0,
                0x20,
                1,
                0xd,
                0xb8,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                8,
            ]
        };
        vec![
            with_extension(packet, layout, 60, &[layout.protocol(), 0, 1, 4, 0, 0, 0, 0]),
            with_extension(packet, layout, 51, &authentication(layout.protocol())),
            with_extension(packet, layout, 43, &routing(0)),
            with_extension(packet, layout, 43, &routing(1)),
            with_extension(packet, layout, 44, &[layout.protocol(), 0, 0, 0, 0, 0, 0, 9]),
            with_extension(packet, layout, 44, &[layout.protocol(), 0, 0, 1, 0, 0, 0, 9]),
            with_extension(packet, layout, 44, &[layout.protocol(), 0, 0, 0x10, 0, 0, 0, 9]),
        ]
    };
    if layout.has_udp() {
        all.push(patched(packet, layout.l4_offset() + 6, &[0, 0]));
    }
    all
}

/// An authentication header with twelve bytes of proof (RFC 4302).
fn authentication(next: u8) -> [u8; 24] {
    let mut header = [9; 24];
    header[..4].copy_from_slice(&[next, 4, 0, 0]);
    header
}

fn patched(packet: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for (to, from) in packet.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
    packet
}

/// Inserts `bytes` before the transport header.
fn inserted(packet: &[u8], layout: Layout, bytes: &[u8]) -> Vec<u8> {
    let (headers, segment) = packet.split_at(layout.l4_offset().min(packet.len()));
    [headers, bytes, segment].concat()
}

fn with_extension(packet: &[u8], layout: Layout, kind: u8, extension: &[u8]) -> Vec<u8> {
    let ip = layout.l3_offset();
    let len = (packet.len() - ip - 40 + extension.len()) as u16;
    let packet = patched(&inserted(packet, layout, extension), ip + 4, &len.to_be_bytes());
    patched(&packet, ip + 6, &[kind])
}

fn with_ipv4_options(packet: &[u8], layout: Layout) -> Vec<u8> {
    let (ip, router_alert) = (layout.l3_offset(), [0x94, 4, 0, 0, 1, 1, 1, 0]);
    let len = (packet.len() - ip + router_alert.len()) as u16;
    let packet = patched(&inserted(packet, layout, &router_alert), ip, &[0x47]);
    with_ipv4_checksum(&patched(&packet, ip + 2, &len.to_be_bytes()), ip, 28)
}

fn ipv4_fragment(packet: &[u8], layout: Layout, field: u16) -> Vec<u8> {
    let ip = layout.l3_offset();
    with_ipv4_checksum(&patched(packet, ip + 6, &field.to_be_bytes()), ip, 20)
}

fn with_ipv4_checksum(packet: &[u8], ip: usize, len: usize) -> Vec<u8> {
    let packet = patched(packet, ip + 10, &[0, 0]);
    let checksum = Sum::new().bytes(packet.get(ip..ip + len).unwrap_or_default()).checksum();
    patched(&packet, ip + 10, &checksum)
}
