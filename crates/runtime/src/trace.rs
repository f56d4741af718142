//! Packets followed one by one: what happens to each, and all that it asks of the state.
//!
//! Run with the [`Traced`](NetworkFunction::Traced) form of an NF; any other leaves no events.

use std::collections::BTreeMap;

use anabranch_io::source::open;
use anabranch_nf::trace::{Event, take};
use anabranch_nf::{Builtin, DropReason, NetworkFunction, Word};
use anabranch_packet::{Frame, Meta, Port};

use crate::instance::{Instance, Release};
use crate::live::Unseen;
use crate::mailbox::Again;
use crate::run::{Options, RunError, read_commands};

/// Room before and behind each packet, as ports leave it.
const ROOM: usize = 256;

/// Reasons for which no packet of a capture is dropped.
pub const NEVER_TRACED: Unseen = &[
    (Builtin::TransmitFull, LIVE),
    (Builtin::LinkDown, LIVE),
    (Builtin::MailboxFull, LIVE),
    (Builtin::Oversized, LIVE),
];
const LIVE: &str = "only live ports drop so, and a trace is of captures";

/// What became of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Ports by which it left, with its bytes as they were then.
    pub left: Vec<(u8, Vec<u8>)>,
    /// Why it was dropped, by the reason's word.
    pub dropped: Option<&'static str>,
    /// Packets that the NF made meanwhile, by their ports.
    pub emitted: Vec<(u8, Vec<u8>)>,
}

/// A packet, and what happened.
#[derive(Debug)]
pub struct Followed<'p> {
    /// Its number, time, length and port.
    pub meta: Meta,
    /// Its bytes as it arrived.
    pub bytes: &'p [u8],
    /// What handlers did, in order; timers and expiry that were due before it come first.
    pub events: Vec<Event>,
    /// What became of it.
    pub fate: Fate,
    /// Every packet of a lower number has been shown.
    pub complete_to: u64,
}

/// Has one worker handle every packet of the inputs, one at a time, and shows each to `see` as soon as it is known
/// what became of it, until that says that it has seen enough. A fragment that waits for others is shown after
/// packets that came later.
///
/// # Errors
/// As for [`run`](crate::run::run); here also when an input fails later.
pub fn trace<N: NetworkFunction>(
    options: &Options,
    see: &mut dyn FnMut(Followed<'_>) -> bool,
) -> Result<(), RunError> {
    let mut instance = Instance::<N>::new(&options.making)?;
    let commands = read_commands::<N>(&options.commands)?;
    let mut source = open(&options.inputs)?;
    let ports = options.making.ports.len();
    let mut is_first = true;
    let mut witness = Witness::new(ports, N::REASONS);
    take();
    while let Some(chunk) = source.next_chunk()? {
        for place in 0..chunk.len() {
            let Some((meta, bytes)) = chunk.packet(place) else { continue };
            if std::mem::take(&mut is_first) {
                instance.start(meta.arrival_ns);
                for (after_ns, command) in &commands {
                    instance.schedule(meta.arrival_ns.saturating_add(*after_ns), command.clone());
                }
            }
            instance.reassembly().give_up_late(meta.arrival_ns, &mut witness);
            let mut buffer = vec![0; ROOM + bytes.len() + ROOM];
            if let Some(place) = buffer.get_mut(ROOM..ROOM + bytes.len()) {
                place.copy_from_slice(bytes);
            }
            let frame = Frame::new(&mut buffer, ROOM, bytes.len(), 0, meta);
            instance.handle(&mut [frame], &mut witness);
            if !witness.show(meta, bytes, see) {
                return Ok(());
            }
        }
    }
    instance.reassembly().end(&mut witness);
    witness.show_settled(u64::MAX, see);
    Ok(())
}

/// A fragment that waits for others.
struct Waiting {
    meta: Meta,
    bytes: Vec<u8>,
    events: Vec<Event>,
}

/// Notes what becomes of one packet, and of those that have waited.
struct Witness {
    fate: Fate,
    /// The packet waits for others.
    is_held: bool,
    /// Those that wait, by number: no more than are put together.
    waiting: BTreeMap<u64, Waiting>,
    /// Those of which it is known since the last was shown why they are dropped.
    settled: Vec<(u64, &'static str)>,
    ports: usize,
    /// The NF's own drop reasons.
    words: &'static [Word],
}

impl Witness {
    fn new(ports: usize, words: &'static [Word]) -> Self {
        let (fate, waiting, settled) = (Fate::default(), BTreeMap::new(), Vec::new());
        Self { fate, is_held: false, waiting, settled, ports, words }
    }

    /// Shows what is known now of fragments that waited, and of the packet that was handled last; whether more
    /// is to be seen.
    fn show(
        &mut self,
        meta: Meta,
        bytes: &[u8],
        see: &mut dyn FnMut(Followed<'_>) -> bool,
    ) -> bool {
        let (events, fate) = (take(), std::mem::take(&mut self.fate));
        if !self.show_settled(meta.number, see) {
            return false;
        }
        if std::mem::take(&mut self.is_held) {
            self.waiting.insert(meta.number, Waiting { meta, bytes: bytes.to_vec(), events });
            return true;
        }
        let complete_to = self.complete_to(meta.number + 1);
        see(Followed { meta, bytes, events, fate, complete_to })
    }

    /// Shows the fragments of which it is known what became, before the packet of the number `next`.
    fn show_settled(&mut self, next: u64, see: &mut dyn FnMut(Followed<'_>) -> bool) -> bool {
        let mut settled = std::mem::take(&mut self.settled);
        settled.sort_unstable();
        settled.into_iter().all(|(number, reason)| {
            let Some(Waiting { meta, bytes, events }) = self.waiting.remove(&number) else {
                return true;
            };
            let complete_to = self.complete_to(next);
            let fate = Fate { dropped: Some(reason), ..Fate::default() };
            see(Followed { meta, bytes: &bytes, events, fate, complete_to })
        })
    }

    /// Of all packets before that of the number `next`, those before this number do not wait.
    fn complete_to(&self, next: u64) -> u64 {
        self.waiting.first_key_value().map_or(next, |(&oldest, _)| oldest.min(next))
    }

    fn drop(&mut self, reason: impl Into<DropReason>) {
        self.fate.dropped = Some(reason.into().word(self.words));
    }
}

impl Release for Witness {
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        if usize::from(port.index()) < self.ports {
            self.fate.left.push((port.index(), frame.bytes().to_vec()));
        } else {
            self.drop(Builtin::NoSuchPort);
        }
    }

    fn flood(&mut self, frame: &Frame<'_>) {
        let from = frame.meta().port;
        let others = (0..self.ports).map(|port| Port::new(port as u8)).filter(|port| *port != from);
        others.collect::<Vec<_>>().into_iter().for_each(|port| self.forward(frame, port));
    }

    fn discard(&mut self, _: &Frame<'_>, reason: DropReason) {
        self.drop(reason);
    }

    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {
        unreachable!("one worker has all shards");
    }

    fn hold(&mut self, _: &Frame<'_>) {
        self.is_held = true;
    }

    fn settle(&mut self, reason: DropReason, held: &[u64]) {
        let word = reason.word(self.words);
        self.settled.extend(held.iter().map(|&number| (number, word)));
    }

    fn emit(&mut self, _: &Meta, port: Port, frame: &[u8]) {
        self.fate.emitted.push((port.index(), frame.to_vec()));
    }
}
