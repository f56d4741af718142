//! `nfs`: the network functions in a table, or one of them in detail.

use anabranch_nf::l3::TABLES;
use anabranch_nf::settings::Setting;

use crate::arguments::NfsArguments;
use crate::error::Error;
use crate::file::print;
use crate::library::{Description, Library};
use crate::table::{Table, wrap};

/// Prints the list, or the description of one function.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Output`].
pub(crate) fn nfs(library: &Library, arguments: &NfsArguments) -> Result<(), Error> {
    match &arguments.nf {
        None => print(&list(library)),
        Some(name) => print(&describe(&library.find(name)?.description())),
    }
}

fn list(library: &Library) -> String {
    let descriptions: Vec<Description> =
        library.entries().map(|entry| entry.description()).collect();
    let mut table = Table::new(&["NF", "ports"]);
    for description in &descriptions {
        table.row([description.name.to_string(), ports(description)]);
    }
    let mut text = table.render() + "\n";
    let width = descriptions.iter().map(|one| one.name.len()).max().unwrap_or(0) + 2;
    for description in &descriptions {
        let name = format!("{:width$}", description.name);
        text.push_str(&wrap(&name, &description.summary(), width));
    }
    text + "\nDetails: `nfs NAME` lists settings, drop reasons and commands; `plan NAME`\n\
            says how several workers share its state.\n"
}

fn describe(description: &Description) -> String {
    let mut text = format!("{}: {}\n\n", description.name, description.file);
    for paragraph in description.docs.trim().split("\n\n") {
        text.push_str(&paragraph_of(paragraph));
        text.push('\n');
    }
    text.push_str(&format!("Ports: {}\n", ports(description)));
    text.push_str(&format!(
        "Workers: `plan {}` says how several share its state\n",
        description.name
    ));
    section(&mut text, "Settings", &description.settings, setting);
    let routing: &[&str] = if description.routes { &TABLES } else { &[] };
    section(&mut text, "Tables of routing, read by --config (docs/l3.md)", routing, |name| {
        item(name, "", "")
    });
    section(&mut text, "Drop reasons", &description.reasons, |(word, help)| item(word, "", help));
    section(&mut text, "Commands", &description.commands, |(name, fields, help)| {
        let usage: String =
            fields.iter().map(|field| format!(" {}={}", field.name, field.kind)).collect();
        item(name, &usage, help)
    });
    text
}

/// A paragraph of documentation: wrapped, unless it is a list, a table or code.
fn paragraph_of(paragraph: &str) -> String {
    let verbatim = |line: &str| line.starts_with([' ', '|', '-', '*', '`', '#']);
    let lines: Vec<&str> =
        paragraph.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    if lines.iter().any(|line| verbatim(line)) {
        lines.join("\n") + "\n"
    } else {
        wrap("", &lines.join(" "), 0)
    }
}

fn section<T>(text: &mut String, title: &str, items: &[T], show: impl Fn(&T) -> String) {
    if !items.is_empty() {
        text.push_str(&format!("\n{title}:\n"));
        text.extend(items.iter().map(show));
    }
}

/// Type, limits and default.
fn facts(setting: &Setting) -> String {
    let mut facts = setting.kind.clone();
    match (&setting.min, &setting.max) {
        (Some(min), Some(max)) => facts.push_str(&format!(", {min} to {max}")),
        (Some(min), None) => facts.push_str(&format!(", at least {min}")),
        (None, Some(max)) => facts.push_str(&format!(", at most {max}")),
        (None, None) => {}
    }
    match &setting.default {
        Some(default) => facts.push_str(&format!("; default {default}")),
        None => facts.push_str("; must be given"),
    }
    facts
}

fn setting(setting: &Setting) -> String {
    let fields = setting.fields.iter().map(field_of);
    item(setting.name, &format!("({})", facts(setting)), setting.help) + &fields.collect::<String>()
}

/// What stands under a name in the tables of a list.
fn field_of(field: &Setting) -> String {
    let text = format!("({}) {}", facts(field), field.help);
    wrap(&format!("      - {} ", field.name), &text, 10)
}

/// A name with what belongs beside it, and its meaning on the lines below.
fn item(name: &str, beside: &str, help: &str) -> String {
    let head = wrap(&format!("  {name} "), beside, 6);
    match help.trim() {
        "" => head,
        help => head + &wrap("      ", help, 6),
    }
}

fn ports(description: &Description) -> String {
    match description.ports {
        [] => "any, named by --in and --out".to_string(),
        ports => ports.join(", "),
    }
}
