//! Portscan: `nmap` finds less than there is, and who finds what it looks for goes on.

use std::fs;

use crate::lab::{Kind, Lab, assert_adds_up, log, wait_for};
use crate::site::{self, SERVER};

const PORTS: [&str; 2] = ["lan", "wan"];
/// What answers nothing.
const FILTER: &str = "table inet filter {
    chain input {
        type filter hook input priority 0
        tcp dport 2000-2999 drop
    }
}";

/// Ports that `nmap` at `host` tells of, as open, closed and filtered.
fn scan(lab: &Lab, host: &str, how: &str) -> [usize; 3] {
    // Asked once, and patiently: that the machine is busy is no filter. ARP is the kernel's, which asks again.
    let once =
        "--send-ip --max-retries 0 --min-rate 200 --min-rtt-timeout 3s --initial-rtt-timeout 3s";
    let line = format!("nmap -n -Pn {how} {once} {SERVER}");
    let said = lab.run(host, &line).expect();
    let lines = || said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    ["open", "closed", "filtered"].map(|state| {
        let listed = lines().filter(|words| words.len() > 2 && words[1] == state).count();
        // "Not shown: 99 closed tcp ports (reset), 1 filtered tcp port (no-response)"
        let rest = lines().filter(|words| words.starts_with(&["Not", "shown:"]));
        let counted = rest.flat_map(|words| {
            let pairs = words.windows(2).filter(|pair| pair[1] == state);
            pairs.map(|pair| pair[0].parse::<usize>().unwrap()).collect::<Vec<_>>()
        });
        listed + counted.sum::<usize>()
    })
}

/// Has `host` fetch a small file from so many addresses, which all answer.
fn fetches(lab: &Lab, host: &str, addresses: &str) {
    let line = format!("curl -sS -f --max-time 20 -o got-#1 'http://10.0.1.{addresses}/small'");
    lab.run(host, &line).expect();
}

/// Whether `host` gets a new connection.
fn connects(lab: &Lab, host: &str) -> bool {
    !lab.run(host, &format!("curl -sS -f --max-time 0.5 -o got http://{SERVER}/small")).fails()
}

fn scanners(kind: Kind) {
    let hosts = ["half-open", "connecting", "reader"];
    let Some(lab) = site::open(kind, &hosts, &[]) else { return };
    let (large, _) = (lab.file("large", 500_000), lab.file("small", 300));
    fs::write(lab.path("filter"), FILTER).unwrap();
    lab.run("server", "nft -f filter").expect();
    let tells = site::start(&lab, "portscan", "--set action=report", PORTS);
    let _server = lab.web("server", 80);
    assert_eq!(scan(&lab, "half-open", "-sS -p 1-100"), [1, 99, 0], "what there is");
    let report = tells.finish();
    assert_eq!(log(&report), ["10.0.0.2 scans"]);
    assert_adds_up(&report);

    let blocks = site::start_again(&lab, "portscan", "--set answer_s=1", PORTS);
    // What a scanner has already is left to it.
    let mut fetching =
        lab.serve("half-open", &format!("curl -s -o slow http://{SERVER}/slowly/large"));
    wait_for("some of the file", || {
        fs::metadata(lab.path("slow")).is_ok_and(|file| file.len() > 0)
    });
    let [_, closed, filtered] = scan(&lab, "half-open", "-sS -p 1-100");
    assert!(closed >= 4 && filtered >= 50, "{closed} {filtered}");
    assert_eq!(scan(&lab, "connecting", "-sT -p 2001-2030"), [0, 0, 30]);
    wait_for("silence to be a failure", || {
        connects(&lab, "connecting");
        blocks.report().log.len() == 2
    });
    assert!(!connects(&lab, "connecting"));
    fetches(&lab, "reader", "[1-30]");
    for refused in 1..=3 {
        assert!(lab.run("reader", &format!("curl -sS http://{SERVER}:{refused}")).fails());
    }
    fetches(&lab, "reader", "[31-60]");
    assert!(fetching.wait().success());
    assert!(fs::read(lab.path("slow")).unwrap() == large, "the file has arrived");
    let report = blocks.finish();
    assert_eq!(log(&report), ["10.0.0.2 scans", "10.0.0.3 scans"]);
    assert!(report.drops["scanner"] >= filtered as u64, "{:?}", report.drops);
    assert_adds_up(&report);
}

#[test]
fn a_scanner_is_stopped_over_packet_sockets() {
    scanners(Kind::AfPacket);
}

#[test]
fn a_scanner_is_stopped_over_xdp() {
    scanners(Kind::Xdp);
}
