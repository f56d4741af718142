//! Transactions over shared words: what cannot be divided among workers, changed by all of them as if
//! by one.
//!
//! ```text
//! worker 0 ── Transaction ──┐     reads objects where they are, writes copies
//! worker 1 ── Transaction ──┤
//!    …                      ▼
//!                        Memory: objects = version + words          Domain: commits of each worker
//!                           ▲
//!  commit: announce ▸ lock what is written ▸ what was read is the same? ▸ store ▸ publish ▸ unlock
//! ```
//!
//! A worker handles a batch of packets in one transaction ([`Worker`]). While it runs, what it reads
//! is the state of *one* moment, whatever others commit meanwhile; what it writes, nobody sees. At
//! its end all takes effect at once, or nothing does and the batch runs again in halves, then singly,
//! and after [`PATIENCE`] attempts with nobody beside it, so that nothing starves.
//!
//! **Strictly serialisable**: committed transactions do what they would do one after the other, in an
//! order in which whatever was committed before another began comes before it.
//!
//! - *No clock, no counter for all.* A version names the worker that made it and the number among
//!   that worker's commits. Who begins copies the counts of all workers; what is beyond them is not
//!   there yet (after Avni and Shavit, "Maintaining Consistent Transactional States Without a Global
//!   Clock", SIROCCO 2008, who keep such a view up to date lazily). Two workers meet only in what
//!   both touch, and in the lines of those counts; and where somebody keeps what they change, in one number
//!   from which commits that change something take theirs (`watcher`).
//! - *One version, validated.* Objects are read where they lie, and their version after that: if it was
//!   there when the transaction began, so was what was read. A transaction that meets a later version
//!   catches up, by looking whether all that it has read is still the same (Felber, Fetzer, Riegel,
//!   "Dynamic Performance Tuning of Word-Based STM", PPoPP 2008). Nothing is left behind that would have
//!   to be collected, so that memory does not grow, and no reader holds up a writer.
//! - *No log where nobody commits meanwhile.* A commit is announced before its locks are taken. Who sees
//!   that no other worker has committed since it began, or is about to, need not look at what it has
//!   read, nor remember it: workers try to do without a log, and keep one where that is in vain
//!   too often (`worker`).
//! - *What nobody changes costs no version.* Memory is taken to be settled until the first transaction
//!   would change it: that one runs alone, and from then on the memory is tracked, until nobody has
//!   changed it for a while ([`Domain::settle`]).
//! - *Nothing is unwound.* When it is certain that a transaction cannot commit, its reads give nothing
//!   any more and its writes are forgotten, until whoever works in it comes to the end.
//! - *Deadlines are raised without a lock*: to refresh an entry is no change.
//! - *Turns where transactions do not pay*: a batch at a time, with nobody beside it, on the objects themselves,
//!   where that was measured to be faster (`turns`).
//!
//! Who may depend on it: the state objects of `anabranch-nf`, and the runtime. It knows words, not
//! what they stand for.
#![forbid(unsafe_code)]

mod count;
mod domain;
mod floor;
mod gate;
mod indices;
mod log;
mod map;
mod memory;
mod profile;
mod sync;
#[cfg(test)]
mod tests;
mod transaction;
mod turns;
mod watcher;
mod worker;

pub use count::Count;
pub use domain::{Domain, MOST_WORKERS};
pub use indices::{Indices, Within, first_gap};
pub use map::{Entry, Map, SlotId};
pub use memory::{Deadline, Memory, Shape, Words};
pub use profile::{Footprints, GivenUp, Key, Relation, Site, Trail, Why};
pub use transaction::{Cause, Place, Transaction};
pub use watcher::Watcher;
pub use worker::{Batch, Counts, MOST_ITEMS, PATIENCE, Worker};
