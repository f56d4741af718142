//! What a bench says: rows, as JSON and as a table.

use anabranch_runtime::hardware::{Hardware, processor};
use serde::Serialize;

/// The whole document; names are stable and described in `docs/bench.md`.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// On what it was measured.
    pub machine: Machine,
    /// The figures.
    pub results: Vec<Row>,
}

/// A machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model of its processor.
    pub processor: String,
    /// Cores that the bench may use.
    pub cores: usize,
    /// Ticks of the time-stamp counter in a microsecond.
    pub tsc_mhz: f64,
    /// Whether it counts cycles and instructions.
    pub hardware_counters: bool,
}

/// One contestant on one number of flows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// The network function.
    pub nf: &'static str,
    /// `sequential`, `one-worker`: the function on one worker, alone and as a crew of one;
    /// `shared-nothing`, `mixed`, `transactional`, `lock`, `mutex`: on several at once;
    /// `handwritten`, `handwritten-bare`, `lookup-only`, `header-only`: what it is compared with.
    pub strategy: &'static str,
    /// What the function is set to do, where it is measured under several loads.
    pub load: Option<&'static str>,
    /// Packets that are handled together at most, in one transaction where there are any.
    pub batch: usize,
    /// Workers.
    pub workers: usize,
    /// Flows that were open.
    pub flows: usize,
    /// Flows that the trace really had.
    pub distinct_flows: usize,
    /// Microseconds that it took to find the keys of the function's plan, the choice among them included.
    pub solve_us: u64,
    /// The Prefetch pass: `auto` (what a run does), `one`, `two`, `off`; `on` in loops written by
    /// hand that look something up.
    pub prefetch: &'static str,
    /// Whether the steering hash came with the packet (`supplied`), was `computed`, or is not used
    /// (`none`).
    pub steering_hash: &'static str,
    /// Core cycles in user space; null where the machine does not count them.
    pub cycles_per_packet: Option<f64>,
    /// Ticks of the time-stamp counter; of several workers, of all of them.
    pub tsc_per_packet: f64,
    /// Instructions in user space; null where the machine does not count them.
    pub instructions_per_packet: Option<f64>,
    /// Million packets a second, of all workers.
    pub mpps: f64,
    /// `tsc_per_packet` over that of `handwritten`, of the same run; null where that was not measured.
    pub ratio_to_handwritten: Option<f64>,
    /// `mpps` over that of one worker, measured in turn with it; null where one was measured alone.
    pub ratio_to_one_worker: Option<f64>,
    /// Transactions given up, of a million packets, since the crew was made; null where there are none.
    pub aborts_per_million: Option<f64>,
    /// (Median - fastest) / fastest over the repetitions; the fastest is what is quoted.
    pub spread: f64,
    /// Repetitions.
    pub repetitions: usize,
    /// Memory that the state of a flow takes, both directions, when the tables are full; of the
    /// function itself only.
    pub bytes_per_flow: Option<f64>,
    /// Memory that became resident when the function was made and its flows opened, per flow; null
    /// where there are too few flows for whole pages to tell.
    pub resident_bytes_per_flow: Option<f64>,
    /// `resident_bytes_per_flow` over that of one worker by the same strategy (of `shared-nothing`: of
    /// one worker alone); null where one of them is.
    pub memory_to_one_worker: Option<f64>,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        Self {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            tsc_mhz: rounded(crate::clock::tsc_mhz()),
            hardware_counters: Hardware::open().is_some(),
        }
    }
}

/// To three decimals: what is behind them says nothing.
pub fn rounded(figure: f64) -> f64 {
    (figure * 1_000.0).round() / 1_000.0
}

impl Row {
    /// With every figure rounded.
    pub fn rounded(mut self) -> Self {
        for figure in [&mut self.tsc_per_packet, &mut self.mpps] {
            *figure = rounded(*figure);
        }
        self.spread = rounded(self.spread);
        for figure in [
            &mut self.cycles_per_packet,
            &mut self.instructions_per_packet,
            &mut self.ratio_to_handwritten,
            &mut self.ratio_to_one_worker,
            &mut self.aborts_per_million,
            &mut self.memory_to_one_worker,
            &mut self.bytes_per_flow,
            &mut self.resident_bytes_per_flow,
        ] {
            *figure = figure.map(rounded);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(document: &serde_json::Value) -> Vec<&str> {
        document.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn names_are_stable_and_documented() {
        let document = Document { machine: Machine::this(), results: vec![Row::default()] };
        let document = serde_json::to_value(&document).unwrap();
        let rows = names(&document["results"][0]);
        assert_eq!(names(&document), ["machine", "results"]);
        assert_eq!(
            names(&document["machine"]),
            ["cores", "hardware_counters", "processor", "tsc_mhz"]
        );
        let expected = [
            "aborts_per_million",
            "batch",
            "bytes_per_flow",
            "cycles_per_packet",
            "distinct_flows",
            "flows",
            "instructions_per_packet",
            "load",
            "memory_to_one_worker",
            "mpps",
            "nf",
            "prefetch",
            "ratio_to_handwritten",
            "ratio_to_one_worker",
            "repetitions",
            "resident_bytes_per_flow",
            "solve_us",
            "spread",
            "steering_hash",
            "strategy",
            "tsc_per_packet",
            "workers",
        ];
        assert_eq!(rows, expected);
        let page = include_str!("../../docs/bench.md");
        for name in rows.into_iter().chain(names(&document["machine"])) {
            assert!(page.contains(&format!("`{name}`")), "docs/bench.md does not have `{name}`");
        }
    }

    #[test]
    fn what_is_not_counted_is_null() {
        let row = serde_json::to_value(Row::default().rounded()).unwrap();
        assert!(row["cycles_per_packet"].is_null() && row["instructions_per_packet"].is_null());
    }
}
