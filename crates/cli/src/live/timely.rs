//! Connections that are served for a time, and no longer.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection whose patience is for all that is read and written, not for each part: who sends a byte now and then
/// would be served for ever.
pub(super) struct Timely<'s, S> {
    stream: &'s S,
    until: Instant,
}

/// A stream whose calls may be given a time, and an end.
pub(super) trait Bounded {
    /// As `set_read_timeout` and `set_write_timeout` of the standard library.
    fn bound(&self, time: Option<Duration>) -> io::Result<()>;

    /// Ends it both ways, whoever else is reading or writing.
    fn shut(&self) -> io::Result<()>;
}

impl Bounded for UnixStream {
    fn bound(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(time).and_then(|()| self.set_write_timeout(time))
    }

    fn shut(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}

impl Bounded for TcpStream {
    fn bound(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(time).and_then(|()| self.set_write_timeout(time))
    }

    fn shut(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}

impl<'s, S: Bounded> Timely<'s, S> {
    /// With so much time from now on.
    pub(super) fn new(stream: &'s S, time: Duration) -> Self {
        Self { stream, until: Instant::now() + time }
    }

    fn bound(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            self.stream.bound(Some(left))
        }
    }
}

impl<S: Bounded> Read for Timely<'_, S>
where
    for<'a> &'a S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bound()?;
        { self.stream }.read(buffer)
    }
}

impl<S: Bounded> Write for Timely<'_, S>
where
    for<'a> &'a S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bound()?;
        { self.stream }.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
