//! The plan for readers.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::class::Class;
use crate::model::{Difference, Meeting, Plan, Port, PortClass, SteeredAllocation, Steerer};

/// Columns of a line, as `anabranch paths` has them.
const WIDTH: usize = 100;

impl Plan {
    /// The plan as text: what a network engineer reads before it is run.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}  {}\n", self.nf, self.strategy.name());
        if let Some(impossible) = &self.impossible {
            entry(&mut out, "no sharding", &impossible.why, &impossible.lines);
        }
        out.push_str("\nstate\n");
        let widest = self.objects.iter().map(|object| object.name.len()).max().unwrap_or(0);
        for object in &self.objects {
            let label = format!("{:widest$}  {:11}", object.name, object.mode.name());
            entry(&mut out, &label, &object.why, &object.lines);
        }
        if self.objects.is_empty() {
            out.push_str("  none\n");
        }
        self.meetings(&mut out);
        out.push_str(&format!("\nports ({}, {} index bits)\n", self.nic, self.index_bits));
        self.ports.iter().for_each(|port| port_text(&mut out, port));
        self.steered.iter().for_each(|steered| steered_text(&mut out, steered));
        differences(&mut out, "differences", &self.differences);
        differences(&mut out, "notes", &self.notes);
        let _ = writeln!(out, "\nplanned in {} ms, keys in {} µs", self.total_ms, self.solve_us);
        out
    }

    fn meetings(&self, out: &mut String) {
        out.push_str("\npackets that must meet\n");
        if self.constraints.is_empty() {
            out.push_str("  none\n");
        }
        for (ports, what, lines) in alike(&self.constraints) {
            entry(out, &ports, &what, &lines);
        }
    }

    /// The constraint matrix for packets of one class, as in Pereira's thesis (equation 3.15): one
    /// row and column a port, the upper triangle; `F` where packets of two ports never need to meet.
    pub fn matrix(&self, class: Class) -> Vec<Vec<String>> {
        let names: Vec<&str> = self.ports.iter().map(|port| port.port.as_str()).collect();
        let cell = |row: usize, column: usize| {
            let here = self
                .constraints
                .iter()
                .filter(|meeting| row <= column && meeting.ports == [names[row], names[column]]);
            let of_class = here.filter(|meeting| {
                meeting.classes.iter().all(|one| one.iter().any(|name| name == class.name()))
            });
            let alternatives: Vec<String> =
                of_class.map(|meeting| meeting.equalities.join(" && ")).collect();
            match alternatives.is_empty() {
                true => "F".to_owned(),
                false => alternatives.join(" || "),
            }
        };
        let columns = |row| (0..names.len()).map(|column| cell(row, column)).collect();
        (0..names.len()).map(columns).collect()
    }
}

/// Constraints that say the same of several versions of IP and of TCP as of UDP, as one each:
/// `ip.src` for `ipv4.src` and `ipv6.src`, `l4.src` for `tcp.src` and `udp.src`.
fn alike(meetings: &[Meeting]) -> Vec<(String, String, Vec<u32>)> {
    let mut groups: Vec<(String, BTreeSet<String>, Vec<&Meeting>)> = Vec::new();
    for meeting in meetings {
        let ports = meeting.ports.join(" · ");
        let general: BTreeSet<String> =
            meeting.equalities.iter().map(|equality| general(equality)).collect();
        let of_one_version = |one: &Meeting| version(one).is_some();
        match groups.iter_mut().find(|(known, said, _)| *known == ports && *said == general) {
            Some((_, _, all)) if of_one_version(meeting) => all.push(meeting),
            _ => groups.push((ports, general, vec![meeting])),
        }
    }
    groups.into_iter().map(|(ports, _, all)| group(ports, &all)).collect()
}

fn group(ports: String, all: &[&Meeting]) -> (String, String, Vec<u32>) {
    let lines: BTreeSet<u32> = all.iter().flat_map(|one| one.lines.iter().copied()).collect();
    let objects: BTreeSet<&str> =
        all.iter().flat_map(|one| one.objects.iter().map(String::as_str)).collect();
    let equal: Vec<String> = match all {
        [only] => only.equalities.clone(),
        [first, ..] => first.equalities.iter().map(|equality| general(equality)).collect(),
        [] => Vec::new(),
    };
    let classes: Vec<String> = all.iter().map(|one| classes(one)).collect();
    let objects = objects.into_iter().collect::<Vec<_>>().join(", ");
    let what = format!("{}  [{}: {objects}]", equal.join(" && "), classes.join(", "));
    (ports, what, lines.into_iter().collect())
}

/// The version of IP that both packets have.
fn version(meeting: &Meeting) -> Option<&str> {
    let mut all = meeting.classes.iter().flatten().map(|class| class.get(..4).unwrap_or(class));
    let first = all.next()?;
    all.all(|one| one == first).then_some(first)
}

fn general(equality: &str) -> String {
    let headers = [
        ("ipv4", "ip"),
        ("ipv6", "ip"),
        ("tcp", "l4"),
        ("udp", "l4"),
        ("icmpv4", "icmp"),
        ("icmpv6", "icmp"),
    ];
    headers.iter().fold(equality.to_owned(), |text, (own, all)| {
        text.replace(&format!(".{own}."), &format!(".{all}."))
    })
}

fn classes(meeting: &Meeting) -> String {
    let [first, second] = &meeting.classes;
    match first == second {
        true => first.join(" "),
        false => format!("{} · {}", first.join(" "), second.join(" ")),
    }
}

fn entry(out: &mut String, label: &str, what: &str, lines: &[u32]) {
    let numbers: Vec<String> = lines.iter().map(|line| format!(":{line}")).collect();
    let what = match numbers.len() {
        0 => what.to_owned(),
        1..=6 => format!("{what}  {}", numbers.join(" ")),
        _ => format!("{what}  {} …", numbers[..6].join(" ")),
    };
    let indent = label.chars().count() + 4;
    let mut column = indent;
    let _ = write!(out, "  {label}");
    for (number, word) in what.split(' ').enumerate() {
        let length = word.chars().count() + 1;
        if column + length > WIDTH && number > 0 {
            column = indent.min(30) - 1;
            end_line(out);
            let _ = write!(out, "{:column$}", "");
        } else if number == 0 {
            out.push(' ');
        }
        let _ = write!(out, " {word}");
        column += length;
    }
    end_line(out);
}

/// Ends a line, without the blanks between columns of which the last ones are empty.
fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

fn port_text(out: &mut String, port: &Port) {
    let _ = writeln!(out, "  {}  key {}", port.port, port.key);
    let mut shown: Vec<(String, Vec<&str>)> = Vec::new();
    for class in &port.classes {
        let how = how(class);
        match shown.iter_mut().find(|(known, _)| *known == how) {
            Some((_, names)) => names.push(&class.class),
            None => shown.push((how, vec![&class.class])),
        }
    }
    for (how, names) in shown {
        let _ = writeln!(out, "    {how}");
        let _ = writeln!(out, "      for {}", names.join(" "));
    }
}

fn how(class: &PortClass) -> String {
    let inputs: Vec<String> = class
        .input
        .iter()
        .map(|input| match input.place == input.field {
            true => input.field.clone(),
            false => format!("{} as {}", input.field, input.place),
        })
        .collect();
    let key = class.key_of.as_ref().map_or_else(String::new, |port| format!(", key of {port}"));
    match class.by {
        Steerer::Nic => format!("NIC: {} (rank {})", inputs.join(", "), class.rank),
        Steerer::Software => format!("software: {} (rank {}{key})", inputs.join(", "), class.rank),
        Steerer::OneShard => "one shard".to_owned(),
    }
}

fn steered_text(out: &mut String, steered: &SteeredAllocation) {
    let fields: Vec<String> =
        steered.fields.iter().map(|(class, field)| format!("{field} ({class})")).collect();
    let base = match steered.base.as_str() {
        "" => String::new(),
        base => format!("{base} + "),
    };
    let what = format!(
        "{}: at {}, {base}index % {} is {}",
        steered.object,
        steered.port,
        steered.modulus,
        fields.join(", ")
    );
    out.push_str("\nsteered allocation\n");
    entry(out, "", &what, &steered.lines);
}

fn differences(out: &mut String, title: &str, differences: &[Difference]) {
    if !differences.is_empty() {
        let _ = writeln!(out, "\n{title}");
    }
    for difference in differences {
        entry(out, "-", &difference.what, &difference.lines);
    }
}
