//! A profile as text: what limits it, the causes, what to do.

use std::path::Path;

use super::apply::{Applied, Figures};
use super::document::{Cause, Document, NOT_COUNTED, Operation, WORTH_A_WORD};
use super::recipe::Step;
use crate::arguments::ProfileArguments;
use crate::figures::{percent, rate, ratio, thousands};
use crate::table::{Table, wrap};

/// Causes that are told; the JSON document has all.
const CAUSES: usize = 6;
/// Lines that are told.
const LINES: usize = 6;
/// Characters of a source line or key that are shown.
const WIDTH: usize = 60;

/// The whole profile.
pub(super) fn render(document: &Document, arguments: &ProfileArguments) -> String {
    let limit = &document.limit.text;
    let head = format!("{} on {} workers is limited by {limit}", document.nf, document.workers);
    let head =
        if limit.starts_with("nothing") { head } else { head.replace("limited by ", "limited: ") };
    let mut text = wrap("", &head, 4);
    let tables =
        [totals, causes, lines, handlers, load, entries, pools].map(|table| table(document));
    for table in tables {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.render());
        }
    }
    text.push_str(&advice(document));
    if arguments.apply {
        text.push_str(&applied(document, arguments.save.as_deref()));
    }
    text.push_str(&remarks(document));
    text
}

fn totals(document: &Document) -> Table {
    let transactions = &document.transactions;
    let begun = transactions.commits + document.aborts;
    let mut table = Table::new(&["", ">", ">", ""]);
    table.row([
        "packets".to_owned(),
        thousands(document.packets),
        String::new(),
        format!("{} Mpps", rate(document.mpps)),
    ]);
    table.row([
        "aborts".to_owned(),
        thousands(document.aborts),
        percent(ratio(document.aborts, begun)),
        "of transactions; their packets were handled for nothing".to_owned(),
    ]);
    let alone = transactions.alone + document.irrevocable;
    table.row([
        "ran alone".to_owned(),
        thousands(alone),
        percent(ratio(alone, document.packets)),
        format!("of packets; {} after eight aborts", thousands(document.irrevocable)),
    ]);
    table
}

fn causes(document: &Document) -> Table {
    let headings = [">lost", ">aborts", ">alone", "cause", "object", "given up", "committed"];
    let mut table = Table::new(&headings);
    for cause in document.causes.iter().take(CAUSES) {
        let unknown = usize::from(!cause.is_own_known);
        let operation = |at: usize| {
            let one = at.checked_sub(unknown).and_then(|at| cause.operations.get(at));
            one.map(place).unwrap_or_default()
        };
        let object = cause.object.as_ref().map(|object| format!("{object} ({})", cause.kind));
        table.row([
            percent(cause.lost),
            thousands(cause.aborts),
            thousands(cause.packets_alone),
            cause.cause.to_owned(),
            object.unwrap_or_else(|| cause.kind.to_owned()),
            operation(0),
            operation(1),
        ]);
    }
    table
}

/// An operation and its line.
pub(crate) fn place(operation: &Operation) -> String {
    match operation.line {
        Some(line) => format!("{} :{line}", operation.operation),
        None => operation.operation.to_owned(),
    }
}

fn lines(document: &Document) -> Table {
    let mut table = Table::new(&[">share", ">aborts", &format!("line of {}", document.file)]);
    for line in document.lines.iter().take(LINES) {
        let source = shortened(&line.source);
        let place = if line.line == 0 { source } else { format!(":{} {source}", line.line) };
        table.row([percent(line.share), thousands(line.aborts), place]);
    }
    table
}

/// What each handler takes.
fn handlers(document: &Document) -> Table {
    let (headings, rows) = document.handler_table();
    let mut table = Table::new(headings);
    rows.into_iter().for_each(|row| table.row(row));
    table
}

fn load(document: &Document) -> Table {
    let mut table = Table::new(&["worker", ">packets", ">share", ">busy"]);
    for (number, worker) in document.load.iter().enumerate() {
        table.row([
            number.to_string(),
            thousands(worker.packets),
            percent(worker.share),
            percent(worker.busy),
        ]);
    }
    table
}

/// The heaviest entries of the indirection table, and the middle one to compare with.
fn entries(document: &Document) -> Table {
    let shards = &document.shards;
    let mut table = Table::new(&["entry", ">packets", ">share", "", ">worker"]);
    for shard in shards.heaviest.iter().take(LINES) {
        let times = shard.packets as f64 / shards.median.max(1) as f64;
        table.row([
            shard.entry.to_string(),
            thousands(shard.packets),
            percent(shard.share),
            format!("{times:.1} × the middle one"),
            shard.worker.to_string(),
        ]);
    }
    if !table.is_empty() {
        table.row([
            "middle".to_owned(),
            thousands(shards.median),
            String::new(),
            format!("of {} entries with packets", thousands(shards.used as u64)),
        ]);
    }
    table
}

/// How full what can be full is.
fn pools(document: &Document) -> Table {
    let mut table = Table::new(&["object", ">in use", ">of", ">", ""]);
    for pool in document.pools.iter().take(LINES) {
        table.row([
            pool.object.clone(),
            thousands(pool.used),
            thousands(pool.capacity),
            percent(pool.share),
            if pool.nearly_full { "nearly full" } else { "" }.to_owned(),
        ]);
    }
    table
}

/// What to do about each cause.
fn advice(document: &Document) -> String {
    let mut text = String::new();
    let mut told: Vec<(&str, Option<&str>)> = Vec::new();
    for cause in document.causes.iter().take(CAUSES) {
        let this = (cause.cause, cause.object.as_deref());
        if told.contains(&this) {
            continue;
        }
        told.push(this);
        text.push_str(&format!("\n{}. ", told.len()));
        text.push_str(&wrap("", &format!("{}: {}", cause.sentence(), cause.why), 3));
        text.push_str(&keys(cause));
        for step in &cause.recipes {
            text.push_str(&recipe(step));
        }
    }
    text
}

fn keys(cause: &Cause) -> String {
    if cause.keys.is_empty() {
        return String::new();
    }
    let of = cause
        .keys
        .iter()
        .map(|key| format!("{} ({}×)", shortened(&key.key), thousands(key.aborts)));
    let all: Vec<String> = of.collect();
    format!("   hottest: {}\n", all.join(", "))
}

fn recipe(step: &Step) -> String {
    let line = step.line.map(|line| format!(" (:{line})")).unwrap_or_default();
    let (before, after) = (shortened(&step.before), &step.after);
    let change = match step.by {
        "setting" => format!("setting {}{line}: {before} → {after}", step.parameter),
        _ if before.is_empty() => after.clone(),
        "option" => format!("{} {before} → {after}", step.parameter),
        _ => format!("{}{line}: `{before}` → {after}", step.parameter),
    };
    let relaxes = if step.relaxes.is_empty() { "nothing" } else { step.relaxes };
    wrap("   - ", &change, 7)
        + &wrap("       relaxes: ", relaxes, 9)
        + &wrap("       effect: ", step.effect, 9)
}

fn applied(document: &Document, file: Option<&Path>) -> String {
    if document.applied.is_empty() {
        let costly = document.causes.iter().filter(|cause| cause.lost >= WORTH_A_WORD);
        let steps = costly.clone().flat_map(|cause| &cause.recipes);
        let line = steps.filter(|step| step.by == "source").find_map(|step| step.line);
        let place = line.map(|line| format!(", at {}:{line} first", document.file));
        let place = place.unwrap_or_default();
        let text = match costly.count() {
            0 => "nothing to try: no cause costs 1 % of the work".to_owned(),
            _ => format!("no setting relieves what was found: the source has to change{place}"),
        };
        let not = file.map(|file| format!("; {}: not written", file.display()));
        return format!("\n{}", wrap("", &(text + &not.unwrap_or_default()), 4));
    }
    let mut table = Table::new(&["tried, each alone", ">before", ">after", ">Mpps", ">aborts", ""]);
    table.row([
        "(as it is)".to_owned(),
        String::new(),
        String::new(),
        rate(document.mpps),
        thousands(document.aborts),
        String::new(),
    ]);
    for Applied { parameter, before, after, after_mpps, after_aborts, helped, .. } in
        &document.applied
    {
        table.row([
            parameter.clone(),
            before.clone(),
            after.clone(),
            rate(*after_mpps),
            thousands(*after_aborts),
            if *helped { "helped" } else { "no help" }.to_owned(),
        ]);
    }
    if let Some(Figures { mpps, aborts, .. }) = &document.together {
        let (all, none) = ("what helped, together".to_owned(), String::new());
        table.row([all, none.clone(), none.clone(), rate(*mpps), thousands(*aborts), none]);
    }
    let written = file.map_or(String::new(), |file| match document.improved {
        true => format!("written: {}\n", file.display()),
        false => format!("{}: not written: nothing helped\n", file.display()),
    });
    format!("\n{}{written}", table.render())
}

fn remarks(document: &Document) -> String {
    let overhead = &document.overhead;
    let mut text = format!(
        "\n{}; {:.0} ns of workers for a packet with it, {:.0} ns without\n",
        overhead.sentence(),
        overhead.with_ns,
        overhead.without_ns
    );
    let counted = document.hardware.map_or(NOT_COUNTED.to_owned(), |hardware| hardware.text());
    text += &wrap("", &counted, 4);
    for note in &document.notes {
        text += &wrap("", note, 4);
    }
    text
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    let start: String = text.chars().take(WIDTH - 1).collect();
    format!("{start}…")
}
