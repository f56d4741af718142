//! State in stores: `run --store`, `state show`.

use crate::Bench;

const NAT: &str = r#"run nat --set public=["203.0.113.1"] --seed 4"#;

#[test]
fn a_later_run_of_the_same_instance_goes_on_and_another_does_not() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=200,packets=2000,seed=1");
    bench.traffic("b.pcap", "flows=200,packets=2000,seed=2");
    // How many mappings there are at the end, and what was sent.
    let run = |input: &str, store: &str| {
        let line = format!("{NAT} --in lan={input} {store} --out wan=out.pcap --json -");
        let report = bench.run(&line).expect(0).json();
        assert_eq!(report["warnings"], serde_json::json!([]), "{store}");
        let tables = report["tables"].as_array().unwrap();
        let inside = tables.iter().find(|table| table["name"] == "inside").unwrap();
        (inside["used"].as_u64().unwrap(), std::fs::read(bench.path("out.pcap")).unwrap())
    };
    let a = run("a.pcap", "");
    let b = run("b.pcap", "");
    assert!(a.0 > 50 && b.0 > 50);
    assert_eq!(run("a.pcap", "--store memory:state --instance a"), a, "a store changes nothing");
    let both = run("b.pcap", "--store memory:state --instance a").0;
    assert!(both > a.0.max(b.0) && both <= a.0 + b.0, "{both} of {} and {}", a.0, b.0);
    assert_eq!(run("a.pcap", "--store memory:state --instance a"), (both, a.1), "the same ones");
    assert_eq!(run("b.pcap", "--store memory:state --instance b"), b);
    bench
        .run("state show nat --store memory:state")
        .expect(0)
        .shows("nat@a@0@map@inside  map: ")
        .shows("nat@b@0@map@inside  map: ");
    let merged = bench.run("state show nat --store memory:state --merged --json").expect(0).json();
    assert_eq!(merged["inside"]["type"], "map");
    assert!(merged["inside"]["content"].as_object().unwrap().len() > 50);
    bench.run("state show firewall --store memory:state").expect(0).shows("no state");
}

#[test]
fn stores_that_cannot_be_had_are_told() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=2,packets=20,seed=1");
    let nat = format!("{NAT} --in lan=a.pcap");
    bench.run(&format!("{nat} --store disk")).expect(3).says("memory:DIRECTORY");
    bench.run(&format!("{nat} --store memory:s --workers 2")).expect(2).says("--workers 1");
    bench.run(&format!("{nat} --store redis://127.0.0.1:1")).expect(4).says("does not answer");
    bench.run("state show nothing --store memory:s").expect(7).says("nothing");
}
