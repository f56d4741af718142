//! Ports: how a worker gets its packets and gives them back.
//!
//! The port of a trace in memory lends frames from memory of its own for `'m`, takes frames for
//! transmission, and gets every buffer back. Real interfaces are in [`live`](crate::live).

mod memory;
mod pool;

pub use memory::MemoryPort;
pub use pool::{FreeBuffers, HEADROOM, Pool, TAILROOM};

use anabranch_packet::{Frame, Port};
use anabranch_rss::{IndirectionTable, Steering};
use thiserror::Error;

/// Frames a worker receives and handles at once.
pub const BATCH: usize = 32;

/// One worker's queue of one or more ports. Nothing here allocates, provided the vectors have room
/// for a batch.
pub trait PacketIo<'m> {
    /// Appends up to `max` received frames to `batch` and returns how many there were. 0: none at
    /// the moment; for finite inputs, the end.
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize;

    /// Sends frames out of `port`, in order, and takes their buffers back. Returns how many were
    /// sent; those that could not be sent stay in `batch`.
    fn transmit(&mut self, port: Port, batch: &mut Vec<Frame<'m>>) -> usize;

    /// Takes the buffers of frames that are not sent back. Leaves `batch` empty.
    fn release(&mut self, batch: &mut Vec<Frame<'m>>);

    /// Makes `port` hash and place its packets so. Fails when the port cannot.
    fn program_rss(
        &mut self,
        port: Port,
        steering: &Steering,
        table: &IndirectionTable,
    ) -> Result<(), PortError>;

    /// What this queue has done so far.
    fn statistics(&self) -> Statistics;
}

/// Counts of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets received.
    pub received: u64,
    /// Their bytes, as captured.
    pub received_bytes: u64,
    /// Packets transmitted.
    pub transmitted: u64,
    /// Their bytes.
    pub transmitted_bytes: u64,
    /// Received packets that were longer than a buffer and were cut to it.
    pub cut: u64,
}

/// What a port cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PortError {
    /// The port does not hash.
    #[error(
        "port {port} does not compute steering hashes; set them on the trace, or steer in software"
    )]
    NoRss {
        /// The port.
        port: Port,
    },
}
