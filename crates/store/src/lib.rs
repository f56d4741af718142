//! State stores: one interface over many data stores, as FlexState has it (Pozza et al., 2020), so that
//! an NF runs with any of them and is not changed by a line.
//!
//! Knows nothing of NFs, packets or workers: whoever keeps state may depend on it, and data stores of
//! others may be made to fit by implementing [`Driver`].
//!
//! ```text
//!  caller ── Client ── typed calls, blocking or no_wait ─┐
//!                                                        ├─▶ Driver ─▶ memory │ redis │ cassandra │ yours
//!  worker ── Feed ═══▶ Flusher ── changes, coalesced ────┘
//!            (never waits)   owns a copy of all state, pushes it again where the store lost it
//! ```

pub mod behind;
pub mod call;
#[cfg(feature = "cassandra")]
pub mod cassandra;
pub mod client;
mod clock;
pub mod conformance;
pub mod content;
pub mod driver;
pub mod error;
pub mod flusher;
pub mod key;
pub mod location;
pub mod lock;
pub mod memory;
#[cfg(any(feature = "redis", feature = "cassandra"))]
mod password;
#[cfg(feature = "redis")]
pub mod redis;
mod sheet;
#[cfg(any(feature = "redis", feature = "cassandra"))]
mod timeout;
#[cfg(any(feature = "redis-tls", feature = "cassandra-tls"))]
mod trust;
pub mod view;

pub use behind::{Change, Policy, Settings, Status, WriteBehind};
pub use call::{Call, End, LIMITS, Limits, Operation, Reply};
pub use client::{Client, NoWait};
pub use content::{Bytes, Content, Entry, Kind};
pub use driver::{Answer, Batch, Driver, Outcome};
pub use error::Error;
pub use flusher::{Feed, Flusher};
pub use key::{Key, MOST_NAME_BYTES, Place, Scope};
pub use location::Location;
pub use memory::{Durability, Memory};
pub use sheet::MapNumber;
