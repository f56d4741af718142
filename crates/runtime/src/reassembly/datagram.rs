//! One datagram, as its fragments come.

use anabranch_packet::fragment::{Piece, place};
use anabranch_packet::{Layout, Meta, Port, parse};

/// How long a datagram is waited for, from its first fragment to come.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Fragments of a datagram at most.
const MOST_PIECES: usize = 128;
/// As many may wait, those that came twice among them.
const MOST_HELD: usize = 2 * MOST_PIECES;
/// The longest IP packet.
pub(super) const LONGEST: usize = u16::MAX as usize;

/// What says which fragments belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    id: u32,
    port: Port,
    /// In IPv4 only: in IPv6 later fragments may say anything.
    protocol: u8,
    /// Tags and the Ethernet type.
    link: [u8; 18],
    addresses: [u8; 32],
}

impl Identity {
    /// Of the fragment `piece` of `frame`, which came to `port` and was parsed as `layout`.
    pub(super) fn of(frame: &[u8], port: Port, piece: &Piece, layout: Layout) -> Self {
        let (at, protocol) = if layout.has_ipv4() { (12..20, piece.protocol) } else { (8..40, 0) };
        Self {
            id: piece.id,
            port,
            protocol,
            link: padded(frame.get(12..piece.ip)),
            addresses: padded(frame.get(piece.ip + at.start..piece.ip + at.end)),
        }
    }
}

/// As many bytes as there is room for, and zeros.
fn padded<const N: usize>(bytes: Option<&[u8]>) -> [u8; N] {
    let mut all = [0; N];
    all.iter_mut().zip(bytes.unwrap_or_default()).for_each(|(to, from)| *to = *from);
    all
}

/// A datagram of which something is missing.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) identity: Identity,
    begun_ns: u64,
    /// What is before the payload, of the first fragment.
    head: Vec<u8>,
    /// In the order in which it came.
    payload: Vec<u8>,
    /// What has come, in the order of the datagram.
    parts: Vec<Part>,
    /// Bytes of the payload; known from the last fragment.
    len: Option<usize>,
    /// Numbers of the fragments that wait.
    pub(super) held: Vec<u64>,
    longest: u16,
    /// Of IPv6, bytes before the payload.
    header_len: usize,
    /// What fragments say of congestion (ECN): a bit for each of the four codepoints.
    congestion: u8,
}

/// Payload that has come.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: usize,
    to: usize,
    /// Where it lies in the order in which it came.
    at: usize,
}

/// What a fragment does to its datagram.
pub(super) enum Effect {
    Waits,
    Completes,
    /// They contradict each other.
    Spoils,
}

impl Datagram {
    /// Nothing of it yet at `now_ns`; what comes is kept in `memory`.
    pub(super) fn new(identity: Identity, now_ns: u64, memory: [Vec<u8>; 2]) -> Self {
        let [head, payload] = memory;
        Self {
            identity,
            begun_ns: now_ns,
            head,
            payload,
            parts: Vec::new(),
            len: None,
            held: Vec::new(),
            longest: 0,
            header_len: 0,
            congestion: 0,
        }
    }

    /// Whether it has been waited for long enough.
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) >= PATIENCE_NS
    }

    /// Takes the fragment `piece` of `frame`.
    pub(super) fn add(&mut self, frame: &[u8], piece: &Piece) -> Effect {
        let (from, to) = (piece.offset, piece.offset + piece.len);
        let at = self.parts.partition_point(|part| part.from < from);
        let same = self.parts.get(at).is_some_and(|part| (part.from, part.to) == (from, to));
        if same && piece.more == (self.len != Some(to)) {
            return if self.held.len() < MOST_HELD { Effect::Waits } else { Effect::Spoils };
        }
        let before = at.checked_sub(1).and_then(|at| self.parts.get(at));
        let overlaps = before.is_some_and(|part| part.to > from)
            || self.parts.get(at).is_some_and(|part| part.from < to);
        let end = self.parts.last().map_or(to, |part| part.to.max(to));
        let len = if piece.more { self.len } else { self.len.or(Some(to)) };
        let contradicts = len.is_some_and(|len| len < end || (!piece.more && len != to));
        if overlaps || contradicts || self.parts.len() == MOST_PIECES {
            return Effect::Spoils;
        }
        self.parts.insert(at, Part { from, to, at: self.payload.len() });
        self.len = len;
        if !self.copy(frame, piece) {
            return Effect::Spoils;
        }
        let come: usize = self.parts.iter().map(|part| part.to - part.from).sum();
        match len {
            Some(len) if come == len && self.finish_head(len) => Effect::Completes,
            Some(len) if come == len => Effect::Spoils,
            _ => Effect::Waits,
        }
    }

    /// False: its IPv6 header is not as long as the others', which no host sends.
    fn copy(&mut self, frame: &[u8], piece: &Piece) -> bool {
        let ip = frame.get(piece.ip..piece.start).unwrap_or_default();
        if let [first, second, ..] = ip {
            let is_v4 = first >> 4 == 4;
            let codepoint = if is_v4 { second & 3 } else { second >> 4 & 3 };
            self.congestion |= 1 << codepoint;
            if !is_v4 && self.header_len != 0 && self.header_len != ip.len() {
                return false;
            }
        }
        self.header_len = ip.len();
        let part = frame.get(piece.start..piece.start + piece.len).unwrap_or_default();
        self.payload.extend_from_slice(part);
        if piece.offset == 0 {
            self.head.clear();
            self.head.extend_from_slice(frame.get(..piece.start).unwrap_or_default());
        }
        self.longest = self.longest.max((piece.start - piece.ip + piece.len) as u16);
        true
    }

    /// Has the first fragment's header say what the datagram is, with `len` bytes of payload. False: it
    /// would be longer than an IP packet can be.
    fn finish_head(&mut self, len: usize) -> bool {
        let layout = parse(&self.head, u32::MAX);
        let Some(ip) = self.head.get_mut(layout.l3_offset()..) else { return false };
        let is_v4 = ip.first().is_some_and(|first| first >> 4 == 4);
        if ip.len() + len > LONGEST || ip.len() < if is_v4 { 20 } else { 48 } {
            return false;
        }
        // Options of the first fragment alone must not make more fragments of it than may come.
        let piece = usize::from(self.longest).saturating_sub(ip.len()) & !7;
        if piece == 0 || len.div_ceil(piece) > MOST_PIECES {
            return false;
        }
        // Congestion that one has met they all have; one that cannot have met it contradicts it (RFC 3168, 5.3).
        const CONGESTED: u8 = 3;
        if self.congestion >> CONGESTED & 1 != 0 {
            ip[1] |= if is_v4 { CONGESTED } else { CONGESTED << 4 };
            if self.congestion & 1 != 0 {
                return false;
            }
        }
        if is_v4 {
            const DONT_FRAGMENT: u8 = 0x40;
            ip[6] &= DONT_FRAGMENT;
        }
        // Of IPv6 the fragment header stays, and says that there are no others (RFC 6946).
        place(ip, len, 0, false);
        true
    }

    /// The datagram as one packet, which arrived with the fragment of `last`, and memory that is free now.
    pub(super) fn into_packet(self, last: &Meta) -> (Vec<u8>, Meta, Vec<u8>) {
        let Self { head: mut bytes, payload, parts, longest, .. } = self;
        for Part { from, to, at } in parts {
            bytes.extend_from_slice(payload.get(at..at + to - from).unwrap_or_default());
        }
        let wire_len = bytes.len() as u32;
        let meta = Meta { wire_len, fragment_len: longest, steering_hash: 0, ..*last };
        (bytes, meta, payload)
    }

    /// Its memory, to be used again.
    pub(super) fn into_memory(self) -> [Vec<u8>; 2] {
        [self.head, self.payload]
    }
}
