//! The decision, written down.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::{CallPath, Effect, Mode};

use crate::build::{Decision, Options};
use crate::class::Class;
use crate::constraint::{Cause, Constraint};
use crate::filter::{Caller, Need, caller, is_used, timers_of_control};
use crate::keys::Keys;
use crate::lend::lends;
use crate::model::{Difference, Meeting, Object, ObjectMode, Plan, SteeredAllocation, Strategy};
use crate::ranges::equalities;
use crate::shard::Steered;

/// The plan of a decision, without its times.
pub(crate) fn plan(decision: &Decision<'_>, keys: Keys, options: &Options) -> Plan {
    let steered = allocations(decision);
    let objects = objects(decision);
    Plan {
        nf: decision.touches.paths.name.clone(),
        strategy: decision.strategy,
        nic: options.nic.name.to_owned(),
        index_bits: keys.index_bits,
        seed: options.seed,
        constraints: meetings(decision),
        differences: differences(decision, &keys, &objects, &steered),
        notes: notes(decision),
        steered,
        objects,
        ports: keys.ports,
        impossible: decision.impossible.clone(),
        solve_us: 0,
        total_ms: 0,
    }
}

fn objects(decision: &Decision<'_>) -> Vec<Object> {
    let all = &decision.touches.paths.objects;
    (0..all.len())
        .map(|at| {
            let (mode, why, lines) = mode(decision, at);
            Object {
                name: all[at].name.clone(),
                kind: all[at].kind.to_owned(),
                mode,
                why,
                lines: lines.into_iter().collect(),
                capacity: all[at].capacity.clone(),
            }
        })
        .collect()
}

/// A mode, why, and the lines that say so.
pub(crate) type Reason = (ObjectMode, String, BTreeSet<u32>);

pub(crate) fn mode(decision: &Decision<'_>, object: usize) -> Reason {
    let own = &decision.touches.paths.objects[object];
    let lines = decision.lines[object].clone();
    if let Some((why, lines)) = decision.sharding.refused.get(&object) {
        return (ObjectMode::Shared, why.clone(), lines.clone());
    }
    match decision.touches.needs[object] {
        Need::ReadOnly => {
            let by_init = own.written_by("init");
            let why = match by_init {
                Some(_) => "only `init` writes it",
                None => "nothing writes it",
            };
            (ObjectMode::ReadOnly, why.to_owned(), by_init.into_iter().collect())
        }
        Need::Distributed => {
            let why = match &own.staleness_ms {
                Some(ms) => format!("its writes commute, and readings may be {ms} ms old"),
                None => "its writes commute".to_owned(),
            };
            (ObjectMode::Distributed, why, lines)
        }
        Need::Replicated(why) => (ObjectMode::Replicated, why.to_owned(), lines),
        Need::Sharding => sharded(decision, object, lines),
    }
}

fn sharded(decision: &Decision<'_>, object: usize, lines: BTreeSet<u32>) -> Reason {
    let sharding = &decision.sharding;
    if decision.strategy == Strategy::Transactional {
        return (ObjectMode::Shared, "all workers change it, in transactions".to_owned(), lines);
    }
    if decision.strategy == Strategy::Lock {
        return (ObjectMode::Shared, "everything is under one lock".to_owned(), lines);
    }
    if decision.limits.contains(&object) {
        let why = "it only limits how many entries are opened: each shard counts its own";
        return (ObjectMode::PerShard, why.to_owned(), lines);
    }
    let name = |at: usize| decision.touches.paths.objects[at].name.as_str();
    if let Some(steered) = sharding.steered.iter().find(|one| one.allocator == object) {
        let why = "packets bring its indices back: it gives out those that lead them home";
        return (ObjectMode::Steered, why.to_owned(), steered.lines.clone());
    }
    if let Some(found) = sharding.interchangeable.get(&object) {
        let why = "a packet that brings an index back finds the same with it or without it, unless \
                   it belongs to whoever was given it";
        return (ObjectMode::Sharded, why.to_owned(), found.clone());
    }
    let why = match sharding.owners.get(&object) {
        Some(owner) if *owner == object => {
            "its indices stay in the shard that was given them".to_owned()
        }
        Some(owner) => format!("its entries are named by indices of `{}`", name(*owner)),
        None => "packets that touch the same entry meet".to_owned(),
    };
    (ObjectMode::Sharded, why, lines)
}

/// The constraints, those of one pair of ports and of the same equalities as one.
fn meetings(decision: &Decision<'_>) -> Vec<Meeting> {
    type Key = (usize, usize, Vec<String>);
    let mut merged: BTreeMap<Key, (BTreeSet<Class>, BTreeSet<Class>, Cause)> = BTreeMap::new();
    for (constraint, cause) in &decision.constraints.all {
        let [(first, a), (second, b)] = constraint.sides;
        let key = (first, second, words(decision, constraint));
        let (left, right, all) = merged.entry(key).or_default();
        left.insert(a);
        right.insert(b);
        all.extend(cause);
    }
    let names = |classes: BTreeSet<Class>| classes.iter().map(Class::to_string).collect();
    merged
        .into_iter()
        .map(|((first, second, equalities), (left, right, cause))| Meeting {
            ports: vec![decision.ports[first].clone(), decision.ports[second].clone()],
            equalities,
            classes: [names(left), names(right)],
            objects: cause
                .objects
                .iter()
                .map(|at| decision.touches.paths.objects[*at].name.clone())
                .collect(),
            lines: cause.every_line().into_iter().collect(),
        })
        .collect()
}

fn words(decision: &Decision<'_>, constraint: &Constraint) -> Vec<String> {
    equalities(constraint, &decision.ports, &decision.touches.fields)
}

/// Allocators that steer.
pub(crate) fn allocations(decision: &Decision<'_>) -> Vec<SteeredAllocation> {
    match decision.strategy {
        Strategy::Transactional | Strategy::Lock => Vec::new(),
        _ => decision.sharding.steered.iter().flat_map(|one| steered(decision, one)).collect(),
    }
}

/// An allocator that steers, once for each port at which its values come back.
fn steered(decision: &Decision<'_>, steered: &Steered) -> Vec<SteeredAllocation> {
    let mut by_port: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
    for (context, field) in &steered.replies {
        let name = decision.touches.fields.name(*field);
        let header = crate::class::Classes::with(decision.touches.fields.header(*field));
        for class in context.classes.and(header).iter() {
            let fields = by_port.entry(context.port).or_default();
            fields.insert(class.to_string(), name.to_owned());
        }
    }
    let lends = lends(decision, steered);
    by_port
        .into_iter()
        .map(|(port, fields)| SteeredAllocation {
            object: decision.touches.paths.objects[steered.allocator].name.clone(),
            port: decision.ports[port].clone(),
            modulus: grouped(&steered.modulus),
            base: steered.base.trim_start_matches("- ").to_owned(),
            fields,
            lines: steered.lines.iter().copied().collect(),
            lends,
        })
        .collect()
}

/// An expression as an operand.
fn grouped(expression: &str) -> String {
    match expression.contains(' ') {
        true => format!("({expression})"),
        false => expression.to_owned(),
    }
}

fn difference(what: impl Into<String>, lines: impl IntoIterator<Item = u32>) -> Difference {
    Difference { what: what.into(), lines: lines.into_iter().collect() }
}

fn differences(
    decision: &Decision<'_>,
    keys: &Keys,
    objects: &[Object],
    steered: &[SteeredAllocation],
) -> Vec<Difference> {
    let mut found = Vec::new();
    if decision.strategy != Strategy::SharedNothing {
        let what = "packets of several workers take effect as they are handled, not in the order of their \
                    times, and none at an earlier time than one that had to be alone before it";
        found.push(difference(what, []));
    }
    if decision.strategy.shares_all() {
        return found;
    }
    found.extend(capacities(decision, objects));
    if decision.strategy == Strategy::SharedNothing {
        found.extend(values(decision, objects));
        found.extend(steered.iter().map(of_steering));
        found.extend(counts(objects));
        found.extend(interchangeable(decision));
        found.extend(initial(decision));
    }
    found.extend(together(decision, keys));
    let again = decision.recirculations();
    if !again.is_empty() {
        found.push(difference(
            "a recirculated packet is steered anew, and handled in the shard it belongs to then",
            again,
        ));
    }
    found.extend(replicated(objects));
    if decision.strategy == Strategy::SharedNothing {
        found.extend(by_each_worker(decision));
        found.extend(asked_by_commands(decision, objects));
    }
    found
}

/// What commands ask of entries that commands have stored on every worker, and that packets have changed since on one.
fn asked_by_commands(decision: &Decision<'_>, objects: &[Object]) -> Option<Difference> {
    let paths = decision.touches.paths;
    let is_divided = |name: &str| {
        objects.iter().any(|object| {
            let modes = [ObjectMode::Sharded, ObjectMode::Steered, ObjectMode::PerShard];
            object.name == name && modes.contains(&object.mode)
        })
    };
    let is_written = |name: &str, by_command: bool| {
        let is_by = |path: &&CallPath| (caller(path) == Caller::Control) == by_command;
        let mut accesses = paths.paths.iter().filter(is_by).flat_map(|path| &path.accesses);
        accesses.any(|access| access.object == name && access.mode == Mode::Write)
    };
    let of_control = paths.paths.iter().filter(|path| caller(path) == Caller::Control);
    let asked = of_control
        .flat_map(|path| path.accesses.iter().filter(|access| is_used(access, path, &paths.terms)));
    let lines: BTreeSet<u32> = asked
        .filter(|access| {
            let name = access.object.as_str();
            is_divided(name) && is_written(name, true) && is_written(name, false)
        })
        .map(|access| access.line)
        .collect();
    let what = "commands ask each worker here, are carried out where it accepts them, and fail where none does: of \
                what a command has stored on all, those know nothing of what packets have made of it on another";
    (!lines.is_empty()).then(|| difference(what, lines))
}

/// What is done once on one core, and by each worker for itself where nothing is shared: what commands, periods and
/// timers of theirs send, and count.
fn by_each_worker(decision: &Decision<'_>) -> Option<Difference> {
    let (paths, needs) = (decision.touches.paths, &decision.touches.needs);
    let timers = timers_of_control(paths);
    let mut lines = BTreeSet::new();
    for path in paths.paths.iter().filter(|path| match caller(path) {
        Caller::Control | Caller::Periodic | Caller::Shutdown => true,
        Caller::Timer => timers,
        Caller::Packet => false,
    }) {
        lines.extend(path.effects.iter().filter_map(|effect| match effect {
            Effect::Emit { line, .. } => Some(*line),
            Effect::SetExpiry { .. } | Effect::SetTimer { .. } => None,
        }));
        let counts = path.accesses.iter().filter(|access| {
            let object = decision.touches.object(&access.object);
            let need = object.and_then(|object| needs.get(object));
            access.mode == Mode::Write && need == Some(&Need::Distributed)
        });
        lines.extend(counts.map(|access| access.line));
    }
    let what = "commands, periods and the timers that they set are each worker's own: what is sent or counted \
                here is so once for each worker";
    (!lines.is_empty()).then(|| difference(what, lines))
}

fn capacities(decision: &Decision<'_>, objects: &[Object]) -> Option<Difference> {
    // Indices of allocators are given out once, whoever gives them. Beside what is shared only packet sets are divided.
    let are_sets = decision.strategy == Strategy::Mixed;
    let has_one_each = |object: &&Object| match object.mode {
        _ if are_sets && object.kind != "PacketSet" => false,
        ObjectMode::Sharded => !["Vector", "Allocator"].contains(&&*object.kind),
        ObjectMode::PerShard => object.kind != "Vector",
        _ => false,
    };
    let sharded = objects.iter().filter(has_one_each);
    let sized: Vec<&Object> = sharded.filter(|object| object.capacity.is_some()).collect();
    if sized.is_empty() {
        return None;
    }
    let names: Vec<String> = sized
        .iter()
        .map(|object| format!("`{}` ({})", object.name, object.capacity.as_deref().unwrap_or("")))
        .collect();
    let declared = decision.touches.paths.objects.iter();
    let lines = declared
        .filter(|known| sized.iter().any(|object| object.name == known.name))
        .map(|known| known.line);
    Some(difference(
        format!("each worker has tables of its own, each of the size set: {}", names.join(", ")),
        lines,
    ))
}

fn values(decision: &Decision<'_>, objects: &[Object]) -> Vec<Difference> {
    let pools = objects.iter().filter(|object| {
        object.kind == "Allocator"
            && matches!(object.mode, ObjectMode::Sharded | ObjectMode::Steered)
    });
    let line = |name: &str| {
        let mut all = decision.touches.paths.objects.iter();
        all.find(|known| known.name == name).map(|known| known.line)
    };
    pools
        .map(|object| {
            let mut what = format!("`{}` gives out other values than it would alone", object.name);
            if object.mode == ObjectMode::Sharded {
                what += "; workers lease its indices, up to 64 at a time, so that one may find none while \
                         others have some left";
            }
            difference(what, line(&object.name))
        })
        .collect()
}

/// Counts that each shard keeps for itself.
fn counts(objects: &[Object]) -> impl Iterator<Item = Difference> {
    let counts = objects.iter().filter(|object| object.mode == ObjectMode::PerShard);
    counts.map(|object| {
        let what = format!(
            "`{}` is counted by each shard's worker for itself: its limit holds for each worker, \
             not for all together",
            object.name
        );
        difference(what, object.lines.iter().copied())
    })
}

fn of_steering(steered: &SteeredAllocation) -> Difference {
    let fields: BTreeSet<&str> = steered.fields.values().map(String::as_str).collect();
    let fields: Vec<&str> = fields.into_iter().collect();
    let pool = match steered.lends {
        true => {
            "a shard whose share is used up takes indices of others, and hands over what brings them \
             (over captures, of which workers may be at different packets, what is answered may not be taken yet, and \
             what has ended not be free yet)"
        }
        false => "a shard's pool is that share of all",
    };
    let what = format!(
        "`{}` gives out indices whose {} at {} leads the reply to the shard that asks: a wanted value \
         is rarely one of them; {pool}; as long as the index does not wrap, {} + index % {} is that \
         field",
        steered.object,
        fields.join(", "),
        steered.port,
        if steered.base.is_empty() { "0" } else { &steered.base },
        steered.modulus,
    );
    difference(what, steered.lines.iter().copied())
}

fn interchangeable(decision: &Decision<'_>) -> Vec<Difference> {
    let all = decision.sharding.interchangeable.iter();
    let divided = all.filter(|(allocator, _)| !decision.sharding.refused.contains_key(allocator));
    divided.map(|(allocator, lines)| {
        let name = &decision.touches.paths.objects[*allocator].name;
        let what = format!(
            "what packets bring of `{name}` may be looked up in another shard than gave it out, which finds \
             nothing where one core finds what is not meant, as is compared here"
        );
        difference(what, lines.iter().copied())
    })
    .collect()
}

/// Entries that every shard has from the start.
fn initial(decision: &Decision<'_>) -> Vec<Difference> {
    let objects = &decision.touches.paths.objects;
    let made = objects.iter().enumerate().filter(|(at, _)| {
        decision.sharding.constraints.contains_key(at) && !decision.limits.contains(at)
    });
    let made: Vec<(&str, u32)> = made
        .filter_map(|(_, object)| Some((object.name.as_str(), object.written_by("init")?)))
        .collect();
    let quoted = |names: Vec<&str>| {
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let mut found = Vec::new();
    if !made.is_empty() {
        let names = quoted(made.iter().map(|(name, _)| *name).collect());
        let what = format!(
            "entries that `init` makes in {names} stand in every shard, and are not steered: what a packet \
             writes to one is seen in its shard only"
        );
        found.push(difference(what, made.iter().map(|(_, line)| *line)));
    }
    let under = decision.sharding.initial.iter().filter(|(at, _)| {
        let by_init = objects[**at].written_by("init").is_some();
        !by_init && decision.sharding.constraints.contains_key(at)
    });
    let under: Vec<_> = under.map(|(at, lines)| (objects[*at].name.as_str(), lines)).collect();
    if !under.is_empty() {
        let names = quoted(under.iter().map(|(name, _)| *name).collect());
        let what = format!(
            "what {names} holds under an index that `init` has noted is each shard's own: packets of \
             several shards that find the same index do not see what the others write there"
        );
        found.push(difference(what, under.iter().flat_map(|(_, lines)| lines.iter().copied())));
    }
    found
}

fn together(decision: &Decision<'_>, keys: &Keys) -> Vec<Difference> {
    let mut by_port: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (port, class) in &keys.together {
        by_port.entry(*port).or_default().push(class);
    }
    by_port
        .into_iter()
        .map(|(port, classes)| {
            let what = format!(
                "these packets of {} all go to one worker: {}",
                decision.ports[port],
                classes.join(", ")
            );
            difference(what, [])
        })
        .collect()
}

fn replicated(objects: &[Object]) -> Vec<Difference> {
    let all = objects.iter().filter(|object| object.mode == ObjectMode::Replicated);
    all.map(|object| {
        let what = match object.kind.as_str() {
            "L3" => format!(
                "a neighbour that one shard learns is known to the others of `{}` from their next packet on",
                object.name
            ),
            _ => format!("what is written to `{}` is seen from the next batch on", object.name),
        };
        difference(what, object.lines.iter().copied())
    })
    .collect()
}

/// Parts of keys that no equality could be had from.
fn notes(decision: &Decision<'_>) -> Vec<Difference> {
    let mut unused: BTreeMap<(usize, &str), BTreeSet<u32>> = BTreeMap::new();
    for (line, object, why) in &decision.sharding.unused {
        unused.entry((*object, why)).or_default().insert(*line);
    }
    let mut notes: Vec<Difference> = unused
        .into_iter()
        .map(|((object, why), lines)| {
            let name = &decision.touches.paths.objects[object].name;
            difference(format!("a part of the key of `{name}` {why}: nothing is made of it"), lines)
        })
        .collect();
    let cut: BTreeSet<u32> = decision.touches.paths.cut_off().collect();
    if !cut.is_empty() {
        let what = "a loop without a known end touches state, sets fields or sends: what its handler touches \
                    is not sharded by a key that code makes; let the loop only compute (find, count, \
                    choose), and touch state after it";
        notes.push(difference(what, cut));
    }
    if decision.touches.paths.statistics.unsolved {
        let what = "the solver z3 is not here: paths that no packet takes count too, and may make \
                    packets meet that need not";
        notes.push(difference(what, []));
    }
    let opaque = &decision.touches.paths.opaque;
    if !opaque.is_empty() {
        let what = format!(
            "taken as unknown functions, and trusted to be functions: {}",
            opaque.join(", ")
        );
        notes.push(difference(what, []));
    }
    let declared = &decision.touches.paths.declared;
    if !declared.is_empty() {
        let what = format!("declared of their results, and trusted: {}", declared.join(", "));
        notes.push(difference(what, []));
    }
    notes
}
