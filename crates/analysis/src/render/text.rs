//! Call paths for people.

use std::fmt::Write;

use super::effect_line;
use crate::access::{Access, Part};
use crate::path::CallPath;
use crate::paths::Paths;

/// Column at which lines of the source are named.
const COLUMN: usize = 84;

impl Paths {
    /// Every call path, numbered, under its handler, with a summary at the end.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}  {}\n", self.name, self.file);
        let mut heading = String::new();
        for path in &self.paths {
            let next = self.heading(path);
            if next != heading {
                let _ = write!(text, "\n{next}\n");
                heading = next;
            }
            self.path_text(path, &mut text);
        }
        self.closing(&mut text);
        text
    }

    /// One call path: its handler, its verdict, what must hold, state, rewrites, each with its line.
    pub fn path_to_text(&self, path: &CallPath) -> String {
        let mut text = format!("{}\n", self.heading(path));
        self.path_text(path, &mut text);
        text
    }

    fn heading(&self, path: &CallPath) -> String {
        let class = path.class.as_deref().map(|class| format!(", {class}")).unwrap_or_default();
        let port = self.port_name(path).map(|port| format!(" from {port}")).unwrap_or_default();
        format!("{}{class}{port}", path.handler)
    }

    fn path_text(&self, path: &CallPath, text: &mut String) {
        row(text, &format!("{:>4}  {}", path.number, self.verdict_text(&path.verdict)), path.line);
        let conditions = path.conditions.iter();
        let conditions = conditions.flat_map(|made| {
            self.terms.conjuncts(made.term).into_iter().map(|one| (one, made.line))
        });
        for (position, (condition, line)) in conditions.enumerate() {
            let label = if position == 0 { "when" } else { "" };
            item(text, label, &self.print(condition), line);
        }
        for (position, access) in path.accesses.iter().enumerate() {
            let label = if position == 0 { "state" } else { "" };
            item(text, label, &self.access_text(path, access), access.line);
        }
        for (position, rewrite) in path.rewrites.iter().enumerate() {
            let label = if position == 0 { "sets" } else { "" };
            let value = self.print_rewrite(rewrite);
            item(
                text,
                label,
                &format!("{}.{} = {value}", rewrite.header, rewrite.field),
                rewrite.line,
            );
        }
        for (position, effect) in path.effects.iter().enumerate() {
            let label = if position == 0 { "asks" } else { "" };
            item(text, label, &self.effect_text(effect), effect_line(effect));
        }
    }

    /// `by_inside.get#1(address: ipv4.src, port: udp.src) -> found`.
    fn access_text(&self, path: &CallPath, access: &Access) -> String {
        let mut text = format!("{}.{}#{}", access.object, access.operation, access.number);
        let _ = write!(text, "({}", self.parts_text(&access.key));
        text.push_str(if access.symmetric { ", either way round)" } else { ")" });
        if !access.value.is_empty() {
            let _ = write!(text, " = {{{}}}", self.parts_text(&access.value));
        }
        if let Some(outcome) = self.outcome(path, access) {
            let _ = write!(text, " -> {outcome}");
        }
        text
    }

    fn parts_text(&self, parts: &[Part]) -> String {
        let parts: Vec<String> = parts.iter().map(|part| self.part_text(part)).collect();
        parts.join(", ")
    }

    fn part_text(&self, part: &Part) -> String {
        let value = self.print_part(part);
        match part.name.is_empty() || part.name == value {
            true => value,
            false => format!("{}: {value}", part.name),
        }
    }

    fn closing(&self, text: &mut String) {
        if !self.warnings.is_empty() {
            text.push_str("\nwarnings\n");
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "  {}:{}: {}", self.file, warning.line, warning.message);
        }
        let proved = self.proved();
        if !proved.is_empty() {
            text.push_str("\nproved of state\n");
        }
        for proved in &proved {
            let _ = writeln!(text, "  {proved}");
        }
        if !self.opaque.is_empty() {
            let _ = write!(text, "\ntaken as unknown functions: {}\n", self.opaque.join(", "));
        }
        if !self.declared.is_empty() {
            let _ = writeln!(text, "declared of them: {}", self.declared.join(", "));
        }
        if !self.distant.is_empty() {
            let few = self.distant.len();
            let _ = write!(text, "\n{few} of these need a number to be counted up for years\n");
        }
        let made = &self.statistics;
        let _ = write!(
            text,
            "\n{} call paths, {} branches pruned, {} solver calls, {} ms\n",
            made.paths, made.pruned, made.solver_calls, made.time_ms
        );
        if made.unlinked > made.paths {
            let _ = writeln!(
                text,
                "{} more without what is proved of state",
                made.unlinked - made.paths
            );
        }
        if made.undecided > 0 {
            let _ = writeln!(
                text,
                "{} conditions too hard for the solver; their paths are listed",
                made.undecided
            );
        }
    }
}

fn item(text: &mut String, label: &str, what: &str, line: u32) {
    row(text, &format!("      {label:<6}{what}"), line);
}

/// A row with the source line at its end; 0 is no line.
fn row(text: &mut String, left: &str, line: u32) {
    let width = left.chars().count();
    let gap = COLUMN.saturating_sub(width).max(2);
    let _ = match line {
        0 => writeln!(text, "{left}"),
        _ => writeln!(text, "{left}{:gap$}:{line}", ""),
    };
}
