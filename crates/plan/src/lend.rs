//! Whether shards may lend one another the values of an allocator that steers.
//!
//! A packet that brings a value which another shard has borrowed comes to the value's home first, and
//! finds nothing there. That is found out when it asks, in the middle of a handler, which runs to its
//! end. If no call path on which nothing was found does anything but drop the packet, all may be
//! forgotten, and the packet handled where the value went. And nothing else may need it at home: objects
//! whose entries are named by what the packet itself brings are there.

use std::collections::BTreeSet;

use anabranch_analysis::expr::Term;
use anabranch_analysis::{Access, CallPath, Mode, Verdict};

use crate::build::Decision;
use crate::filter::{Caller, caller};
use crate::shard::Steered;
use crate::touch::{POOL, Touches};

/// Whether shards may lend one another what `steered` gives out.
pub(crate) fn lends(decision: &Decision<'_>, steered: &Steered) -> bool {
    let touches = &decision.touches;
    let paths = touches.paths;
    let brought = Brought { touches, decision, steered };
    let of_packets = paths.paths.iter().filter(|path| caller(path) == Caller::Packet);
    !paths.given_up
        && !brought.is_needed_at_home()
        && of_packets.filter(|path| brought.is_asked(path)).all(|path| brought.may_go_on(path))
}

/// What packets bring of one allocator.
struct Brought<'a, 'p> {
    touches: &'a Touches<'p>,
    decision: &'a Decision<'p>,
    steered: &'a Steered,
}

impl Brought<'_, '_> {
    /// Whether packets that bring a value must meet others for the sake of something else.
    fn is_needed_at_home(&self) -> bool {
        let sharding = &self.decision.sharding;
        let others = sharding.constraints.iter().filter(|(object, _)| {
            **object != self.steered.allocator
                && sharding.owners.get(object) != Some(&self.steered.allocator)
                && !self.decision.limits.contains(object)
        });
        let mut sides = others.flat_map(|(_, own)| own.all.iter()).flat_map(|(one, _)| one.sides);
        sides.any(|(port, class)| {
            let mut replies = self.steered.replies.iter().map(|(context, _)| context);
            replies.any(|reply| reply.port == port && reply.classes.contains(class))
        })
    }

    fn is_of_allocator(&self, access: &Access) -> bool {
        access.object == self.touches.paths.objects[self.steered.allocator].name
            && !POOL.contains(&access.operation.as_str())
    }

    /// Accesses by what a packet brings, or at lines that make such.
    fn asks<'c>(&'c self, path: &'c CallPath) -> impl Iterator<Item = &'c Access> + Clone {
        let owned = move |access: &Access| {
            let object = self.touches.object(&access.object);
            let owner = object.and_then(|object| self.decision.sharding.owners.get(&object));
            owner == Some(&self.steered.allocator) && !POOL.contains(&access.operation.as_str())
        };
        let brings = move |access: &&Access| {
            self.steered.lines.contains(&access.line)
                && (self.is_of_allocator(access) || owned(access))
        };
        path.accesses.iter().filter(brings)
    }

    fn is_asked(&self, path: &CallPath) -> bool {
        self.asks(path).next().is_some()
    }

    /// Whether the path finds what it asks for, or does nothing that counts.
    fn may_go_on(&self, path: &CallPath) -> bool {
        let terms = &self.touches.paths.terms;
        let first = self.asks(path).next();
        let own = self.asks(path).filter(|access| self.is_of_allocator(access));
        let keys: BTreeSet<Option<Term>> = own.clone().map(key).collect();
        // Only the allocator tells that something has gone, and of one value.
        if keys.len() != 1 || !first.is_some_and(|access| self.is_of_allocator(access)) {
            return false;
        }
        let misses = own.clone().any(|access| path.outcome(access, terms) != Some(true));
        !misses || self.only_drops(path, &keys)
    }

    fn only_drops(&self, path: &CallPath, keys: &BTreeSet<Option<Term>>) -> bool {
        let terms = &self.touches.paths.terms;
        let drops = match &path.verdict {
            Verdict::Drop(_) => true,
            Verdict::Object(object) => self.is_l3(object),
            _ => false,
        };
        let does_nothing = path.effects.is_empty() && path.rewrites.is_empty() && !path.cut_off;
        let changes = |access: &Access| {
            let missed = self.is_of_allocator(access)
                && match path.outcome(access, terms) {
                    Some(found) => !found,
                    None => keys.contains(&key(access)),
                };
            // It answers only what has not gone astray.
            let receives = access.operation == "receive" && self.is_l3(&access.object);
            access.kind == "PacketSet" || (access.mode == Mode::Write && !missed && !receives)
        };
        drops && does_nothing && !path.accesses.iter().any(changes)
    }

    fn is_l3(&self, name: &str) -> bool {
        let object = self.touches.object(name);
        object.is_some_and(|object| self.touches.paths.objects[object].kind == "L3")
    }
}

/// The index that an access is made under.
fn key(access: &Access) -> Option<Term> {
    access.key.first().map(|part| part.term)
}
