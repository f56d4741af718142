//! Who asks the store, and waits for it.

use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;

use crate::behind::Listing;
use crate::driver::{Batch, Driver, Outcome};
use crate::error::Error;
use crate::key::Scope;
use crate::view;

/// What the store is asked.
pub(super) enum Question {
    Commit(Vec<Batch>),
    /// So many entries at once.
    List(Scope, u32),
}

/// What the flusher waits for.
pub(super) enum News {
    /// The store's answer to a question.
    Committed(Result<Vec<Outcome>, Error>),
    Listed(Result<Listing, Error>),
    /// Workers have changed something, or it is to end.
    Told,
    /// The driver has panicked.
    Gone,
}

/// What the connection has to tell, and if it is that it panics.
pub(super) struct Connection(pub(super) SyncSender<News>);

impl Connection {
    /// Asks the store, one question after the other.
    pub(super) fn answer(
        self,
        mut driver: impl Driver,
        questions: &Receiver<Question>,
    ) -> Result<(), Error> {
        while let Ok(question) = questions.recv() {
            let answer = match question {
                Question::Commit(batches) => News::Committed(driver.commit(&batches)),
                Question::List(scope, page) => {
                    News::Listed(view::listing(&mut driver, &scope, page))
                }
            };
            if self.0.send(answer).is_err() {
                break;
            }
        }
        driver.close()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if thread::panicking() {
            // Where nobody hears it, it does not matter.
            let _ = self.0.send(News::Gone);
        }
    }
}
