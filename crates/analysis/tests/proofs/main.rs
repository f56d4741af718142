//! What is proved of state objects, and what is refused though it looks the same.

mod counts;
mod links;
mod pairings;
mod values;

use anabranch_analysis::{Paths, Source, Verdict, paths};

fn explored(text: &str) -> Paths {
    let found = paths(&Source { text, file: "small.rs", line: 1 });
    found.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn drops(found: &Paths) -> Vec<&str> {
    let mut words: Vec<&str> = found
        .paths
        .iter()
        .filter_map(|path| match &path.verdict {
            Verdict::Drop(word) => Some(word.as_str()),
            _ => None,
        })
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}
