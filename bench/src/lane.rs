//! One worker's way through a trace: the memory port, its batches, and who handles them.

use std::sync::Arc;

use anabranch_io::port::{MemoryPort, PacketIo, Pool};
use anabranch_io::{Chunk, Trace};
use anabranch_nf::{DropReason, NetworkFunction};
use anabranch_packet::{Frame, Meta, Port};
use anabranch_runtime::instance::Release;
use anabranch_runtime::mailbox::Again;
use anabranch_runtime::steer::Steering;
use anabranch_runtime::tally::{Counts, Tally};

use crate::hand::{BATCH, Hand, Packet};
use crate::held::Held;
use crate::packets::{START_NS, arrivals, period_ns};
use crate::planned::Left;

/// Buffers for a lane.
pub fn pool() -> Pool {
    Pool::new(2 * BATCH, 64)
}

/// A port over a trace that begins anew when it ends, and the clock of its packets.
pub struct Lane<'m> {
    port: MemoryPort<'m>,
    batch: Vec<Frame<'m>>,
    trace: Arc<Trace>,
    later_ns: u64,
}

impl<'m> Lane<'m> {
    /// Without packets.
    pub fn new(pool: &'m mut Pool) -> Self {
        let (port, batch) = (MemoryPort::new(pool.buffers()), Vec::with_capacity(BATCH));
        Self { port, batch, trace: Arc::default(), later_ns: 0 }
    }

    /// Makes the packets of `trace` the next ones, later than all before.
    pub fn load(&mut self, trace: &Arc<Trace>) {
        self.later_ns += period_ns(&self.trace);
        self.trace = Arc::clone(trace);
        self.assign();
    }

    fn assign(&mut self) {
        let all = 0..self.trace.len();
        self.port.assign_all(Chunk::new(Arc::clone(&self.trace), all, 0, self.later_ns));
    }

    #[cold]
    fn begin_anew(&mut self) {
        self.later_ns += period_ns(&self.trace);
        self.assign();
    }

    /// Has `packets` packets handled, in batches: at most a batch more. Returns how many.
    #[inline(always)]
    pub fn drive(&mut self, packets: usize, mut handle: impl FnMut(&mut [Frame<'m>])) -> u64 {
        let mut handled = 0;
        while handled < packets && !self.trace.is_empty() {
            let received = self.port.receive(&mut self.batch, BATCH);
            if received == 0 {
                self.begin_anew();
                continue;
            }
            handle(&mut self.batch);
            self.port.release(&mut self.batch);
            handled += received;
        }
        handled as u64
    }
}

/// A network function on a lane.
pub struct Runner<'m, N: NetworkFunction> {
    lane: Lane<'m>,
    state: Held<N>,
    counts: Counts,
    /// Computes the steering hashes, where they are not to come with the packets.
    steering: Option<Arc<Steering>>,
}

impl<'m, N: NetworkFunction> Runner<'m, N> {
    /// A function on a lane. `steering`: it hashes its packets itself, so.
    pub fn new(pool: &'m mut Pool, state: Held<N>, steering: Option<Arc<Steering>>) -> Self {
        Self { lane: Lane::new(pool), state, counts: Counts::new(2), steering }
    }

    /// Makes the packets of `trace` the next ones.
    pub fn load(&mut self, trace: &Arc<Trace>) {
        self.lane.load(trace);
    }

    /// Handles `packets` packets, and returns how many it were.
    pub fn run(&mut self, packets: usize) -> u64 {
        let Self { lane, state, counts, steering } = self;
        lane.drive(packets, |batch| {
            counts.received(batch);
            if let Some(steering) = steering {
                steering.hash_batch(batch);
            }
            state.handle(batch, &mut Tally::new(counts, None));
        })
    }

    /// Handles each packet of `trace` once and returns what left of it: its port, and its bytes.
    pub fn collect(&mut self, trace: &Arc<Trace>) -> Vec<Left> {
        self.load(trace);
        let mut kept = Kept(vec![None; trace.len()]);
        let Self { lane, state, .. } = self;
        lane.drive(trace.len(), |batch| {
            state.handle(batch, &mut kept);
        });
        kept.0
    }

    /// The function's state.
    pub fn state(&self) -> &Held<N> {
        &self.state
    }

    /// The function's state, for somebody else.
    pub fn into_state(self) -> Held<N> {
        self.state
    }

    /// Packets dropped so far, of all that came.
    pub fn dropped(&self) -> (u64, u64) {
        (self.counts.drops().map(|(_, count)| count).sum(), self.counts.packets())
    }
}

/// Keeps the packets that leave.
struct Kept(Vec<Left>);

impl Release for Kept {
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        if let Some(left) = self.0.get_mut(frame.meta().number as usize) {
            *left = Some((port.index(), frame.bytes().to_vec()));
        }
    }
    fn flood(&mut self, _: &Frame<'_>) {}
    fn discard(&mut self, _: &Frame<'_>, _: DropReason) {}
    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {}
    fn emit(&mut self, _: &Meta, _: Port, _: &[u8]) {}
}

/// A hand-written loop on a lane: the same port, the same packets.
pub struct HandRunner<'m> {
    lane: Lane<'m>,
    hand: Box<dyn Hand>,
    /// Stands in for packets of a batch that is not full.
    spare: [Packet; BATCH],
    packets: u64,
    out: [u64; 2],
}

impl<'m> HandRunner<'m> {
    /// A loop on a lane of the packets of `trace`.
    pub fn new(pool: &'m mut Pool, hand: Box<dyn Hand>, trace: &Arc<Trace>) -> Self {
        let (mut lane, spare) = (Lane::new(pool), [[0; 64]; BATCH]);
        lane.load(trace);
        Self { lane, hand, spare, packets: 0, out: [0; 2] }
    }

    /// Handles `packets` packets, and returns how many it were.
    pub fn run(&mut self, packets: usize) -> u64 {
        let Self { lane, hand, spare, out, .. } = self;
        let mut ports = [0; BATCH];
        let handled = lane.drive(packets, |batch| {
            let count = batch.len();
            let now_ns = batch.first().map_or(0, |frame| frame.meta().arrival_ns - START_NS);
            let (mut frames, mut spares) = (batch.iter_mut().zip(&mut ports), spare.iter_mut());
            let mut packets: [&mut Packet; BATCH] = std::array::from_fn(|_| {
                if let Some((frame, port)) = frames.next() {
                    *port = frame.meta().port.index();
                    if let Some(packet) = frame.bytes_mut().first_chunk_mut() {
                        return packet;
                    }
                }
                let Some(spare) = spares.next() else { unreachable!("as many as packets") };
                spare
            });
            hand.batch(&mut packets[..count], &ports[..count], now_ns, out);
        });
        self.packets += handled;
        handled
    }

    /// Packets dropped so far, of all that came.
    pub fn dropped(&self) -> (u64, u64) {
        (self.packets - self.out[0] - self.out[1], self.packets)
    }
}

/// A trace as plain arrays.
pub struct Packed {
    packets: Vec<Packet>,
    ports: Vec<u8>,
    period_ns: u64,
}

impl Packed {
    /// The packets of `trace`.
    pub fn new(trace: &Trace) -> Self {
        let mut packed =
            Self { packets: Vec::new(), ports: Vec::new(), period_ns: period_ns(trace) };
        packed.packets.reserve_exact(trace.len());
        packed.ports.reserve_exact(trace.len());
        for (port, packet) in arrivals(trace) {
            packed.packets.push(*packet);
            packed.ports.push(port);
        }
        packed
    }
}

/// A hand-written loop over plain arrays: no port, no buffers lent, no meta.
pub struct BareRunner<'p> {
    packed: &'p Packed,
    hand: Box<dyn Hand>,
    buffer: [Packet; BATCH],
    next: usize,
    now_ns: u64,
    out: [u64; 2],
}

impl<'p> BareRunner<'p> {
    /// A loop over arrays.
    pub fn new(packed: &'p Packed, hand: Box<dyn Hand>) -> Self {
        Self { packed, hand, buffer: [[0; 64]; BATCH], next: 0, now_ns: 0, out: [0; 2] }
    }

    /// Handles `packets` packets, and returns how many it were.
    pub fn run(&mut self, packets: usize) -> u64 {
        let gap_ns = self.packed.period_ns / self.packed.packets.len().max(1) as u64;
        let mut buffer = self.buffer.each_mut();
        let mut handled = 0;
        while handled < packets {
            let end = (self.next + BATCH).min(self.packed.packets.len());
            let (from, ports) =
                (&self.packed.packets[self.next..end], &self.packed.ports[self.next..end]);
            for (to, from) in buffer.iter_mut().zip(from) {
                **to = *from;
            }
            self.hand.batch(&mut buffer[..from.len()], ports, self.now_ns, &mut self.out);
            self.now_ns += from.len() as u64 * gap_ns;
            self.next = if end == self.packed.packets.len() { 0 } else { end };
            handled += from.len().max(1);
        }
        handled as u64
    }
}
