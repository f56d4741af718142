//! `trace`: a packet's way is the same in words, in JSON, and in the report of a run.

use serde_json::Value;

use crate::Bench;

#[test]
fn a_packets_way_is_told() {
    let bench = Bench::new();
    let spec = "flows=5,packets=40,reply=0.5,tcp=1";
    bench.run(&format!("traffic {spec} --out inside=in.pcap --out outside=out.pcap")).expect(0);
    let inputs = "--in lan=in.pcap --in wan=out.pcap";
    let nat = |command: &str, options: &str| {
        let mut words: Vec<&str> = vec![command, "nat", "--set", "public=['203.0.113.1']"];
        words.extend(inputs.split_whitespace().chain(options.split_whitespace()));
        bench.run_words(&words)
    };
    let all = nat("trace", "--count 1000 --json").expect(0).out;
    let all: Vec<Value> = serde_json::from_str(&all).unwrap();
    assert_eq!(all.len(), 40);
    let report: Value = serde_json::from_str(&nat("run", "--json -").expect(0).out).unwrap();
    for (reason, count) in report["drops"].as_object().unwrap() {
        let word = Value::from(format!("dropped: {reason}"));
        let told = all.iter().filter(|one| one["fate"].as_array().unwrap().contains(&word)).count();
        assert_eq!(count.as_u64(), Some(told as u64), "{reason}");
        let filtered = nat("trace", &format!("--count 1000 --json reason={reason}")).expect(0).out;
        let filtered: Vec<Value> = serde_json::from_str(&filtered).unwrap();
        assert_eq!(filtered.len(), told);
    }
    // Each packet has gone one way that `paths` lists.
    let handlers = all.iter().flat_map(|one| one["handlers"].as_array().unwrap());
    assert!(handlers.clone().count() >= 40);
    assert!(
        handlers.clone().all(|one| one["path"].as_u64().is_some_and(|path| path > 0)),
        "{all:?}"
    );
    let first = nat("trace", "--packet 0").expect(0).out;
    for part in ["packet 0 at lan", "inside.get(", "mappings.allocate", "→ forwarded to wan, bytes"]
    {
        assert!(first.contains(part), "{part}\n{first}");
    }
    nat("trace", "port=dmz").expect(2);
    assert!(nat("trace", "host=192.0.2.1").expect(0).out.contains("no packet meets"));
}
