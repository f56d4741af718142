//! From what the workers say to the report.

use std::time::{Duration, Instant};

use anabranch_io::sink::Outputs;
use anabranch_nf::state::TableUse;
use anabranch_nf::{DropReason, Line, NetworkFunction, Word};
use hdrhistogram::Histogram;

use crate::events::{Answer, of_all};
use crate::report::{
    ErrorKind, LatencyReport, LogLine, PortReport, RunReport, Sample, TableReport, WorkerReport,
};
use crate::tally::Counts;
use crate::worker::{Done, Finished, InstanceEnd};

/// Samples of throughput that a report holds at most.
const SAMPLES: usize = 400;

/// Gathers the report of a run.
#[derive(Clone)]
pub struct Account {
    /// The report so far.
    pub report: RunReport,
    reasons: &'static [Word],
    /// The commands of the run, in the order in which they are carried out.
    commands: Vec<String>,
    handled: u64,
    pace: Pace,
}

/// Packets handled in the course of a run, by slots of time.
#[derive(Clone)]
struct Pace {
    slot_s: f64,
    packets: Vec<f64>,
    /// The end of what was handled.
    end_s: f64,
}

impl Pace {
    fn new() -> Self {
        Self { slot_s: 0.01, packets: Vec::new(), end_s: 0.0 }
    }

    /// So many were handled evenly over the time from `from_s` to `to_s`.
    fn add(&mut self, packets: u64, from_s: f64, to_s: f64) {
        let to_s = to_s.max(from_s + 1e-9);
        while to_s >= self.slot_s * SAMPLES as f64 {
            self.widen();
        }
        self.end_s = self.end_s.max(to_s);
        let slots = [from_s, to_s].map(|time_s| (time_s / self.slot_s) as usize);
        self.packets.resize(self.packets.len().max(slots[1] + 1), 0.0);
        let per_s = packets as f64 / (to_s - from_s);
        for (slot, sum) in self.packets.iter_mut().enumerate().take(slots[1] + 1).skip(slots[0]) {
            let begin_s = slot as f64 * self.slot_s;
            *sum += per_s * (to_s.min(begin_s + self.slot_s) - from_s.max(begin_s)).max(0.0);
        }
    }

    /// Joins two slots each, so that a long run has as many as a short one.
    fn widen(&mut self) {
        self.slot_s *= 2.0;
        self.packets = self.packets.chunks(2).map(|both| both.iter().sum()).collect();
    }

    fn samples(&self) -> Vec<Sample> {
        let sample = |(slot, packets): (usize, &f64)| {
            let begin_s = slot as f64 * self.slot_s;
            let t_s = self.end_s.min(begin_s + self.slot_s);
            // What ends with a slot has nothing in the next one.
            (t_s - begin_s > 1e-9).then(|| Sample { t_s, mpps: packets / (t_s - begin_s) / 1e6 })
        };
        self.packets.iter().enumerate().filter_map(sample).collect()
    }
}

impl Account {
    /// An account of a run of `N`.
    pub fn new<N: NetworkFunction>(ports: &[String], commands: &[(u64, String)]) -> Self {
        let mut report = RunReport::new(N::NAME);
        let port = |name: &String| PortReport { name: name.clone(), ..PortReport::default() };
        report.ports = ports.iter().map(port).collect();
        let mut commands: Vec<&(u64, String)> = commands.iter().collect();
        commands.sort_by_key(|(at_ns, _)| *at_ns);
        let commands = commands.into_iter().map(|(_, command)| command.clone()).collect();
        Self { report, reasons: N::REASONS, commands, handled: 0, pace: Pace::new() }
    }

    /// Packets handled so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Whether a failure of this kind has been noted.
    pub fn has_failed(&self, kind: ErrorKind) -> bool {
        self.report.errors.iter().any(|error| error.kind == kind)
    }

    /// Notes what the operator should know.
    pub fn warn(&mut self, sentence: String) {
        self.report.warnings.push(sentence);
    }

    /// Notes that fewer workers run than were asked for, if so.
    pub fn warn_of_fewer(&mut self, workers: usize, asked: usize) {
        if workers < asked {
            self.warn(format!(
                "{asked} workers were asked for; there are {workers} shards, so that {workers} run"
            ));
        }
    }

    /// A worker has done a job of the run that was `started` then. Returns the job's outputs.
    pub fn done(&mut self, done: Done, started: Instant) -> Outputs {
        self.handled += done.packets;
        self.log(done.lines);
        if done.packets > 0 {
            let [from_s, to_s] = [done.took.start, done.took.end]
                .map(|time| time.saturating_duration_since(started).as_secs_f64());
            self.pace.add(done.packets, from_s, to_s);
        }
        done.outputs
    }

    fn log(&mut self, lines: Vec<Line>) {
        self.report.log.extend(lines.into_iter().map(|line| LogLine {
            at_ns: line.at_ns,
            level: format!("{:?}", line.level),
            source_line: line.source_line,
            text: line.text,
        }));
    }

    /// The run is over.
    pub fn finish(mut self, ends: Vec<Finished>, elapsed: Duration) -> RunReport {
        let ports = self.report.ports.len();
        let mut counts = Counts::new(ports);
        let mut latency: Option<Histogram<u64>> = None;
        let (mut unheeded, mut answers) = (0, Vec::new());
        for mut end in ends {
            let worker = WorkerReport {
                packets: end.counts.packets(),
                share: 0.0,
                busy_s: end.busy.as_secs_f64(),
                busy: (end.busy.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)).min(1.0),
                hardware: end.hardware,
                cpu_s: end.cpu.map(|time| time.as_secs_f64()),
            };
            self.report.workers.push(worker);
            end.handlers.iter().for_each(|one| self.report.add_handler(one));
            counts.add(&end.counts);
            if let Some(sides) = end.sides {
                let lock = self.report.lock.get_or_insert_default();
                lock.readers += sides.readers;
                lock.upgraded += sides.upgraded;
            }
            if let Some(counts) = end.transactions {
                self.report.transactions.get_or_insert_default().add(&counts);
            }
            self.report.faults += end.faults;
            unheeded = unheeded.max(end.instance.unheeded);
            answers.push(std::mem::take(&mut end.instance.answers));
            self.instance(end.instance);
            match &mut latency {
                None => latency = Some(end.latency),
                // The bounds are the same, so that adding cannot fail.
                Some(latency) => drop(latency.add(&end.latency)),
            }
        }
        self.commands(&answers);
        if unheeded > 0 {
            let (which, whose) = match unheeded {
                1 => ("1 command was".to_owned(), "its"),
                _ => (format!("{unheeded} commands were"), "their"),
            };
            let when = "time is after the last packet";
            self.warn(format!("{which} not carried out: {whose} {when}"));
        }
        self.report.log.sort_by_key(|line| line.at_ns);
        self.report.latency_ns = latency.filter(|latency| !latency.is_empty()).map(percentiles);
        self.counts(&counts);
        self.report.samples = self.pace.samples();
        self.report.finish(elapsed);
        self.report
    }

    fn instance(&mut self, end: InstanceEnd) {
        self.tables(&end.tables);
        self.log(end.lines);
        self.report.logs_suppressed += end.suppressed;
        for (name, count) in end.counters {
            *self.report.counters.entry(name.to_owned()).or_default() += count;
        }
    }

    /// Fails where a command was refused: one line for all that are refused alike, which names the first.
    fn commands(&mut self, answers: &[Vec<Answer>]) {
        let mut refused: Vec<(&str, usize, &str)> = Vec::new();
        for (place, command) in self.commands.iter().enumerate() {
            let given = answers.iter().filter_map(|of_worker| of_worker.get(place));
            let Err(why) = of_all(given.copied()) else { continue };
            match refused.iter_mut().find(|(.., known)| *known == why) {
                Some((_, others, _)) => *others += 1,
                None => refused.push((command, 0, why)),
            }
        }
        let said = refused.into_iter().map(|(command, others, why)| {
            let others = match others {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            format!("`{}` refused the command `{command}`{others}: {why}", self.report.nf)
        });
        for message in said.collect::<Vec<_>>() {
            self.report.fail(ErrorKind::Control, message);
        }
    }

    fn tables(&mut self, tables: &[TableUse]) {
        for table in tables {
            self.report.faults += table.faults;
            let known = self.report.tables.iter_mut().find(|known| known.name == table.name);
            match known {
                Some(known) => {
                    known.used += table.used;
                    known.capacity += if table.common { 0 } else { table.capacity };
                    known.bytes += table.bytes;
                }
                None => self.report.tables.push(TableReport {
                    name: table.name.clone(),
                    used: table.used,
                    capacity: table.capacity,
                    bytes: table.bytes,
                    whole: table.whole,
                }),
            }
        }
    }

    fn counts(&mut self, counts: &Counts) {
        let report = &mut self.report;
        for (port, (read, out)) in report.ports.iter_mut().zip(counts.read.iter().zip(&counts.out))
        {
            (port.packets_read, port.bytes_read) = (read.packets, read.bytes);
            (port.packets_out, port.bytes_out) = (out.packets, out.bytes);
            report.packets_read += read.packets;
            report.bytes_read += read.bytes;
            report.packets_out += out.packets;
            report.bytes_out += out.bytes;
        }
        report.packets_emitted = counts.emitted;
        for (reason, packets) in counts.drops() {
            report.count_drop(DropReason::word(reason, self.reasons), packets);
        }
    }
}

fn percentiles(latency: Histogram<u64>) -> LatencyReport {
    LatencyReport {
        p50: latency.value_at_quantile(0.5),
        p90: latency.value_at_quantile(0.9),
        p99: latency.value_at_quantile(0.99),
        p99_9: latency.value_at_quantile(0.999),
        max: latency.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two workers the second has nothing of what the first command is about. The last has no answer.
    #[test]
    fn commands_that_are_refused_are_named() {
        let commands = ["forget a", "forget b", "forget c", "reset", "late"].map(str::to_owned);
        let (reasons, report) = (&[][..], RunReport::new("quota"));
        let commands = commands.to_vec();
        let pace = Pace::new();
        let mut account = Account { report, reasons, commands, handled: 0, pace };
        let no = Err("it has sent nothing");
        account.commands(&[vec![Ok(()), no, no, Err("not now")], vec![no, no, no, Err("not now")]]);
        let said: Vec<&str> =
            account.report.errors.iter().map(|error| error.message.as_str()).collect();
        assert_eq!(
            said,
            [
                "`quota` refused the command `forget b` and 1 more: it has sent nothing",
                "`quota` refused the command `reset`: not now",
            ]
        );
    }

    /// Of two workers, each of which has done a job in the first and one in the second half of a second, and said so
    /// when it was over.
    #[test]
    fn packets_are_told_of_when_they_were_handled() {
        let mut pace = Pace::new();
        for (from_s, to_s) in [(0.0, 0.5), (0.5, 1.0), (0.0, 0.4), (0.6, 1.0)] {
            pace.add(50_000, from_s, to_s);
        }
        let area = |samples: &[Sample]| {
            let begins = [0.0].into_iter().chain(samples.iter().map(|one| one.t_s));
            begins.zip(samples).map(|(from_s, one)| (one.t_s - from_s) * one.mpps).sum::<f64>()
        };
        let samples = pace.samples();
        assert_eq!(samples.last().map(|last| last.t_s), Some(1.0));
        assert!(samples.iter().all(|one| (0.0999..0.2251).contains(&one.mpps)), "{samples:?}");
        assert!((area(&samples) - 0.2).abs() < 1e-9);
        // It goes on for an hour; of no time at all are those of a clock that stood still.
        pace.add(1_000_000, 1.0, 3600.0);
        pace.add(7, 3600.0, 3600.0);
        let samples = pace.samples();
        assert!(samples.len() <= SAMPLES && samples.len() > SAMPLES / 4, "{}", samples.len());
        assert!((area(&samples) - 1.200_007).abs() < 1e-6, "{}", area(&samples));
    }

    /// Places that workers have together are there once, their own as often as there are workers.
    #[test]
    fn what_workers_have_together_counts_once() {
        let report = RunReport::new("nf");
        let (reasons, commands) = (&[][..], Vec::new());
        let pace = Pace::new();
        let mut account = Account { report, reasons, commands, handled: 0, pace };
        let table = |name: &str, used, common| TableUse {
            name: name.to_owned(),
            used,
            capacity: 40,
            bytes: 1,
            faults: 0,
            whole: false,
            common,
        };
        for used in [10, 30] {
            account.tables(&[table("pool", used, true), table("map", used, false)]);
        }
        let full = account.report.tables.iter().map(|table| (table.used, table.capacity));
        assert_eq!(full.collect::<Vec<_>>(), [(40, 40), (40, 80)]);
    }
}
