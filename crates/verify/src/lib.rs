//! Whether a network function (NF) on many cores does what it does on one.
//!
//! ```text
//!  Generator ─▶ Program ─▶ Simulation (many cores) ─▶ Course ─▶ Sequential (one core, its order)
//!  captures                  Parallel ◀─ plan           │             │
//!                               ▲                       ▼             ▼
//!                            Mutation                Comparison, up to renaming ─▶ shortest Difference
//! ```
//!
//! Each run makes a program's packets of what came out of itself. `docs/verify.md` says what is
//! compared and what is not. The command line depends on this crate.

mod addresses;
mod compare;
mod configured;
mod coverage;
mod edit;
mod endpoint;
mod error;
mod examples;
mod field;
mod generate;
mod guide;
mod limits;
mod mutate;
mod pairs;
mod parallel;
mod passage;
mod program;
mod proofs;
mod replay;
mod routes;
mod run;
mod setup;
mod shrink;
mod simulate;
mod threads;
mod valuation;
mod verify;
mod words;

pub use compare::{Comparison, Sameness};
pub use coverage::{Coverage, Missing, Taken};
pub use edit::Edit;
pub use endpoint::{Endpoint, Placed, endpoints};
pub use error::VerifyError;
pub use examples::example;
pub use generate::Generator;
pub use guide::Guide;
pub use mutate::{Input, Mutation};
pub use parallel::{Fault, Parallel};
pub use program::{Act, Allocated, Arrival, Origin, Program, Step, Template};
pub use replay::replay;
pub use run::{Handled, Outcome, Record, START_NS, Sequential};
pub use setup::Setup;
pub use simulate::{Course, Simulation};
pub use threads::Threaded;
pub use verify::{Difference, Done, Effort, Findings, Subject, verify};
pub use words::describe;
