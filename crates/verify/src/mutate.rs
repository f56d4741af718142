//! Planted bugs, drawn from a seed: what a verification has to notice.

use std::fmt;

use anabranch_analysis::Paths;
use anabranch_packet::fuzzing::Seeds;
use anabranch_plan::{ObjectMode, Plan, Steerer, Strategy};

use crate::parallel::{Fault, Parallel};

/// A bug in a plan or in the runtime that follows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// One bit of a port's key has the other value.
    KeyBit {
        /// Position of the port in the plan.
        port: usize,
        /// Which bit.
        bit: usize,
    },
    /// A port has some other key.
    Key {
        /// Position of the port in the plan.
        port: usize,
        /// Where it is drawn from.
        seed: u64,
    },
    /// A field of a class is left out of the hash.
    LostField(Input),
    /// Two fields of a class stand in each other's place.
    SwappedFields(Input, usize),
    /// A class is hashed by another port's key.
    OtherKey {
        /// Position of the port in the plan.
        port: usize,
        /// Position of the class.
        class: usize,
        /// Position of the port whose key is used.
        key_of: usize,
    },
    /// The packets of a class all go to one shard.
    OneShard {
        /// Position of the port in the plan.
        port: usize,
        /// Position of the class.
        class: usize,
    },
    /// An allocator gives out anything.
    Unsteered(usize),
    /// An allocator reckons with another base.
    Base(usize, i64),
    /// An allocator reckons with another modulus.
    Modulus(usize, i64),
    /// What all must share is kept by each worker for itself.
    NotShared,
    /// Constraints that an object gives rise to were forgotten, and the keys solved without them.
    Forgotten {
        /// The object.
        object: String,
        /// The plan that came of it.
        plan: Box<Plan>,
    },
    /// The runtime does something wrong.
    Runtime(Fault),
}

/// A field of the input of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Position of the port in the plan.
    pub port: usize,
    /// Position of the class.
    pub class: usize,
    /// Position of the field in the input.
    pub input: usize,
}

/// Kinds of mutations that are drawn, those of what is shared apart.
const KINDS: usize = 10;

impl Mutation {
    /// One of `seed`, for a function planned so; `None` where what is drawn is not there.
    pub fn draw(plan: &Plan, seed: u64) -> Option<Self> {
        let mut chance = Seeds::new(seed);
        if plan.strategy != Strategy::SharedNothing {
            return Some(Self::NotShared);
        }
        let kind = chance.below(KINDS);
        let port = chance.below(plan.ports.len());
        let classes = &plan.ports.get(port)?.classes;
        let class = chance.below(classes.len());
        let inputs = classes.get(class)?.input.len();
        let input = Input { port, class, input: chance.below(inputs) };
        let by = [-1, 1, 2, 64][chance.below(4)];
        let steered = chance.below(plan.steered.len());
        let is_steered = !plan.steered.is_empty();
        match kind {
            0 => Some(Self::KeyBit { port, bit: chance.below(36 * 8) }),
            1 => Some(Self::Key { port, seed: chance.draw() }),
            2 if inputs > 0 => Some(Self::LostField(input)),
            3 if inputs > 1 => Some(Self::SwappedFields(input, chance.below(inputs))),
            4 => Some(Self::OtherKey { port, class, key_of: chance.below(plan.ports.len()) }),
            5 => Some(Self::OneShard { port, class }),
            6 if is_steered => Some(Self::Unsteered(steered)),
            7 if is_steered => Some(Self::Base(steered, by)),
            8 if is_steered => Some(Self::Modulus(steered, by)),
            9 => {
                let faults = [Fault::KeepsHandOvers, Fault::MovesShards, Fault::MovesUndrained];
                faults.get(chance.below(faults.len())).copied().map(Self::Runtime)
            }
            _ => None,
        }
    }

    /// `plan` as it comes out where the accesses to `object` are overlooked, and keys are solved
    /// without the constraints that they give rise to. `paths` loses them.
    ///
    /// # Errors
    /// No plan can be made.
    pub fn forgotten(
        paths: &mut Paths,
        object: &str,
        options: &anabranch_plan::Options,
    ) -> Result<Self, anabranch_plan::PlanError> {
        for path in &mut paths.paths {
            path.accesses.retain(|access| access.object != object);
        }
        let plan = Box::new(anabranch_plan::plan(paths, options)?);
        Ok(Self::Forgotten { object: object.to_owned(), plan })
    }

    /// The plan with the bug in it.
    pub fn of_plan(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        // What is not there stays as it is.
        let _ = self.change(&mut plan);
        plan
    }

    fn change(&self, plan: &mut Plan) -> Option<()> {
        match self {
            Self::KeyBit { port, bit } => {
                let port = plan.ports.get_mut(*port)?;
                port.key = flipped(&port.key, *bit);
            }
            Self::Key { port, seed } => {
                let port = plan.ports.get_mut(*port)?;
                let mut chance = Seeds::new(*seed);
                let digits = 0..port.key.len();
                port.key = digits.map(|_| format!("{:x}", chance.below(16))).collect();
            }
            Self::LostField(at) => {
                let class = plan.ports.get_mut(at.port)?.classes.get_mut(at.class)?;
                "-".clone_into(&mut class.input.get_mut(at.input)?.field);
            }
            Self::SwappedFields(at, with) => {
                let class = plan.ports.get_mut(at.port)?.classes.get_mut(at.class)?;
                let fields =
                    [at.input, *with].map(|at| class.input.get(at).map(|one| one.field.clone()));
                let [one, other] = fields;
                class.input.get_mut(at.input)?.field = other?;
                class.input.get_mut(*with)?.field = one?;
            }
            Self::OtherKey { port, class, key_of } => {
                let name = plan.ports.get(*key_of)?.port.clone();
                plan.ports.get_mut(*port)?.classes.get_mut(*class)?.key_of = Some(name);
            }
            Self::OneShard { port, class } => {
                plan.ports.get_mut(*port)?.classes.get_mut(*class)?.by = Steerer::OneShard;
            }
            Self::Unsteered(at) => {
                plan.steered.get(*at)?;
                plan.steered.remove(*at);
            }
            Self::Base(at, by) => {
                let steered = plan.steered.get_mut(*at)?;
                steered.base = shifted(&steered.base, *by);
            }
            Self::Modulus(at, by) => {
                let steered = plan.steered.get_mut(*at)?;
                steered.modulus = shifted(&steered.modulus, *by);
            }
            Self::NotShared => share_nothing(plan),
            Self::Forgotten { plan: without, .. } => {
                plan.ports.clone_from(&without.ports);
                plan.steered.clone_from(&without.steered);
                plan.strategy = without.strategy;
            }
            Self::Runtime(_) => {}
        }
        Some(())
    }

    /// Plants the bug in the runtime, if it is one of those.
    pub(crate) fn of_runtime(&self, parallel: &mut Parallel) {
        if let Self::Runtime(fault) = self {
            parallel.fault = Some(*fault);
            // Where nothing but this shows the fault, every packet may.
            if *fault == Fault::MovesUndrained {
                parallel.moves_once_in = Some(1);
            }
        }
    }
}

fn share_nothing(plan: &mut Plan) {
    plan.strategy = Strategy::SharedNothing;
    let shared = plan.objects.iter_mut().filter(|object| object.mode == ObjectMode::Shared);
    shared.for_each(|object| object.mode = ObjectMode::Sharded);
}

fn shifted(expression: &str, by: i64) -> String {
    match (expression.is_empty(), by < 0) {
        (true, _) => by.max(0).to_string(),
        (false, true) => format!("({expression} - {})", -by),
        (false, false) => format!("({expression} + {by})"),
    }
}

fn flipped(key: &str, bit: usize) -> String {
    let flip = |(at, digit): (usize, char)| match (at == bit / 4, digit.to_digit(16)) {
        (true, Some(value)) => char::from_digit(value ^ (8 >> (bit % 4)), 16).unwrap_or(digit),
        _ => digit,
    };
    key.chars().enumerate().map(flip).collect()
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forgotten { object, .. } => write!(f, "Forgotten {{ object: {object} }}"),
            other => write!(f, "{other:?}"),
        }
    }
}
