//! The planner: from the call paths of a network function (NF) to how it runs on many cores.
//!
//! ```text
//!  Paths ─▶ filter ─▶ touch ─▶ resolve ─▶ shard ─▶ space ─▶ keys ─▶ Plan ─▶ text · TOML · JSON
//!           who       keys in   keys out   which    which     Toeplitz
//!           writes?   fields    of state   packets  bits may  keys, by
//!                                          meet     decide    anabranch-rss
//! ```
//!
//! Two packets that may touch the same entry of an object that packets write must be handled by the
//! same shard. When that is, is a condition between their header fields; what can be said of it as
//! equalities of bits becomes a constraint, and what cannot makes packets meet that need not: an
//! equality left out never separates two packets that must meet. The rules are those of Pereira's
//! thesis "Parallel NF Synthesis" (2021), chapter 3, and some more; `docs/plan.md` lists them.
//!
//! Depends on the analysis and on the solver of keys; used by the command line and the runtime.

mod build;
mod check;
mod class;
mod constraint;
mod error;
mod expression;
mod file;
mod filter;
mod form;
mod indices;
mod keys;
mod left;
mod lend;
mod limit;
mod model;
mod owned;
mod ranges;
mod report;
mod resolve;
mod returned;
mod shard;
mod space;
mod stale;
mod text;
mod timer;
mod touch;
mod variant;
mod word;

pub use build::{Options, plan};
pub use check::check;
pub use class::Class;
pub use error::{PlanError, numbered};
pub use expression::evaluate;
pub use model::{
    Difference, Impossible, Input, Meeting, Object, ObjectMode, Plan, Port, PortClass,
    SteeredAllocation, Steerer, Strategy,
};
