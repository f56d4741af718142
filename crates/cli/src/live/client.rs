//! The other end of a run's socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anabranch_runtime::report::RunReport;

use super::arguments::ControlArguments;
use crate::error::Error;

/// Longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks the run behind the socket at `path`, and returns its answer without the end of the line.
///
/// # Errors
/// [`Error::Input`]: no run listens there.
pub(super) fn ask(path: &Path, line: &str) -> Result<String, Error> {
    let answer = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    };
    answer().map_err(|cause: std::io::Error| {
        let path = path.display();
        Error::Input(format!(
            "{path}: no run answers: {cause}; is it there, with `--listen {path}`?"
        ))
    })
}

/// The report of this moment.
///
/// # Errors
/// [`Error::Input`]: no run listens there, or what does is something else.
pub(super) fn report(path: &Path) -> Result<RunReport, Error> {
    let answer = ask(path, "report")?;
    let wrong = |why: &str| Error::Input(format!("{}: {why}", path.display()));
    match answer.strip_prefix("error ") {
        Some(why) => Err(wrong(why)),
        None => {
            serde_json::from_str(&answer).map_err(|cause| wrong(&format!("no report: {cause}")))
        }
    }
}

/// `anabranch control`: gives a command, and says nothing when it has been carried out.
///
/// # Errors
/// [`Error::Input`]: no run listens there; [`Error::Settings`]: the command is wrong, or refused.
pub(crate) fn control(arguments: &ControlArguments) -> Result<(), Error> {
    let command = arguments.command.join(" ");
    let answer = ask(&arguments.socket, &format!("control {command}"))?;
    match answer.strip_prefix("error ") {
        None if answer == "ok" => Ok(()),
        why => Err(Error::Settings(format!("{command}: {}", why.unwrap_or("there was no answer")))),
    }
}
