//! Packet input and output: where the packets of a run come from and where they go.
//!
//! ```text
//!  SourceSpec ──▶ Source ──▶ Chunk (Arc<Trace> + range, numbers, time)
//!   capture, memory,            │ record indices per worker
//!   generated                   ▼
//!                       MemoryPort: PacketIo ──lends──▶ Frame<'m> ──▶ worker
//!                        └ FreeBuffers<'m> of a Pool                    │
//!                                                                       ▼
//!  SinkSpec ──▶ Sink ◀── write_in_order ◀── Outputs (one per worker, by packet number)
//! ```
//!
//! The runtime, the bench and the command line depend on this crate; it depends on the packet and
//! RSS crates. Outside of [`live`] it contains no `unsafe`: buffers are disjoint slices of one
//! allocation, and copies run in whole cache lines.

mod arena;
pub mod capture;
pub mod live;
pub mod port;
pub mod sink;
pub mod source;
pub mod spec;
mod trace;
pub mod traffic;

pub use trace::{Chunk, Trace, TraceRecord};
