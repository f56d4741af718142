//! The driver `memory`: the default, nothing to install. Optionally durable, by a log and checkpoints
//! in a directory of its own.

mod disk;
mod log;
mod objects;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use log::{Durability, Sync};

use crate::call::{Call, Operation, Reply};
use crate::clock::now_ms;
use crate::content::Content;
use crate::driver::{Answer, Batch, Driver, Outcome, seen, shows};
use crate::error::Error;
use crate::key::Key;
use log::Log;
use objects::Objects;

/// A store in this process. Clones are connections to the same store.
#[derive(Clone)]
pub struct Memory {
    name: String,
    /// What of the files was left out.
    damage: Option<String>,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    objects: Objects,
    files: Files,
}

enum Files {
    None,
    Log(Box<Log>),
    /// Somebody else writes them.
    ReadOnly,
}

impl Default for Memory {
    /// An empty store that ends with the process.
    fn default() -> Self {
        Self::of("memory".to_string(), Objects::default(), Files::None)
    }
}

impl Memory {
    /// The store whose files are in `directory`, made if need be; an error if they are damaged
    /// where no crash can have damaged them, of a later release, or open in another process.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self, Error> {
        let (log, objects, damage) = Log::open(directory, durability)?;
        Ok(Self { damage, ..Self::of(name(directory), objects, Files::Log(Box::new(log))) })
    }

    /// What the files in `directory` come to now, perhaps while another process writes them. Changes
    /// are refused.
    pub fn look(directory: &Path) -> Result<Self, Error> {
        let log::Contents { objects, damage, lack, .. } = log::look(directory)?;
        Ok(Self { damage: damage.or(lack), ..Self::of(name(directory), objects, Files::ReadOnly) })
    }

    fn of(name: String, objects: Objects, files: Files) -> Self {
        Self { name, damage: None, inner: Arc::new(Mutex::new(Inner { objects, files })) }
    }

    /// Writes a checkpoint now; nothing without a directory. Where there is no room for it the log goes on.
    pub fn checkpoint(&self) -> Result<(), Error> {
        let inner = &mut *self.lock();
        match &mut inner.files {
            Files::Log(log) => log.checkpoint(&inner.objects),
            _ => Ok(()),
        }
    }

    /// Brings everything to the disk; nothing without a directory.
    pub fn sync(&self) -> Result<(), Error> {
        match &mut self.lock().files {
            Files::Log(log) => log.sync(),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(directory: &Path) -> String {
    format!("memory:{}", directory.display())
}

impl Inner {
    /// Writes down what is about to be done.
    fn record(&mut self, name: &str, calls: &[&Call], now_ms: u64) -> Result<(), Error> {
        if calls.is_empty() {
            return Ok(());
        }
        match &mut self.files {
            Files::None => Ok(()),
            Files::ReadOnly => {
                let look = "open it for its writer";
                Err(Error::unusable(name, "it is open for reading only", look))
            }
            Files::Log(log) => log.append(calls, now_ms),
        }
    }

    fn checkpoint_if_due(&mut self) -> Result<(), Error> {
        match &mut self.files {
            Files::Log(log) if log.is_over() => log.checkpoint(&self.objects),
            _ => Ok(()),
        }
    }

    fn commit(&mut self, name: &str, batch: &Batch, now_ms: u64) -> Result<Outcome, Error> {
        let mark = self.objects.apply(&Call::new(&batch.mark, Operation::Read), now_ms)?;
        let found = match mark {
            Reply::Content(Some(Content::Value(found))) => Some(found),
            _ => None,
        };
        if found != batch.expected {
            return Ok(Outcome::Found(found));
        }
        for call in &batch.present {
            let Some(look) = seen(call) else { continue };
            if !shows(&self.objects.apply(&look, now_ms)?, call) {
                return Ok(Outcome::Lacks);
            }
        }
        let next = Operation::Put(Content::Value(batch.next.clone()));
        let next = Call::new(&batch.mark, next);
        let calls: Vec<&Call> = batch.calls.iter().chain([&next]).collect();
        self.record(name, &calls, now_ms)?;
        calls.into_iter().try_for_each(|call| self.objects.apply(call, now_ms).map(drop))?;
        Ok(Outcome::Committed)
    }
}

impl Driver for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn remark(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        let mut inner = self.lock();
        let now_ms = now_ms();
        let changes = calls.iter().filter(|call| !call.operation.is_read());
        let changes: Vec<&Call> = changes.filter(|call| call.check().is_ok()).collect();
        inner.record(&self.name, &changes, now_ms)?;
        let answers = calls.iter().map(|call| inner.objects.apply(call, now_ms)).collect();
        inner.checkpoint_if_due()?;
        Ok(answers)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        batches.iter().try_for_each(Batch::check)?;
        let mut inner = self.lock();
        let now_ms = now_ms();
        let each = batches.iter().map(|batch| inner.commit(&self.name, batch, now_ms));
        let outcomes = each.collect::<Result<_, _>>()?;
        inner.checkpoint_if_due()?;
        Ok(outcomes)
    }

    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        Ok(self.lock().objects.keys(prefix))
    }

    fn close(&mut self) -> Result<(), Error> {
        let inner = &mut *self.lock();
        match &mut inner.files {
            Files::Log(log) => log.close(&inner.objects),
            _ => Ok(()),
        }
    }
}
