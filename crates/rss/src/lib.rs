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
//! Which key? Say what must meet, and [`solve`] finds one, by linear algebra over GF(2), or tells why
//! there is none:
//!
//! ```text
//! Need (or text, needs_of) ─┐
//! Nic: what it can hash ────┴▶ Problem ──solve──▶ Solution: fields per class and a key, per port
//!                                            └──▶ Impossible: which class, which need, why
//! ```
//!
//! ```
//! use anabranch_rss::{Nic, Problem, needs_of, solve};
//!
//! // Replies arrive at another port than requests and have to reach the same core.
//! let nics = [Nic::named("cx6"), Nic::named("cx6")].map(|nic| nic.expect("there is such a model"));
//! let text = "p0.src = p1.dst && p0.dst = p1.src && p0.sport = p1.dport && p0.dport = p1.sport";
//! let needs = needs_of(text, &nics)?;
//! let solution = solve(&Problem { needs, ..Problem::new(&nics) })?;
//! for (number, port) in solution.ports.iter().enumerate() {
//!     println!("ethtool -X eth{number} hkey {}", port.key);
//! }
//! // Packets of every class may reach all 512 entries of the table.
//! let classes = solution.ports.iter().flat_map(|port| &port.classes);
//! assert!(classes.filter(|class| class.constrained).all(|class| class.entries() == 512));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Hashing packets in software:
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
pub use toeplitz::{ByteTable, InputTooLong, ToeplitzTable, toeplitz};
