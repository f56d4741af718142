//! `doctor`: whether this machine is ready for live ports, and what to run where it is not.

mod interfaces;
mod machine;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::arguments::DoctorArguments;
use crate::error::Error;
use crate::file::print;
use crate::run::to_json;
use crate::table::wrap;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Good,
    /// It costs speed, or is needed by some kinds of ports only.
    Note,
    /// Live ports do not work like this.
    Wrong,
}

/// What was found out of one matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// What it is about: `clock`, or an interface.
    about: String,
    state: State,
    /// What is so.
    says: String,
    /// What to run to have it otherwise.
    run: Vec<String>,
}

impl Finding {
    fn new(about: &str, state: State, says: impl Into<String>) -> Self {
        Self { about: about.to_owned(), state, says: says.into(), run: Vec::new() }
    }

    fn run(mut self, line: impl Into<String>) -> Self {
        self.run.push(line.into());
        self
    }
}

/// The files under which the kernel shows the machine: `/`, or a directory of a test.
struct Files {
    root: PathBuf,
}

impl Files {
    /// What a file says, without the end of its last line; `None`: there is none.
    fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim_end().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.trim().parse().ok()
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The names in a directory, in order.
    fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// Prints what was found out.
///
/// # Errors
/// [`Error::Input`]: there is no such interface.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<(), Error> {
    let files = Files { root: Path::new("/").to_owned() };
    let mut findings = machine::examine(&files);
    findings.extend(interfaces::examine(&files, &arguments.interfaces)?);
    print(&if arguments.json { to_json(&findings)? } else { text(&findings) })
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|one| one.about.len()).max().unwrap_or(0);
    let line = |one: &Finding| {
        let state = match one.state {
            State::Good => "good ",
            State::Note => "note ",
            State::Wrong => "WRONG",
        };
        let run = one.run.iter().map(|line| format!("       {:width$}  $ {line}\n", ""));
        let says = wrap(&format!("{state}  {:width$}  ", one.about), &one.says, 9 + width);
        says + &run.collect::<String>()
    };
    findings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of files.
    pub(super) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = directory.path().to_owned();
        (directory, Files { root })
    }

    #[test]
    fn findings_are_a_line_each_with_what_to_run_below() {
        let findings = [
            Finding::new("clock", State::Good, "tsc"),
            Finding::new("eth1", State::Wrong, "it is down").run("ip link set eth1 up"),
        ];
        assert_eq!(
            text(&findings),
            "good   clock  tsc\nWRONG  eth1   it is down\n              $ ip link set eth1 up\n"
        );
    }

    #[test]
    fn what_is_said_stays_beside_what_it_is_about() {
        let said = text(&[Finding::new("eth1", State::Note, "word ".repeat(20))]);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 80), "{said}");
        assert!(lines[1].starts_with("             word"), "{said}");
    }

    #[test]
    fn this_machine_is_examined() {
        let files = Files { root: Path::new("/").to_owned() };
        let findings = machine::examine(&files);
        let about = |what: &str| findings.iter().any(|one| one.about == what);
        assert!(about("kernel") && about("capabilities") && about("cores"), "{findings:?}");
        let missing = interfaces::examine(&files, &["no-such-one".to_owned()]);
        assert!(missing.is_err_and(|error| error.code() == 4));
    }
}
