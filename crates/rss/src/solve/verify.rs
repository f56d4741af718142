//! Whether given keys meet given needs, with two packets as the proof where they do not.

use crate::need::{FieldValues, PacketPair, Which};
use crate::nic::{HashInput, Hashing};
use crate::problem::Problem;
use crate::score::Columns;
use crate::solution::{Malformed, Solution};
use crate::solve::pairs::PairBit;
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
        let (columns, input): &(Columns, &HashInput) = match bit.which {
            Which::First => &first,
            Which::Second => &second,
        };
        input.offset(bit.field).map_or(0, |start| columns.at(start + usize::from(bit.bit)))
    };
    let differs = |bits: &[PairBit]| bits.iter().fold(0, |entry, bit| entry ^ added(*bit)) != 0;
    let generators = &setting.demands[need].generators;
    let fixed: Vec<PairBit> = generators.fixed().collect();
    let with_fixed = generators.free().map(|set| {
        let set: Vec<PairBit> = set.collect();
        fixed.iter().copied().chain(set).collect()
    });
    let packets =
        std::iter::once(fixed.clone()).chain(with_fixed).find(|bits: &Vec<_>| differs(bits));
    Some(Broken { need, pair: PacketPair { sides, packets: values(&packets?) } })
}

/// The packets in which exactly these bits are set; a bit named twice is not.
fn values(bits: &[PairBit]) -> [FieldValues; 2] {
    let mut packets = [FieldValues::default(), FieldValues::default()];
    for bit in bits {
        packets[bit.which.index()].flip(bit.field, bit.bit);
    }
    packets
}
