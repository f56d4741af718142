//! State in stores: `run --store`, `state show`.

use crate::Bench;

pub(crate) const NAT: &str = r#"run nat --set public=["203.0.113.1"] --seed 4"#;

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
    bench
        .run("state show nat --store memory")
        .expect(2)
        .says("ends with it")
        .says("memory:DIRECTORY");
}

#[test]
fn stores_that_cannot_be_had_are_told() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=2,packets=20,seed=1");
    let nat = format!("{NAT} --in lan=a.pcap");
    bench.run(&format!("{nat} --store disk")).expect(3).says("memory:DIRECTORY");
    bench.run(&format!("{nat} --store redis://127.0.0.1:1")).expect(4).says("does not answer");
    bench.run(&format!("{nat} --store memory:a.pcap")).expect(4).says("a file stands there");
    let line = format!("{nat} --store redis://127.0.0.1:1?timeout_ms=0");
    bench.run(&line).expect(3).says("write 1 to 60000");
    bench.run(&format!("{nat} --store redis://h/nat")).expect(3).says("a database is a number");
    bench.run("state show nat --store memory:s").expect(4).says("there is no such directory");
    bench.run("state show nothing --store memory:s").expect(7).says("nothing");
}

/// `state-1` was written by `run nat --set 'public=["203.0.113.1"]' --set sessions=64 --set hosts=16 --seed 4` on
/// `traffic flows=6,packets=60,seed=5`, when its layouts were new. Where one changes, the new program has to read
/// the old one: this stays, and another is put beside it.
#[test]
fn state_that_an_older_release_has_written_is_gone_on_with() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("state")).unwrap();
    let log = include_bytes!("state-1/log-00000000");
    std::fs::write(bench.path("state/log-00000000"), log).unwrap();
    let inside = || {
        let shown = bench.run("state show nat --store memory:state --merged --json").expect(0);
        shown.json()["inside"].clone()
    };
    let written: serde_json::Value =
        serde_json::from_str(include_str!("state-1/merged.json")).unwrap();
    assert_eq!(inside(), written["inside"]);
    bench.traffic("a.pcap", "flows=6,packets=60,seed=5");
    let line = format!("{NAT} --set sessions=64 --set hosts=16 --in lan=a.pcap --out wan=b.pcap");
    bench.run(&line).expect(0);
    let alone = std::fs::read(bench.path("b.pcap")).unwrap();
    let line = format!("{line} --store memory:state --instance edge --json -");
    let restart = bench.run(&line).expect(0).json()["store"]["restart"].clone();
    assert_eq!(restart["entries"], 32);
    assert!(std::fs::read(bench.path("b.pcap")).unwrap() == alone, "every flow has its port");
    assert_eq!(inside(), written["inside"], "and none has another");
}

/// Several workers, another number of them, and one of a run that several go on with.
#[test]
fn any_number_of_workers_goes_on_with_state_in_shards() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=300,packets=3000,seed=1");
    bench.traffic("b.pcap", "flows=300,packets=3000,seed=2");
    let run = |input: &str, options: &str| {
        let line = format!("{NAT} --in lan={input} --out wan=out.pcap --json - {options}");
        let report = bench.run(&line).expect(0).json();
        assert_eq!(report["strategy"], "shared-nothing");
        assert_eq!(report["warnings"], serde_json::json!([]), "{options}");
        (report, std::fs::read(bench.path("out.pcap")).unwrap())
    };
    let (_, a) = run("a.pcap", "--workers 2");
    let store = "--store memory:state --instance edge --workers";
    let (report, sent) = run("a.pcap", &format!("{store} 2 --flush-ms 3"));
    assert!(sent == a, "a store changes nothing");
    let kept = &report["store"];
    assert_eq!((&kept["waiting"], &kept["trouble"]), (&0.into(), &serde_json::Value::Null));
    assert!(kept["stored"].as_u64().unwrap() > 300);
    for time in ["lag_ns", "pause_ns"] {
        assert!(kept[time]["max"].as_u64().unwrap() > 0, "{time}");
    }
    assert_eq!(kept["restart"]["entries"], 0);
    let (_, b) = run("b.pcap", &format!("{store} 3"));
    for workers in ["2", "1 --strategy shared-nothing", "4"] {
        assert!(run("a.pcap", &format!("{store} {workers}")).1 == a, "the same mappings");
        assert!(run("b.pcap", &format!("{store} {workers}")).1 == b, "the same mappings");
    }
    let nat = format!("{NAT} --in lan=a.pcap");
    bench.run(&format!("{nat} {store} 1")).expect(2).says("--strategy shared-nothing");
    let shown = bench.run("state show nat --store memory:state --instance edge").expect(0);
    assert!(shown.out.contains("nat@edge@s") && !shown.out.contains(".division"), "{}", shown.out);
}

/// What one worker has, several have behind the lock and in transactions, and the other way round; what is
/// divided among shards none of them has.
#[test]
fn by_whichever_strategy_workers_share_state_they_go_on() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=300,packets=3000,seed=1");
    let run = |options: &str| {
        let store = "--store memory:state --instance edge --out wan=out.pcap --json -";
        let line = format!("{NAT} --in lan=a.pcap {store} {options}");
        let report = bench.run(&line).expect(0).json();
        assert_eq!(report["warnings"], serde_json::json!([]), "{options}");
        std::fs::read(bench.path("out.pcap")).unwrap()
    };
    let first = run("--workers 3 --strategy transactional");
    for options in
        ["--workers 1", "--workers 4 --strategy lock", "--workers 2 --strategy transactional"]
    {
        assert!(run(options) == first, "{options}: every flow has the port that it had");
    }
    let divided = format!("{NAT} --in lan=a.pcap --store memory:state --instance edge --workers 2");
    bench.run(&divided).expect(2).says("not divided among shards").says("--strategy lock");
}

/// Killed in the middle: what the store had is gone on with, by another number of workers.
#[test]
fn a_killed_run_is_gone_on_with() {
    is_gone_on_with("memory:state", "--workers 2", "--workers 3", false);
}

/// The same where there is one scope. The store may have half of a flow while there is more to write than goes
/// into one message: nothing new comes any more when it is killed.
#[test]
fn a_killed_run_whose_workers_share_state_is_gone_on_with() {
    let (lock, transactional) = ("--workers 2 --strategy lock", "--strategy transactional");
    is_gone_on_with("memory:state", lock, &format!("--workers 3 {transactional}"), true);
    is_gone_on_with("memory:state", &format!("--workers 2 {transactional}"), "--workers 1", true);
}

/// A run with the options `killed`, by one with the options `next`. `calm`: it is killed when no flow is new.
pub(crate) fn is_gone_on_with(store: &str, killed: &str, next: &str, calm: bool) {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=20000,packets=400000,seed=1");
    let line = format!("{NAT} --in lan=mem:a.pcap?for=60s --store {store} --instance edge");
    let words: Vec<&str> = line.split(' ').chain(killed.split(' ')).collect();
    let mut killed = bench.command(&words).stderr(std::process::Stdio::null()).spawn().unwrap();
    let inside = || {
        let shown = bench.run(&format!("state show nat --store {store} --merged --json"));
        let shown = (shown.code == Some(0)).then(|| shown.json());
        let inside = shown.map(|shown| shown["inside"]["content"].clone());
        inside.and_then(|inside| inside.as_object().cloned()).unwrap_or_default()
    };
    let began = std::time::Instant::now();
    let mut seen = 0;
    while let now = inside().len()
        && (now < 500 || calm && now != std::mem::replace(&mut seen, now))
    {
        assert!(began.elapsed().as_secs() < 60 && killed.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(if calm { 500 } else { 0 }));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = inside();
    let line = format!("{NAT} --in lan=a.pcap --store {store} --instance edge {next}");
    let report = bench.run(&format!("{line} --json -")).expect(0).json();
    assert_eq!(report["warnings"], serde_json::json!([]));
    let after = inside();
    assert!(before.len() >= 500 && after.len() >= before.len());
    assert!(report["store"]["restart"]["entries"].as_u64().unwrap() >= before.len() as u64);
    for (flow, port) in &before {
        assert_eq!(after.get(flow), Some(port), "the flow {flow} has another port");
    }
    let ports: std::collections::BTreeSet<String> =
        after.values().map(|one| one.to_string()).collect();
    assert_eq!(ports.len(), after.len(), "two flows have the same port");
}

#[test]
fn what_a_store_costs_is_measured_against_none() {
    let bench = Bench::new();
    let measured =
        bench.run("bench firewall --stores=memory --flows 100 --json -").expect(0).json();
    let rows = measured["results"].as_array().unwrap();
    let stores: Vec<_> = rows.iter().map(|row| row["store"].as_str().unwrap()).collect();
    assert_eq!(stores, ["none", "memory"]);
    assert_eq!((&rows[0]["ratio_to_none"], &rows[0]["lag_ns"]), (&1.0.into(), &().into()));
    assert!(rows[1]["pause_ns"]["max"].as_u64().unwrap() > 0);
    assert!(rows[1]["ratio_to_none"].as_f64().unwrap() > 0.0);
    assert!(rows[1]["stored_per_s"].as_u64().unwrap() >= 10);
    let page = include_str!("../../../../docs/bench.md");
    for name in rows[1].as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/bench.md");
    }
    assert_eq!(rows[1]["restart"], serde_json::Value::Null, "it is gone with the run");
    bench.run("bench firewall --stores=disk --flows 10").expect(3).says("memory:DIRECTORY");
}

/// Figure 6 of the FlexState paper; and the service of the load balancer takes all that is sent to it.
#[test]
fn a_counter_that_waits_is_measured_against_one_that_does_not() {
    let bench = Bench::new();
    let line = "bench lb counting --stores=memory --flows 10";
    let run = bench.run(&format!("{line} --json -")).expect(0);
    assert!(!run.err.contains("came through"), "{}", run.err);
    let measured = run.json();
    let rows: Vec<_> = measured["results"].as_array().unwrap().iter().collect();
    let names = |name: &str| rows.iter().map(|row| row[name].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names("nf"), ["lb", "lb", "counting", "counting", "counting"]);
    assert_eq!(names("store"), ["none", "memory", "none", "memory", "memory"]);
    assert_eq!(rows[4]["strategy"], "waiting");
    assert!(rows[3]["stored_per_s"].as_u64().unwrap() < rows[4]["stored_per_s"].as_u64().unwrap());
    assert!(rows[4]["mpps"].as_f64().unwrap() > 0.0);
}

#[test]
fn how_long_a_restart_takes_is_measured_with_what_a_store_has() {
    let bench = Bench::new();
    let line = "bench nat --stores=durable --flows 300";
    let measured = bench.run(&format!("{line} --json -")).expect(0).json();
    let restart = &measured["results"][1]["restart"];
    let figure = |name: &str| restart[name].as_u64().unwrap();
    // Some flows of the traffic are drawn by no packet; each of the others is more than one entry.
    assert!(figure("entries") > 300, "{restart}");
    let times = ["read_ns", "warm_ns", "ready_ns"].map(figure);
    assert!(times[0] > 0 && times.is_sorted(), "{restart}");
    bench.run(line).expect(0).shows("first packet after");
}
