//! Packets followed one by one: what happens to each, and all that it asks of the state.
//!
//! Run with the [`Traced`](NetworkFunction::Traced) form of an NF; any other leaves no events.

use anabranch_io::source::open;
use anabranch_nf::trace::{Event, take};
use anabranch_nf::{DropReason, NetworkFunction, Word};
use anabranch_packet::{Frame, Meta, Port};

use crate::instance::{Instance, Release};
use crate::mailbox::Again;
use crate::run::{Options, RunError, read_commands};

/// Room before and behind each packet, as ports leave it.
const ROOM: usize = 256;

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
}

/// Has one worker handle every packet of the inputs, one at a time, and shows each to `see`, until that says
/// that it has seen enough.
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
            let mut witness = Witness { fate: Fate::default(), ports, words: N::REASONS };
            let mut buffer = vec![0; ROOM + bytes.len() + ROOM];
            if let Some(place) = buffer.get_mut(ROOM..ROOM + bytes.len()) {
                place.copy_from_slice(bytes);
            }
            let frame = Frame::new(&mut buffer, ROOM, bytes.len(), 0, meta);
            instance.handle(&mut [frame], &mut witness);
            let (events, fate) = (take(), witness.fate);
            if !see(Followed { meta, bytes, events, fate }) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Notes what becomes of one packet.
struct Witness {
    fate: Fate,
    ports: usize,
    /// The NF's own drop reasons.
    words: &'static [Word],
}

impl Witness {
    fn drop(&mut self, reason: impl Into<DropReason>) {
        self.fate.dropped = Some(reason.into().word(self.words));
    }
}

impl Release for Witness {
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        if usize::from(port.index()) < self.ports {
            self.fate.left.push((port.index(), frame.bytes().to_vec()));
        } else {
            self.drop(anabranch_nf::Builtin::NoSuchPort);
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

    fn emit(&mut self, _: &Meta, port: Port, frame: &[u8]) {
        self.fate.emitted.push((port.index(), frame.to_vec()));
    }
}
