//! Datagrams in fragments, through whole runs: what one worker does, many do, by every strategy, also
//! while shards move.

use std::path::Path;

use anabranch_io::capture::{CaptureReader, CaptureWriter, Record};
use anabranch_io::source::Input;
use anabranch_io::spec::SinkSpec;
use anabranch_io::traffic::{Traffic, TrafficSpec};
use anabranch_nf::NetworkFunction;
use anabranch_nf::packet::fragment::cut;
use anabranch_nf::packet::{Port, parse};
use anabranch_nfs::firewall;
use anabranch_plan::{Options as Planning, Strategy};
use anabranch_rss::Nic;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{Options, run};

const TRAFFIC: &str = "flows=800,packets=20000,zipf=1.1,size=64-1400,ipv6=0.1,seed=5";

/// What is on its way to a capture.
struct Sent {
    at_ns: u64,
    port: u8,
    bytes: Vec<u8>,
}

/// Generated packets, every third one of IPv4 in fragments, which come in any order and among others.
fn sent() -> Vec<Sent> {
    let spec: TrafficSpec = TRAFFIC.parse().unwrap();
    let trace = Traffic::new(&spec).unwrap().into_trace();
    let (mut all, mut scratch) = (Vec::new(), vec![0; 4_000]);
    for (at, record) in trace.records().iter().enumerate() {
        let (bytes, port) = (trace.bytes(at), record.port.index());
        let layout = parse(bytes, record.wire_len);
        let longest = 36 + at % 700;
        let mut pieces = Vec::new();
        if at % 3 == 0 && layout.has_ipv4() && bytes.len() > 14 + longest {
            let mut bytes = bytes.to_vec();
            bytes[18..20].copy_from_slice(&(at as u16).to_be_bytes());
            cut(&bytes, layout, longest, &mut scratch, |piece| pieces.push(piece.to_vec()))
                .unwrap();
            let first = at % 5 % pieces.len();
            pieces.rotate_left(first);
        } else {
            pieces.push(bytes.to_vec());
        }
        for (number, bytes) in (0..).zip(pieces) {
            // Some come after the next packets, and now and then one does not come.
            let at_ns = record.arrival_ns + number * 700;
            if (at, number) != (at / 900 * 900, 1) {
                all.push(Sent { at_ns, port, bytes });
            }
        }
    }
    all.sort_by_key(|sent| sent.at_ns);
    all
}

fn capture(folder: &Path, sent: &[Sent], port: u8) -> Input {
    let path = folder.join(format!("{port}.pcap"));
    let mut writer = CaptureWriter::create(&path).unwrap();
    for Sent { at_ns, bytes, .. } in sent.iter().filter(|one| one.port == port) {
        let wire_len = bytes.len() as u32;
        writer.write(&Record { timestamp_ns: *at_ns, wire_len, bytes }).unwrap();
    }
    writer.finish().unwrap();
    Input { port: Some(Port::new(port)), spec: path.display().to_string().parse().unwrap() }
}

/// Where the captures are.
struct Case {
    folder: tempfile::TempDir,
    inputs: Vec<Input>,
    packets: u64,
}

impl Case {
    fn new() -> Self {
        let (folder, sent) = (tempfile::tempdir().unwrap(), sent());
        let inputs = [0, 1].map(|port| capture(folder.path(), &sent, port)).to_vec();
        Self { folder, inputs, packets: sent.len() as u64 }
    }

    fn run<N: NetworkFunction>(
        &self,
        workers: usize,
        strategy: Option<Strategy>,
        balancing: Balancing,
    ) -> (RunReport, Vec<u8>) {
        let planning = Planning { strategy, ..Planning::new(Nic::named("e810").unwrap()) };
        let plan = match workers {
            1 => Err("one worker needs no plan".to_owned()),
            _ => Ok(plan_of::<N>(&planning).unwrap()),
        };
        let ports = N::PORTS.iter().map(|name| (*name).to_owned()).collect();
        let out = self.folder.path().join("out.pcap");
        let options = Options {
            making: Making { seed: 3, ports, ..Making::default() },
            inputs: self.inputs.clone(),
            outputs: vec![(None, SinkSpec::Capture(out.clone()))],
            workers,
            plan,
            balancing,
            commands: Vec::new(),
            store: None,
        };
        let report = run::<N>(&options, &mut |_, _| {}).unwrap();
        assert_eq!((report.errors.len(), report.packets_read), (0, self.packets));
        let left = report.packets_out - report.packets_emitted;
        assert_eq!(report.packets_read, left + report.packets_dropped, "{:?}", report.drops);
        (report, std::fs::read(&out).unwrap())
    }
}

#[test]
fn one_and_many_workers_put_the_same_datagrams_together() {
    let case = Case::new();
    let (alone, file) = case.run::<firewall::Function>(1, None, Balancing::Still);
    assert!(alone.drops["reassembled"] > 5_000, "{:?}", alone.drops);
    assert!(alone.drops["incomplete-datagram"] > 20, "{:?}", alone.drops);
    assert!(alone.drops["fragmented"] > 3_000, "{:?}", alone.drops);
    for (strategy, balancing) in [
        (Strategy::SharedNothing, Balancing::Still),
        (Strategy::SharedNothing, Balancing::Restless(200)),
        (Strategy::Lock, Balancing::Still),
        (Strategy::Transactional, Balancing::Still),
    ] {
        for workers in [2, 5] {
            let (report, many) = case.run::<firewall::Function>(workers, Some(strategy), balancing);
            assert_eq!((report.strategy.as_str(), &report.drops), (strategy.name(), &alone.drops));
            assert!(report.workers.iter().all(|worker| worker.packets > 0), "{:?}", report.workers);
            // Where state is shared, time may stand still for a moment: what leaves does not depend on it.
            assert!(file == many, "{} on {workers} workers", strategy.name());
        }
    }
}

#[test]
fn most_fragments_leave_as_they_came() {
    let case = Case::new();
    let (_, file) = case.run::<firewall::Function>(1, None, Balancing::Still);
    let mut reader = CaptureReader::from_stream(&file[..], "out").unwrap();
    let mut left = std::collections::BTreeSet::new();
    while let Some(record) = reader.next_record().unwrap() {
        left.insert(record.bytes.to_vec());
    }
    // Pieces are cut anew, as long as the longest that came: the very same, but for what came last and is shorter.
    let sent = sent();
    let parts: Vec<_> =
        sent.iter().filter(|one| parse(&one.bytes, u32::MAX).is_fragment()).collect();
    let same = parts.iter().filter(|one| left.contains(&one.bytes)).count();
    println!("{same} of {} fragments leave as they came", parts.len());
    assert!(same > parts.len() / 2, "{same} of {}", parts.len());
}
