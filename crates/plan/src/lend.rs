//! Whether shards may lend one another the values of an allocator that steers.
//!
//! A packet that brings a value which another shard has borrowed comes to the value's home first, and
//! finds nothing there. That is found out when it asks, in the middle of a handler, which runs to its
//! end. If no call path on which nothing was found does anything but drop the packet, all may be
//! forgotten, and the packet handled where the value went.

use anabranch_analysis::{Access, CallPath, Mode, Verdict};

use crate::filter::{Caller, caller};
use crate::shard::Steered;
use crate::touch::{POOL, Touches};

/// Whether shards may lend one another what `steered` gives out.
pub(crate) fn lends(touches: &Touches<'_>, steered: &Steered) -> bool {
    let paths = touches.paths;
    let name = &paths.objects[steered.allocator].name;
    let brings = |access: &Access| {
        access.object == *name
            && steered.lines.contains(&access.line)
            && !POOL.contains(&access.operation.as_str())
    };
    let of_packets = paths.paths.iter().filter(|path| caller(path) == Caller::Packet);
    let misses = |path: &&CallPath| {
        let mut brought = path.accesses.iter().filter(|access| brings(access));
        brought.any(|access| path.outcome(access, &paths.terms) != Some(true))
    };
    let forgettable = |path: &CallPath| {
        let only_drops = match &path.verdict {
            Verdict::Drop(_) => true,
            Verdict::Object(object) => is_l3(touches, object),
            _ => false,
        };
        let does_nothing = path.effects.is_empty() && path.rewrites.is_empty() && !path.cut_off;
        let changes = |access: &Access| {
            let missed = access.object == *name
                && path.outcome(access, &paths.terms) != Some(true)
                && !POOL.contains(&access.operation.as_str());
            // It answers only what nothing has gone astray of.
            let asks = access.operation == "receive" && is_l3(touches, &access.object);
            access.kind == "PacketSet" || (access.mode == Mode::Write && !missed && !asks)
        };
        only_drops && does_nothing && !path.accesses.iter().any(changes)
    };
    !paths.given_up && of_packets.filter(misses).all(forgettable)
}

fn is_l3(touches: &Touches<'_>, name: &str) -> bool {
    touches.object(name).is_some_and(|object| touches.paths.objects[object].kind == "L3")
}
