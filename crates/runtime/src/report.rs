//! What a run says about itself: one value, printed as a table, written as JSON, drawn as HTML.
//!
//! The model holds results only: it knows nothing of workers or terminals, so that everything
//! that reads a report (the program, its HTML page, a script, a test) depends on this file alone.
//! Field names are the names in the JSON document; they are stable and described in
//! `docs/report.md`.
//!
//! **Invariant**: `packets_read` is the sum of the packets handled by the workers, and every packet
//! that was read and did not leave has its reason in `drops`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hardware::HardwareCounts;

/// The `version` of every report written by this code: raised when a name changes its meaning.
pub const REPORT_VERSION: u32 = 1;

/// Everything one run has to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Version of this document, [`REPORT_VERSION`].
    pub version: u32,
    /// Name of the network function.
    pub nf: String,
    /// How its state was spread over the workers: `one-worker`, `shared-nothing`,
    /// `transactional` or `lock`.
    pub strategy: String,
    /// Why that strategy, in one sentence that names the state object and its line.
    pub strategy_why: String,
    /// False when an input or output ended early or failed: the figures are those of what was read. A refused
    /// command leaves it as it is.
    pub complete: bool,
    /// Packets read from all inputs.
    pub packets_read: u64,
    /// Bytes of the packets read, on the wire, without preamble and frame check sequence.
    pub bytes_read: u64,
    /// Packets that left through a port: forwarded, flooded (once a port) and emitted.
    pub packets_out: u64,
    /// Bytes of the packets that left.
    pub bytes_out: u64,
    /// Of `packets_out`, those the NF made itself (`cx.emit`, ARP answers, ICMP errors).
    pub packets_emitted: u64,
    /// Packets dropped, the sum of `drops`.
    pub packets_dropped: u64,
    /// Packets dropped for each reason, by the reason's word (`over-quota`).
    pub drops: BTreeMap<String, u64>,
    /// Each port's share in the above, in the NF's order.
    pub ports: Vec<PortReport>,
    /// Seconds from the first packet handed to a worker to the last one released.
    pub elapsed_s: f64,
    /// Millions of packets read a second.
    pub mpps: f64,
    /// Billions of bits read a second, of `bytes_read`.
    pub gbps: f64,
    /// Time from a batch's arrival at a worker to its release, of a sample of all batches; absent where it was
    /// not measured.
    pub latency_ns: Option<LatencyReport>,
    /// How packets ended under the lock; absent where state was not behind one.
    #[serde(default)]
    pub lock: Option<LockReport>,
    /// How transactions ended; absent where there were none.
    #[serde(default)]
    pub transactions: Option<TransactionReport>,
    /// How shards were kept evenly divided; absent where they stayed where they were, or too few
    /// packets came to tell.
    #[serde(default)]
    pub balance: Option<BalanceReport>,
    /// How packets spread over shards; absent where no packet's shard matters.
    #[serde(default)]
    pub shards: Option<ShardsReport>,
    /// How the store that keeps the state did; absent without one.
    #[serde(default)]
    pub store: Option<StoreReport>,
    /// What each worker did, in order.
    pub workers: Vec<WorkerReport>,
    /// What each handler took; only where the run is watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<HandlerReport>,
    /// How full each state object was at the end.
    pub tables: Vec<TableReport>,
    /// Counters of the NF (`Counter` state objects), by name, summed over shards.
    pub counters: BTreeMap<String, u64>,
    /// Operations that an NF got wrong and that were made harmless, such as an index past the end
    /// of a `Vector`.
    pub faults: u64,
    /// Lines of the NF's log, in the order of their time.
    pub log: Vec<LogLine>,
    /// Lines of the NF's log that were not kept because of its rate limit.
    pub logs_suppressed: u64,
    /// Throughput over the run, for the chart. Empty where nothing was handled.
    pub samples: Vec<Sample>,
    /// What the operator should know though the run went on, one sentence each.
    pub warnings: Vec<String>,
    /// What failed: what kept the run from being complete, and commands that were refused.
    pub errors: Vec<ReportedError>,
}

/// One port's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    /// The port's name in the NF.
    pub name: String,
    /// Packets read from it.
    pub packets_read: u64,
    /// Bytes read from it.
    pub bytes_read: u64,
    /// Packets that left through it.
    pub packets_out: u64,
    /// Bytes that left through it.
    pub bytes_out: u64,
    /// Of a live port; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LivePortReport>,
}

/// What a live port has to say besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePortReport {
    /// The interface, as it was named (`afpacket:eth0`).
    pub interface: String,
    /// Number of the port's queues, one for each worker: an interface may have more or fewer.
    pub queues: usize,
    /// Packets that the kernel dropped because a receive queue was full; they are not among
    /// `packets_read`.
    pub missed: u64,
    /// Packets that the device took to send, and did not send; they are among `packets_out`.
    #[serde(default)]
    pub unsent: u64,
    /// Large packets of an offload that were cut into segments.
    pub segmented: u64,
    /// Checksums that an offload had left unfinished and that were finished.
    pub finished_checksums: u64,
    /// Times that a queue found the link down or the interface gone.
    pub link_downs: u64,
    /// Times that a queue was opened anew.
    pub reopened: u64,
}

/// Percentiles of the time a packet spent inside, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Half of the packets took at most this long.
    pub p50: u64,
    /// Nine in ten.
    pub p90: u64,
    /// 99 in a hundred.
    pub p99: u64,
    /// 999 in a thousand.
    pub p99_9: u64,
    /// The slowest one of those that were timed.
    pub max: u64,
}

/// How evenly packets were divided among workers, and what it took. Load is watched in windows of
/// 16,384 packets a worker; ratios are to what each would have had on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BalanceReport {
    /// Windows that were looked at.
    pub windows: u64,
    /// Windows after which shards moved.
    pub steps: u64,
    /// Shards that moved, each time counted.
    pub shards_moved: u64,
    /// Entries of state objects that moved with them.
    pub entries_moved: u64,
    /// Packets of the busiest worker in the first window, as a ratio.
    pub busiest_first: f64,
    /// The same in the last window.
    pub busiest_last: f64,
    /// What no assignment of the last window's shards could have been below.
    pub best_last: f64,
}

/// How packets spread over shards, which are the entries of the indirection table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardsReport {
    /// Entries.
    pub entries: usize,
    /// How many of them had packets.
    pub used: usize,
    /// Packets of the middle one of those.
    pub median: u64,
    /// Those with the most packets, the heaviest first.
    pub heaviest: Vec<ShardReport>,
}

/// One entry of the indirection table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// Its number.
    pub entry: usize,
    /// Whose it is, at the end.
    pub worker: u16,
    /// Its packets.
    pub packets: u64,
    /// Its share of all packets, 0 to 1.
    pub share: f64,
}

/// Entries that are told one by one.
const HEAVIEST: usize = 8;

impl ShardsReport {
    /// From the packets and the worker of each entry.
    pub fn new(entries: impl ExactSizeIterator<Item = (u64, u16)>) -> Self {
        let total = entries.len();
        let numbered = entries.enumerate().filter(|(_, (packets, _))| *packets > 0);
        let mut used: Vec<(usize, (u64, u16))> = numbered.collect();
        used.sort_by_key(|(_, (packets, _))| std::cmp::Reverse(*packets));
        let all: u64 = used.iter().map(|(_, (packets, _))| packets).sum();
        let report = |&(entry, (packets, worker)): &(usize, (u64, u16))| {
            let share = ratio(packets as f64, all as f64);
            ShardReport { entry, worker, packets, share }
        };
        let median = used.get(used.len() / 2).map_or(0, |(_, (packets, _))| *packets);
        let heaviest = used.iter().take(HEAVIEST).map(report).collect();
        Self { entries: total, used: used.len(), median, heaviest }
    }
}

/// How the store did that keeps the state of a run. Lag is the time from a change to when it is known
/// to be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReport {
    /// Which store, without passwords.
    pub store: String,
    /// Changes stored.
    pub stored: u64,
    /// Messages that it answered, each of about 4096 changes at most.
    pub messages: u64,
    /// Messages that it did not answer.
    pub failures: u64,
    /// How often it had lost state, which was written again.
    pub rebuilds: u64,
    /// Changes that wait, with those under way.
    pub waiting: u64,
    /// Age of the oldest of them, nanoseconds.
    pub oldest_ns: u64,
    /// How late changes were stored.
    pub lag_ns: LagReport,
    /// The same of what was stored in the last whole second.
    #[serde(default)]
    pub recent_lag_ns: LagReport,
    /// How long it took, the last time, to tell it of all entries that were only refreshed.
    #[serde(default)]
    pub refresh_round_ns: u64,
    /// Why it did not take the last message; none if it did.
    pub trouble: Option<String>,
    /// How long packets waited each time that it was told what has changed: those of a worker, or where
    /// state is shared those of all, until nobody was beside it and what was written was copied.
    #[serde(default)]
    pub pause_ns: LagReport,
    /// The thread that writes to it has ended: nothing is stored any more.
    #[serde(default)]
    pub ended: bool,
    /// It is so far behind that no new flows are taken: tables answer as if they were full.
    #[serde(default)]
    pub refuses_new: bool,
    /// For how long none were, nanoseconds.
    #[serde(default)]
    pub refused_ns: u64,
    /// What it had from an earlier run of the instance.
    #[serde(default)]
    pub restart: RestartReport,
}

/// How a run took up what an earlier one of the same instance had left in the store, in nanoseconds since it
/// opened the store. No packet is handled before all of it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartReport {
    /// Entries put into tables and packet sets.
    pub entries: u64,
    /// Until the store had given them.
    pub read_ns: u64,
    /// Until all were in place: from then on the function has the state of before.
    pub warm_ns: u64,
    /// Until the first packet could be handled.
    pub ready_ns: u64,
}

/// Percentiles of what has to do with a store, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LagReport {
    /// Half of them took no longer.
    pub p50: u64,
    /// 99 in a hundred.
    pub p99: u64,
    /// All of them.
    pub max: u64,
}

/// Packets of a run under the lock, all of them, by the side of it on which they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockReport {
    /// Those that wrote nothing, and ran beside others.
    pub readers: u64,
    /// Those that wrote, or before which something was due, and ran (once more) alone.
    pub upgraded: u64,
}

/// Transactions of a run, each of up to 32 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionReport {
    /// Those that took effect beside others.
    pub commits: u64,
    /// Those that were given up because another worker changed what they had read, or wanted to
    /// change.
    pub conflicts: u64,
    /// Those that were given up because one of their packets needed to be alone.
    pub unfit: u64,
    /// Packets that ran alone because they needed to: events were due, a table was nearly full, an
    /// end had come.
    pub alone: u64,
    /// Packets that ran alone because others had been in their way eight times.
    pub irrevocable: u64,
    /// Batches that workers handled in turns, where that was measured to be faster.
    #[serde(default)]
    pub turns: u64,
    /// Packets of these batches.
    #[serde(default)]
    pub turn_packets: u64,
}

impl TransactionReport {
    /// Adds a worker's.
    pub fn add(&mut self, counts: &anabranch_txn::Counts) {
        self.commits += counts.commits;
        self.conflicts += counts.conflicts;
        self.unfit += counts.unfit;
        self.alone += counts.alone;
        self.irrevocable += counts.irrevocable;
        self.turns += counts.turns;
        self.turn_packets += counts.turn_items;
    }
}

/// What a handler of the function took, on all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HandlerReport {
    /// `packet`, `control`, `timer`, `periodic`, `expired`.
    pub handler: String,
    /// How often it was called; `packet` also for packets whose transactions were given up. Of `expired`: how often
    /// something might have expired.
    pub calls: u64,
    /// Seconds that passed in it.
    pub time_s: f64,
    /// What processors counted meanwhile in user space; absent where they count nothing.
    pub hardware: Option<HardwareCounts>,
}

impl HandlerReport {
    /// Adds another worker's.
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.time_s += other.time_s;
        self.hardware = self.hardware.zip(other.hardware).map(|(one, other)| one.plus(other));
    }
}

/// One worker's part in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Packets it handled.
    pub packets: u64,
    /// Its share of all packets, 0 to 1.
    pub share: f64,
    /// Seconds in which it had packets to handle.
    pub busy_s: f64,
    /// The part of the run in which it had packets to handle, 0 to 1.
    pub busy: f64,
    /// What the processor counted of its thread in user space; absent where it counts nothing.
    #[serde(default)]
    pub hardware: Option<HardwareCounts>,
    /// Seconds that its thread ran on a processor; absent where the system does not tell, or the run is
    /// live.
    #[serde(default)]
    pub cpu_s: Option<f64>,
}

/// One state object at the end of the run, summed over shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableReport {
    /// The field's name in the NF, or the name of the packet set's struct.
    pub name: String,
    /// Entries in use.
    pub used: u64,
    /// Entries there is room for.
    pub capacity: u64,
    /// Memory the object occupies, used or not.
    pub bytes: u64,
    /// Every place is in use from the start, as the elements of a vector: it cannot fill up.
    #[serde(default)]
    pub whole: bool,
}

/// One line of the NF's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Nanoseconds since the Unix epoch, by the NF's clock.
    pub at_ns: u64,
    /// `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// Line of the NF's source.
    pub source_line: u32,
    /// What it says.
    pub text: String,
}

/// Throughput in the interval that ends at `t_s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start of the run.
    pub t_s: f64,
    /// Millions of packets a second since the sample before.
    pub mpps: f64,
}

impl Sample {
    /// Each `run` samples in a row made one: the average over their time.
    pub fn joined(samples: &[Sample], run: usize) -> Vec<Sample> {
        let mut from_s = 0.0;
        let several = samples.chunks(run.max(1));
        let joined = several.map(|several| {
            let (mut packets, start_s) = (0.0, from_s);
            for sample in several {
                packets += sample.mpps * (sample.t_s - from_s);
                from_s = sample.t_s;
            }
            Sample { t_s: from_s, mpps: packets / (from_s - start_s).max(1e-9) }
        });
        joined.collect()
    }
}

/// What kind of failure ended a run early; decides the program's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// An input could not be opened, ended inside a packet, or is not a capture.
    Input,
    /// An input holds packets of a link type that is not supported.
    LinkType,
    /// An output could not be written.
    Output,
    /// A command given with `--control` was refused by the NF.
    Control,
}

/// One failure, in words for a person and a kind for a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedError {
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// What was wrong, where, and what to do instead.
    pub message: String,
}

impl RunReport {
    /// An empty, complete report of a run of `nf`, to be filled in.
    pub fn new(nf: &str) -> RunReport {
        RunReport {
            version: REPORT_VERSION,
            nf: nf.to_string(),
            strategy: String::new(),
            strategy_why: String::new(),
            complete: true,
            packets_read: 0,
            bytes_read: 0,
            packets_out: 0,
            bytes_out: 0,
            packets_emitted: 0,
            packets_dropped: 0,
            drops: BTreeMap::new(),
            ports: Vec::new(),
            elapsed_s: 0.0,
            mpps: 0.0,
            gbps: 0.0,
            latency_ns: None,
            lock: None,
            transactions: None,
            balance: None,
            shards: None,
            store: None,
            workers: Vec::new(),
            handlers: Vec::new(),
            tables: Vec::new(),
            counters: BTreeMap::new(),
            faults: 0,
            log: Vec::new(),
            logs_suppressed: 0,
            samples: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Counts `packets` dropped for the reason `word`.
    pub fn count_drop(&mut self, word: &str, packets: u64) {
        if packets > 0 {
            *self.drops.entry(word.to_string()).or_default() += packets;
            self.packets_dropped += packets;
        }
    }

    /// Notes a failure. Unless it is a command that was refused, which keeps no packet from anything, the
    /// report is no longer complete.
    pub fn fail(&mut self, kind: ErrorKind, message: impl Into<String>) {
        self.complete &= kind == ErrorKind::Control;
        let message = message.into();
        self.errors.push(ReportedError { kind, message });
    }

    /// Sets the duration, and everything that follows from it and from the counts: rates and the
    /// workers' shares. Call it last.
    pub fn finish(&mut self, elapsed: Duration) {
        self.elapsed_s = elapsed.as_secs_f64();
        self.mpps = ratio(self.packets_read as f64 / 1e6, self.elapsed_s);
        self.gbps = ratio(self.bytes_read as f64 * 8.0 / 1e9, self.elapsed_s);
        let handled: u64 = self.workers.iter().map(|worker| worker.packets).sum();
        for worker in &mut self.workers {
            worker.share = ratio(worker.packets as f64, handled as f64);
        }
    }

    /// Adds what a handler took on one worker.
    pub(crate) fn add_handler(&mut self, more: &HandlerReport) {
        match self.handlers.iter_mut().find(|one| one.handler == more.handler) {
            Some(one) => one.add(more),
            None => self.handlers.push(more.clone()),
        }
    }
}

/// `part / whole`, and 0 for an empty whole: a report never holds NaN, which JSON cannot.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_counts_and_duration() {
        let mut report = RunReport::new("nop");
        report.packets_read = 3_000_000;
        report.bytes_read = 300_000_000;
        report.workers = vec![
            WorkerReport { packets: 1_000_000, ..WorkerReport::default() },
            WorkerReport { packets: 2_000_000, ..WorkerReport::default() },
        ];
        report.finish(Duration::from_millis(1500));
        assert_eq!(report.mpps, 2.0);
        assert!((report.gbps - 1.6).abs() < 1e-9);
        assert!((report.workers[1].share - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_heaviest_shards_come_first() {
        let packets = [0, 5, 70, 5, 20].into_iter();
        let report = ShardsReport::new(packets.zip([0, 1, 0, 1, 0]));
        assert_eq!((report.entries, report.used, report.median), (5, 4, 5));
        let first = ShardReport { entry: 2, worker: 0, packets: 70, share: 0.7 };
        assert_eq!((report.heaviest[0], report.heaviest.len()), (first, 4));
        assert_eq!(ShardsReport::new([(0, 0)].into_iter()).heaviest, []);
    }

    #[test]
    fn an_empty_run_has_no_rate() {
        let mut report = RunReport::new("nop");
        report.workers = vec![WorkerReport::default()];
        report.finish(Duration::ZERO);
        assert_eq!((report.mpps, report.gbps, report.workers[0].share), (0.0, 0.0, 0.0));
    }

    #[test]
    fn joined_samples_have_the_same_area() {
        let sample = |i: u32| Sample { t_s: f64::from(i) / 100.0, mpps: f64::from(i % 7) };
        let samples: Vec<Sample> = (1..=1000).map(sample).collect();
        let joined = Sample::joined(&samples, 17);
        assert_eq!(joined.len(), 59);
        assert_eq!(joined.last().map(|last| last.t_s), Some(10.0));
        let area = |samples: &[Sample]| {
            let from = [0.0].into_iter().chain(samples.iter().map(|one| one.t_s));
            from.zip(samples).map(|(from, one)| (one.t_s - from) * one.mpps).sum::<f64>()
        };
        assert!((area(&joined) - area(&samples)).abs() < 1e-6);
        assert!(Sample::joined(&[], 2).is_empty());
    }

    #[test]
    fn drops_add_up() {
        let mut report = RunReport::new("nop");
        report.count_drop("over-quota", 2);
        report.count_drop("no-packet-set", 1);
        report.count_drop("over-quota", 3);
        report.count_drop("never", 0);
        assert_eq!(report.packets_dropped, 6);
        assert_eq!(report.drops.len(), 2);
        assert_eq!(report.drops["over-quota"], 5);
    }

    #[test]
    fn a_failure_makes_the_report_incomplete() {
        let mut report = RunReport::new("nop");
        report.fail(ErrorKind::LinkType, "lan.pcap: link type 105");
        assert!(!report.complete);
        assert_eq!(report.errors[0].kind, ErrorKind::LinkType);
        report.fail(ErrorKind::Control, "refused");
        assert!(!report.complete);
    }

    #[test]
    fn a_refused_command_keeps_no_packet_from_anything() {
        let mut report = RunReport::new("nop");
        report.fail(ErrorKind::Control, "refused");
        assert!(report.complete && report.errors.len() == 1);
    }
}
