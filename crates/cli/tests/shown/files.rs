//! Whole runs over capture files.

use std::path::{Path, PathBuf};

use anabranch_io::capture::{CaptureReader, CaptureWriter, Record};
use anabranch_io::source::Input;
use anabranch_io::spec::{SinkSpec, SourceSpec};
use anabranch_nf::NetworkFunction;
use anabranch_packet::Port;
use anabranch_plan::{Options as Planning, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{Options, RunError, run};
use toml::Table;

use crate::sides::Arrival;
use crate::traces::Captured;

/// The names of a run's ports: the function's own, or four, as a harness has them.
pub fn ports<N: NetworkFunction>() -> Vec<String> {
    match N::PORTS {
        [] => (0..4).map(|port| format!("p{port}")).collect(),
        own => own.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// Writes packets to a capture.
pub fn write<'a>(file: &Path, packets: impl IntoIterator<Item = &'a Captured>) {
    let mut writer = CaptureWriter::create(file).unwrap();
    for packet in packets {
        let Captured { at_ns: timestamp_ns, wire_len, ref bytes } = *packet;
        writer.write(&Record { timestamp_ns, wire_len, bytes }).unwrap();
    }
    writer.finish().unwrap();
}

/// Reads the packets of a capture.
pub fn read(file: &Path) -> Vec<Captured> {
    let mut reader = CaptureReader::open(file).unwrap();
    let mut packets = Vec::new();
    while let Some(Record { timestamp_ns: at_ns, wire_len, bytes }) = reader.next_record().unwrap()
    {
        packets.push(Captured { at_ns, wire_len, bytes: bytes.to_vec() });
    }
    packets
}

/// Writes what arrives at each of the first two ports to a capture in `folder`.
pub fn write_arrivals(folder: &Path, arrivals: &[Arrival]) -> Vec<(u8, PathBuf)> {
    let of_port = |port: u8| {
        let file = folder.join(format!("in{port}.pcap"));
        let mine = arrivals.iter().filter(|arrival| arrival.port == port);
        write(&file, mine.map(|arrival| &arrival.packet));
        (port, file)
    };
    vec![of_port(0), of_port(1)]
}

/// Runs `N` over captures, with one capture in `folder` for what leaves each port.
pub fn run_captures<N: NetworkFunction>(
    settings: &Table,
    inputs: &[(u8, PathBuf)],
    folder: &Path,
    workers: usize,
) -> (RunReport, Vec<PathBuf>) {
    try_run::<N>(settings, inputs, folder, workers).unwrap()
}

/// The plan of `N` for the default NIC model.
fn planned<N: NetworkFunction>() -> Plan {
    plan_of::<N>(&Planning::new(Nic::named("e810").unwrap())).unwrap()
}

/// As [`run_captures`], where the run may be refused.
pub fn try_run<N: NetworkFunction>(
    settings: &Table,
    inputs: &[(u8, PathBuf)],
    folder: &Path,
    workers: usize,
) -> Result<(RunReport, Vec<PathBuf>), RunError> {
    let ports = ports::<N>();
    let input = |&(port, ref file): &(u8, PathBuf)| Input {
        port: Some(Port::new(port)),
        spec: SourceSpec::Capture(file.clone()),
    };
    let outputs: Vec<PathBuf> =
        (0..ports.len()).map(|port| folder.join(format!("out{port}.pcap"))).collect();
    let sink = |(port, file): (usize, &PathBuf)| {
        (Some(Port::new(port as u8)), SinkSpec::Capture(file.clone()))
    };
    let options = Options {
        making: Making { seed: 1, settings: settings.clone(), ports, ..Making::default() },
        inputs: inputs.iter().map(input).collect(),
        outputs: outputs.iter().enumerate().map(sink).collect(),
        workers,
        // Whatever several workers are shown to do, they do while shards move.
        balancing: Balancing::Restless(500),
        plan: (workers > 1).then(planned::<N>).ok_or("one worker needs no plan".to_owned()),
        commands: Vec::new(),
        store: None,
    };
    Ok((run::<N>(&options, &mut |_, _| {})?, outputs))
}
