//! The capture's time stamps are the clock: runs repeat, flows expire by it, and it never runs
//! backwards though stamps may.

use anabranch_nfs::{firewall, nat};
use anabranch_runtime::testing::START_NS;
use toml::Table;

use crate::files::{read, run_captures, write_arrivals};
use crate::generated::{MIXED, traffic};
use crate::models::packets::udp;
use crate::scenarios::settings;
use crate::sides::Arrival;
use crate::traces::Captured;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64, port: u8, bytes: Vec<u8>) -> Arrival {
    let at_ns = START_NS + seconds * SECOND;
    Arrival { port, packet: Captured { at_ns, wire_len: bytes.len() as u32, bytes } }
}

/// What the firewall lets in of these packets, as seconds after the start.
fn passed(arrivals: &[Arrival], settings: &Table, workers: usize) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let inputs = write_arrivals(folder.path(), arrivals);
    let (report, outputs) =
        run_captures::<firewall::Function>(settings, &inputs, folder.path(), workers);
    assert!(report.complete);
    read(&outputs[0]).iter().map(|packet| (packet.at_ns - START_NS) / SECOND).collect()
}

#[test]
fn runs_repeat() {
    let arrivals = traffic(MIXED);
    let folder = tempfile::tempdir().unwrap();
    let inputs = write_arrivals(folder.path(), &arrivals);
    let public = settings("public = ['203.0.113.1', '203.0.113.2']");
    let run = || {
        let (report, outputs) = run_captures::<nat::Function>(&public, &inputs, folder.path(), 1);
        let written: Vec<Vec<u8>> =
            outputs.iter().map(|file| std::fs::read(file).unwrap()).collect();
        (report.drops, report.tables, written)
    };
    let first = run();
    assert!(first.2[1].len() > 1_000_000);
    assert!(first == run(), "two runs differ");
}

#[test]
fn hours_between_packets_expire_flows() {
    let (there, back) = ("10.0.0.1:5", "198.51.100.1:53");
    let arrivals = [
        at(0, 0, udp(there, back)),
        at(1, 1, udp(back, there)),
        at(290, 1, udp(back, there)),
        at(589, 1, udp(back, there)),
        at(589 + 7_200, 1, udp(back, there)),
        at(589 + 7_201, 0, udp(there, back)),
        at(589 + 7_202, 1, udp(back, there)),
    ];
    for workers in [1, 2] {
        assert_eq!(passed(&arrivals, &Table::new(), workers), [1, 290, 589, 7_791]);
    }
}

#[test]
fn stamps_that_run_backwards_do_not_bring_flows_back() {
    // The flow has expired at 400 s, whichever worker has noticed, and stays so at a stamp of 100 s.
    let (there, back) = ("10.0.0.1:5", "198.51.100.1:53");
    let mut arrivals = vec![at(0, 0, udp(there, back)), at(1, 1, udp(back, there))];
    for other in 0..40 {
        arrivals.push(at(400, 1, udp("198.51.100.9:9", &format!("10.0.1.{other}:9"))));
    }
    arrivals.push(at(100, 1, udp(back, there)));
    for workers in [1, 2, 4] {
        assert_eq!(passed(&arrivals, &Table::new(), workers), [1]);
    }
    // What is let in keeps its own stamp.
    arrivals.truncate(2);
    arrivals.push(at(200, 1, udp(back, there)));
    arrivals.push(at(100, 1, udp(back, there)));
    for workers in [1, 2] {
        assert_eq!(passed(&arrivals, &Table::new(), workers), [1, 200, 100]);
    }
}
