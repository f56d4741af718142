//! Runs a network function on one core or many: workers, shards, batches. (The workers follow;
//! the report is here already.)

pub mod report;
