//! The keys printed in the thesis (Pereira, "Parallel NF Synthesis", 2021), checked on all 32 bits.
//!
//! A key of which the text has only the first bytes is filled up with zeros: what is left out lies
//! past the 127 bits that a hash of 12 bytes reaches.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{
    Class, Equality, Field, GivenPort, Key, Need, Nic, Problem, Side, Solution, broken_needs,
};

const FOUR: [[Field; 4]; 2] = [
    [Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst],
    [Field::Ipv4Src, Field::Ipv4Dst, Field::UdpSrc, Field::UdpDst],
];
const CLASSES: [Class; 2] = [Class::Ipv4Tcp, Class::Ipv4Udp];

/// Table 4.2, policer.
const POLICER_LAN: &str = "01 20 01 00 01 24 01 42 01 00 01 14 01 90 01 76 00";
const POLICER_WAN: &str = "00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 01 36 41 95 96 f4 20 4f
    db 21 f3 fa 0d 0c 4e a2 f6 fc 3f 53 c8 98 14 e0 db d1 41 bd 4f 78 2a 86 ae 6b 1b 45 60";
/// Table 4.3, static bridge: both ports.
const BRIDGE: &str = "b1 a9 17 04 5d d9 72 a7 97 30 df 62 8f d9 d3 83 c7 c3 33 0f cf 5e f5 b9 9e
    b8 72 19 77 99 71 29 42 88 2d 9f 62 9f 47 f9 cf 26 5b 5e ff 2e e1 c6 f1 14 d5 c0";
/// Table 4.4, firewall.
const FIREWALL_LAN: &str = "20 00 24 22 24 22 20 00 20 00 24 22 20 00 24 23 00";
const FIREWALL_WAN: &str = "24 22 20 00 20 00 24 22 24 22 20 00 24 22 20 00";
/// Table 4.5, NAT, as the text has it.
const NAT_LAN: &str = "00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 01 2f b9 81 7b fc b0 21
    8a 12 b5 2f 75 5c d3 c8 92 da 7f bf 1a 63 69 d8 8d a2 2c 47 57 18 13 c6 47 cd 47 c2 c9";
const NAT_WAN: &str = "00 00 00 01 00";
/// Equation 3.21, the key of Woo and Park.
const WOO_AND_PARK: &str = "6d 5a 6d 5b 6d 5a 6d 5b 6d 5a 6d 5a 6d 5a 6d 5a 6d 5a 6d 5a 6d 5a 6d
    5a 6d 5a 6d 5a 6d 5a 6d 5a 6d 5a 6d 5a 6d 5a 6d 5a";
/// Equation 3.22, a symmetric key found by the thesis's solver.
const SYMMETRIC: &str = "50 04 50 05 50 04 50 05 50 04 50 04 50 04 50 04 74 5b 9a e5 c8 29 10 e6
    55 32 87 da 6e f0 6a fb 18 99 64 5a b7 68 32 34 47 2d 93 d7 37 25 aa ab 81 44 90 49";

fn bytes(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The key, filled up or cut to the 52 bytes of the thesis's NIC.
fn key(bytes: &[u8]) -> Key {
    let mut all = [0; 52];
    all.iter_mut().zip(bytes).for_each(|(byte, own)| *byte = *own);
    Key::of_52(all)
}

fn at(port: usize, class: Class) -> Side {
    Side { port, class }
}

/// How many of the needs, one list for TCP and one for UDP, these keys break on 32 bits.
fn broken(keys: &[Key], needs: impl Fn(Class, [Field; 4]) -> Vec<Need>) -> usize {
    let nic = Nic::named("x710").unwrap();
    let all = CLASSES.into_iter().zip(FOUR).flat_map(|(class, fields)| needs(class, fields));
    let problem = all.fold(Problem::new(&vec![nic; keys.len()]), Problem::need).index_bits(32);
    let port = |key: &Key| GivenPort { nic, key: *key, inputs: vec![] };
    let ports: Vec<GivenPort> = keys.iter().map(port).collect();
    broken_needs(&problem, &Solution::given(&ports, 32)).unwrap().len()
}

fn policer(class: Class, fields: [Field; 4]) -> Vec<Need> {
    vec![Need::same(at(1, class), &[fields[1]])]
}

fn firewall(class: Class, fields: [Field; 4]) -> Vec<Need> {
    vec![
        Need::same(at(0, class), &fields),
        Need::reply(at(0, class), at(1, class), &fields),
        Need::same(at(1, class), &fields),
    ]
}

fn nat(class: Class, [src, dst, src_port, dst_port]: [Field; 4]) -> Vec<Need> {
    let outside = vec![
        Equality::between(dst.bits(), src.bits()),
        Equality::between(dst_port.bits(), src_port.bits()),
    ];
    vec![Need::new(at(0, class), at(1, class), outside)]
}

fn symmetric(class: Class, fields: [Field; 4]) -> Vec<Need> {
    vec![Need::reply(at(0, class), at(0, class), &fields)]
}

/// Rank of TCP packets over IPv4 on all 32 bits.
fn rank(key: Key) -> u32 {
    let port = GivenPort { nic: Nic::named("x710").unwrap(), key, inputs: vec![] };
    Solution::given(&[port], 32).class(at(0, Class::Ipv4Tcp)).unwrap().rank
}

#[test]
fn table_4_2_serves_the_policer() {
    let keys = [key(&bytes(POLICER_LAN)), key(&bytes(POLICER_WAN))];
    assert_eq!(broken(&keys, policer), 0);
    assert_eq!(broken(&[keys[1], keys[0]], policer), 2);
    assert_eq!(rank(keys[1]), 32);
}

#[test]
fn table_4_3_spreads_what_needs_nothing() {
    assert_eq!(rank(key(&bytes(BRIDGE))), 32);
    assert_eq!(bytes(BRIDGE).len(), 52);
}

#[test]
fn table_4_4_serves_the_firewall() {
    let keys = [key(&bytes(FIREWALL_LAN)), key(&bytes(FIREWALL_WAN))];
    assert_eq!(broken(&keys, firewall), 0);
    assert_eq!(broken(&[keys[0], keys[0]], firewall), 2);
}

#[test]
fn table_4_5_has_a_zero_byte_too_many_for_the_nat() {
    let (lan, wan) = (bytes(NAT_LAN), key(&bytes(NAT_WAN)));
    assert_eq!(broken(&[key(&lan), wan], nat), 2, "as the text has it");
    // Its text says that the only bit set is the 64th; without a leading zero it is.
    assert_eq!(broken(&[key(&lan[1..]), wan], nat), 0);
    assert_eq!(lan[1..].iter().position(|byte| *byte != 0), Some(7));
}

#[test]
fn equations_3_21_and_3_22_are_symmetric() {
    for text in [WOO_AND_PARK, SYMMETRIC] {
        assert_eq!(broken(&[key(&bytes(text))], symmetric), 0);
        assert_eq!(broken(&[key(&bytes(text)[1..])], symmetric), 2, "shifted by a byte");
    }
    assert_eq!(broken(&[Key::MICROSOFT], symmetric), 2);
    assert_eq!((bytes(WOO_AND_PARK).len(), bytes(SYMMETRIC).len()), (40, 52));
}
