//! Reads are tried again where a node does not answer: they may be repeated, and another node may know better.

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// How often a read is tried again.
const AGAIN: u32 = 3;

/// For reads only. The library's own policy gives up at once where they see every transaction. A node that is gone is
/// asked by the others until they have noticed, which takes them some ten seconds.
#[derive(Debug)]
pub(super) struct ReadAgain;

impl RetryPolicy for ReadAgain {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Tried(0))
    }
}

/// How often a read has been tried again.
struct Tried(u32);

impl RetrySession for Tried {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        self.0 += 1;
        if self.0 > AGAIN {
            return RetryDecision::DontRetry;
        }
        match request.error {
            // All of its nodes together were late, whoever has asked them.
            RequestAttemptError::DbError(DbError::ReadTimeout { .. }, _) => {
                RetryDecision::RetrySameTarget(None)
            }
            RequestAttemptError::BrokenConnectionError(_)
            | RequestAttemptError::UnableToAllocStreamId
            | RequestAttemptError::DbError(
                DbError::Unavailable { .. }
                | DbError::Overloaded
                | DbError::ServerError
                | DbError::IsBootstrapping,
                _,
            ) => RetryDecision::RetryNextTarget(None),
            _ => RetryDecision::DontRetry,
        }
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}
