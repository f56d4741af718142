//! Live ports: queues of real Linux interfaces, one per worker.
//!
//! ```text
//!  LiveSpec ──open──▶ Opened (fds, mapped memory; one per worker) ──queue()──▶ dyn Queue<'m>
//!                                                                   receive ──Frame<'m>──▶ worker
//!                                                                   release ◀──buffers─────  │
//!                                              queue of another port: send ◀──bytes──────────┘
//! ```
//!
//! A frame is lent from the memory of the queue it arrived at, and leaves through a queue of another
//! port, which has memory of its own: so a live queue sends *bytes*, and buffers go back to where they
//! came from. That is where [`Queue`] differs from [`PacketIo`](crate::port::PacketIo), whose one port
//! takes frames for transmission.
//!
//! **Invariant**: what a queue lends is what was, or would have been, on the wire: packets that an
//! offload has made larger than the link carries are cut into segments, unfinished checksums are
//! finished, VLAN tags stand in the frame.
//!
//! DPDK's memory is one for all its ports, so that there a frame itself may leave by another
//! ([`Queue::forward`]).
//!
//! `unsafe` lives in `system.rs` (system calls), `ring.rs` and `xdp/umem.rs` (memory shared with the kernel), `xdp/program.rs` (bpf(2)),
//! `ethtool.rs` (what drivers are asked), `dpdk/ffi.rs` (DPDK's functions) and `dpdk/memory.rs` (memory shared with devices).

mod afpacket;
mod claim;
#[cfg(feature = "dpdk")]
mod dpdk;
mod error;
#[allow(unsafe_code)]
mod ethtool;
mod interface;
mod offload;
#[allow(unsafe_code)]
mod ring;
mod segment;
mod spec;
mod spread;
#[allow(unsafe_code)]
mod system;
mod tap;
mod tunnel;
mod xdp;

pub use error::OpenError;
pub use ethtool::{Channels, Driver, Interface, Spreading};
pub use spec::{LiveKind, LiveSpec};
pub use spread::{Spread, Wanted};

use crate::port::BATCH;
use anabranch_packet::{Frame, Port};
use std::os::fd::RawFd;
use std::time::Duration;

/// One worker's queue of one live port. Nothing here blocks, or allocates once vectors have room for
/// a batch.
pub trait Queue<'m> {
    /// Appends up to `max` received frames to `batch` and returns how many there were. Their times and
    /// numbers are the caller's to write.
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize;

    /// Takes the buffers of frames that this queue lent. Leaves `batch` empty.
    fn release(&mut self, batch: &mut Vec<Frame<'m>>);

    /// Sends packets, in order, as far as there is room now. What cannot be sent is not kept.
    fn send(&mut self, packets: &[&[u8]]) -> Sent;

    /// Sends those of `frames` that stand at `places`, in order, as far as there is room now. A queue that can
    /// send from where they lie takes their memory and leaves them empty; others copy.
    fn forward(&mut self, frames: &mut [Frame<'m>], places: &[u8]) -> Sent {
        let mut sent = Sent::default();
        for some in places.chunks(BATCH) {
            let mut packets: [&[u8]; BATCH] = [&[]; BATCH];
            let mut count = 0;
            let named = some.iter().filter_map(|place| frames.get(usize::from(*place)));
            for (packet, frame) in packets.iter_mut().zip(named) {
                *packet = frame.bytes();
                count += 1;
            }
            sent.add(self.send(&packets[..count]));
        }
        sent
    }

    /// Sends all frames of a batch, in order, as far as there is room now. Those that leave from where they lie
    /// are taken out of it.
    fn forward_all(&mut self, batch: &mut Vec<Frame<'m>>) -> Sent {
        let mut sent = Sent::default();
        for some in batch.chunks(BATCH) {
            let mut packets: [&[u8]; BATCH] = [&[]; BATCH];
            packets.iter_mut().zip(some).for_each(|(packet, frame)| *packet = frame.bytes());
            sent.add(self.send(&packets[..some.len()]));
        }
        sent
    }

    /// Whether nothing wakes a worker when packets have come, so that it has to look.
    fn is_polled(&self) -> bool {
        false
    }

    /// Sees to the interface: called when one of [`fds`](Self::fds) reports an error, and now and then. A link
    /// that went down is counted; an interface that was removed is opened again when it is back.
    fn attend(&mut self);

    /// The run is over: what was given to the device and has not been sent counts as [`unsent`](QueueStatistics::unsent)
    /// from here on.
    fn end(&mut self) {}

    /// Appends what is readable when packets have come to `fds`, if there is anything to be waited for
    /// ([`is_polled`](Self::is_polled): there is not).
    fn fds(&self, fds: &mut Vec<RawFd>);

    /// What this queue has done so far.
    fn statistics(&mut self) -> QueueStatistics;
}

/// What became of packets that were to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Not sent: no room in the transmit queue.
    pub full: u64,
    /// Not sent: longer than the interface takes.
    pub too_big: u64,
    /// Not sent: the link is down, or the interface gone.
    pub down: u64,
}

impl Sent {
    /// Adds what became of others.
    pub fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.full += other.full;
        self.too_big += other.too_big;
        self.down += other.down;
    }
}

/// Counts of one live queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// Packets that the kernel dropped because the receive queue was full; nobody has seen them.
    pub missed: u64,
    /// Packets that the device took to send, and did not send.
    pub unsent: u64,
    /// Packets received but not lent: longer than a buffer, or made by an offload that cannot be
    /// undone.
    pub oversized: u64,
    /// Their bytes.
    pub oversized_bytes: u64,
    /// Large packets of an offload that were cut into segments.
    pub segmented: u64,
    /// Checksums that an offload had left unfinished.
    pub finished_checksums: u64,
    /// Times that the link was found down or the interface gone.
    pub link_downs: u64,
    /// Times that the interface was opened anew.
    pub reopened: u64,
}

/// The memory and file descriptors of one queue, ready to be used.
pub trait Opened: Send {
    /// The queue. Its frames live as long as `self` is borrowed.
    fn queue(&mut self) -> Box<dyn Queue<'_> + '_>;
}

/// A port that has been opened: a queue for each worker, and what there is to know of it.
pub struct LivePort {
    /// By worker.
    pub queues: Vec<Box<dyn Opened>>,
    /// How packets come to queues and what is done with offloads, in a sentence.
    pub about: String,
    /// Who is told how to spread packets over the queues, where that is not the interface's driver
    /// ([`Interface`]).
    pub driver: Option<Box<dyn Driver + Send>>,
}

/// Opens a port with a queue for each of `workers` workers.
///
/// # Errors
/// When the interface is not there, not up or not Ethernet, or this process may not open it.
pub fn open(spec: &LiveSpec, port: Port, workers: usize) -> Result<LivePort, OpenError> {
    match spec.kind {
        LiveKind::AfPacket => afpacket::open(&spec.interface, port, workers),
        LiveKind::Tap => tap::open(&spec.interface, port, workers),
        LiveKind::Xdp => xdp::open(&spec.interface, port, workers),
        #[cfg(feature = "dpdk")]
        LiveKind::Dpdk => dpdk::open(&spec.interface, port, workers),
        #[cfg(not(feature = "dpdk"))]
        LiveKind::Dpdk => Err(OpenError::BuiltWithout { interface: spec.interface.clone() }),
    }
}

/// The DPDK that ports of the kind `dpdk` are opened with (`DPDK 22.11.11`); none, where this was built without.
pub fn dpdk_version() -> Option<String> {
    #[cfg(feature = "dpdk")]
    return Some(dpdk::version());
    #[cfg(not(feature = "dpdk"))]
    None
}

/// Waits until a file descriptor is readable or in error, at most `timeout`. Returns, for each, whether
/// it is in error, in `failed`.
///
/// # Errors
/// As `ppoll(2)` has them, interruption by a signal apart.
pub fn wait(fds: &[RawFd], timeout: Duration, failed: &mut Vec<bool>) -> std::io::Result<()> {
    system::wait(fds, timeout, failed)
}

/// The kernel's own IPv4 address on an interface, if there is one.
pub fn address(name: &str) -> Option<std::net::Ipv4Addr> {
    interface::address(name)
}

/// The time, in nanoseconds since the Unix epoch, by the system's clock.
pub fn realtime_ns() -> u64 {
    system::realtime_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_many_descriptors_is_waited_for() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        use std::os::unix::net::UnixStream;

        let Ok((idle, _kept)) = UnixStream::pair() else { panic!("no sockets") };
        let Ok((mut one, other)) = UnixStream::pair() else { panic!("no sockets") };
        let (started, longest) = (std::time::Instant::now(), Duration::from_secs(20));
        for count in [0, 63, 64, 300, 900] {
            let mut fds = vec![idle.as_raw_fd(); count];
            fds.push(other.as_raw_fd());
            let mut failed = Vec::new();
            assert!(wait(&fds, Duration::ZERO, &mut failed).is_ok());
            assert_eq!(failed, vec![false; count + 1]);
            assert!(one.write_all(&[0]).is_ok());
            assert!(wait(&fds, longest, &mut failed).is_ok());
            assert!(started.elapsed() < longest, "{count}");
        }
    }

    #[cfg(not(feature = "dpdk"))]
    #[test]
    fn a_program_without_dpdk_says_how_to_build_one_with() {
        let Ok(spec) = "dpdk:net_null0".parse::<LiveSpec>() else { panic!("it is a port") };
        let why = open(&spec, Port::new(0), 1).err().map(|error| error.to_string());
        let why = why.unwrap_or_default();
        for part in ["dpdk:net_null0", "without DPDK", "libdpdk-dev", "--features dpdk"] {
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(dpdk_version(), None);
    }
}
