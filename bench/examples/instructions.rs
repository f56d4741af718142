//! Instructions per packet of every function and of the loops it is compared with, counted by
//! valgrind on any machine, and the same wherever they are counted.
//!
//! ```text
//! cargo run --release -p anabranch-bench --example instructions [NF…]
//! ```
//!
//! Each contestant runs twice under callgrind, the second time over more packets; the difference is
//! the packets' own.

use std::io::Write;
use std::process::{Command, ExitCode};

const FLOWS: usize = 1_000;
const PACKETS: [usize; 2] = [8_192, 40_960];
const CONTESTANTS: [[&str; 3]; 8] = [
    ["sequential", "off", "supplied"],
    ["sequential", "one", "supplied"],
    ["sequential", "two", "supplied"],
    ["sequential", "auto", "computed"],
    ["handwritten", "on", "none"],
    ["handwritten-bare", "on", "none"],
    ["lookup-only", "on", "none"],
    ["header-only", "off", "none"],
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", nf, strategy, prefetch, hash, packets] => {
            let packets = packets.parse().unwrap_or(0);
            let named = [strategy, prefetch, hash];
            anabranch_bench::work(nf, FLOWS, named, packets).map_err(|error| error.to_string())
        }
        [] => anabranch_bench::names().into_iter().try_for_each(count),
        ref nfs => nfs.iter().try_for_each(|nf| count(nf)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("instructions: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for each contestant of `nf`; those that it does not have are left out.
fn count(nf: &str) -> Result<(), String> {
    for named in CONTESTANTS {
        let counts = PACKETS.map(|packets| collected(nf, named, packets));
        if let [Some(few), Some(many)] = counts {
            let per_packet = (many - few) as f64 / (PACKETS[1] - PACKETS[0]) as f64;
            let [strategy, prefetch, hash] = named;
            let line = format!("{nf:14} {strategy:17} {prefetch:5} {hash:9} {per_packet:7.1}");
            writeln!(std::io::stdout(), "{line}").map_err(|error| error.to_string())?;
        } else if named[0] == "handwritten" {
            return Err(format!("{nf}: valgrind is not installed, or there is no such function"));
        }
    }
    Ok(())
}

/// Instructions of this program while the contestant handles `packets` packets.
fn collected(nf: &str, named: [&str; 3], packets: usize) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["work", nf])
        .args(named)
        .arg(packets.to_string())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, count) = text.lines().find(|line| line.contains("Collected :"))?.split_once(": ")?;
    count.trim().parse().ok()
}
