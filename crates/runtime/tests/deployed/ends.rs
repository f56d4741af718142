//! The end of a run from a capture: what is due by the time of the last packet is done, whichever worker has that
//! packet, and nothing beyond.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anabranch_io::capture::{CaptureReader, CaptureWriter, Record};
use anabranch_io::source::Input;
use anabranch_io::spec::SinkSpec;
use anabranch_nf::NetworkFunction;
use anabranch_nf::packet::MacAddr;
use anabranch_nf::packet::craft::{Link, udp};
use anabranch_nf::prelude::*;
use anabranch_plan::{Options as Planning, Strategy};
use anabranch_rss::Nic;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{Options, run};

/// Says something at every occasion but a packet, and forgets a sender when told to.
#[network_function(ports(inside, outside))]
pub mod diary {
    pub enum Command {
        /// Begins with one anew.
        Forget { address: Ipv4Addr },
    }
    #[packet_set(ipv4(ipv4.src, ipv4.dst), capacity = 10_000, expires_s = 1)]
    pub struct Pair {
        packets: u64,
    }
    pub struct Diary {
        #[capacity(10_000)]
        sent: Map<Ipv4Addr, u32>,
        reminders: Counter,
        pairs_over: Counter,
        periods: Counter,
    }
    impl Diary {
        fn packet(&mut self, pair: &mut Pair, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(OUTSIDE) };
            pair.packets += 1;
            let sent = self.sent.get(&ip.src()).unwrap_or(0);
            self.sent.insert(ip.src(), sent + 1);
            if ip.src() == Ipv4Addr::new(10, 0, 9, 9) {
                cx.set_timer(0, 1);
            } else {
                cx.set_timer(1_000_000, 0);
            }
            Forward(OUTSIDE)
        }
        fn packet_set_expired(&mut self, pair: &Pair, cx: &mut Context) {
            self.pairs_over.add(pair.packets);
            cx.emit(OUTSIDE, b"a pair is over..");
        }
        fn timer(&mut self, token: u64, cx: &mut Context) {
            self.reminders.add(1);
            cx.emit(OUTSIDE, b"a reminder......");
        }
        #[every_ms(1500)]
        fn periodic(&mut self, cx: &mut Context) {
            self.periods.add(1);
        }
        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
            let Command::Forget { address } = command;
            match self.sent.remove(&address) {
                Some(_) => Ok(()),
                None => Err("it has sent nothing"),
            }
        }
        fn shutdown(&mut self, cx: &mut Context) {
            cx.emit(OUTSIDE, b"the end.........");
        }
    }
}

/// Numbers the packets of all senders: shared state.
#[network_function(ports(inside, outside))]
pub mod clerk {
    pub enum Command {
        /// Starts again from this number.
        Set { to: u64 },
    }
    pub struct Clerk {
        seen: Cell<u64>,
        told: Counter,
        periods: Counter,
    }
    impl Clerk {
        fn packet(&mut self, pkt: &mut Packet, _cx: &mut Context) -> Verdict {
            self.seen.set(self.seen.get() + 1);
            Forward(pkt.port().other())
        }
        #[every_ms(1500)]
        fn periodic(&mut self, cx: &mut Context) {
            self.periods.add(1);
        }
        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
            let Command::Set { to } = command;
            self.told.add(1);
            self.seen.set(to);
            Ok(())
        }
    }
}

const START_NS: u64 = 1_700_000_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const SENDERS: u8 = 10;
const PACKETS: usize = 31;

/// What the last packet is.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// One of a sender of its own.
    Whole,
    /// One that no function of layer 3 is shown.
    Malformed,
}

/// Three packets of each of ten senders within 30 µs, and two seconds later one more.
fn capture(folder: &Path, last: Last) -> String {
    let path = folder.join("in.pcap");
    let mut writer = CaptureWriter::create(&path).unwrap();
    let mut write = |after_ns: u64, bytes: &[u8]| {
        let (timestamp_ns, wire_len) = (START_NS + after_ns, bytes.len() as u32);
        writer.write(&Record { timestamp_ns, wire_len, bytes }).unwrap();
    };
    for at in 0..3 * SENDERS {
        write(u64::from(at) * 1_000, &packet([10, 0, 0, at % SENDERS]));
    }
    match last {
        Last::Whole => write(2 * SECOND_NS, &packet([10, 0, 9, 9])),
        Last::Malformed => write(2 * SECOND_NS, &[0; 10]),
    }
    writer.finish().unwrap();
    path.display().to_string()
}

fn packet(from: [u8; 4]) -> Vec<u8> {
    let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
    let link = Link { src: mac(1), dst: mac(2), tags: [None; 2] };
    let socket = |address: [u8; 4]| SocketAddr::new(Ipv4Addr::from(address).into(), 53);
    let mut bytes = vec![0; 200];
    let len = udp(&mut bytes, &link, socket(from), socket([192, 0, 2, 1]), b"anabranch").unwrap();
    bytes.truncate(len);
    bytes
}

/// Runs `N` on that capture, by its plan.
fn run_on<N: NetworkFunction>(
    folder: &Path,
    last: Last,
    (workers, strategy): (usize, Option<Strategy>),
    commands: &[(u64, &str)],
) -> RunReport {
    let ports = vec!["inside".to_owned(), "outside".to_owned()];
    let planning = Planning::new(Nic::named("e810").unwrap());
    let input = Input { port: Some(Port::new(0)), spec: capture(folder, last).parse().unwrap() };
    let options = Options {
        making: Making { seed: 3, ports, ..Making::default() },
        inputs: vec![input],
        outputs: vec![(None, SinkSpec::Capture(folder.join("out.pcap")))],
        workers,
        plan: Ok(plan_of::<N>(&Planning { strategy, ..planning }).unwrap()),
        balancing: Balancing::Still,
        commands: commands.iter().map(|(at, text)| (*at, (*text).to_owned())).collect(),
        store: None,
    };
    let report = run::<N>(&options, &mut |_, _| {}).unwrap();
    assert_eq!(report.packets_read, PACKETS as u64);
    report
}

/// When each packet of the output left, and what it says if the function made it.
fn written(folder: &Path) -> Vec<(u64, String)> {
    let mut reader = CaptureReader::open(folder.join("out.pcap")).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let said = if record.bytes.len() == 16 { record.bytes } else { b"" };
        let said = String::from_utf8_lossy(said).trim_end_matches('.').to_owned();
        all.push((record.timestamp_ns - START_NS, said));
    }
    all
}

fn warnings_and_errors(report: &RunReport) -> Vec<&str> {
    let errors = report.errors.iter().map(|error| error.message.as_str());
    report.warnings.iter().map(String::as_str).chain(errors).collect()
}

#[test]
fn what_is_due_by_the_last_packet_is_done_by_workers_that_do_not_have_it() {
    let folder = tempfile::tempdir().unwrap();
    for workers in [1, 2, 4] {
        let report = run_on::<diary::Function>(folder.path(), Last::Whole, (workers, None), &[]);
        assert_eq!(report.strategy == "shared-nothing", workers > 1, "{}", report.strategy);
        let of_all = ["reminders", "pairs_over", "periods"].map(|name| report.counters[name]);
        // The timer of the last packet itself would go off before the next one. Periods are each worker's.
        assert_eq!(of_all, [30, 30, workers as u64], "{workers} workers");
        assert_eq!(report.packets_emitted, 40 + workers as u64);
        let used = report.tables.iter().map(|table| (table.name.as_str(), table.used));
        let used: Vec<_> = used.collect();
        assert!(used.contains(&("sent", 11)) && used.contains(&("Pair (IPv4)", 1)), "{used:?}");
        let mut left = written(folder.path());
        assert!(left.is_sorted_by_key(|(at_ns, _)| *at_ns), "{left:?}");
        let ends = left.split_off(left.len() - workers);
        assert!(ends.iter().all(|(_, said)| said == "the end"), "shutdown comes last: {ends:?}");
        left.sort();
        let said = |what: &'static str| (2 * SECOND_NS, what.to_owned());
        let mut expected: Vec<_> = (0..30).map(|at| (at * 1_000, String::new())).collect();
        expected.push(said(""));
        expected.extend((0..10).map(|_| said("a pair is over")));
        expected.extend((0..30).map(|_| said("a reminder")));
        assert_eq!(left, expected, "{workers} workers");
    }
}

#[test]
fn a_command_reaches_the_owner_though_it_has_no_later_packet() {
    let folder = tempfile::tempdir().unwrap();
    let run_with = |workers, command: &str, at_ns| {
        let commands = [(at_ns, command)];
        run_on::<diary::Function>(folder.path(), Last::Whole, (workers, None), &commands)
    };
    for workers in [1, 2, 4] {
        let done = run_with(workers, "forget address=10.0.0.3", SECOND_NS);
        assert_eq!(warnings_and_errors(&done), [""; 0], "{workers} workers");
        let sent = done.tables.iter().find(|table| table.name == "sent").unwrap();
        assert_eq!(sent.used, 10);
        let refused = run_with(workers, "forget address=10.0.7.7", SECOND_NS);
        assert_eq!(
            warnings_and_errors(&refused),
            ["`diary` refused the command `forget address=10.0.7.7`: it has sent nothing"],
            "{workers} workers"
        );
        let on_time = run_with(workers, "forget address=10.0.0.3", 2 * SECOND_NS);
        assert_eq!(warnings_and_errors(&on_time), [""; 0], "{workers} workers");
        let late = run_with(workers, "forget address=10.0.0.3", 2 * SECOND_NS + 1);
        assert_eq!(
            warnings_and_errors(&late),
            ["1 command was not carried out: its time is after the last packet"],
            "{workers} workers"
        );
    }
}

/// Also the one that no function is shown brings its time along, however state is kept.
#[test]
fn a_last_packet_that_is_malformed_has_come_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let shared = [(2, None), (4, None), (2, Some(Strategy::Lock)), (4, Some(Strategy::Lock))];
    for (workers, strategy) in std::iter::once((1, None)).chain(shared) {
        let how = (workers, strategy);
        let commands = [(SECOND_NS, "set to=7")];
        let report = run_on::<clerk::Function>(folder.path(), Last::Malformed, how, &commands);
        let said = format!("{workers} workers, {}", report.strategy);
        assert_eq!(warnings_and_errors(&report), [""; 0], "{said}");
        let counted = ["told", "periods"].map(|name| report.counters[name]);
        assert_eq!((counted, report.packets_out), ([1, 1], 30), "{said}");
    }
    for workers in [1, 2, 4] {
        let commands = [(SECOND_NS, "forget address=10.0.0.3")];
        let how = (workers, None);
        let report = run_on::<diary::Function>(folder.path(), Last::Malformed, how, &commands);
        assert_eq!(warnings_and_errors(&report), [""; 0], "{workers} workers");
        let of_all = ["reminders", "pairs_over", "periods"].map(|name| report.counters[name]);
        assert_eq!(of_all, [30, 30, workers as u64], "{workers} workers");
    }
}
