//! The driver `cassandra`: Apache Cassandra 4.1 and 5, and what speaks its protocol.
//!
//! A [scope](crate::Scope) is one partition of one table, an entry one row:
//!
//! ```text
//! anabranch_state   scope, kind, id, entry ─▶ value, number, ends
//!                   scope, '', '', ''      ─▶ number: the partition's version
//! ```
//!
//! FlexState has a key space for each core and a table for each type (§4.2); maps are rows there as
//! here. One partition instead: a store like this one changes rows of one partition of one table
//! together or not at all, and only those.
//!
//! **Invariant: every write is a lightweight transaction** that looks at the partition's version, or at
//! the mark of its writer, and gives the partition a new version. So calls are atomic, a batch takes
//! effect all of it or not at all, and a count is a comparison: done once, or not known.

mod address;
mod link;
mod requests;
mod retry;
mod rows;
mod schema;

pub use address::Address;

use link::Link;

use crate::call::Call;
use crate::driver::{Answer, Batch, Driver, Outcome};
use crate::error::Error;
use crate::key::Key;

/// A connection to Cassandra. It connects when first used and again after a failure.
pub struct Cassandra {
    link: Link,
}

impl Cassandra {
    /// A connection to the servers at `address`; none need be there yet.
    pub fn new(address: Address) -> Self {
        Self { link: Link::new(address) }
    }
}

impl Driver for Cassandra {
    fn name(&self) -> &str {
        self.link.name()
    }

    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        self.link.ask(async |requests| requests.run(calls).await)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        batches.iter().try_for_each(Batch::check)?;
        self.link.ask(async |requests| requests.commit(batches).await)
    }

    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.link.ask(async |requests| requests.keys(prefix).await)
    }
}
