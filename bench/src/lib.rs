//! Network functions measured against the same job written by hand, in one run and in turn.
//!
//! ```text
//! scenario (trace, settings, loops) ──▶ measure: one worker, contestants in turn ──▶ Document
//!                                   └─▶ crew: several workers at once ──────────┘
//! ```
//!
//! See `docs/bench.md` for what is measured and how to read it. The loops to compare with are in
//! [`hand`]; each is read in a minute. The command line depends on this crate.

pub mod clock;
pub mod document;
pub mod hand;

mod crew;
mod held;
mod lane;
mod measure;
mod packets;
mod plan;
mod planned;
mod scenario;

pub use document::Document;
pub use plan::{Plan, STRATEGIES, Step, names, run, work};

use thiserror::Error;

/// Why a bench cannot run.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The function refuses the settings of the bench.
    #[error(transparent)]
    Build(#[from] anabranch_nf::BuildError),
    /// The function drops packets that it should carry: what is measured would not be its work.
    #[error(
        "{nf} dropped {dropped} of {packets} packets of established flows: its figures would not be of its work"
    )]
    Dropped {
        /// The function.
        nf: &'static str,
        /// Packets dropped.
        dropped: u64,
        /// Packets in all.
        packets: u64,
    },
    /// There is no thread for each worker.
    #[error("{}", anabranch_runtime::threads::no_thread("each worker", .0))]
    Threads(std::io::Error),
    /// There is no scenario for it.
    #[error("there is no job written by hand to compare {0} with")]
    Unknown(String),
    /// The bench's settings for a function are wrong, or its flows do not open.
    #[error("{0}")]
    Settings(String),
}
