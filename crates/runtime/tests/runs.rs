//! Whole runs: one and many workers write the same captures, events fall where they should, and
//! every packet is accounted for.
#![allow(missing_docs)]

use std::path::Path;

use anabranch_io::source::Input;
use anabranch_io::spec::{SinkSpec, SourceSpec};
use anabranch_nf::NetworkFunction;
use anabranch_nf::prelude::*;
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
    }
    impl Numbered {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            self.seen.set(self.seen.get() + 1);
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
        commands: commands.iter().map(|(at, text)| (*at, (*text).to_owned())).collect(),
    }
}

fn run_into<N: NetworkFunction>(workers: usize, out: &Path, commands: &[(u64, &str)]) -> RunReport {
    let report = run::<N>(&options(workers, out, commands), &mut |_, _| {}).unwrap();
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
        assert_eq!(report.strategy, "sharded");
        assert_eq!(report.drops, alone.drops);
        assert!(report.workers.iter().all(|worker| worker.packets > 0), "{:?}", report.workers);
        assert!(std::fs::read(&one).unwrap() == std::fs::read(&many).unwrap());
    }
}

#[test]
fn shared_state_is_served_under_one_lock() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let report = run_into::<numbered::Function>(3, &out, &[]);
    assert_eq!((report.strategy.as_str(), report.packets_emitted), ("serial", 1));
    assert!(report.strategy_why.contains("`seen`"), "{}", report.strategy_why);
    assert_eq!(report.packets_out, 40_001);
}

#[test]
fn commands_fall_between_packets() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let report = run_into::<numbered::Function>(1, &out, &[(1_000, "reset"), (2_000, "reset")]);
    assert_eq!(report.packets_emitted, 3);
}

#[test]
fn an_unknown_command_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let refused = run::<numbered::Function>(&options(1, &out, &[(0, "rest")]), &mut |_, _| {});
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("command `rest` does not exist; commands: reset"), "{message}");
    assert!(!out.exists());
}
