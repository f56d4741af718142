//! The verification: programs of many seeds, each run both ways and compared.

use anabranch_nf::NetworkFunction;

use crate::compare::Comparison;
use crate::error::VerifyError;
use crate::generate::Generator;
use crate::parallel::Parallel;
use crate::program::Program;
use crate::run::{Record, Sequential};
use crate::setup::Setup;
use crate::shrink::shrink;
use crate::simulate::{Course, Simulation};

/// Packets of one program: instances are made anew for each.
const OF_A_PROGRAM: usize = 5_000;

/// How much is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Packets of each seed.
    pub packets: usize,
    /// Seeds: `first_seed` and those after it.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Packets handled by both runs, of all seeds.
    pub packets: usize,
    /// Seeds.
    pub seeds: u64,
    /// The shortest sequence that was found for the first seed that differs.
    pub difference: Option<Difference>,
}

/// A sequence of steps of which two runs make something different.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The seed.
    pub seed: u64,
    /// The steps.
    pub program: Program,
    /// The step that differs, by position.
    pub at: usize,
    /// What differs, in words.
    pub what: String,
    /// What one core did.
    pub one: Record,
    /// What many did.
    pub many: Record,
}

/// Runs random programs both ways, seed by seed, up to the first difference.
///
/// # Errors
/// [`VerifyError::Settings`].
pub fn verify<N: NetworkFunction>(
    setup: &Setup,
    parallel: &Parallel,
    effort: Effort,
) -> Result<Findings, VerifyError> {
    let mut findings = Findings { seeds: effort.seeds, ..Findings::default() };
    for seed in effort.first_seed..effort.first_seed + effort.seeds {
        let mut left = effort.packets;
        let mut part = 0;
        while left > 0 {
            let own = mixed(seed, part);
            let program = Generator::new(setup, own).program(OF_A_PROGRAM.min(2 * left));
            let trial = Trial { setup, parallel, seed: own };
            let (sent, different) = trial.run::<N>(&program)?;
            findings.packets += sent.min(left);
            left -= sent.min(left);
            part += 1;
            if different.is_some() {
                findings.difference = shrink::<N>(&trial, program)?;
                if let Some(difference) = &mut findings.difference {
                    difference.seed = seed;
                }
                return Ok(findings);
            }
        }
    }
    Ok(findings)
}

fn mixed(seed: u64, part: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part
}

/// Programs that are run both ways under the same seed.
pub(crate) struct Trial<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) parallel: &'a Parallel,
    pub(crate) seed: u64,
}

impl Trial<'_> {
    /// Packets that were sent, and the first difference.
    pub(crate) fn run<N: NetworkFunction>(
        &self,
        program: &Program,
    ) -> Result<(usize, Option<Difference>), VerifyError> {
        let making = self.setup.making(self.seed);
        let many = Simulation::<N>::new(self.parallel, &making, self.seed)?.run(program);
        let one = Sequential::<N>::new(&making)?.run(program, &many);
        let sent = one.iter().filter(|handled| handled.arrival.is_some()).count();
        Ok((sent, self.first_difference(program, one, many)))
    }

    fn first_difference(&self, program: &Program, one: Record, many: Course) -> Option<Difference> {
        let mut comparison = Comparison::new(self.parallel.sameness());
        let found = many.order.iter().find_map(|at| {
            let what = comparison.differs(one.get(*at)?, many.record.get(*at)?)?;
            Some((*at, what))
        });
        let (at, what) = found?;
        let program = program.clone();
        Some(Difference { seed: self.seed, program, at, what, one, many: many.record })
    }
}
