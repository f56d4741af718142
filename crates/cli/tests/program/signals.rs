//! What is left of a program that a signal ends: nothing outside of it.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Bench;

/// Until `is_true`, which has to be soon.
#[track_caller]
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How `child` ends that is sent a signal.
fn ended_by(signal: &str, mut child: Child) -> ExitStatus {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut status = None;
    wait_until("its end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// One is ended while it writes its traffic, the other while its store is at work.
#[test]
fn an_interrupted_bench_leaves_no_files() {
    for (signal, flows, part) in [("-TERM", "1000000", ".pcap.part"), ("-INT", "1000", "log")] {
        let bench = Bench::new();
        let words = ["bench", "firewall", "--stores=durable", "--flows", flows];
        let mut command = bench.command(&words);
        command.env("TMPDIR", bench.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let folder = format!("anabranch-bench-{}", child.id());
        let is_there = || match part {
            "log" => bench.path(&folder).read_dir().is_ok_and(|mut files| files.next().is_some()),
            part => bench.files().iter().any(|name| name.ends_with(part)),
        };
        wait_until(part, is_there);
        assert_eq!(ended_by(signal, child).code(), Some(130), "{part}");
        assert!(bench.files().is_empty(), "{part}: {:?}", bench.files());
    }
}

/// Where namespaces may be made, as root on a machine that is no container.
#[test]
fn an_interrupted_bench_leaves_no_links() {
    let ip = |line: &str| Command::new("ip").args(line.split(' ')).output();
    let probe = format!("abprobe{}", std::process::id());
    if !ip(&format!("netns add {probe}")).is_ok_and(|done| done.status.success()) {
        println!("skipped: no network namespaces may be made here (that takes CAP_SYS_ADMIN)");
        return;
    }
    ip(&format!("netns del {probe}")).unwrap();
    let shown = |line: &str| String::from_utf8(ip(line).unwrap().stdout).unwrap();
    for (signal, nf) in [("-INT", "nop"), ("-TERM", "nat")] {
        let bench = Bench::new();
        let mut command = bench.command(&["bench", nf, "--ports"]);
        command.env("TMPDIR", bench.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let name = format!("ab{}", child.id());
        wait_until("its links", || shown("-br link").contains(&format!("{name}b")));
        assert_eq!(ended_by(signal, child).code(), Some(130));
        for line in ["-br link", "netns list"] {
            assert!(!shown(line).contains(&name), "ip {line}: {}", shown(line));
        }
        assert!(bench.files().is_empty(), "{:?}", bench.files());
    }
}
