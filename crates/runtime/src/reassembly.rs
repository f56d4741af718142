//! Datagrams put together from their fragments, for functions that ask for whole ones (`layer = 4`).
//!
//! ```text
//! fragment ─▶ held ─▶ … ─▶ the last one missing ─▶ datagram ─▶ steered, handled ─▶ fragments, as long as
//!                └─ too late, overlapping, too many: all of the datagram is dropped   the longest that came
//! ```
//!
//! All fragments between two addresses come to one worker, which keeps what is incomplete; the datagram then
//! goes to whoever owns its flow, as what re-enters does. What came together does not depend on the number
//! of workers, as long as there is room.
//!
//! Nothing that the wire says is believed: memory and time are bounded, and fragments that overlap are
//! refused with all of their datagram (RFC 5722; in IPv4 as well), but for one that came twice. Unfragmented
//! packets pay for none of it (RFC 4787, REQ-14a).

use std::collections::{BTreeMap, VecDeque};

use anabranch_io::Chunk;
use anabranch_nf::{Builtin, DropReason, NetworkFunction, Verdict};
use anabranch_packet::checksum::Sum;
use anabranch_packet::fragment::{Piece, cut};
use anabranch_packet::{Frame, Layout, Meta, Port, parse};

use crate::instance::Release;
use crate::steer::Steering;
use crate::tally::{Counts, Tally};

/// Whether a packet is to be put together with others before the NF sees it.
#[inline(always)]
pub(crate) fn is_part<N: NetworkFunction>(layout: Layout) -> bool {
    N::LAYER == 4 && layout.is_fragment() && layout.malformed().is_none()
}

/// Whether a batch has fragments to be put together.
#[inline(always)]
pub(crate) fn has_parts<N: NetworkFunction>(frames: &[Frame<'_>]) -> bool {
    N::LAYER == 4
        && frames.iter().any(|frame| {
            let (bytes, wire_len) = (frame.bytes(), frame.meta().wire_len);
            may_be_part(bytes) && is_part::<N>(parse(bytes, wire_len))
        })
}

/// Of nearly every packet, which is untagged IPv4, two fields say that it is no fragment.
#[inline(always)]
fn may_be_part(bytes: &[u8]) -> bool {
    match bytes.get(12..22) {
        Some([8, 0, .., high, low]) => (high & 0x3f) | low != 0,
        _ => true,
    }
}

/// Datagrams that a worker keeps at most; the oldest makes room.
const UNDER_WAY: usize = 256;
/// How long a datagram is waited for, from its first fragment to come.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Fragments of a datagram at most.
const MOST_PIECES: usize = 128;
/// The longest IP packet.
const LONGEST: usize = u16::MAX as usize;
/// Room for what is before an IP header.
const BEFORE: usize = 128;

/// What says which fragments belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    id: u32,
    port: Port,
    /// In IPv4 only: in IPv6 later fragments may say anything.
    protocol: u8,
    /// Tags and the Ethernet type.
    link: [u8; 18],
    addresses: [u8; 32],
}

impl Identity {
    fn of(frame: &Frame<'_>, piece: &Piece, layout: Layout) -> Self {
        let bytes = frame.bytes();
        let (at, protocol) = if layout.has_ipv4() { (12..20, piece.protocol) } else { (8..40, 0) };
        Self {
            id: piece.id,
            port: frame.meta().port,
            protocol,
            link: padded(bytes.get(12..piece.ip)),
            addresses: padded(bytes.get(piece.ip + at.start..piece.ip + at.end)),
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
struct Datagram {
    identity: Identity,
    begun_ns: u64,
    /// What is before the payload, of the first fragment.
    head: Vec<u8>,
    /// In the order in which it came.
    payload: Vec<u8>,
    /// What has come, in the order of the datagram.
    parts: Vec<Part>,
    /// Bytes of the payload; known from the last fragment.
    len: Option<usize>,
    /// Fragments that wait.
    held: u64,
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

/// A datagram of which nothing is missing.
#[derive(Debug)]
pub(crate) struct Whole {
    bytes: Vec<u8>,
    meta: Meta,
}

impl Whole {
    /// Why nobody can handle it. With two fragment headers in IPv6 it is a fragment still.
    fn malformed(&self) -> Option<DropReason> {
        let layout = parse(&self.bytes, self.meta.wire_len);
        let nested = layout.is_fragment().then(|| Builtin::IncompleteDatagram.into());
        layout.malformed().map(DropReason::from).or(nested)
    }

    /// Its shard.
    pub(crate) fn shard(&self, steering: &Steering) -> u32 {
        steering.shard(self.meta.port, &self.bytes, self.meta.wire_len)
    }

    /// As if it had come in one piece when its last fragment came.
    pub(crate) fn frame(&mut self) -> Frame<'_> {
        let len = self.bytes.len();
        Frame::new(&mut self.bytes, 0, len, 0, self.meta)
    }
}

/// Puts datagrams together where all packets pass by, before they are divided among workers: each then gets
/// its datagrams in the order in which they were completed, whoever had their fragments.
#[derive(Debug)]
pub(crate) struct Gatherer {
    reassembly: Reassembly,
    counts: Counts,
    /// The fragments of chunks that come again, by where these start; `None`: none does.
    known: Option<BTreeMap<usize, Vec<u32>>>,
}

impl Gatherer {
    /// For `N`, where it asks for whole datagrams. `repeats`: chunks come again.
    pub(crate) fn of<N: NetworkFunction>(repeats: bool) -> Option<Self> {
        (N::LAYER == 4).then(|| Self {
            reassembly: Reassembly::default(),
            counts: Counts::new(0),
            known: repeats.then(BTreeMap::new),
        })
    }

    /// The datagrams that packets of `chunk` complete, each with the index of that packet.
    pub(crate) fn gather(&mut self, chunk: &Chunk) -> Vec<(u32, Whole)> {
        let Self { reassembly, counts, known } = self;
        let scanned;
        let parts = match known {
            Some(known) => known.entry(chunk.start()).or_insert_with(|| parts_of(chunk)),
            None => {
                scanned = parts_of(chunk);
                &scanned
            }
        };
        let mut wholes = Vec::new();
        for &index in parts {
            let Some((meta, bytes)) = chunk.packet(index as usize) else { continue };
            let mut bytes = bytes.to_vec();
            let len = bytes.len();
            let frame = Frame::new(&mut bytes, 0, len, 0, meta);
            let layout = parse(frame.bytes(), meta.wire_len);
            let whole = reassembly.add(&frame, layout, &mut Tally::new(counts, None));
            wholes.extend(whole.map(|whole| (index, whole)));
        }
        wholes
    }

    /// What became of fragments; those of incomplete datagrams are given up.
    pub(crate) fn end(mut self) -> Counts {
        self.reassembly.end(&mut Tally::new(&mut self.counts, None));
        self.counts
    }
}

/// The indices of a chunk's fragments.
fn parts_of(chunk: &Chunk) -> Vec<u32> {
    let is_part = |index: &u32| {
        let at = *index as usize;
        let bytes = chunk.bytes(at);
        may_be_part(bytes) && {
            let layout = parse(bytes, chunk.meta(at).map_or(0, |meta| meta.wire_len));
            layout.is_fragment() && layout.malformed().is_none()
        }
    };
    (0..chunk.len() as u32).filter(is_part).collect()
}

/// What a fragment does to its datagram.
enum Effect {
    Waits,
    Completes,
    /// They contradict each other.
    Spoils,
}

/// The datagrams of one worker that are incomplete, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    under_way: VecDeque<Datagram>,
    /// Memory to be used again.
    spare: Vec<Vec<u8>>,
    /// Datagrams that somebody else puts together, in the order of the packets that complete them; `None`:
    /// nobody does.
    given: Option<VecDeque<Whole>>,
}

impl Reassembly {
    /// Takes a fragment, parsed as `layout`, and gives the datagram that it completes. Then the frame is
    /// accounted for by what becomes of that; else it is accounted for here.
    #[cold]
    pub(crate) fn add(
        &mut self,
        frame: &Frame<'_>,
        layout: Layout,
        release: &mut impl Release,
    ) -> Option<Whole> {
        if self.given.is_some() {
            return self.take_given(frame, release);
        }
        let now_ns = frame.meta().arrival_ns;
        while self.under_way.front().is_some_and(|oldest| oldest.is_late(now_ns)) {
            self.give_up(0, release);
        }
        let Some(piece) = Piece::of(frame.bytes(), layout).filter(is_sound) else {
            release.discard(frame, Builtin::IncompleteDatagram.into());
            return None;
        };
        // What they make gets a new one.
        if layout.has_ipv4() && !is_intact(frame, &piece) {
            release.discard(frame, Builtin::Ipv4Checksum.into());
            return None;
        }
        let at = self.find(&Identity::of(frame, &piece, layout), now_ns, release);
        let datagram = self.under_way.get_mut(at)?;
        match datagram.add(frame, &piece) {
            Effect::Waits => {
                datagram.held += 1;
                release.hold(frame);
            }
            Effect::Completes => {
                let datagram = self.under_way.remove(at)?;
                release.settle(Builtin::Reassembled.into(), datagram.held);
                let whole = self.complete(datagram, frame);
                let Some(reason) = whole.malformed() else { return Some(whole) };
                self.forget(whole);
                release.discard(frame, reason);
            }
            Effect::Spoils => {
                self.give_up(at, release);
                release.discard(frame, Builtin::IncompleteDatagram.into());
            }
        }
        None
    }

    /// From now on datagrams are put together by a [`Gatherer`]: these, and what it gives later.
    pub(crate) fn expect(&mut self, wholes: Vec<Whole>) {
        self.given.get_or_insert_default().extend(wholes);
    }

    /// The datagram that the fragment completes, of those that were given. All others are accounted for by
    /// who puts them together.
    fn take_given(&mut self, frame: &Frame<'_>, release: &mut impl Release) -> Option<Whole> {
        let meta = *frame.meta();
        // Of packets that have not come here: there are none, and if there were nothing would be lost but them.
        while self.given.as_mut()?.pop_front_if(|next| next.meta.number < meta.number).is_some() {
            release.settle(Builtin::IncompleteDatagram.into(), 1);
        }
        let next = self.given.as_mut()?.pop_front_if(|next| next.meta.number == meta.number);
        match next {
            Some(next) => {
                Some(Whole { meta: Meta { arrival_ns: meta.arrival_ns, ..next.meta }, ..next })
            }
            None => {
                release.hold(frame);
                None
            }
        }
    }

    /// Where the datagram is kept; it is begun where it is new.
    fn find(&mut self, identity: &Identity, now_ns: u64, release: &mut impl Release) -> usize {
        if let Some(at) = self.under_way.iter().position(|one| one.identity == *identity) {
            return at;
        }
        if self.under_way.len() == UNDER_WAY {
            self.give_up(0, release);
        }
        self.under_way.push_back(Datagram {
            identity: *identity,
            begun_ns: now_ns,
            head: self.spare.pop().unwrap_or_default(),
            payload: self.spare.pop().unwrap_or_default(),
            parts: Vec::new(),
            len: None,
            held: 0,
            longest: 0,
            header_len: 0,
            congestion: 0,
        });
        self.under_way.len() - 1
    }

    /// Drops a datagram with what has come of it.
    fn give_up(&mut self, at: usize, release: &mut impl Release) {
        if let Some(Datagram { held, head, payload, .. }) = self.under_way.remove(at) {
            release.settle(Builtin::IncompleteDatagram.into(), held);
            self.take_back(head);
            self.take_back(payload);
        }
    }

    /// Drops all that is incomplete: nothing comes any more.
    pub(crate) fn end(&mut self, release: &mut impl Release) {
        while !self.under_way.is_empty() {
            self.give_up(0, release);
        }
    }

    /// The datagram as one packet, which arrived with `last`.
    fn complete(&mut self, datagram: Datagram, last: &Frame<'_>) -> Whole {
        let Datagram { head: mut bytes, payload, parts, longest, .. } = datagram;
        for Part { from, to, at } in parts {
            bytes.extend_from_slice(payload.get(at..at + to - from).unwrap_or_default());
        }
        self.take_back(payload);
        let wire_len = bytes.len() as u32;
        let meta = Meta { wire_len, fragment_len: longest, steering_hash: 0, ..*last.meta() };
        Whole { bytes, meta }
    }

    /// Takes the fragments out of a batch: what is in between, and datagrams that they complete, are handed to
    /// `handle`, in order.
    pub(crate) fn divide<'f, N: NetworkFunction, R: Release>(
        &mut self,
        frames: &mut [Frame<'f>],
        release: &mut R,
        mut handle: impl FnMut(&mut [Frame<'_>], &mut R),
    ) {
        let layout = |frame: &Frame<'_>| parse(frame.bytes(), frame.meta().wire_len);
        let stays = |frame: &Frame<'_>| !is_part::<N>(layout(frame));
        for run in frames.chunk_by_mut(|a, b| stays(a) && stays(b)) {
            match run {
                [part] if !stays(part) => {
                    let Some(mut whole) = self.add(part, layout(part), release) else { continue };
                    handle(&mut [whole.frame()], release);
                    self.forget(whole);
                }
                others => handle(others, release),
            }
        }
    }

    /// The datagram has been handled.
    pub(crate) fn forget(&mut self, whole: Whole) {
        self.take_back(whole.bytes);
    }

    fn take_back(&mut self, mut memory: Vec<u8>) {
        if self.spare.len() < 2 * UNDER_WAY {
            memory.clear();
            self.spare.push(memory);
        }
    }
}

/// Whether the checksum of its IPv4 header is right.
fn is_intact(frame: &Frame<'_>, piece: &Piece) -> bool {
    let header = frame.bytes().get(piece.ip..piece.start);
    header.is_some_and(|header| Sum::new().bytes(header).is_valid())
}

/// Whether its lengths can be those of a fragment.
fn is_sound(piece: &Piece) -> bool {
    let head = piece.start - piece.ip;
    piece.len > 0
        && (!piece.more || piece.len.is_multiple_of(8))
        && head + piece.offset + piece.len <= LONGEST
}

impl Datagram {
    fn is_late(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) >= PATIENCE_NS
    }

    fn add(&mut self, frame: &Frame<'_>, piece: &Piece) -> Effect {
        let (from, to) = (piece.offset, piece.offset + piece.len);
        let at = self.parts.partition_point(|part| part.from < from);
        let same = self.parts.get(at).is_some_and(|part| (part.from, part.to) == (from, to));
        if same && piece.more == (self.len != Some(to)) {
            return Effect::Waits;
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
    fn copy(&mut self, frame: &Frame<'_>, piece: &Piece) -> bool {
        let bytes = frame.bytes();
        let ip = bytes.get(piece.ip..piece.start).unwrap_or_default();
        if let [first, second, ..] = ip {
            let is_v4 = first >> 4 == 4;
            let codepoint = if is_v4 { second & 3 } else { second >> 4 & 3 };
            self.congestion |= 1 << codepoint;
            if !is_v4 && self.header_len != 0 && self.header_len != ip.len() {
                return false;
            }
        }
        self.header_len = ip.len();
        let part = bytes.get(piece.start..piece.start + piece.len).unwrap_or_default();
        self.payload.extend_from_slice(part);
        if piece.offset == 0 {
            self.head.clear();
            self.head.extend_from_slice(bytes.get(..piece.start).unwrap_or_default());
        }
        self.longest = self.longest.max((piece.start - piece.ip + piece.len) as u16);
        true
    }

    /// Has the first fragment's header say what the datagram is, with `len` bytes of payload. False: it
    /// would be longer than an IP packet can be.
    fn finish_head(&mut self, len: usize) -> bool {
        let head_len = self.head.len();
        let layout = parse(&self.head, u32::MAX);
        let Some(ip) = self.head.get_mut(layout.l3_offset()..) else { return false };
        let is_v4 = ip.first().is_some_and(|first| first >> 4 == 4);
        let total = ip.len() + len;
        if total > LONGEST || ip.len() < 20 || head_len == 0 {
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
            ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            (ip[6], ip[7]) = (ip[6] & DONT_FRAGMENT, 0);
            ip[10..12].fill(0);
            let checksum = Sum::new().bytes(ip).checksum();
            ip[10..12].copy_from_slice(&checksum);
            return true;
        }
        // The fragment header comes last, and says now that there are no others (RFC 6946).
        let Some(payload_len) = total.checked_sub(40) else { return false };
        ip[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
        let field = ip.len() - 6;
        ip[field..field + 2].fill(0);
        true
    }
}

/// What becomes of a packet that leaves so; of one that came in fragments, which are sent at once, as long as
/// the longest of them was: nothing more.
#[inline(always)]
pub(crate) fn leaving(frame: &Frame<'_>, verdict: Verdict, release: &mut impl Release) -> Verdict {
    if frame.meta().fragment_len == 0 {
        return verdict;
    }
    match verdict {
        Verdict::Forward(port) => Verdict::Discard(send_cut(frame, port, release).into()),
        // Fragments have one way.
        Verdict::Flood => Verdict::Discard(Builtin::PacketTooBig.into()),
        other => other,
    }
}

#[cold]
#[inline(never)]
fn send_cut(frame: &Frame<'_>, port: Port, release: &mut impl Release) -> Builtin {
    const SHORT: usize = 2_048;
    match usize::from(frame.meta().fragment_len) {
        0..SHORT => send_cut_in::<{ SHORT + BEFORE }>(frame, port, release),
        _ => send_cut_in::<{ LONGEST + BEFORE }>(frame, port, release),
    }
}

fn send_cut_in<const ROOM: usize>(
    frame: &Frame<'_>,
    port: Port,
    release: &mut impl Release,
) -> Builtin {
    let layout = parse(frame.bytes(), frame.meta().wire_len);
    let longest = frame.meta().fragment_len.into();
    let mut scratch = [0; ROOM];
    let send = |piece: &[u8]| release.emit(frame.meta(), port, piece);
    match cut(frame.bytes(), layout, longest, &mut scratch, send) {
        Some(()) => Builtin::Fragmented,
        None => Builtin::PacketTooBig,
    }
}

#[cfg(test)]
mod tests;
