//! `bench`: network functions measured, against the same job written by hand where there is one.
//!
//! Functions of the NF library are measured by the bench crate, in turn with the loops they are
//! compared with. A function without such a loop (an author's own) is run over generated traffic
//! in memory. Both give rows of one document, whose names `docs/bench.md` describes.

mod counters;
mod own;
mod ports;
mod rows;
mod stores;

use serde_json::{Value, json};

use crate::arguments::BenchArguments;
use crate::error::Error;
use crate::file::{check_writable, deliver, is_standard_output, print};
use crate::library::Library;
use crate::run::to_json;
use crate::signals::end_by_signal;

/// Measures, prints a table and delivers the document.
///
/// # Errors
/// [`Error::UnknownNf`], [`Error::Usage`], [`Error::Analysis`] when a function cannot be measured,
/// [`Error::Output`].
pub(crate) fn bench(library: &Library, arguments: &BenchArguments) -> Result<(), Error> {
    let json_only = arguments.json.as_deref().is_some_and(is_standard_output);
    if let Some(path) = arguments.json.as_deref().filter(|_| !json_only) {
        check_writable(path)?;
    }
    end_by_signal("bench")?;
    if arguments.ports {
        let rows = ports::measure(arguments)?;
        return deliver_rows(arguments, json_only, &rows, ports::render);
    }
    if arguments.stores.is_some() {
        let rows = stores::measure(library, arguments)?;
        return deliver_rows(arguments, json_only, &rows, stores::render);
    }
    let (compared, alone) = chosen(library, &arguments.nfs)?;
    if let Some(name) = compared.first().filter(|_| !arguments.settings.is_empty()) {
        return Err(Error::Usage(format!(
            "--set: {name} is compared with the same job written by hand, under the settings of that: name \
             functions without such a job only"
        )));
    }
    let mut document = match compared.is_empty() {
        true => json!({ "machine": machine()?, "results": [] }),
        false => compare(compared, arguments)?,
    };
    for name in alone {
        let measured = own::measure(library.find(&name)?, arguments)?;
        if let Some(results) = document["results"].as_array_mut() {
            results.extend(measured);
        }
    }
    if !json_only {
        print(&rows::render(&document))?;
    }
    match &arguments.json {
        Some(path) => deliver(path, &to_json(&document)?),
        None => Ok(()),
    }
}

/// Rows that are not compared with jobs written by hand.
fn deliver_rows(
    arguments: &BenchArguments,
    json_only: bool,
    rows: &[Value],
    render: fn(&[Value]) -> String,
) -> Result<(), Error> {
    if !json_only {
        print(&render(rows))?;
    }
    let document = json!({ "machine": machine()?, "results": rows });
    match &arguments.json {
        Some(path) => deliver(path, &to_json(&document)?),
        None => Ok(()),
    }
}

/// The functions to measure: those with a job written by hand, and the others. When none is named,
/// all of the first kind, else all there are.
fn chosen(library: &Library, names: &[String]) -> Result<(Vec<String>, Vec<String>), Error> {
    // A function, or one of its loads.
    let function = |name: &str| name.split_once('/').map_or(name, |(name, _)| name).to_owned();
    for name in names {
        library.find(&function(name))?;
    }
    let known = names_compared();
    let all = || library.entries().map(|entry| entry.description().name.to_string());
    let wanted = if names.is_empty() { all().collect() } else { names.to_vec() };
    let (compared, alone): (Vec<String>, Vec<String>) =
        wanted.into_iter().partition(|name| name.contains('/') || known.contains(&&**name));
    let alone = if names.is_empty() && !compared.is_empty() { Vec::new() } else { alone };
    Ok((compared, alone))
}

#[cfg(not(feature = "library"))]
fn names_compared() -> Vec<&'static str> {
    Vec::new()
}

/// Nothing counts ticks of the time-stamp counter here.
#[cfg(not(feature = "library"))]
fn machine() -> Result<Value, Error> {
    use anabranch_runtime::hardware::{Hardware, processor};
    Ok(json!({
        "processor": processor(),
        "cores": crate::arguments::cores(),
        "tsc_mhz": null,
        "hardware_counters": Hardware::open().is_some(),
    }))
}

#[cfg(not(feature = "library"))]
fn compare(names: Vec<String>, _: &BenchArguments) -> Result<Value, Error> {
    Err(Error::Internal(format!("nothing to compare {} with", names.join(", "))))
}

#[cfg(feature = "library")]
fn names_compared() -> Vec<&'static str> {
    anabranch_bench::names()
}

#[cfg(feature = "library")]
fn machine() -> Result<Value, Error> {
    to_value(&anabranch_bench::document::Machine::this())
}

#[cfg(feature = "library")]
fn compare(names: Vec<String>, arguments: &BenchArguments) -> Result<Value, Error> {
    use crate::file::tell;
    use anabranch_bench::{BenchError, Plan, Step};
    let (flows, workers) = (arguments.flows.clone(), arguments.workers.clone());
    let plan = Plan { nfs: names, flows, workers, strategies: arguments.strategies() };
    let mut watch = |step: Step| match step {
        Step::Begins { nf, load, flows, done, steps } => {
            let load = if load.is_empty() { String::new() } else { format!("/{load}") };
            tell(&format!("bench: {nf}{load}, {flows} flows ({} of {steps})", done + 1));
        }
        Step::Skipped { nf, flows, most } => {
            tell(&format!("bench: {nf} is measured on at most {most} flows, not on {flows}"));
        }
    };
    let document = anabranch_bench::run(&plan, &mut watch).map_err(|cause| match cause {
        BenchError::Settings(why) => Error::Usage(why),
        BenchError::Unknown(name) => Error::Usage(format!("{name} is no load of a function")),
        other => Error::Analysis(other.to_string()),
    })?;
    to_value(&document)
}

#[cfg(feature = "library")]
fn to_value(document: &impl serde::Serialize) -> Result<Value, Error> {
    serde_json::to_value(document).map_err(|cause| Error::Internal(format!("no JSON: {cause}")))
}
