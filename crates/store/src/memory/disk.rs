//! What of a log is on the disk itself, and the thread that brings it there when it is time.

use std::fs::File;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// When the disk last had everything; an error once it is not known any more what it has.
#[derive(Clone)]
pub(super) struct Disk(Arc<Mutex<Result<Instant, String>>>);

impl Disk {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Ok(Instant::now()))))
    }

    /// Brings to the disk what was written to `file`.
    pub(super) fn bring(&self, file: &File) -> io::Result<()> {
        let done = file.sync_data();
        // A later success says nothing of what an earlier one did not write.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_ok() {
            *last = match &done {
                Ok(()) => Ok(Instant::now()),
                Err(error) => Err(format!("what was written did not reach the disk: {error}")),
            };
        }
        done
    }

    /// When it last had everything, or why that is not known.
    pub(super) fn last(&self) -> Result<Instant, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Brings to the disk what is written to a file, a period after the first write that is not there. Ends when
/// dropped, with what was written last not on the disk.
pub(super) struct Syncer {
    /// That something was written; `None` at the end.
    tell: Option<SyncSender<()>>,
    /// None where none can be had: who writes brings it there then.
    thread: Option<JoinHandle<()>>,
    disk: Disk,
    file: Arc<File>,
    period: Duration,
    /// What was written before then is brought to the disk at that time or after.
    due: Instant,
}

impl Syncer {
    pub(super) fn new(disk: Disk, file: Arc<File>, period: Duration) -> Self {
        // Told of one more while it is busy, who writes waits: the disk is not left behind by more.
        let (tell, written) = mpsc::sync_channel(1);
        let (of_disk, of_file) = (disk.clone(), Arc::clone(&file));
        let work = move || sync_in_time(&written, &of_disk, &of_file, period);
        let thread = thread::Builder::new().spawn(work).ok();
        let tell = thread.is_some().then_some(tell);
        Self { tell, thread, disk, file, period, due: Instant::now() }
    }

    /// Something was written.
    pub(super) fn written(&mut self) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + self.period;
        match &self.tell {
            Some(tell) => tell.send(()).expect("the thread ends after this sender only"),
            // Of a failure who writes next is told.
            None => drop(self.disk.bring(&self.file)),
        }
    }
}

fn sync_in_time(written: &Receiver<()>, disk: &Disk, file: &File, period: Duration) {
    let mut next = written.recv().ok();
    while next.is_some() {
        // More is told of only when the period is over.
        let more = written.recv_timeout(period);
        if more == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        // Of a failure who writes next is told, by what is known of the disk.
        let _ = disk.bring(file);
        next = more.ok().or_else(|| written.recv().ok());
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic, and what it was to do is done by who drops it.
            let _ = thread.join();
        }
    }
}
