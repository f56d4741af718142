//! A report in the text format of Prometheus (version 0.0.4).
//!
//! **Invariant**: a metric has the name that its figure has in the JSON report, after `anabranch_`, and with
//! `_total` behind it where it only grows.

use std::fmt::Write;

use anabranch_runtime::report::{RunReport, WorkerReport};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It only grows, as long as the run goes on.
    Counter,
    Gauge,
}
use Kind::{Counter, Gauge};

/// Samples of one metric: labels besides the NF's name, and the value.
type Samples = Vec<(Vec<(&'static str, String)>, f64)>;

/// The report, each metric with its kind and its meaning.
pub(super) fn render(report: &RunReport) -> String {
    let mut text = Exposition { text: String::new(), nf: &report.nf };
    totals(&mut text, report);
    ports(&mut text, report);
    workers(&mut text, report);
    state(&mut text, report);
    store(&mut text, report);
    text.text
}

struct Exposition<'r> {
    text: String,
    nf: &'r str,
}

impl Exposition<'_> {
    fn metric(&mut self, name: &str, kind: Kind, help: &str, samples: Samples) {
        if samples.is_empty() {
            return;
        }
        let (suffix, kind) = match kind {
            Counter => ("_total", "counter"),
            Gauge => ("", "gauge"),
        };
        let name = format!("anabranch_{name}{suffix}");
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in samples {
            let nf = ("nf", self.nf.to_owned());
            let labels: Vec<String> = [nf].into_iter().chain(labels).map(label).collect();
            let _ = writeln!(self.text, "{name}{{{}}} {value}", labels.join(","));
        }
    }

    fn total(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.metric(name, kind, help, vec![(Vec::new(), value)]);
    }
}

fn label((name, value): (&str, String)) -> String {
    let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

fn totals(text: &mut Exposition<'_>, report: &RunReport) {
    for (name, help, value) in [
        ("packets_emitted", "Packets that the NF made itself", report.packets_emitted),
        ("packets_dropped", "Packets dropped, for whatever reason", report.packets_dropped),
        ("faults", "Operations on state that were wrong and made harmless", report.faults),
    ] {
        text.total(name, Counter, help, value as f64);
    }
    text.total("elapsed_s", Gauge, "Seconds since the run began", report.elapsed_s);
    text.total("mpps", Gauge, "Millions of packets read a second, on average", report.mpps);
    text.total("gbps", Gauge, "Billions of bits read a second, on average", report.gbps);
    let drops = report.drops.iter();
    let drops = drops.map(|(reason, &count)| (vec![("reason", reason.clone())], count as f64));
    text.metric("drops", Counter, "Packets dropped for each reason", drops.collect());
    let latency = report.latency_ns.into_iter().flat_map(|latency| {
        let max = latency.max;
        [
            ("0.5", latency.p50),
            ("0.9", latency.p90),
            ("0.99", latency.p99),
            ("0.999", latency.p99_9),
            ("1", max),
        ]
    });
    let latency = latency.map(|(part, ns)| (vec![("quantile", part.to_owned())], ns as f64));
    let help = "Time from a batch's arrival at a worker to its release, of a sample";
    text.metric("latency_ns", Gauge, help, latency.collect());
    let lock = report.lock.into_iter();
    let lock = lock.flat_map(|lock| [("readers", lock.readers), ("upgraded", lock.upgraded)]);
    let lock = lock.map(|(side, count)| (vec![("side", side.to_owned())], count as f64));
    text.metric("lock", Counter, "Packets by the side of the lock they ended on", lock.collect());
}

fn ports(text: &mut Exposition<'_>, report: &RunReport) {
    let mut each =
        |name, help, value: fn(&anabranch_runtime::report::PortReport) -> Option<u64>| {
            let samples = report.ports.iter().filter_map(|port| {
                let live = port.live.as_ref().map(|live| ("interface", live.interface.clone()));
                let labels = [("port", port.name.clone())].into_iter().chain(live);
                Some((labels.collect(), value(port)? as f64))
            });
            text.metric(name, Counter, help, samples.collect());
        };
    each("packets_read", "Packets read", |port| Some(port.packets_read));
    each("bytes_read", "Bytes read, on the wire", |port| Some(port.bytes_read));
    each("packets_out", "Packets that left", |port| Some(port.packets_out));
    each("bytes_out", "Bytes that left", |port| Some(port.bytes_out));
    each("missed", "Packets that nobody has read: a receive queue was full", |port| {
        Some(port.live.as_ref()?.missed)
    });
    each("unsent", "Packets that the device took to send, and did not send", |port| {
        Some(port.live.as_ref()?.unsent)
    });
    each("segmented", "Large packets cut into segments", |port| {
        Some(port.live.as_ref()?.segmented)
    });
    each("finished_checksums", "Checksums that an offload had left unfinished", |port| {
        Some(port.live.as_ref()?.finished_checksums)
    });
    each("link_downs", "Times that a queue found its link down", |port| {
        Some(port.live.as_ref()?.link_downs)
    });
    each("reopened", "Times that a queue was opened anew", |port| {
        Some(port.live.as_ref()?.reopened)
    });
}

fn workers(text: &mut Exposition<'_>, report: &RunReport) {
    let each = |value: &dyn Fn(&WorkerReport) -> f64| {
        let workers = report.workers.iter().enumerate();
        workers.map(|(number, one)| (vec![("worker", number.to_string())], value(one))).collect()
    };
    let packets = each(&|worker| worker.packets as f64);
    text.metric("worker_packets", Counter, "Packets a worker handled", packets);
    let help = "Part of the run in which a worker had packets to handle, 0 to 1";
    text.metric("worker_busy", Gauge, help, each(&|worker| worker.busy));
    // The part of a run that has gone on for weeks says nothing of this minute: of this one there is a rate.
    let help = "Seconds in which a worker had packets to handle";
    let busy_s = each(&|worker| worker.busy_s);
    text.metric("worker_busy_s", Counter, help, busy_s);
}

fn state(text: &mut Exposition<'_>, report: &RunReport) {
    for (name, help, value) in [
        (
            "table_used",
            "Entries in use",
            (|one| one.used) as fn(&anabranch_runtime::report::TableReport) -> u64,
        ),
        ("table_capacity", "Entries there is room for", |one| one.capacity),
        ("table_bytes", "Memory of a state object", |one| one.bytes),
    ] {
        // What is whole from the start is no matter of an alert about full tables.
        let tables = report.tables.iter().filter(|one| name == "table_bytes" || !one.whole);
        let samples = tables.map(|one| (vec![("table", one.name.clone())], value(one) as f64));
        text.metric(name, Gauge, help, samples.collect());
    }
    let counters = report.counters.iter();
    let counters = counters.map(|(name, &count)| (vec![("counter", name.clone())], count as f64));
    text.metric("counters", Gauge, "Counters of the NF", counters.collect());
}

fn store(text: &mut Exposition<'_>, report: &RunReport) {
    let Some(store) = &report.store else { return };
    let which = || vec![("store", store.store.clone())];
    let restart = &store.restart;
    for (name, kind, help, value) in [
        ("store_stored", Counter, "Changes of state stored", store.stored),
        ("store_messages", Counter, "Messages that the store answered", store.messages),
        ("store_failures", Counter, "Messages that the store did not answer", store.failures),
        ("store_rebuilds", Counter, "Times that lost state was written again", store.rebuilds),
        ("store_waiting", Gauge, "Changes that wait for the store", store.waiting),
        ("store_oldest_ns", Gauge, "Age of the oldest change that waits", store.oldest_ns),
        ("store_refuses_new", Gauge, "1 where no new flows are taken", store.refuses_new.into()),
        ("store_refused_ns", Counter, "Time that no new flows were taken", store.refused_ns),
        (
            "store_trouble",
            Gauge,
            "1 where the store did not take the last message",
            store.trouble.is_some().into(),
        ),
        ("store_ended", Gauge, "1 where nothing is stored any more", store.ended.into()),
        (
            "store_refresh_round_ns",
            Gauge,
            "Time that it took to tell of all entries that were only refreshed",
            store.refresh_round_ns,
        ),
        ("store_restart_entries", Gauge, "Entries read back at the start", restart.entries),
        ("store_restart_read_ns", Gauge, "Time until the store had given them", restart.read_ns),
        ("store_restart_warm_ns", Gauge, "Time until they were in place", restart.warm_ns),
        ("store_restart_ready_ns", Gauge, "Time until the first packet", restart.ready_ns),
    ] {
        text.metric(name, kind, help, vec![(which(), value as f64)]);
    }
    let lag = "Time from a change of state to when it was known to be stored";
    let pause = "Time that packets waited while it was told what has changed";
    let recent = "The same of what was stored in the last whole second";
    for (name, help, of) in [
        ("store_lag_ns", lag, store.lag_ns),
        ("store_recent_lag_ns", recent, store.recent_lag_ns),
        ("store_pause_ns", pause, store.pause_ns),
    ] {
        let parts = [("0.5", of.p50), ("0.99", of.p99), ("1", of.max)];
        let part = |(part, ns): (&str, u64)| {
            let quantile = ("quantile", part.to_owned());
            (which().into_iter().chain([quantile]).collect(), ns as f64)
        };
        text.metric(name, Gauge, help, parts.into_iter().map(part).collect());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use anabranch_runtime::report::{
        LatencyReport, LivePortReport, LockReport, PortReport, StoreReport, TableReport,
    };

    use super::*;

    fn report() -> RunReport {
        let mut report = RunReport::new("nat");
        report.count_drop("no \"route\"", 3);
        let live = LivePortReport { missed: 7, ..LivePortReport::default() };
        let port = PortReport {
            name: "lan".to_owned(),
            packets_read: 5,
            live: Some(live),
            ..PortReport::default()
        };
        report.ports = vec![port, PortReport { name: "wan".to_owned(), ..PortReport::default() }];
        report.workers =
            vec![WorkerReport { packets: 5, busy: 0.25, busy_s: 0.5, ..WorkerReport::default() }];
        let table = |name: &str, whole| TableReport {
            name: name.to_owned(),
            used: 2,
            whole,
            ..TableReport::default()
        };
        report.tables = vec![table("flows", false), table("ring", true)];
        report.counters.insert("hits".to_owned(), 9);
        report.latency_ns = Some(LatencyReport { max: 40, ..LatencyReport::default() });
        report.lock = Some(LockReport { readers: 1, upgraded: 4 });
        report.store = Some(StoreReport {
            store: "memory".to_owned(),
            waiting: 6,
            trouble: Some("it is gone".to_owned()),
            ..StoreReport::default()
        });
        report.finish(Duration::from_secs(2));
        report
    }

    #[test]
    fn samples_have_labels_and_values() {
        let text = render(&report());
        for line in [
            "anabranch_packets_read_total{nf=\"nat\",port=\"lan\",interface=\"\"} 5",
            "anabranch_packets_read_total{nf=\"nat\",port=\"wan\"} 0",
            "anabranch_missed_total{nf=\"nat\",port=\"lan\",interface=\"\"} 7",
            "anabranch_drops_total{nf=\"nat\",reason=\"no \\\"route\\\"\"} 3",
            "anabranch_latency_ns{nf=\"nat\",quantile=\"1\"} 40",
            "anabranch_table_used{nf=\"nat\",table=\"flows\"} 2",
            "anabranch_table_bytes{nf=\"nat\",table=\"ring\"} 0",
            "anabranch_counters{nf=\"nat\",counter=\"hits\"} 9",
            "anabranch_lock_total{nf=\"nat\",side=\"upgraded\"} 4",
            "anabranch_worker_busy{nf=\"nat\",worker=\"0\"} 0.25",
            "anabranch_worker_busy_s_total{nf=\"nat\",worker=\"0\"} 0.5",
            "anabranch_elapsed_s{nf=\"nat\"} 2",
            "anabranch_store_waiting{nf=\"nat\",store=\"memory\"} 6",
            "anabranch_store_trouble{nf=\"nat\",store=\"memory\"} 1",
            "anabranch_store_lag_ns{nf=\"nat\",store=\"memory\",quantile=\"0.99\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        // What is whole from the start would be taken for a full table.
        for metric in ["anabranch_table_used", "anabranch_table_capacity"] {
            assert!(!text.contains(&format!("{metric}{{nf=\"nat\",table=\"ring\"}}")), "{text}");
        }
    }

    #[test]
    fn alerts_in_the_documents_are_about_what_is_told() {
        let (text, page) = (render(&report()), include_str!("../../../../docs/operations.md"));
        let alerts = page.split("anabranch_").skip(1).map(|rest| {
            rest.split(|at: char| !at.is_ascii_lowercase() && at != '_').next().unwrap_or_default()
        });
        let alerts: BTreeSet<&str> = alerts.collect();
        assert!(alerts.contains("worker_busy_s_total") && alerts.len() > 4, "{alerts:?}");
        for metric in alerts {
            assert!(text.contains(&format!("# TYPE anabranch_{metric} ")), "{metric}");
        }
    }

    #[test]
    fn every_metric_has_one_type_and_the_name_of_the_report() {
        let (text, report) = (render(&report()), report());
        let types: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let names: BTreeSet<&str> = types.iter().filter_map(|one| one.split(' ').next()).collect();
        assert_eq!(names.len(), types.len(), "{types:?}");
        let json = serde_json::to_value(&report).unwrap();
        let of_port = &json["ports"][0];
        for name in names {
            let name = name.trim_start_matches("anabranch_").trim_end_matches("_total");
            let (table, worker) = (name.strip_prefix("table_"), name.strip_prefix("worker_"));
            let found = match (table, worker, name.strip_prefix("store_")) {
                (Some(name), ..) => &json["tables"][0][name],
                (_, Some(name), _) => &json["workers"][0][name],
                (.., Some(name)) => match name.strip_prefix("restart_") {
                    Some(name) => &json["store"]["restart"][name],
                    None => &json["store"][name],
                },
                _ if !of_port[name].is_null() => &of_port[name],
                _ if !of_port["live"][name].is_null() => &of_port["live"][name],
                _ => &json[name],
            };
            assert!(!found.is_null(), "{name} is not in the report");
        }
    }
}
