//! Datagrams that are incomplete, and what a fragment comes to. No clock and no ports in here: time is
//! that of the packets, and whoever asks does with the answer what is to be done.

use std::collections::VecDeque;

use anabranch_nf::{Builtin, DropReason};
use anabranch_packet::checksum::Sum;
use anabranch_packet::fragment::Piece;
use anabranch_packet::{Layout, Meta};

use super::Whole;
use super::datagram::{Datagram, Effect, Identity, LONGEST};

/// Datagrams that are kept at most; the oldest makes room.
pub(super) const UNDER_WAY: usize = 256;

/// The datagrams that are incomplete, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(super) under_way: VecDeque<Datagram>,
    /// Memory to be used again.
    pub(super) spare: Vec<Vec<u8>>,
}

/// What a fragment comes to, and those that waited.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) fate: Fate,
    /// Numbers of fragments that waited, and are part of a whole now.
    pub(super) reassembled: Vec<u64>,
    /// Numbers of fragments that waited, and are dropped.
    pub(super) incomplete: Vec<u64>,
}

/// What a fragment comes to.
#[derive(Debug)]
pub(super) enum Fate {
    /// For others of its datagram.
    Waits,
    /// Nothing is missing any more.
    Completes(Whole),
    /// It is dropped.
    Dropped(DropReason),
}

impl Pool {
    /// Takes a fragment that was parsed as `layout`.
    pub(super) fn add(&mut self, frame: &[u8], meta: &Meta, layout: Layout) -> Outcome {
        let incomplete = self.give_up_late(meta.arrival_ns);
        let mut outcome = Outcome { fate: Fate::Waits, reassembled: Vec::new(), incomplete };
        outcome.fate = match sound_piece(frame, layout) {
            Ok(piece) => {
                let identity = Identity::of(frame, meta.port, &piece, layout);
                let at = self.find(&identity, meta.arrival_ns, &mut outcome);
                self.add_to(at, frame, meta, &piece, &mut outcome)
            }
            Err(why) => Fate::Dropped(why.into()),
        };
        outcome
    }

    /// Where the datagram is kept; it is begun where it is new.
    fn find(&mut self, identity: &Identity, now_ns: u64, outcome: &mut Outcome) -> usize {
        if let Some(at) = self.under_way.iter().position(|one| one.identity == *identity) {
            return at;
        }
        if self.under_way.len() == UNDER_WAY {
            outcome.incomplete.extend(self.give_up(0));
        }
        let memory = [(); 2].map(|()| self.spare.pop().unwrap_or_default());
        self.under_way.push_back(Datagram::new(*identity, now_ns, memory));
        self.under_way.len() - 1
    }

    /// Adds a fragment to the datagram that is kept at `at`.
    fn add_to(
        &mut self,
        at: usize,
        frame: &[u8],
        meta: &Meta,
        piece: &Piece,
        outcome: &mut Outcome,
    ) -> Fate {
        let Some(datagram) = self.under_way.get_mut(at) else { unreachable!("it was found") };
        match datagram.add(frame, piece) {
            Effect::Waits => {
                datagram.held.push(meta.number);
                Fate::Waits
            }
            Effect::Completes => {
                let Some(mut datagram) = self.under_way.remove(at) else { unreachable!("found") };
                outcome.reassembled = std::mem::take(&mut datagram.held);
                let (bytes, meta, free) = datagram.into_packet(meta);
                self.take_back(free);
                let whole = Whole { bytes, meta };
                match whole.malformed() {
                    None => Fate::Completes(whole),
                    Some(why) => {
                        self.take_back(whole.bytes);
                        Fate::Dropped(why)
                    }
                }
            }
            Effect::Spoils => {
                outcome.incomplete.extend(self.give_up(at));
                Fate::Dropped(Builtin::IncompleteDatagram.into())
            }
        }
    }

    /// Whether a datagram has been waited for long enough at `now_ns`.
    #[inline]
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        self.under_way.front().is_some_and(|oldest| oldest.is_late(now_ns))
    }

    /// Gives up what has been waited for long enough; the numbers of fragments that waited.
    pub(super) fn give_up_late(&mut self, now_ns: u64) -> Vec<u64> {
        let mut held = Vec::new();
        while self.is_late(now_ns) {
            held.extend(self.give_up(0));
        }
        held
    }

    /// Gives a datagram up; the numbers of fragments that waited for it.
    fn give_up(&mut self, at: usize) -> Vec<u64> {
        let Some(mut datagram) = self.under_way.remove(at) else { return Vec::new() };
        let held = std::mem::take(&mut datagram.held);
        datagram.into_memory().into_iter().for_each(|memory| self.take_back(memory));
        held
    }

    /// Gives all of them up: nothing comes any more. The numbers of fragments that waited.
    pub(super) fn end(&mut self) -> Vec<u64> {
        self.under_way.drain(..).flat_map(|datagram| datagram.held).collect()
    }

    /// Memory that is free now.
    pub(super) fn take_back(&mut self, mut memory: Vec<u8>) {
        if self.spare.len() < 2 * UNDER_WAY {
            memory.clear();
            self.spare.push(memory);
        }
    }
}

/// Where a fragment stands, if its lengths can be those of one and its IPv4 header is intact: what they
/// make gets a new one.
fn sound_piece(frame: &[u8], layout: Layout) -> Result<Piece, Builtin> {
    let is_sound = |piece: &Piece| {
        let head = piece.start - piece.ip;
        piece.len > 0
            && (!piece.more || piece.len.is_multiple_of(8))
            && head + piece.offset + piece.len <= LONGEST
    };
    let piece = Piece::of(frame, layout).filter(is_sound).ok_or(Builtin::IncompleteDatagram)?;
    let header = frame.get(piece.ip..piece.start).unwrap_or_default();
    if layout.has_ipv4() && !Sum::new().bytes(header).is_valid() {
        return Err(Builtin::Ipv4Checksum);
    }
    Ok(piece)
}
