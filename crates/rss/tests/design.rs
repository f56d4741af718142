//! The table of DESIGN, section 3: dimensions of the spaces of keys of known network functions,
//! when IPv4 TCP packets are hashed by their 4-tuple.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{
    Class, Equality, Field, HashInput, Need, Nic, PortSpec, Problem, Side, Solution, solve,
};

const FOUR: [Field; 4] = [Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst];
const LAN: Side = Side { port: 0, class: Class::Ipv4Tcp };
const WAN: Side = Side { port: 1, class: Class::Ipv4Tcp };

/// Ports that hash the 4-tuple of TCP and nothing else that a need speaks of.
fn ports(count: usize) -> Problem {
    let nic = Nic::named("82599").unwrap();
    let port = PortSpec::new(nic).pin(Class::Ipv4Tcp, HashInput::new(&FOUR));
    let ipv6 = [Field::Ipv6Src, Field::Ipv6Dst];
    let port = [Class::Ipv6, Class::Ipv6Tcp, Class::Ipv6Udp]
        .into_iter()
        .fold(port, |port, class| port.pin(class, HashInput::new(&ipv6)));
    Problem { ports: vec![port; count], ..Problem::default() }
}

fn rank_of(solution: &Solution, side: Side, field: Field) -> u32 {
    let class = solution.class(side).unwrap();
    class.mixes.iter().find(|mixed| mixed.field == field).unwrap().rank
}

fn policer() -> Problem {
    ports(1).need(Need::same(LAN, &[Field::Ipv4Dst]))
}

#[test]
fn policer_with_9_bits() {
    let solution = solve(&policer().index_bits(9)).unwrap();
    assert_eq!(solution.dimension, 47);
    assert_eq!(solution.class(LAN).unwrap().rank, 9);
}

#[test]
fn nat_of_the_thesis() {
    let need = Need::new(
        LAN,
        WAN,
        vec![
            Equality::between(Field::Ipv4Dst.bits(), Field::Ipv4Src.bits()),
            Equality::between(Field::TcpDst.bits(), Field::TcpSrc.bits()),
        ],
    );
    let solution = solve(&ports(2).need(need).index_bits(9)).unwrap();
    assert_eq!(solution.dimension, 78);
    assert_eq!(rank_of(&solution, LAN, Field::Ipv4Dst), 9);
    assert_eq!(rank_of(&solution, LAN, Field::TcpDst), 9);
}
