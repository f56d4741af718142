//! What a store costs: functions with none and with each store, in turn, over the same traffic.

use anabranch_io::traffic::TrafficSpec;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::Keeping;
use anabranch_store::key::prefix;
use anabranch_store::{Call, Driver as _, Location, Operation};
use serde_json::{Value, json};

use super::own::{Capture, order, rounded, strategy};
use crate::arguments::BenchArguments;
use crate::error::Error;
use crate::figures::{nanoseconds, rate, thousands};
use crate::library::{Entry, Library};
use crate::run::without_password;
use crate::settings::settings;
use crate::state::{configuration, input};
use crate::table::{Table, wrap};

/// Rounds, in each of which every store has its turn; the fastest run counts.
const ROUNDS: usize = 3;
/// What is measured where no function is named.
const FUNCTIONS: [&str; 2] = ["nat", "firewall"];
/// Public addresses of the NAT, for a million flows.
const PUBLIC: std::ops::Range<u8> = 1..25;

/// A store, or none.
struct Candidate {
    /// As it is named, or `none`.
    name: String,
    location: Option<Location>,
    fastest: Option<RunReport>,
}

/// Rows for each function, number of flows and of workers, and store.
///
/// # Errors
/// A store that cannot be had, or a function that refuses its settings.
pub(super) fn measure(library: &Library, arguments: &BenchArguments) -> Result<Vec<Value>, Error> {
    let known = |name: &&str| library.find(name).is_ok();
    let by_default = || FUNCTIONS.into_iter().filter(known).map(str::to_owned).collect();
    let names: Vec<String> =
        if arguments.nfs.is_empty() { by_default() } else { arguments.nfs.clone() };
    let mut rows = Vec::new();
    for name in &names {
        let entry = library.find(name)?;
        for &flows in &arguments.flows {
            let capture = Capture::of(flows, traffic(name))?;
            for &workers in &arguments.workers {
                eprintln!(
                    "bench: {name}, {flows} flows, {workers} workers, with and without stores"
                );
                let candidates = take_turns(entry, &capture, workers, arguments)?;
                rows.extend(candidates.iter().map(|one| row(one, &candidates, flows, workers)));
            }
        }
    }
    Ok(rows)
}

/// UDP, so that each flow is open from its first packet on. What answers a NAT is addressed to what it gives
/// out, which no capture knows: it gets what comes from within.
fn traffic(nf: &str) -> TrafficSpec {
    let spec = TrafficSpec { tcp: 0.0, ..TrafficSpec::default() };
    if nf == "nat" { TrafficSpec { reply: 0.0, ..spec } } else { spec }
}

fn take_turns(
    entry: &dyn Entry,
    capture: &Capture,
    workers: usize,
    arguments: &BenchArguments,
) -> Result<Vec<Candidate>, Error> {
    let folder = std::env::temp_dir().join(format!("anabranch-bench-{}", std::process::id()));
    let mut candidates = vec![Candidate { name: "none".to_owned(), location: None, fastest: None }];
    for name in arguments.stores.iter().flatten() {
        let word = match name.as_str() {
            "durable" => format!("memory:{}", folder.display()),
            other => other.to_owned(),
        };
        let location = Some(word.parse::<Location>().map_err(configuration)?);
        let name = without_password(name);
        candidates.push(Candidate { name, location, fastest: None });
    }
    for _ in 0..ROUNDS {
        for one in &mut candidates {
            let report = one.run(entry, capture, workers, arguments)?;
            if report.packets_out < report.packets_read {
                let (out, read) = (report.packets_out, report.packets_read);
                eprintln!("bench: {}: {out} of {read} packets came through", one.name);
            }
            if one.fastest.as_ref().is_none_or(|fastest| fastest.mpps < report.mpps) {
                one.fastest = Some(report);
            }
        }
    }
    // What is not there needs not go.
    let _ = std::fs::remove_dir_all(folder);
    Ok(candidates)
}

impl Candidate {
    fn run(
        &self,
        entry: &dyn Entry,
        capture: &Capture,
        workers: usize,
        arguments: &BenchArguments,
    ) -> Result<RunReport, Error> {
        let mut order = order(entry, capture, workers)?;
        let own = match (arguments.settings.is_empty(), entry.description().name) {
            (true, "nat") => vec![nat()],
            _ => arguments.settings.clone(),
        };
        order.settings = settings(None, &own)?;
        let instance = format!("bench-{}", std::process::id());
        order.store = self.location.clone().map(|location| Keeping {
            location,
            instance: instance.clone(),
            settings: anabranch_store::Settings::default(),
        });
        let report = entry.run(order)?;
        if let Some(location) = &self.location {
            empty(location, entry.description().name, &instance).map_err(input)?;
        }
        Ok(report)
    }
}

fn nat() -> String {
    let addresses: Vec<String> = PUBLIC.map(|last| format!("\"203.0.113.{last}\"")).collect();
    format!("public=[{}]", addresses.join(","))
}

/// Takes out of the store what a run has left there.
fn empty(location: &Location, nf: &str, instance: &str) -> Result<(), anabranch_store::Error> {
    let mut driver = location.open()?;
    let keys = driver.keys(&prefix(nf, Some(instance))?)?;
    let calls: Vec<Call> = keys.iter().map(|key| Call::new(key, Operation::Delete)).collect();
    driver.run(&calls).map(drop)
}

fn row(one: &Candidate, all: &[Candidate], flows: usize, workers: usize) -> Value {
    let mpps = |one: &Candidate| one.fastest.as_ref().map(|report| report.mpps);
    let none = all.first().and_then(mpps).filter(|mpps| *mpps > 0.0);
    let report = one.fastest.as_ref();
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
        "mpps": mpps(one).map(rounded),
        "ratio_to_none": mpps(one).zip(none).map(|(mpps, none)| rounded(mpps / none)),
        "latency_ns": report.and_then(|report| report.latency_ns),
        "stored_per_s": a_second,
        "lag_ns": store.map(|store| store.lag_ns),
        "pause_ns": store.map(|store| store.pause_ns),
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
        "{} with {} flows on {} workers",
        first["nf"].as_str().unwrap_or_default(),
        number(&first["flows"]),
        number(&first["workers"])
    );
    let mut table = Table::new(&[
        "store",
        ">Mpps",
        ">/none",
        ">p99",
        ">stored/s",
        ">lag p50",
        ">p99",
        ">pause p99",
        ">max",
    ]);
    for row in rows {
        let time = |value: &Value| value.as_u64().map_or(String::new(), nanoseconds);
        table.row([
            row["store"].as_str().unwrap_or_default().to_owned(),
            row["mpps"].as_f64().map_or(String::new(), rate),
            row["ratio_to_none"].as_f64().map_or(String::new(), |ratio| format!("{ratio:.2}")),
            time(&row["latency_ns"]["p99"]),
            number(&row["stored_per_s"]),
            time(&row["lag_ns"]["p50"]),
            time(&row["lag_ns"]["p99"]),
            time(&row["pause_ns"]["p99"]),
            time(&row["pause_ns"]["max"]),
        ]);
    }
    format!("\n{}{}", wrap("", &headline, 0), table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nat_has_ports_for_a_million_flows() {
        assert!(PUBLIC.len() * 64_512 > 1_000_000);
        assert!(nat().starts_with("public=[\"203.0.113.1\","));
    }
}
