//! The choice: fields for each class, then one of the keys.

use crate::field::Field;
use crate::need::{PacketPair, Side};
use crate::nic::{HashInput, Hashing};
use crate::problem::{PortSpec, Problem};
use crate::solution::{Cause, ClassSolution, Impossible, PortSolution, Solution, Unsteerable};
use crate::solve::draw::{Draw, Score, Scoring, Spread};
use crate::solve::score::Columns;
use crate::solve::space::{Demand, KeyBits, space};
use crate::solve::system::Space;
use crate::solve::usable::Usable;

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
fn with_fewer(fields: &[Field]) -> Vec<HashInput> {
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
    draw: Draw,
}

impl Attempt {
    fn score(&self) -> Score {
        self.draw.score
    }
}

impl Search<'_> {
    fn run(&self) -> Attempt {
        let mut best = self.attempt(vec![0; self.classes.len()]);
        let mut attempts = 1;
        let mut before = Score::default();
        while best.score() > before {
            before = best.score();
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
                    attempts += 1;
                    let attempt = self.attempt(chosen);
                    best = if attempt.score() > best.score() { attempt } else { best };
                }
            }
        }
        best
    }

    /// Whether the class needs no better fields.
    fn is_full(&self, attempt: &Attempt, class: usize) -> bool {
        let Choice { side, constrained, candidates } = &self.classes[class];
        let input = &candidates[attempt.chosen[class]];
        !constrained || attempt.draw.rank(side.port, input) == self.index_bits
    }

    fn input<'a>(&'a self, chosen: &[usize], side: Side) -> &'a HashInput {
        let class = self.classes.iter().zip(chosen).find(|(class, _)| class.side == side);
        class.map_or(&super::NOTHING, |(class, chosen)| &class.candidates[*chosen])
    }

    /// Each class with the fields that are chosen for it.
    fn chosen<'a>(
        &'a self,
        chosen: &'a [usize],
    ) -> impl Iterator<Item = (&'a Choice, &'a HashInput)> {
        self.classes.iter().zip(chosen).map(|(class, at)| (class, &class.candidates[*at]))
    }

    fn attempt(&self, chosen: Vec<usize>) -> Attempt {
        let input = |side| self.input(&chosen, side);
        let space = space(&self.bits, self.index_bits, self.demands, self.pairs, input);
        let spreads = self.chosen(&chosen).map(|(class, input)| Spread {
            port: class.side.port,
            input,
            constrained: class.constrained,
        });
        let sample = self.problem.sample.iter().map(|frame| {
            let parsed = self.problem.ports[frame.port].nic.parse(&frame.bytes);
            let side = Side { port: frame.port, class: parsed.class() };
            (frame.port, parsed.input(self.input(&chosen, side)))
        });
        let scoring = Scoring::new(&self.bits, &space, self.index_bits, spreads, sample.collect());
        let draw = scoring.best(self.problem.seed);
        Attempt { chosen, space, draw }
    }

    /// Classes that the needs speak of and that reach one entry only.
    fn stuck(&self, best: &Attempt) -> Vec<Unsteerable> {
        let stuck = self.chosen(&best.chosen).filter(|(class, input)| {
            let hashed = class.constrained && !input.fields().is_empty();
            hashed && best.draw.rank(class.side.port, input) == 0
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
        let port = |(port, spec): (usize, &PortSpec)| PortSolution {
            nic: spec.nic,
            key: best.draw.keys[port],
            classes: self
                .chosen(&best.chosen)
                .filter(|(class, _)| class.side.port == port)
                .map(|(class, input)| self.class(best, class, input))
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
        let columns = Columns::new(&best.draw.keys[port], self.index_bits);
        let may = |at| best.space.may_mix(&self.bits, port, at, self.index_bits);
        ClassSolution {
            class: name,
            input: input.clone(),
            rank: columns.rank(input),
            constrained: class.constrained,
            mixes: columns.mixes(input, may),
        }
    }

    /// Dimension of the key bits that the inputs of classes reach which some need speaks of.
    fn dimension(&self, best: &Attempt) -> usize {
        let mut reach = vec![0; self.problem.ports.len()];
        for (class, input) in self.chosen(&best.chosen) {
            let width = if class.constrained { input.width() } else { 0 };
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
