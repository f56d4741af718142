//! Runs a network function on one core or many: workers, shards, batches.

pub mod events;
pub mod instance;
pub mod report;
pub mod testing;
pub mod tuner;
