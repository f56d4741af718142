//! The files of a durable store: a checkpoint of all objects, and a log of the calls since then.
//!
//! ```text
//! checkpoint-00000007   header │ frame of objects │ … │ frame of none
//! log-00000007          header │ frame of calls │ …            ← appended to
//! ```
//!
//! A header is eight letters and the format; a frame is length, CRC-32 and what it holds, in the
//! postcard encoding. One frame is one `run` or `commit`: it is there whole or not at all. A log is
//! written before the calls take effect; a frame that is cut off or damaged ends it, and what is left
//! is a state that was once true. A checkpoint and the log after it are written beside the old ones
//! (`checkpoint.unfinished`, `log.unfinished`), brought to the disk and then renamed, so that there is
//! always a whole one, and the old ones go on where there is no room for new ones.
//!
//! **Invariant: a log is there from the beginning on**, that of the newest checkpoint or the one before it, and the
//! file `lock` says that there was a beginning. Where none is, somebody has removed it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::disk::{Disk, Syncer};
use super::objects::{Object, Objects};
use crate::call::Call;
use crate::error::Error;
use crate::key::Key;

/// Format of both files. A change of `Operation`, `Content`, `Kind`, `Entry` or `End` other than a
/// new variant at the end is a new format. A release that lacks the variant refuses the file.
pub(super) const FORMAT: u16 = 1;
const LOG: &[u8; 8] = b"anab-log";
const CHECKPOINT: &[u8; 8] = b"anab-ckp";
const HEADER: u64 = 10;
/// Length and checksum of a frame.
const FRAME_HEADER: usize = 8;
/// Objects in a frame of a checkpoint.
const OBJECTS: usize = 1024;
/// What the lock holds once a log has begun.
const BEGUN: &[u8] = b"begun\n";
/// How often files are looked at anew whose writer has made a checkpoint meanwhile.
const LOOKS: u32 = 32;
/// The file that its writer holds.
const LOCK: &str = "lock";
/// What becomes the next checkpoint and log.
const UNFINISHED: [&str; 2] = ["checkpoint.unfinished", "log.unfinished"];

/// When what was written is brought to the disk itself. Until then it survives the end of the
/// process, but perhaps not that of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before each answer.
    Always,
    /// So long after it was written, and at the end.
    Every(Duration),
    /// When the system likes.
    Never,
}

/// Milliseconds between two.
const SYNC_MS: RangeInclusive<u64> = 1..=60_000;

/// As it stands behind the directory in the name of a store: `sync=always`, `sync=never`, `sync=MILLISECONDS`.
impl FromStr for Sync {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = (SYNC_MS.start(), SYNC_MS.end());
        let period = |ms: &str| ms.parse().ok().filter(|ms| SYNC_MS.contains(ms));
        match text.strip_prefix("sync=") {
            Some("always") => Ok(Self::Always),
            Some("never") => Ok(Self::Never),
            Some(ms) if let Some(ms) = period(ms) => Ok(Self::Every(Duration::from_millis(ms))),
            _ => Err(format!(
                "behind the ? stands sync=always, sync=never or sync=MILLISECONDS, {least} to {most}"
            )),
        }
    }
}

/// How a durable store writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// When to bring it to the disk.
    pub sync: Sync,
    /// Bytes of log after which a checkpoint is written; as many as the last one has, where these are more, so
    /// that what is written is not mostly checkpoints, however much state there is.
    pub checkpoint_bytes: u64,
}

impl Default for Durability {
    /// To the disk after 100 ms; a checkpoint after 64 MiB of log.
    fn default() -> Self {
        Self { sync: Sync::Every(Duration::from_millis(100)), checkpoint_bytes: 64 << 20 }
    }
}

impl Durability {
    /// What brings to the disk what is not brought there before each answer.
    fn syncer(&self, disk: &Disk, file: &Arc<File>) -> Option<Syncer> {
        match self.sync {
            Sync::Every(period) => Some(Syncer::new(disk.clone(), file.clone(), period)),
            Sync::Always | Sync::Never => None,
        }
    }
}

#[derive(Serialize)]
struct Record<'a> {
    now_ms: u64,
    calls: &'a [&'a Call],
}

#[derive(Deserialize)]
struct OwnedRecord {
    now_ms: u64,
    calls: Vec<Call>,
}

/// The log that a store appends to.
pub(super) struct Log {
    directory: PathBuf,
    generation: u32,
    /// Written at its end, wherever that is: a write that failed is cut off.
    file: Arc<File>,
    /// Bytes of it that are whole frames.
    len: u64,
    /// As many it had when a checkpoint failed, after which it goes on.
    tried_len: u64,
    /// Bytes of the checkpoint before it.
    checkpoint_len: u64,
    durability: Durability,
    disk: Disk,
    /// Where a write is brought to the disk after some time.
    syncer: Option<Syncer>,
    /// A write failed and could not be taken back, or a checkpoint half way: nothing may be appended any more.
    broken: bool,
    /// Held, so that no other process writes here.
    lock: File,
}

impl Log {
    /// Opens the directory, made if need be, for one writer: the log to append to and the objects
    /// that it comes to, and what of it was left out.
    pub(super) fn open(
        directory: &Path,
        durability: Durability,
    ) -> Result<(Self, Objects, Option<String>), Error> {
        let failed = |error: io::Error| unusable(directory, &error);
        // What is stored is nobody else's business: addresses of users among it.
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let mut lock = owned().truncate(false).open(directory.join(LOCK)).map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => failed(error),
            TryLockError::WouldBlock => Error::Configuration {
                text: format!("memory:{}", directory.display()),
                why: "another process has this directory open: give each its own".to_string(),
            },
        })?;
        let generation = newest(directory, "checkpoint-")?;
        let Contents { objects, len, damage, lack } = read(directory, generation)?;
        forget_unfinished(directory).map_err(failed)?;
        let path = log_path(directory, generation);
        let damage = damage.map(|damage| keep(&path, len, damage)).transpose().map_err(failed)?;
        let file = Arc::new(open_log(&path, len).map_err(failed)?);
        sync_directory(directory).map_err(failed)?;
        // There is a log by now, whatever happens.
        forget_others(directory, generation).map_err(failed)?;
        lock.write_all(BEGUN).and_then(|()| sync_directory(directory)).map_err(failed)?;
        let checkpoint = fs::metadata(checkpoint_path(directory, generation));
        let disk = Disk::new();
        let log = Self {
            directory: directory.to_path_buf(),
            generation,
            syncer: durability.syncer(&disk, &file),
            file,
            len: len.max(HEADER),
            tried_len: 0,
            checkpoint_len: checkpoint.map_or(0, |checkpoint| checkpoint.len()),
            durability,
            disk,
            broken: false,
            lock,
        };
        Ok((log, objects, damage.or(lack)))
    }

    /// Whether the directory is still this writer's: without the lock somebody else may have it.
    fn is_ours(&self) -> Result<(), Error> {
        let removed = "its files were removed while it was in use";
        let look = "begin the run again, and have nobody remove them";
        match is_gone(&self.lock, &self.directory.join(LOCK)) {
            true => Err(Error::unusable(self.directory.display(), removed, look)),
            false => Ok(()),
        }
    }

    /// Appends calls that take effect together.
    pub(super) fn append(&mut self, calls: &[&Call], now_ms: u64) -> Result<(), Error> {
        let broken = self.broken.then(|| "an earlier write failed".to_string());
        if let Some(earlier) = self.disk.last().err().or(broken) {
            let look = "what it has is kept; begin the run again";
            return Err(Error::unusable(self.directory.display(), earlier, look));
        }
        self.is_ours()?;
        let mut bytes = Vec::new();
        let written = frame(&Record { now_ms, calls }, &mut bytes)
            .and_then(|()| self.file.write_all(&bytes))
            .and_then(|()| self.sync_after_write());
        if let Err(error) = written {
            self.broken = self.file.set_len(self.len).is_err();
            return Err(unusable(&self.directory, &error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync_after_write(&mut self) -> io::Result<()> {
        match (self.durability.sync, &mut self.syncer) {
            (Sync::Always, _) => self.disk.bring(&self.file)?,
            (_, Some(syncer)) => syncer.written(),
            (_, None) => {}
        }
        Ok(())
    }

    /// Whether it is time for a checkpoint: it is long, or somebody has removed it.
    pub(super) fn is_over(&self) -> bool {
        let at_least = self.durability.checkpoint_bytes.max(self.checkpoint_len);
        self.len - self.tried_len >= at_least.max(HEADER + 1)
            || is_gone(&self.file, &log_path(&self.directory, self.generation))
                && self.is_ours().is_ok()
    }

    /// Writes a checkpoint of `objects` and goes on with an empty log; with the old one if there is no room.
    pub(super) fn checkpoint(&mut self, objects: &Objects) -> Result<(), Error> {
        self.is_ours()?;
        let [checkpoint, log] = UNFINISHED.map(|name| self.directory.join(name));
        let written = write_checkpoint(&checkpoint, objects)
            .and_then(|len| open_log(&log, 0).map(|file| (Arc::new(file), len)));
        let (file, checkpoint_len) = written.map_err(|error| {
            self.tried_len = self.len;
            // What cannot be removed now is removed by who opens the directory next.
            let _ = forget_unfinished(&self.directory);
            unusable(&checkpoint, &error)
        })?;
        let next = self.generation + 1;
        let switched = fs::rename(&checkpoint, checkpoint_path(&self.directory, next))
            .and_then(|()| sync_directory(&self.directory))
            .and_then(|()| fs::rename(&log, log_path(&self.directory, next)))
            .and_then(|()| sync_directory(&self.directory));
        // The new checkpoint may be there already: what goes to the old log would be lost.
        self.broken |= switched.is_err();
        switched.map_err(|error| unusable(&self.directory, &error))?;
        (self.file, self.checkpoint_len) = (file, checkpoint_len);
        (self.generation, self.len, self.tried_len) = (next, HEADER, 0);
        self.syncer = self.durability.syncer(&self.disk, &self.file);
        forget_others(&self.directory, next).map_err(|error| unusable(&self.directory, &error))
    }

    /// Brings everything to the disk.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.disk.bring(&self.file).map_err(|error| unusable(&self.directory, &error))
    }

    /// Brings to the disk what is to be there at the end. What the system likes it likes then too, and before an
    /// answer it was brought there. Where somebody has removed the log, `objects` are in a checkpoint.
    pub(super) fn close(&mut self, objects: &Objects) -> Result<(), Error> {
        if is_gone(&self.file, &log_path(&self.directory, self.generation)) {
            self.checkpoint(objects)?;
        }
        self.bring_at_end()
    }

    fn bring_at_end(&mut self) -> Result<(), Error> {
        if self.syncer.is_none() {
            return Ok(());
        }
        // Of an earlier failure, too, nobody may have been told.
        let _ = self.disk.bring(&self.file);
        let look = "what was written is with the system; see how the disk is before that ends";
        let told = |why| Error::unusable(self.directory.display(), why, look);
        self.disk.last().map(drop).map_err(told)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Who closes it first is told; here nobody is left.
        let _ = self.bring_at_end();
    }
}

/// What the files of a directory come to.
pub(super) struct Contents {
    pub(super) objects: Objects,
    /// So many bytes of the log are whole.
    len: u64,
    /// Where the log is damaged, if no crash of the process can have damaged it: more that is whole follows.
    pub(super) damage: Option<String>,
    /// Which file somebody has removed, and what that means.
    pub(super) lack: Option<String>,
}

/// What they come to now, while another process may write them.
pub(super) fn look(directory: &Path) -> Result<Contents, Error> {
    for _ in 0..LOOKS {
        let generation = newest(directory, "checkpoint-")?;
        let contents = read(directory, generation);
        // Files of an earlier generation are removed while they are read.
        if newest(directory, "checkpoint-")? == generation {
            return contents;
        }
    }
    let why = "its writer makes checkpoints faster than they can be read";
    Err(Error::unusable(directory.display(), why, "look again when less is written"))
}

fn read(directory: &Path, generation: u32) -> Result<Contents, Error> {
    let failed = |error: io::Error| unusable(directory, &error);
    let mut objects = Objects::default();
    if generation > 0 {
        read_checkpoint(&checkpoint_path(directory, generation), &mut objects)?;
    }
    let path = log_path(directory, generation);
    if newest(directory, "log-")? > generation {
        return Err(damaged(&path, 0, "there is a later log, but not the checkpoint before it"));
    }
    let bytes = read_if_there(&path).map_err(failed)?;
    let header = check_header(&path, &bytes, LOG)?;
    let mut rest = header.unwrap_or(&bytes);
    let mut whole = header.map_or(0, |_| HEADER);
    while header.is_some()
        && let Some((payload, after)) = next_frame(rest)
    {
        let record = postcard::from_bytes::<OwnedRecord>(payload);
        let record = record.map_err(|_| unknown(&path, whole))?;
        for call in &record.calls {
            // What was refused then is refused again.
            let _ = objects.apply(call, record.now_ms);
        }
        whole += (rest.len() - after.len()) as u64;
        rest = after;
    }
    let damage = has_whole_frames(rest).then(|| {
        let (file, left) = (path.display(), rest.len());
        format!("`{file}` is damaged at byte {whole}: the {left} bytes from there on are left out")
    });
    Ok(Contents { objects, len: whole, damage, lack: lack(directory, generation).map_err(failed)? })
}

/// What is said of a directory without a log: that of the checkpoint, or what was there before the first one.
fn lack(directory: &Path, generation: u32) -> io::Result<Option<String>> {
    let before = generation.checked_sub(1);
    let is_its = |log: &u32| *log == generation || Some(*log) == before;
    if generations(directory, "log-")?.iter().any(is_its) {
        return Ok(None);
    }
    let has_begun = generation > 0 || !read_if_there(&directory.join(LOCK))?.is_empty();
    Ok(has_begun.then(|| {
        let gone = log_path(directory, generation);
        let what = match generation {
            0 => "all state is lost with it",
            _ => "the state is that of the checkpoint before it, and older than the last run's",
        };
        format!("`{}` was removed: {what}; to have it back, end this run first", gone.display())
    }))
}

/// Whether nobody finds this file there any more.
fn is_gone(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(known), Ok(found)) => (known.dev(), known.ino()) != (found.dev(), found.ino()),
        (_, Err(error)) => error.kind() == io::ErrorKind::NotFound,
        (Err(_), Ok(_)) => false,
    }
}

/// Whether there is more than what was being written when the process ended, behind a frame or hole of any length.
fn has_whole_frames(bytes: &[u8]) -> bool {
    let begins_one = |at: usize| is_like_frame(&bytes[at..]) && next_frame(&bytes[at..]).is_some();
    (0..bytes.len()).any(begins_one)
}

/// Whether it is worth the while to sum up what a frame here would hold: when it was written, how many calls, and the
/// first one's key.
fn is_like_frame(bytes: &[u8]) -> bool {
    let payload = bytes.get(FRAME_HEADER..).unwrap_or_default();
    let beginning = postcard::take_from_bytes::<(u64, u64, &str)>(payload);
    beginning.is_ok_and(|((_, _, key), _)| key.contains('@'))
}

/// Keeps a copy of the damaged log, of which `len` bytes are whole, beside those of earlier damage, and says so.
fn keep(path: &Path, len: u64, damage: String) -> io::Result<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut copy = path.with_file_name(format!("damaged-{name}-{len}"));
    let mut others = 1;
    while copy.try_exists()? {
        others += 1;
        copy.set_file_name(format!("damaged-{name}-{len}-{others}"));
    }
    // There before anything is cut off. A part of it is no copy, and takes room.
    fs::copy(path, &copy).and_then(|_| File::open(&copy)?.sync_all()).inspect_err(|_| {
        let _ = fs::remove_file(&copy);
    })?;
    path.parent().map_or(Ok(()), sync_directory)?;
    Ok(format!("{damage}, and all of it is kept as `{}`", copy.display()))
}

/// A file that only its owner reads.
fn owned() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    options
}

fn read_checkpoint(path: &Path, objects: &mut Objects) -> Result<(), Error> {
    let bytes = fs::read(path).map_err(|error| unusable(path, &error))?;
    let Some(mut rest) = check_header(path, &bytes, CHECKPOINT)? else {
        return Err(damaged(path, 0, "it ends in its header"));
    };
    loop {
        let at = (bytes.len() - rest.len()) as u64;
        let Some((payload, after)) = next_frame(rest) else {
            return Err(damaged(path, at, "it ends before its end, or its checksum is wrong"));
        };
        let read = postcard::from_bytes::<Vec<(Key, Object)>>(payload);
        let chunk = read.map_err(|_| unknown(path, at))?;
        if chunk.is_empty() {
            return Ok(());
        }
        objects.0.extend(chunk);
        rest = after;
    }
}

/// A log to append to, of which `len` bytes are kept, or that begins.
fn open_log(path: &Path, len: u64) -> io::Result<File> {
    let mut file = owned().append(true).open(path)?;
    file.set_len(len)?;
    if len < HEADER {
        file.set_len(0)?;
        file.write_all(&header(LOG))?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Returns its bytes.
fn write_checkpoint(path: &Path, objects: &Objects) -> io::Result<u64> {
    let mut file = owned().truncate(true).open(path)?;
    file.write_all(&header(CHECKPOINT))?;
    let all: Vec<(&Key, &Object)> = objects.0.iter().collect();
    for chunk in all.chunks(OBJECTS).chain([&[][..]]) {
        let mut bytes = Vec::new();
        frame(&chunk, &mut bytes)?;
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// The rest after a header. `None`: it is cut off.
fn check_header<'a>(
    path: &Path,
    bytes: &'a [u8],
    letters: &[u8; 8],
) -> Result<Option<&'a [u8]>, Error> {
    let expected = header(letters);
    let Some((found, rest)) = bytes.split_at_checked(HEADER as usize) else {
        return match expected.starts_with(bytes) || bytes.iter().all(|byte| *byte == 0) {
            true => Ok(None),
            false => Err(damaged(path, 0, "it is no file of a store")),
        };
    };
    if found.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if found[..8] != letters[..] {
        return Err(damaged(path, 0, "it is no file of a store"));
    }
    match u16::from_le_bytes([found[8], found[9]]) {
        format if format > FORMAT => {
            let what = path.display().to_string();
            Err(Error::LaterFormat { what, found: format, known: FORMAT })
        }
        _ => Ok(Some(rest)),
    }
}

fn header(letters: &[u8; 8]) -> [u8; HEADER as usize] {
    let mut header = [0; HEADER as usize];
    header[..8].copy_from_slice(letters);
    header[8..].copy_from_slice(&FORMAT.to_le_bytes());
    header
}

/// Appends a frame that holds `what`.
fn frame(what: &impl Serialize, bytes: &mut Vec<u8>) -> io::Result<()> {
    let payload = postcard::to_stdvec(what).map_err(io::Error::other)?;
    let len = u32::try_from(payload.len()).map_err(io::Error::other)?.to_le_bytes();
    bytes.extend(len);
    bytes.extend(checksum(&len, &payload).to_le_bytes());
    bytes.extend(payload);
    Ok(())
}

/// What the foremost frame holds, and what comes after; `None` if it is cut off or damaged.
fn next_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    (checksum(len, payload) == u32::from_le_bytes(*sum)).then_some((payload, rest))
}

fn checksum(len: &[u8], payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(len);
    sum.update(payload);
    sum.finalize()
}

fn generations(directory: &Path, what: &str) -> io::Result<Vec<u32>> {
    let mut generations = Vec::new();
    for file in fs::read_dir(directory)? {
        let name = file?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(what));
        generations.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
    }
    Ok(generations)
}

/// The newest generation of which there is such a file; 0 if there is none.
fn newest(directory: &Path, what: &str) -> Result<u32, Error> {
    let all = generations(directory, what).map_err(|error| unusable(directory, &error))?;
    Ok(all.into_iter().max().unwrap_or(0))
}

/// Removes what was to become the next generation.
fn forget_unfinished(directory: &Path) -> io::Result<()> {
    UNFINISHED.iter().try_for_each(|name| match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

/// Removes the files of other generations.
fn forget_others(directory: &Path, generation: u32) -> io::Result<()> {
    for old in generations(directory, "checkpoint-")?.into_iter().filter(|old| *old != generation) {
        fs::remove_file(checkpoint_path(directory, old))?;
    }
    for old in generations(directory, "log-")?.into_iter().filter(|old| *old != generation) {
        fs::remove_file(log_path(directory, old))?;
    }
    Ok(())
}

fn read_if_there(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => {
            file.seek(SeekFrom::Start(0))?;
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bytes),
        Err(error) => Err(error),
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn log_path(directory: &Path, generation: u32) -> PathBuf {
    directory.join(format!("log-{generation:08}"))
}

fn checkpoint_path(directory: &Path, generation: u32) -> PathBuf {
    directory.join(format!("checkpoint-{generation:08}"))
}

fn damaged(path: &Path, offset: u64, why: &'static str) -> Error {
    Error::Damaged { file: path.display().to_string(), offset, why }
}

/// The checksum is right: who wrote it knows more than this release.
fn unknown(path: &Path, offset: u64) -> Error {
    let why = format!("what stands at byte {offset} is whole, but not known to this release");
    Error::unusable(path.display(), why, "use the later release that wrote it")
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    let look = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a directory that this user may write to"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "name a directory; a file stands there"
        }
        io::ErrorKind::NotFound => "there is no such directory",
        io::ErrorKind::StorageFull => "make room on the disk",
        _ => "name another directory, or see what is wrong with the disk",
    };
    Error::unusable(path.display(), error, look)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::call::Operation;
    use crate::content::{Content, Kind};
    use crate::key::{Place, Scope};
    use crate::memory::{Files, Memory};
    use crate::{Answer, Batch, Change, Driver, Flusher, Key, Outcome, Settings};

    /// Nothing else is written meanwhile.
    #[test]
    fn the_disk_has_it_when_it_is_said_to_and_at_the_end() {
        let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Counter, "n").unwrap();
        let call = Call::new(&key, Operation::Add(1));
        let every = |ms| Sync::Every(Duration::from_millis(ms));
        // Whether the disk has it after as long, and at the end.
        for (sync, patience_ms, expected) in [
            (Sync::Always, 0, [true, true]),
            (Sync::Never, 100, [false, false]),
            (every(20), 5_000, [true, true]),
            (every(3_600_000), 100, [false, true]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let durability = Durability { sync, ..Durability::default() };
            let (mut log, objects, _) = Log::open(directory.path(), durability).unwrap();
            // The log of the beginning, and the one after a checkpoint.
            for generation in 0..2 {
                let written = Instant::now();
                log.append(&[&call], 1).unwrap();
                let disk = log.disk.clone();
                let is_there = || disk.last().unwrap() > written;
                while !is_there() && written.elapsed() < Duration::from_millis(patience_ms) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(is_there(), expected[0], "{sync:?}, log {generation}");
                log.checkpoint(&objects).unwrap();
            }
            let (written, disk) = (Instant::now(), log.disk.clone());
            log.append(&[&call], 1).unwrap();
            drop(log);
            assert_eq!(disk.last().unwrap() > written, expected[1], "{sync:?}, at the end");
        }
    }

    /// A store whose disk fails when all is written.
    struct FailsAtTheEnd(Memory);

    impl Driver for FailsAtTheEnd {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
            self.0.run(calls)
        }
        fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
            self.0.commit(batches)
        }
        fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
            self.0.keys(prefix)
        }
        fn close(&mut self) -> Result<(), Error> {
            if let Files::Log(log) = &self.0.lock().files {
                // Nothing can be brought to it.
                log.disk.bring(&File::open("/dev/null").unwrap()).unwrap_err();
            }
            self.0.close()
        }
    }

    #[test]
    fn who_closes_a_run_is_told_what_has_not_reached_the_disk() {
        let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Counter, "n").unwrap();
        let trouble = |store: Box<dyn Driver>| {
            let settings = Settings::default();
            let (flusher, _) = Flusher::open(store, "nat", "a", settings).unwrap();
            let mut feed = flusher.feed();
            feed.change(Change::put(&key, Content::Counter(7)));
            feed.hand_over_surely();
            drop(feed);
            let status = flusher.close(Duration::from_secs(20));
            assert_eq!((status.waiting, status.stored), (0, 1), "{status:?}");
            status.trouble
        };
        let directory = tempfile::tempdir().unwrap();
        let open = || Memory::open(directory.path(), Durability::default()).unwrap();
        assert_eq!(trouble(Box::new(open())), None);
        let told = trouble(Box::new(FailsAtTheEnd(open())));
        assert!(
            told.as_ref().is_some_and(|why| why.contains("did not reach the disk")),
            "{told:?}"
        );
    }

    #[test]
    fn where_it_is_not_known_what_the_disk_has_nothing_more_is_appended() {
        let key = Scope::new("nat", "a", Place::Core(0)).unwrap().key(Kind::Counter, "n").unwrap();
        let call = Call::new(&key, Operation::Add(1));
        let directory = tempfile::tempdir().unwrap();
        let (mut log, ..) = Log::open(directory.path(), Durability::default()).unwrap();
        log.append(&[&call], 1).unwrap();
        // Nothing can be brought to it.
        log.disk.bring(&File::open("/dev/null").unwrap()).unwrap_err();
        log.sync().unwrap();
        let error = log.append(&[&call], 2).unwrap_err().to_string();
        assert!(error.contains("did not reach the disk"), "{error}");
    }
}
