//! Every network function of the library has call paths, quickly.

use std::path::{Path, PathBuf};

use anabranch_analysis::{Paths, Source, Verdict, paths};

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../nfs/src")
}

/// The annotated module of a file, and the line it starts at.
fn module(text: &str) -> Option<(String, u32)> {
    let start = text.find("#[network_function(")?;
    let line = 1 + text[..start].matches('\n').count();
    let end = text[start..].find("\n}\n")? + 2;
    Some((text[start..start + end].to_owned(), u32::try_from(line).ok()?))
}

fn paths_of(file: &Path) -> Option<Paths> {
    let text = std::fs::read_to_string(file).ok()?;
    let (text, line) = module(&text)?;
    let name = file.file_name()?.to_string_lossy().into_owned();
    match paths(&Source { text: &text, file: &name, line }) {
        Ok(found) => Some(found),
        Err(error) => panic!("{error}"),
    }
}

fn named(name: &str) -> Option<Paths> {
    paths_of(&library().join(name))
}

/// What docs/paths.md says of functions of the library.
const PROVED: [(&str, &str); 7] = [
    ("lb", "it.backend < settings.backend_slots"),
    ("lb", "`it.standing = free` or `it.standing = active | draining && it.generation != 0`"),
    ("lb", "`it.endpoint.address = v6 && it.service >= settings.services.len`"),
    ("lb", "`key.address = v6 && key.protocol = 6 | 17 && it >= settings.services.len`"),
    ("nat", "`inside[key] = i`: `mappings[i]` is there, `it.inside.address = key.address`"),
    // Which a solver gives up on that happens to have been asked other things before.
    ("nat", "`hosts`: `it <= settings.sessions_per_host && it != 0`"),
    (
        "nat",
        "`it.inside.protocol = 6 | 17 && it.state = static && it.shared && it.endless && it.peer.port = 0`",
    ),
];

#[test]
fn every_network_function_of_the_library_has_paths() {
    let (mut seen, mut checked) = (0, 0);
    for entry in std::fs::read_dir(library()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let Some(found) = paths_of(&file) else { continue };
        seen += 1;
        println!("{}: {:?}", found.name, found.statistics);
        assert!(!found.paths.is_empty(), "{}", found.name);
        let proved = found.proved().join("\n");
        for (_, said) in PROVED.iter().filter(|(name, _)| *name == found.name) {
            assert!(proved.contains(said), "{}: {proved}", found.name);
            checked += 1;
        }
        assert!(found.paths.iter().all(|path| path.line > 0 || is_builtin(&path.verdict)));
        assert!(found.to_text().contains(&format!("{} call paths", found.paths.len())));
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["paths"].as_array().unwrap().len(), found.paths.len());
    }
    assert_eq!(checked, PROVED.len());
    assert!(seen >= 5, "only {seen} network functions in {}", library().display());
}

/// Verdicts that are the runtime's stand on no line of the author's.
fn is_builtin(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Drop(reason) if reason == "packet-sets-full" || reason == "no-packet-set")
}

#[test]
fn nop_forwards_from_each_port() {
    let nop = named("nop.rs").unwrap();
    assert_eq!(nop.paths.len(), nop.words.ports.len());
    assert!(nop.paths.iter().all(|path| matches!(path.verdict, Verdict::Forward(_))));
    assert!(nop.paths.iter().all(|path| path.accesses.is_empty() && path.rewrites.is_empty()));
}

#[test]
fn the_policer_is_keyed_by_destination_only() {
    let policer = named("policer.rs").unwrap();
    let keys: Vec<String> = policer
        .accesses()
        .flat_map(|(_, access)| access.key.iter().map(|part| part.name.clone()))
        .collect();
    assert!(!keys.is_empty());
    assert!(keys.iter().all(|key| key == "ipv4.dst" || key == "ipv6.dst"), "{keys:?}");
    assert_eq!(policer.statistics.undecided, 0);
}
