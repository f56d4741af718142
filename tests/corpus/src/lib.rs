//! The corpus of the NF language: idioms that every world must understand.
//!
//! A package of its own, so that every world can be held to it: the native ones by compiling it,
//! the symbolic one by reading each function's [source](anabranch_nf::Source), running it in the
//! interpreter and comparing with the native result. What the language refuses stands in `tests/`.
//!
//! ```text
//!  IDIOMS          fn(u16, u32, u64) -> u64      literals, operators, control flow, plain types
//!  PACKET_IDIOMS   fn(&mut Packet) -> u64        views, rewrites, payloads
//!  SOURCES         whole network functions       state objects, packet sets, timers, commands
//! ```
//!
//! Only tests depend on it.

pub mod idioms;

pub use idioms::{IDIOMS, Idiom, PACKET_IDIOMS, PacketIdiom, SOURCES};
