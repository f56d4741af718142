//! Runs over DPDK's virtual devices: captures in and out, and real hosts in network namespaces. Compiled with the
//! feature `dpdk` (`make dpdk`); skipped, with the reason printed, where the machine forbids it.
#![cfg(all(feature = "dpdk", feature = "library"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod captures;
mod hosts;
mod lab;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time for what is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

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
fn a_device_that_does_not_find_its_other_end_is_told_of() {
    if !has_dpdk() {
        return;
    }
    // It listens there, and nobody comes.
    let lan = format!("dpdk:net_memif0,role=server,socket=/anabranch/{}", std::process::id());
    let line = format!("run nop --port lan={lan} --port wan=dpdk:net_null0 --for 0.1");
    let output = anabranch(&std::env::temp_dir(), &line);
    let why = said(&output);
    assert!(
        why.contains(
            "its link is down as yet: if it stays so, nobody is at the other end of its socket"
        ),
        "{why}"
    );
    assert_eq!(why.matches("link is down").count(), 1, "{why}");
}

/// Its driver waits for another end, and asks nobody whether to go on.
#[test]
fn a_run_whose_device_waits_for_another_end_is_ended_by_a_signal() {
    if !has_dpdk() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (device, socket) = (directory.path().join("device"), directory.path().join("run.sock"));
    let port = format!("lan=dpdk:net_virtio_user0,path={},server=1", device.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["run", "nop", "--port", &port, "--port", "wan=dpdk:net_null0", "--listen"]);
    let mut run = command.arg(&socket).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !device.exists() {
        assert!(started.elapsed() < PATIENCE && run.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = run.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let signalled = Instant::now();
    while run.try_wait().unwrap().is_none() && signalled.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Nothing happens where it has ended.
    let _ = run.kill();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("before its ports were open") && !socket.exists());
}

#[test]
fn the_doctor_knows_the_version() {
    let output = anabranch(&std::env::temp_dir(), "doctor");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
    assert!(text.contains("DPDK 2"), "{text}");
}
