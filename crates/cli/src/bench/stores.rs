//! What a store costs: functions with none and with each store, in turn, over the same traffic; how long a
//! restart takes; and what a counter costs that waits for the store.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_io::source::Repeat;
use anabranch_io::traffic::{Prefix, TrafficSpec};
use anabranch_runtime::report::{RestartReport, RunReport};
use anabranch_runtime::run::Keeping;
use anabranch_store::key::prefix;
use anabranch_store::{Call, Driver as _, Location, Operation};
use serde_json::{Value, json};

use super::counters;
use super::own::{Capture, PACKETS_PER_FLOW, order, rounded, strategy};
use crate::arguments::BenchArguments;
use crate::error::Error;
use crate::figures::{counted, nanoseconds, rate, thousands};
use crate::file::tell;
use crate::library::{Entry, Library, entry};
use crate::run::without_password;
use crate::settings::settings;
use crate::signals::Leaving;
use crate::state::input;
use crate::store;
use crate::summary::{RESTART, restart_figures};
use crate::table::{Table, wrap};

/// Rounds, in each of which every store has its turn. The fastest run's figures are shown; a ratio is of two runs of
/// one round, and the median of all rounds': a machine that others share is faster and slower from minute to minute.
const ROUNDS: usize = 5;
/// How long a run takes: of its last whole second flows are open.
const RUN: Duration = Duration::from_secs(3);
/// How much longer a run is for each flow: so that most of it goes on with flows that are open.
const OPENING: Duration = Duration::from_micros(5);
/// Runs over all flows, one after the other, by which a store has them: a run ends before a slow one has all.
const FILLINGS: usize = 8;
/// What is measured where no function is named.
const FUNCTIONS: [&str; 4] = ["nat", "lb", "firewall", counters::NAME];
/// By their times, packets come about as fast as a worker handles them: deadlines move as they do on the wire.
const PACKETS_PER_S: u64 = 20_000_000;
/// Public addresses of the NAT, for a million flows.
const PUBLIC: std::ops::Range<u8> = 1..25;
/// Flows that a function has room for, however few are measured.
const AT_LEAST: usize = 65_536;
/// How often it is tried to remove a folder.
const REMOVALS: usize = 100;
/// How the counter is run that waits for its store.
const WAITING: &str = "waiting";
/// The one service of the load balancer.
const SERVICE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// A store, or none.
struct Candidate {
    /// As it is named, or `none`.
    name: String,
    location: Option<Location>,
    /// One of each round.
    runs: Vec<RunReport>,
    restart: Option<RestartReport>,
}

/// What is run, and over what.
struct Measurement<'a> {
    entry: &'a dyn Entry,
    capture: Capture,
    flows: usize,
    workers: usize,
    settings: Vec<String>,
    folder: Folder,
}

/// Where the durable store has its files while a measurement takes; they go away with it.
struct Folder {
    path: PathBuf,
    _leaving: Leaving,
}

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("anabranch-bench-{}", std::process::id()));
        let there = path.clone();
        let remove = move || {
            let is_left = |_: &usize| fs::remove_dir_all(&there).is_err() && there.exists();
            // A run that goes on may put a file there meanwhile.
            let _ = (0..REMOVALS).take_while(is_left).count();
        };
        Folder { path, _leaving: Leaving::new(remove) }
    }
}

/// Rows for each function, number of flows and of workers, and store.
///
/// # Errors
/// A store that cannot be had, or a function that refuses its settings.
pub(super) fn measure(library: &Library, arguments: &BenchArguments) -> Result<Vec<Value>, Error> {
    let counting = entry::<counters::Function>();
    let find = |name: &str| match name {
        counters::NAME => Ok(&*counting),
        _ => library.find(name),
    };
    let known = |name: &&str| find(name).is_ok();
    let by_default = || FUNCTIONS.into_iter().filter(known).map(str::to_owned).collect();
    let names: Vec<String> =
        if arguments.nfs.is_empty() { by_default() } else { arguments.nfs.clone() };
    let mut rows = Vec::new();
    for name in &names {
        let entry = find(name)?;
        for &flows in &arguments.flows {
            let capture = Capture::of(flows, traffic(name))?;
            let settings = match arguments.settings.is_empty() {
                true => settings_of(name, flows),
                false => arguments.settings.clone(),
            };
            let folder = Folder::new();
            let mut measured = Measurement { entry, capture, flows, workers: 1, settings, folder };
            for &workers in &arguments.workers {
                let crew = counted(workers as u64, "worker");
                tell(&format!("bench: {name}, {flows} flows, {crew}, with and without stores"));
                measured.workers = workers;
                let candidates = take_turns(&measured, arguments)?;
                rows.extend(candidates.iter().map(|one| row(one, &candidates, flows, workers)));
                if name == counters::NAME && workers == 1 {
                    rows.extend(waiting(&candidates, flows)?);
                }
            }
        }
    }
    Ok(rows)
}

/// UDP, so that each flow is open from its first packet on. What answers a NAT is addressed to what it gives
/// out, which no capture knows, and what answers a load balancer comes from its backends: they get what comes
/// from the one side.
fn traffic(nf: &str) -> TrafficSpec {
    let spec = TrafficSpec { tcp: 0.0, rate: PACKETS_PER_S, ..TrafficSpec::default() };
    let one_sided = TrafficSpec { reply: 0.0, ..spec.clone() };
    match nf {
        "nat" => one_sided,
        "lb" => TrafficSpec {
            outside: Prefix::v4(SERVICE, 32),
            servers: Some(1),
            port: Some(53),
            ..one_sided
        },
        _ => spec,
    }
}

/// What a function is set to where nothing else is asked for.
fn settings_of(nf: &str, flows: usize) -> Vec<String> {
    match nf {
        "nat" => nat(flows),
        "lb" => lb(flows),
        "firewall" => vec![format!("flows={}", flows.max(AT_LEAST))],
        _ => Vec::new(),
    }
}

fn take_turns(
    measured: &Measurement<'_>,
    arguments: &BenchArguments,
) -> Result<Vec<Candidate>, Error> {
    let candidate =
        |name: String, location| Candidate { name, location, runs: Vec::new(), restart: None };
    let mut candidates = vec![candidate("none".to_owned(), None)];
    for name in arguments.stores.iter().flatten() {
        let word = match name.as_str() {
            "durable" => format!("memory:{}", measured.folder.path.display()),
            other => other.to_owned(),
        };
        let location = Some(store::location(&word)?);
        candidates.push(candidate(without_password(name), location));
    }
    for _ in 0..ROUNDS {
        for one in &mut candidates {
            let report = one.run(measured, Repeat::For(length(measured.flows)))?;
            one.empty(measured)?;
            if report.packets_out < report.packets_read {
                let (out, read) = (report.packets_out, report.packets_read);
                tell(&format!("bench: {}: {out} of {read} packets came through", one.name));
            }
            one.runs.push(report);
        }
    }
    for one in &mut candidates {
        one.restart = one.restart(measured)?;
    }
    Ok(candidates)
}

impl Candidate {
    fn fastest(&self) -> Option<&RunReport> {
        self.runs.iter().max_by(|one, other| one.mpps.total_cmp(&other.mpps))
    }

    /// A figure of its runs over that of the runs of `none` beside them.
    fn ratio(&self, none: Option<&Self>, of: impl Fn(&RunReport) -> Option<f64>) -> Option<f64> {
        let rounds = self.runs.iter().zip(&none?.runs);
        let ratios = rounds.filter_map(|(one, none)| Some(of(one)? / of(none)?));
        median(ratios.filter(|ratio| ratio.is_finite()).collect())
    }

    fn run(&self, measured: &Measurement<'_>, repeat: Repeat) -> Result<RunReport, Error> {
        let Measurement { entry, capture, workers, settings: own, .. } = measured;
        let mut order = order(*entry, capture, *workers, repeat)?;
        order.settings = settings(None, own)?;
        order.store = self.location.clone().map(|location| Keeping {
            location,
            instance: instance(),
            settings: anabranch_store::Settings::default(),
            say: |_| {},
        });
        entry.run(order)
    }

    /// Has the store filled with all flows, and goes on with them. None where what is stored ends with a run.
    fn restart(&self, measured: &Measurement<'_>) -> Result<Option<RestartReport>, Error> {
        if self.location.as_ref().is_none_or(|location| *location == Location::Memory) {
            return Ok(None);
        }
        let waits = |report: &RunReport| report.store.as_ref().is_some_and(|one| one.waiting > 0);
        let mut fillings = 0;
        while fillings < FILLINGS && waits(&self.run(measured, Repeat::Times(1))?) {
            fillings += 1;
        }
        if fillings == FILLINGS {
            tell(&format!("bench: {}: it was restarted before it had everything", self.name));
        }
        let restarted = self.run(measured, Repeat::Times(1))?;
        self.empty(measured)?;
        Ok(restarted.store.map(|store| store.restart))
    }

    /// Takes out of the store what runs have left there.
    fn empty(&self, measured: &Measurement<'_>) -> Result<(), Error> {
        let Some(location) = &self.location else { return Ok(()) };
        empty(location, measured.entry.description().name, &instance()).map_err(input)
    }
}

/// The instance by whose name the state of a measurement is stored.
fn instance() -> String {
    format!("bench-{}", std::process::id())
}

/// How long a run takes.
fn length(flows: usize) -> Duration {
    RUN + OPENING * u32::try_from(flows).unwrap_or(u32::MAX)
}

/// Ports and room for all flows, of however few hosts.
fn nat(flows: usize) -> Vec<String> {
    let addresses: Vec<String> = PUBLIC.map(|last| format!("\"203.0.113.{last}\"")).collect();
    let room = flows.max(AT_LEAST);
    vec![
        format!("public=[{}]", addresses.join(",")),
        format!("sessions={room}"),
        format!("hosts={room}"),
        "sessions_per_host=65_534".to_owned(),
    ]
}

/// One service of eight backends.
fn lb(flows: usize) -> Vec<String> {
    let backends: Vec<String> =
        (1..9).map(|last| format!("{{address=\"192.0.2.{last}\",port=53}}")).collect();
    vec![
        format!("services=[{{address=\"{SERVICE}\",port=53,protocol=\"udp\"}}]"),
        format!("backends=[{}]", backends.join(",")),
        format!("connections={flows}"),
    ]
}

fn empty(location: &Location, nf: &str, instance: &str) -> Result<(), anabranch_store::Error> {
    let mut driver = location.open()?;
    let keys = driver.keys(&prefix(nf, Some(instance))?)?;
    let calls: Vec<Call> = keys.iter().map(|key| Call::new(key, Operation::Delete)).collect();
    driver.run(&calls).map(drop)
}

/// Rows for the counter that waits for each store.
fn waiting(all: &[Candidate], flows: usize) -> Result<Vec<Value>, Error> {
    let mut rows = Vec::new();
    for one in all {
        let Some(location) = &one.location else { continue };
        let mpps = counters::waiting(location, &instance()).map_err(input)?;
        empty(location, counters::NAME, &instance()).map_err(input)?;
        rows.push(json!({
            "nf": counters::NAME,
            "strategy": WAITING,
            "workers": 1,
            "flows": flows,
            "store": one.name,
            "mpps": mpps,
            "ratio_to_none": without(all).map(|none| mpps / none),
            "mpps_open": null,
            "ratio_open": null,
            "latency_ns": null,
            "stored_per_s": (mpps * 1e6).round() as u64,
            "lag_ns": null,
            "recent_lag_ns": null,
            "refresh_round_ns": null,
            "pause_ns": null,
            "restart": null,
        }));
    }
    Ok(rows)
}

/// The middle one, or the mean of the two in the middle.
fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_unstable_by(f64::total_cmp);
    let [below, above] = [all.len().checked_sub(1)? / 2, all.len() / 2];
    Some((all.get(below)? + all.get(above)?) / 2.0)
}

/// Million packets a second without a store.
fn without(all: &[Candidate]) -> Option<f64> {
    let none = all.first()?.fastest()?.mpps;
    (none > 0.0).then_some(none)
}

/// Million packets a second once all flows are open: after the first round through the traffic.
fn once_open(report: &RunReport, flows: usize) -> Option<f64> {
    let round = (PACKETS_PER_FLOW * flows as u64) as f64 / 1e6;
    let (mut before_s, mut handled, mut open_s, mut open) = (0.0, 0.0, 0.0, 0.0);
    for sample in &report.samples {
        let time_s = sample.t_s - before_s;
        let packets = sample.mpps * time_s;
        if handled >= round {
            (open_s, open) = (open_s + time_s, open + packets);
        }
        (before_s, handled) = (sample.t_s, handled + packets);
    }
    (open > 0.0).then(|| open / open_s)
}

fn row(one: &Candidate, all: &[Candidate], flows: usize, workers: usize) -> Value {
    let report = one.fastest();
    let mpps = report.map(|report| report.mpps);
    let open = report.and_then(|report| once_open(report, flows));
    let none = all.first();
    let ratio = one.ratio(none, |report| Some(report.mpps));
    let ratio_open = one.ratio(none, |report| once_open(report, flows));
    let store = report.and_then(|report| report.store.as_ref());
    let a_second = report
        .zip(store)
        .map(|(report, store)| (store.stored as f64 / report.elapsed_s.max(1e-9)).round() as u64);
    json!({
        "nf": report.map(|report| report.nf.as_str()),
        "strategy": report.map(strategy),
        "workers": workers,
        "flows": flows,
        "store": one.name,
        "mpps": mpps.map(rounded),
        "ratio_to_none": ratio.map(rounded),
        "mpps_open": open.map(rounded),
        "ratio_open": ratio_open.map(rounded),
        "latency_ns": report.and_then(|report| report.latency_ns),
        "stored_per_s": a_second,
        "lag_ns": store.map(|store| store.lag_ns),
        "recent_lag_ns": store.map(|store| store.recent_lag_ns),
        "refresh_round_ns": store.map(|store| store.refresh_round_ns),
        "pause_ns": store.map(|store| store.pause_ns),
        "restart": one.restart,
    })
}

/// The rows as tables, one for each function, number of flows and of workers.
pub(super) fn render(rows: &[Value]) -> String {
    let of = |row: &Value| (row["nf"].clone(), row["flows"].clone(), row["workers"].clone());
    rows.chunk_by(|a, b| of(a) == of(b)).map(group).collect()
}

fn group(rows: &[Value]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let number = |value: &Value| value.as_u64().map_or(String::new(), thousands);
    let headline = format!(
        "{} with {} flows on {}",
        first["nf"].as_str().unwrap_or_default(),
        number(&first["flows"]),
        counted(first["workers"].as_u64().unwrap_or_default(), "worker")
    );
    let mut table = Table::new(&[
        "store",
        ">Mpps",
        ">/none",
        ">open",
        ">p99",
        ">stored/s",
        ">lag p50",
        ">p99",
        ">open p50",
        ">p99",
        ">pause p99",
        ">max",
    ]);
    for row in rows {
        let time = |value: &Value| value.as_u64().map_or(String::new(), nanoseconds);
        let store = row["store"].as_str().unwrap_or_default();
        table.row([
            if row["strategy"] == WAITING {
                format!("{store}, {WAITING}")
            } else {
                store.to_owned()
            },
            row["mpps"].as_f64().map_or(String::new(), rate),
            row["ratio_to_none"].as_f64().map_or(String::new(), share),
            row["ratio_open"].as_f64().map_or(String::new(), share),
            time(&row["latency_ns"]["p99"]),
            number(&row["stored_per_s"]),
            time(&row["lag_ns"]["p50"]),
            time(&row["lag_ns"]["p99"]),
            time(&row["recent_lag_ns"]["p50"]),
            time(&row["recent_lag_ns"]["p99"]),
            time(&row["pause_ns"]["p99"]),
            time(&row["pause_ns"]["max"]),
        ]);
    }
    let mut text = format!("\n{}{}", wrap("", &headline, 0), table.render());
    let restarts = restarts(rows);
    if !restarts.is_empty() {
        text += &format!("\n{}", restarts.render());
    }
    text
}

/// To two digits behind the point, or two that are not 0.
fn share(ratio: f64) -> String {
    let digits = if ratio < 0.01 { 5 } else { 2 };
    format!("{ratio:.digits$}")
}

/// How long it took to go on with what each store had.
fn restarts(rows: &[Value]) -> Table {
    let mut table = Table::new(&RESTART);
    for row in rows {
        let restart = serde_json::from_value::<Option<RestartReport>>(row["restart"].clone());
        if let Ok(Some(restart)) = restart {
            let mut figures = restart_figures(&restart);
            figures[0] = row["store"].as_str().unwrap_or_default().to_owned();
            table.row(figures);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use anabranch_runtime::report::Sample;

    use super::*;

    #[test]
    fn the_nat_has_ports_for_a_million_flows() {
        assert!(PUBLIC.len() * 64_512 > 1_000_000);
        assert!(nat(10)[0].starts_with("public=[\"203.0.113.1\","));
        assert_eq!(nat(1_000_000)[1], "sessions=1000000");
    }

    #[test]
    fn packets_of_the_first_round_do_not_count_once_flows_are_open() {
        let mut report = RunReport::new("nat");
        let mut one = |samples: &[(f64, f64)]| {
            let samples = samples.iter().map(|&(t_s, mpps)| Sample { t_s, mpps }).collect();
            report.samples = samples;
            once_open(&report, 1_000_000)
        };
        // Four packets a flow: 4 million in four seconds, then 2 million in half a second.
        assert_eq!(one(&[(2.0, 1.0), (4.0, 1.0), (4.25, 4.0), (4.5, 4.0)]), Some(4.0));
        assert_eq!(one(&[(2.0, 1.0), (4.0, 1.0)]), None, "it ended before");
    }

    #[test]
    fn a_ratio_is_of_runs_of_one_round() {
        let candidate = |mpps: &[f64]| {
            let run = |&mpps: &f64| RunReport { mpps, ..RunReport::new("nat") };
            let runs = mpps.iter().map(run).collect();
            Candidate { name: String::new(), location: None, runs, restart: None }
        };
        let none = candidate(&[10.0, 20.0, 40.0, 0.0]);
        let of = |mpps: &[f64]| candidate(mpps).ratio(Some(&none), |report| Some(report.mpps));
        assert_eq!(of(&[9.0, 19.0, 32.0, 1.0]), Some(0.9), "the machine became faster for both");
        assert_eq!(of(&[9.0, 16.0]), Some((0.9 + 0.8) / 2.0));
        assert_eq!(of(&[]), None);
    }
}
