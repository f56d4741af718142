//! `bench --ports`: forwarding and NAT over virtual links, beside the kernel's own over the same ones; and with DPDK,
//! beside its `testpmd` over a device that costs nothing.
//!
//! ```text
//!  this process ── ab…a ══ p0 ─┐ namespace ┌─ p1 ══ ab…b ── this process
//!  sends at a set rate         └─ contestant ┘               counts, and looks at the clock
//! ```

mod bed;
#[cfg(feature = "dpdk")]
mod null;
mod search;
mod tester;

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::own::rounded;
use crate::arguments::BenchArguments;
use crate::error::Error;
use crate::figures::{nanoseconds, percent, rate};
use crate::file::tell;
use crate::signals::{Leaving, undisturbed};
use crate::table::Table;
use bed::Bed;
use search::{Trial, highest};
use tester::Ends;

/// Flows that are sent.
const FLOWS: usize = 1_000;
/// Length of a trial while the rate is searched for, and of the one that confirms it.
const TRIAL: Duration = Duration::from_millis(700);
const LAST_TRIAL: Duration = Duration::from_secs(2);
/// Parts of the highest rate at which latency is measured.
const LOADS: [f64; 2] = [0.5, 0.9];
/// Longest time that a contestant may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    /// Linux: a bridge, or routing with nftables.
    Kernel,
    /// We, over ports of this kind.
    Ports(&'static str),
}

impl Contestant {
    const ALL: [Self; 3] = [Self::Kernel, Self::Ports("afpacket"), Self::Ports("xdp")];
}

/// What is to be done with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Forward,
    Nat,
}

impl Job {
    const ALL: [Self; 2] = [Self::Forward, Self::Nat];

    fn nf(self) -> &'static str {
        match self {
            Self::Forward => "nop",
            Self::Nat => "nat",
        }
    }

    fn port(self, contestant: Contestant) -> &'static str {
        match (contestant, self) {
            (Contestant::Ports(kind), _) => kind,
            (Contestant::Kernel, Self::Forward) => "linux-bridge",
            (Contestant::Kernel, Self::Nat) => "linux-nftables",
        }
    }
}

/// Measures, and returns the rows of the document; what cannot be measured here is said and left out.
///
/// # Errors
/// [`Error::Analysis`]: there are no namespaces for this process.
pub(super) fn measure(arguments: &BenchArguments) -> Result<Vec<Value>, Error> {
    let mut rows = Vec::new();
    for job in Job::ALL.into_iter().filter(|job| is_wanted(*job, &arguments.nfs)) {
        let mut peer_mpps = None;
        for contestant in Contestant::ALL {
            let port = job.port(contestant);
            tell(&format!("bench: {} over {port}", job.nf()));
            match one(job, contestant) {
                Ok(mut row) => {
                    if contestant == Contestant::Kernel {
                        peer_mpps = row["mpps"].as_f64();
                    }
                    row["ratio_to_peer"] = ratio(row["mpps"].as_f64(), peer_mpps);
                    rows.push(row);
                }
                Err(why) => tell(&format!("bench: {} over {port} is left out: {why}", job.nf())),
            }
        }
    }
    #[cfg(feature = "dpdk")]
    if is_wanted(Job::Forward, &arguments.nfs) {
        tell("bench: nop over dpdk-null, and testpmd");
        match null::measure() {
            Ok(more) => rows.extend(more),
            Err(why) => tell(&format!("bench: nop over dpdk-null is left out: {why}")),
        }
    }
    match rows.is_empty() {
        true => Err(Error::Analysis("nothing could be measured, for the reasons above".to_owned())),
        false => Ok(rows),
    }
}

fn is_wanted(job: Job, nfs: &[String]) -> bool {
    nfs.is_empty() || nfs.iter().any(|nf| nf == job.nf())
}

fn ratio(mpps: Option<f64>, peer: Option<f64>) -> Value {
    match (mpps, peer) {
        (Some(mpps), Some(peer)) if peer > 0.0 => json!(rounded(mpps / peer)),
        _ => Value::Null,
    }
}

/// One contestant's row.
fn one(job: Job, contestant: Contestant) -> Result<Value, String> {
    let bed = Bed::lay()?;
    let _running = begin(&bed, job, contestant)?;
    let mut ends = Ends::open(&bed.ends())?;
    let mut tester = ends.tester(bed.destination(job == Job::Nat), FLOWS)?;
    // Flows are opened, and neighbours learned.
    tester.trial(20e3, Duration::from_millis(300));
    let found = highest(|pps, last| {
        let trial = tester.trial(pps, if last { LAST_TRIAL } else { TRIAL });
        Trial { sent: trial.sent, received: trial.received }
    })?;
    let mut row = json!({
        "nf": job.nf(),
        "port": job.port(contestant),
        "workers": 1,
        "flows": FLOWS,
        "mpps": rounded(found.pps / 1e6),
        "loss": found.loss,
        "trials": found.trials,
    });
    for load in LOADS {
        let trial = tester.trial(found.pps * load, LAST_TRIAL);
        let part = format!("latency_ns_at_{}", (load * 100.0) as u32);
        row[part] = json!({ "p50": trial.percentile(0.5), "p99": trial.percentile(0.99) });
    }
    Ok(row)
}

/// A contestant that ends when this goes.
struct Running {
    child: Arc<Mutex<Option<Child>>>,
    _leaving: Leaving,
}

impl Running {
    /// None yet, or that of the kernel.
    fn new() -> Self {
        let child = Arc::<Mutex<Option<Child>>>::default();
        let there = Arc::clone(&child);
        let end = move || {
            if let Some(child) = &mut *lock(&there) {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        };
        Self { child, _leaving: Leaving::new(end) }
    }

    fn has_ended(&self) -> bool {
        lock(&self.child).as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }
}

fn lock(child: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin(bed: &Bed, job: Job, contestant: Contestant) -> Result<Running, String> {
    let kind = match (contestant, job) {
        (Contestant::Kernel, Job::Forward) => return bed.bridge().map(|()| Running::new()),
        (Contestant::Kernel, Job::Nat) => return bed.translate().map(|()| Running::new()),
        (Contestant::Ports(kind), _) => kind,
    };
    let socket = bed.socket();
    let mut words = vec!["run".to_owned(), job.nf().to_owned()];
    if job == Job::Nat {
        words.extend(["--set".to_owned(), "public=['203.0.113.1']".to_owned()]);
    }
    for (port, interface) in [("lan", "p0"), ("wan", "p1")] {
        words.extend(["--port".to_owned(), format!("{port}={kind}:{interface}")]);
    }
    words.extend(["--listen".to_owned(), socket.display().to_string()]);
    let running = Running::new();
    undisturbed(|| bed.spawn(&words).map(|child| *lock(&running.child) = Some(child)))?;
    let started = Instant::now();
    while !socket.exists() {
        if running.has_ended() || started.elapsed() > PATIENCE {
            return Err("it did not begin: try the same with `run`".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // Its ports are opened after its socket.
    std::thread::sleep(Duration::from_millis(300));
    Ok(running)
}

/// The rows as a table.
pub(super) fn render(rows: &[Value]) -> String {
    let headings = [
        "nf",
        "port",
        ">Mpps",
        ">loss",
        ">to peer",
        ">p50 at 50 %",
        ">p99",
        ">p50 at 90 %",
        ">p99",
    ];
    let mut table = Table::new(&headings);
    for row in rows {
        let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let latency = |load: &str, part: &str| {
            let ns = row[format!("latency_ns_at_{load}")][part].as_u64();
            ns.map_or(String::new(), nanoseconds)
        };
        let mpps = row["mpps"].as_f64().map_or(String::new(), rate);
        let loss = row["loss"].as_f64().map_or(String::new(), percent);
        let peer = row["ratio_to_peer"].as_f64();
        table.row([
            word("nf"),
            word("port"),
            mpps,
            loss,
            peer.map_or(String::new(), |ratio| format!("{ratio:.2}")),
            latency("50", "p50"),
            latency("50", "p99"),
            latency("90", "p50"),
            latency("90", "p99"),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shown_with_their_ratio() {
        let rows = [json!({
            "nf": "nat", "port": "xdp", "mpps": 0.25, "loss": 0.0, "ratio_to_peer": ratio(Some(0.25), Some(0.2)),
            "latency_ns_at_50": { "p50": 20_000, "p99": 90_000 },
        })];
        let text = render(&rows);
        assert!(text.contains("nat") && text.contains("1.25") && text.contains("0.250"), "{text}");
        assert_eq!(ratio(Some(1.0), None), Value::Null);
        assert_eq!(ratio(Some(1.0), Some(0.0)), Value::Null);
    }

    #[test]
    fn jobs_are_chosen_by_their_functions() {
        let wanted = |nfs: &[&str]| {
            let nfs: Vec<String> = nfs.iter().map(|&nf| nf.to_owned()).collect();
            Job::ALL.map(|job| is_wanted(job, &nfs))
        };
        assert_eq!(wanted(&[]), [true, true]);
        assert_eq!(wanted(&["nat"]), [false, true]);
        assert_eq!(wanted(&["bridge"]), [false, false]);
    }
}
