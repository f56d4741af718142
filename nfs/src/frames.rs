//! Frames for the tests of this crate.

use std::net::{IpAddr, SocketAddr};

use anabranch_nf::packet::checksum::Sum;
use anabranch_nf::packet::craft::{self, Echo, IcmpError, Link, Segment};
use anabranch_nf::packet::fragment::{Piece, cut};
use anabranch_nf::packet::{Frame, MacAddr, Meta, Packet, parse};

const ROOM: usize = 10_000;

fn link() -> Link {
    let (src, dst) = (MacAddr::new(2, 0, 0, 0, 0, 1), MacAddr::new(2, 0, 0, 0, 0, 2));
    Link { src, dst, tags: [None; 2] }
}

fn written(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut frame = vec![0; ROOM];
    let len = write(&mut frame).expect("the frame can be written");
    frame.truncate(len);
    frame
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A UDP datagram with a small payload, between addresses as `10.0.0.1:5` or `[fd00::1]:5`.
pub fn udp(src: &str, dst: &str) -> Vec<u8> {
    written(|out| craft::udp(out, &link(), socket(src), socket(dst), b"anabranch"))
}

/// A UDP datagram with this payload.
pub fn datagram(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    written(|out| craft::udp(out, &link(), socket(src), socket(dst), payload))
}

/// A TCP segment with this payload, in the middle of a connection.
pub fn segment(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let flags = craft::tcp_flags::ACK | craft::tcp_flags::PSH;
    let segment = Segment { flags, window: 1_000, ..Segment::default() };
    written(|out| craft::tcp(out, &link(), socket(src), socket(dst), segment, payload))
}

/// A TCP segment with these flags (`craft::tcp_flags`) and no payload.
pub fn tcp(src: &str, dst: &str, flags: u8) -> Vec<u8> {
    let segment = Segment { flags, window: 1_000, ..Segment::default() };
    written(|out| craft::tcp(out, &link(), socket(src), socket(dst), segment, b""))
}

/// An echo request or reply.
pub fn echo(src: &str, dst: &str, is_reply: bool, id: u16) -> Vec<u8> {
    let echo = Echo { is_reply, id, sequence: 1 };
    written(|out| craft::echo(out, &link(), address(src), address(dst), echo, b"anabranch"))
}

/// The IP packet with so many hops left.
pub fn hops(frame: &[u8], hops: u8) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    let (len, layout) = (bytes.len(), parse(&bytes, bytes.len() as u32));
    let mut frame = Frame::new(&mut bytes, 0, len, 0, Meta::default());
    let mut packet: Packet<'_> = Packet::new(&mut frame, layout);
    if let Some(mut ip) = packet.ipv4_mut() {
        ip.set_ttl(hops);
    } else if let Some(mut ip) = packet.ipv6_mut() {
        ip.set_hop_limit(hops);
    }
    bytes
}

/// The fragments of an IP packet, each of at most `longest` bytes from the IP header on.
pub fn fragments(frame: &[u8], longest: usize) -> Vec<Vec<u8>> {
    let mut frame = frame.to_vec();
    if frame[14] >> 4 == 6 {
        // Says for now that there are no others.
        let next = std::mem::replace(&mut frame[20], 44);
        frame.splice(54..54, [next, 0, 0, 0, 0, 0, 0, 7]);
        let len = frame.len() as u16 - 54;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
    }
    let layout = parse(&frame, frame.len() as u32);
    let (mut scratch, mut pieces) = (vec![0; ROOM], Vec::new());
    cut(&frame, layout, longest, &mut scratch, |piece| pieces.push(piece.to_vec()))
        .expect("a packet that can be cut");
    pieces
}

/// The IP packet of which these are the fragments, in any order.
pub fn joined<'f>(fragments: impl Iterator<Item = &'f Vec<u8>>) -> Vec<u8> {
    let place = |frame: &Vec<u8>| {
        let piece = Piece::of(frame, parse(frame, frame.len() as u32)).expect("a fragment");
        (piece.offset, piece.start, piece.more)
    };
    let mut all: Vec<_> = fragments.map(|frame| (place(frame), frame)).collect();
    all.sort();
    let ((_, start, _), first) = all[0];
    let mut whole = first[..start].to_vec();
    for (number, ((offset, start, more), frame)) in all.iter().enumerate() {
        assert_eq!((whole.len() - all[0].0.1, number + 1 < all.len()), (*offset, *more));
        whole.extend_from_slice(&frame[*start..]);
    }
    match whole[14] >> 4 {
        4 => {
            let len = whole.len() as u16 - 14;
            whole[16..18].copy_from_slice(&len.to_be_bytes());
            whole[20..22].fill(0);
            whole[24..26].fill(0);
            let checksum = Sum::new().bytes(&whole[14..34]).checksum();
            whole[24..26].copy_from_slice(&checksum);
        }
        _ => {
            let next = whole[54];
            whole.drain(54..62);
            let len = whole.len() as u16 - 54;
            whole[18..20].copy_from_slice(&len.to_be_bytes());
            whole[20] = next;
        }
    }
    whole
}

/// A frame of no known protocol between these stations.
pub fn ethernet(src: &str, dst: &str) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&mac(dst).octets());
    frame[6..12].copy_from_slice(&mac(src).octets());
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// As [`ethernet`], with an IEEE 802.1Q tag.
pub fn tagged(src: &str, dst: &str, vlan: u16) -> Vec<u8> {
    let mut frame = ethernet(src, dst);
    let [high, low] = vlan.to_be_bytes();
    frame.splice(12..12, [0x81, 0, high, low]);
    frame
}

fn mac(text: &str) -> MacAddr {
    text.parse().expect("an Ethernet address")
}

/// An ARP request.
pub fn arp(sender: &str, target: &str) -> Vec<u8> {
    let (IpAddr::V4(sender), IpAddr::V4(target)) = (address(sender), address(target)) else {
        panic!("ARP is for IPv4");
    };
    written(|out| craft::arp_request(out, link().src, sender, target))
}

/// The frame with Ethernet padding up to `len` bytes.
pub fn padded(mut frame: Vec<u8>, len: usize) -> Vec<u8> {
    frame.resize(len, 0);
    frame
}

/// The error that `sender` answers the packet in `original` with.
pub fn error(original: &[u8], sender: &str, error: IcmpError) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let (len, layout) = (bytes.len(), parse(&bytes, bytes.len() as u32));
    let mut frame = Frame::new(&mut bytes, 0, len, 0, Meta::default());
    let original: Packet<'_> = Packet::new(&mut frame, layout);
    written(|out| craft::icmp_error(out, &original, address(sender), error))
}

/// An ICMPv4 redirect in place of an error that a router sends from there (RFC 792).
pub fn redirect(original: &[u8], router: &str) -> Vec<u8> {
    let mut frame = error(original, router, IcmpError::TimeExceeded);
    let (_, icmp) = frame.split_at_mut(34);
    icmp[..2].copy_from_slice(&[5, 1]);
    icmp[2..4].fill(0);
    let checksum = Sum::new().bytes(icmp).checksum();
    icmp[2..4].copy_from_slice(&checksum);
    frame
}

/// A neighbour solicitation.
pub fn solicitation(sender: &str, target: &str) -> Vec<u8> {
    let (IpAddr::V6(sender), IpAddr::V6(target)) = (address(sender), address(target)) else {
        panic!("neighbour discovery is for IPv6");
    };
    written(|out| craft::neighbour_solicitation(out, link().src, sender, target, None))
}
