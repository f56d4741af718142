//! The verification: programs of many seeds, each run both ways and compared.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_analysis::Paths;
use anabranch_nf::{NetworkFunction, trace};
use anabranch_packet::fuzzing::Seeds;
use anabranch_plan::Plan;
use anabranch_runtime::deployment::why_not_sharded;
use anabranch_runtime::instance::Instance;

use crate::compare::{Comparison, Sameness};
use crate::coverage::{Coverage, Taken};
use crate::error::VerifyError;
use crate::generate::Generator;
use crate::guide::Guide;
use crate::limits::Limits;
use crate::mutate::Mutation;
use crate::parallel::Parallel;
use crate::program::Program;
use crate::run::{Record, Sequential};
use crate::setup::Setup;
use crate::shrink::shrink;
use crate::simulate::{Course, Simulation};
use crate::threads::Threaded;

/// Packets of one program: instances are made anew for each.
const OF_A_PROGRAM: usize = 5_000;

/// Programs of a turn: one as the plan has it, the others under a lock and with settings of their own,
/// as many packets together.
const OF_A_TURN: usize = 5;

/// Programs after the seeds that may lead nowhere one after the other, before the rest is given up.
const PATIENCE: usize = 60;

/// Programs of a seed of which call paths are followed; of later ones only those that may follow a guide.
const FOLLOWED: usize = 2 * OF_A_TURN;

/// What is verified.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Settings and ports.
    pub setup: &'a Setup,
    /// How the function runs on many cores.
    pub plan: &'a Plan,
    /// On how many.
    pub workers: usize,
    /// A bug to be planted.
    pub mutation: Option<&'a Mutation>,
    /// Programs that are run under every seed before random ones.
    pub programs: &'a [Program],
    /// The call paths, to tell which of them are taken.
    pub paths: Option<&'a Paths>,
}

/// How much is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Packets of each seed.
    pub packets: usize,
    /// Seeds: `first_seed` and those after it.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// Packets after all seeds that are led to call paths which none of them has taken, at most.
    pub rest: usize,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Packets handled by both runs, of all seeds.
    pub packets: usize,
    /// Seeds.
    pub seeds: u64,
    /// Seeds under which the runs differ.
    pub differences: u64,
    /// The shortest sequence that was found for the first of them.
    pub difference: Option<Difference>,
    /// The call paths that were taken.
    pub taken: Taken,
    /// What real threads did under the lock.
    pub threaded: Threaded,
}

/// A sequence of steps of which two runs make something different.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The seed.
    pub seed: u64,
    /// Seeds that lead to it, from that one: all where it was found after them.
    pub seeds: u64,
    /// The settings under it.
    pub setup: Setup,
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

/// How far a verification has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Packets handled so far.
    pub packets: usize,
    /// Whether all seeds are over, and what none of them has reached is looked for.
    pub is_rest: bool,
}

/// Runs programs both ways, seed by seed, each up to its first difference. `tell` hears after each of them how far
/// that is.
///
/// # Errors
/// [`VerifyError::Settings`]; [`VerifyError::Plan`] for a plan that cannot be followed.
pub fn verify<N: NetworkFunction>(
    subject: &Subject<'_>,
    effort: Effort,
    tell: &mut dyn FnMut(Done),
) -> Result<Findings, VerifyError> {
    let mut findings = Findings::default();
    let coverage = subject.paths.map(Coverage::new::<N>);
    let mut watch =
        Watch { coverage, threaded: Threaded::default(), packets: 0, is_rest: false, tell };
    for seed in effort.first_seed..effort.first_seed.saturating_add(effort.seeds) {
        let trial = Trial::of::<N>(subject, seed)?;
        if let Some(coverage) = &mut watch.coverage {
            coverage.begin_seed();
        }
        let found = trial.all::<N>(subject, effort.packets, &mut watch)?;
        findings.seeds += 1;
        let Some((trial, program)) = found else { continue };
        findings.differences += 1;
        if findings.difference.is_none() {
            findings.difference = shrink::<N>(&trial, program)?;
        }
    }
    if effort.rest > 0 && findings.differences == 0 && watch.coverage.is_some() {
        watch.is_rest = true;
        let trial = Trial { seeds: effort.seeds, ..Trial::of::<N>(subject, effort.first_seed)? };
        if let Some((trial, program)) = trial.rest::<N>(subject, effort.rest, &mut watch)? {
            findings.differences += 1;
            findings.difference = shrink::<N>(&trial, program)?;
        }
    }
    (findings.packets, findings.threaded) = (watch.packets, watch.threaded);
    if let Some(coverage) = watch.coverage {
        findings.taken = coverage.into_taken();
    }
    Ok(findings)
}

/// What is kept of programs that have run.
struct Watch<'p, 't> {
    coverage: Option<Coverage<'p>>,
    threaded: Threaded,
    packets: usize,
    is_rest: bool,
    tell: &'t mut dyn FnMut(Done),
}

impl Watch<'_, '_> {
    /// Call paths that have been taken.
    fn reached(&self) -> usize {
        self.coverage.as_ref().map_or(0, Coverage::reached)
    }
}

/// What is followed after the seeds: mostly `guide`, now and then sequences under other lists than those they were
/// found under, or with little room; `None`: there is nothing to follow.
fn led_on<N: NetworkFunction>(
    base: &Setup,
    own: u64,
    guide: &mut Guide,
    chance: &mut Seeds,
) -> Option<(Setup, Program)> {
    let drawn = chance.below(4);
    let elsewhere = match drawn {
        0 => guide.take_listed(),
        1 => guide.take_sized(),
        _ => None,
    };
    if let Some(sequences) = elsewhere
        && let Some((known, _)) = sequences.first()
    {
        let setup = match drawn {
            0 => known.with_lists(base, chance),
            _ => known.cramped::<N>(base, chance),
        };
        let generator = Generator::new(&setup, own);
        let program = match drawn {
            0 => generator.replayed(&sequences),
            _ => generator.crowded(&sequences),
        };
        return Some((setup, program));
    }
    let setup = Setup::clone(guide.setup(chance)?);
    let program = Generator::new(&setup, own).guided(OF_A_PROGRAM / (OF_A_TURN - 1), guide);
    Some((setup, program))
}

/// The limits that `plan` lists where state is divided.
fn limits<N: NetworkFunction>(
    subject: &Subject<'_>,
    plan: &Plan,
    setup: &Setup,
    parallel: &Parallel,
) -> Result<Limits, VerifyError> {
    let Some(deployment) = &parallel.deployment else { return Ok(Limits::default()) };
    let instance = Instance::<N>::new(&setup.making(1));
    let instance = instance.map_err(|why| VerifyError::Settings(why.0))?;
    Ok(Limits::new(plan, subject.paths, deployment, &instance.tables()))
}

/// Packets of a run.
fn sent(record: &Record) -> usize {
    record.iter().filter(|handled| handled.arrival.is_some()).count()
}

/// What a part of `seed` draws from: nothing of what another part or another seed draws.
fn own(seed: u64, part: usize) -> u64 {
    Seeds::new(seed.rotate_left(32) ^ part as u64).draw()
}

/// Programs that are run both ways under the same seed.
#[derive(Clone)]
pub(crate) struct Trial {
    setup: Setup,
    parallel: Parallel,
    seed: u64,
    /// How many seeds have to be run, from that one.
    seeds: u64,
    /// Of hashes, chance and interleaving.
    own: u64,
    /// What one core may refuse and many not, or many and one not, as the plan lists.
    limits: Arc<Limits>,
}

impl Trial {
    pub(crate) fn of<N: NetworkFunction>(
        subject: &Subject<'_>,
        seed: u64,
    ) -> Result<Self, VerifyError> {
        let plan = match subject.mutation {
            Some(mutation) => mutation.of_plan(subject.plan),
            None => subject.plan.clone(),
        };
        let setup = subject.setup.clone().under::<N>(subject.plan, subject.paths);
        let setup = setup.varied::<N>(seed, why_not_sharded(&plan).is_some());
        let mut parallel = Parallel::of_plan::<N>(&plan, &setup, subject.workers)?;
        parallel.shuffle(seed);
        if let Some(mutation) = subject.mutation {
            mutation.of_runtime(&mut parallel);
        }
        let limits = Arc::new(limits::<N>(subject, &plan, &setup, &parallel)?);
        Ok(Self { setup, parallel, seed, seeds: 1, own: seed, limits })
    }

    /// As it is, or, but for planted bugs, all but the first program of a turn under a lock.
    fn of_part<N: NetworkFunction>(&self, subject: &Subject<'_>, part: usize) -> Self {
        let own = own(self.seed, part);
        let mut trial = Self { own, ..self.clone() };
        if subject.mutation.is_none() && !part.is_multiple_of(OF_A_TURN) {
            trial.setup = trial.setup.under_lock::<N>(own);
            trial.parallel = Parallel::locked(subject.workers);
        }
        if subject.mutation.is_none() {
            let is_sharded = trial.parallel.deployment.is_some();
            trial.setup = trial.setup.routed::<N>(own, is_sharded);
        }
        trial
    }

    /// Runs the given programs, then random ones up to so many packets; the first that differs, under
    /// what it does.
    fn all<N: NetworkFunction>(
        self,
        subject: &Subject<'_>,
        packets: usize,
        watch: &mut Watch<'_, '_>,
    ) -> Result<Option<(Self, Program)>, VerifyError> {
        let programs = subject.programs;
        let mut guide = Guide::default();
        let mut handled = 0;
        let mut part = 0;
        while part < programs.len() || handled < packets {
            let mut trial = self.of_part::<N>(subject, part);
            // Where allocated endpoints are renamed, what is sent over and over finds by chance which of
            // them have been given out twice.
            let is_exact = trial.setup.allocated.is_none();
            let follows = part % OF_A_TURN > 1 || part % (2 * OF_A_TURN) == OF_A_TURN;
            let is_guided = is_exact && follows && !guide.is_empty();
            if is_guided && trial.parallel.deployment.is_none() {
                trial.setup = trial.under_guide::<N>(&guide);
            }
            let program = match programs.get(part) {
                Some(program) => {
                    trial = Self { own: trial.own, ..self.clone() };
                    program.clone()
                }
                None => {
                    let is_whole = subject.mutation.is_some() || part.is_multiple_of(OF_A_TURN);
                    let most = OF_A_PROGRAM / if is_whole { 1 } else { OF_A_TURN - 1 };
                    let length = most.min(2 * (packets - handled));
                    let generator = Generator::new(&trial.setup, trial.own);
                    match is_guided {
                        true => generator.guided(length, &mut guide),
                        false => generator.program(length),
                    }
                }
            };
            let is_followed = part < FOLLOWED || trial.setup.allocated.is_none();
            let guide = is_followed.then_some(&mut guide);
            let (sent, differs) = trial.tried::<N>(subject, &program, guide, watch)?;
            if differs {
                return Ok(Some((trial, program)));
            }
            handled += sent.max(1);
            part += 1;
        }
        Ok(None)
    }

    /// After all seeds: programs under a lock that follow all that led to new ways under any of them, to paths
    /// that have been taken under none, as long as that leads anywhere.
    fn rest<N: NetworkFunction>(
        self,
        subject: &Subject<'_>,
        packets: usize,
        watch: &mut Watch<'_, '_>,
    ) -> Result<Option<(Self, Program)>, VerifyError> {
        let known = watch.coverage.as_mut().map(Coverage::begin_rest).unwrap_or_default();
        let mut known = known.chunk_by(|a, b| Arc::ptr_eq(&a.0, &b.0));
        let mut guide = Guide::of_rest();
        let mut chance = Seeds::new(self.seed);
        let (mut handled, mut idle) = (0, 0);
        while handled < packets && idle < PATIENCE {
            let own = chance.draw();
            let (setup, program) = match known.next() {
                Some(sequences @ [(setup, _), ..]) => {
                    let setup = Setup { allocated: None, ..Setup::clone(setup) };
                    let program = Generator::new(&setup, own).replayed(sequences);
                    (setup, program)
                }
                _ => {
                    let led = led_on::<N>(subject.setup, own, &mut guide, &mut chance);
                    let Some(led) = led else { break };
                    idle += 1;
                    led
                }
            };
            if !setup.fits::<N>() {
                continue;
            }
            let parallel = Parallel::locked(subject.workers);
            let trial = Self { own, setup, parallel, ..self.clone() };
            let before = watch.reached();
            let (sent, differs) = trial.tried::<N>(subject, &program, Some(&mut guide), watch)?;
            if differs {
                return Ok(Some((trial, program)));
            }
            handled += sent;
            idle = if watch.reached() == before { idle } else { 0 };
        }
        Ok(None)
    }

    /// Runs `program` both ways, follows it with what `guide` keeps, and has threads run it: how many packets that
    /// counts for, and whether anything differs.
    fn tried<N: NetworkFunction>(
        &self,
        subject: &Subject<'_>,
        program: &Program,
        guide: Option<&mut Guide>,
        watch: &mut Watch<'_, '_>,
    ) -> Result<(usize, bool), VerifyError> {
        let made = program.steps.len();
        let (program, one, many) = self.both::<N>(program)?;
        let program = &*program;
        let sent = sent(&one);
        watch.packets += sent;
        // What was cut short counts for half of what was made: else a seed would make programs without end.
        let handled = if program.steps.len() < made / 2 { made / 2 } else { sent };
        (watch.tell)(Done { packets: watch.packets, is_rest: watch.is_rest });
        if let (Some(coverage), Some(guide)) = (&mut watch.coverage, guide) {
            self.follow::<N>(program, &many, &one, coverage, guide)?;
        }
        if self.parallel.deployment.is_none() && subject.mutation.is_none() {
            let (setup, parallel) = (&self.setup, &self.parallel);
            watch.threaded.run::<N>(setup, parallel, program, &many, self.seed);
        }
        Ok((handled, self.first_difference(program, one, many).is_some()))
    }

    /// Half of the time settings under which there is something to follow.
    fn under_guide<N: NetworkFunction>(&self, guide: &Guide) -> Setup {
        let mut chance = Seeds::new(self.own);
        let known = guide.setup(&mut chance);
        let known = known.filter(|_| chance.below(2) == 0);
        match known.filter(|known| known.fits::<N>()) {
            Some(known) => Setup { allocated: None, ..Setup::clone(known) },
            None => self.setup.clone(),
        }
    }

    /// The same with shards that stay with their workers, for the `deal`th time dealt out otherwise.
    pub(crate) fn still(&self, deal: u64) -> Self {
        let mut still = self.clone();
        still.parallel.moves_once_in = None;
        if deal > 0 {
            still.parallel.shuffle(self.seed.wrapping_add(deal << 32));
        }
        still
    }

    /// The first difference that `program` makes.
    pub(crate) fn run<N: NetworkFunction>(
        &self,
        program: &Program,
    ) -> Result<Option<Difference>, VerifyError> {
        let (program, one, many) = self.both::<N>(program)?;
        Ok(self.first_difference(&program, one, many))
    }

    /// What both make of `program`, without the packets that only one of them refuses for a limit that the plan lists.
    /// Those leave nothing where they are refused, so that there the others find what they found. Nor what
    /// is [`incomparable`](Self::incomparable).
    fn both<'p, N: NetworkFunction>(
        &self,
        program: &'p Program,
    ) -> Result<(Cow<'p, Program>, Record, Course), VerifyError> {
        let making = self.setup.making(self.own);
        let mut program = Cow::Borrowed(program);
        loop {
            let many = Simulation::<N>::new(&self.parallel, &making, self.own)?.run(&program);
            let one = Sequential::<N>::new(&making)?.run(&program, &many);
            let is_split = self.parallel.deployment.is_some() && !self.limits.is_empty();
            let first = if is_split { self.differs(&one, &many) } else { None };
            let Some((first, _)) = first else { return Ok((program, one, many)) };
            let mut refused = self.limits.refused(first, &one, &many);
            if refused.is_empty() {
                refused.extend(self.incomparable::<N>(&program, first, &many)?);
            }
            if refused.is_empty() {
                return Ok((program, one, many));
            }
            let steps = program.steps.iter().enumerate();
            let kept = steps.filter(|(at, _)| !refused.contains(at));
            program = Cow::Owned(program.part(kept.map(|(_, step)| step.clone())));
        }
    }

    /// Steps of which nothing can be said, if `first` is one of them: from that on which fills a table of one core that
    /// is asked by nobody whether it has room, or after which many may go on without what one core is given.
    fn incomparable<N: NetworkFunction>(
        &self,
        program: &Program,
        first: usize,
        many: &Course,
    ) -> Result<BTreeSet<usize>, VerifyError> {
        let mut from = vec![self.limits.goes_without(many)];
        if !self.limits.unasked.is_empty() {
            let mut sequential = Sequential::<N>::new(&self.setup.making(self.own))?;
            from.push(sequential.fills(program, many, &self.limits.unasked));
        }
        // That step may have found no room itself.
        let turn = |at: usize| many.order.iter().position(|step| *step == at);
        let turn = from.into_iter().flatten().filter_map(turn).min();
        let rest = turn.and_then(|turn| many.order.get(turn..)).unwrap_or_default();
        let is_among = rest.contains(&first);
        Ok(rest.iter().copied().filter(|_| is_among).collect())
    }

    /// The first step that differs, and what does.
    fn differs(&self, one: &Record, many: &Course) -> Option<(usize, String)> {
        let first = |mut comparison: Comparison| {
            many.order.iter().enumerate().find_map(|(turn, at)| {
                let what = comparison.differs(one.get(*at)?, many.record.get(*at)?)?;
                Some((turn, *at, what))
            })
        };
        let sameness = self.parallel.sameness();
        let apart = first(Comparison::new(sameness))?;
        // Of the two ways to name ports, what the function does not do differs sooner.
        let last = match sameness {
            Sameness::Exact => apart,
            Sameness::Renamed => {
                let joint = first(Comparison::of_joint_ports(sameness))?;
                if joint.0 > apart.0 { joint } else { apart }
            }
        };
        Some((last.1, last.2))
    }

    /// Runs `program` as one core did once more, traced, and follows it.
    fn follow<N: NetworkFunction>(
        &self,
        program: &Program,
        many: &Course,
        one: &Record,
        coverage: &mut Coverage<'_>,
        guide: &mut Guide,
    ) -> Result<(), VerifyError> {
        let making = self.setup.making(self.own);
        let mut sequential = Sequential::<N::Traced>::new(&making)?;
        trace::take();
        coverage.begin(&self.setup);
        let traced = sequential.watched(program, many, &mut |at| {
            coverage.step(program, at, trace::take(), guide);
        });
        coverage.compare(one, &traced);
        Ok(())
    }

    fn first_difference(&self, program: &Program, one: Record, many: Course) -> Option<Difference> {
        let (at, what) = self.differs(&one, &many)?;
        let (program, setup) = (program.clone(), self.setup.clone());
        let (seed, seeds, many) = (self.seed, self.seeds, many.record);
        Some(Difference { seed, seeds, setup, program, at, what, one, many })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one draws, no other draws a little later: else what chance comes upon it comes upon under all seeds.
    #[test]
    fn seeds_and_their_parts_draw_apart() {
        let parts = (1..=20).flat_map(|seed| (0..10).map(move |part| own(seed, part)));
        let mut all = BTreeSet::new();
        for own in parts {
            let mut chance = Seeds::new(own);
            assert!((0..1_000).all(|_| all.insert(chance.draw())), "{own}");
        }
    }
}
