//! A function that is run in parts, its state kept in between.

use std::path::Path;

use anabranch_io::capture::CaptureReader;
use anabranch_io::source::{Input, open};
use anabranch_io::spec::{SinkSpec, SourceSpec};
use anabranch_nf::NetworkFunction;
use anabranch_packet::Port;
use anabranch_plan::{Options as Planning, Plan, Strategy};
use anabranch_rss::Nic;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{Keeping, Options, run};
use anabranch_store::{Durability, Location, Settings};
use tempfile::TempDir;

/// A quarter of all shards, after so many packets a worker each time.
const RESTLESS: Balancing = Balancing::Restless(200);

/// A function with its settings, its traffic and its store.
pub(crate) struct Case {
    pub(crate) folder: TempDir,
    pub(crate) settings: &'static str,
    pub(crate) plan: Option<Plan>,
}

/// What was sent: through which port, when, and the bytes.
pub(crate) type Sent = Vec<(usize, u64, Vec<u8>)>;

/// The plan of `N`, by `strategy` if one is asked for.
pub(crate) fn planned<N: NetworkFunction>(strategy: Option<Strategy>) -> Plan {
    let options = Planning::new(Nic::named("e810").unwrap());
    plan_of::<N>(&Planning { strategy, ..options }).unwrap()
}

impl Case {
    pub(crate) fn of<N: NetworkFunction>(settings: &'static str) -> Self {
        let plan = Some(planned::<N>(None));
        Self { folder: tempfile::tempdir().unwrap(), settings, plan }
    }

    pub(crate) fn options<N: NetworkFunction>(
        &self,
        part: usize,
        workers: usize,
        stored: bool,
    ) -> Options {
        let ports: Vec<String> = N::PORTS.iter().map(|&name| name.to_owned()).collect();
        let file = |name: String| self.folder.path().join(name);
        let port = |number: usize| Some(Port::new(number as u8));
        let input = |number| Input {
            port: port(number),
            spec: SourceSpec::Capture(file(format!("in-{part}-{number}.pcap"))),
        };
        let output = |number| (port(number), SinkSpec::Capture(file(format!("out-{number}.pcap"))));
        Options {
            inputs: (0..ports.len()).map(input).collect(),
            outputs: (0..ports.len()).map(output).collect(),
            making: Making {
                seed: 3,
                settings: self.settings.parse().unwrap(),
                ports,
                ..Making::default()
            },
            workers,
            plan: self.plan.clone().ok_or("none is asked for".to_owned()),
            balancing: if stored { RESTLESS } else { Balancing::Still },
            commands: Vec::new(),
            store: stored.then(|| Keeping {
                location: self.location(),
                instance: "a".to_owned(),
                settings: Settings::default(),
                say: |_| {},
            }),
        }
    }

    pub(crate) fn location(&self) -> Location {
        Location::Durable(self.folder.path().join("state"), Durability::default().sync)
    }

    pub(crate) fn run<N: NetworkFunction>(
        &self,
        part: usize,
        workers: usize,
        stored: bool,
    ) -> (RunReport, Sent) {
        let options = self.options::<N>(part, workers, stored);
        let report = run::<N>(&options, &mut |_, _| {}).unwrap();
        assert_eq!((&report.errors[..], &report.warnings[..]), (&[][..], &[][..]));
        let read = |(number, (_, sink)): (usize, &(Option<Port>, SinkSpec))| {
            let SinkSpec::Capture(file) = sink else { panic!("no capture") };
            records(file).into_iter().map(move |(at_ns, bytes)| (number, at_ns, bytes))
        };
        let sent = options.outputs.iter().enumerate().flat_map(read).collect();
        (report, sent)
    }

    /// Writes the traffic of `spec` as the capture of each port, whole as part 0, and again in `parts`.
    pub(crate) fn write<N: NetworkFunction>(&self, spec: &str, parts: usize) {
        let spec: SourceSpec = spec.parse().unwrap();
        let mut source = open(&[Input { port: None, spec }]).unwrap();
        let mut all: Sent = Vec::new();
        while let Some(chunk) = source.next_chunk().unwrap() {
            for index in 0..chunk.len() {
                let (meta, bytes) = chunk.packet(index).unwrap();
                all.push((usize::from(meta.port.index()), meta.arrival_ns, bytes.to_vec()));
            }
        }
        self.write_packets::<N>(&all, parts);
    }

    /// The same of these packets.
    pub(crate) fn write_packets<N: NetworkFunction>(&self, all: &Sent, parts: usize) {
        let part = all.len().div_ceil(parts);
        let pieces = std::iter::once(&all[..]).chain(all.chunks(part));
        for (number, piece) in pieces.enumerate() {
            for port in 0..N::PORTS.len() {
                let of_port = piece.iter().filter(|packet| packet.0 == port);
                let file = self.folder.path().join(format!("in-{number}-{port}.pcap"));
                std::fs::write(file, capture(of_port)).unwrap();
            }
        }
    }
}

fn records(file: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut reader = CaptureReader::open(file).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push((record.timestamp_ns, record.bytes.to_vec()));
    }
    records
}

/// A capture with nanoseconds, of Ethernet.
pub(crate) fn capture<'p>(packets: impl Iterator<Item = &'p (usize, u64, Vec<u8>)>) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 1 << 18, 1]);
    for (_, at_ns, bytes) in packets {
        let (s, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        file.extend(words(&[s as u32, ns as u32, bytes.len() as u32, bytes.len() as u32]));
        file.extend(bytes);
    }
    file
}
