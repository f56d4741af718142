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

/// The signal comes as soon as the socket is there, before the run has begun.
#[test]
fn a_socket_goes_with_a_run_that_is_ended_at_once() {
    let bench = Bench::new();
    let program = env!("CARGO_BIN_EXE_anabranch");
    for turn in 0..5 {
        let name = format!("{}t{turn}", std::process::id());
        let script = format!(
            "{program} run nop --port lan=tap:a{name} --port wan=tap:b{name} --listen s.sock & \
             while [ ! -S s.sock ] && kill -0 $!; do :; done; kill -TERM $!; wait $!"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(bench.path("")).stdout(Stdio::null());
        let done = crate::Done::of(command.output().unwrap(), &script);
        assert!(bench.files().is_empty(), "turn {turn}: {:?}\n{}", bench.files(), done.err);
        // Where no interface may be made it has ended by itself.
        assert!([Some(0), Some(4)].contains(&done.code), "{:?}\n{}", done.code, done.err);
    }
}
