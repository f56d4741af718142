//! What is proved of state objects, and what is refused though it looks the same.

mod counts;
mod distant;
mod limits;
mod links;
mod pairings;
mod values;
mod writes;

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

/// Each of the `wrong` texts, one place of `right` in other words, leaves nothing `proved`.
fn refused(right: &str, wrong: &[(&str, &str, &str)], proved: impl Fn(&Paths) -> Vec<String>) {
    for (what, here, instead) in wrong {
        let text = right.replacen(here, instead, 1);
        assert_ne!(text, right, "{what}");
        assert_eq!(proved(&explored(&text)), Vec::<String>::new(), "{what}");
    }
}
