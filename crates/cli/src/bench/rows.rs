//! The document of a bench as tables of 80 columns, one for each function and number of flows.

use serde_json::Value;

use crate::figures::{bytes, rate, thousands};
use crate::table::{Table, wrap};

/// All tables, and the machine they were measured on.
pub(super) fn render(document: &Value) -> String {
    let rows = document["results"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |row: &Value| ["nf", "load", "flows"].map(|name| row[name].clone());
    let groups = rows.chunk_by(|a, b| of(a) == of(b));
    machine(&document["machine"]) + &groups.map(group).collect::<String>()
}

fn machine(machine: &Value) -> String {
    let mut parts = vec![text(&machine["processor"])];
    parts.push(format!("{} cores", text(&machine["cores"])));
    parts.extend(machine["tsc_mhz"].as_f64().map(|mhz| format!("TSC at {mhz:.0} MHz")));
    if machine["hardware_counters"] == false {
        parts.push("no hardware counters: cycles are those of the TSC".to_string());
    }
    parts.retain(|part| !part.is_empty());
    wrap("", &parts.join(", "), 0)
}

/// One function on one number of flows.
fn group(rows: &[Value]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let load = first["load"].as_str().map_or(String::new(), |load| format!("/{load}"));
    let (nf, flows) = (text(&first["nf"]), count(&first["flows"]));
    let mut headline = format!("{nf}{load} with {flows} flows");
    if let Some(distinct) = first["distinct_flows"].as_u64() {
        headline.push_str(&format!(" ({} in the trace)", thousands(distinct)));
    }
    let memory = rows.iter().find_map(|row| row["bytes_per_flow"].as_f64());
    headline.extend(memory.map(|each| format!(", {} a flow", bytes(each.round() as u64))));
    let keys = first["solve_us"].as_u64();
    headline.extend(keys.map(|us| format!(", keys in {} µs", thousands(us))));
    let mut table = Table::new(&[
        "",
        ">Mpps",
        ">TSC",
        ">cycles",
        ">instr.",
        ">/by hand",
        ">/1 worker",
        ">spread",
    ]);
    for row in rows {
        table.row([
            variant(row),
            figure(&row["mpps"]),
            figure(&row["tsc_per_packet"]),
            figure(&row["cycles_per_packet"]),
            figure(&row["instructions_per_packet"]),
            ratio(&row["ratio_to_handwritten"]),
            ratio(&row["ratio_to_one_worker"]),
            row["spread"]
                .as_f64()
                .map_or(String::new(), |spread| format!("{:.1} %", spread * 100.0)),
        ]);
    }
    let memory = of_crews(rows, "memory / 1 worker", "memory_to_one_worker", ratio);
    let aborts = of_crews(rows, "aborts a million packets", "aborts_per_million", |figure| {
        figure.as_f64().map_or(String::new(), |figure| thousands(figure.round() as u64))
    });
    format!("\n{}{}{memory}{aborts}", wrap("", &headline, 0), table.render())
}

/// A figure of several workers, where there is one.
fn of_crews(rows: &[Value], what: &str, name: &str, figure: fn(&Value) -> String) -> String {
    let several = rows.iter().filter(|row| row["workers"].as_u64() > Some(1));
    let has_it = several.filter(|row| row[name].is_f64());
    let each: Vec<String> =
        has_it.map(|row| format!("{} {}", variant(row), figure(&row[name]))).collect();
    match each.is_empty() {
        true => String::new(),
        false => wrap("", &format!("{what}: {}", each.join(", ")), 4),
    }
}

/// What distinguishes a row from the others of its group.
fn variant(row: &Value) -> String {
    let mut name = match row["strategy"].as_str() {
        Some(_) if row["batch"] == 1 => "singly".to_string(),
        Some("sequential") => "this NF".to_string(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    if let Some(workers) = row["workers"].as_u64().filter(|workers| *workers > 1) {
        name.push_str(&format!(" ×{workers}"));
    }
    match row["prefetch"].as_str() {
        Some("off") if row["strategy"] == "sequential" => name.push_str(", no prefetch"),
        Some(stages @ ("one" | "two")) => name.push_str(&format!(", {stages} pass")),
        _ => {}
    }
    if row["steering_hash"] == "computed" && row["prefetch"] == "auto" {
        name.push_str(", hashing");
    }
    name
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn count(value: &Value) -> String {
    value.as_u64().map_or(String::new(), thousands)
}

fn figure(value: &Value) -> String {
    value.as_f64().map_or(String::new(), rate)
}

fn ratio(value: &Value) -> String {
    value.as_f64().map_or(String::new(), |ratio| format!("{ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::COLUMNS;

    #[test]
    fn rows_are_grouped_and_fit_a_terminal() {
        let row = |strategy: &str, flows: u64, prefetch: &str| {
            json!({
                "nf": "firewall", "strategy": strategy, "workers": 1, "flows": flows,
                "distinct_flows": flows - 3, "prefetch": prefetch, "steering_hash": "supplied",
                "cycles_per_packet": null, "tsc_per_packet": 1021.25,
                "instructions_per_packet": null, "mpps": 48.31, "ratio_to_handwritten": 1.0815,
                "ratio_to_one_worker": null, "spread": 0.0121, "bytes_per_flow": 72.2,
                "solve_us": 1234,
            })
        };
        let mut by_two = row("transactional", 65536, "auto");
        for (name, value) in [("workers", 2), ("batch", 1)] {
            by_two[name] = value.into();
        }
        by_two["memory_to_one_worker"] = 1.0125.into();
        by_two["aborts_per_million"] = 1234.5.into();
        let document = json!({
            "machine": { "processor": "A processor of some length @ 2.60GHz", "cores": 2,
                         "tsc_mhz": 2600.1, "hardware_counters": false },
            "results": [
                row("sequential", 1000, "auto"), row("sequential", 1000, "off"),
                row("handwritten-bare", 1000, "on"), row("sequential", 65536, "two"),
                by_two,
            ],
        });
        let text = render(&document);
        for part in [
            "firewall with 1,000 flows (997 in the trace), 72 B a flow, keys in 1,234 µs",
            "firewall with 65,536 flows",
            "this NF, no prefetch",
            "this NF, two pass",
            "1.08",
            "1.2 %",
            "TSC at 2600 MHz",
            "memory / 1 worker: singly ×2 1.01",
            "aborts a million packets: singly ×2 1,235",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn an_empty_document_is_a_line() {
        assert_eq!(render(&json!({ "machine": { "cores": 2 }, "results": [] })), "2 cores\n");
    }
}
