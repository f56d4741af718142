//! Every idiom of the language gives, interpreted, what it gives natively.

use anabranch_analysis::{Given, Source, evaluate_all, follow_all, paths};
use anabranch_tests::{IDIOMS, Idiom, SOURCES};

/// Ends of ranges, neighbours of powers of two, and anything.
fn inputs() -> Vec<(u16, u32, u64)> {
    let mut inputs = vec![
        (0, 0, 0),
        (1, 1, 1),
        (u16::MAX, u32::MAX, u64::MAX),
        (53, 1_000, 60_000_000_000),
        (80, 0x0a00_0001, 1 << 32),
        (443, 0xc0a8_0101, 1 << 63),
        (8_080, 0xe000_0001, 255),
        (256, 65_536, 256),
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..120 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let small = round % 3 == 0;
        let mixed = seed ^ seed >> 29;
        inputs.push(match small {
            true => ((mixed % 20) as u16, (mixed >> 8) as u32 % 20, (mixed >> 16) % 20),
            false => (mixed as u16, (mixed >> 16) as u32, mixed),
        });
    }
    inputs
}

fn check(idiom: &Idiom, failures: &mut Vec<String>) {
    let source =
        Source { text: idiom.source.text, file: idiom.source.file, line: idiom.source.line };
    let inputs = inputs();
    let arguments: Vec<[u128; 3]> =
        inputs.iter().map(|(a, b, c)| [u128::from(*a), u128::from(*b), u128::from(*c)]).collect();
    let arguments: Vec<&[u128]> = arguments.iter().map(|one| &one[..]).collect();
    match evaluate_all(&source, idiom.name, &arguments) {
        Err(error) => failures.push(format!("{}: {error}", idiom.name)),
        Ok(results) => {
            for ((a, b, c), found) in inputs.into_iter().zip(results) {
                let native = (idiom.run)(a, b, c);
                if u128::from(native) != found {
                    let name = idiom.name;
                    failures.push(format!("{name}({a}, {b}, {c}): {found}, natively {native}"));
                    break;
                }
            }
        }
    }
}

#[test]
fn every_idiom_is_interpreted_as_it_runs() {
    assert!(IDIOMS.len() >= 80, "only {} idioms", IDIOMS.len());
    let mut failures = Vec::new();
    IDIOMS.iter().for_each(|idiom| check(idiom, &mut failures));
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// A `loop` whose end depends on unknowns has too many paths: an error on its line.
const UNBOUNDED: [&str; 2] = ["idiom_053", "idiom_140"];

/// An `#[opaque]` function may be any function there.
const OPAQUE: &str = "idiom_100";

/// Explored with unknown inputs, an idiom has one path for each input, with the native result.
fn follow(idiom: &Idiom, failures: &mut Vec<String>) -> usize {
    let source =
        Source { text: idiom.source.text, file: idiom.source.file, line: idiom.source.line };
    let inputs = inputs();
    let given: Vec<Given> = inputs.iter().map(|(a, b, c)| numbers(*a, *b, *c)).collect();
    let results = match follow_all(&source, idiom.name, &given) {
        Ok(results) => results,
        Err(error) => {
            failures.push(format!("{}: {error}", idiom.name));
            return 0;
        }
    };
    let compared =
        inputs.into_iter().zip(results).filter_map(|(input, found)| Some((input, found?)));
    let mut count = 0;
    for ((a, b, c), found) in compared {
        count += 1;
        let native = (idiom.run)(a, b, c);
        if u128::from(native) != found {
            failures.push(format!("{}({a}, {b}, {c}): {found}, natively {native}", idiom.name));
            break;
        }
    }
    count
}

fn numbers(a: u16, b: u32, c: u64) -> Given {
    let numbers = [("a", u128::from(a)), ("b", u128::from(b)), ("c", u128::from(c))];
    let numbers = numbers.map(|(name, number)| (name.to_owned(), number)).into();
    Given { numbers, payload: Vec::new() }
}

#[test]
fn every_idiom_has_the_paths_that_it_takes() {
    let mut failures = Vec::new();
    let left_out = |name| name == OPAQUE || UNBOUNDED.contains(&name);
    let others = IDIOMS.iter().filter(|idiom| !left_out(idiom.name));
    let compared: usize = others.map(|idiom| follow(idiom, &mut failures)).sum();
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
    assert!(compared > 120 * (IDIOMS.len() - 6), "only {compared} results compared");
}

#[test]
fn every_network_function_of_the_corpus_has_paths() {
    for source in SOURCES {
        let source = Source { text: source.text, file: source.file, line: source.line };
        match paths(&source) {
            Ok(found) => assert!(!found.paths.is_empty(), "{}", found.name),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What happens past the end of lists and vectors is among the paths, with a warning each.
#[test]
fn paths_past_the_end_are_listed() {
    let source = SOURCES.iter().find(|source| source.file.ends_with("bounds.rs"));
    let source = source.unwrap_or_else(|| panic!("no bounds.rs"));
    let source = Source { text: source.text, file: source.file, line: source.line };
    let found = paths(&source).unwrap_or_else(|error| panic!("{error}"));
    let text = found.to_text();
    for verdict in ["Drop(weightless)", "Flood", "Forward("] {
        assert!(text.contains(verdict), "no {verdict} in\n{text}");
    }
    let warned = |words: &str| {
        found.warnings.iter().any(|warning| warning.message.contains(words) && warning.line > 0)
    };
    assert!(warned("past the end of the list") && warned("the index into `seen`"), "{text}");
}
