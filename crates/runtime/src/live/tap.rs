//! Copies of packets for who watches them: what enters, what leaves, what is dropped and why.
//!
//! ```text
//!  worker ─ batch ─▶ Taps ──filter──▶ bounded ring ──▶ whoever asked
//!                                  └─ full: counted as lost, never waited for
//! ```
//!
//! Where nobody watches, a batch pays for seeing that there is no tap.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use anabranch_io::live::Sent;
use anabranch_nf::settings::nearest;
use anabranch_nf::{Builtin, DropReason, Word};
use anabranch_packet::{Frame, Meta, Port, parse_any};

/// Copies that may wait to be taken.
const RING: usize = 8_192;
/// Drop reasons of the runtime and the NF, by word.
type Words = &'static [Word];

/// Reasons for which packets are dropped that nobody can be shown, each with why.
pub type Unseen = &'static [(Builtin, &'static str)];

/// Those of a living run.
pub const NEVER_COPIED: Unseen = &[(
    Builtin::Oversized,
    "the port drops them before a worker has them: `top` and the report count them",
)];

/// What befell a packet when it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was received, and nobody has touched it yet.
    Entered,
    /// A port's queue took it.
    Left,
    /// It was dropped, for the reason of this word; as it was then.
    Dropped(&'static str),
    /// It was dropped, for the reason of this word, as it was to leave by a port.
    Unsent(&'static str),
}

/// A copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// What befell it.
    pub event: Event,
    /// The port by which it entered or left; of a dropped one, that by which it entered; of an unsent one, that
    /// by which it was to leave.
    pub port: u8,
    /// When, in nanoseconds since the Unix epoch, by the clock of the run.
    pub at_ns: u64,
    /// Its length.
    pub len: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// Which packets are copied: those that meet all that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// What enters, what leaves, what is dropped.
    pub events: [bool; 3],
    /// A port by its number.
    pub port: Option<u8>,
    /// A word for which packets are dropped.
    pub reason: Option<String>,
    /// An address that they come from or go to.
    pub host: Option<IpAddr>,
    /// Bytes of each that are copied.
    pub snap: usize,
}

impl Default for Filter {
    fn default() -> Self {
        let (port, reason, host) = (None, None, None);
        Self { events: [true; 3], port, reason, host, snap: usize::MAX }
    }
}

impl Filter {
    /// Reads words such as `dropped port=wan host=10.0.0.1 reason=no-route snap=96`, where ports have these
    /// names and `words` are the NF's own drop reasons. Of `in`, `out` and `dropped`, those that are named; all,
    /// if none is.
    ///
    /// # Errors
    /// Which word is none of these, or names no port or drop reason, or one of `unseen`, so that no packet would
    /// ever meet it.
    pub fn read(text: &str, ports: &[&str], words: Words, unseen: Unseen) -> Result<Self, String> {
        let mut filter = Self { events: [false; 3], ..Self::default() };
        let mut given = BTreeSet::new();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if word.contains('=') && !given.insert(key) {
                return Err(format!(
                    "`{key}=` is given twice, and packets meet all filters: {text}"
                ));
            }
            match (key, value) {
                ("in", "") => filter.events[0] = true,
                ("out", "") => filter.events[1] = true,
                ("dropped", "") => filter.events[2] = true,
                ("port", name) => {
                    let port = ports.iter().position(|port| *port == name);
                    let wrong = || format!("there is no port `{name}`: {}", ports.join(", "));
                    filter.port = Some(port.ok_or_else(wrong)? as u8);
                }
                ("host", host) => {
                    let wrong = |_| format!("`{host}` is no address, such as 10.0.0.1");
                    filter.host = Some(host.parse().map_err(wrong)?);
                }
                ("reason", reason) if !reason.is_empty() => {
                    filter.reason = Some(seen_reason(reason, words, unseen)?);
                    filter.events[2] = true;
                }
                ("snap", len) => {
                    // Elsewhere 0 is the whole packet.
                    let copied = len.parse().ok().filter(|len| *len > 0);
                    filter.snap = copied.ok_or_else(|| {
                        format!("`{len}` is no number of bytes, from 1 on; without it packets are copied whole")
                    })?;
                }
                _ => {
                    return Err(format!(
                        "`{word}` is no filter: write in, out, dropped, port=NAME, host=ADDRESS, \
                         reason=WORD or, of a capture, snap=BYTES"
                    ));
                }
            }
        }
        if filter.events == [false; 3] {
            filter.events = [true; 3];
        }
        Ok(filter)
    }

    /// Whether it may want to know whether packets leave.
    fn asks_what_leaves(&self) -> bool {
        let of_ports = [Builtin::TransmitFull, Builtin::PacketTooBig, Builtin::LinkDown];
        let is_of_ports = |word: &str| of_ports.iter().any(|one| one.as_str() == word);
        self.events[1] || self.events[2] && self.reason.as_deref().is_none_or(is_of_ports)
    }

    /// Whether a packet to which this befell, of these bytes and this length on the wire, meets it.
    pub fn wants(&self, event: Event, port: u8, bytes: &[u8], len: u32) -> bool {
        let (place, reason) = match event {
            Event::Entered => (0, None),
            Event::Left => (1, None),
            Event::Dropped(reason) | Event::Unsent(reason) => (2, Some(reason)),
        };
        self.events[place]
            && self.port.is_none_or(|wanted| wanted == port)
            && self.reason.as_deref().is_none_or(|wanted| reason.is_none_or(|word| word == wanted))
            && self.host.is_none_or(|host| concerns(host, bytes, len))
    }
}

/// Whether a packet comes from or goes to `host`.
fn concerns(host: IpAddr, bytes: &[u8], len: u32) -> bool {
    let layout = parse_any(bytes, len);
    let ip = bytes.get(layout.l3_offset()..).unwrap_or_default();
    let stands_at = |at: usize, address: &[u8]| ip.get(at..at + address.len()) == Some(address);
    match host {
        IpAddr::V4(host) => {
            layout.has_ipv4() && (stands_at(12, &host.octets()) || stands_at(16, &host.octets()))
        }
        IpAddr::V6(host) => {
            layout.has_ipv6() && (stands_at(8, &host.octets()) || stands_at(24, &host.octets()))
        }
    }
}

/// Packets that are being copied, at the end of whoever asked.
#[derive(Debug)]
pub struct Copies {
    /// The copies, those of each worker in their order.
    pub packets: Receiver<Copied>,
    /// Copies for which there was no room.
    pub lost: Arc<AtomicU64>,
    /// The ports' names.
    pub ports: Vec<String>,
    /// Says that nobody takes them any more.
    _end: End,
}

/// Sets what it holds when it is dropped.
#[derive(Debug)]
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Where copies are put.
#[derive(Clone)]
pub(super) struct Tap {
    filter: Arc<Filter>,
    ring: SyncSender<Copied>,
    lost: Arc<AtomicU64>,
    /// Nobody takes them any more.
    is_over: Arc<AtomicBool>,
}

impl Tap {
    /// A tap for all workers, and its other end.
    pub(super) fn new(filter: Filter, ports: Vec<String>) -> (Self, Copies) {
        let (ring, packets) = sync_channel(RING);
        let (lost, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let _end = End(Arc::clone(&is_over));
        let tap = Self { filter: Arc::new(filter), ring, lost: Arc::clone(&lost), is_over };
        (tap, Copies { packets, lost, ports, _end })
    }

    fn copy(&self, event: Event, port: u8, at_ns: u64, (bytes, len): (&[u8], u32)) {
        if !self.filter.wants(event, port, bytes, len) {
            return;
        }
        let bytes = bytes[..bytes.len().min(self.filter.snap)].to_vec();
        match self.ring.try_send(Copied { event, port, at_ns, len, bytes }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
            // It goes when interfaces are looked at next.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

/// The drop reason `name`, if it is one, and none of `unseen`.
fn seen_reason(name: &str, words: Words, unseen: Unseen) -> Result<String, String> {
    if !DropReason::words(words).any(|word| word == name) {
        return Err(no_reason(name, words));
    }
    match unseen.iter().find(|(reason, _)| reason.as_str() == name) {
        Some((_, why)) => Err(format!("no packet is ever seen that is dropped as `{name}`: {why}")),
        None => Ok(name.to_owned()),
    }
}

/// Why `name` is no drop reason, and what may have been meant.
fn no_reason(name: &str, words: Words) -> String {
    let meant = match nearest(name, DropReason::words(words)) {
        Some(word) => format!("did you mean `{word}`?"),
        None if words.is_empty() => "a report lists them".to_owned(),
        None => {
            let own: Vec<&str> = words.iter().map(|word| word.name).collect();
            format!("the function's own are {}", own.join(", "))
        }
    };
    format!("there is no drop reason `{name}`; {meant}")
}

/// The taps of one worker.
#[derive(Default)]
pub(super) struct Taps {
    taps: Vec<Tap>,
    words: Words,
    ahead_ns: u64,
    /// Fragments that wait for others while somebody watches, by number: no more than are put together.
    held: BTreeMap<u64, Held>,
}

/// A fragment as it came.
struct Held {
    port: u8,
    len: u32,
    bytes: Vec<u8>,
}

impl Taps {
    /// None yet, for an NF whose own reasons are `words`, and whose clock is `ahead_ns` ahead of the system's.
    pub(super) fn new(words: Words, ahead_ns: u64) -> Self {
        Self { words, ahead_ns, ..Self::default() }
    }

    /// One more.
    pub(super) fn add(&mut self, tap: Tap) {
        self.taps.push(tap);
    }

    /// Those that are over go: nothing is copied for them any more.
    pub(super) fn forget(&mut self) {
        self.taps.retain(|tap| !tap.is_over.load(Ordering::Relaxed));
        if self.taps.is_empty() {
            self.held.clear();
        }
    }

    /// These have been received, and nothing else.
    #[inline(always)]
    pub(super) fn entered(&self, batch: &[Frame<'_>]) {
        if !self.taps.is_empty() {
            batch.iter().for_each(|frame| self.copy_frame(Event::Entered, frame));
        }
    }

    /// Whether anybody watches.
    #[inline(always)]
    pub(super) fn are_there(&self) -> bool {
        !self.taps.is_empty()
    }

    /// Whether somebody watches what leaves, so that of each packet it has to be known whether it did.
    pub(super) fn ask_what_leaves(&self) -> bool {
        self.taps.iter().any(|tap| tap.filter.asks_what_leaves())
    }

    /// This one was to leave by a port, and alone this became of it.
    pub(super) fn given(&self, bytes: &[u8], port: usize, at_ns: u64, sent: Sent) {
        let event = match sent {
            Sent { down: 1.., .. } => Event::Unsent(Builtin::LinkDown.as_str()),
            Sent { too_big: 1.., .. } => Event::Unsent(Builtin::PacketTooBig.as_str()),
            Sent { full: 1.., .. } => Event::Unsent(Builtin::TransmitFull.as_str()),
            _ => Event::Left,
        };
        self.copy(event, port as u8, at_ns, (bytes, bytes.len() as u32));
    }

    /// This fragment waits for others, and is copied when it is known what becomes of them.
    #[inline]
    pub(super) fn hold(&mut self, frame: &Frame<'_>) {
        if self.taps.iter().any(|tap| tap.filter.events[2]) {
            let &Meta { number, port, wire_len: len, .. } = frame.meta();
            let held = Held { port: port_of(port), len, bytes: frame.bytes().to_vec() };
            self.held.insert(number, held);
        }
    }

    /// Fragments of these numbers have waited, and are dropped. Those that came when nobody watched are not there.
    #[inline]
    pub(super) fn settle(&mut self, reason: DropReason, numbers: &[u64], at_ns: u64) {
        if self.held.is_empty() {
            return;
        }
        let event = Event::Dropped(reason.word(self.words));
        for number in numbers {
            if let Some(Held { port, len, bytes }) = self.held.remove(number) {
                self.copy(event, port, at_ns, (&bytes, len));
            }
        }
    }

    /// This one goes nowhere.
    #[inline(always)]
    pub(super) fn dropped(&self, frame: &Frame<'_>, reason: DropReason) {
        if !self.taps.is_empty() {
            self.copy_frame(Event::Dropped(reason.word(self.words)), frame);
        }
    }

    #[cold]
    fn copy_frame(&self, event: Event, frame: &Frame<'_>) {
        let meta = frame.meta();
        self.copy(event, port_of(meta.port), meta.arrival_ns, (frame.bytes(), meta.wire_len));
    }

    #[cold]
    fn copy(&self, event: Event, port: u8, at_ns: u64, packet: (&[u8], u32)) {
        let at_ns = at_ns.saturating_sub(self.ahead_ns);
        self.taps.iter().for_each(|tap| tap.copy(event, port, at_ns, packet));
    }
}

fn port_of(port: Port) -> u8 {
    port.index()
}

impl std::fmt::Debug for Taps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taps").field("taps", &self.taps.len()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use anabranch_packet::craft::{Link, udp};

    use super::*;

    fn packet(bytes: &mut [u8; 96]) -> Frame<'_> {
        let (from, to) = ("10.0.0.1:9".parse().unwrap(), "192.0.2.7:53".parse().unwrap());
        let len = udp(bytes, &Link::default(), from, to, b"hello").unwrap();
        let meta =
            Meta { wire_len: len as u32, port: Port::new(1), arrival_ns: 7, ..Meta::default() };
        Frame::new(bytes, 0, len, 0, meta)
    }

    /// What a tap with this filter copies of a packet that enters, leaves and is dropped.
    fn copied(filter: &str) -> Vec<Copied> {
        let (tap, copies) =
            Tap::new(Filter::read(filter, &["lan", "wan"], &[], &[]).unwrap(), Vec::new());
        let mut taps = Taps::new(&[], 0);
        taps.add(tap);
        let mut bytes = [0; 96];
        let frame = packet(&mut bytes);
        taps.entered(std::slice::from_ref(&frame));
        taps.given(frame.bytes(), 0, 9, Sent { packets: 1, bytes: 47, ..Sent::default() });
        taps.dropped(&frame, Builtin::NoRoute.into());
        copies.packets.try_iter().collect()
    }

    #[test]
    fn filters_choose() {
        let events = |filter| copied(filter).iter().map(|one| one.event).collect::<Vec<_>>();
        let dropped = Event::Dropped("no-route");
        assert_eq!(events(""), [Event::Entered, Event::Left, dropped]);
        assert_eq!(events("in"), [Event::Entered]);
        assert_eq!(events("out dropped"), [Event::Left, dropped]);
        assert_eq!(events("port=wan"), [Event::Entered, dropped]);
        assert_eq!(events("reason=no-route"), [dropped]);
        assert_eq!(events("reason=link-down"), []);
        assert_eq!(events("host=192.0.2.7 in"), [Event::Entered]);
        assert_eq!(events("host=10.0.0.1 in"), [Event::Entered]);
        assert_eq!(events("host=10.0.0.2"), []);
        assert_eq!(events("host=2001:db8::1"), []);
        let short = &copied("in snap=20")[0];
        assert_eq!((short.bytes.len(), short.len, short.port, short.at_ns), (20, 47, 1, 7));
    }

    #[test]
    fn copies_have_the_time_of_the_system() {
        let (tap, copies) = Tap::new(Filter::default(), Vec::new());
        let mut taps = Taps::new(&[], 5);
        taps.add(tap);
        taps.given(&[0; 60], 0, 9, Sent::default());
        assert_eq!(copies.packets.try_iter().map(|one| one.at_ns).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn fragments_that_waited_are_copied_when_it_is_known_what_became_of_them() {
        let (tap, copies) = Tap::new(Filter::default(), Vec::new());
        let mut taps = Taps::new(&[], 0);
        let mut bytes = [0; 96];
        let mut frame = packet(&mut bytes);
        taps.hold(&frame);
        taps.add(tap);
        for number in 1..4 {
            frame.meta_mut().number = number;
            taps.hold(&frame);
        }
        // Nobody watched when the first came.
        taps.settle(Builtin::Reassembled.into(), &[0, 2], 8);
        taps.settle(Builtin::IncompleteDatagram.into(), &[1], 9);
        let told: Vec<_> = copies.packets.try_iter().collect();
        let said = told.iter().map(|one| (one.event, one.port, one.at_ns, one.len));
        let (whole, not) = (Event::Dropped("reassembled"), Event::Dropped("incomplete-datagram"));
        assert_eq!(said.collect::<Vec<_>>(), [(whole, 1, 8, 47), (not, 1, 9, 47)]);
        assert_eq!(told[0].bytes, frame.bytes());
        drop(copies);
        taps.forget();
        assert!(taps.held.is_empty(), "nothing is kept for who has gone");
    }

    #[test]
    fn mistakes_are_told() {
        for (wrong, part) in [
            ("port=dmz", "lan, wan"),
            ("host=here", "no address"),
            ("snap=x", "number"),
            ("snap=0", "copied whole"),
            ("host=10.0.0.1 in host=10.0.0.2", "`host=` is given twice"),
            ("port=wan port=wan", "`port=` is given twice"),
            ("tcp", "no filter"),
            ("reason", "no filter"),
            ("reason=no-rout", "did you mean `no-route`?"),
            ("reason=nothing-like-it", "own are too-late"),
            ("reason=oversized", "before a worker has them"),
        ] {
            let own = &[Word { name: "too-late", help: "" }];
            let why = Filter::read(wrong, &["lan", "wan"], own, NEVER_COPIED).unwrap_err();
            assert!(why.contains(part), "{wrong}: {why}");
        }
    }

    #[test]
    fn a_full_ring_loses_and_counts() {
        let (tap, copies) = Tap::new(Filter::default(), Vec::new());
        let mut taps = Taps::new(&[], 0);
        taps.add(tap);
        let mut bytes = [0; 96];
        let frame = packet(&mut bytes);
        for _ in 0..RING + 5 {
            taps.dropped(&frame, Builtin::NoRoute.into());
        }
        assert_eq!(copies.lost.load(Ordering::Relaxed), 5);
        assert_eq!(copies.packets.try_iter().count(), RING);
        drop(copies);
        taps.dropped(&frame, Builtin::NoRoute.into());
        let (tap, _copies) = Tap::new(Filter::default(), Vec::new());
        taps.add(tap);
        taps.forget();
        assert_eq!(taps.taps.len(), 1, "the one that is over has gone");
    }

    #[test]
    fn nothing_is_copied_when_nobody_watches_any_more() {
        let filter = Filter::read("host=192.0.2.99", &[], &[], &[]).unwrap();
        let (tap, copies) = Tap::new(filter, Vec::new());
        let mut taps = Taps::new(&[], 0);
        taps.add(tap);
        taps.forget();
        assert!(taps.are_there());
        drop(copies);
        // No packet that is wanted has come to tell.
        taps.forget();
        assert!(!taps.are_there());
    }
}
