//! What a data store must be able to do to hold state: the interface that drivers implement.
//!
//! It is deep, not wide: the typed calls, blocking or not, write-behind, merging, timers and locks are
//! built on these four methods, once for all stores. `docs/stores.md` tells how to write one;
//! [`conformance`](crate::conformance) tells whether it is right.

use crate::call::{Call, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::error::Error;
use crate::key::Key;

/// What a store answers to one call.
pub type Answer = Result<Reply, Error>;

/// A connection to a data store. It belongs to one thread; several of the same store may be at work
/// at once.
///
/// An outer error says that the store did not answer and each call may or may not have been done. The
/// driver must be usable again afterwards: it reconnects by itself, without waiting longer than its
/// configured timeout.
pub trait Driver: Send {
    /// Which store it is, for messages and metrics: no password.
    fn name(&self) -> &str;

    /// What whoever opened it should know of what was found, as that some of it was lost.
    fn remark(&self) -> Option<&str> {
        None
    }

    /// Carries out `calls`, each atomically, those on the same object in their order, and answers
    /// each. What [`Call::check`] refuses is answered with that error and not carried out.
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error>;

    /// Carries out each batch whose mark is as expected, all of it or nothing, and answers each. If
    /// [`Batch::check`] refuses one, it is the answer, and nothing is done. Where only a part of the store does not
    /// answer, the batches that are its are [`Refused`](Outcome::Refused), and others are not kept from theirs.
    ///
    /// The default is not atomic; right where the store has nothing better, because batches hold
    /// only calls that may be repeated.
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        batches.iter().try_for_each(Batch::check)?;
        batches.iter().map(|batch| commit_in_steps(self, batch)).collect()
    }

    /// The keys that begin with `prefix`, in no order, those of ended values perhaps among them.
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error>;

    /// Brings what was answered to where it lasts, if it is not there yet; at the end, when nothing more is asked.
    ///
    /// # Errors
    /// It is not known whether all of it is there.
    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Changes that take effect together, if nobody else has written and nothing was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// A value that only the writer of the batch's scope writes. All calls are in its scope.
    pub mark: Key,
    /// What it holds if all is well; `None`: it is not there.
    pub expected: Option<Bytes>,
    /// What it holds when the batch has taken effect.
    pub next: Bytes,
    /// Calls that would change nothing if nobody else has written and nothing was lost: puts of values and counters,
    /// and inserts of what is under a name.
    pub present: Vec<Call>,
    /// [Absolute](Operation::is_absolute) calls: they say how objects end, not by how much they
    /// change.
    pub calls: Vec<Call>,
}

impl Batch {
    /// Whether a store may take it; drivers ask first and refuse all batches with the error.
    pub fn check(&self) -> Result<(), Error> {
        for call in &self.present {
            if seen(call).is_none() {
                return Err(Error::NotInBatch(call.operation.name()));
            }
        }
        for call in self.present.iter().chain(&self.calls) {
            call.check()?;
            if !call.operation.is_absolute() {
                return Err(Error::NotInBatch(call.operation.name()));
            }
            if call.key.scope_str() != self.mark.scope_str() || call.key == self.mark {
                let why = "a batch is of one scope, and its mark is not its own";
                return Err(Error::BadKey { text: call.key.to_string(), why });
            }
        }
        let next = Operation::Put(Content::Value(self.next.clone()));
        Call::new(&self.mark, next).check()
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has taken effect.
    Committed,
    /// Nothing was done: the mark holds something else.
    Found(Option<Bytes>),
    /// Nothing was done: the mark is as expected, and of what was to be [present](Batch::present) something is not.
    Lacks,
    /// Nothing was done, or it is not known whether, for this reason: the store cannot work on this scope now, and
    /// others may be well.
    Refused(Error),
}

fn commit_in_steps<D: Driver + ?Sized>(driver: &mut D, batch: &Batch) -> Result<Outcome, Error> {
    let mark = driver.run(&[Call::new(&batch.mark, Operation::Read)])?;
    let found = value_of(&batch.mark, mark)?;
    if found != batch.expected {
        return Ok(Outcome::Found(found));
    }
    let looks: Vec<Call> = batch.present.iter().filter_map(seen).collect();
    for (call, answer) in batch.present.iter().zip(driver.run(&looks)?) {
        if !shows(&answer?, call) {
            return Ok(Outcome::Lacks);
        }
    }
    for answer in driver.run(&batch.calls)? {
        answer?;
    }
    let next = Operation::Put(Content::Value(batch.next.clone()));
    for answer in driver.run(&[Call::new(&batch.mark, next)])? {
        answer?;
    }
    Ok(Outcome::Committed)
}

/// The call that asks whether `call` would change something; `None`: no call does.
pub(crate) fn seen(call: &Call) -> Option<Call> {
    let look = match &call.operation {
        Operation::Put(Content::Value(_) | Content::Counter(_)) => Operation::Read,
        Operation::Insert(Entry::Pair(name, _) | Entry::Count(name, _)) => {
            Operation::Find(name.clone())
        }
        _ => return None,
    };
    Some(Call::new(&call.key, look))
}

/// Whether `call` would change nothing, by the answer to who asks.
pub(crate) fn shows(answer: &Reply, call: &Call) -> bool {
    match (answer, &call.operation) {
        (Reply::Content(Some(found)), Operation::Put(content)) => found == content,
        (Reply::Found(Some(found)), Operation::Insert(entry)) => found == entry,
        _ => false,
    }
}

/// What a value holds, by the answer to a single `Read`.
pub(crate) fn value_of(key: &Key, answers: Vec<Answer>) -> Result<Option<Bytes>, Error> {
    debug_assert_eq!(key.kind(), Kind::Value);
    match only(answers)? {
        Reply::Content(Some(Content::Value(bytes))) => Ok(Some(bytes)),
        Reply::Content(None) => Ok(None),
        other => Err(unexpected(key, &other)),
    }
}

/// The answer to a single call.
pub(crate) fn only(answers: Vec<Answer>) -> Answer {
    let mut answers = answers.into_iter();
    match (answers.next(), answers.next()) {
        (Some(answer), None) => answer,
        _ => Err(Error::unavailable("driver", "it does not answer each call once")),
    }
}

/// The error for a driver whose reply is not of the kind that was asked for.
pub(crate) fn unexpected(key: &Key, reply: &Reply) -> Error {
    Error::Foreign { key: key.clone(), why: format!("the driver answers {reply:?}") }
}

impl<D: Driver + ?Sized> Driver for Box<D> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn remark(&self) -> Option<&str> {
        (**self).remark()
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        (**self).run(calls)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        (**self).commit(batches)
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        (**self).keys(prefix)
    }
    fn close(&mut self) -> Result<(), Error> {
        (**self).close()
    }
}
