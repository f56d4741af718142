//! The choice: fields for each class, then one of the keys.

use crate::key::Key;
use crate::need::{PacketPair, Side};
use crate::nic::{HashInput, Hashing};
use crate::problem::Problem;
use crate::random::Random;
use crate::solution::{
    Cause, ClassSolution, Impossible, PortSolution, Solution, Unsteerable, index_mask,
};
use crate::solve::score::{self, mixes, rank};
use crate::solve::space::{Demand, KeyBits, keys, space};
use crate::solve::system::Space;
use crate::solve::usable::Usable;

/// Keys that are drawn before the best one is taken.
const DRAWS: usize = 24;
/// Choices of fields that are tried before the best one is taken.
const MAX_ATTEMPTS: usize = 64;

pub(crate) fn choose(
    problem: &Problem,
    index_bits: u32,
    sides: &[Side],
    demands: &[Demand],
    pairs: &[PacketPair],
    usable: &Usable,
) -> Result<Solution, Impossible> {
    let constrained = |side: &Side| demands.iter().any(|demand| demand.sides.contains(side));
    let classes: Vec<Choice> = sides
        .iter()
        .map(|side| {
            let constrained = constrained(side);
            let candidates = candidates(problem, usable, *side, constrained);
            Choice { side: *side, constrained, candidates }
        })
        .collect();
    let search = Search {
        problem,
        index_bits,
        demands,
        pairs,
        bits: KeyBits::new(problem.ports.iter().map(|port| port.nic.key_len)),
        classes,
    };
    let best = search.run();
    let stuck = search.stuck(&best);
    if !stuck.is_empty() {
        return Err(Impossible::Unsteerable(stuck));
    }
    Ok(search.solution(&best))
}

/// A class and the lists of fields that may be hashed for it, the most promising one first.
struct Choice {
    side: Side,
    constrained: bool,
    candidates: Vec<HashInput>,
}

/// The lists of fields that are worth trying for `side`.
fn candidates(problem: &Problem, usable: &Usable, side: Side, constrained: bool) -> Vec<HashInput> {
    let pinned = problem.ports[side.port].pinned.iter();
    let mut pinned =
        pinned.filter(|(class, _)| super::seen(problem, Side { class: *class, ..side }) == side);
    if let Some((_, input)) = pinned.next() {
        return vec![input.clone()];
    }
    match super::hashing(problem, side) {
        Hashing::OneOf(lists) => {
            let mut inputs: Vec<HashInput> =
                lists.iter().map(|fields| HashInput::new(fields)).collect();
            let rank = |input: &HashInput| {
                let spreads = usable.count(side, input);
                (usize::MAX - spreads, input.width() - spreads)
            };
            inputs.sort_by_key(rank);
            inputs
        }
        Hashing::AnyOf(fields) => {
            let useful: Vec<_> = fields
                .iter()
                .copied()
                .filter(|field| {
                    let needless = !constrained && super::is_needless(side.class, *field);
                    !needless && usable.count_of(side, *field) > 0
                })
                .collect();
            with_fewer(&useful)
        }
        Hashing::QueueZero | Hashing::Undocumented => vec![HashInput::NOTHING],
    }
}

/// All of `fields`, then all but one of them, then each alone.
fn with_fewer(fields: &[crate::field::Field]) -> Vec<HashInput> {
    let mut inputs = vec![HashInput::new(fields)];
    let but = |out: usize| {
        let left = fields.iter().enumerate().filter(move |(at, _)| *at != out);
        left.map(|(_, field)| *field).collect::<Vec<_>>()
    };
    if fields.len() > 2 {
        inputs.extend((0..fields.len()).map(|out| HashInput::new(&but(out))));
    }
    if fields.len() > 1 {
        inputs.extend(fields.iter().map(|field| HashInput::new(&[*field])));
    }
    inputs
}

struct Search<'a> {
    problem: &'a Problem,
    index_bits: u32,
    demands: &'a [Demand],
    pairs: &'a [PacketPair],
    bits: KeyBits,
    classes: Vec<Choice>,
}

/// Fields for each class with the best key that was drawn for them.
struct Attempt {
    /// Index of the candidate, per class.
    chosen: Vec<usize>,
    space: Space,
    keys: Vec<Key>,
    score: Score,
}

/// Larger is better; compared in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// The smallest rank of a class that some need speaks of.
    least_rank: u32,
    ranks: u32,
    other_ranks: u32,
    /// Bits that mix, over all classes.
    bits: u32,
    /// Ranks of single fields, over all classes.
    field_ranks: u32,
    balance: u64,
}

impl Search<'_> {
    fn run(&self) -> Attempt {
        let mut best = self.attempt(vec![0; self.classes.len()]);
        let mut attempts = 1;
        let mut improved = true;
        while improved {
            improved = false;
            for at in 0..self.classes.len() {
                for candidate in 0..self.classes[at].candidates.len() {
                    if attempts >= MAX_ATTEMPTS || self.is_full(&best, at) {
                        break;
                    }
                    if candidate == best.chosen[at] {
                        continue;
                    }
                    let mut chosen = best.chosen.clone();
                    chosen[at] = candidate;
                    let attempt = self.attempt(chosen);
                    attempts += 1;
                    if attempt.score > best.score {
                        best = attempt;
                        improved = true;
                    }
                }
            }
        }
        best
    }

    /// Whether the class needs no better fields.
    fn is_full(&self, attempt: &Attempt, class: usize) -> bool {
        let Choice { side, constrained, candidates } = &self.classes[class];
        let input = &candidates[attempt.chosen[class]];
        !constrained || rank(&attempt.keys[side.port], input, self.index_bits) == self.index_bits
    }

    fn input<'a>(&'a self, chosen: &[usize], side: Side) -> &'a HashInput {
        let class = self.classes.iter().zip(chosen).find(|(class, _)| class.side == side);
        class.map_or(&super::NOTHING, |(class, chosen)| &class.candidates[*chosen])
    }

    fn attempt(&self, chosen: Vec<usize>) -> Attempt {
        let input = |side| self.input(&chosen, side);
        let space = space(&self.bits, self.index_bits, self.demands, self.pairs, input);
        let mut random = Random::new(self.problem.seed);
        let drawn = (0..DRAWS).map(|_| {
            let keys = keys(&self.bits, &space, &mut random);
            (self.score(&chosen, &keys), keys)
        });
        let best = drawn.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let (score, keys) = best.unwrap_or_default();
        Attempt { chosen, space, keys, score }
    }

    fn score(&self, chosen: &[usize], keys: &[Key]) -> Score {
        let mut score = Score { least_rank: 32, ..Score::default() };
        for (class, at) in self.classes.iter().zip(chosen) {
            let input = &class.candidates[*at];
            if input.fields().is_empty() {
                continue;
            }
            let key = &keys[class.side.port];
            let rank = rank(key, input, self.index_bits);
            if class.constrained {
                score.least_rank = score.least_rank.min(rank);
                score.ranks += rank;
            } else {
                score.other_ranks += rank;
            }
            for mixed in mixes(key, input, self.index_bits, |_| true) {
                score.bits += u32::from(mixed.bits);
                score.field_ranks += mixed.rank;
            }
        }
        score.balance = self.balance(chosen, keys);
        score
    }

    /// How evenly the sample spreads: the more, the better.
    fn balance(&self, chosen: &[usize], keys: &[Key]) -> u64 {
        if self.problem.sample.is_empty() {
            return 0;
        }
        let entries = self.problem.sample.iter().map(|frame| {
            let parsed = self.problem.ports[frame.port].nic.parse(&frame.bytes);
            let input = self.input(chosen, Side { port: frame.port, class: parsed.class() });
            let hash = crate::toeplitz::toeplitz(&keys[frame.port], &parsed.input(input));
            hash & index_mask(self.index_bits)
        });
        u64::MAX - score::collisions(entries)
    }

    /// Classes that the needs speak of and that reach one entry only.
    fn stuck(&self, best: &Attempt) -> Vec<Unsteerable> {
        let stuck = self.classes.iter().zip(&best.chosen).filter(|(class, at)| {
            let input = &class.candidates[**at];
            class.constrained
                && !input.fields().is_empty()
                && rank(&best.keys[class.side.port], input, self.index_bits) == 0
        });
        let needs = |side| {
            let own = self.demands.iter().filter(move |demand| demand.sides.contains(&side));
            own.map(|demand| demand.need).collect()
        };
        stuck
            .map(|(class, _)| Unsteerable {
                side: class.side,
                needs: needs(class.side),
                cause: Cause::NoKey,
            })
            .collect()
    }

    fn solution(&self, best: &Attempt) -> Solution {
        let port = |(port, spec): (usize, &crate::problem::PortSpec)| PortSolution {
            nic: spec.nic,
            key: best.keys[port],
            classes: self
                .classes
                .iter()
                .zip(&best.chosen)
                .filter(|(class, _)| class.side.port == port)
                .map(|(class, at)| self.class(best, class, &class.candidates[*at]))
                .collect(),
        };
        Solution {
            ports: self.problem.ports.iter().enumerate().map(port).collect(),
            index_bits: self.index_bits,
            dimension: self.dimension(best),
        }
    }

    fn class(&self, best: &Attempt, class: &Choice, input: &HashInput) -> ClassSolution {
        let Side { port, class: name } = class.side;
        let key = &best.keys[port];
        let start = self.bits.of_port(port).start;
        let shifts = 32 - self.index_bits as usize..32;
        let may = |at| shifts.clone().any(|shift| !best.space.is_zero(start + at + shift));
        ClassSolution {
            class: name,
            input: input.clone(),
            rank: rank(key, input, self.index_bits),
            constrained: class.constrained,
            mixes: mixes(key, input, self.index_bits, may),
        }
    }

    /// Dimension of the key bits that the inputs of classes reach which some need speaks of.
    fn dimension(&self, best: &Attempt) -> usize {
        let mut reach = vec![0; self.problem.ports.len()];
        for (class, at) in self.classes.iter().zip(&best.chosen) {
            let width = if class.constrained { class.candidates[*at].width() } else { 0 };
            let reached = &mut reach[class.side.port];
            *reached = (*reached).max(if width == 0 { 0 } else { width + 31 });
        }
        best.space.dimension(|unknown| {
            let mut ports = 0..reach.len();
            ports.any(|port| {
                let bits = self.bits.of_port(port);
                bits.contains(&unknown) && unknown - bits.start < reach[port]
            })
        })
    }
}
