//! The table of dimensions: spaces of keys of known network functions when IPv4 TCP packets are
//! hashed by their 4-tuple, with all 32 bits of the hash equal and with the 9 that select the
//! entry.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{
    Cause, Class, Equality, Field, HashInput, Impossible, Need, Nic, PortSpec, Problem, Side,
    Solution, solve,
};

const FOUR: [Field; 4] = [Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst];
const LAN: Side = Side { port: 0, class: Class::Ipv4Tcp };
const WAN: Side = Side { port: 1, class: Class::Ipv4Tcp };

/// Ports that hash the 4-tuple of IPv4 TCP packets.
fn ports(count: usize) -> Problem {
    let nic = Nic::named("82599").unwrap();
    let port = PortSpec::new(nic).pin(Class::Ipv4Tcp, HashInput::new(&FOUR));
    Problem { ports: vec![port; count], ..Problem::default() }
}

fn rank_of(solution: &Solution, side: Side, field: Field) -> u32 {
    let class = solution.class(side).unwrap();
    class.mixes.iter().find(|mixed| mixed.field == field).unwrap().rank
}

#[track_caller]
fn solved(problem: &Problem, index_bits: u32, dimension: usize) -> Solution {
    let solution = solve(&problem.clone().index_bits(index_bits)).unwrap();
    assert_eq!(solution.dimension, dimension);
    solution
}

fn policer() -> Problem {
    ports(1).need(Need::same(LAN, &[Field::Ipv4Dst]))
}

fn nat_of_the_thesis() -> Problem {
    let outside = vec![
        Equality::between(Field::Ipv4Dst.bits(), Field::Ipv4Src.bits()),
        Equality::between(Field::TcpDst.bits(), Field::TcpSrc.bits()),
    ];
    ports(2).need(Need::new(LAN, WAN, outside))
}

fn inside_endpoint() -> Problem {
    ports(1).need(Need::same(LAN, &[Field::Ipv4Src, Field::TcpSrc]))
}

fn firewall() -> Problem {
    let needs = [Need::same(LAN, &FOUR), Need::reply(LAN, WAN, &FOUR), Need::same(WAN, &FOUR)];
    needs.into_iter().fold(ports(2), Problem::need)
}

/// Where a device says how large its table is, it does so in 16 bits.
#[test]
fn no_table_is_larger_than_a_device_can_say() {
    for (nic, has, lacks) in [
        ("virtio", &[7, 1, 15][..], &[0, 16, 32, 40][..]),
        ("gvnic", &[7, 9, 15], &[0, 16, 32]),
        ("e810", &[6, 7, 9, 11], &[0, 8, 10, 12, 32]),
    ] {
        let nic = Nic::named(nic).unwrap();
        assert!(has.iter().all(|bits| nic.has_table_of(*bits)), "{}", nic.name);
        assert!(!lacks.iter().any(|bits| nic.has_table_of(*bits)), "{}", nic.name);
    }
}

#[test]
fn the_policer_has_one_key_with_32_bits_and_two_to_the_47_with_9() {
    let solution = solved(&policer(), 32, 1);
    // The only key but zero spreads two destinations apart; on 32 bits its rank is still full.
    assert_eq!(rank_of(&solution, LAN, Field::Ipv4Dst), 32);
    let solution = solved(&policer(), 9, 47);
    assert_eq!(solution.class(LAN).unwrap().rank, 9);
    for ignored in [Field::Ipv4Src, Field::TcpSrc, Field::TcpDst] {
        assert_eq!(rank_of(&solution, LAN, ignored), 0);
    }
}

#[test]
fn the_nat_of_the_thesis_has_one_key_with_32_bits_and_two_to_the_78_with_9() {
    let solution = solved(&nat_of_the_thesis(), 32, 1);
    assert_eq!(rank_of(&solution, LAN, Field::TcpDst), 0);
    let solution = solved(&nat_of_the_thesis(), 9, 78);
    for (side, address, port) in
        [(LAN, Field::Ipv4Dst, Field::TcpDst), (WAN, Field::Ipv4Src, Field::TcpSrc)]
    {
        assert_eq!(solution.class(side).unwrap().rank, 9);
        assert_eq!((rank_of(&solution, side, address), rank_of(&solution, side, port)), (9, 9));
    }
}

#[test]
fn the_inside_endpoint_spreads_by_its_port_with_9_bits_only() {
    let solution = solve(&inside_endpoint().index_bits(32)).unwrap();
    assert_eq!(rank_of(&solution, LAN, Field::TcpSrc), 0);
    let solution = solved(&inside_endpoint(), 9, 63);
    assert_eq!(rank_of(&solution, LAN, Field::TcpSrc), 9);
    assert_eq!(rank_of(&solution, LAN, Field::Ipv4Src), 9);
}

#[test]
fn the_firewall_has_two_to_the_34_keys_with_32_bits_and_full_rank_with_9() {
    let solution = solved(&firewall(), 32, 34);
    assert!(solution.class(LAN).unwrap().rank > 9);
    let solution = solve(&firewall().index_bits(9)).unwrap();
    for side in [LAN, WAN] {
        let class = solution.class(side).unwrap();
        assert_eq!(class.rank, 9);
        assert!(class.mixes.iter().all(|mixed| mixed.bits == mixed.may_mix));
        assert!(class.mixes.iter().all(|mixed| mixed.bits == mixed.field.width()));
    }
}

#[test]
fn woo_and_parks_symmetric_keys_are_two_to_the_17() {
    let need = Need::reply(LAN, LAN, &FOUR);
    solved(&ports(1).need(need), 32, 17);
}

#[test]
fn a_bridge_is_impossible_in_a_nic_and_easy_in_software() {
    let bridge = |name| {
        let side = Side { port: 0, class: Class::NonIp };
        let nic = Nic::named(name).unwrap();
        solve(
            &Problem::new(&[nic])
                .need(Need::same(LAN, &[Field::EthernetSrc]))
                .need(Need::same(side, &[Field::EthernetSrc])),
        )
    };
    let Err(Impossible::Unsteerable(classes)) = bridge("e810") else { panic!() };
    assert_eq!(classes.len(), 1);
    assert_eq!((classes[0].side, &classes[0].needs[..]), (LAN, &[0][..]));
    assert_eq!(classes[0].cause, Cause::Unhashed(vec![Field::EthernetSrc]));
    let solution = bridge("software").unwrap();
    for class in [LAN, Side { class: Class::NonIp, ..LAN }] {
        let class = solution.class(class).unwrap();
        assert_eq!(class.input, HashInput::new(&[Field::EthernetSrc]));
        assert_eq!((class.rank, class.mixes[0].bits), (9, 48));
    }
}
