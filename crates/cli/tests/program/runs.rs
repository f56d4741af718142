//! Runs from end to end: the report in its three shapes, the outputs.

use std::fs;

use crate::{Bench, checkout};

#[test]
fn several_workers_follow_the_plan_that_is_asked_for() {
    let bench = Bench::new();
    bench.traffic("in.pcap", "flows=300,packets=3000");
    let run = "run policer --in lan=in.pcap --workers 2 --json -";
    let nat = bench.run("run nat --in lan=in.pcap --workers 2 --json - --set public=['192.0.2.1']");
    let why = nat.expect(0).json()["strategy_why"].to_string();
    assert!(why.contains("512 shards") && why.contains("120 to 128 of 64512 values"), "{why}");
    let strategy = |options: &str| {
        let report = bench.run(&format!("{run} {options}")).expect(0).json();
        report["strategy"].as_str().map(str::to_owned)
    };
    assert_eq!(strategy("").as_deref(), Some("shared-nothing"));
    assert_eq!(strategy("--nic x710").as_deref(), Some("shared-nothing"));
    assert_eq!(strategy("--strategy lock").as_deref(), Some("lock"));
    bench.run("plan policer --nic cx5 -o plan.toml").expect(0);
    assert_eq!(strategy("--plan plan.toml").as_deref(), Some("shared-nothing"));
    let plan = fs::read_to_string(bench.path("plan.toml")).unwrap();
    let edited = plan.replace("field = \"ipv4.dst\"", "field = \"ipv4.src\"");
    fs::write(bench.path("edited.toml"), edited).unwrap();
    bench.run(&format!("{run} --plan edited.toml")).expect(3).says("must meet when");
    bench.run(&format!("{run} --plan none.toml")).expect(3).says("cannot be read");
    bench.run(&format!("{run} --nic e811")).expect(2).says("there is no NIC model");
    bench.run(&format!("{run} --plan plan.toml --nic cx5")).expect(2);
    let bridge = run.replace("policer", "bridge");
    bench.run(&format!("{bridge} --strategy shared-nothing")).expect(8).says("line");
}

#[test]
fn shards_move_away_from_busy_workers_and_the_run_says_so() {
    let bench = Bench::new();
    let run = "run policer --in gen:flows=2000,packets=250000,zipf=1.2,seed=2 --workers 4";
    let done = bench.run(&format!("{run} --json r.json --report r.html")).expect(0);
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("r.json")).unwrap()).unwrap();
    let balance = |name: &str| report["balance"][name].as_f64().unwrap();
    assert!(balance("busiest_first") > 1.1 && balance("shards_moved") >= 1.0, "{report}");
    assert!(balance("busiest_last") <= 1.1 * balance("best_last"), "{report}");
    let table = format!("at first {:>22}", format!("{:.2} x average", balance("busiest_first")));
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed(&done.out).contains(&squeezed(&table)), "{}", done.out);
    assert!(fs::read_to_string(bench.path("r.html")).unwrap().contains("shards moved"));
    let still = bench.run(&format!("{run} --no-balance --json -")).expect(0).json();
    assert!(still["balance"].is_null() && still["drops"] == report["drops"], "{still}");
}

#[test]
fn json_on_standard_output_is_nothing_but_json() {
    let bench = Bench::new();
    let report = bench.run("run nop --in gen:flows=100,packets=5000 --json -").expect(0).json();
    assert_eq!((&report["nf"], &report["packets_read"]), (&"nop".into(), &5000.into()));
    assert!(report["ports"][0].get("live").is_none(), "there is no interface");
    let dropped = report["packets_dropped"].as_u64().unwrap();
    assert_eq!(report["packets_out"].as_u64().unwrap() + dropped, 5000);
    let handled: u64 = report["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["packets"].as_u64().unwrap())
        .sum();
    assert_eq!(handled, 5000);
}

#[test]
fn the_documented_names_are_the_names() {
    let bench = Bench::new();
    let report = bench.run("run nop --in gen:flows=10,packets=100 --json -").expect(0).json();
    let page = include_str!("../../../../docs/report.md");
    for name in report.as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/report.md");
    }
}

#[test]
fn the_table_and_the_page_say_the_same() {
    let bench = Bench::new();
    let line = "run policer --in gen:flows=50,packets=20000 --report r.html --json r.json";
    let done = bench.run(line).expect(0);
    let page = fs::read_to_string(bench.path("r.html")).unwrap();
    for text in [&done.out, &page] {
        assert!(text.contains("20,000"), "{text}");
    }
    assert!(!page.contains("http") && page.contains("class=\"bars\""));
    assert_eq!(bench.files(), ["r.html", "r.json"]);
}

#[test]
fn one_and_many_workers_write_the_same_file() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=500,packets=20000,tcp=0.7,ipv6=0.3,seed=3");
    for nf in ["nop", "firewall", "policer"] {
        let ports = bench.run(&format!("nfs {nf}")).expect(0).out;
        let line = ports.lines().find_map(|line| line.strip_prefix("Ports: ")).unwrap();
        let (first, second) = line.split_once(", ").unwrap();
        for workers in ["1", "2", "4"] {
            bench
                .run(&format!(
                    "run {nf} --in {first}=a.pcap --out {second}={nf}-{workers}.pcap --workers {workers}"
                ))
                .expect(0);
        }
        let written = |workers| fs::read(bench.path(&format!("{nf}-{workers}.pcap"))).unwrap();
        assert!(written(1).len() > 10_000, "{nf} forwards nothing");
        assert!(written(1) == written(2) && written(1) == written(4), "{nf}");
    }
}

#[test]
fn the_same_seed_makes_the_same_traffic() {
    let bench = Bench::new();
    for (name, seed) in [("a", 1), ("b", 1), ("c", 2)] {
        bench.traffic(&format!("{name}.pcap"), &format!("flows=50,packets=1000,seed={seed}"));
    }
    let read = |name: &str| fs::read(bench.path(&format!("{name}.pcap"))).unwrap();
    assert_eq!(read("a"), read("b"));
    assert_ne!(read("a"), read("c"));
}

#[test]
fn call_paths_are_text_or_one_json_document() {
    let bench = Bench::new();
    assert!(bench.run("paths nop").expect(0).out.contains("Forward"));
    let paths = bench.run("paths policer --json").expect(0).json();
    assert_eq!(paths["nf"], "policer");
    assert!(paths["paths"].as_array().unwrap().len() > 3, "{paths}");
}

#[test]
fn a_bench_compares_in_one_json_document() {
    let bench = Bench::new();
    let document = bench.run("bench nop --flows 100 --json -").expect(0).json();
    let rows = document["results"].as_array().unwrap();
    for name in ["nf", "strategy", "workers", "flows", "tsc_per_packet", "mpps", "spread"] {
        assert!(rows.iter().all(|row| !row[name].is_null()), "{name} in {document}");
    }
    let by_hand = rows.iter().find(|row| row["strategy"] == "handwritten").unwrap();
    assert_eq!(by_hand["ratio_to_handwritten"], 1.0);
    assert!(document["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(bench.files().is_empty());
}

#[test]
fn a_bench_by_strategies_measures_them_all_in_one_run() {
    let bench = Bench::new();
    let line = "bench synthetic/read-write-zipf portscan --flows 100 --workers 2 --strategies all \
                --json -";
    let document = bench.run(line).expect(0).json();
    let of = |nf: &str| {
        let rows =
            document["results"].as_array().unwrap().iter().filter(move |row| row["nf"] == nf);
        let way = |row: &serde_json::Value| {
            let strategy = row["strategy"].as_str().unwrap().to_owned();
            (strategy, row["workers"].as_u64().unwrap())
        };
        rows.map(way).collect::<Vec<_>>()
    };
    for workers in [1, 2] {
        for strategy in ["transactional", "lock", "mutex"] {
            let wanted = (strategy.to_owned(), workers);
            assert!(of("synthetic").contains(&wanted), "{wanted:?} in {document}");
        }
    }
    for (strategy, workers) in [("sequential", 1), ("transactional", 2), ("lock", 2)] {
        let wanted = (strategy.to_owned(), workers);
        assert!(of("portscan").contains(&wanted), "{wanted:?} in {document}");
    }
    bench.run("bench nop --strategies mutexes").expect(2).says("mutex");
    bench.run("bench nop/fast --flows 10").expect(2).says("nop/fast");
    let unheard = bench.run("bench prads bridge --flows 10 --set stations=5");
    unheard.expect(2).says("bridge is compared with the same job written by hand");
}

/// Of a function without a job written by hand.
#[test]
fn a_bench_of_any_function_has_every_name() {
    let bench = Bench::new();
    let line = "bench router --flows 10 --workers 1,2 --json -";
    let document = bench.run(line).expect(0).json();
    let machine = &document["machine"];
    assert!(machine["cores"].is_u64() && machine["processor"].is_string(), "{machine}");
    assert!(machine["tsc_mhz"].is_number() && machine["hardware_counters"].is_boolean());
    let rows = document["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let page = fs::read_to_string(checkout().join("docs/bench.md")).unwrap();
    let (_, names) = page.split_once("| row | |\n|---|---|\n| `nf` | the function |\n").unwrap();
    let lines = names.lines().take_while(|line| line.starts_with("| `"));
    let named =
        lines.flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 15, "{named:?}");
    for (row, workers) in rows.iter().zip(1..) {
        assert!(named.iter().all(|name| row.get(name).is_some()), "{row}");
        assert_eq!(
            (row["workers"].as_u64(), row["repetitions"].as_u64()),
            (Some(workers), Some(3))
        );
        assert!(row["ratio_to_one_worker"].is_number() && row["solve_us"].is_null(), "{row}");
    }
}
