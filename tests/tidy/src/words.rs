//! Words and layout that no file may have: paths of one machine, hosts of registries, notes to
//! oneself, and the traces of editors.

use crate::Violation;
use crate::house::{House, Source};

/// What may not be written, and why. Cut in two so that this file does not hold them itself.
const BANNED: [(&str, &str, &str); 12] = [
    ("TO", "DO", "do it, or write an issue"),
    ("FIX", "ME", "fix it, or write an issue"),
    ("XX", "X:", "do it, or write an issue"),
    ("/wo", "rk/", "a path of one machine: make it relative to the workspace"),
    ("/ro", "ot/", "a path of one machine: make it relative to the workspace"),
    ("/ho", "me/", "a path of one machine: make it relative to the workspace"),
    ("index.crates", ".io", "the registry is for the machine's own configuration to name"),
    ("static.crates", ".io", "the registry is for the machine's own configuration to name"),
    ("deb.debian", ".org", "the mirror is for the machine's own configuration to name"),
    ("<<<<", "<<<", "finish the merge"),
    ("being wri", "tten)", "write it"),
    ("lorem ip", "sum", "write it"),
];

/// Banned words, in every text file but the lock file, which Cargo writes.
pub fn check(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in house.sources.iter().filter(|source| !source.path.ends_with("Cargo.lock")) {
        for (number, line) in source.text.lines().enumerate() {
            let found = BANNED.iter().find(|(a, b, _)| holds(line, &format!("{a}{b}")));
            if let Some((a, b, instead)) = found {
                violations.push(Violation::new(source, number + 1, format!("`{a}{b}`: {instead}")));
            }
        }
    }
    violations
}

/// Whether `line` holds `word`, which is not the middle of a longer word or path.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joined =
            |letter: Option<char>| letter.is_some_and(|one| one.is_alphanumeric() || one == '.');
        let ends_in_letter = word.ends_with(char::is_alphanumeric);
        let goes_on = ends_in_letter && after.is_some_and(char::is_alphanumeric);
        !joined(before) && !goes_on
    })
}

/// Blanks at the end of a line, tabs where blanks indent, carriage returns, a last line without
/// its end.
pub fn check_layout(house: &House) -> Vec<Violation> {
    house.sources.iter().flat_map(layout).collect()
}

fn layout(source: &Source) -> Vec<Violation> {
    let tabs = source.path.ends_with("Makefile") || !source.path.contains('.');
    let mut violations = Vec::new();
    for (number, line) in source.text.split('\n').enumerate() {
        let message = match line {
            line if line.ends_with('\r') => "a carriage return",
            line if line.ends_with([' ', '\t']) => "blanks at the end of the line",
            line if line.starts_with('\t') && !tabs => "a tab: indent with blanks",
            _ => continue,
        };
        violations.push(Violation::new(source, number + 1, message));
    }
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        let last = source.text.lines().count();
        violations.push(Violation::new(source, last, "the last line has no end"));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_to_oneself_and_paths_of_one_machine_are_found() {
        let note = format!("// {}{}: later\nlet a = \"{}{}main\";\n", "TO", "DO", "/wo", "rk/");
        let found = check(&House::of(&[("a.rs", &note), ("Cargo.lock", &note)]));
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_word_inside_another_is_none() {
        let text = format!("target{}main and mas{}{}\n", "/work", "TO", "DON");
        assert_eq!(check(&House::of(&[("a.md", &text)])), []);
    }

    #[test]
    fn untidy_layout_is_found() {
        let found =
            check_layout(&House::of(&[("a.rs", "a \n\tb\nc\r\nd"), ("Makefile", "a:\n\tb\n")]));
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}
