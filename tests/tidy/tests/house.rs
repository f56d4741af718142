//! The rules, applied to this workspace. A failure lists every place that breaks a rule.

use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_tidy::{
    House, Violation, calls, copies, documents, layers, lengths, licences, names, words,
};

/// Files that may hold `unsafe`; each opens with why it needs it.
const UNSAFE: &[&str] = &[
    "bench/src/clock.rs",
    "bench/src/hand/table.rs",
    "crates/io/src/live/dpdk/ffi.rs",
    "crates/io/src/live/dpdk/memory.rs",
    "crates/io/src/live/ethtool.rs",
    "crates/io/src/live/ring.rs",
    "crates/io/src/live/system.rs",
    "crates/io/src/live/xdp/program.rs",
    "crates/io/src/live/xdp/umem.rs",
    "crates/memory/src/lib.rs",
    "crates/nf/src/state/allocator.rs",
    "crates/nf/src/state/bucket.rs",
    "crates/nf/src/state/table.rs",
    "crates/nf/src/state/vector.rs",
];

/// Directories whose functions are kept readable each on their own, though they look alike.
const APART: &[&str] = &["bench/src/hand/"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn house() -> House {
    House::read(&root()).expect("the workspace can be read")
}

#[track_caller]
fn assert_none(violations: Vec<Violation>) {
    let list: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(list.is_empty(), "{} violations:\n{}", list.len(), list.join("\n"));
}

#[test]
fn the_house_is_all_read() {
    let house = house();
    for file in ["crates/cli/src/lib.rs", "README.md", "Makefile", "docs/nf-language.md", ".ci/run"]
    {
        assert!(house.sources.iter().any(|source| source.path == file), "{file}");
    }
    for source in house.sources.iter().filter(|source| source.path.ends_with(".rs")) {
        assert!(source.syntax.is_some() || source.is_test(), "{} is no Rust", source.path);
    }
}

#[test]
fn functions_and_files_are_short() {
    assert_none(lengths::check(&house()));
}

#[test]
fn the_median_function_and_file_are_short() {
    let house = house();
    println!("{:?}", lengths::measure(&house));
    assert_none(lengths::check_medians(&house));
}

#[test]
fn names_say_something() {
    assert_none(names::check(&house()));
}

#[test]
fn calls_stand_where_they_may() {
    assert_none(calls::check(&house()));
}

#[test]
fn unsafe_stands_where_it_may_and_says_why_it_holds() {
    assert_none(calls::check_unsafe(&house(), UNSAFE));
}

#[test]
fn there_is_one_copy_of_each_thing() {
    assert_none(copies::check(&house(), APART));
}

#[test]
fn words_are_fit_to_print() {
    assert_none(words::check(&house()));
}

#[test]
fn layout_is_clean() {
    assert_none(words::check_layout(&house()));
}

#[test]
fn files_say_what_they_are_for() {
    assert_none(documents::check_openings(&house()));
}

#[test]
fn links_lead_somewhere() {
    assert_none(documents::check_links(&house(), &root()));
}

#[test]
fn dependencies_point_one_way() {
    assert_none(layers::check_direction(&house()));
}

#[test]
fn dependencies_are_used() {
    assert_none(layers::check_used(&house()));
}

#[test]
fn manifests_are_alike() {
    assert_none(layers::check_manifests(&house()));
}

#[test]
fn licences_are_free() {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--filter-platform", host])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    assert!(metadata["packages"].as_array().unwrap().len() > 20);
    let refused = licences::check(&metadata);
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
