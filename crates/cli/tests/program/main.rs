//! The built program, as a script sees it: exit codes, standard output and error, files.

#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod captures;
mod failures;
mod pages;
mod plan;
mod profile;
mod redis;
mod rss;
mod runs;
mod scaffold;
mod signals;
mod state;
mod trace;
mod verify;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of its own in which the program is run.
struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs `anabranch` with the words of `line`.
    fn run(&self, line: &str) -> Done {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run_words(&words)
    }

    fn run_words(&self, words: &[&str]) -> Done {
        Done::of(self.command(words).output().unwrap(), &words.join(" "))
    }

    /// As [`run`](Self::run), on a system without other programs.
    fn run_alone(&self, line: &str) -> Done {
        let words: Vec<&str> = line.split_whitespace().collect();
        Done::of(self.command(&words).env("PATH", "").output().unwrap(), line)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(words).current_dir(self.directory.path());
        command
    }

    /// Writes generated traffic to `name`.
    fn traffic(&self, name: &str, spec: &str) {
        self.run(&format!("traffic {spec} --out {name}")).expect(0);
        assert!(self.path(name).is_file());
    }

    /// Names in the directory, in order.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// What a run of the program left.
struct Done {
    line: String,
    code: Option<i32>,
    out: String,
    err: String,
}

impl Done {
    fn of(output: Output, line: &str) -> Done {
        Done {
            line: line.to_string(),
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts the exit code.
    #[track_caller]
    fn expect(self, code: i32) -> Done {
        let Done { line, out, err, .. } = &self;
        assert_eq!(self.code, Some(code), "anabranch {line}\n--- out\n{out}\n--- err\n{err}");
        self
    }

    /// Asserts that standard error holds `text`.
    #[track_caller]
    fn says(self, text: &str) -> Done {
        assert!(self.err.contains(text), "anabranch {}: no {text:?} in\n{}", self.line, self.err);
        self
    }

    /// Asserts that standard output holds `text`.
    #[track_caller]
    fn shows(self, text: &str) -> Done {
        assert!(self.out.contains(text), "anabranch {}: no {text:?} in\n{}", self.line, self.out);
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in\n{}", self.out))
    }
}

/// The workspace.
fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
