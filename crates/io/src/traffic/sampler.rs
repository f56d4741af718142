//! Which flow the next packet belongs to.

use super::random::Random;
use super::spec::Distribution;

/// Draws flows with given probabilities.
#[derive(Clone, Debug)]
pub struct Sampler {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uniform { flows: u32 },
    Alias(Vec<Cell>),
    Mice { elephants: u32, mice: u32, share: f64 },
}

/// One column of an alias table: with probability `keep / 2³²` the column's own flow, else the
/// other.
#[derive(Clone, Copy, Debug)]
struct Cell {
    keep: u32,
    other: u32,
}

impl Sampler {
    /// Draws from `flows` flows as `distribution` says.
    pub fn new(distribution: &Distribution, flows: u32) -> Self {
        let kind = match *distribution {
            Distribution::Uniform => Kind::Uniform { flows },
            Distribution::Zipf { exponent } => Kind::Alias(zipf(flows, exponent)),
            Distribution::Mice { share, elephants } => {
                let elephants =
                    ((f64::from(flows) * elephants).round() as u32).clamp(1, flows.max(1));
                Kind::Mice { elephants, mice: flows.saturating_sub(elephants), share }
            }
        };
        Self { kind }
    }

    /// A flow's rank, from 0: the most likely flows come first.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        match &self.kind {
            Kind::Uniform { flows } => random.below(*flows),
            Kind::Alias(cells) => draw_alias(cells, random),
            Kind::Mice { elephants, mice, share } => {
                if *mice == 0 || random.chance(*share) {
                    random.below(*elephants)
                } else {
                    elephants + random.below(*mice)
                }
            }
        }
    }
}

#[inline]
fn draw_alias(cells: &[Cell], random: &mut Random) -> u32 {
    // The product's upper half is the column, its lower half is how far into the column.
    let product = u128::from(random.next_u64()) * cells.len() as u128;
    let (column, within) = ((product >> 64) as u32, (product >> 32) as u32);
    match cells.get(column as usize) {
        Some(cell) if within >= cell.keep => cell.other,
        _ => column,
    }
}

/// An alias table (Vose 1991) of Zipf's law: rank `r` from 1 has weight `r^-exponent`. Exact to
/// within 2⁻³² of a column, and one random number a draw.
fn zipf(flows: u32, exponent: f64) -> Vec<Cell> {
    let mut weights: Vec<f64> = (1..=flows).map(|rank| f64::from(rank).powf(-exponent)).collect();
    let scale = f64::from(flows) / weights.iter().sum::<f64>();
    weights.iter_mut().for_each(|weight| *weight *= scale);
    let mut cells: Vec<Cell> = (0..flows).map(|own| Cell { keep: u32::MAX, other: own }).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) =
        (0..flows).partition(|&flow| weights[flow as usize] < 1.0);
    while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
        let weight = weights[poor as usize];
        cells[poor as usize] = Cell { keep: (weight * 4_294_967_296.0) as u32, other: rich };
        weights[rich as usize] -= 1.0 - weight;
        if weights[rich as usize] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 1_000_000;

    fn counts(distribution: &Distribution, flows: u32) -> Vec<u32> {
        let sampler = Sampler::new(distribution, flows);
        let mut random = Random::new(1);
        let mut counts = vec![0; flows as usize];
        (0..DRAWS).for_each(|_| counts[sampler.draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn zipf_ranks_have_the_shares_of_the_law() {
        for exponent in [0.5, 1.0, 1.1, 2.0] {
            let counts = counts(&Distribution::Zipf { exponent }, 1_000);
            let weight = |rank: usize| (rank as f64).powf(-exponent);
            let total: f64 = (1..=1_000).map(weight).sum();
            for rank in [1, 2, 3, 10, 100] {
                let expected = f64::from(DRAWS) * weight(rank) / total;
                let error = (f64::from(counts[rank - 1]) - expected).abs();
                assert!(error < 5.0 * expected.sqrt() + 1.0, "rank {rank}, exponent {exponent}");
            }
        }
    }

    #[test]
    fn elephants_carry_their_share() {
        let counts = counts(&Distribution::Mice { share: 0.8, elephants: 0.01 }, 1_000);
        let elephants: u32 = counts[..10].iter().sum();
        assert!((790_000..810_000).contains(&elephants), "{elephants}");
        assert!(counts[10..].iter().all(|&count| (100..350).contains(&count)));
    }

    #[test]
    fn uniform_flows_are_alike_and_single_flows_work() {
        assert!(
            counts(&Distribution::Uniform, 100)
                .iter()
                .all(|&count| (9_000..11_000).contains(&count))
        );
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipf { exponent: 1.1 },
            Distribution::Mice { share: 0.5, elephants: 0.5 },
        ] {
            assert_eq!(counts(&distribution, 1), [DRAWS]);
        }
    }
}
