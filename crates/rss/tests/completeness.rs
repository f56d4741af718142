//! The solver against all keys there are, on instances small enough to try them.
//!
//! Two ports hash one field of 16 bits of which a need fixes all but five, and two bits select the
//! entry: six bits of each key decide everything, and all 4,096 pairs of keys are tried against all
//! 1,024 pairs of packets.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{
    Bits, Class, Equality, Field, FieldValues, HashInput, Impossible, Need, Nic, PacketPair,
    PortSpec, Problem, Side, Which, broken_needs, meets, solve, solve_with,
};

const FREE_BITS: u16 = 5;
const INDEX_BITS: u32 = 2;
/// Key bits that decide the entry, and those that a hash of 16 bits reaches at all.
const DECIDING: u32 = 6;
const REACHED: usize = 47;
const SIDES: [Side; 2] =
    [Side { port: 0, class: Class::Ipv4Tcp }, Side { port: 1, class: Class::Ipv4Tcp }];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) % limit
    }
}

fn bits(first: u16, len: u16) -> Bits {
    Bits { field: Field::TcpSrc, first, len }
}

/// One to three terms over the free bits.
fn equality(random: &mut Random) -> Equality {
    let len = 1 + random.below(3) as u16;
    let term = |random: &mut Random| {
        let which = if random.below(2) == 0 { Which::First } else { Which::Second };
        (which, bits(random.below(u64::from(FREE_BITS - len + 1)) as u16, len))
    };
    let terms = (0..1 + random.below(3)).map(|_| term(random)).collect();
    Equality { terms, constant: u128::from(random.below(1 << len)) }
}

fn need(random: &mut Random) -> Need {
    let fixed = bits(FREE_BITS, 16 - FREE_BITS);
    let mut equalities = vec![
        Equality::constant(Which::First, fixed, 0),
        Equality::constant(Which::Second, fixed, 0),
    ];
    equalities.extend((0..random.below(4)).map(|_| equality(random)));
    let side = |random: &mut Random| SIDES[random.below(2) as usize];
    Need::new(side(random), side(random), equalities)
}

fn problem(needs: Vec<Need>) -> Problem {
    let nic = Nic::named("cx5").unwrap();
    let input = HashInput::new(&[Field::TcpSrc]);
    let port = PortSpec::new(nic).pin(Class::Ipv4Tcp, input);
    Problem { ports: vec![port; 2], needs, index_bits: Some(INDEX_BITS), ..Problem::default() }
}

/// Whether `equality` holds between packets whose five free bits are these.
fn holds(equality: &Equality, free: [u16; 2]) -> bool {
    let value = |(which, bits): &(Which, Bits)| {
        let field = free[which.index()] << (16 - FREE_BITS);
        let from = field >> (16 - bits.first - bits.len);
        u128::from(from) & ((1 << bits.len) - 1)
    };
    equality.terms.iter().map(value).fold(0, |sum, value| sum ^ value) == equality.constant
}

/// The entry of a packet with these free bits, under the deciding bits of its port's key.
fn entry(key: u16, free: u16) -> u16 {
    let set = (0..FREE_BITS).filter(|bit| free >> (FREE_BITS - 1 - bit) & 1 == 1);
    set.fold(0, |entry, bit| entry ^ (key >> (DECIDING as u16 - 2 - bit) & 3))
}

fn pairs(need: &Need) -> Vec<[u16; 2]> {
    let all = (0..1 << FREE_BITS).flat_map(|x| (0..1 << FREE_BITS).map(move |y| [x, y]));
    all.filter(|pair| need.equalities.iter().all(|equality| holds(equality, *pair))).collect()
}

/// Pairs of keys, by their deciding bits, that meet all needs.
fn valid_keys(needs: &[Need]) -> usize {
    let pairs: Vec<(&Need, Vec<[u16; 2]>)> = needs.iter().map(|need| (need, pairs(need))).collect();
    let meets = |keys: [u16; 2]| {
        pairs.iter().all(|(need, pairs)| {
            let [first, second] = need.sides.map(|side| keys[side.port]);
            pairs.iter().all(|[x, y]| entry(first, *x) == entry(second, *y))
        })
    };
    let all = (0..1 << DECIDING).flat_map(|a| (0..1 << DECIDING).map(move |b| [a, b]));
    all.filter(|keys| meets(*keys)).count()
}

#[test]
fn the_solver_finds_all_keys_and_only_those() {
    let mut dimensions = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let mut random = Random(seed);
        let count = 1 + random.below(3);
        let mut needs: Vec<Need> = (0..count).map(|_| need(&mut random)).collect();
        // Both ports are spoken of, so that the bits of both keys are counted.
        needs.extend(SIDES.map(|side| Need::same(side, &[Field::TcpSrc])));
        let expected = valid_keys(&needs);
        let problem = problem(needs);
        let solution = solve(&problem).unwrap();
        let undecided = 2 * (REACHED - DECIDING as usize);
        assert_eq!(1 << (solution.dimension - undecided), expected, "seed {seed}: {problem:?}");
        assert_eq!(broken_needs(&problem, &solution), Ok(vec![]), "seed {seed}");
        dimensions.insert(expected);
    }
    assert!(dimensions.len() > 6, "the instances are too much alike: {dimensions:?}");
}

#[test]
fn a_key_is_called_broken_exactly_when_it_separates_a_pair() {
    let mut broken = 0;
    for seed in 0..300 {
        let mut random = Random(seed);
        let need = need(&mut random);
        // The keys of another problem.
        let other = solve(&problem(vec![]).seed(seed)).unwrap();
        let expected = pairs(&need).iter().any(|free| !meets(&other, &as_pair(&need, *free)));
        let found = broken_needs(&problem(vec![need.clone()]), &other).unwrap();
        assert_eq!(found.len(), usize::from(expected), "seed {seed}: {need}");
        for case in found {
            assert!(!meets(&other, &case.pair), "seed {seed}");
            let free = case.pair.packets.each_ref().map(|packet| {
                let value = packet.get(Field::TcpSrc) as u16;
                assert_eq!(value << FREE_BITS, 0, "seed {seed}: the fixed bits are zero");
                value >> (16 - FREE_BITS)
            });
            assert!(pairs(&need).contains(&free), "seed {seed}: the pair is not of the need");
            broken += 1;
        }
    }
    assert!((30..290).contains(&broken), "{broken}");
}

fn as_pair(need: &Need, free: [u16; 2]) -> PacketPair {
    let values =
        |free: u16| FieldValues(vec![(Field::TcpSrc, u128::from(free) << (16 - FREE_BITS))]);
    PacketPair { sides: need.sides, packets: free.map(values) }
}

/// A condition that is not linear: the second packet's bits are the first one's plus one. Closed
/// over by counter-examples, it leaves exactly the keys that meet it.
#[test]
fn counter_examples_close_over_a_sum() {
    let [first, second] = SIDES;
    let successor = |x: u16| (x + 1) % (1 << FREE_BITS);
    let mut rounds = 0;
    let solution = solve_with(&problem(vec![]), |solution| {
        rounds += 1;
        let pairs = (0..1 << FREE_BITS).map(|x| PacketPair {
            sides: [first, second],
            packets: [x, successor(x)].map(|free| {
                FieldValues(vec![(Field::TcpSrc, u128::from(free) << (16 - FREE_BITS))])
            }),
        });
        pairs.filter(|pair| !meets(solution, pair)).take(1).collect()
    })
    .unwrap();
    assert!((2..=13).contains(&rounds), "{rounds} rounds");
    let window = |port: usize, free: u16| {
        let values = FieldValues(vec![(Field::TcpSrc, u128::from(free) << (16 - FREE_BITS))]);
        let side = SIDES[port];
        let zero = FieldValues::default();
        meets(&solution, &PacketPair { sides: [side, side], packets: [values, zero] })
    };
    // x = 31 meets 0, whose entry is 0; x = 0 meets 1; and so on: every sum of them as well.
    assert!(window(0, 31) && window(1, 1));
}

#[test]
fn counter_examples_that_meet_already_end_the_search() {
    let pair = PacketPair { sides: SIDES, packets: Default::default() };
    let solved = solve_with(&problem(vec![]), |_| vec![pair.clone()]);
    assert!(matches!(solved, Err(Impossible::Malformed(anabranch_rss::Malformed::NoProgress))));
}
