//! Generated traffic: valid, repeatable, and as it was asked for.

#![allow(clippy::unwrap_used)]

use anabranch_io::Trace;
use anabranch_io::sink::Sinks;
use anabranch_io::source::{self, Input, Source};
use anabranch_io::traffic::{Protocol, Traffic, TrafficSource, TrafficSpec};
use anabranch_packet::{Frame, Meta, Packet, Port, checksum, parse};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Many ways to ask for traffic.
const SPECS: [&str; 8] = [
    "flows=100,packets=5000",
    "flows=500,packets=5000,size=imix,ipv6=0.5",
    "flows=50,packets=5000,size=60-1514,tcp=0.5,reply=0.9",
    "flows=1000,packets=5000,zipf=1.1,udp",
    "flows=1000,packets=5000,mice=0.9,churn=10000,rst=0.3",
    "flows=10,packets=5000,tcp,churn=50000,ipv6=1,handshake=false",
    "flows=20,packets=3000,size=9216,reply=0",
    "flows=1,packets=100,hosts=1,servers=1,macs=2,port=53",
];

/// What a test looks at in a packet.
struct Seen {
    from_inside: bool,
    src: SocketAddr,
    dst: SocketAddr,
    /// Flags, sequence number, acknowledgement number, bytes of payload; TCP only.
    tcp: Option<(u8, u32, u32, u32)>,
}

impl Seen {
    /// Inside and outside end.
    fn flow(&self) -> (SocketAddr, SocketAddr) {
        if self.from_inside { (self.src, self.dst) } else { (self.dst, self.src) }
    }
}

fn generate(text: &str) -> Trace {
    Traffic::new(&text.parse().unwrap()).unwrap().into_trace()
}

/// Parses a packet and recomputes all its checksums.
fn look(trace: &Trace, index: usize) -> Seen {
    let record = trace.records()[index];
    let mut bytes = trace.bytes(index).to_vec();
    let len = bytes.len();
    let layout = parse(&bytes, record.wire_len);
    let meta = Meta { port: record.port, wire_len: record.wire_len, ..Meta::default() };
    let mut frame = Frame::new(&mut bytes, 0, len, 0, meta);
    let packet: Packet<'_> = Packet::new(&mut frame, layout);
    let report = checksum::verify(&packet);
    assert!(report.is_ok(), "{report:?}");
    let (src, dst) = match (packet.ipv4(), packet.ipv6()) {
        (Some(ip), _) => (ip.src().into(), ip.dst().into()),
        (_, Some(ip)) => (ip.src().into(), ip.dst().into()),
        _ => panic!("neither IPv4 nor IPv6"),
    };
    let tcp = packet.tcp().map(|tcp| {
        let payload = packet.payload().len() as u32;
        (tcp.flags(), tcp.sequence(), tcp.acknowledgement(), payload)
    });
    Seen {
        from_inside: record.port == Port::new(0),
        src: SocketAddr::new(src, packet.src_port().unwrap()),
        dst: SocketAddr::new(dst, packet.dst_port().unwrap()),
        tcp,
    }
}

fn look_at_all(trace: &Trace) -> Vec<Seen> {
    (0..trace.len()).map(|index| look(trace, index)).collect()
}

#[test]
fn every_packet_is_valid_and_as_long_as_asked_for() {
    for text in SPECS {
        let spec: TrafficSpec = text.parse().unwrap();
        let trace = generate(text);
        assert_eq!(trace.len() as u64, spec.packets());
        look_at_all(&trace);
        assert!(trace.records().iter().all(|r| r.wire_len == r.captured_len && r.wire_len >= 60));
    }
    assert!(generate(SPECS[0]).records().iter().all(|record| (60..=64).contains(&record.wire_len)));
    assert!(generate("udp,size=64").records().iter().all(|record| record.wire_len == 64));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    for text in SPECS {
        let (a, b) = (generate(text), generate(text));
        assert_eq!(a.records(), b.records());
        assert!((0..a.len()).all(|index| a.bytes(index) == b.bytes(index)));
        let other = generate(&format!("{text},seed=2"));
        assert!(text.contains("flows=1,") || (0..a.len()).any(|i| a.bytes(i) != other.bytes(i)));
    }
}

#[test]
fn flows_begin_inside_and_stay_within_the_count() {
    for text in SPECS {
        let spec: TrafficSpec = text.parse().unwrap();
        let mut traffic = Traffic::new(&spec).unwrap();
        let mut trace = Trace::new();
        traffic.generate(&mut trace, usize::MAX);
        let mut flows = HashSet::new();
        for seen in look_at_all(&trace) {
            assert!(flows.contains(&seen.flow()) || seen.from_inside, "{text}");
            flows.insert(seen.flow());
        }
        assert_eq!(flows.len() as u64, traffic.distinct_flows(), "{text}");
        assert!(spec.churn > 0.0 || flows.len() as u64 <= u64::from(spec.flows));
    }
}

/// Follows both sides of a connection.
#[derive(Default)]
struct Connection {
    /// Next sequence number of inside and outside, once known.
    next: [Option<u32>; 2],
    packets: usize,
    /// Flags seen at the end: FIN from inside, FIN from outside, RST.
    ended: [bool; 3],
}

impl Connection {
    fn follow(&mut self, seen: &Seen) {
        let Some((flags, sequence, acknowledgement, payload)) = seen.tcp else { return };
        let (own, other) = if seen.from_inside { (0, 1) } else { (1, 0) };
        let (fin, syn, rst, ack) = (flags & 1, flags >> 1 & 1, flags >> 2 & 1, flags >> 4 & 1);
        match self.packets {
            0 => assert_eq!((flags, seen.from_inside), (0x02, true), "begins with SYN"),
            1 => assert_eq!((flags, seen.from_inside), (0x12, false), "then SYN-ACK"),
            2 => assert_eq!((flags, seen.from_inside), (0x10, true), "then ACK"),
            _ => assert_eq!((syn, ack), (0, 1)),
        }
        assert!(self.next[own].is_none_or(|next| next == sequence), "in sequence");
        if ack == 1 {
            assert_eq!(self.next[other], Some(acknowledgement), "acknowledges all");
        }
        assert!(!self.ended[own] || flags == 0x10, "nothing but ACK after FIN");
        assert!(!self.ended[2], "nothing after RST");
        self.next[own] = Some(sequence.wrapping_add(payload + u32::from(syn | fin)));
        self.ended[own] |= fin == 1;
        self.ended[2] |= rst == 1;
        self.packets += 1;
    }
}

#[test]
fn tcp_has_handshakes_sequence_numbers_and_teardowns() {
    let trace = generate("flows=200,packets=40000,tcp,size=60-1514,churn=10000,rst=0.25,ipv6=0.3");
    let mut connections: HashMap<_, Connection> = HashMap::new();
    for seen in look_at_all(&trace) {
        connections.entry(seen.flow()).or_default().follow(&seen);
    }
    let all = || connections.values();
    let fins = all().filter(|connection| connection.ended[0] && connection.ended[1]).count();
    let resets = all().filter(|connection| connection.ended[2]).count();
    let replaced = fins + resets;
    assert!((390..=400).contains(&replaced), "{replaced} at 10,000 a second for 40 ms");
    assert!((70..130).contains(&resets), "{resets} of {replaced}");
}

#[test]
fn shares_and_rates_are_kept() {
    let trace = generate("flows=100,packets=40000,udp,reply=0.3,rate=2000000,size=imix");
    let outside = trace.records().iter().filter(|record| record.port == Port::new(1)).count();
    assert!((11_500..12_500).contains(&outside), "{outside}");
    let records = trace.records();
    assert_eq!(records[20_000].arrival_ns - records[0].arrival_ns, 10_000_000);
    let mean = trace.wire_bytes() as f64 / trace.len() as f64;
    let imix = (7.0 * 64.0 + 4.0 * 590.0 + 1_514.0) / 12.0;
    assert!((mean / imix - 1.0).abs() < 0.03, "{mean} {imix}");
    let quiet = generate("flows=100,reply=0,churn=10000,tcp,packets=20000");
    assert!(quiet.records().iter().all(|record| record.port == Port::new(0)));
}

#[test]
fn flows_can_be_listed_and_are_those_that_send() {
    let traffic = Traffic::new(&"flows=50,packets=5000,ipv6=0.5".parse().unwrap()).unwrap();
    let listed: HashSet<_> = traffic.flows().map(|flow| (flow.inside, flow.outside)).collect();
    assert_eq!(listed.len(), 50);
    assert!(traffic.flows().any(|flow| flow.protocol == Protocol::Udp));
    let sent: HashSet<_> = look_at_all(&traffic.into_trace()).iter().map(Seen::flow).collect();
    assert_eq!(sent, listed);
}

#[test]
fn four_packets_a_flow_reach_most_flows() {
    let mut traffic = Traffic::new(&"flows=65536,udp".parse().unwrap()).unwrap();
    let mut trace = Trace::new();
    traffic.generate(&mut trace, usize::MAX);
    assert_eq!(trace.len(), 4 * 65_536);
    assert!(traffic.distinct_flows() > 64_000, "{}", traffic.distinct_flows());
}

#[test]
fn as_a_source_it_is_the_same_traffic() {
    let text = "gen:flows=1000,packets=200000,zipf=1";
    let mut source = source::open(&[Input { port: None, spec: text.parse().unwrap() }]).unwrap();
    let whole = generate(&text[4..]);
    let mut number = 0;
    while let Some(chunk) = source.next_chunk().unwrap() {
        assert!(chunk.len() <= source::CHUNK_PACKETS);
        for index in 0..chunk.len() {
            assert_eq!(chunk.meta(index).unwrap().number, number as u64);
            assert_eq!(chunk.bytes(index), whole.bytes(number));
            number += 1;
        }
    }
    assert_eq!((number, source.progress().fraction()), (200_000, Some(1.0)));
    let port = Some(Port::new(1));
    let mut only = source::open(&[Input { port, spec: text.parse().unwrap() }]).unwrap();
    let chunk = only.next_chunk().unwrap().unwrap();
    assert!(chunk.records().iter().all(|record| record.port == Port::new(1)));
}

/// Wireshark's view of a capture: the frames it finds fault with.
fn faults(capture: &Path) -> Option<String> {
    let checks = ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"];
    let options = checks.iter().flat_map(|check| ["-o".to_owned(), format!("{check}:TRUE")]);
    let filter = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 \
                  || udp.checksum.status == 0 || tcp.analysis.lost_segment \
                  || tcp.analysis.out_of_order || tcp.analysis.retransmission";
    let output =
        Command::new("tshark").arg("-r").arg(capture).args(options).args(["-Y", filter]).output();
    match output {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            eprintln!("skipped: tshark is not installed");
            None
        }
    }
}

#[test]
fn wireshark_finds_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    for (n, text) in SPECS.iter().enumerate().filter(|(_, text)| !text.contains("port=53")) {
        let file =
            folder.path().join(format!("{n}.{}", if n % 2 == 0 { "pcap" } else { "pcapng" }));
        let sink = format!("pcap:{}", file.display()).parse().unwrap();
        let mut sinks = Sinks::open(&[(None, sink)]).unwrap();
        let mut source = TrafficSource::new(&text.parse().unwrap(), None).unwrap();
        while let Some(chunk) = source.next_chunk().unwrap() {
            sinks.write_chunk(&chunk).unwrap();
        }
        let written = [0, 1].map(|port| sinks.count(Port::new(port)).packets);
        assert_eq!(written[0] + written[1], source.traffic().packets());
        sinks.finish().unwrap();
        let Some(faults) = faults(&file) else { return };
        let expected = text.contains("reply=0") && !text.contains("reply=0.");
        assert!(faults.is_empty() || expected, "{text}\n{faults}");
    }
}
