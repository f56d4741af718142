//! Arrays, slices, byte strings, and addresses.

use anabranch_nf::prelude::*;

/// Bytes and addresses.
#[network_function(ports(left, right))]
pub mod bytes {
    pub struct Idle {}

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    const GET: &[u8] = b"GET ";
    const SIZE: usize = 4;
    const ZERO: [u8; SIZE] = [0; SIZE];
    const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);

    fn sum(bytes: &[u8]) -> u64 {
        let mut total = 0;
        for byte in bytes {
            total += u64::from(*byte);
        }
        total
    }

    fn fill(bytes: &mut [u8; 4], with: u8) {
        for i in 0..SIZE {
            bytes[i] = with + i as u8;
        }
    }

    pub fn idiom_101(a: u16, b: u32, c: u64) -> u64 {
        let bytes = b.to_be_bytes();
        u64::from(bytes[0]) + u64::from(bytes[3])
    }

    pub fn idiom_102(a: u16, b: u32, c: u64) -> u64 {
        let parts = [a >> 8, a & 0xff];
        u64::from(parts[0] * parts[1])
    }

    pub fn idiom_103(a: u16, b: u32, c: u64) -> u64 {
        u64::from(u16::from_be_bytes([b as u8, a as u8]))
    }

    pub fn idiom_104(a: u16, b: u32, c: u64) -> u64 {
        sum(&c.to_be_bytes()) + sum(GET) + sum(&ZERO)
    }

    pub fn idiom_105(a: u16, b: u32, c: u64) -> u64 {
        let mut bytes = [0u8; 4];
        fill(&mut bytes, a as u8);
        u64::from(u32::from_be_bytes(bytes))
    }

    pub fn idiom_106(a: u16, b: u32, c: u64) -> u64 {
        let letters = [b'G', b'E', b'T', a as u8];
        letters.starts_with(b"GET") as u64 + GET.starts_with(&letters) as u64
    }

    pub fn idiom_107(a: u16, b: u32, c: u64) -> u64 {
        match GET.get(a as usize % 8) {
            Some(byte) => u64::from(*byte),
            None => 0,
        }
    }

    pub fn idiom_108(a: u16, b: u32, c: u64) -> u64 {
        let mut counts = [0u32; 16];
        for i in 0..8 {
            counts[(c >> (i * 8) & 0xf) as usize] += 1;
        }
        let mut most = 0;
        for count in counts {
            most = most.max(count);
        }
        u64::from(most)
    }

    pub fn idiom_109(a: u16, b: u32, c: u64) -> u64 {
        if b.to_be_bytes() == [10, 0, 0, 1] { 1 } else { 0 }
    }

    pub fn idiom_110(a: u16, b: u32, c: u64) -> u64 {
        let matrix = [[1u64, 2], [3, 4]];
        matrix[a as usize % 2][b as usize % 2]
    }

    pub fn idiom_111(a: u16, b: u32, c: u64) -> u64 {
        let ip = Ipv4Addr::from(b);
        let octets = ip.octets();
        u64::from(octets[0]) << 8 | u64::from(octets[3])
    }

    pub fn idiom_112(a: u16, b: u32, c: u64) -> u64 {
        let ip = Ipv4Addr::new(10, (b >> 16) as u8, (b >> 8) as u8, b as u8);
        u64::from(u32::from(ip))
    }

    pub fn idiom_113(a: u16, b: u32, c: u64) -> u64 {
        let ip = Ipv4Addr::from(b);
        ip.is_loopback() as u64
            + ip.is_multicast() as u64 * 2
            + ip.is_broadcast() as u64 * 4
            + ip.is_private() as u64 * 8
            + ip.is_unspecified() as u64 * 16
    }

    pub fn idiom_114(a: u16, b: u32, c: u64) -> u64 {
        (Ipv4Addr::from(b) == LOCAL) as u64
    }

    pub fn idiom_115(a: u16, b: u32, c: u64) -> u64 {
        let ip = Ipv6Addr::from(u128::from(c) << 64 | u128::from(b));
        let segments = ip.segments();
        u64::from(segments[0]) + u64::from(segments[7]) + u64::from(ip.octets()[15])
    }

    pub fn idiom_116(a: u16, b: u32, c: u64) -> u64 {
        let ip = Ipv6Addr::from([a, 0, 0, 0, 0, 0, 0, 1]);
        ip.is_multicast() as u64
    }

    pub fn idiom_117(a: u16, b: u32, c: u64) -> u64 {
        let mac = MacAddr::new(2, 0, (b >> 16) as u8, (b >> 8) as u8, b as u8, a as u8);
        mac.is_multicast() as u64 + mac.is_broadcast() as u64 + u64::from(mac.octets()[5])
    }

    pub fn idiom_118(a: u16, b: u32, c: u64) -> u64 {
        let prefix = 24u32;
        let mask = u32::MAX << (32 - prefix);
        ((b & mask) == (u32::from(LOCAL) & mask)) as u64
    }

    pub fn idiom_119(a: u16, b: u32, c: u64) -> u64 {
        match Ipv4Addr::from(b).octets() {
            octets if octets[0] == 127 => 1,
            octets => u64::from(octets[1]),
        }
    }

    pub fn idiom_120(a: u16, b: u32, c: u64) -> u64 {
        let port = Port::new(a as u8 & 1);
        (port == LEFT) as u64 + u64::from(port.other().index()) * 2
    }

    pub fn idiom_121(a: u16, b: u32, c: u64) -> u64 {
        let bytes = c.to_be_bytes();
        let mut copy = [0; 8];
        for i in 0..bytes.len() {
            copy[7 - i] = bytes[i];
        }
        u64::from_be_bytes(copy)
    }

    fn is_text(byte: u8) -> bool {
        matches!(byte, b'a'..=b'z' | b'A'..=b'Z') || matches!(byte, b' ' | b'.') && byte != 0
    }

    pub fn idiom_122(a: u16, b: u32, c: u64) -> u64 {
        let mut padded: [u8; SIZE * 2 + 8] = [0; SIZE * 2 + 8];
        let bytes = c.to_be_bytes();
        for i in 0..8 {
            padded[i + SIZE] = bytes[i];
        }
        let mut text = 0;
        for byte in padded {
            if is_text(byte) {
                text += 1;
            }
        }
        text + padded.len() as u64
    }
}
