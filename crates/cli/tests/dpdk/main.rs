//! Runs over DPDK's virtual devices: captures in and out, and real hosts in network namespaces. Compiled with the
//! feature `dpdk` (`make dpdk`); skipped, with the reason printed, where the machine forbids it.
#![cfg(all(feature = "dpdk", feature = "library"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod captures;
mod hosts;
mod lab;

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program in a directory.
fn anabranch(directory: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(line.split_whitespace()).current_dir(directory).output().unwrap()
}

/// As it says on standard error.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether DPDK starts here; if not, why is printed.
fn has_dpdk() -> bool {
    let line = "run nop --port lan=dpdk:net_null0 --port wan=dpdk:net_null1 --for 0.01";
    let output = anabranch(&std::env::temp_dir(), line);
    let why = said(&output);
    assert!(output.status.success() || why.contains("DPDK does not start"), "{why}");
    if !output.status.success() {
        println!("skipped: {why}");
    }
    output.status.success()
}

#[test]
fn what_dpdk_says_stands_in_the_error_and_nowhere_else() {
    if !has_dpdk() {
        return;
    }
    for (ports, part) in [
        (
            "lan=dpdk:net_null0 --port wan=dpdk:net_nosuch0",
            "failed to parse device \"net_nosuch0\"",
        ),
        (
            "lan=dpdk:net_null0 --port wan=dpdk:net_pcap0,rx_pcap=none.pcap,tx_pcap=x.pcap",
            "give `rx_pcap` and `tx_pcap` 2",
        ),
        ("lan=dpdk:net_null0 --port wan=dpdk:0000:ff:1f.6", "dpdk-devbind.py --status"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let capture = "traffic packets=10 --out none.pcap";
        assert!(anabranch(directory.path(), capture).status.success());
        let output = anabranch(directory.path(), &format!("run nop --workers 2 --port {ports}"));
        let why = said(&output);
        assert_eq!(output.status.code(), Some(4), "{why}");
        assert!(why.contains(part) && output.stdout.is_empty(), "{why}");
    }
}

#[test]
fn the_doctor_knows_the_version() {
    let output = anabranch(&std::env::temp_dir(), "doctor");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
    assert!(text.contains("DPDK 2"), "{text}");
}
