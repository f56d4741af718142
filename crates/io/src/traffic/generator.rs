//! The order of packets: which flow sends next, and what.

use super::flow::{Flow, Flows, Protocol};
use super::frame::{FrameBuffer, Segment};
use super::random::{Random, mix};
use super::sampler::Sampler;
use super::spec::{Sizes, TrafficSpec};
use crate::capture::Record;
use crate::spec::SpecError;
use crate::trace::Trace;
use anabranch_packet::Port;
use anabranch_packet::craft::tcp_flags as flags;
use std::collections::VecDeque;
use std::fmt;

/// Time of the first packet: 2024-01-01 00:00:00 UTC, in nanoseconds since the Unix epoch.
const START_NS: u64 = 1_704_067_200_000_000_000;

/// Packets that memory is reserved for at once; it grows when there are more.
const RESERVED_PACKETS: u64 = 1 << 24;

/// The simple IMIX: sizes, and how many of 12 packets have them.
const IMIX: [(u32, u32); 3] = [(64, 7), (590, 4), (1_514, 1)];

/// Generates traffic packet by packet. Memory: 24 bytes per flow, and 8 for Zipf's law.
#[derive(Clone)]
pub struct Traffic {
    spec: TrafficSpec,
    flows: Flows,
    sampler: Sampler,
    random: Random,
    slots: Vec<Slot>,
    /// Handshakes and teardowns that are under way.
    pending: VecDeque<Segment>,
    inside_port: Port,
    outside_port: Port,
    emitted: u64,
    clock: Clock,
    replaced: u64,
    opened: u64,
    frame: FrameBuffer,
}

/// The time of the next packet, counted up without rounding errors or divisions.
#[derive(Clone, Copy, Debug)]
struct Clock {
    elapsed_ns: u64,
    /// Parts of a nanosecond, in units of one by the rate.
    part: u64,
    rate: u64,
    step_ns: u64,
    step_part: u64,
}

impl Clock {
    fn new(rate: u64) -> Self {
        let (step_ns, step_part) = (1_000_000_000 / rate, 1_000_000_000 % rate);
        Self { elapsed_ns: 0, part: 0, rate, step_ns, step_part }
    }

    #[inline]
    fn tick(&mut self) {
        self.elapsed_ns += self.step_ns;
        self.part += self.step_part;
        if self.part >= self.rate {
            self.part -= self.rate;
            self.elapsed_ns += 1;
        }
    }
}

/// One of the flows that are open at once.
#[derive(Clone, Copy, Debug)]
struct Slot {
    flow: u64,
    /// Next sequence numbers of inside and outside.
    sequence: [u32; 2],
    is_open: bool,
}

impl Slot {
    /// A flow before its first packet. Its initial sequence numbers follow from its number.
    fn new(flow: u64) -> Self {
        let random = mix(flow);
        let sequence = [random as u32, (random >> 32) as u32];
        Self { flow, sequence, is_open: false }
    }

    /// A segment from one side, whose sequence number moves on by what the segment takes.
    fn segment(&mut self, from_inside: bool, flags: u8, payload_len: u32) -> Segment {
        let [inside, outside] = &mut self.sequence;
        let (own, other) = if from_inside { (inside, outside) } else { (outside, inside) };
        let acknowledgement = if flags & flags::ACK == 0 { 0 } else { *other };
        let sequence = *own;
        let counted = u32::from(flags & (flags::SYN | flags::FIN) != 0);
        *own = own.wrapping_add(payload_len + counted);
        Segment { flow: self.flow, from_inside, flags, sequence, acknowledgement, payload_len }
    }
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traffic({}, {} emitted)", self.spec, self.emitted)
    }
}

impl Traffic {
    /// Prepares the traffic of `spec`: the inside sends to port 0, the outside to port 1.
    ///
    /// Fails as [`TrafficSpec::check`] does.
    pub fn new(spec: &TrafficSpec) -> Result<Self, SpecError> {
        spec.check()?;
        Ok(Self {
            flows: Flows::new(spec),
            sampler: Sampler::new(&spec.distribution, spec.flows),
            random: Random::new(spec.seed),
            slots: (0..u64::from(spec.flows)).map(Slot::new).collect(),
            pending: VecDeque::new(),
            inside_port: Port::new(0),
            outside_port: Port::new(1),
            emitted: 0,
            clock: Clock::new(spec.rate),
            replaced: 0,
            opened: 0,
            frame: FrameBuffer::new(),
            spec: spec.clone(),
        })
    }

    /// Sends the inside's packets to one port and the outside's to another.
    #[must_use]
    pub fn with_ports(mut self, inside: Port, outside: Port) -> Self {
        (self.inside_port, self.outside_port) = (inside, outside);
        self
    }

    /// The flows that are open at once, as they are now; the most likely come first. Whoever
    /// answers packets himself (behind a NAT, say) generates with `reply=0` and looks here.
    pub fn flows(&self) -> impl Iterator<Item = Flow> + '_ {
        self.slots.iter().map(|slot| self.flows.get(slot.flow))
    }

    /// How many distinct flows have sent a packet so far.
    pub fn distinct_flows(&self) -> u64 {
        self.opened
    }

    /// Packets generated so far.
    pub fn emitted(&self) -> u64 {
        self.emitted
    }

    /// Packets there will be in all.
    pub fn packets(&self) -> u64 {
        self.spec.packets()
    }

    /// Appends at most `max` packets to `trace` and returns how many; fewer only at the end.
    pub fn generate(&mut self, trace: &mut Trace, max: usize) -> usize {
        let left = self.packets().saturating_sub(self.emitted);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(max);
        for _ in 0..count {
            let segment = self.next_segment();
            self.append(trace, &segment);
        }
        count
    }

    /// All packets, in memory.
    pub fn into_trace(mut self) -> Trace {
        let mut trace = Trace::new();
        let packets = self.packets().min(RESERVED_PACKETS) as usize;
        trace.reserve(packets, packets * 64);
        self.generate(&mut trace, usize::MAX);
        trace
    }

    fn append(&mut self, trace: &mut Trace, segment: &Segment) {
        let flow = self.flows.get(segment.flow);
        let timestamp_ns = START_NS + self.clock.elapsed_ns;
        let port = if segment.from_inside { self.inside_port } else { self.outside_port };
        let bytes = self.frame.write(&flow, segment);
        trace.push(port, &Record { timestamp_ns, wire_len: bytes.len() as u32, bytes });
        self.emitted += 1;
        self.clock.tick();
    }

    fn next_segment(&mut self) -> Segment {
        if let Some(segment) = self.pending.pop_front() {
            return segment;
        }
        if self.is_churn_due() {
            let slot = (self.replaced % self.slots.len() as u64) as usize;
            self.replaced += 1;
            return self.replace(slot);
        }
        let slot = self.sampler.draw(&mut self.random) as usize;
        if !self.slots[slot].is_open {
            return self.open(slot);
        }
        let from_inside = !self.random.chance(self.spec.reply);
        self.exchange(slot, from_inside)
    }

    fn is_churn_due(&self) -> bool {
        let seconds = self.clock.elapsed_ns as f64 / 1e9;
        self.spec.churn > 0.0 && self.replaced < (seconds * self.spec.churn) as u64
    }

    /// Opens the flow of a slot: the first packet, which comes from inside. The rest of a handshake
    /// follows at once.
    fn open(&mut self, slot: usize) -> Segment {
        self.opened += 1;
        let state = &mut self.slots[slot];
        state.is_open = true;
        let protocol = self.flows.get(state.flow).protocol;
        if protocol == Protocol::Udp || !self.spec.handshake {
            return self.exchange(slot, true);
        }
        let first = state.segment(true, flags::SYN, 0);
        let second = state.segment(false, flags::SYN | flags::ACK, 0);
        let third = state.segment(true, flags::ACK, 0);
        self.enqueue([second, third]);
        first
    }

    /// Ends the flow of a slot and opens a new one in its place.
    fn replace(&mut self, slot: usize) -> Segment {
        if self.slots[slot].is_open {
            self.close(slot);
        }
        let next = u64::from(self.spec.flows) + self.replaced - 1;
        self.slots[slot] = Slot::new(next);
        let held = self.pending.len();
        let first = self.open(slot);
        // What closes the old flow goes first.
        self.pending.insert(held, first);
        self.pending.pop_front().unwrap_or(first)
    }

    /// Ends a TCP flow, with FIN from both sides or with RST. UDP flows just fall silent.
    fn close(&mut self, slot: usize) {
        let state = &mut self.slots[slot];
        if self.flows.get(state.flow).protocol == Protocol::Udp {
            return;
        }
        if self.random.chance(self.spec.rst) {
            let from_inside = self.spec.reply == 0.0 || self.random.chance(0.5);
            let reset = state.segment(from_inside, flags::RST | flags::ACK, 0);
            self.enqueue([reset]);
        } else {
            let fin = flags::FIN | flags::ACK;
            let teardown = [(true, fin), (false, fin), (true, flags::ACK)];
            let segments =
                teardown.map(|(from_inside, flags)| state.segment(from_inside, flags, 0));
            self.enqueue(segments);
        }
    }

    /// Packets from outside are left out when nothing is to come from there.
    fn enqueue<const N: usize>(&mut self, segments: [Segment; N]) {
        let both = self.spec.reply > 0.0;
        self.pending.extend(segments.into_iter().filter(|segment| both || segment.from_inside));
    }

    /// A data packet.
    fn exchange(&mut self, slot: usize, from_inside: bool) -> Segment {
        let size = self.size();
        let state = &mut self.slots[slot];
        let payload_len = size.saturating_sub(self.flows.get(state.flow).header_len());
        let flags = if payload_len == 0 { flags::ACK } else { flags::ACK | flags::PSH };
        state.segment(from_inside, flags, payload_len)
    }

    fn size(&mut self) -> u32 {
        match self.spec.sizes {
            Sizes::Fixed(size) => size,
            Sizes::Range(first, last) => first + self.random.below(last - first + 1),
            Sizes::Imix => {
                let drawn = self.random.below(12);
                let [(small, first), (medium, second), (large, _)] = IMIX;
                match drawn {
                    _ if drawn < first => small,
                    _ if drawn < first + second => medium,
                    _ => large,
                }
            }
        }
    }
}
