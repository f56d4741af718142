//! What is said where there is no key, and what is served then.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{
    Cause, Class, Equality, Field, HashInput, Impossible, Malformed, Need, Nic, PortSpec, Problem,
    SampleFrame, Side, Unsteerable, Which, broken_needs, solve, solve_most,
};

const TCP4: Side = Side { port: 0, class: Class::Ipv4Tcp };
const TCP6: Side = Side { port: 0, class: Class::Ipv6Tcp };

fn problem(nic: &str, needs: &[Need]) -> Problem {
    let problem = Problem::new(&[Nic::named(nic).unwrap()]);
    needs.iter().cloned().fold(problem, Problem::need)
}

#[track_caller]
fn refused(problem: &Problem) -> Vec<Unsteerable> {
    match solve(problem) {
        Err(Impossible::Unsteerable(classes)) => classes,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn cause(nic: &str, needs: &[Need]) -> (Vec<usize>, Cause) {
    let classes = refused(&problem(nic, needs));
    let class = classes.iter().find(|class| class.side == TCP4).unwrap();
    (class.needs.clone(), class.cause.clone())
}

#[test]
fn disjoint_needs_are_named_and_no_others() {
    let source = Need::same(TCP4, &[Field::Ipv4Src]);
    let destination = Need::same(TCP4, &[Field::Ipv4Dst, Field::TcpSrc]);
    let flow = Need::same(TCP4, &TCP4.class.fields()[2..]);
    let found = cause("cx7", &[flow.clone(), source.clone(), flow.clone(), destination]);
    assert_eq!(found, (vec![1, 3], Cause::Disjoint));
    // A need that rules bits out, but none that the others would leave, is not to blame.
    let [by_source, by_destination] =
        [Field::Ipv4Src, Field::Ipv4Dst].map(|field| Need::same(TCP4, &[field]));
    let addresses = Need::same(TCP4, &[Field::Ipv4Src, Field::Ipv4Dst]);
    let found = cause("cx7", &[addresses, by_source, by_destination]);
    assert_eq!(found, (vec![1, 2], Cause::Disjoint));
    // What they have in common is enough.
    let both = Need::same(TCP4, &[Field::Ipv4Src, Field::Ipv4Dst]);
    assert!(solve(&problem("cx7", &[source, both])).is_ok());
}

#[test]
fn a_need_without_a_shared_field_is_called_so() {
    let always = Need::new(TCP4, TCP4, vec![]);
    assert_eq!(cause("cx7", &[always]), (vec![0], Cause::Always));
    let port = Equality::constant(Which::First, Field::TcpDst.bits(), 80);
    let to_one_port = Need::new(TCP4, TCP4, vec![port]);
    assert_eq!(cause("cx7", &[to_one_port]), (vec![0], Cause::Always));
    // A contradiction speaks of no packets.
    let both = [1, 2].map(|port| Equality::constant(Which::First, Field::TcpDst.bits(), port));
    assert!(solve(&problem("cx7", &[Need::new(TCP4, TCP4, both.to_vec())])).is_ok());
}

#[test]
fn what_is_not_hashed_on_the_other_side_counts_too() {
    let other = Side { port: 1, class: Class::Ipv4Tcp };
    let across = Need::new(
        TCP4,
        other,
        vec![Equality::between(Field::Ipv4Src.bits(), Field::Other(7).prefix(32))],
    );
    let nic = Nic::named("software").unwrap();
    let classes = refused(&Problem::new(&[nic, nic]).need(across));
    assert_eq!(classes.len(), 2);
    for class in classes {
        assert_eq!(class.cause, Cause::Unhashed(vec![Field::Other(7)]));
    }
}

#[test]
fn nothing_is_said_of_what_is_not_documented() {
    let arp = Side { port: 0, class: Class::NonIp };
    let classes = refused(&problem("ena", &[Need::same(arp, &[Field::EthernetSrc])]));
    assert_eq!((classes[0].side, &classes[0].cause), (arp, &Cause::Undocumented));
    // Where such packets go to queue 0, they meet.
    assert!(solve(&problem("virtio", &[Need::same(arp, &[Field::EthernetSrc])])).is_ok());
}

/// The policer over IPv4 and IPv6 under one key of fixed fields.
fn policer() -> Problem {
    let needs = [Need::same(TCP4, &[Field::Ipv4Dst]), Need::same(TCP6, &[Field::Ipv6Dst])];
    problem("x710", &needs)
}

#[test]
fn one_key_for_both_families_is_a_conflict_that_names_the_other_need() {
    let classes = refused(&policer());
    assert_eq!(classes.len(), 1);
    assert_eq!((&classes[0].needs[..], &classes[0].cause), (&[0][..], &Cause::Conflict(vec![1])));
    assert!(classes[0].to_string().contains("need 0: no key that serves this serves need 1 too"));
}

#[test]
fn most_is_served_and_a_sample_says_what_most_is() {
    let served = |problem: &Problem| {
        let most = solve_most(problem).unwrap();
        let broken = broken_needs(problem, &most.solution).unwrap();
        let out: Vec<usize> = broken.iter().map(|broken| broken.need).collect();
        let left: Vec<Side> = most.left_out.iter().map(|class| class.side).collect();
        (out, left)
    };
    assert_eq!(served(&policer()), (vec![1], vec![TCP6]));
    let mut frame = vec![0; 74];
    frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    frame[20] = 6;
    let sample = vec![SampleFrame { port: 0, bytes: frame }];
    // All IPv4 packets reach one entry then: they meet, and are left out all the same.
    assert_eq!(served(&Problem { sample, ..policer() }), (vec![], vec![TCP4]));
    let met = |problem: &Problem| solve_most(problem).unwrap().met;
    assert_eq!((met(&policer()), met(&policer().without(TCP6))), (vec![0], vec![0]));
    // Where nothing can be served, no need is met.
    assert_eq!(met(&problem("cx7", &[Need::new(TCP4, TCP4, vec![])])), [0; 0]);
    // Without the class that is in the way, there is a key.
    assert!(solve(&policer().without(TCP6)).is_ok());
}

#[test]
fn malformed_problems_are_refused() {
    let malformed = |problem: Problem| match solve(&problem) {
        Err(Impossible::Malformed(malformed)) => malformed,
        other => panic!("{other:?}"),
    };
    let flow = Need::same(TCP4, &[Field::Ipv4Src]);
    let elsewhere = Need::same(Side { port: 3, ..TCP4 }, &[Field::Ipv4Src]);
    let found = malformed(problem("cx5", &[flow.clone(), elsewhere]));
    assert_eq!(found, Malformed::NoSuchPort { need: Some(1), port: 3 });
    let uneven = Equality::between(Field::Ipv4Src.bits(), Field::TcpSrc.bits());
    let found = malformed(problem("cx5", &[Need::new(TCP4, TCP4, vec![uneven])]));
    assert_eq!(found, Malformed::Equality { need: 0, equality: 0 });
    for bits in [0, 33] {
        let found = malformed(problem("cx5", std::slice::from_ref(&flow)).index_bits(bits));
        assert_eq!(found, Malformed::IndexBits(bits));
    }
    let pins: [(&str, &[Field]); 4] = [
        ("x710", &[Field::Ipv4Dst]),
        ("cx5", &[Field::Ipv4Dst, Field::Ipv4Src]),
        ("cx5", &[Field::Ipv4Src, Field::EthernetSrc]),
        ("cx5", &[]),
    ];
    for (nic, fields) in pins {
        let input = HashInput::new(fields);
        let port = PortSpec::new(Nic::named(nic).unwrap()).pin(Class::Ipv4, input.clone());
        let found = malformed(Problem { ports: vec![port], ..Problem::default() });
        assert_eq!(found, Malformed::Pinned { port: 0, class: Class::Ipv4, input });
    }
    let sample = vec![SampleFrame { port: 1, bytes: vec![] }];
    let found = malformed(Problem { sample, ..problem("cx5", &[]) });
    assert_eq!(found, Malformed::NoSuchPort { need: None, port: 1 });
    assert!(solve(&Problem::default()).unwrap().ports.is_empty());
}
