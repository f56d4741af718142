//! Which state objects need no packet to meet another: those never written, those whose writes
//! commute, those that only the control plane writes.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::expr::{Term, Terms};
use anabranch_analysis::{Access, CallPath, Effect, Mode, Paths, StateObject};

use crate::touch::POOL;

/// What a state object needs, from who writes it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: no packet writes it.
    ReadOnly,
    /// Nothing: writes commute, and readings may be stale.
    Distributed,
    /// Nothing: only the control plane writes it.
    Replicated(&'static str),
    /// That packets that touch the same entry of it meet.
    Sharding,
}

/// Whose code a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caller {
    /// A packet, or what expires in the shard that holds it.
    Packet,
    /// The control plane, once for all shards.
    Control,
    /// A timer.
    Timer,
    /// A period of every shard.
    Periodic,
    /// The end of a shard.
    Shutdown,
}

pub(crate) fn caller(path: &CallPath) -> Caller {
    match path.handler.as_str() {
        "timer" => Caller::Timer,
        "periodic" => Caller::Periodic,
        "shutdown" => Caller::Shutdown,
        control if control.starts_with("control") => Caller::Control,
        _ => Caller::Packet,
    }
}

/// Handlers that the control plane alone runs, as the text names them.
pub(crate) const OF_CONTROL: [&str; 3] = ["init", "control", "shutdown"];

/// What each object needs, in the order of [`Paths::objects`], and the lines that say so.
pub(crate) fn needs(paths: &Paths) -> Vec<(Need, BTreeSet<u32>)> {
    let timers = timers_of_control(paths);
    paths.objects.iter().map(|object| need(object, paths, timers)).collect()
}

/// Objects that a command, or a timer of the control plane, writes by what it has found in divided state, and the
/// lines where it does. Each shard has only its part of that, and would write something else, or nothing.
pub(crate) fn written_by_parts(paths: &Paths, needs: &[Need]) -> BTreeMap<usize, BTreeSet<u32>> {
    let timers = timers_of_control(paths);
    let number = |name: &str| paths.objects.iter().position(|object| object.name == name);
    let is_divided = |object: &str| {
        let need = number(object).and_then(|object| needs.get(object));
        matches!(need, Some(Need::Sharding | Need::Distributed))
    };
    let mut written: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let of_control = paths.paths.iter().filter(|path| match caller(path) {
        Caller::Control => true,
        Caller::Timer => timers,
        Caller::Packet | Caller::Periodic | Caller::Shutdown => false,
    });
    for path in of_control {
        let divided = path.accesses.iter().filter(|one| is_divided(&one.object));
        let reads: Vec<&Access> = divided.filter(|one| is_used(one, path, &paths.terms)).collect();
        for write in path.accesses.iter().filter(|one| one.mode == Mode::Write) {
            if let (Some(object), false) =
                (number(&write.object), reads.iter().all(|read| is_own(read, write, path, paths)))
            {
                written.entry(object).or_default().insert(write.line);
            }
        }
    }
    written
}

/// Whether a write changes the very entry that was found: where that is, all of it is. What is made where there is
/// none is made by all shards but the one that has it, unless packets leave all of them the same keys.
fn is_own(read: &Access, write: &Access, path: &CallPath, paths: &Paths) -> bool {
    let terms = &paths.terms;
    let asked = path.conditions.iter().any(|made| is_of(read, made.term, terms));
    let makes = write.operation == "insert" && asked && path.outcome(read, terms) != Some(true);
    let of_packets = paths.paths.iter().filter(|one| caller(one) != Caller::Control);
    let mut others = of_packets.flat_map(|one| &one.accesses);
    let by_packets = |one: &Access| {
        one.object == write.object && ["insert", "remove"].contains(&one.operation.as_str())
    };
    read.object == write.object && same_key(read, write) && !(makes && others.any(by_packets))
}

/// Whether the path may go on by what an access finds. One that writes tells too, by what was there: where that is
/// asked, or put elsewhere. That there is no room says nothing of what is there.
pub(crate) fn is_used(access: &Access, path: &CallPath, terms: &Terms) -> bool {
    let takes_room = access.operation == "insert" || POOL.contains(&access.operation.as_str());
    if access.mode == Mode::Read || takes_room {
        return access.mode == Mode::Read;
    }
    let others = path.accesses.iter().filter(|one| one.number != access.number);
    let put = others.flat_map(|one| one.key.iter().chain(&one.value)).map(|part| part.term);
    let mut uses = path.conditions.iter().map(|made| made.term).chain(put);
    uses.any(|term| is_of(access, term, terms))
}

/// Whether a term depends on what an access has found.
fn is_of(access: &Access, term: Term, terms: &Terms) -> bool {
    let found = access.result.iter().map(|part| part.term).chain(access.outcome);
    let mut found = found.flat_map(|term| terms.unknowns(term).iter());
    found.any(|id| terms.unknowns(term).contains(id))
}

/// Whether two accesses are to entries of the same key; what has none is no entry.
pub(crate) fn same_key(a: &Access, b: &Access) -> bool {
    let [a, b] = [a, b].map(|access| access.key.iter().map(|part| part.term));
    a.len() > 0 && a.eq(b)
}

/// Whether only the control plane sets timers, if anybody does.
pub(crate) fn timers_of_control(paths: &Paths) -> bool {
    !paths.paths.iter().any(packets_set_timers)
}

fn packets_set_timers(path: &CallPath) -> bool {
    let sets = path.effects.iter().any(|effect| matches!(effect, Effect::SetTimer { .. }));
    sets && matches!(caller(path), Caller::Packet | Caller::Periodic)
}

fn need(object: &StateObject, paths: &Paths, timers: bool) -> (Need, BTreeSet<u32>) {
    let writers = writers(object, paths);
    let lines: BTreeSet<u32> = writers.iter().map(|(_, line)| *line).collect();
    let by_packets = writers.iter().any(|(caller, _)| match caller {
        Caller::Packet | Caller::Periodic => true,
        Caller::Timer => !timers,
        Caller::Control | Caller::Shutdown => false,
    });
    let need = match object.kind {
        "L3" => Need::Replicated("routes are read; neighbours learnt by one shard are told to all"),
        _ if !by_packets && writers.is_empty() => Need::ReadOnly,
        "Distributed" => Need::Distributed,
        "Counter" if !read_by_packets(object, paths) => Need::Distributed,
        _ if !by_packets => Need::Replicated("only the control plane writes it"),
        _ => Need::Sharding,
    };
    (need, lines)
}

/// Who writes an object where: on the paths, and, where loops were cut off, in the text.
fn writers(object: &StateObject, paths: &Paths) -> BTreeSet<(Caller, u32)> {
    let mut writers = BTreeSet::new();
    for path in &paths.paths {
        let own = path.accesses.iter().filter(|access| access.object == object.name);
        let writes = own.filter(|access| access.mode == Mode::Write);
        writers.extend(writes.map(|access| (caller(path), access.line)));
    }
    if paths.cut_off().next().is_some() {
        for site in object.sites.iter().filter(|site| site.writes) {
            let by_packets = site.handlers.iter().any(|one| !OF_CONTROL.contains(&one.as_str()));
            let timer_only = site
                .handlers
                .iter()
                .all(|one| one == "timer" || OF_CONTROL.contains(&one.as_str()));
            match (by_packets, timer_only) {
                (true, true) => writers.insert((Caller::Timer, site.line)),
                (true, false) => writers.insert((Caller::Packet, site.line)),
                (false, _) if site.handlers.contains("control") => {
                    writers.insert((Caller::Control, site.line))
                }
                (false, _) => false,
            };
        }
    }
    writers
}

/// By packets or timers; or by a period of which something comes, which each shard has for itself.
fn read_by_packets(object: &StateObject, paths: &Paths) -> bool {
    let reads = |path: &&CallPath| {
        path.accesses.iter().any(|one| one.object == object.name && one.mode == Mode::Read)
    };
    paths.paths.iter().filter(reads).any(|path| match caller(path) {
        Caller::Packet => true,
        Caller::Timer | Caller::Periodic => acts(path),
        Caller::Control | Caller::Shutdown => false,
    })
}

/// Whether a path leaves anything: a packet, a timer, state.
fn acts(path: &CallPath) -> bool {
    path.cut_off
        || !path.effects.is_empty()
        || path.accesses.iter().any(|one| one.mode == Mode::Write)
}
