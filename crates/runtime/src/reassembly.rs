//! Datagrams put together from their fragments, for functions that ask for whole ones (`layer = 4`).
//!
//! ```text
//! fragment ─▶ held ─▶ … ─▶ the last one missing ─▶ datagram ─▶ steered, handled ─▶ fragments, as long as
//!                └─ too late, overlapping, too many: all of the datagram is dropped   the longest that came
//! ```
//!
//! All fragments between two addresses come to one worker, which keeps what is incomplete; the datagram then
//! goes to whoever owns its flow, as what re-enters does. Where packets are read from captures they are put
//! together before they are divided among workers, so that what comes together, and when, does not depend on
//! the number of workers.
//!
//! Nothing that the wire says is believed: memory and time are bounded, and fragments that overlap are
//! refused with all of their datagram (RFC 5722; in IPv4 as well), but for one that came twice. Unfragmented
//! packets wait for nothing (RFC 4787, REQ-14a), and pay nothing.

mod datagram;
mod gatherer;
mod leaving;
mod pool;

use std::collections::VecDeque;

use anabranch_nf::{Builtin, DropReason, NetworkFunction};
use anabranch_packet::{Frame, Layout, Meta, parse};

use crate::instance::Release;
use crate::steer::Steering;
pub(crate) use gatherer::Gatherer;
pub(crate) use leaving::leaving;
use pool::{Fate, Pool};

/// Whether a packet is to be put together with others before an NF of layer 4 sees it.
#[inline(always)]
pub(crate) fn is_part(layout: Layout) -> bool {
    layout.is_fragment() && layout.malformed().is_none()
}

/// Whether a batch has fragments to be put together.
#[inline(always)]
pub(crate) fn has_parts<N: NetworkFunction>(frames: &[Frame<'_>]) -> bool {
    N::LAYER == 4 && may_have_parts(frames) && frames.iter().any(is_part_frame::<N>)
}

/// Whether one of these is anything but untagged IPv4 that is no fragment: all are looked at, without a branch,
/// since nearly always none is.
#[inline(always)]
fn may_have_parts(frames: &[Frame<'_>]) -> bool {
    let odd = |bytes: &[u8]| match bytes.get(12..22) {
        Some(&[kind, kind_low, .., high, low]) => (kind ^ 8) | kind_low | (high & 0x3f) | low,
        _ => 1,
    };
    frames.iter().fold(0, |all, frame| all | odd(frame.bytes())) != 0
}

/// Whether this is one.
#[inline(always)]
pub(crate) fn is_part_frame<N: NetworkFunction>(frame: &Frame<'_>) -> bool {
    N::LAYER == 4
        && may_be_part(frame.bytes())
        && is_part(parse(frame.bytes(), frame.meta().wire_len))
}

/// Of nearly every packet, which is untagged, two fields say that it is no fragment: the offset of IPv4; of
/// IPv6 that what comes next is TCP, UDP or ICMP.
#[inline(always)]
fn may_be_part(bytes: &[u8]) -> bool {
    match bytes.get(12..22) {
        Some([8, 0, .., high, low]) => (high & 0x3f) | low != 0,
        Some([0x86, 0xdd, .., next, _]) => !matches!(next, 6 | 17 | 58),
        _ => true,
    }
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

/// Who puts the datagrams of a worker's packets together.
#[derive(Debug)]
pub(crate) enum Reassembly {
    /// The worker.
    Here(Pool),
    /// A [`Gatherer`], which has given these, in the order of the packets that complete them.
    Before(VecDeque<Whole>),
}

impl Default for Reassembly {
    fn default() -> Self {
        Self::Here(Pool::default())
    }
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
        let pool = match self {
            Self::Here(pool) => pool,
            Self::Before(given) => return take_given(given, frame, release),
        };
        let outcome = pool.add(frame.bytes(), frame.meta(), layout);
        release.settle(Builtin::Reassembled.into(), &outcome.reassembled);
        release.settle(Builtin::IncompleteDatagram.into(), &outcome.incomplete);
        match outcome.fate {
            Fate::Completes(whole) => return Some(whole),
            Fate::Waits => release.hold(frame),
            Fate::Dropped(reason) => release.discard(frame, reason),
        }
        None
    }

    /// From now on datagrams are put together by a [`Gatherer`]: these, and what it gives later.
    pub(crate) fn expect(&mut self, wholes: Vec<Whole>) {
        match self {
            Self::Before(given) => given.extend(wholes),
            Self::Here(_) => *self = Self::Before(wholes.into()),
        }
    }

    /// Drops all that is incomplete: nothing comes any more.
    pub(crate) fn end(&mut self, release: &mut impl Release) {
        if let Self::Here(pool) = self {
            release.settle(Builtin::IncompleteDatagram.into(), &pool.end());
        }
    }

    /// Drops what is late at `now_ns`, though no fragment comes: so that it is told of.
    pub(crate) fn give_up_late(&mut self, now_ns: u64, release: &mut impl Release) {
        if let Self::Here(pool) = self
            && pool.is_late(now_ns)
        {
            release.settle(Builtin::IncompleteDatagram.into(), &pool.give_up_late(now_ns));
        }
    }

    /// The datagram has been handled.
    pub(crate) fn forget(&mut self, whole: Whole) {
        if let Self::Here(pool) = self {
            pool.take_back(whole.bytes);
        }
    }
}

/// The datagram that the fragment completes, of those that were given. All others are accounted for by
/// who puts them together.
fn take_given(
    given: &mut VecDeque<Whole>,
    frame: &Frame<'_>,
    release: &mut impl Release,
) -> Option<Whole> {
    let meta = *frame.meta();
    // Of packets that have not come here: there are none, and if there were nothing would be lost but them.
    while let Some(next) = given.pop_front_if(|next| next.meta.number < meta.number) {
        release.settle(Builtin::IncompleteDatagram.into(), &[next.meta.number]);
    }
    let Some(next) = given.pop_front_if(|next| next.meta.number == meta.number) else {
        release.hold(frame);
        return None;
    };
    Some(Whole { meta: Meta { arrival_ns: meta.arrival_ns, ..next.meta }, ..next })
}

/// A worker's side of state that is shared: it handles batches, in which there may be fragments.
pub(crate) trait Assembles<N: NetworkFunction> {
    /// Datagrams that are incomplete.
    fn reassembly(&mut self) -> &mut Reassembly;

    /// Handles packets up to the first that is to be put together with others, and returns how many.
    fn handle_to_part(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) -> usize;

    /// Handles a batch.
    #[inline(always)]
    fn assemble(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) {
        let mut rest = frames;
        loop {
            let handled = self.handle_to_part(rest, release);
            let Some((part, after)) = rest[handled..].split_first_mut() else { return };
            self.gather(part, release);
            rest = after;
        }
    }

    /// Keeps a fragment until its datagram is complete, and handles that then.
    #[cold]
    fn gather(&mut self, part: &Frame<'_>, release: &mut impl Release) {
        let layout = parse(part.bytes(), part.meta().wire_len);
        let Some(mut whole) = self.reassembly().add(part, layout, release) else { return };
        self.handle_to_part(&mut [whole.frame()], release);
        self.reassembly().forget(whole);
    }
}

#[cfg(test)]
mod tests;
