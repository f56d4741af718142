//! `anabranch new`: a crate that builds, passes its test and runs as it is.

use std::process::Command;

use crate::{Bench, Done, checkout};

/// Runs Cargo in the new crate, without a network, with this workspace's target directory beside
/// it, so that what both build is built once.
fn cargo(bench: &Bench, line: &str) -> Done {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(line.split_whitespace())
        .current_dir(bench.path("token-quota"))
        .env("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/new-crate"))
        .env("CARGO_NET_OFFLINE", "true");
    Done::of(command.output().unwrap(), line)
}

#[test]
fn a_new_crate_builds_tests_and_runs() {
    let bench = Bench::new();
    let root = checkout();
    let done =
        bench.run_words(&["new", "token-quota", "--anabranch", root.to_str().unwrap()]).expect(0);
    assert!(done.out.contains("cd token-quota"), "{}", done.out);
    assert_eq!(bench.files(), ["token-quota"]);
    let tests = cargo(&bench, "test --quiet --locked").expect(0);
    assert!(tests.out.contains("2 passed"), "{}", tests.out);
    let line =
        "run --quiet -- run token-quota --set packets=5 --in gen:flows=10,packets=1000 --json -";
    let report = cargo(&bench, line).expect(0).json();
    assert_eq!((&report["nf"], &report["packets_read"]), (&"token-quota".into(), &1000.into()));
    assert!(report["drops"]["over-quota"].as_u64().unwrap() > 0, "{report}");
    let line = "run --quiet -- bench --flows 100 --set packets=1_000_000 --json -";
    let figures = cargo(&bench, line).expect(0).json();
    assert_eq!(figures["results"][0]["nf"], "token-quota");
    assert!(figures["results"][0]["mpps"].as_f64().unwrap() > 0.0, "{figures}");
    cargo(&bench, "run --quiet -- nfs nat").expect(7).says("token-quota");
    cargo(&bench, "run --quiet -- top none.sock").expect(2).says("the feature `terminal`");
    // Neither is compiled unless it is asked for.
    let tree = |features: &str| cargo(&bench, &format!("tree --locked{features}")).expect(0);
    let (without, with) = (tree("").out, tree(" --features terminal,redis").out);
    for used in ["ratatui v", "redis v"] {
        assert!(!without.contains(used) && with.contains(used), "{used}\n{with}");
    }
    cargo(&bench, "fmt --check").expect(0);
}

#[test]
fn a_new_crate_needs_no_cargo_to_be_written() {
    let bench = Bench::new();
    bench.run_alone(&format!("new token-quota --anabranch {}", checkout().display())).expect(0);
    assert!(bench.path("token-quota/Cargo.lock").is_file());
}

#[test]
fn what_exists_is_left_alone() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("mine")).unwrap();
    bench.run("new mine").expect(6).says("exists already");
    bench.run("new My-NF").expect(2).says("lower-case");
    bench.run("new fine --anabranch none").expect(2).says("--anabranch PATH");
    assert_eq!(bench.files(), ["mine"]);
    assert_eq!(std::fs::read_dir(bench.path("mine")).unwrap().count(), 0);
}
