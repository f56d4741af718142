//! The built-in state objects, as the Solo world has them: plain owned structures, no
//! synchronisation at all, no allocation after they are made.

mod allocator;
#[allow(unsafe_code)]
mod bucket;
mod homes;
mod indices;
pub mod journal;
mod loans;
mod map;
mod scalar;
pub(crate) mod shards;
mod shared;
#[allow(unsafe_code)]
pub mod table;
pub mod timers;
mod vector;
pub mod wheel;

pub use allocator::{Allocator, Kept};
pub use homes::Homes;
pub use indices::Within;
pub use loans::Loans;
pub use map::Map;
pub use scalar::{Cell, Counter, Distributed};
pub use shards::{Bundle, MOST_SHARDS, Movable, Scope, ShardSet, Shift, Ward};
pub use shared::{Commons, Count, Deadline, Here, Lifetime, Whereabouts};
pub use vector::Vector;

/// How full a state object is, for the final table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TableUse {
    /// Name of the field, or of the packet set.
    pub name: String,
    /// Entries in use.
    pub used: u64,
    /// Entries that fit.
    pub capacity: u64,
    /// Bytes when full.
    pub bytes: u64,
    /// Accesses past the end (an author's mistake), 0 for a right NF.
    pub faults: u64,
    /// Every place is in use from the start, as the elements of a vector: it cannot fill up.
    pub whole: bool,
    /// All workers have these places together.
    pub common: bool,
}
