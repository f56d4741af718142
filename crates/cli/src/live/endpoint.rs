//! The socket over which a run is asked and commanded: one line, one answer.
//!
//! `report` is answered by the report of this moment as one line of JSON, `control COMMAND` by `ok`, `capture
//! FILTER…` by a pcapng stream until the other end says no more; anything wrong by `error` and why. Whoever
//! may open the socket may do all of this: it belongs to its owner alone.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anabranch_runtime::live::{Copies, Request};
use anabranch_runtime::report::RunReport;

use super::pcapng;
use super::timely::{Bounded, Timely};
use crate::error::Error;

/// Longest question, in bytes, with the end of its line.
pub(super) const LONGEST_LINE: u64 = 4_096;
/// Connections served at once; more wait, and are turned away.
const CONNECTIONS: usize = 16;
/// Time for a request to come, all of it.
pub(super) const ASKING: Duration = Duration::from_secs(2);
/// Time for a request to come where others wait for its place.
const SILENCE: Duration = Duration::from_millis(250);
/// Time for a place where too many are served: those that ask nothing have gone by then.
const WAITING: Duration = Duration::from_secs(3);
/// Time for an answer to be taken, all of it.
pub(super) const ANSWERING: Duration = Duration::from_secs(5);
/// Bytes of the longest path of a socket (`sun_path` of unix(7), without the zero at its end).
const LONGEST_PATH: usize = 107;
/// Time for the last words of connections when the run is over.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The file of a socket, for as long as it is this one.
#[derive(Clone)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode; `None` where they could not be told.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: identity(path) }
    }

    /// Removes it, unless it is gone, or another is there: that of a run which has come after it was removed.
    pub(super) fn remove(&self) {
        if self.identity.is_some() && self.identity == identity(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|there| (there.dev(), there.ino()))
}

/// A socket that goes when it is dropped.
pub(super) struct Endpoint {
    file: SocketFile,
    /// As many as there are connections, and two.
    served: Arc<()>,
}

impl Endpoint {
    /// Makes a socket at `path`, in place of one that nobody listens on, and sends on by `requests` what is
    /// asked there.
    ///
    /// # Errors
    /// [`Error::Output`]: another run listens there, something else is there, or the socket cannot be made.
    pub(super) fn open(path: &Path, requests: Sender<Request>) -> Result<Self, Error> {
        let refuse = |why: &str| {
            let message = format!("{}: {why}: give --listen another path", path.display());
            Err(Error::Output(message))
        };
        if path.as_os_str().len() > LONGEST_PATH {
            return refuse(&format!(
                "a socket's path has {LONGEST_PATH} bytes at most, and this one {}",
                path.as_os_str().len()
            ));
        }
        if UnixStream::connect(path).is_ok() {
            return refuse("another run listens there");
        }
        if fs::symlink_metadata(path).is_ok_and(|there| !there.file_type().is_socket()) {
            return refuse("is there, and is no socket");
        }
        let listener = bind(path)?;
        let file = SocketFile::at(path);
        let accept = move || listener.accept().map(|(stream, _)| stream);
        let talk = move |served: &Served<_>| drop(converse(served, &requests));
        let served = serve(accept, talk, |stream| drop(turn_away(&stream))).map_err(|cause| {
            file.remove();
            Error::no_thread("the socket of --listen", &cause)
        })?;
        Ok(Self { file, served })
    }

    /// The socket's file.
    pub(super) fn file(&self) -> &SocketFile {
        &self.file
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.file.remove();
        // Who is being served gets what there is.
        let until = Instant::now() + LAST_WORDS;
        while Arc::strong_count(&self.served) > 2 && Instant::now() < until {
            std::thread::sleep(PAUSE / 10);
        }
    }
}

/// A listener whose socket nobody else can open at any time: it is made where nobody else may look, and
/// moved.
///
/// # Errors
/// [`Error::Output`].
fn bind(path: &Path) -> Result<UnixListener, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let private = PathBuf::from(name);
    DirBuilder::new().mode(0o700).create(&private).map_err(|cause| match cause.kind() {
        io::ErrorKind::AlreadyExists => Error::Output(format!(
            "{}: is there, left by a run that did not end: remove it, or give --listen another path",
            private.display()
        )),
        _ => Error::output(path, &cause),
    })?;
    let socket = private.join("socket");
    let bound = bind_in(&private).and_then(|listener| {
        fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        fs::rename(&socket, path)?;
        Ok(listener)
    });
    // What is left of a failure.
    let _ = fs::remove_file(&socket);
    let removed = fs::remove_dir(&private);
    bound
        .and_then(|listener| removed.map(|()| listener))
        .map_err(|cause| Error::output(path, &cause))
}

/// A listener on `socket` in `folder`, whose path may be longer than a socket's: then the folder is named by its
/// descriptor.
fn bind_in(folder: &Path) -> io::Result<UnixListener> {
    let socket = folder.join("socket");
    if socket.as_os_str().len() <= LONGEST_PATH {
        return UnixListener::bind(socket);
    }
    let folder = File::open(folder)?;
    UnixListener::bind(format!("/proc/self/fd/{}/socket", folder.as_raw_fd()))
}

/// A connection that is served.
pub(super) struct Served<S> {
    pub(super) stream: S,
    since: Instant,
    /// Whether its request has come, or is not waited for any more.
    is_settled: AtomicBool,
}

impl<S: Bounded> Served<S> {
    fn new(stream: S) -> Self {
        Self { stream, since: Instant::now(), is_settled: AtomicBool::new(false) }
    }

    /// To be called when its request has come. False: it has been closed meanwhile.
    pub(super) fn has_asked(&self) -> bool {
        !self.is_settled.swap(true, Ordering::Relaxed)
    }

    /// Whether its request has not come, and is under way perhaps.
    fn is_new(&self) -> bool {
        !self.is_settled.load(Ordering::Relaxed) && self.since.elapsed() < SILENCE
    }

    /// Closes it if its request has not come. False: it has.
    fn give_up(&self) -> bool {
        let asks_nothing = !self.is_settled.swap(true, Ordering::Relaxed);
        asks_nothing && self.stream.shut().is_ok()
    }
}

/// Handles each connection on a thread of its own, as long as the process lives. Where there are too many, the one that
/// has been there for longest and has asked nothing is closed for one more; if all have asked, it waits a while for
/// another to end, and is turned away. Returns what has as many owners as there are connections, and two.
pub(super) fn serve<S: Bounded + Send + Sync + 'static>(
    accept: impl Fn() -> io::Result<S> + Send + 'static,
    handle: impl Fn(&Served<S>) + Send + Sync + 'static,
    turn_away: impl Fn(S) + Send + 'static,
) -> io::Result<Arc<()>> {
    let handle = Arc::new(handle);
    let counted = Arc::new(());
    let served = Arc::clone(&counted);
    let connection = || Builder::new().name("connection".to_owned());
    let serving = connection().spawn(move || {
        let mut waiting = VecDeque::<Weak<Served<S>>>::new();
        loop {
            let Ok(stream) = accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let (handle, one) = (Arc::clone(&handle), Arc::clone(&served));
            let until = Instant::now() + WAITING;
            let mut is_freed = false;
            while Arc::strong_count(&one) > CONNECTIONS + 2 && Instant::now() < until {
                is_freed = is_freed || free_place(&mut waiting);
                std::thread::sleep(PAUSE / 100);
            }
            if Arc::strong_count(&one) > CONNECTIONS + 2 {
                turn_away(stream);
                continue;
            }
            let stream = Arc::new(Served::new(stream));
            waiting.retain(|one| one.strong_count() > 0);
            waiting.push_back(Arc::downgrade(&stream));
            // Where no thread can be had, the connection is closed.
            let _ = connection().spawn(move || {
                handle(&stream);
                drop((stream, one));
            });
        }
    });
    serving.map(|_| counted)
}

/// Closes the oldest of `connections` that has asked nothing for a while. False: there is none.
fn free_place<S: Bounded>(connections: &mut VecDeque<Weak<Served<S>>>) -> bool {
    while let Some(oldest) = connections.front() {
        let is_closed = match oldest.upgrade() {
            Some(one) if one.is_new() => return false,
            Some(one) => one.give_up(),
            None => false,
        };
        connections.pop_front();
        if is_closed {
            return true;
        }
    }
    false
}

/// Tells who has asked, and waited, why there is no answer.
fn turn_away(mut stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    // A question that nobody has read would break the connection before it is told.
    let _ = stream.read(&mut [0; LONGEST_LINE as usize]);
    let why =
        format!("error {CONNECTIONS} captures and questions are served, and no more at once\n");
    stream.write_all(why.as_bytes())
}

/// Reads a line, and answers.
fn converse(served: &Served<UnixStream>, requests: &Sender<Request>) -> io::Result<()> {
    let (mut line, stream) = (Vec::new(), &served.stream);
    let asked = Timely::new(stream, ASKING);
    BufReader::new(asked.take(LONGEST_LINE)).read_until(b'\n', &mut line)?;
    if !served.has_asked() {
        return Ok(());
    }
    let say = |answer: String| Timely::new(stream, ANSWERING).write_all(answer.as_bytes());
    if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
        return say(format!("error a question is a line of {LONGEST_LINE} bytes at most\n"));
    }
    let line = String::from_utf8_lossy(&line);
    if let Some(filter) = line.trim().strip_prefix("capture") {
        return match copies(filter, requests) {
            Ok(copies) => send_copies(stream, &copies),
            Err(why) => say(format!("error {why}\n")),
        };
    }
    let answer = answer(line.trim(), requests).unwrap_or_else(|why| format!("error {why}"));
    say(answer + "\n")
}

fn copies(filter: &str, requests: &Sender<Request>) -> Result<Copies, String> {
    let (answer, copies) = channel();
    let request = Request::Copy { filter: filter.to_owned(), answer };
    requests.send(request).map_err(|_| ENDING)?;
    copies.recv().map_err(|_| ENDING)?
}

/// Sends copies until the run is over, or the other end says no more. Who reads slowly, or pauses, is waited for:
/// what comes meanwhile and finds no room is lost, and counted.
fn send_copies(stream: &UnixStream, copies: &Copies) -> io::Result<()> {
    stream.bound(None)?;
    let mut out = BufWriter::new(stream);
    out.write_all(&pcapng::head(&copies.ports))?;
    let (mut copied, mut last_ns, mut looks) = (0, 0, Instant::now());
    loop {
        match copies.packets.recv_timeout(PAUSE) {
            Ok(packet) => {
                (copied, last_ns) = (copied + 1, packet.at_ns);
                out.write_all(&pcapng::packet(&packet))?;
            }
            Err(RecvTimeoutError::Timeout) => out.flush()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if looks.elapsed() >= PAUSE {
            looks = Instant::now();
            stream.set_nonblocking(true)?;
            let says_no_more = { stream }.read(&mut [0]).is_ok_and(|count| count == 0);
            stream.set_nonblocking(false)?;
            if says_no_more {
                break;
            }
        }
    }
    let lost = copies.lost.load(Ordering::Relaxed);
    out.write_all(&pcapng::tail(copied, lost, last_ns))?;
    out.flush()
}

fn answer(line: &str, requests: &Sender<Request>) -> Result<String, String> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("report", "") => {
            let report = report(requests).ok_or(ENDING)?;
            serde_json::to_string(&report).map_err(|cause| cause.to_string())
        }
        ("control", command) => {
            let (answer, done) = channel();
            let request = Request::Command { text: command.trim().to_owned(), answer };
            requests.send(request).map_err(|_| ENDING)?;
            done.recv().map_err(|_| ENDING)??;
            Ok("ok".to_owned())
        }
        _ => Err(format!(
            "`{line}` is no request: write `report`, `control COMMAND` or `capture FILTER…`"
        )),
    }
}

const ENDING: &str = "the run is ending";

/// The report of this moment; `None`: the run is over.
pub(super) fn report(requests: &Sender<Request>) -> Option<RunReport> {
    let (answer, report) = channel();
    requests.send(Request::Report(answer)).ok()?;
    report.recv().ok()
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;

    /// Answers requests as a run would.
    fn run(requests: std::sync::mpsc::Receiver<Request>) {
        for request in requests {
            match request {
                Request::Report(answer) => answer.send(RunReport::new("nop")).unwrap(),
                Request::Command { text, answer } => {
                    let done = if text == "flush all=true" { Ok(()) } else { Err(text) };
                    answer.send(done).unwrap();
                }
                Request::Copy { filter, answer } => answer.send(Err(filter)).unwrap(),
            }
        }
    }

    #[test]
    fn a_run_is_asked_and_commanded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nop.sock");
        let (tell, requests) = channel();
        let endpoint = Endpoint::open(&path, tell.clone()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(Endpoint::open(&path, tell).is_err_and(|error| error.code() == 6));
        std::thread::spawn(move || run(requests));
        assert_eq!(client::report(&path).unwrap().nf, "nop");
        assert_eq!(client::ask(&path, "control flush all=true").unwrap(), "ok");
        for (wrong, why) in [
            ("control flush", "error flush"),
            ("capture no", "error  no"),
            ("repeat", "error `repeat` is no"),
        ] {
            let answer = client::ask(&path, wrong).unwrap();
            assert!(answer.starts_with(why), "{answer}");
        }
        // With the end of its line, the first is as long as a question may be.
        let longest = format!("{:<4095}", "control flush");
        assert_eq!(client::ask(&path, &longest).unwrap(), "error flush");
        let longer = longest + " ";
        assert!(client::ask(&path, &longer).is_err_and(|error| error.code() == 3));
        let two = client::ask(&path, "control flush all=true\nreport");
        assert!(
            two.is_err_and(|error| error.code() == 3 && error.to_string().contains("one line"))
        );
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(longer.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "error a question is a line of 4096 bytes at most\n");
        drop(endpoint);
        assert!(!path.exists());
        assert!(client::report(&path).is_err_and(|error| error.code() == 4));
    }

    #[test]
    fn what_is_no_socket_stays_and_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let told = |path: &Path| match Endpoint::open(path, channel().0) {
            Err(error) => (error.code(), error.to_string()),
            Ok(_) => panic!("{} was opened", path.display()),
        };
        let file = directory.path().join("notes");
        fs::write(&file, "mine").unwrap();
        let (code, text) = told(&file);
        assert!(code == 6 && text.contains("notes: is there, and is no socket"), "{text}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        let part = directory.path().join("q.sock.part");
        fs::create_dir(&part).unwrap();
        let (code, text) = told(&directory.path().join("q.sock"));
        assert!(code == 6 && text.contains("q.sock.part: is there, left by"), "{text}");
        assert!(part.is_dir());
    }

    #[test]
    fn a_path_may_be_as_long_as_a_socket_s() {
        let directory = tempfile::tempdir().unwrap();
        let of = |len: usize| {
            let before = directory.path().as_os_str().len() + 1;
            directory.path().join("s".repeat(len - before))
        };
        for len in [90, 95, 96, 106, LONGEST_PATH] {
            let path = of(len);
            let (tell, requests) = channel();
            let endpoint = Endpoint::open(&path, tell).unwrap();
            drop(requests);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert_eq!(client::ask(&path, "report").unwrap(), "error the run is ending");
            drop(endpoint);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{len}");
        }
        let refused = Endpoint::open(&of(LONGEST_PATH + 1), channel().0);
        let why = refused.map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("has 107 bytes at most, and this one 108: give --listen"), "{why}");
    }

    #[test]
    fn who_says_little_is_not_waited_for_long() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("slow.sock");
        let (tell, requests) = channel();
        let _endpoint = Endpoint::open(&path, tell).unwrap();
        drop(requests);
        let mut slow: Vec<UnixStream> =
            (0..CONNECTIONS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let begun = Instant::now();
        let asked = std::thread::spawn(move || client::ask(&path, "report"));
        // Each byte comes in time, if each had all of it.
        while !asked.is_finished() && begun.elapsed() < 4 * ASKING {
            slow.retain_mut(|one| one.write_all(b"x").is_ok());
            std::thread::sleep(ASKING / 5);
        }
        assert_eq!(asked.join().unwrap().unwrap(), "error the run is ending");
        assert!(begun.elapsed() < 2 * ASKING, "{:?}", begun.elapsed());
    }

    #[test]
    fn who_is_one_too_many_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("full.sock");
        // Nobody answers them.
        let (tell, _requests) = channel();
        let _endpoint = Endpoint::open(&path, tell).unwrap();
        let asked = || {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"report\n").unwrap();
            stream
        };
        let _served: Vec<UnixStream> = (0..CONNECTIONS).map(|_| asked()).collect();
        let answer = client::ask(&path, "control flush").unwrap();
        assert!(answer.starts_with("error 16 captures and questions are served"), "{answer}");
    }

    #[test]
    fn the_socket_of_a_later_run_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("two.sock");
        let (tell, _requests) = channel();
        let first = Endpoint::open(&path, tell).unwrap();
        fs::remove_file(&path).unwrap();
        let (tell, requests) = channel();
        let _second = Endpoint::open(&path, tell).unwrap();
        drop((first, requests));
        assert_eq!(client::ask(&path, "report").unwrap(), "error the run is ending");
    }

    #[test]
    fn a_socket_that_is_left_over_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("left.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (tell, requests) = channel();
        let _endpoint = Endpoint::open(&path, tell).unwrap();
        drop(requests);
        assert_eq!(client::ask(&path, "report").unwrap(), "error the run is ending");
    }
}
