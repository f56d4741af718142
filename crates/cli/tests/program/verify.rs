//! `anabranch verify`: what passes, what differs, and with which exit code.

use super::Bench;

#[test]
fn a_function_that_is_planned_right_passes() {
    let bench = Bench::new();
    let found = bench.run("verify firewall --packets 4000 --seeds 2 --json").expect(0).json();
    assert_eq!((found["seeds"].as_u64(), found["differences"].as_u64()), (Some(2), Some(0)));
    assert!(found["packets"].as_u64().unwrap() >= 8_000 && found["difference"].is_null());
    let [reached, known, undecided, pairs] =
        ["paths_reached", "paths_known", "undecided", "pairs_reached"]
            .map(|name| found[name].as_u64().unwrap());
    assert!(70 <= reached && reached < known && undecided == 0 && pairs == 5, "{found}");
    assert_eq!(found["disagreements"], serde_json::json!([]), "{found}");
    let shown = bench.run("verify firewall --packets 2000 --seeds 1 --unreached").expect(0).out;
    assert!(shown.contains("Drop(packet-sets-full)") && shown.contains("when "), "{shown}");
    let text = bench.run("verify nop --packets 100 --seeds 1").expect(0).out;
    assert!(text.contains(" under 1 seed, "), "{text}");
    assert!(text.contains("no difference"), "{text}");
}

#[test]
fn a_plan_that_breaks_a_constraint_differs_by_a_short_sequence() {
    let bench = Bench::new();
    bench.run("plan policer -o plan.toml").expect(0);
    let plan = std::fs::read_to_string(bench.path("plan.toml")).unwrap();
    let edited = plan.replace("field = \"ipv4.dst\"", "field = \"ipv4.src\"");
    std::fs::write(bench.path("plan.toml"), edited).unwrap();
    bench.run("verify policer --plan plan.toml").expect(3).says("must meet when");
    let line = "verify policer --plan plan.toml --unchecked --packets 20000 --seeds 2";
    let differs = bench.run(line).expect(9);
    assert!(differs.out.contains("shortest sequence under seed"), "{}", differs.out);
    assert!(differs.err.contains("many cores differ from one"), "{}", differs.err);
}

#[test]
fn captures_are_sent_first() {
    let bench = Bench::new();
    bench.traffic("in.pcap", "flows=50,packets=2000");
    let line = "verify firewall --in inside=in.pcap --packets 1 --seeds 1 --json";
    let found = bench.run(line).expect(0).json();
    assert!(found["packets"].as_u64().unwrap() >= 2_000, "{found}");
    // A capture that is longer than what was asked for is not all that is sent.
    let line = "verify firewall --in inside=in.pcap --packets 2000 --seeds 1 --json";
    let done = bench.run(line).expect(0);
    let found = done.json();
    assert!(found["packets"].as_u64().unwrap() >= 3_000, "{found}");
    done.says("have 2,000 packets, more than half of --packets 2000")
        .says("and 1,000 random packets after");
    let line = "verify firewall --in inside=in.pcap --packets 4000 --seeds 1";
    let done = bench.run(line).expect(0);
    assert!(!done.err.contains("--packets"), "{}", done.err);
    bench.run("verify firewall --in elsewhere=in.pcap").expect(2);
    bench.run("verify firewall --in inside=none.pcap").expect(4);
}
