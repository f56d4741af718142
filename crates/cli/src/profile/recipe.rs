//! Recipes made exact: which setting or which line, what stands there, and what is to stand there.

use anabranch_analysis::StateObject;
use anabranch_nf::Source;
use anabranch_nf::settings::Setting;
use anabranch_nf::tracked::causes::{Change, Operation, Recipe, Site};
use anabranch_runtime::profile::Finding;
use serde::Serialize;
use toml::{Table, Value};

use crate::library::Description;

/// What recipes are made for.
pub(super) struct Subject<'a> {
    pub(super) source: Source,
    pub(super) description: Description,
    /// Settings as they were given.
    pub(super) given: &'a Table,
    pub(super) objects: Vec<StateObject>,
    /// The strategy that is planned, where it could be asked.
    pub(super) planned: Option<String>,
}

/// A change, exactly.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    /// A setting's name, an option of the command line, or what of the source is changed.
    pub(crate) parameter: String,
    /// The line of the source, where that is to be changed, or decides what the setting does.
    pub(crate) line: Option<u32>,
    pub(crate) before: String,
    pub(crate) after: String,
    /// What the NF does then that it did not do before; empty: nothing.
    pub(crate) relaxes: &'static str,
    pub(crate) effect: &'static str,
    /// `setting`, `option` or `source`.
    pub(crate) by: &'static str,
}

impl Step {
    /// `settings` with the change, where a setting makes it.
    pub(super) fn changed(&self, settings: &Table) -> Option<Table> {
        let after: i64 = self.after.parse().ok().filter(|_| self.by == "setting")?;
        let mut changed = settings.clone();
        changed.insert(self.parameter.clone(), Value::Integer(after));
        Some(changed)
    }
}

impl Subject<'_> {
    /// A line of the author's file, without the blanks around it.
    pub(super) fn text(&self, line: u32) -> Option<&str> {
        Some(self.line_as_written(line)?.trim())
    }

    fn line_as_written(&self, line: u32) -> Option<&str> {
        self.source.text.lines().nth(line.checked_sub(self.source.line)? as usize)
    }

    /// The line of an operation: of what the runtime does with an object that of its declaration.
    pub(super) fn line(&self, finding: &Finding, site: Site) -> Option<u32> {
        match site.line {
            0 => Some(self.object(finding.object.as_deref()?)?.line),
            line => Some(line),
        }
    }

    /// The object of that name; packet sets are told apart by their addresses, `Flow (IPv4)`.
    pub(super) fn object(&self, name: &str) -> Option<&StateObject> {
        let name = name.split(" (").next().unwrap_or(name);
        self.objects.iter().find(|object| object.name == name)
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        self.description.settings.iter().find(|setting| setting.name == name)
    }

    /// What can be done, the least relaxing first.
    pub(super) fn recipes(&self, finding: &Finding) -> Vec<Step> {
        finding.cause.recipes.iter().filter_map(|recipe| self.step(finding, recipe)).collect()
    }

    fn step(&self, finding: &Finding, recipe: &Recipe) -> Option<Step> {
        let object = finding.object.as_deref().and_then(|name| self.object(name));
        let (by, parameter, line, before, after) = match recipe.change {
            Change::Capacity(times) => self.capacity(object?, times)?,
            Change::Guard(times) => self.guard(finding, times)?,
            Change::Staleness(ms) => self.staleness(object?, ms)?,
            Change::Declaration(from, to) => self.declaration(object?, from, to)?,
            Change::Line(instead) => self.instead(finding, instead),
            Change::Strategy => self.strategy()?,
        };
        let Recipe { relaxes, effect, .. } = *recipe;
        Some(Step { parameter, line, before, after, relaxes, effect, by })
    }

    fn capacity(&self, object: &StateObject, times: u64) -> Option<Exact> {
        let expression = object.capacity.as_deref()?;
        let setting = expression.strip_prefix("settings.").and_then(|name| self.setting(name));
        let raised = setting.and_then(|setting| self.raised(setting, times));
        Some(match (setting, raised) {
            (Some(setting), Some((before, after))) => {
                let (before, after) = (before.to_string(), after.to_string());
                ("setting", setting.name.to_owned(), Some(object.line), before, after)
            }
            _ => {
                let (name, line) = (&object.name, Some(object.line));
                let after = format!("({expression}) * {times}");
                ("source", format!("capacity of `{name}`"), line, expression.to_owned(), after)
            }
        })
    }

    fn staleness(&self, object: &StateObject, ms: u64) -> Option<Exact> {
        let expression = object.staleness_ms.as_deref().unwrap_or("0");
        let line = Some(object.line);
        let setting = expression.strip_prefix("settings.").and_then(|name| self.setting(name));
        if let Some(setting) = setting {
            let before = self.value(setting).filter(|&before| before < ms)?;
            return Some((
                "setting",
                setting.name.to_owned(),
                line,
                before.to_string(),
                ms.to_string(),
            ));
        }
        let before: u64 = expression.replace('_', "").parse().ok()?;
        let after = format!("#[staleness_ms({ms})]");
        let what = format!("staleness of `{}`", object.name);
        (before < ms).then(|| ("source", what, line, format!("{before} ms"), after))
    }

    /// A setting's value now; `None`: it is no number.
    fn value(&self, setting: &Setting) -> Option<u64> {
        let given = self.given.get(setting.name).and_then(Value::as_integer);
        let given = given.and_then(|given| u64::try_from(given).ok());
        given.or_else(|| number(&setting.default))
    }

    /// A setting's value now, and as many times that, no larger than it may be; `None`: it is no
    /// number, or as large as it may be.
    fn raised(&self, setting: &Setting, times: u64) -> Option<(u64, u64)> {
        let before = self.value(setting)?;
        let most = number(&setting.max).unwrap_or(u64::from(u32::MAX));
        let after = before.saturating_mul(times).max(1).min(most);
        (after > before).then_some((before, after))
    }

    /// A setting that the condition around the line that writes compares with, so that the line writes
    /// less often when it is larger; where there is none, the condition that is missing.
    fn guard(&self, finding: &Finding, times: u64) -> Option<Exact> {
        let sites = [finding.theirs, finding.ours].into_iter().flatten();
        let line = sites
            .filter(|site| writes(site.operation))
            .find_map(|site| self.line(finding, site))?;
        let raised = self.conditions(line).into_iter().find_map(|(at, condition)| {
            let setting = self.setting(raised_by(&condition)?)?;
            let (before, after) = self.raised(setting, times)?;
            Some((setting.name, at, before, after))
        });
        Some(match raised {
            Some((name, at, before, after)) => {
                ("setting", name.to_owned(), Some(at), before.to_string(), after.to_string())
            }
            None => {
                let before = self.text(line).filter(|text| may_be_left_out(text))?.to_owned();
                let after = format!("if WHAT IS STORED IS OLDER THAN A SETTING {{ {before} }}");
                ("source", "line".to_owned(), Some(line), before, after)
            }
        })
    }

    /// The conditions around a line, the innermost first: by their indentation, as rustfmt writes.
    fn conditions(&self, line: u32) -> Vec<(u32, String)> {
        let indent = |text: &str| text.len() - text.trim_start().len();
        let mut conditions = Vec::new();
        let Some(mut within) = self.line_as_written(line).map(indent) else { return conditions };
        let mut rest = String::new();
        for at in (self.source.line..line).rev() {
            let Some(text) = self.line_as_written(at).filter(|text| !text.trim().is_empty()) else {
                continue;
            };
            let open = !rest.is_empty();
            if indent(text) >= within && !open {
                continue;
            }
            let trimmed = text.trim();
            within = within.min(indent(text));
            rest = format!("{trimmed} {rest}");
            let begins = ["if ", "while ", "} else if ", "match ", "for "];
            if begins.iter().any(|begin| trimmed.starts_with(begin)) {
                conditions.push((at, std::mem::take(&mut rest)));
            } else if trimmed.starts_with("fn ") || trimmed.starts_with("pub fn ") {
                break;
            } else if trimmed != "{" && !open {
                rest.clear();
            }
        }
        conditions
    }

    fn declaration(&self, object: &StateObject, from: &str, to: &str) -> Option<Exact> {
        let declared = |line: &u32| self.text(*line).is_some_and(|text| text.contains(from));
        let line = (object.line..object.line + 8).find(declared)?;
        let before = self.text(line)?.to_owned();
        let after = format!("#[merge(FUNCTION)] {}", before.replace(from, to));
        Some(("source", format!("declaration of `{}`", object.name), Some(line), before, after))
    }

    fn instead(&self, finding: &Finding, instead: &str) -> Exact {
        let sites = [finding.ours, finding.theirs].into_iter().flatten();
        let line = sites.filter_map(|site| self.line(finding, site)).next();
        let before = line.and_then(|line| self.text(line)).unwrap_or_default().to_owned();
        ("source", "line".to_owned(), line, before, instead.to_owned())
    }

    fn strategy(&self) -> Option<Exact> {
        let planned = self.planned.as_ref().filter(|planned| *planned != "transactional")?;
        let option = "--strategy".to_owned();
        Some(("option", option, None, "transactional".to_owned(), planned.clone()))
    }
}

/// By what, the parameter, its line, before and after.
type Exact = (&'static str, String, Option<u32>, String, String);

fn number(text: &Option<String>) -> Option<u64> {
    text.as_ref()?.replace('_', "").parse().ok()
}

/// Whether it may change what others see.
fn writes(operation: Operation) -> bool {
    !matches!(
        operation,
        Operation::Get | Operation::Contains | Operation::Len | Operation::Read | Operation::Find
    )
}

/// Whether a line may be put under a condition: it is a statement, and no count, which misses nothing.
fn may_be_left_out(text: &str) -> bool {
    text.starts_with("self.") && text.ends_with(';') && !text.contains("+=") && !text.contains("-=")
}

/// The setting that makes a condition fail when it is raised: what is compared is to be greater.
fn raised_by(condition: &str) -> Option<&str> {
    let at = condition.find("settings.")?;
    let name = condition[at + "settings.".len()..]
        .split(|one: char| !(one.is_alphanumeric() || one == '_'));
    let name = name.into_iter().next()?;
    let before = condition[..at].trim_end_matches("self.").trim_end();
    let after = condition[at + "settings.".len() + name.len()..].trim_start();
    let greater = before.ends_with('>') || before.ends_with(">=") || after.starts_with('<');
    greater.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{may_be_left_out, raised_by};

    #[test]
    fn what_counts_is_not_left_out() {
        assert!(may_be_left_out("self.stations.insert(source, heard);"));
        assert!(!may_be_left_out("self.hits.update(index, |hits| *hits += 1);"));
        assert!(!may_be_left_out("if !self.hosts.insert(host, 1) {"));
    }

    #[test]
    fn conditions_that_a_larger_setting_makes_fail() {
        for (condition, setting) in [
            ("if age_s > self.settings.refresh_interval_s || moved {", Some("refresh_interval_s")),
            ("if age >= self.settings.interval {", Some("interval")),
            ("if self.settings.interval < age {", Some("interval")),
            ("if age < self.settings.interval {", None),
            ("if self.settings.per_vlan {", None),
            ("if age > 7 {", None),
        ] {
            assert_eq!(raised_by(condition), setting, "{condition}");
        }
    }
}
