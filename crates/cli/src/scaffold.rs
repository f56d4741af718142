//! `new`: a crate with one network function, its test, and a program with the whole command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anabranch_language::names;

use crate::arguments::NewArguments;
use crate::error::Error;
use crate::file::print;

/// The files of the new crate; `src/NF.rs` is named after the network function.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("scaffold/Cargo.toml.template")),
    ("README.md", include_str!("scaffold/README.md.template")),
    (".gitignore", "/target\n"),
    ("src/main.rs", include_str!("scaffold/main.rs.template")),
    ("src/{module}.rs", include_str!("scaffold/nf.rs.template")),
];

/// Words that no module can be called.
const TAKEN: [&str; 46] = [
    "as", "async", "await", "box", "break", "const", "continue", "core", "crate", "dyn", "else",
    "enum", "extern", "false", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "main",
    "match", "mod", "move", "mut", "nf", "priv", "pub", "ref", "return", "self", "static", "std",
    "struct", "super", "test", "trait", "true", "try", "type", "unsafe", "use", "where", "while",
];

/// Names that `cargo` keeps for directories of its own.
const DIRECTORIES: [&str; 4] = ["build", "deps", "examples", "incremental"];

/// Types of the new crate beside the one that is called after it.
const TYPES: [&str; 3] = ["Reason", "Settings", "Source"];

/// Writes the crate into a directory of its name.
///
/// # Errors
/// [`Error::Usage`] for a name that no crate can have or a checkout that is not there,
/// [`Error::Output`] when the directory exists already or cannot be written; then nothing is left
/// of the crate.
pub(crate) fn new(arguments: &NewArguments) -> Result<(), Error> {
    let name = arguments.name.as_str();
    check_name(name)?;
    let checkout = checkout(arguments.anabranch.as_deref())?;
    let directory = Path::new(name);
    if directory.exists() {
        return Err(Error::Output(format!(
            "{name}: exists already; choose another name, or remove it"
        )));
    }
    let part = PathBuf::from(format!("{name}.part"));
    let written = write(&part, name, &checkout).and_then(|()| fs::rename(&part, directory));
    written.map_err(|cause| {
        // The failure to report is the first one; there may be no `.part` to remove.
        let _ = fs::remove_dir_all(&part);
        Error::output(directory, &cause)
    })?;
    print(&format!(
        "{name}/ holds a network function, src/{module}.rs, with its test.\n\n\
         cd {name}\n\
         cargo test\n\
         cargo run --release -- run {nf} --in gen:flows=1000,packets=100000 --report report.html\n",
        module = module(name),
        nf = module(name).replace('_', "-"),
    ))
}

fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter)
    };
    let fault = if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        "it must begin with a lower-case letter"
    } else if !name.chars().all(allowed) {
        "only lower-case letters, digits, `-` and `_` can be in it"
    } else if TAKEN.contains(&module(name).as_str()) {
        "the word means something in Rust"
    } else if DIRECTORIES.contains(&name) {
        "cargo has a directory of that name"
    } else if is_taken(&camel(&module(name))) {
        "its type would be called as another in it"
    } else if name.starts_with("anabranch") {
        "the name is Anabranch's own"
    } else if name.len() > 64 {
        "it is longer than 64 letters"
    } else {
        return Ok(());
    };
    Err(Error::Usage(format!("`{name}` cannot be the name of a crate: {fault}; try `my-nf`")))
}

/// Whether the type of the network function cannot be called so: another one is.
fn is_taken(ty: &str) -> bool {
    TYPES.contains(&ty) || names::is_taken(ty)
}

/// Name of the module and of its file.
fn module(name: &str) -> String {
    name.replace('-', "_")
}

/// The checkout to build on: the given one, or the one that this program was built from.
fn checkout(given: Option<&Path>) -> Result<PathBuf, Error> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checkout = given.unwrap_or(&built_from);
    let absolute = fs::canonicalize(checkout).ok();
    absolute.filter(|path| path.join("crates/nf/Cargo.toml").is_file()).ok_or_else(|| {
        let what = match given {
            Some(path) => format!("{}: no checkout of Anabranch", path.display()),
            None => "the checkout that this program was built from is gone".to_string(),
        };
        Error::Usage(format!("{what}; give --anabranch PATH, the directory with crates/nf in it"))
    })
}

fn write(directory: &Path, name: &str, checkout: &Path) -> std::io::Result<()> {
    let module = module(name);
    let fill = |template: &str| {
        template
            .replace("{name}", name)
            .replace("{module}", &module)
            .replace("{Type}", &camel(&module))
            .replace("{nf}", &module.replace('_', "-"))
            .replace("{checkout}", &toml_text(checkout))
    };
    fs::create_dir_all(directory.join("src"))?;
    for (path, template) in FILES {
        fs::write(directory.join(fill(path)), fill(template))?;
    }
    // The same versions as here, so that a machine without a network has them already.
    let lock = checkout.join("Cargo.lock");
    if lock.is_file() {
        fs::copy(lock, directory.join("Cargo.lock"))?;
        lock_new_crate(directory);
    }
    Ok(())
}

/// Has Cargo write the new crate into the copied lock, and what it does not need out of it, as `--locked` wants it. Where
/// Cargo cannot, the first build does so.
fn lock_new_crate(directory: &Path) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["update", "--workspace", "--offline", "--quiet"]).current_dir(directory);
    let _ = cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// `token_bucket` as `TokenBucket`.
fn camel(module: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase())
            .into_iter()
            .chain(letters)
            .collect::<String>()
    };
    module.split('_').map(capital).collect()
}

/// A path as it stands between the quotes of a TOML string.
fn toml_text(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_are_refused_with_a_reason() {
        for (name, reason) in [
            ("", "begin with"),
            ("9lives", "begin with"),
            ("My-Nf", "begin with"),
            ("my nf", "only lower-case"),
            ("../up", "begin with"),
            ("my/nf", "only lower-case"),
            ("match", "means something"),
            ("anabranch-nf", "own"),
            ("deps", "cargo has a directory"),
            ("settings", "called as another"),
            ("source-", "called as another"),
        ] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert!(check_name("token-bucket").is_ok() && check_name("nat64").is_ok());
    }

    #[test]
    fn no_name_is_that_of_another_type_or_value() {
        let objects = names::STATE_OBJECTS.iter().map(|(object, _)| *object);
        let others = [names::VALUE_TYPES, names::SIGNATURE_TYPES, names::VALUES, &TYPES].concat();
        let taken: Vec<&str> = objects.chain(others).filter(|name| *name != "bool").collect();
        assert!(
            ["Counter", "L3", "Ipv4Addr", "Vector", "Ok", "Flood"]
                .iter()
                .all(|name| taken.contains(name))
        );
        for taken in taken {
            let name = anabranch_language::kebab(taken);
            let error = check_name(&name).expect_err(&name).to_string();
            assert!(error.contains("called as another"), "{error}");
        }
    }

    #[test]
    fn types_are_in_camel_case() {
        assert_eq!(camel("token_bucket"), "TokenBucket");
        assert_eq!(camel("nat64"), "Nat64");
    }

    #[test]
    fn a_missing_checkout_is_said() {
        let error = checkout(Some(Path::new("/nonexistent"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent") && error.contains("--anabranch"), "{error}");
    }
}
