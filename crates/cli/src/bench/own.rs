//! A function without a job written by hand: run over generated traffic in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_io::capture::part_of;
use anabranch_io::source::Repeat;
use anabranch_io::spec::{PortBinding, SinkSpec, SourceSpec};
use anabranch_io::traffic::TrafficSpec;
use anabranch_nf::packet::Port;
use anabranch_plan::Strategy;
use anabranch_runtime::report::RunReport;
use serde_json::{Value, json};

use crate::arguments::{BenchArguments, PlanningArguments};
use crate::error::Error;
use crate::figures::{percent, ratio};
use crate::file::tell;
use crate::library::Entry;
use crate::plan;
use crate::progress::Progress;
use crate::run::Order;
use crate::settings::settings;
use crate::signals::Leaving;
use crate::traffic;

/// Runs of each measurement; the fastest is quoted.
const REPETITIONS: usize = 3;
/// Length of a run.
pub(super) const RUN: Duration = Duration::from_secs(1);
/// Packets per flow that the traffic holds.
pub(super) const PACKETS_PER_FLOW: u64 = 4;
/// How several workers may share state in a run.
const STRATEGIES: [Strategy; 4] =
    [Strategy::SharedNothing, Strategy::Mixed, Strategy::Transactional, Strategy::Lock];

/// Rows for each number of flows and of workers.
///
/// # Errors
/// When the function refuses its settings, or the traffic cannot be kept in the temporary
/// directory.
pub(super) fn measure(entry: &dyn Entry, arguments: &BenchArguments) -> Result<Vec<Value>, Error> {
    let mut rows = Vec::new();
    for &flows in &arguments.flows {
        let first = rows.len();
        let capture = Capture::of(flows, TrafficSpec::default())?;
        for (workers, strategy) in ways(arguments) {
            let runs = (0..REPETITIONS).map(|_| {
                let mut order = order(entry, &capture, workers, Repeat::For(RUN))?;
                order.settings = settings(None, &arguments.settings)?;
                order.planning.strategy = strategy;
                entry.run(order)
            });
            match runs.collect::<Result<Vec<_>, _>>() {
                Ok(runs) => {
                    runs.first().and_then(dropped).iter().for_each(|said| tell(said));
                    rows.push(row(&runs, flows));
                }
                // A strategy that is not right for it.
                Err(Error::Analysis(why)) if strategy.is_some() => tell(&format!("bench: {why}")),
                Err(why) => return Err(why),
            }
        }
        relate(&mut rows[first..]);
    }
    Ok(rows)
}

/// What to know of a function that drops packets: it may be made for that, or lack a setting to do its work.
fn dropped(run: &RunReport) -> Option<String> {
    let (reason, _) = run.drops.iter().max_by_key(|(_, count)| **count)?;
    let share = percent(ratio(run.packets_dropped, run.packets_read));
    Some(format!(
        "bench: {} drops {share} of these packets, most as `{reason}`: its figures are of that work",
        run.nf
    ))
}

/// Numbers of workers, and the strategy of each: as planned, or those that are asked for. One worker
/// is sequential; a mutex around it is no way to run a function.
fn ways(arguments: &BenchArguments) -> Vec<(usize, Option<Strategy>)> {
    let named = arguments.strategies();
    if named.is_empty() {
        return arguments.workers.iter().map(|&workers| (workers, None)).collect();
    }
    let is_asked = |strategy: &Strategy| named.iter().any(|name| name == strategy.name());
    let asked: Vec<Strategy> = STRATEGIES.into_iter().filter(is_asked).collect();
    let several = arguments.workers.iter().filter(|&&workers| workers > 1);
    let ways = several.flat_map(|&workers| asked.iter().map(move |&one| (workers, Some(one))));
    std::iter::once((1, None)).chain(ways).collect()
}

/// A run over a capture, with the settings that are there by default.
///
/// # Errors
/// [`Error::Usage`]: there is no planning for the NIC that plans are made for by default.
pub(super) fn order(
    entry: &dyn Entry,
    capture: &Capture,
    workers: usize,
    repeat: Repeat,
) -> Result<Order, Error> {
    let ports = entry.description().ports;
    let port = |index: usize| match ports.get(index) {
        Some(name) => Some(name.to_string()),
        None => ports.is_empty().then(|| format!("port{index}")),
    };
    let sides =
        capture.files.iter().enumerate().filter_map(|(index, file)| Some((port(index)?, file)));
    let inputs = sides.map(|(port, file)| PortBinding {
        port: Some(port),
        spec: SourceSpec::Memory { file: file.clone(), repeat },
    });
    Ok(Order {
        ports: Vec::new(),
        openings: crate::live::Openings::default(),
        duration: None,
        inputs: inputs.collect(),
        outputs: Vec::new(),
        settings: toml::Table::new(),
        settings_from: None,
        controls: Vec::new(),
        workers,
        plan: None,
        balance: true,
        planning: plan::options(&PlanningArguments::default())?,
        seed: 1,
        store: None,
        progress: Progress::start("bench"),
    })
}

/// The fastest of `runs`, by the names of every row of a bench; null where nothing was measured.
fn row(runs: &[RunReport], flows: usize) -> Value {
    let mut sorted: Vec<&RunReport> = runs.iter().collect();
    sorted.sort_by(|one, other| one.mpps.total_cmp(&other.mpps));
    let (Some(fastest), Some(median)) = (sorted.last(), sorted.get(sorted.len() / 2)) else {
        unreachable!("it was run some times")
    };
    let aborts = fastest.transactions.map(|counts| {
        (counts.conflicts + counts.unfit) as f64 * 1e6 / fastest.packets_read.max(1) as f64
    });
    json!({
        "nf": fastest.nf,
        "load": null,
        "strategy": strategy(fastest),
        "batch": 32,
        "workers": fastest.workers.len(),
        "flows": flows,
        "distinct_flows": null,
        "solve_us": null,
        "prefetch": "auto",
        "steering_hash": "computed",
        "cycles_per_packet": null,
        "tsc_per_packet": null,
        "instructions_per_packet": null,
        "mpps": rounded(fastest.mpps),
        "ratio_to_handwritten": null,
        "ratio_to_one_worker": null,
        "aborts_per_million": aborts.map(rounded),
        "spread": rounded((fastest.mpps - median.mpps) / median.mpps.max(1e-9)),
        "repetitions": runs.len(),
        "bytes_per_flow": null,
        "resident_bytes_per_flow": null,
        "memory_to_one_worker": null,
    })
}

/// Sets the ratios of rows on as many flows to one worker, where it was measured beside others.
fn relate(rows: &mut [Value]) {
    let one = rows.iter().find(|row| row["workers"] == 1).and_then(|row| row["mpps"].as_f64());
    let Some(one) = one.filter(|&one| one > 0.0 && rows.len() > 1) else { return };
    for row in rows {
        row["ratio_to_one_worker"] = row["mpps"].as_f64().map(|mpps| rounded(mpps / one)).into();
    }
}

/// To three digits behind the point.
pub(super) fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

/// The word of the bench for how state was spread.
pub(super) fn strategy(run: &RunReport) -> &str {
    match run.strategy.as_str() {
        "one-worker" => "sequential",
        other => other,
    }
}

/// Generated traffic of the inside and of the outside, in files that go away with it.
pub(super) struct Capture {
    files: [PathBuf; 2],
    _leaving: Leaving,
}

impl Capture {
    /// Of so many flows, and else as `spec` has it.
    ///
    /// # Errors
    /// The temporary directory cannot hold it.
    pub(super) fn of(flows: usize, spec: TrafficSpec) -> Result<Capture, Error> {
        let spec = TrafficSpec {
            flows: u32::try_from(flows).unwrap_or(u32::MAX),
            packets: Some(PACKETS_PER_FLOW * flows as u64),
            ..spec
        };
        let name = |side: &str| {
            let name = format!("anabranch-bench-{}-{flows}-{side}.pcap", std::process::id());
            std::env::temp_dir().join(name)
        };
        let files = [name("inside"), name("outside")];
        let parts = files.clone();
        let _leaving = Leaving::new(move || parts.iter().for_each(|file| remove(file)));
        let side = |(number, file): (u8, &PathBuf)| {
            (Some(Port::new(number)), SinkSpec::Capture(file.clone()))
        };
        let outputs: Vec<_> = (0..).zip(&files).map(side).collect();
        traffic::generate(&spec, &outputs)?;
        Ok(Capture { files, _leaving })
    }
}

/// Removes a capture, or as much as there is of one.
fn remove(file: &Path) {
    // In this order: a part takes the file's name when it is complete.
    for file in [part_of(file), file.to_owned()] {
        // A file that is gone already is what is wanted.
        let _ = std::fs::remove_file(file);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_runtime::report::{TransactionReport, WorkerReport};

    use super::*;

    fn run_of(workers: usize, mpps: f64) -> RunReport {
        let workers = vec![WorkerReport::default(); workers];
        RunReport { mpps, workers, packets_read: 1_000_000, ..RunReport::new("own") }
    }

    #[cfg(feature = "library")]
    #[test]
    fn rows_have_the_names_of_functions_that_are_compared() {
        let names = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let compared = serde_json::to_value(anabranch_bench::document::Row::default()).unwrap();
        assert_eq!(names(&row(&[run_of(1, 1.0)], 7)), names(&compared));
    }

    #[test]
    fn rows_say_what_ran() {
        let [slow, mut fast] = [run_of(2, 1.5), run_of(2, 3.0)];
        let transactions = TransactionReport { conflicts: 20, unfit: 3, ..Default::default() };
        fast.transactions = Some(transactions);
        let mut rows = [row(&[run_of(1, 2.0)], 7), row(&[fast, slow.clone(), slow], 7)];
        relate(&mut rows);
        let of = |name: &str| rows.each_ref().map(|row| row[name].clone());
        assert_eq!(of("workers"), [1, 2]);
        assert_eq!(of("repetitions"), [1, 3]);
        assert_eq!(of("ratio_to_one_worker"), [1.0, 1.5]);
        assert_eq!(of("aborts_per_million"), [Value::Null, 23.0.into()]);
        assert_eq!(of("spread"), [0.0, 1.0]);
        relate(&mut rows[1..]);
        let mut alone = [row(&[run_of(1, 2.0)], 7)];
        relate(&mut alone);
        assert!(alone[0]["ratio_to_one_worker"].is_null(), "there is nothing to compare it with");
    }

    #[test]
    fn what_drops_its_packets_is_told() {
        let mut report = RunReport::new("router");
        report.packets_read = 4;
        assert_eq!(dropped(&report), None);
        report.count_drop("unsupported-protocol", 3);
        report.count_drop("answered", 1);
        report.finish(RUN);
        let told = "bench: router drops 100.0 % of these packets, most as `unsupported-protocol`: its figures are \
                    of that work";
        assert_eq!(dropped(&report).as_deref(), Some(told));
    }
}
