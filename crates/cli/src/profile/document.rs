//! What a profile says: one value, printed, written as JSON, drawn as HTML. Field names are those of the
//! JSON document, described in `docs/profile.md`.

use std::collections::BTreeMap;

use anabranch_nf::tracked::causes::Site;
use anabranch_runtime::hardware::HardwareCounts;
use anabranch_runtime::profile::Finding;
use anabranch_runtime::report::{
    HandlerReport, RunReport, ShardsReport, TransactionReport, WorkerReport,
};
use serde::Serialize;

use super::apply::{Applied, Figures};
use super::recipe::{Step, Subject};
use super::{Measured, Pair};
use crate::figures::{percent, ratio, thousands};

/// What is lost is worth a word from this share on.
pub(super) const WORTH_A_WORD: f64 = 0.01;
/// Workers that are busy for less of the time wait for packets.
const BUSY: f64 = 0.8;
/// A table is nearly full from this share on.
const NEARLY_FULL: f64 = 0.9;

/// A profile.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) version: u32,
    pub(crate) nf: String,
    pub(crate) file: String,
    pub(crate) workers: usize,
    pub(crate) packets: u64,
    pub(crate) mpps: f64,
    /// Strategy that `anabranch plan` chooses, where it could be asked.
    pub(crate) planned: Option<String>,
    pub(crate) limit: Limit,
    pub(crate) aborts: u64,
    pub(crate) irrevocable: u64,
    pub(crate) transactions: TransactionReport,
    pub(crate) causes: Vec<Cause>,
    pub(crate) lines: Vec<Line>,
    pub(crate) load: Vec<WorkerReport>,
    pub(crate) shards: ShardsReport,
    pub(crate) pools: Vec<Fullness>,
    /// `None`: the machine counts nothing.
    pub(crate) hardware: Option<HardwareUse>,
    /// The one that took most first.
    pub(crate) handlers: Vec<HandlerUse>,
    pub(crate) overhead: Overhead,
    pub(crate) applied: Vec<Applied>,
    /// What recipes that helped come to together, where they are several.
    pub(crate) together: Option<Figures>,
    /// Whether there are settings that are better than those given.
    #[serde(skip)]
    pub(crate) improved: bool,
    pub(crate) notes: Vec<String>,
}

/// What limits it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Limit {
    pub(crate) kind: LimitKind,
    /// The part of all work that it costs, 0 to 1.
    pub(crate) share: f64,
    pub(crate) text: String,
}

/// What can limit several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LimitKind {
    /// Transactions are given up because others were in the way.
    Conflicts,
    /// Packets run with nobody beside them.
    Alone,
    /// One worker has more to do than others.
    Imbalance,
    /// Nothing that is worth a word.
    Nothing,
}

/// Why transactions were given up.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cause {
    pub(crate) cause: &'static str,
    pub(crate) object: Option<String>,
    pub(crate) kind: &'static str,
    /// The operation that was given up, then the one that had committed.
    pub(crate) operations: Vec<Operation>,
    /// Lines of them.
    pub(crate) lines: Vec<u32>,
    /// The part of all work that it costs, 0 to 1.
    pub(crate) lost: f64,
    /// Its share in all transactions given up, 0 to 1.
    pub(crate) share: f64,
    pub(crate) aborts: u64,
    /// Packets handled for nothing.
    pub(crate) packets_wasted: u64,
    /// Packets that ran alone.
    pub(crate) packets_alone: u64,
    pub(crate) keys: Vec<HotKey>,
    pub(crate) why: &'static str,
    pub(crate) recipes: Vec<Step>,
    /// Another worker was in the way, whether or not it is known what that did.
    #[serde(skip)]
    pub(crate) is_conflict: bool,
    /// Whether the first of `operations` is the one that was given up.
    #[serde(skip)]
    pub(crate) is_own_known: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Operation {
    pub(crate) operation: &'static str,
    pub(crate) line: Option<u32>,
    pub(crate) source: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct HotKey {
    pub(crate) key: String,
    pub(crate) aborts: u64,
}

/// Transactions given up at a line.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) line: u32,
    pub(crate) source: String,
    pub(crate) aborts: u64,
    pub(crate) share: f64,
}

/// What is in use of an object that can be full.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fullness {
    pub(crate) object: String,
    pub(crate) used: u64,
    pub(crate) capacity: u64,
    /// 0 to 1.
    pub(crate) share: f64,
    pub(crate) nearly_full: bool,
}

/// What processors count for a packet, in user space, of workers that are not watched.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct HardwareUse {
    pub(crate) cycles_per_packet: f64,
    pub(crate) instructions_per_packet: f64,
    pub(crate) cache_misses_per_packet: Option<f64>,
    pub(crate) branch_misses_per_packet: Option<f64>,
}

/// What one handler takes, watched.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HandlerUse {
    pub(crate) handler: String,
    /// Packets that were handled again are counted again.
    pub(crate) calls: u64,
    pub(crate) ns_per_call: f64,
    /// Of the time in which workers had packets to handle. It is that of a sample of calls: all shares together may come
    /// to a little over 1.
    pub(crate) share: f64,
    /// As `hardware`, and likewise absent.
    pub(crate) cycles_per_call: Option<f64>,
    pub(crate) instructions_per_call: Option<f64>,
    pub(crate) cache_misses_per_call: Option<f64>,
    pub(crate) branch_misses_per_call: Option<f64>,
}

impl HandlerUse {
    fn of(report: &HandlerReport, busy_s: f64) -> Self {
        let each = |count: u64| ratio(count, report.calls);
        let counts = report.hardware;
        Self {
            handler: report.handler.clone(),
            calls: report.calls,
            ns_per_call: report.time_s * 1e9 / report.calls.max(1) as f64,
            share: if busy_s > 0.0 { report.time_s / busy_s } else { 0.0 },
            cycles_per_call: counts.map(|counts| each(counts.cycles)),
            instructions_per_call: counts.map(|counts| each(counts.instructions)),
            cache_misses_per_call: counts.and_then(|counts| counts.cache_misses).map(each),
            branch_misses_per_call: counts.and_then(|counts| counts.branch_misses).map(each),
        }
    }

    /// As a row of a table; what processors count is empty where they do not.
    fn row(&self) -> [String; HANDLERS.len()] {
        let figure = |count: Option<f64>, digits: usize| {
            count.map_or_else(String::new, |each| format!("{each:.digits$}"))
        };
        [
            self.handler.clone(),
            thousands(self.calls),
            thousands(self.ns_per_call.round() as u64),
            percent(self.share),
            figure(self.cycles_per_call, 0),
            figure(self.instructions_per_call, 0),
            figure(self.cache_misses_per_call, 2),
            figure(self.branch_misses_per_call, 2),
        ]
    }
}

impl Document {
    /// What each handler takes, and the runtime besides, as headings and rows of a table; what processors count only
    /// where they do.
    pub(crate) fn handler_table(&self) -> (&'static [&'static str], Vec<[String; HANDLERS.len()]>) {
        let is_counted = self.handlers.iter().any(|handler| handler.cycles_per_call.is_some());
        let columns = if is_counted { HANDLERS.len() } else { HANDLERS.len() / 2 };
        let told: f64 = self.handlers.iter().map(|handler| handler.share).sum();
        let mut rest = [const { String::new() }; HANDLERS.len()];
        (rest[0], rest[3]) = ("(the runtime)".to_owned(), percent((1.0 - told).max(0.0)));
        let rows = self.handlers.iter().map(HandlerUse::row);
        let rest = (!self.handlers.is_empty()).then_some(rest);
        (&HANDLERS[..columns], rows.chain(rest).collect())
    }
}

/// Headings of what [`HandlerUse::row`] says.
const HANDLERS: [&str; 8] = [
    "handler",
    ">calls",
    ">ns each",
    ">of all",
    ">cycles",
    ">instructions",
    ">cache misses",
    ">branch misses",
];

/// What a machine lacks that counts nothing.
pub(crate) const NOT_COUNTED: &str = "cycles, instructions, cache and branch misses are not counted here: that takes a \
     processor whose performance counters this system shows (a virtual machine's host can pass them on), and \
     kernel.perf_event_paranoid at 2 or less";

impl HardwareUse {
    fn of(counts: HardwareCounts, packets: u64) -> Self {
        let each = |count| ratio(count, packets);
        Self {
            cycles_per_packet: each(counts.cycles),
            instructions_per_packet: each(counts.instructions),
            cache_misses_per_packet: counts.cache_misses.map(each),
            branch_misses_per_packet: counts.branch_misses.map(each),
        }
    }

    /// In words.
    pub(crate) fn text(&self) -> String {
        let figure = |count: Option<f64>| count.map_or("?".to_owned(), |each| format!("{each:.2}"));
        format!(
            "{:.0} cycles, {:.0} instructions, {} cache misses, {} branch misses a packet",
            self.cycles_per_packet,
            self.instructions_per_packet,
            figure(self.cache_misses_per_packet),
            figure(self.branch_misses_per_packet)
        )
    }
}

/// What profiling itself costs: nanoseconds that workers run on processors for a packet.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Overhead {
    pub(crate) with_ns: f64,
    pub(crate) without_ns: f64,
    /// `None`: pairs of runs are further apart than what they are to tell.
    pub(crate) share: Option<f64>,
    /// How far apart the middle half of the pairs is.
    pub(crate) spread: f64,
}

impl Document {
    pub(super) fn new(measured: &Measured, subject: &Subject<'_>) -> Self {
        let Measured { report, findings, .. } = measured;
        let aborts: u64 = findings.iter().map(|finding| finding.times).sum();
        let workers = report.workers.len();
        let all = work(report, findings);
        let of = |finding: &Finding| Cause {
            lost: ratio(cost(finding, workers), all),
            ..cause(finding, aborts, subject)
        };
        let mut causes: Vec<Cause> = findings.iter().map(of).collect();
        causes.sort_by(|one, other| other.lost.total_cmp(&one.lost));
        let transactions = report.transactions.unwrap_or_default();
        Self {
            version: 1,
            nf: report.nf.clone(),
            file: subject.source.file.to_owned(),
            workers,
            packets: report.packets_read,
            mpps: measured.mpps,
            planned: subject.planned.clone(),
            limit: limit(report, findings, &causes),
            aborts,
            irrevocable: transactions.irrevocable,
            transactions,
            lines: lines(findings, aborts, subject),
            causes,
            load: report.workers.clone(),
            shards: report.shards.clone().unwrap_or_default(),
            pools: pools(report),
            hardware: measured.hardware.map(|(counts, packets)| HardwareUse::of(counts, packets)),
            handlers: handlers(report),
            overhead: Overhead::of(&measured.pairs),
            applied: Vec::new(),
            together: None,
            improved: false,
            notes: notes(subject, report),
        }
    }
}

/// The one that took most first.
fn handlers(report: &RunReport) -> Vec<HandlerUse> {
    let busy_s = report.workers.iter().map(|worker| worker.busy_s).sum();
    let mut handlers: Vec<HandlerUse> =
        report.handlers.iter().map(|one| HandlerUse::of(one, busy_s)).collect();
    handlers.sort_by(|one, other| other.share.total_cmp(&one.share));
    handlers
}

/// Packets that could have been handled instead: those handled for nothing, and those that the others
/// could have handled while one ran alone.
fn cost(finding: &Finding, workers: usize) -> u64 {
    finding.packets + finding.alone * (workers.max(1) as u64 - 1)
}

/// All packets that were handled, or could have been.
fn work(report: &RunReport, findings: &[Finding]) -> u64 {
    let lost = findings.iter().map(|finding| cost(finding, report.workers.len()));
    report.packets_read + lost.sum::<u64>()
}

fn cause(finding: &Finding, aborts: u64, subject: &Subject<'_>) -> Cause {
    let sites = [finding.ours, finding.theirs].into_iter().flatten();
    let operations: Vec<Operation> = sites.map(|site| operation(finding, site, subject)).collect();
    let mut lines: Vec<u32> = operations.iter().filter_map(|one| one.line).collect();
    lines.dedup();
    let keys = finding.keys.iter().cloned().map(|(key, aborts)| HotKey { key, aborts });
    Cause {
        cause: finding.cause.name,
        object: finding.object.clone(),
        kind: finding.kind,
        operations,
        lines,
        lost: 0.0,
        share: ratio(finding.times, aborts),
        aborts: finding.times,
        packets_wasted: finding.packets,
        packets_alone: finding.alone,
        keys: keys.collect(),
        why: finding.cause.why,
        recipes: subject.recipes(finding),
        is_conflict: finding.is_conflict(),
        is_own_known: finding.ours.is_some(),
    }
}

fn operation(finding: &Finding, site: Site, subject: &Subject<'_>) -> Operation {
    let line = subject.line(finding, site);
    let source = line.and_then(|line| subject.text(line)).unwrap_or_default().to_owned();
    Operation { operation: site.operation.name(), line, source }
}

fn lines(findings: &[Finding], aborts: u64, subject: &Subject<'_>) -> Vec<Line> {
    let mut by_line: BTreeMap<u32, u64> = BTreeMap::new();
    for finding in findings {
        let line = finding.ours.and_then(|site| subject.line(finding, site));
        *by_line.entry(line.unwrap_or(0)).or_default() += finding.times;
    }
    let line = |(line, times): (u32, u64)| Line {
        line,
        source: subject.text(line).unwrap_or("(the runtime, or not known)").to_owned(),
        aborts: times,
        share: ratio(times, aborts),
    };
    // What was seen to need to be alone before it ran is given up nowhere.
    let given_up = by_line.into_iter().filter(|(_, times)| *times > 0);
    let mut lines: Vec<Line> = given_up.map(line).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.aborts));
    lines
}

fn limit(report: &RunReport, findings: &[Finding], causes: &[Cause]) -> Limit {
    let workers = report.workers.len();
    let sum = |is_conflict: bool| -> u64 {
        let these = findings.iter().filter(|finding| finding.is_conflict() == is_conflict);
        these.map(|finding| cost(finding, workers)).sum()
    };
    let (conflicts, alone, all) = (sum(true), sum(false), work(report, findings));
    let largest = report.workers.iter().map(|worker| worker.share).fold(0.0, f64::max);
    let imbalance = if largest > 0.0 { 1.0 - 1.0 / (workers as f64 * largest) } else { 0.0 };
    let parts = [
        (LimitKind::Conflicts, ratio(conflicts, all)),
        (LimitKind::Alone, ratio(alone, all)),
        (LimitKind::Imbalance, imbalance),
    ];
    let most = parts.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let (kind, share) = most.filter(|(_, share)| *share >= WORTH_A_WORD).unwrap_or_else(|| {
        (LimitKind::Nothing, parts.iter().map(|(_, share)| *share).fold(0.0, f64::max))
    });
    let first = causes.iter().find(|cause| cause.is_conflict == (kind == LimitKind::Conflicts));
    let of = first.map(|cause| format!(": {}", cause.sentence())).unwrap_or_default();
    let text = match kind {
        LimitKind::Conflicts => format!("conflicts cost {} of the work{of}", percent(share)),
        LimitKind::Alone => {
            format!("packets that run alone cost {} of the work{of}", percent(share))
        }
        LimitKind::Imbalance => format!(
            "uneven load costs {} of the work: the busiest worker has {} of the packets",
            percent(share),
            percent(largest)
        ),
        LimitKind::Nothing => {
            "nothing: conflicts, packets that run alone and uneven load cost less than 1 % of the \
             work each"
                .to_owned()
        }
    };
    Limit { kind, share, text }
}

impl Cause {
    /// What it is and where, in few words.
    pub(crate) fn sentence(&self) -> String {
        let place = self.object.as_ref().map(|object| format!(" of {} `{object}`", self.kind));
        let lines: Vec<String> = self.lines.iter().map(|line| format!(":{line}")).collect();
        let lines =
            if lines.is_empty() { String::new() } else { format!(" ({})", lines.join(" ")) };
        format!("{}{}{lines}", self.cause, place.unwrap_or_default())
    }
}

impl Overhead {
    /// The medians of all pairs. Each pair is compared by itself: what the machine does besides changes in
    /// longer times.
    fn of(pairs: &[Pair]) -> Self {
        let with_ns = quantile(pairs.iter().map(|pair| pair.watched_ns), 0.5);
        let without_ns = quantile(pairs.iter().map(|pair| pair.unwatched_ns), 0.5);
        let told = pairs.iter().filter(|pair| pair.unwatched_ns > 0.0);
        let shares = told.map(|pair| pair.watched_ns / pair.unwatched_ns - 1.0);
        let spread = quantile(shares.clone(), 0.75) - quantile(shares.clone(), 0.25);
        let share = Some(quantile(shares, 0.5)).filter(|share| *share > 0.0 && *share >= spread);
        Self { with_ns, without_ns, share, spread }
    }

    /// In few words: `profiling cost 8.1 %`.
    pub(crate) fn sentence(&self) -> String {
        match self.share {
            Some(share) => format!("profiling cost {}", percent(share)),
            None => {
                format!(
                    "what profiling cost cannot be told: runs differ by {}",
                    percent(self.spread)
                )
            }
        }
    }
}

/// The value below which this part of all is; 0 of none.
fn quantile(values: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((part * last as f64).round() as usize).copied().unwrap_or(0.0)
}

/// The fullest first.
fn pools(report: &RunReport) -> Vec<Fullness> {
    let fullness = |table: &anabranch_runtime::report::TableReport| {
        let share = ratio(table.used, table.capacity);
        Fullness {
            object: table.name.clone(),
            used: table.used,
            capacity: table.capacity,
            share,
            nearly_full: share >= NEARLY_FULL,
        }
    };
    let pools = report.tables.iter().filter(|table| !table.whole);
    let mut pools: Vec<Fullness> = pools.map(fullness).collect();
    pools.sort_by(|one, other| other.share.total_cmp(&one.share));
    pools
}

fn notes(subject: &Subject<'_>, report: &RunReport) -> Vec<String> {
    let workers = report.workers.len();
    let mut notes = report.warnings.clone();
    match subject.planned.as_deref() {
        Some("shared-nothing") => notes.push(
            "`anabranch plan` divides all of this state among workers: `anabranch run` uses no \
             transactions for it, and has none of these conflicts"
                .to_owned(),
        ),
        Some("mixed") => notes.push(
            "`anabranch plan` divides packet sets among workers: they are apart here as in a run, and in \
             nobody's way"
                .to_owned(),
        ),
        _ => {}
    }
    notes.extend(crate::advice::uneven(report));
    let busiest = report.workers.iter().map(|worker| worker.busy).fold(0.0, f64::max);
    if busiest < BUSY {
        notes.push(format!(
            "workers had packets to handle for at most {} of the time: the source is slower than they \
             are, and conflicts are fewer than they would be; a capture held in memory (`mem:FILE`) is \
             faster",
            percent(busiest)
        ));
    }
    let TransactionReport { commits, conflicts, .. } = report.transactions.unwrap_or_default();
    if conflicts * 10 > commits {
        notes.push(
            "a profile stays in transactions: in `anabranch run` workers take turns where that is measured \
             to be faster, and its report says with how many packets"
                .to_owned(),
        );
    }
    let cores = crate::arguments::cores();
    if workers > cores {
        notes.push(format!(
            "{workers} workers on {cores} cores: one that loses its core is in others' way longer"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that took so much unwatched, and so much more watched.
    fn pairs(of: [(f64, f64); 5]) -> Vec<Pair> {
        of.map(|(unwatched_ns, share)| Pair {
            watched_ns: unwatched_ns * (1.0 + share),
            unwatched_ns,
        })
        .to_vec()
    }

    #[test]
    fn what_profiling_costs_is_the_median_of_the_pairs() {
        let steady = [(100.0, 0.08), (110.0, 0.09), (300.0, 0.07), (100.0, 1.1), (100.0, 0.08)];
        let overhead = Overhead::of(&pairs(steady));
        assert!(overhead.share.is_some_and(|share| (share - 0.08).abs() < 1e-9), "{overhead:?}");
        assert_eq!(
            (overhead.without_ns, overhead.sentence().as_str()),
            (100.0, "profiling cost 8.0 %")
        );
    }

    #[test]
    fn what_pairs_do_not_agree_about_is_not_told() {
        let restless = [(100.0, 0.2), (100.0, -0.1), (100.0, 0.05), (100.0, 0.6), (100.0, 0.3)];
        let none = [(100.0, -0.01), (100.0, -0.01), (100.0, 0.0), (100.0, -0.02), (100.0, 0.0)];
        for measured in [restless, none] {
            let overhead = Overhead::of(&pairs(measured));
            assert_eq!(overhead.share, None, "{overhead:?}");
            assert!(overhead.sentence().contains("cannot be told"), "{overhead:?}");
        }
        assert_eq!(Overhead::of(&[]).share, None);
    }

    #[test]
    fn counts_are_told_for_a_packet() {
        let counts = HardwareCounts {
            cycles: 5_000,
            instructions: 12_000,
            cache_misses: Some(25),
            branch_misses: None,
        };
        let text = HardwareUse::of(counts, 100).text();
        let told = "50 cycles, 120 instructions, 0.25 cache misses, ? branch misses a packet";
        assert_eq!(text, told);
    }
}
