//! Files that appear whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anabranch_io::capture::{identity, part_of};

use crate::error::Error;

/// Writes `text` to `path`: first as `path.part` beside it, renamed when it is complete, so that
/// nothing half-written ever stands under the final name. What is no regular file (a device, a
/// pipe) is written to and stays what it is; of a link the file it leads to is replaced. A file that is replaced
/// passes on its permissions.
///
/// # Errors
/// [`Error::Output`] when the file cannot be created, written or renamed; no `.part` is left.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    write(path, text, None)
}

/// The same, open to nobody to whom the file `like` is not.
///
/// # Errors
/// As [`write_whole`].
pub(crate) fn write_as(path: &Path, text: &str, like: &Path) -> Result<(), Error> {
    let permissions =
        fs::metadata(like).map_err(|cause| Error::output(like, &cause))?.permissions();
    write(path, text, Some(permissions))
}

fn write(path: &Path, text: &str, permissions: Option<fs::Permissions>) -> Result<(), Error> {
    if is_special(path) {
        return fs::write(path, text).map_err(|cause| Error::output(path, &cause));
    }
    let file = identity(path);
    let part = part_of(&file);
    let replaced = || fs::metadata(&file).ok().map(|metadata| metadata.permissions());
    let permissions = permissions.or_else(replaced);
    let written = create(&part, permissions)
        .and_then(|mut created| created.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&part, &file));
    written.map_err(|cause| {
        // The failure to report is the first one; there may be no `.part` to remove.
        let _ = fs::remove_file(&part);
        Error::output(path, &cause)
    })
}

fn create(part: &Path, permissions: Option<fs::Permissions>) -> io::Result<fs::File> {
    let created = creating(permissions.as_ref()).open(part)?;
    // The system may have taken some away, and one that was left there has its own.
    permissions.into_iter().try_for_each(|these| created.set_permissions(these))?;
    Ok(created)
}

/// A file that is created has these permissions from the first moment on: nobody else may open it before.
fn creating(permissions: Option<&fs::Permissions>) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if let Some(these) = permissions {
        options.mode(these.mode());
    }
    options
}

/// Checks before long work that `path` can be written at its end.
///
/// # Errors
/// [`Error::Output`], as [`write_whole`] would give later.
pub(crate) fn check_writable(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Err(Error::output(path, &io::Error::from(io::ErrorKind::IsADirectory)));
    }
    if is_special(path) {
        return Ok(());
    }
    let part = part_of(&identity(path));
    fs::File::create(&part)
        .and_then(|_| fs::remove_file(&part))
        .map_err(|cause| Error::output(path, &cause))
}

/// Prints `text` on standard output. A reader that has gone away (`| head`) is no failure.
///
/// # Errors
/// [`Error::Output`] when standard output cannot be written.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    print_by(|| io::stdout().write_all(text.as_bytes()))
}

/// As [`print`], of what somebody else writes there.
pub(crate) fn print_by(write: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match write().and_then(|()| out.flush()) {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|cause| Error::output(Path::new("standard output"), &cause)),
    }
}

/// Prints a line on standard error. Nobody may be left to read it, and then there is nowhere to say so: what runs
/// goes on.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Where a document goes: `-` is standard output, anything else a file.
///
/// # Errors
/// As [`print`] and [`write_whole`].
pub(crate) fn deliver(path: &Path, text: &str) -> Result<(), Error> {
    if is_standard_output(path) { print(text) } else { write_whole(path, text) }
}

/// What the file `path` has. Standard input is read as `/dev/stdin`, as captures are.
///
/// # Errors
/// [`Error::Usage`] for `-`, [`Error::Settings`] for what cannot be read.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    if is_standard_output(path) {
        let message = "`-` is no file that can be read: write /dev/stdin for standard input, ./- for a file \
                       of that name";
        return Err(Error::Usage(message.to_owned()));
    }
    fs::read_to_string(path).map_err(|cause| {
        let why = match cause.kind() {
            io::ErrorKind::InvalidData => "this is no TOML, which is text in UTF-8".to_owned(),
            _ => format!("cannot be read: {cause}"),
        };
        Error::Settings(format!("{}: {why}", path.display()))
    })
}

/// Whether `path` is `-`.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether `path` is a device, a pipe or a socket.
pub(crate) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// The files of a command: none is read and written, or is two documents.
#[derive(Default)]
pub(crate) struct Files {
    /// With the option that names each, as it was written; of one that is written its `.part`, too.
    named: Vec<(String, PathBuf, Option<PathBuf>)>,
    /// The option whose document goes to standard output.
    printed: Option<String>,
}

impl Files {
    /// `path` is read.
    pub(crate) fn reads(&mut self, option: String, path: &Path) {
        self.named.push((option, identity(path), None));
    }

    /// `path` will be written, by way of a `.part` beside it.
    ///
    /// # Errors
    /// [`Error::Usage`]: another option has that file, for one that does not `share` it.
    pub(crate) fn writes(
        &mut self,
        option: String,
        path: &Path,
        shares: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        if is_standard_output(path) || is_special(path) {
            return Ok(());
        }
        let file = identity(path);
        let part = part_of(&file);
        let meets = |taken: &PathBuf| *taken == file || *taken == part;
        let mut named = self.named.iter().filter(|(other, ..)| !shares(other));
        let taken = named.find(|(_, taken, theirs)| meets(taken) || theirs.as_ref() == Some(&file));
        if let Some((other, ..)) = taken {
            return Err(Error::Usage(format!(
                "`{option}` would overwrite the file of `{other}`: give another name"
            )));
        }
        self.named.push((option, file, Some(part)));
        Ok(())
    }

    /// A document where one is asked for.
    ///
    /// # Errors
    /// As [`writes`](Self::writes) and [`prints`](Self::prints).
    pub(crate) fn document(&mut self, option: &str, path: Option<&Path>) -> Result<(), Error> {
        let Some(path) = path else { return Ok(()) };
        let name = format!("{option} {}", path.display());
        if is_standard_output(path) {
            return self.prints(name);
        }
        self.writes(name, path, |_| false)
    }

    /// The document of `option` goes to standard output.
    ///
    /// # Errors
    /// [`Error::Usage`]: so does another.
    pub(crate) fn prints(&mut self, option: String) -> Result<(), Error> {
        if let Some(other) = &self.printed {
            return Err(Error::Usage(format!(
                "`{other}` and `{option}` would both be on standard output: write one of them to a file"
            )));
        }
        self.printed = Some(option);
        Ok(())
    }

    /// A document that is read where one is given.
    pub(crate) fn reads_document(&mut self, option: &str, path: Option<&Path>) {
        path.iter().for_each(|path| self.reads(format!("{option} {}", path.display()), path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_leaves_no_part() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        check_writable(&path).unwrap();
        assert!(!path.exists());
        write_whole(&path, "{}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_secret_is_never_open_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nat.toml.part");
        let secret = fs::Permissions::from_mode(0o600);
        let created = creating(Some(&secret)).open(path).unwrap();
        assert_eq!(created.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_missing_directory_is_an_output_error() {
        let path = Path::new("/nonexistent/report.json");
        for result in [check_writable(path), write_whole(path, "{}")] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Output(_)));
            assert!(error.to_string().contains("/nonexistent/report.json"), "{error}");
        }
    }

    #[test]
    fn a_device_stays_a_device_and_a_link_a_link() {
        use std::os::unix::fs::FileTypeExt;
        let null = Path::new("/dev/null");
        check_writable(null).unwrap();
        write_whole(null, "{}").unwrap();
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        check_writable(&link).unwrap();
        write_whole(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(identity(&link), identity(&file));
    }

    #[test]
    fn standard_output_has_one_document() {
        let mut files = Files::default();
        files.document("-o", Some(Path::new("plan.toml"))).unwrap();
        files.document("--html", Some(Path::new("-"))).unwrap();
        files.document("--report", None).unwrap();
        let error = files.prints("--json".to_owned()).unwrap_err().to_string();
        assert!(error.starts_with("`--html -` and `--json` would both"), "{error}");
    }

    #[test]
    fn a_directory_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        assert!(check_writable(directory.path()).is_err());
        assert!(write_whole(directory.path(), "{}").is_err());
        assert!(directory.path().is_dir());
    }
}
