//! Whole runs: one and many workers write the same captures, events fall where they should, and
//! every packet is accounted for.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anabranch_io::capture::{CaptureWriter, Record};
use anabranch_io::source::Input;
use anabranch_io::spec::{SinkSpec, SourceSpec};
use anabranch_io::traffic::{Traffic, TrafficSpec};
use anabranch_nf::packet::Mode;
use anabranch_nf::prelude::*;
use anabranch_nf::settings::{NoCommand, NoSettings};
use anabranch_nf::world::Solo;
use anabranch_nf::{BuildError, Builder, NetworkFunction, Source, Word};
use anabranch_plan::{Options as Planning, Plan, Strategy};
use anabranch_rss::Nic;
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::instance::Making;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{Options, run};

/// Lets every connection send a number of packets; `control` changes the number.
#[network_function(ports(inside, outside))]
pub mod quota {
    pub struct Settings {
        /// Packets a connection may send.
        #[setting(default = 10, min = 1)]
        pub packets: u64,
    }
    pub enum Reason {
        /// The connection has sent all it may.
        OverQuota,
    }
    #[packet_set(tcp(ip.src, ip.dst, tcp.src, tcp.dst), udp(ip.src, ip.dst, udp.src, udp.dst), bidirectional, capacity = 100_000, expires_s = 30)]
    pub struct Connection {
        sent: u64,
        word: u64,
    }
    pub struct Quota {
        settings: Settings,
    }
    impl Quota {
        fn packet(
            &mut self,
            connection: &mut Connection,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Verdict {
            connection.sent += 1;
            if connection.sent > self.settings.packets {
                return Drop(Reason::OverQuota);
            }
            if connection.sent == 1 {
                connection.word = cx.random();
            }
            if let Some(mut ip) = pkt.ipv4_mut() {
                ip.set_ttl((connection.word % 64) as u8 + 1);
            }
            Forward(pkt.port().other())
        }
        fn orphan(&mut self, pkt: &mut Packet, _cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }
}

/// Numbers the packets of all connections: shared state.
#[network_function(ports(inside, outside))]
pub mod numbered {
    pub enum Command {
        /// Starts again from zero.
        Reset,
    }
    pub struct Numbered {
        seen: Cell<u64>,
        all: Counter,
    }
    impl Numbered {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            self.seen.set(self.seen.get() + 1);
            self.all.add(1);
            if self.seen.get() == 1 {
                cx.emit(pkt.port(), b"0123456789abcdef");
            }
            Forward(pkt.port().other())
        }
        fn control(&mut self, command: Command, _cx: &mut Context) -> Result<(), &'static str> {
            match command {
                Command::Reset => self.seen.set(0),
            }
            Ok(())
        }
        fn shutdown(&mut self, cx: &mut Context) {
            log!(cx, info, "{} packets", self.all.read());
        }
    }
}

/// Counts packets by where they come from; a command forgets one of these.
#[network_function(ports(inside, outside))]
pub mod senders {
    pub enum Command {
        /// Begins with one anew.
        Forget { address: Ipv4Addr },
    }
    pub enum Reason {
        Many,
    }
    pub struct Senders {
        #[capacity(100_000)]
        sent: Map<Ipv4Addr, u32>,
    }
    impl Senders {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(OUTSIDE) };
            let sent = self.sent.get(&ip.src()).unwrap_or(0);
            self.sent.insert(ip.src(), sent + 1);
            if sent < 20 { Forward(OUTSIDE) } else { Drop(Reason::Many) }
        }
        fn control(&mut self, command: Command, _cx: &mut Context) -> Result<(), &'static str> {
            match command {
                Command::Forget { address } => match self.sent.remove(&address) {
                    Some(_) => Ok(()),
                    None => Err("it has sent nothing"),
                },
            }
        }
    }
}

/// Sets a timer that sets itself for now.
#[network_function(ports(inside, outside))]
pub mod restless {
    pub struct Restless {
        begun: Cell<bool>,
        ticks: Counter,
    }
    impl Restless {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if !self.begun.get() {
                self.begun.set(true);
                cx.set_timer(0, 0);
            }
            Forward(pkt.port().other())
        }
        fn timer(&mut self, token: u64, cx: &mut Context) {
            self.ticks.add(1);
            cx.set_timer(0, token);
        }
    }
}

const TRAFFIC: &str = "gen:flows=3000,packets=40000,zipf=1.1,ipv6=0.2,seed=7";

fn options(workers: usize, out: &Path, commands: &[(u64, &str)]) -> Options {
    let making = Making {
        seed: 3,
        ports: vec!["inside".to_owned(), "outside".to_owned()],
        ..Making::default()
    };
    let spec: SourceSpec = TRAFFIC.parse().unwrap();
    Options {
        making,
        inputs: vec![Input { port: None, spec }],
        outputs: vec![(None, SinkSpec::Capture(out.to_owned()))],
        workers,
        plan: Err("none is asked for".to_owned()),
        balancing: Balancing::Still,
        commands: commands.iter().map(|(at, text)| (*at, (*text).to_owned())).collect(),
        store: None,
    }
}

fn planned<N: NetworkFunction>(strategy: Option<Strategy>) -> Plan {
    let options = Planning::new(Nic::named("e810").unwrap());
    plan_of::<N>(&Planning { strategy, ..options }).unwrap()
}

fn run_into<N: NetworkFunction>(workers: usize, out: &Path, commands: &[(u64, &str)]) -> RunReport {
    run_by::<N>(None, workers, out, commands)
}

fn run_by<N: NetworkFunction>(
    strategy: Option<Strategy>,
    workers: usize,
    out: &Path,
    commands: &[(u64, &str)],
) -> RunReport {
    let options = Options { plan: Ok(planned::<N>(strategy)), ..options(workers, out, commands) };
    let report = run::<N>(&options, &mut |_, _| {}).unwrap();
    assert_eq!(report.errors, []);
    assert_eq!(report.packets_read, 40_000);
    let left = report.packets_out - report.packets_emitted;
    assert_eq!(report.packets_read, left + report.packets_dropped);
    report
}

#[test]
fn one_and_many_workers_write_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one.pcap");
    let alone = run_into::<quota::Function>(1, &one, &[]);
    assert!(alone.drops["over-quota"] > 1_000, "{alone:?}");
    for workers in [2, 3, 5] {
        let many = folder.path().join("many.pcap");
        let report = run_into::<quota::Function>(workers, &many, &[]);
        assert_eq!(report.strategy, "shared-nothing");
        assert_eq!(report.drops, alone.drops);
        assert!(report.workers.iter().all(|worker| worker.packets > 0), "{:?}", report.workers);
        assert!(std::fs::read(&one).unwrap() == std::fs::read(&many).unwrap());
    }
}

#[test]
fn without_a_plan_all_state_is_shared_and_it_is_said_why_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(3, &folder.path().join("out.pcap"), &[]);
    let report = run::<numbered::Function>(&options, &mut |_, _| {}).unwrap();
    assert_eq!((report.strategy.as_str(), report.counters["all"]), ("transactional", 40_000));
    assert!(report.strategy_why.ends_with(": none is asked for"), "{}", report.strategy_why);
}

#[test]
fn state_that_cannot_be_divided_is_shared_in_transactions_or_behind_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    for (asked, strategy) in [(None, "transactional"), (Some(Strategy::Lock), "lock")] {
        let report = run_by::<numbered::Function>(asked, 3, &out, &[]);
        assert_eq!((report.strategy.as_str(), report.packets_emitted), (strategy, 1));
        if let Some(lock) = report.lock {
            assert_eq!((lock.readers, lock.upgraded), (0, 40_000), "each packet is numbered");
        }
        assert_eq!(
            (report.lock.is_some(), report.transactions.is_some()),
            (asked.is_some(), asked.is_none())
        );
        assert!(report.strategy_why.contains("`seen`"), "{}", report.strategy_why);
        assert_eq!(report.packets_out, 40_001);
        assert_eq!(report.counters["all"], 40_000);
        let said: Vec<_> = report.log.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(
            said,
            ["40000 packets"],
            "shutdown comes once, after the last packet of all workers"
        );
    }
}

#[test]
fn commands_fall_between_packets() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let report = run_into::<numbered::Function>(1, &out, &[(1_000, "reset"), (2_000, "reset")]);
    assert_eq!(report.packets_emitted, 3);
}

#[test]
fn a_timer_that_sets_itself_for_now_lets_packets_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let report = run_into::<restless::Function>(1, &out, &[]);
    let trace = Traffic::new(&TRAFFIC[4..].parse().unwrap()).unwrap().into_trace();
    let all = trace.records();
    let took_ns = all[all.len() - 1].arrival_ns - all[0].arrival_ns;
    assert_eq!(report.counters["ticks"], 1 + (took_ns - 1) / 100_000, "{took_ns} ns");
}

#[test]
fn a_command_after_the_last_packet_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let report = run_into::<numbered::Function>(1, &out, &[(u64::MAX, "reset")]);
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert!(report.warnings[0].starts_with("1 command was not carried out: its time"));
}

/// Of what is divided one worker has what the command is about, and the others refuse it.
#[test]
fn a_command_is_refused_where_all_refuse_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let trace = Traffic::new(&TRAFFIC[4..].parse().unwrap()).unwrap().into_trace();
    let source = |at: usize| match *trace.bytes(at) {
        [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, .., _] => Some(Ipv4Addr::from_bits(
            u32::from_be_bytes(trace.bytes(at)[26..30].try_into().unwrap()),
        )),
        _ => None,
    };
    let sender = (0..1_000).find_map(source).unwrap();
    let at_ns = trace.records()[20_000].arrival_ns - trace.records()[0].arrival_ns;
    let mut all = Vec::new();
    for (address, errors) in [(sender.to_string(), 0), ("9.9.9.9".to_owned(), 1)] {
        let command = format!("forget address={address}");
        let dropped = [1, 2, 3].map(|workers| {
            let options = options(workers, &out, &[(at_ns, &command)]);
            let plan = Ok(planned::<senders::Function>(None));
            let options = Options { plan, ..options };
            let report = run::<senders::Function>(&options, &mut |_, _| {}).unwrap();
            assert_eq!(report.strategy == "shared-nothing", workers > 1, "{}", report.strategy);
            let said: Vec<_> = report.errors.iter().map(|error| error.message.as_str()).collect();
            assert_eq!(
                said,
                ["`senders` refused the command `forget address=9.9.9.9`: it has sent nothing"]
                    [..errors],
                "{command}"
            );
            report.drops["many"]
        });
        assert!(dropped.iter().all(|one| *one == dropped[0]), "{dropped:?}");
        all.push(dropped[0]);
    }
    assert!(all[0] < all[1], "what is forgotten sends more: {all:?}");
}

#[test]
fn more_workers_than_shards_are_as_many_as_shards() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let report = run_into::<quota::Function>(600, &out, &[]);
    assert_eq!(report.workers.len(), 512);
    let busy = report.workers.iter().filter(|worker| worker.packets > 0).count();
    assert!(busy > 300, "{busy} workers had packets");
    assert!(report.warnings[0].starts_with("600 workers were asked for"), "{:?}", report.warnings);
}

/// Writes a capture of generated traffic.
fn capture(folder: &Path, name: &str, spec: &str) -> String {
    let spec: TrafficSpec = spec.parse().unwrap();
    let trace = Traffic::new(&spec).unwrap().into_trace();
    let path = folder.join(name);
    let mut writer = CaptureWriter::create(&path).unwrap();
    for (at, record) in trace.records().iter().enumerate() {
        let (timestamp_ns, wire_len) = (record.arrival_ns, record.wire_len);
        writer.write(&Record { timestamp_ns, wire_len, bytes: trace.bytes(at) }).unwrap();
    }
    writer.finish().unwrap();
    path.display().to_string()
}

#[test]
fn traces_that_loop_unlike_each_other_reach_the_right_workers() {
    let folder = tempfile::tempdir().unwrap();
    let inside = capture(folder.path(), "inside.pcap", "flows=900,packets=50000,seed=1");
    let outside = capture(folder.path(), "outside.pcap", "flows=700,packets=30000,seed=2");
    let run_on = |workers: usize| {
        let mut options = options(workers, &folder.path().join("out.pcap"), &[]);
        let input =
            |port, spec: String| Input { port: Some(Port::new(port)), spec: spec.parse().unwrap() };
        options.inputs = vec![
            input(0, format!("mem:{inside}?loop=2")),
            input(1, format!("mem:{outside}?loop=3")),
        ];
        options.plan = Ok(planned::<quota::Function>(None));
        run::<quota::Function>(&options, &mut |_, _| {}).unwrap()
    };
    let (one, three) = (run_on(1), run_on(3));
    assert_eq!(one.packets_read, 190_000);
    assert_eq!((three.packets_read, &three.drops), (190_000, &one.drops));
}

#[test]
fn a_run_without_packets_ends() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pcap");
    CaptureWriter::create(&empty).unwrap().finish().unwrap();
    for workers in [1, 3] {
        let out = folder.path().join("out.pcap");
        let mut options = options(workers, &out, &[]);
        let spec = SourceSpec::Capture(empty.clone());
        options.inputs = vec![Input { port: None, spec }];
        let report = run::<numbered::Function>(&options, &mut |_, _| {}).unwrap();
        assert_eq!((report.packets_read, report.complete), (0, true));
        assert_eq!(std::fs::metadata(out).unwrap().len(), 24, "a capture without packets");
    }
}

/// Packets that all instances of `Fragile` have handled.
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// Panics at one packet of all: no NF of the language can, but a fault in Anabranch itself might.
struct Fragile;

impl NetworkFunction for Fragile {
    const NAME: &'static str = "fragile";
    const DOCS: &'static str = "";
    const SOURCE: Source = Source { text: "", arguments: "", file: "", line: 1 };
    const PORTS: &'static [&'static str] = &["inside", "outside"];
    const LAYER: u8 = 2;
    const REASONS: &'static [Word] = &[];
    const SET: Option<&'static str> = None;
    const OBJECTS: bool = false;
    const PERIOD_MS: u64 = 0;
    type Settings = NoSettings;
    type Set = ();
    type Command = NoCommand;
    type Traced = Self;
    type Parallel = Self;
    type Profiled = Self;
    type Ahead<'a> = ();
    type Beyond<'a> = ();

    fn build(_: NoSettings, _: &mut Builder) -> Result<Self, BuildError> {
        Ok(Self)
    }

    fn packet<M: Mode>(
        &mut self,
        _: &mut (),
        _: &mut Packet<'_, M>,
        _: &mut Context<'_, Solo>,
    ) -> Verdict {
        assert!(HANDLED.fetch_add(1, Ordering::Relaxed) != 20_000, "fragile");
        Flood
    }

    fn ahead(&self) {}
    fn beyond(&self) {}
}

#[test]
fn a_panic_of_one_worker_ends_the_run() {
    // Of one chunk, and of so many that some are under way when it is noticed.
    for packets in [40_000, 400_000] {
        HANDLED.store(0, Ordering::Relaxed);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let folder = tempfile::tempdir().unwrap();
            let mut options = options(3, &folder.path().join("out.pcap"), &[]);
            options.inputs[0].spec =
                format!("gen:flows=3000,packets={packets},seed=7").parse().unwrap();
            let run = || run::<Fragile>(&options, &mut |_, _| {}).map(|report| report.packets_out);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let left = std::fs::read_dir(folder.path()).unwrap().count();
            tell.send((ended.is_err(), left)).unwrap();
        });
        let ended = told.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(ended, Ok((true, 0)), "the panic is passed on and no output is left behind");
    }
}

#[test]
fn an_unknown_command_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let refused = run::<numbered::Function>(&options(1, &out, &[(0, "rest")]), &mut |_, _| {});
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("command `rest` does not exist; did you mean `reset`?"), "{message}");
    assert!(!out.exists());
}
