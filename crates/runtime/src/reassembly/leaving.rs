//! What was put together leaves in fragments again.

use anabranch_nf::{Builtin, Verdict};
use anabranch_packet::fragment::cut;
use anabranch_packet::{Frame, Port, parse};

use super::datagram::LONGEST;
use crate::instance::Release;

/// Room for what is before an IP header.
const BEFORE: usize = 128;

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
