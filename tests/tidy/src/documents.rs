//! Documents: every file says what it is for, every link leads somewhere.

use std::path::Path;

use crate::Violation;
use crate::house::{House, Source};

/// Directories whose files a document may name in backticks.
const NAMED: [&str; 7] = ["crates/", "docs/", "nfs/", "bench/", "tests/", "fuzz/", ".ci/"];

/// Rust files (tests apart) that do not open with `//!`, and library roots that say too little.
pub fn check_openings(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, _) in house.rust().filter(|(source, _)| !source.is_test()) {
        let opening = source.text.lines().take_while(|line| line.starts_with("//!")).count();
        let library = source.path.ends_with("src/lib.rs");
        if opening == 0 {
            violations.push(Violation::new(source, 1, "open with what the file is for: `//! …`"));
        } else if library && opening < 3 {
            let message = "a crate's first page says what it is for and who may depend on it";
            violations.push(Violation::new(source, 1, message));
        }
    }
    violations
}

/// Links between documents and paths in backticks that lead nowhere. `root` is where files that
/// are no text are looked for.
pub fn check_links(house: &House, root: &Path) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in house.sources.iter().filter(|source| source.path.ends_with(".md")) {
        for (line, text) in prose(&source.text) {
            let broken =
                links(text).into_iter().filter(|target| !resolves(house, root, source, target));
            violations.extend(broken.map(|target| {
                Violation::new(source, line, format!("the link `{target}` leads nowhere"))
            }));
            let missing = named_paths(text).filter(|path| !exists(house, root, path));
            violations.extend(
                missing.map(|path| Violation::new(source, line, format!("there is no `{path}`"))),
            );
        }
    }
    violations
}

/// The numbered lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!fence && !in_code).then_some((number + 1, line))
    })
}

/// The targets of `[text](target)` in a line.
fn links(line: &str) -> Vec<&str> {
    let ends = line.match_indices("](").map(|(at, _)| &line[at + 2..]);
    ends.filter_map(|rest| Some(&rest[..rest.find(')')?])).collect()
}

/// Paths of this workspace in backticks; patterns are none.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .map(|code| code.split(':').next().unwrap_or(code))
        .filter(|code| NAMED.iter().any(|directory| code.starts_with(directory)))
        .filter(|code| !code.contains(['*', '<', '{', '…', ' ', '$']))
}

fn resolves(house: &House, root: &Path, from: &Source, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { from.path.clone() } else { joined(&from.path, path) };
    let document = house.sources.iter().find(|source| source.path == path);
    match document {
        Some(document) => anchor.is_empty() || anchors(document).iter().any(|one| one == anchor),
        None => anchor.is_empty() && exists(house, root, &path),
    }
}

fn exists(house: &House, root: &Path, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let directory = format!("{path}/");
    root.join(path).exists()
        || house
            .sources
            .iter()
            .any(|source| source.path == path || source.path.starts_with(&directory))
}

/// `relative` as seen from the directory of `from`.
fn joined(from: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors that a document's headings have where it is shown.
fn anchors(document: &Source) -> Vec<String> {
    prose(&document.text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_its_purpose_is_found() {
        let house = House::of(&[
            ("crates/nf/src/lib.rs", "//! For NF authors.\n"),
            ("crates/nf/src/map.rs", "use std::fmt;\n"),
            ("crates/nf/src/cell.rs", "//! One value.\n"),
            ("crates/nf/tests/idioms.rs", "fn f() {}\n"),
        ]);
        let found = check_openings(&house);
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["crates/nf/src/lib.rs", "crates/nf/src/map.rs"]);
    }

    #[test]
    fn broken_links_are_found() {
        let page = "# A title: here\n[a](b.md) [c](b.md#part-one) [d](#a-title-here) [e](https://example.org)\n\
                    [f](none.md) [g](b.md#none) [h](../README.md)\n```\n[i](none.md)\n```\n\
                    `docs/b.md` `docs/none.md` `crates/*/src` `cargo test`\n";
        let house =
            House::of(&[("docs/a.md", page), ("docs/b.md", "## Part one\n"), ("README.md", "")]);
        let found = check_links(&house, Path::new("/nonexistent"));
        let messages: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
        let expected = [
            "the link `none.md` leads nowhere",
            "the link `b.md#none` leads nowhere",
            "there is no `docs/none.md`",
        ];
        assert_eq!(messages, expected);
    }
}
