//! Whether given keys meet given needs, with two packets as the proof where they do not.

use crate::field::Field;
use crate::need::{FieldValues, PacketPair, Which};
use crate::nic::Hashing;
use crate::problem::Problem;
use crate::score::Columns;
use crate::solution::{Malformed, Solution};
use crate::solve::pairs::PairBits;
use crate::solve::setting::Setting;

/// A need that keys do not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Index of the need.
    pub need: usize,
    /// Two packets that must meet and do not; of which nothing can be said where the NIC's maker
    /// does not document what it hashes.
    pub pair: PacketPair,
}

/// The needs of `problem` that `solution`, with its keys, fields and index bits, does not meet.
/// Exact: a need that is not named is met by all packets.
///
/// # Errors
/// [`Malformed`], as [`solve`](crate::solve).
pub fn broken_needs(problem: &Problem, solution: &Solution) -> Result<Vec<Broken>, Malformed> {
    let setting = Setting::new(problem)?;
    let needs = 0..problem.needs.len();
    Ok(needs.filter_map(|need| broken(&setting, need, solution)).collect())
}

fn broken(setting: &Setting, need: usize, solution: &Solution) -> Option<Broken> {
    let sides = setting.demands[need].sides;
    if sides.iter().any(|side| setting.hashing(*side) == Hashing::Undocumented) {
        return Some(Broken { need, pair: PacketPair { sides, packets: values(&[]) } });
    }
    let hashes = sides.map(|side| {
        let port = solution.ports.get(side.port)?;
        let input = &solution.class(side)?.input;
        Some((Columns::new(&port.key, solution.index_bits), input))
    });
    let [Some(first), Some(second)] = hashes else { return None };
    let added = |bit: PairBit| {
        let (columns, input) = if bit.0 == Which::First { &first } else { &second };
        input.offset(bit.1).map_or(0, |start| columns.at(start + usize::from(bit.2)))
    };
    let differs = |bits: &[PairBit]| bits.iter().fold(0, |entry, bit| entry ^ added(*bit)) != 0;
    let generators = &setting.demands[need].generators;
    let fixed: Vec<PairBit> = generators.fixed().flat_map(each).collect();
    let with_fixed = generators.runs().flat_map(|run| {
        let fixed = &fixed;
        (0..run.len()).map(move |set| {
            let of_set = run.bits().map(move |bits| (bits.which, bits.field, bits.first + set));
            fixed.iter().copied().chain(of_set).collect()
        })
    });
    let packets =
        std::iter::once(fixed.clone()).chain(with_fixed).find(|bits: &Vec<_>| differs(bits));
    Some(Broken { need, pair: PacketPair { sides, packets: values(&packets?) } })
}

/// A bit of a field of one of the two packets.
type PairBit = (Which, Field, u16);

fn each(bits: PairBits) -> impl Iterator<Item = PairBit> {
    (bits.first..bits.first + bits.len).map(move |bit| (bits.which, bits.field, bit))
}

/// The packets in which exactly these bits are set; a bit named twice is not.
fn values(bits: &[PairBit]) -> [FieldValues; 2] {
    let mut packets = [FieldValues::default(), FieldValues::default()];
    for (which, field, bit) in bits {
        packets[which.index()].flip(*field, *bit);
    }
    packets
}
