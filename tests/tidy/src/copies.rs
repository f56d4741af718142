//! One copy of each thing: functions of different files whose bodies are nearly the same.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use crate::house::{self, House};
use crate::{Source, Violation};

/// Bodies shorter than this are not compared: two loops over a list may look alike.
const LINES: usize = 8;
/// Bodies of fewer tokens are not compared: eight lines of one call broken by the formatter.
const TOKENS: usize = 60;
/// Tokens in a row that are compared as one.
const RUN: usize = 5;
/// Share of the runs that two bodies have in common when they are copies.
const ALIKE: f64 = 0.85;

struct Body<'a> {
    source: &'a Source,
    name: String,
    line: usize,
    runs: HashSet<u64>,
}

/// Functions that are nearly a copy of one in an earlier file. Test code is not compared, nor is
/// what stands in the directories of `apart`, which are kept readable each on their own.
pub fn check(house: &House, apart: &[&str]) -> Vec<Violation> {
    let bodies = bodies(house, apart);
    let mut violations = Vec::new();
    for (index, later) in bodies.iter().enumerate() {
        let copy = bodies[..index].iter().find(|earlier| {
            earlier.source.path != later.source.path && alike(earlier, later) >= ALIKE
        });
        if let Some(earlier) = copy {
            let message = format!(
                "`{}` is nearly `{}` of {}:{}: keep one",
                later.name, earlier.name, earlier.source.path, earlier.line
            );
            violations.push(Violation::new(later.source, later.line, message));
        }
    }
    violations
}

fn bodies<'a>(house: &'a House, apart: &[&str]) -> Vec<Body<'a>> {
    let mut bodies = Vec::new();
    let ours = |path: &str| !apart.iter().any(|directory| path.starts_with(directory));
    for (source, file) in house.rust().filter(|(source, _)| !source.is_test() && ours(&source.path))
    {
        for function in house::functions(file) {
            let lines = function.last_line - function.first_line + 1;
            let mut words = Vec::new();
            words_of(function.body.to_token_stream(), &mut words);
            if !function.test && lines >= LINES && words.len() >= TOKENS {
                let (name, line) = (function.name, function.first_line);
                bodies.push(Body { source, name, line, runs: runs(&words) });
            }
        }
    }
    bodies
}

/// The body's tokens; literals are all the same, names are themselves.
fn words_of(stream: TokenStream, words: &mut Vec<String>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                words.push(format!("{:?}", group.delimiter()));
                words_of(group.stream(), words);
            }
            TokenTree::Literal(_) => words.push("0".to_string()),
            other => words.push(other.to_string()),
        }
    }
}

fn runs(words: &[String]) -> HashSet<u64> {
    let hash = |run: &[String]| {
        let mut hasher = DefaultHasher::new();
        run.hash(&mut hasher);
        hasher.finish()
    };
    words.windows(RUN).map(hash).collect()
}

/// Runs in common, as a share of all runs of both (Jaccard).
fn alike(a: &Body, b: &Body) -> f64 {
    let common = a.runs.intersection(&b.runs).count();
    common as f64 / (a.runs.len() + b.runs.len() - common).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "fn first(table: &Table) -> u32 {\n    let mut sum = 0;\n    for row in table.rows() {\n\
        if row.is_used() && row.age() > 7 {\n sum += row.weight() * 2;\n } else if row.is_free() {\n\
        sum -= row.weight() / 3;\n }\n }\n sum.max(table.floor()).min(table.ceiling())\n}\n";

    #[test]
    fn a_copy_with_other_figures_is_found() {
        let copy = BODY.replace("first", "second").replace('7', "9");
        let house = House::of(&[("a.rs", BODY), ("b.rs", &copy)]);
        let found = check(&house, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("`second` is nearly `first` of a.rs:1"), "{}", found[0]);
        assert_eq!(check(&house, &["b"]), []);
    }

    #[test]
    fn other_work_is_no_copy() {
        let other =
            BODY.replace("sum", "total").replace("is_used", "is_open").replace("weight", "size");
        assert_eq!(check(&House::of(&[("a.rs", BODY), ("b.rs", &other)]), &[]), []);
    }
}
