//! Packets made by tests.

use std::net::{IpAddr, SocketAddr};

use anabranch_packet::MacAddr;
use anabranch_packet::craft::{self, Echo, Link, Segment};

const ROOM: usize = 256;

fn link() -> Link {
    let (src, dst) = (MacAddr::new(2, 0, 0, 0, 0, 1), MacAddr::new(2, 0, 0, 0, 0, 2));
    Link { src, dst, tags: [None; 2] }
}

fn written(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut bytes = vec![0; ROOM];
    let len = write(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// A UDP datagram between addresses as `10.0.0.1:5` or `[fd00::1]:5`.
pub fn udp(src: &str, dst: &str) -> Vec<u8> {
    udp_between(src.parse().unwrap(), dst.parse().unwrap())
}

/// A UDP datagram.
pub fn udp_between(src: SocketAddr, dst: SocketAddr) -> Vec<u8> {
    written(|out| craft::udp(out, &link(), src, dst, b"anabranch"))
}

/// A TCP segment with these flags.
pub fn tcp_between(src: SocketAddr, dst: SocketAddr, flags: u8) -> Vec<u8> {
    let segment = Segment { flags, window: 1_000, ..Segment::default() };
    written(|out| craft::tcp(out, &link(), src, dst, segment, b""))
}

/// An echo request or reply.
pub fn echo_between(src: IpAddr, dst: IpAddr, is_reply: bool, id: u16) -> Vec<u8> {
    let echo = Echo { is_reply, id, sequence: 1 };
    written(|out| craft::echo(out, &link(), src, dst, echo, b"anabranch"))
}

/// A frame of no known protocol between stations.
pub fn ethernet(src: MacAddr, dst: MacAddr) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&dst.octets());
    frame[6..12].copy_from_slice(&src.octets());
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}
