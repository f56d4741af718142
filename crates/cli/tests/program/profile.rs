//! `anabranch profile`: text, JSON, a page, settings that were tried.

use super::Bench;

/// Both ports send to the same few stations, whose seconds change all the time.
const BRIDGE: &str = "profile bridge --workers 2 \
                      --in p0=gen:flows=50,packets=60000,rate=2000,macs=4 \
                      --in p1=gen:flows=50,packets=60000,rate=2000,macs=4";

#[test]
fn a_table_names_causes_lines_and_recipes() {
    let bench = Bench::new();
    let text = bench.run(BRIDGE).expect(0).out;
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("bridge on 2 workers"), "{text}");
    for part in [
        "lost  aborts  alone  cause",
        "given up",
        "ns each",
        "(the runtime)",
        "stations (Map)",
        "line of ",
        "middle",
        "in use",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let counted = text.contains("not counted here") || text.contains("branch misses a packet");
    assert!(counted, "{text}");
    // Which of the two is the machine's to say.
    let told = text.lines().any(|line| line.starts_with("profiling cost "));
    assert!(told != text.contains("what profiling cost cannot be told: runs differ by "), "{text}");
    assert!(text.contains("setting refresh_interval_s") && text.contains(": 0 → 1"), "{text}");
    assert!(bench.files().is_empty());
}

#[test]
fn a_note_says_that_fewer_workers_run() {
    let bench = Bench::new();
    let line = "profile nop --workers 513 --in lan=gen:flows=5,packets=100 --json";
    let profile = bench.run(line).expect(0).json();
    assert_eq!(profile["workers"], 512);
    let told = profile["notes"][0].as_str().is_some_and(|note| note.contains("513 workers were"));
    assert!(told, "{}", profile["notes"]);
}

#[test]
fn a_note_says_why_load_is_uneven() {
    let bench = Bench::new();
    let line = "profile bridge --workers 2 --in p0=gen:flows=50,packets=60000,zipf=3 --json";
    let profile = bench.run(line).expect(0).json();
    let notes = profile["notes"].as_array().unwrap();
    let told = notes
        .iter()
        .filter_map(|note| note.as_str())
        .find(|note| note.contains("an entry is one worker's"));
    assert!(
        told.is_some_and(|note| note.contains("the packets of a flow stay together")),
        "{notes:?}"
    );
}

#[test]
fn the_document_has_its_names_and_ranks_causes() {
    let bench = Bench::new();
    let profile = bench.run(&format!("{BRIDGE} --json")).expect(0).json();
    for name in [
        "version",
        "nf",
        "file",
        "workers",
        "packets",
        "mpps",
        "planned",
        "limit",
        "aborts",
        "irrevocable",
        "transactions",
        "causes",
        "lines",
        "load",
        "shards",
        "pools",
        "handlers",
        "overhead",
        "applied",
        "notes",
    ] {
        assert!(!profile[name].is_null(), "{name} in\n{profile}");
    }
    assert!(profile.as_object().unwrap().contains_key("hardware"), "{profile}");
    handlers_are_told(&profile);
    let overhead = &profile["overhead"];
    let spread = overhead["spread"].as_f64().unwrap();
    let share = &overhead["share"];
    assert!(share.is_null() || share.as_f64() >= Some(spread.max(0.0)), "{overhead}");
    assert!(overhead["with_ns"].as_f64() > Some(0.0), "{overhead}");
    let heaviest = profile["shards"]["heaviest"].as_array().unwrap();
    let packets: Vec<u64> = heaviest.iter().map(|one| one["packets"].as_u64().unwrap()).collect();
    assert!(!packets.is_empty() && packets.is_sorted_by(|one, other| one >= other), "{packets:?}");
    let pool = &profile["pools"][0];
    assert_eq!((&pool["object"], &pool["nearly_full"]), (&"stations".into(), &false.into()));
    assert_eq!((&profile["workers"], &profile["packets"]), (&2.into(), &120_000.into()));
    let causes = profile["causes"].as_array().unwrap();
    let sum = |name: &str| causes.iter().map(|cause| cause[name].as_f64().unwrap()).sum::<f64>();
    assert_eq!(sum("aborts"), profile["aborts"].as_f64().unwrap());
    let lost: Vec<f64> = causes.iter().map(|cause| cause["lost"].as_f64().unwrap()).collect();
    assert!(lost.is_sorted_by(|one, other| one >= other), "{lost:?}");
    assert!(causes.is_empty() || (sum("share") - 1.0).abs() < 1e-9, "{causes:?}");
    for cause in causes.iter().filter(|cause| cause["object"] == "stations") {
        let line = cause["operations"][0]["line"].as_u64().unwrap();
        let source = cause["operations"][0]["source"].as_str().unwrap();
        assert!(line > 90 && source.contains("self.stations."), "{cause}");
    }
}

/// Every packet has been handled, some again; what expires has been collected.
fn handlers_are_told(profile: &serde_json::Value) {
    let handlers = profile["handlers"].as_array().unwrap();
    let of = |name: &str| handlers.iter().find(|one| one["handler"] == name).unwrap();
    assert!(of("packet")["calls"].as_u64() >= Some(120_000), "{handlers:?}");
    assert!(of("expired")["calls"].as_u64() > Some(0), "{handlers:?}");
    let share = |one: &serde_json::Value| one["share"].as_f64().unwrap();
    let all: f64 = handlers.iter().map(share).sum();
    // Parts are measured, and a thread that loses its core meanwhile is counted for others.
    assert!(share(of("packet")) > 0.05 && all < 1.5, "{handlers:?}");
    for handler in handlers {
        assert!(handler["ns_per_call"].as_f64() > Some(0.0), "{handler}");
        assert_eq!(
            handler["cycles_per_call"].is_null(),
            profile["hardware"].is_null(),
            "{handler}"
        );
    }
}

#[test]
fn a_page_and_settings_are_written() {
    let bench = Bench::new();
    let apply = format!("{BRIDGE} --html bridge.html --apply --save bridge.toml");
    let text = bench.run(&apply).expect(0).out;
    assert!(text.contains("tried, each alone") && text.contains("refresh_interval_s"), "{text}");
    let page = std::fs::read_to_string(bench.path("bridge.html")).unwrap();
    assert!(
        page.contains("Why transactions were given up")
            && page.contains("Heaviest entries")
            && page.ends_with("</html>\n")
    );
    let foreign = ["<script", "http://", "https://", "<link", "<img"];
    assert!(foreign.iter().all(|one| !page.contains(one)));
    // How often workers meet is not the test's to say.
    match std::fs::read_to_string(bench.path("bridge.toml")) {
        Ok(settings) => {
            assert!(settings.contains("relaxes: ") && text.contains("\nwritten: "), "{text}");
            let run = "run bridge --config bridge.toml --in p0=gen:packets=9 --in p1=gen:packets=9";
            bench.run(run).expect(0);
        }
        Err(_) => assert!(text.contains("bridge.toml: not written: nothing helped"), "{text}"),
    }
}

#[test]
fn where_nothing_costs_anything_nothing_is_to_be_changed() {
    let bench = Bench::new();
    let quiet = "profile nop --in lan=gen:flows=50,packets=20000 --workers 2 --apply";
    let text = bench.run(&format!("{quiet} --save a.toml")).expect(0).out;
    assert!(text.contains("nothing to try: no cause costs 1 % of the work"), "{text}");
    assert!(!text.contains("the source has to change"), "{text}");
    let printed = bench.run(&format!("{quiet} --save -")).expect(0);
    assert_eq!(printed.out, "");
    assert!(
        printed.err.contains("--save -: nothing is written: no setting helped"),
        "{}",
        printed.err
    );
    assert!(bench.files().is_empty());
}

#[test]
fn what_cannot_be_profiled_is_told() {
    let bench = Bench::new();
    let twice = bench.run("profile bridge --in p0=/dev/stdin").expect(2).err;
    assert!(twice.contains("runs its traffic several times"), "{twice}");
    let one = bench.run("profile nop --in lan=gen:packets=10 --workers 1").expect(2).err;
    assert!(one.contains("nobody's way"), "{one}");
    bench.run("profile nop --workers 2").expect(2);
    bench.run("profile nothing --in lan=gen:packets=10").expect(7);
    bench.run("profile bridge --in p0=gen:packets=10 --set stations=0").expect(3);
    let save = bench.run("profile bridge --in p0=gen:packets=10 --save a.toml").expect(2).err;
    assert!(save.contains("--apply"), "{save}");
}
