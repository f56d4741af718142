//! `trace`: a packet's way is the same in words, in JSON, and in the report of a run.

use anabranch_io::capture::{CaptureWriter, Record};
use anabranch_packet::craft::{Link, udp};
use anabranch_packet::fragment::cut;
use anabranch_packet::parse;
use serde_json::Value;

use crate::Bench;

/// Forty packets of five connections, as they come from the two sides.
const TRAFFIC: &str =
    "traffic flows=5,packets=40,reply=0.5,tcp=1 --out inside=in.pcap --out outside=out.pcap";

fn packets(document: &str) -> Vec<Value> {
    serde_json::from_str(document).unwrap()
}

#[test]
fn filters_choose_packets_and_all_are_handled() {
    let bench = Bench::new();
    bench.run(TRAFFIC).expect(0);
    // Who answers is inside: packets of either side are dropped, and some pass.
    let firewall = |command: &str, options: &str| {
        let inputs = "--set loose=true --in inside=out.pcap --in outside=in.pcap";
        bench.run(&format!("{command} firewall {inputs} {options}"))
    };
    let all = packets(&firewall("trace", "--count 1000 --json").expect(0).out);
    assert_eq!(all.len(), 40);
    let report: Value = serde_json::from_str(&firewall("run", "--json -").expect(0).out).unwrap();
    let drops = report["drops"].as_object().unwrap();
    assert!(drops.len() > 1, "{drops:?}");
    for (reason, count) in drops {
        let word = Value::from(format!("dropped: {reason}"));
        let told = all.iter().filter(|one| one["fate"].as_array().unwrap().contains(&word)).count();
        assert_eq!(count.as_u64(), Some(told as u64), "{reason}");
        let filtered = firewall("trace", &format!("--count 1000 --json reason={reason}"));
        assert_eq!(packets(&filtered.expect(0).out).len(), told);
    }
    let whole = std::fs::read(bench.path("out.pcap")).unwrap();
    std::fs::write(bench.path("cut.pcap"), &whole[..whole.len() - 9]).unwrap();
    let cut =
        bench.run("trace nop --in lan=cut.pcap --count 1000 --json").expect(4).says("cut.pcap");
    let told = packets(&cut.out).len();
    assert!(told > 5 && told < 40, "what came before the end is told, {told} packets");
    firewall("trace", "--packet 40").expect(2).says("there are 40 packets, numbered from 0");
    firewall("trace", "snap=9").expect(2).says("for `capture`");
    let entered = firewall("trace", "--count 1000 --json in").expect(0).out;
    assert_eq!(packets(&entered).len(), 40, "what is dropped has entered");
    let passed = packets(&firewall("trace", "--count 1000 --json out").expect(0).out).len() as u64;
    assert_eq!(passed + drops.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 40);
    firewall("trace", "port=dmz").expect(2);
    firewall("trace", "reason=no-rout").expect(2).says("did you mean `no-route`?");
    assert!(firewall("trace", "host=192.0.2.1").expect(0).out.contains("no packet meets"));
    // In words there is what the document has.
    let accesses = |one: &Value| -> Vec<String> {
        let handlers = one["handlers"].as_array().unwrap().iter();
        let all = handlers.flat_map(|handler| handler["accesses"].as_array().unwrap());
        all.map(|access| access.as_str().unwrap().to_owned()).collect()
    };
    let told: Vec<String> = all.iter().flat_map(accesses).collect();
    assert!(told.iter().any(|line| line.contains("state=new")), "{told:?}");
    let one = all.iter().find(|one| !accesses(one).is_empty()).unwrap();
    let number = &one["number"];
    let words = firewall("trace", &format!("--packet {number}")).expect(0).out;
    let head = format!("packet {number} at ");
    let mut parts = vec![head, "packet_set_opened  (path ".to_owned(), "  → ".to_owned()];
    parts.extend(accesses(one).iter().map(|access| format!("    {access}\n")));
    for part in parts {
        assert!(words.contains(&part), "{part}\n{words}");
    }
}

#[test]
fn each_packet_goes_a_way_that_paths_lists() {
    let bench = Bench::new();
    bench.run(TRAFFIC).expect(0);
    let line = "--in lan=in.pcap --in wan=out.pcap --count 1000 --json";
    let words = ["trace", "nat", "--set", "public=['203.0.113.1']"];
    let words: Vec<&str> = words.into_iter().chain(line.split_whitespace()).collect();
    let all = packets(&bench.run_words(&words).expect(0).out);
    let handlers: Vec<&Value> =
        all.iter().flat_map(|one| one["handlers"].as_array().unwrap()).collect();
    assert!(handlers.len() >= 40);
    assert!(
        handlers.iter().all(|one| one["path"].as_u64().is_some_and(|path| path > 0)),
        "{all:?}"
    );
    let first = all[0].to_string();
    for part in ["inside.get(address=10.", "mappings.allocate", "forwarded to wan, bytes"] {
        assert!(first.contains(part), "{part}\n{first}");
    }
}

/// A datagram of this identification, in fragments; one that fits is not cut.
fn fragments(id: u16, len: usize) -> Vec<Vec<u8>> {
    let mut bytes = vec![0; 4_000];
    let (from, to) = ("10.0.0.2:5000".parse().unwrap(), "192.0.2.9:6000".parse().unwrap());
    let written = udp(&mut bytes, &Link::default(), from, to, &vec![7; len]).unwrap();
    bytes.truncate(written);
    bytes[18..20].copy_from_slice(&id.to_be_bytes());
    bytes[20] = 0;
    let (mut pieces, mut scratch) = (Vec::new(), vec![0; 4_000]);
    let layout = parse(&bytes, written as u32);
    cut(&bytes, layout, 1_000, &mut scratch, |piece| pieces.push(piece.to_vec())).unwrap();
    pieces
}

/// Of a fragment it is told what became of its datagram, though that is known later only.
#[test]
fn fragments_are_told_of_as_a_run_counts_them() {
    let bench = Bench::new();
    let (never, whole, late) = (fragments(1, 2_500), fragments(2, 2_500), fragments(3, 1_500));
    assert_eq!((never.len(), whole.len(), late.len()), (3, 3, 2));
    let single = &fragments(4, 100)[0];
    let order = [
        (0, &never[0]),
        (1, &whole[2]),
        (2, single),
        (3, &whole[0]),
        (4, &whole[1]),
        (5, &late[0]),
        (6, single),
        (40, single),
        (41, &late[1]),
        (42, single),
        (43, &never[1]),
    ];
    let mut writer = CaptureWriter::create(bench.path("in.pcap")).unwrap();
    for (second, bytes) in order {
        let (timestamp_ns, wire_len) = ((1_000 + second) * 1_000_000_000, bytes.len() as u32);
        writer.write(&Record { timestamp_ns, wire_len, bytes }).unwrap();
    }
    writer.finish().unwrap();
    let firewall = |command: &str, options: &str| {
        bench.run(&format!("{command} firewall --in inside=in.pcap {options}"))
    };
    let numbers = |options: &str| -> Vec<u64> {
        let shown = packets(&firewall("trace", &format!("--json {options}")).expect(0).out);
        shown.iter().map(|one| one["number"].as_u64().unwrap()).collect()
    };
    let report = firewall("run", "--json -").expect(0).json();
    for (reason, expected) in [
        ("incomplete-datagram", &[0, 5, 8, 10][..]),
        ("reassembled", &[1, 3][..]),
        ("fragmented", &[4][..]),
    ] {
        assert_eq!(numbers(&format!("--count 99 reason={reason}")), expected, "{reason}");
        assert_eq!(report["drops"][reason], expected.len(), "{reason}");
    }
    assert_eq!(numbers("--count 99 out"), [2, 6, 7, 9]);
    assert_eq!(numbers("--count 99"), Vec::from_iter(0..11), "each once, in order");
    // The first are the first, though others are known before.
    assert_eq!(numbers("--count 3"), [0, 1, 2]);
    assert_eq!(numbers("--count 2 reason=incomplete-datagram"), [0, 5]);
    assert_eq!(numbers("--packet 10"), [10]);
    firewall("trace", "--packet 11").expect(2).says("there are 11 packets");
    firewall("trace", "--packet 0").expect(0).shows("→ dropped: incomplete-datagram");
    // What no trace can show is not waited for.
    for reason in ["transmit-full", "link-down", "mailbox-full", "oversized"] {
        firewall("trace", &format!("reason={reason}")).expect(2).says("only live ports drop so");
    }
}
