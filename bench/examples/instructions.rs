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
/// So many that setting up, which takes some instructions more or fewer each time, makes no
/// difference of one; after the first of them transactions have found what nobody changes any more.
const PACKETS: [usize; 2] = [131_072, 655_360];
/// Heading, and the contestant's name.
const CONTESTANTS: [(&str, [&str; 3]); 15] = [
    ("pass off", ["sequential", "off", "supplied"]),
    ("one", ["sequential", "one", "supplied"]),
    ("two", ["sequential", "two", "supplied"]),
    ("hashing", ["sequential", "auto", "computed"]),
    ("mixed", ["mixed", "off", "supplied"]),
    ("transact.", ["transactional", "off", "supplied"]),
    ("in turns", ["transactional", "off", "turns"]),
    ("singly", ["transactional", "off", "singly"]),
    ("watched", ["transactional", "off", "watched"]),
    ("lock", ["lock", "off", "supplied"]),
    ("mutex", ["mutex", "off", "supplied"]),
    ("by hand", ["handwritten", "on", "none"]),
    ("bare", ["handwritten-bare", "on", "none"]),
    ("look-up", ["lookup-only", "on", "none"]),
    ("header", ["header-only", "off", "none"]),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", nf, strategy, prefetch, hash, packets] => {
            let packets = packets.parse().unwrap_or(0);
            let named = [strategy, prefetch, hash];
            anabranch_bench::work(nf, FLOWS, named, packets).map_err(|error| error.to_string())
        }
        [] => count_all(&anabranch_bench::names()),
        ref nfs => count_all(nfs),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("instructions: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a table of `nfs`; contestants that a function does not have are left empty.
fn count_all(nfs: &[&str]) -> Result<(), String> {
    let headings = CONTESTANTS.map(|(heading, _)| format!("{heading:>10}"));
    print(&format!("{:13}{}", "", headings.concat()))?;
    for nf in nfs {
        let figures = CONTESTANTS.map(|(_, named)| per_packet(nf, named));
        if figures.iter().all(Option::is_none) {
            return Err(format!("{nf}: valgrind is not installed, or there is no such function"));
        }
        let cell =
            |figure: Option<f64>| figure.map_or(String::new(), |count| format!("{count:.0}"));
        let cells = figures.map(|figure| format!("{:>10}", cell(figure)));
        print(&format!("{nf:13}{}", cells.concat()))?;
    }
    Ok(())
}

fn print(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{}", line.trim_end()).map_err(|error| error.to_string())
}

fn per_packet(nf: &str, named: [&str; 3]) -> Option<f64> {
    let [few, many] = PACKETS.map(|packets| collected(nf, named, packets));
    Some((many?.checked_sub(few?)?) as f64 / (PACKETS[1] - PACKETS[0]) as f64)
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
