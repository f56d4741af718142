//! Receive-side scaling (RSS): which worker gets which packet.
//!
//! A NIC hashes chosen header fields of each packet with a Toeplitz hash under a key, looks the low
//! bits of the hash up in an indirection table, and places the packet in the queue it finds there.
//! This crate computes the same hash, bit for bit, and holds the same table, so that software
//! steering and every NIC agree. It depends on the standard library only and may be used alone.
//!
//! ```text
//! fields of the packet ──Steering──▶ hash ──low bits──▶ entry ──▶ shard ──▶ worker
//!                       (Key, ToeplitzTable)           └──── IndirectionTable ────┘
//! ```
//!
//! State belongs to a shard, never to a worker: rebalancing moves shards, and hashes stay as they
//! are.
//!
//! ```
//! use anabranch_rss::{FieldSet, IndirectionTable, Steering};
//! use std::net::Ipv4Addr;
//!
//! let steering = Steering::symmetric(FieldSet::FOUR_TUPLE);
//! let (inside, outside) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(198, 18, 0, 1));
//! let there = steering.hash_ipv4(inside, outside, Some((40_000, 443)));
//! let back = steering.hash_ipv4(outside, inside, Some((443, 40_000)));
//! assert_eq!(there, back);
//!
//! let table = IndirectionTable::new(512, 64, 4)?;
//! assert!(table.worker(there) < 4);
//! # Ok::<(), anabranch_rss::IndirectionError>(())
//! ```

mod class;
mod constraint;
mod field;
mod indirection;
mod key;
mod need;
mod nic;
mod problem;
mod random;
mod score;
mod solution;
mod solve;
mod steering;
mod toeplitz;

pub use class::Class;
pub use constraint::{ConstraintError, needs_of, ports_of};
pub use field::{Bits, Field};
pub use indirection::{IndirectionError, IndirectionTable};
pub use key::{Key, KeyError};
pub use need::{Equality, FieldValues, Need, PacketPair, Side, Which};
pub use nic::{HashInput, Hashing, KeyOrder, Nic, Parsed};
pub use problem::{PortSpec, Problem, SampleFrame};
pub use solution::{
    Cause, ClassSolution, GivenPort, Impossible, Malformed, Mixed, PortSolution, Solution,
    Unsteerable,
};
pub use solve::{Broken, Partial, broken_needs, meets, solve, solve_most, solve_with};
pub use steering::{FieldSet, Steering};
pub use toeplitz::{InputTooLong, ToeplitzTable, toeplitz};
