//! What a store keeps of runs: state in shards, and state that workers share.
#![cfg(not(shuttle))]
#![allow(missing_docs, clippy::unwrap_used)]

mod case;
mod moving;
mod shards;
mod shared;
