//! The files of the workspace, read once: text, and syntax where it is Rust.

use std::fs;
use std::io;
use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Directories that hold no text of ours, at the root or in any crate.
const PASSED_OVER: [&str; 8] =
    [".git", "target", "out", "artifacts", "corpus", "coverage", "node_modules", ".cargo"];
/// File names that are read whatever their ending.
const PLAIN_NAMES: [&str; 6] =
    ["Makefile", "install", "run", ".gitignore", "LICENSE", "Cargo.lock"];
/// Endings of files that are read.
const ENDINGS: [&str; 8] = ["rs", "toml", "md", "css", "sh", "yml", "json", "template"];

/// All text files of the workspace, in order of their paths.
pub struct House {
    /// The files.
    pub sources: Vec<Source>,
}

/// One text file.
pub struct Source {
    /// Path relative to the workspace, with `/`.
    pub path: String,
    /// The text.
    pub text: String,
    /// Its syntax, for Rust that parses.
    pub syntax: Option<syn::File>,
}

/// A function with a body, wherever it stands: free, in an `impl`, in a trait, in an NF module.
pub struct Function<'a> {
    /// Its name.
    pub name: String,
    /// Line of `fn`.
    pub first_line: usize,
    /// Line of the closing brace.
    pub last_line: usize,
    /// Its body.
    pub body: &'a syn::Block,
    /// Whether it is compiled for tests only.
    pub test: bool,
}

impl House {
    /// Reads the workspace at `root`.
    ///
    /// # Errors
    /// When a directory or file cannot be read.
    pub fn read(root: &Path) -> io::Result<House> {
        let mut sources = Vec::new();
        collect(root, "", &mut sources)?;
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(House { sources })
    }

    /// A house of the given files, for tests of rules.
    pub fn of(files: &[(&str, &str)]) -> House {
        let sources = files.iter().map(|(path, text)| Source::new(path, text));
        House { sources: sources.collect() }
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = (&Source, &syn::File)> {
        self.sources.iter().filter_map(|source| Some((source, source.syntax.as_ref()?)))
    }

    /// The manifests, parsed; one that is not TOML is left to Cargo.
    pub fn manifests(&self) -> impl Iterator<Item = (&Source, toml::Table)> {
        self.sources
            .iter()
            .filter(|source| source.path.ends_with("Cargo.toml"))
            .filter_map(|source| Some((source, source.text.parse().ok()?)))
    }
}

impl Source {
    /// A file of the given text.
    pub fn new(path: &str, text: &str) -> Source {
        let rust = path.ends_with(".rs");
        Source {
            path: path.to_string(),
            text: text.to_string(),
            syntax: rust.then(|| syn::parse_file(text).ok()).flatten(),
        }
    }

    /// Whether all of the file is compiled for tests, benchmarks or examples only.
    pub fn is_test(&self) -> bool {
        let directory = |name: &str| {
            self.path.starts_with(&format!("{name}/")) || self.path.contains(&format!("/{name}/"))
        };
        ["tests", "benches", "examples"].into_iter().any(directory)
            || self.path.ends_with("/tests.rs")
    }

    /// The crate's directory: `crates/cli` of `crates/cli/src/lib.rs`.
    pub fn crate_directory(&self) -> &str {
        let end = ["/src/", "/tests/", "/benches/", "/examples/"]
            .iter()
            .filter_map(|part| self.path.find(part))
            .min();
        end.map_or("", |end| &self.path[..end])
    }
}

fn collect(root: &Path, relative: &str, sources: &mut Vec<Source>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(relative))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !PASSED_OVER.contains(&name.as_str()) {
            collect(root, &path, sources)?;
        } else if kind.is_file() && is_text(&name) {
            sources.push(Source::new(&path, &fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

fn is_text(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    PLAIN_NAMES.contains(&name) || ENDINGS.contains(&ending)
}

/// Every function with a body in `file`, in order.
pub fn functions(file: &syn::File) -> Vec<Function<'_>> {
    let mut walk = FunctionWalk { functions: Vec::new(), test_depth: 0 };
    walk.visit_file(file);
    walk.functions
}

struct FunctionWalk<'a> {
    functions: Vec<Function<'a>>,
    /// Items for tests only that enclose the current one.
    test_depth: usize,
}

impl<'a> FunctionWalk<'a> {
    fn add(
        &mut self,
        signature: &syn::Signature,
        attributes: &[syn::Attribute],
        body: &'a syn::Block,
    ) {
        self.functions.push(Function {
            name: signature.ident.to_string(),
            first_line: signature.span().start().line,
            last_line: body.span().end().line,
            body,
            test: self.test_depth > 0 || is_for_tests(attributes),
        });
    }
}

impl<'a> Visit<'a> for FunctionWalk<'a> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.attrs, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.attrs, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, &item.attrs, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let test = usize::from(is_for_tests(&item.attrs));
        self.test_depth += test;
        visit::visit_item_mod(self, item);
        self.test_depth -= test;
    }
}

/// Whether an item under `attributes` is compiled for tests only.
pub fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_wherever_they_stand() {
        let house = House::of(&[(
            "a.rs",
            "fn free() {}\nimpl A {\n fn method(&self) {\n }\n}\ntrait T { fn none(); fn default() {} }\n\
             #[network_function(ports(a, b))] mod nf { fn inner() {} }\n\
             #[cfg(test)] mod tests { #[test] fn proof() {} }\n",
        )]);
        let (_, file) = house.rust().next().unwrap();
        let functions = functions(file);
        let names: Vec<&str> = functions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["free", "method", "default", "inner", "proof"]);
        assert_eq!((functions[1].first_line, functions[1].last_line), (3, 4));
        let tests: Vec<bool> = functions.iter().map(|one| one.test).collect();
        assert_eq!(tests, [false, false, false, false, true]);
    }

    #[test]
    fn only_text_of_ours_is_read() {
        assert!(is_text("lib.rs") && is_text("Makefile") && is_text("README.md"));
        assert!(!is_text("lan.pcap") && !is_text("report.html.part"));
    }

    #[test]
    fn a_file_knows_its_crate() {
        let source = Source::new("crates/cli/src/lib.rs", "");
        assert_eq!(source.crate_directory(), "crates/cli");
        assert!(!source.is_test());
        assert!(Source::new("crates/cli/tests/exit.rs", "").is_test());
        assert_eq!(Source::new("README.md", "").crate_directory(), "");
    }
}
