//! Keys as text, ready for `ethtool`, DPDK and VPP.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anabranch_rss::{Cause, ClassSolution, Field, Need, Partial, Problem, Unsteerable};

use super::configuration::configuration;
use crate::figures::thousands;
use crate::table::{Table, wrap};

/// All that was found.
pub(super) fn keys(problem: &Problem, found: &Partial, solve_us: f64) -> String {
    let solution = &found.solution;
    let mut text = String::new();
    // A port that no constraint names is there only because ports are numbered from 0.
    let named: BTreeSet<usize> =
        problem.needs.iter().flat_map(|need| need.sides.map(|side| side.port)).collect();
    let ports = solution.ports.iter().enumerate().filter(|(number, _)| named.contains(number));
    for (number, port) in ports {
        let title = port.nic.title;
        let _ = writeln!(text, "Port {number}: {title}, key of {} bytes\n", port.nic.key_len);
        text += &indented(&classes(&port.classes, solution.index_bits).render(), 2);
        text += &configuration(number, port);
    }
    let bits = solution.index_bits;
    let entries = thousands(1 << bits);
    let _ = writeln!(text, "{bits} index bits, a table of {entries} entries.");
    text += &choice(problem, found, solve_us);
    if !found.left_out.is_empty() {
        text += "\nLeft out, to be steered in software:\n";
        text += &left_out(problem, &found.left_out);
    }
    text
}

/// How free the choice of keys was, and what they do.
fn choice(problem: &Problem, found: &Partial, solve_us: f64) -> String {
    let (met, all) = (found.met.len(), problem.needs.len());
    let needs = match met {
        0 => return format!("Chosen in {solve_us:.0} µs; none of {all} needs is met.\n"),
        _ if met == all => format!("{all} needs"),
        _ => format!("{met} of {all} needs"),
    };
    format!(
        "Chosen in {solve_us:.0} µs among 2^{} keys that meet {needs}; * marks what they are about.\n",
        found.solution.dimension
    )
}

/// What each class is hashed by, and how well that spreads.
pub(super) fn classes(classes: &[ClassSolution], index_bits: u32) -> Table {
    let mut table = Table::new(&["class", "hashed", ">bits that spread", ">rank", ">entries"]);
    for class in classes {
        let mark = if class.constrained { "*" } else { "" };
        let mixing: u32 = class.mixes.iter().map(|mixed| u32::from(mixed.bits)).sum();
        table.row([
            format!("{}{mark}", class.class),
            class.input.to_string(),
            format!("{mixing} of {}", class.input.width()),
            format!("{} of {index_bits}", class.rank),
            thousands(class.entries()),
        ]);
    }
    table
}

/// The classes that no key serves, with what is in their way; classes that differ in nothing else
/// are named together.
pub(super) fn left_out(problem: &Problem, classes: &[Unsteerable]) -> String {
    let mut reasons: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for class in classes {
        let reason = (class.side.port, reason(problem, class));
        reasons.entry(reason).or_default().push(class.side.class.to_string());
    }
    let mut text = String::new();
    for ((port, reason), classes) in reasons {
        text += &wrap("  ", &format!("port {port}, {}: {reason}", classes.join(" ")), 4);
    }
    text
}

fn reason(problem: &Problem, class: &Unsteerable) -> String {
    let needs = equalities(problem, &class.needs);
    match &class.cause {
        Cause::Unhashed(fields) => {
            let fields: Vec<String> = fields.iter().map(Field::to_string).collect();
            format!("the NIC does not hash {}, of `{needs}`", fields.join(" "))
        }
        Cause::Disjoint => format!("`{needs}` have no field in common"),
        Cause::Always => format!("`{needs}` makes no hashed field of two packets equal"),
        Cause::NoKey => format!("no key with `{needs}` spreads what the NIC hashes"),
        Cause::Conflict(others) => {
            let others = equalities(problem, others);
            format!("a port has one key, and none serves `{needs}` along with `{others}`")
        }
        Cause::Undocumented => "what the NIC hashes for them is not documented".to_string(),
    }
}

/// What needs are about, each text once.
fn equalities(problem: &Problem, needs: &[usize]) -> String {
    let needs = needs.iter().filter_map(|need| problem.needs.get(*need));
    let texts: BTreeSet<String> = needs.map(condition).collect();
    texts.into_iter().collect::<Vec<_>>().join("`, `")
}

/// What holds between two packets that must meet.
pub(super) fn condition(need: &Need) -> String {
    let equalities: Vec<String> = need.equalities.iter().map(ToString::to_string).collect();
    equalities.join(" && ")
}

/// Each line of `text` moved to the right.
pub(super) fn indented(text: &str, blanks: usize) -> String {
    text.lines().map(|line| format!("{}{line}\n", " ".repeat(blanks))).collect()
}
