//! Workers that hand packets over, under schedules that a model checker draws: the code of a run
//! itself, its threads and channels replaced (`make model`).
//!
//! Whatever the schedule, a run ends, every packet is accounted for, and what is handed over finds
//! the state that earlier packets made.
#![cfg(shuttle)]
#![allow(missing_docs, clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use anabranch_io::capture::{CaptureReader, CaptureWriter, Record};
use anabranch_io::source::Input;
use anabranch_io::spec::SinkSpec;
use anabranch_nfs::nat;
use anabranch_packet::Port;
use anabranch_packet::craft::{Link, udp};
use anabranch_plan::{Options as Planning, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{Options, run};

/// Inside hosts; each sends to the outside, and half of them then call the other half.
const HOSTS: usize = 16;
const ROUNDS: usize = 3;

fn inside(host: usize) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, host as u8), 4_000 + host as u16).into()
}

fn datagram(src: SocketAddr, dst: SocketAddr) -> Vec<u8> {
    let mut bytes = [0; 60];
    let len = udp(&mut bytes, &Link::default(), src, dst, b"to whom it may").unwrap();
    bytes[..len].to_vec()
}

/// What every host sends to the outside.
fn outbound() -> Vec<Vec<u8>> {
    let server = (Ipv4Addr::new(198, 18, 0, 1), 53).into();
    (0..HOSTS).map(|host| datagram(inside(host), server)).collect()
}

fn write(file: &Path, packets: &[Vec<u8>]) {
    let mut writer = CaptureWriter::create(file).unwrap();
    for (at, bytes) in packets.iter().enumerate() {
        let timestamp_ns = 1_767_225_600_000_000_000 + at as u64 * 1_000;
        writer.write(&Record { timestamp_ns, wire_len: bytes.len() as u32, bytes }).unwrap();
    }
    writer.finish().unwrap();
}

/// The public endpoints in a capture of translated packets.
fn publics(file: &Path) -> Vec<SocketAddr> {
    let mut reader = CaptureReader::open(file).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let address: [u8; 4] = record.bytes[26..30].try_into().unwrap();
        let port = u16::from_be_bytes([record.bytes[34], record.bytes[35]]);
        found.push((Ipv4Addr::from(address), port).into());
    }
    found
}

/// On three workers, in one go or while shards move.
fn translate(
    input: &Path,
    folder: &Path,
    plan: &Plan,
    rounds: usize,
    balancing: Balancing,
) -> RunReport {
    let spec = format!("mem:{}?loop={rounds}", input.display()).parse().unwrap();
    let settings = "public = ['203.0.113.1']\nsessions = 64\nhosts = 64\npeers = 64";
    let options = Options {
        making: Making {
            seed: 1,
            settings: settings.parse().unwrap(),
            ports: vec!["lan".to_owned(), "wan".to_owned()],
            ..Making::default()
        },
        inputs: vec![Input { port: Some(Port::new(0)), spec }],
        outputs: vec![(Some(Port::new(1)), SinkSpec::Capture(folder.join("wan.pcap")))],
        workers: 3,
        plan: Ok(plan.clone()),
        balancing,
        commands: Vec::new(),
        store: None,
    };
    run::<nat::Function>(&options, &mut |_, _| {}).unwrap()
}

#[test]
fn calls_between_workers_arrive_under_any_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let plan =
        Arc::new(plan_of::<nat::Function>(&Planning::new(Nic::named("e810").unwrap())).unwrap());
    let (first, calls) = (folder.path().join("first.pcap"), folder.path().join("calls.pcap"));
    write(&first, &outbound());
    let path = Arc::new((folder.path().to_owned(), first, calls.clone()));

    let known = Arc::new(Mutex::new(Vec::new()));
    let (ends, files, made) = (Arc::clone(&known), Arc::clone(&path), Arc::clone(&plan));
    shuttle::check_random(
        move || {
            translate(&files.1, &files.0, &made, 1, Balancing::Still);
            *ends.lock().unwrap() = publics(&files.0.join("wan.pcap"));
        },
        1,
    );
    let ends = std::mem::take(&mut *known.lock().unwrap());
    assert_eq!(ends.len(), HOSTS);
    let mut packets = outbound();
    packets.extend((0..HOSTS / 2).map(|host| datagram(inside(host), ends[HOSTS - 1 - host])));
    write(&calls, &packets);

    let check = move |balancing: Balancing| {
        let report = translate(&path.2, &path.0, &plan, ROUNDS, balancing);
        assert_eq!(report.strategy, "shared-nothing", "{}", report.strategy_why);
        assert_eq!(report.packets_read as usize, ROUNDS * (HOSTS + HOSTS / 2));
        assert!(report.drops.is_empty(), "{:?}", report.drops);
        assert_eq!(report.ports[0].packets_out as usize, ROUNDS * HOSTS / 2);
        assert_eq!(report.ports[1].packets_out as usize, ROUNDS * HOSTS);
        report
    };
    let still = check.clone();
    let still = move || drop(still(Balancing::Still));
    shuttle::check_random(still.clone(), 300);
    shuttle::check_pct(still, 300, 3);
    // Shards change hands again and again, calls and the mappings they need among them.
    let moving = move || {
        let balance = check(Balancing::Restless(2)).balance.unwrap();
        assert!(balance.steps > 5 && balance.entries_moved > 5, "{balance:?}");
    };
    shuttle::check_random(moving.clone(), 300);
    shuttle::check_pct(moving, 300, 3);
}
