//! Microsoft's published RSS verification vectors ("Verifying the RSS Hash Calculation").

#![allow(clippy::unwrap_used)]

use anabranch_rss::{FieldSet, InputTooLong, Key, Steering, ToeplitzTable, toeplitz};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Destination, source, hash of the addresses, hash of addresses and TCP ports.
type Vector = (&'static str, u16, &'static str, u16, u32, u32);

const IPV4: [Vector; 5] = [
    ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
];

const IPV6: [Vector; 3] = [
    ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc1_8cd5, 0x4020_7d3d),
    ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
    (
        "fe80::200:f8ff:fe21:67cf",
        38024,
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        44251,
        0x4b61_e985,
        0x02d1_feef,
    ),
];

#[test]
fn ipv4_vectors() {
    let (two, four) = (Steering::new(FieldSet::TWO_TUPLE), Steering::new(FieldSet::FOUR_TUPLE));
    for (dst, dst_port, src, src_port, addresses, with_ports) in IPV4 {
        let (src, dst): (Ipv4Addr, Ipv4Addr) = (src.parse().unwrap(), dst.parse().unwrap());
        let ports = Some((src_port, dst_port));
        assert_eq!(two.hash_ipv4(src, dst, ports), addresses);
        assert_eq!(four.hash_ipv4(src, dst, ports), with_ports);
        assert_eq!(four.hash_ipv4(src, dst, None), addresses);
        check_all_ways(&[&src.octets(), &dst.octets()], ports, addresses, with_ports);
    }
}

#[test]
fn ipv6_vectors() {
    let (two, four) = (Steering::new(FieldSet::TWO_TUPLE), Steering::new(FieldSet::FOUR_TUPLE));
    for (dst, dst_port, src, src_port, addresses, with_ports) in IPV6 {
        let (src, dst): (Ipv6Addr, Ipv6Addr) = (src.parse().unwrap(), dst.parse().unwrap());
        let ports = Some((src_port, dst_port));
        assert_eq!(two.hash_ipv6(src, dst, ports), addresses);
        assert_eq!(four.hash_ipv6(src, dst, ports), with_ports);
        check_all_ways(&[&src.octets(), &dst.octets()], ports, addresses, with_ports);
    }
}

/// The bitwise hash, the table of any length, and the quick entry points agree with the vector.
fn check_all_ways(addresses: &[&[u8]; 2], ports: Option<(u16, u16)>, two: u32, four: u32) {
    let key = Key::MICROSOFT;
    let mut input = addresses.concat();
    assert_eq!(toeplitz(&key, &input), two);
    assert_eq!(ToeplitzTable::new(&key, input.len()).unwrap().hash(&input), two);
    let table = ToeplitzTable::full(&key);
    match input.len() {
        8 => assert_eq!(table.hash_8(input[..].try_into().unwrap()), two),
        _ => assert_eq!(table.hash_32(input[..].try_into().unwrap()), two),
    }
    let (src_port, dst_port) = ports.unwrap();
    input.extend_from_slice(&src_port.to_be_bytes());
    input.extend_from_slice(&dst_port.to_be_bytes());
    assert_eq!(toeplitz(&key, &input), four);
    match input.len() {
        12 => assert_eq!(table.hash_12(input[..].try_into().unwrap()), four),
        _ => assert_eq!(table.hash_36(input[..].try_into().unwrap()), four),
    }
}

#[test]
fn the_table_agrees_with_the_definition_on_random_keys_and_inputs() {
    let mut state = 1u64;
    let mut byte = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for _ in 0..200 {
        let key = Key::of_52(std::array::from_fn(|_| byte()));
        let input: [u8; 48] = std::array::from_fn(|_| byte());
        let table = ToeplitzTable::full(&key);
        for len in 0..=input.len() {
            assert_eq!(table.hash(&input[..len]), toeplitz(&key, &input[..len]));
        }
        assert_eq!(table.hash_4(input[..4].try_into().unwrap()), toeplitz(&key, &input[..4]));
    }
}

#[test]
fn a_table_for_shorter_inputs_ignores_the_rest() {
    let table = ToeplitzTable::new(&Key::MICROSOFT, 4).unwrap();
    let input = *b"abcdefghijkl";
    assert_eq!(table.hash(&input), toeplitz(&Key::MICROSOFT, b"abcd"));
    assert_eq!(table.hash_12(&input), toeplitz(&Key::MICROSOFT, b"abcd"));
}

#[test]
fn inputs_longer_than_the_key_allows_are_refused() {
    let refusal = ToeplitzTable::new(&Key::MICROSOFT, 37).unwrap_err();
    assert_eq!(refusal, InputTooLong { input_len: 37, max: 36 });
}
