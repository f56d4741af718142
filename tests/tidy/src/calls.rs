//! Calls that belong in few places or nowhere: threads and locks, clocks, printing, `unwrap`,
//! `unsafe`.
//!
//! The whole token stream is scanned, so that the bodies of macros count too; code for tests does
//! not.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::house::{House, is_for_tests};
use crate::{Source, Violation};

/// A path or call, and where it may stand.
struct Ban {
    /// A path (`std::thread`, with all below it), a macro (`println!`) or a method (`.unwrap`).
    what: &'static str,
    /// Directories that may use it.
    allowed_in: &'static [&'static str],
    /// What to do instead.
    instead: &'static str,
}

const THREADS: &[&str] = &[
    "crates/runtime/",
    "crates/nf/src/tracked/profile.rs",
    "crates/nf/src/tracked/wheel.rs",
    // What workers have removed waits for who tells a store.
    "crates/nf/src/state/journal.rs",
    "crates/txn/src/",
    "crates/io/",
    // Neighbours are learned by one worker at a time.
    "crates/nf/src/l3/learned.rs",
    "crates/store/",
    "bench/",
    // The number of cores.
    "crates/cli/src/arguments.rs",
    // Who waits for work of which nothing can be counted is told that it goes on.
    "crates/cli/src/progress.rs",
    // A deep stack for the interpreter.
    "crates/analysis/src/opaque.rs",
    "crates/analysis/src/paths.rs",
    // Waits for a program that is measured.
    "crates/cli/src/bench/ports.rs",
    // What goes away when a signal ends a command.
    "crates/cli/src/signals.rs",
    // Connections of those who watch and command a living run.
    "crates/cli/src/live",
];
/// Cargo is told by what a build script prints.
const PROGRAMS: &[&str] = &["crates/cli/", "crates/io/build.rs", "bench/", "fuzz/"];
const CLOCKS: &[&str] = &[
    "crates/runtime/",
    "crates/io/",
    "crates/store/",
    "crates/cli/",
    "crates/analysis/",
    "crates/plan/",
    "crates/txn/src/",
    "bench/",
];
/// What ends while no process runs ends by the time of day.
const TIMES_OF_DAY: &[&str] = &["crates/store/src/clock.rs"];

/// Where numbers may be shared: beside threads, in the one file of state objects that says which, and
/// where a signal is told.
const ATOMICS: &[&str] = &[
    "crates/memory/src/lib.rs",
    "crates/nf/src/state/shared.rs",
    // How many neighbours workers have told each other of.
    "crates/nf/src/l3/learned.rs",
    "crates/runtime/",
    "crates/txn/src/",
    "crates/io/",
    "crates/store/",
    "crates/cli/src/live",
    "crates/cli/src/signals.rs",
    "bench/",
];

const BANS: &[Ban] = &[
    ban("std::thread", THREADS, "workers are the runtime's"),
    ban("std::sync::Mutex", THREADS, "state has one owner; sharing is the runtime's"),
    ban("std::sync::RwLock", THREADS, "state has one owner; sharing is the runtime's"),
    ban("std::sync::Condvar", THREADS, "state has one owner; sharing is the runtime's"),
    ban("std::sync::mpsc", THREADS, "state has one owner; sharing is the runtime's"),
    ban("std::sync::atomic", ATOMICS, "state has one owner; sharing is the runtime's"),
    ban("core::sync::atomic", ATOMICS, "state has one owner; sharing is the runtime's"),
    ban("std::time::Instant", CLOCKS, "time is the packet's arrival, `cx.now()`"),
    ban("std::time::SystemTime", TIMES_OF_DAY, "time is the packet's arrival, `cx.now()`"),
    ban("println!", PROGRAMS, "a library returns what is to be said"),
    ban("print!", PROGRAMS, "a library returns what is to be said"),
    ban("eprintln!", PROGRAMS, "a library returns what is to be said"),
    ban("eprint!", PROGRAMS, "a library returns what is to be said"),
    ban("dbg!", &[], "take it out"),
    ban("unimplemented!", &[], "write it, or return a typed error"),
    ban(".unwrap", &[], "return an error, or `expect` with the invariant that holds"),
];

const fn ban(
    what: &'static str,
    allowed_in: &'static [&'static str],
    instead: &'static str,
) -> Ban {
    Ban { what, allowed_in, instead }
}

/// Calls that stand where they may not.
pub fn check(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, file) in house.rust().filter(|(source, _)| !source.is_test()) {
        let tests = test_lines(file);
        let mut calls = token_calls(&tokens(&source.text));
        calls.extend(used_paths(file));
        for (call, line) in calls {
            let in_test = tests.iter().any(|(first, last)| (*first..=*last).contains(&line));
            let banned = BANS.iter().find(|ban| is_below(&call, ban.what));
            let Some(ban) = banned.filter(|_| !in_test) else { continue };
            if !ban.allowed_in.iter().any(|directory| source.path.starts_with(directory)) {
                violations.push(Violation::new(
                    source,
                    line,
                    format!("`{}`: {}", ban.what, ban.instead),
                ));
            }
        }
    }
    violations.sort();
    violations.dedup();
    violations
}

/// `unsafe` outside the files of `allowed`, and blocks and impls without a `SAFETY:` comment.
pub fn check_unsafe(house: &House, allowed: &[&str]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, _) in house.rust() {
        let tokens = tokens(&source.text);
        for pair in tokens.windows(2).filter(|pair| pair[0].text == "unsafe") {
            let line = pair[0].line;
            if !allowed.contains(&source.path.as_str()) {
                let message = "`unsafe` lives in few files, listed in tests/tidy/tests/house.rs";
                violations.push(Violation::new(source, line, message));
            } else if matches!(pair[1].text.as_str(), "{" | "impl")
                && !has_safety_line(source, line)
            {
                violations.push(Violation::new(source, line, "say why it holds: `// SAFETY: …`"));
            }
        }
    }
    violations
}

/// Whether a comment with `SAFETY:` ends on the lines just above `line` (statements may be between
/// the comment and an `unsafe` in the middle of them).
fn has_safety_line(source: &Source, line: usize) -> bool {
    let before: Vec<&str> = source.text.lines().take(line).collect();
    before.iter().rev().take(8).any(|text| text.contains("SAFETY:"))
}

struct Token {
    text: String,
    line: usize,
}

/// All tokens of a file in order; brackets are tokens too. A file that is no Rust has none.
fn tokens(text: &str) -> Vec<Token> {
    let mut flat = Vec::new();
    if let Ok(stream) = text.parse::<TokenStream>() {
        flatten(stream, &mut flat);
    }
    flat
}

fn flatten(stream: TokenStream, flat: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                flat.push(Token { text: open.to_string(), line });
                flatten(group.stream(), flat);
                flat.push(Token { text: close.to_string(), line: group.span_close().start().line });
            }
            other => flat.push(Token { text: other.to_string(), line }),
        }
    }
}

/// Paths (`a::b::c`), macros (`a!`) and methods (`.a`) in the order of the tokens.
fn token_calls(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut calls: Vec<(String, usize)> = Vec::new();
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
    for (index, token) in tokens.iter().enumerate() {
        let name = token.text.starts_with(|first: char| first.is_alphabetic() || first == '_');
        if !name {
            continue;
        }
        let in_path = index >= 3 && text(index - 1) == ":" && text(index - 2) == ":";
        match calls.last_mut() {
            Some((path, _)) if in_path && path.ends_with(text(index - 3)) => {
                path.push_str("::");
                path.push_str(&token.text);
            }
            _ if index > 0 && text(index - 1) == "." => {
                calls.push((format!(".{}", token.text), token.line))
            }
            _ if text(index + 1) == "!" && text(index + 2) != "=" => {
                calls.push((format!("{}!", token.text), token.line))
            }
            _ => calls.push((token.text.clone(), token.line)),
        }
    }
    calls
}

/// Whether `call` is `what` or a path below it.
fn is_below(call: &str, what: &str) -> bool {
    call.strip_prefix(what).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path that a `use` brings in, written out: `use std::{thread, sync::Mutex}` gives two.
fn used_paths(file: &syn::File) -> Vec<(String, usize)> {
    struct Walk(Vec<(String, usize)>);
    impl<'a> Visit<'a> for Walk {
        fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
            write_out(&item.tree, "", &mut self.0);
        }
    }
    let mut walk = Walk(Vec::new());
    walk.visit_file(file);
    walk.0
}

fn write_out(tree: &syn::UseTree, prefix: &str, paths: &mut Vec<(String, usize)>) {
    let line = tree.span().start().line;
    match tree {
        syn::UseTree::Path(path) => {
            write_out(&path.tree, &format!("{prefix}{}::", path.ident), paths)
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| write_out(tree, prefix, paths))
        }
        syn::UseTree::Name(name) => paths.push((format!("{prefix}{}", name.ident), line)),
        syn::UseTree::Rename(name) => paths.push((format!("{prefix}{}", name.ident), line)),
        syn::UseTree::Glob(_) => paths.push((prefix.trim_end_matches("::").to_string(), line)),
    }
}

/// First and last lines of what is compiled for tests only.
fn test_lines(file: &syn::File) -> Vec<(usize, usize)> {
    struct Walk(Vec<(usize, usize)>);
    impl Walk {
        fn add(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) {
            if is_for_tests(attributes) {
                self.0.push((item.span().start().line, item.span().end().line));
            }
        }
    }
    impl<'a> Visit<'a> for Walk {
        fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
            self.add(&item.attrs, item);
            visit::visit_item_mod(self, item);
        }
        fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
            self.add(&item.attrs, item);
        }
        fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
            self.add(&item.attrs, item);
            visit::visit_item_impl(self, item);
        }
        fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
            self.add(&item.attrs, item);
        }
    }
    let mut walk = Walk(Vec::new());
    walk.visit_file(file);
    walk.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&House::of(&[(path, text)])).iter().map(|one| one.line).collect()
    }

    #[test]
    fn threads_and_locks_are_found_however_they_are_written() {
        let text = "use std::{fmt, thread};\nuse std::sync::{Arc, Mutex as Lock};\n\
                    fn f() { std::thread::spawn(g); }\nfn g() { let a = core::sync::atomic::AtomicU8::new(0); }\n\
                    use std::sync::atomic::*;\n";
        assert_eq!(lines("crates/nf/src/a.rs", text), [1, 2, 3, 4, 5]);
        assert!(lines("crates/runtime/src/a.rs", text).is_empty());
    }

    #[test]
    fn calls_in_macros_count_and_calls_in_tests_do_not() {
        let text = "fn f() { a.unwrap(); b.unwrap_or(1); }\nmacro_rules! m { () => { println!(\"\") } }\n\
                    #[cfg(test)]\nmod tests {\n fn f() { a.unwrap(); }\n}\n#[test]\nfn t() { a.unwrap(); }\n\
                    fn ne(print: u8) -> bool { print != 1 }\n";
        assert_eq!(lines("crates/nf/src/a.rs", text), [1, 2]);
        assert!(lines("crates/nf/tests/a.rs", text).is_empty());
    }

    #[test]
    fn clocks_stand_in_few_crates() {
        let text = "fn f() -> u64 { let t = std::time::Instant::now(); 0 }\n";
        assert_eq!(lines("nfs/src/nat.rs", text), [1]);
        assert!(lines("crates/cli/src/progress.rs", text).is_empty());
    }

    #[test]
    fn undocumented_and_misplaced_unsafe_is_found() {
        let text = "fn f() {\n    // SAFETY: it holds.\n    unsafe { g() }\n}\n\n\n\n\n\n\nfn h() { unsafe { g() } }\n";
        let house = House::of(&[("crates/memory/src/lib.rs", text)]);
        let allowed = check_unsafe(&house, &["crates/memory/src/lib.rs"]);
        assert_eq!((allowed.len(), allowed[0].line), (1, 11));
        assert_eq!(check_unsafe(&house, &[]).len(), 2);
        let unmentioned =
            House::of(&[("crates/nf/src/a.rs", "//! unsafe\nconst A: &str = \"unsafe\";\n")]);
        assert_eq!(check_unsafe(&unmentioned, &[]), []);
    }
}
