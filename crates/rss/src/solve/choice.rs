//! The choice: fields for each class, then one of the keys.

use crate::field::Field;
use crate::need::{PacketPair, Side};
use crate::nic::{HashInput, Hashing};
use crate::problem::PortSpec;
use crate::solution::{Cause, ClassSolution, PortSolution, Solution, Unsteerable};
use crate::solve::draw::{Draw, Score, Scoring, Spread};
use crate::solve::setting::Setting;
use crate::solve::space::{KeyBits, space};
use crate::solve::system::Space;
use crate::solve::usable::Usable;

/// Choices of fields that are tried before the best one is taken.
const MAX_ATTEMPTS: usize = 64;

/// Keys under which `needs` and `pairs` are met, and the classes that reach one entry only though
/// some need speaks of them.
pub(crate) fn choose(
    setting: &Setting,
    needs: &[usize],
    pairs: &[PacketPair],
    usable: &Usable,
) -> (Solution, Vec<Unsteerable>) {
    let search = Search::new(setting, needs, pairs, usable);
    let best = search.run();
    (search.solution(&best), search.stuck(&best))
}

/// Whether some key that meets `needs` lets packets of all of `sides` spread, with the fields that
/// are most promising for each class. Where there is nothing to choose from, no means that no key
/// does.
pub(crate) fn first_choice_spreads(
    setting: &Setting,
    needs: &[usize],
    usable: &Usable,
    sides: &[Side],
) -> Spreads {
    let search = Search::new(setting, needs, &[], usable);
    let chosen = vec![0; search.classes.len()];
    let space = search.space(&chosen);
    let spreads = |side: &Side| {
        let positions = 0..search.input(&chosen, *side).width();
        let mut may =
            positions.map(|at| space.may_mix(&search.bits, side.port, at, setting.index_bits));
        may.any(|may| may)
    };
    if sides.iter().all(spreads) {
        return Spreads::Yes;
    }
    let open = search.classes.iter().any(|class| class.candidates.len() > 1);
    if open { Spreads::Unknown } else { Spreads::No }
}

/// Whether packets can be spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spreads {
    Yes,
    No,
    /// Not with these fields; perhaps with others.
    Unknown,
}

/// A class and the lists of fields that may be hashed for it, the most promising one first.
struct Choice {
    side: Side,
    constrained: bool,
    candidates: Vec<HashInput>,
}

/// The lists of fields that are worth trying for `side`.
fn candidates(setting: &Setting, usable: &Usable, side: Side, constrained: bool) -> Vec<HashInput> {
    let pinned = setting.problem.ports[side.port].pinned.iter();
    let mut pinned =
        pinned.filter(|(class, _)| setting.seen(Side { class: *class, ..side }) == side);
    if let Some((_, input)) = pinned.next() {
        return vec![input.clone()];
    }
    match setting.hashing(side) {
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
                    let needless = !constrained && field.is_needless(side.class);
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
    setting: &'a Setting<'a>,
    needs: &'a [usize],
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

impl<'a> Search<'a> {
    fn new(
        setting: &'a Setting<'a>,
        needs: &'a [usize],
        pairs: &'a [PacketPair],
        usable: &Usable,
    ) -> Self {
        let class = |&side: &Side| {
            let constrained = !setting.touching(needs, side).is_empty();
            let candidates = candidates(setting, usable, side, constrained);
            Choice { side, constrained, candidates }
        };
        let bits = KeyBits::new(setting.problem.ports.iter().map(|port| port.nic.key_len));
        let classes = setting.sides.iter().map(class).collect();
        Self { setting, needs, pairs, bits, classes }
    }

    fn run(&self) -> Attempt {
        let mut best = self.attempt(vec![0; self.classes.len()], Score::default());
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
                    let attempt = self.attempt(chosen, best.score());
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
        !constrained || attempt.draw.rank(side.port, input) == self.setting.index_bits
    }

    fn input(&self, chosen: &[usize], side: Side) -> &HashInput {
        let class = self.classes.iter().zip(chosen).find(|(class, _)| class.side == side);
        class.map_or(&super::NOTHING, |(class, chosen)| &class.candidates[*chosen])
    }

    /// Each class with the fields that are chosen for it.
    fn chosen<'s>(
        &'s self,
        chosen: &'s [usize],
    ) -> impl Iterator<Item = (&'s Choice, &'s HashInput)> {
        self.classes.iter().zip(chosen).map(|(class, at)| (class, &class.candidates[*at]))
    }

    /// The keys for these fields.
    fn space(&self, chosen: &[usize]) -> Space {
        let input = |side| self.input(chosen, side);
        let Setting { index_bits, demands, .. } = self.setting;
        let demands = self.needs.iter().map(|need| &demands[*need]);
        space(&self.bits, *index_bits, demands, self.pairs, input)
    }

    /// The best keys for these fields; any of them when none can surpass `best`.
    fn attempt(&self, chosen: Vec<usize>, best: Score) -> Attempt {
        let space = self.space(&chosen);
        let spreads = self.chosen(&chosen).map(|(class, input)| Spread {
            port: class.side.port,
            input,
            constrained: class.constrained,
        });
        let sample = self.setting.problem.sample.iter().map(|frame| {
            let parsed = self.setting.problem.ports[frame.port].nic.parse(&frame.bytes);
            let side = Side { port: frame.port, class: parsed.class() };
            (frame.port, parsed.input(self.input(&chosen, side)))
        });
        let scoring = Scoring::new(&self.bits, &space, self.setting.index_bits, spreads, sample);
        let draw = scoring.best(self.setting.problem.seed, best);
        Attempt { chosen, space, draw }
    }

    /// Classes that the needs speak of and that reach one entry only.
    fn stuck(&self, best: &Attempt) -> Vec<Unsteerable> {
        let stuck = self.chosen(&best.chosen).filter(|(class, input)| {
            let hashed = class.constrained && !input.fields().is_empty();
            hashed && best.draw.rank(class.side.port, input) == 0
        });
        stuck
            .map(|(class, _)| Unsteerable {
                side: class.side,
                needs: self.setting.touching(self.needs, class.side),
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
            ports: self.setting.problem.ports.iter().enumerate().map(port).collect(),
            index_bits: self.setting.index_bits,
            dimension: self.dimension(best),
        }
    }

    fn class(&self, best: &Attempt, class: &Choice, input: &HashInput) -> ClassSolution {
        let Side { port, class: name } = class.side;
        let may = |at| best.space.may_mix(&self.bits, port, at, self.setting.index_bits);
        let solution = ClassSolution::new(name, input, &best.draw.columns[port], may);
        ClassSolution { constrained: class.constrained, ..solution }
    }

    /// Dimension of the key bits that the inputs of classes reach which some need speaks of.
    fn dimension(&self, best: &Attempt) -> usize {
        let mut reach = vec![0; self.setting.problem.ports.len()];
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
