//! Layers: dependencies point one way, each is used, and every manifest says the same.

use toml::{Table, Value};

use crate::Violation;
use crate::house::{House, Source};

/// Our crates and how high each stands: one depends only on those below it.
///
/// `packet ← nf ← analysis ← plan ← runtime ← cli`; what stands side by side does not know of each other.
const LAYERS: [(&str, u8); 18] = [
    ("anabranch-rss", 0),
    ("anabranch-language", 0),
    ("anabranch-memory", 0),
    ("anabranch-txn", 1),
    ("anabranch-store", 1),
    ("anabranch-packet", 1),
    ("anabranch-nf-macros", 1),
    ("anabranch-nf", 2),
    ("anabranch-io", 2),
    ("anabranch-nfs", 3),
    ("anabranch-analysis", 3),
    ("anabranch-plan", 4),
    ("anabranch-runtime", 5),
    ("anabranch-bench", 6),
    ("anabranch-verify", 7),
    ("anabranch", 8),
    ("anabranch-thesis", 9),
    ("anabranch-tidy", 9),
];

/// Dependencies that point upwards or sideways, crates without a layer, and a program's library
/// that cannot be had without the NF library.
pub fn check_direction(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, manifest) in house.manifests().filter(|(_, manifest)| is_member(manifest)) {
        let Some(name) = package(&manifest, "name") else { continue };
        let Some(height) = height(name) else {
            let message = format!("`{name}` has no layer: give it one in tests/tidy/src/layers.rs");
            violations.push(Violation::new(source, 0, message));
            continue;
        };
        for (dependency, value) in dependencies(&manifest, "dependencies") {
            if self::height(dependency).is_some_and(|other| other >= height) {
                let message = format!(
                    "`{name}` may not depend on `{dependency}`, which does not stand below it"
                );
                violations.push(Violation::new(source, 0, message));
            }
            let optional = value.get("optional").and_then(Value::as_bool) == Some(true);
            if name == "anabranch"
                && matches!(dependency, "anabranch-nfs" | "anabranch-bench")
                && !optional
            {
                let message = format!(
                    "`{dependency}` is optional here: an author's own program does not compile it"
                );
                violations.push(Violation::new(source, 0, message));
            }
        }
    }
    violations
}

/// Dependencies that no file of their crate names.
pub fn check_used(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, manifest) in house.manifests() {
        let directory = source.path.trim_end_matches("Cargo.toml");
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (dependency, _) in dependencies(&manifest, section) {
                if !is_named(house, directory, dependency, section) {
                    let message = format!("`{dependency}` of [{section}] is not used: take it out");
                    violations.push(Violation::new(source, 0, message));
                }
            }
        }
    }
    violations
}

/// Manifests without what every crate of the workspace has.
pub fn check_manifests(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, manifest) in house.manifests().filter(|(_, manifest)| is_member(manifest)) {
        if package(&manifest, "description").is_none_or(|text| text.len() < 20) {
            violations.push(Violation::new(
                source,
                0,
                "`description`: say in a sentence what the crate is",
            ));
        }
        for inherited in ["version", "edition", "rust-version", "license"] {
            if !is_inherited(manifest["package"].get(inherited)) {
                violations.push(Violation::new(
                    source,
                    0,
                    format!("write `{inherited}.workspace = true`"),
                ));
            }
        }
        if !is_inherited(manifest.get("lints")) {
            violations.push(Violation::new(source, 0, "write `[lints] workspace = true`"));
        }
    }
    violations
}

/// Whether it is the manifest of a crate of this workspace: fuzzing has a workspace of its own,
/// because it needs a nightly compiler.
fn is_member(manifest: &Table) -> bool {
    manifest.contains_key("package") && !manifest.contains_key("workspace")
}

fn is_inherited(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

fn height(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(one, _)| *one == name).map(|(_, height)| *height)
}

fn package<'a>(manifest: &'a Table, key: &str) -> Option<&'a str> {
    manifest.get("package")?.get(key)?.as_str()
}

/// The dependencies of a section, for all targets.
fn dependencies<'a>(manifest: &'a Table, section: &str) -> Vec<(&'a str, &'a Value)> {
    let mut tables: Vec<&Table> =
        manifest.get(section).and_then(Value::as_table).into_iter().collect();
    let targets = manifest.get("target").and_then(Value::as_table);
    for target in targets.into_iter().flat_map(Table::values) {
        tables.extend(target.get(section).and_then(Value::as_table));
    }
    tables
        .into_iter()
        .flat_map(|table| table.iter().map(|(name, value)| (name.as_str(), value)))
        .collect()
}

/// Whether the crate's Rust names `dependency`: anywhere for one of tests, outside of tests
/// otherwise.
fn is_named(house: &House, directory: &str, dependency: &str, section: &str) -> bool {
    let name = dependency.replace('-', "_");
    let of_crate = |source: &&Source| {
        source.path.ends_with(".rs")
            && source.path.strip_prefix(directory).is_some_and(|rest| {
                let built = rest.starts_with("src/") || rest.starts_with("fuzz_targets/");
                built || rest == "build.rs" || section != "dependencies"
            })
    };
    house.sources.iter().filter(of_crate).any(|source| names(&source.text, &name))
}

/// Whether a line of code, a comment that is a doc test apart, holds `name` as a word.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        let joined =
            |letter: Option<char>| letter.is_some_and(|one| one.is_alphanumeric() || one == '_');
        !joined(before) && !joined(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_that_point_up_are_found() {
        let house = House::of(&[
            (
                "crates/packet/Cargo.toml",
                "[package]\nname = \"anabranch-packet\"\n[dependencies]\nanabranch-nf.workspace = true\n",
            ),
            (
                "crates/nf/Cargo.toml",
                "[package]\nname = \"anabranch-nf\"\n[dependencies]\nanabranch-packet.workspace = true\n",
            ),
            ("crates/new/Cargo.toml", "[package]\nname = \"anabranch-new\"\n"),
            (
                "crates/cli/Cargo.toml",
                "[package]\nname = \"anabranch\"\n[dependencies]\nanabranch-nfs.workspace = true\n",
            ),
        ]);
        let found = check_direction(&house);
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(
            paths,
            ["crates/packet/Cargo.toml", "crates/new/Cargo.toml", "crates/cli/Cargo.toml"]
        );
    }

    #[test]
    fn unused_dependencies_are_found() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nserde = \"1\"\nserde-json = \"1\"\n\
                        [dev-dependencies]\ntempfile = \"3\"\n[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n";
        let house = House::of(&[
            ("a/Cargo.toml", manifest),
            ("a/src/lib.rs", "use serde::Serialize;\n"),
            ("a/tests/t.rs", "use tempfile::tempdir;\nuse libc::c_int;\n"),
            ("b/src/lib.rs", "use serde_json::Value;\n"),
        ]);
        let found = check_used(&house);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].message.contains("`serde-json`") && found[1].message.contains("`libc`"));
    }

    #[test]
    fn bare_manifests_are_found() {
        let bare = House::of(&[("a/Cargo.toml", "[package]\nname = \"a\"\nversion = \"1.0.0\"\n")]);
        assert_eq!(check_manifests(&bare).len(), 6);
    }
}
