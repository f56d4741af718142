//! The shortest sequence that still differs: steps are left out, then edits.

use anabranch_nf::NetworkFunction;

use crate::error::VerifyError;
use crate::program::{Act, Program, Step};
use crate::verify::{Difference, Trial};

/// Steps that are run at most, of all programs that are tried.
const STEPS: usize = 1_500_000;

/// How often shards are dealt out anew, to do without moving them.
const DEALS: u64 = 8;

/// What making the instances of a program comes to, in steps.
const OVERHEAD: usize = 500;

/// The shortest sequence found by which the runs differ, from a program by which they do.
pub(crate) fn shrink<N: NetworkFunction>(
    trial: &Trial,
    program: Program,
) -> Result<Option<Difference>, VerifyError> {
    let still = still::<N>(trial, &program)?;
    let trial = still.as_ref().unwrap_or(trial);
    let Some(best) = trial.run::<N>(&program)? else { return Ok(None) };
    let mut search = Search::<N> { trial, best, left: STEPS, of: std::marker::PhantomData };
    search.cut()?;
    search.drop_steps()?;
    search.drop_edits()?;
    search.drop_steps()?;
    Ok(Some(search.best))
}

/// The trial with shards that stay, dealt out as they were or otherwise, where `program` differs under
/// it too: less is to be looked at then.
fn still<N: NetworkFunction>(
    trial: &Trial,
    program: &Program,
) -> Result<Option<Trial>, VerifyError> {
    for deal in 0..DEALS {
        let still = trial.still(deal);
        if still.run::<N>(program)?.is_some() {
            return Ok(Some(still));
        }
    }
    Ok(None)
}

struct Search<'t, N> {
    trial: &'t Trial,
    best: Difference,
    left: usize,
    of: std::marker::PhantomData<fn() -> N>,
}

impl<N: NetworkFunction> Search<'_, N> {
    /// Whether the runs differ by `program`, which is then the best so far.
    fn try_out(&mut self, program: &Program) -> Result<bool, VerifyError> {
        if self.left == 0 || program.steps.is_empty() {
            return Ok(false);
        }
        self.left = self.left.saturating_sub(program.steps.len() + OVERHEAD);
        let found = self.trial.run::<N>(program)?;
        let differs = found.is_some();
        self.best = found.unwrap_or_else(|| self.best.clone());
        self.cut_after();
        Ok(differs)
    }

    /// Nothing after the step that differs matters, but for what that step waits for.
    fn cut_after(&mut self) {
        let at = self.best.at;
        self.best.program.steps.truncate(at + 1);
        self.best.one.truncate(at + 1);
        self.best.many.truncate(at + 1);
    }

    /// Leaves out what comes after, and what neither the step nor its causes depend on.
    fn cut(&mut self) -> Result<(), VerifyError> {
        let whole = self.best.program.steps.clone();
        let short = self.best.program.part(whole.into_iter().take(self.best.at + 1));
        self.try_out(&short)?;
        Ok(())
    }

    /// Leaves out runs of steps, half of all to single ones.
    fn drop_steps(&mut self) -> Result<(), VerifyError> {
        let mut size = self.best.program.steps.len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            let mut dropped = false;
            while start < self.best.program.steps.len() {
                let steps = self.best.program.steps.iter().enumerate();
                let kept = steps.filter(|(at, _)| !(start..start + size).contains(at));
                let fewer = self.best.program.part(kept.map(|(_, step)| step.clone()));
                match self.try_out(&fewer)? {
                    true => dropped = true,
                    false => start += size,
                }
            }
            size = if dropped && size == 1 { 1 } else { size / 2 };
            if self.left == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Leaves out edits one by one.
    fn drop_edits(&mut self) -> Result<(), VerifyError> {
        for at in 0..self.best.program.steps.len() {
            let mut edit = 0;
            while let Some(fewer) = without_edit(self.best.program.steps.get(at), edit) {
                let mut program = self.best.program.clone();
                if let Some(step) = program.steps.get_mut(at) {
                    *step = fewer;
                }
                if !self.try_out(&program)? || self.best.program.steps.len() <= at {
                    edit += 1;
                }
            }
        }
        Ok(())
    }
}

fn without_edit(step: Option<&Step>, edit: usize) -> Option<Step> {
    let mut step = step?.clone();
    let Act::Packet(template) = &mut step.act else { return None };
    (edit < template.edits.len()).then(|| template.edits.remove(edit))?;
    Some(step)
}
