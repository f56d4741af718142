//! A window that slides over a byte stream.

use std::io::{self, ErrorKind, Read};

/// Bytes read at once.
const CHUNK_LEN: usize = 1 << 20;

/// The bytes of a stream that are in memory. The buffer grows only to the largest piece ever
/// asked for.
#[derive(Debug)]
pub(super) struct Window<R> {
    stream: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of `start` in the stream.
    offset: u64,
    /// Position of the record that is being read.
    record: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: vec![0; CHUNK_LEN], start: 0, end: 0, offset: 0, record: 0 }
    }

    /// Position in the stream of the first byte that was not yet consumed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Remembers that a record starts here.
    #[inline]
    pub(super) fn begin_record(&mut self) {
        self.record = self.offset;
    }

    /// Position in the stream of the record that was begun last.
    pub(super) fn record_offset(&self) -> u64 {
        self.record
    }

    /// The bytes in memory.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Brings at least `len` bytes into memory; false when the stream ends before.
    #[inline]
    pub(super) fn need(&mut self, len: usize) -> io::Result<bool> {
        if self.end - self.start >= len {
            return Ok(true);
        }
        self.fill(len)
    }

    #[cold]
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        while self.end < len {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Moves past `len` bytes, which must be in memory, and returns them.
    #[inline]
    pub(super) fn consume(&mut self, len: usize) -> &[u8] {
        let consumed = self.start..self.start + len;
        self.start += len;
        self.offset += len as u64;
        &self.buffer[consumed]
    }

    /// Moves past `len` bytes without keeping them; false when the stream ends before.
    pub(super) fn skip(&mut self, mut len: usize) -> io::Result<bool> {
        while len > 0 {
            let piece = len.min(CHUNK_LEN);
            if !self.need(piece)? {
                return Ok(false);
            }
            self.consume(piece);
            len -= piece;
        }
        Ok(true)
    }
}
