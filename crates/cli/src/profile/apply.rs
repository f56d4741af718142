//! Recipes tried: each alone on the same traffic, and all that helped together.

use serde::Serialize;
use toml::Table;

use super::Measured;
use super::document::{Document, WORTH_A_WORD};
use super::recipe::Step;
use crate::error::Error;

/// What a run came to.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Millions of packets a second, not watched.
    pub(crate) mpps: f64,
    /// Transactions given up.
    pub(crate) aborts: u64,
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
    /// half the rate, or a tenth more packets a second.
    pub(crate) helped: bool,
}

impl Figures {
    pub(super) fn of(measured: &Measured) -> Self {
        let aborts = measured.findings.iter().map(|finding| finding.times).sum();
        Self { mpps: measured.mpps, aborts }
    }

    fn is_better_than(self, before: Self, packets: u64) -> bool {
        let gone = before.aborts.saturating_sub(self.aborts);
        let fewer =
            gone as f64 >= 0.1 * before.aborts as f64 && gone as f64 > 1e-3 * packets as f64;
        // Rates vary from run to run, with whatever else the machine does, far more than aborts do.
        (fewer && self.mpps > 0.5 * before.mpps) || self.mpps >= 1.1 * before.mpps
    }
}

impl Applied {
    fn new(step: &Step, before: Figures, after: Figures, packets: u64) -> Self {
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
    /// settings. Returns the settings with what helped, as a file; `None`: nothing did, or not together.
    ///
    /// # Errors
    /// Those of `profile`.
    pub(super) fn apply(
        &mut self,
        given: &Table,
        accepts: impl Fn(&Table) -> Result<(), String>,
        mut profile: impl FnMut(Table) -> Result<Measured, Error>,
    ) -> Result<Option<String>, Error> {
        let before = Figures { mpps: self.mpps, aborts: self.aborts };
        let (mut kept, mut settings) = (Vec::new(), given.clone());
        for step in self.trials(given, &accepts) {
            let Some(changed) = step.changed(given) else { continue };
            let after = Figures::of(&profile(changed)?);
            let applied = Applied::new(&step, before, after, self.packets);
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
        Ok(is_good.then(|| self.file(&kept, &settings)))
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

    fn file(&self, kept: &[Step], settings: &Table) -> String {
        let mut file = format!("# Settings of {} with recipes of its profile.\n", self.nf);
        for Step { parameter, before, relaxes, .. } in kept {
            let relaxes = if relaxes.is_empty() { "nothing" } else { relaxes };
            file += &format!("# {parameter}: {before} before; relaxes: {relaxes}\n");
        }
        file + &settings.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_helps_by_aborts_or_by_rate_and_not_by_chance() {
        let before = Figures { mpps: 1.0, aborts: 1_000 };
        let helps = |mpps, aborts| Figures { mpps, aborts }.is_better_than(before, 100_000);
        assert!(helps(1.0, 100) && helps(0.6, 899) && helps(1.2, 2_000));
        assert!(!helps(1.0, 1_000) && !helps(1.05, 950) && !helps(0.4, 10));
        let few = Figures { mpps: 1.0, aborts: 30 };
        assert!(!Figures { mpps: 1.0, aborts: 2 }.is_better_than(few, 100_000));
    }
}
