//! The store as its users call it: typed objects, each call blocking or `no_wait` (FlexState §3.3.1).
//!
//! ```
//! use anabranch_store::{Client, Memory, Place, Scope};
//!
//! # fn main() -> Result<(), anabranch_store::Error> {
//! let scope = Scope::new("nat", "edge-1", Place::Instance)?;
//! let client = Client::new(Memory::default(), scope, 1024);
//! let flows = client.counter("flows")?;
//! assert_eq!(flows.add(3)?, 3);
//! client.no_wait().counter("flows")?.add(1)?;
//! assert_eq!(flows.read()?, Some(4));
//! # Ok(())
//! # }
//! ```
//!
//! A thread of its own owns the driver. What waits for it goes to the store together, so that many
//! `no_wait` calls are one round trip. Nothing here is for the packet path, which never meets a store:
//! see [`Flusher`](crate::Flusher).

mod object;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

pub use object::{
    Blocking, Counter, CounterMap, List, Map, Mode, NoWait, Object, Set, Typed, Value,
};

use crate::call::{Call, Operation};
use crate::content::Kind;
use crate::driver::{Answer, Driver, only};
use crate::error::Error;
use crate::key::{Key, Scope};

/// Calls that go to the store in one `run`.
const TOGETHER: usize = 256;

/// Typed objects of one scope in a store. Clones share the connection.
pub struct Client<M = Blocking> {
    scope: Scope,
    queue: SyncSender<Job>,
    failures: Arc<Failures>,
    limit: usize,
    mode: std::marker::PhantomData<M>,
}

impl<M> Clone for Client<M> {
    fn clone(&self) -> Self {
        self.in_mode()
    }
}

#[derive(Default)]
struct Failures {
    count: AtomicU64,
    last: Mutex<Option<Error>>,
}

struct Job {
    call: Call,
    /// Where the answer goes; `None`: nobody waits.
    answer: Option<SyncSender<Answer>>,
}

impl Client {
    /// A client for the objects of `scope`, behind which at most `limit` calls wait.
    pub fn new(driver: impl Driver + 'static, scope: Scope, limit: usize) -> Self {
        let (queue, jobs) = sync_channel(limit);
        let failures = Arc::new(Failures::default());
        let noted = Arc::clone(&failures);
        // Ends when the last client is dropped, with everything done.
        thread::spawn(move || serve(driver, &jobs, &noted));
        Self { scope, queue, failures, limit, mode: std::marker::PhantomData }
    }

    /// The same objects; calls return at once and say only whether they are under way.
    pub fn no_wait(&self) -> Client<NoWait> {
        self.in_mode()
    }
}

impl<M> Client<M> {
    fn in_mode<Other>(&self) -> Client<Other> {
        let (scope, queue) = (self.scope.clone(), self.queue.clone());
        let (failures, limit) = (Arc::clone(&self.failures), self.limit);
        Client { scope, queue, failures, limit, mode: std::marker::PhantomData }
    }

    /// `no_wait` calls that failed so far, and why the last one did.
    pub fn failures(&self) -> (u64, Option<Error>) {
        let last = self.failures.last.lock().unwrap_or_else(PoisonError::into_inner);
        (self.failures.count.load(Ordering::Relaxed), last.clone())
    }

    /// The name-value pair `id`.
    pub fn value(&self, id: &str) -> Result<Object<'_, Value, M>, Error> {
        Ok(Object::new(self, self.scope.key(Kind::Value, id)?))
    }

    /// The counter `id`.
    pub fn counter(&self, id: &str) -> Result<Object<'_, Counter, M>, Error> {
        Ok(Object::new(self, self.scope.key(Kind::Counter, id)?))
    }

    /// The list `id`.
    pub fn list(&self, id: &str) -> Result<Object<'_, List, M>, Error> {
        Ok(Object::new(self, self.scope.key(Kind::List, id)?))
    }

    /// The set `id`.
    pub fn set(&self, id: &str) -> Result<Object<'_, Set, M>, Error> {
        Ok(Object::new(self, self.scope.key(Kind::Set, id)?))
    }

    /// The map `id`.
    pub fn map(&self, id: &str) -> Result<Object<'_, Map, M>, Error> {
        Ok(Object::new(self, self.scope.key(Kind::Map, id)?))
    }

    /// The counter map `id`.
    pub fn counter_map(&self, id: &str) -> Result<Object<'_, CounterMap, M>, Error> {
        Ok(Object::new(self, self.scope.key(Kind::CounterMap, id)?))
    }

    fn ask(&self, key: &Key, operation: Operation) -> Answer {
        let (answer, answered) = sync_channel(1);
        let job = Job { call: Call::new(key, operation), answer: Some(answer) };
        let gone = || Error::unavailable(&self.scope, "the client's thread has ended");
        self.queue.send(job).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    fn tell(&self, key: &Key, operation: Operation) -> Result<(), Error> {
        let job = Job { call: Call::new(key, operation), answer: None };
        job.call.check()?;
        self.queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Error::Backlog { limit: self.limit },
            TrySendError::Disconnected(_) => {
                Error::unavailable(&self.scope, "the client's thread has ended")
            }
        })
    }
}

fn serve(mut driver: impl Driver, jobs: &Receiver<Job>, failures: &Failures) {
    while let Ok(first) = jobs.recv() {
        let mut together = vec![first];
        together.extend(jobs.try_iter().take(TOGETHER - 1));
        let (calls, waiting): (Vec<Call>, Vec<_>) =
            together.into_iter().map(|job| (job.call, job.answer)).unzip();
        let answers = match driver.run(&calls) {
            Ok(answers) if answers.len() == calls.len() => answers,
            Ok(_) => vec![only(Vec::new()); calls.len()],
            Err(error) => vec![Err(error); calls.len()],
        };
        for (answer, waiting) in answers.into_iter().zip(waiting) {
            match (waiting, answer) {
                // Who waits no more needs no answer.
                (Some(waiting), answer) => drop(waiting.send(answer)),
                (None, Err(error)) => failures.note(error),
                (None, Ok(_)) => {}
            }
        }
    }
}

impl Failures {
    fn note(&self, error: Error) {
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

#[cfg(test)]
mod tests;
