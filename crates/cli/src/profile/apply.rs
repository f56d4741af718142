//! Recipes tried: each alone on the same traffic, and all that helped together.

use serde::Serialize;
use toml::Table;

use super::document::{Document, WORTH_A_WORD};
use super::recipe::Step;
use super::{Measured, Run};
use crate::error::Error;

/// What the runs of a profile came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    /// Millions of packets a second, not watched: of the fastest.
    pub(crate) mpps: f64,
    /// Transactions given up: of the middle one.
    pub(crate) aborts: u64,
    /// Each of them.
    #[serde(skip)]
    pub(super) runs: Vec<Run>,
}

/// A recipe that was tried.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Applied {
    pub(crate) parameter: String,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) relaxes: &'static str,
    pub(crate) before_mpps: f64,
    pub(crate) after_mpps: f64,
    pub(crate) before_aborts: u64,
    pub(crate) after_aborts: u64,
    /// Whether it is kept: a tenth fewer aborts, by more than one in a thousand packets, and no less than
    /// half the rate, or a tenth more packets a second; in all runs, compared with all but one before.
    pub(crate) helped: bool,
}

impl Figures {
    pub(super) fn of(measured: &Measured) -> Self {
        let aborts = measured.findings.iter().map(|finding| finding.times).sum();
        Self { mpps: measured.mpps, aborts, runs: measured.runs.clone() }
    }

    fn is_better_than(&self, before: &Self, packets: u64) -> bool {
        let gone = before.aborts.saturating_sub(self.aborts);
        let fewer =
            gone as f64 >= 0.1 * before.aborts as f64 && gone as f64 > 1e-3 * packets as f64;
        // Rates vary from run to run, with whatever else the machine does, far more than aborts do.
        (fewer && self.mpps > 0.5 * before.mpps && self.surely(before, |run| -(run.aborts as f64)))
            || (self.mpps >= 1.1 * before.mpps && self.surely(before, |run| run.mpps))
    }

    /// Whether all runs have more of `what` than all but one before: what one setting comes to by chance does so
    /// once in forty times.
    fn surely(&self, before: &Self, what: impl Fn(&Run) -> f64) -> bool {
        let least = self.runs.iter().map(&what).fold(f64::INFINITY, f64::min);
        before.runs.iter().filter(|run| what(run) >= least).count() <= 1
    }
}

impl Applied {
    fn new(step: &Step, before: &Figures, after: &Figures, packets: u64) -> Self {
        Self {
            parameter: step.parameter.clone(),
            before: step.before.clone(),
            after: step.after.clone(),
            relaxes: step.relaxes,
            before_mpps: before.mpps,
            after_mpps: after.mpps,
            before_aborts: before.aborts,
            after_aborts: after.aborts,
            helped: after.is_better_than(before, packets),
        }
    }
}

impl Document {
    /// Tries each recipe that settings can follow, and those that helped together; `profile` runs with
    /// settings. Returns the settings with what helped, and which recipes those are; `None`: nothing did, or not
    /// together.
    ///
    /// # Errors
    /// Those of `profile`.
    pub(super) fn apply(
        &mut self,
        (given, before): (&Table, &Figures),
        accepts: impl Fn(&Table) -> Result<(), String>,
        mut profile: impl FnMut(Table) -> Result<Measured, Error>,
    ) -> Result<Option<(Table, Vec<Step>)>, Error> {
        let (mut kept, mut settings) = (Vec::new(), given.clone());
        for step in self.trials(given, &accepts) {
            let Some(changed) = step.changed(given) else { continue };
            let applied =
                Applied::new(&step, before, &Figures::of(&profile(changed)?), self.packets);
            let together = step.changed(&settings).filter(|changed| accepts(changed).is_ok());
            if let Some(changed) = together.filter(|_| applied.helped) {
                settings = changed;
                kept.push(step);
            }
            self.applied.push(applied);
        }
        let mut is_good = !kept.is_empty();
        if kept.len() > 1 {
            let together = Figures::of(&profile(settings.clone())?);
            is_good = together.is_better_than(before, self.packets);
            self.together = Some(together);
        }
        self.improved = is_good;
        Ok(is_good.then_some((settings, kept)))
    }

    /// Recipes of causes that are worth it, each parameter once.
    fn trials(&self, given: &Table, accepts: impl Fn(&Table) -> Result<(), String>) -> Vec<Step> {
        let causes = self.causes.iter().filter(|cause| cause.share >= WORTH_A_WORD);
        let mut trials: Vec<Step> = Vec::new();
        for step in causes.flat_map(|cause| &cause.recipes) {
            let is_new = trials.iter().all(|trial| trial.parameter != step.parameter);
            let changed = step.changed(given).filter(|_| is_new);
            if changed.is_some_and(|changed| accepts(&changed).is_ok()) {
                trials.push(step.clone());
            }
        }
        trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of five runs, each a little better than the one before it.
    fn figures(mpps: f64, aborts: u64) -> Figures {
        let run = |step: u64| Run {
            mpps: mpps * (0.96 + 0.01 * step as f64),
            aborts: aborts * (102 - step) / 100,
        };
        Figures { mpps, aborts, runs: (0..5).map(run).collect() }
    }

    #[test]
    fn a_recipe_helps_by_aborts_or_by_rate_and_not_by_chance() {
        let before = figures(1.0, 1_000);
        let helps = |mpps, aborts| figures(mpps, aborts).is_better_than(&before, 100_000);
        assert!(helps(1.0, 100) && helps(0.6, 899) && helps(1.2, 2_000));
        assert!(!helps(1.0, 1_000) && !helps(1.05, 950) && !helps(0.4, 10));
        assert!(!figures(1.0, 2).is_better_than(&figures(1.0, 30), 100_000));
    }

    #[test]
    fn what_runs_do_not_agree_about_helps_nothing() {
        let with = |aborts: [u64; 5], rates: [f64; 5]| {
            let runs = aborts.into_iter().zip(rates).map(|(aborts, mpps)| Run { aborts, mpps });
            let mpps = rates.into_iter().fold(0.0, f64::max);
            Figures { mpps, aborts: aborts[2], runs: runs.collect() }
        };
        let before = with([2_500, 3_000, 3_300, 8_000, 11_000], [2.0, 2.2, 2.4, 2.5, 2.6]);
        let steady = [2.5; 5];
        let helps = |aborts, rates| with(aborts, rates).is_better_than(&before, 100_000);
        assert!(helps([1_000, 1_100, 1_200, 1_300, 2_900], steady), "all but one had more");
        assert!(!helps([1_000, 1_100, 1_200, 1_300, 3_100], steady), "as many as two others had");
        assert!(!helps([3_000, 5_000, 7_700, 9_000, 9_900], [2.0, 2.3, 2.4, 2.5, 2.95]));
        assert!(helps([3_000, 5_000, 7_700, 9_000, 9_900], [2.55, 2.6, 2.7, 2.9, 2.95]));
    }
}
