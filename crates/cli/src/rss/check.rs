//! `rss check`: what a key does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anabranch_rss::{
    Broken, ClassSolution, Field, FieldValues, GivenPort, Key, Need, Nic, Problem, SampleFrame,
    Side, Solution, broken_needs, needs_of,
};
use serde::Serialize;

use super::arguments::RssCheckArguments;
use super::document::{ClassDocument, hex};
use super::text::condition;
use crate::error::Error;
use crate::figures::thousands;
use crate::file::print;
use crate::run::to_json;
use crate::table::Table;

/// What `rss check --json` prints.
#[derive(Debug, Serialize)]
struct CheckDocument {
    key: String,
    nic: &'static str,
    index_bits: u32,
    classes: Vec<CheckedClass>,
    /// Constraints with two packets that must meet and do not; only those that are broken.
    broken: Vec<BrokenNeed>,
    /// How a capture spreads; `null` without one.
    spread: Option<Spread>,
}

#[derive(Debug, Serialize)]
struct CheckedClass {
    #[serde(flatten)]
    class: ClassDocument,
    /// Whether a packet and its reply reach the same entry.
    symmetric: bool,
    /// Whether they have the same hash.
    symmetric_hash: bool,
    /// Ranges of bits that do not change the entry, by the names of the fields.
    ignored: Vec<String>,
}

#[derive(Debug, Serialize)]
struct BrokenNeed {
    /// What holds between the two packets.
    condition: String,
    classes: [&'static str; 2],
    /// The fields that are not zero, of each of the two packets.
    packets: [Vec<(&'static str, String)>; 2],
}

/// A capture over the entries of the table and the workers.
#[derive(Debug, Serialize)]
struct Spread {
    frames: u64,
    /// Frames of classes that the NIC does not hash.
    unhashed: u64,
    entries_used: usize,
    /// Frames in the fullest entry.
    fullest_entry: u64,
    /// Frames of each worker when entries are dealt out in turn.
    workers: Vec<u64>,
    /// Load of the busiest worker over the mean.
    imbalance: f64,
}

/// Checks the key and prints what there is to say.
///
/// # Errors
/// As [`super::rss`].
pub(super) fn check(arguments: &RssCheckArguments) -> Result<(), Error> {
    let key = read_key(&arguments.key)?;
    let nic = model(arguments.nic.as_deref(), &key)?;
    let index_bits = arguments.index_bits.unwrap_or(nic.index_bits());
    super::check_table(nic, index_bits)?;
    let given = GivenPort { nic, key, inputs: Vec::new() };
    let solution = Solution::given(std::slice::from_ref(&given), index_bits);
    let whole = Solution::given(&[given], 32);
    let classes = solution.ports.iter().flat_map(|port| &port.classes);
    let spread = match &arguments.input {
        Some(path) => Some(spread(&solution, &super::frames(path, 0)?, arguments.workers)),
        None => None,
    };
    let document = CheckDocument {
        key: hex(&key),
        nic: nic.name,
        index_bits,
        classes: classes.map(|class| checked(nic, &solution, &whole, class)).collect(),
        broken: broken(nic, &solution, &arguments.constraint)?,
        spread,
    };
    if arguments.json { print(&to_json(&document)?) } else { print(&words(&document)) }
}

/// A key in hexadecimal; colons, blanks and `0x` are skipped.
fn read_key(text: &str) -> Result<Key, Error> {
    let wrong = |cause: String| Error::Usage(format!("--key: {cause}"));
    let mut digits = Vec::new();
    for (at, letter) in text.replace("0x", "").chars().enumerate() {
        match letter.to_digit(16) {
            Some(digit) => digits.push(digit as u8),
            None if matches!(letter, ':' | ' ' | ',') => {}
            None => {
                let place = at + 1;
                return Err(wrong(format!(
                    "`{letter}` at place {place} is no hexadecimal digit: write 6d:5a:…"
                )));
            }
        }
    }
    if !digits.len().is_multiple_of(2) {
        return Err(wrong(format!("{} digits: write two for each byte", digits.len())));
    }
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    Key::try_from(&bytes[..]).map_err(|cause| wrong(cause.to_string()))
}

fn model(name: Option<&str>, key: &Key) -> Result<&'static Nic, Error> {
    let len = key.as_bytes().len();
    let nic = super::nic(name.unwrap_or(if len == 52 { "x710" } else { "82599" }))?;
    if nic.key_len == len {
        return Ok(nic);
    }
    let (title, needed) = (nic.title, nic.key_len);
    Err(Error::Usage(format!("--key: {len} bytes, but {title} takes keys of {needed} bytes")))
}

/// A problem of one port.
fn problem(nic: &'static Nic, needs: Vec<Need>) -> Problem {
    Problem { needs, ..Problem::new(&[nic]) }
}

fn checked(
    nic: &'static Nic,
    solution: &Solution,
    whole: &Solution,
    class: &ClassSolution,
) -> CheckedClass {
    let side = Side { port: 0, class: class.class };
    // A reply has a verification tag of its own.
    let fields = class.input.fields().iter().copied().filter(|field| *field != Field::SctpTag);
    let reply = problem(nic, vec![Need::reply(side, side, &fields.collect::<Vec<_>>())]);
    let meets = |solution| broken_needs(&reply, solution).is_ok_and(|broken| broken.is_empty());
    CheckedClass {
        symmetric: meets(solution),
        symmetric_hash: meets(whole),
        ignored: class.ignored.iter().map(ToString::to_string).collect(),
        class: ClassDocument::new(class),
    }
}

/// The constraints that the key breaks.
fn broken(
    nic: &'static Nic,
    solution: &Solution,
    constraints: &[String],
) -> Result<Vec<BrokenNeed>, Error> {
    let wrong = |cause: String| Error::Usage(format!("--constraint: {cause}"));
    let mut needs = Vec::new();
    for text in constraints {
        needs.extend(needs_of(text, &[nic]).map_err(|cause| wrong(cause.to_string()))?);
    }
    let problem = problem(nic, needs);
    let broken = broken_needs(&problem, solution).map_err(|cause| wrong(cause.to_string()))?;
    let packet = |values: &FieldValues| {
        values.0.iter().map(|(field, value)| (field.name(), format!("{value:#x}"))).collect()
    };
    let words = |broken: &Broken| BrokenNeed {
        condition: condition(&problem.needs[broken.need]),
        classes: broken.pair.sides.map(|side| side.class.name()),
        packets: broken.pair.packets.each_ref().map(packet),
    };
    Ok(broken.iter().map(words).collect())
}

fn spread(solution: &Solution, frames: &[SampleFrame], workers: u16) -> Spread {
    let mut entries: BTreeMap<u32, u64> = BTreeMap::new();
    let mut loads = vec![0; usize::from(workers)];
    let mut unhashed = 0;
    for frame in frames {
        let entry = solution.entry(0, &frame.bytes);
        *entries.entry(entry).or_default() += 1;
        loads[entry as usize % usize::from(workers)] += 1;
        let class = solution.ports.first().map(|port| port.nic.parse(&frame.bytes).class());
        let class = class.and_then(|class| solution.class(Side { port: 0, class }));
        unhashed += u64::from(class.is_none_or(|class| class.input.fields().is_empty()));
    }
    let frames = frames.len() as u64;
    let busiest = loads.iter().max().copied().unwrap_or(0);
    let mean = frames as f64 / f64::from(workers);
    Spread {
        frames,
        unhashed,
        entries_used: entries.len(),
        fullest_entry: entries.values().max().copied().unwrap_or(0),
        imbalance: if frames == 0 { 1.0 } else { busiest as f64 / mean },
        workers: loads,
    }
}

fn words(document: &CheckDocument) -> String {
    let title = Nic::named(document.nic).map_or("", |nic| nic.title);
    let bits = document.index_bits;
    let mut text = format!("{title}, {bits} index bits\n\n");
    let mut table = Table::new(&["class", ">rank", ">entries", "symmetric", "ignored bits"]);
    for class in &document.classes {
        let ignored = match &class.ignored[..] {
            [] => "none".to_string(),
            ranges => ranges.join(" "),
        };
        table.row([
            class.class.class.to_string(),
            format!("{} of {bits}", class.class.rank),
            thousands(class.class.entries),
            symmetry(class).to_string(),
            ignored,
        ]);
    }
    text += &table.render();
    let mut said = BTreeSet::new();
    for broken in document.broken.iter().filter(|broken| said.insert(&broken.condition)) {
        let BrokenNeed { classes: [one, other], condition, packets: [first, second] } = broken;
        let _ = writeln!(text, "\nBroken: {condition}");
        let _ = writeln!(text, "  {one:<14} {}", fields(first));
        let _ = writeln!(text, "  {other:<14} {}", fields(second));
    }
    if let Some(spread) = &document.spread {
        text += &balance(spread, document.index_bits);
    }
    text
}

fn symmetry(class: &CheckedClass) -> &'static str {
    match (class.symmetric, class.symmetric_hash) {
        (_, true) => "yes",
        (true, false) => "in its entry",
        (false, false) => "no",
    }
}

fn fields(values: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        values.iter().map(|(field, value)| format!("{field} = {value}")).collect();
    if fields.is_empty() { "all fields zero".to_string() } else { fields.join(", ") }
}

fn balance(spread: &Spread, index_bits: u32) -> String {
    let Spread { frames, unhashed, entries_used, fullest_entry, workers, imbalance } = spread;
    let mut text = format!(
        "\n{} frames in {entries_used} of {} entries, {} in the fullest; {} not hashed.\n",
        thousands(*frames),
        thousands(1 << index_bits),
        thousands(*fullest_entry),
        thousands(*unhashed),
    );
    let loads: Vec<String> = workers.iter().map(|load| thousands(*load)).collect();
    let _ = writeln!(text, "{} workers: {}", workers.len(), loads.join(", "));
    let _ = writeln!(text, "The busiest has {imbalance:.2} times the mean.");
    text
}
