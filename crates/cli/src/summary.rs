//! A run's report as tables on a terminal of 80 columns.

use anabranch_runtime::report::{LivePortReport, RestartReport, RunReport, StoreReport};

use crate::advice::uneven;
use crate::figures::{bytes, counted, nanoseconds, percent, rate, ratio, seconds, thousands};
use crate::table::{Table, wrap};

/// The whole report as text, one table a subject, a blank line between two.
pub(crate) fn render(report: &RunReport) -> String {
    let tables = [
        totals(report),
        latency(report),
        ports(report),
        interfaces(report),
        workers(report),
        balance(report),
        drops(report),
        state(report),
        store(report),
        restart(report),
        counters(report),
    ];
    let mut text = headline(report);
    for table in tables.iter().filter(|table| !table.is_empty()) {
        text.push('\n');
        text.push_str(&table.render());
    }
    text.push_str(&remarks(report));
    text
}

/// The NF, on how many workers, by which strategy, and why.
pub(crate) fn headline(report: &RunReport) -> String {
    let workers = match report.workers.len() {
        1 => "1 worker".to_string(),
        count => format!("{count} workers"),
    };
    let mut line = format!("{} on {workers}", report.nf);
    if report.workers.len() > 1 {
        line.push_str(&format!(", {}", report.strategy));
    }
    if !report.strategy_why.is_empty() {
        line.push_str(&format!(": {}", report.strategy_why));
    }
    wrap("", &line, 4)
}

fn totals(report: &RunReport) -> Table {
    let mut table = Table::new(&["", ">", ">", ""]);
    table.row([
        "packets read".to_string(),
        thousands(report.packets_read),
        bytes(report.bytes_read),
        incomplete(report),
    ]);
    table.row([
        "packets out".to_string(),
        thousands(report.packets_out),
        bytes(report.bytes_out),
        emitted(report),
    ]);
    table.row([
        "dropped".to_string(),
        thousands(report.packets_dropped),
        percent(ratio(report.packets_dropped, report.packets_read)),
    ]);
    sharing(report).into_iter().for_each(|row| table.row(row));
    table.row([
        "rate".to_string(),
        format!("{} Mpps", rate(report.mpps)),
        format!("{} Gbps", rate(report.gbps)),
        format!("in {}", seconds(report.elapsed_s)),
    ]);
    table
}

/// How packets ended on state that workers share: what, how many, their share, in words.
pub(crate) fn sharing(report: &RunReport) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    if let Some(lock) = &report.lock {
        rows.push([
            "upgraded".to_string(),
            thousands(lock.upgraded),
            percent(ratio(lock.upgraded, report.packets_read)),
            "ran alone; the others only read".to_string(),
        ]);
    }
    if let Some(transactions) = &report.transactions {
        let alone = transactions.alone + transactions.irrevocable;
        rows.push([
            "transactions".to_string(),
            thousands(transactions.commits),
            percent(ratio(transactions.conflicts, transactions.commits + transactions.conflicts)),
            format!("in conflict; {} packets ran alone", thousands(alone)),
        ]);
        rows.push([
            "in turns".to_string(),
            thousands(transactions.turn_packets),
            percent(ratio(transactions.turn_packets, report.packets_read)),
            format!("in {} batches, one worker at a time", thousands(transactions.turns)),
        ]);
    }
    rows
}

fn incomplete(report: &RunReport) -> String {
    let note = if report.complete { "" } else { "incomplete: see the error" };
    note.to_string()
}

fn emitted(report: &RunReport) -> String {
    match report.packets_emitted {
        0 => String::new(),
        count => format!("{} made by the NF itself", thousands(count)),
    }
}

fn latency(report: &RunReport) -> Table {
    let mut table = Table::new(&["latency", ">p50", ">p90", ">p99", ">p99.9", ">max"]);
    if let Some(latency) = &report.latency_ns {
        table.row([
            String::new(),
            nanoseconds(latency.p50),
            nanoseconds(latency.p90),
            nanoseconds(latency.p99),
            nanoseconds(latency.p99_9),
            nanoseconds(latency.max),
        ]);
    }
    table
}

fn ports(report: &RunReport) -> Table {
    let mut table = Table::new(&["port", ">packets in", ">bytes in", ">packets out", ">bytes out"]);
    for port in &report.ports {
        table.row([
            port.name.clone(),
            thousands(port.packets_read),
            bytes(port.bytes_read),
            thousands(port.packets_out),
            bytes(port.bytes_out),
        ]);
    }
    table
}

/// Live ports: what the kernel did not hand over, and what was undone.
fn interfaces(report: &RunReport) -> Table {
    let headings = [
        "interface",
        ">queues",
        ">missed",
        ">unsent",
        ">segmented",
        ">checksums",
        ">downs",
        ">reopened",
    ];
    let mut table = Table::new(&headings);
    for live in report.ports.iter().filter_map(|port| port.live.as_ref()) {
        table.row(interface(live));
    }
    table
}

/// The figures of a live port, each in its column.
pub(crate) fn interface(live: &LivePortReport) -> [String; 8] {
    [
        live.interface.clone(),
        live.queues.to_string(),
        thousands(live.missed),
        thousands(live.unsent),
        thousands(live.segmented),
        thousands(live.finished_checksums),
        thousands(live.link_downs),
        thousands(live.reopened),
    ]
}

fn workers(report: &RunReport) -> Table {
    let mut table = Table::new(&["worker", ">packets", ">share", ">busy"]);
    for (index, worker) in report.workers.iter().enumerate() {
        table.row([
            index.to_string(),
            thousands(worker.packets),
            percent(worker.share),
            percent(worker.busy),
        ]);
    }
    table
}

fn balance(report: &RunReport) -> Table {
    let mut table = Table::new(&BALANCE);
    balanced(report).into_iter().for_each(|row| table.row(row));
    table
}

/// Headings of what [`balanced`] returns.
pub(crate) const BALANCE: [&str; 3] = ["balance", ">busiest worker", ""];

/// How evenly packets were divided, and what it took.
pub(crate) fn balanced(report: &RunReport) -> Vec<[String; 3]> {
    let Some(balance) = &report.balance else { return Vec::new() };
    let ratio = |ratio: f64| format!("{ratio:.2} x average");
    let mut rows = vec![
        ["at first".to_string(), ratio(balance.busiest_first), String::new()],
        [
            "at last".to_string(),
            ratio(balance.busiest_last),
            format!("of at best {:.2}", balance.best_last),
        ],
    ];
    if balance.steps > 0 {
        let times = if balance.steps == 1 { "at once" } else { "in several steps" };
        let entries = match balance.entries_moved {
            1 => "1 entry".to_string(),
            more => format!("{} entries", thousands(more)),
        };
        rows.push([
            "moved".to_string(),
            counted(balance.shards_moved, "shard"),
            format!("{times}, {entries} along"),
        ]);
    }
    rows
}

fn drops(report: &RunReport) -> Table {
    let mut table = Table::new(&["dropped because", ">packets", ">of all read"]);
    for (reason, count) in by_count(report) {
        table.row([
            reason.to_string(),
            thousands(count),
            percent(ratio(count, report.packets_read)),
        ]);
    }
    table
}

/// The drop reasons with their counts, the most frequent first.
pub(crate) fn by_count(report: &RunReport) -> Vec<(&str, u64)> {
    let mut drops: Vec<(&str, u64)> =
        report.drops.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    drops.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    drops
}

fn state(report: &RunReport) -> Table {
    let mut table = Table::new(&["state", ">used", ">capacity", ">full", ">memory", ">per entry"]);
    for object in &report.tables {
        table.row([
            object.name.clone(),
            thousands(object.used),
            thousands(object.capacity),
            if object.whole { String::new() } else { percent(ratio(object.used, object.capacity)) },
            bytes(object.bytes),
            object
                .bytes
                .checked_div(object.capacity)
                .map_or(String::new(), |each| format!("{each} B")),
        ]);
    }
    table
}

fn store(report: &RunReport) -> Table {
    let mut table = Table::new(&STORE);
    if let Some(store) = &report.store {
        table.row(store_figures(store));
    }
    table
}

/// Headings of what [`store_figures`] returns.
pub(crate) const STORE: [&str; 9] =
    ["store", ">stored", ">waiting", ">oldest", ">lag p50", ">p99", ">max", ">pause p99", ">max"];

/// The figures of a store, each in its column.
pub(crate) fn store_figures(store: &StoreReport) -> [String; 9] {
    [
        store.store.clone(),
        thousands(store.stored),
        thousands(store.waiting),
        nanoseconds(store.oldest_ns),
        nanoseconds(store.lag_ns.p50),
        nanoseconds(store.lag_ns.p99),
        nanoseconds(store.lag_ns.max),
        nanoseconds(store.pause_ns.p99),
        nanoseconds(store.pause_ns.max),
    ]
}

/// What was read back at the start, where anything was.
fn restart(report: &RunReport) -> Table {
    let mut table = Table::new(&RESTART);
    if let Some(restart) = read_back(report) {
        table.row(restart_figures(restart));
    }
    table
}

/// How a run took up the state of an earlier one, where there was any.
pub(crate) fn read_back(report: &RunReport) -> Option<&RestartReport> {
    report.store.as_ref().map(|store| &store.restart).filter(|restart| restart.entries > 0)
}

/// Headings of what [`restart_figures`] returns.
pub(crate) const RESTART: [&str; 5] =
    ["restart", ">entries read back", ">read after", ">in place after", ">first packet after"];

/// The figures of a restart, each in its column.
pub(crate) fn restart_figures(restart: &RestartReport) -> [String; 5] {
    [
        String::new(),
        thousands(restart.entries),
        nanoseconds(restart.read_ns),
        nanoseconds(restart.warm_ns),
        nanoseconds(restart.ready_ns),
    ]
}

fn counters(report: &RunReport) -> Table {
    let mut table = Table::new(&["counter", ">value"]);
    for (name, value) in &report.counters {
        table.row([name.clone(), thousands(*value)]);
    }
    table
}

fn remarks(report: &RunReport) -> String {
    let remarks = warnings(report);
    let remarks = remarks.iter().map(|remark| wrap("warning: ", remark, 4));
    let advice = uneven(report).map(|advice| wrap("note: ", &advice, 4));
    remarks.chain(advice).map(|remark| format!("\n{remark}")).collect()
}

/// Warnings, and what was suppressed or made harmless; errors are printed by the program itself.
pub(crate) fn warnings(report: &RunReport) -> Vec<String> {
    let mut remarks = report.warnings.clone();
    if report.faults > 0 {
        remarks.push(format!(
            "{} operations on state were wrong (an index past the end) and were made harmless",
            thousands(report.faults)
        ));
    }
    if report.logs_suppressed > 0 {
        remarks.push(format!(
            "{} lines of the NF's log were not printed (at most 10 a second per place and worker)",
            thousands(report.logs_suppressed)
        ));
    }
    remarks
}

/// A report with something in every field, for the tests of everything that shows one.
#[cfg(test)]
pub(crate) fn example() -> RunReport {
    use anabranch_runtime::report::{
        ErrorKind, LatencyReport, LivePortReport, PortReport, Sample, TableReport, WorkerReport,
    };
    let mut report = RunReport::new("nat");
    report.strategy = "lock".to_string();
    share(&mut report);
    report.strategy_why =
        "one lock around the NF because `sessions` is shared (nat.rs:41)".to_string();
    report.packets_read = 4_194_304;
    report.bytes_read = 1_526_726_656;
    report.packets_out = 4_187_112;
    report.bytes_out = 1_524_108_768;
    report.packets_emitted = 12;
    report.count_drop("no-mapping", 5_119);
    report.count_drop("bad-ipv4-checksum", 1_802);
    report.count_drop("<script>alert(1)</script>", 283);
    report.ports = ["lan", "wan"]
        .iter()
        .map(|name| PortReport {
            name: name.to_string(),
            packets_read: 2_097_152,
            bytes_read: 763_363_328,
            packets_out: 2_093_556,
            bytes_out: 762_054_384,
            live: Some(LivePortReport {
                interface: format!("afpacket:{name}0"),
                queues: 4,
                missed: 1_811,
                unsent: 3,
                segmented: 66_204,
                finished_checksums: 2_093_556,
                link_downs: 1,
                reopened: 1,
            }),
        })
        .collect();
    report.latency_ns =
        Some(LatencyReport { p50: 2_140, p90: 3_902, p99: 9_755, p99_9: 31_220, max: 1_204_551 });
    report.workers = [1_310_720_u64, 1_048_576, 917_504, 917_504]
        .map(|packets| WorkerReport {
            packets,
            busy: packets as f64 / 1_400_000.0,
            ..WorkerReport::default()
        })
        .to_vec();
    report.tables = vec![TableReport {
        name: "sessions".to_string(),
        used: 41_200,
        capacity: 65_536,
        bytes: 7_340_032,
        whole: false,
    }];
    report.counters.insert("hairpinned".to_string(), 77);
    report.logs_suppressed = 1_204;
    report.samples = (1..=40)
        .map(|i| Sample { t_s: f64::from(i) * 0.05, mpps: 2.1 + f64::from(i).sin() * 0.25 })
        .collect();
    report.warnings.push("port `wan` has no output: what leaves there is counted only".to_string());
    report.fail(ErrorKind::Input, "wan.pcap: ends inside packet 2097153");
    report.finish(std::time::Duration::from_millis(2000));
    report
}

/// What a run says whose workers share state, by every strategy at once.
#[cfg(test)]
fn share(report: &mut RunReport) {
    use anabranch_runtime::report::{BalanceReport, LockReport, TransactionReport};
    report.lock = Some(LockReport { readers: 4_150_000, upgraded: 44_304 });
    report.transactions = Some(TransactionReport {
        commits: 98_001,
        conflicts: 1_999,
        alone: 311,
        turns: 2_048,
        turn_packets: 65_472,
        ..TransactionReport::default()
    });
    report.balance = Some(BalanceReport {
        windows: 12,
        steps: 2,
        shards_moved: 61,
        entries_moved: 4_077,
        busiest_first: 1.62,
        busiest_last: 1.08,
        best_last: 1.05,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::COLUMNS;

    #[test]
    fn every_part_is_shown_within_80_columns() {
        let text = render(&example());
        for part in [
            "nat on 4 workers, lock: one lock around the NF",
            "packets read  4,194,304    1.53 GB  incomplete: see the error",
            "12 made by the NF itself",
            "44,304",
            "2.10 Mpps",
            "9.76 µs",
            "no-mapping",
            "wan",
            "afpacket:wan0       4   1,811       3     66,204  2,093,556      1         1",
            "31.2 %",
            "41,200",
            "112 B",
            "hairpinned",
            "warning: 1,204 lines",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "too wide: {line}");
        }
    }

    #[test]
    fn uneven_load_is_told_after_the_warnings() {
        let report = RunReport { balance: None, ..example() };
        let text = render(&report);
        let (_, last) = text.rsplit_once("warning: ").unwrap();
        assert!(last.contains("\n\nnote: worker 0 has 31.2 % of the packets: "), "{text}");
    }

    #[test]
    fn an_empty_report_has_no_empty_tables() {
        let text = render(&RunReport::new("nop"));
        assert!(!text.contains("dropped because") && !text.contains("worker  "));
        assert!(text.contains("packets read"), "{text}");
    }

    #[test]
    fn the_most_frequent_drop_comes_first() {
        let report = example();
        assert_eq!(by_count(&report)[0], ("no-mapping", 5_119));
    }
}
