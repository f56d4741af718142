//! Keys checked on packets: random pairs that satisfy a need are built as frames, parsed as the
//! NIC parses, and hashed bit by bit from the definition, with nothing of the solver's in between.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{
    Bits, Class, Equality, Field, Impossible, Need, Nic, PortSolution, Problem, SampleFrame, Side,
    Solution, Which, solve, solve_most,
};
use std::collections::{BTreeMap, BTreeSet};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// All fields of a packet, at random until something is said about them.
type Values = BTreeMap<Field, u128>;

fn values(random: &mut Random) -> Values {
    Field::HASHED.map(|field| (field, random.wide() >> (128 - field.width()))).into()
}

fn read(values: &Values, bits: Bits) -> u128 {
    let Bits { field, first, len } = bits;
    values[&field] >> (field.width() - first - len) & mask(len)
}

fn write(values: &mut Values, bits: Bits, value: u128) {
    let Bits { field, first, len } = bits;
    let shift = field.width() - first - len;
    let own = values.get_mut(&field).unwrap();
    *own = *own & !(mask(len) << shift) | (value & mask(len)) << shift;
}

fn mask(len: u16) -> u128 {
    u128::MAX >> (128 - len)
}

/// A random pair that satisfies all equalities of `need`.
fn pair(need: &Need, random: &mut Random) -> Option<[Values; 2]> {
    let mut packets = [values(random), values(random)];
    for _ in 0..3 {
        for Equality { terms, constant } in &need.equalities {
            let (last, others) = terms.split_last()?;
            let sum = others
                .iter()
                .fold(*constant, |sum, (which, bits)| sum ^ read(&packets[which.index()], *bits));
            write(&mut packets[last.0.index()], last.1, sum);
        }
    }
    let holds = |Equality { terms, constant }: &Equality| {
        let sum = terms.iter().map(|(which, bits)| read(&packets[which.index()], *bits));
        sum.fold(0, |sum, value| sum ^ value) == *constant
    };
    need.equalities.iter().all(holds).then_some(packets)
}

/// The frame of a packet of `class` with these fields; everything else in it is at random.
fn frame(class: Class, values: &Values, random: &mut Random) -> Vec<u8> {
    let mut frame = Vec::new();
    let put = |frame: &mut Vec<u8>, field: Field| {
        let bytes = usize::from(field.width() / 8);
        frame.extend(&values[&field].to_be_bytes()[16 - bytes..]);
    };
    put(&mut frame, Field::EthernetDst);
    put(&mut frame, Field::EthernetSrc);
    if random.below(2) == 0 {
        frame.extend([0x81, 0x00, 0x00, random.next() as u8]);
    }
    use Class as C;
    let protocol = match class {
        C::Ipv4Tcp | C::Ipv6Tcp => 6,
        C::Ipv4Udp | C::Ipv6Udp => 17,
        C::Ipv4Sctp | C::Ipv6Sctp => 132,
        C::Ipv6Fragment => 44,
        C::Ipv4Fragment => [6, 17, 132][random.below(3) as usize],
        _ => [1, 2, 47, 50, 58, 89][random.below(6) as usize],
    };
    match class {
        C::NonIp => frame.extend([0x08, 0x06]),
        C::Ipv4Tcp | C::Ipv4Udp | C::Ipv4Sctp | C::Ipv4Fragment | C::Ipv4 => {
            let options = random.below(3) as usize * 4;
            let fragment = if class == C::Ipv4Fragment { 0x20 } else { 0x40 };
            frame.extend([0x08, 0x00, 0x45 + options as u8 / 4, 0, 0, 60, 0, 0, fragment, 0]);
            frame.extend([64, protocol, 0, 0]);
            put(&mut frame, Field::Ipv4Src);
            put(&mut frame, Field::Ipv4Dst);
            frame.extend(vec![1; options]);
        }
        _ => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, protocol, 64]);
            put(&mut frame, Field::Ipv6Src);
            put(&mut frame, Field::Ipv6Dst);
        }
    }
    match class {
        C::Ipv4Tcp | C::Ipv6Tcp => [Field::TcpSrc, Field::TcpDst].map(|f| put(&mut frame, f)),
        C::Ipv4Udp | C::Ipv6Udp => [Field::UdpSrc, Field::UdpDst].map(|f| put(&mut frame, f)),
        C::Ipv4Sctp | C::Ipv6Sctp => [Field::SctpSrc, Field::SctpDst].map(|f| put(&mut frame, f)),
        _ => [(); 2],
    };
    if matches!(class, C::Ipv4Sctp | C::Ipv6Sctp) {
        put(&mut frame, Field::SctpTag);
    }
    frame.extend((0..32).map(|_| random.next() as u8));
    frame
}

/// The low `index_bits` bits of Microsoft's definition: the left-most 32 bits of a key that is
/// shifted left by one bit for each bit of the input.
fn entry(port: &PortSolution, frame: &[u8], index_bits: u32) -> (Class, u32) {
    let parsed = port.nic.parse(frame);
    let class = port.classes.iter().find(|class| class.class == parsed.class()).unwrap();
    let mut key: Vec<bool> = Vec::new();
    for byte in port.key.as_bytes() {
        key.extend((0..8).map(|bit| byte << bit & 0x80 != 0));
    }
    let mut hash = [false; 32];
    for byte in parsed.input(&class.input) {
        for bit in 0..8 {
            if byte << bit & 0x80 != 0 {
                hash.iter_mut().zip(&key).for_each(|(sum, key)| *sum ^= key);
            }
            key.remove(0);
        }
    }
    let low = &hash[32 - index_bits as usize..];
    (class.class, low.iter().fold(0, |entry, bit| entry << 1 | u32::from(*bit)))
}

/// Builds pairs of `need` and asserts that they meet; how many there were.
fn check(solution: &Solution, need: &Need, random: &mut Random, name: &str) -> usize {
    let mut checked = 0;
    for _ in 0..60 {
        let Some(packets) = pair(need, random) else { continue };
        let entries = [0, 1].map(|which| {
            let Side { port, class } = need.sides[which];
            let frame = frame(class, &packets[which], random);
            let port = &solution.ports[port];
            let (seen, entry) = entry(port, &frame, solution.index_bits);
            assert_eq!(seen, port.nic.seen_as(class), "{name}: {need}");
            assert_eq!(entry, solution.entry(need.sides[which].port, &frame), "{name}: {need}");
            entry
        });
        assert_eq!(entries[0], entries[1], "{name}: {need}\n{packets:x?}");
        checked += 1;
    }
    checked
}

/// Fields of `class` as a need may name them, MAC addresses rarely.
fn fields(class: Class, random: &mut Random) -> Vec<Field> {
    let chosen = class.fields().iter().copied().filter(|field| {
        let rare = matches!(field, Field::EthernetDst | Field::EthernetSrc);
        random.below(if rare { 12 } else { 3 }) == 0 || (!rare && random.below(2) == 0)
    });
    chosen.collect()
}

fn random_need(nics: &[&'static Nic], random: &mut Random) -> Need {
    let port = random.below(nics.len() as u64) as usize;
    let other = random.below(nics.len() as u64) as usize;
    let class = Class::ALL[random.below(11) as usize];
    let first = Side { port, class };
    let second = Side { port: other, class };
    let fields = fields(class, random);
    match random.below(6) {
        0 | 1 => Need::same(first, &fields),
        2 => Need::reply(first, second, &fields),
        3 => {
            let prefix = |field: Field| {
                let bits = field.prefix(1 + random.below(u64::from(field.width())) as u16);
                Equality::between(bits, bits)
            };
            Need::new(first, second, fields.iter().copied().map(prefix).collect())
        }
        4 => {
            let mut need = Need::reply(first, second, &fields);
            let bits = Bits { field: class.fields()[0], first: 3, len: 9 };
            need.equalities.push(Equality::constant(Which::Second, bits, random.wide() & 0x1ff));
            need
        }
        _ => {
            let xor = |field: &Field| Equality {
                terms: vec![
                    (Which::First, field.bits()),
                    (Which::First, field.swapped().bits()),
                    (Which::Second, field.bits()),
                    (Which::Second, field.swapped().bits()),
                ],
                constant: 0,
            };
            Need::new(first, second, fields.iter().map(xor).collect())
        }
    }
}

#[test]
fn random_needs_are_met_by_packets_on_every_nic() {
    let (mut solved, mut pairs) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let count = 1 + random.below(2) as usize;
        let nics: Vec<&'static Nic> =
            (0..count).map(|_| Nic::ALL[random.below(10) as usize]).collect();
        let mut problem = Problem::new(&nics).seed(seed);
        for _ in 0..1 + random.below(4) {
            problem = problem.need(random_need(&nics, &mut random));
        }
        let name = format!("seed {seed}, {nics:?}");
        match solve(&problem) {
            Ok(solution) => {
                solved += 1;
                for need in &problem.needs {
                    pairs += check(&solution, need, &mut random, &name);
                }
            }
            Err(Impossible::Unsteerable(classes)) => {
                assert!(!classes.is_empty(), "{name}");
                check_most(&problem, &mut random, &name);
            }
            Err(Impossible::Malformed(cause)) => panic!("{name}: {cause}"),
        }
    }
    assert!(solved > 100 && pairs > 5_000, "{solved} problems solved, {pairs} pairs");
}

/// Where not all classes can be served, those that are not left out are.
fn check_most(problem: &Problem, random: &mut Random, name: &str) {
    let most = solve_most(problem).unwrap();
    assert!(!most.left_out.is_empty(), "{name}");
    let seen =
        |side: Side| Side { class: problem.ports[side.port].nic.seen_as(side.class), ..side };
    let out: BTreeSet<Side> = most.left_out.iter().map(|class| class.side).collect();
    for need in &problem.needs {
        if !need.sides.iter().any(|side| out.contains(&seen(*side))) {
            check(&most.solution, need, random, name);
        }
    }
}

/// Every entry that the rank promises is reached by packets, and no other.
#[test]
fn the_rank_is_what_packets_reach() {
    for (seed, nic) in Nic::ALL.into_iter().enumerate() {
        let mut random = Random(seed as u64);
        let side = Side { port: 0, class: Class::Ipv4Tcp };
        let bits = Bits { field: Field::Ipv4Src, first: 0, len: 5 };
        let need = Need::new(side, side, vec![Equality::between(bits, bits)]);
        let solution = solve(&Problem::new(&[nic]).need(need).index_bits(7)).unwrap();
        let rank = solution.class(side).unwrap().rank;
        assert_eq!(rank, 5, "{nic:?}: five bits reach 32 entries at most");
        let entries: BTreeSet<u32> = (0..2_000)
            .map(|_| frame(side.class, &values(&mut random), &mut random))
            .map(|frame| entry(&solution.ports[0], &frame, 7).1)
            .collect();
        assert_eq!(entries.len() as u64, solution.class(side).unwrap().entries(), "{nic:?}");
    }
}

/// A key chosen with a sample balances that sample better than the same problem's key without.
#[test]
fn a_sample_is_balanced() {
    let nic = Nic::named("82599").unwrap();
    let side = Side { port: 0, class: Class::Ipv4Tcp };
    let need = Need::reply(side, side, &side.class.fields()[2..]);
    let mut random = Random(7);
    let mut packet = values(&mut random);
    // Few hosts, one server: what differs is little.
    let sample: Vec<SampleFrame> = (0..256)
        .map(|at| {
            packet.insert(Field::Ipv4Src, 0x0a00_0000 + at % 16);
            packet.insert(Field::TcpSrc, 0xc000 + at / 16 * 64);
            SampleFrame { port: 0, bytes: frame(side.class, &packet, &mut random) }
        })
        .collect();
    let mut wins = 0;
    for seed in 0..20 {
        let plain = Problem::new(&[nic]).need(need.clone()).seed(seed);
        let sampled = Problem { sample: sample.clone(), ..plain.clone() };
        let collisions = |problem: &Problem| {
            let solution = solve(problem).unwrap();
            assert_eq!(solution.class(side).unwrap().rank, 7);
            let mut counts = BTreeMap::new();
            for frame in &sample {
                *counts.entry(solution.entry(0, &frame.bytes)).or_insert(0u64) += 1;
            }
            counts.values().map(|count| count * count).sum::<u64>()
        };
        let (without, with) = (collisions(&plain), collisions(&sampled));
        assert!(with <= without, "seed {seed}: {with} > {without}");
        wins += usize::from(with < without);
    }
    assert!(wins > 5, "{wins}");
}

/// No frame, however short or strange, makes the parser fail or read past its end.
#[test]
fn any_bytes_are_parsed() {
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let class = Class::ALL[random.below(11) as usize];
        let mut bytes = frame(class, &values(&mut random), &mut random);
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        for nic in Nic::ALL {
            let parsed = nic.parse(&bytes);
            assert_eq!(nic.seen_as(parsed.class()), parsed.class());
            let input = nic.richest(parsed.class());
            let hashed = parsed.input(&input);
            assert!(hashed.len() * 8 == input.width() || hashed.is_empty());
        }
    }
}

/// Every packet bit that may spread packets does, and every class reaches every entry.
#[test]
fn keys_mix_all_that_may_be_mixed() {
    let classes = [Class::Ipv4Tcp, Class::Ipv4Udp, Class::Ipv6Tcp, Class::Ipv6Udp];
    for (seed, nic) in (0..20).flat_map(|seed| Nic::ALL.map(|nic| (seed, nic))) {
        let needs = classes.map(|class| {
            let [first, second] = [0, 1].map(|port| Side { port, class });
            let flow = &class.fields()[2..];
            // Equal flows meet under every key: nothing then helps a key to be even.
            if seed % 2 == 0 { Need::reply(first, second, flow) } else { Need::same(first, flow) }
        });
        let problem = Problem { needs: needs.into(), seed, ..Problem::new(&[nic, nic]) };
        let solution = solve(&problem).unwrap();
        let found = solution.ports.iter().flat_map(|port| &port.classes);
        for class in found.filter(|class| class.constrained) {
            let name = format!("{nic:?}, seed {seed}, {}", class.class);
            assert_eq!(class.rank, solution.index_bits, "{name}");
            for mixed in &class.mixes {
                assert_eq!(mixed.may_mix, mixed.field.width(), "{name} {}", mixed.field);
                assert_eq!(mixed.bits, mixed.may_mix, "{name} {}", mixed.field);
            }
            assert!(class.ignored.is_empty(), "{name}");
        }
    }
}
