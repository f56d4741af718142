//! Call paths of a network function (NF).
//!
//! The analysis interprets the author's own source text, embedded by `#[network_function]`, with
//! symbolic packets, and enumerates every way through every handler:
//!
//! ```text
//!  text ─▶ anabranch-language ─▶ interpret ─▶ path ─▶ text, JSON
//!              (syn, checked)      │   ▲
//!                     branch on an │   │ which way
//!                          unknown ▼   │
//!                                explore ─▶ bounds ─▶ example ─▶ solver (z3, a program of the system)
//! ```
//!
//! A handler is run again and again, each time with the next prefix of decisions, until every
//! feasible one has been taken. Conditions, keys and rewrites are terms ([`expr`]) over packet
//! fields, settings, the time and the results of earlier accesses.
//!
//! What the list of paths leaves out, it says: loops whose number of iterations is unknown are
//! unrolled a few times ([`Budget::unrolled`]) unless any turn stands for all
//! ([`Budget::turns_alike`]), `#[opaque]` functions and `L3` are unknown
//! functions, and the paths of `init` are not among them. Nothing else is approximated but by listing a
//! path that cannot happen: results of look-ups under keys that are equal without being the same
//! expression are unrelated, but for what is proved of state ([`Link`]) and parts that writes leave as they were;
//! and that what a path has freed can be taken again is not proved, but taken (`docs/paths.md`).
//!
//! Used by the planner and the command line; depends on `anabranch-language`, and on `anabranch-packet` for
//! its table of header fields.

mod access;
mod bounds;
mod canonical;
#[cfg(test)]
mod drawn;
mod error;
mod evaluate;
mod example;
mod explore;
pub mod expr;
mod follow;
mod handlers;
mod hash;
mod interpret;
mod models;
mod objects;
mod opaque;
mod path;
mod paths;
mod proofs;
mod render;
mod solver;

pub use access::{Access, Mode, Part};
pub use error::AnalysisError;
pub use evaluate::{evaluate, evaluate_all};
pub use explore::Budget;
pub use follow::{Given, follow_all};
pub use models::Models;
pub use objects::{Site, StateObject};
pub use opaque::Opaque;
pub use path::{CallPath, Condition, Effect, Rewrite, Verdict, Warning};
pub use paths::{Left, Paths, Source, Statistics, paths, paths_within};
pub use proofs::{Counted, Fixed, Link, Pairing, Stepped, Values};
