//! Runs a network function on one core or many: workers, shards, batches.
//!
//! ```text
//!  source ─▶ Division (steering hash ▶ shard ▶ worker) ─▶ Worker ─▶ Instance ─▶ Tally ─▶ sinks
//!                                                          owns its shards' state
//! ```
//!
//! An [`Instance`](instance::Instance) is one NF with all its state and knows nothing of threads; a
//! [`worker`] runs batches on it to completion; [`run`](run::run) divides the packets of a source among
//! workers and merges what they send. Tests drive an instance through [`testing`].
//!
//! The command line and the bench depend on this crate.

mod account;
mod agenda;
pub mod balance;
mod clock;
pub mod cores;
pub mod deployment;
mod division;
pub mod events;
mod finding;
mod handlers;
pub mod hardware;
mod head;
pub mod instance;
mod keeping;
pub mod live;
pub mod lock;
pub mod mailbox;
pub mod profile;
mod reassembly;
pub mod report;
pub mod run;
mod schedule;
pub mod steer;
mod sync;
pub mod tally;
pub mod testing;
pub mod threads;
pub mod trace;
pub mod transactions;
pub mod tuner;
mod upgrade;
pub mod worker;
