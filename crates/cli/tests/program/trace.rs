//! `trace`: a packet's way is the same in words, in JSON, and in the report of a run.

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
    for part in ["inside.get(", "mappings.allocate", "forwarded to wan, bytes"] {
        assert!(first.contains(part), "{part}\n{first}");
    }
}
