//! What a store keeps of runs: state in shards, and state that workers share.

mod case;
mod clock;
mod fits;
mod moving;
mod shards;
mod shared;
mod upgrade;
