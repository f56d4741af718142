//! The other end of a run's socket.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anabranch_runtime::report::RunReport;

use super::arguments::{CaptureArguments, ControlArguments};
use super::endpoint::LONGEST_LINE;
use super::pcapng;
use crate::error::Error;
use crate::figures::{counted, thousands};
use crate::file::{is_standard_output, tell};
use crate::signals::stop_signal;

/// Longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks the run behind the socket at `path`, and returns its answer without the end of the line.
///
/// # Errors
/// [`Error::Input`]: no run listens there; [`Error::Settings`]: the question is too long, or no line.
pub(super) fn ask(path: &Path, line: &str) -> Result<String, Error> {
    one_line(line).map_err(Error::Settings)?;
    let room = LONGEST_LINE - 1;
    if line.len() as u64 > room {
        return Err(Error::Settings(format!(
            "a question to a run has {room} bytes at most, and this one {}",
            line.len()
        )));
    }
    let answer = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    };
    answer().map_err(|cause| unanswered(path, &cause))
}

/// A run reads a question to the end of its line, and would do half of one that goes on.
fn one_line(question: &str) -> Result<(), String> {
    match question.contains('\n') {
        true => Err(format!("a question to a run is one line, and this is not: {question:?}")),
        false => Ok(()),
    }
}

fn unanswered(path: &Path, cause: &std::io::Error) -> Error {
    let there =
        std::fs::metadata(path).ok().filter(|_| cause.kind() == ErrorKind::PermissionDenied);
    let path = path.display();
    if let Some(user) = there.map(|there| there.uid()) {
        return Error::Input(format!(
            "{path}: the run there is that of another user, of number {user}, who alone may ask it: run this as that \
             one (`sudo -u '#{user}' …`)"
        ));
    }
    Error::Input(format!("{path}: no run answers: {cause}; is it there, with `--listen {path}`?"))
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

/// `anabranch capture`: writes copies of packets until it is interrupted, its time is over, or the run is.
///
/// # Errors
/// [`Error::Input`]: no run listens there; [`Error::Usage`]: the filter is wrong, or standard output a terminal;
/// [`Error::Output`].
pub(crate) fn capture(arguments: &CaptureArguments) -> Result<(), Error> {
    let (socket, file) = (&arguments.socket, &arguments.out);
    let filter = arguments.filters.join(" ");
    one_line(&filter).map_err(Error::Usage)?;
    // What hosts have sent is not for a terminal, which does as it is told.
    if is_standard_output(file) && std::io::stdout().is_terminal() {
        let instead = "give `-o FILE`, or `| tshark -r -` after it";
        return Err(Error::Usage(format!("a capture is not written to a terminal: {instead}")));
    }
    let stop = stop_signal();
    let until = arguments.seconds.map(|seconds| Instant::now() + seconds.0);
    let mut copies = Copies::open(socket, &filter).map_err(|cause| unanswered(socket, &cause))?;
    let mut out: Option<Box<dyn Write>> = None;
    while let Some(bytes) = copies.next().map_err(|cause| unanswered(socket, &cause))? {
        if out.is_none() && !bytes.is_empty() {
            if bytes.starts_with(b"error ") {
                let begun = bytes.to_vec();
                return Err(Error::Usage(copies.refusal(begun)));
            }
            out = Some(open(file)?);
        }
        let written = out.as_mut().map_or(Ok(()), |out| out.write_all(bytes));
        match written {
            Err(cause) if cause.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(|cause| Error::output(file, &cause))?,
        }
        if stop.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until) {
            copies.end();
        }
    }
    let Some(mut out) = out else {
        return Err(unanswered(socket, &ErrorKind::UnexpectedEof.into()));
    };
    match out.flush() {
        Err(cause) if cause.kind() == ErrorKind::BrokenPipe => return Ok(()),
        written => written.map_err(|cause| Error::output(file, &cause))?,
    }
    match pcapng::counted(&copies.last) {
        Some((copied, 0)) => tell(&format!("{} copied", counted(copied, "packet"))),
        Some((all, lost)) => {
            tell(&format!("{} of {} packets lost: copy fewer", thousands(lost), thousands(all)));
        }
        None => {
            let why = "the run ended in the middle: what has come is sound, but nothing says what was lost";
            return Err(Error::Input(format!("{}: {why}", socket.display())));
        }
    }
    Ok(())
}

fn open(file: &Path) -> Result<Box<dyn Write>, Error> {
    if is_standard_output(file) {
        return Ok(Box::new(std::io::stdout()));
    }
    let created = File::create(file).map_err(|cause| Error::output(file, &cause))?;
    Ok(Box::new(std::io::BufWriter::new(created)))
}

/// A stream of copies.
struct Copies {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// The end of what has come.
    last: Vec<u8>,
}

impl Copies {
    fn open(socket: &Path, filter: &str) -> std::io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        stream.write_all(format!("capture {filter}\n").as_bytes())?;
        Ok(Self { stream, buffer: vec![0; 1 << 16], last: Vec::new() })
    }

    /// What has come meanwhile, perhaps nothing; `None`: no more will.
    fn next(&mut self) -> std::io::Result<Option<&[u8]>> {
        const KEPT: usize = 64;
        let count = match self.stream.read(&mut self.buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => count,
            Err(cause) => match cause.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => 0,
                ErrorKind::ConnectionReset => return Ok(None),
                _ => return Err(cause),
            },
        };
        let bytes = self.buffer.get(..count).unwrap_or_default();
        self.last.extend_from_slice(bytes.get(count.saturating_sub(KEPT)..).unwrap_or_default());
        self.last.drain(..self.last.len().saturating_sub(KEPT));
        Ok(Some(bytes))
    }

    /// Why there are none, by what has come and all that still comes.
    fn refusal(&mut self, mut text: Vec<u8>) -> String {
        while let Ok(Some(bytes)) = self.next() {
            text.extend_from_slice(bytes);
        }
        String::from_utf8_lossy(&text).trim_start_matches("error ").trim().to_owned()
    }

    /// Wants no more than what is under way.
    fn end(&self) {
        // The other end may have gone first.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_another_user_is_no_run_that_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.sock");
        let why = |kind: ErrorKind| unanswered(&path, &kind.into()).to_string();
        assert!(why(ErrorKind::NotFound).contains("no run answers"));
        assert!(why(ErrorKind::PermissionDenied).contains("no run answers: permission denied"));
        std::fs::write(&path, "").unwrap();
        let user = std::fs::metadata(&path).unwrap().uid();
        let refused = why(ErrorKind::PermissionDenied);
        assert!(refused.contains("run.sock: the run there is that of another user"), "{refused}");
        assert!(refused.contains(&format!("sudo -u '#{user}'")), "{refused}");
        assert!(why(ErrorKind::ConnectionRefused).contains("no run answers"));
    }
}
